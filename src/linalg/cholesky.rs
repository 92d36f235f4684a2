//! Cholesky factors of symmetric positive definite matrices, with a report of the least pivot.

use ndarray::Array2;

use crate::error::{Error, Result, ensure_shape};

/// Lower triangular L with L Lᵀ = H.
///
/// ```text
/// L_ij = (H_ij − Σ_{k<j} L_ik L_jk) / L_jj,        L_ii² = H_ii − Σ_{k<i} L_ik² = pivot i
/// ```
/// Cost: n³/6 multiplications to factor, n² to solve. Checked by `tests/lp/algebra.rs`.
#[derive(Clone, Debug)]
pub struct Cholesky {
    n: usize,
    /// Row by row, without what lies above the diagonal: row i starts at i(i+1)/2.
    lower: Vec<f64>,
    least_pivot: f64,
}

impl Cholesky {
    /// Factor of a symmetric matrix, of which only the lower half is read.
    ///
    /// Fails: `Shape` unless it is square, `Solve` if it is not positive definite to working precision, with the least
    /// pivot as the residual.
    pub fn new(h: &Array2<f64>) -> Result<Cholesky> {
        let n = h.nrows();
        ensure_shape("matrix of a Cholesky factor", &[n, n][..], h.shape())?;
        let lower: Vec<f64> = (0..n).flat_map(|i| (0..=i).map(move |j| h[[i, j]])).collect();
        let trace: f64 = (0..n).map(|i| h[[i, i]]).sum();
        Cholesky::above(lower, n, f64::EPSILON * trace).map_err(|pivot| {
            let hint = "the matrix is not positive definite; add a small multiple of the identity";
            let (solver, hint) = ("Cholesky".to_string(), hint.to_string());
            Error::Solve { solver, iters: 0, residual: pivot, hint }
        })
    }

    /// Factor of a packed lower half if every pivot is above `least`; the first pivot that is not, otherwise.
    pub(crate) fn above(mut lower: Vec<f64>, n: usize, least: f64) -> Result<Cholesky, f64> {
        let mut least_pivot = f64::INFINITY;
        for i in 0..n {
            let (done, rest) = lower.split_at_mut(i * (i + 1) / 2);
            let row = &mut rest[..=i];
            for j in 0..i {
                let start = j * (j + 1) / 2;
                let above = &done[start..=start + j];
                row[j] = (row[j] - dot(&row[..j], &above[..j])) / above[j];
            }
            let pivot = row[i] - dot(&row[..i], &row[..i]);
            // Written so that NaN fails too.
            if !(pivot > least && pivot.is_finite()) {
                return Err(pivot);
            }
            least_pivot = least_pivot.min(pivot);
            row[i] = pivot.sqrt();
        }
        Ok(Cholesky { n, lower, least_pivot })
    }

    /// The least of the squared diagonal entries of L: how far the matrix is from singular.
    pub fn least_pivot(&self) -> f64 {
        self.least_pivot
    }

    /// Solution of L Lᵀ x = b.
    ///
    /// Fails: `Shape` unless b fits.
    pub fn solve(&self, b: &[f64]) -> Result<Vec<f64>> {
        ensure_shape("right side of a Cholesky solve", self.n, b.len())?;
        let mut x = b.to_vec();
        for i in 0..self.n {
            let row = self.row(i);
            x[i] = (x[i] - dot(&row[..i], &x[..i])) / row[i];
        }
        for i in (0..self.n).rev() {
            let row = self.row(i);
            x[i] /= row[i];
            let known = x[i];
            x[..i].iter_mut().zip(row).for_each(|(x, l)| *x -= l * known);
        }
        Ok(x)
    }

    fn row(&self, i: usize) -> &[f64] {
        let start = i * (i + 1) / 2;
        &self.lower[start..=start + i]
    }

    /// Shows the size and the least pivot.
    pub fn evcxr_display(&self) {
        let text = format!("Cholesky factor, n = {}, least pivot {:.3e}", self.n, self.least_pivot);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// Inner product, in eight sums so that the processor can work on several at once.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a8.remainder().iter().zip(b8.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a8.zip(b8) {
        for k in 0..8 {
            sums[k] += a[k] * b[k];
        }
    }
    let [s0, s1, s2, s3, s4, s5, s6, s7] = sums;
    rest + ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))
}
