//! A linear layer as one operation.

use candle_core::{Shape, Tensor};

use super::host::{Candle, Kernel, Real, apply2, apply3, check, compute1, compute2};
use super::known::known;
use super::parallel::{Mat, each_row, parallel_product};
use crate::error::{Error, Result};

/// A linear layer: every row of the input times the weight, plus the bias.
///
/// ```text
/// y = x Wᵀ + b        dx = dy W        dW = dyᵀ x        db = Σ_rows dy
/// ```
/// Shapes: `x` (…, in), `weight` (out, in), `bias` (out) or none → (…, out). Cost: one matrix product forward, two
/// backward, no copies. Host: on the CPU. Fails: `Shape` if sizes disagree; `Config` unless all are f32 or all f64.
/// Checked by `tests/ops/linear.rs::linear_gradients_match_finite_differences`.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Tensor::new(&[[1f64, 2.0]], &Device::Cpu)?;
/// let weight = Tensor::new(&[[1f64, 0.0], [0.0, 1.0], [1.0, 1.0]], &Device::Cpu)?;
/// let bias = Tensor::new(&[10f64, 20.0, 30.0], &Device::Cpu)?;
/// assert_eq!(ops::linear(&x, &weight, Some(&bias))?.to_vec2::<f64>()?, [[11.0, 22.0, 33.0]]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let mut inputs = vec![("x of linear", x), ("weight of linear", weight)];
    inputs.extend(bias.map(|bias| ("bias of linear", bias)));
    check(&inputs)?;
    let wrong =
        |what: &str, expected: String, t: &Tensor| Error::shape(what, expected, format!("{:?}", t.dims()));
    let Ok((d_out, d_in)) = weight.dims2() else {
        return Err(wrong("weight of linear", "[out, in]".into(), weight));
    };
    let Some((&last, leading)) = x.dims().split_last().filter(|(_, leading)| !leading.is_empty()) else {
        return Err(wrong("x of linear", format!("[n, {d_in}]"), x));
    };
    if last != d_in {
        return Err(wrong("x of linear", format!("[.., {d_in}] for a weight [{d_out}, {d_in}]"), x));
    }
    if let Some(bias) = bias.filter(|bias| bias.dims() != [d_out]) {
        return Err(wrong("bias of linear", format!("[{d_out}] for a weight [{d_out}, {d_in}]"), bias));
    }
    let flat = if leading.len() == 1 { x.clone() } else { x.reshape((x.elem_count() / d_in, d_in))? };
    let y = if !x.device().is_cpu() {
        let y = matmul(&flat.contiguous()?, &weight.contiguous()?.t()?)?;
        bias.map_or(Ok(y.clone()), |bias| y.broadcast_add(bias))?
    } else {
        match bias {
            Some(bias) => apply3(Linear, &flat, weight, bias)?,
            None => apply2(Linear, &flat, weight)?,
        }
    };
    if leading.len() == 1 { Ok(y) } else { Ok(y.reshape([leading, &[d_out]].concat())?) }
}

/// a b, without the gradient that nobody asks for: candle's own backward pass makes both, also that of data.
pub(super) fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (left, right) = (a.detach(), b.detach());
    match (a.track_op(), b.track_op()) {
        (true, false) => known(a, left.matmul(&right)?, move |dy| Ok(dy.matmul(&right.t()?)?)),
        (false, true) => known(b, left.matmul(&right)?, move |dy| Ok(left.t()?.matmul(dy)?)),
        _ => Ok(a.matmul(b)?),
    }
}

struct Linear;

/// Gradients of the input and of the weight.
fn gradients(x: &Tensor, weight: &Tensor, grad: &Tensor) -> Candle<(Option<Tensor>, Option<Tensor>)> {
    let dx = x.track_op().then(|| compute2(Product, grad, weight)).transpose()?;
    let dw = weight.track_op().then(|| compute2(TransposedProduct, grad, x)).transpose()?;
    Ok((dx, dw))
}

impl Kernel<3> for Linear {
    const NAME: &'static str = "linear";

    fn forward<T: Real>(&self, [x, weight, bias]: [&[T]; 3], shapes: [&Shape; 3]) -> Candle<(Vec<T>, Shape)> {
        let ((n, d_in), (d_out, _)) = (shapes[0].dims2()?, shapes[1].dims2()?);
        let mut y = vec![T::zero(); n * d_out];
        each_row(&mut y, d_out, |_, row| row.copy_from_slice(bias));
        let right = (weight, Mat::new(d_out, d_in).transposed());
        parallel_product((&mut y, Mat::new(n, d_out)), (x, Mat::new(n, d_in)), right, true)?;
        Ok((y, Shape::from((n, d_out))))
    }

    fn backward(
        &self,
        [x, weight, _]: [&Tensor; 3],
        _: &Tensor,
        grad: &Tensor,
    ) -> Candle<[Option<Tensor>; 3]> {
        let (dx, dw) = gradients(x, weight, grad)?;
        Ok([dx, dw, Some(compute1(RowSum, grad)?)])
    }
}

impl Kernel<2> for Linear {
    const NAME: &'static str = "linear";

    fn forward<T: Real>(&self, [x, weight]: [&[T]; 2], shapes: [&Shape; 2]) -> Candle<(Vec<T>, Shape)> {
        let ((n, d_in), (d_out, _)) = (shapes[0].dims2()?, shapes[1].dims2()?);
        let mut y = vec![T::zero(); n * d_out];
        let right = (weight, Mat::new(d_out, d_in).transposed());
        parallel_product((&mut y, Mat::new(n, d_out)), (x, Mat::new(n, d_in)), right, false)?;
        Ok((y, Shape::from((n, d_out))))
    }

    fn backward(&self, [x, weight]: [&Tensor; 2], _: &Tensor, grad: &Tensor) -> Candle<[Option<Tensor>; 2]> {
        let (dx, dw) = gradients(x, weight, grad)?;
        Ok([dx, dw])
    }
}

/// a b
struct Product;

impl Kernel<2> for Product {
    const NAME: &'static str = "linear-backward-x";

    fn forward<T: Real>(&self, [a, b]: [&[T]; 2], shapes: [&Shape; 2]) -> Candle<(Vec<T>, Shape)> {
        let ((n, k), (_, m)) = (shapes[0].dims2()?, shapes[1].dims2()?);
        let mut result = vec![T::zero(); n * m];
        parallel_product((&mut result, Mat::new(n, m)), (a, Mat::new(n, k)), (b, Mat::new(k, m)), false)?;
        Ok((result, Shape::from((n, m))))
    }
}

/// aᵀ b
struct TransposedProduct;

impl Kernel<2> for TransposedProduct {
    const NAME: &'static str = "linear-backward-weight";

    fn forward<T: Real>(&self, [a, b]: [&[T]; 2], shapes: [&Shape; 2]) -> Candle<(Vec<T>, Shape)> {
        let ((k, n), (_, m)) = (shapes[0].dims2()?, shapes[1].dims2()?);
        let mut result = vec![T::zero(); n * m];
        let left = (a, Mat::new(k, n).transposed());
        parallel_product((&mut result, Mat::new(n, m)), left, (b, Mat::new(k, m)), false)?;
        Ok((result, Shape::from((n, m))))
    }
}

/// Σ over rows
struct RowSum;

impl Kernel<1> for RowSum {
    const NAME: &'static str = "linear-backward-bias";

    fn forward<T: Real>(&self, [x]: [&[T]; 1], shapes: [&Shape; 1]) -> Candle<(Vec<T>, Shape)> {
        let (_, m) = shapes[0].dims2()?;
        let mut sum = vec![T::zero(); m];
        for row in x.chunks_exact(m) {
            for (sum, x) in sum.iter_mut().zip(row) {
                *sum += *x;
            }
        }
        Ok((sum, Shape::from(m)))
    }
}
