//! What a tree says, and how wrong it is.

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::examples::ONE;
use super::{Codes, Criterion};
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::AsF64;

/// A question: is the code of a feature above the threshold?
///
/// ```
/// use lastlayer::prelude::*;
/// let codes = Codes::from_bytes(vec![0, 1, 2, 3], 1, 4)?;
/// let p = ndarray::array![[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]];
/// let question = Cart::default().fit(&codes, &p)?.nodes()[0].split.expect("a question");
/// assert_eq!((question.feature, question.threshold), (0, 2)); // is the code above 2?
/// assert_eq!((question.low, question.high), (1, 2));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Split {
    pub feature: usize,
    /// Codes up to and including it go low.
    pub threshold: u8,
    /// What the question gained on the rows it was chosen on.
    pub gain: f64,
    /// Numbers of the two nodes that follow.
    pub low: usize,
    pub high: usize,
}

/// A place in a tree.
///
/// ```
/// use lastlayer::prelude::*;
/// let codes = Codes::from_bytes(vec![0, 1, 2, 3], 1, 4)?;
/// let p = ndarray::array![[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]];
/// let tree = Cart::default().fit(&codes, &p)?;
/// let root = &tree.nodes()[0];
/// assert_eq!((root.weight, root.class(), &root.value[..]), (4, 0, &[0.75, 0.25][..]));
/// assert!(tree.nodes()[1].split.is_none()); // a leaf
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Rows of the fit that came here, each with its weight.
    pub weight: u64,
    /// Their mean probabilities.
    pub value: Vec<f64>,
    /// What is asked here; a leaf asks nothing.
    pub split: Option<Split>,
}

/// A decision tree. Node 0 is the root, and nodes are numbered from the top, low side first.
///
/// Two trees are equal if their bits are; [`same_questions`](Tree::same_questions) compares what they ask.
/// Checked by `tests/tree/cart.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let codes = Codes::from_bytes(vec![0, 1, 2, 3], 1, 4)?;
/// let p = ndarray::array![[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]];
/// let tree = Cart::default().fit(&codes, &p)?;
/// assert_eq!((tree.depth(), tree.leaves()), (1, 2));
/// assert_eq!(tree.classify(&codes)?, [0, 0, 0, 1]);
/// assert_eq!(tree.loss(&codes, &p, Criterion::Information)?, 0.0);
/// assert_eq!(tree.rows_at(&codes)?[2], [3]); // who comes to the high side
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    nodes: Vec<Node>,
    d: usize,
    levels: usize,
}

impl Tree {
    /// A tree of nodes for codes of `d` features and `levels` levels.
    ///
    /// Fails: `Data` unless every node but the root hangs from exactly one node before it, asks for a feature and a threshold
    /// that exist, and has as many values as the others.
    pub fn new(nodes: Vec<Node>, d: usize, levels: usize) -> Result<Tree> {
        let outputs = nodes.first().map_or(0, |node| node.value.len());
        let mut hangs = vec![0usize; nodes.len()];
        let mut sound = outputs > 0 && nodes.iter().all(|node| node.value.len() == outputs);
        for (number, node) in nodes.iter().enumerate() {
            let Some(split) = node.split else { continue };
            sound &= split.feature < d && usize::from(split.threshold) + 1 < levels;
            for next in [split.low, split.high] {
                sound &= next > number && next < nodes.len();
                if let Some(count) = hangs.get_mut(next) {
                    *count += 1;
                }
            }
        }
        sound &= hangs.iter().skip(1).all(|count| *count == 1);
        match sound {
            true => Ok(Tree { nodes, d, levels }),
            false => Err(Error::data(
                "nodes of a tree",
                "they do not form one tree over these codes; fit one with Cart",
            )),
        }
    }

    /// The nodes by number.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Number of features that the tree was fitted to.
    pub fn d(&self) -> usize {
        self.d
    }

    /// Number of probabilities that it predicts.
    pub fn outputs(&self) -> usize {
        self.nodes[0].value.len()
    }

    /// Most questions in a row.
    pub fn depth(&self) -> usize {
        self.depths().into_iter().max().unwrap_or(0)
    }

    /// Questions on the way to each node.
    pub fn depths(&self) -> Vec<usize> {
        let mut depths = vec![0; self.nodes.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            if let Some(split) = node.split {
                (depths[split.low], depths[split.high]) = (depths[number] + 1, depths[number] + 1);
            }
        }
        depths
    }

    /// Number of leaves.
    pub fn leaves(&self) -> usize {
        self.nodes.iter().filter(|node| node.split.is_none()).count()
    }

    /// Whether another tree asks the same questions in the same places, whatever its values are.
    pub fn same_questions(&self, other: &Tree) -> bool {
        let questions = |tree: &Tree| -> Vec<Option<(usize, u8, usize, usize)>> {
            let of = |node: &Node| node.split.map(|s| (s.feature, s.threshold, s.low, s.high));
            tree.nodes.iter().map(of).collect()
        };
        questions(self) == questions(other)
    }

    /// Number of the leaf that each row ends in. Fails: `Shape` for other features or levels than the tree's.
    pub fn leaf_of(&self, codes: &Codes) -> Result<Vec<usize>> {
        ensure_shape("features and levels of codes", [self.d, self.levels], [codes.d(), codes.levels()])?;
        Ok(codes.rows().map(|row| self.leaf(row)).collect())
    }

    fn leaf(&self, row: &[u8]) -> usize {
        let mut at = 0;
        while let Some(split) = self.nodes[at].split {
            at = if row[split.feature] <= split.threshold { split.low } else { split.high };
        }
        at
    }

    /// Rows that pass through each node. Fails: as [`leaf_of`](Tree::leaf_of).
    pub fn rows_at(&self, codes: &Codes) -> Result<Vec<Vec<usize>>> {
        let mut rows = vec![Vec::new(); self.nodes.len()];
        for (i, leaf) in self.leaf_of(codes)?.into_iter().enumerate() {
            rows[leaf].push(i);
        }
        for number in (0..self.nodes.len()).rev() {
            if let Some(split) = self.nodes[number].split {
                let mut all = [&rows[split.low][..], &rows[split.high][..]].concat();
                all.sort_unstable();
                rows[number] = all;
            }
        }
        Ok(rows)
    }

    /// (n, outputs) Probabilities of each row: those of its leaf. Fails: as [`leaf_of`](Tree::leaf_of).
    pub fn predict(&self, codes: &Codes) -> Result<Array2<f64>> {
        let mut p = Array2::zeros((codes.n(), self.outputs()));
        for (mut row, leaf) in p.rows_mut().into_iter().zip(self.leaf_of(codes)?) {
            row.iter_mut().zip(&self.nodes[leaf].value).for_each(|(p, value)| *p = *value);
        }
        Ok(p)
    }

    /// Most probable class of each row, the first of equals. Fails: as [`leaf_of`](Tree::leaf_of).
    pub fn classify(&self, codes: &Codes) -> Result<Vec<u32>> {
        Ok(self.leaf_of(codes)?.into_iter().map(|leaf| self.nodes[leaf].class() as u32).collect())
    }

    /// Share of rows whose most probable class is their label. Fails: `Shape`.
    pub fn accuracy(&self, codes: &Codes, labels: &[u32]) -> Result<f64> {
        ensure_shape("labels of codes", codes.n(), labels.len())?;
        let right = self.classify(codes)?.iter().zip(labels).filter(|(said, label)| said == label).count();
        Ok(right as f64 / labels.len() as f64)
    }

    /// Mean loss of the leaves' probabilities T on rows with probabilities p: that which the criterion lowers.
    ///
    /// ```text
    /// Information   −Σ_c p_c ln T_c          Variance   ‖p − T‖²
    /// ```
    /// Shapes: `codes` (n, d), `p` (n, outputs). Infinite where a leaf excludes what happens; what is zero in the fixed point
    /// of a fit, p below 2⁻⁴¹, does not. Host: all of `p`. Fails: `Shape`.
    pub fn loss(&self, codes: &Codes, p: &(impl AsF64 + ?Sized), criterion: Criterion) -> Result<f64> {
        ensure_shape("probabilities of codes", vec![codes.n(), self.outputs()], p.sizes())?;
        let p = p.numbers()?;
        let each = |(row, leaf): (&[f64], usize)| -> f64 {
            let pairs = row.iter().zip(&self.nodes[leaf].value);
            match criterion {
                Criterion::Information => {
                    // A softmax has entries that no fit can see: a leaf of them alone says zero.
                    pairs.filter(|(p, _)| **p * ONE >= 0.5).map(|(p, t)| -p * t.ln()).sum()
                }
                Criterion::Variance => pairs.map(|(p, t)| (p - t) * (p - t)).sum(),
            }
        };
        let total: f64 = p.chunks_exact(self.outputs()).zip(self.leaf_of(codes)?).map(each).sum();
        Ok(total / codes.n() as f64)
    }
}

impl Node {
    /// Most probable class, the first of equals.
    pub fn class(&self) -> usize {
        let mut best = 0;
        for (class, p) in self.value.iter().enumerate() {
            if *p > self.value[best] {
                best = class;
            }
        }
        best
    }
}
