//! Attributes that push each other out of the features: every equation of Part V.

mod correlation;
mod evidence;
mod game;
mod invariance;
mod net;
mod noise;
mod pairs;
mod paper;
mod price;
mod racing;
mod sharing;
mod training;
mod transfer;

/// ln(1 + eˢ), finite for every s.
fn softplus(s: f64) -> f64 {
    s.max(0.0) + (-s.abs()).exp().ln_1p()
}

fn logistic(s: f64) -> f64 {
    1.0 / (1.0 + (-s).exp())
}

fn log_odds(p: f64) -> f64 {
    (p / (1.0 - p)).ln()
}

/// Logistic loss of a score.
fn loss(s: f64, y: f64) -> f64 {
    softplus(s) - y * s
}

/// Entropy of a label that is 1 with probability p, in nats.
fn entropy(p: f64) -> f64 {
    [p, 1.0 - p].iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// Central differences of a function in each entry of its argument.
fn differences(at: &[f64], step: f64, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let moved = |i: usize, by: f64| {
        let mut at = at.to_vec();
        at[i] += by;
        f(&at)
    };
    (0..at.len()).map(|i| (moved(i, step) - moved(i, -step)) / (2.0 * step)).collect()
}

/// Fails unless two numbers differ by at most the tolerance.
#[track_caller]
fn near(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance, "{a} and {b} differ by {:e}", (a - b).abs());
}

/// Fails unless two lists agree entry by entry.
#[track_caller]
fn all_near(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).for_each(|(a, b)| near(*a, *b, tolerance));
}

/// The message of an error.
#[track_caller]
fn message<T>(result: lastlayer::error::Result<T>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}
