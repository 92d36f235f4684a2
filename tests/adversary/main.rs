//! Attributes that push each other out of the features: every equation of Part V.

#[path = "../common/mod.rs"]
mod common;
mod correlation;
#[path = "../device/mod.rs"]
mod device;
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
#[path = "../watched/mod.rs"]
mod watched;

use common::{all_near, differences, message, near};

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
