//! A linear head: what a weak classifier is.

use ndarray::{Array1, Array2, Axis};

use super::features::Features;
use crate::error::{Result, ensure_shape};

/// Scores s = Wᵀz + b, one per class; the largest decides.
///
/// Shapes: `w` (d, classes), `b` (classes). For two classes fitted to one-hot targets by least squares, the columns add
/// up to (0, 1), so the second alone is the scalar head of the paper's toy. Checked by `tests/foca/head.rs`.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearHead {
    pub w: Array2<f64>,
    pub b: Array1<f64>,
}

impl LinearHead {
    /// (n, classes) Scores of features (n, d). Fails: `Shape` unless the widths agree.
    pub fn scores(&self, z: &Array2<f64>) -> Result<Array2<f64>> {
        ensure_shape("features under a head", self.w.nrows(), z.ncols())?;
        Ok(z.dot(&self.w) + &self.b)
    }

    /// The class of each row: that of the largest score, the first of equal ones.
    pub fn decide(&self, z: &Array2<f64>) -> Result<Vec<u32>> {
        let first_largest = |s: ndarray::ArrayView1<f64>| {
            s.iter()
                .enumerate()
                .fold((0, f64::NEG_INFINITY), |best, (c, s)| if *s > best.1 { (c, *s) } else { best })
                .0
        };
        Ok(self.scores(z)?.axis_iter(Axis(0)).map(|s| first_largest(s) as u32).collect())
    }

    /// Share of rows that are decided as their class.
    pub fn accuracy(&self, features: &Features) -> Result<f64> {
        let decided = self.decide(&features.z)?;
        let right = decided.iter().zip(&features.y).filter(|(decided, class)| decided == class).count();
        Ok(right as f64 / features.n() as f64)
    }

    /// Shows the shape.
    pub fn evcxr_display(&self) {
        let (d, classes) = self.w.dim();
        evcxr_runtime::mime_type("text/plain").text(format!("linear head, {d} features, {classes} classes"));
    }
}
