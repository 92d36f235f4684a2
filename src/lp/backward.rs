//! Gradients of a linear program's optimum, and of its solution, in A, b and c.

use ndarray::Array2;

use std::sync::Arc;

use super::certificate::Solution;
use super::matrix::Matrix;
use super::normal::Hessian;
use super::penalty::{Iterate, Multipliers, PenaltyPoint};
use super::program::{Lp, difference, length};
use super::scale::Scaled;
use super::vertex::{basis, selected};
use super::{indicator, plus};
use crate::error::{Error, Result, ensure_shape};

/// A sum of outer products Σ left rightᵀ: the gradient in a matrix, without the memory of one.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[1.0]])?, &[3.0], &[-2.0])?; // min −2z, z ≤ 3
/// let gradients = lp::envelope(&NewtonLp::default().solve(&program)?);
/// assert!((gradients.A.get(0, 0) - 6.0).abs() < 1e-7); // v zᵀ
/// assert_eq!(gradients.A.to_dense().dim(), (1, 1));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct OuterSum {
    rows: usize,
    columns: usize,
    terms: Vec<(Vec<f64>, Vec<f64>)>,
}

/// Gradients of a loss in the numbers of a linear program.
///
/// Checked by `tests/lp/backward.rs`, each against finite differences.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[1.0]])?, &[3.0], &[-2.0])?; // min −2z, z ≤ 3
/// let optimum = lp::envelope(&NewtonLp::default().solve(&program)?);
/// // V = c b, so ∂V/∂b = c = −2 and ∂V/∂c = b = 3.
/// assert!((optimum.b[0] + 2.0).abs() < 1e-8 && (optimum.c[0] - 3.0).abs() < 1e-8);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    /// (m, n)
    pub A: OuterSum,
    /// (m)
    pub b: Vec<f64>,
    /// (n)
    pub c: Vec<f64>,
    /// (m_eq, n)
    pub A_eq: OuterSum,
    /// (m_eq)
    pub b_eq: Vec<f64>,
    /// Matrices that were factored for it: none where the solver's last factor is the one.
    pub factors: usize,
}

/// Corrections of a solve that had to be shifted; each leaves a millionth of the error in what can be solved.
const CORRECTIONS: usize = 8;

/// Gradients of the optimum cᵀz itself: no solve at all.
///
/// ```text
/// ∂V/∂c = z,   ∂V/∂b = −v,   ∂V/∂A = v zᵀ          and the same for equalities
/// ```
/// The envelope theorem: z and v may be held still. Right for every optimum; where z or v is one of several, one of
/// several. Cost: O(m + n). Checked by `tests/lp/backward.rs::envelope_is_the_gradient_of_the_value`.
/// Book: `lp/differentiating.md#eq-lp-diff-envelope`, `#eq-lp-diff-subgradient`.
///
/// ```
/// use lastlayer::prelude::*;
/// // The gradient of the AUC program's optimum in its bounds is −v: what each pair is worth.
/// let found = NewtonLp::default().solve(&Lp::auc([0.0, 1.0, -9.0], [1, 0, 0], 0.5)?)?;
/// let by_bound = lp::envelope(&found).b;
/// assert!((by_bound[0] + 0.5).abs() < 1e-8); // the pair that is ranked wrongly, one of two
/// assert!(by_bound[1].abs() < 1e-8); // the one that is ranked well
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn envelope(solution: &Solution) -> Gradients {
    value_gradients(&solution.z, &solution.v, &solution.v_eq)
}

impl PenaltyPoint {
    /// Gradients of g(y)/ε, the lower bound of the optimum: as [`envelope`], with y in place of z.
    ///
    /// Book: `lp/differentiating.md#eq-lp-diff-envelope-penalty`.
    pub fn envelope(&self) -> Gradients {
        value_gradients(&self.y, &self.v, &self.v_eq)
    }
}

fn value_gradients(z: &[f64], v: &[f64], v_eq: &[f64]) -> Gradients {
    let minus = |v: &[f64]| v.iter().map(|v| -v).collect();
    let outer =
        |v: &[f64]| OuterSum { rows: v.len(), columns: z.len(), terms: vec![(v.to_vec(), z.to_vec())] };
    Gradients { A: outer(v), b: minus(v), c: z.to_vec(), A_eq: outer(v_eq), b_eq: minus(v_eq), factors: 0 }
}

/// Gradients of a loss of the solution z, given ∂L/∂z, through the rows that pin z down.
///
/// ```text
/// A_J z = b_J,   A_Jᵀ w = ∂L/∂z,   ∂L/∂b_J = w,   ∂L/∂A_J = −w zᵀ,   ∂L/∂c = 0
/// ```
/// J are the rows with a positive multiplier and all equalities. **∂z/∂c is zero**: a vertex does not move while c
/// turns, then jumps. If the solution is degenerate, J is a basis whose multipliers are not negative: the derivative on one
/// side of the kink, and not a mean of several. Cost: O(mn + n²) with the factor of A_JᵀA_J that the solver ended with; a
/// degenerate solution takes a factor for each row that leaves or joins J. Fails: as [`Solution::optimal`], `Shape` unless
/// ∂L/∂z has an entry per variable and the solution is of this program. Checked by
/// `tests/lp/backward.rs::active_set_is_the_derivative_of_the_solution`.
/// Book: `lp/differentiating.md#eq-lp-diff-active`, `#eq-lp-diff-least-squares`, `#eq-lp-diff-factors`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[2.0]])?, &[3.0], &[-1.0])?; // z = b/2 at the optimum
/// let found = NewtonLp::default().solve(&program)?;
/// let gradients = lp::active_set(&program, &found, &[1.0])?;
/// assert!((gradients.b[0] - 0.5).abs() < 1e-9);
/// assert_eq!(gradients.c, [0.0]); // a vertex stays while c turns
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn active_set(lp: &Lp, solution: &Solution, z_bar: &[f64]) -> Result<Gradients> {
    solution.optimal()?;
    ensure_shape("gradient in z", lp.n(), z_bar.len())?;
    ensure_shape("z of the solution", lp.n(), solution.z.len())?;
    ensure_shape("v of the solution", lp.m(), solution.v.len())?;
    if let Some(row) = solution.active.iter().find(|row| **row >= lp.m()) {
        return Err(Error::shape("active row of the solution", format!("below {}", lp.m()), row));
    }
    // In the solver's units: gradients in z go in by columns, and come out by rows.
    let detect = solution.hessian.iter().all(|hessian| matches!(hessian.lp.A, Matrix::Structured(_)));
    let problem = Scaled::new(lp, detect);
    let rows = selected(lp, &solution.active);
    let (hessian, factors) = match &solution.hessian {
        Some(hessian) if hessian.fits(&problem.lp, &rows) => (hessian.clone(), 0),
        _ if solution.degenerate => basis(&problem, solution)?,
        _ => (Hessian::of(&problem.lp, rows)?, 1),
    };
    let z_bar = problem.of_columns(z_bar);
    let mut x = hessian.factor.solve(&z_bar)?;
    for _ in 0..CORRECTIONS {
        let left = difference(z_bar.clone(), &hessian.on_rows(&x).pull(&problem.lp));
        let correction = hessian.factor.solve(&left)?;
        x.iter_mut().zip(&correction).for_each(|(x, d)| *x += d);
        if length(&correction) <= 1e-15 * length(&x) {
            break;
        }
    }
    let w = problem.of_rows(&hessian.on_rows(&x));
    let outer = |w: &[f64]| {
        let minus = w.iter().map(|w| -w).collect();
        OuterSum { rows: w.len(), columns: lp.n(), terms: vec![(minus, solution.z.clone())] }
    };
    let c = vec![0.0; lp.n()];
    Ok(Gradients { A: outer(&w.v), b: w.v, c, A_eq: outer(&w.v_eq), b_eq: w.v_eq, factors })
}

/// Gradients of a loss of the penalty's minimum y, and of its multipliers v, by the implicit function theorem.
///
/// ```text
/// H w = ∂L/∂y,   ∂L/∂c = −ε w,   ∂L/∂b = D A w,   ∂L/∂A = −(r₊ wᵀ + (D A w) yᵀ),        r = A y − b
/// v = r₊/ε:      r̄ = D v̄/ε,   ȳ ← ȳ + Aᵀr̄,   b̄ ← b̄ − r̄,   Ā ← Ā + r̄ yᵀ
/// ```
/// In b and A this is [`active_set`] up to O(ε); in c it is −εH⁻¹, a trace of the penalty and not of the program.
/// Cost: O(mn + n²) with the factor of the last Newton step, if it began on the piece on which it ended; else one factor
/// of H. Fails: `Shape` unless the gradients fit, `Solve` if H cannot be factored.
/// Checked by `tests/lp/backward.rs::penalty_gradients_match_finite_differences`.
/// Book: `lp/differentiating.md#eq-lp-diff-penalty`, `#eq-lp-diff-dual-output`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// let point = PenaltyNewton { epsilon: 0.1, ..PenaltyNewton::default() }.solve(&program)?;
/// // y = −b − ε c.
/// let gradients = lp::penalty_implicit(&program, &point, &[1.0], None)?;
/// assert!((gradients.b[0] + 1.0).abs() < 1e-9 && (gradients.c[0] + 0.1).abs() < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn penalty_implicit(
    lp: &Lp,
    point: &PenaltyPoint,
    y_bar: &[f64],
    v_bar: Option<&[f64]>,
) -> Result<Gradients> {
    let piece = Piece::new(lp, point, y_bar)?;
    let mut y_bar = y_bar.to_vec();
    let mut from_v = vec![0.0; lp.m()];
    if let Some(v_bar) = v_bar {
        ensure_shape("gradient in v", lp.m(), v_bar.len())?;
        from_v = v_bar.iter().zip(&piece.hessian.rows).map(|(v, on)| v * on / point.epsilon).collect();
        y_bar.iter_mut().zip(lp.A.transposed_times(&from_v)).for_each(|(y, a)| *y += a);
    }
    let w = piece.hessian.factor.solve(&y_bar)?;
    let minus: Vec<f64> = w.iter().map(|w| -w).collect();
    let Multipliers { v: q, v_eq: q_eq } = piece.hessian.on_rows(&w);
    let outer = |r: &[f64], q: &[f64], own: Vec<f64>| OuterSum {
        rows: q.len(),
        columns: lp.n(),
        terms: vec![(r.to_vec(), minus.clone()), (difference(own, q), point.y.clone())],
    };
    let none = vec![0.0; lp.b_eq.len()];
    Ok(Gradients {
        A: outer(&plus(&piece.iterate.r), &q, from_v.clone()),
        A_eq: outer(&piece.iterate.r_eq, &q_eq, none),
        b: difference(q, &from_v),
        b_eq: q_eq,
        c: minus.iter().map(|w| point.epsilon * w).collect(),
        factors: piece.factors,
    })
}

/// Gradients of a loss of one more Newton step from y, with D and y held still.
///
/// ```text
/// y⁺ = y + d,   d = −H⁻¹∇g(y);      p = H⁻¹ ∂L/∂y⁺,   q = D A p
/// ∂L/∂c = −ε p,   ∂L/∂b = q,   ∂L/∂A = −r₊ pᵀ − q yᵀ − q dᵀ − (D A d) pᵀ
/// ```
/// At the minimum d = 0 and this is [`penalty_implicit`] exactly: differentiating one step is enough, unrolling more is
/// waste. Cost and failures: as [`penalty_implicit`]. Checked by
/// `tests/lp/backward.rs::one_step_at_the_minimum_is_the_implicit_gradient`.
/// Book: `lp/differentiating.md#eq-lp-diff-one-step`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// let point = PenaltyNewton::default().solve(&program)?;
/// let once = lp::one_step(&program, &point, &[1.0])?;
/// let implicit = lp::penalty_implicit(&program, &point, &[1.0], None)?;
/// assert!((once.A.get(0, 0) - implicit.A.get(0, 0)).abs() < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn one_step(lp: &Lp, point: &PenaltyPoint, y_bar: &[f64]) -> Result<Gradients> {
    let piece = Piece::new(lp, point, y_bar)?;
    let minus = |values: Vec<f64>| values.into_iter().map(|v| -v).collect::<Vec<f64>>();
    let d = minus(piece.hessian.factor.solve(&piece.iterate.gradient)?);
    let p = piece.hessian.factor.solve(y_bar)?;
    let (q, along) = (piece.hessian.on_rows(&p), piece.hessian.on_rows(&d));
    let next: Vec<f64> = point.y.iter().zip(&d).map(|(y, d)| y + d).collect();
    let outer = |r: &[f64], q: &[f64], along: &[f64]| {
        let left = r.iter().zip(along).map(|(r, a)| -(r + a)).collect();
        let terms = vec![(left, p.clone()), (minus(q.to_vec()), next.clone())];
        OuterSum { rows: q.len(), columns: lp.n(), terms }
    };
    Ok(Gradients {
        A: outer(&plus(&piece.iterate.r), &q.v, &along.v),
        A_eq: outer(&piece.iterate.r_eq, &q.v_eq, &along.v_eq),
        c: p.iter().map(|p| -point.epsilon * p).collect(),
        b: q.v,
        b_eq: q.v_eq,
        factors: piece.factors,
    })
}

/// The quadratic piece of a penalty on which a point lies.
struct Piece {
    iterate: Iterate,
    hessian: Arc<Hessian>,
    factors: usize,
}

impl Piece {
    fn new(lp: &Lp, point: &PenaltyPoint, y_bar: &[f64]) -> Result<Piece> {
        lp.check()?;
        ensure_shape("y of the point", lp.n(), point.y.len())?;
        ensure_shape("gradient in y", lp.n(), y_bar.len())?;
        let iterate = Iterate::at(lp, &point.y, point.epsilon, &Multipliers::none(lp));
        let rows = indicator(&iterate.r);
        let (hessian, factors) = match &point.hessian {
            Some(hessian) if hessian.fits(lp, &rows) => (hessian.clone(), 0),
            _ => (Hessian::of(&Arc::new(lp.clone()), rows)?, 1),
        };
        Ok(Piece { iterate, hessian, factors })
    }
}

impl OuterSum {
    /// One entry; zero outside.
    pub fn get(&self, row: usize, column: usize) -> f64 {
        let entry = |(left, right): &(Vec<f64>, Vec<f64>)| {
            left.get(row).zip(right.get(column)).map_or(0.0, |(left, right)| left * right)
        };
        self.terms.iter().map(entry).sum()
    }

    /// All entries, written out.
    pub fn to_dense(&self) -> Array2<f64> {
        Array2::from_shape_fn((self.rows, self.columns), |(i, j)| self.get(i, j))
    }

    /// Shows the size and the number of terms.
    pub fn evcxr_display(&self) {
        let text = format!("{} × {} matrix of rank {} or less", self.rows, self.columns, self.terms.len());
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

impl Gradients {
    /// Shows how large each gradient is.
    pub fn evcxr_display(&self) {
        let A = length(self.A.to_dense().iter().copied().collect::<Vec<f64>>().as_slice());
        let text = format!(
            "|∂L/∂A| {A:.3e}, |∂L/∂b| {:.3e}, |∂L/∂c| {:.3e}, |∂L/∂b_eq| {:.3e}",
            length(&self.b),
            length(&self.c),
            length(&self.b_eq)
        );
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}
