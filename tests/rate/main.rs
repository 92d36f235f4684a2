//! Rate problems: every derivative against finite differences, every threshold against counting or a closed form, every
//! equation of the chapters on thresholds.

#[path = "../common/mod.rs"]
mod common;
mod decoupled;
#[path = "../device/mod.rs"]
mod device;
mod errata;
mod games;
mod implicit;
mod problem;
mod samples;
mod smooth;
mod threshold;
mod training;
#[path = "../watched/mod.rs"]
mod watched;

use common::{assert_relative as assert_close, differences};
use lastlayer::prelude::*;

const SEED: Seed = Seed::new(2021);

/// Scores of `n` samples, about a third of them positive and one higher on average, never without both classes.
fn random(n: usize, seed: Seed) -> (Vec<f64>, Vec<u8>) {
    let y: Vec<u8> = (0..n).map(|i| u8::from(i == 0 || (i > 1 && seed.uniform(i as u64) < 0.35))).collect();
    let noise = seed.named("scores");
    let s = (0..n).map(|i| noise.normal(i as u64) + f64::from(y[i])).collect();
    (s, y)
}

/// Integral by Simpson's rule, over an even number of steps.
fn simpson(low: f64, high: f64, steps: usize, f: impl Fn(f64) -> f64) -> f64 {
    let step = (high - low) / steps as f64;
    let weight = |i: usize| if i == 0 || i == steps { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
    (0..=steps).map(|i| weight(i) * f(low + i as f64 * step)).sum::<f64>() * step / 3.0
}

/// Mean of a function of a standard normal number, to rounding if it is smooth on the scale 1/50.
fn normal_mean(f: impl Fn(f64) -> f64) -> f64 {
    simpson(-9.0, 9.0, 4000, |x| distribution::normal_density(x) * f(x))
}

/// Where a function changes its sign between two points.
#[track_caller]
fn bisect(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    let rising = f(high) > 0.0;
    assert_ne!(f(low) > 0.0, rising, "no change of sign between {low} and {high}");
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        *if (f(middle) > 0.0) == rising { &mut high } else { &mut low } = middle;
    }
    0.5 * (low + high)
}
