//! Two-dimensional convolution: columns of one image at a time, small enough for the cache, and matrix products.

use candle_core::{Shape, Tensor};
use rayon::prelude::*;

use super::host::{Candle, Kernel, Real, apply2, check, compute2, images, with_scratch};
use super::known::known_of_two;
use super::parallel::{Mat, product};
use crate::error::{Error, Result};

/// Columns of one tile, in elements: 384 KB of f32, so that columns and results share the second-level cache.
const TILE: usize = 96 * 1024;

/// Elements from which on it is asked whether they fit into memory: 1 GB of f64.
const HUGE: usize = 1 << 27;

/// Into how many groups the images are cut when gradients of the weight are summed; fixed, so that the order of the
/// sum does not depend on the number of threads.
pub(super) const GROUPS: usize = 8;

/// Convolution of a batch of images with a bank of kernels (as everywhere in this trade, without turning them over).
///
/// ```text
/// y[n,o,p,q] = Σ_c Σ_i Σ_j x̄[n, c, s p + i, s q + j] weight[o,c,i,j]        x̄ = x with `padding` zeros all round
/// ```
/// Shapes: `x` (n, c, h, w), `weight` (o, c, kh, kw) → (n, o, (h + 2 padding − kh)/s + 1, (w + 2 padding − kw)/s + 1).
/// Cost: 2 n o c kh kw h' w' operations, three times that with both gradients; the images share the threads, one per
/// thread. Kernels of one pixel need no columns. Host: on the CPU. Fails: `Shape` if ranks or channels disagree, if the
/// kernel is larger than the padded image, or the result than memory; `Config` if the stride is 0 or the type not f32 or f64.
/// Checked by `tests/ops/conv.rs::conv2d_is_seven_loops`, `conv2d_gradients_match_finite_differences`.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Tensor::ones((1, 1, 3, 3), DType::F32, &Device::Cpu)?;
/// let weight = Tensor::ones((1, 1, 2, 2), DType::F32, &Device::Cpu)?;
/// let y = ops::conv2d(&x, &weight, 1, 0)?;
/// assert_eq!(y.flatten_all()?.to_vec1::<f32>()?, [4.0; 4]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn conv2d(x: &Tensor, weight: &Tensor, stride: usize, padding: usize) -> Result<Tensor> {
    check(&[("x of conv2d", x), ("weight of conv2d", weight)])?;
    let geometry = Geometry::new(x, weight, stride, padding)?;
    if x.device().is_cpu() {
        return Ok(apply2(Conv(geometry), x, weight)?);
    }
    conv2d_by_tensors(x, weight, stride, padding)
}

/// [`conv2d`] for every device: candle's own convolutions.
///
/// The gradients are asked for one by one: candle's own computes both, also that of data. Pixels that no window reads, where
/// a stride leaves a rest, have the gradient zero.
/// Checked by `tests/ops/conv.rs::conv2d_and_its_gradients_are_candles`.
pub fn conv2d_by_tensors(x: &Tensor, weight: &Tensor, stride: usize, padding: usize) -> Result<Tensor> {
    check(&[("x of conv2d", x), ("weight of conv2d", weight)])?;
    let g = Geometry::new(x, weight, stride, padding)?;
    let (x_alone, w_alone) = (x.detach().contiguous()?, weight.detach().contiguous()?);
    let value = x_alone.conv2d(&w_alone, padding, stride, 1, 1)?;
    let asked = [x.track_op(), weight.track_op()];
    known_of_two(x, weight, value, move |dy| {
        let dy = dy.contiguous()?;
        let dx = asked[0].then(|| g.grad_x_by_tensors(&w_alone, &dy)).transpose()?;
        let dw = asked[1].then(|| g.grad_weight_by_tensors(&x_alone, &dy)).transpose()?;
        Ok([dx, dw])
    })
}

/// All sizes of one convolution.
#[derive(Clone, Copy)]
pub(super) struct Geometry {
    pub n: usize,
    pub c: usize,
    pub h: usize,
    pub w: usize,
    pub o: usize,
    pub kh: usize,
    pub kw: usize,
    pub stride: usize,
    pub padding: usize,
    pub oh: usize,
    pub ow: usize,
}

impl Geometry {
    pub fn new(x: &Tensor, weight: &Tensor, stride: usize, padding: usize) -> Result<Geometry> {
        let (n, c, h, w) = images("x of conv2d", x)?;
        let (o, wc, kh, kw) = weight.dims4().map_err(|_| {
            Error::shape("weight of conv2d", "[out, in, height, width]", format!("{:?}", weight.dims()))
        })?;
        if wc != c {
            let expected = format!("[{o}, {c}, {kh}, {kw}] for images {:?}", x.dims());
            return Err(Error::shape("weight of conv2d", expected, format!("{:?}", weight.dims())));
        }
        if stride == 0 {
            return Err(Error::config("stride of conv2d", stride, "at least 1"));
        }
        let padded = |size: usize| padding.checked_mul(2).and_then(|p| p.checked_add(size));
        let too_large = || {
            let expected = "images and padding that fit into memory";
            Error::shape("x of conv2d with padding", expected, format!("{:?} and {padding}", x.dims()))
        };
        let (hp, wp) = padded(h).zip(padded(w)).ok_or_else(too_large)?;
        if kh > hp || kw > wp {
            let expected = format!("kernels of at most {hp} x {wp}, the padded image of {:?}", x.dims());
            return Err(Error::shape("weight of conv2d", expected, format!("{:?}", weight.dims())));
        }
        let (oh, ow) = ((hp - kh) / stride + 1, (wp - kw) / stride + 1);
        // The result and one padded image must be possible; asking for huge ones is cheap, since no page is touched.
        for sizes in [[n, o, oh, ow], [1, c, hp, wp]] {
            let len =
                sizes.iter().try_fold(1usize, |len, size| len.checked_mul(*size)).ok_or_else(too_large)?;
            if len > HUGE {
                Vec::<f64>::new().try_reserve_exact(len).map_err(|_| too_large())?;
            }
        }
        Ok(Geometry { n, c, h, w, o, kh, kw, stride, padding, oh, ow })
    }

    /// dx: each gradient goes back through the window that it came from. Pixels beyond the last window get none.
    fn grad_x_by_tensors(&self, weight: &Tensor, dy: &Tensor) -> Result<Tensor> {
        let whole = dy.conv_transpose2d(weight, 0, 0, self.stride, 1)?;
        let (hp, wp) = self.padded_size();
        let (reached_h, reached_w) = (whole.dim(2)?, whole.dim(3)?);
        let padded = whole.pad_with_zeros(2, 0, hp - reached_h)?.pad_with_zeros(3, 0, wp - reached_w)?;
        Ok(padded.narrow(2, self.padding, self.h)?.narrow(3, self.padding, self.w)?.contiguous()?)
    }

    /// dweight: images and gradients change places with their channels, and the stride becomes a dilation.
    fn grad_weight_by_tensors(&self, x: &Tensor, dy: &Tensor) -> Result<Tensor> {
        let (x, dy) = (x.transpose(0, 1)?.contiguous()?, dy.transpose(0, 1)?.contiguous()?);
        let dw = x.conv2d(&dy, self.padding, 1, self.stride, 1)?.transpose(0, 1)?;
        // A rest that no window reads adds rows that belong to no weight.
        Ok(dw.narrow(2, 0, self.kh)?.narrow(3, 0, self.kw)?.contiguous()?)
    }

    /// Elements of an image, of a result, of the weight.
    pub fn image(&self) -> usize {
        self.c * self.h * self.w
    }

    pub fn result(&self) -> usize {
        self.o * self.oh * self.ow
    }

    pub fn weight(&self) -> usize {
        self.o * self.depth()
    }

    /// Rows of the columns: one per weight of a kernel.
    fn depth(&self) -> usize {
        self.c * self.kh * self.kw
    }

    /// A kernel of one pixel at every pixel: the image is its own columns.
    fn pointwise(&self) -> bool {
        self.kh == 1 && self.kw == 1 && self.stride == 1 && self.padding == 0
    }

    /// Rows of the result per tile.
    fn tile_rows(&self) -> usize {
        (TILE / (self.depth() * self.ow)).clamp(1, self.oh)
    }

    fn padded_size(&self) -> (usize, usize) {
        (self.h + 2 * self.padding, self.w + 2 * self.padding)
    }

    /// Elements of the padded image, if a copy is needed.
    fn padded_len(&self) -> usize {
        let (hp, wp) = self.padded_size();
        if self.padding == 0 { 0 } else { self.c * hp * wp }
    }

    /// Scratch elements that the functions on one image need.
    pub fn scratch(&self) -> usize {
        if self.pointwise() { 0 } else { self.padded_len() + self.depth() * self.tile_rows() * self.ow }
    }

    /// The tiles: first row of the result, and how many.
    fn tiles(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (rows, oh) = (self.tile_rows(), self.oh);
        (0..oh).step_by(rows).map(move |first| (first, rows.min(oh - first)))
    }

    /// Some columns of the result of one image, as a matrix with a row per channel.
    fn tile_of_result(&self, rows: usize) -> Mat {
        Mat { rows: self.o, cols: rows * self.ow, row_step: self.oh * self.ow, col_step: 1 }
    }

    /// y = weight · columns(x), for one image.
    pub fn forward<T: Real>(&self, x: &[T], weight: &[T], y: &mut [T], scratch: &mut [T]) -> Candle<()> {
        let left = (weight, Mat::new(self.o, self.depth()));
        if self.pointwise() {
            let plane = self.h * self.w;
            return product((y, Mat::new(self.o, plane)), left, (x, Mat::new(self.c, plane)), false);
        }
        let (padded, columns) = scratch.split_at_mut(self.padded_len());
        let source = self.pad(x, padded);
        for (first, rows) in self.tiles() {
            self.columns(source, columns, first, rows);
            let right = (&*columns, Mat::new(self.depth(), rows * self.ow));
            product((&mut y[first * self.ow..], self.tile_of_result(rows)), left, right, false)?;
        }
        Ok(())
    }

    /// dx = the sum over columns of weightᵀ · dy, each added where it was taken from; `dx` holds zeros before.
    pub fn grad_x<T: Real>(&self, weight: &[T], dy: &[T], dx: &mut [T], scratch: &mut [T]) -> Candle<()> {
        let left = (weight, Mat::new(self.o, self.depth()).transposed());
        if self.pointwise() {
            let plane = self.h * self.w;
            return product((dx, Mat::new(self.c, plane)), left, (dy, Mat::new(self.o, plane)), false);
        }
        let (padded, columns) = scratch.split_at_mut(self.padded_len());
        padded.fill(T::zero());
        let target: &mut [T] = if self.padding == 0 { &mut *dx } else { &mut *padded };
        for (first, rows) in self.tiles() {
            let right = (&dy[first * self.ow..], self.tile_of_result(rows));
            product((columns, Mat::new(self.depth(), rows * self.ow)), left, right, false)?;
            self.add_columns(columns, target, first, rows);
        }
        if self.padding > 0 {
            let (hp, wp) = self.padded_size();
            for (line, to) in dx.chunks_exact_mut(self.w).enumerate() {
                let from = (line / self.h * hp + line % self.h + self.padding) * wp + self.padding;
                to.copy_from_slice(&padded[from..from + self.w]);
            }
        }
        Ok(())
    }

    /// sum += columns(x) · dyᵀ, for one image: the gradient of the weight, transposed.
    pub fn add_grad_weight<T: Real>(
        &self,
        x: &[T],
        dy: &[T],
        sum: &mut [T],
        scratch: &mut [T],
    ) -> Candle<()> {
        let target = Mat::new(self.depth(), self.o);
        if self.pointwise() {
            let plane = self.h * self.w;
            let right = (dy, Mat::new(self.o, plane).transposed());
            return product((sum, target), (x, Mat::new(self.c, plane)), right, true);
        }
        let (padded, columns) = scratch.split_at_mut(self.padded_len());
        let source = self.pad(x, padded);
        for (first, rows) in self.tiles() {
            self.columns(source, columns, first, rows);
            let left = (&*columns, Mat::new(self.depth(), rows * self.ow));
            let right = (&dy[first * self.ow..], self.tile_of_result(rows).transposed());
            product((&mut *sum, target), left, right, true)?;
        }
        Ok(())
    }

    /// The image with zeros round it, so that no later loop asks where the border is.
    fn pad<'a, T: Real>(&self, x: &'a [T], padded: &'a mut [T]) -> &'a [T] {
        if self.padding == 0 {
            return x;
        }
        let (hp, wp) = self.padded_size();
        padded.fill(T::zero());
        for (line, from) in x.chunks_exact(self.w).enumerate() {
            let to = (line / self.h * hp + line % self.h + self.padding) * wp + self.padding;
            padded[to..to + self.w].copy_from_slice(from);
        }
        padded
    }

    /// Where the row of columns of each weight begins in the padded image, and which part of it one tile reads.
    fn windows(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        let ((hp, wp), (kh, kw)) = (self.padded_size(), (self.kh, self.kw));
        let top = first * self.stride;
        (0..self.c * kh * kw).map(move |k| (k / (kh * kw) * hp + top + k / kw % kh) * wp + k % kw)
    }

    /// columns[(c, i, j), (p, q)] = padded[c, s p + i, s q + j], for some rows p.
    fn columns<T: Real>(&self, padded: &[T], columns: &mut [T], first: usize, rows: usize) {
        let step = self.stride * (self.w + 2 * self.padding);
        for (start, row) in self.windows(first).zip(columns.chunks_exact_mut(rows * self.ow)) {
            for (p, to) in row.chunks_exact_mut(self.ow).enumerate() {
                let from = &padded[start + p * step..];
                if self.stride == 1 {
                    copy(&from[..self.ow], to);
                } else {
                    for (to, from) in to.iter_mut().zip(from.iter().step_by(self.stride)) {
                        *to = *from;
                    }
                }
            }
        }
    }

    /// padded[c, s p + i, s q + j] += columns[(c, i, j), (p, q)], for some rows p.
    fn add_columns<T: Real>(&self, columns: &[T], padded: &mut [T], first: usize, rows: usize) {
        let step = self.stride * (self.w + 2 * self.padding);
        for (start, row) in self.windows(first).zip(columns.chunks_exact(rows * self.ow)) {
            for (p, from) in row.chunks_exact(self.ow).enumerate() {
                let to = &mut padded[start + p * step..];
                if self.stride == 1 {
                    for (to, from) in to.iter_mut().zip(from) {
                        *to += *from;
                    }
                } else {
                    for (to, from) in to.iter_mut().step_by(self.stride).zip(from) {
                        *to += *from;
                    }
                }
            }
        }
    }

    /// The sum over images of the gradient of the weight, where `f` adds that of one image to a transposed sum; `f` also
    /// gets the place of the image in `dx`, which may be empty.
    pub fn sum_grad_weight<T: Real>(
        &self,
        dx: &mut [T],
        scratch: usize,
        f: impl Fn(usize, &mut [T], &mut [T], &mut [T]) -> Candle<()> + Sync,
    ) -> Candle<Vec<T>> {
        let group = self.n.div_ceil(GROUPS);
        let mut places: Vec<&mut [T]> = dx.chunks_mut(group * self.image()).collect();
        places.resize_with(self.n.div_ceil(group), Default::default);
        let sums = places
            .into_par_iter()
            .enumerate()
            .map(|(k, dx)| {
                let mut sum = vec![T::zero(); self.weight()];
                let mut images = dx.chunks_mut(self.image());
                with_scratch(scratch, |scratch| {
                    (k * group..self.n.min((k + 1) * group))
                        .try_for_each(|i| f(i, images.next().unwrap_or_default(), &mut sum, scratch))
                })?;
                Ok(sum)
            })
            .collect::<Candle<Vec<Vec<T>>>>()?;
        let mut sums = sums.into_iter();
        let mut total = sums.next().unwrap_or_default();
        for sum in sums {
            for (total, sum) in total.iter_mut().zip(sum) {
                *total += sum;
            }
        }
        let depth = self.depth();
        Ok((0..self.weight()).map(|i| total[i % depth * self.o + i / depth]).collect())
    }
}

/// Copies eight at a time: the rows are so short that a call to copy memory would take longer than the copy.
#[inline(always)]
fn copy<T: Real>(from: &[T], to: &mut [T]) {
    let (from8, from_rest) = from.as_chunks::<8>();
    let (to8, to_rest) = to.as_chunks_mut::<8>();
    for (to, from) in to8.iter_mut().zip(from8) {
        *to = *from;
    }
    for (to, from) in to_rest.iter_mut().zip(from_rest) {
        *to = *from;
    }
}

struct Conv(Geometry);

impl Kernel<2> for Conv {
    const NAME: &'static str = "conv2d";

    fn forward<T: Real>(&self, [x, weight]: [&[T]; 2], _: [&Shape; 2]) -> Candle<(Vec<T>, Shape)> {
        let g = &self.0;
        let mut y = vec![T::zero(); g.n * g.result()];
        let pairs = y.par_chunks_mut(g.result()).zip(x.par_chunks(g.image()));
        pairs.try_for_each(|(y, x)| with_scratch(g.scratch(), |scratch| g.forward(x, weight, y, scratch)))?;
        Ok((y, Shape::from((g.n, g.o, g.oh, g.ow))))
    }

    fn backward(&self, [x, weight]: [&Tensor; 2], _: &Tensor, grad: &Tensor) -> Candle<[Option<Tensor>; 2]> {
        let g = self.0;
        let dx = x.track_op().then(|| compute2(ConvGradX(g), weight, grad)).transpose()?;
        let dw = weight.track_op().then(|| compute2(ConvGradWeight(g), x, grad)).transpose()?;
        Ok([dx, dw])
    }
}

struct ConvGradX(Geometry);

impl Kernel<2> for ConvGradX {
    const NAME: &'static str = "conv2d-backward-x";

    fn forward<T: Real>(&self, [weight, dy]: [&[T]; 2], _: [&Shape; 2]) -> Candle<(Vec<T>, Shape)> {
        let g = &self.0;
        let mut dx = vec![T::zero(); g.n * g.image()];
        let pairs = dx.par_chunks_mut(g.image()).zip(dy.par_chunks(g.result()));
        pairs.try_for_each(|(dx, dy)| {
            with_scratch(g.scratch(), |scratch| g.grad_x(weight, dy, dx, scratch))
        })?;
        Ok((dx, Shape::from((g.n, g.c, g.h, g.w))))
    }
}

struct ConvGradWeight(Geometry);

impl Kernel<2> for ConvGradWeight {
    const NAME: &'static str = "conv2d-backward-weight";

    fn forward<T: Real>(&self, [x, dy]: [&[T]; 2], _: [&Shape; 2]) -> Candle<(Vec<T>, Shape)> {
        let g = &self.0;
        let dw = g.sum_grad_weight(&mut [], g.scratch(), |i, _, sum, scratch| {
            let x = &x[i * g.image()..(i + 1) * g.image()];
            g.add_grad_weight(x, &dy[i * g.result()..(i + 1) * g.result()], sum, scratch)
        })?;
        Ok((dw, Shape::from((g.o, g.c, g.kh, g.kw))))
    }
}
