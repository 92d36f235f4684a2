//! Training: one loop for every method, which only says what a step's loss is.
//!
//! ```text
//! Trainer ── batch ──▶ your closure ── Step { losses, report } ──▶ backward, optimiser ──▶ History
//!    └── checkpoint ◀─────────────────────────────────────────────────┘
//! ```
//! All randomness is addressed by seed and step, so a run that was killed and resumed ends in the same bytes as one that
//! was not. Host: the losses and the length of the gradient are read in each step, the whole state when it is saved;
//! everything else stays on the device.

mod checkpoint;
mod history;
mod job;
mod optimiser;
mod schedule;
mod step;
mod sweep;
mod trainer;

pub use history::{Epoch, History};
pub use job::Job;
pub use optimiser::{Decay, Optimiser};
pub use schedule::Schedule;
pub(crate) use step::named;
pub use step::{Batch, Group, Parameters, Step, Trainable};
pub use sweep::{Sweep, SweepRun};
pub use trainer::{Run, Stopped, Trainer};
