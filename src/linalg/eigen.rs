//! Eigenvalues and eigenvectors of symmetric matrices.

use ndarray::{Array2, Axis};

use super::cholesky::dot;
use crate::error::{Error, Result, ensure_shape};

/// Two halves that differ by more than this share of the largest entry are no rounding.
const ASYMMETRY: f64 = 1e-10;

/// Steps for one eigenvalue; two are usual.
const MAX_STEPS: usize = 60;

/// Eigenvalues in ascending order, and orthonormal eigenvectors as the columns of a matrix.
///
/// ```text
/// A = V diag(values) Vᵀ,   Vᵀ V = I        T = Qᵀ A Q tridiagonal by reflections, then QL steps on T
/// ```
/// The error of every eigenvalue, and of A less the product on the right, is a small multiple of the rounding of the
/// largest eigenvalue. The sign of a vector is arbitrary, and so is the basis where eigenvalues are equal. The two
/// halves of A may differ by rounding; their mean is taken. Cost: about 6n³ multiplications, 0.1 s for n = 400. Fails:
/// `Shape` unless A is square and has a row, `Data` if it is not finite or not symmetric, `Solve` if the steps do not
/// converge. Checked by `tests/foca/eigen.rs`.
///
/// ```
/// use lastlayer::{linalg::symmetric_eigen, ndarray::array};
/// let (values, vectors) = symmetric_eigen(&array![[2.0, 1.0], [1.0, 2.0]])?;
/// assert!((values[0] - 1.0).abs() < 1e-14 && (values[1] - 3.0).abs() < 1e-14);
/// // The second vector is (1, 1)/√2, up to its sign.
/// assert!((vectors[[0, 1]] - vectors[[1, 1]]).abs() < 1e-14);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn symmetric_eigen(a: &Array2<f64>) -> Result<(Vec<f64>, Array2<f64>)> {
    let (mut a, exponent) = symmetric_part(a)?;
    let reflections = tridiagonalise(&mut a);
    let (mut values, mut beside) = (a.diag().to_vec(), off_diagonal(&a));
    // Row k is the vector of value k: a rotation then mixes two rows, which lie in one piece.
    let mut vectors = product(&reflections, a.nrows()).reversed_axes().as_standard_layout().into_owned();
    diagonalise(&mut values, &mut beside, &mut vectors)?;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|i, j| values[*i].total_cmp(&values[*j]));
    let sorted = order.iter().map(|k| libm::scalbn(values[*k], exponent)).collect();
    Ok((sorted, vectors.select(Axis(0), &order).reversed_axes().as_standard_layout().into_owned()))
}

/// The mean of both halves, divided by a power of two so that squares neither overflow nor vanish, and its exponent.
fn symmetric_part(a: &Array2<f64>) -> Result<(Array2<f64>, i32)> {
    let n = a.nrows();
    ensure_shape("symmetric matrix", &[n, n][..], a.shape())?;
    if n == 0 {
        return Err(Error::shape("symmetric matrix", "at least one row", "none"));
    }
    if let Some(((i, j), v)) = a.indexed_iter().find(|(_, v)| !v.is_finite()) {
        let why = format!("entry ({i}, {j}) is {v}; look at the numbers it was made of");
        return Err(Error::data("symmetric matrix", why));
    }
    let largest = a.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    let exponent = libm::frexp(largest).1;
    let scaled = a.mapv(|v| libm::scalbn(v, -exponent));
    if let Some(((i, j), v)) =
        scaled.indexed_iter().find(|((i, j), v)| (*v - scaled[[*j, *i]]).abs() > ASYMMETRY)
    {
        let (upper, lower) = (libm::scalbn(*v, exponent), a[[j, i]]);
        let why = format!(
            "entry ({i}, {j}) is {upper}, entry ({j}, {i}) is {lower}; take (A + Aᵀ) / 2 if that is meant"
        );
        return Err(Error::data("symmetric matrix", why));
    }
    let mean = (&scaled + &scaled.t()) / 2.0;
    Ok((mean.as_standard_layout().into_owned(), exponent))
}

/// Makes A tridiagonal by A ← H A H, one column after the other, with H = I − 2 v vᵀ; the unit vectors v, each for the
/// rows from k + 1 on, empty where there was nothing to do.
fn tridiagonalise(a: &mut Array2<f64>) -> Vec<Vec<f64>> {
    let n = a.nrows();
    let mut reflections = Vec::with_capacity(n.saturating_sub(2));
    for k in 0..n.saturating_sub(2) {
        let mut v: Vec<f64> = (k + 1..n).map(|i| a[[i, k]]).collect();
        if v[1..].iter().all(|v| *v == 0.0) {
            reflections.push(Vec::new());
            continue;
        }
        // The sign for which nothing cancels.
        let image = -dot(&v, &v).sqrt().copysign(v[0]);
        v[0] -= image;
        let size = dot(&v, &v).sqrt();
        v.iter_mut().for_each(|v| *v /= size);
        for i in k + 1..n {
            let entry = if i == k + 1 { image } else { 0.0 };
            (a[[i, k]], a[[k, i]]) = (entry, entry);
        }
        reflect_both_sides(a, &v, k + 1);
        reflections.push(v);
    }
    reflections
}

/// H A H = A − v wᵀ − w vᵀ with w = 2 (A v − (vᵀA v) v), in the rows and columns from `first` on.
fn reflect_both_sides(a: &mut Array2<f64>, v: &[f64], first: usize) {
    let mut w: Vec<f64> = a
        .rows()
        .into_iter()
        .skip(first)
        .filter_map(|row| Some(2.0 * dot(&row.to_slice()?[first..], v)))
        .collect();
    let along = dot(&w, v) / 2.0;
    w.iter_mut().zip(v).for_each(|(w, v)| *w -= 2.0 * along * v);
    for (i, mut row) in a.rows_mut().into_iter().skip(first).enumerate() {
        let (vi, wi) = (v[i], w[i]);
        row.iter_mut().skip(first).zip(v.iter().zip(&w)).for_each(|(a, (v, w))| *a -= vi * w + wi * v);
    }
}

/// H_0 H_1 ⋯, from the last on, so that each only meets the rows and columns behind its own.
fn product(reflections: &[Vec<f64>], n: usize) -> Array2<f64> {
    let mut q = Array2::eye(n);
    for (k, v) in reflections.iter().enumerate().rev() {
        let mut w = vec![0.0; v.len()];
        for (row, v) in q.rows().into_iter().skip(k + 1).zip(v) {
            w.iter_mut().zip(row.iter().skip(k + 1)).for_each(|(w, q)| *w += 2.0 * v * q);
        }
        for (mut row, v) in q.rows_mut().into_iter().skip(k + 1).zip(v) {
            row.iter_mut().skip(k + 1).zip(&w).for_each(|(q, w)| *q -= v * w);
        }
    }
    q
}

/// The entries beside the diagonal, and a zero behind the last.
fn off_diagonal(a: &Array2<f64>) -> Vec<f64> {
    let n = a.nrows();
    (0..n).map(|i| if i + 1 < n { a[[i, i + 1]] } else { 0.0 }).collect()
}

/// QL steps with implicit shifts until nothing is left beside the diagonal; each rotation is done to the vectors too.
fn diagonalise(d: &mut [f64], e: &mut [f64], vectors: &mut Array2<f64>) -> Result<()> {
    for l in 0..d.len() {
        let mut steps = 0;
        loop {
            let m = block_end(d, e, l);
            if m == l {
                break;
            }
            if steps == MAX_STEPS {
                let hint =
                    "the matrix may span too many orders of magnitude; bring its rows to a common scale";
                let (solver, hint) = ("symmetric eigenvalues".to_string(), hint.to_string());
                return Err(Error::Solve { solver, iters: steps, residual: e[l].abs(), hint });
            }
            steps += 1;
            ql_step(d, e, vectors, l, m);
        }
    }
    Ok(())
}

/// The last row of the block that starts at row l: what stands beside it is zero to working precision.
fn block_end(d: &[f64], e: &[f64], l: usize) -> usize {
    let ends = |m: &usize| {
        let size = d[*m].abs() + d[*m + 1].abs();
        e[*m].abs() <= f64::EPSILON * size || e[*m].abs() <= f64::MIN_POSITIVE
    };
    (l..d.len() - 1).find(ends).unwrap_or(d.len() - 1)
}

/// One QL step on the block of rows l to m, with Wilkinson's shift.
fn ql_step(d: &mut [f64], e: &mut [f64], vectors: &mut Array2<f64>, l: usize, m: usize) {
    let half = (d[l + 1] - d[l]) / (2.0 * e[l]);
    let mut g = d[m] - d[l] + e[l] / (half + half.hypot(1.0).copysign(half));
    let (mut sin, mut cos, mut shift) = (1.0, 1.0, 0.0);
    for i in (l..m).rev() {
        let (bulge, beside) = (sin * e[i], cos * e[i]);
        let r = bulge.hypot(g);
        e[i + 1] = r;
        if r == 0.0 {
            // The block has split by itself.
            d[i + 1] -= shift;
            e[m] = 0.0;
            return;
        }
        (sin, cos) = (bulge / r, g / r);
        g = d[i + 1] - shift;
        let turn = (d[i] - g) * sin + 2.0 * cos * beside;
        shift = sin * turn;
        d[i + 1] = g + shift;
        g = cos * turn - beside;
        rotate(vectors, i, sin, cos);
    }
    d[l] -= shift;
    e[l] = g;
    e[m] = 0.0;
}

/// Rotates rows i and i + 1.
fn rotate(vectors: &mut Array2<f64>, i: usize, sin: f64, cos: f64) {
    let (mut above, mut below) = vectors.view_mut().split_at(Axis(0), i + 1);
    let (mut first, mut second) = (above.row_mut(i), below.row_mut(0));
    first.iter_mut().zip(second.iter_mut()).for_each(|(a, b)| {
        (*a, *b) = (cos * *a - sin * *b, sin * *a + cos * *b);
    });
}
