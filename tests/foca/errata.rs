//! Numbers of the errata that belong to no chapter.

use lastlayer::distribution::normal_cdf;
use lastlayer::foca::{Features, Fisher, LinearHead, WeakFit, fisher_length};
use lastlayer::linalg::solve;
use lastlayer::ndarray::{Array2, Axis, array};
use lastlayer::seed::Seed;

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

/// Mean of the squared errors of every sample under the heads of all pairs, one sample of each of two classes.
fn losses_under_pairs(z: &Array2<f64>, y: &[u32], weight: f64) -> Vec<f64> {
    let (mut losses, mut heads) = (vec![0.0; y.len()], 0.0);
    for i in (0..y.len()).filter(|i| y[*i] == 0) {
        for j in (0..y.len()).filter(|j| y[*j] == 1) {
            let pair = Features::new(&z.select(Axis(0), &[i, j]), &[0u32, 1][..], 2).unwrap();
            let scores = WeakFit::RidgeSum(weight).fit(&pair).unwrap().head.scores(z).unwrap();
            for (row, loss) in losses.iter_mut().enumerate() {
                *loss += (scores[[row, 1]] - f64::from(y[row])).powi(2);
            }
            heads += 1.0;
        }
    }
    losses.iter().map(|loss| loss / heads).collect()
}

#[test]
fn in_a_ball_no_features_minimise_all_losses_while_heads_follow() {
    let (radius, weight, y) = (3.0f64, 0.5f64, [1u32, 1, 1, 0, 0, 0]);
    // One head in three is fitted to a sample itself, and leaves at least the residual of a pair at the distance 2 R.
    let least = (weight / (4.0 * radius * radius + 2.0 * weight)).powi(2) / 3.0;
    // The first sample at R u, its classmates at ρ u and the other class at −R u: nothing is left but that.
    let on_line = |along: [f64; 6]| Array2::from_shape_fn((6, 2), |(i, j)| along[i] * [0.6, 0.8][j]);
    let (r, rho) = (radius, f64::sqrt(radius * radius - weight));
    let alone = losses_under_pairs(&on_line([r, rho, rho, -r, -r, -r]), &y, weight);
    assert!((alone[0] / least - 1.0).abs() < 1e-9, "{alone:?}");
    assert!(alone[1..].iter().all(|loss| *loss > 2.0 * least), "{alone:?}");
    // Classes that are points, as far apart as the ball allows, lose three times as much.
    let points = losses_under_pairs(&on_line([r, r, r, -r, -r, -r]), &y, weight);
    assert!(points.iter().all(|loss| (loss / least - 3.0).abs() < 1e-9), "{points:?}");
    // Nothing goes below, and nothing has the least loss in all samples at once: features anywhere in the ball, and near it.
    let draws = Seed::new(1).named("balls");
    for case in 0..300u64 {
        let spread = [0.003, 0.1, 3.0][(case % 3) as usize];
        let mut z = on_line([r, rho, rho, -r, -r, -r]);
        for (entry, value) in z.iter_mut().enumerate() {
            *value += spread * draws.stream(case).normal(entry as u64);
        }
        for mut row in z.rows_mut() {
            let length = row.dot(&row).sqrt();
            row.mapv_inplace(|v| v * f64::min(1.0, radius / length));
        }
        let losses = losses_under_pairs(&z, &y, weight);
        assert!(losses.iter().all(|loss| *loss >= least), "{z} {losses:?}");
        assert!(losses.iter().any(|loss| *loss > 2.0 * least), "{z} {losses:?}");
    }
}
