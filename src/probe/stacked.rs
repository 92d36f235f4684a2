//! Ridge heads of several sets of features at once, where the features are: `ridge.rs` as tensor operations in f64, for
//! devices, from which nothing comes home.

use candle_core::{Device, Tensor};

use crate::error::Result;
use crate::numbers::or_nan;

/// What the adjoint needs of the fits; each tensor holds one set after the other.
pub(super) struct State {
    /// (sets, n, d) Features less their mean, the same transposed, and (sets, 1, d) the mean.
    zc: Tensor,
    zt: Tensor,
    mean: Tensor,
    /// (sets, n, classes) One-hot targets less their mean.
    targets: Tensor,
    /// Of Zcᵀ Zc + λ I if there are more rows than features, of K = Zc Zcᵀ + λ I + γ 1 1ᵀ if not.
    inverse: Tensor,
    /// (sets, n, classes) A = K⁻¹ Tc, in the dual form.
    dual: Option<Tensor>,
    /// (sets, d, classes).
    w: Tensor,
}

/// (sets, d + 1, classes) W over b of the ridge heads of features (sets, n, d) and one-hot targets (sets, n, classes).
///
/// Where [`ridge::fit`](super::ridge::fit) fails, a head is NaN.
pub(super) fn fit(z: &Tensor, hot: &Tensor, weight: f64) -> Result<(Tensor, State)> {
    let (_, n, d) = z.dims3()?;
    let mean = z.mean_keepdim(1)?;
    let zc = z.broadcast_sub(&mean)?;
    let zt = zc.transpose(1, 2)?.contiguous()?;
    let frequencies = hot.mean_keepdim(1)?;
    let targets = hot.broadcast_sub(&frequencies)?;
    let primal = n > d;
    let gram = if primal { zt.matmul(&zc)? } else { zc.matmul(&zt)? };
    let identity = identity(n.min(d), z.device())?;
    let mut gram = gram.broadcast_add(&(&identity * weight)?)?;
    let trace = gram.broadcast_mul(&identity)?.sum_keepdim((1, 2))?;
    if !primal {
        gram = gram.broadcast_add(&((&trace / (n * n) as f64)? + f64::MIN_POSITIVE)?)?;
    }
    let inverse = inverse(&gram, &identity, &(trace * f64::EPSILON)?)?;
    let (w, dual) = if primal {
        (inverse.matmul(&zt.matmul(&targets)?)?, None)
    } else {
        let a = inverse.matmul(&targets)?;
        (zt.matmul(&a)?, Some(a))
    };
    let b = (frequencies - mean.matmul(&w)?)?;
    let theta = Tensor::cat(&[&w, &b], 1)?;
    Ok((theta, State { zc, zt, mean, targets, inverse, dual, w }))
}

impl State {
    /// (sets, n, d) Gradient in the features from that in W over b: the formulas of the adjoint in `ridge.rs`.
    pub(super) fn adjoint(&self, bar: &Tensor) -> Result<Tensor> {
        let State { zc, zt, mean, targets, inverse, dual, w } = self;
        let (n, d) = (zc.dim(1)?, zc.dim(2)?);
        let across = |m: &Tensor| m.transpose(1, 2)?.contiguous();
        let (w_bar, b_bar) = (bar.narrow(1, 0, d)?, bar.narrow(1, d, 1)?.contiguous()?);
        let total = (w_bar - across(mean)?.broadcast_mul(&b_bar)?)?;
        let wt = across(w)?;
        let centred = match dual {
            None => {
                let y = inverse.matmul(&total)?;
                let residual = (targets - zc.matmul(w)?)?;
                (residual.matmul(&across(&y)?)? - zc.matmul(&y)?.matmul(&wt)?)?
            }
            Some(a) => {
                let b = inverse.matmul(&zc.matmul(&total)?)?;
                (a.matmul(&across(&(total - zt.matmul(&b)?)?)?)? - b.matmul(&wt)?)?
            }
        };
        Ok(centred.broadcast_sub(&(b_bar.matmul(&wt)? / n as f64)?)?)
    }
}

fn identity(m: usize, device: &Device) -> Result<Tensor> {
    let places = Tensor::arange(0u32, m as u32, device)?;
    let equal = places.unsqueeze(1)?.broadcast_eq(&places.unsqueeze(0)?)?;
    Ok(equal.to_dtype(candle_core::DType::F64)?)
}

/// Inverses of symmetric matrices (sets, m, m) that are positive definite, and NaN for one that is not: where a pivot that
/// comes last, which is one over an entry of the inverse's diagonal, is not above `least` (sets, 1, 1).
///
/// ```text
/// sweep k:   H ← H − u uᵀ / H_kk,   u = row k of H, less 1 at k          after all sweeps   2 I − H = H⁻¹
/// ```
/// Each sweep is one of Gauss and Jordan's but for a 2 on the diagonal, which no later sweep reads. The matrix is first
/// scaled to a diagonal of ones: that of its inverse is then at least 1, and taking it from 2 costs no digits. Cost: m
/// products of a column and a row.
fn inverse(h: &Tensor, identity: &Tensor, least: &Tensor) -> Result<Tensor> {
    let diagonal = |h: &Tensor| h.broadcast_mul(identity)?.sum_keepdim(2);
    let scale = diagonal(h)?.sqrt()?.recip()?;
    let scale = scale.broadcast_mul(&scale.transpose(1, 2)?)?;
    let mut swept = (h * &scale)?;
    for k in 0..identity.dim(0)? {
        let row = swept.narrow(1, k, 1)?;
        let u = row.broadcast_sub(&identity.narrow(0, k, 1)?)?;
        let over = u.broadcast_div(&row.narrow(2, k, 1)?)?;
        swept = (&swept - u.transpose(1, 2)?.broadcast_mul(&over)?)?;
    }
    let inverse = (identity * 2.0)?.broadcast_sub(&swept)?.mul(&scale)?;
    let last = diagonal(&inverse)?.recip()?;
    let sound = last.broadcast_gt(least)?.to_dtype(inverse.dtype())?.min_keepdim(1)?;
    Ok(inverse.broadcast_mul(&or_nan(&sound)?)?)
}
