//! Fits against all splits one by one, and the same bits whatever the order, the threads and the way to the sums.

use crate::device::device;
use lastlayer::error::Error;
use lastlayer::ndarray::{Array2, Axis, array, concatenate, s};
use lastlayer::prelude::Tensor;
use lastlayer::seed::Seed;
use lastlayer::tree::{Cart, Codes, Criterion, Examples, Node, Split, Tree};

use super::{
    BOTH, SEED, divided, dyadic, entropy, gain, message, near, noise, one_hot, planted, soft, square, total,
};

/// Rounding of a gain, for each row: sums and logarithms of numbers of size one, a few hundred rows deep.
const ROUNDING: f64 = 1e-12;
/// A probability in fixed point is off by 2⁻⁴¹, and a gain has a slope of ln S/S_c in it, which we take to be below 50;
/// for each row and each of up to 30 outputs.
const FIXED: f64 = 50.0 * 30.0 / (1u64 << 41) as f64;
/// The gain of a row below which a node is not split.
const LEAST: f64 = 1e-12;

/// What a walk down a tree saw.
#[derive(Default)]
struct Seen {
    questions: usize,
    /// Questions that had no rival within rounding.
    alone: usize,
}

/// Checks every node of a fitted tree against all splits of its rows.
fn check_all_splits(tree: &Tree, codes: &Codes, p: &Array2<f64>, cart: Cart, tolerance: f64) -> Seen {
    let mut seen = Seen::default();
    let mut waiting = vec![(0, 0, (0..codes.n()).collect::<Vec<usize>>())];
    while let Some((number, depth, rows)) = waiting.pop() {
        let node = &tree.nodes()[number];
        let n = rows.len() as f64;
        assert_eq!(node.weight, rows.len() as u64);
        let sums = total(p, &rows);
        for (value, sum) in node.value.iter().zip(&sums) {
            near(*value, sum / sums.iter().sum::<f64>(), tolerance);
        }
        near(node.value.iter().sum(), 1.0, ROUNDING);
        let mut all = Vec::new();
        for feature in 0..codes.d() {
            for threshold in 0..(codes.levels() - 1) as u8 {
                let [low, high] = divided(codes, &rows, feature, threshold);
                if low.len().min(high.len()) as u64 >= cart.min_leaf {
                    all.push((feature, threshold, gain(p, &low, &high, cart.criterion), low));
                }
            }
        }
        let best = all.iter().map(|split| split.2).fold(f64::NEG_INFINITY, f64::max);
        let Some(split) = node.split else {
            assert!(depth == cart.depth || best <= (LEAST + tolerance) * n, "a leaf forgoes {best}");
            continue;
        };
        assert!(depth < cart.depth);
        let own = all.iter().find(|s| (s.0, s.1) == (split.feature, split.threshold));
        let own = own.expect("the question leaves too few rows on a side");
        near(split.gain, own.2, tolerance * n);
        near(own.2, best, tolerance * n);
        // Of questions that part the rows in the same way the first is taken; all is in the order of the rule.
        let first = all.iter().find(|s| s.3 == own.3).unwrap();
        assert_eq!((split.feature, split.threshold), (first.0, first.1));
        seen.questions += 1;
        let rivals = all.iter().filter(|s| s.2 > best - 2.0 * tolerance * n && s.3 != own.3);
        seen.alone += usize::from(rivals.count() == 0);
        let [low, high] = divided(codes, &rows, split.feature, split.threshold);
        waiting.extend([(split.low, depth + 1, low), (split.high, depth + 1, high)]);
    }
    seen
}

#[test]
fn every_question_is_the_best_of_all() {
    let mut seen = Seen::default();
    for trial in 0..300 {
        let seed = SEED.named("all splits").stream(trial);
        let size = |c: u64, range: usize| seed.named("size").below(c, range).unwrap();
        let (n, d, k) = (2 + size(0, 39), 1 + size(1, 5), 2 + size(2, 5));
        let levels = [2, 3, 4, 16][size(3, 4)];
        let codes = noise(n, d, levels, seed.named("codes"));
        let p = match trial % 3 {
            0 => one_hot(&(0..n).map(|i| seed.below(i as u64, k).unwrap()).collect::<Vec<_>>(), k),
            _ => dyadic(n, k, seed.named("p")),
        };
        for criterion in BOTH {
            let cart =
                Cart { depth: 1 + size(4, 4), min_leaf: 1 + size(5, 4) as u64, criterion, ..Cart::default() };
            let tree = cart.fit(&codes, &p).unwrap();
            let own = check_all_splits(&tree, &codes, &p, cart, ROUNDING);
            (seen.questions, seen.alone) = (seen.questions + own.questions, seen.alone + own.alone);
        }
    }
    // Most questions must have been without a rival, or the test would not test the choice.
    assert!(seen.questions > 1500 && 2 * seen.alone > seen.questions, "{} {}", seen.questions, seen.alone);
}

/// n, d, levels, k: the three widths of a tile and two tiles, one feature, a group that is padded, and all levels.
const SHAPES: [(usize, usize, usize, usize); 7] = [
    (200, 9, 4, 2),
    (200, 1, 16, 6),
    (200, 9, 16, 12),
    (200, 17, 4, 30),
    (300, 3, 256, 2),
    (300, 2, 256, 30),
    (200, 8, 2, 14),
];

#[test]
fn every_width_of_a_tile_and_every_number_of_levels_finds_the_best() {
    for (n, d, levels, k) in SHAPES {
        let codes = noise(n, d, levels, SEED.named("shapes"));
        let p = planted(&codes, k, SEED);
        for criterion in BOTH {
            for subtract in [true, false] {
                let cart = Cart { depth: 3, criterion, subtract, ..Cart::default() };
                let tree = cart.fit(&codes, &p).unwrap();
                let seen = check_all_splits(&tree, &codes, &p, cart, ROUNDING + FIXED);
                assert!(seen.questions >= 5, "{n} {d} {levels} {k}: {}", seen.questions);
            }
        }
    }
}

#[test]
fn deeper_trees_never_have_a_larger_loss() {
    for (trial, (n, d, levels, k)) in SHAPES.into_iter().enumerate() {
        let codes = noise(n, d, levels, SEED.named("loss"));
        let p = soft(n, k, SEED.stream(trial as u64));
        for criterion in BOTH {
            let fit = |depth| Cart { depth, criterion, ..Cart::default() }.fit(&codes, &p).unwrap();
            let losses: Vec<f64> =
                (0..8).map(|depth| fit(depth).loss(&codes, &p, criterion).unwrap()).collect();
            for pair in losses.windows(2) {
                assert!(pair[1] <= pair[0] + ROUNDING, "{losses:?}");
            }
            assert!(losses[7] < losses[0] - 0.01, "{losses:?}");
        }
    }
}

#[test]
fn the_loss_falls_by_the_gain_of_every_question() {
    let codes = noise(120, 6, 8, SEED);
    let p = soft(120, 4, SEED);
    for criterion in BOTH {
        let fit = |depth| Cart { depth, criterion, ..Cart::default() }.fit(&codes, &p).unwrap();
        let tree = fit(4);
        let gains: f64 = tree.nodes().iter().filter_map(|node| node.split).map(|split| split.gain).sum();
        let loss = |tree: &Tree| 120.0 * tree.loss(&codes, &p, criterion).unwrap();
        near(loss(&fit(0)) - loss(&tree), gains, 120.0 * (ROUNDING + FIXED));
    }
}

/// A softmax in f32 has entries like this one, which are zero in fixed point: nobody should pay infinitely for them.
#[test]
fn what_is_zero_in_fixed_point_costs_nothing() {
    let codes = Codes::from_bytes(vec![0, 0, 1, 1], 1, 2).unwrap();
    let tiny = 1e-20;
    let p = array![[1.0, tiny], [1.0, tiny], [0.5, 0.5], [0.25, 0.75]];
    let losses: Vec<f64> = [0, 1]
        .map(|depth| {
            let tree = Cart { depth, ..Cart::default() }.fit(&codes, &p).unwrap();
            tree.loss(&codes, &p, Criterion::Information).unwrap()
        })
        .to_vec();
    assert!(losses[1] < losses[0], "{losses:?}");
    // What does happen and is excluded still costs everything.
    let tree = Cart::default().fit(&codes, &p).unwrap();
    let other = array![[0.5, 0.5], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]];
    assert_eq!(tree.loss(&codes, &other, Criterion::Information).unwrap(), f64::INFINITY);
}

#[test]
fn the_order_of_the_rows_does_not_change_a_bit() {
    let (n, d, k) = (500, 12, 7);
    let codes = noise(n, d, 16, SEED.named("order"));
    let p = planted(&codes, k, SEED);
    for criterion in BOTH {
        let cart = Cart { criterion, ..Cart::default() };
        let tree = cart.fit(&codes, &p).unwrap();
        assert!(tree.leaves() > 16);
        for i in 0..5 {
            let order = SEED.stream(i).permutation(n);
            let shuffled = cart.fit(&codes.take(&order).unwrap(), &p.select(Axis(0), &order)).unwrap();
            assert_eq!(shuffled, tree);
        }
    }
}

#[test]
fn a_weight_is_so_many_equal_rows_bit_for_bit() {
    let (n, d, k) = (150, 5, 6);
    let codes = noise(n, d, 4, SEED.named("weights"));
    let p = soft(n, k, SEED);
    let weights: Vec<u32> =
        (0..n as u64).map(|i| SEED.named("weights").below(i, 4).unwrap() as u32).collect();
    assert!(weights.contains(&0) && weights.contains(&3));
    let rows: Vec<usize> = (0..n).flat_map(|i| vec![i; weights[i] as usize]).collect();
    for criterion in BOTH {
        let cart = Cart { criterion, min_leaf: 7, ..Cart::default() };
        let copied = cart.fit(&codes.take(&rows).unwrap(), &p.select(Axis(0), &rows)).unwrap();
        let mut examples = Examples::new(d, 4, k).unwrap();
        examples.push_weighted(&codes, &p, &weights).unwrap();
        assert_eq!(cart.fit_examples(&examples).unwrap(), copied);
        assert!(copied.leaves() > 4);
        assert_ne!(cart.fit(&codes, &p).unwrap(), copied);
    }
}

fn in_pool<T: Send>(threads: usize, work: impl Fn() -> T + Send + Sync) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

/// n, d, levels, k with which nodes are shared among threads (from a million additions) and sides are subtracted: from 16 rows
/// for each level, and from 128 where histograms have more than 2¹⁶ numbers, as the last ones have.
const LARGE: [(usize, usize, usize, usize); 4] =
    [(20_000, 20, 4, 5), (20_000, 20, 16, 5), (10_000, 9, 16, 30), (40_000, 9, 256, 30)];

#[test]
fn threads_and_subtraction_do_not_change_a_bit() {
    for (n, d, levels, k) in LARGE {
        let codes = noise(n, d, levels, SEED.named("large"));
        let p = planted(&codes, k, SEED);
        for criterion in BOTH {
            let depth = if levels > 16 { 3 } else { 5 };
            let cart = Cart { depth, criterion, min_leaf: 3, ..Cart::default() };
            let tree = in_pool(1, || Cart { subtract: false, ..cart }.fit(&codes, &p).unwrap());
            assert_eq!(tree.leaves(), 1 << depth);
            for (threads, subtract) in [(1, true), (2, true), (2, false)] {
                let other = in_pool(threads, || Cart { subtract, ..cart }.fit(&codes, &p).unwrap());
                assert!(other == tree, "{n} {d} {levels} {k} {criterion:?} {threads} {subtract}");
            }
        }
    }
}

#[test]
fn subtracted_sums_choose_the_best_of_all_too() {
    let (n, d, levels, k) = LARGE[0];
    let codes = noise(n, d, levels, SEED.named("large"));
    let p = planted(&codes, k, SEED);
    for criterion in BOTH {
        let cart = Cart { criterion, ..Cart::default() };
        let tree = cart.fit(&codes, &p).unwrap();
        let seen = check_all_splits(&tree, &codes, &p, cart, ROUNDING + FIXED);
        assert!(seen.questions > 20 && seen.alone > 15, "{} {}", seen.questions, seen.alone);
    }
}

#[test]
fn exclusive_or_gains_nothing_at_first_and_is_solved_if_that_is_allowed() {
    let codes = Codes::from_bytes(vec![0, 0, 0, 1, 1, 0, 1, 1], 2, 2).unwrap();
    let labels = [0, 1, 1, 0];
    for copies in [1, 9] {
        let rows: Vec<usize> = (0..4 * copies).map(|i| i % 4).collect();
        let codes = codes.take(&rows).unwrap();
        let own: Vec<usize> = rows.iter().map(|row| labels[*row]).collect();
        let p = one_hot(&own, 2);
        let said: Vec<u32> = own.iter().map(|label| *label as u32).collect();
        for criterion in BOTH {
            let cart = Cart { depth: 2, criterion, ..Cart::default() };
            let stopped = cart.fit(&codes, &p).unwrap();
            assert_eq!((stopped.leaves(), &stopped.nodes()[0].value[..]), (1, &[0.5, 0.5][..]));
            let solved = Cart { allow_zero_gain: true, ..cart }.fit(&codes, &p).unwrap();
            assert_eq!((solved.depth(), solved.leaves()), (2, 4));
            near(solved.nodes()[0].split.unwrap().gain, 0.0, LEAST);
            assert_eq!(solved.accuracy(&codes, &said).unwrap(), 1.0);
            // A node of one class has nothing to ask, whatever is allowed.
            let deeper = Cart { depth: 9, allow_zero_gain: true, ..cart }.fit(&codes, &p).unwrap();
            assert_eq!(deeper, solved);
        }
    }
}

#[test]
fn the_variance_is_the_gini_gain_of_averaged_probabilities() {
    let gini = |rows: &[usize], p: &Array2<f64>| {
        let n = rows.len() as f64;
        let mean: Vec<f64> = total(p, rows).iter().map(|s| s / n).collect();
        n * (1.0 - square(&mean))
    };
    for trial in 0..20 {
        let seed = SEED.named("gini").stream(trial);
        let (codes, p) = (noise(40, 4, 8, seed), soft(40, 5, seed.named("p")));
        let tree =
            Cart { depth: 1, criterion: Criterion::Variance, ..Cart::default() }.fit(&codes, &p).unwrap();
        let split = tree.nodes()[0].split.unwrap();
        let all: Vec<usize> = (0..40).collect();
        let [low, high] = divided(&codes, &all, split.feature, split.threshold);
        near(split.gain, gini(&all, &p) - gini(&low, &p) - gini(&high, &p), 40.0 * (ROUNDING + FIXED));
    }
}

#[test]
fn with_one_hot_targets_the_information_is_the_classical_one() {
    for trial in 0..20 {
        let seed = SEED.named("information").stream(trial);
        let codes = noise(60, 4, 8, seed);
        let labels: Vec<usize> = (0..60).map(|i| seed.named("y").below(i, 3).unwrap()).collect();
        let tree = Cart { depth: 1, ..Cart::default() }.fit(&codes, &one_hot(&labels, 3)).unwrap();
        let split = tree.nodes()[0].split.unwrap();
        // I(y; side) from the joint distribution of class and side, a different formula than that of the entropies.
        let mut joint = [[0.0; 2]; 3];
        for (row, label) in codes.rows().zip(&labels) {
            joint[*label][usize::from(row[split.feature] > split.threshold)] += 1.0 / 60.0;
        }
        let side = [0, 1].map(|s| joint.iter().map(|row| row[s]).sum::<f64>());
        let mut information = 0.0;
        for row in joint {
            for (s, q) in row.into_iter().enumerate().filter(|(_, q)| *q > 0.0) {
                information += q * (q / (side[s] * (row[0] + row[1]))).ln();
            }
        }
        near(split.gain / 60.0, information, ROUNDING);
    }
}

#[test]
fn nothing_to_ask_gives_a_leaf() {
    let codes = noise(21, 3, 4, SEED);
    let p = soft(21, 3, SEED);
    let leaf = |tree: Tree, value: Vec<f64>| {
        assert_eq!((tree.leaves(), tree.depth(), tree.nodes().len()), (1, 0, 1));
        assert_eq!(tree.nodes()[0].weight, 21);
        value.iter().zip(&tree.nodes()[0].value).for_each(|(a, b)| near(*a, *b, ROUNDING));
    };
    let mean: Vec<f64> = p.mean_axis(Axis(0)).unwrap().to_vec();
    for criterion in BOTH {
        for allow_zero_gain in [false, true] {
            let cart = Cart { criterion, allow_zero_gain, ..Cart::default() };
            leaf(Cart { depth: 0, ..cart }.fit(&codes, &p).unwrap(), mean.clone());
            leaf(Cart { min_leaf: 11, ..cart }.fit(&codes, &p).unwrap(), mean.clone());
            leaf(Cart { min_leaf: u64::MAX / 2, ..cart }.fit(&codes, &p).unwrap(), mean.clone());
            leaf(cart.fit(&codes, &one_hot(&[1; 21], 3)).unwrap(), vec![0.0, 1.0, 0.0]);
            leaf(cart.fit(&codes, &Array2::<f64>::ones((21, 1))).unwrap(), vec![1.0]);
            // All rows have the same codes.
            let same = Codes::from_bytes(vec![3; 63], 3, 4).unwrap();
            leaf(cart.fit(&same, &p).unwrap(), mean.clone());
        }
        // All rows have the same probabilities, and several classes have some.
        let equal = Array2::from_shape_fn((21, 3), |(_, c)| [0.1, 0.2, 0.7][c]);
        leaf(Cart { criterion, ..Cart::default() }.fit(&codes, &equal).unwrap(), vec![0.1, 0.2, 0.7]);
    }
}

#[test]
fn at_half_of_the_rows_a_leaf_can_just_be_split() {
    let codes = Codes::from_bytes(vec![0, 1, 1, 2], 1, 3).unwrap();
    let p = one_hot(&[0, 0, 1, 1], 2);
    let fit = |min_leaf| Cart { min_leaf, ..Cart::default() }.fit(&codes, &p).unwrap();
    assert_eq!([fit(1).leaves(), fit(2).leaves()], [3, 1]);
    let halves = Codes::from_bytes(vec![0, 0, 1, 1], 1, 3).unwrap();
    assert_eq!(Cart { min_leaf: 2, ..Cart::default() }.fit(&halves, &p).unwrap().leaves(), 2);
}

#[test]
fn a_class_that_is_absent_has_probability_zero_and_changes_nothing_else() {
    let codes = noise(80, 4, 4, SEED);
    let p = soft(80, 2, SEED);
    let mut wide = Array2::zeros((80, 3));
    wide.slice_mut(s![.., ..2]).assign(&p);
    for criterion in BOTH {
        let cart = Cart { criterion, ..Cart::default() };
        let (tree, with) = (cart.fit(&codes, &p).unwrap(), cart.fit(&codes, &wide).unwrap());
        assert!(with.nodes().iter().all(|node| node.value[2] == 0.0));
        assert!(with.same_questions(&tree) && tree.leaves() > 8);
    }
}

/// A tree with two questions: the third feature above 1, and below yes the first feature above 0.
fn small() -> Tree {
    let leaf = |weight, value: [f64; 2]| Node { weight, value: value.to_vec(), split: None };
    let ask = |feature, threshold, low, high| Some(Split { feature, threshold, gain: 1.0, low, high });
    let nodes = vec![
        Node { split: ask(2, 1, 1, 2), ..leaf(9, [0.5, 0.5]) },
        leaf(4, [0.5, 0.5]),
        Node { split: ask(0, 0, 3, 4), ..leaf(5, [0.6, 0.4]) },
        leaf(2, [1.0, 0.0]),
        leaf(3, [0.25, 0.75]),
    ];
    Tree::new(nodes, 3, 4).unwrap()
}

#[test]
fn a_row_goes_where_its_codes_say() {
    let tree = small();
    let codes = Codes::from_bytes(vec![3, 3, 1, 0, 0, 2, 1, 0, 3, 2, 1, 2], 3, 4).unwrap();
    assert_eq!(tree.leaf_of(&codes).unwrap(), [1, 3, 4, 4]);
    assert_eq!(
        tree.rows_at(&codes).unwrap(),
        [vec![0, 1, 2, 3], vec![0], vec![1, 2, 3], vec![1], vec![2, 3]]
    );
    let p = tree.predict(&codes).unwrap();
    assert_eq!(p, array![[0.5, 0.5], [1.0, 0.0], [0.25, 0.75], [0.25, 0.75]]);
    // Of two equal probabilities the first class is said.
    assert_eq!(tree.classify(&codes).unwrap(), [0, 0, 1, 1]);
    assert_eq!(tree.accuracy(&codes, &[0, 1, 1, 0]).unwrap(), 0.5);
    assert_eq!((tree.d(), tree.outputs(), tree.depth(), tree.leaves()), (3, 2, 2, 3));
    assert_eq!(tree.depths(), [0, 1, 1, 2, 2]);
    let squared =
        tree.loss(&codes, &array![[0.5, 0.5], [0.0, 1.0], [0.25, 0.75], [0.25, 0.75]], Criterion::Variance);
    assert_eq!(squared.unwrap(), 2.0 / 4.0);
    let crossed =
        tree.loss(&codes, &array![[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], Criterion::Information);
    near(crossed.unwrap(), (2f64.ln() - 2.0 * 0.75f64.ln()) / 4.0, ROUNDING);
}

#[test]
fn rows_at_the_nodes_of_a_fit_have_the_weights_and_means_of_the_nodes() {
    let (codes, p) = (noise(200, 6, 8, SEED), soft(200, 4, SEED));
    let tree = Cart::default().fit(&codes, &p).unwrap();
    for (rows, node) in tree.rows_at(&codes).unwrap().iter().zip(tree.nodes()) {
        assert_eq!(rows.len() as u64, node.weight);
        assert!(rows.is_sorted());
        let mean: Vec<f64> = total(&p, rows).iter().map(|s| s / rows.len() as f64).collect();
        mean.iter().zip(&node.value).for_each(|(a, b)| near(*a, *b, ROUNDING));
    }
}

#[test]
fn same_questions_looks_at_questions_only() {
    let tree = small();
    let with = |change: fn(&mut Vec<Node>)| {
        let mut nodes = tree.nodes().to_vec();
        change(&mut nodes);
        Tree::new(nodes, 3, 4).unwrap()
    };
    let values = with(|nodes| nodes[1].value = vec![0.0, 1.0]);
    assert!(values != tree && values.same_questions(&tree));
    assert!(with(|nodes| nodes[2].split.as_mut().unwrap().gain = 0.5).same_questions(&tree));
    assert!(!with(|nodes| nodes[2].split.as_mut().unwrap().threshold = 1).same_questions(&tree));
    assert!(!with(|nodes| nodes[2].split.as_mut().unwrap().feature = 1).same_questions(&tree));
    assert!(
        !with(|nodes| {
            nodes.truncate(3);
            nodes[2].split = None;
        })
        .same_questions(&tree)
    );
}

#[test]
fn batches_add_up_to_the_whole_bit_for_bit() {
    let (n, d, k) = (330, 10, 9);
    let codes = noise(n, d, 16, SEED.named("batches"));
    let p = planted(&codes, k, SEED);
    let whole = Examples::of(&codes, &p).unwrap();
    let mut grown = Examples::new(d, 16, k).unwrap();
    let empty = grown.clone();
    for first in (0..n).step_by(100) {
        let rows: Vec<usize> = (first..n.min(first + 100)).collect();
        grown.push(&codes.take(&rows).unwrap(), &p.select(Axis(0), &rows)).unwrap();
        assert_eq!(grown.n(), rows[rows.len() - 1] + 1);
    }
    assert_eq!(grown, whole);
    assert_eq!((grown.n(), grown.d(), grown.levels(), grown.outputs()), (n, d, 16, k));
    let tree = Cart::default().fit(&codes, &p).unwrap();
    assert_eq!(Cart::default().fit_examples(&grown).unwrap(), tree);
    let mut first = empty.clone();
    first.push(&codes, &p).unwrap();
    first.push_weighted(&codes, &p, &vec![3; n]).unwrap();
    first.truncate(n + n / 2);
    first.truncate(n);
    assert_eq!(first, whole, "the rows that are left, and their weight");
    grown.truncate(0);
    assert_eq!(grown, empty);
    assert!(matches!(Cart::default().fit_examples(&grown), Err(Error::Data { .. })));
    grown.push(&codes, &p).unwrap();
    assert_eq!(Cart::default().fit_examples(&grown).unwrap(), tree);
}

/// Sums of all outputs as whole numbers of 128 bits: weight times round(2⁴⁰ p).
fn exact_mean(p: &Array2<f64>, weights: &[u32]) -> Vec<f64> {
    let mut sums = vec![0i128; p.ncols()];
    for (row, weight) in p.rows().into_iter().zip(weights) {
        for (sum, p) in sums.iter_mut().zip(row) {
            *sum += (p * (1i64 << 40) as f64).round() as i128 * i128::from(*weight);
        }
    }
    let total: i128 = sums.iter().sum();
    sums.iter().map(|sum| *sum as f64 / total as f64).collect()
}

#[test]
fn sums_of_many_rows_are_exact() {
    let (n, k) = (50_000, 5);
    let (codes, p) = (noise(n, 1, 2, SEED), soft(n, k, SEED));
    let tree = Cart { depth: 1, ..Cart::default() }.fit(&codes, &p).unwrap();
    for (rows, node) in tree.rows_at(&codes).unwrap().iter().zip(tree.nodes()) {
        assert_eq!(node.value, exact_mean(&p.select(Axis(0), rows), &vec![1; rows.len()]));
    }
}

#[test]
fn as_many_rows_as_allowed_do_not_overflow_and_one_more_is_refused() {
    const MOST: u32 = 1 << 22;
    let codes = Codes::from_bytes(vec![0, 1, 1], 1, 2).unwrap();
    let p = array![[1.0, 0.0], [1.0, 0.0], [0.3, 0.7]];
    let weights = [MOST - 1000, 1, 999];
    let mut examples = Examples::new(1, 2, 2).unwrap();
    examples.push_weighted(&codes, &p, &weights).unwrap();
    let tree = Cart { depth: 1, ..Cart::default() }.fit_examples(&examples).unwrap();
    assert_eq!(tree.nodes()[0].weight, u64::from(MOST));
    assert_eq!(tree.nodes()[0].value, exact_mean(&p, &weights));
    assert_eq!(tree.leaves(), 2);
    let before = examples.clone();
    let one = Codes::from_bytes(vec![0], 1, 2).unwrap();
    let refused = message(examples.push(&one, &array![[1.0, 0.0]]));
    assert_eq!(refused, "rows of a tree, with weights is 4194305; allowed: at most 4194304");
    assert_eq!(examples, before);
    let huge = examples.push_weighted(&codes, &p, &[u32::MAX; 3]);
    assert!(matches!(huge, Err(Error::Config { .. })));
}

#[test]
fn targets_that_are_no_probabilities_are_refused_and_nothing_is_added() {
    let codes = Codes::from_bytes(vec![0, 1], 1, 2).unwrap();
    let mut examples = Examples::of(&codes, &array![[0.5, 0.5], [1.0, 0.0]]).unwrap();
    let before = examples.clone();
    let bad = [[f64::NAN, 0.5], [-0.1, 1.1], [0.5, 0.6], [0.0, 0.0], [f64::INFINITY, 0.0], [3.0, -2.0]];
    for row in bad {
        let got = message(examples.push(&codes, &array![[0.5, 0.5], [row[0], row[1]]]));
        assert!(got.starts_with("targets of a tree: row 1 is no probability vector"), "{got}");
        assert!(got.contains("softmax"), "{got}");
        assert_eq!(examples, before);
    }
    // What a softmax in f32 leaves is no error.
    examples.push(&codes, &array![[0.5004, 0.5], [0.9996, 0.0]]).unwrap();
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let codes = noise(6, 2, 4, SEED);
    let p = soft(6, 3, SEED);
    let shape = |result: Result<(), Error>| assert!(matches!(result, Err(Error::Shape { .. })), "{result:?}");
    let mut examples = Examples::of(&codes, &p).unwrap();
    let before = examples.clone();
    shape(examples.push(&codes, &soft(5, 3, SEED)));
    shape(examples.push(&codes, &soft(6, 4, SEED)));
    shape(examples.push(&codes, &[1.0; 6]));
    shape(examples.push(&noise(6, 3, 4, SEED), &p));
    shape(examples.push(&noise(6, 2, 8, SEED), &p));
    shape(examples.push_weighted(&codes, &p, &[1; 5]));
    assert_eq!(examples, before);
    assert!(Cart::default().fit(&codes, &soft(7, 3, SEED)).is_err());
    let tree = Cart::default().fit(&codes, &p).unwrap();
    for other in [noise(6, 3, 4, SEED), noise(6, 2, 8, SEED)] {
        shape(tree.predict(&other).map(drop));
        shape(tree.leaf_of(&other).map(drop));
        shape(tree.classify(&other).map(drop));
        shape(tree.rows_at(&other).map(drop));
        shape(tree.accuracy(&other, &[0; 6]).map(drop));
        shape(tree.loss(&other, &p, Criterion::Variance).map(drop));
    }
    shape(tree.accuracy(&codes, &[0; 5]).map(drop));
    shape(tree.loss(&codes, &soft(6, 2, SEED), Criterion::Variance).map(drop));
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let (codes, p) = (noise(6, 2, 4, SEED), soft(6, 3, SEED));
    let deep = Cart { depth: 25, ..Cart::default() }.fit(&codes, &p);
    let allowed = "allowed: a depth of at most 24, and at least 1 row";
    assert_eq!(message(deep), format!("depth and min_leaf of a tree is 25 and 1; {allowed}"));
    let none = Cart { min_leaf: 0, ..Cart::default() }.fit(&codes, &p);
    assert_eq!(message(none), format!("depth and min_leaf of a tree is 5 and 0; {allowed}"));
    assert!(Cart { depth: 24, ..Cart::default() }.fit(&codes, &p).is_ok());
    for (d, levels, outputs) in [(0, 4, 2), (2, 1, 2), (2, 257, 2), (2, 4, 0)] {
        assert!(matches!(Examples::new(d, levels, outputs), Err(Error::Config { .. })));
    }
    let empty = Examples::new(2, 4, 3).unwrap();
    assert!(message(Cart::default().fit_examples(&empty)).contains("add rows before you fit"));
    // Rows that count for nothing are none.
    let mut weightless = empty.clone();
    weightless.push_weighted(&codes, &p, &[0; 6]).unwrap();
    assert!(matches!(Cart::default().fit_examples(&weightless), Err(Error::Data { .. })));
}

#[test]
fn nodes_that_form_no_tree_are_refused() {
    let leaf = || Node { weight: 1, value: vec![1.0], split: None };
    let ask = |feature, threshold, low, high| Node {
        split: Some(Split { feature, threshold, gain: 0.0, low, high }),
        ..leaf()
    };
    let good = vec![ask(0, 0, 1, 2), leaf(), leaf()];
    assert!(Tree::new(good.clone(), 1, 2).is_ok());
    assert!(Tree::new(vec![leaf()], 1, 2).is_ok());
    let bad = [
        ("no nodes", vec![]),
        ("no values", vec![Node { value: vec![], ..leaf() }]),
        ("a cycle", vec![ask(0, 0, 0, 1), leaf()]),
        ("a longer cycle", vec![ask(0, 0, 1, 2), ask(0, 0, 0, 2), leaf()]),
        ("a child that is missing", vec![ask(0, 0, 1, 3), leaf(), leaf()]),
        ("one child twice", vec![ask(0, 0, 1, 1), leaf()]),
        ("two parents", vec![ask(0, 0, 1, 2), ask(0, 0, 2, 3), leaf(), leaf()]),
        ("a node that hangs nowhere", vec![ask(0, 0, 1, 2), leaf(), leaf(), leaf()]),
        ("a feature that is missing", vec![ask(1, 0, 1, 2), leaf(), leaf()]),
        ("a threshold that parts nothing", vec![ask(0, 1, 1, 2), leaf(), leaf()]),
        ("values of two lengths", vec![ask(0, 0, 1, 2), leaf(), Node { value: vec![0.5; 2], ..leaf() }]),
    ];
    for (what, nodes) in bad {
        let got = Tree::new(nodes, 1, 2);
        assert!(matches!(&got, Err(Error::Data { .. })), "{what}: {got:?}");
    }
}

#[test]
fn tensors_and_arrays_give_the_same_tree() {
    let codes = noise(100, 4, 16, SEED);
    let p = soft(100, 3, SEED).mapv(|p| p as f32);
    let tensor = Tensor::from_vec(p.iter().copied().collect::<Vec<f32>>(), (100, 3), device()).unwrap();
    let cart = Cart::default();
    assert_eq!(cart.fit(&codes, &tensor).unwrap(), cart.fit(&codes, &p).unwrap());
}

#[test]
fn rows_in_two_tables_are_rows_of_one() {
    // A seam in the middle of a tile, with a last group of one feature.
    let (first, second) = (noise(7, 9, 4, SEED), noise(6, 9, 4, SEED.stream(1)));
    let (p, q) = (soft(7, 4, SEED), soft(6, 4, SEED.stream(1)));
    let mut examples = Examples::of(&first, &p).unwrap();
    examples.push(&second, &q).unwrap();
    let bytes: Vec<u8> = first.rows().chain(second.rows()).flatten().copied().collect();
    let both = Codes::from_bytes(bytes, 9, 4).unwrap();
    let r = concatenate(Axis(0), &[p.view(), q.view()]).unwrap();
    assert_eq!(examples, Examples::of(&both, &r).unwrap());
}

#[test]
fn mirrored_features_have_the_same_information_and_the_first_is_asked() {
    // The second feature is the first one upside down, and asks the same questions with the sides exchanged.
    for trial in 0..50 {
        let seed: Seed = SEED.named("mirror").stream(trial);
        let codes = noise(60, 1, 8, seed);
        let bytes = codes.column(0).flat_map(|code| [7 - code, code]).collect();
        let both = Codes::from_bytes(bytes, 2, 8).unwrap();
        let p = soft(60, 5, seed.named("p"));
        let split = Cart { depth: 1, ..Cart::default() }.fit(&both, &p).unwrap().nodes()[0].split.unwrap();
        assert_eq!(split.feature, 0);
        let all: Vec<usize> = (0..60).collect();
        let [low, high] = divided(&both, &all, 0, split.threshold);
        let sums = [&all[..], &low, &high].map(|rows| entropy(&total(&p, rows)));
        near(split.gain, sums[0] - sums[1] - sums[2], 60.0 * (ROUNDING + FIXED));
    }
}
