//! Scores and labels that lie on a device, and sorting there: losses are compositions of tensor operations in f64, and
//! only their values come home. What is not as it should be is left to the host, which says what and where.

use std::ops::Range;

use candle_core::{DType, Tensor};

use crate::error::Result;
use crate::numbers::{AsF64, to_tensor};

/// Longest list that candle sorts at once on a device, less one.
const WIDEST: usize = (1 << 13) - 1;

/// Scores with their labels on a device.
pub(super) struct OnDevice {
    /// (n), or (n, K) of several classes, f64.
    pub s: Tensor,
    /// 1 for the samples of each class (classes, n).
    pub members: Tensor,
}

impl OnDevice {
    /// Scores of two classes; none if they are on the host, or not as many as labels.
    pub fn binary(s: &impl AsF64, y: &impl AsF64) -> Result<Option<OnDevice>> {
        match s.on_device() {
            Some(s) => OnDevice::of(&s.flatten_all()?, y, 2),
            None => Ok(None),
        }
    }

    /// Scores of as many classes as columns; none as of two.
    pub fn several(s: &impl AsF64, y: &impl AsF64) -> Result<Option<OnDevice>> {
        match s.on_device().map(|s| (s, s.dims())) {
            Some((s, &[_, classes])) if classes > 1 => OnDevice::of(s, y, classes),
            _ => Ok(None),
        }
    }

    /// Labels go to the scores. Host: labels that are elsewhere.
    fn of(s: &Tensor, y: &impl AsF64, classes: usize) -> Result<Option<OnDevice>> {
        let (n, device) = (s.dim(0)?, s.device());
        if n == 0 || y.sizes().iter().product::<usize>() != n {
            return Ok(None);
        }
        let y = match y.on_device().filter(|y| y.device().same_device(device)) {
            Some(y) => y.detach().flatten_all()?.to_dtype(DType::F64)?,
            None => to_tensor(y.numbers()?.into_owned(), n, DType::F64, device)?,
        };
        let names = Tensor::arange(0.0, classes as f64, device)?.unsqueeze(1)?;
        let members = y.unsqueeze(0)?.broadcast_eq(&names)?.to_dtype(DType::F64)?;
        Ok(Some(OnDevice { s: s.detach().to_dtype(DType::F64)?.contiguous()?, members }))
    }

    /// Negatives and positives of two classes (1, n).
    pub fn classes(&self) -> Result<[Tensor; 2]> {
        Ok([self.members.narrow(0, 0, 1)?, self.members.narrow(0, 1, 1)?])
    }

    /// Numbers of a loss, if all scores are finite, all labels are classes and those that are needed have samples.
    /// Host: these numbers, one more for each class, and a zero, in one copy.
    pub fn to_host(&self, numbers: &[&Tensor], needed: Range<usize>) -> Result<Option<Vec<f64>>> {
        // As in `all_finite`.
        let zero = (&self.s * 0.0)?.sum_all()?.reshape(1)?;
        let mut all = vec![self.members.sum(1)?, zero];
        for number in numbers {
            all.push(number.reshape(1)?);
        }
        let mut all = Tensor::cat(&all, 0)?.to_vec1::<f64>()?;
        let (classes, n) = self.members.dims2()?;
        let found = all.split_off(classes + 1);
        let sizes = &all[..classes];
        let sound = all[classes] == 0.0 && sizes.iter().sum::<f64>() == n as f64;
        Ok((sound && sizes[needed].iter().all(|size| *size > 0.0)).then_some(found))
    }
}

/// What moves all but the members of a class to the end of a sorted list: 0 for those, infinity for others.
pub(super) fn absent(members: &Tensor) -> Result<Tensor> {
    Ok((members.recip()? - 1.0)?)
}

/// How many entries of each list are below a number, or not above it if ties count.
///
/// Shapes: `lists` (m, n), `at` (m, q) → (m, q). Cost: O(n log² n + q log n), and q log n again for every 8191 entries
/// of a longer list.
pub(super) fn below(lists: &Tensor, at: &Tensor, ties: bool) -> Result<Tensor> {
    over_parts(lists, |sorted| Ok(ranks(sorted, at, ties)?.to_dtype(DType::F64)?))
}

/// Σ max(0, number − entry) over each list, for every number.
///
/// Shapes and cost: as [`below`]. The digits are those of differences from zero: middle the lists first.
pub(super) fn hinges(lists: &Tensor, at: &Tensor) -> Result<Tensor> {
    over_parts(lists, |sorted| {
        let ranks = ranks(sorted, at, false)?;
        let sums = running_sums(sorted)?.gather(&ranks, 1)?;
        Ok((ranks.to_dtype(DType::F64)?.mul(at)? - sums)?)
    })
}

/// Adds up what is found in each part of the lists, sorted, of 2^k − 1 entries; infinities fill the last one.
fn over_parts(lists: &Tensor, find: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let (m, n) = lists.dims2()?;
    let width = ((n + 1).next_power_of_two() - 1).min(WIDEST);
    let (parts, mut lists) = (n.div_ceil(width), lists.clone());
    if parts * width > n {
        let rest = Tensor::full(f64::INFINITY, (m, parts * width - n), lists.device())?;
        lists = Tensor::cat(&[lists, rest], 1)?;
    }
    let part = |p: usize| find(&lists.narrow(1, p * width, width)?.contiguous()?.sort_last_dim(true)?.0);
    (1..parts).try_fold(part(0)?, |sum, p| Ok((sum + part(p)?)?))
}

/// How many entries of each sorted list are below a number, by halving all lists at once.
fn ranks(sorted: &Tensor, at: &Tensor, ties: bool) -> Result<Tensor> {
    let mut rank = Tensor::zeros(at.dims(), DType::U32, at.device())?;
    let mut half = sorted.dim(1)?.div_ceil(2);
    while half > 0 {
        let middle = sorted.gather(&rank.affine(1.0, (half - 1) as f64)?, 1)?;
        let more = if ties { middle.le(at)? } else { middle.lt(at)? };
        rank = (rank + (more.to_dtype(DType::U32)? * half as f64)?)?;
        half /= 2;
    }
    Ok(rank)
}

/// Sums of the first 0, 1, … entries (m, n + 1), by adding what is 1, 2, 4, … places before.
fn running_sums(lists: &Tensor) -> Result<Tensor> {
    let mut sums = lists.pad_with_zeros(1, 1, 0)?;
    let (n, mut by) = (sums.dim(1)?, 1);
    while by < n {
        sums = (&sums + sums.narrow(1, 0, n - by)?.pad_with_zeros(1, by, 0)?)?;
        by *= 2;
    }
    Ok(sums)
}
