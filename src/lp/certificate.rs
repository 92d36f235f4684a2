//! What a solver may claim, and the numbers that prove it.

use std::sync::Arc;

use super::normal::Hessian;
use super::penalty::Multipliers;
use super::program::{Lp, largest, length, product};
use super::scale::Scaled;
use super::vertex::support;
use crate::error::{Error, Result};

/// What is known about a linear program.
///
/// ```
/// use lastlayer::lp::Status;
/// use lastlayer::prelude::*;
/// // min −z with z ≥ 0 only: it falls for ever.
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[0.0], &[-1.0])?;
/// let found = NewtonLp::default().solve(&program)?;
/// assert_eq!(found.status, Status::Unbounded);
/// assert!(found.optimal().is_err()); // an answer, but no optimum
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// z and v satisfy the conditions of optimality to the tolerance.
    Optimal,
    /// No z satisfies all rows; a Farkas ray shows it.
    Infeasible,
    /// The objective falls for ever along a ray, from a feasible z.
    Unbounded,
    /// Nothing was proved; z is the best point found, and the certificate says how good it is.
    Inexact,
}

/// How far a point and its multipliers are from optimal, in the solver's units: rows and columns of size about one.
///
/// ```text
/// primal = max_j (a_jᵀz − b_j)₊ / (1 + |b_j|)     dual = |Aᵀv + c| / |c|     gap = |cᵀz + bᵀv| / (1 + |cᵀz|)
/// ```
/// Equalities count in all three. v ≥ 0 holds exactly. A small gap alone proves nothing: primal feasibility must be
/// looked at too. Checked by `tests/lp/certificate.rs`.
/// Book: `lp/penalties.md#eq-lp-certificate`.
///
/// ```
/// use lastlayer::prelude::*;
/// let found = NewtonLp::default().solve(&Lp::auc([0.0, 1.0], [1, 0], 0.5)?)?;
/// assert!(found.certificate.holds(1e-9));
/// let far = lp::Certificate { primal: 0.5, dual: 0.0, gap: 0.0 };
/// assert_eq!(far.worst(), 0.5);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Certificate {
    pub primal: f64,
    pub dual: f64,
    pub gap: f64,
}

/// Proof that there is no optimum.
///
/// Book: `lp/penalties.md#eq-lp-farkas`.
///
/// ```
/// use lastlayer::prelude::*;
/// // z ≤ 0 and z ≥ 1 contradict each other; adding the two rows up gives 0 ≤ −1.
/// let rows = Matrix::dense(ndarray::array![[1.0], [-1.0]])?;
/// let found = NewtonLp::default().solve(&Lp::new(rows, &[0.0, -1.0], &[1.0])?)?;
/// assert_eq!(found.status, lp::Status::Infeasible);
/// let Some(lp::Ray::Farkas { v, .. }) = found.ray else { panic!("no proof") };
/// assert!(v[0] > 0.0 && (v[0] - v[1]).abs() < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Ray {
    /// v ≥ 0 with Aᵀv + A_eqᵀv_eq = 0 and bᵀv + b_eqᵀv_eq < 0: adding the rows up with these weights gives 0 < 0.
    Farkas { v: Vec<f64>, v_eq: Vec<f64> },
    /// d with A d ≤ 0, A_eq d = 0 and cᵀd < 0: any feasible z may go along it for ever.
    Descent { d: Vec<f64> },
}

/// What a solver found.
///
/// Checked by `tests/lp/solve.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let rows = Matrix::dense(ndarray::array![[-1.0], [1.0]])?;
/// let program = Lp::new(rows, &[-1.0, 9.0], &[2.0])?; // min 2z, 1 ≤ z ≤ 9
/// let found = NewtonLp::default().solve(&program)?;
/// assert!((found.value - 2.0).abs() < 1e-8);
/// assert_eq!(found.active, [0]); // the first row pins z down, and is worth 2 a unit
/// assert!((found.v[0] - 2.0).abs() < 1e-8 && !found.degenerate);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    pub status: Status,
    /// Whether z or v is one of several, or sits on a kink; derivatives then are one of several too.
    pub degenerate: bool,
    /// (n)
    pub z: Vec<f64>,
    /// (m) Multipliers of the inequalities, not negative.
    pub v: Vec<f64>,
    /// (m_eq) Multipliers of the equalities, of any sign.
    pub v_eq: Vec<f64>,
    /// Inequalities with a positive multiplier.
    pub active: Vec<usize>,
    /// cᵀz.
    pub value: f64,
    pub certificate: Certificate,
    pub ray: Option<Ray>,
    /// Newton steps in total, with those of the programs that decide between infeasible and unbounded.
    pub steps: usize,
    /// Updates of the multipliers or of the penalty parameter.
    pub rounds: usize,
    /// At a vertex that is not degenerate, what its gradients need.
    pub(super) hessian: Option<Arc<Hessian>>,
}

impl Certificate {
    pub(super) fn of(problem: &Scaled, y: &[f64], multipliers: &Multipliers) -> Certificate {
        let lp = &problem.lp;
        let over = |(r, b): (f64, &f64)| r / (1.0 + b.abs());
        let rows = lp.A.times(y).into_iter().zip(&lp.b).map(|(a, b)| over(((a - b).max(0.0), b)));
        let equal = lp.A_eq.times(y).into_iter().zip(&lp.b_eq).map(|(a, b)| over(((a - b).abs(), b)));
        let primal = most(rows.chain(equal));
        let mut balance = multipliers.pull(lp);
        balance.iter_mut().zip(&lp.c).for_each(|(s, c)| *s += c);
        let value = product(&lp.c, y);
        let gap = (value + multipliers.price(lp)).abs() / (1.0 + value.abs());
        let size = length(&lp.c);
        Certificate { primal, dual: length(&balance) / if size > 0.0 { size } else { 1.0 }, gap }
    }

    /// The largest of the three.
    pub fn worst(&self) -> f64 {
        most([self.primal, self.dual, self.gap].into_iter())
    }

    /// Whether all three are at most the tolerance.
    pub fn holds(&self, tolerance: f64) -> bool {
        self.worst() <= tolerance
    }

    /// Shows the three numbers.
    pub fn evcxr_display(&self) {
        let Certificate { primal, dual, gap } = self;
        let text = format!("primal {primal:.1e}, dual {dual:.1e}, gap {gap:.1e}");
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

impl Solution {
    /// A point and multipliers of a solver, in the units of the program it was given.
    pub(super) fn of(problem: &Scaled, y: &[f64], dual: &Multipliers, status: Status) -> Solution {
        let (z, Multipliers { v, v_eq }) = (problem.z(y), problem.multipliers(dual));
        let (active, value) = (support(&dual.v), problem.value(y));
        let certificate = Certificate::of(problem, y, dual);
        let (degenerate, ray, steps, rounds, hessian) = (false, None, 0, 0, None);
        Solution { status, degenerate, z, v, v_eq, active, value, certificate, ray, steps, rounds, hessian }
    }

    /// The solution itself if it is optimal.
    ///
    /// Fails: `Solve` for every other status, saying what to look at.
    pub fn optimal(&self) -> Result<&Solution> {
        let hint = match self.status {
            Status::Optimal => return Ok(self),
            Status::Infeasible => {
                "no point satisfies all rows; the Farkas ray says which rows contradict each other"
            }
            Status::Unbounded => "the objective falls for ever along the ray; bound the variables in it",
            Status::Inexact => "nothing was proved; scale the variables, or loosen the tolerance",
        };
        let (solver, hint) = ("linear program".to_string(), hint.to_string());
        Err(Error::Solve { solver, iters: self.steps, residual: self.certificate.worst(), hint })
    }

    /// Shows status, value and certificate.
    pub fn evcxr_display(&self) {
        let Certificate { primal, dual, gap } = self.certificate;
        let kind = if self.degenerate { ", degenerate" } else { "" };
        let text = format!(
            "{:?}{kind}: value {}, primal {primal:.1e}, dual {dual:.1e}, gap {gap:.1e}, {} Newton steps, {} rounds",
            self.status, self.value, self.steps, self.rounds
        );
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

impl Ray {
    /// Shows the ray.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(format!("{self:?}"));
    }
}

/// The largest of numbers that are not negative, or the last that is none.
fn most(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |most: f64, v| if v.is_nan() { v } else { most.max(v) })
}

/// How far a unit ray may be from exact.
const RAY: f64 = 1e-9;

/// What a unit ray must at least gain.
const GAIN: f64 = 1e-7;

/// Multipliers that prove infeasibility, of length one, if these do once negative entries are cut off.
pub(super) fn farkas(lp: &Lp, candidate: &Multipliers) -> Option<Multipliers> {
    let mut ray = candidate.clone();
    ray.v.iter_mut().for_each(|v| *v = v.max(0.0));
    let size = (product(&ray.v, &ray.v) + product(&ray.v_eq, &ray.v_eq)).sqrt();
    if !(size > 0.0 && size.is_finite()) {
        return None;
    }
    ray.v.iter_mut().chain(&mut ray.v_eq).for_each(|v| *v /= size);
    let gain = -ray.price(lp);
    // A point of length |z| could at most gain |Aᵀv||z|.
    (length(&ray.pull(lp)) <= RAY * gain.min(1.0) && gain > GAIN).then_some(ray)
}

/// The direction at length one, if it proves that the objective falls for ever.
pub(super) fn descent(lp: &Lp, d: &[f64]) -> Option<Vec<f64>> {
    let size = length(d);
    if !(size > 0.0 && size.is_finite()) {
        return None;
    }
    let d: Vec<f64> = d.iter().map(|d| d / size).collect();
    let rising = lp.A.times(&d).into_iter().fold(0.0, f64::max).max(largest(&lp.A_eq.times(&d)));
    (rising <= RAY && product(&lp.c, &d) < -GAIN * length(&lp.c)).then_some(d)
}
