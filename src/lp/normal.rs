//! Solves with the Hessian of the penalty, dense or structured.

use std::sync::Arc;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2};

use super::matrix::Matrix;
use super::penalty::Multipliers;
use super::program::{Lp, difference};
use super::structured::{MOST_FULL, Structured};
use crate::error::{Error, Result};
use crate::linalg::Cholesky;
use crate::linalg::solve;

/// A pivot below this share of the mean diagonal counts as none.
const LEAST_PIVOT: f64 = 1e-9;

/// What is then added to the diagonal, relative to its mean or 1.
const SHIFT: f64 = 1e-6;

/// Rounds of cleaning of what rows see; two reach rounding.
const CLEANING: usize = 3;

/// What is added to the diagonal of the Hessian.
///
/// Book: `lp/newton.md#eq-lp-newton-rate`.
///
/// ```
/// use lastlayer::prelude::*;
/// // From y = 5 no row is active, so the Hessian is zero and some shift is needed.
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// for shift in [lp::Shift::IfSingular, lp::Shift::Always(1e-4)] {
///     let newton = PenaltyNewton { shift, ..PenaltyNewton::default() };
///     let mut state = newton.init_at(&program, &[5.0])?;
///     newton.run(&mut state)?;
///     assert!(state.converged && (state.y[0] - 0.99).abs() < 1e-9);
/// }
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shift {
    /// Nothing, unless the Hessian is singular to working precision.
    IfSingular,
    /// Always this δ.
    Always(f64),
}

/// A factor of Aᵀ diag(w) A + A_eqᵀ A_eq + δI, where w weighs the inequalities: 1 for those that count, 0 for others.
///
/// Cost: O(m n² + n³) dense, over rows with a weight; O((m + n) k²) structured, with k full rows and columns.
/// Checked by `tests/lp/algebra.rs`.
#[derive(Clone, Debug)]
pub(super) struct Normal {
    kind: Kind,
    /// What was added to the diagonal.
    pub delta: f64,
}

#[derive(Clone, Debug)]
enum Kind {
    Dense(Cholesky),
    Bordered(Bordered),
}

impl Normal {
    pub fn factor(lp: &Lp, weights: &[f64], shift: Shift) -> Result<Normal> {
        let mut system = System::of(lp, weights);
        let mean = system.trace() / lp.n() as f64;
        let shifts = match shift {
            Shift::Always(delta) => vec![(delta, 0.0)],
            Shift::IfSingular => {
                let delta = SHIFT * mean.max(1.0);
                // The last two are for rows so long that rounding drowns the first.
                vec![(0.0, LEAST_PIVOT * mean), (delta, 0.0), (1e3 * delta, 0.0), (1e6 * delta, 0.0)]
            }
        };
        let found = shifts.into_iter().find_map(|(delta, least)| {
            system.factor(lp, weights, delta, least).map(|kind| Normal { kind, delta })
        });
        found.ok_or_else(|| {
            let hint = "the Hessian is not positive definite; scale the rows of A, or add to its diagonal";
            let (solver, hint) = ("factor of the Hessian".to_string(), hint.to_string());
            Error::Solve { solver, iters: 0, residual: f64::NAN, hint }
        })
    }

    /// Whether nothing had to be added to the diagonal.
    pub fn regular(&self) -> bool {
        self.delta == 0.0
    }

    pub fn solve(&self, rhs: &[f64]) -> Result<Vec<f64>> {
        match &self.kind {
            Kind::Dense(factor) => factor.solve(rhs),
            Kind::Bordered(factor) => Ok(factor.solve(rhs)),
        }
    }
}

/// A factored Hessian, shifted only if it had to be, and what it is of: whoever needs the same again need not make it.
#[derive(Clone, Debug)]
pub(super) struct Hessian {
    pub lp: Arc<Lp>,
    /// Weights of the inequalities.
    pub rows: Vec<f64>,
    pub factor: Normal,
}

impl Hessian {
    pub fn new(lp: &Arc<Lp>, rows: Vec<f64>, factor: Normal) -> Arc<Hessian> {
        Arc::new(Hessian { lp: lp.clone(), rows, factor })
    }

    pub fn of(lp: &Arc<Lp>, rows: Vec<f64>) -> Result<Arc<Hessian>> {
        let factor = Normal::factor(lp, &rows, Shift::IfSingular)?;
        Ok(Hessian::new(lp, rows, factor))
    }

    /// w A x and A_eq x.
    pub fn on_rows(&self, x: &[f64]) -> Multipliers {
        let v = self.lp.A.times(x).iter().zip(&self.rows).map(|(a, w)| a * w).collect();
        Multipliers { v, v_eq: self.lp.A_eq.times(x) }
    }

    /// What is left of a direction without the part that a row sees.
    pub fn null_part(&self, mut x: Vec<f64>) -> Result<Vec<f64>> {
        for _ in 0..CLEANING {
            // x ← x − (H + δI)⁻¹ H x leaves a millionth of what a row sees.
            x = difference(x.clone(), &self.factor.solve(&self.on_rows(&x).pull(&self.lp))?);
        }
        Ok(x)
    }

    /// What is left of weights of the rows without the part that adds up to something: (w A)ᵀ and A_eqᵀ take it to zero.
    pub fn left_null_part(&self, mut u: Multipliers) -> Result<Multipliers> {
        u.v.iter_mut().zip(&self.rows).for_each(|(u, w)| *u *= w);
        for _ in 0..CLEANING {
            let seen = self.on_rows(&self.factor.solve(&u.pull(&self.lp))?);
            u = Multipliers { v: difference(u.v, &seen.v), v_eq: difference(u.v_eq, &seen.v_eq) };
        }
        Ok(u)
    }

    /// Whether a factor of these rows of this program would be the same.
    pub fn fits(&self, lp: &Lp, rows: &[f64]) -> bool {
        self.rows == rows && self.lp.A == lp.A && self.lp.A_eq == lp.A_eq
    }
}

/// The factor follows from the rest.
impl PartialEq for Hessian {
    fn eq(&self, other: &Hessian) -> bool {
        self.fits(&other.lp, &other.rows)
    }
}

/// What is to be factored.
enum System {
    /// The Hessian, until a factor takes its memory; made anew for another attempt.
    Dense(Option<Array2<f64>>),
    Bordered(Parts),
}

impl System {
    fn of(lp: &Lp, weights: &[f64]) -> System {
        match &lp.A {
            Matrix::Structured(a) if a.border() + lp.A_eq.rows() <= 2 * MOST_FULL => {
                System::Bordered(Parts::of(a, weights, &lp.A_eq))
            }
            _ => System::Dense(Some(hessian(lp, weights))),
        }
    }

    fn trace(&self) -> f64 {
        match self {
            System::Dense(h) => h.as_ref().map_or(0.0, |h| h.diag().sum()),
            System::Bordered(parts) => parts.trace(),
        }
    }

    fn factor(&mut self, lp: &Lp, weights: &[f64], delta: f64, least: f64) -> Option<Kind> {
        match self {
            System::Dense(h) => {
                let mut h = h.take().unwrap_or_else(|| hessian(lp, weights));
                h.diag_mut().iter_mut().for_each(|d| *d += delta);
                Cholesky::above(h, least).ok().map(Kind::Dense)
            }
            System::Bordered(parts) => Bordered::above(parts, delta, least).map(Kind::Bordered),
        }
    }
}

/// Aᵀ diag(w) A + A_eqᵀ A_eq, at least its lower half.
fn hessian(lp: &Lp, weights: &[f64]) -> Array2<f64> {
    let mut h = Array2::zeros((lp.n(), lp.n()));
    add_rows(&mut h, &lp.A, weights);
    add_rows(&mut h, &lp.A_eq, &vec![1.0; lp.A_eq.rows()]);
    h
}

/// Rows with fewer entries than this share of the columns are added entry by entry.
const SPARSE: f64 = 0.25;

/// Adds w aaᵀ to a symmetric matrix, at least to its lower half, for every row with a weight.
fn add_rows(h: &mut Array2<f64>, a: &Matrix, weights: &[f64]) {
    let n = a.columns();
    let mut full: Vec<f64> = Vec::new();
    for (i, w) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
        let mut row = a.row(i);
        if *w != 1.0 {
            row.iter_mut().for_each(|v| *v *= w.sqrt());
        }
        if row.iter().filter(|v| **v != 0.0).count() as f64 > SPARSE * n as f64 {
            full.extend(row);
            continue;
        }
        let entries: Vec<(usize, f64)> = row.into_iter().enumerate().filter(|(_, v)| *v != 0.0).collect();
        for (k, (i, v)) in entries.iter().enumerate() {
            entries[..=k].iter().for_each(|(j, w)| h[[*i, *j]] += v * w);
        }
    }
    if let Ok(full) = Array2::from_shape_vec((full.len() / n, n), full) {
        general_mat_mul(1.0, &full.t(), &full, 1.0, h);
    }
}

/// The pieces of a bordered system: a diagonal, columns beside it, and the small block that is left.
#[derive(Clone, Debug)]
struct Parts {
    /// Shared columns, and columns without an entry on the diagonal.
    shared: Vec<usize>,
    /// (n) Sums of squares of the rows' own entries.
    diagonal: Vec<f64>,
    /// k lists (n): products of own and shared entries, then the full rows that count; zero at shared columns.
    beside: Vec<Vec<f64>>,
    /// (k, k) What remains for the shared columns and the multipliers of the full rows.
    corner: Array2<f64>,
    squares: f64,
}

impl Parts {
    fn of(a: &Structured, weights: &[f64], equalities: &Matrix) -> Parts {
        let (n, r) = (a.columns(), a.shared.len());
        let counted =
            a.full.iter().filter(|(i, _)| weights[*i] > 0.0).map(|(i, row)| (weights[*i], row.clone()));
        let equal = (0..equalities.rows()).map(|i| (1.0, equalities.row(i)));
        let full: Vec<(f64, Vec<f64>)> = counted.chain(equal).collect();
        let mut diagonal = vec![0.0; n];
        let rows = || a.own.iter().enumerate().filter(|(i, _)| weights[*i] > 0.0);
        rows().for_each(|(i, (j, own))| diagonal[*j] += weights[i] * own * own);
        // Columns that only full rows see stand beside the shared ones; more of them than full rows have no solution.
        let bare: Vec<usize> = (0..n).filter(|j| diagonal[*j] == 0.0 && !a.shared.contains(j)).collect();
        let mut shared = a.shared.clone();
        if bare.len() <= full.len() {
            shared.extend(bare);
        }
        let (s, k) = (shared.len(), shared.len() + full.len());
        let squares = full.iter().map(|(w, row)| w * row.iter().map(|v| v * v).sum::<f64>()).sum();
        let (beside, corner) = (vec![vec![0.0; n]; s], Array2::zeros((k, k)));
        let mut parts = Parts { shared, diagonal, beside, corner, squares };
        for (i, (j, own)) in rows() {
            let on_shared = &a.on_shared[i * r..(i + 1) * r];
            for (p, x) in on_shared.iter().enumerate() {
                parts.beside[p][*j] += weights[i] * own * x;
                on_shared.iter().enumerate().for_each(|(q, y)| parts.corner[[p, q]] += weights[i] * x * y);
            }
        }
        for (f, (weight, mut row)) in full.into_iter().enumerate() {
            for (p, column) in parts.shared.iter().enumerate() {
                parts.corner[[p, s + f]] = row[*column];
                parts.corner[[s + f, p]] = row[*column];
                row[*column] = 0.0;
            }
            parts.corner[[s + f, s + f]] = -1.0 / weight;
            parts.beside.push(row);
        }
        parts
    }

    fn trace(&self) -> f64 {
        let corner = (0..self.shared.len()).map(|p| self.corner[[p, p]]).sum::<f64>();
        self.diagonal.iter().sum::<f64>() + corner + self.squares
    }
}

/// A bordered system, its diagonal eliminated.
///
/// ```text
/// [ D  W  U ] [x]   [f]      x = D⁻¹(f − W t − U λ)
/// [ Wᵀ T  Z ] [t] = [g]      S (t; λ) = (g; 0) − (W U)ᵀ D⁻¹ f,   S = [T Z; Zᵀ −I] − (W U)ᵀ D⁻¹ (W U)
/// [ Uᵀ Zᵀ −I] [λ]   [0]
/// ```
/// t are the shared columns and λ = (full rows) · (x, t), for rows of weight 1. Only D must be regular by itself: that
/// the rest is may be due to the full rows.
#[derive(Clone, Debug)]
struct Bordered {
    shared: Vec<usize>,
    /// Zero at shared columns.
    inverse_diagonal: Vec<f64>,
    beside: Vec<Vec<f64>>,
    inverse_corner: Array2<f64>,
}

impl Bordered {
    fn above(parts: &Parts, delta: f64, least: f64) -> Option<Bordered> {
        let mut inverse_diagonal: Vec<f64> = parts.diagonal.iter().map(|d| 1.0 / (d + delta)).collect();
        parts.shared.iter().for_each(|j| inverse_diagonal[*j] = 0.0);
        let most = if least > 0.0 { 1.0 / least } else { f64::INFINITY };
        // Written so that NaN fails too.
        if !inverse_diagonal.iter().all(|d| *d < most) {
            return None;
        }
        let k = parts.beside.len();
        let mut corner = parts.corner.clone();
        (0..parts.shared.len()).for_each(|p| corner[[p, p]] += delta);
        for p in 0..k {
            for q in 0..=p {
                let (a, b) = (&parts.beside[p], &parts.beside[q]);
                let sum: f64 = a.iter().zip(b).zip(&inverse_diagonal).map(|((a, b), d)| a * b * d).sum();
                corner[[p, q]] -= sum;
                if p != q {
                    corner[[q, p]] -= sum;
                }
            }
        }
        let mut inverse_corner = Array2::zeros((k, k));
        for p in 0..k {
            let mut unit = Array1::zeros(k);
            unit[p] = 1.0;
            inverse_corner.column_mut(p).assign(&solve(&corner, &unit).ok()?);
        }
        let fits = inverse_corner.iter().all(|v: &f64| v.abs() < most);
        let (shared, beside) = (parts.shared.clone(), parts.beside.clone());
        fits.then_some(Bordered { shared, inverse_diagonal, beside, inverse_corner })
    }

    fn solve(&self, rhs: &[f64]) -> Vec<f64> {
        let first: Vec<f64> = rhs.iter().zip(&self.inverse_diagonal).map(|(f, d)| f * d).collect();
        let small: Array1<f64> = (0..self.beside.len())
            .map(|p| {
                let own = self.shared.get(p).map_or(0.0, |j| rhs[*j]);
                own - self.beside[p].iter().zip(&first).map(|(w, x)| w * x).sum::<f64>()
            })
            .collect();
        let small = self.inverse_corner.dot(&small);
        let mut x = first;
        for (beside, s) in self.beside.iter().zip(&small) {
            let terms = x.iter_mut().zip(beside).zip(&self.inverse_diagonal);
            terms.for_each(|((x, w), d)| *x -= d * w * s);
        }
        self.shared.iter().zip(&small).for_each(|(j, s)| x[*j] = *s);
        x
    }
}
