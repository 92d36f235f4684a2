//! Real numbers as small whole numbers, with gradients that pass straight through the rounding.

use candle_core::{DType, Tensor, Var};
use serde::{Deserialize, Serialize};

use super::host::check;
use super::running::alone;
use crate::error::{Error, Result};
use crate::numbers::all_finite;

/// Where the range that a quantiser divides comes from.
///
/// Book: `intersection/quantisers.md#eq-int-quant-batch`, `#eq-int-quant-running`, `#eq-int-quant-outlier`.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Tensor::new(&[[1f64], [2.0], [3.0]], &Device::Cpu)?;
/// let codes = |range| {
///     let quantiser = Quantiser { bits: 2, range, ..Quantiser::default() };
///     quantiser.forward(&x, None, true)?.flatten_all()?.to_vec1::<f64>().map_err(Error::from)
/// };
/// assert_eq!(codes(Range::Batch)?, [1.0, 2.0, 3.0]); // 0 to 3
/// assert_eq!(codes(Range::Printed)?, [2.0, 3.0, 3.0]); // 1 to 3: two numbers become one
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Range {
    /// Smallest and largest number of the batch, as the paper prints it. Where zero lies outside, codes saturate; and what
    /// code a number gets depends on the batch, also in evaluation.
    Printed,
    /// Smallest and largest number of the batch, extended so that zero lies within.
    Batch,
    /// A running mean of the ends of batches, extended so that it contains zero; as it is in evaluation.
    #[default]
    Running,
    /// A running mean of the ends of batches, of every feature by itself, extended so that it contains zero.
    RunningEach,
}

/// What a gradient knows of the range.
///
/// Book: `intersection/quantisers.md#eq-int-quant-full`, `#eq-int-quant-invariant`.
///
/// ```
/// use lastlayer::prelude::*;
/// let full = |range| Quantiser { range, gradient: RangeGradient::Full, ..Quantiser::default() };
/// assert!(full(Range::Batch).check().is_ok());
/// assert!(full(Range::Running).check().is_err()); // its ends come from earlier batches
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RangeGradient {
    /// Nothing: the range is a constant.
    #[default]
    Detached,
    /// That its ends are numbers of the batch.
    Full,
}

/// Settings of a uniform quantiser: codes from 0 to 2^bits − 1.
///
/// Checked by `tests/ops/quantise.rs`.
/// Book: `intersection/quantisers.md#eq-int-quant-outside`, `#eq-int-quant-candle`.
///
/// ```
/// use lastlayer::prelude::*;
/// let quantiser = Quantiser { bits: 2, range: Range::Batch, ..Quantiser::default() };
/// assert_eq!(quantiser.levels(), 4);
/// let x = Var::new(&[[0f64], [0.9], [3.0]], &Device::Cpu)?;
/// let codes = quantiser.forward(&x, None, true)?;
/// assert_eq!(codes.flatten_all()?.to_vec1::<f64>()?, [0.0, 1.0, 3.0]);
/// // The gradient passes straight through the rounding, but not at the ends.
/// let gradients = codes.sum_all()?.backward()?;
/// assert_eq!(gradients.get(&x).unwrap().flatten_all()?.to_vec1::<f64>()?, [0.0, 1.0, 0.0]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiser {
    /// Bits of a code, 1 to 8.
    pub bits: u32,
    /// Where the range comes from.
    pub range: Range,
    /// What a gradient knows of it.
    pub gradient: RangeGradient,
}

impl Default for Quantiser {
    /// Four bits over a running range that is taken as constant.
    fn default() -> Quantiser {
        Quantiser { bits: 4, range: Range::Running, gradient: RangeGradient::Detached }
    }
}

/// Smallest step: a batch of equal numbers has no other.
const SMALLEST: f64 = 1e-6;
/// Positions this close to the top code, relative to it, are at it but for rounding in f32.
const END: f64 = 1e-6;
/// What a running range keeps of itself in each batch.
const KEPT: f64 = 0.9;

/// The grid of a range: code = zero point + x / step, rounded and held between 0 and the top code.
///
/// ```text
/// step = (high − low)/Q      zero = round(min(max(−low/step, 0), Q))      v = round(min(max(zero + x/step, 0), Q))
/// ```
/// Halves are rounded away from zero. If zero is in the range, |x − (v − zero) step| ≤ step/2.
/// Book: `intersection/quantisers.md#eq-int-quant-grid`, `#eq-int-quant-bound`.
///
/// ```
/// use lastlayer::prelude::*;
/// let [low, high] = [-1f64, 2.0].map(|end| Tensor::full(end, (1, 1), &Device::Cpu).expect("one number"));
/// let grid = Grid::new(&low, &high, 2)?; // codes 0 to 3, steps of 1, zero is code 1
/// let codes = grid.codes(&Tensor::new(&[[-1f64, 0.0, 0.4, 9.0]], &Device::Cpu)?)?;
/// assert_eq!(codes.to_vec2::<f64>()?, [[0.0, 1.0, 1.0, 3.0]]);
/// assert_eq!(grid.dequantise(&codes)?.to_vec2::<f64>()?, [[-1.0, 0.0, 0.0, 2.0]]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Grid {
    /// Length that one code stands for: (1, 1), or (1, d) for a range of each feature.
    pub step: Tensor,
    /// Code of zero, in the same shape.
    pub zero: Tensor,
    top: f64,
}

impl Grid {
    /// The grid of a range in `2^bits` codes. Shapes: `low` and `high` (1, 1) or (1, d). Fails: `Config` unless there are 1
    /// to 8 bits.
    pub fn new(low: &Tensor, high: &Tensor, bits: u32) -> Result<Grid> {
        check_bits(bits)?;
        let top = f64::from((1u32 << bits) - 1);
        let (low, high) = (low.detach(), high.detach());
        let step = ((high - &low)? / top)?.maximum(SMALLEST)?;
        let zero = low.neg()?.div(&step)?.clamp(0.0, top)?.round()?;
        Ok(Grid { step, zero, top })
    }

    /// Where numbers lie on the grid, before rounding: the paper's q̃.
    pub fn position(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.broadcast_div(&self.step)?.broadcast_add(&self.zero)?)
    }

    /// Codes of numbers, without a gradient.
    pub fn codes(&self, x: &Tensor) -> Result<Tensor> {
        let position = self.position(&x.detach())?;
        let held = position.clamp(0.0, self.top)?.round()?;
        if x.device().is_cpu() || x.elem_count() == 0 {
            return Ok(held);
        }
        // There the larger of NaN and a number is the number.
        Ok(position.ne(&position)?.where_cond(&position, &held)?)
    }

    /// The numbers that codes stand for.
    pub fn dequantise(&self, codes: &Tensor) -> Result<Tensor> {
        Ok(codes.broadcast_sub(&self.zero)?.broadcast_mul(&self.step)?)
    }

    /// One over the step where numbers lie strictly inside the grid, and zero at and beyond its ends.
    fn slope(&self, x: &Tensor) -> Result<Tensor> {
        // Not candle's clamp, whose gradient at an end is one half. The largest number of a batch lies at the end, and its
        // position there is a quotient that rounding may leave just inside.
        let q = self.position(&x.detach())?;
        if x.elem_count() == 0 {
            return Ok(q); // a device compares none
        }
        let inside = q.gt(0.0)?.mul(&q.lt(self.top * (1.0 - END))?)?.to_dtype(x.dtype())?;
        Ok(inside.broadcast_div(&self.step)?)
    }

    /// Codes whose gradient passes straight through the rounding and takes the range as constant.
    ///
    /// ```text
    /// ∂L/∂x_i = g_i 1[0 < q̃_i < Q] / step
    /// ```
    /// Book: `intersection/quantisers.md#eq-int-quant-through`, `#eq-int-quant-dither`.
    pub fn quantise(&self, x: &Tensor) -> Result<Tensor> {
        let moved = (x - x.detach())?.mul(&self.slope(x)?)?;
        // The difference is exactly zero, so the value is exactly the code.
        Ok((self.codes(x)? + moved)?)
    }

    /// Shows step and zero point.
    pub fn evcxr_display(&self) {
        let text = format!("step {}\nzero point {}\ntop code {}", self.step, self.zero, self.top);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

fn check_bits(bits: u32) -> Result<()> {
    match bits {
        1..=8 => Ok(()),
        _ => Err(Error::config("bits of a quantiser", bits, "1 to 8")),
    }
}

impl Quantiser {
    /// Number of codes.
    pub fn levels(&self) -> usize {
        1 << self.bits.min(8)
    }

    /// Fails: `Config` unless there are 1 to 8 bits, and for a full gradient of a running range.
    pub fn check(&self) -> Result<()> {
        check_bits(self.bits)?;
        let of_batch = matches!(self.range, Range::Printed | Range::Batch);
        if self.gradient == RangeGradient::Full && !of_batch {
            let allowed =
                "Range::Printed or Range::Batch: the ends of a running range are no numbers of the batch";
            return Err(Error::config("range of a full gradient", format!("{:?}", self.range), allowed));
        }
        Ok(())
    }

    /// Codes of a batch.
    ///
    /// Shapes: `x` (n, d), f32 or f64 → the same. `running` are the low and the high end of the range so far, (1) or (d) as
    /// [`ends`](Quantiser::ends) says, both zero before the first batch; `train` lets them follow. A range of the batch does
    /// not read them. Host: whether all is finite, and the ends for a full gradient. Fails: `Data` for a number that is not
    /// finite, `Shape`, `Config`. Checked by `tests/ops/quantise.rs`.
    pub fn forward(&self, x: &Tensor, running: Option<[&Var; 2]>, train: bool) -> Result<Tensor> {
        self.check()?;
        check(&[("x of quantise", x)])?;
        if x.rank() != 2 {
            return Err(Error::shape("features to quantise", "[n, d]", format!("{:?}", x.dims())));
        }
        if !all_finite(x)? {
            let why = "a number is not finite; lower the learning rate, or look at the batch before it";
            return Err(Error::data("features to quantise", why));
        }
        let [low, high] = self.batch_ends(x)?;
        match (running, self.ends(x.dim(1)?)) {
            (Some(kept), Some(_)) => {
                let shape = low.dims().to_vec();
                let [low, high] = alone(x.device(), || self.followed(kept, [low, high], train))?;
                Grid::new(&low.reshape(&shape[..])?, &high.reshape(&shape[..])?, self.bits)?.quantise(x)
            }
            _ => {
                let grid = Grid::new(&low, &high, self.bits)?;
                match self.gradient {
                    RangeGradient::Detached => grid.quantise(x),
                    RangeGradient::Full => self.quantise_fully(x, &grid, [low, high]),
                }
            }
        }
    }

    /// The running ends after a batch; training keeps them.
    fn followed(&self, kept: [&Var; 2], batch: [Tensor; 2], train: bool) -> Result<[Tensor; 2]> {
        let before = kept.map(Var::as_detached_tensor);
        // Both ends are zero until a batch was seen.
        let seen = (&before[1] - &before[0])?.gt(0.0)?;
        let end = |i: usize| -> Result<Tensor> {
            let batch = batch[i].reshape(seen.shape())?;
            let next =
                if train { ((&before[i] * KEPT)? + (&batch * (1.0 - KEPT))?)? } else { before[i].clone() };
            Ok(seen.where_cond(&next, &batch)?)
        };
        let ends = [end(0)?, end(1)?];
        if train {
            kept.iter().zip(&ends).try_for_each(|(kept, end)| kept.set(end))?;
        }
        Ok(ends)
    }

    /// How many numbers a running range keeps of each end, for `d` features; a range of the batch keeps none.
    pub fn ends(&self, d: usize) -> Option<usize> {
        match self.range {
            Range::Printed | Range::Batch => None,
            Range::Running => Some(1),
            Range::RunningEach => Some(d),
        }
    }

    /// Smallest and largest number of a batch, (1, 1) or (1, d); but for the printed range they enclose zero.
    fn batch_ends(&self, x: &Tensor) -> Result<[Tensor; 2]> {
        let x = x.detach();
        let columns = match self.range {
            Range::RunningEach => x,
            _ => x.flatten_all()?.unsqueeze(1)?,
        };
        let (low, high) = (columns.min_keepdim(0)?, columns.max_keepdim(0)?);
        match self.range {
            Range::Printed => Ok([low, high]),
            _ => Ok([low.minimum(0.0)?, high.maximum(0.0)?]),
        }
    }

    /// Codes whose gradient also moves the ends of the range.
    ///
    /// ```text
    /// zero point inside (0, Q):  ∂q̃_i = (∂x_i − (1 − u_i) ∂x_low − u_i ∂x_high)/step      u_i = (x_i − low)/(high − low)
    /// held at 0 or Q:            ∂q̃_i = (∂x_i + w_i ∂x_low − w_i ∂x_high)/step            w_i = x_i/(high − low)
    /// ```
    /// An end that was moved to zero is no number of the batch and takes no gradient. Of several smallest numbers one is
    /// the end. Host: both ends.
    fn quantise_fully(&self, x: &Tensor, grid: &Grid, ends: [Tensor; 2]) -> Result<Tensor> {
        let ends = [ends[0].flatten_all()?, ends[1].flatten_all()?];
        let numbers = Tensor::cat(&ends, 0)?.to_dtype(DType::F64)?.to_vec1::<f64>()?;
        let (low, high) = (numbers[0], numbers[1]);
        if !((high - low) as f32).is_finite() {
            let why = format!("they range from {low} to {high}, too far for their type; scale them down");
            return Err(Error::data("features to quantise", why));
        }
        let slope = grid.slope(x)?;
        let mut moved = (x - x.detach())?;
        if high - low > SMALLEST * grid.top {
            let flat = x.flatten_all()?;
            let constant = flat.detach();
            // How far an end has moved: exactly zero, with the gradient of the number it is, the first of equals. On a device
            // argmin finds any of them.
            let (n, d) = (flat.elem_count() as u32, x.dim(1)? as u32);
            let rows = Tensor::arange_step(0u32, n, d, x.device())?.unsqueeze(1)?;
            let columns = Tensor::arange(0u32, d, x.device())?.unsqueeze(0)?;
            let places = rows.broadcast_add(&columns)?.flatten_all()?;
            let last = Tensor::full(n - 1, flat.dims(), x.device())?;
            let moves = |end: &Tensor| -> Result<Tensor> {
                let equal = constant.broadcast_eq(end)?;
                let first = equal.where_cond(&places, &last)?.min_keepdim(0)?;
                let found = constant.index_select(&first, 0)?;
                let is_end = found.eq(end)?.to_dtype(x.dtype())?;
                Ok((flat.index_select(&first, 0)? - found)?.mul(&is_end)?.reshape((1, 1))?)
            };
            let [of_low, of_high] = [moves(&ends[0])?, moves(&ends[1])?];
            let held = low >= 0.0 || high <= 0.0;
            let x = x.detach();
            let [by_low, by_high] = if held {
                let w = (x / (high - low))?;
                [w.clone(), w.neg()?]
            } else {
                let u = ((x - low)? / (high - low))?;
                [(&u - 1.0)?, u.neg()?]
            };
            for (by, end) in [(by_low, of_low), (by_high, of_high)] {
                moved = (moved + by.broadcast_mul(&end)?)?;
            }
        }
        Ok((grid.codes(x)? + moved.mul(&slope)?)?)
    }
}
