//! Activations whose value and gradient are right everywhere.

use candle_core::{Shape, Tensor};

use super::host::{Candle, Kernel, Real, apply1, check, compute1, compute2};
use super::known::known;
use super::parallel::{map, zip};
use crate::error::Result;

/// The larger of each number and zero.
///
/// ```text
/// relu(x) = max(x, 0)        relu'(x) = 1 if x > 0, else 0
/// ```
/// Differs: candle's own has gradient 1 at 0. Shapes: any → the same. Cost: one pass each way. NaN passes through.
/// Fails: `Config` unless f32 or f64; `Shape` if empty.
/// Checked by `tests/ops/activation.rs::relu_has_gradient_zero_at_zero`.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Tensor::new(&[[-1f64, 0.5], [f64::NAN, 3.0]], &Device::Cpu)?;
/// let y = ops::relu(&x)?.to_vec2::<f64>()?;
/// assert!(y[0] == [0.0, 0.5] && y[1][0].is_nan()); // NaN is not hidden
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn relu(x: &Tensor) -> Result<Tensor> {
    check(&[("x of relu", x)])?;
    if x.device().is_cpu() {
        return Ok(apply1(Relu, x)?);
    }
    relu_by_tensors(x)
}

/// [`relu`] for every device, as tensor operations.
///
/// Checked by `tests/ops/activation.rs::relu_has_gradient_zero_at_zero`.
pub fn relu_by_tensors(x: &Tensor) -> Result<Tensor> {
    check(&[("x of relu", x)])?;
    let constant = x.detach();
    let zeros = constant.zeros_like()?;
    // NaN <= 0 is false, so NaN is kept. candle's own backward pass would make a gradient of the zeros, too.
    let cut = constant.le(0f64)?;
    let value = cut.where_cond(&zeros, &constant)?;
    known(x, value, move |dy| Ok(cut.where_cond(&zeros, dy)?))
}

struct Relu;

impl Kernel<1> for Relu {
    const NAME: &'static str = "relu";

    fn forward<T: Real>(&self, [x]: [&[T]; 1], [shape]: [&Shape; 1]) -> Candle<(Vec<T>, Shape)> {
        Ok((map(x, |x| if x <= T::zero() { T::zero() } else { x }), shape.clone()))
    }

    fn backward(&self, _: [&Tensor; 1], result: &Tensor, grad: &Tensor) -> Candle<[Option<Tensor>; 1]> {
        Ok([Some(compute2(ReluGrad, result, grad)?)])
    }
}

struct ReluGrad;

impl Kernel<2> for ReluGrad {
    const NAME: &'static str = "relu-backward";

    fn forward<T: Real>(&self, [y, g]: [&[T]; 2], [shape, _]: [&Shape; 2]) -> Candle<(Vec<T>, Shape)> {
        Ok((zip(y, g, |y, g| if y <= T::zero() { T::zero() } else { g }), shape.clone()))
    }
}

/// A smooth relative of ReLU that lets small negative numbers through.
///
/// ```text
/// mish(x)  = x ω          ω = tanh(ln(1 + eˣ))
/// mish'(x) = ω + x σ(x) (1 − ω²)
/// ```
/// Computed from e^−|x|, so that nothing overflows: mish(100) = 100, and mish(x) → 0 as x → −∞.
/// Differs: candle-nn's overflows in f32 from x = 89. Shapes: any → the same. Cost: one exponential per number each way,
/// in f64. NaN passes through. Fails: `Config` unless f32 or f64; `Shape` if empty.
/// Checked by `tests/ops/activation.rs::mish_does_not_overflow`.
///
/// ```
/// use lastlayer::prelude::*;
/// let y = ops::mish(&Tensor::new(&[0f32, 100.0, -100.0], &Device::Cpu)?)?.to_vec1::<f32>()?;
/// assert_eq!(y[..2], [0.0, 100.0]);
/// assert!(y[2].abs() < 1e-30);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn mish(x: &Tensor) -> Result<Tensor> {
    check(&[("x of mish", x)])?;
    if x.device().is_cpu() {
        return Ok(apply1(Mish, x)?);
    }
    mish_by_tensors(x)
}

/// [`mish`] for every device, as tensor operations.
///
/// Checked by `tests/ops/activation.rs::mish_does_not_overflow`.
pub fn mish_by_tensors(x: &Tensor) -> Result<Tensor> {
    check(&[("x of mish", x)])?;
    let constant = x.detach();
    let limit = |end: f64| -> Candle<Tensor> { constant.zeros_like()?.affine(0.0, end) };
    let x_clipped = constant.lt(-1000f64)?.where_cond(&limit(-1000.0)?, &constant)?;
    // e^−|x| is at most 1, so neither form overflows on the side that it is not for.
    let e = x_clipped.abs()?.neg()?.exp()?;
    let (double, square) = ((&e * 2.0)?, e.sqr()?);
    let left = x_clipped.le(0f64)?;
    let p = left.where_cond(&(&square + &double)?, &(&double + 1.0)?)?;
    let q = (&p + left.where_cond(&limit(2.0)?, &(&square * 2.0)?)?)?;
    let omega = p.div(&q)?;
    known(x, x_clipped.mul(&omega)?, move |outer| {
        let rest = left.where_cond(&(&e + 1.0)?.sqr()?, &(&square * (&p + &square)?)?)?;
        let rest = (rest.div(&q.sqr()?)? * 4.0)?;
        let sigmoid = left.where_cond(&e, &e.ones_like()?)?.div(&(&e + 1.0)?)?;
        // Far out the slope is 1; without the bound, ∞ · 0 would make it NaN.
        let bounded = x_clipped.gt(1000f64)?.where_cond(&x_clipped.zeros_like()?, &x_clipped)?;
        Ok((&omega + (bounded * sigmoid)?.mul(&rest)?)?.mul(outer)?)
    })
}

/// x clipped below, where mish is 0; then ω, 1 − ω² and σ(x), without cancellation.
#[inline(always)]
fn mish_parts(x: f64) -> (f64, f64, f64, f64) {
    let x = if x < -1000.0 { -1000.0 } else { x };
    let e = (-x.abs()).exp();
    if x <= 0.0 {
        let p = e * e + 2.0 * e;
        let q = p + 2.0;
        (x, p / q, 4.0 * (1.0 + e) * (1.0 + e) / (q * q), e / (1.0 + e))
    } else {
        let p = 1.0 + 2.0 * e;
        let q = p + 2.0 * e * e;
        (x, p / q, 4.0 * e * e * (p + e * e) / (q * q), 1.0 / (1.0 + e))
    }
}

struct Mish;

impl Kernel<1> for Mish {
    const NAME: &'static str = "mish";

    fn forward<T: Real>(&self, [x]: [&[T]; 1], [shape]: [&Shape; 1]) -> Candle<(Vec<T>, Shape)> {
        let mish = |x: T| {
            let (x, omega, _, _) = mish_parts(x.to_f64());
            T::from_f64(x * omega)
        };
        Ok((map(x, mish), shape.clone()))
    }

    fn backward(&self, [x]: [&Tensor; 1], _: &Tensor, grad: &Tensor) -> Candle<[Option<Tensor>; 1]> {
        Ok([Some((compute1(MishSlope, x)? * grad)?)])
    }
}

struct MishSlope;

impl Kernel<1> for MishSlope {
    const NAME: &'static str = "mish-backward";

    fn forward<T: Real>(&self, [x]: [&[T]; 1], [shape]: [&Shape; 1]) -> Candle<(Vec<T>, Shape)> {
        let slope = |x: T| {
            let (x, omega, rest, sigmoid) = mish_parts(x.to_f64());
            // Far out the slope is 1; without the bound, ∞ · 0 would make it NaN.
            let bounded = if x > 1000.0 { 1000.0 } else { x };
            T::from_f64(omega + bounded * sigmoid * rest)
        };
        Ok((map(x, slope), shape.clone()))
    }
}
