//! The AUC of a million scores, checked, sorted and counted; `benches/auc.py` is the peer. Prints the value and the
//! median of ten.

use lastlayer::prelude::*;
use std::time::Instant;

fn main() -> Result<()> {
    let n = 1_000_000;
    let (label, noise) = (Seed::new(1), Seed::new(2));
    let y: Vec<u8> = (0..n).map(|c| u8::from(label.uniform(c) < 0.3)).collect();
    // On a grid of 2^20 steps, so that some scores tie.
    let grid = |u: f64| (u * 1_048_576.0).floor() / 1_048_576.0;
    let s: Vec<f64> = (0..n).zip(&y).map(|(c, y)| grid(noise.uniform(c)) + 0.25 * f64::from(*y)).collect();
    let auc = || -> Result<f64> { Ok(Scores::new(&s, &y)?.auc()) };
    println!("auc={}", auc()?);
    let mut seconds = Vec::new();
    for _ in 0..10 {
        let began = Instant::now();
        std::hint::black_box(auc()?);
        seconds.push(began.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    println!("seconds={}", seconds[5]);
    Ok(())
}
