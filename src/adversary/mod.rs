//! Attributes that push each other out of the features, and how to tell which of them harm each other at all.
//!
//! ```text
//! x ──▶ phi ──▶ z ──┬──▶ own heads ──▶ loss ──▶ gradient in phi
//!                   └──▶ reverse ──▶ rivals' heads ──▶ loss ──▶ gradient in phi, turned round
//! ```
//! | file | what lives there |
//! |---|---|
//! | `reverse.rs` | [`reverse`]: gradient reversal |
//! | `contest.rs` | [`Contest`], [`AdvLoss`], [`Adversary`]: attributes alone, together, and against each other |
//! | `invariance.rs` | [`price_of_invariance`], [`decorrelating_weights`] |
//! | `leakage.rs` | [`leakage`]: what features still tell, as a [`Leak`] |
//! | `pairs.rs` | [`PairSearch`], [`PairStack`]: all pairs at once on cached features |
//! | `transfer.rs` | [`Transfer`]: measured negative transfer, its noise, and the search that allows for chance |
//! | `multiplicity.rs` | [`benjamini_hochberg`], [`holm`], [`minimum_p`]: many tests at once |
//! | `racing.rs` | [`Race`]: fewer trainings for the same search |
//! | `correlation.rs` | [`scatter`]: correlation of labels against change of accuracy |
//!
//! Paper: *Adversarial attribute learning by exploiting negative correlated attributes* (anonymous submission). Names: its
//! F is `phi`, its h is `z`, its λ is `strength`, its b are `rivals`. Host: statistics; the losses stay on their device.
//!
//! ```
//! use lastlayer::prelude::*;
//! let (seed, device) = (Seed::new(1), Device::Cpu);
//! // Two attributes, each the sign of one of four coordinates.
//! let data = Gaussians::a().sample(200, seed, &device)?;
//! let signs = data.x.narrow(1, 0, 2)?.gt(1.0)?.to_dtype(DType::F32)?;
//! let data = data.with_attributes(signs, ["first", "second"])?;
//! let against = Contest { loss: AdvLoss::Reverse, strength: 0.3, ..Contest::default() };
//! let mut rivals = Adversary::new(zoo::mlp(&[6, 8])?, &data, &["first"], &["second"], against, seed, &device)?;
//! Trainer::adam(0.01).epochs(3).silent().fit(&mut rivals, &data)?;
//! // What the features still tell of the rival is measured by a fresh probe.
//! let left = leakage(rivals.net(), &data, &data, "second")?;
//! assert!(left.auc.value <= 1.0);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod contest;
mod correlation;
mod invariance;
mod leakage;
mod multiplicity;
mod pairs;
mod racing;
mod reverse;
mod transfer;

pub use contest::{AdvLoss, Adversary, Contest};
pub use correlation::{Point, Scatter, scatter};
pub use invariance::{decorrelating_weights, price_from_labels, price_of_invariance};
pub use leakage::{Leak, leakage};
pub use multiplicity::{benjamini_hochberg, expected_minimum, holm, minimum_p};
pub use pairs::{PairSearch, PairStack, Task};
pub use racing::Race;
pub use reverse::reverse;
pub use transfer::{Effect, Partner, Transfer};
