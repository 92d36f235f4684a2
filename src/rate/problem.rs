//! Problems with rates: an objective, constraints, and the thresholds that the constraints determine.

use candle_core::Tensor;
use ndarray::{Array1, Array2};

use super::labels::{Labels, Within};
use super::rates::{At, Rate, RateSum};
use super::scored::{Column, Row, Scored};
use super::solve::{self, Kind};
use super::surrogate::Surrogate;
use crate::error::{Error, Result, ensure_shape};
use crate::linalg;
use crate::loss::with_gradient_of;
use crate::metrics::rate_interval;
use crate::numbers::AsF64;
use crate::table::{Cell, Table};

/// Minimise a smooth rate over the scores, where m thresholds solve m constraints.
///
/// ```text
/// min_θ f(s(θ), t)   with t such that   g_k(s(θ), t) = 0,   k = 1 … m
/// ```
/// The thresholds are functions of the scores, t = h(s), and [`adjoint`](RateProblem::adjoint) has the derivative of
/// f(s, h(s)) in every score. Book: `rate/implicit.md#eq-rate-implicit-adjoint`. Checked by `tests/rate/problem.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let (s, labels) = ([1.0, 3.0, 0.0, 2.0], Labels::new([1, 1, 0, 0])?);
/// let goal = RateProblem::fnr_at_fpr(0.3, Surrogate::sigmoid(3f64.ln()))?;
/// let t = goal.solve(s, &labels)?.t;
/// assert!((t[0] - 2.0).abs() < 1e-9);
/// let found = goal.adjoint(s, &labels, &t)?;
/// assert!((found.multiplier[0] - 75.0 / 68.0).abs() < 1e-9); // the slope of the smooth ROC
/// assert_eq!(goal.hard_thresholds(s, &labels)?, [2.0]); // what a decision uses
/// assert_eq!(goal.report(s, &labels, &[2.0])?.rows().len(), 2); // exact rates with intervals
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RateProblem {
    objective: RateSum,
    constraints: Vec<RateSum>,
    senses: Vec<Sense>,
    surrogate: Surrogate,
    kind: Kind,
}

/// On which side of zero a constraint may lie.
///
/// A threshold that is solved for puts it at zero, where the best solution is. A game has no threshold to solve for and
/// puts a price on the other side only, for an equality one on each. Book: `rate/games.md#eq-rate-sense`.
///
/// ```
/// use lastlayer::prelude::*;
/// use lastlayer::rate::Sense;
/// let smooth = Surrogate::sigmoid(2.0);
/// // False alarms may be fewer than their target, a recall may be higher.
/// assert_eq!(RateProblem::fnr_at_fpr(0.1, smooth)?.senses(), [Sense::AtMost]);
/// assert_eq!(RateProblem::precision_at_recall(0.9, smooth)?.senses(), [Sense::AtLeast]);
/// let fair = RateProblem::equal_opportunity(0, 0.1, smooth)?;
/// assert_eq!(fair.senses(), [Sense::Equal, Sense::AtMost]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// g = 0.
    Equal,
    /// g ≤ 0.
    AtMost,
    /// g ≥ 0.
    AtLeast,
}

impl Sense {
    /// A cost is at most its target, a rate that is wanted at least, and a difference of rates is to vanish.
    fn of(sum: &RateSum) -> Sense {
        match &sum.terms[..] {
            [term] if term.rate.is_cost() == (term.weight > 0.0) => Sense::AtMost,
            [_] => Sense::AtLeast,
            _ => Sense::Equal,
        }
    }

    /// Factors that make of g what must be at most zero.
    pub(super) fn signs(self) -> &'static [f64] {
        match self {
            Sense::Equal => &[1.0, -1.0],
            Sense::AtMost => &[1.0],
            Sense::AtLeast => &[-1.0],
        }
    }
}

/// Thresholds of a problem, solved for.
///
/// ```
/// use lastlayer::prelude::*;
/// // False positive rates of a quarter and of three quarters, for negatives at 0 and 2.
/// let curve = RateProblem::partial_auc(0.0, 1.0, 2, Surrogate::sigmoid(1.0))?;
/// let found = curve.solve([1.0, 0.0, 2.0], &Labels::new([1, 0, 0])?)?;
/// assert!((found.t[0] + found.t[1] - 2.0).abs() < 1e-9); // by symmetry
/// assert!(found.t[0] > found.t[1] && found.residual < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    pub t: Vec<f64>,
    /// Passes over the scores, for all thresholds together.
    pub passes: usize,
    /// Largest distance of a constraint from zero.
    pub residual: f64,
}

/// Derivative of the objective in the scores, thresholds included.
///
/// ```text
/// c = ∂f/∂s + Σ_k μ_k ∂g_k/∂s,   μᵀ = −(∂f/∂t)(∂g/∂t)⁻¹
/// ```
/// Book: `rate/implicit.md#eq-rate-implicit-adjoint`.
///
/// ```
/// use lastlayer::prelude::*;
/// let s = Var::new(&[1.0f64, 3.0, 0.0, 2.0], &Device::Cpu)?;
/// let labels = Labels::new([1, 1, 0, 0])?;
/// let goal = RateProblem::fnr_at_fpr(0.3, Surrogate::sigmoid(1.0))?;
/// let t = goal.solve(s.as_tensor(), &labels)?.t;
/// let found = goal.adjoint(s.as_tensor(), &labels, &t)?;
/// // The same derivative as a backward pass gives.
/// let gradients = goal.loss(&s, &labels, &t)?.backward()?;
/// assert_eq!(gradients.get(&s).expect("a gradient").to_vec1::<f64>()?, found.cotangent);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Adjoint {
    /// Smooth objective at the thresholds.
    pub objective: f64,
    /// Smooth constraints there: 0 where they hold.
    pub constraints: Vec<f64>,
    /// μ: what one unit of each constraint is worth. For FNR at FPR, the slope of the smooth ROC.
    pub multiplier: Vec<f64>,
    /// c: the derivative in each score (n).
    pub cotangent: Vec<f64>,
    /// Whether the thresholds are no function of the scores here, because two of them meet. The cotangent is then that
    /// of fixed thresholds.
    pub fold: bool,
}

impl RateProblem {
    /// A problem of your own.
    ///
    /// Solvable are: constraints of one monotone rate each, number k at threshold k; one constraint on precision; and the
    /// pair that [`parity`](RateProblem::parity) makes. Fails: `Config` for others, for a target that cannot be
    /// reached, and for a sharpness that is not positive.
    pub fn new(objective: RateSum, constraints: Vec<RateSum>, surrogate: Surrogate) -> Result<RateProblem> {
        surrogate.check()?;
        let kind = Kind::of(&constraints)?;
        kind.check(surrogate)?;
        let used = constraints.iter().map(RateSum::thresholds).max().unwrap_or(0);
        let m = constraints.len();
        if used.max(objective.thresholds()) > m {
            let allowed = format!("as many as constraints, {m}, counted from 0");
            return Err(Error::config("thresholds of a rate problem", objective.thresholds(), allowed));
        }
        let senses = constraints.iter().map(Sense::of).collect();
        Ok(RateProblem { objective, constraints, senses, surrogate, kind })
    }

    /// Fewest missed positives at a false positive rate.
    ///
    /// Fails: as [`new`](RateProblem::new).
    ///
    /// Book: `rate/implicit.md#eq-rate-implicit-fnr`.
    pub fn fnr_at_fpr(target: f64, surrogate: Surrogate) -> Result<RateProblem> {
        RateProblem::new(Rate::FalseNegative.minus(0.0), vec![Rate::FalsePositive.minus(target)], surrogate)
    }

    /// Mean of the missed positives over false positive rates from `low` to `high`, on a grid of `m`.
    ///
    /// ```text
    /// β_k = low + (k − ½)(high − low)/m,   f = (1/m) Σ_k FNR(t_k),   g_k = FPR(t_k) − β_k
    /// ```
    /// With the range [0, 1] this is 1 − AUC as m grows. Fails: `Config` for an empty range or grid.
    /// Book: `rate/implicit.md#eq-rate-implicit-kernel`.
    pub fn partial_auc(low: f64, high: f64, m: usize, surrogate: Surrogate) -> Result<RateProblem> {
        RateProblem::on_grid((low, high), m, surrogate, Rate::FalseNegative.term(), Rate::FalsePositive)
    }

    /// Mean of 1 − precision over recalls from 0 to 1, on a grid of `m`: the area above the precision-recall curve.
    pub fn precision_recall_area(m: usize, surrogate: Surrogate) -> Result<RateProblem> {
        let mut problem = RateProblem::on_grid(
            (0.0, 1.0),
            m,
            surrogate,
            Rate::Precision.term().weight(-1.0),
            Rate::TruePositive,
        )?;
        problem.objective.constant = 1.0;
        Ok(problem)
    }

    fn on_grid(
        (low, high): (f64, f64),
        m: usize,
        surrogate: Surrogate,
        cost: super::Term,
        rate: Rate,
    ) -> Result<RateProblem> {
        if !(0.0 <= low && low < high && high <= 1.0) || m == 0 {
            let got = format!("{low} to {high} on {m} points");
            return Err(Error::config("range of rates", got, "0 ≤ low < high ≤ 1, on at least one point"));
        }
        let target = |k: usize| low + (k as f64 + 0.5) * (high - low) / m as f64;
        let constraint =
            |k: usize| RateSum { terms: vec![rate.term().at(At::Threshold(k))], constant: -target(k) };
        let terms = (0..m).map(|k| cost.weight(cost.weight / m as f64).at(At::Threshold(k))).collect();
        RateProblem::new(RateSum { terms, constant: 0.0 }, (0..m).map(constraint).collect(), surrogate)
    }

    /// Highest precision at a recall. With the true positives fixed, that is the lowest false positive rate.
    pub fn precision_at_recall(target: f64, surrogate: Surrogate) -> Result<RateProblem> {
        RateProblem::new(Rate::FalsePositive.minus(0.0), vec![Rate::TruePositive.minus(target)], surrogate)
    }

    /// Highest recall at a precision.
    ///
    /// Precision is not monotone in the threshold, so several may solve the constraint: taken is the one nearest to the
    /// lowest hard threshold that reaches it.
    /// Book: `rate/implicit.md#eq-rate-implicit-precision`.
    pub fn recall_at_precision(target: f64, surrogate: Surrogate) -> Result<RateProblem> {
        RateProblem::new(Rate::FalseNegative.minus(0.0), vec![Rate::Precision.minus(target)], surrogate)
    }

    /// Fewest missed positives at an overall false positive rate, with the same true positive rate for those with and
    /// without an attribute, each group at its own threshold (first the one of those with it).
    ///
    /// Book: `rate/implicit.md#eq-rate-implicit-opportunity`.
    pub fn equal_opportunity(attribute: usize, target: f64, surrogate: Surrogate) -> Result<RateProblem> {
        RateProblem::parity(
            Rate::FalseNegative,
            Rate::TruePositive,
            attribute,
            Rate::FalsePositive,
            target,
            surrogate,
        )
    }

    /// Lowest `objective` at an `overall` rate of `target`, with the rate `shared` equal in two groups.
    ///
    /// Demographic parity is `shared = Coverage`, equal false alarms `shared = FalsePositive`.
    /// Fails: `Config` unless `shared` and `overall` are monotone.
    pub fn parity(
        objective: Rate,
        shared: Rate,
        attribute: usize,
        overall: Rate,
        target: f64,
        surrogate: Surrogate,
    ) -> Result<RateProblem> {
        let both = At::ByAttribute { attribute, with: 0, without: 1 };
        let with = shared.term().within(Within::With(attribute)).at(At::Threshold(0));
        let without = shared.term().within(Within::Without(attribute)).at(At::Threshold(1)).weight(-1.0);
        let equal = RateSum { terms: vec![with, without], constant: 0.0 };
        let total = RateSum { terms: vec![overall.term().at(both)], constant: -target };
        RateProblem::new(
            RateSum { terms: vec![objective.term().at(both)], constant: 0.0 },
            vec![equal, total],
            surrogate,
        )
    }

    /// A problem of inequalities g_k ≤ 0 at a threshold of zero, for the Lagrangian methods only: nothing is solved for.
    /// [`with_senses`](RateProblem::with_senses) makes others of them.
    pub fn inequalities(
        objective: RateSum,
        constraints: Vec<RateSum>,
        surrogate: Surrogate,
    ) -> Result<RateProblem> {
        surrogate.check()?;
        let senses = vec![Sense::AtMost; constraints.len()];
        Ok(RateProblem { objective, constraints, senses, surrogate, kind: Kind::Fixed })
    }

    /// This problem with other senses, one per constraint: for games and one-sided penalties; thresholds still solve
    /// equations.
    ///
    /// Without it, a false positive or negative rate, an error and a coverage are at most their target, a true positive
    /// or negative rate and a precision at least theirs, and a difference of rates is zero. Fails: `Shape` unless there
    /// is one per constraint.
    pub fn with_senses(mut self, senses: &[Sense]) -> Result<RateProblem> {
        ensure_shape("senses of constraints", self.m(), senses.len())?;
        self.senses = senses.to_vec();
        Ok(self)
    }

    /// What is minimised.
    pub fn objective(&self) -> &RateSum {
        &self.objective
    }

    /// What is compared with zero.
    pub fn constraints(&self) -> &[RateSum] {
        &self.constraints
    }

    /// On which side of zero each constraint may lie.
    pub fn senses(&self) -> &[Sense] {
        &self.senses
    }

    /// How many prices a game puts on the constraints: one each, two on an equality.
    pub(super) fn prices(&self) -> usize {
        self.senses.iter().map(|sense| sense.signs().len()).sum()
    }

    /// Objective and constraints as a game has them: decided at one threshold, and each constraint at most zero.
    ///
    /// A precision that stands alone is multiplied by its denominator: hinges bound what is left.
    pub(super) fn game_sums(&self, labels: &Labels) -> Result<Vec<RateSum>> {
        let mut sums = vec![self.objective.priced(1.0)];
        for (g, sense) in self.constraints.iter().zip(&self.senses) {
            let g = g.cleared(labels)?;
            sums.extend(sense.signs().iter().map(|sign| g.priced(*sign)));
        }
        Ok(sums)
    }

    /// What takes the place of a step.
    pub fn surrogate(&self) -> Surrogate {
        self.surrogate
    }

    /// Number of constraints, m.
    pub fn m(&self) -> usize {
        self.constraints.len()
    }

    /// Number of attribute columns that its groups refer to.
    pub(super) fn attributes(&self) -> usize {
        let sums = std::iter::once(&self.objective).chain(&self.constraints);
        let used = sums.flat_map(|sum| &sum.terms).flat_map(|term| term.attributes().map(|a| a + 1));
        used.max().unwrap_or(0)
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// This problem with a surrogate of another sharpness. Fails: `Config` unless it is positive.
    pub fn sharpness(&self, sharpness: f64) -> Result<RateProblem> {
        let surrogate = match self.surrogate {
            Surrogate::Sigmoid { .. } => Surrogate::Sigmoid { sharpness },
            Surrogate::Softplus { .. } => Surrogate::Softplus { sharpness },
            Surrogate::Hinge => Surrogate::Hinge,
        };
        surrogate.check()?;
        Ok(RateProblem { surrogate, ..self.clone() })
    }

    /// Whether these labels have a member for every rate of the problem.
    ///
    /// Fails: `Config` for an attribute that the labels lack, `Data` with who is missing.
    pub fn countable(&self, labels: &Labels) -> Result<()> {
        (0..self.attributes()).try_for_each(|attribute| labels.has(attribute))?;
        let mut seen: Vec<(Rate, Within)> = Vec::new();
        for term in std::iter::once(&self.objective).chain(&self.constraints).flat_map(|sum| &sum.terms) {
            if !seen.contains(&(term.rate, term.within)) {
                term.rate.counted(labels.counts(term.within)?, term.within)?;
                seen.push((term.rate, term.within));
            }
        }
        Ok(())
    }

    /// Thresholds that solve the constraints for these scores.
    ///
    /// Shapes: `s` (n) → m thresholds. With an unbounded surrogate they are hard quantiles. Host: all scores, in f64.
    /// Fails: `Shape` unless there is a score per label, `Data` if a score is not finite or a class is empty, `Solve` if
    /// no threshold reaches a precision.
    /// Book: `rate/implicit.md#eq-rate-implicit-root`.
    pub fn solve(&self, s: impl AsF64, labels: &Labels) -> Result<Thresholds> {
        self.solve_from(s, labels, &[])
    }

    /// [`solve`](RateProblem::solve) from a guess, such as the thresholds of the step before; an empty one for none.
    pub fn solve_from(&self, s: impl AsF64, labels: &Labels, warm: &[f64]) -> Result<Thresholds> {
        solve::thresholds(self, &Scored::lent(&s, labels)?, warm)
    }

    /// Thresholds by counting: what a decision uses after training.
    ///
    /// Each is the lowest at which a false positive rate (or coverage) does not exceed its target, the highest at which
    /// a true positive rate reaches it, or the lowest at which a precision does. Rule: s > t. Fails: as
    /// [`solve`](RateProblem::solve).
    /// Book: `rate/samples.md#eq-rate-samples-transfer`.
    pub fn hard_thresholds(&self, s: impl AsF64, labels: &Labels) -> Result<Vec<f64>> {
        solve::hard_thresholds(self, &Scored::lent(&s, labels)?)
    }

    /// Value, multipliers and the derivative in every score at given thresholds.
    ///
    /// The formula does not contain the targets: at thresholds that do not solve the constraints it is the derivative
    /// along the scores that keep the present rates. Weights are normalised before they are divided, so that a sharp
    /// surrogate whose slopes all underflow still has a finite result. Host: all scores, in f64. Cost: O(n m + m³),
    /// without the cube where each constraint has its own threshold. Fails: as [`solve`](RateProblem::solve).
    /// Checked by `tests/rate/problem.rs::cotangent_is_the_derivative_by_finite_differences`.
    /// Book: `rate/implicit.md#eq-rate-implicit-adjoint`, `#eq-rate-implicit-slope`.
    pub fn adjoint(&self, s: impl AsF64, labels: &Labels, t: &[f64]) -> Result<Adjoint> {
        let scored = Scored::lent(&s, labels)?;
        let (adjoint, column) = self.implicit(&scored, t)?;
        Ok(Adjoint { cotangent: scored.list(column)?, ..adjoint })
    }

    /// The same where the scores are, the cotangent apart.
    pub(super) fn implicit(&self, scored: &Scored, t: &[f64]) -> Result<(Adjoint, Column)> {
        let rows = self.rows(scored, t)?;
        let f = scored.slopes(&[&self.objective], t, self.surrogate)?.swap_remove(0);
        let solved = self.multipliers(&f.by_threshold, &rows);
        let fold = solved.is_none();
        let scaled = solved.unwrap_or_else(|| vec![0.0; self.m()]);
        let mut column = f.by_score;
        scaled.iter().zip(&rows).for_each(|(multiplier, row)| column.add(*multiplier, &row.by_score));
        // Infinite where the slopes underflow, but never the product of zero and infinity.
        let whole =
            |(scaled, row): (&f64, &Row)| if *scaled == 0.0 { 0.0 } else { scaled * (-row.shift).exp() };
        let adjoint = Adjoint {
            objective: f.value,
            constraints: rows.iter().map(|row| row.value).collect(),
            multiplier: scaled.iter().zip(&rows).map(whole).collect(),
            cotangent: Vec::new(),
            fold,
        };
        Ok((adjoint, column))
    }

    /// How each threshold moves with each score, m lists of n: the implicit function theorem, −(∂g/∂t)⁻¹ ∂g/∂s.
    ///
    /// A threshold of one monotone rate moves by a weighted mean: its list is not negative and sums to 1.
    /// Fails: as [`solve`](RateProblem::solve), and `Solve` at a fold.
    /// Book: `rate/implicit.md#eq-rate-implicit-omega`, `#eq-rate-implicit-softmax`.
    pub fn sensitivity(&self, s: impl AsF64, labels: &Labels, t: &[f64]) -> Result<Vec<Vec<f64>>> {
        let scored = Scored::lent(&s, labels)?;
        self.following(&scored, t)?.into_iter().map(|column| scored.list(column)).collect()
    }

    /// The same where the scores are.
    pub(super) fn following(&self, scored: &Scored, t: &[f64]) -> Result<Vec<Column>> {
        let rows = self.rows(scored, t)?;
        let follows = |k: usize| {
            // Row k of the inverse: an adjoint whose objective is threshold k itself.
            let mut unit = vec![0.0; self.m()];
            unit[k] = 1.0;
            let multipliers = self.multipliers(&unit, &rows).ok_or_else(|| {
                let hint = "two thresholds meet here, so they are no function of the scores".to_string();
                Error::Solve { solver: "implicit thresholds".into(), iters: 0, residual: 0.0, hint }
            })?;
            let mut column = scored.zeros();
            multipliers
                .iter()
                .zip(&rows)
                .for_each(|(multiplier, row)| column.add(*multiplier, &row.by_score));
            Ok(column)
        };
        (0..self.m()).map(follows).collect()
    }

    /// The objective at given thresholds as a loss with the implicit gradient, from one backward pass.
    ///
    /// ```text
    /// loss = Σ_i c_i s_i + constant,   its value that of f
    /// ```
    /// Shapes: `s` (n) → scalar, on the scores' device, where all but sums is computed, in f64. Fails: as
    /// [`adjoint`](RateProblem::adjoint).
    /// Book: `rate/decoupled.md#eq-rate-one-pass`.
    pub fn loss(&self, s: &Tensor, labels: &Labels, t: &[f64]) -> Result<Tensor> {
        let (adjoint, column) = self.implicit(&Scored::of(s, labels)?, t)?;
        with_gradient_of(s, column.tensor(s)?, adjoint.objective)
    }

    /// The implicit gradient in tensor operations: f + Σ μ_k g_k with constant thresholds and multipliers.
    ///
    /// Shapes: `s` (n) → scalar, on the scores' device. For reading and checking; [`loss`](RateProblem::loss) is faster.
    /// Book: `rate/decoupled.md#eq-rate-one-pass`.
    pub fn lagrangian(&self, s: &Tensor, labels: &Labels, t: &[f64], multiplier: &[f64]) -> Result<Tensor> {
        let objective = self.objective.tensor(s, labels, t, self.surrogate)?;
        Ok((objective + self.constraint_sum(s, labels, t, multiplier)?)?)
    }

    /// Σ μ_k g_k with constant thresholds and multipliers, as a tensor.
    pub(super) fn constraint_sum(
        &self,
        s: &Tensor,
        labels: &Labels,
        t: &[f64],
        multiplier: &[f64],
    ) -> Result<Tensor> {
        ensure_shape("multipliers of a rate problem", self.m(), multiplier.len())?;
        let mut total = Tensor::zeros((), s.dtype(), s.device())?;
        for (g, multiplier) in self.constraints.iter().zip(multiplier) {
            total = (total + (g.tensor(s, labels, t, self.surrogate)? * *multiplier)?)?;
        }
        Ok(total)
    }

    /// Exact rates at thresholds, with intervals of level 0.95 and targets.
    ///
    /// Shapes: `s` (n), `t` (m) → a row per rate. Fails: as [`solve`](RateProblem::solve), and `Shape` unless there are m
    /// thresholds.
    pub fn report(&self, s: impl AsF64, labels: &Labels, t: &[f64]) -> Result<Table> {
        let scored = Scored::lent(&s, labels)?;
        let s = scored.on_host()?;
        ensure_shape("thresholds of a rate problem", self.m(), t.len())?;
        let mut table = Table::new(&["role", "rate", "exact, 95 % interval", "target"]);
        let roles = std::iter::once(("minimise", &self.objective))
            .chain(self.constraints.iter().map(|g| ("constrain", g)));
        for (role, sum) in roles {
            for term in &sum.terms {
                let own = RateSum { terms: vec![term.weight(1.0)], constant: 0.0 };
                let (hits, n) = own.successes(&s, labels, t)?;
                let target = match role {
                    "constrain" if sum.terms.len() == 1 => Cell::from(-sum.constant / term.weight),
                    "constrain" if self.kind != Kind::Fixed => Cell::from("equal"),
                    _ => Cell::from(""),
                };
                table = table.row((role, term.name(), rate_interval(hits, n, 0.95)?, target))?;
            }
        }
        Ok(table)
    }

    fn rows(&self, scored: &Scored, t: &[f64]) -> Result<Vec<Row>> {
        ensure_shape("thresholds of a rate problem", self.m(), t.len())?;
        scored.constraints(&self.constraints, t, self.surrogate)
    }

    /// μ of the scaled rows for an objective with these slopes in the thresholds; none where the thresholds are no
    /// function of the scores.
    fn multipliers(&self, by_threshold: &[f64], rows: &[Row]) -> Option<Vec<f64>> {
        let m = self.m();
        if self.kind.is_diagonal() {
            let one = |k: usize| {
                let slope = rows[k].by_threshold[k];
                (slope.abs() > FOLD * rows[k].size).then(|| -by_threshold[k] / slope)
            };
            return (0..m).map(one).collect();
        }
        let transposed = Array2::from_shape_fn((m, m), |(k, row)| rows[row].by_threshold[k]);
        let right = Array1::from_iter(by_threshold.iter().map(|d| -d));
        linalg::solve(&transposed, &right).ok().map(|x| x.to_vec())
    }

    /// Shows objective, constraints and surrogate.
    pub fn evcxr_display(&self) {
        let text = |sum: &RateSum| sum.to_string();
        let mut rows = vec![("minimise".to_string(), Cell::Text(text(&self.objective)))];
        let side = |sense: &Sense| match sense {
            Sense::Equal => "constrain, = 0",
            Sense::AtMost => "constrain, ≤ 0",
            Sense::AtLeast => "constrain, ≥ 0",
        };
        let sides = self.senses.iter().map(|sense| side(sense).to_string());
        rows.extend(sides.zip(self.constraints.iter().map(|g| Cell::Text(text(g)))));
        rows.push(("surrogate".to_string(), Cell::Text(format!("{:?}", self.surrogate))));
        Table::pairs("role", "what", rows).evcxr_display();
    }
}

/// A constraint whose slope in its threshold is this small beside those in the scores has a fold there.
const FOLD: f64 = 1e-9;

impl Adjoint {
    /// Shows objective, constraints and multipliers.
    pub fn evcxr_display(&self) {
        let rows = vec![
            ("objective".to_string(), Cell::from(self.objective)),
            ("constraints".to_string(), Cell::from(self.constraints.clone())),
            ("multipliers".to_string(), Cell::from(self.multiplier.clone())),
            ("sum of the cotangent".to_string(), Cell::from(self.cotangent.iter().sum::<f64>())),
        ];
        Table::pairs("", "value", rows).evcxr_display();
    }
}

impl Thresholds {
    /// Shows the thresholds and how they were found.
    pub fn evcxr_display(&self) {
        let text =
            format!("thresholds {:?} after {} passes, residual {:.1e}", self.t, self.passes, self.residual);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}
