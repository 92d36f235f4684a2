//! How far two heads are apart, measured by what they predict on given features.

use ndarray::{Array1, Array2, ArrayView1};

use crate::error::{Error, Result, ensure_shape};
use crate::linalg::symmetric_eigen;
use crate::probe::Features;
use crate::probe::LinearHead;

/// Whose labels the Fisher information of a softmax head is taken over.
///
/// ```text
/// Model      G = E_x E_{c ~ p(x)} g_c g_cᵀ       labels drawn from the head itself: the metric
/// Observed   G = E_{x, y} g_y g_yᵀ               labels of the data: the "empirical Fisher", for comparison
/// ```
/// with g_c the gradient of −ln p_c(x) in W and b.
/// Book: `foca/distances.md#eq-foca-dist-variance`, `#eq-foca-dist-observed`.
///
/// ```
/// use lastlayer::prelude::*;
/// let at = |b: f64| LinearHead { w: Array2::zeros((1, 2)), b: ndarray::array![0.0, b] };
/// let features = Features::new(&ndarray::array![[0.0], [0.0]], &[0, 1], 2)?;
/// let length = |fisher| fisher_length(&at(-0.1), &at(0.1), &features, 10, fisher);
/// // Heads that are about right: the labels of the data are like labels of the model.
/// let (model, observed) = (length(Fisher::Model)?, length(Fisher::Observed)?);
/// assert!((model - observed).abs() < 1e-3);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Fisher {
    Model,
    Observed,
}

/// Length of the straight line from one softmax head to another, in the Fisher metric on these features.
///
/// ```text
/// length = Σ_i √(Δᵀ G(θ_i) Δ),      Δ = (to − from) / P,      θ_i = from + (i + ½) Δ,      i = 0 … P − 1
/// Model      ΔᵀGΔ = E_x Var_{c ~ p(x)}(u_c)          u = Δᵀ(z, 1), what a segment adds to the scores
/// Observed   ΔᵀGΔ = E_{x, y} (Σ_c p_c u_c − u_y)²
/// ```
/// Zero if both predict the same on every row; unchanged if features and heads are transformed together. The line is
/// not the shortest path, so the length is an upper bound on the geodesic distance; [`prediction_distance`] is a lower
/// one. The scores are read as logits, so heads fitted by least squares are compared through the softmax of their
/// scores. The error of P segments falls like 1/P²; 10 are enough as a rule. Cost: O(n d C + P n C), no matrix. Fails:
/// `Shape` unless the heads have one shape and fit the features, `Config` for no segment, `Data` if a score is not finite
/// or, for `Observed`, a label is no class of the heads. Checked by `tests/foca/distances.rs`.
/// Book: `foca/distances.md#eq-foca-dist-length`, `#eq-foca-dist-midpoint`.
///
/// ```
/// use lastlayer::prelude::*;
/// let at = |b: f64| LinearHead { w: Array2::zeros((1, 2)), b: ndarray::array![0.0, b] };
/// let features = Features::new(&ndarray::array![[0.0]], &[0], 2)?;
/// // From p = 1/2 to p = 3/4 along the only line there is: 2 arcsin √¾ − 2 arcsin √½ = π/6.
/// let length = fisher_length(&at(0.0), &at(3f64.ln()), &features, 100, Fisher::Model)?;
/// assert!((length - std::f64::consts::PI / 6.0).abs() < 1e-5);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn fisher_length(
    from: &LinearHead,
    to: &LinearHead,
    features: &Features,
    segments: usize,
    fisher: Fisher,
) -> Result<f64> {
    let line = Line::new(from, to, features)?;
    at_least_one(segments)?;
    if fisher == Fisher::Observed {
        check_labels(features, from.b.len())?;
    }
    let speed = |i: usize| {
        let p = softmax(&line.scores((i as f64 + 0.5) / segments as f64));
        let rows = p.rows().into_iter().zip(line.change.rows()).zip(&features.y);
        let squares: f64 = match fisher {
            Fisher::Model => rows.map(|((p, u), _)| variance(p, u)).sum(),
            Fisher::Observed => rows.map(|((p, u), y)| (p.dot(&u) - u[*y as usize]).powi(2)).sum(),
        };
        (squares / features.n() as f64).sqrt()
    };
    finite((0..segments).map(speed).sum::<f64>() / segments as f64)
}

/// Distance of the predictions of two softmax heads, without a path: the least length that any path could have.
///
/// ```text
/// √ E_x (2 arccos Σ_c √(p_c(x) q_c(x)))²
/// ```
/// A metric on predictions, and a lower bound on every length in the Fisher metric of the model. Cost: O(n d C). Fails: as
/// [`fisher_length`]. Checked by `tests/foca/distances.rs`.
/// Book: `foca/distances.md#eq-foca-dist-sandwich`.
///
/// ```
/// use lastlayer::prelude::*;
/// let at = |b: f64| LinearHead { w: Array2::zeros((1, 2)), b: ndarray::array![0.0, b] };
/// let features = Features::new(&ndarray::array![[0.0]], &[0], 2)?;
/// let apart = prediction_distance(&at(0.0), &at(3f64.ln()), &features)?;
/// assert!((apart - std::f64::consts::PI / 6.0).abs() < 1e-12);
/// // A bias that all classes share changes no prediction.
/// let shifted = LinearHead { b: ndarray::array![5.0, 5.0], ..at(0.0) };
/// assert!(prediction_distance(&at(0.0), &shifted, &features)? < 1e-12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn prediction_distance(from: &LinearHead, to: &LinearHead, features: &Features) -> Result<f64> {
    let line = Line::new(from, to, features)?;
    let roots = |at: f64| softmax(&line.scores(at)).mapv(f64::sqrt);
    let apart = roots(1.0) - roots(0.0);
    // The angle from the chord: the arc cosine would lose half of the digits of a small one.
    let angle = |d: ArrayView1<f64>| 2.0 * (d.dot(&d).sqrt() / 2.0).min(1.0).asin();
    let squares: f64 = apart.rows().into_iter().map(|d| (2.0 * angle(d)).powi(2)).sum();
    finite((squares / features.n() as f64).sqrt())
}

/// An eigenvalue of Σ counts as zero below this share of the largest.
const RANK: f64 = 1e-12;

/// The "approximate geodesic distance" of the paper's equations 15 and 16 as printed, for comparison only.
///
/// ```text
/// √ Σ_{i=1}^{P−1} d(from, θ^{i+1})²,    d(from, θ)² = (from − θ)ᵀ Σ⁺ (from − θ),    θ^j = from + (j / P)(to − from)
/// ```
/// Differs: Σ, the empirical Fisher, is singular, so its inverse is read as the Moore-Penrose inverse, with eigenvalues
/// below 1e-12 of the largest taken as zero; the point where Σ is evaluated is not printed, and we take `from`. The value
/// grows like √(P/3), is not symmetric, changes with the scale of the features and, where Σ is nearly singular, with that
/// 1e-12. Use [`fisher_length`]. Cost: O(n m² + m³), m = (d + 1) C. Fails: as [`fisher_length`] with `Observed`.
/// Checked by `tests/foca/distances.rs`.
/// Book: `foca/distances.md#eq-foca-dist-diverges`, `#eq-foca-dist-inverse`.
///
/// ```
/// use lastlayer::prelude::*;
/// let at = |b: f64| LinearHead { w: Array2::zeros((1, 2)), b: ndarray::array![0.0, b] };
/// let features = Features::new(&ndarray::array![[0.0], [0.0]], &[0, 1], 2)?;
/// let length = |segments| printed_length(&at(0.0), &at(1.0), &features, segments);
/// // It grows with the number of segments: √((2² + 3² + 4²)/4²) for four, 1 for two.
/// assert!((length(4)? / length(2)? - (29.0f64 / 16.0).sqrt()).abs() < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn printed_length(
    from: &LinearHead,
    to: &LinearHead,
    features: &Features,
    segments: usize,
) -> Result<f64> {
    let line = Line::new(from, to, features)?;
    at_least_one(segments)?;
    check_labels(features, from.b.len())?;
    let gradients = gradients(&softmax(&line.start), features);
    let sigma = gradients.t().dot(&gradients) / features.n() as f64;
    let (values, vectors) = symmetric_eigen(&sigma)?;
    let along = vectors.t().dot(&(flat(to) - flat(from)));
    let least = RANK * values.last().copied().unwrap_or(0.0);
    let whole: f64 = values.iter().zip(&along).filter(|(v, _)| **v > least).map(|(v, a)| a * a / v).sum();
    let parts: f64 = (1..segments).map(|i| ((i + 1) as f64 / segments as f64).powi(2)).sum();
    finite((whole * parts).sqrt())
}

/// The scores of all rows along the straight line between two heads: they too move on a straight line.
struct Line {
    /// (n, C) Scores of the head where the line starts, and what the whole line adds to them.
    start: Array2<f64>,
    change: Array2<f64>,
}

impl Line {
    fn new(from: &LinearHead, to: &LinearHead, features: &Features) -> Result<Line> {
        ensure_shape("weights of two heads", from.w.shape(), to.w.shape())?;
        for head in [from, to] {
            ensure_shape("bias of a head", head.w.ncols(), head.b.len())?;
        }
        if features.n() == 0 || from.b.is_empty() {
            let got = format!("{} rows, {} classes", features.n(), from.b.len());
            return Err(Error::shape("features and heads", "at least one row and one class", got));
        }
        ensure_shape("labels of features", features.n(), features.y.len())?;
        let difference = LinearHead { w: &to.w - &from.w, b: &to.b - &from.b };
        let (start, change) = (from.scores(&features.z)?, difference.scores(&features.z)?);
        let infinite = |row: &usize| !(all_finite(start.row(*row)) && all_finite(change.row(*row)));
        if let Some(row) = (0..features.n()).find(infinite) {
            let why = format!("a score of row {row} is not finite; look at that row and at both heads");
            return Err(Error::data("heads and features", why));
        }
        Ok(Line { start, change })
    }

    /// Scores at this share of the line.
    fn scores(&self, share: f64) -> Array2<f64> {
        &self.start + &(&self.change * share)
    }
}

/// Var_{c ~ p}(u_c), from differences to the mean so that nothing cancels.
fn variance(p: ArrayView1<f64>, u: ArrayView1<f64>) -> f64 {
    let mean = p.dot(&u);
    p.iter().zip(u).map(|(p, u)| p * (u - mean).powi(2)).sum()
}

/// (n, C) Probabilities: the softmax of each row.
fn softmax(scores: &Array2<f64>) -> Array2<f64> {
    let mut p = scores.clone();
    for mut row in p.rows_mut() {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.mapv_inplace(|s| (s - largest).exp());
        row /= row.sum();
    }
    p
}

/// (n, (d + 1) C) Gradients of −ln p_y in W and b, one per row: the products of (z, 1) and p − e_y.
fn gradients(p: &Array2<f64>, features: &Features) -> Array2<f64> {
    let (n, classes) = p.dim();
    let mut residual = p.clone();
    residual.rows_mut().into_iter().zip(&features.y).for_each(|(mut row, y)| row[*y as usize] -= 1.0);
    let mut gradients = Array2::zeros((n, (features.d() + 1) * classes));
    let rows = gradients.rows_mut().into_iter().zip(residual.rows()).zip(features.z.rows());
    for ((mut row, residual), z) in rows {
        let products = z.iter().chain(&[1.0]).flat_map(|z| residual.iter().map(move |r| z * r));
        row.iter_mut().zip(products).for_each(|(entry, product)| *entry = product);
    }
    gradients
}

/// W row by row, then b: the order of [`gradients`].
fn flat(head: &LinearHead) -> Array1<f64> {
    head.w.iter().chain(&head.b).copied().collect()
}

fn at_least_one(segments: usize) -> Result<()> {
    match segments {
        0 => Err(Error::config("segments", 0, "at least 1, such as 10")),
        _ => Ok(()),
    }
}

fn check_labels(features: &Features, classes: usize) -> Result<()> {
    match features.y.iter().find(|y| **y as usize >= classes) {
        None => Ok(()),
        Some(y) => {
            Err(Error::data("features", format!("label {y} is none of the {classes} classes of the heads")))
        }
    }
}

fn all_finite(row: ArrayView1<f64>) -> bool {
    row.iter().all(|v| v.is_finite())
}

fn finite(length: f64) -> Result<f64> {
    if length.is_finite() {
        return Ok(length);
    }
    Err(Error::data("heads and features", "the length is not finite; the scores are too large to be squared"))
}
