//! The solver to use: exact optima from penalties, by moving the bounds.

use std::sync::Arc;

use super::certificate::{Certificate, Solution, Status, descent, farkas};
use super::line_search::Reach;
use super::newton::{Here, Multipliers, positive};
use super::normal::Kept;
use super::program::{Lp, difference, largest, length};
use super::scale::Scaled;
use crate::error::Result;

/// What surrounds Newton's method.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::auc([0.0, 1.0], [1, 0], 0.5)?;
/// for outer in [lp::Outer::Augmented, lp::Outer::Epsilon] {
///     let found = NewtonLp { outer, ..NewtonLp::default() }.solve(&program)?;
///     assert!((found.optimal()?.value - 1.5).abs() < 1e-8);
/// }
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outer {
    /// Bounds moved by ε times the multipliers: the augmented Lagrangian. Falls back to the other.
    Augmented,
    /// Smaller and smaller ε, and z by projection onto the active rows.
    Epsilon,
}

/// Solver for linear programs: augmented Lagrangian outside, Newton's method with exact line search inside.
///
/// ```text
/// repeat   y ← argmin ½|(A y − b + εv)₊|² + ε cᵀy        Newton, from the last y
///          v ← (A y − b + εv)₊ / ε
/// until    the certificate holds at (y, v)
/// ```
/// This is the proximal-point method on the dual: it ends after finitely many rounds, for any ε, at an exact z and v.
/// Rows are brought to length one first. ε is divided by ten when a round does not halve the violation. What is not
/// optimal is proved infeasible or unbounded, or called inexact: the solver never claims more than its certificate
/// shows. Differs: the paper uses one penalty with a fixed ε and full steps; see [`Published`](super::Published). Cost:
/// about as many factors of an n × n matrix as there are Newton steps. Checked by `tests/lp/solve.rs`.
/// Book: `lp/penalties.md#eq-lp-outer`, `#eq-lp-outer-bound`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// let newton = NewtonLp::default();
/// let found = newton.solve(&program)?;
/// assert!((found.z[0] - 1.0).abs() < 1e-9 && (found.v[0] - 1.0).abs() < 1e-9);
/// // The same by hand, a step at a time.
/// let mut state = newton.init(&program)?;
/// while !newton.done(&state) {
///     state = newton.step(&state)?;
/// }
/// assert_eq!(newton.finish(&state)?, found);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NewtonLp {
    /// Penalty parameter to start from, in units in which bounds and objective have size one.
    pub epsilon: f64,
    /// What the certificate must reach.
    pub tolerance: f64,
    pub outer: Outer,
    /// Newton steps for one value of ε and v.
    pub max_steps: usize,
    pub max_rounds: usize,
    /// Whether to look for structure in a dense A.
    pub detect: bool,
}

impl Default for NewtonLp {
    fn default() -> NewtonLp {
        let (epsilon, tolerance, outer) = (1e-2, 1e-9, Outer::Augmented);
        NewtonLp { epsilon, tolerance, outer, max_steps: 300, max_rounds: 60, detect: true }
    }
}

/// Where the solver is. The point and the multipliers are in the units of the program it was given.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// let newton = NewtonLp::default();
/// let mut state = newton.init(&program)?;
/// assert_eq!((state.z(), state.steps()), (vec![0.0], 0));
/// assert!(!state.certificate().holds(1e-9));
/// while !newton.done(&state) {
///     state = newton.step(&state)?;
/// }
/// assert!(state.steps() > 0 && state.certificate().holds(1e-9));
/// assert!((state.v()[0] - 1.0).abs() < 1e-8);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LpState {
    pub(super) problem: Arc<Scaled>,
    pub(super) y: Vec<f64>,
    /// What moves the bounds; zero in the loop over ε.
    pub(super) moved: Multipliers,
    /// The last estimate of the dual.
    pub(super) dual: Multipliers,
    pub(super) outer: Outer,
    pub(super) epsilon: f64,
    pub(super) steps: usize,
    pub(super) rounds: usize,
    /// Newton steps since ε or v changed.
    pub(super) inner: usize,
    /// Whether the last step moved nothing.
    pub(super) still: bool,
    /// Violation after the round before.
    pub(super) violation: f64,
    /// The last two minima for other ε, to extrapolate from.
    pub(super) before: Option<(f64, Vec<f64>)>,
    /// The penalty at the point where the last step ended.
    pub(super) here: Option<Here>,
    /// The last Hessian's factor.
    pub(super) kept: Option<Arc<Kept>>,
    pub(super) end: Option<End>,
}

/// Why the solver stopped.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    Optimal,
    Infeasible(Multipliers),
    Descent(Vec<f64>),
    Stuck,
}

/// Newton's method goes this far below the tolerance, so that its error never decides.
pub(super) const INSIDE: f64 = 1e-3;

/// The penalty parameter of the augmented Lagrangian is not taken below this: rounding would drown the objective.
const LEAST_EPSILON: f64 = 1e-6;

/// A multiplier counts as positive above this share of the largest.
pub(super) const ACTIVE: f64 = 1e-7;

impl NewtonLp {
    /// Ready to start from zero.
    ///
    /// Fails: as [`Lp::check`], `Config` for settings out of range.
    pub fn init(&self, lp: &Lp) -> Result<LpState> {
        lp.check()?;
        positive("epsilon", self.epsilon)?;
        positive("tolerance", self.tolerance)?;
        Ok(self.start(Arc::new(Scaled::new(lp, self.detect)), vec![0.0; lp.n()]))
    }

    pub(super) fn start(&self, problem: Arc<Scaled>, y: Vec<f64>) -> LpState {
        let none = Multipliers::none(&problem.lp);
        let end = problem.contradiction().map(End::Infeasible);
        LpState {
            y,
            moved: none.clone(),
            dual: none,
            outer: self.outer,
            epsilon: self.epsilon,
            steps: 0,
            rounds: 0,
            inner: 0,
            still: false,
            violation: f64::INFINITY,
            before: None,
            here: None,
            kept: None,
            end,
            problem,
        }
    }

    /// One Newton step, with the rounds that end before it or with it; the same state again if there is nothing to do.
    ///
    /// Fails: `Solve` if the Hessian cannot be factored.
    pub fn step(&self, state: &LpState) -> Result<LpState> {
        let mut next = state.clone();
        self.advance(&mut next)?;
        Ok(next)
    }

    /// Whether an answer is proved or all rounds are used up.
    pub fn done(&self, state: &LpState) -> bool {
        state.end.is_some()
    }

    /// All steps from zero.
    ///
    /// Fails: as [`init`](NewtonLp::init) and [`step`](NewtonLp::step). That there is no optimum is an answer, not a
    /// failure: see [`Solution::optimal`].
    pub fn solve(&self, lp: &Lp) -> Result<Solution> {
        let mut state = self.init(lp)?;
        self.run(&mut state)?;
        self.finish(&state)
    }

    /// The same from a point that is near the optimum, such as the optimum of a program a little different.
    ///
    /// Fails: as [`solve`](NewtonLp::solve), `Shape` unless the point has an entry per variable.
    pub fn solve_from(&self, lp: &Lp, start: &Solution) -> Result<Solution> {
        let mut state = self.init(lp)?;
        state.warm(start)?;
        self.run(&mut state)?;
        self.finish(&state)
    }

    pub(super) fn run(&self, state: &mut LpState) -> Result<()> {
        while !self.done(state) {
            self.advance(state)?;
        }
        Ok(())
    }

    fn advance(&self, state: &mut LpState) -> Result<()> {
        while state.end.is_none() {
            let problem = state.problem.clone();
            let at = || Here::at(&problem.lp, &state.y, state.epsilon, &state.moved);
            let here = state.here.take().unwrap_or_else(at);
            let wanted = INSIDE * self.tolerance * state.epsilon * length(&problem.lp.c).max(1.0);
            if here.size <= wanted.max(here.floor) || state.still {
                match state.outer {
                    Outer::Augmented => self.augmented_round(state, &here),
                    Outer::Epsilon => self.epsilon_round(state, &here)?,
                }
                state.still = false;
                continue;
            }
            if state.inner >= self.max_steps {
                self.give_up(state);
                continue;
            }
            let hessian = Kept::make(&problem.lp, super::step(&here.r))?;
            let (d, lasting) = here.directions(&hessian)?;
            state.kept = Some(hessian);
            if let Some(d) = lasting.and_then(|d| descent(&problem.lp, &d)) {
                state.end = Some(End::Descent(d));
                return Ok(());
            }
            match here.search(&problem.lp, &d, state.epsilon) {
                Reach::Forever => {
                    state.end = Some(descent(&problem.lp, &d).map_or(End::Stuck, End::Descent));
                }
                Reach::At(t) => {
                    state.y.iter_mut().zip(&d).for_each(|(y, d)| *y += t * d);
                    (state.steps, state.inner) = (state.steps + 1, state.inner + 1);
                    if t * largest(&d) <= f64::EPSILON * largest(&state.y) {
                        // What is left of the gradient is rounding.
                        state.still = true;
                    }
                }
            }
            self.close(state);
            return Ok(());
        }
        Ok(())
    }

    /// Ends the round with the step that converged, so that the last step already shows the answer.
    fn close(&self, state: &mut LpState) {
        if state.end.is_some() || state.outer != Outer::Augmented {
            return;
        }
        let lp = &state.problem.lp;
        let here = Here::at(lp, &state.y, state.epsilon, &state.moved);
        // |∇g| / ε is the imbalance of the dual, so a larger gradient cannot pass.
        if here.size <= self.tolerance * state.epsilon * length(&lp.c).max(1.0) {
            let dual = here.multipliers(state.epsilon);
            if Certificate::of(&state.problem, &state.y, &dual).holds(self.tolerance) {
                state.dual = dual;
                state.end = Some(End::Optimal);
            }
        }
        state.here = Some(here);
    }

    fn augmented_round(&self, state: &mut LpState, here: &Here) {
        let problem = state.problem.clone();
        state.dual = here.multipliers(state.epsilon);
        (state.rounds, state.inner) = (state.rounds + 1, 0);
        let certificate = Certificate::of(&problem, &state.y, &state.dual);
        if certificate.holds(self.tolerance) {
            state.end = Some(End::Optimal);
            return;
        }
        // If rows contradict each other the multipliers grow for ever, and their growth is the proof.
        let growth = Multipliers {
            v: difference(state.dual.v.clone(), &state.moved.v),
            v_eq: difference(state.dual.v_eq.clone(), &state.moved.v_eq),
        };
        if let Some(proof) = farkas(&problem.lp, &growth) {
            state.end = Some(End::Infeasible(proof));
            return;
        }
        if certificate.primal > 0.5 * state.violation {
            state.epsilon = (0.1 * state.epsilon).max(LEAST_EPSILON.min(self.epsilon));
        }
        state.violation = certificate.primal;
        state.moved = state.dual.clone();
        if state.rounds >= self.max_rounds {
            self.give_up(state);
        }
    }

    /// From the augmented Lagrangian to the loop over ε, and from there to the end.
    fn give_up(&self, state: &mut LpState) {
        match state.outer {
            Outer::Augmented => {
                (state.outer, state.inner) = (Outer::Epsilon, 0);
                (state.epsilon, state.moved) = (self.epsilon, Multipliers::none(&state.problem.lp));
            }
            Outer::Epsilon => state.end = Some(End::Stuck),
        }
    }

    /// The answer with its certificate; `Inexact` before the end.
    ///
    /// Fails: `Solve` if a Hessian cannot be factored.
    pub fn finish(&self, state: &LpState) -> Result<Solution> {
        let problem = &state.problem;
        match &state.end {
            None => Ok(state.solution(Status::Inexact)),
            Some(End::Optimal) => {
                let mut solution = state.solution(Status::Optimal);
                solution.kept = state.vertex(&solution.active);
                solution.degenerate = solution.kept.is_none();
                Ok(solution)
            }
            Some(End::Infeasible(proof)) => {
                let ray = Some(problem.farkas(proof));
                Ok(Solution { ray, ..state.solution(Status::Infeasible) })
            }
            Some(End::Descent(d)) => self.classify(state, Some(d)),
            Some(End::Stuck) => self.classify(state, None),
        }
    }
}

impl LpState {
    /// The point, in the units of the program.
    pub fn z(&self) -> Vec<f64> {
        self.problem.z(&self.y)
    }

    /// The multipliers of the inequalities, in the units of the program.
    pub fn v(&self) -> Vec<f64> {
        self.problem.multipliers(&self.dual).v
    }

    /// The penalty parameter, in the solver's own units.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// Newton steps so far.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Rounds so far.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// How far point and multipliers are from optimal.
    pub fn certificate(&self) -> Certificate {
        Certificate::of(&self.problem, &self.y, &self.dual)
    }

    /// Starts from the solution of a program like this one.
    fn warm(&mut self, start: &Solution) -> Result<()> {
        let lp = &self.problem.lp;
        crate::error::ensure_shape("starting point", lp.n(), start.z.len())?;
        crate::error::ensure_shape("starting multipliers", lp.m(), start.v.len())?;
        crate::error::ensure_shape("starting multipliers of equalities", lp.b_eq.len(), start.v_eq.len())?;
        let given = Multipliers { v: start.v.clone(), v_eq: start.v_eq.clone() };
        let (y, moved) = self.problem.scaled(&start.z, &given);
        if y.iter().chain(&moved.v).chain(&moved.v_eq).all(|v| v.is_finite()) {
            (self.y, self.moved) = (y, moved);
        }
        Ok(())
    }

    pub(super) fn solution(&self, status: Status) -> Solution {
        let Multipliers { v, v_eq } = self.problem.multipliers(&self.dual);
        let least = ACTIVE * largest(&self.dual.v);
        let active = (0..v.len()).filter(|j| self.dual.v[*j] > least).collect();
        let z = self.z();
        let value = self.problem.value(&self.y);
        let (certificate, steps, rounds) = (self.certificate(), self.steps, self.rounds);
        Solution {
            status,
            degenerate: false,
            z,
            v,
            v_eq,
            active,
            value,
            certificate,
            ray: None,
            steps,
            rounds,
            kept: None,
        }
    }

    /// The factor of the rows with a positive multiplier, if they are exactly those that pin z down.
    fn vertex(&self, active: &[usize]) -> Option<Arc<Kept>> {
        let lp = &self.problem.lp;
        if active.len() + lp.b_eq.len() != lp.n() || touching(lp, &self.y).len() != active.len() {
            return None;
        }
        let rows = on(lp, active);
        let kept = self.kept.iter().find(|kept| kept.rows == rows).cloned();
        kept.or_else(|| Kept::make(lp, rows).ok()).filter(|kept| kept.factor.regular())
    }

    /// Shows where it is.
    pub fn evcxr_display(&self) {
        let Certificate { primal, dual, gap } = self.certificate();
        let text = format!(
            "{} Newton steps, {} rounds, ε {:.1e}: primal {primal:.1e}, dual {dual:.1e}, gap {gap:.1e}",
            self.steps, self.rounds, self.epsilon
        );
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// Inequalities that a point meets with equality.
pub(super) fn touching(lp: &Lp, y: &[f64]) -> Vec<usize> {
    let near = |(j, (a, b)): (usize, (f64, &f64))| {
        (a - b > -ACTIVE * (1.0 + b.abs()) && !lp.A.row_is_empty(j)).then_some(j)
    };
    lp.A.times(y).into_iter().zip(&lp.b).enumerate().filter_map(near).collect()
}

/// One at these inequalities, zero at others.
pub(super) fn on(lp: &Lp, rows: &[usize]) -> Vec<f64> {
    let mut weights = vec![0.0; lp.m()];
    rows.iter().for_each(|j| weights[*j] = 1.0);
    weights
}
