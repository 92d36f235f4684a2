//! Who counts in a rate.

use crate::data::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::Numbers;

/// Classes and groups of the samples whose scores a rate counts. Host: all of them.
///
/// Checked by `tests/rate/smooth.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let labels = Labels::new([1, 0, 0])?.with_attributes(ndarray::array![[1], [1], [0]])?;
/// assert_eq!(labels.n(), 3);
/// assert_eq!(labels.attribute(0)?, [true, true, false]);
/// assert!(Labels::new([0, 1, 2]).is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Labels {
    positive: Vec<bool>,
    positives: usize,
    /// One list per attribute: who has it.
    attributes: Vec<Vec<bool>>,
}

/// Among whom a rate is taken: all, or those with or without an attribute, by its column.
///
/// ```
/// use lastlayer::prelude::*;
/// use lastlayer::rate::{RateSum, Within};
/// let labels = Labels::new([0, 0, 0, 0])?.with_attributes(ndarray::array![[1], [1], [0], [0]])?;
/// let alarms = Rate::FalsePositive.term().within(Within::With(0));
/// let among = RateSum { terms: vec![alarms], constant: 0.0 };
/// assert_eq!(among.count([2.0, 0.0, 2.0, 2.0], &labels, &[1.0])?, 0.5);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Within {
    #[default]
    All,
    With(usize),
    Without(usize),
}

impl Labels {
    /// From one label per sample, 0 or 1.
    ///
    /// Fails: `Shape` without a sample, `Data` for a label that is neither. A class without samples is no error here but
    /// where a rate asks for it.
    pub fn new(y: impl Numbers) -> Result<Labels> {
        let y = y.numbers()?;
        if y.is_empty() {
            return Err(Error::shape("labels", "at least one", 0));
        }
        let positive = flags("labels", &y)?;
        let positives = positive.iter().filter(|p| **p).count();
        Ok(Labels { positive, positives, attributes: Vec::new() })
    }

    /// From a set of two classes, with its attributes as groups.
    ///
    /// Fails: `Data` for a third class or an attribute that is not 0 or 1.
    pub fn of(data: &Dataset) -> Result<Labels> {
        let labels = Labels::new(&data.y)?;
        data.a.as_ref().map_or(Ok(labels.clone()), |a| labels.clone().with_attributes(a))
    }

    /// The same with groups. Shapes: `a` (n, k), 0 or 1.
    ///
    /// Fails: `Shape` unless there is a row per sample, `Data` for an entry that is neither 0 nor 1.
    pub fn with_attributes(self, a: impl Numbers) -> Result<Labels> {
        let (dims, a) = (a.sizes(), a.numbers()?);
        let &[n, k] = &dims[..] else {
            return Err(Error::shape("attributes", "[n, k], a row per sample", format!("{dims:?}")));
        };
        ensure_shape("samples with attributes", self.n(), n)?;
        let a = flags("attributes", &a)?;
        let attributes = (0..k).map(|j| (0..n).map(|i| a[i * k + j]).collect()).collect();
        Ok(Labels { attributes, ..self })
    }

    /// Number of samples.
    pub fn n(&self) -> usize {
        self.positive.len()
    }

    /// Whether a sample is of class 1.
    pub(super) fn is_positive(&self, i: usize) -> bool {
        self.positive[i]
    }

    /// Whether a sample is in a group.
    pub(super) fn is_within(&self, within: Within, i: usize) -> bool {
        match within {
            Within::All => true,
            Within::With(attribute) => self.attributes[attribute][i],
            Within::Without(attribute) => !self.attributes[attribute][i],
        }
    }

    /// How many positives and negatives are in a group. Fails: `Config` if there is no such attribute.
    pub(super) fn counts(&self, within: Within) -> Result<(usize, usize)> {
        match within {
            Within::All => return Ok((self.positives, self.n() - self.positives)),
            Within::With(attribute) | Within::Without(attribute) => self.attribute(attribute)?,
        };
        let members = (0..self.n()).filter(|i| self.is_within(within, *i));
        Ok(members.fold((0, 0), |(p, n), i| if self.positive[i] { (p + 1, n) } else { (p, n + 1) }))
    }

    /// Who has an attribute, by its column. Fails: `Config` if there is no such column.
    pub fn attribute(&self, attribute: usize) -> Result<&[bool]> {
        let known = self.attributes.len();
        let list = self.attributes.get(attribute);
        list.map(Vec::as_slice).ok_or_else(|| {
            Error::config(
                "attribute of a group",
                attribute,
                format!("a column below {known}; with_attributes adds some"),
            )
        })
    }

    /// One row per sample: label, then attributes.
    pub(super) fn rows(&self) -> impl Iterator<Item = Vec<f64>> + '_ {
        (0..self.n()).map(|i| {
            let flags = std::iter::once(self.positive[i]).chain(self.attributes.iter().map(move |a| a[i]));
            flags.map(|flag| f64::from(u8::from(flag))).collect()
        })
    }

    /// Shows how many there are of each class.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(format!("{self:?}"));
    }
}

// By hand: the lists may be long.
impl std::fmt::Debug for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (positive, negative) = (self.positives, self.n() - self.positives);
        write!(f, "Labels({positive} positive, {negative} negative, {} attributes)", self.attributes.len())
    }
}

fn flags(what: &str, values: &[f64]) -> Result<Vec<bool>> {
    let flag = |(i, v): (usize, &f64)| match *v {
        0.0 => Ok(false),
        1.0 => Ok(true),
        other => Err(Error::data(what, format!("entry {i} is {other}; only 0 and 1 can be counted"))),
    };
    values.iter().enumerate().map(flag).collect()
}
