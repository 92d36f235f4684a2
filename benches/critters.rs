//! Critters per second, for `benches/run.py`: seconds per image of this process, and the sum of all pixels.

use std::time::Instant;

use lastlayer::prelude::*;

const IMAGES: usize = 6000;

fn main() -> Result<()> {
    let critters = Critters::new(Preset::Iid, Seed::new(7));
    critters.part(Part::Train, 100, &Device::Cpu)?;
    let started = Instant::now();
    let data = critters.part(Part::Train, IMAGES, &Device::Cpu)?;
    let seconds = started.elapsed().as_secs_f64() / IMAGES as f64;
    let first = data.x.narrow(0, 0, 200)?.flatten_all()?.to_vec1::<u8>()?;
    let sum: u64 = first.iter().map(|p| u64::from(*p)).sum();
    println!("seconds={seconds:e} images_per_second={:.0} sum={sum}", 1.0 / seconds);
    Ok(())
}
