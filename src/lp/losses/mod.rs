//! The optima of metric programs without a solver: sort, add up, done. Each equals its linear program. On the host that
//! is a loop over a sorted list; scores on a device are sorted there, and their gradients stay there.

mod auc;
mod device;
mod f_score;
mod gradient;
mod neyman_pearson;
mod several;

pub use auc::{AucLoss, auc_loss};
pub use f_score::{ExpectedF, FLink, expected_f, f_decide, f_loss, independent_joint};
pub(super) use f_score::{chances, positives, recall_weight};
use gradient::List;
pub use gradient::ScoreGradient;
pub use neyman_pearson::{NeymanPearson, precision_at_recall, recall_at_precision};
pub use several::{auc_mu_loss, auc_one_vs_all_loss};
pub(super) use several::{class_pairs, members, table};

use candle_core::Tensor;

use crate::error::{Error, Result, ensure_shape};
use crate::numbers::{AsF64, zeros_and_ones};

/// A loss and its gradient in the scores: a list for one score per sample, `Loss<Array2<f64>>` for one per class.
///
/// ```
/// use lastlayer::prelude::*;
/// let s = Var::new(&[0.0f64, 1.0], &Device::Cpu)?;
/// let loss = auc_loss(s.as_tensor(), [1, 0], 0.5, AucLoss::Value)?;
/// assert_eq!((loss.value, &loss.gradient[..]), (1.5, &[-1.0, 1.0][..]));
/// // As a tensor in a network, it hands the gradient back.
/// let gradients = loss.on(&s)?.backward()?;
/// assert_eq!(gradients.get(&s).expect("a gradient").to_vec1::<f64>()?, loss.gradient);
/// // Scores of two classes have a table of gradients.
/// let s = ndarray::array![[2.0, 0.0], [0.0, 2.0]];
/// let loss: lp::Loss<Array2<f64>> = auc_one_vs_all_loss(&s, [0, 1], 3.0, AucLoss::Value)?;
/// assert_eq!(loss.gradient, ndarray::array![[-0.5, 0.5], [0.5, -0.5]]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Loss<T: List = Vec<f64>> {
    pub value: f64,
    /// One entry per score, in their order.
    pub gradient: ScoreGradient<T>,
}

impl<T: List> Loss<T> {
    /// The loss as a tensor that hands this gradient back to the scores it came from.
    ///
    /// ```text
    /// let loss = auc_loss(&s, &y, 0.1, AucLoss::Value)?.on(&s)?;
    /// ```
    /// Fails: `Shape` unless there are as many scores.
    pub fn on(&self, s: &Tensor) -> Result<Tensor> {
        self.gradient.on(s, self.value)
    }

    /// Shows the value.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(format!("loss {}", self.value));
    }
}

/// Samples of each class, by index.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    pub positive: Vec<usize>,
    pub negative: Vec<usize>,
}

/// Finite scores; at least one.
///
/// Fails: `Shape` if there is none, `Data` if one is not finite.
pub(super) fn finite(what: &str, s: &[f64]) -> Result<()> {
    if s.is_empty() {
        return Err(Error::shape(what, "at least one", 0));
    }
    match s.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(i) => Err(Error::data(what, format!("entry {i} is {}; every one must be finite", s[i]))),
    }
}

impl Classes {
    /// Samples of two classes. Fails: as [`any`](Classes::any), `Data` for an empty class.
    pub fn new(n: usize, y: &impl AsF64) -> Result<Classes> {
        let classes = Classes::any(n, y)?;
        for (members, name) in [(&classes.positive, "positive"), (&classes.negative, "negative")] {
            if members.is_empty() {
                return Err(Error::data(
                    "labels",
                    format!("there is no {name}; take larger or stratified batches"),
                ));
            }
        }
        Ok(classes)
    }

    /// Samples of two classes, of which one may be empty. Host: all labels.
    ///
    /// Fails: `Shape` unless there is a label per score, `Data` for a label other than 0 and 1.
    pub fn any(n: usize, y: &impl AsF64) -> Result<Classes> {
        let y = zeros_and_ones("labels", y)?;
        ensure_shape("labels (one per score)", n, y.len())?;
        // Each index is written to both lists and kept in one: labels come in no order, and a branch on them would be
        // mispredicted half the time.
        let (mut positive, mut negative) = (vec![0; n + 1], vec![0; n + 1]);
        let (mut p, mut q) = (0, 0);
        for (i, y) in y.iter().enumerate() {
            (positive[p], negative[q]) = (i, i);
            p += usize::from(*y == 1.0);
            q += usize::from(*y == 0.0);
        }
        positive.truncate(p);
        negative.truncate(q);
        Ok(Classes { positive, negative })
    }
}

/// A margin: positive and finite.
pub(super) fn margin_of_scores(margin: f64) -> Result<()> {
    if margin > 0.0 && margin.is_finite() {
        return Ok(());
    }
    Err(Error::config("margin", margin, "a positive number, in units of the scores"))
}

/// A share between 0 and 1, ends included.
pub(super) fn share(what: &str, value: f64) -> Result<()> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(Error::config(what, value, "0 to 1; 5 % is 0.05"))
}
