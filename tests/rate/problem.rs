//! Problems: thresholds, multipliers and cotangents of every kind.

use crate::device::device;
use lastlayer::error::Error;
use lastlayer::rate::{Adjoint, At, Labels, Rate, RateProblem, RateSum, Surrogate, Within};

use super::{SEED, assert_close, differences, random};
use lastlayer::prelude::*;

fn groups(n: usize, seed: Seed) -> Array2<f64> {
    // Both groups have members of both classes among the first four.
    let flag = |i: usize| if i < 4 { i / 2 == 0 } else { seed.named("group").uniform(i as u64) < 0.4 };
    Array2::from_shape_fn((n, 1), |(i, _)| f64::from(u8::from(flag(i))))
}

fn labels(y: &[u8], seed: Seed) -> Labels {
    Labels::new(y).unwrap().with_attributes(groups(y.len(), seed)).unwrap()
}

/// Every kind of problem.
fn problems(sharpness: f64) -> Vec<RateProblem> {
    let sigmoid = Surrogate::sigmoid(sharpness);
    let coverage = RateSum { terms: vec![Rate::Coverage.term()], constant: -0.4 };
    vec![
        RateProblem::fnr_at_fpr(0.1, sigmoid).unwrap(),
        RateProblem::partial_auc(0.0, 0.5, 10, sigmoid).unwrap(),
        RateProblem::precision_recall_area(5, sigmoid).unwrap(),
        RateProblem::precision_at_recall(0.8, sigmoid).unwrap(),
        RateProblem::recall_at_precision(0.5, sigmoid).unwrap(),
        RateProblem::equal_opportunity(0, 0.2, sigmoid).unwrap(),
        RateProblem::parity(Rate::Error, Rate::Coverage, 0, Rate::TruePositive, 0.7, sigmoid).unwrap(),
        RateProblem::new(Rate::Error.minus(0.0), vec![coverage], sigmoid).unwrap(),
        RateProblem::new(Rate::FalsePositive.minus(0.0), vec![Rate::FalseNegative.minus(0.3)], sigmoid)
            .unwrap(),
        RateProblem::new(Rate::FalseNegative.minus(0.0), vec![Rate::TrueNegative.minus(0.9)], sigmoid)
            .unwrap(),
    ]
}

fn solved(problem: &RateProblem, s: &[f64], labels: &Labels) -> (Vec<f64>, Adjoint) {
    let t = problem.solve(s, labels).unwrap().t;
    let adjoint = problem.adjoint(s, labels, &t).unwrap();
    (t, adjoint)
}

#[test]
fn thresholds_solve_their_constraints() {
    for (case, problem) in problems(3.0).iter().enumerate() {
        for n in [12, 200] {
            let seed = SEED.stream(case as u64 * 10 + n as u64);
            let (s, mut y) = random(n, seed);
            // Positives and negatives in both groups.
            y[..4].copy_from_slice(&[1, 0, 1, 0]);
            // Few scores may have no smooth threshold of the precision.
            let found = match problem.solve(&s, &labels(&y, seed)) {
                Err(Error::Solve { .. }) if case == 4 && n == 12 => continue,
                found => found.unwrap(),
            };
            assert!(found.residual < 1e-10, "problem {case}, n {n}: {found:?}");
        }
    }
}

#[test]
fn cotangent_is_the_derivative_by_finite_differences() {
    for sharpness in [0.5, 5.0] {
        for (case, problem) in problems(sharpness).iter().enumerate() {
            let seed = SEED.stream(case as u64);
            let (s, mut y) = random(40, seed);
            y[..4].copy_from_slice(&[1, 0, 1, 0]);
            let labels = labels(&y, seed);
            let Ok(start) = problem.solve(&s, &labels) else { continue };
            let adjoint = problem.adjoint(&s, &labels, &start.t).unwrap();
            assert!(!adjoint.fold);
            let f = |s: &[f64]| {
                let t = problem.solve_from(s, &labels, &start.t).unwrap().t;
                problem.objective().slopes(s, &labels, &t, problem.surrogate()).unwrap().value
            };
            let numeric = differences(&s, 1e-5, f);
            assert_close(&adjoint.cotangent, &numeric, 2e-6);
        }
    }
}

#[test]
fn the_tensor_form_has_the_same_value_and_gradient() {
    for problem in problems(2.0) {
        let (s, mut y) = random(30, SEED);
        y[..4].copy_from_slice(&[1, 0, 1, 0]);
        let labels = labels(&y, SEED);
        let (t, adjoint) = solved(&problem, &s, &labels);
        let var = Var::new(s.as_slice(), device()).unwrap();
        for loss in [
            problem.lagrangian(&var, &labels, &t, &adjoint.multiplier).unwrap(),
            problem.loss(&var, &labels, &t).unwrap(),
        ] {
            let gradient = loss.backward().unwrap().get(&var).unwrap().to_vec1::<f64>().unwrap();
            assert_close(&gradient, &adjoint.cotangent, 1e-12);
            // Where the constraints hold, the Lagrangian is the objective.
            let value = loss.to_scalar::<f64>().unwrap();
            assert!((value - adjoint.objective).abs() < 1e-9, "{value} {}", adjoint.objective);
        }
    }
}

#[test]
fn invariances() {
    for problem in problems(2.0) {
        let (s, mut y) = random(50, SEED.stream(3));
        y[..4].copy_from_slice(&[1, 0, 1, 0]);
        let labels_once = labels(&y, SEED);
        let (t, once) = solved(&problem, &s, &labels_once);
        assert!(once.cotangent.iter().sum::<f64>().abs() < 1e-12);
        let shifted: Vec<f64> = s.iter().map(|s| s + 3.25).collect();
        let (moved, other) = solved(&problem, &shifted, &labels_once);
        assert_close(&moved, &t.iter().map(|t| t + 3.25).collect::<Vec<_>>(), 1e-9);
        assert!((other.objective - once.objective).abs() < 1e-9);
        // The batch twice: the same value, thresholds and multipliers.
        let a = groups(50, SEED);
        let twice = ndarray::concatenate![ndarray::Axis(0), a, a];
        let labels_twice = Labels::new([&y[..], &y[..]].concat()).unwrap().with_attributes(twice).unwrap();
        let (same, double) = solved(&problem, &[&s[..], &s[..]].concat(), &labels_twice);
        assert_close(&same, &t, 1e-9);
        assert_close(&double.multiplier, &once.multiplier, 1e-8);
    }
}

#[test]
fn thresholds_move_as_the_sensitivity_says() {
    for problem in problems(2.0) {
        let (s, mut y) = random(24, SEED.stream(8));
        y[..4].copy_from_slice(&[1, 0, 1, 0]);
        let labels = labels(&y, SEED);
        let t = problem.solve(&s, &labels).unwrap().t;
        let lists = problem.sensitivity(&s, &labels, &t).unwrap();
        for (k, list) in lists.iter().enumerate() {
            let numeric = differences(&s, 1e-5, |s| problem.solve_from(s, &labels, &t).unwrap().t[k]);
            assert_close(list, &numeric, 1e-6);
            assert!((list.iter().sum::<f64>() - 1.0).abs() < 1e-10);
        }
    }
}

#[test]
fn exact_counts_match_brute_force() {
    let (s, mut y) = random(60, SEED);
    y[..4].copy_from_slice(&[1, 0, 1, 0]);
    let labels = labels(&y, SEED);
    let a = groups(60, SEED);
    let t = [0.4];
    let count = |f: &dyn Fn(usize) -> bool| (0..60).filter(|i| f(*i)).count() as f64;
    let positive = |i: usize| y[i] == 1;
    let above = |i: usize| s[i] > 0.4;
    let cases = [
        (Rate::FalsePositive, count(&|i| !positive(i) && above(i)) / count(&|i| !positive(i))),
        (Rate::FalseNegative, count(&|i| positive(i) && !above(i)) / count(&positive)),
        (Rate::TruePositive, count(&|i| positive(i) && above(i)) / count(&positive)),
        (Rate::TrueNegative, count(&|i| !positive(i) && !above(i)) / count(&|i| !positive(i))),
        (Rate::Precision, count(&|i| positive(i) && above(i)) / count(&above)),
        (Rate::Coverage, count(&above) / 60.0),
        (Rate::Error, count(&|i| positive(i) != above(i)) / 60.0),
    ];
    for (rate, expected) in cases {
        let value = rate.minus(0.0).count(&s, &labels, &t).unwrap();
        assert!((value - expected).abs() < 1e-12, "{rate:?}");
    }
    let within = Rate::TruePositive.term().within(Within::With(0));
    let group = RateSum { terms: vec![within], constant: 0.0 }.count(&s, &labels, &t).unwrap();
    let inside = |i: usize| positive(i) && a[[i, 0]] == 1.0;
    assert!((group - count(&|i| inside(i) && above(i)) / count(&inside)).abs() < 1e-12);
    let outside = Rate::TruePositive.term().within(Within::Without(0));
    let others = RateSum { terms: vec![outside], constant: 0.0 }.count(&s, &labels, &t).unwrap();
    let rest = |i: usize| positive(i) && a[[i, 0]] == 0.0;
    assert!((others - count(&|i| rest(i) && above(i)) / count(&rest)).abs() < 1e-12);
}

#[test]
fn hard_thresholds_are_the_best_that_keep_their_constraint() {
    let (s, mut y) = random(80, SEED.stream(5));
    y[..4].copy_from_slice(&[1, 0, 1, 0]);
    let labels = labels(&y, SEED);
    let sigmoid = Surrogate::sigmoid(3.0);
    let candidates = || s.iter().copied().chain([f64::NEG_INFINITY]);
    let value = |sum: &RateSum, t: f64| sum.count(&s, &labels, &[t]);
    let fpr = RateProblem::fnr_at_fpr(0.1, sigmoid).unwrap();
    let t = fpr.hard_thresholds(&s, &labels).unwrap()[0];
    let admissible = candidates().filter(|t| value(&fpr.constraints()[0], *t).unwrap() <= 1e-12);
    let best = admissible.map(|t| value(fpr.objective(), t).unwrap()).fold(f64::INFINITY, f64::min);
    assert_eq!(value(fpr.objective(), t).unwrap(), best);
    let recall = RateProblem::precision_at_recall(0.8, sigmoid).unwrap();
    let t = recall.hard_thresholds(&s, &labels).unwrap()[0];
    let admissible = candidates().filter(|t| value(&recall.constraints()[0], *t).unwrap() >= -1e-12);
    let best = admissible.map(|t| value(recall.objective(), t).unwrap()).fold(f64::INFINITY, f64::min);
    assert_eq!(value(recall.objective(), t).unwrap(), best);
    let precision = RateProblem::recall_at_precision(0.6, sigmoid).unwrap();
    let t = precision.hard_thresholds(&s, &labels).unwrap()[0];
    let admissible =
        candidates().filter(|t| value(&precision.constraints()[0], *t).is_ok_and(|g| g >= -1e-12));
    let best = admissible.map(|t| value(precision.objective(), t).unwrap()).fold(f64::INFINITY, f64::min);
    assert_eq!(value(precision.objective(), t).unwrap(), best);
    let fair = RateProblem::equal_opportunity(0, 0.2, sigmoid).unwrap();
    let t = fair.hard_thresholds(&s, &labels).unwrap();
    assert!(fair.constraints()[1].count(&s, &labels, &t).unwrap() <= 1e-12);
    // A group's share moves in steps of one over its positives.
    let positives = |within| {
        let counted = Rate::TruePositive.term().within(within);
        let all = RateSum { terms: vec![counted], constant: 0.0 };
        all.count(&s, &labels, &[f64::NEG_INFINITY]).map(|_| ()).unwrap();
        (0..80)
            .filter(|i| y[*i] == 1 && (groups(80, SEED)[[*i, 0]] == 1.0) == (within == Within::With(0)))
            .count()
    };
    let coarse = positives(Within::With(0)).min(positives(Within::Without(0))) as f64;
    assert!(fair.constraints()[0].count(&s, &labels, &t).unwrap().abs() <= 1.0 / coarse);
}

#[test]
fn softplus_takes_hard_thresholds() {
    let (s, y) = random(100, SEED);
    let labels = Labels::new(y).unwrap();
    let problem = RateProblem::fnr_at_fpr(0.1, Surrogate::Softplus { sharpness: 1e-3 }).unwrap();
    assert_eq!(problem.solve(&s, &labels).unwrap().t, problem.hard_thresholds(&s, &labels).unwrap());
    let unbounded = RateProblem::recall_at_precision(0.5, Surrogate::Hinge).unwrap_err();
    assert!(matches!(unbounded, Error::Config { .. }), "{unbounded}");
}

#[test]
fn bad_input_is_told() {
    let sigmoid = Surrogate::sigmoid(1.0);
    for target in [0.0, 1.0, -0.5, f64::NAN] {
        assert!(matches!(RateProblem::fnr_at_fpr(target, sigmoid).unwrap_err(), Error::Config { .. }));
        assert!(matches!(
            RateProblem::recall_at_precision(target, sigmoid).unwrap_err(),
            Error::Config { .. }
        ));
        assert!(matches!(
            RateProblem::equal_opportunity(0, target, sigmoid).unwrap_err(),
            Error::Config { .. }
        ));
    }
    for sharpness in [0.0, -1.0, f64::NAN] {
        let error = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(sharpness)).unwrap_err();
        assert!(matches!(error, Error::Config { .. }), "{error}");
    }
    for (low, high, m) in [(0.5, 0.5, 3), (0.6, 0.5, 3), (0.0, 1.5, 3), (0.0, 1.0, 0), (f64::NAN, 1.0, 3)] {
        assert!(matches!(RateProblem::partial_auc(low, high, m, sigmoid).unwrap_err(), Error::Config { .. }));
    }
    let objective = || Rate::FalseNegative.minus(0.0);
    let two = RateSum { terms: vec![Rate::FalsePositive.term(), Rate::TruePositive.term()], constant: -1.0 };
    let elsewhere = RateSum { terms: vec![Rate::FalsePositive.term().at(At::Threshold(3))], constant: -0.1 };
    for constraints in [vec![], vec![two], vec![elsewhere], vec![Rate::Error.minus(0.1)]] {
        let error = RateProblem::new(objective(), constraints, sigmoid).unwrap_err();
        assert!(matches!(error, Error::Config { .. }), "{error}");
    }
    let problem = RateProblem::fnr_at_fpr(0.1, sigmoid).unwrap();
    for y in [[0u8, 0, 0], [1, 1, 1]] {
        let error = problem.solve([0.0, 1.0, 2.0], &Labels::new(y).unwrap()).unwrap_err();
        assert!(matches!(error, Error::Data { .. }) && error.to_string().contains("there is no"), "{error}");
    }
    let labels = Labels::new([0u8, 1, 0]).unwrap();
    assert!(matches!(problem.solve([0.0, f64::NAN, 1.0], &labels).unwrap_err(), Error::Data { .. }));
    assert!(matches!(problem.solve([0.0, 1.0], &labels).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(problem.adjoint([0.0, 1.0, 2.0], &labels, &[]).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(Labels::new([0.0, 2.0]).unwrap_err(), Error::Data { .. }));
    assert!(matches!(Labels::new(Vec::<f64>::new()).unwrap_err(), Error::Shape { .. }));
    // A group that nobody is in, and one that does not exist.
    let fair = RateProblem::equal_opportunity(0, 0.2, sigmoid).unwrap();
    let nobody = Labels::new([0u8, 1, 0]).unwrap().with_attributes(Array2::<f64>::zeros((3, 1))).unwrap();
    assert!(matches!(fair.solve([0.0, 1.0, 2.0], &nobody).unwrap_err(), Error::Data { .. }));
    assert!(matches!(fair.solve([0.0, 1.0, 2.0], &labels).unwrap_err(), Error::Config { .. }));
    // All negatives above all positives: no threshold is precise enough.
    let wrong = RateProblem::recall_at_precision(0.9, sigmoid).unwrap();
    let error = wrong.solve([2.0, 0.0, 3.0], &labels).unwrap_err();
    assert!(matches!(error, Error::Solve { .. }) && error.to_string().contains("precision"), "{error}");
}

#[test]
fn all_scores_equal_is_no_catastrophe() {
    let labels = Labels::new([0u8, 1, 0, 1, 0]).unwrap();
    let problem = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0)).unwrap();
    let (t, adjoint) = solved(&problem, &[1.5; 5], &labels);
    assert!(t[0].is_finite());
    // Positives sit where negatives do: their rate of misses is one minus the target.
    assert!((adjoint.objective - 0.9).abs() < 1e-12);
    assert!(adjoint.cotangent.iter().all(|c| c.is_finite()));
}
