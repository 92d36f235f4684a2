// Solutions of 04_foca. `make solutions` puts each section behind its exercise.

// ==== foca-48
// With one sample per class section 2 has the score in closed form, $\frac12 + \frac12 \lVert\Delta\rVert^2 /
// (\lVert\Delta\rVert^2 + 2\lambda)$. The distance is 2, its square 4. Without a penalty the score would be one;
// the penalty pulls it towards one half.
let mine = {
    let (distance, ridge) = (2f64, 1.0);
    0.5 + 0.5 * distance.powi(2) / (distance.powi(2) + 2.0 * ridge)
};
let pair = Features::new(&ndarray::array![[0.0], [2.0]], &[0u32, 1], 2)?;
check("exercise 1", mine, WeakFit::RidgeSum(1.0).fit(&pair)?.head.scores(&pair.z)?[[1, 1]], 1e-6)?;

// ==== foca-50
// Multiply the objective with the mean by $n$, the number of rows: $\sum_i \lVert\cdot\rVert^2 + n\lambda \lVert W
// \rVert^2$. It has the same minimum, so $\lambda_{\text{sum}} = n\,\lambda_{\text{mean}}$. There are ten rows of
// each of twelve classes.
let mine = 10.0 * 12.0 * 0.02;
let rows = foca_train.take(&foca_train.rows()?.draw(10, false, SEED)?)?;
let (by_sum, by_mean) = (WeakFit::RidgeSum(mine).fit(&rows)?, WeakFit::RidgeMean(0.02).fit(&rows)?);
check("exercise 2", &by_sum.head.w, &by_mean.head.w, 1e-9)?;

// ==== foca-52
// Section 4 has the residual of a collapsed pair, $\frac12 \lambda / (k\delta^2/2 + \lambda)$, with $\delta$ the
// distance of the classes. It is never zero while there is a penalty, so every feature is still pushed outwards.
let mine = {
    let (k, distance, ridge) = (2.0, 2f64, 1.0);
    0.5 * ridge / (k * distance.powi(2) / 2.0 + ridge)
};
check("exercise 3", mine, 1.0 - WeakFit::RidgeSum(1.0).fit(&collapsed)?.head.scores(&collapsed.z)?[[2, 1]], 1e-6)?;

// ==== foca-54
// Put the two means at $\pm m$, with spread $\sigma$ within each class. The variance between balanced classes is
// $m^2$, the variance within is $\sigma^2$, so $\mu = m^2/\sigma^2$, and the midpoint is $\sqrt\mu$ standard
// deviations away from either mean. Beyond it lies the share $\Phi(-\sqrt\mu)$.
let mine = distribution::normal_cdf(-4f64.sqrt());
check("exercise 4", mine, distribution::normal_cdf(-2.0), 1e-3)?;
