//! A step of FOCA beside the end-to-end step of the same net whose batch has as many samples; and ridge heads, small and
//! large, whose peer is `benches/foca.py`.

use lastlayer::prelude::*;
use std::time::Instant;

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("step") => step(),
        Some("ridge-small") => ridge(24, 256, 1000),
        Some("ridge-large") => ridge(2000, 64, 1),
        other => Err(Error::config("argument", format!("{other:?}"), "step, ridge-small, ridge-large")),
    }
}

const CLASSES: usize = 12;

/// Numbers that the peer can make too: not random, but no two rows alike.
fn waves(n: usize, phase: f64) -> Vec<f64> {
    (0..n).map(|i| (1000.0 * (12.9898 * (i as f64 + phase)).sin()).fract()).collect()
}

fn ridge(n: usize, d: usize, fits: usize) -> Result<()> {
    let y: Vec<u32> = (0..n).map(|i| (i % CLASSES) as u32).collect();
    let set = |fit: usize| {
        let z = Array2::from_shape_vec((n, d), waves(n * d, 1.0 + fit as f64));
        Features::new(&z.map_err(|e| Error::shape("waves", "[n, d]", e))?, &y, CLASSES)
    };
    let sets = (0..fits).map(set).collect::<Result<Vec<_>>>()?;
    let (mut seconds, mut value) = (Vec::new(), 0.0);
    for _ in 0..if fits > 1 { 11 } else { 101 } {
        let began = Instant::now();
        let heads = WeakFit::RidgeSum(1.0).heads(&sets)?;
        seconds.push(began.elapsed().as_secs_f64());
        value = heads.iter().map(|head| head.w[[0, 0]].abs() + head.b[3]).sum();
    }
    println!("value={value} seconds={}", median(seconds));
    Ok(())
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// The perceptron of the book's study on 768 numbers, batches of 128 beside ten samples of each of twelve classes.
fn step() -> Result<()> {
    const BATCH: usize = 128;
    const STEPS: usize = 12;
    let (device, seed, k) = (Device::Cpu, Seed::new(1), 10);
    let set = |n: usize| {
        let x = seed.normal_tensor((n, 768), (0.0, 1.0), DType::F32, &device)?;
        let y = Tensor::from_vec((0..n).map(|i| (i % CLASSES) as u32).collect(), n, &device)?;
        Dataset::new("waves", x, y, (0..CLASSES).map(|c| c.to_string()))
    };
    let plan = extractor(zoo::mlp(&[768, 256])?, 32, Layer::RmsNorm, Baseline::Plain)?;
    let nets =
        (0..3).map(|_| SplitNet::new(plan.clone(), CLASSES, seed, &device)).collect::<Result<Vec<_>>>()?;
    let (few, more) = (set(STEPS * BATCH)?, set(STEPS * (BATCH + k * CLASSES))?);
    let trainer = |batch: usize| Trainer::adam(1e-4).batch(batch).seed(seed).silent();
    let settings = [
        ("fixed", Foca { k, ..Foca::default() }),
        ("through", Foca { k, theta: ThetaGrad::Through, ..Foca::default() }),
    ];
    let joint = Minimise::new(&nets[0], |b| cross_entropy(&nets[0].forward(&b.x, b.pass())?, &b.y));
    let mut methods: Vec<(Box<dyn Method + '_>, usize, &Dataset)> =
        vec![(Box::new(joint), BATCH + k * CLASSES, &more)];
    for ((_, foca), net) in settings.into_iter().zip(&nets[1..]) {
        methods.push((Box::new(FocaTraining::new(net, &few, foca)?), BATCH, &few));
    }
    let mut seconds = vec![Vec::new(); 3];
    for _ in 0..15 {
        for ((method, batch, data), seconds) in methods.iter_mut().zip(&mut seconds) {
            let began = Instant::now();
            trainer(*batch).fit(&mut **method, data)?;
            seconds.push(began.elapsed().as_secs_f64() / STEPS as f64);
        }
    }
    for (name, seconds) in ["joint", "fixed", "through"].iter().zip(seconds) {
        println!("{name}={}", median(seconds));
    }
    Ok(())
}
