//! Results that are known already, with a gradient of their own.

use candle_core::{CpuStorage, CudaStorage, CustomOp1, CustomOp2, Layout, Shape, Storage, Tensor};

use super::backward::hand_over;
use super::host::Candle;
use crate::error::Result;

/// A value that is known, as a function of `x`: forward it is itself, backward `pull` turns the gradient of the result into
/// that of `x`.
///
/// What solves something on the host comes back to the device here, and what is composed of tensor operations gets a
/// gradient that is simpler, or finite where the chain rule is not. Shapes: `value` any, on the device of `x` → the same.
/// Checked by `tests/lp/layer.rs`, `tests/ops/activation.rs`.
pub(crate) fn known(
    x: &Tensor,
    value: Tensor,
    pull: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor> {
    let pull = move |gradient: &Tensor| Ok([Some(pull(gradient)?)]);
    Ok(x.apply_op1(Known { value: value.contiguous()?.detach(), pull })?)
}

/// A value computed from two tensors, and their gradients; one that nobody asks for is none.
pub(super) fn known_of_two(
    a: &Tensor,
    b: &Tensor,
    value: Tensor,
    pull: impl Fn(&Tensor) -> Result<[Option<Tensor>; 2]> + Send + Sync + 'static,
) -> Result<Tensor> {
    Ok(a.apply_op2(b, Known { value: value.contiguous()?.detach(), pull })?)
}

struct Known<P> {
    value: Tensor,
    pull: P,
}

impl<P> Known<P> {
    fn cpu(&self) -> Candle<(CpuStorage, Shape)> {
        let (storage, layout) = self.value.storage_and_layout();
        match storage.try_clone(layout)? {
            Storage::Cpu(storage) => Ok((storage, self.value.shape().clone())),
            _ => Err(elsewhere()),
        }
    }

    fn cuda(&self) -> Candle<(CudaStorage, Shape)> {
        let (storage, layout) = self.value.storage_and_layout();
        match storage.try_clone(layout)? {
            Storage::Cuda(storage) => Ok((storage, self.value.shape().clone())),
            _ => Err(elsewhere()),
        }
    }
}

fn elsewhere() -> candle_core::Error {
    candle_core::Error::Msg("a known result is on another device than what it is a function of".to_string())
}

const NAME: &str = "known result";

impl<P: Fn(&Tensor) -> Result<[Option<Tensor>; 1]> + Send + Sync> CustomOp1 for Known<P> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Candle<(CpuStorage, Shape)> {
        self.cpu()
    }

    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> Candle<(CudaStorage, Shape)> {
        self.cuda()
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, gradient: &Tensor) -> Candle<Option<Tensor>> {
        let [dx] = (self.pull)(gradient).map_err(candle_core::Error::wrap)?;
        hand_over(x, dx)
    }
}

impl<P: Fn(&Tensor) -> Result<[Option<Tensor>; 2]> + Send + Sync> CustomOp2 for Known<P> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Candle<(CpuStorage, Shape)> {
        self.cpu()
    }

    fn cuda_fwd(
        &self,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
    ) -> Candle<(CudaStorage, Shape)> {
        self.cuda()
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Candle<(Option<Tensor>, Option<Tensor>)> {
        let [da, db] = (self.pull)(gradient).map_err(candle_core::Error::wrap)?;
        Ok((hand_over(a, da)?, hand_over(b, db)?))
    }
}
