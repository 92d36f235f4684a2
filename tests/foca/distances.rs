//! The equations of the chapter "Distances between classifiers".

use lastlayer::error::Error;
use lastlayer::foca::{Features, Fisher, LinearHead, fisher_length, prediction_distance, printed_length};
use lastlayer::linalg::solve;
use lastlayer::linalg::symmetric_eigen;
use lastlayer::ndarray::{Array1, Array2, Axis, array, s};
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(1906);

/// Sums of a few hundred products of size one, and roots of them.
const ROUNDING: f64 = 1e-12;
/// Solves and eigenvectors of matrices whose condition is below 1e4.
const CONDITION: f64 = 1e-9;
/// Numbers in the text have four digits.
const DIGITS: f64 = 6e-4;

fn bells(n: usize, m: usize, name: &str) -> Array2<f64> {
    let seed = SEED.named(name);
    Array2::from_shape_fn((n, m), |(i, j)| seed.irwin_hall(12 * (i * m + j) as u64))
}

fn head(d: usize, classes: usize, name: &str) -> LinearHead {
    LinearHead {
        w: bells(d, classes, name),
        b: bells(1, classes, &format!("{name}, bias")).row(0).to_owned(),
    }
}

/// Standard normal features, with labels that follow from nothing.
fn cloud(n: usize, d: usize, classes: usize) -> Features {
    let y: Vec<u32> = (0..n).map(|i| SEED.named("labels").below(i as u64, classes).unwrap() as u32).collect();
    Features::new(&bells(n, d, "cloud"), &y, classes).unwrap()
}

/// The example of the chapter: 200 samples with 4 features in 3 classes, and two heads.
fn example() -> (LinearHead, LinearHead, Features) {
    (head(4, 3, "first"), head(4, 3, "second"), cloud(200, 4, 3))
}

/// One sample with the feature 0, so that a head is its bias: all that is left are three probabilities.
fn one_sample(classes: usize) -> Features {
    Features::new(&array![[0.0]], &[0u32][..], classes).unwrap()
}

/// The head that gives the one sample these probabilities.
fn predicting(p: &[f64]) -> LinearHead {
    LinearHead { w: Array2::zeros((1, p.len())), b: p.iter().map(|p| p.ln()).collect() }
}

fn between(from: &LinearHead, to: &LinearHead, share: f64) -> LinearHead {
    LinearHead { w: &from.w + &((&to.w - &from.w) * share), b: &from.b + &((&to.b - &from.b) * share) }
}

/// from + share · direction
fn moved(from: &LinearHead, direction: &LinearHead, share: f64) -> LinearHead {
    LinearHead { w: &from.w + &(&direction.w * share), b: &from.b + &(&direction.b * share) }
}

fn model(from: &LinearHead, to: &LinearHead, features: &Features, segments: usize) -> f64 {
    fisher_length(from, to, features, segments, Fisher::Model).unwrap()
}

fn observed(from: &LinearHead, to: &LinearHead, features: &Features, segments: usize) -> f64 {
    fisher_length(from, to, features, segments, Fisher::Observed).unwrap()
}

fn printed(from: &LinearHead, to: &LinearHead, features: &Features, segments: usize) -> f64 {
    printed_length(from, to, features, segments).unwrap()
}

/// Fails unless two numbers agree, relative to the second.
#[track_caller]
fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance * b.abs(), "{a} and {b}");
}

fn probabilities(head: &LinearHead, z: &Array2<f64>) -> Array2<f64> {
    let mut p = head.scores(z).unwrap().mapv(f64::exp);
    p.rows_mut().into_iter().for_each(|mut row| row /= row.sum());
    p
}

/// Gradient of −ln p_c in W, row by row, and b, for one sample.
fn gradient(p: &Array1<f64>, z: &Array1<f64>, c: usize) -> Array1<f64> {
    let residual = |k: usize| p[k] - f64::from(u8::from(k == c));
    z.iter().chain(&[1.0]).flat_map(|z| (0..p.len()).map(move |k| z * residual(k))).collect()
}

/// The Fisher information as a matrix, summed up from gradients.
fn dense(head: &LinearHead, features: &Features, fisher: Fisher) -> Array2<f64> {
    let (p, m) = (probabilities(head, &features.z), (features.d() + 1) * head.b.len());
    let mut g = Array2::zeros((m, m));
    for (i, y) in features.y.iter().enumerate() {
        let (p, z) = (p.row(i).to_owned(), features.z.row(i).to_owned());
        for c in 0..p.len() {
            let weight = match fisher {
                Fisher::Model => p[c],
                Fisher::Observed => f64::from(u8::from(c == *y as usize)),
            };
            let gradient = gradient(&p, &z, c).insert_axis(Axis(1));
            g += &(gradient.dot(&gradient.t()) * (weight / features.n() as f64));
        }
    }
    g
}

fn flat(head: &LinearHead) -> Array1<f64> {
    head.w.iter().chain(&head.b).copied().collect()
}

/// Mean over the samples of KL(p_from ‖ p_to).
fn divergence(from: &LinearHead, to: &LinearHead, features: &Features) -> f64 {
    let (p, q) = (probabilities(from, &features.z), probabilities(to, &features.z));
    p.iter().zip(&q).map(|(p, q)| p * (p / q).ln()).sum::<f64>() / features.n() as f64
}

#[test]
fn the_divergence_has_the_fisher_metric_as_its_second_order_term() {
    let (from, direction, features) = example();
    let delta = flat(&direction);
    let form = delta.dot(&dense(&from, &features, Fisher::Model).dot(&delta));
    let rest =
        |step: f64| divergence(&from, &moved(&from, &direction, step), &features) - step * step * form / 2.0;
    // What is left falls with the third power: by 8 for each halving, up to the fourth power.
    let (coarse, fine) = (rest(2e-3), rest(1e-3));
    close(coarse / fine, 8.0, 0.05);
    // And it is small beside the term itself.
    assert!(fine.abs() < 1e-2 * 1e-6 * form / 2.0, "{fine} {form}");
}

#[test]
fn the_metric_is_a_variance_of_scores() {
    let (from, to, features) = example();
    let delta = flat(&to) - flat(&from);
    for segments in [1usize, 4] {
        let mut sums = [0.0; 2];
        for i in 0..segments {
            let at = between(&from, &to, (i as f64 + 0.5) / segments as f64);
            for (sum, fisher) in sums.iter_mut().zip([Fisher::Model, Fisher::Observed]) {
                *sum += (delta.dot(&dense(&at, &features, fisher).dot(&delta))).sqrt() / segments as f64;
            }
        }
        close(model(&from, &to, &features, segments), sums[0], ROUNDING);
        close(observed(&from, &to, &features, segments), sums[1], ROUNDING);
    }
}

#[test]
fn the_matrix_is_a_mean_of_products_of_two_small_ones() {
    let (head, _, features) = example();
    let p = probabilities(&head, &features.z);
    let (m, classes) = ((features.d() + 1) * 3, 3);
    let mut product = Array2::<f64>::zeros((m, m));
    for i in 0..features.n() {
        let z: Vec<f64> = features.z.row(i).iter().copied().chain([1.0]).collect();
        for ((a, b), entry) in product.indexed_iter_mut() {
            let (c, e) = (a % classes, b % classes);
            let own = if c == e { p[[i, c]] } else { 0.0 };
            *entry += z[a / classes] * z[b / classes] * (own - p[[i, c]] * p[[i, e]]) / features.n() as f64;
        }
    }
    let apart =
        (product - dense(&head, &features, Fisher::Model)).iter().fold(0.0f64, |most, v| most.max(v.abs()));
    assert!(apart < ROUNDING, "{apart}");
}

#[test]
fn a_shift_of_all_classes_has_no_length_and_the_matrix_no_inverse() {
    let (from, to, features) = example();
    // The same vector added to every column of W, the same number to every bias.
    let shift = bells(5, 1, "shift");
    let gauge = LinearHead {
        w: Array2::from_shape_fn((4, 3), |(j, _)| shift[[j, 0]]),
        b: Array1::from_elem(3, shift[[4, 0]]),
    };
    let shifted = moved(&from, &gauge, 1.0);
    for fisher in [Fisher::Model, Fisher::Observed] {
        assert!(fisher_length(&from, &shifted, &features, 10, fisher).unwrap() < ROUNDING);
        let g = dense(&from, &features, fisher);
        let image = g.dot(&flat(&gauge));
        assert!(image.iter().all(|v| v.abs() < 1e-15), "{image}");
        // One zero for each feature and for the bias, and no more.
        let (values, _) = symmetric_eigen(&g).unwrap();
        assert!(values[..5].iter().all(|v| v.abs() < ROUNDING) && values[5] > 1e-3, "{values:?}");
        let length = fisher_length(&from, &to, &features, 10, fisher).unwrap();
        close(fisher_length(&shifted, &to, &features, 10, fisher).unwrap(), length, ROUNDING);
    }
    assert!(prediction_distance(&from, &shifted, &features).unwrap() < ROUNDING);
}

#[test]
fn features_that_nobody_has_do_not_count() {
    // All samples on a line through feature space: what a head does beside it predicts nothing.
    let along = bells(50, 1, "line");
    let z = Array2::from_shape_fn((50, 2), |(i, j)| along[[i, 0]] * [1.0, -2.0][j]);
    let y = vec![0u32; 50];
    let features = Features::new(&z, &y, 3).unwrap();
    let from = head(2, 3, "first");
    let beside = LinearHead { w: array![[2.0, 4.0, -6.0], [1.0, 2.0, -3.0]], b: Array1::zeros(3) };
    assert!(model(&from, &moved(&from, &beside, 1.0), &features, 10) < ROUNDING);
    let along = LinearHead { w: array![[1.0, 2.0, -3.0], [-2.0, -4.0, 6.0]], b: Array1::zeros(3) };
    assert!(model(&from, &moved(&from, &along, 1.0), &features, 10) > 0.1);
}

/// Features z' = B z + a, and the head with the same scores: W' = B⁻ᵀ W, b' = b − W'ᵀ a.
fn transformed(head: &LinearHead, b: &Array2<f64>, a: &Array1<f64>) -> LinearHead {
    let mut w = Array2::zeros(head.w.dim());
    for (c, column) in head.w.columns().into_iter().enumerate() {
        w.column_mut(c).assign(&solve(&b.t().to_owned(), &column.to_owned()).unwrap());
    }
    let bias = &head.b - &w.t().dot(a);
    LinearHead { w, b: bias }
}

#[test]
fn lengths_do_not_see_an_invertible_map_of_the_features() {
    let (from, to, features) = example();
    let b = bells(4, 4, "map") + Array2::<f64>::eye(4) * 6.0;
    let a = bells(4, 1, "origin").column(0).to_owned();
    let mapped = Features { z: features.z.dot(&b.t()) + &a, ..features.clone() };
    let (from2, to2) = (transformed(&from, &b, &a), transformed(&to, &b, &a));
    for fisher in [Fisher::Model, Fisher::Observed] {
        let length = fisher_length(&from, &to, &features, 10, fisher).unwrap();
        close(fisher_length(&from2, &to2, &mapped, 10, fisher).unwrap(), length, CONDITION);
    }
    let distance = prediction_distance(&from, &to, &features).unwrap();
    close(prediction_distance(&from2, &to2, &mapped).unwrap(), distance, CONDITION);
    // The plain distance of the parameters does see it.
    let plain = |a: &LinearHead, b: &LinearHead| (flat(a) - flat(b)).mapv(|v| v * v).sum().sqrt();
    assert!((plain(&from2, &to2) / plain(&from, &to) - 1.0).abs() > 0.1);
    // And the printed length changes as well.
    assert!((printed(&from2, &to2, &mapped, 10) / printed(&from, &to, &features, 10) - 1.0).abs() > 0.1);
}

#[test]
fn the_inverse_sees_a_map_of_the_features_twice() {
    let (from, to, features) = example();
    let b = bells(4, 4, "map") + Array2::<f64>::eye(4) * 3.0;
    let a = bells(4, 1, "origin").column(0).to_owned();
    let mapped = Features { z: features.z.dot(&b.t()) + &a, ..features.clone() };
    // θ = M η for (W, b) stacked: W = Bᵀ W', b = b' + W'ᵀ a.
    let mut m = Array2::<f64>::eye(5);
    m.slice_mut(s![..4, ..4]).assign(&b.t());
    m.slice_mut(s![4, ..4]).assign(&a);
    let twice = m.dot(&m.t());
    let delta = LinearHead { w: &to.w - &from.w, b: &to.b - &from.b };
    let mut solved = LinearHead { w: delta.w.clone(), b: delta.b.clone() };
    for c in 0..3 {
        let column: Array1<f64> = delta.w.column(c).iter().copied().chain([delta.b[c]]).collect();
        let x = solve(&twice, &column).unwrap();
        solved.w.column_mut(c).assign(&x.slice(s![..4]));
        solved.b[c] = x[4];
    }
    let seen = printed(&transformed(&from, &b, &a), &transformed(&to, &b, &a), &mapped, 10);
    close(seen, printed(&from, &moved(&from, &solved, 1.0), &features, 10), CONDITION);
    assert!((seen / printed(&from, &to, &features, 10) - 1.0).abs() > 0.1);
}

#[test]
fn the_distance_of_predictions_obeys_the_triangle_inequality() {
    let features = cloud(30, 4, 3);
    let heads: Vec<LinearHead> = (0..8).map(|k| head(4, 3, &format!("corner {k}"))).collect();
    let distance = |i: usize, j: usize| prediction_distance(&heads[i], &heads[j], &features).unwrap();
    for i in 0..8 {
        assert_eq!(distance(i, i), 0.0);
        for j in 0..8 {
            close(distance(i, j), distance(j, i), ROUNDING);
            assert!((0..8).all(|k| distance(i, j) <= distance(i, k) + distance(k, j) + ROUNDING));
        }
    }
}

#[test]
fn the_lengths_of_parts_add_up() {
    let (from, to, features) = example();
    let middle = between(&from, &to, 0.25);
    for fisher in [Fisher::Model, Fisher::Observed] {
        let length = |a: &LinearHead, b: &LinearHead, p| fisher_length(a, b, &features, p, fisher).unwrap();
        close(length(&from, &middle, 5) + length(&middle, &to, 15), length(&from, &to, 20), ROUNDING);
        close(length(&to, &from, 20), length(&from, &to, 20), ROUNDING);
        assert_eq!(length(&from, &from, 20), 0.0);
    }
    // The printed one is neither symmetric nor additive.
    assert!((printed(&to, &from, &features, 10) / printed(&from, &to, &features, 10) - 1.0).abs() > 0.1);
}

#[test]
fn the_length_converges_with_the_square_of_the_segments() {
    let (from, to, features) = example();
    for fisher in [Fisher::Model, Fisher::Observed] {
        let length = |p: usize| fisher_length(&from, &to, &features, p, fisher).unwrap();
        let limit = length(2000);
        close(length(10), length(100), 0.02);
        for p in [20usize, 40, 80] {
            let ratio = (length(p) - limit) / (length(2 * p) - limit);
            // Four, up to the next even power of 1/P.
            assert!((ratio - 4.0).abs() < 0.2, "{fisher:?} {p}: {ratio}");
        }
    }
    let error = (model(&from, &to, &features, 10) / model(&from, &to, &features, 2000) - 1.0).abs();
    assert!(error < 2e-3, "{error}");
}

#[test]
fn two_classes_and_one_sample_have_the_arc_sine() {
    let features = one_sample(2);
    let arc = |p: f64, q: f64| 2.0 * (p.sqrt().asin() - q.sqrt().asin()).abs();
    for (p, q) in [(0.1, 0.9), (0.5, 0.6), (0.02, 0.3), (0.999, 0.001)] {
        let (from, to) = (predicting(&[1.0 - p, p]), predicting(&[1.0 - q, q]));
        // The midpoint rule with 4000 segments is good to the seventh digit even for the widest.
        close(model(&from, &to, &features, 4000), arc(p, q), 1e-6);
        // On a line there is no other way, so the path is the shortest one.
        close(prediction_distance(&from, &to, &features).unwrap(), arc(p, q), ROUNDING);
    }
    let (from, to) = (predicting(&[0.9, 0.1]), predicting(&[0.1, 0.9]));
    close(arc(0.1, 0.9), 1.8546, 1e-4);
    close(model(&from, &to, &features, 10), 1.8565, 1e-4);
}

#[test]
fn a_length_lies_between_the_distance_of_predictions_and_the_root_of_the_divergences() {
    for k in 0..8 {
        let (from, to) = (head(4, 3, &format!("from {k}")), head(4, 3, &format!("to {k}")));
        // From heads that nearly agree to heads that do not at all.
        let to = between(&from, &to, 0.25 * (k + 1) as f64);
        let features = cloud(80, 4, 3);
        let distance = prediction_distance(&from, &to, &features).unwrap();
        let both = divergence(&from, &to, &features) + divergence(&to, &from, &features);
        let length = model(&from, &to, &features, 1000);
        assert!(distance < length && length < both.sqrt(), "{k}: {distance} {length} {}", both.sqrt());
        // The sum of both divergences is the mean square of the speed along the line.
        let energy: f64 = (0..500)
            .map(|i| {
                let (a, b) =
                    (between(&from, &to, i as f64 / 500.0), between(&from, &to, (i + 1) as f64 / 500.0));
                model(&a, &b, &features, 1).powi(2) * 500.0
            })
            .sum();
        close(energy, both, 1e-4);
    }
}

#[test]
fn near_heads_have_one_distance() {
    let (from, direction, features) = example();
    let ratio = |step: f64| {
        let to = moved(&from, &direction, step);
        model(&from, &to, &features, 10) / prediction_distance(&from, &to, &features).unwrap()
    };
    // The difference is of second order in the step.
    assert!(ratio(0.1) > 1.0 && ratio(0.1) - 1.0 < 1e-2, "{}", ratio(0.1));
    assert!((ratio(1e-5) - 1.0).abs() < 1e-9, "{}", ratio(1e-5));
}

#[test]
fn with_three_classes_the_straight_line_is_a_detour() {
    let features = one_sample(3);
    let (p, q) = ([0.499, 0.001, 0.5], [0.001, 0.499, 0.5]);
    let (from, to) = (predicting(&p), predicting(&q));
    let length = model(&from, &to, &features, 10_000);
    let shortest = prediction_distance(&from, &to, &features).unwrap();
    let both = divergence(&from, &to, &features) + divergence(&to, &from, &features);
    close(length, 2.442, DIGITS);
    close(shortest, 1.990, DIGITS);
    close(both.sqrt(), 2.488, DIGITS);
    let halfway = probabilities(&between(&from, &to, 0.5), &features.z);
    assert!((&halfway.row(0) - &array![0.041, 0.041, 0.918]).iter().all(|v| v.abs() < 5e-4), "{halfway}");
    // Heads along the great circle through the roots of p and q: their polygon is as short as can be.
    let angle = shortest / 2.0;
    let on_circle = |share: f64| {
        let (a, b) = (((1.0 - share) * angle).sin() / angle.sin(), (share * angle).sin() / angle.sin());
        let p: Vec<f64> = p.iter().zip(&q).map(|(p, q)| (a * p.sqrt() + b * q.sqrt()).powi(2)).collect();
        predicting(&p)
    };
    let polygon = |n: usize| -> f64 {
        (0..n)
            .map(|i| {
                model(&on_circle(i as f64 / n as f64), &on_circle((i + 1) as f64 / n as f64), &features, 200)
            })
            .sum()
    };
    close(polygon(200), shortest, 1e-4);
    // So the length of straight lines breaks the triangle inequality.
    assert!(polygon(2) < length - 1e-3, "{} {length}", polygon(2));
    close(polygon(2), 2.119, DIGITS);
    // With ever smaller probabilities, half a circle against a third of one.
    let (from, to) = (predicting(&[0.5, 1e-15, 0.5]), predicting(&[1e-15, 0.5, 0.5]));
    let third = 2.0 * std::f64::consts::FRAC_PI_3;
    close(prediction_distance(&from, &to, &features).unwrap(), third, 1e-4);
    close(model(&from, &to, &features, 10_000), std::f64::consts::PI, 1e-3);
}

#[test]
fn the_printed_length_does_not_converge() {
    // Documented regression: equation 15 is kept as printed, and must go on diverging.
    let (from, to, features) = example();
    let whole = printed(&from, &to, &features, 2);
    let printed = |p: usize| printed(&from, &to, &features, p) / whole;
    let closed = |p: f64| ((p + 1.0) * (2.0 * p + 1.0) / (6.0 * p) - 1.0 / (p * p)).sqrt();
    for p in [2usize, 3, 10, 100, 1000] {
        close(printed(p), closed(p as f64), ROUNDING);
    }
    close(printed(10), 1.960, DIGITS);
    close(printed(100), 5.817, DIGITS);
    assert_eq!(printed(1), 0.0);
    // With points counted such that the sum stops one before the end.
    let short = |p: usize| (1..p).map(|j| (j as f64 / p as f64).powi(2)).sum::<f64>().sqrt();
    close(short(10), 1.688, DIGITS);
    close(short(100), 5.730, DIGITS);
    // Like the root of P / 3.
    close(printed(10_000) / (10_000f64 / 3.0).sqrt(), 1.0, 1e-3);
}

#[test]
fn a_root_of_squared_segments_vanishes() {
    // The other reading of equation 15: distances of consecutive points.
    let (from, to, features) = example();
    let length = model(&from, &to, &features, 1000);
    let root = |p: usize| {
        let point = |i: usize| between(&from, &to, i as f64 / p as f64);
        (0..p).map(|i| model(&point(i), &point(i + 1), &features, 1).powi(2)).sum::<f64>().sqrt()
    };
    // The speed is not constant here, so a factor at most √J / L stays beside 1/√P.
    close(root(400) / root(100), 0.5, 1e-3);
    assert!(root(100) < 0.15 * length && root(100) >= 0.1 * length * 0.999, "{} {length}", root(100));
    // In a flat metric, here a displacement so small that the metric is constant, it is 1/√P.
    let near = between(&from, &to, 1e-4);
    let flat = model(&from, &near, &features, 1);
    let root = |p: usize| {
        let point = |i: usize| between(&from, &near, i as f64 / p as f64);
        (0..p).map(|i| model(&point(i), &point(i + 1), &features, 1).powi(2)).sum::<f64>().sqrt() / flat
    };
    close(root(10), 0.316, 2e-3);
    close(root(100), 0.1, 2e-3);
}

#[test]
fn the_printed_form_is_the_inverse_beside_the_shift() {
    // Σ plus the projection onto the shifts is invertible, and its inverse is Σ⁺ beside them.
    let (from, to, features) = example();
    let delta = LinearHead { w: &to.w - &from.w, b: &to.b - &from.b };
    let centred = LinearHead {
        w: &delta.w - &delta.w.mean_axis(Axis(1)).unwrap().insert_axis(Axis(1)),
        b: &delta.b - delta.b.mean().unwrap(),
    };
    let shifts = Array2::from_shape_fn((15, 15), |(a, b)| if a / 3 == b / 3 { 1.0 / 3.0 } else { 0.0 });
    let sigma = dense(&from, &features, Fisher::Observed) + shifts;
    let form = flat(&centred).dot(&solve(&sigma, &flat(&centred)).unwrap());
    close(printed(&from, &to, &features, 2), form.sqrt(), CONDITION);
}

#[test]
fn ten_times_the_features_divide_the_printed_length_by_a_hundred() {
    let (from, to, features) = example();
    let large = Features { z: &features.z * 10.0, ..features.clone() };
    let tenth = |head: &LinearHead| LinearHead { w: &head.w / 10.0, b: head.b.clone() };
    // Heads that differ in W only.
    let same_bias = LinearHead { w: to.w.clone(), b: from.b.clone() };
    let before = printed(&from, &same_bias, &features, 10);
    close(printed(&tenth(&from), &tenth(&same_bias), &large, 10), before / 100.0, CONDITION);
    close(model(&tenth(&from), &tenth(&to), &large, 10), model(&from, &to, &features, 10), ROUNDING);
    // With the bias, which is not scaled, in between.
    let (before, after) =
        (printed(&from, &to, &features, 10), printed(&tenth(&from), &tenth(&to), &large, 10));
    close(model(&from, &to, &features, 10), 1.631, DIGITS);
    close(before, 12.65, DIGITS);
    close(after, 7.915, DIGITS);
}

/// Two classes at (−1, 0) and (1, 0), spread by this much in the second feature.
fn two_points(spread: f64) -> Features {
    let side = |i: usize| if i.is_multiple_of(2) { -1.0 } else { 1.0 };
    let noise = bells(100, 1, "two points");
    let z = Array2::from_shape_fn((100, 2), |(i, j)| if j == 0 { side(i) } else { spread * noise[[i, 0]] });
    let y: Vec<u32> = (0..100).map(|i| (i % 2) as u32).collect();
    Features::new(&z, &y, 2).unwrap()
}

#[test]
fn collapse_shrinks_the_length_and_blows_up_the_printed_one() {
    let from = LinearHead { w: array![[-1.0, 1.0], [0.0, 0.0]], b: Array1::zeros(2) };
    // A change of the weight of the second feature.
    let to = LinearHead { w: array![[-1.0, 1.0], [-0.5, 0.5]], b: Array1::zeros(2) };
    let (wide, narrow) = (two_points(1e-2), two_points(1e-3));
    // Both to first order in the spread.
    close(model(&from, &to, &wide, 10) / model(&from, &to, &narrow, 10), 10.0, 1e-3);
    close(printed(&from, &to, &wide, 10) / printed(&from, &to, &narrow, 10), 0.1, 1e-3);
    // At the end of it Σ has lost the direction, and the printed length jumps to zero.
    assert_eq!(model(&from, &to, &two_points(0.0), 10), 0.0);
    assert!(printed(&from, &to, &narrow, 10) > 1e3);
    assert!(printed(&from, &to, &two_points(0.0), 10) < ROUNDING);
    close(model(&from, &to, &wide, 10), 3.343e-3, DIGITS);
    close(model(&from, &to, &narrow, 10), 3.342e-4, DIGITS);
    close(printed(&from, &to, &wide, 10), 799.8, DIGITS);
    close(printed(&from, &to, &narrow, 10), 7998.0, DIGITS);
}

#[test]
fn observed_labels_count_what_is_wrong_and_ignore_what_is_right() {
    // Two classes, one sample: the ratio of the two forms is e to the minus margin.
    for (p, label) in [(0.9, 0u32), (0.9, 1), (0.999, 0), (0.5, 1)] {
        let features = Features::new(&array![[0.0]], &[label][..], 2).unwrap();
        let from = predicting(&[p, 1.0 - p]);
        let to = LinearHead { w: from.w.clone(), b: &from.b + &array![1e-6, 0.0] };
        let margin = (from.b[0] - from.b[1]) * if label == 0 { 1.0 } else { -1.0 };
        let ratio = (observed(&from, &to, &features, 1) / model(&from, &to, &features, 1)).powi(2);
        // The midpoint is half of 1e-6 away from the start.
        close(ratio, (-margin).exp(), 1e-5);
    }
}

#[test]
fn labels_drawn_from_the_model_give_its_metric() {
    // Every sample once with every label, weighted by its probability: here by copies, in fifths.
    let z = Array2::<f64>::zeros((5, 1));
    let features = Features::new(&z, &[0u32, 0, 1, 2, 2][..], 3).unwrap();
    let from = predicting(&[0.4, 0.2, 0.4]);
    let direction = LinearHead { w: Array2::zeros((1, 3)), b: array![1.0, -2.0, 0.5] };
    let at = |share: f64| moved(&from, &direction, share);
    // The midpoint of the one segment is the head that the labels were drawn from.
    let (a, b) = (at(-0.1), at(0.1));
    close(observed(&a, &b, &features, 1), model(&a, &b, &features, 1), ROUNDING);
}

#[test]
fn on_fitted_data_the_observed_length_vanishes_first() {
    let features = cloud(200, 4, 3);
    let truth = head(4, 3, "truth");
    // Labels that the head decides itself, and samples that are not too close to a boundary.
    let scores = truth.scores(&features.z).unwrap();
    let clear: Vec<usize> = (0..200)
        .filter(|i| {
            let mut s = scores.row(*i).to_vec();
            s.sort_by(f64::total_cmp);
            s[2] - s[1] > 0.5
        })
        .collect();
    let labelled = Features { y: truth.decide(&features.z).unwrap(), ..features }.take(&clear).unwrap();
    let direction = head(4, 3, "direction");
    let lengths = |sharper: f64| {
        let from = LinearHead { w: &truth.w * sharper, b: &truth.b * sharper };
        let to = moved(&from, &direction, 0.1);
        (model(&from, &to, &labelled, 10), observed(&from, &to, &labelled, 10))
    };
    let (m1, o1) = lengths(1.0);
    let (m10, o10) = lengths(10.0);
    let (m40, o40) = lengths(40.0);
    // The numbers of the text.
    for (length, digits) in [m1, o1, m10, o10].into_iter().zip([0.0934, 0.0584, 0.00311, 0.000159]) {
        close(length, digits, 5e-3);
    }
    assert!(o10 < 0.1 * o1 && o40 < 1e-3 * o1, "{o1} {o10} {o40}");
    assert!(
        o10 / m10 < 0.5 * o1 / m1 && o40 / m40 < 0.1 * o10 / m10,
        "{} {} {}",
        o1 / m1,
        o10 / m10,
        o40 / m40
    );
}

#[test]
fn lengths_of_the_size_of_the_study_are_the_same_both_ways() {
    // Twelve classes, 32 features: a matrix of size 396.
    let features = cloud(1200, 32, 12);
    let (from, to) = (head(32, 12, "first"), head(32, 12, "second"));
    let (there, back) = (model(&from, &to, &features, 10), model(&to, &from, &features, 10));
    assert!(there > 0.0);
    close(back, there, 1e-10);
    assert!(printed(&from, &to, &features, 10) > 0.0);
}

#[test]
fn bad_input_is_told() {
    let (from, to, features) = example();
    let all = |from: &LinearHead, to: &LinearHead, features: &Features, segments: usize| {
        [
            fisher_length(from, to, features, segments, Fisher::Model),
            fisher_length(from, to, features, segments, Fisher::Observed),
            printed_length(from, to, features, segments),
        ]
    };
    for told in all(&from, &to, &features, 0) {
        assert!(matches!(told, Err(Error::Config { .. })), "{told:?}");
    }
    let short = LinearHead { b: array![0.0, 1.0], ..from.clone() };
    let empty = Features { z: Array2::zeros((0, 4)), y: vec![], classes: 3 };
    let unlabelled = Features { y: vec![0; 3], ..features.clone() };
    for (from, to, features) in [
        (&from, &head(4, 2, "two classes"), &features),
        (&from, &head(5, 3, "five features"), &features),
        (&from, &to, &cloud(20, 5, 3)),
        (&short, &to, &features),
        (&from, &to, &empty),
        (&from, &to, &unlabelled),
    ] {
        let distance = prediction_distance(from, to, features);
        for told in all(from, to, features, 10).into_iter().chain([distance]) {
            assert!(matches!(told, Err(Error::Shape { .. })), "{told:?}");
        }
    }
    let infinite = LinearHead { w: &from.w * f64::INFINITY, ..from.clone() };
    let nan = Features { z: &features.z * f64::NAN, ..features.clone() };
    // Scores that are finite and whose squares are not.
    let huge = LinearHead { w: &from.w * 1e200, ..from.clone() };
    for (from, to, features) in
        [(&infinite, &to, &features), (&from, &infinite, &features), (&from, &to, &nan)]
    {
        for told in all(from, to, features, 10) {
            assert!(matches!(told, Err(Error::Data { .. })), "{told:?}");
        }
    }
    for told in &all(&from, &huge, &features, 10)[..2] {
        assert!(matches!(told, Err(Error::Data { .. })), "{told:?}");
    }
    let strange = Features { y: vec![7; 200], ..features.clone() };
    let told = all(&from, &to, &strange, 10);
    assert!(told[0].is_ok() && told[1..].iter().all(|t| matches!(t, Err(Error::Data { .. }))), "{told:?}");
}
