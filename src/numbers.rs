//! Numbers from anywhere: candle tensors, ndarray arrays, vectors, slices and single values, all read as f64. What
//! counts, compares or ranks takes its input through this one door. Host: all numbers.
//!
//! ```
//! use lastlayer::prelude::*;
//! // One function for whatever holds numbers.
//! fn total(values: impl Numbers) -> Result<f64> {
//!     Ok(values.numbers()?.iter().sum())
//! }
//! assert_eq!(total([1, 2, 3])?, 6.0);
//! assert_eq!(total(&ndarray::array![[1.0, 2.0], [3.0, 4.0]])?, 10.0);
//! assert_eq!(total(Tensor::new(&[0.5f32, 0.25], &Device::Cpu)?)?, 0.75);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

use std::borrow::Cow;

use candle_core::{DType, Tensor, Var};
use ndarray::{ArrayBase, Data, Dimension};

use crate::error::Result;

/// Whether every number of a tensor is finite. Host: one number; the rest stays on the device.
pub(crate) fn all_finite(x: &Tensor) -> Result<bool> {
    // 0 · x is zero for every finite number and NaN for all others, so one sum tells.
    Ok((x * 0.0)?.sum_all()?.to_dtype(DType::F64)?.to_scalar::<f64>()? == 0.0)
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
pub trait Numbers {
    /// All entries in row-major order, on the host; what is such a list already is lent, not copied.
    fn numbers(&self) -> Result<Cow<'_, [f64]>>;

    /// The length of each dimension; empty for a single number.
    fn sizes(&self) -> Vec<usize>;
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

impl Numbers for f64 {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        Ok(Cow::Borrowed(std::slice::from_ref(self)))
    }

    fn sizes(&self) -> Vec<usize> {
        Vec::new()
    }
}

/// Makes a type a [`Number`] and, since `Numbers for T: Number` would overlap with references, [`Numbers`] too.
macro_rules! number {
    ($($kind:ty: $read:expr),*) => {
        $(impl Number for $kind {
            fn number(self) -> f64 {
                $read(self)
            }
        }

        impl Numbers for $kind {
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

impl<T: Number> Numbers for [T] {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        Ok(T::list(self))
    }

    fn sizes(&self) -> Vec<usize> {
        vec![self.len()]
    }
}

impl<T: Number, const N: usize> Numbers for [T; N] {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        self.as_slice().numbers()
    }

    fn sizes(&self) -> Vec<usize> {
        vec![N]
    }
}

impl<T: Number> Numbers for Vec<T> {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        self.as_slice().numbers()
    }

    fn sizes(&self) -> Vec<usize> {
        vec![self.len()]
    }
}

impl<T: Number, S: Data<Elem = T>, D: Dimension> Numbers for ArrayBase<S, D> {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        // `iter` walks in logical order whatever the memory layout.
        Ok(self.as_slice().map_or_else(|| self.iter().map(|v| v.number()).collect(), T::list))
    }

    fn sizes(&self) -> Vec<usize> {
        self.shape().to_vec()
    }
}

impl Numbers for Tensor {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        Ok(Cow::Owned(self.flatten_all()?.to_dtype(DType::F64)?.to_vec1()?))
    }

    fn sizes(&self) -> Vec<usize> {
        Tensor::dims(self).to_vec()
    }
}

impl Numbers for Var {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        self.as_tensor().numbers()
    }

    fn sizes(&self) -> Vec<usize> {
        self.as_tensor().sizes()
    }
}

impl<T: Numbers + ?Sized> Numbers for &T {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        (**self).numbers()
    }

    fn sizes(&self) -> Vec<usize> {
        (**self).sizes()
    }
}
