//! Features with their classes, on the host, and random subsets with equally many samples of every class.

use std::collections::HashSet;

use ndarray::{Array2, Axis};

use crate::error::{Error, Result, ensure_shape};
use crate::numbers::AsF64;
use crate::seed::Seed;

/// Features of samples whose classes are known.
///
/// ```text
/// z (n, d)   the features, in f64      y (n)   the class of each row, below `classes`
/// ```
/// Checked by `tests/foca/features.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let features = Features::new(&ndarray::array![[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], &[0, 1, 1], 2)?;
/// assert_eq!((features.n(), features.d(), features.classes), (3, 2, 2));
/// assert_eq!(features.take(&[2])?.z, ndarray::array![[4.0, 5.0]]);
/// assert_eq!(features.rows()?.counts(), [1, 2]);
/// assert!(Features::new(&ndarray::array![[f64::NAN]], &[0], 1).is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    pub z: Array2<f64>,
    pub y: Vec<u32>,
    pub classes: usize,
}

impl Features {
    /// Features from any numbers of shape (n, d), with one label per row.
    ///
    /// Host: all numbers. Fails: `Shape` unless there is at least one row and column and a label per row, `Data` for a
    /// number that is not finite or a label that is no class.
    pub fn new(z: &(impl AsF64 + ?Sized), y: &(impl AsF64 + ?Sized), classes: usize) -> Result<Features> {
        let dims = z.sizes();
        let &[n, d] = &dims[..] else {
            return Err(Error::shape("features", "[n, d], one row per sample", format!("{dims:?}")));
        };
        if n == 0 || d == 0 {
            return Err(Error::shape("features", "at least one row and one column", format!("{dims:?}")));
        }
        ensure_shape("labels of features", &[n][..], &y.sizes()[..])?;
        let numbers = z.numbers()?.into_owned();
        if let Some(i) = numbers.iter().position(|v| !v.is_finite()) {
            let why = format!("row {} holds {}; look at what the backbone computes there", i / d, numbers[i]);
            return Err(Error::data("features", why));
        }
        let labels = y.numbers()?;
        let known = |label: f64| label >= 0.0 && label < classes as f64 && label.fract() == 0.0;
        if let Some(row) = labels.iter().position(|label| !known(*label)) {
            let why = format!("label {} of row {row} is none of the {classes} classes, from 0", labels[row]);
            return Err(Error::data("features", why));
        }
        let z = Array2::from_shape_vec((n, d), numbers).map_err(|e| Error::shape("features", "[n, d]", e))?;
        Ok(Features { z, y: labels.iter().map(|label| *label as u32).collect(), classes })
    }

    /// Number of rows.
    pub fn n(&self) -> usize {
        self.z.nrows()
    }

    /// Number of features.
    pub fn d(&self) -> usize {
        self.z.ncols()
    }

    /// These rows, in this order; a row may come twice. Fails: `Config` for a row that is not there, `Shape` without one.
    pub fn take(&self, rows: &[usize]) -> Result<Features> {
        if rows.is_empty() {
            return Err(Error::shape("rows of features", "at least one", "none"));
        }
        if let Some(row) = rows.iter().find(|row| **row >= self.n()) {
            return Err(Error::config("row", row, format!("0 to {}", self.n() - 1)));
        }
        let y = rows.iter().map(|row| self.y[*row]).collect();
        Ok(Features { z: self.z.select(Axis(0), rows), y, classes: self.classes })
    }

    /// The rows of each class. Fails: `Data` if a class has none.
    pub fn rows(&self) -> Result<ClassRows> {
        ClassRows::new(&self.y, self.classes)
    }

    /// (n, classes) One in the column of each row's class, zero elsewhere.
    pub fn one_hot(&self) -> Array2<f64> {
        let mut t = Array2::zeros((self.n(), self.classes));
        self.y.iter().enumerate().for_each(|(row, class)| t[[row, *class as usize]] = 1.0);
        t
    }

    /// Shows the sizes.
    pub fn evcxr_display(&self) {
        let text = format!("{} rows of {} features, {} classes", self.n(), self.d(), self.classes);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// The rows of every class, from which balanced subsets are drawn.
///
/// Checked by `tests/foca/features.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let rows = ClassRows::new(&[0, 1, 1, 0, 1], 2)?;
/// assert_eq!(rows.counts(), [2, 3]);
/// let mut drawn = rows.draw(2, false, Seed::new(1))?; // two of each class
/// drawn[..2].sort();
/// assert_eq!(drawn[..2], [0, 3]);
/// assert!(rows.draw(3, false, Seed::new(1)).is_err()); // class 0 has two
/// assert_eq!(rows.draw(3, true, Seed::new(1))?.len(), 6); // unless one may come twice
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRows {
    rows: Vec<Vec<usize>>,
}

impl ClassRows {
    /// Rows by class. Fails: `Data` for a label that is no class, or a class without a sample.
    pub fn new(y: &[u32], classes: usize) -> Result<ClassRows> {
        let mut rows = vec![Vec::new(); classes];
        for (row, class) in y.iter().enumerate() {
            let of_class = rows.get_mut(*class as usize).ok_or_else(|| {
                Error::data("labels", format!("label {class} of row {row} is none of the {classes} classes"))
            })?;
            of_class.push(row);
        }
        if let Some(class) = rows.iter().position(Vec::is_empty) {
            let why = format!("class {class} has no sample; leave it out with Dataset::classes");
            return Err(Error::data("labels", why));
        }
        Ok(ClassRows { rows })
    }

    /// Samples of each class.
    pub fn counts(&self) -> Vec<usize> {
        self.rows.iter().map(Vec::len).collect()
    }

    /// `k` random rows of every class, one class after the other; every set of k is as likely as any other.
    ///
    /// With `replacement` a row may come twice, and k may exceed a class. Cost: O(k) per class. Fails: `Config` for
    /// k = 0, or a k above the size of a class without replacement.
    pub fn draw(&self, k: usize, replacement: bool, seed: Seed) -> Result<Vec<usize>> {
        self.draw_each(&vec![k; self.rows.len()], replacement, seed)
    }

    /// The same with a number of rows for each class.
    pub(crate) fn draw_each(&self, each: &[usize], replacement: bool, seed: Seed) -> Result<Vec<usize>> {
        let mut drawn = Vec::new();
        let wanted = each.iter().fold(0usize, |sum, k| sum.saturating_add(*k));
        if replacement && drawn.try_reserve_exact(wanted).is_err() {
            return Err(Error::config("samples of all classes", wanted, "what fits into memory"));
        }
        for ((class, rows), &k) in self.rows.iter().enumerate().zip(each) {
            if k == 0 {
                return Err(Error::config("samples per class", 0, "at least 1"));
            }
            let (seed, n) = (seed.stream(class as u64), rows.len());
            if replacement {
                for c in 0..k {
                    drawn.push(rows[seed.below(c as u64, n)?]);
                }
                continue;
            }
            if k > n {
                let allowed = format!("at most {n}, the samples of class {class}; or set replacement");
                return Err(Error::config("samples per class", k, allowed));
            }
            // Floyd: the last of a growing range joins whenever the one drawn is there already.
            let mut taken = HashSet::with_capacity(k);
            for last in n - k..n {
                let place = seed.below(last as u64, last + 1)?;
                let place = if taken.insert(place) { place } else { last };
                taken.insert(place);
                drawn.push(rows[place]);
            }
        }
        Ok(drawn)
    }

    /// Shows the samples of each class.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(format!("rows by class: {:?}", self.counts()));
    }
}
