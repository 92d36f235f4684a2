//! The matrix of a linear program: dense, or thin rows with a few full rows and columns.
//! Host: all numbers.

use ndarray::Array2;

use super::structured::Structured;
use crate::error::{Error, Result};
use crate::linalg::dot;
use crate::numbers::AsF64;

/// A matrix in one of the two forms that solvers know.
///
/// Checked by `tests/lp/algebra.rs::structured_and_dense_agree`.
///
/// ```
/// use lastlayer::prelude::*;
/// let dense = Matrix::dense(ndarray::array![[1.0, 0.0], [0.0, 2.0]])?;
/// assert_eq!((dense.rows(), dense.columns(), dense.get(1, 1)), (2, 2, 2.0));
/// let diagonal = dense.detect();
/// assert!(matches!(diagonal, Matrix::Structured(_)));
/// assert_eq!(diagonal.to_dense(), dense.to_dense());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Matrix {
    Dense(Array2<f64>),
    Structured(Structured),
}

impl Matrix {
    /// Dense matrix from anything of two dimensions.
    ///
    /// Fails: `Shape` unless it has two.
    pub fn dense(a: impl AsF64) -> Result<Matrix> {
        let dims = a.sizes();
        let &[m, n] = &dims[..] else {
            return Err(Error::shape("matrix of a linear program", "[rows, columns]", format!("{dims:?}")));
        };
        let values = a.numbers()?.into_owned();
        let shaped = Array2::from_shape_vec((m, n), values);
        Ok(Matrix::Dense(shaped.map_err(|e| Error::shape("matrix of a linear program", "[m, n]", e))?))
    }

    /// Without a row.
    pub fn empty(columns: usize) -> Matrix {
        Matrix::Dense(Array2::zeros((0, columns)))
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Matrix::Dense(a) => a.nrows(),
            Matrix::Structured(a) => a.rows(),
        }
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        match self {
            Matrix::Dense(a) => a.ncols(),
            Matrix::Structured(a) => a.columns(),
        }
    }

    /// Entry of a row and a column; zero outside.
    pub fn get(&self, row: usize, column: usize) -> f64 {
        match self {
            Matrix::Dense(a) => a.get([row, column]).copied().unwrap_or(0.0),
            Matrix::Structured(a) => a.get(row, column),
        }
    }

    /// A x. The caller knows that x has an entry per column.
    pub(crate) fn times(&self, x: &[f64]) -> Vec<f64> {
        match self {
            Matrix::Dense(a) => match a.as_slice() {
                Some(_) if x.is_empty() => vec![0.0; a.nrows()],
                Some(values) => values.chunks_exact(x.len()).map(|row| dot(row, x)).collect(),
                None => a.rows().into_iter().map(|row| row.iter().zip(x).map(|(a, x)| a * x).sum()).collect(),
            },
            Matrix::Structured(a) => a.times(x),
        }
    }

    /// Aᵀ v. The caller knows that v has an entry per row.
    pub(crate) fn transposed_times(&self, v: &[f64]) -> Vec<f64> {
        match self {
            Matrix::Dense(a) => {
                let mut sum = vec![0.0; a.ncols()];
                for (row, v) in a.rows().into_iter().zip(v).filter(|(_, v)| **v != 0.0) {
                    // A slice where the memory allows: the compiler can then work on several entries at once.
                    match row.to_slice() {
                        Some(row) => sum.iter_mut().zip(row).for_each(|(s, a)| *s += a * v),
                        None => sum.iter_mut().zip(row).for_each(|(s, a)| *s += a * v),
                    }
                }
                sum
            }
            Matrix::Structured(a) => a.transposed_times(v),
        }
    }

    /// One row, written out.
    pub fn row(&self, i: usize) -> Vec<f64> {
        match self {
            Matrix::Dense(a) if i < a.nrows() => a.row(i).to_vec(),
            _ => (0..self.columns()).map(|j| self.get(i, j)).collect(),
        }
    }

    /// All entries, written out.
    pub fn to_dense(&self) -> Array2<f64> {
        match self {
            Matrix::Dense(a) => a.clone(),
            Matrix::Structured(a) => {
                Array2::from_shape_fn((self.rows(), self.columns()), |(i, j)| a.get(i, j))
            }
        }
    }

    /// With its structure found, if it has one that makes solves cheap.
    pub fn detect(&self) -> Matrix {
        match self {
            Matrix::Dense(a) => Structured::detect(a).map_or_else(|| self.clone(), Matrix::Structured),
            Matrix::Structured(_) => self.clone(),
        }
    }

    /// With rows I and −I below it.
    pub(crate) fn with_box(&self) -> Matrix {
        match self {
            Matrix::Dense(a) => {
                let (m, n) = a.dim();
                let side = |i: usize, j: usize| match i % n == j {
                    true if i < n => 1.0,
                    true => -1.0,
                    false => 0.0,
                };
                let entry = |(i, j)| if i < m { a[[i, j]] } else { side(i - m, j) };
                Matrix::Dense(Array2::from_shape_fn((m + 2 * n, n), entry))
            }
            Matrix::Structured(a) => Matrix::Structured(a.with_box()),
        }
    }

    /// Whether a row has no entry but zeros.
    pub(crate) fn row_is_empty(&self, i: usize) -> bool {
        match self {
            Matrix::Dense(a) => a.row(i).iter().all(|v| *v == 0.0),
            Matrix::Structured(a) => a.nonzeros(i).next().is_none(),
        }
    }

    /// Euclidean length of each row, safe from overflow.
    pub(crate) fn row_sizes(&self) -> Vec<f64> {
        fn size(values: impl Iterator<Item = f64> + Clone) -> f64 {
            let most = values.clone().fold(0.0f64, |most, v| most.max(v.abs()));
            if most == 0.0 {
                return 0.0;
            }
            most * values.map(|v| (v / most) * (v / most)).sum::<f64>().sqrt()
        }
        match self {
            Matrix::Dense(a) => a.rows().into_iter().map(|row| size(row.iter().copied())).collect(),
            Matrix::Structured(a) => (0..a.rows())
                .map(|i| size(a.nonzeros(i).map(|(_, v)| v).collect::<Vec<_>>().into_iter()))
                .collect(),
        }
    }

    /// Every row divided by its number.
    pub(crate) fn divide_rows(&mut self, by: &[f64]) {
        match self {
            Matrix::Dense(a) => {
                a.rows_mut().into_iter().zip(by).for_each(|(mut row, by)| row.mapv_inplace(|v| v / by));
            }
            Matrix::Structured(a) => a.divide_rows(by),
        }
    }

    /// Calls a function with row, column and value of every entry that is not zero.
    pub(crate) fn each(&self, mut f: impl FnMut(usize, usize, f64)) {
        match self {
            Matrix::Dense(a) => {
                a.indexed_iter().filter(|(_, v)| **v != 0.0).for_each(|((i, j), v)| f(i, j, *v));
            }
            Matrix::Structured(a) => {
                (0..a.rows()).for_each(|i| a.nonzeros(i).for_each(|(j, v)| f(i, j, v)));
            }
        }
    }

    /// Every column times its number.
    pub(crate) fn multiply_columns(&mut self, by: &[f64]) {
        match self {
            Matrix::Dense(a) => a.rows_mut().into_iter().for_each(|mut row| {
                row.iter_mut().zip(by).for_each(|(v, by)| *v *= by);
            }),
            Matrix::Structured(a) => a.multiply_columns(by),
        }
    }

    /// The first entry that is not finite.
    pub(crate) fn first_bad(&self) -> Option<(usize, usize, f64)> {
        match self {
            Matrix::Dense(a) => a.indexed_iter().find(|(_, v)| !v.is_finite()).map(|((i, j), v)| (i, j, *v)),
            Matrix::Structured(a) => (0..a.rows())
                .find_map(|i| a.nonzeros(i).find(|(_, v)| !v.is_finite()).map(|(j, v)| (i, j, v))),
        }
    }

    /// Shows the form and the size.
    pub fn evcxr_display(&self) {
        let (m, n) = (self.rows(), self.columns());
        let text = match self {
            Matrix::Dense(_) => format!("dense matrix, {m} × {n}"),
            Matrix::Structured(a) => format!("{a:?}"),
        };
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}
