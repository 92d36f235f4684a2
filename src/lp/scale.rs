//! The units in which a linear program is solved: rows, columns, bounds and objective of size about one.

use std::sync::Arc;

use super::certificate::Ray;
use super::matrix::Matrix;
use super::penalty::Multipliers;
use super::program::{Lp, largest, length, product};

/// A linear program in its own units, and the way back.
///
/// ```text
/// a_jk ← a_jk s_k / ρ_j,   b_j ← b_j / (ρ_j σ),   c_k ← c_k s_k / γ,   z_k = σ s_k y_k,   v_j = γ v̂_j / ρ_j
/// ```
/// s makes the entries of columns alike where they are far from it, then ρ brings rows to length one. σ is the median of
/// |b_j|, γ is max |c_k|. Every unit is a power of two, so nothing is rounded.
/// Checked by `tests/lp/solve.rs::badly_scaled_rows_change_nothing`.
#[derive(Clone, Debug)]
pub(super) struct Scaled {
    pub lp: Arc<Lp>,
    rows: Vec<f64>,
    rows_eq: Vec<f64>,
    columns: Vec<f64>,
    z_unit: f64,
    c_unit: f64,
}

/// Columns within this factor of the usual size are left as they are.
const FINE: f64 = 8.0;

/// The inverse of a larger power of two would not be finite.
const MOST_BITS: f64 = 1000.0;

/// Rounds of averaging over rows and columns in turn.
const ROUNDS: usize = 4;

impl Scaled {
    pub fn new(lp: &Lp, detect: bool) -> Scaled {
        let mut lp = lp.clone();
        if detect {
            lp.A = lp.A.detect();
        }
        let columns = column_units(&lp);
        if columns.iter().any(|unit| *unit != 1.0) {
            lp.A.multiply_columns(&columns);
            lp.A_eq.multiply_columns(&columns);
            lp.c.iter_mut().zip(&columns).for_each(|(c, unit)| *c *= unit);
        }
        let divide = |matrix: &mut Matrix, bounds: &mut [f64]| {
            let units: Vec<f64> = matrix.row_sizes().into_iter().map(power_of_two).collect();
            if units.iter().any(|unit| *unit != 1.0) {
                matrix.divide_rows(&units);
                bounds.iter_mut().zip(&units).for_each(|(b, unit)| *b /= unit);
            }
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
        Scaled { lp: Arc::new(lp), rows, rows_eq, columns, z_unit, c_unit }
    }

    /// These rows with an objective of zero: any feasible point is optimal.
    pub fn without_objective(&self) -> Scaled {
        let lp = Lp { c: vec![0.0; self.lp.n()], ..(*self.lp).clone() };
        Scaled { lp: Arc::new(lp), ..self.clone() }
    }

    pub fn z(&self, y: &[f64]) -> Vec<f64> {
        y.iter().zip(&self.columns).map(|(y, unit)| y * unit * self.z_unit).collect()
    }

    /// A direction in the units of the program, at length one.
    pub fn direction(&self, d: &[f64]) -> Vec<f64> {
        let d: Vec<f64> = d.iter().zip(&self.columns).map(|(d, unit)| d * unit).collect();
        let size = length(&d);
        d.into_iter().map(|d| d / size).collect()
    }

    /// A gradient in z as a gradient in the columns of the scaled matrix.
    pub fn of_columns(&self, z_bar: &[f64]) -> Vec<f64> {
        z_bar.iter().zip(&self.columns).map(|(z, unit)| z * unit).collect()
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
        let y = z.iter().zip(&self.columns).map(|(z, unit)| z / (unit * self.z_unit)).collect();
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
        let row = (0..self.lp.m()).find(|i| self.lp.b[*i] < 0.0 && self.lp.A.row_is_empty(*i));
        if let Some(i) = row {
            proof.v[i] = 1.0;
            return Some(proof);
        }
        let mut equal = 0..self.lp.b_eq.len();
        let row = equal.find(|i| self.lp.b_eq[*i] != 0.0 && self.lp.A_eq.row_is_empty(*i))?;
        proof.v_eq[row] = -self.lp.b_eq[row].signum();
        Some(proof)
    }
}

/// Powers of two that make the entries of all columns alike, whatever the sizes of the rows.
///
/// ```text
/// ln|a_jk| ≈ ρ_j − ln s_k,   least squares over the entries that are not zero, by averaging in turn
/// ```
fn column_units(lp: &Lp) -> Vec<f64> {
    let (m, n) = (lp.m() + lp.b_eq.len(), lp.n());
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    for matrix in [&lp.A, &lp.A_eq] {
        let mut look = |v: f64| {
            if v != 0.0 {
                (least, most) = (least.min(v.abs()), most.max(v.abs()));
            }
        };
        match matrix {
            Matrix::Dense(a) => a.iter().for_each(|v| look(*v)),
            Matrix::Structured(_) => matrix.each(|_, _, v| look(v)),
        }
    }
    if most <= FINE * least {
        return vec![1.0; n];
    }
    let mut entries: Vec<(usize, usize, f64)> = Vec::new();
    lp.A.each(|i, j, v| entries.push((i, j, v.abs().log2())));
    lp.A_eq.each(|i, j, v| entries.push((lp.m() + i, j, v.abs().log2())));
    let mut columns = vec![0.0; n];
    let mean = |size: usize, terms: &mut dyn Iterator<Item = (usize, f64)>| {
        let (mut sums, mut counts) = (vec![0.0; size], vec![0.0f64; size]);
        terms.for_each(|(k, v)| (sums[k], counts[k]) = (sums[k] + v, counts[k] + 1.0));
        sums.iter().zip(&counts).map(|(sum, count)| sum / count.max(1.0)).collect::<Vec<f64>>()
    };
    for _ in 0..ROUNDS {
        let rows = mean(m, &mut entries.iter().map(|(i, j, v)| (*i, v - columns[*j])));
        columns = mean(n, &mut entries.iter().map(|(i, j, v)| (*j, v - rows[*i])));
    }
    let mut sorted = columns.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let usual = sorted[n / 2];
    let unit = |size: f64| match usual - size {
        off if off.abs() < FINE.log2() => 1.0,
        off => off.round().clamp(-MOST_BITS, MOST_BITS).exp2(),
    };
    columns.into_iter().map(unit).collect()
}

/// The power of two nearest to a positive number; one for zero.
fn power_of_two(x: f64) -> f64 {
    if x > 0.0 { x.log2().round().clamp(-MOST_BITS, MOST_BITS).exp2() } else { 1.0 }
}
