//! The state of a run: everything that the next step depends on, in memory and in a file.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Tensor, Var};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::history::{History, Means};
use super::method::{Method, State};
use super::step::Step;
use super::trainer::Trainer;
use super::update::Update;
use crate::data::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::files::remove_leftovers;
use crate::model::distinct;
use crate::seed::Seed;
use crate::tensor_file::TensorFile;

/// Name of the checkpoint in its folder.
const FILE: &str = "checkpoint.safetensors";

/// What is in a checkpoint; another number is another layout.
const VERSION: u32 = 2;

/// A run between two steps.
pub(super) struct Course {
    pub step: usize,
    pub history: History,
    pub means: Means,
    pub best: Option<Best>,
    update: Update,
    /// Parameters and statistics by name.
    vars: BTreeMap<String, Var>,
    statistics: Vec<Var>,
    /// What the run is, to tell it from others.
    identity: [String; 5],
}

/// The best validation so far, with the parameters, statistics and state of its epoch.
pub(super) struct Best {
    pub epoch: usize,
    pub value: f64,
    values: BTreeMap<String, Tensor>,
    state: State,
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

/// What a checkpoint says besides its tensors.
#[derive(Serialize, Deserialize)]
struct Notes {
    version: u32,
    identity: [String; 5],
    step: usize,
    history: History,
    means: Means,
    /// What the method notes.
    method: Value,
    /// Epoch, value and the method's notes of the best validation.
    best: Option<(usize, f64, Value)>,
    /// Steps that each parameter has taken, by group.
    taken: Vec<Value>,
}

impl Course {
    pub fn new<M: Method + ?Sized>(
        trainer: &Trainer,
        method: &M,
        data: &Dataset,
        validated: bool,
    ) -> Result<Course> {
        let update = Update::new(trainer, method.groups())?;
        let statistics = method.statistics();
        let sides = update.groups.iter().map(|group| (group.name.as_str(), &group.vars));
        let vars = distinct(sides.chain([("statistics", &statistics)]).flat_map(|(side, vars)| {
            vars.iter().map(move |(name, var)| (format!("{side}.{name}"), var.clone()))
        }))?;
        let shapes: Vec<String> =
            vars.iter().map(|(name, var)| format!("{name} {:?} {:?}", var.dims(), var.dtype())).collect();
        let factors: Vec<String> =
            update.groups.iter().map(|g| format!("{} {} {}", g.name, g.lr, g.decay)).collect();
        let settings = serde_json::to_string(trainer)
            .map_err(|e| Error::config("trainer", e, "settings that can be written as JSON"))?;
        let identity = [
            format!("trainer {settings}, {}", if validated { "validated" } else { "not validated" }),
            format!("groups {}", factors.join(", ")),
            format!("data {}, {:016x}", data.describe(), fingerprint(data)?),
            format!("model {}", method.identity()),
            format!("parameters {}", shapes.join(", ")),
        ];
        let statistics = statistics.into_iter().map(|(_, var)| var).collect();
        let (history, means) = (History::default(), Means::default());
        Ok(Course { step: 0, history, means, best: None, update, vars, statistics, identity })
    }

    /// Moves the parameters along the gradients of a step's losses; returns what it reported, as a line.
    pub fn apply(&mut self, step: &Step, lr: f64, clip: Option<f64>) -> Result<String> {
        let report = self.update.apply(step, self.step + 1, lr, clip)?;
        report.iter().for_each(|(name, value)| self.means.add(name, *value));
        self.step += 1;
        let words: Vec<String> = report.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
        Ok(words.join(", "))
    }

    /// Keeps the parameters of this epoch if its validation is the best so far; where drops end the run, if it does not.
    pub fn judge<M: Method + ?Sized>(&mut self, method: &M, value: f64, drops: Option<usize>) -> Result<()> {
        let passed_over = match drops {
            None => self.best.as_ref().is_some_and(|best| best.value >= value),
            Some(most) => self.drops(Some(value)) >= most,
        };
        if passed_over {
            return Ok(());
        }
        let own = |(name, tensor): (&String, &Tensor)| Ok((name.clone(), tensor.copy()?));
        let values = self.vars.iter().map(|(name, var)| own((name, var.as_tensor())));
        let values = values.collect::<Result<_>>()?;
        let State { tensors, notes } = method.state()?;
        let state = State { tensors: tensors.iter().map(own).collect::<Result<_>>()?, notes };
        self.best = Some(Best { epoch: self.history.epochs.len() + 1, value, values, state });
        Ok(())
    }

    /// Running statistics as they are now, to put back if a step fails half way.
    pub fn statistics(&self) -> Result<Vec<(Var, Tensor)>> {
        self.statistics.iter().map(|var| Ok((var.clone(), var.copy()?))).collect()
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

    pub fn restore_best<M: Method + ?Sized>(&self, method: &mut M) -> Result<()> {
        let Some(best) = &self.best else { return Ok(()) };
        for (name, tensor) in &best.values {
            if let Some(var) = self.vars.get(name) {
                var.set(tensor)?;
            }
        }
        method.restore(&best.state)
    }

    /// Writes the checkpoint, whole or not at all.
    pub fn save<M: Method + ?Sized>(&self, method: &M, folder: &Path) -> Result<()> {
        let mut tensors = BTreeMap::new();
        let mut put = |prefix: &str, own: &BTreeMap<String, Tensor>| {
            tensors.extend(own.iter().map(|(name, tensor)| (format!("{prefix}{name}"), tensor.clone())));
        };
        let state = method.state()?;
        put("method.", &state.tensors);
        put("value.", &self.vars.iter().map(|(name, var)| (name.clone(), var.as_tensor().clone())).collect());
        let mut taken = Vec::new();
        for (group, updates) in self.update.groups.iter().zip(&self.update.updates) {
            let memory = updates.state()?;
            put(&format!("memory.{}.", group.name), &memory.tensors);
            taken.push(memory.notes);
        }
        if let Some(best) = &self.best {
            put("best.value.", &best.values);
            put("best.method.", &best.state.tensors);
        }
        let notes = Notes {
            version: VERSION,
            identity: self.identity.clone(),
            step: self.step,
            history: self.history.clone(),
            means: self.means.clone(),
            method: state.notes,
            best: self.best.as_ref().map(|best| (best.epoch, best.value, best.state.notes.clone())),
            taken,
        };
        let notes =
            serde_json::to_value(notes).map_err(|e| Error::data(folder, format!("no checkpoint: {e}")))?;
        let hint = "check that the folder of checkpoints can be written";
        std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, hint, e))?;
        TensorFile { tensors, notes }.write(folder.join(FILE))
    }

    /// Continues from the checkpoint in a folder, if there is one.
    ///
    /// Fails: `Data` if it is damaged, of an older library, or of another method, set or trainer; no parameter has then
    /// changed.
    pub fn resume<M: Method + ?Sized>(&mut self, method: &mut M, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        remove_leftovers(&path);
        let Some(var) = self.vars.values().next().filter(|_| path.exists()) else { return Ok(()) };
        let file = TensorFile::read(&path, var.device())?;
        let remove = |why: String| Error::data(&path, format!("{why}; remove it to start over"));
        if file.notes.get("taken").is_some() && file.notes.get("version") != Some(&VERSION.into()) {
            return Err(remove("is a checkpoint of another version of this library".to_string()));
        }
        let notes: Notes = serde_json::from_value(file.notes.clone())
            .map_err(|e| remove(format!("is no checkpoint ({e})")))?;
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
            let tensor = file.tensors.get(&format!("value.{name}"));
            let tensor = tensor.ok_or_else(|| other(format!("it has no {name}")))?;
            ensure_shape(name, var.dims(), tensor.dims())?;
            found.push((var, tensor.to_dtype(var.dtype())?.to_device(var.device())?));
        }
        ensure_shape("groups of a checkpoint", self.update.groups.len(), notes.taken.len())?;
        let groups = self.update.groups.iter().zip(&mut self.update.updates);
        for ((group, updates), taken) in groups.zip(notes.taken) {
            let tensors = file.below(&format!("memory.{}.", group.name));
            updates.restore(&State { tensors, notes: taken })?;
        }
        method.restore(&State { tensors: file.below("method."), notes: notes.method })?;
        found.into_iter().try_for_each(|(var, tensor)| var.set(&tensor))?;
        (self.step, self.history, self.means) = (notes.step, notes.history, notes.means);
        self.best = notes.best.map(|(epoch, value, own)| Best {
            epoch,
            value,
            values: file.below("best.value."),
            state: State { tensors: file.below("best.method."), notes: own },
        });
        Ok(())
    }
}
