//! Distribution functions and their inverses, for closed forms, intervals and tests. Everything goes through `libm`, so
//! every platform prints the same digits; an argument outside the domain is an error.
//!
//! ```
//! use lastlayer::prelude::*;
//! // Of a normal law 95 % lie within 1.96 deviations; of a mean over five seeds, within 2.78.
//! assert!((distribution::normal_quantile(0.975)? - 1.96).abs() < 1e-3);
//! assert!((distribution::student_quantile(0.975, 4.0)? - 2.776).abs() < 1e-3);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod beta;
mod normal;

pub(crate) use beta::student_two_sided;
pub use beta::{beta_cdf, beta_quantile, student_cdf, student_quantile};
pub(crate) use normal::normal_quantile_inside;
pub use normal::{normal_cdf, normal_density, normal_quantile};

use crate::error::{Error, Result};

/// Chance that the sum of twelve uniform numbers, minus six, is at most the argument: the law of `Seed::irwin_hall`.
///
/// ```text
/// F(x) = 1/12! Σ_{k ≤ x+6} (−1)^k C(12,k) (x + 6 − k)^12
/// ```
/// The sum is taken from the nearer end, where it is short: 1 − F(−x) above zero. Relative error below 1e-13.
/// Checked by `tests/distribution.rs`.
///
/// ```
/// use lastlayer::distribution::irwin_hall_cdf;
/// assert!((irwin_hall_cdf(0.0) - 0.5).abs() < 1e-12);
/// assert_eq!((irwin_hall_cdf(-6.0), irwin_hall_cdf(6.0)), (0.0, 1.0)); // bounded
/// ```
pub fn irwin_hall_cdf(x: f64) -> f64 {
    let lower = irwin_hall_lower_tail(-x.abs());
    if x <= 0.0 { lower } else { 1.0 - lower }
}

/// The formula of [`irwin_hall_cdf`] for an argument at or below zero.
fn irwin_hall_lower_tail(x: f64) -> f64 {
    const FACTORIAL_12: f64 = 479_001_600.0;
    let (mut sum, mut weight) = (0.0, 1.0);
    for k in 0..=6u8 {
        let k = f64::from(k);
        let base = x + 6.0 - k;
        if base <= 0.0 {
            break;
        }
        sum += weight * base.powi(12);
        // (−1)^k C(12,k), from one k to the next.
        weight *= -(12.0 - k) / (k + 1.0);
    }
    sum / FACTORIAL_12
}

/// Chance that the square of a standard normal number is at most the argument: chi-square, one degree of freedom.
///
/// ```text
/// F(x) = erf(√(x/2))
/// ```
/// Fails: `Config` if `x` is negative or NaN. Checked by `tests/distribution.rs`.
///
/// ```
/// use lastlayer::distribution::{chi_square_cdf, normal_cdf};
/// assert!((chi_square_cdf(3.841)? - 0.95).abs() < 1e-4);
/// assert!((chi_square_cdf(4.0)? - (normal_cdf(2.0) - normal_cdf(-2.0))).abs() < 1e-15);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn chi_square_cdf(x: f64) -> Result<f64> {
    Ok(libm::erf(chi_square_root(x)?))
}

/// Chance that the square of a standard normal number exceeds the argument, with all digits where it is small.
///
/// Fails: `Config` if `x` is negative or NaN. Checked by `tests/distribution.rs`.
///
/// ```
/// use lastlayer::distribution::chi_square_tail;
/// // Beyond ten standard deviations, where 1 − chi_square_cdf has no digit left.
/// assert!((chi_square_tail(100.0)? / 1.523970604832094e-23 - 1.0).abs() < 1e-12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn chi_square_tail(x: f64) -> Result<f64> {
    Ok(libm::erfc(chi_square_root(x)?))
}

fn chi_square_root(x: f64) -> Result<f64> {
    if x.is_nan() || x < 0.0 {
        return Err(Error::config("x of a chi-square", x, "a number that is not negative"));
    }
    Ok((0.5 * x).sqrt())
}

/// Chance that a fair coin, thrown `n` times, splits at least as unevenly as `k` heads.
///
/// ```text
/// min(1, 2 P(X ≤ min(k, n − k))),   X ~ Binomial(n, ½)
/// ```
/// Fails: `Config` if `k` exceeds `n`. Checked by `tests/distribution.rs`.
///
/// ```
/// use lastlayer::distribution::fair_coin_two_sided;
/// assert!((fair_coin_two_sided(1, 5)? - 12.0 / 32.0).abs() < 1e-14); // 0, 1, 4 or 5 heads
/// assert_eq!(fair_coin_two_sided(3, 6)?, 1.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn fair_coin_two_sided(k: usize, n: usize) -> Result<f64> {
    if k > n {
        return Err(Error::config("heads of a fair coin", k, format!("at most the {n} throws")));
    }
    let rarer = k.min(n - k);
    if 2 * rarer + 1 >= n {
        return Ok(1.0);
    }
    // P(X ≤ m) is an incomplete beta function.
    Ok((2.0 * beta_cdf(0.5, (n - rarer) as f64, (rarer + 1) as f64)?).min(1.0))
}

fn not_nan(what: &str, x: f64) -> Result<()> {
    if x.is_nan() {
        return Err(Error::config(what, x, "a number; look for a division 0/0 where it was computed"));
    }
    Ok(())
}

/// The argument of a quantile function whose ends are infinite.
fn probability(what: &str, p: f64) -> Result<f64> {
    if !(p > 0.0 && p < 1.0) {
        return Err(Error::config(what, p, "strictly between 0 and 1"));
    }
    Ok(p)
}

/// A shape parameter or a number of degrees of freedom.
fn positive(what: &str, value: f64) -> Result<f64> {
    if !(value > 0.0 && value.is_finite()) {
        return Err(Error::config(what, value, "a positive finite number"));
    }
    Ok(value)
}
