//! The equations of the chapter "Shared features and negative transfer".

use std::f64::consts::{FRAC_PI_2, FRAC_PI_3, PI};

use lastlayer::distribution::{normal_cdf, normal_density};
use lastlayer::seed::Seed;

use super::evidence::{CHEEKS, Pair};
use super::net::{Net, Task};
use super::{all_near, differences, dot, log_odds, logistic, loss, near, norm};

const SEED: Seed = Seed::new(40);

/// Sums of a few dozen products of numbers of size one.
const ROUNDING: f64 = 1e-12;
/// Central differences with a step of 1e-5 of values of size one: rounding over the step, and the square of the step.
const DIFFERENCES: f64 = 1e-8;
const STEP: f64 = 1e-5;
/// Half of the last digit that the chapter prints.
const PRINTED: f64 = 5e-5;

fn vector(seed: Seed, n: usize) -> Vec<f64> {
    (0..n as u64).map(|i| seed.normal(i)).collect()
}

fn scaled(v: &[f64], by: f64) -> Vec<f64> {
    v.iter().map(|v| v * by).collect()
}

fn minus(a: &[f64], b: &[f64], times: f64) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - times * b).collect()
}

/// Orthonormal vectors with the span of the given ones, by Gram and Schmidt, twice for accuracy.
fn orthonormal(vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for v in vectors {
        let mut v = v.clone();
        for _ in 0..2 {
            for u in &basis {
                v = minus(&v, u, dot(&v, u));
            }
        }
        let length = norm(&v);
        basis.push(scaled(&v, 1.0 / length));
    }
    basis
}

/// Loss of a task with the best head on features with this orthonormal basis, found by solving for the head, and checked
/// to be a minimum by moving the head.
fn loss_with_best_head(task: &[f64], basis: &[Vec<f64>]) -> f64 {
    let head: Vec<f64> = basis.iter().map(|u| dot(u, task)).collect();
    let loss = |head: &[f64]| {
        let read = head.iter().zip(basis).fold(vec![0.0; task.len()], |sum, (w, u)| minus(&sum, u, -w));
        let rest = minus(task, &read, 1.0);
        dot(&rest, &rest)
    };
    differences(&head, STEP, loss).iter().for_each(|slope| near(*slope, 0.0, DIFFERENCES));
    loss(&head)
}

/// Eigenvalues and eigenvectors of Σ τ τᵀ, largest first, by power iteration on what is left.
fn eigen(tasks: &[Vec<f64>], seed: Seed) -> Vec<(f64, Vec<f64>)> {
    let d = tasks[0].len();
    let apply = |v: &[f64]| tasks.iter().fold(vec![0.0; d], |sum, t| minus(&sum, t, -dot(t, v)));
    let mut found: Vec<(f64, Vec<f64>)> = Vec::new();
    for i in 0..d {
        let known: Vec<Vec<f64>> = found.iter().map(|(_, v)| v.clone()).collect();
        let clean = |v: &[f64]| orthonormal(&[known.clone(), vec![v.to_vec()]].concat()).pop().unwrap();
        let mut v = clean(&vector(seed.stream(i as u64), d));
        for _ in 0..4000 {
            let next = apply(&v);
            if norm(&next) < 1e-9 {
                break;
            }
            v = clean(&next);
        }
        found.push((dot(&v, &apply(&v)), v));
    }
    found
}

#[test]
fn a_narrow_trunk_keeps_the_top_eigenvectors_of_the_task_vectors() {
    let tasks: Vec<Vec<f64>> = (0..3).map(|j| vector(SEED.named("tasks").stream(j), 5)).collect();
    let eigen = eigen(&tasks, SEED.named("start"));
    let total = |basis: &[Vec<f64>]| tasks.iter().map(|t| loss_with_best_head(t, basis)).sum::<f64>();
    for width in 1..=5 {
        let top: Vec<Vec<f64>> = eigen[..width].iter().map(|(_, v)| v.clone()).collect();
        let left: f64 = eigen[width..].iter().map(|(value, _)| value).sum();
        // Power iteration converges with the ratio of eigenvalues to the power 4000.
        near(total(&top), left, 1e-9);
        assert_eq!(left < 1e-9, width >= 3, "nothing is lost exactly from three features on");
        for i in 0..300 {
            let any: Vec<Vec<f64>> = (0..width as u64)
                .map(|k| vector(SEED.stream(1000 * width as u64 + i).stream(k), 5))
                .collect();
            assert!(total(&orthonormal(&any)) >= left - 1e-9);
        }
    }
}

/// Angle from task a to the best single feature, with strengths of the tasks and the angle between them.
fn compromise(alpha: f64, beta: f64, theta: f64) -> f64 {
    let (a, b) = (alpha * alpha, beta * beta);
    (b * (2.0 * theta).sin()).atan2(a + b * (2.0 * theta).cos()) / 2.0
}

/// Losses of both tasks when the single feature lies at the angle psi.
fn losses_at(alpha: f64, beta: f64, theta: f64, psi: f64) -> (f64, f64) {
    ((alpha * psi.sin()).powi(2), (beta * (theta - psi).sin()).powi(2))
}

#[test]
fn two_tasks_meet_at_this_angle() {
    for (alpha, beta, theta) in [(1.0, 1.0, 1.0), (1.0, 2.0, FRAC_PI_3), (1.3, 0.4, 1.4), (0.7, 0.9, 0.2)] {
        let psi = compromise(alpha, beta, theta);
        assert!(psi > 0.0 && psi < theta);
        let (a, b) = losses_at(alpha, beta, theta, psi);
        // In coordinates: the same losses by projection.
        let tasks = [vec![alpha, 0.0], vec![beta * theta.cos(), beta * theta.sin()]];
        let feature = [vec![psi.cos(), psi.sin()]];
        near(loss_with_best_head(&tasks[0], &feature), a, ROUNDING);
        near(loss_with_best_head(&tasks[1], &feature), b, ROUNDING);
        let (p, q) = (alpha * alpha, beta * beta);
        let smaller = (p + q) / 2.0 - ((p - q).powi(2) / 4.0 + p * q * theta.cos().powi(2)).sqrt();
        near(a + b, smaller, ROUNDING);
        for i in 0..2000 {
            let (a, b) = losses_at(alpha, beta, theta, PI * f64::from(i) / 2000.0);
            assert!(a + b >= smaller - ROUNDING, "no other direction is better");
        }
    }
}

#[test]
fn equal_tasks_share_the_loss_and_the_stronger_of_two_strangers_takes_the_feature() {
    for theta in [0.1, 0.7, 1.5] {
        near(compromise(1.3, 1.3, theta), theta / 2.0, ROUNDING);
        let (a, b) = losses_at(1.3, 1.3, theta, theta / 2.0);
        near(a, (1.3 * (theta / 2.0).sin()).powi(2), ROUNDING);
        near(a, b, ROUNDING);
    }
    let psi = compromise(1.0, 1.001, FRAC_PI_2);
    let (a, b) = losses_at(1.0, 1.001, FRAC_PI_2, psi);
    near(a, 1.0, ROUNDING);
    near(b, 0.0, ROUNDING);
}

#[test]
fn accuracy_falls_by_the_angle_and_not_by_the_same_for_both() {
    let (alpha, beta, theta) = (1.0, 2.0, FRAC_PI_3);
    let psi = compromise(alpha, beta, theta);
    near(psi.to_degrees(), 53.05, 0.005);
    // Share of directions on which a label and the sign of the feature agree; a normal input has every direction alike.
    let agree = |angle: f64| {
        const DIRECTIONS: u32 = 100_000;
        let at = |i: u32| 2.0 * PI * (f64::from(i) + 0.5) / f64::from(DIRECTIONS);
        let same = (0..DIRECTIONS).filter(|&i| (at(i).cos() > 0.0) == ((at(i) - angle).cos() > 0.0)).count();
        same as f64 / f64::from(DIRECTIONS)
    };
    // Counting can miss one direction at each of four boundaries.
    near(agree(psi), 1.0 - psi / PI, 4e-5);
    near(agree(theta - psi), 1.0 - (theta - psi) / PI, 4e-5);
    near(-psi / PI, -0.2947, PRINTED);
    near(-(theta - psi) / PI, -0.0386, PRINTED);
}

#[test]
fn sharing_pays_while_the_distance_of_the_tasks_is_below_the_noise() {
    // Two orthogonal inputs of length 2 in four samples, and every combination of eight signs of the noise.
    let x = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]];
    let (n, d, sigma) = (4.0, 2.0, 0.8);
    let fit = |task: &[f64], signs: u32| -> Vec<f64> {
        let target = |i: usize| dot(task, &x[i]) + sigma * if signs >> i & 1 == 1 { 1.0 } else { -1.0 };
        (0..2).map(|j| (0..4).map(|i| x[i][j] * target(i)).sum::<f64>() / n).collect()
    };
    for (a, b) in [([1.0, 0.5], [0.6, 0.9]), ([1.0, 0.5], [-0.6, 0.9])] {
        let (mut alone, mut shared) = (0.0, 0.0);
        for signs in 0..256u32 {
            let (fit_a, fit_b) = (fit(&a, signs & 15), fit(&b, signs >> 4));
            let mean = scaled(&minus(&fit_a, &fit_b, -1.0), 0.5);
            alone += norm(&minus(&fit_a, &a, 1.0)).powi(2) / 256.0;
            shared += norm(&minus(&mean, &a, 1.0)).powi(2) / 256.0;
        }
        let apart = norm(&minus(&a, &b, 1.0)).powi(2);
        near(alone, d * sigma * sigma / n, ROUNDING);
        near(shared, apart / 4.0 + d * sigma * sigma / (2.0 * n), ROUNDING);
        assert_eq!(shared < alone, apart < 2.0 * d * sigma * sigma / n);
    }
}

/// A task with a network, and the gradients of both losses in the trunk.
fn example(i: u64) -> (Task, Net, Vec<f64>, Vec<f64>) {
    let seed = SEED.named("network").stream(i);
    let task = Task::random(12, 3, 2, seed);
    let net = task.net(seed.named("net"));
    let g_a = task.backward(&net, 0.0).phi;
    let both = task.backward(&net, -1.0).phi;
    let g_b = minus(&both, &g_a, 1.0);
    all_near(&g_a, &differences(&net.phi, STEP, |phi| task.loss_a(phi, &net.a)), DIFFERENCES);
    all_near(&g_b, &differences(&net.phi, STEP, |phi| task.loss_b(phi, &net.b)), DIFFERENCES);
    (task, net, g_a, g_b)
}

/// Derivative of L_a along a direction of the trunk.
fn slope(task: &Task, net: &Net, direction: &[f64]) -> f64 {
    let at = |eta: f64| task.loss_a(&minus(&net.phi, direction, eta), &net.a);
    (at(STEP) - at(-STEP)) / (2.0 * STEP)
}

#[test]
fn a_step_on_one_task_moves_the_other_by_the_inner_product() {
    for i in 0..20 {
        let (task, net, g_a, g_b) = example(i);
        near(slope(&task, &net, &g_b), -dot(&g_a, &g_b), DIFFERENCES);
        near(slope(&task, &net, &minus(&g_a, &g_b, -1.0)), -dot(&g_a, &g_a) - dot(&g_a, &g_b), DIFFERENCES);
        near(
            slope(&task, &net, &minus(&g_a, &g_b, 0.3)),
            -dot(&g_a, &g_a) + 0.3 * dot(&g_a, &g_b),
            DIFFERENCES,
        );
        let look_ahead =
            1.0 - task.loss_a(&minus(&net.phi, &g_b, 1e-6), &net.a) / task.loss_a(&net.phi, &net.a);
        // The second-order term of a step of 1e-6, over the step.
        near(look_ahead / 1e-6, dot(&g_a, &g_b) / task.loss_a(&net.phi, &net.a), 1e-5);
    }
}

#[test]
fn a_pair_step_raises_a_loss_only_below_this_cosine() {
    let (mut harmed, mut only_slowed) = (0, 0);
    for i in 0..300 {
        let (task, net, g_a, g_b) = example(i);
        let cosine = dot(&g_a, &g_b) / (norm(&g_a) * norm(&g_b));
        let bound = -norm(&g_a) / norm(&g_b);
        let slope = slope(&task, &net, &minus(&g_a, &g_b, -1.0));
        if slope.abs() > 1e-6 {
            assert_eq!(slope > 0.0, cosine < bound, "cosine {cosine}, bound {bound}, slope {slope}");
            harmed += u32::from(slope > 0.0);
            only_slowed += u32::from(cosine < 0.0 && slope < 0.0);
        }
    }
    assert!(harmed > 10 && only_slowed > 10, "{harmed} harmed, {only_slowed} slowed");
}

#[test]
fn at_its_best_a_task_can_only_lose_and_loses_at_second_order() {
    // A logistic regression in two weights, at its optimum by Newton's method; labels that no line separates.
    let x: Vec<Vec<f64>> = (0..40).map(|i| vector(SEED.named("x").stream(i), 2)).collect();
    let y: Vec<f64> = (0..40).map(|i| f64::from(u8::from(SEED.named("y").uniform(i) < 0.5))).collect();
    let value = |w: &[f64]| x.iter().zip(&y).map(|(x, y)| loss(dot(x, w), *y)).sum::<f64>() / 40.0;
    let hessian = |w: &[f64]| {
        let mut h = [[0.0; 2]; 2];
        for x in &x {
            let p = logistic(dot(x, w));
            (0..4).for_each(|i| h[i / 2][i % 2] += p * (1.0 - p) * x[i / 2] * x[i % 2] / 40.0);
        }
        h
    };
    let mut w = vec![0.0; 2];
    for _ in 0..20 {
        let g: Vec<f64> = (0..2)
            .map(|j| x.iter().zip(&y).map(|(x, y)| (logistic(dot(x, &w)) - y) * x[j]).sum::<f64>() / 40.0)
            .collect();
        let h = hessian(&w);
        let det = h[0][0] * h[1][1] - h[0][1] * h[1][0];
        let step = [(h[1][1] * g[0] - h[0][1] * g[1]) / det, (h[0][0] * g[1] - h[1][0] * g[0]) / det];
        w = minus(&w, &step, 1.0);
    }
    let g_b = [0.7, -0.4];
    let h = hessian(&w);
    let curvature: f64 = (0..4).map(|i| g_b[i / 2] * h[i / 2][i % 2] * g_b[i % 2]).sum();
    let eta = 1e-3;
    let lost = |eta: f64| value(&minus(&w, &g_b, eta)) - value(&w);
    assert!(lost(eta) > 0.0 && lost(-eta) > 0.0);
    // The mean of both signs has no third-order term; what is left is of the order of eta², and rounding over eta².
    near((lost(eta) + lost(-eta)) / (eta * eta), curvature, 1e-6);
}

#[test]
fn the_training_optimum_reads_the_partner_up_to_its_log_odds() {
    let pair = CHEEKS;
    let posterior = |e_a: f64, e_b: f64| {
        let cell = |a: f64, b: f64| {
            0.5 * if a == b { pair.agree } else { 1.0 - pair.agree }
                * normal_density(e_a - (a - 0.5) * pair.gap_a)
                * normal_density(e_b - (b - 0.5) * pair.gap_b)
        };
        ((cell(1.0, 0.0) + cell(1.0, 1.0)) / (cell(0.0, 0.0) + cell(0.0, 1.0))).ln()
    };
    let mut before = f64::NEG_INFINITY;
    for i in 0..=40 {
        let e_b = -4.0 + 0.2 * f64::from(i);
        near(posterior(0.7, e_b), pair.gap_a * 0.7 + pair.lean(e_b), ROUNDING);
        assert!(pair.lean(e_b) > before && pair.lean(e_b).abs() < log_odds(pair.agree));
        before = pair.lean(e_b);
    }
    near(pair.lean(4.0), 4.0f64.ln(), 1e-9);
    near(pair.best_shift(), 0.6448, PRINTED);
}

#[test]
fn the_training_optimum_has_these_accuracies() {
    let rule = |pair: Pair| {
        let c = |e: f64| pair.lean(e) / pair.gap_a;
        (pair.accuracy(pair.agree, c), pair.accuracy(0.5, c))
    };
    near(CHEEKS.accuracy(0.5, |_| 0.0), normal_cdf(1.075), ROUNDING);
    near(normal_cdf(1.075), 0.8588, PRINTED);
    let (train, test) = rule(CHEEKS);
    near(train, 0.8989, PRINTED);
    near(test, 0.8121, PRINTED);
    // With a partner that is known nearly for sure the integrals have closed forms; one in 10⁹ is misread.
    let sure = Pair { gap_b: 12.0, ..CHEEKS };
    let (train, test) = rule(sure);
    near(train, sure.accuracy_knowing_b(0.8, sure.best_shift()), 1e-8);
    near(test, sure.accuracy_knowing_b(0.5, sure.best_shift()), 1e-8);
    near(train, 0.8991, PRINTED);
    near(test, 0.8119, PRINTED);
    // The correlation that the training part of the base size happens to have.
    let (train, test) = rule(Pair { agree: 0.79, ..CHEEKS });
    near(train, 0.8961, PRINTED);
    near(test, 0.8159, PRINTED);
}

#[test]
fn the_accuracies_are_what_one_counts() {
    const N: u64 = 100_000;
    let seed = SEED.named("count");
    for (agree, expected) in [(0.8, 0.8989), (0.5, 0.8121)] {
        let right = (0..N).filter(|&i| {
            let draw = seed.stream(i);
            let b = draw.uniform(0) < 0.5;
            let a = (draw.uniform(1) < agree) == b;
            let evidence = |y: bool, gap: f64, c: u64| gap * if y { 0.5 } else { -0.5 } + draw.normal(c);
            let s = CHEEKS.gap_a * evidence(a, CHEEKS.gap_a, 2) + CHEEKS.lean(evidence(b, CHEEKS.gap_b, 3));
            (s > 0.0) == a
        });
        // Four standard errors of a share.
        near(right.count() as f64 / N as f64, expected, 4.0 * (0.25 / N as f64).sqrt());
    }
}

#[test]
fn weaker_evidence_leans_harder_on_the_partner() {
    for (gap_a, own, train, test) in
        [(2.15, 0.8588, 0.8991, 0.8119), (1.5, 0.7734, 0.8485, 0.6919), (1.0, 0.6915, 0.8138, 0.5791)]
    {
        let pair = Pair { gap_a, ..CHEEKS };
        near(pair.accuracy_knowing_b(0.5, 0.0), own, PRINTED);
        near(pair.accuracy_knowing_b(0.8, pair.best_shift()), train, PRINTED);
        near(pair.accuracy_knowing_b(0.5, pair.best_shift()), test, PRINTED);
    }
    let best = CHEEKS.accuracy_knowing_b(0.8, CHEEKS.best_shift());
    (0..300).for_each(|i| assert!(CHEEKS.accuracy_knowing_b(0.8, 0.01 * f64::from(i)) <= best));
}

#[test]
fn training_rewards_a_shift_at_first_order_and_the_test_pays_at_second() {
    let (g, c) = (CHEEKS.gap_a, 1e-3);
    let gain = |q: f64, c: f64| CHEEKS.accuracy_knowing_b(q, c) - CHEEKS.accuracy_knowing_b(q, 0.0);
    // The terms that are left are of the next even or odd order in c.
    near((gain(0.8, c) - gain(0.8, -c)) / (2.0 * c), 0.6 * normal_density(g / 2.0), 1e-6);
    near(gain(0.5, c) / (c * c), -0.5 * (g / 2.0) * normal_density(g / 2.0), 1e-6);
    assert!(gain(0.8, 0.3) > 0.0 && gain(0.5, 0.3) < 0.0);
}

#[test]
fn a_head_learns_a_feature_with_the_square_of_its_size() {
    let x: Vec<Vec<f64>> = (0..30).map(|i| vector(SEED.named("speed").stream(i), 2)).collect();
    let y: Vec<f64> = (0..30).map(|i| f64::from(u8::from(SEED.named("labels").uniform(i) < 0.5))).collect();
    // Gradient of the mean loss in what the score makes of the inputs themselves.
    let slope = |omega: &[f64]| -> Vec<f64> {
        let each = |j: usize| x.iter().zip(&y).map(move |(x, y)| (logistic(dot(x, omega)) - y) * x[j]);
        (0..2).map(|j| each(j).sum::<f64>() / 30.0).collect()
    };
    let (size, w, eta) = ([0.5, 3.0], [0.4, -0.2], 0.1);
    let omega = [size[0] * w[0], size[1] * w[1]];
    // One step of the head on features of these sizes.
    let by_w: Vec<f64> = differences(&w, STEP, |w| {
        let omega = [size[0] * w[0], size[1] * w[1]];
        x.iter().zip(&y).map(|(x, y)| loss(dot(x, &omega), *y)).sum::<f64>() / 30.0
    });
    for j in 0..2 {
        let after = size[j] * (w[j] - eta * by_w[j]);
        near(after, omega[j] - eta * size[j] * size[j] * slope(&omega)[j], DIFFERENCES);
    }
}

/// Twenty steps of Adam on a quadratic that is multiplied by a factor.
fn adam(factor: f64, epsilon: f64) -> Vec<f64> {
    let (mut theta, mut m, mut v) = (vec![1.0, -2.0, 0.5], vec![0.0; 3], vec![0.0; 3]);
    for t in 1..=20 {
        for j in 0..3 {
            let g = factor * (j as f64 + 1.0) * (theta[j] - 0.3);
            m[j] = 0.9 * m[j] + 0.1 * g;
            v[j] = 0.999 * v[j] + 0.001 * g * g;
            let (m, v) = (m[j] / (1.0 - 0.9f64.powi(t)), v[j] / (1.0 - 0.999f64.powi(t)));
            theta[j] -= 0.01 * m / (v.sqrt() + epsilon);
        }
    }
    theta
}

#[test]
fn a_sum_of_losses_speeds_up_sgd_and_not_adam() {
    // Sixteen equal losses: multiplying by a power of two is exact, so Adam without its small constant agrees to the bit.
    assert_eq!(adam(16.0, 0.0), adam(1.0, 0.0));
    all_near(&adam(40.0, 1e-8), &adam(1.0, 1e-8), 1e-7);
    let (_, net, g_a, _) = example(0);
    let summed = scaled(&g_a, 16.0);
    let sgd = |g: &[f64]| minus(&minus(&net.phi, g, 0.1), &net.phi, 1.0);
    all_near(&sgd(&summed), &scaled(&sgd(&g_a), 16.0), ROUNDING);
}

#[test]
fn gradients_that_agree_add_up_and_strangers_add_like_the_sides_of_a_box() {
    let g = vector(SEED.named("same"), 50);
    let sum = (0..40).fold(vec![0.0; 50], |sum, _| minus(&sum, &g, -1.0));
    near(norm(&sum), 40.0 * norm(&g), ROUNDING * 1e3);
    let any: Vec<Vec<f64>> = (0..40).map(|j| vector(SEED.named("box").stream(j), 50)).collect();
    let sum = orthonormal(&any).iter().fold(vec![0.0; 50], |sum, g| minus(&sum, g, -1.0));
    near(norm(&sum), 40f64.sqrt(), ROUNDING);
}
