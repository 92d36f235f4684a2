//! Training: optimisers by hand, schedules, groups, stops, checkpoints that continue to the same bytes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use lastlayer::data::Dataset;
use lastlayer::data::toy::{Gaussians, arcs};
use lastlayer::error::{Error, Result};
use lastlayer::loss::{bce_logits, cross_entropy};
use lastlayer::model::zoo::{conv_net, mlp};
use lastlayer::model::{Layer, Pass, SplitNet};
use lastlayer::prelude::{DType, Device, Tensor, Var};
use lastlayer::rate::{Method, RateProblem, RateTraining, Surrogate, ThresholdPolicy};
use lastlayer::seed::Seed;
use lastlayer::train::{
    Batch, Decay, Group, Optimiser, Parameters, Run, Schedule, Step, Stopped, Trainable, Trainer,
};

const CPU: Device = Device::Cpu;
const SEED: Seed = Seed::new(12);

fn numbers(t: &Tensor) -> Vec<f64> {
    t.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

fn data() -> Dataset {
    arcs(200, 0.1, SEED, &CPU).unwrap()
}

/// A network with everything whose state a checkpoint must keep: batch norm, dropout, noise.
fn net(seed: u64) -> SplitNet {
    let mut plan = mlp(&[2, 16, 8]).unwrap();
    let extra = [
        ("bn", Layer::BatchNorm),
        ("drop", Layer::Dropout { rate: 0.2 }),
        ("noise", Layer::Noise { sd: 0.1 }),
    ];
    plan.layers.extend(extra.map(|(name, layer)| (name.to_string(), layer)));
    SplitNet::new(plan, 2, Seed::new(seed), &CPU).unwrap()
}

fn step(net: &SplitNet) -> impl FnMut(&Batch) -> Result<Step> + Send + 'static {
    let net = net.clone();
    move |b| {
        let loss = cross_entropy(&net.forward(&b.x, b.pass())?, &b.y)?;
        Ok(Step::new(loss).report("size", b.y.elem_count() as f64))
    }
}

fn trainer() -> Trainer {
    Trainer::adam(0.01).epochs(3).batch(32).seed(SEED).silent()
}

fn state(net: &SplitNet) -> Vec<f64> {
    let vars = [&net.phi, &net.head]
        .into_iter()
        .flat_map(|n| n.parameters().values().chain(n.statistics().values()));
    vars.flat_map(|var| numbers(var)).collect()
}

fn config<T: std::fmt::Debug>(result: Result<T>, words: &str) {
    match result {
        Err(error @ Error::Config { .. }) => assert!(error.to_string().contains(words), "{error}"),
        other => panic!("expected a config error with {words:?}, got {other:?}"),
    }
}

fn parameters(groups: Vec<Group>) -> Parameters {
    Parameters { groups, ..Parameters::default() }
}

/// One parameter θ with loss g·θ, whose gradient is g.
fn line(trainer: &Trainer, start: f64, gradients: &'static [f64]) -> Vec<f64> {
    let theta = Var::new(&[start], &CPU).unwrap();
    let group = parameters(vec![Group::new("all", vec![("theta".to_string(), theta.clone())])]);
    let x = Tensor::zeros((gradients.len(), 1), DType::F64, &CPU).unwrap();
    let y = Tensor::zeros(gradients.len(), DType::U32, &CPU).unwrap();
    let data = Dataset::new("line", x, y, ["only"]).unwrap();
    let (mut path, shared) = (Vec::new(), theta.clone());
    trainer
        .clone()
        .batch(1)
        .silent()
        .fit(&group, &data, |b| {
            path.push(numbers(&shared)[0]);
            Ok(Step::new((shared.as_tensor() * gradients[b.step % gradients.len()])?.sum_all()?))
        })
        .unwrap();
    path.push(numbers(&theta)[0]);
    path
}

fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < 1e-12, "{found:?}, expected {expected:?}");
    }
}

#[test]
fn optimisers_take_the_steps_of_their_formulas() {
    close(&line(&Trainer::sgd(0.1, 0.0), 1.0, &[2.0, -1.0]), &[1.0, 0.8, 0.9]);
    // v = 2, then .5·2 − 1 = 0.
    close(&line(&Trainer::sgd(0.1, 0.5), 1.0, &[2.0, -1.0]), &[1.0, 0.8, 0.8]);
    // Nesterov: g + .5 v = 3, then −1 + .5·0 = −1.
    let nesterov =
        Trainer { optimiser: Optimiser::Sgd { momentum: 0.5, nesterov: true }, ..Trainer::sgd(0.1, 0.5) };
    close(&line(&nesterov, 1.0, &[2.0, -1.0]), &[1.0, 0.7, 0.8]);
    // The first step of Adam is the rate, whatever the gradient.
    close(&line(&Trainer::adam(0.1), 1.0, &[5.0]), &[1.0, 1.0 - 0.1 * 5.0 / (5.0 + 1e-8)]);
    // Decay in the gradient: 2 + .5·1; decoupled: 1 − .1·.5 first.
    close(&line(&Trainer::sgd(0.1, 0.0).decay(Decay::Penalty(0.5)), 1.0, &[2.0]), &[1.0, 0.75]);
    close(&line(&Trainer::sgd(0.1, 0.0).decay(Decay::Decoupled(0.5)), 1.0, &[2.0]), &[1.0, 0.75]);
    close(&line(&Trainer::adamw(0.1, 0.5), 1.0, &[5.0]), &[1.0, 0.95 - 0.1 * 5.0 / (5.0 + 1e-8)]);
    let penalised = Trainer::adam(0.1).decay(Decay::Penalty(0.5));
    close(&line(&penalised, 1.0, &[5.0]), &[1.0, 1.0 - 0.1 * 5.5 / (5.5 + 1e-8)]);
    close(&line(&Trainer::sgd(0.1, 0.0).clip(1.0), 1.0, &[2.0, 0.5]), &[1.0, 0.9, 0.85]);
    close(&line(&Trainer::sgd(0.1, 0.0).warmup(2), 1.0, &[1.0, 1.0, 1.0]), &[1.0, 0.95, 0.85, 0.75]);
}

#[test]
fn schedules_pass_through_their_corners() {
    let at = |schedule: Schedule, progress: f64| schedule.factor(progress, 0);
    let cosine = Schedule::Cosine { floor: 0.2 };
    close(&[at(cosine, 0.0), at(cosine, 0.5), at(cosine, 1.0)], &[1.0, 0.6, 0.2]);
    let cycle = Schedule::OneCycle { rise: 0.25, start: 0.1, floor: 0.0 };
    close(&[at(cycle, 0.0), at(cycle, 0.125), at(cycle, 0.25), at(cycle, 1.0)], &[0.1, 0.55, 1.0, 0.0]);
    let linear = Schedule::Linear { from: 0.5, floor: 0.1 };
    close(&[at(linear, 0.4), at(linear, 0.5), at(linear, 0.75), at(linear, 1.0)], &[1.0, 1.0, 0.55, 0.1]);
    let steps = Schedule::Steps { every: 2, factor: 0.5 };
    close(&[0, 1, 2, 4].map(|epoch| steps.factor(0.0, epoch)), &[1.0, 1.0, 0.5, 0.25]);
    close(
        &line(&Trainer::sgd(0.1, 0.0).schedule(Schedule::Linear { from: 0.0, floor: 0.0 }), 1.0, &[1.0, 1.0]),
        &[1.0, 0.9, 0.85],
    );
}

#[test]
fn a_network_learns_and_reports() {
    let (net, data) = (net(1), data());
    let run = trainer().epochs(30).fit(&net, &data, step(&net)).unwrap();
    let losses = run.history.values("loss").unwrap();
    assert!(losses[29] < 0.5 * losses[0], "{losses:?}");
    assert_eq!((run.steps, run.stopped, run.history.epochs.len()), (30 * 7, Stopped::Finished, 30));
    // Six batches of 32 and one of 8.
    let sizes = run.history.values("size").unwrap();
    assert!((sizes[0] - 200.0 / 7.0).abs() < 1e-12);
    assert!(run.history.figure(&["loss"]).unwrap().describe().contains("epoch"));
    config(run.history.values("lost"), "loss, size");
    let s = net.scores_of(&data).unwrap();
    let right = s.argmax(1).unwrap().eq(&data.y).unwrap().to_dtype(DType::F64).unwrap().mean_all().unwrap();
    assert!(numbers(&right)[0] > 0.9);
}

#[test]
fn same_seed_same_bytes_of_history_and_weights() {
    let run = |seed: u64| {
        let net = net(1);
        let run = trainer().seed(Seed::new(seed)).stratified().fit(&net, &data(), step(&net)).unwrap();
        (serde_json::to_string(&run.history).unwrap(), state(&net))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(one.install(|| run(1)), run(1), "with one thread as with several");
}

#[test]
fn each_group_follows_its_own_loss() {
    let (net, data) = (net(2), data());
    let before = (numbers(&net.bottom()[0]), numbers(&net.last()[0]));
    let inner = net.clone();
    let only_last = |b: &Batch| -> Result<Step> {
        let z = inner.features(&b.x, b.pass())?;
        Ok(Step::by_group(vec![("last", cross_entropy(&inner.scores_for_last(&z, b.pass())?, &b.y)?)]))
    };
    let run = trainer().epochs(1).fit(&net, &data, only_last).unwrap();
    assert_eq!(numbers(&net.bottom()[0]), before.0, "the backbone has no loss and stays");
    assert_ne!(numbers(&net.last()[0]), before.1);
    assert!(run.history.values("last loss").is_ok());
    // Both views of one loss move the network as the joint loss does.
    let train = |split: bool| {
        let net = self::net(3);
        let inner = net.clone();
        let step = move |b: &Batch| -> Result<Step> {
            let z = inner.features(&b.x, b.pass())?;
            if !split {
                return Ok(Step::new(cross_entropy(&inner.scores(&z, b.pass())?, &b.y)?));
            }
            let bottom = cross_entropy(&inner.scores_for_bottom(&z, b.pass())?, &b.y)?;
            let last = cross_entropy(&inner.scores_for_last(&z, b.pass())?, &b.y)?;
            Ok(Step::by_group(vec![("bottom", bottom), ("last", last)]))
        };
        trainer().epochs(1).fit(&net, &data, step).unwrap();
        state(&net)
    };
    let (joint, split) = (train(false), train(true));
    let apart = joint.iter().zip(&split).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 1e-5, "{apart}");
    let before = (numbers(&net.bottom()[0]), numbers(&net.last()[0]));
    let still = Parameters::of(&net).rate("last", 0.0).unwrap();
    trainer().epochs(1).fit(&still, &data, step(&net)).unwrap();
    assert_eq!(numbers(&net.last()[0]), before.1, "a rate of zero keeps a group still");
    assert_ne!(numbers(&net.bottom()[0]), before.0);
    let before = numbers(&net.bottom()[0]);
    trainer().epochs(1).fit(&Parameters::of(&net).only("last").unwrap(), &data, step(&net)).unwrap();
    assert_eq!(numbers(&net.bottom()[0]), before, "only the last layer was asked for");
    config(Parameters::of(&net).rate("middle", 0.1), "bottom, last");
    config(
        trainer().fit(&Parameters::of(&net).rate("last", f64::NAN).unwrap(), &data, step(&net)),
        "0 or more",
    );
}

#[test]
fn the_second_drop_ends_a_run_and_the_epoch_before_it_is_kept() {
    let (net, data) = (net(4), data());
    let (mut epoch, mut kept) = (0, Vec::new());
    let inner = net.clone();
    let validate = || {
        epoch += 1;
        if epoch == 4 {
            kept = state(&inner);
        }
        // The first drop is in epoch 3, the second in epoch 5; epoch 2 was better than epoch 4.
        Ok([0.1, 0.9, 0.3, 0.5, 0.4, 0.9, 0.9][epoch - 1])
    };
    let run = trainer().epochs(7).drops(2).fit_validated(&net, &data, step(&net), validate).unwrap();
    assert_eq!(
        (run.stopped, run.best, run.history.epochs.len()),
        (Stopped::NoImprovement, Some((4, 0.5)), 5)
    );
    assert_eq!(state(&net), kept);
    // Without a second drop all epochs are run and the last is kept.
    let run = trainer().epochs(3).drops(2).fit_validated(&net, &data, step(&net), || Ok(0.5)).unwrap();
    assert_eq!((run.stopped, run.best), (Stopped::Finished, Some((3, 0.5))));
    config(trainer().drops(0).fit_validated(&net, &data, step(&net), || Ok(0.0)), "at least 1");
    config(trainer().drops(2).fit(&net, &data, step(&net)), "fit_validated");
    let both = trainer().drops(2).patience(2);
    config(both.fit_validated(&net, &data, step(&net), || Ok(0.0)), "one rule");
}

#[test]
fn the_best_epoch_is_kept_and_patience_ends_a_run() {
    let (net, data) = (net(4), data());
    let mut epoch = 0;
    let mut kept = Vec::new();
    let inner = net.clone();
    let validate = || {
        epoch += 1;
        if epoch == 2 {
            kept = state(&inner);
        }
        Ok([0.1, 0.9, 0.3, 0.9, 0.2, 0.1][epoch - 1])
    };
    let run = trainer().epochs(6).patience(3).fit_validated(&net, &data, step(&net), validate).unwrap();
    assert_eq!(
        (run.stopped, run.best, run.history.epochs.len()),
        (Stopped::NoImprovement, Some((2, 0.9)), 5)
    );
    assert_eq!(state(&net), kept);
    assert_eq!(run.history.values("validation").unwrap()[2], 0.3);
    config(trainer().patience(2).fit(&net, &data, step(&net)), "fit_validated");
    config(trainer().patience(0).fit_validated(&net, &data, step(&net), || Ok(0.0)), "at least 1");
    let nan = trainer().fit_validated(&net, &data, step(&net), || Ok(f64::NAN));
    assert!(matches!(nan, Err(Error::Solve { .. })));
}

#[test]
fn a_run_that_is_cut_short_keeps_its_best_epoch() {
    let (cut, data) = (net(4), data());
    let (ask, asked) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let (inner, mut epoch, best) = (cut.clone(), 0, Arc::new(Mutex::new(Vec::new())));
    let seen = best.clone();
    // The first epoch is the best; while the second is judged, the run is asked to stop.
    let validate = move || {
        epoch += 1;
        if epoch == 1 {
            *seen.lock().unwrap() = state(&inner);
        } else {
            ask.send(()).unwrap();
            released.recv().unwrap();
        }
        Ok(-f64::from(epoch))
    };
    let job = trainer().epochs(9).spawn_validated(&cut, &data, step(&cut), validate).unwrap();
    asked.recv().unwrap();
    job.stop();
    release.send(()).unwrap();
    let run = job.join().unwrap();
    assert_eq!((run.stopped, run.best, run.steps), (Stopped::Asked, Some((1, -1.0)), 14));
    assert_eq!(state(&cut), *best.lock().unwrap());
}

/// A model that counts what it is told, and writes two diaries: one is put back when a step fails.
#[derive(Clone)]
struct Told(SplitNet, Arc<AtomicUsize>, [Var; 2]);

impl Trainable for Told {
    fn groups(&self) -> Vec<Group> {
        self.0.groups()
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        vec![("place".to_string(), self.2[0].clone())]
    }

    fn appended(&self) -> Vec<(String, Var)> {
        vec![("rows".to_string(), self.2[1].clone())]
    }

    fn moved(&self, _: &Batch) -> Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn told() -> Told {
    let diary = || Var::zeros(1, DType::F64, &CPU).unwrap();
    Told(net(4), Arc::default(), [diary(), diary()])
}

#[test]
fn what_is_appended_is_kept_in_a_checkpoint_and_not_copied_before_each_step() {
    let (data, folder) = (data(), tempfile::tempdir().unwrap());
    let run = |told: &Told, stop: usize| {
        trainer().checkpoints(folder.path(), 1).fit(&Parameters::of(told), &data, |b| {
            let written = Tensor::new(&[b.step as f64 + 1.0], &CPU)?;
            told.2.iter().try_for_each(|diary| diary.set(&written))?;
            if b.step == stop {
                return Err(Error::config("step", "killed", "the next run"));
            }
            step(&told.0)(b)
        })
    };
    let first = told();
    assert!(run(&first, 4).is_err());
    // Step 4 wrote a 5 and failed: the statistic is that of step 3 again, what was appended stays and does not count.
    assert_eq!(first.2.each_ref().map(|diary| numbers(diary)[0]), [4.0, 5.0]);
    // A new process finds both in the checkpoint after step 3.
    let second = told();
    assert!(run(&second, 4).is_err());
    let third = told();
    let at_once = trainer().checkpoints(folder.path(), 1).max_seconds(0.0).fit(&third, &data, step(&third.0));
    assert_eq!(at_once.unwrap().steps, 4);
    assert_eq!(third.2.each_ref().map(|diary| numbers(diary)[0]), [4.0, 4.0]);
}

#[test]
fn a_model_whose_parameters_are_regrouped_is_told_of_every_step() {
    let data = data();
    let told = told();
    let slow = Parameters::of(&told).rate("bottom", 0.1).unwrap();
    let run = trainer().fit(&slow, &data, step(&told.0)).unwrap();
    assert_eq!(told.1.load(Ordering::Relaxed), run.steps);
    // A method that works after each step does the same in either dress: tracked thresholds follow the scores.
    let data = Gaussians::a().sample(100, SEED, &CPU).unwrap();
    let train = |regrouped: bool| {
        let net = SplitNet::new(mlp(&[6, 4]).unwrap(), 1, SEED, &CPU).unwrap();
        let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0)).unwrap();
        let training = RateTraining::new(&net, &goal, Method::method1()).unwrap();
        let training = training
            .policy(ThresholdPolicy::TrackAndCorrect { every: 3, batches: 2 })
            .unwrap()
            .corrected_on(&data);
        let trainer = Trainer::adam(0.05).epochs(3).batch(20).seed(SEED).silent();
        let run = match regrouped {
            true => trainer.fit(&Parameters::of(&training), &data, |b| training.step(b)),
            false => trainer.fit(&training, &data, |b| training.step(b)),
        };
        (serde_json::to_string(&run.unwrap().history).unwrap(), state(&net))
    };
    assert_eq!(train(true), train(false));
}

#[test]
fn a_run_continues_from_its_checkpoint_to_the_same_bytes() {
    let data = data();
    let whole = net(5);
    let uninterrupted = trainer().fit_validated(&whole, &data, step(&whole), || Ok(0.5)).unwrap();
    for stop in 1..21 {
        let folder = tempfile::tempdir().unwrap();
        let steps = AtomicUsize::new(0);
        let run = |limit: usize| -> Result<(Run, Vec<f64>)> {
            let net = net(5);
            let mut inner = step(&net);
            let limited = |b: &Batch| {
                if steps.fetch_add(1, Ordering::Relaxed) == limit {
                    return Err(Error::config("step", "killed", "the next run"));
                }
                inner(b)
            };
            let run =
                trainer().checkpoints(folder.path(), 2).fit_validated(&net, &data, limited, || Ok(0.5))?;
            Ok((run, state(&net)))
        };
        assert!(run(stop).is_err());
        let (resumed, weights) = run(usize::MAX).unwrap();
        assert_eq!(weights, state(&whole), "killed at step {stop}");
        assert_eq!(
            serde_json::to_string(&resumed.history).unwrap(),
            serde_json::to_string(&uninterrupted.history).unwrap()
        );
        assert_eq!(resumed.best, uninterrupted.best);
        // Steps are done again only since the last checkpoint.
        let taken = steps.load(Ordering::Relaxed);
        assert!(taken <= 21 + 1 + 2, "{taken} steps for 21");
    }
}

#[test]
fn a_run_out_of_time_continues() {
    let (data, folder) = (data(), tempfile::tempdir().unwrap());
    let whole = net(6);
    trainer().fit(&whole, &data, step(&whole)).unwrap();
    let net = net(6);
    let first =
        trainer().checkpoints(folder.path(), 0).max_seconds(0.0).fit(&net, &data, step(&net)).unwrap();
    assert_eq!((first.stopped, first.steps), (Stopped::OutOfTime, 0));
    let second = trainer().checkpoints(folder.path(), 0).fit(&net, &data, step(&net)).unwrap();
    assert_eq!(second.stopped, Stopped::Finished);
    assert_eq!(state(&net), state(&whole));
    // A finished run is not run again.
    let mut called = false;
    let again = trainer().checkpoints(folder.path(), 0).fit(&net, &data, |b| {
        called = true;
        step(&net)(b)
    });
    assert_eq!(again.unwrap().steps, second.steps);
    assert!(!called);
}

#[test]
fn checkpoints_of_other_runs_and_damaged_ones_are_refused() {
    let (data, folder) = (data(), tempfile::tempdir().unwrap());
    let first = net(7);
    trainer().checkpoints(folder.path(), 0).fit(&first, &data, step(&first)).unwrap();
    let refused = |result: Result<Run>, words: &str| match result {
        Err(error @ Error::Data { .. }) => assert!(error.to_string().contains(words), "{error}"),
        other => panic!("expected a data error with {words:?}, got {other:?}"),
    };
    let wider = SplitNet::new(mlp(&[2, 17, 8]).unwrap(), 2, SEED, &CPU).unwrap();
    let before = state(&wider);
    refused(trainer().checkpoints(folder.path(), 0).fit(&wider, &data, step(&wider)), "another run");
    assert_eq!(state(&wider), before, "a refused checkpoint changes nothing");
    refused(
        trainer().epochs(4).checkpoints(folder.path(), 0).fit(&first, &data, step(&first)),
        "another run",
    );
    let fewer = data.subset(&(0..100).collect::<Vec<_>>()).unwrap();
    refused(trainer().checkpoints(folder.path(), 0).fit(&first, &fewer, step(&first)), "another run");
    let path = folder.path().join("checkpoint.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    refused(trainer().checkpoints(folder.path(), 0).fit(&first, &data, step(&first)), "damaged");
    first.save(&path).unwrap();
    refused(trainer().checkpoints(folder.path(), 0).fit(&first, &data, step(&first)), "no checkpoint");
}

#[test]
fn a_loss_or_gradient_that_is_not_finite_names_the_step_and_spares_the_parameters() {
    let data = data();
    // Nine steps, and no more.
    let nine = net(8);
    let stop =
        |b: &Batch| if b.step < 9 { step(&nine)(b) } else { Err(Error::config("step", "tenth", "nine")) };
    config(trainer().fit(&nine, &data, stop), "nine");
    for kind in 0..4 {
        let net = net(8);
        let result = trainer().fit(&net, &data, |b| {
            let loss = cross_entropy(&net.forward(&b.x, b.pass())?, &b.y)?;
            Ok(match kind {
                _ if b.step < 9 => Step::new(loss),
                0 => Step::new((loss * f64::NAN)?),
                1 => Step::new((loss * f64::INFINITY)?),
                // √0 has no derivative: the value is finite, the gradient is not.
                2 => Step::new((&loss + (&loss - &loss)?.sqrt()?)?),
                _ => Step::new(loss).report("metric", f64::NAN),
            })
        });
        match result {
            Err(error @ Error::Solve { .. }) => assert!(error.to_string().contains("step 10"), "{error}"),
            other => panic!("{kind}: {other:?}"),
        }
        assert_eq!(state(&net), state(&nine), "{kind}: parameters or statistics moved");
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let (net, data) = (net(9), data());
    let fit = |trainer: Trainer| trainer.silent().fit(&net, &data, step(&net));
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        config(fit(Trainer::adam(rate)), "learning rate");
    }
    config(fit(trainer().epochs(0)), "at least 1");
    config(fit(trainer().batch(0)), "at least 1");
    config(fit(trainer().batch(201)), "1 to 200");
    config(fit(trainer().clip(0.0)), "positive length");
    config(fit(trainer().max_seconds(f64::NAN)), "max_seconds");
    config(fit(Trainer::sgd(0.1, 1.0)), "momentum");
    config(
        fit(Trainer { optimiser: Optimiser::Sgd { momentum: 0.0, nesterov: true }, ..trainer() }),
        "Nesterov",
    );
    config(
        fit(Trainer { optimiser: Optimiser::Adam { beta1: 0.9, beta2: 1.0, epsilon: 1e-8 }, ..trainer() }),
        "beta2",
    );
    config(fit(trainer().decay(Decay::Penalty(-1.0))), "weight decay");
    config(fit(trainer().schedule(Schedule::Steps { every: 0, factor: 0.5 })), "at least 1");
    config(fit(trainer().schedule(Schedule::OneCycle { rise: 1.0, start: 0.1, floor: 0.0 })), "rise");
    config(fit(trainer().schedule(Schedule::Cosine { floor: f64::NAN })), "floor");
    let empty = parameters(vec![Group::new("empty", vec![])]);
    config(trainer().fit(&empty, &data, step(&net)), "leave the group out");
    config(trainer().fit(&parameters(vec![]), &data, step(&net)), "at least one");
    let var = net.last()[0].clone();
    let twice = parameters(vec![Group::new("g", vec![("w".into(), var.clone()), ("w".into(), var)])]);
    config(trainer().fit(&twice, &data, step(&net)), "differ");
    let inner = net.clone();
    config(
        trainer().fit(&net, &data, |b| {
            Ok(Step::new(cross_entropy(&inner.forward(&b.x, b.pass())?, &b.y)?.detach()))
        }),
        "detached",
    );
    let unnamed = trainer().fit(&net, &data, |b| {
        Ok(Step::by_group(vec![("middle", cross_entropy(&inner.forward(&b.x, b.pass())?, &b.y)?)]))
    });
    config(unnamed, "middle");
    let vector = trainer().fit(&net, &data, |b| Ok(Step::new(inner.forward(&b.x, b.pass())?)));
    assert!(matches!(vector, Err(Error::Shape { .. })));
    let own = trainer().fit(&net, &data, |_| Err(Error::config("mine", "bad", "good")));
    config(own, "mine");
    let images = Dataset::new(
        "one",
        Tensor::zeros((1, 3, 8, 8), DType::F32, &CPU).unwrap(),
        Tensor::new(&[0u32], &CPU).unwrap(),
        ["a"],
    )
    .unwrap();
    let convolutional = SplitNet::new(conv_net(&[3, 8, 8], &[2, 2, 2]).unwrap(), 1, SEED, &CPU).unwrap();
    let alone = trainer().batch(1).fit(&convolutional, &images, |b| {
        let s = convolutional.forward(&b.x, b.pass())?;
        Ok(Step::new(bce_logits(&s, &b.y)?))
    });
    assert!(alone.is_ok(), "an image has many pixels to normalise over: {alone:?}");
    let one = data.subset(&[0]).unwrap();
    let single = trainer().batch(1).fit(&net, &one, step(&net));
    assert!(matches!(single, Err(Error::Shape { .. })), "a batch of one with batch norm: {single:?}");
}

#[test]
fn a_job_runs_beside_and_can_be_stopped_and_joined() {
    let (data, folder) = (data(), tempfile::tempdir().unwrap());
    let whole = net(10);
    trainer().fit(&whole, &data, step(&whole)).unwrap();
    let net = net(10);
    let (ask, asked) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let waiting = {
        let mut inner = step(&net);
        move |b: &Batch| {
            if b.step == 3 {
                ask.send(()).unwrap();
                released.recv().unwrap();
            }
            inner(b)
        }
    };
    let job = trainer().checkpoints(folder.path(), 1).spawn(&net, &data, waiting).unwrap();
    asked.recv().unwrap();
    assert!(job.poll().0 == 3 && !job.ended());
    job.stop();
    release.send(()).unwrap();
    let stopped = job.join().unwrap();
    assert_eq!((stopped.stopped, stopped.steps), (Stopped::Asked, 4));
    config(job.join(), "one call of join");
    let rest = trainer().checkpoints(folder.path(), 1).spawn(&net, &data, step(&net)).unwrap();
    assert_eq!(rest.join().unwrap().stopped, Stopped::Finished);
    assert!(rest.ended());
    assert_eq!(state(&net), state(&whole));
    config(Trainer::adam(0.0).spawn(&net, &data, step(&net)).map(|_| ()), "learning rate");
    // A job that nobody holds any more ends.
    let alive = std::sync::Arc::new(());
    let inside = alive.clone();
    let mut inner = step(&net);
    drop(trainer().epochs(100_000).spawn(&net, &data, move |b| {
        let _ = &inside;
        inner(b)
    }));
    while std::sync::Arc::strong_count(&alive) > 1 {
        std::thread::yield_now();
    }
    let failing = trainer().spawn(&net, &data, |_| Err(Error::config("mine", "bad", "good"))).unwrap();
    config(failing.join(), "mine");
}

#[test]
fn batches_know_where_they_stand() {
    let data = Gaussians::a().sample(100, SEED, &CPU).unwrap();
    let net = SplitNet::new(mlp(&[6, 4]).unwrap(), 1, SEED, &CPU).unwrap();
    let mut seen = Vec::new();
    trainer()
        .batch(40)
        .epochs(2)
        .fit(&net, &data, |b| {
            seen.push((b.step, b.epoch, b.progress));
            assert!(b.attributes().is_err() && matches!(b.pass(), Pass::Train(_)));
            Ok(Step::new(bce_logits(&net.forward(&b.x, b.pass())?, &b.y)?))
        })
        .unwrap();
    assert_eq!(
        seen,
        [
            (0, 0, 0.0),
            (1, 0, 1.0 / 6.0),
            (2, 0, 2.0 / 6.0),
            (3, 1, 0.5),
            (4, 1, 4.0 / 6.0),
            (5, 1, 5.0 / 6.0)
        ]
    );
}

#[test]
fn a_validated_job_keeps_its_best_epoch() {
    let data = data();
    let [beside, here] = [net(10), net(10)];
    let values = |step: usize| [0.1, 0.9, 0.5][step % 3];
    let count = || {
        let mut calls = 0;
        move || {
            calls += 1;
            Ok(values(calls - 1))
        }
    };
    let trainer = Trainer::adam(0.01).epochs(3).batch(50).silent();
    let expected = trainer.fit_validated(&here, &data, step(&here), count()).unwrap();
    let job = trainer.spawn_validated(&beside, &data, step(&beside), count()).unwrap();
    assert_eq!(job.join().unwrap().best, expected.best);
    assert_eq!(expected.best, Some((2, 0.9)));
    assert_eq!(state(&beside), state(&here));
}

#[test]
fn a_skipped_step_moves_nothing_and_is_reported() {
    let data = data();
    let net = net(3);
    let before = state(&net);
    let run = Trainer::adam(0.01)
        .batch(50)
        .silent()
        .decay(Decay::Decoupled(0.1))
        .fit(&net, &data, |_| Ok(Step::skip().report("skipped", 1.0)))
        .unwrap();
    assert_eq!(state(&net), before);
    assert_eq!(run.history.values("skipped").unwrap(), [1.0]);
}

#[test]
fn several_losses_add_up() {
    let data = data();
    let [one, two] = [net(3), net(3)];
    let trainer = Trainer::sgd(0.1, 0.0).batch(50).silent();
    let loss = |net: &SplitNet, b: &Batch| cross_entropy(&net.forward(&b.x, b.pass())?, &b.y);
    // Twice a gradient is the gradient added to itself to the last bit, also in single precision.
    trainer.fit(&one, &data, |b| Ok(Step::new((loss(&one, b)? * 2.0)?))).unwrap();
    trainer
        .fit(&two, &data, |b| {
            let loss = loss(&two, b)?;
            Ok(Step::sum(vec![loss.clone(), loss]))
        })
        .unwrap();
    close(&state(&one), &state(&two));
}

#[test]
fn what_a_killed_run_left_half_written_is_cleared_away() {
    let (data, folder) = (data(), tempfile::tempdir().unwrap());
    let left = folder.path().join(".checkpoint.safetensors.123-4.tmp");
    let other = folder.path().join(".notes.tmp");
    std::fs::write(&left, "half").unwrap();
    std::fs::write(&other, "mine").unwrap();
    let net = net(3);
    Trainer::adam(0.01)
        .batch(50)
        .silent()
        .checkpoints(folder.path(), 0)
        .fit(&net, &data, step(&net))
        .unwrap();
    assert!(!left.exists() && other.exists());
}
