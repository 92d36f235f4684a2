//! Does the correlation of two labels foretell what training them together does? Figure 3 of the paper.

use super::transfer::Transfer;
use crate::distribution::normal_quantile;
use crate::error::{Error, Result, ensure_shape};
use crate::metrics::{Estimate, phi};
use crate::numbers::AsF64;
use crate::table::{Cell, Table};

/// A directed pair: how the labels are correlated, and how the accuracy of `a` changes when it is trained with `b`.
///
/// ```
/// use lastlayer::prelude::*;
/// let mut transfer = Transfer::new(&["a", "b", "c"])?;
/// (0..3).try_for_each(|attribute| transfer.single(attribute, 1, 0.8))?;
/// transfer.pair(0, 1, 1, 0.84, 0.8)?;
/// transfer.pair(0, 2, 1, 0.78, 0.78)?;
/// let labels = ndarray::array![[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]];
/// let cloud = adversary::scatter(&labels, &transfer)?;
/// let first = cloud.points[0];
/// assert_eq!((first.a, first.b), (0, 1));
/// assert!((first.change - 5.0).abs() < 1e-9); // from 80 % to 84 %
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The attribute whose accuracy is measured.
    pub a: usize,
    /// Its partner.
    pub b: usize,
    /// Pearson's correlation of the two 0/1 labels.
    pub phi: f64,
    /// 100 (acc(a|b) − acc(a)) / acc(a).
    pub change: f64,
}

impl Point {
    /// Shows both coordinates.
    pub fn evcxr_display(&self) {
        let text = format!("({}, {}): phi {:.3}, change {:.3} %", self.a, self.b, self.phi, self.change);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// All directed pairs as points, and the correlation of the cloud.
///
/// Checked by `tests/adversary/correlation.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let mut transfer = Transfer::new(&["a", "b", "c"])?;
/// (0..3).try_for_each(|attribute| transfer.single(attribute, 1, 0.8))?;
/// transfer.pair(0, 1, 1, 0.82, 0.82)?; // a and b agree, and help each other
/// transfer.pair(0, 2, 1, 0.78, 0.78)?; // c is the opposite of a
/// let labels = ndarray::array![[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]];
/// let cloud = adversary::scatter(&labels, &transfer)?;
/// assert_eq!(cloud.points.len(), 4); // both directions of both pairs
/// assert!((cloud.r.value - 1.0).abs() < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    /// One point for each directed pair that was run.
    pub points: Vec<Point>,
    /// Pearson's correlation of `phi` and `change`, with Fisher's 95 % interval.
    pub r: Estimate,
}

impl Scatter {
    /// Shows the number of points and their correlation.
    pub fn evcxr_display(&self) {
        let rows = vec![
            ("directed pairs".to_string(), Cell::from(self.points.len())),
            ("correlation".to_string(), Cell::from(self.r)),
        ];
        Table::pairs("scatter", "value", rows).evcxr_display();
    }
}

/// Correlation of labels against relative change of accuracy, over all directed pairs that were run.
///
/// ```text
/// r = Pearson(phi(a, b), 100 (acc(a|b) − acc(a)) / acc(a)),    tanh(artanh r ± 1.96 / √(n − 3))
/// ```
/// phi(a, b) = phi(b, a), so two points share one abscissa, and points of a row share one single run: the interval, which
/// takes n points as independent, is too short if anything. Shapes: `labels` (rows, M), each 0 or 1. Cost: O(M² rows).
/// Fails: `Shape` unless the labels have one column per attribute and at least four points were run, `Config` for a label
/// that is not 0 or 1 or never changes, an accuracy of 0 alone, or points that all have one coordinate in common.
/// Checked by `tests/adversary/correlation.rs`.
/// Book: `adversary/noise.md#eq-adv-noise-scatter`.
///
/// ```
/// use lastlayer::prelude::*;
/// let mut transfer = Transfer::new(&["a", "b"])?;
/// (0..2).try_for_each(|attribute| transfer.single(attribute, 1, 0.8))?;
/// transfer.pair(0, 1, 1, 0.82, 0.79)?;
/// // Two points are too few for an interval.
/// let labels = ndarray::array![[1, 1], [1, 0], [0, 0], [0, 1]];
/// assert!(adversary::scatter(&labels, &transfer).is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn scatter(labels: impl AsF64, transfer: &Transfer) -> Result<Scatter> {
    let columns = columns(&labels, transfer.names().len())?;
    let mut points = Vec::new();
    for a in 0..columns.len() {
        for b in (0..columns.len()).filter(|b| *b != a) {
            if let Some(change) = transfer.relative_change(a, b)? {
                points.push(Point { a, b, phi: phi(&columns[a], &columns[b])?, change });
            }
        }
    }
    let r = correlation(&points)?;
    Ok(Scatter { points, r })
}

/// The labels of each attribute. Host: all of them.
fn columns(labels: &impl AsF64, attributes: usize) -> Result<Vec<Vec<f64>>> {
    let dims = labels.sizes();
    ensure_shape("dimensions of labels (rows, attributes)", 2, dims.len())?;
    ensure_shape("columns of labels (one per attribute)", attributes, dims[1])?;
    let values = labels.numbers()?;
    let column = |a: usize| values.iter().skip(a).step_by(attributes).copied().collect();
    Ok((0..attributes).map(column).collect())
}

/// Pearson's correlation of the cloud with Fisher's interval.
fn correlation(points: &[Point]) -> Result<Estimate> {
    let n = points.len() as f64;
    if points.len() < 4 {
        let expected = "at least 4 directed pairs that were run, or there is no interval";
        return Err(Error::shape("points of a scatter", expected, points.len()));
    }
    let mean = |of: fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x_mean, y_mean) = (mean(|p| p.phi), mean(|p| p.change));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|p| of(p.phi - x_mean, p.change - y_mean)).sum()
    };
    let (xx, yy, xy) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
    if xx == 0.0 || yy == 0.0 {
        let allowed = "points that differ in both coordinates, or there is no correlation";
        return Err(Error::config("points of a scatter", "all on one line", allowed));
    }
    let r = (xy / (xx.sqrt() * yy.sqrt())).clamp(-1.0, 1.0);
    let (level, z) = (0.95, libm::atanh(r));
    let half = normal_quantile(0.975)? / (n - 3.0).sqrt();
    Ok(Estimate { value: r, low: libm::tanh(z - half), high: libm::tanh(z + half), level })
}
