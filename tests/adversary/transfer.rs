//! Measured negative transfer: effects, noise, and the search under the null and with a planted harm.

use lastlayer::adversary::{Transfer, benjamini_hochberg, holm, minimum_p};
use lastlayer::distribution::{normal_density, student_cdf};
use lastlayer::metrics::paired;
use lastlayer::seed::Seed;

use super::message;

/// Sums of a few numbers of size one.
const ROUNDING: f64 = 1e-12;

/// What is simulated: M attributes of accuracy 0.9, runs that vary by `SIGMA`.
pub struct Study {
    pub attributes: usize,
    pub pair_seeds: u64,
    pub single_seeds: u64,
    /// Share of the variance of a run that belongs to its seed, and is common to all runs of an attribute with it.
    pub common: f64,
    /// Change of attribute 0 when trained with attribute 1, in standard deviations of a run.
    pub planted: f64,
}

pub const SIGMA: f64 = 0.004;

impl Study {
    /// Eight attributes, five seeds per pair, as many single runs as given.
    pub fn eight(single_seeds: u64, planted: f64) -> Study {
        Study { attributes: 8, pair_seeds: 5, single_seeds, common: 0.0, planted }
    }

    /// One measured matrix. `scale` multiplies the noise of an attribute.
    pub fn scaled(&self, seed: Seed, scale: impl Fn(usize) -> f64) -> Transfer {
        let mut names = Vec::new();
        names.extend((0..self.attributes).map(|a| format!("attribute {a}")));
        let mut transfer = Transfer::new(&names).unwrap();
        let run = |a: usize, partner: usize, s: u64| {
            let own = seed.stream(1 + (a * self.attributes + partner) as u64).normal(s);
            let luck = seed.stream(1_000_000 + a as u64).normal(s);
            let change = if (a, partner) == (0, 1) { self.planted } else { 0.0 };
            let deviation = self.common.sqrt() * luck + (1.0 - self.common).sqrt() * own + change;
            0.9 + SIGMA * scale(a) * deviation
        };
        for a in 0..self.attributes {
            (0..self.single_seeds).for_each(|s| transfer.single(a, s, run(a, a, s)).unwrap());
            for b in a + 1..self.attributes {
                (0..self.pair_seeds)
                    .for_each(|s| transfer.pair(a, b, s, run(a, b, s), run(b, a, s)).unwrap());
            }
        }
        transfer
    }

    pub fn measure(&self, seed: Seed) -> Transfer {
        self.scaled(seed, |_| 1.0)
    }
}

/// Share of attributes that get a partner at 5 %, over so many matrices.
fn flagged(study: &Study, matrices: u64, scale: impl Fn(usize) -> f64) -> f64 {
    let found = |k: u64| {
        let partners = study.scaled(Seed::new(k), &scale).candidates().unwrap();
        partners.iter().filter(|p| p.p_value <= 0.05).count()
    };
    (0..matrices).map(found).sum::<usize>() as f64 / (matrices * study.attributes as u64) as f64
}

/// Share of matrices in which the planted partner is found at 5 %.
fn power(study: &Study, matrices: u64) -> f64 {
    let found = |k: &u64| {
        let worst = study.measure(Seed::new(7_000 + k)).worst(0, 0.05).unwrap();
        worst.is_some_and(|partner| partner.partner == 1)
    };
    (0..matrices).filter(found).count() as f64 / matrices as f64
}

#[test]
fn exchangeable_attributes_get_a_naive_partner_seven_times_in_eight() {
    // The single run must be the lowest of 8 exchangeable means for there to be none.
    let (mut attributes, mut pairs) = (0, 0);
    for k in 0..200 {
        let transfer = Study::eight(5, 0.0).measure(Seed::new(k));
        attributes += (0..8).filter(|a| transfer.naive_worst(*a).unwrap().is_some()).count();
        pairs += transfer.naive_negative().len();
    }
    // Standard errors: 0.8 points for 1600 attributes; 1.0 for the pairs, which are uniform on 0 to 7 in each row.
    let (attributes, pairs) = (attributes as f64 / 1600.0, pairs as f64 / 11_200.0);
    assert!((attributes - 7.0 / 8.0).abs() < 0.025, "{attributes}");
    assert!((pairs - 0.5).abs() < 0.03, "{pairs}");
}

#[test]
fn with_a_single_run_for_each_pair_the_naive_rule_misses_one_attribute_in_128() {
    // Differences that share nothing are 7 fair coins.
    let found = |k: u64| {
        let seed = Seed::new(k);
        let difference = |b: u64| seed.normal(2 * b) - seed.normal(2 * b + 1);
        (0..7).map(difference).fold(f64::INFINITY, f64::min) < 0.0
    };
    let rate = (0..20_000).filter(|k| found(*k)).count() as f64 / 20_000.0;
    // Standard error 0.06 points.
    assert!((rate - (1.0 - 1.0 / 128.0)).abs() < 0.002, "{rate}");
}

#[test]
fn the_corrected_search_flags_at_most_one_attribute_in_twenty_under_the_null() {
    let even = flagged(&Study::eight(10, 0.0), 200, |_| 1.0);
    assert!((0.03..=0.05).contains(&even), "{even}");
    let few = flagged(&Study::eight(5, 0.0), 200, |_| 1.0);
    assert!((0.03..=0.05).contains(&few), "{few}");
    // Seeds that all runs of an attribute share.
    let paired = flagged(&Study { common: 0.5, ..Study::eight(10, 0.0) }, 200, |_| 1.0);
    assert!((0.03..=0.05).contains(&paired), "{paired}");
    // Attributes of unequal noise: the spread is pooled within a row only.
    let uneven = flagged(&Study::eight(10, 0.0), 200, |a| 0.25 * (a + 1) as f64);
    assert!((0.03..=0.05).contains(&uneven), "{uneven}");
}

#[test]
fn the_corrected_search_finds_a_harm_of_two_deviations_with_five_seeds() {
    // Standard error 0.8 points.
    let found = power(&Study::eight(10, -2.0), 2000);
    assert!((found - 0.86).abs() < 0.025 && found > 0.80, "{found}");
}

#[test]
fn without_extra_single_runs_it_finds_two_in_three() {
    // Standard error 1.1 points.
    let found = power(&Study::eight(5, -2.0), 2000);
    assert!((found - 0.66).abs() < 0.03, "{found}");
}

#[test]
fn five_numbers_judged_by_their_own_spread_find_little() {
    // Every pair by its own t test with 4 degrees of freedom, then Benjamini and Hochberg at 10 % over all 56; and the same
    // with the pooled spread. Standard errors: 1.6 and 2.0 points.
    let pairs: Vec<(usize, usize)> =
        (0..8).flat_map(|a| (0..8).filter(move |b| *b != a).map(move |b| (a, b))).collect();
    let (mut own, mut pooled) = (0, 0);
    for k in 0..500 {
        let transfer = Study::eight(10, -2.0).measure(Seed::new(7_000 + k));
        let p: Vec<f64> =
            pairs.iter().map(|(a, b)| transfer.difference(*a, *b).unwrap().p_negative).collect();
        // The first of the pairs is the planted one.
        own += usize::from(benjamini_hochberg(&p, 0.1).unwrap()[0]);
        pooled += usize::from(transfer.significant(0.1).unwrap()[(0, 1)]);
    }
    let (own, pooled) = (own as f64 / 500.0, pooled as f64 / 500.0);
    assert!((own - 0.16).abs() < 0.05, "{own}");
    assert!((pooled - 0.71).abs() < 0.06, "{pooled}");
}

#[test]
fn a_paired_difference_is_that_of_the_comparison_of_methods() {
    let transfer = Study::eight(5, -1.0).measure(Seed::new(3));
    let effect = transfer.difference(0, 1).unwrap();
    // The same draws as in the study.
    let draw = |stream: u64| (0..5).map(move |s| Seed::new(3).stream(stream).normal(s));
    let alone: Vec<f64> = draw(1).map(|x| 0.9 + SIGMA * x).collect();
    let with: Vec<f64> = draw(2).map(|x| 0.9 + SIGMA * (x - 1.0)).collect();
    let other = paired(&with, &alone, 0.95).unwrap();
    assert!((effect.mean - other.difference.value).abs() < ROUNDING);
    assert!((effect.interval.low - other.difference.low).abs() < ROUNDING);
    assert!((effect.p_two_sided - other.p_value).abs() < 1e-9);
    assert!(
        (effect.p_negative - student_cdf(effect.mean / effect.standard_error, 4.0).unwrap()).abs() < ROUNDING
    );
}

/// Two attributes, seeds 0 to 2 together, and more runs of the first alone.
fn small(extra: &[f64]) -> Transfer {
    let mut transfer = Transfer::new(&["a", "b"]).unwrap();
    for (s, (alone, with)) in [(0.80, 0.79), (0.84, 0.80), (0.82, 0.81)].into_iter().enumerate() {
        transfer.single(0, s as u64, alone).unwrap();
        transfer.single(1, s as u64, 0.70 + 0.01 * s as f64).unwrap();
        transfer.pair(0, 1, s as u64, with, 0.70 + 0.005 * s as f64).unwrap();
    }
    extra.iter().enumerate().for_each(|(s, x)| transfer.single(0, 100 + s as u64, *x).unwrap());
    transfer
}

#[test]
fn with_equal_seeds_pooling_leaves_the_mean_difference() {
    let transfer = small(&[]);
    let (own, pooled) = (transfer.difference(0, 1).unwrap(), transfer.pooled(0, 1).unwrap());
    assert!((own.mean - pooled.mean).abs() < ROUNDING && (own.mean + 0.02).abs() < ROUNDING);
    let transfer = Study::eight(5, -1.0).measure(Seed::new(5));
    let matrix = transfer.matrix();
    assert!((transfer.pooled(2, 6).unwrap().mean - matrix[(2, 6)]).abs() < ROUNDING);
}

#[test]
fn extra_single_runs_enter_with_the_share_that_the_seeds_do_not_explain() {
    let transfer = small(&[0.90, 0.86]);
    let beta = transfer.shared_luck().unwrap();
    // By hand: products 0.0002 and 0.0001, squares 0.0008 and 0.0002, of a and of b.
    assert!((beta - 0.3).abs() < 1e-9, "{beta}");
    let (with, paired_mean, all) = (0.80, 0.82, 0.844);
    let effect = transfer.pooled(0, 1).unwrap();
    assert!((effect.mean - (with - all - beta * (paired_mean - all))).abs() < ROUNDING);
    // The rest, with − 0.3 alone, is 0.550, 0.548, 0.564: squares 0.000152 around its mean, 2 degrees of freedom, 3 seeds.
    let squares: f64 = [0.80f64, 0.84, 0.82, 0.90, 0.86].iter().map(|x| (x - all).powi(2)).sum();
    let parts = [(0.000_152 / 2.0 / 3.0, 2.0), (0.49 * squares / 4.0 / 5.0, 4.0)];
    let variance = parts[0].0 + parts[1].0;
    assert!((effect.standard_error - variance.sqrt()).abs() < 1e-9, "{}", effect.standard_error);
    let dof = variance.powi(2) / parts.iter().map(|(v, d)| v * v / d).sum::<f64>();
    assert!((effect.dof - dof).abs() < 1e-6);
}

#[test]
fn the_model_gives_back_its_three_numbers() {
    // 40 attributes with 7 seeds each; luck shared by half: β = ½, var of a difference = 2 σ² (1 − ½).
    let study = Study { attributes: 40, pair_seeds: 7, single_seeds: 7, common: 0.5, planted: 0.0 };
    let transfer = study.measure(Seed::new(11));
    assert!((transfer.noise().unwrap() / SIGMA - 1.0).abs() < 0.1);
    assert!((transfer.noise_of_difference().unwrap() / SIGMA - 1.0).abs() < 0.1);
    assert!((transfer.shared_luck().unwrap() - 0.5).abs() < 0.1);
}

#[test]
fn the_error_of_pooled_effects_is_what_they_say() {
    // Mean of squared t over many matrices, without effects: dof / (dof − 2), with about 30 degrees of freedom.
    let study = Study::eight(10, 0.0);
    let squares = (0..100).map(|k| {
        let effect = study.measure(Seed::new(k)).pooled(3, 4).unwrap();
        assert!((15.0..40.0).contains(&effect.dof), "{}", effect.dof);
        (effect.mean / (SIGMA * f64::sqrt(1.0 / 5.0 + 1.0 / 10.0))).powi(2)
    });
    // Standard error of a mean of 100 squares of normal numbers: √2 / 10.
    let mean = squares.sum::<f64>() / 100.0;
    assert!((mean - 1.0).abs() < 3.0 * 0.1414, "{mean}");
}

#[test]
fn the_worst_of_an_attribute_is_its_candidate_if_it_passes() {
    let transfer = Study::eight(10, -3.0).measure(Seed::new(1));
    for candidate in transfer.candidates().unwrap() {
        let kept = (candidate.p_value <= 0.05).then_some(candidate.clone());
        assert_eq!(transfer.worst(candidate.attribute, 0.05).unwrap(), kept);
        assert_eq!(candidate.candidates, 7);
        assert!((candidate.p_value - minimum_p(candidate.effect.p_negative, 7).unwrap()).abs() < ROUNDING);
    }
    let partner = transfer.worst(0, 0.05).unwrap().unwrap();
    assert_eq!((partner.partner, &partner.names[1][..]), (1, "attribute 1"));
    assert!(partner.effect.mean < partner.shrunken && partner.shrunken < 0.0);
    assert!(transfer.partners(0.1).unwrap().iter().any(|p| (p.attribute, p.partner) == (0, 1)));
}

#[test]
fn an_attribute_whom_no_partner_harms_has_none() {
    let mut transfer = Transfer::new(&["a", "b", "c"]).unwrap();
    for s in 0..2 {
        (0..3).for_each(|a| transfer.single(a, s, 0.8 + 0.01 * s as f64).unwrap());
        transfer.pair(0, 1, s, 0.85 + 0.02 * s as f64, 0.7).unwrap();
        transfer.pair(0, 2, s, 0.84, 0.7 + 0.01 * s as f64).unwrap();
        transfer.pair(1, 2, s, 0.8, 0.8).unwrap();
    }
    assert_eq!(transfer.naive_worst(0).unwrap(), None);
    assert_eq!(transfer.worst(0, 0.05).unwrap(), None);
    assert!(!transfer.naive_negative().iter().any(|(a, _)| *a == 0));
}

#[test]
fn a_pair_and_its_reverse_are_one_run() {
    let mut transfer = Transfer::new(&["a", "b"]).unwrap();
    transfer.pair(0, 1, 4, 0.8, 0.6).unwrap();
    transfer.pair(1, 0, 4, 0.6, 0.8).unwrap();
    assert!(message(transfer.pair(1, 0, 4, 0.8, 0.6)).contains("one value per seed"));
    transfer.single(0, 4, 0.9).unwrap();
    transfer.single(1, 4, 0.5).unwrap();
    let matrix = transfer.matrix();
    assert!((matrix[(0, 1)] + 0.1).abs() < ROUNDING && (matrix[(1, 0)] - 0.1).abs() < ROUNDING);
    assert!(matrix[(0, 0)].is_nan() && matrix[(1, 1)].is_nan());
}

#[test]
fn one_attribute_has_no_pairs() {
    let mut transfer = Transfer::new(&["a"]).unwrap();
    (0..3).for_each(|s| transfer.single(0, s, 0.5 + 0.1 * s as f64).unwrap());
    assert_eq!(transfer.naive_worst(0).unwrap(), None);
    assert_eq!(transfer.worst(0, 0.05).unwrap(), None);
    assert!(transfer.naive_negative().is_empty() && transfer.candidates().unwrap().is_empty());
    assert!(transfer.partners(0.1).unwrap().is_empty());
    assert_eq!(transfer.significant(0.1).unwrap().dim(), (1, 1));
    assert_eq!(transfer.table(0.1).unwrap().rows().len(), 0);
    assert!((transfer.noise().unwrap() - 0.1).abs() < ROUNDING);
}

#[test]
fn bad_input_is_refused_with_a_reason_and_changes_nothing() {
    let mut transfer = Transfer::new(&["a", "b"]).unwrap();
    transfer.single(0, 0, 0.5).unwrap();
    let before = transfer.clone();
    assert!(message(transfer.single(2, 0, 0.5)).contains("0 to 1"));
    assert!(message(transfer.single(0, 0, 0.6)).contains("seed 0"));
    assert!(message(transfer.single(0, 1, 92.3)).contains("0.923"));
    assert!(message(transfer.single(0, 1, f64::NAN)).contains("NaN"));
    assert!(message(transfer.pair(1, 1, 0, 0.5, 0.5)).contains("itself"));
    assert!(message(transfer.pair(0, 2, 0, 0.5, 0.5)).contains("attribute is 2"));
    assert!(message(transfer.pair(0, 1, 0, 0.5, -0.1)).contains("-0.1"));
    assert_eq!(transfer, before);
    transfer.single(0, 0, 0.5).unwrap();
    transfer.pair(0, 1, 0, 0.4, 0.5).unwrap();
    assert!(message(transfer.difference(0, 1)).contains("at least 2"));
    assert!(message(transfer.pooled(0, 1)).contains("at least 2"));
    assert!(message(transfer.noise()).contains("at least 2"));
    assert!(message(transfer.worst(0, 0.0)).contains("strictly between"));
    assert!(message(transfer.worst(5, 0.05)).contains("0 to 1"));
    assert!(message(Transfer::new::<&str>(&[])).contains("at least one"));
    // The same change in every seed has no spread to be judged by.
    transfer.single(0, 1, 0.5).unwrap();
    transfer.pair(0, 1, 1, 0.4, 0.5).unwrap();
    assert!(message(transfer.difference(0, 1)).contains("vary"));
}

#[test]
fn the_step_up_rule_is_its_definition() {
    let p: Vec<f64> = (0..40).map(|i| Seed::new(2).uniform(i).powi(3)).collect();
    for q in [0.05, 0.1, 0.5] {
        let found = benjamini_hochberg(&p, q).unwrap();
        let below = |cut: f64| p.iter().filter(|p| **p <= cut).count();
        // The largest cut among the p-values that is at most q times the share below it.
        let passes = |cut: &f64| *cut <= q * below(*cut) as f64 / 40.0;
        let cut = p.iter().copied().filter(passes).fold(-1.0, f64::max);
        assert_eq!(found, p.iter().map(|p| *p <= cut).collect::<Vec<bool>>());
        assert!(found.contains(&true) && found.contains(&false));
    }
    // The third fails for itself and passes because the fourth does.
    assert_eq!(benjamini_hochberg(&[0.01, 0.02, 0.09, 0.1], 0.1).unwrap(), [true; 4]);
    assert_eq!(holm(&[0.01, 0.02, 0.09, 0.1], 0.1).unwrap(), [true, true, false, false]);
}

#[test]
fn holm_stops_at_the_first_that_fails() {
    // 0.0125, 0.0167, 0.025, 0.05 at 5 %.
    assert_eq!(holm(&[0.04, 0.012, 0.03, 0.016], 0.05).unwrap(), [false, true, false, true]);
    assert_eq!(holm(&[0.013, 0.001, 0.5, 0.018], 0.05).unwrap(), [true, true, false, true]);
    assert_eq!(holm(&[], 0.05).unwrap(), Vec::<bool>::new());
}

#[test]
fn p_values_that_are_none_are_refused() {
    for bad in [f64::NAN, -0.1, 1.1] {
        assert!(message(benjamini_hochberg(&[0.5, bad], 0.1)).contains("index 1"));
        assert!(message(holm(&[bad], 0.1)).contains("index 0"));
        assert!(minimum_p(bad, 3).is_err());
    }
    assert!(benjamini_hochberg(&[0.5], 0.0).is_err() && holm(&[0.5], 1.0).is_err());
    assert!(minimum_p(0.5, 0).is_err());
}

#[test]
fn the_chance_of_the_minimum_is_exact_for_independent_tests_and_safe_for_a_shared_baseline() {
    assert!((minimum_p(0.05, 15).unwrap() - (1.0 - 0.95f64.powi(15))).abs() < ROUNDING);
    assert!((minimum_p(1e-20, 15).unwrap() / 15e-20 - 1.0).abs() < ROUNDING);
    assert_eq!((minimum_p(0.0, 3).unwrap(), minimum_p(1.0, 3).unwrap()), (0.0, 1.0));
    // Seven normal differences from one baseline, as many runs of it: correlation one half.
    let cut = lastlayer::distribution::normal_quantile(1.0 - 0.95f64.powf(1.0 / 7.0)).unwrap();
    let least = |k: u64, shared: f64| {
        let seed = Seed::new(k);
        let own = (1..8).map(|b| seed.normal(b)).fold(f64::INFINITY, f64::min);
        (1.0 - shared).sqrt() * own - shared.sqrt() * seed.normal(0)
    };
    let rate = |shared: f64| (0..40_000).filter(|k| least(*k, shared) <= cut).count() as f64 / 40_000.0;
    // Standard error 0.11 points.
    assert!((rate(0.0) - 0.05).abs() < 0.004, "{}", rate(0.0));
    assert!((rate(0.5) - 0.04).abs() < 0.004, "{}", rate(0.5));
}

#[test]
fn shrunken_effects_are_posterior_means() {
    let transfer = Study::eight(10, -6.0).measure(Seed::new(4));
    let shrunken = transfer.shrunken().unwrap();
    let (mut squares, mut count) = (0.0, 0.0);
    for a in 0..8 {
        for b in (0..8).filter(|b| *b != a) {
            let effect = transfer.pooled(a, b).unwrap();
            squares += effect.mean.powi(2) - effect.standard_error.powi(2);
            count += 1.0;
        }
    }
    let tau = f64::sqrt(squares / count);
    assert!(tau > 0.0);
    // ∫ δ N(δ̂; δ, SE²) N(δ; 0, τ²) dδ / ∫ N N dδ, by the trapezoidal rule over ±12 τ.
    let effect = transfer.pooled(0, 1).unwrap();
    let weight = |delta: f64| {
        normal_density((effect.mean - delta) / effect.standard_error) * normal_density(delta / tau)
    };
    let at = |i: i32| 12.0 * tau * f64::from(i) / 4000.0;
    let mass: f64 = (-4000..=4000).map(|i| weight(at(i))).sum();
    let mean = (-4000..=4000).map(|i| at(i) * weight(at(i))).sum::<f64>() / mass;
    assert!((shrunken[(0, 1)] - mean).abs() < 1e-9, "{} {mean}", shrunken[(0, 1)]);
    // Equal standard errors keep the order within a row.
    let order = |row: Vec<f64>| {
        let mut order: Vec<usize> = (1..8).collect();
        order.sort_by(|x, y| row[*x].total_cmp(&row[*y]));
        order
    };
    let means: Vec<f64> =
        (0..8).map(|b| if b == 0 { f64::NAN } else { transfer.pooled(0, b).unwrap().mean }).collect();
    assert_eq!(order(means), order(shrunken.row(0).to_vec()));
}

#[test]
fn effects_no_larger_than_their_errors_shrink_to_nothing() {
    let less = |k: &u64| {
        let transfer = Study::eight(10, 0.0).measure(Seed::new(*k));
        transfer.shrunken().unwrap().iter().filter(|d| !d.is_nan()).all(|d| *d == 0.0)
    };
    // The excess of the mean square has mean zero: about half of all matrices.
    let share = (0..100).filter(less).count();
    assert!((30..=80).contains(&share), "{share}");
}

#[test]
fn the_table_has_a_row_for_each_directed_pair_and_marks_the_planted_one() {
    let transfer = Study::eight(10, -6.0).measure(Seed::new(6));
    let table = transfer.table(0.1).unwrap();
    assert_eq!((table.rows().len(), table.columns().len()), (56, 6));
    let marks = transfer.significant(0.1).unwrap();
    assert!(marks[(0, 1)] && !marks[(1, 0)]);
    let marked = table.rows().iter().filter(|row| row[5].text() == "yes").count();
    assert_eq!(marked, marks.iter().filter(|m| **m).count());
    assert_eq!(table.rows()[0][5].text(), "yes");
}
