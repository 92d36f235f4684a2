//! Numbers of the errata that belong to no chapter.

use lastlayer::distribution::normal_cdf;
use lastlayer::foca::{Features, Fisher, LinearHead, WeakFit, fisher_length};
use lastlayer::linalg::solve;
use lastlayer::ndarray::{Array2, array};

#[test]
fn the_printed_eigenvalues_imply_smaller_errors_than_the_printed_ones() {
    // Two equally frequent normal classes at distance δ in units of their spread: eigenvalue δ²/4, error Φ(−δ/2).
    let table = [
        (247.28, 2.01, 5.1e-54),
        (5.74, 2.71, 0.83),
        (7.49, 2.96, 0.31),
        (5.81, 2.78, 0.80),
        (7.28, 2.43, 0.35),
    ];
    for (eigenvalue, printed, implied) in table {
        let error = 100.0 * normal_cdf(-f64::sqrt(eigenvalue));
        // Two digits.
        assert!((error / implied - 1.0).abs() < 0.01, "{eigenvalue}: {error}");
        assert!(3.0 * error < printed);
    }
}

#[test]
fn a_penalised_bias_can_fit_a_class_exactly() {
    // Features −1 and 1, targets 0 and 1.
    let (rows, targets) = (array![[-1.0, 1.0], [1.0, 1.0]], array![0.0, 1.0]);
    let features = Features::new(&array![[-1.0], [1.0]], &[0u32, 1][..], 2).unwrap();
    for weight in [0.1, 1.0, 10.0] {
        let normal = rows.t().dot(&rows) + Array2::<f64>::eye(2) * weight;
        let head = solve(&normal, &rows.t().dot(&targets)).unwrap();
        assert!(rows.dot(&head)[0].abs() < 1e-15);
        // With a free bias neither class is fitted: the residual is λ / (2 (2 + λ)).
        let free = WeakFit::RidgeSum(weight).fit(&features).unwrap().head.scores(&features.z).unwrap();
        assert!((free[[0, 1]] - weight / (2.0 * (2.0 + weight))).abs() < 1e-15, "{free}");
    }
}

#[test]
fn a_metric_taken_at_one_end_depends_on_which_head_comes_first() {
    // One sample with the feature 0, so that a head is its bias; class 1 has the probability 0.5 or 0.9.
    let features = Features::new(&array![[0.0]], &[0u32][..], 2).unwrap();
    let head = |p: f64| LinearHead { w: Array2::zeros((1, 2)), b: array![0.0, (p / (1.0 - p)).ln()] };
    let (first, second) = (head(0.5), head(0.9));
    // The whole way with the metric of its beginning: a short piece of it, enlarged.
    let at_start = |from: &LinearHead, to: &LinearHead| {
        let part = 1e-6;
        let near = LinearHead { w: from.w.clone(), b: &from.b + &((&to.b - &from.b) * part) };
        fisher_length(from, &near, &features, 1, Fisher::Model).unwrap() / part
    };
    // ln 9 times the root of p (1 − p).
    let (there, back) = (at_start(&first, &second), at_start(&second, &first));
    assert!(
        (there - 9f64.ln() * 0.5).abs() < 1e-4 && (back - 9f64.ln() * 0.3).abs() < 1e-4,
        "{there} {back}"
    );
    let lengths = [(&first, &second), (&second, &first)]
        .map(|(a, b)| fisher_length(a, b, &features, 10, Fisher::Model));
    let [there, back] = lengths;
    assert!((there.unwrap() - back.unwrap()).abs() < 1e-12);
}
