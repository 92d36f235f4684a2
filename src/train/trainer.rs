//! The training loop.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::checkpoint::Course;
use super::history::{Epoch, History};
use super::method::{Group, Method};
use super::optimiser::{Decay, Optimiser};
use super::schedule::Schedule;
use super::step::Batch;
use crate::data::{Batches, Dataset};
use crate::error::{Error, Result};
use crate::progress::{Progress, Show};
use crate::seed::Seed;
use crate::table::{Cell, Table};

/// Settings of a run: `Trainer::adam(1e-3).epochs(10).seed(SEED).fit(&mut method, &data)?`.
///
/// Checked by `tests/train.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(100, Seed::new(1), &Device::Cpu)?;
/// let trainer = Trainer::sgd(0.1, 0.9).epochs(2).batch(25).silent();
/// let trainer = trainer.schedule(Schedule::Cosine { floor: 0.0 });
/// let mut scores = Vec::new();
/// for _ in 0..2 {
///     let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
///     let mut logistic = Minimise::new(&net, |b| bce_logits(&net.forward(&b.x, b.pass())?, &b.y));
///     trainer.fit(&mut logistic, &data)?;
///     scores.push(net.scores_of(&data)?.to_vec1::<f32>()?);
/// }
/// assert_eq!(scores[0], scores[1]); // the same seed, the same numbers
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trainer {
    pub optimiser: Optimiser,
    /// Learning rate, before the schedule.
    pub lr: f64,
    pub schedule: Schedule,
    /// Steps over which the learning rate rises from zero to what the schedule says.
    pub warmup: usize,
    pub decay: Decay,
    /// Longest gradient, over all parameters together; a longer one is scaled down.
    pub clip: Option<f64>,
    pub epochs: usize,
    pub batch: usize,
    /// Batches in which every class has its share.
    pub stratified: bool,
    /// Factors on the learning rate of single groups of a method, in place of its own.
    pub lr_factors: BTreeMap<String, f64>,
    /// Groups to which weight decay does not apply.
    pub undecayed: Vec<String>,
    /// The only group that is trained, if not all are.
    pub only: Option<String>,
    /// Epochs without a better validation after which the run ends.
    pub patience: Option<usize>,
    /// Epochs with a lower validation than the one before, after which the run ends.
    #[serde(default)]
    pub drops: Option<usize>,
    pub seed: Seed,
    /// Seconds after which the run stops where it is.
    #[serde(skip)]
    pub max_seconds: Option<f64>,
    /// Folder of the checkpoint. A run whose folder holds one continues from there.
    #[serde(skip)]
    pub folder: Option<PathBuf>,
    /// Steps between checkpoints; 0 for the ends of epochs only.
    #[serde(skip)]
    pub every: usize,
    /// Whether progress is shown.
    #[serde(skip)]
    pub show: bool,
}

/// Why a run ended.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(20, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let trainer = Trainer::adam(0.01).epochs(50).batch(20).silent();
/// let mut logistic = Minimise::new(&net, |b| bce_logits(&net.forward(&b.x, b.pass())?, &b.y));
/// let at_once = trainer.clone().max_seconds(0.0).fit(&mut logistic, &data)?;
/// assert_eq!((at_once.stopped, at_once.steps), (Stopped::OutOfTime, 0));
/// // A validation that never improves on its first value.
/// let patient = trainer.patience(3).fit_validated(&mut logistic, &data, |_| Ok(0.5))?;
/// assert_eq!((patient.stopped, patient.history.epochs.len()), (Stopped::NoImprovement, 4));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// All epochs are done.
    Finished,
    /// Validation did not improve for as long as patience allows, or dropped as often as drops allows.
    NoImprovement,
    /// The seconds are used up; the same call continues if there is a folder.
    OutOfTime,
    /// Somebody asked it to; the same call continues if there is a folder.
    Asked,
}

/// What a run did.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(20, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let mut logistic = Minimise::new(&net, |b| bce_logits(&net.forward(&b.x, b.pass())?, &b.y));
/// let mut accuracies = [0.5, 0.9, 0.7].into_iter();
/// let trainer = Trainer::adam(0.01).epochs(3).batch(10).silent();
/// let run = trainer.fit_validated(&mut logistic, &data, |_| Ok(accuracies.next().unwrap_or(0.0)))?;
/// assert_eq!((run.steps, run.stopped), (6, Stopped::Finished));
/// assert_eq!(run.best, Some((2, 0.9))); // the parameters are those of the second epoch
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Run {
    pub history: History,
    pub steps: usize,
    pub stopped: Stopped,
    /// Epoch, from 1, and value of the best validation; its parameters are the ones that were kept.
    pub best: Option<(usize, f64)>,
    /// Seconds of this call.
    pub seconds: f64,
    /// What the method warns of, such as rivals that were outrun.
    pub warning: Option<String>,
}

/// Validation of an epoch: the higher, the better.
pub(super) type Validate<'a, M> = &'a mut dyn FnMut(&M) -> Result<f64>;

impl Trainer {
    fn new(optimiser: Optimiser, lr: f64) -> Trainer {
        Trainer {
            optimiser,
            lr,
            schedule: Schedule::Constant,
            warmup: 0,
            decay: Decay::None,
            clip: None,
            epochs: 1,
            batch: 64,
            stratified: false,
            lr_factors: BTreeMap::new(),
            undecayed: Vec::new(),
            only: None,
            patience: None,
            drops: None,
            seed: Seed::new(0),
            max_seconds: None,
            folder: None,
            every: 0,
            show: true,
        }
    }

    /// Adam with its usual constants.
    pub fn adam(lr: f64) -> Trainer {
        Trainer::new(Optimiser::adam(), lr)
    }

    /// Adam with decoupled weight decay (AdamW).
    pub fn adamw(lr: f64, weight_decay: f64) -> Trainer {
        Trainer { decay: Decay::Decoupled(weight_decay), ..Trainer::adam(lr) }
    }

    /// Gradient descent with momentum.
    pub fn sgd(lr: f64, momentum: f64) -> Trainer {
        Trainer::new(Optimiser::Sgd { momentum, nesterov: false }, lr)
    }

    /// Passes over the data.
    pub fn epochs(mut self, epochs: usize) -> Trainer {
        self.epochs = epochs;
        self
    }

    /// Samples per step.
    pub fn batch(mut self, size: usize) -> Trainer {
        self.batch = size;
        self
    }

    /// Batches in which every class has its share.
    pub fn stratified(mut self) -> Trainer {
        self.stratified = true;
        self
    }

    /// Seed of batches, dropout and noise.
    pub fn seed(mut self, seed: Seed) -> Trainer {
        self.seed = seed;
        self
    }

    /// Learning rate over the run.
    pub fn schedule(mut self, schedule: Schedule) -> Trainer {
        self.schedule = schedule;
        self
    }

    /// Steps over which the learning rate rises from zero.
    pub fn warmup(mut self, steps: usize) -> Trainer {
        self.warmup = steps;
        self
    }

    /// Weight decay, in either sense.
    pub fn decay(mut self, decay: Decay) -> Trainer {
        self.decay = decay;
        self
    }

    /// Another factor on the learning rate of a group of the method, such as `bottom` or `last`.
    pub fn lr_of(mut self, group: &str, factor: f64) -> Trainer {
        self.lr_factors.insert(group.to_string(), factor);
        self
    }

    /// No weight decay in a group of the method.
    pub fn without_decay(mut self, group: &str) -> Trainer {
        self.undecayed.push(group.to_string());
        self
    }

    /// Trains one group of the method only; the others stay as they are.
    ///
    /// ```
    /// use lastlayer::prelude::*;
    /// let data = Gaussians::a().sample(20, Seed::new(1), &Device::Cpu)?;
    /// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
    /// let before = net.features_of(&data)?.to_vec2::<f32>()?;
    /// let trainer = Trainer::adam(0.01).batch(20).silent();
    /// let mut logistic = Minimise::new(&net, |b| bce_logits(&net.forward(&b.x, b.pass())?, &b.y));
    /// trainer.clone().only("last").lr_of("last", 10.0).fit(&mut logistic, &data)?;
    /// assert_eq!(net.features_of(&data)?.to_vec2::<f32>()?, before); // the backbone was not trained
    /// assert!(trainer.only("middle").fit(&mut logistic, &data).is_err());
    /// # Ok::<(), lastlayer::error::Error>(())
    /// ```
    pub fn only(mut self, group: &str) -> Trainer {
        self.only = Some(group.to_string());
        self
    }

    /// The groups of a method as this trainer trains them. Fails: `Config` for a name that is none of theirs.
    pub(super) fn regrouped(&self, mut groups: Vec<Group>) -> Result<Vec<Group>> {
        let names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
        let asked = self.lr_factors.keys().chain(&self.undecayed).chain(&self.only);
        if let Some(name) = asked.into_iter().find(|name| !names.contains(name)) {
            return Err(Error::config("group", name, names.join(", ")));
        }
        groups.retain(|group| self.only.as_ref().is_none_or(|only| *only == group.name));
        for group in &mut groups {
            group.lr = self.lr_factors.get(&group.name).copied().unwrap_or(group.lr);
            group.decay &= !self.undecayed.contains(&group.name);
        }
        Ok(groups)
    }

    /// Longest gradient.
    pub fn clip(mut self, length: f64) -> Trainer {
        self.clip = Some(length);
        self
    }

    /// Ends the run when validation has not improved for so many epochs.
    pub fn patience(mut self, epochs: usize) -> Trainer {
        self.patience = Some(epochs);
        self
    }

    /// Ends the run at the epoch whose validation is the so-many-th to drop below that of the epoch before, and keeps the
    /// parameters of the epoch before that drop. [`patience`](Trainer::patience) keeps the best epoch instead.
    pub fn drops(mut self, epochs: usize) -> Trainer {
        self.drops = Some(epochs);
        self
    }

    /// Stops after so many seconds.
    pub fn max_seconds(mut self, seconds: f64) -> Trainer {
        self.max_seconds = Some(seconds);
        self
    }

    /// Keeps a checkpoint in a folder, every so many steps and after each epoch, and continues from it.
    pub fn checkpoints(mut self, folder: impl AsRef<Path>, every: usize) -> Trainer {
        (self.folder, self.every) = (Some(folder.as_ref().to_path_buf()), every);
        self
    }

    /// Shows no progress.
    pub fn silent(mut self) -> Trainer {
        self.show = false;
        self
    }

    /// Trains a method on a set.
    ///
    /// Fails: `Config` for settings that cannot be, `Data` for a checkpoint of another run, `Solve` if a loss or a
    /// gradient is not finite, which names the step and leaves method and statistics as they were before it; and
    /// with what the method fails with.
    pub fn fit<M: Method + ?Sized>(&self, method: &mut M, data: &Dataset) -> Result<Run> {
        self.run(method, data, None, &AtomicBool::new(false), &mut |_| ())
    }

    /// Trains with a validation of the method after each epoch, the higher the better: what it was in the best epoch is kept.
    ///
    /// Fails: as [`fit`](Trainer::fit), `Solve` if validation gives no finite number, and with what it fails with.
    pub fn fit_validated<M: Method + ?Sized>(
        &self,
        method: &mut M,
        data: &Dataset,
        mut validate: impl FnMut(&M) -> Result<f64>,
    ) -> Result<Run> {
        self.run(method, data, Some(&mut validate), &AtomicBool::new(false), &mut |_| ())
    }

    pub(super) fn run<M: Method + ?Sized>(
        &self,
        method: &mut M,
        data: &Dataset,
        mut validate: Option<Validate<M>>,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&Course),
    ) -> Result<Run> {
        self.check(validate.is_some())?;
        let started = Instant::now();
        let mut course = Course::new(self, method, data, validate.is_some())?;
        if let Some(folder) = &self.folder {
            course.resume(method, folder)?;
        }
        let per_epoch = data.n().div_ceil(self.batch);
        let total = per_epoch * self.epochs;
        let show = if self.show { Show::detect() } else { Show::Silent };
        let mut progress = Progress::with("training", total.saturating_sub(course.step).max(1), show)?;
        let classes = if self.stratified { data.rows_by_class()? } else { Vec::new() };
        let mut batches = (usize::MAX, None);
        let stopped = loop {
            if course.step == total {
                break Stopped::Finished;
            }
            if course.gave_up(self.patience, self.drops) {
                break Stopped::NoImprovement;
            }
            let out_of_time = self.max_seconds.is_some_and(|most| started.elapsed().as_secs_f64() >= most);
            if out_of_time || stop.load(Ordering::Relaxed) {
                self.keep(method, &course)?;
                break if out_of_time { Stopped::OutOfTime } else { Stopped::Asked };
            }
            let (epoch, place) = (course.step / per_epoch, course.step % per_epoch);
            if batches.0 != epoch {
                batches = (epoch, Some(self.batches(data, &classes, epoch)?));
            }
            let Some(order) = &batches.1 else { break Stopped::Finished };
            let batch = self.batch_of(order, place, (course.step, epoch, total))?;
            let statistics = course.statistics()?;
            let taken = method.step(&batch).and_then(|step| {
                let reported = course.apply(&step, batch.lr, self.clip)?;
                Ok((step, reported))
            });
            let (step, reported) = taken.or_else(|error| {
                // The forward pass of a step that failed has already moved them.
                statistics.iter().try_for_each(|(var, tensor)| var.set(tensor))?;
                Err(error)
            })?;
            method.after(&batch, &step)?;
            progress.step(&reported);
            if place + 1 == per_epoch {
                self.end_epoch(method, &mut course, &mut validate)?;
            }
            if place + 1 == per_epoch || (self.every > 0 && course.step.is_multiple_of(self.every)) {
                self.keep(method, &course)?;
            }
            tell(&course);
        };
        // A run that will be continued does so from its checkpoint, whatever the parameters are now.
        course.restore_best(method)?;
        let best = course.best.as_ref().map(|best| (best.epoch, best.value));
        let seconds = started.elapsed().as_secs_f64();
        let warning = method.warning(&course.history, data);
        if let Some(warning) = &warning {
            progress.note(warning);
        }
        Ok(Run { history: course.history, steps: course.step, stopped, best, seconds, warning })
    }

    fn batches(&self, data: &Dataset, classes: &[Vec<usize>], epoch: usize) -> Result<Batches> {
        let seed = self.seed.named("epoch").stream(epoch as u64);
        if self.stratified {
            data.stratified_of(classes, self.batch, seed)
        } else {
            data.batches(self.batch, seed)
        }
    }

    fn batch_of(
        &self,
        order: &Batches,
        place: usize,
        (step, epoch, total): (usize, usize, usize),
    ) -> Result<Batch> {
        let data = order.get(place)?;
        Ok(Batch {
            x: data.x.clone(),
            y: data.y.clone(),
            a: data.a.clone(),
            data,
            rows: order.rows(place)?.to_vec(),
            step,
            epoch,
            progress: step as f64 / total as f64,
            lr: self.lr_at(step, epoch, total),
            seed: self.seed.named("step").stream(step as u64),
        })
    }

    fn lr_at(&self, step: usize, epoch: usize, total: usize) -> f64 {
        let rise = if step < self.warmup { (step + 1) as f64 / self.warmup as f64 } else { 1.0 };
        self.lr * rise * self.schedule.factor(step as f64 / total as f64, epoch)
    }

    fn end_epoch<M: Method + ?Sized>(
        &self,
        method: &M,
        course: &mut Course,
        validate: &mut Option<Validate<M>>,
    ) -> Result<()> {
        let mut values = course.means.take();
        if let Some(validate) = validate {
            let value = validate(method)?;
            if !value.is_finite() {
                let hint = "validation gave no finite number; look at what it computes".to_string();
                return Err(Error::Solve {
                    solver: "validation".into(),
                    iters: course.step,
                    residual: value,
                    hint,
                });
            }
            values.push(("validation".to_string(), value));
            course.judge(method, value, self.drops)?;
        }
        course.history.epochs.push(Epoch { steps: course.step, values });
        Ok(())
    }

    fn keep<M: Method + ?Sized>(&self, method: &M, course: &Course) -> Result<()> {
        self.folder.as_ref().map_or(Ok(()), |folder| course.save(method, folder))
    }

    pub(super) fn check(&self, validated: bool) -> Result<()> {
        if !(self.lr > 0.0 && self.lr.is_finite()) {
            return Err(Error::config("learning rate", self.lr, "a positive number, such as 1e-3"));
        }
        if self.epochs == 0 || self.batch == 0 {
            let got = format!("{} and {}", self.epochs, self.batch);
            return Err(Error::config("epochs and batch size", got, "at least 1 each"));
        }
        if let Some(length) = self.clip.filter(|length| length.is_nan() || *length <= 0.0) {
            return Err(Error::config("clip", length, "a positive length"));
        }
        if let Some(seconds) = self.max_seconds.filter(|seconds| seconds.is_nan() || *seconds < 0.0) {
            return Err(Error::config("max_seconds", seconds, "0 or more"));
        }
        match self.patience {
            Some(0) => return Err(Error::config("patience", 0, "at least 1 epoch")),
            Some(_) if self.drops.is_some() => {
                return Err(Error::config("patience and drops", "both set", "one rule to end a run"));
            }
            _ => {}
        }
        if self.drops == Some(0) {
            return Err(Error::config("drops", 0, "at least 1 epoch"));
        }
        if !validated && (self.patience.is_some() || self.drops.is_some()) {
            let allowed = "only with fit_validated, which says what improves";
            return Err(Error::config("patience or drops", "set", allowed));
        }
        self.optimiser.check()?;
        self.decay.check()?;
        self.schedule.check()
    }

    /// Shows the settings.
    pub fn evcxr_display(&self) {
        let rows = [
            ("optimiser", format!("{:?}", self.optimiser)),
            ("lr", self.lr.to_string()),
            ("schedule", format!("{:?}", self.schedule)),
            ("decay", format!("{:?}", self.decay)),
            ("epochs", self.epochs.to_string()),
            ("batch", self.batch.to_string()),
            (
                "warm-up, clip, patience, drops",
                format!("{}, {:?}, {:?}, {:?}", self.warmup, self.clip, self.patience, self.drops),
            ),
            ("seed", self.seed.value().to_string()),
        ];
        let rows = rows.into_iter().map(|(name, value)| (name.to_string(), Cell::Text(value)));
        Table::pairs("setting", "value", rows.collect()).evcxr_display();
    }
}

impl Run {
    /// Shows the history, below a warning if there is one.
    pub fn evcxr_display(&self) {
        match self.history.table() {
            Ok(table) => match &self.warning {
                Some(warning) => table.caption(warning).evcxr_display(),
                None => table.evcxr_display(),
            },
            Err(error) => error.evcxr_display(),
        }
    }
}
