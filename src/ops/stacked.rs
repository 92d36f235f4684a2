//! Many linear layers side by side, as one operation.

use candle_core::{Shape, Tensor};
use rayon::prelude::*;

use super::host::{Candle, Kernel, Real, apply3, check, compute1, compute2};
use super::parallel::{Mat, product};
use crate::error::{Error, Result};

/// Linear layers of many models at once, on inputs of their own or on one that they share.
///
/// ```text
/// y[p] = x[p] W[p]ᵀ + b[p]
/// ```
/// Shapes: `x` (p, n, in), or (n, in) for all; `weight` (p, out, in), `bias` (p, out) → (p, n, out). Cost: one product per model
/// forward and two backward, the models shared among the cores. Host: on the CPU. Fails: `Shape` if sizes disagree;
/// `Config` unless all are f32 or all f64. Checked by `tests/ops/stacked.rs`.
pub fn stacked_linear(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    check(&[
        ("x of stacked_linear", x),
        ("weight of stacked_linear", weight),
        ("bias of stacked_linear", bias),
    ])?;
    let wrong = |what: &str, expected: String, t: &Tensor| {
        Err(Error::shape(format!("{what} of stacked_linear"), expected, format!("{:?}", t.dims())))
    };
    let Ok((models, d_out, d_in)) = weight.dims3() else {
        return wrong("weight", "[models, out, in]".into(), weight);
    };
    match x.dims() {
        [_, own] if *own == d_in => {}
        [p, _, own] if *p == models && *own == d_in => {}
        _ => return wrong("x", format!("[n, {d_in}] or [{models}, n, {d_in}]"), x),
    }
    if bias.dims() != [models, d_out] {
        return wrong("bias", format!("[{models}, {d_out}]"), bias);
    }
    if x.device().is_cpu() {
        return Ok(apply3(Stacked, x, weight, bias)?);
    }
    stacked_linear_by_tensors(x, weight, bias)
}

/// [`stacked_linear`] for every device, as tensor operations.
///
/// Checked by `tests/ops/stacked.rs::layers_by_tensors_agree_with_the_kernels`.
pub fn stacked_linear_by_tensors(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    let models = weight.dim(0)?;
    let x = match x.dims() {
        [n, d] => x.unsqueeze(0)?.broadcast_as((models, *n, *d))?.contiguous()?,
        _ => x.clone(),
    };
    Ok(x.matmul(&weight.transpose(1, 2)?.contiguous()?)?.broadcast_add(&bias.unsqueeze(1)?)?)
}

struct Stacked;

/// Rows of a shared or stacked input, and the part of it that belongs to model `p`.
fn part<'a, T>(x: &'a [T], shape: &Shape, p: usize) -> Candle<(&'a [T], Mat)> {
    let (n, d, start) = match shape.dims() {
        [n, d] => (*n, *d, 0),
        [_, n, d] => (*n, *d, p * n * d),
        _ => return Err(candle_core::Error::Msg("stacked_linear: rank of x".into())),
    };
    Ok((x.get(start..start + n * d).unwrap_or_default(), Mat::new(n, d)))
}

impl Kernel<3> for Stacked {
    const NAME: &'static str = "stacked-linear";

    fn forward<T: Real>(&self, [x, weight, bias]: [&[T]; 3], shapes: [&Shape; 3]) -> Candle<(Vec<T>, Shape)> {
        let (models, d_out, d_in) = shapes[1].dims3()?;
        let n = part(x, shapes[0], 0)?.1.rows;
        let mut y = vec![T::zero(); models * n * d_out];
        y.par_chunks_mut(n * d_out).enumerate().try_for_each(|(p, y)| {
            y.chunks_exact_mut(d_out).for_each(|row| row.copy_from_slice(&bias[p * d_out..][..d_out]));
            let right = (&weight[p * d_out * d_in..][..d_out * d_in], Mat::new(d_out, d_in).transposed());
            product((y, Mat::new(n, d_out)), part(x, shapes[0], p)?, right, true)
        })?;
        Ok((y, Shape::from((models, n, d_out))))
    }

    fn backward(
        &self,
        [x, weight, _]: [&Tensor; 3],
        _: &Tensor,
        grad: &Tensor,
    ) -> Candle<[Option<Tensor>; 3]> {
        let dx = if x.track_op() {
            let each = compute2(InputGradient, grad, weight)?;
            Some(if x.rank() == 2 { each.sum(0)? } else { each })
        } else {
            None
        };
        let dw = weight.track_op().then(|| compute2(WeightGradient, grad, x)).transpose()?;
        Ok([dx, dw, Some(compute1(BiasGradient, grad)?)])
    }
}

/// dy[p] W[p]
struct InputGradient;

impl Kernel<2> for InputGradient {
    const NAME: &'static str = "stacked-linear-backward-x";

    fn forward<T: Real>(&self, [grad, weight]: [&[T]; 2], shapes: [&Shape; 2]) -> Candle<(Vec<T>, Shape)> {
        let ((models, n, d_out), (_, _, d_in)) = (shapes[0].dims3()?, shapes[1].dims3()?);
        let mut dx = vec![T::zero(); models * n * d_in];
        dx.par_chunks_mut(n * d_in).enumerate().try_for_each(|(p, dx)| {
            let right = (&weight[p * d_out * d_in..][..d_out * d_in], Mat::new(d_out, d_in));
            product((dx, Mat::new(n, d_in)), part(grad, shapes[0], p)?, right, false)
        })?;
        Ok((dx, Shape::from((models, n, d_in))))
    }
}

/// dy[p]ᵀ x[p]
struct WeightGradient;

impl Kernel<2> for WeightGradient {
    const NAME: &'static str = "stacked-linear-backward-weight";

    fn forward<T: Real>(&self, [grad, x]: [&[T]; 2], shapes: [&Shape; 2]) -> Candle<(Vec<T>, Shape)> {
        let (models, _, d_out) = shapes[0].dims3()?;
        let d_in = part(x, shapes[1], 0)?.1.cols;
        let mut dw = vec![T::zero(); models * d_out * d_in];
        dw.par_chunks_mut(d_out * d_in).enumerate().try_for_each(|(p, dw)| {
            let (left, mat) = part(grad, shapes[0], p)?;
            product((dw, Mat::new(d_out, d_in)), (left, mat.transposed()), part(x, shapes[1], p)?, false)
        })?;
        Ok((dw, Shape::from((models, d_out, d_in))))
    }
}

/// Σ over the rows of each model
struct BiasGradient;

impl Kernel<1> for BiasGradient {
    const NAME: &'static str = "stacked-linear-backward-bias";

    fn forward<T: Real>(&self, [grad]: [&[T]; 1], shapes: [&Shape; 1]) -> Candle<(Vec<T>, Shape)> {
        let (models, n, d_out) = shapes[0].dims3()?;
        let mut db = vec![T::zero(); models * d_out];
        for (db, grad) in db.chunks_exact_mut(d_out).zip(grad.chunks_exact(n * d_out)) {
            for row in grad.chunks_exact(d_out) {
                db.iter_mut().zip(row).for_each(|(sum, g)| *sum += *g);
            }
        }
        Ok((db, Shape::from((models, d_out))))
    }
}
