//! Gradient reversal.

use candle_core::Tensor;

use crate::error::Result;

/// Passes numbers on as they are, and their gradient turned round.
///
/// ```text
/// forward: x, to the last bit        backward: −strength times the gradient
/// ```
/// Composed of tensor operations, so it runs on every device: x + (x − x) strength with the first and second x taken as
/// constants. A number that is not finite becomes NaN. A strength of −1 changes nothing, 0 lets no gradient pass.
/// Checked by `tests/adversary/training.rs::reversal_is_the_identity_forward_and_a_factor_backward`.
/// Book: `adversary/game.md#eq-adv-game-reverse`, `#eq-adv-game-affine`.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Var::new(&[0.5f64, -2.0], &Device::Cpu)?;
/// let turned = reverse(&x, 0.75)?;
/// assert_eq!(turned.to_vec1::<f64>()?, [0.5, -2.0]);
/// let gradients = turned.sum_all()?.backward()?;
/// assert_eq!(gradients.get(&x).expect("a gradient").to_vec1::<f64>()?, [-0.75, -0.75]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn reverse(x: &Tensor, strength: f64) -> Result<Tensor> {
    let constant = x.detach();
    Ok((&constant + ((&constant - x)? * strength)?)?)
}
