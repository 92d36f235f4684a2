//! The equations of the chapter "The price of invariance".

use std::f64::consts::LN_2;

use lastlayer::adversary::price_of_invariance;
use lastlayer::distribution::{normal_cdf, normal_density};
use lastlayer::seed::Seed;

use super::evidence::{CHEEKS, Pair, integral};
use super::{entropy, logistic, near};

const SEED: Seed = Seed::new(30);

/// Sums of a few dozen products of numbers of size one.
const ROUNDING: f64 = 1e-12;
/// Half of the last digit that the chapter prints.
const PRINTED: f64 = 5e-5;

/// P(b = 1), P(a = 1 | b = 1), P(a = 1 | b = 0).
#[derive(Clone, Copy, Debug)]
struct Labels {
    b: f64,
    q: [f64; 2],
}

impl Labels {
    fn random(seed: Seed) -> Labels {
        let draw = |i: u64| 0.05 + 0.9 * seed.uniform(i);
        Labels { b: draw(0), q: [draw(1), draw(2)] }
    }

    fn share(self, b: usize) -> f64 {
        if b == 1 { self.b } else { 1.0 - self.b }
    }

    fn price(self) -> f64 {
        price_of_invariance(self.b, self.q[1], self.q[0]).unwrap()
    }

    /// How far apart the groups are.
    fn gap(self) -> f64 {
        (self.q[1] - self.q[0]).abs()
    }
}

/// Chances to say 1, `says[a][b]`: all that matters of a feature with a head on it.
type Says = [[f64; 2]; 2];

fn rate(labels: Labels, says: Says, b: usize) -> f64 {
    labels.q[b] * says[1][b] + (1.0 - labels.q[b]) * says[0][b]
}

fn group_error(labels: Labels, says: Says, b: usize) -> f64 {
    labels.q[b] * (1.0 - says[1][b]) + (1.0 - labels.q[b]) * says[0][b]
}

fn error(labels: Labels, says: Says) -> f64 {
    (0..2).map(|b| labels.share(b) * group_error(labels, says, b)).sum()
}

/// Says 1 with these rates, at the least error: the label itself, changed only in one direction.
fn with_rates(labels: Labels, rates: [f64; 2]) -> Says {
    let mut says = [[0.0, 0.0], [1.0, 1.0]];
    for b in 0..2 {
        let (q, r) = (labels.q[b], rates[b]);
        if r < q { says[1][b] = r / q } else { says[0][b] = (r - q) / (1.0 - q) }
    }
    says
}

/// Mutual information of two columns of a list of (weight, values), in nats.
fn information<const N: usize>(rows: &[(f64, [usize; N])], one: &[usize], other: &[usize]) -> f64 {
    let sum = |keep: &dyn Fn(&[usize; N]) -> bool| {
        rows.iter().filter(|(_, v)| keep(v)).map(|(p, _)| p).sum::<f64>()
    };
    let same = |columns: &[usize], v: &[usize; N], u: &[usize; N]| columns.iter().all(|c| v[*c] == u[*c]);
    rows.iter()
        .filter(|(p, _)| *p > 0.0)
        .map(|(p, v)| {
            let both = sum(&|u| same(one, v, u) && same(other, v, u));
            p * (both / (sum(&|u| same(one, v, u)) * sum(&|u| same(other, v, u)))).ln()
        })
        .sum()
}

#[test]
fn no_predictor_with_equal_rates_beats_the_price() {
    let mut tried = 0;
    for i in 0..20_000 {
        let seed = SEED.named("predictors").stream(i);
        let labels = Labels::random(seed);
        let mut says = [[seed.uniform(10), 0.0], [seed.uniform(11), seed.uniform(12)]];
        // The last chance is what makes the rates equal; not every draw allows it.
        says[0][1] = (rate(labels, says, 0) - labels.q[1] * says[1][1]) / (1.0 - labels.q[1]);
        if (0.0..=1.0).contains(&says[0][1]) {
            near(rate(labels, says, 0), rate(labels, says, 1), ROUNDING);
            assert!(error(labels, says) >= labels.price() - ROUNDING);
            assert!(group_error(labels, says, 0) + group_error(labels, says, 1) >= labels.gap() - ROUNDING);
            tried += 1;
        }
    }
    assert!(tried > 5000);
}

#[test]
fn the_price_is_attained_by_following_the_larger_group() {
    for i in 0..500 {
        let labels = Labels::random(SEED.named("attained").stream(i));
        let larger = usize::from(labels.b >= 0.5);
        let says = with_rates(labels, [labels.q[larger]; 2]);
        near(rate(labels, says, 0), rate(labels, says, 1), ROUNDING);
        near(group_error(labels, says, larger), 0.0, ROUNDING);
        near(error(labels, says), labels.price(), ROUNDING);
        let constant = (labels.b * labels.q[1] + (1.0 - labels.b) * labels.q[0]).min(1.0);
        assert!(labels.price() <= constant.min(1.0 - constant) + ROUNDING, "a constant is independent too");
    }
}

#[test]
fn the_price_is_a_multiple_of_the_correlation() {
    for i in 0..200 {
        let labels = Labels::random(SEED.named("phi").stream(i));
        let (b, a) = (labels.b, labels.b * labels.q[1] + (1.0 - labels.b) * labels.q[0]);
        let phi = (b * labels.q[1] - a * b) / (a * (1.0 - a) * b * (1.0 - b)).sqrt();
        let (rare, common) = (b.min(1.0 - b), b.max(1.0 - b));
        near(labels.price(), phi.abs() * (a * (1.0 - a) * rare / common).sqrt(), ROUNDING);
    }
    near(Labels { b: 0.5, q: [0.2, 0.8] }.price(), 0.3, ROUNDING);
}

#[test]
fn a_leak_buys_back_its_total_variation() {
    for i in 0..2000 {
        let seed = SEED.named("leak").stream(i);
        let labels = Labels::random(seed);
        let says = [[seed.uniform(10), seed.uniform(11)], [seed.uniform(12), seed.uniform(13)]];
        let rare = labels.b.min(1.0 - labels.b);
        let leak = (rate(labels, says, 1) - rate(labels, says, 0)).abs();
        assert!(error(labels, says) >= rare * (labels.gap() - leak).max(0.0) - ROUNDING);
        // Attained: the smaller group keeps as much of its own rate as the leak allows.
        let larger = usize::from(labels.b >= 0.5);
        let leak = labels.gap() * seed.uniform(14);
        let mut rates = [labels.q[larger]; 2];
        rates[1 - larger] += leak * (labels.q[1 - larger] - labels.q[larger]).signum();
        let says = with_rates(labels, rates);
        near((rate(labels, says, 1) - rate(labels, says, 0)).abs(), leak, ROUNDING);
        near(error(labels, says), rare * (labels.gap() - leak), ROUNDING);
    }
}

/// A feature with four values: its law without b and with b.
fn feature(seed: Seed) -> [[f64; 4]; 2] {
    [0, 1].map(|b| {
        let raw: [f64; 4] = std::array::from_fn(|k| seed.uniform(4 * b + k as u64).powi(2));
        raw.map(|p| p / raw.iter().sum::<f64>())
    })
}

fn total_variation(z: [[f64; 4]; 2]) -> f64 {
    0.5 * (0..4).map(|k| (z[1][k] - z[0][k]).abs()).sum::<f64>()
}

fn information_with_b(z: [[f64; 4]; 2], share: f64) -> f64 {
    let rows: Vec<(f64, [usize; 2])> = (0..8)
        .map(|i| (if i / 4 == 1 { share } else { 1.0 - share } * z[i / 4][i % 4], [i % 4, i / 4]))
        .collect();
    information(&rows, &[0], &[1])
}

#[test]
fn no_set_of_feature_values_differs_by_more_than_the_total_variation() {
    for i in 0..200 {
        let z = feature(SEED.named("sets").stream(i));
        let differs =
            |set: usize| (0..4).filter(|k| set >> k & 1 == 1).map(|k| z[1][k] - z[0][k]).sum::<f64>();
        let most = (0..16).map(differs).fold(0.0, f64::max);
        near(most, total_variation(z), ROUNDING);
    }
}

#[test]
fn information_bounds_the_total_variation() {
    for i in 0..500 {
        let seed = SEED.named("pinsker").stream(i);
        let (z, share) = (feature(seed), 0.05 + 0.9 * seed.uniform(100));
        let (delta, iota) = (total_variation(z), information_with_b(z, share));
        assert!(iota >= 2.0 * share * (1.0 - share) * delta * delta - ROUNDING);
        let balanced = information_with_b(z, 0.5);
        assert!(balanced >= LN_2 - entropy(0.5 * (1.0 + delta)) - ROUNDING);
    }
    // Attained: two values, as likely as (1 ± δ)/2.
    for delta in [0.0, 0.3, 0.9] {
        let (p, q) = (0.5 * (1.0 + delta), 0.5 * (1.0 - delta));
        let z = [[q, p, 0.0, 0.0], [p, q, 0.0, 0.0]];
        near(total_variation(z), delta, ROUNDING);
        near(information_with_b(z, 0.5), LN_2 - entropy(p), ROUNDING);
    }
}

/// Balanced labels that agree with probability (1 + Δ)/2; a feature that says a, wrong with probability e where they agree
/// so often that its rates differ by δ = Δ − 2e.
fn flipped(delta: f64, e: f64) -> (Labels, Says) {
    let labels = Labels { b: 0.5, q: [0.5 * (1.0 - delta), 0.5 * (1.0 + delta)] };
    let flip = e / labels.q[1];
    (labels, [[flip, 0.0], [1.0, 1.0 - flip]])
}

#[test]
fn balanced_labels_have_an_exact_frontier() {
    for i in 0..=30 {
        let (gap, e) = (0.6, 0.01 * f64::from(i));
        let (labels, says) = flipped(gap, e);
        near(error(labels, says), e, ROUNDING);
        let [r0, r1] = [0, 1].map(|b| rate(labels, says, b));
        near(r1 - r0, gap - 2.0 * e, ROUNDING);
        near(r0 + r1, 1.0, ROUNDING);
        let z = [[1.0 - r0, r0, 0.0, 0.0], [1.0 - r1, r1, 0.0, 0.0]];
        near(information_with_b(z, 0.5), LN_2 - entropy(0.5 * (1.0 + gap - 2.0 * e)), ROUNDING);
    }
}

#[test]
fn the_strength_chooses_a_point_of_the_frontier() {
    let gap = 0.6;
    let paid = |gamma: f64, delta: f64| 0.5 * (gap - delta) + gamma * (LN_2 - entropy(0.5 * (1.0 + delta)));
    for gamma in [0.3f64, 0.7, 0.75, 1.0, 3.0, 10.0] {
        let best = (1.0 / (2.0 * gamma)).tanh().min(gap);
        (0..=600).for_each(|i| assert!(paid(gamma, 0.001 * f64::from(i)) >= paid(gamma, best) - ROUNDING));
    }
    near(1.0 / (2.0 * 0.6f64.atanh()), 0.7213, PRINTED);
    near(0.5 * (gap - 0.5f64.tanh()), 0.0689, PRINTED);
    near(0.5 * (gap - (1.0f64 / 6.0).tanh()), 0.2174, PRINTED);
}

#[test]
fn with_the_logistic_loss_the_switch_is_abrupt() {
    let paid = |gamma: f64, e: f64| entropy(e) + gamma * (LN_2 - entropy(0.5 * (1.6 - 2.0 * e)));
    let best = |gamma: f64| {
        let at = |i: u32| 0.3 * f64::from(i) / 3000.0;
        let least = (0..=3000).min_by(|i, j| paid(gamma, at(*i)).total_cmp(&paid(gamma, at(*j))));
        at(least.unwrap())
    };
    (0..=28).for_each(|i| assert_eq!(best(0.1 * f64::from(i)), 0.0));
    assert_eq!(best(2.87), 0.0);
    near(best(2.88), 0.16, 0.001);
    assert!(best(100.0) > 0.29);
}

#[test]
fn independence_given_the_label_has_no_price() {
    let labels = Labels { b: 0.5, q: [0.2, 0.8] };
    let says = [[0.0, 0.0], [1.0, 1.0]];
    near(error(labels, says), 0.0, ROUNDING);
    says.iter().for_each(|given_a| near(given_a[0], given_a[1], ROUNDING));
    assert!(labels.price() > 0.29 && rate(labels, says, 1) - rate(labels, says, 0) > 0.59);
}

/// Weighted rows (z, a, b) of labels with a channel from both labels to one of three values.
fn channel(labels: Labels, given: impl Fn(usize, usize) -> [f64; 3]) -> Vec<(f64, [usize; 3])> {
    let mut rows = Vec::new();
    for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let share = labels.share(b) * if a == 1 { labels.q[b] } else { 1.0 - labels.q[b] };
        rows.extend(given(a, b).iter().enumerate().map(|(z, p)| (share * p, [z, a, b])));
    }
    rows
}

fn law(seed: Seed) -> [f64; 3] {
    let raw: [f64; 3] = std::array::from_fn(|k| seed.uniform(k as u64));
    raw.map(|p| p / raw.iter().sum::<f64>())
}

/// I(z; one | given) by the chain rule.
fn conditional(rows: &[(f64, [usize; 3])], one: usize, given: usize) -> f64 {
    information(rows, &[0], &[one, given]) - information(rows, &[0], &[given])
}

#[test]
fn independence_given_the_label_is_independence_under_the_weights() {
    for i in 0..100 {
        let seed = SEED.named("weights").stream(i);
        let labels = Labels::random(seed);
        let rows = channel(labels, |a, _| law(seed.stream(a as u64)));
        let share = |keep: &dyn Fn(&[usize; 3]) -> bool| {
            rows.iter().filter(|(_, v)| keep(v)).map(|(p, _)| p).sum::<f64>()
        };
        let weight = |v: &[usize; 3]| {
            share(&|u| u[1] == v[1]) * share(&|u| u[2] == v[2]) / share(&|u| u[1..] == v[1..])
        };
        let weighted: Vec<(f64, [usize; 3])> = rows.iter().map(|(p, v)| (p * weight(v), *v)).collect();
        near(information(&weighted, &[0], &[2]), 0.0, ROUNDING);
        near(information(&weighted, &[1], &[2]), 0.0, ROUNDING);
        near(information(&weighted, &[0], &[1]), information(&rows, &[0], &[1]), ROUNDING);
        assert!(information(&rows, &[0], &[2]) > 0.0);
    }
}

#[test]
fn under_the_weights_the_best_score_forgets_the_partner() {
    let pair = CHEEKS;
    let log_odds = |e_a: f64, e_b: f64, weighted: bool| {
        let cell = |a: f64, b: f64| {
            let share = 0.5 * if a == b { pair.agree } else { 1.0 - pair.agree };
            let weight = if weighted { 0.25 / share } else { 1.0 };
            weight
                * share
                * normal_density(e_a - (a - 0.5) * pair.gap_a)
                * normal_density(e_b - (b - 0.5) * pair.gap_b)
        };
        ((cell(1.0, 0.0) + cell(1.0, 1.0)) / (cell(0.0, 0.0) + cell(0.0, 1.0))).ln()
    };
    for (e_a, e_b) in [(0.3, 2.0), (-1.0, -3.0), (0.8, 0.1)] {
        near(log_odds(e_a, e_b, true), pair.gap_a * e_a, ROUNDING);
        near(log_odds(e_a, e_b, false), pair.gap_a * e_a + pair.lean(e_b), ROUNDING);
    }
}

#[test]
fn the_game_splits_into_what_is_wanted_and_what_is_not() {
    for i in 0..200 {
        let seed = SEED.named("chain").stream(i);
        let labels = Labels::random(seed);
        let rows = channel(labels, |a, b| law(seed.stream((2 * a + b) as u64)));
        let share_a = labels.b * labels.q[1] + (1.0 - labels.b) * labels.q[0];
        let loss_a = entropy(share_a) - information(&rows, &[0], &[1]);
        let (wanted, unwanted) = (conditional(&rows, 1, 2), conditional(&rows, 2, 1));
        assert!(wanted >= -ROUNDING && unwanted >= -ROUNDING);
        near(loss_a + information(&rows, &[0], &[2]), entropy(share_a) + unwanted - wanted, ROUNDING);
    }
}

#[test]
fn at_strength_one_the_evidence_of_a_alone_is_optimal() {
    // Evidence of three values for each label, given that label alone. Rows are (e_a, e_b, a, b).
    for i in 0..20 {
        let seed = SEED.named("optimal").stream(i);
        let labels = Labels::random(seed);
        let evidence = |name: &str, y: usize| law(seed.named(name).stream(y as u64));
        let mut world = Vec::new();
        for (p, [e_a, a, b]) in channel(labels, |a, _| evidence("a", a)) {
            world.extend(evidence("b", b).iter().enumerate().map(|(e_b, q)| (p * q, [e_a, e_b, a, b])));
        }
        // A feature of three values: an arbitrary map of both pieces of evidence, sharp or blurred.
        let objective = |map: &dyn Fn(usize, usize) -> [f64; 3]| {
            let rows: Vec<(f64, [usize; 3])> = world
                .iter()
                .flat_map(|(p, [e_a, e_b, a, b])| {
                    map(*e_a, *e_b).into_iter().enumerate().map(move |(z, q)| (p * q, [z, *a, *b]))
                })
                .collect();
            information(&rows, &[0], &[2]) - information(&rows, &[0], &[1])
        };
        let alone = objective(&|e_a, _| std::array::from_fn(|z| f64::from(u8::from(z == e_a))));
        for j in 0..60 {
            let seed = seed.named("maps").stream(j);
            let sharp = |e_a: usize, e_b: usize| -> [f64; 3] {
                let to = seed.below((3 * e_a + e_b) as u64, 3).unwrap();
                std::array::from_fn(|z| f64::from(u8::from(z == to)))
            };
            assert!(objective(&sharp) >= alone - ROUNDING);
            assert!(objective(&|e_a, e_b| law(seed.stream((3 * e_a + e_b) as u64))) >= alone - ROUNDING);
        }
    }
}

/// H(a | z) and I(z; b) of the feature z = e_a + k (2b − 1).
fn shifted(pair: Pair, k: f64) -> (f64, f64) {
    let sum = |f: &dyn Fn([[f64; 2]; 2]) -> f64| integral(|z| f(pair.joint(k, z)));
    let mixed = |p: f64, q: f64| if p + q > 0.0 { (p + q) * entropy(p / (p + q)) } else { 0.0 };
    let of_a = sum(&|j| mixed(j[0][0] + j[0][1], j[1][0] + j[1][1]));
    let of_b = sum(&|j| mixed(j[0][0] + j[1][0], j[0][1] + j[1][1]));
    (of_a, LN_2 - of_b)
}

#[test]
fn a_small_leak_tells_as_much_of_a_as_of_b() {
    let step = 1e-4;
    for (gap_a, agree) in [(2.15, 0.8), (1.0, 0.6), (3.0, 0.95)] {
        let pair = Pair { gap_a, agree, ..CHEEKS };
        let (plus, minus) = (shifted(pair, step), shifted(pair, -step));
        let (by_a, by_b) = (-(plus.0 - minus.0) / (2.0 * step), (plus.1 - minus.1) / (2.0 * step));
        let both = 0.5
            * integral(|e| {
                let p = logistic(gap_a * e);
                p * (1.0 - p) * (normal_density(e - gap_a / 2.0) + normal_density(e + gap_a / 2.0))
            });
        // Central differences with a step of 1e-4, and rounding over the step.
        near(by_a, 2.0 * (2.0 * agree - 1.0) * gap_a * both, 1e-6);
        near(by_b, by_a, 1e-6);
    }
}

#[test]
fn a_small_leak_of_any_kind_is_worth_the_same_to_both() {
    // No symmetry: shares, gaps and displacements all differ, and the displacement depends on z as well.
    let (share_b, q) = (0.3, [0.35, 0.75]);
    let moved = |b: usize, e: f64, eps: f64| e + eps * if b == 1 { 0.9 - 0.2 * e.tanh() } else { -0.2 };
    let told = |eps: f64| {
        // Densities of z on a grid, by the change of variables: p(z) dz = p(e) de.
        let back = |b: usize, z: f64| {
            let mut e = z;
            (0..60).for_each(|_| e -= moved(b, e, eps) - z);
            e
        };
        let density = |a: usize, b: usize, z: f64| {
            let (e, h) = (back(b, z), 1e-5);
            let stretch = (moved(b, e + h, eps) - moved(b, e - h, eps)) / (2.0 * h);
            let share = if b == 1 { share_b } else { 1.0 - share_b };
            share * if a == 1 { q[b] } else { 1.0 - q[b] } * normal_density(e - [-0.6, 1.1][a]) / stretch
        };
        let (mut of_a, mut of_b) = (0.0, 0.0);
        for i in 0..=280 {
            let z = -7.0 + 0.05 * f64::from(i);
            let j = [0, 1].map(|a| [0, 1].map(|b| density(a, b, z)));
            let term = |p: f64, q: f64| 0.05 * (p + q) * entropy(p / (p + q));
            of_a += term(j[0][0] + j[0][1], j[1][0] + j[1][1]);
            of_b += term(j[0][0] + j[1][0], j[0][1] + j[1][1]);
        }
        (-of_a, -of_b)
    };
    let step = 1e-3;
    let (plus, minus) = (told(step), told(-step));
    let (by_a, by_b) = ((plus.0 - minus.0) / (2.0 * step), (plus.1 - minus.1) / (2.0 * step));
    assert!(by_a > 0.05);
    // The square of the step, and the rounding of the stretch over the step.
    near(by_a, by_b, 1e-5);
}

/// Where H(a | z) + γ I(z; b) is least, by a scan and golden sections; the second term as in training or under weights.
fn best_shift(gamma: f64, weighted: bool) -> f64 {
    let weights = Pair { agree: if weighted { 0.5 } else { CHEEKS.agree }, ..CHEEKS };
    let paid = |k: f64| shifted(CHEEKS, k).0 + gamma * shifted(weights, k).1;
    let scan = (-10..=10).map(|i| 0.1 * f64::from(i)).min_by(|k, l| paid(*k).total_cmp(&paid(*l))).unwrap();
    let (mut low, mut high) = (scan - 0.1, scan + 0.1);
    for _ in 0..30 {
        let (left, right) = (low + 0.382 * (high - low), high - 0.382 * (high - low));
        if paid(left) < paid(right) { high = right } else { low = left }
    }
    0.5 * (low + high)
}

/// What golden sections leave: they end where the objective is flat to rounding.
const SECTIONS: f64 = 1e-6;

#[test]
fn the_strength_moves_the_threshold_from_one_side_to_the_other() {
    near(best_shift(0.0, false), CHEEKS.best_shift(), SECTIONS);
    near(best_shift(1.0, false), 0.0, SECTIONS);
    for (gamma, k, same, shift) in [
        (0.0, 0.645, 0.8991, 0.8119),
        (0.1, 0.542, 0.8983, 0.8250),
        (0.3, 0.380, 0.8930, 0.8418),
        (0.5, 0.249, 0.8849, 0.8515),
        (1.0, 0.0, 0.8588, 0.8588),
        (3.0, -0.404, 0.7851, 0.8396),
        (10.0, -0.588, 0.7399, 0.8194),
    ] {
        let found = best_shift(gamma, false);
        near(found, k, 1e-3);
        near(CHEEKS.accuracy_knowing_b(0.8, found), same, PRINTED);
        near(CHEEKS.accuracy_knowing_b(0.5, found), shift, PRINTED);
    }
}

#[test]
fn under_the_weights_the_threshold_never_overshoots() {
    let mut before = CHEEKS.best_shift();
    for (gamma, shift) in [(0.1, 0.8222), (0.3, 0.8343), (1.0, 0.8496), (3.0, 0.8568), (10.0, 0.8586)] {
        let found = best_shift(gamma, true);
        assert!(found > 0.0 && found < before);
        near(CHEEKS.accuracy_knowing_b(0.5, found), shift, PRINTED);
        before = found;
    }
    assert!(best_shift(100.0, true) < 0.005);
}

#[test]
fn equal_rates_overshoot() {
    let g = CHEEKS.gap_a;
    // The threshold on e_a with b at which half of the samples with b are said to have a, by bisection.
    let (mut low, mut high) = (0.0, 5.0);
    for _ in 0..100 {
        let t = 0.5 * (low + high);
        if 0.8 * normal_cdf(g / 2.0 - t) + 0.2 * normal_cdf(-g / 2.0 - t) > 0.5 { low = t } else { high = t }
    }
    near(low, 0.7774, PRINTED);
    near(CHEEKS.accuracy_knowing_b(0.8, -low), 0.6872, PRINTED);
    near(CHEEKS.accuracy_knowing_b(0.5, -low), 0.7925, PRINTED);
    near(shifted(CHEEKS, 0.0).1, 0.1132, PRINTED);
}
