//! Linear programs: every optimum against HiGHS or a closed form, every gradient against finite differences, every claim
//! of a solver against its certificate.
#![allow(non_snake_case)]

mod algebra;
mod backward;
mod certificate;
mod concordance;
mod definitions;
mod differentiating;
mod errata;
mod families;
mod layer;
mod losses;
mod metrics;
mod newton;
mod penalties;
mod piecewise;
mod program;
mod published;
mod rivals;
mod smooth;
mod solve;

use lastlayer::lp::{Lp, Matrix};
use lastlayer::ndarray::Array2;
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(2021);

/// Dense matrix from its rows.
fn rows<const N: usize>(rows: &[[f64; N]]) -> Matrix {
    Matrix::Dense(Array2::from(rows.to_vec()))
}

/// min c'z subject to A z ≤ b, from rows.
fn lp<const N: usize>(a: &[[f64; N]], b: &[f64], c: &[f64]) -> Lp {
    Lp::new(rows(a), b, c).unwrap()
}

/// Number `c` of about standard normal ones, the same in every language.
fn bell(seed: Seed, c: usize) -> f64 {
    seed.irwin_hall(12 * c as u64)
}

fn bells(seed: Seed, n: usize) -> Vec<f64> {
    (0..n).map(|c| bell(seed, c)).collect()
}

fn uniforms(seed: Seed, n: usize) -> Vec<f64> {
    (0..n).map(|c| seed.uniform(c as u64)).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Scores of `n` samples, some positive and one higher on average, never without both classes.
fn scores(n: usize, seed: Seed) -> (Vec<f64>, Vec<u8>) {
    let y: Vec<u8> = (0..n).map(|i| u8::from(i == 0 || (i > 1 && seed.uniform(i as u64) < 0.4))).collect();
    let noise = seed.named("scores");
    ((0..n).map(|i| bell(noise, i) + f64::from(y[i])).collect(), y)
}

/// Central difference of a function of a list in each of its entries.
fn differences(at: &[f64], step: f64, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let moved = |i: usize, by: f64| {
        let mut at = at.to_vec();
        at[i] += by;
        f(&at)
    };
    (0..at.len()).map(|i| (moved(i, step) - moved(i, -step)) / (2.0 * step)).collect()
}

/// Fails unless two lists agree entry by entry, relative to the largest of them or 1.
#[track_caller]
fn assert_close(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    let scale = a.iter().chain(b).fold(1.0f64, |most, v| most.max(v.abs()));
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= tolerance * scale, "entry {i}: {a} and {b}, scale {scale}");
    }
}

fn median(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    values[values.len() / 2]
}
