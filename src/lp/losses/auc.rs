//! AUC losses in O(n log n): all pairs, none of them looked at.

use super::order::ascending;
use super::{Classes, Loss, finite, margin_of_scores};
use crate::error::Result;
use crate::numbers::Numbers;

/// Which number of the AUC program is the loss; d = s₊ − s₋ is how far a pair is apart.
///
/// Book: `lp/metrics.md#eq-lp-metrics-two-values`, `#eq-lp-metrics-sandwich`, `#eq-lp-metrics-support`.
///
/// ```
/// use lastlayer::prelude::*;
/// // A pair that is ranked wrongly by 1.
/// let of = |kind| auc_loss([0.0, 1.0], [1, 0], 0.5, kind);
/// assert_eq!(of(AucLoss::Value)?.gradient, [-1.0, 1.0]); // pulls
/// assert_eq!(of(AucLoss::Ramp)?.value, 1.0); // counts in full, and pulls no more
/// assert!(of(AucLoss::Ramp)?.gradient.iter().all(|slope| *slope == 0.0));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AucLoss {
    /// The optimum: mean of max(0, margin − d). Every pair below the margin pulls.
    Value,
    /// 1 − mean of clip(d / margin, 0, 1), what the authors' code trains. Mis-ranked pairs have no gradient.
    Ramp,
}

/// Pairs that are closer than a shift: their sum of distances and how many each score is in.
struct Close {
    sum: f64,
    of_positive: Vec<u32>,
    of_negative: Vec<u32>,
}

/// The AUC loss of two classes, with its gradient.
///
/// ```text
/// value = (1/N) Σ_ij max(0, margin − (s_i − s_j)),      i positive, j negative, N = n₊n₋ pairs
/// ramp  = (value(margin) − value(0)) / margin = 1 − (1/N) Σ clip((s_i − s_j)/margin, 0, 1)
/// ```
/// For a positive, the close negatives are the top of the sorted list, and their sum is a difference of running sums.
/// Shapes: `s` (n), `y` (n), 0 or 1. Cost: O(n log n). Fails: `Shape` if the lengths differ, `Data` if a score is not
/// finite, a label is neither 0 nor 1, or a class is empty, `Config` for a margin that is not positive.
/// Checked by `tests/lp/losses.rs::auc_equals_its_linear_program`.
/// Book: `lp/metrics.md#eq-lp-metrics-sort`, `#eq-lp-metrics-pair-gradients`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Two pairs: one apart by 1, one by 2; the margin is 1.5.
/// let (s, y) = ([2.0, 1.0, 0.0], [1, 0, 0]);
/// let loss = auc_loss(s, y, 1.5, AucLoss::Value)?;
/// assert_eq!(loss.value, 0.25);
/// let exact = NewtonLp::default().solve(&Lp::auc(s, y, 1.5)?)?;
/// assert!((loss.value - exact.optimal()?.value).abs() < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn auc_loss(s: impl Numbers, y: impl Numbers, margin: f64, kind: AucLoss) -> Result<Loss> {
    let s = &s.numbers()?[..];
    finite("scores", s)?;
    margin_of_scores(margin)?;
    let classes = Classes::new(s.len(), &y)?;
    let (value, on_positive, on_negative) = pair_loss(
        &classes.positive.iter().map(|i| s[*i]).collect::<Vec<_>>(),
        &classes.negative.iter().map(|i| s[*i]).collect::<Vec<_>>(),
        margin,
        kind,
    );
    let mut gradient = vec![0.0; s.len()];
    classes.positive.iter().zip(on_positive).for_each(|(i, g)| gradient[*i] = g);
    classes.negative.iter().zip(on_negative).for_each(|(i, g)| gradient[*i] = g);
    Ok(Loss { value, gradient })
}

/// Loss of two lists of scores, and the gradient in each.
pub(super) fn pair_loss(f: &[f64], g: &[f64], margin: f64, kind: AucLoss) -> (f64, Vec<f64>, Vec<f64>) {
    let pairs = f.len() as f64 * g.len() as f64;
    // Only differences count; around the middle the running sums lose least.
    let middle = g.iter().sum::<f64>() / g.len() as f64;
    let sorted = |values: &[f64]| ascending(values.iter().copied(), middle);
    let ((f, f_at), (g, g_at)) = rayon::join(|| sorted(f), || sorted(g));
    let wide = close(&f, &g, margin, false);
    let (value, unit, wrong) = match kind {
        AucLoss::Value => (wide.sum / pairs, 1.0 / pairs, None),
        AucLoss::Ramp => {
            let wrong = close(&f, &g, 0.0, true);
            ((wide.sum - wrong.sum) / (margin * pairs), 1.0 / (margin * pairs), Some(wrong))
        }
    };
    let scatter = |at: &[u32], wide: &[u32], wrong: Option<&[u32]>, unit: f64| {
        let mut gradient = vec![0.0; at.len()];
        for (rank, i) in at.iter().enumerate() {
            let counted = wide[rank] - wrong.map_or(0, |wrong| wrong[rank]);
            gradient[*i as usize] = unit * f64::from(counted);
        }
        gradient
    };
    let of_f = scatter(&f_at, &wide.of_positive, wrong.as_ref().map(|w| &w.of_positive[..]), -unit);
    let of_g = scatter(&g_at, &wide.of_negative, wrong.as_ref().map(|w| &w.of_negative[..]), unit);
    (value, of_f, of_g)
}

/// Σ max(0, shift − (f − g)) over all pairs of two ascending lists, with counts of f − shift < g, or ≤ if ties count.
fn close(f: &[f64], g: &[f64], shift: f64, ties: bool) -> Close {
    let below = |f: f64, g: f64| if ties { f - shift <= g } else { f - shift < g };
    let mut above: f64 = g.iter().sum();
    let (mut sum, mut far) = (0.0, 0);
    let mut of_positive = Vec::with_capacity(f.len());
    let mut of_negative = vec![f.len() as u32; g.len()];
    for (rank, f) in (0..).zip(f) {
        while far < g.len() && !below(*f, g[far]) {
            above -= g[far];
            of_negative[far] = rank;
            far += 1;
        }
        let count = (g.len() - far) as u32;
        sum += f64::from(count) * (shift - f) + if count > 0 { above } else { 0.0 };
        of_positive.push(count);
    }
    Close { sum, of_positive, of_negative }
}
