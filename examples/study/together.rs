//! Studies of two methods at once: neither, each alone and both, over the same seeds, on Critters and on Adult.

use lastlayer::prelude::*;
use lastlayer::train::SweepRun;

use crate::foca::critters;
use crate::rate::{complete, deviation, mean, results, sweep};
use crate::{device, here};

const SETS: [&str; 2] = ["critters", "adult"];
const SEEDS: u64 = 10;
/// The false positive rate to be kept.
const TARGET: f64 = 0.05;
/// Samples per class of a head from a few samples.
const FEW: usize = 50;
/// Penalties of heads, from which the validation samples choose.
const PENALTIES: [f64; 4] = [1e-3, 1e-2, 1e-1, 1.0];
/// Steps of a head that is trained for its rate.
const STEPS: usize = 240;

/// The task: cheeks of Critters, or incomes on Adult. The label is among the attributes, as the adversary wants it.
fn task(set: &str) -> (&'static str, &'static str) {
    if set == "critters" { ("cheeks", "glasses") } else { (">50K", "female") }
}

/// Adult, read once: training rows and test rows.
fn adult() -> Result<[Dataset; 2]> {
    let folder = load::data_dir()?.join("adult");
    let part = |part| load::adult(&folder, part, &load::Adult::Raw, &device()?);
    Ok([part(Part::Train)?, part(Part::Test)?])
}

/// The three parts of a run: drawn anew from the seed for Critters; for Adult a fifth of the training rows validates.
fn parts(set: &str, preset: Preset, adult: &[Dataset; 2], seed: Seed) -> Result<Parts> {
    let (own, _) = task(set);
    let parts = match set {
        "critters" => {
            let Parts { train, validation, test } = critters(preset, seed)?;
            Parts { train: train.target(own)?, validation: validation.target(own)?, test: test.target(own)? }
        }
        _ => {
            let (train, validation) = adult[0].split(0.8, seed.named("adult"))?;
            Parts { train, validation, test: adult[1].clone() }
        }
    };
    let with = |data: Dataset| data.class_as_attribute(own);
    Ok(Parts { train: with(parts.train)?, validation: with(parts.validation)?, test: with(parts.test)? })
}

/// A perceptron on the inputs of a set.
fn mlp(data: &Dataset, hidden: &[usize]) -> Result<Plan> {
    zoo::mlp_on(&data.x.dims()[1..], hidden)
}

/// Adam with the epochs and batches that suit the size of a set.
fn trainer(set: &str, rate: f64, seed: Seed) -> Trainer {
    let trainer = Trainer::adam(rate).seed(seed).silent();
    if set == "critters" { trainer.epochs(20).batch(128) } else { trainer.epochs(8).batch(256) }
}

/// Missed positives of a score at the target on test samples, and both rates at the threshold of validation samples.
fn judged(record: Record, name: &str, test: &Scores, validation: &Scores) -> Result<Record> {
    let moved = test.confusion(validation.threshold_at_fpr(TARGET)?)?;
    Ok(record
        .result(&format!("{name}_fnr"), 100.0 * test.fnr_at_fpr(TARGET)?)
        .result(&format!("{name}_fnr_mixed"), 100.0 * test.mixed_fnr_at_fpr(TARGET)?)
        .result(&format!("{name}_fnr_moved"), 100.0 * moved.fnr()?)
        .result(&format!("{name}_fpr_moved"), 100.0 * moved.fpr()?))
}

fn scores(net: &dyn Split, data: &Dataset) -> Result<Scores> {
    Scores::new(net.scores_of(data)?.flatten_all()?, &data.y)
}

/// A head of one score on features, and how sharply a tree is to read it.
struct Head {
    name: &'static str,
    net: SplitNet,
    sharpness: f64,
}

/// Heads on a set of features. Of several penalties the one is kept that misses fewest positives of the validation samples:
/// by likelihood with the first penalty alone, with the best one, and from there for the rate, again with the best one.
fn heads(train: &Dataset, validation: &Dataset, seed: Seed) -> Result<[Head; 3]> {
    let missed = |net: &SplitNet| scores(net, validation)?.fnr_at_fpr(TARGET);
    let best = |one: &dyn Fn(f64) -> Result<SplitNet>| -> Result<SplitNet> {
        let mut found = one(PENALTIES[0])?;
        let mut least = missed(&found)?;
        for penalty in &PENALTIES[1..] {
            let net = one(*penalty)?;
            let now = missed(&net)?;
            if now < least {
                (found, least) = (net, now);
            }
        }
        Ok(found)
    };
    let features = Features::new(&train.x, &train.y, 2)?;
    let logistic = |penalty: f64| -> Result<SplitNet> {
        let net = SplitNet::new(zoo::identity(&[train.d()]), 1, seed, &device()?)?;
        WeakFit::SoftmaxMean(penalty).fit(&features)?.head.single()?.install(&net)?;
        Ok(net)
    };
    let (first, chosen) = (logistic(PENALTIES[0])?, best(&logistic)?);
    // The surrogate is as sharp as the scores are spread.
    let sharpness = 2.0 / deviation(&chosen.scores_of(train)?.numbers()?);
    let goal = RateProblem::fnr_at_fpr(TARGET, Surrogate::sigmoid(sharpness))?;
    let batch = train.n().min(1024);
    let for_rate = |penalty: f64| -> Result<SplitNet> {
        let net = chosen.copy()?;
        Trainer::adam(1e-2)
            .batch(batch)
            .epochs(STEPS.div_ceil(train.n().div_ceil(batch)))
            .decay(Decay::Penalty(penalty))
            .schedule(Schedule::Cosine { floor: 0.0 })
            .stratified()
            .seed(seed)
            .silent()
            .fit(&mut RateTraining::last_layer(&net, &goal)?, train)?;
        Ok(net)
    };
    let rate = best(&for_rate)?;
    Ok([
        Head { name: "untuned", net: first, sharpness: 1.0 },
        Head { name: "logistic", net: chosen, sharpness: 1.0 },
        Head { name: "rate", net: rate, sharpness },
    ])
}

/// The four cells of two changes, for every outcome: means, and what the changes add.
fn crossed(
    mut record: Record,
    records: &[Record],
    outcome: &str,
    cells: [(&[(&str, &str)], &str); 4],
) -> Result<Record> {
    let found = cells.map(|(settings, key)| results(records, settings, key));
    for (name, values) in ["neither", "first", "second", "both"].iter().zip(&found) {
        record = record
            .result(&format!("{outcome}_{name}"), mean(values))
            .result(&format!("{outcome}_{name}_sd"), deviation(values));
    }
    let [neither, first, second, both] = &found;
    let gains = factorial(neither, first, second, both, 0.95)?;
    Ok(record
        .result(&format!("{outcome}_first_gain"), gains.first)
        .result(&format!("{outcome}_second_gain"), gains.second)
        .result(&format!("{outcome}_both_gain"), gains.both)
        .result(&format!("{outcome}_interaction"), gains.interaction))
}

fn started(name: &str) -> Result<Record> {
    let record = Record::start(name, here()?);
    Ok(record.config("seeds", SEEDS).config("target", 100.0 * TARGET).config("few", FEW))
}

// --------------------------------------------------------------------------------------------------------------------

/// End to end and against strangers. The last four are judged by a head of all samples only.
const BACKBONES: [&str; 6] = ["plain", "foca", "foca_100", "natural", "unweighted", "unweighted_100"];

/// A backbone trained end to end or against strangers, under a head fitted by likelihood or for its rate.
pub fn head(words: &[String]) -> Result<Option<Record>> {
    let adult = adult()?;
    let study =
        sweep("together-head", words)?.vary("set", &SETS).vary("backbone", &BACKBONES).seeds(1..=SEEDS);
    study.run(here()?, |run: &SweepRun, mut record| {
        let set = run.text("set")?;
        let parts = parts(set, Preset::Iid, &adult, run.seed)?;
        let hidden = if set == "critters" { 256 } else { 64 };
        let plan = extractor(mlp(&parts.train, &[hidden])?, 32, Layer::RmsNorm, Baseline::Plain)?;
        let net = SplitNet::new(plan, 2, run.seed, &device()?)?;
        let trainer = trainer(set, 1e-3, run.seed).schedule(Schedule::Cosine { floor: 0.0 });
        let (name, train) = (run.text("backbone")?, &parts.train);
        // Heads of ten samples per class, as in part IV, or of a hundred.
        let k = if name.ends_with("_100") { 100 } else { 10 };
        let foca = Foca { k, natural: name == "natural", ..Foca::default() };
        let strangers = FocaTraining::new(&net, train, foca)?;
        trainer.fit(
            &mut Minimise::new(&net, |b| match name {
                "plain" => Ok(Step::new(cross_entropy(&net.forward(&b.x, b.pass())?, &b.y)?)),
                // Batches that count each class as often as it comes, for which equal counts stand.
                "unweighted" | "unweighted_100" => {
                    let theirs = train.subset(&strangers.draw(b.seed)?)?;
                    let z = net.features(&Tensor::cat(&[&theirs.inputs()?, &b.x], 0)?, b.pass())?;
                    let (others, z) = (z.narrow(0, 0, theirs.n())?, z.narrow(0, theirs.n(), b.rows.len())?);
                    let loss = foca.loss(&others, &theirs.labels()?, &z, &b.y, &[1, 1])?;
                    Ok(Step::by_group(vec![("bottom", loss)]))
                }
                _ => strangers.step(b),
            }),
            train,
        )?;
        let [train, validation, test] =
            [&parts.train, &parts.validation, &parts.test].map(|data| net.feature_set(data));
        let (train, validation, test) = (train?, validation?, test?);
        record = record.result("spread", Spread::of(&Features::new(&test.x, &test.y, 2)?)?.ratio());
        for (size, rows) in [("all", train.clone()), ("few", train.per_class(FEW, run.seed.named("few"))?)] {
            for Head { name, net, .. } in heads(&rows, &validation, run.seed)? {
                let name = format!("{size}_{name}");
                let judge = scores(&net, &test)?;
                record = record.result(&format!("{name}_auc"), 100.0 * judge.auc());
                record = judged(record, &name, &judge, &scores(&net, &validation)?)?;
            }
        }
        Ok(record)
    })?;
    let Some(records) = complete(&study, 2 * BACKBONES.len() * SEEDS as usize)? else { return Ok(None) };
    let mut record = started("together-head")?;
    for set in SETS {
        let [plain, foca] = ["plain", "foca"].map(|name| [("set", set), ("backbone", name)]);
        let of = |name, key| results(&records, &[("set", set), ("backbone", name)], key);
        for name in BACKBONES {
            record = record.result(&format!("{set}_{name}_spread"), mean(&of(name, "spread")));
        }
        for name in &BACKBONES[2..] {
            for (measure, key) in [("", "all_logistic_fnr"), ("_auc", "all_logistic_auc")] {
                let gain = paired(of(name, key), of("plain", key), 0.95)?.difference;
                record = record.result(&format!("{set}_{name}{measure}_gain"), gain);
            }
        }
        for size in ["all", "few"] {
            for measure in ["fnr", "auc", "fnr_moved", "fpr_moved"] {
                // Against the chosen penalty, and against the one that nobody chose.
                for (start, suffix) in [("logistic", ""), ("untuned", "_untuned")] {
                    let by_likelihood = format!("{size}_{start}_{measure}");
                    let by_rate = format!("{size}_rate_{measure}");
                    let cells: [(&[(&str, &str)], &str); 4] = [
                        (&plain, &by_likelihood),
                        (&foca, &by_likelihood),
                        (&plain, &by_rate),
                        (&foca, &by_rate),
                    ];
                    record = crossed(record, &records, &format!("{set}_{size}_{measure}{suffix}"), cells)?;
                }
            }
        }
    }
    Ok(Some(record))
}

// --------------------------------------------------------------------------------------------------------------------

/// An attribute learnt by its likelihood or by its AUC, alone or against a rival whose gradient is reversed: with heads that
/// step first, and with heads and features at once, as it is usually run.
pub fn ranking(words: &[String]) -> Result<Option<Record>> {
    const STRENGTH: f64 = 0.3;
    let adult = adult()?;
    let study = sweep("together-ranking", words)?
        .vary("set", &SETS)
        .vary("loss", &["likelihood", "auc"])
        .vary("rival", &["none", "reversed", "at_once"])
        .seeds(1..=SEEDS);
    study.run(here()?, |run: &SweepRun, record| {
        let set = run.text("set")?;
        let (own, rival) = task(set);
        let parts = parts(set, Preset::Shift, &adult, run.seed)?;
        let (contest, rivals) = match run.text("rival")? {
            "none" => (Contest::default(), Vec::new()),
            name => {
                let usual = Contest { loss: AdvLoss::Reverse, strength: STRENGTH, ..Contest::default() };
                let rival_steps = if name == "at_once" { 1 } else { usual.rival_steps };
                (Contest { rival_steps, ..usual }, vec![rival])
            }
        };
        let plan = mlp(&parts.train, &[16])?;
        let mut adversary =
            Adversary::new(plan, &parts.train, &[own], &rivals, contest, run.seed, &device()?)?;
        if run.text("loss")? == "auc" {
            adversary = adversary.own_loss(|s, y| auc_loss(s, y, 1.0, AucLoss::Value)?.on(s));
        }
        let fitted = trainer(set, 1e-3, run.seed).stratified().fit(&mut adversary, &parts.train)?;
        let net = adversary.net();
        let (test, validation) = (scores(net, &parts.test)?, scores(net, &parts.validation)?);
        let leak = leakage(net, &parts.train, &parts.test, rival)?;
        let record = record
            .result("auc", 100.0 * test.auc())
            .result("leak", 100.0 * leak.auc.value)
            .result("leak_balanced", 100.0 * leak.balanced)
            .result("outrun", f64::from(u8::from(fitted.warning.is_some())));
        judged(record, "at_target", &test, &validation)
    })?;
    let Some(records) = complete(&study, 2 * 6 * SEEDS as usize)? else { return Ok(None) };
    let mut record = started("together-ranking")?.config("strength", STRENGTH);
    for set in SETS {
        let of = |loss, rival| [("set", set), ("loss", loss), ("rival", rival)];
        let [neither, first, second, both] = [
            of("likelihood", "none"),
            of("auc", "none"),
            of("likelihood", "reversed"),
            of("auc", "reversed"),
        ];
        for measure in ["auc", "leak", "leak_balanced", "at_target_fnr", "at_target_fpr_moved"] {
            let cells: [(&[(&str, &str)], &str); 4] =
                [(&neither, measure), (&first, measure), (&second, measure), (&both, measure)];
            record = crossed(record, &records, &format!("{set}_{measure}"), cells)?;
        }
        let at_once = of("likelihood", "at_once");
        for measure in ["auc", "leak", "leak_balanced"] {
            let found = [&at_once, &neither].map(|cell| results(&records, cell, measure));
            let gain = paired(&found[0], &found[1], 0.95)?.difference;
            record = record
                .result(&format!("{set}_{measure}_at_once"), mean(&found[0]))
                .result(&format!("{set}_{measure}_at_once_gain"), gain);
        }
        for (name, cell) in [("reversed", &second), ("at_once", &at_once)] {
            record = record.result(
                &format!("{set}_{name}_outrun"),
                results(&records, cell, "outrun").iter().sum::<f64>(),
            );
        }
    }
    Ok(Some(record))
}

// --------------------------------------------------------------------------------------------------------------------

/// Codes with or without a tree in training, under a head fitted by likelihood or for its rate, read by a tree.
pub fn reader(words: &[String]) -> Result<Option<Record>> {
    let adult = adult()?;
    let study = sweep("together-reader", words)?
        .vary("set", &SETS)
        .vary("codes", &["quantised", "agreeing"])
        .seeds(1..=SEEDS);
    study.run(here()?, |run: &SweepRun, mut record| {
        let set = run.text("set")?;
        let parts = parts(set, Preset::Iid, &adult, run.seed)?;
        let trunk = if set == "critters" { [128, 64] } else { [64, 32] };
        let net = code_net(mlp(&parts.train, &trunk)?, Quantiser::default(), 64, 2, run.seed, &device()?)?;
        let agreement = match run.text("codes")? {
            "quantised" => Agreement { tree: 0.0, sparse: 0.0, ..Agreement::default() },
            // A fit in every tenth batch: as good as one in each, and ten times cheaper.
            _ => Agreement { every: 10, ..Agreement::default() },
        };
        let mut codes = Intersection::new(&net, &parts.train, agreement)?;
        let rate = if set == "critters" { 3e-3 } else { 1e-3 };
        trainer(set, rate, run.seed).fit(&mut codes, &parts.train)?;
        let sets = [&parts.train, &parts.validation, &parts.test];
        // Codes over the largest code, so that heads see numbers of size one.
        let unit = |data: &Dataset| -> Result<Dataset> {
            let codes = net.feature_set(data)?;
            Ok(Dataset { x: (&codes.x / 15.0)?, ..codes })
        };
        let [train, validation, test] = [unit(sets[0])?, unit(sets[1])?, unit(sets[2])?];
        let [seen, chosen, unseen] = [codes.codes(sets[0])?, codes.codes(sets[1])?, codes.codes(sets[2])?];
        let said = |tree: &Tree, codes: &Codes, data: &Dataset| {
            Scores::new(tree.predict(codes)?.column(1).to_vec(), &data.y)
        };
        let [_, logistic, rate] = heads(&train, &validation, run.seed)?;
        for Head { name, net: head, sharpness } in [logistic, rate] {
            let own = [scores(&head, &test)?, scores(&head, &validation)?];
            record = judged(record, name, &own[0], &own[1])?;
            // The tree reads how surely the head says yes: at its own zero, or at the threshold of its rate.
            let t = if name == "rate" { scores(&head, &train)?.threshold_at_fpr(TARGET)? } else { 0.0 };
            let p = candle_nn::ops::sigmoid(&((head.scores_of(&train)? - t)? * sharpness)?)?;
            let tree = Cart::default().fit(&seen, &Tensor::stack(&[&p.affine(-1.0, 1.0)?, &p], 1)?)?;
            let read = [said(&tree, &unseen, &test)?, said(&tree, &chosen, &validation)?];
            record = judged(record, &format!("{name}_tree"), &read[0], &read[1])?;
            // Decisions that differ, each with the threshold of its own on validation images.
            let [t_head, t_tree] = [own[1].threshold_at_fpr(TARGET)?, read[1].threshold_at_fpr(TARGET)?];
            let s = head.scores_of(&test)?.numbers()?.into_owned();
            let p = tree.predict(&unseen)?;
            let apart = s.iter().zip(p.column(1)).filter(|(s, p)| (**s > t_head) != (**p > t_tree)).count();
            record = record.result(&format!("{name}_apart"), 100.0 * apart as f64 / s.len() as f64);
        }
        let on_labels = Cart::default().fit(&seen, &one_hot(&parts.train.y, 2, DType::F64)?)?;
        let read = [said(&on_labels, &unseen, &test)?, said(&on_labels, &chosen, &validation)?];
        judged(record, "label_tree", &read[0], &read[1])
    })?;
    let Some(records) = complete(&study, 2 * 2 * SEEDS as usize)? else { return Ok(None) };
    let mut record = started("together-reader")?;
    for set in SETS {
        let [quantised, agreeing] = ["quantised", "agreeing"].map(|name| [("set", set), ("codes", name)]);
        for measure in ["fnr", "tree_fnr", "tree_fnr_mixed", "tree_fpr_moved", "apart"] {
            let (by_likelihood, by_rate) = (format!("logistic_{measure}"), format!("rate_{measure}"));
            let cells: [(&[(&str, &str)], &str); 4] = [
                (&quantised, &by_likelihood),
                (&quantised, &by_rate),
                (&agreeing, &by_likelihood),
                (&agreeing, &by_rate),
            ];
            record = crossed(record, &records, &format!("{set}_{measure}"), cells)?;
        }
        for (name, settings) in [("quantised", &quantised), ("agreeing", &agreeing)] {
            let found = results(&records, settings, "label_tree_fnr_mixed");
            record = record.result(&format!("{set}_{name}_label_tree_fnr_mixed"), mean(&found));
        }
    }
    Ok(Some(record))
}
