//! Cholesky factors of symmetric positive definite matrices, with a report of the least pivot.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use crate::error::{Error, Result, ensure_shape};

/// Lower triangular L with L Lᵀ = H.
///
/// ```text
/// L_ij = (H_ij − Σ_{k<j} L_ik L_jk) / L_jj,        L_ii² = H_ii − Σ_{k<i} L_ik² = pivot i
/// ```
/// In blocks: the products of a block with all that lies below it are one matrix product, left out where it is zero. Cost:
/// n³/6 multiplications to factor, n² to solve. Checked by `tests/lp/algebra.rs`.
///
/// ```
/// use lastlayer::{linalg::Cholesky, ndarray::array};
/// let factor = Cholesky::new(&array![[4.0, 2.0], [2.0, 5.0]])?; // L = [[2, 0], [1, 2]]
/// assert_eq!(factor.least_pivot(), 4.0);
/// assert_eq!(factor.solve(&[8.0, 12.0])?, [1.0, 2.0]);
/// assert_eq!(factor.solve_matrix(&array![[4.0], [2.0]])?, array![[1.0], [0.0]]);
/// assert!(Cholesky::new(&array![[1.0, 2.0], [2.0, 1.0]]).is_err()); // not positive definite
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cholesky {
    /// (n, n) L; what lies above the diagonal means nothing.
    lower: Array2<f64>,
    least_pivot: f64,
}

/// Columns that are factored at once.
const BLOCK: usize = 32;

/// Rows below a block from which several threads are faster than one.
const WORTH_SPLITTING: usize = 128;

impl Cholesky {
    /// Factor of a symmetric matrix, of which only the lower half is read.
    ///
    /// Fails: `Shape` unless it is square, `Solve` if it is not positive definite to working precision, with the least
    /// pivot as the residual.
    pub fn new(h: &Array2<f64>) -> Result<Cholesky> {
        let n = h.nrows();
        ensure_shape("matrix of a Cholesky factor", &[n, n][..], h.shape())?;
        let least = f64::EPSILON * h.diag().sum();
        Cholesky::above(h.as_standard_layout().into_owned(), least).map_err(|pivot| {
            let hint = "the matrix is not positive definite; add a small multiple of the identity";
            let (solver, hint) = ("Cholesky".to_string(), hint.to_string());
            Error::Solve { solver, iters: 0, residual: pivot, hint }
        })
    }

    /// Factor in the memory of a square matrix in standard layout, if every pivot is above `least`; the first pivot
    /// that is not, otherwise.
    pub(crate) fn above(mut h: Array2<f64>, least: f64) -> Result<Cholesky, f64> {
        let n = h.nrows();
        let mut least_pivot = f64::INFINITY;
        for start in (0..n).step_by(BLOCK) {
            let end = (start + BLOCK).min(n);
            // All rows from the block on; its own columns, then those behind it.
            let below = h.slice_mut(s![start.., ..]);
            let (done, mut behind) = below.split_at(Axis(1), end);
            let mut panel = done.slice_move(s![.., start..]);
            least_pivot = least_pivot.min(factor_panel(&mut panel, least)?);
            // Blocks of columns, which do not depend on the number of threads, and so neither does the last bit.
            let blocks: Vec<_> = behind.axis_chunks_iter_mut(Axis(1), BLOCK).enumerate().collect();
            let update = |(k, mut block): (usize, ArrayViewMut2<f64>)| {
                let first = end - start + k * BLOCK;
                let rows = panel.slice(s![first.., ..]);
                let own = panel.slice(s![first..first + block.ncols(), ..]);
                if own.iter().all(|v| *v == 0.0) {
                    return;
                }
                general_mat_mul(-1.0, &rows, &own.t(), 1.0, &mut block.slice_mut(s![first.., ..]));
            };
            if n - end < WORTH_SPLITTING {
                blocks.into_iter().for_each(update);
            } else {
                blocks.into_par_iter().for_each(update);
            }
        }
        Ok(Cholesky { lower: h, least_pivot })
    }

    /// The least of the squared diagonal entries of L: how far the matrix is from singular.
    pub fn least_pivot(&self) -> f64 {
        self.least_pivot
    }

    /// Solution of L Lᵀ x = b.
    ///
    /// Fails: `Shape` unless b fits.
    pub fn solve(&self, b: &[f64]) -> Result<Vec<f64>> {
        ensure_shape("right side of a Cholesky solve", self.lower.nrows(), b.len())?;
        let mut x = b.to_vec();
        let rows =
            || self.lower.rows().into_iter().enumerate().filter_map(|(i, row)| Some((i, row.to_slice()?)));
        for (i, row) in rows() {
            x[i] = (x[i] - dot(&row[..i], &x[..i])) / row[i];
        }
        for (i, row) in rows().collect::<Vec<_>>().into_iter().rev() {
            x[i] /= row[i];
            let known = x[i];
            x[..i].iter_mut().zip(row).for_each(|(x, l)| *x -= l * known);
        }
        Ok(x)
    }

    /// Solution of L Lᵀ X = B, all columns of B at once.
    ///
    /// Fails: `Shape` unless B has a row per row of L.
    pub fn solve_matrix(&self, b: &Array2<f64>) -> Result<Array2<f64>> {
        let n = self.lower.nrows();
        ensure_shape("right side of a Cholesky solve", n, b.nrows())?;
        let mut x = b.as_standard_layout().into_owned();
        let (lower, ends) = (&self.lower, |start: usize| (start + BLOCK).min(n));
        // A block of rows at once: what the rows before it, or behind it, contribute is one matrix product.
        for start in (0..n).step_by(BLOCK) {
            let (known, mut rest) = x.view_mut().split_at(Axis(0), start);
            let mut block = rest.slice_mut(s![..ends(start) - start, ..]);
            if start > 0 {
                general_mat_mul(-1.0, &lower.slice(s![start..ends(start), ..start]), &known, 1.0, &mut block);
            }
            forward(&lower.slice(s![start..ends(start), start..ends(start)]), &mut block);
        }
        for start in (0..n).step_by(BLOCK).rev() {
            let (mut rest, known) = x.view_mut().split_at(Axis(0), ends(start));
            let mut block = rest.slice_mut(s![start.., ..]);
            if ends(start) < n {
                let below = lower.slice(s![ends(start).., start..ends(start)]);
                general_mat_mul(-1.0, &below.t(), &known, 1.0, &mut block);
            }
            backward(&lower.slice(s![start..ends(start), start..ends(start)]), &mut block);
        }
        Ok(x)
    }

    /// Shows the size and the least pivot.
    pub fn evcxr_display(&self) {
        let (n, pivot) = (self.lower.nrows(), self.least_pivot);
        evcxr_runtime::mime_type("text/plain")
            .text(format!("Cholesky factor, n = {n}, least pivot {pivot:.3e}"));
    }
}

/// Solution of L X = B, in the place of B.
fn forward(lower: &ArrayView2<f64>, b: &mut ArrayViewMut2<f64>) {
    let mut rows: Vec<&mut [f64]> = b.rows_mut().into_iter().filter_map(|row| row.into_slice()).collect();
    for (i, l) in lower.rows().into_iter().enumerate() {
        let (known, rest) = rows.split_at_mut(i);
        let Some(row) = rest.first_mut() else { continue };
        known.iter().zip(l).for_each(|(known, l)| subtract(row, *l, known));
        row.iter_mut().for_each(|v| *v /= l[i]);
    }
}

/// Solution of Lᵀ X = B, in the place of B.
fn backward(lower: &ArrayView2<f64>, b: &mut ArrayViewMut2<f64>) {
    let mut rows: Vec<&mut [f64]> = b.rows_mut().into_iter().filter_map(|row| row.into_slice()).collect();
    for (i, l) in lower.rows().into_iter().enumerate().rev() {
        let (above, rest) = rows.split_at_mut(i);
        let Some(row) = rest.first_mut() else { continue };
        row.iter_mut().for_each(|v| *v /= l[i]);
        above.iter_mut().zip(l).for_each(|(above, l)| subtract(above, *l, row));
    }
}

/// a ← a − factor b.
fn subtract(a: &mut [f64], factor: f64, b: &[f64]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a -= factor * b);
}

/// Factors the square top of a panel and solves the rest of it; its least pivot, or the first that is too small.
fn factor_panel(panel: &mut ArrayViewMut2<f64>, least: f64) -> Result<f64, f64> {
    let width = panel.ncols();
    // Rows of the top that are done, together, so that the rows below can be solved against them.
    let mut top: Vec<&[f64]> = Vec::with_capacity(width);
    let mut least_pivot = f64::INFINITY;
    let mut rows: Vec<&mut [f64]> = panel.rows_mut().into_iter().filter_map(|row| row.into_slice()).collect();
    let below = rows.split_off(width.min(rows.len()));
    let solve = |row: &mut [f64], top: &[&[f64]]| {
        // Rows that share no entry with the block are common in Hessians of programs with few entries.
        if row[..top.len()].iter().all(|v| *v == 0.0) {
            return;
        }
        for (j, above) in top.iter().enumerate() {
            row[j] = (row[j] - dot(&row[..j], &above[..j])) / above[j];
        }
    };
    for (i, row) in rows.into_iter().enumerate() {
        solve(row, &top);
        let pivot = row[i] - dot(&row[..i], &row[..i]);
        // Written so that NaN fails too.
        if !(pivot > least && pivot.is_finite()) {
            return Err(pivot);
        }
        least_pivot = least_pivot.min(pivot);
        row[i] = pivot.sqrt();
        top.push(&row[..=i]);
    }
    if below.len() < WORTH_SPLITTING {
        below.into_iter().for_each(|row| solve(row, &top));
    } else {
        below.into_par_iter().for_each(|row| solve(row, &top));
    }
    Ok(least_pivot)
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
