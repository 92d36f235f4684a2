//! What a tree is fitted to: codes, and a vector of probabilities for each row.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor};

use super::Codes;
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::AsF64;

/// Features whose histograms are filled in one pass over the rows.
pub(super) const GROUP: usize = 8;
/// Of one in fixed point. Sums of up to 2²³ rows fit into 64 bits.
pub(super) const ONE: f64 = (1u64 << 40) as f64;
/// Most rows, each counted with its weight.
const MOST: u64 = 1 << 22;
/// How far the sum of a row may be from one: what a softmax in f32 over many classes leaves.
const UNIT: f64 = 1e-3;
/// Numbers that a row carries besides its probabilities: its weight, and the sum of its probabilities.
pub(super) const EXTRA: usize = 2;

/// Codes with their targets, to which more can be added: the paper's S′.
///
/// Probabilities are kept in fixed point, p · 2⁴⁰ as whole numbers, so that sums of them are exact in any order.
/// Checked by `tests/tree/cart.rs`.
/// Book: `intersection/trees.md#eq-int-tree-fixed`, `#eq-int-tree-order`.
///
/// ```
/// use lastlayer::prelude::*;
/// let (codes, p) = (Codes::from_bytes(vec![0, 1], 1, 2)?, ndarray::array![[1.0, 0.0], [0.0, 1.0]]);
/// let mut examples = Examples::new(1, 2, 2)?;
/// examples.push(&codes, &p)?;
/// examples.push_weighted(&codes, &p, &[3, 1])?; // as if the first came three times
/// assert_eq!(examples.n(), 4);
/// assert_eq!(Cart::default().fit_examples(&examples)?.nodes()[0].value, [4.0 / 6.0, 2.0 / 6.0]);
/// assert!(examples.push(&codes, &ndarray::array![[0.5, 0.0], [0.0, 1.0]]).is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examples {
    n: usize,
    d: usize,
    levels: usize,
    outputs: usize,
    /// Codes of each group of features, row after row; the last group is padded.
    pub(super) groups: Vec<Vec<[u8; GROUP]>>,
    /// Lanes of a tile: a power of two, and no more than are needed.
    pub(super) width: usize,
    /// Weight, sum and probabilities of the rows, `width` numbers of each in a tile.
    pub(super) tiles: Vec<Vec<u64>>,
    weight: u64,
}

impl Examples {
    /// An empty set of rows with `d` features of `levels` codes and `outputs` probabilities.
    ///
    /// Fails: `Config` unless there are features, outputs, and 2 to 256 levels.
    pub fn new(d: usize, levels: usize, outputs: usize) -> Result<Examples> {
        if d == 0 || outputs == 0 || !(2..=256).contains(&levels) {
            let got = format!("{d} features, {levels} levels, {outputs} outputs");
            return Err(Error::config("examples", got, "at least one feature and output, 2 to 256 levels"));
        }
        let lanes = outputs + EXTRA;
        let width = if lanes <= 4 {
            4
        } else if lanes <= 8 {
            8
        } else {
            16
        };
        let tiles = vec![Vec::new(); lanes.div_ceil(width)];
        let groups = vec![Vec::new(); d.div_ceil(GROUP)];
        Ok(Examples { n: 0, d, levels, outputs, groups, width, tiles, weight: 0 })
    }

    /// All rows of a table of codes with their probabilities. Fails: as [`push`](Examples::push).
    pub fn of(codes: &Codes, p: &(impl AsF64 + ?Sized)) -> Result<Examples> {
        let outputs = p.sizes().last().copied().unwrap_or(0);
        let mut examples = Examples::new(codes.d(), codes.levels(), outputs)?;
        examples.push(codes, p)?;
        Ok(examples)
    }

    /// Adds rows.
    ///
    /// Shapes: `codes` (n, d), `p` (n, outputs), each row of which adds up to one. Host: all of `p`. Fails: `Shape`, or
    /// `Data` for a row that is no probability vector (scores must go through a softmax first); nothing is then added.
    pub fn push(&mut self, codes: &Codes, p: &(impl AsF64 + ?Sized)) -> Result<()> {
        self.push_weighted(codes, p, &vec![1; codes.n()])
    }

    /// Adds rows that count several times: a weight w is w equal rows. Host: all of `p`. Fails: as
    /// [`push`](Examples::push), and `Shape` unless there is a weight for every row.
    pub fn push_weighted(&mut self, codes: &Codes, p: &(impl AsF64 + ?Sized), weights: &[u32]) -> Result<()> {
        let n = codes.n();
        ensure_shape("features and levels of examples", [self.d, self.levels], [codes.d(), codes.levels()])?;
        ensure_shape("probabilities of examples", vec![n, self.outputs], p.sizes())?;
        ensure_shape("weights of examples", n, weights.len())?;
        let p = p.numbers()?;
        for (i, row) in p.chunks_exact(self.outputs).enumerate() {
            let sum: f64 = row.iter().sum();
            if !row.iter().all(|p| *p >= 0.0) || (sum - 1.0).is_nan() || (sum - 1.0).abs() > UNIT {
                let why = format!(
                    "row {i} is no probability vector (smallest {}, sum {sum}); take the softmax of scores, and check for NaN",
                    row.iter().copied().fold(f64::INFINITY, f64::min)
                );
                return Err(Error::data("targets of a tree", why));
            }
        }
        let added: u64 = weights.iter().map(|w| u64::from(*w)).sum();
        if self.weight.saturating_add(added) > MOST {
            let got = self.weight.saturating_add(added);
            return Err(Error::config("rows of a tree, with weights", got, format!("at most {MOST}")));
        }
        for row in codes.rows() {
            for (group, own) in self.groups.iter_mut().zip(row.chunks(GROUP)) {
                let mut padded = [0; GROUP];
                padded[..own.len()].copy_from_slice(own);
                group.push(padded);
            }
        }
        let mut lanes = vec![0u64; self.tiles.len() * self.width];
        for (row, weight) in p.chunks_exact(self.outputs).zip(weights) {
            let weight = u64::from(*weight);
            for (lane, p) in lanes[EXTRA..].iter_mut().zip(row) {
                *lane = (p * ONE).round() as u64 * weight;
            }
            (lanes[0], lanes[1]) = (weight, lanes[EXTRA..].iter().sum());
            for (tile, lanes) in self.tiles.iter_mut().zip(lanes.chunks_exact(self.width)) {
                tile.extend_from_slice(lanes);
            }
        }
        self.n += n;
        self.weight += added;
        Ok(())
    }

    /// Forgets all rows but the first `n`, and keeps the memory.
    pub fn truncate(&mut self, n: usize) {
        self.n = self.n.min(n);
        let lanes = self.n * self.width;
        self.weight -= self.tiles[0][lanes..].iter().step_by(self.width).sum::<u64>();
        self.groups.iter_mut().for_each(|group| group.truncate(n));
        self.tiles.iter_mut().for_each(|tile| tile.truncate(lanes));
    }

    /// Codes and probabilities of rows that count once, as a checkpoint keeps them: of those in f32 no digit is lost. Host:
    /// that is where they are.
    pub(crate) fn tensors(&self) -> Result<[(String, Tensor); 2]> {
        let row = |row: usize| self.groups.iter().flat_map(move |group| group[row]).take(self.d);
        let codes: Vec<u8> = (0..self.n).flat_map(row).collect();
        let lane =
            |row: usize, lane: usize| self.tiles[lane / self.width][row * self.width + lane % self.width];
        let row = |row: usize| (0..self.outputs).map(move |k| (lane(row, EXTRA + k) as f64 / ONE) as f32);
        let p: Vec<f32> = (0..self.n).flat_map(row).collect();
        let codes = Tensor::from_vec(codes, (self.n, self.d), &Device::Cpu)?;
        let p = Tensor::from_vec(p, (self.n, self.outputs), &Device::Cpu)?;
        Ok([("codes".to_string(), codes), ("probabilities".to_string(), p)])
    }

    /// What [`tensors`](Examples::tensors) gave. Fails: `Data` if one is missing, and as [`push`](Examples::push).
    pub(crate) fn from_tensors(tensors: &BTreeMap<String, Tensor>, levels: usize) -> Result<Examples> {
        let missing = |name| Error::data("examples", format!("there are no {name}"));
        let of = |name| tensors.get(name).ok_or_else(|| missing(name));
        Examples::of(&Codes::of(of("codes")?, levels)?, of("probabilities")?)
    }

    /// Number of rows.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of features.
    pub fn d(&self) -> usize {
        self.d
    }

    /// Number of values that a code can have.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// Number of probabilities of a row.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The code of a feature in every row.
    pub(super) fn column(&self, feature: usize) -> impl Iterator<Item = u8> {
        self.groups[feature / GROUP].iter().map(move |codes| codes[feature % GROUP])
    }

    /// The rows that are chosen, one after the other in memory.
    pub(super) fn part(&self, chosen: &[bool]) -> Examples {
        let keep = |(kept, _): &(&bool, usize)| **kept;
        let rows: Vec<usize> = chosen.iter().zip(0..).filter(keep).map(|(_, row)| row).collect();
        let groups = self.groups.iter().map(|group| rows.iter().map(|row| group[*row]).collect());
        let tiles = self.tiles.iter().map(|tile| {
            let mut part = Vec::with_capacity(rows.len() * self.width);
            rows.iter().for_each(|row| part.extend_from_slice(&tile[row * self.width..][..self.width]));
            part
        });
        let weight = rows.iter().map(|row| self.tiles[0][row * self.width]).sum();
        Examples { n: rows.len(), groups: groups.collect(), tiles: tiles.collect(), weight, ..*self }
    }

    /// Sums of all lanes over the rows that are chosen: weight, sum of probabilities, probabilities.
    pub(super) fn sums(&self, chosen: impl Fn(usize) -> bool) -> Vec<u64> {
        let mut sums = vec![0u64; self.tiles.len() * self.width];
        for (tile, sums) in self.tiles.iter().zip(sums.chunks_exact_mut(self.width)) {
            for (_, lanes) in tile.chunks_exact(self.width).enumerate().filter(|(row, _)| chosen(*row)) {
                sums.iter_mut().zip(lanes).for_each(|(sum, lane)| *sum += lane);
            }
        }
        sums
    }

    /// Shows the size.
    pub fn evcxr_display(&self) {
        let text = format!(
            "{} rows of {} codes in {} levels, {} probabilities each",
            self.n, self.d, self.levels, self.outputs
        );
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}
