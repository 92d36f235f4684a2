//! Features, and random subsets of them.

use std::collections::{BTreeMap, HashSet};

use lastlayer::error::Error;
use lastlayer::foca::{ClassRows, Features};
use lastlayer::ndarray::{Array2, Array3, array};
use lastlayer::seed::Seed;

use super::{SEED, clouds, message};

/// Classes 0 and 1 with five and four rows.
const Y: [u32; 9] = [0, 1, 0, 1, 0, 1, 0, 1, 0];
const DRAWS: u64 = 10_000;

#[test]
fn features_keep_rows_and_labels() {
    let z = array![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    let features = Features::new(&z, &[2u32, 0, 1], 3).unwrap();
    assert_eq!((features.n(), features.d(), features.classes), (3, 2, 3));
    assert_eq!((&features.z, &features.y), (&z, &vec![2, 0, 1]));
    assert_eq!(features.one_hot(), array![[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);
    // Any numbers do, in any layout.
    let turned = array![[1.0f32, 3.0, 5.0], [2.0, 4.0, 6.0]].reversed_axes();
    assert_eq!(Features::new(&turned, &[2.0, 0.0, 1.0], 3).unwrap(), features);
    assert_eq!(Features::new(&turned, &[2i64, 0, 1], 3).unwrap(), features);
}

#[test]
fn features_that_are_not_a_matrix_are_errors() {
    let shape = |result| assert!(matches!(result, Err(Error::Shape { .. })));
    shape(Features::new(&[1.0, 2.0], &[0, 1], 2));
    shape(Features::new(&Array3::<f64>::zeros((2, 2, 2)), &[0, 1], 2));
    shape(Features::new(&1.0, &[0], 2));
    shape(Features::new(&Array2::<f64>::zeros((0, 3)), &Vec::<u32>::new(), 2));
    shape(Features::new(&Array2::<f64>::zeros((3, 0)), &[0, 1, 1], 2));
    let z = Array2::<f64>::zeros((3, 2));
    shape(Features::new(&z, &[0, 1], 2));
    shape(Features::new(&z, &[0, 1, 0, 1], 2));
    shape(Features::new(&z, &array![[0, 1, 0]], 2));
}

#[test]
fn numbers_that_are_not_finite_are_named_by_their_row() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut z = Array2::zeros((4, 3));
        z[[2, 1]] = bad;
        let result = Features::new(&z, &[0, 1, 0, 1], 2);
        assert!(matches!(result, Err(Error::Data { .. })));
        assert!(message(result).contains("row 2"));
    }
}

#[test]
fn labels_that_are_no_class_are_named() {
    let z = Array2::<f64>::zeros((3, 2));
    for bad in [0.5, -1.0, 2.0, 1e300, f64::NAN, f64::INFINITY] {
        let result = Features::new(&z, &[0.0, bad, 1.0], 2);
        assert!(matches!(result, Err(Error::Data { .. })), "{bad}");
        assert!(message(result).contains("row 1"));
    }
    assert!(Features::new(&z, &[0, 0, 0], 0).is_err());
    // -0.0 is zero.
    assert_eq!(Features::new(&z, &[0.0, -0.0, 1.0], 2).unwrap().y, [0, 0, 1]);
}

#[test]
fn rows_are_taken_in_order_and_may_repeat() {
    let features = clouds(6, 2, 3, SEED);
    let taken = features.take(&[4, 0, 4]).unwrap();
    assert_eq!(taken.y, [1, 0, 1]);
    assert_eq!(taken.classes, 3);
    assert!(taken.z.row(0) == features.z.row(4) && taken.z.row(1) == features.z.row(0));
    assert_eq!(taken.z.row(0), taken.z.row(2));
    assert!(matches!(features.take(&[0, 6]), Err(Error::Config { .. })));
    assert!(matches!(features.take(&[]), Err(Error::Shape { .. })));
}

#[test]
fn a_class_without_a_sample_is_an_error() {
    let result = ClassRows::new(&[0, 2, 2], 3);
    assert!(matches!(result, Err(Error::Data { .. })));
    assert!(message(result).contains("class 1"));
    assert!(ClassRows::new(&[0, 3], 2).is_err());
    assert!(ClassRows::new(&[], 1).is_err());
    assert!(Features { classes: 4, ..clouds(9, 2, 3, SEED) }.rows().is_err());
    assert_eq!(clouds(7, 2, 3, SEED).rows().unwrap().counts(), [3, 2, 2]);
}

#[test]
fn a_draw_holds_k_rows_of_every_class() {
    let rows = ClassRows::new(&Y, 2).unwrap();
    assert_eq!(rows.counts(), [5, 4]);
    for k in 1..=4 {
        for seed in (0..200).map(|i| SEED.stream(i)) {
            let drawn = rows.draw(k, false, seed).unwrap();
            assert_eq!(drawn.len(), 2 * k);
            assert!(drawn[..k].iter().all(|row| Y[*row] == 0) && drawn[k..].iter().all(|row| Y[*row] == 1));
            assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), 2 * k, "a row came twice");
        }
    }
}

#[test]
fn a_seed_decides_the_draw() {
    let rows = ClassRows::new(&(0..60).map(|i| i % 3).collect::<Vec<u32>>(), 3).unwrap();
    for replacement in [false, true] {
        let draw = |seed: Seed| rows.draw(5, replacement, seed).unwrap();
        assert_eq!(draw(SEED), draw(SEED));
        let different: HashSet<Vec<usize>> = (0..100).map(|i| draw(SEED.stream(i))).collect();
        assert_eq!(different.len(), 100);
        // The classes draw apart: not the same places in each.
        let drawn = draw(SEED);
        let places =
            |class: usize| drawn[5 * class..5 * (class + 1)].iter().map(|row| row / 3).collect::<Vec<_>>();
        assert!(places(0) != places(1) && places(1) != places(2));
    }
}

#[test]
fn more_than_a_class_holds_needs_replacement() {
    let rows = ClassRows::new(&Y, 2).unwrap();
    let result = rows.draw(5, false, SEED);
    assert!(matches!(result, Err(Error::Config { .. })));
    let text = message(result);
    assert!(text.contains("at most 4") && text.contains("class 1") && text.contains("replacement"), "{text}");
    let drawn = rows.draw(20, true, SEED).unwrap();
    assert_eq!(drawn.len(), 40);
    assert!(drawn[..20].iter().all(|row| Y[*row] == 0) && drawn[20..].iter().all(|row| Y[*row] == 1));
    assert_eq!(
        drawn.iter().collect::<HashSet<_>>().len(),
        9,
        "20 draws of 5 rows miss one with probability 0.06"
    );
    for replacement in [false, true] {
        assert!(matches!(rows.draw(0, replacement, SEED), Err(Error::Config { .. })));
    }
}

/// Σ (count − expected)² / expected over `cells` outcomes that are as likely as each other.
fn chi_square<T: Ord>(outcomes: impl Iterator<Item = T>, cells: usize) -> f64 {
    let mut counts = BTreeMap::new();
    let mut total = 0;
    for outcome in outcomes {
        *counts.entry(outcome).or_insert(0) += 1;
        total += 1;
    }
    assert!(counts.len() <= cells, "{} outcomes where {cells} are possible", counts.len());
    let expected = f64::from(total) / cells as f64;
    let missing = (cells - counts.len()) as f64 * expected;
    missing + counts.values().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum::<f64>()
}

fn draws(k: usize, replacement: bool) -> impl Iterator<Item = Vec<usize>> {
    let rows = ClassRows::new(&Y, 2).unwrap();
    (0..DRAWS).map(move |i| rows.draw(k, replacement, SEED.named("uniform").stream(i)).unwrap())
}

#[test]
fn every_subset_is_as_likely_as_any_other() {
    // Exceeded with probability 1e-3 by a chi-square variable with 9, 5, 19 and 24 degrees of freedom.
    let [nine, five, nineteen, twenty_four] = [27.88, 20.52, 43.82, 51.18];
    let sorted = |rows: &[usize]| {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        rows
    };
    // 10 pairs of five rows, 10 triples, 6 pairs of four.
    assert!(chi_square(draws(2, false).map(|d| sorted(&d[..2])), 10) < nine);
    assert!(chi_square(draws(3, false).map(|d| sorted(&d[..3])), 10) < nine);
    assert!(chi_square(draws(2, false).map(|d| sorted(&d[2..])), 6) < five);
    // The classes are independent: 5 · 4 pairs of one row each.
    assert!(chi_square(draws(1, false), 20) < nineteen);
    // With replacement, 5² lists of two.
    assert!(chi_square(draws(2, true).map(|d| d[..2].to_vec()), 25) < twenty_four);
    // The test sees a class of which one row is left out.
    assert!(chi_square(draws(2, false).map(|d| sorted(&d[..2])).filter(|d| d[0] > 0), 10) > nine);
}

#[test]
fn every_row_is_drawn_as_often() {
    // Exceeded with probability 1e-3 by a chi-square variable with 4 and 3 degrees of freedom. Rows of a draw without
    // replacement exclude each other, which makes the statistic smaller.
    let [four, three] = [18.47, 16.27];
    for replacement in [false, true] {
        for k in 1..=3 {
            assert!(chi_square(draws(k, replacement).flat_map(|d| d[..k].to_vec()), 5) < four);
            assert!(chi_square(draws(k, replacement).flat_map(|d| d[k..].to_vec()), 4) < three);
        }
    }
}
