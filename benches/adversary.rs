//! All pairs of sixteen attributes on cached features, side by side, whose peer is `benches/adversary.py`; and a step of
//! gradient reversal beside the step of the pair.

use std::cell::RefCell;
use std::path::Path;
use std::time::Instant;

use lastlayer::prelude::*;

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("pair-search") => pair_search(),
        Some("step") => step(),
        other => Err(Error::config("argument", format!("{other:?}"), "pair-search, step")),
    }
}

const SEED: Seed = Seed::new(1);
const ATTRIBUTES: usize = 16;
const FEATURES: usize = 64;
const HIDDEN: [usize; 2] = [64, 64];
const ROWS: usize = 4096;

/// Features, and attributes that are linear in them with some noise.
fn cached() -> Result<Dataset> {
    let x = SEED.named("x").normal_tensor((ROWS, FEATURES), (0.0, 1.0), DType::F32, &Device::Cpu)?;
    let w = SEED.named("w").normal_tensor((FEATURES, ATTRIBUTES), (0.0, 0.2), DType::F32, &Device::Cpu)?;
    let noise =
        SEED.named("noise").normal_tensor((ROWS, ATTRIBUTES), (0.0, 0.5), DType::F32, &Device::Cpu)?;
    let a = (x.matmul(&w)? + noise)?.gt(0.0)?.to_dtype(DType::F32)?;
    let y = Tensor::zeros(ROWS, DType::U32, &Device::Cpu)?;
    Dataset::new("cached", x, y, ["all"])?.with_attributes(a, (0..ATTRIBUTES).map(|j| format!("a{j}")))
}

fn trainer() -> Trainer {
    Trainer::adam(1e-3).batch(128).epochs(2).seed(SEED).silent()
}

fn tasks() -> Vec<Task> {
    (0..ATTRIBUTES).flat_map(|a| (a + 1..ATTRIBUTES).map(move |b| Task::Pair(a, b))).collect()
}

/// All numbers of a tensor in a file, as the peer reads them.
fn write(folder: &Path, name: &str, tensor: &Tensor) -> Result<()> {
    let numbers: Vec<f32> = tensor.flatten_all()?.to_dtype(DType::F32)?.to_vec1()?;
    let bytes: Vec<u8> = numbers.iter().flat_map(|v| v.to_le_bytes()).collect();
    let path = folder.join(name);
    std::fs::write(&path, bytes).map_err(|e| Error::io(&path, "check that the folder can be written", e))
}

fn pair_search() -> Result<()> {
    let data = cached()?;
    let folder = Path::new("target/pair-search");
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::io(folder, "check that the folder can be written", e))?;
    let stack = PairStack::new(&data, HIDDEN, &tasks(), SEED, &Device::Cpu)?;
    write(folder, "x", &data.x)?;
    write(folder, "a", data.attributes()?)?;
    for (name, var) in stack.groups().into_iter().flat_map(|group| group.vars) {
        write(folder, &name, &var)?;
    }
    let order = RefCell::new(Vec::new());
    let began = Instant::now();
    trainer().fit(
        &mut Minimise::over(stack.groups(), |b| {
            order.borrow_mut().extend(b.rows.iter().map(|row| *row as u32));
            stack.step(b)
        }),
        &data,
    )?;
    let seconds = began.elapsed().as_secs_f64();
    let order = order.into_inner();
    write(folder, "order", &Tensor::from_vec(order.clone(), order.len(), &Device::Cpu)?)?;
    let right = stack.accuracies(&data)?;
    let value = right.iter().map(|[a, b]| a + b).sum::<f64>() / (2 * right.len()) as f64;
    // A few of the same networks, one after the other.
    let alone: Vec<Task> = tasks().into_iter().step_by(12).collect();
    let began = Instant::now();
    for task in &alone {
        let Task::Pair(a, b) = *task else { continue };
        let names = &data.names.attributes;
        let contest = Contest { loss: AdvLoss::MultiTask, ..Contest::default() };
        let plan = zoo::mlp(&[FEATURES, HIDDEN[0], HIDDEN[1]])?;
        let mut net = Adversary::new(plan, &data, &[&names[a]], &[&names[b]], contest, SEED, &Device::Cpu)?;
        trainer().fit(&mut net, &data)?;
    }
    let one_by_one = began.elapsed().as_secs_f64() * tasks().len() as f64 / alone.len() as f64;
    println!("value={value} seconds={seconds} one_by_one={one_by_one}");
    Ok(())
}

/// The small net on images, with reversal and without.
fn step() -> Result<()> {
    const STEPS: usize = 10;
    let n = STEPS * 128;
    let x = SEED.normal_tensor((n, 3, 16, 16), (0.0, 1.0), DType::F32, &Device::Cpu)?;
    let a = SEED.named("a").uniform_tensor((n, 2), (0.0, 1.0), DType::F32, &Device::Cpu)?.gt(0.5)?;
    let data = Dataset::new("images", x, Tensor::zeros(n, DType::U32, &Device::Cpu)?, ["all"])?;
    let data = data.with_attributes(a, ["a", "b"])?;
    let make = |loss: AdvLoss| {
        // Heads and features at once, as the peer has it.
        let contest = Contest { loss, rival_steps: 1, ..Contest::default() };
        let plan = zoo::mlp_on(&[3, 16, 16], &[256, 64])?;
        Adversary::new(plan, &data, &["a"], &["b"], contest, SEED, &Device::Cpu)
    };
    let mut nets = [make(AdvLoss::MultiTask)?, make(AdvLoss::Reverse)?];
    let trainer = Trainer::adam(1e-4).batch(128).seed(SEED).silent();
    let mut seconds = [Vec::new(), Vec::new()];
    for _ in 0..30 {
        for (net, seconds) in nets.iter_mut().zip(&mut seconds) {
            let began = Instant::now();
            trainer.fit(net, &data)?;
            seconds.push(began.elapsed().as_secs_f64() / STEPS as f64);
        }
    }
    for (name, mut seconds) in ["pair", "reverse"].into_iter().zip(seconds) {
        seconds.sort_by(f64::total_cmp);
        println!("{name}={}", seconds[15]);
    }
    Ok(())
}
