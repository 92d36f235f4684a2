//! Between host and device: features read from a network, heads as tensors that know where they came from.

use candle_core::{DType, Tensor, Var};
use ndarray::{Array2, Axis, concatenate, s};

use super::features::Features;
use super::head::LinearHead;
use super::stacked;
use super::weak::{Fitted, WeakFit, known_classes};
use crate::data::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::loss::one_hot;
use crate::model::{Layer, Split};
use crate::numbers::{AsF64, to_tensor};
use crate::ops::known;

impl Features {
    /// Features of a set under a network, in evaluation. Host: features and labels.
    pub fn of(net: &(impl Split + ?Sized), data: &Dataset) -> Result<Features> {
        Features::new(&net.features_of(data)?, &data.y, data.k())
    }
}

impl WeakFit {
    /// W over b as a differentiable function of the features they are fitted to.
    ///
    /// Shapes: `z` (n, d), `y` (n) → (d + 1, classes), on the device and in the dtype of `z`. Host: the fit, in f64, and on
    /// the way back one solve with its factor. Fails: as [`fit`](WeakFit::fit). Checked by `tests/foca/training.rs`.
    /// Book: `foca/ridge.md#eq-foca-ridge-total`.
    pub fn theta(&self, z: &Tensor, y: &[u32], classes: usize) -> Result<Tensor> {
        self.fit(&Features::new(z, y, classes)?)?.theta(z)
    }
}

impl WeakFit {
    /// W over b of several heads side by side, each fitted to as many rows: (heads · n, d) → (d + 1, heads · classes).
    ///
    /// Host: as [`theta`](WeakFit::theta), but for ridge heads on a device, which are fitted there in f64. Fails: as
    /// [`fit`](WeakFit::fit); there, features that are not finite or determine no head make it NaN.
    pub(crate) fn theta_of_each(
        &self,
        z: &Tensor,
        y: &[u32],
        classes: usize,
        heads: usize,
    ) -> Result<Tensor> {
        self.check()?;
        let (n, d) = (y.len() / heads.max(1), z.dim(1)?);
        if let (false, Some(weight)) = (z.device().is_cpu() || d == 0, self.ridge_weight(n)) {
            known_classes(y, classes)?;
            let hot = one_hot(&Tensor::new(y, z.device())?, classes, DType::F64)?;
            let sets = z.detach().to_dtype(DType::F64)?.reshape((heads, n, d))?;
            let (theta, state) = stacked::fit(&sets, &hot.reshape((heads, n, classes))?, weight)?;
            let theta = theta.transpose(0, 1)?.reshape((d + 1, heads * classes))?.to_dtype(z.dtype())?;
            let like = z.detach();
            return known(z, theta, move |bar| {
                let bar = bar.to_dtype(DType::F64)?.reshape((d + 1, heads, classes))?.transpose(0, 1)?;
                let z_bar = state.adjoint(&bar.contiguous()?)?;
                Ok(z_bar.reshape(like.shape())?.to_dtype(like.dtype())?)
            });
        }
        let own = |head: usize| Ok((z.narrow(0, head * n, n)?, &y[head * n..][..n]));
        let own = (0..heads).map(own).collect::<Result<Vec<_>>>()?;
        let features = own.iter().map(|(z, y)| Features::new(z, *y, classes)).collect::<Result<Vec<_>>>()?;
        let fitted = self.fit_all(&features)?.into_iter().zip(&own).map(|(fitted, (z, _))| fitted.theta(z));
        Ok(Tensor::cat(&fitted.collect::<Result<Vec<_>>>()?, 1)?)
    }
}

impl Fitted {
    /// The head as a function of the `z` it was fitted to.
    pub(crate) fn theta(self, z: &Tensor) -> Result<Tensor> {
        let theta = self.head.stacked()?;
        let (shape, like) = (theta.dim(), z.detach());
        let d = shape.0 - 1;
        let theta = to_tensor(theta.into_iter().collect(), shape, z.dtype(), z.device())?;
        known(z, theta, move |bar| {
            let bar = array(bar, shape)?;
            let z_bar = self.adjoint(&bar.slice(s![..d, ..]).to_owned(), &bar.row(d).to_owned())?;
            let z_bar: Vec<f64> = z_bar.into_iter().collect();
            to_tensor(z_bar, like.shape(), like.dtype(), like.device())
        })
    }
}

impl LinearHead {
    /// (d + 1, classes) W over b.
    fn stacked(&self) -> Result<Array2<f64>> {
        let b = self.b.view().insert_axis(Axis(0));
        concatenate(Axis(0), &[self.w.view(), b]).map_err(|e| Error::shape("head", "a bias per class", e))
    }

    /// The head of a network, which must be linear with a bias. Host: its numbers.
    ///
    /// Fails: `Config` for a network with another kind of head.
    pub fn of(net: &(impl Split + ?Sized)) -> Result<LinearHead> {
        let (weight, bias) = linear(net)?;
        let (classes, d) = weight.dims2()?;
        let w = array(&weight.t()?, (d, classes))?;
        Ok(LinearHead { w, b: bias.numbers()?.iter().copied().collect() })
    }

    /// Makes this the head of a network, whose own must be linear with a bias.
    ///
    /// Fails: `Config` for a network with another kind of head, `Shape` unless widths agree; then nothing has changed.
    pub fn install(&self, net: &(impl Split + ?Sized)) -> Result<()> {
        let (weight, bias) = linear(net)?;
        let (d, classes) = self.w.dim();
        ensure_shape("weights of the network's head", &[classes, d][..], weight.dims())?;
        ensure_shape("bias of the network's head", &[self.b.len()][..], bias.dims())?;
        let w: Vec<f64> = self.w.t().iter().copied().collect();
        weight.set(&to_tensor(w, weight.shape(), weight.dtype(), weight.device())?)?;
        Ok(bias.set(&to_tensor(self.b.to_vec(), bias.shape(), bias.dtype(), bias.device())?)?)
    }
}

/// Weight and bias of a network's linear head; of a network of one's own, the two parameters that are named so.
fn linear(net: &(impl Split + ?Sized)) -> Result<(Var, Var)> {
    let last = net.last();
    let (got, known) = match net.as_split_net().map(|net| &net.head.plan().layers) {
        Some(layers) => {
            (format!("{layers:?}"), matches!(layers[..], [(_, Layer::Linear { bias: true, .. })]))
        }
        None => (last.iter().map(|(name, _)| &name[..]).collect::<Vec<_>>().join(", "), last.len() == 2),
    };
    let var = |part: &str| last.iter().find(|(name, _)| name.ends_with(part)).map(|(_, var)| var.clone());
    let found = var("weight").zip(var("bias")).filter(|_| known);
    found.ok_or_else(|| Error::config("head of the network", got, "one linear layer with a bias"))
}

/// Host: the entries.
fn array(tensor: &Tensor, shape: (usize, usize)) -> Result<Array2<f64>> {
    let entries = tensor.numbers()?.into_owned();
    Array2::from_shape_vec(shape, entries)
        .map_err(|e| Error::shape("gradient of a head", "that of the head", e))
}
