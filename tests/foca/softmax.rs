//! Softmax heads.

use lastlayer::error::Error;
use lastlayer::foca::{Features, LinearHead, WeakFit};
use lastlayer::linalg::row_basis;
use lastlayer::ndarray::{Array1, Array2, Axis, array};

use super::{SEED, bells, close, clouds, fit, fit_differences, message, same, same_gradient};

/// Solves of well-conditioned systems of at most 100 unknowns.
const ROUNDING: f64 = 1e-10;
/// The gradient that a fit may leave, with features of size one.
const GRADIENT: f64 = 1e-8;

/// (n, d, classes) with more rows than features and with fewer, down to one row per class.
const SIZES: [(usize, usize, usize); 9] =
    [(12, 3, 2), (15, 4, 3), (20, 4, 5), (7, 6, 3), (6, 6, 2), (6, 9, 2), (7, 10, 3), (10, 14, 5), (3, 8, 3)];

/// Row softmax of the scores.
fn probabilities(features: &Features, head: &LinearHead) -> Array2<f64> {
    let mut p = head.scores(&features.z).unwrap().mapv(f64::exp);
    p.rows_mut().into_iter().for_each(|mut row| row /= row.sum());
    p
}

fn objective(features: &Features, head: &LinearHead, weight: f64) -> f64 {
    let p = probabilities(features, head);
    let entropy: f64 = features.y.iter().enumerate().map(|(i, y)| -p[[i, *y as usize]].ln()).sum();
    entropy + weight * head.w.mapv(|w| w * w).sum()
}

/// Zᵀ(P − T) + 2λ W and the column sums of P − T.
fn gradient(features: &Features, head: &LinearHead, weight: f64) -> LinearHead {
    let residual = probabilities(features, head) - features.one_hot();
    LinearHead { w: features.z.t().dot(&residual) + 2.0 * weight * &head.w, b: residual.sum_axis(Axis(0)) }
}

fn largest(head: &LinearHead) -> f64 {
    head.w.iter().chain(&head.b).fold(0.0, |most: f64, v| most.max(v.abs()))
}

#[test]
fn the_gradient_of_a_softmax_fit_vanishes() {
    for (i, (n, d, classes)) in SIZES.into_iter().enumerate() {
        for weight in [1e-3, 0.1, 1.0, 50.0] {
            let features = clouds(n, d, classes, SEED.stream(i as u64));
            let fitted = WeakFit::SoftmaxSum(weight).fit(&features).unwrap();
            let left = largest(&gradient(&features, &fitted.head, weight));
            assert!(left < GRADIENT, "{n} {d} {classes} {weight}: {left}");
            // Newton's method doubles the digits with each step, once it is near.
            let many = if weight < 0.1 { 16 } else { 9 };
            assert!((2..=many).contains(&fitted.steps), "{n} {d} {classes} {weight}: {} steps", fitted.steps);
        }
    }
}

#[test]
fn no_head_nearby_has_a_lower_objective() {
    let weight = 0.2;
    for (i, (n, d, classes)) in SIZES.into_iter().enumerate() {
        let features = clouds(n, d, classes, SEED.stream(i as u64));
        let head = fit(WeakFit::SoftmaxSum(weight), &features);
        let least = objective(&features, &head, weight);
        for k in 0..100 {
            let seed = SEED.named("others").stream(k);
            let size = 10f64.powf(-3.0 * seed.named("size").uniform(0));
            let w = &head.w + &(size * bells(seed.named("W"), d, classes));
            let b = &head.b + &(size * &bells(seed.named("b"), 1, classes).row(0));
            assert!(objective(&features, &LinearHead { w, b }, weight) > least);
        }
    }
}

#[test]
fn over_the_classes_weights_and_biases_add_up_to_zero() {
    for (i, (n, d, classes)) in SIZES.into_iter().enumerate() {
        for weight in [1e-6, 0.2] {
            let head = fit(WeakFit::SoftmaxSum(weight), &clouds(n, d, classes, SEED.stream(i as u64)));
            close(&head.w.sum_axis(Axis(1)), &Array1::zeros(d), 1e-12);
            close(&[head.b.sum()], &[0.0], 1e-12 * largest(&head));
        }
    }
}

#[test]
fn newton_in_few_dimensions_finds_the_head_of_all() {
    // Rows that come m times, with m times the weight, have the same minimum, and m n rows are no longer fewer than d.
    for (i, (n, d, classes)) in SIZES.into_iter().filter(|(n, d, _)| n < d).enumerate() {
        for weight in [1e-3, 0.3, 10.0] {
            let features = clouds(n, d, classes, SEED.stream(i as u64));
            let times = d.div_ceil(n);
            let repeated = features.take(&(0..times * n).map(|row| row % n).collect::<Vec<_>>()).unwrap();
            assert!(features.n() < d && repeated.n() >= d);
            let (reduced, full) = (
                fit(WeakFit::SoftmaxSum(weight), &features),
                fit(WeakFit::SoftmaxSum(times as f64 * weight), &repeated),
            );
            same(&reduced, &full, ROUNDING);
        }
    }
}

#[test]
fn gradient_descent_ends_at_the_same_head() {
    // The slowest direction shrinks by 1 − 2 RATE λ a step, less where the bias is alone; 4000 steps leave rounding.
    const RATE: f64 = 0.05;
    const STEPS: usize = 4000;
    for (n, d, classes) in [(6, 2, 2), (6, 9, 3)] {
        let (weight, features) = (0.5, clouds(n, d, classes, SEED.named("descent")));
        let mut head = LinearHead { w: Array2::zeros((d, classes)), b: Array1::zeros(classes) };
        for _ in 0..STEPS {
            let slope = gradient(&features, &head, weight);
            head.w.scaled_add(-RATE, &slope.w);
            head.b.scaled_add(-RATE, &slope.b);
        }
        assert!(largest(&gradient(&features, &head, weight)) < 1e-12, "descent has not ended");
        same(&fit(WeakFit::SoftmaxSum(weight), &features), &head, ROUNDING);
    }
}

#[test]
fn two_symmetric_points_have_this_head() {
    // With features ±a and weights ∓w, the objective is 2 ln(1 + exp(−2 w a)) + 2 λ w², and λ w = a / (1 + exp(2 w a)).
    for (a, weight) in [(1.0, 0.5), (3.0, 0.01), (0.2, 2.0)] {
        let head = fit(WeakFit::SoftmaxSum(weight), &Features::new(&array![[-a], [a]], &[0, 1], 2).unwrap());
        let slope = |w: f64| weight * w - a / (1.0 + (2.0 * w * a).exp());
        let (mut low, mut high) = (0.0, a / weight);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if slope(middle) < 0.0 { low = middle } else { high = middle }
        }
        close(&head.w, &[-low, low], ROUNDING);
        close(&head.b, &[0.0, 0.0], ROUNDING);
    }
}

#[test]
fn equal_features_leave_the_logarithms_of_the_frequencies() {
    let features = Features::new(&Array2::from_elem((6, 3), 2.5), &[0, 0, 0, 1, 1, 2], 3).unwrap();
    let head = fit(WeakFit::SoftmaxSum(0.1), &features);
    let logs = array![3.0f64.ln(), 2.0f64.ln(), 0.0];
    close(&head.w, &Array2::zeros((3, 3)), ROUNDING);
    close(&head.b, &(&logs - logs.mean().unwrap()), ROUNDING);
}

#[test]
fn newton_arrives_at_any_scale_and_weight() {
    for (n, d, classes) in [(30, 4, 3), (6, 12, 3), (12, 1, 2)] {
        for scale in [1e-4, 1.0, 1e4] {
            for weight in [1e-8, 1e-4, 1.0, 1e4] {
                let mut features = clouds(n, d, classes, SEED.named("scales"));
                features.z *= scale;
                let fitted = WeakFit::SoftmaxSum(weight).fit(&features).unwrap();
                let left = largest(&gradient(&features, &fitted.head, weight));
                let size = features.z.iter().fold(1.0, |most: f64, v| most.max(v.abs()));
                assert!(left < GRADIENT * size, "{n} {d} scale {scale} weight {weight}: {left}");
            }
        }
    }
}

#[test]
fn a_class_without_rows_is_named() {
    let features = Features { classes: 4, ..clouds(9, 2, 3, SEED) };
    let result = WeakFit::SoftmaxSum(1.0).fit(&features);
    assert!(matches!(result, Err(Error::Data { .. })));
    assert!(message(result).contains("class 3 has no row"));
    // All rows of one class.
    let single = Features { y: vec![1; 9], classes: 2, ..features };
    assert!(message(WeakFit::SoftmaxMean(1.0).fit(&single)).contains("class 0 has no row"));
    let one = Features { y: vec![0; 9], classes: 1, ..single };
    assert!(message(WeakFit::SoftmaxMean(1.0).fit(&one)).contains("two classes"));
}

#[test]
fn the_gradient_of_a_softmax_head_is_that_of_the_whole_fit() {
    for (i, (n, d, classes)) in SIZES.into_iter().enumerate() {
        for weight in [0.01, 2.0] {
            let features = clouds(n, d, classes, SEED.named("adjoint").stream(i as u64));
            let w_bar = bells(SEED.named("W").stream(i as u64), d, classes);
            let b_bar = bells(SEED.named("b").stream(i as u64), 1, classes).row(0).to_owned();
            let none = (Array2::zeros((d, classes)), Array1::zeros(classes));
            let how = WeakFit::SoftmaxSum(weight);
            let fitted = how.fit(&features).unwrap();
            for (w_bar, b_bar) in [(&w_bar, &none.1), (&none.0, &b_bar)] {
                let found = fitted.adjoint(w_bar, b_bar).unwrap();
                same_gradient(&found, &fit_differences(how, &features, w_bar, b_bar));
            }
        }
    }
}

#[test]
fn repeated_rows_have_a_gradient_too() {
    // Drawn with replacement: the rows span fewer dimensions than there are rows, and a difference adds one.
    let features = clouds(6, 10, 3, SEED).take(&[0, 1, 2, 0, 1, 2, 3]).unwrap();
    let (w_bar, b_bar) = (bells(SEED.named("W"), 10, 3), array![0.3, -1.0, 0.2]);
    for how in [WeakFit::SoftmaxSum(0.5), WeakFit::RidgeSum(0.5)] {
        let found = how.fit(&features).unwrap().adjoint(&w_bar, &b_bar).unwrap();
        same_gradient(&found, &fit_differences(how, &features, &w_bar, &b_bar));
    }
}

#[test]
fn what_all_classes_share_has_no_gradient() {
    for (n, d) in [(12, 3), (5, 8)] {
        let fitted = WeakFit::SoftmaxSum(0.1).fit(&clouds(n, d, 3, SEED)).unwrap();
        let w_bar = bells(SEED.named("W"), d, 1).dot(&Array2::ones((1, 3)));
        let found = fitted.adjoint(&w_bar, &Array1::ones(3)).unwrap();
        close(&found, &Array2::zeros((n, d)), 1e-12);
    }
}

#[test]
fn a_row_basis_is_orthonormal_and_spans_the_rows() {
    const EXACT: f64 = 1e-13;
    let distinct = bells(SEED.named("basis"), 5, 9);
    let mut nearly = distinct.clone();
    // What once would leave is a billion times rounding.
    let close_by = &distinct.row(0) + &(1e-9 * &distinct.row(3));
    nearly.row_mut(3).assign(&close_by);
    let repeated = distinct.select(Axis(0), &[0, 1, 0, 2, 2, 2, 3, 4, 1, 0]);
    let sums = concatenate_rows(&distinct, &(&distinct * 2.0));
    let cases = [
        (distinct.clone(), 5),
        (nearly, 5),
        (repeated, 5),
        (sums, 5),
        (bells(SEED, 7, 3), 3),
        (Array2::zeros((4, 3)), 0),
    ];
    for (a, rank) in cases {
        let (q, x) = row_basis(&a);
        assert_eq!((q.dim(), x.dim()), ((rank, a.ncols()), (a.nrows(), rank)));
        close(&q.dot(&q.t()), &Array2::eye(rank), EXACT);
        close(&x.dot(&q), &a, EXACT);
    }
}

fn concatenate_rows(a: &Array2<f64>, b: &Array2<f64>) -> Array2<f64> {
    lastlayer::ndarray::concatenate![Axis(0), *a, *b]
}
