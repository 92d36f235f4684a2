//! The state of a run: everything that the next step depends on, in memory and in a file.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Tensor, Var};
use serde::{Deserialize, Serialize};

use super::history::{History, Means};
use super::optimiser::Memory;
use super::step::{Group, Step, Trainable};
use super::trainer::{Trainer, scalar};
use crate::data::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::files::remove_leftovers;
use crate::seed::Seed;
use crate::tensor_file::TensorFile;

/// Name of the checkpoint in its folder.
const FILE: &str = "checkpoint.safetensors";

/// A run between two steps.
pub(super) struct State {
    pub step: usize,
    pub history: History,
    pub means: Means,
    pub best: Option<Best>,
    groups: Vec<Group>,
    memory: Vec<Vec<Memory>>,
    /// Everything that training changes, by name: parameters, statistics, memory of the optimiser.
    vars: BTreeMap<String, Var>,
    /// What the run is, to tell it from others.
    identity: [String; 5],
}

/// The best validation so far, with the parameters and statistics of its epoch.
pub(super) struct Best {
    pub epoch: usize,
    pub value: f64,
    values: BTreeMap<String, Tensor>,
}

/// A number that tells a set from others: from its labels, and from the inputs of a few samples. Host: these.
fn fingerprint(data: &Dataset) -> Result<u64> {
    let mut seed = Seed::new(data.n() as u64);
    for label in data.labels()? {
        seed = seed.stream(u64::from(label));
    }
    for row in [0, data.n() / 3, data.n() / 2, data.n() - 1] {
        let sample: Vec<f64> = data.x.get(row)?.flatten_all()?.to_dtype(DType::F64)?.to_vec1()?;
        seed = sample.into_iter().fold(seed, |seed, value| seed.stream(value.to_bits()));
    }
    Ok(seed.value())
}

/// Length of all gradients together. The sum stays on the device; if it is too large for its type, it is taken in f64.
fn length<'a>(gradients: impl Iterator<Item = &'a Tensor> + Clone) -> Result<f64> {
    let squares = |wide: bool| -> Result<f64> {
        let mut total: Option<Tensor> = None;
        for gradient in gradients.clone() {
            let gradient = if wide { gradient.to_dtype(DType::F64)? } else { gradient.clone() };
            let own = gradient.sqr()?.sum_all()?.to_dtype(DType::F64)?;
            total = Some(match total {
                None => own,
                Some(total) => (total + own)?,
            });
        }
        total.map_or(Ok(0.0), |total| scalar(&total))
    };
    let narrow = squares(false)?;
    Ok(if narrow.is_finite() { narrow } else { squares(true)? }.sqrt())
}

/// What a checkpoint says besides its tensors.
#[derive(Serialize, Deserialize)]
struct Notes {
    identity: [String; 5],
    step: usize,
    history: History,
    means: Means,
    best: Option<(usize, f64)>,
    /// Steps that each parameter has taken, by group.
    taken: Vec<Vec<usize>>,
}

impl State {
    pub fn new(trainer: &Trainer, model: &impl Trainable, data: &Dataset, validated: bool) -> Result<State> {
        let groups = model.groups();
        let mut vars = BTreeMap::new();
        let mut memory = Vec::new();
        for group in &groups {
            if group.vars.is_empty() {
                let allowed = "at least one parameter; leave the group out if nothing in it is trained";
                return Err(Error::config(format!("parameters of group {}", group.name), "none", allowed));
            }
            if !(group.rate >= 0.0 && group.rate.is_finite()) {
                return Err(Error::config(format!("rate of group {}", group.name), group.rate, "0 or more"));
            }
            let mut own = Vec::new();
            for (name, var) in &group.vars {
                let name = format!("{}.{name}", group.name);
                let remembered = Memory::new(trainer.optimiser, var)?;
                for (i, slot) in remembered.slots.iter().enumerate() {
                    vars.insert(format!("memory.{name}.{i}"), slot.clone());
                }
                if vars.insert(format!("value.{name}"), var.clone()).is_some() {
                    return Err(Error::config(
                        "name of a parameter",
                        name,
                        "names that differ within a group",
                    ));
                }
                own.push(remembered);
            }
            memory.push(own);
        }
        if groups.is_empty() {
            return Err(Error::config("groups of parameters", "none", "at least one"));
        }
        for (name, var) in model.statistics() {
            vars.insert(format!("value.statistics.{name}"), var);
        }
        for (name, var) in model.appended() {
            vars.insert(format!("value.appended.{name}"), var);
        }
        let shapes: Vec<String> =
            vars.iter().map(|(name, var)| format!("{name} {:?} {:?}", var.dims(), var.dtype())).collect();
        let factors: Vec<String> =
            groups.iter().map(|g| format!("{} {} {}", g.name, g.rate, g.decay)).collect();
        let settings = serde_json::to_string(trainer)
            .map_err(|e| Error::config("trainer", e, "settings that can be written as JSON"))?;
        let identity = [
            format!("trainer {settings}, {}", if validated { "validated" } else { "not validated" }),
            format!("groups {}", factors.join(", ")),
            format!("data {}, {:016x}", data.describe(), fingerprint(data)?),
            format!("model {}", model.identity()),
            format!("parameters {}", shapes.join(", ")),
        ];
        let (history, means) = (History::default(), Means::default());
        Ok(State { step: 0, history, means, best: None, groups, memory, vars, identity })
    }

    /// Takes the gradients of a step's losses and moves the parameters; returns what it reported, as a line.
    ///
    /// Nothing moves before every loss and gradient is known to be finite.
    pub fn apply(&mut self, step: Step, rate: f64, trainer: &Trainer) -> Result<String> {
        let number = self.step + 1;
        let stop = |what: String, value: f64| {
            let hint = format!(
                "{what} of step {number} is {value}, and the parameters are as they were before it; lower the learning \
                 rate, clip the gradient, or look at this batch"
            );
            Error::Solve { solver: "training".into(), iters: self.step, residual: value, hint }
        };
        let mut report = Vec::new();
        let mut gradients: Vec<Vec<Option<Tensor>>> =
            self.groups.iter().map(|group| vec![None; group.vars.len()]).collect();
        for (name, loss) in &step.losses {
            let label = name.as_ref().map_or("loss".to_string(), |name| format!("{name} loss"));
            report.push((label, scalar(loss)?));
        }
        report.extend(step.report);
        if let Some((name, value)) = report.iter().find(|(_, value)| !value.is_finite()) {
            return Err(stop(format!("the reported {name}"), *value));
        }
        for (name, loss) in &step.losses {
            let store = crate::ops::backward(loss)?;
            let mut reached = false;
            for (group, slots) in self.groups.iter().zip(&mut gradients) {
                if name.as_ref().is_some_and(|name| *name != group.name) {
                    continue;
                }
                for ((_, var), slot) in group.vars.iter().zip(slots) {
                    let Some(gradient) = store.get(var) else { continue };
                    reached = true;
                    *slot = Some(match slot.take() {
                        None => gradient.clone(),
                        Some(other) => (other + gradient)?,
                    });
                }
            }
            if !reached {
                let names: Vec<&str> = self.groups.iter().map(|g| g.name.as_str()).collect();
                let allowed = format!(
                    "a loss whose gradient reaches a parameter of {}; check the name of the group, and that nothing is detached",
                    name.as_deref().unwrap_or(&names.join(" or "))
                );
                return Err(Error::config("loss of a step", "without a gradient", allowed));
            }
        }
        let length = length(gradients.iter().flatten().flatten())?;
        if !length.is_finite() {
            return Err(stop("the length of the gradient".to_string(), length));
        }
        let shrink = trainer.clip.map_or(1.0, |most| if length > most { most / length } else { 1.0 });
        for ((group, memory), slots) in self.groups.iter().zip(&mut self.memory).zip(gradients) {
            let decay = if group.decay { trainer.decay } else { super::Decay::None };
            for (((_, var), memory), gradient) in group.vars.iter().zip(memory).zip(slots) {
                let Some(mut gradient) = gradient else { continue };
                if shrink != 1.0 {
                    gradient = (gradient * shrink)?;
                }
                memory.step(var, &gradient, trainer.optimiser, rate * group.rate, decay)?;
            }
        }
        report.iter().for_each(|(name, value)| self.means.add(name, *value));
        self.step = number;
        let words: Vec<String> = report.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
        Ok(words.join(", "))
    }

    /// Keeps the parameters of this epoch if its validation is the best so far; where drops end the run, if it does not.
    pub fn judge(&mut self, value: f64, drops: Option<usize>) -> Result<()> {
        let passed_over = match drops {
            None => self.best.as_ref().is_some_and(|best| best.value >= value),
            Some(most) => self.drops(Some(value)) >= most,
        };
        if passed_over {
            return Ok(());
        }
        let mut values = BTreeMap::new();
        for (name, var) in self.vars.iter().filter(|(name, _)| name.starts_with("value.")) {
            values.insert(name.clone(), var.copy()?);
        }
        self.best = Some(Best { epoch: self.history.epochs.len() + 1, value, values });
        Ok(())
    }

    /// Running statistics as they are now, to put back if a step fails half way.
    pub fn statistics(&self) -> Result<Vec<(Var, Tensor)>> {
        let own = self.vars.iter().filter(|(name, _)| name.starts_with("value.statistics."));
        own.map(|(_, var)| Ok((var.clone(), var.copy()?))).collect()
    }

    /// Epochs whose validation was lower than that of the epoch before, a last value included.
    fn drops(&self, last: Option<f64>) -> usize {
        let values: Vec<f64> = self.history.values("validation").into_iter().flatten().chain(last).collect();
        values.windows(2).filter(|pair| pair[1] < pair[0]).count()
    }

    pub fn gave_up(&self, patience: Option<usize>, drops: Option<usize>) -> bool {
        if let Some(most) = drops {
            return self.drops(None) >= most;
        }
        let Some((patience, best)) = patience.zip(self.best.as_ref()) else { return false };
        self.history.epochs.len() >= best.epoch + patience
    }

    pub fn restore_best(&self) -> Result<()> {
        for (name, tensor) in self.best.iter().flat_map(|best| &best.values) {
            if let Some(var) = self.vars.get(name) {
                var.set(tensor)?;
            }
        }
        Ok(())
    }

    /// Writes the checkpoint, whole or not at all.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let notes = Notes {
            identity: self.identity.clone(),
            step: self.step,
            history: self.history.clone(),
            means: self.means.clone(),
            best: self.best.as_ref().map(|best| (best.epoch, best.value)),
            taken: self.memory.iter().map(|group| group.iter().map(|m| m.steps).collect()).collect(),
        };
        let notes =
            serde_json::to_value(notes).map_err(|e| Error::data(folder, format!("no checkpoint: {e}")))?;
        let mut tensors: BTreeMap<String, Tensor> =
            self.vars.iter().map(|(name, var)| (name.clone(), var.as_tensor().clone())).collect();
        for (name, tensor) in self.best.iter().flat_map(|best| &best.values) {
            tensors.insert(format!("best.{name}"), tensor.clone());
        }
        let hint = "check that the folder of checkpoints can be written";
        std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, hint, e))?;
        TensorFile { tensors, notes }.write(folder.join(FILE))
    }

    /// Continues from the checkpoint in a folder, if there is one.
    ///
    /// Fails: `Data` if it is damaged, or of another model, set or trainer; nothing is then changed.
    pub fn resume(&mut self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        remove_leftovers(&path);
        let Some(var) = self.vars.values().next().filter(|_| path.exists()) else { return Ok(()) };
        let file = TensorFile::read(&path, var.device())?;
        let notes: Notes = serde_json::from_value(file.notes.clone())
            .map_err(|e| Error::data(&path, format!("is no checkpoint ({e}); remove it to start over")))?;
        let other = |why: String| {
            Error::data(
                &path,
                format!("is the checkpoint of another run: {why}; remove it or choose another folder"),
            )
        };
        if let Some((was, is)) = notes.identity.iter().zip(&self.identity).find(|(was, is)| was != is) {
            return Err(other(format!("it has {was} where this run has {is}")));
        }
        let mut found = Vec::new();
        for (name, var) in &self.vars {
            let tensor = file.tensors.get(name).ok_or_else(|| other(format!("it has no {name}")))?;
            ensure_shape(name, var.dims(), tensor.dims())?;
            found.push((var, tensor));
        }
        let lengths = |taken: &Vec<Vec<usize>>| taken.iter().map(Vec::len).collect::<Vec<_>>();
        let expected: Vec<usize> = self.memory.iter().map(Vec::len).collect();
        ensure_shape("steps taken in a checkpoint", &expected, &lengths(&notes.taken))?;
        for (var, tensor) in found {
            var.set(tensor)?;
        }
        for (memory, taken) in self.memory.iter_mut().flatten().zip(notes.taken.iter().flatten()) {
            memory.steps = *taken;
        }
        (self.step, self.history, self.means) = (notes.step, notes.history, notes.means);
        self.best = notes.best.map(|(epoch, value)| Best { epoch, value, values: file.below("best.") });
        Ok(())
    }
}
