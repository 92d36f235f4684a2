//! A network of candle's own layers with every method: the code of the book's page "Your own network"
//! (book/src/measures/network.md), what it reaches, runs that are interrupted, and files.

mod device;
mod watched;

use device::device;
use lastlayer::candle_nn::ModuleT;
use lastlayer::prelude::*;

const SEED: Seed = Seed::new(5);

// ANCHOR: network
/// A layer of candle's with batch norm below the line, and one above it.
fn network(scores: usize) -> Result<Network> {
    let vars = VarMap::new();
    let make = VarBuilder::from_varmap(&vars, DType::F32, device());
    let hidden = candle_nn::linear(6, 32, make.pp("phi.hidden"))?;
    let norm = candle_nn::batch_norm(32, 1e-5, make.pp("phi.norm"))?;
    let top = candle_nn::linear(32, scores, make.pp("head"))?;
    let phi = move |x: &Tensor, pass: Pass| norm.forward_t(&hidden.forward(x)?, pass != Pass::Eval)?.relu();
    split(&vars, phi, move |z, _| top.forward(z))
}
// ANCHOR_END: network

// ANCHOR: trainer
fn trainer() -> Trainer {
    Trainer::adam(0.01).epochs(15).batch(100).seed(SEED).silent()
}
// ANCHOR_END: trainer

// ANCHOR: rate
fn rate(net: &Network, train: &Dataset, validation: &Dataset) -> Result<Predictor> {
    let goal = RateProblem::fnr_at_fpr(0.05, Surrogate::sigmoid(2.0))?;
    let mut training = RateTraining::ico(net, &goal)?;
    trainer().fit(&mut training, train)?;
    training.predictor(validation)
}
// ANCHOR_END: rate

// ANCHOR: lp
fn lp(net: &Network, train: &Dataset) -> Result<Run> {
    let ranking = |b: &Batch| {
        let s = net.forward(&b.x, b.pass())?;
        auc_loss(&s, &b.y, 1.0, AucLoss::Value)?.on(&s)
    };
    trainer().fit(&mut Minimise::new(net, ranking), train)
}
// ANCHOR_END: lp

// ANCHOR: foca
fn foca(net: &Network, train: &Dataset) -> Result<()> {
    let mut training = FocaTraining::new(net, train, Foca { k: 10, ..Foca::default() })?;
    trainer().fit(&mut training, train)?;
    WeakFit::RidgeSum(1.0).fit(&Features::of(net, train)?)?.head.install(net)
}
// ANCHOR_END: foca

// ANCHOR: adversary
fn adversary(net: &Network, train: &Dataset, test: &Dataset) -> Result<Leak> {
    let contest = Contest { loss: AdvLoss::Reverse, ..Contest::default() };
    let mut against = Adversary::under(net, train, &["label"], &["side"], contest, SEED)?;
    trainer().fit(&mut against, train)?;
    leakage(net, train, test, "side")
}
// ANCHOR_END: adversary

// ANCHOR: coded
/// Any network with whole numbers for features, over a range that follows the batches.
#[derive(Clone)]
struct Coded {
    net: Network,
    quantiser: Quantiser,
    ends: [Var; 2],
}

impl Split for Coded {
    fn features(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        let z = self.net.features(x, pass)?;
        self.quantiser.forward(&z, Some([&self.ends[0], &self.ends[1]]), pass != Pass::Eval)
    }

    fn scores(&self, z: &Tensor, pass: Pass) -> Result<Tensor> {
        self.net.scores(z, pass)
    }

    fn bottom(&self) -> Vec<(String, Var)> {
        self.net.bottom()
    }

    fn last(&self) -> Vec<(String, Var)> {
        self.net.last()
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        let ends = ["low", "high"].map(String::from).into_iter().zip(self.ends.clone());
        self.net.statistics().into_iter().chain(ends).collect()
    }
}

fn coded(net: &Network) -> Result<Coded> {
    let end = || Var::zeros(1, DType::F32, device());
    Ok(Coded { net: net.clone(), quantiser: Quantiser::default(), ends: [end()?, end()?] })
}
// ANCHOR_END: coded

// ANCHOR: intersection
fn intersection(net: &Network, train: &Dataset) -> Result<(Intersection, Tree)> {
    let coded = coded(net)?;
    let mut both = Intersection::with_levels(&coded, coded.quantiser.levels(), train, Agreement::default())?;
    trainer().fit(&mut both, train)?;
    let tree = both.final_tree(train)?;
    Ok((both, tree))
}
// ANCHOR_END: intersection

/// Rows with a label, and with the sign of a coordinate that has much to do with it.
fn rows(n: usize, name: &str) -> Dataset {
    let data = Gaussians::a().sample(n, SEED.named(name), device()).unwrap();
    let side = data.x.narrow(1, 0, 1).unwrap().gt(1.0).unwrap().to_dtype(DType::F32).unwrap();
    let mut data = data.with_attributes(side, ["side"]).unwrap();
    data.names.classes = vec!["other".to_string(), "label".to_string()];
    data.class_as_attribute("label").unwrap()
}

/// Candle draws first weights without a seed; a test wants the same in every run.
fn seeded(seed: u64, scores: usize) -> Network {
    let net = network(scores).unwrap();
    for (name, var) in net.bottom().into_iter().chain(net.last()) {
        let seed = Seed::new(seed).named(&name);
        var.set(&seed.normal_tensor(var.dims(), (0.2, 0.5), DType::F32, device()).unwrap()).unwrap();
    }
    net
}

fn auc(net: &Network, data: &Dataset) -> f64 {
    Scores::new(net.scores_of(data).unwrap(), &data.y).unwrap().auc()
}

fn accuracy(answers: &Tensor, data: &Dataset) -> f64 {
    Confusion::new(answers, &data.y, 2).unwrap().accuracy()
}

#[test]
fn rate_trains_it_and_its_predictor_survives_a_file() {
    let (train, validation, test) = (rows(2000, "train"), rows(2000, "validation"), rows(2000, "test"));
    let predictor = rate(&seeded(1, 1), &train, &validation).unwrap();
    let found = Confusion::new(predictor.predict_set(&test).unwrap(), &test.y, 2).unwrap();
    assert!(found.fpr().unwrap() < 0.08 && found.fnr().unwrap() < 0.25);
    let folder = tempfile::tempdir().unwrap();
    // ANCHOR: file
    let path = folder.path().join("mine.safetensors");
    predictor.save(&path).unwrap();
    let back = Predictor::load_into(network(1).unwrap(), &path).unwrap();
    // ANCHOR_END: file
    let answers = |of: &Predictor| of.predict_set(&test).unwrap().to_vec1::<u32>().unwrap();
    assert_eq!(answers(&back), answers(&predictor));
    assert_eq!(back.decision, predictor.decision);
}

#[test]
fn a_loss_that_is_a_program_trains_it() {
    let (train, test, net) = (rows(2000, "train"), rows(2000, "test"), seeded(1, 1));
    let before = auc(&net, &test);
    lp(&net, &train).unwrap();
    assert!(auc(&net, &test) > 0.95 && before < 0.8);
}

#[test]
fn weak_heads_train_it() {
    let (train, test, net) = (rows(2000, "train"), rows(2000, "test"), seeded(1, 2));
    foca(&net, &train).unwrap();
    let right = accuracy(&net.scores_of(&test).unwrap().argmax(1).unwrap(), &test);
    assert!(right > 0.85);
}

#[test]
fn a_rival_trains_it() {
    let (train, test) = (rows(2000, "train"), rows(2000, "test"));
    let (net, alone) = (seeded(1, 1), seeded(1, 1));
    trainer()
        .fit(&mut Minimise::new(&alone, |b| bce_logits(&alone.forward(&b.x, b.pass())?, &b.y)), &train)
        .unwrap();
    let before = leakage(&alone, &train, &test, "side").unwrap();
    let after = adversary(&net, &train, &test).unwrap();
    assert!(before.auc.value > 0.99 && after.auc.value < 0.95, "{} {}", before.auc, after.auc);
    assert!(auc(&net, &test) > 0.85, "what it gives up of the label is in proportion");
}

#[test]
fn a_tree_trains_it() {
    let (train, test) = (rows(2000, "train"), rows(2000, "test"));
    let (both, tree) = intersection(&seeded(1, 2), &train).unwrap();
    let reads = tree.accuracy(&both.codes(&test).unwrap(), &test.labels().unwrap()).unwrap();
    assert!(reads > 0.85 && both.accuracy(&test).unwrap() > 0.85);
}

/// What the page warns of: candle's fast layer norm is for inference.
#[test]
fn candles_fast_layer_norm_stops_the_gradient() {
    let w = Var::new(&[[1.0f32, 2.0], [3.0, 5.0]], device()).unwrap();
    let (one, zero) =
        (Tensor::ones(2, DType::F32, device()).unwrap(), Tensor::zeros(2, DType::F32, device()).unwrap());
    let reaches = |normed: Tensor| {
        let loss = normed.narrow(1, 0, 1).unwrap().sum_all().unwrap();
        loss.backward().unwrap().get(&w).is_some()
    };
    let fast = candle_nn::LayerNorm::new(one.clone(), zero.clone(), 1e-5);
    assert!(!reaches(fast.forward(&w).unwrap()));
    assert!(reaches(candle_nn::ops::layer_norm_slow(&w, &one, &zero, 1e-5).unwrap()));
}

fn parameters(net: &Network) -> Vec<f32> {
    net.named().values().flat_map(|var| var.flatten_all().unwrap().to_vec1::<f32>().unwrap()).collect()
}

/// Trains a method in one go, and stopped in its fifth step and continued: the same bytes.
fn trains<M: Method>(make: impl Fn(u64) -> Result<(Network, M)>) {
    let data = rows(120, "few");
    let trainer = Trainer::adam(0.01).batch(40).epochs(3).seed(SEED).silent();
    let (net, mut method) = make(1).unwrap();
    let before = parameters(&net);
    trainer.fit(&mut method, &data).unwrap();
    assert_ne!(parameters(&net), before);
    let folder = tempfile::tempdir().unwrap();
    let trainer = trainer.checkpoints(folder.path(), 2);
    let (_, mut stopped) = make(1).unwrap();
    let stop = |_: &M, b: &Batch| match b.step {
        4 => Err(Error::config("step", "stopped", "the next run")),
        _ => Ok(()),
    };
    assert!(trainer.fit(&mut watched::before(&mut stopped, stop), &data).is_err());
    let (again, mut method) = make(1).unwrap();
    trainer.fit(&mut method, &data).unwrap();
    assert_eq!(parameters(&again), parameters(&net));
}

#[test]
fn rates_are_constrained() {
    let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0)).unwrap();
    let penalty = Penalty::Adaptive { factor: 2.0 };
    type Make = fn(&Network, &RateProblem, Penalty) -> Result<RateTraining>;
    let methods: [Make; 7] = [
        |net, goal, _| RateTraining::cross_entropy(net, goal),
        |net, goal, _| RateTraining::tfco(net, goal),
        |net, goal, _| RateTraining::ico(net, goal),
        |net, goal, _| RateTraining::method1(net, goal),
        |net, goal, penalty| RateTraining::method2(net, goal, penalty),
        |net, goal, penalty| RateTraining::ablation(net, goal, penalty),
        |net, goal, _| RateTraining::last_layer(net, goal),
    ];
    for method in methods {
        trains(|seed| {
            let net = seeded(seed, 1);
            let training = method(&net, &goal, penalty)?;
            Ok((net, training))
        });
    }
}

#[test]
fn metrics_are_losses() {
    trains(|seed| {
        let net = seeded(seed, 1);
        let inner = net.clone();
        let loss = move |b: &Batch| {
            let s = inner.forward(&b.x, b.pass())?;
            auc_loss(&s, &b.y, 1.0, AucLoss::Value)?.on(&s)
        };
        Ok((net.clone(), Minimise::new(&net, loss)))
    });
    trains(|seed| {
        let net = seeded(seed, 1);
        let ppd = Ppd::new(&net, &rows(120, "few"), PpdParams { first_stage: 4, ..PpdParams::default() })?;
        Ok((net, ppd))
    });
}

#[test]
fn features_meet_weak_heads() {
    trains(|seed| {
        let net = seeded(seed, 2);
        let training = FocaTraining::new(&net, &rows(120, "few"), Foca { k: 3, ..Foca::default() })?;
        Ok((net, training))
    });
    // A head in closed form goes into the network, whose last layer is linear.
    let (net, data) = (seeded(1, 2), rows(120, "few"));
    let features = Features::of(&net, &data).unwrap();
    let head = WeakFit::RidgeSum(1.0).fit(&features).unwrap().head;
    head.install(&net).unwrap();
    let accuracy = ClassScores::new(net.scores_of(&data).unwrap(), &data.y).unwrap().accuracy();
    assert_eq!(accuracy, head.accuracy(&features).unwrap());
}

#[test]
fn attributes_contest() {
    for rival_steps in [1, 3] {
        trains(|seed| {
            let net = seeded(seed, 1);
            let contest = Contest { loss: AdvLoss::Reverse, rival_steps, ..Contest::default() };
            let against = Adversary::under(&net, &rows(120, "few"), &["label"], &["side"], contest, SEED)?;
            Ok((net, against))
        });
    }
    let data = rows(120, "few");
    assert!(leakage(&seeded(1, 1), &data, &data, "side").unwrap().auc.value > 0.5);
}

#[test]
fn a_tree_reads_the_codes() {
    trains(|seed| {
        let net = seeded(seed, 2);
        let both = Intersection::with_levels(&coded(&net)?, 16, &rows(120, "few"), Agreement::default())?;
        Ok((net, both))
    });
}

#[test]
fn a_predictor_is_read_into_a_network_that_was_made_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.safetensors");
    let (trained, other, data) = (seeded(1, 1), seeded(2, 1), rows(120, "few"));
    // Statistics go into the file, too.
    trained.forward(&data.x, Pass::Train(SEED)).unwrap();
    let predictor = Predictor::new(&trained, Decision::Threshold(0.1), ["no", "yes"]).unwrap();
    predictor.save(&path).unwrap();
    assert!(Predictor::load(&path, device()).is_err(), "nobody knows how to make it");
    let before = parameters(&other);
    assert!(Predictor::load_into(seeded(2, 2), &path).is_err(), "another network");
    assert_eq!(parameters(&other), before);
    let back = Predictor::load_into(&other, &path).unwrap();
    assert_eq!(parameters(&other), parameters(&trained));
    let answers = |predictor: &Predictor| predictor.predict_set(&data).unwrap().to_vec1::<u32>().unwrap();
    assert_eq!(answers(&back), answers(&predictor));
    // More scores than the decision is for are found out by the first answers.
    let wide = Predictor::new(&seeded(1, 2), Decision::Threshold(0.1), ["no", "yes"]).unwrap();
    assert!(matches!(wide.predict(&data.x), Err(Error::Shape { .. })));
}

#[test]
fn names_draw_the_line() {
    let vars = VarMap::new();
    let make = VarBuilder::from_varmap(&vars, DType::F32, device());
    let a = candle_nn::linear(6, 8, make.pp("phi")).unwrap();
    let refused = |words: &str| {
        let (a, b) = (a.clone(), a.clone());
        match split(&vars, move |x, _| a.forward(x), move |z, _| b.forward(z)) {
            Err(error @ Error::Config { .. }) => assert!(error.to_string().contains(words), "{error}"),
            other => panic!("{other:?}"),
        }
    };
    refused("head");
    candle_nn::linear(8, 1, make.pp("top")).unwrap();
    refused("top.");
}

/// A network with a way of its own from inputs to scores, and a group of its own.
#[derive(Clone)]
struct Doubled(Network);

impl Split for Doubled {
    fn features(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        self.0.features(x, pass)
    }

    fn scores(&self, z: &Tensor, pass: Pass) -> Result<Tensor> {
        self.0.scores(z, pass)
    }

    fn bottom(&self) -> Vec<(String, Var)> {
        self.0.bottom()
    }

    /// The first parameter twice under one name.
    fn last(&self) -> Vec<(String, Var)> {
        let last = self.0.last();
        last.iter().chain(&last[..1]).cloned().collect()
    }

    fn forward(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        Ok((self.0.forward(x, pass)? * 2.0)?)
    }

    fn groups(&self) -> Vec<Group> {
        vec![Group::new("mine", self.0.last())]
    }
}

#[test]
fn a_way_of_its_own_is_taken_and_a_name_is_not_taken_twice() {
    let (net, data) = (seeded(1, 1), rows(20, "few"));
    let held = Network::from(&Doubled(net.clone()));
    let [once, twice] = [&net, &held].map(|net| net.scores_of(&data).unwrap());
    assert_eq!((once * 2.0).unwrap().to_vec1::<f32>().unwrap(), twice.to_vec1::<f32>().unwrap());
    assert_eq!(held.groups()[0].name, "mine");
    let nobody = net.scores_of_inputs(&data.x.narrow(0, 0, 0).unwrap());
    assert!(matches!(nobody, Err(Error::Shape { .. })), "{nobody:?}");
    let folder = tempfile::tempdir().unwrap();
    let predictor = Predictor::new(&held, Decision::Threshold(0.1), ["no", "yes"]).unwrap();
    match predictor.save(folder.path().join("mine.safetensors")) {
        Err(error @ Error::Config { .. }) => assert!(error.to_string().contains("name of a parameter")),
        other => panic!("{other:?}"),
    }
}
