//! Every method of the paper: what either side of the line follows.

use candle_core::{DType, Tensor, Var};

use super::game::{Game, Regret};
use super::labels::Labels;
use super::policy::{Memory, ThresholdPolicy};
use super::problem::{Adjoint, RateProblem};
use super::rule::{Penalty, Rule};
use super::scored::{Column, Row, Scored};
use super::solve::{self, Kind};
use super::surrogate::Surrogate;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::loss::{bce_logits, with_gradient_of};
use crate::model::{Decision, Network, Pass, Predictor, Split};
use crate::numbers::AsF64;
use crate::train::{Batch, Group, Method, State, Step};

/// A network in training for a rate problem. What either side of the line follows is where the methods differ:
///
/// | method of the paper | bottom | last layer |
/// |---|---|---|
/// | [`cross_entropy`](RateTraining::cross_entropy) | `Logistic` | `Logistic` |
/// | [`tfco`](RateTraining::tfco) | `Game` | `Game` |
/// | [`ico`](RateTraining::ico) | `Implicit` | `Implicit` |
/// | [`method1`](RateTraining::method1) | `Logistic` | `Implicit` |
/// | [`method2`](RateTraining::method2) | `Penalty` | `Implicit` |
/// | [`ablation`](RateTraining::ablation) | `Penalty` | `Penalty` |
/// | [`last_layer`](RateTraining::last_layer) | `Nothing` | `Implicit` |
///
/// A batch in which a rate has nobody to count is skipped, and `skipped` in the history is their share. Checked by
/// `tests/rate/training.rs`. Book: `rate/decoupled.md#eq-rate-four`, `#eq-rate-gap`.
///
/// ```
/// use lastlayer::prelude::*;
/// let seed = Seed::new(1);
/// let data = Gaussians::a().sample(200, seed, &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, seed, &Device::Cpu)?;
/// let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
/// let mut training = RateTraining::ico(&net, &goal)?;
/// Trainer::adam(0.01).batch(100).silent().fit(&mut training, &data)?;
/// let answers = training.predictor(&data)?.predict_set(&data)?;
/// assert!(Confusion::new(&answers, &data.y, 2)?.fpr()? <= 0.1);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateTraining {
    net: Network,
    problem: RateProblem,
    bottom: Rule,
    last: Rule,
    policy: ThresholdPolicy,
    /// So many steps of the bottom, then so many of the last layer; both in every step if there is nothing.
    alternating: Option<(usize, usize)>,
    /// Bias that only losses with a fixed threshold train.
    bias: Option<Var>,
    memory: Memory,
    /// Where corrections draw their batches from.
    data: Option<Dataset>,
}

/// What a step found of its scores.
struct Found<'a> {
    scored: Scored<'a>,
    /// The policy's thresholds.
    stale: Vec<f64>,
    adjoint: Adjoint,
    column: Column,
    /// Average multiplier, where a penalty asks for it.
    average: Vec<f64>,
}

/// What a step taught.
struct Lesson {
    memory: Memory,
    tracked: Option<Tracked>,
}

/// Scores of a step and how the thresholds follow them.
struct Tracked {
    t: Vec<f64>,
    scores: Tensor,
    sensitivity: Vec<Column>,
}

impl RateTraining {
    /// The logistic loss for both sides; the threshold is chosen afterwards.
    pub fn cross_entropy(net: impl Into<Network>, problem: &RateProblem) -> Result<RateTraining> {
        RateTraining::new(net, problem, Rule::Logistic, Rule::Logistic)
    }

    /// Two-player game of the network against multipliers, with swap regret and the learning rate of the Gaussian study.
    pub fn tfco(net: impl Into<Network>, problem: &RateProblem) -> Result<RateTraining> {
        let game = Rule::Game { regret: Regret::Swap, dual_lr: 0.5 };
        RateTraining::new(net, problem, game, game)
    }

    /// The whole network along the implicit gradient, from one backward pass.
    pub fn ico(net: impl Into<Network>, problem: &RateProblem) -> Result<RateTraining> {
        RateTraining::new(net, problem, Rule::Implicit, Rule::Implicit)
    }

    /// Method 1: the bottom by the logistic loss, the last layer by the implicit gradient.
    pub fn method1(net: impl Into<Network>, problem: &RateProblem) -> Result<RateTraining> {
        RateTraining::new(net, problem, Rule::Logistic, Rule::Implicit)
    }

    /// Method 2: the bottom by a penalty at a stale threshold, the last layer by the implicit gradient.
    pub fn method2(net: impl Into<Network>, problem: &RateProblem, penalty: Penalty) -> Result<RateTraining> {
        RateTraining::new(net, problem, Rule::Penalty(penalty), Rule::Implicit)
    }

    /// Equation 6 with the threshold constant in both parts: a plain penalty. (With a threshold that moves with the last
    /// layer, |g| does not change with it at all, and that is Method 2.)
    ///
    /// Book: `rate/decoupled.md#eq-rate-ablation`.
    pub fn ablation(
        net: impl Into<Network>,
        problem: &RateProblem,
        penalty: Penalty,
    ) -> Result<RateTraining> {
        RateTraining::new(net, problem, Rule::Penalty(penalty), Rule::Penalty(penalty))
    }

    /// The head alone, on features as they are.
    pub fn last_layer(net: impl Into<Network>, problem: &RateProblem) -> Result<RateTraining> {
        RateTraining::new(net, problem, Rule::Nothing, Rule::Implicit)
    }

    /// A network, a problem, and what either side of the line follows.
    ///
    /// The policy is [`ThresholdPolicy::SolveEachStep`], but a moving average with decay 0.9 where a penalty needs a stale
    /// threshold. Fails: `Shape` unless the network has a single score, `Config` for rules that cannot solve the problem.
    pub fn new(
        net: impl Into<Network>,
        problem: &RateProblem,
        bottom: Rule,
        last: Rule,
    ) -> Result<RateTraining> {
        let (net, rules) = (net.into(), [bottom, last]);
        let var = net
            .first()
            .ok_or_else(|| Error::config("network", "without parameters", "one that can be trained"))?;
        net.ensure_scores("scores of a rate problem's network", 1)?;
        let mut memory = Memory::default();
        for rule in rules {
            match rule {
                Rule::Game { regret, dual_lr } => {
                    if matches!(problem.kind(), Kind::Separable(shares) if shares.len() > 1) {
                        let allowed = "one threshold; a game has its decision at zero";
                        return Err(Error::config("thresholds of a Lagrangian game", problem.m(), allowed));
                    }
                    memory.game = Some(Game::new(regret, problem.prices(), dual_lr)?);
                }
                rule if rule.solves() && *problem.kind() == Kind::Fixed => {
                    let allowed = "Logistic or Game on both sides; the others solve for thresholds";
                    return Err(Error::config("rule for inequalities", format!("{rule:?}"), allowed));
                }
                Rule::LogisticAbove if problem.m() > 1 => {
                    let allowed = "one, to be taken from the score; Logistic goes with several";
                    return Err(Error::config("thresholds of LogisticAbove", problem.m(), allowed));
                }
                Rule::Penalty(penalty) => penalty.check()?,
                _ => {}
            }
        }
        if (memory.game.is_some() && bottom != last) || rules == [Rule::Nothing; 2] {
            let allowed = "a game on both sides or on none, and something to follow on one side at least";
            return Err(Error::config("rules of the two sides", format!("{bottom:?}, {last:?}"), allowed));
        }
        let policy = match rules.iter().any(|rule| rule.penalty().is_some()) {
            true => ThresholdPolicy::Ema { decay: 0.9 },
            false => ThresholdPolicy::SolveEachStep,
        };
        let bias = match rules.iter().any(|rule| matches!(rule, Rule::Logistic | Rule::Game { .. })) {
            true => Some(Var::from_tensor(&Tensor::zeros(1, var.dtype(), var.device())?)?),
            false => None,
        };
        let problem = problem.clone();
        Ok(RateTraining { net, problem, bottom, last, policy, alternating: None, bias, memory, data: None })
    }

    /// Another policy, which begins anew; a game goes on. Fails: `Config` for settings it cannot have.
    pub fn policy(mut self, policy: ThresholdPolicy) -> Result<RateTraining> {
        policy.check()?;
        self.policy = policy;
        self.memory = self.memory.anew();
        Ok(self)
    }

    /// The set that [`ThresholdPolicy::TrackAndCorrect`] draws its fresh batches from: the training set.
    pub fn corrected_on(mut self, data: &Dataset) -> RateTraining {
        self.data = Some(data.clone());
        self
    }

    /// So many steps of the bottom, then so many of the last layer, in place of both in every step.
    ///
    /// Fails: `Config` for no step at all, or for methods whose sides have one loss: those in whose table both follow the
    /// same, but for a penalty, or one follows nothing.
    ///
    /// ```
    /// use lastlayer::prelude::*;
    /// let seed = Seed::new(1);
    /// let data = Gaussians::a().sample(100, seed, &Device::Cpu)?;
    /// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, seed, &Device::Cpu)?;
    /// let before = net.copy()?;
    /// let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
    /// let mut training = RateTraining::method1(&net, &goal)?.alternating(1, 1)?;
    /// Trainer::adam(0.01).batch(100).silent().fit(&mut training, &data)?;
    /// // One step was taken, and it was the bottom's turn.
    /// let head = |net: &SplitNet| net.last()[0].1.to_vec2::<f32>();
    /// assert_eq!(head(&net)?, head(&before)?);
    /// # Ok::<(), lastlayer::error::Error>(())
    /// ```
    pub fn alternating(mut self, bottom: usize, last: usize) -> Result<RateTraining> {
        let (rules, allowed) = ([self.bottom, self.last], "a loss of its own for either side");
        let apart = self.bottom != self.last || self.bottom.penalty().is_some();
        if !apart || rules.contains(&Rule::Nothing) {
            return Err(Error::config("rules of sides that take turns", format!("{rules:?}"), allowed));
        }
        if (bottom, last) == (0, 0) {
            return Err(Error::config("steps of the two sides", "0 and 0", "at least one step of one side"));
        }
        self.alternating = Some((bottom, last));
        Ok(self)
    }

    /// The network.
    pub fn net(&self) -> &Network {
        &self.net
    }

    /// Thresholds of the policy as they are now; none before the first step.
    pub fn threshold(&self) -> &[f64] {
        self.memory.threshold.as_deref().unwrap_or_default()
    }

    /// Moving average of the multipliers that a penalty goes by; none before the first step.
    pub fn average_multiplier(&self) -> &[f64] {
        self.memory.multiplier.as_deref().unwrap_or_default()
    }

    /// Weights of the multiplier player, objective first; two for an equality, g ≤ 0 before −g ≤ 0. Empty without a game.
    pub fn multipliers(&self) -> Vec<f64> {
        self.memory.game.as_ref().map_or(Vec::new(), Game::weights)
    }

    /// Scores of a set, with the bias where the method trains one: decided at zero by the Lagrangian methods.
    pub fn scores_of(&self, data: &Dataset) -> Result<Tensor> {
        self.biased(&self.net.scores_of(data)?)
    }

    /// The network with the threshold that a set of samples asks for, ready to be saved.
    ///
    /// Take a set the network was not trained on, with at least 20 negatives over the target. The threshold is for the
    /// network's own score. Fails: `Config` for a problem with several thresholds; as
    /// [`RateProblem::hard_thresholds`].
    pub fn predictor(&self, validation: &Dataset) -> Result<Predictor> {
        let t = self.problem.hard_thresholds(self.net.scores_of(validation)?, &Labels::of(validation)?)?;
        let [t] = t[..] else {
            let allowed = "one; predict by group with each";
            return Err(Error::config("thresholds of a predictor", t.len(), allowed));
        };
        Predictor::new(&self.net, Decision::Threshold(t), &validation.names.classes)
    }

    /// Scores, thresholds and adjoint, once; then what either side follows.
    fn counted_step(&self, batch: &Batch, labels: &Labels) -> Result<Step> {
        let pass = batch.pass();
        let mut lesson = Lesson { memory: self.memory.clone(), tracked: None };
        let z = self.features(&batch.x, pass)?;
        if let Some(game) = &mut lesson.memory.game {
            let step = self.game_step(game, &self.biased(&self.net.scores(&z, pass)?)?, labels)?;
            return Ok(step.carry(lesson));
        }
        let joint = self.bottom == self.last && self.alternating.is_none();
        let s = self.net.scores(&if joint { z.clone() } else { z.detach() }, pass)?;
        let found = self.found(&s, labels, batch, &mut lesson)?;
        let last = self.loss(self.last, &s, found.as_ref(), batch)?;
        let step = if joint {
            last.map_or(Step::skip(), Step::new)
        } else {
            let bottom = match self.bottom {
                Rule::Nothing => None,
                rule => self.loss(rule, &self.net.scores(&z, pass)?, found.as_ref(), batch)?,
            };
            let (bottom, last) = match self.alternating {
                None => (bottom, last),
                Some((steps, others)) if batch.step % (steps + others) < steps => (bottom, None),
                Some(_) => (None, last),
            };
            // The bias goes with the side whose loss has it.
            Step::across(
                if self.last == Rule::Logistic { &["last", "bias"] } else { &["last"] },
                bottom,
                last,
            )?
        };
        let step = match &found {
            Some(found) => self.reported(step, &found.adjoint, &found.stale),
            None => step,
        };
        Ok(step.carry(lesson))
    }

    /// Features; those of a frozen backbone as it will be used.
    fn features(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        self.net.features(x, if self.bottom == Rule::Nothing { Pass::Eval } else { pass })
    }

    fn biased(&self, s: &Tensor) -> Result<Tensor> {
        self.bias.as_ref().map_or(Ok(s.clone()), |bias| Ok(s.broadcast_add(bias)?))
    }

    /// Thresholds of scores and the adjoint there, if a rule asks for them.
    fn found<'a>(
        &self,
        s: &'a Tensor,
        labels: &'a Labels,
        batch: &Batch,
        lesson: &mut Lesson,
    ) -> Result<Option<Found<'a>>> {
        let rules = [self.bottom, self.last];
        if !rules.iter().any(|rule| rule.solves()) {
            return Ok(None);
        }
        let scored = Scored::of(s, labels)?;
        let (stale, solved) = self.thresholds(&scored, s, batch, lesson)?;
        let penalised = rules.iter().any(|rule| rule.penalty().is_some());
        // A penalty stands at a stale threshold, the implicit gradient beside it at that of the batch.
        let (adjoint, column) = self.problem.implicit(&scored, if penalised { &solved } else { &stale })?;
        let average = match penalised {
            true => lesson.memory.average_multiplier(&adjoint.multiplier, labels.n() as f64),
            false => Vec::new(),
        };
        Ok(Some(Found { scored, stale, adjoint, column, average }))
    }

    /// The loss of one rule on scores: its value where it has one, its gradient always.
    fn loss(&self, rule: Rule, s: &Tensor, found: Option<&Found>, batch: &Batch) -> Result<Option<Tensor>> {
        let loss = match (rule, found) {
            (Rule::Logistic, _) => bce_logits(&self.biased(s)?, &batch.y)?,
            (Rule::LogisticAbove, Some(found)) => bce_logits(&(s - found.stale[0])?, &batch.y)?,
            (Rule::Implicit, Some(found)) => {
                with_gradient_of(s, found.column.tensor(s)?, found.adjoint.objective)?
            }
            (Rule::Penalty(penalty), Some(found)) => {
                let (value, column) = self.penalised(penalty, found)?;
                with_gradient_of(s, column.tensor(s)?, value)?
            }
            _ => return Ok(None),
        };
        Ok(Some(loss))
    }

    fn reported(&self, step: Step, adjoint: &Adjoint, t: &[f64]) -> Step {
        let violation = adjoint.constraints.iter().fold(0.0f64, |most, g| most.max(g.abs()));
        let mut step = step.report("objective", adjoint.objective).report("violation", violation);
        if let ([t], [multiplier]) = (t, &adjoint.multiplier[..]) {
            step = step.report("threshold", *t);
            // Slopes that underflow leave the cotangent finite, but not this.
            if multiplier.is_finite() {
                step = step.report("multiplier", *multiplier);
            }
        }
        if adjoint.fold { step.report("folds", 1.0) } else { step }
    }

    /// f at constant thresholds, and the derivative of f + Σ penalty(g_k) in the scores.
    fn penalised(&self, penalty: Penalty, found: &Found) -> Result<(f64, Column)> {
        let (surrogate, t) = (self.problem.surrogate(), &found.stale);
        let f = found.scored.slopes(&[self.problem.objective()], t, surrogate)?.swap_remove(0);
        let Row { value, by_score: mut c, .. } = f;
        let constraints: Vec<_> = self.problem.constraints().iter().collect();
        let rows = found.scored.slopes(&constraints, t, surrogate)?;
        for ((g, sense), multiplier) in rows.iter().zip(self.problem.senses()).zip(&found.average) {
            c.add(penalty.weight(g.value, *sense, *multiplier), &g.by_score);
        }
        Ok((value, c))
    }

    /// One step of the network against the multipliers, and theirs.
    fn game_step(&self, game: &mut Game, s: &Tensor, labels: &Labels) -> Result<Step> {
        let scored = Scored::of(s, labels)?;
        let (weights, sums) = (game.weights(), self.problem.game_sums(labels)?);
        let (mut value, mut c) = (0.0, scored.zeros());
        let proxies = scored.slopes(&sums.iter().collect::<Vec<_>>(), &[0.0], Surrogate::Hinge)?;
        for (proxy, weight) in proxies.iter().zip(&weights) {
            value += weight * proxy.value;
            c.add(*weight, &proxy.by_score);
        }
        let exact = scored.counts(&sums, &[0.0])?;
        let violations = &exact[1..];
        game.update(violations)?;
        let step = Step::new(with_gradient_of(s, c.tensor(s)?, value)?).report("objective", exact[0]);
        let step = match violations.iter().copied().reduce(f64::max) {
            Some(hardest) => step.report("violation", hardest),
            None => step,
        };
        Ok(match weights[..] {
            [first, second] => step.report("multiplier", second / first),
            _ => step,
        })
    }

    /// The policy's thresholds, and those solved on this batch (the same where the policy does not solve on it).
    fn thresholds(
        &self,
        scored: &Scored,
        s: &Tensor,
        batch: &Batch,
        lesson: &mut Lesson,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let stale = lesson.memory.threshold.take();
        let warm = stale.as_deref().unwrap_or_default();
        let (used, solved, kept) = match self.policy {
            ThresholdPolicy::SolveEachStep => {
                let t = solve::thresholds(&self.problem, scored, warm)?.t;
                (t.clone(), t.clone(), t)
            }
            ThresholdPolicy::Ema { decay } => {
                let solved = solve::thresholds(&self.problem, scored, warm)?.t;
                let before = stale.unwrap_or_else(|| solved.clone());
                let mixed = before.iter().zip(&solved).map(|(a, b)| decay * a + (1.0 - decay) * b).collect();
                (before, solved, mixed)
            }
            ThresholdPolicy::Buffer { samples } => {
                let (pool, labels) = lesson.memory.pool(scored, s, self.problem.attributes(), samples)?;
                let t = solve::thresholds(&self.problem, &Scored::of(&pool, &labels)?, warm)?.t;
                (t.clone(), t.clone(), t)
            }
            ThresholdPolicy::TrackAndCorrect { every, batches } => {
                let t = match stale {
                    Some(t) if !batch.step.is_multiple_of(every) => t,
                    _ => self.corrected(batch, batches)?,
                };
                let sensitivity = self.problem.following(scored, &t)?;
                lesson.tracked = Some(Tracked { t: t.clone(), scores: s.detach(), sensitivity });
                (t.clone(), t.clone(), t)
            }
        };
        lesson.memory.threshold = Some(kept);
        Ok((used, solved))
    }

    /// Hard thresholds of fresh batches, in training mode. Host: their scores and labels.
    fn corrected(&self, batch: &Batch, batches: usize) -> Result<Vec<f64>> {
        let data = self.data.as_ref().ok_or_else(|| {
            let allowed = "corrected_on(&train), to draw fresh batches from";
            Error::config("policy TrackAndCorrect", "without data", allowed)
        })?;
        let (mut scores, mut y, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let seed = batch.seed.named("correction");
        for (i, fresh) in data.batches(batch.data.n().min(data.n()), seed)?.take(batches).enumerate() {
            let fresh = fresh?;
            scores.extend_from_slice(&self.unseen(&fresh.x, Pass::Train(seed.stream(i as u64)))?.numbers()?);
            y.extend_from_slice(&fresh.y.numbers()?);
            rows.extend(
                fresh.a.as_ref().map_or(Ok(Vec::new()), |a| Ok::<_, Error>(a.numbers()?.into_owned()))?,
            );
        }
        let labels = Labels::new(y)?;
        let width = rows.len() / labels.n();
        let a = ndarray::Array2::from_shape_vec((labels.n(), width), rows)
            .map_err(|e| Error::shape("attributes of fresh batches", width, e))?;
        self.problem.hard_thresholds(&scores[..], &labels.with_attributes(a)?)
    }

    /// Scores of a pass that leaves no trace in running statistics.
    fn unseen(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        let statistics = self.net.statistics();
        let before = statistics.iter().map(|(_, var)| Ok(var.copy()?)).collect::<Result<Vec<_>>>()?;
        let dtype = self.net.first().map_or(DType::F32, |var| var.dtype());
        let s = self.features(&x.to_dtype(dtype)?, pass).and_then(|z| self.net.scores(&z, pass));
        for ((_, var), before) in statistics.iter().zip(before) {
            var.set(&before)?;
        }
        Ok(s?.detach())
    }

    /// Shows rules and policy, and where the thresholds are.
    pub fn evcxr_display(&self) {
        let text = format!(
            "bottom {:?}, last {:?}, {:?}; threshold {:?}, multiplier {:?}",
            self.bottom,
            self.last,
            self.policy,
            self.threshold(),
            self.average_multiplier()
        );
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

impl Method for RateTraining {
    /// `bottom` and `last`, as far as they follow something, and `bias`.
    fn groups(&self) -> Vec<Group> {
        let mut groups = self.net.groups();
        let still = [("bottom", self.bottom), ("last", self.last)];
        groups.retain(|group| !still.contains(&(group.name.as_str(), Rule::Nothing)));
        if let Some(bias) = &self.bias {
            groups
                .push(Group { decay: false, ..Group::new("bias", vec![("bias".to_string(), bias.clone())]) });
        }
        groups
    }

    /// The losses of a batch.
    ///
    /// Fails: `Data` if a score is not finite; `Config` for a policy that lacks its data, or a set that lacks the attribute of
    /// a group; `Solve` if no threshold solves the constraint.
    fn step(&self, batch: &Batch) -> Result<Step> {
        let labels = Labels::of(&batch.data)?;
        match self.problem.countable(&labels) {
            Err(Error::Data { .. }) => Ok(Step::skip().report("skipped", 1.0)),
            Err(error) => Err(error),
            Ok(()) => Ok(self.counted_step(batch, &labels)?.report("skipped", 0.0)),
        }
    }

    /// Keeps thresholds and multipliers; thresholds that are tracked follow the scores that the step has moved.
    ///
    /// Fails: `Data` if these scores are not finite; nothing is then kept.
    fn after(&mut self, batch: &Batch, step: &Step) -> Result<()> {
        let Some(Lesson { memory, tracked }) = step.carried() else { return Ok(()) };
        let mut memory = memory.clone();
        if let Some(Tracked { t, scores, sensitivity }) = tracked {
            let now = self.unseen(&batch.x, batch.pass())?;
            let follow = |(t, column): (&f64, &Column)| match t + column.along(&now, scores)? {
                moved if moved.is_finite() || moved == *t => Ok(moved),
                _ => Err(Error::data("scores after a step", "one is not finite; lower the learning rate")),
            };
            memory.threshold = Some(t.iter().zip(sensitivity).map(follow).collect::<Result<_>>()?);
        }
        self.memory = memory;
        Ok(())
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        self.net.statistics()
    }

    fn state(&self) -> Result<State> {
        self.memory.state()
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.memory.restore(state, self.problem.m())
    }

    fn identity(&self) -> String {
        format!(
            "{} with {:?}, bottom {:?}, last {:?}, {:?}, {:?}",
            self.net.identity(),
            self.problem,
            self.bottom,
            self.last,
            self.policy,
            self.alternating
        )
    }
}
