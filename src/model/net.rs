//! A network as a list of named layers, and the parameters that belong to it.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};
use serde::{Deserialize, Serialize};

use super::layer::{self, Named};
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::all_finite;
use crate::seed::Seed;
use crate::table::{Cell, Table};
use crate::train::Group;

/// How a network is run: training draws dropout and noise and takes the statistics of the batch, evaluation does not.
///
/// ```
/// use lastlayer::prelude::*;
/// let layers = vec![("drop".to_string(), Layer::Dropout { rate: 0.5 })];
/// let plan = Plan { input: vec![100], layers, init: Init::Uniform };
/// let net = Net::new(plan, Seed::new(1), DType::F32, &Device::Cpu)?;
/// let x = Tensor::ones((1, 100), DType::F32, &Device::Cpu)?;
/// let sum = |pass| -> Result<f32> { Ok(net.forward(&x, pass)?.sum_all()?.to_scalar()?) };
/// assert_eq!(sum(Pass::Eval)?, 100.0);
/// assert_ne!(sum(Pass::Train(Seed::new(1)))?, 100.0);
/// assert_eq!(sum(Pass::Train(Seed::new(1)))?, sum(Pass::Train(Seed::new(1)))?); // by the seed
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// With the randomness of this step.
    Train(Seed),
    Eval,
}

/// Laws from which weights are drawn.
///
/// ```
/// use lastlayer::prelude::*;
/// let plan = Plan { init: Init::HeNormal, ..zoo::mlp(&[4, 3])? };
/// let net = Net::new(plan, Seed::new(1), DType::F32, &Device::Cpu)?;
/// assert_eq!(net.parameters()["0.bias"].to_vec1::<f32>()?, [0.0; 3]); // drawn by Init::Uniform
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Init {
    /// Weights and biases uniform in ± 1/√fan_in, as PyTorch does by default.
    #[default]
    Uniform,
    /// Normal weights of variance 2/fan_out and zero biases (He et al. 2015), as torchvision's residual networks have.
    HeNormal,
}

/// A network with its parameters; copies share them.
///
/// Checked by `tests/model.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let net = Net::new(zoo::mlp(&[2, 3])?, Seed::new(1), DType::F32, &Device::Cpu)?;
/// assert_eq!((net.size(), net.output()), (9, &[3][..]));
/// // A clone shares the parameters, a copy has its own.
/// let (shared, own) = (net.clone(), net.copy()?);
/// net.vars()[1].1.set(&Tensor::new(&[7.0f32, 7.0, 7.0], &Device::Cpu)?)?; // the bias, after the weight
/// assert_eq!(shared.vars()[1].1.to_vec1::<f32>()?, [7.0; 3]);
/// assert_ne!(own.vars()[1].1.to_vec1::<f32>()?, [7.0; 3]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Net {
    plan: Plan,
    output: Vec<usize>,
    parameters: BTreeMap<String, Var>,
    /// Running means and variances of batch norm: kept and saved, never trained.
    statistics: BTreeMap<String, Var>,
}

/// All of a network but its numbers.
///
/// ```
/// use lastlayer::prelude::*;
/// let layers = vec![
///     ("first".to_string(), Layer::Linear { width: 4, bias: false }),
///     ("norm".to_string(), Layer::UnitNorm),
/// ];
/// let plan = Plan { input: vec![3], layers, init: Init::default() };
/// assert_eq!(SplitNet::new(plan, 1, Seed::new(1), &Device::Cpu)?.phi.size(), 12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Shape of one sample.
    pub input: Vec<usize>,
    pub layers: Vec<Named>,
    pub init: Init,
}

impl Net {
    /// Network by a plan, its weights drawn from the seed: each from its own name, so that adding a layer does not
    /// change the others.
    ///
    /// Fails: `Shape` if a layer does not fit what comes before it, `Config` for a setting it cannot have.
    pub fn new(plan: Plan, seed: Seed, dtype: DType, device: &Device) -> Result<Net> {
        if !matches!(dtype, DType::F32 | DType::F64) {
            return Err(Error::config("dtype of a network", format!("{dtype:?}"), "F32 or F64"));
        }
        Net::build(plan, Source::Drawn { seed, dtype, device: device.clone() })
    }

    /// Network by a plan, with these numbers.
    ///
    /// Fails: `Data` if a parameter is missing or not finite, `Shape` if one has another shape. Nothing is drawn first,
    /// so a plan that asks for more than the tensors hold costs nothing.
    pub fn from_tensors(plan: Plan, tensors: BTreeMap<String, Tensor>) -> Result<Net> {
        Net::build(plan, Source::Given(tensors))
    }

    fn build(plan: Plan, source: Source) -> Result<Net> {
        if plan.input.is_empty() || plan.input.contains(&0) {
            let expected = "the shape of one sample, such as [784] or [3, 32, 32]";
            return Err(Error::shape("input of a network", expected, format!("{:?}", plan.input)));
        }
        let mut build =
            Builder { init: plan.init, source, parameters: BTreeMap::new(), statistics: BTreeMap::new() };
        let output = layer::build(&plan.layers, "", &plan.input, &mut build)?;
        Ok(Net { plan, output, parameters: build.parameters, statistics: build.statistics })
    }

    /// Applies the network to a batch `(n, …)`.
    ///
    /// Fails: `Shape` if samples do not have the shape of the plan's input, `Config` if they are of another dtype.
    pub fn forward(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        let sample = x.dims().get(1..).unwrap_or_default();
        if sample != self.plan.input {
            let expected =
                format!("{:?} (resize the samples, or build the network for theirs)", self.plan.input);
            return Err(Error::shape("samples for a network", expected, format!("{sample:?}")));
        }
        // Layers would say which of their tensors differ, but it is the samples that are easy to change.
        if let Some(own) =
            self.parameters.values().next().map(|var| var.dtype()).filter(|own| *own != x.dtype())
        {
            let allowed = format!("{own:?}, as its parameters; convert with x.to_dtype(DType::{own:?})");
            return Err(Error::config("dtype of samples for a network", format!("{:?}", x.dtype()), allowed));
        }
        layer::forward(&self.plan.layers, "", x, &Weights { net: self, pass })
    }

    /// The plan by which the network was made.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Shape of what comes out for one sample.
    pub fn output(&self) -> &[usize] {
        &self.output
    }

    /// Trained parameters by name.
    pub fn parameters(&self) -> &BTreeMap<String, Var> {
        &self.parameters
    }

    /// Running means and variances by name.
    pub fn statistics(&self) -> &BTreeMap<String, Var> {
        &self.statistics
    }

    /// The trained parameters with their names, layers in the order of their names, the weight of a layer before its bias.
    pub fn vars(&self) -> Vec<(String, Var)> {
        let mut named: Vec<(&String, &Var)> = self.parameters.iter().collect();
        named.sort_by_key(|(name, _)| {
            let (layer, own) = name.rsplit_once('.').unwrap_or(("", name));
            (layer, own == "bias")
        });
        named.into_iter().map(|(name, var)| (name.clone(), var.clone())).collect()
    }

    /// Its parameters as a group, in the order of their names.
    pub(crate) fn group(&self, name: &str) -> Group {
        let vars = self.parameters.iter().map(|(name, var)| (name.clone(), var.clone()));
        Group::new(name, vars.collect())
    }

    /// Fails: `Shape` unless what comes out is a vector; its length otherwise.
    pub(crate) fn ensure_vector(&self) -> Result<usize> {
        let expected = "a vector of features; end it with GlobalAveragePool or Flatten";
        match self.output[..] {
            [d] => Ok(d),
            _ => Err(Error::shape("output of a backbone", expected, format!("{:?}", self.output))),
        }
    }

    /// A copy with parameters of its own.
    pub fn copy(&self) -> Result<Net> {
        let copy = |vars: &BTreeMap<String, Var>| -> Result<BTreeMap<String, Var>> {
            let one = |(name, var): (&String, &Var)| Ok((name.clone(), Var::from_tensor(&var.copy()?)?));
            vars.iter().map(one).collect()
        };
        let (parameters, statistics) = (copy(&self.parameters)?, copy(&self.statistics)?);
        Ok(Net { parameters, statistics, ..self.clone() })
    }

    /// Sets parameters and statistics from tensors of the same names and shapes, all or none.
    ///
    /// Fails: `Data` if one is missing or not finite, `Shape` if one has another shape; nothing is then changed.
    pub fn set(&self, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
        for (var, tensor) in self.fitting(tensors)? {
            var.set(&tensor)?;
        }
        Ok(())
    }

    /// Each parameter and statistic with the tensor it would be set to.
    pub(crate) fn fitting(&self, tensors: &BTreeMap<String, Tensor>) -> Result<Vec<(&Var, Tensor)>> {
        let vars = self.parameters.iter().chain(&self.statistics);
        vars.map(|(name, var)| {
            let tensor = given(tensors, name, var.dims())?;
            Ok((var, tensor.to_dtype(var.dtype())?.to_device(var.device())?))
        })
        .collect()
    }

    /// Number of trained numbers.
    pub fn size(&self) -> usize {
        self.parameters.values().map(|var| var.elem_count()).sum()
    }

    /// Shows the parameters by name and shape.
    pub fn evcxr_display(&self) {
        let shape = |var: &Var| Cell::Text(format!("{:?}", var.dims()));
        let mut rows: Vec<(String, Cell)> =
            self.parameters.iter().map(|(name, var)| (name.clone(), shape(var))).collect();
        rows.push(("all".to_string(), self.size().into()));
        Table::pairs("parameter", "shape", rows).evcxr_display();
    }
}

/// Numbers of a network in one pass, as layers ask for them.
pub(super) struct Weights<'a> {
    net: &'a Net,
    pub pass: Pass,
}

impl Weights<'_> {
    pub fn parameter(&self, name: &str) -> Result<Tensor> {
        Ok(self.net.parameters.get(name).ok_or_else(|| missing(name))?.as_tensor().clone())
    }

    pub fn statistic(&self, name: &str) -> Result<&Var> {
        self.net.statistics.get(name).ok_or_else(|| missing(name))
    }
}

fn missing(name: &str) -> Error {
    Error::config("parameter", name, "one of the network's own")
}

/// The tensor of this name and shape, all finite.
pub(super) fn given(tensors: &BTreeMap<String, Tensor>, name: &str, dims: &[usize]) -> Result<Tensor> {
    let Some(tensor) = tensors.get(name) else {
        return Err(Error::data("parameters", format!("there is no {name}; they are of another network")));
    };
    ensure_shape(name, dims, tensor.dims())?;
    if !all_finite(tensor)? {
        return Err(Error::data("parameters", format!("{name} holds a number that is not finite")));
    }
    Ok(tensor.clone())
}

/// Where the numbers of a new network come from.
enum Source {
    Drawn { seed: Seed, dtype: DType, device: Device },
    Given(BTreeMap<String, Tensor>),
}

/// Law of one tensor.
enum Law {
    Uniform(f64),
    Normal(f64),
    Constant(f64),
}

/// Makes parameters as layers ask for them.
pub(super) struct Builder {
    init: Init,
    source: Source,
    parameters: BTreeMap<String, Var>,
    statistics: BTreeMap<String, Var>,
}

impl Builder {
    /// Weight of these dimensions, between `fan_in` inputs of each output and `fan_out` outputs of each input.
    pub fn weight(&mut self, name: String, dims: &[usize], fan_in: usize, fan_out: usize) -> Result<()> {
        let law = match self.init {
            Init::Uniform => Law::Uniform(1.0 / (fan_in as f64).sqrt()),
            Init::HeNormal => Law::Normal((2.0 / fan_out as f64).sqrt()),
        };
        self.parameter(name, dims, law)
    }

    pub fn bias(&mut self, name: String, width: usize, fan_in: usize) -> Result<()> {
        let law = match self.init {
            Init::Uniform => Law::Uniform(1.0 / (fan_in as f64).sqrt()),
            Init::HeNormal => Law::Constant(0.0),
        };
        self.parameter(name, &[width], law)
    }

    pub fn constant(&mut self, name: String, width: usize, value: f64) -> Result<()> {
        self.parameter(name, &[width], Law::Constant(value))
    }

    pub fn statistic(&mut self, name: String, width: usize, value: f64) -> Result<()> {
        let var = self.var(&name, &[width], Law::Constant(value))?;
        self.statistics.insert(name, var);
        Ok(())
    }

    fn parameter(&mut self, name: String, dims: &[usize], law: Law) -> Result<()> {
        let var = self.var(&name, dims, law)?;
        match self.parameters.insert(name.clone(), var) {
            None => Ok(()),
            Some(_) => Err(Error::config("name of a layer", name, "different names for layers side by side")),
        }
    }

    fn var(&self, name: &str, dims: &[usize], law: Law) -> Result<Var> {
        let tensor = match &self.source {
            Source::Given(tensors) => given(tensors, name, dims)?,
            Source::Drawn { seed, dtype, device } => {
                let seed = seed.named(name);
                match law {
                    Law::Uniform(bound) => {
                        nudged(seed.uniform_tensor(dims, (-bound, bound), *dtype, device)?, seed)?
                    }
                    Law::Normal(sd) => nudged(seed.normal_tensor(dims, (0.0, sd), *dtype, device)?, seed)?,
                    Law::Constant(value) => Tensor::full(value, dims, device)?.to_dtype(*dtype)?,
                }
            }
        };
        Ok(Var::from_tensor(&tensor)?)
    }
}

/// Under test, a parameter as drawn moved by a relative 1e-7, up or down, drawn from `seed` and from the number that the
/// environment variable `LASTLAYER_NUDGE` holds; without that variable, as it was.
///
/// Another processor sums in another order, and training carries the last bit into every digit. What a notebook says
/// must hold there too: `make nudged` runs all of them with several of these numbers.
pub(crate) fn nudged(first: Tensor, seed: Seed) -> Result<Tensor> {
    let Some(number) = std::env::var("LASTLAYER_NUDGE").ok().filter(|text| !text.is_empty()) else {
        return Ok(first);
    };
    let number: u64 = number
        .parse()
        .map_err(|_| Error::config("LASTLAYER_NUDGE", &number, "a whole number, or the variable unset"))?;
    let seed = seed.named("nudge").stream(number);
    let draws = seed.uniform_tensor(first.shape(), (-1.0, 1.0), first.dtype(), first.device())?;
    let up = draws.ge(0.0)?.to_dtype(first.dtype())?;
    Ok((&first * up.affine(2e-7, 1.0 - 1e-7)?)?)
}
