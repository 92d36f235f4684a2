//! Decision trees on whole numbers: one tree predicts a whole vector of probabilities.
//!
//! ```text
//! codes (n, d) in 0..levels ─┐
//! probabilities (n, k) ──────┴─▶ Examples ──▶ Cart::fit ──▶ Tree ──▶ predict, rules, figure, TikZ
//! ```
//! | file | what lives there |
//! |---|---|
//! | `codes.rs` | [`Codes`]: a table of small whole numbers |
//! | `examples.rs` | [`Examples`]: codes and targets in fixed point, which may grow |
//! | `cart.rs` | [`Cart`], [`Criterion`]: how a tree is grown |
//! | `histogram.rs` | sums by feature and code, and the gain of every threshold |
//! | `tree.rs` | [`Tree`]: what a tree says, and how wrong it is |
//! | `draw.rs` | [`TreeNames`]: the same tree as a figure, as rules and as TikZ |
//! | `soft.rs` | [`SoftTree`]: a tree whose questions are probabilities, trained by gradient |
//!
//! Sums are kept in fixed point, so that their order does not matter: any number of threads, any order of the rows, and
//! sums that were subtracted from others give the same bits, and the same tree. Host: all of it but [`SoftTree`], whose
//! losses stay on their device.
//!
//! ```
//! use lastlayer::prelude::*;
//! // Two features of four levels; the first alone decides.
//! let codes = Codes::new(&ndarray::array![[0, 3], [1, 0], [2, 3], [3, 0]], 4)?;
//! let p = ndarray::array![[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]];
//! let tree = Cart::default().fit(&codes, &p)?;
//! assert_eq!(tree.predict(&codes)?, p);
//! let rules = tree.rules(&tree.names(&["low", "high"]))?;
//! assert_eq!(rules, "z0 > 1?\n  yes: high 1.00 (2 rows)\n  no: low 1.00 (2 rows)\n");
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod cart;
mod codes;
mod draw;
mod examples;
mod histogram;
mod soft;
#[allow(clippy::module_inception)]
mod tree;

pub use cart::{Cart, Criterion};
pub use codes::Codes;
pub use draw::TreeNames;
pub use examples::Examples;
pub use soft::{SoftReading, SoftTree};
pub use tree::{Node, Split, Tree};
