//! The equations of the chapter "Thresholds from finite samples".

use lastlayer::distribution::{beta_cdf, normal_density, normal_quantile};
use lastlayer::prelude::*;
use lastlayer::rate::confident_target;

use super::smooth::normal_threshold;
use super::{SEED, assert_close, differences, normal_mean, simpson};

/// Four standard errors: a right answer fails such a test once in 16 000 runs, and ours always runs the same.
const STANDARD_ERRORS: f64 = 4.0;

/// The example of these chapters: positives 1 and 3, negatives 0 and 2; its sharpness is ln 3.
const FOUR: [f64; 4] = [1.0, 3.0, 0.0, 2.0];
const FOUR_Y: [u8; 4] = [1, 1, 0, 0];

/// How many of `n` negatives the counted threshold leaves above it.
fn allowed(n: usize, target: f64) -> usize {
    let s: Vec<f64> = (0..n).map(|i| i as f64).collect();
    let t = hard_threshold(&s, target).unwrap();
    s.iter().filter(|s| **s > t).count()
}

/// Chance that the threshold with `k` of `n` negatives above it has a rate above `limit`.
fn excess(limit: f64, n: usize, k: usize) -> f64 {
    1.0 - beta_cdf(limit, k as f64 + 1.0, (n - k) as f64).unwrap()
}

/// Mean and variance of that rate, from its distribution function; practically all of it lies below `most`.
fn moments(n: usize, k: usize, most: f64) -> (f64, f64) {
    let mean = simpson(0.0, most, 4000, |x| excess(x, n, k));
    let square = simpson(0.0, most, 4000, |x| 2.0 * x * excess(x, n, k));
    (mean, square - mean * mean)
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64)
}

/// Chances of 0 to n successes of a binomial law.
fn binomial(n: usize, p: f64) -> Vec<f64> {
    let next = |chance: &f64, k: usize| chance * (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
    let mut chances = vec![(n as f64 * (-p).ln_1p()).exp()];
    (0..n).for_each(|k| chances.push(next(&chances[k], k)));
    chances
}

#[test]
fn below_one_over_beta_negatives_the_chance_of_excess_is_a_power() {
    for (n, beta) in [(50, 0.01), (99, 0.01), (7, 0.1), (1, 0.3)] {
        let k = allowed(n, beta);
        assert_eq!(k, 0);
        let chance = excess(beta, n, k);
        assert!((chance - (1.0 - beta).powi(n as i32)).abs() <= 1e-12, "{n} negatives: {chance}");
        let (mean, _) = moments(n, k, 1.0);
        assert!((mean - 1.0 / (n as f64 + 1.0)).abs() <= 1e-8, "{n} negatives: {mean}");
    }
    assert!((excess(0.01, 50, 0) - 0.6050061).abs() <= 5e-8);
}

#[test]
fn twenty_over_beta_negatives_are_five_per_cent_high_on_average() {
    for (beta, want) in [(0.01, 0.2278), (0.02, 0.2264), (0.05, 0.2222), (0.1, 0.2152)] {
        let n = (20.0f64 / beta).round() as usize;
        let k = allowed(n, beta);
        assert_eq!(k, 20);
        // The identity, and the moments of the law itself.
        let (mean, formula) = ((k as f64 + 1.0) / (n as f64 + 1.0), (1.0 - beta) / (beta * (n as f64 + 1.0)));
        assert!((mean / beta - 1.0 - formula).abs() <= 1e-12);
        assert!(formula < 0.05, "{formula}");
        let (found, variance) = moments(n, k, (10.0 * beta).min(1.0));
        assert!((found - mean).abs() <= 1e-9, "{found}, expected {mean}");
        let spread = variance.sqrt() / beta;
        assert!((spread - want).abs() <= 5e-5, "{spread}");
        let approximate = ((1.0 - beta) / (beta * n as f64)).sqrt();
        assert!((spread / approximate - 1.0).abs() <= 0.03, "{spread} and {approximate}");
    }
}

#[test]
fn smooth_thresholds_vary_as_the_expansion_says() -> Result<()> {
    let beta = 0.01;
    let z = normal_quantile(1.0 - beta)?;
    let counted = beta * (1.0 - beta) / normal_density(z).powi(2);
    assert!((counted - 13.937).abs() <= 5e-4, "{counted}");
    // Sharpness, where the expected rate is β, n times the variance of the threshold.
    let mut smooth = Vec::new();
    for (tau, want) in [(10.0, 10.599), (5.0, 7.997), (2.0, 3.573)] {
        let (sigmoid, t) = (Surrogate::sigmoid(tau), normal_threshold(beta, tau));
        let density = normal_mean(|s| sigmoid.slope(s - t));
        let variance = beta * (1.0 - beta) - density / tau;
        let direct = normal_mean(|s| (sigmoid.value(s - t) - beta).powi(2));
        assert!((variance - direct).abs() <= 1e-10, "sharpness {tau}: {variance} and {direct}");
        let scaled = variance / (density * density);
        assert!((scaled - want).abs() <= 5e-4, "sharpness {tau}: {scaled}");
        smooth.push((tau, t, scaled));
    }
    // And in fact.
    let (n, runs) = (4000, 1200);
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); 4];
    for run in 0..runs {
        let stream = SEED.named("bahadur").stream(run);
        let s: Vec<f64> = (0..n).map(|c| stream.normal(c)).collect();
        found[0].push(hard_threshold(&s, beta)?);
        for (list, (tau, t, _)) in found[1..].iter_mut().zip(&smooth) {
            list.push(smooth_threshold(&s, beta, *tau, Some(*t))?.threshold);
        }
    }
    let expected = [counted].into_iter().chain(smooth.iter().map(|(_, _, scaled)| *scaled));
    for (list, want) in found.iter().zip(expected) {
        let scaled = n as f64 * mean_and_variance(list).1;
        assert!((scaled / want - 1.0).abs() <= 0.15, "{scaled}, expected {want}");
    }
    Ok(())
}

#[test]
fn the_threshold_moves_by_the_mean_derivative_of_the_negatives_at_it() -> Result<()> {
    let (n, beta, tau, theta) = (400_000u64, 0.01, 20.0, [0.6, -0.8]);
    let streams = [SEED.named("first"), SEED.named("second")];
    let x = streams.map(|stream| (0..n).map(|c| stream.normal(c)).collect::<Vec<f64>>());
    let scores = |theta: &[f64]| -> Vec<f64> {
        x[0].iter().zip(&x[1]).map(|(first, second)| theta[0] * first + theta[1] * second).collect()
    };
    let s = scores(&theta);
    let t = smooth_threshold(&s, beta, tau, None)?.threshold;
    let labels = Labels::new(vec![0u8; s.len()])?;
    let problem = RateProblem::fnr_at_fpr(beta, Surrogate::sigmoid(tau))?;
    let omega = problem.sensitivity(&s, &labels, &[t])?.remove(0);
    let moved: Vec<f64> = x.iter().map(|x| omega.iter().zip(x).map(|(omega, x)| omega * x).sum()).collect();
    // It is the derivative of the threshold of these negatives.
    let threshold = |theta: &[f64]| smooth_threshold(scores(theta), beta, tau, Some(t)).unwrap().threshold;
    assert_close(&moved, &differences(&theta, 1e-4, threshold), 1e-5);
    // And close to z θ/|θ|: along θ up to the bias of a sharpness of 20, across it up to the noise of the
    // effective number of negatives, some 3200.
    let along = moved[0] * theta[0] + moved[1] * theta[1];
    let z = normal_quantile(1.0 - beta)?;
    assert!((along - z).abs() <= 0.03, "{along}, expected {z}");
    let across = moved[0] * theta[1] - moved[1] * theta[0];
    let error = omega.iter().map(|omega| omega * omega).sum::<f64>().sqrt();
    assert!(error <= 0.02 && across.abs() <= STANDARD_ERRORS * error, "{across} beside θ, error {error}");
    Ok(())
}

#[test]
fn a_batch_rate_at_a_fixed_threshold_is_unbiased_and_a_smooth_precision_is_not() -> Result<()> {
    let (t, sharp) = ([1.0], Surrogate::sigmoid(3f64.ln()));
    let pairs = (0..4).flat_map(|i| (i + 1..4).map(move |j| [i, j]));
    let (mut rates, mut by_expected, mut precisions) = (Vec::new(), Vec::new(), Vec::new());
    for batch in pairs {
        let (s, labels) = (batch.map(|i| FOUR[i]), Labels::new(batch.map(|i| FOUR_Y[i]))?);
        // A batch without negatives has no rate, and no false positives either.
        let rate = Rate::FalsePositive.minus(0.0).count(s, &labels, &t);
        let negatives = batch.iter().filter(|i| FOUR_Y[**i] == 0).count() as f64;
        assert_eq!(rate.is_ok(), negatives > 0.0);
        // The expected number of negatives in a batch is one.
        by_expected.push(rate.as_ref().map_or(0.0, |rate| rate * negatives));
        rates.extend(rate);
        // Among negatives alone no decision is a true positive, so the share is 0.
        let precision = Rate::Precision.minus(0.0).slopes(s, &labels, &t, sharp);
        assert_eq!(precision.is_ok(), negatives < 2.0);
        precisions.push(precision.map_or(0.0, |precision| precision.value));
    }
    assert_eq!((rates.len(), by_expected.len()), (5, 6));
    let truth = Rate::FalsePositive.minus(0.0).count(FOUR, &Labels::new(FOUR_Y)?, &t)?;
    let (mean, variance) = mean_and_variance(&rates);
    assert!((mean - truth).abs() <= 1e-15 && (truth - 0.5).abs() <= 1e-15 && (variance - 0.2).abs() <= 1e-15);
    assert!((rates.iter().sum::<f64>() / 6.0 - 5.0 / 12.0).abs() <= 1e-15);
    let (mean, variance) = mean_and_variance(&by_expected);
    assert!((mean - 0.5).abs() <= 1e-15 && (variance - 0.25).abs() <= 1e-15);

    let whole = Rate::Precision.minus(0.0).slopes(FOUR, &Labels::new(FOUR_Y)?, &t, sharp)?.value;
    assert!((whole - 1.4 / 2.4).abs() <= 1e-14, "{whole}");
    let (mean, _) = mean_and_variance(&precisions);
    assert!((mean - 0.5657883).abs() <= 5e-8, "{mean}");

    // Independent draws: N is binomial, and given N the false positives are. All cases, one by one.
    let (size, share, fpr) = (12, 0.3, 0.2);
    let (mut first, mut second, mut inverse, mut total) = (0.0, 0.0, 0.0, 0.0);
    for (n, of_n) in binomial(size, share).into_iter().enumerate().skip(1) {
        total += of_n;
        inverse += of_n / n as f64;
        for (fp, of_fp) in binomial(n, fpr).into_iter().enumerate() {
            let rate = fp as f64 / n as f64;
            first += of_n * of_fp * rate;
            second += of_n * of_fp * rate * rate;
        }
    }
    let (mean, square) = (first / total, second / total);
    assert!((mean - fpr).abs() <= 1e-14, "{mean}");
    let variance = fpr * (1.0 - fpr) * inverse / total;
    assert!(
        (square - mean * mean - variance).abs() <= 1e-14,
        "{}, expected {variance}",
        square - mean * mean
    );
    Ok(())
}

#[test]
fn solving_in_every_batch_minimises_another_function() -> Result<()> {
    let problem = RateProblem::fnr_at_fpr(0.3, Surrogate::sigmoid(3f64.ln()))?;
    let solved = |s: &[f64], y: &[u8]| -> Result<f64> {
        let labels = Labels::new(y)?;
        let t = problem.solve(s, &labels)?.t;
        Ok(problem.adjoint(s, &labels, &t)?.objective)
    };
    let want = [7.0 / 16.0, 7.0 / 8.0, 7.0 / 88.0, 7.0 / 16.0];
    let mut mean = 0.0;
    for (pair, want) in [[1.0, 0.0], [1.0, 2.0], [3.0, 0.0], [3.0, 2.0]].iter().zip(want) {
        let found = solved(pair, &[1, 0])?;
        assert!((found - want).abs() <= 1e-12, "{pair:?}: {found}");
        mean += found / 4.0;
    }
    assert!((mean - 161.0 / 352.0).abs() <= 1e-12, "{mean}");
    let whole = solved(&FOUR, &FOUR_Y)?;
    assert!((whole - 0.5).abs() <= 1e-12, "{whole}");
    Ok(())
}

#[test]
fn a_buffer_trades_lag_against_noise() -> Result<()> {
    let (beta, n) = (0.01, 512u64);
    let z = normal_quantile(1.0 - beta)?;
    let noise = beta * (1.0 - beta) / (n as f64 * normal_density(z).powi(2));
    let error = |v: f64, batches: f64| (v * (batches - 1.0)).powi(2) / 4.0 + noise / batches;
    let (v, batches, runs) = (0.01, 8u64, 1000u64);
    assert!((error(v, batches as f64) - 0.004628).abs() <= 5e-7, "{}", error(v, batches as f64));
    let mut square = 0.0;
    for run in 0..runs {
        // Scores rise by v a step, so those of a batch that is `age` steps old lie lower.
        let stream = SEED.named("buffer").stream(run);
        let s: Vec<f64> = (0..batches * n).map(|c| stream.normal(c) - v * (c / n) as f64).collect();
        square += (hard_threshold(&s, beta)? - z).powi(2) / runs as f64;
    }
    assert!((square / error(v, batches as f64) - 1.0).abs() <= 0.15, "mean squared error {square}");
    for (v, want) in [(0.01, 8.17), (0.001, 37.9)] {
        let best = (2.0 * noise / (v * v)).cbrt();
        assert!((best / want - 1.0).abs() <= 1e-3, "{best}");
        let least = (1..100).min_by(|a, b| error(v, f64::from(*a)).total_cmp(&error(v, f64::from(*b))));
        assert!((f64::from(least.unwrap()) - best).abs() <= 1.0, "{least:?} of whole numbers, near {best}");
    }
    Ok(())
}

#[test]
fn false_positives_of_a_transferred_threshold_are_beta_binomial() -> Result<()> {
    // Chances of 0 to m false positives among m new negatives, with k of n old ones above the threshold.
    let law = |n: usize, k: usize, m: usize| {
        let (a, b) = (k as f64 + 1.0, (n - k) as f64);
        let mut chances = vec![(0..m).map(|i| ((b + i as f64) / (a + b + i as f64)).ln()).sum::<f64>().exp()];
        for x in 0..m {
            let (up, down) = ((m - x) as f64 * (a + x as f64), (x + 1) as f64 * (b + (m - x - 1) as f64));
            chances.push(chances[x] * up / down);
        }
        chances
    };
    for (n, k, m) in [(50, 2, 30), (300, 3, 1000), (2000, 20, 2000)] {
        let chances = law(n, k, m);
        assert!((chances.iter().sum::<f64>() - 1.0).abs() <= 1e-10);
        let rates = (0..=m).map(|x| x as f64 / m as f64);
        let mean: f64 = rates.clone().zip(&chances).map(|(rate, chance)| rate * chance).sum();
        let variance: f64 = rates.zip(&chances).map(|(rate, chance)| (rate - mean).powi(2) * chance).sum();
        let (q, new) = ((k as f64 + 1.0) / (n as f64 + 1.0), m as f64);
        let want = q * (1.0 - q) * (1.0 / new + (1.0 - 1.0 / new) / (n as f64 + 2.0));
        assert!((mean - q).abs() <= 1e-10 && (variance - want).abs() <= 1e-10, "{mean}, {variance}");
        if n == 2000 {
            assert!((want.sqrt() - 0.003221).abs() <= 5e-7, "{}", want.sqrt());
        }
    }
    // The library's own threshold and count, on scores of any continuous law.
    let (n, m, runs) = (50, 30, 4000);
    let labels = Labels::new(vec![0u8; m])?;
    let mut counts = vec![0usize; m + 1];
    for run in 0..runs {
        let (old, new) = (SEED.named("old").stream(run), SEED.named("new").stream(run));
        let s: Vec<f64> = (0..n).map(|c| old.normal(c)).collect();
        let t = hard_threshold(&s, 0.05)?;
        let s: Vec<f64> = (0..m as u64).map(|c| new.normal(c)).collect();
        let rate = Rate::FalsePositive.minus(0.0).count(&s, &labels, &[t])?;
        counts[(rate * m as f64).round() as usize] += 1;
    }
    for (x, chance) in law(50, 2, m).into_iter().enumerate() {
        let share = counts[x] as f64 / runs as f64;
        // One count of slack, for chances so small that the normal law says nothing.
        let error = STANDARD_ERRORS * (chance / runs as f64).sqrt() + 1.0 / runs as f64;
        assert!((share - chance).abs() <= error, "{x} false positives: {share}, expected {chance}");
    }
    Ok(())
}

#[test]
fn the_confident_target_is_the_largest_that_keeps_its_promise() -> Result<()> {
    let (beta, delta) = (0.01, 0.05);
    for (n, k, chance) in [
        (299usize, 0usize, 0.049536),
        (500, 1, 0.039755),
        (1000, 4, 0.028686),
        (2000, 12, 0.038308),
        (5000, 38, 0.046566),
        (20_000, 176, 0.045296),
    ] {
        let target = confident_target(beta, n, delta)?;
        assert!((target * n as f64 - k as f64).abs() <= 1e-9, "{n} negatives: {target}");
        // Counting with this target leaves just k above.
        assert_eq!(allowed(n, target), k);
        assert!((excess(beta, n, k) - chance).abs() <= 5e-7, "{n} negatives: {}", excess(beta, n, k));
        assert!(excess(beta, n, k) <= delta && excess(beta, n, k + 1) > delta, "{n} negatives");
        let tail: f64 = binomial(n, beta).iter().take(k + 1).sum();
        assert!((tail - excess(beta, n, k)).abs() <= 1e-10, "{n} negatives: {tail}");
    }
    for (n, chance) in [(299, 0.4243), (1000, 0.5830), (2000, 0.5591), (5000, 0.5375), (20_000, 0.5188)] {
        let plain = excess(beta, n, allowed(n, beta));
        assert!((plain - chance).abs() <= 5e-5, "{n} negatives: {plain}");
    }
    Ok(())
}

#[test]
fn no_promise_is_possible_below_the_least_number_of_negatives() -> Result<()> {
    for (beta, delta, least) in [(0.01, 0.05, 299), (0.001, 0.01, 4603), (0.05, 0.05, 59)] {
        let bound = f64::ln(delta) / f64::ln_1p(-beta);
        assert_eq!(bound.ceil(), least as f64);
        assert_eq!(confident_target(beta, least, delta)?, 0.0);
        let error = confident_target(beta, least - 1, delta).unwrap_err();
        assert!(
            matches!(error, Error::Data { .. }) && error.to_string().contains(&least.to_string()),
            "{error}"
        );
    }
    assert!((excess(0.01, 298, 0) - 0.0500366).abs() <= 5e-8, "{}", excess(0.01, 298, 0));
    Ok(())
}
