//! Scores for several classes at once, ranked by pairs of classes or by one class against all.

use super::{Confusion, Scores, class_count, classes, finite};
use crate::error::{Error, Result, ensure_shape};
use crate::ndarray::{Array1, Array2, ArrayView1};
use crate::numbers::AsF64;
use crate::table::{Cell, Table};

/// One score per sample and class, with the true classes.
///
/// The predicted class is the one of the highest score, the lowest number among equals.
/// Checked by `tests/metrics/multiclass.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let s = ndarray::array![[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 0.0, 2.0], [5.0, 4.0, 0.0]];
/// let scores = ClassScores::new(&s, [0, 1, 2, 1])?;
/// assert_eq!(scores.predicted(), [0, 1, 2, 0]);
/// assert_eq!((scores.accuracy(), scores.confusion()?.class_recall(1)?), (0.75, 0.5));
/// assert!((scores.auc_mu()? - (0.75 + 1.0 + 1.0) / 3.0).abs() < 1e-15); // one tie between 0 and 1
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClassScores {
    s: Array2<f64>,
    y: Vec<usize>,
}

impl ClassScores {
    /// Scores of n samples for k classes, and the samples' classes.
    ///
    /// Shapes: `s` (n, k), `y` (n). Fails: `Shape` if `s` is not a matrix with a row per label, `Config` if a score is
    /// not finite, a label is not a class or there are fewer than two.
    pub fn new(s: impl AsF64, y: impl AsF64) -> Result<ClassScores> {
        let [n, k] = s.sizes()[..] else {
            return Err(Error::shape("class scores", "[n, k], a row per sample", format!("{:?}", s.sizes())));
        };
        class_count(k)?;
        let y = classes("labels", &y, k)?;
        ensure_shape("labels (one per row of scores)", n, y.len())?;
        let s = Array2::from_shape_vec((n, k), finite("class scores", &s)?.into_owned())
            .map_err(|e| Error::shape("class scores", format!("[{n}, {k}]"), e))?;
        Ok(ClassScores { s, y })
    }

    /// Number of samples.
    pub fn n(&self) -> usize {
        self.s.nrows()
    }

    /// Number of classes.
    pub fn k(&self) -> usize {
        self.s.ncols()
    }

    /// The class of the highest score of each sample.
    pub fn predicted(&self) -> Vec<usize> {
        self.s.rows().into_iter().map(highest).collect()
    }

    /// Share of samples whose class has the highest score.
    pub fn accuracy(&self) -> f64 {
        let right = self.s.rows().into_iter().zip(&self.y).filter(|(row, y)| highest(*row) == **y).count();
        right as f64 / self.n() as f64
    }

    /// Counts of true and predicted classes.
    pub fn confusion(&self) -> Result<Confusion> {
        Confusion::new(self.predicted(), self.y.as_slice(), self.k())
    }

    /// Mean over the classes of the AUC of that class's score against all other classes.
    ///
    /// Every class counts alike, however rare. Cost: O(k n log n). Fails: `Config` if a class has no sample.
    pub fn auc_ova(&self) -> Result<f64> {
        self.every_class_present()?;
        let mut sum = 0.0;
        for class in 0..self.k() {
            sum += self.auc_of(self.s.column(class).iter().copied(), |y| Some(y == class))?;
        }
        Ok(sum / self.k() as f64)
    }

    /// Multi-class AUC of Kleiman and Page for equal costs of all errors.
    ///
    /// ```text
    /// AUC_μ = 2/(K(K−1)) Σ_{k<l} AUC of class k over class l, ranked by s_k − s_l
    /// ```
    /// Cost: O(k n log n), since each sample is ranked in k − 1 pairs. Fails: `Config` if a class has no sample.
    pub fn auc_mu(&self) -> Result<f64> {
        let k = self.k();
        self.auc_mu_with(&(Array2::ones((k, k)) - Array2::<f64>::eye(k)))
    }

    /// Multi-class AUC of Kleiman and Page for a partition matrix, row k of which weighs the scores for class k.
    ///
    /// ```text
    /// v_kl = P_k − P_l,    t_i = (v_kl[k] − v_kl[l]) ⟨v_kl, s_i⟩
    /// AUC_μ = 2/(K(K−1)) Σ_{k<l} AUC of class k over class l, ranked by t         [Kleiman & Page 2019]
    /// ```
    /// Cost: O(k² n + k n log n). Fails: `Shape` if the matrix is not (k, k), `Config` if it holds NaN or infinities,
    /// cannot tell two classes apart (`v_kl[k] = v_kl[l]`), or if a class has no sample.
    /// Book: `measures/decisions.md#eq-measures-auc-mu`.
    pub fn auc_mu_with(&self, partition: &Array2<f64>) -> Result<f64> {
        let classes = self.k();
        ensure_shape("partition matrix", [classes, classes].as_slice(), partition.shape())?;
        finite("partition matrix", &partition)?;
        self.every_class_present()?;
        let mut sum = 0.0;
        for k in 0..classes {
            for l in k + 1..classes {
                let v: Array1<f64> = &partition.row(k) - &partition.row(l);
                let sign = v[k] - v[l];
                if sign == 0.0 {
                    let got = format!("one that cannot tell class {k} from class {l}");
                    let allowed = "P[k,k] - P[l,k] different from P[k,l] - P[l,l] for every pair";
                    return Err(Error::config("partition matrix", got, allowed));
                }
                let t = self.s.rows().into_iter().map(|row| sign * row.dot(&v));
                sum += self.auc_of(t, |y| if y == k { Some(true) } else { (y == l).then_some(false) })?;
            }
        }
        Ok(sum / (classes * (classes - 1) / 2) as f64)
    }

    /// AUC of one score per sample, where a sample is positive, negative, or left out.
    fn auc_of(&self, t: impl Iterator<Item = f64>, side: impl Fn(usize) -> Option<bool>) -> Result<f64> {
        let (mut positive, mut negative) = (Vec::new(), Vec::new());
        for (t, y) in t.zip(&self.y) {
            match side(*y) {
                Some(true) => positive.push(t),
                Some(false) => negative.push(t),
                None => {}
            }
        }
        // Finite scores can still overflow on their way through a partition matrix.
        finite("ranked scores", &positive)?;
        finite("ranked scores", &negative)?;
        Ok(Scores::of_classes(positive, negative)?.auc())
    }

    fn every_class_present(&self) -> Result<()> {
        match (0..self.k()).find(|class| !self.y.contains(class)) {
            None => Ok(()),
            Some(class) => {
                let got = format!("without class {class}");
                Err(Error::config(
                    "set of labels",
                    got,
                    "a sample of every class, or scores without that column",
                ))
            }
        }
    }

    /// Shows the sizes, the accuracy and, where they are defined, the ranking metrics.
    pub fn evcxr_display(&self) {
        let or_text = |value: Result<f64>| value.map_or_else(|e| Cell::from(e.to_string()), Cell::from);
        let rows = vec![
            ("samples", Cell::from(self.n())),
            ("classes", Cell::from(self.k())),
            ("accuracy", Cell::from(self.accuracy())),
            ("AUC one against all", or_text(self.auc_ova())),
            ("AUC_mu", or_text(self.auc_mu())),
        ];
        Table::pairs("class scores", "value", rows).evcxr_display();
    }
}

/// Index of the highest entry, the lowest among equals.
fn highest(row: ArrayView1<'_, f64>) -> usize {
    row.iter()
        .enumerate()
        .fold((0, f64::NEG_INFINITY), |best, (i, v)| if *v > best.1 { (i, *v) } else { best })
        .0
}
