//! Losses on scores, each the mean over its entries; finite where plain formulas overflow.

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
pub fn bce_logits_each(s: &Tensor, y: &Tensor) -> Result<Tensor> {
    ensure_shape("labels of a logistic loss", s.dims(), y.dims())?;
    let y = y.to_dtype(s.dtype())?;
    let tail = (s.abs()?.neg()?.exp()? + 1.0)?.log()?;
    Ok(((s.relu()? - s.mul(&y)?)? + tail)?)
}

/// Mean logistic loss. Shapes: `s` and `y` alike → scalar.
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
pub fn cross_entropy(s: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (n, _) = rows_of_scores(s)?;
    ensure_shape("labels of a cross entropy", &[n][..], y.dims())?;
    if y.dtype().is_float() {
        let allowed = "integers; soft_cross_entropy takes probabilities";
        return Err(Error::config("dtype of labels", format!("{:?}", y.dtype()), allowed));
    }
    let chosen = log_softmax(s)?.gather(&y.to_dtype(DType::U32)?.unsqueeze(1)?, 1)?;
    Ok(chosen.mean_all()?.neg()?)
}

/// Mean cross entropy of the softmax of the scores against probabilities.
///
/// ```text
/// −Σ_c p_c ln softmax(s)_c
/// ```
/// Shapes: `s` and `p` (n, k) → scalar. Checked by `tests/loss.rs`.
pub fn soft_cross_entropy(s: &Tensor, p: &Tensor) -> Result<Tensor> {
    rows_of_scores(s)?;
    ensure_shape("probabilities of a cross entropy", s.dims(), p.dims())?;
    let products = log_softmax(s)?.mul(&p.to_dtype(s.dtype())?)?;
    Ok(products.sum(D::Minus1)?.mean_all()?.neg()?)
}

/// (n, classes) One in the column of each label, zero elsewhere, on the labels' device.
pub fn one_hot(y: &Tensor, classes: usize, dtype: DType) -> Result<Tensor> {
    let columns = Tensor::arange(0u32, classes as u32, y.device())?;
    Ok(y.to_dtype(DType::U32)?.unsqueeze(1)?.broadcast_eq(&columns.unsqueeze(0)?)?.to_dtype(dtype)?)
}

/// Mean squared difference. Shapes: `s` and `y` alike → scalar.
pub fn squared(s: &Tensor, y: &Tensor) -> Result<Tensor> {
    ensure_shape("targets of a squared loss", s.dims(), y.dims())?;
    Ok(s.sub(&y.to_dtype(s.dtype())?)?.sqr()?.mean_all()?)
}

/// Logarithm of the softmax over the last dimension. The largest score is subtracted as a constant: it cancels, and so
/// does its gradient.
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
