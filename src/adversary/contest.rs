//! Training attributes with or against each other: one code path for every variant.

use std::collections::BTreeMap;

use candle_core::{D, DType, Device, Tensor, Var};

use super::invariance::decorrelating_weights;
use super::leakage::of_label;
use super::reverse::reverse;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::loss::bce_logits_each;
use crate::model::{Init, Layer, Net, Plan, SplitNet};
use crate::numbers::Numbers;
use crate::ops::{AdamStep, adam_step, backward};
use crate::seed::Seed;
use crate::train::{Batch, Group, History, Step, Trainable, named};

/// Name of the rivals' loss in the report of a run.
const RIVAL_LOSS: &str = "rival loss";

/// Rows on which a fresh probe is compared with the rivals, half of them to fit it: a small part of the cost of a run.
const JUDGED: usize = 4000;

/// Share of a guess's loss that probes must save before anything counts as readable.
const READABLE: f64 = 0.1;

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
    /// They are learnt too, each as much as one of one's own: pairs, or all attributes (the paper's eq. 8, a sum). A
    /// strength of one over their number makes the sum a mean.
    MultiTask,
    /// Their gradient is reversed (eqs. 5 and 6).
    Reverse,
    /// The features are trained on their flipped labels, against a head that is trained on the true ones (eqs. 4 and 5).
    FlippedLabel,
    /// The distance of their class means, which is what the best linear critic of length one sees.
    WassersteinLinear,
    /// A linear critic whose weights are clipped.
    WassersteinClipped { clip: f64 },
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
    /// Steps of the rivals' heads in each batch. With one, a reversal trains heads and features at once, as the paper does;
    /// features then outrun heads that learn no faster, and what they hold of the attribute can rise. With more, the heads
    /// take theirs first, on features that stand still, and then judge the features as they are.
    pub rival_steps: usize,
    /// Weighs samples by P(a) P(b) / P(a, b) in what rivals do, so that the labels are independent there.
    pub decorrelated: bool,
}

impl Default for Contest {
    fn default() -> Contest {
        Contest {
            loss: AdvLoss::None,
            strength: 1.0,
            warm_up: false,
            rival_rate: 3.0,
            rival_steps: 30,
            decorrelated: false,
        }
    }
}

/// A backbone under the heads of one's own attributes and those of their rivals; copies share parameters.
///
/// ```text
/// z = phi(x)      s = own(z)      r = rival(z)      L = mean of own losses − γ mean of rivals' losses, for phi
/// ```
/// Each head is drawn from the seed and the name of its attribute alone, and the backbone from the seed: a pair, either of
/// its attributes alone, and any contest between them start from the same numbers. Train it with any
/// [`Trainer`](crate::train::Trainer): a run reports the rivals' loss on each batch before they learn from it, and warns if
/// a fresh probe reads what they could not. Checked by `tests/adversary/training.rs`.
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
    /// Names of the rivals.
    rivals: Vec<String>,
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
        let inner = match &rival {
            Some(rival) if contest.rivals_first() => rival.vars(),
            _ => Vec::new(),
        };
        let zeros = |var: &Var| Ok::<Var, Error>(Var::from_tensor(&var.zeros_like()?)?);
        let moments = inner.iter().map(|var| Ok([zeros(var)?, zeros(var)?])).collect::<Result<Vec<_>>>()?;
        let steps = match inner.is_empty() {
            true => None,
            false => Some(Var::zeros((), DType::F64, device)?),
        };
        let own = heads(own)?;
        let rivals = rivals.iter().map(|name| name.to_string()).collect();
        Ok(Adversary { contest, own, phi, rival, columns, rivals, weights, moments, steps })
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
    /// A batch in which a rival has only one value leaves out the distances between its classes. Fails: `Data` if the set
    /// has no attributes, and as the network.
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
        let rival_loss =
            |z: &Tensor, y: &Tensor, constant: bool| self.rival_loss(z, y, weights.as_ref(), pass, constant);
        let mut seen = None;
        let adverse = match self.contest.loss {
            AdvLoss::None => None,
            AdvLoss::MultiTask => {
                let each = rival_loss(&z, &rival_y, false)?;
                let weight = strength * self.columns[1].len() as f64 / self.columns[0].len() as f64;
                Some((each * weight)?)
            }
            AdvLoss::Reverse if !self.contest.rivals_first() => {
                seen = Some(rival_loss(&reverse(&z, strength)?, &rival_y, false)?);
                seen.clone()
            }
            AdvLoss::Reverse | AdvLoss::FlippedLabel => {
                let constant = z.detach();
                seen = self.inner_steps(batch.rate, || Ok(Some(rival_loss(&constant, &rival_y, false)?)))?;
                Some(match self.contest.loss {
                    AdvLoss::Reverse => (rival_loss(&z, &rival_y, true)? * -strength)?,
                    _ => (rival_loss(&z, &rival_y.affine(-1.0, 1.0)?, true)? * strength)?,
                })
            }
            AdvLoss::WassersteinLinear => {
                let apart = mean_difference(&z, &rival_y, weights.as_ref())?;
                apart.map(|apart| length(&apart)).transpose()?.flatten().map(|w| w * strength).transpose()?
            }
            AdvLoss::WassersteinClipped { .. } => {
                let critic = self.rival()?;
                let apart = |z: &Tensor, constant: bool| -> Result<Option<Tensor>> {
                    let f = if constant { critic.forward_constant(z, pass) } else { critic.forward(z, pass) };
                    Ok(mean_difference(&f?, &rival_y, weights.as_ref())?.map(|w| w.sum_all()).transpose()?)
                };
                self.inner_steps(batch.rate, || {
                    Ok(apart(&z.detach(), false)?.map(|w| w.neg()).transpose()?)
                })?;
                apart(&z, true)?.map(|w| w.abs()? * strength).transpose()?
            }
        };
        let step = Step::new(match adverse {
            None => own,
            Some(adverse) => (own + adverse)?,
        });
        Ok(match seen {
            None => step,
            Some(loss) => step.report(RIVAL_LOSS, loss.numbers()?[0]),
        })
    }

    /// What a guess by frequency, the rivals in the last epoch, and fresh probes lose on average.
    fn rivals_and_probes(&self, history: &History, data: &Dataset) -> Result<[f64; 3]> {
        let seen = history.values(RIVAL_LOSS)?;
        let (mut guess, mut probe) = (0.0, 0.0);
        for name in &self.rivals {
            let data = data.target(name)?;
            let seed = Seed::new(0).named("outrun");
            let share = JUDGED as f64 / data.n() as f64;
            let data = if share < 1.0 { data.split(share, seed)?.0 } else { data };
            let p = data.class_counts()?[1] as f64 / data.n() as f64;
            guess -= p * p.ln() + (1.0 - p) * (1.0 - p).ln();
            let (fitted, judged) = data.split(0.5, seed)?;
            probe += of_label(&self.net(), &fitted, &judged)?.1;
        }
        let each = self.rivals.len() as f64;
        Ok([guess / each, seen[seen.len() - 1], probe / each])
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

    /// The rivals' own steps of Adam, on a loss that may not be there; what it was before the first.
    fn inner_steps(&self, rate: f64, loss: impl Fn() -> Result<Option<Tensor>>) -> Result<Option<Tensor>> {
        let mut first = None;
        for _ in 0..self.contest.rival_steps {
            let Some(loss) = loss()? else { break };
            self.inner_step(&loss, rate)?;
            first.get_or_insert(loss);
        }
        Ok(first)
    }

    /// One of them, on the rivals' heads alone.
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
            if let AdvLoss::WassersteinClipped { clip } = self.contest.loss {
                var.set(&var.as_tensor().clamp(-clip, clip)?)?;
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
        if self.rival_steps == 0 {
            return Err(Error::config("rival_steps", 0, "at least 1"));
        }
        match self.loss {
            AdvLoss::WassersteinClipped { clip } if !(clip > 0.0 && clip.is_finite()) => {
                Err(Error::config("clip of a critic", clip, "above 0"))
            }
            AdvLoss::WassersteinClipped { .. } | AdvLoss::WassersteinLinear if rivals > 1 => {
                Err(Error::config("rivals of a Wasserstein distance", rivals, "one"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the rivals' heads take steps of their own before the features are judged.
    fn rivals_first(&self) -> bool {
        match self.loss {
            AdvLoss::None | AdvLoss::MultiTask | AdvLoss::WassersteinLinear => false,
            AdvLoss::Reverse => self.rival_steps > 1,
            AdvLoss::FlippedLabel | AdvLoss::WassersteinClipped { .. } => true,
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
        // Attributes that are learnt together are equals.
        let rate = match self.contest.loss {
            AdvLoss::MultiTask => Some(1.0),
            AdvLoss::Reverse if !self.contest.rivals_first() => Some(self.contest.rival_rate),
            _ => None,
        };
        if let (Some(rival), Some(rate)) = (&self.rival, rate) {
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

    /// Rivals were outrun if the features moved faster than they could follow: fresh probes then read what they did not. A set
    /// too small to tell gives no warning.
    fn warning(&self, history: &History, data: &Dataset) -> Option<String> {
        let [guess, seen, probe] = self.rivals_and_probes(history, data).ok()?;
        let (read, left) = (guess - seen, guess - probe);
        (left > READABLE * guess && read < 0.5 * left).then(|| {
            format!(
                "the rivals were outrun: their loss in the last epoch is {seen:.2}, that of fresh probes {probe:.2}, that of \
                 a guess {guess:.2}; raise rival_steps (now {}) or rival_rate (now {}), or lower the strength",
                self.contest.rival_steps, self.contest.rival_rate
            )
        })
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
