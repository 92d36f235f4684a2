//! Linear heads on features that stay fixed, fitted in closed form or by Newton's method, and differentiated.
//!
//! | file | what lives there |
//! |---|---|
//! | `features.rs` | [`Features`] on the host; [`ClassRows`], from which balanced subsets are drawn |
//! | `head.rs` | [`LinearHead`] |
//! | `weak.rs`, `ridge.rs`, `softmax.rs` | [`WeakFit`]: how a head is fitted; [`Fitted`], with its adjoint |
//! | `layer.rs` | features out of a network, heads back into one, and as differentiable tensors |
//!
//! Host: the fits, in f64.

mod features;
mod head;
mod layer;
mod ridge;
mod softmax;
mod weak;

pub use features::{ClassRows, Features};
pub use head::LinearHead;
pub use weak::{Fitted, WeakFit};
