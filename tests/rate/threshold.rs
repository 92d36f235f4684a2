//! The threshold of a share: smooth and hard.

use lastlayer::error::Error;
use lastlayer::rate::{hard_threshold, smooth_threshold};

use super::{SEED, random};

fn share(s: &[f64], t: f64, sharpness: f64) -> f64 {
    s.iter().map(|s| 1.0 / (1.0 + (-sharpness * (s - t)).exp())).sum::<f64>() / s.len() as f64
}

/// Bisection on the share, the slow and sure way.
fn bisected(s: &[f64], target: f64, sharpness: f64) -> f64 {
    let (mut low, mut high) = (-1e6, 1e6);
    for _ in 0..200 {
        let t = 0.5 * (low + high);
        *if share(s, t, sharpness) > target { &mut low } else { &mut high } = t;
    }
    0.5 * (low + high)
}

#[test]
fn agrees_with_bisection() {
    for (case, sharpness) in [0.1, 1.0, 10.0].into_iter().enumerate() {
        for n in [1, 2, 7, 300] {
            let (s, _) = random(n, SEED.stream(case as u64));
            for target in [0.01, 0.3, 0.5, 0.9] {
                let root = smooth_threshold(&s, target, sharpness, None).unwrap();
                let slow = bisected(&s, target, sharpness);
                assert!((root.threshold - slow).abs() < 1e-8, "{n} {sharpness} {target}: {root:?}, {slow}");
            }
        }
    }
}

#[test]
fn falls_with_the_target_and_moves_with_the_scores() {
    let (s, _) = random(200, SEED);
    let at = |s: &[f64], target, sharpness| smooth_threshold(s, target, sharpness, None).unwrap().threshold;
    let grid: Vec<f64> = (1..100).map(|k| at(&s, f64::from(k) / 100.0, 3.0)).collect();
    assert!(grid.windows(2).all(|pair| pair[1] < pair[0]));
    let (shifted, scaled): (Vec<f64>, Vec<f64>) = s.iter().map(|s| (s + 7.5, s * 4.0)).unzip();
    assert!((at(&shifted, 0.1, 3.0) - at(&s, 0.1, 3.0) - 7.5).abs() < 1e-11);
    assert!((at(&scaled, 0.1, 0.75) - 4.0 * at(&s, 0.1, 3.0)).abs() < 1e-11);
    let mut reversed = s.clone();
    reversed.reverse();
    assert!((at(&reversed, 0.1, 3.0) - at(&s, 0.1, 3.0)).abs() < 1e-12);
    let twice = [&s[..], &s[..]].concat();
    assert!((at(&twice, 0.1, 3.0) - at(&s, 0.1, 3.0)).abs() < 1e-12);
}

#[test]
fn a_warm_start_gives_the_same_threshold_in_fewer_passes() {
    let (s, _) = random(500, SEED);
    let cold = smooth_threshold(&s, 0.05, 4.0, None).unwrap();
    let warm = smooth_threshold(&s, 0.05, 4.0, Some(cold.threshold + 1e-4)).unwrap();
    assert!((cold.threshold - warm.threshold).abs() < 1e-12);
    assert!(warm.passes < cold.passes, "{warm:?}, {cold:?}");
    for guess in [-1e9, 1e9, f64::NAN, f64::INFINITY] {
        let root = smooth_threshold(&s, 0.05, 4.0, Some(guess)).unwrap();
        assert!((root.threshold - cold.threshold).abs() < 1e-10, "{guess}: {root:?}");
    }
}

#[test]
fn a_million_scores_take_few_passes_and_any_number_of_threads() {
    let s: Vec<f64> = (0..1_000_000).map(|i| SEED.normal(i)).collect();
    let root = smooth_threshold(&s, 0.01, 10.0, None).unwrap();
    assert!(root.passes <= 12 && root.residual.abs() <= 1e-14, "{root:?}");
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let alone = one.install(|| smooth_threshold(&s, 0.01, 10.0, None).unwrap());
    assert_eq!(alone, root);
}

#[test]
fn a_very_sharp_one_is_the_hard_quantile_up_to_the_gap() {
    let (s, _) = random(101, SEED);
    let root = smooth_threshold(&s, 0.255, 1e6, None).unwrap();
    let hard = hard_threshold(&s, 0.255).unwrap();
    assert!((root.threshold - hard).abs() < 1e-3, "{root:?}, {hard}");
}

#[test]
fn the_hard_threshold_is_the_lowest_that_keeps_the_rate() {
    for n in [1, 2, 30, 101] {
        let (mut s, _) = random(n, SEED.stream(n as u64));
        s[n / 2] = s[0];
        for target in [0.0, 0.1, 0.29, 0.5, 0.999, 1.0] {
            let t = hard_threshold(&s, target).unwrap();
            let rate = |t: f64| s.iter().filter(|s| **s > t).count() as f64 / n as f64;
            assert!(rate(t) <= target + 1e-12);
            let lower = s.iter().copied().filter(|s| *s < t).chain([f64::NEG_INFINITY]);
            assert!(lower.filter(|l| *l < t).all(|l| rate(l) > target), "{n} {target} {t}");
        }
    }
    let thirty: Vec<f64> = (0..30).map(f64::from).collect();
    assert_eq!(hard_threshold(&thirty, 0.1).unwrap(), 26.0);
}

#[test]
fn bad_input_is_told() {
    let s = [0.0, 1.0, 2.0];
    for target in [0.0, 1.0, -0.1, 1.1, f64::NAN] {
        let error = smooth_threshold(s, target, 1.0, None).unwrap_err();
        assert!(matches!(error, Error::Config { .. }), "{error}");
    }
    for sharpness in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = smooth_threshold(s, 0.5, sharpness, None).unwrap_err();
        assert!(matches!(error, Error::Config { .. }), "{error}");
    }
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let s = [0.0, bad, 1.0];
        assert!(matches!(smooth_threshold(s, 0.5, 1.0, None).unwrap_err(), Error::Data { .. }));
        assert!(matches!(hard_threshold(s, 0.5).unwrap_err(), Error::Data { .. }));
    }
    let none: [f64; 0] = [];
    assert!(matches!(smooth_threshold(none, 0.5, 1.0, None).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(hard_threshold(none, 0.5).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(hard_threshold(s, 1.5).unwrap_err(), Error::Config { .. }));
}

#[test]
fn equal_and_enormous_scores_have_thresholds() {
    let odds = (0.1f64 / 0.9).ln();
    let root = smooth_threshold([2.0; 5], 0.1, 3.0, None).unwrap();
    assert!((root.threshold - (2.0 - odds / 3.0)).abs() < 1e-14);
    for s in [[1e300, -1e300, 0.0], [1e-300, -1e-300, 0.0], [f64::MAX, f64::MIN, 1.0]] {
        let root = smooth_threshold(s, 0.5, 1.0, None).unwrap();
        assert!(root.threshold.is_finite(), "{s:?}: {root:?}");
    }
}
