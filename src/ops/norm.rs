//! Batch normalisation in two passes over memory each way.

use std::sync::{Arc, OnceLock};

use candle_core::{Shape, Tensor};
use rayon::prelude::*;

use super::activation::relu_by_tensors;
use super::host::{Candle, Kernel, Real, apply3, compute2, missing};
use super::known::known_of_two;
use super::parallel::{each_row, rows_per_piece};
use super::running::Running;
use crate::error::{Error, Result};

/// Every channel shifted and scaled to mean 0 and variance 1, then to a learnt mean and scale.
///
/// ```text
/// y = γ x̂ + β        x̂ = (x − μ) / √(v + eps)
/// training:  μ, v = mean and biased variance of the channel over batch and pixels (N numbers)
///            running ← (1 − momentum) running + momentum (μ, v N/(N − 1))
/// otherwise: μ, v = the running ones
/// dx = γ/√(v + eps) (dy − mean(dy) − x̂ mean(dy x̂))        dγ = Σ dy x̂        dβ = Σ dy
/// ```
/// Shapes: `x` (n, c) or (n, c, h, w); `gamma`, `beta`, `running` (c) → as `x`. Sums in f64, in an order that depends on
/// the shape alone. Cost: two passes each way. Host: on the CPU. Fails: `Shape` if sizes disagree or if training on one
/// number per channel; `Config` for a momentum outside 0 to 1, a negative eps, or types other than f32 and f64.
/// Checked by `tests/ops/norm.rs::batch_norm_is_its_formula`, `batch_norm_gradients_match_finite_differences`.
/// Book: `measures/features.md#eq-features-batch-norm`.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Tensor::new(&[[1f64], [3.0]], &Device::Cpu)?;
/// let (gamma, beta) = (Tensor::new(&[2f64], &Device::Cpu)?, Tensor::new(&[5f64], &Device::Cpu)?);
/// let running = ops::Running::new(&gamma)?;
/// let y = ops::batch_norm(&x, &gamma, &beta, &running, true)?.to_vec2::<f64>()?;
/// assert!((y[0][0] - 3.0).abs() < 1e-4 && (y[1][0] - 7.0).abs() < 1e-4); // −1 and 1, times 2, plus 5
/// assert_eq!(running.mean.to_vec1::<f64>()?, [0.2]); // a tenth of the batch's mean
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn batch_norm(
    x: &Tensor,
    gamma: &Tensor,
    beta: &Tensor,
    running: &Running,
    train: bool,
) -> Result<Tensor> {
    normalise(x, gamma, beta, running, train, false)
}

/// [`batch_norm`] followed by [`relu`](super::relu), without a tensor between them.
///
/// Saves a pass forward and, because candle copies every gradient twice, four backward.
/// Checked by `tests/ops/norm.rs::batch_norm_relu_is_relu_of_batch_norm`.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Tensor::new(&[[1f64], [3.0]], &Device::Cpu)?;
/// let (gamma, beta) = (Tensor::new(&[1f64], &Device::Cpu)?, Tensor::new(&[0f64], &Device::Cpu)?);
/// let y = ops::batch_norm_relu(&x, &gamma, &beta, &ops::Running::new(&gamma)?, true)?;
/// assert_eq!(y.to_vec2::<f64>()?[0], [0.0]); // the smaller one is below the mean
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn batch_norm_relu(
    x: &Tensor,
    gamma: &Tensor,
    beta: &Tensor,
    running: &Running,
    train: bool,
) -> Result<Tensor> {
    normalise(x, gamma, beta, running, train, true)
}

fn normalise(
    x: &Tensor,
    gamma: &Tensor,
    beta: &Tensor,
    running: &Running,
    train: bool,
    relu: bool,
) -> Result<Tensor> {
    let (n, c, plane) = sizes(x, gamma, beta, running, train)?;
    if !x.device().is_cpu() {
        let y = batch_norm_by_tensors(x, gamma, beta, running, train)?;
        return if relu { relu_by_tensors(&y) } else { Ok(y) };
    }
    let channels: Arc<OnceLock<Vec<Channel>>> = Arc::default();
    let fixed = if train { None } else { Some(running.read()?) };
    let op = Norm { n, c, plane, relu, eps: running.eps, fixed, channels: channels.clone() };
    let y = apply3(op, x, gamma, beta)?;
    if train {
        let channels = channels.get().ok_or_else(|| missing("the forward pass of batch_norm"))?;
        running.follow(channels, n * plane)?;
    }
    Ok(y)
}

/// Images, channels and numbers per channel of an image, once everything has been checked.
fn sizes(
    x: &Tensor,
    gamma: &Tensor,
    beta: &Tensor,
    running: &Running,
    train: bool,
) -> Result<(usize, usize, usize)> {
    let (n, c, plane) = match *x.dims() {
        [n, c] => (n, c, 1),
        [n, c, h, w] => (n, c, h * w),
        _ => {
            let got = format!("{:?}", x.dims());
            return Err(Error::shape(
                "x of batch_norm",
                "[n, channels] or [n, channels, height, width]",
                got,
            ));
        }
    };
    running.check(x, c, gamma, beta)?;
    if train && n * plane < 2 {
        let expected = "at least two numbers per channel to train on; use train = false for one, or another batch size if this is the \
                        last batch of an epoch";
        return Err(Error::shape("x of batch_norm", expected, format!("{:?}", x.dims())));
    }
    Ok((n, c, plane))
}

/// [`batch_norm`] for every device, as tensor operations.
///
/// Checked by `tests/ops/norm.rs::batch_norm_by_tensors_agrees_with_the_kernel`.
pub fn batch_norm_by_tensors(
    x: &Tensor,
    gamma: &Tensor,
    beta: &Tensor,
    running: &Running,
    train: bool,
) -> Result<Tensor> {
    let (_, c, _) = sizes(x, gamma, beta, running, train)?;
    let all_but_channels: &'static [usize] = if x.rank() == 4 { &[0, 2, 3] } else { &[0] };
    let per_channel: &[usize] = if x.rank() == 4 { &[1, c, 1, 1] } else { &[1, c] };
    let (mean, var) = if train {
        let mean = x.mean_keepdim(all_but_channels)?;
        let var = x.broadcast_sub(&mean)?.sqr()?.mean_keepdim(all_but_channels)?;
        let count = (x.elem_count() / c) as f64;
        let unbiased = (var.detach().flatten_all()? * (count / (count - 1.0)))?;
        running.follow_tensors(&mean.detach().flatten_all()?, &unbiased)?;
        (mean, var)
    } else {
        (
            running.mean.as_detached_tensor().reshape(per_channel)?,
            running.var.as_detached_tensor().reshape(per_channel)?,
        )
    };
    let (centred, deviation) = (x.broadcast_sub(&mean)?, (var + running.eps)?.sqrt()?);
    let scaled = |gamma: &Tensor, beta: &Tensor| -> Result<Tensor> {
        let scale = gamma.reshape(per_channel)?.broadcast_div(&deviation)?;
        Ok(centred.broadcast_mul(&scale)?.broadcast_add(&beta.reshape(per_channel)?)?)
    };
    if x.track_op() {
        return scaled(gamma, beta);
    }
    // candle's own backward pass would make a gradient of the data, too.
    let value = scaled(&gamma.detach(), &beta.detach())?;
    known_of_two(gamma, beta, value, move |dy| {
        let d_gamma = (dy * &centred)?.sum_keepdim(all_but_channels)?.div(&deviation)?;
        Ok([Some(d_gamma.flatten_all()?), Some(dy.sum_keepdim(all_but_channels)?.flatten_all()?)])
    })
}

/// What normalises one channel.
#[derive(Clone, Copy)]
pub(super) struct Channel {
    pub mean: f64,
    pub var: f64,
    /// 1/√(v + eps)
    pub inv_std: f64,
    pub gamma: f64,
    pub beta: f64,
}

/// Sum of `f` over the places of up to two slices, in eight lanes so that additions need not wait for each other.
#[inline(always)]
pub(super) fn lanes<T: Real>(x: &[T], y: &[T], f: impl Fn(T, T) -> f64) -> f64 {
    let mut sums = [0.0; 8];
    let ((x8, x_rest), (y8, y_rest)) = (x.as_chunks::<8>(), y.as_chunks::<8>());
    for (x, y) in x8.iter().zip(y8) {
        for lane in 0..8 {
            sums[lane] += f(x[lane], y[lane]);
        }
    }
    let rest: f64 = x_rest.iter().zip(y_rest).map(|(x, y)| f(*x, *y)).sum();
    sums.iter().sum::<f64>() + rest
}

/// Mean, and sum of squares about it, of one channel of one image.
pub(super) fn moments<T: Real>(x: &[T]) -> [f64; 2] {
    let mean = lanes(x, x, |x, _| x.to_f64()) / x.len() as f64;
    [mean, lanes(x, x, |x, _| (x.to_f64() - mean) * (x.to_f64() - mean))]
}

/// Statistics of every channel from the moments of its images, all of which have `plane` numbers.
pub(super) fn channels<T: Real>(
    moments: &[[f64; 2]],
    plane: usize,
    fixed: Option<&[(f64, f64)]>,
    (gamma, beta): (&[T], &[T]),
    eps: f64,
) -> Vec<Channel> {
    let c = gamma.len();
    let n = moments.len() / c;
    let channel = |i: usize| {
        let (mean, var) = fixed.map_or_else(
            || {
                let images = || moments.iter().skip(i).step_by(c);
                let mean = images().map(|m| m[0]).sum::<f64>() / n as f64;
                let between = images().map(|m| (m[0] - mean) * (m[0] - mean)).sum::<f64>();
                let within = images().map(|m| m[1]).sum::<f64>();
                (mean, within / (n * plane) as f64 + between / n as f64)
            },
            |fixed| fixed[i],
        );
        Channel {
            mean,
            var,
            inv_std: 1.0 / (var + eps).sqrt(),
            gamma: gamma[i].to_f64(),
            beta: beta[i].to_f64(),
        }
    };
    (0..c).map(channel).collect()
}

struct Norm {
    n: usize,
    c: usize,
    plane: usize,
    relu: bool,
    eps: f64,
    fixed: Option<Vec<(f64, f64)>>,
    channels: Arc<OnceLock<Vec<Channel>>>,
}

/// Scale and place of a channel in the type of the data: y = (x − mean) scale + beta.
#[inline(always)]
pub(super) fn affine<T: Real>(channel: &Channel) -> (T, T, T) {
    (T::from_f64(channel.mean), T::from_f64(channel.gamma * channel.inv_std), T::from_f64(channel.beta))
}

impl Kernel<3> for Norm {
    const NAME: &'static str = "batch_norm";

    fn forward<T: Real>(&self, [x, gamma, beta]: [&[T]; 3], shapes: [&Shape; 3]) -> Candle<(Vec<T>, Shape)> {
        let (c, plane) = (self.c, self.plane);
        let moments = match self.fixed {
            Some(_) => Vec::new(),
            None => x.par_chunks(plane).with_min_len(rows_per_piece(plane)).map(moments).collect(),
        };
        let channels = channels(&moments, plane, self.fixed.as_deref(), (gamma, beta), self.eps);
        let mut y = vec![T::zero(); x.len()];
        each_row(&mut y, c * plane, |i, y| {
            let x = x[i * c * plane..].chunks_exact(plane);
            for ((y, x), channel) in y.chunks_exact_mut(plane).zip(x).zip(&channels) {
                let (mean, scale, beta) = affine::<T>(channel);
                for (y, x) in y.iter_mut().zip(x) {
                    let value = (*x - mean) * scale + beta;
                    *y = if self.relu && value <= T::zero() { T::zero() } else { value };
                }
            }
        });
        let _ = self.channels.set(channels);
        Ok((y, shapes[0].clone()))
    }

    fn backward(&self, [x, ..]: [&Tensor; 3], _: &Tensor, grad: &Tensor) -> Candle<[Option<Tensor>; 3]> {
        let op = NormGrad {
            n: self.n,
            c: self.c,
            plane: self.plane,
            relu: self.relu,
            train: self.fixed.is_none(),
            dx: x.track_op(),
            channels: self.channels.clone(),
        };
        let all = compute2(op, x, grad)?;
        let (c, len) = (self.c, all.elem_count() - 2 * self.c);
        let dx = if x.track_op() { Some(all.narrow(0, 0, len)?.reshape(x.shape())?) } else { None };
        Ok([dx, Some(all.narrow(0, len, c)?), Some(all.narrow(0, len + c, c)?)])
    }
}

/// dx, dγ and dβ, one after the other.
struct NormGrad {
    n: usize,
    c: usize,
    plane: usize,
    relu: bool,
    train: bool,
    dx: bool,
    channels: Arc<OnceLock<Vec<Channel>>>,
}

/// Adds up the two sums of every image, in the order of the images: Σ dy and Σ dy x̂ per channel.
pub(super) fn add_up(sums: &[[f64; 2]], c: usize) -> Vec<[f64; 2]> {
    let mut total = vec![[0.0; 2]; c];
    for image in sums.chunks_exact(c) {
        for (total, sum) in total.iter_mut().zip(image) {
            *total = [total[0] + sum[0], total[1] + sum[1]];
        }
    }
    total
}

/// The gradient of the input is a dy + b + k (x − mean).
pub(super) fn slopes<T: Real>(channel: &Channel, sums: [f64; 2], count: usize, train: bool) -> (T, T, T) {
    let a = channel.gamma * channel.inv_std;
    let share = if train { 1.0 / count as f64 } else { 0.0 };
    let (b, k) = (-a * share * sums[0], -a * share * channel.inv_std * sums[1]);
    (T::from_f64(a), T::from_f64(b), T::from_f64(k))
}

/// Gradients that passed the ReLU, this many at a time: selecting them first keeps the sums free of branches.
const GATED: usize = 256;

impl Kernel<2> for NormGrad {
    const NAME: &'static str = "batch_norm-backward";

    fn forward<T: Real>(&self, [x, g]: [&[T]; 2], _: [&Shape; 2]) -> Candle<(Vec<T>, Shape)> {
        let (c, plane) = (self.c, self.plane);
        let channels = self.channels.get().ok_or_else(|| missing("the forward pass of batch_norm"))?;
        let planes =
            x.par_chunks(plane).zip(g.par_chunks(plane)).enumerate().with_min_len(rows_per_piece(plane));
        let sums: Vec<[f64; 2]> = planes
            .map(|(i, (x, g))| {
                let (Channel { mean, inv_std, .. }, (mean_t, scale, beta)) =
                    (channels[i % c], affine::<T>(&channels[i % c]));
                if self.relu {
                    let mut sums = [0.0; 2];
                    for (x, g) in x.chunks(GATED).zip(g.chunks(GATED)) {
                        let mut gated = [T::zero(); GATED];
                        for ((gated, &x), &g) in gated.iter_mut().zip(x).zip(g) {
                            // The same arithmetic as forward, hence the same sign.
                            *gated = if (x - mean_t) * scale + beta <= T::zero() { T::zero() } else { g };
                        }
                        let g = &gated[..x.len()];
                        sums[0] += lanes(g, g, |g, _| g.to_f64());
                        sums[1] += lanes(x, g, |x, g| (x.to_f64() - mean) * g.to_f64());
                    }
                    [sums[0], sums[1] * inv_std]
                } else {
                    [
                        lanes(g, g, |g, _| g.to_f64()),
                        lanes(x, g, |x, g| (x.to_f64() - mean) * g.to_f64()) * inv_std,
                    ]
                }
            })
            .collect();
        let sums = add_up(&sums, c);
        let len = if self.dx { x.len() } else { 0 };
        let mut all = vec![T::zero(); len + 2 * c];
        let (dx, rest) = all.split_at_mut(len);
        each_row(dx, c * plane, |i, dx| {
            let range = i * c * plane..(i + 1) * c * plane;
            let rows = x[range.clone()].chunks_exact(plane).zip(g[range].chunks_exact(plane));
            for ((dx, (x, g)), (channel, sums)) in
                dx.chunks_exact_mut(plane).zip(rows).zip(channels.iter().zip(&sums))
            {
                let (mean, scale, beta) = affine::<T>(channel);
                let (a, b, k) = slopes::<T>(channel, *sums, self.n * plane, self.train);
                if self.relu {
                    for ((dx, &x), &g) in dx.iter_mut().zip(x).zip(g) {
                        let centred = x - mean;
                        let g = if centred * scale + beta <= T::zero() { T::zero() } else { g };
                        *dx = a * g + b + k * centred;
                    }
                } else {
                    for ((dx, &x), &g) in dx.iter_mut().zip(x).zip(g) {
                        *dx = a * g + b + k * (x - mean);
                    }
                }
            }
        });
        for (i, [s, t]) in sums.into_iter().enumerate() {
            (rest[i], rest[c + i]) = (T::from_f64(t), T::from_f64(s));
        }
        let shape = Shape::from(all.len());
        Ok((all, shape))
    }
}
