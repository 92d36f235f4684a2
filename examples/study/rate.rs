//! Studies of the rate methods: Gaussians with a known optimum, Critters with known Bayes limits, Adult with groups.

use lastlayer::distribution::normal_cdf;
use lastlayer::prelude::*;
use lastlayer::rate::Within;
use lastlayer::train::SweepRun;

use crate::{device, here};

/// A study of many runs, in its own folder below `target`, one record each.
pub fn sweep(name: &str, words: &[String]) -> Result<Sweep> {
    Sweep::new(name, format!("target/{name}")).arguments(words.iter().cloned())
}

/// Whether all runs of a study are there, so that its record can be made.
pub fn complete(sweep: &Sweep, runs: usize) -> Result<Option<Vec<Record>>> {
    let records = sweep.records()?;
    Ok((records.len() >= runs).then_some(records))
}

/// Results of the runs that have these settings, in the order of their seeds.
pub fn results(records: &[Record], settings: &[(&str, &str)], key: &str) -> Vec<f64> {
    let matching = records.iter().filter(|record| {
        settings.iter().all(|(key, value)| record.config.get(*key).is_some_and(|found| found == value))
    });
    matching.filter_map(|record| record.results.get(key)?.as_f64()).collect()
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub fn deviation(values: &[f64]) -> f64 {
    let centre = mean(values);
    (values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}

// --------------------------------------------------------------------------------------------------------------------

const ADAPTIVE: Penalty = Penalty::Adaptive { factor: 2.0 };

/// What bottom and last layer follow.
type Rules = (Rule, Rule);

const CROSS_ENTROPY: Rules = (Rule::Logistic, Rule::Logistic);
const ICO: Rules = (Rule::Implicit, Rule::Implicit);
const LAST_LAYER: Rules = (Rule::Nothing, Rule::Implicit);

fn game(regret: Regret, dual_lr: f64) -> Rules {
    let game = Rule::Game { regret, dual_lr };
    (game, game)
}

/// A method of the table by its name.
fn method(name: &str) -> Result<Rules> {
    let second = |penalty| (Rule::Penalty(penalty), Rule::Implicit);
    let ablation = |penalty| (Rule::Penalty(penalty), Rule::Penalty(penalty));
    Ok(match name {
        "ce" => CROSS_ENTROPY,
        "tfco" => game(Regret::Swap, 0.5),
        "tfco_external" => game(Regret::External, 0.5),
        "lagrangian" => game(Regret::Lagrangian { radius: f64::INFINITY }, 0.5),
        "ico" => ICO,
        "m1" => (Rule::Logistic, Rule::Implicit),
        "m2" | "m2_same_batch" => second(Penalty::Absolute(20.0)),
        "m2_eta_1" => second(Penalty::Absolute(1.0)),
        "m2_eta_5" => second(Penalty::Absolute(5.0)),
        "ablation" => ablation(Penalty::Absolute(20.0)),
        "m2_adaptive" => second(ADAPTIVE),
        "ablation_adaptive" => ablation(ADAPTIVE),
        "last" => LAST_LAYER,
        other => return Err(Error::config("method", other, "one of the table's")),
    })
}

/// Three features of six coordinates and one score, all linear: too few for what the task would need.
fn linear_net(seed: Seed, device: &Device) -> Result<SplitNet> {
    let linear = |width| zoo::linear(width, false);
    let phi = Plan { input: vec![6], layers: linear(3), init: Default::default() };
    SplitNet::with_head(phi, linear(1), seed, DType::F32, device)
}

/// The one vector that a linear net multiplies with.
fn direction(net: &SplitNet) -> Result<Vec<f64>> {
    let w = net.last()[0].1.matmul(&net.bottom()[0].1)?;
    Ok(w.squeeze(0)?.to_dtype(DType::F64)?.to_vec1()?)
}

/// The table of the paper on three Gaussian tasks whose optimum is known. Method 1 cannot differ from cross entropy here:
/// the bottom is linear, so that it can only rest where cross entropy does.
pub fn gaussians(words: &[String]) -> Result<Option<Record>> {
    const SEEDS: u64 = 5;
    const METHODS: [&str; 15] = [
        "ce",
        "tfco",
        "tfco_external",
        "lagrangian",
        "ico",
        "m1",
        "m2",
        "ablation",
        "m2_adaptive",
        "ablation_adaptive",
        "last",
        "m2_eta_1",
        "m2_eta_5",
        "m2_same_batch",
        "ico_buffer",
    ];
    let device = device()?;
    let study = sweep("rate-gaussians", words)?
        .vary("task", &["A", "B", "C"])
        .vary("percent", &["1", "2", "5", "10"])
        .vary("method", &METHODS)
        .seeds(1..=SEEDS);
    study.run(here()?, |run, record| {
        let fpr = run.text("percent")?.parse::<f64>().unwrap_or(f64::NAN) / 100.0;
        let task = task(run.text("task")?);
        let [train, validation] = [("train", 20_000), ("validation", 5_000)]
            .map(|(part, n)| task.sample(n, run.seed.named(part), &device));
        let (train, validation) = (train?, validation?);
        let net = linear_net(run.seed, &device)?;
        gaussian_run(run, &net, &train, fpr)?;
        let w = direction(&net)?;
        let mut record = record.result("fnr", 100.0 * task.fnr_at_fpr(&w, fpr)?);
        // The threshold that a sample asks for, judged on the population.
        let goal = RateProblem::fnr_at_fpr(fpr, Surrogate::sigmoid(2.0))?;
        let (s, labels) = (net.scores_of(&train)?, Labels::of(&train)?);
        let multiplier = goal.adjoint(&s, &labels, &goal.solve(&s, &labels)?.t)?.multiplier[0];
        record = record.result("multiplier", multiplier);
        for (name, data) in [("train", train), ("validation", validation)] {
            let t = goal.hard_thresholds(net.scores_of(&data)?, &Labels::of(&data)?)?[0];
            let spread = |sds: &[f64]| w.iter().zip(sds).map(|(w, sd)| (w * sd).powi(2)).sum::<f64>().sqrt();
            let centre: f64 = w.iter().zip(&task.means[1]).map(|(w, m)| w * m).sum();
            record = record
                .result(&format!("fpr_{name}"), 100.0 * normal_cdf(-t / spread(&task.sds[0])))
                .result(&format!("fnr_{name}"), 100.0 * normal_cdf((t - centre) / spread(&task.sds[1])));
        }
        Ok(record)
    })?;
    let all = 3 * 4 * METHODS.len() * SEEDS as usize;
    let Some(records) = complete(&study, all)? else { return Ok(None) };
    let mut record = Record::start("rate-gaussians", here()?)
        .config("seeds", SEEDS)
        .config("samples", 20_000)
        .config("batch", 1024)
        .config("steps", 800)
        .config("sharpness", 2.0);
    for name in ["A", "B", "C"] {
        for percent in ["1", "2", "5", "10"] {
            let fpr = percent.parse::<f64>().unwrap_or(f64::NAN) / 100.0;
            let cell = format!("{name}_{percent}");
            record = record.result(&format!("{cell}_optimum"), 100.0 * task(name).best_fnr_at_fpr(fpr)?.1);
            for method in METHODS {
                let settings = [("task", name), ("percent", percent), ("method", method)];
                let values = results(&records, &settings, "fnr");
                record = record
                    .result(&format!("{cell}_{method}"), mean(&values))
                    .result(&format!("{cell}_{method}_sd"), deviation(&values));
                for key in ["fpr_train", "fnr_train", "fpr_validation", "fnr_validation"] {
                    record = record
                        .result(&format!("{cell}_{method}_{key}"), mean(&results(&records, &settings, key)));
                }
            }
            let settings = [("task", name), ("percent", percent), ("method", "ico")];
            record = record.result(&format!("{cell}_mu"), mean(&results(&records, &settings, "multiplier")));
        }
    }
    let seconds: f64 = records.iter().map(|record| record.seconds).sum();
    Ok(Some(record.result("seconds_per_run", seconds / records.len() as f64)))
}

fn task(name: &str) -> Gaussians {
    match name {
        "A" => Gaussians::a(),
        "B" => Gaussians::b(),
        _ => Gaussians::c(),
    }
}

/// Trains a net by the method of a run: 800 steps of Adam, the rate falling in the second half.
fn gaussian_run(run: &SweepRun, net: &SplitNet, data: &Dataset, fpr: f64) -> Result<()> {
    let trainer = Trainer::adam(0.01)
        .decay(Decay::Penalty(1e-3))
        .schedule(Schedule::Linear { from: 0.5, floor: 0.0 })
        .batch(1024)
        .epochs(40)
        .stratified()
        .silent()
        .seed(run.seed);
    let goal = RateProblem::fnr_at_fpr(fpr, Surrogate::sigmoid(2.0))?;
    let fit = |(bottom, last): Rules, policy: Option<ThresholdPolicy>| -> Result<()> {
        let mut training = RateTraining::new(net, &goal, bottom, last)?;
        if let Some(policy) = policy {
            training = training.policy(policy)?;
        }
        trainer.fit(&mut training, data).map(drop)
    };
    match run.text("method")? {
        "m2_same_batch" => fit(method("m2")?, Some(ThresholdPolicy::SolveEachStep)),
        "ico_buffer" => fit(ICO, Some(ThresholdPolicy::Buffer { samples: 10_000 })),
        "last" => {
            fit(CROSS_ENTROPY, None)?;
            fit(LAST_LAYER, None)
        }
        name => fit(method(name)?, None),
    }
}

// --------------------------------------------------------------------------------------------------------------------

/// Differences of two FNRs at a rate on resamples of the same test images, in points. The draws are the same for every
/// run, so that those of several runs can be averaged draw by draw.
fn paired_draws(ours: &[f64], theirs: &[f64], y: &[u32], fpr: f64) -> Result<Vec<f64>> {
    const DRAWS: u64 = 200;
    let classes: [Vec<usize>; 2] = [0, 1].map(|class| (0..y.len()).filter(|i| y[*i] == class).collect());
    let one = |draw| {
        let stream = Seed::new(2026).named("images").stream(draw);
        let rows: Vec<usize> = classes
            .iter()
            .enumerate()
            .flat_map(|(class, list)| {
                let own = stream.stream(class as u64);
                (0..list.len()).map(move |i| list[(own.uniform(i as u64) * list.len() as f64) as usize])
            })
            .collect();
        let labels: Vec<u32> = rows.iter().map(|i| y[*i]).collect();
        let fnr =
            |s: &[f64]| Scores::new(rows.iter().map(|i| s[*i]).collect::<Vec<_>>(), &labels)?.fnr_at_fpr(fpr);
        Ok(100.0 * (fnr(ours)? - fnr(theirs)?))
    };
    (0..DRAWS).map(one).collect()
}

/// FNR of a method less that of its peer, a mean over runs, with the ends between which 95 % of its draws lie.
fn gain(records: &[Record], attribute: &str, method: &str, percent: &str) -> Result<Cell> {
    let of =
        |name: &str| mean(&results(records, &[("attribute", attribute)], &format!("{name}_{percent}_fnr")));
    let matching = records.iter().filter(|r| r.config.get("attribute").is_some_and(|a| a == attribute));
    let key = format!("{method}_{percent}_draws");
    let lists: Vec<Vec<f64>> = matching
        .filter_map(|r| r.results.get(&key)?.as_array()?.iter().map(|v| v.as_f64()).collect())
        .collect();
    let draws = lists.iter().map(Vec::len).min().unwrap_or(0);
    let mut means: Vec<f64> =
        (0..draws).map(|draw| mean(&lists.iter().map(|list| list[draw]).collect::<Vec<_>>())).collect();
    means.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (means.get(draws / 40), means.iter().rev().nth(draws / 40)) else {
        return Err(Error::data(
            format!("target/rate-critters, {key}"),
            "no draws; remove the records and run again",
        ));
    };
    Ok(Cell::Range { value: of(method) - of("more_ce"), low: *low, high: *high })
}

/// Three attributes of Critters at four rates: a net trained by cross entropy, then four more epochs of each method.
pub fn critters(words: &[String]) -> Result<Option<Record>> {
    const SEEDS: u64 = 3;
    const ATTRIBUTES: [&str; 3] = ["cheeks", "smile", "red_lips"];
    const METHODS: [&str; 5] = ["ce", "more_ce", "ico", "m2_adaptive", "last"];
    let device = device()?;
    let name = here()?;
    let critters = Critters::new(Preset::Plain, Seed::new(2026));
    let parts = [(Part::Train, 6000), (Part::Validation, 4000), (Part::Test, 40_000)]
        .map(|(part, n)| critters.part(part, n, &device));
    let [train, validation, test] = parts;
    let (train, validation, test) = (train?, validation?, test?);
    let study = sweep("rate-critters", words)?.vary("attribute", &ATTRIBUTES).seeds(1..=SEEDS);
    study.run(name, |run, mut record| {
        let attribute = run.text("attribute")?;
        let [train, validation, test] =
            [train.target(attribute)?, validation.target(attribute)?, test.target(attribute)?];
        let head = zoo::linear(1, false);
        let plan = zoo::conv_net(&[3, 32, 32], &[32, 64, 128])?;
        let base = SplitNet::with_head(plan, head, run.seed, DType::F32, &device)?;
        let any = RateProblem::fnr_at_fpr(0.01, Surrogate::sigmoid(1.0))?;
        let mut ce = RateTraining::cross_entropy(&base, &any)?;
        Trainer::adam(1e-2)
            .epochs(14)
            .batch(64)
            .seed(run.seed)
            .silent()
            .schedule(Schedule::OneCycle { rise: 0.25, start: 0.04, floor: 0.0 })
            .fit(&mut ce, &train)?;
        let tune = |net: &SplitNet, rules: Rules, fpr: f64, sharpness: f64, data: &Dataset| -> Result<()> {
            let goal = RateProblem::fnr_at_fpr(fpr, Surrogate::sigmoid(sharpness))?;
            let mut training = RateTraining::new(net, &goal, rules.0, rules.1)?;
            if rules == ICO || rules == LAST_LAYER {
                training = training.policy(ThresholdPolicy::Buffer { samples: 4096 })?;
            }
            let trainer = Trainer::adam(1e-3).epochs(4).batch(256).stratified().seed(run.seed).silent();
            let trainer = trainer.schedule(Schedule::Cosine { floor: 0.0 });
            trainer.fit(&mut training, data).map(drop)
        };
        // Every method is compared with the same further epochs of cross entropy, image by image.
        let mut peer: Option<Vec<f64>> = None;
        let mut judge = |name: &str, percents: &[u32], net: &SplitNet, sets: [&Dataset; 2]| -> Result<()> {
            let [validation, test] = sets;
            let own = net.scores_of(test)?.numbers()?.into_owned();
            let scores = Scores::new(&own, &test.y)?;
            let chosen = Scores::new(net.scores_of(validation)?, &validation.y)?;
            for percent in percents {
                let fpr = f64::from(*percent) / 100.0;
                let moved = scores.confusion(chosen.threshold_at_fpr(fpr)?)?;
                for (key, value) in [
                    ("fnr", scores.fnr_at_fpr(fpr)?),
                    ("fnr_moved", moved.fnr()?),
                    ("fpr_moved", moved.fpr()?),
                ] {
                    record.results.insert(format!("{name}_{percent}_{key}"), (100.0 * value).into());
                }
                if let Some(peer) = &peer {
                    let drawn = paired_draws(&own, peer, &test.labels()?, fpr)?;
                    record.results.insert(format!("{name}_{percent}_draws"), drawn.into());
                }
            }
            if name == "more_ce" {
                peer = Some(own);
            }
            Ok(())
        };
        let all = [1, 2, 5, 10];
        judge("ce", &all, &base, [&validation, &test])?;
        let more = base.copy()?;
        tune(&more, CROSS_ENTROPY, 0.01, 1.0, &train)?;
        judge("more_ce", &all, &more, [&validation, &test])?;
        // The surrogate is as sharp as the scores are spread.
        let sharpness = 2.0 / deviation(&base.scores_of(&train)?.numbers()?);
        // A frozen backbone is run once.
        let [seen, chosen, unseen] =
            [base.feature_set(&train)?, base.feature_set(&validation)?, base.feature_set(&test)?];
        for percent in all {
            let fpr = f64::from(percent) / 100.0;
            for name in ["ico", "m2_adaptive"] {
                let net = base.copy()?;
                tune(&net, method(name)?, fpr, sharpness, &train)?;
                judge(name, &[percent], &net, [&validation, &test])?;
            }
            let net = base.head_alone()?.copy()?;
            tune(&net, LAST_LAYER, fpr, sharpness, &seen)?;
            judge("last", &[percent], &net, [&chosen, &unseen])?;
        }
        Ok(record)
    })?;
    let Some(records) = complete(&study, ATTRIBUTES.len() * SEEDS as usize)? else { return Ok(None) };
    let mut record = Record::start("rate-critters", name).config("seeds", SEEDS).config("test", 40_000);
    for attribute in ATTRIBUTES {
        let limit = critters.bayes_limit(attribute, Part::Test)?;
        for percent in ["1", "2", "5", "10"] {
            let fpr = percent.parse::<f64>().unwrap_or(f64::NAN) / 100.0;
            record = record.result(&format!("{attribute}_{percent}_ceiling"), 100.0 * limit.fnr_at_fpr(fpr)?);
            for method in METHODS {
                for (key, ending) in [("fnr", ""), ("fnr_moved", "_fnr_moved"), ("fpr_moved", "_fpr_moved")] {
                    let found =
                        results(&records, &[("attribute", attribute)], &format!("{method}_{percent}_{key}"));
                    record = record.result(&format!("{attribute}_{percent}_{method}{ending}"), mean(&found));
                    if ending.is_empty() {
                        record =
                            record.result(&format!("{attribute}_{percent}_{method}_sd"), deviation(&found));
                    }
                }
            }
            for method in ["ico", "m2_adaptive", "last"] {
                let gain = gain(&records, attribute, method, percent)?;
                record = record.result(&format!("{attribute}_{percent}_{method}_gain"), gain);
            }
        }
    }
    Ok(Some(record))
}

// --------------------------------------------------------------------------------------------------------------------

/// What is wrong with a set of decisions on Adult: errors, and by how much the worst group misses its share.
fn adult_judged(decisions: &[f64], data: &Dataset) -> Result<[f64; 2]> {
    let labels = Labels::of(data)?;
    let worst = adult_constraints(0.05).iter().try_fold(f64::NEG_INFINITY, |worst, g| {
        Ok::<_, Error>(g.count(decisions, &labels, &[0.5])?.max(worst))
    })?;
    Ok([Rate::Error.minus(0.0).count(decisions, &labels, &[0.5])?, worst])
}

/// For each of four groups, TPR − slack − TPR of the group, which is to be at most zero.
fn adult_constraints(slack: f64) -> Vec<lastlayer::rate::RateSum> {
    let tpr = Rate::TruePositive.term();
    let one = |group| lastlayer::rate::RateSum {
        terms: vec![tpr, tpr.within(Within::With(group)).weight(-1.0)],
        constant: -slack,
    };
    (0..4).map(one).collect()
}

/// A classifier of Adult: a linear score, and a threshold for women and one for men.
struct Linear {
    training: RateTraining,
    t: [f64; 2],
}

impl Linear {
    fn decide(&self, data: &Dataset) -> Result<Vec<f64>> {
        let s = self.training.scores_of(data)?;
        let labels = Labels::of(data)?;
        let both = s.numbers()?.into_owned().into_iter().zip(labels.attribute(0)?);
        Ok(both.map(|(s, woman)| f64::from(u8::from(s > self.t[usize::from(!woman)]))).collect())
    }
}

/// Trains one of the methods with its parameter: the slack of a game, or the false positive rate to hold.
fn adult_fit(method: &str, parameter: f64, data: &Dataset, seed: Seed) -> Result<Linear> {
    let head = zoo::linear(1, false);
    let net = SplitNet::with_head(zoo::identity(&[data.d()]), head, seed, DType::F32, data.x.device())?;
    let trainer = Trainer::adam(0.01)
        .batch(1024)
        .epochs(40)
        .stratified()
        .silent()
        .seed(seed)
        .schedule(Schedule::Linear { from: 0.5, floor: 0.0 });
    let fit = |problem: &RateProblem, (bottom, last): Rules| -> Result<RateTraining> {
        let mut training = RateTraining::new(&net, problem, bottom, last)?;
        trainer.fit(&mut training, data)?;
        Ok(training)
    };
    let objective = Rate::Error.minus(0.0);
    let rates = RateProblem::inequalities(objective, adult_constraints(parameter), Surrogate::Hinge)?;
    let fixed = |training| Ok(Linear { training, t: [0.0; 2] });
    let by_group = |training: RateTraining, problem: &RateProblem| {
        let t = problem.hard_thresholds(training.scores_of(data)?, &Labels::of(data)?)?;
        Ok(Linear { training, t: [t[0], t[1]] })
    };
    match method {
        "ce" => fixed(fit(&rates, CROSS_ENTROPY)?),
        "tfco" => fixed(fit(&rates, game(Regret::Swap, 1.0))?),
        "tfco_external" => fixed(fit(&rates, game(Regret::External, 1.0))?),
        "lagrangian" => fixed(fit(&rates, game(Regret::Lagrangian { radius: 10.0 }, 0.1))?),
        _ => {
            let fair = RateProblem::equal_opportunity(0, parameter, Surrogate::sigmoid(2.0))?;
            let ce = fit(&fair, CROSS_ENTROPY)?;
            if method == "posthoc" {
                return by_group(ce, &fair);
            }
            by_group(fit(&fair, ICO)?, &fair)
        }
    }
}

/// TFCO's fairness problem on UCI Adult: everything is chosen on training rows, by cross-validation; the test rows are
/// touched once, by one deterministic classifier per method and seed.
pub fn adult(words: &[String]) -> Result<Option<Record>> {
    const SEEDS: u64 = 5;
    const FOLDS: usize = 5;
    const METHODS: [&str; 6] = ["ce", "tfco", "tfco_external", "lagrangian", "posthoc", "ico"];
    let device = device()?;
    let folder = load::data_dir()?.join("adult");
    let [train, test] =
        [Part::Train, Part::Test].map(|part| load::adult(&folder, part, &load::Adult::Indicators, &device));
    let (train, test) = (train?, test?);
    let study = sweep("rate-adult", words)?.vary("method", &METHODS).seeds(1..=SEEDS);
    let name = here()?;
    study.run(name, |run, record| {
        let method = run.text("method")?;
        let grid: &[f64] = match method {
            "ce" => &[0.05],
            "posthoc" | "ico" => &[0.05, 0.055, 0.06, 0.065, 0.07, 0.08],
            _ => &[0.05, 0.04, 0.03, 0.02, 0.01, 0.0],
        };
        let order = run.seed.named("folds").permutation(train.n());
        let mut best: Option<(f64, [f64; 2])> = None;
        for parameter in grid {
            let mut decisions = vec![0.0; train.n()];
            for fold in 0..FOLDS {
                let (out, rest): (Vec<usize>, Vec<usize>) = (0..train.n()).partition(|i| i % FOLDS == fold);
                let [out, rest] =
                    [out, rest].map(|list| list.into_iter().map(|i| order[i]).collect::<Vec<_>>());
                let linear = adult_fit(method, *parameter, &train.subset(&rest)?, run.seed)?;
                let decided = linear.decide(&train.subset(&out)?)?;
                out.into_iter().zip(decided).for_each(|(i, decision)| decisions[i] = decision);
            }
            let found = adult_judged(&decisions, &train)?;
            // Lowest error among those that keep the constraint, else the lowest violation.
            let key = |[error, violation]: [f64; 2]| (violation.max(0.0), error);
            if best.is_none_or(|(_, best)| key(found) < key(best)) {
                best = Some((*parameter, found));
            }
        }
        let (parameter, validated) = best.unwrap_or((0.05, [f64::NAN; 2]));
        let linear = adult_fit(method, parameter, &train, run.seed)?;
        let [trained, tested] = [&train, &test]
            .map(|data| linear.decide(data).and_then(|decisions| adult_judged(&decisions, data)));
        let (trained, tested) = (trained?, tested?);
        let (decisions, mut drawn) = (linear.decide(&test)?, [Vec::new(), Vec::new()]);
        for resample in 0..200 {
            let stream = run.seed.named("bootstrap").stream(resample);
            let rows: Vec<usize> =
                (0..test.n()).map(|i| (stream.uniform(i as u64) * test.n() as f64) as usize).collect();
            let chosen: Vec<f64> = rows.iter().map(|i| decisions[*i]).collect();
            let judged = adult_judged(&chosen, &test.subset(&rows)?)?;
            drawn.iter_mut().zip(judged).for_each(|(list, value)| list.push(value));
        }
        Ok(record
            .result("parameter", parameter)
            .result("train_error", trained[0])
            .result("train_violation", trained[1])
            .result("validation_error", validated[0])
            .result("validation_violation", validated[1])
            .result("test_error", tested[0])
            .result("test_violation", tested[1])
            .result("test_error_sd", deviation(&drawn[0]))
            .result("test_violation_sd", deviation(&drawn[1])))
    })?;
    let Some(records) = complete(&study, METHODS.len() * SEEDS as usize)? else { return Ok(None) };
    let mut record = Record::start("rate-adult", name).config("seeds", SEEDS).config("folds", FOLDS);
    let keys = [
        "train_error",
        "train_violation",
        "validation_error",
        "validation_violation",
        "test_error",
        "test_violation",
    ];
    for method in METHODS {
        for key in keys.iter().chain(&["parameter", "test_error_sd", "test_violation_sd"]) {
            let values = results(&records, &[("method", method)], key);
            record = record.result(&format!("{method}_{key}"), mean(&values));
            if *key == "test_error" || *key == "test_violation" {
                record = record.result(&format!("{method}_{key}_over_seeds"), deviation(&values));
            }
        }
    }
    // The method of each seed, chosen without the test rows as well.
    let mut chosen = vec![Vec::new(); keys.len()];
    let mut names = Vec::new();
    for seed in 0..SEEDS as usize {
        let key = |method: &&str| {
            let value = |key| results(&records, &[("method", method)], key)[seed];
            (value("validation_violation").max(0.0), value("validation_error"))
        };
        let order = |a: &&str, b: &&str| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal);
        let Some(best) = METHODS.into_iter().min_by(order) else { continue };
        names.push(best.to_string());
        chosen
            .iter_mut()
            .zip(keys)
            .for_each(|(list, key)| list.push(results(&records, &[("method", best)], key)[seed]));
    }
    for (key, values) in keys.iter().zip(&chosen) {
        record = record.result(&format!("chosen_{key}"), mean(values));
    }
    Ok(Some(record.result("chosen", names.join(", "))))
}

// --------------------------------------------------------------------------------------------------------------------

/// Features of a residual network that somebody else trained: head and threshold fitted here, judged on rows held out.
pub fn features() -> Result<Record> {
    const SEEDS: u64 = 5;
    let device = device()?;
    let path = load::data_dir()?.join("adbench").join("resnet18_CIFAR10_0.npz");
    let keys = load::ExportKeys {
        features: Some("X".to_string()),
        labels: Some("y".to_string()),
        ..load::ExportKeys::default()
    };
    let data = load::exported(&path, &keys, &device)?.data;
    let file = std::env::temp_dir().join(format!("lastlayer-head-{}.safetensors", std::process::id()));
    let mut record = Record::start("rate-features", here()?)
        .config("rows", data.n())
        .config("features", data.d())
        .config("positives", data.class_counts()?[1])
        .config("seeds", SEEDS);
    for percent in [1, 5] {
        let fpr = f64::from(percent) / 100.0;
        let mut found: Vec<Vec<f64>> = vec![Vec::new(); 6];
        for seed in (1..=SEEDS).map(Seed::new) {
            let (train, rest) = data.split(0.6, seed)?;
            let (validation, test) = rest.split(0.5, seed.named("test"))?;
            let spread = train.x.to_dtype(DType::F64)?.sqr()?.mean_all()?.sqrt()?.to_scalar::<f64>()?;
            let phi = Plan { input: vec![data.d()], layers: Vec::new(), init: Default::default() };
            let head = zoo::linear(1, false);
            let net = SplitNet::with_head(phi, head, seed, DType::F32, &device)?;
            let goal = RateProblem::fnr_at_fpr(fpr, Surrogate::sigmoid(1.0))?;
            let scaled = |data: &Dataset| Ok::<_, Error>(Dataset { x: (&data.x / spread)?, ..data.clone() });
            let [train, validation, test] = [scaled(&train)?, scaled(&validation)?, scaled(&test)?];
            let trainer = Trainer::adam(3e-3)
                .decay(Decay::Decoupled(1.0))
                .batch(512)
                .epochs(100)
                .stratified()
                .silent()
                .seed(seed)
                .schedule(Schedule::Cosine { floor: 0.0 });
            for (slot, (bottom, last)) in [(0, CROSS_ENTROPY), (3, LAST_LAYER)] {
                let training = RateTraining::new(&net, &goal, bottom, last)?;
                let policy = ThresholdPolicy::Buffer { samples: 4096 };
                let mut training = if slot == 3 { training.policy(policy)? } else { training };
                trainer.fit(&mut training, &train)?;
                training.predictor(&validation)?.save(&file)?;
                let answers = Predictor::load(&file, &device)?.predict_set(&test)?;
                let confusion = Confusion::new(&answers, &test.y, 2)?;
                let ranking = Scores::new(training.scores_of(&test)?, &test.y)?.fnr_at_fpr(fpr)?;
                for (list, value) in
                    found[slot..].iter_mut().zip([ranking, confusion.fnr()?, confusion.fpr()?])
                {
                    list.push(100.0 * value);
                }
            }
        }
        let names = ["ce_fnr", "ce_fnr_moved", "ce_fpr_moved", "ico_fnr", "ico_fnr_moved", "ico_fpr_moved"];
        for (name, values) in names.into_iter().zip(&found) {
            record = record
                .result(&format!("{name}_{percent}"), mean(values))
                .result(&format!("{name}_{percent}_sd"), deviation(values));
        }
    }
    std::fs::remove_file(&file).ok();
    Ok(record)
}
