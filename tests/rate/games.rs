//! Lagrangian games: hinges and counts, the player of prices, its regrets, and what a mixture is worth.

use crate::device::device;
use lastlayer::rate::{Game, RateSum, Within};

use super::decoupled::{binormal, cotangent};
use super::{SEED, assert_close, differences, random};
use lastlayer::prelude::*;

/// Share that constraints have at the start of the crate's games.
const SHARE: f64 = 1e-3;

const REGRETS: [Regret; 3] = [Regret::Swap, Regret::External, Regret::Lagrangian { radius: 10.0 }];

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

/// Hinge and count of the objective and of the constraint, at a threshold of zero.
fn rates(s: &[f64], labels: &Labels, target: f64) -> [(f64, f64); 2] {
    [Rate::FalseNegative.minus(0.0), Rate::FalsePositive.minus(target)].map(|sum| {
        let hinge = sum.slopes(s, labels, &[0.0], Surrogate::Hinge).unwrap().value;
        (hinge, sum.count(s, labels, &[0.0]).unwrap())
    })
}

#[test]
fn hinges_bound_the_counts_from_above() {
    for trial in 0..50 {
        let (mut s, y) = random(40, SEED.named("hinge").stream(trial));
        if trial % 2 == 0 {
            // On a grid, so that there are ties, zeros and scores at the corners.
            s.iter_mut().for_each(|s| *s = (2.0 * *s).round() / 2.0);
        }
        let found = rates(&s, &Labels::new(&y).unwrap(), 0.1);
        let mean = |class: u8, f: &dyn Fn(f64) -> f64| {
            let own: Vec<f64> = s.iter().zip(&y).filter(|(_, y)| **y == class).map(|(s, _)| f(*s)).collect();
            own.iter().sum::<f64>() / own.len() as f64
        };
        let one_if = |claim: bool| f64::from(u8::from(claim));
        let expected = [
            (mean(1, &|s| (1.0 - s).max(0.0)), mean(1, &|s| one_if(s <= 0.0))),
            (mean(0, &|s| (1.0 + s).max(0.0)) - 0.1, mean(0, &|s| one_if(s > 0.0)) - 0.1),
        ];
        for ((hinge, count), expected) in found.into_iter().zip(expected) {
            assert!((hinge - expected.0).abs() < 1e-12, "trial {trial}: {hinge} {}", expected.0);
            assert!((count - expected.1).abs() < 1e-12, "trial {trial}: {count} {}", expected.1);
            assert!(hinge >= count - 1e-12, "trial {trial}: {hinge} {count}");
        }
    }
    let [(o, fnr), (q, v)] = rates(&[0.5, -0.2, 0.3, -1.5], &Labels::new([1u8, 1, 0, 0]).unwrap(), 0.25);
    assert_close(&[o, fnr, q, v], &[0.85, 0.5, 0.4, 0.25], 1e-15);
}

/// TPR − TPR of a group, and the same sum's two terms each alone.
fn shortfall() -> [RateSum; 3] {
    let all = Rate::TruePositive.term();
    let group = all.within(Within::With(0)).weight(-1.0);
    [vec![all, group], vec![all], vec![group]].map(|terms| RateSum { terms, constant: 0.0 })
}

#[test]
fn a_difference_of_rates_is_relaxed_once_for_each_sample() {
    let hinge =
        |sum: &RateSum, s: &[f64], labels: &Labels| sum.slopes(s, labels, &[0.0], Surrogate::Hinge).unwrap();
    for trial in 0..20 {
        let seed = SEED.named("difference").stream(trial);
        let (mut s, y) = random(200, seed);
        s.iter_mut().for_each(|s| *s *= 2.0);
        s.iter_mut().filter(|s| (s.abs() - 1.0).abs() < 1e-3).for_each(|s| *s += 0.01);
        let member = |i: usize| i == 0 || seed.named("group").uniform(i as u64) < 0.85;
        let groups = Array2::from_shape_fn((200, 1), |(i, _)| u8::from(member(i)));
        let labels = Labels::new(&y).unwrap().with_attributes(groups).unwrap();
        let positives: Vec<usize> = (0..200).filter(|i| y[*i] == 1).collect();
        let own: Vec<usize> = positives.iter().copied().filter(|i| member(*i)).collect();
        let (p, g) = (positives.len() as f64, own.len() as f64);
        // One weight per sample: negative within the group, where being above helps.
        let weight = |i: usize| 1.0 / p - if member(i) { 1.0 / g } else { 0.0 };
        let relaxed = |i: usize| match weight(i) > 0.0 {
            true => weight(i) * (1.0 + s[i]).max(0.0),
            false => weight(i) * (1.0 - (1.0 - s[i]).max(0.0)),
        };
        let [sum, all, group] = shortfall();
        let found = hinge(&sum, &s, &labels);
        let expected: f64 = positives.iter().map(|i| relaxed(*i)).sum();
        assert!((found.value - expected).abs() < 1e-12, "trial {trial}: {} {expected}", found.value);
        assert!(found.value >= sum.count(&s[..], &labels, &[0.0]).unwrap() - 1e-12);
        let numeric = differences(&s, 1e-4, |s| hinge(&sum, s, &labels).value);
        assert_close(&found.by_score, &numeric, 1e-8);
        let tensor = Tensor::new(&s[..], device()).unwrap();
        let tensor = sum.tensor(&tensor, &labels, &[0.0], Surrogate::Hinge).unwrap();
        assert!((tensor.to_scalar::<f64>().unwrap() - found.value).abs() < 1e-12);
        // Term by term every member of the group costs max(1, |s|)/P more: in all, at least their share.
        let apart = hinge(&all, &s, &labels).value + hinge(&group, &s, &labels).value;
        let excess = own.iter().map(|i| s[*i].abs().max(1.0)).sum::<f64>() / p;
        assert!((apart - found.value - excess).abs() < 1e-12, "trial {trial}: {apart} {excess}");
        assert!(excess >= g / p);
    }
    // The example of the chapter: three of four positives are in the group.
    let s = [0.5, -0.2, 2.0, -1.5];
    let labels = Labels::new([1, 1, 1, 1]).unwrap();
    let labels = labels.with_attributes(ndarray::array![[1], [1], [1], [0]]).unwrap();
    let [sum, all, group] = shortfall();
    let apart = hinge(&all, &s, &labels).value + hinge(&group, &s, &labels).value;
    let found = [sum.count(s, &labels, &[0.0]).unwrap(), hinge(&sum, &s, &labels).value, apart];
    assert_close(&found, &[-0.5 / 3.0, -1.3 / 12.0, 1.0 - 1.3 / 12.0], 1e-12);
    assert!(
        (found[0] + 0.167).abs() < 5e-4 && (found[1] + 0.108).abs() < 5e-4 && (apart - 0.892).abs() < 5e-4
    );
}

#[test]
fn the_cotangent_of_the_proxy_lagrangian_matches_finite_differences() {
    let problem = RateProblem::fnr_at_fpr(0.25, Surrogate::Hinge).unwrap();
    for trial in 0..10 {
        let seed = SEED.named("proxy").stream(trial);
        let (mut s, y) = random(40, seed);
        // Away from the corners, where there is a derivative.
        s.iter_mut().filter(|s| (s.abs() - 1.0).abs() < 1e-3).for_each(|s| *s += 0.01);
        let labels = Labels::new(&y).unwrap();
        let positives = y.iter().filter(|y| **y == 1).count() as f64;
        let negatives = y.len() as f64 - positives;
        let formula = |p: &[f64]| -> Vec<f64> {
            let one = |(s, y): (&f64, &u8)| match *y {
                1 => -p[0] / positives * f64::from(u8::from(*s < 1.0)),
                _ => p[1] / negatives * f64::from(u8::from(*s > -1.0)),
            };
            s.iter().zip(&y).map(one).collect()
        };
        let share = seed.named("price").uniform(0);
        let numeric = differences(&s, 1e-4, |s| {
            let [(o, _), (q, _)] = rates(s, &labels, 0.25);
            (1.0 - share) * o + share * q
        });
        assert_close(&formula(&[1.0 - share, share]), &numeric, 1e-8);
        // A step of training, at the prices of the first round.
        for regret in REGRETS {
            let p = Game::new(regret, 1, 0.5).unwrap().weights();
            let game = Rule::Game { regret, dual_lr: 0.5 };
            let found = cotangent(&problem, (game, game), &s, &y);
            assert_close(&found, &formula(&p), 1e-12);
        }
    }
}

/// The law that a stochastic matrix, given by columns, leaves as it is.
///
/// Elimination without subtractions (Grassmann, Taksar and Heyman 1985): exact in every entry, however slowly
/// the columns mix.
fn stationary(columns: &[Vec<f64>]) -> Vec<f64> {
    let mut to = columns.to_vec();
    for n in (1..to.len()).rev() {
        let leaving: f64 = to[n][..n].iter().sum();
        for k in 0..n {
            to[k][n] /= leaving;
            for i in 0..n {
                to[k][i] += to[k][n] * to[n][i];
            }
        }
    }
    let mut p: Vec<f64> = vec![1.0];
    while p.len() < to.len() {
        let n = p.len();
        p.push(p.iter().zip(&to).map(|(p, row)| p * row[n]).sum());
    }
    let total: f64 = p.iter().sum();
    p.iter().map(|p| p / total).collect()
}

/// M x for a matrix given by columns.
fn product(columns: &[Vec<f64>], x: &[f64]) -> Vec<f64> {
    (0..x.len()).map(|i| columns.iter().zip(x).map(|(column, x)| column[i] * x).sum()).collect()
}

/// Columns of a random stochastic matrix.
fn stochastic(d: usize, seed: Seed) -> Vec<Vec<f64>> {
    let column = |k: usize| {
        let raw: Vec<f64> = (0..d as u64).map(|i| seed.stream(k as u64).normal(i).exp()).collect();
        let total: f64 = raw.iter().sum();
        raw.iter().map(|entry| entry / total).collect()
    };
    (0..d).map(column).collect()
}

/// A list of random numbers that sum to zero.
fn sum_zero(d: usize, seed: Seed) -> Vec<f64> {
    let raw: Vec<f64> = (0..d as u64).map(|i| seed.normal(i)).collect();
    let mean = raw.iter().sum::<f64>() / d as f64;
    raw.iter().map(|e| e - mean).collect()
}

fn length(x: &[f64]) -> f64 {
    x.iter().map(|x| x.abs()).sum()
}

/// The swap player of the chapter, without a floor.
struct Player {
    columns: Vec<Vec<f64>>,
    rate: f64,
}

impl Player {
    fn new(m: usize, share: f64, rate: f64) -> Player {
        let part = share / (m + 1) as f64;
        let column = [vec![1.0 - part * m as f64], vec![part; m]].concat();
        Player { columns: vec![column; m + 1], rate }
    }

    fn weights(&self) -> Vec<f64> {
        stationary(&self.columns)
    }

    fn update(&mut self, violations: &[f64]) {
        let (p, rate) = (self.weights(), self.rate);
        for (column, p) in self.columns.iter_mut().zip(p) {
            // The objective comes first and gains nothing.
            column[1..].iter_mut().zip(violations).for_each(|(entry, v)| *entry *= (rate * v * p).exp());
            let total: f64 = column.iter().sum();
            column.iter_mut().for_each(|entry| *entry /= total);
        }
    }
}

#[test]
fn two_by_two_stationary_weights_have_a_closed_form() {
    let closed = |m: &[Vec<f64>]| m[0][1] / (m[0][1] + m[1][0]);
    for trial in 0..50 {
        let seed = SEED.named("two by two").stream(trial);
        let m = stochastic(2, seed);
        let p = [1.0 - closed(&m), closed(&m)];
        assert_close(&product(&m, &p), &p, 1e-12);
        let e = sum_zero(2, seed.named("error"));
        let shrunk: Vec<f64> = e.iter().map(|e| (m[0][0] + m[1][1] - 1.0) * e).collect();
        let found = product(&m, &[p[0] + e[0], p[1] + e[1]]);
        assert!((0..2).all(|i| (found[i] - p[i] - shrunk[i]).abs() < 1e-12), "trial {trial}");
    }
    // The crate's player, while its constraint is violated and the floor is out of the way.
    let mut game = Game::new(Regret::Swap, 1, 0.5).unwrap();
    let mut player = Player::new(1, SHARE, 0.5);
    for round in 0..60 {
        let violation = SEED.named("violation").uniform(round);
        game.update(&[violation]).unwrap();
        player.update(&[violation]);
        let (m, p) = (game.matrix(), game.weights());
        assert!(m.iter().all(|column| (column.iter().sum::<f64>() - 1.0).abs() < 1e-12));
        assert!((p[1] - closed(&m)).abs() < 1e-12 && (p[0] + p[1] - 1.0).abs() < 1e-12, "round {round}");
        m.iter().zip(&player.columns).for_each(|(found, expected)| assert_close(found, expected, 1e-10));
    }
    // The example of the chapter, with its larger share.
    let mut player = Player::new(1, 0.2, 0.5);
    for (round, printed) in [0.1, 0.109554, 0.119672].into_iter().enumerate() {
        assert!((player.weights()[1] - printed).abs() < 5e-7, "round {round}: {:?}", player.weights());
        player.update(&[0.25]);
        let row = [player.columns[0][1], player.columns[1][1]];
        assert!(round > 0 || ((row[0] - 0.1106).abs() < 5e-5 && (row[1] - 0.1011).abs() < 5e-5), "{row:?}");
    }
}

/// Σ_i min_k M_ik.
fn overlap(columns: &[Vec<f64>]) -> f64 {
    let least = |i: usize| columns.iter().fold(f64::INFINITY, |least, column| least.min(column[i]));
    (0..columns.len()).map(least).sum()
}

#[test]
fn power_iteration_contracts_by_the_overlap_of_the_columns() {
    for d in 2..=6 {
        for trial in 0..50 {
            let seed = SEED.named("power").stream(100 * d as u64 + trial);
            let m = stochastic(d, seed);
            let e = sum_zero(d, seed.named("error"));
            let (after, bound) = (length(&product(&m, &e)), (1.0 - overlap(&m)) * length(&e));
            assert!(after <= bound + 1e-13, "{d} {trial}: {after} {bound}");
            // With two columns there is only one direction, and the bound is what happens.
            assert!(d > 2 || (after - bound).abs() < 1e-12, "{trial}: {after} {bound}");
        }
    }
    // At the start the columns agree, and one pass is exact.
    for m in 1..=5 {
        let game = Game::new(Regret::Swap, m, 0.5).unwrap();
        assert!((overlap(&game.matrix()) - 1.0).abs() < 1e-12);
        assert_close(&game.weights(), &game.matrix()[0], 1e-14);
    }
}

/// How far the weights of a game are from being those that its matrix leaves as they are.
fn unrest(game: &Game) -> f64 {
    let p = game.weights();
    let next = product(&game.matrix(), &p);
    let total: f64 = next.iter().sum();
    next.iter().zip(&p).map(|(next, p)| (next / total - p).abs()).sum()
}

#[test]
fn the_floor_keeps_every_weight_away_from_zero() {
    for m in 1..=5usize {
        let floor = SHARE / (m + 1) as f64;
        let drawn = SEED.named("floor").stream(m as u64);
        let random = |round: usize, k: usize| 2.0 * drawn.uniform((round * m + k) as u64) - 1.0;
        let violated = |_: usize, k: usize| 0.8 / (k + 1) as f64;
        let kept = |_: usize, _: usize| -0.5;
        type Violation<'a> = &'a dyn Fn(usize, usize) -> f64;
        let plays: [(f64, Violation); 3] = [(0.5, &random), (1.0, &violated), (1.0, &kept)];
        for (play, (rate, violation)) in plays.into_iter().enumerate() {
            let mut game = Game::new(Regret::Swap, m, rate).unwrap();
            for round in 0..400 {
                let violations: Vec<f64> = (0..m).map(|k| violation(round, k)).collect();
                game.update(&violations).unwrap();
                if round % 10 > 0 {
                    continue;
                }
                for column in game.matrix() {
                    assert!(column.iter().all(|entry| *entry >= floor * (1.0 - 1e-12)));
                    let excess = column.iter().sum::<f64>() - 1.0;
                    assert!((-1e-12..=floor * m as f64 + 1e-12).contains(&excess), "{excess}");
                }
                let least = SHARE / (m as f64 + 1.0 + SHARE * m as f64);
                let p = game.weights();
                assert!(p.iter().all(|p| *p >= least - 1e-12), "{m} {play} {round}: {p:?}");
                assert!(unrest(&game) < 1e-9, "{m} {play} {round}: {}", unrest(&game));
            }
        }
    }
}

#[test]
fn weights_are_stationary_also_where_columns_point_at_each_other() {
    // Constraints that are violated while their price is below 0.3. Such play makes nearly periodic matrices,
    // on which p ← M p needs very many passes.
    for m in 1..=5 {
        let mut game = Game::new(Regret::Swap, m, 1.0).unwrap();
        for round in 0..400 {
            let violations: Vec<f64> = game.weights()[1..].iter().map(|p| 0.3 - p).collect();
            game.update(&violations).unwrap();
            assert!(unrest(&game) < 1e-9, "{m} constraints, round {round}: {}", unrest(&game));
        }
    }
}

/// Finitely many decisions: objective, true violations, and proxies that are never below them.
struct Choices {
    o: Vec<f64>,
    v: Vec<Vec<f64>>,
    q: Vec<Vec<f64>>,
}

impl Choices {
    fn random(n: usize, m: usize, seed: Seed) -> Choices {
        let draw = |name: &str, c: usize, k: usize| seed.named(name).uniform((c * m + k) as u64);
        let o = (0..n as u64).map(|c| seed.named("o").uniform(c)).collect();
        let v: Vec<Vec<f64>> = (0..n).map(|c| (0..m).map(|k| draw("v", c, k) - 0.5).collect()).collect();
        let q = (0..n).map(|c| (0..m).map(|k| v[c][k] + 0.5 * draw("q", c, k)).collect()).collect();
        Choices { o, v, q }
    }

    /// What decision `c` costs at these prices.
    fn cost(&self, p: &[f64], c: usize) -> f64 {
        p[0] * self.o[c] + dot(&p[1..], &self.q[c])
    }
}

/// Decisions and prices of every round.
struct Play {
    choices: Choices,
    chosen: Vec<usize>,
    p: Vec<Vec<f64>>,
    /// The matrix of each round, where there is one, and the rate of its updates.
    columns: Vec<Vec<Vec<f64>>>,
    rate: f64,
}

impl Play {
    /// (0, v_1, …, v_m) of every round.
    fn gains(&self) -> Vec<Vec<f64>> {
        self.chosen.iter().map(|c| [&[0.0][..], &self.choices.v[*c][..]].concat()).collect()
    }

    /// Mean price of the objective.
    fn kept(&self) -> f64 {
        self.p.iter().map(|p| p[0]).sum::<f64>() / self.p.len() as f64
    }

    /// Expectation over the mixture of a number that each decision has.
    fn mixture(&self, of: impl Fn(usize) -> f64) -> f64 {
        let total: f64 = self.p.iter().zip(&self.chosen).map(|(p, c)| p[0] * of(*c)).sum();
        total / (self.kept() * self.p.len() as f64)
    }

    /// External regret of the player that decides.
    fn regret(&self) -> f64 {
        let rounds = self.p.len() as f64;
        let paid: f64 = self.p.iter().zip(&self.chosen).map(|(p, c)| self.choices.cost(p, *c)).sum();
        let fixed = |c: usize| -self.p.iter().map(|p| self.choices.cost(p, c)).sum::<f64>();
        (paid + largest((0..self.choices.o.len()).map(fixed))) / rounds
    }
}

/// Sums over the rounds of p_k V_i, by k.
fn earned(p: &[Vec<f64>], gains: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let d = p[0].len();
    let one = |k: usize, i: usize| p.iter().zip(gains).map(|(p, v)| p[k] * v[i]).sum::<f64>();
    (0..d).map(|k| (0..d).map(|i| one(k, i)).collect()).collect()
}

/// What the best rule that sends weight on k to i(k) would have earned beyond the play, by the round.
fn swap_regret(p: &[Vec<f64>], gains: &[Vec<f64>]) -> f64 {
    let (d, table) = (p[0].len(), earned(p, gains));
    // Digit k of a rule's number, in base d, is i(k).
    let value = |rule: usize| (0..d).map(|k| table[k][rule / d.pow(k as u32) % d]).sum::<f64>();
    let own: f64 = (0..d).map(|k| table[k][k]).sum();
    (largest((0..d.pow(d as u32)).map(value)) - own) / p.len() as f64
}

/// Best fixed choice beyond what was earned, a round.
fn external_regret(p: &[Vec<f64>], gains: &[Vec<f64>]) -> f64 {
    let fixed = |i: usize| gains.iter().map(|v| v[i]).sum::<f64>();
    let own: f64 = p.iter().zip(gains).map(|(p, v)| dot(p, v)).sum();
    (largest((0..p[0].len()).map(fixed)) - own) / p.len() as f64
}

/// Plays 5 to 400 rounds at prices that `answer` makes of each round's violations, the first of them `p`.
fn play(trial: u64, m: usize, mut p: Vec<f64>, mut answer: impl FnMut(&[f64]) -> Vec<f64>) -> Play {
    let seed = SEED.named("games").stream(trial);
    let n = 2 + seed.below(0, 4).unwrap();
    let choices = Choices::random(n, m, seed);
    let (mut chosen, mut prices) = (Vec::new(), Vec::new());
    for round in 0..5 + seed.below(1, 396).unwrap() as u64 {
        let best = (0..n).min_by(|a, b| choices.cost(&p, *a).total_cmp(&choices.cost(&p, *b))).unwrap();
        // Every other player decides at random in three rounds of ten.
        let careless = trial % 2 == 1 && seed.named("chance").uniform(round) <= 0.3;
        let c = if careless { seed.named("choice").below(round, n).unwrap() } else { best };
        chosen.push(c);
        let next = answer(&choices.v[c]);
        prices.push(std::mem::replace(&mut p, next));
    }
    Play { choices, chosen, p: prices, columns: Vec::new(), rate: 0.0 }
}

/// Sixty games of the chapter's player, without a floor.
fn plays() -> Vec<Play> {
    let one = |trial: u64| {
        let m = 1 + trial as usize % 3;
        let rate = 0.05 + 1.5 * SEED.named("games").stream(trial).uniform(2);
        let mut player = Player::new(m, SHARE, rate);
        let mut columns = Vec::new();
        let played = play(trial, m, player.weights(), |violations| {
            columns.push(player.columns.clone());
            player.update(violations);
            player.weights()
        });
        Play { columns, rate, ..played }
    };
    (0..60).map(one).collect()
}

/// The same games with the crate's players, their weights as shares.
fn crate_plays() -> Vec<Play> {
    let shares = |game: &Game| -> Vec<f64> {
        let weights = game.weights();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|w| w / total).collect()
    };
    let one = |trial: u64| {
        let m = 1 + trial as usize % 3;
        let mut game = Game::new(REGRETS[trial as usize / 3 % 3], m, 0.5).unwrap();
        play(trial, m, shares(&game), |violations| {
            game.update(violations).unwrap();
            shares(&game)
        })
    };
    (0..60).map(one).collect()
}

/// What column k of a play, as a player of its own, missed.
fn column_regret(play: &Play, gains: &[Vec<f64>], k: usize) -> f64 {
    let own = play.p.iter().zip(gains).zip(&play.columns);
    let own: f64 = own.map(|((p, v), columns)| p[k] * dot(&columns[k], v)).sum();
    largest(earned(&play.p, gains)[k].iter().copied()) - own
}

#[test]
fn swap_regret_is_the_sum_of_the_columns_external_regrets() {
    for (trial, play) in plays().iter().enumerate() {
        let gains = play.gains();
        let swap = swap_regret(&play.p, &gains);
        let columns: f64 = (0..play.p[0].len()).map(|k| column_regret(play, &gains, k)).sum();
        let rounds = play.p.len() as f64;
        assert!((rounds * swap - columns).abs() < 1e-9, "trial {trial}: {} {columns}", rounds * swap);
        assert!(swap >= external_regret(&play.p, &gains) - 1e-12);
    }
}

#[test]
fn multiplicative_updates_keep_swap_regret_below_the_bound() {
    let mut tightest = 0.0f64;
    for (trial, play) in plays().iter().enumerate() {
        let (gains, d, rounds) = (play.gains(), play.p[0].len(), play.p.len() as f64);
        let width = |v: &Vec<f64>| largest(v.iter().copied()) + largest(v.iter().map(|v| -v));
        let r = largest(gains.iter().map(width));
        let start = (d as f64 / SHARE).ln() / play.rate;
        let bound = d as f64 * start / rounds + play.rate * r * r / 8.0;
        let swap = swap_regret(&play.p, &gains);
        assert!(swap <= bound + 1e-12, "trial {trial}: {swap} {bound}");
        // The same for each column, as in the proof.
        for k in 0..d {
            let squares: f64 = play.p.iter().map(|p| p[k] * p[k]).sum();
            let bound = start + play.rate * r * r / 8.0 * squares;
            let regret = column_regret(play, &gains, k);
            assert!(regret <= bound + 1e-9, "trial {trial}, column {k}: {regret} {bound}");
            tightest = tightest.max(regret / bound);
        }
    }
    // Nothing is given away: some column comes close.
    assert!(tightest > 0.9, "{tightest}");
}

#[test]
fn small_regrets_make_the_mixture_nearly_feasible_and_nearly_optimal() {
    let mut rivals = 0;
    for (trial, play) in plays().iter().chain(&crate_plays()).enumerate() {
        let (choices, kept) = (&play.choices, play.kept());
        let (swap, theta) = (swap_regret(&play.p, &play.gains()), play.regret());
        for k in 0..choices.v[0].len() {
            let violation = play.mixture(|c| choices.v[c][k]);
            assert!(violation <= swap / kept + 1e-12, "trial {trial}: {violation} {}", swap / kept);
        }
        let objective = play.mixture(|c| choices.o[c]);
        for (o, q) in choices.o.iter().zip(&choices.q) {
            if q.iter().all(|q| *q <= 0.0) {
                rivals += 1;
                let bound = o + (theta + swap) / kept;
                assert!(objective <= bound + 1e-12, "trial {trial}: {objective} {bound}");
            }
        }
    }
    assert!(rivals > 10, "{rivals} rivals are too few to learn from");
}

#[test]
fn a_margin_keeps_weight_on_the_objective() {
    let mut promises = 0;
    for (trial, play) in plays().iter().chain(&crate_plays()).enumerate() {
        let (o, missed) = (&play.choices.o, play.regret() + swap_regret(&play.p, &play.gains()));
        let range = largest(o.iter().copied()) + largest(o.iter().map(|o| -o));
        for q in &play.choices.q {
            let margin = -largest(q.iter().copied());
            if margin > 0.0 {
                let bound = (margin - missed) / (margin + range);
                assert!(play.kept() >= bound - 1e-12, "trial {trial}: {} {bound}", play.kept());
                promises += usize::from(bound > 0.0);
            }
        }
    }
    assert!(promises > 5, "only {promises} bounds are above zero");
}

#[test]
fn external_regret_can_be_negative_while_the_mixture_violates_a_constraint() {
    let choices =
        Choices { o: vec![0.0; 2], v: vec![vec![1.0, -1.0], vec![-1.0, 1.0]], q: vec![vec![1.0; 2]; 2] };
    let p = vec![vec![1.0, 0.0, 0.0], vec![0.0, 0.0, 1.0]];
    let play = Play { choices, chosen: vec![0, 1], p, columns: Vec::new(), rate: 0.0 };
    assert_eq!(external_regret(&play.p, &play.gains()), -0.5);
    assert_eq!(swap_regret(&play.p, &play.gains()), 0.5);
    assert_eq!(play.mixture(|c| play.choices.v[c][0]), 1.0);
}

#[test]
fn simultaneous_steps_spiral_out_and_alternating_steps_stay_on_an_ellipse() {
    for trial in 0..50 {
        let seed = SEED.named("circles").stream(trial);
        let (a, b, eta) = (seed.normal(0), seed.normal(1), seed.uniform(2));
        let start = a * a + b * b;
        let (x, y) = (a - eta * b, b + eta * a);
        assert!((x * x + y * y - (1.0 + eta * eta) * start).abs() < 1e-12 * (1.0 + start), "trial {trial}");
        let y = b + eta * x;
        let ellipse = x * x + y * y - eta * x * y;
        assert!((ellipse - (start - eta * a * b)).abs() < 1e-12 * (1.0 + start), "trial {trial}");
    }
    let (mut a, mut b) = (1.0, 0.0);
    for expected in [(1.0, 0.5), (0.75, 1.0), (0.25, 1.375)] {
        (a, b) = (a - 0.5 * b, b + 0.5 * a);
        assert_eq!((a, b), expected);
    }
    // The crate's multiplier against ξ, which is to be small but at least 1.
    for alternating in [false, true] {
        let eta = 0.1;
        let mut game = Game::new(Regret::Lagrangian { radius: f64::INFINITY }, 1, eta).unwrap();
        let size = |xi: f64, multiplier: f64| {
            let (a, b) = (xi - 1.0, 1.0 - multiplier);
            a * a + b * b - if alternating { eta * a * b } else { 0.0 }
        };
        let growth = if alternating { 1.0 } else { 1.0 + eta * eta };
        let (mut xi, mut before) = (0.0, size(0.0, 0.0));
        for round in 0..30 {
            let old = xi;
            xi -= eta * (1.0 - game.weights()[1]);
            game.update(&[1.0 - if alternating { xi } else { old }]).unwrap();
            let multiplier = game.weights()[1];
            let after = size(xi, multiplier);
            assert!(multiplier > 0.0 && (after - growth * before).abs() < 1e-12 * after, "round {round}");
            before = after;
        }
    }
}

#[test]
fn averages_of_a_bilinear_game_telescope() {
    for trial in 0..50 {
        let seed = SEED.named("averages").stream(trial);
        let rounds = 1 + seed.below(2, 200).unwrap();
        // Small enough for the iterates to stay bounded.
        let eta = 1.0 / (rounds as f64).sqrt();
        let start = [seed.normal(0), seed.normal(1)];
        let ([mut a, mut b], mut sums) = (start, [0.0, 0.0]);
        for _ in 0..rounds {
            sums = [sums[0] + a, sums[1] + b];
            (a, b) = (a - eta * b, b + eta * a);
        }
        let t = rounds as f64;
        let [mean_a, mean_b] = sums.map(|sum| sum / t);
        let scale = start[0].hypot(start[1]);
        assert!((mean_b - (start[0] - a) / (eta * t)).abs() < 1e-12 * (1.0 + scale), "trial {trial}");
        assert!((mean_a - (b - start[1]) / (eta * t)).abs() < 1e-12 * (1.0 + scale), "trial {trial}");
        assert!(a.hypot(b) <= 0.5f64.exp() * scale * (1.0 + 1e-12), "trial {trial}");
    }
}

#[test]
fn a_mixture_lies_on_the_chord_below_a_concave_roc() {
    let tpr = |distance: f64, fpr: f64| binormal(distance).tpr_at_fpr(&[1.0], fpr).unwrap();
    for trial in 0..200 {
        let seed = SEED.named("chord").stream(trial);
        let distance = 0.2 + 3.0 * seed.uniform(0);
        let [one, two] = [1, 2].map(|c| 0.001 + 0.998 * seed.uniform(c));
        let share = seed.uniform(3);
        let chord = share * tpr(distance, one) + (1.0 - share) * tpr(distance, two);
        let curve = tpr(distance, share * one + (1.0 - share) * two);
        assert!(chord <= curve + 1e-12, "trial {trial}: {chord} {curve}");
    }
    // A coin between "always no" and 2 %, against one threshold at 1 %.
    assert!((0.5 * tpr(2.0, 0.02) - 0.2393).abs() < 5e-5);
    assert!((tpr(2.0, 0.01) - 0.3721).abs() < 5e-5);
}

#[test]
fn bad_input_is_told() {
    for regret in REGRETS {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = Game::new(regret, 1, rate).unwrap_err();
            assert!(matches!(error, Error::Config { .. }), "{error}");
        }
        let mut game = Game::new(regret, 2, 0.5).unwrap();
        game.update(&[0.3, -0.1]).unwrap();
        let before = game.clone();
        for wrong in [vec![0.1], vec![0.1, 0.2, 0.3]] {
            let error = game.update(&wrong).unwrap_err();
            assert!(matches!(error, Error::Shape { .. }), "{error}");
        }
        for bad in [f64::NAN, f64::INFINITY] {
            let error = game.update(&[0.1, bad]).unwrap_err();
            assert!(matches!(error, Error::Data { .. }), "{error}");
        }
        assert_eq!(game, before);
    }
    for radius in [0.0, -1.0, f64::NAN] {
        let error = Game::new(Regret::Lagrangian { radius }, 1, 0.5).unwrap_err();
        assert!(matches!(error, Error::Config { .. }), "{error}");
    }
}

#[test]
fn a_multiplier_grows_while_its_constraint_is_violated() {
    for regret in REGRETS {
        let mut game = Game::new(regret, 2, 0.5).unwrap();
        let multiplier = |game: &Game| game.weights()[1] / game.weights()[0];
        for (violation, rounds) in [(0.3, 20), (-0.3, 10)] {
            for round in 0..rounds {
                let before = multiplier(&game);
                game.update(&[violation, -0.2]).unwrap();
                let grown = multiplier(&game) - before;
                assert!(grown * violation > 0.0, "{regret:?}, {violation}, round {round}: {grown}");
            }
        }
    }
}

#[test]
fn without_constraints_all_weight_is_on_the_objective() {
    for regret in REGRETS {
        let mut game = Game::new(regret, 0, 0.5).unwrap();
        assert_eq!(game.weights(), [1.0]);
        game.update(&[]).unwrap();
        assert_eq!(game.weights(), [1.0]);
    }
}

#[test]
fn lagrangian_multipliers_move_to_the_nearest_point_of_their_set() {
    let (radius, rate) = (1.5, 0.7);
    let (mut inside, mut outside) = (0, 0);
    for m in 1..=4 {
        let mut game = Game::new(Regret::Lagrangian { radius }, m, rate).unwrap();
        for round in 0..200 {
            let seed = SEED.named("radius").stream(1000 * m as u64 + round);
            let violations: Vec<f64> = (0..m as u64).map(|k| seed.normal(k) + 0.2).collect();
            let before = game.weights();
            let aim: Vec<f64> = before[1..].iter().zip(&violations).map(|(l, v)| l + rate * v).collect();
            game.update(&violations).unwrap();
            let (first, found) = (game.weights()[0], game.weights()[1..].to_vec());
            assert!(first == 1.0 && found.iter().all(|l| *l >= 0.0));
            assert!(found.iter().sum::<f64>() <= radius + 1e-12);
            // The nearest point of a convex set is the one from which the way to the aim leads to no corner.
            let short: Vec<f64> = aim.iter().zip(&found).map(|(aim, l)| aim - l).collect();
            let here = dot(&short, &found);
            assert!(here >= -1e-12, "{m} {round}: the corner 0");
            assert!(short.iter().all(|short| radius * short - here <= 1e-12), "{m} {round}: another corner");
            let reached = aim.iter().map(|aim| aim.max(0.0)).sum::<f64>() <= radius;
            *if reached { &mut inside } else { &mut outside } += 1;
        }
    }
    assert!(inside > 20 && outside > 20, "{inside} {outside}");
}
