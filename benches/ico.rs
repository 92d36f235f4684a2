//! Training steps of rate methods beside the cross-entropy step of the same net, interleaved; the peer is that step.
//! Prints medians in seconds per step as `net_method=seconds`.

use lastlayer::prelude::*;
use std::cell::RefCell;
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

/// The implicit gradient from two backward passes, one for f and one for Σ μ g, as it was first implemented.
fn two_backward(net: SplitNet, goal: RateProblem) -> Minimise<impl Fn(&Batch) -> Result<Step>> {
    let warm = RefCell::new(Vec::new());
    Minimise::new(&net.clone(), move |b| {
        let (labels, s) = (Labels::of(&b.data)?, net.forward(&b.x, b.pass())?);
        let t = goal.solve_from(&s, &labels, &warm.borrow())?.t;
        let multiplier = goal.adjoint(&s, &labels, &t)?.multiplier;
        let objective = goal.objective().tensor(&s, &labels, &t, goal.surrogate())?;
        let mut constraints = objective.zeros_like()?;
        for (g, multiplier) in goal.constraints().iter().zip(multiplier) {
            constraints = (constraints + (g.tensor(&s, &labels, &t, goal.surrogate())? * multiplier)?)?;
        }
        warm.replace(t);
        Ok(Step::sum(vec![objective, constraints]))
    })
}

fn measure(name: &str, net: &SplitNet, data: &Dataset, batch: usize) -> Result<()> {
    let one = RateProblem::fnr_at_fpr(0.1, Surrogate::sigmoid(2.0))?;
    let fifty = RateProblem::partial_auc(0.0, 0.5, 50, Surrogate::sigmoid(2.0))?;
    let plain = net.copy()?;
    let ce = Minimise::new(&plain, |b| bce_logits(&plain.forward(&b.x, b.pass())?, &b.y));
    let mut methods: Vec<(&str, Box<dyn Method + '_>)> = vec![
        ("ce", Box::new(ce)),
        ("adjoint", Box::new(RateTraining::ico(&net.copy()?, &one)?)),
        ("adjoint_50", Box::new(RateTraining::ico(&net.copy()?, &fifty)?)),
        ("two_backward", Box::new(two_backward(net.copy()?, one.clone()))),
        ("two_backward_50", Box::new(two_backward(net.copy()?, fifty))),
        ("method2", Box::new(RateTraining::method2(&net.copy()?, &one, Penalty::Absolute(5.0))?)),
    ];
    let trainer = Trainer::adam(1e-4).batch(batch).stratified().silent();
    let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); methods.len()];
    for _ in 0..ROUNDS {
        for ((_, method), seconds) in methods.iter_mut().zip(&mut seconds) {
            let began = Instant::now();
            trainer.fit(&mut **method, data)?;
            seconds.push(began.elapsed().as_secs_f64() / STEPS as f64);
        }
    }
    for ((method, _), seconds) in methods.iter().zip(&mut seconds) {
        seconds.sort_by(f64::total_cmp);
        println!("{name}_{method}={}", seconds[ROUNDS / 2]);
    }
    Ok(())
}
