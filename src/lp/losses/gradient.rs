//! Gradients in scores, where the scores are.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::OnceLock;

use candle_core::Tensor;
use ndarray::Array2;

use crate::error::{Result, ensure_shape};
use crate::loss::{with_gradient, with_gradient_of};
use crate::numbers::AsF64;

/// A gradient in scores, which stays where they are: one entry per score, in their order.
///
/// It reads as what it stands for, a `Vec<f64>`, or an `Array2<f64>` for scores of several classes. Host: all of it,
/// once somebody reads it; a loss that only goes into a network never does. Entries of a device that has failed read as
/// NaN, and [`numbers`](AsF64::numbers) says why. Checked by
/// `tests/lp/losses.rs::a_gradient_reads_as_a_list_wherever_it_is`.
///
/// ```
/// use lastlayer::prelude::*;
/// let s = Tensor::new(&[0.0f64, 1.0], &Device::Cpu)?;
/// let gradient: lp::ScoreGradient = auc_loss(&s, [1, 0], 0.5, AucLoss::Value)?.gradient;
/// assert_eq!(gradient, [-1.0, 1.0]);
/// assert_eq!(gradient.iter().sum::<f64>(), 0.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone)]
pub struct ScoreGradient<T = Vec<f64>>(Place<T>);

#[derive(Clone)]
enum Place<T> {
    Host(T),
    /// In the shape of the scores, f64, and what was read from it.
    Device(Tensor, OnceLock<T>),
}

/// What a gradient reads as.
pub trait List: AsF64 + PartialEq<ScoreGradient<Self>> + Sized {
    /// From its entries in row-major order.
    fn of(values: Vec<f64>, sizes: &[usize]) -> Self;
}

impl List for Vec<f64> {
    fn of(values: Vec<f64>, _: &[usize]) -> Vec<f64> {
        values
    }
}

impl List for Array2<f64> {
    fn of(values: Vec<f64>, sizes: &[usize]) -> Array2<f64> {
        let columns = sizes.last().copied().unwrap_or(1);
        Array2::from_shape_vec((values.len() / columns.max(1), columns), values).unwrap_or_default()
    }
}

impl<T: List> ScoreGradient<T> {
    /// Of scores on a device.
    pub(super) fn from_device(gradient: Tensor) -> ScoreGradient<T> {
        ScoreGradient(Place::Device(gradient, OnceLock::new()))
    }

    /// A value as a tensor that hands this gradient back to the scores. Host: nothing, if the scores are where it is.
    pub(super) fn on(&self, s: &Tensor, value: f64) -> Result<Tensor> {
        match self.on_device().filter(|gradient| gradient.device().same_device(s.device())) {
            None => with_gradient(s, &self.numbers()?, value),
            Some(gradient) => {
                ensure_shape("gradient of a loss", s.elem_count(), gradient.elem_count())?;
                with_gradient_of(s, gradient.to_dtype(s.dtype())?.reshape(s.dims())?, value)
            }
        }
    }
}

impl<T: List + std::fmt::Debug> ScoreGradient<T> {
    /// Shows the entries.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(format!("{self:?}"));
    }
}

impl<T> From<T> for ScoreGradient<T> {
    fn from(list: T) -> ScoreGradient<T> {
        ScoreGradient(Place::Host(list))
    }
}

/// Host: all of it, the first time.
impl<T: List> Deref for ScoreGradient<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Place::Host(list) => list,
            Place::Device(gradient, list) => list.get_or_init(|| {
                let lost = |_| vec![f64::NAN; gradient.elem_count()];
                T::of(gradient.numbers().map_or_else(lost, Cow::into_owned), gradient.dims())
            }),
        }
    }
}

/// Host: all of it, every time.
impl<T: List> AsF64 for ScoreGradient<T> {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        match &self.0 {
            Place::Host(list) => list.numbers(),
            Place::Device(gradient, _) => gradient.numbers(),
        }
    }

    fn sizes(&self) -> Vec<usize> {
        match &self.0 {
            Place::Host(list) => list.sizes(),
            Place::Device(gradient, _) => gradient.sizes(),
        }
    }

    fn on_device(&self) -> Option<&Tensor> {
        match &self.0 {
            Place::Host(_) => None,
            Place::Device(gradient, _) => Some(gradient),
        }
    }
}

impl<T: List + PartialEq<U>, U: ?Sized> PartialEq<U> for ScoreGradient<T> {
    fn eq(&self, other: &U) -> bool {
        **self == *other
    }
}

impl PartialEq<ScoreGradient> for Vec<f64> {
    fn eq(&self, other: &ScoreGradient) -> bool {
        *self == **other
    }
}

impl PartialEq<ScoreGradient<Array2<f64>>> for Array2<f64> {
    fn eq(&self, other: &ScoreGradient<Array2<f64>>) -> bool {
        *self == **other
    }
}

impl<T: List + std::fmt::Debug> std::fmt::Debug for ScoreGradient<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}
