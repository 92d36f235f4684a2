//! The units in which a linear program is solved: rows of length about one, bounds and objective of size about one.

use super::certificate::Ray;
use super::matrix::Matrix;
use super::newton::Multipliers;
use super::program::{Lp, largest, product};

/// A linear program in its own units, and the way back.
///
/// ```text
/// a_j ← a_j / |a_j|,   b_j ← b_j / (|a_j| σ),   c ← c / γ,   z = σ y,   v_j = γ v̂_j / |a_j|
/// ```
/// Every unit is a power of two, so nothing is rounded. σ is the median of |b_j| / |a_j|, γ is max |c|.
/// Checked by `tests/lp/solve.rs::badly_scaled_rows_change_nothing`.
#[derive(Clone, Debug)]
pub(super) struct Scaled {
    pub lp: Lp,
    rows: Vec<f64>,
    rows_eq: Vec<f64>,
    z_unit: f64,
    c_unit: f64,
}

impl Scaled {
    pub fn new(lp: &Lp, detect: bool) -> Scaled {
        let mut lp = lp.clone();
        if detect {
            lp.A = lp.A.detect();
        }
        let divide = |matrix: &mut Matrix, bounds: &mut [f64]| {
            let units: Vec<f64> = matrix.row_sizes().into_iter().map(power_of_two).collect();
            matrix.divide_rows(&units);
            bounds.iter_mut().zip(&units).for_each(|(b, unit)| *b /= unit);
            units
        };
        let rows = divide(&mut lp.A, &mut lp.b);
        let rows_eq = divide(&mut lp.A_eq, &mut lp.b_eq);
        let mut sizes: Vec<f64> = lp.b.iter().chain(&lp.b_eq).map(|b| b.abs()).filter(|b| *b > 0.0).collect();
        sizes.sort_unstable_by(f64::total_cmp);
        let z_unit = sizes.get(sizes.len() / 2).copied().map_or(1.0, power_of_two);
        let c_unit = power_of_two(largest(&lp.c));
        lp.b.iter_mut().chain(&mut lp.b_eq).for_each(|b| *b /= z_unit);
        lp.c.iter_mut().for_each(|c| *c /= c_unit);
        Scaled { lp, rows, rows_eq, z_unit, c_unit }
    }

    /// The same rows with an objective of zero: any feasible point is optimal.
    pub fn without_objective(&self) -> Scaled {
        let lp = Lp { c: vec![0.0; self.lp.n()], ..self.lp.clone() };
        Scaled { lp, ..self.clone() }
    }

    pub fn z(&self, y: &[f64]) -> Vec<f64> {
        y.iter().map(|y| y * self.z_unit).collect()
    }

    /// cᵀz in the units of the program.
    pub fn value(&self, y: &[f64]) -> f64 {
        self.c_unit * self.z_unit * product(&self.lp.c, y)
    }

    pub fn multipliers(&self, scaled: &Multipliers) -> Multipliers {
        let back =
            |v: &[f64], units: &[f64]| v.iter().zip(units).map(|(v, unit)| self.c_unit * v / unit).collect();
        Multipliers { v: back(&scaled.v, &self.rows), v_eq: back(&scaled.v_eq, &self.rows_eq) }
    }

    /// The way in: a point and its multipliers in these units.
    pub fn scaled(&self, z: &[f64], given: &Multipliers) -> (Vec<f64>, Multipliers) {
        let inside =
            |v: &[f64], units: &[f64]| v.iter().zip(units).map(|(v, unit)| v * unit / self.c_unit).collect();
        let y = z.iter().map(|z| z / self.z_unit).collect();
        (y, Multipliers { v: inside(&given.v, &self.rows), v_eq: inside(&given.v_eq, &self.rows_eq) })
    }

    /// Weights of rows of length one as weights of the rows that were given.
    pub fn of_rows(&self, scaled: &Multipliers) -> Multipliers {
        let back = |v: &[f64], units: &[f64]| v.iter().zip(units).map(|(v, unit)| v / unit).collect();
        Multipliers { v: back(&scaled.v, &self.rows), v_eq: back(&scaled.v_eq, &self.rows_eq) }
    }

    pub fn farkas(&self, scaled: &Multipliers) -> Ray {
        let Multipliers { v, v_eq } = self.of_rows(scaled);
        Ray::Farkas { v, v_eq }
    }

    /// The first row without an entry that contradicts its bound, as multipliers that show it.
    pub fn contradiction(&self) -> Option<Multipliers> {
        let mut proof = Multipliers::none(&self.lp);
        let empty = |sizes: Vec<f64>| move |i: &usize| sizes[*i] == 0.0;
        let row = (0..self.lp.m()).filter(|i| self.lp.b[*i] < 0.0).find(empty(self.lp.A.row_sizes()));
        if let Some(i) = row {
            proof.v[i] = 1.0;
            return Some(proof);
        }
        let equal = 0..self.lp.b_eq.len();
        let row = equal.filter(|i| self.lp.b_eq[*i] != 0.0).find(empty(self.lp.A_eq.row_sizes()))?;
        proof.v_eq[row] = -self.lp.b_eq[row].signum();
        Some(proof)
    }
}

/// The power of two nearest to a positive number; one for zero.
fn power_of_two(x: f64) -> f64 {
    // Beyond these the inverse would not be finite.
    if x > 0.0 { x.log2().round().clamp(-1000.0, 1000.0).exp2() } else { 1.0 }
}
