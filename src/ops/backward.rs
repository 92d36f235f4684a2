//! A backward pass that hands over the gradients of parameters instead of copying them twice.

use std::cell::RefCell;
use std::collections::HashMap;

use candle_core::backprop::GradStore;
use candle_core::{Tensor, TensorId};

use super::host::Candle;
use crate::error::Result;

thread_local! {
    /// Gradients of variables that the operations of the running backward pass have computed; none runs outside.
    static TAKEN: RefCell<Option<HashMap<TensorId, Tensor>>> = const { RefCell::new(None) };
}

/// Gradients of a loss with respect to every variable it was made of: `loss.backward()`, faster.
///
/// ```text
/// grads[θ] = ∂loss/∂θ
/// ```
/// candle adds each gradient to a tensor of zeros, on threads that then spin for a while and keep the processor from
/// ours. Here the operations of this folder put the gradients of variables aside, and they enter the result as they
/// are. Everything else is candle's; the numbers are the same. Shapes: `loss` any, usually a scalar → one gradient per
/// variable, of its shape. Fails: as the operations do. Checked by `tests/ops/backward.rs`.
/// Book: `ground/autograd.md#eq-autograd-adjoint`.
///
/// ```
/// use lastlayer::prelude::*;
/// let w = Var::new(&[3f64, -1.0], &Device::Cpu)?;
/// let gradients = ops::backward(&w.sqr()?.sum_all()?)?;
/// assert_eq!(gradients.get(&w).unwrap().to_vec1::<f64>()?, [6.0, -2.0]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn backward(loss: &Tensor) -> Result<GradStore> {
    let taking = Taking(TAKEN.replace(Some(HashMap::new())));
    let grads = loss.backward();
    let taken = TAKEN.take();
    drop(taking);
    let mut grads = grads?;
    for (id, gradient) in taken.into_iter().flatten() {
        let gradient = match grads.get_id(id) {
            Some(other) => (other + gradient)?,
            None => gradient,
        };
        grads.insert_id(id, gradient);
    }
    Ok(grads)
}

/// Puts back what an outer pass had taken, also if candle panics.
struct Taking(Option<HashMap<TensorId, Tensor>>);

impl Drop for Taking {
    fn drop(&mut self) {
        TAKEN.set(self.0.take());
    }
}

/// What an operation tells candle of the gradient of its argument: nothing, if [`backward`] takes it.
pub(super) fn hand_over(argument: &Tensor, gradient: Option<Tensor>) -> Candle<Option<Tensor>> {
    let Some(gradient) = gradient else { return Ok(None) };
    if !argument.is_variable() {
        return Ok(Some(gradient));
    }
    TAKEN.with_borrow_mut(|taken| {
        let Some(taken) = taken else { return Ok(Some(gradient)) };
        let sum = match taken.remove(&argument.id()) {
            Some(other) => (other + gradient)?,
            // A part of a larger result would keep all of it in memory.
            None if gradient.layout().start_offset() > 0 => gradient.copy()?,
            None => gradient,
        };
        taken.insert(argument.id(), sum);
        Ok(None)
    })
}
