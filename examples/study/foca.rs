//! Studies of FOCA: the co-adaptation toy, heads from a few samples on Critters, and which learning rate suits whom.

use std::collections::BTreeMap;

use lastlayer::prelude::*;
use lastlayer::train::SweepRun;

use crate::rate::{complete, deviation, mean, results, sweep};
use crate::{device, here};

const SEEDS: u64 = 5;
const EPOCHS: usize = 30;
const BATCH: usize = 128;
const RATE: f64 = 1e-3;
/// Weight of all heads that are fitted once training is done, unless said otherwise.
const WEIGHT: f64 = 1.0;

/// Critters in 16 by 16 pixels, drawn anew for each seed, centred on the training images.
pub fn critters(preset: Preset, seed: Seed) -> Result<Parts> {
    let critters = Critters::new(preset, seed.named("critters"));
    let part = |part, n| critters.part(part, n, &device()?)?.pooled(2);
    let (train, validation, test) =
        (part(Part::Train, 6000)?, part(Part::Validation, 1500)?, part(Part::Test, 4000)?);
    let centred = |data: &Dataset| data.centred(&train);
    Ok(Parts { validation: centred(&validation)?, test: centred(&test)?, train: centred(&train)? })
}

/// The sets of all seeds.
pub fn all_critters(preset: Preset, seeds: u64) -> Result<BTreeMap<u64, Parts>> {
    (1..=seeds).map(|seed| Ok((seed, critters(preset, Seed::new(seed))?))).collect()
}

/// What a name in the table stands for: the bound of the features, what is done to them, and FOCA's settings if any.
fn method(name: &str) -> Result<(Layer, Baseline, Option<Foca>)> {
    let (bound, name) = match name.strip_prefix("unit_") {
        Some(rest) => (Layer::UnitNorm, rest),
        None => (Layer::RmsNorm, name),
    };
    // The same penalty on features that are √d times shorter.
    let weight = if bound == Layer::UnitNorm { 1.0 / 32.0 } else { 1.0 };
    let foca = |k| Foca { k, fit: WeakFit::RidgeSum(weight), ..Foca::default() };
    let through = |k| Foca { theta: ThetaGrad::Through, ..foca(k) };
    let (baseline, foca) = match name {
        "plain" | "squared" => (Baseline::Plain, None),
        "noisy_tenth" => (Baseline::Noisy { sd: 0.1 }, None),
        "noisy" => (Baseline::Noisy { sd: 0.5 }, None),
        "dropout" => (Baseline::Dropout { rate: 0.5 }, None),
        "batch_norm" => (Baseline::BatchNorm, None),
        "foca_1" => (Baseline::Plain, Some(foca(1))),
        "foca_2" => (Baseline::Plain, Some(foca(2))),
        "foca_5" => (Baseline::Plain, Some(foca(5))),
        "foca_10" => (Baseline::Plain, Some(foca(10))),
        "foca_20" => (Baseline::Plain, Some(foca(20))),
        "four_heads" => (Baseline::Plain, Some(Foca { heads: 4, ..foca(10) })),
        "through_2" => (Baseline::Plain, Some(through(2))),
        "through_10" => (Baseline::Plain, Some(through(10))),
        other => return Err(Error::config("method", other, "one of the table's")),
    };
    Ok((bound, baseline, foca))
}

/// The two-layer perceptron with 32 features, trained by a method of the table; and the seconds that took.
fn train(name: &str, rate: f64, data: &Dataset, seed: Seed) -> Result<(SplitNet, f64)> {
    let (bound, baseline, foca) = method(name)?;
    let plan = extractor(zoo::mlp_on(&[3, 16, 16], &[256])?, 32, bound, baseline)?;
    let net = SplitNet::new(plan, data.k(), seed, &device()?)?;
    let trainer = Trainer::adam(rate)
        .epochs(EPOCHS)
        .batch(BATCH)
        .schedule(Schedule::Cosine { floor: 0.0 })
        .seed(seed)
        .silent();
    let run = match foca {
        Some(foca) => trainer.fit(&mut FocaTraining::new(&net, data, foca)?, data)?,
        None => trainer.fit(
            &mut Minimise::new(&net, |b| {
                let s = net.forward(&b.x, b.pass())?;
                Ok(Step::new(match name {
                    "squared" => (squared(&s, &one_hot(&b.y, data.k(), s.dtype())?)? * data.k() as f64)?,
                    _ => cross_entropy(&s, &b.y)?,
                }))
            }),
            data,
        )?,
    };
    Ok((net, run.seconds))
}

const SIZES: [usize; 6] = [1, 2, 5, 10, 20, 50];

/// Everything that the three experiments of the paper ask of trained features.
fn measure(net: &SplitNet, parts: &Parts, seed: Seed, mut record: Record) -> Result<Record> {
    let (train, test) = (Features::of(net, &parts.train)?, Features::of(net, &parts.test)?);
    // Features of length 1 get the penalty of features of length √32.
    let unit = net.phi.plan().layers.iter().any(|(_, layer)| *layer == Layer::UnitNorm);
    let scale = if unit { 1.0 / 32.0 } else { 1.0 };
    for (suffix, weight) in [("", WEIGHT), ("_weak", 0.1 * WEIGHT), ("_strong", 10.0 * WEIGHT)] {
        let fit = WeakFit::RidgeSum(scale * weight);
        let heads = partial_heads(&train, &test, fit, &SIZES, 20, seed.named("heads"))?;
        record = record.result(&format!("full{suffix}"), 100.0 * heads.full);
        for part in &heads.parts {
            record = record
                .result(&format!("head_{}{suffix}", part.k), 100.0 * part.mean)
                .result(&format!("gap_{}{suffix}", part.k), 100.0 * part.gap);
        }
    }
    for (part, features) in [("train", &train), ("test", &test)] {
        let lda = Lda::of(features)?;
        record = record
            .result(&format!("eigenvalue_{part}"), lda.eigenvalues[0])
            .result(&format!("traces_{part}"), lda.ratio())
            .result(&format!("spread_{part}"), Spread::of(features)?.ratio());
    }
    // The species that differ by the hue of the coat alone.
    let (first, second) = (7, 8);
    let pair = TwoClass::of(&train, first, second)?;
    record = record
        .result("pair_eigenvalue_train", pair.eigenvalue)
        .result("pair_eigenvalue_test", TwoClass::of(&test, first, second)?.eigenvalue)
        .result("pair_error_train", 100.0 * pair.error(&train)?)
        .result("pair_error_test", 100.0 * pair.error(&test)?)
        .result("pair_implied", 100.0 * pair.implied_error());
    let soft = WeakFit::SoftmaxSum(scale * WEIGHT);
    let large = soft.fit(&train)?.head;
    let rows = train.rows()?;
    let mut lengths = [0.0; 4];
    const SUBSETS: u64 = 5;
    for subset in 0..SUBSETS {
        let rows = rows.draw(5, false, seed.named("small").stream(subset))?;
        let small = soft.fit(&train.take(&rows)?)?.head;
        let all = [
            fisher_length(&large, &small, &train, 10, Fisher::Model)?,
            fisher_length(&large, &small, &train, 10, Fisher::Observed)?,
            printed_length(&large, &small, &train, 10)?,
            prediction_distance(&large, &small, &train)?,
        ];
        lengths.iter_mut().zip(all).for_each(|(sum, length)| *sum += length / SUBSETS as f64);
    }
    for (name, length) in ["model", "observed", "printed", "prediction"].iter().zip(lengths) {
        record = record.result(&format!("length_{name}"), length);
    }
    Ok(record)
}

/// Partial heads, lengths and discriminants on Critters species, by method.
pub fn partial(words: &[String]) -> Result<Option<Record>> {
    const METHODS: [&str; 16] = [
        "plain",
        "squared",
        "noisy_tenth",
        "noisy",
        "dropout",
        "batch_norm",
        "foca_1",
        "foca_2",
        "foca_5",
        "foca_10",
        "foca_20",
        "four_heads",
        "through_2",
        "through_10",
        "unit_plain",
        "unit_foca_10",
    ];
    let sets = all_critters(Preset::Iid, SEEDS)?;
    let study = sweep("foca-critters", words)?.vary("method", &METHODS).seeds(1..=SEEDS);
    study.run(here()?, |run: &SweepRun, record| {
        let parts = &sets[&run.seed.value()];
        let (net, seconds) = train(run.text("method")?, RATE, &parts.train, run.seed)?;
        measure(&net, parts, run.seed, record.result("seconds", seconds))
    })?;
    let Some(records) = complete(&study, METHODS.len() * SEEDS as usize)? else { return Ok(None) };
    let mut record = Record::start("foca-critters", here()?)
        .config("seeds", SEEDS)
        .config("epochs", EPOCHS)
        .config("batch", BATCH)
        .config("rate", RATE);
    let keys: Vec<String> = records[0].results.keys().cloned().collect();
    for method in METHODS {
        for key in &keys {
            let found = results(&records, &[("method", method)], key);
            let name = format!("{method}_{key}");
            record = record.result(&name, mean(&found)).result(&format!("{name}_sd"), deviation(&found));
        }
    }
    let of = |method: &str, key: &str| results(&records, &[("method", method)], key);
    // What each lacks more than FOCA with ten samples per class does, and how much better its full head is.
    let beside_foca =
        METHODS.into_iter().filter(|method| *method != "foca_10" && !method.starts_with("unit"));
    let others = [("unit_plain", "unit_foca_10"), ("through_2", "foca_2")];
    for (other, ours) in beside_foca.map(|method| (method, "foca_10")).chain(others) {
        for key in [
            "gap_2",
            "gap_5",
            "gap_5_strong",
            "full",
            "head_1",
            "length_model",
            "eigenvalue_test",
            "pair_eigenvalue_test",
        ] {
            let difference = paired(of(other, key), of(ours, key), 0.95)?.difference;
            let name = format!("{other}_less_{ours}_{key}");
            record = record
                .result(&name, difference.value)
                .result(&format!("{name}_low"), difference.low)
                .result(&format!("{name}_high"), difference.high);
        }
    }
    let ratio = mean(&of("foca_10", "gap_5")) / mean(&of("plain", "gap_5"));
    Ok(Some(record.result("gap_ratio", ratio)))
}

/// Accuracy and gap on validation images by method and learning rate.
pub fn rates(words: &[String]) -> Result<Option<Record>> {
    const TRIED: u64 = 2;
    const METHODS: [&str; 4] = ["plain", "foca_10", "unit_plain", "unit_foca_10"];
    const RATES: [(&str, f64); 4] = [("0_0001", 1e-4), ("0_0003", 3e-4), ("0_001", 1e-3), ("0_003", 3e-3)];
    let sets = all_critters(Preset::Iid, TRIED)?;
    let study = sweep("foca-rates", words)?
        .vary("method", &METHODS)
        .vary("rate", &RATES.map(|(name, _)| name))
        .seeds(1..=TRIED);
    study.run(here()?, |run: &SweepRun, record| {
        let parts = &sets[&run.seed.value()];
        let rate = RATES.iter().find(|(name, _)| run.text("rate").is_ok_and(|text| text == *name));
        let (_, rate) = *rate.ok_or_else(|| Error::config("rate", &run.name, "one of the table's"))?;
        let (net, _) = train(run.text("method")?, rate, &parts.train, run.seed)?;
        let (train, validation) = (Features::of(&net, &parts.train)?, Features::of(&net, &parts.validation)?);
        let scale = if run.text("method")?.starts_with("unit") { 1.0 / 32.0 } else { 1.0 };
        let fit = WeakFit::RidgeSum(scale * WEIGHT);
        let heads = partial_heads(&train, &validation, fit, &[5], 20, run.seed.named("heads"))?;
        Ok(record.result("full", 100.0 * heads.full).result("gap_5", 100.0 * heads.gap(5)?))
    })?;
    let Some(records) = complete(&study, METHODS.len() * RATES.len() * TRIED as usize)? else {
        return Ok(None);
    };
    let mut record = Record::start("foca-rates", here()?).config("seeds", TRIED).config("epochs", EPOCHS);
    for method in METHODS {
        for (rate, _) in RATES {
            for key in ["full", "gap_5"] {
                let found = results(&records, &[("method", method), ("rate", rate)], key);
                record = record.result(&format!("{method}_{rate}_{key}"), mean(&found));
            }
        }
    }
    Ok(Some(record))
}

/// Spread over separation of two arcs in two features, end to end and against strangers, by optimiser.
pub fn toy(words: &[String]) -> Result<Option<Record>> {
    const RUNS: u64 = 10;
    const STEPS: usize = 5000;
    let study = sweep("foca-toy", words)?
        .vary("optimiser", &["sgd", "adam"])
        .vary("method", &["joint", "foca"])
        .seeds(1..=RUNS);
    study.run(here()?, |run: &SweepRun, record| {
        let data = arcs(200, 0.1, run.seed.named("arcs"), &device()?)?;
        let bound = Layer::Ball { radius: 3.0 };
        let plan = extractor(zoo::mlp(&[2, 64, 64])?, 2, bound, Baseline::Plain)?;
        let net = SplitNet::new(plan, 2, run.seed, &device()?)?;
        let trainer = match run.text("optimiser")? {
            "sgd" => Trainer::sgd(0.03, 0.9),
            _ => Trainer::adam(1e-3),
        };
        let trainer = trainer.batch(50).epochs(STEPS / 4).seed(run.seed).silent();
        let strangers = FocaTraining::new(&net, &data, Foca { k: 1, ..Foca::default() })?;
        let foca = run.text("method")? == "foca";
        trainer.fit(
            &mut Minimise::new(&net, |b| {
                if foca {
                    return strangers.step(b);
                }
                let s = net.forward(&b.x, b.pass())?;
                Ok(Step::new((squared(&s, &one_hot(&b.y, 2, s.dtype())?)? * 2.0)?))
            }),
            &data,
        )?;
        let features = Features::of(&net, &data)?;
        let head = WeakFit::RidgeSum(1.0).fit(&features)?.head;
        Ok(record
            .result("ratio", Spread::of(&features)?.ratio())
            .result("accuracy", 100.0 * head.accuracy(&features)?))
    })?;
    let Some(records) = complete(&study, 4 * RUNS as usize)? else { return Ok(None) };
    let mut record = Record::start("foca-toy", here()?).config("seeds", RUNS).config("steps", STEPS);
    for optimiser in ["sgd", "adam"] {
        let found = |method| results(&records, &[("optimiser", optimiser), ("method", method)], "ratio");
        let (joint, foca) = (found("joint"), found("foca"));
        record = record
            .result(&format!("{optimiser}_joint"), mean(&joint))
            .result(&format!("{optimiser}_foca"), mean(&foca))
            .result(&format!("{optimiser}_share"), mean(&foca) / mean(&joint));
        let logarithms = |values: &[f64]| values.iter().map(|v| v.ln()).collect::<Vec<f64>>();
        let difference = paired(logarithms(&foca), logarithms(&joint), 0.95)?.difference;
        // Shares of matched seeds: their geometric mean, with its interval.
        for (name, value) in [("", difference.value), ("_low", difference.low), ("_high", difference.high)] {
            record = record.result(&format!("{optimiser}_matched{name}"), value.exp());
        }
        record = record
            .result(&format!("{optimiser}_joint_each"), joint)
            .result(&format!("{optimiser}_foca_each"), foca);
    }
    Ok(Some(record))
}
