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
    pub fn fnr_at_fpr(&self, target: f64) -> Result<f64> {
        let found = above(&self.positive, self.threshold_at_fpr(target)?);
        Ok((self.n_positive() - found) as f64 / self.n_positive() as f64)
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
