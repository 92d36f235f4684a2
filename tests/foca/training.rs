//! Training against strangers: what the gradient is, who gets it, and what bad input gives.

use crate::device::device;
use lastlayer::data::Dataset;
use lastlayer::error::Error;
use lastlayer::foca::{Baseline, Features, Foca, FocaTraining, Spread, ThetaGrad, WeakFit, extractor};
use lastlayer::loss::one_hot;
use lastlayer::model::{Layer, Pass, Plan, Split, SplitNet, zoo};
use lastlayer::ndarray::Array2;
use lastlayer::numbers::AsF64;
use lastlayer::prelude::{DType, Gaussians, Minimise, Scores, Tensor, Trainer, Var, arcs};
use lastlayer::seed::Seed;
use lastlayer::train::{Batch, Method, Step};

use super::{SEED, bells, close, differences, message};

/// Central differences of losses of size one with a step of 1e-5: rounding over the step, and the step squared.
const DIFFERENCES: f64 = 1e-8;
const STEP: f64 = 1e-5;

const CLASSES: usize = 3;
/// Counts of classes of equal size.
const EQUAL: [usize; CLASSES] = [10; CLASSES];

fn tensor(a: &Array2<f64>) -> Tensor {
    Tensor::from_vec(a.iter().copied().collect::<Vec<f64>>(), a.dim(), device()).unwrap()
}

fn labels(n: usize) -> Vec<u32> {
    (0..n).map(|i| (i % CLASSES) as u32).collect()
}

fn label_tensor(n: usize) -> Tensor {
    Tensor::new(labels(n), device()).unwrap()
}

fn value(t: &Tensor) -> f64 {
    t.numbers().unwrap()[0]
}

/// Loss of `z` under heads fitted to `others`, both as arrays.
fn loss(foca: Foca, others: &Array2<f64>, z: &Array2<f64>) -> f64 {
    let found =
        foca.loss(&tensor(others), &labels(others.nrows()), &tensor(z), &label_tensor(z.nrows()), &EQUAL);
    value(&found.unwrap())
}

/// Gradients of the same loss in both.
fn gradients(foca: Foca, others: &Array2<f64>, z: &Array2<f64>) -> [Option<Vec<f64>>; 2] {
    let vars = [others, z].map(|a| Var::from_tensor(&tensor(a)).unwrap());
    let y = label_tensor(z.nrows());
    let loss = foca.loss(&vars[0], &labels(others.nrows()), &vars[1], &y, &EQUAL).unwrap();
    let store = loss.backward().unwrap();
    vars.map(|var| store.get(&var).map(|g| g.numbers().unwrap().into_owned()))
}

fn settings() -> Vec<Foca> {
    let mut all = Vec::new();
    for fit in
        [WeakFit::RidgeSum(0.5), WeakFit::RidgeMean(0.1), WeakFit::SoftmaxSum(0.3), WeakFit::SoftmaxMean(0.1)]
    {
        for heads in [1, 2] {
            for theta in [ThetaGrad::Fixed, ThetaGrad::Through] {
                all.push(Foca { k: 2, fit, heads, theta, ..Foca::default() });
            }
        }
    }
    all
}

/// More rows than features for each head, and fewer.
fn features(heads: usize, d: usize) -> (Array2<f64>, Array2<f64>) {
    (bells(SEED.named("others"), heads * 2 * CLASSES, d), bells(SEED.named("z"), 7, d))
}

#[test]
fn fixed_is_the_gradient_of_constant_heads_and_reaches_no_other_sample() {
    for foca in settings().into_iter().filter(|foca| foca.theta == ThetaGrad::Fixed) {
        for d in [4, 9] {
            let (others, z) = features(foca.heads, d);
            let [theirs, own] = gradients(foca, &others, &z);
            assert!(theirs.is_none(), "no gradient, not a gradient of zeros");
            close(&own.unwrap(), &differences(&z, STEP, |z| loss(foca, &others, z)), DIFFERENCES);
        }
    }
}

#[test]
fn fixed_is_the_residual_along_the_head() {
    let foca = Foca { k: 2, fit: WeakFit::RidgeSum(0.5), ..Foca::default() };
    let (others, z) = features(1, 4);
    let head = foca.fit.fit(&Features::new(&others, &labels(others.nrows()), CLASSES).unwrap()).unwrap().head;
    let targets = Features::new(&z, &labels(z.nrows()), CLASSES).unwrap().one_hot();
    let residual = head.scores(&z).unwrap() - targets;
    let expected = 2.0 * residual.dot(&head.w.t()) / z.nrows() as f64;
    close(gradients(foca, &others, &z)[1].as_ref().unwrap(), &expected, 1e-12);
    close(&[loss(foca, &others, &z)], &[(&residual * &residual).sum() / z.nrows() as f64], 1e-12);
}

#[test]
fn through_is_the_gradient_of_the_whole_map() {
    for foca in settings().into_iter().filter(|foca| foca.theta == ThetaGrad::Through) {
        for d in [4, 9] {
            let (others, z) = features(foca.heads, d);
            let [theirs, own] = gradients(foca, &others, &z);
            close(&own.unwrap(), &differences(&z, STEP, |z| loss(foca, &others, z)), DIFFERENCES);
            close(
                &theirs.unwrap(),
                &differences(&others, STEP, |others| loss(foca, others, &z)),
                DIFFERENCES,
            );
        }
    }
}

#[test]
fn through_less_fixed_is_the_adjoint_of_the_fit() {
    let through = Foca { k: 2, fit: WeakFit::RidgeSum(0.5), theta: ThetaGrad::Through, ..Foca::default() };
    let (others, z) = features(1, 4);
    let set = Features::new(&others, &labels(others.nrows()), CLASSES).unwrap();
    let fitted = through.fit.fit(&set).unwrap();
    let targets = Features::new(&z, &labels(z.nrows()), CLASSES).unwrap().one_hot();
    let s_bar = 2.0 * (fitted.head.scores(&z).unwrap() - targets) / z.nrows() as f64;
    let adjoint = fitted.adjoint(&z.t().dot(&s_bar), &s_bar.sum_axis(lastlayer::ndarray::Axis(0))).unwrap();
    close(gradients(through, &others, &z)[0].as_ref().unwrap(), &adjoint, 1e-12);
    let fixed = Foca { theta: ThetaGrad::Fixed, ..through };
    assert_eq!(gradients(fixed, &others, &z)[1], gradients(through, &others, &z)[1]);
}

#[test]
fn several_heads_are_the_mean_of_their_losses() {
    for fit in [WeakFit::RidgeSum(0.5), WeakFit::SoftmaxSum(0.5)] {
        let foca = Foca { k: 2, fit, heads: 3, ..Foca::default() };
        let (others, z) = features(3, 4);
        let rows = 2 * CLASSES;
        let alone = |head: usize| {
            let own = others.slice(lastlayer::ndarray::s![head * rows..(head + 1) * rows, ..]).to_owned();
            loss(Foca { heads: 1, ..foca }, &own, &z)
        };
        let mean = (0..3).map(alone).sum::<f64>() / 3.0;
        close(&[loss(foca, &others, &z)], &[mean], 1e-12);
    }
}

#[test]
fn a_batch_counts_classes_as_the_heads_do() {
    for fit in [WeakFit::RidgeSum(0.5), WeakFit::SoftmaxSum(0.5)] {
        let foca = Foca { k: 2, fit, heads: 2, ..Foca::default() };
        let (others, z) = features(2, 4);
        let of = |rows: &[usize], counts: &[usize]| {
            let z = z.select(lastlayer::ndarray::Axis(0), rows);
            let y: Vec<u32> = rows.iter().map(|row| (row % CLASSES) as u32).collect();
            let y = Tensor::new(y, device()).unwrap();
            foca.loss(&tensor(&others), &labels(others.nrows()), &tensor(&z), &y, counts)
        };
        let all: Vec<usize> = (0..z.nrows()).collect();
        // A third of the heads' samples is of each class; of the set it is 60, 30 and 10 per cent.
        let weight = |row: usize| [1.0 / 1.8, 1.0 / 0.9, 1.0 / 0.3][row % CLASSES];
        let mean = all.iter().map(|row| weight(*row) * value(&of(&[*row], &EQUAL).unwrap())).sum::<f64>()
            / all.len() as f64;
        close(&[value(&of(&all, &[60, 30, 10]).unwrap())], &[mean], 1e-12);
        // Equal counts weigh nothing, whatever they are, to the last bit.
        assert_eq!(value(&of(&all, &[7; CLASSES]).unwrap()), loss(foca, &others, &z));
        assert!(message(of(&all, &[60, 0, 10])).contains("class 1 has no sample"));
    }
}

#[test]
fn theta_is_the_head_with_its_bias_below() {
    let (others, _) = features(1, 4);
    let fit = WeakFit::RidgeSum(0.5);
    let theta = fit.theta(&tensor(&others), &labels(others.nrows()), CLASSES).unwrap();
    let head = fit.fit(&Features::new(&others, &labels(others.nrows()), CLASSES).unwrap()).unwrap().head;
    let stacked: Vec<f64> = head.w.iter().chain(&head.b).copied().collect();
    assert_eq!(theta.dims(), [5, CLASSES]);
    assert_eq!(theta.numbers().unwrap().into_owned(), stacked);
}

// ---- the training step -------------------------------------------------------------------------------------------

fn net(d: usize, dtype: DType) -> SplitNet {
    let plan = extractor(zoo::mlp(&[6, 8]).unwrap(), d, Layer::RmsNorm, Baseline::Plain).unwrap();
    let head = zoo::linear(2, true);
    SplitNet::with_head(plan, head, SEED, dtype, device()).unwrap()
}

fn data(n: usize) -> Dataset {
    Gaussians::a().sample(n, SEED, device()).unwrap()
}

fn batch(data: &Dataset, rows: &[usize], seed: Seed) -> Batch {
    let data = data.subset(rows).unwrap();
    Batch {
        x: data.x.clone(),
        y: data.y.clone(),
        a: None,
        data,
        rows: rows.to_vec(),
        step: 0,
        epoch: 0,
        progress: 0.0,
        lr: 0.1,
        seed,
    }
}

fn parameters(net: &SplitNet) -> Vec<f64> {
    net.bottom().into_iter().flat_map(|(_, v)| v.numbers().unwrap().into_owned()).collect()
}

#[test]
fn training_moves_the_backbone_and_leaves_the_head() {
    let (net, data) = (net(3, DType::F32), data(200));
    let mut strangers = FocaTraining::new(&net, &data, Foca { k: 3, ..Foca::default() }).unwrap();
    let head =
        || net.last().iter().flat_map(|(_, v)| v.numbers().unwrap().into_owned()).collect::<Vec<f64>>();
    let (bottom_before, head_before) = (parameters(&net), head());
    let trainer = Trainer::adam(1e-2).batch(50).seed(SEED).silent();
    trainer.fit(&mut strangers, &data).unwrap();
    assert_ne!(parameters(&net), bottom_before);
    let apart = parameters(&net);
    trainer.only("bottom").fit(&mut strangers, &data).unwrap();
    assert_ne!(parameters(&net), apart);
    assert_eq!(head(), head_before);
}

#[test]
fn the_same_seed_meets_the_same_strangers() {
    let (net, data) = (net(3, DType::F32), data(120));
    let strangers = FocaTraining::new(&net, &data, Foca { k: 4, heads: 2, ..Foca::default() }).unwrap();
    let y = data.labels().unwrap();
    let rows = strangers.draw(SEED).unwrap();
    assert_eq!(rows, strangers.draw(SEED).unwrap());
    assert_ne!(rows, strangers.draw(Seed::new(1)).unwrap());
    // Each head gets four of class 0, then four of class 1, and none that the other has.
    assert_eq!(rows.len(), 16);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(y[*row] as usize, (i / 4) % 2);
    }
    let different: std::collections::HashSet<_> = rows.iter().collect();
    assert_eq!(different.len(), 16);
    let train = |seed: u64| {
        let net = self::net(3, DType::F32);
        let mut strangers = FocaTraining::new(&net, &data, strangers.foca).unwrap();
        let trainer = Trainer::sgd(0.1, 0.9).batch(40).seed(Seed::new(seed)).silent();
        trainer.fit(&mut strangers, &data).unwrap();
        parameters(&net)
    };
    assert_eq!(train(1), train(1));
    assert_ne!(train(1), train(2));
}

#[test]
fn natural_heads_hold_the_classes_by_their_shares() {
    let (net, data) = (net(3, DType::F32), data(200));
    let counts = data.class_counts().unwrap();
    let strangers =
        FocaTraining::new(&net, &data, Foca { k: 10, natural: true, heads: 2, ..Foca::default() }).unwrap();
    let (rows, y) = (strangers.draw(SEED).unwrap(), data.labels().unwrap());
    let rare = (20.0 * counts[1] as f64 / 200.0).round() as usize;
    assert!(rare < 8, "{counts:?}");
    let classes: Vec<u32> = rows.iter().map(|row| y[*row]).collect();
    let one = [vec![0; 20 - rare], vec![1; rare]].concat();
    assert_eq!(classes, [one.clone(), one].concat());
    // A class too rare for its share has one sample; nothing is drawn of no samples.
    let least = FocaTraining::new(&net, &data, Foca { k: 1, natural: true, ..Foca::default() }).unwrap();
    assert_eq!(least.draw(SEED).unwrap().len(), 2);
    assert!(
        message(FocaTraining::new(&net, &data, Foca { k: 0, natural: true, ..Foca::default() }))
            .contains("at least 1")
    );
}

/// The gradient of a step in the backbone, against differences of the same loss with heads that follow or stay.
#[test]
fn a_step_has_the_gradient_it_says() {
    for theta in [ThetaGrad::Fixed, ThetaGrad::Through] {
        let net = net(3, DType::F64);
        let data = data(60);
        let data = Dataset { x: data.x.to_dtype(DType::F64).unwrap(), ..data };
        let strangers = FocaTraining::new(&net, &data, Foca { k: 4, theta, ..Foca::default() }).unwrap();
        let batch = batch(&data, &(0..20).collect::<Vec<_>>(), SEED);
        let (rows, counts) = (strangers.draw(SEED).unwrap(), data.class_counts().unwrap());
        let others = data.subset(&rows).unwrap();
        let fit = |net: &SplitNet| {
            let z = net.features(&others.x, Pass::Eval).unwrap();
            strangers.foca.fit.theta(&z, &others.labels().unwrap(), 2).unwrap().detach()
        };
        let constant = fit(&net);
        let value_at = || {
            let theta = if theta == ThetaGrad::Fixed { constant.clone() } else { fit(&net) };
            let z = net.features(&batch.x, Pass::Eval).unwrap();
            let s = z.matmul(&theta.narrow(0, 0, 3).unwrap()).unwrap();
            let s = s.broadcast_add(&theta.narrow(0, 3, 1).unwrap()).unwrap();
            let off = (s - one_hot(&batch.y, 2, DType::F64).unwrap()).unwrap();
            let off = off.sqr().unwrap().sum(1).unwrap().numbers().unwrap().into_owned();
            let weight = |y: &u32| 60.0 / (2.0 * counts[*y as usize] as f64);
            off.iter().zip(&batch.data.labels().unwrap()).map(|(off, y)| off * weight(y)).sum::<f64>() / 20.0
        };
        // One step of plain descent moves every parameter by minus its gradient.
        let before: Vec<Vec<f64>> =
            net.bottom().iter().map(|(_, v)| v.numbers().unwrap().into_owned()).collect();
        let mut expected = Vec::new();
        for ((_, var), numbers) in net.bottom().iter().zip(&before) {
            for i in 0..numbers.len() {
                let at = |by: f64| {
                    let mut moved = numbers.clone();
                    moved[i] += by;
                    var.set(&Tensor::from_vec(moved, var.shape(), device()).unwrap()).unwrap();
                    value_at()
                };
                expected.push((at(STEP) - at(-STEP)) / (2.0 * STEP));
                at(0.0);
            }
        }
        let set = data.subset(&(0..20).collect::<Vec<_>>()).unwrap();
        let trainer = Trainer::sgd(1.0, 0.0).batch(20).seed(SEED).silent();
        trainer
            .fit(&mut Minimise::new(&net, |b| strangers.step(&Batch { seed: SEED, ..b.clone() })), &set)
            .unwrap();
        let moved: Vec<f64> =
            parameters(&net).iter().zip(before.iter().flatten()).map(|(a, b)| b - a).collect();
        close(&moved, &expected, 1e-7);
    }
}

#[test]
fn disjoint_leaves_out_what_the_heads_have_seen() {
    let (net, data) = (net(3, DType::F32), data(40));
    let whole = FocaTraining::new(&net, &data, Foca { k: 4, ..Foca::default() }).unwrap();
    let disjoint = FocaTraining::new(&net, &data, Foca { disjoint: true, ..whole.foca }).unwrap();
    let drawn = whole.draw(SEED).unwrap();
    let step = |strangers: &FocaTraining, rows: &[usize]| {
        let step = strangers.step(&batch(&data, rows, SEED)).unwrap();
        format!("{step:?}")
    };
    let rest: Vec<usize> = (0..40).filter(|row| !drawn.contains(row)).collect();
    // All rows without those of the heads give the loss of the rest.
    let all: Vec<usize> = rest.iter().chain(&drawn).copied().collect();
    assert_eq!(step(&disjoint, &all), step(&disjoint, &rest));
    assert_ne!(step(&disjoint, &all), step(&whole, &all));
    // Nothing is left: the step moves nothing.
    let before = parameters(&net);
    let only = data.subset(&drawn).unwrap();
    let trainer = Trainer::sgd(1.0, 0.0).batch(drawn.len()).seed(SEED).silent();
    let step = |b: &Batch| disjoint.step(&Batch { seed: SEED, rows: drawn.clone(), ..b.clone() });
    trainer.fit(&mut Minimise::new(&net, step), &only).unwrap();
    assert_eq!(parameters(&net), before);
}

#[test]
fn disjoint_weighs_by_the_shares_of_what_is_left() {
    let all = data(40);
    let y = all.labels().unwrap();
    // Twenty of one class and nine of the other; four of each are drawn.
    let (mut rows, mut rare) = (Vec::new(), 0);
    for (row, class) in y.iter().enumerate() {
        rare += usize::from(*class == 1);
        rows.extend((*class == 0 || rare <= 9).then_some(row));
    }
    let data = all.subset(&rows).unwrap();
    let counts = data.class_counts().unwrap();
    assert!(counts[0] > counts[1], "{counts:?}");
    let net = net(3, DType::F32);
    let foca = Foca { k: 4, disjoint: true, ..Foca::default() };
    let strangers = FocaTraining::new(&net, &data, foca).unwrap();
    let drawn = strangers.draw(SEED).unwrap();
    let rest: Vec<usize> = (0..data.n()).filter(|row| !drawn.contains(row)).collect();
    let found = strangers.step(&batch(&data, &rest, SEED)).unwrap();
    let (theirs, ours) = (data.subset(&drawn).unwrap(), data.subset(&rest).unwrap());
    let x = Tensor::cat(&[&theirs.x, &ours.x], 0).unwrap();
    let z = net.features(&x, batch(&data, &rest, SEED).pass()).unwrap();
    let [of_theirs, of_ours] =
        [(0, drawn.len()), (drawn.len(), rest.len())].map(|(from, n)| z.narrow(0, from, n).unwrap());
    let of = |counts: &[usize]| {
        let their_y = theirs.labels().unwrap();
        let loss = foca.loss(&of_theirs, &their_y, &of_ours, &ours.y, counts).unwrap();
        format!("{:?}", Step::by_group(vec![("bottom", loss)]))
    };
    let left: Vec<usize> = counts.iter().map(|count| count - 4).collect();
    assert_eq!(format!("{found:?}"), of(&left));
    assert_ne!(of(&left), of(&counts));
}

#[test]
fn samples_of_heads_and_batch_share_their_batch_statistics() {
    let plan = extractor(zoo::mlp(&[6, 8]).unwrap(), 3, Layer::RmsNorm, Baseline::BatchNorm).unwrap();
    let net = SplitNet::new(plan, 2, SEED, device()).unwrap();
    let data = data(60);
    let strangers = FocaTraining::new(&net, &data, Foca { k: 4, ..Foca::default() }).unwrap();
    let batch = batch(&data, &(0..20).collect::<Vec<_>>(), SEED);
    strangers.step(&batch).unwrap();
    let copy = SplitNet::new(net.phi.plan().clone(), 2, SEED, device()).unwrap();
    let theirs = data.subset(&strangers.draw(SEED).unwrap()).unwrap();
    copy.features(&Tensor::cat(&[&theirs.x, &batch.x], 0).unwrap(), batch.pass()).unwrap();
    let statistics = |net: &SplitNet| {
        let all = net.phi.statistics().values().map(|v| v.numbers().unwrap().into_owned());
        all.collect::<Vec<_>>()
    };
    assert_eq!(statistics(&net), statistics(&copy));
}

#[test]
fn a_head_is_installed_whole_or_not_at_all() {
    let (net, data) = (net(3, DType::F64), data(100));
    let data = Dataset { x: data.x.to_dtype(DType::F64).unwrap(), ..data };
    let features = Features::of(&net, &data).unwrap();
    let head = WeakFit::RidgeSum(1.0).fit(&features).unwrap().head;
    head.install(&net).unwrap();
    let scores = net.scores_of(&data).unwrap().numbers().unwrap().into_owned();
    close(&scores, &head.scores(&features.z).unwrap(), 1e-12);
    assert_eq!(lastlayer::foca::LinearHead::of(&net).unwrap(), head);
    let wide = lastlayer::foca::LinearHead { w: Array2::zeros((4, 2)), ..head.clone() };
    assert!(message(wide.install(&net)).contains("weights of the network's head"));
    assert_eq!(net.scores_of(&data).unwrap().numbers().unwrap().into_owned(), scores);
    let none = Plan { input: vec![6], layers: vec![], init: Default::default() };
    let deep = SplitNet::with_head(none, zoo::mlp(&[6, 2]).unwrap().layers, SEED, DType::F64, device());
    assert!(message(head.install(&deep.unwrap())).contains("one linear layer with a bias"));
}

// ---- extractors and bad input ------------------------------------------------------------------------------------

#[test]
fn bounds_keep_features_where_they_say() {
    let data = data(50);
    let lengths = |bound: Layer, scale: f64| -> Vec<f64> {
        let plan = extractor(zoo::mlp(&[6, 8]).unwrap(), 4, bound, Baseline::Plain).unwrap();
        let net = SplitNet::new(plan, 2, SEED, device()).unwrap();
        let data = Dataset { x: (data.x.clone() * scale).unwrap(), ..data.clone() };
        let z = Features::of(&net, &data).unwrap().z;
        z.rows().into_iter().map(|z| z.dot(&z).sqrt()).collect()
    };
    const F32: f64 = 1e-6;
    assert!(lengths(Layer::UnitNorm, 1.0).iter().all(|l| (l - 1.0).abs() < F32));
    assert!(lengths(Layer::RmsNorm, 1.0).iter().all(|l| (l - 2.0).abs() < 2.0 * F32));
    let ball = lengths(Layer::Ball { radius: 0.5 }, 3.0);
    assert!(ball.iter().all(|l| *l < 0.5 + F32) && ball.iter().any(|l| *l > 0.5 - F32));
    // Inside the ball nothing changes.
    let small = lengths(Layer::Ball { radius: 100.0 }, 1.0);
    assert!(small.iter().any(|l| (l - small[0]).abs() > 1e-3));
}

#[test]
fn a_ball_has_the_gradient_of_a_projection() {
    let plan = Plan {
        input: vec![3],
        layers: vec![("ball".to_string(), Layer::Ball { radius: 1.2 })],
        init: Default::default(),
    };
    let net = lastlayer::model::Net::new(plan, SEED, DType::F64, device()).unwrap();
    let x = bells(SEED.named("ball"), 8, 3);
    let weights = bells(SEED.named("weights"), 8, 3);
    let f = |x: &Array2<f64>| {
        let y = net.forward(&tensor(x), Pass::Eval).unwrap();
        value(&(y * tensor(&weights)).unwrap().sum_all().unwrap())
    };
    let var = Var::from_tensor(&tensor(&x)).unwrap();
    let y = net.forward(&var, Pass::Eval).unwrap();
    let store = (y * tensor(&weights)).unwrap().sum_all().unwrap().backward().unwrap();
    let inside = x.rows().into_iter().filter(|x| x.dot(x) < 1.44).count();
    assert!(inside > 0 && inside < 8, "some inside, some outside");
    close(&store.get(&var).unwrap().numbers().unwrap().into_owned(), &differences(&x, STEP, f), DIFFERENCES);
}

#[test]
fn baselines_change_training_only() {
    let data = data(30);
    for baseline in [Baseline::Noisy { sd: 0.5 }, Baseline::Dropout { rate: 0.5 }] {
        let features = |baseline: Baseline, pass: Pass| {
            let plan = extractor(zoo::mlp(&[6, 8]).unwrap(), 4, Layer::RmsNorm, baseline).unwrap();
            let net = SplitNet::new(plan, 2, SEED, device()).unwrap();
            net.features(&data.x, pass).unwrap().numbers().unwrap().into_owned()
        };
        let plain = features(Baseline::Plain, Pass::Eval);
        assert_eq!(features(baseline, Pass::Eval), plain);
        assert_ne!(features(baseline, Pass::Train(SEED)), plain);
    }
}

#[test]
fn bad_settings_say_what_is_allowed() {
    let (net, data) = (net(3, DType::F32), data(40));
    let least = *data.class_counts().unwrap().iter().min().unwrap();
    let strangers = |foca: Foca| message(FocaTraining::new(&net, &data, foca));
    assert!(strangers(Foca { k: 0, ..Foca::default() }).contains("at least 1"));
    assert!(strangers(Foca { heads: 0, ..Foca::default() }).contains("at least 1"));
    assert!(strangers(Foca { k: least + 1, ..Foca::default() }).contains("or set replacement"));
    assert!(strangers(Foca { k: least, heads: 2, ..Foca::default() }).contains("or set replacement"));
    assert!(strangers(Foca { k: usize::MAX, heads: 2, ..Foca::default() }).contains("or set replacement"));
    assert!(strangers(Foca { fit: WeakFit::RidgeSum(f64::NAN), ..Foca::default() }).contains("0 or more"));
    assert!(strangers(Foca { fit: WeakFit::SoftmaxSum(0.0), ..Foca::default() }).contains("above 0"));
    let huge = Foca { k: usize::MAX, replacement: true, ..Foca::default() };
    assert!(strangers(huge).contains("fits into memory"));
    let more = Foca { k: least + 1, replacement: true, ..Foca::default() };
    assert_eq!(FocaTraining::new(&net, &data, more).unwrap().draw(SEED).unwrap().len(), 2 * (least + 1));
    // A class without a sample.
    let y = data.labels().unwrap();
    let zeros: Vec<usize> = (0..40).filter(|row| y[*row] == 0).collect();
    let one_class = data.subset(&zeros).unwrap();
    assert!(message(FocaTraining::new(&net, &one_class, Foca::default())).contains("class 1 has no sample"));
    let hidden = || zoo::mlp(&[6, 8]).unwrap();
    assert!(matches!(extractor(hidden(), 0, Layer::RmsNorm, Baseline::Plain), Err(Error::Config { .. })));
    assert!(matches!(extractor(hidden(), 2, Layer::Relu, Baseline::Plain), Err(Error::Config { .. })));
    let ball = extractor(hidden(), 2, Layer::Ball { radius: 0.0 }, Baseline::Plain).unwrap();
    assert!(message(SplitNet::new(ball, 2, SEED, device())).contains("radius"));
}

#[test]
fn bad_features_are_refused_by_the_loss() {
    let foca = Foca { k: 1, ..Foca::default() };
    let (z, y) = (tensor(&bells(SEED, 4, 2)), label_tensor(4));
    let others = tensor(&bells(SEED, 6, 2));
    let say = |others: &Tensor, their_y: &[u32], z: &Tensor, y: &Tensor| {
        message(foca.loss(others, their_y, z, y, &EQUAL))
    };
    let nan = (others.clone() * f64::NAN).unwrap();
    match device().is_cpu() {
        true => assert!(say(&nan, &labels(6), &z, &y).contains("NaN")),
        // There nobody looks at the features: the loss says it.
        false => assert!(value(&foca.loss(&nan, &labels(6), &z, &y, &EQUAL).unwrap()).is_nan()),
    }
    assert!(say(&others, &labels(5), &z, &y).contains("features of weak heads"));
    assert!(say(&others, &[], &z, &y).contains("as many rows"));
    assert!(say(&others, &labels(6), &z, &label_tensor(3)).contains("labels of features"));
    assert!(say(&others, &[7; 6], &z, &y).contains("none of the 3 classes"));
    assert!(
        message(Foca { heads: 4, ..foca }.loss(&others, &labels(6), &z, &y, &EQUAL)).contains("as many rows")
    );
    assert!(
        message(Foca { heads: 0, ..foca }.loss(&others, &labels(6), &z, &y, &EQUAL)).contains("as many rows")
    );
}

/// Rows that repeat each other determine no head without a penalty: an error on the CPU, on a device a loss that is no number.
#[test]
fn heads_that_are_not_determined_are_refused() {
    for (d, weight, determined) in [(9, 0.0, false), (2, 0.0, false), (9, 1e-3, true), (2, 1e-3, true)] {
        let foca = Foca { fit: WeakFit::RidgeSum(weight), ..Foca::default() };
        let (others, z) = (Tensor::ones((6, d), DType::F64, device()).unwrap(), tensor(&bells(SEED, 4, d)));
        match foca.loss(&others, &labels(6), &z, &label_tensor(4), &EQUAL) {
            Ok(loss) => assert_eq!(value(&loss).is_finite(), determined, "{d} {weight}"),
            Err(error) => assert!(device().is_cpu() && !determined, "{d} {weight}: {error}"),
        }
    }
}

/// All features equal, a single feature, and a batch of one class: documented results, no failure.
#[test]
fn odd_features_give_what_is_documented() {
    let foca = Foca { k: 2, ..Foca::default() };
    let equal = Tensor::ones((6, 2), DType::F64, device()).unwrap();
    let single = Tensor::zeros(4, DType::U32, device()).unwrap();
    // The head is the frequencies of the classes, so each sample misses its target by 2/3 and the others by 1/3.
    let found = foca.loss(&equal, &labels(6), &tensor(&bells(SEED, 4, 2)), &single, &EQUAL).unwrap();
    close(&[value(&found)], &[6.0 / 9.0], 1e-12);
    let narrow =
        foca.loss(&tensor(&bells(SEED, 6, 1)), &labels(6), &tensor(&bells(SEED, 4, 1)), &single, &EQUAL);
    assert!(value(&narrow.unwrap()).is_finite());
}

/// Spread over separation, and AUC of a head of all samples, after training on two overlapping classes, one four times as
/// common as the other.
fn lopsided(step: impl Fn(&SplitNet, &Dataset, &Batch) -> lastlayer::error::Result<Step>) -> [f64; 2] {
    let task = Gaussians {
        name: "lopsided".to_string(),
        means: vec![vec![0.0, 0.0], vec![1.5, 0.0]],
        sds: vec![vec![1.0; 2]; 2],
        prevalence: vec![0.8, 0.2],
    };
    let data = task.sample(1000, SEED, device()).unwrap();
    let plan = extractor(zoo::mlp(&[2, 16]).unwrap(), 8, Layer::RmsNorm, Baseline::Plain).unwrap();
    let net = SplitNet::new(plan, 2, SEED, device()).unwrap();
    let trainer = Trainer::adam(1e-2).batch(100).epochs(40).seed(SEED).silent();
    trainer.fit(&mut Minimise::new(&net, |b| step(&net, &data, b)), &data).unwrap();
    let features = Features::of(&net, &data).unwrap();
    let head = WeakFit::RidgeSum(1.0).fit(&features).unwrap().head;
    let scores = Scores::new(head.scores(&features.z).unwrap().column(1).to_vec(), &data.y).unwrap();
    [Spread::of(&features).unwrap().ratio(), scores.auc()]
}

#[test]
fn strangers_keep_unequal_classes_that_overlap_apart() {
    let joint = lopsided(|net, _, b| {
        Ok(Step::new(lastlayer::loss::cross_entropy(&net.forward(&b.x, b.pass())?, &b.y)?))
    });
    for k in [10, 100] {
        let foca = Foca { k, ..Foca::default() };
        for foca in [foca, Foca { natural: true, ..foca }] {
            let [spread, auc] = lopsided(|net, data, b| FocaTraining::new(net, data, foca)?.step(b));
            assert!(spread < joint[0] && auc > joint[1] - 0.01, "{foca:?}: {spread}, {auc}; joint {joint:?}");
        }
        // Batches as they come, for which equal counts stand.
        let [spread, auc] = lopsided(|net, data, b| {
            let theirs = data.subset(&FocaTraining::new(net, data, foca)?.draw(b.seed)?)?;
            let z = net.features(&theirs.x, b.pass())?;
            let loss = foca.loss(&z, &theirs.labels()?, &net.features(&b.x, b.pass())?, &b.y, &[1, 1])?;
            Ok(Step::by_group(vec![("bottom", loss)]))
        });
        assert!(spread > 1.5 * joint[0] && auc < joint[1] - 0.05, "{k}: {spread}, {auc}; joint {joint:?}");
    }
}

#[test]
fn strangers_collapse_two_arcs_further_than_one_head_does() {
    let data = arcs(200, 0.1, SEED, device()).unwrap();
    let ratio = |foca: bool| {
        let bound = Layer::Ball { radius: 3.0 };
        let plan = extractor(zoo::mlp(&[2, 32]).unwrap(), 2, bound, Baseline::Plain).unwrap();
        let net = SplitNet::new(plan, 2, SEED, device()).unwrap();
        let strangers = FocaTraining::new(&net, &data, Foca { k: 1, ..Foca::default() }).unwrap();
        let trainer = Trainer::sgd(0.03, 0.9).batch(50).epochs(500).seed(SEED).silent();
        let run = trainer.fit(
            &mut Minimise::new(&net, |b| {
                if foca {
                    return strangers.step(b);
                }
                let s = net.forward(&b.x, b.pass())?;
                let loss = (lastlayer::loss::squared(&s, &one_hot(&b.y, 2, DType::F32)?)? * 2.0)?;
                Ok(Step::new(loss))
            }),
            &data,
        );
        run.unwrap();
        Spread::of(&Features::of(&net, &data).unwrap()).unwrap().ratio()
    };
    let (joint, foca) = (ratio(false), ratio(true));
    assert!(foca < 0.5 * joint, "{foca} against {joint}");
}
