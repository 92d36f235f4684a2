//! Convolution, batch normalisation, ReLU and max pooling as one operation.

use std::sync::{Arc, OnceLock};

use candle_core::{CpuStorage, Shape, Tensor, WithDType};
use rayon::prelude::*;

use super::conv::{Geometry, conv2d};
use super::host::{Candle, Kernel, Real, apply3, check, compute3, missing, with_scratch};
use super::norm::{Channel, add_up, affine, batch_norm_relu, channels, moments, slopes};
use super::parallel::rows_per_piece;
use super::pool::{Windows, largest, max_pool2d};
use super::running::Running;
use crate::error::{Error, Result};

/// The block that small image networks repeat: convolve, normalise, cut at zero, keep the largest of each window.
///
/// ```text
/// y = max_pool(relu(batch_norm(conv2d(x, weight, 1, padding); gamma, beta, running)), pool)
/// ```
/// The numbers are those of the four operations, in a quarter of the passes over memory: the results between them never
/// become tensors, and the gradient of the normalised images is made one image at a time, in the cache, just before the
/// convolution uses it. Shapes: `x` (n, c, h, w), `weight` (o, c, kh, kw), `gamma`, `beta`, `running` (o), `pool` the
/// size and stride of the windows, 1 for none → (n, o, h'/pool, w'/pool). Cost: that of [`conv2d`] plus two passes over
/// its result each way. Host: on the CPU. Fails: as the four operations do.
/// Checked by `tests/ops/block.rs::conv_block_is_its_four_parts`, `conv_block_gradients_match_finite_differences`.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Seed::new(1).normal_tensor((2, 1, 4, 4), (0.0, 1.0), DType::F32, &Device::Cpu)?;
/// let weight = Seed::new(2).normal_tensor((3, 1, 3, 3), (0.0, 1.0), DType::F32, &Device::Cpu)?;
/// let (gamma, beta) = (Tensor::ones(3, DType::F32, &Device::Cpu)?, Tensor::zeros(3, DType::F32, &Device::Cpu)?);
/// let running = ops::Running::new(&gamma)?;
/// let y = ops::conv_block(&x, &weight, &gamma, &beta, &running, 1, 2, true)?;
/// assert_eq!(y.dims(), [2, 3, 2, 2]); // padded by 1, then pooled by 2
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[allow(clippy::too_many_arguments)] // the arguments of four operations
pub fn conv_block(
    x: &Tensor,
    weight: &Tensor,
    gamma: &Tensor,
    beta: &Tensor,
    running: &Running,
    padding: usize,
    pool: usize,
    train: bool,
) -> Result<Tensor> {
    check(&[("x of conv_block", x), ("weight of conv_block", weight)])?;
    let conv = Geometry::new(x, weight, 1, padding)?;
    running.check(x, conv.o, gamma, beta)?;
    let windows = Windows::new("conv_block", (conv.oh, conv.ow), pool, pool)?;
    let count = conv.n * conv.oh * conv.ow;
    if train && count < 2 {
        let expected = "at least two numbers per channel to train on; use train = false for one, or another batch size if this is the \
                        last batch of an epoch";
        return Err(Error::shape("x of conv_block", expected, format!("{:?}", x.dims())));
    }
    if !x.device().is_cpu() {
        let y = batch_norm_relu(&conv2d(x, weight, 1, padding)?, gamma, beta, running, train)?;
        return if pool == 1 { Ok(y) } else { max_pool2d(&y, pool, pool) };
    }
    let kept: Arc<OnceLock<Kept>> = Arc::default();
    let fixed = if train { None } else { Some(running.read()?) };
    let op = Block { conv, windows, eps: running.eps, fixed, kept: kept.clone() };
    let y = apply3(op, x, weight, &Tensor::cat(&[gamma, beta], 0)?)?;
    if train {
        let kept = kept.get().ok_or_else(|| missing("the forward pass of conv_block"))?;
        running.follow(&kept.channels, count)?;
    }
    Ok(y)
}

/// Marks a window in which nothing exceeded zero.
const NONE: u32 = u32::MAX;

/// What the backward pass needs of the forward pass.
struct Kept {
    /// Result of the convolution.
    convolved: CpuStorage,
    /// Offset of the winner of each window in its plane, or [`NONE`].
    winners: Vec<u32>,
    channels: Vec<Channel>,
}

struct Block {
    conv: Geometry,
    windows: Windows,
    eps: f64,
    /// Running statistics, when not training.
    fixed: Option<Vec<(f64, f64)>>,
    kept: Arc<OnceLock<Kept>>,
}

/// Normalises one plane, cuts it at zero and keeps the largest of every window, with its place.
fn pool_plane<T: Real>(v: &Windows, channel: &Channel, x: &[T], y: &mut [T], winners: &mut [u32]) {
    let (mean, scale, beta) = affine::<T>(channel);
    largest(v, |x| (x - mean) * scale + beta, |_, _| (T::zero(), NONE), x, y, winners);
}

impl Kernel<3> for Block {
    const NAME: &'static str = "conv_block";

    fn forward<T: Real>(&self, [x, weight, affine]: [&[T]; 3], _: [&Shape; 3]) -> Candle<(Vec<T>, Shape)> {
        let (g, v) = (&self.conv, &self.windows);
        let plane = v.input();
        let mut convolved = vec![T::zero(); g.n * g.result()];
        let mut sums = vec![[0.0; 2]; if self.fixed.is_some() { 0 } else { g.n * g.o }];
        let mut rows: Vec<&mut [[f64; 2]]> = sums.chunks_mut(g.o).collect();
        rows.resize_with(g.n, Default::default);
        let images = convolved.par_chunks_mut(g.result()).zip(x.par_chunks(g.image())).zip(rows);
        images.try_for_each(|((y, x), sums)| {
            with_scratch(g.scratch(), |scratch| g.forward(x, weight, y, scratch))?;
            // While the image is in the cache.
            for (sums, y) in sums.iter_mut().zip(y.chunks_exact(plane)) {
                *sums = moments(y);
            }
            Candle::Ok(())
        })?;
        let channels = channels(&sums, plane, self.fixed.as_deref(), affine.split_at(g.o), self.eps);
        let len = g.o * v.output();
        let mut y = vec![T::zero(); g.n * len];
        let mut winners = vec![0; g.n * len];
        let images =
            y.par_chunks_mut(len).zip(winners.par_chunks_mut(len)).zip(convolved.par_chunks(g.result()));
        images.for_each(|((y, winners), x)| {
            let planes = y.chunks_exact_mut(v.output()).zip(winners.chunks_exact_mut(v.output()));
            for (((y, winners), x), channel) in planes.zip(x.chunks_exact(plane)).zip(&channels) {
                pool_plane(v, channel, x, y, winners);
            }
        });
        let _ = self.kept.set(Kept { convolved: T::to_cpu_storage_owned(convolved), winners, channels });
        Ok((y, Shape::from((g.n, g.o, v.oh, v.ow))))
    }

    fn backward(
        &self,
        [x, weight, _]: [&Tensor; 3],
        _: &Tensor,
        grad: &Tensor,
    ) -> Candle<[Option<Tensor>; 3]> {
        let op = BlockGrad {
            conv: self.conv,
            windows: self.windows,
            train: self.fixed.is_none(),
            dx: x.track_op(),
            kept: self.kept.clone(),
        };
        let all = compute3(op, x, weight, grad)?;
        let (dw, c) = (self.conv.weight(), 2 * self.conv.o);
        let len = all.elem_count() - dw - c;
        let dx = if x.track_op() { Some(all.narrow(0, 0, len)?.reshape(x.shape())?) } else { None };
        let dw = all.narrow(0, len, dw)?.reshape(weight.shape())?;
        Ok([dx, Some(dw), Some(all.narrow(0, all.elem_count() - c, c)?)])
    }
}

/// dx, dweight, dγ and dβ, one after the other.
struct BlockGrad {
    conv: Geometry,
    windows: Windows,
    train: bool,
    dx: bool,
    kept: Arc<OnceLock<Kept>>,
}

impl Kernel<3> for BlockGrad {
    const NAME: &'static str = "conv_block-backward";

    fn forward<T: Real>(&self, [x, weight, grad]: [&[T]; 3], _: [&Shape; 3]) -> Candle<(Vec<T>, Shape)> {
        let (g, v) = (&self.conv, &self.windows);
        let kept = self.kept.get().ok_or_else(|| missing("the forward pass of conv_block"))?;
        let convolved = <T as WithDType>::cpu_storage_as_slice(&kept.convolved)?;
        let (plane, count) = (v.input(), g.n * v.input());
        // Only winners have a gradient before the normalisation, so its sums run over the pooled images.
        let planes = grad
            .par_chunks(v.output())
            .zip(kept.winners.par_chunks(v.output()))
            .zip(convolved.par_chunks(plane));
        let sums: Vec<[f64; 2]> = planes
            .enumerate()
            .with_min_len(rows_per_piece(v.output()))
            .map(|(i, ((grad, winners), x))| {
                let channel = &kept.channels[i % g.o];
                let (mut s, mut t) = (0.0, 0.0);
                for (grad, winner) in grad.iter().zip(winners) {
                    if *winner != NONE {
                        let grad = grad.to_f64();
                        s += grad;
                        t += grad * (x[*winner as usize].to_f64() - channel.mean);
                    }
                }
                [s, t * channel.inv_std]
            })
            .collect();
        let sums = add_up(&sums, g.o);
        let per_channel: Vec<(T, (T, T, T))> = kept
            .channels
            .iter()
            .zip(&sums)
            .map(|(channel, sums)| (T::from_f64(channel.mean), slopes(channel, *sums, count, self.train)))
            .collect();
        // Gradient of the convolution's result, for one image.
        let image_grad = |i: usize, dy: &mut [T]| {
            let range = i * g.o * v.output()..(i + 1) * g.o * v.output();
            let pooled = grad[range.clone()]
                .chunks_exact(v.output())
                .zip(kept.winners[range].chunks_exact(v.output()));
            let images = convolved[i * g.result()..].chunks_exact(plane).zip(dy.chunks_exact_mut(plane));
            for (((x, dy), (grad, winners)), (mean, (a, b, k))) in images.zip(pooled).zip(&per_channel) {
                for (dy, x) in dy.iter_mut().zip(x) {
                    *dy = *b + *k * (*x - *mean);
                }
                for (grad, winner) in grad.iter().zip(winners) {
                    if *winner != NONE {
                        dy[*winner as usize] += *a * *grad;
                    }
                }
            }
        };
        let len = if self.dx { x.len() } else { 0 };
        let mut all = vec![T::zero(); len + g.weight() + 2 * g.o];
        let (dx, rest) = all.split_at_mut(len);
        let (dw, rest) = rest.split_at_mut(g.weight());
        let sum = g.sum_grad_weight(dx, g.result() + g.scratch(), |i, dx, sum, scratch| {
            let (dy, scratch) = scratch.split_at_mut(g.result());
            image_grad(i, dy);
            g.add_grad_weight(&x[i * g.image()..(i + 1) * g.image()], dy, sum, scratch)?;
            if dx.is_empty() { Ok(()) } else { g.grad_x(weight, dy, dx, scratch) }
        })?;
        dw.copy_from_slice(&sum);
        for (i, [s, t]) in sums.into_iter().enumerate() {
            (rest[i], rest[g.o + i]) = (T::from_f64(t), T::from_f64(s));
        }
        let shape = Shape::from(all.len());
        Ok((all, shape))
    }
}
