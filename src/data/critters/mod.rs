//! Critters: small creature faces with sixteen named attributes and twelve species, drawn from a seed.
//!
//! ```text
//! seed, i ──▶ species ──▶ attributes y ──▶ evidence e = (y − ½) g + noise ──▶ strength ──▶ picture
//!                              └──▶ label (flipped with a known probability)
//! ```
//! The picture shows nothing of an attribute but its strength, so what any classifier can reach follows from the
//! evidence alone: [`Critters::bayes_limit`]. Every draw has a fixed number (never renumber them), hence any image of any part is
//! available by itself, and two machines render the same set. Book: `measures/critters.md`.
//!
//! ```
//! use lastlayer::prelude::*;
//! let critters = Critters::new(Preset::Iid, Seed::new(1));
//! let test = critters.part(Part::Test, 20, &Device::Cpu)?;
//! assert_eq!((test.x.dims(), test.k()), (&[20, 3, 32, 32][..], 12));
//! // What no classifier can beat.
//! let limit = critters.bayes_limit("smile", Part::Test)?;
//! assert!(limit.accuracy() < 0.92 && limit.auc() < 0.98);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod bayes_limit;
mod key;
mod render;

use candle_core::{Device, Tensor};
use ndarray::{Array1, Array2};
use rayon::prelude::*;

use super::{Dataset, Part, Parts};
use crate::error::{Error, Result, ensure_shape};
use crate::figure::Image;
use crate::seed::Seed;

pub use bayes_limit::{BayesLimit, Fidelity};

/// Attributes of a critter. The first eight decide the species, the other eight are free of it.
///
/// ```
/// use lastlayer::data::critters::{ATTRIBUTES, Critters};
/// assert_eq!((ATTRIBUTES[0], ATTRIBUTES[15]), ("horns", "collar"));
/// assert_eq!(Critters::attribute("collar")?, 15);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub const ATTRIBUTES: [&str; 16] = [
    "horns",
    "pointed_ears",
    "stripes",
    "spots",
    "dark_coat",
    "warm_coat",
    "whiskers",
    "big_eyes",
    "smile",
    "mouth_open",
    "red_lips",
    "big_lips",
    "cheeks",
    "brows",
    "glasses",
    "collar",
];

/// Number of species.
///
/// ```
/// use lastlayer::data::critters::{Critters, SPECIES};
/// assert_eq!(Critters::key().len(), SPECIES); // a path of questions to each
/// ```
pub const SPECIES: usize = 12;
/// Attributes `0..KEY_ATTRIBUTES` decide the species.
const KEY_ATTRIBUTES: usize = 8;
/// Order in which free attributes are decided: whoever another depends on comes first.
const FREE_ORDER: [usize; 8] = [14, 8, 10, 9, 11, 12, 13, 15];
/// Images of each part: no index is in two parts.
const PART: u64 = 100_000;

// The draws of an image.
const DRAW_SPECIES: u64 = 0;
const DRAW_ATTRIBUTE: u64 = 1;
const DRAW_FLIP: u64 = 17;
const DRAW_STRENGTH: u64 = 64;

/// A joint law of two free attributes: `attribute` is drawn given `given`, with correlation coefficient `phi`.
///
/// Book: `measures/critters.md#eq-critters-conditionals`.
///
/// ```
/// use lastlayer::data::critters::{Correlation, Critters, Preset};
/// use lastlayer::prelude::{Part, Seed};
/// let mut critters = Critters::new(Preset::Plain, Seed::new(1));
/// let [collar, glasses] = [Critters::attribute("collar")?, Critters::attribute("glasses")?];
/// critters.correlations = vec![Correlation { attribute: collar, given: glasses, phi: 0.5, train_only: false }];
/// let clean = critters.latents(Part::Test, 2000)?.clean;
/// let phi = lastlayer::metrics::phi(clean.column(collar), clean.column(glasses))?;
/// assert!((phi - 0.5).abs() < 0.1);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correlation {
    /// Number of the attribute that is drawn second; [`Critters::attribute`] tells it by name.
    pub attribute: usize,
    /// Number of the attribute that is drawn first.
    pub given: usize,
    /// Correlation coefficient of the two, from −1 to 1.
    pub phi: f64,
    /// Holds in the training part only.
    pub train_only: bool,
}

/// Ready-made laws of the attributes.
///
/// ```
/// use lastlayer::prelude::*;
/// let shift = Critters::new(Preset::Shift, Seed::new(1));
/// // Cheeks go with glasses in the training part only.
/// assert!(shift.correlations[2].train_only && shift.correlations[2].phi == 0.6);
/// assert!(Critters::new(Preset::Plain, Seed::new(1)).correlations.is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// No ties between free attributes. As in every preset, 15 % of the labels of big lips are wrong.
    Plain,
    /// Smile with open mouth (.35) and red with big lips (.30), all parts alike.
    Iid,
    /// `Iid`, and cheeks with glasses (.60) in the training part only: leaning on glasses pays there and nowhere else.
    Shift,
    /// `Iid`, with labels of big lips (.30) and cheeks (.10) flipped in the training part.
    Noisy,
}

/// Recipe of a set; the defaults of every preset are the reference.
///
/// Checked by `tests/critters.rs`, whose fixture fixes draws, labels, strengths and pixels.
///
/// ```
/// use lastlayer::prelude::*;
/// let mut critters = Critters::new(Preset::Plain, Seed::new(1));
/// (critters.size, critters.noise) = (24, 0.0);
/// let data = critters.part(Part::Train, 10, &Device::Cpu)?;
/// assert_eq!(data.x.dims(), [10, 3, 24, 24]);
/// assert_eq!(data.target("glasses")?.k(), 2); // any attribute can be the task
/// // With evidence at hand, the key names nearly every species.
/// assert!(critters.species_by_key()? > 0.99);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Critters {
    /// What every draw comes from.
    pub seed: Seed,
    /// Name in tables and figures.
    pub name: String,
    /// Side of an image: 24, 32 or 48.
    pub size: usize,
    /// Standard deviation of the pixel noise.
    pub noise: f64,
    /// How far place, scale, tilt, coat and light vary, as a multiple of the reference.
    pub jitter: f64,
    /// Probability of a key attribute that the species leaves open.
    pub off_path: f64,
    /// Distance of the evidence between the two values of an attribute, in standard deviations.
    pub gaps: [f64; 16],
    /// Share of images that have each attribute; of those in the key it follows from the species.
    pub prevalence: [f64; 16],
    /// Probability that a label is wrong in the validation and test parts.
    pub flips: [f64; 16],
    /// Probability that a label is wrong in the training part.
    pub train_flips: [f64; 16],
    /// Pairs of free attributes that are tied to each other.
    pub correlations: Vec<Correlation>,
    /// Relative frequency of each species.
    pub species_weights: [f64; SPECIES],
}

impl Critters {
    /// The reference recipe of a preset.
    pub fn new(preset: Preset, seed: Seed) -> Critters {
        let pair = |attribute, given, phi, train_only| Correlation { attribute, given, phi, train_only };
        let iid = vec![pair(9, 8, 0.35, false), pair(11, 10, 0.30, false)];
        let (name, correlations) = match preset {
            Preset::Plain => ("plain", Vec::new()),
            Preset::Iid => ("iid", iid),
            Preset::Shift => ("shift", [iid, vec![pair(12, 14, 0.60, true)]].concat()),
            Preset::Noisy => ("noisy", iid),
        };
        let mut flips = [0.0; 16];
        flips[11] = 0.15;
        let mut train_flips = flips;
        if preset == Preset::Noisy {
            (train_flips[11], train_flips[12]) = (0.30, 0.10);
        }
        let gaps = [6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 2.6, 3.2, 2.6, 3.0, 2.15, 2.8, 6.0, 5.0];
        let mut critters = Critters {
            seed,
            name: format!("critters {name}"),
            size: 32,
            noise: 0.06,
            jitter: 1.0,
            off_path: 0.08,
            gaps,
            prevalence: [0., 0., 0., 0., 0., 0., 0., 0., 0.5, 0.4, 0.4, 0.3, 0.5, 0.35, 0.5, 0.25],
            flips,
            train_flips,
            correlations,
            species_weights: [1.0; SPECIES],
        };
        for j in 0..KEY_ATTRIBUTES {
            critters.prevalence[j] = critters.key_prevalence(j);
        }
        critters
    }

    /// `n` images of a part as a set: species are the classes, all sixteen attributes come with their labels.
    ///
    /// Rendered in parallel, about 0.15 ms an image on two cores. Fails: `Config` for a recipe or a number that cannot be, see
    /// [`latents`](Critters::latents).
    pub fn part(&self, part: Part, n: usize, device: &Device) -> Result<Dataset> {
        let latents = self.latents(part, n)?;
        let mut pixels = vec![0u8; n * 3 * self.size * self.size];
        pixels.par_chunks_mut(3 * self.size * self.size).enumerate().for_each(|(i, image)| {
            let strength: [f64; 16] = std::array::from_fn(|j| latents.strength[[i, j]]);
            render::draw(self, self.stream(part, i), &strength, image);
        });
        let x = Tensor::from_vec(pixels, (n, 3, self.size, self.size), device)?;
        let y = Tensor::from_vec(latents.species.to_vec(), n, device)?;
        let labels: Vec<f32> = latents.labels.iter().map(|l| f32::from(*l)).collect();
        let set = format!("{} {}", self.name, part.name());
        let species = (0..SPECIES).map(|s| format!("S{s}"));
        Dataset::new(&set, x, y, species)?
            .with_attributes(Tensor::from_vec(labels, (n, 16), device)?, ATTRIBUTES)
    }

    /// Parts of 600, 200 and 400 images, for tests and first looks.
    pub fn tiny(&self, device: &Device) -> Result<Parts> {
        self.parts([600, 200, 400], device)
    }

    /// Parts of 6 000, 1 500 and 4 000 images: the size of all chapters.
    pub fn base(&self, device: &Device) -> Result<Parts> {
        self.parts([6000, 1500, 4000], device)
    }

    /// Parts of 20 000, 4 000 and 8 000 images.
    pub fn large(&self, device: &Device) -> Result<Parts> {
        self.parts([20_000, 4000, 8000], device)
    }

    fn parts(&self, [train, validation, test]: [usize; 3], device: &Device) -> Result<Parts> {
        Ok(Parts {
            train: self.part(Part::Train, train, device)?,
            validation: self.part(Part::Validation, validation, device)?,
            test: self.part(Part::Test, test, device)?,
        })
    }

    /// What lies behind the first `n` images of a part: for tests, oracles and figures, never for training.
    ///
    /// Fails: `Config` for more images than a part has (100 000), none, or a recipe with an impossible value.
    pub fn latents(&self, part: Part, n: usize) -> Result<Latents> {
        self.check()?;
        if n == 0 || n as u64 > PART {
            return Err(Error::config("images", n, format!("1 to {PART} of each part")));
        }
        let paths = key::paths();
        let flips = if part == Part::Train { &self.train_flips } else { &self.flips };
        let correlations: Vec<Correlation> = self.correlations_in(part).collect();
        let mut latents = Latents {
            species: Array1::zeros(n),
            labels: Array2::zeros((n, 16)),
            clean: Array2::zeros((n, 16)),
            evidence: Array2::zeros((n, 16)),
            strength: Array2::zeros((n, 16)),
        };
        for i in 0..n {
            let stream = self.stream(part, i);
            let species = self.species(stream.uniform(DRAW_SPECIES));
            let present = self.attributes(stream, &paths[species], &correlations);
            latents.species[i] = species as u32;
            for j in 0..16 {
                let flipped = stream.uniform(DRAW_FLIP + j as u64) < flips[j];
                let noise = stream.irwin_hall(DRAW_STRENGTH + 12 * j as u64);
                let evidence = if present[j] { 0.5 } else { -0.5 } * self.gaps[j] + noise;
                latents.clean[[i, j]] = u8::from(present[j]);
                latents.labels[[i, j]] = u8::from(present[j] != flipped);
                latents.evidence[[i, j]] = evidence;
                latents.strength[[i, j]] = (0.5 + evidence / 6.0).clamp(0.0, 1.0);
            }
        }
        Ok(latents)
    }

    /// A face with exactly these strengths, without jitter, light and noise: to show what an attribute looks like.
    ///
    /// Fails: `Shape` unless there are 16 strengths, `Config` for one outside [0, 1].
    pub fn portrait(&self, strength: &[f64]) -> Result<Image> {
        self.check()?;
        ensure_shape("strengths of a portrait", 16, strength.len())?;
        if let Some(bad) = strength.iter().find(|a| !(0.0..=1.0).contains(*a)) {
            return Err(Error::config("strength", bad, "0 to 1"));
        }
        let still = Critters { noise: 0.0, jitter: 0.0, ..self.clone() };
        let mut planes = vec![0u8; 3 * self.size * self.size];
        let strength: [f64; 16] = std::array::from_fn(|j| strength[j]);
        render::draw(&still, self.seed, &strength, &mut planes);
        let pixels = self.size * self.size;
        let rgb: Vec<u8> =
            (0..pixels).flat_map(|p| [planes[p], planes[pixels + p], planes[2 * pixels + p]]).collect();
        Image::rgb(self.size, self.size, &rgb)
    }

    /// Number of the attribute of this name. Fails: `Config` if there is none.
    pub fn attribute(name: &str) -> Result<usize> {
        let found = ATTRIBUTES.iter().position(|a| *a == name);
        found.ok_or_else(|| Error::config("attribute", name, ATTRIBUTES.join(", ")))
    }

    /// The draws of image `i` of a part.
    fn stream(&self, part: Part, i: usize) -> Seed {
        let first = match part {
            Part::Train => 0,
            Part::Validation => PART,
            Part::Test => 2 * PART,
        };
        self.seed.stream(first + i as u64)
    }

    fn species(&self, u: f64) -> usize {
        let total: f64 = self.species_weights.iter().sum();
        let mut rest = u * total;
        for (species, weight) in self.species_weights.iter().enumerate() {
            rest -= weight;
            if rest < 0.0 {
                return species;
            }
        }
        SPECIES - 1
    }

    /// True values of all attributes: the key's path, then the free ones in order.
    fn attributes(&self, stream: Seed, path: &[(usize, bool)], correlations: &[Correlation]) -> [bool; 16] {
        let mut present = [false; 16];
        for (j, value) in present.iter_mut().enumerate().take(KEY_ATTRIBUTES) {
            *value = stream.uniform(DRAW_ATTRIBUTE + j as u64) < self.off_path;
        }
        for (j, value) in path {
            present[*j] = *value;
        }
        for j in FREE_ORDER {
            let probability = match correlations.iter().find(|c| c.attribute == j) {
                None => self.prevalence[j],
                Some(c) => {
                    let [without, with] = self.conditionals(c);
                    if present[c.given] { with } else { without }
                }
            };
            present[j] = stream.uniform(DRAW_ATTRIBUTE + j as u64) < probability;
        }
        present
    }

    fn correlations_in(&self, part: Part) -> impl Iterator<Item = Correlation> {
        self.correlations.iter().copied().filter(move |c| part == Part::Train || !c.train_only)
    }

    /// Probability of the attribute where the given one is absent, and where it is present.
    ///
    /// ```text
    /// P(a | b) = (pa pb + c) / pb,   P(a | not b) = (pa (1 − pb) − c) / (1 − pb),   c = φ √(pa (1 − pa) pb (1 − pb))
    /// ```
    fn conditionals(&self, correlation: &Correlation) -> [f64; 2] {
        let (pa, pb) = (self.prevalence[correlation.attribute], self.prevalence[correlation.given]);
        let c = correlation.phi * (pa * (1.0 - pa) * pb * (1.0 - pb)).sqrt();
        [(pa * (1.0 - pb) - c) / (1.0 - pb), (pa * pb + c) / pb]
    }

    /// Share of critters that have a key attribute.
    fn key_prevalence(&self, j: usize) -> f64 {
        let total: f64 = self.species_weights.iter().sum();
        let per_species = self.given_species(j).into_iter().zip(self.species_weights);
        per_species.map(|(p, weight)| p * weight / total).sum()
    }

    /// Probability of an attribute in each species.
    fn given_species(&self, j: usize) -> [f64; SPECIES] {
        let paths = key::paths();
        std::array::from_fn(|species| match paths[species].iter().find(|(asked, _)| *asked == j) {
            Some((_, value)) => f64::from(u8::from(*value)),
            None if j < KEY_ATTRIBUTES => self.off_path,
            None => self.prevalence[j],
        })
    }

    fn check(&self) -> Result<()> {
        if ![24, 32, 48].contains(&self.size) {
            return Err(Error::config("size of critters", self.size, "24, 32 or 48 pixels"));
        }
        for (field, value) in [("noise", self.noise), ("jitter", self.jitter)] {
            if !(0.0..=2.0).contains(&value) {
                return Err(Error::config(field, value, "0 to 2"));
            }
        }
        let inside = |p: &f64| *p > 0.0 && *p < 1.0;
        for (j, name) in ATTRIBUTES.into_iter().enumerate() {
            if !(self.gaps[j] >= 0.0 && self.gaps[j].is_finite()) {
                return Err(Error::config(format!("gap of {name}"), self.gaps[j], "0 or more"));
            }
            if j >= KEY_ATTRIBUTES && !inside(&self.prevalence[j]) {
                let field = format!("prevalence of {name}");
                return Err(Error::config(field, self.prevalence[j], "between 0 and 1"));
            }
            for flip in [self.flips[j], self.train_flips[j]] {
                if !(0.0..=0.5).contains(&flip) {
                    return Err(Error::config(format!("flips of {name}"), flip, "0 to 0.5"));
                }
            }
        }
        if !(0.0..=1.0).contains(&self.off_path) {
            return Err(Error::config("off_path", self.off_path, "0 to 1"));
        }
        let weights = &self.species_weights;
        if weights.iter().any(|w| !(*w >= 0.0 && w.is_finite())) || weights.iter().sum::<f64>() <= 0.0 {
            return Err(Error::config("species_weights", format!("{weights:?}"), "0 or more, not all 0"));
        }
        self.correlations
            .iter()
            .enumerate()
            .try_for_each(|(i, c)| self.check_correlation(c, &self.correlations[..i]))
    }

    fn check_correlation(&self, c: &Correlation, earlier: &[Correlation]) -> Result<()> {
        let place = |j: usize| FREE_ORDER.iter().position(|free| *free == j);
        let ordered = matches!((place(c.given), place(c.attribute)), (Some(b), Some(a)) if b < a);
        if !ordered || earlier.iter().any(|e| e.attribute == c.attribute) {
            let order = FREE_ORDER.map(|j| ATTRIBUTES[j]).join(", ");
            let allowed = format!("each free attribute given one before it, once, in the order {order}");
            let name = |j: usize| ATTRIBUTES.get(j).copied().unwrap_or("an unknown attribute");
            return Err(Error::config(
                "correlation",
                format!("{} given {}", name(c.attribute), name(c.given)),
                allowed,
            ));
        }
        if self.conditionals(c).iter().all(|p| (0.0..=1.0).contains(p)) {
            return Ok(());
        }
        // The covariance is bounded by what either attribute can share with the other.
        let (pa, pb) = (self.prevalence[c.attribute], self.prevalence[c.given]);
        let scale = (pa * (1.0 - pa) * pb * (1.0 - pb)).sqrt();
        let low = -(pa * pb).min((1.0 - pa) * (1.0 - pb)) / scale;
        let high = (pa * (1.0 - pb)).min(pb * (1.0 - pa)) / scale;
        Err(Error::config("phi", c.phi, format!("{low:.3} to {high:.3}, what the two prevalences allow")))
    }

    /// Shows the recipe in one line.
    pub fn evcxr_display(&self) {
        let text = format!("{}, {} by {} pixels, {}", self.name, self.size, self.size, self.seed);
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// What lies behind a run of images. Rows are images, columns attributes.
///
/// ```
/// use lastlayer::prelude::*;
/// let latents = Critters::new(Preset::Plain, Seed::new(1)).latents(Part::Test, 2000)?;
/// let lips = Critters::attribute("big_lips")?;
/// let wrong = latents.labels.column(lips).iter().zip(latents.clean.column(lips)).filter(|(l, c)| l != c).count();
/// assert!((wrong as f64 / 2000.0 - 0.15).abs() < 0.03); // 15 % of these labels are flipped
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Latents {
    /// Number of the species of each image.
    pub species: Array1<u32>,
    /// Labels as a data set has them, some flipped.
    pub labels: Array2<u8>,
    /// True values.
    pub clean: Array2<u8>,
    /// All that a picture can reveal of each attribute: plus or minus half its gap, and nearly normal noise.
    pub evidence: Array2<f64>,
    /// What the picture shows, in [0, 1].
    pub strength: Array2<f64>,
}
