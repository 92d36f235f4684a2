//! From losses to moved parameters: backward passes, clipping, and the optimiser with what it remembers.

use candle_core::{DType, Tensor, Var};

use super::method::{Group, State};
use super::optimiser::{Decay, Optimiser};
use super::step::{Reach, Step, Told};
use super::trainer::Trainer;
use crate::error::{Error, Result, ensure_shape};
use crate::ops::{AdamStep, SgdStep, adam_step, adam_step_numbered, backward, sgd_step};

/// An optimiser at work on some parameters: what it remembers of each, a velocity or two moments.
///
/// The trainer has one for each group; a method whose parts take steps of their own, as a critic does, has another.
///
/// ```
/// use lastlayer::prelude::*;
/// let w = Var::new(2.0f64, &Device::Cpu)?;
/// let mut updates = Optimiser::adam().over(vec![("w".to_string(), w.clone())], 0.1)?;
/// updates.step(&w.sqr()?)?;
/// assert!((w.to_scalar::<f64>()? - 1.9).abs() < 1e-6); // Adam's first step has the length of the rate
/// let mut again = Optimiser::adam().over(vec![("w".to_string(), w.clone())], 0.1)?;
/// again.restore(&updates.state()?)?; // moments and number of steps
/// again.step(&w.sqr()?)?;
/// assert!((w.to_scalar::<f64>()? - 1.8).abs() < 1e-3);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Updates {
    /// Learning rate of the next step.
    pub lr: f64,
    pub decay: Decay,
    optimiser: Optimiser,
    vars: Vec<(String, Var)>,
    memory: Vec<Vec<Var>>,
    /// Steps that each parameter has taken.
    taken: Vec<usize>,
    /// How many of them were taken back where nobody on the host knows.
    undone: Option<Tensor>,
}

impl Optimiser {
    /// This optimiser at work on some parameters, without weight decay. Fails: `Config` for constants that cannot be.
    pub fn over(self, vars: Vec<(String, Var)>, lr: f64) -> Result<Updates> {
        self.check()?;
        let slots = match self {
            Optimiser::Sgd { .. } => 1,
            Optimiser::Adam { .. } => 2,
        };
        let zeros = |(_, var): &(String, Var)| {
            (0..slots).map(|_| Ok(Var::from_tensor(&var.zeros_like()?)?)).collect::<Result<Vec<Var>>>()
        };
        let memory = vars.iter().map(zeros).collect::<Result<_>>()?;
        let taken = vec![0; vars.len()];
        Ok(Updates { lr, decay: Decay::None, optimiser: self, vars, memory, taken, undone: None })
    }
}

impl Updates {
    /// Moves the parameters that a loss reaches by one step along its gradient.
    pub fn step(&mut self, loss: &Tensor) -> Result<()> {
        let store = backward(loss)?;
        (0..self.vars.len()).try_for_each(|i| match store.get(&self.vars[i].1) {
            Some(gradient) => self.move_one(i, gradient),
            None => Ok(()),
        })
    }

    /// Moves one parameter.
    fn move_one(&mut self, i: usize, gradient: &Tensor) -> Result<()> {
        self.taken[i] += 1;
        let (var, lr, (weight_decay, decoupled)) = (&self.vars[i].1, self.lr, self.decay.parts());
        match (self.optimiser, &self.memory[i][..]) {
            (Optimiser::Adam { beta1, beta2, epsilon: eps }, [first, second]) => {
                let step = AdamStep { lr, beta1, beta2, eps, weight_decay, decoupled, step: self.taken[i] };
                match &self.undone {
                    None => adam_step(var, gradient, first, second, &step),
                    Some(undone) => {
                        let number = undone.affine(-1.0, self.taken[i] as f64)?;
                        adam_step_numbered(var, gradient, first, second, &step, &number)
                    }
                }
            }
            (Optimiser::Sgd { momentum, nesterov }, [velocity]) => {
                if decoupled {
                    var.set(&(var.as_detached_tensor() * (1.0 - lr * weight_decay))?)?;
                }
                let weight_decay = if decoupled { 0.0 } else { weight_decay };
                sgd_step(var, gradient, velocity, &SgdStep { lr, momentum, nesterov, weight_decay })
            }
            (_, other) => {
                Err(Error::config("memory of the optimiser", other.len(), "that of the same optimiser"))
            }
        }
    }

    /// The same for other parameters of the same shapes, with a memory of its own.
    pub(crate) fn onto(&self, vars: Vec<(String, Var)>) -> Result<Updates> {
        let copy = |slots: &Vec<Var>| {
            slots.iter().map(|slot| Ok(Var::from_tensor(&slot.copy()?)?)).collect::<Result<Vec<Var>>>()
        };
        Ok(Updates { vars, memory: self.memory.iter().map(copy).collect::<Result<_>>()?, ..self.clone() })
    }

    /// Parameters and memory as they were `before` some steps, unless `kept` (a scalar on their device) is above 0.
    pub(crate) fn keep_if(&mut self, kept: &Tensor, before: &Updates) -> Result<()> {
        let kept = kept.gt(0.0)?;
        let all = |u: &Updates| {
            u.vars.iter().map(|(_, var)| var).chain(u.memory.iter().flatten()).cloned().collect::<Vec<Var>>()
        };
        for (var, before) in all(self).iter().zip(all(before)) {
            let mask = kept.broadcast_as(var.shape())?;
            var.set(&mask.where_cond(&var.as_detached_tensor(), &before.as_detached_tensor())?)?;
        }
        let steps = self.taken.iter().zip(&before.taken).map(|(now, then)| now - then).max().unwrap_or(0);
        let undone = kept.to_dtype(DType::F64)?.affine(-(steps as f64), steps as f64)?;
        self.undone = Some(self.undone.as_ref().map_or(Ok(undone.clone()), |others| others + &undone)?);
        Ok(())
    }

    /// Moments or velocities by name, and the number of steps: as they are now, whatever later steps do.
    pub fn state(&self) -> Result<State> {
        let slots = self.vars.iter().zip(&self.memory).flat_map(|((name, _), slots)| {
            slots
                .iter()
                .enumerate()
                .map(move |(i, slot)| Ok((format!("{name}.{i}"), slot.as_detached_tensor().copy()?)))
        });
        let undone = self.undone.iter().map(|undone| Ok(("undone".to_string(), undone.clone())));
        Ok(State { tensors: slots.chain(undone).collect::<Result<_>>()?, notes: self.taken.clone().into() })
    }

    /// Goes on from what [`state`](Updates::state) gave. Fails: `Data` or `Shape` for that of other parameters; nothing is
    /// then changed.
    pub fn restore(&mut self, state: &State) -> Result<()> {
        let other = |what: &str| Error::data("state of an optimiser", format!("{what} of other parameters"));
        let taken: Vec<usize> =
            serde_json::from_value(state.notes.clone()).map_err(|_| other("it holds no steps, or those"))?;
        ensure_shape("steps taken in a checkpoint", self.vars.len(), taken.len())?;
        let mut found = Vec::new();
        for ((name, _), slots) in self.vars.iter().zip(&self.memory) {
            for (i, slot) in slots.iter().enumerate() {
                let name = format!("{name}.{i}");
                let tensor = state.tensors.get(&name).ok_or_else(|| other("it is"))?;
                ensure_shape(&name, slot.dims(), tensor.dims())?;
                found.push((slot.clone(), tensor.to_dtype(slot.dtype())?.to_device(slot.device())?));
            }
        }
        found.iter().try_for_each(|(slot, tensor)| slot.set(tensor))?;
        (self.taken, self.undone) = (taken, state.tensors.get("undone").cloned());
        Ok(())
    }
}

/// All groups of a method, each with its optimiser.
pub(super) struct Update {
    pub groups: Vec<Group>,
    pub updates: Vec<Updates>,
}

impl Update {
    pub fn new(trainer: &Trainer, groups: Vec<Group>) -> Result<Update> {
        let groups = trainer.regrouped(groups)?;
        if groups.is_empty() {
            return Err(Error::config("groups of parameters", "none", "at least one"));
        }
        for group in &groups {
            if group.vars.is_empty() {
                let allowed = "at least one parameter; leave the group out if nothing in it is trained";
                return Err(Error::config(format!("parameters of group {}", group.name), "none", allowed));
            }
            if !(group.lr >= 0.0 && group.lr.is_finite()) {
                return Err(Error::config(format!("lr of group {}", group.name), group.lr, "0 or more"));
            }
        }
        let over = |group: &Group| {
            let decay = if group.decay { trainer.decay } else { Decay::None };
            Ok(Updates { decay, ..trainer.optimiser.over(group.vars.clone(), trainer.lr)? })
        };
        let updates = groups.iter().map(over).collect::<Result<_>>()?;
        Ok(Update { groups, updates })
    }

    /// Takes the gradients of a step's losses and moves the parameters; returns what it reported.
    ///
    /// Nothing moves before every loss and gradient is known to be finite. Host: each loss, what is reported, and the length
    /// of the gradient, in one copy.
    pub fn apply(
        &mut self,
        step: &Step,
        number: usize,
        lr: f64,
        clip: Option<f64>,
    ) -> Result<Vec<(String, f64)>> {
        let on_device = self.groups.iter().flat_map(|g| &g.vars).any(|(_, var)| !var.device().is_cpu());
        let stop = |what: String, value: f64| {
            let device = "; a label that is no class, or a weak fit without a solution, is found here";
            let hint = format!(
                "{what} of step {number} is {value}, and the parameters are as they were before it; lower the learning \
                 rate, clip the gradient, or look at this batch{}",
                if on_device { device } else { "" }
            );
            Error::Solve { solver: "training".into(), iters: number - 1, residual: value, hint }
        };
        let tensors = step.report.iter().filter_map(|(_, told)| match told {
            Told::Tensor(tensor) => Some(single(tensor)),
            Told::Number(_) => None,
        });
        let mut numbers = tensors.collect::<Result<Vec<_>>>()?;
        // What a gradient fails with matters only if the losses are finite.
        let gradients = self.gradients(step);
        if let Ok(gradients) = &gradients {
            numbers.extend(squares(gradients.iter().flatten().flatten(), false)?);
        }
        let mut numbers = read(&numbers)?;
        let known = |(name, told): &(String, Told)| match told {
            Told::Tensor(_) => (name.clone(), numbers.next().unwrap_or(f64::NAN)),
            Told::Number(value) => (name.clone(), *value),
        };
        let report: Vec<(String, f64)> = step.report.iter().map(known).collect();
        if let Some((name, value)) = report.iter().find(|(_, value)| !value.is_finite()) {
            return Err(stop(format!("the reported {name}"), *value));
        }
        let gradients = gradients?;
        let mut square = numbers.next().unwrap_or(0.0);
        if !square.is_finite() {
            let wide = squares(gradients.iter().flatten().flatten(), true)?;
            square = read(wide.as_slice())?.next().unwrap_or(square);
        }
        let length = square.sqrt();
        if !length.is_finite() {
            return Err(stop("the length of the gradient".to_string(), length));
        }
        let shrink = clip.map_or(1.0, |most| if length > most { most / length } else { 1.0 });
        for ((group, updates), slots) in self.groups.iter().zip(&mut self.updates).zip(gradients) {
            updates.lr = lr * group.lr;
            for (i, gradient) in slots.into_iter().enumerate() {
                let Some(mut gradient) = gradient else { continue };
                if shrink != 1.0 {
                    gradient = (gradient * shrink)?;
                }
                updates.move_one(i, &gradient)?;
            }
        }
        Ok(report)
    }

    /// The gradient of every parameter by group, where there is one: each group follows its own losses.
    fn gradients(&self, step: &Step) -> Result<Vec<Vec<Option<Tensor>>>> {
        let mut gradients: Vec<Vec<Option<Tensor>>> =
            self.groups.iter().map(|group| vec![None; group.vars.len()]).collect();
        for (reach, loss) in &step.losses {
            let reached = |group: &Group| reach.reaches(&group.name);
            // A side without parameters, or that is not trained, has nothing to follow its loss.
            if matches!(reach, Reach::Above(_) | Reach::Below(_)) && !self.groups.iter().any(reached) {
                continue;
            }
            let store = backward(loss)?;
            let mut found = false;
            for (group, slots) in self.groups.iter().zip(&mut gradients).filter(|(group, _)| reached(group)) {
                for ((_, var), slot) in group.vars.iter().zip(slots) {
                    let Some(gradient) = store.get(var) else { continue };
                    found = true;
                    *slot = Some(match slot.take() {
                        None => gradient.clone(),
                        Some(other) => (other + gradient)?,
                    });
                }
            }
            if !found {
                let names: Vec<&str> = self.groups.iter().map(|g| g.name.as_str()).collect();
                let name = if let Reach::Only(name) = reach { name } else { &names.join(" or ") };
                let allowed = format!(
                    "a loss whose gradient reaches a parameter of {name}; check the name of the group, and that nothing is \
                     detached"
                );
                return Err(Error::config("loss of a step", "without a gradient", allowed));
            }
        }
        Ok(gradients)
    }
}

/// Sum of the squares of all gradients, (1) in f64 where they are; nothing without one. `wide` takes the squares in f64, for
/// those that are too large for their type.
fn squares<'a>(gradients: impl Iterator<Item = &'a Tensor>, wide: bool) -> Result<Option<Tensor>> {
    let mut total: Option<Tensor> = None;
    for gradient in gradients {
        let gradient = if wide { gradient.to_dtype(DType::F64)? } else { gradient.clone() };
        let own = gradient.sqr()?.sum_all()?.to_dtype(DType::F64)?;
        total = Some(match total {
            None => own,
            Some(total) => (total + own)?,
        });
    }
    Ok(total.map(|total| total.reshape(1)).transpose()?)
}

/// Numbers of which each is a tensor of one. Host: all of them, in one copy if they are together on a device.
fn read(numbers: &[Tensor]) -> Result<std::vec::IntoIter<f64>> {
    let together =
        numbers.iter().all(|n| !n.device().is_cpu() && n.device().same_device(numbers[0].device()));
    let mut all = Vec::with_capacity(numbers.len());
    for some in numbers.chunks(if together { numbers.len().max(1) } else { 1 }) {
        all.extend(Tensor::cat(some, 0)?.to_vec1::<f64>()?);
    }
    Ok(all.into_iter())
}

/// The number of a tensor that holds only one, (1) in f64. Fails: `Shape` if it holds more.
fn single(tensor: &Tensor) -> Result<Tensor> {
    match tensor.elem_count() {
        1 => Ok(tensor.flatten_all()?.to_dtype(DType::F64)?),
        _ => Err(Error::shape("loss of a step", "one number; take the mean", format!("{:?}", tensor.dims()))),
    }
}
