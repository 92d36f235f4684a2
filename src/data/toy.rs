//! Toy sets: two-dimensional ones to look at, and Gaussians on which every metric of a linear score has a closed form.
//!
//! ```
//! use lastlayer::prelude::*;
//! let task = Gaussians::a();
//! let data = task.sample(2000, Seed::new(1), &Device::Cpu)?;
//! // A linear score on a sample, and its AUC without one.
//! let (w, best) = task.best_auc()?;
//! let s = data.x.to_dtype(DType::F64)?.matmul(&Tensor::new(w, &Device::Cpu)?.unsqueeze(1)?)?;
//! assert!((Scores::new(&s, &data.y)?.auc() - best).abs() < 0.03);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

use candle_core::{DType, Device, Tensor};

use super::Dataset;
use crate::distribution::{normal_cdf, normal_quantile};
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::to_tensor;
use crate::seed::Seed;

/// Two interleaved half circles of radius 1, `n` points in all, with normal noise.
///
/// Fails: `Config` for fewer than two points or a noise that is not finite and at least 0.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = arcs(200, 0.0, Seed::new(1), &Device::Cpu)?;
/// assert_eq!((data.x.dims(), data.class_counts()?), (&[200, 2][..], vec![100, 100]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn arcs(n: usize, noise: f64, seed: Seed, device: &Device) -> Result<Dataset> {
    plane("arcs", &["upper", "lower"], n, noise, seed, device, |class, u| {
        let (sin, cos) = (std::f64::consts::PI * u).sin_cos();
        if class == 0 { (cos, sin) } else { (1.0 - cos, 0.5 - sin) }
    })
}

/// `k` rings around the origin, of radius 1 to k, `n` points in all, with normal noise.
///
/// Fails: `Config` for fewer points than rings, no ring, or a noise that is not finite and at least 0.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = rings(3, 90, 0.0, Seed::new(1), &Device::Cpu)?;
/// let radius = data.x.sqr()?.sum(1)?.sqrt()?.to_dtype(DType::F64)?.to_vec1::<f64>()?;
/// // Class k lies on the circle of radius k + 1.
/// let off = radius.iter().zip(data.labels()?).map(|(r, y)| (r - f64::from(y) - 1.0).abs());
/// assert!(off.fold(0.0, f64::max) < 1e-5);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn rings(k: usize, n: usize, noise: f64, seed: Seed, device: &Device) -> Result<Dataset> {
    let names: Vec<String> = (1..=k).map(|radius| format!("ring {radius}")).collect();
    plane("rings", &names, n, noise, seed, device, |class, u| {
        let (sin, cos) = (2.0 * std::f64::consts::PI * u).sin_cos();
        let radius = (class + 1) as f64;
        (radius * cos, radius * sin)
    })
}

/// Points on a curve per class, classes taking turns.
fn plane<S: ToString>(
    set: &str,
    classes: &[S],
    n: usize,
    noise: f64,
    seed: Seed,
    device: &Device,
    curve: impl Fn(usize, f64) -> (f64, f64),
) -> Result<Dataset> {
    let k = classes.len();
    if k == 0 {
        return Err(Error::config(set, 0, "at least one"));
    }
    if n < k {
        return Err(Error::config(format!("points of {set}"), n, format!("at least {k}, one of each class")));
    }
    if !(noise >= 0.0 && noise.is_finite()) {
        return Err(Error::config("noise", noise, "0 or more"));
    }
    let points = (0..n).flat_map(|i| {
        let stream = seed.named(set).stream(i as u64);
        let (x, y) = curve(i % k, stream.uniform(0));
        [x + noise * stream.normal(1), y + noise * stream.normal(2)]
    });
    let x = to_tensor(points.collect(), (n, 2), DType::F32, device)?;
    let y = Tensor::from_vec((0..n).map(|i| (i % k) as u32).collect(), n, device)?;
    Dataset::new(set, x, y, classes.iter().map(S::to_string))
}

/// Classes that are normal with independent coordinates, each class with its own means and standard deviations.
///
/// ```text
/// y ~ prevalence,   x | y ~ N(mean_y, diag sd_y²)
/// ```
/// Between two classes, a linear score s = wᵀx is normal in each, so [`roc`](Gaussians::tpr_at_fpr),
/// [`auc`](Gaussians::auc) and [`fnr_at_fpr`](Gaussians::fnr_at_fpr) of any w, and the best over all w, are known without
/// sampling. Book: `measures/decisions.md#gaussians`. Checked by `tests/toy.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Means one apart, both of variance 1: AUC = Φ(1/√2).
/// let task = Gaussians {
///     name: "two".into(),
///     means: vec![vec![0.0], vec![1.0]],
///     sds: vec![vec![1.0], vec![1.0]],
///     prevalence: vec![0.5, 0.5],
/// };
/// assert!((task.auc(&[3.0])? - distribution::normal_cdf(0.5f64.sqrt())).abs() < 1e-12);
/// assert!((task.fnr_at_fpr(&[3.0], 0.5)? - distribution::normal_cdf(-1.0)).abs() < 1e-12);
/// assert_eq!(task.sample(10, Seed::new(1), &Device::Cpu)?.n(), 10);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussians {
    /// Name in tables and figures.
    pub name: String,
    /// One list per class: the mean of each coordinate.
    pub means: Vec<Vec<f64>>,
    /// One list per class: the standard deviation of each coordinate.
    pub sds: Vec<Vec<f64>>,
    /// Share of each class; the shares sum to 1.
    pub prevalence: Vec<f64>,
}

impl Gaussians {
    /// Task A of the rate and LP chapters: class 0 wide where the means differ most, so a likelihood fit misleads.
    pub fn a() -> Gaussians {
        let sds = [[1.8, 0.5, 0.6, 1., 1., 1.], [0.6, 1.4, 1.2, 1., 1., 1.]];
        Gaussians::pair("A", [2., 1.2, 0.8, 0.3, 0., 0.], sds)
    }

    /// Task B of the rate chapter.
    pub fn b() -> Gaussians {
        let sds = [[2.5, 0.5, 0.8, 1., 1., 1.], [0.4, 1.2, 1., 1., 1., 1.]];
        Gaussians::pair("B", [1.5, 1.5, 1., 0.3, 0., 0.], sds)
    }

    /// Task C of the rate chapter.
    pub fn c() -> Gaussians {
        let sds = [[1.5, 0.4, 0.4, 1., 1., 1.], [1., 1., 0.8, 1., 1., 1.]];
        Gaussians::pair("C", [2.5, 1., 1., 0.5, 0., 0.], sds)
    }

    /// Task D of the LP chapters, with the widest contrast of variances.
    pub fn d() -> Gaussians {
        let sds = [[3., 0.3, 0.6, 1., 1., 1.], [0.3, 1.6, 1.2, 1., 1., 1.]];
        Gaussians::pair("D", [1., 1., 0.6, 0.3, 0., 0.], sds)
    }

    /// Three classes in four dimensions, for multi-class AUC.
    pub fn three() -> Gaussians {
        Gaussians {
            name: "three Gaussians".to_string(),
            means: vec![vec![0.; 4], vec![1.2, 0.6, 0., 0.], vec![0.4, 1.4, 0.6, 0.]],
            sds: vec![vec![1.8, 0.5, 1., 1.], vec![0.6, 1.4, 1., 1.], vec![1., 1., 0.5, 1.]],
            prevalence: vec![1.0 / 3.0; 3],
        }
    }

    /// Class 0 around the origin, class 1 around `mean`, three in ten samples of class 1.
    fn pair(name: &str, mean: [f64; 6], sds: [[f64; 6]; 2]) -> Gaussians {
        Gaussians {
            name: format!("Gaussians {name}"),
            means: vec![vec![0.0; 6], mean.to_vec()],
            sds: sds.map(|sd| sd.to_vec()).to_vec(),
            prevalence: vec![0.7, 0.3],
        }
    }

    /// `n` samples, their classes drawn by prevalence.
    ///
    /// Fails: `Config` or `Shape` for means, deviations or prevalences that do not fit together.
    pub fn sample(&self, n: usize, seed: Seed, device: &Device) -> Result<Dataset> {
        let d = self.check()?;
        let seed = seed.named(&self.name);
        let total: f64 = self.prevalence.iter().sum();
        let class_of = |i: usize| {
            let mut rest = seed.stream(i as u64).uniform(0) * total;
            let passed = self.prevalence.iter().take_while(|p| {
                rest -= **p;
                rest >= 0.0
            });
            passed.count().min(self.prevalence.len() - 1)
        };
        let labels: Vec<usize> = (0..n).map(class_of).collect();
        let numbers = labels.iter().enumerate().flat_map(|(i, class)| {
            let stream = seed.stream(i as u64);
            (0..d).map(move |c| self.means[*class][c] + self.sds[*class][c] * stream.normal(c as u64 + 1))
        });
        let x = to_tensor(numbers.collect(), (n, d), DType::F32, device)?;
        let y = Tensor::from_vec(labels.iter().map(|c| *c as u32).collect(), n, device)?;
        Dataset::new(&self.name, x, y, (0..self.means.len()).map(|c| c.to_string()))
    }

    /// AUC of the score wᵀx.
    ///
    /// ```text
    /// AUC = Φ( mᵀw / √Σ w² (sd0² + sd1²) ),   m the difference of the means
    /// ```
    /// Fails: `Shape` unless there are two classes and one weight per coordinate, `Config` if all weights are 0.
    /// Book: `measures/decisions.md#eq-measures-gauss-auc`.
    pub fn auc(&self, w: &[f64]) -> Result<f64> {
        let [mean, sd0, sd1] = self.score(w)?;
        Ok(normal_cdf(mean / sd0.hypot(sd1)))
    }

    /// Share of class 1 above the threshold that a share `fpr` of class 0 is above: the ROC of the score wᵀx.
    pub fn tpr_at_fpr(&self, w: &[f64], fpr: f64) -> Result<f64> {
        Ok(1.0 - self.fnr_at_fpr(w, fpr)?)
    }

    /// Share of class 1 missed at this share of false positives.
    ///
    /// ```text
    /// FNR = Φ( (z ‖sd0 ∘ w‖ − mᵀw) / ‖sd1 ∘ w‖ ),   z = Φ⁻¹(1 − fpr)
    /// ```
    /// Fails: as [`auc`](Gaussians::auc), and `Config` for a rate outside (0, 1).
    /// Book: `measures/decisions.md#eq-measures-gauss-fnr`.
    pub fn fnr_at_fpr(&self, w: &[f64], fpr: f64) -> Result<f64> {
        let [mean, sd0, sd1] = self.score(w)?;
        Ok(normal_cdf((normal_quantile(1.0 - fpr)? * sd0 - mean) / sd1))
    }

    /// Weights of the highest AUC, and that AUC: w = m / (sd0² + sd1²).
    pub fn best_auc(&self) -> Result<(Vec<f64>, f64)> {
        let w = self.direction(1.0, 1.0)?;
        let auc = self.auc(&w)?;
        Ok((w, auc))
    }

    /// Weights of the lowest FNR at a rate of false positives, and that FNR.
    ///
    /// ```text
    /// w(θ) = m / (cos θ sd0² + sin θ sd1²)
    /// ```
    /// The gradient of the FNR vanishes only on this curve (Anderson and Bahadur 1962), so a search over one angle is a
    /// search over all w. Cost: some thousand evaluations of the closed form.
    /// Book: `measures/decisions.md#eq-measures-anderson`.
    pub fn best_fnr_at_fpr(&self, fpr: f64) -> Result<(Vec<f64>, f64)> {
        self.fnr_at_fpr(&self.direction(1.0, 1.0)?, fpr)?;
        let value = |angle: f64| -> f64 {
            let w = self.direction(angle.cos(), angle.sin());
            w.and_then(|w| self.fnr_at_fpr(&w, fpr)).unwrap_or(1.0)
        };
        // Either weight may be negative, but not both; the scan is refined around its best point.
        let (mut low, mut high) = (-std::f64::consts::FRAC_PI_2, std::f64::consts::PI);
        let mut best = (low, 1.0);
        for _ in 0..14 {
            let step = (high - low) / 100.0;
            for i in 0..=100 {
                let angle = low + f64::from(i) * step;
                let fnr = value(angle);
                if fnr < best.1 {
                    best = (angle, fnr);
                }
            }
            (low, high) = (best.0 - step, best.0 + step);
        }
        Ok((self.direction(best.0.cos(), best.0.sin())?, best.1))
    }

    /// Difference of the means and the two standard deviations of the score wᵀx.
    fn score(&self, w: &[f64]) -> Result<[f64; 3]> {
        self.check_pair()?;
        ensure_shape("weights of a score", self.means[0].len(), w.len())?;
        let sd =
            |class: usize| w.iter().zip(&self.sds[class]).map(|(w, sd)| (w * sd).powi(2)).sum::<f64>().sqrt();
        let mean: f64 =
            w.iter().zip(self.means[1].iter().zip(&self.means[0])).map(|(w, (a, b))| w * (a - b)).sum();
        let score = [mean, sd(0), sd(1)];
        if score.iter().any(|v| !v.is_finite()) || score[1] <= 0.0 || score[2] <= 0.0 {
            return Err(Error::config("weights of a score", format!("{w:?}"), "finite, not all 0"));
        }
        Ok(score)
    }

    /// Difference of the means over α sd0² + β sd1².
    fn direction(&self, alpha: f64, beta: f64) -> Result<Vec<f64>> {
        self.check_pair()?;
        let difference = self.means[1].iter().zip(&self.means[0]).map(|(a, b)| a - b);
        let variance = self.sds[0].iter().zip(&self.sds[1]).map(|(s0, s1)| alpha * s0 * s0 + beta * s1 * s1);
        Ok(difference.zip(variance).map(|(m, v)| m / v).collect())
    }

    fn check_pair(&self) -> Result<()> {
        self.check()?;
        ensure_shape("classes of a closed form", 2, self.means.len())
    }

    /// Dimension, if everything fits together.
    fn check(&self) -> Result<usize> {
        let (k, d) = (self.means.len(), self.means.first().map_or(0, Vec::len));
        ensure_shape("classes with standard deviations", k, self.sds.len())?;
        ensure_shape("classes with a prevalence", k, self.prevalence.len())?;
        for row in self.means.iter().chain(&self.sds) {
            ensure_shape("coordinates of a class", d, row.len())?;
        }
        let positive = |values: &[f64]| values.iter().all(|v| *v > 0.0 && v.is_finite());
        let means = self.means.iter().flatten().all(|m| m.is_finite());
        if k == 0 || d == 0 || !means || !self.sds.iter().all(|s| positive(s)) || !positive(&self.prevalence)
        {
            let allowed =
                "at least one class and coordinate, finite means, positive deviations and prevalences";
            return Err(Error::config("Gaussians", &self.name, allowed));
        }
        Ok(d)
    }

    /// Shows name, classes and dimension.
    pub fn evcxr_display(&self) {
        let d = self.means.first().map_or(0, Vec::len);
        let text = format!("{}: {} classes in {d} dimensions", self.name, self.means.len());
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}
