//! Newton's method without a line search that provably converges: on a smoothing of the penalty.

use std::f64::consts::PI;

use super::normal::{Normal, Shift};
use super::penalty::{Iterate, Multipliers, PenaltyPoint, PenaltyState, positive, residuals};
use super::program::{Lp, largest, length, product};
use super::solver::Solver;
use crate::error::Result;

/// Newton's method on the softened penalty, with a step length known in advance.
///
/// ```text
/// g(y) = Σ p(A y − b) + ½|A_eq y − b_eq|² + ε cᵀy + (δ/2)|y|²,     p'' = σ(κr),   p' = ln(1 + e^{κr})/κ
/// d = −H⁻¹∇g,   x = κ max_j |a_jᵀd|,   t = ln(1 + x)/x,   y ← y + t d
/// g falls by at least (dᵀHd / x²)((1 + x) ln(1 + x) − x)
/// ```
/// The penalty itself is not self-concordant, and the smoothing is so only with a constant too large to use; but
/// |p'''| ≤ κ p'' (quasi-self-concordance) bounds H along a line by e^{κ|a_jᵀd|t}, and t minimises the bound. t → 1 near
/// the minimum, where convergence is quadratic. Starts from zero, or with `init_at` from any point; the multipliers of
/// the answer are p'(A y − b) / ε. Checked by `tests/lp/smooth.rs`.
/// Book: `lp/concordance.md#eq-lp-qsc-step`, `#eq-lp-qsc-gain`, `#eq-lp-qsc-local`, `#eq-lp-qsc-bound`,
/// `#eq-lp-qsc-counts`, `#eq-lp-soft-dual`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// let newton = SmoothNewton { delta: 1e-6, ..SmoothNewton::default() };
/// let mut state = newton.init(&program)?;
/// let start = state.penalty;
/// newton.step(&mut state)?;
/// assert!(state.t < 1.0); // a short step, far from the minimum
/// assert!(start - state.penalty >= state.promised);
/// let point = newton.solve(&program)?;
/// assert!(point.converged);
/// // Where the softened slope is ε: y = 1 − ln(e^{κε} − 1)/κ, up to δ.
/// let expected = 1.0 - (1f64.exp() - 1.0).ln() / 100.0;
/// assert!((point.y[0] - expected).abs() < 1e-4);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SmoothNewton {
    pub epsilon: f64,
    /// Sharpness κ of the softened step.
    pub sharpness: f64,
    /// Ridge δ, part of the function: without it there may be no minimum.
    pub delta: f64,
    /// Converged if |∇g| is at most this times ε|c|.
    pub tolerance: f64,
    pub max_steps: usize,
}

impl Default for SmoothNewton {
    fn default() -> SmoothNewton {
        SmoothNewton { epsilon: 1e-2, sharpness: 100.0, delta: 1e-4, tolerance: 1e-9, max_steps: 10_000 }
    }
}

impl Solver for SmoothNewton {
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
        let Iterate { r, gradient, .. } = &state.iterate;
        let weights: Vec<f64> = r.iter().map(|r| softened(*r, self.sharpness)).collect();
        let factor = Normal::factor(&state.lp, &weights, Shift::Always(self.delta))?;
        let d = state.iterate.direction(&factor)?;
        let x = self.sharpness * largest(&state.lp.A.times(&d));
        let decrement = -product(&d, gradient);
        let (t, promised) = match x {
            // The limits for a direction that no row sees.
            x if x < 1e-6 => (1.0 - 0.5 * x, 0.5 * decrement * (1.0 - x / 3.0)),
            x => (x.ln_1p() / x, decrement / (x * x) * ((1.0 + x) * x.ln_1p() - x)),
        };
        state.advance(t, &d);
        state.promised = promised;
        self.evaluate(state);
        Ok(())
    }

    fn done(&self, state: &PenaltyState) -> bool {
        state.converged || state.steps >= self.max_steps
    }

    fn finish(&self, state: &PenaltyState) -> Result<PenaltyPoint> {
        let Iterate { r, r_eq, .. } = &state.iterate;
        let v = r.iter().map(|r| softened_slope(*r, self.sharpness) / self.epsilon).collect();
        Ok(state
            .point(self.epsilon, Multipliers { v, v_eq: r_eq.iter().map(|r| r / self.epsilon).collect() }))
    }
}

impl SmoothNewton {
    /// From a starting point (n).
    ///
    /// Fails: as [`init`](Solver::init), `Shape` unless the point has an entry per variable, `Data` unless all are finite.
    pub fn init_at(&self, lp: &Lp, start: &[f64]) -> Result<PenaltyState> {
        let mut state = PenaltyState::new(lp, start)?;
        positive("epsilon", self.epsilon)?;
        positive("sharpness", self.sharpness)?;
        positive("delta", self.delta)?;
        positive("tolerance", self.tolerance)?;
        self.evaluate(&mut state);
        Ok(state)
    }

    fn evaluate(&self, state: &mut PenaltyState) {
        let (lp, y) = (&state.lp, &state.y);
        let (r, r_eq) = residuals(lp, y);
        let v = r.iter().map(|r| softened_slope(*r, self.sharpness)).collect();
        let mut gradient = Multipliers { v, v_eq: r_eq.clone() }.pull(lp);
        let terms = gradient.iter_mut().zip(&lp.c).zip(y);
        terms.for_each(|((g, c), y)| *g += self.epsilon * c + self.delta * y);
        let soft: f64 = r.iter().map(|r| softened_value(*r, self.sharpness)).sum();
        let quadratic = 0.5 * (product(&r_eq, &r_eq) + self.delta * product(y, y));
        let penalty = soft + quadratic + self.epsilon * product(&lp.c, y);
        let iterate = Iterate { size: length(&gradient), r, r_eq, gradient, floor: 0.0, penalty };
        state.record(iterate, self.tolerance * self.epsilon);
    }
}

/// p''(r) = σ(κr), which takes the place of the step.
///
/// Book: `lp/concordance.md#eq-lp-qsc`.
///
/// ```
/// use lastlayer::lp::softened;
/// assert_eq!(softened(0.0, 10.0), 0.5);
/// assert!((softened(1.0, 100.0) - 1.0).abs() < 1e-12 && softened(-1.0, 100.0) < 1e-12);
/// ```
pub fn softened(r: f64, sharpness: f64) -> f64 {
    let e = (-(sharpness * r).abs()).exp();
    if r >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}

/// p'(r) = ln(1 + e^{κr}) / κ, which takes the place of the positive part.
///
/// Book: `lp/concordance.md#eq-lp-soft`.
///
/// ```
/// use lastlayer::lp::softened_slope;
/// assert!((softened_slope(0.0, 10.0) - 2f64.ln() / 10.0).abs() < 1e-15);
/// assert_eq!(softened_slope(3.0, 100.0), 3.0); // far from the kink it is the positive part
/// ```
pub fn softened_slope(r: f64, sharpness: f64) -> f64 {
    r.max(0.0) + (-(sharpness * r).abs()).exp().ln_1p() / sharpness
}

/// p(r) = −Li₂(−e^{κr}) / κ², which takes the place of ½ r₊² and is above it by at most π²/(6κ²).
///
/// For u > 0, Li₂(−e^u) = −π²/6 − u²/2 − Li₂(−e^{−u}). Checked by `tests/lp/smooth.rs`.
/// Book: `lp/concordance.md#eq-lp-soft`.
///
/// ```
/// use lastlayer::lp::softened_value;
/// let largest = std::f64::consts::PI.powi(2) / (6.0 * 100.0);
/// assert!((softened_value(0.0, 10.0) - largest / 2.0).abs() < 1e-12);
/// assert!((softened_value(3.0, 10.0) - 4.5 - largest).abs() < 1e-12); // ½ r² and a little
/// ```
pub fn softened_value(r: f64, sharpness: f64) -> f64 {
    let u = sharpness * r;
    let below = negative_dilogarithm((-u.abs()).exp());
    let value = if u > 0.0 { PI * PI / 6.0 + 0.5 * u * u - below } else { below };
    value / (sharpness * sharpness)
}

/// −Li₂(−e) for e in [0, 1], by Landen's identity and a series whose terms fall by half or more.
fn negative_dilogarithm(e: f64) -> f64 {
    // −Li₂(−e) = Li₂(w) + ½ ln²(1 + e),   w = e / (1 + e) ≤ ½
    let w = e / (1.0 + e);
    let (mut sum, mut power) = (0.0, 1.0);
    for k in 1..=60 {
        power *= w;
        sum += power / f64::from(k * k);
    }
    let log = e.ln_1p();
    sum + 0.5 * log * log
}
