//! Numbers of the errata that belong to no chapter.

use lastlayer::distribution::normal_cdf;
use lastlayer::foca::{Features, WeakFit};
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
