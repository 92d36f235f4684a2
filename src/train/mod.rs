//! Training: one loop for every method, which only says what a step's losses are and what it learns of a step.
//!
//! ```text
//! Trainer ── batch ──▶ method.step ── Step { losses, report } ──▶ backward, clip, optimiser ──▶ method.after ──▶ History
//!    └── checkpoint ◀── method.state ──────────────────────────────────────────────────────────────┘
//! ```
//! | file | what lives there |
//! |---|---|
//! | `method.rs` | [`Method`]: what is trained; [`Minimise`], a loss of one's own |
//! | `step.rs` | [`Batch`], [`Step`]: what goes into a step, and what comes out |
//! | `trainer.rs` | [`Trainer`]: the loop |
//! | `update.rs`, `optimiser.rs`, `schedule.rs` | from losses to moved parameters |
//! | `checkpoint.rs`, `history.rs` | what is kept of a run |
//! | `job.rs`, `sweep.rs` | runs in the background, and many of them |
//!
//! All randomness is addressed by seed and step, so a run that was killed and resumed ends in the same bytes as one that
//! was not. Host: the losses and the length of the gradient are read in each step, the whole state when it is saved;
//! everything else stays on the device.
//!
//! ```
//! use lastlayer::prelude::*;
//! let data = Gaussians::a().sample(200, Seed::new(1), &Device::Cpu)?;
//! let net = SplitNet::new(zoo::mlp(&[6, 8])?, 1, Seed::new(1), &Device::Cpu)?;
//! let trainer = Trainer::adam(0.01).epochs(5).batch(50).seed(Seed::new(1)).silent();
//! let mut logistic = Minimise::new(&net, |b| bce_logits(&net.forward(&b.x, b.pass())?, &b.y));
//! let run = trainer.fit(&mut logistic, &data)?;
//! let loss = run.history.values("loss")?;
//! assert!(loss[4] < loss[0]);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod checkpoint;
mod history;
mod job;
mod method;
mod optimiser;
mod schedule;
mod step;
mod sweep;
mod trainer;
mod update;

pub use history::{Epoch, History};
pub use job::Job;
pub use method::{Group, Method, Minimise, State};
pub use optimiser::{Decay, Optimiser};
pub use schedule::Schedule;
pub use step::{Batch, Step};
pub use sweep::{Sweep, SweepRun};
pub use trainer::{Run, Stopped, Trainer};
pub use update::Updates;
