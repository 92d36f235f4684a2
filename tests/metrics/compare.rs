use super::*;

/// Variance of a difference of areas by the covariance of structural components, over all pairs.
fn difference_variance_by_pairs(a: &[f64], b: &[f64], y: &[u8]) -> f64 {
    let win = |p: f64, n: f64| if p > n { 1.0 } else { 0.5 * f64::from(u8::from(p == n)) };
    let indices = |class: u8| (0..y.len()).filter(|i| y[*i] == class).collect::<Vec<_>>();
    let (positive, negative) = (indices(1), indices(0));
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let components = |s: &[f64]| -> [Vec<f64>; 2] {
        let over = |i: &usize| mean(&negative.iter().map(|j| win(s[*i], s[*j])).collect::<Vec<_>>());
        let under = |j: &usize| mean(&positive.iter().map(|i| win(s[*i], s[*j])).collect::<Vec<_>>());
        [positive.iter().map(over).collect(), negative.iter().map(under).collect()]
    };
    let covariance = |u: &[f64], v: &[f64]| {
        let (mu, mv) = (mean(u), mean(v));
        u.iter().zip(v).map(|(u, v)| (u - mu) * (v - mv)).sum::<f64>() / (u.len() - 1) as f64 / u.len() as f64
    };
    let (ca, cb) = (components(a), components(b));
    (0..2)
        .map(|i| covariance(&ca[i], &ca[i]) + covariance(&cb[i], &cb[i]) - 2.0 * covariance(&ca[i], &cb[i]))
        .sum()
}

#[test]
fn delong_test_matches_its_structural_components() -> Result<()> {
    for case in 0..30 {
        let (a, y) = tied(case, 45);
        let b: Vec<f64> =
            (0..45).map(|c| a[c] + SEED.stream(900 + case).below(c as u64, 5).unwrap() as f64).collect();
        let got = delong(&a, &b, &y, 0.95)?;
        let difference = auc_by_pairs(&a, &y) - auc_by_pairs(&b, &y);
        let error = difference_variance_by_pairs(&a, &b, &y).sqrt();
        assert_near(got.difference.value, difference, ROUNDING);
        let z = distribution::normal_quantile(0.975)?;
        assert_near(got.difference.high, difference + z * error, ROUNDING);
        let want = 2.0 * distribution::normal_cdf(-(difference / error).abs());
        assert_near(got.p_value, want, ROUNDING);
    }
    let o = oracle("binary");
    let got = delong(list(&o["s"]), list(&o["weaker"]), list(&o["y"]), 0.95)?;
    assert_near(got.ours, number(&o["auc"]), ROUNDING);
    assert_near(got.theirs, number(&o["auc_weaker"]), ROUNDING);
    Ok(())
}

#[test]
fn delong_p_values_are_uniform_when_both_scores_are_equally_good() -> Result<()> {
    // Two noisy copies of one signal, 300 times: the share below 0.1 is 0.1 up to four binomial errors.
    let below = (0..300u64).filter(|run| {
        let seed = SEED.named("null").stream(*run);
        let y: Vec<u8> = (0..120u64).map(|c| u8::from(c < 50)).collect();
        let copy = |stream: u64| -> Vec<f64> {
            (0..120u64)
                .map(|c| f64::from(y[c as usize]) + seed.normal(c) + seed.stream(stream).normal(c))
                .collect()
        };
        delong(copy(1), copy(2), &y, 0.95).unwrap().p_value < 0.1
    });
    let share = below.count() as f64 / 300.0;
    assert!((share - 0.1).abs() < STANDARD_ERRORS * (0.1 * 0.9 / 300.0f64).sqrt(), "{share}");
    Ok(())
}

#[test]
fn a_method_does_not_differ_from_itself() -> Result<()> {
    let (s, y) = tied(1, 40);
    let ranked_alike: Vec<f64> = s.iter().map(|v| v.exp()).collect();
    assert_eq!(delong(&s, &ranked_alike, &y, 0.95)?.p_value, 1.0);
    assert_eq!(paired([0.5, 0.6], [0.5, 0.6], 0.95)?.p_value, 1.0);
    assert_eq!(mcnemar([1, 0, 1], [1, 0, 1])?.p_value, 1.0);
    Ok(())
}

#[test]
fn paired_seeds_equal_scipy() -> Result<()> {
    let o = oracle("intervals");
    let got = paired(list(&o["ours"]), list(&o["theirs"]), 0.95)?;
    let d = got.difference;
    // Differences of a hundredth between numbers near one: twelve digits are left.
    assert_lists_close(&[d.value, d.low, d.high, got.p_value], &list(&o["paired"]), 1e-11);
    assert_near(got.ours - got.theirs, d.value, ROUNDING);
    Ok(())
}

#[test]
fn mcnemar_equals_the_binomial_and_the_corrected_chi_square() -> Result<()> {
    for row in oracle("intervals")["coins"].as_array().unwrap() {
        let row = list(row);
        let (b, c) = (row[0] as usize, row[1] as usize - row[0] as usize);
        let a: Vec<bool> = (0..b + c + 7).map(|i| i < b).collect();
        let other: Vec<bool> = (0..b + c + 7).map(|i| (b..b + c).contains(&i)).collect();
        let got = mcnemar(&a, &other)?;
        assert_eq!((got.only_first, got.only_second), (b, c));
        assert_near(got.p_value, row[2], ROUNDING);
    }
    // b = 3, c = 17: (14 − 1)² / 20, and scipy.stats.chi2.sf(8.45, 1).
    let first: Vec<bool> = (0..20).map(|i| i < 3).collect();
    let second: Vec<bool> = first.iter().map(|v| !v).collect();
    let (statistic, p) = mcnemar(&first, &second)?.chi_square()?;
    assert_near(statistic, 8.45, ROUNDING);
    assert_near(p, 0.0036504344044418794, ROUNDING);
    assert_eq!(mcnemar([1, 0], [0, 1])?.chi_square()?, (0.0, 1.0));
    Ok(())
}

#[test]
fn bad_comparisons_are_refused() {
    let (a, y) = ([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1]);
    assert_config(vec![
        delong(a, [1.0, f64::NAN, 3.0, 4.0], y, 0.95),
        delong(a, a, [1, 1, 1, 1], 0.95),
        delong(a, a, y, 1.0),
        delong([0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1], 0.95),
        paired([1.0, 2.0], [0.0, 1.0], 0.95),
        paired([1.0, f64::NAN], [0.0, 1.0], 0.95),
        paired([1.0, 2.0], [0.0, 2.0], 0.0),
    ]);
    assert_data(vec![delong(a, a, [0, 1, 2, 1], 0.95)]);
    assert_shape(vec![
        delong(a, [1.0, 2.0], y, 0.95),
        delong(a, a, [0, 1], 0.95),
        delong(a, a, [0, 0, 0, 1], 0.95),
        paired([1.0, 2.0], [0.0], 0.95),
        paired([1.0], [0.0], 0.95),
    ]);
    assert_data(vec![
        mcnemar([0, 2], [0, 1]),
        mcnemar([0.0, f64::NAN], [0.0, 1.0]),
        mcnemar([0, 1], [0, -1]),
    ]);
    assert_shape(vec![
        mcnemar([0, 1], [0]),
        mcnemar(Vec::<bool>::new(), [1]),
        mcnemar(Vec::<bool>::new(), Vec::<bool>::new()),
    ]);
    assert_config(vec![mcnemar([1, 0], [1, 0]).unwrap().chi_square()]);
}
