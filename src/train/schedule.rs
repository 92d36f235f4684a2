//! Learning rates over a run.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Factor on the learning rate over the course of a run.
///
/// ```
/// use lastlayer::prelude::*;
/// let half = |schedule: Schedule| schedule.factor(0.5, 3); // halfway, in the fourth epoch
/// assert_eq!(half(Schedule::Steps { every: 3, factor: 0.1 }), 0.1);
/// assert!((half(Schedule::Cosine { floor: 0.0 }) - 0.5).abs() < 1e-12);
/// assert_eq!(half(Schedule::Linear { from: 0.5, floor: 0.0 }), 1.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Schedule {
    #[default]
    Constant,
    /// Multiplied by `factor` after every `every` epochs.
    Steps { every: usize, factor: f64 },
    /// Half a cosine from 1 to `floor`.
    Cosine { floor: f64 },
    /// From `start` up to 1 over the share `rise` of the run, and down to `floor`, both as half a cosine.
    OneCycle { rise: f64, start: f64, floor: f64 },
    /// Constant until the share `from` of the run, then straight down to `floor`.
    Linear { from: f64, floor: f64 },
}

impl Schedule {
    /// The factor at a share of the run in [0, 1), in an epoch.
    pub fn factor(self, progress: f64, epoch: usize) -> f64 {
        // Half a cosine from `a` at 0 to `b` at 1.
        let cosine =
            |a: f64, b: f64, at: f64| b + (a - b) * 0.5 * (1.0 + libm::cos(std::f64::consts::PI * at));
        match self {
            Schedule::Constant => 1.0,
            Schedule::Steps { every, factor } => factor.powi((epoch / every.max(1)) as i32),
            Schedule::Cosine { floor } => cosine(1.0, floor, progress),
            Schedule::OneCycle { rise, start, .. } if progress < rise => cosine(start, 1.0, progress / rise),
            Schedule::OneCycle { rise, floor, .. } => cosine(1.0, floor, (progress - rise) / (1.0 - rise)),
            Schedule::Linear { from, .. } if progress < from => 1.0,
            Schedule::Linear { from, floor } => 1.0 + (floor - 1.0) * (progress - from) / (1.0 - from),
        }
    }

    pub(super) fn check(self) -> Result<()> {
        let share = |field: &str, value: f64, below_one: bool| {
            if (0.0..=1.0).contains(&value) && !(below_one && value == 1.0) {
                return Ok(());
            }
            Err(Error::config(
                format!("{field} of the schedule"),
                value,
                if below_one { "0 to below 1" } else { "0 to 1" },
            ))
        };
        match self {
            Schedule::Constant => Ok(()),
            Schedule::Steps { every: 0, .. } => Err(Error::config("epochs between steps", 0, "at least 1")),
            Schedule::Steps { factor, .. } if !(factor > 0.0 && factor.is_finite()) => {
                Err(Error::config("factor of the schedule", factor, "a positive number"))
            }
            Schedule::Steps { .. } => Ok(()),
            Schedule::Cosine { floor } => share("floor", floor, false),
            Schedule::OneCycle { rise, start, floor } => {
                share("rise", rise, true)?;
                share("start", start, false)?;
                share("floor", floor, false)
            }
            Schedule::Linear { from, floor } => {
                share("from", from, true)?;
                share("floor", floor, false)
            }
        }
    }
}
