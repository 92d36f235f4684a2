//! The penalty of a linear program around a point, and what a minimiser of it goes through.

use std::sync::Arc;

use super::line_search::{Fixed, Reach, exact_line_search};
use super::normal::{Hessian, Normal};
use super::plus;
use super::program::{Lp, difference, largest, length, product};
use crate::error::{Error, Result, ensure_shape};

/// Where a minimiser of a penalty is.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// let newton = PenaltyNewton::default();
/// let mut state = newton.init(&program)?;
/// assert_eq!(state.penalty, 0.5); // ½ (1 − 0)²
/// newton.step(&mut state)?;
/// assert!(state.converged && state.steps == 1 && state.penalty < 0.5);
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
    /// What a theorem says that g fell by in the last step, at least; zero where there is none.
    pub promised: f64,
    pub converged: bool,
    /// A direction along which g falls for ever.
    pub ray: Option<Vec<f64>>,
    pub(super) iterate: Iterate,
    /// Of the last step.
    pub(super) hessian: Option<Arc<Hessian>>,
}

/// The minimum of a penalty, or how far it was found.
///
/// Book: `lp/penalties.md#eq-lp-tikhonov`, `#eq-lp-weak`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// let point = PenaltyNewton::default().solve(&program)?;
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
    /// Of the last step, which its gradients need too.
    pub(super) hessian: Option<Arc<Hessian>>,
}

impl PenaltyState {
    /// At a point that nobody has looked at yet.
    ///
    /// Fails: as [`Lp::check`], `Shape` unless the point has an entry per variable, `Data` unless all are finite.
    pub(super) fn new(lp: &Lp, start: &[f64]) -> Result<PenaltyState> {
        lp.check()?;
        ensure_shape("starting point", lp.n(), start.len())?;
        if start.iter().any(|v| !v.is_finite()) {
            return Err(Error::data("starting point", "an entry is not finite; start from zeros"));
        }
        let (lp, y, iterate) = (Arc::new(lp.clone()), start.to_vec(), Iterate::default());
        let (penalty, gradient, steps, t, promised) = (0.0, 0.0, 0, 0.0, 0.0);
        let (converged, ray, hessian) = (false, None, None);
        Ok(PenaltyState { lp, y, penalty, gradient, steps, t, promised, converged, ray, iterate, hessian })
    }

    /// Goes t times d further.
    pub(super) fn advance(&mut self, t: f64, d: &[f64]) {
        self.y.iter_mut().zip(d).for_each(|(y, d)| *y += t * d);
        (self.t, self.steps) = (t, self.steps + 1);
    }

    /// Takes note of what the penalty is at y; it has converged if |∇g| is this share of |c|, or rounding.
    pub(super) fn record(&mut self, iterate: Iterate, share: f64) {
        (self.penalty, self.gradient) = (iterate.penalty, iterate.size);
        self.converged = iterate.size <= (share * length(&self.lp.c)).max(iterate.floor);
        self.iterate = iterate;
    }

    /// What was found, with its multipliers.
    pub(super) fn point(&self, epsilon: f64, Multipliers { v, v_eq }: Multipliers) -> PenaltyPoint {
        let (y, value, hessian) = (self.y.clone(), self.penalty / epsilon, self.hessian.clone());
        let (gradient, steps, converged) = (self.gradient, self.steps, self.converged);
        PenaltyPoint { y, v, v_eq, epsilon, value, gradient, steps, converged, hessian }
    }

    /// Shows where it is.
    pub fn evcxr_display(&self) {
        let (steps, penalty, gradient, t) = (self.steps, self.penalty, self.gradient, self.t);
        let text = format!("step {steps}: y {:?}, g {penalty:.6e}, |∇g| {gradient:.1e}, t {t:.3}", self.y);
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

/// A penalty at one point.
#[derive(Clone, Debug, Default)]
pub(super) struct Iterate {
    /// A y − b and A_eq y − b_eq, the bounds moved by ε times multipliers.
    pub r: Vec<f64>,
    pub r_eq: Vec<f64>,
    pub gradient: Vec<f64>,
    /// |∇g|.
    pub size: f64,
    /// Below this, |∇g| is rounding.
    pub floor: f64,
    pub penalty: f64,
}

impl Iterate {
    /// ½|(A y − b + εv)₊|² + ½|A_eq y − b_eq + εv_eq|² + ε cᵀy.
    pub fn at(lp: &Lp, y: &[f64], epsilon: f64, Multipliers { v, v_eq }: &Multipliers) -> Iterate {
        let (mut r, mut r_eq) = residuals(lp, y);
        r.iter_mut().zip(v).for_each(|(r, v)| *r += epsilon * v);
        r_eq.iter_mut().zip(v_eq).for_each(|(r, v)| *r += epsilon * v);
        let violation = Multipliers { v: plus(&r), v_eq: r_eq.clone() };
        let mut gradient = violation.pull(lp);
        gradient.iter_mut().zip(&lp.c).for_each(|(g, c)| *g += epsilon * c);
        let squares = product(&violation.v, &violation.v) + product(&r_eq, &r_eq);
        let penalty = 0.5 * squares + epsilon * product(&lp.c, y);
        // Rounding of each residual, which is a difference of numbers of the size of y and b, and of their sum.
        let rows = r.iter().filter(|r| **r > 0.0).count() + r_eq.len();
        let sum = violation.v.iter().sum::<f64>() + r_eq.iter().map(|r| r.abs()).sum::<f64>();
        let terms = length(y) + largest(&lp.b).max(largest(&lp.b_eq));
        let floor = 2.0 * f64::EPSILON * (sum + (rows as f64).sqrt() * terms);
        Iterate { size: length(&gradient), r, r_eq, gradient, floor, penalty }
    }

    /// d = −H⁻¹∇g.
    pub fn direction(&self, factor: &Normal) -> Result<Vec<f64>> {
        Ok(factor.solve(&self.gradient)?.into_iter().map(|d| -d).collect())
    }

    /// The minimum along a direction.
    pub fn search(&self, lp: &Lp, d: &[f64], epsilon: f64) -> Reach {
        let (q, q_eq) = (lp.A.times(d), lp.A_eq.times(d));
        let slope = product(&q_eq, &self.r_eq) + epsilon * product(&lp.c, d);
        let fixed = Fixed { curvature: product(&q_eq, &q_eq), slope };
        exact_line_search(&self.r, &q, fixed, product(d, d))
    }

    /// v = (A y − b)₊ / ε.
    pub fn multipliers(&self, epsilon: f64) -> Multipliers {
        let v = self.r.iter().map(|r| r.max(0.0) / epsilon).collect();
        Multipliers { v, v_eq: self.r_eq.iter().map(|r| r / epsilon).collect() }
    }
}

/// A y − b and A_eq y − b_eq.
pub(super) fn residuals(lp: &Lp, y: &[f64]) -> (Vec<f64>, Vec<f64>) {
    (difference(lp.A.times(y), &lp.b), difference(lp.A_eq.times(y), &lp.b_eq))
}

/// A setting that must be positive and finite.
pub(super) fn positive(field: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::config(field, value, "a positive number"))
}
