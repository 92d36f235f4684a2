//! Closed forms: each equals its linear program, and what is known of the metric.

use lastlayer::candle::{DType, Device, Tensor, Var};
use lastlayer::error::{Error, Result};
use lastlayer::lp::{
    AucLoss, FLink, Lp, NewtonLp, Solution, Solver, Status, auc_loss, auc_mu_loss, auc_one_vs_all_loss,
    envelope, expected_f, f_decide, f_loss, independent_joint, precision_at_recall, recall_at_precision,
};
use lastlayer::ndarray::{Array2, array};
use lastlayer::numbers::AsF64;

use super::device::device;
use super::{SEED, assert_close, bell, differences, scores};

/// A closed form and a solver's optimum agree to the solver's tolerance.
const SOLVER: f64 = 1e-9;

/// Closed forms of the same number agree to rounding.
const ROUNDING: f64 = 1e-12;

/// Piecewise linear functions have exact differences but for rounding over the step, 1e-16 / 1e-6.
const DIFFERENCE: f64 = 1e-8;
const STEP: f64 = 1e-6;

const KINDS: [AucLoss; 2] = [AucLoss::Value, AucLoss::Ramp];

fn optimum(lp: &Lp) -> Solution {
    let found = NewtonLp::default().solve(lp).unwrap();
    assert_eq!(found.status, Status::Optimal, "{found:?}");
    found
}

/// All pairs of positives and negatives, in the order of the program.
fn pairs(y: &[u8]) -> Vec<(usize, usize)> {
    let of = |class: u8| (0..y.len()).filter(move |i| y[*i] == class);
    of(1).flat_map(|i| of(0).map(move |j| (i, j))).collect()
}

/// Gradient in the scores from the gradient in b of the AUC program.
fn through_pairs(y: &[u8], b_bar: &[f64]) -> Vec<f64> {
    let mut gradient = vec![0.0; y.len()];
    for ((i, j), b) in pairs(y).into_iter().zip(b_bar) {
        gradient[i] += b;
        gradient[j] -= b;
    }
    gradient
}

#[test]
fn auc_equals_its_linear_program() {
    for (case, n) in [2, 3, 9, 24].into_iter().enumerate() {
        let (s, y) = scores(n, SEED.named("auc").stream(case as u64));
        for margin in [0.1, 1.0] {
            let lp = Lp::auc(&s, &y, margin).unwrap();
            let found = optimum(&lp);
            let value = auc_loss(&s, &y, margin, AucLoss::Value).unwrap();
            assert!((value.value - found.value).abs() < SOLVER);
            assert_close(&through_pairs(&y, &envelope(&found).b), &value.gradient, SOLVER);
            // The ramp reads the same z otherwise.
            let ramp = found.z.iter().map(|z| (margin - z).max(0.0) / margin).sum::<f64>() / lp.n() as f64;
            assert!(
                (auc_loss(&s, &y, margin, AucLoss::Ramp).unwrap().value - (1.0 - ramp)).abs()
                    < SOLVER / margin
            );
        }
    }
}

/// Both losses pair by pair.
fn by_pairs(s: &[f64], y: &[u8], margin: f64, kind: AucLoss) -> f64 {
    let pairs = pairs(y);
    let loss = |d: f64| match kind {
        AucLoss::Value => (margin - d).max(0.0),
        AucLoss::Ramp => 1.0 - (d / margin).clamp(0.0, 1.0),
    };
    pairs.iter().map(|(i, j)| loss(s[*i] - s[*j])).sum::<f64>() / pairs.len() as f64
}

#[test]
fn auc_losses_and_gradients_are_those_of_all_pairs() {
    for case in 0..30u64 {
        let (s, y) = scores(2 + case as usize * 3, SEED.named("pairs").stream(case));
        for margin in [1e-3, 0.3, 2.0] {
            for kind in KINDS {
                let loss = auc_loss(&s, &y, margin, kind).unwrap();
                assert!((loss.value - by_pairs(&s, &y, margin, kind)).abs() < ROUNDING / margin.min(1.0));
                // Differences of a function with slopes of 1/margin.
                let numeric = differences(&s, 1e-7, |s| by_pairs(s, &y, margin, kind));
                assert_close(&loss.gradient, &numeric, 1e-6 / margin.min(1.0));
                // A shift of all scores changes nothing.
                assert!(loss.gradient.iter().sum::<f64>().abs() < ROUNDING / margin.min(1.0));
            }
        }
    }
}

/// Hard AUC with ties half.
fn auc(s: &[f64], y: &[u8]) -> f64 {
    let pairs = pairs(y);
    let win =
        |(i, j): &(usize, usize)| if s[*i] > s[*j] { 1.0 } else { 0.5 * f64::from(u8::from(s[*i] == s[*j])) };
    pairs.iter().map(win).sum::<f64>() / pairs.len() as f64
}

#[test]
fn the_ramp_lies_between_the_counts_at_the_margin_and_at_zero() {
    for case in 0..20u64 {
        let (s, y) = scores(25, SEED.named("sandwich").stream(case));
        let ramp = 1.0 - auc_loss(&s, &y, 0.2, AucLoss::Ramp).unwrap().value;
        let share = |least: f64| {
            let pairs = pairs(&y);
            pairs.iter().filter(|(i, j)| s[*i] - s[*j] >= least).count() as f64 / pairs.len() as f64
        };
        assert!(share(0.2) <= ramp + ROUNDING && ramp <= share(0.0) + ROUNDING);
        // The share of zeros in z counts the pairs at or beyond the margin.
        let z = optimum(&Lp::auc(&s, &y, 0.2).unwrap()).z;
        let zeros = z.iter().filter(|z| z.abs() < 1e-8).count() as f64 / z.len() as f64;
        assert!((zeros - share(0.2)).abs() < ROUNDING);
    }
}

#[test]
fn mis_ranked_pairs_have_no_gradient_in_the_ramp_and_the_most_in_the_value() {
    // One positive far below two negatives.
    let (s, y) = ([-5.0, 0.0, 1.0], [1u8, 0, 0]);
    let ramp = auc_loss(s, y, 0.1, AucLoss::Ramp).unwrap();
    assert!((ramp.value - 1.0).abs() < ROUNDING / 0.1);
    assert_eq!(ramp.gradient, vec![0.0; 3]);
    let value = auc_loss(s, y, 0.1, AucLoss::Value).unwrap();
    assert_close(&value.gradient, &[-1.0, 0.5, 0.5], ROUNDING);
}

#[test]
fn symmetries_ties_and_duplicates() {
    let (s, y) = scores(31, SEED.named("symmetry"));
    for kind in KINDS {
        let loss = auc_loss(&s, &y, 0.7, kind).unwrap();
        let negated: Vec<f64> = s.iter().map(|s| -s).collect();
        let swapped: Vec<u8> = y.iter().map(|y| 1 - y).collect();
        let mirror = auc_loss(&negated, &swapped, 0.7, kind).unwrap();
        assert!((mirror.value - loss.value).abs() < ROUNDING);
        assert_close(&mirror.gradient.iter().map(|g| -g).collect::<Vec<_>>(), &loss.gradient, ROUNDING);
        let shifted: Vec<f64> = s.iter().map(|s| s + 1e6).collect();
        // 1e6 leaves ten digits of each score.
        assert!((auc_loss(&shifted, &y, 0.7, kind).unwrap().value - loss.value).abs() < 1e-9);
        let twice = auc_loss([&s[..], &s[..]].concat(), [&y[..], &y[..]].concat(), 0.7, kind).unwrap();
        assert!((twice.value - loss.value).abs() < ROUNDING);
        assert_close(
            &twice.gradient[..31],
            &loss.gradient.iter().map(|g| g / 2.0).collect::<Vec<_>>(),
            ROUNDING,
        );
    }
    let (equal, y) = ([3.0; 6], [1u8, 0, 1, 0, 0, 1]);
    assert!((auc_loss(equal, y, 0.2, AucLoss::Value).unwrap().value - 0.2).abs() < ROUNDING);
    // The ramp begins at a tie: its gradient there is that of mis-ranked pairs, none.
    let ramp = auc_loss(equal, y, 0.2, AucLoss::Ramp).unwrap();
    assert!((ramp.value - 1.0).abs() < ROUNDING && ramp.gradient.iter().all(|g| *g == 0.0));
    assert_eq!(auc(&equal, &y), 0.5);
    // Exactly at the margin: z = 0 with two active rows, and no gradient.
    let at = auc_loss([0.5, 0.0], [1u8, 0], 0.5, AucLoss::Value).unwrap();
    assert_eq!((at.value, &at.gradient[..]), (0.0, &[0.0, 0.0][..]));
}

#[test]
fn a_hundred_thousand_of_each_class_agree_with_a_sample_of_rows() {
    let n = 100_000;
    let s: Vec<f64> = (0..2 * n).map(|i| bell(SEED, i) + f64::from(u8::from(i < n))).collect();
    let y: Vec<u8> = (0..2 * n).map(|i| u8::from(i < n)).collect();
    let loss = auc_loss(&s, &y, 0.3, AucLoss::Value).unwrap();
    for i in [0, 17, n - 1] {
        let close = s[n..].iter().filter(|g| s[i] - 0.3 < **g).count();
        assert!((loss.gradient[i] + close as f64 / (n as f64 * n as f64)).abs() < 1e-20);
    }
    assert!(loss.gradient.iter().sum::<f64>().abs() < ROUNDING);
}

/// Scores of three classes or more, each highest in its own column on average, with class sizes that differ.
fn several(n: usize, k: usize, name: &str) -> (Array2<f64>, Vec<u8>) {
    let seed = SEED.named(name);
    let y: Vec<u8> = (0..n).map(|i| if i < k { i } else { (i * i + i / 3) % k } as u8).collect();
    let s =
        Array2::from_shape_fn((n, k), |(i, j)| bell(seed, i * k + j) + f64::from(u8::from(y[i] == j as u8)));
    (s, y)
}

fn flat(gradient: &Array2<f64>) -> Vec<f64> {
    gradient.iter().copied().collect()
}

fn shaped(values: &[f64], like: &Array2<f64>) -> Array2<f64> {
    Array2::from_shape_vec(like.dim(), values.to_vec()).unwrap()
}

/// A partition matrix without any symmetry.
fn uneven(k: usize) -> Array2<f64> {
    Array2::from_shape_fn((k, k), |(i, j)| {
        bell(SEED.named("partition"), i * k + j) + 3.0 * f64::from(u8::from(i != j))
    })
}

#[test]
fn auc_mu_equals_its_linear_program() {
    for (n, k) in [(9, 2), (14, 3), (20, 4)] {
        let (s, y) = several(n, k, "mu");
        for partition in [None, Some(uneven(k))] {
            let lp = Lp::auc_mu(&s, &y, partition.as_ref(), 0.5).unwrap();
            let loss = auc_mu_loss(&s, &y, partition.as_ref(), 0.5, AucLoss::Value).unwrap();
            assert!((loss.value - optimum(&lp).value).abs() < SOLVER * (1.0 + loss.value));
            for kind in KINDS {
                let of = |s: &[f64]| {
                    auc_mu_loss(shaped(s, &loss.gradient), &y, partition.as_ref(), 0.5, kind).unwrap().value
                };
                let numeric = differences(&flat(&s), STEP, of);
                let loss = auc_mu_loss(&s, &y, partition.as_ref(), 0.5, kind).unwrap();
                assert_close(&flat(&loss.gradient), &numeric, DIFFERENCE * 10.0);
            }
        }
    }
}

#[test]
fn auc_mu_of_two_classes_is_the_binary_loss() {
    let (s, y) = several(17, 2, "two");
    // Class 0 is first, so it is the positive one; the projected score is 2 (s₀ − s₁).
    let t: Vec<f64> = s.rows().into_iter().map(|row| 2.0 * (row[0] - row[1])).collect();
    // u = P₀ − P₁ = (−1, 1), u[0] − u[1] = −2: along = (2, −2).
    let first: Vec<u8> = y.iter().map(|y| 1 - y).collect();
    for kind in KINDS {
        let (mu, binary) =
            (auc_mu_loss(&s, &y, None, 0.4, kind).unwrap(), auc_loss(&t, &first, 0.4, kind).unwrap());
        assert!((mu.value - binary.value).abs() < ROUNDING);
        let column: Vec<f64> = mu.gradient.column(0).iter().map(|g| g / 2.0).collect();
        assert_close(&column, &binary.gradient, ROUNDING);
    }
}

#[test]
fn a_perfect_classifier_has_no_loss_and_the_printed_sign_would_punish_it() {
    let y = [0u8, 1, 2, 0, 1, 2];
    let s = Array2::from_shape_fn((6, 3), |(i, j)| f64::from(u8::from(usize::from(y[i]) == j)));
    for kind in KINDS {
        assert_eq!(auc_mu_loss(&s, y, None, 0.1, kind).unwrap().value, 0.0);
    }
    // With the sign of Eq. (2), every pair is read as −O = −4 and the loss is 0.1 + 4.
    let wrong = auc_mu_loss(&-&s, y, None, 0.1, AucLoss::Value).unwrap().value;
    assert!((wrong - 4.1).abs() < ROUNDING, "{wrong}");
}

#[test]
fn more_samples_of_a_class_do_not_change_auc_mu() {
    let (s, y) = several(12, 3, "skew");
    let once = auc_mu_loss(&s, &y, None, 0.5, AucLoss::Ramp).unwrap().value;
    let rows: Vec<usize> =
        (0..12).flat_map(|i| std::iter::repeat_n(i, if y[i] == 1 { 9 } else { 1 })).collect();
    let many = s.select(lastlayer::ndarray::Axis(0), &rows);
    let labels: Vec<u8> = rows.iter().map(|i| y[*i]).collect();
    let skewed = auc_mu_loss(&many, &labels, None, 0.5, AucLoss::Ramp).unwrap().value;
    assert!((once - skewed).abs() < ROUNDING, "{once} {skewed}");
}

#[test]
fn the_names_of_classes_do_not_matter() {
    let (s, y) = several(15, 4, "names");
    let order = [2usize, 0, 3, 1];
    // Class k becomes order[k], and its column with it.
    let mut renamed = Array2::zeros(s.dim());
    (0..4).for_each(|k| renamed.column_mut(order[k]).assign(&s.column(k)));
    let labels: Vec<u8> = y.iter().map(|y| order[usize::from(*y)] as u8).collect();
    for kind in KINDS {
        let (a, b) = (
            auc_mu_loss(&s, &y, None, 0.3, kind).unwrap(),
            auc_mu_loss(&renamed, &labels, None, 0.3, kind).unwrap(),
        );
        assert!((a.value - b.value).abs() < ROUNDING);
        let a = auc_one_vs_all_loss(&s, &y, 0.3, kind).unwrap();
        let b = auc_one_vs_all_loss(&renamed, &labels, 0.3, kind).unwrap();
        assert!((a.value - b.value).abs() < ROUNDING);
    }
}

#[test]
fn one_vs_all_equals_its_linear_program() {
    let (s, y) = several(13, 3, "rest");
    let loss = auc_one_vs_all_loss(&s, &y, 0.5, AucLoss::Value).unwrap();
    assert!((loss.value - optimum(&Lp::auc_one_vs_all(&s, &y, 0.5).unwrap()).value).abs() < SOLVER);
    for kind in KINDS {
        let loss = auc_one_vs_all_loss(&s, &y, 0.5, kind).unwrap();
        let mut mean = 0.0;
        for k in 0..3 {
            let own: Vec<u8> = y.iter().map(|y| u8::from(usize::from(*y) == k)).collect();
            let binary = auc_loss(s.column(k).to_vec(), &own, 0.5, kind).unwrap();
            mean += binary.value / 3.0;
            let third: Vec<f64> = binary.gradient.iter().map(|g| g / 3.0).collect();
            assert_close(&loss.gradient.column(k).to_vec(), &third, ROUNDING);
        }
        assert!((loss.value - mean).abs() < ROUNDING);
    }
}

#[test]
fn f_loss_equals_its_linear_program() {
    let (s, y) = scores(16, SEED.named("f"));
    for link in [FLink::Sigmoid, FLink::Ramp { margin: 2.0 }] {
        for beta in [0.5, 1.0, 2.0] {
            let r: Vec<f64> = s.iter().map(|s| link.decide(*s).0).collect();
            let found = optimum(&Lp::f_train(&r, &y, beta).unwrap());
            let loss = f_loss(&s, &y, beta, link).unwrap();
            assert!(
                (1.0 - loss.value + found.value).abs() < SOLVER,
                "{link:?} {beta}: {} {}",
                loss.value,
                found.value
            );
            // h = u/t is the link itself.
            let t = found.z[16];
            assert_close(&found.z[..16].iter().map(|u| u / t).collect::<Vec<_>>(), &r, 1e-7);
            let numeric = differences(&s, 1e-5, |s| f_loss(s, &y, beta, link).unwrap().value);
            // Third derivatives of a sigmoid times the step squared.
            assert_close(&loss.gradient, &numeric, 1e-9);
        }
    }
}

#[test]
fn the_gradient_of_f_comes_through_the_matrix() {
    let (s, y) = scores(12, SEED.named("f matrix"));
    let r: Vec<f64> = s.iter().map(|s| FLink::Sigmoid.decide(*s).0).collect();
    let found = optimum(&Lp::f_train(&r, &y, 1.0).unwrap());
    let gradients = envelope(&found);
    // r_i stands in row i and the last column, negated for positives.
    let through: Vec<f64> = (0..12)
        .map(|i| gradients.A.get(i, 12) * if y[i] == 1 { -1.0 } else { 1.0 } * FLink::Sigmoid.decide(s[i]).1)
        .collect();
    assert_close(&through, &f_loss(&s, &y, 1.0, FLink::Sigmoid).unwrap().gradient, 1e-8);
}

#[test]
fn calling_all_positive_is_worth_the_known_value_and_saturates() {
    let y: Vec<u8> = (0..10).map(|i| u8::from(i < 5)).collect();
    let all = f_loss([1.0; 10], &y, 1.0, FLink::Ramp { margin: 0.5 }).unwrap();
    assert!((all.value - (1.0 - 2.0 * 0.5 / 1.5)).abs() < ROUNDING);
    assert!(all.gradient.iter().all(|g| *g == 0.0));
    // Inside the link, negatives push down: dF/dh = −F/Den = −(2/3)/15.
    let inside = f_loss([0.5 - 1e-12; 10], &y, 1.0, FLink::Ramp { margin: 0.5 }).unwrap();
    assert!((inside.gradient[9] - 2.0 / 45.0).abs() < 1e-9, "{inside:?}");
}

#[test]
fn f_decide_equals_its_linear_program() {
    for case in 0..10u64 {
        let eta: Vec<f64> = (0..15).map(|i| SEED.named("eta").stream(case).uniform(i)).collect();
        for beta in [0.5, 1.0, 2.0] {
            let best = f_decide(&eta, beta).unwrap();
            let found = optimum(&Lp::f_infer(&eta, beta).unwrap());
            assert!(
                (best.value + found.value).abs() < SOLVER,
                "{case} {beta}: {} {}",
                best.value,
                found.value
            );
            let threshold = best.value / (1.0 + beta * beta);
            assert_eq!(best.called, eta.iter().map(|p| *p > threshold).collect::<Vec<_>>());
        }
    }
}

/// Every subset of n, as flags.
fn subsets(n: usize) -> impl Iterator<Item = Vec<bool>> {
    (0..1u32 << n).map(move |bits| (0..n).map(|i| bits >> i & 1 == 1).collect())
}

#[test]
fn f_decide_is_the_best_of_all_subsets() {
    for n in [1, 2, 5, 12] {
        let eta: Vec<f64> =
            (0..n as u64).map(|i| SEED.named("subsets").stream(n as u64).uniform(i)).collect();
        let total: f64 = eta.iter().sum();
        let worth = |called: &Vec<bool>| {
            let (count, sum) =
                called.iter().zip(&eta).filter(|(c, _)| **c).fold((0, 0.0), |(n, s), (_, p)| (n + 1, s + p));
            2.0 * sum / (total + f64::from(count))
        };
        let best = subsets(n).map(|called| worth(&called)).fold(0.0, f64::max);
        assert!((f_decide(&eta, 1.0).unwrap().value - best).abs() < ROUNDING);
    }
}

#[test]
fn expected_f_is_the_best_of_all_decisions() {
    for n in [1, 3, 6, 8] {
        for beta in [1.0, 2.0] {
            let eta: Vec<f64> =
                (0..n as u64).map(|i| 0.6 * SEED.named("gfm").stream(n as u64).uniform(i)).collect();
            let (joint, none) = independent_joint(&eta).unwrap();
            let found = expected_f(&joint, none, beta).unwrap();
            let chance = |truth: &[bool]| {
                truth.iter().zip(&eta).map(|(t, p)| if *t { *p } else { 1.0 - p }).product::<f64>()
            };
            let f = |truth: &[bool], called: &[bool]| {
                let count = |flags: &[bool]| flags.iter().filter(|f| **f).count() as f64;
                let both = truth.iter().zip(called).filter(|(t, c)| **t && **c).count() as f64;
                let under = beta * beta * count(truth) + count(called);
                if under == 0.0 { 1.0 } else { (1.0 + beta * beta) * both / under }
            };
            let worth =
                |called: &[bool]| subsets(n).map(|truth| chance(&truth) * f(&truth, called)).sum::<f64>();
            let best = subsets(n).map(|called| worth(&called)).fold(0.0, f64::max);
            assert!((found.value - best).abs() < ROUNDING, "{n}: {} {best}", found.value);
            assert!((worth(&found.called) - best).abs() < ROUNDING);
        }
    }
}

#[test]
fn neyman_pearson_equals_its_linear_program() {
    for case in 0..10u64 {
        let (s, y) = scores(6 + 3 * case as usize, SEED.named("np").stream(case));
        for (recall, margin) in [(0.9, 0.5), (0.5, 1.0), (0.05, 0.1)] {
            let closed = precision_at_recall(&s, &y, recall, margin).unwrap();
            let lp = Lp::precision_at_recall(&s, &y, recall, margin).unwrap();
            let found = optimum(&lp);
            assert!(
                (closed.value - found.value).abs() < SOLVER,
                "{case} {recall}: {} {}",
                closed.value,
                found.value
            );
            // The budget row is the one after the hinges.
            if !found.degenerate {
                assert!((found.z[lp.n() - 1] - closed.threshold).abs() < 1e-7);
                assert!((found.v[lp.n() - 1] - closed.multiplier).abs() < 1e-7);
            }
            let budget: f64 = (0..s.len())
                .filter(|i| y[*i] == 1)
                .map(|i| (margin - s[i] + closed.threshold).max(0.0))
                .sum();
            let positives = y.iter().filter(|y| **y == 1).count() as f64;
            assert!((budget / positives - (1.0 - recall)).abs() < ROUNDING);
        }
    }
}

#[test]
fn neyman_pearson_gradients_match_finite_differences_and_sum_to_zero() {
    for case in 0..20u64 {
        let (s, y) = scores(30, SEED.named("np gradient").stream(case));
        let closed = precision_at_recall(&s, &y, 0.8, 0.5).unwrap();
        let numeric = differences(&s, STEP, |s| precision_at_recall(s, &y, 0.8, 0.5).unwrap().value);
        assert_close(&closed.gradient, &numeric, DIFFERENCE);
        assert!(closed.gradient.iter().sum::<f64>().abs() < ROUNDING);
    }
}

#[test]
fn neyman_pearson_is_feasible_for_every_recall() {
    let (s, y) = scores(20, SEED.named("ends"));
    let mut last = f64::NEG_INFINITY;
    for recall in [0.0, 0.01, 0.5, 0.99, 1.0] {
        let closed = precision_at_recall(&s, &y, recall, 0.5).unwrap();
        let found = optimum(&Lp::precision_at_recall(&s, &y, recall, 0.5).unwrap());
        assert!((closed.value - found.value).abs() < SOLVER, "{recall}: {} {}", closed.value, found.value);
        assert!(closed.value >= last);
        last = closed.value;
    }
    // Nothing may be missed: the threshold is the lowest positive less the margin.
    let lowest = (0..20).filter(|i| y[*i] == 1).map(|i| s[i]).fold(f64::INFINITY, f64::min);
    assert!((precision_at_recall(&s, &y, 1.0, 0.5).unwrap().threshold - (lowest - 0.5)).abs() < ROUNDING);
}

#[test]
fn hinges_bound_counts_at_margin_one_and_not_below() {
    let (mut kept, mut broken) = (0, 0);
    for case in 0..50u64 {
        let (s, y) = scores(40, SEED.named("bound").stream(case));
        for margin in [1.0, 0.05] {
            let t = precision_at_recall(&s, &y, 0.8, margin).unwrap().threshold;
            let positives = (0..40).filter(|i| y[*i] == 1).count() as f64;
            let recalled = (0..40).filter(|i| y[*i] == 1 && s[*i] > t).count() as f64 / positives;
            if margin == 1.0 {
                kept += usize::from(recalled >= 0.8);
            } else {
                broken += usize::from(recalled < 0.8);
            }
        }
    }
    assert_eq!(kept, 50);
    assert!(broken > 25, "{broken}");
}

#[test]
fn neyman_pearson_gradients_come_through_the_bounds() {
    let (s, y) = scores(25, SEED.named("np bounds"));
    let closed = precision_at_recall(&s, &y, 0.8, 0.5).unwrap();
    let found = optimum(&Lp::precision_at_recall(&s, &y, 0.8, 0.5).unwrap());
    let b_bar = envelope(&found).b;
    // Rows of negatives hold −s_j in b, then rows of positives s_i.
    let of = |class: u8| (0..25).filter(|i| y[*i] == class).collect::<Vec<_>>();
    let mut through = vec![0.0; 25];
    of(0).iter().zip(&b_bar).for_each(|(j, b)| through[*j] = -b);
    of(1).iter().zip(&b_bar[of(0).len()..]).for_each(|(i, b)| through[*i] = *b);
    assert_close(&through, &closed.gradient, 1e-8);
}

#[test]
fn recall_at_precision_equals_its_linear_program() {
    let (mut optimal, mut infeasible) = (0, 0);
    for case in 0..40u64 {
        let (s, y) = scores(24, SEED.named("rap").stream(case));
        let precision = [0.0, 0.3, 0.6, 0.8, 1.0][case as usize % 5];
        let found =
            NewtonLp::default().solve(&Lp::recall_at_precision(&s, &y, precision, 0.5).unwrap()).unwrap();
        match recall_at_precision(&s, &y, precision, 0.5) {
            Ok(closed) => {
                optimal += 1;
                assert_eq!(found.status, Status::Optimal, "{case}: {found:?}");
                assert!(
                    (found.value - closed.value).abs() < SOLVER,
                    "{case}: {} {}",
                    found.value,
                    closed.value
                );
            }
            Err(error) => {
                infeasible += 1;
                assert!(matches!(error, Error::Data { .. }), "{error}");
                assert_eq!(found.status, Status::Infeasible, "{case}: {found:?}");
            }
        }
    }
    assert!(optimal > 8 && infeasible > 8, "{optimal} {infeasible}");
}

#[test]
fn recall_at_precision_gradients_match_finite_differences_and_sum_to_zero() {
    let mut steep = 0;
    for case in 0..40u64 {
        let (s, y) = scores(30, SEED.named("rap gradient").stream(case));
        let Ok(closed) = recall_at_precision(&s, &y, 0.3, 0.2) else { continue };
        steep += usize::from(closed.value > 0.0);
        let numeric = differences(&s, STEP, |s| recall_at_precision(s, &y, 0.3, 0.2).unwrap().value);
        // The multiplier grows where the precision is barely reached, and rounding with it.
        assert_close(&closed.gradient, &numeric, DIFFERENCE * (1.0 + closed.multiplier));
        assert!(closed.gradient.iter().sum::<f64>().abs() < ROUNDING * (1.0 + closed.multiplier));
    }
    assert!(steep > 10, "{steep}");
}

#[test]
fn bad_scores_and_labels_are_refused() {
    let (s, y) = ([0.3, -0.2, 0.9, 0.1], [1u8, 0, 1, 0]);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let broken = [0.3, bad, 0.9, 0.1];
        assert!(matches!(auc_loss(broken, y, 0.1, AucLoss::Value).unwrap_err(), Error::Data { .. }));
        assert!(matches!(Lp::auc(broken, y, 0.1).unwrap_err(), Error::Data { .. }));
        assert!(matches!(f_loss(broken, y, 1.0, FLink::Sigmoid).unwrap_err(), Error::Data { .. }));
        assert!(matches!(precision_at_recall(broken, y, 0.5, 0.1).unwrap_err(), Error::Data { .. }));
        assert!(matches!(Lp::precision_at_recall(broken, y, 0.5, 0.1).unwrap_err(), Error::Data { .. }));
        assert!(matches!(f_decide(broken, 1.0).unwrap_err(), Error::Data { .. }));
        let table = array![[0.1, bad], [0.2, 0.3]];
        assert!(matches!(
            auc_mu_loss(&table, [0u8, 1], None, 0.1, AucLoss::Value).unwrap_err(),
            Error::Data { .. }
        ));
        assert!(matches!(Lp::auc_one_vs_all(&table, [0u8, 1], 0.1).unwrap_err(), Error::Data { .. }));
    }
    for one_class in [[0u8; 4], [1u8; 4]] {
        assert!(matches!(auc_loss(s, one_class, 0.1, AucLoss::Ramp).unwrap_err(), Error::Data { .. }));
        assert!(matches!(Lp::auc(s, one_class, 0.1).unwrap_err(), Error::Data { .. }));
        assert!(matches!(precision_at_recall(s, one_class, 0.5, 0.1).unwrap_err(), Error::Data { .. }));
    }
    assert!(matches!(f_loss(s, [0u8; 4], 1.0, FLink::Sigmoid).unwrap_err(), Error::Data { .. }));
    assert!(matches!(Lp::f_train([0.5; 4], [0u8; 4], 1.0).unwrap_err(), Error::Data { .. }));
    assert!(matches!(Lp::f_train([1.5; 4], y, 1.0).unwrap_err(), Error::Data { .. }));
    assert!(matches!(Lp::f_infer([0.0; 4], 1.0).unwrap_err(), Error::Data { .. }));
    assert!(matches!(auc_loss(s, [1u8, 0, 2, 0], 0.1, AucLoss::Value).unwrap_err(), Error::Data { .. }));
    assert!(matches!(auc_loss(s, [1u8, 0], 0.1, AucLoss::Value).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(auc_loss([0.0; 0], [0u8; 0], 0.1, AucLoss::Value).unwrap_err(), Error::Shape { .. }));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(auc_loss(s, y, bad, AucLoss::Value).unwrap_err(), Error::Config { .. }));
        assert!(matches!(Lp::auc(s, y, bad).unwrap_err(), Error::Config { .. }));
        assert!(matches!(f_loss(s, y, bad, FLink::Sigmoid).unwrap_err(), Error::Config { .. }));
        assert!(matches!(f_loss(s, y, 1.0, FLink::Ramp { margin: bad }).unwrap_err(), Error::Config { .. }));
    }
    for bad in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(precision_at_recall(s, y, bad, 0.1).unwrap_err(), Error::Config { .. }));
        assert!(matches!(recall_at_precision(s, y, bad, 0.1).unwrap_err(), Error::Config { .. }));
        assert!(matches!(Lp::recall_at_precision(s, y, bad, 0.1).unwrap_err(), Error::Config { .. }));
    }
}

#[test]
fn bad_classes_and_partitions_are_refused() {
    let s = array![[0.1, 0.2, 0.3], [0.3, 0.1, 0.0], [0.5, 0.5, 0.1]];
    let mu = |y: [u8; 3], partition: Option<&Array2<f64>>| {
        auc_mu_loss(&s, y, partition, 0.1, AucLoss::Value).unwrap_err()
    };
    assert!(matches!(mu([0, 1, 1], None), Error::Data { .. }));
    assert!(matches!(mu([0, 1, 3], None), Error::Data { .. }));
    assert!(matches!(mu([0, 1, 2], Some(&Array2::ones((3, 3)))), Error::Config { .. }));
    assert!(matches!(mu([0, 1, 2], Some(&Array2::ones((2, 2)))), Error::Shape { .. }));
    assert!(matches!(mu([0, 1, 2], Some(&Array2::from_elem((3, 3), f64::NAN))), Error::Data { .. }));
    let single = array![[0.1], [0.2]];
    let error = auc_mu_loss(&single, [0u8, 0], None, 0.1, AucLoss::Value).unwrap_err();
    assert!(matches!(error, Error::Shape { .. }));
    assert!(matches!(Lp::auc_mu(&single, [0u8, 0], None, 0.1).unwrap_err(), Error::Shape { .. }));
}

/// A loss by sorting: what it returns but the gradient, the gradient, where that is, and the loss as a tensor.
type Found = (Vec<f64>, Vec<f64>, Option<Tensor>, Tensor);
type Sorting = Box<dyn Fn(&Tensor, &Tensor) -> Result<Found>>;

macro_rules! found {
    ($loss:expr, $s:expr, [$($number:ident),*]) => {{
        let loss = $loss?;
        let gradient = loss.gradient.numbers()?.into_owned();
        (vec![$(loss.$number),*], gradient, loss.gradient.on_device().cloned(), loss.on($s)?)
    }};
}

/// Losses of two classes at a margin.
fn of_two(margin: f64) -> Vec<(String, Sorting)> {
    let mut all: Vec<(String, Sorting)> = Vec::new();
    for kind in KINDS {
        let auc: Sorting = Box::new(move |s, y| Ok(found!(auc_loss(s, y, margin, kind), s, [value])));
        all.push((format!("auc {kind:?}"), auc));
    }
    for link in [FLink::Sigmoid, FLink::Ramp { margin }] {
        let f: Sorting = Box::new(move |s, y| Ok(found!(f_loss(s, y, 0.7, link), s, [value])));
        all.push((format!("F {link:?}"), f));
    }
    for share in [0.0, 0.4, 0.7, 1.0] {
        let precision: Sorting = Box::new(move |s, y| {
            let found = precision_at_recall(s, y, share, margin);
            Ok(found!(found, s, [value, threshold, multiplier]))
        });
        let recall: Sorting = Box::new(move |s, y| {
            let found = recall_at_precision(s, y, share, margin);
            Ok(found!(found, s, [value, threshold, multiplier]))
        });
        all.extend([(format!("precision at recall {share}"), precision)]);
        all.extend([(format!("recall at precision {share}"), recall)]);
    }
    all
}

/// Losses of k classes at a margin.
fn of_several(k: usize, margin: f64) -> Vec<(String, Sorting)> {
    let mut all: Vec<(String, Sorting)> = Vec::new();
    for kind in KINDS {
        for partition in [None, Some(uneven(k))] {
            let name = format!("AUC mu {kind:?}, partition {}", partition.is_some());
            let mu: Sorting = Box::new(move |s, y| {
                Ok(found!(auc_mu_loss(s, y, partition.as_ref(), margin, kind), s, [value]))
            });
            all.push((name, mu));
        }
        let rest: Sorting =
            Box::new(move |s, y| Ok(found!(auc_one_vs_all_loss(s, y, margin, kind), s, [value])));
        all.push((format!("AUC one against all {kind:?}"), rest));
    }
    all
}

/// Scores and labels on the host and on the device of the tests, and with them once more where they are not contiguous.
fn everywhere(s: &[f64], columns: usize, y: &[u8], dtype: DType) -> Vec<[(Tensor, Tensor); 2]> {
    let n = y.len();
    let shape = if columns == 1 { vec![n] } else { vec![n, columns] };
    let labels = Tensor::from_vec(y.to_vec(), n, &Device::Cpu).unwrap();
    let s = Tensor::from_vec(s.to_vec(), shape.clone(), &Device::Cpu).unwrap().to_dtype(dtype).unwrap();
    let strided = |x: &Tensor| {
        let flat = x.reshape((n, columns)).unwrap();
        let wide = Tensor::cat(&[&flat, &flat, &flat], 1).unwrap().t().unwrap().contiguous().unwrap();
        wide.t().unwrap().narrow(1, columns, columns).unwrap()
    };
    let on = |x: &Tensor, device: &Device| x.to_device(device).unwrap();
    let place = |device: &Device| (on(&s, device), on(&labels, device).to_dtype(DType::U32).unwrap());
    let odd = |(s, y): (Tensor, Tensor)| (strided(&s), y.to_dtype(DType::F32).unwrap());
    let both = [place(&Device::Cpu), place(device())];
    vec![both.clone(), both.map(odd)]
}

#[track_caller]
fn assert_same(name: &str, loss: &Sorting, [here, there]: &[(Tensor, Tensor); 2], tolerance: f64) {
    match (loss(&here.0, &here.1), loss(&there.0, &there.1)) {
        (Ok((numbers, gradient, place, _)), Ok((found, slopes, there_place, tensor))) => {
            assert!(place.is_none() && there_place.is_some() != device().is_cpu(), "{name}");
            let scale = numbers.iter().chain(&gradient).fold(1.0f64, |most, v| most.max(v.abs()));
            for (i, (a, b)) in numbers.iter().chain(&gradient).zip(found.iter().chain(&slopes)).enumerate() {
                let close = (a - b).abs() <= tolerance * scale;
                assert!(close, "{name}, {:?}: number {i} is {a} and {b}", there.0);
            }
            assert_eq!(gradient.len(), slopes.len());
            if slopes.len() > 1000 {
                return;
            }
            // The tensor hands them back.
            let s = Var::from_tensor(&there.0.contiguous().unwrap()).unwrap();
            let (.., tensor_of) = loss(s.as_tensor(), &there.1).unwrap();
            assert_eq!((tensor_of.dtype(), tensor.dims().len()), (there.0.dtype(), 0));
            let back = tensor_of.backward().unwrap().get(&s).unwrap().clone();
            assert_eq!(back.dims(), there.0.dims());
            let single = if there.0.dtype() == DType::F32 { 1e-6 } else { 0.0 };
            assert_close(&back.numbers().unwrap(), &slopes, single);
        }
        (Err(here), Err(there)) => assert_eq!(here.to_string(), there.to_string(), "{name}"),
        (here, there) => panic!("{name}: {:?} and {:?}", here.map(|f| f.0), there.map(|f| f.0)),
    }
}

/// Quarters, of which many are equal.
fn quarters(s: &[f64]) -> Vec<f64> {
    s.iter().map(|s| (4.0 * s).round() / 4.0).collect()
}

#[test]
fn losses_are_the_same_on_every_device() {
    for n in [2, 3, 37] {
        let (s, y) = scores(n, SEED.named("devices").stream(n as u64));
        let one: Vec<u8> = (0..n).map(|i| u8::from(i == n / 2)).collect();
        let others: Vec<u8> = one.iter().map(|y| 1 - y).collect();
        let far: Vec<f64> = s.iter().map(|s| s - 1e4).collect();
        for dtype in [DType::F64, DType::F32] {
            for (what, s, y, tolerance) in [
                ("plain", &s, &y, ROUNDING),
                ("with ties", &quarters(&s), &y, ROUNDING),
                ("one positive", &s, &one, ROUNDING),
                ("one negative", &quarters(&s), &others, ROUNDING),
                // Twelve digits are left.
                ("far from zero", &far, &y, 1e-11),
            ] {
                for places in everywhere(s, 1, y, dtype) {
                    for (name, loss) in of_two(0.3) {
                        assert_same(&format!("{name}, {what}, {n}"), &loss, &places, 10.0 * tolerance);
                    }
                }
            }
            let (s, y) = several(n.max(3), 3, "devices");
            for places in everywhere(&flat(&s), 3, &y, dtype) {
                for (name, loss) in of_several(3, 0.3) {
                    assert_same(&format!("{name}, {n}"), &loss, &places, 100.0 * ROUNDING);
                }
            }
        }
    }
}

#[test]
fn lists_longer_than_a_device_can_sort_are_sorted_in_parts() {
    for n in [1000, 9001] {
        let (s, y) = scores(n, SEED.named("parts"));
        let places = &everywhere(&quarters(&s), 1, &y, DType::F64)[0];
        for (name, loss) in of_two(0.3) {
            assert_same(&format!("{name}, {n}"), &loss, places, 10.0 * ROUNDING);
        }
        let (s, y) = several(n, 3, "parts");
        let places = &everywhere(&flat(&s), 3, &y, DType::F32)[0];
        for (name, loss) in of_several(3, 0.3) {
            assert_same(&format!("{name}, {n}"), &loss, places, 100.0 * ROUNDING);
        }
    }
}

#[test]
fn pairs_exactly_at_the_margin_are_the_same_on_every_device() {
    // Eighths and as many negatives as a power of two: the middle of the CPU is exact, and so is every difference.
    let s: Vec<f64> = (0..512).map(|i| f64::from((i * 37 + i / 7) % 64) / 8.0).collect();
    let y: Vec<u8> = (0..512).map(|i| (i % 2) as u8).collect();
    for places in everywhere(&s, 1, &y, DType::F32) {
        for (name, loss) in of_two(0.25) {
            assert_same(&name, &loss, &places, ROUNDING);
        }
    }
    // Many classes: pairs of classes come in several parts.
    let (s, y) = several(60, 7, "many");
    for places in everywhere(&flat(&s), 7, &y, DType::F64) {
        for (name, loss) in of_several(7, 0.25) {
            assert_same(&name, &loss, &places, 100.0 * ROUNDING);
        }
    }
}

#[test]
fn what_is_wrong_has_the_same_words_on_every_device() {
    let (s, y) = (vec![0.3, -0.2, 0.9, 0.1, 0.0, 1.0], vec![1u8, 0, 1, 0, 2, 2]);
    let two = vec![1u8, 0, 1, 0, 0, 1];
    let mut refused = 0;
    let mut compare = |s: &[f64], columns: usize, y: &[u8], losses: Vec<(String, Sorting)>| {
        for places in everywhere(s, columns, y, DType::F64) {
            for (name, loss) in &losses {
                refused += usize::from(loss(&places[1].0, &places[1].1).is_err());
                assert_same(name, loss, &places, ROUNDING);
            }
        }
    };
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for i in [0, 3] {
            let mut broken = s.clone();
            broken[i] = bad;
            compare(&broken, 1, &two, of_two(0.3));
            compare(&[&broken[..], &s, &s].concat(), 3, &y, of_several(3, 0.3));
        }
    }
    compare(&s, 1, &y, of_two(0.3));
    for class in [0, 1] {
        compare(&s, 1, &[class; 6], of_two(0.3));
    }
    for labels in [[0, 1, 1, 0, 1, 0], [0, 1, 2, 3, 1, 0]] {
        compare(&[&s[..], &s, &s].concat(), 3, &labels, of_several(3, 0.3));
    }
    for margin in [0.0, f64::NAN] {
        compare(&s, 1, &two, of_two(margin));
        compare(&[&s[..], &s, &s].concat(), 3, &y, of_several(3, margin));
    }
    assert!(refused > 150, "{refused}");
    // As many labels as scores, and no fewer than one.
    let [scores, labels] = [4usize, 3].map(|n| Tensor::ones(n, DType::F64, device()).unwrap());
    let host = auc_loss([1.0; 4], [1.0; 3], 0.3, AucLoss::Value).unwrap_err();
    let there = auc_loss(&scores, &labels, 0.3, AucLoss::Value).unwrap_err();
    assert_eq!(host.to_string(), there.to_string());
    let flat = auc_mu_loss(&scores, &labels, None, 0.3, AucLoss::Value).unwrap_err();
    assert!(matches!(flat, Error::Shape { .. }));
}

#[test]
fn a_gradient_reads_as_a_list_wherever_it_is() {
    let s = Tensor::new(&[0.5f32, -0.3, 0.2, 0.9], device()).unwrap();
    // Labels of the host go to the scores.
    let loss = auc_loss(&s, [1, 0, 0, 1], 1.0, AucLoss::Value).unwrap();
    assert_eq!(loss.gradient.sizes(), [4]);
    assert_eq!(loss.gradient, loss.gradient.to_vec());
    assert_eq!(loss.clone(), loss);
    assert_eq!(format!("{:?}", loss.gradient), format!("{:?}", loss.gradient.numbers().unwrap()));
    assert!(loss.gradient.iter().sum::<f64>().abs() < ROUNDING && loss.gradient[0] < 0.0);
    // What is computed on a device is a loss of scores elsewhere too, of as many.
    let host = s.to_device(&Device::Cpu).unwrap();
    assert_eq!(loss.on(&host).unwrap().to_scalar::<f32>().unwrap(), loss.value as f32);
    for s in [&s, &host] {
        assert!(matches!(loss.on(&s.narrow(0, 0, 3).unwrap()).unwrap_err(), Error::Shape { .. }));
    }
}
