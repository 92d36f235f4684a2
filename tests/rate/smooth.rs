//! The equations of the chapter "Smooth rates".

use crate::device::device;
use std::f64::consts::PI;

use lastlayer::distribution::{normal_cdf, normal_density, normal_quantile};
use lastlayer::prelude::*;

use super::{SEED, assert_close, bisect, differences, normal_mean, random, simpson};

const RATES: [Rate; 7] = [
    Rate::FalsePositive,
    Rate::FalseNegative,
    Rate::TruePositive,
    Rate::TrueNegative,
    Rate::Precision,
    Rate::Coverage,
    Rate::Error,
];

/// The table of the chapter, with more digits: sharpness, smooth rate at the true one per cent, counted rate
/// at the smooth one per cent, effective number of 512 negatives there.
const TABLE: [(f64, f64, f64, f64); 5] = [
    (2.0, 0.042121, 0.000682, 64.75),
    (5.0, 0.014461, 0.006599, 18.07),
    (10.0, 0.011047, 0.009025, 8.41),
    (20.0, 0.010257, 0.009748, 4.12),
    (50.0, 0.010041, 0.009959, 1.64),
];

fn smooth(rate: Rate, s: &[f64], labels: &Labels, t: f64, sharpness: f64) -> f64 {
    rate.minus(0.0).slopes(s, labels, &[t], Surrogate::sigmoid(sharpness)).unwrap().value
}

fn of_class(s: &[f64], y: &[u8], class: u8) -> Vec<f64> {
    s.iter().zip(y).filter(|(_, y)| **y == class).map(|(s, _)| *s).collect()
}

/// Smooth rate above a threshold of endless standard normal scores.
pub(super) fn normal_rate(t: f64, sharpness: f64) -> f64 {
    normal_mean(|s| Surrogate::sigmoid(sharpness).value(s - t))
}

/// Where that rate is a target in the upper tail.
pub(super) fn normal_threshold(target: f64, sharpness: f64) -> f64 {
    bisect(0.0, 6.0, |t| normal_rate(t, sharpness) - target)
}

#[test]
fn four_scores_have_the_smooth_rates_worked_out_by_hand() -> Result<()> {
    let (s, labels) = ([1.0, 3.0, 0.0, 2.0], Labels::new([1, 1, 0, 0])?);
    for (rate, want, counted) in [(Rate::FalsePositive, 0.3, 0.0), (Rate::FalseNegative, 0.5, 0.5)] {
        let got = smooth(rate, &s, &labels, 2.0, 3f64.ln());
        assert!((got - want).abs() <= 1e-15, "{rate:?}: {got}");
        assert_eq!(rate.minus(0.0).count(s, &labels, &[2.0])?, counted, "{rate:?}");
    }
    // The paper's example, mended: 10 positives with 2 missed, 90 negatives with 9 alarms.
    let y: Vec<u8> = (0..100).map(|i| u8::from(i < 10)).collect();
    let s: Vec<f64> = (0..100).map(|i| if (2..19).contains(&i) { 1.0 } else { -1.0 }).collect();
    let labels = Labels::new(&y)?;
    let confusion = Scores::new(&s, &y)?.confusion(0.0)?;
    for (rate, want, other) in
        [(Rate::FalseNegative, 0.2, confusion.fnr()?), (Rate::FalsePositive, 0.1, confusion.fpr()?)]
    {
        let got = rate.minus(0.0).count(&s, &labels, &[0.0])?;
        assert!((got - want).abs() <= 1e-15 && (other - want).abs() <= 1e-15, "{rate:?}: {got}, {other}");
    }
    Ok(())
}

#[test]
fn gradients_of_smooth_rates_match_finite_differences() -> Result<()> {
    for n in [5usize, 40, 500] {
        let (s, y) = random(n, SEED.named("gradients").stream(n as u64));
        let labels = Labels::new(&y)?;
        let count = |class: u8| y.iter().filter(|y| **y == class).count() as f64;
        // Sample 0 is positive and sample 1 negative. One that counts is near the threshold; otherwise all
        // slopes might drown in the rounding of the values.
        let places = [
            (Rate::FalseNegative, s[0]),
            (Rate::TruePositive, s[0]),
            (Rate::FalsePositive, s[1]),
            (Rate::TrueNegative, s[1]),
            (Rate::Coverage, s[0]),
            (Rate::Error, s[1]),
            (Rate::Precision, s[0].min(s[1])),
        ];
        for tau in [0.5, 5.0, 50.0] {
            let surrogate = Surrogate::sigmoid(tau);
            for (rate, place) in places {
                let (sum, t) = (rate.minus(0.0), place + 0.3 / tau);
                let slopes = sum.slopes(&s, &labels, &[t], surrogate)?;
                let exact = [slopes.by_score, slopes.by_threshold].concat();
                let at = [s.clone(), vec![t]].concat();
                let value = |at: &[f64]| sum.slopes(&at[..n], &labels, &at[n..], surrogate).unwrap().value;
                assert_close(&exact, &differences(&at, 1e-4 / tau, value), 1e-6);
                // The equation itself.
                let (class, sign) = match rate {
                    Rate::FalseNegative => (1, -1.0),
                    Rate::FalsePositive => (0, 1.0),
                    _ => continue,
                };
                let weight = |s: f64| {
                    let u = tau * (s - t);
                    1.0 / ((1.0 + u.exp()) * (1.0 + (-u).exp()))
                };
                let by_score = s
                    .iter()
                    .zip(&y)
                    .map(|(s, y)| if *y == class { sign * tau / count(class) * weight(*s) } else { 0.0 });
                let by_score: Vec<f64> = by_score.collect();
                let by_threshold = -by_score.iter().sum::<f64>();
                assert_close(&exact, &[by_score, vec![by_threshold]].concat(), 1e-12);
            }
        }
    }
    Ok(())
}

#[test]
fn derivatives_in_scores_and_threshold_cancel() -> Result<()> {
    let (s, y) = random(60, SEED.named("shift"));
    let (labels, t, a) = (Labels::new(&y)?, 0.3, 0.7);
    let moved: Vec<f64> = s.iter().map(|s| s + a).collect();
    let surrogates = [
        Surrogate::sigmoid(0.5),
        Surrogate::sigmoid(5.0),
        Surrogate::sigmoid(50.0),
        Surrogate::Softplus { sharpness: 2.0 },
        Surrogate::Hinge,
    ];
    for (rate, surrogate) in RATES.into_iter().flat_map(|rate| surrogates.map(|surrogate| (rate, surrogate)))
    {
        let slopes = rate.minus(0.0).slopes(&s, &labels, &[t], surrogate)?;
        let size: f64 = slopes.by_score.iter().map(|slope| slope.abs()).sum();
        let sum: f64 = slopes.by_score.iter().sum();
        assert!(
            size > 0.0 && (sum + slopes.by_threshold[0]).abs() <= 1e-12 * size,
            "{rate:?}, {surrogate:?}"
        );
        // Because only s − t enters.
        let value = rate.minus(0.0).slopes(&moved, &labels, &[t + a], surrogate)?.value;
        assert!((value - slopes.value).abs() <= 1e-12 * value.abs().max(1.0), "{rate:?}, {surrogate:?}");
    }
    Ok(())
}

#[test]
fn log_weights_stay_finite_where_weights_underflow() -> Result<()> {
    let one = Surrogate::sigmoid(1.0);
    for u in (-300..=300).map(|k| f64::from(k) / 10.0) {
        let log = (one.value(u) * one.value(-u)).ln();
        assert!((one.log_slope(u) - log).abs() <= 1e-13, "{} and {log} at {u}", one.log_slope(u));
        // With a sharpness, the slope is τ w.
        let sharp = Surrogate::sigmoid(8.0).log_slope(u / 8.0);
        assert!((sharp - 8f64.ln() - log).abs() <= 1e-13, "{sharp} and {log} at {u}");
    }
    let far = [500f32, -500.0, 1500.0, -1500.0];
    let u = Tensor::new(&far, device())?;
    let weights = (one.of(&u)? * one.of(&u.neg()?)?)?.to_vec1::<f32>()?;
    assert_eq!(weights, [0f32; 4], "in single precision they do underflow");
    assert_eq!(one.slope(1500.0), 0.0, "in double precision too");
    for u in far {
        // The equation in single precision, and the library, which works in double.
        assert_eq!(-u.abs() - 2.0 * (-u.abs()).exp().ln_1p(), -u.abs());
        assert_eq!(one.log_slope(f64::from(u)), f64::from(-u.abs()));
    }
    Ok(())
}

#[test]
fn a_smooth_rate_is_the_mean_rate_of_scores_with_logistic_noise() -> Result<()> {
    let (tau, t, draws) = (2.0, 0.4, 2000u64);
    let (s, y) = random(60, SEED.named("noise"));
    let labels = Labels::new(&y)?;
    let rates = [(Rate::FalseNegative, 1), (Rate::FalsePositive, 0)];
    let (mut means, mut square) = ([0.0; 2], 0.0);
    for draw in 0..draws {
        let stream = SEED.named("logistic").stream(draw);
        let mut noisy = s.clone();
        for (c, s) in noisy.iter_mut().enumerate() {
            let u = stream.uniform(c as u64);
            let noise = (u / (1.0 - u)).ln();
            square += noise * noise / (draws as f64 * y.len() as f64);
            *s += noise / tau;
        }
        for (mean, (rate, _)) in means.iter_mut().zip(rates) {
            *mean += rate.minus(0.0).count(&noisy, &labels, &[t])? / draws as f64;
        }
    }
    for (mean, (rate, class)) in means.into_iter().zip(rates) {
        let own = of_class(&s, &y, class);
        // Every decision is a coin with the chance σ(τ(s − t)), of variance w.
        let variance: f64 = own.iter().map(|s| Surrogate::sigmoid(tau).slope(s - t) / tau).sum();
        let error = variance.sqrt() / own.len() as f64 / (draws as f64).sqrt();
        let want = smooth(rate, &s, &labels, t, tau);
        assert!((mean - want).abs() <= 4.0 * error, "{rate:?}: {mean}, expected {want} ± {error}");
    }
    // The fourth moment of the logistic law is 4.2 times its squared variance.
    let (variance, n) = (PI * PI / 3.0, draws as f64 * y.len() as f64);
    assert!((square - variance).abs() <= 4.0 * variance * (3.2 / n).sqrt(), "variance {square}");
    Ok(())
}

#[test]
fn the_gap_to_the_count_is_bounded_by_the_distances_to_the_threshold() -> Result<()> {
    let gap = |s: &[f64], labels: &Labels, t: f64, tau: f64| {
        let sum = Rate::FalsePositive.minus(0.0);
        let smooth = sum.slopes(s, labels, &[t], Surrogate::sigmoid(tau)).unwrap().value;
        (smooth - sum.count(s, labels, &[t]).unwrap()).abs()
    };
    for case in 0..300 {
        let seed = SEED.named("gap").stream(case);
        let (s, y) = random(2 + (case % 19) as usize, seed);
        let (labels, negatives) = (Labels::new(&y)?, of_class(&s, &y, 0));
        let tau = 10f64.powf(3.0 * seed.uniform(100) - 1.0);
        // Every third threshold is a score.
        let t = if case % 3 == 0 { negatives[0] } else { 4.0 * seed.uniform(101) - 2.0 };
        let each = negatives.iter().map(|s| 1.0 / (1.0 + (tau * (s - t).abs()).exp()));
        let bound = each.sum::<f64>() / negatives.len() as f64;
        let found = gap(&s, &labels, t, tau);
        assert!(found <= bound + 1e-15, "case {case}: {found} above {bound}");
    }
    // One negative attains the bound; on the threshold it keeps half a count at any sharpness.
    let labels = Labels::new([0])?;
    for tau in [0.1, 1.0, 10.0, 1000.0] {
        assert_eq!(gap(&[0.7], &labels, 0.7, tau), 0.5);
        for t in [0.2, 1.2] {
            let bound = 1.0 / (1.0 + (tau * 0.5f64).exp());
            assert!((gap(&[0.7], &labels, t, tau) - bound).abs() <= 1e-15, "sharpness {tau}");
        }
    }
    Ok(())
}

#[test]
fn the_bias_of_a_smooth_rate_is_second_order_in_the_width() -> Result<()> {
    let z = normal_quantile(0.99)?;
    // For normal scores f'(t) = −t f(t).
    let second_order = |tau: f64| PI * PI / (6.0 * tau * tau) * z * normal_density(z);
    let remainder = |tau: f64| normal_rate(z, tau) - normal_cdf(-z) - second_order(tau);
    let ratio = remainder(20.0) / remainder(40.0);
    assert!((13.0..19.0).contains(&ratio), "twice the sharpness left 1/{ratio} of the remainder");
    assert!((second_order(10.0) - 0.0010).abs() <= 5e-5, "the text's example: {}", second_order(10.0));
    for (tau, at_true, counted, _) in TABLE {
        let smooth = normal_rate(z, tau);
        assert!((smooth - at_true).abs() <= 5e-7, "sharpness {tau}: {smooth}");
        let found = normal_cdf(-normal_threshold(0.01, tau));
        assert!((found - counted).abs() <= 5e-7, "sharpness {tau}: {found}");
    }
    Ok(())
}

#[test]
fn the_effective_number_of_negatives_is_six_n_f_over_tau() -> Result<()> {
    // Scores at the quantiles of a normal law, for the library's own weights.
    let n = 20_000;
    let s: Vec<f64> =
        (0..n).map(|i| normal_quantile((f64::from(i) + 0.5) / f64::from(n))).collect::<Result<_>>()?;
    let labels = Labels::new(vec![0u8; s.len()])?;
    for (tau, _, _, want) in TABLE {
        let w = |v: f64| Surrogate::sigmoid(tau).slope(v) / tau;
        let reach = 40.0 / tau;
        let first = simpson(-reach, reach, 4000, w);
        assert!((first - 1.0 / tau).abs() <= 1e-10, "sharpness {tau}: {first}");
        let second = simpson(-reach, reach, 4000, |v| w(v).powi(2));
        assert!((second - 1.0 / (6.0 * tau)).abs() <= 1e-10, "sharpness {tau}: {second}");
        let t = normal_threshold(0.01, tau);
        let share = normal_mean(|s| w(s - t)).powi(2) / normal_mean(|s| w(s - t).powi(2));
        assert!((512.0 * share - want).abs() <= 0.005, "sharpness {tau}: {}", 512.0 * share);
        let problem = RateProblem::fnr_at_fpr(0.01, Surrogate::sigmoid(tau))?;
        let omega = problem.sensitivity(&s, &labels, &[t])?.remove(0);
        let effective = 1.0 / omega.iter().map(|omega| omega * omega).sum::<f64>();
        assert!((effective / (f64::from(n) * share) - 1.0).abs() <= 1e-3, "sharpness {tau}: {effective}");
        // The approximation is second order in 1/τ, with a large factor: f''/f = t² − 1 is 4.4 here.
        let relative = 6.0 * normal_density(t) / tau / share - 1.0;
        assert!(relative.abs() <= 15.0 / (tau * tau), "sharpness {tau}: {relative}");
        if tau == 20.0 {
            // At the true threshold the density is a little higher, which happens to make up for most of it.
            let relative = 6.0 * normal_density(normal_quantile(0.99)?) / tau / share - 1.0;
            assert!(relative.abs() <= 0.01, "{relative}");
        }
    }
    Ok(())
}

#[test]
fn smooth_rates_know_scores_only_up_to_shift_and_scale() -> Result<()> {
    let (a, b, t, tau) = (3.7, -2.0, 0.4, 5.0);
    let (s, y) = random(40, SEED.named("scale"));
    let labels = Labels::new(&y)?;
    let scaled: Vec<f64> = s.iter().map(|s| a * s + b).collect();
    for rate in RATES {
        let (one, other) =
            (smooth(rate, &s, &labels, t, tau), smooth(rate, &scaled, &labels, a * t + b, tau / a));
        assert!((one - other).abs() <= 1e-13, "{rate:?}: {one} and {other}");
    }
    // The solved threshold moves along.
    let (one, other) =
        (smooth_threshold(&s, 0.1, tau, None)?, smooth_threshold(&scaled, 0.1, tau / a, None)?);
    assert!((a * one.threshold + b - other.threshold).abs() <= 1e-10, "{one:?} and {other:?}");
    Ok(())
}

#[test]
fn a_softplus_rate_stays_above_the_softplus_of_the_mean() -> Result<()> {
    for case in 0..100 {
        let seed = SEED.named("jensen").stream(case);
        let (s, y) = random(30, seed);
        let (labels, negatives) = (Labels::new(&y)?, of_class(&s, &y, 0));
        let mean = negatives.iter().sum::<f64>() / negatives.len() as f64;
        let (t, sharpness) = (4.0 * seed.uniform(100) - 2.0, 10f64.powf(4.0 * seed.uniform(101) - 3.0));
        let softplus = Surrogate::Softplus { sharpness };
        let rate = Rate::FalsePositive.minus(0.0).slopes(&s, &labels, &[t], softplus)?.value;
        let bound = (sharpness * (mean - t)).exp().ln_1p();
        assert!(rate >= bound - 1e-14, "case {case}: {rate} below {bound}");
    }
    let (sharpness, z) = (1e-3, normal_quantile(0.99)?);
    let softplus = Surrogate::Softplus { sharpness };
    let rate = |t: f64| normal_mean(|s| softplus.value(s - t));
    // Both sides of the inequality, at the threshold that has the rate 0.01.
    for value in [rate(z), (-sharpness * z).exp().ln_1p()] {
        assert!((value - 0.69198).abs() <= 5e-6, "{value}");
    }
    for t in [0.01f64.exp_m1().ln() / -sharpness, bisect(0.0, 1e4, |t| rate(t) - 0.01)] {
        assert!((t - 4600.17).abs() <= 0.005, "{t}");
    }
    // So the library does not solve that equation, but counts.
    let (s, y) = random(500, SEED.named("softplus"));
    let t = RateProblem::fnr_at_fpr(0.01, softplus)?.solve(&s, &Labels::new(&y)?)?.t;
    assert_eq!(t, [hard_threshold(of_class(&s, &y, 0), 0.01)?]);
    Ok(())
}

#[test]
fn a_blunt_softplus_only_pulls_the_class_means_apart() -> Result<()> {
    let (n, sharpness) = (1000, 1e-3);
    let y: Vec<u8> = (0..n).map(|i| u8::from(i % 3 == 0)).collect();
    let s: Vec<f64> = (0..n as u64).map(|i| SEED.named("blunt").normal(i)).collect();
    let problem = RateProblem::fnr_at_fpr(0.01, Surrogate::Softplus { sharpness })?;
    let adjoint = problem.adjoint(&s, &Labels::new(&y)?, &[2.3])?;
    let positives = y.iter().filter(|y| **y == 1).count() as f64;
    for (i, c) in adjoint.cotangent.iter().enumerate() {
        let want = match y[i] {
            1 => -sharpness / (2.0 * positives),
            _ => sharpness / (2.0 * (n as f64 - positives)),
        };
        assert!((c / want - 1.0).abs() <= 0.005, "score {}: {c}, expected {want}", s[i]);
    }
    assert!((adjoint.multiplier[0] - 1.0).abs() <= 0.005, "{:?}", adjoint.multiplier);
    Ok(())
}

#[test]
fn a_sum_reads_scores_from_anywhere_and_refuses_what_does_not_fit() -> Result<()> {
    let sum = Rate::FalsePositive.minus(0.1);
    let (list, labels) = ([0.5, -1.0, 2.0], Labels::new([0, 1, 0])?);
    let s = Tensor::new(&list, device())?;
    let smooth = Surrogate::sigmoid(3.0);
    assert_eq!(sum.count(&s, &labels, &[0.0])?, sum.count(list, &labels, &[0.0])?);
    assert_eq!(sum.slopes(&s, &labels, &[0.0], smooth)?, sum.slopes(list, &labels, &[0.0], smooth)?);
    // As a tensor it asks for the same: a threshold for every term, a score per label, attributes that are there.
    let by_group = rate::At::ByAttribute { attribute: 0, with: 0, without: 1 };
    let groups = rate::RateSum { terms: vec![Rate::FalsePositive.term().at(by_group)], constant: 0.0 };
    for (sum, s, t) in
        [(&sum, s.clone(), &[][..]), (&sum, s.narrow(0, 0, 2)?, &[0.0]), (&groups, s, &[0.0, 1.0])]
    {
        let counted = sum.slopes(&s, &labels, t, smooth).unwrap_err().to_string();
        assert_eq!(sum.tensor(&s, &labels, t, smooth).unwrap_err().to_string(), counted);
    }
    Ok(())
}
