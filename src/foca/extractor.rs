//! Backbones for the comparison: bounded features, with what each baseline does to them in training.

use crate::error::{Error, Result};
use crate::model::{Layer, Plan};

/// What is done to the features in training to keep them from fitting one head: the paper's four comparisons.
///
/// Book: `foca/coadaptation.md#eq-foca-co-noise`, `#eq-foca-co-dropout`, `#eq-foca-co-norm`.
///
/// ```
/// use lastlayer::prelude::*;
/// let names = |baseline| -> Result<Vec<String>> {
///     let plan = extractor(zoo::mlp(&[2, 8])?, 3, Layer::UnitNorm, baseline)?;
///     Ok(plan.layers.into_iter().map(|(name, _)| name).skip(2).collect())
/// };
/// assert_eq!(names(Baseline::Plain)?, ["features", "bound"]);
/// assert_eq!(names(Baseline::BatchNorm)?, ["features", "norm", "bound"]);
/// assert_eq!(names(Baseline::Noisy { sd: 0.1 })?, ["features", "bound", "noise"]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Baseline {
    /// Nothing.
    #[default]
    Plain,
    /// Normal noise of this standard deviation is added.
    Noisy { sd: f64 },
    /// This share of them is set to zero.
    Dropout { rate: f64 },
    /// Each is brought to mean 0 and variance 1 over the batch.
    BatchNorm,
}

/// A backbone that ends in `d` features which cannot grow for ever.
///
/// ```text
/// hidden ─▶ linear, d ─▶ (batch norm) ─▶ bound ─▶ (noise or dropout, in training)
/// ```
/// `bound` is [`Layer::RmsNorm`], [`Layer::UnitNorm`] or [`Layer::Ball`]: without one, features trained against penalised
/// heads drift outwards. Fails: `Config` without a feature or for another bound. Checked by `tests/foca/training.rs`.
/// Book: `foca/anonymous.md#eq-foca-anon-drift`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = arcs(10, 0.1, Seed::new(1), &Device::Cpu)?;
/// let plan = extractor(zoo::mlp(&[2, 8])?, 3, Layer::UnitNorm, Baseline::Plain)?;
/// let net = SplitNet::new(plan, 2, Seed::new(1), &Device::Cpu)?;
/// let lengths = net.features_of(&data)?.sqr()?.sum(1)?.to_vec1::<f32>()?;
/// assert!(lengths.iter().all(|length| (length - 1.0).abs() < 1e-5));
/// assert!(extractor(zoo::mlp(&[2, 8])?, 3, Layer::Relu, Baseline::Plain).is_err()); // bounds nothing
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn extractor(hidden: Plan, d: usize, bound: Layer, baseline: Baseline) -> Result<Plan> {
    if d == 0 {
        return Err(Error::config("features", 0, "at least 1"));
    }
    if !matches!(bound, Layer::RmsNorm | Layer::UnitNorm | Layer::Ball { .. }) {
        return Err(Error::config("bound of features", format!("{bound:?}"), "RmsNorm, UnitNorm or Ball"));
    }
    let mut plan = hidden;
    let mut add = |name: &str, layer: Layer| plan.layers.push((name.to_string(), layer));
    add("features", Layer::Linear { width: d, bias: true });
    if baseline == Baseline::BatchNorm {
        add("norm", Layer::BatchNorm);
    }
    add("bound", bound);
    match baseline {
        Baseline::Noisy { sd } => add("noise", Layer::Noise { sd }),
        Baseline::Dropout { rate } => add("dropout", Layer::Dropout { rate }),
        Baseline::Plain | Baseline::BatchNorm => {}
    }
    Ok(plan)
}
