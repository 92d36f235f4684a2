//! Exact metrics: counts, not surrogates, with intervals and tests, so that a table can say how sure it is.
//!
//! ```text
//! Scores       one score per sample, labels 0/1     AUC, ROC, rates at thresholds, precision and recall
//! ClassScores  one score per sample and class       accuracy, AUC one against all, AUC_mu
//! Confusion    counts of true and predicted class   rates, F, phi
//! Calibration  probabilities against outcomes       ECE, Brier, log loss, reliability
//! Estimate     a number with its interval           Clopper-Pearson, Wilson, DeLong, bootstrap, Student
//! Comparison   two methods on the same data         DeLong, paired t; McNemar
//! ```
//! One decision rule everywhere: positive if and only if `s > t`, strictly. Input may be a candle tensor, an ndarray
//! array, a vector or a slice (see [`AsF64`]). It is checked once, when a type is made; what is undefined (0/0) is
//! an error that says so, never NaN.
//!
//! ```
//! use lastlayer::prelude::*;
//! let scores = Scores::new([0.9, 0.8, 0.3, 0.6, 0.1], [1, 1, 1, 0, 0])?;
//! assert_eq!(scores.auc(), 5.0 / 6.0);
//! // At a threshold, counts; over the counts, rates.
//! let at_half = scores.confusion(0.5)?;
//! assert_eq!((at_half.tpr()?, at_half.fpr()?), (2.0 / 3.0, 0.5));
//! // A number without an interval says half.
//! let interval = rate_interval(2, 3, 0.95)?;
//! assert!(interval.low < 0.1 && interval.high > 0.99);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod calibration;
mod compare;
mod confusion;
mod factorial;
mod interval;
mod multiclass;
mod ranking;
mod rates;
mod scores;

pub use calibration::{Bin, Bins, Calibration};
pub use compare::{Comparison, McNemar, delong, mcnemar, paired};
pub use confusion::{Confusion, phi};
pub use factorial::{Factorial, factorial};
pub use interval::{Estimate, Statistic, mean_interval, rate_interval, wilson_interval};
pub use multiclass::ClassScores;
pub use ranking::{PrecisionRecall, Roc};
pub use scores::Scores;

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::numbers::AsF64;

/// Numbers of which every one is finite; at least one. Host: all of them.
fn finite<'a>(what: &str, values: &'a impl AsF64) -> Result<Cow<'a, [f64]>> {
    let values = values.numbers()?;
    if values.is_empty() {
        return Err(Error::shape(what, "at least one number", "none"));
    }
    // Two passes: the common one, without early exit, runs at the speed of memory.
    if !values.iter().fold(true, |all, v| all & v.is_finite()) {
        let at = values.iter().position(|v| !v.is_finite()).unwrap_or(0);
        let got = format!("{} at index {at}", values[at]);
        return Err(Error::config(
            what,
            got,
            "finite numbers; look for an overflow or a 0/0 before this line",
        ));
    }
    Ok(values)
}

/// Classes, each a whole number below `k`; at least one. Host: all of them.
fn classes(what: &str, values: &impl AsF64, k: usize) -> Result<Vec<usize>> {
    let values = values.numbers()?;
    if values.is_empty() {
        return Err(Error::shape(what, "at least one class", "none"));
    }
    let wrong = |v: &f64| !(*v >= 0.0 && *v < k as f64 && v.fract() == 0.0);
    if let Some(at) = values.iter().position(wrong) {
        let got = format!("{} at index {at}", values[at]);
        return Err(Error::config(what, got, format!("whole numbers from 0 to {}", k - 1)));
    }
    Ok(values.iter().map(|v| *v as usize).collect())
}

/// At least two classes.
fn class_count(k: usize) -> Result<usize> {
    if k < 2 {
        return Err(Error::config("number of classes", k, "at least 2"));
    }
    Ok(k)
}

/// A share of something: a rate, a recall, a precision.
fn share(what: &str, value: f64) -> Result<f64> {
    if !(0.0..=1.0).contains(&value) {
        return Err(Error::config(what, value, "0 to 1; 5 % is 0.05"));
    }
    Ok(value)
}

/// The level of an interval.
fn confidence(level: f64) -> Result<f64> {
    if !(level > 0.0 && level < 1.0) {
        return Err(Error::config("level of an interval", level, "strictly between 0 and 1, such as 0.95"));
    }
    Ok(level)
}

/// The weight of recall against precision in an F score.
fn recall_weight(beta: f64) -> Result<f64> {
    if !(beta > 0.0 && beta.is_finite()) {
        return Err(Error::config("beta of an F score", beta, "a positive number; 1 weighs both alike"));
    }
    Ok(beta)
}

/// F from counts: (1 + β²) TP / ((1 + β²) TP + β² FN + FP); the caller knows that the sum below is not zero.
fn f_of_counts(beta: f64, tp: f64, missed: f64, false_alarms: f64) -> f64 {
    let hits = (1.0 + beta * beta) * tp;
    hits / (hits + beta * beta * missed + false_alarms)
}
