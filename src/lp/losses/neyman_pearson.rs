//! Fewest false alarms at a given recall, with hinges: one root of a piecewise linear function.

use super::{Classes, finite, margin_of_scores, share};
use candle_core::Tensor;

use crate::error::Result;
use crate::loss::with_gradient;
use crate::numbers::Numbers;

/// Optimum of the Neyman–Pearson program.
#[derive(Clone, Debug, PartialEq)]
pub struct NeymanPearson {
    /// Mean hinge of the negatives.
    pub value: f64,
    /// The threshold that spends the budget of missed positives.
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
/// The gradient is the implicit one of a rate problem with a hinge surrogate. Hinges bound counts only for a margin of 1
/// or more: report rates from counts. There is a solution for every recall from 0 to 1. Shapes: `s` (n), `y` (n). Cost:
/// O(n log n). Fails: `Shape`, `Data` as [`auc_loss`](super::auc_loss), `Config` for a recall outside [0, 1].
/// Checked by `tests/lp/losses.rs::neyman_pearson_equals_its_linear_program`.
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
