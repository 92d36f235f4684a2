//! Smooth stand-ins for the step function of a decision.

use candle_core::Tensor;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What takes the place of the step at u = 0, where u = s − t is how far a score lies above the threshold.
///
/// Checked by `tests/rate/smooth.rs`.
/// Book: `rate/smooth.md#eq-rate-smooth-noise`, `#eq-rate-smooth-scale`.
///
/// ```
/// use lastlayer::prelude::*;
/// let smooth = Surrogate::sigmoid(2.0);
/// assert_eq!((smooth.value(0.0), smooth.slope(0.0)), (0.5, 0.5));
/// assert!(smooth.log_slope(1000.0) < -1999.0); // finite where the slope itself underflows
/// assert_eq!(Surrogate::Hinge.value(-2.0), 0.0);
/// assert!(!Surrogate::Hinge.is_bounded());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Surrogate {
    /// σ(τu): between 0 and 1, so that a rate made of it can equal any target.
    Sigmoid { sharpness: f64 },
    /// ln(1 + e^{τu}): unbounded, so no equation for a threshold. Thresholds are hard quantiles, only gradients use it.
    Softplus { sharpness: f64 },
    /// max(0, 1 + u), the convex bound that Lagrangian games use. Unbounded: the same rule as for softplus.
    Hinge,
}

impl Surrogate {
    /// A logistic sigmoid; the sharper, the closer to a step.
    pub fn sigmoid(sharpness: f64) -> Surrogate {
        Surrogate::Sigmoid { sharpness }
    }

    /// Value in place of the step.
    pub fn value(self, u: f64) -> f64 {
        self.value_and_slope(u).0
    }

    /// Derivative in u.
    pub fn slope(self, u: f64) -> f64 {
        self.value_and_slope(u).1
    }

    /// Both, with one exponential.
    pub(super) fn value_and_slope(self, u: f64) -> (f64, f64) {
        match self {
            Surrogate::Sigmoid { sharpness } => {
                let x = sharpness * u;
                let (high, low) = sigmoids(x);
                (if x >= 0.0 { high } else { low }, sharpness * high * low)
            }
            Surrogate::Softplus { sharpness } => {
                let x = sharpness * u;
                let (high, low) = sigmoids(x);
                (x.max(0.0) - high.ln(), sharpness * if x >= 0.0 { high } else { low })
            }
            Surrogate::Hinge => ((1.0 + u).max(0.0), f64::from(u8::from(u > -1.0))),
        }
    }

    /// Logarithm of the derivative, finite where the derivative itself underflows.
    ///
    /// ```text
    /// ln σ(x)σ(−x) = −|x| − 2 ln(1 + e^−|x|)
    /// ```
    /// Book: `rate/smooth.md#eq-rate-smooth-log-weight`.
    pub fn log_slope(self, u: f64) -> f64 {
        match self {
            Surrogate::Sigmoid { sharpness } => {
                let x = (sharpness * u).abs();
                sharpness.ln() - x - 2.0 * (-x).exp().ln_1p()
            }
            Surrogate::Softplus { sharpness } => {
                let x = sharpness * u;
                sharpness.ln() + x.min(0.0) - (-x.abs()).exp().ln_1p()
            }
            Surrogate::Hinge => self.slope(u).ln(),
        }
    }

    /// Value on a tensor, with its gradient, on the tensor's device.
    pub fn of(self, u: &Tensor) -> Result<Tensor> {
        Ok(match self {
            _ if u.elem_count() == 0 => u.clone(), // of which a device makes no sigmoid
            Surrogate::Sigmoid { sharpness } => candle_nn::ops::sigmoid(&(u * sharpness)?)?,
            Surrogate::Softplus { sharpness } => {
                let x = (u * sharpness)?;
                (x.relu()? + (x.abs()?.neg()?.exp()? + 1.0)?.log()?)?
            }
            Surrogate::Hinge => (u + 1.0)?.relu()?,
        })
    }

    /// Value and slope on a tensor as they are on the host, where a slope may be e^shift times smaller than it is.
    pub(super) fn with_slope(self, u: &Tensor, shift: f64) -> Result<(Tensor, Tensor)> {
        let (value, slope) = match self {
            Surrogate::Sigmoid { sharpness } => {
                let x = (u * sharpness)?;
                let (high, low) = tensor_sigmoids(&x)?;
                (x.ge(0.0)?.where_cond(&high, &low)?, ((high * low)? * sharpness)?)
            }
            Surrogate::Softplus { sharpness } => {
                let x = (u * sharpness)?;
                let (high, low) = tensor_sigmoids(&x)?;
                ((x.relu()? - high.log()?)?, (x.ge(0.0)?.where_cond(&high, &low)? * sharpness)?)
            }
            Surrogate::Hinge => ((u + 1.0)?.relu()?, u.gt(-1.0)?.to_dtype(u.dtype())?),
        };
        // The shift is the largest of those that count; others might overflow, and infinity times a weight of 0 is no number.
        Ok((value, if shift == 0.0 { slope } else { (self.log_slope_of(u)? - shift)?.minimum(0.0)?.exp()? }))
    }

    /// [`log_slope`](Surrogate::log_slope) on a tensor.
    pub(super) fn log_slope_of(self, u: &Tensor) -> Result<Tensor> {
        let tail = |x: &Tensor| Ok::<_, Error>((x.abs()?.neg()?.exp()? + 1.0)?.log()?);
        Ok(match self {
            Surrogate::Sigmoid { sharpness } => {
                let x = (u * sharpness)?;
                ((x.abs()?.neg()? - (tail(&x)? * 2.0)?)? + sharpness.ln())?
            }
            Surrogate::Softplus { sharpness } => {
                let x = (u * sharpness)?;
                ((x.neg()?.relu()?.neg()? - tail(&x)?)? + sharpness.ln())?
            }
            Surrogate::Hinge => u.gt(-1.0)?.to_dtype(u.dtype())?.log()?,
        })
    }

    /// Whether a rate made of it lies between 0 and 1, so that thresholds can be solved for.
    pub fn is_bounded(self) -> bool {
        matches!(self, Surrogate::Sigmoid { .. })
    }

    pub(super) fn check(self) -> Result<()> {
        match self {
            Surrogate::Sigmoid { sharpness } | Surrogate::Softplus { sharpness }
                if !(sharpness > 0.0 && sharpness.is_finite()) =>
            {
                Err(Error::config(
                    "sharpness",
                    sharpness,
                    "a positive number; 1 over the spread of the scores is mild",
                ))
            }
            _ => Ok(()),
        }
    }
}

/// σ(|x|) and σ(−|x|), each to full precision.
pub(super) fn sigmoids(x: f64) -> (f64, f64) {
    let e = (-x.abs()).exp();
    let high = 1.0 / (1.0 + e);
    (high, e * high)
}

/// The same of a tensor.
pub(super) fn tensor_sigmoids(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let e = x.abs()?.neg()?.exp()?;
    let high = (&e + 1.0)?.recip()?;
    let low = (e * &high)?;
    Ok((high, low))
}
