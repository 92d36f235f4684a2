//! Small dense solves in f64. Host: everything here works on lists of numbers, never on tensors.
//!
//! ```
//! use lastlayer::linalg::{Cholesky, solve};
//! use lastlayer::ndarray::array;
//! // The same system twice: any square matrix, and one that is symmetric and positive definite.
//! let (a, b) = (array![[4.0, 2.0], [2.0, 3.0]], array![10.0, 9.0]);
//! let x = solve(&a, &b)?;
//! assert!((&x - &array![1.5, 2.0]).iter().all(|gap| gap.abs() < 1e-14));
//! assert!((Cholesky::new(&a)?.solve(&[10.0, 9.0])?[1] - x[1]).abs() < 1e-14);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod cholesky;
mod eigen;
mod least_squares;
mod qr;

use ndarray::{Array1, Array2};

use crate::error::{Error, Result, ensure_shape};

pub use cholesky::Cholesky;
pub(crate) use cholesky::dot;
pub use eigen::symmetric_eigen;
pub use least_squares::shortest_solution;
pub use qr::row_basis;

/// Solution of A x = b for a square matrix, by elimination with row exchanges.
///
/// Cost: O(m³). Fails: `Shape` unless A is square and b fits, `Solve` if A is singular to working precision, with the
/// ratio of its smallest to its largest pivot. Checked by `tests/linalg.rs`.
///
/// ```
/// use lastlayer::{linalg::solve, ndarray::array};
/// assert_eq!(solve(&array![[0.0, 1.0], [2.0, 0.0]], &array![3.0, 4.0])?, array![2.0, 3.0]);
/// assert!(solve(&array![[1.0, 2.0], [2.0, 4.0]], &array![1.0, 1.0]).is_err()); // singular
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn solve(a: &Array2<f64>, b: &Array1<f64>) -> Result<Array1<f64>> {
    let m = b.len();
    ensure_shape("matrix of a linear system", &[m, m][..], a.shape())?;
    let (mut a, mut x) = (a.clone(), b.clone());
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    for k in 0..m {
        let pivot = (k..m).max_by(|i, j| a[[*i, k]].abs().total_cmp(&a[[*j, k]].abs())).unwrap_or(k);
        if pivot != k {
            (0..m).for_each(|j| a.swap([k, j], [pivot, j]));
            x.swap(k, pivot);
        }
        let size = a[[k, k]].abs();
        (least, most) = (least.min(size), most.max(size));
        // Written so that NaN fails too.
        if !(size > f64::EPSILON * most && size.is_finite()) {
            let hint = "the matrix is singular to working precision or not finite; look for two equal rows";
            let (solver, hint) = ("elimination".to_string(), hint.to_string());
            return Err(Error::Solve { solver, iters: k, residual: least / most, hint });
        }
        for i in k + 1..m {
            let factor = a[[i, k]] / a[[k, k]];
            if factor != 0.0 {
                for j in k..m {
                    a[[i, j]] -= factor * a[[k, j]];
                }
                x[i] -= factor * x[k];
            }
        }
    }
    for k in (0..m).rev() {
        let known: f64 = (k + 1..m).map(|j| a[[k, j]] * x[j]).sum();
        x[k] = (x[k] - known) / a[[k, k]];
    }
    Ok(x)
}
