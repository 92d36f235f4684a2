//! Newton's method on the exterior penalty of a linear program, one step at a time.

use std::sync::Arc;

use super::line_search::{Fixed, Reach, exact_line_search};
use super::normal::{Kept, Normal, Shift};
use super::program::{Lp, difference, largest, length, product};
use super::{plus, step};
use crate::error::{Error, Result, ensure_shape};

/// How far along the Newton direction a step goes.
///
/// Book: `lp/newton.md#eq-lp-newton-cycle`, `#eq-lp-newton-short-cycle`.
///
/// ```
/// use lastlayer::lp::StepRule;
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// for rule in [StepRule::LineSearch, StepRule::Fixed(1.0)] {
///     let point = PenaltyNewton { rule, ..PenaltyNewton::default() }.minimise(&program, &[0.0])?;
///     assert!((point.y[0] - 0.99).abs() < 1e-9);
/// }
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepRule {
    /// To the minimum along the line, found exactly.
    LineSearch,
    /// Always this multiple, as published. May cycle.
    Fixed(f64),
}

/// Newton's method on the exterior penalty, for one fixed penalty parameter.
///
/// ```text
/// g(y) = ½|(A y − b)₊|² + ½|A_eq y − b_eq|² + ε cᵀy                                   [Meng et al., Eq. (4)]
/// ∇g = Aᵀ(A y − b)₊ + A_eqᵀ(A_eq y − b_eq) + ε c,    H = A_DᵀA_D + A_eqᵀA_eq,   D = {A y > b}
/// y ← y − t (H + δI)⁻¹ ∇g
/// ```
/// At the minimum, v = (A y − b)₊ / ε is feasible for the dual, whatever ε; below some ε̄ it is the shortest optimal
/// one. With the exact line search g falls in every step and the method ends after finitely many; with fixed steps
/// neither is true. Differs: the paper prints the direction with the wrong sign, and v with a factor Aᵀ too many. Cost:
/// one factor of H and a sort a step. Checked by `tests/lp/newton.rs`.
/// Book: `lp/penalties.md#eq-lp-penalty`, `lp/newton.md#eq-lp-newton-step`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// let newton = PenaltyNewton { epsilon: 0.1, ..PenaltyNewton::default() };
/// let point = newton.minimise(&program, &[0.0])?;
/// // ½ (1 − y)₊² + ε y is least at y = 1 − ε, whatever ε with the exact dual.
/// assert!((point.y[0] - 0.9).abs() < 1e-9 && (point.v[0] - 1.0).abs() < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PenaltyNewton {
    /// Weight of the objective against the squared violations.
    pub epsilon: f64,
    pub shift: Shift,
    pub rule: StepRule,
    /// Converged if |∇g| is at most this times ε|c|, which bounds how far v is from feasible.
    pub tolerance: f64,
    pub max_steps: usize,
}

impl Default for PenaltyNewton {
    fn default() -> PenaltyNewton {
        let (shift, rule) = (Shift::IfSingular, StepRule::LineSearch);
        PenaltyNewton { epsilon: 1e-2, shift, rule, tolerance: 1e-10, max_steps: 300 }
    }
}

/// Where Newton's method is on a penalty.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// let newton = PenaltyNewton::default();
/// let start = newton.init(&program, &[0.0])?;
/// assert_eq!(start.penalty, 0.5); // ½ (1 − 0)²
/// let next = newton.step(&start)?;
/// assert!(next.converged && next.steps == 1 && next.penalty < start.penalty);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PenaltyState {
    pub(super) lp: Arc<Lp>,
    pub y: Vec<f64>,
    /// g(y).
    pub penalty: f64,
    /// |∇g(y)|.
    pub gradient: f64,
    pub steps: usize,
    /// Multiple of the direction in the last step.
    pub t: f64,
    pub converged: bool,
    /// A direction along which g falls for ever.
    pub ray: Option<Vec<f64>>,
    /// The last Hessian's factor.
    kept: Option<Arc<Kept>>,
}

/// The minimum of a penalty, or how far it was found.
///
/// Book: `lp/penalties.md#eq-lp-tikhonov`, `#eq-lp-weak`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// let point = PenaltyNewton::default().minimise(&program, &[0.0])?;
/// // A lower bound of the optimum 1: 1 − ε/2.
/// assert!((point.value - 0.995).abs() < 1e-9);
/// assert_eq!(point.envelope().c, point.y); // its derivative in c
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PenaltyPoint {
    pub y: Vec<f64>,
    /// (A y − b)₊ / ε.
    pub v: Vec<f64>,
    /// (A_eq y − b_eq) / ε.
    pub v_eq: Vec<f64>,
    pub epsilon: f64,
    /// g(y) / ε, at most the optimum of the linear program.
    pub value: f64,
    /// |∇g(y)|.
    pub gradient: f64,
    pub steps: usize,
    pub converged: bool,
    /// The last Hessian's factor, which its gradients need too.
    pub(super) kept: Option<Arc<Kept>>,
}

impl PenaltyNewton {
    /// From a starting point (n).
    ///
    /// Fails: as [`Lp::check`], `Shape` unless the point has an entry per variable, `Config` for settings out of range.
    pub fn init(&self, lp: &Lp, start: &[f64]) -> Result<PenaltyState> {
        lp.check()?;
        ensure_shape("starting point", lp.n(), start.len())?;
        positive("epsilon", self.epsilon)?;
        positive("tolerance", self.tolerance)?;
        if let StepRule::Fixed(t) = self.rule {
            positive("step", t)?;
        }
        if let Shift::Always(delta) = self.shift {
            positive("delta", delta)?;
        }
        if start.iter().any(|v| !v.is_finite()) {
            return Err(Error::data("starting point", "an entry is not finite; start from zeros"));
        }
        let (lp, y) = (Arc::new(lp.clone()), start.to_vec());
        let mut state = PenaltyState {
            lp,
            y,
            penalty: 0.0,
            gradient: 0.0,
            steps: 0,
            t: 0.0,
            converged: false,
            ray: None,
            kept: None,
        };
        self.look(&mut state);
        Ok(state)
    }

    /// One Newton step; the same state again if there is nothing left to do.
    ///
    /// Fails: `Solve` if the Hessian cannot be factored.
    /// Book: `lp/newton.md#eq-lp-newton-step`, `#eq-lp-newton-decrease`.
    pub fn step(&self, state: &PenaltyState) -> Result<PenaltyState> {
        let mut next = state.clone();
        if !self.done(&next) {
            self.advance(&mut next)?;
        }
        Ok(next)
    }

    /// Whether it converged, found a ray, or took all its steps.
    pub fn done(&self, state: &PenaltyState) -> bool {
        state.converged || state.ray.is_some() || state.steps >= self.max_steps
    }

    /// The point with its multipliers.
    pub fn finish(&self, state: &PenaltyState) -> PenaltyPoint {
        let here = Here::at(&state.lp, &state.y, self.epsilon, &Multipliers::none(&state.lp));
        let Multipliers { v, v_eq } = here.multipliers(self.epsilon);
        let (value, gradient) = (state.penalty / self.epsilon, state.gradient);
        let (steps, converged, kept) = (state.steps, state.converged, state.kept.clone());
        let (y, epsilon) = (state.y.clone(), self.epsilon);
        PenaltyPoint { y, v, v_eq, epsilon, value, gradient, steps, converged, kept }
    }

    /// All steps from a starting point.
    ///
    /// Fails: as [`init`](PenaltyNewton::init) and [`step`](PenaltyNewton::step). That it stopped early is no failure.
    /// Book: `lp/newton.md#eq-lp-newton-finite`.
    pub fn minimise(&self, lp: &Lp, start: &[f64]) -> Result<PenaltyPoint> {
        let mut state = self.init(lp, start)?;
        while !self.done(&state) {
            self.advance(&mut state)?;
        }
        Ok(self.finish(&state))
    }

    fn advance(&self, state: &mut PenaltyState) -> Result<()> {
        let here = Here::at(&state.lp, &state.y, self.epsilon, &Multipliers::none(&state.lp));
        let factor = Normal::factor(&state.lp, &step(&here.r), self.shift)?;
        let d: Vec<f64> = factor.solve(&here.slope)?.into_iter().map(|d| -d).collect();
        // A factor with a shift that was asked for is not the Hessian's.
        state.kept = (self.shift == Shift::IfSingular).then(|| Kept::new(&state.lp, step(&here.r), factor));
        state.t = match self.rule {
            StepRule::Fixed(t) => t,
            StepRule::LineSearch => match here.search(&state.lp, &d, self.epsilon) {
                Reach::At(t) => t,
                Reach::Forever => {
                    state.ray = Some(d);
                    return Ok(());
                }
            },
        };
        state.y.iter_mut().zip(&d).for_each(|(y, d)| *y += state.t * d);
        state.steps += 1;
        self.look(state);
        Ok(())
    }

    fn look(&self, state: &mut PenaltyState) {
        let here = Here::at(&state.lp, &state.y, self.epsilon, &Multipliers::none(&state.lp));
        (state.penalty, state.gradient) = (here.penalty, here.size);
        let wanted = self.tolerance * self.epsilon * length(&state.lp.c);
        state.converged = here.size <= wanted.max(here.floor);
    }
}

impl PenaltyState {
    /// Shows where it is.
    pub fn evcxr_display(&self) {
        let (steps, penalty, gradient) = (self.steps, self.penalty, self.gradient);
        let text = format!("step {steps}: y {:?}, g {penalty:.6e}, |∇g| {gradient:.1e}", self.y);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

impl PenaltyPoint {
    /// Shows the value and how it was found.
    pub fn evcxr_display(&self) {
        let end = if self.converged { "converged" } else { "not converged" };
        let text =
            format!("{end} after {} steps, value {}, |∇g| {:.1e}", self.steps, self.value, self.gradient);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// One multiplier per inequality and per equality.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Multipliers {
    pub v: Vec<f64>,
    pub v_eq: Vec<f64>,
}

impl Multipliers {
    pub fn none(lp: &Lp) -> Multipliers {
        Multipliers { v: vec![0.0; lp.m()], v_eq: vec![0.0; lp.b_eq.len()] }
    }

    /// Aᵀv + A_eqᵀv_eq.
    pub fn pull(&self, lp: &Lp) -> Vec<f64> {
        let mut sum = lp.A.transposed_times(&self.v);
        sum.iter_mut().zip(lp.A_eq.transposed_times(&self.v_eq)).for_each(|(s, e)| *s += e);
        sum
    }

    /// bᵀv + b_eqᵀv_eq.
    pub fn price(&self, lp: &Lp) -> f64 {
        product(&lp.b, &self.v) + product(&lp.b_eq, &self.v_eq)
    }
}

/// The penalty around one point, its bounds moved by ε times multipliers.
#[derive(Clone, Debug)]
pub(super) struct Here {
    /// A y − b + εv and A_eq y − b_eq + εv_eq.
    pub r: Vec<f64>,
    pub r_eq: Vec<f64>,
    pub slope: Vec<f64>,
    /// |∇g|.
    pub size: f64,
    /// Below this, |∇g| is rounding.
    pub floor: f64,
    pub penalty: f64,
}

impl Here {
    pub fn at(lp: &Lp, y: &[f64], epsilon: f64, moved: &Multipliers) -> Here {
        let mut r = difference(lp.A.times(y), &lp.b);
        r.iter_mut().zip(&moved.v).for_each(|(r, v)| *r += epsilon * v);
        let mut r_eq = difference(lp.A_eq.times(y), &lp.b_eq);
        r_eq.iter_mut().zip(&moved.v_eq).for_each(|(r, v)| *r += epsilon * v);
        let over = Multipliers { v: plus(&r), v_eq: r_eq.clone() };
        let mut slope = over.pull(lp);
        slope.iter_mut().zip(&lp.c).for_each(|(g, c)| *g += epsilon * c);
        let penalty = 0.5 * (product(&over.v, &over.v) + product(&r_eq, &r_eq)) + epsilon * product(&lp.c, y);
        // Rounding of each residual, which is a difference of numbers of the size of y and b, and of their sum.
        let rows = r.iter().filter(|r| **r > 0.0).count() + r_eq.len();
        let residuals = over.v.iter().sum::<f64>() + r_eq.iter().map(|r| r.abs()).sum::<f64>();
        let terms = length(y) + largest(&lp.b).max(largest(&lp.b_eq));
        let floor = 2.0 * f64::EPSILON * (residuals + (rows as f64).sqrt() * terms);
        let size = length(&slope);
        Here { r, r_eq, slope, size, floor, penalty }
    }

    /// The Newton direction by the factor of the Hessian and, if that is singular, the part that no active row sees.
    pub fn directions(&self, hessian: &Kept) -> Result<(Vec<f64>, Option<Vec<f64>>)> {
        let d: Vec<f64> = hessian.factor.solve(&self.slope)?.into_iter().map(|d| -d).collect();
        let lasting = if hessian.factor.regular() { None } else { Some(hessian.unseen(d.clone())?) };
        Ok((d, lasting))
    }

    pub fn search(&self, lp: &Lp, d: &[f64], epsilon: f64) -> Reach {
        let (q, q_eq) = (lp.A.times(d), lp.A_eq.times(d));
        let slope = product(&q_eq, &self.r_eq) + epsilon * product(&lp.c, d);
        let fixed = Fixed { curvature: product(&q_eq, &q_eq), slope };
        exact_line_search(&self.r, &q, fixed, product(d, d))
    }

    pub fn multipliers(&self, epsilon: f64) -> Multipliers {
        let v = self.r.iter().map(|r| r.max(0.0) / epsilon).collect();
        Multipliers { v, v_eq: self.r_eq.iter().map(|r| r / epsilon).collect() }
    }
}

/// A setting that must be positive and finite.
pub(super) fn positive(field: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::config(field, value, "a positive number"))
}
