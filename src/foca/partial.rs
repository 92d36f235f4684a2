//! How well heads do that have seen only a few samples of each class, on features that stay fixed.

use crate::error::{Error, Result, ensure_shape};
use crate::probe::Features;
use crate::probe::WeakFit;
use crate::seed::Seed;
use crate::table::{Cell, Table};

/// Accuracy of the head on all training features, and of heads on random parts of them.
///
/// Checked by `tests/foca/partial.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let z = ndarray::array![[-1.2], [-0.8], [-1.0], [0.8], [1.0], [1.2]];
/// let features = Features::new(&z, &[0, 0, 0, 1, 1, 1], 2)?;
/// let found = partial_heads(&features, &features, WeakFit::RidgeSum(0.1), &[1, 2], 4, Seed::new(1))?;
/// assert_eq!(found.parts.len(), 2);
/// assert_eq!(found.gap(1)?, found.full - found.mean(1)?);
/// assert!(found.gap(3).is_err()); // was not measured
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PartialHeads {
    /// Test accuracy of the head that was fitted to all training features.
    pub full: f64,
    /// One for each size, in the order asked for.
    pub parts: Vec<PartialHead>,
}

/// Test accuracies of heads that were fitted to `k` samples of each class.
///
/// ```
/// use lastlayer::prelude::*;
/// let z = ndarray::array![[-1.2], [-0.8], [-1.0], [0.8], [1.0], [1.2]];
/// let features = Features::new(&z, &[0, 0, 0, 1, 1, 1], 2)?;
/// let found = partial_heads(&features, &features, WeakFit::RidgeSum(0.1), &[2], 4, Seed::new(1))?;
/// let part = &found.parts[0];
/// assert_eq!((part.k, part.accuracies.len()), (2, 4));
/// assert_eq!(part.mean, part.accuracies.iter().sum::<f64>() / 4.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PartialHead {
    pub k: usize,
    /// One for each subset.
    pub accuracies: Vec<f64>,
    pub mean: f64,
    /// Sample standard deviation of the accuracies over the root of their number; not a number for a single subset.
    pub standard_error: f64,
    /// Accuracy of the full head less the mean.
    pub gap: f64,
}

/// Fits heads to random subsets of the training features, `subsets` for each size, and measures all on the test
/// features: the paper's first experiment.
///
/// ```text
/// gap(k) = accuracy of the head on all rows − mean accuracy of heads on k rows of each class
/// ```
/// Subset i of size k depends on the seed, k and i alone, so two networks see the same rows. All heads of a size are in
/// memory at once. Cost: subsets × (one fit of k rows per class + one pass over the test features) for each size.
/// Fails: `Shape` unless widths and numbers of classes agree, `Config` without a size or subset or for a k above the
/// samples of a class, `Data` if a class has no training sample. Checked by `tests/foca/partial.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Classes far apart for how wide they are: one sample of each is as good as all.
/// let z = ndarray::array![[-1.2], [-0.8], [-1.0], [0.8], [1.0], [1.2]];
/// let features = Features::new(&z, &[0, 0, 0, 1, 1, 1], 2)?;
/// let found = partial_heads(&features, &features, WeakFit::RidgeSum(0.1), &[1], 10, Seed::new(1))?;
/// assert_eq!((found.full, found.gap(1)?), (1.0, 0.0));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn partial_heads(
    train: &Features,
    test: &Features,
    fit: WeakFit,
    sizes: &[usize],
    subsets: usize,
    seed: Seed,
) -> Result<PartialHeads> {
    ensure_shape("width of the test features", train.d(), test.d())?;
    ensure_shape("classes of the test features", train.classes, test.classes)?;
    if sizes.is_empty() {
        return Err(Error::config("sizes of partial heads", "none", "at least one, such as 5"));
    }
    if subsets == 0 {
        return Err(Error::config("subsets of each size", 0, "at least 1, such as 20"));
    }
    let rows = train.rows()?;
    // A size that cannot be drawn is found before anything is fitted.
    for k in sizes {
        rows.draw(*k, false, seed)?;
    }
    let full = fit.fit(train)?.head.accuracy(test)?;
    let part = |k: usize| -> Result<PartialHead> {
        let seed = seed.stream(k as u64);
        let subset = |i: u64| train.take(&rows.draw(k, false, seed.stream(i))?);
        let sets = (0..subsets as u64).map(subset).collect::<Result<Vec<_>>>()?;
        let accuracies = fit.heads(&sets)?.iter().map(|head| head.accuracy(test)).collect::<Result<_>>()?;
        Ok(PartialHead::new(k, accuracies, full))
    };
    Ok(PartialHeads { full, parts: sizes.iter().map(|k| part(*k)).collect::<Result<_>>()? })
}

impl PartialHead {
    fn new(k: usize, accuracies: Vec<f64>, full: f64) -> PartialHead {
        let n = accuracies.len() as f64;
        let mean = accuracies.iter().sum::<f64>() / n;
        let squares: f64 = accuracies.iter().map(|a| (a - mean).powi(2)).sum();
        let standard_error = (squares / (n - 1.0) / n).sqrt();
        PartialHead { k, accuracies, mean, standard_error, gap: full - mean }
    }

    /// The mean with its standard error, where there is one.
    fn cell(&self) -> Cell {
        if self.standard_error.is_nan() { self.mean.into() } else { (self.mean, self.standard_error).into() }
    }

    /// Shows mean, standard error and gap.
    pub fn evcxr_display(&self) {
        let text = format!("{} per class: accuracy {}, gap {:.4}", self.k, self.cell().text(), self.gap);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

impl PartialHeads {
    /// Mean accuracy of the heads with k samples of each class. Fails: `Config` unless k was among the sizes.
    pub fn mean(&self, k: usize) -> Result<f64> {
        Ok(self.part(k)?.mean)
    }

    /// What heads with k samples of each class lack on average. Fails: `Config` unless k was among the sizes.
    pub fn gap(&self, k: usize) -> Result<f64> {
        Ok(self.part(k)?.gap)
    }

    fn part(&self, k: usize) -> Result<&PartialHead> {
        self.parts.iter().find(|part| part.k == k).ok_or_else(|| {
            let sizes: Vec<String> = self.parts.iter().map(|part| part.k.to_string()).collect();
            Error::config("size of partial heads", k, format!("one of those measured: {}", sizes.join(", ")))
        })
    }

    /// One row for each size, and the full head last.
    pub fn table(&self) -> Result<Table> {
        let subsets = self.parts.first().map_or(0, |part| part.accuracies.len());
        let caption =
            format!("Test accuracy of heads on parts of the data, mean ± standard error, {subsets} subsets");
        let mut table = Table::new(&["samples per class", "accuracy", "gap"]).caption(&caption);
        for part in &self.parts {
            table = table.row((part.k, part.cell(), part.gap))?;
        }
        table.row(("all", self.full, Cell::Empty))
    }

    /// Shows the table.
    pub fn evcxr_display(&self) {
        match self.table() {
            Ok(table) => table.evcxr_display(),
            Err(error) => error.evcxr_display(),
        }
    }
}
