//! A whole training step of a small convolutional net and of an MLP: forward, cross entropy, backward, Adam;
//! `benches/step.py` is the peer. `step conv` or `step mlp` prints the median of thirty steps after five to warm up;
//! `step parts` the median of each operation by itself.

use candle_nn::loss::cross_entropy;
use lastlayer::ops::{AdamStep, Running, adam_step, backward, conv_block, linear, relu};
use lastlayer::prelude::*;
use std::time::Instant;

/// A parameter with its two moments.
struct Parameter([Var; 3]);

impl Parameter {
    /// Normal numbers with variance 1/fan_in, or zeros.
    fn new(shape: &[usize], fan_in: usize, seed: u64, device: &Device) -> Result<Parameter> {
        let sd = if fan_in == 0 { 0.0 } else { (fan_in as f64).recip().sqrt() };
        let start = Seed::new(seed).normal_tensor(shape, (0.0, sd), DType::F32, device)?;
        let zeros = || Var::zeros(shape, DType::F32, device);
        Ok(Parameter([Var::from_tensor(&start)?, zeros()?, zeros()?]))
    }

    fn t(&self) -> &Tensor {
        self.0[0].as_tensor()
    }
}

struct Net {
    parameters: Vec<Parameter>,
    running: Vec<Running>,
    x: Tensor,
    y: Tensor,
}

impl Net {
    fn conv(device: &Device) -> Result<Net> {
        let (mut parameters, mut running) = (Vec::new(), Vec::new());
        for (i, (c, o)) in [(3, 32), (32, 64), (64, 128)].into_iter().enumerate() {
            parameters.push(Parameter::new(&[o, c, 3, 3], c * 9, i as u64, device)?);
            let ones = Var::ones(o, DType::F32, device)?;
            running.push(Running::new(&ones)?);
            let zeros = || Var::zeros(o, DType::F32, device);
            parameters.push(Parameter([ones, zeros()?, zeros()?]));
            parameters.push(Parameter::new(&[o], 0, 0, device)?);
        }
        parameters.push(Parameter::new(&[12, 128 * 4 * 4], 2048, 3, device)?);
        parameters.push(Parameter::new(&[12], 0, 0, device)?);
        let x = Seed::new(9).normal_tensor((64, 3, 32, 32), (0.0, 1.0), DType::F32, device)?;
        let y = Tensor::from_vec((0..64).map(|i| i % 12).collect::<Vec<u32>>(), 64, device)?;
        Ok(Net { parameters, running, x, y })
    }

    fn mlp(device: &Device) -> Result<Net> {
        let mut parameters = Vec::new();
        for (i, (d, o)) in [(784, 256), (256, 256), (256, 10)].into_iter().enumerate() {
            parameters.push(Parameter::new(&[o, d], d, i as u64, device)?);
            parameters.push(Parameter::new(&[o], 0, 0, device)?);
        }
        let x = Seed::new(9).normal_tensor((128, 784), (0.0, 1.0), DType::F32, device)?;
        let y = Tensor::from_vec((0..128).map(|i| i % 10).collect::<Vec<u32>>(), 128, device)?;
        Ok(Net { parameters, running: Vec::new(), x, y })
    }

    fn forward(&self) -> Result<Tensor> {
        let p = &self.parameters;
        if self.running.is_empty() {
            let z = relu(&linear(&self.x, p[0].t(), Some(p[1].t()))?)?;
            let z = relu(&linear(&z, p[2].t(), Some(p[3].t()))?)?;
            return linear(&z, p[4].t(), Some(p[5].t()));
        }
        let mut z = self.x.clone();
        for (p, running) in p.chunks_exact(3).zip(&self.running) {
            z = conv_block(&z, p[0].t(), p[1].t(), p[2].t(), running, 1, 2, true)?;
        }
        linear(&z.flatten_from(1)?, p[9].t(), Some(p[10].t()))
    }

    fn step(&self, step: usize) -> Result<Tensor> {
        let loss = cross_entropy(&self.forward()?, &self.y)?;
        let grads = backward(&loss)?;
        let with = AdamStep { step, ..AdamStep::default() };
        for Parameter([var, first, second]) in &self.parameters {
            if let Some(grad) = grads.get(var) {
                adam_step(var, grad, first, second, &with)?;
            }
        }
        Ok(loss)
    }
}

fn median(runs: usize, mut f: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let mut seconds = Vec::new();
    for run in 1..=runs + 5 {
        let began = Instant::now();
        f(run)?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    let mut seconds = seconds.split_off(5);
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[runs / 2])
}

fn parts(device: &Device) -> Result<()> {
    use lastlayer::ops::{batch_norm, batch_norm_relu, conv2d, max_pool2d};
    let draw = |shape: &[usize]| Seed::new(1).normal_tensor(shape, (0.0, 1.0), DType::F32, device);
    for (c, o, size) in [(3, 32, 32), (32, 64, 16), (64, 128, 8)] {
        let x = Var::from_tensor(&draw(&[64, c, size, size])?)?;
        let w = Var::from_tensor(&draw(&[o, c, 3, 3])?)?;
        let z = Var::from_tensor(&draw(&[64, o, size, size])?)?;
        let (gamma, beta) = (Var::ones(o, DType::F32, device)?, Var::zeros(o, DType::F32, device)?);
        let running = Running::new(&gamma)?;
        let x = if c == 3 { x.as_detached_tensor() } else { x.as_tensor().clone() };
        let both = |name: &str, f: &dyn Fn() -> Result<Tensor>| -> Result<()> {
            let forward = median(20, |_| f().map(drop))?;
            let all = median(20, |_| Ok(f()?.backward().map(drop)?))?;
            println!("{name} {c}-{o} at {size}: forward {:.2} ms, both {:.2} ms", forward * 1e3, all * 1e3);
            Ok(())
        };
        both("conv2d", &|| conv2d(&x, &w, 1, 1))?;
        both("batch_norm", &|| batch_norm(&z, &gamma, &beta, &running, true))?;
        both("batch_norm_relu", &|| batch_norm_relu(&z, &gamma, &beta, &running, true))?;
        both("relu", &|| relu(&z))?;
        both("max_pool2d", &|| max_pool2d(&z, 2, 2))?;
        both("conv_block", &|| conv_block(&x, &w, &gamma, &beta, &running, 1, 2, true))?;
    }
    for (name, net) in [("conv", Net::conv(device)?), ("mlp", Net::mlp(device)?)] {
        let forward = median(20, |_| net.forward().map(drop))?;
        let both = median(20, |_| backward(&cross_entropy(&net.forward()?, &net.y)?).map(drop))?;
        let adam = median(20, |step| {
            let with = AdamStep { step, ..AdamStep::default() };
            net.parameters.iter().try_for_each(|Parameter([v, m, u])| adam_step(v, &m.copy()?, m, u, &with))
        })?;
        let [a, b, c] = [forward, both, adam].map(|seconds| seconds * 1e3);
        println!("{name} net: forward {a:.2} ms, with backward {b:.2} ms, Adam {c:.2} ms");
    }
    Ok(())
}

fn main() -> Result<()> {
    let device = Device::Cpu;
    let net = match std::env::args().nth(1).as_deref() {
        Some("conv") => Net::conv(&device)?,
        Some("mlp") => Net::mlp(&device)?,
        _ => return parts(&device),
    };
    let mut loss = None;
    let seconds = median(30, |step| {
        loss = Some(net.step(step)?);
        Ok(())
    })?;
    if let Some(loss) = loss {
        println!("loss={}", loss.to_scalar::<f32>()?);
    }
    println!("seconds={seconds}");
    Ok(())
}
