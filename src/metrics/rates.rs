//! Error rates at thresholds, and the thresholds that meet a rate.

use super::scores::above;
use super::{Scores, share};
use crate::error::Result;

/// A rate times a count is taken for the whole number it was meant to be: in f64, 0.29 · 100 is 28.999999999999996 and
/// 0.07 · 100 is 7.000000000000001.
const WHOLE: f64 = 1e-9;

impl Scores {
    /// Smallest threshold whose false positive rate does not exceed the target, hence the one of least misses.
    ///
    /// ```text
    /// t(β) = the (⌊β n₋⌋ + 1)-th largest negative score,   rule s > t
    /// ```
    /// With β n₋ < 1 it is the largest negative score, with β = 1 minus infinity. On new data its false positive rate
    /// is distributed as Beta(k+1, n₋−k), k = ⌊β n₋⌋, whatever the scores' continuous law: its mean is
    /// (k+1)/(n₋+1), above the target when β n₋ is whole, so use at least 20/β negatives. Cost: O(1). Fails: `Config` unless the target lies in [0, 1].
    /// Checked by `tests/metrics/rates.rs::population_fpr_of_the_threshold_has_the_beta_law`.
    /// Book: `measures/decisions.md#eq-measures-threshold`, `#eq-measures-beta`.
    pub fn threshold_at_fpr(&self, target: f64) -> Result<f64> {
        let n = self.n_negative();
        let allowed =
            (share("target of the false positive rate", target)? * n as f64 + WHOLE).floor() as usize;
        // The list ascends, so the (k+1)-th largest is k places before the end.
        Ok(if allowed >= n { f64::NEG_INFINITY } else { self.negative[n - 1 - allowed] })
    }

    /// Threshold of fewest false alarms among those whose true positive rate reaches the target.
    ///
    /// Every number from the observed score just below the last positive needed up to that positive decides alike;
    /// the observed score is returned, or minus infinity if there is none. Cost: O(log n). Fails: `Config` unless the
    /// target lies in [0, 1]. Checked by `tests/metrics/rates.rs`.
    pub fn threshold_at_tpr(&self, target: f64) -> Result<f64> {
        let needed = self.positives_for(share("target of the true positive rate", target)?);
        if needed == 0 {
            return Ok(self.positive[self.n_positive() - 1].max(self.negative[self.n_negative() - 1]));
        }
        let last = self.positive[self.n_positive() - needed];
        let below = |ascending: &[f64]| match ascending.partition_point(|v| *v < last) {
            0 => f64::NEG_INFINITY,
            i => ascending[i - 1],
        };
        Ok(below(&self.positive).max(below(&self.negative)))
    }

    /// False negative rate at the threshold that [`Scores::threshold_at_fpr`] gives.
    ///
    /// ```text
    /// FNR(t) = #{y = 1, s ≤ t} / n₊
    /// ```
    /// Cost: O(log n). Fails: `Config` unless the target lies in [0, 1].
    /// Book: `measures/decisions.md#eq-measures-noise`.
    pub fn fnr_at_fpr(&self, target: f64) -> Result<f64> {
        let found = above(&self.positive, self.threshold_at_fpr(target)?);
        Ok((self.n_positive() - found) as f64 / self.n_positive() as f64)
    }

    /// False negative rate at a false positive rate of exactly the target, where a coin decides between two thresholds.
    ///
    /// ```text
    /// (1 − w) FNR(s > t) + w FNR(s ≥ t),   w such that the false positive rates mix to the target
    /// ```
    /// A score with few values, such as that of a tree, jumps over most rates: without the coin the rest of the target is
    /// lost. The ROC between its points is what the coin can reach. Cost: O(log n). Fails: `Config` unless the target lies
    /// in [0, 1]. Book: `together/line.md#eq-together-mixed`. Checked by `tests/together.rs`.
    pub fn mixed_fnr_at_fpr(&self, target: f64) -> Result<f64> {
        let t = self.threshold_at_fpr(target)?;
        // (accepted above t, accepted from t on) of a class, as shares of it.
        let shares = |ascending: &[f64]| {
            let n = ascending.len();
            let from = n - ascending.partition_point(|v| *v < t);
            [above(ascending, t) as f64 / n as f64, from as f64 / n as f64]
        };
        let ([fpr, next_fpr], [tpr, next_tpr]) = (shares(&self.negative), shares(&self.positive));
        let w = if next_fpr > fpr { ((target - fpr) / (next_fpr - fpr)).clamp(0.0, 1.0) } else { 0.0 };
        Ok(1.0 - tpr - w * (next_tpr - tpr))
    }

    /// True positive rate at the threshold that [`Scores::threshold_at_fpr`] gives.
    ///
    /// Cost: O(log n). Fails: `Config` unless the target lies in [0, 1].
    pub fn tpr_at_fpr(&self, target: f64) -> Result<f64> {
        let found = above(&self.positive, self.threshold_at_fpr(target)?);
        Ok(found as f64 / self.n_positive() as f64)
    }

    /// Smallest false positive rate of any threshold whose true positive rate reaches the target.
    ///
    /// Cost: O(log n). Fails: `Config` unless the target lies in [0, 1].
    pub fn fpr_at_tpr(&self, target: f64) -> Result<f64> {
        let false_alarms = above(&self.negative, self.threshold_at_tpr(target)?);
        Ok(false_alarms as f64 / self.n_negative() as f64)
    }

    /// How many positives a true positive rate asks for.
    pub(super) fn positives_for(&self, rate: f64) -> usize {
        (rate * self.n_positive() as f64 - WHOLE).ceil().max(0.0) as usize
    }
}
