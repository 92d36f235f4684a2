//! Features trained against strangers: every step fits a new, weak head to a few samples, and the backbone must make do
//! with it.
//!
//! ```text
//! k samples per class ──▶ phi ──▶ WeakFit: W, b ─┐ constant (Fixed), or a function of phi (Through)
//! batch               ──▶ phi ──▶ z ─────────────┴─▶ loss ──▶ gradient in phi
//! ```
//! | file | what lives there |
//! |---|---|
//! | `strangers.rs` | [`Foca`], [`Strangers`]: Algorithm 1 |
//! | `extractor.rs` | [`Baseline`], [`extractor`]: what FOCA is compared with |
//! | `partial.rs` | [`partial_heads`]: heads from a few samples (experiment 1) |
//! | `distance.rs` | [`fisher_length`] and its kin: how far two heads are apart (experiment 2) |
//! | `lda.rs`, `spread.rs` | [`Lda`], [`TwoClass`], [`Spread`]: how point-like features are (experiment 3) |
//!
//! Paper: Sato, Ishikawa, Liu and Tanaka, *Breaking inter-layer co-adaptation by classifier anonymization* (2019). Names:
//! its f is `z`, its θ is `w` and `b`, its b (a subset) is `rows`, its t is `y`. Host: the fits, in f64; losses come back to
//! the device of their features.

mod distance;
mod extractor;
mod lda;
mod partial;
mod spread;
mod strangers;

pub use crate::loss::one_hot;
pub use crate::probe::{ClassRows, Features, Fitted, LinearHead, WeakFit};
pub use distance::{Fisher, fisher_length, prediction_distance, printed_length};
pub use extractor::{Baseline, extractor};
pub use lda::{Lda, TwoClass, closest_pair};
pub use partial::{PartialHead, PartialHeads, partial_heads};
pub use spread::Spread;
pub use strangers::{Foca, Strangers, ThetaGrad};
