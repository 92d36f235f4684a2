//! Algorithm 1: every step meets heads it has never seen.

use std::collections::HashSet;

use candle_core::{D, Tensor, Var};

use crate::data::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::loss::{one_hot, soft_cross_entropy};
use crate::model::{Network, Split};
use crate::probe::ClassRows;
use crate::probe::WeakFit;
use crate::seed::Seed;
use crate::train::{Batch, Group, Method, Step};

/// Whether the backbone's gradient sees that the head depends on the features it was fitted to.
///
/// Book: `foca/ridge.md#eq-foca-ridge-total`, `#eq-foca-ridge-curl`.
///
/// ```
/// use lastlayer::prelude::*;
/// let others = Var::new(&[[0.0f64], [2.0]], &Device::Cpu)?;
/// let (z, y) = (Tensor::new(&[[1.5f64]], &Device::Cpu)?, Tensor::new(&[1u32], &Device::Cpu)?);
/// let reaches = |theta| -> Result<bool> {
///     let loss = Foca { k: 1, theta, ..Foca::default() }.loss(&others, &[0, 1], &z, &y, &[1, 1])?;
///     Ok(loss.backward()?.get(&others).is_some())
/// };
/// assert!(!reaches(ThetaGrad::Fixed)?); // the head is a constant
/// assert!(reaches(ThetaGrad::Through)?); // it depends on the samples it was fitted to
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ThetaGrad {
    /// No: the head is a constant, as in Algorithm 1. A semi-gradient.
    #[default]
    Fixed,
    /// Yes: the gradient of the whole map from features to fit to loss.
    Through,
}

/// Settings of training against weak heads that no step has seen before.
///
/// ```text
/// FocaTraining::new(&net, &train, Foca { k: 10, ..Foca::default() })?
/// ```
/// Checked by `tests/foca/training.rs`.
/// Book: `foca/anonymous.md#eq-foca-anon-exact`, `#eq-foca-anon-collapse`, `#eq-foca-anon-shares`.
///
/// ```
/// use lastlayer::prelude::*;
/// // A ridge head fitted to z = 0 of class 0 and z = 2 of class 1 says 5/6 for class 1 at z = 2.
/// let others = Tensor::new(&[[0.0f64], [2.0]], &Device::Cpu)?;
/// let (z, y) = (Tensor::new(&[[2.0f64]], &Device::Cpu)?, Tensor::new(&[1u32], &Device::Cpu)?);
/// let foca = Foca { k: 1, fit: WeakFit::RidgeSum(1.0), ..Foca::default() };
/// let loss = |counts: &[usize]| -> Result<f64> {
///     Ok(foca.loss(&others, &[0, 1], &z, &y, counts)?.to_scalar()?)
/// };
/// assert!((loss(&[50, 50])? - 2.0 / 36.0).abs() < 1e-12); // off by 1/6 in both columns
/// // In a set with a quarter of class 1 its samples count twice: half of the head's samples are of it.
/// assert!((loss(&[75, 25])? - 2.0 * 2.0 / 36.0).abs() < 1e-12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Foca {
    /// Samples of each class that a head is fitted to; their mean over the classes if `natural`.
    pub k: usize,
    /// Draws classes for a head by their shares in the training set, at least one sample of each, in place of k of each.
    pub natural: bool,
    /// How; the loss of the backbone is the same as that of the fit, without its penalty.
    pub fit: WeakFit,
    pub theta: ThetaGrad,
    /// Heads per step, each fitted to samples of its own; the loss is the mean of theirs.
    pub heads: usize,
    /// Leaves the samples that a head was fitted to out of the batch that it judges.
    pub disjoint: bool,
    /// Lets a sample be drawn twice, so that k may exceed a class.
    pub replacement: bool,
}

impl Default for Foca {
    fn default() -> Foca {
        Foca {
            k: 10,
            natural: false,
            fit: WeakFit::RidgeSum(1.0),
            theta: ThetaGrad::Fixed,
            heads: 1,
            disjoint: false,
            replacement: false,
        }
    }
}

/// A network in training against weak heads, which are drawn from a training set. Its own head is left alone: fit one to all
/// features when training is done, with [`LinearHead::install`](super::LinearHead::install).
///
/// ```
/// use lastlayer::prelude::*;
/// let data = arcs(40, 0.1, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[2, 4])?, 2, Seed::new(1), &Device::Cpu)?;
/// let mut training = FocaTraining::new(&net, &data, Foca { k: 3, heads: 2, ..Foca::default() })?;
/// let rows = training.draw(Seed::new(7))?;
/// assert_eq!(rows.len(), 3 * 2 * 2); // k of each class for each head
/// Trainer::adam(0.01).batch(20).silent().fit(&mut training, &data)?;
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FocaTraining {
    pub foca: Foca,
    net: Network,
    data: Dataset,
    rows: ClassRows,
}

impl Foca {
    /// Loss of features under heads fitted to others.
    ///
    /// ```text
    /// mean over heads and rows of v_y ‖Wᵀz + b − e_y‖², or of v_y times the cross entropy
    /// v_c = (share of class c in their_y) / (share of class c in counts)
    /// ```
    /// Shapes: `others` (heads · n, d), one head's rows after the other's, with their classes; `z` (m, d), `y` (m) of an
    /// integer dtype; `counts` has the samples of each class in the set from which `z` was drawn → scalar. A batch so
    /// weighted holds the classes, in the mean over batches, in the shares that the heads have seen: with others, all
    /// features would drift together. The gradient in `z` is that of constant heads; that in `others` is zero if `theta` is
    /// [`Fixed`](ThetaGrad::Fixed), and exact if it is [`Through`](ThetaGrad::Through). Host: `others`, but not for ridge
    /// heads on a device, where features that determine no head make the loss NaN. Fails: `Shape`, `Data` for a count of
    /// zero, and as [`WeakFit::fit`].
    /// Book: `foca/anonymous.md#eq-foca-anon-weights`, `foca/ridge.md#eq-foca-ridge-outer`.
    pub fn loss(
        &self,
        others: &Tensor,
        their_y: &[u32],
        z: &Tensor,
        y: &Tensor,
        counts: &[usize],
    ) -> Result<Tensor> {
        if let Some(class) = counts.iter().position(|count| *count == 0) {
            let why = format!("class {class} has no sample to be weighted");
            return Err(Error::data("counts of classes", why));
        }
        self.judge(others, their_y, z, y, &class_weights(their_y, counts))
    }

    /// That loss for given weights of the classes.
    fn judge(
        &self,
        others: &Tensor,
        their_y: &[u32],
        z: &Tensor,
        y: &Tensor,
        weights: &[f64],
    ) -> Result<Tensor> {
        let classes = weights.len();
        let (rows, d) = (their_y.len() / self.heads.max(1), z.dim(D::Minus1)?);
        if rows == 0 || rows * self.heads != their_y.len() {
            let expected = format!("as many rows for each of {} heads", self.heads);
            return Err(Error::shape("samples of weak heads", expected, their_y.len()));
        }
        ensure_shape("features of weak heads", &[their_y.len(), d][..], others.dims())?;
        let from = match self.theta {
            ThetaGrad::Fixed => others.detach(),
            ThetaGrad::Through => others.clone(),
        };
        // All heads side by side: one product gives every score, and each sample comes once for every head.
        let theta = self.fit.theta_of_each(&from, their_y, classes, self.heads)?;
        let scores = z.matmul(&theta.narrow(0, 0, d)?)?.broadcast_add(&theta.narrow(0, d, 1)?)?;
        let m = z.dim(0)?;
        ensure_shape("labels of features", &[m][..], y.dims())?;
        let scores = scores.reshape((m * self.heads, classes))?;
        let y = y.unsqueeze(1)?.broadcast_as((m, self.heads))?.flatten_all()?;
        let hot = one_hot(&y, classes, scores.dtype())?;
        let weights = Tensor::new(weights, z.device())?.to_dtype(scores.dtype())?;
        let weighted = hot.broadcast_mul(&weights)?;
        if self.fit.is_ridge() {
            let errors = (scores - hot)?.sqr()?.broadcast_mul(&weighted.sum_keepdim(1)?)?;
            Ok((errors.mean_all()? * classes as f64)?)
        } else {
            soft_cross_entropy(&scores, &weighted)
        }
    }
}

/// What a sample of each class counts, so that a batch from a set with these counts is to the heads as their own samples.
/// Exactly 1 where the shares are equal: both are the same fraction, rounded once. A class without samples is not met.
fn class_weights(their_y: &[u32], counts: &[usize]) -> Vec<f64> {
    let all: usize = counts.iter().sum();
    let weight = |(class, count): (usize, &usize)| {
        let theirs = their_y.iter().filter(|y| **y as usize == class).count();
        (theirs as f64 / their_y.len() as f64) / ((*count).max(1) as f64 / all as f64)
    };
    counts.iter().enumerate().map(weight).collect()
}

impl FocaTraining {
    /// A network and the training set from which heads are drawn.
    ///
    /// Host: the labels. Fails: `Data` if a class has no sample, `Config` for k or heads that are zero or need more samples
    /// than a class has, or a weight that cannot be.
    pub fn new(net: impl Into<Network>, data: &Dataset, foca: Foca) -> Result<FocaTraining> {
        if foca.heads == 0 {
            return Err(Error::config("heads per step", 0, "at least 1"));
        }
        foca.fit.check()?;
        let rows = ClassRows::new(&data.labels()?, data.k())?;
        let training = FocaTraining { foca, net: net.into(), data: data.clone(), rows };
        training.draw(Seed::new(0))?;
        Ok(training)
    }

    /// The network.
    pub fn net(&self) -> &Network {
        &self.net
    }

    /// Rows for the heads of a step, one head's after the other's; no row serves two heads.
    pub fn draw(&self, seed: Seed) -> Result<Vec<usize>> {
        let Foca { heads, replacement, .. } = self.foca;
        let each = self.each();
        let pool: Vec<usize> = each.iter().map(|k| k.saturating_mul(heads)).collect();
        let mut pool = self.rows.draw_each(&pool, replacement, seed.named("strangers"))?.into_iter();
        // From class by class to head by head.
        let mut own = vec![Vec::new(); heads];
        for k in each {
            own.iter_mut().for_each(|rows| rows.extend(pool.by_ref().take(k)));
        }
        Ok(own.concat())
    }

    /// How many samples of each class a head is fitted to.
    fn each(&self) -> Vec<usize> {
        let Foca { k, natural, .. } = self.foca;
        let by_share =
            |count: usize| (k as f64 * self.data.k() as f64 * count as f64 / self.data.n() as f64).round();
        let of_class = |count| if natural && k > 0 { (by_share(count) as usize).max(1) } else { k };
        self.rows.counts().into_iter().map(of_class).collect()
    }

    /// The classes of the rows that [`draw`](FocaTraining::draw) gives, whatever the seed: nobody has to look them up.
    fn classes_of_drawn(&self) -> Vec<u32> {
        let of_head: Vec<u32> =
            (0..).zip(self.each()).flat_map(|(class, k)| std::iter::repeat_n(class, k)).collect();
        of_head.repeat(self.foca.heads)
    }

    /// Shows the settings and the set.
    pub fn evcxr_display(&self) {
        let text = format!("{:?} on {}", self.foca, self.data.names.set);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// The groups of the network, of which only `bottom` is moved.
impl Method for FocaTraining {
    fn groups(&self) -> Vec<Group> {
        self.net.groups()
    }

    /// What the backbone minimises on a batch: its loss under heads that this step draws.
    ///
    /// Samples of the heads and of the batch pass through the backbone together, so that batch norm and dropout treat them
    /// alike. Host: as [`Foca::loss`]. Fails: as that.
    /// Book: `foca/ridge.md#eq-foca-ridge-surrogate`.
    fn step(&self, batch: &Batch) -> Result<Step> {
        let rows = self.draw(batch.seed)?;
        let their_y = self.classes_of_drawn();
        let theirs = self.data.subset(&rows)?;
        let z = self.net.features(&Tensor::cat(&[&theirs.inputs()?, &batch.x], 0)?, batch.pass())?;
        let (others, mut z) = (z.narrow(0, 0, rows.len())?, z.narrow(0, rows.len(), batch.rows.len())?);
        let mut y = batch.y.clone();
        let mut counts = self.rows.counts();
        if self.foca.disjoint {
            // What is judged comes from the rest of the set, which has other shares.
            let mut drawn = HashSet::new();
            for (row, class) in rows.into_iter().zip(&their_y) {
                counts[*class as usize] -= usize::from(drawn.insert(row));
            }
            let left: Vec<u32> =
                (0..).zip(&batch.rows).filter(|(_, row)| !drawn.contains(row)).map(|(i, _)| i).collect();
            if left.is_empty() {
                return Ok(Step::skip());
            }
            let left = Tensor::new(left, z.device())?;
            (z, y) = (z.index_select(&left, 0)?, y.index_select(&left, 0)?);
        }
        let loss = self.foca.judge(&others, &their_y, &z, &y, &class_weights(&their_y, &counts))?;
        Ok(Step::by_group(vec![("bottom", loss)]))
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        self.net.statistics()
    }

    fn identity(&self) -> String {
        format!("{} with {:?}", self.net.identity(), self.foca)
    }
}
