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
//! | `leakage.rs` | [`leakage`]: what features still tell |
//! | `pairs.rs` | [`PairSearch`], [`PairStack`]: all pairs at once on cached features |
//! | `transfer.rs` | [`Transfer`]: measured negative transfer, its noise, and the search that allows for chance |
//! | `multiplicity.rs` | [`benjamini_hochberg`], [`holm`], [`minimum_p`]: many tests at once |
//! | `racing.rs` | [`Race`]: fewer trainings for the same search |
//! | `correlation.rs` | [`scatter`]: correlation of labels against change of accuracy |
//!
//! Paper: *Adversarial attribute learning by exploiting negative correlated attributes* (anonymous submission). Names: its
//! F is `phi`, its h is `z`, its λ is `strength`, its b are `rivals`. Host: statistics; the losses stay on their device.

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
pub use leakage::leakage;
pub use multiplicity::{benjamini_hochberg, expected_minimum, holm, minimum_p};
pub use pairs::{PairSearch, PairStack, Task};
pub use racing::Race;
pub use reverse::reverse;
pub use transfer::{Effect, Partner, Transfer};
