//! Fewest false alarms at a given recall, or fewest misses at a given precision, with hinges: one root of a piecewise
//! linear function.

use candle_core::{DType, Tensor};

use super::device::{OnDevice, absent, hinges};
use super::{Classes, ScoreGradient, finite, margin_of_scores, share};
use crate::error::{Error, Result};
use crate::numbers::AsF64;

/// Optimum of a Neyman–Pearson program.
///
/// ```
/// use lastlayer::prelude::*;
/// let s = Var::new(&[3.0f64, 2.0, 0.0, 4.0], &Device::Cpu)?;
/// let found = lp::precision_at_recall(s.as_tensor(), [1, 1, 0, 0], 1.0, 1.0)?;
/// assert!(found.gradient.iter().sum::<f64>().abs() < 1e-12); // the threshold moves along
/// let gradients = found.on(&s)?.backward()?;
/// assert_eq!(gradients.get(&s).expect("a gradient").to_vec1::<f64>()?, found.gradient);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NeymanPearson {
    /// Mean hinge of the negatives at a given recall, of the positives at a given precision.
    pub value: f64,
    /// The threshold that spends the budget.
    pub threshold: f64,
    /// What one unit of the budget is worth.
    pub multiplier: f64,
    /// Gradient in each score.
    pub gradient: ScoreGradient,
}

impl NeymanPearson {
    /// The value as a tensor that hands this gradient back to the scores it came from.
    ///
    /// Fails: `Shape` unless there are as many scores.
    pub fn on(&self, s: &Tensor) -> Result<Tensor> {
        self.gradient.on(s, self.value)
    }

    /// Of scores on a device: value, threshold and multiplier, and the gradient (1, n).
    fn from_device(found: &[f64], gradient: Tensor) -> Result<NeymanPearson> {
        let gradient = ScoreGradient::from_device(gradient.squeeze(0)?);
        Ok(NeymanPearson { value: found[0], threshold: found[1], multiplier: found[2], gradient })
    }

    /// Shows value, threshold and multiplier.
    pub fn evcxr_display(&self) {
        let text =
            format!("value {}, threshold {}, multiplier {}", self.value, self.threshold, self.multiplier);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// Least mean hinge of negatives above a threshold, while the mean hinge of positives below it is 1 − recall.
///
/// ```text
/// t:  mean_{y=1} max(0, margin − s + t) = 1 − recall          value = mean_{y=0} max(0, margin + s − t)
/// μ = (share of active negatives) / (share of active positives)
/// ∂value/∂s_j = [active]/n₋,   ∂value/∂s_i = −μ [active]/n₊                           their sum is zero
/// ```
/// The gradient is the implicit one of a rate problem with a hinge surrogate. Hinges bound counts only for a margin of
/// 1 or more: report rates from counts. There is a solution for every recall from 0 to 1. Shapes: `s` (n), `y` (n).
/// Cost: O(n log n). Host: of scores on a device the three numbers and two counts. Fails: `Shape`, `Data` as
/// [`auc_loss`](super::auc_loss), `Config` for a recall outside [0, 1].
/// Checked by `tests/lp/losses.rs::neyman_pearson_equals_its_linear_program`.
/// Book: `lp/metrics.md#eq-lp-metrics-np-gradient`, `#eq-lp-metrics-np-bound`.
///
/// ```
/// use lastlayer::prelude::*;
/// // All positives must be a margin above the threshold: t = 2 − 1. The negative at 4 is 4 too high.
/// let found = lp::precision_at_recall([3.0, 2.0, 0.0, 4.0], [1, 1, 0, 0], 1.0, 1.0)?;
/// assert_eq!((found.threshold, found.value), (1.0, 2.0));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn precision_at_recall(s: impl AsF64, y: impl AsF64, recall: f64, margin: f64) -> Result<NeymanPearson> {
    margin_of_scores(margin)?;
    share("recall", recall)?;
    if let Some(on_device) = OnDevice::binary(&s, &y)?
        && let Some(found) = precision_at_recall_of(&on_device, recall, margin)?
    {
        return Ok(found);
    }
    let s = &s.numbers()?[..];
    finite("scores", s)?;
    let classes = Classes::new(s.len(), &y)?;
    let (positives, negatives) = (classes.positive.len() as f64, classes.negative.len() as f64);
    let mut order = classes.positive.clone();
    order.sort_by(|i, j| s[*i].total_cmp(&s[*j]));
    let budget = (1.0 - recall) * positives;
    // With the k lowest positives active, k t − Σ (s − margin) = budget.
    let (mut sum, mut active, mut threshold) = (0.0, 0, 0.0);
    // Around the lowest, so that large scores of one sign cost no digits.
    let lowest = s[order[0]] - margin;
    for (k, i) in order.iter().enumerate() {
        sum += s[*i] - margin - lowest;
        (active, threshold) = (k + 1, (budget + sum) / (k + 1) as f64);
        if order.get(k + 1).is_none_or(|next| threshold <= s[*next] - margin - lowest) {
            break;
        }
    }
    threshold += lowest;
    let hinge = |j: &usize| margin + s[*j] - threshold;
    let called: Vec<usize> = classes.negative.iter().copied().filter(|j| hinge(j) > 0.0).collect();
    let value = called.iter().map(hinge).sum::<f64>() / negatives;
    let multiplier = (called.len() as f64 / negatives) / (active as f64 / positives);
    let mut gradient = vec![0.0; s.len()];
    called.iter().for_each(|j| gradient[*j] = 1.0 / negatives);
    order[..active].iter().for_each(|i| gradient[*i] = -multiplier / positives);
    Ok(NeymanPearson { value, threshold, multiplier, gradient: gradient.into() })
}

/// Precision at recall on a device: a positive is active if the hinges at its own kink leave some budget,
/// which takes no walk.
fn precision_at_recall_of(on_device: &OnDevice, recall: f64, margin: f64) -> Result<Option<NeymanPearson>> {
    let ([negative, positive], s) = (on_device.classes()?, on_device.s.unsqueeze(0)?);
    let (negatives, positives) = (total(&negative)?, total(&positive)?);
    let others = absent(&positive)?;
    let lowest = (&s + &others)?.min_keepdim(1)?;
    let above = s.broadcast_sub(&lowest)?;
    let kinks = (&above + others)?;
    let budget = (&positives * (1.0 - recall))?;
    let active = match recall < 1.0 {
        true => hinges(&kinks, &above)?.broadcast_lt(&budget)?.to_dtype(DType::F64)?.mul(&positive)?,
        // Without a budget the first of the lowest alone.
        false => {
            let places = Tensor::arange(0.0, s.dim(1)? as f64, s.device())?.unsqueeze(0)?;
            let at = (&places + absent(&kinks.eq(0.0)?.to_dtype(DType::F64)?)?)?;
            places.broadcast_eq(&at.min_keepdim(1)?)?.to_dtype(DType::F64)?
        }
    };
    let count = total(&active)?;
    let threshold = (((budget + total(&(&active * above)?)?)? / &count)? + (lowest - margin)?)?;
    let hinge = (s + margin)?.broadcast_sub(&threshold)?;
    let called = hinge.gt(0.0)?.to_dtype(DType::F64)?.mul(&negative)?;
    let value = (total(&(&called * hinge)?)? / &negatives)?;
    let multiplier = ((total(&called)? / &negatives)? / (count / &positives)?)?;
    let missed = active.broadcast_mul(&(&multiplier / positives)?)?;
    let gradient = (called.broadcast_div(&negatives)? - missed)?;
    let found = on_device.to_host(&[&value, &threshold, &multiplier], 0..2)?;
    found.map(|found| NeymanPearson::from_device(&found, gradient)).transpose()
}

/// The sum of each row (m, 1).
fn total(rows: &Tensor) -> Result<Tensor> {
    Ok(rows.sum_keepdim(1)?)
}

/// A sum of hinges this close to the budget, relative to both, meets it.
const ROUNDING: f64 = 1e-13;

/// Least mean hinge of positives below a threshold, while hinges count a precision of π.
///
/// ```text
/// t:  (1 − π)(n₊ − Σ_{y=1} max(0, margin − s + t)) = π Σ_{y=0} max(0, margin + s − t)          the lowest such t
/// value = mean_{y=1} max(0, margin − s + t),     μ = p / (π q − (1 − π) p),   p, q active positives and negatives
/// ∂value/∂s_i = −(1 + μ(1 − π)) [active]/n₊,     ∂value/∂s_j = μ π [active]/n₊               their sum is zero
/// ```
/// Both sides are piecewise linear in t: the kinks are walked in order. Shapes: `s` (n), `y` (n). Cost: O(n log n).
/// Host: as [`precision_at_recall`]. Fails: `Data` if no threshold has the precision, else as [`precision_at_recall`].
/// Checked by `tests/lp/losses.rs::recall_at_precision_equals_its_linear_program`.
/// Book: `lp/metrics.md#eq-lp-metrics-rp`.
///
/// ```
/// use lastlayer::prelude::*;
/// let (s, y) = ([2.0, 0.0, 1.0], [1, 1, 0]);
/// let found = lp::recall_at_precision(s, y, 0.6, 0.5)?;
/// let exact = NewtonLp::default().solve(&Lp::recall_at_precision(s, y, 0.6, 0.5)?)?;
/// assert!((found.value - exact.optimal()?.value).abs() < 1e-8);
/// // With every negative above every positive, no threshold is precise.
/// assert!(lp::recall_at_precision([0.0, 3.0], [1, 0], 0.99, 1.0).is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn recall_at_precision(
    s: impl AsF64,
    y: impl AsF64,
    precision: f64,
    margin: f64,
) -> Result<NeymanPearson> {
    margin_of_scores(margin)?;
    share("precision", precision)?;
    if let Some(on_device) = OnDevice::binary(&s, &y)?
        && let Some(found) = recall_at_precision_of(&on_device, precision, margin)?
    {
        return Ok(found);
    }
    let s = &s.numbers()?[..];
    finite("scores", s)?;
    let classes = Classes::new(s.len(), &y)?;
    let positives = classes.positive.len() as f64;
    // Where a positive begins to be missed, and where a negative is no longer called; each lifts the slope.
    let missed = classes.positive.iter().map(|i| (s[*i] - margin, *i, true));
    let called = classes.negative.iter().map(|j| (s[*j] + margin, *j, false));
    let mut kinks: Vec<(f64, usize, bool)> = missed.chain(called).collect();
    kinks.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut threshold = kinks[0].0;
    // π Σ ξ + (1 − π) Σ ζ − (1 − π) n₊, which must come down to zero.
    let alarms = precision * classes.negative.iter().map(|j| s[*j] + margin - threshold).sum::<f64>();
    let budget = (1.0 - precision) * positives;
    let (mut over, nothing) = (alarms - budget, ROUNDING * (alarms + budget));
    let mut slope = -precision * classes.negative.len() as f64;
    let mut passed = 0;
    while over > nothing {
        let lift = kinks.get(passed).map(|kink| if kink.2 { 1.0 - precision } else { precision });
        slope += lift.unwrap_or(f64::INFINITY);
        passed += 1;
        let next = kinks.get(passed).map_or(f64::INFINITY, |kink| kink.0);
        if next == threshold {
            continue;
        }
        if slope >= 0.0 {
            let why = format!("no threshold has precision {precision}, counted in hinges; ask for less");
            return Err(Error::data("scores", why));
        }
        let step = (next - threshold).min(-over / slope);
        threshold += step;
        over += slope * step;
    }
    let below: Vec<usize> = kinks[..passed].iter().filter(|kink| kink.2).map(|kink| kink.1).collect();
    let above: Vec<usize> = kinks[passed..].iter().filter(|kink| !kink.2).map(|kink| kink.1).collect();
    let p = below.len() as f64;
    let value = below.iter().map(|i| margin - s[*i] + threshold).sum::<f64>() / positives;
    // The slope is (1 − π) p − π q.
    let multiplier = if p == 0.0 { 0.0 } else { -p / slope };
    let mut gradient = vec![0.0; s.len()];
    below.iter().for_each(|i| gradient[*i] = -(1.0 + multiplier * (1.0 - precision)) / positives);
    above.iter().for_each(|j| gradient[*j] = multiplier * precision / positives);
    Ok(NeymanPearson { value, threshold, multiplier, gradient: gradient.into() })
}

/// Recall at precision on a device: both sides at every kink at once. The first that meets the budget ends
/// the walk; if there is none, the host says so.
fn recall_at_precision_of(
    on_device: &OnDevice,
    precision: f64,
    margin: f64,
) -> Result<Option<NeymanPearson>> {
    let ([negative, positive], s) = (on_device.classes()?, on_device.s.unsqueeze(0)?);
    let positives = total(&positive)?;
    let kinks = (s + ((&negative - &positive)? * margin)?)?;
    let lowest = kinks.min_keepdim(1)?;
    let kinks = kinks.broadcast_sub(&lowest)?;
    let budget = (&positives * (1.0 - precision))?;
    let alarms = (hinges(&(absent(&negative)? - &kinks)?, &kinks.neg()?)? * precision)?;
    let missed = (hinges(&(&kinks + absent(&positive)?)?, &kinks)? * (1.0 - precision))?;
    let nothing = ((total(&(&negative * &kinks)?)? * precision)? + &budget)?.affine(ROUNDING, 0.0)?;
    let over = (alarms + missed)?.broadcast_sub(&budget)?;
    let met = over.broadcast_le(&nothing)?.to_dtype(DType::F64)?;
    let first = (&kinks + absent(&met)?)?.min_keepdim(1)?;
    let passed = kinks.broadcast_lt(&first)?.to_dtype(DType::F64)?;
    let below = (&passed * positive)?;
    let above = (negative * (1.0 - passed)?)?;
    let p = total(&below)?;
    let slope = ((&p * (1.0 - precision))? - (total(&above)? * precision)?)?;
    // What the sum of both sides is at the lowest kink, if it went on as it does where it is zero.
    let start = ((total(&(&above * &kinks)?)? * precision)?
        - ((total(&(&below * &kinks)?)? * (1.0 - precision))? + budget)?)?;
    let root = (start / &slope)?.neg()?.minimum(&first)?;
    let threshold = first.eq(0.0)?.where_cond(&first, &root)?;
    let value = (total(&(&below * threshold.broadcast_sub(&kinks)?)?)? / &positives)?;
    // Without a positive below it is zero, also where the slope is.
    let multiplier = (&p / (p.eq(0.0)?.to_dtype(DType::F64)? - &slope)?)?;
    let each = [
        ((&multiplier * (precision - 1.0))? - 1.0)?.div(&positives)?,
        (&multiplier * precision)?.div(&positives)?,
    ];
    let gradient = (below.broadcast_mul(&each[0])? + above.broadcast_mul(&each[1])?)?;
    let threshold = (threshold + lowest)?;
    let found = on_device.to_host(&[&value, &threshold, &multiplier, &first, &slope], 0..2)?;
    let solved = |found: &Vec<f64>| found[3] == 0.0 || (found[3].is_finite() && found[4] < 0.0);
    found.filter(solved).map(|found| NeymanPearson::from_device(&found, gradient)).transpose()
}
