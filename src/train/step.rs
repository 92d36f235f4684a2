//! What goes into a step of training, and what comes out of it.

use candle_core::{Tensor, Var};

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::model::{Net, Pass, SplitNet};
use crate::seed::Seed;

/// Parameters that are trained together.
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
pub trait Trainable {
    fn groups(&self) -> Vec<Group>;

    /// Numbers that change in training without a gradient, such as running means.
    fn statistics(&self) -> Vec<(String, Var)> {
        Vec::new()
    }
}

fn named(vars: &std::collections::BTreeMap<String, Var>) -> Vec<(String, Var)> {
    vars.iter().map(|(name, var)| (name.clone(), var.clone())).collect()
}

impl Trainable for Net {
    fn groups(&self) -> Vec<Group> {
        vec![Group::new("all", named(self.parameters()))]
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        named(Net::statistics(self))
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
}

impl Trainable for Vec<Group> {
    fn groups(&self) -> Vec<Group> {
        self.clone()
    }
}

/// A batch, and where in the run it stands.
#[derive(Clone, Debug)]
pub struct Batch {
    pub x: Tensor,
    pub y: Tensor,
    pub a: Option<Tensor>,
    /// The same as a set, with its names.
    pub data: Dataset,
    /// Steps taken before this one.
    pub step: usize,
    pub epoch: usize,
    /// Share of the run that is done, from 0 to below 1.
    pub progress: f64,
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

    /// Adds a value to the report.
    pub fn report(mut self, name: &str, value: f64) -> Step {
        self.report.push((name.to_string(), value));
        self
    }
}
