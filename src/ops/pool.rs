//! Pooling with gradients that are right at ties, at odd sizes and where windows overlap.

use std::sync::{Arc, OnceLock};

use candle_core::{D, DType, Shape, Tensor};

use super::host::{Candle, Kernel, Real, apply1, check, compute1, images, missing};
use super::parallel::{each_row, rows_per_piece};
use crate::error::{Error, Result};

/// Windows of one pooling, shared by both kinds.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    pub h: usize,
    pub w: usize,
    pub size: usize,
    pub stride: usize,
    pub oh: usize,
    pub ow: usize,
}

impl Windows {
    pub fn new(what: &str, (h, w): (usize, usize), size: usize, stride: usize) -> Result<Windows> {
        if size == 0 || stride == 0 {
            let got = format!("{size} and {stride}");
            return Err(Error::config(format!("size and stride of {what}"), got, "at least 1 each"));
        }
        if h.checked_mul(w).is_none_or(|plane| plane >= u32::MAX as usize) {
            return Err(Error::shape(
                format!("x of {what}"),
                "fewer than 2^32 pixels per image",
                format!("{h} x {w}"),
            ));
        }
        if size > h || size > w {
            let expected = format!("images of at least {size} x {size}, the window");
            return Err(Error::shape(format!("x of {what}"), expected, format!("{h} x {w}")));
        }
        Ok(Windows { h, w, size, stride, oh: (h - size) / stride + 1, ow: (w - size) / stride + 1 })
    }

    pub fn input(&self) -> usize {
        self.h * self.w
    }

    pub fn output(&self) -> usize {
        self.oh * self.ow
    }

    /// First element of window `k`, counted along rows.
    pub fn corner(&self, k: usize) -> usize {
        (k / self.ow * self.w + k % self.ow) * self.stride
    }
}

/// The largest number of every window.
///
/// ```text
/// y[n,c,p,q] = max_{i,j < size} x[n, c, s p + i, s q + j]
/// ```
/// The gradient goes to one winner per window: the first of equals, along rows; of several NaN, the first.
/// Differs: candle's own gives a lone winner of a 2 x 2 window a quarter, and refuses overlapping windows. Shapes: `x` (n, c, h, w) →
/// (n, c, (h − size)/s + 1, (w − size)/s + 1); a rest at the border is left out. Cost: one pass each way.
/// Host: on the CPU. Fails: `Shape` if the window is larger than the image; `Config` for a size or stride of 0.
/// Checked by `tests/ops/pool.rs::max_pool_gradient_goes_to_the_first_of_equals`.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Tensor::arange(1f32, 17.0, &Device::Cpu)?.reshape((1, 1, 4, 4))?;
/// let y = ops::max_pool2d(&x, 2, 2)?;
/// assert_eq!(y.flatten_all()?.to_vec1::<f32>()?, [6.0, 8.0, 14.0, 16.0]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn max_pool2d(x: &Tensor, size: usize, stride: usize) -> Result<Tensor> {
    check(&[("x of max_pool2d", x)])?;
    let (_, _, h, w) = images("x of max_pool2d", x)?;
    let windows = Windows::new("max_pool2d", (h, w), size, stride)?;
    if x.device().is_cpu() {
        return Ok(apply1(MaxPool { windows, winners: Arc::default() }, x)?);
    }
    max_pool2d_by_tensors(x, size, stride)
}

/// [`max_pool2d`] for every device, as tensor operations.
///
/// The numbers of a window are laid side by side; the winner is the first that equals the maximum.
/// Checked by `tests/ops/pool.rs::pooling_by_tensors_agrees_with_the_kernels`.
pub fn max_pool2d_by_tensors(x: &Tensor, size: usize, stride: usize) -> Result<Tensor> {
    check(&[("x of max_pool2d", x)])?;
    let side_by_side = side_by_side("max_pool2d", x, size, stride)?;
    // Without its graph: the choice of a winner has no gradient.
    let values = side_by_side.detach();
    // Comparisons with NaN are false, so NaN is found by being unequal to itself, and ranks first.
    let nan = values.ne(&values)?;
    let any_nan = nan.to_dtype(DType::F32)?.max_keepdim(D::Minus1)?.gt(0f32)?;
    let lowest = (values.zeros_like()? + f64::NEG_INFINITY)?;
    let largest = nan.where_cond(&lowest, &values)?.max_keepdim(D::Minus1)?;
    let equal = values.broadcast_eq(&largest)?;
    let candidate = any_nan.broadcast_as(nan.shape())?.where_cond(&nan, &equal)?.to_dtype(DType::F32)?;
    // Earlier candidates get larger scores; one position alone has the largest.
    let k = size * size;
    let rank = Tensor::arange_step(k as f32, 0f32, -1f32, x.device())?;
    let score = candidate.broadcast_mul(&rank)?;
    let winner = score.broadcast_eq(&score.max_keepdim(D::Minus1)?)?;
    let zeros = side_by_side.zeros_like()?;
    Ok(winner.where_cond(&side_by_side, &zeros)?.sum(D::Minus1)?)
}

/// The mean of every window.
///
/// ```text
/// y[n,c,p,q] = 1/size² Σ_{i,j < size} x[n, c, s p + i, s q + j]
/// ```
/// Differs: candle's own has a wrong gradient where the window does not divide the image, and none where windows
/// overlap. Shapes and failures as [`max_pool2d`]. Cost: one pass each way. Host: on the CPU.
/// Checked by `tests/ops/pool.rs::avg_pool_gradient_matches_finite_differences`.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Tensor::arange(1f32, 17.0, &Device::Cpu)?.reshape((1, 1, 4, 4))?;
/// let y = ops::avg_pool2d(&x, 2, 2)?;
/// assert_eq!(y.flatten_all()?.to_vec1::<f32>()?, [3.5, 5.5, 11.5, 13.5]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn avg_pool2d(x: &Tensor, size: usize, stride: usize) -> Result<Tensor> {
    check(&[("x of avg_pool2d", x)])?;
    let (_, _, h, w) = images("x of avg_pool2d", x)?;
    let windows = Windows::new("avg_pool2d", (h, w), size, stride)?;
    if x.device().is_cpu() {
        return Ok(apply1(AvgPool(windows), x)?);
    }
    avg_pool2d_by_tensors(x, size, stride)
}

/// [`avg_pool2d`] for every device, as tensor operations.
///
/// Checked by `tests/ops/pool.rs::pooling_by_tensors_agrees_with_the_kernels`.
pub fn avg_pool2d_by_tensors(x: &Tensor, size: usize, stride: usize) -> Result<Tensor> {
    check(&[("x of avg_pool2d", x)])?;
    Ok(side_by_side("avg_pool2d", x, size, stride)?.mean(D::Minus1)?)
}

/// The mean of every channel of every image.
///
/// ```text
/// y[n,c] = 1/(h w) Σ_{p,q} x[n,c,p,q]
/// ```
/// Shapes: `x` (n, c, h, w) → (n, c). Cost: one pass each way; candle's own mean, which is right. Fails: `Shape` unless
/// `x` holds images; `Config` unless f32 or f64. Checked by `tests/ops/pool.rs::global_avg_pool_is_the_mean_of_each_plane`.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Tensor::arange(1f32, 9.0, &Device::Cpu)?.reshape((1, 2, 2, 2))?;
/// assert_eq!(ops::global_avg_pool(&x)?.to_vec2::<f32>()?, [[2.5, 6.5]]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn global_avg_pool(x: &Tensor) -> Result<Tensor> {
    check(&[("x of global_avg_pool", x)])?;
    images("x of global_avg_pool", x)?;
    Ok(x.mean((2, 3))?)
}

/// (n, c, h', w', size²): a copy of `x` per place in the window, by slices that are differentiable everywhere.
fn side_by_side(what: &str, x: &Tensor, size: usize, stride: usize) -> Result<Tensor> {
    let (_, _, h, w) = images(&format!("x of {what}"), x)?;
    let windows = Windows::new(what, (h, w), size, stride)?;
    // Every stride-th of `count` places from `from` on: cut into groups of `stride`, of which the first is kept.
    let every = |t: &Tensor, dim: usize, from: usize, count: usize| -> Result<Tensor> {
        let span = (count - 1) * stride + 1;
        let cut = t.narrow(dim, from, span)?.pad_with_zeros(dim, 0, count * stride - span)?;
        let mut dims = cut.dims().to_vec();
        dims[dim] = count;
        dims.insert(dim + 1, stride);
        Ok(cut.contiguous()?.reshape(dims)?.narrow(dim + 1, 0, 1)?.squeeze(dim + 1)?)
    };
    let mut places = Vec::with_capacity(size * size);
    for i in 0..size {
        let rows = every(x, 2, i, windows.oh)?;
        for j in 0..size {
            places.push(every(&rows, 3, j, windows.ow)?);
        }
    }
    Ok(Tensor::stack(&places, 4)?)
}

/// Offset of the winner of every window in its plane, kept for the backward pass.
type Winners = Arc<OnceLock<Vec<u32>>>;

/// The largest `value` of every window of one plane, and its place; `floor` says what to begin with, given the first
/// value and its place. Of equals the first wins, and the first NaN wins over all.
#[inline(always)]
pub(super) fn largest<T: Real>(
    v: &Windows,
    value: impl Fn(T) -> T,
    floor: impl Fn(T, u32) -> (T, u32),
    x: &[T],
    y: &mut [T],
    winners: &mut [u32],
) {
    // Selections instead of branches, which would be guessed wrong half of the time.
    let better = |(best, place): (T, u32), value: T, at: u32| {
        let wins = (value > best) | (value.is_nan() & !best.is_nan());
        (if wins { value } else { best }, if wins { at } else { place })
    };
    for (p, (y, winners)) in y.chunks_exact_mut(v.ow).zip(winners.chunks_exact_mut(v.ow)).enumerate() {
        let line = p * v.stride * v.w;
        if v.size == 2 && v.stride == 2 {
            let (top, bottom) = x[line..line + 2 * v.w].split_at(v.w);
            let pairs = top.as_chunks::<2>().0.iter().zip(bottom.as_chunks::<2>().0);
            for (q, ((top, bottom), (y, winner))) in pairs.zip(y.iter_mut().zip(winners)).enumerate() {
                let (at, below) = ((line + 2 * q) as u32, (line + 2 * q + v.w) as u32);
                let first = value(top[0]);
                let mut best = better(floor(first, at), first, at);
                best = better(best, value(top[1]), at + 1);
                best = better(best, value(bottom[0]), below);
                (*y, *winner) = better(best, value(bottom[1]), below + 1);
            }
        } else {
            for (q, (y, winner)) in y.iter_mut().zip(winners).enumerate() {
                let corner = line + q * v.stride;
                let mut best = floor(value(x[corner]), corner as u32);
                for start in (0..v.size).map(|i| corner + i * v.w) {
                    for (j, x) in x[start..start + v.size].iter().enumerate() {
                        best = better(best, value(*x), (start + j) as u32);
                    }
                }
                (*y, *winner) = best;
            }
        }
    }
}

struct MaxPool {
    windows: Windows,
    winners: Winners,
}

impl Kernel<1> for MaxPool {
    const NAME: &'static str = "max_pool2d";

    fn forward<T: Real>(&self, [x]: [&[T]; 1], [shape]: [&Shape; 1]) -> Candle<(Vec<T>, Shape)> {
        use rayon::prelude::*;
        let (n, c, _, _) = shape.dims4()?;
        let v = self.windows;
        let mut y = vec![T::zero(); n * c * v.output()];
        let mut winners = vec![0u32; y.len()];
        let rows = y.par_chunks_mut(v.output()).zip(winners.par_chunks_mut(v.output()));
        rows.zip(x.par_chunks(v.input())).with_min_len(rows_per_piece(v.input())).for_each(
            |((y, winners), x)| {
                largest(&v, |x| x, |first, place| (first, place), x, y, winners);
            },
        );
        // A second forward of one operation computes the same winners.
        let _ = self.winners.set(winners);
        Ok((y, Shape::from((n, c, v.oh, v.ow))))
    }

    fn backward(&self, [x]: [&Tensor; 1], _: &Tensor, grad: &Tensor) -> Candle<[Option<Tensor>; 1]> {
        let op =
            MaxPoolGrad { windows: self.windows, winners: self.winners.clone(), shape: x.shape().clone() };
        Ok([Some(compute1(op, grad)?)])
    }
}

struct MaxPoolGrad {
    windows: Windows,
    winners: Winners,
    shape: Shape,
}

impl Kernel<1> for MaxPoolGrad {
    const NAME: &'static str = "max_pool2d-backward";

    fn forward<T: Real>(&self, [g]: [&[T]; 1], _: [&Shape; 1]) -> Candle<(Vec<T>, Shape)> {
        let winners = self.winners.get().ok_or_else(|| missing("the forward pass of max_pool2d"))?;
        let len = self.windows.output();
        let mut dx = vec![T::zero(); self.shape.elem_count()];
        each_row(&mut dx, self.windows.input(), |plane, dx| {
            let range = plane * len..(plane + 1) * len;
            for (g, winner) in g[range.clone()].iter().zip(&winners[range]) {
                dx[*winner as usize] += *g;
            }
        });
        Ok((dx, self.shape.clone()))
    }
}

struct AvgPool(Windows);

impl Kernel<1> for AvgPool {
    const NAME: &'static str = "avg_pool2d";

    fn forward<T: Real>(&self, [x]: [&[T]; 1], [shape]: [&Shape; 1]) -> Candle<(Vec<T>, Shape)> {
        let (n, c, _, _) = shape.dims4()?;
        let v = self.0;
        let scale = T::from_f64(1.0 / (v.size * v.size) as f64);
        let mut y = vec![T::zero(); n * c * v.output()];
        each_row(&mut y, v.output(), |plane, y| {
            let x = &x[plane * v.input()..(plane + 1) * v.input()];
            for (k, y) in y.iter_mut().enumerate() {
                let mut sum = T::zero();
                for i in 0..v.size {
                    let start = v.corner(k) + i * v.w;
                    x[start..start + v.size].iter().for_each(|x| sum += *x);
                }
                *y = sum * scale;
            }
        });
        Ok((y, Shape::from((n, c, v.oh, v.ow))))
    }

    fn backward(&self, [x]: [&Tensor; 1], _: &Tensor, grad: &Tensor) -> Candle<[Option<Tensor>; 1]> {
        Ok([Some(compute1(AvgPoolGrad(self.0, x.shape().clone()), grad)?)])
    }
}

struct AvgPoolGrad(Windows, Shape);

impl Kernel<1> for AvgPoolGrad {
    const NAME: &'static str = "avg_pool2d-backward";

    fn forward<T: Real>(&self, [g]: [&[T]; 1], _: [&Shape; 1]) -> Candle<(Vec<T>, Shape)> {
        let v = self.0;
        let scale = T::from_f64(1.0 / (v.size * v.size) as f64);
        let mut dx = vec![T::zero(); self.1.elem_count()];
        each_row(&mut dx, v.input(), |plane, dx| {
            for (k, g) in g[plane * v.output()..(plane + 1) * v.output()].iter().enumerate() {
                for i in 0..v.size {
                    let start = v.corner(k) + i * v.w;
                    dx[start..start + v.size].iter_mut().for_each(|dx| *dx += *g * scale);
                }
            }
        });
        Ok((dx, self.1.clone()))
    }
}
