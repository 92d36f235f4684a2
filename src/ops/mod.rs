//! CPU operations where candle's are slow, wrong or missing; on other devices the same numbers from candle's own.
//!
//! | file | what lives there | why not candle's |
//! |---|---|---|
//! | `conv` | [`conv2d`] | backward 10 times as slow |
//! | `pool` | [`max_pool2d`], [`avg_pool2d`], [`global_avg_pool`] | gradients wrong by the window's share, at odd sizes, and no overlapping windows |
//! | `norm`, `running` | [`batch_norm`], [`batch_norm_relu`]; [`Running`], the statistics they keep | many passes over memory |
//! | `block` | [`conv_block`]: convolution, batch norm, ReLU and max pooling at once | every result between them costs three passes in candle's backward |
//! | `activation` | [`relu`], [`mish`] | gradient 1 at 0; overflow |
//! | `linear` | [`linear()`]: a whole layer as one operation | copies and broadcasts in backward |
//! | `stacked` | [`stacked_linear`], [`TwoLayer`]: many small models at once | one core for each product, and memory that never rests in a cache |
//! | `quantise` | [`Quantiser`], [`Grid`]: whole numbers with straight-through gradients | rounding cuts the gradient, clamping halves it at the ends |
//! | `known` | what was computed on the host, with its gradient | three passes over every score |
//! | `backward` | [`backward()`]: gradients of parameters without copies | two copies each, and threads that spin |
//! | `optimiser` | [`adam_step`], [`sgd_step`] | a dozen tensors per parameter; no momentum |
//!
//! All of them take f32 and f64, contiguous or not, pass NaN on, and give the same bits with any number of threads:
//! work is cut into pieces that depend on the shapes alone, and sums over pieces are taken in order.
//! Host: the CPU branches read the storage of CPU tensors in place; nothing is copied from another device.
//!
//! ```
//! use lastlayer::prelude::*;
//! // At 0 the gradient is 0, where candle's own relu says 1.
//! let x = Var::new(&[-1f32, 0.0, 2.0], &Device::Cpu)?;
//! let gradients = ops::backward(&ops::relu(&x)?.sum_all()?)?;
//! assert_eq!(gradients.get(&x).unwrap().to_vec1::<f32>()?, [0.0, 0.0, 1.0]);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod activation;
mod backward;
mod block;
mod conv;
mod host;
mod known;
mod linear;
mod norm;
mod optimiser;
mod parallel;
mod pool;
mod quantise;
mod running;
mod stacked;

pub use activation::{mish, relu};
pub use backward::backward;
pub use block::conv_block;
pub use conv::conv2d;
pub(crate) use known::known;
pub use linear::linear;
pub use norm::{batch_norm, batch_norm_relu};
pub(crate) use optimiser::adam_step_numbered;
pub use optimiser::{AdamStep, SgdStep, adam_step, sgd_step};
pub use pool::{avg_pool2d, global_avg_pool, max_pool2d};
pub use quantise::{Grid, Quantiser, Range, RangeGradient};
pub use running::Running;
pub use stacked::{TwoLayer, stacked_linear};

/// What other devices run, as compositions of candle's operations: no part of the interface, but tests compare each with
/// its kernel where both run.
#[doc(hidden)]
pub mod composed {
    pub use super::activation::{mish_by_tensors, relu_by_tensors};
    pub use super::conv::conv2d_by_tensors;
    pub use super::norm::batch_norm_by_tensors;
    pub use super::optimiser::{adam_step_by_tensors, sgd_step_by_tensors};
    pub use super::pool::{avg_pool2d_by_tensors, max_pool2d_by_tensors};
}
