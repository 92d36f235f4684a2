//! Negative transfer as a measurement: accuracies of attributes trained alone and in pairs, over seeds, and what can be
//! said about the worst partner of each once chance is allowed for.
//!
//! ```text
//! alone      x_{a,s}  = μ_a + u_{a,s}                        var u = σ²    luck of seed s
//! with b     x_{ab,s} = μ_a + δ_ab + β u_{a,s} + e_{ab,s}    var e = ω²    what is left of it, and new luck
//! ```
//! δ_ab < 0 is negative transfer from b to a. The run alone is shared by all partners of a.

use std::collections::BTreeMap;

use ndarray::Array2;

use super::multiplicity::{benjamini_hochberg, minimum_p, share};
use crate::distribution::{student_cdf, student_quantile, student_two_sided};
use crate::error::{Error, Result};
use crate::metrics::Estimate;
use crate::table::{Cell, Table};

/// Level of the intervals that effects are shown with.
const LEVEL: f64 = 0.95;

/// A change of accuracy, how sure it is, and two p-values.
///
/// Checked by `tests/adversary/transfer.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let mut transfer = Transfer::new(&["a", "b"])?;
/// for (seed, (alone, with)) in [(0.80, 0.75), (0.81, 0.77), (0.82, 0.76)].into_iter().enumerate() {
///     transfer.single(0, seed as u64, alone)?;
///     transfer.pair(0, 1, seed as u64, with, 0.9)?;
/// }
/// let effect = transfer.difference(0, 1)?;
/// assert!((effect.mean + 0.05).abs() < 1e-12 && effect.dof == 2.0);
/// assert!((effect.p_two_sided - 2.0 * effect.p_negative).abs() < 1e-12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// Accuracy with the partner minus accuracy alone; negative is harm.
    pub mean: f64,
    /// Standard error of the mean.
    pub standard_error: f64,
    /// Degrees of freedom behind the standard error.
    pub dof: f64,
    /// One-sided: chance of a mean this low or lower if the partner did no harm.
    pub p_negative: f64,
    /// Two-sided: chance of a mean this far from zero if the partner had no effect.
    pub p_two_sided: f64,
    /// The mean with its 95 % interval.
    pub interval: Estimate,
}

impl Effect {
    /// Student's test of a mean with a standard error.
    fn student(mean: f64, standard_error: f64, dof: f64) -> Result<Effect> {
        if standard_error == 0.0 && mean != 0.0 {
            let got = format!("{mean} in every seed");
            let allowed =
                "runs that vary, or no test can judge them: use more seeds or a larger validation set";
            return Err(Error::config("change of accuracy", got, allowed));
        }
        let t = if mean == 0.0 { 0.0 } else { mean / standard_error };
        let half = student_quantile(0.5 * (1.0 + LEVEL), dof)? * standard_error;
        Ok(Effect {
            mean,
            standard_error,
            dof,
            p_negative: student_cdf(t, dof)?,
            p_two_sided: student_two_sided(t, dof)?,
            interval: Estimate { value: mean, low: mean - half, high: mean + half, level: LEVEL },
        })
    }

    /// Shows the change with its interval and the p-values.
    pub fn evcxr_display(&self) {
        let rows = vec![
            ("change of accuracy".to_string(), Cell::from(self.interval)),
            ("degrees of freedom".to_string(), Cell::from(self.dof)),
            ("p-value, harm".to_string(), Cell::from(self.p_negative)),
            ("p-value, two-sided".to_string(), Cell::from(self.p_two_sided)),
        ];
        Table::pairs("effect", "value", rows).evcxr_display();
    }
}

/// The most harmful partner of an attribute, with the chance that a search among as many harmless ones finds as much.
///
/// ```
/// use lastlayer::prelude::*;
/// let mut transfer = Transfer::new(&["a", "b"])?;
/// for seed in 0..10 {
///     let luck = 0.002 * Seed::new(seed).normal(0);
///     (0..2).try_for_each(|attribute| transfer.single(attribute, seed, 0.8 + luck))?;
///     transfer.pair(0, 1, seed, 0.75 - luck, 0.8 - luck)?;
/// }
/// let partner = transfer.worst(0, 0.05)?.expect("a harmful partner");
/// assert_eq!((&partner.names[1][..], partner.candidates), ("b", 1));
/// assert!(partner.effect.mean < partner.shrunken && partner.shrunken < 0.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Partner {
    /// The attribute that is harmed.
    pub attribute: usize,
    /// The attribute that harms it.
    pub partner: usize,
    /// Names of both.
    pub names: [String; 2],
    /// The change of accuracy, from [`Transfer::pooled`].
    pub effect: Effect,
    /// The change to expect when it is measured again: the worst of many is not as bad as it looks.
    pub shrunken: f64,
    /// Number of partners among which it was found.
    pub candidates: usize,
    /// Chance that the worst of so many harmless partners looks at least as bad.
    pub p_value: f64,
}

impl Partner {
    /// Shows who harms whom, and how sure that is.
    pub fn evcxr_display(&self) {
        let rows = vec![
            ("attribute".to_string(), Cell::from(self.names[0].clone())),
            ("partner".to_string(), Cell::from(self.names[1].clone())),
            ("change of accuracy".to_string(), Cell::from(self.effect.interval)),
            ("shrunken".to_string(), Cell::from(self.shrunken)),
            ("candidates".to_string(), Cell::from(self.candidates)),
            ("p-value of the worst".to_string(), Cell::from(self.p_value)),
        ];
        Table::pairs("worst partner", "value", rows).evcxr_display();
    }
}

/// Accuracies of attributes alone and in pairs, one per seed.
///
/// A run of a pair serves both directions: `pair(a, b, …)` and `pair(b, a, …)` are the same run. Run the single tasks
/// more often than the pairs: they are few, and every difference of a row contains them. With one attribute there are no
/// pairs, and all results are empty. Checked by `tests/adversary/transfer.rs`.
/// Book: `adversary/noise.md#eq-adv-noise-difference`.
///
/// ```
/// use lastlayer::prelude::*;
/// let mut transfer = Transfer::new(&["a", "b"])?;
/// for seed in 0..10 {
///     let luck = 0.002 * Seed::new(seed).normal(0);
///     (0..2).try_for_each(|attribute| transfer.single(attribute, seed, 0.8 + luck))?;
///     transfer.pair(0, 1, seed, 0.75 - luck, 0.8 - luck)?; // b costs a five points
/// }
/// assert!((transfer.matrix()[(0, 1)] + 0.05).abs() < 0.005);
/// assert_eq!(transfer.partners(0.05)?.len(), 1);
/// assert!(transfer.worst(1, 0.05)?.is_none()); // a does b no harm
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    names: Vec<String>,
    /// Accuracy alone by seed, for each attribute.
    singles: Vec<BTreeMap<u64, f64>>,
    /// Accuracies of a and b by seed, for each pair a < b.
    pairs: BTreeMap<(usize, usize), BTreeMap<u64, [f64; 2]>>,
}

impl Transfer {
    /// Nothing measured yet.
    ///
    /// Fails: `Config` without a name.
    pub fn new<S: AsRef<str>>(names: &[S]) -> Result<Transfer> {
        if names.is_empty() {
            return Err(Error::config("names of attributes", "none", "at least one"));
        }
        let names: Vec<String> = names.iter().map(|n| n.as_ref().to_string()).collect();
        Ok(Transfer { singles: vec![BTreeMap::new(); names.len()], names, pairs: BTreeMap::new() })
    }

    /// Names of the attributes.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Notes the accuracy of an attribute trained alone.
    ///
    /// Giving the same run again is allowed. Fails: `Config` for an unknown attribute, an accuracy outside [0, 1], or a
    /// seed given before with another accuracy; nothing is then changed.
    pub fn single(&mut self, a: usize, seed: u64, accuracy: f64) -> Result<()> {
        self.known(a)?;
        note(&mut self.singles[a], seed, checked(accuracy)?, &format!("{} alone", self.names[a]))
    }

    /// Notes the accuracies of two attributes trained together.
    ///
    /// Fails: as [`Transfer::single`], and `Config` if both are the same attribute.
    pub fn pair(&mut self, a: usize, b: usize, seed: u64, accuracy_a: f64, accuracy_b: f64) -> Result<()> {
        self.distinct(a, b)?;
        let (accuracy_a, accuracy_b) = (checked(accuracy_a)?, checked(accuracy_b)?);
        let accuracies = if a < b { [accuracy_a, accuracy_b] } else { [accuracy_b, accuracy_a] };
        let what = format!("{} with {}", self.names[a], self.names[b]);
        note(self.pairs.entry((a.min(b), a.max(b))).or_default(), seed, accuracies, &what)
    }

    /// Change of the accuracy of `a` when it is trained with `b`, from these two alone.
    ///
    /// ```text
    /// d_s = x_{ab,s} − x_{a,s},   t = mean(d) / √(Σ (d − mean)² / (S(S−1))),   S − 1 degrees of freedom
    /// ```
    /// Over the S seeds that both runs have. With 3 to 5 seeds it sees little; [`Transfer::pooled`] borrows the spread from
    /// the other partners. Fails: `Config` for an unknown attribute, `a = b`, or differences without any spread, `Shape`
    /// with fewer than two common seeds.
    pub fn difference(&self, a: usize, b: usize) -> Result<Effect> {
        let runs = self.paired(a, b)?;
        if runs.len() < 2 {
            let what = format!("common seeds of {} alone and with {}", self.names[a], self.names[b]);
            return Err(Error::shape(what, "at least 2: one says nothing about the spread", runs.len()));
        }
        let (n, d) = (runs.len() as f64, runs.iter().map(|(x, u)| x - u).collect::<Vec<f64>>());
        let squares = squares_around_mean(&d);
        Effect::student(mean(&d), (squares / (n * (n - 1.0))).sqrt(), n - 1.0)
    }

    /// The paper's rule: the partner with the lowest mean difference, if that is negative.
    ///
    /// The smallest of many noisy numbers is negative by construction, so this finds a partner for nearly every attribute
    /// whether there is one or not; see [`Transfer::worst`]. Fails: `Config` for an unknown attribute.
    /// Book: `adversary/noise.md#eq-adv-noise-naive`.
    pub fn naive_worst(&self, a: usize) -> Result<Option<(usize, f64)>> {
        self.known(a)?;
        let changes = (0..self.names.len()).filter_map(|b| Some((b, self.mean_difference(a, b)?)));
        Ok(changes.filter(|(_, d)| *d < 0.0).min_by(|x, y| x.1.total_cmp(&y.1)))
    }

    /// All directed pairs (a, b) whose mean difference is negative: what the paper trains several adversaries from.
    ///
    /// Book: `adversary/noise.md#eq-adv-noise-rank`.
    pub fn naive_negative(&self) -> Vec<(usize, usize)> {
        let negative = |at: &(usize, usize)| self.mean_difference(at.0, at.1).is_some_and(|d| d < 0.0);
        self.directed().filter(negative).collect()
    }

    /// σ of the model: standard deviation of a single-task rerun, pooled over attributes.
    ///
    /// ```text
    /// √(Σ_a Σ_s (x_{a,s} − mean_a)² / Σ_a (S_a − 1))
    /// ```
    /// Fails: `Shape` if no attribute was run alone with two seeds.
    pub fn noise(&self) -> Result<f64> {
        let lists = self.singles.iter().map(|runs| runs.values().copied().collect());
        pooled_deviation("single-task runs of an attribute", lists)
    }

    /// Standard deviation of one paired difference, pooled over all directed pairs: √(ω² + (1 − β)² σ²).
    ///
    /// Fails: `Shape` if no pair has two common seeds.
    /// Book: `adversary/noise.md#eq-adv-noise-difference`.
    pub fn noise_of_difference(&self) -> Result<f64> {
        let differences = |(a, b)| self.common(a, b).iter().map(|(x, u)| x - u).collect();
        pooled_deviation("common seeds of a pair", self.directed().map(differences))
    }

    /// β of the model: how much of the luck of a seed a pair run shares with the single run, by least squares.
    ///
    /// ```text
    /// Σ (x_{ab,s} − mean)(x_{a,s} − mean) / Σ (x_{a,s} − mean)²,   over all pairs, kept within [0, 1]
    /// ```
    /// 0 if pairing the seeds buys nothing, 1 if only the difference varies. Fails: `Shape` if no pair has two common
    /// seeds.
    /// Book: `adversary/noise.md#eq-adv-noise-difference`.
    pub fn shared_luck(&self) -> Result<f64> {
        let (mut products, mut squares, mut dof) = (0.0, 0.0, 0);
        for (a, b) in self.directed() {
            let (with, alone): (Vec<f64>, Vec<f64>) = self.common(a, b).into_iter().unzip();
            let (with_mean, alone_mean) = (mean(&with), mean(&alone));
            products += with.iter().zip(&alone).map(|(x, u)| (x - with_mean) * (u - alone_mean)).sum::<f64>();
            squares += squares_around_mean(&alone);
            dof += alone.len().saturating_sub(1);
        }
        if dof == 0 {
            return Err(Error::shape("common seeds of a pair", "at least 2 for some pair", "at most 1"));
        }
        Ok(if squares == 0.0 { 0.0 } else { (products / squares).clamp(0.0, 1.0) })
    }

    /// Change of the accuracy of `a` when it is trained with `b`, with the spread pooled over all partners of `a`.
    ///
    /// ```text
    /// δ̂_ab = mean_s x_{ab,s} − mean_all x_a − β (mean_s x_{a,s} − mean_all x_a)
    /// var  = ω_a² / S_ab + (1 − β)² σ_a² / S_a
    /// ```
    /// mean_s over the S_ab common seeds, mean_all over all S_a single runs of a; ω_a² from the residuals of all its pairs,
    /// σ_a² from its single runs, degrees of freedom after Satterthwaite. Pooled over partners, not over attributes:
    /// accuracies near 99 % vary less than those near 80 %. If all runs have the same seeds, δ̂ is the plain mean
    /// difference whatever β is. Fails: as [`Transfer::difference`], but one common seed is enough for this pair if other
    /// partners have more.
    /// Book: `adversary/noise.md#eq-adv-noise-pooled`.
    pub fn pooled(&self, a: usize, b: usize) -> Result<Effect> {
        self.distinct(a, b)?;
        let found = self.row(a, self.shared_luck()?)?.into_iter().find(|(partner, _)| *partner == b);
        found.map(|(_, effect)| effect).ok_or_else(|| self.unmeasured(a, b))
    }

    /// The worst partner of each attribute, significant or not, with the p-value of having searched.
    ///
    /// ```text
    /// p = 1 − (1 − F(min_b t_b))^m,    m partners
    /// ```
    /// Attributes without a measured pair are left out. Fails: as [`Transfer::pooled`].
    pub fn candidates(&self) -> Result<Vec<Partner>> {
        let rows = self.rows()?;
        let spread = spread_of_effects(&rows);
        let found = rows.iter().enumerate().map(|(a, row)| self.partner_of(a, row, spread));
        found.filter_map(Result::transpose).collect()
    }

    /// The worst partner of `a`, if a search among as many harmless partners would find one as bad with a chance of at most
    /// `level`.
    ///
    /// Of the attributes without a harmful partner about the share `level` at most gets one: a promise for each attribute,
    /// not for all together. For that use [`Transfer::partners`], which finds less. In simulations with 8 attributes and 5
    /// seeds per pair, 4.4 % of harmless attributes are flagged at level 0.05, and a harm of two standard deviations of a run
    /// is found with a chance of 0.86 if every attribute was run alone 10 times, 0.66 if 5 times. Confirm the partner on
    /// data that played no part in the search: `metrics::mcnemar` on a second half of the validation set. Fails: as
    /// [`Transfer::pooled`], and `Config` unless the level lies strictly between 0 and 1.
    /// Book: `adversary/noise.md#eq-adv-noise-sidak`.
    pub fn worst(&self, a: usize, level: f64) -> Result<Option<Partner>> {
        self.known(a)?;
        let level = share("level of the search", level)?;
        Ok(self.candidates()?.into_iter().find(|partner| partner.attribute == a && partner.p_value <= level))
    }

    /// Worst partners of all attributes, such that among those returned at most a share `q` is wrong, on average.
    ///
    /// Benjamini and Hochberg over the p-values of [`Transfer::candidates`]. Fails: as [`Transfer::worst`].
    /// Book: `adversary/noise.md#eq-adv-noise-bh`.
    pub fn partners(&self, q: f64) -> Result<Vec<Partner>> {
        let found = self.candidates()?;
        let p: Vec<f64> = found.iter().map(|partner| partner.p_value).collect();
        let kept = benjamini_hochberg(&p, q)?;
        Ok(found.into_iter().zip(kept).filter_map(|(partner, kept)| kept.then_some(partner)).collect())
    }

    /// (M, M) Mean differences, a in rows and b in columns; NaN on the diagonal and where nothing was run.
    pub fn matrix(&self) -> Array2<f64> {
        let m = self.names.len();
        Array2::from_shape_fn((m, m), |(a, b)| self.mean_difference(a, b).unwrap_or(f64::NAN))
    }

    /// (M, M) Effects of [`Transfer::pooled`], each drawn towards zero as far as its noise demands.
    ///
    /// ```text
    /// δ̃ = δ̂ τ² / (τ² + SE²),   τ² = max(0, mean(δ̂² − SE²))
    /// ```
    /// The posterior mean if true effects are normal around zero with variance τ². Rank by these where standard errors
    /// differ; where they are equal the order stays and the size becomes honest. NaN as in [`Transfer::matrix`]. Fails: as
    /// [`Transfer::pooled`].
    /// Book: `adversary/noise.md#eq-adv-noise-shrink`.
    pub fn shrunken(&self) -> Result<Array2<f64>> {
        let rows = self.rows()?;
        let spread = spread_of_effects(&rows);
        let mut out = Array2::from_elem((self.names.len(), self.names.len()), f64::NAN);
        for (a, row) in rows.iter().enumerate() {
            row.iter().for_each(|(b, effect)| out[(a, *b)] = shrink(effect, spread));
        }
        Ok(out)
    }

    /// (M, M) Which directed pairs are negative such that at most a share `q` of the marks is wrong, on average.
    ///
    /// Benjamini and Hochberg over the one-sided p-values of all effects of [`Transfer::pooled`]. Fails: as
    /// [`Transfer::pooled`], and `Config` unless `q` lies strictly between 0 and 1.
    /// Book: `adversary/noise.md#eq-adv-noise-power`.
    pub fn significant(&self, q: f64) -> Result<Array2<bool>> {
        let rows = self.rows()?;
        let at = |a: usize, row: &Vec<(usize, Effect)>| row.iter().map(|e| (a, e.0)).collect::<Vec<_>>();
        let places: Vec<(usize, usize)> = rows.iter().enumerate().flat_map(|(a, row)| at(a, row)).collect();
        let p: Vec<f64> = rows.iter().flatten().map(|(_, effect)| effect.p_negative).collect();
        let mut out = Array2::from_elem((self.names.len(), self.names.len()), false);
        places.iter().zip(benjamini_hochberg(&p, q)?).for_each(|(place, mark)| out[*place] = mark);
        Ok(out)
    }

    /// One row for each directed pair: changes in points, the change after shrinkage, the p-value, and the mark of
    /// [`Transfer::significant`].
    ///
    /// Fails: as [`Transfer::significant`].
    pub fn table(&self, q: f64) -> Result<Table> {
        let (rows, marks) = (self.rows()?, self.significant(q)?);
        let spread = spread_of_effects(&rows);
        let mut table = Table::new(&["attribute", "with", "change", "shrunken", "p-value", "harm"]);
        for (a, row) in rows.iter().enumerate() {
            for (b, effect) in row {
                let estimate = effect.interval;
                let mark = if marks[(a, *b)] { "yes" } else { "" };
                let change = Cell::Range {
                    value: 100.0 * estimate.value,
                    low: 100.0 * estimate.low,
                    high: 100.0 * estimate.high,
                };
                let names = (self.names[a].as_str(), self.names[*b].as_str());
                let shrunken = 100.0 * shrink(effect, spread);
                table = table.row((names.0, names.1, change, shrunken, effect.p_negative, mark))?;
            }
        }
        let caption = format!(
            "Change of accuracy in points when trained with a partner, with 95 % intervals. \
             Harm: negative at a false discovery rate of {q}."
        );
        Ok(table.caption(&caption))
    }

    /// Shows the number of runs and the mean differences in points.
    pub fn evcxr_display(&self) {
        let mut columns = vec!["attribute".to_string()];
        columns.extend(self.names.iter().map(|name| format!("with {name}")));
        let cells = |row: ndarray::ArrayView1<f64>, name: &String| {
            let change = |d: &f64| if d.is_nan() { Cell::Empty } else { Cell::from(100.0 * d) };
            std::iter::once(Cell::from(name.as_str())).chain(row.iter().map(change)).collect()
        };
        let rows =
            self.matrix().rows().into_iter().zip(&self.names).map(|(row, name)| cells(row, name)).collect();
        let caption = "Mean change of accuracy in points.";
        match rows_of(Table::new(&columns), rows) {
            Ok(table) => table.caption(caption).decimals(2).evcxr_display(),
            Err(error) => error.evcxr_display(),
        }
    }

    /// 100 (acc(a|b) − acc(a)) / acc(a) from means over common seeds; nothing if there are none.
    pub(super) fn relative_change(&self, a: usize, b: usize) -> Result<Option<f64>> {
        let (with, alone): (Vec<f64>, Vec<f64>) = self.paired(a, b)?.into_iter().unzip();
        if alone.is_empty() {
            return Ok(None);
        }
        let alone = mean(&alone);
        if alone == 0.0 {
            let what = format!("accuracy of {} alone", self.names[a]);
            return Err(Error::config(what, 0, "above 0, or a relative change is not defined"));
        }
        Ok(Some(100.0 * (mean(&with) - alone) / alone))
    }

    /// All (a, b) with a ≠ b.
    fn directed(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let m = self.names.len();
        (0..m).flat_map(move |a| (0..m).filter(move |b| *b != a).map(move |b| (a, b)))
    }

    /// Accuracies of a with b and alone, seed by seed; empty if the pair was not run.
    fn common(&self, a: usize, b: usize) -> Vec<(f64, f64)> {
        let (Some(singles), Some(runs)) = (self.singles.get(a), self.pairs.get(&(a.min(b), a.max(b)))) else {
            return Vec::new();
        };
        let side = usize::from(a > b);
        runs.iter().filter_map(|(seed, both)| Some((both[side], *singles.get(seed)?))).collect()
    }

    /// [`Transfer::common`], checked.
    fn paired(&self, a: usize, b: usize) -> Result<Vec<(f64, f64)>> {
        self.distinct(a, b)?;
        Ok(self.common(a, b))
    }

    /// Mean difference over common seeds, if there is one.
    fn mean_difference(&self, a: usize, b: usize) -> Option<f64> {
        let runs = self.common(a, b);
        let mean = |runs: &[(f64, f64)]| runs.iter().map(|(x, u)| x - u).sum::<f64>() / runs.len() as f64;
        // Accuracies are shares of a count; what rounding leaves of equal ones is no change.
        (!runs.is_empty()).then(|| mean(&runs)).map(|d| if d.abs() < 1e-12 { 0.0 } else { d })
    }

    /// Pooled effects of all attributes; no row has an entry if there are no pairs.
    fn rows(&self) -> Result<Vec<Vec<(usize, Effect)>>> {
        if self.pairs.is_empty() {
            return Ok(vec![Vec::new(); self.names.len()]);
        }
        let beta = self.shared_luck()?;
        (0..self.names.len()).map(|a| self.row(a, beta)).collect()
    }

    /// Pooled effects of one attribute, for each partner that it was run with.
    fn row(&self, a: usize, beta: f64) -> Result<Vec<(usize, Effect)>> {
        let runs = (0..self.names.len()).map(|b| (b, self.common(a, b)));
        let runs: Vec<(usize, Vec<(f64, f64)>)> = runs.filter(|(_, runs)| !runs.is_empty()).collect();
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let alone: Vec<f64> = self.singles[a].values().copied().collect();
        let rest: Vec<Vec<f64>> = runs.iter().map(|(_, runs)| rest(runs, beta)).collect();
        let rest_dof: usize = rest.iter().map(|rest| rest.len() - 1).sum();
        if rest_dof == 0 || alone.len() < 2 {
            let what = format!("seeds of {} alone and with some partner", self.names[a]);
            return Err(Error::shape(what, "at least 2 of each", format!("{} alone", alone.len())));
        }
        let rest_variance = rest.iter().map(|rest| squares_around_mean(rest)).sum::<f64>() / rest_dof as f64;
        let alone_dof = (alone.len() - 1) as f64;
        let alone_share = (1.0 - beta).powi(2) * squares_around_mean(&alone) / alone_dof / alone.len() as f64;
        let effect = |rest: &Vec<f64>| {
            let rest_share = rest_variance / rest.len() as f64;
            let dof = satterthwaite([(rest_share, rest_dof as f64), (alone_share, alone_dof)]);
            let change = mean(rest) - (1.0 - beta) * mean(&alone);
            Effect::student(change, (rest_share + alone_share).sqrt(), dof)
        };
        runs.iter().zip(&rest).map(|((b, _), rest)| Ok((*b, effect(rest)?))).collect()
    }

    /// The entry of a row with the lowest t, and the p-value of its being the lowest.
    fn partner_of(&self, a: usize, row: &[(usize, Effect)], spread: f64) -> Result<Option<Partner>> {
        let worst = row.iter().min_by(|x, y| x.1.p_negative.total_cmp(&y.1.p_negative));
        let Some((b, effect)) = worst else { return Ok(None) };
        Ok(Some(Partner {
            attribute: a,
            partner: *b,
            names: [self.names[a].clone(), self.names[*b].clone()],
            effect: *effect,
            shrunken: shrink(effect, spread),
            candidates: row.len(),
            p_value: minimum_p(effect.p_negative, row.len())?,
        }))
    }

    fn known(&self, a: usize) -> Result<()> {
        if a < self.names.len() {
            return Ok(());
        }
        Err(Error::config("attribute", a, format!("0 to {}", self.names.len() - 1)))
    }

    fn distinct(&self, a: usize, b: usize) -> Result<()> {
        self.known(a)?;
        self.known(b)?;
        if a != b {
            return Ok(());
        }
        Err(Error::config("pair", format!("{a} with itself"), "two different attributes"))
    }

    fn unmeasured(&self, a: usize, b: usize) -> Error {
        let what = format!("common seeds of {} alone and with {}", self.names[a], self.names[b]);
        Error::shape(what, "at least 1: run the pair with a seed that the single task has", 0)
    }
}

/// x_{ab,s} − β x_{a,s}: what a pair run has that the single run of its seed does not explain.
fn rest(runs: &[(f64, f64)], beta: f64) -> Vec<f64> {
    runs.iter().map(|(with, alone)| with - beta * alone).collect()
}

/// Degrees of freedom of a sum of independent estimates of variance.
///
/// ```text
/// (Σ v)² / Σ (v² / dof)
/// ```
fn satterthwaite(parts: [(f64, f64); 2]) -> f64 {
    let sum: f64 = parts.iter().map(|(v, _)| v).sum();
    if sum == 0.0 {
        return parts.iter().map(|(_, dof)| dof).sum();
    }
    // Shares first: squares of tiny variances would underflow.
    1.0 / parts.iter().map(|(v, dof)| (v / sum).powi(2) / dof).sum::<f64>()
}

/// τ² of [`Transfer::shrunken`].
fn spread_of_effects(rows: &[Vec<(usize, Effect)>]) -> f64 {
    let excess = rows.iter().flatten().map(|(_, e)| e.mean.powi(2) - e.standard_error.powi(2));
    mean(&excess.collect::<Vec<f64>>()).max(0.0)
}

fn shrink(effect: &Effect, spread: f64) -> f64 {
    let total = spread + effect.standard_error.powi(2);
    if total == 0.0 { effect.mean } else { effect.mean * spread / total }
}

/// Mean, 0 for no values.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn squares_around_mean(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|v| (v - mean).powi(2)).sum()
}

/// Standard deviation around the mean of each list, pooled.
fn pooled_deviation(what: &str, lists: impl Iterator<Item = Vec<f64>>) -> Result<f64> {
    let (mut squares, mut dof) = (0.0, 0);
    for list in lists {
        squares += squares_around_mean(&list);
        dof += list.len().saturating_sub(1);
    }
    if dof == 0 {
        return Err(Error::shape(what, "at least 2, with different seeds", "at most 1"));
    }
    Ok((squares / dof as f64).sqrt())
}

fn checked(accuracy: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&accuracy) {
        return Ok(accuracy);
    }
    Err(Error::config("accuracy", accuracy, "0 to 1; 92.3 % is 0.923"))
}

/// Adds a run, unless its seed has another one.
fn note<T: Copy + PartialEq + std::fmt::Debug>(
    runs: &mut BTreeMap<u64, T>,
    seed: u64,
    value: T,
    what: &str,
) -> Result<()> {
    match runs.insert(seed, value) {
        Some(before) if before != value => {
            runs.insert(seed, before);
            let got = format!("{value:?} after {before:?}");
            Err(Error::config(format!("accuracy of {what}, seed {seed}"), got, "one value per seed"))
        }
        _ => Ok(()),
    }
}

fn rows_of(table: Table, rows: Vec<Vec<Cell>>) -> Result<Table> {
    rows.into_iter().try_fold(table, |table, row| table.row(row))
}
