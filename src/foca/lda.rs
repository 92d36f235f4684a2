//! Linear discriminants: directions along which classes lie far apart for how wide they are.

use ndarray::{Array1, Array2, Axis};

use crate::distribution::normal_cdf;
use crate::error::{Error, Result, ensure_shape};
use crate::linalg::{Cholesky, symmetric_eigen};
use crate::probe::Features;

/// Share of the mean within-class variance that is added to every variance, so that S_W can be inverted.
const SHRINKAGE: f64 = 1e-6;

/// Classes narrower than this, relative to the size of a feature, are points: what is left of them is rounding.
const POINT: f64 = 1e-12;

/// Directions that separate the classes of some features, with how well each does.
///
/// ```text
/// S_B v = μ S_W v,       v' S_W v = 1,       S_W = pooled covariance within classes + 1e-6 tr / d,
///                                            S_B = covariance of class means, weighted by shares
/// ```
/// The features are divided by their root mean square first, so `within` and `between` of two networks can be compared.
/// The eigenvalues do not depend on it: both matrices and the shrinkage change by the same factor. `axes` are for
/// features as they come, which then have variance 1 within classes along each axis. Checked by `tests/foca/lda.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Classes at −1 and 1 with a standard deviation of one half: μ = (1 / ½)².
/// let features = Features::new(&ndarray::array![[-1.5], [-0.5], [0.5], [1.5]], &[0, 0, 1, 1], 2)?;
/// let found = Lda::of(&features)?;
/// assert!((found.eigenvalues[0] - 4.0).abs() < 1e-4);
/// assert!((found.ratio() - 0.25).abs() < 1e-9);
/// assert_eq!(found.project(&features)?.dim(), (4, 1));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Lda {
    /// The μ, largest first: min(d, classes − 1) of them, as S_B has no more that are not zero.
    pub eigenvalues: Vec<f64>,
    /// (d, as many) The v, one per column; the sign of each is arbitrary.
    pub axes: Array2<f64>,
    /// tr S_W of the scaled features, without the shrinkage.
    pub within: f64,
    /// tr S_B of the scaled features.
    pub between: f64,
}

impl Lda {
    /// Discriminants of features with two classes or more.
    ///
    /// Cost: O(n d² + d³). Fails: `Config` for a single class, `Data` if a class has no sample or if every class is one
    /// point, where the eigenvalues are infinite.
    pub fn of(features: &Features) -> Result<Lda> {
        let scatter = Scatter::of(features)?;
        // White' S_W White = I: what is left is an ordinary symmetric problem.
        let (variances, directions) = symmetric_eigen(&scatter.shrunk())?;
        let white = directions / Array1::from(variances).mapv(f64::sqrt);
        let centres = scatter.centres();
        let seen = centres.dot(&white);
        let (mu, u) = symmetric_eigen(&seen.t().dot(&seen))?;
        let d = features.d();
        let leading: Vec<usize> = (0..d).rev().take(features.classes - 1).collect();
        let axes = white.dot(&u.select(Axis(1), &leading)) / scatter.scale;
        // Rounding may leave −1e-17 of a zero.
        let eigenvalues = mu.into_iter().rev().take(leading.len()).map(|mu| mu.max(0.0)).collect();
        let (within, between) = (scatter.within.diag().sum(), (&centres * &centres).sum());
        Ok(Lda { eigenvalues, axes, within, between })
    }

    /// (n, axes) Coordinates of features along the axes, the best one first.
    ///
    /// Fails: `Shape` unless they are as wide as those the axes come from.
    pub fn project(&self, features: &Features) -> Result<Array2<f64>> {
        ensure_shape("features to project", self.axes.nrows(), features.d())?;
        Ok(features.z.dot(&self.axes))
    }

    /// tr S_W / tr S_B: how wide classes are for how far apart they lie; infinite if all class means agree.
    ///
    /// Book: `foca/coadaptation.md#eq-foca-co-traces`.
    pub fn ratio(&self) -> f64 {
        self.within / self.between
    }

    /// Shows the eigenvalues and the ratio of the traces.
    pub fn evcxr_display(&self) {
        let eigenvalues: Vec<String> = self.eigenvalues.iter().map(|mu| format!("{mu:.4}")).collect();
        let text = format!("eigenvalues {}; tr S_W / tr S_B {:.4}", eigenvalues.join(", "), self.ratio());
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// The direction that separates two classes, in closed form, and the threshold halfway between their means.
///
/// ```text
/// μ = π₁ π₀ Δ' S_W⁻¹ Δ,      axis = S_W⁻¹ Δ,      threshold = axis · (m₀ + m₁)/2,      Δ = m₁ − m₀
/// ```
/// 0 is `first`, 1 is `second`; means, shares π and the shrunk S_W are those of the rows of these two classes alone.
/// The second class is decided above the threshold. μ is what [`Lda`] finds for the two. Checked by
/// `tests/foca/lda.rs`.
/// Book: `foca/coadaptation.md#eq-foca-co-eigenvalue`.
///
/// ```
/// use lastlayer::prelude::*;
/// let features = Features::new(&ndarray::array![[-1.5], [-0.5], [0.5], [1.5]], &[0, 0, 1, 1], 2)?;
/// let found = TwoClass::of(&features, 0, 1)?;
/// assert!(found.threshold.abs() < 1e-12); // halfway between the means
/// assert_eq!(found.error(&features)?, 0.0);
/// assert!((found.implied_error() - distribution::normal_cdf(-2.0)).abs() < 1e-5);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TwoClass {
    pub first: u32,
    pub second: u32,
    /// The μ of the formula.
    pub eigenvalue: f64,
    /// (d) For features as they come.
    pub axis: Array1<f64>,
    pub threshold: f64,
}

impl TwoClass {
    /// Discriminant of two classes; other rows are left out.
    ///
    /// Cost: O(n d² + d³), n rows of the two. Fails: `Config` unless these are two different classes, `Data` if one has
    /// no sample or both are points.
    pub fn of(features: &Features, first: u32, second: u32) -> Result<TwoClass> {
        let scatter = Scatter::of(&pair(features, first, second)?)?;
        let (zero, one) = (scatter.means.row(0), scatter.means.row(1));
        let delta = &one - &zero;
        let axis = Array1::from(Cholesky::new(&scatter.shrunk())?.solve(&delta.to_vec())?);
        let eigenvalue = scatter.shares.product() * axis.dot(&delta);
        let threshold = axis.dot(&(&zero + &one)) / 2.0;
        Ok(TwoClass { first, second, eigenvalue, axis: axis / scatter.scale, threshold })
    }

    /// Share of the rows of the two classes that lie on the wrong side; other rows do not count.
    ///
    /// Fails: `Shape` unless the features are as wide as those of the fit, `Data` without a row of either class.
    /// Book: `foca/coadaptation.md#eq-foca-co-cantelli`.
    pub fn error(&self, features: &Features) -> Result<f64> {
        ensure_shape("features of a discriminant", self.axis.len(), features.d())?;
        let scores = features.z.dot(&self.axis);
        let of_pair = |class: u32| class == self.first || class == self.second;
        let rows = || features.y.iter().zip(&scores).filter(|(class, _)| of_pair(**class));
        let n = rows().count();
        if n == 0 {
            let why =
                format!("no row of class {} or {}; take a split that has both", self.first, self.second);
            return Err(Error::data("features", why));
        }
        let wrong =
            rows().filter(|(class, score)| (**score > self.threshold) != (**class == self.second)).count();
        Ok(wrong as f64 / n as f64)
    }

    /// The error that the eigenvalue stands for, if both classes were equally common and normal with one covariance.
    ///
    /// ```text
    /// Φ(−√μ)
    /// ```
    /// Book: `foca/coadaptation.md#eq-foca-co-error`, `#eq-foca-co-table`.
    pub fn implied_error(&self) -> f64 {
        normal_cdf(-self.eigenvalue.sqrt())
    }

    /// Shows the classes, the eigenvalue and the error that it stands for.
    pub fn evcxr_display(&self) {
        let TwoClass { first, second, eigenvalue, .. } = self;
        let implied = self.implied_error();
        let text =
            format!("classes {first} and {second}: eigenvalue {eigenvalue:.4}, implied error {implied:.3e}");
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// The two classes with the smallest two-class eigenvalue, the lower one first.
///
/// Cost: that of [`TwoClass::of`] for each pair. Fails: `Config` for a single class, `Data` if a class has no sample or
/// two classes are points. Checked by `tests/foca/lda.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let z = ndarray::array![[0.0], [0.2], [5.0], [5.2], [6.0], [6.2]];
/// assert_eq!(closest_pair(&Features::new(&z, &[0, 0, 1, 1, 2, 2], 3)?)?, (1, 2));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn closest_pair(features: &Features) -> Result<(u32, u32)> {
    // Names the class that has no sample, whichever it is.
    let classes = features.rows()?.counts().len() as u32;
    let mut closest = None;
    for first in 0..classes {
        for second in first + 1..classes {
            let mu = TwoClass::of(features, first, second)?.eigenvalue;
            if closest.is_none_or(|(least, _)| mu < least) {
                closest = Some((mu, (first, second)));
            }
        }
    }
    closest.map(|(_, pair)| pair).ok_or_else(|| too_few(features.classes))
}

/// Rows of two classes, relabelled 0 and 1.
fn pair(features: &Features, first: u32, second: u32) -> Result<Features> {
    let known = |class: u32| (class as usize) < features.classes;
    if first == second || !known(first) || !known(second) {
        let allowed = format!("two different classes below {}", features.classes);
        return Err(Error::config("pair of classes", format!("{first} and {second}"), allowed));
    }
    let of_pair = features.y.iter().enumerate().filter(|(_, class)| **class == first || **class == second);
    let mut both = features.take(&of_pair.map(|(row, _)| row).collect::<Vec<_>>())?;
    both.y.iter_mut().for_each(|class| *class = u32::from(*class == second));
    both.classes = 2;
    Ok(both)
}

fn too_few(classes: usize) -> Error {
    Error::config("classes of a discriminant", classes, "at least 2")
}

/// Means and covariances of features that were divided by `scale`.
struct Scatter {
    /// Root mean square of all entries.
    scale: f64,
    /// (classes, d) and (classes) Mean of each class and its share of the rows.
    means: Array2<f64>,
    shares: Array1<f64>,
    /// (d, d) Pooled covariance within classes: the mean over all rows.
    within: Array2<f64>,
}

impl Scatter {
    fn of(features: &Features) -> Result<Scatter> {
        let (n, d) = features.z.dim();
        if features.classes < 2 {
            return Err(too_few(features.classes));
        }
        let counts: Array1<f64> = features.rows()?.counts().into_iter().map(|count| count as f64).collect();
        let scale = root_mean_square(&features.z);
        // Features that are all zero have no scale, and fail below.
        let z = &features.z / if scale > 0.0 { scale } else { 1.0 };
        let members = features.one_hot();
        let means = members.t().dot(&z) / counts.view().insert_axis(Axis(1));
        let deviations = z - members.dot(&means);
        let within = deviations.t().dot(&deviations) / n as f64;
        if within.diag().sum() <= d as f64 * POINT * POINT {
            let why = "every class is one point, so nothing is left to compare distances with; take more rows, or \
                       features that vary within classes";
            return Err(Error::data("features", why));
        }
        Ok(Scatter { scale, means, shares: counts / n as f64, within })
    }

    /// S_W with a small multiple of the identity, so that a constant feature or one that repeats another does no harm.
    fn shrunk(&self) -> Array2<f64> {
        let mut shrunk = self.within.clone();
        let mean_variance = shrunk.diag().sum() / shrunk.nrows() as f64;
        shrunk.diag_mut().iter_mut().for_each(|v| *v += SHRINKAGE * mean_variance);
        shrunk
    }

    /// (classes, d) Class means less the mean of all rows, times the root of the shares: M' M = S_B.
    fn centres(&self) -> Array2<f64> {
        let from_mean = &self.means - &self.shares.dot(&self.means);
        from_mean * self.shares.mapv(f64::sqrt).insert_axis(Axis(1))
    }
}

/// Divides by the largest entry first, so that no square overflows.
fn root_mean_square(z: &Array2<f64>) -> f64 {
    let largest = z.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    if largest == 0.0 {
        return 0.0;
    }
    largest * (z.iter().map(|v| (v / largest).powi(2)).sum::<f64>() / z.len() as f64).sqrt()
}
