//! Training attributes with or against each other: one code path for every variant.

use std::collections::BTreeMap;

use candle_core::{D, DType, Device, Tensor, Var};

use super::invariance::decorrelating_weights;
use super::reverse::reverse;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::loss::bce_logits_each;
use crate::model::{Init, Layer, Net, Plan, SplitNet};
use crate::numbers::Numbers;
use crate::ops::{AdamStep, adam_step, backward};
use crate::seed::Seed;
use crate::train::{Batch, Group, Step, Trainable, named};

/// What rival attributes do to the features of one's own.
///
/// Book: `adversary/game.md#eq-adv-game-logit`, `#eq-adv-game-flipped`, `#eq-adv-game-linear`, `#eq-adv-game-clipped`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(40, Seed::new(1), &Device::Cpu)?;
/// let signs = data.x.narrow(1, 0, 3)?.gt(0.0)?.to_dtype(DType::F32)?;
/// let data = data.with_attributes(signs, ["a", "b", "c"])?;
/// let among = |loss, rivals: &[&str]| {
///     let contest = Contest { loss, ..Contest::default() };
///     Adversary::new(zoo::mlp(&[6, 4])?, &data, &["a"], rivals, contest, Seed::new(1), &Device::Cpu)
/// };
/// assert!(among(AdvLoss::Reverse, &["b", "c"]).is_ok());
/// assert!(among(AdvLoss::WassersteinLinear, &["b", "c"]).is_err()); // takes one rival
/// assert!(among(AdvLoss::None, &["b"]).is_err()); // nothing would be done with it
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum AdvLoss {
    /// Nothing: there are none.
    #[default]
    None,
    /// They are learnt too: pairs, or all attributes (the paper's eq. 8).
    MultiTask,
    /// Their gradient is reversed (eqs. 5 and 6).
    Reverse,
    /// The features are trained on their flipped labels, against a head that is trained on the true ones (eqs. 4 and 5).
    FlippedLabel,
    /// The distance of their class means, which is what the best linear critic of length one sees.
    WassersteinLinear,
    /// A linear critic whose weights are clipped, trained for some steps in each.
    WassersteinClipped { clip: f64, steps: usize },
}

/// Settings of a contest between attributes.
///
/// Book: `adversary/game.md#eq-adv-game-spiral`, `#eq-adv-game-ridge`.
///
/// ```
/// use lastlayer::prelude::*;
/// let contest = Contest { loss: AdvLoss::Reverse, strength: 0.3, ..Contest::default() };
/// assert_eq!(contest.strength_at(0.0), 0.3);
/// let gentle = Contest { warm_up: true, ..contest };
/// assert_eq!(gentle.strength_at(0.0), 0.0);
/// assert!((gentle.strength_at(1.0) - 0.3).abs() < 1e-4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Contest {
    pub loss: AdvLoss,
    /// γ, the weight of what rivals do to the features (the paper's λ).
    pub strength: f64,
    /// γ rises over the run as 2/(1 + e^(−10 p)) − 1, where p is the share that is done.
    pub warm_up: bool,
    /// Learning rate of the rivals' heads, as a multiple of that of everything else.
    pub rival_rate: f64,
    /// Weighs samples by P(a) P(b) / P(a, b) in what rivals do, so that the labels are independent there.
    pub decorrelated: bool,
}

impl Default for Contest {
    fn default() -> Contest {
        Contest { loss: AdvLoss::None, strength: 1.0, warm_up: false, rival_rate: 3.0, decorrelated: false }
    }
}

/// A backbone under the heads of one's own attributes and those of their rivals; copies share parameters.
///
/// ```text
/// z = phi(x)      s = own(z)      r = rival(z)      L = mean of own losses − γ mean of rivals' losses, for phi
/// ```
/// Each head is drawn from the seed and the name of its attribute alone, and the backbone from the seed: a pair, either of
/// its attributes alone, and any contest between them start from the same numbers. Train it with any
/// [`Trainer`](crate::train::Trainer). Checked by `tests/adversary/training.rs`.
/// Book: `adversary/game.md#eq-adv-game-information`, `#eq-adv-game-groups`.
///
/// ```
/// use lastlayer::prelude::*;
/// let (seed, device) = (Seed::new(1), Device::Cpu);
/// let data = Gaussians::a().sample(100, seed, &device)?;
/// let signs = data.x.narrow(1, 0, 2)?.gt(0.0)?.to_dtype(DType::F32)?;
/// let data = data.with_attributes(signs, ["a", "b"])?;
/// let make = |rivals: &[&str], contest| {
///     Adversary::new(zoo::mlp(&[6, 4])?, &data, &["a"], rivals, contest, seed, &device)
/// };
/// let alone = make(&[], Contest::default())?;
/// let against = make(&["b"], Contest { loss: AdvLoss::Reverse, ..Contest::default() })?;
/// // Both begin with the same backbone and the same head for "a".
/// let [before, begin] = [&alone, &against].map(|adversary| adversary.net().scores_of(&data));
/// assert_eq!(before?.to_vec1::<f32>()?, begin?.to_vec1::<f32>()?);
/// Trainer::adam(0.01).batch(50).silent().fit(&against, &data, |b| against.step(b))?;
/// assert_eq!(against.rival_net()?.scores_of(&data)?.dims(), [100]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Adversary {
    pub contest: Contest,
    pub phi: Net,
    /// Heads of one's own attributes, and of the rivals: the critic, for a clipped distance.
    pub own: Net,
    pub rival: Option<Net>,
    columns: [Vec<u32>; 2],
    /// Weights of samples by their two labels: 00, 01, 10, 11.
    weights: Option<[f64; 4]>,
    /// Moments of the rivals' own optimiser, and its steps so far.
    moments: Vec<[Var; 2]>,
    steps: Option<Var>,
}

impl Adversary {
    /// A contest on the attributes of a set: `own` ones are to be learnt, against or along with `rivals`.
    ///
    /// Host: the labels of these attributes. Fails: `Config` for an attribute that is not there, comes twice or is missing
    /// where the loss needs one, for rivals without a loss, or for a strength or rate that cannot be; `Data` if an
    /// attribute has the same value everywhere; `Shape` unless the backbone ends in a vector.
    pub fn new(
        phi: Plan,
        data: &Dataset,
        own: &[&str],
        rivals: &[&str],
        contest: Contest,
        seed: Seed,
        device: &Device,
    ) -> Result<Adversary> {
        contest.check(own.len(), rivals.len())?;
        let all: Vec<&str> = own.iter().chain(rivals).copied().collect();
        if let Some(twice) = (1..all.len()).find(|i| all[..*i].contains(&all[*i])) {
            return Err(Error::config("attribute", all[twice], "each attribute once"));
        }
        let column = |name: &&str| Ok(data.attribute_column(name)?.1 as u32);
        let columns = |names: &[&str]| names.iter().map(column).collect::<Result<Vec<u32>>>();
        let columns = [columns(own)?, columns(rivals)?];
        all.iter().try_for_each(|name| labels(data, name).map(drop))?;
        let weights = match contest.decorrelated {
            true => Some(weights_by_label(&labels(data, own[0])?, &labels(data, rivals[0])?)?),
            false => None,
        };
        let init = phi.init;
        let phi = Net::new(phi, seed.named("phi"), DType::F32, device)?;
        let &[d] = phi.output() else {
            let expected = "a vector of features; end it with GlobalAveragePool or Flatten";
            return Err(Error::shape("output of a backbone", expected, format!("{:?}", phi.output())));
        };
        let heads = |names: &[&str]| heads(d, names, init, seed, device);
        let rival = if rivals.is_empty() { None } else { Some(heads(rivals)?) };
        let inner = match (&rival, contest.loss) {
            (Some(rival), AdvLoss::FlippedLabel | AdvLoss::WassersteinClipped { .. }) => rival.vars(),
            _ => Vec::new(),
        };
        let zeros = |var: &Var| Ok::<Var, Error>(Var::from_tensor(&var.zeros_like()?)?);
        let moments = inner.iter().map(|var| Ok([zeros(var)?, zeros(var)?])).collect::<Result<Vec<_>>>()?;
        let steps = match inner.is_empty() {
            true => None,
            false => Some(Var::zeros((), DType::F64, device)?),
        };
        Ok(Adversary { contest, own: heads(own)?, phi, rival, columns, weights, moments, steps })
    }

    /// Backbone and own heads, as a network.
    pub fn net(&self) -> SplitNet {
        SplitNet { phi: self.phi.clone(), head: self.own.clone() }
    }

    /// Backbone and rivals' heads, as a network. Fails: `Config` if there are no rivals.
    pub fn rival_net(&self) -> Result<SplitNet> {
        Ok(SplitNet { phi: self.phi.clone(), head: self.rival()?.clone() })
    }

    fn rival(&self) -> Result<&Net> {
        self.rival.as_ref().ok_or_else(|| Error::config("rivals", "none", "at least one attribute"))
    }

    /// What a batch asks of backbone and heads.
    ///
    /// A batch in which a rival has only one value leaves out the distances between its classes. The heads of a flipped
    /// label and of a clipped critic take their own steps first, on constant features, and then judge the features as
    /// they are. Fails: `Data` if the set has no attributes, and as the network.
    pub fn step(&self, batch: &Batch) -> Result<Step> {
        self.step_with(batch, |s, y| Ok(bce_logits_each(s, y)?.mean_all()?))
    }

    /// The same with a loss of your own for one's own attributes: what rivals do stays as it is.
    ///
    /// ```text
    /// adversary.step_with(b, |s, y| auc_loss(s, y, 1.0, AucLoss::Value)?.on(s))
    /// ```
    /// The loss gets scores and labels, 0 or 1, both (n, own attributes), and gives a scalar.
    pub fn step_with(
        &self,
        batch: &Batch,
        own_loss: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Step> {
        let pass = batch.pass();
        let z = self.phi.forward(&batch.x, pass)?;
        let attributes = batch.attributes()?;
        let [own_y, rival_y] = [0, 1].map(|side| chosen(attributes, &self.columns[side], z.dtype()));
        let (own_y, rival_y) = (own_y?, rival_y?);
        let own = own_loss(&self.own.forward(&z, pass)?, &own_y)?;
        let weights = self.sample_weights(&own_y, &rival_y)?;
        let strength = self.contest.strength_at(batch.progress);
        let adverse = match self.contest.loss {
            AdvLoss::None => None,
            AdvLoss::MultiTask => Some(self.rival_loss(&z, &rival_y, weights.as_ref(), pass, false)?),
            AdvLoss::Reverse => {
                let reversed = reverse(&z, strength)?;
                Some(self.rival_loss(&reversed, &rival_y, weights.as_ref(), pass, false)?)
            }
            AdvLoss::FlippedLabel => {
                let loss = self.rival_loss(&z.detach(), &rival_y, weights.as_ref(), pass, false)?;
                self.inner_step(&loss, batch.rate)?;
                let flipped = rival_y.affine(-1.0, 1.0)?;
                Some((self.rival_loss(&z, &flipped, weights.as_ref(), pass, true)? * strength)?)
            }
            AdvLoss::WassersteinLinear => {
                let apart = mean_difference(&z, &rival_y, weights.as_ref())?;
                apart.map(|apart| length(&apart)).transpose()?.flatten().map(|w| w * strength).transpose()?
            }
            AdvLoss::WassersteinClipped { clip, steps } => {
                let critic = self.rival()?;
                let seen = |z: &Tensor, constant: bool| -> Result<Option<Tensor>> {
                    let f = if constant { critic.forward_constant(z, pass) } else { critic.forward(z, pass) };
                    Ok(mean_difference(&f?, &rival_y, weights.as_ref())?.map(|w| w.sum_all()).transpose()?)
                };
                for _ in 0..steps {
                    let Some(w) = seen(&z.detach(), false)? else { break };
                    self.inner_step(&w.neg()?, batch.rate)?;
                    critic.vars().iter().try_for_each(|var| var.set(&var.as_tensor().clamp(-clip, clip)?))?;
                }
                seen(&z, true)?.map(|w| w.abs()? * strength).transpose()?
            }
        };
        Ok(Step::new(match adverse {
            None => own,
            Some(adverse) => (own + adverse)?,
        }))
    }

    /// Mean logistic loss of the rivals' heads on features; constant heads pass gradients to the features alone.
    fn rival_loss(
        &self,
        z: &Tensor,
        y: &Tensor,
        weights: Option<&Tensor>,
        pass: crate::model::Pass,
        constant: bool,
    ) -> Result<Tensor> {
        let rival = self.rival()?;
        let s = if constant { rival.forward_constant(z, pass)? } else { rival.forward(z, pass)? };
        let each = bce_logits_each(&s, y)?;
        Ok(weights.map_or(Ok(each.clone()), |w| each.broadcast_mul(w))?.mean_all()?)
    }

    /// A step of Adam on the rivals' heads alone.
    fn inner_step(&self, loss: &Tensor, rate: f64) -> Result<()> {
        let Some(steps) = &self.steps else { return Ok(()) };
        let number = steps.numbers()?[0] + 1.0;
        let with = AdamStep {
            lr: rate * self.contest.rival_rate,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
            decoupled: false,
            step: number as usize,
        };
        let gradients = backward(loss)?;
        for (var, [first, second]) in self.rival()?.vars().iter().zip(&self.moments) {
            if let Some(gradient) = gradients.get(var) {
                adam_step(var, gradient, first, second, &with)?;
            }
        }
        Ok(steps.set(&Tensor::new(number, steps.device())?)?)
    }

    /// (n, 1) Weights of samples by their two labels, if they are weighed at all.
    fn sample_weights(&self, a: &Tensor, b: &Tensor) -> Result<Option<Tensor>> {
        let Some([w00, w01, w10, w11]) = self.weights else { return Ok(None) };
        // w00 + (w10 − w00) a + (w01 − w00) b + (w11 − w10 − w01 + w00) a b
        let both = (a.mul(b)? * (w11 - w10 - w01 + w00))?;
        Ok(Some((((a * (w10 - w00))? + (b * (w01 - w00))? + both)? + w00)?))
    }

    /// Shows the settings.
    pub fn evcxr_display(&self) {
        let text = format!("{:?}: own {:?}, rivals {:?}", self.contest, self.columns[0], self.columns[1]);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

impl Contest {
    fn check(&self, own: usize, rivals: usize) -> Result<()> {
        if own == 0 || (rivals == 0 && self.loss != AdvLoss::None) {
            let got = format!("{own} own and {rivals} rival attributes");
            return Err(Error::config("attributes of a contest", got, "at least one of each"));
        }
        if rivals > 0 && self.loss == AdvLoss::None {
            let allowed = "what rivals do, such as AdvLoss::Reverse; or no rivals";
            return Err(Error::config("loss of a contest with rivals", "AdvLoss::None", allowed));
        }
        if !(self.strength.is_finite() && self.rival_rate > 0.0 && self.rival_rate.is_finite()) {
            let got = format!("{} and {}", self.strength, self.rival_rate);
            return Err(Error::config("strength and rival_rate", got, "finite, the second above 0"));
        }
        if self.decorrelated && (own, rivals) != (1, 1) {
            let got = format!("{own} own and {rivals} rival attributes");
            return Err(Error::config("attributes of a decorrelated contest", got, "one of each"));
        }
        match self.loss {
            AdvLoss::WassersteinClipped { clip, steps } if !(clip > 0.0 && clip.is_finite() && steps > 0) => {
                Err(Error::config("clip and steps of a critic", format!("{clip}, {steps}"), "above 0"))
            }
            AdvLoss::WassersteinClipped { .. } | AdvLoss::WassersteinLinear if rivals > 1 => {
                Err(Error::config("rivals of a Wasserstein distance", rivals, "one"))
            }
            _ => Ok(()),
        }
    }

    /// γ when this share of the run is done.
    pub fn strength_at(&self, progress: f64) -> f64 {
        match self.warm_up {
            true => self.strength * (2.0 / (1.0 + (-10.0 * progress).exp()) - 1.0),
            false => self.strength,
        }
    }
}

impl Trainable for Adversary {
    fn groups(&self) -> Vec<Group> {
        let mut groups = vec![
            Group::new("bottom", named(self.phi.parameters())),
            Group::new("own", named(self.own.parameters())),
        ];
        if let (Some(rival), AdvLoss::MultiTask | AdvLoss::Reverse) = (&self.rival, self.contest.loss) {
            // Attributes that are learnt together are equals.
            let rate = if self.contest.loss == AdvLoss::Reverse { self.contest.rival_rate } else { 1.0 };
            groups.push(Group { rate, ..Group::new("rival", named(rival.parameters())) });
        }
        groups
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        let own = self.phi.statistics().iter().map(|(name, var)| (format!("bottom.{name}"), var.clone()));
        let mut all: Vec<(String, Var)> = own.collect();
        if let (Some(rival), Some(steps)) = (&self.rival, &self.steps) {
            all.extend(rival.parameters().iter().map(|(name, var)| (format!("rival.{name}"), var.clone())));
            for (i, [first, second]) in self.moments.iter().enumerate() {
                all.push((format!("rival moment {i} first"), first.clone()));
                all.push((format!("rival moment {i} second"), second.clone()));
            }
            all.push(("rival steps".to_string(), steps.clone()));
        }
        all
    }

    fn identity(&self) -> String {
        format!("{:?} {:?} {:?}", self.phi.plan(), self.contest, self.columns)
    }
}

/// A linear head for each attribute, side by side, each drawn from the seed and its own name.
pub(super) fn heads(d: usize, names: &[&str], init: Init, seed: Seed, device: &Device) -> Result<Net> {
    let plan = |width: usize| Plan {
        input: vec![d],
        layers: vec![(String::new(), Layer::Linear { width, bias: true })],
        init,
    };
    let one = |name: &&str| Net::new(plan(1), seed.named("head").named(name), DType::F32, device);
    let each = names.iter().map(one).collect::<Result<Vec<Net>>>()?;
    let together = |part: &str| -> Result<(String, Tensor)> {
        let rows: Vec<Tensor> = each.iter().map(|net| net.parameters()[part].as_detached_tensor()).collect();
        Ok((part.to_string(), Tensor::cat(&rows, 0)?))
    };
    let tensors = ["weight", "bias"].into_iter().map(together).collect::<Result<BTreeMap<_, _>>>()?;
    Net::from_tensors(plan(names.len()), tensors)
}

/// (n, columns) Labels of some attributes, 0 or 1.
fn chosen(attributes: &Tensor, columns: &[u32], dtype: DType) -> Result<Tensor> {
    if columns.is_empty() {
        return Ok(Tensor::zeros((attributes.dim(0)?, 0), dtype, attributes.device())?);
    }
    let columns = Tensor::new(columns, attributes.device())?;
    Ok(attributes.index_select(&columns, 1)?.ge(0.5)?.to_dtype(dtype)?)
}

/// Labels of an attribute with two values. Host: n numbers.
fn labels(data: &Dataset, name: &str) -> Result<Vec<u8>> {
    let values = data.attribute(name)?.numbers()?.into_owned();
    let labels: Vec<u8> = values.iter().map(|v| u8::from(*v >= 0.5)).collect();
    let ones = labels.iter().filter(|label| **label == 1).count();
    if ones == 0 || ones == labels.len() {
        let why = format!("attribute {name} has one value only, so there is nothing to learn; take another");
        return Err(Error::data(&data.names.set, why));
    }
    Ok(labels)
}

/// P(a) P(b) / P(a, b) for the labels 00, 01, 10, 11.
fn weights_by_label(a: &[u8], b: &[u8]) -> Result<[f64; 4]> {
    let each = decorrelating_weights(a, b)?;
    let of = |pair: (u8, u8)| {
        let found = a.iter().zip(b).position(|(a, b)| (*a, *b) == pair);
        found.map_or(1.0, |row| each[row])
    };
    Ok([(0, 0), (0, 1), (1, 0), (1, 1)].map(of))
}

/// (columns) Mean where the label is 1 less that where it is 0, with weights if given; nothing if one of them is missing.
///
/// Shapes: `z` (n, columns), `y` (n, 1), `weights` (n, 1). Host: two numbers.
fn mean_difference(z: &Tensor, y: &Tensor, weights: Option<&Tensor>) -> Result<Option<Tensor>> {
    let weighed = |side: &Tensor| weights.map_or(Ok(side.clone()), |w| side.mul(w));
    let (ones, zeros) = (weighed(y)?, weighed(&y.affine(-1.0, 1.0)?)?);
    let mut means = Vec::new();
    for side in [ones, zeros] {
        let total = side.sum_all()?.numbers()?[0];
        if total <= 0.0 {
            return Ok(None);
        }
        means.push((z.broadcast_mul(&side)?.sum(0)? / total)?);
    }
    Ok(Some((&means[0] - &means[1])?))
}

/// Length of a vector; nothing if it is zero, where the length has no gradient. Host: one number.
fn length(v: &Tensor) -> Result<Option<Tensor>> {
    let square = v.sqr()?.sum(D::Minus1)?;
    Ok(if square.numbers()?[0] > 0.0 { Some(square.sqrt()?) } else { None })
}
