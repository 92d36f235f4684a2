//! Two methods on the same data: is the difference more than luck?

use super::interval::{mean_and_error, mean_interval, placement_variance, two_sided};
use super::scores::doubled_wins_of;
use super::{Estimate, Scores, finite};
use crate::distribution::{chi_square_tail, fair_coin_two_sided, student_two_sided};
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::{AsF64, zeros_and_ones};
use crate::table::{Cell, Table};

/// Two numbers measured on the same data or seeds, and what their difference is worth.
///
/// ```
/// use lastlayer::prelude::*;
/// let found: Comparison = paired([0.91, 0.93, 0.92], [0.90, 0.91, 0.91], 0.95)?;
/// assert!((found.ours - 0.92).abs() < 1e-12);
/// assert!(found.difference.value > 0.0 && found.p_value < 0.1);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The first method's number.
    pub ours: f64,
    /// The second method's number.
    pub theirs: f64,
    /// First minus second, with its interval.
    pub difference: Estimate,
    /// Chance of a difference at least this large if there were none.
    pub p_value: f64,
}

impl Comparison {
    /// Shows both numbers, the difference and the p-value.
    pub fn evcxr_display(&self) {
        let rows = vec![
            ("ours", Cell::from(self.ours)),
            ("theirs", Cell::from(self.theirs)),
            ("difference", Cell::from(self.difference)),
            ("p-value", Cell::from(self.p_value)),
        ];
        Table::pairs("comparison", "value", rows).evcxr_display();
    }
}

/// Two methods run with the same seeds, by Student's t on the differences.
///
/// ```text
/// t = mean(d) / √(Σ (d − mean)² / (n(n−1))),   d = ours − theirs,   n − 1 degrees of freedom
/// ```
/// Shapes: both (n), one number per seed, in the same order. Runs that agree in every seed have p-value 1. Fails:
/// `Shape` if the lengths differ or are below two, `Config` if a number is not finite, the level is not in (0, 1), or
/// all differences are the same number but zero. Checked by `tests/metrics/compare.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Differences 1, 2, 3: mean 2, standard error 1/√3.
/// let found = paired([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], 0.95)?;
/// assert_eq!(found.difference.value, 2.0);
/// let t = 2.0 * 3f64.sqrt();
/// assert!((found.p_value - 2.0 * distribution::student_cdf(-t, 2.0)?).abs() < 1e-12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn paired(ours: impl AsF64, theirs: impl AsF64, level: f64) -> Result<Comparison> {
    let (ours, theirs) = (finite("our numbers", &ours)?, finite("their numbers", &theirs)?);
    ensure_shape("their numbers (one per seed, as ours)", ours.len(), theirs.len())?;
    let differences: Vec<f64> = ours.iter().zip(theirs.iter()).map(|(a, b)| a - b).collect();
    let difference = mean_interval(&differences, level)?;
    let (mean, error) = mean_and_error(&differences)?;
    let dof = (differences.len() - 1) as f64;
    let p_value = p_value(mean, error, |t| student_two_sided(t, dof))?;
    let (ours, theirs) = (mean_and_error(&ours)?.0, mean_and_error(&theirs)?.0);
    Ok(Comparison { ours, theirs, difference, p_value })
}

/// Areas under two ROC curves on the same samples, by the test of DeLong, DeLong and Clarke-Pearson.
///
/// ```text
/// z = (AUC_a − AUC_b) / √(var(V₁₀ᵃ − V₁₀ᵇ)/n₊ + var(V₀₁ᵃ − V₀₁ᵇ)/n₋)
/// ```
/// Shapes: `a` (n), `b` (n), `y` (n), in the same order. Scores that rank alike have p-value 1. Cost: O(n log n).
/// Fails: as [`Scores::new`]; `Shape` with fewer than two samples of a class; `Config` unless the level lies in (0, 1),
/// or if the areas differ but no sample varies. Checked by `tests/metrics/compare.rs` against all pairs.
/// Book: `measures/decisions.md#eq-measures-delong`.
///
/// ```
/// use lastlayer::prelude::*;
/// let y = [1, 1, 1, 0, 0, 0];
/// let found = delong([0.9, 0.8, 0.4, 0.5, 0.2, 0.1], [0.6, 0.3, 0.4, 0.5, 0.2, 0.7], y, 0.95)?;
/// assert_eq!((found.ours, found.theirs), (8.0 / 9.0, 4.0 / 9.0));
/// assert!(found.difference.low < 0.0 && found.p_value > 0.05); // six samples tell little
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn delong(a: impl AsF64, b: impl AsF64, y: impl AsF64, level: f64) -> Result<Comparison> {
    let z = two_sided(level)?;
    let (a, b) = (finite("first scores", &a)?, finite("second scores", &b)?);
    let y = zeros_and_ones("labels", &y)?;
    ensure_shape("second scores (one per first score)", a.len(), b.len())?;
    let (ranked_a, ranked_b) = (Scores::new(&*a, &*y)?, Scores::new(&*b, &*y)?);
    let (mut positive, mut negative) = (Vec::new(), Vec::new());
    for ((a, b), y) in a.iter().zip(b.iter()).zip(y.iter()) {
        // A positive wins over negatives that score less, a negative loses to positives that score more: less by
        // wins over the positives, which has the same variance.
        let wins = |s: f64, over: &[f64]| doubled_wins_of(s, over) as i64;
        if *y == 1.0 {
            positive.push(wins(*a, &ranked_a.negative) - wins(*b, &ranked_b.negative));
        } else {
            negative.push(wins(*a, &ranked_a.positive) - wins(*b, &ranked_b.positive));
        }
    }
    let error = placement_variance(positive, negative)?.sqrt();
    let (ours, theirs) = (ranked_a.auc(), ranked_b.auc());
    let difference = Estimate::around(ours - theirs, z * error, level, (-1.0, 1.0));
    // Two-sided normal: the chance that z² exceeds a chi-square.
    let p_value = p_value(ours - theirs, error, |z| chi_square_tail(z * z))?;
    Ok(Comparison { ours, theirs, difference, p_value })
}

/// The two-sided p-value of a difference with a standard error.
fn p_value(difference: f64, error: f64, two_sided: impl Fn(f64) -> Result<f64>) -> Result<f64> {
    if difference == 0.0 {
        return Ok(1.0);
    }
    if error == 0.0 {
        let got = format!("{difference} without any spread");
        let allowed = "differences that vary, or no test can judge them: use more seeds or samples";
        return Err(Error::config("difference", got, allowed));
    }
    two_sided(difference / error)
}

/// How often each of two classifiers alone was right, and whether that is more than luck.
///
/// Checked by `tests/metrics/compare.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let found = metrics::McNemar { only_first: 8, only_second: 2, p_value: 0.109 };
/// assert_eq!(found.chi_square()?.0, 25.0 / 10.0); // (|8 − 2| − 1)² / 10
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct McNemar {
    /// Samples that only the first got right.
    pub only_first: usize,
    /// Samples that only the second got right.
    pub only_second: usize,
    /// Exact two-sided p-value: these are throws of a coin, which is fair if neither is better.
    pub p_value: f64,
}

impl McNemar {
    /// Chi-square approximation with continuity correction: the statistic and its p-value.
    ///
    /// ```text
    /// χ² = max(0, |b − c| − 1)² / (b + c),   one degree of freedom
    /// ```
    /// For comparison with older papers; the exact p-value is the better one. Fails: `Config` if the two never differ.
    pub fn chi_square(&self) -> Result<(f64, f64)> {
        let discordant = self.only_first + self.only_second;
        if discordant == 0 {
            let allowed = "at least one sample that only one of them got right; the exact p-value needs none";
            return Err(Error::config("samples on which the two differ", discordant, allowed));
        }
        let excess = self.only_first.abs_diff(self.only_second).saturating_sub(1) as f64;
        let statistic = excess * excess / discordant as f64;
        Ok((statistic, chi_square_tail(statistic)?))
    }

    /// Shows the counts and the exact p-value.
    pub fn evcxr_display(&self) {
        let rows = vec![
            ("only the first right", Cell::from(self.only_first)),
            ("only the second right", Cell::from(self.only_second)),
            ("p-value", Cell::from(self.p_value)),
        ];
        Table::pairs("McNemar", "value", rows).evcxr_display();
    }
}

/// McNemar's test of two classifiers on the same samples.
///
/// Shapes: both (n); 1 where the classifier was right, 0 where it was wrong. Fails: `Shape` if the lengths differ or
/// are zero, `Data` if an entry is not 0 or 1. Checked by `tests/metrics/compare.rs`.
/// Book: `measures/decisions.md#eq-measures-mcnemar`, `adversary/noise.md#eq-adv-noise-mcnemar`.
///
/// ```
/// use lastlayer::prelude::*;
/// // The first alone is right three times, the second alone never.
/// let found = mcnemar([1, 1, 1, 1, 0], [0, 0, 0, 1, 0])?;
/// assert_eq!((found.only_first, found.only_second), (3, 0));
/// assert!((found.p_value - 0.25).abs() < 1e-14); // all heads or all tails
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn mcnemar(correct_a: impl AsF64, correct_b: impl AsF64) -> Result<McNemar> {
    let a = zeros_and_ones("first classifier's successes", &correct_a)?;
    let b = zeros_and_ones("second classifier's successes", &correct_b)?;
    if a.is_empty() {
        return Err(Error::shape("first classifier's successes", "at least one", 0));
    }
    ensure_shape("second classifier's successes (one per sample)", a.len(), b.len())?;
    let only_first = a.iter().zip(b.iter()).filter(|(a, b)| a > b).count();
    let only_second = a.iter().zip(b.iter()).filter(|(a, b)| a < b).count();
    let p_value = fair_coin_two_sided(only_first, only_first + only_second)?;
    Ok(McNemar { only_first, only_second, p_value })
}
