//! Choosing samples: subsets, seeded splits and batches, and other labels for the same inputs.

use candle_core::{DType, Tensor};

use super::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::seed::Seed;

impl Dataset {
    /// The samples in these rows, in this order; a row may come twice.
    ///
    /// Fails: `Shape` without a row, `Config` for a row that is not there.
    pub fn subset(&self, rows: &[usize]) -> Result<Dataset> {
        if rows.is_empty() {
            return Err(Error::shape(format!("rows of {}", self.names.set), "at least one", "none"));
        }
        if let Some(row) = rows.iter().find(|r| **r >= self.n()) {
            return Err(Error::config("row", row, format!("0 to {}, the last sample", self.n() - 1)));
        }
        self.select(&self.places(rows)?)
    }

    /// Numbers of rows where the samples are.
    fn places(&self, rows: &[usize]) -> Result<Tensor> {
        let rows: Vec<u32> = rows.iter().map(|r| *r as u32).collect();
        Ok(Tensor::new(rows, self.x.device())?)
    }

    /// The samples in these rows, all of which are there.
    fn select(&self, rows: &Tensor) -> Result<Dataset> {
        let a = self.a.as_ref().map(|a| a.index_select(rows, 0)).transpose()?;
        let (x, y) = (self.x.index_select(rows, 0)?, self.y.index_select(rows, 0)?);
        Ok(Dataset { x, y, a, names: self.names.clone() })
    }

    /// Two sets, the first with this share of every class, both in the order of the original.
    ///
    /// A class of n gives the first set the nearest whole number to share · n, but leaves each set at least one.
    /// Fails: `Config` for a share outside (0, 1), `Data` for a class with fewer than two samples.
    pub fn split(&self, share: f64, seed: Seed) -> Result<(Dataset, Dataset)> {
        if !(share > 0.0 && share < 1.0) {
            return Err(Error::config("share of a split", share, "between 0 and 1, such as 0.8"));
        }
        let mut first = vec![false; self.n()];
        for (class, rows) in shuffled(&self.rows_by_class()?, seed.named("split")).iter().enumerate() {
            self.require(
                class,
                rows.len(),
                2,
                "one for each side of the split: merge the class with group, or leave it out with classes",
            )?;
            let count = ((share * rows.len() as f64).round() as usize).clamp(1, rows.len() - 1);
            rows[..count].iter().for_each(|row| first[*row] = true);
        }
        let (ours, others): (Vec<usize>, Vec<usize>) = (0..self.n()).partition(|row| first[*row]);
        Ok((self.subset(&ours)?, self.subset(&others)?))
    }

    /// `count` random samples of every class, in the order of the original.
    ///
    /// Fails: `Config` for none, `Data` for a class with fewer.
    pub fn per_class(&self, count: usize, seed: Seed) -> Result<Dataset> {
        if count == 0 {
            return Err(Error::config("samples per class", 0, "at least 1"));
        }
        self.keep(seed.named("per class"), |data, class, rows| {
            data.require(class, rows, count, "ask for fewer, or leave the class out with classes")?;
            Ok(count)
        })
    }

    /// A random share of every class, `shares[c]` of class c: the way to make one class rare.
    ///
    /// Fails: `Shape` unless there is one share per class, `Config` for a share outside (0, 1], `Data` for a class of
    /// which nothing would be left.
    pub fn thin(&self, shares: &[f64], seed: Seed) -> Result<Dataset> {
        ensure_shape("shares, one per class", self.k(), shares.len())?;
        if let Some(share) = shares.iter().find(|s| !(**s > 0.0 && **s <= 1.0)) {
            return Err(Error::config("share of a class", share, "above 0, at most 1"));
        }
        self.keep(seed.named("thin"), |data, class, rows| {
            let count = (shares[class] * rows as f64).round() as usize;
            if count == 0 {
                let name = &data.names.classes[class];
                let why = format!(
                    "of the {rows} samples of class {name:?} none would be left; keep a larger share"
                );
                return Err(Error::data(&data.names.set, why));
            }
            Ok(count)
        })
    }

    /// Drops one side of a two-class set at random until class 1 makes up `share`, as the LP paper does.
    ///
    /// ```text
    /// equal classes, keep .1 / .2 / .4 / 1 of class 0   =   share .909 / .833 / .714 / .5
    /// ```
    /// Fails: `Config` for a share outside (0, 1) or more than two classes, `Data` if a class is or becomes empty.
    pub fn imbalance(&self, share: f64, seed: Seed) -> Result<Dataset> {
        if !(share > 0.0 && share < 1.0) {
            return Err(Error::config("share of class 1", share, "between 0 and 1"));
        }
        if self.k() != 2 {
            let allowed = "2 for imbalance; thin takes one share per class";
            return Err(Error::config("number of classes", self.k(), allowed));
        }
        let counts = self.class_counts()?;
        (0..2).try_for_each(|class| {
            self.require(class, counts[class], 1, "a share needs both classes: add samples of this one")
        })?;
        let (negatives, positives) = (counts[0] as f64, counts[1] as f64);
        let odds = share / (1.0 - share);
        self.thin(&[(positives / odds / negatives).min(1.0), (negatives * odds / positives).min(1.0)], seed)
    }

    /// The samples of these classes, relabelled from 0 in this order. Fails: `Config` for a name that is not there,
    /// `Shape` if no sample is left.
    pub fn classes(&self, names: &[&str]) -> Result<Dataset> {
        let groups = names.iter().map(|name| {
            let found = self.names.classes.iter().position(|c| c == name);
            let class = found.ok_or_else(|| Error::config("class", name, some_names(&self.names.classes)))?;
            Ok((*name, vec![class]))
        });
        self.group(&groups.collect::<Result<Vec<_>>>()?)
    }

    /// Classes merged into named groups; samples of other classes are left out.
    ///
    /// Fails: `Config` for a class that is not there or in two groups, `Shape` if no sample is left.
    pub fn group(&self, groups: &[(&str, Vec<usize>)]) -> Result<Dataset> {
        let mut group_of = vec![None; self.k()];
        for (g, (name, members)) in groups.iter().enumerate() {
            for class in members {
                let slot = group_of.get_mut(*class).filter(|slot| slot.is_none()).ok_or_else(|| {
                    let allowed =
                        format!("each class from 0 to {} in at most one group", self.k().saturating_sub(1));
                    Error::config(format!("class of group {name}"), class, allowed)
                })?;
                *slot = Some(g as u32);
            }
        }
        let labels = self.labels()?;
        let rows: Vec<usize> = (0..self.n()).filter(|r| group_of[labels[*r] as usize].is_some()).collect();
        let chosen = self.subset(&rows)?;
        let y: Vec<u32> = rows.iter().filter_map(|r| group_of[labels[*r] as usize]).collect();
        chosen.relabel(Tensor::new(y, self.x.device())?, groups.iter().map(|(name, _)| name.to_string()))
    }

    /// Makes one attribute the label; inputs and the other attributes stay.
    ///
    /// Class 1 is where the attribute is at least one half. Fails: `Config` if there is no such attribute.
    pub fn target(&self, name: &str) -> Result<Dataset> {
        let (a, column) = self.attribute_column(name)?;
        let y = self.attribute(name)?.ge(0.5)?.to_dtype(DType::U32)?;
        let mut data = self.relabel(y, [format!("not {name}"), name.to_string()])?;
        let others: Vec<u32> = (0..a.dim(1)? as u32).filter(|j| *j as usize != column).collect();
        data.names.attributes.remove(column);
        data.a = match others.is_empty() {
            true => None,
            false => Some(a.index_select(&Tensor::new(others, a.device())?, 1)?),
        };
        Ok(data)
    }

    /// Adds an attribute with the name of a class: 1 where that class is the label.
    ///
    /// The way back from [`target`](Dataset::target), for methods that take attributes only. Fails: `Config` if there is no
    /// such class, `Data` if an attribute has this name already.
    pub fn class_as_attribute(&self, class: &str) -> Result<Dataset> {
        let known = || Error::config("class", class, self.names.classes.join(", "));
        let number = self.names.classes.iter().position(|name| name == class).ok_or_else(known)?;
        let column = self.y.eq(number as u32)?.to_dtype(DType::F32)?.unsqueeze(1)?;
        let a = match &self.a {
            Some(a) => Tensor::cat(&[a, &column], 1)?,
            None => column,
        };
        let names = self.names.attributes.iter().map(String::as_str).chain([class]);
        self.clone().with_attributes(a, names.collect::<Vec<&str>>())
    }

    fn relabel(&self, y: Tensor, classes: impl IntoIterator<Item = String>) -> Result<Dataset> {
        let relabelled = Dataset::new(&self.names.set, self.x.clone(), y, classes)?;
        let names = super::Names { classes: relabelled.names.classes, ..self.names.clone() };
        Ok(Dataset { names, a: self.a.clone(), ..relabelled })
    }

    /// The samples in random order, in pieces of `size`; what is left makes a last, smaller one.
    ///
    /// Inputs of a batch are as [`inputs`](Dataset::inputs) gives them. Another epoch is another stream of the seed:
    /// `data.batches(64, seed.stream(epoch))`. Fails: `Config` unless `size` is from 1 to the number of samples.
    pub fn batches(&self, size: usize, seed: Seed) -> Result<Batches> {
        Batches::new(self, size, seed.named("batches").permutation(self.n()))
    }

    /// Batches in which every class is within two of its share: for losses that need several classes in each.
    ///
    /// A class with fewer samples than there are batches is missing from some. Fails: as [`batches`](Dataset::batches).
    pub fn stratified_batches(&self, size: usize, seed: Seed) -> Result<Batches> {
        self.stratified_of(&self.rows_by_class()?, size, seed)
    }

    /// Stratified batches from [`rows_by_class`](Dataset::rows_by_class), which need not be read again for every epoch.
    pub(crate) fn stratified_of(&self, classes: &[Vec<usize>], size: usize, seed: Seed) -> Result<Batches> {
        let seed = seed.named("stratified batches");
        // The i-th of n samples of a class belongs at (i + u) / n of the epoch; sorting by place spreads every class.
        let mut places: Vec<(f64, usize)> = Vec::with_capacity(self.n());
        for (class, rows) in shuffled(classes, seed).iter().enumerate() {
            let shift = seed.uniform(class as u64);
            places.extend(rows.iter().enumerate().map(|(i, r)| ((i as f64 + shift) / rows.len() as f64, *r)));
        }
        places.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Batches::new(self, size, places.into_iter().map(|(_, row)| row).collect())
    }

    /// The rows of each class. Host: the labels.
    pub(crate) fn rows_by_class(&self) -> Result<Vec<Vec<usize>>> {
        let mut rows = vec![Vec::new(); self.k()];
        for (row, label) in self.labels()?.into_iter().enumerate() {
            rows[label as usize].push(row);
        }
        Ok(rows)
    }

    /// Keeps as many random samples of each class as `count` says.
    fn keep(&self, seed: Seed, count: impl Fn(&Dataset, usize, usize) -> Result<usize>) -> Result<Dataset> {
        let mut kept = Vec::new();
        for (class, rows) in shuffled(&self.rows_by_class()?, seed).iter().enumerate() {
            kept.extend_from_slice(&rows[..count(self, class, rows.len())?.min(rows.len())]);
        }
        kept.sort_unstable();
        self.subset(&kept)
    }

    fn require(&self, class: usize, found: usize, needed: usize, remedy: &str) -> Result<()> {
        if found >= needed {
            return Ok(());
        }
        let name = &self.names.classes[class];
        let why = format!("class {name:?} has {found} samples where {needed} are needed; {remedy}");
        Err(Error::data(&self.names.set, why))
    }
}

/// The rows of each class in random order.
fn shuffled(classes: &[Vec<usize>], seed: Seed) -> Vec<Vec<usize>> {
    let one = |(class, rows): (usize, &Vec<usize>)| {
        let order = seed.stream(class as u64).permutation(rows.len());
        order.into_iter().map(|i| rows[i]).collect()
    };
    classes.iter().enumerate().map(one).collect()
}

/// A few names, for a message.
fn some_names(names: &[String]) -> String {
    match names.len() {
        0..=12 => names.join(", "),
        n => format!("{}, … ({n} in all)", names[..12].join(", ")),
    }
}

/// Batches of one epoch, made as they are asked for: an iterator over results.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = load::bundled("iris", &Device::Cpu)?;
/// let batches = data.batches(64, Seed::new(1).stream(0))?; // epoch 0
/// let sizes = batches.map(|batch| Ok(batch?.n())).collect::<Result<Vec<_>>>()?;
/// assert_eq!(sizes, [64, 64, 22]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batches {
    data: Dataset,
    order: Vec<usize>,
    /// The order on the device of the samples: moved once, not a piece for every batch.
    places: Tensor,
    size: usize,
    next: usize,
}

impl Batches {
    fn new(data: &Dataset, size: usize, order: Vec<usize>) -> Result<Batches> {
        if size == 0 || size > data.n() {
            let allowed = format!("1 to {}, the samples of {}", data.n(), data.names.set);
            return Err(Error::config("batch size", size, allowed));
        }
        let places = data.places(&order)?;
        Ok(Batches { data: data.clone(), order, places, size, next: 0 })
    }

    /// The rows of the set that make up batch number `i` of the epoch, from 0. Fails: `Config` if there are fewer.
    pub fn rows(&self, i: usize) -> Result<&[usize]> {
        let start = i.saturating_mul(self.size).min(self.order.len());
        let rows = &self.order[start..(start + self.size).min(self.order.len())];
        if rows.is_empty() {
            let last = self.order.len().div_ceil(self.size).saturating_sub(1);
            return Err(Error::config("number of a batch", i, format!("0 to {last}")));
        }
        Ok(rows)
    }

    /// Batch number `i` of the epoch, from 0. Fails: `Config` if there are fewer.
    pub fn get(&self, i: usize) -> Result<Dataset> {
        let rows = self.rows(i)?;
        let batch = self.data.select(&self.places.narrow(0, i * self.size, rows.len())?)?;
        Ok(Dataset { x: batch.inputs()?, ..batch })
    }

    /// Shows how many batches are left.
    pub fn evcxr_display(&self) {
        let text = format!(
            "{} batches of {} from {}, each of up to {}",
            self.len(),
            self.order.len(),
            self.data.names.set,
            self.size
        );
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

impl ExactSizeIterator for Batches {}

impl Iterator for Batches {
    type Item = Result<Dataset>;

    fn next(&mut self) -> Option<Result<Dataset>> {
        if self.next * self.size >= self.order.len() {
            return None;
        }
        self.next += 1;
        Some(self.get(self.next - 1))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.order.len().div_ceil(self.size) - self.next;
        (left, Some(left))
    }
}
