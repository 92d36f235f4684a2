//! Numbers from anywhere: candle tensors, ndarray arrays, vectors, slices and single values, all read as f64. What
//! counts, compares or ranks takes its input through this one door. Host: all numbers.

use std::borrow::Cow;

use candle_core::{DType, Tensor};
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
pub trait Numbers {
    /// All entries in row-major order, on the host; what is such a list already is lent, not copied.
    fn numbers(&self) -> Result<Cow<'_, [f64]>>;

    /// The length of each dimension; empty for a single number.
    fn dims(&self) -> Vec<usize>;
}

/// A single value that reads as f64.
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

    fn dims(&self) -> Vec<usize> {
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

            fn dims(&self) -> Vec<usize> {
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

    fn dims(&self) -> Vec<usize> {
        vec![self.len()]
    }
}

impl<T: Number, const N: usize> Numbers for [T; N] {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        self.as_slice().numbers()
    }

    fn dims(&self) -> Vec<usize> {
        vec![N]
    }
}

impl<T: Number> Numbers for Vec<T> {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        self.as_slice().numbers()
    }

    fn dims(&self) -> Vec<usize> {
        vec![self.len()]
    }
}

impl<T: Number, S: Data<Elem = T>, D: Dimension> Numbers for ArrayBase<S, D> {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        // `iter` walks in logical order whatever the memory layout.
        Ok(self.as_slice().map_or_else(|| self.iter().map(|v| v.number()).collect(), T::list))
    }

    fn dims(&self) -> Vec<usize> {
        self.shape().to_vec()
    }
}

impl Numbers for Tensor {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        Ok(Cow::Owned(self.flatten_all()?.to_dtype(DType::F64)?.to_vec1()?))
    }

    fn dims(&self) -> Vec<usize> {
        Tensor::dims(self).to_vec()
    }
}

impl<T: Numbers + ?Sized> Numbers for &T {
    fn numbers(&self) -> Result<Cow<'_, [f64]>> {
        (**self).numbers()
    }

    fn dims(&self) -> Vec<usize> {
        (**self).dims()
    }
}
