//! The optima of metric programs without a solver: sort, add up, done. Each equals its linear program.

mod auc;
mod f_score;
mod neyman_pearson;
mod order;
mod several;

pub use auc::{AucLoss, auc_loss};
pub use f_score::{ExpectedF, FLink, expected_f, f_decide, f_loss, independent_joint};
pub(super) use f_score::{chances, positives, recall_weight};
pub use neyman_pearson::{NeymanPearson, precision_at_recall, recall_at_precision};
pub use several::{ClassLoss, auc_mu_loss, auc_one_vs_all_loss};
pub(super) use several::{class_pairs, members, table};

use candle_core::Tensor;

use crate::error::{Error, Result, ensure_shape};
use crate::loss::with_gradient;
use crate::numbers::Numbers;

/// A loss and its gradient in the scores.
///
/// ```
/// use lastlayer::prelude::*;
/// let s = Var::new(&[0.0f64, 1.0], &Device::Cpu)?;
/// let loss = auc_loss(s.as_tensor(), [1, 0], 0.5, AucLoss::Value)?;
/// assert_eq!((loss.value, &loss.gradient[..]), (1.5, &[-1.0, 1.0][..]));
/// // As a tensor in a network, it hands the gradient back.
/// let gradients = loss.on(&s)?.backward()?;
/// assert_eq!(gradients.get(&s).expect("a gradient").to_vec1::<f64>()?, loss.gradient);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    pub value: f64,
    /// One entry per score, in their order.
    pub gradient: Vec<f64>,
}

impl Loss {
    /// The loss as a tensor that hands this gradient back to the scores it came from.
    ///
    /// ```text
    /// let loss = auc_loss(&s, &y, 0.1, AucLoss::Value)?.on(&s)?;
    /// ```
    /// Fails: `Shape` unless there are as many scores.
    pub fn on(&self, s: &Tensor) -> Result<Tensor> {
        with_gradient(s, &self.gradient, self.value)
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
    /// Fails: `Shape` unless there is a label per score, `Data` for a label other than 0 and 1 or an empty class.
    pub fn new(n: usize, y: &impl Numbers) -> Result<Classes> {
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

    /// The same where a class may be empty.
    pub fn any(n: usize, y: &impl Numbers) -> Result<Classes> {
        let y = y.numbers()?;
        ensure_shape("labels (one per score)", n, y.len())?;
        if let Some(i) = y.iter().position(|y| *y != 0.0 && *y != 1.0) {
            let why = format!("entry {i} is {}; only 0 and 1 can be counted", y[i]);
            return Err(Error::data("labels", why));
        }
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
