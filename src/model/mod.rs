//! Networks with a line in them: a backbone `phi` below it, a head above.
//!
//! ```text
//! x ──▶ phi ──▶ z ──▶ head ──▶ s          bottom = parameters of phi, last = parameters of head
//! ```
//! [`SplitNet`] is what all methods act on. [`Net`] is one side of it, [`Layer`] a step of a net, and the functions of
//! [`zoo`] write down the usual ones.

mod file;
mod layer;
mod net;
mod predictor;
mod split;
pub mod zoo;

pub use layer::{Layer, Named};
pub use net::{Init, Net, Pass, Plan};
pub use predictor::{Decision, Predictor};
pub use split::SplitNet;
