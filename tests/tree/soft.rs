//! Soft trees: closed forms, gradients, readings, training.

use crate::device::device;
use lastlayer::candle::backprop::GradStore;
use lastlayer::data::toy::{arcs, rings};
use lastlayer::error::Error;
use lastlayer::loss::one_hot;
use lastlayer::numbers::AsF64;
use lastlayer::prelude::{DType, Tensor, Trainer, Var};
use lastlayer::train::Method;
use lastlayer::tree::{SoftReading, SoftTree};

use super::{SEED, all_near, differences, message, near};

/// Sums of a few dozen f64 numbers of size one.
const ROUNDING: f64 = 1e-12;
/// The same in f32.
const F32: f64 = 1e-5;
/// Central differences in f64 with this step: its square, and the rounding over it.
const STEP: f64 = 1e-5;
const DIFFERENCES: f64 = 1e-8;
/// The crate adds 1e-6 to weights and shares so that logarithms stay finite; they have slopes of up to 10 here.
const GUARD: f64 = 1e-4;

const D: usize = 3;
const CLASSES: usize = 4;

fn tree(depth: usize) -> SoftTree {
    SoftTree::with_dtype(D, CLASSES, depth, SEED, DType::F64, device()).unwrap()
}

/// The same with another sharpness.
fn sharp(depth: usize, sharpness: f64) -> SoftTree {
    let mut tree = tree(depth);
    tree.sharpness = sharpness;
    tree
}

/// Parameters by name: weights and biases of the questions, scores of the leaves.
fn vars(tree: &SoftTree) -> Vec<Var> {
    tree.groups().into_iter().flat_map(|group| group.vars).map(|(_, var)| var).collect()
}

fn numbers(x: &Tensor) -> Vec<f64> {
    x.numbers().unwrap().into_owned()
}

fn set(var: &Var, values: &[f64]) {
    let values = Tensor::from_vec(values.to_vec(), var.shape(), device()).unwrap();
    var.set(&values.to_dtype(var.dtype()).unwrap()).unwrap();
}

fn inputs(n: usize) -> Tensor {
    SEED.named("x").normal_tensor((n, D), (0.0, 1.5), DType::F64, device()).unwrap()
}

/// Soft targets.
fn targets(n: usize) -> Tensor {
    let p = super::soft(n, CLASSES, SEED.named("t"));
    Tensor::from_vec(p.into_raw_vec_and_offset().0, (n, CLASSES), device()).unwrap()
}

fn logistic(s: f64) -> f64 {
    1.0 / (1.0 + (-s).exp())
}

fn scalar(x: &Tensor) -> f64 {
    x.to_scalar::<f64>().unwrap()
}

#[test]
fn paths_are_probabilities() {
    for depth in [1, 2, 5] {
        for sharpness in [0.3, 1.0, 40.0] {
            let tree = sharp(depth, sharpness);
            let paths = tree.paths(&inputs(20)).unwrap();
            assert_eq!(paths.dims(), [20, 1 << depth]);
            let paths = numbers(&paths);
            assert!(paths.iter().all(|p| (0.0..=1.0).contains(p)));
            paths.chunks(1 << depth).for_each(|row| near(row.iter().sum(), 1.0, ROUNDING));
            numbers(&tree.leaves().unwrap())
                .chunks(CLASSES)
                .for_each(|row| near(row.iter().sum(), 1.0, ROUNDING));
        }
    }
}

#[test]
fn paths_are_products_of_the_answers_along_the_way() {
    let depth = 3;
    let tree = sharp(depth, 2.0);
    let x = inputs(6);
    let (right, paths) = (numbers(&tree.questions(&x).unwrap()), numbers(&tree.paths(&x).unwrap()));
    let inner = (1 << depth) - 1;
    for i in 0..6 {
        for leaf in 0..1 << depth {
            // The number of a leaf in binary is the way to it, 1 for right; inner nodes are numbered breadth first.
            let (mut node, mut product) = (0, 1.0);
            for level in (0..depth).rev() {
                let goes_right = (leaf >> level) & 1;
                let p = right[i * inner + node];
                product *= if goes_right == 1 { p } else { 1.0 - p };
                node = 2 * node + 1 + goes_right;
            }
            near(paths[(i << depth) + leaf], product, ROUNDING);
        }
    }
}

#[test]
fn a_question_is_the_logistic_function_of_a_linear_score() {
    let tree = sharp(2, 1.7);
    let (x, groups) = (inputs(5), tree.groups());
    let named = |ending: &str| {
        let var = groups[0].vars.iter().find(|(name, _)| name.ends_with(ending));
        numbers(&var.expect("a weight and a bias").1)
    };
    let (w, b) = (named("weight"), named("bias"));
    let (x, right) = (numbers(&x), numbers(&tree.questions(&x).unwrap()));
    for i in 0..5 {
        for (node, b) in b.iter().enumerate() {
            let score: f64 = (0..D).map(|j| w[node * D + j] * x[i * D + j]).sum::<f64>() + b;
            near(right[i * 3 + node], logistic(1.7 * score), ROUNDING);
        }
    }
}

/// One question and two leaves, with all that the loss and its gradient are made of.
#[test]
fn with_one_question_loss_and_gradient_have_a_closed_form() {
    let n = 8;
    let tree = sharp(1, 1.3);
    let (x, t) = (inputs(n), targets(n));
    let [loss, _] = tree.losses(&x, &t).unwrap();
    let (p, q) = (numbers(&tree.questions(&x).unwrap()), numbers(&tree.leaves().unwrap()));
    let t = numbers(&t);
    // Cross entropy of a target in each of the leaves.
    let cost = |i: usize, leaf: usize| -> f64 {
        (0..CLASSES).map(|c| -t[i * CLASSES + c] * q[leaf * CLASSES + c].ln()).sum()
    };
    let expected: f64 = (0..n).map(|i| (1.0 - p[i]) * cost(i, 0) + p[i] * cost(i, 1)).sum::<f64>() / n as f64;
    near(scalar(&loss), expected, ROUNDING);
    let gradient = loss.backward().unwrap();
    let groups = tree.groups();
    let of = |group: usize, ending: &str| {
        let var = &groups[group].vars.iter().find(|(name, _)| name.ends_with(ending)).unwrap().1;
        numbers(gradient.get(var).unwrap())
    };
    // The score of a question feels β p (1 − p) times what going right costs more than going left.
    let score: Vec<f64> =
        (0..n).map(|i| 1.3 * p[i] * (1.0 - p[i]) * (cost(i, 1) - cost(i, 0)) / n as f64).collect();
    let x = numbers(&x);
    let weight: Vec<f64> = (0..D).map(|j| (0..n).map(|i| score[i] * x[i * D + j]).sum()).collect();
    all_near(&of(0, "weight"), &weight, ROUNDING);
    all_near(&of(0, "bias"), &[score.iter().sum()], ROUNDING);
    // A leaf feels the samples as far as they are in it.
    let mut leaves = vec![0.0; 2 * CLASSES];
    for (i, p) in p.iter().enumerate() {
        for (leaf, here) in [1.0 - p, *p].into_iter().enumerate() {
            for c in 0..CLASSES {
                leaves[leaf * CLASSES + c] += here * (q[leaf * CLASSES + c] - t[i * CLASSES + c]) / n as f64;
            }
        }
    }
    all_near(&of(1, "scores"), &leaves, ROUNDING);
}

/// The gradient in every parameter, zeros where there is none.
fn gradient(store: &GradStore, var: &Var) -> Vec<f64> {
    store.get(var).map_or_else(|| vec![0.0; var.elem_count()], numbers)
}

#[test]
fn gradients_of_loss_and_penalty_are_those_of_central_differences() {
    for depth in [1, 3] {
        let tree = sharp(depth, 1.5);
        let (x, t) = (inputs(7), targets(7));
        let found = tree.losses(&x, &t).unwrap().map(|loss| loss.backward().unwrap());
        let mut moved = [0.0f64; 2];
        for var in vars(&tree) {
            let at = numbers(&var);
            for (which, store) in found.iter().enumerate() {
                let expected = differences(&at, STEP, |at| {
                    set(&var, at);
                    scalar(&tree.losses(&x, &t).unwrap()[which])
                });
                set(&var, &at);
                all_near(&gradient(store, &var), &expected, DIFFERENCES);
                moved[which] = expected.iter().fold(moved[which], |most, d| most.max(d.abs()));
            }
        }
        assert!(moved.iter().all(|d| *d > 0.01), "{moved:?}");
    }
}

/// Sets the questions to one share of going right, whatever the input.
fn share(tree: &SoftTree, share: f64) {
    for (name, var) in &tree.groups()[0].vars {
        let value = if name.ends_with("bias") { (share / (1.0 - share)).ln() / tree.sharpness } else { 0.0 };
        set(var, &vec![value; var.elem_count()]);
    }
}

#[test]
fn the_penalty_is_least_at_a_share_of_one_half() {
    for depth in [1, 2, 4] {
        let tree = tree(depth);
        let penalty = |a: f64| {
            share(&tree, a);
            scalar(&tree.losses(&inputs(9), &targets(9)).unwrap()[1])
        };
        // Every level has 2^level nodes of weight 2^−level, so each of them costs the same.
        for a in [0.5f64, 0.2, 0.7] {
            let each = -0.5 * (a.ln() + (1.0 - a).ln());
            near(penalty(a), depth as f64 * each, GUARD);
        }
        near(penalty(0.5), depth as f64 * 2f64.ln(), GUARD);
        for a in [0.1, 0.4, 0.49, 0.51, 0.6, 0.9] {
            assert!(penalty(a) > penalty(0.5), "{depth} {a}");
        }
    }
}

#[test]
fn the_share_of_a_node_counts_those_who_are_there() {
    // The root sends the first input left for sure and the second right; only the second is seen by the right node.
    let tree = SoftTree::with_dtype(1, 2, 2, SEED, DType::F64, device()).unwrap();
    for (name, var) in &tree.groups()[0].vars {
        let values = if name.ends_with("bias") { [0.0, 0.0, 1.0] } else { [50.0, 0.0, 0.0] };
        set(var, &values);
    }
    let x = Tensor::new(&[[-1f64], [1.0]], device()).unwrap();
    let t = Tensor::new(&[[1f64, 0.0], [0.0, 1.0]], device()).unwrap();
    let penalty = scalar(&tree.losses(&x, &t).unwrap()[1]);
    let a = logistic(1.0);
    let right = -0.5 * (a.ln() + (1.0 - a).ln());
    near(penalty, 2f64.ln() + 0.5 * 2f64.ln() + 0.5 * right, GUARD);
}

#[test]
fn a_question_that_sends_everybody_one_way_costs_much_but_not_infinitely() {
    let tree = tree(2);
    for (_, var) in &tree.groups()[0].vars {
        set(var, &vec![1e4; var.elem_count()]);
    }
    let x = (inputs(9).abs().unwrap() + 1.0).unwrap();
    let [loss, penalty] = tree.losses(&x, &targets(9)).unwrap();
    assert!(scalar(&loss).is_finite() && scalar(&penalty).is_finite() && scalar(&penalty) > 6.0);
    let gradient = penalty.backward().unwrap();
    for var in vars(&tree) {
        assert!(gradient.get(&var).is_none_or(|g| numbers(g).iter().all(|g| g.is_finite())));
    }
}

#[test]
fn a_reading_is_the_likeliest_leaf_or_the_mean_of_all() {
    let tree = sharp(3, 3.0);
    let x = inputs(30);
    let (paths, leaves) = (numbers(&tree.paths(&x).unwrap()), numbers(&tree.leaves().unwrap()));
    let most = numbers(&tree.predict(&x, SoftReading::MostProbable).unwrap());
    let mean = numbers(&tree.predict(&x, SoftReading::Average).unwrap());
    let mut used = std::collections::BTreeSet::new();
    for (i, row) in paths.chunks(8).enumerate() {
        let best = (0..8).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap();
        used.insert(best);
        assert_eq!(most[i * CLASSES..][..CLASSES], leaves[best * CLASSES..][..CLASSES]);
        for c in 0..CLASSES {
            near(mean[i * CLASSES + c], (0..8).map(|l| row[l] * leaves[l * CLASSES + c]).sum(), ROUNDING);
        }
    }
    assert!(used.len() > 2);
}

#[test]
fn answers_are_codes_of_two_levels() {
    let tree = tree(3);
    let x = inputs(25);
    let codes = tree.answers(&x).unwrap();
    assert_eq!((codes.n(), codes.d(), codes.levels()), (25, 7, 2));
    let right = numbers(&tree.questions(&x).unwrap());
    for (row, own) in codes.rows().zip(right.chunks(7)) {
        row.iter().zip(own).for_each(|(code, p)| assert_eq!(*code == 1, *p > 0.5));
    }
    assert!(codes.zeros() > 0.2 && codes.zeros() < 0.8);
}

/// Share of points whose likeliest class is right.
fn accuracy(p: &Tensor, y: &Tensor) -> f64 {
    let said = p.argmax(1).unwrap();
    let right = said.eq(&y.to_dtype(DType::U32).unwrap()).unwrap();
    numbers(&right).iter().sum::<f64>() / right.elem_count() as f64
}

#[test]
fn a_soft_tree_learns() {
    let sets = [
        (arcs(400, 0.1, SEED, device()).unwrap(), 0.5, 0.85),
        (rings(3, 600, 0.1, SEED, device()).unwrap(), 1.0 / 3.0, 0.6),
    ];
    for (data, chance, least) in sets {
        let mut tree = SoftTree::new(2, data.k(), 4, SEED, device()).unwrap();
        let trainer = Trainer::adam(0.05).batch(50).epochs(40).seed(SEED).silent();
        trainer.fit(&mut tree, &data).unwrap();
        for reading in [SoftReading::MostProbable, SoftReading::Average] {
            let reached = accuracy(&tree.predict(&data.x, reading).unwrap(), &data.y);
            assert!(reached > least && least > chance, "{reading:?}: {reached}");
        }
    }
}

#[test]
fn a_step_descends_the_loss_and_the_penalty_with_its_weight() {
    let data = arcs(40, 0.1, SEED, device()).unwrap();
    let mut tree = SoftTree::new(2, 2, 3, SEED, device()).unwrap();
    tree.balance = 0.7;
    let t = one_hot(&data.y, 2, DType::F32).unwrap();
    let slopes = tree.losses(&data.x, &t).unwrap().map(|loss| loss.backward().unwrap());
    let before: Vec<Vec<f64>> = vars(&tree).iter().map(|var| numbers(var)).collect();
    // One step of length one on the whole set.
    let trainer = Trainer::sgd(1.0, 0.0).batch(40).seed(SEED).silent();
    trainer.fit(&mut tree, &data).unwrap();
    for (var, before) in vars(&tree).iter().zip(before) {
        let [loss, penalty] = [0, 1].map(|which| gradient(&slopes[which], var));
        let step: Vec<f64> = loss.iter().zip(&penalty).map(|(loss, penalty)| loss + 0.7 * penalty).collect();
        let moved: Vec<f64> = before.iter().zip(numbers(var)).map(|(before, after)| before - after).collect();
        all_near(&moved, &step, F32);
        assert!(step.iter().any(|step| step.abs() > 0.01));
    }
}

#[test]
fn a_seed_gives_the_same_tree_and_another_seed_another() {
    let drawn = |seed| {
        let tree = SoftTree::new(D, CLASSES, 2, seed, device()).unwrap();
        vars(&tree).iter().flat_map(|var| numbers(var)).collect::<Vec<f64>>()
    };
    assert_eq!(drawn(SEED), drawn(SEED));
    assert_ne!(drawn(SEED), drawn(SEED.stream(1)));
    let tree = tree(2);
    assert_eq!((tree.depth(), tree.classes(), tree.sharpness, tree.balance), (2, CLASSES, 1.0, 0.1));
    let mut other = tree.clone();
    other.balance = 0.2;
    assert_ne!(tree.identity(), other.identity());
}

#[test]
fn what_makes_no_soft_tree_is_refused() {
    for (d, classes, depth) in [(3, 2, 0), (3, 2, 13), (0, 2, 3), (3, 0, 3)] {
        let got = SoftTree::new(d, classes, depth, SEED, device());
        assert!(message(got).contains("depth 1 to 12, inputs and classes"));
    }
    assert!(SoftTree::new(3, 2, 12, SEED, device()).is_ok());
    let tree = tree(2);
    assert!(matches!(tree.losses(&inputs(5), &targets(4)), Err(Error::Shape { .. })));
    let narrow = Tensor::ones((5, CLASSES - 1), DType::F64, device()).unwrap();
    assert!(matches!(tree.losses(&inputs(5), &narrow), Err(Error::Shape { .. })));
    let wide = Tensor::ones((5, D + 1), DType::F64, device()).unwrap();
    assert!(tree.paths(&wide).is_err());
    assert!(tree.predict(&wide, SoftReading::Average).is_err());
    assert!(tree.answers(&wide).is_err());
}
