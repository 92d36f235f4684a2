//! What features still tell of an attribute.

use crate::data::Dataset;
use crate::error::Result;
use crate::metrics::{Estimate, Scores};
use crate::model::Split;
use crate::probe::{Features, WeakFit};
use crate::seed::Seed;
use crate::table::{Cell, Table};

/// Weight of the probe's penalty, on the mean loss: enough that a separable attribute has a finite probe.
const PENALTY: f64 = 1e-4;

/// Share of the training rows that the probe is fitted to; the others choose its threshold.
const FITTED: f64 = 0.8;

/// What a probe reads of an attribute: one half, in both numbers, is nothing.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(200, Seed::new(1), &Device::Cpu)?;
/// let sign = data.x.narrow(1, 0, 1)?.gt(0.0)?.to_dtype(DType::F32)?;
/// let data = data.with_attributes(sign, ["sign"])?;
/// let net = SplitNet::new(zoo::mlp(&[6, 64])?, 1, Seed::new(1), &Device::Cpu)?;
/// let leak: Leak = leakage(&net, &data, &data, "sign")?;
/// assert!(leak.auc.low <= leak.auc.value && leak.auc.value <= leak.auc.high);
/// assert!(leak.balanced > 0.9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leak {
    /// Chance that the probe ranks a sample with the attribute above one without, with its 95 % interval for this probe.
    pub auc: Estimate,
    /// Balanced accuracy of the probe, cut at the threshold.
    pub balanced: f64,
    /// The threshold with the best balanced accuracy on training rows that the probe was not fitted to.
    pub threshold: f64,
}

impl Leak {
    /// Shows the three numbers.
    pub fn evcxr_display(&self) {
        let rows = [
            ("AUC", Cell::from(&self.auc)),
            ("balanced accuracy", self.balanced.into()),
            ("threshold", self.threshold.into()),
        ];
        Table::pairs("probe", "value", rows.map(|(name, cell)| (name.to_string(), cell)).to_vec())
            .evcxr_display();
    }
}

/// How well a logistic probe, fitted to frozen features of `train`, reads an attribute of `test`.
///
/// A fresh probe is asked because the contest's own rival may have been outrun. It is judged by its AUC, and by its balanced
/// accuracy at the threshold that is best on a fifth of `train` held back: at 1/2 the probe of a rare attribute decides
/// against it almost everywhere, however much the features tell. Host: the features. Fails: `Config` if there is no such
/// attribute, `Data` if it has one value only or fewer than two samples of one. Checked by
/// `tests/adversary/training.rs::a_probe_reads_what_features_hold`, `::a_rare_attribute_leaks_as_much_as_it_can_be_ranked`.
/// Book: `adversary/game.md#eq-adv-game-means`, `#eq-adv-game-weak`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(200, Seed::new(1), &Device::Cpu)?;
/// let sign = data.x.narrow(1, 0, 1)?.gt(0.0)?.to_dtype(DType::F32)?;
/// let data = data.with_attributes(sign, ["sign"])?;
/// // A wide random backbone loses nothing that a linear head could read.
/// let net = SplitNet::new(zoo::mlp(&[6, 64])?, 1, Seed::new(1), &Device::Cpu)?;
/// assert!(leakage(&net, &data, &data, "sign")?.auc.value > 0.9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn leakage(
    net: &(impl Split + ?Sized),
    train: &Dataset,
    test: &Dataset,
    attribute: &str,
) -> Result<Leak> {
    Ok(of_label(net, &train.target(attribute)?, &test.target(attribute)?)?.0)
}

/// What a probe reads of an attribute that has become the label, with the probe's mean logistic loss on `test`.
pub(super) fn of_label(net: &(impl Split + ?Sized), train: &Dataset, test: &Dataset) -> Result<(Leak, f64)> {
    let (fitted, held) = train.split(FITTED, Seed::new(0).named("leakage"))?;
    let probe = WeakFit::SoftmaxMean(PENALTY).fit(&Features::of(net, &fitted)?)?.head.single()?;
    let judged = |data: &Dataset| -> Result<Scores> {
        let features = Features::of(net, data)?;
        Scores::new(probe.scores(&features.z)?.column(0).to_owned(), &data.y)
    };
    let (held, test) = (judged(&held)?, judged(test)?);
    let (threshold, _) = held.best_balanced();
    let auc = test.auc_interval(0.95)?;
    let balanced = test.confusion(threshold)?.balanced_accuracy()?;
    // ln(1 + e^(−m)) of the margin m, on both sides.
    let losses = test.positives().mapv(|s| soft_plus(-s)).sum() + test.negatives().mapv(soft_plus).sum();
    Ok((Leak { auc, balanced, threshold }, losses / (test.n_positive() + test.n_negative()) as f64))
}

/// ln(1 + eˢ)
fn soft_plus(s: f64) -> f64 {
    s.max(0.0) + (-s.abs()).exp().ln_1p()
}
