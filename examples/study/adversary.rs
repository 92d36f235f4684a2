//! Studies of the adversary: one pair under shift and without, every loss and strength, and the search over all pairs.

use std::collections::BTreeMap;

use lastlayer::adversary::{decorrelating_weights, price_from_labels, scatter};
use lastlayer::prelude::*;
use lastlayer::train::SweepRun;

use crate::rate::{complete, deviation, mean, results, sweep};
use crate::{device, here};

const OWN: &str = "cheeks";
const RIVAL: &str = "glasses";

/// The two parts of a validation set: one to choose on, one to look at.
struct Sets {
    train: Dataset,
    halves: [Dataset; 2],
    test: Dataset,
}

/// Critters in 16 by 16 pixels, drawn anew for each seed. Validation and test come from one distribution.
fn critters(preset: &str, seed: u64) -> Result<Sets> {
    let preset = if preset == "shift" { Preset::Shift } else { Preset::Iid };
    let critters = Critters::new(preset, Seed::new(seed).named("critters"));
    let part = |part, n| critters.part(part, n, &device()?)?.pooled(2);
    let train = part(Part::Train, 6000)?;
    let validation = part(Part::Validation, 4000)?.centred(&train)?;
    let half = |from: usize| validation.subset(&(from..from + 2000).collect::<Vec<_>>());
    Ok(Sets {
        halves: [half(0)?, half(2000)?],
        test: part(Part::Test, 8000)?.centred(&train)?,
        train: train.centred(&train)?,
    })
}

/// Share of right decisions for an attribute.
fn accuracy(net: &dyn Split, data: &Dataset, attribute: &str) -> Result<f64> {
    let scores = Scores::new(net.scores_of(data)?.flatten_all()?, data.attribute(attribute)?)?;
    Ok(100.0 * scores.confusion(0.0)?.accuracy())
}

/// Names of the methods of the table, with their settings.
fn methods() -> Vec<(String, AdvLoss, f64, bool)> {
    let mut all = vec![("pair".to_string(), AdvLoss::MultiTask, 1.0, false)];
    let clipped = AdvLoss::WassersteinClipped { clip: 0.01 };
    for (name, loss, strengths) in [
        ("reverse", AdvLoss::Reverse, &["0_01", "0_1", "0_3", "0_5", "1", "3"][..]),
        ("flipped", AdvLoss::FlippedLabel, &["0_1", "0_3", "1"]),
        ("linear", AdvLoss::WassersteinLinear, &["0_1", "0_3", "1", "3"]),
        ("clipped", clipped, &["1", "10", "100"]),
    ] {
        for strength in strengths {
            all.push((format!("{name}_{strength}"), loss, number(strength), false));
        }
    }
    for (name, loss) in [("reverse", AdvLoss::Reverse), ("linear", AdvLoss::WassersteinLinear)] {
        for strength in ["0_3", "1"] {
            all.push((format!("{name}_decorrelated_{strength}"), loss, number(strength), true));
        }
    }
    all
}

/// A number whose point is written as an underscore, because keys of records must not have one.
fn number(text: &str) -> f64 {
    text.replace('_', ".").parse().unwrap_or(f64::NAN)
}

/// Rates and penalties with which the single task is tried, as many as there are contests.
fn singles() -> Vec<(String, f64, f64)> {
    let (rates, penalties) = ([3e-4, 1e-3, 3e-3], [0.0, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2]);
    let all = (0..rates.len()).flat_map(|r| (0..penalties.len()).map(move |p| (r, p)));
    all.map(|(r, p)| (format!("r{}_p{p}", r + 1), rates[r], penalties[p])).collect()
}

/// Trains a method of the table, keeping the epoch that is best on the first half of the validation set.
fn train(method: &str, sets: &Sets, seed: Seed) -> Result<Adversary> {
    let (mut rate, mut penalty) = (1e-3, 0.0);
    let (mut contest, mut rivals) = (Contest::default(), vec![RIVAL]);
    if let Some((_, loss, strength, decorrelated)) = methods().into_iter().find(|(name, ..)| name == method) {
        let rival_steps = match loss {
            // One step for each side in turn; the paper alternates and gives no counts.
            AdvLoss::FlippedLabel => 1,
            // As often as critics with clipped weights usually step.
            AdvLoss::WassersteinClipped { .. } => 5,
            _ => contest.rival_steps,
        };
        contest = Contest { loss, strength, decorrelated, rival_steps, ..contest };
    } else if let Some((_, r, p)) = singles().into_iter().find(|(name, ..)| name == method) {
        (rate, penalty, rivals) = (r, p, Vec::new());
    } else {
        match method {
            "single" | "weighted" => rivals = Vec::new(),
            // All free attributes but its own; and the salient ones among them.
            "several" => {
                rivals = vec!["glasses", "smile", "mouth_open", "red_lips", "brows", "collar"];
                contest = Contest { loss: AdvLoss::Reverse, strength: 0.3, ..contest };
            }
            // The paper's own, heads and features at once.
            "at_once_0_3" | "at_once_1" => {
                let strength = number(&method["at_once_".len()..]);
                contest = Contest { loss: AdvLoss::Reverse, strength, rival_steps: 1, ..contest };
            }
            other => return Err(Error::config("method", other, "one of the table's")),
        }
    }
    let plan = zoo::mlp_on(&[3, 16, 16], &[16])?;
    let mut adversary = Adversary::new(plan, &sets.train, &[OWN], &rivals, contest, seed, &device()?)?;
    let trainer = Trainer::adam(rate).decay(Decay::Penalty(penalty)).epochs(20).batch(64).seed(seed).silent();
    let net = adversary.net().clone();
    let validate = || accuracy(&net, &sets.halves[0], OWN);
    if method == "weighted" {
        // The single task with decorrelating weights on its own loss.
        let labels = |name: &str| -> Result<Vec<u8>> {
            Ok(sets.train.attribute(name)?.numbers()?.iter().map(|v| u8::from(*v > 0.5)).collect())
        };
        let weights = decorrelating_weights(&labels(OWN)?, &labels(RIVAL)?)?;
        trainer.fit_validated(
            &mut Minimise::new(&net, |b| {
                let s = net.forward(&b.x, b.pass())?;
                let w: Vec<f32> = b.rows.iter().map(|row| weights[*row] as f32).collect();
                let each = bce_logits_each(&s, &b.data.attribute(OWN)?)?;
                Ok(Step::new((each * Tensor::new(w, s.device())?)?.mean_all()?))
            }),
            &sets.train,
            |_| validate(),
        )?;
        return Ok(adversary);
    }
    trainer.fit_validated(&mut adversary, &sets.train, |_| validate())?;
    Ok(adversary)
}

/// Cheeks against glasses: the choice on validation images, then ten fresh seeds on test images, with and without a shift.
pub fn pair(words: &[String]) -> Result<Option<Record>> {
    const FRESH: u64 = 10;
    const CHOICE: [u64; 2] = [101, 102];
    let contests: Vec<String> = methods().into_iter().map(|(name, ..)| name).collect();
    let singles: Vec<String> = singles().into_iter().map(|(name, ..)| name).collect();
    // First the choice, under shift, on the first half of the validation images.
    let choice = sweep("adversary-choice", words)?
        .vary("method", &[contests.clone(), singles.clone()].concat())
        .seeds(CHOICE);
    let sets: BTreeMap<u64, Sets> =
        CHOICE.iter().map(|seed| Ok((*seed, critters("shift", *seed)?))).collect::<Result<_>>()?;
    choice.run(here()?, |run: &SweepRun, record| {
        let sets = &sets[&run.seed.value()];
        let adversary = train(run.text("method")?, sets, run.seed)?;
        let net = adversary.net();
        let [first, second] = [0, 1].map(|half| accuracy(net, &sets.halves[half], OWN));
        Ok(record.result("first", first?).result("second", second?))
    })?;
    let tried = (contests.len() + singles.len()) * CHOICE.len();
    let Some(chosen) = complete(&choice, tried)? else { return Ok(None) };
    let on_first = |method: &String| mean(&results(&chosen, &[("method", method)], "first"));
    let best = |names: &[String]| {
        let best = names.iter().max_by(|a, b| on_first(a).total_cmp(&on_first(b)));
        best.cloned().ok_or_else(|| Error::config("methods", "none", "at least one"))
    };
    let adversaries: Vec<String> = contests.iter().filter(|name| *name != "pair").cloned().collect();
    let (adversary, single) = (best(&adversaries)?, best(&singles)?);
    // Then everything again, with fresh images, starts and batches.
    let mut all: Vec<String> =
        ["single", "weighted", "several", "at_once_0_3", "at_once_1"].map(String::from).to_vec();
    all.extend(contests.iter().cloned());
    all.push(single.clone());
    let study = sweep("adversary-pair", words)?
        .vary("preset", &["shift", "iid"])
        .vary("method", &all)
        .seeds(1..=FRESH);
    let mut sets = BTreeMap::new();
    for preset in ["shift", "iid"] {
        for seed in 1..=FRESH {
            sets.insert((preset.to_string(), seed), critters(preset, seed)?);
        }
    }
    study.run(here()?, |run: &SweepRun, record| {
        let sets = &sets[&(run.text("preset")?.to_string(), run.seed.value())];
        let adversary = train(run.text("method")?, sets, run.seed)?;
        let net = adversary.net();
        let leak = leakage(net, &sets.train, &sets.halves[1], RIVAL)?;
        let record = record
            .result("test", accuracy(net, &sets.test, OWN)?)
            .result("leak", 100.0 * leak.auc.value)
            .result("leak_balanced", 100.0 * leak.balanced);
        Ok(match adversary.contest.loss {
            AdvLoss::MultiTask => {
                record.result("rival", accuracy(&adversary.rival_net()?, &sets.test, RIVAL)?)
            }
            _ => record,
        })
    })?;
    let Some(records) = complete(&study, 2 * all.len() * FRESH as usize)? else { return Ok(None) };
    let mut record = Record::start("adversary-pair", here()?)
        .config("seeds", FRESH)
        .config("chosen_adversary", adversary.clone())
        .config("chosen_single", single.clone())
        .config("tries", contests.len() - 1);
    let labels = |name: &str| -> Result<Vec<u8>> {
        let train = &sets[&("shift".to_string(), 1)].train;
        Ok(train.attribute(name)?.numbers()?.iter().map(|v| u8::from(*v > 0.5)).collect())
    };
    record = record.result("price", 100.0 * price_from_labels(&labels(OWN)?, &labels(RIVAL)?)?);
    for (name, method) in [("adversary", &adversary), ("single", &single)] {
        record = record.result(&format!("chosen_{name}_first"), on_first(method));
    }
    for preset in ["shift", "iid"] {
        let of = |method: &str, key: &str| results(&records, &[("preset", preset), ("method", method)], key);
        for method in &all {
            for key in ["test", "leak", "leak_balanced"] {
                let found = of(method, key);
                let name = format!("{preset}_{method}_{key}");
                record = record.result(&name, mean(&found)).result(&format!("{name}_sd"), deviation(&found));
            }
            if *method != "single" {
                record = difference(
                    record,
                    &format!("{preset}_{method}"),
                    &of(method, "test"),
                    &of("single", "test"),
                )?;
            }
        }
        // The headline: each side as it was chosen.
        record =
            difference(record, &format!("{preset}_chosen"), &of(&adversary, "test"), &of(&single, "test"))?;
        record =
            difference(record, &format!("{preset}_pair_chosen"), &of("pair", "test"), &of(&single, "test"))?;
        record = record.result(&format!("{preset}_noise"), deviation(&of("single", "test")));
    }
    Ok(Some(record))
}

/// Mean difference of matched seeds with its interval.
fn difference(record: Record, name: &str, ours: &[f64], theirs: &[f64]) -> Result<Record> {
    let difference = paired(ours, theirs, 0.95)?.difference;
    Ok(record
        .result(&format!("{name}_gain"), difference.value)
        .result(&format!("{name}_gain_low"), difference.low)
        .result(&format!("{name}_gain_high"), difference.high))
}

/// Features of a trunk that was trained on all sixteen attributes, cached, for each part.
fn cached(seed: Seed) -> Result<[Dataset; 2]> {
    let critters = Critters::new(Preset::Iid, seed.named("critters"));
    let part = |part, n| critters.part(part, n, &device()?)?.pooled(2);
    let raw = part(Part::Train, 6000)?;
    let (train, validation) = (raw.centred(&raw)?, part(Part::Validation, 4000)?.centred(&raw)?);
    let names: Vec<String> = train.names.attributes.clone();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let plan = zoo::mlp_on(&[3, 16, 16], &[256, 64])?;
    let mut all = Adversary::new(plan, &train, &names, &[], Contest::default(), seed, &device()?)?;
    Trainer::adam(1e-3).epochs(8).batch(128).seed(seed).silent().fit(&mut all, &train)?;
    let net = all.net();
    Ok([net.feature_set(&train)?, net.feature_set(&validation)?])
}

/// Negative transfer between all sixteen attributes, naive and corrected, and label correlation against it.
pub fn search(words: &[String]) -> Result<Option<Record>> {
    const PAIR_SEEDS: [u64; 5] = [1, 2, 3, 4, 5];
    let single_seeds: Vec<u64> = (1..=15).collect();
    let [train, validation] = cached(Seed::new(1))?;
    let trainer = Trainer::adam(1e-3).epochs(10).batch(128).silent();
    // The words of a study are those of the search: a part of it, or several threads, which it takes by itself.
    let shard = match words {
        [flag, value, ..] if flag == "--shard" => {
            value.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)))
        }
        _ => Some((0, 1)),
    };
    let shard = shard.ok_or_else(|| Error::config("argument", words.join(" "), "--shard i/n"))?;
    let search =
        PairSearch { hidden: [64, 64], shard, ..PairSearch::new(trainer, "target/adversary-search") };
    let transfer = search.run(&train, &validation, &PAIR_SEEDS, &single_seeds)?;
    let names = &train.names.attributes;
    let m = names.len();
    if transfer.difference(m - 2, m - 1).is_err() || shard.1 > 1 {
        return Ok(None);
    }
    let naive = transfer.naive_negative().len();
    let flagged = (0..m).filter(|a| transfer.naive_worst(*a).is_ok_and(|worst| worst.is_some())).count();
    let significant = transfer.significant(0.1)?;
    let partners = transfer.partners(0.05)?;
    let cloud = scatter(train.attributes()?, &transfer)?;
    let numbers = |array: &Array2<f64>| {
        array.iter().map(|v| if v.is_nan() { 0.0 } else { 100.0 * v }).collect::<Vec<f64>>()
    };
    let mut record = Record::start("adversary-search", here()?)
        .config("pair_seeds", PAIR_SEEDS.len())
        .config("single_seeds", single_seeds.len())
        .config("attributes", names.clone())
        .result("noise", 100.0 * transfer.noise()?)
        .result("noise_of_difference", 100.0 * transfer.noise_of_difference()?)
        .result("shared_luck", transfer.shared_luck()?)
        .result("pairs", (m * (m - 1)) as f64)
        .result("naive_pairs", naive as f64)
        .result("naive_attributes", flagged as f64)
        .result("significant_pairs", significant.iter().filter(|s| **s).count() as f64)
        .result("significant_attributes", partners.len() as f64)
        .result("matrix", numbers(&transfer.matrix()))
        .result("shrunken", numbers(&transfer.shrunken()?))
        .result("significant", significant.iter().map(|s| f64::from(u8::from(*s))).collect::<Vec<f64>>())
        .result("scatter_r", cloud.r.value)
        .result("scatter_r_low", cloud.r.low)
        .result("scatter_r_high", cloud.r.high)
        .result("scatter_phi", cloud.points.iter().map(|p| p.phi).collect::<Vec<f64>>())
        .result("scatter_change", cloud.points.iter().map(|p| p.change).collect::<Vec<f64>>());
    for partner in &partners {
        record = record.result(
            &format!("partner_{}", partner.names[0]),
            format!("{}, {:.2}", partner.names[1], 100.0 * partner.effect.mean),
        );
    }
    Ok(Some(record))
}
