//! The equations of the chapter on noise.

use lastlayer::adversary::{expected_minimum, minimum_p};
use lastlayer::distribution::{fair_coin_two_sided, normal_cdf, normal_quantile};
use lastlayer::metrics::mcnemar;
use lastlayer::seed::Seed;

use super::paper::{CELEBA, TABLE_3, TABLE_4, counting_error};
use super::transfer::Study;

#[test]
fn the_smallest_of_many_normal_numbers_has_these_means() {
    // Closed forms for 2, 3 and 5.
    let pi = std::f64::consts::PI;
    let five = 5.0 / (4.0 * pi.sqrt()) + 15.0 / (2.0 * pi.powf(1.5)) * f64::asin(1.0 / 3.0);
    for (m, closed) in [(1, 0.0), (2, 1.0 / pi.sqrt()), (3, 1.5 / pi.sqrt()), (5, five)] {
        assert!((expected_minimum(m).unwrap() + closed).abs() < 1e-12, "{m}");
    }
    for (m, printed) in [(5, -1.163), (7, -1.352), (15, -1.736), (38, -2.14), (39, -2.15)] {
        let found = expected_minimum(m).unwrap();
        // Half a unit of the last digit printed here.
        assert!((found - printed).abs() < if m > 20 { 0.005 } else { 5e-4 }, "{m}: {found}");
    }
    assert!((expected_minimum(1000).unwrap() + 3.2414).abs() < 5e-5);
    assert!(expected_minimum(0).is_err());
}

/// Cells of a printed row without the single task and without partner 7, in hundredths of a point.
fn cells(a: usize, row: &[f64]) -> Vec<f64> {
    let hundredths = |v: f64| (100.0 * v).round();
    let (partner, alone, with, _) = TABLE_3[a - 1];
    let seventh = if partner == 7 && row.contains(&with) { with } else { row[6] };
    let mut cells: Vec<f64> =
        row.iter().map(|v| if *v == 91.13 { 93.13 } else { *v }).map(hundredths).collect();
    for out in [alone, seventh] {
        let at = cells.iter().position(|v| *v == hundredths(out)).unwrap();
        cells.remove(at);
    }
    cells
}

/// Mean, standard deviation and minimum.
fn summary(values: &[f64]) -> (f64, f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    (mean, deviation, values.iter().copied().fold(f64::INFINITY, f64::min))
}

#[test]
fn the_worst_partners_of_ten_printed_rows_are_as_low_as_noise() {
    let printed = [-1.35, -2.52, -2.60, -2.43, -2.46, -2.11, -1.53, -2.56, -1.76, -2.14];
    let (mut sum, mut shift) = (0.0, 0.0);
    for ((a, row), printed) in TABLE_4.iter().zip(printed) {
        let (mean, deviation, least) = summary(&cells(*a, row));
        let standardised = (least - mean) / deviation;
        assert!((standardised - printed).abs() < 0.0051, "{a}: {standardised}");
        assert!((3.5..13.5).contains(&deviation), "{a}: {deviation}");
        sum += standardised / 10.0;
        shift += (mean / 100.0 - TABLE_3[a - 1].1) / 10.0;
    }
    assert!((sum + 2.15).abs() < 0.005, "{sum}");
    assert!(shift.abs() < 5e-4, "{shift}");
    // By its own mean and deviation the minimum of 38 is a little lower than by the true ones: E s = c σ, c = 0.9933.
    let c = (2.0f64 / 37.0).sqrt() * (log_gamma(19.0) - log_gamma(18.5)).exp();
    assert!((c - 0.9933).abs() < 5e-5);
    let expected = expected_minimum(38).unwrap() / c;
    assert!((expected + 2.15).abs() < 0.01, "{expected}");
    assert!((sum - expected).abs() < 0.02);
}

/// log Γ by Stirling's series, good to 1e-10 at 18.
fn log_gamma(z: f64) -> f64 {
    let r = 1.0 / (z * z);
    let series = (1.0 / 12.0 - r * (1.0 / 360.0 - r / 1260.0)) / z;
    (z - 0.5) * z.ln() - z + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[test]
fn the_best_of_five_tries_gains_this_much_from_nothing() {
    let best = -expected_minimum(5).unwrap();
    assert!((0.06 * best - 0.07).abs() < 5e-3 && (0.13 * best - 0.15).abs() < 5e-3);
    // Simulated: the better of the same thing five times, less one more.
    let gain = |k: u64| (0..5).map(|c| Seed::new(k).normal(c)).fold(f64::NEG_INFINITY, f64::max);
    let mean = (0..20_000).map(gain).sum::<f64>() / 20_000.0;
    // Standard error 0.005.
    assert!((mean - best).abs() < 0.02, "{mean}");
}

#[test]
fn an_accuracy_counted_on_19867_images_has_this_error() {
    for (accuracy, error) in [(92.33, 0.189), (76.66, 0.300), (99.69, 0.039)] {
        assert!((counting_error(accuracy, CELEBA) - error).abs() < 5e-4);
    }
}

#[test]
fn partners_below_a_shared_single_run_are_uniform_in_number() {
    // Eight exchangeable numbers: the rank of the first is uniform.
    let mut counts = [0usize; 8];
    for k in 0..40_000 {
        let seed = Seed::new(k);
        counts[(1..8).filter(|b| seed.normal(*b) < seed.normal(0)).count()] += 1;
    }
    // Standard error 66.
    assert!(counts.iter().all(|c| c.abs_diff(5000) < 250), "{counts:?}");
}

#[test]
fn each_pair_at_five_per_cent_marks_78_of_1560_by_chance() {
    // No effect anywhere, each pair at 5 %: 78 of 1560 marks, and at least one among 39 partners in 86 % of rows.
    assert!((0.05 * 1560.0 - 78.0f64).abs() < 1e-9);
    assert!((minimum_p(0.05, 39).unwrap() - 0.865).abs() < 5e-4);
    // What a partner must show to pass at 5 % among 7, 15 and 39, in standard errors.
    for (m, needed) in [(1, 1.645), (7, 2.442), (15, 2.705), (39, 3.008)] {
        let found = -normal_quantile(1.0 - 0.95f64.powf(1.0 / f64::from(m))).unwrap();
        assert!((found - needed).abs() < 5e-4, "{m}: {found}");
    }
}

#[test]
fn single_runs_should_outnumber_pair_seeds_by_the_root_of_half_the_partners() {
    // Least 1/S + 1/S_a for a cost of m S / 2 + S_a per attribute.
    for m in [7.0, 15.0, 39.0] {
        let budget = 1000.0;
        let variance = |ratio: f64| {
            let seeds = budget / (m / 2.0 + ratio);
            1.0 / seeds + 1.0 / (ratio * seeds)
        };
        let best =
            (1..2000).map(|i| 0.005 * f64::from(i)).min_by(|x, y| variance(*x).total_cmp(&variance(*y)));
        assert!((best.unwrap() - f64::sqrt(m / 2.0)).abs() < 0.005, "{m}: {best:?}");
    }
}

#[test]
fn a_known_spread_would_find_two_deviations_with_this_chance() {
    let cut = -normal_quantile(1.0 - 0.95f64.powf(1.0 / 7.0)).unwrap();
    for (singles, chance) in [(5.0, 0.764), (10.0, 0.887)] {
        let error = f64::sqrt(1.0 / 5.0 + 1.0 / singles);
        let found = normal_cdf(2.0 / error - cut);
        assert!((found - chance).abs() < 5e-4, "{singles}: {found}");
    }
}

#[test]
fn the_sound_search_costs_this_many_trainings() {
    let (pairs, singles) = (40 * 39 / 2, 40);
    assert_eq!(pairs + singles, 820);
    // And five strengths of reversal for each attribute.
    assert_eq!(pairs + singles + 5 * 40, 1020);
    assert_eq!(5 * pairs + 20 * singles, 4700);
    // Twenty of them: four times the five seeds of a pair, as √(39 / 2) asks for.
    assert!((f64::sqrt(39.0 / 2.0) - 4.4).abs() < 0.05);
}

#[test]
fn thirteen_hundredths_of_a_point_are_26_images_and_prove_nothing_by_themselves() {
    assert!((0.0013 * CELEBA - 26.0).abs() < 0.5);
    // 313 images that only the second model gets right, 287 that only the first does.
    let first: Vec<u8> = (0..19_867).map(|i| u8::from(i >= 313)).collect();
    let second: Vec<u8> = (0..19_867).map(|i| u8::from(!(313..600).contains(&i))).collect();
    let test = mcnemar(&first, &second).unwrap();
    assert_eq!((test.only_first, test.only_second), (287, 313));
    assert!((test.p_value - 0.307).abs() < 5e-4, "{}", test.p_value);
    assert_eq!(test.p_value, fair_coin_two_sided(287, 600).unwrap());
}

#[test]
fn the_noise_of_a_difference_is_that_of_two_runs_less_what_they_share() {
    // Twenty attributes with 20 % and 80 % of the variance in the seed: √(2 (1 − share)) times σ.
    for common in [0.2, 0.8] {
        let study = Study { attributes: 20, pair_seeds: 6, single_seeds: 6, common, planted: 0.0 };
        let transfer = study.measure(Seed::new(9));
        let ratio = transfer.noise_of_difference().unwrap() / super::transfer::SIGMA;
        assert!((ratio - f64::sqrt(2.0 * (1.0 - common))).abs() < 0.06, "{common}: {ratio}");
        assert!((transfer.shared_luck().unwrap() - common).abs() < 0.1);
    }
}
