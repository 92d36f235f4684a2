//! The equations of the chapter "Implicit thresholds".

use crate::device::device;
use lastlayer::prelude::*;
use lastlayer::rate::{Slopes, pair_kernel};

use super::{SEED, assert_close, bisect, differences, random, simpson};

/// The chapter's example: positives 1 and 3, negatives 0 and 2; its sharpness is ln 3.
const FOUR: [f64; 4] = [1.0, 3.0, 0.0, 2.0];
const FOUR_Y: [u8; 4] = [1, 1, 0, 0];

fn of_class(s: &[f64], y: &[u8], class: u8) -> Vec<f64> {
    s.iter().zip(y).filter(|(_, y)| **y == class).map(|(s, _)| *s).collect()
}

/// One rate at one threshold, with its slopes.
fn rate(rate: Rate, s: &[f64], labels: &Labels, t: f64, sharpness: f64) -> Slopes {
    rate.minus(0.0).slopes(s, labels, &[t], Surrogate::sigmoid(sharpness)).unwrap()
}

/// F(s) = f(s, h(s)).
fn solved_objective(problem: &RateProblem, s: &[f64], labels: &Labels) -> f64 {
    let t = problem.solve(s, labels).unwrap().t;
    problem.objective().slopes(s, labels, &t, problem.surrogate()).unwrap().value
}

/// Central differences without their error of second order, so that the step can be wide: thresholds are
/// solved to a relative 1e-12, which a narrow step would magnify.
fn wide_differences(at: &[f64], step: f64, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let (fine, coarse) = (differences(at, step, &f), differences(at, 2.0 * step, &f));
    fine.iter().zip(&coarse).map(|(fine, coarse)| (4.0 * fine - coarse) / 3.0).collect()
}

/// Random scores in two groups, every second sample in the first.
fn grouped(n: usize, seed: Seed) -> (Vec<f64>, Labels) {
    let (s, mut y) = random(n, seed);
    // Both groups have positives and negatives.
    y[..4].copy_from_slice(&[1, 0, 0, 1]);
    let a = Array2::from_shape_fn((n, 1), |(i, _)| f64::from(u8::from(i % 2 == 0)));
    (s, Labels::new(y).unwrap().with_attributes(a).unwrap())
}

/// One threshold, ten, and two that depend on each other.
fn problems(sharpness: f64) -> [RateProblem; 3] {
    let surrogate = Surrogate::sigmoid(sharpness);
    [
        RateProblem::fnr_at_fpr(0.1, surrogate).unwrap(),
        RateProblem::partial_auc(0.0, 0.5, 10, surrogate).unwrap(),
        RateProblem::equal_opportunity(0, 0.1, surrogate).unwrap(),
    ]
}

/// The example in which several thresholds have the same precision.
fn seven() -> Result<([f64; 7], Labels)> {
    Ok(([3.0, 2.5, 2.0, 1.5, 1.0, 0.5, 0.0], Labels::new([0, 1, 1, 0, 1, 1, 0])?))
}

#[test]
fn every_target_has_one_smooth_threshold_inside_its_bracket() -> Result<()> {
    for case in 0..2000 {
        let seed = SEED.named("roots").stream(case);
        let n = 1 + seed.below(0, 30)?;
        let tau = 10f64.powf(6.0 * seed.uniform(1) - 3.0);
        let beta = 1.0 / (1.0 + (14.0 * seed.uniform(2) - 7.0).exp());
        let logit = (beta / (1.0 - beta)).ln();
        let s: Vec<f64> = (0..n as u64).map(|i| 2.0 * seed.named("scores").normal(i)).collect();
        let about = format!("case {case}: {n} scores, sharpness {tau}, target {beta}");
        let t = smooth_threshold(&s, beta, tau, None)?.threshold;

        let (least, most) = s.iter().fold((f64::MAX, f64::MIN), |(l, m), s| (l.min(*s), m.max(*s)));
        let digit = f64::EPSILON * t.abs().max(logit.abs() / tau).max(1.0);
        assert!(least - logit / tau <= t + 8.0 * digit, "{about}: {t} below its bracket");
        assert!(t - 8.0 * digit <= most - logit / tau, "{about}: {t} above its bracket");

        // Moving t by its last digits moves the logit of the rate by up to τ times as much. That, or the
        // solver's tolerance, is all that may be left of the equation, besides the rounding of a mean.
        let left = 1e-12f64.max(8.0 * tau * digit);
        let found = rate(Rate::FalsePositive, &s, &Labels::new(vec![0u8; n])?, t, tau);
        let residual = (found.value - beta).abs();
        assert!(residual <= left * beta.min(1.0 - beta) + 2e-15, "{about}: residual {residual}");

        // Two solutions of that quality are this close: the slope of the logit tells.
        let steepness = -found.by_threshold[0] / (beta * (1.0 - beta));
        let close = 6.0 * left / steepness + 16.0 * digit;
        let warm = t + (seed.uniform(3) - 0.5) * (10.0 + 10.0 / tau);
        let other = smooth_threshold(&s, beta, tau, Some(warm))?.threshold;
        assert!((other - t).abs() <= close, "{about}: {t}, and {other} from {warm}");
        let a = 8.0 * (seed.uniform(4) - 0.5);
        let moved: Vec<f64> = s.iter().map(|s| s + a).collect();
        let other = smooth_threshold(&moved, beta, tau, None)?.threshold;
        assert!((other - t - a).abs() <= close + 1e-14, "{about}: {t}, and {other} for scores {a} higher");
    }
    Ok(())
}

#[test]
fn logit_newton_needs_one_step_for_equal_negatives() -> Result<()> {
    let logit = |p: f64| (p / (1.0 - p)).ln();
    for (tau, beta) in [(0.1, 0.01), (1.0, 0.3), (10.0, 0.5), (100.0, 0.9)] {
        let (s, labels) = ([0.8; 7], Labels::new([0u8; 7])?);
        let want = 0.8 - logit(beta) / tau;
        let root = smooth_threshold(s, beta, tau, Some(0.8))?;
        assert!(root.passes <= 2 && (root.threshold - want).abs() <= 1e-13 * want.abs().max(1.0), "{root:?}");
        // The step of the equation, from both sides.
        for start in [0.8 - 2.0 / tau, 0.8 + 3.0 / tau] {
            let found = rate(Rate::FalsePositive, &s, &labels, start, tau);
            let (g, w) = (found.value, -found.by_threshold[0]);
            let t = start + g * (1.0 - g) / w * (logit(g) - logit(beta));
            assert!((t - want).abs() <= 1e-13 * want.abs().max(1.0), "{t}, expected {want}");
            assert!((w / (g * (1.0 - g)) / tau - 1.0).abs() <= 1e-13, "the slope is at its bound");
        }
    }
    Ok(())
}

#[test]
fn logit_newton_settles_in_twelve_passes() -> Result<()> {
    for tau in [0.1, 1.0, 10.0, 100.0, 1000.0] {
        for n in [10usize, 100, 1000] {
            let seed = SEED.named("newton").stream(n as u64);
            let s: Vec<f64> = (0..n as u64).map(|i| seed.normal(i)).collect();
            let labels = Labels::new(vec![0u8; n])?;
            // A target of a whole number of negatives would put a sharp threshold on a plateau, exponentially
            // flat, which Newton's method crosses in steps of 1/τ.
            for (k, part) in
                [0, n / 20, n / 2].into_iter().flat_map(|k| [0.1, 0.5, 0.9].map(|part| (k, part)))
            {
                let beta = (k as f64 + part) / n as f64;
                let root = smooth_threshold(&s, beta, tau, None)?;
                assert!(root.passes <= 12, "sharpness {tau}, {n} negatives, target {beta}: {root:?}");
                // There, and away from there.
                for t in [root.threshold, root.threshold - 1.0 / tau, root.threshold + 0.5 / tau] {
                    let found = rate(Rate::FalsePositive, &s, &labels, t, tau);
                    let slope = -found.by_threshold[0] / (found.value * (1.0 - found.value));
                    assert!(0.0 < slope && slope <= tau * (1.0 + 1e-12), "slope {slope} at sharpness {tau}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn the_printed_condition_allows_a_fold() {
    /// Thresholds between −1 and 1 at which g changes its sign, on points that are no roots.
    fn roots(g: impl Fn(f64) -> f64) -> usize {
        let points: Vec<f64> = (0..2000).map(|i| (f64::from(i) - 999.7) / 1000.0).collect();
        points.windows(2).filter(|pair| (g(pair[0]) > 0.0) != (g(pair[1]) > 0.0)).count()
    }
    /// Derivatives in θ and t at the origin.
    fn slopes(g: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        differences(&[0.0, 0.0], 1e-3, |at| g(at[0], at[1]))
    }
    let fold = |theta: f64, t: f64| theta - t * t;
    assert_close(&slopes(fold), &[1.0, 0.0], 1e-12);
    assert_eq!([-0.01, 0.01].map(|theta| roots(|t| fold(theta, t))), [0, 2]);
    // The other way round: what the paper asks for is violated, and there is one threshold for every θ.
    let graph = |theta: f64, t: f64| t - theta * theta;
    assert_close(&slopes(graph), &[0.0, 1.0], 1e-12);
    assert_eq!([-0.01, 0.0, 0.01].map(|theta| roots(|t| graph(theta, t))), [1, 1, 1]);
}

#[test]
fn the_threshold_moves_by_a_probability_vector() -> Result<()> {
    for (case, tau) in [0.5, 2.0, 5.0].into_iter().enumerate() {
        let (s, y) = random(20, SEED.named("omega").stream(case as u64));
        let labels = Labels::new(&y)?;
        let problem = RateProblem::fnr_at_fpr(0.15, Surrogate::sigmoid(tau))?;
        let t = problem.solve(&s, &labels)?.t;
        let omega = problem.sensitivity(&s, &labels, &t)?.remove(0);
        let threshold = |s: &[f64]| smooth_threshold(of_class(s, &y, 0), 0.15, tau, None).unwrap().threshold;
        assert_close(&omega, &wide_differences(&s, 5e-3 / tau, threshold), 1e-8);
        let weights = s.iter().zip(&y).map(|(s, y)| match y {
            0 => Surrogate::sigmoid(tau).slope(s - t[0]),
            _ => 0.0,
        });
        let total: f64 = weights.clone().sum();
        assert_close(&omega, &weights.map(|w| w / total).collect::<Vec<_>>(), 1e-12);
        assert!(omega.iter().zip(&y).all(|(omega, y)| (*omega > 0.0) == (*y == 0)));
        assert!((omega.iter().sum::<f64>() - 1.0).abs() <= 1e-12);
    }
    let problem = RateProblem::fnr_at_fpr(0.3, Surrogate::sigmoid(3f64.ln()))?;
    let omega = problem.sensitivity(FOUR, &Labels::new(FOUR_Y)?, &[2.0])?.remove(0);
    assert_close(&omega, &[0.0, 0.0, 9.0 / 34.0, 25.0 / 34.0], 1e-14);
    Ok(())
}

#[test]
fn sharp_thresholds_approach_order_statistics() -> Result<()> {
    let s = [0.0, 1.0, 2.3, 3.1, 5.0];
    // The second largest is 3.1. β n is 1.75, 1.5 and 2.
    for (beta, tau, want, tolerance) in
        [(0.35, 50.0, 3.078027754, 1e-9), (0.3, 50.0, 3.1, 1e-9), (0.4, 10.0, 2.7, 1e-6)]
    {
        let t = smooth_threshold(s, beta, tau, None)?.threshold;
        assert!((t - want).abs() <= tolerance, "target {beta}: {t}, expected {want}");
    }
    // The distance to the counted threshold is −logit(0.75)/τ, and so vanishes.
    for tau in [50.0, 500.0, 5000.0] {
        let distance = smooth_threshold(s, 0.35, tau, None)?.threshold - hard_threshold(s, 0.35)?;
        assert!((tau * distance + 3f64.ln()).abs() <= 1e-9, "sharpness {tau}: {distance}");
    }
    Ok(())
}

#[test]
fn softmax_weights_survive_underflow() -> Result<()> {
    // Four negatives, and a positive at the threshold for the objective to have a slope.
    let (s, labels, t) = ([0.0, 1.0, 2.0, 3.0, 1.5], Labels::new([0, 0, 0, 0, 1])?, [1.5]);
    let one = Surrogate::sigmoid(1.0);
    assert_eq!(one.slope(500.0) as f32, 0.0, "in single precision all weights are zero at τ = 1000");
    assert_eq!(one.slope(5e4), 0.0, "and in double precision at τ = 100 000");
    for tau in [1e3, 1e5] {
        let problem = RateProblem::fnr_at_fpr(0.5, Surrogate::sigmoid(tau))?;
        let omega = problem.sensitivity(s, &labels, &t)?.remove(0);
        assert_close(&omega, &[0.0, 0.5, 0.5, 0.0, 0.0], 1e-15);
        let want = [0.0, tau / 8.0, tau / 8.0, 0.0, -tau / 4.0];
        assert_close(&problem.adjoint(s, &labels, &t)?.cotangent, &want, 1e-14);
        // As a loss on scores in single precision.
        let single = Var::from_tensor(&Tensor::new(&s.map(|s| s as f32), device())?)?;
        let gradients = problem.loss(&single, &labels, &t)?.backward()?;
        let c = gradients.get(single.as_tensor()).unwrap().to_vec1::<f32>()?;
        assert_close(&c.into_iter().map(f64::from).collect::<Vec<_>>(), &want, 1e-6);
    }
    Ok(())
}

#[test]
fn the_cotangent_is_the_total_derivative_for_one_and_for_many_thresholds() -> Result<()> {
    for (case, tau) in [1.0, 4.0].into_iter().enumerate() {
        let (s, labels) = grouped(30, SEED.named("adjoint").stream(case as u64));
        for problem in problems(tau) {
            let t = problem.solve(&s, &labels)?.t;
            let adjoint = problem.adjoint(&s, &labels, &t)?;
            assert!(!adjoint.fold);
            let numeric = wide_differences(&s, 5e-3 / tau, |s| solved_objective(&problem, s, &labels));
            assert_close(&adjoint.cotangent, &numeric, 1e-6);
        }
    }
    Ok(())
}

#[test]
fn one_backward_pass_equals_forward_sensitivities() -> Result<()> {
    let (s, labels) = grouped(40, SEED.named("forward"));
    for problem in problems(3.0) {
        let t = problem.solve(&s, &labels)?.t;
        let adjoint = problem.adjoint(&s, &labels, &t)?;
        // The paper's way: the gradient of f, and one for every threshold.
        let f = problem.objective().slopes(&s, &labels, &t, problem.surrogate())?;
        let mut forward = f.by_score;
        for (slope, list) in f.by_threshold.iter().zip(problem.sensitivity(&s, &labels, &t)?) {
            forward.iter_mut().zip(list).for_each(|(total, by_score)| *total += slope * by_score);
        }
        assert_close(&adjoint.cotangent, &forward, 1e-12);
        // One backward pass, as a Lagrangian with constant multipliers and as a linear form.
        let var = Var::from_tensor(&Tensor::new(&s[..], device())?)?;
        let lagrangian = problem.lagrangian(&var, &labels, &t, &adjoint.multiplier)?;
        for loss in [lagrangian, problem.loss(&var, &labels, &t)?] {
            let gradients = loss.backward()?;
            let c = gradients.get(var.as_tensor()).unwrap().to_vec1::<f64>()?;
            assert_close(&adjoint.cotangent, &c, 1e-12);
        }
    }
    Ok(())
}

#[test]
fn four_scores_have_the_cotangent_worked_out_by_hand() -> Result<()> {
    let (tau, labels) = (3f64.ln(), Labels::new(FOUR_Y)?);
    // Target, threshold, missed positives.
    for (beta, t, fnr) in [(0.3, 2.0, 0.5), (0.7, 0.0, 1.0 / 7.0)] {
        let problem = RateProblem::fnr_at_fpr(beta, Surrogate::sigmoid(tau))?;
        let solved = problem.solve(FOUR, &labels)?.t;
        assert!((solved[0] - t).abs() <= 1e-11, "{solved:?}");
        let adjoint = problem.adjoint(FOUR, &labels, &[t])?;
        assert!((adjoint.objective - fnr).abs() <= 1e-14, "{adjoint:?}");
        assert!(adjoint.constraints[0].abs() <= 1e-14, "{adjoint:?}");
        if beta == 0.3 {
            let positives = rate(Rate::FalseNegative, &FOUR, &labels, t, tau).by_score;
            assert_close(&positives, &[-3.0 / 32.0 * tau, -3.0 / 32.0 * tau, 0.0, 0.0], 1e-14);
            assert_close(&adjoint.multiplier, &[75.0 / 68.0], 1e-14);
            let c: Vec<f64> = adjoint.cotangent.iter().map(|c| c / tau).collect();
            assert_close(&c, &[-3.0 / 32.0, -3.0 / 32.0, 27.0 / 544.0, 75.0 / 544.0], 1e-14);
        }
    }
    Ok(())
}

#[test]
fn the_closed_form_matches_finite_differences() -> Result<()> {
    for case in 0..50 {
        let seed = SEED.named("closed form").stream(case);
        let (s, y) = random(20, seed);
        let (tau, beta) = (0.5 + 3.5 * seed.uniform(100), 0.05 + 0.6 * seed.uniform(101));
        let labels = Labels::new(&y)?;
        let problem = RateProblem::fnr_at_fpr(beta, Surrogate::sigmoid(tau))?;
        let t = problem.solve(&s, &labels)?.t[0];
        let w: Vec<f64> = s.iter().map(|s| Surrogate::sigmoid(tau).slope(s - t) / tau).collect();
        let (positives, negatives) = (of_class(&w, &y, 1), of_class(&w, &y, 0));
        let [sum_positive, sum_negative] = [&positives, &negatives].map(|w| w.iter().sum::<f64>());
        let (n_positive, n_negative) = (positives.len() as f64, negatives.len() as f64);
        let mu = n_negative * sum_positive / (n_positive * sum_negative);
        let by_threshold = tau / n_positive * sum_positive;
        let closed = w.iter().zip(&y).map(|(w, y)| match y {
            1 => -tau / n_positive * w,
            _ => by_threshold * w / sum_negative,
        });
        let closed: Vec<f64> = closed.collect();
        let adjoint = problem.adjoint(&s, &labels, &[t])?;
        assert_close(&adjoint.multiplier, &[mu], 1e-12);
        assert_close(&adjoint.cotangent, &closed, 1e-12);
        let numeric = wide_differences(&s, 5e-3 / tau, |s| solved_objective(&problem, s, &labels));
        assert_close(&closed, &numeric, 1e-8);
    }
    Ok(())
}

#[test]
fn the_cotangent_sums_to_zero() -> Result<()> {
    #[track_caller]
    fn assert_sum(problem: &RateProblem, s: &[f64], labels: &Labels) {
        let t = problem.solve(s, labels).unwrap().t;
        let c = problem.adjoint(s, labels, &t).unwrap().cotangent;
        let size: f64 = c.iter().map(|c| c.abs()).sum();
        assert!(size > 0.0 && c.iter().sum::<f64>().abs() <= 1e-12 * size, "{c:?}");
    }
    for case in 0..10 {
        let (s, labels) = grouped(40, SEED.named("sum").stream(case));
        let [one, many, two] = problems(3.0);
        let recall = RateProblem::precision_at_recall(0.8, Surrogate::sigmoid(3.0))?;
        for problem in [&one, &many, &two, &recall] {
            assert_sum(problem, &s, &labels);
        }
        let moved: Vec<f64> = s.iter().map(|s| s + 1.7).collect();
        for problem in [one, many, recall] {
            let (here, there) =
                (solved_objective(&problem, &s, &labels), solved_objective(&problem, &moved, &labels));
            assert!((here - there).abs() <= 1e-12, "case {case}: {here} and {there}");
        }
    }
    let (s, labels) = seven()?;
    assert_sum(&RateProblem::recall_at_precision(0.6, Surrogate::sigmoid(8.0))?, &s, &labels);
    Ok(())
}

#[test]
fn the_multiplier_is_the_slope_of_the_smooth_roc() -> Result<()> {
    for case in 0..10 {
        let seed = SEED.named("slope").stream(case);
        let (s, y) = random(40, seed);
        let (tau, beta, labels) = (3.0, 0.05 + 0.3 * seed.uniform(100), Labels::new(&y)?);
        let at = |beta: f64| RateProblem::fnr_at_fpr(beta, Surrogate::sigmoid(tau)).unwrap();
        let t = at(beta).solve(&s, &labels)?.t;
        let mu = at(beta).adjoint(&s, &labels, &t)?.multiplier;
        let along =
            |which: Rate| wide_differences(&t, 1e-2 / tau, |t| rate(which, &s, &labels, t[0], tau).value);
        assert_close(&mu, &[along(Rate::TruePositive)[0] / along(Rate::FalsePositive)[0]], 1e-6);
        let price =
            wide_differences(&[beta], 4e-3 * beta, |beta| -solved_objective(&at(beta[0]), &s, &labels));
        assert_close(&mu, &price, 1e-6);
    }
    Ok(())
}

#[test]
fn at_a_stale_threshold_the_cotangent_follows_the_level_set() -> Result<()> {
    for case in 0..20 {
        let seed = SEED.named("level").stream(case);
        let (s, y) = random(20, seed);
        let (labels, tau) = (Labels::new(&y)?, 0.5 + 3.5 * seed.uniform(100));
        let stale = 3.0 * seed.uniform(101) - 1.0;
        // The target 0.01 has no part in what the library returns.
        let c =
            RateProblem::fnr_at_fpr(0.01, Surrogate::sigmoid(tau))?.adjoint(&s, &labels, &[stale])?.cotangent;
        let beta = rate(Rate::FalsePositive, &s, &labels, stale, tau).value;
        let held = RateProblem::fnr_at_fpr(beta, Surrogate::sigmoid(tau))?;
        let numeric = wide_differences(&s, 5e-3 / tau, |s| solved_objective(&held, s, &labels));
        assert_close(&c, &numeric, 1e-8);
    }
    Ok(())
}

#[test]
fn the_mean_over_all_targets_is_the_pair_kernel() -> Result<()> {
    let (tau, labels) = (3f64.ln(), Labels::new(FOUR_Y)?);
    let gaps = [1.0, -1.0, 3.0, 1.0];
    let pairs = gaps.iter().map(|gap| pair_kernel(tau * gap)).sum::<f64>() / 4.0;
    assert!((pairs - 0.3542840332).abs() <= 1e-10, "{pairs}");
    for (m, want) in [(1, 0.3), (10, 0.3531985), (100, 0.3542729), (1000, 0.3542839)] {
        let problem = RateProblem::partial_auc(0.0, 1.0, m, Surrogate::sigmoid(tau))?;
        let mean = solved_objective(&problem, &FOUR, &labels);
        assert!((mean - want).abs() <= 5e-8, "{m} targets: {mean}");
    }
    Ok(())
}

#[test]
fn the_pair_kernel_matches_its_integral() {
    let one = Surrogate::sigmoid(1.0);
    // Both sides of the switch to a series, at −0.01, and far from it.
    for d in [-30.0, -5.0, -1.0, -0.3, -0.0101, -0.0099, 0.0, 0.0099, 0.0101, 0.3, 1.0, 5.0, 30.0] {
        let integral = simpson(-50.0, 50.0, 4000, |u| one.value(-d - u) * one.slope(u));
        assert!((pair_kernel(d) - integral).abs() <= 1e-9, "K({d}) is {}, not {integral}", pair_kernel(d));
        assert!((pair_kernel(-d) - 1.0 + pair_kernel(d)).abs() <= 1e-15, "K(−{d})");
    }
    assert!((pair_kernel(1.0) - 0.3386968873).abs() <= 1e-10, "{}", pair_kernel(1.0));
    assert_eq!(pair_kernel(0.0), 0.5);
    let steps = [-0.01, 0.01].map(|d: f64| (pair_kernel(d * (1.0 - 1e-12)) - pair_kernel(d)).abs());
    assert!(steps.iter().all(|step| *step <= 1e-11), "a step where the series begins: {steps:?}");
    let d = 0.1f64;
    assert!((pair_kernel(d) - 0.5 + d / 6.0 - d.powi(3) / 180.0).abs() <= 1e-8, "{}", pair_kernel(d));
}

#[test]
fn recall_at_precision_can_have_four_roots_and_a_fold() -> Result<()> {
    let (tau, target, (s, labels)) = (8.0, 0.6, seven()?);
    let precision = |t: f64| rate(Rate::Precision, &s, &labels, t, tau);
    let gap = |t: f64| precision(t).value - target;
    let grid: Vec<f64> = (0..=1000).map(|i| f64::from(i) / 200.0 - 1.0).collect();
    let changes = grid.windows(2).filter(|pair| (gap(pair[0]) > 0.0) != (gap(pair[1]) > 0.0));
    let roots: Vec<f64> = changes.map(|pair| bisect(pair[0], pair[1], gap)).collect();
    let want = [(-0.0830970, 0.99762), (0.7499715, 0.75000), (1.5984648, 0.49224), (1.9766636, 0.38300)];
    assert_eq!(roots.len(), want.len(), "{roots:?}");
    for (root, (t, recall)) in roots.iter().zip(want) {
        let found = rate(Rate::TruePositive, &s, &labels, *root, tau).value;
        assert!((root - t).abs() <= 1e-6 && (found - recall).abs() <= 5e-6, "{root} with recall {found}");
    }
    let problem = RateProblem::recall_at_precision(target, Surrogate::sigmoid(tau))?;
    let t = problem.solve(s, &labels)?.t;
    assert!((t[0] - roots[0]).abs() <= 1e-9, "{t:?}");
    assert!(!problem.adjoint(s, &labels, &t)?.fold);
    // Where two roots meet the implicit term is dropped.
    for (low, high, t, best) in [(0.1, 0.5, 0.29814, 0.647616), (1.6, 1.97, 1.79011, 0.628280)] {
        let peak = bisect(low, high, |t| precision(t).by_threshold[0]);
        let value = precision(peak).value;
        assert!((peak - t).abs() <= 5e-6 && (value - best).abs() <= 5e-7, "{value} at {peak}");
        let adjoint = problem.adjoint(s, &labels, &[peak])?;
        assert!(adjoint.fold);
        assert_eq!(adjoint.cotangent, rate(Rate::FalseNegative, &s, &labels, peak, tau).by_score);
    }
    // Counting reaches 2/3, the smooth rate does not.
    let beyond = RateProblem::recall_at_precision(0.65, Surrogate::sigmoid(tau))?;
    assert_eq!(beyond.hard_thresholds(s, &labels)?, [0f64]);
    assert!(matches!(beyond.solve(s, &labels), Err(Error::Solve { .. })));
    Ok(())
}

#[test]
fn equal_opportunity_has_a_jacobian_of_one_sign() -> Result<()> {
    for case in 0..40 {
        let seed = SEED.named("opportunity").stream(case);
        let (s, mut y) = random(30, seed);
        y[..4].copy_from_slice(&[1, 0, 0, 1]);
        // In every second case the first group has no negatives.
        let first = |i: usize| i.is_multiple_of(2) && (case.is_multiple_of(2) || y[i] == 1);
        let a = Array2::from_shape_fn((30, 1), |(i, _)| f64::from(u8::from(first(i))));
        let labels = Labels::new(&y)?.with_attributes(a)?;
        let problem =
            RateProblem::equal_opportunity(0, 0.1 + 0.2 * seed.uniform(100), Surrogate::sigmoid(3.0))?;
        let solved = problem.solve(&s, &labels)?;
        assert!(solved.residual <= 1e-11, "case {case}: {solved:?}");
        // Not only at the solution.
        for t in [solved.t, vec![3.0 * seed.uniform(101) - 1.0, 3.0 * seed.uniform(102) - 1.0]] {
            let row = |k: usize| {
                let g = &problem.constraints()[k];
                g.slopes(&s, &labels, &t, problem.surrogate()).unwrap().by_threshold
            };
            let (equal, overall) = (row(0), row(1));
            // The first constraint is TPR of one group minus TPR of the other.
            let (tpr, other_tpr) = (equal[0], -equal[1]);
            let determinant = tpr * overall[1] + other_tpr * overall[0];
            assert!(tpr < 0.0 && other_tpr < 0.0 && overall.iter().all(|slope| *slope <= 0.0), "case {case}");
            assert_eq!(overall[0] == 0.0, case % 2 == 1, "case {case}");
            assert!(determinant > 0.0, "case {case}: {determinant}");
            let adjoint = problem.adjoint(&s, &labels, &t)?;
            assert!(!adjoint.fold, "case {case}");
            let size: f64 = adjoint.cotangent.iter().map(|c| c.abs()).sum();
            for group in [true, false] {
                let own = adjoint.cotangent.iter().enumerate().filter(|(i, _)| first(*i) == group);
                let sum: f64 = own.map(|(_, c)| c).sum();
                assert!(sum.abs() <= 1e-12 * size, "case {case}: {sum} beside {size}");
            }
        }
    }
    Ok(())
}
