//! What a side of the line may follow.

use serde::{Deserialize, Serialize};

use super::game::Regret;
use super::problem::Sense;
use crate::error::{Error, Result};

/// What one side of the line follows in a step: see the table of [`RateTraining`](super::RateTraining).
///
/// Book: `rate/decoupled.md#eq-rate-four`, `#eq-rate-gap`, `#eq-rate-jacobian`.
///
/// ```
/// use lastlayer::prelude::*;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let one = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
/// let train = |goal: &RateProblem, bottom| RateTraining::new(&net, goal, bottom, Rule::Implicit);
/// assert!(train(&one, Rule::LogisticAbove).is_ok());
/// assert!(train(&one, Rule::Penalty(Penalty::Huber { weight: 20.0, width: 0.01 })).is_ok());
/// // With several thresholds there is no one to subtract.
/// let grid = RateProblem::partial_auc(0.0, 1.0, 5, Surrogate::sigmoid(2.0))?;
/// assert!(train(&grid, Rule::LogisticAbove).is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Rule {
    /// Nothing: it stays as it is.
    Nothing,
    /// The logistic loss of the score, plus a bias of its own that only losses at a fixed threshold train.
    Logistic,
    /// The logistic loss of the score above the threshold, which is taken as constant.
    LogisticAbove,
    /// The implicit gradient: thresholds move with the scores.
    Implicit,
    /// f + penalty(g) at the threshold of the policy, which is taken as constant.
    Penalty(Penalty),
    /// p₀ f + Σ p_k g_k with hinges at a threshold of zero, whose weights p another player sets with this learning rate. Both
    /// sides play or none.
    Game { regret: Regret, dual_lr: f64 },
}

/// What a violated constraint costs: the derivative of the penalty is the weight on ∂g.
///
/// Book: `rate/decoupled.md#eq-rate-exact`, `#eq-rate-adaptive`.
///
/// ```
/// use lastlayer::prelude::*;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
/// let second = |penalty| RateTraining::method2(&net, &goal, penalty);
/// assert!(second(Penalty::Huber { weight: 20.0, width: 0.01 }).is_ok());
/// assert!(second(Penalty::Absolute(-1.0)).is_err()); // would reward a violation
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Penalty {
    /// η |g|, the paper's. Exact if η exceeds the multiplier.
    Absolute(f64),
    /// η |g| with η = factor times a moving average of the multiplier, each bounded by the number of samples in the batch:
    /// one sample of a rate is then worth all of the objective. Sharp surrogates whose slopes underflow reach the bound.
    Adaptive { factor: f64 },
    /// η g²/2.
    Square(f64),
    /// η max(0, g) for a constraint g ≤ 0: only on the side that its [`Sense`](super::Sense) forbids.
    Hinge(f64),
    /// η |g| beyond `width`, a parabola within.
    Huber { weight: f64, width: f64 },
}

/// A violation below this is rounding of a threshold solved on the same scores; its sign means nothing.
const ROUNDING: f64 = 1e-9;

impl Rule {
    /// Whether it asks for thresholds that are solved for.
    pub(super) fn solves(self) -> bool {
        matches!(self, Rule::LogisticAbove | Rule::Implicit | Rule::Penalty(_))
    }

    pub(super) fn penalty(self) -> Option<Penalty> {
        if let Rule::Penalty(penalty) = self { Some(penalty) } else { None }
    }
}

impl Penalty {
    /// Weight on ∂g where the constraint has the value `g`; `multiplier` is its average so far.
    pub(super) fn weight(self, g: f64, sense: Sense, multiplier: f64) -> f64 {
        let sign = if g.abs() <= ROUNDING { 0.0 } else { g.signum() };
        match self {
            Penalty::Absolute(weight) => weight * sign,
            Penalty::Adaptive { factor } => factor * multiplier.abs() * sign,
            Penalty::Square(weight) => weight * g,
            Penalty::Hinge(weight) if sense.signs().contains(&sign) => weight * sign,
            Penalty::Hinge(_) => 0.0,
            Penalty::Huber { weight, width } => weight * (g / width).clamp(-1.0, 1.0),
        }
    }

    pub(super) fn check(self) -> Result<()> {
        let (weight, width) = match self {
            Penalty::Absolute(weight) | Penalty::Square(weight) | Penalty::Hinge(weight) => (weight, 1.0),
            Penalty::Adaptive { factor } => (factor, 1.0),
            Penalty::Huber { weight, width } => (weight, width),
        };
        if weight >= 0.0 && weight.is_finite() && width > 0.0 && width.is_finite() {
            return Ok(());
        }
        Err(Error::config("penalty", format!("{self:?}"), "a weight of 0 or more, and a positive width"))
    }
}
