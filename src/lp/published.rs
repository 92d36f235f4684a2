//! The solver as published, to reproduce what it does and where it fails.

use super::certificate::{Solution, Status};
use super::indicator;
use super::newton::{PenaltyNewton, StepRule};
use super::normal::{Normal, Shift};
use super::penalty::{Multipliers, PenaltyState, positive};
use super::program::Lp;
use super::scale::Scaled;
use super::solver::Solver;
use crate::error::Result;

/// One penalty with the constants of the authors' code: fixed ε, fixed δ, full steps, and z by a ridge solve.
///
/// ```text
/// y⁰ = (A₁ᵀA₁ + 10⁻³I)⁻¹A₁ᵀb₁,  A₁ the first n rows;   y ← y − (H + δI)⁻¹∇g;   z = (A_JᵀA_J + 10⁻²I)⁻¹A_Jᵀb_J
/// ```
/// The released code knows one program, the sum over pairs, in which every variable costs 1. One in which all cost the
/// same γ, as 1/N in [`Lp::auc`], is solved in its unit, with ε/γ; any other with ε as it is. Converges on AUC in three or
/// four steps, and a pair within ε of its margin comes out at half of what it should. In general it may cycle for ever, and
/// the ridge shrinks z by a hundredth, so that it is never `Optimal`. Checked by `tests/lp/published.rs`.
/// Book: `lp/newton.md#eq-lp-newton-auc`, `#eq-lp-newton-cycle`, `lp/penalties.md#eq-lp-loose-stop`,
/// `#eq-lp-auc-threshold`.
///
/// ```
/// use lastlayer::prelude::*;
/// // One pair, ranked wrongly by 1, at a margin of 1: the optimum is z = 2.
/// let found = Published::default().solve(&Lp::auc([0.0, 1.0], [1, 0], 1.0)?)?;
/// assert!((found.z[0] - 2.0 / 1.01).abs() < 1e-9); // shrunk by the ridge of the recovery
/// assert_eq!(found.status, lp::Status::Inexact);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Weight of the objective, where each variable costs 1.
    pub epsilon: f64,
    pub delta: f64,
    /// Multiple of the Newton direction.
    pub step: f64,
    pub steps: usize,
    /// Ridge of the starting point.
    pub start_ridge: f64,
    /// Ridge of the recovery of z.
    pub recovery_ridge: f64,
}

impl Default for Published {
    fn default() -> Published {
        let (start_ridge, recovery_ridge) = (1e-3, 1e-2);
        Published { epsilon: 1e-3, delta: 1e-4, step: 1.0, steps: 20, start_ridge, recovery_ridge }
    }
}

impl Solver for Published {
    type Problem = Lp;
    type State = PenaltyState;
    type Answer = Solution;

    fn init(&self, lp: &Lp) -> Result<PenaltyState> {
        lp.check()?;
        positive("start_ridge", self.start_ridge)?;
        let first: Vec<f64> = (0..lp.m()).map(|j| f64::from(u8::from(j < lp.n()))).collect();
        self.init_at(lp, &ridge(lp, &first, self.start_ridge)?)
    }

    fn step(&self, state: &mut PenaltyState) -> Result<()> {
        self.newton(&state.lp).step(state)
    }

    fn done(&self, state: &PenaltyState) -> bool {
        self.newton(&state.lp).done(state)
    }

    /// z from the rows whose multiplier is positive, with the certificate it deserves.
    fn finish(&self, state: &PenaltyState) -> Result<Solution> {
        positive("recovery_ridge", self.recovery_ridge)?;
        let lp = &*state.lp;
        let multipliers = state.iterate.multipliers(self.newton(lp).epsilon);
        let active: Vec<usize> = (0..lp.m()).filter(|j| multipliers.v[*j] > 0.0).collect();
        let z = ridge(lp, &indicator(&multipliers.v), self.recovery_ridge)?;
        let problem = Scaled::new(lp, false);
        let (y, dual) = problem.scaled(&z, &multipliers);
        let found = Solution::of(&problem, &y, &dual, Status::Inexact);
        let status = if found.certificate.holds(1e-9) { Status::Optimal } else { found.status };
        let degenerate = active.len() + lp.b_eq.len() != lp.n();
        Ok(Solution { status, degenerate, active, steps: state.steps, rounds: 1, ..found })
    }
}

impl Published {
    /// From another starting point.
    ///
    /// Fails: as [`init`](Solver::init), `Shape` unless the point has an entry per variable.
    pub fn init_at(&self, lp: &Lp, start: &[f64]) -> Result<PenaltyState> {
        self.newton(lp).init_at(lp, start)
    }

    fn newton(&self, lp: &Lp) -> PenaltyNewton {
        let (shift, rule) = (Shift::Always(self.delta), StepRule::Fixed(self.step));
        let epsilon = self.epsilon / price(lp);
        PenaltyNewton { epsilon, shift, rule, tolerance: 1e-10, max_steps: self.steps }
    }
}

/// What every variable costs, if all cost the same: the unit in which the released code has c = 1. Else 1.
fn price(lp: &Lp) -> f64 {
    match lp.c.first() {
        Some(first) if *first > 0.0 && lp.c.iter().all(|c| c == first) => *first,
        _ => 1.0,
    }
}

/// (A_JᵀA_J + A_eqᵀA_eq + δI)⁻¹ (A_Jᵀb_J + A_eqᵀb_eq), J given by weights.
fn ridge(lp: &Lp, weights: &[f64], delta: f64) -> Result<Vec<f64>> {
    let v = weights.iter().zip(&lp.b).map(|(w, b)| w * b).collect();
    let target = Multipliers { v, v_eq: lp.b_eq.clone() }.pull(lp);
    Normal::factor(lp, weights, Shift::Always(delta))?.solve(&target)
}
