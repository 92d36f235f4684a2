//! How well attributes can be read off codes: the counts of the library, and the equations of "What fidelity measures".

use crate::device::device;
use std::cmp::Ordering;
use std::slice::from_ref;

use candle_core::Tensor;
use lastlayer::data::critters::{ATTRIBUTES, Critters, Preset};
use lastlayer::data::{Dataset, Part};
use lastlayer::distribution::{normal_cdf, normal_quantile};
use lastlayer::error::Error;
use lastlayer::intersection::{
    AttributeMatch, AttributeMatches, Binarise, Null, Score, class_oracle, floor, rank_p_value,
};
use lastlayer::seed::Seed;
use lastlayer::tree::Codes;
use ndarray::Array2;

use super::{class_functions, message, near};

const SEED: Seed = Seed::new(2108);

/// A few operations on numbers of size one.
const ROUNDING: f64 = 1e-14;
/// Half of the last digit where the chapter prints three.
const PRINTED: f64 = 5e-4;
/// Half of the last digit of a percentage with one decimal.
const PER_CENT: f64 = 0.05;
/// Half of the last digit of a difference of numbers that are printed with two decimals.
const TABLE: f64 = 5e-3;
/// Standard errors that a mean may be off. A test compares up to a dozen means, and its seed is fixed.
const ERRORS: f64 = 4.0;

const BINARISE: [Binarise; 2] = [Binarise::Equality, Binarise::Threshold];
const SCORES: [Score; 2] = [Score::F1, Score::Mcc];

// Data

/// Random codes, each level as likely as the others.
fn noise(n: usize, d: usize, levels: usize, seed: Seed) -> Codes {
    let values = (0..n * d).map(|i| seed.below(i as u64, levels).unwrap() as u8).collect();
    Codes::from_bytes(values, d, levels).unwrap()
}

/// One feature from a list of codes.
fn feature(values: &[u8], levels: usize) -> Codes {
    Codes::from_bytes(values.to_vec(), 1, levels).unwrap()
}

/// Features side by side.
fn beside(columns: &[Vec<u8>], levels: usize) -> Codes {
    let values = (0..columns[0].len()).flat_map(|i| columns.iter().map(move |column| column[i])).collect();
    Codes::from_bytes(values, columns.len(), levels).unwrap()
}

/// Draws of a coin.
fn coins(n: usize, p: f64, seed: Seed) -> Vec<bool> {
    (0..n).map(|i| seed.uniform(i as u64) < p).collect()
}

/// Exactly this many rows out of n, at random.
fn exactly(positives: usize, n: usize, seed: Seed) -> Vec<bool> {
    let mut rows = vec![false; n];
    seed.permutation(n)[..positives].iter().for_each(|row| rows[*row] = true);
    rows
}

/// The first rows have it, the others do not.
fn first(positives: usize, n: usize) -> Vec<bool> {
    (0..n).map(|row| row < positives).collect()
}

fn table(columns: &[Vec<bool>]) -> Array2<bool> {
    Array2::from_shape_fn((columns[0].len(), columns.len()), |(row, column)| columns[column][row])
}

fn names(columns: usize) -> Vec<String> {
    (0..columns).map(|column| format!("a{column}")).collect()
}

/// A set that has these attributes and labels, and nothing to look at.
fn labelled(columns: &[Vec<bool>], labels: &[u32], k: usize) -> Dataset {
    let n = labels.len();
    let x = Tensor::zeros((n, 1), candle_core::DType::F32, device()).unwrap();
    let y = Tensor::new(labels, device()).unwrap();
    let flat: Vec<f32> = table(columns).iter().map(|a| f32::from(u8::from(*a))).collect();
    let a = Tensor::from_vec(flat, (n, columns.len()), device()).unwrap();
    let classes: Vec<String> = (0..k).map(|class| format!("c{class}")).collect();
    Dataset::new("rows", x, y, classes).unwrap().with_attributes(a, names(columns.len())).unwrap()
}

fn set(columns: &[Vec<bool>]) -> Dataset {
    labelled(columns, &vec![0; columns[0].len()], 1)
}

fn measure(codes: &Codes, columns: &[Vec<bool>], binarise: Binarise, score: Score) -> AttributeMatches {
    AttributeMatches::measure(codes, &table(columns), &names(columns.len()), binarise, score).unwrap()
}

/// The value of one attribute.
fn value(codes: &Codes, f: &[bool], binarise: Binarise, score: Score) -> f64 {
    measure(codes, &[f.to_vec()], binarise, score).matched[0].value
}

fn not(f: &[bool]) -> Vec<bool> {
    f.iter().map(|f| !f).collect()
}

fn prevalence(f: &[bool]) -> f64 {
    f.iter().filter(|f| **f).count() as f64 / f.len() as f64
}

// The same measures, from their words

/// Harmonic mean of precision and recall, zero if there is no hit.
fn f1(f: &[bool], g: &[bool]) -> f64 {
    let share = |of: &[bool], among: &[bool]| {
        let among: Vec<usize> = (0..among.len()).filter(|row| among[*row]).collect();
        among.iter().filter(|row| of[**row]).count() as f64 / among.len().max(1) as f64
    };
    let (precision, recall) = (share(f, g), share(g, f));
    if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 }
}

fn r_hat(f: &[bool], g: &[bool]) -> f64 {
    f1(f, g).max(f1(f, &not(g)))
}

/// Pearson's coefficient of two lists of zeros and ones, zero if one of them is constant.
fn correlation(f: &[bool], g: &[bool]) -> f64 {
    let (p, q) = (prevalence(f), prevalence(g));
    let number = |b: bool| f64::from(u8::from(b));
    let mean = |h: &dyn Fn(usize) -> f64| (0..f.len()).map(h).sum::<f64>() / f.len() as f64;
    let covariance = mean(&|i| (number(f[i]) - p) * (number(g[i]) - q));
    let variances = mean(&|i| (number(f[i]) - p).powi(2)) * mean(&|i| (number(g[i]) - q).powi(2));
    if variances > 0.0 { covariance / variances.sqrt() } else { 0.0 }
}

fn accuracy(f: &[bool], g: &[bool]) -> f64 {
    f.iter().zip(g).filter(|(f, g)| f == g).count() as f64 / f.len() as f64
}

/// Where a test of the library holds.
fn test(codes: &Codes, feature: usize, code: u8, binarise: Binarise) -> Vec<bool> {
    let holds = |v: u8| match binarise {
        Binarise::Equality => v == code,
        Binarise::Threshold => v >= code,
    };
    codes.column(feature).map(holds).collect()
}

/// Every test in the order of features and then codes. A threshold of zero always holds and is none.
fn tests(codes: &Codes, binarise: Binarise) -> Vec<(usize, u8)> {
    let from = if binarise == Binarise::Threshold { 1 } else { 0 };
    (0..codes.d()).flat_map(|j| (from..codes.levels()).map(move |c| (j, c as u8))).collect()
}

/// Sizes and overlap of an attribute and a test.
fn counts(f: &[bool], g: &[bool]) -> [i128; 4] {
    let count = |h: &dyn Fn(usize) -> bool| (0..f.len()).filter(|i| h(*i)).count() as i128;
    [f.len() as i128, count(&|i| f[i]), count(&|i| g[i]), count(&|i| f[i] && g[i])]
}

/// A score as a fraction of whole numbers, so that equals are equal: F1 itself, or the square of a correlation but for
/// what all tests share.
fn exact(score: Score, [n, positives, size, both]: [i128; 4]) -> (i128, i128) {
    match score {
        Score::F1 => {
            let plain = (2 * both, size + positives);
            let negated = (2 * (positives - both), n - size + positives);
            if plain.0 * negated.1 >= negated.0 * plain.1 { plain } else { negated }
        }
        Score::Mcc if size == 0 || size == n => (0, 1),
        Score::Mcc => ((n * both - size * positives).pow(2), size * (n - size)),
    }
}

fn compare(a: (i128, i128), b: (i128, i128)) -> Ordering {
    (a.0 * b.1).cmp(&(b.0 * a.1))
}

/// The first of the best tests, by counting row after row.
fn naive(codes: &Codes, f: &[bool], binarise: Binarise, score: Score) -> (usize, u8) {
    let all = tests(codes, binarise);
    let of = |(j, c): &(usize, u8)| exact(score, counts(f, &test(codes, *j, *c, binarise)));
    let mut best = all[0];
    for next in &all[1..] {
        if compare(of(next), of(&best)) == Ordering::Greater {
            best = *next;
        }
    }
    best
}

/// The score of a match, from the rows.
fn score_of(codes: &Codes, f: &[bool], m: &AttributeMatch, binarise: Binarise, score: Score) -> f64 {
    let g = test(codes, m.feature, m.code, binarise);
    let g = if m.inverted { not(&g) } else { g };
    match score {
        Score::F1 => f1(f, &g),
        Score::Mcc => correlation(f, &g),
    }
}

/// F1 as the library counts it for one test and nothing else: a match made by hand, asked for again.
fn library_f1(f: &[bool], g: &[bool]) -> f64 {
    let codes = feature(&g.iter().map(|g| u8::from(*g)).collect::<Vec<_>>(), 2);
    let matched = AttributeMatch {
        name: "a0".into(),
        column: 0,
        prevalence: 0.5,
        feature: 0,
        code: 1,
        inverted: false,
        value: 0.0,
    };
    let by_hand = AttributeMatches {
        binarise: Binarise::Equality,
        score: Score::F1,
        matched: vec![matched],
        excluded: vec![],
    };
    by_hand.again(&codes, &set(&[f.to_vec()])).unwrap().matched[0].value
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard error of a mean.
fn error(values: &[f64]) -> f64 {
    let (m, n) = (mean(values), values.len() as f64);
    (values.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / (n - 1.0) / n).sqrt()
}

// Definition

#[test]
fn the_example_can_be_counted_by_hand() {
    let codes = feature(&[0, 0, 1, 1, 2, 2, 3, 3], 4);
    let horns = first(3, 8);
    let tail = not(&horns);
    let cases = [
        (&horns, Binarise::Equality, Score::F1, 4.0 / 5.0, (0, false)),
        (&horns, Binarise::Threshold, Score::F1, 6.0 / 7.0, (2, true)),
        (&tail, Binarise::Equality, Score::F1, 10.0 / 11.0, (0, true)),
        (&tail, Binarise::Threshold, Score::F1, 10.0 / 11.0, (1, false)),
        (&horns, Binarise::Equality, Score::Mcc, 10.0 / 180f64.sqrt(), (0, false)),
        (&tail, Binarise::Equality, Score::Mcc, 10.0 / 180f64.sqrt(), (0, true)),
        (&horns, Binarise::Threshold, Score::Mcc, 12.0 / 240f64.sqrt(), (2, true)),
        (&tail, Binarise::Threshold, Score::Mcc, 12.0 / 240f64.sqrt(), (2, false)),
    ];
    for (f, binarise, score, expected, (code, inverted)) in cases {
        let found = &measure(&codes, from_ref(f), binarise, score).matched[0];
        near(found.value, expected, ROUNDING);
        assert_eq!(
            (found.feature, found.code, found.inverted),
            (0, code, inverted),
            "{binarise:?} {score:?}"
        );
    }
    // All eight tests of the table in the chapter: 1[v = c] and 1[v ≠ c].
    for (code, plain, negated) in
        [(0, 4.0 / 5.0, 2.0 / 9.0), (1, 2.0 / 5.0, 4.0 / 9.0), (2, 0.0, 2.0 / 3.0), (3, 0.0, 2.0 / 3.0)]
    {
        let g = test(&codes, 0, code, Binarise::Equality);
        near(library_f1(&horns, &g), plain, ROUNDING);
        near(library_f1(&horns, &not(&g)), negated, ROUNDING);
    }
    near(floor(3.0 / 8.0), 6.0 / 11.0, ROUNDING);
    near(floor(5.0 / 8.0), 10.0 / 13.0, ROUNDING);
    // As the chapter prints them.
    for (exact, printed) in [
        (6.0 / 7.0, 0.857),
        (10.0 / 11.0, 0.909),
        (10.0 / 180f64.sqrt(), 0.745),
        (12.0 / 240f64.sqrt(), 0.775),
        (6.0 / 11.0, 0.545),
        (10.0 / 13.0, 0.769),
    ] {
        near(exact, printed, PRINTED);
    }
    let both = measure(&codes, &[horns, tail], Binarise::Equality, Score::F1);
    near(both.fidelity(), (4.0 / 5.0 + 10.0 / 11.0) / 2.0, ROUNDING);
    near(both.floor(), (6.0 / 11.0 + 10.0 / 13.0) / 2.0, ROUNDING);
    near(both.fidelity_of(&["a1", "unknown"]).unwrap(), 10.0 / 11.0, ROUNDING);
}

#[test]
fn f1_agrees_with_precision_and_recall_and_has_no_direction() {
    for case in 0..300 {
        let seed = SEED.named("pairs").stream(case);
        let n = 2 + seed.below(0, 200).unwrap();
        let f = exactly(1 + seed.below(1, n - 1).unwrap(), n, seed.stream(0));
        let g = exactly(1 + seed.below(2, n - 1).unwrap(), n, seed.stream(1));
        near(library_f1(&f, &g), f1(&f, &g), ROUNDING);
        assert_eq!(library_f1(&f, &g), library_f1(&g, &f));
        assert_eq!(library_f1(&f, &f), 1.0);
        assert_eq!(library_f1(&f, &not(&f)), 0.0);
        assert_eq!(library_f1(&f, &vec![false; n]), 0.0);
        // With two levels there is one test and its negation.
        let codes = feature(&g.iter().map(|g| u8::from(*g)).collect::<Vec<_>>(), 2);
        for binarise in BINARISE {
            near(value(&codes, &f, binarise, Score::F1), r_hat(&f, &g), ROUNDING);
            near(value(&codes, &f, binarise, Score::Mcc), correlation(&f, &g).abs(), ROUNDING);
        }
    }
}

#[test]
fn an_attribute_that_is_a_test_has_fidelity_one() {
    let codes = noise(333, 7, 16, SEED.named("planted"));
    let equal: Vec<bool> = codes.column(3).map(|v| v == 5).collect();
    let above: Vec<bool> = codes.column(3).map(|v| v >= 5).collect();
    for score in SCORES {
        for (f, binarise, inverted) in [
            (equal.clone(), Binarise::Equality, false),
            (not(&equal), Binarise::Equality, true),
            (above.clone(), Binarise::Threshold, false),
            (not(&above), Binarise::Threshold, true),
        ] {
            let found = &measure(&codes, &[f], binarise, score).matched[0];
            near(found.value, 1.0, ROUNDING);
            assert_eq!((found.feature, found.code, found.inverted), (3, 5, inverted));
        }
        // The other reading cannot say either of them.
        assert!(value(&codes, &equal, Binarise::Threshold, score) < 0.5);
        assert!(value(&codes, &above, Binarise::Equality, score) < 0.9);
    }
}

#[test]
fn counting_words_of_64_rows_gives_what_counting_rows_gives() {
    let mut ragged = 0;
    for case in 0..250 {
        let seed = SEED.named("naive").stream(case);
        let draw = |c: u64, low: usize, high: usize| low + seed.below(c, high - low + 1).unwrap();
        // Up to five words, and features on both sides of a block of sixteen.
        let (n, d, levels) = (draw(0, 3, 300), draw(1, 1, 20), draw(2, 2, 16));
        ragged += usize::from(n % 64 != 0);
        let codes = noise(n, d, levels, seed.named("codes"));
        let columns: Vec<Vec<bool>> =
            (0..3).map(|a| exactly(draw(3 + a, 1, n - 1), n, seed.named("attributes").stream(a))).collect();
        for (binarise, score) in BINARISE.into_iter().flat_map(|b| SCORES.map(|s| (b, s))) {
            let found = measure(&codes, &columns, binarise, score);
            assert_eq!((found.binarise, found.score, found.matched.len()), (binarise, score, 3));
            for (column, (m, f)) in found.matched.iter().zip(&columns).enumerate() {
                assert_eq!((m.column, m.name.as_str()), (column, format!("a{column}").as_str()));
                assert_eq!(m.prevalence, prevalence(f));
                // What is reported is what the reported test has.
                near(m.value, score_of(&codes, f, m, binarise, score), ROUNDING);
                let (j, c) = naive(&codes, f, binarise, score);
                let at = |j, c| exact(score, counts(f, &test(&codes, j, c, binarise)));
                assert_eq!(
                    compare(at(m.feature, m.code), at(j, c)),
                    Ordering::Equal,
                    "a better test was missed"
                );
                if score == Score::F1 {
                    // Quotients of small whole numbers are equal in f64 exactly if they are equal.
                    assert_eq!((m.feature, m.code), (j, c), "the first of the best");
                }
            }
        }
    }
    assert!(ragged > 200);
}

#[test]
fn of_equal_tests_the_first_is_named() {
    // 20 copies of one feature: two blocks. Codes 1 and 2 are equally good for the attribute.
    let column = vec![0, 0, 1, 2, 0, 0, 1, 2, 0, 0];
    let codes = beside(&vec![column; 20], 4);
    let f: Vec<bool> = codes.column(0).map(|v| v == 1 || v == 2).collect();
    for score in SCORES {
        let equal = measure(&codes, from_ref(&f), Binarise::Equality, score).matched[0].clone();
        // 1[v ≠ 0] is exact, and comes first.
        assert_eq!((equal.feature, equal.code, equal.inverted, equal.value), (0, 0, true, 1.0));
        let above = measure(&codes, from_ref(&f), Binarise::Threshold, score).matched[0].clone();
        assert_eq!((above.feature, above.code, above.inverted, above.value), (0, 1, false, 1.0));
    }
    // A test and its negation that score the same: the plain one.
    let codes = feature(&[0, 0, 1, 1], 2);
    let f = [true, false, true, false];
    let found = measure(&codes, &[f.to_vec()], Binarise::Equality, Score::F1).matched[0].clone();
    assert_eq!((found.code, found.inverted, found.value), (0, false, 0.5));
}

#[test]
fn more_features_never_lower_fidelity_and_the_negations_add_nothing() {
    let n = 150;
    let columns: Vec<Vec<bool>> =
        [10, 40, 75, 120].iter().map(|p| exactly(*p, n, SEED.named("more").stream(*p as u64))).collect();
    let wide = noise(n, 12, 8, SEED.named("wide"));
    let narrow =
        |d: usize| Codes::from_bytes(wide.rows().flat_map(|row| row[..d].to_vec()).collect(), d, 8).unwrap();
    for (binarise, score) in BINARISE.into_iter().flat_map(|b| SCORES.map(|s| (b, s))) {
        let mut last = vec![0.0; 4];
        let mut rises = 0;
        for d in 1..=12 {
            let found = measure(&narrow(d), &columns, binarise, score);
            for (last, m) in last.iter_mut().zip(&found.matched) {
                assert!(m.value >= *last);
                rises += usize::from(m.value > *last);
                *last = m.value;
            }
        }
        assert!(rises > 4, "some feature after the first must be better than it");
        // The paper's u²: negations as tests of their own, each with its own negation. By their words.
        for (f, last) in columns.iter().zip(&last) {
            let doubled = tests(&wide, binarise).into_iter().flat_map(|(j, c)| {
                let g = test(&wide, j, c, binarise);
                [not(&g), g]
            });
            let judged = doubled.map(|g| match score {
                Score::F1 => r_hat(f, &g),
                Score::Mcc => correlation(f, &g).abs(),
            });
            near(judged.fold(0.0, f64::max), *last, ROUNDING);
        }
    }
}

#[test]
fn one_feature_may_serve_all_attributes() {
    // The class itself as a code, and an attribute that tells each class: one feature, fidelity one.
    let labels: Vec<u8> = (0..80).map(|i| (i % 4) as u8).collect();
    let columns: Vec<Vec<bool>> = (0..4).map(|c| labels.iter().map(|v| *v == c).collect()).collect();
    let found = measure(&feature(&labels, 4), &columns, Binarise::Equality, Score::F1);
    assert_eq!(found.fidelity(), 1.0);
    assert!(found.matched.iter().all(|m| m.feature == 0));
    // A matching that uses each feature once leaves three attributes to a second, constant feature: the floor.
    let rest = floor(0.25);
    near((1.0 + 3.0 * rest) / 4.0, 0.55, ROUNDING);
    let constant = measure(&feature(&[1; 80], 4), &columns, Binarise::Equality, Score::F1);
    near(constant.fidelity(), rest, ROUNDING);
}

// Floors

#[test]
fn a_constant_test_has_the_floor() {
    for (positives, n) in [(1, 40), (13, 40), (20, 40), (39, 40), (700, 1001)] {
        let f = exactly(positives, n, SEED.named("floor").stream(positives as u64));
        let p = prevalence(&f);
        near(f1(&f, &vec![true; n]), floor(p), ROUNDING);
        near(floor(p), 2.0 * p / (1.0 + p), ROUNDING);
        for binarise in BINARISE {
            for level in [0, 2, 3] {
                let codes = feature(&vec![level; n], 4);
                let found = measure(&codes, from_ref(&f), binarise, Score::F1);
                near(found.matched[0].value, floor(p), ROUNDING);
                near(found.floor(), floor(p), ROUNDING);
                let invariant = measure(&codes, from_ref(&f), binarise, Score::Mcc);
                assert_eq!((invariant.matched[0].value, invariant.floor()), (0.0, 0.0));
            }
        }
        // One code that nobody has is enough: the test that asks for it never holds, its negation always does.
        let unused: Vec<u8> = (0..n).map(|i| (i % 3) as u8).collect();
        for binarise in BINARISE {
            assert!(value(&feature(&unused, 4), &f, binarise, Score::F1) >= floor(p));
        }
    }
}

#[test]
fn without_a_constant_test_the_bound_is_lower() {
    // Half of the rows either way, half of each with the attribute: independent.
    let codes = feature(&[0, 0, 1, 1], 2);
    let f = [true, false, true, false];
    near(value(&codes, &f, Binarise::Equality, Score::F1), 0.5, ROUNDING);
    assert!(0.5 < floor(0.5) - 0.1);
    near(floor(0.5), 2.0 / 3.0, ROUNDING);
    // A threshold needs the unused code at an end: in the middle it does not make a constant test.
    let gap = feature(&[0, 0, 2, 2], 3);
    near(value(&gap, &f, Binarise::Threshold, Score::F1), 0.5, ROUNDING);
    near(value(&gap, &f, Binarise::Equality, Score::F1), floor(0.5), ROUNDING);
    // 2π/(1 + 2π) holds for any test, and independent halves reach it.
    let bound = |p: f64| 2.0 * p / (1.0 + 2.0 * p);
    for case in 0..2000 {
        let seed = SEED.named("mediant").stream(case);
        let n = 2 + seed.below(0, 60).unwrap();
        let f = exactly(1 + seed.below(1, n - 1).unwrap(), n, seed.stream(0));
        let g = coins(n, seed.uniform(2), seed.stream(1));
        assert!(r_hat(&f, &g) >= bound(prevalence(&f)) - ROUNDING);
    }
    for twice in 1..20 {
        let f: Vec<bool> = (0..40).map(|i| i % 20 < twice).collect();
        near(r_hat(&f, &first(20, 40)), bound(prevalence(&f)), ROUNDING);
    }
}

// What is called one

#[test]
fn only_the_test_may_be_negated_and_not_the_attribute() {
    // 2 000 rows, 200 with the attribute; the test holds in 1 438 of them, and in 141 of the 200.
    let f = first(200, 2000);
    let g: Vec<bool> = (0..2000).map(|i| i < 141 || (200..200 + 1297).contains(&i)).collect();
    assert_eq!(counts(&f, &g), [2000, 200, 1438, 141]);
    let codes = feature(&g.iter().map(|g| u8::from(*g)).collect::<Vec<_>>(), 2);
    let negated = feature(&g.iter().map(|g| u8::from(!*g)).collect::<Vec<_>>(), 2);
    for binarise in BINARISE {
        near(value(&codes, &f, binarise, Score::F1), 0.172, PRINTED);
        near(value(&codes, &not(&f), binarise, Score::F1), 0.801, PRINTED);
        near(correlation(&f, &g), -0.010, PRINTED);
        for f in [&f, &not(&f)] {
            let plain = [Score::F1, Score::Mcc].map(|score| value(&codes, f, binarise, score));
            let other = [Score::F1, Score::Mcc].map(|score| value(&negated, f, binarise, score));
            assert_eq!(plain, other);
        }
        assert_eq!(
            value(&codes, &f, binarise, Score::Mcc),
            value(&codes, &not(&f), binarise, Score::Mcc),
            "a correlation does not care"
        );
    }
}

#[test]
fn correlation_and_accuracy_do_not_care_what_is_called_one() {
    let best = |f: &[bool], g: &[bool]| accuracy(f, g).max(accuracy(f, &not(g)));
    let mut changed = 0;
    for case in 0..200 {
        let seed = SEED.named("invariance").stream(case);
        let n = 20 + seed.below(0, 80).unwrap();
        let f = exactly(1 + seed.below(1, n - 1).unwrap(), n, seed.stream(0));
        let g = exactly(1 + seed.below(2, n - 1).unwrap(), n, seed.stream(1));
        for (a, b) in [(not(&f), g.clone()), (f.clone(), not(&g)), (not(&f), not(&g))] {
            near(correlation(&a, &b).abs(), correlation(&f, &g).abs(), ROUNDING);
            near(best(&a, &b), best(&f, &g), ROUNDING);
        }
        near(r_hat(&f, &not(&g)), r_hat(&f, &g), ROUNDING);
        changed += usize::from((r_hat(&not(&f), &g) - r_hat(&f, &g)).abs() > 0.01);
    }
    assert!(changed > 150, "{changed} of 200 values of r-hat depend on what is called one");
    // The same for whole sets of codes.
    let codes = noise(500, 9, 8, SEED.named("sets"));
    let f = exactly(60, 500, SEED.named("attribute"));
    for binarise in BINARISE {
        let [one, other] = [&f, &not(&f)].map(|f| value(&codes, f, binarise, Score::Mcc));
        near(one, other, ROUNDING);
        let [one, other] = [&f, &not(&f)].map(|f| value(&codes, f, binarise, Score::F1));
        assert!(other - one > 0.5, "{one} and {other}");
    }
}

#[test]
fn an_independent_test_has_this_f1_on_average() {
    // All shuffles of seven rows: the mean is exact.
    let (n, positives, size) = (7usize, 3usize, 4usize);
    let subsets = |k: usize| (0u32..1 << n).filter(move |set| set.count_ones() as usize == k);
    let g: Vec<bool> = first(size, n);
    let values: Vec<f64> = subsets(positives)
        .map(|set| f1(&(0..n).map(|i| set >> i & 1 == 1).collect::<Vec<_>>(), &g))
        .collect();
    let (p, q) = (3.0 / 7.0, 4.0 / 7.0);
    near(mean(&values), 2.0 * p * q / (p + q), ROUNDING);
    let squares: Vec<f64> = values.iter().map(|v| (v - mean(&values)).powi(2)).collect();
    let variance = 4.0 * p * (1.0 - p) * q * (1.0 - q) / ((n as f64 - 1.0) * (p + q).powi(2));
    near(mean(&squares), variance, ROUNDING);
    // It rises with the size of the test and is the floor at its end.
    let chance = |q: f64| 2.0 * 0.3 * q / (0.3 + q);
    assert!((1..100).all(|i| chance(f64::from(i) / 100.0) < chance(f64::from(i + 1) / 100.0)));
    near(chance(1.0), floor(0.3), ROUNDING);
}

// The largest of many

/// Logarithms of factorials.
fn factorials(n: usize) -> Vec<f64> {
    let mut all = vec![0.0; n + 1];
    (1..=n).for_each(|i| all[i] = all[i - 1] + (i as f64).ln());
    all
}

/// Expected largest r-hat of independent tests, each with `size` of n rows, against an attribute with `positives`.
fn exact_maximum(n: usize, positives: usize, size: usize, tests: f64) -> f64 {
    let log = factorials(n);
    let choose = |n: usize, k: usize| log[n] - log[k] - log[n - k];
    let lowest = (positives + size).saturating_sub(n);
    let mut law: Vec<(f64, f64)> = (lowest..=positives.min(size))
        .map(|both| {
            let p = choose(positives, both) + choose(n - positives, size - both) - choose(n, size);
            let plain = 2.0 * both as f64 / (size + positives) as f64;
            let negated = 2.0 * (positives - both) as f64 / (n - size + positives) as f64;
            (plain.max(negated), p.exp())
        })
        .collect();
    law.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut expected) = (0.0f64, 0.0);
    for (value, p) in law {
        let next = (below + p).min(1.0);
        expected += value * (next.powf(tests) - below.powf(tests));
        below = next;
    }
    expected
}

/// The number of standard deviations that the largest of many normal numbers has on average, after Gumbel.
fn largest(tests: f64) -> f64 {
    const EULER: f64 = 0.577_215_664_901_532_9;
    normal_quantile(1.0 - (-EULER).exp() / tests).unwrap()
}

/// Mean and spread of F1 of a test of share q under independence, and the approximate largest of many.
fn approximate_maximum(n: f64, p: f64, q: f64, tests: f64) -> f64 {
    let of = |q: f64| {
        let spread = 2.0 * (p * (1.0 - p) * q * (1.0 - q) / (n - 1.0)).sqrt() / (p + q);
        2.0 * p * q / (p + q) + spread * largest(tests)
    };
    of(q).max(of(1.0 - q))
}

/// What all tests and their negations stay below, but for a probability of δ.
fn union_bound(n: f64, p: f64, q: f64, tests: f64, delta: f64) -> f64 {
    let of = |q: f64| {
        // Of the four numbers that fix the overlap, the smallest is the number of draws.
        let draws = p.min(1.0 - p).min(q).min(1.0 - q);
        let reach = (draws * (2.0 * tests / delta).ln() / (2.0 * n)).sqrt();
        2.0 * (p * q + reach) / (p + q)
    };
    of(q).max(of(1.0 - q))
}

/// Rows, features and levels of the chapter's null.
const ROWS: usize = 2000;
const FEATURES: usize = 256;
const TESTS: f64 = 4096.0;
/// Rows with the attribute, then the chapter's table: floor, normal approximation, independent tests, shuffles, bound.
const NULLS: [(usize, [f64; 5]); 4] = [
    (100, [0.095, 0.132, 0.144, 0.143, 0.273]),
    (200, [0.182, 0.192, 0.190, 0.190, 0.245]),
    (600, [0.462, 0.469, 0.468, 0.468, 0.477]),
    (1000, [0.667, 0.666, 0.666, 0.666, 0.671]),
];
/// Codes are drawn, so a test has 125 ± 11 rows and not 125; narrower or wider ones do better by up to this.
const SIZES: f64 = 1e-3;

#[test]
fn the_largest_of_many_chance_values_is_this_large() {
    let q = 1.0 / 16.0;
    near(largest(TESTS), 3.64, TABLE);
    for (positives, [at, normal, independent, _, bound]) in NULLS {
        let p = positives as f64 / ROWS as f64;
        near(floor(p), at, PRINTED);
        near(approximate_maximum(ROWS as f64, p, q, TESTS), normal, PRINTED);
        near(exact_maximum(ROWS, positives, 125, TESTS), independent, PRINTED);
        near(union_bound(ROWS as f64, p, q, TESTS, 0.05), bound, PRINTED);
    }
    // Without a constant test chance ends below the floor of one half. The chapter prints four digits.
    near(exact_maximum(ROWS, 1000, 125, TESTS), 0.6657, 5e-5);
    // The smallest case that can be counted: two rows, one with the attribute, two tests that hold in one row each.
    near(exact_maximum(2, 1, 1, 2.0), 1.0, ROUNDING);
    near(exact_maximum(4, 2, 2, 1.0), (2.0 * 1.0 + 4.0 * 0.5) / 6.0, ROUNDING);
}

#[test]
fn shuffled_attributes_have_the_values_of_chance() {
    let codes = noise(ROWS, FEATURES, 16, SEED.named("nulls"));
    let columns: Vec<Vec<bool>> = NULLS.iter().map(|(positives, _)| first(*positives, ROWS)).collect();
    let data = set(&columns);
    let observed = AttributeMatches::of(&codes, &data, Binarise::Equality, Score::F1).unwrap();
    let nulls = observed.null(Null::Rows, &codes, &data, 40, SEED.named("shuffles")).unwrap();
    assert_eq!(nulls.len(), 40);
    for (i, (_, [_, _, independent, printed, bound])) in NULLS.into_iter().enumerate() {
        let values: Vec<f64> = nulls.iter().map(|null| null.matched[i].value).collect();
        near(mean(&values), printed, PRINTED + ERRORS * error(&values));
        near(mean(&values), independent, SIZES + ERRORS * error(&values));
        // The bound for the sizes that tests really have; it may fail in 5 % of cases, and is not that tight.
        let p = observed.matched[i].prevalence;
        let sizes = codes.counts().iter().map(|size| *size as f64 / ROWS as f64).collect::<Vec<_>>();
        let bounds = sizes.iter().map(|q| union_bound(ROWS as f64, p, *q, TESTS, 0.05));
        let own = bounds.fold(0.0, f64::max);
        assert!(values.iter().all(|v| *v < own) && own > bound);
        assert!(nulls.iter().all(|null| null.matched[i].prevalence == observed.matched[i].prevalence));
    }
    // For the rare attribute the winner asks for one code, for the others it excludes one.
    assert!(nulls.iter().all(|null| !null.matched[0].inverted && null.matched[3].inverted));
    // Each attribute here is as good as shuffled, so the observed value is one of them.
    for (i, m) in observed.matched.iter().enumerate() {
        let values: Vec<f64> = nulls.iter().map(|null| null.matched[i].value).collect();
        near(m.value, mean(&values), ERRORS * error(&values) * 40f64.sqrt());
    }
    // An independent simulation, with one shuffle of attributes whose prevalences were drawn as well, had these. Its
    // floors, .095 .173 .466 .674, are up to .009 from those of the exact prevalences, and a shuffle of the rarest
    // attribute is uncertain by .009.
    const OTHER: f64 = 0.011;
    for ((positives, _), other) in NULLS.into_iter().zip([0.137, 0.185, 0.471, 0.676]) {
        near(exact_maximum(ROWS, positives, 125, TESTS), other, OTHER);
    }
}

#[test]
fn a_shuffle_keeps_the_attributes_together() {
    let f = exactly(30, 130, SEED.named("twins"));
    let codes = noise(130, 5, 4, SEED.named("twins' codes"));
    let data = set(&[f.clone(), f.clone(), not(&f)]);
    let found = AttributeMatches::of(&codes, &data, Binarise::Threshold, Score::Mcc).unwrap();
    let nulls = found.null(Null::Rows, &codes, &data, 5, SEED).unwrap();
    for null in &nulls {
        let [one, same, other] = &null.matched[..] else { panic!("three attributes") };
        assert_eq!((one.value, one.feature, one.code), (same.value, same.feature, same.code));
        near(one.value, other.value, ROUNDING);
    }
    assert_eq!(nulls, found.null(Null::Rows, &codes, &data, 5, SEED).unwrap());
    assert_ne!(nulls, found.null(Null::Rows, &codes, &data, 5, SEED.stream(1)).unwrap());
    assert_ne!(nulls[0], nulls[1]);
}

#[test]
fn a_rank_among_shuffles_is_a_valid_p_value() {
    const SETS: usize = 400;
    const SHUFFLES: usize = 19;
    let rank = |codes: &Codes, data: &Dataset, seed: Seed| {
        let found = AttributeMatches::of(codes, data, Binarise::Equality, Score::F1).unwrap();
        let nulls = found.null(Null::Rows, codes, data, SHUFFLES, seed).unwrap();
        let above = nulls.iter().filter(|null| null.fidelity() >= found.fidelity()).count();
        let p = (1 + above) as f64 / (1 + SHUFFLES) as f64;
        assert_eq!(rank_p_value(found.fidelity(), nulls.iter().map(AttributeMatches::fidelity)), p);
        assert_eq!(found.p_value(&nulls, &data.names.attributes).unwrap(), p);
        p
    };
    let mut small = [0usize; 2];
    for case in 0..SETS {
        let seed = SEED.named("ranks").stream(case as u64);
        let columns: Vec<Vec<bool>> =
            (0..4).map(|a| exactly(20 + 3 * a, 90, seed.stream(a as u64))).collect();
        let p = rank(&noise(90, 4, 8, seed.named("codes")), &set(&columns), seed.named("shuffles"));
        small[0] += usize::from(p <= 0.05);
        small[1] += usize::from(p <= 0.5);
    }
    // Binomial counts; ties with a shuffle only make p larger, and with four attributes there are few.
    for (count, alpha) in small.into_iter().zip([0.05, 0.5]) {
        let spread = (SETS as f64 * alpha * (1.0 - alpha)).sqrt();
        near(count as f64, SETS as f64 * alpha, ERRORS * spread);
    }
    assert!(small[0] > 0);
    let codes = noise(90, 4, 8, SEED.named("known"));
    let planted: Vec<bool> = codes.column(2).map(|v| v == 6).collect();
    assert_eq!(rank(&codes, &set(&[planted]), SEED), 1.0 / 20.0);
}

#[test]
fn codes_that_are_random_functions_of_the_class_are_nothing_under_the_class_null() {
    const SETS: usize = 100;
    const DRAWS: usize = 19;
    let key = &ATTRIBUTES[..8];
    let (mut small, mut values) = ([0usize; 2], Vec::new());
    for case in 0..SETS {
        let seed = SEED.named("class functions").stream(case as u64);
        let (codes, data) = class_functions(480, 16, seed);
        let found = AttributeMatches::of(&codes, &data, Binarise::Equality, Score::F1).unwrap();
        for (null, small) in [Null::Rows, Null::Classes].into_iter().zip(&mut small) {
            let nulls = found.null(null, &codes, &data, DRAWS, seed.named("draws")).unwrap();
            *small += usize::from(found.p_value(&nulls, key).unwrap() <= 0.05);
        }
        values.push(found.fidelity_of(key).unwrap());
    }
    // They know nothing of horns or stripes, and every one of them is far above shuffled rows.
    assert_eq!(small[0], SETS);
    // If classes swap their attributes, they are one draw of twenty. Sizes of classes differ a little, so this is not exact.
    let spread = (SETS as f64 * 0.05 * 0.95).sqrt();
    near(small[1] as f64, SETS as f64 * 0.05, ERRORS * spread);
    assert!(mean(&values) > 0.6, "{}", mean(&values));
}

#[test]
fn the_class_null_finds_what_the_picture_tells_beyond_the_class() {
    // Codes that are the key attributes themselves: no swap of classes reaches them.
    let (_, data) = class_functions(480, 1, SEED);
    let key = &ATTRIBUTES[..8];
    let codes = Codes::new(&data.a.as_ref().unwrap().narrow(1, 0, 8).unwrap(), 2).unwrap();
    let found = AttributeMatches::of(&codes, &data, Binarise::Equality, Score::F1).unwrap();
    near(found.fidelity_of(key).unwrap(), 1.0, ROUNDING);
    for null in [Null::Rows, Null::Classes] {
        let nulls = found.null(null, &codes, &data, 99, SEED).unwrap();
        assert_eq!(found.p_value(&nulls, key).unwrap(), 0.01);
        // And an attribute that the codes do not have is one draw of many.
        assert!(found.p_value(&nulls, &["smile"]).unwrap() > 0.05);
    }
}

#[test]
fn swapped_classes_take_whole_rows_of_one_other_class() {
    // Attributes that spell the class and the place of a row in it.
    let n = 60;
    let (codes, data) = class_functions(n, 1, SEED);
    let labels = data.labels().unwrap();
    let mut seen = [0u32; 12];
    let bits: Vec<u8> = labels
        .iter()
        .flat_map(|y| {
            seen[*y as usize] += 1;
            let word = y << 4 | seen[*y as usize];
            (0..8).map(move |bit| (word >> bit & 1) as u8)
        })
        .collect();
    let names: Vec<String> = (0..8).map(|bit| format!("bit{bit}")).collect();
    let a = Tensor::from_vec(bits, (n, 8), device()).unwrap();
    let data = data.with_attributes(a, &names).unwrap();
    let found = AttributeMatches::of(&codes, &data, Binarise::Equality, Score::F1).unwrap();
    let [one, two] = [1, 2].map(|s| found.null(Null::Classes, &codes, &data, 3, SEED.stream(s)).unwrap());
    assert_eq!(one, found.null(Null::Classes, &codes, &data, 3, SEED.stream(1)).unwrap());
    assert_ne!(one, two);
    // A single class has nobody to swap with: its rows are shuffled.
    let alone = data.classes(&["S3"]).unwrap();
    let rows: Vec<usize> = (0..alone.n()).collect();
    let codes = codes.take(&rows).unwrap();
    let found = AttributeMatches::of(&codes, &alone, Binarise::Equality, Score::F1).unwrap();
    let drawn = found.null(Null::Classes, &codes, &alone, 2, SEED).unwrap();
    for (own, shuffled) in found.matched.iter().zip(&drawn[0].matched) {
        assert_eq!(own.prevalence, shuffled.prevalence);
    }
}

// Held-out matching

#[test]
fn held_out_rows_take_the_optimism_away() {
    let attributes = 40;
    let rows = |part: &str| {
        let codes = noise(ROWS, FEATURES, 16, SEED.named(part));
        let f = |a: usize| exactly(100, ROWS, SEED.named(part).named("attributes").stream(a as u64));
        (codes, (0..attributes).map(f).collect::<Vec<_>>())
    };
    let ((chosen_on, a), (fresh, b)) = (rows("chosen on"), rows("fresh"));
    for score in SCORES {
        let chosen = AttributeMatches::of(&chosen_on, &set(&a), Binarise::Equality, score).unwrap();
        let again = chosen.again(&fresh, &set(&b)).unwrap();
        assert_eq!(again.matched.len(), attributes);
        let mut surplus = Vec::new();
        for ((old, new), f) in chosen.matched.iter().zip(&again.matched).zip(&b) {
            assert_eq!(
                (old.feature, old.code, old.inverted, &old.name),
                (new.feature, new.code, new.inverted, &new.name)
            );
            near(new.value, score_of(&fresh, f, new, Binarise::Equality, score), ROUNDING);
            let q = prevalence(&test(&fresh, new.feature, new.code, Binarise::Equality));
            let q = if new.inverted { 1.0 - q } else { q };
            surplus.push(match score {
                Score::F1 => new.value - 2.0 * 0.05 * q / (0.05 + q),
                Score::Mcc => new.value,
            });
        }
        near(mean(&surplus), 0.0, ERRORS * error(&surplus));
        // Noise is as often on the wrong side, and the orientation is not chosen again.
        assert!(surplus.iter().filter(|s| **s < 0.0).count() > attributes / 4);
        if score == Score::F1 {
            let chosen: Vec<f64> = chosen.matched.iter().map(|m| m.value).collect();
            near(mean(&chosen), 0.143, PRINTED + SIZES + ERRORS * error(&chosen));
            let again: Vec<f64> = again.matched.iter().map(|m| m.value).collect();
            near(mean(&again), 0.056, PRINTED + ERRORS * error(&again));
            assert!(
                mean(&again) < floor(0.05),
                "below the floor: a narrow test is worse than a constant one"
            );
        }
    }
    near(2.0 * 0.05 / 16.0 / (0.05 + 1.0 / 16.0), 0.056, PRINTED);
}

#[test]
fn what_was_really_found_is_found_again() {
    let codes = |part: &str| noise(400, 20, 8, SEED.named("again").named(part));
    let f = |codes: &Codes| -> Vec<bool> { codes.column(17).map(|v| v < 3).collect() };
    let (one, two) = (codes("one"), codes("two"));
    for score in SCORES {
        let found = AttributeMatches::of(&one, &set(&[f(&one)]), Binarise::Threshold, score).unwrap();
        let again = found.again(&two, &set(&[f(&two)])).unwrap();
        near(again.fidelity(), 1.0, ROUNDING);
        assert_eq!(again.matched[0].prevalence, prevalence(&f(&two)));
        assert_eq!(found.again(&one, &set(&[f(&one)])).unwrap(), found, "on the same rows nothing changes");
    }
    // An attribute that has one value on the new rows is left out there.
    let found =
        AttributeMatches::of(&one, &set(&[f(&one), exactly(9, 400, SEED)]), Binarise::Threshold, Score::F1);
    let again = found.unwrap().again(&two, &set(&[f(&two), vec![false; 400]])).unwrap();
    assert_eq!((again.matched.len(), again.excluded), (1, vec!["a1".to_string()]));
}

// Classes

/// Attributes that hold with these probabilities in each class.
fn by_class(labels: &[u32], shares: &[f64], seed: Seed) -> Vec<bool> {
    labels.iter().enumerate().map(|(i, c)| seed.uniform(i as u64) < shares[*c as usize]).collect()
}

#[test]
fn the_best_set_of_classes_takes_them_in_order() {
    for case in 0..120 {
        let seed = SEED.named("classes").stream(case);
        let k = 1 + seed.below(0, 8).unwrap();
        let n = 10 + seed.below(1, 90).unwrap();
        // Some classes may be absent, and some shares are 0 or 1.
        let labels: Vec<u32> = (0..n).map(|i| seed.stream(1).below(i as u64, k).unwrap() as u32).collect();
        let shares: Vec<f64> =
            (0..k).map(|c| (1.4 * seed.stream(2).uniform(c as u64) - 0.2).clamp(0.0, 1.0)).collect();
        let columns: Vec<Vec<bool>> =
            (0..3).map(|a| by_class(&labels, &shares, seed.stream(3).stream(a))).collect();
        let found = class_oracle(&labelled(&columns, &labels, k)).unwrap();
        for (f, found) in columns.iter().zip(found) {
            let of = |set: u32| -> Vec<bool> { labels.iter().map(|c| set >> c & 1 == 1).collect() };
            let best = (0..1u32 << k).map(|set| r_hat(f, &of(set))).fold(0.0, f64::max);
            near(found, best, ROUNDING);
            // The rule of the chapter: classes with a share above half of the optimum.
            let taken: Vec<bool> = labels
                .iter()
                .map(|class| {
                    let own: Vec<bool> = (0..n).filter(|i| labels[*i] == *class).map(|i| f[i]).collect();
                    prevalence(&own) > found / 2.0
                })
                .collect();
            near(f1(f, &taken), best, ROUNDING);
        }
    }
}

#[test]
fn the_class_oracle_of_critters_is_its_closed_form() {
    let recipe = Critters::new(Preset::Iid, SEED);
    let latents = recipe.latents(Part::Test, 20_000).unwrap();
    let columns: Vec<Vec<bool>> =
        (0..16).map(|j| latents.clean.column(j).iter().map(|a| *a == 1).collect()).collect();
    let labels = latents.species.to_vec();
    let found = class_oracle(&labelled(&columns, &labels, 12)).unwrap();
    let mut above = 0;
    for (j, (f, found)) in columns.iter().zip(found).enumerate() {
        let name = lastlayer::data::critters::ATTRIBUTES[j];
        let law = recipe.fidelity(name).unwrap();
        // F1 is 2J/(1 + J), J the share of hits among rows that have one of the two; at least those with the attribute.
        let rows = prevalence(f) * 20_000.0;
        let hits = law.class_oracle / (2.0 - law.class_oracle);
        let chance = 2.0 / (1.0 + hits).powi(2) * (hits * (1.0 - hits) / rows).sqrt();
        near(found, law.class_oracle, ERRORS * chance + ROUNDING);
        above += usize::from(law.class_oracle > law.floor + 0.2);
    }
    assert_eq!(above, 8, "the eight attributes of the key, and no other");
    let whiskers = recipe.fidelity("whiskers").unwrap();
    near(whiskers.class_oracle, 0.926, PRINTED);
    near(whiskers.floor, 0.450, PRINTED);
}

#[test]
fn a_detector_of_one_class_recovers_what_belongs_to_few_classes() {
    for (k, m) in [(50, 1), (50, 2), (50, 5), (50, 25), (12, 3), (12, 11), (4, 2)] {
        let labels: Vec<u32> = (0..k * 6).map(|i| (i % k) as u32).collect();
        let f: Vec<bool> = labels.iter().map(|c| (*c as usize) < m).collect();
        // One feature per class, as sharp as can be.
        let detectors: Vec<Vec<u8>> =
            (0..k).map(|c| labels.iter().map(|l| u8::from(*l as usize == c)).collect()).collect();
        let (k, m) = (k as f64, m as f64);
        for binarise in BINARISE {
            let found = value(&beside(&detectors, 2), &f, binarise, Score::F1);
            near(found, (2.0 / (1.0 + m)).max(2.0 * m / (m + k - 1.0)), ROUNDING);
        }
        near(class_oracle(&labelled(from_ref(&f), &labels, k as usize)).unwrap()[0], 1.0, ROUNDING);
        near(floor(prevalence(&f)), 2.0 * m / (m + k), ROUNDING);
    }
    for (m, value, at) in [(1.0, 1.0, 0.039), (2.0, 0.667, 0.077), (5.0, 0.333, 0.182), (25.0, 0.676, 0.667)]
    {
        near(f64::max(2.0 / (1.0 + m), 2.0 * m / (m + 49.0)), value, PRINTED);
        near(2.0 * m / (m + 50.0), at, PRINTED);
    }
}

// What a test can say

#[test]
fn each_reading_is_blind_to_the_other() {
    for levels in [2usize, 4, 8, 16] {
        let all: Vec<u8> = (0..levels as u8).cycle().take(levels * 5).collect();
        let codes = feature(&all, levels);
        let l = levels as f64;
        let half: Vec<bool> = all.iter().map(|v| usize::from(*v) >= levels / 2).collect();
        near(value(&codes, &half, Binarise::Threshold, Score::F1), 1.0, ROUNDING);
        let equal = if levels == 2 { 1.0 } else { 2.0 * l / (3.0 * l - 2.0) };
        near(value(&codes, &half, Binarise::Equality, Score::F1), equal, ROUNDING);
        for c in 0..levels {
            let one: Vec<bool> = all.iter().map(|v| usize::from(*v) == c).collect();
            near(value(&codes, &one, Binarise::Equality, Score::F1), 1.0, ROUNDING);
            let nearest = (c + 1).min(levels - c) as f64;
            near(value(&codes, &one, Binarise::Threshold, Score::F1), 2.0 / (1.0 + nearest), ROUNDING);
        }
    }
    near(2.0 * 16.0 / 46.0, 0.696, PRINTED);
    near(2.0 / 7.0, 0.286, PRINTED);
}

/// The feature of the chapter: normal evidence with means ±1 and variance 1 for an attribute that 30 % have, shifted
/// down by b, cut at zero, and rounded in steps of one half to sixteen levels.
const GAP: f64 = 2.0;
const SHARE: f64 = 0.3;
const WIDTH: f64 = 0.5;
const LEVELS: usize = 16;

/// Probability of each code if the evidence has this mean.
fn cells(b: f64, mean: f64) -> Vec<f64> {
    let upto = |c: usize| if c + 1 == LEVELS { 1.0 } else { normal_cdf(b + (c as f64 + 0.5) * WIDTH - mean) };
    (0..LEVELS).map(|c| upto(c) - if c == 0 { 0.0 } else { upto(c - 1) }).collect()
}

/// F1 of a test that holds with these probabilities, with and without the attribute.
fn f1_of_rates(hit: f64, alarm: f64) -> f64 {
    2.0 * SHARE * hit / (SHARE + SHARE * hit + (1.0 - SHARE) * alarm)
}

/// Share of zeros, F1 of "not zero", and both fidelities, of the law itself.
fn sparse(b: f64) -> [f64; 4] {
    let (with, without) = (cells(b, GAP / 2.0), cells(b, -GAP / 2.0));
    let best = |hit: f64, alarm: f64| f1_of_rates(hit, alarm).max(f1_of_rates(1.0 - hit, 1.0 - alarm));
    let at = |c: usize| best(with[c], without[c]);
    let from = |c: usize| best(with[c..].iter().sum(), without[c..].iter().sum());
    [
        SHARE * with[0] + (1.0 - SHARE) * without[0],
        f1_of_rates(1.0 - with[0], 1.0 - without[0]),
        (0..LEVELS).map(at).fold(0.0, f64::max),
        (1..LEVELS).map(from).fold(0.0, f64::max),
    ]
}

/// Shift, then the chapter's table: share of zeros, F1 of "not zero", fidelity by equality and by thresholds.
const SPARSE: [(f64, [f64; 4]); 6] = [
    (-4.0, [0.002, 0.462, 0.506, 0.766]),
    (-2.0, [0.160, 0.525, 0.525, 0.766]),
    (-1.0, [0.431, 0.663, 0.663, 0.766]),
    (0.0, [0.694, 0.766, 0.766, 0.766]),
    (0.5, [0.792, 0.708, 0.708, 0.708]),
    (1.0, [0.871, 0.561, 0.561, 0.561]),
];

#[test]
fn zeros_make_a_usable_indicator() {
    const SAMPLES: usize = 40_000;
    for (b, printed) in SPARSE {
        let law = sparse(b);
        law.iter().zip(printed).for_each(|(law, printed)| near(*law, printed, PRINTED));
        // The closed form: everything above b + width/2 is not zero.
        let t = b + WIDTH / 2.0;
        let closed = f1_of_rates(normal_cdf(GAP / 2.0 - t), normal_cdf(-GAP / 2.0 - t));
        near(law[1], closed, 1e-12);
        // And rows.
        let seed = SEED.named("evidence");
        let f = coins(SAMPLES, SHARE, seed.stream(0));
        let code = |i: usize| {
            let e = seed.stream(1).normal(i as u64) + if f[i] { 0.5 } else { -0.5 } * GAP;
            (((e - b).max(0.0) / WIDTH).round() as u8).min(LEVELS as u8 - 1)
        };
        let codes = feature(&(0..SAMPLES).map(code).collect::<Vec<_>>(), LEVELS);
        // A share of 12 000 rows with the attribute, at most 1/2 ± 0.0046, times a slope below 2/(1 + 1/3)², and the
        // same from the others; three of these.
        const CHANCE: f64 = 0.015;
        near(codes.zeros(), law[0], CHANCE);
        near(value(&codes, &f, Binarise::Equality, Score::F1), law[2], CHANCE);
        near(value(&codes, &f, Binarise::Threshold, Score::F1), law[3], CHANCE);
    }
    // From the dense code to the best: equality gains 0.26, thresholds nothing.
    let [dense, best] = [sparse(-4.0), sparse(0.0)];
    near(best[2] - dense[2], 0.26, TABLE);
    near(best[3] - dense[3], 0.0, PRINTED);
    // F1 of "not zero" rises and falls once.
    let curve: Vec<f64> = (0..160).map(|i| sparse(-4.0 + 0.05 * f64::from(i))[1]).collect();
    let turns = curve.windows(3).filter(|w| w[1] >= w[0] && w[1] > w[2]).count();
    assert_eq!(turns, 1);
}

// What can go wrong

#[test]
fn attributes_with_one_value_are_left_out_and_named() {
    let codes = noise(70, 3, 4, SEED.named("edge"));
    let f = exactly(20, 70, SEED.named("edge"));
    let columns = [vec![false; 70], f.clone(), vec![true; 70]];
    let found = measure(&codes, &columns, Binarise::Equality, Score::F1);
    assert_eq!(found.excluded, ["a0", "a2"]);
    assert_eq!((found.matched.len(), found.matched[0].column, found.matched[0].name.as_str()), (1, 1, "a1"));
    assert_eq!(found.fidelity(), measure(&codes, &[f], Binarise::Equality, Score::F1).fidelity());
    assert!(message(found.fidelity_of(&["a0"])).contains("a1"));
    // A class oracle is asked for each column. Nobody has the first, so a test that never holds agrees with nothing.
    let oracle = class_oracle(&set(&columns)).unwrap();
    assert_eq!((oracle[0], oracle[2]), (0.0, 1.0));
    let none =
        AttributeMatches::measure(&codes, &table(&columns[..1]), &names(1), Binarise::Equality, Score::F1);
    assert!(matches!(none, Err(Error::Data { .. })));
    assert!(message(none).contains("one value only"));
}

#[test]
fn tables_that_do_not_fit_are_refused() {
    let codes = noise(70, 3, 4, SEED.named("edge"));
    let columns = [exactly(20, 70, SEED), exactly(30, 70, SEED)];
    let ask = |a: &Array2<f64>, names: &[&str]| {
        AttributeMatches::measure(&codes, a, names, Binarise::Equality, Score::F1)
    };
    let mut a = table(&columns).mapv(|a| f64::from(u8::from(a)));
    assert!(ask(&a, &["one", "two"]).is_ok());
    assert!(matches!(ask(&a, &["one"]), Err(Error::Shape { .. })));
    assert!(matches!(
        ask(&a.slice(ndarray::s![..69, ..]).to_owned(), &["one", "two"]),
        Err(Error::Shape { .. })
    ));
    a[[3, 1]] = f64::NAN;
    assert!(matches!(ask(&a, &["one", "two"]), Err(Error::Data { .. })));
    assert!(message(ask(&a, &["one", "two"])).contains("NaN"));
    let data = set(&columns);
    let found = AttributeMatches::of(&codes, &data, Binarise::Equality, Score::F1).unwrap();
    assert!(matches!(found.null(Null::Rows, &codes, &data, 0, SEED), Err(Error::Config { .. })));
    let short = set(&columns.each_ref().map(|c| c[..69].to_vec()));
    assert!(matches!(
        AttributeMatches::of(&codes, &short, Binarise::Equality, Score::F1),
        Err(Error::Shape { .. })
    ));
    assert!(matches!(found.again(&codes, &short), Err(Error::Shape { .. })));
    assert!(matches!(found.null(Null::Rows, &codes, &short, 2, SEED), Err(Error::Shape { .. })));
    let bare = Dataset { a: None, ..data };
    assert!(matches!(
        AttributeMatches::of(&codes, &bare, Binarise::Equality, Score::F1),
        Err(Error::Data { .. })
    ));
    assert!(matches!(found.again(&codes, &bare), Err(Error::Data { .. })));
    assert!(matches!(found.null(Null::Rows, &codes, &bare, 2, SEED), Err(Error::Data { .. })));
    assert!(matches!(class_oracle(&bare), Err(Error::Data { .. })));
    assert!(message(class_oracle(&bare)).contains("with_attributes"));
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let codes = noise(500, 100, 16, SEED.named("threads"));
    let columns: Vec<Vec<bool>> =
        (1..9).map(|a| exactly(50 * a, 500, SEED.named("threads").stream(a as u64))).collect();
    let data = set(&columns);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let found = AttributeMatches::of(&codes, &data, Binarise::Equality, Score::Mcc).unwrap();
            let nulls = found.null(Null::Rows, &codes, &data, 3, SEED).unwrap();
            (found, nulls)
        })
    };
    assert_eq!(run(1), run(2));
}

#[test]
fn the_table_says_what_was_found() {
    let codes = feature(&[0, 0, 1, 1, 2, 2, 3, 3], 4);
    let shown = |binarise| {
        let found = measure(&codes, &[first(3, 8), not(&first(3, 8))], binarise, Score::F1);
        found.table().unwrap().markdown()
    };
    let equal = shown(Binarise::Equality);
    assert!(equal.contains("z0 = 0") && equal.contains("z0 ≠ 0") && equal.contains("0.545"), "{equal}");
    let above = shown(Binarise::Threshold);
    assert!(above.contains("z0 < 2") && above.contains("z0 ≥ 1") && above.contains("0.857"), "{above}");
}

// What the paper prints

/// Accuracy and fidelity of Table 1, in per cent: CUB-200, aYahoo, AwA2, aPascal.
const QUANTISED: [(f64, f64); 4] = [(85.15, 23.27), (97.20, 32.13), (95.36, 61.80), (82.54, 36.78)];
const PENALTY: [(f64, f64); 4] = [(85.02, 29.71), (96.47, 39.59), (94.01, 67.53), (80.16, 39.72)];
const BOTH: [(f64, f64); 4] = [(85.16, 32.25), (95.47, 42.34), (93.15, 70.65), (80.03, 43.17)];

#[test]
fn the_printed_gains_are_mostly_those_of_the_penalty() {
    let shares = [71.7, 73.1, 64.7, 46.0];
    let rest = [2.54, 2.75, 3.12, 3.45];
    let lost = [0.01, -1.73, -2.21, -2.51];
    for set in 0..4 {
        let gain = BOTH[set].1 - QUANTISED[set].1;
        near(100.0 * (PENALTY[set].1 - QUANTISED[set].1) / gain, shares[set], PER_CENT);
        near(BOTH[set].1 - PENALTY[set].1, rest[set], TABLE);
        near(BOTH[set].0 - QUANTISED[set].0, lost[set], TABLE);
    }
}

/// The smallest fidelity that Table 1 has for each set: SDT, DFL-CNN, ANT, SDT.
const SMALLEST: [f64; 4] = [17.00, 16.33, 18.22, 14.24];

#[test]
fn the_printed_table_bounds_its_own_floors() {
    // floor ≤ 3/2 · 2π/(1 + 2π), attribute by attribute, with equality at prevalence one.
    for i in 1..=1000 {
        let p = f64::from(i) / 1000.0;
        assert!(floor(p) <= 1.5 * 2.0 * p / (1.0 + 2.0 * p) + ROUNDING);
    }
    near(floor(1.0), 1.5 * 2.0 / 3.0, ROUNDING);
    // And so for means: of attributes with any prevalences, and any codes.
    for case in 0..100 {
        let seed = SEED.named("own floors").stream(case);
        let columns: Vec<Vec<bool>> =
            (0..6).map(|a| exactly(1 + seed.below(a, 98).unwrap(), 99, seed.stream(a))).collect();
        let found = measure(&noise(99, 1, 2, seed.named("codes")), &columns, Binarise::Equality, Score::F1);
        assert!(found.floor() <= 1.5 * found.fidelity());
    }
    for (smallest, bound) in SMALLEST.into_iter().zip([25.5, 24.5, 27.3, 21.4]) {
        near(1.5 * smallest, bound, PER_CENT);
    }
    // Only on CUB may the quantised network be at the floor.
    let above = |set: usize| QUANTISED[set].1 > 1.5 * SMALLEST[set];
    assert_eq!([0, 1, 2, 3].map(above), [false, true, true, true]);
}

#[test]
fn dividing_by_the_size_of_the_data_switches_the_penalty_off() {
    let (batch, data, active, code) = (16.0, 5994.0, 512.0, 7.5);
    let sum = batch * active * code;
    near(0.001 * sum / data, 0.010, PRINTED);
    near(0.001 * sum / batch, 3.84, ROUNDING);
    near(data / batch, 375.0, 0.5);
}

#[test]
fn held_out_rows_must_have_the_features_and_attributes_that_were_matched() {
    // The second feature is the attribute; the first says nothing.
    let f = vec![true, false, true, false, true, false];
    let codes = beside(&[vec![0, 1, 1, 0, 0, 1], vec![1, 0, 1, 0, 1, 0]], 2);
    let own = set(&[f.clone(), not(&first(3, 6))]);
    let found = AttributeMatches::of(&codes, &own, Binarise::Equality, Score::F1).unwrap();
    assert_eq!((found.matched[0].feature, found.matched[0].value), (1, 1.0));
    let narrow = feature(&[0, 1, 1, 0, 0, 1], 2);
    assert!(message(found.again(&narrow, &own)).contains("same network"));
    // On these rows the only attribute that was matched has one value.
    let alone =
        AttributeMatches::of(&codes, &set(&[f.clone(), vec![true; 6]]), Binarise::Equality, Score::F1)
            .unwrap();
    assert_eq!(alone.excluded.len(), 1);
    assert!(message(alone.again(&codes, &set(&[vec![true; 6], f]))).contains("more rows"));
}
