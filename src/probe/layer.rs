//! Between host and device: features read from a network, heads as tensors that know where they came from.

use candle_core::{Tensor, Var};
use ndarray::{Array2, Axis, concatenate, s};

use super::features::Features;
use super::head::LinearHead;
use super::weak::{Fitted, WeakFit};
use crate::data::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::model::{Layer, SplitNet};
use crate::numbers::Numbers;
use crate::ops::known;

impl Features {
    /// Features of a set under a network, in evaluation. Host: features and labels.
    pub fn of(net: &SplitNet, data: &Dataset) -> Result<Features> {
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

impl Fitted {
    /// The head as a function of the `z` it was fitted to.
    pub(crate) fn theta(self, z: &Tensor) -> Result<Tensor> {
        let theta = self.head.stacked()?;
        let (shape, like) = (theta.dim(), z.detach());
        let d = shape.0 - 1;
        known(z, theta.into_iter().collect(), shape, move |bar| {
            let bar = array(bar, shape)?;
            let z_bar = self.adjoint(&bar.slice(s![..d, ..]).to_owned(), &bar.row(d).to_owned())?;
            let z_bar: Vec<f64> = z_bar.into_iter().collect();
            Ok(Tensor::from_vec(z_bar, like.shape(), like.device())?.to_dtype(like.dtype())?)
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
    pub fn of(net: &SplitNet) -> Result<LinearHead> {
        let (weight, bias) = linear(net)?;
        let (classes, d) = weight.dims2()?;
        let w = array(&weight.t()?, (d, classes))?;
        Ok(LinearHead { w, b: bias.numbers()?.iter().copied().collect() })
    }

    /// Makes this the head of a network, whose own must be linear with a bias.
    ///
    /// Fails: `Config` for a network with another kind of head, `Shape` unless widths agree; then nothing has changed.
    pub fn install(&self, net: &SplitNet) -> Result<()> {
        let (weight, bias) = linear(net)?;
        let (d, classes) = self.w.dim();
        ensure_shape("weights of the network's head", &[classes, d][..], weight.dims())?;
        ensure_shape("bias of the network's head", &[self.b.len()][..], bias.dims())?;
        let w: Vec<f64> = self.w.t().iter().copied().collect();
        let tensor = |values: Vec<f64>, like: &Tensor| {
            Tensor::from_vec(values, like.shape(), like.device())?.to_dtype(like.dtype())
        };
        weight.set(&tensor(w, &weight)?)?;
        Ok(bias.set(&tensor(self.b.to_vec(), &bias)?)?)
    }
}

/// Weight and bias of a network's linear head.
fn linear(net: &SplitNet) -> Result<(Var, Var)> {
    let plan = net.head.plan();
    let other =
        || Error::config("head of the network", format!("{:?}", plan.layers), "one linear layer with a bias");
    let [(name, Layer::Linear { bias: true, .. })] = &plan.layers[..] else { return Err(other()) };
    let prefix = if name.is_empty() { String::new() } else { format!("{name}.") };
    let var = |part: &str| net.head.parameters().get(&format!("{prefix}{part}")).cloned();
    var("weight").zip(var("bias")).ok_or_else(other)
}

/// Host: the entries.
fn array(tensor: &Tensor, shape: (usize, usize)) -> Result<Array2<f64>> {
    let entries = tensor.numbers()?.into_owned();
    Array2::from_shape_vec(shape, entries)
        .map_err(|e| Error::shape("gradient of a head", "that of the head", e))
}
