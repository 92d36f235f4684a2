//! AUC losses in O(n log n): all pairs, none of them looked at.

use candle_core::Tensor;

use super::device::{OnDevice, absent, below};
use super::{Classes, Loss, ScoreGradient, finite, margin_of_scores};
use crate::error::Result;
use crate::numbers::AsF64;
use crate::order::ascending_with_places;

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
/// Shapes: `s` (n), `y` (n), 0 or 1. Cost: O(n log n). Host: of scores on a device the value and two counts; all else
/// stays there. Fails: `Shape` if the lengths differ, `Data` if a score is not finite, a label is neither 0 nor 1, or a
/// class is empty, `Config` for a margin that is not positive. Checked by
/// `tests/lp/losses.rs::auc_equals_its_linear_program`, `losses_are_the_same_on_every_device`.
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
pub fn auc_loss(s: impl AsF64, y: impl AsF64, margin: f64, kind: AucLoss) -> Result<Loss> {
    margin_of_scores(margin)?;
    if let Some(on_device) = OnDevice::binary(&s, &y)? {
        let [negative, positive] = on_device.classes()?;
        let (value, slopes) =
            pair_losses(&on_device.s.unsqueeze(0)?, [&positive, &negative], 1.0, margin, kind)?;
        if let Some(found) = on_device.to_host(&[&value], 0..2)? {
            return Ok(Loss { value: found[0], gradient: ScoreGradient::from_device(slopes.squeeze(0)?) });
        }
    }
    let s = &s.numbers()?[..];
    finite("scores", s)?;
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
    Ok(Loss { value, gradient: gradient.into() })
}

/// Loss of two lists of scores, and the gradient in each.
pub(super) fn pair_loss(f: &[f64], g: &[f64], margin: f64, kind: AucLoss) -> (f64, Vec<f64>, Vec<f64>) {
    let pairs = f.len() as f64 * g.len() as f64;
    // Only differences count; around the middle the running sums lose least.
    let middle = g.iter().sum::<f64>() / g.len() as f64;
    let sorted = |values: &[f64]| ascending_with_places(values.iter().map(|v| v - middle));
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

/// Sum of weighted losses of several binary problems on a device, and the gradient in each score (p, n).
///
/// A sum over close pairs is one over scores, each as often as it is in such a pair, so that counts are enough.
/// Shapes: `t` (p, n), the scores of p problems; `sides` (p, n), 1 for who is first and who is second in each.
pub(super) fn pair_losses(
    t: &Tensor,
    sides: [&Tensor; 2],
    weight: f64,
    margin: f64,
    kind: AucLoss,
) -> Result<(Tensor, Tensor)> {
    let [first, second] = sides;
    let mut counts = close_of(t, sides, margin, false)?;
    let mut unit = (first.sum_keepdim(1)? * second.sum_keepdim(1)?)?.recip()?.affine(weight, 0.0)?;
    let mut margins = (&counts * first)?.sum_keepdim(1)?.affine(margin, 0.0)?;
    if kind == AucLoss::Ramp {
        counts = (counts - close_of(t, sides, 0.0, true)?)?;
        unit = (unit / margin)?;
    }
    let slopes = (counts * (second - first)?)?.broadcast_mul(&unit)?;
    // Slopes add up to zero; around the middle the sum loses least.
    let middled = t.broadcast_sub(&t.mean_keepdim(1)?)?;
    margins = (margins * unit)?;
    Ok(((margins.sum_all()? + (&slopes * middled)?.sum_all()?)?, slopes))
}

/// How many of the other side are close to each score, as in [`close`].
fn close_of(t: &Tensor, [first, second]: [&Tensor; 2], shift: f64, ties: bool) -> Result<Tensor> {
    let p = t.dim(0)?;
    let key = (t - (first * shift)?)?;
    // first − shift < second, seen from the second; turned round, from the first.
    let lists = Tensor::cat(&[(&key + absent(first)?)?, (absent(second)? - &key)?], 0)?;
    let found = below(&lists, &Tensor::cat(&[&key, &key.neg()?], 0)?, ties)?;
    Ok(((found.narrow(0, 0, p)? * second)? + (found.narrow(0, p, p)? * first)?)?)
}
