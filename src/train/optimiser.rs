//! Optimisers and weight decay as settings.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Rule by which a gradient becomes a step.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = arcs(4, 0.0, Seed::new(1), &Device::Cpu)?;
/// for (optimiser, expected) in [
///     (Optimiser::Sgd { momentum: 0.0, nesterov: false }, 2.0 - 0.1 * 4.0), // w² falls by lr · 2w
///     (Optimiser::adam(), 2.0 - 0.1), // Adam's first step has the length of the rate
/// ] {
///     let w = Var::new(2.0f64, &Device::Cpu)?;
///     let groups = vec![Group::new("w", vec![("w".to_string(), w.clone())])];
///     let trainer = Trainer { optimiser, ..Trainer::adam(0.1).batch(4).silent() };
///     trainer.fit(&mut Minimise::over(groups, |_| Ok(w.sqr()?)), &data)?;
///     assert!((w.to_scalar::<f64>()? - expected).abs() < 1e-6);
/// }
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Optimiser {
    /// Gradient descent, with momentum if it is not zero.
    Sgd { momentum: f64, nesterov: bool },
    /// Adam (Kingma and Ba 2015).
    Adam { beta1: f64, beta2: f64, epsilon: f64 },
}

impl Optimiser {
    /// Adam with its usual constants.
    pub fn adam() -> Optimiser {
        Optimiser::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }

    pub(super) fn check(self) -> Result<()> {
        let share = |field: &str, value: f64| match (0.0..1.0).contains(&value) {
            true => Ok(()),
            false => Err(Error::config(field, value, "from 0, below 1")),
        };
        match self {
            Optimiser::Sgd { momentum, nesterov } => {
                share("momentum", momentum)?;
                match nesterov && momentum == 0.0 {
                    true => Err(Error::config("momentum", 0, "above 0 for Nesterov's form")),
                    false => Ok(()),
                }
            }
            Optimiser::Adam { beta1, beta2, epsilon } => {
                share("beta1", beta1)?;
                share("beta2", beta2)?;
                match epsilon > 0.0 && epsilon.is_finite() {
                    true => Ok(()),
                    false => Err(Error::config("epsilon", epsilon, "a positive number")),
                }
            }
        }
    }
}

/// Weight decay, in either sense.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = arcs(4, 0.0, Seed::new(1), &Device::Cpu)?;
/// // A loss that is flat where w stands: only the decay moves it.
/// for (decay, expected) in [(Decay::None, 2.0), (Decay::Penalty(0.5), 1.9), (Decay::Decoupled(0.5), 1.9)] {
///     let w = Var::new(2.0f64, &Device::Cpu)?;
///     let groups = vec![Group::new("w", vec![("w".to_string(), w.clone())])];
///     let trainer = Trainer::sgd(0.1, 0.0).decay(decay).batch(4).silent();
///     trainer.fit(&mut Minimise::over(groups, |_| Ok(w.sub(&w.detach())?.sqr()?)), &data)?;
///     assert!((w.to_scalar::<f64>()? - expected).abs() < 1e-12);
/// }
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Decay {
    #[default]
    None,
    /// The gradient of (weight / 2) ‖θ‖² is added before the optimiser sees it.
    Penalty(f64),
    /// θ shrinks by lr · weight in each step, past the optimiser (AdamW).
    Decoupled(f64),
}

impl Decay {
    pub(super) fn check(self) -> Result<()> {
        match self {
            Decay::Penalty(weight) | Decay::Decoupled(weight) if !(weight >= 0.0 && weight.is_finite()) => {
                Err(Error::config("weight decay", weight, "0 or more"))
            }
            _ => Ok(()),
        }
    }

    /// Weight, and whether it is decoupled.
    pub(super) fn parts(self) -> (f64, bool) {
        match self {
            Decay::None => (0.0, false),
            Decay::Penalty(weight) => (weight, false),
            Decay::Decoupled(weight) => (weight, true),
        }
    }
}
