//! Scores with their labels, where they are. On the host one loop does all of a pass; on a device a pass is a composition
//! of tensor operations in f64, for all sums and thresholds at once, and only masses come home: two numbers per threshold and
//! cell of labels.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use super::labels::Labels;
use super::rates::{Cells, Merged, RateSum, Slopes};
use super::surrogate::Surrogate;
use super::threshold::Members;
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::{AsF64, all_finite, to_tensor};

/// Scores times thresholds from which several threads are faster than one.
pub(super) const WORTH_SPLITTING: usize = 1 << 12;

/// Below this, the slopes of a constraint are about to underflow, and their ratios lose digits.
const UNDERFLOW: f64 = 1e-280;

pub(super) struct Scored<'a> {
    place: Place<'a>,
    pub labels: &'a Labels,
    /// By the attributes that make their cells: made once, for all passes on a device.
    splits: Mutex<BTreeMap<Vec<usize>, Arc<Split>>>,
}

enum Place<'a> {
    Host(Cow<'a, [f64]>),
    /// (n), f64.
    Device(Tensor),
}

/// A smooth sum with its derivatives, those in the scores not yet added up where they are on a device.
pub(super) struct Row {
    pub value: f64,
    pub by_score: Column,
    pub by_threshold: Vec<f64>,
    /// Sum of the sizes of the slopes in the scores.
    pub size: f64,
    /// Slopes are e^shift times larger than they say: not 0 only where they underflow.
    pub shift: f64,
}

/// One number per score.
#[derive(Debug)]
pub(super) enum Column {
    Host(Vec<f64>),
    /// Slopes of passes with a factor for each cell.
    Device(Vec<(Arc<Pass>, usize, Vec<f64>)>),
}

/// The step of every score at some thresholds, smooth.
#[derive(Debug)]
pub(super) struct Pass {
    /// The cell of each score (n).
    cells: Tensor,
    /// Slope of each score at each threshold (g, n).
    slopes: Tensor,
}

impl<'a> Scored<'a> {
    /// Scores of any kind on the host, one per label, all finite. Host: all scores.
    pub fn lent(s: &'a impl AsF64, labels: &'a Labels) -> Result<Scored<'a>> {
        let s = s.numbers()?;
        ensure_shape("scores of a rate problem", labels.n(), s.len())?;
        if let Some(i) = s.iter().position(|s| !s.is_finite()) {
            let why = format!(
                "score {i} is {}; look for such numbers in the input or lower the learning rate",
                s[i]
            );
            return Err(Error::data("scores", why));
        }
        Ok(Scored { place: Place::Host(s), labels, splits: Mutex::default() })
    }

    /// The same of a tensor, where it is. Host: one number of a device.
    pub fn of(s: &'a Tensor, labels: &'a Labels) -> Result<Scored<'a>> {
        let on_device = !s.device().is_cpu() && s.elem_count() == labels.n() && all_finite(s)?;
        if !on_device {
            return Scored::lent(s, labels);
        }
        let place = Place::Device(s.detach().flatten_all()?.to_dtype(DType::F64)?);
        Ok(Scored { place, labels, splits: Mutex::default() })
    }

    /// The scores of a device by the cells of some attributes.
    fn split(&self, attributes: &[usize], device: &Device) -> Result<Arc<Split>> {
        let mut known = self.splits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(split) = known.get(attributes) {
            return Ok(split.clone());
        }
        let split = Arc::new(Split::new(self.labels, attributes, device)?);
        known.insert(attributes.to_vec(), split.clone());
        Ok(split)
    }

    /// The scores. Host: all of them.
    pub fn on_host(&self) -> Result<Cow<'_, [f64]>> {
        match &self.place {
            Place::Host(s) => Ok(Cow::Borrowed(s)),
            Place::Device(s) => Ok(Cow::Owned(s.to_vec1()?)),
        }
    }

    /// Score, label and some attributes of each sample, a row each (n, 2 + attributes), on the device of `like`.
    pub fn rows(&self, attributes: usize, like: &Tensor) -> Result<Tensor> {
        let s = match &self.place {
            Place::Host(s) => to_tensor(s.to_vec(), s.len(), DType::F64, like.device())?,
            Place::Device(s) => s.clone(),
        };
        let flags = self.labels.rows(like.device())?.narrow(0, 0, 1 + attributes)?;
        Ok(Tensor::cat(&[s.unsqueeze(0)?, flags], 0)?.t()?.contiguous()?)
    }

    /// Smooth sums and their derivatives.
    pub fn slopes(&self, sums: &[&RateSum], t: &[f64], surrogate: Surrogate) -> Result<Vec<Row>> {
        self.shifted(sums, t, surrogate, 0.0)
    }

    /// The same of constraints, whose slopes are divided by: scaled where they underflow.
    pub fn constraints(&self, sums: &[RateSum], t: &[f64], surrogate: Surrogate) -> Result<Vec<Row>> {
        let mut rows = self.slopes(&sums.iter().collect::<Vec<_>>(), t, surrogate)?;
        for (row, sum) in rows.iter_mut().zip(sums) {
            if row.size <= UNDERFLOW {
                let shift = self.largest_log_slope(sum, t, surrogate)?;
                *row = self.shifted(&[sum], t, surrogate, shift)?.swap_remove(0);
            }
        }
        Ok(rows)
    }

    fn shifted(&self, sums: &[&RateSum], t: &[f64], surrogate: Surrogate, shift: f64) -> Result<Vec<Row>> {
        let s = match &self.place {
            Place::Device(s) => return self.composed(s, sums, t, surrogate, shift),
            Place::Host(s) => s,
        };
        let row = |sum: &&RateSum| {
            let Slopes { value, by_score, by_threshold } =
                sum.shifted_slopes(s, self.labels, t, surrogate, shift)?;
            let size = by_score.iter().map(|slope| slope.abs()).sum();
            Ok(Row { value, by_score: Column::Host(by_score), by_threshold, size, shift })
        };
        match sums.len() * s.len() < WORTH_SPLITTING {
            true => sums.iter().map(row).collect(),
            false => sums.par_iter().map(row).collect(),
        }
    }

    /// All sums by one pass for each choice of attributes among them.
    fn composed(
        &self,
        s: &Tensor,
        sums: &[&RateSum],
        t: &[f64],
        surrogate: Surrogate,
        shift: f64,
    ) -> Result<Vec<Row>> {
        let empty = |sum: &&RateSum| Row {
            value: sum.constant,
            by_score: Column::Device(Vec::new()),
            by_threshold: vec![0.0; t.len()],
            size: 0.0,
            shift,
        };
        let mut rows: Vec<Row> = sums.iter().map(empty).collect();
        let merged = sums.iter().map(|sum| sum.merged(self.labels, t)).collect::<Result<Vec<_>>>()?;
        let mut passes: BTreeMap<&[usize], Vec<(usize, &Merged)>> = BTreeMap::new();
        for (k, merged) in merged.iter().enumerate().flat_map(|(k, all)| all.iter().map(move |one| (k, one)))
        {
            passes.entry(&merged.cells.attributes).or_default().push((k, merged));
        }
        for (attributes, members) in passes {
            let at: Vec<&Cells> = members.iter().map(|(_, merged)| &merged.cells).collect();
            let split = self.split(attributes, s.device())?;
            let mut above = split.above(s, &at, t)?;
            let turned = |(_, merged): &(usize, &Merged)| {
                let sign = |cell| if merged.turned(cell, surrogate) { -1.0 } else { 1.0 };
                (0..merged.weight.len()).map(sign).collect::<Vec<f64>>()
            };
            let signs: Vec<f64> = members.iter().flat_map(turned).collect();
            if signs.contains(&-1.0) {
                above = (above * split.each(signs)?)?;
            }
            let (value, slopes) = surrogate.with_slope(&above, shift)?;
            let all = Tensor::ones((1, s.elem_count()), DType::F64, s.device())?;
            let masses = split.masses(&[&value, &slopes, &all])?;
            let sizes = &masses[2 * at.len()];
            let pass = Arc::new(Pass { cells: split.cells.clone(), slopes });
            for (g, (k, merged)) in members.into_iter().enumerate() {
                let (value, by_mass) = merged.of_masses(&masses[g], surrogate, sizes)?;
                rows[k].value += value;
                for ((cell, weight), slope) in by_mass.iter().enumerate().zip(&masses[at.len() + g]) {
                    rows[k].by_threshold[merged.cells.threshold[cell]] -= weight * slope;
                    rows[k].size += weight.abs() * slope;
                }
                if let Column::Device(pulls) = &mut rows[k].by_score {
                    pulls.push((pass.clone(), g, by_mass));
                }
            }
        }
        Ok(rows)
    }

    /// Largest logarithm of a slope among the samples that count in a sum. Host: one number a term of a device.
    fn largest_log_slope(&self, sum: &RateSum, t: &[f64], surrogate: Surrogate) -> Result<f64> {
        let mut most = f64::NEG_INFINITY;
        for term in &sum.terms {
            let (cells, counts) = term.members();
            let own = match &self.place {
                Place::Host(s) => {
                    let flags = self.labels.flags()?;
                    let slope = |(i, s): (usize, &f64)| {
                        let cell = flags.cell(&cells.attributes, i);
                        let slope = || surrogate.log_slope(s - t[cells.threshold[cell]]);
                        if counts[cell] { slope() } else { f64::NEG_INFINITY }
                    };
                    s.iter().enumerate().map(slope).fold(f64::NEG_INFINITY, f64::max)
                }
                Place::Device(s) => {
                    let split = self.split(&cells.attributes, s.device())?;
                    let least = |counted: &bool| if *counted { 0.0 } else { f64::NEG_INFINITY };
                    let others = split.each(counts.iter().map(least).collect())?;
                    let slopes = (surrogate.log_slope_of(&split.above(s, &[&cells], t)?)? + others)?;
                    slopes.max_all()?.to_scalar::<f64>()?
                }
            };
            most = most.max(own);
        }
        Ok(most)
    }

    /// Exact values, counted with the strict rule s > t.
    pub fn counts(&self, sums: &[RateSum], t: &[f64]) -> Result<Vec<f64>> {
        let count = |sum: &RateSum| match &self.place {
            Place::Host(s) => sum.count(&s[..], self.labels, t),
            Place::Device(s) => sum.counted(self.labels, |cells| {
                let split = self.split(&cells.attributes, s.device())?;
                let above = split.above(s, &[cells], t)?.gt(0.0)?.to_dtype(DType::F64)?;
                Ok(split.masses(&[&above])?.swap_remove(0))
            }),
        };
        sums.iter().map(count).collect()
    }

    /// The scores of some cells as what a threshold is solved on.
    pub fn members(&self, attributes: &[usize], counts: &[bool]) -> Result<Members<'_>> {
        match &self.place {
            Place::Host(s) => {
                let flags = self.labels.flags()?;
                let own = s.iter().enumerate().filter(|(i, _)| counts[flags.cell(attributes, *i)]);
                Ok(Members::Host(own.map(|(_, s)| *s).collect()))
            }
            Place::Device(s) => {
                let mask = counts.iter().map(|counted| f64::from(u8::from(*counted))).collect();
                let mask = to_tensor(mask, counts.len(), DType::F64, s.device())?;
                Members::masked(s, &mask.index_select(&self.labels.cells(attributes, s.device())?, 0)?)
            }
        }
    }

    /// A column as a list. Host: all of it.
    pub fn list(&self, column: Column) -> Result<Vec<f64>> {
        match (column, &self.place) {
            (column, Place::Device(s)) => Ok(column.tensor(s)?.to_vec1()?),
            (Column::Host(list), Place::Host(_)) => Ok(list),
            // A column is where its scores are.
            (Column::Device(_), Place::Host(s)) => Ok(vec![0.0; s.len()]),
        }
    }

    /// A column of zeros.
    pub fn zeros(&self) -> Column {
        match &self.place {
            Place::Host(s) => Column::Host(vec![0.0; s.len()]),
            Place::Device(_) => Column::Device(Vec::new()),
        }
    }
}

/// Scores by the cell of their labels.
struct Split {
    /// (n).
    cells: Tensor,
    /// 1 in the column of each score's cell (n, cells).
    marks: Tensor,
}

impl Split {
    fn new(labels: &Labels, attributes: &[usize], device: &Device) -> Result<Split> {
        let cells = labels.cells(attributes, device)?;
        let columns = Tensor::arange(0u32, 2 << attributes.len(), device)?;
        let marks = cells.unsqueeze(1)?.broadcast_eq(&columns.unsqueeze(0)?)?.to_dtype(DType::F64)?;
        Ok(Split { cells, marks })
    }

    /// One number per cell to one per score: g times as many as cells → (g, n).
    fn each(&self, of_cells: Vec<f64>) -> Result<Tensor> {
        let cells = self.marks.dim(1)?;
        let shape = (of_cells.len() / cells, cells);
        Ok(to_tensor(of_cells, shape, DType::F64, self.marks.device())?.index_select(&self.cells, 1)?)
    }

    /// s − t at the thresholds of each of `at` (g, n).
    fn above(&self, s: &Tensor, at: &[&Cells], t: &[f64]) -> Result<Tensor> {
        let own = at.iter().flat_map(|cells| cells.threshold.iter().map(|k| t[*k])).collect();
        Ok(s.unsqueeze(0)?.broadcast_sub(&self.each(own)?)?)
    }

    /// Sums over each cell of the rows of each (g, n). Host: these sums.
    fn masses(&self, rows: &[&Tensor]) -> Result<Vec<Vec<f64>>> {
        Ok(Tensor::cat(rows, 0)?.matmul(&self.marks)?.to_vec2()?)
    }
}

impl Column {
    /// Adds a multiple of another of the same scores.
    pub fn add(&mut self, factor: f64, other: &Column) {
        match (self, other) {
            (Column::Host(list), Column::Host(other)) => {
                list.iter_mut().zip(other).for_each(|(a, b)| *a += factor * b);
            }
            (Column::Device(pulls), Column::Device(others)) if factor != 0.0 => {
                let scaled = |by_mass: &[f64]| by_mass.iter().map(|weight| factor * weight).collect();
                pulls.extend(others.iter().map(|(pass, g, by_mass)| (pass.clone(), *g, scaled(by_mass))));
            }
            _ => {}
        }
    }

    /// The numbers as a tensor like the scores `s`.
    pub fn tensor(&self, s: &Tensor) -> Result<Tensor> {
        let pulls = match self {
            Column::Host(list) => return to_tensor(list.clone(), s.dims(), s.dtype(), s.device()),
            Column::Device(pulls) => pulls,
        };
        let mut total = Tensor::zeros(s.elem_count(), DType::F64, s.device())?;
        let mut left: Vec<_> = pulls.iter().collect();
        while let Some((pass, ..)) = left.first().copied() {
            let (own, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|(p, ..)| Arc::ptr_eq(p, pass));
            let (g, cells) = (pass.slopes.dim(0)?, own[0].2.len());
            let mut weights = vec![0.0; g * cells];
            for (_, g, by_mass) in own {
                weights[g * cells..].iter_mut().zip(by_mass).for_each(|(total, weight)| *total += weight);
            }
            let weights = to_tensor(weights, (g, cells), DType::F64, s.device())?;
            total = (total + (weights.index_select(&pass.cells, 1)? * &pass.slopes)?.sum(0)?)?;
            left = others;
        }
        Ok(total.to_dtype(s.dtype())?.reshape(s.dims())?)
    }

    /// Σ column · (new − old). Host: all numbers of scores that are there, one of those on a device.
    pub fn along(&self, new: &Tensor, old: &Tensor) -> Result<f64> {
        match self {
            Column::Host(list) => {
                let (new, old) = (new.numbers()?, old.numbers()?);
                Ok(list
                    .iter()
                    .zip(new.iter().zip(&old[..]))
                    .map(|(weight, (new, old))| weight * (new - old))
                    .sum())
            }
            Column::Device(_) => {
                let (new, old) = (new.to_dtype(DType::F64)?, old.to_dtype(DType::F64)?);
                let moves = (&new - old)?;
                Ok((self.tensor(&new)? * moves)?.sum_all()?.to_scalar()?)
            }
        }
    }
}
