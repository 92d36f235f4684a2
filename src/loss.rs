//! Losses on scores, each the mean over its entries; finite where plain formulas overflow.
//!
//! ```
//! use lastlayer::prelude::*;
//! let s = Tensor::new(&[0f64, 800.0], &Device::Cpu)?;
//! let y = Tensor::new(&[1u32, 0], &Device::Cpu)?;
//! // exp(800) is infinite in f64, the loss is not.
//! let each = bce_logits_each(&s, &y)?.to_vec1::<f64>()?;
//! assert!((each[0] - 2f64.ln()).abs() < 1e-15 && each[1] == 800.0);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

use candle_core::{D, DType, Tensor};

use crate::error::{Error, Result, ensure_shape};
use crate::ops::known;

/// Logistic loss of every score, in the shape of the scores.
///
/// ```text
/// ln(1 + e^s) − y s  =  max(s, 0) − y s + ln(1 + e^−|s|)
/// ```
/// Shapes: `s` and `y` alike; `y` of any dtype, with values from 0 to 1. The second form never overflows, and its
/// gradient is σ(s) − y also at zero. Checked by `tests/loss.rs`.
/// Book: `measures/features.md#eq-features-logistic`.
///
/// ```
/// use lastlayer::prelude::*;
/// let s = Var::new(&[0f64, -3.0], &Device::Cpu)?;
/// let y = Tensor::new(&[1u32, 0], &Device::Cpu)?;
/// let each = bce_logits_each(&s, &y)?;
/// assert!((each.to_vec1::<f64>()?[1] - (1.0 + (-3f64).exp()).ln()).abs() < 1e-15);
/// // The gradient is σ(s) − y.
/// let gradients = each.sum_all()?.backward()?;
/// assert_eq!(gradients.get(&s).unwrap().to_vec1::<f64>()?[0], -0.5);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn bce_logits_each(s: &Tensor, y: &Tensor) -> Result<Tensor> {
    ensure_shape("labels of a logistic loss", s.dims(), y.dims())?;
    let y = y.to_dtype(s.dtype())?;
    let tail = (s.abs()?.neg()?.exp()? + 1.0)?.log()?;
    Ok(((s.relu()? - s.mul(&y)?)? + tail)?)
}

/// Mean logistic loss.
///
/// Shapes: `s` and `y` alike → scalar. Fails: `Shape`. Checked by `tests/loss.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let (s, y) = (Tensor::zeros(4, DType::F64, &Device::Cpu)?, Tensor::new(&[0u32, 1, 1, 0], &Device::Cpu)?);
/// let loss = bce_logits(&s, &y)?.to_scalar::<f64>()?;
/// assert!((loss - 2f64.ln()).abs() < 1e-15);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn bce_logits(s: &Tensor, y: &Tensor) -> Result<Tensor> {
    Ok(bce_logits_each(s, y)?.mean_all()?)
}

/// Mean cross entropy of the softmax of the scores.
///
/// ```text
/// ln Σ_c e^{s_c} − s_y
/// ```
/// Shapes: `s` (n, k), `y` (n) of an integer dtype → scalar. Fails: `Shape`, or `Config` for labels that are no integers.
/// A label of k or more is an error of candle. Checked by `tests/loss.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let s = Tensor::zeros((2, 4), DType::F64, &Device::Cpu)?;
/// let y = Tensor::new(&[3u32, 0], &Device::Cpu)?;
/// assert!((cross_entropy(&s, &y)?.to_scalar::<f64>()? - 4f64.ln()).abs() < 1e-15);
/// assert!(cross_entropy(&s, &y.to_dtype(DType::F64)?).is_err()); // labels are integers
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn cross_entropy(s: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (n, _) = rows_of_scores(s)?;
    ensure_shape("labels of a cross entropy", &[n][..], y.dims())?;
    let y = whole(y, "integers; soft_cross_entropy takes probabilities")?;
    let chosen = log_softmax(s)?.gather(&y.unsqueeze(1)?, 1)?;
    Ok(chosen.mean_all()?.neg()?)
}

/// Mean cross entropy of the softmax of the scores against probabilities.
///
/// ```text
/// −Σ_c p_c ln softmax(s)_c
/// ```
/// Shapes: `s` and `p` (n, k) → scalar. Checked by `tests/loss.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let p = Tensor::new(&[[0.5, 0.5], [1.0, 0.0]], &Device::Cpu)?;
/// let s = Tensor::zeros((2, 2), DType::F64, &Device::Cpu)?;
/// assert!((soft_cross_entropy(&s, &p)?.to_scalar::<f64>()? - 2f64.ln()).abs() < 1e-15);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn soft_cross_entropy(s: &Tensor, p: &Tensor) -> Result<Tensor> {
    rows_of_scores(s)?;
    ensure_shape("probabilities of a cross entropy", s.dims(), p.dims())?;
    let products = log_softmax(s)?.mul(&p.to_dtype(s.dtype())?)?;
    Ok(products.sum(D::Minus1)?.mean_all()?.neg()?)
}

/// One in the column of each label, zero elsewhere, on the labels' device.
///
/// Shapes: `y` (n) of an integer dtype → (n, classes). Host: the largest label. Fails: `Shape`, or `Config` for labels
/// that are no integers or no classes. Checked by `tests/loss.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let y = Tensor::new(&[2u32, 0], &Device::Cpu)?;
/// let hot = one_hot(&y, 3, DType::F32)?;
/// assert_eq!(hot.to_vec2::<f32>()?, [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]);
/// assert!(one_hot(&y, 2, DType::F32).is_err()); // 2 is not among 0 and 1
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn one_hot(y: &Tensor, classes: usize, dtype: DType) -> Result<Tensor> {
    ensure_shape("labels of one_hot", &[y.elem_count()][..], y.dims())?;
    let y = whole(y, "integers")?;
    if let Some(largest) = largest(&y)?.filter(|largest| *largest as usize >= classes) {
        let allowed = format!("0 to {}, one for each of {classes} columns", classes.saturating_sub(1));
        return Err(Error::config("largest label of one_hot", largest, allowed));
    }
    let columns = Tensor::arange(0u32, classes as u32, y.device())?;
    Ok(y.unsqueeze(1)?.broadcast_eq(&columns.unsqueeze(0)?)?.to_dtype(dtype)?)
}

/// Labels as u32; what is negative becomes larger than any class.
fn whole(y: &Tensor, allowed: &str) -> Result<Tensor> {
    if y.dtype().is_float() {
        return Err(Error::config("dtype of labels", format!("{:?}", y.dtype()), allowed));
    }
    Ok(y.to_dtype(DType::U32)?)
}

/// The largest label, if there is any. Host: one number.
fn largest(y: &Tensor) -> Result<Option<u32>> {
    Ok(if y.elem_count() == 0 { None } else { Some(y.max_all()?.to_scalar()?) })
}

/// Mean squared difference.
///
/// Shapes: `s` and `y` alike → scalar. Fails: `Shape`. Checked by `tests/loss.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let (s, y) = (Tensor::new(&[1f64, 4.0], &Device::Cpu)?, Tensor::new(&[1u32, 2], &Device::Cpu)?);
/// assert_eq!(squared(&s, &y)?.to_scalar::<f64>()?, 2.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn squared(s: &Tensor, y: &Tensor) -> Result<Tensor> {
    ensure_shape("targets of a squared loss", s.dims(), y.dims())?;
    Ok(s.sub(&y.to_dtype(s.dtype())?)?.sqr()?.mean_all()?)
}

/// Logarithm of the softmax over the last dimension.
///
/// Shapes: any → the same. The largest score is subtracted as a constant: it cancels, and so does its gradient. Checked by
/// `tests/loss.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let s = Tensor::new(&[[1000f64, 1000.0]], &Device::Cpu)?;
/// let p = lastlayer::loss::log_softmax(&s)?.exp()?;
/// assert!((p.to_vec2::<f64>()?[0][0] - 0.5).abs() < 1e-15);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn log_softmax(s: &Tensor) -> Result<Tensor> {
    let shifted = s.broadcast_sub(&s.max_keepdim(D::Minus1)?.detach())?;
    let sum = shifted.exp()?.sum_keepdim(D::Minus1)?.log()?;
    Ok(shifted.broadcast_sub(&sum)?)
}

fn rows_of_scores(s: &Tensor) -> Result<(usize, usize)> {
    match s.dims() {
        &[n, k] if n > 0 && k > 0 => Ok((n, k)),
        other => Err(Error::shape(
            "scores of a cross entropy",
            "[n, k], one column per class",
            format!("{other:?}"),
        )),
    }
}

/// A loss that is known together with its gradient, as a tensor: forward the value, backward the gradient.
///
/// Shapes: `s` any, `gradient` one number per entry in row-major order → scalar, on the device of `s`.
pub(crate) fn with_gradient(s: &Tensor, gradient: &[f64], value: f64) -> Result<Tensor> {
    ensure_shape("gradient of a loss", s.elem_count(), gradient.len())?;
    let gradient = Tensor::from_slice(gradient, s.dims(), s.device())?.to_dtype(s.dtype())?;
    known(s, vec![value], (), move |outer| Ok(gradient.broadcast_mul(outer)?))
}
