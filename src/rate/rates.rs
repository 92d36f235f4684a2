//! Rates, and sums of rates, with their derivatives in scores and thresholds.

use std::collections::BTreeMap;

use candle_core::Tensor;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::labels::{Labels, Within};
use super::surrogate::Surrogate;
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::Numbers;

/// A share of decisions, each of the form s > t.
///
/// Book: `rate/smooth.md#eq-rate-smooth`.
///
/// ```
/// use lastlayer::prelude::*;
/// let (s, labels) = ([0.2, 0.8, 0.4], Labels::new([0, 1, 1])?);
/// let missed = Rate::FalseNegative.minus(0.0);
/// assert_eq!(missed.count(s, &labels, &[0.5])?, 0.5);
/// assert_eq!(Rate::Precision.minus(0.0).count(s, &labels, &[0.5])?, 1.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rate {
    /// Negatives above the threshold, over all negatives.
    FalsePositive,
    /// Positives not above it, over all positives.
    FalseNegative,
    /// Positives above it, over all positives: recall.
    TruePositive,
    /// Negatives not above it, over all negatives.
    TrueNegative,
    /// Positives above it, over all above it. The one ratio here: not monotone in the threshold.
    Precision,
    /// Samples above it, over all samples.
    Coverage,
    /// Wrong decisions, over all samples.
    Error,
}

/// At which threshold a rate is taken: the same for all, or one for those with an attribute and one for the others.
///
/// ```
/// use lastlayer::prelude::*;
/// use lastlayer::rate::{At, RateSum};
/// // A threshold of its own for those with attribute 0, and another for the rest.
/// let both = At::ByAttribute { attribute: 0, with: 0, without: 1 };
/// let alarms = RateSum { terms: vec![Rate::FalsePositive.term().at(both)], constant: 0.0 };
/// let labels = Labels::new([0, 0])?.with_attributes(ndarray::array![[1], [0]])?;
/// assert_eq!(alarms.count([1.0, 1.0], &labels, &[0.0, 2.0])?, 0.5);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    Threshold(usize),
    ByAttribute { attribute: usize, with: usize, without: usize },
}

/// A rate with a weight.
///
/// ```
/// use lastlayer::prelude::*;
/// use lastlayer::rate::RateSum;
/// // Misses cost twice as much as false alarms.
/// let cost = vec![Rate::FalseNegative.term().weight(2.0), Rate::FalsePositive.term()];
/// let cost = RateSum { terms: cost, constant: 0.0 };
/// assert_eq!(cost.count([0.0, 1.0], &Labels::new([1, 0])?, &[0.5])?, 3.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    pub weight: f64,
    pub rate: Rate,
    pub within: Within,
    pub at: At,
}

/// A weighted sum of rates and a constant: an objective, or a constraint that compares it with zero.
///
/// ```text
/// g(s, t) = constant + Σ weight · rate(s, t)
/// ```
/// Checked by `tests/rate/smooth.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let alarms = Rate::FalsePositive.minus(0.1);
/// assert_eq!(alarms.to_string(), "false positive rate − 0.1");
/// let (s, labels) = ([0.0, 2.0], Labels::new([0, 0])?);
/// assert!((alarms.count(s, &labels, &[1.0])? - 0.4).abs() < 1e-12);
/// let smooth = alarms.slopes(s, &labels, &[1.0], Surrogate::sigmoid(3.0))?;
/// assert!((smooth.value - 0.4).abs() < 1e-12); // σ(u) + σ(−u) = 1
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateSum {
    pub terms: Vec<Term>,
    pub constant: f64,
}

/// Value of a sum of rates and its derivatives.
///
/// ```
/// use lastlayer::prelude::*;
/// let alarms = Rate::FalsePositive.minus(0.1);
/// let found = alarms.slopes([0.0], &Labels::new([0])?, &[0.0], Surrogate::sigmoid(2.0))?;
/// assert_eq!(found.by_score, [0.5]); // τ/4, where a sigmoid is steepest
/// assert_eq!(found.by_threshold, [-0.5]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Slopes {
    pub value: f64,
    /// Derivative in each score (n).
    pub by_score: Vec<f64>,
    /// Derivative in each threshold (m). As every rate depends on s − t only, scores and their own threshold cancel.
    pub by_threshold: Vec<f64>,
}

/// Thresholds that one thread takes at a time.
const PIECE: usize = 16;

impl Rate {
    /// The rate in a sum, with weight 1, among all samples, at the first threshold.
    pub fn term(self) -> Term {
        Term { weight: 1.0, rate: self, within: Within::All, at: At::Threshold(0) }
    }

    /// The sum rate − target, which a constraint compares with zero.
    pub fn minus(self, target: f64) -> RateSum {
        RateSum { terms: vec![self.term()], constant: -target }
    }

    /// Weights of positives and of negatives above the threshold, and the constant: the rate is
    /// constant + Σ weight · [s > t]. `None` for precision.
    fn weights(self, positives: usize, negatives: usize) -> Option<(f64, f64, f64)> {
        let (p, n) = (positives as f64, negatives as f64);
        Some(match self {
            Rate::FalsePositive => (0.0, 1.0 / n, 0.0),
            Rate::FalseNegative => (-1.0 / p, 0.0, 1.0),
            Rate::TruePositive => (1.0 / p, 0.0, 0.0),
            Rate::TrueNegative => (0.0, -1.0 / n, 1.0),
            Rate::Coverage => (1.0 / (p + n), 1.0 / (p + n), 0.0),
            Rate::Error => (-1.0 / (p + n), 1.0 / (p + n), p / (p + n)),
            Rate::Precision => return None,
        })
    }

    /// Whether less of it is wanted: a constraint then allows at most its target, and otherwise asks for at least that.
    pub(super) fn is_cost(self) -> bool {
        use Rate::{Coverage, Error, FalseNegative, FalsePositive};
        matches!(self, FalsePositive | FalseNegative | Coverage | Error)
    }

    /// Whether the rate has members to count.
    pub(super) fn counted(self, (positives, negatives): (usize, usize), within: Within) -> Result<()> {
        let (missing, kind) = match self {
            Rate::FalsePositive | Rate::TrueNegative => (negatives == 0, "negative"),
            Rate::FalseNegative | Rate::TruePositive | Rate::Precision => (positives == 0, "positive"),
            Rate::Coverage | Rate::Error => (positives + negatives == 0, "member"),
        };
        if !missing {
            return Ok(());
        }
        let whom = match within {
            Within::All => String::new(),
            Within::With(attribute) => format!(" with attribute {attribute}"),
            Within::Without(attribute) => format!(" without attribute {attribute}"),
        };
        let why = format!("there is no {kind}{whom}; take larger or stratified batches");
        Err(Error::data("labels", why))
    }
}

impl At {
    /// Index of the threshold that decides a sample.
    fn index(self, labels: &Labels, i: usize) -> usize {
        match self {
            At::Threshold(k) => k,
            At::ByAttribute { attribute, with, without } => {
                if labels.is_within(Within::With(attribute), i) {
                    with
                } else {
                    without
                }
            }
        }
    }
}

impl Term {
    /// The same with another weight.
    pub fn weight(self, weight: f64) -> Term {
        Term { weight, ..self }
    }

    /// The same among a group only.
    pub fn within(self, within: Within) -> Term {
        Term { within, ..self }
    }

    /// The same at another threshold.
    pub fn at(self, at: At) -> Term {
        Term { at, ..self }
    }

    /// Columns of the attributes that it refers to.
    pub(super) fn attributes(&self) -> impl Iterator<Item = usize> {
        let group = match self.within {
            Within::All => None,
            Within::With(attribute) | Within::Without(attribute) => Some(attribute),
        };
        let chooser = match self.at {
            At::Threshold(_) => None,
            At::ByAttribute { attribute, .. } => Some(attribute),
        };
        group.into_iter().chain(chooser)
    }

    /// TP / (TP + FP), and its derivatives by the rule for quotients.
    fn add_precision(
        &self,
        s: &[f64],
        labels: &Labels,
        t: &[f64],
        slope: impl Fn(f64) -> (f64, f64),
        sum: &mut Slopes,
    ) -> Result<()> {
        let members = || (0..s.len()).filter(|i| labels.is_within(self.within, *i));
        let (mut tp, mut fp) = (0.0, 0.0);
        for i in members() {
            let share = slope(s[i] - t[self.at.index(labels, i)]).0;
            *if labels.is_positive(i) { &mut tp } else { &mut fp } += share;
        }
        let above: f64 = tp + fp;
        if above < f64::MIN_POSITIVE {
            let why = "no score is above the threshold, so precision has no value; lower the threshold";
            return Err(Error::data("scores", why));
        }
        sum.value += self.weight * tp / above;
        for i in members() {
            let k = self.at.index(labels, i);
            let gain = if labels.is_positive(i) { fp } else { -tp };
            let by_score = self.weight * gain / (above * above) * slope(s[i] - t[k]).1;
            sum.by_score[i] += by_score;
            sum.by_threshold[k] -= by_score;
        }
        Ok(())
    }
}

/// Terms at one threshold with one weight for each sample: constant + Σ weight(i) · [s_i > t], and precisions, which
/// are not of this form.
///
/// A convex bound is taken of this sum and not of its terms: where one rate is taken from another, most of a sample's
/// weights cancel. Book: `rate/games.md#eq-rate-merged`.
struct Merged {
    at: At,
    constant: f64,
    /// Weights of positives and of negatives above the threshold, by group.
    parts: Vec<(Within, f64, f64)>,
    precisions: Vec<Term>,
}

impl Merged {
    fn of(at: At, terms: &[Term], labels: &Labels) -> Result<Merged> {
        let mut merged = Merged { at, constant: 0.0, parts: Vec::new(), precisions: Vec::new() };
        for term in terms {
            let counts = labels.counts(term.within)?;
            term.rate.counted(counts, term.within)?;
            match term.rate.weights(counts.0, counts.1) {
                Some((on_positive, on_negative, constant)) => {
                    merged.constant += term.weight * constant;
                    merged.parts.push((term.within, term.weight * on_positive, term.weight * on_negative));
                }
                None => merged.precisions.push(*term),
            }
        }
        Ok(merged)
    }

    fn weight(&self, labels: &Labels, i: usize) -> f64 {
        let own = self.parts.iter().filter(|(within, ..)| labels.is_within(*within, i));
        own.map(|(_, positive, negative)| if labels.is_positive(i) { positive } else { negative }).sum()
    }

    /// Adds value and derivatives to `sum`; slopes are e^shift times smaller than they are.
    fn add(
        &self,
        s: &[f64],
        labels: &Labels,
        t: &[f64],
        surrogate: Surrogate,
        shift: f64,
        sum: &mut Slopes,
    ) -> Result<()> {
        let slope = |u: f64| match shift {
            0.0 => surrogate.value_and_slope(u),
            _ => (surrogate.value(u), (surrogate.log_slope(u) - shift).exp()),
        };
        sum.value += self.constant;
        for (i, s) in s.iter().enumerate() {
            let weight = self.weight(labels, i);
            if weight == 0.0 {
                continue;
            }
            let k = self.at.index(labels, i);
            let u = s - t[k];
            // Where "above" helps, a convex bound must stand on the other side: 1 − h(−u) instead of h(u).
            let (value, slope) = match weight > 0.0 || surrogate.is_bounded() {
                true => slope(u),
                false => {
                    let (value, slope) = slope(-u);
                    (1.0 - value, slope)
                }
            };
            sum.value += weight * value;
            sum.by_score[i] += weight * slope;
            sum.by_threshold[k] -= weight * slope;
        }
        self.precisions.iter().try_for_each(|term| term.add_precision(s, labels, t, slope, sum))
    }

    /// The same value as a tensor.
    fn tensor(&self, s: &Tensor, labels: &Labels, t: &[f64], surrogate: Surrogate) -> Result<Tensor> {
        let each = |f: &dyn Fn(usize) -> f64| {
            let values: Vec<f64> = (0..labels.n()).map(f).collect();
            Ok::<_, Error>(Tensor::new(values, s.device())?.to_dtype(s.dtype())?)
        };
        let u = s.sub(&each(&|i| t[self.at.index(labels, i)])?)?;
        let (above, below) = (surrogate.of(&u)?, (1.0 - surrogate.of(&u.neg()?)?)?);
        let hurts = (&above * each(&|i| self.weight(labels, i).max(0.0))?)?.sum_all()?;
        let helps = (below * each(&|i| self.weight(labels, i).min(0.0))?)?.sum_all()?;
        let mut total = ((hurts + helps)? + self.constant)?;
        for term in &self.precisions {
            let inside = |i: usize| f64::from(u8::from(labels.is_within(term.within, i)));
            let right = |i: usize| if labels.is_positive(i) { inside(i) } else { 0.0 };
            let (tp, all) = ((&above * each(&right)?)?.sum_all()?, (&above * each(&inside)?)?.sum_all()?);
            total = (total + ((tp / all)? * term.weight)?)?;
        }
        Ok(total)
    }
}

impl RateSum {
    /// Its terms by the threshold that they are taken at.
    fn by_threshold(&self) -> Vec<(At, Vec<Term>)> {
        let mut groups: BTreeMap<At, Vec<Term>> = BTreeMap::new();
        self.terms.iter().for_each(|term| groups.entry(term.at).or_default().push(*term));
        groups.into_iter().collect()
    }

    /// The same times a factor, with every decision at the first threshold.
    pub(super) fn priced(&self, factor: f64) -> RateSum {
        let term = |term: &Term| term.weight(factor * term.weight).at(At::Threshold(0));
        RateSum { terms: self.terms.iter().map(term).collect(), constant: factor * self.constant }
    }

    /// A precision that stands alone times its denominator, in units of the positives; other sums as they are.
    ///
    /// ```text
    /// TP/(TP + FP) − ρ   and   ((1 − ρ) TP − ρ FP) / positives   have the same sign
    /// ```
    pub(super) fn cleared(&self, labels: &Labels) -> Result<RateSum> {
        let [Term { rate: Rate::Precision, weight, within, at }] = self.terms[..] else {
            return Ok(self.clone());
        };
        let (positives, negatives) = labels.counts(within)?;
        let target = -self.constant / weight;
        let right = Rate::TruePositive.term().weight(weight * (1.0 - target));
        let wrong = Rate::FalsePositive.term().weight(-weight * target * negatives as f64 / positives as f64);
        // Without negatives there is no rate of them either.
        let terms = [right, wrong].into_iter().filter(|term| term.weight != 0.0);
        Ok(RateSum { terms: terms.map(|term| term.within(within).at(at)).collect(), constant: 0.0 })
    }

    /// Whether scores, labels and thresholds fit these rates.
    fn check(&self, n: usize, labels: &Labels, t: &[f64]) -> Result<()> {
        ensure_shape("scores of a rate", labels.n(), n)?;
        if self.thresholds() > t.len() {
            return Err(Error::shape(
                "thresholds of a rate",
                format!("at least {}", self.thresholds()),
                t.len(),
            ));
        }
        for attribute in self.terms.iter().flat_map(Term::attributes) {
            labels.attribute(attribute)?;
        }
        Ok(())
    }

    /// Largest index of a threshold, plus one.
    pub(super) fn thresholds(&self) -> usize {
        let used = self.terms.iter().map(|term| match term.at {
            At::Threshold(k) => k + 1,
            At::ByAttribute { with, without, .. } => with.max(without) + 1,
        });
        used.max().unwrap_or(0)
    }

    /// Smooth value and derivatives at scores (n) and thresholds (m).
    ///
    /// An unbounded surrogate bounds the sum of what a sample weighs in all terms at its threshold, not each term. Cost: O(n)
    /// per term. Fails: `Shape` unless there is a score per label and a threshold for every term, `Config` for an
    /// attribute that the labels lack, `Data` if a class or a group of a rate has no member.
    /// Book: `rate/smooth.md#eq-rate-smooth-gradient`, `#eq-rate-smooth-shift`, `rate/games.md#eq-rate-merged`.
    pub fn slopes(
        &self,
        s: impl Numbers,
        labels: &Labels,
        t: &[f64],
        surrogate: Surrogate,
    ) -> Result<Slopes> {
        self.shifted_slopes(&s.numbers()?, labels, t, surrogate, 0.0)
    }

    /// The same with derivatives divided by e^shift, which may be finite where they themselves underflow.
    pub(super) fn shifted_slopes(
        &self,
        s: &[f64],
        labels: &Labels,
        t: &[f64],
        surrogate: Surrogate,
        shift: f64,
    ) -> Result<Slopes> {
        self.check(s.len(), labels, t)?;
        // Fixed pieces, so that the result does not depend on the number of threads.
        let some = |groups: &[(At, Vec<Term>)]| -> Result<Slopes> {
            let mut sum =
                Slopes { value: 0.0, by_score: vec![0.0; s.len()], by_threshold: vec![0.0; t.len()] };
            for (at, terms) in groups {
                Merged::of(*at, terms, labels)?.add(s, labels, t, surrogate, shift, &mut sum)?;
            }
            Ok(sum)
        };
        let groups = self.by_threshold();
        if groups.len() <= PIECE {
            let sum = some(&groups)?;
            return Ok(Slopes { value: sum.value + self.constant, ..sum });
        }
        let parts = groups.par_chunks(PIECE).map(some).collect::<Result<Vec<_>>>()?;
        let mut parts = parts.into_iter();
        let mut sum =
            parts.next().unwrap_or_else(|| Slopes { value: 0.0, by_score: vec![], by_threshold: vec![] });
        sum.value += self.constant;
        for part in parts {
            sum.value += part.value;
            sum.by_score.iter_mut().zip(part.by_score).for_each(|(a, b)| *a += b);
            sum.by_threshold.iter_mut().zip(part.by_threshold).for_each(|(a, b)| *a += b);
        }
        Ok(sum)
    }

    /// Largest logarithm of a slope among the samples that count.
    pub(super) fn largest_log_slope(
        &self,
        s: &[f64],
        labels: &Labels,
        t: &[f64],
        surrogate: Surrogate,
    ) -> f64 {
        let mut most = f64::NEG_INFINITY;
        for term in &self.terms {
            let (p, n) = match term.rate {
                Rate::FalsePositive | Rate::TrueNegative => (false, true),
                Rate::FalseNegative | Rate::TruePositive => (true, false),
                Rate::Precision | Rate::Coverage | Rate::Error => (true, true),
            };
            let counts =
                |i: &usize| (if labels.is_positive(*i) { p } else { n }) && labels.is_within(term.within, *i);
            for i in (0..s.len()).filter(counts) {
                most = most.max(surrogate.log_slope(s[i] - t[term.at.index(labels, i)]));
            }
        }
        most
    }

    /// Exact value, counted with the strict rule s > t.
    ///
    /// Fails: as [`slopes`](RateSum::slopes), and `Data` if nothing is above the threshold of a precision.
    /// Book: `rate/smooth.md#eq-rate-smooth-gap`.
    pub fn count(&self, s: impl Numbers, labels: &Labels, t: &[f64]) -> Result<f64> {
        let s = s.numbers()?;
        self.check(s.len(), labels, t)?;
        let mut value = self.constant;
        for term in &self.terms {
            let counts = labels.counts(term.within)?;
            term.rate.counted(counts, term.within)?;
            let (mut tp, mut fp) = (0usize, 0usize);
            for (i, s) in s.iter().enumerate() {
                if labels.is_within(term.within, i) && *s > t[term.at.index(labels, i)] {
                    *if labels.is_positive(i) { &mut tp } else { &mut fp } += 1;
                }
            }
            value += term.weight
                * match term.rate.weights(counts.0, counts.1) {
                    Some((on_positive, on_negative, constant)) => {
                        constant + on_positive * tp as f64 + on_negative * fp as f64
                    }
                    None if tp + fp == 0 => {
                        let why =
                            "no score is above the threshold, so precision has no value; lower the threshold";
                        return Err(Error::data("scores", why));
                    }
                    None => tp as f64 / (tp + fp) as f64,
                };
        }
        Ok(value)
    }

    /// Smooth value as a tensor that knows its gradient in the scores, with constant thresholds, on their device.
    ///
    /// Shapes: `s` (n), `t` (m) → scalar. The same number as [`slopes`](RateSum::slopes), in the scores' own precision.
    /// Fails: as [`slopes`](RateSum::slopes).
    pub fn tensor(&self, s: &Tensor, labels: &Labels, t: &[f64], surrogate: Surrogate) -> Result<Tensor> {
        self.check(s.elem_count(), labels, t)?;
        let mut total = Tensor::new(self.constant, s.device())?.to_dtype(s.dtype())?;
        for (at, terms) in self.by_threshold() {
            total = (total + Merged::of(at, &terms, labels)?.tensor(s, labels, t, surrogate)?)?;
        }
        Ok(total)
    }

    /// Shows the sum in words.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(self.to_string());
    }

    /// Successes and trials of a sum that is one rate.
    pub(super) fn successes(&self, s: &[f64], labels: &Labels, t: &[f64]) -> Result<(usize, usize)> {
        let term = self.terms[0];
        let (positives, negatives) = labels.counts(term.within)?;
        let value = self.count(s, labels, t)?;
        let trials = match term.rate {
            Rate::FalsePositive | Rate::TrueNegative => negatives,
            Rate::FalseNegative | Rate::TruePositive => positives,
            Rate::Coverage | Rate::Error => positives + negatives,
            Rate::Precision => {
                let all = RateSum { terms: vec![Term { rate: Rate::Coverage, ..term }], constant: 0.0 };
                (all.count(s, labels, t)? * (positives + negatives) as f64).round() as usize
            }
        };
        Ok(((value * trials as f64).round() as usize, trials))
    }
}

impl Term {
    /// The rate in words.
    pub(super) fn name(&self) -> String {
        let rate = match self.rate {
            Rate::FalsePositive => "false positive rate",
            Rate::FalseNegative => "false negative rate",
            Rate::TruePositive => "true positive rate",
            Rate::TrueNegative => "true negative rate",
            Rate::Precision => "precision",
            Rate::Coverage => "coverage",
            Rate::Error => "error",
        };
        let group = match self.within {
            Within::All => String::new(),
            Within::With(attribute) => format!(", with attribute {attribute}"),
            Within::Without(attribute) => format!(", without attribute {attribute}"),
        };
        match self.at {
            At::Threshold(0) | At::ByAttribute { .. } => format!("{rate}{group}"),
            At::Threshold(k) => format!("{rate}{group}, at threshold {k}"),
        }
    }
}

impl std::fmt::Display for RateSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            let sign = if term.weight < 0.0 { "−" } else { "+" };
            match (i, sign) {
                (0, "+") => {}
                (0, _) => write!(f, "−")?,
                _ => write!(f, " {sign} ")?,
            }
            if term.weight.abs() != 1.0 {
                write!(f, "{} · ", term.weight.abs())?;
            }
            write!(f, "{}", term.name())?;
        }
        match self.constant {
            0.0 => Ok(()),
            constant if constant < 0.0 => write!(f, " − {}", -constant),
            constant => write!(f, " + {constant}"),
        }
    }
}
