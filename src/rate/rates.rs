//! Rates, and sums of rates, with their derivatives in scores and thresholds.

use std::collections::BTreeMap;

use candle_core::Tensor;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::labels::{Flags, Labels, Within};
use super::surrogate::Surrogate;
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::{AsF64, to_tensor};

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
    fn attribute(self) -> Option<usize> {
        match self {
            At::Threshold(_) => None,
            At::ByAttribute { attribute, .. } => Some(attribute),
        }
    }

    /// Index of the threshold that decides the samples in a cell of some attributes.
    fn index(self, attributes: &[usize], cell: usize) -> usize {
        match self {
            At::Threshold(k) => k,
            At::ByAttribute { attribute, with, without } => {
                if Within::With(attribute).holds(attributes, cell) { with } else { without }
            }
        }
    }
}

impl Term {
    /// This term with another weight.
    pub fn weight(self, weight: f64) -> Term {
        Term { weight, ..self }
    }

    /// This term among a group only.
    pub fn within(self, within: Within) -> Term {
        Term { within, ..self }
    }

    /// This term at another threshold.
    pub fn at(self, at: At) -> Term {
        Term { at, ..self }
    }

    /// Columns of the attributes that it refers to.
    pub(super) fn attributes(&self) -> impl Iterator<Item = usize> {
        self.within.attribute().into_iter().chain(self.at.attribute())
    }

    /// Cells as this term alone has them, and which of them its rate counts.
    pub(super) fn members(&self) -> (Cells, Vec<bool>) {
        let cells = Cells::of(self.at, &[*self]);
        let of_class = |class| match self.rate {
            Rate::FalsePositive | Rate::TrueNegative => class == 0,
            Rate::FalseNegative | Rate::TruePositive => class == 1,
            Rate::Precision | Rate::Coverage | Rate::Error => true,
        };
        let counts = |cell: usize| of_class(cell & 1) && self.within.holds(&cells.attributes, cell);
        let counts = (0..cells.threshold.len()).map(counts).collect();
        (cells, counts)
    }

    /// Positives and negatives of its group above the threshold, of those in each cell.
    fn above<T: Copy + std::iter::Sum>(&self, cells: &Cells, each: &[T]) -> (T, T) {
        let of = |class: usize| {
            let own = (0..each.len()).filter(|c| c & 1 == class && self.within.holds(&cells.attributes, *c));
            own.map(|c| each[c]).sum()
        };
        (of(1), of(0))
    }

    /// TP / (TP + FP), and what a unit of mass above the threshold adds to it, by class: the rule for quotients.
    fn precision(&self, tp: f64, fp: f64) -> Result<(f64, [f64; 2])> {
        let above = tp + fp;
        if above < f64::MIN_POSITIVE {
            let why = "no score is above the threshold, so precision has no value; lower the threshold";
            return Err(Error::data("scores", why));
        }
        let by_class = [-tp, fp].map(|gain| self.weight * gain / (above * above));
        Ok((self.weight * tp / above, by_class))
    }
}

/// Samples that are alike to some terms at one threshold: of one class, and alike in the attributes that these terms ask
/// for. Cell number: bit 0 is the class, bit j + 1 whether they have attribute j of the list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cells {
    pub attributes: Vec<usize>,
    /// Index of the threshold of each cell.
    pub threshold: Vec<usize>,
}

impl Cells {
    fn of(at: At, terms: &[Term]) -> Cells {
        let mut attributes: Vec<usize> = terms.iter().flat_map(Term::attributes).collect();
        attributes.sort_unstable();
        attributes.dedup();
        let threshold = (0..2usize << attributes.len()).map(|cell| at.index(&attributes, cell)).collect();
        Cells { attributes, threshold }
    }
}

/// Terms at one threshold with one weight for each sample: constant + Σ weight(i) · [s_i > t], and precisions, which
/// are not of this form.
///
/// A convex bound is taken of this sum and not of its terms: where one rate is taken from another, most of a sample's
/// weights cancel. Book: `rate/games.md#eq-rate-merged`.
pub(super) struct Merged {
    pub cells: Cells,
    pub constant: f64,
    /// Weight above the threshold of the samples in each cell.
    pub weight: Vec<f64>,
    precisions: Vec<Term>,
}

impl Merged {
    fn of(at: At, terms: &[Term], labels: &Labels) -> Result<Merged> {
        let cells = Cells::of(at, terms);
        let (mut constant, mut parts, mut precisions) = (0.0, Vec::new(), Vec::new());
        for term in terms {
            let counts = labels.counts(term.within)?;
            term.rate.counted(counts, term.within)?;
            match term.rate.weights(counts.0, counts.1) {
                Some((on_positive, on_negative, own)) => {
                    constant += term.weight * own;
                    parts.push((term.within, [term.weight * on_negative, term.weight * on_positive]));
                }
                None => precisions.push(*term),
            }
        }
        let weight = |cell: usize| {
            let own = parts.iter().filter(|(within, _)| within.holds(&cells.attributes, cell));
            own.map(|(_, by_class)| by_class[cell & 1]).sum()
        };
        let weight = (0..cells.threshold.len()).map(weight).collect();
        Ok(Merged { cells, constant, weight, precisions })
    }

    /// Whether a convex bound of a cell's step must stand on its other side, 1 − h(−u) instead of h(u): where "above" helps.
    pub fn turned(&self, cell: usize, surrogate: Surrogate) -> bool {
        self.weight[cell] < 0.0 && !surrogate.is_bounded()
    }

    /// Adds value and derivatives to `sum`; slopes are e^shift times smaller than they are.
    fn add(
        &self,
        s: &[f64],
        flags: &Flags,
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
        let Cells { attributes, threshold } = &self.cells;
        if self.weight.iter().any(|weight| *weight != 0.0) {
            for (i, s) in s.iter().enumerate() {
                let cell = flags.cell(attributes, i);
                let weight = self.weight[cell];
                if weight == 0.0 {
                    continue;
                }
                let k = threshold[cell];
                let u = s - t[k];
                let (value, slope) = match self.turned(cell, surrogate) {
                    false => slope(u),
                    true => {
                        let (value, slope) = slope(-u);
                        (1.0 - value, slope)
                    }
                };
                sum.value += weight * value;
                sum.by_score[i] += weight * slope;
                sum.by_threshold[k] -= weight * slope;
            }
        }
        for term in &self.precisions {
            let members = || {
                let cells = (0..s.len()).map(|i| (i, flags.cell(attributes, i)));
                cells.filter(|(_, cell)| term.within.holds(attributes, *cell))
            };
            let mut mass = [0.0; 2];
            for (i, cell) in members() {
                mass[cell & 1] += slope(s[i] - t[threshold[cell]]).0;
            }
            let (value, by_class) = term.precision(mass[1], mass[0])?;
            sum.value += value;
            for (i, cell) in members() {
                let k = threshold[cell];
                let by_score = by_class[cell & 1] * slope(s[i] - t[k]).1;
                sum.by_score[i] += by_score;
                sum.by_threshold[k] -= by_score;
            }
        }
        Ok(())
    }

    /// Value, and the derivative in the mass of each cell, from the masses above the threshold and the sizes of the cells.
    pub fn of_masses(&self, mass: &[f64], surrogate: Surrogate, size: &[f64]) -> Result<(f64, Vec<f64>)> {
        let (mut value, mut by_mass) = (self.constant, self.weight.clone());
        for (cell, weight) in self.weight.iter().enumerate() {
            let turned = self.turned(cell, surrogate);
            value += weight * if turned { size[cell] - mass[cell] } else { mass[cell] };
        }
        for term in &self.precisions {
            let (tp, fp) = term.above(&self.cells, mass);
            let (own, by_class) = term.precision(tp, fp)?;
            value += own;
            let members = by_mass.iter_mut().enumerate();
            for (cell, by_mass) in members.filter(|(c, _)| term.within.holds(&self.cells.attributes, *c)) {
                *by_mass += by_class[cell & 1];
            }
        }
        Ok((value, by_mass))
    }

    /// The same value as a tensor.
    fn tensor(&self, s: &Tensor, labels: &Labels, t: &[f64], surrogate: Surrogate) -> Result<Tensor> {
        let cells = labels.cells(&self.cells.attributes, s.device())?;
        let each = |f: &dyn Fn(usize) -> f64| {
            let values = (0..self.weight.len()).map(f).collect();
            Ok::<_, Error>(
                to_tensor(values, self.weight.len(), s.dtype(), s.device())?.index_select(&cells, 0)?,
            )
        };
        let u = s.sub(&each(&|c| t[self.cells.threshold[c]])?)?;
        let (above, below) = (surrogate.of(&u)?, (1.0 - surrogate.of(&u.neg()?)?)?);
        let hurts = (&above * each(&|c| self.weight[c].max(0.0))?)?.sum_all()?;
        let helps = (below * each(&|c| self.weight[c].min(0.0))?)?.sum_all()?;
        let mut total = ((hurts + helps)? + self.constant)?;
        for term in &self.precisions {
            let inside = |c: usize| f64::from(u8::from(term.within.holds(&self.cells.attributes, c)));
            let right = |c: usize| if c & 1 == 1 { inside(c) } else { 0.0 };
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
            labels.has(attribute)?;
        }
        Ok(())
    }

    /// Its terms by the threshold that they are taken at, each sample with one weight.
    pub(super) fn merged(&self, labels: &Labels, t: &[f64]) -> Result<Vec<Merged>> {
        self.check(labels.n(), labels, t)?;
        self.by_threshold().iter().map(|(at, terms)| Merged::of(*at, terms, labels)).collect()
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
    /// per term. Host: the scores. Fails: `Shape` unless there is a score per label and a threshold for every term, `Config` for an
    /// attribute that the labels lack, `Data` if a class or a group of a rate has no member.
    /// Book: `rate/smooth.md#eq-rate-smooth-gradient`, `#eq-rate-smooth-shift`, `rate/games.md#eq-rate-merged`.
    pub fn slopes(&self, s: impl AsF64, labels: &Labels, t: &[f64], surrogate: Surrogate) -> Result<Slopes> {
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
        let flags = labels.flags()?;
        // Fixed pieces, so that the result does not depend on the number of threads.
        let some = |groups: &[(At, Vec<Term>)]| -> Result<Slopes> {
            let mut sum =
                Slopes { value: 0.0, by_score: vec![0.0; s.len()], by_threshold: vec![0.0; t.len()] };
            for (at, terms) in groups {
                Merged::of(*at, terms, labels)?.add(s, flags, t, surrogate, shift, &mut sum)?;
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

    /// Exact value, counted with the strict rule s > t.
    ///
    /// Host: the scores. Fails: as [`slopes`](RateSum::slopes), and `Data` if nothing is above the threshold of a precision.
    /// Book: `rate/smooth.md#eq-rate-smooth-gap`.
    pub fn count(&self, s: impl AsF64, labels: &Labels, t: &[f64]) -> Result<f64> {
        let s = s.numbers()?;
        self.check(s.len(), labels, t)?;
        let flags = labels.flags()?;
        self.counted(labels, |cells| {
            let mut above = vec![0.0; cells.threshold.len()];
            for (i, s) in s.iter().enumerate() {
                let cell = flags.cell(&cells.attributes, i);
                above[cell] += f64::from(u8::from(*s > t[cells.threshold[cell]]));
            }
            Ok(above)
        })
    }

    /// The exact value from how many of each cell are above their threshold.
    pub(super) fn counted(
        &self,
        labels: &Labels,
        mut above: impl FnMut(&Cells) -> Result<Vec<f64>>,
    ) -> Result<f64> {
        let mut known: Vec<(Cells, Vec<f64>)> = Vec::new();
        let mut value = self.constant;
        for term in &self.terms {
            let counts = labels.counts(term.within)?;
            term.rate.counted(counts, term.within)?;
            let cells = Cells::of(term.at, &[*term]);
            if !known.iter().any(|(of, _)| *of == cells) {
                let found = above(&cells)?;
                known.push((cells.clone(), found));
            }
            let each = known.iter().find(|(of, _)| *of == cells).map_or(&[][..], |(_, each)| each);
            let (tp, fp) = term.above(&cells, each);
            value += term.weight
                * match term.rate.weights(counts.0, counts.1) {
                    Some((on_positive, on_negative, constant)) => {
                        constant + on_positive * tp + on_negative * fp
                    }
                    None if tp + fp == 0.0 => {
                        let why =
                            "no score is above the threshold, so precision has no value; lower the threshold";
                        return Err(Error::data("scores", why));
                    }
                    None => tp / (tp + fp),
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
        let mut total = to_tensor(vec![self.constant], (), s.dtype(), s.device())?;
        for merged in self.merged(labels, t)? {
            total = (total + merged.tensor(s, labels, t, surrogate)?)?;
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
