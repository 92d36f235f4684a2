//! Regularised softmax regression by Newton's method, with its adjoint.

use ndarray::{Array1, Array2, Axis, concatenate, s};
use rayon::prelude::*;

use super::head::LinearHead;
use crate::error::{Error, Result};
use crate::linalg::{Cholesky, row_basis};

/// The largest entry of the gradient that passes for zero, with features of size one.
const FLAT: f64 = 1e-8;

/// Newton steps before giving up; a dozen is usual.
const STEPS: usize = 50;

/// Halvings of a step before giving up.
const HALVINGS: i32 = 40;

/// Share of the fall that the slope promises which a step has to bring (Armijo).
const FALL: f64 = 1e-4;

/// Share of the objective below which its rounding hides a fall.
const HIDDEN: f64 = 1e-10;

/// Multiplications from which several threads are faster than one.
const WORTH_SPLITTING: usize = 1 << 20;

/// What the adjoint needs of a fit.
#[derive(Clone, Debug)]
pub(super) struct State {
    problem: Problem,
    /// (n, classes) Probabilities at the minimum.
    p: Array2<f64>,
    factor: Cholesky,
    mean: Array1<f64>,
    /// (r, d) Orthonormal rows that span those of Zc, if there are fewer rows than features.
    basis: Option<Array2<f64>>,
}

/// Σ cross entropy + λ‖V‖² in θ (classes, r + 1): for each class its weights, then its bias.
#[derive(Clone, Debug)]
struct Problem {
    /// (n, r + 1) Inputs, then a one.
    x: Array2<f64>,
    /// (n, classes) One-hot targets.
    t: Array2<f64>,
    weight: f64,
}

/// A point on the way of Newton's method.
struct Point {
    theta: Array2<f64>,
    p: Array2<f64>,
    objective: f64,
    gradient: Array2<f64>,
    /// The largest entry of the gradient.
    size: f64,
}

/// W and b that minimise Σ cross entropy + λ‖W‖², with the number of Newton steps.
///
/// ```text
/// inputs:   Zc = Z − z̄, or if n < d its coordinates X in an orthonormal basis of its rows, Zc = X Q
/// Newton:   θ ← θ − t H⁻¹ ∇,   from W = 0 and the bias that is best there,   t = 1, ½, ¼, … until the objective falls
/// head:     W = Qᵀ V,   b = β − Wᵀ z̄;   over the classes, W and b add up to zero
/// ```
/// The penalty keeps W in the span of the rows, so X loses nothing. Cost: O(n r² C² + (r C)³) a step, r ≤ min(n, d).
/// Fails: `Data` for numbers that are not finite, fewer than two classes, or a class without a row, whose bias would fall
/// for ever; `Solve` if the gradient does not vanish.
pub(super) fn fit(z: &Array2<f64>, t: &Array2<f64>, weight: f64) -> Result<(LinearHead, usize, State)> {
    let (n, d) = z.dim();
    let counts = t.sum_axis(Axis(0));
    let mean = z.sum_axis(Axis(0)) / n as f64;
    let zc = z - &mean;
    check(&counts, &mean, &zc)?;
    let (basis, inputs) = if n < d {
        let (basis, coordinates) = row_basis(&zc);
        (Some(basis), coordinates)
    } else {
        (None, zc)
    };
    let problem = Problem { x: with_ones(&inputs), t: t.clone(), weight };
    let mut start = Array2::zeros((counts.len(), inputs.ncols() + 1));
    start.column_mut(inputs.ncols()).assign(&counts.mapv(f64::ln));
    let (point, factor, steps) = problem.minimise(less_class_mean(start))?;

    let (v, beta) = (point.theta.slice(s![.., ..-1]), point.theta.column(inputs.ncols()));
    let w = basis.as_ref().map_or_else(|| v.t().to_owned(), |basis| basis.t().dot(&v.t()));
    let head = LinearHead { b: &beta - &w.t().dot(&mean), w };
    Ok((head, steps, State { problem, p: point.p, factor, mean, basis }))
}

impl Problem {
    /// Minimum with the factor of its Hessian and the number of steps.
    fn minimise(&self, start: Array2<f64>) -> Result<(Point, Cholesky, usize)> {
        let largest = self.x.iter().fold(1.0f64, |most, v| most.max(v.abs()));
        let mut point = self.at(start);
        for steps in 0..=STEPS {
            let factor = Cholesky::above(self.hessian(&point.p), 0.0);
            let factor = factor.map_err(|_| not_minimised(steps, point.size))?;
            let direction = factor.solve(&flat(&-&point.gradient))?;
            let next = self.search(&point, &less_class_mean(shaped(direction, point.theta.dim())?));
            // Past the tolerance go on while it pays: the adjoint is as exact as the gradient is small.
            let done = point.size <= FLAT * largest;
            match next {
                Some(next) if !done || next.size < 0.5 * point.size => point = next,
                _ if done => return Ok((point, factor, steps)),
                _ => return Err(not_minimised(steps, point.size)),
            }
        }
        Err(not_minimised(STEPS, point.size))
    }

    /// The first of t = 1, ½, ¼, … that brings enough of the fall that the slope promises. Close to the minimum, where
    /// the fall drowns in rounding, the gradient has to halve instead.
    fn search(&self, from: &Point, direction: &Array2<f64>) -> Option<Point> {
        let slope = (&from.gradient * direction).sum();
        let hidden = slope.abs() <= HIDDEN * (1.0 + from.objective.abs());
        (0..HALVINGS).find_map(|k| {
            let t = 0.5f64.powi(k);
            let next = self.at(&from.theta + &(t * direction));
            let falls = next.objective <= from.objective + FALL * t * slope;
            (falls || (hidden && next.size <= 0.5 * from.size)).then_some(next)
        })
    }

    /// ```text
    /// P = softmax(X θᵀ) row by row,   objective = Σ_i −ln P_(i, class of i) + λ‖V‖²,   ∇ = (P − T)ᵀ X + 2λ V
    /// ```
    fn at(&self, theta: Array2<f64>) -> Point {
        let mut p = self.x.dot(&theta.t());
        let mut objective = 0.0;
        for (mut s, t) in p.rows_mut().into_iter().zip(self.t.rows()) {
            let most = s.fold(f64::NEG_INFINITY, |most, v| most.max(*v));
            s -= most;
            let own = s.dot(&t);
            s.mapv_inplace(f64::exp);
            let sum = s.sum();
            s /= sum;
            objective += sum.ln() - own;
        }
        let mut gradient = (&p - &self.t).t().dot(&self.x);
        let v = theta.slice(s![.., ..-1]);
        objective += self.weight * v.iter().map(|v| v * v).sum::<f64>();
        gradient.slice_mut(s![.., ..-1]).scaled_add(2.0 * self.weight, &v);
        let size = gradient
            .iter()
            .fold(0.0f64, |most, v| if v.is_nan() { f64::INFINITY } else { most.max(v.abs()) });
        Point { theta, p, objective, gradient, size }
    }

    /// (classes (r + 1), classes (r + 1)) The lower half of the Hessian.
    ///
    /// ```text
    /// Σ_i (diag p_i − p_i p_iᵀ) ⊗ x_i x_iᵀ = Σ_(c > e) (e_c − e_e)(e_c − e_e)ᵀ ⊗ Xᵀ diag(p_c p_e) X
    /// ```
    /// A sum over pairs of classes, none of whose terms is negative: 1 − p, which would lose its digits where a row is
    /// certain, does not occur. What all classes share meets no curvature but λ, and no slope. The mean of the terms,
    /// added for every c and e, holds it and changes no other direction.
    fn hessian(&self, p: &Array2<f64>) -> Array2<f64> {
        let ((n, classes), m) = (p.dim(), self.x.ncols());
        let pairs: Vec<(usize, usize)> = (1..classes).flat_map(|c| (0..c).map(move |e| (c, e))).collect();
        let term = |&(c, e): &(usize, usize)| {
            let both = &p.column(c) * &p.column(e);
            self.x.t().dot(&(&self.x * &both.insert_axis(Axis(1))))
        };
        // Each term whole, and added up in order: the last bit does not depend on the number of threads.
        let terms: Vec<Array2<f64>> = if n * m * m * pairs.len() < WORTH_SPLITTING {
            pairs.iter().map(term).collect()
        } else {
            pairs.par_iter().map(term).collect()
        };
        let shared = terms.iter().fold(Array2::zeros((m, m)), |sum, term| sum + term) / pairs.len() as f64;
        let mut h = Array2::zeros((classes * m, classes * m));
        let mut add = |c: usize, e: usize, sign: f64, block: &Array2<f64>| {
            h.slice_mut(s![c * m..(c + 1) * m, e * m..(e + 1) * m]).scaled_add(sign, block);
        };
        for ((c, e), term) in pairs.iter().zip(&terms) {
            add(*c, *c, 1.0, term);
            add(*e, *e, 1.0, term);
            add(*c, *e, -1.0, term);
            add(*c, *e, 1.0, &shared);
        }
        (0..classes).for_each(|c| add(c, c, 1.0, &shared));
        let weights = h.diag_mut().into_iter().enumerate().filter(|(i, _)| i % m < m - 1);
        weights.for_each(|(_, v)| *v += 2.0 * self.weight);
        h
    }
}

impl State {
    /// ```text
    /// Ȳ = W̄ − z̄ b̄ᵀ,   (Y, y) = H⁻¹ (Ȳ, b̄),   M = Zc Y + 1 yᵀ,   S = P∘M − P ∘ (row sums of P∘M)
    /// Z̄c = −(P − T) Yᵀ − S Wᵀ,      Z̄ = Z̄c − its column means − (1/n) 1 (W b̄)ᵀ
    /// ```
    /// In a basis Q of the rows, H⁻¹ is that of the small system within, and 1/(2λ) on all that is orthogonal to them:
    /// Y = Qᵀ V + (Ȳ − Qᵀ Q Ȳ)/(2λ), where V is the solution for Q Ȳ.
    pub(super) fn adjoint(
        &self,
        head: &LinearHead,
        w_bar: &Array2<f64>,
        b_bar: &Array1<f64>,
    ) -> Result<Array2<f64>> {
        let Problem { x, t, weight } = &self.problem;
        // (classes, ·) as in θ. What all classes share cannot reach the head.
        let b_bar = less_class_mean(b_bar.clone().insert_axis(Axis(1)));
        let total =
            less_class_mean(w_bar.t().to_owned()) - b_bar.dot(&self.mean.clone().insert_axis(Axis(0)));
        let inside = self.basis.as_ref().map_or_else(|| total.clone(), |basis| total.dot(&basis.t()));
        let right = concatenate![Axis(1), inside, b_bar];
        let solved = shaped(self.factor.solve(&flat(&right))?, right.dim())?;
        let v = solved.slice(s![.., ..-1]);
        let y = match &self.basis {
            Some(basis) => v.dot(basis) + (&total - &inside.dot(basis)) / (2.0 * weight),
            None => v.to_owned(),
        };
        let pm = &self.p * &x.dot(&solved.t());
        let s = &pm - &(&self.p * &pm.sum_axis(Axis(1)).insert_axis(Axis(1)));
        let centred = (t - &self.p).dot(&y) - s.dot(&head.w.t());
        let n = x.nrows() as f64;
        let means = centred.sum_axis(Axis(0)) / n;
        Ok(centred - &means - &(head.w.dot(&b_bar.column(0)) / n))
    }
}

/// Whether there is a minimum to look for.
fn check(counts: &Array1<f64>, mean: &Array1<f64>, zc: &Array2<f64>) -> Result<()> {
    let unusable = |why: &str| Err(Error::data("features of a weak fit", why));
    if counts.len() < 2 {
        return unusable("a softmax fit needs two classes");
    }
    if let Some(class) = counts.iter().position(|count| *count == 0.0) {
        return unusable(&format!(
            "class {class} has no row and so no best bias; add a row of it or fit by ridge"
        ));
    }
    if !mean.iter().all(|v| v.is_finite()) {
        return unusable("a number is not finite; look at what the backbone computes");
    }
    if !zc.iter().map(|v| v * v).sum::<f64>().is_finite() {
        return unusable("their squares overflow; divide the features by their size");
    }
    Ok(())
}

/// Less the mean over the classes, one a row: what all classes share changes no probability.
fn less_class_mean(m: Array2<f64>) -> Array2<f64> {
    let mean = m.sum_axis(Axis(0)) / m.nrows() as f64;
    m - &mean
}

/// A column of ones behind the others.
fn with_ones(x: &Array2<f64>) -> Array2<f64> {
    concatenate![Axis(1), *x, Array2::ones((x.nrows(), 1))]
}

/// Row after row.
fn flat(m: &Array2<f64>) -> Vec<f64> {
    m.iter().copied().collect()
}

fn shaped(v: Vec<f64>, dim: (usize, usize)) -> Result<Array2<f64>> {
    Array2::from_shape_vec(dim, v)
        .map_err(|e| Error::shape("weights of a softmax fit", format!("{dim:?}"), e))
}

fn not_minimised(steps: usize, gradient: f64) -> Error {
    let hint =
        "the gradient does not vanish; take a larger weight or divide the features by their size".to_string();
    Error::Solve { solver: "softmax fit".into(), iters: steps, residual: gradient, hint }
}
