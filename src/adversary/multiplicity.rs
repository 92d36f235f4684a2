//! Many tests at once: which of them to believe, and how small the smallest of many is by chance.

use crate::distribution::{normal_cdf, normal_density};
use crate::error::{Error, Result};

/// Which tests to reject so that among the rejected at most a share `q` is wrong, on average.
///
/// ```text
/// k = max { i : p_(i) ≤ q i / m },   reject the k smallest
/// ```
/// Step-up: one test that passes takes all smaller p-values with it. Holds for independent tests and for tests that are
/// positively dependent, such as differences that share one baseline. Shapes: `p` (m), result (m). Cost: O(m log m).
/// Fails: `Config` if a p-value is not in [0, 1] or `q` not strictly between 0 and 1. Checked by
/// `tests/adversary/transfer.rs`.
/// Book: `adversary/noise.md#eq-adv-noise-bh`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Against 0.05·i/3: 0.03 passes as the second of three.
/// assert_eq!(adversary::benjamini_hochberg(&[0.01, 0.5, 0.03], 0.05)?, [true, false, true]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn benjamini_hochberg(p: &[f64], q: f64) -> Result<Vec<bool>> {
    let order = ascending(p)?;
    let (m, q) = (p.len() as f64, share("q of Benjamini and Hochberg", q)?);
    let passes = |rank: usize, p: f64| p <= q * (rank + 1) as f64 / m;
    let rejected = order.iter().enumerate().rposition(|(rank, at)| passes(rank, at.1)).map_or(0, |k| k + 1);
    Ok(marks(&order, rejected))
}

/// Which tests to reject so that the chance of a single wrong rejection is at most `level`, however they depend.
///
/// ```text
/// reject p_(1), p_(2), …  as long as  p_(i) ≤ level / (m − i + 1)
/// ```
/// Step-down: the first test that fails stops it. Shapes, cost, fails: as [`benjamini_hochberg`]. Checked by
/// `tests/adversary/transfer.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// // 0.01 ≤ 0.05/3, but 0.03 > 0.05/2.
/// assert_eq!(adversary::holm(&[0.01, 0.5, 0.03], 0.05)?, [true, false, false]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn holm(p: &[f64], level: f64) -> Result<Vec<bool>> {
    let order = ascending(p)?;
    let level = share("level of Holm", level)?;
    let passes = |rank: usize, p: f64| p <= level / (order.len() - rank) as f64;
    let rejected = order.iter().enumerate().take_while(|(rank, at)| passes(*rank, at.1)).count();
    Ok(marks(&order, rejected))
}

/// Chance that the smallest of `m` p-values is at most `p` when no null hypothesis is wrong (Šidák).
///
/// ```text
/// 1 − (1 − p)^m
/// ```
/// Exact for independent tests; an upper bound, hence safe, for one-sided tests of differences that share a baseline and
/// an estimated variance. Fails: `Config` unless `p` lies in [0, 1] and `m` is at least 1. Checked by
/// `tests/adversary/transfer.rs`.
/// Book: `adversary/noise.md#eq-adv-noise-sidak`.
///
/// ```
/// use lastlayer::prelude::*;
/// assert!((adversary::minimum_p(0.05, 2)? - 0.0975).abs() < 1e-12); // 1 − 0.95²
/// assert!(adversary::minimum_p(0.05, 15)? > 0.5); // one of fifteen is no surprise
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn minimum_p(p: f64, m: usize) -> Result<f64> {
    if m == 0 {
        return Err(Error::config("number of tests", m, "at least 1"));
    }
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::config("p-value", p, "0 to 1"));
    }
    // Written with logarithms: a p-value of 1e-20 keeps its digits.
    Ok(-libm::expm1(m as f64 * libm::log1p(-p)))
}

/// Mean of the smallest of `m` independent standard normal numbers.
///
/// ```text
/// −∫ x m φ(x) Φ(x)^(m−1) dx
/// ```
/// −1.74 for 15 numbers, −2.14 for 38; with the sign turned, the mean of the largest, 1.16 for 5. The trapezoidal rule on
/// [−12, 12] is exact to 1e-12 for m up to a million, since the integrand and all its derivatives vanish at both ends.
/// Fails: `Config` if `m` is 0. Checked by `tests/adversary/noise.rs`.
/// Book: `adversary/noise.md#eq-adv-noise-minimum`, `#eq-adv-noise-rows`.
///
/// ```
/// use lastlayer::prelude::*;
/// let expected = -1.0 / std::f64::consts::PI.sqrt(); // of two
/// assert!((adversary::expected_minimum(2)? - expected).abs() < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn expected_minimum(m: usize) -> Result<f64> {
    if m == 0 {
        return Err(Error::config("number of draws", m, "at least 1"));
    }
    const STEPS: i32 = 2400;
    let step = 12.0 / f64::from(STEPS);
    let height = |i: i32| {
        let x = f64::from(i) * step;
        x * m as f64 * normal_density(x) * libm::pow(normal_cdf(x), (m - 1) as f64)
    };
    Ok(-step * (-STEPS..=STEPS).map(height).sum::<f64>())
}

/// The p-values with their places, smallest first.
fn ascending(p: &[f64]) -> Result<Vec<(usize, f64)>> {
    if let Some(at) = p.iter().position(|p| !(0.0..=1.0).contains(p)) {
        let got = format!("{} at index {at}", p[at]);
        return Err(Error::config("p-value", got, "0 to 1; look for a test without spread (0/0)"));
    }
    let mut order: Vec<(usize, f64)> = p.iter().copied().enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    Ok(order)
}

/// True for the first `rejected` of an order, at their places.
fn marks(order: &[(usize, f64)], rejected: usize) -> Vec<bool> {
    let mut marks = vec![false; order.len()];
    order.iter().take(rejected).for_each(|(at, _)| marks[*at] = true);
    marks
}

/// A level or a share of wrong rejections.
pub(super) fn share(what: &str, value: f64) -> Result<f64> {
    if value > 0.0 && value < 1.0 {
        return Ok(value);
    }
    Err(Error::config(what, value, "strictly between 0 and 1, such as 0.05"))
}
