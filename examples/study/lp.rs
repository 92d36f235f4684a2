//! Studies of the LP losses: imbalance with a known optimum, several classes, F scores and their trap, and how run time grows.

use lastlayer::candle_nn::ops::{sigmoid, softmax};
use lastlayer::lp::{
    AucLoss, FLink, Lp, Matrix, NewtonLp, Ppd, PpdParams, auc_loss, auc_mu_loss, envelope, f_loss,
    pairwise_logistic,
};
use lastlayer::prelude::*;
use lastlayer::train::SweepRun;

use crate::rate::{complete, deviation, mean, results, sweep};
use crate::{device, here};

/// Shares of positives in the paper's table, and how many negatives there are for each of them.
const KEPT: [(&str, f64); 4] = [("91", 0.1), ("83", 0.2), ("71", 0.4), ("50", 1.0)];

/// A linear net with `width` features and `scores` scores, the head with a bias.
fn linear(inputs: usize, width: usize, scores: usize, seed: Seed) -> Result<SplitNet> {
    let layer = |width, bias| zoo::linear(width, bias);
    let phi = Plan { input: vec![inputs], layers: layer(width, false), init: Default::default() };
    SplitNet::with_head(phi, layer(scores, true), seed, DType::F32, &device()?)
}

fn direction(net: &SplitNet) -> Result<Vec<f64>> {
    let weight = &net.head.parameters()["weight"];
    Ok(weight.matmul(&net.bottom()[0].1)?.squeeze(0)?.to_dtype(DType::F64)?.to_vec1()?)
}

/// So many steps of gradient descent with momentum, a fifth of the rate in the second half.
fn trainer(data: &Dataset, batch: usize, steps: usize, seed: Seed) -> Trainer {
    let epochs = (steps * batch).div_ceil(data.n());
    Trainer::sgd(0.1, 0.9)
        .batch(batch)
        .epochs(epochs)
        .schedule(Schedule::Steps { every: epochs.div_ceil(2), factor: 0.2 })
        .seed(seed)
        .silent()
}

/// Whether every class is in a batch: without one there is nothing to rank it against.
fn rankable(batch: &Batch) -> Result<bool> {
    Ok(batch.data.class_counts()?.iter().all(|count| *count > 0))
}

/// The paper's first table on two Gaussian tasks: AUC by loss and imbalance, five seeds.
pub fn imbalance(words: &[String]) -> Result<Option<Record>> {
    const SEEDS: u64 = 5;
    const LOSSES: [&str; 8] = [
        "ce",
        "ppd",
        "ramp_tenth",
        "ramp_hundredth",
        "ramp_thousandth",
        "value_hundredth",
        "value_tenth",
        "pairwise",
    ];
    let study = sweep("lp-imbalance", words)?
        .vary("task", &["D", "A"])
        .vary("share", &KEPT.map(|(name, _)| name))
        .vary("loss", &LOSSES)
        .seeds(1..=SEEDS);
    study.run(here()?, |run, record| {
        let task = task(run.text("task")?);
        let kept =
            KEPT.iter().find(|(name, _)| run.text("share").is_ok_and(|s| s == *name)).map_or(1.0, |k| k.1);
        let skewed = Gaussians { prevalence: vec![kept / (1.0 + kept), 1.0 / (1.0 + kept)], ..task.clone() };
        let data = skewed.sample(4000, run.seed.named("train"), &device()?)?;
        let net = linear(6, 3, 1, run.seed)?;
        train_auc(run, &net, &data)?;
        Ok(record.result("auc", 100.0 * task.auc(&direction(&net)?)?))
    })?;
    let runs = 2 * KEPT.len() * LOSSES.len() * SEEDS as usize;
    let Some(records) = complete(&study, runs)? else { return Ok(None) };
    let mut record = Record::start("lp-imbalance", here()?).config("seeds", SEEDS).config("steps", 2500);
    for name in ["D", "A"] {
        record = record.result(&format!("{name}_optimum"), 100.0 * task(name).best_auc()?.1);
        for (share, _) in KEPT {
            for loss in LOSSES {
                let found = results(&records, &[("task", name), ("share", share), ("loss", loss)], "auc");
                let key = format!("{name}_{share}_{loss}");
                record = record.result(&key, mean(&found)).result(&format!("{key}_sd"), deviation(&found));
            }
        }
    }
    // What cross entropy loses on task D between even and uneven classes.
    let drop = record.number("D_50_ce")? - record.number("D_91_ce")?;
    Ok(Some(record.result("D_drop", drop)))
}

fn task(name: &str) -> Gaussians {
    if name == "D" { Gaussians::d() } else { Gaussians::a() }
}

fn train_auc(run: &SweepRun, net: &SplitNet, data: &Dataset) -> Result<()> {
    let trainer = trainer(data, 32, 2500, run.seed);
    let loss = run.text("loss")?;
    if loss == "ppd" {
        // As long a first stage for 2 500 steps as the paper's 2 000 are for its 40 000.
        let params = PpdParams { first_stage: 125, ..Default::default() };
        let mut ppd = Ppd::new(net, data, params)?;
        let trainer = Trainer::sgd(params.lr, 0.0).batch(32).epochs(trainer.epochs).seed(run.seed).silent();
        return trainer.fit(&mut ppd, data).map(drop);
    }
    let (kind, margin) = loss.split_once('_').unwrap_or((loss, "tenth"));
    let margin = match margin {
        "tenth" => 0.1,
        "hundredth" => 0.01,
        _ => 0.001,
    };
    let step = |b: &Batch| -> Result<Step> {
        let s = net.forward(&b.x, b.pass())?;
        let h = sigmoid(&s)?;
        let lp = |kind| auc_loss(&h, &b.y, margin, kind)?.on(&h);
        if kind != "ce" && !rankable(b)? {
            return Ok(Step::skip());
        }
        Ok(Step::new(match kind {
            "ce" => bce_logits(&s, &b.y)?,
            "pairwise" => pairwise_logistic(&s, &b.y)?,
            "ramp" => lp(AucLoss::Ramp)?,
            _ => lp(AucLoss::Value)?,
        }))
    };
    trainer.fit(&mut Minimise::new(net, step), data).map(drop)
}

/// Several classes: AUC_mu and one-vs-all of a linear softmax on three Gaussians, two classes thinned out, five seeds.
pub fn classes(words: &[String]) -> Result<Option<Record>> {
    const SEEDS: u64 = 5;
    const LOSSES: [&str; 5] = ["ce", "value", "ramp", "ramp_hundredth", "printed"];
    const DROPPED: [&str; 4] = ["90", "80", "60", "0"];
    let task = Gaussians::three();
    let study = sweep("lp-classes", words)?.vary("dropped", &DROPPED).vary("loss", &LOSSES).seeds(1..=SEEDS);
    study.run(here()?, |run, record| {
        let dropped = run.text("dropped")?.parse::<f64>().unwrap_or(f64::NAN) / 100.0;
        let data = task.sample(6000, run.seed.named("train"), &device()?)?;
        let data = data.thin(&[1.0 - dropped, 1.0 - dropped, 1.0], run.seed.named("thin"))?;
        let test = task.sample(30_000, run.seed.named("test"), &device()?)?;
        let none = Plan { input: vec![4], layers: Vec::new(), init: Default::default() };
        let head = zoo::linear(3, true);
        let net = SplitNet::with_head(none, head, run.seed, DType::F32, &device()?)?;
        let loss = run.text("loss")?;
        let (kind, margin) = match loss {
            "ramp" => (AucLoss::Ramp, 0.1),
            "ramp_hundredth" => (AucLoss::Ramp, 0.01),
            _ => (AucLoss::Value, 0.1),
        };
        trainer(&data, 96, 2000, run.seed).stratified().fit(
            &mut Minimise::new(&net, |b| {
                let s = net.forward(&b.x, b.pass())?;
                if loss == "ce" {
                    return Ok(Step::new(cross_entropy(&s, &b.y)?));
                }
                if !rankable(b)? {
                    return Ok(Step::skip());
                }
                let p = softmax(&s, 1)?;
                // Equation 2 as printed has the sign of every ranking turned round.
                let p = if loss == "printed" { p.neg()? } else { p };
                Ok(Step::new(auc_mu_loss(&p, &b.y, None, margin, kind)?.on(&p)?))
            }),
            &data,
        )?;
        let scores = ClassScores::new(softmax(&net.scores_of(&test)?, 1)?, &test.y)?;
        Ok(record.result("mu", 100.0 * scores.auc_mu()?).result("ova", 100.0 * scores.auc_ova()?))
    })?;
    let Some(records) = complete(&study, DROPPED.len() * LOSSES.len() * SEEDS as usize)? else {
        return Ok(None);
    };
    let mut record = Record::start("lp-classes", here()?).config("seeds", SEEDS).config("steps", 2000);
    for dropped in DROPPED {
        for loss in LOSSES {
            for metric in ["mu", "ova"] {
                let found = results(&records, &[("dropped", dropped), ("loss", loss)], metric);
                let key = format!("{dropped}_{loss}_{metric}");
                record = record.result(&key, mean(&found)).result(&format!("{key}_sd"), deviation(&found));
            }
        }
    }
    Ok(Some(record))
}

/// F score and accuracy of a linear net by loss, prevalence and starting bias, five seeds; the threshold is zero.
pub fn f_score(words: &[String]) -> Result<Option<Record>> {
    const SEEDS: u64 = 5;
    const LOSSES: [&str; 6] = ["ce", "f", "f_high", "ramp_high", "warm", "warm_high"];
    let study = sweep("lp-f", words)?
        .vary("task", &["A", "D"])
        .vary("positives", &["50", "10"])
        .vary("loss", &LOSSES)
        .seeds(1..=SEEDS);
    study.run(here()?, |run, record| {
        let share = run.text("positives")?.parse::<f64>().unwrap_or(f64::NAN) / 100.0;
        let task = Gaussians { prevalence: vec![1.0 - share, share], ..task(run.text("task")?) };
        let [data, test] = [("train", 8000), ("test", 100_000)]
            .map(|(part, n)| task.sample(n, run.seed.named(part), &device()?));
        let (data, test) = (data?, test?);
        let net = linear(6, 3, 1, run.seed)?;
        let loss = run.text("loss")?;
        if loss.ends_with("high") {
            let bias = &net.head.parameters()["bias"];
            bias.set(&(bias.ones_like()? * 6.0)?)?;
        }
        let link = if loss == "ramp_high" { FLink::Ramp { margin: 0.5 } } else { FLink::Sigmoid };
        trainer(&data, 128, 2000, run.seed).fit(
            &mut Minimise::new(&net, |b| {
                let s = net.forward(&b.x, b.pass())?;
                if loss == "ce" || (loss.starts_with("warm") && b.step < 400) {
                    return Ok(Step::new(bce_logits(&s, &b.y)?));
                }
                if !rankable(b)? {
                    return Ok(Step::skip());
                }
                Ok(Step::new(f_loss(&s, &b.y, 1.0, link)?.on(&s)?))
            }),
            &data,
        )?;
        let decided = Scores::new(net.scores_of(&test)?, &test.y)?.confusion(0.0)?;
        Ok(record.result("f1", 100.0 * decided.f_beta(1.0)?).result("accuracy", 100.0 * decided.accuracy()))
    })?;
    let Some(records) = complete(&study, 2 * 2 * LOSSES.len() * SEEDS as usize)? else { return Ok(None) };
    let mut record = Record::start("lp-f", here()?).config("seeds", SEEDS).config("steps", 2000);
    for task in ["A", "D"] {
        for share in ["50", "10"] {
            for loss in LOSSES {
                for metric in ["f1", "accuracy"] {
                    let settings = [("task", task), ("positives", share), ("loss", loss)];
                    let found = results(&records, &settings, metric);
                    let key = format!("{task}_{share}_{loss}_{metric}");
                    record =
                        record.result(&key, mean(&found)).result(&format!("{key}_sd"), deviation(&found));
                }
            }
        }
    }
    Ok(Some(record))
}

/// Seconds of one AUC loss with its gradient by the number of pairs: dense Newton, structured Newton, closed form.
pub fn growth() -> Result<Record> {
    let mut record = Record::start("lp-growth", here()?);
    // The least of seven: what the work takes when nothing else runs.
    let clock = |work: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        let mut least = f64::INFINITY;
        for _ in 0..7 {
            let began = std::time::Instant::now();
            work()?;
            least = least.min(began.elapsed().as_secs_f64());
        }
        Ok(least)
    };
    for side in [4usize, 8, 16, 24, 32, 100, 300] {
        let seed = Seed::new(side as u64);
        let y: Vec<u8> = (0..2 * side).map(|i| (i % 2) as u8).collect();
        let s: Vec<f64> = (0..2 * side).map(|i| seed.normal(i as u64) + f64::from(y[i])).collect();
        let lp = Lp::auc(&s, &y, 0.1)?;
        let pairs = side * side;
        let newton = |lp: &Lp, detect: bool| -> Result<()> {
            let solver = NewtonLp { detect, ..Default::default() };
            envelope(solver.solve(lp)?.optimal()?);
            Ok(())
        };
        if side <= 32 {
            let dense = Lp { A: Matrix::Dense(lp.A.to_dense()), ..lp.clone() };
            record = record.result(&format!("dense_{pairs}"), clock(&mut || newton(&dense, false))?);
        }
        record = record.result(&format!("structured_{pairs}"), clock(&mut || newton(&lp, false))?);
        let closed = clock(&mut || auc_loss(&s, &y, 0.1, AucLoss::Value).map(drop))?;
        record = record.result(&format!("closed_{pairs}"), closed);
    }
    Ok(record)
}
