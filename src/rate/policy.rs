//! Where the threshold of a step comes from, and what is remembered between steps.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor};
use serde::{Deserialize, Serialize};

use super::game::Game;
use super::labels::Labels;
use super::scored::Scored;
use crate::error::{Error, Result};
use crate::train::State;

/// Which threshold a step of training uses.
///
/// The gradient at a threshold holds the rate that the batch has there; only the policy brings it to the target.
/// Book: `rate/samples.md#eq-rate-samples-buffer`, `rate/decoupled.md#eq-rate-inert`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(200, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
/// let mut training = RateTraining::ico(&net, &goal)?.policy(ThresholdPolicy::Buffer { samples: 150 })?;
/// assert!(training.threshold().is_empty()); // none before the first step
/// Trainer::adam(0.01).batch(50).silent().fit(&mut training, &data)?;
/// assert!(training.threshold()[0].is_finite());
/// assert!(training.policy(ThresholdPolicy::Ema { decay: 1.0 }).is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ThresholdPolicy {
    /// Solved on the batch at hand.
    SolveEachStep,
    /// Moved along with the scores by the implicit function theorem, one more forward pass a step; every so many steps
    /// set to the hard quantile of some fresh batches.
    TrackAndCorrect { every: usize, batches: usize },
    /// Moving average of the thresholds solved on the batches before; in the first step, that of the batch itself.
    Ema { decay: f64 },
    /// Solved on the latest scores of so many samples, this batch among them: at least 20 negatives over the target.
    Buffer { samples: usize },
}

impl ThresholdPolicy {
    pub(super) fn check(self) -> Result<()> {
        match self {
            ThresholdPolicy::TrackAndCorrect { every, batches } if every == 0 || batches == 0 => {
                Err(Error::config(
                    "steps and batches of a correction",
                    format!("{every} and {batches}"),
                    "at least 1 each",
                ))
            }
            ThresholdPolicy::Ema { decay } if !(0.0..1.0).contains(&decay) => {
                Err(Error::config("decay of a moving average", decay, "0 or more and below 1"))
            }
            ThresholdPolicy::Buffer { samples: 0 } => {
                Err(Error::config("samples of a buffer", 0, "at least 1"))
            }
            _ => Ok(()),
        }
    }
}

/// What a method keeps between steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    pub threshold: Option<Vec<f64>>,
    /// Moving average.
    pub multiplier: Option<Vec<f64>>,
    pub game: Option<Game>,
    /// Rows of score, label and attributes, and how many were ever put in.
    buffer: Option<Tensor>,
    filled: usize,
}

impl Memory {
    /// Empty, but for the game.
    pub fn anew(self) -> Memory {
        Memory { game: self.game, ..Memory::default() }
    }

    /// Lists of numbers as tensors, which know infinity. Host: all but the buffer is kept there.
    pub fn state(&self) -> Result<State> {
        let game = self.game.as_ref().map(Game::state);
        let lists = [
            ("threshold", self.threshold.as_deref()),
            ("multiplier", self.multiplier.as_deref()),
            ("game", game),
        ];
        let mut tensors = BTreeMap::new();
        for (name, list) in lists {
            if let Some(list) = list {
                tensors.insert(name.to_string(), Tensor::new(list, &Device::Cpu)?);
            }
        }
        tensors.extend(self.buffer.iter().map(|rows| ("buffer".to_string(), rows.clone())));
        Ok(State { tensors, notes: self.filled.into() })
    }

    /// Goes on from such a state of a method with `m` thresholds and multipliers. Host: all but the buffer. Fails: `Data` for
    /// that of another method; nothing is then changed.
    pub fn restore(&mut self, state: &State, m: usize) -> Result<()> {
        let other = |what: &str| Error::data("state of a rate problem", format!("{what} of another method"));
        let list = |name: &str, length: usize| {
            let Some(tensor) = state.tensors.get(name) else { return Ok(None) };
            let list: Vec<f64> = tensor.to_vec1().map_err(|_| other(name))?;
            // A threshold may be infinite.
            match list.len() == length && !(name != "multiplier" && list.iter().any(|x| x.is_nan())) {
                true => Ok(Some(list)),
                false => Err(other(name)),
            }
        };
        let filled = state.notes.as_u64().ok_or_else(|| other("the number of rows"))? as usize;
        let (threshold, multiplier) = (list("threshold", m)?, list("multiplier", m)?);
        let game = list("game", self.game.as_ref().map_or(0, |game| game.state().len()))?;
        let buffer = state.tensors.get("buffer").cloned();
        if game.is_some() != self.game.is_some() || buffer.is_some() != (filled > 0) {
            return Err(other("game or buffer"));
        }
        if let Some((game, state)) = self.game.as_mut().zip(game) {
            game.set_state(state);
        }
        (self.threshold, self.multiplier, self.buffer, self.filled) = (threshold, multiplier, buffer, filled);
        Ok(())
    }

    /// Moving average of the multipliers, this one included, none beyond `bound`: where slopes underflow they overflow.
    pub fn average_multiplier(&mut self, multiplier: &[f64], bound: f64) -> Vec<f64> {
        let multiplier = multiplier.iter().map(|m| m.clamp(-bound, bound));
        let average: Vec<f64> = match &self.multiplier {
            Some(before) => before.iter().zip(multiplier).map(|(a, m)| 0.9 * a + 0.1 * m).collect(),
            None => multiplier.collect(),
        };
        self.multiplier = Some(average.clone());
        average
    }

    /// Puts a batch with scores `s` into a buffer of so many samples, over the oldest; gives all scores and labels in it.
    pub fn pool(
        &mut self,
        scored: &Scored,
        s: &Tensor,
        attributes: usize,
        samples: usize,
    ) -> Result<(Tensor, Labels)> {
        let new = scored.rows(attributes, s)?;
        let (n, width) = new.dims2()?;
        let before = self.filled;
        let held = match &self.buffer {
            Some(rows) => rows.copy()?,
            None => Tensor::zeros((samples, width), new.dtype(), new.device())?,
        };
        // What is overwritten in the same batch is not written at all.
        let mut next = before + n.saturating_sub(samples);
        while next < before + n {
            let place = next % samples;
            let fits = (samples - place).min(before + n - next);
            held.slice_set(&new.narrow(0, next - before, fits)?.contiguous()?, 0, place)?;
            next += fits;
        }
        let used = held.narrow(0, 0, next.min(samples))?.t()?.contiguous()?;
        (self.buffer, self.filled) = (Some(held), next);
        Ok((used.get(0)?, Labels::of_rows(&used.narrow(0, 1, 1 + attributes)?)?))
    }
}
