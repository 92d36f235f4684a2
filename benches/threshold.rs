//! The smooth threshold of a million scores, solved to twelve digits; `benches/threshold.py` is the peer.

use lastlayer::prelude::*;
use std::time::Instant;

fn main() -> Result<()> {
    // Not random, so that the peer has the same numbers without our generator.
    let s: Vec<f64> =
        (0..1_000_000).map(|i| 3.0 * (0.7361 * f64::from(i)).sin() + f64::from(i % 1000) / 500.0).collect();
    let mut seconds = Vec::new();
    let mut root = smooth_threshold(&s, 0.01, 10.0, None)?;
    for _ in 0..7 {
        let began = Instant::now();
        root = smooth_threshold(&s, 0.01, 10.0, None)?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    println!(
        "threshold={} passes={} residual={:e} seconds={}",
        root.threshold, root.passes, root.residual, seconds[3]
    );
    Ok(())
}
