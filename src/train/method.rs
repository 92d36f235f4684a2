//! What is trained: a method owns its settings and its state, and turns a batch into losses.

use candle_core::Var;

use super::history::History;
use super::step::{Batch, Step};
use crate::data::Dataset;
use crate::error::Result;
use crate::model::{Network, Split};
use crate::tensor_file::TensorFile;

/// Parameters that are trained together.
///
/// ```
/// use lastlayer::prelude::*;
/// let w = Var::new(2.0f64, &Device::Cpu)?;
/// let slow = Group { lr: 0.5, ..Group::new("w", vec![("w".to_string(), w.clone())]) };
/// let data = arcs(4, 0.0, Seed::new(1), &Device::Cpu)?;
/// let mut square = Minimise::over(vec![slow], |_| Ok(w.sqr()?));
/// Trainer::sgd(0.1, 0.0).batch(4).silent().fit(&mut square, &data)?;
/// assert!((w.to_scalar::<f64>()? - 1.8).abs() < 1e-12); // half of the rate
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    pub name: String,
    pub vars: Vec<(String, Var)>,
    /// Factor on the learning rate.
    pub lr: f64,
    /// Whether weight decay applies.
    pub decay: bool,
}

impl Group {
    /// Group with the trainer's own learning rate and weight decay.
    pub fn new(name: &str, vars: Vec<(String, Var)>) -> Group {
        Group { name: name.to_string(), vars, lr: 1.0, decay: true }
    }
}

/// What a method keeps between steps besides its parameters, as a checkpoint holds it: tensors by name, and a JSON value.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(100, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
/// let mut training = RateTraining::ico(&net, &goal)?;
/// Trainer::adam(0.01).silent().fit(&mut training, &data)?;
/// let state: State = training.state()?;
/// // Another one goes on where this one stands.
/// let mut other = RateTraining::ico(&net, &goal)?;
/// other.restore(&state)?;
/// assert_eq!(other.threshold(), training.threshold());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub type State = TensorFile;

/// The only thing that a trainer fits: parameters, and what a batch asks of them.
///
/// [`step`](Method::step) changes nothing but running statistics, which are put back if it fails; what it taught happens in
/// [`after`](Method::after), when the parameters have moved. Everything that a step changes must be among parameters,
/// statistics and state: only then does a run that was stopped continue as if it had not been.
///
/// ```
/// use lastlayer::prelude::*;
/// /// A number that learns the mean of the first coordinate, and counts its steps.
/// struct Mean(Var, usize);
/// impl Method for Mean {
///     fn groups(&self) -> Vec<Group> {
///         vec![Group::new("all", vec![("mean".to_string(), self.0.clone())])]
///     }
///     fn step(&self, b: &Batch) -> Result<Step> {
///         Ok(Step::new(b.x.narrow(1, 0, 1)?.broadcast_sub(&self.0)?.sqr()?.mean_all()?))
///     }
///     fn after(&mut self, _: &Batch, _: &Step) -> Result<()> {
///         self.1 += 1;
///         Ok(())
///     }
///     fn state(&self) -> Result<State> {
///         Ok(State { notes: self.1.into(), ..State::default() })
///     }
///     fn restore(&mut self, state: &State) -> Result<()> {
///         self.1 = state.notes.as_u64().unwrap_or(0) as usize;
///         Ok(())
///     }
/// }
/// let data = arcs(50, 0.0, Seed::new(1), &Device::Cpu)?;
/// let mut method = Mean(Var::new(0.0f32, &Device::Cpu)?, 0);
/// Trainer::sgd(0.5, 0.0).batch(50).silent().fit(&mut method, &data)?;
/// let mean = data.x.narrow(1, 0, 1)?.mean_all()?.to_scalar::<f32>()?;
/// assert!((method.0.to_scalar::<f32>()? - mean).abs() < 1e-6); // one step of ½ reaches it
/// assert_eq!(method.1, 1);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub trait Method {
    /// The parameters, in groups that may have losses, learning rates and decay of their own.
    fn groups(&self) -> Vec<Group>;

    /// The losses of a batch, and what is to be reported of it.
    fn step(&self, batch: &Batch) -> Result<Step>;

    /// Called when a step has moved the parameters.
    fn after(&mut self, _batch: &Batch, _step: &Step) -> Result<()> {
        Ok(())
    }

    /// Numbers that a forward pass moves without a gradient, such as running means.
    fn statistics(&self) -> Vec<(String, Var)> {
        Vec::new()
    }

    /// What is kept besides parameters and statistics.
    fn state(&self) -> Result<State> {
        Ok(State::default())
    }

    /// Goes on from what [`state`](Method::state) gave. Fails: `Data` for what it did not give.
    fn restore(&mut self, _state: &State) -> Result<()> {
        Ok(())
    }

    /// What tells the method from another with parameters of the same names and shapes.
    fn identity(&self) -> String {
        String::new()
    }

    /// What whoever reads of the run should be warned of when it ends, from what it reported and its training set.
    fn warning(&self, _history: &History, _data: &Dataset) -> Option<String> {
        None
    }
}

/// The plainest method: a loss of one's own.
///
/// The function gets a batch and gives a loss, or a [`Step`] with more to say.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(100, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 8])?, 1, Seed::new(1), &Device::Cpu)?;
/// let mut logistic = Minimise::new(&net, |b| bce_logits(&net.forward(&b.x, b.pass())?, &b.y));
/// let run = Trainer::adam(0.01).epochs(5).batch(50).silent().fit(&mut logistic, &data)?;
/// let loss = run.history.values("loss")?;
/// assert!(loss[4] < loss[0]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Minimise<F> {
    pub groups: Vec<Group>,
    pub statistics: Vec<(String, Var)>,
    pub identity: String,
    loss: F,
}

impl<L: Into<Step>, F: Fn(&Batch) -> Result<L>> Minimise<F> {
    /// A loss for the parameters of a network, in the groups `bottom` and `last`.
    pub fn new(net: impl Into<Network>, loss: F) -> Minimise<F> {
        let net = net.into();
        let over = Minimise::over(net.groups(), loss);
        Minimise { statistics: net.statistics(), identity: net.identity(), ..over }
    }

    /// A loss for parameters of any kind.
    pub fn over(groups: Vec<Group>, loss: F) -> Minimise<F> {
        Minimise { groups, statistics: Vec::new(), identity: String::new(), loss }
    }
}

impl<L: Into<Step>, F: Fn(&Batch) -> Result<L>> Method for Minimise<F> {
    fn groups(&self) -> Vec<Group> {
        self.groups.clone()
    }

    fn step(&self, batch: &Batch) -> Result<Step> {
        (self.loss)(batch).map(Into::into)
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        self.statistics.clone()
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }
}
