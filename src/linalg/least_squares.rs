//! The shortest vector that meets a set of linear equations, whatever their rank.

use ndarray::Array2;

use super::cholesky::dot;
use crate::error::{Result, ensure_shape};

/// An equation whose row keeps less than this share of its length, after the rows before it are taken out, repeats
/// them.
const REPEATED: f64 = 1e-10;

/// Shortest x with A x = r, and the rank of A.
///
/// ```text
/// A' = Q R (rows of A in the order of what they add),   R_k' u = r_k,   x = Q_k u = pinv(A) r
/// ```
/// Rows that repeat others are left out, so x solves all equations if they agree with each other, and the k most
/// independent of them if not. Cost: O(rows · columns · rank). Fails: `Shape` unless r has an entry per row.
/// Checked by `tests/lp/algebra.rs`.
///
/// ```
/// use lastlayer::{linalg::shortest_solution, ndarray::array};
/// // The point of the line x + y = 2 that is nearest to the origin; the second equation says the same.
/// let (x, rank) = shortest_solution(&array![[1.0, 1.0], [2.0, 2.0]], &[2.0, 4.0])?;
/// assert!(rank == 1 && x.iter().all(|x| (x - 1.0).abs() < 1e-14));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn shortest_solution(a: &Array2<f64>, r: &[f64]) -> Result<(Vec<f64>, usize)> {
    let (m, n) = a.dim();
    ensure_shape("right side of linear equations", m, r.len())?;
    let mut rows: Vec<Vec<f64>> = a.rows().into_iter().map(|row| row.to_vec()).collect();
    let sizes: Vec<f64> = rows.iter().map(|row| dot(row, row).sqrt()).collect();
    let mut left: Vec<f64> = sizes.iter().map(|size| if *size > 0.0 { 1.0 } else { 0.0 }).collect();
    let mut r = r.to_vec();
    let (mut x, mut rank) = (vec![0.0; n], 0);
    while rank < m.min(n) {
        // The row that adds most, relative to its length.
        let Some(next) = (0..m).max_by(|i, j| left[*i].total_cmp(&left[*j])) else { break };
        if left[next] <= REPEATED {
            break;
        }
        let size = dot(&rows[next], &rows[next]).sqrt();
        let unit: Vec<f64> = rows[next].iter().map(|v| v / size).collect();
        let along = r[next] / size;
        x.iter_mut().zip(&unit).for_each(|(x, u)| *x += along * u);
        left[next] = 0.0;
        for i in (0..m).filter(|i| left[*i] > 0.0).collect::<Vec<_>>() {
            // Twice is enough to leave no trace of the direction.
            for _ in 0..2 {
                let share = dot(&rows[i], &unit);
                rows[i].iter_mut().zip(&unit).for_each(|(a, u)| *a -= share * u);
                r[i] -= share * along;
            }
            left[i] = dot(&rows[i], &rows[i]).sqrt() / sizes[i];
        }
        rank += 1;
    }
    Ok((x, rank))
}
