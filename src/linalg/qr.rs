//! An orthonormal basis of the rows of a matrix.

use ndarray::Array2;

use super::cholesky::dot;

/// A row that keeps no more than this share of its length, after the rows before it are taken out, repeats them: rounding
/// alone leaves as much.
const REPEATED: f64 = 1e-14;

/// Orthonormal rows Q (r, d) that span the rows of A (n, d), and the coordinates X (n, r) of A in them.
///
/// ```text
/// A = X Q,   Q Qᵀ = I,   r = rank of A,   X lower triangular where no row repeats others
/// ```
/// The thin QR factors of Aᵀ, without the columns that add nothing, by Gram and Schmidt, twice. A has to be finite. Cost:
/// 2 n d r. Checked by `tests/foca/softmax.rs`.
///
/// ```
/// use lastlayer::{linalg::row_basis, ndarray::array};
/// let a = array![[3.0, 4.0, 0.0], [6.0, 8.0, 0.0], [0.0, 0.0, 2.0]];
/// let (q, coordinates) = row_basis(&a);
/// assert_eq!(q.dim(), (2, 3)); // the second row repeats the first
/// assert!((coordinates.dot(&q) - a).iter().all(|gap| gap.abs() < 1e-14));
/// ```
pub fn row_basis(a: &Array2<f64>) -> (Array2<f64>, Array2<f64>) {
    let (n, d) = a.dim();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let mut coordinates = Array2::zeros((n, n.min(d)));
    for (i, row) in a.rows().into_iter().enumerate() {
        let mut row = row.to_vec();
        let size = dot(&row, &row).sqrt();
        // Once leaves a trace of the basis where a row is nearly repeated; twice leaves none.
        for _ in 0..2 {
            for (k, unit) in basis.iter().enumerate() {
                let share = dot(&row, unit);
                row.iter_mut().zip(unit).for_each(|(v, u)| *v -= share * u);
                coordinates[[i, k]] += share;
            }
        }
        let left = dot(&row, &row).sqrt();
        if left > REPEATED * size && basis.len() < n.min(d) {
            row.iter_mut().for_each(|v| *v /= left);
            coordinates[[i, basis.len()]] = left;
            basis.push(row);
        }
    }
    let rank = basis.len();
    let q = Array2::from_shape_fn((rank, d), |(k, j)| basis[k][j]);
    (q, coordinates.slice_move(ndarray::s![.., ..rank]))
}
