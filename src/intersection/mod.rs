//! Codes that a network and a decision tree must both be able to read, and how much of the truth is in them.
//!
//! ```text
//! x ──▶ phi ──▶ quantise ──▶ v ──┬──▶ head ──▶ p ──▶ cross entropy to the label and to the tree ──▶ gradient in phi, head
//!                                └──▶ tree, fitted to p on all codes of the epoch ──▶ t
//! ```
//! | file | what lives there |
//! |---|---|
//! | `agreement.rs` | [`Agreement`], [`Intersection`]: Algorithm 1 |
//! | `memory.rs` | codes and probabilities of the epoch so far, and the tree, as a checkpoint keeps them |
//! | `fidelity.rs` | [`Recovery`]: how well hidden attributes can be read off codes; floors and nulls |
//! | `readout.rs` | [`Readout`]: which attribute each question of a tree asks for |
//!
//! Paper: Ali, Galanti, Zheltonozhskiy, Baskin and Wolf, *Intersection regularization for extracting semantic attributes*
//! (2021). Names: its F is `phi`, its G is the head, its T is the [`Tree`](crate::tree::Tree), its S′ are
//! [`Examples`](crate::tree::Examples), its λ₁, λ₂, λ₃ are `label`, `tree` and `sparse`. Host: trees and counts; the losses
//! stay on their device.

mod agreement;
mod fidelity;
mod memory;
mod readout;

pub use crate::ops::{Grid, Quantiser, Range, RangeGradient};
pub use agreement::{Agreement, Intersection, Over, Sparsity, code_net, codes_of};
pub use fidelity::{Binarise, Matched, Recovery, Score, class_oracle, floor};
pub use readout::{NodeReading, Readout, read_tree};
