//! Codes that a tree and a network both read: every equation of Part VI.

mod classes;
#[path = "../common/mod.rs"]
mod common;
#[path = "../device/mod.rs"]
mod device;
mod errata;
mod fidelity;
mod quantisers;
mod readout;
mod training;
#[path = "../watched/mod.rs"]
mod watched;

use common::{all_near, differences, message, near};
use device::device;
use lastlayer::data::critters::{ATTRIBUTES, Critters, Preset, SPECIES};
use lastlayer::prelude::{Codes, DType, Dataset, Part, Seed, Tensor};

/// Species and attributes of Critters, and codes of 16 levels that are functions of the species, drawn at random.
fn class_functions(n: usize, d: usize, seed: Seed) -> (Codes, Dataset) {
    let latents = Critters::new(Preset::Plain, seed).latents(Part::Test, n).unwrap();
    let code = |y: u32, j: u64| seed.named("codes").stream(j).below(u64::from(y), 16).unwrap() as u8;
    let values = latents.species.iter().flat_map(|y| (0..d as u64).map(move |j| code(*y, j))).collect();
    let x = Tensor::zeros((n, 1), DType::F32, device()).unwrap();
    let y = Tensor::from_vec(latents.species.to_vec(), n, device()).unwrap();
    let a = latents.clean.iter().copied().collect::<Vec<u8>>();
    let a = Tensor::from_vec(a, (n, ATTRIBUTES.len()), device()).unwrap();
    let classes: Vec<String> = (0..SPECIES).map(|species| format!("S{species}")).collect();
    let data = Dataset::new("species", x, y, &classes).unwrap().with_attributes(a, ATTRIBUTES).unwrap();
    (Codes::from_bytes(values, d, 16).unwrap(), data)
}
