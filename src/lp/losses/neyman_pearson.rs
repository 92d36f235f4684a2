//! Fewest false alarms at a given recall, or fewest misses at a given precision, with hinges: one root of a piecewise
//! linear function.

use candle_core::Tensor;

use super::{Classes, finite, margin_of_scores, share};
use crate::error::{Error, Result};
use crate::loss::with_gradient;
use crate::numbers::Numbers;

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
    pub gradient: Vec<f64>,
}

impl NeymanPearson {
    /// The value as a tensor that hands this gradient back to the scores it came from.
    ///
    /// Fails: `Shape` unless there are as many scores.
    pub fn on(&self, s: &Tensor) -> Result<Tensor> {
        with_gradient(s, &self.gradient, self.value)
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
/// Cost: O(n log n). Fails: `Shape`, `Data` as [`auc_loss`](super::auc_loss), `Config` for a recall outside [0, 1].
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
pub fn precision_at_recall(
    s: impl Numbers,
    y: impl Numbers,
    recall: f64,
    margin: f64,
) -> Result<NeymanPearson> {
    let s = &s.numbers()?[..];
    finite("scores", s)?;
    margin_of_scores(margin)?;
    share("recall", recall)?;
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
    Ok(NeymanPearson { value, threshold, multiplier, gradient })
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
/// Fails: `Data` if no threshold has the precision, else as [`precision_at_recall`].
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
    s: impl Numbers,
    y: impl Numbers,
    precision: f64,
    margin: f64,
) -> Result<NeymanPearson> {
    let s = &s.numbers()?[..];
    finite("scores", s)?;
    margin_of_scores(margin)?;
    share("precision", precision)?;
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
    Ok(NeymanPearson { value, threshold, multiplier, gradient })
}
