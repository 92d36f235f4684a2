//! Who counts in a rate.

use std::sync::OnceLock;

use candle_core::{DType, Device, Tensor};

use crate::data::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::{AsF64, to_tensor, zeros_and_ones};

/// Classes and groups of the samples whose scores a rate counts.
///
/// Labels of a set that lies on a device stay there: only their counts come home. Host: all of them where they were given
/// on the host, or where somebody asks who has an attribute. Checked by `tests/rate/smooth.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let labels = Labels::new([1, 0, 0])?.with_attributes(ndarray::array![[1], [1], [0]])?;
/// assert_eq!(labels.n(), 3);
/// assert_eq!(labels.attribute(0)?, [true, true, false]);
/// assert!(Labels::new([0, 1, 2]).is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone)]
pub struct Labels {
    n: usize,
    /// Positives and negatives, of all and then of those with each attribute.
    counts: Vec<(usize, usize)>,
    /// Label, then attributes: (1 + k, n) of 0 and 1, where they lie on a device.
    rows: Option<Tensor>,
    /// The same on the host, once somebody asks.
    flags: OnceLock<Flags>,
}

/// Labels and attributes as they are read one by one.
#[derive(Clone, PartialEq)]
pub(super) struct Flags {
    positive: Vec<bool>,
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
    /// Host: the labels. Fails: `Shape` without a sample, `Data` for a label that is neither. A class without samples is no error here but
    /// where a rate asks for it.
    pub fn new(y: impl AsF64) -> Result<Labels> {
        let y = zeros_and_ones("labels", &y)?;
        if y.is_empty() {
            return Err(Error::shape("labels", "at least one", 0));
        }
        let positive = y.iter().map(|y| *y == 1.0).collect();
        Ok(Labels::from_flags(Flags { positive, attributes: Vec::new() }))
    }

    /// From a set of two classes, with its attributes as groups.
    ///
    /// Fails: `Data` for a third class or an attribute that is not 0 or 1.
    pub fn of(data: &Dataset) -> Result<Labels> {
        if data.y.device().is_cpu() {
            let labels = Labels::new(&data.y)?;
            return data.a.as_ref().map_or(Ok(labels.clone()), |a| labels.clone().with_attributes(a));
        }
        let mut rows = vec![data.y.unsqueeze(0)?.to_dtype(DType::F64)?];
        if let Some(a) = &data.a {
            rows.push(a.t()?.to_dtype(DType::F64)?);
        }
        Labels::of_rows(&Tensor::cat(&rows, 0)?)
    }

    /// From rows of 0 and 1: label, then attributes. Host: counts; all of them if they lie there, or if one is neither.
    pub(super) fn of_rows(rows: &Tensor) -> Result<Labels> {
        let (_, n) = rows.dims2()?;
        if !rows.device().is_cpu() && n > 0 {
            let among = Tensor::stack(&[Tensor::ones(n, DType::F64, rows.device())?, rows.get(0)?], 1)?;
            let wrong = (rows * (1.0 - rows)?)?.abs()?.sum_keepdim(1)?;
            let sums = Tensor::cat(&[rows.matmul(&among)?, wrong], 1)?.to_vec2::<f64>()?;
            if sums.iter().all(|row| row[2] == 0.0) {
                let positives = sums[0][0];
                let own = sums[1..].iter().map(|row| (row[1] as usize, (row[0] - row[1]) as usize));
                let counts =
                    std::iter::once((positives as usize, n - positives as usize)).chain(own).collect();
                return Ok(Labels { n, counts, rows: Some(rows.clone()), flags: OnceLock::new() });
            }
        }
        let labels = Labels::new(rows.get(0)?)?;
        if rows.dim(0)? == 1 {
            Ok(labels)
        } else {
            labels.with_attributes(rows.narrow(0, 1, rows.dim(0)? - 1)?.t()?)
        }
    }

    /// These labels with groups. Shapes: `a` (n, k), 0 or 1.
    ///
    /// Host: all of `a`. Fails: `Shape` unless there is a row per sample, `Data` for an entry that is neither 0 nor 1.
    pub fn with_attributes(self, a: impl AsF64) -> Result<Labels> {
        let dims = a.sizes();
        let &[n, k] = &dims[..] else {
            return Err(Error::shape("attributes", "[n, k], a row per sample", format!("{dims:?}")));
        };
        ensure_shape("samples with attributes", self.n(), n)?;
        let a = zeros_and_ones("attributes", &a)?;
        let attributes = (0..k).map(|j| (0..n).map(|i| a[i * k + j] == 1.0).collect()).collect();
        Ok(Labels::from_flags(Flags { attributes, ..self.flags()?.clone() }))
    }

    fn from_flags(flags: Flags) -> Labels {
        let count = |members: &dyn Fn(usize) -> bool| {
            let of = |wanted: bool| {
                flags.positive.iter().enumerate().filter(|(i, p)| **p == wanted && members(*i)).count()
            };
            (of(true), of(false))
        };
        let all = count(&|_| true);
        let own = flags.attributes.iter().map(|has| count(&|i| has[i]));
        let counts = std::iter::once(all).chain(own).collect();
        Labels { n: flags.positive.len(), counts, rows: None, flags: OnceLock::from(flags) }
    }

    /// Number of samples.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Who has an attribute, by its column. Fails: `Config` if there is no such column.
    pub fn attribute(&self, attribute: usize) -> Result<&[bool]> {
        self.has(attribute)?;
        Ok(&self.flags()?.attributes[attribute])
    }

    /// Fails: `Config` if there is no such attribute.
    pub(super) fn has(&self, attribute: usize) -> Result<()> {
        let known = self.counts.len() - 1;
        if attribute < known {
            return Ok(());
        }
        let allowed = format!("a column below {known}; with_attributes adds some");
        Err(Error::config("attribute of a group", attribute, allowed))
    }

    /// How many positives and negatives are in a group. Fails: `Config` if there is no such attribute.
    pub(super) fn counts(&self, within: Within) -> Result<(usize, usize)> {
        let (p, n) = self.counts[0];
        match within {
            Within::All => Ok((p, n)),
            Within::With(attribute) => self.has(attribute).map(|()| self.counts[attribute + 1]),
            Within::Without(attribute) => {
                self.has(attribute)?;
                let (with_p, with_n) = self.counts[attribute + 1];
                Ok((p - with_p, n - with_n))
            }
        }
    }

    /// Host: all of them.
    pub(super) fn flags(&self) -> Result<&Flags> {
        if let (None, Some(rows)) = (self.flags.get(), &self.rows) {
            let mut lists =
                rows.to_vec2::<f64>()?.into_iter().map(|row| row.iter().map(|flag| *flag > 0.0).collect());
            let positive = lists.next().unwrap_or_default();
            // Another thread may have been first, with the same.
            let _ = self.flags.set(Flags { positive, attributes: lists.collect() });
        }
        self.flags.get().ok_or_else(|| Error::data("labels", "there are none; make them with Labels::new"))
    }

    /// Label and attributes as rows (1 + k, n) of 0 and 1, f64, where they are needed.
    pub(super) fn rows(&self, device: &Device) -> Result<Tensor> {
        if let Some(rows) = self.rows.as_ref().filter(|rows| rows.device().same_device(device)) {
            return Ok(rows.clone());
        }
        let Flags { positive, attributes } = self.flags()?;
        let lists = std::iter::once(positive).chain(attributes);
        let values = lists.flatten().map(|flag| f64::from(u8::from(*flag))).collect();
        to_tensor(values, (1 + attributes.len(), self.n), DType::F64, device)
    }

    /// The cell of every sample, as [`Flags::cell`] has it, on a device.
    pub(super) fn cells(&self, attributes: &[usize], device: &Device) -> Result<Tensor> {
        let rows = self.rows(device)?;
        let mut cell = rows.get(0)?;
        for (j, attribute) in attributes.iter().enumerate() {
            cell = (cell + (rows.get(attribute + 1)? * f64::from(2u32 << j))?)?;
        }
        Ok(cell.to_dtype(DType::U32)?)
    }

    /// Shows how many there are of each class.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(format!("{self:?}"));
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Labels) -> bool {
        self.counts == other.counts && matches!((self.flags(), other.flags()), (Ok(a), Ok(b)) if a == b)
    }
}

impl Flags {
    /// Which cell a sample is in: bit 0 is its class, bit j + 1 whether it has attribute j of the list.
    #[inline]
    pub fn cell(&self, attributes: &[usize], i: usize) -> usize {
        let own = |(j, attribute): (usize, &usize)| usize::from(self.attributes[*attribute][i]) << (j + 1);
        usize::from(self.positive[i]) + attributes.iter().enumerate().map(own).sum::<usize>()
    }

    /// Whether a sample is of class 1.
    pub fn is_positive(&self, i: usize) -> bool {
        self.positive[i]
    }
}

impl Within {
    pub(super) fn attribute(self) -> Option<usize> {
        match self {
            Within::All => None,
            Within::With(attribute) | Within::Without(attribute) => Some(attribute),
        }
    }

    /// Whether who is in a cell of some attributes is in the group too.
    pub(super) fn holds(self, attributes: &[usize], cell: usize) -> bool {
        let has = |attribute: usize| {
            let place = attributes.iter().position(|a| *a == attribute);
            place.is_some_and(|j| cell >> (j + 1) & 1 == 1)
        };
        match self {
            Within::All => true,
            Within::With(attribute) => has(attribute),
            Within::Without(attribute) => !has(attribute),
        }
    }
}

// By hand: the lists may be long.
impl std::fmt::Debug for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (positive, negative) = self.counts[0];
        let attributes = self.counts.len() - 1;
        write!(f, "Labels({positive} positive, {negative} negative, {attributes} attributes)")
    }
}
