//! Every method of the paper as steps of one trainer.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Tensor, Var};
use serde::{Deserialize, Serialize};

use super::game::{Game, Regret};
use super::labels::Labels;
use super::policy::{Memory, ThresholdPolicy, read, write};
use super::problem::{Adjoint, RateProblem, Sense};
use super::solve::Kind;
use super::surrogate::Surrogate;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::loss::{bce_logits, with_gradient};
use crate::model::{Decision, Pass, Predictor, SplitNet};
use crate::numbers::Numbers;
use crate::train::{Batch, Group, Step, Trainable};

/// How a network is trained for a rate problem. The line between features and head is where most of them differ.
///
/// | method | bottom follows | last layer follows |
/// |---|---|---|
/// | `CrossEntropy` | logistic loss | logistic loss |
/// | `Tfco` | p₀ f + Σ p_k g_k with hinges | the same |
/// | `Ico` | implicit gradient | implicit gradient |
/// | `Method1` | logistic loss | implicit gradient |
/// | `Method2` | f + η·∣g∣ at a stale threshold | implicit gradient |
/// | `Ablation` | f + η·∣g∣ at a stale threshold | the same, or the implicit gradient |
/// | `LastLayer` | nothing | implicit gradient |
///
/// Book: `rate/decoupled.md#eq-rate-four`, `#eq-rate-gap`.
///
/// ```
/// use lastlayer::prelude::*;
/// let seed = Seed::new(1);
/// let data = Gaussians::a().sample(100, seed, &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, seed, &Device::Cpu)?;
/// let before = net.copy()?;
/// let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
/// let training = RateTraining::new(&net, &goal, Method::LastLayer)?;
/// Trainer::adam(0.01).silent().fit(&training, &data, |b| training.step(b))?;
/// // The head has moved, the features have not.
/// let [now, then] = [&net, &before].map(|net| net.features_of(&data));
/// assert_eq!(now?.to_vec2::<f32>()?, then?.to_vec2::<f32>()?);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Method {
    /// Logistic loss; the threshold is chosen afterwards.
    CrossEntropy,
    /// Two-player game of a network against multipliers, at a threshold of zero.
    Tfco {
        regret: Regret,
        dual_rate: f64,
    },
    /// The whole network along the implicit gradient, from one backward pass.
    Ico,
    /// The same gradient from two backward passes, one for f and one for Σ μ g, as it was first implemented.
    IcoTwoBackward,
    Method1 {
        logit: CeLogit,
    },
    Method2 {
        penalty: Penalty,
    },
    Ablation {
        penalty: Penalty,
        reading: Reading,
    },
    /// The head alone, on features as they are.
    LastLayer,
}

/// What the logistic loss of Method 1 sees.
///
/// Book: `rate/decoupled.md#eq-rate-jacobian`.
///
/// ```
/// use lastlayer::prelude::*;
/// use lastlayer::rate::CeLogit;
/// assert_eq!(Method::method1(), Method::Method1 { logit: CeLogit::Raw });
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let above = Method::Method1 { logit: CeLogit::MinusThreshold };
/// let one = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
/// assert!(RateTraining::new(&net, &one, above).is_ok());
/// // With several thresholds there is no one to subtract.
/// let grid = RateProblem::partial_auc(0.0, 1.0, 5, Surrogate::sigmoid(2.0))?;
/// assert!(RateTraining::new(&net, &grid, above).is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CeLogit {
    /// The score, plus a bias of its own that only this loss trains.
    #[default]
    Raw,
    /// The score above the threshold, which is taken as constant.
    MinusThreshold,
}

/// What a violated constraint costs: the derivative of the penalty is the weight on ∂g.
///
/// Book: `rate/decoupled.md#eq-rate-exact`, `#eq-rate-adaptive`.
///
/// ```
/// use lastlayer::prelude::*;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
/// let second = |penalty| RateTraining::new(&net, &goal, Method::Method2 { penalty });
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

/// How equation 6 of the paper is read.
///
/// Book: `rate/decoupled.md#eq-rate-ablation`.
///
/// ```
/// use lastlayer::prelude::*;
/// use lastlayer::rate::Reading;
/// let (seed, penalty) = (Seed::new(1), Penalty::Absolute(20.0));
/// let data = Gaussians::a().sample(100, seed, &Device::Cpu)?;
/// let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
/// let second = Method::Method2 { penalty };
/// let moving = Method::Ablation { penalty, reading: Reading::ImplicitThreshold };
/// let mut scores = Vec::new();
/// for method in [second, moving] {
///     let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, seed, &Device::Cpu)?;
///     let training = RateTraining::new(&net, &goal, method)?;
///     Trainer::adam(0.01).silent().fit(&training, &data, |b| training.step(b))?;
///     scores.push(net.scores_of(&data)?.to_vec1::<f32>()?);
/// }
/// assert_eq!(scores[0], scores[1]); // the same method
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reading {
    /// The threshold is constant in both parts: a plain penalty.
    #[default]
    FixedThreshold,
    /// The threshold moves with the last layer. Then |g| does not change with it at all, and this is Method 2.
    ImplicitThreshold,
}

/// Whether both sides of the line move in every step.
///
/// ```
/// use lastlayer::prelude::*;
/// use lastlayer::rate::Turns;
/// let seed = Seed::new(1);
/// let data = Gaussians::a().sample(100, seed, &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, seed, &Device::Cpu)?;
/// let before = net.copy()?;
/// let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
/// let training = RateTraining::new(&net, &goal, Method::method1())?;
/// let training = training.turns(Turns::Alternating { bottom: 1, last: 1 })?;
/// Trainer::adam(0.01).batch(100).silent().fit(&training, &data, |b| training.step(b))?;
/// // One step was taken, and it was the bottom's turn.
/// let head = |net: &SplitNet| net.last()[0].to_vec2::<f32>();
/// assert_eq!(head(&net)?, head(&before)?);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Turns {
    #[default]
    Together,
    /// So many steps of the bottom, then so many of the last layer.
    Alternating { bottom: usize, last: usize },
}

/// A network in training for a rate problem.
///
/// `Trainer::adam(1e-2).fit(&training, &data, |b| training.step(b))?` runs any [`Method`]; thresholds, multipliers and
/// buffers are kept in checkpoints. A batch in which a rate has nobody to count is skipped, and `skipped` in the history
/// is their share. Checked by `tests/rate/training.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let seed = Seed::new(1);
/// let data = Gaussians::a().sample(200, seed, &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, seed, &Device::Cpu)?;
/// let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
/// let training = RateTraining::new(&net, &goal, Method::Ico)?;
/// Trainer::adam(0.01).batch(100).silent().fit(&training, &data, |b| training.step(b))?;
/// let answers = training.predictor(&data)?.predict_set(&data)?;
/// assert!(Confusion::new(&answers, &data.y, 2)?.fpr()? <= 0.1);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateTraining {
    net: SplitNet,
    problem: RateProblem,
    method: Method,
    policy: ThresholdPolicy,
    turns: Turns,
    /// Bias that only losses with a fixed threshold train.
    bias: Option<Var>,
    memory: Memory,
    /// Where corrections draw their batches from.
    data: Option<Dataset>,
    /// Scores of this step and how the thresholds follow them, until the parameters have moved.
    tracked: Arc<Mutex<Option<Tracked>>>,
}

#[derive(Debug)]
struct Tracked {
    t: Vec<f64>,
    scores: Vec<f64>,
    sensitivity: Vec<Vec<f64>>,
}

/// A violation below this is rounding of a threshold solved on the same scores; its sign means nothing.
const ROUNDING: f64 = 1e-9;

impl Method {
    /// The Lagrangian game with swap regret and the multipliers' rate of the Gaussian study.
    pub fn tfco() -> Method {
        Method::Tfco { regret: Regret::Swap, dual_rate: 0.5 }
    }

    /// Method 1 with the logistic loss on the score and its own bias.
    pub fn method1() -> Method {
        Method::Method1 { logit: CeLogit::Raw }
    }
}

impl Penalty {
    /// Weight on ∂g where the constraint has the value `g`; `multiplier` is its average so far.
    fn weight(self, g: f64, sense: Sense, multiplier: f64) -> f64 {
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

    fn check(self) -> Result<()> {
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

impl RateTraining {
    /// A network, a problem and a method.
    ///
    /// The policy is [`ThresholdPolicy::SolveEachStep`], but a moving average with decay 0.9 where a penalty needs a stale
    /// threshold. Fails: `Shape` unless the network has a single score, `Config` for a method that cannot solve the
    /// problem.
    pub fn new(net: &SplitNet, problem: &RateProblem, method: Method) -> Result<RateTraining> {
        let var = net.last().into_iter().chain(net.bottom()).next();
        let var =
            var.ok_or_else(|| Error::config("network", "without parameters", "one that can be trained"))?;
        if net.head.output() != [1] {
            let got = format!("{:?}", net.head.output());
            return Err(Error::shape("scores of a rate problem's network", "[1], one score per sample", got));
        }
        let game = match method {
            Method::Tfco { regret, dual_rate } => {
                if matches!(problem.kind(), Kind::Separable(shares) if shares.len() > 1) {
                    let allowed = "one threshold; a game has its decision at zero";
                    return Err(Error::config("thresholds of a Lagrangian game", problem.m(), allowed));
                }
                Some(Game::new(regret, problem.prices(), dual_rate)?)
            }
            Method::CrossEntropy => None,
            _ if *problem.kind() == Kind::Fixed => {
                let allowed = "Method::CrossEntropy or Method::Tfco; the others solve for thresholds";
                return Err(Error::config("method for inequalities", format!("{method:?}"), allowed));
            }
            _ => None,
        };
        if let Method::Method2 { penalty } | Method::Ablation { penalty, .. } = method {
            penalty.check()?;
        }
        if method == (Method::Method1 { logit: CeLogit::MinusThreshold }) && problem.m() > 1 {
            let allowed = "one, to be taken from the score; CeLogit::Raw goes with several";
            return Err(Error::config("thresholds of CeLogit::MinusThreshold", problem.m(), allowed));
        }
        let policy = match method {
            Method::Method2 { .. } | Method::Ablation { .. } => ThresholdPolicy::Ema { decay: 0.9 },
            _ => ThresholdPolicy::SolveEachStep,
        };
        let bias = match method {
            Method::CrossEntropy | Method::Tfco { .. } | Method::Method1 { logit: CeLogit::Raw } => {
                Some(Var::from_tensor(&Tensor::zeros(1, var.dtype(), var.device())?)?)
            }
            _ => None,
        };
        let memory = Memory::new(problem, policy, game.as_ref().map(Game::state), var.device())?;
        let (net, problem) = (net.clone(), problem.clone());
        Ok(RateTraining {
            net,
            problem,
            method,
            policy,
            turns: Turns::Together,
            bias,
            memory,
            data: None,
            tracked: Arc::default(),
        })
    }

    /// Another policy. Fails: `Config` for settings it cannot have.
    pub fn policy(mut self, policy: ThresholdPolicy) -> Result<RateTraining> {
        policy.check()?;
        let game = self.memory.game.as_ref().map(read).transpose()?;
        self.memory = Memory::new(&self.problem, policy, game.as_deref(), self.memory.threshold.device())?;
        self.policy = policy;
        Ok(self)
    }

    /// The set that [`ThresholdPolicy::TrackAndCorrect`] draws its fresh batches from: the training set.
    pub fn corrected_on(mut self, data: &Dataset) -> RateTraining {
        self.data = Some(data.clone());
        self
    }

    /// Whether both sides of the line move in every step.
    ///
    /// Fails: `Config` for turns of no step, or for a method that does not tell the sides apart: `Method1`, `Method2` and
    /// `Ablation` do.
    pub fn turns(mut self, turns: Turns) -> Result<RateTraining> {
        let apart =
            matches!(self.method, Method::Method1 { .. } | Method::Method2 { .. } | Method::Ablation { .. });
        if turns != Turns::Together && !apart {
            let allowed = "Method1, Method2 or Ablation; the others have one loss for both sides";
            return Err(Error::config("method that takes turns", format!("{:?}", self.method), allowed));
        }
        if turns == (Turns::Alternating { bottom: 0, last: 0 }) {
            return Err(Error::config("turns", "0 and 0", "at least one step of either side"));
        }
        self.turns = turns;
        Ok(self)
    }

    /// The network.
    pub fn net(&self) -> &SplitNet {
        &self.net
    }

    /// Threshold of the policy and average multiplier as they are now; empty before the first step. Host: both.
    pub fn state(&self) -> Result<(Vec<f64>, Vec<f64>)> {
        let started = read(&self.memory.started)?;
        let known = |flag: f64, var: &Var| if flag > 0.0 { read(var) } else { Ok(Vec::new()) };
        Ok((known(started[0], &self.memory.threshold)?, known(started[1], &self.memory.multiplier)?))
    }

    /// Weights of the multiplier player, objective first; two for an equality, g ≤ 0 before −g ≤ 0. Empty for other methods.
    pub fn multipliers(&self) -> Result<Vec<f64>> {
        Ok(self.game()?.map_or(Vec::new(), |game| game.weights()))
    }

    /// Scores of a set, with the bias where the method trains one: decided at zero by the Lagrangian methods.
    pub fn scores_of(&self, data: &Dataset) -> Result<Tensor> {
        self.biased(self.net.scores_of(data)?)
    }

    /// The network with the threshold that a set of samples asks for, ready to be saved.
    ///
    /// Take a set the network was not trained on, with at least 20 negatives over the target. The threshold is for the
    /// network's own score. Fails: `Config` for a problem with several thresholds; as
    /// [`RateProblem::hard_thresholds`].
    pub fn predictor(&self, validation: &Dataset) -> Result<Predictor> {
        let t = self.problem.hard_thresholds(self.net.scores_of(validation)?, &Labels::of(validation)?)?;
        let [t] = t[..] else {
            return Err(Error::config(
                "thresholds of a predictor",
                t.len(),
                "one; predict by group with each",
            ));
        };
        Predictor::new(&self.net, Decision::Threshold(t), &validation.names.classes)
    }

    /// The losses of a batch.
    ///
    /// Host: the scores, in f64. Fails: `Data` if a score is not finite, with nothing moved; `Config` for a policy that
    /// lacks its data, or a set that lacks the attribute of a group; `Solve` if no threshold solves the constraint.
    pub fn step(&self, batch: &Batch) -> Result<Step> {
        let labels = Labels::of(&batch.data)?;
        match self.problem.countable(&labels) {
            Err(Error::Data { .. }) => Ok(Step::skip().report("skipped", 1.0)),
            Err(error) => Err(error),
            Ok(()) => Ok(self.counted_step(batch, &labels)?.report("skipped", 0.0)),
        }
    }

    fn counted_step(&self, batch: &Batch, labels: &Labels) -> Result<Step> {
        let z = self.features(&batch.x, batch.pass())?;
        let pass = batch.pass();
        match self.method {
            Method::CrossEntropy => {
                let s = self.biased(self.net.scores(&z, pass)?)?;
                Ok(Step::new(bce_logits(&s, &batch.y)?))
            }
            Method::Tfco { .. } => self.game_step(&self.biased(self.net.scores(&z, pass)?)?, labels),
            Method::Ico | Method::IcoTwoBackward => {
                let s = self.net.scores(&z, pass)?;
                let values = self.problem.scores(&&s, labels)?.into_owned();
                let (stale, _) = self.thresholds(&values, labels, batch)?;
                let adjoint = self.problem.adjoint(&values[..], labels, &stale)?;
                let step = match self.method {
                    Method::Ico => Step::new(with_gradient(&s, &adjoint.cotangent, adjoint.objective)?),
                    _ => {
                        let objective =
                            self.problem.objective().tensor(&s, labels, &stale, self.problem.surrogate())?;
                        let constraints =
                            self.problem.constraint_sum(&s, labels, &stale, &adjoint.multiplier)?;
                        Step::sum(vec![objective, constraints])
                    }
                };
                self.reported(step, &adjoint, &stale)
            }
            Method::Method1 { logit } => {
                let s = self.net.scores_for_last(&z, pass)?;
                let values = self.problem.scores(&&s, labels)?.into_owned();
                let (stale, _) = self.thresholds(&values, labels, batch)?;
                let adjoint = self.problem.adjoint(&values[..], labels, &stale)?;
                let below = self.net.scores_for_bottom(&z, pass)?;
                let below = match logit {
                    CeLogit::Raw => self.biased(below)?,
                    CeLogit::MinusThreshold => (below - stale[0])?,
                };
                let bottom = bce_logits(&below, &batch.y)?;
                let last = with_gradient(&s, &adjoint.cotangent, adjoint.objective)?;
                self.reported(self.decoupled(bottom, last, batch)?, &adjoint, &stale)
            }
            Method::Method2 { penalty } | Method::Ablation { penalty, .. } => {
                let s = self.net.scores_for_last(&z, pass)?;
                let values = self.problem.scores(&&s, labels)?.into_owned();
                let (stale, solved) = self.thresholds(&values, labels, batch)?;
                let implicit = self.problem.adjoint(&values[..], labels, &solved)?;
                let average = self.memory.average_multiplier(&implicit.multiplier, labels.n() as f64)?;
                let (value, penalised) = self.penalised(penalty, &values, labels, &stale, &average)?;
                let below = self.net.scores_for_bottom(&z, pass)?;
                let bottom = with_gradient(&below, &penalised, value)?;
                let plain = matches!(self.method, Method::Ablation { reading: Reading::FixedThreshold, .. });
                let c = if plain { &penalised } else { &implicit.cotangent };
                let last = with_gradient(&s, c, implicit.objective)?;
                self.reported(self.decoupled(bottom, last, batch)?, &implicit, &stale)
            }
            Method::LastLayer => {
                let s = self.net.scores_for_last(&z, pass)?;
                let values = self.problem.scores(&&s, labels)?.into_owned();
                let (stale, _) = self.thresholds(&values, labels, batch)?;
                let adjoint = self.problem.adjoint(&values[..], labels, &stale)?;
                let step = Step::new(with_gradient(&s, &adjoint.cotangent, adjoint.objective)?);
                self.reported(step, &adjoint, &stale)
            }
        }
    }

    /// Features; those of a frozen backbone as it will be used.
    fn features(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        let frozen = self.method == Method::LastLayer;
        self.net.features(x, if frozen { Pass::Eval } else { pass })
    }

    fn biased(&self, s: Tensor) -> Result<Tensor> {
        self.bias.as_ref().map_or(Ok(s.clone()), |bias| Ok(s.broadcast_add(bias)?))
    }

    fn decoupled(&self, bottom: Tensor, last: Tensor, batch: &Batch) -> Result<Step> {
        // Each form reaches its own side only, so their sum needs one backward pass.
        Ok(match self.turns {
            Turns::Together => Step::new((bottom + last)?),
            Turns::Alternating { bottom: steps, last: others } => {
                Step::new(if batch.step % (steps + others) < steps { bottom } else { last })
            }
        })
    }

    fn reported(&self, step: Step, adjoint: &Adjoint, t: &[f64]) -> Result<Step> {
        let mut step = step.report("objective", adjoint.objective);
        let violation = adjoint.constraints.iter().fold(0.0f64, |most, g| most.max(g.abs()));
        step = step.report("violation", violation);
        if let ([t], [multiplier]) = (t, &adjoint.multiplier[..]) {
            step = step.report("threshold", *t);
            // Slopes that underflow leave the cotangent finite, but not this.
            if multiplier.is_finite() {
                step = step.report("multiplier", *multiplier);
            }
        }
        Ok(if adjoint.fold { step.report("folds", 1.0) } else { step })
    }

    /// f at constant thresholds, and the derivative of f + Σ penalty(g_k) in the scores.
    fn penalised(
        &self,
        penalty: Penalty,
        s: &[f64],
        labels: &Labels,
        t: &[f64],
        multiplier: &[f64],
    ) -> Result<(f64, Vec<f64>)> {
        let surrogate = self.problem.surrogate();
        let f = self.problem.objective().slopes(s, labels, t, surrogate)?;
        let (value, mut c) = (f.value, f.by_score);
        let constraints = self.problem.constraints().iter().zip(self.problem.senses());
        for ((g, sense), multiplier) in constraints.zip(multiplier) {
            let g = g.slopes(s, labels, t, surrogate)?;
            let weight = penalty.weight(g.value, *sense, *multiplier);
            c.iter_mut().zip(&g.by_score).for_each(|(c, slope)| *c += weight * slope);
        }
        Ok((value, c))
    }

    /// One step of the network against the multipliers, and theirs.
    fn game_step(&self, s: &Tensor, labels: &Labels) -> Result<Step> {
        let values = self.problem.scores(&s, labels)?;
        let Some(mut game) = self.game()? else { return Err(Error::config("game", "none", "Method::Tfco")) };
        let (weights, sums) = (game.weights(), self.problem.game_sums(labels)?);
        let (mut value, mut c) = (0.0, vec![0.0; values.len()]);
        for (sum, weight) in sums.iter().zip(&weights) {
            let proxy = sum.slopes(&values[..], labels, &[0.0], Surrogate::Hinge)?;
            value += weight * proxy.value;
            c.iter_mut().zip(&proxy.by_score).for_each(|(c, slope)| *c += weight * slope);
        }
        let exact = sums.iter().map(|sum| sum.count(&values[..], labels, &[0.0]));
        let exact = exact.collect::<Result<Vec<f64>>>()?;
        let violations = &exact[1..];
        game.update(violations)?;
        if let Some(var) = &self.memory.game {
            write(var, game.state())?;
        }
        let step = Step::new(with_gradient(s, &c, value)?).report("objective", exact[0]);
        let step = match violations.iter().copied().reduce(f64::max) {
            Some(hardest) => step.report("violation", hardest),
            None => step,
        };
        Ok(match weights[..] {
            [first, second] => step.report("multiplier", second / first),
            _ => step,
        })
    }

    fn game(&self) -> Result<Option<Game>> {
        let Method::Tfco { regret, dual_rate } = self.method else { return Ok(None) };
        let mut game = Game::new(regret, self.problem.prices(), dual_rate)?;
        if let Some(var) = &self.memory.game {
            game.set_state(read(var)?);
        }
        Ok(Some(game))
    }

    /// The policy's thresholds, and those solved on this batch (the same where the policy does not solve on it).
    fn thresholds(&self, s: &[f64], labels: &Labels, batch: &Batch) -> Result<(Vec<f64>, Vec<f64>)> {
        let stale = self.memory.stale()?;
        let warm = stale.as_deref().unwrap_or_default();
        match self.policy {
            ThresholdPolicy::SolveEachStep => {
                let t = self.problem.solve_from(s, labels, warm)?.t;
                self.memory.keep(&t)?;
                Ok((t.clone(), t))
            }
            ThresholdPolicy::Ema { decay } => {
                let solved = self.problem.solve_from(s, labels, warm)?.t;
                let before = stale.unwrap_or_else(|| solved.clone());
                let mixed: Vec<f64> =
                    before.iter().zip(&solved).map(|(a, b)| decay * a + (1.0 - decay) * b).collect();
                self.memory.keep(&mixed)?;
                Ok((before, solved))
            }
            ThresholdPolicy::Buffer { .. } => {
                let (pooled, everyone) = self.memory.pool(s, labels, self.problem.attributes())?;
                let t = self.problem.solve_from(&pooled[..], &everyone, warm)?.t;
                self.memory.keep(&t)?;
                Ok((t.clone(), t))
            }
            ThresholdPolicy::TrackAndCorrect { every, batches } => {
                let t = match stale {
                    Some(t) if !batch.step.is_multiple_of(every) => t,
                    _ => self.corrected(batch, batches)?,
                };
                self.memory.keep(&t)?;
                let sensitivity = self.problem.sensitivity(s, labels, &t)?;
                *self.tracked.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Tracked { t: t.clone(), scores: s.to_vec(), sensitivity });
                Ok((t.clone(), t))
            }
        }
    }

    /// Hard thresholds of fresh batches, in training mode.
    fn corrected(&self, batch: &Batch, batches: usize) -> Result<Vec<f64>> {
        let data = self.data.as_ref().ok_or_else(|| {
            Error::config(
                "policy TrackAndCorrect",
                "without data",
                "corrected_on(&train), to draw fresh batches from",
            )
        })?;
        let (mut scores, mut y, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let seed = batch.seed.named("correction");
        for (i, fresh) in data.batches(batch.data.n().min(data.n()), seed)?.take(batches).enumerate() {
            let fresh = fresh?;
            scores.extend_from_slice(&self.unseen(&fresh.x, Pass::Train(seed.stream(i as u64)))?);
            y.extend_from_slice(&fresh.y.numbers()?);
            rows.extend(Labels::of(&fresh)?.rows().flat_map(|row| row[1..].to_vec()));
        }
        let labels = Labels::new(y)?;
        let width = rows.len() / labels.n();
        let a = ndarray::Array2::from_shape_vec((labels.n(), width), rows)
            .map_err(|e| Error::shape("attributes of fresh batches", width, e))?;
        self.problem.hard_thresholds(&scores[..], &labels.with_attributes(a)?)
    }

    /// Scores of a pass that leaves no trace in running statistics. Host: the scores.
    fn unseen(&self, x: &Tensor, pass: Pass) -> Result<Vec<f64>> {
        let statistics = Trainable::statistics(&self.net);
        let before = statistics.iter().map(|(_, var)| Ok(var.copy()?)).collect::<Result<Vec<_>>>()?;
        let dtype = self.net.last().first().map_or(DType::F32, |var| var.dtype());
        let s = self.net.scores(&self.features(&x.to_dtype(dtype)?, pass)?, pass)?;
        for ((_, var), before) in statistics.iter().zip(before) {
            var.set(&before)?;
        }
        Ok(s.detach().numbers()?.into_owned())
    }

    /// Shows method and policy, and where the thresholds are.
    pub fn evcxr_display(&self) {
        let (t, multiplier) = self.state().unwrap_or_default();
        let text =
            format!("{:?}, {:?}; threshold {t:?}, multiplier {multiplier:?}", self.method, self.policy);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

impl Trainable for RateTraining {
    fn groups(&self) -> Vec<Group> {
        let mut groups = self.net.groups();
        groups.retain(|group| !group.vars.is_empty());
        if self.method == Method::LastLayer {
            groups.retain(|group| group.name == "last");
        }
        if let Some(bias) = &self.bias {
            groups
                .push(Group { decay: false, ..Group::new("bias", vec![("bias".to_string(), bias.clone())]) });
        }
        groups
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        let mut all = Trainable::statistics(&self.net);
        all.extend(self.memory.named());
        all
    }

    fn identity(&self) -> String {
        format!(
            "{} with {:?}, {:?}, {:?}, {:?}",
            self.net.identity(),
            self.problem,
            self.method,
            self.policy,
            self.turns
        )
    }

    /// Thresholds that are tracked follow the scores that the step has moved.
    fn moved(&self, batch: &Batch) -> Result<()> {
        let Some(tracked) = self.tracked.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let scores = self.unseen(&batch.x, batch.pass())?;
        let follow = |(t, list): (&f64, &Vec<f64>)| {
            let moves = list.iter().zip(scores.iter().zip(&tracked.scores));
            t + moves.map(|(weight, (new, old))| weight * (new - old)).sum::<f64>()
        };
        let t: Vec<f64> = tracked.t.iter().zip(&tracked.sensitivity).map(follow).collect();
        self.memory.keep(&t)
    }
}
