//! What the area under a smooth ROC is, pair by pair.

/// Loss of a pair whose positive is `d` sharpness units above its negative, when thresholds run over all rates.
///
/// ```text
/// K(d) = 1/(1 − e^d) + d e^d/(1 − e^d)²,   K(0) = ½,   K(−d) = 1 − K(d)
/// ```
/// The mean of K(τ(s_i − s_j)) over pairs is the limit of [`RateProblem::partial_auc`](super::RateProblem::partial_auc) on
/// [0, 1] as its grid grows. Book: `rate/implicit.md#eq-rate-implicit-kernel`. Checked by `tests/rate/problem.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// assert_eq!(rate::pair_kernel(0.0), 0.5);
/// assert!((rate::pair_kernel(2.0) + rate::pair_kernel(-2.0) - 1.0).abs() < 1e-12);
/// assert!(rate::pair_kernel(50.0) < 1e-12); // a positive far above its negative costs nothing
/// ```
pub fn pair_kernel(d: f64) -> f64 {
    if d > 0.0 {
        return 1.0 - pair_kernel(-d);
    }
    if d > -1e-2 {
        // The two fractions cancel near zero; the series does not. Next term: d⁵/5040.
        return 0.5 - d / 6.0 + d.powi(3) / 180.0 - d.powi(5) / 5040.0;
    }
    let below = -d.exp_m1();
    1.0 / below + d * d.exp() / (below * below)
}
