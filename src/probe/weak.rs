//! Weak classifiers: linear heads fitted to a few samples, and the gradient of what was fitted.

use ndarray::{Array1, Array2};
use rayon::prelude::*;

use super::features::Features;
use super::head::LinearHead;
use super::{ridge, softmax};
use crate::error::{Error, Result, ensure_shape};

/// How a head is fitted to features: the loss, how it is summed, and the weight λ of ‖W‖². The bias is never penalised.
///
/// ```text
/// RidgeSum(λ)      Σ_i ‖Wᵀz_i + b − e_i‖² + λ‖W‖²           RidgeMean(λ)      (1/n) Σ_i ‖Wᵀz_i + b − e_i‖² + λ‖W‖²
/// SoftmaxSum(λ)    Σ_i cross entropy_i + λ‖W‖²              SoftmaxMean(λ)    (1/n) Σ_i cross entropy_i + λ‖W‖²
/// ```
/// Algorithm 1 of the paper sums, its equation 4 takes the mean: λ_sum = n λ_mean. Checked by `tests/foca/fits.rs`.
/// Book: `foca/ridge.md#eq-foca-ridge-convention`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Around the middle z is ±1 and the targets are ±½: W = 1 / (2 + λ) for class 1.
/// let pair = Features::new(&ndarray::array![[0.0], [2.0]], &[0, 1], 2)?;
/// let head = WeakFit::RidgeSum(1.0).fit(&pair)?.head;
/// assert!((head.w[[0, 1]] - 1.0 / 3.0).abs() < 1e-12);
/// // A sum with weight λ is a mean with weight λ/n.
/// let mean = WeakFit::RidgeMean(0.5).fit(&pair)?.head;
/// assert!((mean.w[[0, 1]] - head.w[[0, 1]]).abs() < 1e-12);
/// assert!(WeakFit::SoftmaxSum(0.0).fit(&pair).is_err()); // separable: no minimum
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum WeakFit {
    RidgeSum(f64),
    RidgeMean(f64),
    SoftmaxSum(f64),
    SoftmaxMean(f64),
}

/// A fitted head, with all that its gradient needs.
///
/// ```
/// use lastlayer::prelude::*;
/// let at = |z: f64| -> Result<foca::Fitted> {
///     WeakFit::RidgeSum(1.0).fit(&Features::new(&ndarray::array![[0.0], [z]], &[0, 1], 2)?)
/// };
/// // How the weight of class 1 moves with the second sample, against a difference.
/// let exact = at(2.0)?.adjoint(&ndarray::array![[0.0, 1.0]], &Array1::zeros(2))?;
/// let numeric = (at(2.0 + 1e-5)?.head.w[[0, 1]] - at(2.0 - 1e-5)?.head.w[[0, 1]]) / 2e-5;
/// assert!((exact[[1, 0]] - numeric).abs() < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fitted {
    pub head: LinearHead,
    /// Newton steps; 0 for a closed form.
    pub steps: usize,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Ridge(ridge::State),
    Softmax(softmax::State),
}

impl WeakFit {
    /// The head that minimises the objective on these features.
    ///
    /// Ridge with λ = 0 gives least squares where there are more rows than features, and the shortest W that fits where
    /// there are not. Host: everything, in f64. Cost: O(n d min(n, d) + min(n, d)³) for ridge. Fails: `Config` for a weight
    /// that is negative or not finite (softmax: or zero), `Data` for features that are not finite, `Solve` if rows or
    /// features repeat each other and λ = 0.
    /// Book: `foca/ridge.md#eq-foca-ridge-fit`, `#eq-foca-softmax-gradient`.
    pub fn fit(&self, features: &Features) -> Result<Fitted> {
        self.check()?;
        whole(features)?;
        // Sums are what the solvers take.
        let n = features.n() as f64;
        Ok(match *self {
            WeakFit::RidgeSum(weight) => ridge_fit(features, weight)?,
            WeakFit::RidgeMean(weight) => ridge_fit(features, n * weight)?,
            WeakFit::SoftmaxSum(weight) => softmax_fit(features, weight)?,
            WeakFit::SoftmaxMean(weight) => softmax_fit(features, n * weight)?,
        })
    }

    /// The weight of a ridge fit to n rows, for their sum.
    pub(super) fn ridge_weight(&self, n: usize) -> Option<f64> {
        match *self {
            WeakFit::RidgeSum(weight) => Some(weight),
            WeakFit::RidgeMean(weight) => Some(n as f64 * weight),
            WeakFit::SoftmaxSum(_) | WeakFit::SoftmaxMean(_) => None,
        }
    }

    /// A fit of each of several sets of features, on all cores. Fails: as [`fit`](WeakFit::fit).
    pub fn fit_all(&self, sets: &[Features]) -> Result<Vec<Fitted>> {
        sets.par_iter().map(|features| self.fit(features)).collect()
    }

    /// The heads alone of several fits, which need a small part of their memory. Fails: as [`fit`](WeakFit::fit).
    pub fn heads(&self, sets: &[Features]) -> Result<Vec<LinearHead>> {
        sets.par_iter().map(|features| Ok(self.fit(features)?.head)).collect()
    }

    /// Whether the loss is squared, not a cross entropy.
    pub fn is_ridge(&self) -> bool {
        matches!(self, WeakFit::RidgeSum(_) | WeakFit::RidgeMean(_))
    }

    pub(crate) fn check(&self) -> Result<()> {
        let (WeakFit::RidgeSum(weight)
        | WeakFit::RidgeMean(weight)
        | WeakFit::SoftmaxSum(weight)
        | WeakFit::SoftmaxMean(weight)) = *self;
        if !(weight >= 0.0 && weight.is_finite()) {
            return Err(Error::config("weight of a weak fit", weight, "0 or more, such as 1.0"));
        }
        if weight == 0.0 && !self.is_ridge() {
            let allowed = "above 0: without a penalty separable classes have no minimum";
            return Err(Error::config("weight of a softmax fit", weight, allowed));
        }
        Ok(())
    }
}

/// Fails unless there are rows, each with the label of a class: the fields of features are open.
fn whole(features: &Features) -> Result<()> {
    let (n, d) = features.z.dim();
    if n == 0 || d == 0 {
        let expected = "at least one row and one column";
        return Err(Error::shape("features of a weak fit", expected, format!("[{n}, {d}]")));
    }
    ensure_shape("labels of a weak fit", n, features.y.len())?;
    known_classes(&features.y, features.classes)
}

/// Fails unless each label is a class.
pub(super) fn known_classes(y: &[u32], classes: usize) -> Result<()> {
    match y.iter().find(|class| **class as usize >= classes) {
        None => Ok(()),
        Some(class) => {
            let why = format!("label {class} is none of the {classes} classes, from 0");
            Err(Error::data("features of a weak fit", why))
        }
    }
}

fn ridge_fit(features: &Features, weight: f64) -> Result<Fitted> {
    let (head, state) = ridge::fit(features, weight)?;
    Ok(Fitted { head, steps: 0, state: State::Ridge(state) })
}

fn softmax_fit(features: &Features, weight: f64) -> Result<Fitted> {
    let (head, steps, state) = softmax::fit(&features.z, &features.one_hot(), weight)?;
    Ok(Fitted { head, steps, state: State::Softmax(state) })
}

impl Fitted {
    /// (n, d) Gradient of a loss in the features the head was fitted to, from its gradients in W and b.
    ///
    /// Fails: `Shape` unless those have the shapes of W and b.
    /// Book: `foca/ridge.md#eq-foca-ridge-adjoint`, `#eq-foca-ridge-dual-adjoint`, `#eq-foca-softmax-adjoint`.
    pub fn adjoint(&self, w_bar: &Array2<f64>, b_bar: &Array1<f64>) -> Result<Array2<f64>> {
        ensure_shape("gradient of a head's weights", self.head.w.shape(), w_bar.shape())?;
        ensure_shape("gradient of a head's bias", self.head.b.len(), b_bar.len())?;
        match &self.state {
            State::Ridge(state) => state.adjoint(&self.head, w_bar, b_bar),
            State::Softmax(state) => state.adjoint(&self.head, w_bar, b_bar),
        }
    }

    /// Shows the head and how it was found.
    pub fn evcxr_display(&self) {
        let (d, classes) = self.head.w.dim();
        let how =
            if self.steps == 0 { "closed form".to_string() } else { format!("{} Newton steps", self.steps) };
        evcxr_runtime::mime_type("text/plain")
            .text(format!("linear head, {d} features, {classes} classes, {how}"));
    }
}
