//! What all solvers share: four verbs and one loop.

use crate::error::Result;

/// A solver, as settings that never change: what changes is its state, which whoever solves holds in their hands.
///
/// ```text
/// let mut state = solver.init(&lp)?;
/// while !solver.done(&state) { solver.step(&mut state)?; }         this is `run`
/// solver.finish(&state)?                                           and this is `solve`
/// ```
/// A state belongs to the settings that made it. A solver that can begin elsewhere has an `init_at` of its own, whose
/// state `run` takes as well.
/// Checked by `tests/lp/certificate.rs::driving_by_hand_is_the_same_as_solving`.
///
/// ```
/// use lastlayer::prelude::*;
/// /// Steps that any solver takes to its answer.
/// fn count<S: Solver<Problem = Lp>>(solver: &S, program: &Lp) -> Result<usize> {
///     let (mut state, mut steps) = (solver.init(program)?, 0);
///     while !solver.done(&state) {
///         solver.step(&mut state)?;
///         steps += 1;
///     }
///     Ok(steps)
/// }
/// let program = Lp::auc([0.0, 1.0], [1, 0], 0.5)?;
/// assert_eq!(count(&PenaltyNewton::default(), &program)?, 1);
/// assert!(count(&SmoothNewton::default(), &program)? > 1);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub trait Solver {
    /// What it solves.
    type Problem: ?Sized;
    type State;
    type Answer;

    /// Ready for the first step, where this solver begins.
    ///
    /// Fails: as [`Lp::check`](super::Lp::check), `Config` for settings out of range.
    fn init(&self, problem: &Self::Problem) -> Result<Self::State>;

    /// One step; nothing if there is nothing left to do.
    ///
    /// Fails: `Solve` if a system cannot be solved.
    fn step(&self, state: &mut Self::State) -> Result<()>;

    /// Whether there is an answer, or all steps are used up.
    fn done(&self, state: &Self::State) -> bool;

    /// The answer so far, which says how good it is.
    ///
    /// Fails: `Solve` if a system cannot be solved.
    fn finish(&self, state: &Self::State) -> Result<Self::Answer>;

    /// All steps that are left: the only loop.
    ///
    /// Fails: as [`step`](Solver::step).
    fn run(&self, state: &mut Self::State) -> Result<()> {
        while !self.done(state) {
            self.step(state)?;
        }
        Ok(())
    }

    /// From the first step to the answer. That there is none, or that it stopped early, is an answer and no failure.
    ///
    /// Fails: as [`init`](Solver::init), [`step`](Solver::step) and [`finish`](Solver::finish).
    fn solve(&self, problem: &Self::Problem) -> Result<Self::Answer> {
        let mut state = self.init(problem)?;
        self.run(&mut state)?;
        self.finish(&state)
    }
}
