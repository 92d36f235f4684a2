//! The equations of the chapter "Measuring decisions", each computed by its formula and by the crate.

mod common;

use common::near_named;
use lastlayer::distribution::{beta_cdf, normal_cdf, normal_quantile};
use lastlayer::metrics::{ClassScores, Scores, delong, mcnemar, rate_interval};
use lastlayer::ndarray::{Array2, array};
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(11);
/// Sums of a few hundred fractions, in another order.
const ROUNDING: f64 = 1e-12;

/// Scores on a grid of `values` levels, so that ties abound, and labels; both classes are there.
fn tied(n: usize, values: usize, seed: Seed) -> (Vec<f64>, Vec<u8>) {
    let y: Vec<u8> =
        (0..n).map(|i| if i < 2 { i as u8 } else { (seed.draw(i as u64) >> 63) as u8 }).collect();
    let s = (0..n).map(|i| {
        let level = seed.named("score").below(i as u64, values).unwrap() as f64;
        level / 7.0 + if y[i] == 1 && seed.uniform(1000 + i as u64) < 0.4 { 1.0 } else { 0.0 }
    });
    (s.collect(), y)
}

fn sides(s: &[f64], y: &[u8]) -> [Vec<f64>; 2] {
    [0, 1].map(|label| s.iter().zip(y).filter(|(_, l)| **l == label).map(|(s, _)| *s).collect())
}

fn share_in_order(above: &[f64], below: &[f64]) -> f64 {
    let wins = |a: &f64, b: &f64| {
        if a > b {
            1.0
        } else if a == b {
            0.5
        } else {
            0.0
        }
    };
    let total: f64 = above.iter().flat_map(|a| below.iter().map(move |b| wins(a, b))).sum();
    total / (above.len() * below.len()) as f64
}

#[test]
fn the_area_under_the_roc_is_the_share_of_pairs_in_order() {
    for trial in 0..50 {
        let (s, y) = tied(80, 2 + trial % 9, SEED.stream(trial as u64));
        let [negatives, positives] = sides(&s, &y);
        let scores = Scores::new(&s, &y).unwrap();
        let roc = scores.roc();
        let area: f64 = (1..roc.fpr.len())
            .map(|i| (roc.fpr[i] - roc.fpr[i - 1]) * (roc.tpr[i] + roc.tpr[i - 1]) / 2.0)
            .sum();
        near_named("trapezoids", area, share_in_order(&positives, &negatives), ROUNDING);
        near_named("the crate", scores.auc(), share_in_order(&positives, &negatives), ROUNDING);
        near_named("the whole range", scores.partial_auc(0.0, 1.0).unwrap(), area, ROUNDING);
    }
}

#[test]
fn auc_mu_is_the_mean_over_pairs_of_classes_of_ordered_pairs() {
    let k = 3;
    let partitions = [
        Array2::from_shape_fn((k, k), |(i, j)| if i == j { 0.0 } else { 1.0 }),
        array![[0.0, 2.0, 1.0], [0.5, 0.0, 3.0], [1.0, 1.5, 0.0]],
    ];
    for (p, partition) in partitions.iter().enumerate() {
        let seed = SEED.stream(p as u64);
        let y: Vec<u32> = (0..60).map(|i| i % 3).collect();
        let s = Array2::from_shape_fn((60, k), |(i, j)| seed.below((3 * i + j) as u64, 5).unwrap() as f64);
        let mut total = 0.0;
        for a in 0..k {
            for b in a + 1..k {
                let v = &partition.row(a) - &partition.row(b);
                let project = |i: usize| (v[a] - v[b]) * v.dot(&s.row(i));
                let of = |class: usize| -> Vec<f64> {
                    (0..60).filter(|i| y[*i] as usize == class).map(project).collect()
                };
                total += share_in_order(&of(a), &of(b));
            }
        }
        let expected = total * 2.0 / (k * (k - 1)) as f64;
        let scores = ClassScores::new(&s, &y).unwrap();
        near_named("AUC_mu", scores.auc_mu_with(partition).unwrap(), expected, ROUNDING);
        if p == 0 {
            near_named("default partition", scores.auc_mu().unwrap(), expected, ROUNDING);
        }
    }
}

#[test]
fn the_quantile_threshold_is_the_lowest_that_meets_the_rate() {
    for trial in 0..60 {
        let (s, y) = tied(70, 3 + trial % 11, SEED.named("threshold").stream(trial as u64));
        let [negatives, positives] = sides(&s, &y);
        let scores = Scores::new(&s, &y).unwrap();
        for beta in [0.0, 0.01, 0.1, 0.25, 0.5, 0.99] {
            let fpr = |t: f64| negatives.iter().filter(|s| **s > t).count() as f64 / negatives.len() as f64;
            let fnr = |t: f64| positives.iter().filter(|s| **s <= t).count() as f64 / positives.len() as f64;
            // Every threshold decides like one of the scores, or like one below all of them.
            let candidates = s.iter().copied().chain([f64::MIN]);
            let best = candidates.clone().filter(|t| fpr(*t) <= beta + 1e-9).map(fnr).fold(1.0, f64::min);
            let t = scores.threshold_at_fpr(beta).unwrap();
            assert!(fpr(t) <= beta + 1e-9, "rate {} at {beta}", fpr(t));
            assert!(negatives.iter().filter(|s| **s < t).all(|lower| fpr(*lower) > beta));
            near_named("fewest missed", fnr(t), best, 0.0);
            near_named("the crate", scores.fnr_at_fpr(beta).unwrap(), best, ROUNDING);
        }
    }
    // In f64 0.29 · 100 is 28.999999999999996; twenty-nine negatives may pass.
    let s: Vec<f64> = (0..101).map(f64::from).collect();
    let y: Vec<u8> = (0..101).map(|i| u8::from(i == 100)).collect();
    assert_eq!(Scores::new(&s, &y).unwrap().threshold_at_fpr(0.29).unwrap(), 70.0);
}

#[test]
fn the_rate_of_a_sampled_threshold_follows_the_beta_law() {
    let (negatives, beta, sets) = (200usize, 0.05, 2000usize);
    let k = 10;
    let rates: Vec<f64> = (0..sets)
        .map(|set| {
            let stream = SEED.named("beta law").stream(set as u64);
            let s: Vec<f64> = (0..=negatives).map(|i| stream.normal(i as u64)).collect();
            let y: Vec<u8> = (0..=negatives).map(|i| u8::from(i == negatives)).collect();
            1.0 - normal_cdf(Scores::new(&s, &y).unwrap().threshold_at_fpr(beta).unwrap())
        })
        .collect();
    let (a, b) = ((k + 1) as f64, (negatives - k) as f64);
    let mean = rates.iter().sum::<f64>() / sets as f64;
    let sd = (a * b / ((a + b).powi(2) * (a + b + 1.0))).sqrt();
    near_named("mean", mean, (k + 1) as f64 / (negatives + 1) as f64, 4.0 * sd / (sets as f64).sqrt());
    // The whole law: the largest distance between the two distribution functions stays below the 99.9 % point of
    // Kolmogorov and Smirnov.
    let mut sorted = rates;
    sorted.sort_by(f64::total_cmp);
    let distance = sorted.iter().enumerate().map(|(i, rate)| {
        let law = beta_cdf(*rate, a, b).unwrap();
        (law - i as f64 / sets as f64).abs().max((law - (i + 1) as f64 / sets as f64).abs())
    });
    let largest = distance.fold(0.0, f64::max);
    assert!(largest < 1.95 / (sets as f64).sqrt(), "{largest}");
}

#[test]
fn fnr_at_fpr_is_as_noisy_as_the_delta_method_says() {
    let (gap, n, sets) = (2.15, 4000usize, 400usize);
    let y: Vec<u8> = (0..n).map(|i| (i % 2) as u8).collect();
    for (beta, points) in [(0.01, 3.4), (0.10, 1.4)] {
        let z = normal_quantile(1.0 - beta).unwrap();
        let (fnr, slope) = (normal_cdf(z - gap), (gap * (z - gap / 2.0)).exp());
        let variance = (fnr * (1.0 - fnr) + slope * slope * beta * (1.0 - beta)) / (n / 2) as f64;
        let found: Vec<f64> = (0..sets)
            .map(|set| {
                let stream = SEED.named("delta").stream(set as u64);
                let s: Vec<f64> = (0..n).map(|i| stream.normal(i as u64) + gap * f64::from(y[i])).collect();
                Scores::new(&s, &y).unwrap().fnr_at_fpr(beta).unwrap()
            })
            .collect();
        let mean = found.iter().sum::<f64>() / sets as f64;
        let sd = (found.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / (sets - 1) as f64).sqrt();
        // A standard deviation from 400 sets is known to 3.5 %; three times that.
        near_named("sd", sd / variance.sqrt(), 1.0, 0.11);
        near_named("in points", 100.0 * variance.sqrt(), points, 0.1);
    }
}

#[test]
fn clopper_pearson_covers_at_least_its_level() {
    for n in [5usize, 20, 60] {
        let intervals: Vec<_> = (0..=n).map(|x| rate_interval(x, n, 0.95).unwrap()).collect();
        for step in 1..100 {
            let p = f64::from(step) / 100.0;
            let mut probability = (1.0 - p).powi(n as i32);
            let mut covered = 0.0;
            for (x, interval) in intervals.iter().enumerate() {
                if interval.low <= p && p <= interval.high {
                    covered += probability;
                }
                probability *= p / (1.0 - p) * (n - x) as f64 / (x + 1) as f64;
            }
            assert!(covered >= 0.95, "{covered} at n = {n}, p = {p}");
        }
    }
    let seven = rate_interval(7, 20, 0.95).unwrap();
    near_named("lower tail", 1.0 - beta_cdf(seven.low, 7.0, 14.0).unwrap(), 0.975, 1e-10);
    near_named("upper tail", beta_cdf(seven.high, 8.0, 13.0).unwrap(), 0.975, 1e-10);
}

/// The share of the other side that each positive beats, and that each negative is beaten by.
fn components(negatives: &[f64], positives: &[f64]) -> [Vec<f64>; 2] {
    let won = positives.iter().map(|p| share_in_order(&[*p], negatives)).collect();
    let lost = negatives.iter().map(|n| share_in_order(positives, &[*n])).collect();
    [won, lost]
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

#[test]
fn delongs_variance_is_that_of_the_shares_each_sample_wins() {
    let z = normal_quantile(0.975).unwrap();
    for trial in 0..20 {
        let seed = SEED.named("delong").stream(trial);
        let (s, y) = tied(60, 12, seed);
        let r: Vec<f64> = s.iter().enumerate().map(|(i, s)| s + seed.uniform(5000 + i as u64)).collect();
        let error = |parts: &[Vec<f64>; 2]| {
            (variance(&parts[0]) / parts[0].len() as f64 + variance(&parts[1]) / parts[1].len() as f64).sqrt()
        };
        let [negatives, positives] = sides(&s, &y);
        let first = components(&negatives, &positives);
        let scores = Scores::new(&s, &y).unwrap();
        let estimate = scores.auc_interval(0.95).unwrap();
        near_named("centre", estimate.value, scores.auc(), ROUNDING);
        // Ends beyond 0 and 1 are cut.
        near_named("low", estimate.low, (scores.auc() - z * error(&first)).max(0.0), 1e-10);
        near_named("high", estimate.high, (scores.auc() + z * error(&first)).min(1.0), 1e-10);
        let [negatives, positives] = sides(&r, &y);
        let second = components(&negatives, &positives);
        let difference: [Vec<f64>; 2] =
            std::array::from_fn(|side| first[side].iter().zip(&second[side]).map(|(a, b)| a - b).collect());
        let compared = delong(&s, &r, &y, 0.95).unwrap();
        near_named(
            "half",
            (compared.difference.high - compared.difference.low) / 2.0,
            z * error(&difference),
            1e-10,
        );
    }
}

#[test]
fn mcnemar_is_a_fair_coin_on_the_samples_that_differ() {
    for (b, c) in [(0usize, 0usize), (1, 0), (3, 9), (9, 3), (10, 10), (2, 14)] {
        let mut first = vec![true; 5];
        let mut second = vec![true; 5];
        first.extend(std::iter::repeat_n(true, b).chain(std::iter::repeat_n(false, c)));
        second.extend(std::iter::repeat_n(false, b).chain(std::iter::repeat_n(true, c)));
        let n = b + c;
        // Count all 2^n ways the coins can fall.
        let extreme = (0u32..1 << n).filter(|way| way.count_ones() as usize <= b.min(c)).count();
        let expected = (2.0 * extreme as f64 / f64::from(1u32 << n)).min(1.0);
        near_named("p", mcnemar(&first, &second).unwrap().p_value, expected, ROUNDING);
    }
}
