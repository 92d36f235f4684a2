//! Training in the background, so that a notebook stays alive.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::history::History;
use super::step::{Batch, Step, Trainable};
use super::trainer::{Run, Trainer};
use crate::data::Dataset;
use crate::error::{Error, Result};

/// A run on a thread of its own: look with [`poll`](Job::poll), end it with [`stop`](Job::stop), take the result with
/// [`join`](Job::join).
///
/// The network is shared with the thread, which moves its parameters one after the other: what you compute with it
/// meanwhile may mix two steps. Copies are handles of the same run, and when the last of them goes, the run is asked to
/// end. Checked by `tests/train.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(40, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let inside = net.clone(); // shares its parameters with the thread
/// let job = Trainer::adam(0.01)
///     .epochs(100_000)
///     .batch(20)
///     .spawn(&net, &data, move |b| Ok(Step::new(bce_logits(&inside.forward(&b.x, b.pass())?, &b.y)?)))?;
/// while job.poll().0 < 3 && !job.ended() {}
/// job.stop();
/// assert_eq!(job.join()?.stopped, Stopped::Asked);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone)]
pub struct Job {
    handle: Arc<Handle>,
}

/// What all copies of a job share.
struct Handle {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<Result<Run>>>>,
    total: usize,
}

/// What job and thread share.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    step: AtomicUsize,
    history: Mutex<History>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

/// The content of a lock, also if a thread panicked while it held it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Trainer {
    /// Starts training in the background. No progress is shown; [`Job::poll`] tells it.
    ///
    /// The thread works on a clone of the model, which shares its parameters, and `step` moves into it: give it a clone too.
    /// Fails: `Config` for settings that cannot be, `Io` if no thread can be started. What goes wrong in training is the
    /// result of [`Job::join`].
    pub fn spawn<T: Trainable + Clone + Send + 'static>(
        &self,
        model: &T,
        data: &Dataset,
        step: impl FnMut(&Batch) -> Result<Step> + Send + 'static,
    ) -> Result<Job> {
        self.start(model, data, step, None)
    }

    /// The same with a validation after each epoch, as [`fit_validated`](Trainer::fit_validated) has it.
    pub fn spawn_validated<T: Trainable + Clone + Send + 'static>(
        &self,
        model: &T,
        data: &Dataset,
        step: impl FnMut(&Batch) -> Result<Step> + Send + 'static,
        validate: impl FnMut() -> Result<f64> + Send + 'static,
    ) -> Result<Job> {
        self.start(model, data, step, Some(Box::new(validate)))
    }

    fn start<T: Trainable + Clone + Send + 'static>(
        &self,
        model: &T,
        data: &Dataset,
        mut step: impl FnMut(&Batch) -> Result<Step> + Send + 'static,
        mut validate: Option<Box<dyn FnMut() -> Result<f64> + Send>>,
    ) -> Result<Job> {
        self.check(validate.is_some())?;
        let total = data.n().div_ceil(self.batch) * self.epochs;
        let shared = Arc::new(Shared::default());
        let (trainer, inside) = (self.clone().silent(), shared.clone());
        let (model, data) = (model.clone(), data.clone());
        let work = move || {
            let validate =
                validate.as_mut().map(|validate| &mut **validate as &mut dyn FnMut() -> Result<f64>);
            trainer.run(&model, &data, &mut step, validate, &inside.stop, &mut |state| {
                inside.step.store(state.step, Ordering::Relaxed);
                let mut seen = locked(&inside.history);
                let known = seen.epochs.len();
                seen.epochs.extend_from_slice(&state.history.epochs[known..]);
            })
        };
        let thread = std::thread::Builder::new()
            .name("training".to_string())
            .spawn(work)
            .map_err(|e| Error::io("training", "no thread could be started; train with fit instead", e))?;
        Ok(Job { handle: Arc::new(Handle { shared, thread: Mutex::new(Some(thread)), total }) })
    }
}

impl Job {
    /// Steps done so far, and the history of finished epochs.
    pub fn poll(&self) -> (usize, History) {
        (self.handle.shared.step.load(Ordering::Relaxed), locked(&self.handle.shared.history).clone())
    }

    /// Whether the thread has ended.
    pub fn ended(&self) -> bool {
        locked(&self.handle.thread).as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Asks the run to end after the step at hand; with a folder for checkpoints it can be continued.
    pub fn stop(&self) {
        self.handle.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end and gives the result, once.
    ///
    /// Fails: with what training failed with, `Config` if the result was taken before.
    pub fn join(&self) -> Result<Run> {
        let thread = locked(&self.handle.thread).take();
        let thread =
            thread.ok_or_else(|| Error::config("result of a job", "taken", "one call of join per job"))?;
        thread.join().unwrap_or_else(|_| {
            let hint = "the step's own code panicked; run it with fit to see where".to_string();
            Err(Error::Solve { solver: "training".into(), iters: self.poll().0, residual: f64::NAN, hint })
        })
    }

    /// Shows how far the run is.
    pub fn evcxr_display(&self) {
        let (steps, history) = self.poll();
        let last = history.epochs.last().map(|epoch| {
            let words: Vec<String> =
                epoch.values.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
            format!("; epoch {}: {}", history.epochs.len(), words.join(", "))
        });
        let state = match (self.ended(), steps == self.handle.total) {
            (false, _) => "running",
            (true, true) => "finished",
            (true, false) => "ended early, join tells why",
        };
        let text =
            format!("training, {state}: {steps}/{} steps{}", self.handle.total, last.unwrap_or_default());
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}
