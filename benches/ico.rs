//! Training steps of rate methods beside the cross-entropy step of the same net, interleaved; the peer is that step.
//! Prints medians in seconds per step as `net_method=seconds`.

use lastlayer::prelude::*;
use std::time::Instant;

const STEPS: usize = 8;
const ROUNDS: usize = 15;

fn main() -> Result<()> {
    let device = Device::Cpu;
    let seed = Seed::new(1);
    // The MLP 256-512-512-1 with batches of 512, and the net of three convolutions with batches of 64.
    let mlp = SplitNet::new(zoo::mlp(&[256, 512, 512])?, 1, seed, &device)?;
    let n = STEPS * 512;
    let x = seed.normal_tensor((n, 256), (0.0, 1.0), DType::F32, &device)?;
    measure("mlp", &mlp, &two_classes(x)?, 512)?;
    let conv = SplitNet::new(zoo::conv_net(&[3, 32, 32], &[32, 64, 128])?, 1, seed, &device)?;
    let x = seed.normal_tensor((STEPS * 64, 3, 32, 32), (0.0, 1.0), DType::F32, &device)?;
    measure("conv", &conv, &two_classes(x)?, 64)
}

fn two_classes(x: Tensor) -> Result<Dataset> {
    let n = x.dim(0)?;
    let y = Tensor::from_vec((0..n).map(|i| (i % 2) as u32).collect(), n, x.device())?;
    Dataset::new("two classes", x, y, ["0", "1"])
}

fn measure(name: &str, net: &SplitNet, data: &Dataset, batch: usize) -> Result<()> {
    let one = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
    let fifty = RateProblem::partial_auc(0.0, 0.5, 50, Surrogate::sigmoid(2.0))?;
    let plain = net.copy()?;
    let rates = [
        ("adjoint", RateTraining::new(&net.copy()?, &one, Method::Ico)?),
        ("adjoint_50", RateTraining::new(&net.copy()?, &fifty, Method::Ico)?),
        ("two_backward", RateTraining::new(&net.copy()?, &one, Method::IcoTwoBackward)?),
        ("two_backward_50", RateTraining::new(&net.copy()?, &fifty, Method::IcoTwoBackward)?),
        (
            "method2",
            RateTraining::new(&net.copy()?, &one, Method::Method2 { penalty: Penalty::Absolute(5.0) })?,
        ),
    ];
    let trainer = Trainer::adam(1e-4).batch(batch).stratified().silent();
    let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); rates.len() + 1];
    for _ in 0..ROUNDS {
        let began = Instant::now();
        trainer.fit(&plain, data, |b| Ok(Step::new(bce_logits(&plain.forward(&b.x, b.pass())?, &b.y)?)))?;
        seconds[0].push(began.elapsed().as_secs_f64() / STEPS as f64);
        for ((_, training), seconds) in rates.iter().zip(&mut seconds[1..]) {
            let began = Instant::now();
            trainer.fit(training, data, |b| training.step(b))?;
            seconds.push(began.elapsed().as_secs_f64() / STEPS as f64);
        }
    }
    for (method, seconds) in
        std::iter::once("ce").chain(rates.iter().map(|(method, _)| *method)).zip(&mut seconds)
    {
        seconds.sort_by(f64::total_cmp);
        println!("{name}_{method}={}", seconds[ROUNDS / 2]);
    }
    Ok(())
}
