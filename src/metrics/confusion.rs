//! Counts of true and predicted classes, and the rates that follow from them.

use candle_core::{DType, Tensor};

use super::{class_count, classes, f_of_counts, recall_weight};
use crate::error::{Error, Result, ensure_shape};
use crate::ndarray::Array2;
use crate::numbers::{AsF64, zeros_and_ones};
use crate::table::Table;

/// How often each class was predicted for each true class.
///
/// Row = true class, column = predicted class. With two classes, 1 is the positive one. A rate whose denominator is
/// zero is an error that names what is missing.
/// Checked by `tests/metrics/confusion.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let counts = Confusion::new([1, 1, 0, 0, 1], [1, 0, 0, 0, 1], 2)?;
/// assert_eq!(counts.counts(), ndarray::array![[2, 1], [0, 2]]); // row: truth, column: prediction
/// assert_eq!((counts.accuracy(), counts.precision()?, counts.tpr()?), (0.8, 2.0 / 3.0, 1.0));
/// assert!((counts.f_beta(1.0)? - 0.8).abs() < 1e-15);
/// let never = Confusion::new([0, 0], [0, 1], 2)?;
/// assert!(never.precision().is_err()); // no alarm: 0/0 is an error, not NaN
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Confusion {
    counts: Array2<usize>,
}

impl Confusion {
    /// Counts predictions against labels, both classes `0..k`.
    ///
    /// Shapes: `predicted` (n), `y` (n). Host: all of them, of a device the counts. Fails: `Shape` if the lengths differ or are zero, `Config` if an entry is not
    /// a class or `k` is below 2.
    pub fn new(predicted: impl AsF64, y: impl AsF64, k: usize) -> Result<Confusion> {
        class_count(k)?;
        if let (Some(predicted), Some(y)) = (predicted.on_device(), y.on_device())
            && let Some(counts) = counted(predicted, y, k)?
        {
            return Ok(Confusion { counts });
        }
        let predicted = classes("predicted classes", &predicted, k)?;
        let y = classes("labels", &y, k)?;
        ensure_shape("labels (one per prediction)", predicted.len(), y.len())?;
        let mut counts = Array2::zeros((k, k));
        for (truth, guess) in y.into_iter().zip(predicted) {
            counts[(truth, guess)] += 1;
        }
        Ok(Confusion { counts })
    }

    /// Two classes, from their four counts.
    pub(super) fn of_counts(tn: usize, fp: usize, fn_: usize, tp: usize) -> Confusion {
        Confusion { counts: crate::ndarray::arr2(&[[tn, fp], [fn_, tp]]) }
    }

    /// The counts: row = true class, column = predicted class.
    pub fn counts(&self) -> &Array2<usize> {
        &self.counts
    }

    /// Number of classes.
    pub fn k(&self) -> usize {
        self.counts.nrows()
    }

    /// Number of samples.
    pub fn n(&self) -> usize {
        self.counts.sum()
    }

    /// Share of samples whose class was predicted.
    pub fn accuracy(&self) -> f64 {
        self.counts.diag().sum() as f64 / self.n() as f64
    }

    /// Mean recall over the classes, each counting alike.
    ///
    /// Fails: `Config` if a class has no sample.
    pub fn balanced_accuracy(&self) -> Result<f64> {
        self.mean_over_classes(|class| self.class_recall(class))
    }

    /// Share of a class that was predicted as such.
    ///
    /// Fails: `Config` if the class does not exist or has no sample.
    pub fn class_recall(&self, class: usize) -> Result<f64> {
        let counts = self.of_class(class)?;
        ratio(counts.hits, counts.hits + counts.missed, || {
            (format!("recall of class {class}"), "no sample has that class".into())
        })
    }

    /// Share of the predictions of a class that were right.
    ///
    /// Fails: `Config` if the class does not exist or was never predicted.
    pub fn class_precision(&self, class: usize) -> Result<f64> {
        let counts = self.of_class(class)?;
        ratio(counts.hits, counts.hits + counts.false_alarms, || {
            (format!("precision of class {class}"), "that class was never predicted".into())
        })
    }

    /// F score of one class against the rest.
    ///
    /// ```text
    /// F_β = (1 + β²) TP / ((1 + β²) TP + β² FN + FP)
    /// ```
    /// Fails: `Config` if the class does not exist, is neither present nor predicted, or if `beta` is not positive.
    pub fn class_f(&self, class: usize, beta: f64) -> Result<f64> {
        recall_weight(beta)?;
        let counts = self.of_class(class)?;
        if counts.hits + counts.missed + counts.false_alarms == 0 {
            return Err(undefined(format!("F of class {class}"), "it is neither present nor predicted"));
        }
        Ok(f_of_counts(beta, counts.hits as f64, counts.missed as f64, counts.false_alarms as f64))
    }

    /// Mean of the classes' F scores with equal weight of precision and recall.
    ///
    /// Fails: `Config` if a class is neither present nor predicted.
    pub fn macro_f(&self) -> Result<f64> {
        self.mean_over_classes(|class| self.class_f(class, 1.0))
    }

    /// F score of all decisions pooled. With one class per sample, every miss is another class's false alarm, so this
    /// is the accuracy.
    pub fn micro_f(&self) -> f64 {
        self.accuracy()
    }

    /// True positive rate, of two classes: the share of positives that are found.
    ///
    /// Fails: `Config` unless there are two classes and a positive sample.
    pub fn tpr(&self) -> Result<f64> {
        self.two_classes()?;
        self.class_recall(1)
    }

    /// False negative rate, of two classes: the share of positives that are missed.
    ///
    /// Fails: as [`Confusion::tpr`].
    pub fn fnr(&self) -> Result<f64> {
        let [_, _, fn_, tp] = self.two_classes()?;
        ratio(fn_, fn_ + tp, || ("false negative rate".into(), "no sample is positive".into()))
    }

    /// False positive rate, of two classes: the share of negatives that raise an alarm.
    ///
    /// Fails: `Config` unless there are two classes and a negative sample.
    pub fn fpr(&self) -> Result<f64> {
        let [tn, fp, _, _] = self.two_classes()?;
        ratio(fp, tn + fp, || ("false positive rate".into(), "no sample is negative".into()))
    }

    /// True negative rate, of two classes: the share of negatives that stay silent.
    ///
    /// Fails: as [`Confusion::fpr`].
    pub fn tnr(&self) -> Result<f64> {
        self.two_classes()?;
        self.class_recall(0)
    }

    /// Precision, of two classes: the share of alarms that are positives.
    ///
    /// Fails: `Config` unless there are two classes and an alarm.
    pub fn precision(&self) -> Result<f64> {
        self.two_classes()?;
        self.class_precision(1)
    }

    /// Negative predictive value, of two classes: the share of the silent that are negatives.
    ///
    /// Fails: `Config` unless there are two classes and a silent sample.
    pub fn npv(&self) -> Result<f64> {
        self.two_classes()?;
        self.class_precision(0)
    }

    /// F score of the positives, of two classes.
    ///
    /// Fails: `Config` unless there are two classes, a positive or an alarm, and a positive `beta`.
    pub fn f_beta(&self, beta: f64) -> Result<f64> {
        self.two_classes()?;
        self.class_f(1, beta)
    }

    /// Correlation of truth and prediction, of two classes; also known as Matthews' coefficient.
    ///
    /// ```text
    /// φ = (TP·TN − FP·FN) / √((TP+FP)(TP+FN)(TN+FP)(TN+FN))
    /// ```
    /// Fails: `Config` unless there are two classes and both occur in the labels and in the predictions.
    pub fn phi(&self) -> Result<f64> {
        let [tn, fp, fn_, tp] = self.two_classes()?.map(|count| count as f64);
        let margins = [tp + fp, tp + fn_, tn + fp, tn + fn_];
        if margins.contains(&0.0) {
            return Err(undefined("phi", "one of the two never changes, so there is no correlation"));
        }
        // Two roots of pairs that agree when the prediction is perfect, which then has a correlation of exactly one.
        let scale = (margins[0] * margins[1]).sqrt() * (margins[2] * margins[3]).sqrt();
        Ok(((tp * tn - fp * fn_) / scale).clamp(-1.0, 1.0))
    }

    fn of_class(&self, class: usize) -> Result<ClassCounts> {
        if class >= self.k() {
            return Err(Error::config("class", class, format!("0 to {}", self.k() - 1)));
        }
        let hits = self.counts[(class, class)];
        Ok(ClassCounts {
            hits,
            missed: self.counts.row(class).sum() - hits,
            false_alarms: self.counts.column(class).sum() - hits,
        })
    }

    /// TN, FP, FN, TP.
    fn two_classes(&self) -> Result<[usize; 4]> {
        if self.k() != 2 {
            let allowed = "2; for more, ask for one class: class_recall, class_precision, class_f";
            return Err(Error::config("number of classes of a binary rate", self.k(), allowed));
        }
        Ok([(0, 0), (0, 1), (1, 0), (1, 1)].map(|at| self.counts[at]))
    }

    fn mean_over_classes(&self, metric: impl Fn(usize) -> Result<f64>) -> Result<f64> {
        let sum: f64 = (0..self.k()).map(metric).sum::<Result<f64>>()?;
        Ok(sum / self.k() as f64)
    }

    /// The counts as a table.
    pub fn table(&self) -> Result<Table> {
        let columns =
            std::iter::once("true class".into()).chain((0..self.k()).map(|c| format!("predicted {c}")));
        let mut table = Table::new(&columns.collect::<Vec<String>>());
        for (class, row) in self.counts.rows().into_iter().enumerate() {
            table = table.row([&[class], &row.to_vec()[..]].concat())?;
        }
        Ok(table)
    }

    /// Shows the counts.
    pub fn evcxr_display(&self) {
        match self.table() {
            Ok(table) => table.evcxr_display(),
            Err(error) => error.evcxr_display(),
        }
    }
}

/// One class against the rest.
struct ClassCounts {
    hits: usize,
    missed: usize,
    false_alarms: usize,
}

fn ratio(part: usize, whole: usize, missing: impl Fn() -> (String, String)) -> Result<f64> {
    if whole == 0 {
        let (what, why) = missing();
        return Err(undefined(what, why));
    }
    Ok(part as f64 / whole as f64)
}

fn undefined(what: impl ToString, why: impl ToString) -> Error {
    let allowed = format!(
        "a sample on which it is defined; {}: add such samples, or leave the class out",
        why.to_string()
    );
    Error::config(what, "0/0", allowed)
}

/// The counts of tensors on a device, as a product of both lists' marks; nothing if the lists have not one length, or an
/// entry is no class: that is for the host to explain. Host: the counts.
fn counted(predicted: &Tensor, y: &Tensor, k: usize) -> Result<Option<Array2<usize>>> {
    let n = y.elem_count();
    if n == 0 || predicted.elem_count() != n || !predicted.device().same_device(y.device()) {
        return Ok(None);
    }
    let classes = Tensor::arange(0u32, k as u32, y.device())?.to_dtype(DType::F64)?.unsqueeze(0)?;
    let marks = |list: &Tensor| {
        let list = list.flatten_all()?.to_dtype(DType::F64)?.unsqueeze(1)?;
        list.broadcast_eq(&classes)?.to_dtype(DType::F64)
    };
    let counts = marks(y)?.t()?.matmul(&marks(predicted)?)?.flatten_all()?.to_vec1::<f64>()?;
    let known = counts.iter().sum::<f64>() == n as f64;
    let counts = counts.into_iter().map(|count| count as usize).collect();
    Ok(Array2::from_shape_vec((k, k), counts).ok().filter(|_| known))
}

/// Correlation of two binary lists.
///
/// Shapes: both (n), entries 0 or 1. Fails: `Shape` if the lengths differ, `Data` if an entry is not 0 or 1, `Config` if
/// one list never changes. Checked by `tests/metrics/confusion.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// assert_eq!(metrics::phi([1, 1, 0, 0], [1, 0, 1, 0])?, 0.0);
/// assert_eq!(metrics::phi([1, 1, 0, 0], [0, 0, 1, 1])?, -1.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn phi(a: impl AsF64, b: impl AsF64) -> Result<f64> {
    zeros_and_ones("first list", &a)?;
    zeros_and_ones("second list", &b)?;
    Confusion::new(a, b, 2)?.phi()
}
