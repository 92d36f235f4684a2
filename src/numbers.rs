//! Numbers from anywhere: candle tensors, ndarray arrays, vectors, slices and single values, all read as f64. What
//! counts, compares or ranks takes its input through this one door. Host: all numbers.
//!
//! ```
//! use lastlayer::prelude::*;
//! // One function for whatever holds numbers.
//! fn total(values: impl AsF64) -> Result<f64> {
//!     Ok(values.numbers()?.iter().sum())
//! }
//! assert_eq!(total([1, 2, 3])?, 6.0);
//! assert_eq!(total(&ndarray::array![[1.0, 2.0], [3.0, 4.0]])?, 10.0);
//! assert_eq!(total(Tensor::new(&[0.5f32, 0.25], &Device::Cpu)?)?, 0.75);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

use std::borrow::Cow;

use candle_core::{DType, Device, Shape, Tensor, Var};
use ndarray::{ArrayBase, Data, Dimension};

use crate::error::{Error, Result};

/// Whether every number of a tensor is finite. Host: one number; the rest stays on the device.
pub(crate) fn all_finite(x: &Tensor) -> Result<bool> {
    // 0 · x is zero for every finite number and NaN for all others, so one sum tells.
    Ok((x * 0.0)?.sum_all()?.to_dtype(DType::F64)?.to_scalar::<f64>()? == 0.0)
}

/// 1 where `holds` is 1, and NaN where it is 0: a factor for what an error would refuse, if anybody could ask the device.
pub(crate) fn or_nan(holds: &Tensor) -> Result<Tensor> {
    Ok(holds.div(holds)?)
}

/// Labels of two classes, or attributes: numbers of which every one is 0 or 1. Host: all of them.
///
/// Fails: `Data` for any other number.
pub(crate) fn zeros_and_ones<'a>(what: &str, values: &'a impl AsF64) -> Result<Cow<'a, [f64]>> {
    let values = values.numbers()?;
    let good = |v: &f64| (*v == 0.0) | (*v == 1.0);
    // Two passes: the common one, without early exit, runs at the speed of memory.
    if !values.iter().fold(true, |all, v| all & good(v)) {
        let at = values.iter().position(|v| !good(v)).unwrap_or(0);
        let remedy = "only 0 and 1 can be counted; write -1/+1 or class numbers as 0 and 1 first";
        return Err(Error::data(what, format!("entry {at} is {}; {remedy}", values[at])));
    }
    Ok(values)
}

/// Numbers of the host as a tensor. Host: they change their type before they move, which is half of the bytes for f32, and
/// no kernel has to be launched, which fails for a tensor without numbers.
pub(crate) fn to_tensor(
    values: Vec<f64>,
    shape: impl Into<Shape>,
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    Ok(Tensor::from_vec(values, shape.into(), &Device::Cpu)?.to_dtype(dtype)?.to_device(device)?)
}

/// Anything that can be read as a list of f64, with the shape it came in.
///
/// Integers beyond 2^53 are rounded to the nearest f64; a claim is 1 if it holds and 0 if not.
/// Checked by `tests/numbers.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let t = Tensor::new(&[[1u8, 2], [3, 4]], &Device::Cpu)?;
/// assert_eq!(*t.numbers()?, [1.0, 2.0, 3.0, 4.0]);
/// assert_eq!(t.sizes(), [2, 2]);
/// assert_eq!(*[true, false].numbers()?, [1.0, 0.0]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub trait AsF64 {
    /// All entries in row-major order, on the host; what is such a list already is lent, not copied.
    fn numbers(&self) -> Result<Cow<'_, [f64]>>;

    /// The length of each dimension; empty for a single number.
    fn sizes(&self) -> Vec<usize>;

    /// The tensor that holds them, if they are not on the host: what can work where they are asks here before it reads.
    fn on_device(&self) -> Option<&Tensor> {
        None
    }
}

/// A single value that reads as f64.
///
/// ```
/// use lastlayer::numbers::Number;
/// assert_eq!(true.number() + 2u8.number() + 0.5f32.number(), 3.5);
/// assert_eq!(*i64::list(&[-1, 4]), [-1.0, 4.0]);
/// ```
pub trait Number: Copy {
    /// The value in f64.
    fn number(self) -> f64;

    /// A list of such values in f64.
    fn list(values: &[Self]) -> Cow<'_, [f64]> {
        values.iter().map(|v| v.number()).collect()
    }
}

impl Number for f64 {
    fn number(self) -> f64 {
        self
    }

    fn list(values: &[f64]) -> Cow<'_, [f64]> {
        Cow::Borrowed(values)
    }
}

impl AsF64 for f64 {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        Ok(Cow::Borrowed(std::slice::from_ref(self)))
    }

    fn sizes(&self) -> Vec<usize> {
        Vec::new()
    }
}

/// Makes a type a [`Number`] and, since `AsF64 for T: Number` would overlap with references, [`AsF64`] too.
macro_rules! number {
    ($($kind:ty: $read:expr),*) => {
        $(impl Number for $kind {
            fn number(self) -> f64 {
                $read(self)
            }
        }

        impl AsF64 for $kind {
            fn numbers(&self) -> Result<Cow<'_, [f64]>> {
                Ok(Cow::Owned(vec![self.number()]))
            }

            fn sizes(&self) -> Vec<usize> {
                Vec::new()
            }
        })*
    };
}

number!(
    f32: f64::from,
    u8: f64::from,
    u32: f64::from,
    i32: f64::from,
    u64: |v| v as f64,
    i64: |v| v as f64,
    usize: |v| v as f64,
    bool: |v| f64::from(u8::from(v))
);

impl<T: Number> AsF64 for [T] {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        Ok(T::list(self))
    }

    fn sizes(&self) -> Vec<usize> {
        vec![self.len()]
    }
}

impl<T: Number, const N: usize> AsF64 for [T; N] {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        self.as_slice().numbers()
    }

    fn sizes(&self) -> Vec<usize> {
        vec![N]
    }
}

impl<T: Number> AsF64 for Vec<T> {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        self.as_slice().numbers()
    }

    fn sizes(&self) -> Vec<usize> {
        vec![self.len()]
    }
}

impl<T: Number, S: Data<Elem = T>, D: Dimension> AsF64 for ArrayBase<S, D> {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        // `iter` walks in logical order whatever the memory layout.
        Ok(self.as_slice().map_or_else(|| self.iter().map(|v| v.number()).collect(), T::list))
    }

    fn sizes(&self) -> Vec<usize> {
        self.shape().to_vec()
    }
}

impl AsF64 for Tensor {
    /// From a device they come in their own type, which is half of the bytes for f32, and become f64 here.
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        if self.elem_count() == 0 {
            return Ok(Cow::Owned(Vec::new())); // a device converts none
        }
        let mut flat = self.flatten_all()?;
        if !flat.device().is_cpu() {
            // Without the rest of what it is a part of, which would come along.
            flat = flat.detach().force_contiguous()?.to_device(&Device::Cpu)?;
        }
        Ok(Cow::Owned(flat.to_dtype(DType::F64)?.to_vec1()?))
    }

    fn sizes(&self) -> Vec<usize> {
        Tensor::dims(self).to_vec()
    }

    fn on_device(&self) -> Option<&Tensor> {
        (!self.device().is_cpu()).then_some(self)
    }
}

impl AsF64 for Var {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        self.as_tensor().numbers()
    }

    fn sizes(&self) -> Vec<usize> {
        self.as_tensor().sizes()
    }

    fn on_device(&self) -> Option<&Tensor> {
        self.as_tensor().on_device()
    }
}

impl<T: AsF64 + ?Sized> AsF64 for &T {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        (**self).numbers()
    }

    fn sizes(&self) -> Vec<usize> {
        (**self).sizes()
    }

    fn on_device(&self) -> Option<&Tensor> {
        (**self).on_device()
    }
}
