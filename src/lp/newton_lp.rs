//! The solver to use: exact optima from penalties, by moving the bounds.

use std::sync::Arc;

use super::certificate::{Certificate, Ray, Solution, Status, descent, farkas};
use super::indicator;
use super::line_search::Reach;
use super::normal::Hessian;
use super::penalty::{Iterate, Multipliers, positive};
use super::program::{Lp, difference, largest, length};
use super::scale::Scaled;
use super::solver::Solver;
use super::vertex::{projection, vertex};
use crate::error::{Result, ensure_shape};

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
/// // From there to the optimum of a program a little different.
/// let near = Lp { b: vec![-1.1], ..program };
/// let mut state = newton.init_at(&near, &found)?;
/// newton.run(&mut state)?;
/// assert!((newton.finish(&state)?.value - 1.1).abs() < 1e-9);
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
///     newton.step(&mut state)?;
/// }
/// assert!(state.steps() > 0 && state.certificate().holds(1e-9));
/// assert!((state.v()[0] - 1.0).abs() < 1e-8);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LpState {
    problem: Arc<Scaled>,
    y: Vec<f64>,
    /// Those that move the bounds; zero in the loop over ε.
    multipliers: Multipliers,
    /// The last estimate of the dual.
    dual: Multipliers,
    outer: Outer,
    epsilon: f64,
    steps: usize,
    rounds: usize,
    /// Newton steps since ε or v changed.
    inner: usize,
    /// Whether the last step was lost in the rounding of y.
    settled: bool,
    /// Violation after the round before.
    violation: f64,
    /// The minimum for the last ε, to extrapolate from.
    previous: Option<(f64, Vec<f64>)>,
    /// The penalty where the last step ended.
    iterate: Option<Iterate>,
    /// Of the last step.
    hessian: Option<Arc<Hessian>>,
    end: Option<End>,
}

/// Why the solver stopped.
#[derive(Clone, Debug, PartialEq)]
enum End {
    Optimal,
    Infeasible(Multipliers),
    Descent(Vec<f64>),
    Stuck,
}

/// Newton's method goes this far below the tolerance, so that its error never decides.
const INSIDE: f64 = 1e-3;

/// The augmented Lagrangian does not take ε below this: rounding would drown the objective.
const LEAST_AUGMENTED: f64 = 1e-6;

/// Nor does the loop over ε take it below this.
const LEAST_EPSILON: f64 = 1e-10;

impl Solver for NewtonLp {
    type Problem = Lp;
    type State = LpState;
    type Answer = Solution;

    /// At zero.
    fn init(&self, lp: &Lp) -> Result<LpState> {
        lp.check()?;
        positive("epsilon", self.epsilon)?;
        positive("tolerance", self.tolerance)?;
        Ok(self.start(Arc::new(Scaled::new(lp, self.detect)), vec![0.0; lp.n()]))
    }

    /// One Newton step, after the rounds that end where it begins; a round that ends with it, if that is the last.
    fn step(&self, state: &mut LpState) -> Result<()> {
        while !self.done(state) {
            let iterate = state.iterate.take().unwrap_or_else(|| state.evaluate());
            let minimal = iterate.size <= self.imbalance(state, INSIDE).max(iterate.floor);
            if std::mem::take(&mut state.settled) || minimal {
                match state.outer {
                    Outer::Augmented => self.augmented_round(state, &iterate),
                    Outer::Epsilon => self.epsilon_round(state, &iterate)?,
                }
            } else if state.inner >= self.max_steps {
                self.give_up(state);
            } else {
                return self.newton_step(state, &iterate);
            }
        }
        Ok(())
    }

    fn done(&self, state: &LpState) -> bool {
        state.end.is_some()
    }

    /// The answer with its certificate; `Inexact` before the end.
    fn finish(&self, state: &LpState) -> Result<Solution> {
        match &state.end {
            None => Ok(state.solution(Status::Inexact)),
            Some(End::Optimal) => {
                let found = state.solution(Status::Optimal);
                let hessian = vertex(&state.problem.lp, &state.y, &found.active, &state.hessian);
                Ok(Solution { degenerate: hessian.is_none(), hessian, ..found })
            }
            Some(End::Infeasible(proof)) => {
                let ray = Some(state.problem.farkas(proof));
                Ok(Solution { ray, ..state.solution(Status::Infeasible) })
            }
            Some(End::Descent(d)) => self.classify(state, Some(d)),
            Some(End::Stuck) => self.classify(state, None),
        }
    }
}

impl NewtonLp {
    /// From the solution of a program like this one.
    ///
    /// Fails: as [`init`](Solver::init), `Shape` unless the solution has an entry per variable and per row.
    pub fn init_at(&self, lp: &Lp, start: &Solution) -> Result<LpState> {
        let mut state = self.init(lp)?;
        ensure_shape("starting point", lp.n(), start.z.len())?;
        ensure_shape("starting multipliers", lp.m(), start.v.len())?;
        ensure_shape("starting multipliers of equalities", lp.b_eq.len(), start.v_eq.len())?;
        let given = Multipliers { v: start.v.clone(), v_eq: start.v_eq.clone() };
        let (y, multipliers) = state.problem.scaled(&start.z, &given);
        if y.iter().chain(&multipliers.v).chain(&multipliers.v_eq).all(|v| v.is_finite()) {
            (state.y, state.multipliers) = (y, multipliers);
        }
        Ok(state)
    }

    fn start(&self, problem: Arc<Scaled>, y: Vec<f64>) -> LpState {
        let none = Multipliers::none(&problem.lp);
        let end = problem.contradiction().map(End::Infeasible);
        LpState {
            y,
            multipliers: none.clone(),
            dual: none,
            outer: self.outer,
            epsilon: self.epsilon,
            steps: 0,
            rounds: 0,
            inner: 0,
            settled: false,
            violation: f64::INFINITY,
            previous: None,
            iterate: None,
            hessian: None,
            end,
            problem,
        }
    }

    /// |∇g| at which the imbalance of the dual, which is |∇g| / ε, is this share of the tolerance.
    fn imbalance(&self, state: &LpState, share: f64) -> f64 {
        share * self.tolerance * state.epsilon * length(&state.problem.lp.c).max(1.0)
    }

    /// y ← y + t d, with d = −H⁻¹∇g and the t at which g is least.
    fn newton_step(&self, state: &mut LpState, iterate: &Iterate) -> Result<()> {
        let lp = state.problem.lp.clone();
        let hessian = Hessian::of(&lp, indicator(&iterate.r))?;
        let d = iterate.direction(&hessian.factor)?;
        // What no violated row sees of the direction may go on for ever.
        let null = if hessian.factor.regular() { None } else { Some(hessian.null_part(d.clone())?) };
        state.hessian = Some(hessian);
        if let Some(ray) = null.and_then(|d| descent(&lp, &d)) {
            state.end = Some(End::Descent(ray));
            return Ok(());
        }
        let Reach::At(t) = iterate.search(&lp, &d, state.epsilon) else {
            state.end = Some(descent(&lp, &d).map_or(End::Stuck, End::Descent));
            return Ok(());
        };
        state.y.iter_mut().zip(&d).for_each(|(y, d)| *y += t * d);
        (state.steps, state.inner) = (state.steps + 1, state.inner + 1);
        state.settled = t * largest(&d) <= f64::EPSILON * largest(&state.y);
        if state.outer == Outer::Augmented {
            self.certify(state);
        }
        Ok(())
    }

    /// Ends the round with the step that converged, so that the last step already shows the answer.
    fn certify(&self, state: &mut LpState) {
        let iterate = state.evaluate();
        // A larger gradient cannot pass.
        if iterate.size <= self.imbalance(state, 1.0) {
            let dual = iterate.multipliers(state.epsilon);
            if Certificate::of(&state.problem, &state.y, &dual).holds(self.tolerance) {
                (state.dual, state.end) = (dual, Some(End::Optimal));
            }
        }
        state.iterate = Some(iterate);
    }

    /// v ← (A y − b + εv)₊ / ε, and a smaller ε if the violation has not halved.
    fn augmented_round(&self, state: &mut LpState, iterate: &Iterate) {
        state.dual = iterate.multipliers(state.epsilon);
        (state.rounds, state.inner) = (state.rounds + 1, 0);
        let certificate = state.certificate();
        if certificate.holds(self.tolerance) {
            state.end = Some(End::Optimal);
            return;
        }
        // If rows contradict each other the multipliers grow for ever, and their growth is the proof.
        let growth = Multipliers {
            v: difference(state.dual.v.clone(), &state.multipliers.v),
            v_eq: difference(state.dual.v_eq.clone(), &state.multipliers.v_eq),
        };
        if let Some(proof) = farkas(&state.problem.lp, &growth) {
            state.end = Some(End::Infeasible(proof));
            return;
        }
        if certificate.primal > 0.5 * state.violation {
            state.epsilon = (0.1 * state.epsilon).max(LEAST_AUGMENTED.min(self.epsilon));
        }
        (state.violation, state.multipliers) = (certificate.primal, state.dual.clone());
        if state.rounds >= self.max_rounds {
            self.give_up(state);
        }
    }

    /// Tries to recover z from the minimum for this ε; a tenth of ε otherwise.
    ///
    /// ```text
    /// projection    z = y − pinv(A_J)(A_J y − b_J),   J = {v > 0} and all equalities
    /// Richardson    z = (ε₁ y₂ − ε₂ y₁) / (ε₁ − ε₂),  since y(ε) = z + εw once ε is small
    /// ```
    fn epsilon_round(&self, state: &mut LpState, iterate: &Iterate) -> Result<()> {
        let epsilon = state.epsilon;
        state.dual = iterate.multipliers(epsilon);
        (state.rounds, state.inner) = (state.rounds + 1, 0);
        let mut candidates = vec![projection(&state.problem.lp, &state.y, &state.dual)?];
        if let Some((before, y)) = &state.previous {
            let at_zero = |(a, b): (&f64, &f64)| (before * b - epsilon * a) / (before - epsilon);
            candidates.push(y.iter().zip(&state.y).map(at_zero).collect());
        }
        for z in candidates {
            if Certificate::of(&state.problem, &z, &state.dual).holds(self.tolerance) {
                (state.y, state.end) = (z, Some(End::Optimal));
                return Ok(());
            }
        }
        state.previous = Some((epsilon, state.y.clone()));
        state.epsilon *= 0.1;
        if state.epsilon < LEAST_EPSILON {
            state.end = Some(End::Stuck);
        }
        Ok(())
    }

    /// From the augmented Lagrangian to the loop over ε, and from there to the end.
    fn give_up(&self, state: &mut LpState) {
        match state.outer {
            Outer::Augmented => {
                (state.outer, state.inner) = (Outer::Epsilon, 0);
                (state.epsilon, state.multipliers) = (self.epsilon, Multipliers::none(&state.problem.lp));
            }
            Outer::Epsilon => state.end = Some(End::Stuck),
        }
    }

    /// Decides between infeasible, unbounded and inexact: one program for a feasible point, and one for a ray unless it is
    /// given.
    ///
    /// ```text
    /// min 0     subject to   A z ≤ b,   A_eq z = b_eq                    ends at a feasible point or at a Farkas ray
    /// min cᵀd   subject to   A d ≤ 0,   A_eq d = 0,   −1 ≤ d ≤ 1         feasible and bounded
    /// ```
    fn classify(&self, state: &LpState, ray: Option<&[f64]>) -> Result<Solution> {
        let (problem, lp) = (&state.problem, &state.problem.lp);
        let rows = Arc::new(problem.without_objective());
        let mut point = self.end_of(rows.clone(), state.y.clone(), state.steps)?;
        if point.end == Some(End::Stuck) {
            // Far out, rounding hides the way back.
            point = self.end_of(rows, vec![0.0; lp.n()], point.steps)?;
        }
        let mut last = LpState { steps: point.steps, ..state.clone() };
        if let Some(End::Infeasible(proof)) = &point.end {
            return Ok(Solution { ray: Some(problem.farkas(proof)), ..last.solution(Status::Infeasible) });
        }
        if point.end != Some(End::Optimal) {
            return Ok(last.solution(Status::Inexact));
        }
        let mut ray = ray.map(<[f64]>::to_vec);
        if ray.is_none() {
            let cone = Arc::new(Scaled::new(&lp.cone(), false));
            let steepest = self.end_of(cone, vec![0.0; lp.n()], last.steps)?;
            last.steps = steepest.steps;
            ray = Some(steepest.z()).filter(|_| steepest.end == Some(End::Optimal));
            ray = ray.and_then(|d| descent(lp, &d));
        }
        let Some(d) = ray else { return Ok(last.solution(Status::Inexact)) };
        // Unbounded needs a feasible point besides the ray.
        last.y = point.y;
        let ray = Some(Ray::Descent { d: problem.direction(&d) });
        Ok(Solution { ray, ..last.solution(Status::Unbounded) })
    }

    /// The last state of a program that decides, with the steps so far counted.
    fn end_of(&self, problem: Arc<Scaled>, y: Vec<f64>, steps: usize) -> Result<LpState> {
        let solver = NewtonLp { outer: Outer::Augmented, ..self.clone() };
        let mut state = LpState { steps, ..solver.start(problem, y) };
        solver.run(&mut state)?;
        Ok(state)
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

    fn evaluate(&self) -> Iterate {
        Iterate::at(&self.problem.lp, &self.y, self.epsilon, &self.multipliers)
    }

    fn solution(&self, status: Status) -> Solution {
        let found = Solution::of(&self.problem, &self.y, &self.dual, status);
        Solution { steps: self.steps, rounds: self.rounds, ..found }
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
