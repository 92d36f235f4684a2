//! What the LP losses are compared with: the pairwise logistic loss, and PPD-SG, which reaches AUC by a saddle point of
//! squared losses (Liu, Yuan, Ying and Yang, *Stochastic AUC maximization with deep neural networks*, 2020).

use candle_core::{Tensor, Var};
use candle_nn::ops::sigmoid;

use crate::data::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::loss::bce_logits_each;
use crate::model::{Network, Split};
use crate::numbers::AsF64;
use crate::train::{Batch, Group, Method, State, Step};

/// Mean logistic loss of every pair of a positive and a negative.
///
/// ```text
/// (1/N) Σ_ij ln(1 + e^−(s_i − s_j)),      i positive, j negative
/// ```
/// Shapes: `s` (n), `y` (n), 0 or 1 → scalar. Cost: O(n²) time and memory. Host: the number of pairs. Fails: `Shape`, `Data`
/// if a class is empty. Checked by `tests/lp/rivals.rs::pairwise_logistic_is_the_sum_over_pairs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let (s, y) = (Tensor::new(&[0.0f64, 0.0], &Device::Cpu)?, Tensor::new(&[1u32, 0], &Device::Cpu)?);
/// let loss = pairwise_logistic(&s, &y)?.to_scalar::<f64>()?;
/// assert!((loss - 2f64.ln()).abs() < 1e-12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn pairwise_logistic(s: &Tensor, y: &Tensor) -> Result<Tensor> {
    let (s, y) = (s.flatten_all()?, y.to_dtype(s.dtype())?);
    ensure_shape("labels of a pairwise loss", s.dims(), y.dims())?;
    let pairs = y.unsqueeze(1)?.broadcast_mul(&y.affine(-1.0, 1.0)?.unsqueeze(0)?)?;
    let count = pairs.sum_all()?.numbers()?[0];
    if count <= 0.0 {
        let why = "a class is empty, so there is no pair; take larger or stratified batches";
        return Err(Error::data("labels", why));
    }
    let apart = s.unsqueeze(1)?.broadcast_sub(&s.unsqueeze(0)?)?;
    let each = bce_logits_each(&apart, &apart.ones_like()?)?;
    Ok((each.mul(&pairs)?.sum_all()? / count)?)
}

/// Constants of the stages.
///
/// Stage k takes `first_stage`·3^(k−1) steps with the learning rate `lr`·3^(1−k). It starts at the mean parameters ū of
/// the stage before, and is pulled back towards them by ‖u − ū‖²/(2 `proximity`).
///
/// ```
/// use lastlayer::prelude::*;
/// let data = arcs(20, 0.1, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[2, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let short = PpdParams { first_stage: 10, ..PpdParams::default() };
/// assert_eq!(Ppd::new(&net, &data, short)?.params.proximity, 500.0);
/// assert!(Ppd::new(&net, &data, PpdParams { first_stage: 0, ..short }).is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PpdParams {
    pub lr: f64,
    pub first_stage: usize,
    pub proximity: f64,
}

impl Default for PpdParams {
    /// The constants of the LP paper's comparison.
    fn default() -> PpdParams {
        PpdParams { lr: 0.1, first_stage: 2000, proximity: 500.0 }
    }
}

/// Most samples on which α is solved for.
const FRESH: usize = 1024;

/// A network in training for AUC by the saddle point
///
/// ```text
/// min_{w,a,b} max_α  mean of  (1−p)(h−a)² [y=1] + p(h−b)² [y=0] + 2(1+α)(p h [y=0] − (1−p) h [y=1]) − p(1−p)α²
/// ```
/// with h = σ(s) and p the share of positives. Its value at the best a, b and α is that of the squared loss on pairs,
/// p(1−p)(E(1 − h₊ + h₋)² − 1). Train it with `Trainer::sgd(ppd.params.lr, 0.0)`: the steps of a stage are scaled
/// inside. At the end of a stage w, a and b go to their mean over it, and α to its best value there. Differs: the authors'
/// released code solves for α at the mean too, but then goes on from the last w, a and b. The algorithm box of their paper
/// was not available to us. Checked by `tests/lp/rivals.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = arcs(20, 0.1, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[2, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let mut ppd = Ppd::new(&net, &data, PpdParams::default())?;
/// // Before training a, b and α are zero: scores of zero have 2p(1 − p)/4.
/// let value = ppd.value(&Tensor::zeros(20, DType::F32, &Device::Cpu)?, &data.y)?;
/// assert!((value.to_scalar::<f32>()? - 0.125).abs() < 1e-6);
/// Trainer::sgd(ppd.params.lr, 0.0).batch(10).silent().fit(&mut ppd, &data)?;
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ppd {
    pub params: PpdParams,
    net: Network,
    positives: f64,
    /// w, a and b; then α.
    primal: Vec<(String, Var)>,
    dual: Var,
    /// Mean parameters of the stage before, and the sum over this one so far.
    anchor: Vec<Tensor>,
    sum: Vec<Tensor>,
    /// Rows on which α is solved for at the end of a stage.
    fresh: Dataset,
}

impl Ppd {
    /// The saddle point for a network and its training set.
    ///
    /// Fails: `Shape` unless the network has a single score; `Data` if a class has no sample; `Config` for constants
    /// that are not positive.
    pub fn new(net: impl Into<Network>, data: &Dataset, params: PpdParams) -> Result<Ppd> {
        let net = net.into();
        net.ensure_scores("scores of an AUC network", 1)?;
        let positive = |number: f64| number > 0.0 && number.is_finite();
        if !(positive(params.lr) && positive(params.proximity) && params.first_stage > 0) {
            return Err(Error::config("constants of PPD-SG", format!("{params:?}"), "positive numbers"));
        }
        let counts = data.class_counts()?;
        let [negatives, positives] = counts[..] else {
            return Err(Error::config("classes for AUC", counts.len(), "2; group them with Dataset::group"));
        };
        if negatives == 0 || positives == 0 {
            return Err(Error::data(&data.names.set, "a class has no sample, so there is no pair to rank"));
        }
        let mut primal = Vec::new();
        for group in net.groups() {
            let name = group.name;
            primal.extend(group.vars.into_iter().map(|(own, var)| (format!("{name}.{own}"), var)));
        }
        let like = primal.first().map(|(_, var): &(String, Var)| (var.dtype(), var.device().clone()));
        let (dtype, device) =
            like.ok_or_else(|| Error::config("network", "without parameters", "one to train"))?;
        let zero = || Ok::<_, Error>(Var::zeros((), dtype, &device)?);
        primal.push(("a".to_string(), zero()?));
        primal.push(("b".to_string(), zero()?));
        let copies = |fill: fn(&Tensor) -> candle_core::Result<Tensor>| -> Result<Vec<Tensor>> {
            primal.iter().map(|(_, var)| Ok(fill(&var.as_detached_tensor())?)).collect()
        };
        let (anchor, sum) = (copies(Tensor::copy)?, copies(Tensor::zeros_like)?);
        let rows: Vec<usize> = (0..data.n()).step_by(data.n().div_ceil(FRESH)).collect();
        Ok(Ppd {
            params,
            net,
            positives: positives as f64 / (positives + negatives) as f64,
            dual: zero()?,
            anchor,
            sum,
            fresh: data.subset(&rows)?,
            primal,
        })
    }

    /// The network.
    pub fn net(&self) -> &Network {
        &self.net
    }

    /// Mean saddle function of a batch.
    pub fn value(&self, s: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (p, h) = (self.positives, sigmoid(&s.flatten_all()?)?);
        let one = y.to_dtype(h.dtype())?;
        let zero = one.affine(-1.0, 1.0)?;
        let [a, b] = [2, 1].map(|back| &self.primal[self.primal.len() - back].1);
        let spread = (h.broadcast_sub(a)?.sqr()?.mul(&one)?.affine(1.0 - p, 0.0)?
            + h.broadcast_sub(b)?.sqr()?.mul(&zero)?.affine(p, 0.0)?)?
        .mean_all()?;
        let order = (h.mul(&zero)?.affine(p, 0.0)? - h.mul(&one)?.affine(1.0 - p, 0.0)?)?.mean_all()?;
        let alpha = self.dual.as_tensor();
        Ok(((spread + order.mul(&alpha.affine(2.0, 2.0)?)?)? - alpha.sqr()?.affine(p * (1.0 - p), 0.0)?)?)
    }

    /// Stage, from 0, and whether the step is its last.
    fn stage(&self, step: usize) -> (usize, bool) {
        let (mut stage, mut length, mut end) = (0, self.params.first_stage, self.params.first_stage);
        while step >= end {
            (stage, length) = (stage + 1, length * 3);
            end += length;
        }
        (stage, step + 1 == end)
    }

    /// α at which the saddle function of the fresh rows is largest: mean(h | y=0) − mean(h | y=1).
    fn best_dual(&self) -> Result<Tensor> {
        let h = sigmoid(&self.net.scores_of(&self.fresh)?)?;
        let one = self.fresh.y.to_dtype(h.dtype())?;
        let zero = one.affine(-1.0, 1.0)?;
        let mean = |of: &Tensor| -> Result<Tensor> { Ok(h.mul(of)?.sum_all()?.div(&of.sum_all()?)?) };
        Ok((mean(&zero)? - mean(&one)?)?)
    }
}

/// Two groups, `primal` with the network, a and b, and `dual` with α.
impl Method for Ppd {
    fn groups(&self) -> Vec<Group> {
        let dual =
            Group { decay: false, ..Group::new("dual", vec![("alpha".to_string(), self.dual.clone())]) };
        vec![Group::new("primal", self.primal.clone()), dual]
    }

    /// The losses of a batch: the saddle's value for w, a and b, its negative for α.
    fn step(&self, batch: &Batch) -> Result<Step> {
        let (stage, _) = self.stage(batch.step);
        let value = self.value(&self.net.forward(&batch.x, batch.pass())?, &batch.y)?;
        let mut pull = Tensor::zeros((), value.dtype(), value.device())?;
        for ((_, var), anchor) in self.primal.iter().zip(&self.anchor) {
            pull = (pull + var.as_tensor().sub(anchor)?.sqr()?.sum_all()?)?;
        }
        let pulled = (&value + (pull * (0.5 / self.params.proximity))?)?;
        // u ← (γu + ηū − ηγ∇F)/(γ + η) is a plain step of length ηγ/(γ + η) on F + ‖u − ū‖²/(2γ).
        let shrink = 3f64.powi(-(stage as i32));
        let (lr, near) = (self.params.lr * shrink, self.params.proximity);
        let primal = (pulled * (near / (near + lr) * shrink))?;
        let dual = (&value * -shrink)?;
        Ok(Step::by_group(vec![("primal", primal), ("dual", dual)]))
    }

    /// Adds the parameters up; at the end of a stage their mean is where the next one starts and what pulls it, and α is
    /// solved for there.
    fn after(&mut self, batch: &Batch, _: &Step) -> Result<()> {
        let (stage, last) = self.stage(batch.step);
        let steps = self.params.first_stage as f64 * 3f64.powi(stage as i32);
        for (((_, var), anchor), sum) in self.primal.iter().zip(&mut self.anchor).zip(&mut self.sum) {
            // What another run left of its last stage is no part of this one.
            let moved = var.as_detached_tensor();
            *sum = if batch.step == 0 { moved.copy()? } else { (&*sum + moved)? };
            if last {
                let mean = (&*sum / steps)?;
                var.set(&mean)?;
                (*anchor, *sum) = (mean, sum.zeros_like()?);
            }
        }
        if last {
            self.dual.set(&self.best_dual()?)?;
        }
        Ok(())
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        self.net.statistics()
    }

    fn state(&self) -> Result<State> {
        let named = |prefix: &'static str, list: &[Tensor]| {
            let names = self.primal.iter().map(move |(name, _)| format!("{prefix}.{name}"));
            names.zip(list.to_vec()).collect::<Vec<_>>()
        };
        let tensors = named("anchor", &self.anchor).into_iter().chain(named("sum", &self.sum)).collect();
        Ok(State { tensors, ..State::default() })
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        let list = |prefix: &str| {
            let of = |(name, var): &(String, Var)| {
                let name = format!("{prefix}.{name}");
                let tensor = state.tensors.get(&name);
                let missing = || Error::data("state of PPD-SG", format!("there is no {name}"));
                let tensor = tensor.ok_or_else(missing)?;
                ensure_shape(&name, var.dims(), tensor.dims())?;
                Ok(tensor.to_device(var.device())?)
            };
            self.primal.iter().map(of).collect::<Result<Vec<Tensor>>>()
        };
        (self.anchor, self.sum) = (list("anchor")?, list("sum")?);
        Ok(())
    }

    fn identity(&self) -> String {
        format!("PPD-SG {:?} on {}", self.params, self.net.identity())
    }
}

impl Ppd {
    /// Shows constants and share of positives.
    pub fn evcxr_display(&self) {
        let text = format!("PPD-SG with {:?}, {:.1} % positives", self.params, 100.0 * self.positives);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

impl PpdParams {
    /// Shows the constants.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(format!("{self:?}"));
    }
}
