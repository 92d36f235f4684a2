//! The equations of the chapter "The adversarial game and its gradients".

use std::f64::consts::{LN_2, PI};

use lastlayer::adversary::decorrelating_weights;
use lastlayer::distribution::normal_cdf;
use lastlayer::seed::Seed;

use super::evidence::integral;
use super::net::{Net, Task};
use super::{all_near, differences, dot, entropy, log_odds, logistic, loss, near, norm, softplus};

const SEED: Seed = Seed::new(3);

/// Sums of a few dozen products of numbers of size one, and Newton's method to its end.
const ROUNDING: f64 = 1e-12;
/// Central differences with a step of 1e-5 of values of size one: rounding over the step, and the square of the step.
const DIFFERENCES: f64 = 1e-8;
const STEP: f64 = 1e-5;
/// Half of the last digit that the chapter prints.
const PRINTED: f64 = 5e-5;

/// Weight, bias and loss of the best head on one feature, by Newton's method. Rows are (weight of the row, z, y), and the
/// weights add up to one.
fn best_head(rows: &[(f64, f64, f64)], start: (f64, f64)) -> (f64, f64, f64) {
    let (mut w, mut c) = start;
    for _ in 0..60 {
        let (mut g, mut h) = ([0.0; 2], [0.0; 3]);
        for (weight, z, y) in rows {
            let p = logistic(w * z + c);
            let curve = weight * p * (1.0 - p);
            g = [g[0] + weight * (p - y) * z, g[1] + weight * (p - y)];
            h = [h[0] + curve * z * z, h[1] + curve * z, h[2] + curve];
        }
        let det = h[0] * h[2] - h[1] * h[1];
        w -= (h[2] * g[0] - h[1] * g[1]) / det;
        c -= (h[0] * g[1] - h[1] * g[0]) / det;
    }
    (w, c, rows.iter().map(|(weight, z, y)| weight * loss(w * z + c, *y)).sum())
}

/// Mutual information of the two indices of a table of probabilities, in nats.
fn information(joint: &[Vec<f64>]) -> f64 {
    let rows: Vec<f64> = joint.iter().map(|row| row.iter().sum()).collect();
    let columns: Vec<f64> = (0..joint[0].len()).map(|j| joint.iter().map(|row| row[j]).sum()).collect();
    let each = |i: usize, j: usize| {
        let p: f64 = joint[i][j];
        if p > 0.0 { p * (p / (rows[i] * columns[j])).ln() } else { 0.0 }
    };
    (0..rows.len()).flat_map(|i| (0..columns.len()).map(move |j| (i, j))).map(|(i, j)| each(i, j)).sum()
}

/// A random table of probabilities, two columns.
fn table(rows: usize, seed: Seed) -> Vec<Vec<f64>> {
    let raw: Vec<f64> = (0..2 * rows as u64).map(|i| 0.05 + seed.uniform(i)).collect();
    let total: f64 = raw.iter().sum();
    raw.chunks(2).map(|row| row.iter().map(|p| p / total).collect()).collect()
}

#[test]
fn the_printed_game_moves_both_players_the_wrong_way() {
    let value = |z: f64, theta: f64| loss(theta * z, 1.0);
    let (z, theta) = (1.0, 0.5);
    let slope = differences(&[z, theta], STEP, |v| value(v[0], v[1]));
    near(value(z, theta), 0.4741, PRINTED);
    all_near(&slope, &[(logistic(0.5) - 1.0) * theta, (logistic(0.5) - 1.0) * z], DIFFERENCES);
    // As printed: the adversary climbs and the features descend. Each step has length one.
    near(value(z, theta + slope[1]), 0.6338, PRINTED);
    near(value(z - slope[0], theta), 0.4395, PRINTED);
    // With the signs of the game: the adversary descends and the features climb.
    near(value(z, theta - slope[1]), 0.3477, PRINTED);
    near(value(z + slope[0], theta), 0.5108, PRINTED);
    // If the printed L is κ times a loss, the head of a descends it and the head of b climbs it.
    for kappa in [1.0, -1.0] {
        let learns = |step: f64| value(z, theta + step * kappa * slope[1]) < value(z, theta);
        assert_ne!(learns(-1e-3), learns(1e-3), "one of the two heads is trained to fail");
    }
}

#[test]
fn the_best_adversary_leaves_the_conditional_entropy() {
    for i in 0..20 {
        let joint = table(4, SEED.named("joint").stream(i));
        let p_b: f64 = joint.iter().map(|row| row[1]).sum();
        // The best score for each value of z on its own, by Newton's method on a convex function of one number.
        let best: f64 = joint
            .iter()
            .map(|row| {
                let value = |s: f64| row[1] * loss(s, 1.0) + row[0] * loss(s, 0.0);
                let mut s = 0.0;
                for _ in 0..50 {
                    let p = logistic(s);
                    s -= ((row[0] + row[1]) * p - row[1]) / ((row[0] + row[1]) * p * (1.0 - p));
                }
                value(s)
            })
            .sum();
        let conditional: f64 =
            joint.iter().map(|row| (row[0] + row[1]) * entropy(row[1] / (row[0] + row[1]))).sum();
        near(best, conditional, ROUNDING);
        near(best, entropy(p_b) - information(&joint), ROUNDING);
    }
}

#[test]
fn a_weak_adversary_sees_less_than_there_is() {
    // b is the exclusive or of two features, and the head is linear.
    let rows = [([1.0, 1.0], 0.0), ([1.0, -1.0], 1.0), ([-1.0, 1.0], 1.0), ([-1.0, -1.0], 0.0)];
    let value = |head: &[f64]| {
        rows.iter().map(|(z, y)| loss(head[0] * z[0] + head[1] * z[1] + head[2], *y)).sum::<f64>() / 4.0
    };
    near(value(&[0.0; 3]), LN_2, ROUNDING);
    differences(&[0.0; 3], STEP, value).iter().for_each(|slope| near(*slope, 0.0, DIFFERENCES));
    for i in 0..1000 {
        let head: Vec<f64> = (0..3).map(|k| 2.0 * SEED.named("head").stream(i).normal(k)).collect();
        assert!(value(&head) > LN_2);
    }
    let joint: Vec<Vec<f64>> = rows.iter().map(|(_, y)| vec![0.25 * (1.0 - y), 0.25 * y]).collect();
    near(information(&joint), LN_2, ROUNDING);
}

fn example(i: u64) -> (Task, Net) {
    let seed = SEED.named("network").stream(i);
    let task = Task::random(12, 3, 2, seed);
    let net = task.net(seed.named("net"));
    (task, net)
}

#[test]
fn one_backward_pass_gives_all_three_their_gradients() {
    for (i, gamma) in [0.0, 0.1, 1.0, 3.0, -1.0].into_iter().enumerate() {
        let (task, net) = example(i as u64);
        let g = task.backward(&net, gamma);
        let game = |phi: &[f64]| task.loss_a(phi, &net.a) - gamma * task.loss_b(phi, &net.b);
        all_near(&g.phi, &differences(&net.phi, STEP, game), DIFFERENCES);
        all_near(&g.a, &differences(&net.a, STEP, |a| task.loss_a(&net.phi, a)), DIFFERENCES);
        all_near(&g.b, &differences(&net.b, STEP, |b| task.loss_b(&net.phi, b)), DIFFERENCES);
    }
}

#[test]
fn the_trunk_is_affine_in_the_strength_and_the_adversary_does_not_see_it() {
    let (task, net) = example(7);
    let at = |gamma: f64| task.backward(&net, gamma);
    let (zero, one) = (at(0.0), at(1.0));
    for gamma in [-1.0, 0.3, 2.5] {
        let g = at(gamma);
        let line: Vec<f64> = zero.phi.iter().zip(&one.phi).map(|(g0, g1)| g0 + gamma * (g1 - g0)).collect();
        all_near(&g.phi, &line, ROUNDING);
        assert_eq!(g.b, zero.b);
        assert_eq!(g.a, zero.a);
    }
    all_near(&zero.phi, &differences(&net.phi, STEP, |phi| task.loss_a(phi, &net.a)), DIFFERENCES);
    let pair = |phi: &[f64]| task.loss_a(phi, &net.a) + task.loss_b(phi, &net.b);
    all_near(&at(-1.0).phi, &differences(&net.phi, STEP, pair), DIFFERENCES);
}

#[test]
fn a_score_is_pushed_by_these_amounts() {
    for (gamma, s) in [0.3, 1.0].into_iter().flat_map(|g| [-3.0, 0.0, 3.0].map(|s| (g, s))) {
        let p = logistic(s);
        for (y, by_reversal, by_flip) in
            [(1.0, gamma * (1.0 - p), gamma * p), (0.0, -gamma * p, -gamma * (1.0 - p))]
        {
            near(differences(&[s], STEP, |s| -gamma * loss(s[0], y))[0], by_reversal, DIFFERENCES);
            near(differences(&[s], STEP, |s| gamma * loss(s[0], 1.0 - y))[0], by_flip, DIFFERENCES);
            near(by_reversal + by_flip, gamma * (2.0 * y - 1.0), ROUNDING);
            let ratio = if y == 1.0 { s.exp() } else { (-s).exp() };
            near(by_flip / by_reversal, ratio, 1e-9);
        }
    }
    near(1.0 - logistic(3.0), 0.0474, PRINTED);
    near(logistic(3.0), 0.9526, PRINTED);
}

#[test]
fn reversal_has_no_floor_and_the_flipped_label_has() {
    for s in [-1e3f64, -10.0, 0.0, 10.0] {
        let (reversed, flipped) = (-loss(s, 1.0), loss(s, 0.0));
        assert!(flipped >= 0.0);
        near(reversed - flipped, s - 2.0 * softplus(s), 1e-9);
    }
    near(-loss(-1e3, 1.0), -1e3, 1e-9);
    near(loss(-1e3, 0.0), 0.0, ROUNDING);
}

#[test]
fn a_frozen_adversary_is_left_wrong_and_not_uninformed() {
    // Six features on a line, each free to move, against the head s = z that never learns.
    let y = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0];
    for flipped in [true, false] {
        let mut z = [0.9, 1.4, 2.0, -0.3, -1.1, -1.7];
        for _ in 0..200 {
            for (z, y) in z.iter_mut().zip(y) {
                *z -= 0.5 * if flipped { logistic(*z) - (1.0 - y) } else { -(logistic(*z) - y) };
            }
        }
        let wrong = z.iter().zip(y).filter(|(z, y)| (**z > 0.0) != (*y == 1.0)).count();
        assert_eq!(wrong, 6, "the frozen head is wrong about every sample");
        let nearest = z.iter().fold(f64::INFINITY, |least, z| least.min(z.abs()));
        assert!(nearest > 2.0, "a new head with the opposite sign is right about every sample: {z:?}");
    }
}

#[test]
fn the_flipped_label_is_least_where_the_best_adversary_knows_nothing() {
    let f = |p: f64| -(1.0 - p) * p.ln() - p * (1.0 - p).ln();
    near(f(0.5), LN_2, ROUNDING);
    for i in 0..50 {
        let joint = table(4, SEED.named("flipped").stream(i));
        let share: f64 = joint.iter().map(|row| row[1]).sum();
        let mut mean = 0.0;
        for row in &joint {
            let (weight, p) = (row[0] + row[1], row[1] / (row[0] + row[1]));
            // What the trunk pays at this z, when the adversary gives its best score.
            let paid = row[1] * loss(log_odds(p), 0.0) + row[0] * loss(log_odds(p), 1.0);
            near(paid, weight * f(p), ROUNDING);
            near(f(p), entropy(p) + (2.0 * p - 1.0) * log_odds(p), ROUNDING);
            mean += paid;
        }
        assert!(mean > f(share), "dependence costs");
    }
}

#[test]
fn at_the_best_response_reversal_pushes_nowhere_on_average() {
    let rows: Vec<(f64, f64, f64)> = (0..40)
        .map(|i| {
            let y = f64::from(u8::from(i % 10 < 3));
            (1.0 / 40.0, SEED.named("response").normal(i) + 0.8 * y, y)
        })
        .collect();
    let (w, c, _) = best_head(&rows, (0.0, 0.0));
    assert!(w > 0.3);
    let gamma = 0.7;
    let mean = |push: &dyn Fn(f64, f64) -> f64| {
        rows.iter().map(|(n, z, y)| n * push(logistic(w * z + c), *y)).sum::<f64>()
    };
    near(mean(&|p, y| -gamma * (p - y) * w), 0.0, ROUNDING);
    near(mean(&|p, y| gamma * (p - (1.0 - y)) * w), gamma * (2.0 * 0.3 - 1.0) * w, ROUNDING);
}

/// A trunk with one number u, at z = ±u for the two values of b, against the head s = v z with penalty ρ v²/2.
#[derive(Clone, Copy)]
struct Duel {
    eta: f64,
    gamma: f64,
    ratio: f64,
    ridge: f64,
}

impl Duel {
    /// Both at once.
    fn step(self, (u, v): (f64, f64)) -> (f64, f64) {
        let p = logistic(-u * v);
        (u - self.eta * self.gamma * v * p, v + self.ratio * self.eta * (u * p - self.ridge * v))
    }

    /// The adversary first.
    fn in_turn(self, (u, v): (f64, f64)) -> (f64, f64) {
        let v = self.step((u, v)).1;
        (self.step((u, v)).0, v)
    }

    fn size(self, (u, v): (f64, f64)) -> f64 {
        u * u + self.gamma * v * v
    }

    /// Sum and product of the eigenvalues of a step at the point of rest.
    fn trace_and_determinant(self) -> (f64, f64) {
        let by = |x: f64, y: f64| {
            let (plus, minus) = (self.step((x, y)), self.step((-x, -y)));
            ((plus.0 - minus.0) / (2.0 * STEP), (plus.1 - minus.1) / (2.0 * STEP))
        };
        let ((uu, vu), (uv, vv)) = (by(STEP, 0.0), by(0.0, STEP));
        (uu + vv, uu * vv - uv * vu)
    }
}

#[test]
fn the_steps_of_the_duel_are_those_of_its_losses() {
    let duel = Duel { eta: 1.0, gamma: 0.6, ratio: 1.0, ridge: 0.0 };
    let (u, v) = (0.8, -0.5);
    let value = |x: &[f64]| 0.5 * loss(x[1] * x[0], 1.0) + 0.5 * loss(-x[1] * x[0], 0.0);
    let slope = differences(&[u, v], STEP, value);
    let (u_next, v_next) = duel.step((u, v));
    all_near(&[u_next - u, v_next - v], &[0.6 * slope[0], -slope[1]], DIFFERENCES);
}

#[test]
fn simultaneous_steps_spiral_outwards_whatever_the_step() {
    for (eta, gamma) in [(0.01, 1.0), (0.5, 0.3), (2.0, 1.0), (1.0, 5.0)] {
        let duel = Duel { eta, gamma, ratio: 1.0, ridge: 0.0 };
        let mut at = (0.1, 0.05);
        for _ in 0..50 {
            let next = duel.step(at);
            let p = logistic(-at.0 * at.1);
            near(
                duel.size(next) / duel.size(at),
                1.0 + eta * eta * gamma * p * p,
                1e-9 * (1.0 + eta * eta * gamma),
            );
            at = next;
        }
        let (trace, determinant) = duel.trace_and_determinant();
        // 1 ± iη√γ/2 have the sum 2 and the product 1 + η²γ/4.
        near(trace, 2.0, DIFFERENCES);
        near(determinant, 1.0 + eta * eta * gamma / 4.0, DIFFERENCES);
    }
}

#[test]
fn alternating_steps_stay_on_an_ellipse() {
    let duel = Duel { eta: 0.5, gamma: 0.8, ratio: 1.0, ridge: 0.0 };
    // So close to the point of rest that σ(−uv) is one half to rounding.
    let start = (1e-9, 0.5e-9);
    let kept = |(u, v): (f64, f64)| (duel.size((u, v)) + 0.5 * duel.eta * duel.gamma * u * v) / 1e-18;
    let mut at = start;
    for _ in 0..1000 {
        at = duel.in_turn(at);
        near(kept(at), kept(start), 1e-10);
    }
}

#[test]
fn a_ridge_on_the_adversary_brings_the_game_to_rest() {
    let mut seen = [0, 0];
    for i in 0..4u32.pow(4) {
        let pick = |k: u32, from: [f64; 4]| from[(i / 4u32.pow(k) % 4) as usize];
        let duel = Duel {
            eta: pick(0, [0.03, 0.3, 1.1, 2.9]),
            gamma: pick(1, [0.1, 0.5, 1.0, 3.0]),
            ratio: pick(2, [0.3, 1.0, 3.0, 10.0]),
            ridge: pick(3, [0.01, 0.11, 0.37, 0.9]),
        };
        let Duel { eta, gamma, ratio, ridge } = duel;
        let (trace, determinant) = duel.trace_and_determinant();
        near(determinant, 1.0 - ratio * eta * (ridge - eta * gamma / 4.0), 1e-6);
        // The larger modulus of two numbers with this sum and product.
        let square = trace * trace / 4.0 - determinant;
        let modulus = if square < 0.0 { determinant.sqrt() } else { trace.abs() / 2.0 + square.sqrt() };
        let rests = eta < 4.0 * ridge / gamma
            && 4.0 - 2.0 * ratio * eta * ridge + ratio * eta * eta * gamma / 4.0 > 0.0;
        assert_eq!(modulus < 1.0, rests, "η {eta} γ {gamma} r {ratio} ρ {ridge}: modulus {modulus}");
        seen[usize::from(rests)] += 1;
    }
    assert!(seen[0] > 20 && seen[1] > 20);
    // Not only near the point of rest.
    let run = |eta: f64| {
        let duel = Duel { eta, gamma: 1.0, ratio: 1.0, ridge: 0.1 };
        duel.size((0..6000).fold((0.5, 0.3), |at, _| duel.step(at)))
    };
    assert!(run(0.3) < 1e-12 && run(0.5) > 0.34);
}

#[test]
fn against_the_best_response_the_trunk_goes_straight_to_rest() {
    let (eta, gamma, ridge) = (0.2, 1.0, 0.1);
    // Root of ρ v = u σ(−uv), by bisection.
    let response = |u: f64| {
        let (mut low, mut high) = (0.0, u / ridge);
        for _ in 0..200 {
            let v = 0.5 * (low + high);
            if ridge * v < u * logistic(-u * v) { low = v } else { high = v }
        }
        low
    };
    let mut u = 0.5;
    for _ in 0..200 {
        let v = response(u);
        let next = u - eta * gamma * v * logistic(-u * v);
        assert!(next >= 0.0 && next < u);
        u = next;
    }
    // Near rest v = u/(2ρ), and u shrinks by 1 − ηγ/(4ρ) a step.
    near(response(1e-6) / 1e-6, 1.0 / (2.0 * ridge), 1e-6);
    assert!(u < 1e-12);
}

/// Features of n samples in d dimensions, with labels that are not balanced.
fn cloud(n: usize, d: usize) -> (Vec<f64>, Vec<bool>) {
    (
        (0..(n * d) as u64).map(|i| SEED.named("cloud").normal(i)).collect(),
        (0..n).map(|i| i % 3 == 0).collect(),
    )
}

/// Mean of the samples with b less that of the others.
fn means_apart(z: &[f64], y: &[bool], d: usize) -> Vec<f64> {
    let n = |value: bool| y.iter().filter(|y| **y == value).count() as f64;
    let mut apart = vec![0.0; d];
    for (row, y) in z.chunks(d).zip(y) {
        row.iter().zip(&mut apart).for_each(|(z, sum)| *sum += if *y { z / n(true) } else { -z / n(false) });
    }
    apart
}

#[test]
fn a_linear_critic_sees_the_distance_of_the_means() {
    let (z, y) = cloud(20, 4);
    let apart = means_apart(&z, &y, 4);
    let distance = norm(&apart);
    let mut closest = f64::INFINITY;
    for i in 0..10_000 {
        let w: Vec<f64> = (0..4).map(|k| SEED.named("critics").stream(i).normal(k)).collect();
        let seen = dot(&w, &apart) / norm(&w);
        assert!(seen <= distance + ROUNDING);
        closest = closest.min(distance - seen);
    }
    assert!(closest < 0.02 * distance, "ten thousand directions come near");
    near(dot(&apart, &apart) / norm(&apart), distance, ROUNDING);
    let slope = differences(&z, STEP, |z| norm(&means_apart(z, &y, 4)));
    let (with, without) = (7.0, 13.0);
    for (i, y) in y.iter().enumerate() {
        let share = if *y { 1.0 / with } else { -1.0 / without };
        let expected: Vec<f64> = apart.iter().map(|a| share * a / distance).collect();
        all_near(&slope[4 * i..4 * i + 4], &expected, DIFFERENCES);
    }
}

#[test]
fn a_clipped_critic_sees_the_sum_of_the_differences() {
    let (z, y) = cloud(20, 4);
    let (apart, c) = (means_apart(&z, &y, 4), 0.01);
    let sum: f64 = apart.iter().map(|a| a.abs()).sum();
    // A linear function is largest in a corner of the box.
    let corners =
        (0..16).map(|i| (0..4).map(|j| if i >> j & 1 == 1 { c } else { -c } * apart[j]).sum::<f64>());
    near(corners.fold(f64::NEG_INFINITY, f64::max), c * sum, ROUNDING);
    for i in 0..1000 {
        let inside: f64 = (0..4)
            .map(|k| c * (2.0 * SEED.named("box").stream(i).uniform(k) - 1.0) * apart[k as usize])
            .sum();
        assert!(inside <= c * sum);
    }
    assert!(norm(&apart) <= sum && sum <= 2.0 * norm(&apart), "between one and the root of four dimensions");
}

#[test]
fn a_linear_critic_is_blind_to_spread() {
    // Standard normal against twice as wide: equal means, and a Wasserstein distance of the area between the
    // distribution functions. The kink at zero costs the trapezoidal rule the square of its step.
    near(integral(|x| (normal_cdf(x) - normal_cdf(x / 2.0)).abs()), (2.0 / PI).sqrt(), 1e-3);
    near((2.0 / PI).sqrt(), 0.7979, PRINTED);
    let rows = [(0.25, 1.0, 1.0), (0.25, -1.0, 1.0), (0.25, 2.0, 0.0), (0.25, -2.0, 0.0)];
    let z: Vec<f64> = rows.iter().map(|row| row.1).collect();
    near(means_apart(&z, &[true, true, false, false], 1)[0], 0.0, ROUNDING);
    let (w, c, left) = best_head(&rows, (0.3, -0.2));
    all_near(&[w, c, left], &[0.0, 0.0, LN_2], ROUNDING);
}

#[test]
fn a_linear_adversary_is_uninformed_exactly_where_the_means_coincide() {
    // Three samples with b and five without, moved apart by t.
    let rows = |t: f64| -> Vec<(f64, f64, f64)> {
        let with = [-0.9, 0.2, 0.7].map(|z| (0.125, z + t, 1.0));
        let without = [-1.2, -0.5, 0.1, 0.4, 1.2].map(|z| (0.125, z, 0.0));
        [with.as_slice(), &without].concat()
    };
    let share = 3.0 / 8.0;
    near(best_head(&rows(0.0), (0.2, 0.0)).2, entropy(share), ROUNDING);
    for t in [0.01, 0.1, 1.0, -0.5] {
        assert!(best_head(&rows(t), (0.0, 0.0)).2 < entropy(share) - 1e-6);
    }
    let t = 0.01;
    let mean: f64 = rows(t).iter().map(|(n, z, _)| n * z).sum();
    let variance: f64 = rows(t).iter().map(|(n, z, _)| n * (z - mean) * (z - mean)).sum();
    let gain = entropy(share) - best_head(&rows(t), (0.0, 0.0)).2;
    let expected = 0.5 * share * (1.0 - share) * t * t / variance;
    // Relative to a term of second order, the next one is of the order of t.
    near(gain / expected, 1.0, 3.0 * t);
}

#[test]
fn under_decorrelating_weights_a_label_says_nothing_about_the_other() {
    let counts = [(0u8, 0u8, 40), (0, 1, 10), (1, 0, 10), (1, 1, 40)];
    let pick = |k: usize| -> Vec<u8> {
        counts.iter().flat_map(|&(a, b, n)| vec![if k == 0 { a } else { b }; n]).collect()
    };
    let (a, b) = (pick(0), pick(1));
    let w = decorrelating_weights(&a, &b).unwrap();
    // The features are the label a itself: all that they know of b, they know from a.
    let rows = |weighted: bool| -> Vec<(f64, f64, f64)> {
        let weight = |i: usize| if weighted { w[i] } else { 1.0 } / 100.0;
        (0..100).map(|i| (weight(i), f64::from(a[i]), f64::from(b[i]))).collect()
    };
    let (head, _, left) = best_head(&rows(false), (0.0, 0.0));
    near(head, 2.0 * log_odds(0.8), 1e-9);
    near(left, entropy(0.8), ROUNDING);
    let (head, _, left) = best_head(&rows(true), (0.5, 0.5));
    near(head, 0.0, ROUNDING);
    near(left, LN_2, ROUNDING);
}

#[test]
fn the_weights_cost_this_many_samples() {
    for (same, other) in [(40, 10), (30, 20), (49, 1)] {
        let repeat = |values: [u8; 4]| -> Vec<u8> {
            [same, other, other, same].iter().zip(values).flat_map(|(n, v)| vec![v; *n]).collect()
        };
        let w = decorrelating_weights(repeat([0, 0, 1, 1]), repeat([0, 1, 0, 1])).unwrap();
        let phi = (same - other) as f64 / (same + other) as f64;
        near(
            w.iter().map(|w| w * w).sum::<f64>() / w.len() as f64,
            1.0 / (1.0 - phi * phi),
            ROUNDING * 100.0,
        );
    }
}

/// Trunk gradient of a group of attributes against a group of adversaries: eqs. 9 to 11 with the right signs.
fn group(
    task: &Task,
    phi: &[f64],
    a: &[(Vec<f64>, Vec<f64>)],
    b: &[(Vec<f64>, Vec<f64>)],
    gamma: f64,
) -> Vec<f64> {
    let one = |labels: &(Vec<f64>, Vec<f64>)| {
        let task = Task { y_a: labels.0.clone(), ..task.clone() };
        let (head, other) = (labels.1.clone(), vec![0.0; labels.1.len()]);
        task.backward(&Net { phi: phi.to_vec(), a: head, b: other }, 0.0).phi
    };
    let mean = |group: &[(Vec<f64>, Vec<f64>)]| {
        let mut sum = vec![0.0; phi.len()];
        for member in group {
            sum.iter_mut().zip(one(member)).for_each(|(sum, g)| *sum += g / group.len() as f64);
        }
        sum
    };
    mean(a).iter().zip(mean(b)).map(|(a, b)| a - gamma * b).collect()
}

#[test]
fn a_group_of_one_is_a_pair_and_repeating_a_whole_group_changes_nothing() {
    let (task, net) = example(11);
    let other = Task::random(12, 3, 2, SEED.named("other"));
    let head = |i: u64| -> Vec<f64> { (0..3).map(|k| SEED.named("heads").stream(i).normal(k)).collect() };
    let a = vec![(task.y_a.clone(), net.a.clone())];
    let b = vec![(task.y_b.clone(), net.b.clone())];
    let pair = task.backward(&net, 0.4).phi;
    all_near(&group(&task, &net.phi, &a, &b, 0.4), &pair, ROUNDING);
    all_near(&group(&task, &net.phi, &a, &[b.clone(), b.clone()].concat(), 0.4), &pair, ROUNDING);
    let (more_a, more_b) = (
        [a.clone(), vec![(other.y_a.clone(), head(0))]].concat(),
        [b, vec![(other.y_b.clone(), head(1))]].concat(),
    );
    let value = |phi: &[f64]| {
        let mean = |group: &[(Vec<f64>, Vec<f64>)]| {
            let each = |m: &(Vec<f64>, Vec<f64>)| Task { y_a: m.0.clone(), ..task.clone() }.loss_a(phi, &m.1);
            group.iter().map(each).sum::<f64>() / group.len() as f64
        };
        mean(&more_a) - 0.4 * mean(&more_b)
    };
    let found = group(&task, &net.phi, &more_a, &more_b, 0.4);
    all_near(&found, &differences(&net.phi, STEP, value), DIFFERENCES);
    all_near(
        &group(&task, &net.phi, &more_a, &[more_b.clone(), more_b.clone()].concat(), 0.4),
        &found,
        ROUNDING,
    );
    let lopsided = [more_b.clone(), more_b[..1].to_vec()].concat();
    let changed = group(&task, &net.phi, &more_a, &lopsided, 0.4);
    assert!(
        changed.iter().zip(&found).any(|(c, f)| (c - f).abs() > 1e-3),
        "repeating one of two shifts the weight"
    );
}

#[test]
fn features_can_hide_from_each_adversary_and_not_from_both() {
    // z is the exclusive or of two independent fair labels; columns are the value of z.
    let each = vec![vec![0.25, 0.25], vec![0.25, 0.25]];
    let both = vec![vec![0.25, 0.0], vec![0.0, 0.25], vec![0.0, 0.25], vec![0.25, 0.0]];
    near(information(&each), 0.0, ROUNDING);
    near(information(&both), LN_2, ROUNDING);
    // Summing the joint table over either label gives the table of the other.
    for keep in [[0, 1], [0, 2]] {
        let rows = [both[keep[0]].clone(), both[keep[1]].clone()];
        let summed: Vec<f64> = (0..2).map(|z| rows[0][z] + rows[1][z]).collect();
        all_near(&summed, &each[0], ROUNDING);
    }
}

#[test]
fn a_rare_value_is_ranked_and_hardly_ever_guessed() {
    let cdf = normal_cdf;
    let balanced = |cut: f64| 0.5 * (cdf(0.5 - cut) + cdf(cut + 0.5));
    // The AUC by its definition: a draw with b against the distribution of those without.
    let step = 1e-3;
    let grid = (-10_000..10_000).map(|i| (f64::from(i) + 0.5) * step);
    let density = |z: f64| (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
    let auc: f64 = grid.clone().map(|z| step * density(z - 0.5) * cdf(z + 0.5)).sum();
    near(auc, cdf(0.5f64.sqrt()), 1e-9);
    near(auc, 0.760, 5e-4);
    let best = grid.map(balanced).fold(0.0, f64::max);
    near(best, cdf(0.5), 1e-6);
    near(best, 0.691, 5e-4);
    // At this cut a sample is as likely to have b as not.
    let cut = 9f64.ln();
    near(0.1 * density(cut - 0.5), 0.9 * density(cut + 0.5), 1e-12);
    near(balanced(cut), 0.521, 5e-4);
}
