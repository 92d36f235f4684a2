//! The loop over the penalty parameter, and z from a minimum of the penalty.

use super::augmented::{ACTIVE, End, LpState, NewtonLp};
use super::certificate::Certificate;
use super::matrix::Matrix;
use super::newton::{Here, Multipliers};
use super::normal::{Normal, Shift};
use super::program::{Lp, difference, largest, length};
use crate::error::Result;
use crate::linalg::shortest_solution;

/// Below this the objective drowns in the rounding of the penalty.
const LEAST_EPSILON: f64 = 1e-10;

/// Corrections of a projection through a shifted factor; each leaves about a millionth of the error.
const CORRECTIONS: usize = 20;

impl NewtonLp {
    /// Tries to recover z from the minimum for this ε; a tenth of ε otherwise.
    ///
    /// ```text
    /// projection    z = y − pinv(A_J)(A_J y − b_J),   J = {v > 0} and all equalities
    /// Richardson    z = (ε₁ y₂ − ε₂ y₁) / (ε₁ − ε₂),  since y(ε) = z + εw once ε is small
    /// ```
    pub(super) fn epsilon_round(&self, state: &mut LpState, here: &Here) -> Result<()> {
        let problem = state.problem.clone();
        let dual = here.multipliers(state.epsilon);
        (state.rounds, state.inner) = (state.rounds + 1, 0);
        let mut candidates = vec![projection(&problem.lp, &state.y, &dual)?];
        if let Some((epsilon, y)) = &state.before {
            candidates.push(richardson((*epsilon, y), (state.epsilon, &state.y)));
        }
        for z in candidates {
            if Certificate::of(&problem, &z, &dual).holds(self.tolerance) {
                (state.y, state.dual, state.end) = (z, dual, Some(End::Optimal));
                return Ok(());
            }
        }
        state.before = Some((state.epsilon, state.y.clone()));
        state.dual = dual;
        state.epsilon *= 0.1;
        if state.epsilon < LEAST_EPSILON {
            state.end = Some(End::Stuck);
        }
        Ok(())
    }
}

/// The line through two minima, at ε = 0.
fn richardson((first, y_first): (f64, &[f64]), (second, y_second): (f64, &[f64])) -> Vec<f64> {
    let at_zero = |(a, b): (&f64, &f64)| (first * b - second * a) / (first - second);
    y_first.iter().zip(y_second).map(at_zero).collect()
}

/// The point nearest to y that meets the active rows and all equalities with equality.
pub(super) fn projection(lp: &Lp, y: &[f64], dual: &Multipliers) -> Result<Vec<f64>> {
    let least = ACTIVE * largest(&dual.v);
    let active: Vec<usize> = (0..lp.m()).filter(|j| dual.v[*j] > least).collect();
    let excess = difference(lp.A.times(y), &lp.b);
    let excess_eq = difference(lp.A_eq.times(y), &lp.b_eq);
    let x = if let Matrix::Structured(_) = &lp.A {
        shortest_by_normal(lp, &active, &excess, &excess_eq)?
    } else {
        let rows = active.iter().map(|j| lp.A.row(*j)).chain((0..lp.b_eq.len()).map(|j| lp.A_eq.row(j)));
        let rows: Vec<f64> = rows.flatten().collect();
        let target: Vec<f64> = active.iter().map(|j| excess[*j]).chain(excess_eq).collect();
        let shaped = ndarray::Array2::from_shape_vec((target.len(), lp.n()), rows);
        let shaped = shaped.map_err(|e| crate::error::Error::shape("active rows", "rows of A", e))?;
        shortest_solution(&shaped, &target)?.0
    };
    Ok(difference(y.to_vec(), &x))
}

/// pinv(A_J) of an excess, by solves with A_JᵀA_J + δI, each correcting what the one before left.
fn shortest_by_normal(lp: &Lp, active: &[usize], excess: &[f64], excess_eq: &[f64]) -> Result<Vec<f64>> {
    let mut weights = vec![0.0; lp.m()];
    active.iter().for_each(|j| weights[*j] = 1.0);
    let factor = Normal::factor(lp, &weights, Shift::IfSingular)?;
    let mut x = vec![0.0; lp.n()];
    for _ in 0..CORRECTIONS {
        let rows = lp.A.times(&x);
        let v = weights.iter().zip(excess).zip(&rows).map(|((w, e), r)| w * (e - r)).collect();
        let left = Multipliers { v, v_eq: difference(excess_eq.to_vec(), &lp.A_eq.times(&x)) };
        let correction = factor.solve(&left.pull(lp))?;
        x.iter_mut().zip(&correction).for_each(|(x, d)| *x += d);
        if length(&correction) <= f64::EPSILON * length(&x) {
            break;
        }
    }
    Ok(x)
}
