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
use crate::numbers::{or_nan, to_tensor};
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
    let y = as_type(y, s.dtype())?;
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
/// Shapes: `s` (n, k), `y` (n) of an integer dtype → scalar. Fails: `Shape`, or `Config` for labels that are no integers or,
/// on the CPU, no classes; on a device a label that is no class makes the loss NaN, for nothing is asked there. Checked by
/// `tests/loss.rs`.
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
    let (n, k) = rows_of_scores(s)?;
    ensure_shape("labels of a cross entropy", &[n][..], y.dims())?;
    let y = whole(y, "integers; soft_cross_entropy takes probabilities")?;
    let (y, known) = within(y, k, "largest label of a cross entropy")?;
    let chosen = log_softmax(s)?.gather(&y.unsqueeze(1)?, 1)?;
    Ok(only(chosen, known)?.mean_all()?.neg()?)
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
    let products = log_softmax(s)?.mul(&as_type(p, s.dtype())?)?;
    Ok(products.sum(D::Minus1)?.mean_all()?.neg()?)
}

/// One in the column of each label, zero elsewhere, on the labels' device.
///
/// Shapes: `y` (n) of an integer dtype → (n, classes). Fails: `Shape`, or `Config` for labels that are no integers or, on the
/// CPU, no classes; on a device the row of a label that is no class is NaN. Checked by `tests/loss.rs`.
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
    if y.elem_count() == 0 {
        return Ok(Tensor::zeros((0, classes), dtype, y.device())?);
    }
    let (y, known) = within(y, classes, "largest label of one_hot")?;
    let columns = Tensor::arange(0u32, classes as u32, y.device())?;
    only(y.unsqueeze(1)?.broadcast_eq(&columns.unsqueeze(0)?)?.to_dtype(dtype)?, known)
}

/// Labels as u32; what is negative becomes larger than any class.
fn whole(y: &Tensor, allowed: &str) -> Result<Tensor> {
    if y.dtype().is_float() {
        return Err(Error::config("dtype of labels", format!("{:?}", y.dtype()), allowed));
    }
    as_type(y, DType::U32)
}

/// Numbers in another type; an empty tensor is made anew, which a device does not convert.
fn as_type(y: &Tensor, dtype: DType) -> Result<Tensor> {
    Ok(if y.elem_count() == 0 { Tensor::zeros(y.shape(), dtype, y.device())? } else { y.to_dtype(dtype)? })
}

/// Labels that are all classes: on the CPU others fail; on a device, where to ask would be to wait, they become the last
/// class, for an index out of range stops a device for good, and the second (n) says which were classes. Host: on the CPU.
fn within(y: Tensor, classes: usize, what: &str) -> Result<(Tensor, Option<Tensor>)> {
    let (n, last) = (y.elem_count(), classes.saturating_sub(1) as u32);
    if n > 0 && !y.device().is_cpu() {
        let known = y.le(last)?;
        return Ok((known.where_cond(&y, &Tensor::full(last, n, y.device())?)?, Some(known)));
    }
    let largest = if n == 0 { None } else { Some(y.max_all()?.to_scalar::<u32>()?) };
    match largest.filter(|largest| *largest as usize >= classes) {
        None => Ok((y, None)),
        Some(largest) => {
            let allowed = format!("0 to {last}, one for each of {classes} columns");
            Err(Error::config(what, largest, allowed))
        }
    }
}

/// Rows (n, ·) as they are, but NaN where they are of no known label.
fn only(rows: Tensor, known: Option<Tensor>) -> Result<Tensor> {
    let Some(known) = known else { return Ok(rows) };
    let known = known.to_dtype(rows.dtype())?.unsqueeze(1)?;
    Ok(rows.broadcast_mul(&or_nan(&known)?)?)
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
    Ok(s.sub(&as_type(y, s.dtype())?)?.sqr()?.mean_all()?)
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
    if s.elem_count() == 0 {
        return Ok(s.clone()); // of which a device finds no largest
    }
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
    with_gradient_of(s, to_tensor(gradient.to_vec(), s.dims(), s.dtype(), s.device())?, value)
}

/// A loss with this value, whose gradient in `s` lies where `s` does, in its shape and type.
pub(crate) fn with_gradient_of(s: &Tensor, gradient: Tensor, value: f64) -> Result<Tensor> {
    let value = to_tensor(vec![value], (), s.dtype(), s.device())?;
    known(s, value, move |outer| Ok(gradient.broadcast_mul(outer)?))
}
