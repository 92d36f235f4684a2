//! F scores: the soft loss for training, the best decision from marginals, and the exact one from a joint law.

use candle_core::Tensor;
use ndarray::Array2;

use super::device::OnDevice;
use super::{Classes, Loss, ScoreGradient, finite, share};
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::AsF64;

/// How a score becomes a soft decision r between 0 and 1.
///
/// Book: `lp/metrics.md#eq-lp-metrics-trap`.
///
/// ```
/// use lastlayer::prelude::*;
/// assert_eq!(FLink::Sigmoid.decide(0.0), (0.5, 0.25)); // soft decision and its slope
/// assert_eq!(FLink::Ramp { margin: 1.0 }.decide(2.0), (1.0, 0.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FLink {
    /// r = σ(s).
    Sigmoid,
    /// r = clip(½ + s / (2 margin), 0, 1).
    Ramp { margin: f64 },
}

/// A decision for every sample, and the F score it is worth.
///
/// ```
/// use lastlayer::prelude::*;
/// let best = lp::f_decide([0.0, 1.0], 1.0)?; // a sure negative and a sure positive
/// assert_eq!((best.value, best.called), (1.0, vec![false, true]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedF {
    pub value: f64,
    pub called: Vec<bool>,
}

impl FLink {
    /// The soft decision of a score, and its slope.
    pub fn decide(self, s: f64) -> (f64, f64) {
        match self {
            FLink::Sigmoid => {
                let e = (-s.abs()).exp();
                let (high, low) = (1.0 / (1.0 + e), e / (1.0 + e));
                (if s >= 0.0 { high } else { low }, high * low)
            }
            FLink::Ramp { margin } => {
                let r = 0.5 + s / (2.0 * margin);
                (r.clamp(0.0, 1.0), if r > 0.0 && r < 1.0 { 0.5 / margin } else { 0.0 })
            }
        }
    }

    /// Soft decisions of a tensor of scores, and their slopes.
    fn decide_each(self, s: &Tensor) -> Result<(Tensor, Tensor)> {
        match self {
            FLink::Sigmoid => {
                let e = s.abs()?.neg()?.exp()?;
                let high = (&e + 1.0)?.recip()?;
                let low = (e * &high)?;
                Ok((s.ge(0.0)?.where_cond(&high, &low)?, (high * low)?))
            }
            FLink::Ramp { margin } => {
                let r = s.affine(0.5 / margin, 0.5)?;
                let inside = (r.gt(0.0)? * r.lt(1.0)?)?.to_dtype(s.dtype())?;
                Ok((r.clamp(0.0, 1.0)?, (inside * (0.5 / margin))?))
            }
        }
    }

    fn check(self) -> Result<()> {
        match self {
            FLink::Ramp { margin } => super::margin_of_scores(margin),
            FLink::Sigmoid => Ok(()),
        }
    }
}

impl ExpectedF {
    /// Shows the value and how many are called positive.
    pub fn evcxr_display(&self) {
        let called = self.called.iter().filter(|c| **c).count();
        evcxr_runtime::mime_type("text/plain")
            .text(format!("F {} with {called} called positive", self.value));
    }
}

/// The weight of recall against precision: positive and finite.
pub(crate) fn recall_weight(beta: f64) -> Result<f64> {
    if beta > 0.0 && beta.is_finite() {
        return Ok(beta * beta);
    }
    Err(Error::config("beta of an F score", beta, "a positive number; 1 weighs both alike"))
}

/// One minus the soft F score, the optimum of the F program, with its gradient.
///
/// ```text
/// F = (1 + β²) Σ_{y=1} r / (β²n₊ + Σ r)        ∂F/∂r = ((1 + β²)[y = 1] − F) / (β²n₊ + Σ r)
/// ```
/// r = link(s). A link in [0, 1] keeps the denominator positive; a hinge would not. Start from a network trained for a
/// few epochs on cross entropy: where all r are near 1 the gradient vanishes. Shapes: `s` (n), `y` (n). Cost: O(n).
/// Host: of scores on a device the value and two counts. Fails: `Shape`, `Data` without a positive or for bad entries,
/// `Config` for β or a margin that is not positive.
/// Checked by `tests/lp/losses.rs::f_loss_equals_its_linear_program`.
/// Book: `lp/metrics.md#eq-lp-metrics-f-soft`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Soft decisions of one half everywhere: F = 2·½ / (1 + 2·½) for one positive of two.
/// let loss = f_loss([0.0, 0.0], [1, 0], 1.0, FLink::Sigmoid)?;
/// assert!((loss.value - 0.5).abs() < 1e-12);
/// assert!(loss.gradient[0] < 0.0 && loss.gradient[1] > 0.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn f_loss(s: impl AsF64, y: impl AsF64, beta: f64, link: FLink) -> Result<Loss> {
    link.check()?;
    let weight = recall_weight(beta)?;
    if let Some(on_device) = OnDevice::binary(&s, &y)? {
        let (positive, (r, slope)) = (on_device.members.get(1)?, link.decide_each(&on_device.s)?);
        let under = ((positive.sum_all()? * weight)? + r.sum_all()?)?;
        let value = ((&positive * r)?.sum_all()? * (1.0 + weight))?.div(&under)?;
        let worth = (positive * (1.0 + weight))?.broadcast_sub(&value)?.neg()?;
        let gradient = (slope * worth.broadcast_div(&under)?)?;
        if let Some(found) = on_device.to_host(&[&value], 1..2)? {
            return Ok(Loss { value: 1.0 - found[0], gradient: ScoreGradient::from_device(gradient) });
        }
    }
    let s = &s.numbers()?[..];
    finite("scores", s)?;
    let classes = Classes::any(s.len(), &y)?;
    positives(&classes)?;
    let (r, slope): (Vec<f64>, Vec<f64>) = s.iter().map(|s| link.decide(*s)).unzip();
    let under = weight * classes.positive.len() as f64 + r.iter().sum::<f64>();
    let value = (1.0 + weight) * classes.positive.iter().map(|i| r[*i]).sum::<f64>() / under;
    let mut gradient: Vec<f64> = slope.iter().map(|slope| slope * value / under).collect();
    classes.positive.iter().for_each(|i| gradient[*i] -= slope[*i] * (1.0 + weight) / under);
    Ok(Loss { value: 1.0 - value, gradient: gradient.into() })
}

/// That there is a positive: F has no value without one.
pub(crate) fn positives(classes: &Classes) -> Result<()> {
    if classes.positive.is_empty() {
        return Err(Error::data("labels", "there is no positive, so F has no value; take larger batches"));
    }
    Ok(())
}

/// The decision that is best for F when every η is the chance of a positive: a threshold at F*/(1 + β²).
///
/// ```text
/// max_h (1 + β²) ηᵀh / (β² Σ η + Σ h)        the best k of the n largest, after one sort
/// ```
/// A ratio of means, not the mean of F: see [`expected_f`]. Shapes: `eta` (n) in [0, 1]. Cost: O(n log n). Host: all
/// chances, since what is decided is a list. Fails: `Data` unless every η is a chance and one is positive. Checked by
/// `tests/lp/losses.rs::f_decide_is_the_best_of_all_subsets`.
/// Book: `lp/metrics.md#eq-lp-metrics-f-infer`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Calling both gives 2·1.2 / (1.2 + 2), calling the first alone 2·0.9 / (1.2 + 1).
/// let best = lp::f_decide([0.9, 0.3], 1.0)?;
/// assert_eq!(best.called, [true, false]);
/// assert!((best.value - 1.8 / 2.2).abs() < 1e-12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn f_decide(eta: impl AsF64, beta: f64) -> Result<ExpectedF> {
    let eta = &eta.numbers()?[..];
    chances(eta)?;
    let weight = recall_weight(beta)?;
    let total: f64 = eta.iter().sum();
    let mut order: Vec<usize> = (0..eta.len()).collect();
    order.sort_by(|i, j| eta[*j].total_cmp(&eta[*i]));
    let (mut sum, mut best, mut count) = (0.0, 0.0, 0);
    for (k, i) in order.iter().enumerate() {
        sum += eta[*i];
        let value = (1.0 + weight) * sum / (weight * total + (k + 1) as f64);
        if value > best {
            (best, count) = (value, k + 1);
        }
    }
    let mut called = vec![false; eta.len()];
    order[..count].iter().for_each(|i| called[*i] = true);
    Ok(ExpectedF { value: best, called })
}

pub(crate) fn chances(eta: &[f64]) -> Result<()> {
    finite("chances", eta)?;
    if let Some(i) = eta.iter().position(|p| !(0.0..=1.0).contains(p)) {
        return Err(Error::data("chances", format!("entry {i} is {}; a chance is 0 to 1", eta[i])));
    }
    if eta.iter().all(|p| *p == 0.0) {
        return Err(Error::data("chances", "all are zero, so F has no value; at least one must be positive"));
    }
    Ok(())
}

/// The decision with the highest expected F under a joint law of the labels.
///
/// ```text
/// Δ_ik = Σ_s P_is (1 + β²)/(β²s + k),   best_k = Σ of the k largest Δ_ik,   k = 0: Pr(no positive), with F(∅, ∅) = 1
/// ```
/// P_is = Pr(y_i = 1 and s positives in all), column s − 1. Shapes: `joint` (n, n). Cost: O(n³); an oracle for small n.
/// Fails: `Shape` unless it is square, `Config` for β not positive or `none` not a chance, `Data` for bad entries.
/// Checked by `tests/lp/losses.rs::expected_f_is_the_best_of_all_decisions`.
///
/// ```
/// use lastlayer::prelude::*;
/// let (joint, none) = lp::independent_joint([0.5, 0.5])?;
/// let best = lp::expected_f(&joint, none, 1.0)?;
/// // Both called: one positive in one case of two gives F = 2/3, two in a quarter of cases F = 1.
/// assert!((best.value - (0.5 * 2.0 / 3.0 + 0.25)).abs() < 1e-12);
/// assert_eq!(best.called, [true, true]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn expected_f(joint: &Array2<f64>, none: f64, beta: f64) -> Result<ExpectedF> {
    let n = joint.nrows();
    ensure_shape("joint chances", &[n, n][..], joint.shape())?;
    finite("joint chances", &joint.iter().copied().collect::<Vec<f64>>())?;
    share("chance of no positive", none)?;
    let weight = recall_weight(beta)?;
    let mut best = ExpectedF { value: none, called: vec![false; n] };
    for k in 1..=n {
        let worth = |s: usize| (1.0 + weight) / (weight * (s + 1) as f64 + k as f64);
        let gain: Vec<f64> = joint
            .rows()
            .into_iter()
            .map(|row| row.iter().enumerate().map(|(s, p)| p * worth(s)).sum())
            .collect();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|i, j| gain[*j].total_cmp(&gain[*i]));
        let value: f64 = order[..k].iter().map(|i| gain[*i]).sum();
        if value > best.value {
            let mut called = vec![false; n];
            order[..k].iter().for_each(|i| called[*i] = true);
            best = ExpectedF { value, called };
        }
    }
    Ok(best)
}

/// The joint chances that [`expected_f`] takes, for independent labels, and the chance of no positive.
///
/// Cost: O(n³). Host: all chances. Fails: `Data` unless every entry is a chance and one is positive.
///
/// ```
/// use lastlayer::prelude::*;
/// let (joint, none) = lp::independent_joint([0.5, 0.5])?;
/// assert_eq!(none, 0.25);
/// assert_eq!(joint, ndarray::array![[0.25, 0.25], [0.25, 0.25]]); // alone, and both
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn independent_joint(eta: impl AsF64) -> Result<(Array2<f64>, f64)> {
    let eta = &eta.numbers()?[..];
    chances(eta)?;
    let n = eta.len();
    let mut joint = Array2::zeros((n, n));
    for i in 0..n {
        // Law of the number of positives among the others.
        let mut law = vec![1.0];
        for (_, p) in eta.iter().enumerate().filter(|(j, _)| *j != i) {
            let mut next = vec![0.0; law.len() + 1];
            for (s, mass) in law.iter().enumerate() {
                next[s] += mass * (1.0 - p);
                next[s + 1] += mass * p;
            }
            law = next;
        }
        law.iter().enumerate().for_each(|(s, mass)| joint[[i, s]] = eta[i] * mass);
    }
    Ok((joint, eta.iter().map(|p| 1.0 - p).product()))
}
