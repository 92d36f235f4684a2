//! What to say of a program that was not solved: a second program decides.

use std::sync::Arc;

use ndarray::{Array2, Axis, concatenate};

use super::augmented::{End, LpState, NewtonLp, Outer};
use super::certificate::{Ray, Solution, Status, descent};
use super::matrix::Matrix;
use super::program::Lp;
use super::scale::Scaled;
use super::structured::{Row, Structured};
use crate::error::{Error, Result};

impl NewtonLp {
    /// Decides between infeasible, unbounded and inexact: one program for a feasible point, and one for a ray unless it is
    /// given.
    pub(super) fn classify(&self, state: &LpState, ray: Option<&[f64]>) -> Result<Solution> {
        let point = self.feasible(state)?;
        let so_far = LpState { steps: point.steps, ..state.clone() };
        if let Some(End::Infeasible(proof)) = &point.end {
            let ray = Some(state.problem.farkas(proof));
            return Ok(Solution { ray, ..so_far.solution(Status::Infeasible) });
        }
        if point.end != Some(End::Optimal) {
            return Ok(so_far.solution(Status::Inexact));
        }
        let (d, steps) = match ray {
            Some(d) => (Some(d.to_vec()), point.steps),
            None => self.steepest_ray(&state.problem.lp, point.steps)?,
        };
        let Some(d) = d else { return Ok(LpState { steps, ..so_far }.solution(Status::Inexact)) };
        let ray = Some(Ray::Descent { d: state.problem.direction(&d) });
        // Unbounded needs a feasible point besides the ray.
        Ok(Solution { ray, ..LpState { y: point.y, steps, ..so_far }.solution(Status::Unbounded) })
    }

    /// The same rows without an objective: ends at a feasible point or at a Farkas ray.
    fn feasible(&self, state: &LpState) -> Result<LpState> {
        let solver = NewtonLp { outer: Outer::Augmented, ..self.clone() };
        let problem = Arc::new(state.problem.without_objective());
        let mut point = solver.start(problem.clone(), state.y.clone());
        point.steps = state.steps;
        solver.run(&mut point)?;
        if point.end == Some(End::Stuck) {
            // Far out, rounding hides the way back.
            let steps = point.steps;
            point = solver.start(problem, vec![0.0; state.y.len()]);
            point.steps = steps;
            solver.run(&mut point)?;
        }
        Ok(point)
    }

    /// The direction in the unit box along which the objective falls most, if it falls for ever; and the steps with those
    /// so far.
    ///
    /// ```text
    /// min cᵀd   subject to   A d ≤ 0,   A_eq d = 0,   −1 ≤ d ≤ 1            feasible and bounded
    /// ```
    fn steepest_ray(&self, lp: &Lp, steps: usize) -> Result<(Option<Vec<f64>>, usize)> {
        let n = lp.n();
        let b: Vec<f64> = std::iter::repeat_n(0.0, lp.m()).chain(std::iter::repeat_n(1.0, 2 * n)).collect();
        let (A_eq, b_eq) = (lp.A_eq.clone(), vec![0.0; lp.b_eq.len()]);
        let cone = Lp { A: with_box(&lp.A)?, b, c: lp.c.clone(), A_eq, b_eq };
        let solver = NewtonLp { outer: Outer::Augmented, ..self.clone() };
        let mut state = solver.start(Arc::new(Scaled::new(&cone, false)), vec![0.0; n]);
        state.steps = steps;
        solver.run(&mut state)?;
        let found = state.end == Some(End::Optimal);
        Ok((if found { descent(lp, &state.z()) } else { None }, state.steps))
    }
}

/// The matrix with rows I and −I below it.
fn with_box(a: &Matrix) -> Result<Matrix> {
    let n = a.columns();
    match a {
        Matrix::Dense(a) => {
            let (up, down) = (Array2::<f64>::eye(n), -Array2::<f64>::eye(n));
            let rows = concatenate(Axis(0), &[a.view(), up.view(), down.view()]);
            Ok(Matrix::Dense(rows.map_err(|e| Error::shape("rows of a box", "n columns", e))?))
        }
        Matrix::Structured(a) => {
            let r = a.shared.len();
            let given = (0..a.rows()).map(|i| match a.full.iter().find(|(at, _)| *at == i) {
                Some((_, row)) => Row::Full(row.clone()),
                None => Row::Thin {
                    own: Some(a.own[i]).filter(|(_, v)| *v != 0.0),
                    shared: a.on_shared[i * r..(i + 1) * r].to_vec(),
                },
            });
            let bound = |j: usize, sign: f64| match a.shared.iter().position(|column| *column == j) {
                Some(p) => {
                    Row::Thin { own: None, shared: (0..r).map(|q| if p == q { sign } else { 0.0 }).collect() }
                }
                None => Row::Thin { own: Some((j, sign)), shared: vec![0.0; r] },
            };
            let rows =
                given.chain((0..n).map(|j| bound(j, 1.0))).chain((0..n).map(|j| bound(j, -1.0))).collect();
            Ok(Matrix::Structured(Structured::new(n, a.shared.clone(), rows)?))
        }
    }
}
