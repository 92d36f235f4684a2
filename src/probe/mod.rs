//! Linear heads on features that stay fixed, fitted in closed form or by Newton's method, and differentiated.
//!
//! | file | what lives there |
//! |---|---|
//! | `features.rs` | [`Features`] on the host; [`ClassRows`], from which balanced subsets are drawn |
//! | `head.rs` | [`LinearHead`] |
//! | `weak.rs`, `ridge.rs`, `softmax.rs` | [`WeakFit`]: how a head is fitted; [`Fitted`], with its adjoint |
//! | `stacked.rs` | ridge heads of several sets at once, on a device |
//! | `layer.rs` | features out of a network, heads back into one, and as differentiable tensors |
//!
//! Host: the fits, in f64, but for ridge heads that train a network on a device.
//!
//! ```
//! use lastlayer::prelude::*;
//! let data = arcs(60, 0.1, Seed::new(1), &Device::Cpu)?;
//! let net = SplitNet::new(zoo::mlp(&[2, 32])?, 2, Seed::new(1), &Device::Cpu)?;
//! // A head in closed form on features as they are, put in place of the network's own.
//! let features = Features::of(&net, &data)?;
//! let head = WeakFit::RidgeSum(1.0).fit(&features)?.head;
//! head.install(&net)?;
//! let accuracy = ClassScores::new(&net.scores_of(&data)?, &data.y)?.accuracy();
//! assert_eq!(accuracy, head.accuracy(&features)?);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod features;
mod head;
mod layer;
mod ridge;
mod softmax;
mod stacked;
mod weak;

pub use features::{ClassRows, Features};
pub use head::LinearHead;
pub use weak::{Fitted, WeakFit};
