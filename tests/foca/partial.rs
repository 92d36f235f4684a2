//! Heads on parts of the data: the same numbers by hand, and what cannot be measured.

use lastlayer::error::Error;
use lastlayer::foca::{Features, WeakFit, partial_heads};
use lastlayer::table::Cell;

use crate::{SEED, groups};

/// Means of a few accuracies.
const ROUNDING: f64 = 1e-12;
const FIT: WeakFit = WeakFit::RidgeSum(1.0);

/// Train and test features of four overlapping classes.
fn split() -> (Features, Features) {
    let all = groups(SEED.named("partial"), 4, 60, 6, 0.8);
    let rows = |from: usize, to: usize| all.take(&(from..to).collect::<Vec<_>>()).unwrap();
    (rows(0, 120), rows(120, 240))
}

#[test]
fn every_number_is_that_of_a_fit_by_hand() {
    let (train, test) = split();
    let heads = partial_heads(&train, &test, FIT, &[2, 10], 5, SEED).unwrap();
    assert_eq!(heads.full, FIT.fit(&train).unwrap().head.accuracy(&test).unwrap());
    assert_eq!(heads.parts.len(), 2);
    for part in &heads.parts {
        let by_hand = |i: u64| {
            let rows =
                train.rows().unwrap().draw(part.k, false, SEED.stream(part.k as u64).stream(i)).unwrap();
            FIT.fit(&train.take(&rows).unwrap()).unwrap().head.accuracy(&test).unwrap()
        };
        let accuracies: Vec<f64> = (0..5).map(by_hand).collect();
        assert_eq!(part.accuracies, accuracies);
        let mean = accuracies.iter().sum::<f64>() / 5.0;
        let variance = accuracies.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / 4.0;
        assert!((part.mean - mean).abs() < ROUNDING);
        assert!((part.standard_error - (variance / 5.0).sqrt()).abs() < ROUNDING);
        assert!(part.standard_error > 0.0);
        assert!((part.gap - (heads.full - mean)).abs() < ROUNDING);
        assert_eq!((heads.mean(part.k).unwrap(), heads.gap(part.k).unwrap()), (part.mean, part.gap));
    }
}

#[test]
fn more_samples_leave_a_smaller_gap_and_all_of_them_none() {
    let (train, test) = split();
    let heads = partial_heads(&train, &test, FIT, &[1, 5, 30], 20, SEED).unwrap();
    let gaps = [1, 5, 30].map(|k| heads.gap(k).unwrap());
    // Two standard errors are below 0.05 here, and the classes overlap.
    assert!(gaps[0] > gaps[1] + 0.05 && gaps[1] > 0.02, "{gaps:?}");
    // Each class has 30 rows: these heads saw what the full one saw, in another order.
    assert!(gaps[2].abs() < ROUNDING, "{gaps:?}");
}

#[test]
fn a_subset_depends_on_seed_and_size_alone() {
    let (train, test) = split();
    let run =
        |sizes: &[usize], subsets, seed| partial_heads(&train, &test, FIT, sizes, subsets, seed).unwrap();
    let (alone, among) = (run(&[3], 4, SEED), run(&[1, 3, 7], 6, SEED));
    assert_eq!(alone.parts[0].accuracies, among.parts[1].accuracies[..4]);
    assert_eq!(alone, run(&[3], 4, SEED));
    assert_ne!(alone.parts, run(&[3], 4, SEED.named("other")).parts);
}

#[test]
fn the_table_has_a_row_for_each_size_and_the_full_head_last() {
    let (train, test) = split();
    let heads = partial_heads(&train, &test, FIT, &[1, 5], 4, SEED).unwrap();
    let table = heads.table().unwrap();
    let part = &heads.parts[1];
    let accuracy = Cell::Interval { mean: part.mean, half: part.standard_error };
    assert_eq!(table.rows()[1], [Cell::from(5usize), accuracy, part.gap.into()]);
    assert_eq!(table.rows()[2], [Cell::from("all"), heads.full.into(), Cell::Empty]);
    // One subset has no standard error, and none is shown.
    let single = partial_heads(&train, &test, FIT, &[5], 1, SEED).unwrap();
    assert!(single.parts[0].standard_error.is_nan());
    assert_eq!(single.table().unwrap().rows()[0][1], Cell::Number(single.parts[0].mean));
}

#[test]
fn what_cannot_be_measured_is_an_error() {
    let (train, test) = split();
    let run = |sizes: &[usize], subsets| partial_heads(&train, &test, FIT, sizes, subsets, SEED);
    assert!(matches!(run(&[], 5), Err(Error::Config { .. })));
    assert!(matches!(run(&[5], 0), Err(Error::Config { .. })));
    assert!(matches!(run(&[0], 5), Err(Error::Config { .. })));
    assert!(matches!(run(&[5, 31], 5), Err(Error::Config { .. })), "a class has 30 rows");
    assert!(matches!(run(&[5], 2).unwrap().gap(4), Err(Error::Config { .. })));
    let narrow = groups(SEED, 4, 5, 3, 1.0);
    assert!(matches!(partial_heads(&train, &narrow, FIT, &[1], 1, SEED), Err(Error::Shape { .. })));
    let fewer = groups(SEED, 3, 5, 6, 1.0);
    assert!(matches!(partial_heads(&train, &fewer, FIT, &[1], 1, SEED), Err(Error::Shape { .. })));
    let absent = Features { classes: 5, ..train.clone() };
    let wider = Features { classes: 5, ..test.clone() };
    assert!(matches!(partial_heads(&absent, &wider, FIT, &[1], 1, SEED), Err(Error::Data { .. })));
    assert!(matches!(run(&[5], 2).unwrap().mean(6), Err(Error::Config { .. })));
}
