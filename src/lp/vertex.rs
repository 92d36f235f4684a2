//! Which rows hold a point, and where rows hold it.

use std::sync::Arc;

use ndarray::Array2;

use super::certificate::Solution;
use super::matrix::Matrix;
use super::normal::{Hessian, Normal, Shift};
use super::penalty::{Multipliers, residuals};
use super::program::{Lp, difference, largest, length};
use super::scale::Scaled;
use crate::error::{Error, Result};
use crate::linalg::shortest_solution;
use crate::seed::Seed;

/// A multiplier counts as positive above this share of the largest.
const ACTIVE: f64 = 1e-7;

/// Corrections of a projection through a shifted factor; each leaves about a millionth of the error.
const CORRECTIONS: usize = 20;

/// What must be left of a row, or of weights of rows, for it to be more than rounding.
const LEFT: f64 = 1e-6;

/// Inequalities with a positive multiplier.
pub(super) fn support(v: &[f64]) -> Vec<usize> {
    let least = ACTIVE * largest(v);
    (0..v.len()).filter(|j| v[*j] > least).collect()
}

/// Inequalities that a point meets with equality.
fn tight(lp: &Lp, y: &[f64]) -> Vec<usize> {
    let near = |(j, (a, b)): (usize, (f64, &f64))| {
        (a - b > -ACTIVE * (1.0 + b.abs()) && !lp.A.row_is_empty(j)).then_some(j)
    };
    lp.A.times(y).into_iter().zip(&lp.b).enumerate().filter_map(near).collect()
}

/// One at these inequalities, zero at others.
pub(super) fn selected(lp: &Lp, rows: &[usize]) -> Vec<f64> {
    let mut weights = vec![0.0; lp.m()];
    rows.iter().for_each(|j| weights[*j] = 1.0);
    weights
}

/// The Hessian of the active rows, if they are exactly those that pin a point down; it may be the last one.
pub(super) fn vertex(
    lp: &Arc<Lp>,
    y: &[f64],
    active: &[usize],
    last: &Option<Arc<Hessian>>,
) -> Option<Arc<Hessian>> {
    if active.len() + lp.b_eq.len() != lp.n() || tight(lp, y).len() != active.len() {
        return None;
    }
    let rows = selected(lp, active);
    let known = last.iter().find(|hessian| hessian.rows == rows).cloned();
    known.or_else(|| Hessian::of(lp, rows).ok()).filter(|hessian| hessian.factor.regular())
}

/// The point nearest to y that meets the rows with a multiplier and all equalities with equality.
pub(super) fn projection(lp: &Lp, y: &[f64], dual: &Multipliers) -> Result<Vec<f64>> {
    let active = support(&dual.v);
    let (excess, excess_eq) = residuals(lp, y);
    let x = if let Matrix::Structured(_) = &lp.A {
        shortest_by_normal(lp, &selected(lp, &active), &excess, &excess_eq)?
    } else {
        let rows = active.iter().map(|j| lp.A.row(*j)).chain((0..lp.b_eq.len()).map(|j| lp.A_eq.row(j)));
        let rows: Vec<f64> = rows.flatten().collect();
        let target: Vec<f64> = active.iter().map(|j| excess[*j]).chain(excess_eq).collect();
        let shaped = Array2::from_shape_vec((target.len(), lp.n()), rows);
        shortest_solution(&shaped.map_err(|e| Error::shape("active rows", "rows of A", e))?, &target)?.0
    };
    Ok(difference(y.to_vec(), &x))
}

/// pinv(A_J) of an excess, by solves with A_JᵀA_J + δI, each correcting what the one before left.
fn shortest_by_normal(lp: &Lp, weights: &[f64], excess: &[f64], excess_eq: &[f64]) -> Result<Vec<f64>> {
    let factor = Normal::factor(lp, weights, Shift::IfSingular)?;
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

/// Independent rows that hold z and whose multipliers are not negative; and how many factors it took to find them.
///
/// ```text
/// too many   Σ u_j a_j = 0:   v ← v + t u until a multiplier is zero, and its row goes
/// too few    rows that z meets join with the multiplier zero, as long as they are independent of the others
/// ```
/// Of the two ends of a line of duals it takes the one at which fewer multipliers vanish. If n are left and positive, z
/// is the proper vertex of a program beside this one, so its derivative is a limit of derivatives.
/// Checked by `tests/lp/backward.rs::a_degenerate_vertex_has_the_derivative_of_a_program_beside_it`.
/// Book: `lp/differentiating.md#eq-lp-diff-least-squares`, `#eq-lp-diff-basis`.
pub(super) fn basis(problem: &Scaled, solution: &Solution) -> Result<(Arc<Hessian>, usize)> {
    let lp = &problem.lp;
    let given = Multipliers { v: solution.v.clone(), v_eq: solution.v_eq.clone() };
    let (y, Multipliers { mut v, .. }) = problem.scaled(&solution.z, &given);
    let (mut hessian, mut factors) = (Hessian::of(lp, selected(lp, &solution.active))?, 1);
    while let Some(u) = dependence(&hessian, factors)? {
        let ends = [1.0, -1.0].into_iter().filter_map(|sign| end(&v, &u, sign));
        let Some((next, gone)) = ends.min_by_key(|(_, gone)| gone.len()) else { break };
        let mut rows = hessian.rows.clone();
        gone.iter().for_each(|j| rows[*j] = 0.0);
        (v, hessian, factors) = (next, Hessian::of(lp, rows)?, factors + 1);
    }
    for j in tight(lp, &y) {
        if hessian.factor.regular() {
            break;
        }
        if hessian.rows[j] == 0.0 && length(&hessian.null_part(lp.A.row(j))?) > LEFT {
            let mut rows = hessian.rows.clone();
            rows[j] = 1.0;
            (hessian, factors) = (Hessian::of(lp, rows)?, factors + 1);
        }
    }
    Ok((hessian, factors))
}

/// Weights of inequalities that cancel each other, with any weights of the equalities; none if the rows are independent.
fn dependence(hessian: &Hessian, draw: usize) -> Result<Option<Vec<f64>>> {
    let equalities = hessian.lp.b_eq.len();
    let count = hessian.rows.iter().filter(|w| **w > 0.0).count() + equalities;
    if hessian.factor.regular() && count == hessian.lp.n() {
        return Ok(None);
    }
    let seed = Seed::new(draw as u64);
    let drawn = |seed: Seed, count: usize| (0..count as u64).map(|j| seed.normal(j)).collect();
    let v_eq = drawn(seed.named("equalities"), equalities);
    let mut u = hessian.left_null_part(Multipliers { v: drawn(seed, hessian.rows.len()), v_eq })?.v;
    let most = largest(&u);
    u.iter_mut().filter(|u| u.abs() <= LEFT * most).for_each(|u| *u = 0.0);
    Ok((most > LEFT).then_some(u))
}

/// The last v + t u that is not negative, and the rows that have lost their multiplier there.
fn end(v: &[f64], u: &[f64], sign: f64) -> Option<(Vec<f64>, Vec<usize>)> {
    let falling = || v.iter().zip(u).enumerate().filter(|(_, (_, u))| sign * **u < 0.0);
    let t = falling().map(|(_, (v, u))| v / u.abs()).min_by(f64::total_cmp)?;
    let mut next: Vec<f64> = v.iter().zip(u).map(|(v, u)| (v + sign * t * u).max(0.0)).collect();
    let least = ACTIVE * largest(v);
    let gone: Vec<usize> = falling().map(|(j, _)| j).filter(|j| next[*j] <= least).collect();
    gone.iter().for_each(|j| next[*j] = 0.0);
    Some((next, gone))
}
