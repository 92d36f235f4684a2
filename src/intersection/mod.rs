//! Codes that a network and a decision tree must both be able to read, and how much of the truth is in them.
//!
//! ```text
//! x ──▶ phi ──▶ quantise ──▶ v ──┬──▶ head ──▶ p ──▶ cross entropy to the label and to the tree ──▶ gradient in phi, head
//!                                └──▶ tree, fitted to p on all codes of the epoch ──▶ t
//! ```
//! | file | what lives there |
//! |---|---|
//! | `agreement.rs` | [`Agreement`], [`Intersection`]: Algorithm 1 |
//! | `fidelity.rs` | [`AttributeMatches`]: how well hidden attributes can be read off codes; floors and nulls |
//! | `readout.rs` | [`TreeReading`]: which attribute each question of a tree asks for |
//!
//! Paper: Ali, Galanti, Zheltonozhskiy, Baskin and Wolf, *Intersection regularization for extracting semantic attributes*
//! (2021). Names: its F is `phi`, its G is the head, its T is the [`Tree`](crate::tree::Tree), its S′ are
//! [`Examples`](crate::tree::Examples), its λ₁, λ₂, λ₃ are `label`, `tree` and `sparse`. Host: trees and counts; the losses
//! stay on their device.
//!
//! ```
//! use lastlayer::prelude::*;
//! let (seed, device) = (Seed::new(1), Device::Cpu);
//! let data = arcs(60, 0.1, seed, &device)?;
//! let net = code_net(zoo::mlp(&[2, 8])?, Quantiser::default(), 8, 2, seed, &device)?;
//! let agreement = Agreement { cart: Cart { depth: 2, ..Cart::default() }, ..Agreement::default() };
//! let mut both = Intersection::new(&net, &data, agreement)?;
//! Trainer::adam(0.01).epochs(3).batch(20).silent().fit(&mut both, &data)?;
//! let tree = both.final_tree(&data)?;
//! assert!(tree.depth() <= 2);
//! assert!(tree.accuracy(&both.codes(&data)?, &data.labels()?)? > 0.5);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod agreement;
mod fidelity;
mod readout;

pub use crate::ops::{Grid, Quantiser, Range, RangeGradient};
pub use agreement::{Agreement, Divisor, Intersection, Sparsity, code_net, codes_of};
pub use fidelity::{
    AttributeMatch, AttributeMatches, Binarise, Null, Score, class_oracle, floor, rank_p_value,
};
pub use readout::{NodeReading, TreeReading, read_tree};
