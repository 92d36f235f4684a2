//! What goes into a step of training, and what comes out of it.

use std::fmt;
use std::sync::Arc;

use candle_core::{Tensor, Var};

use super::history::History;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::model::{Net, Pass, SplitNet};
use crate::seed::Seed;

/// Parameters that are trained together.
///
/// ```
/// use lastlayer::prelude::*;
/// let w = Var::new(2.0f64, &Device::Cpu)?;
/// let slow = Group { rate: 0.5, ..Group::new("w", vec![("w".to_string(), w.clone())]) };
/// let model = Parameters { groups: vec![slow], ..Default::default() };
/// let data = arcs(4, 0.0, Seed::new(1), &Device::Cpu)?;
/// Trainer::sgd(0.1, 0.0).batch(4).silent().fit(&model, &data, |_| Ok(Step::new(w.sqr()?)))?;
/// assert!((w.to_scalar::<f64>()? - 1.8).abs() < 1e-12); // half of the rate
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    pub name: String,
    pub vars: Vec<(String, Var)>,
    /// Factor on the learning rate.
    pub rate: f64,
    /// Whether weight decay applies.
    pub decay: bool,
}

impl Group {
    /// Group with the trainer's own learning rate and weight decay.
    pub fn new(name: &str, vars: Vec<(String, Var)>) -> Group {
        Group { name: name.to_string(), vars, rate: 1.0, decay: true }
    }
}

/// What can be trained: groups of parameters, and statistics that are kept along with them.
///
/// Everything that a step changes must be among these, also what a closure keeps for itself (a moving average, a dual
/// variable): only then does a run that was stopped continue as if it had not been.
///
/// ```
/// use lastlayer::prelude::*;
/// /// A single number that learns the mean of the first coordinate.
/// struct Mean(Var);
/// impl Trainable for Mean {
///     fn groups(&self) -> Vec<Group> {
///         vec![Group::new("all", vec![("mean".to_string(), self.0.clone())])]
///     }
/// }
/// let data = arcs(50, 0.0, Seed::new(1), &Device::Cpu)?;
/// let model = Mean(Var::new(0.0f32, &Device::Cpu)?);
/// Trainer::sgd(0.5, 0.0).batch(50).silent().fit(&model, &data, |b| {
///     Ok(Step::new(b.x.narrow(1, 0, 1)?.broadcast_sub(&model.0)?.sqr()?.mean_all()?))
/// })?;
/// let mean = data.x.narrow(1, 0, 1)?.mean_all()?.to_scalar::<f32>()?;
/// assert!((model.0.to_scalar::<f32>()? - mean).abs() < 1e-6); // one step of ½ reaches it
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub trait Trainable {
    /// The parameters, in groups that may have losses, rates and decay of their own.
    fn groups(&self) -> Vec<Group>;

    /// Numbers that change in training without a gradient, such as running means.
    fn statistics(&self) -> Vec<(String, Var)> {
        Vec::new()
    }

    /// Records that only grow, as far as a statistic says that they count. A checkpoint keeps them; they are not copied
    /// before each step, as statistics are, so that a step costs the same however long they are.
    fn appended(&self) -> Vec<(String, Var)> {
        Vec::new()
    }

    /// What tells the model from another with parameters of the same names and shapes.
    fn identity(&self) -> String {
        String::new()
    }

    /// Called when a step has moved the parameters, with the batch that moved them.
    fn moved(&self, _batch: &Batch) -> Result<()> {
        Ok(())
    }

    /// What whoever reads of the run should be warned of when it ends, from what it reported and its training set.
    fn warning(&self, _history: &History, _data: &Dataset) -> Option<String> {
        None
    }
}

/// What tells it from others.
impl fmt::Debug for dyn Trainable + Send + Sync {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.identity())
    }
}

/// Parameters with their names, as a group holds them.
pub(crate) fn named(vars: &std::collections::BTreeMap<String, Var>) -> Vec<(String, Var)> {
    vars.iter().map(|(name, var)| (name.clone(), var.clone())).collect()
}

impl Trainable for Net {
    fn groups(&self) -> Vec<Group> {
        vec![Group::new("all", named(self.parameters()))]
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        named(Net::statistics(self))
    }

    fn identity(&self) -> String {
        format!("{:?}", self.plan())
    }
}

/// Two groups, `bottom` and `last`.
impl Trainable for SplitNet {
    fn groups(&self) -> Vec<Group> {
        vec![
            Group::new("bottom", named(self.phi.parameters())),
            Group::new("last", named(self.head.parameters())),
        ]
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        let below = |prefix: &'static str, net: &Net| {
            named(Net::statistics(net)).into_iter().map(move |(name, var)| (format!("{prefix}.{name}"), var))
        };
        below("bottom", &self.phi).chain(below("last", &self.head)).collect()
    }

    fn identity(&self) -> String {
        format!("{:?} under {:?}", self.phi.plan(), self.head.plan())
    }
}

/// Parameters grouped as you like: `Parameters::of(&net).rate("bottom", 0.1)?`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(20, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let before = net.features_of(&data)?.to_vec2::<f32>()?;
/// let head = Parameters::of(&net).only("last")?.rate("last", 10.0)?;
/// Trainer::adam(0.01)
///     .batch(20)
///     .silent()
///     .fit(&head, &data, |b| Ok(Step::new(bce_logits(&net.forward(&b.x, b.pass())?, &b.y)?)))?;
/// assert_eq!(net.features_of(&data)?.to_vec2::<f32>()?, before); // the backbone was not trained
/// assert!(Parameters::of(&net).only("middle").is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    pub groups: Vec<Group>,
    pub statistics: Vec<(String, Var)>,
    pub identity: String,
    /// Whose they are: it is told of every step, and what it appends is kept.
    pub model: Option<Arc<dyn Trainable + Send + Sync>>,
}

impl Parameters {
    /// The groups of a model, with its statistics and all that it does after a step. Copies of the model share parameters.
    pub fn of<T: Trainable + Clone + Send + Sync + 'static>(model: &T) -> Parameters {
        Parameters {
            groups: model.groups(),
            statistics: model.statistics(),
            identity: model.identity(),
            model: Some(Arc::new(model.clone())),
        }
    }

    /// The same with another factor on the learning rate of a group. Fails: `Config` if there is no such group.
    pub fn rate(mut self, group: &str, factor: f64) -> Result<Parameters> {
        self.group(group)?.rate = factor;
        Ok(self)
    }

    /// The same without weight decay in a group. Fails: `Config` if there is no such group.
    pub fn without_decay(mut self, group: &str) -> Result<Parameters> {
        self.group(group)?.decay = false;
        Ok(self)
    }

    /// Only this group; the others stay as they are. Fails: `Config` if there is no such group.
    pub fn only(mut self, group: &str) -> Result<Parameters> {
        self.group(group)?;
        self.groups.retain(|g| g.name == group);
        Ok(self)
    }

    fn group(&mut self, name: &str) -> Result<&mut Group> {
        let known: Vec<String> = self.groups.iter().map(|g| g.name.clone()).collect();
        let found = self.groups.iter_mut().find(|g| g.name == name);
        found.ok_or_else(|| Error::config("group", name, known.join(", ")))
    }
}

impl Trainable for Parameters {
    fn groups(&self) -> Vec<Group> {
        self.groups.clone()
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        self.statistics.clone()
    }

    fn appended(&self) -> Vec<(String, Var)> {
        self.model.as_ref().map_or(Vec::new(), |model| model.appended())
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn moved(&self, batch: &Batch) -> Result<()> {
        self.model.as_ref().map_or(Ok(()), |model| model.moved(batch))
    }

    fn warning(&self, history: &History, data: &Dataset) -> Option<String> {
        self.model.as_ref().and_then(|model| model.warning(history, data))
    }
}

/// A batch, and where in the run it stands.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(50, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let mut seen = Vec::new();
/// Trainer::adam(0.01).epochs(2).batch(25).silent().fit(&net, &data, |b| {
///     assert_eq!(b.x.dims(), [25, 6]);
///     seen.push((b.step, b.epoch, b.progress));
///     Ok(Step::skip())
/// })?;
/// assert_eq!(seen, [(0, 0, 0.0), (1, 0, 0.25), (2, 1, 0.5), (3, 1, 0.75)]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    pub x: Tensor,
    pub y: Tensor,
    pub a: Option<Tensor>,
    /// The same as a set, with its names.
    pub data: Dataset,
    /// Where in the training set each sample comes from.
    pub rows: Vec<usize>,
    /// Steps taken before this one.
    pub step: usize,
    pub epoch: usize,
    /// Share of the run that is done, from 0 to below 1.
    pub progress: f64,
    /// Learning rate of this step.
    pub rate: f64,
    /// Randomness of this step.
    pub seed: Seed,
}

impl Batch {
    /// How a network is to be run on this batch.
    pub fn pass(&self) -> Pass {
        Pass::Train(self.seed)
    }

    /// The attributes. Fails: `Data` if the set has none.
    pub fn attributes(&self) -> Result<&Tensor> {
        let why = "there are no attributes; add some with with_attributes";
        self.a.as_ref().ok_or_else(|| Error::data(&self.data.names.set, why))
    }
}

/// What a step minimises, by group of parameters, and what it reports.
///
/// A loss for all groups is the usual case. With losses of their own, each group follows its own and no other; a group
/// without one stays as it is. The report is kept apart because the value of a surrogate can be meaningless.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = arcs(4, 0.0, Seed::new(1), &Device::Cpu)?;
/// let [a, b] = [1.0f64, 1.0].map(|start| Var::new(start, &Device::Cpu));
/// let (a, b) = (a?, b?);
/// let group = |name: &str, var: &Var| Group::new(name, vec![(name.to_string(), var.clone())]);
/// let model = Parameters { groups: vec![group("a", &a), group("b", &b)], ..Default::default() };
/// // Each group follows its own loss of the same product.
/// Trainer::sgd(0.1, 0.0).batch(4).silent().fit(&model, &data, |_| {
///     let product = (a.as_tensor() * b.as_tensor())?;
///     Ok(Step::by_group(vec![("a", product.clone()), ("b", product.neg()?)]))
/// })?;
/// assert!((a.to_scalar::<f64>()? - 0.9).abs() < 1e-12 && (b.to_scalar::<f64>()? - 1.1).abs() < 1e-12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Step {
    pub(super) losses: Vec<(Option<String>, Tensor)>,
    pub(super) report: Vec<(String, f64)>,
}

impl Step {
    /// One loss for all parameters, reported as `loss`.
    pub fn new(loss: Tensor) -> Step {
        Step { losses: vec![(None, loss)], report: Vec::new() }
    }

    /// A loss for each named group.
    pub fn by_group<S: ToString>(losses: Vec<(S, Tensor)>) -> Step {
        let losses = losses.into_iter().map(|(group, loss)| (Some(group.to_string()), loss));
        Step { losses: losses.collect(), report: Vec::new() }
    }

    /// Several losses for all parameters, each with a backward pass of its own; the gradients add up.
    pub fn sum(losses: Vec<Tensor>) -> Step {
        Step { losses: losses.into_iter().map(|loss| (None, loss)).collect(), report: Vec::new() }
    }

    /// A step that moves nothing, for a batch that cannot be used.
    pub fn skip() -> Step {
        Step { losses: Vec::new(), report: Vec::new() }
    }

    /// Adds a value to the report.
    pub fn report(mut self, name: &str, value: f64) -> Step {
        self.report.push((name.to_string(), value));
        self
    }
}
