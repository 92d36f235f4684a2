//! Distribution functions against forty digits (mpmath), scipy, exact fractions, each other, and bad arguments; the
//! numbers come from tests/oracle/metrics.py.

use lastlayer::distribution::*;
use lastlayer::prelude::*;
use lastlayer::serde_json::{self, Value};

/// Relative error of a distribution function against forty digits.
const FUNCTION: f64 = 2e-13;
/// The same for parameters of thousands and more, where a long fraction adds its roundings.
const LARGE_PARAMETERS: f64 = 1e-12;
/// Relative difference of quantiles to scipy's, which are not exact either.
const QUANTILE: f64 = 1e-11;

fn oracle(name: &str) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string("tests/oracle/metrics.json").unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let rows = all["distributions"][name].as_array().unwrap().iter();
    rows.map(|row| row.as_array().unwrap().iter().map(|v| v.as_str().unwrap().parse().unwrap()).collect())
        .collect()
}

#[track_caller]
fn assert_relative(got: f64, want: f64, tolerance: f64, what: &[f64]) {
    assert!((got - want).abs() <= tolerance * want.abs(), "{what:?}: {got:e} against {want:e}");
}

#[test]
fn normal_functions_have_their_digits_in_both_tails() -> Result<()> {
    for row in oracle("normal") {
        assert_relative(normal_cdf(row[0]), row[1], FUNCTION, &row);
        assert_relative(normal_density(row[0]), row[2], FUNCTION, &row);
    }
    for row in oracle("normal_quantile") {
        assert_relative(normal_quantile(row[0])?, row[1], FUNCTION, &row);
    }
    assert_eq!((normal_cdf(f64::NEG_INFINITY), normal_cdf(f64::INFINITY)), (0.0, 1.0));
    Ok(())
}

#[test]
fn irwin_hall_equals_exact_fractions_and_is_symmetric() -> Result<()> {
    for row in oracle("irwin_hall") {
        assert_relative(irwin_hall_cdf(row[0]), row[1], FUNCTION, &row);
        assert_relative(irwin_hall_cdf(row[0]) + irwin_hall_cdf(-row[0]), 1.0, FUNCTION, &row);
    }
    assert_eq!((irwin_hall_cdf(f64::NEG_INFINITY), irwin_hall_cdf(f64::INFINITY)), (0.0, 1.0));
    // The deep tail is a single term: ε^12 / 12!.
    assert_relative(irwin_hall_cdf(-6.0 + 0.125), 0.125f64.powi(12) / 479_001_600.0, FUNCTION, &[-5.875]);
    Ok(())
}

#[test]
fn irwin_hall_is_the_law_of_the_generator() -> Result<()> {
    let n = 20_000u64;
    let mut draws: Vec<f64> = (0..n).map(|i| Seed::new(8).stream(i).irwin_hall(0)).collect();
    draws.sort_by(f64::total_cmp);
    let distance = |(i, x): (usize, &f64)| (irwin_hall_cdf(*x) - (i as f64 + 0.5) / n as f64).abs();
    // Kolmogorov's distance exceeds 2.2/√n once in 8000.
    assert!(draws.iter().enumerate().map(distance).fold(0.0, f64::max) < 2.2 / (n as f64).sqrt());
    Ok(())
}

#[test]
fn chi_square_and_its_tail_equal_scipy() -> Result<()> {
    for row in oracle("chi_square") {
        assert_relative(chi_square_cdf(row[0])?, row[1], FUNCTION, &row);
        assert_relative(chi_square_tail(row[0])?, row[2], FUNCTION, &row);
    }
    Ok(())
}

#[test]
fn beta_function_has_its_digits() -> Result<()> {
    for row in oracle("beta") {
        let tolerance = if row[1].max(row[2]) > 1000.0 { LARGE_PARAMETERS } else { FUNCTION };
        assert_relative(beta_cdf(row[0], row[1], row[2])?, row[3], tolerance, &row);
    }
    // Closed forms: uniform, and powers.
    assert_relative(beta_cdf(0.3, 1.0, 1.0)?, 0.3, FUNCTION, &[]);
    assert_relative(beta_cdf(0.3, 4.5, 1.0)?, 0.3f64.powf(4.5), FUNCTION, &[]);
    assert_eq!((beta_cdf(0.0, 2.0, 3.0)?, beta_cdf(1.0, 2.0, 3.0)?), (0.0, 1.0));
    Ok(())
}

#[test]
fn beta_quantile_inverts_and_equals_scipy() -> Result<()> {
    for row in oracle("beta_quantile") {
        let x = beta_quantile(row[0], row[1], row[2])?;
        // Below the smallest normal number scipy stops there, and we return zero.
        if row[3] > 1e-300 {
            assert_relative(x, row[3], QUANTILE, &row);
        } else {
            assert!(x < 1e-300);
        }
    }
    for p in [1e-30, 1e-3, 0.2, 0.5, 0.97] {
        for (a, b) in [(3.0, 5.0), (0.4, 90.0), (250.0, 0.7), (1e5, 2e5)] {
            let back = beta_cdf(beta_quantile(p, a, b)?, a, b)?;
            // The quantile is rounded to f64, which the slope of the tail magnifies.
            assert_relative(back, p, 1e-10, &[p, a, b]);
        }
    }
    assert_eq!((beta_quantile(0.0, 2.0, 3.0)?, beta_quantile(1.0, 2.0, 3.0)?), (0.0, 1.0));
    Ok(())
}

#[test]
fn student_has_its_digits_and_inverts() -> Result<()> {
    for row in oracle("student") {
        let tolerance = if row[1] > 1000.0 { LARGE_PARAMETERS } else { FUNCTION };
        assert_relative(student_cdf(row[0], row[1])?, row[2], tolerance, &row);
    }
    for row in oracle("student_quantile") {
        // scipy gives a tiny number for the median, which is zero.
        let tolerance = QUANTILE * row[2].abs().max(1e-3);
        assert!((student_quantile(row[0], row[1])? - row[2]).abs() <= tolerance, "{row:?}");
    }
    // One degree of freedom is Cauchy: tan(π(p − ½)).
    assert_relative(student_quantile(0.9, 1.0)?, (std::f64::consts::PI * 0.4).tan(), FUNCTION, &[]);
    Ok(())
}

#[test]
fn fair_coin_equals_a_sum_of_binomials() -> Result<()> {
    for n in 0..60usize {
        let mut weights = vec![1.0f64];
        for k in 0..n {
            weights.push(weights[k] * (n - k) as f64 / (k + 1) as f64);
        }
        for k in 0..=n {
            let tail: f64 = weights[..=k.min(n - k)].iter().sum::<f64>() / 2f64.powi(n as i32);
            assert_relative(
                fair_coin_two_sided(k, n)?,
                (2.0 * tail).min(1.0),
                FUNCTION,
                &[k as f64, n as f64],
            );
        }
    }
    Ok(())
}

#[test]
fn arguments_outside_the_domain_are_refused() {
    let bad = f64::NAN;
    // Where every number is in the domain, what is no number stays none.
    assert!([normal_cdf(bad), normal_density(bad), irwin_hall_cdf(bad)].iter().all(|v| v.is_nan()));
    let mut results = vec![fair_coin_two_sided(2, 1)];
    for p in [bad, 0.0, 1.0, -0.1, 1.1] {
        results.extend([normal_quantile(p), student_quantile(p, 3.0)]);
    }
    for x in [bad, -1.0, f64::NEG_INFINITY] {
        results.extend([chi_square_cdf(x), chi_square_tail(x)]);
    }
    for x in [bad, -0.1, 1.1] {
        results.extend([beta_cdf(x, 1.0, 1.0), beta_quantile(x, 1.0, 1.0)]);
    }
    for a in [bad, 0.0, -1.0, f64::INFINITY] {
        results.extend([beta_cdf(0.5, a, 1.0), beta_cdf(0.5, 1.0, a), beta_quantile(0.5, a, 1.0)]);
        results.extend([beta_quantile(0.5, 1.0, a), student_cdf(1.0, a), student_quantile(0.4, a)]);
    }
    results.push(student_cdf(bad, 3.0));
    for (i, result) in results.into_iter().enumerate() {
        assert!(matches!(result, Err(Error::Config { .. })), "argument {i} gave {result:?}");
    }
    let huge = beta_cdf(0.5, 1e15, 1e15);
    assert!(matches!(huge, Err(Error::Solve { .. })), "{huge:?}");
}
