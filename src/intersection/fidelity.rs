//! How well attributes that nobody labelled can be read off codes: the best single test for each.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::AsF64;
use crate::seed::Seed;
use crate::table::Table;
use crate::tree::Codes;

/// The yes-or-no tests that a code offers.
///
/// Book: `intersection/fidelity.md#eq-int-fid-readings`, `#eq-int-fid-zeros`.
///
/// ```
/// use lastlayer::prelude::*;
/// // The attribute holds for codes 2 and 3: one threshold, but no single code.
/// let codes = Codes::from_bytes(vec![0, 1, 2, 3], 1, 4)?;
/// let a = ndarray::array![[0], [0], [1], [1]];
/// let of = |binarise| AttributeMatches::measure(&codes, &a, &["a"], binarise, Score::Mcc);
/// assert!((of(Binarise::Equality)?.fidelity() - 1.0 / 3f64.sqrt()).abs() < 1e-12);
/// assert_eq!(of(Binarise::Threshold)?.fidelity(), 1.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binarise {
    /// `v = c`, as in the paper.
    #[default]
    Equality,
    /// `v ≥ c`: what a question of a tree can ask.
    Threshold,
}

/// How a test and an attribute are compared.
///
/// Book: `intersection/fidelity.md#eq-int-fid-mcc`, `#eq-int-fid-annotation`.
///
/// ```
/// use lastlayer::prelude::*;
/// // A code that has nothing to do with the attribute.
/// let codes = Codes::from_bytes(vec![0, 1, 0, 1], 1, 2)?;
/// let a = ndarray::array![[0], [0], [1], [1]];
/// let of = |score| AttributeMatches::measure(&codes, &a, &["a"], Binarise::Equality, score);
/// assert_eq!(of(Score::Mcc)?.fidelity(), 0.0);
/// assert_eq!(of(Score::F1)?.fidelity(), 0.5); // chance looks like half of the way
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Score {
    /// The larger F1 of the test and of its negation, as in the paper. Depends on which value of the attribute is called 1.
    #[default]
    F1,
    /// Absolute correlation of the two (Matthews): the same whatever is called 1.
    Mcc,
}

/// What chance leaves in place when it deals the attributes anew.
///
/// Attributes of a row stay together under both. Codes that know the class and nothing else are far above `Rows`, whatever
/// the attributes are; only `Classes` can judge attributes that follow from the class.
/// Book: `intersection/fidelity.md#eq-int-fid-class-null`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Each of 6 classes has 4 rows, one code and an attribute or none: the code is the number of the class.
/// let y: Vec<u32> = (0..24).map(|row| row % 6).collect();
/// let codes = Codes::from_bytes(y.iter().map(|y| *y as u8).collect(), 1, 6)?;
/// let a = Tensor::from_vec(y.iter().map(|y| u8::from(*y == 2)).collect::<Vec<u8>>(), (24, 1), &Device::Cpu)?;
/// let x = Tensor::zeros((24, 1), DType::F32, &Device::Cpu)?;
/// let data = Dataset::new("classes", x, Tensor::new(y, &Device::Cpu)?, ["a", "b", "c", "d", "e", "f"])?;
/// let data = data.with_attributes(a, ["third"])?;
/// let found = AttributeMatches::of(&codes, &data, Binarise::Equality, Score::F1)?;
/// let p = |null| found.p_value(&found.null(null, &codes, &data, 99, Seed::new(1))?, &["third"]);
/// assert_eq!((p(Null::Rows)?, p(Null::Classes)?), (0.01, 1.0)); // any class would have been found as well
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Null {
    /// Nothing: each row takes the attributes of any row.
    #[default]
    Rows,
    /// The classes: all rows of a class take attributes of rows of one and the same class, which is drawn. A class that is
    /// larger than the one it takes from takes some rows again.
    Classes,
}

impl Null {
    /// For each row, the row whose attributes it takes.
    pub(super) fn order(self, labels: &[u32], seed: Seed) -> Vec<usize> {
        if self == Null::Rows {
            return seed.permutation(labels.len());
        }
        let mut classes = std::collections::BTreeMap::<u32, Vec<usize>>::new();
        for (row, label) in labels.iter().enumerate() {
            classes.entry(*label).or_default().push(row);
        }
        let classes: Vec<Vec<usize>> = classes.into_values().collect();
        let mut order = vec![0; labels.len()];
        for (own, from) in classes.iter().zip(seed.permutation(classes.len())) {
            let from_rows = &classes[from];
            let dealt = seed.stream(from as u64).permutation(from_rows.len());
            for (row, taken) in own.iter().zip(dealt.iter().cycle()) {
                order[*row] = from_rows[*taken];
            }
        }
        order
    }
}

/// Rank of an observed value among draws of chance, as a p-value: (1 + draws that reach it)/(1 + draws).
///
/// Book: `intersection/fidelity.md#eq-int-fid-rank`.
///
/// ```
/// use lastlayer::intersection::rank_p_value;
/// assert_eq!(rank_p_value(0.9, [0.1, 0.9, 0.3]), 0.5); // a tie reaches it
/// assert_eq!(rank_p_value(0.9, [0.0; 99]), 0.01); // never zero
/// ```
pub fn rank_p_value(observed: f64, draws: impl IntoIterator<Item = f64>) -> f64 {
    let (mut reached, mut all) = (1.0, 1.0);
    for draw in draws {
        all += 1.0;
        reached += f64::from(u8::from(draw >= observed));
    }
    reached / all
}

/// An attribute and the test that comes closest to it.
///
/// ```
/// use lastlayer::prelude::*;
/// // The code is 1 where the attribute is absent.
/// let codes = Codes::from_bytes(vec![1, 0, 1, 0], 1, 2)?;
/// let a = ndarray::array![[0], [1], [0], [1]];
/// let found = AttributeMatches::measure(&codes, &a, &["a"], Binarise::Threshold, Score::Mcc)?;
/// let best = &found.matched[0];
/// assert_eq!((&best.name[..], best.feature, best.code), ("a", 0, 1)); // the test z0 ≥ 1
/// assert!(best.inverted && best.value == 1.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttributeMatch {
    pub name: String,
    /// Its column among the attributes.
    pub column: usize,
    /// Share of rows that have it.
    pub prevalence: f64,
    pub feature: usize,
    pub code: u8,
    /// Whether the test holds where the attribute does not.
    pub inverted: bool,
    pub value: f64,
}

/// Fidelity of codes to attributes, attribute by attribute.
///
/// ```text
/// F1(a, b) = 2 |a ∧ b| / (|a| + |b|)      r̂(f, g) = max(F1(f, g), F1(f, 1 − g))
/// fidelity = mean over attributes f_i of max over tests g of r̂(f_i, g)                     [Ali et al., Eq. (3)]
/// ```
/// One feature may serve several attributes. Attributes that all rows have, or none, are left out. Where some feature leaves a
/// code unused the value is at least [`floor`], which a test that always holds has; and it grows with the number of tests by
/// chance alone: report both kinds of [`null`](AttributeMatches::null) beside it. Differs: the tests v ≠ c of the paper are left out, they are the negations.
/// Checked by `tests/intersection/fidelity.rs` against counts.
/// Book: `intersection/fidelity.md#eq-int-fid-definition`.
///
/// ```
/// use lastlayer::prelude::*;
/// let codes = Codes::from_bytes(vec![0, 3, 3, 0], 1, 4)?;
/// let x = Tensor::zeros((4, 1), DType::F32, &Device::Cpu)?;
/// let data = Dataset::new("four", x, Tensor::new(&[0u32, 1, 1, 0], &Device::Cpu)?, ["no", "yes"])?;
/// let a = Tensor::new(&[[0u8, 1], [1, 1], [1, 1], [0, 1]], &Device::Cpu)?;
/// let data = data.with_attributes(a, ["seen", "everywhere"])?;
/// let found = AttributeMatches::of(&codes, &data, Binarise::Equality, Score::F1)?;
/// assert_eq!((found.fidelity(), &found.excluded[..]), (1.0, &["everywhere".to_string()][..]));
/// let chance = found.null(Null::Rows, &codes, &data, 20, Seed::new(1))?;
/// assert!(chance.iter().all(|null| null.fidelity() <= 1.0));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttributeMatches {
    pub binarise: Binarise,
    pub score: Score,
    pub matched: Vec<AttributeMatch>,
    /// Attributes with one value only.
    pub excluded: Vec<String>,
}

/// r̂ of a test that always holds, for an attribute of this prevalence: 2π/(1 + π).
///
/// Book: `intersection/fidelity.md#eq-int-fid-floor`, `#eq-int-fid-mediant`.
///
/// ```
/// use lastlayer::prelude::*;
/// // A test that always holds, for an attribute of half of the rows: precision ½, recall 1.
/// assert!((intersection::floor(0.5) - 2.0 / 3.0).abs() < 1e-12);
/// ```
pub fn floor(prevalence: f64) -> f64 {
    2.0 * prevalence / (1.0 + prevalence)
}

impl AttributeMatches {
    /// Fidelity of codes to the attributes of their set.
    ///
    /// Host: all attributes. Fails: `Data` if the set has no attributes, or none with two values; `Shape` for codes of another
    /// set.
    pub fn of(codes: &Codes, data: &Dataset, binarise: Binarise, score: Score) -> Result<AttributeMatches> {
        AttributeMatches::measure(codes, data.attributes()?, &data.names.attributes, binarise, score)
    }

    /// Fidelity to a table of attributes, 0 or 1. Shapes: `codes` (n, d), `a` (n, attributes).
    ///
    /// Cost: O(attributes · d · levels · n/64) word operations. Fails: as [`of`](AttributeMatches::of), and `Data` for NaN.
    pub fn measure<S: AsRef<str>>(
        codes: &Codes,
        a: &(impl AsF64 + ?Sized),
        names: &[S],
        binarise: Binarise,
        score: Score,
    ) -> Result<AttributeMatches> {
        let bits = Bits::of(a, codes.n(), names)?;
        Ok(bits.best(codes, binarise, score))
    }

    /// The tests that were found, on other rows: without the optimism of having chosen them there.
    ///
    /// Fails: as [`of`](AttributeMatches::of), `Shape` for codes with fewer features, and `Data` if no attribute that was matched has
    /// two values on these rows.
    /// Book: `intersection/fidelity.md#eq-int-fid-held-out`.
    pub fn again(&self, codes: &Codes, data: &Dataset) -> Result<AttributeMatches> {
        let bits = Bits::of(data.attributes()?, codes.n(), &data.names.attributes)?;
        if let Some(m) = self.matched.iter().find(|m| m.feature >= codes.d()) {
            let expected = format!("more than {}; take codes of the same network", m.feature);
            return Err(Error::shape("features of codes", expected, codes.d()));
        }
        let mut again = AttributeMatches { matched: Vec::new(), excluded: bits.excluded.clone(), ..*self };
        for old in &self.matched {
            let Some(i) = bits.names.iter().position(|(column, _)| *column == old.column) else { continue };
            let holds = |code: u8| match self.binarise {
                Binarise::Equality => code == old.code,
                Binarise::Threshold => code >= old.code,
            };
            let (mut size, mut both) = (0, 0);
            for (row, code) in codes.column(old.feature).enumerate() {
                size += u64::from(holds(code));
                both += u64::from(holds(code)) & (bits.of_attribute(i)[row / 64] >> (row % 64));
            }
            let count = Count { n: bits.n as u64, size, positives: bits.positives[i], both };
            let plain = self.score.of(&count);
            let value = if old.inverted { self.score.of(&count.inverted()) } else { plain };
            let prevalence = bits.positives[i] as f64 / bits.n as f64;
            again.matched.push(AttributeMatch { prevalence, value, ..old.clone() });
        }
        match again.matched.is_empty() {
            true => {
                Err(Error::data(&data.names.set, "no matched attribute has two values here; take more rows"))
            }
            false => Ok(again),
        }
    }

    /// Fidelity after the attributes were dealt anew, several times: what chance reaches with as many tests.
    ///
    /// Host: labels and attributes. Fails: as [`of`](AttributeMatches::of), and `Config` without a draw.
    /// Book: `intersection/fidelity.md#eq-int-fid-null`, `#eq-int-fid-class-null`.
    pub fn null(
        &self,
        null: Null,
        codes: &Codes,
        data: &Dataset,
        times: usize,
        seed: Seed,
    ) -> Result<Vec<AttributeMatches>> {
        if times == 0 {
            return Err(Error::config("draws of chance", 0, "at least 1; 99 for p-values from 0.01"));
        }
        let labels = data.labels()?;
        let table = data.attributes()?.numbers()?.into_owned();
        let columns = data.names.attributes.len();
        let shuffled = |time: usize| {
            let order = null.order(&labels, seed.stream(time as u64));
            let rows = order.iter().flat_map(|row| table[row * columns..][..columns].iter().copied());
            let a = ndarray::Array2::from_shape_vec((data.n(), columns), rows.collect());
            let a = a.map_err(|e| Error::shape("attributes", "[n, attributes]", e))?;
            AttributeMatches::measure(codes, &a, &data.names.attributes, self.binarise, self.score)
        };
        (0..times).map(shuffled).collect()
    }

    /// Mean over all attributes: the paper's number.
    pub fn fidelity(&self) -> f64 {
        mean(self.matched.iter().map(|m| m.value))
    }

    /// Mean over the attributes of these names; those that were left out do not count. Fails: `Config` if none is left.
    pub fn fidelity_of<S: AsRef<str>>(&self, names: &[S]) -> Result<f64> {
        let named = |m: &&AttributeMatch| names.iter().any(|name| name.as_ref() == m.name);
        let values: Vec<f64> = self.matched.iter().filter(named).map(|m| m.value).collect();
        if values.is_empty() {
            let known: Vec<&str> = self.matched.iter().map(|m| m.name.as_str()).collect();
            return Err(Error::config("attributes", "none of them", known.join(", ")));
        }
        Ok(mean(values.into_iter()))
    }

    /// How often chance reaches the mean over the attributes of these names, as a p-value; see [`rank_p_value`].
    ///
    /// A draw that leaves none of them two values counts as one that reaches it. Fails: as
    /// [`fidelity_of`](AttributeMatches::fidelity_of).
    /// Book: `intersection/fidelity.md#eq-int-fid-rank`.
    pub fn p_value<S: AsRef<str>>(&self, null: &[AttributeMatches], names: &[S]) -> Result<f64> {
        let drawn = null.iter().map(|draw| draw.fidelity_of(names).unwrap_or(f64::INFINITY));
        Ok(rank_p_value(self.fidelity_of(names)?, drawn))
    }

    /// Mean of what a test that always holds reaches: [`floor`] for F1, zero for a correlation.
    pub fn floor(&self) -> f64 {
        match self.score {
            Score::F1 => mean(self.matched.iter().map(|m| floor(m.prevalence))),
            Score::Mcc => 0.0,
        }
    }

    /// One row per attribute: the test, its score, and the floor.
    pub fn table(&self) -> Result<Table> {
        let mut table = Table::new(&["attribute", "prevalence", "test", "score", "floor"]).decimals(3);
        for m in &self.matched {
            let test = match (self.binarise, m.inverted) {
                (Binarise::Equality, false) => format!("z{} = {}", m.feature, m.code),
                (Binarise::Equality, true) => format!("z{} ≠ {}", m.feature, m.code),
                (Binarise::Threshold, false) => format!("z{} ≥ {}", m.feature, m.code),
                (Binarise::Threshold, true) => format!("z{} < {}", m.feature, m.code),
            };
            let floor = if self.score == Score::F1 { floor(m.prevalence) } else { 0.0 };
            table = table.row((m.name.as_str(), m.prevalence, test, m.value, floor))?;
        }
        Ok(table)
    }

    /// Shows the table.
    pub fn evcxr_display(&self) {
        if let Ok(table) = self.table() {
            table.evcxr_display();
        }
    }
}

/// r̂ of the best set of classes, for each attribute: what someone who knows the class and nothing else can reach.
///
/// ```text
/// max over sets of classes A of r̂(f, 1[y ∈ A])
/// ```
/// The best set takes classes in the order of the attribute's share in them, so as many sets are compared as there are
/// classes. Host: labels and attributes. Fails: `Data` if the set has no attributes. Checked by
/// `tests/intersection/fidelity.rs` against all sets.
/// Book: `intersection/fidelity.md#eq-int-fid-oracle`, `#eq-int-fid-detector`.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Tensor::zeros((4, 1), DType::F32, &Device::Cpu)?;
/// let data = Dataset::new("four", x, Tensor::new(&[0u32, 0, 1, 1], &Device::Cpu)?, ["a", "b"])?;
/// let attributes = Tensor::new(&[[1u8, 1], [1, 0], [0, 1], [0, 0]], &Device::Cpu)?;
/// let data = data.with_attributes(attributes, ["class", "coin"])?;
/// let best = class_oracle(&data)?;
/// assert_eq!(best[0], 1.0); // the class says it all
/// assert!((best[1] - 2.0 / 3.0).abs() < 1e-12); // and here nothing: a test that always holds
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn class_oracle(data: &Dataset) -> Result<Vec<f64>> {
    let (labels, columns) = (data.labels()?, data.names.attributes.len());
    let table = data.attributes()?.numbers()?.into_owned();
    let one = |column: usize| {
        let mut classes = vec![(0u64, 0u64); data.k()];
        for (label, row) in labels.iter().zip(table.chunks_exact(columns)) {
            let (size, positives) = &mut classes[*label as usize];
            (*size, *positives) = (*size + 1, *positives + u64::from(row[column] >= 0.5));
        }
        classes.retain(|(size, _)| *size > 0);
        // Shares compared without dividing.
        classes.sort_by(|a, b| (b.1 * a.0).cmp(&(a.1 * b.0)));
        let positives = classes.iter().map(|class| class.1).sum();
        let mut count = Count { n: labels.len() as u64, size: 0, positives, both: 0 };
        let mut best = Score::F1.of(&count.inverted());
        for (size, hits) in classes {
            (count.size, count.both) = (count.size + size, count.both + hits);
            best = best.max(Score::F1.of(&count)).max(Score::F1.of(&count.inverted()));
        }
        best
    };
    Ok((0..columns).map(one).collect())
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len() as f64;
    values.sum::<f64>() / n
}

/// How often a test and an attribute hold, by themselves and together.
#[derive(Clone, Copy)]
pub(super) struct Count {
    pub n: u64,
    pub size: u64,
    pub positives: u64,
    pub both: u64,
}

impl Count {
    /// The counts of the negated test.
    pub fn inverted(&self) -> Count {
        Count { size: self.n - self.size, both: self.positives - self.both, ..*self }
    }

    /// Correlation of the two; zero if one of them is constant.
    pub fn mcc(&self) -> f64 {
        let [n, size, positives, both] = [self.n, self.size, self.positives, self.both].map(|c| c as f64);
        let spread = size * (n - size) * positives * (n - positives);
        if spread > 0.0 { (n * both - size * positives) / spread.sqrt() } else { 0.0 }
    }
}

impl Score {
    fn of(self, count: &Count) -> f64 {
        match self {
            Score::F1 if count.size + count.positives == 0 => 0.0,
            Score::F1 => 2.0 * count.both as f64 / (count.size + count.positives) as f64,
            Score::Mcc => count.mcc(),
        }
    }
}

/// Attributes with two values as sets of rows, 64 to a word.
struct Bits {
    n: usize,
    words: usize,
    /// Column and name.
    names: Vec<(usize, String)>,
    positives: Vec<u64>,
    sets: Vec<u64>,
    excluded: Vec<String>,
}

/// Features whose sets are made in one pass over the rows: they fit into the second-level cache.
const BLOCK: usize = 16;

impl Bits {
    /// Host: the attributes.
    fn of<S: AsRef<str>>(a: &(impl AsF64 + ?Sized), n: usize, names: &[S]) -> Result<Bits> {
        ensure_shape("attributes of codes", vec![n, names.len()], a.sizes())?;
        let table = a.numbers()?;
        if table.iter().any(|v| v.is_nan()) {
            return Err(Error::data("attributes", "there is a NaN; leave the row out or fill it in"));
        }
        // Whole registers of the widest kind.
        let words = n.div_ceil(64).next_multiple_of(8);
        let mut bits = Bits {
            n,
            words,
            names: Vec::new(),
            positives: Vec::new(),
            sets: Vec::new(),
            excluded: Vec::new(),
        };
        for (column, name) in names.iter().enumerate() {
            let mut set = vec![0u64; words];
            for (row, values) in table.chunks_exact(names.len()).enumerate() {
                set[row / 64] |= u64::from(values[column] >= 0.5) << (row % 64);
            }
            let positives = set.iter().map(|word| u64::from(word.count_ones())).sum();
            if positives == 0 || positives == n as u64 {
                bits.excluded.push(name.as_ref().to_string());
            } else {
                bits.names.push((column, name.as_ref().to_string()));
                bits.positives.push(positives);
                bits.sets.extend(set);
            }
        }
        match bits.names.is_empty() {
            true => {
                Err(Error::data("attributes", "each of them has one value only; there is nothing to recover"))
            }
            false => Ok(bits),
        }
    }

    fn of_attribute(&self, i: usize) -> &[u64] {
        &self.sets[i * self.words..][..self.words]
    }

    fn best(&self, codes: &Codes, binarise: Binarise, score: Score) -> AttributeMatches {
        let blocks = codes.d().div_ceil(BLOCK);
        let best = (0..blocks).into_par_iter().map(|block| {
            let mut found = vec![Found::NONE; self.names.len()];
            let features = BLOCK.min(codes.d() - block * BLOCK);
            let sets = self.sets_of(codes, block * BLOCK, features);
            for (f, own) in sets.chunks_exact(codes.levels() * self.words).enumerate() {
                widest(Task {
                    bits: self,
                    own,
                    feature: block * BLOCK + f,
                    binarise,
                    score,
                    found: &mut found,
                });
            }
            found
        });
        let first = |a: Vec<Found>, b: Vec<Found>| a.into_iter().zip(b).map(|(a, b)| a.or(b)).collect();
        let best = best.reduce(|| vec![Found::NONE; self.names.len()], first);
        let matched = best.into_iter().enumerate().map(|(i, found)| AttributeMatch {
            name: self.names[i].1.clone(),
            column: self.names[i].0,
            prevalence: self.positives[i] as f64 / self.n as f64,
            feature: found.feature,
            code: found.code,
            inverted: found.inverted,
            value: found.value,
        });
        AttributeMatches { binarise, score, matched: matched.collect(), excluded: self.excluded.clone() }
    }

    /// Rows that have each code of some features: [feature][code][word].
    fn sets_of(&self, codes: &Codes, first: usize, features: usize) -> Vec<u64> {
        let levels = codes.levels();
        let mut sets = vec![0u64; features * levels * self.words];
        for (row, values) in codes.rows().enumerate() {
            for (f, code) in values[first..first + features].iter().enumerate() {
                sets[(f * levels + usize::from(*code)) * self.words + row / 64] |= 1 << (row % 64);
            }
        }
        sets
    }
}

/// The best test so far. Features and codes come in order, so the first of equals stays.
#[derive(Clone, Copy)]
struct Found {
    value: f64,
    feature: usize,
    code: u8,
    inverted: bool,
}

impl Found {
    const NONE: Found = Found { value: -1.0, feature: usize::MAX, code: 0, inverted: false };

    fn or(self, other: Found) -> Found {
        let earlier = other.feature < self.feature;
        if other.value > self.value || (other.value == self.value && earlier) { other } else { self }
    }
}

/// One feature against all attributes.
struct Task<'a> {
    bits: &'a Bits,
    own: &'a [u64],
    feature: usize,
    binarise: Binarise,
    score: Score,
    found: &'a mut [Found],
}

/// Runs a task with the best counting instructions that the processor has; counts are whole numbers, so all agree.
fn widest(task: Task) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq")]
        fn wide(task: Task) {
            task.run();
        }
        #[target_feature(enable = "avx2,popcnt")]
        fn half(task: Task) {
            task.run();
        }
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vpopcntdq")
        {
            // SAFETY: the processor has just been found to have these instructions.
            return unsafe { wide(task) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor has just been found to have these instructions.
            return unsafe { half(task) };
        }
    }
    task.run();
}

impl Task<'_> {
    #[inline(always)]
    fn run(self) {
        let words = self.bits.words;
        let sizes: Vec<u64> = self
            .own
            .chunks_exact(words)
            .map(|set| set.iter().map(|w| u64::from(w.count_ones())).sum())
            .collect();
        let mut together = vec![0u64; sizes.len()];
        for (i, found) in self.found.iter_mut().enumerate() {
            let attribute = self.bits.of_attribute(i);
            for ((both, size), own) in together.iter_mut().zip(&sizes).zip(self.own.chunks_exact(words)) {
                *both = 0;
                if *size > 0 {
                    *both = own.iter().zip(attribute).map(|(a, b)| u64::from((a & b).count_ones())).sum();
                }
            }
            let (n, positives) = (self.bits.n as u64, self.bits.positives[i]);
            let (mut size, mut both) = (n, positives);
            for (code, (own, shared)) in sizes.iter().zip(&together).enumerate() {
                // Equality asks for this code; a threshold for all but the codes below it, and never for all.
                match (self.binarise, code) {
                    (Binarise::Equality, _) => (size, both) = (*own, *shared),
                    (Binarise::Threshold, 0) => continue,
                    (Binarise::Threshold, _) => {
                        (size, both) = (size - sizes[code - 1], both - together[code - 1]);
                    }
                }
                let count = Count { n, size, positives, both };
                let (plain, negated) = match self.score {
                    Score::F1 => (Score::F1.of(&count), Score::F1.of(&count.inverted())),
                    Score::Mcc => (count.mcc(), -count.mcc()),
                };
                let value = plain.max(negated);
                if value > found.value {
                    let (feature, code) = (self.feature, code as u8);
                    *found = Found { value, feature, code, inverted: negated > plain };
                }
            }
        }
    }
}
