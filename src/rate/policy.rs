//! Where the threshold of a step comes from, and what is remembered between steps.

use candle_core::{Device, Tensor, Var};
use serde::{Deserialize, Serialize};

use super::labels::Labels;
use super::problem::RateProblem;
use crate::error::{Error, Result};

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
/// let training = RateTraining::new(&net, &goal, Method::Ico)?;
/// let training = training.policy(ThresholdPolicy::Buffer { samples: 150 })?;
/// assert!(training.state()?.0.is_empty()); // no threshold before the first step
/// Trainer::adam(0.01).batch(50).silent().fit(&training, &data, |b| training.step(b))?;
/// assert!(training.state()?.0[0].is_finite());
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

/// What a method keeps between steps: kept with the parameters, so that a run that was stopped continues as it was.
/// Host: all of it is read and written in f64.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub threshold: Var,
    pub multiplier: Var,
    /// Whether threshold and multiplier have a value yet.
    pub started: Var,
    pub game: Option<Var>,
    /// Rows of score, label and attributes, and how many were ever put in.
    buffer: Option<(Var, Var)>,
}

impl Memory {
    pub fn new(
        problem: &RateProblem,
        policy: ThresholdPolicy,
        game: Option<&[f64]>,
        device: &Device,
    ) -> Result<Memory> {
        let zeros = |n: usize| Ok::<_, Error>(Var::from_tensor(&Tensor::new(vec![0.0f64; n], device)?)?);
        let m = problem.m();
        let buffer = match policy {
            ThresholdPolicy::Buffer { samples } => {
                let rows = zeros(samples * (2 + problem.attributes()))?;
                Some((rows, zeros(1)?))
            }
            _ => None,
        };
        let game =
            game.map(|state| Ok::<_, Error>(Var::from_tensor(&Tensor::new(state, device)?)?)).transpose()?;
        Ok(Memory { threshold: zeros(m)?, multiplier: zeros(m)?, started: zeros(2)?, game, buffer })
    }

    pub fn named(&self) -> Vec<(String, Var)> {
        let mut all = vec![
            ("threshold", &self.threshold),
            ("multiplier", &self.multiplier),
            ("started", &self.started),
        ];
        all.extend(self.game.iter().map(|game| ("game", game)));
        all.extend(self.buffer.iter().flat_map(|(rows, filled)| [("buffer", rows), ("filled", filled)]));
        all.into_iter().map(|(name, var)| (format!("rate.{name}"), var.clone())).collect()
    }

    /// The stale thresholds, or nothing before the first.
    pub fn stale(&self) -> Result<Option<Vec<f64>>> {
        Ok((read(&self.started)?[0] > 0.0).then_some(read(&self.threshold)?))
    }

    pub fn keep(&self, t: &[f64]) -> Result<()> {
        write(&self.threshold, t)?;
        let multiplier_started = read(&self.started)?[1];
        write(&self.started, &[1.0, multiplier_started])
    }

    /// Moving average of the multipliers, this one included, none beyond `bound`: where slopes underflow they overflow.
    pub fn average_multiplier(&self, multiplier: &[f64], bound: f64) -> Result<Vec<f64>> {
        let started = read(&self.started)?;
        let multiplier: Vec<f64> = multiplier.iter().map(|m| m.clamp(-bound, bound)).collect();
        let average: Vec<f64> = match started[1] > 0.0 {
            true => read(&self.multiplier)?.iter().zip(&multiplier).map(|(a, m)| 0.9 * a + 0.1 * m).collect(),
            false => multiplier,
        };
        write(&self.multiplier, &average)?;
        write(&self.started, &[started[0], 1.0])?;
        Ok(average)
    }

    /// Puts a batch into the buffer, over the oldest; gives all scores and labels in it.
    pub fn pool(&self, s: &[f64], labels: &Labels, attributes: usize) -> Result<(Vec<f64>, Labels)> {
        let Some((rows, filled)) = &self.buffer else { return Ok((s.to_vec(), labels.clone())) };
        let width = 2 + attributes;
        let mut held = read(rows)?;
        let samples = held.len() / width;
        let mut next = read(filled)?[0] as usize;
        for (s, flags) in s.iter().zip(labels.rows()) {
            let row = &mut held[next % samples * width..][..width];
            row[0] = *s;
            row[1..].copy_from_slice(&flags[..width - 1]);
            next += 1;
        }
        write(rows, &held)?;
        write(filled, &[next as f64])?;
        let used: Vec<&[f64]> = held.chunks(width).take(next).collect();
        let scores = used.iter().map(|row| row[0]).collect();
        let y: Vec<f64> = used.iter().map(|row| row[1]).collect();
        let a: Vec<f64> = used.iter().flat_map(|row| row[2..].iter().copied()).collect();
        let a = ndarray::Array2::from_shape_vec((used.len(), attributes), a)
            .map_err(|e| Error::shape("rows of the buffer", width, e))?;
        Ok((scores, Labels::new(y)?.with_attributes(a)?))
    }
}

/// Host: the numbers of a variable.
pub(super) fn read(var: &Var) -> Result<Vec<f64>> {
    Ok(var.to_vec1::<f64>()?)
}

/// Sets the numbers of a variable.
pub(super) fn write(var: &Var, values: &[f64]) -> Result<()> {
    Ok(var.set(&Tensor::new(values, var.device())?)?)
}
