//! Training: optimisers by hand, schedules, groups, stops, checkpoints that continue to the same bytes.

mod device;

use device::device;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use lastlayer::data::Dataset;
use lastlayer::data::toy::{Gaussians, arcs};
use lastlayer::error::{Error, Result};
use lastlayer::loss::{bce_logits, cross_entropy};
use lastlayer::model::zoo::{conv_net, mlp};
use lastlayer::model::{Layer, Pass, Split, SplitNet};
use lastlayer::prelude::{DType, Device, Tensor, Var};
use lastlayer::rate::{RateProblem, RateTraining, Surrogate, ThresholdPolicy};
use lastlayer::seed::Seed;
use lastlayer::tensor_file::TensorFile;
use lastlayer::train::{
    Batch, Decay, Group, Method, Minimise, Optimiser, Run, Schedule, State, Step, Stopped, Trainer,
};

const SEED: Seed = Seed::new(12);

fn numbers(t: &Tensor) -> Vec<f64> {
    t.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

fn data() -> Dataset {
    arcs(200, 0.1, SEED, device()).unwrap()
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
    SplitNet::new(plan, 2, Seed::new(seed), device()).unwrap()
}

fn step(net: &SplitNet) -> impl Fn(&Batch) -> Result<Step> + Send + 'static {
    let net = net.clone();
    move |b| {
        let loss = cross_entropy(&net.forward(&b.x, b.pass())?, &b.y)?;
        Ok(Step::new(loss).report("size", b.y.elem_count() as f64))
    }
}

fn plain(net: &SplitNet) -> Minimise<impl Fn(&Batch) -> Result<Step> + Send + 'static> {
    Minimise::new(net, step(net))
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

/// One parameter θ with loss g·θ, whose gradient is g.
fn line(trainer: &Trainer, start: f64, gradients: &'static [f64]) -> Vec<f64> {
    let theta = Var::new(&[start], device()).unwrap();
    let group = Group::new("all", vec![("theta".to_string(), theta.clone())]);
    let x = Tensor::zeros((gradients.len(), 1), DType::F64, device()).unwrap();
    let y = Tensor::zeros(gradients.len(), DType::U32, device()).unwrap();
    let data = Dataset::new("line", x, y, ["only"]).unwrap();
    let path = RefCell::new(Vec::new());
    let mut line = Minimise::over(vec![group], |b| {
        path.borrow_mut().push(numbers(&theta)[0]);
        Ok((theta.as_tensor() * gradients[b.step % gradients.len()])?.sum_all()?)
    });
    trainer.clone().batch(1).silent().fit(&mut line, &data).unwrap();
    let mut path = path.take();
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
    let run = trainer().epochs(30).fit(&mut plain(&net), &data).unwrap();
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
        let run = trainer().seed(Seed::new(seed)).stratified().fit(&mut plain(&net), &data()).unwrap();
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
    let before = (numbers(&net.bottom()[0].1), numbers(&net.last()[0].1));
    let inner = net.clone();
    let only_last = |b: &Batch| -> Result<Step> {
        let z = inner.features(&b.x, b.pass())?;
        Ok(Step::by_group(vec![("last", cross_entropy(&inner.scores(&z.detach(), b.pass())?, &b.y)?)]))
    };
    let run = trainer().epochs(1).fit(&mut Minimise::new(&net, only_last), &data).unwrap();
    assert_eq!(numbers(&net.bottom()[0].1), before.0, "the backbone has no loss and stays");
    assert_ne!(numbers(&net.last()[0].1), before.1);
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
            let bottom = cross_entropy(&inner.scores(&z, b.pass())?, &b.y)?;
            let last = cross_entropy(&inner.scores(&z.detach(), b.pass())?, &b.y)?;
            Ok(Step::by_group(vec![("bottom", bottom), ("last", last)]))
        };
        trainer().epochs(1).fit(&mut Minimise::new(&net, step), &data).unwrap();
        state(&net)
    };
    let (joint, split) = (train(false), train(true));
    let apart = joint.iter().zip(&split).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 1e-5, "{apart}");
    let before = (numbers(&net.bottom()[0].1), numbers(&net.last()[0].1));
    trainer().epochs(1).lr_of("last", 0.0).fit(&mut plain(&net), &data).unwrap();
    assert_eq!(numbers(&net.last()[0].1), before.1, "a rate of zero keeps a group still");
    assert_ne!(numbers(&net.bottom()[0].1), before.0);
    let before = numbers(&net.bottom()[0].1);
    trainer().epochs(1).only("last").fit(&mut plain(&net), &data).unwrap();
    assert_eq!(numbers(&net.bottom()[0].1), before, "only the last layer was asked for");
    config(trainer().lr_of("middle", 0.1).fit(&mut plain(&net), &data), "bottom, last");
    config(trainer().without_decay("middle").fit(&mut plain(&net), &data), "bottom, last");
    config(trainer().lr_of("last", f64::NAN).fit(&mut plain(&net), &data), "0 or more");
}

/// A loss for either side of the line moves the network as the joint loss does.
#[test]
fn each_side_follows_its_own_loss() {
    let data = data();
    let train = |sides: bool| {
        let net = self::net(3);
        let loss = |z: &Tensor, b: &Batch| cross_entropy(&net.scores(z, b.pass())?, &b.y);
        let mut method = Minimise::new(&net, |b| {
            let z = net.features(&b.x, b.pass())?;
            if !sides {
                return Ok(Step::new(loss(&z, b)?));
            }
            Step::sides(loss(&z, b)?, loss(&z.detach(), b)?)
        });
        trainer().epochs(1).batch(200).fit(&mut method, &data).unwrap();
        state(&net)
    };
    let apart = train(true).iter().zip(train(false)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 1e-5, "{apart}");
}

#[test]
fn the_second_drop_ends_a_run_and_the_epoch_before_it_is_kept() {
    let (net, data) = (net(4), data());
    let (mut epoch, mut kept) = (0, Vec::new());
    let inner = net.clone();
    let mut validate = || {
        epoch += 1;
        if epoch == 4 {
            kept = state(&inner);
        }
        // The first drop is in epoch 3, the second in epoch 5; epoch 2 was better than epoch 4.
        Ok([0.1, 0.9, 0.3, 0.5, 0.4, 0.9, 0.9][epoch - 1])
    };
    let run = trainer().epochs(7).drops(2).fit_validated(&mut plain(&net), &data, |_| validate()).unwrap();
    assert_eq!(
        (run.stopped, run.best, run.history.epochs.len()),
        (Stopped::NoImprovement, Some((4, 0.5)), 5)
    );
    assert_eq!(state(&net), kept);
    // Without a second drop all epochs are run and the last is kept.
    let run = trainer().epochs(3).drops(2).fit_validated(&mut plain(&net), &data, |_| Ok(0.5)).unwrap();
    assert_eq!((run.stopped, run.best), (Stopped::Finished, Some((3, 0.5))));
    config(trainer().drops(0).fit_validated(&mut plain(&net), &data, |_| Ok(0.0)), "at least 1");
    config(trainer().drops(2).fit(&mut plain(&net), &data), "fit_validated");
    let both = trainer().drops(2).patience(2);
    config(both.fit_validated(&mut plain(&net), &data, |_| Ok(0.0)), "one rule");
}

#[test]
fn the_best_epoch_is_kept_and_patience_ends_a_run() {
    let (net, data) = (net(4), data());
    let mut epoch = 0;
    let mut kept = Vec::new();
    let inner = net.clone();
    let mut validate = || {
        epoch += 1;
        if epoch == 2 {
            kept = state(&inner);
        }
        Ok([0.1, 0.9, 0.3, 0.9, 0.2, 0.1][epoch - 1])
    };
    let run = trainer().epochs(6).patience(3).fit_validated(&mut plain(&net), &data, |_| validate()).unwrap();
    assert_eq!(
        (run.stopped, run.best, run.history.epochs.len()),
        (Stopped::NoImprovement, Some((2, 0.9)), 5)
    );
    assert_eq!(state(&net), kept);
    assert_eq!(run.history.values("validation").unwrap()[2], 0.3);
    config(trainer().patience(2).fit(&mut plain(&net), &data), "fit_validated");
    config(trainer().patience(0).fit_validated(&mut plain(&net), &data, |_| Ok(0.0)), "at least 1");
    let nan = trainer().fit_validated(&mut plain(&net), &data, |_| Ok(f64::NAN));
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
    let mut validate = move || {
        epoch += 1;
        if epoch == 1 {
            *seen.lock().unwrap() = state(&inner);
        } else {
            ask.send(()).unwrap();
            released.recv().unwrap();
        }
        Ok(-f64::from(epoch))
    };
    let job = trainer().epochs(9).spawn_validated(plain(&cut), &data, move |_| validate()).unwrap();
    asked.recv().unwrap();
    job.stop();
    release.send(()).unwrap();
    let run = job.join().unwrap();
    assert_eq!((run.stopped, run.best, run.steps), (Stopped::Asked, Some((1, -1.0)), 14));
    assert_eq!(state(&cut), *best.lock().unwrap());
}

/// A method that counts its steps in its state, and leaves a trace in a statistic, which is put back when a step fails.
struct Told {
    net: SplitNet,
    steps: u64,
    trace: Var,
    fails_at: usize,
}

impl Method for Told {
    fn groups(&self) -> Vec<Group> {
        self.net.groups()
    }

    fn step(&self, b: &Batch) -> Result<Step> {
        self.trace.set(&Tensor::new(&[b.step as f64 + 1.0], device())?)?;
        if b.step == self.fails_at {
            return Err(Error::config("step", "killed", "the next run"));
        }
        Ok(step(&self.net)(b)?.carry(b.step as u64 + 1))
    }

    fn after(&mut self, _: &Batch, step: &Step) -> Result<()> {
        self.steps = *step.carried().expect("the number of the step");
        Ok(())
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        vec![("trace".to_string(), self.trace.clone())]
    }

    fn state(&self) -> Result<State> {
        Ok(State { notes: self.steps.into(), ..State::default() })
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.steps = state.notes.as_u64().expect("a number");
        Ok(())
    }
}

fn told(fails_at: usize) -> Told {
    Told { net: net(4), steps: 0, trace: Var::zeros(1, DType::F64, device()).unwrap(), fails_at }
}

#[test]
fn the_state_of_a_method_is_that_of_its_last_step() {
    let (data, folder) = (data(), tempfile::tempdir().unwrap());
    let trainer = || trainer().checkpoints(folder.path(), 1);
    let mut first = told(4);
    assert!(trainer().fit(&mut first, &data).is_err());
    // Step 4 left a 5 and failed: the statistic is that of step 3 again, and nothing was learnt of it.
    assert_eq!((numbers(&first.trace)[0], first.steps), (4.0, 4));
    // A new process finds both in the checkpoint after step 3.
    let mut second = told(usize::MAX);
    assert_eq!(trainer().max_seconds(0.0).fit(&mut second, &data).unwrap().steps, 4);
    assert_eq!((numbers(&second.trace)[0], second.steps), (4.0, 4));
    // With a validation, the state of the best epoch is the one that is kept.
    let mut third = told(usize::MAX);
    let mut values = [0.1, 0.9, 0.2].into_iter();
    let trainer = self::trainer().epochs(3);
    trainer
        .fit_validated(&mut third, &data, |method| Ok(values.next().unwrap() + 0.0 * method.steps as f64))
        .unwrap();
    assert_eq!(third.steps, 14);
}

#[test]
fn a_checkpoint_of_another_version_is_refused() {
    let (data, folder) = (data(), tempfile::tempdir().unwrap());
    let net = net(4);
    trainer().checkpoints(folder.path(), 0).fit(&mut plain(&net), &data).unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let mut file = TensorFile::read(&path, device()).unwrap();
    // The first version had no number.
    file.notes.as_object_mut().unwrap().remove("version");
    file.write(&path).unwrap();
    match trainer().checkpoints(folder.path(), 0).fit(&mut plain(&net), &data) {
        Err(error @ Error::Data { .. }) => assert!(error.to_string().contains("another version"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_method_whose_groups_are_changed_learns_of_every_step() {
    let data = data();
    let mut told = told(usize::MAX);
    let run = trainer().lr_of("bottom", 0.1).fit(&mut told, &data).unwrap();
    assert_eq!(told.steps, run.steps as u64);
    // A method that works after each step does the same in either dress: tracked thresholds follow the scores.
    let data = Gaussians::a().sample(100, SEED, device()).unwrap();
    let train = |regrouped: bool| {
        let net = SplitNet::new(mlp(&[6, 4]).unwrap(), 1, SEED, device()).unwrap();
        let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0)).unwrap();
        let training = RateTraining::method1(&net, &goal).unwrap();
        let mut training = training
            .policy(ThresholdPolicy::TrackAndCorrect { every: 3, batches: 2 })
            .unwrap()
            .corrected_on(&data);
        let mut trainer = Trainer::adam(0.05).epochs(3).batch(20).seed(SEED).silent();
        if regrouped {
            trainer = trainer.lr_of("bottom", 1.0);
        }
        let run = trainer.fit(&mut training, &data);
        (serde_json::to_string(&run.unwrap().history).unwrap(), state(&net))
    };
    assert_eq!(train(true), train(false));
}

#[test]
fn a_run_continues_from_its_checkpoint_to_the_same_bytes() {
    let data = data();
    let whole = net(5);
    let uninterrupted = trainer().fit_validated(&mut plain(&whole), &data, |_| Ok(0.5)).unwrap();
    for stop in 1..21 {
        let folder = tempfile::tempdir().unwrap();
        let steps = AtomicUsize::new(0);
        let run = |limit: usize| -> Result<(Run, Vec<f64>)> {
            let net = net(5);
            let inner = step(&net);
            let limited = |b: &Batch| {
                if steps.fetch_add(1, Ordering::Relaxed) == limit {
                    return Err(Error::config("step", "killed", "the next run"));
                }
                inner(b)
            };
            let run = trainer().checkpoints(folder.path(), 2).fit_validated(
                &mut Minimise::new(&net, limited),
                &data,
                |_| Ok(0.5),
            )?;
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
    trainer().fit(&mut plain(&whole), &data).unwrap();
    let net = net(6);
    let first =
        trainer().checkpoints(folder.path(), 0).max_seconds(0.0).fit(&mut plain(&net), &data).unwrap();
    assert_eq!((first.stopped, first.steps), (Stopped::OutOfTime, 0));
    let second = trainer().checkpoints(folder.path(), 0).fit(&mut plain(&net), &data).unwrap();
    assert_eq!(second.stopped, Stopped::Finished);
    assert_eq!(state(&net), state(&whole));
    // A finished run is not run again.
    let again = trainer()
        .checkpoints(folder.path(), 0)
        .fit(&mut Minimise::new(&net, |_| Err::<Step, _>(Error::config("step", "called", "none"))), &data);
    assert_eq!(again.unwrap().steps, second.steps);
}

#[test]
fn checkpoints_of_other_runs_and_damaged_ones_are_refused() {
    let (data, folder) = (data(), tempfile::tempdir().unwrap());
    let first = net(7);
    trainer().checkpoints(folder.path(), 0).fit(&mut plain(&first), &data).unwrap();
    let refused = |result: Result<Run>, words: &str| match result {
        Err(error @ Error::Data { .. }) => assert!(error.to_string().contains(words), "{error}"),
        other => panic!("expected a data error with {words:?}, got {other:?}"),
    };
    let wider = SplitNet::new(mlp(&[2, 17, 8]).unwrap(), 2, SEED, device()).unwrap();
    let before = state(&wider);
    refused(trainer().checkpoints(folder.path(), 0).fit(&mut plain(&wider), &data), "another run");
    assert_eq!(state(&wider), before, "a refused checkpoint changes nothing");
    refused(trainer().epochs(4).checkpoints(folder.path(), 0).fit(&mut plain(&first), &data), "another run");
    let fewer = data.subset(&(0..100).collect::<Vec<_>>()).unwrap();
    refused(trainer().checkpoints(folder.path(), 0).fit(&mut plain(&first), &fewer), "another run");
    let path = folder.path().join("checkpoint.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    refused(trainer().checkpoints(folder.path(), 0).fit(&mut plain(&first), &data), "damaged");
    first.save(&path).unwrap();
    refused(trainer().checkpoints(folder.path(), 0).fit(&mut plain(&first), &data), "no checkpoint");
}

#[test]
fn a_loss_or_gradient_that_is_not_finite_names_the_step_and_spares_the_parameters() {
    let data = data();
    // Nine steps, and no more.
    let nine = net(8);
    let stop =
        |b: &Batch| if b.step < 9 { step(&nine)(b) } else { Err(Error::config("step", "tenth", "nine")) };
    config(trainer().fit(&mut Minimise::new(&nine, stop), &data), "nine");
    for kind in 0..4 {
        let net = net(8);
        let result = trainer().fit(
            &mut Minimise::new(&net, |b| {
                let loss = cross_entropy(&net.forward(&b.x, b.pass())?, &b.y)?;
                Ok(match kind {
                    _ if b.step < 9 => Step::new(loss),
                    0 => Step::new((loss * f64::NAN)?),
                    1 => Step::new((loss * f64::INFINITY)?),
                    // √0 has no derivative: the value is finite, the gradient is not.
                    2 => Step::new((&loss + (&loss - &loss)?.sqrt()?)?),
                    _ => Step::new(loss).report("metric", f64::NAN),
                })
            }),
            &data,
        );
        match result {
            Err(error @ Error::Solve { .. }) => assert!(error.to_string().contains("step 10"), "{error}"),
            other => panic!("{kind}: {other:?}"),
        }
        assert_eq!(state(&net), state(&nine), "{kind}: parameters or statistics moved");
    }
}

#[test]
fn a_loss_may_be_computed_elsewhere_than_the_network() {
    let data = data();
    let trained = |elsewhere: bool| {
        let net = net(8);
        let step = |b: &Batch| {
            let s = net.forward(&b.x, b.pass())?;
            let device = if elsewhere { &Device::Cpu } else { s.device() };
            Ok(Step::new(cross_entropy(&s.to_device(device)?, &b.y.to_device(device)?)?))
        };
        trainer().epochs(1).fit(&mut Minimise::new(&net, step), &data).unwrap();
        state(&net)
    };
    let (here, there) = (trained(false), trained(true));
    assert_eq!(here.len(), there.len());
    assert!(here.iter().zip(&there).all(|(a, b)| (a - b).abs() < 1e-4));
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let (net, data) = (net(9), data());
    let fit = |trainer: Trainer| trainer.silent().fit(&mut plain(&net), &data);
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
    let over = |groups: Vec<Group>| Minimise::over(groups, step(&net));
    let empty = vec![Group::new("empty", vec![])];
    config(trainer().fit(&mut over(empty), &data), "leave the group out");
    config(trainer().fit(&mut over(vec![]), &data), "at least one");
    let var = net.last()[0].1.clone();
    let twice = vec![Group::new("g", vec![("w".into(), var.clone()), ("w".into(), var)])];
    config(trainer().fit(&mut over(twice), &data), "differ");
    let mut statistics = plain(&net);
    statistics.statistics.push(statistics.statistics[0].clone());
    config(trainer().fit(&mut statistics, &data), "differ");
    let inner = net.clone();
    config(
        trainer().fit(
            &mut Minimise::new(&net, |b| {
                Ok(Step::new(cross_entropy(&inner.forward(&b.x, b.pass())?, &b.y)?.detach()))
            }),
            &data,
        ),
        "detached",
    );
    let unnamed = trainer().fit(
        &mut Minimise::new(&net, |b| {
            Ok(Step::by_group(vec![("middle", cross_entropy(&inner.forward(&b.x, b.pass())?, &b.y)?)]))
        }),
        &data,
    );
    config(unnamed, "middle");
    let vector =
        trainer().fit(&mut Minimise::new(&net, |b| Ok(Step::new(inner.forward(&b.x, b.pass())?))), &data);
    assert!(matches!(vector, Err(Error::Shape { .. })));
    let own = trainer()
        .fit(&mut Minimise::new(&net, |_| Err::<Step, _>(Error::config("mine", "bad", "good"))), &data);
    config(own, "mine");
    let images = Dataset::new(
        "one",
        Tensor::zeros((1, 3, 8, 8), DType::F32, device()).unwrap(),
        Tensor::new(&[0u32], device()).unwrap(),
        ["a"],
    )
    .unwrap();
    let convolutional = SplitNet::new(conv_net(&[3, 8, 8], &[2, 2, 2]).unwrap(), 1, SEED, device()).unwrap();
    let alone = trainer().batch(1).fit(
        &mut Minimise::new(&convolutional, |b| {
            let s = convolutional.forward(&b.x, b.pass())?;
            Ok(Step::new(bce_logits(&s, &b.y)?))
        }),
        &images,
    );
    assert!(alone.is_ok(), "an image has many pixels to normalise over: {alone:?}");
    let one = data.subset(&[0]).unwrap();
    let single = trainer().batch(1).fit(&mut plain(&net), &one);
    assert!(matches!(single, Err(Error::Shape { .. })), "a batch of one with batch norm: {single:?}");
}

#[test]
fn a_job_runs_beside_and_can_be_stopped_and_joined() {
    let (data, folder) = (data(), tempfile::tempdir().unwrap());
    let whole = net(10);
    trainer().fit(&mut plain(&whole), &data).unwrap();
    let net = net(10);
    let (ask, asked) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let waiting = {
        let inner = step(&net);
        move |b: &Batch| {
            if b.step == 3 {
                ask.send(()).unwrap();
                released.recv().unwrap();
            }
            inner(b)
        }
    };
    let job = trainer().checkpoints(folder.path(), 1).spawn(Minimise::new(&net, waiting), &data).unwrap();
    asked.recv().unwrap();
    assert!(job.poll().0 == 3 && !job.ended());
    job.stop();
    release.send(()).unwrap();
    let stopped = job.join().unwrap();
    assert_eq!((stopped.stopped, stopped.steps), (Stopped::Asked, 4));
    config(job.join(), "one call of join");
    let rest = trainer().checkpoints(folder.path(), 1).spawn(plain(&net), &data).unwrap();
    assert_eq!(rest.join().unwrap().stopped, Stopped::Finished);
    assert!(rest.ended());
    assert_eq!(state(&net), state(&whole));
    config(Trainer::adam(0.0).spawn(plain(&net), &data).map(|_| ()), "learning rate");
    // A job that nobody holds any more ends.
    let alive = std::sync::Arc::new(());
    let inside = alive.clone();
    let inner = step(&net);
    drop(trainer().epochs(100_000).spawn(
        Minimise::new(&net, move |b| {
            let _ = &inside;
            inner(b)
        }),
        &data,
    ));
    while std::sync::Arc::strong_count(&alive) > 1 {
        std::thread::yield_now();
    }
    let failing = trainer()
        .spawn(Minimise::new(&net, |_| Err::<Step, _>(Error::config("mine", "bad", "good"))), &data)
        .unwrap();
    config(failing.join(), "mine");
}

#[test]
fn batches_know_where_they_stand() {
    let data = Gaussians::a().sample(100, SEED, device()).unwrap();
    let net = SplitNet::new(mlp(&[6, 4]).unwrap(), 1, SEED, device()).unwrap();
    let seen = RefCell::new(Vec::new());
    trainer()
        .batch(40)
        .epochs(2)
        .fit(
            &mut Minimise::new(&net, |b| {
                seen.borrow_mut().push((b.step, b.epoch, b.progress));
                assert!(b.attributes().is_err() && matches!(b.pass(), Pass::Train(_)));
                Ok(Step::new(bce_logits(&net.forward(&b.x, b.pass())?, &b.y)?))
            }),
            &data,
        )
        .unwrap();
    assert_eq!(
        seen.take(),
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
    let (mut first, mut second) = (count(), count());
    let trainer = Trainer::adam(0.01).epochs(3).batch(50).silent();
    let expected = trainer.fit_validated(&mut plain(&here), &data, |_| first()).unwrap();
    let job = trainer.spawn_validated(plain(&beside), &data, move |_| second()).unwrap();
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
        .fit(&mut Minimise::new(&net, |_| Ok(Step::skip().report("skipped", 1.0))), &data)
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
    trainer.fit(&mut Minimise::new(&one, |b| Ok(Step::new((loss(&one, b)? * 2.0)?))), &data).unwrap();
    trainer
        .fit(
            &mut Minimise::new(&two, |b| {
                let loss = loss(&two, b)?;
                Ok(Step::sum(vec![loss.clone(), loss]))
            }),
            &data,
        )
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
        .fit(&mut plain(&net), &data)
        .unwrap();
    assert!(!left.exists() && other.exists());
}

#[test]
fn a_state_of_an_optimiser_is_a_snapshot_of_any_type() {
    let w = Var::new(2.0f32, device()).unwrap();
    let over = || Optimiser::adam().over(vec![("w".to_string(), w.clone())], 0.1).unwrap();
    let mut updates = over();
    updates.step(&w.sqr().unwrap()).unwrap();
    let mut state = updates.state().unwrap();
    let first = numbers(&state.tensors["w.0"]);
    updates.step(&w.sqr().unwrap()).unwrap();
    assert_eq!(numbers(&state.tensors["w.0"]), first);
    for tensor in state.tensors.values_mut() {
        *tensor = tensor.to_dtype(DType::F64).unwrap();
    }
    let mut again = over();
    again.restore(&state).unwrap();
    assert_eq!(numbers(&again.state().unwrap().tensors["w.0"]), first);
}

#[test]
fn a_checkpoint_that_lacks_a_group_is_refused() {
    let (data, folder, net) = (data(), tempfile::tempdir().unwrap(), net(4));
    trainer().checkpoints(folder.path(), 0).fit(&mut plain(&net), &data).unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let mut file = TensorFile::read(&path, device()).unwrap();
    file.notes["taken"].as_array_mut().unwrap().pop();
    file.write(&path).unwrap();
    let refused = trainer().checkpoints(folder.path(), 0).fit(&mut plain(&net), &data);
    assert!(matches!(refused, Err(Error::Shape { .. })), "{refused:?}");
}

#[test]
fn a_job_keeps_its_method_from_who_asks_for_another() {
    let job = trainer().spawn(told(usize::MAX), &data()).unwrap();
    job.join().unwrap();
    config(job.method::<RateTraining>(), "for the type that was spawned");
    assert_eq!(job.method::<Told>().unwrap().steps, 21);
    config(job.method::<Told>().map(|_| ()), "one call per job");
}
