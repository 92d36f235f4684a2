//! Binary scores with their labels: checked and sorted once, counted many times.

use rayon::prelude::*;

use super::{Confusion, finite};
use crate::error::{Error, Result, ensure_shape};
use crate::ndarray::Array1;
use crate::numbers::{AsF64, zeros_and_ones};
use crate::order::ascending;
use crate::table::{Cell, Table};

/// Slices longer than this are worth a second thread.
const WORTH_SPLITTING: usize = 1 << 16;

/// Scores of positives and of negatives, each in ascending order.
///
/// Every ranking metric depends on the scores only through these two lists, so a sample is sorted once and all
/// metrics after that are one pass or a binary search. A sample is called positive if and only if `s > t`.
/// Checked by `tests/metrics/ranking.rs` against counts over all pairs, and against scikit-learn.
///
/// ```
/// use lastlayer::prelude::*;
/// let scores = Scores::new([0.9, 0.8, 0.35, 0.6, 0.3, 0.1], [1, 1, 1, 0, 0, 0])?;
/// assert_eq!((scores.n_positive(), scores.auc()), (3, 8.0 / 9.0));
/// // The threshold with at most a third of false alarms, and what it misses.
/// assert_eq!((scores.threshold_at_fpr(1.0 / 3.0)?, scores.fnr_at_fpr(1.0 / 3.0)?), (0.3, 0.0));
/// assert_eq!(scores.precision_at_recall(1.0)?, 0.75);
/// let interval = scores.bootstrap(200, 0.95, Seed::new(1), |s| s.average_precision())?;
/// assert!(interval.low < interval.high);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Scores {
    pub(super) positive: Vec<f64>,
    pub(super) negative: Vec<f64>,
}

/// What a threshold does: how many positives and negatives lie strictly above it.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub threshold: f64,
    pub true_positives: usize,
    pub false_positives: usize,
}

impl Scores {
    /// Scores and their labels, 0 or 1.
    ///
    /// Shapes: `s` (n), `y` (n), or any two of n entries. Cost: O(n log n). Fails: `Shape` if the lengths differ or
    /// are zero, `Data` if a label is not 0 or 1, `Config` if a score is not finite or a class is missing.
    pub fn new(s: impl AsF64, y: impl AsF64) -> Result<Scores> {
        let s = finite("scores", &s)?;
        let y = zeros_and_ones("labels", &y)?;
        ensure_shape("labels (one per score)", s.len(), y.len())?;
        let n_positive = y.iter().filter(|y| **y == 1.0).count();
        let (mut positive, mut negative) = (vec![0.0; n_positive + 1], vec![0.0; s.len() - n_positive + 1]);
        let (mut i, mut j) = (0, 0);
        for (s, y) in s.iter().zip(y.iter()) {
            // Both lists have a spare slot, so each score is written to both and kept in one: labels come in no order,
            // and a branch on them would be mispredicted half the time.
            positive[i] = *s;
            negative[j] = *s;
            i += usize::from(*y == 1.0);
            j += usize::from(*y == 0.0);
        }
        positive.truncate(i);
        negative.truncate(j);
        Scores::of_classes(positive, negative)
    }

    /// Scores already parted by class, finite, in any order.
    pub(super) fn of_classes(positive: Vec<f64>, negative: Vec<f64>) -> Result<Scores> {
        for (values, class) in [(&positive, "positive"), (&negative, "negative")] {
            if values.is_empty() {
                let allowed =
                    "at least 1; ranking needs both classes: enlarge the sample, or draw it by class";
                return Err(Error::config(format!("number of {class} samples"), 0, allowed));
            }
        }
        let (positive, negative) = rayon::join(|| ascending(positive), || ascending(negative));
        Ok(Scores { positive, negative })
    }

    /// Number of positives.
    pub fn n_positive(&self) -> usize {
        self.positive.len()
    }

    /// Number of negatives.
    pub fn n_negative(&self) -> usize {
        self.negative.len()
    }

    /// Scores of the positives, ascending.
    pub fn positives(&self) -> Array1<f64> {
        Array1::from(self.positive.clone())
    }

    /// Scores of the negatives, ascending.
    pub fn negatives(&self) -> Array1<f64> {
        Array1::from(self.negative.clone())
    }

    /// Area under the ROC curve: the chance that a positive scores above a negative, ties counted half.
    ///
    /// ```text
    /// AUC = (1 / n₊n₋) Σ_{i: y=1} Σ_{j: y=0} [s_i > s_j] + ½ [s_i = s_j]
    /// ```
    /// The pairs are counted in integers, so the result is exact but for one division. Cost: O(n), on all cores.
    /// Checked by `tests/metrics/ranking.rs::auc_counts_pairs_with_ties_half`.
    /// Book: `measures/decisions.md#eq-measures-auc`.
    pub fn auc(&self) -> f64 {
        let chunks = self.positive.par_chunks(WORTH_SPLITTING);
        let wins: u128 = chunks.map(|chunk| u128::from(doubled_wins(chunk, &self.negative))).sum();
        let pairs = 2 * self.n_positive() as u128 * self.n_negative() as u128;
        wins as f64 / pairs as f64
    }

    /// Counts of true and predicted class when `s > threshold` is called positive.
    ///
    /// An infinite threshold calls all or none positive. Cost: O(log n). Fails: `Config` for NaN.
    pub fn confusion(&self, threshold: f64) -> Result<Confusion> {
        if threshold.is_nan() {
            return Err(Error::config("threshold", threshold, "a number; infinite is allowed"));
        }
        let (tp, fp) = (above(&self.positive, threshold), above(&self.negative, threshold));
        Ok(Confusion::of_counts(self.n_negative() - fp, fp, self.n_positive() - tp, tp))
    }

    /// Every distinct decision, from the highest threshold (none positive) to minus infinity (all positive). The
    /// thresholds between are the observed scores.
    pub(super) fn cuts(&self) -> impl Iterator<Item = Cut> + '_ {
        let (mut i, mut j) = (self.n_positive(), self.n_negative());
        let mut done = false;
        std::iter::from_fn(move || {
            if done {
                return None;
            }
            let cut = |threshold| Cut {
                threshold,
                true_positives: self.n_positive() - i,
                false_positives: self.n_negative() - j,
            };
            let next = match (self.positive[..i].last(), self.negative[..j].last()) {
                (Some(p), Some(n)) => p.max(*n),
                (Some(last), None) | (None, Some(last)) => *last,
                (None, None) => {
                    done = true;
                    return Some(cut(f64::NEG_INFINITY));
                }
            };
            let cut = cut(next);
            while i > 0 && self.positive[i - 1] == next {
                i -= 1;
            }
            while j > 0 && self.negative[j - 1] == next {
                j -= 1;
            }
            Some(cut)
        })
    }

    /// Shows the sizes and the AUC.
    pub fn evcxr_display(&self) {
        let rows = vec![
            ("positives", Cell::from(self.n_positive())),
            ("negatives", Cell::from(self.n_negative())),
            ("AUC", Cell::from(self.auc())),
        ];
        Table::pairs("scores", "value", rows).evcxr_display();
    }
}

// By hand: the lists may hold millions.
impl std::fmt::Debug for Scores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scores({} positive, {} negative)", self.n_positive(), self.n_negative())
    }
}

/// How many entries of an ascending list lie strictly above `t`.
pub(super) fn above(ascending: &[f64], t: f64) -> usize {
    ascending.len() - ascending.partition_point(|v| *v <= t)
}

/// How many entries of an ascending list lie below `s`, twice, plus how many equal it: twice the wins of `s`.
pub(super) fn doubled_wins_of(s: f64, ascending: &[f64]) -> usize {
    ascending.partition_point(|v| *v < s) + ascending.partition_point(|v| *v <= s)
}

/// Twice the number of pairs that `winners` win against `losers`, ties half; both ascending, winners not empty.
fn doubled_wins(winners: &[f64], losers: &[f64]) -> u64 {
    let mut below = losers.partition_point(|v| *v < winners[0]);
    let mut not_above = below;
    let mut wins = 0;
    for w in winners {
        while below < losers.len() && losers[below] < *w {
            below += 1;
        }
        not_above = not_above.max(below);
        while not_above < losers.len() && losers[not_above] <= *w {
            not_above += 1;
        }
        wins += (below + not_above) as u64;
    }
    wins
}
