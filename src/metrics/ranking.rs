//! Curves over all thresholds, and the areas under them.

use super::scores::Cut;
use super::{Scores, f_of_counts, recall_weight, share};
use crate::error::{Error, Result};
use crate::figure::{Curve, Figure, curves};

/// The ROC curve: true positive rate against false positive rate, one point per distinct threshold.
///
/// Point i is the rule `s > thresholds[i]`; the first is (0, 0), the last (1, 1) with a threshold of minus infinity.
/// Equal scores enter together, so a tie across classes is a sloped segment.
/// Checked by `tests/metrics/ranking.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let roc = Scores::new([0.9, 0.5, 0.5, 0.1], [1, 1, 0, 0])?.roc();
/// assert_eq!((&roc.fpr[..], &roc.tpr[..]), (&[0.0, 0.0, 0.5, 1.0][..], &[0.0, 0.5, 1.0, 1.0][..]));
/// assert_eq!(roc.thresholds[0], 0.9); // nothing lies strictly above it
/// assert!(roc.figure()?.describe().starts_with("Curves"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Roc {
    /// Share of the negatives above the threshold, ascending.
    pub fpr: Vec<f64>,
    /// Share of the positives above the threshold, ascending.
    pub tpr: Vec<f64>,
    /// Thresholds, descending.
    pub thresholds: Vec<f64>,
}

impl Roc {
    /// The points as a curve for [`curves`].
    pub fn curve(&self, name: &str) -> Curve {
        Curve::new(name, &self.fpr, &self.tpr)
    }

    /// The curve alone, on labelled axes.
    pub fn figure(&self) -> Result<Figure> {
        Ok(curves(&[self.curve("ROC")])?.labels("false positive rate", "true positive rate"))
    }

    /// Shows the curve.
    pub fn evcxr_display(&self) {
        show(self.figure());
    }
}

/// Precision against recall, one point per distinct threshold below the highest score.
///
/// Point i is the rule `s > thresholds[i]`, which calls at least one sample positive, so precision is always defined;
/// recall ascends to 1.
/// Checked by `tests/metrics/ranking.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let found = Scores::new([0.9, 0.7, 0.5, 0.1], [1, 0, 1, 0])?.precision_recall();
/// assert_eq!(found.recall, [0.5, 0.5, 1.0, 1.0]);
/// assert_eq!(found.precision, [1.0, 0.5, 2.0 / 3.0, 0.5]);
/// assert_eq!(found.thresholds, [0.7, 0.5, 0.1, f64::NEG_INFINITY]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PrecisionRecall {
    /// Share of the positives that are found, ascending.
    pub recall: Vec<f64>,
    /// Share of the found that are positives.
    pub precision: Vec<f64>,
    /// Thresholds, descending.
    pub thresholds: Vec<f64>,
}

impl PrecisionRecall {
    /// The points as a curve for [`curves`].
    pub fn curve(&self, name: &str) -> Curve {
        Curve::new(name, &self.recall, &self.precision)
    }

    /// The curve alone, on labelled axes.
    pub fn figure(&self) -> Result<Figure> {
        Ok(curves(&[self.curve("precision")])?.labels("recall", "precision"))
    }

    /// Shows the curve.
    pub fn evcxr_display(&self) {
        show(self.figure());
    }
}

fn show(figure: Result<Figure>) {
    match figure {
        Ok(figure) => figure.evcxr_display(),
        Err(error) => error.evcxr_display(),
    }
}

impl Scores {
    /// The ROC curve, with equal scores merged into one point.
    ///
    /// Cost: O(n).
    pub fn roc(&self) -> Roc {
        let mut roc = Roc { fpr: Vec::new(), tpr: Vec::new(), thresholds: Vec::new() };
        for cut in self.cuts() {
            roc.fpr.push(self.fpr_of(&cut));
            roc.tpr.push(self.tpr_of(&cut));
            roc.thresholds.push(cut.threshold);
        }
        roc
    }

    /// Mean true positive rate over a range of false positive rates: the area under that part of the ROC curve,
    /// divided by its width.
    ///
    /// ```text
    /// 1/(high − low) ∫_low^high TPR dFPR,   TPR linear between the points of the curve
    /// ```
    /// `partial_auc(0, 1)` is the AUC. scikit-learn's `max_fpr` reports McClish's rescaling of the area from zero
    /// instead: see [`Scores::partial_auc_standardised`]. Cost: O(n). Fails: `Config` unless 0 ≤ low < high ≤ 1.
    pub fn partial_auc(&self, low: f64, high: f64) -> Result<f64> {
        if !(0.0 <= low && low < high && high <= 1.0) {
            let got = format!("{low} to {high}");
            return Err(Error::config("range of false positive rates", got, "0 <= low < high <= 1"));
        }
        let mut area = 0.0;
        let (mut x0, mut y0) = (0.0f64, 0.0);
        for cut in self.cuts() {
            let (x1, y1) = (self.fpr_of(&cut), self.tpr_of(&cut));
            let (from, to) = (x0.max(low), x1.min(high));
            if to > from {
                let height = |x: f64| y0 + (y1 - y0) * (x - x0) / (x1 - x0);
                area += 0.5 * (height(from) + height(to)) * (to - from);
            }
            (x0, y0) = (x1, y1);
        }
        Ok(area / (high - low))
    }

    /// Partial AUC up to a false positive rate, rescaled so that chance is one half and perfection is one.
    ///
    /// ```text
    /// ½ (1 + (A − A₀)/(A₁ − A₀)),   A = area up to max_fpr,   A₀ = max_fpr²/2,   A₁ = max_fpr     [McClish 1989]
    /// ```
    /// Equals scikit-learn's `roc_auc_score(max_fpr=…)`. Fails: `Config` unless 0 < max_fpr ≤ 1.
    pub fn partial_auc_standardised(&self, max_fpr: f64) -> Result<f64> {
        // With A = max_fpr · mean, max_fpr cancels from both differences.
        let mean = self.partial_auc(0.0, max_fpr)?;
        let chance = 0.5 * max_fpr;
        Ok(0.5 * (1.0 + (mean - chance) / (1.0 - chance)))
    }

    /// Precision and recall at every distinct threshold.
    ///
    /// scikit-learn adds an artificial point (recall 0, precision 1), which no threshold attains; this curve does not.
    /// Cost: O(n).
    pub fn precision_recall(&self) -> PrecisionRecall {
        let mut out = PrecisionRecall { recall: Vec::new(), precision: Vec::new(), thresholds: Vec::new() };
        for (cut, precision) in self.precisions() {
            out.recall.push(self.tpr_of(&cut));
            out.precision.push(precision);
            out.thresholds.push(cut.threshold);
        }
        out
    }

    /// Average precision: the area under precision against recall as a sum of steps, without interpolation.
    ///
    /// ```text
    /// AP = Σ_i (R_i − R_{i−1}) P_i
    /// ```
    /// Cost: O(n). Equals scikit-learn's `average_precision_score`.
    pub fn average_precision(&self) -> f64 {
        let (mut sum, mut found) = (0.0, 0);
        for (cut, precision) in self.precisions() {
            sum += (cut.true_positives - found) as f64 * precision;
            found = cut.true_positives;
        }
        sum / self.n_positive() as f64
    }

    /// Highest precision among the thresholds whose recall is at least the given one.
    ///
    /// ```text
    /// max P(t)  subject to  R(t) ≥ recall
    /// ```
    /// Some threshold always attains it: minus infinity has recall 1. Cost: O(n). Fails: `Config` unless `recall` lies
    /// in [0, 1].
    pub fn precision_at_recall(&self, recall: f64) -> Result<f64> {
        let needed = self.positives_for(share("recall", recall)?);
        let good = self.precisions().filter(|(cut, _)| cut.true_positives >= needed);
        Ok(good.map(|(_, precision)| precision).fold(0.0, f64::max))
    }

    /// Highest recall among the thresholds whose precision is at least the given one.
    ///
    /// Cost: O(n). Fails: `Config` unless `precision` lies in [0, 1], and if no threshold attains it; the message then
    /// gives the highest precision that is attained.
    pub fn recall_at_precision(&self, precision: f64) -> Result<f64> {
        share("precision", precision)?;
        let good = self.precisions().filter(|(_, p)| *p >= precision);
        let best = good.map(|(cut, _)| cut.true_positives).max().ok_or_else(|| {
            let highest = self.precisions().map(|(_, p)| p).fold(0.0, f64::max);
            let allowed =
                format!("at most {highest}, the highest precision of any threshold on these scores");
            Error::config("precision", precision, allowed)
        })?;
        Ok(best as f64 / self.n_positive() as f64)
    }

    /// Threshold with the highest balanced accuracy, and that accuracy; among equals the highest threshold.
    ///
    /// ```text
    /// ½ (TPR + TNR)
    /// ```
    /// Cost: O(n). Checked by `tests/metrics/ranking.rs::the_best_balanced_threshold_is_that_of_a_count`.
    pub fn best_balanced(&self) -> (f64, f64) {
        let mut best = (f64::INFINITY, 0.5);
        for cut in self.cuts() {
            let value = 0.5 * (self.tpr_of(&cut) + 1.0 - self.fpr_of(&cut));
            if value > best.1 {
                best = (cut.threshold, value);
            }
        }
        best
    }

    /// Threshold with the highest F score, and that score; among equals the highest threshold.
    ///
    /// ```text
    /// F_β = (1 + β²) TP / ((1 + β²) TP + β² FN + FP)
    /// ```
    /// Cost: O(n). Fails: `Config` unless `beta` is positive.
    pub fn best_f(&self, beta: f64) -> Result<(f64, f64)> {
        recall_weight(beta)?;
        let mut best = (f64::INFINITY, 0.0);
        for cut in self.cuts() {
            let (tp, fp) = (cut.true_positives, cut.false_positives);
            let value = f_of_counts(beta, tp as f64, (self.n_positive() - tp) as f64, fp as f64);
            if value > best.1 {
                best = (cut.threshold, value);
            }
        }
        Ok(best)
    }

    pub(super) fn fpr_of(&self, cut: &Cut) -> f64 {
        cut.false_positives as f64 / self.n_negative() as f64
    }

    pub(super) fn tpr_of(&self, cut: &Cut) -> f64 {
        cut.true_positives as f64 / self.n_positive() as f64
    }

    /// The cuts that call at least one sample positive, with their precision.
    fn precisions(&self) -> impl Iterator<Item = (Cut, f64)> + '_ {
        self.cuts().skip(1).map(|cut| {
            let (tp, fp) = (cut.true_positives as f64, cut.false_positives as f64);
            (cut, tp / (tp + fp))
        })
    }
}
