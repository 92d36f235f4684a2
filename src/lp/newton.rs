//! Newton's method on the exterior penalty of a linear program, one step at a time.

use super::indicator;
use super::line_search::Reach;
use super::normal::{Hessian, Normal, Shift};
use super::penalty::{Iterate, Multipliers, PenaltyPoint, PenaltyState, positive};
use super::program::Lp;
use super::solver::Solver;
use crate::error::Result;

/// How far along the Newton direction a step goes.
///
/// Book: `lp/newton.md#eq-lp-newton-cycle`, `#eq-lp-newton-short-cycle`.
///
/// ```
/// use lastlayer::lp::StepRule;
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// for rule in [StepRule::LineSearch, StepRule::Fixed(1.0)] {
///     let point = PenaltyNewton { rule, ..PenaltyNewton::default() }.solve(&program)?;
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
/// Starts from zero, or with `init_at` from any point. At the minimum, v = (A y − b)₊ / ε is feasible for the dual,
/// whatever ε; below some ε̄ it is the shortest optimal one. With the exact line search g falls in every step and the
/// method ends after finitely many; with fixed steps neither is true. Differs: the paper prints the direction with the
/// wrong sign, and v with a factor Aᵀ too many. Cost: one factor of H and a sort a step. Checked by `tests/lp/newton.rs`.
/// Book: `lp/penalties.md#eq-lp-penalty`, `lp/newton.md#eq-lp-newton-step`, `#eq-lp-newton-decrease`,
/// `#eq-lp-newton-finite`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// let newton = PenaltyNewton { epsilon: 0.1, ..PenaltyNewton::default() };
/// let point = newton.solve(&program)?;
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

impl Solver for PenaltyNewton {
    type Problem = Lp;
    type State = PenaltyState;
    type Answer = PenaltyPoint;

    fn init(&self, lp: &Lp) -> Result<PenaltyState> {
        self.init_at(lp, &vec![0.0; lp.n()])
    }

    fn step(&self, state: &mut PenaltyState) -> Result<()> {
        if self.done(state) {
            return Ok(());
        }
        let violated = indicator(&state.iterate.r);
        let factor = Normal::factor(&state.lp, &violated, self.shift)?;
        let d = state.iterate.direction(&factor)?;
        // With a shift that was asked for it is not the Hessian's.
        state.hessian = (self.shift == Shift::IfSingular).then(|| Hessian::new(&state.lp, violated, factor));
        let reach = match self.rule {
            StepRule::Fixed(t) => Reach::At(t),
            StepRule::LineSearch => state.iterate.search(&state.lp, &d, self.epsilon),
        };
        match reach {
            Reach::Forever => state.ray = Some(d),
            Reach::At(t) => {
                state.advance(t, &d);
                self.evaluate(state);
            }
        }
        Ok(())
    }

    fn done(&self, state: &PenaltyState) -> bool {
        state.converged || state.ray.is_some() || state.steps >= self.max_steps
    }

    fn finish(&self, state: &PenaltyState) -> Result<PenaltyPoint> {
        Ok(state.point(self.epsilon, state.iterate.multipliers(self.epsilon)))
    }
}

impl PenaltyNewton {
    /// From a starting point (n).
    ///
    /// Fails: as [`init`](Solver::init), `Shape` unless the point has an entry per variable, `Data` unless all are finite.
    pub fn init_at(&self, lp: &Lp, start: &[f64]) -> Result<PenaltyState> {
        let mut state = PenaltyState::new(lp, start)?;
        positive("epsilon", self.epsilon)?;
        positive("tolerance", self.tolerance)?;
        if let StepRule::Fixed(t) = self.rule {
            positive("step", t)?;
        }
        if let Shift::Always(delta) = self.shift {
            positive("delta", delta)?;
        }
        self.evaluate(&mut state);
        Ok(state)
    }

    fn evaluate(&self, state: &mut PenaltyState) {
        let iterate = Iterate::at(&state.lp, &state.y, self.epsilon, &Multipliers::none(&state.lp));
        state.record(iterate, self.tolerance * self.epsilon);
    }
}
