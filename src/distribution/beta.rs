//! The beta distribution, and Student's t, which is a beta in disguise.

use super::{not_nan, positive, probability};
use crate::error::{Error, Result};

/// Chance that a beta distributed number is at most the argument: the regularised incomplete beta function.
///
/// ```text
/// I_x(a, b) = ∫₀ˣ u^(a−1) (1−u)^(b−1) du / B(a, b)
/// ```
/// Cost: about √max(a, b) steps of a continued fraction. Relative error about 1e-13 for parameters up to a million.
/// Fails: `Config` unless `x` lies in [0, 1] and both parameters are positive, `Solve` if they are so large that the
/// fraction does not settle. Checked by `tests/distribution.rs`.
///
/// ```
/// use lastlayer::distribution::beta_cdf;
/// assert!((beta_cdf(0.5, 2.0, 3.0)? - 11.0 / 16.0).abs() < 1e-14);
/// assert!(beta_cdf(1.5, 2.0, 3.0).is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn beta_cdf(x: f64, a: f64, b: f64) -> Result<f64> {
    if !(0.0..=1.0).contains(&x) {
        return Err(Error::config("x of beta_cdf", x, "0 to 1"));
    }
    let (a, b) = (positive("a of beta_cdf", a)?, positive("b of beta_cdf", b)?);
    Ok(Tail::at(x, 1.0 - x, a, b)?.lower)
}

/// Number that a beta distributed draw stays below with the given chance: the inverse of [`beta_cdf`].
///
/// Newton's method on log I as a function of the log odds of x, where both ends are straight lines; it never leaves
/// its bracket. Fails: as [`beta_cdf`]. Checked by `tests/distribution.rs`.
///
/// ```
/// use lastlayer::distribution::beta_quantile;
/// assert!((beta_quantile(0.25, 2.0, 1.0)? - 0.5).abs() < 1e-14); // √p
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn beta_quantile(p: f64, a: f64, b: f64) -> Result<f64> {
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::config("p of beta_quantile", p, "0 to 1"));
    }
    let (a, b) = (positive("a of beta_quantile", a)?, positive("b of beta_quantile", b)?);
    if p == 0.0 || p == 1.0 {
        return Ok(p);
    }
    let odds = quantile_odds(p, 1.0 - p, a, b)?;
    Ok(if odds.is_infinite() { 1.0 } else { odds / (1.0 + odds) })
}

/// Chance that a number from Student's distribution is at most the argument.
///
/// ```text
/// F(t) = ½ I_x(ν/2, ½),   x = ν/(ν + t²),   t ≤ 0;      F(t) = 1 − F(−t)
/// ```
/// Fails: `Config` for NaN or degrees of freedom that are not positive. Checked by `tests/distribution.rs`.
///
/// ```
/// use lastlayer::distribution::student_cdf;
/// assert!((student_cdf(1.0, 1.0)? - 0.75).abs() < 1e-14); // one degree of freedom: ½ + atan(t)/π
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn student_cdf(t: f64, dof: f64) -> Result<f64> {
    let tail = 0.5 * student_two_sided(t, dof)?;
    Ok(if t <= 0.0 { tail } else { 1.0 - tail })
}

/// Number that a draw from Student's distribution stays below with the given chance: the inverse of [`student_cdf`].
///
/// Fails: `Config` unless `p` lies strictly between 0 and 1 and `dof` is positive. Checked by
/// `tests/distribution.rs`.
///
/// ```
/// use lastlayer::distribution::{normal_quantile, student_quantile};
/// assert!((student_quantile(0.75, 1.0)? - 1.0).abs() < 1e-13);
/// assert!((student_quantile(0.975, 1e6)? - normal_quantile(0.975)?).abs() < 1e-5);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn student_quantile(p: f64, dof: f64) -> Result<f64> {
    let p = probability("p of student_quantile", p)?;
    let dof = positive("degrees of freedom", dof)?;
    if p == 0.5 {
        return Ok(0.0);
    }
    let tail = 2.0 * p.min(1.0 - p);
    // The odds of x are ν/t²: no digit is lost to 1 − x.
    let t = (dof / quantile_odds(tail, 1.0 - tail, 0.5 * dof, 0.5)?).sqrt();
    Ok(if p < 0.5 { -t } else { t })
}

/// Chance that a number from Student's distribution is at least as far from zero as the argument.
pub(crate) fn student_two_sided(t: f64, dof: f64) -> Result<f64> {
    not_nan("t of a Student distribution", t)?;
    let dof = positive("degrees of freedom", dof)?;
    let ratio = (t / dof.sqrt()).powi(2);
    // Both shares, each without the cancellation of 1 − x.
    Ok(Tail::at(1.0 / (1.0 + ratio), 1.0 / (1.0 + 1.0 / ratio), 0.5 * dof, 0.5)?.lower)
}

/// The lower tail of a beta distribution at one point.
struct Tail {
    /// I_x(a, b).
    lower: f64,
    /// x^a y^b / B(a, b), which is the derivative of the tail by the log odds of x.
    front: f64,
}

impl Tail {
    /// The tail at x, where y = 1 − x is given apart because either may be tiny.
    fn at(x: f64, y: f64, a: f64, b: f64) -> Result<Tail> {
        if x <= 0.0 || y <= 0.0 {
            return Ok(Tail { lower: if x <= 0.0 { 0.0 } else { 1.0 }, front: 0.0 });
        }
        let front = front(x, y, a, b);
        // The fraction settles fast on the side of the mode where the point lies.
        let lower = if x < (a + 1.0) / (a + b + 2.0) {
            front / fraction(x, y, a, b)?
        } else {
            1.0 - front / fraction(y, x, b, a)?
        };
        Ok(Tail { lower: lower.clamp(0.0, 1.0), front })
    }
}

/// x^a y^b / B(a, b) by Loader's saddle-point form (2000), which keeps its digits where log-gamma would lose them.
fn front(x: f64, y: f64, a: f64, b: f64) -> f64 {
    let n = a + b;
    let corrections = stirling_error(n) - stirling_error(a) - stirling_error(b);
    let exponent = corrections - deviance(a, n * x) - deviance(b, n * y);
    (a * (b / n) / (2.0 * std::f64::consts::PI)).sqrt() * libm::exp(exponent)
}

/// log Γ(z) minus Stirling's approximation (z − ½) log z − z + ½ log 2π.
fn stirling_error(z: f64) -> f64 {
    const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_8;
    if z < 16.0 {
        return libm::lgamma(z) - (z - 0.5) * libm::log(z) + z - HALF_LOG_TWO_PI;
    }
    let r = 1.0 / (z * z);
    const SERIES: [f64; 7] = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
    ];
    SERIES.iter().rev().fold(0.0, |sum, c| sum * r + c) / z
}

/// a log(a/m) + m − a, without the cancellation where the two are close.
fn deviance(a: f64, m: f64) -> f64 {
    if (a - m).abs() >= 0.1 * (a + m) {
        return a * libm::log(a / m) + m - a;
    }
    let v = (a - m) / (a + m);
    let (mut sum, mut term) = ((a - m) * v, 2.0 * a * v);
    // |v| < 0.1: each term is below a hundredth of the one before.
    for odd in (3..31).step_by(2) {
        term *= v * v;
        sum += term / f64::from(odd);
    }
    sum
}

/// The continued fraction of Didonato and Morris (1992), by Lentz's method: `front` divided by it is the lower tail.
/// It takes x and y apart, and so loses nothing where one of them is close to 1.
fn fraction(x: f64, y: f64, a: f64, b: f64) -> Result<f64> {
    const MOST_STEPS: usize = 200_000;
    const TINY: f64 = 1e-300;
    let nonzero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let excess = a * y - b * x + 1.0;
    let mut value = nonzero(a * excess / (a + 1.0));
    let (mut c, mut d, mut change) = (value, 0.0, 0.0);
    for step in 1..=MOST_STEPS {
        let m = step as f64;
        let odd = a + 2.0 * m - 1.0;
        let numerator = (a + m - 1.0) / odd * ((a + b + m - 1.0) / odd) * m * (b - m) * x * x;
        let term = m + m * (b - m) * x / odd + (a + m) * (excess + m * (2.0 - x)) / (odd + 2.0);
        d = 1.0 / nonzero(term + numerator * d);
        c = nonzero(term + numerator / c);
        change = c * d;
        value *= change;
        if (change - 1.0).abs() <= f64::EPSILON {
            return Ok(value);
        }
    }
    Err(Error::Solve {
        solver: "incomplete beta function".into(),
        iters: MOST_STEPS,
        residual: (change - 1.0).abs(),
        hint: format!("parameters {a:e} and {b:e} are too large; use the normal approximation there"),
    })
}

/// The odds x/(1−x) of the p-quantile; p and q = 1 − p are given apart because either may be tiny.
fn quantile_odds(p: f64, q: f64, a: f64, b: f64) -> Result<f64> {
    let below_mean = Tail::at(a / (a + b), b / (a + b), a, b)?.lower;
    if p <= below_mean {
        return odds_below_mean(p, a, b);
    }
    Ok(1.0 / odds_below_mean(q, b, a)?)
}

/// The odds at which the lower tail is p, for a quantile known to lie below the mean.
fn odds_below_mean(p: f64, a: f64, b: f64) -> Result<f64> {
    let tail = |odds: f64| Tail::at(odds / (1.0 + odds), 1.0 / (1.0 + odds), a, b);
    let (mut low, mut high) = (f64::MIN_POSITIVE, a / b);
    if tail(low)?.lower >= p {
        return Ok(0.0);
    }
    let mut odds = high;
    // Halving the logarithm of the bracket alone would need about 60 steps.
    for _ in 0..200 {
        let here = tail(odds)?;
        if here.lower > p {
            high = odds;
        } else {
            low = odds;
        }
        let step = libm::log(p / here.lower) * here.lower / here.front;
        if step.abs() <= 2.0 * f64::EPSILON {
            break;
        }
        let newton = odds * libm::exp(step);
        odds = if newton > low && newton < high { newton } else { low.sqrt() * high.sqrt() };
    }
    Ok(odds)
}
