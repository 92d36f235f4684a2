//! Algorithm 1: a network that learns its labels and a tree that learns the network, on the same codes.

use std::cell::RefCell;

use candle_core::{D, DType, Device, Tensor, Var};
use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::loss::{log_softmax, one_hot, soft_cross_entropy};
use crate::model::{Layer, Network, Pass, Plan, Split, SplitNet};
use crate::numbers::to_tensor;
use crate::ops::Quantiser;
use crate::seed::Seed;
use crate::train::{Batch, Group, Method, State, Step};
use crate::tree::{Cart, Codes, Examples, Node, Tree};

/// Which norm of the codes is penalised.
///
/// ```
/// use lastlayer::intersection::Sparsity;
/// use lastlayer::prelude::*;
/// let codes = Tensor::new(&[[1.0f64, 2.0], [3.0, 0.0]], &Device::Cpu)?;
/// for (norm, expected) in [(Sparsity::L1, 3.0), (Sparsity::L2, 7.0)] {
///     let all = Agreement { norm, sparse: 1.0, share: 1.0, ..Agreement::default() };
///     assert_eq!(all.penalty(&codes, 100, Seed::new(1))?.to_scalar::<f64>()?, expected);
/// }
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sparsity {
    /// The sum of the codes.
    #[default]
    L1,
    /// The sum of their squares.
    L2,
}

/// What the sum of the penalty over a batch is divided by.
///
/// ```
/// use lastlayer::intersection::Divisor;
/// use lastlayer::prelude::*;
/// let codes = Tensor::new(&[[1.0f64, 2.0], [3.0, 0.0]], &Device::Cpu)?;
/// // A batch of 2 out of 100 samples.
/// for (over, expected) in [(Divisor::Batch, 6.0 / 2.0), (Divisor::Set, 6.0 / 100.0)] {
///     let all = Agreement { over, sparse: 1.0, share: 1.0, ..Agreement::default() };
///     let penalty = all.penalty(&codes, 100, Seed::new(1))?.to_scalar::<f64>()?;
///     assert!((penalty - expected).abs() < 1e-12);
/// }
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Divisor {
    /// The samples of the batch.
    #[default]
    Batch,
    /// The samples of the whole set, as the paper prints it: as many times less as there are batches.
    Set,
}

/// Settings of intersection regularisation.
///
/// ```text
/// label · CE(p; e_y) + tree · CE(p; T(v)) + sparse / |B| · Σ_i ‖v_i ⊙ M‖,     M_j = 1 with probability share, drawn each step
/// ```
/// `tree: 0.0, sparse: 0.0` is a quantised network, `tree: 0.0` the same with a penalty, `sparse: 0.0` with a tree only.
/// Checked by `tests/intersection/training.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let paper = Agreement::default(); // two parts label, one part tree
/// let (y, t) = (Tensor::new(&[0u32], &Device::Cpu)?, Tensor::new(&[[0.25f64, 0.75]], &Device::Cpu)?);
/// let target = paper.target(&y, Some(&t), 2, DType::F64)?.to_vec2::<f64>()?;
/// assert!((target[0][0] - 0.75).abs() < 1e-12);
/// // Scores that agree with the target have no gradient; here the loss is 3 times its entropy.
/// let s = Tensor::new(&[[3f64.ln(), 0.0]], &Device::Cpu)?;
/// let loss = paper.loss(&s, &y, Some(&t))?.to_scalar::<f64>()?;
/// assert!((loss + 3.0 * (0.75 * 0.75f64.ln() + 0.25 * 0.25f64.ln())).abs() < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// λ₁, weight of the labels.
    pub label: f64,
    /// λ₂, weight of the tree.
    pub tree: f64,
    /// λ₃, weight of the penalty on codes.
    pub sparse: f64,
    /// p, share of the features that are penalised in a step.
    pub share: f64,
    pub norm: Sparsity,
    pub over: Divisor,
    pub cart: Cart,
    /// Batches between fits of the tree.
    pub every: usize,
}

impl Default for Agreement {
    /// The paper's weights: 2, 1 and 0.001, half of the features, a fit in every batch.
    fn default() -> Agreement {
        Agreement {
            label: 2.0,
            tree: 1.0,
            sparse: 1e-3,
            share: 0.5,
            norm: Sparsity::L1,
            over: Divisor::Batch,
            cart: Cart::default(),
            every: 1,
        }
    }
}

impl Agreement {
    fn check(&self) -> Result<()> {
        let weights = [("label", self.label), ("tree", self.tree), ("sparse", self.sparse)];
        if let Some((field, got)) = weights.iter().find(|(_, w)| !(*w >= 0.0 && w.is_finite())) {
            return Err(Error::config(format!("weight {field} of an agreement"), got, "0 or more"));
        }
        if self.label + self.tree <= 0.0 {
            return Err(Error::config("weights label and tree", "0 and 0", "at least one above 0"));
        }
        if !(0.0..=1.0).contains(&self.share) {
            return Err(Error::config("share of penalised features", self.share, "0 to 1"));
        }
        if self.every == 0 {
            return Err(Error::config("batches between fits", 0, "at least 1"));
        }
        Ok(())
    }

    /// What the network is trained on: its label and the tree's answer, blended.
    ///
    /// ```text
    /// (label e_y + tree t)/(label + tree)
    /// ```
    /// Shapes: `y` (n) of an integer dtype, `t` (n, k) → (n, k). Without a tree's answer it is the label.
    /// Book: `intersection/classes.md#eq-int-classes-blend`.
    pub fn target(&self, y: &Tensor, t: Option<&Tensor>, classes: usize, dtype: DType) -> Result<Tensor> {
        let label = one_hot(y, classes, dtype)?;
        let Some(t) = t else { return Ok(label) };
        let share = self.tree / (self.label + self.tree);
        Ok(((label * (1.0 - share))? + (t.to_dtype(dtype)? * share)?)?)
    }

    /// Loss of scores against labels and the tree's answers.
    ///
    /// ```text
    /// label CE(softmax s; e_y) + tree CE(softmax s; t)      gradient in s: ((label + tree) p − label e_y − tree t)/n
    /// ```
    /// Shapes: `s` and `t` (n, k), `y` (n) of an integer dtype → scalar. `t` is a constant; without one its term is left out.
    /// Book: `intersection/classes.md#eq-int-classes-entropy`.
    pub fn loss(&self, s: &Tensor, y: &Tensor, t: Option<&Tensor>) -> Result<Tensor> {
        let t = t.map(Tensor::detach);
        let target = self.target(y, t.as_ref(), s.dim(D::Minus1)?, s.dtype())?;
        let weight = if t.is_some() { self.label + self.tree } else { self.label };
        Ok((soft_cross_entropy(s, &target)? * weight)?)
    }

    /// Penalty on the codes of a batch, on a random half of the features, or whatever share of them.
    ///
    /// Shapes: `codes` (n, d) → scalar. `samples` is the size of the whole set. Codes of zero take no gradient: they are as
    /// small as they can be. Host: the features are chosen there, d bytes.
    /// Book: `intersection/quantisers.md#eq-int-quant-blind`, `#eq-int-quant-sink`.
    pub fn penalty(&self, codes: &Tensor, samples: usize, seed: Seed) -> Result<Tensor> {
        let (n, d) = codes.dims2()?;
        let mask = seed.named("mask").uniform_tensor((1, d), (0.0, 1.0), DType::F64, &Device::Cpu)?;
        let mask = mask.lt(self.share)?.to_device(codes.device())?.to_dtype(codes.dtype())?;
        let present = codes.detach().gt(0.0)?.to_dtype(codes.dtype())?.broadcast_mul(&mask)?;
        let sizes = match self.norm {
            Sparsity::L1 => codes.clone(),
            Sparsity::L2 => codes.sqr()?,
        };
        let over = if self.over == Divisor::Batch { n } else { samples };
        Ok((sizes.mul(&present)?.sum_all()? * (self.sparse / over as f64))?)
    }
}

/// A network whose features are codes: a trunk, a quantiser, and a head with one hidden layer of Mish units.
///
/// The first weights of the head are drawn for numbers of size one and divided by the largest code. (To divide the codes
/// instead would slow the head down by that factor, and then a small penalty on codes is strong.) The trunk should end in a
/// ReLU: then code 0 says "absent". Fails: `Shape` unless the trunk ends in a vector, `Config`.
/// Book: `intersection/quantisers.md#eq-int-quant-head`.
///
/// ```
/// use lastlayer::prelude::*;
/// let net = code_net(zoo::mlp(&[2, 8])?, Quantiser::default(), 4, 3, Seed::new(1), &Device::Cpu)?;
/// assert_eq!((net.phi.output(), net.head.output()), (&[8][..], &[3][..]));
/// // In training the range is that of the batch: whole numbers from 0 to 15.
/// let x = Tensor::new(&[[1.0f32, 2.0], [-3.0, 0.5]], &Device::Cpu)?;
/// let codes = net.features(&x, Pass::Train(Seed::new(1)))?.flatten_all()?.to_vec1::<f32>()?;
/// assert!(codes.iter().all(|code| (0.0..=15.0).contains(code) && code.fract() == 0.0));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn code_net(
    trunk: Plan,
    quantiser: Quantiser,
    hidden: usize,
    classes: usize,
    seed: Seed,
    device: &Device,
) -> Result<SplitNet> {
    quantiser.check()?;
    let mut phi = trunk;
    phi.layers.push(("quantise".to_string(), Layer::Quantise(quantiser)));
    let head = [
        ("hidden", Layer::Linear { width: hidden, bias: true }),
        ("mish", Layer::Mish),
        ("scores", Layer::Linear { width: classes, bias: true }),
    ];
    let head = head.into_iter().map(|(name, layer)| (name.to_string(), layer)).collect();
    let net = SplitNet::with_head(phi, head, seed, DType::F32, device)?;
    if let Some(weight) = net.head.parameters().get("hidden.weight") {
        weight.set(&(weight.as_tensor() / (quantiser.levels() - 1) as f64)?)?;
    }
    Ok(net)
}

/// The codes of a set. Host: all of them. Fails: `Config` if the backbone does not end in a quantiser.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = arcs(30, 0.1, Seed::new(1), &Device::Cpu)?;
/// let quantiser = Quantiser { bits: 2, range: Range::Batch, ..Quantiser::default() };
/// let net = code_net(zoo::mlp(&[2, 8])?, quantiser, 4, 2, Seed::new(1), &Device::Cpu)?;
/// let codes = codes_of(&net, &data)?;
/// assert_eq!((codes.n(), codes.d(), codes.levels()), (30, 8, 4));
/// let plain = SplitNet::new(zoo::mlp(&[2, 8])?, 2, Seed::new(1), &Device::Cpu)?;
/// assert!(codes_of(&plain, &data).is_err()); // has no codes
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn codes_of(net: &(impl Split + ?Sized), data: &Dataset) -> Result<Codes> {
    Codes::of(&net.features_of(data)?, quantiser(net)?.levels())
}

/// The quantiser at the end of a backbone.
fn quantiser(net: &(impl Split + ?Sized)) -> Result<Quantiser> {
    match net.as_split_net().and_then(|net| net.phi.plan().layers.last()) {
        Some((_, Layer::Quantise(quantiser))) => Ok(*quantiser),
        _ => {
            let allowed = "one that ends in Layer::Quantise, see code_net; or Intersection::with_levels";
            Err(Error::config("backbone", "without codes", allowed))
        }
    }
}

/// A network, the tree that follows it, and what either has seen in this epoch.
///
/// ```text
/// let mut both = Intersection::new(&net, &train, Agreement::default())?;
/// trainer.fit(&mut both, &train)?;
/// let tree = both.final_tree(&train)?;
/// ```
/// Checked by `tests/intersection/training.rs`.
/// Book: `intersection/classes.md#eq-int-classes-shares`, `#eq-int-classes-ledger`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = arcs(40, 0.1, Seed::new(1), &Device::Cpu)?;
/// let net = code_net(zoo::mlp(&[2, 8])?, Quantiser::default(), 8, 2, Seed::new(1), &Device::Cpu)?;
/// let mut both = Intersection::new(&net, &data, Agreement::default())?;
/// assert!(both.tree().is_none()); // none before the first batch
/// Trainer::adam(0.01).batch(20).silent().fit(&mut both, &data)?;
/// let tree = both.tree().expect("a tree");
/// assert_eq!((tree.d(), tree.outputs()), (8, 2));
/// assert_eq!(both.codes(&data)?.n(), 40);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Intersection {
    pub agreement: Agreement,
    net: Network,
    levels: usize,
    samples: usize,
    /// Epoch from 1, the step that comes next, and how many rows and batches of the epoch have been seen.
    place: [usize; 4],
    /// S′: so many rows as have been seen, then those of a step that is not over, which do not count yet.
    examples: RefCell<Option<Examples>>,
    /// T.
    tree: Option<Tree>,
}

/// What a step taught: where it ends, and T.
struct Lesson {
    place: [usize; 4],
    tree: Tree,
}

impl Intersection {
    /// Training of a network on a set.
    ///
    /// Fails: `Config` for settings that cannot be or a backbone that does not end in a quantiser, `Shape` unless the head
    /// has a score for each class.
    pub fn new(net: impl Into<Network>, data: &Dataset, agreement: Agreement) -> Result<Intersection> {
        let net = net.into();
        let levels = quantiser(&net)?.levels();
        Intersection::with_levels(&net, levels, data, agreement)
    }

    /// Training of a network of your own, whose features are whole numbers below `levels`, with gradients that pass straight
    /// through the rounding: see [`Quantiser::forward`]. Fails: as [`new`](Intersection::new).
    ///
    /// ```
    /// use lastlayer::prelude::*;
    /// let data = arcs(40, 0.1, Seed::new(1), &Device::Cpu)?;
    /// let quantiser = Quantiser { range: Range::Batch, ..Quantiser::default() };
    /// let net = code_net(zoo::mlp(&[2, 8])?, quantiser, 8, 2, Seed::new(1), &Device::Cpu)?;
    /// let both = Intersection::with_levels(&net, quantiser.levels(), &data, Agreement::default())?;
    /// assert_eq!(both.codes(&data)?.levels(), 16);
    /// # Ok::<(), lastlayer::error::Error>(())
    /// ```
    pub fn with_levels(
        net: impl Into<Network>,
        levels: usize,
        data: &Dataset,
        agreement: Agreement,
    ) -> Result<Intersection> {
        agreement.check()?;
        let net = net.into();
        net.ensure_scores("scores of a code network", data.k())?;
        let (place, examples) = ([0; 4], RefCell::default());
        Ok(Intersection { agreement, net, levels, samples: data.n(), place, examples, tree: None })
    }

    /// The network.
    pub fn net(&self) -> &Network {
        &self.net
    }

    /// Adds a batch to S′, which begins anew with each epoch and each run, and refits T if it is time to: after every so many
    /// batches, after the last of an epoch, and if there is none yet.
    fn learnt(&self, batch: &Batch, codes: &Codes, p: &Tensor) -> Result<Lesson> {
        // Steps only go back where another run begins.
        let [epoch, next, rows, batches] = self.place;
        let goes_on = epoch == batch.epoch + 1 && batch.step >= next;
        let [rows, batches] = if goes_on { [rows, batches + 1] } else { [0, 1] };
        let after = rows + codes.n();
        if after > self.samples {
            let expected =
                format!("at most {}; make the intersection for the set that it is trained on", self.samples);
            return Err(Error::shape("rows of an epoch", expected, after));
        }
        let mut examples = self.examples.borrow_mut();
        let examples = examples.get_or_insert(Examples::new(codes.d(), self.levels, p.dim(1)?)?);
        examples.truncate(rows);
        examples.push(codes, p)?;
        let due = batches.is_multiple_of(self.agreement.every) || after == self.samples;
        let tree = match &self.tree {
            Some(tree) if !due => tree.clone(),
            _ => self.agreement.cart.fit_examples(examples)?,
        };
        Ok(Lesson { place: [batch.epoch + 1, batch.step + 1, after, batches], tree })
    }

    /// The tree of the last fit in training; none before the first batch, or without a weight for it.
    pub fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref()
    }

    /// The tree fitted once to the codes that the network now gives to a whole set, and to its probabilities there.
    ///
    /// Host: all codes and probabilities.
    pub fn final_tree(&self, data: &Dataset) -> Result<Tree> {
        let z = self.net.features_of(data)?;
        let p = log_softmax(&self.net.scores(&z, Pass::Eval)?)?.exp()?;
        self.agreement.cart.fit(&Codes::of(&z, self.levels)?, &p)
    }

    /// The codes of a set. Host: all of them.
    pub fn codes(&self, data: &Dataset) -> Result<Codes> {
        Codes::of(&self.net.features_of(data)?, self.levels)
    }

    /// Share of a set that the network gets right. Host: one number.
    pub fn accuracy(&self, data: &Dataset) -> Result<f64> {
        let said = self.net.scores_of(data)?.argmax(D::Minus1)?;
        let right = said.eq(&data.y.to_dtype(said.dtype())?)?.to_dtype(DType::F64)?;
        Ok(right.mean_all()?.to_scalar::<f64>()?)
    }

    /// Shows the settings.
    pub fn evcxr_display(&self) {
        let text = format!("{:?} on {} samples", self.agreement, self.samples);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// The groups of the network, `bottom` and `last`.
impl Method for Intersection {
    fn groups(&self) -> Vec<Group> {
        self.net.groups()
    }

    /// What a batch asks of backbone and head: one backward pass for both losses. The penalty does not reach the head.
    ///
    /// The tree is fitted to all codes of the epoch so far, this batch's included, with the network's own probabilities, and
    /// its answers are constants. Codes of earlier batches are as they were then. Host: codes and probabilities of the
    /// batch, to which the tree is fitted; back go the tree's values and the leaf of each sample.
    /// Fails: as the network, and `Data` if features are not finite.
    fn step(&self, batch: &Batch) -> Result<Step> {
        let z = self.net.features(&batch.x, batch.pass())?;
        let s = self.net.scores(&z, batch.pass())?;
        let (mut answers, mut lesson) = (None, None);
        if self.agreement.tree > 0.0 {
            let (codes, p) = (Codes::of(&z, self.levels)?, log_softmax(&s.detach())?.exp()?);
            let learnt = self.learnt(batch, &codes, &p.to_dtype(DType::F32)?)?;
            answers = Some(values_of(&learnt.tree, &codes, &s)?);
            lesson = Some(learnt);
        }
        let mut loss = self.agreement.loss(&s, &batch.y, answers.as_ref())?;
        if self.agreement.sparse > 0.0 {
            loss = (loss + self.agreement.penalty(&z, self.samples, batch.seed)?)?;
        }
        Ok(lesson.into_iter().fold(Step::new(loss), Step::carry))
    }

    /// From here on the rows of the batch count.
    fn after(&mut self, _batch: &Batch, step: &Step) -> Result<()> {
        if let Some(Lesson { place, tree }) = step.carried() {
            (self.place, self.tree) = (*place, Some(tree.clone()));
        }
        Ok(())
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        self.net.statistics()
    }

    fn state(&self) -> Result<State> {
        let mut state = State::default();
        let rows = self.place[2]; // none if the first step failed
        if let Some(examples) = self.examples.borrow_mut().as_mut().filter(|_| rows > 0) {
            examples.truncate(rows);
            state.tensors = examples.tensors()?.into();
        }
        let nodes = self.tree.as_ref().map(|tree| (tree.nodes(), tree.d()));
        state.notes = serde_json::json!({ "place": self.place, "tree": nodes });
        Ok(state)
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        #[derive(Deserialize)]
        struct Notes {
            place: [usize; 4],
            tree: Option<(Vec<Node>, usize)>,
        }
        let Notes { place, tree } = serde_json::from_value(state.notes.clone()).map_err(|e| {
            Error::data("state of an intersection", format!("it does not say where it stands ({e})"))
        })?;
        let tree = tree.map(|(nodes, d)| Tree::new(nodes, d, self.levels)).transpose()?;
        let examples = match state.tensors.is_empty() {
            true => None,
            false => Some(Examples::from_tensors(&state.tensors, self.levels)?),
        };
        (self.place, self.tree, self.examples) = (place, tree, RefCell::new(examples));
        Ok(())
    }

    fn identity(&self) -> String {
        format!("{} with codes below {} and {:?}", self.net.identity(), self.levels, self.agreement)
    }
}

/// (n, classes) What a tree says of codes, like the scores `s`. A row says its leaf and not the answer there, which many share.
fn values_of(tree: &Tree, codes: &Codes, s: &Tensor) -> Result<Tensor> {
    let values: Vec<f64> = tree.nodes().iter().flat_map(|node| node.value.iter().copied()).collect();
    let values = to_tensor(values, (tree.nodes().len(), tree.outputs()), s.dtype(), s.device())?;
    let leaves: Vec<u32> = tree.leaf_of(codes)?.into_iter().map(|leaf| leaf as u32).collect();
    Ok(values.index_select(&Tensor::new(leaves, s.device())?, 0)?)
}
