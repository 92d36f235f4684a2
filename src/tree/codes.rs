//! Features that are small whole numbers.

use candle_core::{DType, Tensor};
use ndarray::Array2;

use crate::error::{Error, Result, ensure_shape};
use crate::numbers::AsF64;
use crate::table::{Cell, Table};

/// A table of whole numbers from 0 to `levels − 1`, one row per sample, one column per feature.
///
/// Checked by `tests/tree/codes.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let codes = Codes::new(&ndarray::array![[0, 3], [1, 0]], 4)?;
/// assert_eq!((codes.n(), codes.d(), codes.levels()), (2, 2, 4));
/// assert_eq!(codes.row(1), [1, 0]);
/// assert_eq!(codes.column(0).collect::<Vec<_>>(), [0, 1]);
/// assert_eq!(codes.zeros(), 0.5);
/// assert!(Codes::new(&ndarray::array![[0.5]], 4).is_err()); // no whole number
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codes {
    d: usize,
    levels: usize,
    /// Row after row.
    values: Vec<u8>,
}

/// Fewest and most levels that a byte can tell apart.
const LEVELS: std::ops::RangeInclusive<usize> = 2..=256;

impl Codes {
    /// Codes from a table of numbers, a tensor for example.
    ///
    /// Shapes: `values` (n, d). Host: all of it. Fails: `Shape` unless there are two dimensions and an entry, `Config` for
    /// levels outside 2 to 256, `Data` for a number that is no whole number below `levels`.
    pub fn new(values: &(impl AsF64 + ?Sized), levels: usize) -> Result<Codes> {
        let dims = values.sizes();
        let [n, d] = dims[..] else {
            return Err(Error::shape("codes", "[n, d]", format!("{dims:?}")));
        };
        let numbers = values.numbers()?;
        let whole = |v: &f64| (0.0..levels as f64).contains(v) && v.fract() == 0.0;
        if let Some(at) = numbers.iter().position(|v| !whole(v)) {
            let why = format!(
                "row {} of column {} is {}; quantise it to a whole number from 0 to {}",
                at / d.max(1),
                at % d.max(1),
                numbers[at],
                levels.saturating_sub(1)
            );
            return Err(Error::data("codes", why));
        }
        let codes = Codes::from_bytes(numbers.iter().map(|v| *v as u8).collect(), d, levels)?;
        ensure_shape("rows of codes", n, codes.n())?;
        Ok(codes)
    }

    /// Codes of a tensor, where it is: a device sends one byte for each. Host: all of it. Fails: as [`new`](Codes::new).
    pub(crate) fn of(values: &Tensor, levels: usize) -> Result<Codes> {
        let &[n, d] = values.dims() else { return Codes::new(values, levels) };
        if values.device().is_cpu() || n * d == 0 {
            return Codes::new(values, levels);
        }
        let values = values.detach();
        let bytes = values.to_dtype(DType::U8)?;
        // What is no whole number below 256 does not come back as it was; one more byte tells.
        let other = bytes.to_dtype(values.dtype())?.ne(&values)?.to_dtype(DType::F32)?.max_all()?;
        let told = [bytes.flatten_all()?, other.to_dtype(DType::U8)?.reshape(1)?];
        let mut told: Vec<u8> = Tensor::cat(&told, 0)?.to_vec1()?;
        match told.pop() {
            Some(0) => Codes::from_bytes(told, d, levels).or_else(|_| Codes::new(&values, levels)),
            _ => Codes::new(&values, levels),
        }
    }

    /// Codes row after row. Fails: as [`new`](Codes::new).
    pub fn from_bytes(values: Vec<u8>, d: usize, levels: usize) -> Result<Codes> {
        if !LEVELS.contains(&levels) {
            return Err(Error::config("levels of codes", levels, "2 to 256"));
        }
        if d == 0 || values.is_empty() || !values.len().is_multiple_of(d) {
            let got = format!("{} numbers in rows of {d}", values.len());
            return Err(Error::shape("codes", "at least one whole row", got));
        }
        if let Some(code) = values.iter().find(|code| usize::from(**code) >= levels) {
            return Err(Error::data("codes", format!("there is a {code} among {levels} levels from 0")));
        }
        Ok(Codes { d, levels, values })
    }

    /// Number of rows.
    pub fn n(&self) -> usize {
        self.values.len() / self.d
    }

    /// Number of features.
    pub fn d(&self) -> usize {
        self.d
    }

    /// Number of values that a code can have.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// One row. An index that does not exist gives an empty row.
    pub fn row(&self, i: usize) -> &[u8] {
        self.values.get(i * self.d..(i + 1) * self.d).unwrap_or_default()
    }

    /// The rows one after the other.
    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.values.chunks_exact(self.d)
    }

    /// One feature of every row.
    pub fn column(&self, j: usize) -> impl Iterator<Item = u8> {
        self.rows().filter_map(move |row| row.get(j).copied())
    }

    /// These rows, in this order. Fails: `Shape` for a row that is not there, or for none.
    pub fn take(&self, rows: &[usize]) -> Result<Codes> {
        if let Some(row) = rows.iter().find(|row| **row >= self.n()) {
            return Err(Error::shape("row of codes", format!("below {}", self.n()), row));
        }
        Codes::from_bytes(rows.iter().flat_map(|row| self.row(*row)).copied().collect(), self.d, self.levels)
    }

    /// Share of all codes that are zero: how sparse they are.
    pub fn zeros(&self) -> f64 {
        self.values.iter().filter(|code| **code == 0).count() as f64 / self.values.len() as f64
    }

    /// (d, levels) How often each feature has each code.
    pub fn counts(&self) -> Array2<usize> {
        let mut counts = Array2::zeros((self.d, self.levels));
        for row in self.rows() {
            for (j, code) in row.iter().enumerate() {
                counts[[j, usize::from(*code)]] += 1;
            }
        }
        counts
    }

    /// Shows the size, the share of zeros, and how many levels features use.
    pub fn evcxr_display(&self) {
        let used: Vec<usize> = self
            .counts()
            .rows()
            .into_iter()
            .map(|row| row.iter().filter(|count| **count > 0).count())
            .collect();
        let mean = used.iter().sum::<usize>() as f64 / self.d as f64;
        let rows: Vec<(&str, Cell)> = vec![
            ("rows", self.n().into()),
            ("features", self.d.into()),
            ("levels", self.levels.into()),
            ("share of zeros", self.zeros().into()),
            ("levels in use, mean of features", mean.into()),
            ("features with one level", used.iter().filter(|used| **used == 1).count().into()),
        ];
        let rows = rows.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        Table::pairs("codes", "value", rows).decimals(3).evcxr_display();
    }
}
