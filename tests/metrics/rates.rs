use super::*;

const TARGETS: [f64; 9] = [0.0, 0.01, 0.07, 0.1, 0.25, 0.5, 0.77, 0.99, 1.0];

#[test]
fn threshold_at_fpr_is_the_smallest_that_keeps_the_rate() {
    for case in 0..50 {
        let (s, y) = tied(case, 40);
        let scores = Scores::new(&s, &y).unwrap();
        let n = scores.n_negative();
        for target in TARGETS {
            let keeps = |t: f64| counts_above(&s, &y, t).1 as f64 <= target * n as f64 + 1e-9;
            let want = all_thresholds(&s).into_iter().filter(|t| keeps(*t)).fold(f64::INFINITY, f64::min);
            let t = scores.threshold_at_fpr(target).unwrap();
            // Several thresholds may decide alike; the one returned decides as the smallest, and is a negative score.
            assert_eq!(
                counts_above(&s, &y, t).1,
                counts_above(&s, &y, want).1,
                "case {case}, target {target}"
            );
            assert!(t == f64::NEG_INFINITY || of_class(&s, &y, 0).contains(&t));
            let tp = counts_above(&s, &y, t).0 as f64;
            let m = scores.n_positive() as f64;
            assert_eq!(scores.fnr_at_fpr(target).unwrap(), (m - tp) / m);
            assert_eq!(scores.tpr_at_fpr(target).unwrap(), tp / m);
        }
    }
}

#[test]
fn threshold_at_fpr_follows_the_rule_of_order_statistics() {
    // 100 negatives 1..=100: 0.07 · 100 is 7.000000000000001 in f64 and 0.29 · 100 is 28.999999999999996.
    let s: Vec<f64> = (1..=101).map(f64::from).collect();
    let y: Vec<u8> = (1..=101).map(|i| u8::from(i == 101)).collect();
    let scores = Scores::new(s, y).unwrap();
    for (target, want) in
        [(0.0, 100.0), (0.005, 100.0), (0.01, 99.0), (0.07, 93.0), (0.29, 71.0), (1.0, f64::NEG_INFINITY)]
    {
        assert_eq!(scores.threshold_at_fpr(target).unwrap(), want, "target {target}");
    }
}

#[test]
fn fpr_at_tpr_is_the_smallest_that_reaches_the_rate() {
    for case in 0..50 {
        let (s, y) = tied(case, 40);
        let scores = Scores::new(&s, &y).unwrap();
        let m = scores.n_positive() as f64;
        for target in TARGETS {
            let reaches = |t: f64| counts_above(&s, &y, t).0 as f64 >= target * m - 1e-9;
            let best =
                all_thresholds(&s).into_iter().filter(|t| reaches(*t)).fold(f64::NEG_INFINITY, f64::max);
            assert_eq!(scores.threshold_at_tpr(target).unwrap(), best, "case {case}, target {target}");
            let want = counts_above(&s, &y, best).1 as f64 / scores.n_negative() as f64;
            assert_eq!(scores.fpr_at_tpr(target).unwrap(), want);
        }
    }
}

#[test]
fn a_rate_asks_for_the_whole_number_of_positives_it_names() {
    // 100 positives 1..=100: 0.07 · 100 is 7.000000000000001 in f64, and still means seven.
    let s: Vec<f64> = (0..=100).map(f64::from).collect();
    let y: Vec<u8> = (0..=100).map(|i| u8::from(i > 0)).collect();
    let scores = Scores::new(s, y).unwrap();
    for (target, want) in [(0.07, 93.0), (0.29, 71.0), (0.0, 100.0), (1.0, 0.0)] {
        assert_eq!(scores.threshold_at_tpr(target).unwrap(), want, "target {target}");
    }
}

#[test]
fn population_fpr_of_the_threshold_has_the_beta_law() {
    // Uniform negatives: the population rate above t is 1 − t. 4000 thresholds from 200 negatives at 1 %: k = 2.
    let (runs, n, k) = (4000, 200, 2.0);
    let mut rates: Vec<f64> = (0..runs)
        .map(|run| {
            let seed = SEED.named("beta law").stream(run);
            let mut s: Vec<f64> = (0..n).map(|c| seed.uniform(c)).collect();
            let mut y = vec![0; s.len()];
            s.push(0.5);
            y.push(1);
            1.0 - Scores::new(s, y).unwrap().threshold_at_fpr(0.01).unwrap()
        })
        .collect();
    let (a, b) = (k + 1.0, n as f64 - k);
    let mean = rates.iter().sum::<f64>() / runs as f64;
    let se = (a * b / (a + b + 1.0)).sqrt() / (a + b) / (runs as f64).sqrt();
    assert!((mean - a / (a + b)).abs() < STANDARD_ERRORS * se, "mean {mean}");
    // Kolmogorov's distance exceeds 2.2/√n once in 8000.
    rates.sort_by(f64::total_cmp);
    let distance = rates.iter().enumerate().map(|(i, rate)| {
        (distribution::beta_cdf(*rate, a, b).unwrap() - (i as f64 + 0.5) / runs as f64).abs()
    });
    let largest = distance.fold(0.0, f64::max);
    assert!(largest < 2.2 / (runs as f64).sqrt(), "distance {largest}");
}

#[test]
fn rates_outside_zero_to_one_are_refused() {
    let scores = Scores::new([1.0, 2.0], [0, 1]).unwrap();
    for bad in [f64::NAN, -1e-9, 1.0 + 1e-9, 5.0, f64::INFINITY] {
        assert_config(vec![
            scores.threshold_at_fpr(bad),
            scores.threshold_at_tpr(bad),
            scores.fnr_at_fpr(bad),
            scores.tpr_at_fpr(bad),
            scores.fpr_at_tpr(bad),
        ]);
    }
}
