//! A linear head: what a weak classifier is.

use ndarray::{Array1, Array2, Axis};

use super::features::Features;
use crate::error::{Result, ensure_shape};

/// Scores s = Wᵀz + b, one per class; the largest decides.
///
/// Shapes: `w` (d, classes), `b` (classes). For two classes fitted to one-hot targets by least squares, the columns add
/// up to (0, 1), so the second alone is the scalar head of the paper's toy. Checked by `tests/foca/head.rs`.
/// Book: `foca/coadaptation.md#eq-foca-co-span`.
///
/// ```
/// use lastlayer::prelude::*;
/// let head = LinearHead { w: ndarray::array![[-1.0, 1.0]], b: ndarray::array![0.5, 0.0] };
/// let z = ndarray::array![[0.0], [1.0]];
/// assert_eq!(head.scores(&z)?, ndarray::array![[0.5, 0.0], [-0.5, 1.0]]);
/// assert_eq!(head.decide(&z)?, [0, 1]);
/// assert_eq!(head.accuracy(&Features::new(&z, &[0, 0], 2)?)?, 0.5);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
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

    /// The class of each row: that of the largest score, the first of equal ones. Fails: as [`scores`](LinearHead::scores).
    pub fn decide(&self, z: &Array2<f64>) -> Result<Vec<u32>> {
        let first_largest = |s: ndarray::ArrayView1<f64>| {
            s.iter()
                .enumerate()
                .fold((0, f64::NEG_INFINITY), |best, (c, s)| if *s > best.1 { (c, *s) } else { best })
                .0
        };
        Ok(self.scores(z)?.axis_iter(Axis(0)).map(|s| first_largest(s) as u32).collect())
    }

    /// Share of rows that are decided as their class. Fails: as [`scores`](LinearHead::scores).
    pub fn accuracy(&self, features: &Features) -> Result<f64> {
        let decided = self.decide(&features.z)?;
        let right = decided.iter().zip(&features.y).filter(|(decided, class)| decided == class).count();
        Ok(right as f64 / features.n() as f64)
    }

    /// The head of a single score that decides between two classes alike: the second column less the first.
    ///
    /// Fails: `Shape` unless there are two classes.
    pub fn single(&self) -> Result<LinearHead> {
        ensure_shape("classes of a head to be made single", 2, self.w.ncols())?;
        let w = (&self.w.column(1) - &self.w.column(0)).insert_axis(Axis(1));
        Ok(LinearHead { w, b: Array1::from_elem(1, self.b[1] - self.b[0]) })
    }

    /// Shows the shape.
    pub fn evcxr_display(&self) {
        let (d, classes) = self.w.dim();
        evcxr_runtime::mime_type("text/plain").text(format!("linear head, {d} features, {classes} classes"));
    }
}
