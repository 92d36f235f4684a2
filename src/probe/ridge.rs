//! Ridge regression in closed form, with its adjoint.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use super::features::Features;
use super::head::LinearHead;
use crate::error::{Error, Result};
use crate::linalg::Cholesky;

/// What the adjoint needs of a fit.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// (n, d) Features less their mean.
    zc: Array2<f64>,
    mean: Array1<f64>,
    y: Vec<u32>,
    /// Of Zcᵀ Zc + λ I if there are more rows than features, of K = Zc Zcᵀ + λ I + γ 1 1ᵀ if not.
    factor: Cholesky,
    /// (n, classes) A = K⁻¹ Tc, in the dual form.
    dual: Option<Array2<f64>>,
}

/// W and b that minimise Σ ‖Wᵀz + b − t‖² + λ‖W‖².
///
/// ```text
/// primal, n > d:   W = (Zcᵀ Zc + λ I)⁻¹ Zcᵀ T           O(n d² + d³)
/// dual,   n ≤ d:   W = Zcᵀ A,   A = K⁻¹ Tc              O(n² d + n³)
/// b = t̄ − Wᵀ z̄
/// ```
/// The columns of Zc add up to zero, so that Zcᵀ T = Zcᵀ Tc, the sums of the classes.
pub(super) fn fit(features: &Features, weight: f64) -> Result<(LinearHead, State)> {
    let (n, d) = features.z.dim();
    let mean = features.z.sum_axis(Axis(0)) / n as f64;
    let zc = &features.z - &mean;
    let primal = n > d;
    let mut gram = if primal { gram(zc.t()) } else { gram(zc.view()) };
    gram.diag_mut().iter_mut().for_each(|v| *v += weight);
    let trace = gram.diag().sum();
    if !primal {
        // The columns of Zc and Tc add up to zero, so Zc Zcᵀ vanishes along 1 and nothing is ever asked there: γ 1 1ᵀ
        // changes no result, and K is as far from singular as the rows are from dependent.
        gram += (trace / (n * n) as f64).max(f64::MIN_POSITIVE);
    }
    let factor = Cholesky::above(gram, f64::EPSILON * trace)
        .map_err(|pivot| not_definite(&mean, trace, (n, d), pivot))?;
    let frequencies = frequencies(&features.y, features.classes);
    let dual = match primal {
        true => None,
        false => Some(factor.solve_matrix(&centred_targets(&features.y, &frequencies))?),
    };
    let w = match &dual {
        None => factor.solve_matrix(&class_sums(&zc, &features.y, features.classes))?,
        Some(a) => zc.t().dot(a),
    };
    let b = frequencies - mean.dot(&w);
    let state = State { zc, mean, y: features.y.clone(), factor, dual };
    Ok((LinearHead { w, b }, state))
}

impl State {
    /// ```text
    /// W̄ₜ = W̄ − z̄ b̄ᵀ,   Z̄ = what follows − (1/n) 1 (W b̄)ᵀ
    /// primal:   Y = (Zcᵀ Zc + λ I)⁻¹ W̄ₜ,   R = Tc − Zc W        R Yᵀ − Zc Y Wᵀ
    /// dual:     B = K⁻¹ Zc W̄ₜ,   A = K⁻¹ Tc                      A (W̄ₜ − Zcᵀ B)ᵀ − B Wᵀ
    /// ```
    /// The columns of both add up to zero. R = λ A and Zc Y = B, so the dual form divides by no λ.
    pub(super) fn adjoint(
        &self,
        head: &LinearHead,
        w_bar: &Array2<f64>,
        b_bar: &Array1<f64>,
    ) -> Result<Array2<f64>> {
        let column = |v: &Array1<f64>| v.clone().insert_axis(Axis(1));
        let row = |v: &Array1<f64>| v.clone().insert_axis(Axis(0));
        let total = w_bar - &column(&self.mean).dot(&row(b_bar));
        let centred = match &self.dual {
            None => {
                let y = self.factor.solve_matrix(&total)?;
                let targets = centred_targets(&self.y, &frequencies(&self.y, head.b.len()));
                let residual = targets - self.zc.dot(&head.w);
                residual.dot(&y.t()) - self.zc.dot(&y).dot(&head.w.t())
            }
            Some(a) => {
                let b = self.factor.solve_matrix(&self.zc.dot(&total))?;
                a.dot(&(total - self.zc.t().dot(&b)).t()) - b.dot(&head.w.t())
            }
        };
        Ok(centred - &(head.w.dot(b_bar) / self.zc.nrows() as f64))
    }
}

/// (classes) Share of each class: the mean of the one-hot targets.
fn frequencies(y: &[u32], classes: usize) -> Array1<f64> {
    let mut counts = Array1::zeros(classes);
    y.iter().for_each(|class| counts[*class as usize] += 1.0);
    counts / y.len() as f64
}

/// (n, classes) One-hot targets less their mean.
fn centred_targets(y: &[u32], frequencies: &Array1<f64>) -> Array2<f64> {
    Array2::from_shape_fn((y.len(), frequencies.len()), |(row, class)| {
        f64::from(u8::from(y[row] as usize == class)) - frequencies[class]
    })
}

/// (d, classes) Zcᵀ T: the sum of the rows of each class.
fn class_sums(zc: &Array2<f64>, y: &[u32], classes: usize) -> Array2<f64> {
    let mut sums = Array2::zeros((classes, zc.ncols()));
    for (row, class) in zc.rows().into_iter().zip(y) {
        sums.row_mut(*class as usize).scaled_add(1.0, &row);
    }
    sums.reversed_axes()
}

/// Columns of a Gram matrix that are one product.
const BLOCK: usize = 32;

/// Multiplications from which several threads are faster than one.
const WORTH_SPLITTING: usize = 1 << 20;

/// (m, m) The lower half of A Aᵀ, in blocks that do not depend on the number of threads, and so neither does the last bit.
fn gram(a: ArrayView2<f64>) -> Array2<f64> {
    let (m, k) = a.dim();
    let mut gram = Array2::zeros((m, m));
    let blocks: Vec<_> = gram.axis_chunks_iter_mut(Axis(1), BLOCK).enumerate().collect();
    let product = |(i, mut block): (usize, ArrayViewMut2<f64>)| {
        let first = i * BLOCK;
        let own = a.slice(s![first..first + block.ncols(), ..]);
        general_mat_mul(1.0, &a.slice(s![first.., ..]), &own.t(), 0.0, &mut block.slice_mut(s![first.., ..]));
    };
    if m * m * k < WORTH_SPLITTING {
        blocks.into_iter().for_each(product);
    } else {
        blocks.into_par_iter().for_each(product);
    }
    gram
}

/// Why the Gram matrix has no factor.
fn not_definite(mean: &Array1<f64>, trace: f64, (n, d): (usize, usize), pivot: f64) -> Error {
    if !mean.iter().all(|m| m.is_finite()) {
        return Error::data(
            "features of a weak fit",
            "a number is not finite; look at what the backbone computes",
        );
    }
    if !trace.is_finite() {
        return Error::data(
            "features of a weak fit",
            "their squares overflow; divide the features by their size",
        );
    }
    let hint = format!("{n} rows do not determine {d} features; take a larger weight or more rows");
    Error::Solve { solver: "ridge fit".into(), iters: 0, residual: pivot, hint }
}
