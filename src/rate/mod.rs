//! Rates as constraints: the threshold on the score is an implicit function of the network.
//!
//! ```text
//! s = head(phi(x)) ──▶ t = h(s): g(s, t) = 0 ──▶ c = ∂f/∂s + μ ∂g/∂s ──▶ one backward pass of Σ c s
//! ```
//! | file | what lives there |
//! |---|---|
//! | `surrogate.rs` | [`Surrogate`]: what takes the place of a step |
//! | `labels.rs`, `rates.rs` | [`Labels`], [`Rate`], [`RateSum`]: shares of decisions, smooth and exact |
//! | `threshold.rs` | [`smooth_threshold`], [`hard_threshold`], [`confident_target`] |
//! | `scored.rs` | passes over scores where they are: loops on the host, tensor operations on a device |
//! | `problem.rs`, `solve.rs` | [`RateProblem`]: thresholds solved for, and the implicit gradient |
//! | `pairs.rs` | [`pair_kernel`]: the area under a smooth ROC, pair by pair |
//! | `game.rs` | [`Game`]: the multiplier player of a Lagrangian game |
//! | `training.rs`, `rule.rs`, `policy.rs` | [`RateTraining`]: every method of the paper, by what either side follows |
//!
//! Paper: Chen, Kumar, Liu and Amid, *Fast implicit constrained optimization of non-decomposable objectives for deep
//! networks* (2022); the original method is that of Kumar, Narasimhan and Cotter (2021). Names: the paper's λ is `t`, its
//! τ `sharpness`, its β `target`, its η the weight of a [`Penalty`], its θ₋L and θ_L `bottom` and `last`. Host: what is given there. Training
//! on a device brings home sums only, but for hard thresholds and for precision as a constraint, which sort all scores.
//!
//! ```
//! use lastlayer::prelude::*;
//! // Two positives, then two negatives, of which one half may pass.
//! let (s, labels) = ([1.0, 3.0, 0.0, 2.0], Labels::new([1, 1, 0, 0])?);
//! let goal = RateProblem::fnr_at_fpr(0.5, Surrogate::sigmoid(1.0))?;
//! let t = goal.solve(s, &labels)?.t;
//! assert!((t[0] - 1.0).abs() < 1e-9); // halfway between the two negatives
//! // Scores that all move together take the threshold along, so the loss stays.
//! let slope: f64 = goal.adjoint(s, &labels, &t)?.cotangent.iter().sum();
//! assert!(slope.abs() < 1e-12);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod game;
mod labels;
mod pairs;
mod policy;
mod problem;
mod rates;
mod rule;
mod scored;
mod solve;
mod surrogate;
mod threshold;
mod training;

pub use game::{Game, Regret};
pub use labels::{Labels, Within};
pub use pairs::pair_kernel;
pub use policy::ThresholdPolicy;
pub use problem::{Adjoint, RateProblem, Sense, Thresholds};
pub use rates::{At, Rate, RateSum, Slopes, Term};
pub use rule::{Penalty, Rule};
pub use surrogate::Surrogate;
pub use threshold::{Root, confident_target, hard_threshold, smooth_threshold};
pub use training::RateTraining;
