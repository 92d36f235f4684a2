//! What any classifier can reach on Critters, from the law of the evidence alone.
//!
//! Evidence is taken as normal; the generator's Irwin–Hall noise has slightly lighter tails, which the tests bound.

use super::{ATTRIBUTES, Critters, KEY_ATTRIBUTES, SPECIES, key};
use crate::data::Part;
use crate::distribution::{irwin_hall_cdf, normal_cdf, normal_density};
use crate::error::{Error, Result};
use crate::table::Table;

/// Where the density of the partner's evidence is summed: eight standard deviations either side of both means, in
/// steps at which the trapezoidal rule on normal densities is exact to rounding.
const REACH: f64 = 8.0;
const STEP: f64 = 0.125;

/// Bounds on the accuracy, AUC, F1 and FNR that any classifier can have on one attribute, given true labels.
///
/// ```text
/// s = g e + h,  h = ln (P(y = 1, partner's evidence) / P(y = 0, partner's evidence)),   e | y ~ N(± g/2, 1)
/// P(s ≤ t | y) = E_h [ Φ((t − h)/g ∓ g/2) | y ]
/// ```
/// The score s is the posterior log-odds, by Neyman and Pearson the best score there is. An attribute alone has one
/// constant h, the log-odds of its prevalence; a correlated one has a law of h, summed over a grid of its partner's
/// evidence. Exact for evidence with normal noise, of free attributes alone or in pairs; for attributes of the key it is the
/// reach of their own evidence, which the rest of the key can beat a little. Book: `measures/critters.md#ceilings`.
/// Checked by `tests/critters.rs` against the closed forms of single attributes and against counts.
///
/// ```
/// use lastlayer::prelude::*;
/// let critters = Critters::new(Preset::Plain, Seed::new(1));
/// let limit = critters.bayes_limit("cheeks", Part::Test)?;
/// // Half have cheeks, alone: Φ(g/2) of the answers can be right, and Φ(g/√2) of the pairs.
/// let gap = critters.gaps[Critters::attribute("cheeks")?];
/// assert!((limit.accuracy() - distribution::normal_cdf(gap / 2.0)).abs() < 1e-9);
/// assert!((limit.auc() - distribution::normal_cdf(gap / 2f64.sqrt())).abs() < 1e-6);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BayesLimit {
    /// Name of the attribute.
    pub attribute: String,
    /// Share of critters that have it.
    pub prevalence: f64,
    gap: f64,
    /// Values of h with their probabilities, where the attribute is absent and where it is present.
    shifts: [Vec<(f64, f64)>; 2],
}

/// Best F1 of an attribute for someone who knows only the species, and of someone who knows nothing.
///
/// ```
/// use lastlayer::prelude::*;
/// let critters = Critters::new(Preset::Plain, Seed::new(1));
/// let glasses = critters.fidelity("glasses")?; // free of the species: half have them
/// assert!((glasses.floor - 2.0 * 0.5 / 1.5).abs() < 1e-9);
/// assert!(critters.fidelity("horns")?.class_oracle > 0.9); // in the key
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fidelity {
    /// Best F1 of someone who knows only the species.
    pub class_oracle: f64,
    /// F1 of saying yes to all.
    pub floor: f64,
}

impl Critters {
    /// Bayes limits of an attribute in a part.
    ///
    /// Fails: `Config` for an unknown attribute, or one that is tied to more than one other, also in a chain: the sum is over
    /// pairs.
    /// Book: `measures/critters.md#eq-critters-single`, `#eq-critters-pair`.
    pub fn bayes_limit(&self, attribute: &str, part: Part) -> Result<BayesLimit> {
        self.check()?;
        let j = Critters::attribute(attribute)?;
        let ties = |j: usize| self.correlations_in(part).filter(move |c| c.attribute == j || c.given == j);
        let pairs: Vec<_> = ties(j).collect();
        let prevalence = if j < KEY_ATTRIBUTES { self.key_prevalence(j) } else { self.prevalence[j] };
        let alone = (prevalence / (1.0 - prevalence)).ln();
        let shifts = match pairs[..] {
            [] => [vec![(alone, 1.0)], vec![(alone, 1.0)]],
            [pair] if ties(pair.attribute).chain(ties(pair.given)).all(|tie| tie == pair) => {
                let partner = if pair.attribute == j { pair.given } else { pair.attribute };
                // The correlation coefficient has no direction, so neither has the law.
                let [without, with] =
                    self.conditionals(&super::Correlation { attribute: j, given: partner, ..pair });
                shifts(self.gaps[partner], self.prevalence[partner], without, with)
            }
            _ => {
                let allowed = "attributes tied to at most one other, which is tied to no third";
                return Err(Error::config("attribute with a Bayes limit", attribute, allowed));
            }
        };
        Ok(BayesLimit { attribute: attribute.to_string(), prevalence, gap: self.gaps[j], shifts })
    }

    /// Bayes limits of all attributes in a part, one a row.
    pub fn bayes_limits(&self, part: Part) -> Result<Table> {
        let columns = ["attribute", "prevalence", "accuracy", "AUC", "F1", "FNR at FPR 1 %", "at 5 %"];
        let mut table = Table::new(&columns);
        for name in ATTRIBUTES {
            let c = self.bayes_limit(name, part)?;
            let rates = (c.fnr_at_fpr(0.01)?, c.fnr_at_fpr(0.05)?);
            table = table.row((name, c.prevalence, c.accuracy(), c.auc(), c.best_f1(), rates.0, rates.1))?;
        }
        Ok(table)
    }

    /// Share of critters whose species the key names right when every attribute is read as evidence above zero.
    ///
    /// ```text
    /// Σ_species weight · Π_{questions on its path} F(g/2),   F the distribution function of the noise
    /// ```
    /// A wrong reading on the path leads to another species, and readings off the path are not asked for. Weighing all
    /// evidence together would do about a tenth of a point better.
    /// Book: `measures/critters.md#eq-critters-species`.
    pub fn species_by_key(&self) -> Result<f64> {
        self.check()?;
        let total: f64 = self.species_weights.iter().sum();
        let paths = key::paths();
        let right = |species: usize| -> f64 {
            paths[species].iter().map(|(j, _)| irwin_hall_cdf(self.gaps[*j] / 2.0)).product()
        };
        Ok((0..SPECIES).map(|s| self.species_weights[s] / total * right(s)).sum())
    }

    /// How well an attribute can be told from the species label alone, against saying yes to all.
    ///
    /// ```text
    /// class oracle = max over sets of species of 2 P(set, attribute) / (P(set) + P(attribute)),   floor = 2p / (1 + p)
    /// ```
    /// The best set takes species in the order of P(attribute | species), so twelve sets are compared.
    /// Book: `measures/critters.md#eq-critters-fidelity`.
    pub fn fidelity(&self, attribute: &str) -> Result<Fidelity> {
        self.check()?;
        let j = Critters::attribute(attribute)?;
        let total: f64 = self.species_weights.iter().sum();
        let mut species: Vec<(f64, f64)> =
            self.given_species(j).into_iter().zip(self.species_weights.map(|w| w / total)).collect();
        species.sort_by(|a, b| b.0.total_cmp(&a.0));
        let p: f64 = species.iter().map(|(given, weight)| given * weight).sum();
        let (mut hits, mut size, mut class_oracle) = (0.0, 0.0, 0.0f64);
        for (given, weight) in species {
            hits += given * weight;
            size += weight;
            class_oracle = class_oracle.max(2.0 * hits / (size + p));
        }
        Ok(Fidelity { class_oracle, floor: 2.0 * p / (1.0 + p) })
    }
}

/// Law of the log-odds that a partner's evidence gives, without and with the attribute.
fn shifts(gap: f64, prevalence: f64, without: f64, with: f64) -> [Vec<(f64, f64)>; 2] {
    let reach = gap / 2.0 + REACH;
    let steps = (2.0 * reach / STEP).ceil();
    let step = 2.0 * reach / steps;
    let mut laws = [Vec::new(), Vec::new()];
    for i in 0..=steps as usize {
        let e = -reach + i as f64 * step;
        let (absent, present) =
            ((1.0 - prevalence) * normal_density(e + gap / 2.0), prevalence * normal_density(e - gap / 2.0));
        // Joint densities of the partner's evidence with the attribute, and without it.
        let joint = [absent * (1.0 - without) + present * (1.0 - with), absent * without + present * with];
        // A density that underflowed has no weight on either side.
        if joint.iter().all(|density| *density > 0.0) {
            let h = (joint[1] / joint[0]).ln();
            (0..2).for_each(|y| laws[y].push((h, joint[y] * step)));
        }
    }
    // The sums are the shares without and with the attribute; dividing by them leaves conditional laws.
    laws.map(|law| {
        let total: f64 = law.iter().map(|(_, weight)| weight).sum();
        law.into_iter().map(|(h, weight)| (h, weight / total)).collect()
    })
}

impl BayesLimit {
    /// Probability that the best score is at most `t`, without or with the attribute.
    fn below(&self, t: f64, present: bool) -> f64 {
        let (y, mean) = if present { (1, self.gap / 2.0) } else { (0, -self.gap / 2.0) };
        // Without any gap the score is h itself.
        let each = |h: f64| match self.gap {
            0.0 => f64::from(u8::from(h <= t)),
            gap => normal_cdf((t - h) / gap - mean),
        };
        self.shifts[y].iter().map(|(h, weight)| weight * each(*h)).sum()
    }

    fn false_positives(&self, t: f64) -> f64 {
        1.0 - self.below(t, false)
    }

    fn false_negatives(&self, t: f64) -> f64 {
        self.below(t, true)
    }

    /// Highest accuracy: yes where the posterior log-odds are above zero.
    pub fn accuracy(&self) -> f64 {
        let p = self.prevalence;
        p * (1.0 - self.false_negatives(0.0)) + (1.0 - p) * self.below(0.0, false)
    }

    /// Highest accuracy against labels of which a share `flips` is wrong: acc + ρ − 2 ρ acc.
    pub fn accuracy_with_flips(&self, flips: f64) -> f64 {
        let accuracy = self.accuracy();
        accuracy + flips - 2.0 * flips * accuracy
    }

    /// Highest AUC: the probability that the score of a critter with the attribute is above that of one without.
    pub fn auc(&self) -> f64 {
        let [absent, present] = &self.shifts;
        let scale = self.gap * std::f64::consts::SQRT_2;
        let wins = |difference: f64| match self.gap {
            0.0 => 0.5 + 0.5 * difference.partial_cmp(&0.0).map_or(0.0, |o| f64::from(o as i8)),
            gap => normal_cdf((gap * gap + difference) / scale),
        };
        let pairs = present.iter().flat_map(|(h1, w1)| absent.iter().map(move |(h0, w0)| (h1 - h0, w1 * w0)));
        pairs.map(|(difference, weight)| weight * wins(difference)).sum()
    }

    /// Lowest share of missed positives at this share of false positives. Fails: `Config` outside (0, 1).
    pub fn fnr_at_fpr(&self, fpr: f64) -> Result<f64> {
        if !(fpr > 0.0 && fpr < 1.0) {
            return Err(Error::config("false positive rate", fpr, "between 0 and 1"));
        }
        // The rate falls from 1 to 0 as the threshold rises; halving the bracket finds where it crosses.
        let (mut low, mut high) = self.range();
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if self.false_positives(middle) > fpr { low = middle } else { high = middle }
        }
        Ok(self.false_negatives(high))
    }

    /// Highest F1 over all thresholds: a scan of the score, refined around its best point.
    pub fn best_f1(&self) -> f64 {
        let p = self.prevalence;
        let f1 = |t: f64| {
            let hits = p * (1.0 - self.false_negatives(t));
            2.0 * hits / (hits + (1.0 - p) * self.false_positives(t) + p)
        };
        let (mut low, mut high) = self.range();
        let mut best = f1(low);
        for _ in 0..12 {
            let step = (high - low) / 40.0;
            let points = (0..=40).map(|i| low + f64::from(i) * step);
            let at = points.max_by(|a, b| f1(*a).total_cmp(&f1(*b))).unwrap_or(low);
            best = best.max(f1(at));
            (low, high) = (at - step, at + step);
        }
        best
    }

    /// Thresholds between which all scores lie, but for a share below rounding.
    fn range(&self) -> (f64, f64) {
        let shifts = self.shifts.iter().flatten().map(|(h, _)| *h);
        let (low, high) = shifts.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), s| (l.min(s), h.max(s)));
        let reach = self.gap * (self.gap / 2.0 + 9.0) + 1e-9;
        (low - reach, high + reach)
    }

    /// The limits as a table.
    pub fn table(&self) -> Result<Table> {
        let mut rows = vec![
            ("accuracy".to_string(), self.accuracy().into()),
            ("AUC".to_string(), self.auc().into()),
            ("F1".to_string(), self.best_f1().into()),
        ];
        for percent in [1.0, 2.0, 5.0, 10.0] {
            rows.push((format!("FNR at FPR {percent} %"), self.fnr_at_fpr(percent / 100.0)?.into()));
        }
        Ok(Table::pairs("Bayes limit", &self.attribute, rows))
    }

    /// Shows the limits as a table.
    pub fn evcxr_display(&self) {
        if let Ok(table) = self.table() {
            table.evcxr_display();
        }
    }
}

impl Fidelity {
    /// Shows both numbers.
    pub fn evcxr_display(&self) {
        let text = format!("class oracle {:.3}, floor {:.3}", self.class_oracle, self.floor);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}
