//! What features still tell of an attribute.

use crate::data::Dataset;
use crate::error::Result;
use crate::metrics::Confusion;
use crate::model::SplitNet;
use crate::probe::{Features, WeakFit};

/// Weight of the probe's penalty, on the mean loss: enough that a separable attribute has a finite probe.
const PENALTY: f64 = 1e-4;

/// Balanced accuracy, on `test`, of a logistic probe for an attribute that is fitted to frozen features of `train`.
///
/// One half means that no linear head can read the attribute; the contest's own rival does not tell, since it may have been
/// outrun. Host: the features. Fails: `Config` if there is no such attribute, `Data` if it has one value only. Checked by
/// `tests/adversary/training.rs::a_probe_reads_what_features_hold`.
/// Book: `adversary/game.md#eq-adv-game-means`, `#eq-adv-game-weak`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(200, Seed::new(1), &Device::Cpu)?;
/// let sign = data.x.narrow(1, 0, 1)?.gt(0.0)?.to_dtype(DType::F32)?;
/// let data = data.with_attributes(sign, ["sign"])?;
/// // A wide random backbone loses nothing that a linear head could read.
/// let net = SplitNet::new(zoo::mlp(&[6, 64])?, 1, Seed::new(1), &Device::Cpu)?;
/// assert!(leakage(&net, &data, &data, "sign")? > 0.9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn leakage(net: &SplitNet, train: &Dataset, test: &Dataset, attribute: &str) -> Result<f64> {
    let (train, test) = (train.target(attribute)?, test.target(attribute)?);
    let probe = WeakFit::SoftmaxMean(PENALTY).fit(&Features::of(net, &train)?)?.head;
    let features = Features::of(net, &test)?;
    Confusion::new(probe.decide(&features.z)?, &features.y, 2)?.balanced_accuracy()
}
