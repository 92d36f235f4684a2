//! Linear programs: every optimum against HiGHS or a closed form, every gradient against finite differences, every claim
//! of a solver against its certificate.
#![allow(non_snake_case)]

mod algebra;
mod backward;
mod certificate;
#[path = "../common/mod.rs"]
mod common;
mod concordance;
mod definitions;
#[path = "../device/mod.rs"]
mod device;
mod differentiating;
mod errata;
mod families;
mod layer;
mod losses;
mod metrics;
mod newton;
mod penalties;
mod piecewise;
mod program;
mod published;
mod rivals;
mod smooth;
mod solve;
#[path = "../watched/mod.rs"]
mod watched;

use common::{assert_close, differences};
use lastlayer::lp::{Lp, Matrix, Solver};
use lastlayer::ndarray::Array2;
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(2021);

/// Dense matrix from its rows.
fn rows<const N: usize>(rows: &[[f64; N]]) -> Matrix {
    Matrix::Dense(Array2::from(rows.to_vec()))
}

/// min c'z subject to A z ≤ b, from rows.
fn lp<const N: usize>(a: &[[f64; N]], b: &[f64], c: &[f64]) -> Lp {
    Lp::new(rows(a), b, c).unwrap()
}

/// All states of a solver, the first and the last included.
fn states<S: Solver<State: Clone>>(solver: &S, mut state: S::State) -> Vec<S::State> {
    let mut states = vec![state.clone()];
    while !solver.done(&state) {
        solver.step(&mut state).unwrap();
        states.push(state.clone());
    }
    states
}

/// What a solver finds from a state.
fn answer<S: Solver>(solver: &S, mut state: S::State) -> S::Answer {
    solver.run(&mut state).unwrap();
    solver.finish(&state).unwrap()
}

/// Number `c` of about standard normal ones, the same in every language.
fn bell(seed: Seed, c: usize) -> f64 {
    seed.irwin_hall(12 * c as u64)
}

fn bells(seed: Seed, n: usize) -> Vec<f64> {
    (0..n).map(|c| bell(seed, c)).collect()
}

fn uniforms(seed: Seed, n: usize) -> Vec<f64> {
    (0..n).map(|c| seed.uniform(c as u64)).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Scores of `n` samples, some positive and one higher on average, never without both classes.
fn scores(n: usize, seed: Seed) -> (Vec<f64>, Vec<u8>) {
    let y: Vec<u8> = (0..n).map(|i| u8::from(i == 0 || (i > 1 && seed.uniform(i as u64) < 0.4))).collect();
    let noise = seed.named("scores");
    ((0..n).map(|i| bell(noise, i) + f64::from(y[i])).collect(), y)
}

fn median(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    values[values.len() / 2]
}
