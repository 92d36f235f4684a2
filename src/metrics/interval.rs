//! Numbers with intervals: of a rate, of an AUC, of a mean over seeds, and of anything by the bootstrap.

use rayon::prelude::*;

use super::scores::doubled_wins_of;
use super::{Scores, confidence, finite};
use crate::distribution::{beta_quantile, normal_quantile, student_quantile};
use crate::error::{Error, Result};
use crate::numbers::AsF64;
use crate::seed::Seed;
use crate::table::Cell;

/// A value and an interval that is made to cover the truth with the given chance: exactly, or for large samples.
///
/// ```
/// use lastlayer::prelude::*;
/// let auc: Estimate = Scores::new([0.9, 0.4, 0.7, 0.2], [1, 1, 0, 0])?.auc_interval(0.95)?;
/// assert_eq!((auc.value, auc.level), (0.75, 0.95));
/// let row = Table::new(&["AUC"]).row(vec![auc])?; // a cell of a table
/// assert!(row.csv().starts_with("AUC,AUC low,AUC high\n0.75,"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// What was measured.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Chance of covering the truth, such as 0.95.
    pub level: f64,
}

impl Estimate {
    /// Shows the value and its interval in one line.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(self.to_string());
    }

    /// Value ± half, cut to what is possible.
    pub(super) fn around(value: f64, half: f64, level: f64, (least, most): (f64, f64)) -> Estimate {
        Estimate { value, low: (value - half).max(least), high: (value + half).min(most), level }
    }
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Nine digits keep 99.9 % and drop the noise of the product.
        let percent = (100.0 * self.level * 1e7).round() / 1e7;
        write!(f, "{} ({percent} % interval)", Cell::from(self).text())
    }
}

impl From<&Estimate> for Cell {
    fn from(estimate: &Estimate) -> Cell {
        Cell::Range { value: estimate.value, low: estimate.low, high: estimate.high }
    }
}

impl From<Estimate> for Cell {
    fn from(estimate: Estimate) -> Cell {
        Cell::from(&estimate)
    }
}

/// Interval of a rate after Clopper and Pearson: it covers the truth at least as often as its level says.
///
/// ```text
/// low = Beta⁻¹(α/2; k, n−k+1),   high = Beta⁻¹(1−α/2; k+1, n−k),   α = 1 − level
/// ```
/// Fails: `Config` unless 0 ≤ successes ≤ n, n ≥ 1 and the level lies in (0, 1). Checked by `tests/metrics/interval.rs`.
/// Book: `measures/decisions.md#eq-measures-clopper`.
///
/// ```
/// use lastlayer::prelude::*;
/// // No failure in 50: the rate may still be 7 %.
/// let found = rate_interval(0, 50, 0.95)?;
/// assert_eq!((found.value, found.low), (0.0, 0.0));
/// assert!((found.high - (1.0 - 0.025f64.powf(1.0 / 50.0))).abs() < 1e-12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn rate_interval(successes: usize, n: usize, level: f64) -> Result<Estimate> {
    let value = rate(successes, n)?;
    let tail = 0.5 * (1.0 - confidence(level)?);
    let (k, rest) = (successes as f64, (n - successes) as f64);
    // The upper end is one minus the lower end for the failures, which keeps the digits of a small tail.
    let low = |k: f64, rest: f64| if k == 0.0 { Ok(0.0) } else { beta_quantile(tail, k, rest + 1.0) };
    Ok(Estimate { value, low: low(k, rest)?, high: 1.0 - low(rest, k)?, level })
}

/// Interval of a rate after Wilson: shorter than that of [`rate_interval`] but near 0 and n successes, and close to its
/// level on average over rates instead of above it for each.
///
/// ```text
/// (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n),   z = Φ⁻¹((1 + level)/2)
/// ```
/// Fails: as [`rate_interval`]. Checked by `tests/metrics/interval.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let (wilson, exact) = (wilson_interval(7, 20, 0.95)?, rate_interval(7, 20, 0.95)?);
/// assert_eq!(wilson.value, 0.35);
/// assert!(wilson.high - wilson.low < exact.high - exact.low);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn wilson_interval(successes: usize, n: usize, level: f64) -> Result<Estimate> {
    let (p, m) = (rate(successes, n)?, n as f64);
    let z = two_sided(level)?;
    let shrink = 1.0 / (1.0 + z * z / m);
    let centre = shrink * (p + z * z / (2.0 * m));
    let half = shrink * z * (p * (1.0 - p) / m + (z / (2.0 * m)).powi(2)).sqrt();
    // With no success (or no failure) one end is exactly 0 (or 1); rounding must not hide it.
    let low = if successes == 0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if successes == n { 1.0 } else { (centre + half).min(1.0) };
    Ok(Estimate { value: p, low, high, level })
}

fn rate(successes: usize, n: usize) -> Result<f64> {
    if n == 0 || successes > n {
        let got = format!("{successes} of {n}");
        return Err(Error::config("successes", got, "at least one trial, and no more successes than trials"));
    }
    Ok(successes as f64 / n as f64)
}

/// The normal quantile that leaves (1 − level)/2 on each side.
pub(super) fn two_sided(level: f64) -> Result<f64> {
    Ok(-normal_quantile(0.5 * (1.0 - confidence(level)?))?)
}

/// Mean of a few numbers, one per seed, with Student's interval.
///
/// ```text
/// mean ± t √(Σ (v − mean)² / (n(n−1))),   t = Student's quantile with n − 1 degrees of freedom
/// ```
/// Fails: `Shape` with fewer than two numbers, `Config` if one is not finite or the level is not in (0, 1).
/// Checked by `tests/metrics/interval.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let found = mean_interval([1.0, 2.0, 3.0], 0.95)?;
/// let half = distribution::student_quantile(0.975, 2.0)? / 3f64.sqrt();
/// assert!(found.value == 2.0 && (found.high - 2.0 - half).abs() < 1e-12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn mean_interval(values: impl AsF64, level: f64) -> Result<Estimate> {
    let values = finite("values", &values)?;
    let tail = 0.5 * (1.0 - confidence(level)?);
    let (mean, error) = mean_and_error(&values)?;
    let t = -student_quantile(tail, (values.len() - 1) as f64)?;
    Ok(Estimate::around(mean, t * error, level, (f64::NEG_INFINITY, f64::INFINITY)))
}

/// Mean and its standard error.
pub(super) fn mean_and_error(values: &[f64]) -> Result<(f64, f64)> {
    let n = values.len() as f64;
    if values.len() < 2 {
        let expected = "at least two numbers, because one says nothing about the spread: run more seeds";
        return Err(Error::shape("values of a mean", expected, values.len()));
    }
    // Dividing by the largest first: sums and squares of finite numbers then stay finite.
    let scale = values.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    if scale == 0.0 {
        return Ok((0.0, 0.0));
    }
    let mean = values.iter().map(|v| v / scale).sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v / scale - mean).powi(2)).sum();
    Ok((scale * mean, scale * (squares / (n * (n - 1.0))).sqrt()))
}

/// What a bootstrap may compute from resampled scores: a number, or a number that may fail.
///
/// ```
/// use lastlayer::prelude::*;
/// let scores = Scores::new([0.9, 0.8, 0.35, 0.6, 0.3, 0.1], [1, 1, 1, 0, 0, 0])?;
/// // A number, or a number that may fail.
/// let auc = scores.bootstrap(200, 0.9, Seed::new(1), |s| s.auc())?;
/// let miss = scores.bootstrap(200, 0.9, Seed::new(1), |s| s.fnr_at_fpr(0.0))?;
/// assert!(auc.low <= auc.value && auc.value == 8.0 / 9.0 && miss.value == 1.0 / 3.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub trait Statistic {
    /// The number, or why there is none.
    fn value(self) -> Result<f64>;
}

impl Statistic for f64 {
    fn value(self) -> Result<f64> {
        Ok(self)
    }
}

impl Statistic for Result<f64> {
    fn value(self) -> Result<f64> {
        self
    }
}

impl Scores {
    /// AUC with the interval of DeLong, DeLong and Clarke-Pearson.
    ///
    /// ```text
    /// var = var(V₁₀)/n₊ + var(V₀₁)/n₋,   V₁₀(i) = share of negatives that positive i beats, V₀₁ likewise
    /// ```
    /// Cost: O(n log n). A perfect ranking has variance zero and an interval of one point, which says only that the
    /// sample is too small to see an error. Fails: `Shape` with fewer than two samples of a class, `Config` unless the
    /// level lies in (0, 1). Checked by `tests/metrics/interval.rs::delong_interval_covers_the_true_auc`.
    /// Book: `measures/decisions.md#eq-measures-delong`.
    pub fn auc_interval(&self, level: f64) -> Result<Estimate> {
        let z = two_sided(level)?;
        let positive = self.positive.iter().map(|s| doubled_wins_of(*s, &self.negative) as i64);
        let negative = self.negative.iter().map(|s| doubled_wins_of(*s, &self.positive) as i64);
        let variance = placement_variance(positive.collect(), negative.collect())?;
        Ok(Estimate::around(self.auc(), z * variance.sqrt(), level, (0.0, 1.0)))
    }

    /// False negative rate at a false positive rate, with a bootstrap interval.
    ///
    /// The threshold is chosen anew in every resample, so its own error is part of the interval. Fails: as
    /// [`Scores::bootstrap`], and `Config` unless the target lies in [0, 1].
    pub fn fnr_at_fpr_interval(
        &self,
        target: f64,
        resamples: usize,
        level: f64,
        seed: Seed,
    ) -> Result<Estimate> {
        self.bootstrap(resamples, level, seed, |s| s.fnr_at_fpr(target))
    }

    /// Any statistic of the scores with a percentile bootstrap interval, resampled within each class.
    ///
    /// ```text
    /// scores.bootstrap(1000, 0.95, SEED, |s| s.auc())?
    /// ```
    /// Resample r draws from stream r of the seed, so the result does not depend on the number of threads. A sorted
    /// list resampled by multiplicity stays sorted: each resample costs O(n), without a sort. The ends are quantiles
    /// with linear interpolation. Fails: `Config` for so few resamples that none would fall beyond an end, for more than 10⁷, if the level is not in
    /// (0, 1), or if the statistic is not finite; and with the statistic's own error.
    /// Checked by `tests/metrics/interval.rs::bootstrap_interval_covers_the_true_auc`.
    pub fn bootstrap<R: Statistic>(
        &self,
        resamples: usize,
        level: f64,
        seed: Seed,
        statistic: impl Fn(&Scores) -> R + Sync,
    ) -> Result<Estimate> {
        let tail = 0.5 * (1.0 - confidence(level)?);
        // At level 0.9 the quotient is 20.000000000000004.
        let fewest = (1.0 / tail - 1e-9).ceil();
        if (resamples as f64) < fewest || resamples > MOST_RESAMPLES {
            let allowed =
                format!("{fewest} (one resample beyond each end at level {level}) to {MOST_RESAMPLES}");
            return Err(Error::config("resamples", resamples, allowed));
        }
        let measure = |scores: &Scores| -> Result<f64> {
            let value = statistic(scores).value()?;
            if !value.is_finite() {
                return Err(Error::config("statistic of a bootstrap", value, "finite on every resample"));
            }
            Ok(value)
        };
        let value = measure(self)?;
        let resampled: Vec<Result<f64>> = (0..resamples as u64)
            .into_par_iter()
            .map_init(
                || (self.clone(), Vec::new()),
                |(scores, counts), r| {
                    let seed = seed.stream(r);
                    resample(&self.positive, seed.named("positive"), counts, &mut scores.positive)?;
                    resample(&self.negative, seed.named("negative"), counts, &mut scores.negative)?;
                    measure(scores)
                },
            )
            .collect();
        // Gathered in order, so that of several errors the first is reported, whatever thread met it.
        let mut sorted = resampled.into_iter().collect::<Result<Vec<f64>>>()?;
        sorted.sort_unstable_by(f64::total_cmp);
        Ok(Estimate { value, low: quantile(&sorted, tail), high: quantile(&sorted, 1.0 - tail), level })
    }
}

/// More would cost memory and time without changing a digit that matters.
const MOST_RESAMPLES: usize = 10_000_000;

/// Draws as many entries as the list has, with replacement, in ascending order.
fn resample(ascending: &[f64], seed: Seed, counts: &mut Vec<u32>, out: &mut [f64]) -> Result<()> {
    counts.clear();
    counts.resize(ascending.len(), 0);
    for c in 0..ascending.len() {
        counts[seed.below(c as u64, ascending.len())?] += 1;
    }
    let mut slots = out.iter_mut();
    for (value, count) in ascending.iter().zip(counts) {
        slots.by_ref().take(*count as usize).for_each(|slot| *slot = *value);
    }
    Ok(())
}

/// Quantile of an ascending list, not empty, with linear interpolation between entries.
fn quantile(ascending: &[f64], p: f64) -> f64 {
    let at = p * (ascending.len() - 1) as f64;
    let (low, high) = (ascending[at.floor() as usize], ascending[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

/// Variance of a mean win rate from doubled wins: of each positive over the negatives, and of each negative over the
/// positives. Also of a difference of two win rates, from differences of wins.
pub(super) fn placement_variance(positive: Vec<i64>, negative: Vec<i64>) -> Result<f64> {
    let share = |values: &[i64], against: usize| -> Result<f64> {
        let n = values.len() as i128;
        if n < 2 {
            let expected = "at least two samples of each class, or there is no variance to estimate";
            return Err(Error::shape("DeLong's variance", expected, n));
        }
        // In integers, so that no variance at all is exactly zero: n Σv² − (Σv)² = n(n−1) · variance.
        let sum: i128 = values.iter().map(|v| i128::from(*v)).sum();
        let squares: i128 = values.iter().map(|v| i128::from(*v).pow(2)).sum();
        let variance = (n * squares - sum * sum) as f64 / (n * (n - 1)) as f64;
        Ok(variance / (n as f64 * (2.0 * against as f64).powi(2)))
    };
    Ok(share(&positive, negative.len())? + share(&negative, positive.len())?)
}
