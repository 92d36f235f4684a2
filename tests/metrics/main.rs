//! Metrics against counts over all pairs, against scikit-learn and scipy (tests/oracle/metrics.py), against closed
//! forms, and under maps that must not change them.

mod calibration;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod confusion;
#[path = "../device/mod.rs"]
mod device;
mod interval;
mod multiclass;
mod ranking;
mod rates;

use common::assert_near;
use lastlayer::prelude::*;
use lastlayer::serde_json::Value;

/// Rounding of a few hundred additions in two different orders.
const ROUNDING: f64 = 1e-12;

/// Four standard errors: a right answer fails such a test once in 16 000 runs, and ours always runs the same.
const STANDARD_ERRORS: f64 = 4.0;

const SEED: Seed = Seed::new(2024);

/// A part of what the peers computed.
fn oracle(part: &str) -> Value {
    let text = std::fs::read_to_string("tests/oracle/metrics.json").unwrap();
    lastlayer::serde_json::from_str::<Value>(&text).unwrap()[part].clone()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn list(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

#[track_caller]
fn assert_lists_close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).for_each(|(got, want)| assert_near(*got, *want, tolerance));
}

#[track_caller]
fn assert_config<T: std::fmt::Debug>(results: Vec<Result<T>>) {
    for (i, result) in results.into_iter().enumerate() {
        assert!(matches!(result, Err(Error::Config { .. })), "input {i} gave {result:?}");
    }
}

#[track_caller]
fn assert_data<T: std::fmt::Debug>(results: Vec<Result<T>>) {
    for (i, result) in results.into_iter().enumerate() {
        assert!(matches!(result, Err(Error::Data { .. })), "input {i} gave {result:?}");
    }
}

#[track_caller]
fn assert_shape<T: std::fmt::Debug>(results: Vec<Result<T>>) {
    for (i, result) in results.into_iter().enumerate() {
        assert!(matches!(result, Err(Error::Shape { .. })), "input {i} gave {result:?}");
    }
}

/// A small sample with many ties: scores in 0..8, both classes present.
fn tied(case: u64, n: usize) -> (Vec<f64>, Vec<u8>) {
    let seed = SEED.stream(case);
    let mut y: Vec<u8> = (0..n as u64).map(|c| u8::from(seed.uniform(c) < 0.4)).collect();
    (y[0], y[1]) = (0, 1);
    let s = (0..n).map(|c| seed.stream(1).below(c as u64, 7).unwrap() as f64 + f64::from(y[c])).collect();
    (s, y)
}

/// Unit Gaussians with their means `gap` apart.
fn gaussians(seed: Seed, n_positive: usize, n_negative: usize, gap: f64) -> Scores {
    let n = (n_positive + n_negative) as u64;
    let y: Vec<u8> = (0..n).map(|c| u8::from(c < n_positive as u64)).collect();
    let s: Vec<f64> = (0..n).map(|c| seed.normal(c) + gap * f64::from(y[c as usize])).collect();
    Scores::new(s, y).unwrap()
}

/// Numbers of the pairs of (positive, negative) in input order.
fn of_class(s: &[f64], y: &[u8], class: u8) -> Vec<f64> {
    s.iter().zip(y).filter(|(_, y)| **y == class).map(|(s, _)| *s).collect()
}

/// The AUC as its definition says, over all pairs.
fn auc_by_pairs(s: &[f64], y: &[u8]) -> f64 {
    let (positive, negative) = (of_class(s, y, 1), of_class(s, y, 0));
    let win = |p: f64, n: f64| if p > n { 1.0 } else { 0.5 * f64::from(u8::from(p == n)) };
    let wins: f64 = positive.iter().flat_map(|p| negative.iter().map(move |n| win(*p, *n))).sum();
    wins / (positive.len() * negative.len()) as f64
}

/// Rates of the rule s > t: true positives, false positives.
fn counts_above(s: &[f64], y: &[u8], t: f64) -> (usize, usize) {
    let above = |class| of_class(s, y, class).iter().filter(|s| **s > t).count();
    (above(1), above(0))
}

/// Every threshold that can matter.
fn all_thresholds(s: &[f64]) -> Vec<f64> {
    let mut t = s.to_vec();
    t.push(f64::NEG_INFINITY);
    t.sort_by(f64::total_cmp);
    t.dedup();
    t
}

#[test]
fn every_result_can_be_shown() -> Result<()> {
    let (s, y) = tied(1, 30);
    let scores = Scores::new(&s, &y)?;
    scores.evcxr_display();
    scores.roc().evcxr_display();
    scores.precision_recall().evcxr_display();
    scores.confusion(3.0)?.evcxr_display();
    scores.auc_interval(0.95)?.evcxr_display();
    delong(&s, s.iter().map(|v| v * v).collect::<Vec<_>>(), &y, 0.95)?.evcxr_display();
    mcnemar(&y, &y)?.evcxr_display();
    Calibration::new([0.0, 0.5], [1, 1], Bins::EqualMass(2))?.evcxr_display();
    ClassScores::new(ndarray::arr2(&[[0.0, 1.0], [1.0, 0.0]]), [1, 1])?.evcxr_display();
    Ok(())
}
