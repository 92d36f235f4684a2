//! Training in the background, so that a notebook stays alive.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::history::History;
use super::method::Method;
use super::trainer::{Run, Trainer, Validate};
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
/// let logistic = Minimise::new(&net, move |b| bce_logits(&inside.forward(&b.x, b.pass())?, &b.y));
/// let job = Trainer::adam(0.01).epochs(100_000).batch(20).spawn(logistic, &data)?;
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
    /// The method, when the thread has ended.
    method: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A validation that a thread may have.
type Validation<M> = dyn FnMut(&M) -> Result<f64> + Send;

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
    /// The method moves into the thread, and [`Job::method`] gives it back; clones of its network share parameters with it.
    /// Fails: `Config` for settings that cannot be, `Io` if no thread can be started. What goes wrong in training is the
    /// result of [`Job::join`].
    pub fn spawn<M: Method + Send + 'static>(&self, method: M, data: &Dataset) -> Result<Job> {
        self.start(method, data, None)
    }

    /// Starts training in the background with a validation after each epoch, as [`fit_validated`](Trainer::fit_validated).
    pub fn spawn_validated<M: Method + Send + 'static>(
        &self,
        method: M,
        data: &Dataset,
        validate: impl FnMut(&M) -> Result<f64> + Send + 'static,
    ) -> Result<Job> {
        self.start(method, data, Some(Box::new(validate)))
    }

    fn start<M: Method + Send + 'static>(
        &self,
        mut method: M,
        data: &Dataset,
        mut validate: Option<Box<Validation<M>>>,
    ) -> Result<Job> {
        self.check(validate.is_some())?;
        let total = data.n().div_ceil(self.batch) * self.epochs;
        let shared = Arc::new(Shared::default());
        let (trainer, inside) = (self.clone().silent(), shared.clone());
        let data = data.clone();
        // A device does what a thread asks of it in the order of that thread alone: both threads wait for what they share.
        data.x.device().synchronize()?;
        let work = move || {
            let validate = validate.as_mut().map(|validate| &mut **validate as Validate<M>);
            let run = trainer.run(&mut method, &data, validate, &inside.stop, &mut |course| {
                inside.step.store(course.step, Ordering::Relaxed);
                let mut seen = locked(&inside.history);
                let known = seen.epochs.len();
                seen.epochs.extend_from_slice(&course.history.epochs[known..]);
            });
            *locked(&inside.method) = Some(Box::new(method));
            data.x.device().synchronize()?;
            run
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

    /// The method as it was trained, once: after [`join`](Job::join).
    ///
    /// Fails: `Config` while the run goes on, if it was taken before, or for another type of method, which leaves it there.
    pub fn method<M: Method + 'static>(&self) -> Result<M> {
        let mut kept = locked(&self.handle.shared.method);
        match kept.take().map(|method| method.downcast::<M>()) {
            Some(Ok(method)) => return Ok(*method),
            other => *kept = other.and_then(|other| other.err()),
        }
        let allowed = "one call per job, after join, for the type that was spawned";
        Err(Error::config("method of a job", "not there", allowed))
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
