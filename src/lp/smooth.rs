//! Newton's method without a line search that provably converges: on a smoothing of the penalty.

use std::f64::consts::PI;
use std::sync::Arc;

use super::newton::{Multipliers, PenaltyPoint, positive};
use super::normal::{Normal, Shift};
use super::program::{Lp, difference, largest, length, product};
use crate::error::{Error, Result, ensure_shape};

/// Newton's method on the softened penalty, with a step length known in advance.
///
/// ```text
/// g(y) = Σ p(A y − b) + ½|A_eq y − b_eq|² + ε cᵀy + (δ/2)|y|²,     p'' = σ(κr),   p' = ln(1 + e^{κr})/κ
/// d = −H⁻¹∇g,   x = κ max_j |a_jᵀd|,   t = ln(1 + x)/x,   y ← y + t d
/// g falls by at least (dᵀHd / x²)((1 + x) ln(1 + x) − x)
/// ```
/// The penalty itself is not self-concordant, and the smoothing is so only with a constant too large to use; but
/// |p'''| ≤ κ p'' (quasi-self-concordance) bounds H along a line by e^{κ|a_jᵀd|t}, and t minimises the bound. t → 1 near the minimum, where convergence is quadratic.
/// Book: `lp/concordance.md#eq-lp-qsc-step`. Checked by `tests/lp/smooth.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// let newton = SmoothNewton { delta: 1e-6, ..SmoothNewton::default() };
/// let point = newton.minimise(&program, &[0.0])?;
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

/// Where the method is.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-1.0], &[1.0])?; // min z, z ≥ 1
/// let newton = SmoothNewton::default();
/// let start = newton.init(&program, &[0.0])?;
/// let next = newton.step(&start)?;
/// assert!(next.t < 1.0); // a short step, far from the minimum
/// assert!(start.penalty - next.penalty >= next.promised);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SmoothState {
    lp: Arc<Lp>,
    pub y: Vec<f64>,
    /// g(y).
    pub penalty: f64,
    /// |∇g(y)|.
    pub gradient: f64,
    pub steps: usize,
    /// Length of the last step.
    pub t: f64,
    /// What the theorem says g fell by in the last step, at least.
    pub promised: f64,
    pub converged: bool,
}

impl SmoothNewton {
    /// From a starting point (n).
    ///
    /// Fails: as [`Lp::check`], `Shape` unless the point has an entry per variable, `Config` for settings out of range.
    pub fn init(&self, lp: &Lp, start: &[f64]) -> Result<SmoothState> {
        lp.check()?;
        ensure_shape("starting point", lp.n(), start.len())?;
        positive("epsilon", self.epsilon)?;
        positive("sharpness", self.sharpness)?;
        positive("delta", self.delta)?;
        positive("tolerance", self.tolerance)?;
        if start.iter().any(|v| !v.is_finite()) {
            return Err(Error::data("starting point", "an entry is not finite; start from zeros"));
        }
        let (lp, y) = (Arc::new(lp.clone()), start.to_vec());
        let (penalty, gradient, t, promised) = (0.0, 0.0, 0.0, 0.0);
        let mut state = SmoothState { lp, y, penalty, gradient, steps: 0, t, promised, converged: false };
        self.look(&mut state);
        Ok(state)
    }

    /// One step; the same state again if there is nothing left to do.
    ///
    /// Fails: `Solve` if the Hessian cannot be factored.
    /// Book: `lp/concordance.md#eq-lp-qsc-step`, `#eq-lp-qsc-gain`, `#eq-lp-qsc-local`.
    pub fn step(&self, state: &SmoothState) -> Result<SmoothState> {
        let mut next = state.clone();
        if !self.done(&next) {
            self.advance(&mut next)?;
        }
        Ok(next)
    }

    /// Whether it converged or took all its steps.
    pub fn done(&self, state: &SmoothState) -> bool {
        state.converged || state.steps >= self.max_steps
    }

    /// The point with its multipliers p'(A y − b) / ε.
    ///
    /// Book: `lp/concordance.md#eq-lp-soft-dual`.
    pub fn finish(&self, state: &SmoothState) -> PenaltyPoint {
        let (r, r_eq) = residuals(&state.lp, &state.y);
        PenaltyPoint {
            v: r.iter().map(|r| softened_slope(*r, self.sharpness) / self.epsilon).collect(),
            v_eq: r_eq.iter().map(|r| r / self.epsilon).collect(),
            y: state.y.clone(),
            epsilon: self.epsilon,
            value: state.penalty / self.epsilon,
            gradient: state.gradient,
            steps: state.steps,
            converged: state.converged,
            kept: None,
        }
    }

    /// All steps from a starting point.
    ///
    /// Fails: as [`init`](SmoothNewton::init) and [`step`](SmoothNewton::step).
    /// Book: `lp/concordance.md#eq-lp-qsc-bound`, `#eq-lp-qsc-counts`.
    pub fn minimise(&self, lp: &Lp, start: &[f64]) -> Result<PenaltyPoint> {
        let mut state = self.init(lp, start)?;
        while !self.done(&state) {
            self.advance(&mut state)?;
        }
        Ok(self.finish(&state))
    }

    fn advance(&self, state: &mut SmoothState) -> Result<()> {
        let lp = state.lp.clone();
        let (r, _) = residuals(&lp, &state.y);
        let slope = self.slope(&lp, &state.y);
        let weights: Vec<f64> = r.iter().map(|r| softened(*r, self.sharpness)).collect();
        let d = Normal::factor(&lp, &weights, Shift::Always(self.delta))?.solve(&slope)?;
        let x = self.sharpness * largest(&lp.A.times(&d));
        let decrement = product(&d, &slope);
        (state.t, state.promised) = match x {
            // The limits for a direction that no row sees.
            x if x < 1e-6 => (1.0 - 0.5 * x, 0.5 * decrement * (1.0 - x / 3.0)),
            x => (x.ln_1p() / x, decrement / (x * x) * ((1.0 + x) * x.ln_1p() - x)),
        };
        state.y.iter_mut().zip(&d).for_each(|(y, d)| *y -= state.t * d);
        state.steps += 1;
        self.look(state);
        Ok(())
    }

    fn slope(&self, lp: &Lp, y: &[f64]) -> Vec<f64> {
        let (r, v_eq) = residuals(lp, y);
        let v = r.iter().map(|r| softened_slope(*r, self.sharpness)).collect();
        let mut slope = Multipliers { v, v_eq }.pull(lp);
        let terms = slope.iter_mut().zip(&lp.c).zip(y);
        terms.for_each(|((g, c), y)| *g += self.epsilon * c + self.delta * y);
        slope
    }

    fn look(&self, state: &mut SmoothState) {
        let (lp, y) = (&state.lp, &state.y);
        let (r, r_eq) = residuals(lp, y);
        let soft: f64 = r.iter().map(|r| softened_value(*r, self.sharpness)).sum();
        let quadratic = 0.5 * (product(&r_eq, &r_eq) + self.delta * product(y, y));
        state.penalty = soft + quadratic + self.epsilon * product(&lp.c, y);
        state.gradient = length(&self.slope(lp, y));
        state.converged = state.gradient <= self.tolerance * self.epsilon * length(&lp.c);
    }
}

impl SmoothState {
    /// Shows where it is.
    pub fn evcxr_display(&self) {
        let (steps, penalty, gradient, t) = (self.steps, self.penalty, self.gradient, self.t);
        let text = format!("step {steps}: y {:?}, g {penalty:.6e}, |∇g| {gradient:.1e}, t {t:.3}", self.y);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

fn residuals(lp: &Lp, y: &[f64]) -> (Vec<f64>, Vec<f64>) {
    (difference(lp.A.times(y), &lp.b), difference(lp.A_eq.times(y), &lp.b_eq))
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
