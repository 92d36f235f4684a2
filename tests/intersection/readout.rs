//! Which attribute each question of a tree asks for.

use crate::device::device;
use candle_core::{DType, Tensor};
use lastlayer::data::Dataset;
use lastlayer::distribution::normal_quantile;
use lastlayer::error::Error;
use lastlayer::intersection::{NodeReading, TreeReading, read_tree};
use lastlayer::seed::Seed;
use lastlayer::tree::{Cart, Codes, Node, Split, Tree};

use super::{class_functions, near};

const SEED: Seed = Seed::new(2109);

/// A few operations on numbers of size one.
const ROUNDING: f64 = 1e-14;
/// Standard deviations that a count may be off.
const ERRORS: f64 = 4.0;
/// Shuffles behind each null, and the ranks from the top, among them and the observed value, that count.
const SHUFFLES: f64 = 200.0;
const RANKS: f64 = 10.0;

fn noise(n: usize, d: usize, levels: usize, seed: Seed) -> Codes {
    let values = (0..n * d).map(|i| seed.below(i as u64, levels).unwrap() as u8).collect();
    Codes::from_bytes(values, d, levels).unwrap()
}

fn coins(n: usize, seed: Seed) -> Vec<bool> {
    (0..n).map(|i| seed.uniform(i as u64) < 0.5).collect()
}

fn set(names: &[&str], columns: &[Vec<bool>]) -> Dataset {
    let n = columns[0].len();
    let x = Tensor::zeros((n, 1), DType::F32, device()).unwrap();
    let y = Tensor::zeros(n, DType::U32, device()).unwrap();
    let flat = (0..n).flat_map(|row| columns.iter().map(move |c| f32::from(u8::from(c[row]))));
    let a = Tensor::from_vec(flat.collect::<Vec<f32>>(), (n, columns.len()), device()).unwrap();
    Dataset::new("rows", x, y, ["all"]).unwrap().with_attributes(a, names).unwrap()
}

fn ask(feature: usize, threshold: u8, low: usize, high: usize) -> Node {
    let split = Some(Split { feature, threshold, gain: 1.0, low, high });
    Node { weight: 10, value: vec![0.5, 0.5], split }
}

fn end(class: usize) -> Node {
    let mut value = vec![0.0; 2];
    value[class] = 1.0;
    Node { weight: 5, value, split: None }
}

/// One question.
fn stump(feature: usize, threshold: u8, d: usize, levels: usize) -> Tree {
    Tree::new(vec![ask(feature, threshold, 1, 2), end(0), end(1)], d, levels).unwrap()
}

/// Codes of four features, a tree over them, and attributes: a pale coat is a zero in feature 1, horns a 2 or 3 in
/// feature 0, and a tail has nothing to do with any of them.
///
/// ```text
/// 0: v0 > 1   low 1: v1 > 0   low 3: v1 > 1, always no      high 8: v3 > 0, which nobody reaches
///             high 2: v2 > 1  high 6: v1 > 0 once more
/// ```
fn example() -> (Tree, Codes, Dataset) {
    let codes = noise(400, 4, 4, SEED.named("codes"));
    let nodes = vec![
        ask(0, 1, 1, 2),
        ask(1, 0, 3, 4),
        ask(2, 1, 5, 6),
        ask(1, 1, 7, 8),
        end(0),
        end(1),
        ask(1, 0, 9, 10),
        end(1),
        ask(3, 0, 11, 12),
        end(0),
        end(1),
        end(0),
        end(1),
    ];
    let tree = Tree::new(nodes, 4, 4).unwrap();
    let pale = codes.column(1).map(|v| v == 0).collect();
    let horns = codes.column(0).map(|v| v > 1).collect();
    let data = set(&["pale_coat", "horns", "tail"], &[pale, horns, coins(400, SEED.named("tail"))]);
    (tree, codes, data)
}

#[test]
fn questions_that_are_attributes_have_their_names() {
    let (tree, codes, data) = example();
    let read = read_tree(&tree, &codes, &data, SEED).unwrap();
    let found: Vec<(usize, usize, &str, usize)> = read
        .readings
        .iter()
        .filter(|r| r.counts(read.least))
        .map(|r| (r.node, r.depth, r.attribute.as_str(), r.column))
        .collect();
    assert_eq!(found, [(0, 0, "horns", 1), (1, 1, "pale_coat", 0), (6, 2, "pale_coat", 0)]);
    for reading in &read.readings {
        match reading.node {
            0 => near(reading.mcc, 1.0, ROUNDING),
            // A high code says that the coat is not pale.
            1 | 6 => near(reading.mcc, -1.0, ROUNDING),
            _ => assert!(reading.mcc.abs() < 0.5),
        }
        assert!(reading.null < 0.5);
    }
    // Each once, by column and not by place in the tree.
    assert_eq!(read.attributes(), ["pale_coat", "horns"]);
}

#[test]
fn questions_are_judged_on_the_rows_that_reach_them() {
    let (tree, codes, data) = example();
    let read = read_tree(&tree, &codes, &data, SEED).unwrap();
    let nodes: Vec<usize> = read.readings.iter().map(|r| r.node).collect();
    assert_eq!(nodes, [0, 1, 2, 3, 6], "questions that somebody reaches, and no ends");
    let count = |holds: &dyn Fn(&[u8]) -> bool| codes.rows().filter(|row| holds(row)).count();
    let rows: Vec<usize> = read.readings.iter().map(|r| r.rows).collect();
    let expected = [
        400,
        count(&|v| v[0] <= 1),
        count(&|v| v[0] > 1),
        count(&|v| v[0] <= 1 && v[1] == 0),
        count(&|v| v[0] > 1 && v[2] > 1),
    ];
    assert_eq!(rows, expected);
    // Below the question for a pale coat the same feature has one answer only.
    let same = &read.readings[3];
    assert_eq!((same.mcc, same.null, same.counts(0.0)), (0.0, 0.0, false));
    // A question that decides inside a node and nowhere else: the attribute is v1 > 1, but only where v0 > 1.
    let local: Vec<bool> = codes.rows().map(|v| if v[0] > 1 { v[1] > 1 } else { v[1] <= 1 }).collect();
    let nodes = vec![ask(0, 1, 1, 2), end(0), ask(1, 1, 3, 4), end(0), end(1)];
    let inner = Tree::new(nodes, 4, 4).unwrap();
    let inside = read_tree(&inner, &codes, &set(&["local"], std::slice::from_ref(&local)), SEED).unwrap();
    near(inside.readings[1].mcc, 1.0, ROUNDING);
    let outside = read_tree(&stump(1, 1, 4, 4), &codes, &set(&["local"], &[local]), SEED).unwrap();
    assert!(outside.readings[0].mcc.abs() < 0.5);
}

#[test]
fn the_sign_decides_which_side_is_yes() {
    let (tree, codes, data) = example();
    let read = read_tree(&tree, &codes, &data, SEED).unwrap();
    let classes = ["cat", "dog"];
    let by_hand = tree.names(&classes).ask(0, "horns", true).unwrap();
    let by_hand = by_hand.ask(1, "pale coat", false).unwrap().ask(6, "pale coat", false).unwrap();
    let names = read.names(&tree, &classes).unwrap();
    assert_eq!(names, by_hand);
    let rules = tree.rules(&names).unwrap();
    assert!(rules.starts_with("horns?\n"), "{rules}");
    // Without horns: the pale ones go to the low side, where the code is 0, and on to node 3.
    assert!(rules.contains("  no: pale coat?\n    yes: z1 > 1?\n"), "{rules}");
    assert!(rules.contains("    no: cat 1.00 (5 rows)\n"), "{rules}");
    let other = stump(0, 1, 4, 4);
    assert!(matches!(read.names(&other, &classes), Err(Error::Config { .. })));
    let shown = read.table().unwrap().markdown();
    assert!(shown.contains("horns") && shown.contains("yes") && shown.contains("no"), "{shown}");
}

#[test]
fn questions_that_ask_nothing_are_named_as_often_as_promised() {
    // The answers are noise, so the observed value and those of the shuffles are 201 numbers in random order. It counts
    // if it is one of the ten largest.
    const TREES: usize = 400;
    const ROWS: usize = 300;
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let (mut alarms, mut named, mut nulls) = (0, 0, 0.0);
    for case in 0..TREES {
        let seed = SEED.named("alarms").stream(case as u64);
        let codes = noise(ROWS, 1, 8, seed.named("codes"));
        let columns: Vec<Vec<bool>> = (0..8).map(|a| coins(ROWS, seed.stream(a))).collect();
        let read = read_tree(&stump(0, 3, 1, 8), &codes, &set(&NAMES, &columns), seed).unwrap();
        alarms += usize::from(read.readings[0].counts(0.0));
        named += read.attributes().len();
        nulls += read.readings[0].null / TREES as f64;
    }
    let expected = RANKS / (SHUFFLES + 1.0);
    let spread = (TREES as f64 * expected * (1.0 - expected)).sqrt();
    // Ties between shuffles only make alarms rarer; correlations of 300 rows have few.
    near(alarms as f64, TREES as f64 * expected, ERRORS * spread);
    assert!(alarms > 0);
    // And 0.5 is nine standard deviations of such a correlation.
    assert_eq!(named, 0);
    // The null knows that the best of eight was taken: |N(0, 1)|/√n, eight times, has this 95 % quantile.
    let quantile = normal_quantile(0.5 + 0.5 * 0.95f64.powf(1.0 / 8.0)).unwrap() / (ROWS as f64).sqrt();
    // A quantile of 200 values is uncertain by 4 %, of 400 such by 0.2 %; whole counts move it by as much again.
    near(nulls / quantile, 1.0, 0.02);
}

#[test]
fn a_tree_on_random_functions_of_the_class_is_named_after_nothing() {
    const TREES: usize = 40;
    const ROWS: usize = 480;
    let classes = ndarray::Array2::<f64>::eye(12);
    let (mut questions, mut by_rows, mut by_classes) = (0, 0, 0);
    for case in 0..TREES {
        let seed = SEED.named("class functions").stream(case as u64);
        let (codes, data) = class_functions(ROWS, 16, seed);
        let rows: Vec<usize> = data.labels().unwrap().iter().map(|y| *y as usize).collect();
        let tree = Cart::default().fit(&codes, &classes.select(ndarray::Axis(0), &rows)).unwrap();
        let read = read_tree(&tree, &codes, &data, seed).unwrap();
        let strong = |r: &&NodeReading| r.mcc.abs() >= read.least;
        questions += read.readings.iter().filter(strong).count();
        by_rows += read.readings.iter().filter(strong).filter(|r| r.p_rows <= 0.05).count();
        by_classes += read.readings.iter().filter(|r| r.counts(read.least)).count();
    }
    // Questions that part classes go with attributes that part them, and all of them are far above shuffled rows.
    assert!(questions > 5 * TREES && by_rows == questions, "{by_rows} of {questions}");
    // If classes swap their attributes, the same happens: as many alarms as promised, or fewer where few classes are left.
    let expected = 0.05 * questions as f64;
    assert!(by_classes as f64 <= expected + ERRORS * expected.sqrt(), "{by_classes} of {questions}");
}

#[test]
fn questions_that_are_attributes_of_pictures_pass_the_swap_of_classes() {
    // The codes are the true attributes, each with two levels, and the classes follow from them.
    let (_, data) = class_functions(960, 1, SEED);
    let codes = Codes::new(data.a.as_ref().unwrap(), 2).unwrap();
    let rows: Vec<usize> = data.labels().unwrap().iter().map(|y| *y as usize).collect();
    let classes = ndarray::Array2::<f64>::eye(12);
    let tree =
        Cart { depth: 4, ..Cart::default() }.fit(&codes, &classes.select(ndarray::Axis(0), &rows)).unwrap();
    let read = read_tree(&tree, &codes, &data, SEED).unwrap();
    let first = &read.readings[0];
    assert_eq!((first.attribute.as_str(), first.counts(0.5)), ("horns", true));
    // Where two species are left, every attribute that parts two species would have done.
    let last = read.readings.iter().find(|r| r.rows < 960 / 5 && r.depth >= 2).unwrap();
    near(last.mcc.abs(), 1.0, ROUNDING);
    assert!(last.p_rows <= 0.05 && last.p_classes > 0.05 && !last.counts(0.5));
}

#[test]
fn in_a_small_node_a_perfect_fit_is_nothing() {
    // Four rows and sixteen attributes, all ways to answer: whatever the answers are, some attribute agrees.
    let names: Vec<String> = (0..16).map(|a| format!("a{a}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let columns: Vec<Vec<bool>> = (0..16).map(|a| (0..4).map(|row| a >> row & 1 == 1).collect()).collect();
    let codes = Codes::from_bytes(vec![0, 1, 1, 0], 1, 2).unwrap();
    let read = read_tree(&stump(0, 0, 1, 2), &codes, &set(&names, &columns), SEED).unwrap();
    let reading = &read.readings[0];
    near(reading.mcc.abs(), 1.0, ROUNDING);
    near(reading.null, 1.0, ROUNDING);
    assert!(!reading.counts(0.5));
    assert!(read.attributes().is_empty());
    // One row has one answer.
    let one = Codes::from_bytes(vec![1], 1, 2).unwrap();
    let read = read_tree(&stump(0, 0, 1, 2), &one, &set(&["a"], &[vec![true]]), SEED).unwrap();
    assert_eq!((read.readings[0].rows, read.readings[0].mcc), (1, 0.0));
}

#[test]
fn both_conditions_are_needed() {
    // An attribute that agrees with the answer in 60 % of many rows: far above chance, and too weak for a name.
    let codes = noise(2000, 1, 2, SEED.named("weak"));
    let weak: Vec<bool> = codes
        .column(0)
        .enumerate()
        .map(|(i, v)| (v == 1) == (SEED.named("agree").uniform(i as u64) < 0.6))
        .collect();
    let read = read_tree(&stump(0, 0, 1, 2), &codes, &set(&["weak"], &[weak]), SEED).unwrap();
    let reading = &read.readings[0];
    // 2 · 0.6 − 1, and four standard errors of 1/√2000.
    near(reading.mcc, 0.2, ERRORS / 2000f64.sqrt());
    assert!(reading.counts(0.1) && !reading.counts(0.5));
    assert!(read.attributes().is_empty());
    let lenient = TreeReading { least: 0.1, ..read };
    assert_eq!(lenient.attributes(), ["weak"]);
}

#[test]
fn the_same_seed_reads_the_same() {
    let (tree, codes, data) = example();
    let read = |seed| read_tree(&tree, &codes, &data, seed).unwrap();
    assert_eq!(read(SEED), read(SEED));
    assert_ne!(read(SEED), read(SEED.stream(1)), "other shuffles");
}

#[test]
fn a_tree_without_questions_has_nothing_to_read() {
    let tree = Tree::new(vec![end(0)], 4, 4).unwrap();
    let (_, codes, data) = example();
    let read = read_tree(&tree, &codes, &data, SEED).unwrap();
    assert!(read.readings.is_empty() && read.attributes().is_empty());
    assert_eq!(read.names(&tree, &["cat"]).unwrap(), tree.names(&["cat"]));
}

#[test]
fn what_does_not_fit_is_refused() {
    let (tree, codes, data) = example();
    let bare = Dataset { a: None, ..data.clone() };
    assert!(matches!(read_tree(&tree, &codes, &bare, SEED), Err(Error::Data { .. })));
    let fewer = codes.take(&[0, 1, 2]).unwrap();
    assert!(matches!(read_tree(&tree, &fewer, &data, SEED), Err(Error::Shape { .. })));
    for other in [noise(400, 3, 4, SEED), noise(400, 4, 8, SEED)] {
        assert!(matches!(read_tree(&tree, &other, &data, SEED), Err(Error::Shape { .. })));
    }
}
