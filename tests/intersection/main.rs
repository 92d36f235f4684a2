//! Codes that a tree and a network both read: every equation of Part VI.

mod classes;
mod errata;
mod fidelity;
mod quantisers;
mod readout;
mod training;

use lastlayer::data::critters::{ATTRIBUTES, Critters, Preset, SPECIES};
use lastlayer::prelude::{Codes, DType, Dataset, Device, Part, Seed, Tensor};

/// Species and attributes of Critters, and codes of 16 levels that are functions of the species, drawn at random.
fn class_functions(n: usize, d: usize, seed: Seed) -> (Codes, Dataset) {
    let latents = Critters::new(Preset::Plain, seed).latents(Part::Test, n).unwrap();
    let code = |y: u32, j: u64| seed.named("codes").stream(j).below(u64::from(y), 16).unwrap() as u8;
    let values = latents.species.iter().flat_map(|y| (0..d as u64).map(move |j| code(*y, j))).collect();
    let x = Tensor::zeros((n, 1), DType::F32, &Device::Cpu).unwrap();
    let y = Tensor::from_vec(latents.species.to_vec(), n, &Device::Cpu).unwrap();
    let a = latents.clean.iter().copied().collect::<Vec<u8>>();
    let a = Tensor::from_vec(a, (n, ATTRIBUTES.len()), &Device::Cpu).unwrap();
    let classes: Vec<String> = (0..SPECIES).map(|species| format!("S{species}")).collect();
    let data = Dataset::new("species", x, y, &classes).unwrap().with_attributes(a, ATTRIBUTES).unwrap();
    (Codes::from_bytes(values, d, 16).unwrap(), data)
}

/// Central differences of a function in each entry of its argument.
fn differences(at: &[f64], step: f64, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let moved = |i: usize, by: f64| {
        let mut at = at.to_vec();
        at[i] += by;
        f(&at)
    };
    (0..at.len()).map(|i| (moved(i, step) - moved(i, -step)) / (2.0 * step)).collect()
}

/// Fails unless two numbers differ by at most the tolerance.
#[track_caller]
fn near(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance, "{a} and {b} differ by {:e}", (a - b).abs());
}

/// Fails unless two lists agree entry by entry.
#[track_caller]
fn all_near(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).for_each(|(a, b)| near(*a, *b, tolerance));
}

/// The message of an error.
#[track_caller]
fn message<T>(result: lastlayer::error::Result<T>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}
