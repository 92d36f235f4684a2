//! A tree on codes, an epoch of Algorithm 1 beside the same without a tree, and the fidelity of codes to attributes. The peer
//! of the first and the last is `benches/tree.py`.

use lastlayer::prelude::*;
use std::time::Instant;

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("tree-fit") => tree_fit(),
        Some("tree-epoch") => tree_epoch(),
        Some("fidelity") => fidelity(),
        other => Err(Error::config("argument", format!("{other:?}"), "tree-fit, tree-epoch, fidelity")),
    }
}

/// Numbers in [0, 1) that the peer can make too: not random, but no two rows alike.
fn waves(n: usize, phase: f64) -> impl Iterator<Item = f64> {
    (0..n).map(move |i| (1000.0 * (12.9898 * (i as f64 + phase)).sin()).fract().abs())
}

fn codes(n: usize, d: usize) -> Result<Codes> {
    Codes::from_bytes(waves(n * d, 1.0).map(|u| (16.0 * u) as u8).collect(), d, 16)
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Times of a piece of work, and its last result.
fn clocked<T>(times: usize, work: impl Fn() -> Result<T>) -> Result<(f64, T)> {
    let (mut seconds, mut last) = (Vec::new(), None);
    for _ in 0..times {
        let began = Instant::now();
        last = Some(work()?);
        seconds.push(began.elapsed().as_secs_f64());
    }
    last.map(|last| (median(seconds), last)).ok_or_else(|| Error::config("times", times, "at least 1"))
}

fn tree_fit() -> Result<()> {
    let (n, d, k) = (5994, 1024, 200);
    let codes = codes(n, d)?;
    // Softmax of scores of size three, a little of which the codes explain.
    let mut scores: Vec<f64> = waves(n * k, 0.5).map(|u| 6.0 * u).collect();
    for (row, own) in codes.rows().zip(scores.chunks_exact_mut(k)) {
        own.iter_mut().enumerate().for_each(|(c, score)| *score += 0.1 * f64::from(row[c]));
    }
    for row in scores.chunks_exact_mut(k) {
        let sum: f64 = row.iter().map(|s| s.exp()).sum();
        row.iter_mut().for_each(|s| *s = s.exp() / sum);
    }
    let p = Array2::from_shape_vec((n, k), scores).map_err(|e| Error::shape("scores", "[n, k]", e))?;
    let cart = Cart { depth: 8, criterion: Criterion::Variance, ..Cart::default() };
    let (seconds, tree) = clocked(3, || cart.fit(&codes, &p))?;
    let value = tree.loss(&codes, &p, Criterion::Variance)?;
    let (information, _) = clocked(1, || Cart { criterion: Criterion::Information, ..cart }.fit(&codes, &p))?;
    println!("value={value} leaves={} seconds={seconds} information={information}", tree.leaves());
    Ok(())
}

/// The network of the book's study: 768-128-64 in 4 bits, 12 classes, 6 000 samples in batches of 200.
fn tree_epoch() -> Result<()> {
    let (device, seed) = (Device::Cpu, Seed::new(1));
    let raw = Critters::new(Preset::Iid, seed).part(Part::Train, 6000, &device)?.pooled(2)?;
    let train = raw.centred(&raw)?;
    let trainer = Trainer::adam(1e-3).batch(200).seed(seed).silent();
    let run = |agreement: Agreement, epochs: usize| -> Result<f64> {
        let plan = zoo::mlp_on(&[3, 16, 16], &[128, 64])?;
        let net = code_net(plan, Quantiser::default(), 64, train.k(), seed, &device)?;
        let mut both = Intersection::new(&net, &train, agreement)?;
        // The first epochs have codes that nobody has trained yet.
        let warm = trainer.clone().epochs(epochs);
        warm.fit(&mut both, &train)?;
        let began = Instant::now();
        let timed = trainer.clone().epochs(3);
        timed.fit(&mut both, &train)?;
        Ok(began.elapsed().as_secs_f64() / 3.0)
    };
    let plain = Agreement { tree: 0.0, ..Agreement::default() };
    for (name, every) in [("every_1", 1), ("every_5", 5), ("every_25", 25)] {
        println!("{name}={}", run(Agreement { every, ..Agreement::default() }, 5)?);
    }
    println!("plain={}", run(plain, 5)?);
    Ok(())
}

fn fidelity() -> Result<()> {
    let (n, d, attributes) = (5794, 1024, 312);
    let codes = codes(n, d)?;
    let a: Vec<f64> = waves(n * attributes, 0.25).map(|u| f64::from(u < 0.1)).collect();
    let a =
        Array2::from_shape_vec((n, attributes), a).map_err(|e| Error::shape("attributes", "[n, a]", e))?;
    let names: Vec<String> = (0..attributes).map(|i| i.to_string()).collect();
    let (seconds, found) =
        clocked(11, || AttributeMatches::measure(&codes, &a, &names, Binarise::Equality, Score::F1))?;
    println!("value={} seconds={seconds}", found.fidelity());
    Ok(())
}
