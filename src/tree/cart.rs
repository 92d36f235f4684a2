//! Growing a tree: CART on codes, for targets that are vectors of probabilities.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::Codes;
use super::examples::{EXTRA, Examples, ONE};
use super::histogram::{Candidate, Judge};
use super::tree::{Node, Split, Tree};
use crate::error::{Error, Result};
use crate::numbers::AsF64;

/// What a split is chosen by; both are sums over the rows of a node, and never negative.
///
/// Book: `intersection/trees.md#eq-int-tree-information`, `#eq-int-tree-variance`.
///
/// ```
/// use lastlayer::prelude::*;
/// let codes = Codes::from_bytes(vec![0, 1], 1, 2)?;
/// let p = ndarray::array![[1.0, 0.0], [0.0, 1.0]];
/// let gain = |criterion| -> Result<f64> {
///     let tree = Cart { criterion, ..Cart::default() }.fit(&codes, &p)?;
///     Ok(tree.nodes()[0].split.expect("a question").gain)
/// };
/// assert!((gain(Criterion::Information)? - 2.0 * 2f64.ln()).abs() < 1e-12); // one bit a row
/// assert!((gain(Criterion::Variance)? - 1.0).abs() < 1e-12); // ½ a row
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Criterion {
    /// Entropy of the summed probabilities less that of both sides: with one-hot targets the information gain.
    #[default]
    Information,
    /// Squared distance to the mean, less that to the means of both sides: with one-hot targets the Gini gain.
    Variance,
}

/// Settings of a tree.
///
/// ```text
/// S, n = sum of the probabilities and weight of a node;  L, R its two sides, v ≤ τ and v > τ
/// Information   Σ_c L_c ln (L_c/|L| · |S|/S_c) + Σ_c R_c ln (R_c/|R| · |S|/S_c)      = E(S) − E(L) − E(R)
/// Variance      n / (n_L n_R) · ‖L − n_L S/n‖²                                     = ‖L‖²/n_L + ‖R‖²/n_R − ‖S‖²/n
/// ```
/// Both are written so that equal sides have gain zero without cancellation. Of gains that are equal as computed the
/// smallest feature wins, then the smallest threshold. Checked by `tests/tree/cart.rs` against all splits one by one.
/// Book: `intersection/trees.md#eq-int-tree-leaf`, `#eq-int-tree-greedy`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Exclusive or: no single question helps, two do.
/// let codes = Codes::new(&ndarray::array![[0, 0], [0, 1], [1, 0], [1, 1]], 2)?;
/// let p = ndarray::array![[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]];
/// assert_eq!(Cart::default().fit(&codes, &p)?.leaves(), 1);
/// let patient = Cart { depth: 2, allow_zero_gain: true, ..Cart::default() };
/// assert_eq!(patient.fit(&codes, &p)?.accuracy(&codes, &[0, 1, 1, 0])?, 1.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cart {
    /// Most questions in a row; 0 gives a single leaf.
    pub depth: usize,
    /// Fewest rows of a leaf, each with its weight.
    pub min_leaf: u64,
    pub criterion: Criterion,
    /// Splits a node also where no single question gains anything, as two questions may (exclusive or).
    pub allow_zero_gain: bool,
    /// Takes the histograms of the larger side as those of the node less those of the smaller side: faster, the same bits.
    pub subtract: bool,
}

impl Default for Cart {
    /// Five questions by information gain.
    fn default() -> Cart {
        Cart {
            depth: 5,
            min_leaf: 1,
            criterion: Criterion::Information,
            allow_zero_gain: false,
            subtract: true,
        }
    }
}

/// Deepest tree: beyond it leaves outnumber any set of rows.
const DEEPEST: usize = 24;
/// Smallest gain of a row that is more than rounding.
const LEAST_GAIN: f64 = 1e-12;
/// Rows of the larger side, per level, from which it pays to subtract, for histograms that fit into a cache of half a
/// megabyte and for others. Measured.
const WORTH: [usize; 2] = [8, 64];
const CACHE: usize = 1 << 16;
/// Most numbers in the histograms of a node that are kept for its sides: 64 MB.
const KEPT: usize = 1 << 23;
/// Additions below which a node is done before another thread has woken up.
const SERIAL: usize = 1 << 18;

impl Cart {
    /// Fits a tree to codes and probabilities.
    ///
    /// Shapes: `codes` (n, d), `p` (n, outputs). Cost: O(n d outputs) for each level of the tree and O(d levels outputs) for
    /// each node. Host: all of `p`. Fails: `Shape`, `Data` for a row that is no probability vector, `Config` for settings that
    /// cannot be. Checked by `tests/tree/cart.rs`.
    /// Book: `intersection/trees.md#eq-int-tree-histogram`, `#eq-int-tree-subtract`.
    pub fn fit(&self, codes: &Codes, p: &(impl AsF64 + ?Sized)) -> Result<Tree> {
        self.fit_examples(&Examples::of(codes, p)?)
    }

    /// Fits a tree to rows that were collected. Fails: `Config` for settings that cannot be, `Data` if there are no rows.
    pub fn fit_examples(&self, examples: &Examples) -> Result<Tree> {
        if self.depth > DEEPEST || self.min_leaf == 0 {
            let got = format!("{} and {}", self.depth, self.min_leaf);
            let allowed = format!("a depth of at most {DEEPEST}, and at least 1 row");
            return Err(Error::config("depth and min_leaf of a tree", got, allowed));
        }
        let sums = examples.sums(|_| true);
        if sums[0] == 0 {
            return Err(Error::data("examples of a tree", "there are none; add rows before you fit"));
        }
        // Once among the threads and no more: each way in from outside costs two switches.
        let grown = match worth_sharing(examples) {
            true => rayon::scope(|_| self.grow(examples, sums, None, self.depth)),
            false => self.grow(examples, sums, None, self.depth),
        };
        let mut nodes = Vec::new();
        grown.number(examples.outputs(), &mut nodes);
        Tree::new(nodes, examples.d(), examples.levels())
    }

    /// Grows the tree below some rows, whose sums are known, and perhaps their histograms.
    fn grow(&self, examples: &Examples, sums: Vec<u64>, known: Option<Vec<u64>>, depth: usize) -> Grown {
        if depth == 0 || sums[0] / 2 < self.min_leaf || pure(&sums) {
            return Grown { sums, split: None };
        }
        let parallel = worth_sharing(examples);
        let (groups, size) = (Judge::groups(examples), Judge::group_size(examples));
        let worth = WORTH[usize::from(groups * size > CACHE)] * examples.levels();
        let subtract = self.subtract && depth > 1 && groups * size <= KEPT;
        let histograms = match known {
            None if subtract && examples.n() >= 2 * worth => Some(fill_all(examples, parallel)),
            known => known,
        };
        let judge = Judge::new(examples, self.criterion, self.min_leaf, &sums);
        let one =
            |group: usize| judge.best(group, histograms.as_ref().map(|all| &all[group * size..][..size]));
        let best = match parallel {
            true => (0..groups).into_par_iter().map(one).reduce(|| None, Candidate::or),
            false => (0..groups).map(one).fold(None, Candidate::or),
        };
        let enough = |gain: f64| self.allow_zero_gain || gain > LEAST_GAIN * sums[0] as f64;
        let Some(split) = best.filter(|best| enough(best.gain)) else {
            return Grown { sums, split: None };
        };
        let goes_high: Vec<bool> =
            examples.column(split.feature).map(|code| code > split.threshold).collect();
        let sums_high = examples.sums(|row| goes_high[row]);
        let sums_low: Vec<u64> = sums.iter().zip(&sums_high).map(|(all, high)| all - high).collect();
        if depth == 1 {
            // Leaves need their sums and no rows.
            let [low, high] = [sums_low, sums_high].map(|sums| Box::new(Grown { sums, split: None }));
            return Grown { sums, split: Some((split, low, high)) };
        }
        let goes_low: Vec<bool> = goes_high.iter().map(|high| !high).collect();
        let [low, high] = [goes_low, goes_high].map(|chosen| examples.part(&chosen));
        let [mut of_low, mut of_high] = [None, None];
        if let Some(mut all) = histograms.filter(|_| subtract && low.n().max(high.n()) >= worth) {
            let small = fill_all(if low.n() < high.n() { &low } else { &high }, parallel);
            all.iter_mut().zip(&small).for_each(|(all, small)| *all -= small);
            let pair = if low.n() < high.n() { (small, all) } else { (all, small) };
            (of_low, of_high) = (Some(pair.0), Some(pair.1));
        }
        let low = || Box::new(self.grow(&low, sums_low, of_low, depth - 1));
        let high = || Box::new(self.grow(&high, sums_high, of_high, depth - 1));
        let (low, high) = if parallel { rayon::join(low, high) } else { (low(), high()) };
        Grown { sums, split: Some((split, low, high)) }
    }
}

/// Whether there is work for several threads.
fn worth_sharing(examples: &Examples) -> bool {
    examples.n() * examples.d() * examples.tiles.len() * examples.width >= SERIAL
}

/// Whether all of a node is one class.
fn pure(sums: &[u64]) -> bool {
    sums[EXTRA..].iter().filter(|sum| **sum > 0).count() <= 1
}

/// Histograms of all groups of features.
fn fill_all(examples: &Examples, parallel: bool) -> Vec<u64> {
    let size = Judge::group_size(examples);
    let mut all = vec![0u64; Judge::groups(examples) * size];
    let one = |(group, own): (usize, &mut [u64])| Judge::fill(examples, group, own);
    match parallel {
        true => all.par_chunks_mut(size).enumerate().for_each(one),
        false => all.chunks_mut(size).enumerate().for_each(one),
    }
    all
}

/// A node and what hangs from it.
struct Grown {
    sums: Vec<u64>,
    split: Option<(Candidate, Box<Grown>, Box<Grown>)>,
}

impl Grown {
    /// Adds this node and those below it to the list, and returns its number.
    fn number(self, outputs: usize, nodes: &mut Vec<Node>) -> usize {
        let own = nodes.len();
        let total = (self.sums[1] as f64).max(1.0 / ONE);
        let value = self.sums[EXTRA..][..outputs].iter().map(|sum| *sum as f64 / total).collect();
        nodes.push(Node { weight: self.sums[0], value, split: None });
        if let Some((best, low, high)) = self.split {
            let (low, high) = (low.number(outputs, nodes), high.number(outputs, nodes));
            let Candidate { feature, threshold, gain } = best;
            nodes[own].split = Some(Split { feature, threshold, gain, low, high });
        }
        own
    }
}
