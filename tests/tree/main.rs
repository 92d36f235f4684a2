//! Trees on codes: the fit against all splits one by one, the same bits on every way to them, drawings, soft trees, and
//! every equation of the chapter.

mod cart;
mod codes;
#[path = "../common/mod.rs"]
mod common;
#[path = "../device/mod.rs"]
mod device;
mod draw;
mod soft;
mod trees;

use common::{all_near, differences, message, near};
use lastlayer::ndarray::Array2;
use lastlayer::seed::Seed;
use lastlayer::tree::{Codes, Criterion};

const SEED: Seed = Seed::new(23);
const BOTH: [Criterion; 2] = [Criterion::Information, Criterion::Variance];

/// Codes without any structure.
fn noise(n: usize, d: usize, levels: usize, seed: Seed) -> Codes {
    let values = (0..n * d).map(|i| seed.below(i as u64, levels).unwrap() as u8);
    Codes::from_bytes(values.collect(), d, levels).unwrap()
}

/// Probabilities without structure: numbers of size e to the power of a normal, over their sum.
fn soft(n: usize, k: usize, seed: Seed) -> Array2<f64> {
    let mut p = Array2::from_shape_fn((n, k), |(i, c)| (1.5 * seed.normal((i * k + c) as u64)).exp());
    p.rows_mut().into_iter().for_each(|mut row| row /= row.sum());
    p
}

/// Probabilities in units of 2⁻²⁰, which fixed point and f64 both hold exactly, and some of which are zero.
fn dyadic(n: usize, k: usize, seed: Seed) -> Array2<f64> {
    let unit = (1u64 << 20) as f64;
    let mut p = Array2::zeros((n, k));
    for i in 0..n {
        let mut left = unit;
        for c in 0..k - 1 {
            let u = seed.uniform((i * k + c) as u64);
            // Every fifth is zero.
            let own = if u < 0.2 { 0.0 } else { (left * u).floor() };
            p[[i, c]] = own / unit;
            left -= own;
        }
        p[[i, k - 1]] = left / unit;
    }
    p
}

/// A class for each row, with probability one.
fn one_hot(labels: &[usize], k: usize) -> Array2<f64> {
    Array2::from_shape_fn((labels.len(), k), |(i, c)| f64::from(u8::from(labels[i] == c)))
}

/// Probabilities that the first codes of a row explain in part, so that trees on them are deep.
fn planted(codes: &Codes, k: usize, seed: Seed) -> Array2<f64> {
    let mut p = Array2::zeros((codes.n(), k));
    for (i, row) in codes.rows().enumerate() {
        for c in 0..k {
            let code = f64::from(row[c % codes.d()]) / codes.levels() as f64;
            let sign = if c % 2 == 0 { 3.0 } else { -3.0 };
            p[[i, c]] = (sign * code + 0.5 * seed.normal((i * k + c) as u64)).exp();
        }
    }
    p.rows_mut().into_iter().for_each(|mut row| row /= row.sum());
    p
}

/// Sum of the probabilities of some rows.
fn total(p: &Array2<f64>, rows: &[usize]) -> Vec<f64> {
    (0..p.ncols()).map(|c| rows.iter().map(|i| p[[*i, c]]).sum()).collect()
}

/// Entropy of a vector of sums, times its total.
fn entropy(sums: &[f64]) -> f64 {
    let all: f64 = sums.iter().sum();
    sums.iter().filter(|s| **s > 0.0).map(|s| -s * (s / all).ln()).sum()
}

fn square(v: &[f64]) -> f64 {
    v.iter().map(|v| v * v).sum()
}

/// The gain of a split by the textbook, from the rows themselves.
fn gain(p: &Array2<f64>, low: &[usize], high: &[usize], criterion: Criterion) -> f64 {
    let both = [low, high].concat();
    let [s, l, h] = [&both[..], low, high].map(|rows| total(p, rows));
    match criterion {
        Criterion::Information => entropy(&s) - entropy(&l) - entropy(&h),
        Criterion::Variance => {
            square(&l) / low.len() as f64 + square(&h) / high.len() as f64 - square(&s) / both.len() as f64
        }
    }
}

/// The rows that go low and those that go high.
fn divided(codes: &Codes, rows: &[usize], feature: usize, threshold: u8) -> [Vec<usize>; 2] {
    let (low, high) = rows.iter().partition(|i| codes.row(**i)[feature] <= threshold);
    [low, high]
}
