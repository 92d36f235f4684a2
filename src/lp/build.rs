//! Metrics as linear programs. Host: scores, labels and weights of samples.

use ndarray::Array2;

use super::losses::{
    Classes, chances, class_pairs, finite, margin_of_scores, members, positives, recall_weight, share, table,
};
use super::matrix::Matrix;
use super::program::Lp;
use super::structured::{Row, Structured};
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::AsF64;

/// A row with one entry, and nothing in shared columns.
fn thin(column: usize, value: f64, shared: Vec<f64>) -> Row {
    Row::Thin { own: Some((column, value)), shared }
}

/// min Σ weight z subject to z ≥ margin − d, z ≥ 0, for pairs d with a weight each.
fn of_pairs(distances: &[f64], weights: &[f64], margin: f64) -> Result<Lp> {
    let n = distances.len();
    let rows = (0..n).chain(0..n).map(|j| thin(j, -1.0, Vec::new())).collect();
    let A = Matrix::Structured(Structured::new(n, Vec::new(), rows)?);
    let b: Vec<f64> = distances.iter().map(|d| d - margin).chain(std::iter::repeat_n(0.0, n)).collect();
    Lp::new(A, &b, weights)
}

impl Lp {
    /// The AUC program of two classes; its optimum is the mean hinge over pairs.
    ///
    /// ```text
    /// min (1/N) Σ z_ij   subject to   −z_ij ≤ s_i − s_j − margin,   −z_ij ≤ 0             [Meng et al., Eq. (1)]
    /// ```
    /// z_ij in the order of positives, then negatives. The exact AUC is at least the share of z = 0.
    /// Differs: printed with n for the number of pairs N. Shapes: `s` (n), `y` (n) → N variables, 2N rows, A diagonal.
    /// Fails: as [`auc_loss`](super::auc_loss). Checked by `tests/lp/losses.rs::auc_equals_its_linear_program`.
    /// Book: `lp/metrics.md#eq-lp-metrics-auc`, `#eq-lp-metrics-readouts`.
    pub fn auc(s: impl AsF64, y: impl AsF64, margin: f64) -> Result<Lp> {
        let s = &s.numbers()?[..];
        finite("scores", s)?;
        margin_of_scores(margin)?;
        let Classes { positive, negative } = Classes::new(s.len(), &y)?;
        let pairs = positive.iter().flat_map(|i| negative.iter().map(move |j| s[*i] - s[*j]));
        let distances: Vec<f64> = pairs.collect();
        of_pairs(&distances, &vec![1.0 / distances.len() as f64; distances.len()], margin)
    }

    /// The AUC_μ program of several classes, for any partition matrix; `None` is ones off the diagonal.
    ///
    /// ```text
    /// min Σ_{k<l} 2/(K(K−1) n_k n_l) Σ_ij z_ij   subject to   O_ij ≥ margin − z_ij,   z ≥ 0
    /// ```
    /// Differs: Eq. (2) has the opposite sign and no 1/(n_k n_l). Shapes: `s` (n, K), `y` (n). Fails: as
    /// [`auc_mu_loss`](super::auc_mu_loss). Checked by `tests/lp/losses.rs::auc_mu_equals_its_linear_program`.
    /// Book: `lp/metrics.md#eq-lp-metrics-mu`.
    pub fn auc_mu(s: impl AsF64, y: impl AsF64, partition: Option<&Array2<f64>>, margin: f64) -> Result<Lp> {
        margin_of_scores(margin)?;
        let s = &table(&s)?;
        let (mut distances, mut weights) = (Vec::new(), Vec::new());
        for pair in class_pairs(s, &y, partition)? {
            let count = pair.first.len() * pair.second.len();
            for i in &pair.first {
                let at = pair.project(s, *i);
                distances.extend(pair.second.iter().map(|j| at - pair.project(s, *j)));
            }
            weights.extend(std::iter::repeat_n(pair.weight / count as f64, count));
        }
        of_pairs(&distances, &weights, margin)
    }

    /// The AUC program of each class against the rest, side by side, each with weight 1/K.
    ///
    /// Shapes: `s` (n, K), `y` (n). Fails: as [`auc_mu_loss`](super::auc_mu_loss).
    /// Checked by `tests/lp/losses.rs::one_vs_all_equals_its_linear_program`.
    pub fn auc_one_vs_all(s: impl AsF64, y: impl AsF64, margin: f64) -> Result<Lp> {
        margin_of_scores(margin)?;
        let s = &table(&s)?;
        let members = members(s, &y)?;
        let (mut distances, mut weights) = (Vec::new(), Vec::new());
        for (k, own) in members.iter().enumerate() {
            let before = distances.len();
            let rest = || members.iter().enumerate().filter(|(l, _)| *l != k).flat_map(|(_, m)| m);
            own.iter().for_each(|i| distances.extend(rest().map(|j| s[[*i, k]] - s[[*j, k]])));
            let count = distances.len() - before;
            weights.extend(std::iter::repeat_n(1.0 / (count * members.len()) as f64, count));
        }
        of_pairs(&distances, &weights, margin)
    }

    /// The F program of training: soft decisions r bound what may be counted. The optimum is −F.
    ///
    /// ```text
    /// max (1 + β²) yᵀu   subject to   1ᵀu + β²n₊ t = 1,   u_i ≤ r_i t (y=1),   u_j ≥ r_j t (y=0),   0 ≤ u ≤ t
    /// ```
    /// Charnes and Cooper's form of the ratio, with h = u/t; the last variable is t. Here A depends on the network and
    /// b, c do not. Shapes: `r` (n) in [0, 1], `y` (n) → n + 1 variables, 3n + 1 rows. Fails: `Data` without a positive
    /// or for an r outside [0, 1]. Checked by `tests/lp/losses.rs::f_loss_equals_its_linear_program`.
    /// Book: `lp/metrics.md#eq-lp-metrics-f`.
    pub fn f_train(r: impl AsF64, y: impl AsF64, beta: f64) -> Result<Lp> {
        let r = &r.numbers()?[..];
        finite("soft decisions", r)?;
        if let Some(i) = r.iter().position(|r| !(0.0..=1.0).contains(r)) {
            let why =
                format!("entry {i} is {}; a link such as FLink::Sigmoid brings scores into 0 to 1", r[i]);
            return Err(Error::data("soft decisions", why));
        }
        let weight = recall_weight(beta)?;
        let classes = Classes::any(r.len(), &y)?;
        positives(&classes)?;
        let mut gains = vec![0.0; r.len()];
        classes.positive.iter().for_each(|i| gains[*i] = 1.0);
        let link = |(i, r): (usize, &f64)| match gains[i] {
            1.0 => thin(i, 1.0, vec![-r]),
            _ => thin(i, -1.0, vec![*r]),
        };
        let rows = r.iter().enumerate().map(link).collect();
        ratio(rows, &gains, weight * classes.positive.len() as f64, 1.0 + weight)
    }

    /// The F program of a decision: η are chances of a positive. The optimum is −F.
    ///
    /// ```text
    /// max (1 + β²) ηᵀu   subject to   1ᵀu + β² Σ η t = 1,   0 ≤ u ≤ t
    /// ```
    /// Shapes: `eta` (n) → n + 1 variables, 2n + 1 rows. Fails: as [`f_decide`](super::f_decide).
    /// Checked by `tests/lp/losses.rs::f_decide_equals_its_linear_program`.
    /// Book: `lp/metrics.md#eq-lp-metrics-f-infer`.
    pub fn f_infer(eta: impl AsF64, beta: f64) -> Result<Lp> {
        let eta = &eta.numbers()?[..];
        chances(eta)?;
        let weight = recall_weight(beta)?;
        ratio(Vec::new(), eta, weight * eta.iter().sum::<f64>(), 1.0 + weight)
    }

    /// The Neyman–Pearson program: least mean hinge of negatives with a budget for positives.
    ///
    /// ```text
    /// min (1/n₋) Σ ξ   subject to   ξ_j ≥ margin + s_j − t,   ζ_i ≥ margin − s_i + t,   ξ, ζ ≥ 0,
    ///                               (1/n₊) Σ ζ ≤ 1 − recall
    /// ```
    /// Variables: ξ of the negatives, ζ of the positives, the threshold t. Fails: as
    /// [`precision_at_recall`](super::precision_at_recall).
    /// Checked by `tests/lp/losses.rs::neyman_pearson_equals_its_linear_program`.
    /// Book: `lp/metrics.md#eq-lp-metrics-np`.
    pub fn precision_at_recall(s: impl AsF64, y: impl AsF64, recall: f64, margin: f64) -> Result<Lp> {
        let s = &s.numbers()?[..];
        share("recall", recall)?;
        let classes = hinges(s, &y, margin)?;
        let (p, q) = (classes.positive.len(), classes.negative.len());
        let budget =
            Row::Full((0..q + p + 1).map(|k| f64::from(u8::from(k >= q && k < q + p)) / p as f64).collect());
        let c: Vec<f64> = (0..q + p + 1).map(|k| f64::from(u8::from(k < q)) / q as f64).collect();
        thresholded(s, &classes, margin, (budget, 1.0 - recall), &c)
    }

    /// The program of recall at precision: least mean hinge of positives at a given precision π.
    ///
    /// ```text
    /// min (1/n₊) Σ ζ   subject to   rows as above,   (1 − π)(n₊ − Σ ζ) ≥ π Σ ξ
    /// ```
    /// May be infeasible: no threshold then has the precision, counted in hinges. Fails: `Config` for a precision
    /// outside [0, 1], else as [`precision_at_recall`](super::precision_at_recall).
    /// Checked by `tests/lp/losses.rs::recall_at_precision_equals_its_linear_program`.
    /// Book: `lp/metrics.md#eq-lp-metrics-rp`.
    pub fn recall_at_precision(s: impl AsF64, y: impl AsF64, precision: f64, margin: f64) -> Result<Lp> {
        let s = &s.numbers()?[..];
        share("precision", precision)?;
        let classes = hinges(s, &y, margin)?;
        let (p, q) = (classes.positive.len(), classes.negative.len());
        let entry = |k: usize| match k {
            k if k < q => precision,
            k if k < q + p => 1.0 - precision,
            _ => 0.0,
        };
        let budget = Row::Full((0..q + p + 1).map(entry).collect());
        let c: Vec<f64> =
            (0..q + p + 1).map(|k| f64::from(u8::from(k >= q && k < q + p)) / p as f64).collect();
        thresholded(s, &classes, margin, (budget, (1.0 - precision) * p as f64), &c)
    }
}

/// max scale · gainsᵀu subject to 1ᵀu + floor · t = 1, the given rows, 0 ≤ u ≤ t; t is the last variable.
fn ratio(mut rows: Vec<Row>, gains: &[f64], floor: f64, scale: f64) -> Result<Lp> {
    let n = gains.len();
    rows.extend((0..n).map(|i| thin(i, 1.0, vec![-1.0])));
    rows.extend((0..n).map(|i| thin(i, -1.0, vec![0.0])));
    rows.push(Row::Thin { own: None, shared: vec![-1.0] });
    let b = vec![0.0; rows.len()];
    let c: Vec<f64> = gains.iter().map(|g| -scale * g).chain([0.0]).collect();
    let sum = Array2::from_shape_fn((1, n + 1), |(_, j)| if j < n { 1.0 } else { floor });
    let A = Matrix::Structured(Structured::new(n + 1, vec![n], rows)?);
    Lp::new(A, &b, &c)?.with_equalities(Matrix::Dense(sum), &[1.0])
}

fn hinges(s: &[f64], y: &impl AsF64, margin: f64) -> Result<Classes> {
    finite("scores", s)?;
    margin_of_scores(margin)?;
    Classes::new(s.len(), y)
}

/// Hinges of negatives above and of positives below a free threshold, with one budget row; all not negative.
fn thresholded(s: &[f64], classes: &Classes, margin: f64, budget: (Row, f64), c: &[f64]) -> Result<Lp> {
    let (p, q) = (classes.positive.len(), classes.negative.len());
    ensure_shape("objective of hinges", p + q + 1, c.len())?;
    let mut rows: Vec<Row> = (0..q).map(|j| thin(j, -1.0, vec![-1.0])).collect();
    rows.extend((q..q + p).map(|i| thin(i, -1.0, vec![1.0])));
    rows.push(budget.0);
    rows.extend((0..q + p).map(|k| thin(k, -1.0, vec![0.0])));
    let negatives = classes.negative.iter().map(|j| -(margin + s[*j]));
    let positives = classes.positive.iter().map(|i| s[*i] - margin);
    let b: Vec<f64> =
        negatives.chain(positives).chain([budget.1]).chain(std::iter::repeat_n(0.0, q + p)).collect();
    Lp::new(Matrix::Structured(Structured::new(q + p + 1, vec![q + p], rows)?), &b, c)
}
