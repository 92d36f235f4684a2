//! The threshold at which a share of scores lies above: smooth, by a safeguarded Newton method, and hard, by counting.

use std::borrow::Cow;

use candle_core::Tensor;
use rayon::prelude::*;

use super::surrogate::{sigmoids, tensor_sigmoids};
use crate::distribution::beta_cdf;
use crate::error::{Error, Result};
use crate::numbers::{AsF64, to_tensor};

/// A threshold that was solved for.
///
/// ```
/// use lastlayer::prelude::*;
/// let root = smooth_threshold([0.0, 2.0], 0.5, 3.0, None)?;
/// assert!((root.threshold - 1.0).abs() < 1e-9 && root.residual.abs() < 1e-9);
/// // A good guess saves passes.
/// assert_eq!(smooth_threshold([0.0, 2.0], 0.5, 3.0, Some(1.0))?.passes, 1);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Root {
    pub threshold: f64,
    /// Passes over the scores.
    pub passes: usize,
    /// How far the share is from its target.
    pub residual: f64,
}

impl Root {
    /// Shows the threshold and how it was found.
    pub fn evcxr_display(&self) {
        let text = format!(
            "threshold {} after {} passes, residual {:.1e}",
            self.threshold, self.passes, self.residual
        );
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// A share is solved for when it is this close, relative to the target or its complement.
const TOLERANCE: f64 = 1e-12;

/// Bisection alone halves the bracket to the last digit in fewer.
const MOST_PASSES: usize = 100;

/// A share times a count is taken for the whole number it was meant to be.
const WHOLE: f64 = 1e-9;

/// Scores per piece of a sum: fixed, so that the result does not depend on the number of threads.
const PIECE: usize = 1 << 14;

/// The threshold t at which the smooth share of scores above it equals the target.
///
/// ```text
/// (1/n) Σ σ(τ(s_i − t)) = β,   t ∈ [min s − ℓ/τ, max s − ℓ/τ],   ℓ = ln(β / (1−β))
/// ```
/// The share falls strictly from 1 to 0, so there is one solution for any scores. Newton's method on the logarithm of
/// the odds, which is exact in one step if all scores are equal; a step that leaves the bracket becomes a bisection.
/// `warm` is a guess, such as the threshold of the step before. Host: all scores, in f64. Cost: O(n) a pass, on all
/// cores; about five passes. Fails: `Shape` without a score, `Config` for a target outside (0, 1) or a sharpness that
/// is not positive, `Data` if a score is not finite. Checked by `tests/rate/threshold.rs`.
/// Book: `rate/implicit.md#eq-rate-implicit-root`, `#eq-rate-implicit-newton`, `#eq-rate-implicit-limit`.
///
/// ```
/// use lastlayer::prelude::*;
/// // For a single score, σ(2 − t) = 1/4 at t = 2 + ln 3.
/// let root = smooth_threshold([2.0], 0.25, 1.0, None)?;
/// assert!((root.threshold - (2.0 + 3f64.ln())).abs() < 1e-12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn smooth_threshold(scores: impl AsF64, target: f64, sharpness: f64, warm: Option<f64>) -> Result<Root> {
    let members = Members::Host(scores.numbers()?);
    Ok(smooth_thresholds(&members, &[(target, warm)], sharpness)?.swap_remove(0))
}

/// The same for several targets, each with its guess, whose passes are taken together.
pub(super) fn smooth_thresholds(
    members: &Members,
    asked: &[(f64, Option<f64>)],
    sharpness: f64,
) -> Result<Vec<Root>> {
    let n = members.len() as f64;
    if members.len() == 0 {
        return Err(Error::shape("scores of a threshold", "at least one", 0));
    }
    for (target, _) in asked {
        if !(*target > 0.0 && *target < 1.0) {
            let allowed = "between 0 and 1, both excluded; threshold_at_fpr of Scores takes the ends too";
            return Err(Error::config("target rate", target, allowed));
        }
    }
    if !(sharpness > 0.0 && sharpness.is_finite()) {
        return Err(Error::config("sharpness", sharpness, "a positive number"));
    }
    let ends = members.ends()?;
    let mut searches: Vec<Search> = asked
        .iter()
        .map(|(target, warm)| {
            let guess = warm.filter(|t| t.is_finite()).unwrap_or_else(|| members.guess(*target, ends.1));
            Search::new(*target, sharpness, ends, guess)
        })
        .collect();
    loop {
        let mut open: Vec<&mut Search> = searches.iter_mut().filter(|search| !search.done).collect();
        if open.is_empty() {
            return Ok(searches.iter().map(|search| search.root).collect());
        }
        let t: Vec<f64> = open.iter().map(|search| search.t).collect();
        for (search, sums) in open.iter_mut().zip(members.sums(&t, sharpness)?) {
            search.step(sums.map(|sum| sum / n));
        }
    }
}

/// A threshold on its way to a target: Newton's method in a bracket.
struct Search {
    target: f64,
    odds: f64,
    sharpness: f64,
    low: f64,
    high: f64,
    t: f64,
    root: Root,
    done: bool,
}

impl Search {
    fn new(target: f64, sharpness: f64, (least, most): (f64, f64), guess: f64) -> Search {
        let odds = target.ln() - (-target).ln_1p();
        let (low, high) = (least - odds / sharpness, most - odds / sharpness);
        let t = if high > low { guess.clamp(low, high) } else { low };
        let root = Root { threshold: t, passes: 0, residual: f64::INFINITY };
        Search { target, odds, sharpness, low, high, t, root, done: false }
    }

    /// Takes the means of the smooth step at t, of its complement, and of their product.
    fn step(&mut self, [above, below, spread]: [f64; 3]) {
        let residual = above - self.target;
        self.root = Root { threshold: self.t, passes: self.root.passes + 1, residual };
        let odds = above.ln() - below.ln() - self.odds;
        let step = odds / (self.sharpness * spread * (1.0 / above + 1.0 / below));
        let last_digit = 4.0 * f64::EPSILON * self.t.abs().max(1.0);
        let solved = residual.abs() <= TOLERANCE * self.target.min(1.0 - self.target);
        if solved || step.abs() <= last_digit || self.high - self.low <= last_digit {
            self.done = true;
            return;
        }
        *if residual > 0.0 { &mut self.low } else { &mut self.high } = self.t;
        let next = self.t + step;
        self.t = if self.low < next && next < self.high { next } else { 0.5 * (self.low + self.high) };
        self.done = self.root.passes == MOST_PASSES;
    }
}

/// The scores among which a share is taken.
pub(super) enum Members<'a> {
    Host(Cow<'a, [f64]>),
    /// All scores (n), who of them counts (n, 1) of 0 and 1, and how many, least, most and mean of those.
    Device {
        s: Tensor,
        counted: Tensor,
        n: usize,
        ends: (f64, f64),
        mean: f64,
    },
}

impl Members<'_> {
    /// Host: four numbers.
    pub fn masked(s: &Tensor, counted: &Tensor) -> Result<Members<'static>> {
        let out = (1.0 - counted)?.gt(0.0)?;
        let end = |other: f64| out.where_cond(&(s.zeros_like()? + other)?, s);
        let (least, most) = (end(f64::INFINITY)?.min_all()?, end(f64::NEG_INFINITY)?.max_all()?);
        let found = [counted.sum_all()?, least, most, (counted * s)?.sum_all()?];
        let found = Tensor::stack(&found, 0)?.to_vec1::<f64>()?;
        let (n, ends, mean) = (found[0] as usize, (found[1], found[2]), found[3] / found[0].max(1.0));
        Ok(Members::Device { s: s.clone(), counted: counted.unsqueeze(1)?, n, ends, mean })
    }

    pub fn len(&self) -> usize {
        match self {
            Members::Host(s) => s.len(),
            Members::Device { n, .. } => *n,
        }
    }

    fn ends(&self) -> Result<(f64, f64)> {
        match self {
            Members::Host(s) => ends(s),
            Members::Device { ends, .. } => Ok(*ends),
        }
    }

    /// Where to begin: a quantile, or the mean where one would have to sort on a device. The root is the same.
    fn guess(&self, target: f64, most: f64) -> f64 {
        match self {
            Members::Host(s) => hard_threshold_of(s, target, most),
            Members::Device { mean, .. } => *mean,
        }
    }

    /// Sums of σ(τ(s−t)), of its complement, and of their product, for each threshold. Host: these sums.
    pub fn sums(&self, t: &[f64], sharpness: f64) -> Result<Vec<[f64; 3]>> {
        let (s, counted) = match self {
            Members::Host(list) => return Ok(t.iter().map(|t| sums(list, *t, sharpness)).collect()),
            Members::Device { s, counted, .. } => (s, counted),
        };
        let at = to_tensor(t.to_vec(), (t.len(), 1), s.dtype(), s.device())?;
        let x = (s.unsqueeze(0)?.broadcast_sub(&at)? * sharpness)?;
        let (high, low) = tensor_sigmoids(&x)?;
        let up = x.ge(0.0)?;
        let (above, below) = (up.where_cond(&high, &low)?, up.where_cond(&low, &high)?);
        let sums =
            Tensor::cat(&[above, below, (high * low)?], 0)?.matmul(counted)?.squeeze(1)?.to_vec1::<f64>()?;
        let m = t.len();
        Ok((0..m).map(|k| [sums[k], sums[m + k], sums[2 * m + k]]).collect())
    }
}

/// The lowest threshold with at most a share `target` of the scores above it, counted with the strict rule s > t.
///
/// ```text
/// t = the (⌊β n⌋ + 1)-th largest score
/// ```
/// With β n < 1 it is the largest score, with β = 1 minus infinity. Host: all scores. Cost: O(n). Fails: `Shape` without
/// a score, `Config` for a target outside [0, 1], `Data` if a score is not finite.
/// Book: `rate/samples.md#eq-rate-samples-empty`.
///
/// ```
/// use lastlayer::prelude::*;
/// let s = [4.0, 1.0, 3.0, 2.0];
/// assert_eq!(hard_threshold(s, 0.25)?, 3.0); // one of four is above
/// assert_eq!(hard_threshold(s, 0.0)?, 4.0);
/// assert_eq!(hard_threshold(s, 1.0)?, f64::NEG_INFINITY);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn hard_threshold(scores: impl AsF64, target: f64) -> Result<f64> {
    let s = scores.numbers()?;
    if s.is_empty() {
        return Err(Error::shape("scores of a threshold", "at least one", 0));
    }
    if !(0.0..=1.0).contains(&target) {
        return Err(Error::config("target rate", target, "0 to 1"));
    }
    ends(&s)?;
    Ok(hard_threshold_of(&s, target, f64::NEG_INFINITY))
}

/// The same for scores that are known to be finite; `all` is the answer where everything may be above.
fn hard_threshold_of(s: &[f64], target: f64, all: f64) -> f64 {
    let allowed = (target * s.len() as f64 + WHOLE).floor() as usize;
    if allowed >= s.len() {
        return all;
    }
    let mut s = s.to_vec();
    *s.select_nth_unstable_by(allowed, |a, b| b.total_cmp(a)).1
}

/// The largest rate to aim at so that a threshold counted on `n` samples keeps a rate of at most `limit` on new ones,
/// with chance `1 − risk`.
///
/// ```text
/// max k/n with P(Beta(k+1, n−k) > limit) ≤ risk
/// ```
/// The law is that of the rate of an order statistic, whatever the continuous distribution of scores. Cost: O(log n)
/// evaluations of an incomplete beta function. Fails: `Config` for a limit or risk outside (0, 1); `Data` if even k = 0 is
/// too risky, with the number of samples that would do. Checked by `tests/rate/samples.rs`.
/// Book: `rate/samples.md#eq-rate-samples-confident`, `#eq-rate-samples-least`.
///
/// ```
/// use lastlayer::prelude::*;
/// // No sample above the largest of n: 0.95ⁿ ≤ 0.05 from n = 59 on.
/// assert_eq!(rate::confident_target(0.05, 59, 0.05)?, 0.0);
/// assert!(rate::confident_target(0.05, 58, 0.05).is_err());
/// let aim = rate::confident_target(0.05, 10_000, 0.05)?;
/// assert!(0.04 < aim && aim < 0.05);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn confident_target(limit: f64, n: usize, risk: f64) -> Result<f64> {
    for (name, value) in [("limit of a rate", limit), ("risk", risk)] {
        if !(value > 0.0 && value < 1.0) {
            return Err(Error::config(name, value, "between 0 and 1, both excluded"));
        }
    }
    let excess = |k: usize| Ok::<_, Error>(1.0 - beta_cdf(limit, k as f64 + 1.0, (n - k) as f64)?);
    if n == 0 || excess(0)? > risk {
        let needed = (risk.ln() / (-limit).ln_1p()).ceil();
        let why =
            format!("{n} samples cannot promise a rate of at most {limit} with risk {risk}; {needed} can");
        return Err(Error::data("scores", why));
    }
    // The risk grows with k: the last admissible one, by bisection.
    let (mut good, mut bad) = (0, n);
    while bad - good > 1 {
        let k = good + (bad - good) / 2;
        *if excess(k)? <= risk { &mut good } else { &mut bad } = k;
    }
    Ok(good as f64 / n as f64)
}

/// Smallest and largest score.
fn ends(s: &[f64]) -> Result<(f64, f64)> {
    let parts = in_pieces(s, |s| {
        s.iter().fold([f64::INFINITY, f64::NEG_INFINITY, 0.0], |[least, most, zero], s| {
            [least.min(*s), most.max(*s), zero + 0.0 * s]
        })
    });
    let all = [f64::INFINITY, f64::NEG_INFINITY, 0.0];
    let [least, most, zero] =
        parts.into_iter().fold(all, |a, b| [a[0].min(b[0]), a[1].max(b[1]), a[2] + b[2]]);
    // NaN if any score is not finite.
    if zero != 0.0 {
        return Err(Error::data("scores", "one is not finite; look for such numbers in the input"));
    }
    Ok((least, most))
}

/// Sums of σ(τ(s−t)), of its complement, and of their product.
fn sums(s: &[f64], t: f64, sharpness: f64) -> [f64; 3] {
    let parts = in_pieces(s, |s| {
        s.iter().fold([0.0; 3], |[above, below, spread], s| {
            let x = sharpness * (s - t);
            let (high, low) = sigmoids(x);
            let (up, down) = if x >= 0.0 { (high, low) } else { (low, high) };
            [above + up, below + down, spread + high * low]
        })
    });
    parts.into_iter().fold([0.0; 3], |a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]])
}

/// Applies a function to pieces of the scores, on all cores if there are several.
fn in_pieces(s: &[f64], f: impl Fn(&[f64]) -> [f64; 3] + Sync + Send) -> Vec<[f64; 3]> {
    // Waking the other cores takes longer than a batch does.
    if s.len() <= PIECE { vec![f(s)] } else { s.par_chunks(PIECE).map(f).collect() }
}
