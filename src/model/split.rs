//! The split network: backbone, line, head.

use candle_core::{DType, Device, Tensor, Var};

use super::layer::Layer;
use super::net::{Init, Net, Pass, Plan};
use super::zoo;
use crate::data::{Dataset, numbers};
use crate::error::{Error, Result};
use crate::seed::Seed;
use crate::table::{Cell, Table};

/// A backbone and a head; copies share parameters.
///
/// ```text
/// z = phi(x)  (n, d)      s = head(z)  (n, k), or (n) for a single score
/// ```
/// Decoupled training needs the scores twice, with different gradients, from one pass through the backbone:
/// [`last`](SplitNet::scores_for_last) sees constant features, [`bottom`](SplitNet::scores_for_bottom) a constant head. The
/// sum of the two gradients is that of the joint loss. Checked by `tests/model.rs`.
/// Book: `measures/features.md#eq-features-line`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(20, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// assert_eq!((net.features_of(&data)?.dims(), net.scores_of(&data)?.dims()), (&[20, 4][..], &[20][..]));
/// // A loss that reaches the head only.
/// let z = net.features(&data.x, Pass::Eval)?;
/// let gradients = bce_logits(&net.scores_for_last(&z, Pass::Eval)?, &data.y)?.backward()?;
/// assert!(net.last().iter().all(|var| gradients.get(var).is_some()));
/// assert!(net.bottom().iter().all(|var| gradients.get(var).is_none()));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SplitNet {
    pub phi: Net,
    pub head: Net,
}

impl SplitNet {
    /// A backbone by its plan, under a linear head with `scores` outputs.
    ///
    /// Fails: `Shape` unless the backbone ends in a vector, `Config` without a score.
    pub fn new(phi: Plan, scores: usize, seed: Seed, device: &Device) -> Result<SplitNet> {
        SplitNet::with_head(
            phi,
            vec![("".to_string(), Layer::Linear { width: scores, bias: true })],
            seed,
            DType::F32,
            device,
        )
    }

    /// A backbone by its plan under a head of any layers.
    pub fn with_head(
        phi: Plan,
        head: Vec<(String, Layer)>,
        seed: Seed,
        dtype: DType,
        device: &Device,
    ) -> Result<SplitNet> {
        let init = phi.init;
        let phi = Net::new(phi, seed.named("phi"), dtype, device)?;
        if phi.output().len() != 1 {
            let expected = "a vector of features; end it with GlobalAveragePool or Flatten";
            return Err(Error::shape("output of a backbone", expected, format!("{:?}", phi.output())));
        }
        // A head of torchvision's is drawn as a plain linear layer.
        let init = if init == Init::HeNormal { Init::Uniform } else { init };
        let plan = Plan { input: phi.output().to_vec(), layers: head, init };
        let head = Net::new(plan, seed.named("head"), dtype, device)?;
        Ok(SplitNet { phi, head })
    }

    /// Features of a batch. Shapes: `x` (n, …) → (n, d).
    pub fn features(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        self.phi.forward(x, side(pass, "phi"))
    }

    /// Scores of features. Shapes: `z` (n, d) → (n, k), or (n) for a single score.
    pub fn scores(&self, z: &Tensor, pass: Pass) -> Result<Tensor> {
        single(self.head.forward(z, side(pass, "head"))?)
    }

    /// Scores whose gradient reaches the head only: the features are taken as constants.
    ///
    /// Book: `rate/decoupled.md#eq-rate-views`.
    pub fn scores_for_last(&self, z: &Tensor, pass: Pass) -> Result<Tensor> {
        self.scores(&z.detach(), pass)
    }

    /// Scores whose gradient reaches the backbone only: the head is taken as constant.
    ///
    /// Book: `rate/decoupled.md#eq-rate-views`.
    pub fn scores_for_bottom(&self, z: &Tensor, pass: Pass) -> Result<Tensor> {
        single(self.head.forward_constant(z, side(pass, "head"))?)
    }

    /// Scores of a batch, straight through. Shapes: `x` (n, …) → (n, k) or (n).
    pub fn forward(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        self.scores(&self.features(x, pass)?, pass)
    }

    /// Parameters of the backbone, in the order of [`Net::vars`].
    pub fn bottom(&self) -> Vec<Var> {
        self.phi.vars()
    }

    /// Parameters of the head: of a linear one the weight, then the bias if it has one.
    pub fn last(&self) -> Vec<Var> {
        self.head.vars()
    }

    /// Features of a whole set in evaluation, a batch at a time.
    pub fn features_of(&self, data: &Dataset) -> Result<Tensor> {
        self.in_pieces(&data.x, |x| self.features(x, Pass::Eval))
    }

    /// Scores of a whole set in evaluation, a batch at a time.
    pub fn scores_of(&self, data: &Dataset) -> Result<Tensor> {
        self.in_pieces(&data.x, |x| self.forward(x, Pass::Eval))
    }

    /// A set as the head sees it: features in place of inputs, everything else as it was.
    ///
    /// With [`head_alone`](SplitNet::head_alone) the last layer is trained without running the backbone again and again.
    pub fn feature_set(&self, data: &Dataset) -> Result<Dataset> {
        Ok(Dataset { x: self.features_of(data)?, ..data.clone() })
    }

    /// The head as a network of its own, which reads features; it shares parameters with this one.
    ///
    /// Fails: `Config` if the head has no parameters.
    pub fn head_alone(&self) -> Result<SplitNet> {
        let last = self.last();
        let var = last.first().ok_or_else(|| {
            Error::config("head of a network", "without parameters", "one that can be trained")
        })?;
        let phi = Net::new(zoo::identity(self.phi.output()), Seed::new(0), var.dtype(), var.device())?;
        Ok(SplitNet { phi, head: self.head.clone() })
    }

    /// Applies a function in evaluation to a few samples at a time, as numbers of the network's own type.
    pub(super) fn in_pieces(&self, x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        let n = x.dim(0)?;
        let dtype = self.bottom().into_iter().chain(self.last()).next().map(|var| var.dtype());
        let mut pieces = Vec::new();
        for start in (0..n).step_by(PIECE) {
            let piece = numbers(&x.narrow(0, start, PIECE.min(n - start))?)?;
            let piece = dtype.map_or(Ok(piece.clone()), |dtype| piece.to_dtype(dtype))?;
            pieces.push(f(&piece)?.detach());
        }
        Ok(Tensor::cat(&pieces, 0)?)
    }

    /// A copy with parameters of its own.
    pub fn copy(&self) -> Result<SplitNet> {
        Ok(SplitNet { phi: self.phi.copy()?, head: self.head.copy()? })
    }

    /// Shows both sides of the line.
    pub fn evcxr_display(&self) {
        let row = |name: &str, net: &Net| {
            let way = format!("{:?} → {:?}", net.plan().input, net.output());
            vec![Cell::from(name), way.into(), net.size().into()]
        };
        let table = Table::new(&["side", "shape", "parameters"])
            .row(row("bottom", &self.phi))
            .and_then(|table| table.row(row("last", &self.head)));
        if let Ok(table) = table {
            table.evcxr_display();
        }
    }
}

/// One score per sample is a vector.
fn single(s: Tensor) -> Result<Tensor> {
    match s.dims() {
        [_, 1] => Ok(s.squeeze(1)?),
        _ => Ok(s),
    }
}

/// Samples that pass through a network at once in evaluation: enough for speed, few enough for memory.
const PIECE: usize = 256;

/// The randomness of one side: layers of the same name on both sides must not share it.
fn side(pass: Pass, name: &str) -> Pass {
    match pass {
        Pass::Train(seed) => Pass::Train(seed.named(name)),
        Pass::Eval => Pass::Eval,
    }
}
