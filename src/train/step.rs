//! What goes into a step of training, and what comes out of it.

use std::any::Any;
use std::sync::Arc;

use candle_core::Tensor;

use crate::data::Dataset;
use crate::error::Result;
use crate::model::Pass;
use crate::seed::Seed;

/// A batch, and where in the run it stands.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(50, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let seen = std::cell::RefCell::new(Vec::new());
/// let mut look = Minimise::new(&net, |b| {
///     assert_eq!(b.x.dims(), [25, 6]);
///     seen.borrow_mut().push((b.step, b.epoch, b.progress));
///     Ok(Step::skip())
/// });
/// Trainer::adam(0.01).epochs(2).batch(25).silent().fit(&mut look, &data)?;
/// assert_eq!(*seen.borrow(), [(0, 0, 0.0), (1, 0, 0.25), (2, 1, 0.5), (3, 1, 0.75)]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    pub x: Tensor,
    pub y: Tensor,
    pub a: Option<Tensor>,
    /// Inputs, labels and attributes as a set, with its names.
    pub data: Dataset,
    /// Where in the training set each sample comes from.
    pub rows: Vec<usize>,
    /// Steps taken before this one.
    pub step: usize,
    pub epoch: usize,
    /// Share of the run that is done, from 0 to below 1.
    pub progress: f64,
    /// Learning rate of this step.
    pub lr: f64,
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
        self.data.attributes()
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
/// // Each group follows its own loss of the same product.
/// let mut apart = Minimise::over(vec![group("a", &a), group("b", &b)], |_| {
///     let product = (a.as_tensor() * b.as_tensor())?;
///     Ok(Step::by_group(vec![("a", product.clone()), ("b", product.neg()?)]))
/// });
/// Trainer::sgd(0.1, 0.0).batch(4).silent().fit(&mut apart, &data)?;
/// assert!((a.to_scalar::<f64>()? - 0.9).abs() < 1e-12 && (b.to_scalar::<f64>()? - 1.1).abs() < 1e-12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Step {
    pub(super) losses: Vec<(Reach, Tensor)>,
    pub(super) report: Vec<(String, Told)>,
    carried: Option<Arc<dyn Any + Send + Sync>>,
}

/// The groups that a loss reaches.
#[derive(Clone, Debug)]
pub(super) enum Reach {
    All,
    /// One group, which must be there.
    Only(String),
    /// The groups of these names; none of them need be trained.
    Above(&'static [&'static str]),
    /// All others; likewise.
    Below(&'static [&'static str]),
}

/// A number of a report: known, or where it was computed, to be read in one copy with the losses.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Number(f64),
    Tensor(Tensor),
}

/// A loss for all parameters.
impl From<Tensor> for Step {
    fn from(loss: Tensor) -> Step {
        Step::new(loss)
    }
}

impl Step {
    fn of(losses: Vec<(Reach, Tensor)>) -> Step {
        Step { losses, report: Vec::new(), carried: None }
    }

    /// One loss for all parameters, reported as `loss`.
    pub fn new(loss: Tensor) -> Step {
        Step::sum(vec![loss])
    }

    /// A loss for each named group.
    pub fn by_group<S: ToString>(losses: Vec<(S, Tensor)>) -> Step {
        let report = |step: Step, (group, loss): &(S, Tensor)| {
            step.report_of(&format!("{} loss", group.to_string()), loss.clone())
        };
        let told = losses.iter().fold(Step::skip(), report);
        let losses = losses.into_iter().map(|(group, loss)| (Reach::Only(group.to_string()), loss));
        Step { losses: losses.collect(), ..told }
    }

    /// A loss for either side of the line: `last` moves the group of that name, `bottom` every other; a side without a loss
    /// stays as it is, and the loss of a side that is not trained moves nothing. Their sum is reported as `loss`.
    ///
    /// With s = head(z), the pair L₁(head(z)), L₂(head(z.detach())) trains the features by L₁ under a constant head, and the
    /// head by L₂ on constant features. Fails: `Shape` for losses that cannot be added.
    /// Book: `rate/decoupled.md#eq-rate-views`.
    pub fn sides(bottom: impl Into<Option<Tensor>>, last: impl Into<Option<Tensor>>) -> Result<Step> {
        Step::across(&["last"], bottom.into(), last.into())
    }

    /// The same with the line below these groups.
    pub(crate) fn across(
        above: &'static [&'static str],
        bottom: Option<Tensor>,
        last: Option<Tensor>,
    ) -> Result<Step> {
        let sum = match (&bottom, &last) {
            (Some(bottom), Some(last)) => Some((bottom + last)?),
            _ => bottom.as_ref().or(last.as_ref()).cloned(),
        };
        let bottom = bottom.map(|loss| (Reach::Below(above), loss));
        let last = last.map(|loss| (Reach::Above(above), loss));
        let step = Step::of(bottom.into_iter().chain(last).collect());
        Ok(sum.into_iter().fold(step, |step, sum| step.report_of("loss", sum)))
    }

    /// Several losses for all parameters, each with a backward pass of its own; the gradients add up.
    pub fn sum(losses: Vec<Tensor>) -> Step {
        let told = losses.iter().fold(Step::skip(), |step, loss| step.report_of("loss", loss.clone()));
        Step { losses: losses.into_iter().map(|loss| (Reach::All, loss)).collect(), ..told }
    }

    /// A step that moves nothing, for a batch that cannot be used.
    pub fn skip() -> Step {
        Step::of(Vec::new())
    }

    /// Adds a value to the report.
    pub fn report(mut self, name: &str, value: f64) -> Step {
        self.report.push((name.to_string(), Told::Number(value)));
        self
    }

    /// Adds a tensor of one number to the report, which stays where it is until the losses are read.
    pub fn report_of(mut self, name: &str, value: Tensor) -> Step {
        self.report.push((name.to_string(), Told::Tensor(value)));
        self
    }

    /// What the method is to learn of this step once the parameters have moved: [`Method::after`](super::Method::after)
    /// gets it back from [`carried`](Step::carried).
    pub fn carry<T: Any + Send + Sync>(mut self, lesson: T) -> Step {
        self.carried = Some(Arc::new(lesson));
        self
    }

    /// What [`carry`](Step::carry) put in, if it is of this type.
    pub fn carried<T: Any>(&self) -> Option<&T> {
        self.carried.as_ref()?.downcast_ref()
    }
}

impl Reach {
    pub fn reaches(&self, group: &str) -> bool {
        match self {
            Reach::All => true,
            Reach::Only(name) => name == group,
            Reach::Above(names) => names.contains(&group),
            Reach::Below(names) => !names.contains(&group),
        }
    }
}
