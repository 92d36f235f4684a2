//! What the operations share: floating types, kernels over slices as candle operations, updates in place, checks.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::thread::LocalKey;

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, InplaceOp2, Layout, Shape, Tensor, WithDType,
};

use super::backward::hand_over;
use crate::error::{Error, Result};

pub(super) type Candle<T> = candle_core::Result<T>;

/// The two floating types the operations are written for.
pub(super) trait Real: WithDType {
    /// Memory of this thread that outlives a call, so that no call pays for fresh pages.
    fn scratch() -> &'static LocalKey<Cell<Vec<Self>>>;
    fn slice_mut(storage: &mut CpuStorage) -> Option<&mut [Self]>;
    fn sqrt(self) -> Self;
    fn is_nan(self) -> bool;
}

macro_rules! real {
    ($type:ty, $variant:ident) => {
        impl Real for $type {
            fn scratch() -> &'static LocalKey<Cell<Vec<Self>>> {
                thread_local!(static SCRATCH: Cell<Vec<$type>> = const { Cell::new(Vec::new()) });
                &SCRATCH
            }

            fn slice_mut(storage: &mut CpuStorage) -> Option<&mut [Self]> {
                match storage {
                    CpuStorage::$variant(values) => Some(values),
                    _ => None,
                }
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
        }
    };
}
real!(f32, F32);
real!(f64, F64);

/// The most elements that a thread keeps for later: 16 MB of f32.
const KEPT: usize = 1 << 22;

/// Lends `f` this thread's scratch memory, `len` elements with whatever the last user left in them.
pub(super) fn with_scratch<T: Real, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> R {
    // Taken out, not borrowed: a nested use would find an empty vector and allocate, never fail.
    let mut memory = T::scratch().take();
    if memory.len() < len {
        memory = vec![T::zero(); len];
    }
    let result = f(&mut memory[..len]);
    if memory.len() <= KEPT {
        T::scratch().set(memory);
    }
    result
}

// --------------------------------------------------------------------------------------------------------------------
// Kernels

/// A computation on the slices of `N` contiguous CPU tensors of one floating type.
pub(super) trait Kernel<const N: usize>: Send + Sync + 'static {
    const NAME: &'static str;

    fn forward<T: Real>(&self, inputs: [&[T]; N], shapes: [&Shape; N]) -> Candle<(Vec<T>, Shape)>;

    /// Gradients of the inputs; kernels that only serve a backward pass have none.
    fn backward(
        &self,
        _inputs: [&Tensor; N],
        _result: &Tensor,
        _grad: &Tensor,
    ) -> Candle<[Option<Tensor>; N]> {
        Err(candle_core::Error::BackwardNotSupported { op: Self::NAME })
    }

    /// Reads the storages as the one type they share.
    fn dispatch(&self, storages: [&CpuStorage; N], layouts: [&Layout; N]) -> Candle<(CpuStorage, Shape)> {
        match storages.first() {
            Some(CpuStorage::F32(_)) => self.typed::<f32>(storages, layouts),
            Some(CpuStorage::F64(_)) => self.typed::<f64>(storages, layouts),
            Some(other) => Err(candle_core::Error::UnsupportedDTypeForOp(dtype(other), Self::NAME)),
            None => Err(candle_core::Error::BackwardNotSupported { op: Self::NAME }),
        }
    }

    fn typed<T: Real>(
        &self,
        storages: [&CpuStorage; N],
        layouts: [&Layout; N],
    ) -> Candle<(CpuStorage, Shape)> {
        let mut slices: [&[T]; N] = [&[]; N];
        for (slice, (storage, layout)) in slices.iter_mut().zip(storages.into_iter().zip(layouts)) {
            let (from, to) = layout
                .contiguous_offsets()
                .ok_or(candle_core::Error::RequiresContiguous { op: Self::NAME })?;
            *slice = T::cpu_storage_as_slice(storage)?
                .get(from..to)
                .ok_or(candle_core::Error::RequiresContiguous { op: Self::NAME })?;
        }
        let (values, shape) = self.forward(slices, layouts.map(Layout::shape))?;
        Ok((T::to_cpu_storage_owned(values), shape))
    }
}

fn dtype(storage: &CpuStorage) -> DType {
    use candle_core::backend::BackendStorage;
    storage.dtype()
}

/// Makes candle's operation of a kernel.
struct Op<K>(K);

impl<K: Kernel<1>> CustomOp1 for Op<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn cpu_fwd(&self, s: &CpuStorage, l: &Layout) -> Candle<(CpuStorage, Shape)> {
        self.0.dispatch([s], [l])
    }

    fn bwd(&self, x: &Tensor, result: &Tensor, grad: &Tensor) -> Candle<Option<Tensor>> {
        let [dx] = self.0.backward([x], result, &grad.contiguous()?)?;
        hand_over(x, dx)
    }
}

impl<K: Kernel<2>> CustomOp2 for Op<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Candle<(CpuStorage, Shape)> {
        self.0.dispatch([s1, s2], [l1, l2])
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        result: &Tensor,
        grad: &Tensor,
    ) -> Candle<(Option<Tensor>, Option<Tensor>)> {
        let [da, db] = self.0.backward([a, b], result, &grad.contiguous()?)?;
        Ok((hand_over(a, da)?, hand_over(b, db)?))
    }
}

impl<K: Kernel<3>> CustomOp3 for Op<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> Candle<(CpuStorage, Shape)> {
        self.0.dispatch([s1, s2, s3], [l1, l2, l3])
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        c: &Tensor,
        result: &Tensor,
        grad: &Tensor,
    ) -> Candle<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [da, db, dc] = self.0.backward([a, b, c], result, &grad.contiguous()?)?;
        Ok((hand_over(a, da)?, hand_over(b, db)?, hand_over(c, dc)?))
    }
}

/// Differentiable results.
pub(super) fn apply1(kernel: impl Kernel<1>, x: &Tensor) -> Candle<Tensor> {
    x.contiguous()?.apply_op1(Op(kernel))
}

pub(super) fn apply2(kernel: impl Kernel<2>, a: &Tensor, b: &Tensor) -> Candle<Tensor> {
    a.contiguous()?.apply_op2(&b.contiguous()?, Op(kernel))
}

pub(super) fn apply3(kernel: impl Kernel<3>, a: &Tensor, b: &Tensor, c: &Tensor) -> Candle<Tensor> {
    a.contiguous()?.apply_op3(&b.contiguous()?, &c.contiguous()?, Op(kernel))
}

/// Results without a gradient, for backward passes.
pub(super) fn compute1(kernel: impl Kernel<1>, x: &Tensor) -> Candle<Tensor> {
    x.contiguous()?.apply_op1_no_bwd(&Op(kernel))
}

pub(super) fn compute2(kernel: impl Kernel<2>, a: &Tensor, b: &Tensor) -> Candle<Tensor> {
    a.contiguous()?.apply_op2_no_bwd(&b.contiguous()?, &Op(kernel))
}

pub(super) fn compute3(kernel: impl Kernel<3>, a: &Tensor, b: &Tensor, c: &Tensor) -> Candle<Tensor> {
    a.contiguous()?.apply_op3_no_bwd(&b.contiguous()?, &c.contiguous()?, &Op(kernel))
}

/// Lends `f` the elements of a CPU tensor for writing, and those of another for reading, both locked meanwhile.
pub(super) fn in_place<T: Real>(
    target: &Tensor,
    source: &Tensor,
    f: impl FnOnce(&mut [T], &[T]) -> Candle<()> + Send,
) -> Candle<()> {
    target.inplace_op2(&source.contiguous()?, &InPlace(Mutex::new(Some(f)), PhantomData::<fn(T)>))
}

struct InPlace<F, T>(Mutex<Option<F>>, PhantomData<fn(T)>);

impl<T: Real, F: FnOnce(&mut [T], &[T]) -> Candle<()>> InplaceOp2 for InPlace<F, T> {
    fn name(&self) -> &'static str {
        "update in place"
    }

    fn cpu_fwd(&self, s1: &mut CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Candle<()> {
        let op = "update in place";
        let contiguous = |layout: &Layout| layout.contiguous_offsets().map(|(from, to)| from..to);
        let (Some(to), Some(from)) = (contiguous(l1), contiguous(l2)) else {
            return Err(candle_core::Error::RequiresContiguous { op });
        };
        let source = T::cpu_storage_as_slice(s2)?.get(from);
        let f = self.0.lock().ok().and_then(|mut f| f.take());
        match (f, T::slice_mut(s1).and_then(|values| values.get_mut(to)), source) {
            (Some(f), Some(target), Some(source)) => f(target, source),
            _ => Err(candle_core::Error::UnsupportedDTypeForOp(dtype(s1), op)),
        }
    }
}

// --------------------------------------------------------------------------------------------------------------------
// Checks

/// Fails unless all tensors are f32, or all f64, on one device, and none is empty.
pub(super) fn check(tensors: &[(&str, &Tensor)]) -> Result<()> {
    let Some((_, first)) = tensors.first() else { return Ok(()) };
    for (name, tensor) in tensors {
        let dtype = tensor.dtype();
        if !matches!(dtype, DType::F32 | DType::F64) {
            return Err(Error::config(
                format!("type of {name}"),
                format!("{dtype:?}"),
                "F32 or F64; convert with to_dtype",
            ));
        }
        if dtype != first.dtype() {
            let allowed = format!("{:?}, as the other inputs; convert with to_dtype", first.dtype());
            return Err(Error::config(format!("type of {name}"), format!("{dtype:?}"), allowed));
        }
        if !tensor.device().same_device(first.device()) {
            let allowed =
                format!("{:?}, as the other inputs; move with to_device", first.device().location());
            return Err(Error::config(
                format!("device of {name}"),
                format!("{:?}", tensor.device().location()),
                allowed,
            ));
        }
        if tensor.elem_count() == 0 {
            return Err(Error::shape(name, "at least one element", format!("{:?}", tensor.dims())));
        }
    }
    Ok(())
}

/// The four sizes of a batch of images.
pub(super) fn images(name: &str, x: &Tensor) -> Result<(usize, usize, usize, usize)> {
    let wrong = |_| Error::shape(name, "[n, channels, height, width]", format!("{:?}", x.dims()));
    x.dims4().map_err(wrong)
}

/// The error of a backward pass that comes before its forward pass.
pub(super) fn missing(what: &'static str) -> candle_core::Error {
    candle_core::Error::Msg(format!(
        "{what} was not computed; call the operation again before its backward pass"
    ))
}
