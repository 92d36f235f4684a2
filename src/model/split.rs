//! The line between features and decision: what a network must say of it, and how any network is held.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::VarMap;

use super::layer::Layer;
use super::net::{Init, Net, Pass, Plan};
use super::zoo;
use crate::data::{Dataset, numbers};
use crate::error::{Error, Result};
use crate::seed::Seed;
use crate::table::{Cell, Table};
use crate::train::Group;

/// A network with a line in it: what its features and its scores are, and which parameters lie on which side.
///
/// ```text
/// z = features(x)  (n, d)      s = scores(z)  (n, k), or (n) for a single score
/// ```
/// [`SplitNet`] is one by a plan. A network of your own takes these four functions, or [`split`] around a model of candle's;
/// every method, [`Trainer`](crate::train::Trainer) and [`Predictor`](super::Predictor) takes it. Copies should share
/// parameters. Of what follows from the four, a [`Network`] takes only [`forward`](Split::forward) and
/// [`groups`](Split::groups) from you, if you have your own. Book: `measures/features.md#eq-features-line`.
///
/// ```
/// use lastlayer::prelude::*;
/// /// Features of a layer that no plan knows.
/// #[derive(Clone)]
/// struct Waves(Var, Var);
/// impl Split for Waves {
///     fn features(&self, x: &Tensor, _: Pass) -> Result<Tensor> {
///         Ok(x.matmul(&self.0)?.sin()?)
///     }
///     fn scores(&self, z: &Tensor, _: Pass) -> Result<Tensor> {
///         Ok(z.matmul(&self.1)?)
///     }
///     fn bottom(&self) -> Vec<(String, Var)> {
///         vec![("frequencies".to_string(), self.0.clone())]
///     }
///     fn last(&self) -> Vec<(String, Var)> {
///         vec![("weight".to_string(), self.1.clone())]
///     }
/// }
/// let seed = Seed::new(1);
/// let draw = |shape: (usize, usize), name: &str| -> Result<Var> {
///     let first = seed.named(name).normal_tensor(shape, (0.0, 0.5), DType::F32, &Device::Cpu)?;
///     Ok(Var::from_tensor(&first)?)
/// };
/// let net = Waves(draw((6, 16), "phi")?, draw((16, 1), "head")?);
/// let data = Gaussians::a().sample(200, seed, &Device::Cpu)?;
/// let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
/// let mut training = RateTraining::method1(&net, &goal)?;
/// Trainer::adam(0.01).batch(100).silent().fit(&mut training, &data)?;
/// assert_eq!(training.net().scores_of(&data)?.dims(), [200]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub trait Split {
    /// Features of a batch. Shapes: `x` (n, …) → (n, d).
    fn features(&self, x: &Tensor, pass: Pass) -> Result<Tensor>;

    /// Scores of features. Shapes: `z` (n, d) → (n, k); a single score may be (n).
    fn scores(&self, z: &Tensor, pass: Pass) -> Result<Tensor>;

    /// Parameters below the line, by name.
    fn bottom(&self) -> Vec<(String, Var)>;

    /// Parameters above it.
    fn last(&self) -> Vec<(String, Var)>;

    /// Running means and the like, which a forward pass in training moves without a gradient.
    fn statistics(&self) -> Vec<(String, Var)> {
        Vec::new()
    }

    /// What tells it from a network with parameters of the same names and shapes.
    fn identity(&self) -> String {
        String::new()
    }

    /// The network by its plan, if it has one.
    fn as_split_net(&self) -> Option<&SplitNet> {
        None
    }

    /// Scores of a batch, straight through. Shapes: `x` (n, …) → (n, k) or (n).
    fn forward(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        self.scores(&self.features(x, pass)?, pass)
    }

    /// Features of a whole set in evaluation, a batch at a time.
    fn features_of(&self, data: &Dataset) -> Result<Tensor> {
        in_pieces(&data.x, self.first().as_ref(), |x| self.features(x, Pass::Eval))
    }

    /// Scores of a whole set in evaluation, a batch at a time.
    fn scores_of(&self, data: &Dataset) -> Result<Tensor> {
        self.scores_of_inputs(&data.x)
    }

    /// Scores of many samples in evaluation, a batch at a time. Images may be u8.
    fn scores_of_inputs(&self, x: &Tensor) -> Result<Tensor> {
        in_pieces(x, self.first().as_ref(), |x| self.forward(x, Pass::Eval))
    }

    /// A set as the head sees it: features in place of inputs, everything else as it was.
    ///
    /// With [`head_alone`](SplitNet::head_alone) the last layer is trained without running the backbone again and again.
    fn feature_set(&self, data: &Dataset) -> Result<Dataset> {
        Ok(Dataset { x: self.features_of(data)?, ..data.clone() })
    }

    /// Its first parameter, which tells type and device of all.
    fn first(&self) -> Option<Var> {
        self.last().into_iter().chain(self.bottom()).next().map(|(_, var)| var)
    }

    /// Parameters and statistics as files name them: `phi.` below the line, `head.` above it.
    fn named(&self) -> BTreeMap<String, Var> {
        all(self).collect()
    }

    /// The groups `bottom` and `last`, without a side that has no parameters.
    fn groups(&self) -> Vec<Group> {
        let group = |(name, mut vars): (&str, Vec<(String, Var)>)| {
            vars.sort_by(|a, b| a.0.cmp(&b.0));
            Group::new(name, vars)
        };
        let both = [("bottom", self.bottom()), ("last", self.last())].map(group);
        both.into_iter().filter(|group| !group.vars.is_empty()).collect()
    }
}

/// Any network with a line in it, as methods hold it; copies share parameters. Made of a reference to what is
/// [`Split`]: `Network::from(&net)`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(20, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let held = Network::from(&net);
/// assert_eq!(held.scores_of(&data)?.to_vec1::<f32>()?, net.scores_of(&data)?.to_vec1::<f32>()?);
/// net.last()[1].1.set(&Tensor::new(&[7.0f32], &Device::Cpu)?)?; // the bias, after the weight
/// assert_eq!(held.last()[1].1.to_vec1::<f32>()?, [7.0]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone)]
pub struct Network(Arc<dyn Split + Send + Sync>);

impl<T: Split + Clone + Send + Sync + 'static> From<&T> for Network {
    fn from(net: &T) -> Network {
        Network(Arc::new(net.clone()))
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names: Vec<String> = self.named().into_keys().collect();
        write!(f, "Network {{ {} }}", names.join(", "))
    }
}

impl Split for Network {
    fn features(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        self.0.features(x, pass)
    }

    fn scores(&self, z: &Tensor, pass: Pass) -> Result<Tensor> {
        single(self.0.scores(z, pass)?)
    }

    fn bottom(&self) -> Vec<(String, Var)> {
        self.0.bottom()
    }

    fn last(&self) -> Vec<(String, Var)> {
        self.0.last()
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        self.0.statistics()
    }

    fn identity(&self) -> String {
        self.0.identity()
    }

    fn as_split_net(&self) -> Option<&SplitNet> {
        self.0.as_split_net()
    }

    fn forward(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        single(self.0.forward(x, pass)?)
    }

    fn groups(&self) -> Vec<Group> {
        self.0.groups()
    }
}

impl Network {
    /// Shows both sides of the line.
    pub fn evcxr_display(&self) {
        let row = |name: &str, vars: Vec<(String, Var)>| {
            let names: Vec<&str> = vars.iter().map(|(name, _)| name.as_str()).collect();
            let size: usize = vars.iter().map(|(_, var)| var.elem_count()).sum();
            vec![Cell::from(name), names.join(", ").into(), size.into()]
        };
        let table = Table::new(&["side", "names", "parameters"])
            .row(row("bottom", self.bottom()))
            .and_then(|table| table.row(row("last", self.last())));
        if let Ok(table) = table {
            table.evcxr_display();
        }
    }

    /// Fails: `Shape` if a network by a plan has another number of scores. Others are found out by their first batch.
    pub(crate) fn ensure_scores(&self, what: &str, k: usize) -> Result<()> {
        match self.as_split_net().map(|net| net.head.output()) {
            Some(output) if output != [k] => {
                let expected = if k == 1 {
                    "[1], one score per sample".to_string()
                } else {
                    format!("[{k}], one for each class or attribute")
                };
                Err(Error::shape(what, expected, format!("{output:?}")))
            }
            _ => Ok(()),
        }
    }
}

/// A function of a tensor, as candle's models have it.
type Forward = dyn Fn(&Tensor, Pass) -> candle_core::Result<Tensor> + Send + Sync;

/// A model of candle's, with the line drawn by the names of its parameters.
#[derive(Clone)]
struct ByNames {
    bottom: Vec<(String, Var)>,
    last: Vec<(String, Var)>,
    statistics: Vec<(String, Var)>,
    phi: Arc<Forward>,
    head: Arc<Forward>,
}

/// A network of any model of candle's: what is named `phi.…` in the map lies below the line, `head.…` above.
///
/// Running means and variances of a batch norm are statistics, not parameters. In a notebook, functions do not outlive
/// their cell: implement [`Split`] for a type of your own there. Fails: `Config` if a side has no parameters, or for another
/// name.
///
/// ```
/// use lastlayer::prelude::*;
/// let vars = VarMap::new();
/// let make = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
/// let hidden = candle_nn::linear(6, 8, make.pp("phi"))?;
/// let top = candle_nn::linear(8, 1, make.pp("head"))?;
/// let net = split(&vars, move |x, _| hidden.forward(x)?.relu(), move |z, _| top.forward(z))?;
/// let data = Gaussians::a().sample(100, Seed::new(1), &Device::Cpu)?;
/// let mut logistic = Minimise::new(&net, |b| bce_logits(&net.forward(&b.x, b.pass())?, &b.y));
/// let run = Trainer::adam(0.01).epochs(9).silent().fit(&mut logistic, &data)?;
/// let loss = run.history.values("loss")?;
/// assert!(loss[8] < loss[0]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn split(
    vars: &VarMap,
    phi: impl Fn(&Tensor, Pass) -> candle_core::Result<Tensor> + Send + Sync + 'static,
    head: impl Fn(&Tensor, Pass) -> candle_core::Result<Tensor> + Send + Sync + 'static,
) -> Result<Network> {
    let (mut bottom, mut last, mut statistics) = (Vec::new(), Vec::new(), Vec::new());
    let all: BTreeMap<String, Var> =
        vars.data().lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone().into_iter().collect();
    for (name, var) in all {
        if name.ends_with("running_mean") || name.ends_with("running_var") {
            statistics.push((name, var));
        } else if let Some(own) = name.strip_prefix("phi.") {
            bottom.push((own.to_string(), var));
        } else if let Some(own) = name.strip_prefix("head.") {
            last.push((own.to_string(), var));
        } else {
            let allowed = "phi.… below the line, head.… above; see VarBuilder::pp";
            return Err(Error::config("name of a parameter", name, allowed));
        }
    }
    for (name, side) in [("phi", &bottom), ("head", &last)] {
        if side.is_empty() {
            let allowed = format!("at least one; make its layers with the VarBuilder's pp(\"{name}\")");
            return Err(Error::config(format!("parameters named {name}.…"), "none", allowed));
        }
    }
    Ok(Network::from(&ByNames { bottom, last, statistics, phi: Arc::new(phi), head: Arc::new(head) }))
}

impl Split for ByNames {
    fn features(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        Ok((self.phi)(x, pass)?)
    }

    fn scores(&self, z: &Tensor, pass: Pass) -> Result<Tensor> {
        Ok((self.head)(z, pass)?)
    }

    fn bottom(&self) -> Vec<(String, Var)> {
        self.bottom.clone()
    }

    fn last(&self) -> Vec<(String, Var)> {
        self.last.clone()
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        self.statistics.clone()
    }
}

/// A backbone and a head, each by a plan; copies share parameters.
///
/// Checked by `tests/model.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(20, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// assert_eq!((net.features_of(&data)?.dims(), net.scores_of(&data)?.dims()), (&[20, 4][..], &[20][..]));
/// // A loss that reaches the head only, on features as constants.
/// let z = net.features(&data.x, Pass::Eval)?;
/// let gradients = bce_logits(&net.scores(&z.detach(), Pass::Eval)?, &data.y)?.backward()?;
/// assert!(net.last().iter().all(|(_, var)| gradients.get(var).is_some()));
/// assert!(net.bottom().iter().all(|(_, var)| gradients.get(var).is_none()));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SplitNet {
    pub phi: Net,
    pub head: Net,
}

impl Split for SplitNet {
    fn features(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        self.phi.forward(x, side(pass, "phi"))
    }

    fn scores(&self, z: &Tensor, pass: Pass) -> Result<Tensor> {
        single(self.head.forward(z, side(pass, "head"))?)
    }

    /// In the order of [`Net::vars`].
    fn bottom(&self) -> Vec<(String, Var)> {
        self.phi.vars()
    }

    /// Of a linear head the weight, then the bias if it has one.
    fn last(&self) -> Vec<(String, Var)> {
        self.head.vars()
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        let [phi, head] = [&self.phi, &self.head].map(|net| net.statistics().clone());
        below("phi", phi).chain(below("head", head)).collect()
    }

    fn identity(&self) -> String {
        format!("{:?} under {:?}", self.phi.plan(), self.head.plan())
    }

    fn as_split_net(&self) -> Option<&SplitNet> {
        Some(self)
    }
}

impl SplitNet {
    /// A backbone by its plan, under a linear head with `scores` outputs.
    ///
    /// Fails: `Shape` unless the backbone ends in a vector, `Config` without a score.
    pub fn new(phi: Plan, scores: usize, seed: Seed, device: &Device) -> Result<SplitNet> {
        let head = zoo::linear(scores, true);
        SplitNet::with_head(phi, head, seed, DType::F32, device)
    }

    /// A backbone by its plan under a head of any layers.
    pub fn with_head(
        phi: Plan,
        head: Vec<(String, Layer)>,
        seed: Seed,
        dtype: DType,
        device: &Device,
    ) -> Result<SplitNet> {
        let init = phi.init;
        let phi = Net::new(phi, seed.named("phi"), dtype, device)?;
        phi.ensure_vector()?;
        // A head of torchvision's is drawn as a plain linear layer.
        let init = if init == Init::HeNormal { Init::Uniform } else { init };
        let plan = Plan { input: phi.output().to_vec(), layers: head, init };
        let head = Net::new(plan, seed.named("head"), dtype, device)?;
        Ok(SplitNet { phi, head })
    }

    /// The head as a network of its own, which reads features; it shares parameters with this one.
    ///
    /// Fails: `Config` if the head has no parameters.
    pub fn head_alone(&self) -> Result<SplitNet> {
        let last = self.last();
        let (_, var) = last.first().ok_or_else(|| {
            Error::config("head of a network", "without parameters", "one that can be trained")
        })?;
        let phi = Net::new(zoo::identity(self.phi.output()), Seed::new(0), var.dtype(), var.device())?;
        Ok(SplitNet { phi, head: self.head.clone() })
    }

    /// A copy with parameters of its own.
    pub fn copy(&self) -> Result<SplitNet> {
        Ok(SplitNet { phi: self.phi.copy()?, head: self.head.copy()? })
    }

    /// Shows both sides of the line.
    pub fn evcxr_display(&self) {
        let row = |name: &str, net: &Net| {
            let way = format!("{:?} → {:?}", net.plan().input, net.output());
            vec![Cell::from(name), way.into(), net.size().into()]
        };
        let table = Table::new(&["side", "shape", "parameters"])
            .row(row("bottom", &self.phi))
            .and_then(|table| table.row(row("last", &self.head)));
        if let Ok(table) = table {
            table.evcxr_display();
        }
    }
}

/// Applies a function to a few samples at a time, as numbers of the same type as a parameter.
fn in_pieces(x: &Tensor, like: Option<&Var>, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let n = x.dim(0)?;
    if n == 0 {
        return Err(Error::shape("samples", "at least one", 0));
    }
    let mut pieces = Vec::new();
    for start in (0..n).step_by(PIECE) {
        let piece = numbers(&x.narrow(0, start, PIECE.min(n - start))?)?;
        let piece = like.map_or(Ok(piece.clone()), |var| piece.to_dtype(var.dtype()))?;
        pieces.push(f(&piece)?.detach());
    }
    Ok(Tensor::cat(&pieces, 0)?)
}

/// Parameters and statistics, each under the name that files have for it.
pub(super) fn all(net: &(impl Split + ?Sized)) -> impl Iterator<Item = (String, Var)> {
    below("phi", net.bottom()).chain(below("head", net.last())).chain(net.statistics())
}

/// Variables by name. Fails: `Config` if two have the same, of which one would be lost.
pub(crate) fn distinct(vars: impl IntoIterator<Item = (String, Var)>) -> Result<BTreeMap<String, Var>> {
    let mut by_name = BTreeMap::new();
    for (name, var) in vars {
        if by_name.insert(name.clone(), var).is_some() {
            return Err(Error::config("name of a parameter", name, "names that differ"));
        }
    }
    Ok(by_name)
}

/// Variables of one side, under its name.
fn below(side: &str, vars: impl IntoIterator<Item = (String, Var)>) -> impl Iterator<Item = (String, Var)> {
    vars.into_iter().map(move |(name, var)| (format!("{side}.{name}"), var))
}

/// One score per sample is a vector.
fn single(s: Tensor) -> Result<Tensor> {
    match s.dims() {
        [_, 1] => Ok(s.squeeze(1)?),
        _ => Ok(s),
    }
}

/// Samples that pass through a network at once in evaluation: enough for speed, few enough for memory.
const PIECE: usize = 256;

/// The randomness of one side: layers of the same name on both sides must not share it.
fn side(pass: Pass, name: &str) -> Pass {
    match pass {
        Pass::Train(seed) => Pass::Train(seed.named(name)),
        Pass::Eval => Pass::Eval,
    }
}
