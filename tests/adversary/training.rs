//! Contests on candle tensors: signs, scales, who moves, and what bad input gives.

use crate::device::device;
use lastlayer::adversary::{AdvLoss, Adversary, Contest, leakage, reverse};
use lastlayer::data::Dataset;
use lastlayer::distribution::normal_cdf;
use lastlayer::error::Error;
use lastlayer::loss::bce_logits;
use lastlayer::model::{Net, Pass, Plan, Split, SplitNet, zoo};
use lastlayer::numbers::AsF64;
use lastlayer::prelude::{DType, Device, Tensor, Trainer, Var};
use lastlayer::seed::Seed;
use lastlayer::train::{Batch, Method};

use crate::watched;

use super::{all_near, message, near};

const SEED: Seed = Seed::new(7);

/// Sums of a few dozen f32 numbers of size one.
const F32: f64 = 1e-6;

/// Three attributes that are linear in six inputs, the first two correlated.
fn data(n: usize) -> Dataset {
    let normal = |i: usize, j: usize| SEED.named("x").stream(i as u64).normal(j as u64);
    let x: Vec<f32> = (0..n).flat_map(|i| (0..6).map(move |j| normal(i, j) as f32)).collect();
    let attributes = |i: usize| {
        let a = normal(i, 0) + 0.5 * normal(i, 1) > 0.0;
        let b = normal(i, 0) + normal(i, 2) > 0.0;
        [a, b, normal(i, 3) > 0.3].map(|v| f32::from(u8::from(v)))
    };
    let a: Vec<f32> = (0..n).flat_map(attributes).collect();
    let y = Tensor::zeros(n, DType::U32, device()).unwrap();
    let x = Tensor::from_vec(x, (n, 6), device()).unwrap();
    let a = Tensor::from_vec(a, (n, 3), device()).unwrap();
    Dataset::new("three", x, y, ["all"]).unwrap().with_attributes(a, ["a", "b", "c"]).unwrap()
}

fn plan() -> Plan {
    zoo::mlp(&[6, 5]).unwrap()
}

fn contest(loss: AdvLoss, strength: f64) -> Contest {
    Contest { loss, strength, rival_lr: 1.0, rival_steps: 1, ..Contest::default() }
}

fn against(own: &[&str], rivals: &[&str], contest: Contest, data: &Dataset) -> Adversary {
    Adversary::new(plan(), data, own, rivals, contest, SEED, device()).unwrap()
}

fn batch(data: &Dataset) -> Batch {
    Batch {
        x: data.x.clone(),
        y: data.y.clone(),
        a: data.a.clone(),
        data: data.clone(),
        rows: (0..data.n()).collect(),
        step: 0,
        epoch: 0,
        progress: 0.0,
        lr: 0.1,
        seed: SEED,
    }
}

fn numbers(vars: &[(String, Var)]) -> Vec<f64> {
    vars.iter().flat_map(|(_, var)| var.numbers().unwrap().into_owned()).collect()
}

/// The backbone.
fn phi(adversary: &Adversary) -> Net {
    adversary.net().as_split_net().unwrap().phi.clone()
}

/// The heads of one's own attributes.
fn own(adversary: &Adversary) -> Net {
    adversary.net().as_split_net().unwrap().head.clone()
}

/// The same contest after the step of a batch that moves its rivals alone.
fn taught(mut adversary: Adversary, batch: &Batch) -> Adversary {
    let step = adversary.step(batch).unwrap();
    adversary.after(batch, &step).unwrap();
    adversary
}

/// All parameters after one step of plain descent with rate 1 on the whole set: backbone, own heads, rivals' heads.
fn moved(mut adversary: Adversary, data: &Dataset) -> [Vec<f64>; 3] {
    let of = |adversary: &Adversary| {
        let rival = adversary.rival.as_ref().map_or(Vec::new(), |net| net.vars());
        [numbers(&phi(adversary).vars()), numbers(&own(adversary).vars()), numbers(&rival)]
    };
    let before = of(&adversary);
    let trainer = Trainer::sgd(1.0, 0.0).batch(data.n()).seed(SEED).silent();
    trainer.fit(&mut adversary, data).unwrap();
    let after = of(&adversary);
    [0, 1, 2].map(|i| before[i].iter().zip(&after[i]).map(|(before, after)| before - after).collect())
}

#[test]
fn reversal_is_the_identity_forward_and_a_factor_backward() {
    let x = SEED.normal_tensor((50, 7), (0.0, 1e3), DType::F32, device()).unwrap();
    let upstream = SEED.named("up").normal_tensor((50, 7), (0.0, 1.0), DType::F32, device()).unwrap();
    for strength in [0.3, 0.0, 1.0, -1.0, 2.5] {
        let var = Var::from_tensor(&x).unwrap();
        let y = reverse(&var, strength).unwrap();
        assert_eq!(y.to_vec2::<f32>().unwrap(), x.to_vec2::<f32>().unwrap(), "to the last bit");
        let store = (y * &upstream).unwrap().sum_all().unwrap().backward().unwrap();
        let expected = (&upstream * -strength).unwrap();
        // No gradient at all is a gradient of zeros.
        let found = store.get(&var).cloned().unwrap_or(x.zeros_like().unwrap());
        all_near(&found.numbers().unwrap(), &expected.numbers().unwrap(), F32);
    }
}

#[test]
fn two_reversals_multiply_with_a_plus() {
    let var = Var::new(&[1.0f64, -2.0], device()).unwrap();
    let y = reverse(&reverse(&var, 0.5).unwrap(), 3.0).unwrap();
    let store = y.sum_all().unwrap().backward().unwrap();
    assert_eq!(store.get(&var).unwrap().to_vec1::<f64>().unwrap(), [1.5, 1.5]);
}

/// Gradients of the two losses by themselves, from the same start.
fn separate(data: &Dataset) -> [[Vec<f64>; 3]; 2] {
    let adversary = against(&["a"], &["b"], contest(AdvLoss::Reverse, 1.0), data);
    let z = phi(&adversary).forward(&data.x, Pass::Eval).unwrap();
    let vars = |net: &Net| net.vars().into_iter().map(|(_, var)| var).collect::<Vec<Var>>();
    let rival = adversary.rival.clone().unwrap();
    let heads = [(own(&adversary), "a"), (rival.clone(), "b")];
    heads.map(|(head, name)| {
        let y = data.attribute(name).unwrap().unsqueeze(1).unwrap();
        let loss = bce_logits(&head.forward(&z, Pass::Eval).unwrap(), &y).unwrap();
        let store = loss.backward().unwrap();
        [vars(&phi(&adversary)), vars(&own(&adversary)), vars(&rival)].map(|vars| {
            let gradient = |var: &Var| {
                let zeros = vec![0.0; var.elem_count()];
                store.get(var).map_or(zeros, |g| g.numbers().unwrap().into_owned())
            };
            vars.iter().flat_map(gradient).collect()
        })
    })
}

#[test]
fn a_step_of_reversal_is_two_explicit_steps() {
    let data = data(60);
    let [own, rival] = separate(&data);
    for strength in [0.0, 0.3, 1.0, 3.0] {
        let found = moved(against(&["a"], &["b"], contest(AdvLoss::Reverse, strength), &data), &data);
        // The backbone follows both, affine in the strength; each head follows its own loss, whatever the strength.
        let phi: Vec<f64> = own[0].iter().zip(&rival[0]).map(|(a, b)| a - strength * b).collect();
        all_near(&found[0], &phi, F32);
        all_near(&found[1], &own[1], F32);
        all_near(&found[2], &rival[2], F32);
    }
}

#[test]
fn strength_minus_one_is_pair_training_and_zero_is_single_training() {
    let data = data(80);
    let train = |own: &[&str], rivals: &[&str], contest: Contest| {
        let mut adversary = against(own, rivals, contest, &data);
        let trainer = Trainer::adam(0.01).batch(20).epochs(3).seed(SEED).silent();
        trainer.fit(&mut adversary, &data).unwrap();
        adversary
    };
    let reversed = train(&["a"], &["b"], contest(AdvLoss::Reverse, -1.0));
    let together = train(&["a"], &["b"], contest(AdvLoss::MultiTask, 1.0));
    assert_eq!(numbers(&phi(&reversed).vars()), numbers(&phi(&together).vars()));
    assert_eq!(numbers(&own(&reversed).vars()), numbers(&own(&together).vars()));
    let ignored = train(&["a"], &["b"], contest(AdvLoss::Reverse, 0.0));
    let single = train(&["a"], &[], contest(AdvLoss::None, 0.0));
    assert_eq!(numbers(&phi(&ignored).vars()), numbers(&phi(&single).vars()));
    assert_eq!(numbers(&own(&ignored).vars()), numbers(&own(&single).vars()));
    // A pair is one run for both directions: all start from the same numbers.
    let other_way = train(&["b"], &["a"], contest(AdvLoss::MultiTask, 1.0));
    all_near(&numbers(&phi(&other_way).vars()), &numbers(&phi(&together).vars()), 1e-4);
}

#[test]
fn flipped_labels_push_where_reversal_saturates() {
    // One feature, one rival: the gradient of each loss on the rival's score.
    for (y, s) in [(1.0f64, -3.0f64), (1.0, 0.0), (1.0, 3.0), (0.0, -3.0), (0.0, 0.0), (0.0, 3.0)] {
        let p = super::logistic(s);
        let score = Var::new(&[s], device()).unwrap();
        let label = Tensor::new(&[y], device()).unwrap();
        let reversed = bce_logits(&reverse(&score, 0.7).unwrap(), &label).unwrap().backward().unwrap();
        let flipped = (bce_logits(&score, &label.affine(-1.0, 1.0).unwrap()).unwrap() * 0.7).unwrap();
        let flipped = flipped.backward().unwrap();
        let at =
            |store: &lastlayer::candle::backprop::GradStore| store.get(&score).unwrap().numbers().unwrap()[0];
        near(at(&reversed), 0.7 * (y - p), 1e-12);
        near(at(&flipped), 0.7 * (p - (1.0 - y)), 1e-12);
        near(at(&reversed) + at(&flipped), 0.7 * (2.0 * y - 1.0), 1e-12);
    }
}

#[test]
fn the_rival_of_flipped_labels_moves_first_and_by_itself() {
    let data = data(60);
    let [own, rival] = separate(&data);
    let adversary = against(&["a"], &["b"], contest(AdvLoss::FlippedLabel, 0.5), &data);
    let groups: Vec<String> = adversary.groups().into_iter().map(|g| g.name).collect();
    assert_eq!(groups, ["bottom", "own"]);
    let before = numbers(&adversary.rival.as_ref().unwrap().vars());
    // Adam's first step has the size of its rate, against the sign of the gradient.
    let adversary = taught(adversary, &batch(&data));
    let after = numbers(&adversary.rival.as_ref().unwrap().vars());
    for ((before, after), gradient) in before.iter().zip(&after).zip(&rival[2]) {
        near(before - after, 0.1 * gradient.signum(), 1e-4);
    }
    // The features then move by their own loss and by the flipped labels, under the head that has moved.
    let z = phi(&adversary).forward(&data.x, Pass::Eval).unwrap();
    let flipped = data.attribute("b").unwrap().unsqueeze(1).unwrap().affine(-1.0, 1.0).unwrap();
    let rival = adversary.rival.as_ref().unwrap();
    let loss = bce_logits(&rival.forward(&z, Pass::Eval).unwrap(), &flipped).unwrap();
    let store = loss.backward().unwrap();
    let gradient = |(_, var): &(String, Var)| store.get(var).unwrap().numbers().unwrap().into_owned();
    let flipped: Vec<f64> = phi(&adversary).vars().iter().flat_map(gradient).collect();
    let expected: Vec<f64> = own[0].iter().zip(&flipped).map(|(a, b)| a + 0.5 * b).collect();
    // The trainer has rate 1, so a tenth of it is the rate above.
    let slower = Contest { rival_lr: 0.1, ..contest(AdvLoss::FlippedLabel, 0.5) };
    let fresh = against(&["a"], &["b"], slower, &data);
    let found = moved(fresh, &data);
    all_near(&found[0], &expected, 1e-5);
    all_near(&found[1], &own[1], F32);
}

#[test]
fn a_contest_with_an_inner_step_continues_to_the_same_bits() {
    let data = data(64);
    let folder = tempfile::tempdir().unwrap();
    for loss in [AdvLoss::Reverse, AdvLoss::FlippedLabel, AdvLoss::WassersteinClipped { clip: 0.01 }] {
        let twice = Contest { rival_steps: 2, ..contest(loss, 0.5) };
        let make = || against(&["a"], &["b"], twice, &data);
        let trainer = Trainer::adam(0.01).batch(16).epochs(3).seed(SEED).silent();
        let mut whole = make();
        trainer.fit(&mut whole, &data).unwrap();
        let place = folder
            .path()
            .join(format!("{loss:?}").chars().filter(|c| c.is_alphanumeric()).collect::<String>());
        let trainer = trainer.checkpoints(&place, 1);
        let mut first = make();
        let mut left = 5;
        // A step that fails is what an interruption looks like from here.
        let stopped = trainer.fit(
            &mut watched::before(&mut first, |_: &Adversary, _| {
                left -= 1;
                if left == 0 { Err(Error::config("stop", 0, "here")) } else { Ok(()) }
            }),
            &data,
        );
        assert!(stopped.is_err());
        let mut second = make();
        trainer.fit(&mut second, &data).unwrap();
        for (a, b) in [(&phi(&whole), &phi(&second)), (&own(&whole), &own(&second))] {
            assert_eq!(numbers(&a.vars()), numbers(&b.vars()));
        }
        let rivals = [&whole, &second].map(|a| numbers(&a.rival.as_ref().unwrap().vars()));
        assert_eq!(rivals[0], rivals[1]);
    }
}

#[test]
fn the_linear_critic_sees_the_distance_of_the_means() {
    let data = data(60);
    let strength = 0.5;
    let found = moved(against(&["a"], &["b"], contest(AdvLoss::WassersteinLinear, strength), &data), &data);
    // The same by hand: central differences would be lost in f32, so the gradient of the length is written out.
    let adversary = against(&["a"], &["b"], contest(AdvLoss::WassersteinLinear, strength), &data);
    let z = phi(&adversary).forward(&data.x, Pass::Eval).unwrap();
    let y = data.attribute("b").unwrap().unsqueeze(1).unwrap();
    let ones = y.sum_all().unwrap().to_scalar::<f32>().unwrap() as f64;
    let side = ((&y / ones).unwrap() - (y.affine(-1.0, 1.0).unwrap() / (60.0 - ones)).unwrap()).unwrap();
    let apart = z.broadcast_mul(&side).unwrap().sum(0).unwrap();
    let length = apart.sqr().unwrap().sum_all().unwrap().sqrt().unwrap();
    // Never exceeded by another direction.
    let numbers_apart = apart.numbers().unwrap().into_owned();
    let longest = super::norm(&numbers_apart);
    for i in 0..10_000u64 {
        let w: Vec<f64> = (0..numbers_apart.len()).map(|j| SEED.stream(i).normal(j as u64)).collect();
        assert!(super::dot(&w, &numbers_apart) / super::norm(&w) <= longest + 1e-12);
    }
    let own_y = data.attribute("a").unwrap().unsqueeze(1).unwrap();
    let own = bce_logits(&own(&adversary).forward(&z, Pass::Eval).unwrap(), &own_y).unwrap();
    let store = (own + (length * strength).unwrap()).unwrap().backward().unwrap();
    let expected: Vec<f64> = phi(&adversary)
        .vars()
        .iter()
        .flat_map(|(_, v)| store.get(v).unwrap().numbers().unwrap().into_owned())
        .collect();
    all_near(&found[0], &expected, F32);
}

#[test]
fn equal_means_leave_the_features_alone() {
    // All inputs equal: the distance is zero, and has no gradient; the step is that of the own loss.
    let some = data(40);
    let x = Tensor::ones((40, 6), DType::F32, device()).unwrap();
    let equal = Dataset { x, ..some };
    let with = moved(against(&["a"], &["b"], contest(AdvLoss::WassersteinLinear, 1.0), &equal), &equal);
    let without = moved(against(&["a"], &[], contest(AdvLoss::None, 0.0), &equal), &equal);
    all_near(&with[0], &without[0], F32);
}

#[test]
fn a_critic_stays_clipped() {
    let data = data(60);
    let clip = 0.01;
    let often = Contest { rival_steps: 5, ..contest(AdvLoss::WassersteinClipped { clip }, 1.0) };
    let mut adversary = against(&["a"], &["b"], often, &data);
    let trainer = Trainer::adam(0.01).batch(20).epochs(2).seed(SEED).silent();
    trainer.fit(&mut adversary, &data).unwrap();
    let critic = numbers(&adversary.rival.as_ref().unwrap().vars());
    assert!(critic.iter().all(|w| w.abs() <= clip + 1e-9));
    assert!(critic.iter().any(|w| w.abs() > 0.9 * clip), "a linear critic goes to the corners");
}

#[test]
fn groups_are_means_and_a_group_twice_is_the_group() {
    let data = data(60);
    let one = moved(against(&["a"], &["b"], contest(AdvLoss::Reverse, 0.4), &data), &data);
    let other = moved(against(&["a"], &["c"], contest(AdvLoss::Reverse, 0.4), &data), &data);
    let both = moved(against(&["a"], &["b", "c"], contest(AdvLoss::Reverse, 0.4), &data), &data);
    let mean: Vec<f64> = one[0].iter().zip(&other[0]).map(|(a, b)| (a + b) / 2.0).collect();
    all_near(&both[0], &mean, F32);
    let duplicated = data.a.as_ref().unwrap();
    let b = duplicated.narrow(1, 1, 1).unwrap();
    let twice = Tensor::cat(&[duplicated, &b], 1).unwrap();
    let twice =
        Dataset { a: None, ..data.clone() }.with_attributes(twice, ["a", "b", "c", "b again"]).unwrap();
    let again = moved(against(&["a"], &["b", "b again"], contest(AdvLoss::Reverse, 0.4), &twice), &twice);
    // The copy has a head of its own, drawn from another name; give it the first one's.
    assert_eq!(again[0].len(), one[0].len());
    let adversary = against(&["a"], &["b", "b again"], contest(AdvLoss::Reverse, 0.4), &twice);
    let rival = adversary.rival.as_ref().unwrap();
    for (_, var) in rival.vars() {
        let first = var.as_tensor().narrow(0, 0, 1).unwrap();
        var.set(&Tensor::cat(&[&first, &first], 0).unwrap()).unwrap();
    }
    all_near(&moved(adversary, &twice)[0], &one[0], F32);
}

#[test]
fn decorrelated_weights_make_the_labels_independent() {
    let data = data(200);
    let plain = contest(AdvLoss::Reverse, 0.5);
    let weighed = Contest { decorrelated: true, ..plain };
    let found = moved(against(&["a"], &["b"], weighed, &data), &data);
    let labels = |name: &str| -> Vec<u8> {
        data.attribute(name).unwrap().numbers().unwrap().iter().map(|v| *v as u8).collect()
    };
    let (a, b) = (labels("a"), labels("b"));
    let weights = lastlayer::adversary::decorrelating_weights(&a, &b).unwrap();
    // Labels may come as the tensors that a set holds them in.
    let [of_a, of_b] = ["a", "b"].map(|name| data.attribute(name).unwrap());
    assert_eq!(lastlayer::adversary::decorrelating_weights(&of_a, &of_b).unwrap(), weights);
    let adversary = against(&["a"], &["b"], weighed, &data);
    let z = phi(&adversary).forward(&data.x, Pass::Eval).unwrap();
    let y = data.attribute("b").unwrap().unsqueeze(1).unwrap();
    let s = adversary.rival.as_ref().unwrap().forward(&z, Pass::Eval).unwrap();
    let w: Vec<f32> = weights.iter().map(|w| *w as f32).collect();
    let w = Tensor::from_vec(w, (200, 1), device()).unwrap();
    let loss = (lastlayer::loss::bce_logits_each(&s, &y).unwrap() * w).unwrap().mean_all().unwrap();
    let store = loss.backward().unwrap();
    let expected: Vec<f64> = adversary
        .rival
        .as_ref()
        .unwrap()
        .vars()
        .iter()
        .flat_map(|(_, v)| store.get(v).unwrap().numbers().unwrap().into_owned())
        .collect();
    all_near(&found[2], &expected, F32);
    assert_ne!(found[2], moved(against(&["a"], &["b"], plain, &data), &data)[2]);
}

#[test]
fn warm_up_begins_at_zero_and_ends_near_the_strength() {
    let contest = Contest { warm_up: true, strength: 0.8, ..Contest::default() };
    assert_eq!(contest.strength_at(0.0), 0.0);
    near(contest.strength_at(0.5), 0.8 * (2.0 / (1.0 + (-5.0f64).exp()) - 1.0), 1e-15);
    near(contest.strength_at(1.0), 0.8, 1e-3);
}

#[test]
fn a_batch_with_one_value_of_the_rival_leaves_the_distance_out() {
    let data = data(40);
    let b = data.attribute("b").unwrap().numbers().unwrap().into_owned();
    let ones: Vec<usize> = (0..40).filter(|i| b[*i] > 0.5).collect();
    let one_value = data.subset(&ones).unwrap();
    for loss in [AdvLoss::WassersteinLinear, AdvLoss::WassersteinClipped { clip: 0.1 }] {
        let adversary = against(&["a"], &["b"], contest(loss, 5.0), &data);
        let single = against(&["a"], &[], contest(AdvLoss::None, 0.0), &data);
        // Losses and reports; on a device a critic that took no step is kept all the same, as it was before.
        let told = |a: &Adversary| {
            let step = format!("{:?}", a.step(&batch(&one_value)).unwrap());
            step.split(", carried").next().map(str::to_string)
        };
        assert_eq!(told(&adversary), told(&single));
    }
    // A logistic loss is defined on one value too.
    let adversary = against(&["a"], &["b"], contest(AdvLoss::Reverse, 1.0), &data);
    adversary.step(&batch(&one_value)).unwrap();
    adversary.step(&batch(&data.subset(&[0]).unwrap())).unwrap();
}

/// In batches so small that some hold one value of the rival alone: a critic then takes no step.
#[test]
fn contests_are_the_same_on_every_device() {
    let clipped = AdvLoss::WassersteinClipped { clip: 0.1 };
    for (loss, decorrelated) in [
        (AdvLoss::MultiTask, false),
        (AdvLoss::Reverse, false),
        (AdvLoss::FlippedLabel, true),
        (AdvLoss::WassersteinLinear, true),
        (clipped, false),
        (clipped, true),
    ] {
        let run = |device: &Device| {
            let data = data(60).to_device(device).unwrap();
            let contest = Contest { decorrelated, rival_steps: 3, ..contest(loss, 0.5) };
            let mut adversary = Adversary::new(plan(), &data, &["a"], &["b"], contest, SEED, device).unwrap();
            let trainer = Trainer::sgd(0.01, 0.0).epochs(2).batch(4).silent();
            let run = trainer.fit(&mut adversary, &data).unwrap();
            let groups = adversary.groups().into_iter().flat_map(|group| group.vars);
            let all: Vec<(String, Var)> = groups.chain(adversary.statistics()).collect();
            let state = adversary.state().unwrap();
            // Steps that the critic has taken, and those that nobody on the host knows were none.
            let taken = state.notes[0].as_f64().unwrap_or(0.0);
            let undone =
                state.tensors.get("updates.undone").map_or(0.0, |undone| undone.numbers().unwrap()[0]);
            let mut found = numbers(&all);
            for (_, tensor) in state.tensors.iter().filter(|(name, _)| !name.ends_with("undone")) {
                found.extend_from_slice(&tensor.numbers().unwrap());
            }
            let values = run.history.epochs.iter().flat_map(|epoch| epoch.values.clone()).map(|(_, v)| v);
            (taken - undone, found, values.collect::<Vec<f64>>())
        };
        let [here, there] = [&Device::Cpu, device()].map(run);
        assert_eq!(here.0, there.0);
        all_near(&here.1, &there.1, 1e-4);
        all_near(&here.2, &there.2, 1e-4);
        if loss == clipped {
            let steps = here.0;
            assert!(0.0 < steps && steps < 90.0, "{steps}: of 30 batches of 3 steps some are left out");
        }
    }
}

#[test]
fn a_probe_reads_what_features_hold() {
    let (train, test) = (data(400), data(900));
    let adversary = against(&["a"], &[], contest(AdvLoss::None, 0.0), &train);
    let net = adversary.net();
    let known = leakage(net, &train, &test, "a").unwrap();
    assert!(known.balanced > 0.7 && known.auc.low > 0.7, "{known:?}");
    // Constant features tell nothing: the probe decides one class for all.
    let x = Tensor::zeros((400, 6), DType::F32, device()).unwrap();
    let blind = leakage(net, &Dataset { x, ..train.clone() }, &test, "a").unwrap();
    near(blind.balanced, 0.5, 0.1);
    assert!(message(leakage(net, &train, &test, "d")).contains("a, b, c"));
    // An attribute with one value, in either set, and features that are no numbers.
    let ones = |data: &Dataset| {
        let rows: Vec<usize> =
            (0..data.n()).filter(|i| data.attribute("a").unwrap().numbers().unwrap()[*i] > 0.5).collect();
        data.subset(&rows).unwrap()
    };
    for (train, test) in [(ones(&train), test.clone()), (train.clone(), ones(&test))] {
        let error = message(leakage(net, &train, &test, "a"));
        assert!(error.contains("class") || error.contains("value"), "{error}");
    }
    let broken = Dataset { x: (&test.x * f64::NAN).unwrap(), ..test.clone() };
    assert!(message(leakage(net, &train, &broken, "a")).contains("NaN"));
}

/// A set whose only feature is N(±½, 1), with a share of positives; its AUC is Φ(1/√2), its best balanced accuracy Φ(½).
fn rare(n: usize, share: f64, seed: Seed) -> Dataset {
    let positive = |i: usize| seed.named("label").uniform(i as u64) < share;
    let value = |i: usize| seed.named("value").normal(i as u64) + if positive(i) { 0.5 } else { -0.5 };
    let x: Vec<f32> = (0..n).map(|i| value(i) as f32).collect();
    let a: Vec<f32> = (0..n).map(|i| f32::from(u8::from(positive(i)))).collect();
    let x = Tensor::from_vec(x, (n, 1), device()).unwrap();
    let a = Tensor::from_vec(a, (n, 1), device()).unwrap();
    let y = Tensor::zeros(n, DType::U32, device()).unwrap();
    Dataset::new("rare", x, y, ["all"]).unwrap().with_attributes(a, ["b"]).unwrap()
}

#[test]
fn a_rare_attribute_leaks_as_much_as_it_can_be_ranked() {
    let (train, test) = (rare(20_000, 0.1, SEED.named("train")), rare(40_000, 0.1, SEED.named("test")));
    let net = SplitNet::new(zoo::identity(&[1]), 1, SEED, device()).unwrap();
    let leak = leakage(&net, &train, &test, "b").unwrap();
    let (auc, balanced) = (normal_cdf(0.5f64.sqrt()), normal_cdf(0.5));
    // Four standard errors: of the interval, and of a rate of 4 000 positives, of which half counts.
    near(leak.auc.value, auc, 2.0 * (leak.auc.high - leak.auc.low) / 2.0);
    near(leak.balanced, balanced, 4.0 * 0.5 * (0.25f64 / 4000.0).sqrt() + 0.005);
}

#[test]
fn rivals_that_step_first_judge_the_features_as_they_are() {
    let data = data(60);
    let first = Contest { rival_steps: 3, ..contest(AdvLoss::Reverse, 0.5) };
    let adversary = against(&["a"], &["b"], first, &data);
    let before = numbers(&adversary.rival.as_ref().unwrap().vars());
    let adversary = taught(adversary, &batch(&data));
    let head = adversary.rival.as_ref().unwrap();
    assert_ne!(numbers(&head.vars()), before);
    // Features: their own gradient less half of that of the rivals' loss under the head that has moved.
    let [own, _] = separate(&data);
    let z = phi(&adversary).forward(&data.x, Pass::Eval).unwrap();
    let y = data.attribute("b").unwrap().unsqueeze(1).unwrap();
    let store = bce_logits(&head.forward(&z, Pass::Eval).unwrap(), &y).unwrap().backward().unwrap();
    let gradient = |(_, var): &(String, Var)| store.get(var).unwrap().numbers().unwrap().into_owned();
    let theirs: Vec<f64> = phi(&adversary).vars().iter().flat_map(gradient).collect();
    let expected: Vec<f64> = own[0].iter().zip(&theirs).map(|(a, b)| a - 0.5 * b).collect();
    // The trainer has rate 1, and a batch as above a tenth of it.
    let fresh = against(&["a"], &["b"], Contest { rival_lr: 0.1, ..first }, &data);
    let found = moved(fresh, &data);
    all_near(&found[0], &expected, 1e-5);
    all_near(&found[1], &own[1], F32);
}

/// Forty inputs, each of which tells a little of a, of b, or of both.
fn diffuse(n: usize) -> Dataset {
    let normal = |i: usize, j: u64| SEED.named("diffuse").stream(i as u64).normal(j);
    let sign = |i: usize, j: u64| normal(i, j).signum();
    let weight = |j: u64, k: u64| SEED.named("weights").stream(k).normal(j);
    let told = |i: usize, j: u64| 0.5 * weight(j, 0) * sign(i, 0) + 0.5 * weight(j, 1) * sign(i, 1);
    let row = |i: usize| (0..40).map(move |j| (told(i, j) + normal(i, 2 + j)) as f32);
    let x = Tensor::from_vec((0..n).flat_map(row).collect::<Vec<f32>>(), (n, 40), device()).unwrap();
    let labels = |i: usize| [0, 1].map(|j| f32::from(u8::from(sign(i, j) > 0.0)));
    let a = Tensor::from_vec((0..n).flat_map(labels).collect::<Vec<f32>>(), (n, 2), device()).unwrap();
    let y = Tensor::zeros(n, DType::U32, device()).unwrap();
    Dataset::new("diffuse", x, y, ["all"]).unwrap().with_attributes(a, ["a", "b"]).unwrap()
}

#[test]
fn reversal_lowers_what_a_probe_reads_unless_the_rivals_are_outrun() {
    let (train, test) = (diffuse(4000), diffuse(8000));
    let test = test.subset(&(4000..8000).collect::<Vec<usize>>()).unwrap();
    let run = |rivals: &[&str], contest: Contest| {
        let plan = zoo::mlp(&[40, 16]).unwrap();
        let mut adversary = Adversary::new(plan, &train, &["a"], rivals, contest, SEED, device()).unwrap();
        let trainer = Trainer::adam(1e-3).batch(256).epochs(20).seed(SEED).silent();
        let warning = trainer.fit(&mut adversary, &train).unwrap().warning;
        (leakage(adversary.net(), &train, &test, "b").unwrap().auc.value, warning)
    };
    let reversed = Contest { loss: AdvLoss::Reverse, strength: 0.3, ..Contest::default() };
    let (alone, none) = run(&[], Contest::default());
    assert_eq!(none, None);
    let (less, none) = run(&["b"], reversed);
    assert_eq!(none, None);
    assert!(less < alone - 0.1, "{less} against {alone}");
    // Heads and features at once: the attribute becomes easier to read, and the run says so.
    let (more, warning) = run(&["b"], Contest { rival_steps: 1, ..reversed });
    let warning = warning.unwrap();
    assert!(warning.contains("outrun") && warning.contains("rival_steps (now 1)"), "{warning}");
    assert!(more > alone + 0.05, "{more} against {alone}");
}

#[test]
fn a_decorrelated_contest_is_no_chase() {
    // Inputs tell a alone, and b agrees with a in four of five samples: a probe reads b through a, which is what the
    // weights of the rival take out.
    let n = 2000;
    let normal = |i: usize, j: u64| SEED.named("agree").stream(i as u64).normal(j);
    let row = |i: usize| {
        let a = normal(i, 0).signum();
        let b = if normal(i, 1) < 0.84 { a } else { -a };
        ([(a + 0.3 * normal(i, 2)) as f32, normal(i, 3) as f32], [a, b].map(|v| f32::from(u8::from(v > 0.0))))
    };
    let (x, a): (Vec<[f32; 2]>, Vec<[f32; 2]>) = (0..n).map(row).unzip();
    let table = |rows: Vec<[f32; 2]>| Tensor::from_vec(rows.concat(), (n, 2), device()).unwrap();
    let y = Tensor::zeros(n, DType::U32, device()).unwrap();
    let data = Dataset::new("agree", table(x), y, ["all"]).unwrap();
    let data = data.with_attributes(table(a), ["a", "b"]).unwrap();
    let contest = Contest { loss: AdvLoss::Reverse, strength: 0.1, decorrelated: true, ..Contest::default() };
    let plan = zoo::mlp(&[2, 4]).unwrap();
    let mut adversary = Adversary::new(plan, &data, &["a"], &["b"], contest, SEED, device()).unwrap();
    let trainer = Trainer::adam(3e-3).batch(200).epochs(20).seed(SEED).silent();
    let run = trainer.fit(&mut adversary, &data).unwrap();
    let last = run.history.values("rival loss").unwrap();
    assert!(last[last.len() - 1] > 0.65, "the rival learns nothing beyond a: {last:?}");
    assert_eq!(run.warning, None);
}

#[test]
fn partners_count_as_much_as_ones_own_unless_told() {
    let data = data(60);
    let of = |rivals: &[&str], strength: f64| {
        moved(against(&["a"], rivals, contest(AdvLoss::MultiTask, strength), &data), &data)
    };
    let alone = moved(against(&["a"], &[], contest(AdvLoss::None, 0.0), &data), &data);
    let [b, c, both, mean] = [of(&["b"], 1.0), of(&["c"], 1.0), of(&["b", "c"], 1.0), of(&["b", "c"], 0.5)];
    for i in 0..alone[0].len() {
        let (b, c) = (b[0][i] - alone[0][i], c[0][i] - alone[0][i]);
        near(both[0][i] - alone[0][i], b + c, 1e-5);
        near(mean[0][i] - alone[0][i], (b + c) / 2.0, 1e-5);
    }
}

#[test]
fn bad_contests_say_what_is_allowed() {
    let data = data(30);
    let make = |own: &[&str], rivals: &[&str], contest: Contest| {
        Adversary::new(plan(), &data, own, rivals, contest, SEED, device())
    };
    let reverse = contest(AdvLoss::Reverse, 1.0);
    assert!(message(make(&[], &["b"], reverse)).contains("at least one of each"));
    assert!(message(make(&["a"], &[], reverse)).contains("at least one of each"));
    assert!(
        message(make(&["a"], &["b"], contest(AdvLoss::None, 1.0))).contains("AdvLoss::Reverse; or no rivals")
    );
    assert!(message(make(&["a"], &["a"], reverse)).contains("each attribute once"));
    assert!(message(make(&["a"], &["z"], reverse)).contains("a, b, c"));
    assert!(message(make(&["a"], &["b"], contest(AdvLoss::Reverse, f64::NAN))).contains("finite"));
    assert!(message(make(&["a"], &["b"], Contest { rival_lr: 0.0, ..reverse })).contains("above 0"));
    assert!(
        message(make(&["a"], &["b", "c"], Contest { decorrelated: true, ..reverse })).contains("one of each")
    );
    assert!(message(make(&["a"], &["b", "c"], contest(AdvLoss::WassersteinLinear, 1.0))).contains("one"));
    let clipped = contest(AdvLoss::WassersteinClipped { clip: -1.0 }, 1.0);
    assert!(message(make(&["a"], &["b"], clipped)).contains("above 0"));
    assert!(message(make(&["a"], &["b"], Contest { rival_steps: 0, ..reverse })).contains("at least 1"));
    let ones = Tensor::ones((30, 1), DType::F32, device()).unwrap();
    let constant = Dataset { a: None, ..data.clone() }.with_attributes(ones, ["always"]).unwrap();
    let error =
        Adversary::new(plan(), &constant, &["always"], &[], contest(AdvLoss::None, 0.0), SEED, device());
    assert!(message(error).contains("one value only"));
    let bare = Dataset { a: None, ..data.clone() };
    let adversary = against(&["a"], &["b"], reverse, &data);
    assert!(message(adversary.step(&batch(&bare))).contains("no attributes"));
}

#[test]
fn scores_that_are_not_numbers_end_the_run_and_move_nothing() {
    let data = data(30);
    let mut adversary = against(&["a"], &["b"], contest(AdvLoss::FlippedLabel, 1.0), &data);
    let all = |a: &Adversary| {
        [numbers(&phi(a).vars()), numbers(&own(a).vars()), numbers(&a.rival.as_ref().unwrap().vars())]
    };
    let before = all(&adversary);
    let bad = Dataset { x: (&data.x * f64::NAN).unwrap(), ..data.clone() };
    let trainer = Trainer::adam(0.1).batch(30).seed(SEED).silent();
    let result = trainer.fit(&mut adversary, &bad);
    assert!(matches!(result, Err(Error::Solve { .. })));
    assert_eq!(all(&adversary), before);
}

#[test]
fn rivals_have_the_type_of_the_network_and_scores_are_counted() {
    let data = data(60);
    let data = Dataset { x: data.x.to_dtype(DType::F64).unwrap(), ..data };
    let net = |width| {
        let head = zoo::linear(width, true);
        SplitNet::with_head(plan(), head, SEED, DType::F64, device()).unwrap()
    };
    for rival_steps in [1, 3] {
        let contest = Contest { rival_steps, ..contest(AdvLoss::Reverse, 0.5) };
        let mut adversary = Adversary::under(&net(1), &data, &["a"], &["b"], contest, SEED).unwrap();
        Trainer::adam(0.01).batch(30).silent().fit(&mut adversary, &data).unwrap();
        let refused = Adversary::under(&net(2), &data, &["a"], &["b"], contest, SEED);
        assert!(matches!(refused, Err(Error::Shape { .. })), "{refused:?}");
    }
}

#[test]
fn a_state_without_heads_changes_nothing() {
    let data = data(60);
    let contest = Contest { rival_steps: 3, ..contest(AdvLoss::Reverse, 0.5) };
    let mut adversary = against(&["a"], &["b"], contest, &data);
    let fresh = adversary.state().unwrap();
    Trainer::adam(0.01).batch(30).silent().fit(&mut adversary, &data).unwrap();
    let (state, mut damaged) = (adversary.state().unwrap(), fresh);
    // The first state is still that of the beginning.
    assert_eq!((state.notes[0].as_u64(), damaged.notes[0].as_u64()), (Some(6), Some(0)));
    assert!(damaged.tensors["updates.weight.0"].numbers().unwrap().iter().all(|moment| *moment == 0.0));
    damaged.tensors.remove("rival.weight").unwrap();
    assert!(adversary.restore(&damaged).is_err());
    assert_eq!(adversary.state().unwrap().notes, state.notes);
}
