//! Results that were computed on the host, as functions of a tensor on any device.

use candle_core::backend::{BackendDevice, BackendStorage};
use candle_core::{CpuStorage, CudaStorage, CustomOp1, DType, Layout, Shape, Tensor};

use super::backward::hand_over;
use super::host::Candle;
use crate::error::Result;

/// Numbers that are known, as a function of `x`: forward they are themselves, backward `pull` turns the gradient of the
/// result into that of `x`.
///
/// Shapes: `values` of `shape` → a tensor of that shape, of the dtype and on the device of `x`. Host: `values`; what solves
/// something outside of candle comes back to the device here. Fails: as candle for a dtype other than f32 and f64.
/// Checked by `tests/lp/layer.rs`.
pub(crate) fn known(
    x: &Tensor,
    values: Vec<f64>,
    shape: impl Into<Shape>,
    pull: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor> {
    Ok(x.apply_op1(Known { values, shape: shape.into(), pull })?)
}

struct Known<P> {
    values: Vec<f64>,
    shape: Shape,
    pull: P,
}

impl<P> Known<P> {
    fn storage(&self, dtype: DType) -> Candle<(CpuStorage, Shape)> {
        let values = match dtype {
            DType::F32 => CpuStorage::F32(self.values.iter().map(|v| *v as f32).collect()),
            DType::F64 => CpuStorage::F64(self.values.clone()),
            other => return Err(candle_core::Error::UnsupportedDTypeForOp(other, "known result")),
        };
        Ok((values, self.shape.clone()))
    }
}

impl<P: Fn(&Tensor) -> Result<Tensor> + Send + Sync> CustomOp1 for Known<P> {
    fn name(&self) -> &'static str {
        "known result"
    }

    fn cpu_fwd(&self, x: &CpuStorage, _: &Layout) -> Candle<(CpuStorage, Shape)> {
        self.storage(BackendStorage::dtype(x))
    }

    fn cuda_fwd(&self, x: &CudaStorage, _: &Layout) -> Candle<(CudaStorage, Shape)> {
        let (values, shape) = self.storage(BackendStorage::dtype(x))?;
        Ok((x.device().storage_from_cpu_storage(&values)?, shape))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, gradient: &Tensor) -> Candle<Option<Tensor>> {
        hand_over(x, Some((self.pull)(gradient).map_err(candle_core::Error::wrap)?))
    }
}
