use super::*;
use crate::device::device;

#[test]
fn auc_counts_pairs_with_ties_half() {
    for case in 0..200 {
        let (s, y) = tied(case, 2 + case as usize % 40);
        assert_eq!(Scores::new(&s, &y).unwrap().auc(), auc_by_pairs(&s, &y), "case {case}");
    }
}

#[test]
fn auc_of_many_scores_is_counted_the_same_on_every_path() {
    // Long enough to be split among threads in sorting and in counting; on a grid, so that ties cross the chunks.
    let n = 300_000u64;
    let y: Vec<bool> = (0..n).map(|c| SEED.uniform(c) < 0.4).collect();
    let s: Vec<f64> = (0..n).map(|c| (SEED.stream(1).normal(c) * 500.0).round() / 500.0).collect();
    let scores = Scores::new(&s, &y).unwrap();
    let (positive, negative) = (scores.positives(), scores.negatives());
    assert!(positive.windows(2).into_iter().chain(negative.windows(2)).all(|w| w[0] <= w[1]));
    let negative = negative.to_vec();
    let doubled: usize = positive
        .iter()
        .map(|p| negative.partition_point(|n| n < p) + negative.partition_point(|n| n <= p))
        .sum();
    let pairs = 2.0 * positive.len() as f64 * negative.len() as f64;
    assert_eq!(scores.auc(), doubled as f64 / pairs);
}

#[test]
fn ranking_metrics_equal_scikit_learn() {
    let o = oracle("binary");
    let scores = Scores::new(list(&o["s"]), list(&o["y"])).unwrap();
    assert_near(scores.auc(), number(&o["auc"]), ROUNDING);
    assert_near(scores.average_precision(), number(&o["average_precision"]), ROUNDING);
    for row in o["partial_auc_standardised"].as_array().unwrap() {
        let row = list(row);
        assert_near(scores.partial_auc_standardised(row[0]).unwrap(), row[1], ROUNDING);
    }
    let roc = scores.roc();
    assert_lists_close(&roc.fpr, &list(&o["roc"][0]), ROUNDING);
    assert_lists_close(&roc.tpr, &list(&o["roc"][1]), ROUNDING);
    let pr = scores.precision_recall();
    assert_lists_close(&pr.precision, &list(&o["precision_recall"][0]), ROUNDING);
    assert_lists_close(&pr.recall, &list(&o["precision_recall"][1]), ROUNDING);
}

#[test]
fn curves_hold_the_counts_of_their_own_thresholds() {
    for case in 0..50 {
        let (s, y) = tied(case, 30);
        let scores = Scores::new(&s, &y).unwrap();
        let (m, n) = (scores.n_positive() as f64, scores.n_negative() as f64);
        let roc = scores.roc();
        assert_eq!(roc.thresholds.len(), all_thresholds(&s).len());
        assert_eq!((roc.fpr[0], roc.tpr[0]), (0.0, 0.0));
        for (i, t) in roc.thresholds.iter().enumerate() {
            let (tp, fp) = counts_above(&s, &y, *t);
            assert_eq!((roc.tpr[i], roc.fpr[i]), (tp as f64 / m, fp as f64 / n));
        }
        let pr = scores.precision_recall();
        for (i, t) in pr.thresholds.iter().enumerate() {
            let (tp, fp) = counts_above(&s, &y, *t);
            assert_eq!((pr.recall[i], pr.precision[i]), (tp as f64 / m, tp as f64 / (tp + fp) as f64));
        }
    }
}

#[test]
fn partial_auc_is_the_mean_height_of_the_curve() {
    let (s, y) = tied(3, 60);
    let scores = Scores::new(&s, &y).unwrap();
    assert_near(scores.partial_auc(0.0, 1.0).unwrap(), scores.auc(), ROUNDING);
    let parts = [(0.0, 0.13), (0.13, 0.5), (0.5, 1.0)];
    let sum: f64 = parts.iter().map(|(a, b)| (b - a) * scores.partial_auc(*a, *b).unwrap()).sum();
    assert_near(sum, scores.auc(), ROUNDING);
    // The midpoint rule on a piecewise linear curve errs only in cells with a kink: at most 60 of 100 000, each by
    // less than a cell.
    let roc = scores.roc();
    let height = |x: f64| {
        let i = roc.fpr.partition_point(|f| *f <= x);
        let (x0, x1, y0, y1) = (roc.fpr[i - 1], roc.fpr[i], roc.tpr[i - 1], roc.tpr[i]);
        y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    };
    let cells = 100_000;
    let mean = (0..cells).map(|i| height(0.1 + 0.3 * (f64::from(i) + 0.5) / f64::from(cells))).sum::<f64>();
    assert!((mean / f64::from(cells) - scores.partial_auc(0.1, 0.4).unwrap()).abs() < 1e-6);
}

#[test]
fn best_f_and_precision_at_recall_equal_a_search_over_all_thresholds() {
    for case in 0..50 {
        let (s, y) = tied(case, 25);
        let scores = Scores::new(&s, &y).unwrap();
        let m = scores.n_positive();
        let cuts: Vec<(f64, usize, usize)> = all_thresholds(&s)
            .into_iter()
            .map(|t| (t, counts_above(&s, &y, t)))
            .map(|(t, (tp, fp))| (t, tp, fp))
            .collect();
        for beta in [0.5, 1.0, 2.0] {
            let b2: f64 = beta * beta;
            let f = |tp: usize, fp: usize| {
                (1.0 + b2) * tp as f64 / ((1.0 + b2) * tp as f64 + b2 * (m - tp) as f64 + fp as f64)
            };
            let want = cuts.iter().map(|(_, tp, fp)| f(*tp, *fp)).fold(0.0, f64::max);
            let (threshold, value) = scores.best_f(beta).unwrap();
            assert_near(value, want, ROUNDING);
            assert_near(scores.confusion(threshold).unwrap().f_beta(beta).unwrap(), value, ROUNDING);
        }
        let called = || cuts.iter().filter(|(_, tp, fp)| tp + fp > 0);
        let precision = |(_, tp, fp): &&(f64, usize, usize)| *tp as f64 / (tp + fp) as f64;
        for target in [0.0, 0.2, 0.5, 0.9, 1.0] {
            let good = called().filter(|c| c.1 as f64 / m as f64 >= target);
            let want = good.map(|c| precision(&c)).fold(0.0, f64::max);
            assert_eq!(scores.precision_at_recall(target).unwrap(), want);
            let good = called().filter(|c| precision(c) >= target);
            match good.map(|c| c.1).max() {
                Some(tp) => assert_eq!(scores.recall_at_precision(target).unwrap(), tp as f64 / m as f64),
                None => assert_config(vec![scores.recall_at_precision(target)]),
            }
        }
    }
}

#[test]
fn the_best_balanced_threshold_is_that_of_a_count() {
    for seed in 0..20 {
        let (s, y) = tied(seed, 40);
        let scores = Scores::new(&s, &y).unwrap();
        let balanced = |t: f64| scores.confusion(t).unwrap().balanced_accuracy().unwrap();
        let want = s.iter().chain(&[f64::INFINITY]).map(|t| balanced(*t)).fold(0.0, f64::max);
        let (threshold, value) = scores.best_balanced();
        assert_near(value, want, ROUNDING);
        assert_near(balanced(threshold), want, ROUNDING);
        let higher = s.iter().filter(|t| **t > threshold);
        assert!(higher.map(|t| balanced(*t)).all(|other| other < want - ROUNDING), "the highest of equals");
    }
    // Scores that rank every negative above every positive: none is called positive.
    assert_eq!(Scores::new([0.0, 1.0], [1, 0]).unwrap().best_balanced(), (f64::INFINITY, 0.5));
}

#[test]
fn auc_is_invariant_as_a_ranking_must_be() {
    let (s, y) = tied(11, 80);
    let auc = |s: &[f64], y: &[u8]| Scores::new(s, y).unwrap().auc();
    let want = auc(&s, &y);
    let map = |f: fn(f64) -> f64| s.iter().map(|v| f(*v)).collect::<Vec<f64>>();
    assert_eq!(auc(&map(|v| v + 1000.0), &y), want, "shift");
    assert_eq!(auc(&map(f64::exp), &y), want, "monotone map");
    assert_eq!(auc(&map(|v| v * v * v - 300.0), &y), want, "monotone map with negative values");
    let swapped: Vec<u8> = y.iter().map(|y| 1 - y).collect();
    assert_eq!(auc(&map(|v| -v), &swapped), want, "classes swapped and scores negated");
    assert_near(auc(&s, &swapped), 1.0 - want, ROUNDING);
    assert_eq!(auc(&s.repeat(3), &y.repeat(3)), want, "sample repeated");
    let order = SEED.permutation(s.len());
    let (s2, y2): (Vec<f64>, Vec<u8>) = order.iter().map(|i| (s[*i], y[*i])).unzip();
    assert_eq!(Scores::new(s2, y2).unwrap(), Scores::new(s, y).unwrap(), "order of the input");
}

#[test]
fn zero_ties_with_negative_zero_and_extremes_are_ranked() {
    assert_eq!(Scores::new([0.0, -0.0], [1, 0]).unwrap().auc(), 0.5);
    let s = [f64::MAX, f64::MIN, 5e-324, -5e-324, 0.0, -1.0];
    assert_eq!(Scores::new(s, [1, 0, 1, 0, 1, 0]).unwrap().auc(), 1.0);
}

#[test]
fn auc_and_fnr_of_gaussians_meet_their_closed_forms() {
    let n = 200_000;
    for (i, gap) in [0.0, 1.0, 2.5].into_iter().enumerate() {
        let scores = gaussians(SEED.stream(i as u64), n, n, gap);
        let want = distribution::normal_cdf(gap / 2f64.sqrt());
        // The variance of an AUC is at most AUC(1 − AUC)/min(n₊, n₋).
        let se = (want * (1.0 - want) / n as f64).sqrt();
        assert!(
            (scores.auc() - want).abs() < STANDARD_ERRORS * se,
            "gap {gap}: {} against {want}",
            scores.auc()
        );
        for target in [0.01, 0.05, 0.1] {
            let z = distribution::normal_quantile(1.0 - target).unwrap();
            let want = distribution::normal_cdf(z - gap);
            // Binomial error of the positives, and that of the threshold through the slope of the ROC curve.
            let density = |x| distribution::normal_density(x);
            let slope = density(z - gap) / density(z);
            let variance = want * (1.0 - want) + slope * slope * target * (1.0 - target);
            let got = scores.fnr_at_fpr(target).unwrap();
            let se = (variance / n as f64).sqrt();
            assert!((got - want).abs() < STANDARD_ERRORS * se, "gap {gap}, {target}: {got} against {want}");
        }
    }
}

#[test]
fn all_kinds_of_numbers_give_the_same_scores() -> Result<()> {
    let want = Scores::new([0.5, 1.5, 2.5, 0.25], [0, 1, 0, 1])?;
    let s = Tensor::new(&[0.5f32, 1.5, 2.5, 0.25], device())?;
    let y = Tensor::new(&[0u8, 1, 0, 1], device())?;
    assert_eq!(Scores::new(&s, &y)?, want);
    assert_eq!(Scores::new(s.reshape((4, 1))?, vec![false, true, false, true])?, want);
    assert_eq!(Scores::new(ndarray::arr1(&[0.5, 1.5, 2.5, 0.25]).view(), [0i64, 1, 0, 1].as_slice())?, want);
    Ok(())
}

#[test]
fn bad_scores_are_refused_with_advice() {
    let new = |s: &[f64], y: &[f64]| Scores::new(s, y);
    assert_config(vec![
        new(&[1.0, f64::NAN], &[0.0, 1.0]),
        new(&[f64::INFINITY, 0.0], &[0.0, 1.0]),
        new(&[1.0, 2.0], &[0.0, 0.0]),
        new(&[1.0, 2.0], &[1.0, 1.0]),
    ]);
    assert_data(vec![
        new(&[1.0, 2.0], &[-1.0, 1.0]),
        new(&[1.0, 2.0], &[0.0, 2.0]),
        new(&[1.0, 2.0], &[0.0, f64::NAN]),
    ]);
    assert_shape(vec![new(&[], &[]), new(&[1.0], &[0.0, 1.0]), new(&[1.0, 2.0, 3.0], &[0.0, 1.0])]);
    let message = new(&[1.0, f64::NAN], &[0.0, 1.0]).unwrap_err().to_string();
    assert!(message.contains("NaN at index 1"), "{message}");
    let message = new(&[1.0, 2.0], &[0.0, 0.0]).unwrap_err().to_string();
    assert!(message.contains("number of positive samples is 0"), "{message}");
}

#[test]
fn bad_targets_of_curves_are_refused() {
    let scores = Scores::new([1.0, 2.0, 3.0], [0, 1, 0]).unwrap();
    let bad = [f64::NAN, -0.1, 1.1];
    assert_config(bad.iter().map(|v| scores.precision_at_recall(*v)).collect());
    assert_config(bad.iter().map(|v| scores.recall_at_precision(*v)).collect());
    assert_config([f64::NAN, 0.0, 1.5].iter().map(|v| scores.partial_auc_standardised(*v)).collect());
    let ranges = [(0.5, 0.5), (0.6, 0.5), (-0.1, 0.5), (0.0, 1.1), (f64::NAN, 1.0)];
    assert_config(ranges.iter().map(|(a, b)| scores.partial_auc(*a, *b)).collect());
    assert_config([0.0, -1.0, f64::INFINITY].iter().map(|b| scores.best_f(*b)).collect());
    assert_config(vec![scores.confusion(f64::NAN)]);
    // The negative 3 is on top, so no threshold is more precise than one half.
    let message = scores.recall_at_precision(0.9).unwrap_err().to_string();
    assert!(message.contains("at most 0.5"), "{message}");
}

#[test]
fn curves_can_be_drawn_and_results_shown() -> Result<()> {
    let (s, y) = tied(2, 40);
    let scores = Scores::new(&s, &y)?;
    let figure = curves(&[scores.roc().curve("ours"), scores.roc().curve("same")])?;
    assert!(figure.svg().contains("<svg"));
    scores.precision_recall().figure()?;
    scores.roc().figure()?;
    assert!(format!("{scores:?}").contains("positive"));
    Ok(())
}
