//! Two curves of 10 000 points as SVG text; `benches/figure.py` is the peer. Prints the median of ten.

use lastlayer::prelude::*;
use std::time::Instant;

fn main() -> Result<()> {
    let x: Vec<f64> = (0..10_000).map(|i| f64::from(i) * 1e-3).collect();
    let ours: Vec<f64> = x.iter().map(|v| v.sin() * (-0.1 * v).exp()).collect();
    let baseline: Vec<f64> = x.iter().map(|v| v.cos()).collect();
    let draw = || -> Result<usize> {
        let series =
            [Curve::new("ours", &x, &ours).method(), Curve::new("baseline", &x, &baseline).baseline()];
        Ok(curves(&series)?.labels("t", "amplitude").size(Size::Column).svg().len())
    };
    draw()?;
    let mut seconds = Vec::new();
    for _ in 0..10 {
        let began = Instant::now();
        std::hint::black_box(draw()?);
        seconds.push(began.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    println!("seconds={}", seconds[5]);
    Ok(())
}
