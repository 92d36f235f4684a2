//! Studies of intersection regularisation: which hidden attributes emerge from species labels, by method and by setting; and
//! animals told apart by their attributes.

use std::collections::BTreeSet;

use lastlayer::data::critters::ATTRIBUTES;
use lastlayer::intersection::{Divisor, Sparsity};
use lastlayer::prelude::*;
use lastlayer::train::SweepRun;

use crate::foca::all_critters;
use crate::rate::{complete, deviation, mean, results, sweep};
use crate::{device, here, watched};

const EPOCHS: usize = 20;
const BATCH: usize = 200;
/// The one at which the quantised network has the best accuracy on validation images, of those in `variants`.
const RATE: f64 = 3e-3;
/// Draws behind each null.
const DRAWS: usize = 200;

/// The eight attributes that decide the species, and the eight that do not.
fn key() -> &'static [&'static str] {
    &ATTRIBUTES[..8]
}

fn free() -> &'static [&'static str] {
    &ATTRIBUTES[8..]
}

/// What is varied, with the book's defaults.
#[derive(Clone, Copy)]
struct Setting {
    width: usize,
    quantiser: Quantiser,
    agreement: Agreement,
    rate: f64,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting { width: 64, quantiser: Quantiser::default(), agreement: Agreement::default(), rate: RATE }
    }
}

/// The rows of the ablation.
fn ablation(name: &str) -> Setting {
    let with = |tree: f64, sparse: f64| Setting {
        agreement: Agreement { tree, sparse, ..Agreement::default() },
        ..Setting::default()
    };
    match name {
        "quantised" => with(0.0, 0.0),
        "l1" => with(0.0, 1e-3),
        "tree" => with(1.0, 0.0),
        "l1_10" => with(0.0, 1e-2),
        "both_10" => with(1.0, 1e-2),
        "l1_50" => with(0.0, 5e-2),
        "both_50" => with(1.0, 5e-2),
        _ => with(1.0, 1e-3),
    }
}

/// Key and free fidelity of codes, by both kinds of test.
struct Fidelities {
    key: f64,
    key_threshold: f64,
    free: f64,
}

fn fidelities(codes: &Codes, data: &Dataset) -> Result<Fidelities> {
    let equality = AttributeMatches::of(codes, data, Binarise::Equality, Score::F1)?;
    let threshold = AttributeMatches::of(codes, data, Binarise::Threshold, Score::F1)?;
    Ok(Fidelities {
        key: equality.fidelity_of(key())?,
        key_threshold: threshold.fidelity_of(key())?,
        free: equality.fidelity_of(free())?,
    })
}

/// A trained network, with the key fidelity on validation images after each epoch if it is asked for.
fn train(
    setting: &Setting,
    parts: &Parts,
    seed: Seed,
    watched: bool,
) -> Result<(Intersection, Vec<f64>, f64)> {
    let plan = zoo::mlp_on(&[3, 16, 16], &[128, setting.width])?;
    let net = code_net(plan, setting.quantiser, 64, parts.train.k(), seed, &device()?)?;
    let mut both = Intersection::new(&net, &parts.train, setting.agreement)?;
    let trainer = Trainer::adam(setting.rate).batch(BATCH).epochs(EPOCHS).seed(seed).silent();
    let mut by_epoch = Vec::new();
    let per_epoch = parts.train.n().div_ceil(BATCH);
    let look = |both: &Intersection, b: &Batch| {
        if watched && b.step > 0 && b.step.is_multiple_of(per_epoch) {
            by_epoch.push(fidelities(&both.codes(&parts.validation)?, &parts.validation)?.key);
        }
        Ok(())
    };
    let run = trainer.fit(&mut watched::before(&mut both, look), &parts.train)?;
    if watched {
        by_epoch.push(fidelities(&both.codes(&parts.validation)?, &parts.validation)?.key);
    }
    Ok((both, by_epoch, run.seconds))
}

/// All that is measured on a trained network.
fn measure(both: &Intersection, parts: &Parts, seed: Seed, mut record: Record) -> Result<Record> {
    let (codes, test) = (both.codes(&parts.test)?, &parts.test);
    let tree = both.final_tree(&parts.train)?;
    let found = fidelities(&codes, test)?;
    record = record
        .result("accuracy", 100.0 * both.accuracy(test)?)
        .result("tree_accuracy", 100.0 * tree.accuracy(&codes, &test.labels()?)?)
        .result("key", found.key)
        .result("key_threshold", found.key_threshold)
        .result("free", found.free)
        .result("zeros", 100.0 * codes.zeros());
    let agree = both.net().scores_of(test)?.argmax(1)?.to_vec1::<u32>()?;
    let same = tree.classify(&codes)?.iter().zip(&agree).filter(|(a, b)| a == b).count();
    record = record.result("agreement", 100.0 * same as f64 / agree.len() as f64);
    let mcc = AttributeMatches::of(&codes, test, Binarise::Equality, Score::Mcc)?;
    record = record.result("key_mcc", mcc.fidelity_of(key())?).result("free_mcc", mcc.fidelity_of(free())?);
    // Tests chosen on validation images, scored on the test.
    for (name, binarise) in [("held_out", Binarise::Equality), ("held_out_threshold", Binarise::Threshold)] {
        let chosen =
            AttributeMatches::of(&both.codes(&parts.validation)?, &parts.validation, binarise, Score::F1)?;
        record = record.result(&format!("key_{name}"), chosen.again(&codes, test)?.fidelity_of(key())?);
    }
    named(&tree, &codes, test, seed, chance(&codes, test, seed, record)?)
}

/// What chance gives: fidelity after rows were shuffled and after classes swapped their attributes, how far the key is above
/// the latter, and whether the p-value is at most .05.
fn chance(codes: &Codes, data: &Dataset, seed: Seed, mut record: Record) -> Result<Record> {
    for (binarise, tests) in [(Binarise::Equality, ""), (Binarise::Threshold, "_threshold")] {
        let found = AttributeMatches::of(codes, data, binarise, Score::F1)?;
        for (null, word) in [(Null::Rows, "null"), (Null::Classes, "class_null")] {
            let drawn = found.null(null, codes, data, DRAWS, seed.named("null"))?;
            for (names, part) in [(key(), "key"), (free(), "free")] {
                let values = drawn.iter().map(|r| r.fidelity_of(names)).collect::<Result<Vec<f64>>>()?;
                let name = format!("{part}{tests}_{word}");
                record = record
                    .result(&name, mean(&values))
                    .result(&format!("{name}_less"), found.fidelity_of(names)? - mean(&values))
                    .result(&format!("{name}_p"), found.p_value(&drawn, names)?)
                    .result(&format!("{name}_below"), significant(found.p_value(&drawn, names)?));
            }
            for name in key() {
                let p = found.p_value(&drawn, &[name])?;
                record = record.result(&format!("{name}{tests}_{word}_below"), significant(p));
            }
        }
    }
    Ok(record)
}

fn significant(p: f64) -> f64 {
    f64::from(u8::from(p <= 0.05))
}

/// Which attributes a tree is named after; and how many it would be if only rows were shuffled.
fn named(tree: &Tree, codes: &Codes, data: &Dataset, seed: Seed, mut record: Record) -> Result<Record> {
    let readout = read_tree(tree, codes, data, seed.named("readout"))?;
    let named = readout.attributes();
    let known = |named: &[String], names: &[&str]| {
        named.iter().filter(|name| names.contains(&name.as_str())).count() as f64
    };
    let by_rows = readout.readings.iter().filter(|r| r.mcc.abs() >= readout.least && r.p_rows <= 0.05);
    let by_rows: BTreeSet<String> = by_rows.map(|r| r.attribute.clone()).collect();
    let by_rows: Vec<String> = by_rows.into_iter().collect();
    record = record
        .result("read_key", known(&named, key()))
        .result("read_free", known(&named, free()))
        .result("read_key_rows", known(&by_rows, key()))
        .result("read_free_rows", known(&by_rows, free()))
        .result("questions", readout.readings.len() as f64);
    for name in key() {
        record = record.result(&format!("read_{name}"), f64::from(u8::from(named.iter().any(|n| n == name))));
    }
    Ok(record)
}

/// What codes get that are functions of the species and otherwise random: 64 features of 16 levels.
fn random(parts: &Parts, seed: Seed, record: Record) -> Result<Record> {
    let codes = |data: &Dataset| -> Result<Codes> {
        let code = |y: u32, j: u64| seed.named("random").stream(j).below(u64::from(y), 16);
        let values = data.labels()?.into_iter().flat_map(|y| (0..64).map(move |j| code(y, j)));
        Codes::from_bytes(values.map(|v| Ok(v? as u8)).collect::<Result<Vec<u8>>>()?, 64, 16)
    };
    let (seen, test) = (codes(&parts.train)?, codes(&parts.test)?);
    let tree = Cart::default().fit(&seen, &one_hot(&parts.train.y, parts.train.k(), DType::F64)?)?;
    let found = fidelities(&test, &parts.test)?;
    let record = record
        .result("key", found.key)
        .result("key_threshold", found.key_threshold)
        .result("free", found.free);
    named(&tree, &test, &parts.test, seed, chance(&test, &parts.test, seed, record)?)
}

/// Means, deviations and gains over a baseline of every measure.
fn summarised(mut record: Record, records: &[Record], method: &str, settings: &[(&str, &str)]) -> Record {
    let numbers = records[0].results.iter().filter(|(_, value)| value.is_number());
    for (measure, _) in numbers {
        let found = results(records, settings, measure);
        let name = format!("{method}_{measure}");
        record = record.result(&name, mean(&found));
        if found.len() > 1 {
            record = record.result(&format!("{name}_sd"), deviation(&found));
        }
    }
    record
}

/// Difference of two methods in a measure, over matched seeds, with its interval.
fn difference(record: Record, name: &str, ours: &[f64], theirs: &[f64]) -> Result<Record> {
    let d = paired(ours, theirs, 0.95)?.difference;
    Ok(record
        .result(name, d.value)
        .result(&format!("{name}_low"), d.low)
        .result(&format!("{name}_high"), d.high))
}

fn started(name: &str, seeds: u64) -> Result<Record> {
    Ok(Record::start(name, here()?)
        .config("seeds", seeds)
        .config("epochs", EPOCHS)
        .config("batch", BATCH)
        .config("rate", RATE)
        .config("set", "critters plain, 6 000, 1 500 and 4 000 images in 16 by 16 pixels")
        .config("trunk", "768-128-64"))
}

/// The ablation: quantised, with a penalty, with a tree, with both; a soft tree on the pixels beside them.
pub fn critters_study(words: &[String]) -> Result<Option<Record>> {
    const SEEDS: u64 = 10;
    const METHODS: [&str; 10] =
        ["quantised", "l1", "tree", "both", "l1_10", "both_10", "l1_50", "both_50", "soft", "random"];
    let sets = all_critters(Preset::Plain, SEEDS)?;
    let study = sweep("intersection-critters", words)?.vary("method", &METHODS).seeds(1..=SEEDS);
    study.run(here()?, |run: &SweepRun, record| {
        let parts = &sets[&run.seed.value()];
        let method = run.text("method")?;
        match method {
            "soft" => return soft(parts, run.seed, record),
            "random" => return random(parts, run.seed, record),
            _ => {}
        }
        let (both, by_epoch, seconds) = train(&ablation(method), parts, run.seed, true)?;
        measure(&both, parts, run.seed, record.result("seconds", seconds).result("by_epoch", by_epoch))
    })?;
    let Some(records) = complete(&study, METHODS.len() * SEEDS as usize)? else { return Ok(None) };
    let mut record = started("intersection-critters", SEEDS)?.config("draws", DRAWS);
    let of = |method: &str, measure: &str| results(&records, &[("method", method)], measure);
    for method in METHODS {
        let own: Vec<Record> = records.iter().filter(|r| r.config["method"] == method).cloned().collect();
        record = summarised(record, &own, method, &[("method", method)]);
        let curves: Vec<Vec<f64>> = own
            .iter()
            .filter_map(|r| {
                Some(r.results.get("by_epoch")?.as_array()?.iter().filter_map(|v| v.as_f64()).collect())
            })
            .collect();
        if !curves.is_empty() {
            let at = |epoch: usize| curves.iter().map(|c| c[epoch]).collect::<Vec<f64>>();
            let means: Vec<f64> = (0..EPOCHS).map(|e| mean(&at(e))).collect();
            let deviations: Vec<f64> = (0..EPOCHS).map(|e| deviation(&at(e))).collect();
            record = record
                .result(&format!("{method}_by_epoch"), means)
                .result(&format!("{method}_by_epoch_sd"), deviations);
        }
    }
    for (ours, theirs) in [
        ("l1", "quantised"),
        ("tree", "quantised"),
        ("both", "quantised"),
        ("both", "l1"),
        ("both", "tree"),
        ("both", "l1_10"),
        ("both_10", "l1_10"),
        ("l1_10", "quantised"),
    ] {
        for measure in [
            "key",
            "key_threshold",
            "key_class_null",
            "key_class_null_less",
            "key_threshold_class_null",
            "key_threshold_class_null_less",
            "key_mcc",
            "key_held_out",
            "accuracy",
            "tree_accuracy",
            "free",
        ] {
            let name = format!("{ours}_less_{theirs}_{measure}");
            record = difference(record, &name, &of(ours, measure), &of(theirs, measure))?;
        }
    }
    // Nothing is learnt for these: floors and what the species alone would tell, on the test images.
    let (mut floors, mut oracles) = (Vec::new(), Vec::new());
    for parts in sets.values() {
        let prevalence = parts.test.a.as_ref().map(|a| a.mean(0)).transpose()?;
        let prevalence = prevalence.map_or(Ok(Vec::new()), |p| p.to_dtype(DType::F64)?.to_vec1::<f64>())?;
        floors.push(prevalence.into_iter().map(intersection::floor).collect::<Vec<f64>>());
        oracles.push(class_oracle(&parts.test)?);
    }
    for (name, lists) in [("floor", &floors), ("oracle", &oracles)] {
        let over = |from: usize| mean(&lists.iter().map(|l| mean(&l[from..from + 8])).collect::<Vec<f64>>());
        record = record.result(&format!("{name}_key"), over(0)).result(&format!("{name}_free"), over(8));
    }
    Ok(Some(record))
}

/// A soft tree of depth 5 on the pixels: its questions are its features.
fn soft(parts: &Parts, seed: Seed, record: Record) -> Result<Record> {
    let mut soft = SoftTree::new(768, parts.train.k(), 5, seed, &device()?)?;
    let trainer = Trainer::adam(1e-2).batch(BATCH).epochs(2 * EPOCHS).seed(seed).silent();
    let run = trainer.fit(&mut soft, &parts.train)?;
    let x = parts.test.inputs()?.flatten_from(1)?;
    let answers = soft.answers(&x)?;
    let found = fidelities(&answers, &parts.test)?;
    let right = |reading| -> Result<f64> {
        let said = soft.predict(&x, reading)?.argmax(1)?;
        Ok(100.0 * said.eq(&parts.test.y)?.to_dtype(DType::F64)?.mean_all()?.to_scalar::<f64>()?)
    };
    let record = record
        .result("seconds", run.seconds)
        .result("accuracy", right(SoftReading::Average)?)
        .result("tree_accuracy", right(SoftReading::MostProbable)?)
        .result("key", found.key)
        .result("key_threshold", found.key_threshold)
        .result("free", found.free);
    chance(&answers, &parts.test, seed, record)
}

/// Width and bits: three widths, three numbers of bits, with and without the method.
pub fn grid(words: &[String]) -> Result<Option<Record>> {
    const SEEDS: u64 = 3;
    let (widths, bits, methods) = (["16", "32", "64"], ["2", "4", "8"], ["quantised", "both"]);
    let sets = all_critters(Preset::Plain, SEEDS)?;
    let study = sweep("intersection-grid", words)?
        .vary("width", &widths)
        .vary("bits", &bits)
        .vary("method", &methods)
        .seeds(1..=SEEDS);
    study.run(here()?, |run: &SweepRun, record| {
        let number = |key: &str| -> Result<usize> {
            run.text(key)?.parse().map_err(|_| Error::config(key, &run.name, "a number"))
        };
        let mut setting = Setting { width: number("width")?, ..ablation(run.text("method")?) };
        setting.quantiser.bits = number("bits")? as u32;
        short(&setting, &sets[&run.seed.value()], run.seed, record)
    })?;
    let Some(records) = complete(&study, 18 * SEEDS as usize)? else { return Ok(None) };
    let mut record = started("intersection-grid", SEEDS)?;
    for width in widths {
        for bits in bits {
            let at = |method: &'static str| [("width", width), ("bits", bits), ("method", method)];
            for method in methods {
                record = summarised(record, &records, &format!("{width}_{bits}_{method}"), &at(method));
            }
            let of = |method| results(&records, &at(method), "key");
            record = difference(record, &format!("{width}_{bits}_gain"), &of("both"), &of("quantised"))?;
        }
    }
    Ok(Some(record))
}

/// The share of penalised features, by norm and weight, with a tree.
pub fn share(words: &[String]) -> Result<Option<Record>> {
    const SEEDS: u64 = 2;
    let shares = [("0", 0.0), ("10", 0.1), ("30", 0.3), ("50", 0.5), ("80", 0.8), ("100", 1.0)];
    let weights = [("1", 1e-3), ("10", 1e-2), ("50", 5e-2)];
    let norms = ["L1", "L2"];
    let sets = all_critters(Preset::Plain, SEEDS)?;
    let study = sweep("intersection-share", words)?
        .vary("share", &shares.map(|(name, _)| name))
        .vary("weight", &weights.map(|(name, _)| name))
        .vary("norm", &norms)
        .seeds(1..=SEEDS);
    study.run(here()?, |run: &SweepRun, record| {
        let pick = |list: &[(&str, f64)], key: &str| -> Result<f64> {
            let text = run.text(key)?;
            let found = list.iter().find(|(name, _)| *name == text);
            found.map(|(_, value)| *value).ok_or_else(|| Error::config(key, text, "one of the study's"))
        };
        let mut setting = Setting::default();
        setting.agreement.share = pick(&shares, "share")?;
        setting.agreement.sparse = pick(&weights, "weight")?;
        setting.agreement.norm = if run.text("norm")? == "L2" { Sparsity::L2 } else { Sparsity::L1 };
        short(&setting, &sets[&run.seed.value()], run.seed, record)
    })?;
    let Some(records) = complete(&study, 36 * SEEDS as usize)? else { return Ok(None) };
    let mut record = started("intersection-share", SEEDS)?;
    for (weight, _) in weights {
        for norm in norms {
            for (share, _) in shares {
                let at = [("share", share), ("weight", weight), ("norm", norm)];
                record = summarised(record, &records, &format!("{norm}_{weight}_{share}"), &at);
            }
        }
    }
    Ok(Some(record))
}

/// Ranges and gradients of the quantiser, batches between fits, and the printed normaliser of the penalty.
pub fn variants(words: &[String]) -> Result<Option<Record>> {
    const SEEDS: u64 = 5;
    const VARIANTS: [&str; 15] = [
        "running",
        "running_each",
        "batch",
        "batch_full",
        "printed",
        "printed_full",
        "every_5",
        "every_25",
        "every_epoch",
        "over_set",
        "variance",
        "quantised_0_001",
        "quantised_0_003",
        "quantised_0_01",
        "both_0_001",
    ];
    let sets = all_critters(Preset::Plain, SEEDS)?;
    let study = sweep("intersection-variants", words)?.vary("variant", &VARIANTS).seeds(1..=SEEDS);
    study.run(here()?, |run: &SweepRun, record| {
        let mut setting = Setting::default();
        let (quantiser, agreement) = (&mut setting.quantiser, &mut setting.agreement);
        match run.text("variant")? {
            "running_each" => quantiser.range = Range::RunningEach,
            "batch" => quantiser.range = Range::Batch,
            "batch_full" => (quantiser.range, quantiser.gradient) = (Range::Batch, RangeGradient::Full),
            "printed" => quantiser.range = Range::Printed,
            "printed_full" => (quantiser.range, quantiser.gradient) = (Range::Printed, RangeGradient::Full),
            "every_5" => agreement.every = 5,
            "every_25" => agreement.every = 25,
            "every_epoch" => agreement.every = usize::MAX,
            "over_set" => agreement.over = Divisor::Set,
            "variance" => agreement.cart.criterion = Criterion::Variance,
            "quantised_0_001" => setting = Setting { rate: 1e-3, ..ablation("quantised") },
            "quantised_0_003" => setting = Setting { rate: 3e-3, ..ablation("quantised") },
            "quantised_0_01" => setting = Setting { rate: 1e-2, ..ablation("quantised") },
            "both_0_001" => setting.rate = 1e-3,
            _ => {}
        }
        short(&setting, &sets[&run.seed.value()], run.seed, record)
    })?;
    let Some(records) = complete(&study, VARIANTS.len() * SEEDS as usize)? else { return Ok(None) };
    let mut record = started("intersection-variants", SEEDS)?;
    for variant in VARIANTS {
        record = summarised(record, &records, variant, &[("variant", variant)]);
        let of = |variant: &str| results(&records, &[("variant", variant)], "key");
        if variant != "running" {
            record = difference(record, &format!("{variant}_gain"), &of(variant), &of("running"))?;
        }
    }
    Ok(Some(record))
}

/// Accuracies, fidelities and sparsity: what the larger studies keep of a run.
fn short(setting: &Setting, parts: &Parts, seed: Seed, record: Record) -> Result<Record> {
    let (both, _, seconds) = train(setting, parts, seed, false)?;
    let codes = both.codes(&parts.test)?;
    let tree = both.final_tree(&parts.train)?;
    let found = fidelities(&codes, &parts.test)?;
    Ok(record
        .result("seconds", seconds)
        .result("accuracy", 100.0 * both.accuracy(&parts.test)?)
        .result("validation", 100.0 * both.accuracy(&parts.validation)?)
        .result("tree_accuracy", 100.0 * tree.accuracy(&codes, &parts.test.labels()?)?)
        .result("key", found.key)
        .result("key_threshold", found.key_threshold)
        .result("free", found.free)
        .result("zeros", 100.0 * codes.zeros()))
}

/// Fifty animals told apart by their attributes alone: how many questions a greedy tree asks.
pub fn animals() -> Result<Record> {
    let animals = load::awa2(load::data_dir()?.join("awa2"))?;
    let (n, d) = animals.binary.dim();
    let classes: Array2<f64> = Array2::eye(n);
    let codes = Codes::new(&animals.binary, 2)?;
    // Percentages in four bits; -1 where nobody was asked counts as none.
    let graded = animals.continuous.mapv(|p| (p.max(0.0) / 100.0 * 15.0).round());
    let graded = Codes::new(&graded, 16)?;
    let mut record =
        Record::start("intersection-animals", here()?).config("classes", n).config("attributes", d);
    for (name, codes) in [("binary", &codes), ("graded", &graded)] {
        for (criterion, word) in [(Criterion::Information, "information"), (Criterion::Variance, "variance")]
        {
            let cart = Cart { depth: 20, criterion, ..Cart::default() };
            let tree = cart.fit(codes, &classes)?;
            let depths = tree.depths();
            let leaves = tree.leaf_of(codes)?;
            let questions: Vec<f64> = leaves.iter().map(|leaf| depths[*leaf] as f64).collect();
            let mut asked: Vec<usize> = tree.nodes().iter().filter_map(|n| Some(n.split?.feature)).collect();
            asked.sort_unstable();
            asked.dedup();
            let labels: Vec<u32> = (0..n as u32).collect();
            record = record
                .result(&format!("{name}_{word}_accuracy"), 100.0 * tree.accuracy(codes, &labels)?)
                .result(&format!("{name}_{word}_leaves"), tree.leaves() as f64)
                .result(&format!("{name}_{word}_depth"), tree.depth() as f64)
                .result(&format!("{name}_{word}_questions"), mean(&questions))
                .result(&format!("{name}_{word}_attributes"), asked.len() as f64);
            if (name, word) == ("binary", "information") {
                let first =
                    |node: usize| tree.nodes()[node].split.map(|s| animals.attributes[s.feature].clone());
                let root = tree.nodes()[0].split.map(|s| [0, s.high, s.low]);
                for (place, node) in ["first", "then_yes", "then_no"].iter().zip(root.into_iter().flatten()) {
                    record = record.result(place, first(node).unwrap_or_default());
                }
            }
        }
    }
    // Animals that no attribute tells apart: rows that are equal.
    let mut rows: Vec<&[u8]> = codes.rows().collect();
    rows.sort_unstable();
    rows.dedup();
    // No tree of yes and no asks less on average: as many leaves as animals, on two neighbouring depths.
    let whole = (n as f64).log2().floor();
    let least = whole + 2.0 * (n as f64 - whole.exp2()) / n as f64;
    Ok(record.result("distinct", rows.len() as f64).result("least_questions", least))
}
