//! A tree whose questions are probabilities, trained by gradient (Frosst and Hinton, 2017).

use candle_core::{D, DType, Device, Tensor, Var};

use super::Codes;
use crate::error::{Error, Result, ensure_shape};
use crate::loss::{log_softmax, one_hot};
use crate::model::{Init, Net, Pass, Plan, nudged, zoo};
use crate::seed::Seed;
use crate::train::{Batch, Group, Method, Step};

/// How a soft tree predicts.
///
/// ```
/// use lastlayer::prelude::*;
/// let tree = SoftTree::new(2, 3, 2, Seed::new(1), &Device::Cpu)?;
/// let x = Tensor::new(&[[1.0f32, -1.0]], &Device::Cpu)?;
/// let all = tree.paths(&x)?.matmul(&tree.leaves()?)?.to_vec2::<f32>()?;
/// assert_eq!(tree.predict(&x, SoftReading::Average)?.to_vec2::<f32>()?, all);
/// // One path: the answer is that of a single leaf.
/// let one = tree.predict(&x, SoftReading::MostProbable)?.to_vec2::<f32>()?;
/// assert!(tree.leaves()?.to_vec2::<f32>()?.contains(&one[0]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SoftReading {
    /// The distribution of the most probable leaf: one path, which can be read.
    #[default]
    MostProbable,
    /// The mean of all leaves, weighted by their probabilities.
    Average,
}

/// A complete binary tree of linear questions.
///
/// ```text
/// p_i = σ(β (w_i · x + b_i)) goes right at inner node i;  P_l = product of p_i or 1 − p_i along the path to leaf l
/// loss = −Σ_l P_l Σ_c t_c ln Q_lc + balance Σ_i 2^{−depth i} · (−½)(ln a_i + ln(1 − a_i))
/// a_i  = Σ_x P_i(x) p_i(x) / Σ_x P_i(x)
/// ```
/// Differs: the paper prints −ln of the sum, the logarithm of a negative number; this is the cross entropy it describes.
/// The penalty keeps questions from sending everybody the same way; a_i is over the batch. Runs on any device.
/// Checked by `tests/tree/soft.rs`.
/// Book: `intersection/trees.md#eq-int-tree-paths`, `intersection/classes.md#eq-int-classes-gate`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = arcs(60, 0.1, Seed::new(1), &Device::Cpu)?;
/// let mut tree = SoftTree::new(2, 2, 3, Seed::new(1), &Device::Cpu)?;
/// Trainer::adam(0.1).epochs(20).batch(20).silent().fit(&mut tree, &data)?;
/// let paths = tree.paths(&data.x)?; // a distribution over 8 leaves for each sample
/// assert!(paths.sum(1)?.to_vec1::<f32>()?.iter().all(|total| (total - 1.0).abs() < 1e-5));
/// let said = ClassScores::new(&tree.predict(&data.x, SoftReading::Average)?, &data.y)?;
/// assert!(said.accuracy() > 0.75);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SoftTree {
    depth: usize,
    /// β: how sharp questions are.
    pub sharpness: f64,
    /// Weight of the penalty on one-sided questions.
    pub balance: f64,
    questions: Net,
    /// (leaves, classes) Scores of the classes in each leaf.
    leaves: Var,
}

/// Deepest soft tree: every sample visits all of its leaves.
const DEEPEST: usize = 12;
/// Keeps the logarithm of a share finite.
const SMALLEST: f64 = 1e-6;

impl SoftTree {
    /// A tree of a depth on vectors of `d` numbers, drawn from a seed; sharpness 1, balance 0.1.
    ///
    /// Fails: `Config` unless the depth is 1 to 12 and there are inputs and classes.
    pub fn new(d: usize, classes: usize, depth: usize, seed: Seed, device: &Device) -> Result<SoftTree> {
        SoftTree::with_dtype(d, classes, depth, seed, DType::F32, device)
    }

    /// Tree whose numbers are of a type of your choice, such as f64 for exact checks.
    ///
    /// Fails: as [`new`](SoftTree::new).
    pub fn with_dtype(
        d: usize,
        classes: usize,
        depth: usize,
        seed: Seed,
        dtype: DType,
        device: &Device,
    ) -> Result<SoftTree> {
        if !(1..=DEEPEST).contains(&depth) || d == 0 || classes == 0 {
            let got = format!("depth {depth}, {d} inputs, {classes} classes");
            return Err(Error::config("soft tree", got, format!("depth 1 to {DEEPEST}, inputs and classes")));
        }
        let layers = zoo::linear((1 << depth) - 1, true);
        let plan = Plan { input: vec![d], layers, init: Init::Uniform };
        let leaves =
            seed.named("leaves").uniform_tensor((1 << depth, classes), (-1.0, 1.0), dtype, device)?;
        Ok(SoftTree {
            depth,
            sharpness: 1.0,
            balance: 0.1,
            questions: Net::new(plan, seed.named("questions"), dtype, device)?,
            leaves: Var::from_tensor(&nudged(leaves, seed.named("leaves"))?)?,
        })
    }

    /// Most questions in a row.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// (n, inner nodes) Probability of going right at every inner node, breadth first.
    ///
    /// Shapes: `x` (n, d).
    pub fn questions(&self, x: &Tensor) -> Result<Tensor> {
        Ok(candle_nn::ops::sigmoid(&(self.questions.forward(x, Pass::Eval)? * self.sharpness)?)?)
    }

    /// Probability of being at each node of every level, root first, and of going right from it.
    fn walk(&self, x: &Tensor) -> Result<(Vec<[Tensor; 2]>, Tensor)> {
        let right = self.questions(x)?;
        let n = right.dim(0)?;
        let mut reach = Tensor::ones((n, 1), right.dtype(), right.device())?;
        let mut levels = Vec::new();
        for level in 0..self.depth {
            let p = right.narrow(1, (1 << level) - 1, 1 << level)?;
            let ways = Tensor::stack(&[reach.mul(&p.affine(-1.0, 1.0)?)?, reach.mul(&p)?], 2)?;
            levels.push([reach, p]);
            reach = ways.reshape((n, 2 << level))?;
        }
        Ok((levels, reach))
    }

    /// (n, leaves) Probability of ending in each leaf, from the left.
    pub fn paths(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.walk(x)?.1)
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.leaves.dims()[1]
    }

    /// (leaves, classes) Distributions of the leaves.
    pub fn leaves(&self) -> Result<Tensor> {
        Ok(log_softmax(&self.leaves)?.exp()?)
    }

    /// Loss on inputs and target probabilities, and the penalty on one-sided questions, apart from each other.
    ///
    /// Shapes: `x` (n, d), `t` (n, classes) → two scalars. Fails: `Shape`.
    /// Book: `intersection/trees.md#eq-int-tree-soft-loss`, `#eq-int-tree-balance`.
    pub fn losses(&self, x: &Tensor, t: &Tensor) -> Result<[Tensor; 2]> {
        ensure_shape("targets of a soft tree", &[x.dim(0)?, self.classes()][..], t.dims())?;
        let (levels, paths) = self.walk(x)?;
        let each = t.to_dtype(paths.dtype())?.matmul(&log_softmax(&self.leaves)?.t()?)?;
        let loss = paths.mul(&each)?.sum(D::Minus1)?.mean_all()?.neg()?;
        let mut penalty = Tensor::zeros((), paths.dtype(), paths.device())?;
        for (level, [reach, p]) in levels.iter().enumerate() {
            let share = reach.mul(p)?.sum(0)?.div(&(reach.sum(0)? + SMALLEST)?)?;
            let share = share.affine(1.0 - 2.0 * SMALLEST, SMALLEST)?;
            let logs = (share.log()? + share.affine(-1.0, 1.0)?.log()?)?.sum_all()?;
            penalty = (penalty + (logs * (-0.5 / f64::from(1u32 << level)))?)?;
        }
        Ok([loss, penalty])
    }

    /// (n, classes) Probabilities. Shapes: `x` (n, d).
    pub fn predict(&self, x: &Tensor, reading: SoftReading) -> Result<Tensor> {
        let (paths, leaves) = (self.paths(x)?, self.leaves()?);
        match reading {
            SoftReading::Average => Ok(paths.matmul(&leaves)?),
            SoftReading::MostProbable => Ok(leaves.index_select(&paths.argmax(D::Minus1)?, 0)?),
        }
    }

    /// Which way each sample goes at every inner node, 0 left and 1 right: what of a soft tree can be read as features.
    ///
    /// Shapes: `x` (n, d) → (n, inner nodes). Host: the answers.
    pub fn answers(&self, x: &Tensor) -> Result<Codes> {
        Codes::new(&self.questions(x)?.gt(0.5)?.to_dtype(DType::F64)?, 2)
    }

    /// Shows the size.
    pub fn evcxr_display(&self) {
        let text = format!(
            "soft tree: {} questions, {} leaves, {} classes",
            (1 << self.depth) - 1,
            1 << self.depth,
            self.classes()
        );
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// Two groups, `questions` and `leaves`.
impl Method for SoftTree {
    fn groups(&self) -> Vec<Group> {
        let leaves = Group::new("leaves", vec![("scores".to_string(), self.leaves.clone())]);
        vec![self.questions.group("questions"), leaves]
    }

    /// Loss and penalty of a batch, its images read as vectors.
    fn step(&self, batch: &Batch) -> Result<Step> {
        let x = batch.x.flatten_from(1)?;
        let t = one_hot(&batch.y, self.classes(), x.dtype())?;
        let [loss, penalty] = self.losses(&x, &t)?;
        Ok(Step::new((loss + (penalty * self.balance)?)?))
    }

    fn identity(&self) -> String {
        format!("soft tree {} {} {}", self.depth, self.sharpness, self.balance)
    }
}
