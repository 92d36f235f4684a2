//! Training attributes with or against each other: one code path for every variant.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use candle_core::{D, DType, Device, Tensor, Var};

use super::invariance::decorrelating_weights;
use super::leakage::of_label;
use super::reverse::reverse;
use crate::data::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::loss::bce_logits_each;
use crate::model::{Init, Net, Network, Pass, Plan, Split, SplitNet, zoo};
use crate::numbers::AsF64;
use crate::seed::Seed;
use crate::tensor_file::TensorFile;
use crate::train::{Batch, Group, History, Method, Optimiser, State, Step, Updates};

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
    pub rival_lr: f64,
    /// Steps of the rivals' heads in each batch. With one, a reversal trains heads and features at once, as it is
    /// usually run; features can then outrun heads that take one step a batch, though at three times the rate, and what
    /// they hold of the attribute can rise. With more, the heads take theirs first, on features that stand still, and then
    /// judge the features as they are.
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
            rival_lr: 3.0,
            rival_steps: 30,
            decorrelated: false,
        }
    }
}

/// A backbone under the heads of one's own attributes and those of their rivals; copies share parameters.
///
/// ```text
/// z = phi(x)      s = own(z)      r = rival(z)      L = mean of own losses − γ mean of rivals' losses, for phi
/// MultiTask:           L = (sum of own losses + γ sum of the losses of rivals) / (number of own attributes)
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
/// let mut against = make(&["b"], Contest { loss: AdvLoss::Reverse, ..Contest::default() })?;
/// // Both begin with the same backbone and the same head for "a".
/// let [before, begin] = [&alone, &against].map(|adversary| adversary.net().scores_of(&data));
/// assert_eq!(before?.to_vec1::<f32>()?, begin?.to_vec1::<f32>()?);
/// Trainer::adam(0.01).batch(50).silent().fit(&mut against, &data)?;
/// assert_eq!(against.rival_net()?.scores_of(&data)?.dims(), [100]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Adversary {
    pub contest: Contest,
    /// Backbone, and heads of one's own attributes.
    net: Network,
    /// Heads of the rivals: the critic, for a clipped distance.
    pub rival: Option<Net>,
    columns: [Vec<u32>; 2],
    /// The same where attributes are looked up; nothing if there are none.
    places: [Option<Tensor>; 2],
    /// Names of the rivals.
    rivals: Vec<String>,
    /// Weights of samples by their two labels: 00, 01, 10, 11.
    weights: Option<[f64; 4]>,
    /// The rivals' own optimiser, if they take steps of their own.
    updates: Option<Updates>,
    own_loss: Option<OwnLoss>,
}

/// A function of scores and labels.
type Loss = dyn Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync;

/// A loss of scores and labels.
#[derive(Clone)]
struct OwnLoss(Arc<Loss>);

impl fmt::Debug for OwnLoss {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("OwnLoss")
    }
}

/// Rivals' heads that have taken steps of their own, with their optimiser.
struct Trained {
    rival: Net,
    updates: Updates,
}

/// A backbone under the rivals' heads.
#[derive(Clone)]
struct UnderRivals(Network, Net);

impl Split for UnderRivals {
    fn features(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        self.0.features(x, pass)
    }

    fn scores(&self, z: &Tensor, pass: Pass) -> Result<Tensor> {
        self.1.forward(z, pass)
    }

    fn bottom(&self) -> Vec<(String, Var)> {
        self.0.bottom()
    }

    fn last(&self) -> Vec<(String, Var)> {
        self.1.vars()
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        self.0.statistics()
    }
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
        let init = phi.init;
        let phi = Net::new(phi, seed.named("phi"), DType::F32, device)?;
        let head = heads(phi.ensure_vector()?, own, init, seed, (DType::F32, device))?;
        Adversary::under(&SplitNet { phi, head }, data, own, rivals, contest, seed)
    }

    /// A contest over a network of your own, whose scores are those of one's own attributes, one column each; the rivals'
    /// heads are drawn from the seed. Fails: as [`new`](Adversary::new).
    ///
    /// ```
    /// use lastlayer::prelude::*;
    /// let (seed, device) = (Seed::new(1), Device::Cpu);
    /// let data = Gaussians::a().sample(100, seed, &device)?;
    /// let signs = data.x.narrow(1, 0, 2)?.gt(0.0)?.to_dtype(DType::F32)?;
    /// let data = data.with_attributes(signs, ["a", "b"])?;
    /// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, seed, &device)?;
    /// let contest = Contest { loss: AdvLoss::Reverse, ..Contest::default() };
    /// let mut against = Adversary::under(&net, &data, &["a"], &["b"], contest, seed)?;
    /// Trainer::adam(0.01).batch(50).silent().fit(&mut against, &data)?;
    /// assert_eq!(net.scores_of(&data)?.to_vec1::<f32>()?, against.net().scores_of(&data)?.to_vec1::<f32>()?);
    /// # Ok::<(), lastlayer::error::Error>(())
    /// ```
    pub fn under(
        net: impl Into<Network>,
        data: &Dataset,
        own: &[&str],
        rivals: &[&str],
        contest: Contest,
        seed: Seed,
    ) -> Result<Adversary> {
        let net = net.into();
        contest.check(own.len(), rivals.len())?;
        net.ensure_scores("scores of a contest's network", own.len())?;
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
        let var =
            net.first().ok_or_else(|| Error::config("network", "without parameters", "one to train"))?;
        let (d, init) = match net.as_split_net() {
            Some(net) => (net.phi.ensure_vector()?, net.phi.plan().init),
            None => match net.features_of(&data.subset(&[0])?)?.dims() {
                [_, d] => (*d, Init::default()),
                dims => return Err(Error::shape("features of a network", "[n, d]", format!("{dims:?}"))),
            },
        };
        let rival = match rivals.is_empty() {
            true => None,
            false => Some(heads(d, rivals, init, seed, (var.dtype(), var.device()))?),
        };
        let over = |rival: &Net| Optimiser::adam().over(rival.vars(), 1.0);
        let updates = rival.as_ref().filter(|_| contest.rivals_first()).map(over).transpose()?;
        let rivals = rivals.iter().map(|name| name.to_string()).collect();
        let place = |columns: &Vec<u32>| match columns.is_empty() {
            true => Ok(None),
            false => Tensor::new(&columns[..], var.device()).map(Some),
        };
        let places = [place(&columns[0])?, place(&columns[1])?];
        Ok(Adversary { contest, net, rival, columns, places, rivals, weights, updates, own_loss: None })
    }

    /// A loss of your own for one's own attributes, in place of the logistic: what rivals do stays as it is.
    ///
    /// ```text
    /// adversary.own_loss(|s, y| auc_loss(s, y, 1.0, AucLoss::Value)?.on(s))
    /// ```
    /// The loss gets scores and labels, 0 or 1, both (n, own attributes), and gives a scalar.
    pub fn own_loss(
        mut self,
        loss: impl Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Adversary {
        self.own_loss = Some(OwnLoss(Arc::new(loss)));
        self
    }

    /// Backbone and own heads.
    pub fn net(&self) -> &Network {
        &self.net
    }

    /// Backbone and rivals' heads, as a network. Fails: `Config` if there are no rivals.
    pub fn rival_net(&self) -> Result<Network> {
        Ok(Network::from(&UnderRivals(self.net.clone(), self.rival()?.clone())))
    }

    fn rival(&self) -> Result<&Net> {
        self.rival.as_ref().ok_or_else(|| Error::config("rivals", "none", "at least one attribute"))
    }

    /// What rivals do to the features: their loss, strength included, what they lost before they learnt, and their heads if
    /// these have taken steps of their own first. Nothing where they do nothing.
    fn adverse(
        &self,
        batch: &Batch,
        z: &Tensor,
        y: &Tensor,
        weights: Option<&Tensor>,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Trained>)> {
        let (pass, strength) = (batch.pass(), self.contest.strength_at(batch.progress));
        let lost = |rival: &Net, z: &Tensor, y: &Tensor| -> Result<Tensor> {
            let each = bce_logits_each(&rival.forward(z, pass)?, y)?;
            Ok(weights.map_or(Ok(each.clone()), |w| each.broadcast_mul(w))?.mean_all()?)
        };
        let constant = z.detach();
        match self.contest.loss {
            AdvLoss::None => Ok((None, None, None)),
            AdvLoss::MultiTask => {
                let weight = strength * self.columns[1].len() as f64 / self.columns[0].len() as f64;
                Ok((Some((lost(self.rival()?, z, y)? * weight)?), None, None))
            }
            AdvLoss::Reverse if !self.contest.rivals_first() => {
                let seen = lost(self.rival()?, &reverse(z, strength)?, y)?;
                Ok((Some(seen.clone()), Some(seen), None))
            }
            AdvLoss::Reverse | AdvLoss::FlippedLabel => {
                let (trained, seen) = self.trained(batch.lr, None, |rival| lost(rival, &constant, y))?;
                let judged = match self.contest.loss {
                    AdvLoss::Reverse => (lost(&trained.rival, z, y)? * -strength)?,
                    _ => (lost(&trained.rival, z, &y.affine(-1.0, 1.0)?)? * strength)?,
                };
                Ok((Some(judged), seen, Some(trained)))
            }
            AdvLoss::WassersteinLinear | AdvLoss::WassersteinClipped { .. } => {
                let (distance, trained) = self.distance(batch, z, y, weights)?;
                Ok((distance.map(|far| far * strength).transpose()?, None, trained))
            }
        }
    }

    /// How far the rivals' classes are apart: by their means, or as heads with bounded weights see it, which step first.
    fn distance(
        &self,
        batch: &Batch,
        z: &Tensor,
        y: &Tensor,
        weights: Option<&Tensor>,
    ) -> Result<(Option<Tensor>, Option<Trained>)> {
        let Some(classes) = Classes::new(y, weights)? else { return Ok((None, None)) };
        if self.contest.loss == AdvLoss::WassersteinLinear {
            return Ok((length(&classes.apart(z)?)?, None));
        }
        let apart = |rival: &Net, z: &Tensor| {
            Ok::<_, Error>(classes.apart(&rival.forward(z, batch.pass())?)?.sum_all()?)
        };
        let critic = |rival: &Net| Ok(apart(rival, &z.detach())?.neg()?);
        let (trained, _) = self.trained(batch.lr, classes.both(), critic)?;
        Ok((Some(apart(&trained.rival, z)?.abs()?), Some(trained)))
    }

    /// The rivals' heads after their own steps on a loss, and what it was before the first. With `taken`, 0 or 1, the steps
    /// are taken or not without anybody knowing which.
    fn trained(
        &self,
        lr: f64,
        taken: Option<&Tensor>,
        loss: impl Fn(&Net) -> Result<Tensor>,
    ) -> Result<(Trained, Option<Tensor>)> {
        let rival = self.rival()?.copy()?;
        let none = || Error::config("optimiser of the rivals", "none", "a loss in which they learn first");
        let before = self.updates.as_ref().ok_or_else(none)?;
        let mut updates = before.onto(rival.vars())?;
        updates.lr = lr * self.contest.rival_lr;
        let mut first = None;
        for _ in 0..self.contest.rival_steps {
            let loss = loss(&rival)?;
            updates.step(&loss)?;
            if let AdvLoss::WassersteinClipped { clip } = self.contest.loss {
                for (_, var) in rival.vars() {
                    var.set(&var.as_tensor().clamp(-clip, clip)?)?;
                }
            }
            first.get_or_insert(loss);
        }
        if let Some(taken) = taken {
            updates.keep_if(taken, before)?;
        }
        Ok((Trained { rival, updates }, first))
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
            probe += of_label(&self.net, &fitted, &judged)?.1;
        }
        let each = self.rivals.len() as f64;
        Ok([guess / each, seen[seen.len() - 1], probe / each])
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
        if !(self.strength.is_finite() && self.rival_lr > 0.0 && self.rival_lr.is_finite()) {
            let got = format!("{} and {}", self.strength, self.rival_lr);
            return Err(Error::config("strength and rival_lr", got, "finite, the second above 0"));
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

impl Method for Adversary {
    fn groups(&self) -> Vec<Group> {
        let mut groups = self.net.groups();
        for group in groups.iter_mut().filter(|group| group.name == "last") {
            group.name = "own".to_string();
        }
        // Attributes that are learnt together are equals.
        let lr = match self.contest.loss {
            AdvLoss::MultiTask => Some(1.0),
            AdvLoss::Reverse if !self.contest.rivals_first() => Some(self.contest.rival_lr),
            _ => None,
        };
        if let (Some(rival), Some(lr)) = (&self.rival, lr) {
            groups.push(Group { lr, ..rival.group("rival") });
        }
        groups
    }

    /// What a batch asks of backbone and heads.
    ///
    /// A batch in which a rival has only one value leaves out the distances between its classes. Fails: `Data` if the set
    /// has no attributes, and as the network.
    fn step(&self, batch: &Batch) -> Result<Step> {
        let z = self.net.features(&batch.x, batch.pass())?;
        let attributes = batch.attributes()?;
        let [own_y, rival_y] = [0, 1].map(|side| chosen(attributes, self.places[side].as_ref(), z.dtype()));
        let (own_y, rival_y) = (own_y?, rival_y?);
        let s = self.net.scores(&z, batch.pass())?;
        ensure_shape(
            "scores of a batch, one for each of one's own attributes",
            own_y.elem_count(),
            s.elem_count(),
        )?;
        let s = s.reshape(own_y.shape())?;
        let own = match &self.own_loss {
            None => bce_logits_each(&s, &own_y)?.mean_all()?,
            Some(OwnLoss(loss)) => loss(&s, &own_y)?,
        };
        let weights = self.sample_weights(&own_y, &rival_y)?;
        let (adverse, seen, trained) = self.adverse(batch, &z, &rival_y, weights.as_ref())?;
        let step = Step::new(adverse.map_or(Ok(own.clone()), |adverse| own + adverse)?);
        let step = seen.into_iter().fold(step, |step, loss| step.report_of(RIVAL_LOSS, loss));
        Ok(trained.into_iter().fold(step, Step::carry))
    }

    /// Rivals that have taken steps of their own keep what they learnt.
    fn after(&mut self, _: &Batch, step: &Step) -> Result<()> {
        let (Some(Trained { rival, updates }), Some(own)) = (step.carried(), &self.rival) else {
            return Ok(());
        };
        for ((_, var), (_, moved)) in own.vars().iter().zip(rival.vars()) {
            var.set(&moved)?;
        }
        self.updates = Some(updates.onto(own.vars())?);
        Ok(())
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        self.net.statistics()
    }

    fn state(&self) -> Result<State> {
        let (Some(rival), Some(updates)) = (&self.rival, &self.updates) else { return Ok(State::default()) };
        let TensorFile { tensors, notes } = updates.state()?;
        let heads = rival
            .parameters()
            .iter()
            .map(|(name, var)| Ok((format!("rival.{name}"), var.as_detached_tensor().copy()?)));
        let moments = tensors.into_iter().map(|(name, tensor)| Ok((format!("updates.{name}"), tensor)));
        Ok(State { tensors: heads.chain(moments).collect::<Result<_>>()?, notes })
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        let (Some(rival), Some(updates)) = (&self.rival, &mut self.updates) else { return Ok(()) };
        let heads = rival.fitting(&state.below("rival."))?;
        updates.restore(&State { tensors: state.below("updates."), notes: state.notes.clone() })?;
        Ok(heads.into_iter().try_for_each(|(var, tensor)| var.set(&tensor))?)
    }

    fn identity(&self) -> String {
        format!("{} {:?} {:?}", self.net.identity(), self.contest, self.columns)
    }

    /// Rivals were outrun if the features moved faster than they could follow: fresh probes then read what they did not. A set
    /// too small to tell gives no warning, and nor does a decorrelated contest, whose rivals lose on other weights than a
    /// probe does.
    fn warning(&self, history: &History, data: &Dataset) -> Option<String> {
        if self.weights.is_some() {
            return None;
        }
        let [guess, seen, probe] = self.rivals_and_probes(history, data).ok()?;
        let (read, left) = (guess - seen, guess - probe);
        (left > READABLE * guess && read < 0.5 * left).then(|| {
            format!(
                "the rivals were outrun: their loss in the last epoch is {seen:.2}, that of fresh probes {probe:.2}, that of \
                 a guess {guess:.2}; raise rival_steps (now {}) or rival_lr (now {}), or lower the strength",
                self.contest.rival_steps, self.contest.rival_lr
            )
        })
    }
}

/// A linear head for each attribute, side by side, each drawn from the seed and its own name.
pub(super) fn heads(
    d: usize,
    names: &[&str],
    init: Init,
    seed: Seed,
    (dtype, device): (DType, &Device),
) -> Result<Net> {
    let plan = |width: usize| Plan { input: vec![d], layers: zoo::linear(width, true), init };
    let one = |name: &&str| Net::new(plan(1), seed.named("head").named(name), dtype, device);
    let each = names.iter().map(one).collect::<Result<Vec<Net>>>()?;
    let together = |part: &str| -> Result<(String, Tensor)> {
        let rows: Vec<Tensor> = each.iter().map(|net| net.parameters()[part].as_detached_tensor()).collect();
        Ok((part.to_string(), Tensor::cat(&rows, 0)?))
    };
    let tensors = ["weight", "bias"].into_iter().map(together).collect::<Result<BTreeMap<_, _>>>()?;
    Net::from_tensors(plan(names.len()), tensors)
}

/// (n, columns) Labels of some attributes, 0 or 1.
fn chosen(attributes: &Tensor, columns: Option<&Tensor>, dtype: DType) -> Result<Tensor> {
    Ok(match columns {
        None => Tensor::zeros((attributes.dim(0)?, 0), dtype, attributes.device())?,
        Some(columns) => attributes.index_select(columns, 1)?.ge(0.5)?.to_dtype(dtype)?,
    })
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

/// The two classes of a rival in a batch, weighed or not.
struct Classes {
    /// (n, 1) What counts for the mean where the label is 1, and where it is 0.
    sides: [Tensor; 2],
    sums: Sums,
}

/// What sides add up to.
enum Sums {
    Host([f64; 2]),
    /// One over either, and 1 if there are samples of both: if not, 0, and all is computed as if there were.
    Device([Tensor; 2], Tensor),
}

impl Classes {
    /// Shapes: `y` and `weights` (n, 1). Nothing if a class is missing, as far as it is known. Host: two numbers, on the CPU; a
    /// device is not asked.
    fn new(y: &Tensor, weights: Option<&Tensor>) -> Result<Option<Classes>> {
        let weighed = |side: &Tensor| weights.map_or(Ok(side.clone()), |w| side.mul(w));
        let sides = [weighed(y)?, weighed(&y.affine(-1.0, 1.0)?)?];
        let [ones, zeros] = [sides[0].sum_all()?, sides[1].sum_all()?];
        if y.device().is_cpu() {
            let totals = [ones.numbers()?[0], zeros.numbers()?[0]];
            let both = totals.iter().all(|total| *total > 0.0);
            return Ok(both.then_some(Classes { sides, sums: Sums::Host(totals) }));
        }
        let some = |total: &Tensor| total.gt(0.0)?.to_dtype(total.dtype());
        let over = |total: &Tensor| (total + some(total)?.affine(-1.0, 1.0)?)?.recip();
        let sums = Sums::Device([over(&ones)?, over(&zeros)?], some(&ones)?.mul(&some(&zeros)?)?);
        Ok(Some(Classes { sides, sums }))
    }

    /// Whether there are two means, where nobody on the host knows.
    fn both(&self) -> Option<&Tensor> {
        match &self.sums {
            Sums::Host(_) => None,
            Sums::Device(_, both) => Some(both),
        }
    }

    /// (columns) Mean of `z` (n, columns) where the label is 1 less that where it is 0, or zero if one of them is missing.
    fn apart(&self, z: &Tensor) -> Result<Tensor> {
        let sum = |side: usize| z.broadcast_mul(&self.sides[side])?.sum(0);
        Ok(match &self.sums {
            Sums::Host([ones, zeros]) => ((sum(0)? / *ones)? - (sum(1)? / *zeros)?)?,
            Sums::Device([ones, zeros], both) => {
                let apart = (sum(0)?.broadcast_mul(ones)? - sum(1)?.broadcast_mul(zeros)?)?;
                apart.broadcast_mul(both)?
            }
        })
    }
}

/// Length of a vector; where it is zero, where the length has no gradient, nothing, or on a device zero. Host: one number, on
/// the CPU.
fn length(v: &Tensor) -> Result<Option<Tensor>> {
    let square = v.sqr()?.sum(D::Minus1)?;
    if square.device().is_cpu() {
        return Ok(if square.numbers()?[0] > 0.0 { Some(square.sqrt()?) } else { None });
    }
    let some = square.gt(0.0)?.to_dtype(square.dtype())?;
    Ok(Some((square + some.affine(-1.0, 1.0)?)?.sqrt()?.mul(&some)?))
}
