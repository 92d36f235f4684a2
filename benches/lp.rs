//! Linear programs and their gradients; `benches/lp.py` is the peer. `lp MODE` prints the median seconds of one pass.
//!
//! `auc`: 24 × 24 scores, the AUC program with its diagonal structure declared, as a layer, forward and backward.
//! `auc-dense`: the same with a dense matrix and no look for structure.
//! `auc-loss`: 100 000 + 100 000 scores in f64, the closed form, forward and backward.
//! `dense`: a random program of 60 variables and 240 rows, optimum and gradients.

use lastlayer::lp::{AucLoss, Lp, LpInputs, LpLayer, Matrix, NewtonLp, Solver, auc_loss, envelope};
use lastlayer::prelude::*;
use std::time::Instant;

/// Numbers in (−1, 1) that look random and that the peer makes without our generator.
fn waves(n: usize, phase: f64) -> Vec<f64> {
    (0..n).map(|i| (1000.0 * (12.9898 * (i as f64 + phase)).sin()).fract()).collect()
}

fn main() -> Result<()> {
    let mode = std::env::args().nth(1).unwrap_or_default();
    match mode.as_str() {
        "auc" => auc(true),
        "auc-dense" => auc(false),
        "auc-loss" => closed(),
        "dense" => dense(),
        other => Err(Error::config("mode", other, "auc, auc-dense, auc-loss or dense")),
    }
}

/// Runs once to warm up, then prints the result and the median of so many.
fn report(runs: usize, mut pass: impl FnMut() -> Result<f64>) -> Result<()> {
    let value = pass()?;
    let mut seconds = Vec::new();
    for _ in 0..runs {
        let began = Instant::now();
        std::hint::black_box(pass()?);
        seconds.push(began.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    println!("value={value} seconds={}", seconds[runs / 2]);
    Ok(())
}

fn auc(structured: bool) -> Result<()> {
    const SIDE: usize = 24;
    let (f, g) = (waves(SIDE, 1.0), waves(SIDE, 5.0));
    let device = Device::Cpu;
    let [f, g] = [Var::new(&f[..], &device)?, Var::new(&g[..], &device)?];
    let y: Vec<u8> = (0..2 * SIDE).map(|i| u8::from(i < SIDE)).collect();
    let scores: Vec<f64> = [f.to_vec1::<f64>()?, g.to_vec1::<f64>()?].concat();
    let mut lp = Lp::auc(&scores, &y, 0.1)?;
    if !structured {
        lp.A = Matrix::Dense(lp.A.to_dense());
    }
    let layer = LpLayer { solver: NewtonLp { detect: false, ..Default::default() }, ..Default::default() };
    report(if structured { 101 } else { 5 }, || {
        let distances = f.unsqueeze(1)?.broadcast_sub(&g.unsqueeze(0)?)?.flatten_all()?;
        let b = Tensor::cat(&[(distances - 0.1)?, Tensor::zeros(SIDE * SIDE, DType::F64, &device)?], 0)?;
        let out = layer.forward(&lp, &LpInputs::b(&b))?;
        // Through the solution, not the optimum: every pair's z carries a gradient.
        let loss = out.z.mean_all()?;
        let gradient = loss.backward()?;
        std::hint::black_box(gradient.get(&f).map(|g| g.to_vec1::<f64>()).transpose()?);
        Ok(loss.to_scalar::<f64>()?)
    })
}

fn closed() -> Result<()> {
    const SIDE: usize = 100_000;
    let s: Vec<f64> = waves(2 * SIDE, 1.0);
    let y = Tensor::from_vec(
        (0..2 * SIDE).map(|i| u32::from(i % 2 == 0)).collect::<Vec<_>>(),
        2 * SIDE,
        &Device::Cpu,
    )?;
    let s = Var::new(&s[..], &Device::Cpu)?;
    report(21, || {
        let loss = auc_loss(s.as_tensor(), &y, 0.1, AucLoss::Value)?.on(s.as_tensor())?;
        let gradient = loss.backward()?;
        std::hint::black_box(gradient.get(&s).is_some());
        Ok(loss.to_scalar::<f64>()?)
    })
}

fn dense() -> Result<()> {
    const N: usize = 60;
    const M: usize = 240;
    let a = Array2::from_shape_vec((M, N), waves(M * N, 3.0)).map_err(|e| Error::shape("A", "m × n", e))?;
    // A feasible point and multipliers that balance, so that there is an optimum.
    let (z, slack, v) = (waves(N, 7.0), waves(M, 11.0), waves(M, 13.0));
    let b: Vec<f64> = a.dot(&Array1::from(z)).iter().zip(&slack).map(|(a, s)| a + s.abs()).collect();
    let weights = Array1::from_iter(v.iter().map(|v| v.abs()));
    let c: Vec<f64> = a.t().dot(&weights).iter().map(|c| -c).collect();
    let lp = Lp::new(Matrix::Dense(a), &b, &c)?;
    let solver = NewtonLp::default();
    report(21, || {
        let solution = solver.solve(&lp)?.optimal()?.clone();
        std::hint::black_box(envelope(&solution));
        Ok(solution.value)
    })
}
