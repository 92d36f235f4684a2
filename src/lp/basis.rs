//! Which rows hold a degenerate vertex.

use std::sync::Arc;

use super::augmented::{ACTIVE, on, touching};
use super::certificate::Solution;
use super::newton::Multipliers;
use super::normal::Kept;
use super::program::{largest, length};
use super::scale::Scaled;
use crate::error::Result;
use crate::seed::Seed;

/// What must be left of a row, or of weights of rows, for it to be more than rounding.
const LEFT: f64 = 1e-6;

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
pub(super) fn basis(problem: &Scaled, solution: &Solution) -> Result<(Arc<Kept>, usize)> {
    let lp = &problem.lp;
    let given = Multipliers { v: solution.v.clone(), v_eq: solution.v_eq.clone() };
    let (y, Multipliers { mut v, .. }) = problem.scaled(&solution.z, &given);
    let (mut kept, mut factors) = (Kept::make(lp, on(lp, &solution.active))?, 1);
    while let Some(u) = dependence(&kept, factors)? {
        let ends = [1.0, -1.0].into_iter().filter_map(|sign| end(&v, &u, sign));
        let Some((next, gone)) = ends.min_by_key(|(_, gone)| gone.len()) else { break };
        let mut rows = kept.rows.clone();
        gone.iter().for_each(|j| rows[*j] = 0.0);
        (v, kept, factors) = (next, Kept::make(lp, rows)?, factors + 1);
    }
    for j in touching(lp, &y) {
        if kept.factor.regular() {
            break;
        }
        if kept.rows[j] == 0.0 && length(&kept.unseen(lp.A.row(j))?) > LEFT {
            let mut rows = kept.rows.clone();
            rows[j] = 1.0;
            (kept, factors) = (Kept::make(lp, rows)?, factors + 1);
        }
    }
    Ok((kept, factors))
}

/// Weights of inequalities that cancel each other, with any weights of the equalities; none if the rows are independent.
fn dependence(kept: &Kept, draw: usize) -> Result<Option<Vec<f64>>> {
    let equalities = kept.lp.b_eq.len();
    let count = kept.rows.iter().filter(|w| **w > 0.0).count() + equalities;
    if kept.factor.regular() && count == kept.lp.n() {
        return Ok(None);
    }
    let seed = Seed::new(draw as u64);
    let drawn = |seed: Seed, count: usize| (0..count as u64).map(|j| seed.normal(j)).collect();
    let v_eq = drawn(seed.named("equalities"), equalities);
    let mut u = kept.idle(Multipliers { v: drawn(seed, kept.rows.len()), v_eq })?.v;
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
