//! Features trained against strangers, classifiers they have never met: every step fits a new, weak head to a few samples,
//! and the backbone must make do with it.
//!
//! ```text
//! k samples per class ──▶ phi ──▶ WeakFit: W, b ─┐ constant (Fixed), or a function of phi (Through)
//! batch               ──▶ phi ──▶ z ─────────────┴─▶ loss ──▶ gradient in phi
//! ```
//! | file | what lives there |
//! |---|---|
//! | `training.rs` | [`Foca`], [`FocaTraining`]: Algorithm 1 |
//! | `extractor.rs` | [`Baseline`], [`extractor`]: what FOCA is compared with |
//! | `partial.rs` | [`partial_heads`]: heads from a few samples (experiment 1) |
//! | `distance.rs` | [`fisher_length`] and its kin: how far two heads are apart (experiment 2) |
//! | `lda.rs`, `spread.rs` | [`Lda`], [`TwoClass`], [`Spread`]: how point-like features are (experiment 3) |
//!
//! Paper: Sato, Ishikawa, Liu and Tanaka, *Breaking inter-layer co-adaptation by classifier anonymization* (2019). Names:
//! its f is `z`, its θ is `w` and `b`, its b (a subset) is `rows`, its t is `y`. Host: the fits, in f64, but for
//! ridge heads that train a network on a device.
//!
//! ```
//! use lastlayer::prelude::*;
//! let (seed, device) = (Seed::new(1), Device::Cpu);
//! let data = arcs(60, 0.1, seed, &device)?;
//! let plan = extractor(zoo::mlp(&[2, 16])?, 2, Layer::RmsNorm, Baseline::Plain)?;
//! let net = SplitNet::new(plan, 2, seed, &device)?;
//! let mut training = FocaTraining::new(&net, &data, Foca { k: 5, ..Foca::default() })?;
//! Trainer::adam(0.01).epochs(5).batch(20).silent().fit(&mut training, &data)?;
//! // Training leaves the head alone: fit one to all features at the end.
//! let head = WeakFit::RidgeSum(1.0).fit(&Features::of(&net, &data)?)?.head;
//! head.install(&net)?;
//! assert!(ClassScores::new(&net.scores_of(&data)?, &data.y)?.accuracy() > 0.7);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod distance;
mod extractor;
mod lda;
mod partial;
mod spread;
mod training;

pub use crate::probe::{ClassRows, Features, Fitted, LinearHead, WeakFit};
pub use distance::{Fisher, fisher_length, prediction_distance, printed_length};
pub use extractor::{Baseline, extractor};
pub use lda::{Lda, TwoClass, closest_pair};
pub use partial::{PartialHead, PartialHeads, partial_heads};
pub use spread::Spread;
pub use training::{Foca, FocaTraining, ThetaGrad};
