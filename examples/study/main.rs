//! The studies behind the committed records: `cargo run --example study -- ROW FOLDER`, called by `make experiments`. A
//! study of many runs also takes `--shard i/n` and `--threads k`. A record says from which commit it was made; one of a tree
//! with changes is no evidence, and `make experiments` makes none.

mod adversary;
mod foca;
mod intersection;
mod lp;
mod rate;
mod together;
#[path = "../../tests/watched/mod.rs"]
mod watched;

use lastlayer::distribution::{irwin_hall_cdf, normal_cdf, normal_quantile};
use lastlayer::prelude::*;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [row, folder, words @ ..] = &arguments[..] else {
        return Err(Error::config(
            "arguments",
            arguments.join(" "),
            "ROW FOLDER [--shard i/n] [--threads k]",
        ));
    };
    let record = match (row.as_str(), words) {
        ("measures", []) => Some(measures()?),
        ("critters", []) => Some(critters()?),
        ("networks", []) => Some(networks()?),
        ("rate-features", []) => Some(rate::features()?),
        ("rate-gaussians", words) => rate::gaussians(words)?,
        ("rate-critters", words) => rate::critters(words)?,
        ("rate-adult", words) => rate::adult(words)?,
        ("lp-imbalance", words) => lp::imbalance(words)?,
        ("lp-classes", words) => lp::classes(words)?,
        ("lp-f", words) => lp::f_score(words)?,
        ("foca-toy", words) => foca::toy(words)?,
        ("foca-rates", words) => foca::rates(words)?,
        ("foca-critters", words) => foca::partial(words)?,
        ("adversary-pair", words) => adversary::pair(words)?,
        ("adversary-search", words) => adversary::search(words)?,
        ("intersection-critters", words) => intersection::critters_study(words)?,
        ("intersection-grid", words) => intersection::grid(words)?,
        ("intersection-share", words) => intersection::share(words)?,
        ("intersection-variants", words) => intersection::variants(words)?,
        ("intersection-animals", []) => Some(intersection::animals()?),
        ("lp-growth", []) => Some(lp::growth()?),
        ("together-head", words) => together::head(words)?,
        ("together-ranking", words) => together::ranking(words)?,
        ("together-reader", words) => together::reader(words)?,
        _ => {
            let rows = "measures, critters, networks, rate-features, lp-growth, intersection-animals; and in parts: \
                        rate-gaussians, rate-critters, rate-adult, lp-imbalance, lp-classes, lp-f, foca-toy, foca-rates, \
                        foca-critters, adversary-pair, adversary-search, intersection-critters, intersection-grid, \
                        intersection-share, intersection-variants, together-head, together-ranking, together-reader";
            return Err(Error::config("row", arguments.join(" "), rows));
        }
    };
    // A part of a study has no record of its own.
    let Some(record) = record else { return Ok(()) };
    // The runs of a study of many lie in a folder of its name.
    let runs = std::path::Path::new("target").join(row);
    let runs = if runs.is_dir() { Record::load_all(runs)? } else { Vec::new() };
    record.made_of(&runs)?.save(folder).map(drop)
}

const SEED: Seed = Seed::new(2026);

/// The device of every study, a GPU if the crate was built for one: a single one for all, since candle takes two of the same
/// card for different ones.
fn device() -> Result<Device> {
    static DEVICE: std::sync::OnceLock<Device> = std::sync::OnceLock::new();
    if let Some(device) = DEVICE.get() {
        return Ok(device.clone());
    }
    let found = Device::cuda_if_available(0)?;
    Ok(DEVICE.get_or_init(|| found).clone())
}

/// Its name, as records have it.
fn here() -> Result<&'static str> {
    Ok(lastlayer::kernel::device_name(&device()?))
}

/// A test set of two unit normal classes a distance `gap` apart, as many positives as negatives.
fn normal_scores(gap: f64, n: usize, seed: Seed) -> Result<Scores> {
    let y: Vec<u8> = (0..n).map(|i| (i % 2) as u8).collect();
    let s: Vec<f64> = (0..n).map(|i| seed.normal(i as u64) + gap * f64::from(y[i])).collect();
    Scores::new(&s, &y)
}

/// The same samples scored as they are, and with normal noise of standard deviation 0.3 added.
fn blurred_pair(gap: f64, n: usize, seed: Seed) -> Result<[Scores; 2]> {
    let y: Vec<u8> = (0..n).map(|i| (i % 2) as u8).collect();
    let s: Vec<f64> = (0..n).map(|i| seed.normal(i as u64) + gap * f64::from(y[i])).collect();
    let blur = seed.named("blur");
    let blurred: Vec<f64> = s.iter().enumerate().map(|(i, s)| s + 0.3 * blur.normal(i as u64)).collect();
    Ok([Scores::new(&s, &y)?, Scores::new(&blurred, &y)?])
}

/// Standard deviation of a sample.
fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}

/// How far rates at a rate vary, how the rate of a sampled threshold is distributed, and which intervals cover.
fn measures() -> Result<Record> {
    const GAP: f64 = 2.15;
    const N: usize = 4000;
    const SETS: usize = 2000;
    const COVERAGE_SETS: usize = 400;
    let mut record = Record::start("measures", here()?).seed(SEED);
    record = record
        .config("gap", GAP)
        .config("samples", N)
        .config("sets", SETS)
        .config("coverage_sets", COVERAGE_SETS);
    let half = N as f64 / 2.0;
    let rates = [0.01, 0.02, 0.05, 0.10];
    let mut found = vec![Vec::with_capacity(SETS); rates.len()];
    for set in 0..SETS {
        let scores = normal_scores(GAP, N, SEED.named("noise").stream(set as u64))?;
        for (values, fpr) in found.iter_mut().zip(rates) {
            values.push(scores.fnr_at_fpr(fpr)?);
        }
    }
    for (values, fpr) in found.iter().zip(rates) {
        let z = normal_quantile(1.0 - fpr)?;
        let (fnr, slope) = (normal_cdf(z - GAP), (GAP * (z - GAP / 2.0)).exp());
        let binomial = fnr * (1.0 - fnr) / half;
        let formula = (binomial + slope * slope * fpr * (1.0 - fpr) / half).sqrt();
        let (mean, measured) = (values.iter().sum::<f64>() / SETS as f64, deviation(values));
        let percent = (100.0 * fpr).round() as usize;
        let numbers = [
            ("fnr", fnr),
            ("slope", slope),
            ("mean_measured", mean),
            ("sd_formula", formula),
            ("sd_measured", measured),
            ("sd_points", 100.0 * measured),
            ("sd_binomial", binomial.sqrt()),
        ];
        for (name, value) in numbers {
            record = record.result(&format!("{name}_{percent}"), value);
        }
    }
    for negatives in [50usize, 200, 1000, 5000] {
        let k = (0.01 * negatives as f64 + 1e-9) as usize;
        let law = (k + 1) as f64 / (negatives + 1) as f64;
        let mut total = 0.0;
        for set in 0..SETS {
            let stream = SEED.named("beta").stream(negatives as u64).stream(set as u64);
            let s: Vec<f64> = (0..=negatives).map(|i| stream.normal(i as u64)).collect();
            let y: Vec<u8> = (0..=negatives).map(|i| u8::from(i == negatives)).collect();
            total += 1.0 - normal_cdf(Scores::new(&s, &y)?.threshold_at_fpr(0.01)?);
        }
        record = record.result(&format!("beta_law_{negatives}"), law);
        record = record.result(&format!("beta_simulated_{negatives}"), total / SETS as f64);
    }
    // A score against the same score blurred, on the same test set and on two: how far their FNR at FPR 1 % differ.
    let (mut together, mut apart) = (Vec::new(), Vec::new());
    for set in 0..SETS as u64 {
        let [sharp, blurred] = blurred_pair(GAP, N, SEED.named("blur").stream(set))?;
        let [_, elsewhere] = blurred_pair(GAP, N, SEED.named("elsewhere").stream(set))?;
        together.push(100.0 * (sharp.fnr_at_fpr(0.01)? - blurred.fnr_at_fpr(0.01)?));
        apart.push(100.0 * (sharp.fnr_at_fpr(0.01)? - elsewhere.fnr_at_fpr(0.01)?));
    }
    record = record
        .result("sd_difference_paired", deviation(&together))
        .result("sd_difference_apart", deviation(&apart));
    let truth = normal_cdf(normal_quantile(0.99)? - GAP);
    let (mut binomial, mut bootstrap) = (0, 0);
    for set in 0..COVERAGE_SETS {
        let seed = SEED.named("coverage").stream(set as u64);
        let scores = normal_scores(GAP, N, seed)?;
        let missed = (scores.fnr_at_fpr(0.01)? * half).round() as usize;
        let fixed = rate_interval(missed, N / 2, 0.95)?;
        let drawn = scores.fnr_at_fpr_interval(0.01, 500, 0.95, seed.named("bootstrap"))?;
        binomial += usize::from(fixed.low <= truth && truth <= fixed.high);
        bootstrap += usize::from(drawn.low <= truth && truth <= drawn.high);
    }
    record = record.result("coverage_binomial", binomial as f64 / COVERAGE_SETS as f64);
    Ok(record.result("coverage_bootstrap", bootstrap as f64 / COVERAGE_SETS as f64))
}

/// Bayes limits of the attributes that the chapters use, and what species tell of attributes.
fn critters() -> Result<Record> {
    let mut record = Record::start("critters", here()?);
    let plain = Critters::new(Preset::Plain, SEED);
    let iid = Critters::new(Preset::Iid, SEED);
    let shift = Critters::new(Preset::Shift, SEED);
    let mut rows = Vec::new();
    for name in ["cheeks", "smile", "red_lips", "brows", "big_lips", "mouth_open"] {
        rows.push((name.to_string(), plain.bayes_limit(name, Part::Test)?));
        rows.push((format!("{name}_iid"), iid.bayes_limit(name, Part::Test)?));
    }
    rows.push(("cheeks_shift_train".to_string(), shift.bayes_limit("cheeks", Part::Train)?));
    for (name, limit) in rows {
        record = record
            .result(&format!("{name}_accuracy"), limit.accuracy())
            .result(&format!("{name}_auc"), limit.auc())
            .result(&format!("{name}_f1"), limit.best_f1());
        for percent in [1, 2, 5, 10] {
            record = record
                .result(&format!("{name}_fnr_{percent}"), limit.fnr_at_fpr(f64::from(percent) / 100.0)?);
        }
    }
    let whiskers = iid.fidelity("whiskers")?;
    record = record.result("whiskers_oracle", whiskers.class_oracle).result("whiskers_floor", whiskers.floor);
    record = record.result(
        "big_lips_flipped_accuracy",
        plain.bayes_limit("big_lips", Part::Test)?.accuracy_with_flips(0.15),
    );
    // Cheeks under the generator's own noise: half of all critters have them, so the best threshold is zero.
    let gap = plain.gaps[Critters::attribute("cheeks")?];
    record = record.result("cheeks_exact_accuracy", irwin_hall_cdf(gap / 2.0));
    for percent in [1, 2, 5, 10] {
        let (mut low, mut high) = (-6.0, 6.0);
        while high - low > 1e-12 {
            let middle = 0.5 * (low + high);
            if 1.0 - irwin_hall_cdf(middle) > f64::from(percent) / 100.0 {
                low = middle
            } else {
                high = middle
            }
        }
        record = record.result(&format!("cheeks_exact_fnr_{percent}"), irwin_hall_cdf(high - gap));
    }
    Ok(record.result("species_by_key", iid.species_by_key()?))
}

/// Images of each part in the study of networks, and the folder in which its peer finds them.
const PARTS: [(Part, usize); 2] = [(Part::Train, 6000), (Part::Test, 40_000)];
const IMAGES: &str = "target/networks";

/// Three tasks on Critters with the small convolutional net, three seeds each; `examples/networks.py` is the peer, and
/// finds the same images and labels as plain bytes.
fn networks() -> Result<Record> {
    let device = device()?;
    let critters = Critters::new(Preset::Plain, SEED);
    let mut record = Record::start("networks", here()?).seed(SEED);
    let folder = std::path::Path::new(IMAGES);
    let unwritable = |e| Error::io(folder, "check that the folder can be written", e);
    std::fs::create_dir_all(folder).map_err(unwritable)?;
    let mut parts = Vec::new();
    for (part, n) in PARTS {
        let data = critters.part(part, n, &device)?;
        let write = |name: &str, bytes: Vec<u8>| {
            std::fs::write(folder.join(format!("{}.{name}", part.name())), bytes).map_err(unwritable)
        };
        write("images", data.x.flatten_all()?.to_vec1::<u8>()?)?;
        for task in TASKS {
            write(task, task_of(&data, task)?.y.to_dtype(DType::U8)?.to_vec1::<u8>()?)?;
        }
        parts.push(data);
    }
    record = record
        .config("channels", vec![32, 64, 128])
        .config("epochs", EPOCHS)
        .config("batch", 64)
        .config("rate", RATE);
    for task in TASKS {
        let (train, test) = (task_of(&parts[0], task)?, task_of(&parts[1], task)?);
        let (mut accuracies, mut seconds) = (Vec::new(), Vec::new());
        for seed in 1..=3 {
            let seed = Seed::new(seed);
            let plan = zoo::conv_net(&[3, 32, 32], &[32, 64, 128])?;
            let net = SplitNet::new(plan, train.k(), seed, &device)?;
            let run = Trainer::adam(RATE)
                .epochs(EPOCHS)
                .batch(64)
                .seed(seed)
                .schedule(Schedule::OneCycle { rise: 0.25, start: 0.04, floor: 0.0 })
                .fit(
                    &mut Minimise::new(&net, |b| {
                        Ok(Step::new(cross_entropy(&net.forward(&b.x, b.pass())?, &b.y)?))
                    }),
                    &train,
                )?;
            let right = net.scores_of(&test)?.argmax(1)?.eq(&test.y)?.to_dtype(DType::F64)?;
            accuracies.push(right.mean_all()?.to_scalar::<f64>()?);
            seconds.push(run.seconds);
            println!(
                "{task}, {seed}: accuracy {:.4} in {:.0} s",
                accuracies[accuracies.len() - 1],
                run.seconds
            );
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        record = record
            .result(&format!("{task}_mean"), mean(&accuracies))
            .result(&format!("{task}_seconds"), mean(&seconds))
            .result(task, accuracies);
    }
    // The high-water mark of this process, as Linux tells it.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<f64>().ok());
    Ok(peak.map_or(record.clone(), |kilobytes| record.result("peak_gib", kilobytes / (1 << 20) as f64)))
}

const TASKS: [&str; 3] = ["cheeks", "smile", "species"];
const EPOCHS: usize = 14;
const RATE: f64 = 1e-2;

fn task_of(data: &Dataset, task: &str) -> Result<Dataset> {
    if task == "species" { Ok(data.clone()) } else { data.target(task) }
}
