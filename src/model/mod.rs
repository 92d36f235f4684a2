//! Networks with a line in them: a backbone `phi` below it, a head above.
//!
//! ```text
//! x ──▶ phi ──▶ z ──▶ head ──▶ s          bottom = parameters of phi, last = parameters of head
//! ```
//! [`Split`] is what all methods act on, and [`Network`] how they hold it. [`SplitNet`] is one by a plan: [`Net`] is a side of
//! it, [`Layer`] a step of a net, and the functions of [`zoo`] write down the usual ones. [`split`] makes one of any model
//! of candle's; for a layer of your own, write a [`Split`] around the nets below and above it.
//!
//! ```
//! use lastlayer::prelude::*;
//! let net = SplitNet::new(zoo::mlp(&[2, 16])?, 3, Seed::new(1), &Device::Cpu)?;
//! let x = Tensor::zeros((5, 2), DType::F32, &Device::Cpu)?;
//! let z = net.features(&x, Pass::Eval)?; // below the line
//! let s = net.scores(&z, Pass::Eval)?; // above it
//! assert_eq!((z.dims(), s.dims()), (&[5, 16][..], &[5, 3][..]));
//! assert_eq!(s.to_vec2::<f32>()?, net.forward(&x, Pass::Eval)?.to_vec2::<f32>()?);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod file;
mod layer;
mod net;
mod predictor;
mod split;
pub mod zoo;

pub use layer::{Layer, Named};
pub(crate) use net::nudged;
pub use net::{Init, Net, Pass, Plan};
pub use predictor::{Decision, Predictor};
pub(crate) use split::distinct;
pub use split::{Network, Split, SplitNet, split};
