//! CPU operations where candle's are slow, wrong or missing; on other devices the same numbers from candle's own.
//!
//! | file | what lives there | why not candle's |
//! |---|---|---|
//! | [`conv`] | [`conv2d`] | backward 10 times as slow |
//! | [`pool`] | [`max_pool2d`], [`avg_pool2d`], [`global_avg_pool`] | gradients wrong by the window's share, at odd sizes, and no overlapping windows |
//! | [`norm`], [`running`] | [`batch_norm`], [`batch_norm_relu`]; [`Running`], the statistics they keep | many passes over memory |
//! | [`block`] | [`conv_block`]: convolution, batch norm, ReLU and max pooling at once | every result between them costs three passes in candle's backward |
//! | [`activation`] | [`relu`], [`mish`] | gradient 1 at 0; overflow |
//! | [`linear`](mod@linear) | [`linear()`]: a whole layer as one operation | copies and broadcasts in backward |
//! | [`stacked`] | [`stacked_linear`], [`TwoLayer`](stacked::TwoLayer): many small models at once | one core for each product, and memory that never rests in a cache |
//! | [`quantise`] | [`Quantiser`], [`Grid`]: whole numbers with straight-through gradients | rounding cuts the gradient, clamping halves it at the ends |
//! | `known` | what was computed on the host, with its gradient | three passes over every score |
//! | [`backward`](mod@backward) | [`backward()`]: gradients of parameters without copies | two copies each, and threads that spin |
//! | [`optimiser`] | [`adam_step`], [`sgd_step`] | a dozen tensors per parameter; no momentum |
//!
//! All of them take f32 and f64, contiguous or not, pass NaN on, and give the same bits with any number of threads:
//! work is cut into pieces that depend on the shapes alone, and sums over pieces are taken in order.
//! Host: the CPU branches read the storage of CPU tensors in place; nothing is copied from another device.

pub mod activation;
pub mod backward;
pub mod block;
pub mod conv;
mod host;
mod known;
pub mod linear;
pub mod norm;
pub mod optimiser;
mod parallel;
pub mod pool;
pub mod quantise;
pub mod running;
pub mod stacked;

pub use activation::{mish, relu};
pub use backward::backward;
pub use block::conv_block;
pub use conv::conv2d;
pub(crate) use known::known;
pub use linear::linear;
pub use norm::{batch_norm, batch_norm_relu};
pub use optimiser::{AdamStep, SgdStep, adam_step, sgd_step};
pub use pool::{avg_pool2d, global_avg_pool, max_pool2d};
pub use quantise::{Grid, Quantiser, Range, RangeGradient};
pub use running::Running;
pub use stacked::stacked_linear;
