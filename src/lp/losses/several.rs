//! AUC losses of several classes: one binary loss per pair of classes, or per class.

use candle_core::{DType, Tensor};
use ndarray::Array2;

use super::auc::{AucLoss, pair_loss, pair_losses};
use super::device::OnDevice;
use super::{Loss, ScoreGradient, finite, margin_of_scores};
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::{AsF64, to_tensor};

/// One pair of classes k < l, seen as a binary problem on a projected score.
#[derive(Clone, Debug)]
pub(crate) struct ClassPair {
    /// 2 / (K(K−1)).
    pub weight: f64,
    /// What turns a row of scores into the projected score: t = ⟨along, s_i⟩.
    pub along: Vec<f64>,
    pub first: Vec<usize>,
    pub second: Vec<usize>,
}

/// Pairs of classes for a partition matrix, with their samples.
pub(crate) fn class_pairs(
    s: &Array2<f64>,
    y: &impl AsF64,
    partition: Option<&Array2<f64>>,
) -> Result<Vec<ClassPair>> {
    let k = s.ncols();
    let members = members(s, y)?;
    let weight = 2.0 / (k * (k - 1)) as f64;
    let pair = |(first, second, along): (usize, usize, _)| ClassPair {
        weight,
        along,
        first: members[first].clone(),
        second: members[second].clone(),
    };
    Ok(directions(k, partition)?.into_iter().map(pair).collect())
}

/// All pairs of classes with their `along`; a partition of `None` is the matrix of ones with zeros on the diagonal.
///
/// ```text
/// u_kl = P_k − P_l,   along = (u_kl[k] − u_kl[l]) u_kl          so that O_ij = ⟨along, s_i − s_j⟩ is right if positive
/// ```
fn directions(k: usize, partition: Option<&Array2<f64>>) -> Result<Vec<(usize, usize, Vec<f64>)>> {
    let standard = Array2::from_shape_fn((k, k), |(i, j)| f64::from(u8::from(i != j)));
    let partition = partition.unwrap_or(&standard);
    ensure_shape("partition matrix", &[k, k][..], partition.shape())?;
    finite("partition matrix", &partition.iter().copied().collect::<Vec<f64>>())?;
    let mut pairs = Vec::with_capacity(k * (k - 1) / 2);
    for first in 0..k {
        for second in first + 1..k {
            let u = &partition.row(first) - &partition.row(second);
            let sign = u[first] - u[second];
            if sign == 0.0 {
                let got = format!("rows {first} and {second}, which do not tell the two classes apart");
                let allowed = "rows with P[k,k] − P[l,k] ≠ P[k,l] − P[l,l] for every pair of classes";
                return Err(Error::config("partition matrix", got, allowed));
            }
            pairs.push((first, second, u.iter().map(|u| sign * u).collect()));
        }
    }
    Ok(pairs)
}

impl ClassPair {
    pub fn project(&self, s: &Array2<f64>, i: usize) -> f64 {
        s.row(i).iter().zip(&self.along).map(|(s, a)| s * a).sum()
    }
}

/// Scores of several classes as a table. Host: all of them.
///
/// Fails: `Shape` unless they come as (n, K).
pub(crate) fn table(s: &impl AsF64) -> Result<Array2<f64>> {
    let wrong = || {
        Error::shape("scores of several classes", "[n, K], one column per class", format!("{:?}", s.sizes()))
    };
    let [n, k] = s.sizes()[..] else { return Err(wrong()) };
    Array2::from_shape_vec((n, k), s.numbers()?.into_owned()).map_err(|_| wrong())
}

/// Samples of each class. Host: all labels.
///
/// Fails: `Shape` unless there are two classes or more and a label per row, `Data` for a score that is not finite, a
/// label that is no class, or a class without samples.
pub(crate) fn members(s: &Array2<f64>, y: &impl AsF64) -> Result<Vec<Vec<usize>>> {
    let (n, k) = s.dim();
    if k < 2 {
        return Err(Error::shape("scores of several classes", "at least 2 columns", k));
    }
    finite("scores", &s.iter().copied().collect::<Vec<f64>>())?;
    let y = y.numbers()?;
    ensure_shape("labels (one per row of scores)", n, y.len())?;
    let mut members = vec![Vec::new(); k];
    for (i, y) in y.iter().enumerate() {
        if !(*y >= 0.0 && *y < k as f64 && y.fract() == 0.0) {
            return Err(Error::data("labels", format!("entry {i} is {y}; classes are 0 to {}", k - 1)));
        }
        members[*y as usize].push(i);
    }
    match members.iter().position(Vec::is_empty) {
        None => Ok(members),
        Some(class) => {
            let why = format!("class {class} has no sample; take larger or stratified batches");
            Err(Error::data("labels", why))
        }
    }
}

/// The loss of AUC_μ, the mean over pairs of classes.
///
/// ```text
/// (2 / K(K−1)) Σ_{k<l} (1/n_k n_l) Σ_ij max(0, margin − O_ij),   O_ij = (u[k] − u[l]) ⟨u, s_i − s_j⟩,  u = P_k − P_l
/// ```
/// Each pair of classes is a binary problem on the projected score. `partition` P (K, K); `None` is ones off the
/// diagonal. Differs: the paper's Eq. (2) has the opposite sign, which rewards wrong rankings, and lacks 1/(n_k n_l).
/// Shapes: `s` (n, K), `y` (n) in 0..K. Cost: O(K n log n) and O(K² n) for a full P; on a device O(K² n log² n).
/// Host: of scores on a device the value and a count for each class. Fails: `Shape` and `Data` as for two classes,
/// `Config` if two rows of P do not tell their classes apart.
/// Checked by `tests/lp/losses.rs::auc_mu_equals_its_linear_program`.
/// Book: `lp/metrics.md#eq-lp-metrics-mu`, `#eq-lp-metrics-mu-weights`.
///
/// ```
/// use lastlayer::prelude::*;
/// // With two classes and no partition, samples are compared by 2(s₀ − s₁): 4 and −4 here.
/// let s = ndarray::array![[2.0, 0.0], [0.0, 2.0]];
/// assert_eq!(auc_mu_loss(&s, [0, 1], None, 1.0, AucLoss::Value)?.value, 0.0);
/// assert_eq!(auc_mu_loss(&s, [0, 1], None, 10.0, AucLoss::Value)?.value, 2.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn auc_mu_loss(
    s: impl AsF64,
    y: impl AsF64,
    partition: Option<&Array2<f64>>,
    margin: f64,
    kind: AucLoss,
) -> Result<Loss<Array2<f64>>> {
    margin_of_scores(margin)?;
    if let Some(on_device) = OnDevice::several(&s, &y)?
        && let Some(loss) = auc_mu_loss_of(&on_device, partition, margin, kind)?
    {
        return Ok(loss);
    }
    let s = &table(&s)?;
    let (mut value, mut gradient) = (0.0, Array2::zeros(s.dim()));
    for pair in class_pairs(s, &y, partition)? {
        let project = |members: &[usize]| members.iter().map(|i| pair.project(s, *i)).collect::<Vec<f64>>();
        let (loss, on_first, on_second) =
            pair_loss(&project(&pair.first), &project(&pair.second), margin, kind);
        value += pair.weight * loss;
        let slopes = pair.first.iter().zip(on_first).chain(pair.second.iter().zip(on_second));
        for (i, slope) in slopes.filter(|(_, slope)| *slope != 0.0) {
            let row = gradient.row_mut(*i);
            row.into_iter().zip(&pair.along).for_each(|(g, a)| *g += pair.weight * slope * a);
        }
    }
    Ok(Loss { value, gradient: gradient.into() })
}

/// AUC_μ on a device, for as many pairs of classes at a time as there are classes: memory is that of the scores.
fn auc_mu_loss_of(
    on_device: &OnDevice,
    partition: Option<&Array2<f64>>,
    margin: f64,
    kind: AucLoss,
) -> Result<Option<Loss<Array2<f64>>>> {
    let (k, device) = (on_device.s.dim(1)?, on_device.s.device());
    let pairs = directions(k, partition)?;
    let (mut value, mut gradient) = (Tensor::zeros((), DType::F64, device)?, on_device.s.zeros_like()?);
    for pairs in pairs.chunks(k) {
        let of = |classes: Vec<u32>| on_device.members.index_select(&Tensor::new(classes, device)?, 0);
        let first = of(pairs.iter().map(|pair| pair.0 as u32).collect())?;
        let second = of(pairs.iter().map(|pair| pair.1 as u32).collect())?;
        let along = pairs.iter().flat_map(|pair| pair.2.clone()).collect();
        let along = to_tensor(along, (pairs.len(), k), DType::F64, device)?;
        let t = along.matmul(&on_device.s.t()?)?;
        let (own, slopes) = pair_losses(&t, [&first, &second], 2.0 / (k * (k - 1)) as f64, margin, kind)?;
        (value, gradient) = ((value + own)?, (gradient + slopes.t()?.matmul(&along)?)?);
    }
    let found = on_device.to_host(&[&value], 0..k)?;
    Ok(found.map(|found| Loss { value: found[0], gradient: ScoreGradient::from_device(gradient) }))
}

/// The mean over classes of the AUC loss of that class against the rest, on its own column of scores.
///
/// Shapes: `s` (n, K), `y` (n) in 0..K. Cost: O(K n log n). Host and Fails: as [`auc_mu_loss`].
/// Checked by `tests/lp/losses.rs::one_vs_all_equals_its_linear_program`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Each class is 2 above the other in its own column; a margin of 3 lacks 1.
/// let s = ndarray::array![[2.0, 0.0], [0.0, 2.0]];
/// assert_eq!(auc_one_vs_all_loss(&s, [0, 1], 3.0, AucLoss::Value)?.value, 1.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn auc_one_vs_all_loss(
    s: impl AsF64,
    y: impl AsF64,
    margin: f64,
    kind: AucLoss,
) -> Result<Loss<Array2<f64>>> {
    margin_of_scores(margin)?;
    if let Some(on_device) = OnDevice::several(&s, &y)? {
        let (classes, own) = (on_device.members.dim(0)?, &on_device.members);
        let weight = 1.0 / classes as f64;
        let (value, slopes) = pair_losses(&on_device.s.t()?, [own, &(1.0 - own)?], weight, margin, kind)?;
        if let Some(found) = on_device.to_host(&[&value], 0..classes)? {
            return Ok(Loss {
                value: found[0],
                gradient: ScoreGradient::from_device(slopes.t()?.contiguous()?),
            });
        }
    }
    let s = &table(&s)?;
    let members = members(s, &y)?;
    let (mut value, mut gradient) = (0.0, Array2::zeros(s.dim()));
    let weight = 1.0 / members.len() as f64;
    for (k, own) in members.iter().enumerate() {
        let rest: Vec<usize> =
            members.iter().enumerate().filter(|(l, _)| *l != k).flat_map(|(_, m)| m.clone()).collect();
        let column = |members: &[usize]| members.iter().map(|i| s[[*i, k]]).collect::<Vec<f64>>();
        let (loss, on_own, on_rest) = pair_loss(&column(own), &column(&rest), margin, kind);
        value += weight * loss;
        let slopes = own.iter().zip(on_own).chain(rest.iter().zip(on_rest));
        slopes.for_each(|(i, slope)| gradient[[*i, k]] += weight * slope);
    }
    Ok(Loss { value, gradient: gradient.into() })
}
