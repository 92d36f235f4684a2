//! Training in the background, so that a notebook stays alive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::history::History;
use super::step::{Batch, Step, Trainable};
use super::trainer::{Run, Trainer};
use crate::data::Dataset;
use crate::error::{Error, Result};

/// A run on a thread of its own: look with [`poll`](Job::poll), end it with [`stop`](Job::stop), take the result with
/// [`join`](Job::join).
///
/// The network is shared with the thread: scores that you compute meanwhile are those of the step at hand. Copies are
/// handles of the same run. Checked by `tests/train.rs`.
#[derive(Clone)]
pub struct Job {
    shared: Arc<Shared>,
}

struct Shared {
    stop: AtomicBool,
    seen: Mutex<(usize, History)>,
    handle: Mutex<Option<JoinHandle<Result<Run>>>>,
    total: usize,
}

impl Trainer {
    /// Starts training in the background. No progress is shown; [`Job::poll`] tells it.
    ///
    /// Fails: `Io` if no thread can be started. What goes wrong in training is the result of [`Job::join`].
    pub fn spawn<T: Trainable + Send + 'static>(
        &self,
        model: T,
        data: Dataset,
        mut step: impl FnMut(&Batch) -> Result<Step> + Send + 'static,
    ) -> Result<Job> {
        let total = data.n().div_ceil(self.batch.max(1)) * self.epochs;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            seen: Mutex::new((0, History::default())),
            handle: Mutex::new(None),
            total,
        });
        let (trainer, inside) = (self.clone().silent(), shared.clone());
        let work = move || {
            trainer.run(&model, &data, &mut step, None, &inside.stop, &mut |state| {
                *inside.seen.lock().unwrap_or_else(PoisonError::into_inner) =
                    (state.step, state.history.clone());
            })
        };
        let handle = std::thread::Builder::new()
            .name("training".to_string())
            .spawn(work)
            .map_err(|e| Error::io("training", "no thread could be started; train with fit instead", e))?;
        *shared.handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        Ok(Job { shared })
    }
}

impl Job {
    /// Steps done so far, and the history of finished epochs.
    pub fn poll(&self) -> (usize, History) {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the thread has ended.
    pub fn ended(&self) -> bool {
        let handle = self.shared.handle.lock().unwrap_or_else(PoisonError::into_inner);
        handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Asks the run to end after the step at hand; with a folder for checkpoints it can be continued.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end and gives the result, once.
    ///
    /// Fails: with what training failed with, `Config` if the result was taken before.
    pub fn join(&self) -> Result<Run> {
        let handle = self.shared.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let handle =
            handle.ok_or_else(|| Error::config("result of a job", "taken", "one call of join per job"))?;
        handle.join().unwrap_or_else(|_| {
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
        let state = if self.ended() { "ended" } else { "running" };
        let text =
            format!("training {state}: {steps}/{} steps{}", self.shared.total, last.unwrap_or_default());
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}
