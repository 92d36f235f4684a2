//! The equations of the chapter "Anonymous classifiers and the point-like property".

use super::close;
use crate::device::device;
use lastlayer::distribution::normal_quantile;
use lastlayer::foca::{Features, Foca, LinearHead, TwoClass, WeakFit};
use lastlayer::linalg::solve;
use lastlayer::ndarray::{Array1, Array2, Axis, array};
use lastlayer::numbers::AsF64;
use lastlayer::prelude::{Tensor, Var};
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(1906);

/// Sums of some hundred products of numbers of size one, and solves of well-conditioned systems.
const ROUNDING: f64 = 1e-11;
/// Central differences of values of size one with a step of 1e-5: rounding over the step, and the square of the step.
const DIFFERENCES: f64 = 1e-8;
const STEP: f64 = 1e-5;

fn normals(seed: Seed, rows: usize, columns: usize) -> Array2<f64> {
    Array2::from_shape_fn((rows, columns), |(i, j)| seed.normal((i * columns + j) as u64))
}

fn features(z: &Array2<f64>, y: &[u32], classes: usize) -> Features {
    Features { z: z.clone(), y: y.to_vec(), classes }
}

fn fit(z: &Array2<f64>, y: &[u32], classes: usize, weight: f64) -> LinearHead {
    WeakFit::RidgeSum(weight).fit(&features(z, y, classes)).unwrap().head
}

fn squares(m: &Array2<f64>) -> f64 {
    m.iter().map(|v| v * v).sum()
}

fn outer(a: &Array1<f64>, b: &Array1<f64>) -> Array2<f64> {
    a.clone().insert_axis(Axis(1)).dot(&b.clone().insert_axis(Axis(0)))
}

fn one_hot(y: u32, classes: usize) -> Array1<f64> {
    (0..classes).map(|c| f64::from(u8::from(c == y as usize))).collect()
}

/// e_y − Wᵀz − b.
fn residual(head: &LinearHead, z: &Array1<f64>, y: u32) -> Array1<f64> {
    one_hot(y, head.b.len()) - head.w.t().dot(z) - &head.b
}

/// Σ ‖Wᵀz + b − e‖² + λ‖W‖² over rows.
fn objective(head: &LinearHead, z: &Array2<f64>, y: &[u32], weight: f64) -> f64 {
    let t = features(z, y, head.b.len()).one_hot();
    squares(&(head.scores(z).unwrap() - t)) + weight * squares(&head.w)
}

/// J_y(z): the squared losses of one feature under many heads, added.
fn sample_loss(heads: &[LinearHead], z: &Array1<f64>, y: u32) -> f64 {
    heads.iter().map(|head| residual(head, z, y).mapv(|v| v * v).sum()).sum()
}

/// Its gradient in z.
fn sample_gradient(heads: &[LinearHead], z: &Array1<f64>, y: u32) -> Array1<f64> {
    heads.iter().fold(Array1::zeros(z.len()), |sum, head| sum - 2.0 * head.w.dot(&residual(head, z, y)))
}

/// All ways to choose `k` of the rows of each class.
fn subsets(y: &[u32], classes: usize, k: usize) -> Vec<Vec<usize>> {
    (0u32..1 << y.len())
        .map(|set| (0..y.len()).filter(|i| set >> i & 1 == 1).collect::<Vec<_>>())
        .filter(|rows| (0..classes).all(|c| rows.iter().filter(|i| y[**i] as usize == c).count() == k))
        .collect()
}

/// A ridge head for every subset with `k` samples of each class.
fn all_heads(z: &Array2<f64>, y: &[u32], classes: usize, k: usize, weight: f64) -> Vec<LinearHead> {
    let of = |rows: &Vec<usize>| {
        WeakFit::RidgeSum(weight).fit(&features(z, y, classes).take(rows).unwrap()).unwrap().head
    };
    subsets(y, classes, k).iter().map(of).collect()
}

#[test]
fn one_sample_of_each_class_gives_this_head() {
    for (d, weight) in [(1, 0.5), (2, 0.01), (5, 1.0), (30, 3.0)] {
        let z = normals(SEED.named("pair").stream(d as u64), 2, d);
        let head = fit(&z, &[0, 1], 2, weight);
        let gap = &z.row(1) - &z.row(0);
        let length = gap.dot(&gap) + 2.0 * weight;
        // Column 1 is the scalar head for targets 0 and 1; the columns add up to (0, 1).
        close(head.w.column(1), &(&gap / length), ROUNDING);
        close(head.w.column(0), &(-&gap / length), ROUNDING);
        close(&[head.b.sum()], &[1.0], ROUNDING);
        let at = |i: usize| head.w.column(1).dot(&z.row(i)) + head.b[1];
        close(&[1.0 - at(1), at(0)], &[weight / length, weight / length], ROUNDING);
    }
}

#[test]
fn the_scalar_loss_is_half_of_the_one_hot_loss() {
    let y: Vec<u32> = (0..12).map(|i| i % 2).collect();
    let z = normals(SEED.named("half"), 12, 3);
    let head = fit(&z, &y, 2, 0.2);
    let beside = normals(SEED.named("beside"), 5, 3);
    for (row, y) in beside.rows().into_iter().zip([0, 1, 1, 0, 1]) {
        let r = head.w.column(1).dot(&row) + head.b[1] - f64::from(y);
        close(&[2.0 * r * r], &[sample_loss(std::slice::from_ref(&head), &row.to_owned(), y)], ROUNDING);
    }
}

/// Two classes of three and one of four in the plane, without any structure.
fn ten() -> (Array2<f64>, Vec<u32>) {
    (normals(SEED.named("ten"), 10, 2), vec![0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
}

#[test]
fn the_midpoint_gains_what_the_heads_see_of_the_difference() {
    let (z, y) = ten();
    let heads = all_heads(&z, &y, 3, 2, 0.1);
    assert_eq!(heads.len(), 3 * 3 * 6);
    let curvature =
        heads.iter().fold(Array2::<f64>::zeros((2, 2)), |sum, head| sum + head.w.dot(&head.w.t()));
    for class in 0..3 {
        for i in 0..5 {
            let ends = normals(SEED.named("ends").stream(i), 2, 2);
            let (a, b) = (ends.row(0).to_owned(), ends.row(1).to_owned());
            let v = &a - &b;
            let loss = |z: &Array1<f64>| sample_loss(&heads, z, class);
            let gain = 0.25 * v.dot(&curvature.dot(&v));
            close(&[loss(&(0.5 * (&a + &b)))], &[0.5 * (loss(&a) + loss(&b)) - gain], ROUNDING);
            let seen: f64 = heads.iter().map(|head| head.w.t().dot(&v).mapv(|s| s * s).sum()).sum();
            close(&[4.0 * gain], &[seen], ROUNDING);
        }
    }
}

#[test]
fn a_ridge_head_satisfies_its_normal_equations() {
    let (z, y) = ten();
    for weight in [0.01, 1.0, 30.0] {
        let head = fit(&z, &y, 3, weight);
        let mut sum = Array2::zeros((2, 3));
        let mut total = Array1::<f64>::zeros(3);
        for (row, y) in z.rows().into_iter().zip(&y) {
            let r = residual(&head, &row.to_owned(), *y);
            sum += &outer(&row.to_owned(), &r);
            total += &r;
        }
        close(&sum, &(weight * &head.w), ROUNDING);
        close(&total, &Array1::zeros(3), ROUNDING);
    }
}

/// Three classes of `k` rows: means in the first three coordinates, and in the fourth a nuisance that adds up to zero in
/// each class, which a ridge head therefore ignores.
fn unseen(k: usize) -> (Array2<f64>, Array2<f64>, Vec<u32>) {
    let means = normals(SEED.named("means"), 3, 3);
    let y: Vec<u32> = (0..3 * k).map(|i| (i / k) as u32).collect();
    let z = Array2::from_shape_fn((3 * k, 4), |(i, j)| {
        if j < 3 { means[[i / k, j]] } else { (i % k) as f64 - 0.5 * (k - 1) as f64 }
    });
    (z, means, y)
}

#[test]
fn classes_that_a_head_sees_as_points_have_these_normal_equations() {
    for k in [2, 5] {
        let (z, means, y) = unseen(k);
        let head = fit(&z, &y, 3, 0.7);
        close(head.w.row(3), &[0.0; 3], ROUNDING);
        let mut sum = Array2::zeros((4, 3));
        let mut total = Array1::<f64>::zeros(3);
        for c in 0..3 {
            let members: Vec<_> =
                (0..k).map(|i| residual(&head, &z.row(c * k + i).to_owned(), c as u32)).collect();
            members.iter().for_each(|r| close(r, &members[0], ROUNDING));
            let mut mean = Array1::zeros(4);
            (0..3).for_each(|j| mean[j] = means[[c, j]]);
            sum += &(k as f64 * outer(&mean, &members[0]));
            total += &members[0];
        }
        close(&sum, &(0.7 * &head.w), ROUNDING);
        close(&total, &Array1::zeros(3), ROUNDING);
    }
}

#[test]
fn an_unseen_swap_changes_the_gradient_by_difference_times_residual() {
    let (z, _, y) = unseen(4);
    let weight = 5.0;
    let head = fit(&z, &y, 3, weight);
    // Row 5, of class 1, is replaced by a sample that this head cannot tell from it.
    let mut swapped = z.clone();
    swapped[[5, 3]] += 1.3;
    let v = &z.row(5) - &swapped.row(5);
    close(&head.w.t().dot(&v), &Array1::zeros(3), ROUNDING);

    // Heads that do not see v have the same objective on both subsets.
    for i in 0..10 {
        let seed = SEED.named("blind").stream(i);
        let mut w = normals(seed, 4, 3);
        w.row_mut(3).fill(0.0);
        let blind = LinearHead { w, b: normals(seed.named("bias"), 1, 3).row(0).to_owned() };
        close(&[objective(&blind, &z, &y, weight)], &[objective(&blind, &swapped, &y, weight)], ROUNDING);
    }

    // The gradient of the second objective at the head of the first.
    let r = residual(&head, &z.row(5).to_owned(), 1);
    let rule = 2.0 * outer(&v.to_owned(), &r);
    let numeric = Array2::from_shape_fn((4, 3), |(i, j)| {
        let by = |h: f64| {
            let mut moved = head.clone();
            moved.w[[i, j]] += h;
            objective(&moved, &swapped, &y, weight)
        };
        (by(STEP) - by(-STEP)) / (2.0 * STEP)
    });
    close(&numeric, &rule, DIFFERENCES);
    assert!(squares(&rule) > 0.01, "so the first head is not that of the second subset");
    let other = fit(&swapped, &y, 3, weight);
    assert!(other.w.row(3).iter().any(|w| w.abs() > 1e-3), "and that one sees v: {}", other.w.row(3));
}

/// (C, d) Rows less their mean.
fn centred(means: &Array2<f64>) -> Array2<f64> {
    means - &(means.sum_axis(Axis(0)) / means.nrows() as f64)
}

/// (C, C) e_c − Wᵀz̄_c − b in row c, for classes that are points, from (I − H) E.
fn point_residuals(means: &Array2<f64>, k: usize, weight: f64) -> Array2<f64> {
    let (c, d) = means.dim();
    let zc = centred(means);
    let gram = zc.t().dot(&zc) + weight / k as f64 * Array2::<f64>::eye(d);
    let mut h = Array2::zeros((c, c));
    for j in 0..c {
        h.column_mut(j).assign(&zc.dot(&solve(&gram, &zc.row(j).to_owned()).unwrap()));
    }
    let e = Array2::<f64>::eye(c) - 1.0 / c as f64;
    (Array2::<f64>::eye(c) - h).dot(&e)
}

/// The largest eigenvalue of a symmetric matrix without negative ones, by powers.
fn largest(m: &Array2<f64>) -> f64 {
    let mut x = normals(SEED.named("power"), 1, m.nrows()).row(0).to_owned();
    for _ in 0..2000 {
        x = m.dot(&x);
        x /= x.dot(&x).sqrt();
    }
    x.dot(&m.dot(&x))
}

#[test]
fn class_residuals_are_these_and_never_zero() {
    for (i, (classes, d, k, weight)) in
        [(2, 2, 1, 0.01), (3, 5, 4, 1.0), (5, 3, 2, 0.1), (4, 8, 10, 1e-6)].into_iter().enumerate()
    {
        let means = normals(SEED.named("classes").stream(i as u64), classes, d);
        let z = Array2::from_shape_fn((classes * k, d), |(row, j)| means[[row / k, j]]);
        let y: Vec<u32> = (0..classes * k).map(|row| (row / k) as u32).collect();
        let head = fit(&z, &y, classes, weight);
        let rule = point_residuals(&means, k, weight);
        let zc = centred(&means);
        let sigma = largest(&zc.dot(&zc.t()));
        let share = (1.0 - 1.0 / classes as f64).sqrt();
        let floor = share * weight / (weight + k as f64 * sigma);
        for c in 0..classes {
            let r = residual(&head, &means.row(c).to_owned(), c as u32);
            // With a tiny penalty the system is as ill-conditioned as 1e7.
            close(&r, rule.row(c), 1e-9);
            assert!(r.dot(&r).sqrt() >= floor * (1.0 - 1e-6), "class {c}: {} and {floor}", r.dot(&r).sqrt());
        }
    }
}

#[test]
fn a_collapsed_class_leaves_this_residual() {
    for (k, delta, weight) in [(1, 4.0, 0.01), (5, 6.0, 1.0), (20, 0.3, 0.1), (1, 1.0, 50.0)] {
        let z = Array2::from_shape_fn((2 * k, 2), |(i, j)| if j == 0 && i >= k { delta } else { 0.5 });
        let z = z - &array![0.0, 0.2];
        let y: Vec<u32> = (0..2 * k).map(|i| u32::from(i >= k)).collect();
        let separation = delta - 0.5;
        let head = fit(&z, &y, 2, weight);
        let r = 0.5 * weight / (0.5 * k as f64 * separation * separation + weight);
        for (row, y) in z.rows().into_iter().zip(&y) {
            let sign = 2.0 * f64::from(*y) - 1.0;
            // The residuals are differences of numbers of size one.
            let found = residual(&head, &row.to_owned(), *y);
            assert!((found[1] - sign * r).abs() < 1e-12 && (found[0] + sign * r).abs() < 1e-12);
        }
    }
}

#[test]
fn without_a_bound_only_one_point_for_all_is_at_rest() {
    // λ‖W‖² = k Σ_c z̄_c · W r_c, so W = 0 as soon as every W r_c = 0.
    let means = normals(SEED.named("rest"), 4, 3);
    let y = [0, 1, 2, 3];
    for weight in [0.1, 2.0] {
        let head = fit(&means, &y, 4, weight);
        let right: f64 = (0..4)
            .map(|c| {
                let z = means.row(c).to_owned();
                z.dot(&head.w.dot(&residual(&head, &z, c as u32)))
            })
            .sum();
        close(&[weight * squares(&head.w)], &[right], ROUNDING);
        assert!(right > 0.01);
    }
    // All on one point: W = 0, every loss is constant.
    let z = Array2::from_elem((4, 3), 0.7);
    let head = fit(&z, &y, 4, 0.1);
    close(&head.w, &Array2::zeros((3, 4)), ROUNDING);
    close(&head.b, &[0.25; 4], ROUNDING);
}

/// Vertices of a regular simplex of `c` points on the sphere of the given radius, in c dimensions.
fn simplex(c: usize, radius: f64) -> Array2<f64> {
    let e = Array2::<f64>::eye(c) - 1.0 / c as f64;
    e * (radius / (1.0 - 1.0 / c as f64).sqrt())
}

#[test]
fn a_simplex_on_the_sphere_meets_the_hypothesis() {
    for (classes, k, weight, radius) in [(2, 1, 0.01, 3.0), (3, 2, 1.0, 1.0), (12, 5, 0.1, 2.0)] {
        let means = simplex(classes, radius);
        let z = Array2::from_shape_fn((classes * k, classes), |(row, j)| means[[row / k, j]]);
        let y: Vec<u32> = (0..classes * k).map(|row| (row / k) as u32).collect();
        let head = fit(&z, &y, classes, weight);
        let (s, rho) = (radius * radius / (1.0 - 1.0 / classes as f64), weight / k as f64);
        for c in 0..classes {
            let at = means.row(c).to_owned();
            let push = head.w.dot(&residual(&head, &at, c as u32));
            close(&push, &(rho / (s + rho).powi(2) * &at), ROUNDING);
            // Any other point of the ball is worse.
            let best = sample_loss(std::slice::from_ref(&head), &at, c as u32);
            for i in 0..50 {
                let other = in_ball(SEED.named("ball").stream(i), classes, radius);
                assert!(sample_loss(std::slice::from_ref(&head), &other, c as u32) > best);
            }
        }
    }
}

/// A point of the ball, on its sphere every other time.
fn in_ball(seed: Seed, d: usize, radius: f64) -> Array1<f64> {
    let x = normals(seed, 1, d).row(0).to_owned();
    let length =
        if seed.value().is_multiple_of(2) { radius } else { radius * seed.named("length").uniform(0) };
    let size = x.dot(&x).sqrt();
    x * (length / size)
}

#[test]
fn spread_classes_never_meet_the_hypothesis() {
    // Ten points of the unit disc, one class not a point: some sample is not where its loss is least.
    for (k, weight) in [(1, 0.1), (2, 0.1), (2, 5.0)] {
        for i in 0..20 {
            let seed = SEED.named("disc").stream(i);
            let y = ten().1;
            let mut z = Array2::zeros((10, 2));
            for (row, class) in y.iter().enumerate() {
                // Classes 0 and 1 are points; class 2 is spread, across the line between them or in any way.
                let at = match class {
                    0 => array![-1.0, 0.0],
                    1 => array![1.0, 0.0],
                    _ if i == 0 => array![0.0, 0.2 * (row as f64 - 7.5)],
                    _ => in_ball(seed.stream(row as u64), 2, 1.0),
                };
                z.row_mut(row).assign(&at);
            }
            let heads = all_heads(&z, &y, 3, k, weight);
            let least = (0..10)
                .map(|row| {
                    // How much a step against the gradient, back into the disc, can gain.
                    let at = z.row(row).to_owned();
                    let to = into_disc(&(&at - &(1e-3 * sample_gradient(&heads, &at, y[row]))), 1.0);
                    sample_loss(&heads, &at, y[row]) - sample_loss(&heads, &to, y[row])
                })
                .fold(0.0, f64::max);
            assert!(least > 1e-7, "k {k}, cloud {i}: {least}");
        }
    }
}

fn into_disc(z: &Array1<f64>, radius: f64) -> Array1<f64> {
    let size = z.dot(z).sqrt();
    if size > radius { z * (radius / size) } else { z.clone() }
}

#[test]
fn without_a_penalty_an_exact_fit_is_at_rest_with_any_spread() {
    let (u, v): (Array1<f64>, Array1<f64>) = (array![1.2, -0.5], array![0.5, 1.2]);
    assert_eq!(u.dot(&v), 0.0);
    let y: Vec<u32> = (0..40).map(|i| i % 2).collect();
    for spread in [0.1, 1.0, 30.0] {
        // Along u by class, along v at will.
        let at_will = |i: usize| spread * SEED.named("at will").normal(i as u64);
        let z = Array2::from_shape_fn((40, 2), |(i, j)| f64::from(y[i]) * u[j] + at_will(i) * v[j]);
        let rows = features(&z, &y, 2).rows().unwrap();
        for step in 0..20 {
            let drawn = rows.draw(4, false, SEED.stream(step)).unwrap();
            let head = WeakFit::RidgeSum(0.0).fit(&features(&z, &y, 2).take(&drawn).unwrap()).unwrap().head;
            close(head.w.column(1), &(&u / u.dot(&u)), ROUNDING);
            for (row, y) in z.rows().into_iter().zip(&y) {
                let g = sample_gradient(std::slice::from_ref(&head), &row.to_owned(), *y);
                assert!(g.iter().all(|g| g.abs() < 1e-12), "{g}");
            }
        }
    }
}

#[test]
fn with_one_subset_six_points_are_minimisers_and_one_class_is_no_point() {
    let y = [0, 0, 1, 1, 2, 2];
    for (height, weight) in [(0.6, 0.01), (0.6, 1.0), (1.0, 0.1)] {
        let z = array![[-1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, height], [0.0, -height]];
        let heads = all_heads(&z, &y, 3, 2, weight);
        assert_eq!(heads.len(), 1);
        let a = 2.0 / (4.0 + weight);
        close(&heads[0].w, &array![[-a, a, 0.0], [0.0, 0.0, 0.0]], ROUNDING);
        close(&heads[0].b, &[1.0 / 3.0; 3], ROUNDING);
        for (row, y) in z.rows().into_iter().zip(y) {
            let at = row.to_owned();
            // On the circle the gradient points inwards, inside it is zero: with a convex loss that is enough.
            let g = sample_gradient(&heads, &at, y);
            let push = match y {
                0 => [2.0 * a * (1.0 - 2.0 * a), 0.0],
                1 => [-2.0 * a * (1.0 - 2.0 * a), 0.0],
                _ => [0.0, 0.0],
            };
            close(&g, &push, ROUNDING);
            assert!(g.dot(&at) <= ROUNDING);
            let best = sample_loss(&heads, &at, y);
            for i in 0..500 {
                let other = in_ball(SEED.named("six").stream(i), 2, 1.0);
                assert!(sample_loss(&heads, &other, y) >= best - ROUNDING);
            }
        }
    }
    // With k = 1 the same points are not at rest.
    let z = array![[-1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.6], [0.0, -0.6]];
    let heads = all_heads(&z, &y, 3, 1, 0.01);
    let g = sample_gradient(&heads, &z.row(4).to_owned(), 2);
    let mean = g / heads.len() as f64;
    close(&mean, &[0.0, 4.608], 1e-4);
}

#[test]
fn merged_classes_are_consistent_with_themselves() {
    let (z, y) = (array![[-1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], [0, 1, 2]);
    for weight in [0.01, 1.0] {
        let head = fit(&z, &y, 3, weight);
        close(head.w.column(1), head.w.column(2), ROUNDING);
        close(&[head.b[1]], &[head.b[2]], ROUNDING);
        let heads = [head];
        for i in 0..200 {
            let other = in_ball(SEED.named("merged").stream(i), 2, 1.0);
            close(&[sample_loss(&heads, &other, 1)], &[sample_loss(&heads, &other, 2)], ROUNDING);
            for (row, y) in z.rows().into_iter().zip(y) {
                assert!(sample_loss(&heads, &other, y) > sample_loss(&heads, &row.to_owned(), y));
            }
        }
    }
}

/// Scalar head (w, b) that minimises Σ (w·z + b − y)² + λ(‖w‖² + b²).
fn penalised_bias(z: &Array2<f64>, y: &[f64], weight: f64) -> Array1<f64> {
    let (n, d) = z.dim();
    let with_one = Array2::from_shape_fn((n, d + 1), |(i, j)| if j < d { z[[i, j]] } else { 1.0 });
    let gram = with_one.t().dot(&with_one) + weight * Array2::<f64>::eye(d + 1);
    solve(&gram, &with_one.t().dot(&Array1::from(y.to_vec()))).unwrap()
}

#[test]
fn a_penalised_bias_lets_one_class_stay_spread() {
    // In the disc of radius 2: class 1 at (−2, 0), class 0 on the line (½, h), where z̄₁ · z₀ = −1.
    let (radius, k) = (2.0, 2);
    let heights = [-1.5, -0.4, 0.3, 1.9];
    for weight in [0.01, 1.0] {
        let alpha = k as f64 / (k as f64 * (radius * radius + 1.0) + weight);
        for i in 0..4 {
            for j in 0..i {
                let z = array![[0.5, heights[i]], [0.5, heights[j]], [-2.0, 0.0], [-2.0, 0.0]];
                let theta = penalised_bias(&z, &[0.0, 0.0, 1.0, 1.0], weight);
                close(&theta, &[-2.0 * alpha, 0.0, alpha], ROUNDING);
                let score = |z: &Array1<f64>| theta[0] * z[0] + theta[1] * z[1] + theta[2];
                // Class 0: loss zero at every height. Class 1: the loss is least at (−2, 0).
                heights.iter().for_each(|h| close(&[score(&array![0.5, *h])], &[0.0], ROUNDING));
                let best = (score(&array![-2.0, 0.0]) - 1.0).powi(2);
                for i in 0..100 {
                    let other = in_ball(SEED.named("two").stream(i), 2, radius);
                    assert!((score(&other) - 1.0).powi(2) > best);
                }
            }
        }
    }
}

/// How free features are trained: each is a parameter of its own.
#[derive(Clone, Copy)]
struct Collapse {
    k: usize,
    weight: f64,
    /// η of z − η ∇(scalar squared loss of z).
    rate: f64,
    radius: f64,
    steps: usize,
}

const SPEC: Collapse = Collapse { k: 1, weight: 0.01, rate: 0.5, radius: 3.0, steps: 30_000 };

/// One fresh head per step, all samples moved under it, back into the ball; `see` gets every step and the features.
fn collapse(start: &Features, how: Collapse, seed: Seed, mut see: impl FnMut(usize, &Array2<f64>)) {
    let mut now = start.clone();
    let rows = now.rows().unwrap();
    for step in 0..=how.steps {
        see(step, &now.z);
        let drawn = now.take(&rows.draw(how.k, false, seed.stream(step as u64)).unwrap()).unwrap();
        let head = WeakFit::RidgeSum(how.weight).fit(&drawn).unwrap().head;
        // Column 1 is the scalar head.
        let (w, b) = ([head.w[[0, 1]], head.w[[1, 1]]], head.b[1]);
        for (mut z, y) in now.z.rows_mut().into_iter().zip(&now.y) {
            let r = w[0] * z[0] + w[1] * z[1] + b - f64::from(*y);
            let moved = [z[0] - 2.0 * how.rate * r * w[0], z[1] - 2.0 * how.rate * r * w[1]];
            let scale = (how.radius / moved[0].hypot(moved[1])).min(1.0);
            (z[0], z[1]) = (moved[0] * scale, moved[1] * scale);
        }
    }
}

/// 50 + 50 points in the plane, within-class deviation 1, centres (±2, 0).
fn clouds(seed: Seed) -> Features {
    let y: Vec<u32> = (0..100).map(|i| u32::from(i >= 50)).collect();
    let centre = |i: usize, j: usize| if j == 0 { 4.0 * f64::from(y[i]) - 2.0 } else { 0.0 };
    let z = Array2::from_shape_fn((100, 2), |(i, j)| centre(i, j) + seed.normal((2 * i + j) as u64));
    Features { z, y, classes: 2 }
}

/// Two classes, the first half of the rows and the second: their means, their distance and the root mean squared
/// distance to them.
struct Shape {
    means: [[f64; 2]; 2],
    separation: f64,
    spread: f64,
}

fn shape(z: &Array2<f64>) -> Shape {
    let half = z.nrows() / 2;
    let mut means = [[0.0; 2]; 2];
    for (i, row) in z.rows().into_iter().enumerate() {
        (0..2).for_each(|j| means[i / half][j] += row[j] / half as f64);
    }
    let distance = |row: [f64; 2], m: [f64; 2]| (row[0] - m[0]).powi(2) + (row[1] - m[1]).powi(2);
    let sum: f64 =
        z.rows().into_iter().enumerate().map(|(i, row)| distance([row[0], row[1]], means[i / half])).sum();
    Shape { means, separation: distance(means[0], means[1]).sqrt(), spread: (sum / z.nrows() as f64).sqrt() }
}

impl Shape {
    fn ratio(&self) -> f64 {
        self.spread / self.separation
    }

    /// Distance of each row from its class mean, across the line between the means.
    fn across(&self, z: &Array2<f64>) -> Vec<f64> {
        let half = z.nrows() / 2;
        let [a, b] = self.means;
        let v = [-(b[1] - a[1]) / self.separation, (b[0] - a[0]) / self.separation];
        z.rows()
            .into_iter()
            .enumerate()
            .map(|(i, row)| (0..2).map(|j| (row[j] - self.means[i / half][j]) * v[j]).sum())
            .collect()
    }
}

fn mean_square(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64
}

/// Ratio of spread to separation at these steps.
fn ratios(how: Collapse, seed: Seed, at: &[usize]) -> Vec<f64> {
    let mut found = Vec::new();
    collapse(&clouds(seed.named("start")), how, seed.named("subsets"), |step, z| {
        if at.contains(&step) {
            found.push(shape(z).ratio());
        }
    });
    found
}

#[test]
fn free_features_collapse_under_strangers() {
    for seed in 0..2 {
        let found = ratios(SPEC, Seed::new(seed), &[0, 300, 1000, 3000, 10_000, 30_000]);
        assert!(found[0] > 0.3, "{found:?}");
        if seed == 0 {
            // The numbers of the page, to two or three digits.
            let printed = [0.351, 0.0894, 0.0543, 0.0317, 0.0172, 0.0086];
            found.iter().zip(printed).for_each(|(r, p)| assert!((r / p - 1.0).abs() < 0.005, "{r} {p}"));
        }
        assert!(found[1] < 0.15 && found[3] < 0.05 && found[5] < 0.015, "{found:?}");
        // A power law with the exponent −½ where it has set in and before the penalty bends it.
        let slope = (found[4] / found[2]).log10();
        assert!((slope + 0.5).abs() < 0.03, "slope {slope}");
        // Its constant is neither that of the pull across alone, 3, nor above what the circle allows.
        let constant = found[3] * 3000f64.sqrt();
        assert!(constant > 1.6 && constant < 6.0 / (4.0 * 0.5f64.sqrt()), "{constant}");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Above 0.15 for every seed and above 0.2 for most is what is asked; 0.21 to 0.26 is what the page says.
#[track_caller]
fn stay_spread(found: Vec<f64>) {
    assert!(found.iter().all(|r| *r > 0.15) && median(found.clone()) > 0.2, "{found:?}");
    assert!(found.iter().all(|r| *r > 0.21 && *r < 0.26), "{found:?}");
}

#[test]
fn free_features_stay_spread_under_heads_that_are_not_weak() {
    let after = |k: usize, weight: f64| -> Vec<f64> {
        let how = Collapse { k, weight, steps: 3000, ..SPEC };
        (0..5).map(|seed| ratios(how, Seed::new(seed), &[3000])[0]).collect()
    };
    stay_spread(after(20, 0.0));
    // One subset, the same every time: the head is a function of the features, and nobody is anonymous.
    stay_spread(after(50, 0.01));
}

/// End to end: head and free features take their steps together, the head from these weights.
fn together(start: &Features, mut w: [f64; 2], steps: usize) -> Array2<f64> {
    let (rate, head_rate) = (SPEC.rate, 0.1);
    let mut now = start.clone();
    let mut b = 0.0;
    for _ in 0..steps {
        let mut g = [0.0; 3];
        let step = 2.0 / now.n() as f64;
        for (mut z, y) in now.z.rows_mut().into_iter().zip(&now.y) {
            let r = w[0] * z[0] + w[1] * z[1] + b - f64::from(*y);
            g = [g[0] + step * r * z[0], g[1] + step * r * z[1], g[2] + step * r];
            let moved = [z[0] - 2.0 * rate * r * w[0], z[1] - 2.0 * rate * r * w[1]];
            let scale = (SPEC.radius / moved[0].hypot(moved[1])).min(1.0);
            (z[0], z[1]) = (moved[0] * scale, moved[1] * scale);
        }
        w = [w[0] - head_rate * g[0], w[1] - head_rate * g[1]];
        b -= head_rate * g[2];
    }
    now.z
}

#[test]
fn free_features_stay_spread_end_to_end() {
    let after = |size: f64| -> Vec<f64> {
        let of = |seed: Seed| {
            let first = seed.named("head");
            let w = [size * first.normal(0), size * first.normal(1)];
            shape(&together(&clouds(seed.named("start")), w, 3000)).ratio()
        };
        (0..5).map(|seed| of(Seed::new(seed))).collect()
    };
    stay_spread(after(0.0));
    // From a random head the outcome is what that head happens to be.
    let mut random = after(1.0);
    random.sort_by(f64::total_cmp);
    assert!((random[0] - 0.12).abs() < 0.01 && (random[4] - 0.26).abs() < 0.01, "{random:?}");
}

/// `m` numbers of mean 0 and variance 1, symmetric, with the quantiles of a normal distribution in between.
fn quantiles(m: usize) -> Vec<f64> {
    let raw: Vec<f64> = (0..m).map(|i| normal_quantile((i as f64 + 0.5) / m as f64).unwrap()).collect();
    let size = mean_square(&raw).sqrt();
    raw.iter().map(|q| q / size).collect()
}

/// Means over all pairs of a sample of each class: the gradient of the scalar squared loss at `z`, of class 1, and the
/// square of the head's second weight.
fn mean_force(one: &[[f64; 2]], zero: &[[f64; 2]], weight: f64, z: [f64; 2]) -> ([f64; 2], f64) {
    let (mut force, mut square) = ([0.0; 2], 0.0);
    for a in one {
        for b in zero {
            let gap = [a[0] - b[0], a[1] - b[1]];
            let length = gap[0] * gap[0] + gap[1] * gap[1] + 2.0 * weight;
            let w = [gap[0] / length, gap[1] / length];
            let r = w[0] * (z[0] - a[0]) + w[1] * (z[1] - a[1]) - weight / length;
            force = [force[0] + 2.0 * r * w[0], force[1] + 2.0 * r * w[1]];
            square += w[1] * w[1];
        }
    }
    let pairs = (one.len() * zero.len()) as f64;
    ([force[0] / pairs, force[1] / pairs], square / pairs)
}

#[test]
fn the_mean_force_of_pairs_is_a_pull_across_and_a_push_outwards() {
    let gap = 6.0f64;
    // Relative errors of the three formulas for classes on the lines u = ±D/2, with λ and u − ū of the order of s².
    let errors = |s: f64| {
        let xi: Vec<f64> = quantiles(100).iter().map(|q| s * q).collect();
        let line = |u: f64| -> Vec<[f64; 2]> { xi.iter().map(|x| [u, *x]).collect() };
        let (weight, ahead, x) = (0.7 * s * s, 0.01 * s * s, 1.3 * s);
        let (force, square) = mean_force(&line(0.5 * gap), &line(-0.5 * gap), weight, [0.5 * gap + ahead, x]);
        let across = 4.0 * s * s * x / gap.powi(4);
        let along = 2.0 * ahead / gap.powi(2) - 2.0 * (weight + s * s) / gap.powi(3);
        [square / (2.0 * s * s / gap.powi(4)) - 1.0, force[1] / across - 1.0, force[0] / along - 1.0]
    };
    let (whole, half) = (errors(0.06), errors(0.03));
    for (whole, half) in whole.iter().zip(&half) {
        // (s/D)² = 1e-4: the next order, times small numbers, and a quarter of it at half the spread.
        assert!(whole.abs() < 2e-3, "{whole}");
        assert!((whole / half - 4.0).abs() < 0.1, "{whole} {half}");
    }
}

#[test]
fn on_the_circle_the_spread_obeys_this_law() {
    let radius = 3.0f64;
    for (s, weight) in [(0.05, 0.01), (0.05, 1e-9), (0.1, 0.001)] {
        let xi: Vec<f64> = quantiles(100).iter().map(|q| s * q).collect();
        let arc = |side: f64| -> Vec<[f64; 2]> {
            xi.iter().map(|x| [side * (radius * radius - x * x).sqrt(), *x]).collect()
        };
        let (one, zero) = (arc(1.0), arc(-1.0));
        for x in [0.2 * s, s, 2.5 * s] {
            let z = [(radius * radius - x * x).sqrt(), x];
            let (force, _) = mean_force(&one, &zero, weight, z);
            // What the projection onto the disc takes away: the part along the outward normal.
            let outward = -(force[0] * z[0] + force[1] * z[1]) / radius;
            assert!(outward > 0.0, "every sample stays on the circle");
            let speed = -force[1] - outward * z[1] / radius;
            let law = -4.0 / (2.0 * radius).powi(4) * x * (x * x + s * s + weight);
            // The next order: (s/D)² = 3e-4 at most, times small numbers.
            assert!((speed / law - 1.0).abs() < 0.01, "s {s}, ξ {x}: {speed} and {law}");
        }
    }
}

/// s² at time t if ds²/dt = −(8η/D⁴)(2s⁴ + λs²).
fn slowest(s2: f64, t: f64, rate: f64, gap: f64, weight: f64) -> f64 {
    let growth = (8.0 * rate * weight * t / gap.powi(4)).exp();
    weight / ((2.0 + weight / s2) * growth - 2.0)
}

#[test]
fn the_slowest_collapse_has_this_form() {
    let (rate, gap) = (0.5, 6.0f64);
    for weight in [0.01, 1.0] {
        for t in [100.0, 3000.0] {
            let at = |t: f64| slowest(0.3, t, rate, gap, weight);
            let (h, s2) = (0.1, at(t));
            let law = -8.0 * rate / gap.powi(4) * (2.0 * s2 * s2 + weight * s2);
            // Central differences over a step of which s² changes by 1e-3 of itself at most.
            close(&[(at(t + h) - at(t - h)) / (2.0 * h) / law], &[1.0], 1e-6);
        }
        close(&[slowest(0.3, 0.0, rate, gap, weight)], &[0.3], ROUNDING);
    }
    // Without a penalty, and after long: s/D = D/(4 √(ηt)), 2.12/√t here.
    let (weight, t) = (1e-9, 1e6);
    let ratio = slowest(0.3, t, rate, gap, weight).sqrt() / gap;
    close(&[ratio * t.sqrt()], &[gap / (4.0 * rate.sqrt())], 1e-3);
    close(&[gap / (4.0 * rate.sqrt())], &[2.12], 1e-3);
}

#[test]
fn the_law_of_the_circle_predicts_the_collapse() {
    for (seed, weight) in [(0, 0.01), (0, 1e-6)] {
        let seed = Seed::new(seed);
        let (mut xi, mut first) = (Vec::new(), 0.0);
        let mut compared = 0;
        collapse(
            &clouds(seed.named("start")),
            Collapse { weight, ..SPEC },
            seed.named("subsets"),
            |step, z| {
                if step < 1000 {
                    return;
                }
                if step == 1000 {
                    xi = shape(z).across(z);
                    first = mean_square(&xi);
                }
                let s2 = mean_square(&xi);
                if [3000, 10_000, 30_000].contains(&step) {
                    let found = shape(z).ratio();
                    // Heads are drawn, the law is a mean.
                    assert!(
                        (s2.sqrt() / 6.0 / found - 1.0).abs() < 0.03,
                        "{step}: {} {found}",
                        s2.sqrt() / 6.0
                    );
                    let bound = slowest(first, (step - 1000) as f64, SPEC.rate, 6.0, weight).sqrt() / 6.0;
                    assert!(found < bound && found > 0.8 * bound, "{step}: {found} {bound}");
                    if weight < 1e-3 && step != 10_000 {
                        let printed = if step == 3000 { 0.0325 } else { 0.0112 };
                        assert!((found / printed - 1.0).abs() < 0.01, "{step}: {found}");
                    }
                    compared += 1;
                }
                let speed = 4.0 * SPEC.rate / 6f64.powi(4);
                xi.iter_mut().for_each(|x| *x -= speed * *x * (*x * *x + s2 + weight));
            },
        );
        assert_eq!(compared, 3);
    }
}

#[test]
fn without_a_bound_classes_drift_apart_for_ever() {
    // From step 100 on, when each class has become a line across.
    for (seed, weight, printed) in [(0, 0.01, 8.1), (1, 0.01, 8.6), (0, 1.0, 13.4), (0, 1e-9, 8.0)] {
        let seed = Seed::new(seed);
        let how = Collapse { weight, radius: f64::INFINITY, steps: 3000, ..SPEC };
        let (mut law, mut invariant, mut start) = (0.0, 0.0, 0.0);
        collapse(&clouds(seed.named("start")), how, seed.named("subsets"), |step, z| {
            let now = shape(z);
            let s2 = mean_square(&now.across(z));
            let product = now.separation * s2.sqrt() * (-0.5 * weight / s2).exp();
            match step {
                0 => start = now.separation,
                100 => (law, invariant) = (now.separation.powi(4), product),
                1000 | 3000 => {
                    assert!(step != 3000 || (now.separation - printed).abs() < 0.1, "{}", now.separation);
                    // Heads are drawn, the laws are means of leading order.
                    assert!(
                        (law.powf(0.25) / now.separation - 1.0).abs() < 0.04,
                        "{step}: {}",
                        now.separation
                    );
                    assert!((product / invariant - 1.0).abs() < 0.01, "{step}: {product} {invariant}");
                    assert!(now.separation > 1.5 * start && now.ratio() < 0.07);
                }
                _ => {}
            }
            law += 16.0 * how.rate * (weight + s2);
        });
    }
}

/// E[w_v²] for k = 1 in the plane: deviation 1, centres 4 apart, by polar coordinates of the difference of a pair.
fn pair_force(weight: f64) -> f64 {
    let (radii, angles, far) = (4000, 200, 16.0);
    let (dr, da) = (far / radii as f64, std::f64::consts::TAU / angles as f64);
    let mut sum = 0.0;
    for i in 1..radii {
        let r = i as f64 * dr;
        // Simpson's rule along the radius, equal weights around.
        let simpson = (2.0 + 2.0 * (i % 2) as f64) / 3.0;
        for j in 0..angles {
            let (sin, cos) = (j as f64 * da).sin_cos();
            let density =
                (-((r * cos - 4.0).powi(2) + (r * sin).powi(2)) / 4.0).exp() / (4.0 * std::f64::consts::PI);
            sum += simpson * (r * sin / (r * r + 2.0 * weight)).powi(2) * density * r;
        }
    }
    sum * dr * da
}

/// Mean and standard error.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n / n).sqrt())
}

/// 2k fresh points around (±2, 0).
fn fresh(k: usize, seed: Seed) -> Features {
    let y: Vec<u32> = (0..2 * k).map(|i| u32::from(i >= k)).collect();
    let centre = |i: usize, j: usize| if j == 0 { 4.0 * f64::from(y[i]) - 2.0 } else { 0.0 };
    let z = Array2::from_shape_fn((2 * k, 2), |(i, j)| centre(i, j) + seed.normal((2 * i + j) as u64));
    Features { z, y, classes: 2 }
}

/// Squares of the second weight of heads of fresh samples.
fn forces(k: usize, weight: f64, heads: u64) -> Vec<f64> {
    let seed = SEED.named("forces").stream(k as u64);
    let square =
        |i: u64| WeakFit::RidgeSum(weight).fit(&fresh(k, seed.stream(i))).unwrap().head.w[[1, 1]].powi(2);
    (0..heads).map(square).collect()
}

#[test]
fn the_contraction_force_peaks_where_the_head_barely_fits() {
    close(&[pair_force(0.01)], &[0.0205], 1e-4);
    let wanted =
        [(1, pair_force(0.01), 40_000), (2, 0.107, 40_000), (5, 0.0088, 20_000), (20, 0.0014, 4_000)];
    for (k, wanted, heads) in wanted {
        let (mean, error) = mean_and_error(&forces(k, 0.01, heads));
        // Four standard errors of the draws, and the rounding of what they are compared with.
        assert!((mean - wanted).abs() < 4.0 * error + 0.01 * wanted, "k {k}: {mean} ± {error}, not {wanted}");
        assert!(error < 0.05 * mean, "k {k}: {error}");
    }
    // On fixed clouds, over all pairs.
    let over_pairs = |seed: u64| {
        let z = clouds(Seed::new(seed).named("start")).z;
        let points: Vec<[f64; 2]> = z.rows().into_iter().map(|row| [row[0], row[1]]).collect();
        mean_force(&points[50..], &points[..50], 0.01, [0.0; 2]).1
    };
    let mut found: Vec<f64> = (0..5).map(over_pairs).collect();
    found.sort_by(f64::total_cmp);
    assert!((found[0] - 0.010).abs() < 5e-4 && (found[4] - 0.034).abs() < 5e-4, "{found:?}");
}

#[test]
fn without_a_penalty_the_force_is_this_and_infinite_at_two_per_class() {
    for (k, heads) in [(5, 20_000), (20, 4_000)] {
        let seed = SEED.named("forces").stream(k as u64);
        let n = 2.0 * k as f64;
        let left = |i: u64| {
            // What a line in u leaves of the targets.
            let f = fresh(k, seed.stream(i));
            let u = f.z.column(0);
            let mean = u.sum() / n;
            let along: f64 = u.iter().map(|u| (u - mean).powi(2)).sum();
            let with: f64 = u.iter().zip(&f.y).map(|(u, y)| (u - mean) * (f64::from(*y) - 0.5)).sum();
            (0.25 * n - with * with / along) / ((n - 2.0) * (n - 4.0))
        };
        let (mean, error) = mean_and_error(&forces(k, 0.0, heads));
        let (rule, _) = mean_and_error(&(0..heads).map(left).collect::<Vec<_>>());
        assert!((mean - rule).abs() < 4.0 * error, "k {k}: {mean} ± {error}, not {rule}");
        assert!(error < 0.03 * mean);
    }
    // With two per class, each hundredth of a penalty adds about the same to the mean, without end.
    let by: Vec<f64> = [1.0, 1e-2, 1e-4].iter().map(|w| mean_and_error(&forces(2, *w, 20_000)).0).collect();
    assert!(by[1] > 2.0 * by[0] && by[2] > 1.5 * by[1], "{by:?}");
}

// ---- classes of unequal size --------------------------------------------------------------------------------------

/// Two classes that overlap, forty of each; and a batch in which each of class 0 comes three times.
fn unequal() -> (Features, Features) {
    let y: Vec<u32> = (0..80).map(|i| i % 2).collect();
    let mut z = normals(SEED.named("unequal"), 80, 3);
    z.rows_mut().into_iter().zip(&y).for_each(|(mut z, y)| z[0] += 1.5 * f64::from(*y));
    let equal = features(&z, &y, 2);
    let zeros = || (0..80).step_by(2);
    let batch = equal.take(&(0..80).chain(zeros()).chain(zeros()).collect::<Vec<_>>()).unwrap();
    (equal, batch)
}

/// The sum over a batch of the gradients of its mean loss: how the loss changes as all features move alike.
fn push(how: WeakFit, heads: &Features, batch: &Features, counts: [usize; 2]) -> Array1<f64> {
    let tensor = |f: &Features| Tensor::from_vec(f.z.iter().copied().collect(), f.z.dim(), device()).unwrap();
    let z = Var::from_tensor(&tensor(batch)).unwrap();
    let y = Tensor::new(&batch.y[..], device()).unwrap();
    let foca = Foca { fit: how, ..Foca::default() };
    let loss = foca.loss(&tensor(heads), &heads.y, &z, &y, &counts).unwrap();
    let gradient = loss.backward().unwrap().get(&z).unwrap().sum(0).unwrap();
    gradient.numbers().unwrap().into_owned().into()
}

#[test]
fn shares_that_the_heads_have_not_seen_push_all_features_alike() {
    let (heads, batch) = unequal();
    for weight in [0.0, 2.0] {
        let head = fit(&heads.z, &heads.y, 2, weight);
        let mean = |class: u32| {
            let rows = (0..80).filter(|i| heads.y[*i] == class);
            rows.fold(Array1::zeros(2), |sum: Array1<f64>, i| {
                sum + residual(&head, &heads.z.row(i).to_owned(), class)
            }) / 40.0
        };
        let left = 0.25 * mean(0) - 0.25 * mean(1); // shares of 3/4 and 1/4, less a half
        let found = push(WeakFit::RidgeSum(weight), &heads, &batch, [1, 1]);
        close(&found, &(-2.0 * head.w.dot(&left)), ROUNDING);
        assert!(found.dot(&found) > 1e-3, "{found}");
        // Heads do not see where all features lie together, so the push is the same wherever it has led.
        let moved = |f: &Features| Features { z: &f.z + &array![3.0, -1.0, 7.0], ..f.clone() };
        close(&push(WeakFit::RidgeSum(weight), &moved(&heads), &moved(&batch), [1, 1]), &found, ROUNDING);
    }
    let (w, two) = (fit(&heads.z, &heads.y, 2, 0.0).w, TwoClass::of(&heads, 0, 1).unwrap());
    let rule = &w.column(1) * (2.0 * 0.5 / (1.0 + two.eigenvalue));
    // The eigenvalue has a shrinkage of a millionth.
    close(&push(WeakFit::RidgeSum(0.0), &heads, &batch, [1, 1]), &rule, 1e-5);
}

#[test]
fn weights_by_share_or_heads_by_share_leave_no_push() {
    let (heads, batch) = unequal();
    for how in [WeakFit::RidgeSum(0.0), WeakFit::RidgeSum(2.0), WeakFit::SoftmaxSum(2.0)] {
        assert!(largest_of(&push(how, &heads, &batch, [1, 1])) > 1e-2);
        for found in [push(how, &heads, &batch, [120, 40]), push(how, &batch, &batch, [120, 40])] {
            // The softmax is solved until its gradient is below 1e-8.
            assert!(largest_of(&found) < 1e-8, "{found}");
        }
    }
}

fn largest_of(v: &Array1<f64>) -> f64 {
    v.iter().fold(0.0, |most, v| v.abs().max(most))
}
