//! Training: one loop for every method, which only says what a step's loss is.
//!
//! ```text
//! Trainer ── batch ──▶ your closure ── Step { losses, report } ──▶ backward, optimiser ──▶ History
//!    └── checkpoint ◀─────────────────────────────────────────────────┘
//! ```
//! All randomness is addressed by seed and step, so a run that was killed and resumed ends in the same bytes as one that
//! was not. Host: the losses and the length of the gradient are read in each step, the whole state when it is saved;
//! everything else stays on the device.
//!
//! ```
//! use lastlayer::prelude::*;
//! let data = Gaussians::a().sample(200, Seed::new(1), &Device::Cpu)?;
//! let net = SplitNet::new(zoo::mlp(&[6, 8])?, 1, Seed::new(1), &Device::Cpu)?;
//! let trainer = Trainer::adam(0.01).epochs(5).batch(50).seed(Seed::new(1)).silent();
//! let run = trainer.fit(&net, &data, |b| {
//!     let s = net.forward(&b.x, b.pass())?;
//!     Ok(Step::new(bce_logits(&s, &b.y)?))
//! })?;
//! let loss = run.history.values("loss")?;
//! assert!(loss[4] < loss[0]);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

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
