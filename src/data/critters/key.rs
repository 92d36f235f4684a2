//! The key to the species: at most four questions about the first eight attributes.

use super::{ATTRIBUTES, Critters, SPECIES};
use crate::error::Result;
use crate::figure::{Branch, Figure, tree};

enum Key {
    Ask(usize, &'static Key, &'static Key),
    Species(usize),
}
use Key::{Ask, Species};

const HORNS: usize = 0;
const POINTED_EARS: usize = 1;
const STRIPES: usize = 2;
const SPOTS: usize = 3;
const DARK_COAT: usize = 4;
const WARM_COAT: usize = 5;
const WHISKERS: usize = 6;
const BIG_EYES: usize = 7;

/// Each question with what follows from yes, then from no.
static KEY: Key = Ask(
    HORNS,
    &Ask(
        DARK_COAT,
        &Ask(STRIPES, &Species(0), &Species(1)),
        &Ask(WHISKERS, &Species(2), &Ask(POINTED_EARS, &Species(3), &Species(4))),
    ),
    &Ask(
        POINTED_EARS,
        &Ask(SPOTS, &Ask(BIG_EYES, &Species(5), &Species(6)), &Ask(WARM_COAT, &Species(7), &Species(8))),
        &Ask(WHISKERS, &Ask(STRIPES, &Species(9), &Species(10)), &Species(11)),
    ),
);

/// Questions and answers that lead to each species.
pub(super) fn paths() -> [Vec<(usize, bool)>; SPECIES] {
    fn walk(key: &Key, so_far: &[(usize, bool)], paths: &mut [Vec<(usize, bool)>; SPECIES]) {
        match key {
            Species(species) => paths[*species] = so_far.to_vec(),
            Ask(attribute, yes, no) => {
                walk(yes, &[so_far, &[(*attribute, true)]].concat(), paths);
                walk(no, &[so_far, &[(*attribute, false)]].concat(), paths);
            }
        }
    }
    let mut paths: [Vec<(usize, bool)>; SPECIES] = Default::default();
    walk(&KEY, &[], &mut paths);
    paths
}

impl Critters {
    /// Questions and answers that lead to each species: attribute and whether it is present.
    pub fn key() -> Vec<Vec<(usize, bool)>> {
        paths().to_vec()
    }

    /// Species of a critter with these attributes, by the key.
    pub fn identify(present: &[bool; 16]) -> usize {
        let mut key = &KEY;
        loop {
            match key {
                Species(species) => return *species,
                Ask(attribute, yes, no) => key = if present[*attribute] { yes } else { no },
            }
        }
    }

    /// The key drawn as a tree, with a portrait of each species that has only what its path asks for.
    pub fn key_figure(&self) -> Result<Figure> {
        fn branch(critters: &Critters, key: &Key, strength: &mut [f64; 16]) -> Result<Branch> {
            match key {
                Species(species) => {
                    Ok(Branch::leaf(&format!("S{species}")).image(critters.portrait(&strength[..])?))
                }
                Ask(attribute, yes, no) => {
                    strength[*attribute] = 1.0;
                    let yes = branch(critters, yes, strength)?;
                    strength[*attribute] = 0.0;
                    let no = branch(critters, no, strength)?;
                    Ok(Branch::question(&ATTRIBUTES[*attribute].replace('_', " "), yes, no))
                }
            }
        }
        let mut strength = [0.0; 16];
        // Half way between a frown and a smile, neither of which belongs to a species.
        strength[8] = 0.5;
        tree(&branch(self, &KEY, &mut strength)?)
    }
}
