//! Numbers of the errata that belong to no chapter.

use lastlayer::prelude::*;

#[test]
fn the_printed_denominators_exchange_the_two_rates() -> Result<()> {
    // Ten positives and ninety negatives, five of each decided wrongly.
    let y: Vec<u8> = (0..100).map(|i| u8::from(i < 10)).collect();
    let s: Vec<f64> = (0..100).map(|i| if (5..15).contains(&i) { 1.0 } else { -1.0 }).collect();
    let confusion = Scores::new(&s, &y)?.confusion(0.0)?;
    let [tn, fp, missed, tp] = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|cell| confusion.counts()[cell] as f64);
    let percent = |rate: f64| (1000.0 * rate).round() / 10.0;
    assert_eq!([confusion.fnr()?, confusion.fpr()?].map(percent), [50.0, 5.6]);
    assert_eq!([missed / (tn + fp), fp / (tp + missed)].map(percent), [5.6, 50.0]);
    Ok(())
}

#[test]
fn a_score_at_the_threshold_is_decided_once() -> Result<()> {
    let (s, t) = ([1.0, 3.0, 0.0, 2.0], 1.0);
    let labels = Labels::new([1, 1, 0, 0])?;
    // As printed, the positive at 1 is found, s ≥ t, and missed, s ≤ t.
    let count = |holds: fn(f64, f64) -> bool| s[..2].iter().filter(|s| holds(**s, t)).count();
    assert_eq!((count(|s, t| s >= t), count(|s, t| s <= t)), (2, 1));
    let rates = [Rate::TruePositive, Rate::FalseNegative].map(|rate| rate.minus(0.0).count(s, &labels, &[t]));
    let [found, missed] = rates;
    assert_eq!(found? + missed?, 1.0);
    Ok(())
}

#[test]
fn a_link_changes_smooth_rates() {
    // Scores 0 and 2 around the threshold 1, and the same three as probabilities.
    let sigmoid = Surrogate::sigmoid(1.0);
    let link = |s: f64| sigmoid.value(s);
    for (below, above, t, smooth) in
        [(0.0, 2.0, 1.0, [0.27, 0.73]), (link(0.0), link(2.0), link(1.0), [0.44, 0.54])]
    {
        for (s, want) in [below, above].into_iter().zip(smooth) {
            let got = sigmoid.value(s - t);
            assert!((got - want).abs() < 0.005, "{s} at {t}: {got}");
        }
    }
    assert!(
        (link(0.0) - 0.5).abs() < 1e-15
            && (link(2.0) - 0.88).abs() < 0.005
            && (link(1.0) - 0.73).abs() < 0.005
    );
}

#[test]
fn a_counted_rate_has_no_threshold_or_a_whole_interval_of_them() -> Result<()> {
    let rate = |negatives: &[f64], t: f64| -> Result<f64> {
        let s = [negatives, &[9.0]].concat();
        let y: Vec<u8> = s.iter().map(|s| u8::from(*s == 9.0)).collect();
        Scores::new(&s, &y)?.confusion(t)?.fpr()
    };
    for i in -10..40 {
        let t = f64::from(i) / 10.0;
        assert_ne!(rate(&[0.0, 1.0, 2.0], t)?, 0.5, "three negatives at {t}");
        assert_ne!(rate(&[0.0, 1.0], t)?, 0.3, "two negatives at {t}");
        assert_eq!(rate(&[0.0, 1.0], t)? == 0.5, (0.0..1.0).contains(&t), "two negatives at {t}");
    }
    // What is meant: the lowest threshold that keeps the rate.
    assert_eq!(Scores::new([0.0, 1.0, 9.0], [0, 0, 1])?.threshold_at_fpr(0.5)?, 0.0);
    Ok(())
}

#[test]
fn the_first_point_of_the_roc_with_a_rate_misses_more_than_the_lowest_threshold() -> Result<()> {
    let (positives, negatives, target) = ([4.0, 3.0, 1.0], [5.0, 2.0], 0.5);
    // The earlier code goes down the scores, s ≥ t, and takes the first of those with the largest admissible rate.
    let descending = [5.0, 4.0, 3.0, 2.0, 1.0];
    let rate = |t: f64| negatives.iter().filter(|s| **s >= t).count() as f64 / 2.0;
    let most = descending.map(rate).into_iter().filter(|rate| *rate <= target).fold(0.0, f64::max);
    let first = descending.into_iter().find(|t| rate(*t) == most).unwrap();
    let found = |t: f64| positives.iter().filter(|s| **s > t).count();
    assert_eq!((first, found(first)), (5.0, 0));
    let lowest = Scores::new([4.0, 3.0, 1.0, 5.0, 2.0], [1, 1, 1, 0, 0])?.threshold_at_fpr(target)?;
    assert_eq!((lowest, found(lowest)), (2.0, 2));
    Ok(())
}
