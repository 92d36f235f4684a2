//! A network of candle's own layers, trained by all five methods, each with checkpoints. In a folder of its own, a run that
//! was killed goes on where it stood.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use lastlayer::prelude::*;

const SEED: Seed = Seed::new(5);
static PASSES: AtomicUsize = AtomicUsize::new(0);

/// Two layers with a line between them; the process ends in a given forward pass, as if somebody had killed it.
fn network(scores: usize, killed_in: usize) -> Result<Network> {
    let vars = VarMap::new();
    let make = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
    let (below, above) =
        (candle_nn::linear(6, 8, make.pp("phi"))?, candle_nn::linear(8, scores, make.pp("head"))?);
    let phi = move |x: &Tensor, _: Pass| {
        if PASSES.fetch_add(1, Ordering::Relaxed) + 1 == killed_in {
            std::process::abort();
        }
        below.forward(x)?.relu()
    };
    let net = split(&vars, phi, move |z, _| above.forward(z))?;
    for (name, var) in net.named() {
        // candle draws first weights without a seed.
        var.set(&SEED.named(&name).normal_tensor(var.dims(), (0.1, 0.5), DType::F32, &Device::Cpu)?)?;
    }
    Ok(net)
}

/// The same with whole numbers for features, over the range of each batch.
#[derive(Clone)]
struct Coded(Network);

impl Split for Coded {
    fn features(&self, x: &Tensor, pass: Pass) -> Result<Tensor> {
        let quantiser = Quantiser { range: Range::Batch, ..Quantiser::default() };
        quantiser.forward(&self.0.features(x, pass)?, None, pass != Pass::Eval)
    }

    fn scores(&self, z: &Tensor, pass: Pass) -> Result<Tensor> {
        self.0.scores(z, pass)
    }

    fn bottom(&self) -> Vec<(String, Var)> {
        self.0.bottom()
    }

    fn last(&self) -> Vec<(String, Var)> {
        self.0.last()
    }
}

fn rows(name: &str) -> Result<Dataset> {
    let mut data = Gaussians::a().sample(120, SEED.named(name), &Device::Cpu)?;
    data.names.classes = ["other", "label"].map(String::from).to_vec();
    let side = data.x.narrow(1, 0, 1)?.gt(1.0)?.to_dtype(DType::F32)?;
    data.with_attributes(side, ["side"])?.class_as_attribute("label")
}

pub fn train(folder: &Path, killed_in: usize) -> Result<()> {
    let (train, validation) = (rows("train")?, rows("validation")?);
    let names = train.names.classes.clone();
    let trainer = |name: &str| {
        Trainer::adam(0.01)
            .batch(40)
            .epochs(3)
            .seed(SEED)
            .silent()
            .checkpoints(folder.join("runs").join(name), 1)
    };
    let keep = |name: &str, predictor: Predictor| predictor.save(folder.join(name));
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::io(folder, "choose a folder that can be written", e))?;

    let net = network(1, killed_in)?;
    let goal = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
    let mut rate = RateTraining::method2(&net, &goal, Penalty::Adaptive { factor: 2.0 })?;
    trainer("rate").fit(&mut rate, &train)?;
    keep("rate", rate.predictor(&validation)?)?;

    let net = network(1, killed_in)?;
    let ranking = |b: &Batch| {
        let s = net.forward(&b.x, b.pass())?;
        auc_loss(&s, &b.y, 1.0, AucLoss::Value)?.on(&s)
    };
    trainer("lp").fit(&mut Minimise::new(&net, ranking), &train)?;
    keep("lp", Predictor::new(&net, Decision::Threshold(0.0), &names)?)?;

    let net = network(2, killed_in)?;
    trainer("foca").fit(&mut FocaTraining::new(&net, &train, Foca { k: 3, ..Foca::default() })?, &train)?;
    WeakFit::RidgeSum(1.0).fit(&Features::of(&net, &train)?)?.head.install(&net)?;
    keep("foca", Predictor::new(&net, Decision::Largest, &names)?)?;

    let net = network(1, killed_in)?;
    let contest = Contest { loss: AdvLoss::Reverse, rival_steps: 3, ..Contest::default() };
    let mut adversary = Adversary::under(&net, &train, &["label"], &["side"], contest, SEED)?;
    trainer("adversary").fit(&mut adversary, &train)?;
    keep("adversary", Predictor::new(&net, Decision::Threshold(0.0), &names)?)?;

    let net = Coded(network(2, killed_in)?);
    let mut both = Intersection::with_levels(&net, 16, &train, Agreement::default())?;
    trainer("intersection").fit(&mut both, &train)?;
    keep("intersection", Predictor::new(&net, Decision::Largest, &names)?)?;

    let saved = Predictor::load_into(&network(1, 0)?, folder.join("rate"))?;
    let answers = |of: &Predictor| Ok::<_, Error>(of.predict_set(&validation)?.to_vec1::<u32>()?);
    let same = answers(&saved)? == answers(&rate.predictor(&validation)?)?;
    println!("{} {same}", PASSES.load(Ordering::Relaxed));
    Ok(())
}
