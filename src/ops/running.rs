//! The statistics that a batch normalisation carries from training to use.

use std::sync::{Mutex, PoisonError};

use candle_core::{DType, Device, Tensor, Var};

use super::host::{Candle, Real, check, in_place};
use super::norm::Channel;
use crate::error::{Error, Result};
use crate::numbers::to_tensor;

/// Running mean and variance of a batch normalisation, and how fast they follow.
///
/// A clone shares the two variables. They are updated under a lock, on a device until it has done so: passes on several
/// threads do no harm.
///
/// ```
/// use lastlayer::prelude::*;
/// let gamma = Tensor::ones(3, DType::F64, &Device::Cpu)?;
/// let running = ops::Running::new(&gamma)?;
/// assert_eq!((running.momentum, running.eps), (0.1, 1e-5));
/// assert_eq!(running.var.to_vec1::<f64>()?, [1.0; 3]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Running {
    /// Running mean, one per channel.
    pub mean: Var,
    /// Running variance (unbiased), one per channel.
    pub var: Var,
    /// Weight of the newest batch, as in PyTorch: 0.1 by habit.
    pub momentum: f64,
    /// Added to the variance under the root.
    pub eps: f64,
}

impl Running {
    /// Mean 0 and variance 1 for as many channels as `like` (the scale, say) has; momentum 0.1, eps 1e-5.
    pub fn new(like: &Tensor) -> Result<Running> {
        let (mean, var) = (Var::from_tensor(&like.zeros_like()?)?, Var::from_tensor(&like.ones_like()?)?);
        Ok(Running { mean, var, momentum: 0.1, eps: 1e-5 })
    }

    /// Shows both statistics.
    pub fn evcxr_display(&self) {
        let text = format!("running mean {}\nrunning variance {}", self.mean, self.var);
        evcxr_runtime::mime_type("text/plain").text(text);
    }

    /// Types, devices and sizes of everything that has one number per channel, and the settings.
    pub(super) fn check(&self, x: &Tensor, c: usize, gamma: &Tensor, beta: &Tensor) -> Result<()> {
        let per_channel = [
            ("gamma of batch_norm", gamma),
            ("beta of batch_norm", beta),
            ("running mean of batch_norm", self.mean.as_tensor()),
            ("running variance of batch_norm", self.var.as_tensor()),
        ];
        check(&[&[("x of batch_norm", x)][..], &per_channel].concat())?;
        for (name, t) in per_channel {
            if t.dims() != [c] {
                let expected = format!("[{c}] for x {:?}", x.dims());
                return Err(Error::shape(name, expected, format!("{:?}", t.dims())));
            }
        }
        if !(0.0..=1.0).contains(&self.momentum) {
            return Err(Error::config("momentum of batch_norm", self.momentum, "0 to 1"));
        }
        if !(self.eps >= 0.0 && self.eps.is_finite()) {
            return Err(Error::config(
                "eps of batch_norm",
                self.eps,
                "a number of at least 0; 1e-5 by habit",
            ));
        }
        Ok(())
    }

    /// Mean and variance of every channel. Host: called for CPU tensors only.
    pub(super) fn read(&self) -> Result<Vec<(f64, f64)>> {
        let read = |var: &Var| var.to_dtype(DType::F64)?.to_vec1::<f64>();
        Ok(read(&self.mean)?.into_iter().zip(read(&self.var)?).collect())
    }

    /// Follows the statistics of a batch with `count` numbers per channel.
    pub(super) fn follow(&self, channels: &[Channel], count: usize) -> Result<()> {
        let unbiased = count as f64 / (count as f64 - 1.0);
        let tensor = |f: &dyn Fn(&Channel) -> f64| {
            let values: Vec<f64> = channels.iter().map(f).collect();
            to_tensor(values, channels.len(), self.mean.dtype(), self.mean.device())
        };
        self.follow_tensors(&tensor(&|channel| channel.mean)?, &tensor(&|channel| channel.var * unbiased)?)
    }

    /// running ← (1 − momentum) running + momentum batch
    pub(super) fn follow_tensors(&self, mean: &Tensor, unbiased: &Tensor) -> Result<()> {
        let both = [(&self.mean, mean), (&self.var, unbiased)];
        if !self.mean.device().is_cpu() {
            return alone(self.mean.device(), || {
                both.into_iter().try_for_each(|(running, batch)| {
                    let kept = (running.as_detached_tensor() * (1.0 - self.momentum))?;
                    Ok(running.set(&(kept + (batch * self.momentum)?)?)?)
                })
            });
        }
        for (running, batch) in both {
            match running.dtype() {
                DType::F32 => blend::<f32>(running, batch, self.momentum)?,
                _ => blend::<f64>(running, batch, self.momentum)?,
            }
        }
        Ok(())
    }
}

/// Reads and writes statistics while no other thread does: between its two halves an update would be lost. A device only
/// takes note of what it is asked, for each thread by itself, so it must have done this before the next thread asks.
pub(super) fn alone<R>(device: &Device, update: impl FnOnce() -> Result<R>) -> Result<R> {
    static UPDATING: Mutex<()> = Mutex::new(());
    let _updating = UPDATING.lock().unwrap_or_else(PoisonError::into_inner);
    let result = update()?;
    device.synchronize()?;
    Ok(result)
}

fn blend<T: Real>(running: &Var, batch: &Tensor, momentum: f64) -> Candle<()> {
    let (keep, take) = (T::from_f64(1.0 - momentum), T::from_f64(momentum));
    in_place::<T>(running, batch, |running, batch| {
        for (running, batch) in running.iter_mut().zip(batch) {
            *running = keep * *running + take * *batch;
        }
        Ok(())
    })
}
