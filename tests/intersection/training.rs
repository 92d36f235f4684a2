//! Algorithm 1: its losses, its penalty, its memory, and that a run can be stopped and continued.

use crate::device::device;
use lastlayer::error::Error;
use lastlayer::intersection::{Agreement, Divisor, Intersection, Quantiser, Sparsity, code_net, codes_of};
use lastlayer::loss::{cross_entropy, one_hot};
use lastlayer::model::{Split, SplitNet, zoo};
use lastlayer::prelude::{DType, Dataset, Tensor, Var};
use lastlayer::seed::Seed;
use lastlayer::train::{Batch, Method, Stopped, Trainer};
use lastlayer::tree::{Cart, Examples};

use crate::watched;

use super::{all_near, differences, message, near};

const SEED: Seed = Seed::new(11);
const CLASSES: usize = 4;

/// Sums of a few dozen numbers of size one in f64.
const ROUNDING: f64 = 1e-12;
/// Central differences with a step of 1e-5 of losses of size one.
const DIFFERENCES: f64 = 1e-8;
const STEP: f64 = 1e-5;

fn scores(n: usize, name: &str) -> Vec<f64> {
    (0..n * CLASSES).map(|i| SEED.named(name).normal(i as u64)).collect()
}

fn softmax(s: &[f64]) -> Vec<f64> {
    let each = |row: &[f64]| {
        let sum: f64 = row.iter().map(|s| s.exp()).sum();
        row.iter().map(|s| s.exp() / sum).collect::<Vec<f64>>()
    };
    s.chunks(CLASSES).flat_map(each).collect()
}

fn tensor(values: &[f64], n: usize) -> Tensor {
    Tensor::from_slice(values, (n, values.len() / n), device()).unwrap()
}

fn numbers(t: &Tensor) -> Vec<f64> {
    t.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

fn number(t: &Tensor) -> f64 {
    numbers(t)[0]
}

/// Points around four corners, with an attribute for each side.
fn data(n: usize) -> Dataset {
    let y: Vec<u32> = (0..n).map(|i| (i % CLASSES) as u32).collect();
    let corner = |i: usize, j: usize| f64::from((y[i] >> j) & 1) * 2.0 - 1.0;
    let x: Vec<f32> =
        (0..2 * n).map(|i| (corner(i / 2, i % 2) + 0.3 * SEED.named("x").normal(i as u64)) as f32).collect();
    let a: Vec<f32> = (0..2 * n).map(|i| ((y[i / 2] >> (i % 2)) & 1) as f32).collect();
    let device = device();
    Dataset::new(
        "corners",
        Tensor::from_vec(x, (n, 2), device).unwrap(),
        Tensor::from_vec(y, n, device).unwrap(),
        ["a", "b", "c", "d"],
    )
    .unwrap()
    .with_attributes(Tensor::from_vec(a, (n, 2), device).unwrap(), ["right", "upper"])
    .unwrap()
}

fn net(seed: Seed) -> SplitNet {
    let trunk = zoo::mlp(&[2, 16, 8]).unwrap();
    code_net(trunk, Quantiser::default(), 16, CLASSES, seed, device()).unwrap()
}

fn trainer() -> Trainer {
    Trainer::adam(0.01).batch(20).seed(SEED).silent()
}

#[test]
fn the_gradient_on_scores_is_that_of_the_blended_target() {
    let n = 5;
    let (s, t) = (scores(n, "s"), softmax(&scores(n, "t")));
    let y = Tensor::new(&[0u32, 3, 1, 1, 2], device()).unwrap();
    let agreement = Agreement { label: 2.0, tree: 1.0, ..Agreement::default() };
    let var = Var::from_tensor(&tensor(&s, n)).unwrap();
    let tree = Var::from_tensor(&tensor(&t, n)).unwrap();
    let loss = agreement.loss(&var, &y, Some(tree.as_tensor())).unwrap();
    let grads = loss.backward().unwrap();
    assert!(grads.get(&tree).is_none(), "the tree's answer is a constant");
    let mine = numbers(grads.get(&var).unwrap());
    let hot = numbers(&one_hot(&y, CLASSES, DType::F64).unwrap());
    let p = softmax(&s);
    let formula: Vec<f64> = (0..s.len()).map(|i| (3.0 * p[i] - 2.0 * hot[i] - t[i]) / n as f64).collect();
    all_near(&mine, &formula, ROUNDING);
    let value = |s: &[f64]| {
        let s = tensor(s, n);
        let by_label = number(&cross_entropy(&s, &y).unwrap());
        let log_p: Vec<f64> = softmax(&numbers(&s)).iter().map(|p| p.ln()).collect();
        2.0 * by_label - log_p.iter().zip(&t).map(|(l, t)| l * t).sum::<f64>() / n as f64
    };
    near(number(&loss), value(&s), ROUNDING);
    all_near(&mine, &differences(&s, STEP, value), DIFFERENCES);
}

#[test]
fn without_a_tree_the_loss_is_plain_cross_entropy() {
    let s = tensor(&scores(6, "plain"), 6);
    let y = Tensor::new(&[0u32, 1, 2, 3, 0, 1], device()).unwrap();
    let loss = Agreement { label: 1.0, tree: 0.0, ..Agreement::default() }.loss(&s, &y, None).unwrap();
    near(number(&loss), number(&cross_entropy(&s, &y).unwrap()), ROUNDING);
    let target = Agreement::default().target(&y, None, CLASSES, DType::F64).unwrap();
    assert_eq!(numbers(&target), numbers(&one_hot(&y, CLASSES, DType::F64).unwrap()));
}

#[test]
fn the_penalty_is_the_mean_sum_of_masked_codes() {
    let codes: Vec<f64> = (0..60).map(|i| (SEED.named("codes").draw(i) % 16) as f64).collect();
    let (n, d) = (6, 10);
    let var = Var::from_tensor(&tensor(&codes, n)).unwrap();
    let all = Agreement { sparse: 0.5, share: 1.0, ..Agreement::default() };
    let full = all.penalty(&var, 100, SEED).unwrap();
    near(number(&full), 0.5 * codes.iter().sum::<f64>() / n as f64, ROUNDING);
    // Codes of zero are as small as they can be: no gradient, though the size of zero has slope one in candle.
    let slopes = numbers(full.backward().unwrap().get(&var).unwrap());
    let expected: Vec<f64> = codes.iter().map(|c| if *c > 0.0 { 0.5 / n as f64 } else { 0.0 }).collect();
    all_near(&slopes, &expected, ROUNDING);
    assert!(codes.contains(&0.0));
    // Squares, the printed normaliser, and no feature at all.
    let squares = Agreement { norm: Sparsity::L2, ..all }.penalty(&var, 100, SEED).unwrap();
    near(number(&squares), 0.5 * codes.iter().map(|c| c * c).sum::<f64>() / n as f64, 1e-10);
    let printed = Agreement { over: Divisor::Set, ..all }.penalty(&var, 100, SEED).unwrap();
    near(number(&printed), number(&full) * n as f64 / 100.0, ROUNDING);
    let none = Agreement { share: 0.0, ..all }.penalty(&var, 100, SEED).unwrap();
    assert_eq!(number(&none), 0.0);
    // One mask for the whole batch; over many masks its mean is the share of the full penalty.
    let half = Agreement { share: 0.3, ..all };
    let one = numbers(half.penalty(&var, 100, SEED).unwrap().backward().unwrap().get(&var).unwrap());
    for j in 0..d {
        let column: Vec<bool> =
            (0..n).filter(|i| codes[i * d + j] > 0.0).map(|i| one[i * d + j] > 0.0).collect();
        assert!(column.iter().all(|on| *on == column[0]), "feature {j} is masked for some rows only");
    }
    const MASKS: u64 = 4000;
    let mean = (0..MASKS).map(|i| number(&half.penalty(&var, 100, SEED.stream(i)).unwrap())).sum::<f64>();
    // Ten features of about equal size: the deviation of one mask is about 0.46 √10/10 of the full penalty.
    let deviation = number(&full) * 0.5 / (10.0 * MASKS as f64).sqrt();
    near(mean / MASKS as f64, 0.3 * number(&full), 4.0 * deviation);
}

#[test]
fn the_first_step_is_the_algorithm_done_by_hand() {
    let data = data(60);
    let net = net(SEED);
    let agreement = Agreement { sparse: 0.01, ..Agreement::default() };
    let mut both = Intersection::new(&net, &data, agreement).unwrap();
    let mut taken = Vec::new();
    let run = trainer()
        .epochs(2)
        .fit(
            &mut watched::before(&mut both, |both: &Intersection, b| {
                // The range that a pass moves is to be that of one pass.
                let statistics: Vec<Tensor> =
                    both.statistics().iter().map(|(_, var)| var.copy()).collect::<Result<_, _>>()?;
                both.step(b)?;
                // Codes of this batch with the range that it has just moved, and the network's own probabilities.
                let z = net.features(&b.x, lastlayer::model::Pass::Eval)?;
                let s = net.scores(&z, lastlayer::model::Pass::Eval)?;
                let codes = lastlayer::tree::Codes::new(&z, 16)?;
                taken.push((b.epoch, codes, softmax(&numbers(&s)), b.clone()));
                both.statistics().iter().zip(&statistics).try_for_each(|((_, var), then)| var.set(then))?;
                Ok(())
            }),
            &data,
        )
        .unwrap();
    let mut losses = [0.0; 2];
    for (i, (epoch, codes, p, batch)) in taken.iter().enumerate() {
        let mut seen = Examples::new(8, 16, CLASSES).unwrap();
        for (_, codes, p, ..) in taken[..=i].iter().filter(|(e, ..)| e == epoch) {
            // In single precision, as the network has them.
            let p: Vec<f64> = p.iter().map(|p| f64::from(*p as f32)).collect();
            seen.push(codes, &tensor(&p, codes.n())).unwrap();
        }
        assert_eq!(seen.n(), 20 * (i % 3 + 1), "S' begins anew with the epoch");
        let tree = agreement.cart.fit_examples(&seen).unwrap();
        let t = tree.predict(codes).unwrap();
        let y = batch.data.labels().unwrap();
        let by_label: f64 = y.iter().enumerate().map(|(i, y)| -p[i * CLASSES + *y as usize].ln()).sum();
        let by_tree: f64 = p.iter().zip(t.iter()).map(|(p, t)| -t * p.ln()).sum();
        let z: Vec<f64> = codes.rows().flatten().map(|c| f64::from(*c)).collect();
        let penalty = number(&agreement.penalty(&tensor(&z, codes.n()), 60, batch.seed).unwrap());
        losses[*epoch] += ((2.0 * by_label + by_tree) / codes.n() as f64 + penalty) / 3.0;
    }
    // Losses of size ten in single precision.
    all_near(&run.history.values("loss").unwrap(), &losses, 1e-4);
    assert!(both.tree().is_some());
}

#[test]
fn a_second_run_begins_with_an_empty_memory() {
    let data = data(60);
    let mut both = Intersection::new(&net(SEED), &data, Agreement::default()).unwrap();
    // One epoch, and again, as a cell of a notebook that is run twice.
    for _ in 0..2 {
        trainer().epochs(1).fit(&mut both, &data).unwrap();
    }
    // A run that failed in the middle of its epoch leaves nothing to the next either.
    let stop = |_: &Intersection, b: &Batch| match b.step {
        2 => Err(Error::config("test", "stop", "nothing")),
        _ => Ok(()),
    };
    assert!(trainer().epochs(1).fit(&mut watched::before(&mut both, stop), &data).is_err());
    let mut trees = Vec::new();
    trainer()
        .epochs(1)
        .fit(
            &mut watched::after(&mut both, |both: &Intersection, _| {
                trees.push(both.tree().map(|tree| tree.nodes()[0].weight));
            }),
            &data,
        )
        .unwrap();
    // The tree knows the rows of this run only: 20, 40 and 60 of equal weight.
    let first = trees[0].unwrap();
    assert_eq!(trees, [Some(first), Some(2 * first), Some(3 * first)]);
}

#[test]
fn a_step_costs_the_same_however_large_the_set_is() {
    // Statistics are copied before every step, to be put back if it fails; what an epoch appends is not.
    let of = |n: usize| {
        let data = data(n);
        let mut both =
            Intersection::new(&net(SEED), &data, Agreement { every: n, ..Agreement::default() }).unwrap();
        Trainer::adam(0.01).batch(n / 2).silent().fit(&mut both, &data).unwrap();
        let bytes = |tensor: &Tensor| tensor.elem_count() * tensor.dtype().size_in_bytes();
        let copied: usize = both.statistics().iter().map(|(_, var)| bytes(var)).sum();
        (copied, both.state().unwrap().tensors.values().map(bytes).sum::<usize>())
    };
    let ((small, few), (large, many)) = (of(400), of(40_000));
    assert_eq!(small, large, "bytes that a step copies");
    // A byte for each of 8 codes, four for each of 4 probabilities.
    assert_eq!((few, many), (24 * 400, 24 * 40_000));
}

#[test]
fn fits_are_as_rare_as_asked_and_follow_the_last_batch_of_an_epoch() {
    let data = data(100);
    for (every, expected) in
        [(1, vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), (2, vec![1, 2, 4, 5, 7, 9, 10]), (99, vec![1, 5, 10])]
    {
        let net = net(SEED);
        let mut both = Intersection::new(&net, &data, Agreement { every, ..Agreement::default() }).unwrap();
        let (mut fits, mut last) = (Vec::new(), None);
        trainer()
            .epochs(2)
            .fit(
                &mut watched::after(&mut both, |both: &Intersection, b| {
                    let tree = both.tree().cloned();
                    if tree != last {
                        fits.push(b.step + 1);
                        last = tree;
                    }
                }),
                &data,
            )
            .unwrap();
        assert_eq!(fits, expected, "every {every}");
    }
}

#[test]
fn a_run_that_was_stopped_in_the_middle_of_an_epoch_continues_to_the_same_bits() {
    let data = data(100);
    for every in [1, 3] {
        let agreement = Agreement { every, ..Agreement::default() };
        let run = |stops: &[usize]| {
            let folder = tempfile::tempdir().unwrap();
            let mut result = None;
            for stop in stops.iter().chain([&usize::MAX]) {
                // A new process would start from the same seed.
                let net = net(SEED);
                let mut both = Intersection::new(&net, &data, agreement).unwrap();
                let trainer = trainer().epochs(3).checkpoints(folder.path(), 1);
                let stopped = |_: &Intersection, b: &Batch| match b.step == *stop {
                    true => Err(Error::config("test", "stop", "nothing")),
                    false => Ok(()),
                };
                let outcome = trainer.fit(&mut watched::before(&mut both, stopped), &data);
                assert_eq!(outcome.is_err(), *stop != usize::MAX);
                if let Ok(outcome) = outcome {
                    assert_eq!(outcome.stopped, Stopped::Finished);
                    let parameters: Vec<f64> =
                        net.bottom().iter().chain(&net.last()).flat_map(|(_, v)| numbers(v)).collect();
                    result = Some((parameters, both.tree().cloned(), codes_of(&net, &data).unwrap()));
                }
            }
            result.unwrap()
        };
        let whole = run(&[]);
        assert_eq!(run(&[2]), whole, "within the first epoch, every {every}");
        assert_eq!(run(&[1, 6, 8, 12]), whole, "four times, every {every}");
    }
}

#[test]
fn corners_are_learnt_by_network_and_tree_and_their_questions_are_the_attributes() {
    let data = data(400);
    let net = net(SEED);
    let mut both = Intersection::new(&net, &data, Agreement::default()).unwrap();
    trainer().epochs(20).fit(&mut both, &data).unwrap();
    let tree = both.final_tree(&data).unwrap();
    let codes = both.codes(&data).unwrap();
    assert!(both.accuracy(&data).unwrap() > 0.98);
    assert!(tree.accuracy(&codes, &data.labels().unwrap()).unwrap() > 0.97);
    let readout = lastlayer::intersection::read_tree(&tree, &codes, &data, SEED).unwrap();
    let strong = |name: &str| readout.readings.iter().any(|r| r.attribute == name && r.mcc.abs() > 0.9);
    assert!(strong("right") && strong("upper") && readout.readings[0].p_rows <= 0.05);
    // Four classes part in three ways, and two of them are attributes: no swap of four classes tells that from chance.
    assert!(readout.readings[0].p_classes > 0.05 && readout.attributes().is_empty());
}

#[test]
fn batches_of_one_class_and_classes_that_never_come_do_no_harm() {
    let one = data(80).classes(&["b"]).unwrap();
    let only = Dataset::new("one of four", one.x.clone(), one.y.clone(), ["b", "c", "d", "e"]).unwrap();
    let net = net(SEED);
    let mut both = Intersection::new(&net, &only, Agreement::default()).unwrap();
    trainer().epochs(3).fit(&mut both, &only).unwrap();
    let tree = both.final_tree(&only).unwrap();
    assert!(tree.nodes().iter().all(|node| (node.value.iter().sum::<f64>() - 1.0).abs() < 1e-9));
    assert!(
        (tree.accuracy(&both.codes(&only).unwrap(), &only.labels().unwrap()).unwrap() - 1.0).abs() < 1e-12
    );
}

#[test]
fn leaves_larger_than_half_the_rows_and_depth_zero_give_a_single_leaf() {
    let data = data(40);
    for cart in [Cart { min_leaf: 30, ..Cart::default() }, Cart { depth: 0, ..Cart::default() }] {
        let net = net(SEED);
        let mut both = Intersection::new(&net, &data, Agreement { cart, ..Agreement::default() }).unwrap();
        trainer().epochs(1).fit(&mut both, &data).unwrap();
        assert_eq!(both.tree().unwrap().leaves(), 1);
    }
}

#[test]
fn one_feature_is_enough_to_run() {
    let data = data(40);
    let net = code_net(zoo::mlp(&[2, 1]).unwrap(), Quantiser::default(), 4, CLASSES, SEED, device()).unwrap();
    let mut both = Intersection::new(&net, &data, Agreement::default()).unwrap();
    trainer().epochs(2).fit(&mut both, &data).unwrap();
    assert_eq!(both.codes(&data).unwrap().d(), 1);
}

#[test]
fn codes_of_other_levels_are_another_run() {
    let data = data(40);
    let folder = tempfile::tempdir().unwrap();
    let fit = |levels: usize, epochs: usize| {
        let net = net(SEED);
        let mut both = Intersection::with_levels(&net, levels, &data, Agreement::default()).unwrap();
        trainer().epochs(epochs).checkpoints(folder.path(), 1).max_seconds(0.0).fit(&mut both, &data)
    };
    fit(16, 1).unwrap();
    assert!(fit(16, 1).is_ok());
    assert!(message(fit(32, 1)).contains("codes below 16"));
}

#[test]
fn bad_settings_and_bad_input_are_told() {
    let data = data(40);
    let net = net(SEED);
    let told = |agreement: Agreement| message(Intersection::new(&net, &data, agreement));
    let good = Agreement::default();
    assert!(told(Agreement { sparse: f64::NAN, ..good }).contains("0 or more"));
    assert!(told(Agreement { tree: -1.0, ..good }).contains("0 or more"));
    assert!(told(Agreement { label: 0.0, tree: 0.0, ..good }).contains("at least one above 0"));
    assert!(told(Agreement { share: 1.5, ..good }).contains("0 to 1"));
    assert!(told(Agreement { every: 0, ..good }).contains("at least 1"));
    let plain = SplitNet::new(zoo::mlp(&[2, 4]).unwrap(), CLASSES, SEED, device()).unwrap();
    assert!(message(Intersection::new(&plain, &data, good)).contains("code_net"));
    assert!(message(codes_of(&plain, &data)).contains("code_net"));
    let three = code_net(zoo::mlp(&[2, 4]).unwrap(), Quantiser::default(), 4, 3, SEED, device()).unwrap();
    assert!(message(Intersection::new(&three, &data, good)).contains("one for each class"));
    let deep = Agreement { cart: Cart { depth: 99, ..Cart::default() }, ..good };
    let mut both = Intersection::new(&net, &data, deep).unwrap();
    assert!(message(trainer().fit(&mut both, &data)).contains("depth"));
    // Features that are not finite stop the step, and nothing is lost: the next one goes through.
    let mut both = Intersection::new(&net, &data, good).unwrap();
    let mut failed = None;
    trainer()
        .epochs(1)
        .fit(
            &mut watched::before(&mut both, |both: &Intersection, b| {
                let nan = Batch { x: (&b.x * f64::NAN)?, ..b.clone() };
                failed = Some(message(both.step(&nan)));
                Ok(())
            }),
            &data,
        )
        .unwrap();
    assert!(failed.unwrap().contains("not finite"));
    // Nor does the state break if it was the first: what was never counted is not kept.
    let (mut first, mut restored) = {
        let new = || Intersection::new(&net, &data, good).unwrap();
        (new(), new())
    };
    let stop = |both: &Intersection, b: &Batch| {
        both.step(b)?; // and then the trainer fails
        Err(Error::config("test", "stop", "nothing"))
    };
    assert!(trainer().fit(&mut watched::before(&mut first, stop), &data).is_err());
    restored.restore(&first.state().unwrap()).unwrap();
    // A set that is larger than the one it was made for.
    let more = self::data(100);
    assert!(message(trainer().fit(&mut both, &more)).contains("the set that it is trained on"));
}
