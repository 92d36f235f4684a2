//! Many models side by side: their linear layers, and whole small networks with their loss as one operation.

use std::sync::Mutex;

use candle_core::{DType, Device, Shape, Tensor, Var};
use rayon::prelude::*;

use super::activation::relu;
use super::backward::backward;
use super::host::{Candle, Kernel, Real, apply3, check, missing};
use super::linear::matmul;
use super::parallel::{Mat, product};
use crate::error::{Error, Result};

/// Linear layers of many models at once, on inputs of their own or on one that they share.
///
/// ```text
/// y[p] = x[p] W[p]ᵀ + b[p]
/// ```
/// Shapes: `x` (p, n, in), or (n, in) for all; `weight` (p, out, in), `bias` (p, out) → (p, n, out). Composed of tensor
/// operations: training on the CPU goes through [`TwoLayer::logistic_loss`], which is several times as fast. Fails: `Shape`
/// if sizes disagree; `Config` unless all are f32 or all f64. Checked by `tests/ops/stacked.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Two models read the same row, each with a weight of its own.
/// let x = Tensor::new(&[[1f64, 2.0]], &Device::Cpu)?;
/// let weight = Tensor::new(&[[[1f64, 0.0]], [[0.0, 1.0]]], &Device::Cpu)?;
/// let bias = Tensor::new(&[[10f64], [20.0]], &Device::Cpu)?;
/// let y = ops::stacked_linear(&x, &weight, &bias)?;
/// assert_eq!(y.to_vec3::<f64>()?, [[[11.0]], [[22.0]]]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
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
    if bias.dims() != [models, d_out] {
        return wrong("bias", format!("[{models}, {d_out}]"), bias);
    }
    let y = match *x.dims() {
        // One product serves all models.
        [n, own] if own == d_in => {
            let y = matmul(&x.contiguous()?, &weight.reshape((models * d_out, d_in))?.t()?)?;
            y.reshape((n, models, d_out))?.transpose(0, 1)?
        }
        [p, _, own] if p == models && own == d_in => {
            matmul(&x.contiguous()?, &weight.transpose(1, 2)?.contiguous()?)?
        }
        _ => return wrong("x", format!("[n, {d_in}] or [{models}, n, {d_in}]"), x),
    };
    Ok(y.contiguous()?.broadcast_add(&bias.unsqueeze(1)?)?)
}

// --------------------------------------------------------------------------------------------------------------------
// Whole networks

/// Sizes of small networks with two hidden layers and two scores, and how the parameters of one lie one after the other.
///
/// ```text
/// z₁ = relu(x W₁ᵀ + b₁)      z₂ = relu(z₁ W₂ᵀ + b₂)      s = z₂ W₃ᵀ + b₃        θ = (W₁, b₁, W₂, b₂, W₃, b₃)
/// ```
///
/// ```
/// use lastlayer::prelude::*;
/// let net = ops::TwoLayer { inputs: 3, hidden: [2, 2] };
/// assert_eq!(net.size(), 3 * 2 + 2 + 2 * 2 + 2 + 2 * 2 + 2);
/// // Five networks of zeros, which say 0 and lose ln 2 on each of their two scores.
/// let theta = Tensor::zeros((5, net.size()), DType::F64, &Device::Cpu)?;
/// let x = Tensor::ones((4, 3), DType::F64, &Device::Cpu)?;
/// let y = Tensor::ones((4, 10), DType::F64, &Device::Cpu)?;
/// assert_eq!(net.scores(&theta, &x)?.dims(), [5, 4, 2]);
/// let loss = net.logistic_loss(&theta, &x, &y, &[1.0; 10])?.to_vec1::<f64>()?;
/// assert!(loss.iter().all(|loss| (loss - 2.0 * 2f64.ln()).abs() < 1e-14));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoLayer {
    /// Numbers per row of the input.
    pub inputs: usize,
    /// Width of either hidden layer.
    pub hidden: [usize; 2],
}

impl TwoLayer {
    /// Shapes of the six parts, in order.
    pub fn parts(&self) -> [[usize; 2]; 6] {
        let (d, [h, k]) = (self.inputs, self.hidden);
        [[h, d], [h, 1], [k, h], [k, 1], [2, k], [2, 1]]
    }

    /// Parameters of one network.
    pub fn size(&self) -> usize {
        self.parts().iter().map(|[rows, columns]| rows * columns).sum()
    }

    /// (models, n, 2) Scores of all networks on inputs (n, d), from parameters (models, size).
    ///
    /// Fails: `Shape` unless the sizes agree.
    pub fn scores(&self, theta: &Tensor, x: &Tensor) -> Result<Tensor> {
        let models = self.models(theta)?;
        let mut start = 0;
        let mut part = |[rows, columns]: [usize; 2]| -> Result<Tensor> {
            let own = theta.narrow(1, start, rows * columns)?;
            start += rows * columns;
            Ok(match columns {
                1 => own.contiguous()?,
                _ => own.reshape((models, rows, columns))?.contiguous()?,
            })
        };
        let [w1, b1, w2, b2, w3, b3] = self.parts();
        let z = relu(&stacked_linear(x, &part(w1)?, &part(b1)?)?)?;
        let z = relu(&stacked_linear(&z, &part(w2)?, &part(b2)?)?)?;
        stacked_linear(&z, &part(w3)?, &part(b3)?)
    }

    fn models(&self, theta: &Tensor) -> Result<usize> {
        match theta.dims() {
            [models, size] if *size == self.size() => Ok(*models),
            other => {
                let expected = format!("[models, {}]", self.size());
                Err(Error::shape("parameters of stacked networks", expected, format!("{other:?}")))
            }
        }
    }

    /// (models) The logistic loss of both scores of each network, weighed and summed, mean over the rows.
    ///
    /// Shapes: `theta` (models, size), `x` (n, d), `y` (n, models · 2) labels 0 or 1, `weights` (models · 2). Gradients reach
    /// `theta` and `x` on every device, as often as asked; labels are constants. Cost: on the CPU value and gradient in
    /// `theta` in one pass, each network in a core's own cache; tensor operations elsewhere, and for the gradient in `x`,
    /// which costs nothing if `x` is a constant. Host: on the CPU. Fails: `Shape` unless the sizes agree, `Config` unless
    /// all are f32 or all f64. Checked by `tests/ops/stacked.rs`.
    pub fn logistic_loss(&self, theta: &Tensor, x: &Tensor, y: &Tensor, weights: &[f64]) -> Result<Tensor> {
        check(&[("parameters of stacked networks", theta), ("their inputs", x), ("their labels", y)])?;
        let (models, n) = (self.models(theta)?, x.dim(0)?);
        crate::error::ensure_shape("inputs of stacked networks", &[n, self.inputs][..], x.dims())?;
        crate::error::ensure_shape("labels of stacked networks", &[n, 2 * models][..], y.dims())?;
        crate::error::ensure_shape("weights of stacked networks", 2 * models, weights.len())?;
        if theta.device().is_cpu() {
            let kernel = Loss { sizes: *self, weights: weights.to_vec(), gradient: Mutex::new(None) };
            return Ok(apply3(kernel, theta, x, &y.detach())?);
        }
        self.composed_loss(theta, x, y, weights)
    }

    /// [`logistic_loss`](TwoLayer::logistic_loss) of tensor operations.
    fn composed_loss(&self, theta: &Tensor, x: &Tensor, y: &Tensor, weights: &[f64]) -> Result<Tensor> {
        let (models, n) = (self.models(theta)?, x.dim(0)?);
        let y = y.detach().reshape((n, models, 2))?.transpose(0, 1)?.contiguous()?;
        let each = crate::loss::bce_logits_each(&self.scores(theta, x)?, &y)?;
        let weights =
            Tensor::new(weights, theta.device())?.to_dtype(theta.dtype())?.reshape((models, 1, 2))?;
        Ok((each.broadcast_mul(&weights)?.sum((1, 2))? / n as f64)?)
    }
}

struct Loss {
    sizes: TwoLayer,
    weights: Vec<f64>,
    /// Of the sum of the losses in the parameters, from the forward pass: the work is done there. It stays for the next
    /// backward pass.
    gradient: Mutex<Option<Tensor>>,
}

impl Loss {
    /// Gradient in the inputs, of the losses weighed by `grad`.
    fn inputs(&self, [theta, x, y]: [&Tensor; 3], grad: &Tensor) -> Result<Option<Tensor>> {
        let x = Var::from_tensor(&x.detach())?;
        let losses = self.sizes.composed_loss(&theta.detach(), &x, y, &self.weights)?;
        Ok(backward(&(losses * grad)?.sum_all()?)?.remove(&x))
    }
}

impl Kernel<3> for Loss {
    const NAME: &'static str = "stacked-logistic-loss";

    /// Host: kernels over slices run on the CPU, and the gradient that is kept is there.
    fn forward<T: Real>(&self, [theta, x, y]: [&[T]; 3], shapes: [&Shape; 3]) -> Candle<(Vec<T>, Shape)> {
        let ((models, size), (n, _)) = (shapes[0].dims2()?, shapes[1].dims2()?);
        let mut gradient = vec![T::zero(); models * size];
        let losses = gradient.par_chunks_mut(size).enumerate().map(|(p, gradient)| {
            let labels = |row: usize, k: usize| y[(row * models + p) * 2 + k];
            let weights = [self.weights[2 * p], self.weights[2 * p + 1]];
            network(&self.sizes, &theta[p * size..][..size], (x, n), labels, weights, gradient)
        });
        let losses = losses.collect::<Candle<Vec<T>>>()?;
        if let Ok(mut place) = self.gradient.lock() {
            *place = Some(Tensor::from_vec(gradient, shapes[0], &Device::Cpu)?);
        }
        Ok((losses, Shape::from(models)))
    }

    /// Host: one number per model, on the CPU.
    fn backward(&self, inputs: [&Tensor; 3], _: &Tensor, grad: &Tensor) -> Candle<[Option<Tensor>; 3]> {
        let kept = self.gradient.lock().ok().and_then(|place| place.clone());
        let gradient = kept.ok_or_else(|| missing("the gradient of stacked networks"))?;
        // Usually the losses were added up, and each has the gradient one.
        let ones = grad.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?.iter().all(|g| *g == 1.0);
        let gradient = if ones { gradient } else { gradient.broadcast_mul(&grad.unsqueeze(1)?)? };
        let tracked = inputs[1].track_op();
        let dx = if tracked { self.inputs(inputs, grad).map_err(candle_core::Error::wrap)? } else { None };
        Ok([Some(gradient), dx, None])
    }
}

/// Loss of one network and, in `gradient`, its gradient.
fn network<T: Real>(
    sizes: &TwoLayer,
    theta: &[T],
    (x, n): (&[T], usize),
    labels: impl Fn(usize, usize) -> T,
    weights: [f64; 2],
    gradient: &mut [T],
) -> Candle<T> {
    let (d, [h, k]) = (sizes.inputs, sizes.hidden);
    let cut = sizes.parts().map(|[rows, columns]| rows * columns);
    let mut rest = theta;
    let [w1, b1, w2, b2, w3, b3] = cut.map(|size| {
        let (part, after) = rest.split_at(size);
        rest = after;
        part
    });
    let layer =
        |x: &[T], w: &[T], b: &[T], (inputs, outputs): (usize, usize), active: bool| -> Candle<Vec<T>> {
            let mut z = Vec::with_capacity(n * outputs);
            (0..n).for_each(|_| z.extend_from_slice(b));
            let right = (w, Mat::new(outputs, inputs).transposed());
            product((&mut z, Mat::new(n, outputs)), (x, Mat::new(n, inputs)), right, true)?;
            if active {
                z.iter_mut().for_each(|z| *z = if *z > T::zero() { *z } else { *z * T::zero() });
            }
            Ok(z)
        };
    let z1 = layer(x, w1, b1, (d, h), true)?;
    let z2 = layer(&z1, w2, b2, (h, k), true)?;
    let s = layer(&z2, w3, b3, (k, 2), false)?;
    let mut loss = 0.0;
    let mut ds = Vec::with_capacity(2 * n);
    for (i, s) in s.iter().enumerate() {
        let (s, y, weight) = (s.to_f64(), labels(i / 2, i % 2).to_f64(), weights[i % 2]);
        loss += weight * (s.max(0.0) - y * s + (-s.abs()).exp().ln_1p());
        ds.push(T::from_f64(weight * (1.0 / (1.0 + (-s).exp()) - y) / n as f64));
    }
    let mut rest = gradient;
    let mut next = |size: usize| {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(size);
        rest = after;
        part
    };
    let [g1, c1, g2, c2, g3, c3] = cut.map(&mut next);
    // From the top: gradients of a layer's weights and bias, then of what it reads, zero where that was cut off.
    let below = |dy: &[T], w: &[T], z: &[T], (inputs, outputs): (usize, usize)| -> Candle<Vec<T>> {
        let mut dz = vec![T::zero(); n * inputs];
        product(
            (&mut dz, Mat::new(n, inputs)),
            (dy, Mat::new(n, outputs)),
            (w, Mat::new(outputs, inputs)),
            false,
        )?;
        dz.iter_mut().zip(z).for_each(|(dz, z)| *dz = if *z > T::zero() { *dz } else { T::zero() });
        Ok(dz)
    };
    let parameters =
        |dy: &[T], x: &[T], g: &mut [T], c: &mut [T], (inputs, outputs): (usize, usize)| -> Candle<()> {
            for row in dy.chunks_exact(outputs) {
                c.iter_mut().zip(row).for_each(|(c, dy)| *c += *dy);
            }
            let left = (dy, Mat::new(n, outputs).transposed());
            product((g, Mat::new(outputs, inputs)), left, (x, Mat::new(n, inputs)), false)
        };
    parameters(&ds, &z2, g3, c3, (k, 2))?;
    let dz2 = below(&ds, w3, &z2, (k, 2))?;
    parameters(&dz2, &z1, g2, c2, (h, k))?;
    let dz1 = below(&dz2, w2, &z1, (h, k))?;
    parameters(&dz1, x, g1, c1, (d, h))?;
    Ok(T::from_f64(loss / n as f64))
}
