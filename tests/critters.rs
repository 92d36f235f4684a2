//! Critters against the recipe: its fixture, the laws of its attributes, its ceilings, and what its pictures reveal.

mod common;
mod device;

use common::near_named;
use device::device;
use lastlayer::data::critters::{ATTRIBUTES, Correlation, Critters, Latents, Preset, SPECIES};
use lastlayer::data::{Dataset, Part};
use lastlayer::distribution::{irwin_hall_cdf, normal_cdf, normal_quantile};
use lastlayer::error::Error;
use lastlayer::prelude::Tensor;
use lastlayer::seed::Seed;

/// Images behind a statistical claim.
const MANY: usize = 50_000;
/// Standard errors that a mean may lie off: one in 16 000 by chance, and all draws are seeded.
const ERRORS: f64 = 4.0;

fn critters(preset: Preset) -> Critters {
    Critters::new(preset, Seed::new(7))
}

/// Rows of the reference table: draw 0, species, labels, strengths of attributes 8 to 11, sum of all pixels.
const FIXTURE: [(u64, u32, &str, [f64; 4], i64); 6] = [
    (0xb8b4c2977eabce45, 8, "0100000010011000", [0.578542, 0.202640, 0.218162, 0.868519], 513_620),
    (0x8254fd5b2111dce4, 6, "0101000011000100", [0.241618, 0.914550, 0.278332, 0.336466], 467_759),
    (0x9c84dc3aae97b406, 7, "0100110000000000", [0.523610, 0.543087, 0.099850, 0.318128], 325_784),
    (0xaec971331f50717c, 8, "0100000000100110", [0.100259, 0.288084, 0.884716, 0.183172], 420_641),
    (0xba42f571ab5a9e30, 8, "0110000011001010", [0.894494, 0.879075, 0.000000, 0.428422], 475_813),
    (0x6e7777fe2dced668, 5, "0101000111001110", [0.573592, 0.751903, 0.325540, 0.284207], 428_765),
];

fn bits(row: impl Iterator<Item = u8>) -> String {
    row.map(|bit| char::from(b'0' + bit)).collect()
}

#[test]
fn six_critters_match_the_reference_table() {
    let recipe = critters(Preset::Iid);
    let latents = recipe.latents(Part::Train, 6).unwrap();
    let data = recipe.part(Part::Train, 6, device()).unwrap();
    for (i, (draw, species, labels, strengths, sum)) in FIXTURE.into_iter().enumerate() {
        assert_eq!(recipe.seed.stream(i as u64).draw(0), draw, "draw 0 of image {i}");
        assert_eq!(latents.species[i], species, "species of image {i}");
        assert_eq!(bits(latents.clean.row(i).iter().copied()), labels, "attributes of image {i}");
        for (j, strength) in strengths.into_iter().enumerate() {
            near_named("strength", latents.strength[[i, 8 + j]], strength, 6e-7);
        }
        let pixels: Vec<u8> = data.x.get(i).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        let total: i64 = pixels.iter().map(|p| i64::from(*p)).sum();
        // Another rounding of a boundary pixel moves the sum by one.
        assert!((total - sum).abs() <= 200, "pixels of image {i} sum to {total}, expected {sum}");
    }
    let shifted = critters(Preset::Shift).latents(Part::Train, 6).unwrap();
    assert_eq!(bits(shifted.clean.column(12).iter().copied()), "100011");
}

#[test]
fn an_image_depends_on_seed_and_index_only() {
    let pixels = |data: &Dataset, row: usize| -> Vec<u8> {
        data.x.get(row).unwrap().flatten_all().unwrap().to_vec1().unwrap()
    };
    let ten = critters(Preset::Iid).part(Part::Test, 10, device()).unwrap();
    let three = critters(Preset::Iid).part(Part::Test, 3, device()).unwrap();
    assert_eq!(pixels(&ten, 2), pixels(&three, 2));
    let single = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let alone = single.install(|| critters(Preset::Iid).part(Part::Test, 10, device()).unwrap());
    assert_eq!(pixels(&ten, 9), pixels(&alone, 9));
    let other = Critters::new(Preset::Iid, Seed::new(8)).part(Part::Test, 3, device()).unwrap();
    assert_ne!(pixels(&ten, 2), pixels(&other, 2));
    let train = critters(Preset::Iid).part(Part::Train, 3, device()).unwrap();
    assert_ne!(pixels(&ten, 2), pixels(&train, 2));
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut n, mut sum) = (0.0, 0.0);
    for value in values {
        n += 1.0;
        sum += value;
    }
    sum / n
}

fn phi(latents: &Latents, a: usize, b: usize) -> f64 {
    let [x, y] = [a, b].map(|j| latents.clean.column(j).mapv(f64::from));
    let (mx, my) = (x.mean().unwrap(), y.mean().unwrap());
    ((&x * &y).mean().unwrap() - mx * my) / (mx * (1.0 - mx) * my * (1.0 - my)).sqrt()
}

#[test]
fn prevalences_correlations_and_species_follow_the_recipe() {
    // The printed prevalences of the key attributes, to the three digits they have.
    let printed = [0.417, 0.437, 0.220, 0.220, 0.213, 0.150, 0.290, 0.150];
    let recipe = critters(Preset::Iid);
    for (j, expected) in printed.into_iter().enumerate() {
        near_named(ATTRIBUTES[j], recipe.prevalence[j], expected, 5.1e-4);
    }
    let latents = recipe.latents(Part::Train, MANY).unwrap();
    let error = |p: f64| ERRORS * (p * (1.0 - p) / MANY as f64).sqrt();
    for (j, name) in ATTRIBUTES.into_iter().enumerate() {
        let share = mean(latents.clean.column(j).iter().map(|c| f64::from(*c)));
        near_named(name, share, recipe.prevalence[j], error(recipe.prevalence[j]));
        let flipped = (0..MANY).map(|i| f64::from(u8::from(latents.clean[[i, j]] != latents.labels[[i, j]])));
        near_named("flips", mean(flipped), recipe.flips[j], error(recipe.flips[j]));
    }
    let chance = ERRORS / (MANY as f64).sqrt();
    near_named("smile, mouth_open", phi(&latents, 8, 9), 0.35, chance);
    near_named("red_lips, big_lips", phi(&latents, 10, 11), 0.30, chance);
    for (key, free) in (0..8).flat_map(|key| (8..16).map(move |free| (key, free))) {
        assert!(phi(&latents, key, free).abs() < 0.02, "{} with {}", ATTRIBUTES[key], ATTRIBUTES[free]);
    }
    let mut counts = [0.0; SPECIES];
    latents.species.iter().for_each(|s| counts[*s as usize] += 1.0);
    let expected = MANY as f64 / SPECIES as f64;
    let chi_square: f64 = counts.iter().map(|c| (c - expected).powi(2) / expected).sum();
    // The 99.99 % point with 11 degrees of freedom.
    assert!(chi_square < 37.4, "species are not uniform: {chi_square}");
    for preset in [Preset::Shift, Preset::Noisy] {
        let train = critters(preset).latents(Part::Train, 6000).unwrap();
        let test = critters(preset).latents(Part::Test, 6000).unwrap();
        let flips = |l: &Latents, j| {
            mean((0..6000).map(|i| f64::from(u8::from(l.clean[[i, j]] != l.labels[[i, j]]))))
        };
        let (on_train, on_test) = if preset == Preset::Shift { (0.60, 0.0) } else { (0.0, 0.0) };
        near_named("cheeks, glasses in train", phi(&train, 12, 14), on_train, 0.04);
        near_named("cheeks, glasses in test", phi(&test, 12, 14), on_test, 0.04);
        let noisy = if preset == Preset::Noisy { [0.30, 0.10] } else { [0.15, 0.0] };
        near_named("flips of big_lips in train", flips(&train, 11), noisy[0], 0.024);
        near_named("flips of cheeks in train", flips(&train, 12), noisy[1], 0.016);
        near_named("flips of big_lips in test", flips(&test, 11), 0.15, 0.019);
        assert_eq!(flips(&test, 12), 0.0);
    }
}

#[test]
fn the_species_is_what_the_key_says() {
    let latents = critters(Preset::Plain).latents(Part::Validation, MANY).unwrap();
    let species = |read: &dyn Fn(usize) -> bool| Critters::identify(&std::array::from_fn(read)) as u32;
    let mut read_right = 0.0;
    for i in 0..MANY {
        assert_eq!(species(&|j| latents.clean[[i, j]] == 1), latents.species[i]);
        read_right += f64::from(u8::from(species(&|j| latents.evidence[[i, j]] > 0.0) == latents.species[i]));
    }
    let ceiling = critters(Preset::Plain).species_by_key().unwrap();
    near_named(
        "species read from evidence",
        read_right / MANY as f64,
        ceiling,
        ERRORS * (0.0035 / MANY as f64).sqrt(),
    );
    near_named("the reference", ceiling, 0.9965, 3e-4);
    let questions: usize = Critters::key().iter().map(Vec::len).sum();
    assert_eq!((questions, Critters::key().len()), (44, SPECIES));
}

/// A tree grown greedily by Gini impurity on yes-or-no columns until its leaves are pure or nothing can be asked:
/// the species it names for each row, and the number of its questions.
fn grow(columns: &[Vec<bool>], species: &[u32], rows: &[usize], named: &mut [u32]) -> usize {
    let counts = |side: &[usize]| {
        let mut counts = [0.0; SPECIES];
        side.iter().for_each(|i| counts[species[*i] as usize] += 1.0);
        counts
    };
    let impurity = |side: &[usize]| {
        let n = side.len() as f64;
        n - counts(side).iter().map(|c: &f64| c * c).sum::<f64>() / n.max(1.0)
    };
    let part = |j: usize| -> (Vec<usize>, Vec<usize>) { rows.iter().partition(|i| columns[j][**i]) };
    let best = (0..columns.len())
        .map(|j| (part(j), j))
        .filter(|((yes, no), _)| !yes.is_empty() && !no.is_empty())
        .map(|((yes, no), j)| (impurity(&yes) + impurity(&no), j))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((_, j)) if impurity(rows) > 0.0 => {
            let (yes, no) = part(j);
            1 + grow(columns, species, &yes, named) + grow(columns, species, &no, named)
        }
        _ => {
            let counts = counts(rows);
            let most = (0..SPECIES).max_by(|a, b| counts[*a].total_cmp(&counts[*b])).unwrap();
            rows.iter().for_each(|i| named[*i] = most as u32);
            0
        }
    }
}

#[test]
fn a_greedy_tree_finds_the_key() {
    let n = 6000;
    let latents = critters(Preset::Iid).latents(Part::Train, n).unwrap();
    let rows: Vec<usize> = (0..n).collect();
    let columns = |read: &dyn Fn(usize, usize) -> bool| -> Vec<Vec<bool>> {
        (0..8).map(|j| (0..n).map(|i| read(i, j)).collect()).collect()
    };
    let species = latents.species.to_vec();
    let mut named = vec![0; n];
    let questions = grow(&columns(&|i, j| latents.clean[[i, j]] == 1), &species, &rows, &mut named);
    assert_eq!((questions, &named), (11, &species));
}

/// The reference table of section 6: accuracy, AUC, FNR in per cent at FPR 1, 2, 5 and 10 %.
const SINGLE: [(&str, f64, f64, [f64; 4]); 4] = [
    ("cheeks", 0.859, 0.936, [57.0, 46.2, 30.7, 19.3]),
    ("smile", 0.903, 0.967, [39.2, 29.2, 17.0, 9.4]),
    ("red_lips", 0.906, 0.967, [39.2, 29.2, 17.0, 9.4]),
    ("mouth_open", 0.947, 0.988, [19.1, 12.6, 6.0, 2.8]),
];

#[test]
fn ceilings_of_single_attributes_have_their_closed_forms() {
    let recipe = critters(Preset::Plain);
    for (name, accuracy, auc, rates) in SINGLE {
        let ceiling = recipe.bayes_limit(name, Part::Test).unwrap();
        near_named(name, ceiling.accuracy(), accuracy, 6e-4);
        near_named(name, ceiling.auc(), auc, 6e-4);
        for (percent, rate) in [1.0, 2.0, 5.0, 10.0].into_iter().zip(rates) {
            near_named(name, 100.0 * ceiling.fnr_at_fpr(percent / 100.0).unwrap(), rate, 0.06);
        }
    }
    for (j, name) in ATTRIBUTES.into_iter().enumerate() {
        let (g, p) = (recipe.gaps[j], recipe.prevalence[j]);
        let ceiling = recipe.bayes_limit(name, Part::Test).unwrap();
        let tau = ((1.0 - p) / p).ln() / g;
        let accuracy = p * normal_cdf(g / 2.0 - tau) + (1.0 - p) * normal_cdf(g / 2.0 + tau);
        near_named(name, ceiling.accuracy(), accuracy, 1e-12);
        near_named(name, ceiling.auc(), normal_cdf(g / 2f64.sqrt()), 1e-12);
        for fpr in [0.01, 0.1, 0.5] {
            let closed = normal_cdf(normal_quantile(1.0 - fpr).unwrap() - g);
            near_named(name, ceiling.fnr_at_fpr(fpr).unwrap(), closed, 1e-10);
        }
    }
    near_named("brows", recipe.bayes_limit("brows", Part::Test).unwrap().accuracy(), 0.924, 6e-4);
    near_named("big_lips", recipe.bayes_limit("big_lips", Part::Test).unwrap().accuracy(), 0.940, 6e-4);
    let smile = recipe.bayes_limit("smile", Part::Test).unwrap();
    near_named("flipped", smile.accuracy_with_flips(0.15), 0.7 * smile.accuracy() + 0.15, 1e-15);
}

#[test]
fn best_f1_matches_the_reference_at_four_prevalences() {
    for (prevalence, f1) in [(0.5, 0.904), (0.3, 0.856), (0.1, 0.753), (0.05, 0.683)] {
        let mut recipe = critters(Preset::Plain);
        recipe.prevalence[8] = prevalence;
        near_named("F1", recipe.bayes_limit("smile", Part::Test).unwrap().best_f1(), f1, 6e-4);
    }
}

#[test]
fn ceilings_of_correlated_pairs_match_the_reference_and_a_count() {
    let recipe = critters(Preset::Iid);
    let printed: [(&str, f64, f64); 4] = [
        ("smile", 0.910, 0.971),
        ("mouth_open", 0.950, 0.989),
        ("red_lips", 0.911, 0.970),
        ("big_lips", 0.943, 0.985),
    ];
    for (name, accuracy, auc) in printed {
        let ceiling = recipe.bayes_limit(name, Part::Test).unwrap();
        near_named(name, ceiling.accuracy(), accuracy, 6e-4);
        near_named(name, ceiling.auc(), auc, 6e-4);
    }
    // tests/oracle/pairs.py: 20 million draws, whose own chance is a few hundredths of a point. The reference prints
    // 36.0 / 26.5 / 15.0 / 8.1 and 37.0 / 27.4 / 15.6 / 8.5, a tenth off at 2 %.
    let simulated = [
        ("smile", 0.91012, [35.954, 26.386, 14.939, 8.057]),
        ("red_lips", 0.91050, [36.968, 27.236, 15.558, 8.461]),
    ];
    for (name, accuracy, rates) in simulated {
        let ceiling = recipe.bayes_limit(name, Part::Test).unwrap();
        near_named(name, ceiling.accuracy(), accuracy, 3e-4);
        for (percent, rate) in [1.0, 2.0, 5.0, 10.0].into_iter().zip(rates) {
            near_named(name, 100.0 * ceiling.fnr_at_fpr(percent / 100.0).unwrap(), rate, 0.12);
        }
    }
    let shift = critters(Preset::Shift);
    near_named(
        "cheeks by glasses",
        shift.bayes_limit("cheeks", Part::Train).unwrap().accuracy(),
        0.899,
        6e-4,
    );
    near_named("cheeks alone", shift.bayes_limit("cheeks", Part::Test).unwrap().accuracy(), 0.859, 6e-4);

    // The same score computed for 50 000 critters, by hand: its accuracy is the ceiling, up to chance.
    let latents = recipe.latents(Part::Test, MANY).unwrap();
    let (pa, pb, phi) = (0.5, 0.4, 0.35);
    let c = phi * f64::sqrt(pa * (1.0 - pa) * pb * (1.0 - pb));
    let (q1, q0) = ((pa * pb + c) / pb, (pa * (1.0 - pb) - c) / (1.0 - pb));
    let right = (0..MANY).map(|i| {
        let likelihood = (3.2 * latents.evidence[[i, 9]]).exp();
        let odds = (pb * q1 * likelihood + (1.0 - pb) * q0)
            / (pb * (1.0 - q1) * likelihood + (1.0 - pb) * (1.0 - q0));
        let s = 2.6 * latents.evidence[[i, 8]] + odds.ln();
        f64::from(u8::from((s > 0.0) == (latents.clean[[i, 8]] == 1)))
    });
    let accuracy = recipe.bayes_limit("smile", Part::Test).unwrap().accuracy();
    near_named("counted", mean(right), accuracy, ERRORS * (0.09 * 0.91 / MANY as f64).sqrt());
}

#[test]
fn oracles_reach_the_ceilings_and_no_more() {
    let recipe = critters(Preset::Plain);
    let latents = recipe.latents(Part::Test, MANY).unwrap();
    for (j, name) in ATTRIBUTES.into_iter().enumerate() {
        let right = (0..MANY)
            .map(|i| f64::from(u8::from((latents.evidence[[i, j]] > 0.0) == (latents.clean[[i, j]] == 1))));
        let expected = irwin_hall_cdf(recipe.gaps[j] / 2.0);
        near_named(name, mean(right), expected, ERRORS * (expected * (1.0 - expected) / MANY as f64).sqrt());
        // The bounded noise differs little from the normal of the closed forms.
        near_named(name, expected, normal_cdf(recipe.gaps[j] / 2.0), 2.5e-3);
        if !(8..14).contains(&j) {
            continue;
        }
        let side = |present: u8| -> Vec<f64> {
            let rows = (0..MANY).filter(|i| latents.clean[[*i, j]] == present);
            rows.map(|i| latents.evidence[[i, j]]).collect()
        };
        let (mut negatives, positives) = (side(0), side(1));
        negatives.sort_by(|a, b| b.total_cmp(a));
        for fpr in [0.01, 0.02, 0.05, 0.1] {
            let threshold = negatives[(fpr * negatives.len() as f64) as usize];
            let missed =
                positives.iter().filter(|e| **e <= threshold).count() as f64 / positives.len() as f64;
            let ceiling = recipe.bayes_limit(name, Part::Test).unwrap().fnr_at_fpr(fpr).unwrap();
            // One point for the lighter tails, and chance: the threshold's own, times the slope of the ROC.
            let z = normal_quantile(1.0 - fpr).unwrap();
            let slope = (recipe.gaps[j] * (z - recipe.gaps[j] / 2.0)).exp();
            let chance = ERRORS
                * ((fpr * slope * slope / negatives.len() as f64) + 0.25 / positives.len() as f64).sqrt();
            near_named(name, missed, ceiling, 0.01 + chance);
        }
    }
}

#[test]
fn fidelities_match_the_reference() {
    let printed = [
        ("horns", 1.000, 0.588),
        ("pointed_ears", 0.977, 0.608),
        ("stripes", 0.862, 0.361),
        ("spots", 0.862, 0.361),
        ("dark_coat", 0.877, 0.352),
        ("warm_coat", 0.714, 0.261),
        ("whiskers", 0.926, 0.450),
        ("big_eyes", 0.714, 0.261),
    ];
    let recipe = critters(Preset::Iid);
    for (name, oracle, floor) in printed {
        let fidelity = recipe.fidelity(name).unwrap();
        near_named(name, fidelity.class_oracle, oracle, 2e-3);
        near_named(name, fidelity.floor, floor, 2e-3);
    }
    let free = recipe.fidelity("collar").unwrap();
    near_named("collar", free.class_oracle, free.floor, 1e-12);
    near_named("collar", free.floor, 0.4, 1e-12);
}

#[test]
fn pictures_are_neither_flat_nor_blown_out() {
    for size in [24, 32, 48] {
        let recipe = Critters { size, ..critters(Preset::Iid) };
        let x = recipe.part(Part::Train, 200, device()).unwrap().inputs().unwrap();
        let means: Vec<f32> = x.mean((0, 2, 3)).unwrap().to_vec1().unwrap();
        assert!(means.iter().all(|m| (80.0..180.0).contains(&(255.0 * m))), "{size}: {means:?}");
        let flat = x.flatten(2, 3).unwrap();
        let spread: Vec<Vec<f32>> = flat.var(2).unwrap().to_vec2().unwrap();
        assert!(spread.iter().flatten().all(|v| *v > 1e-4), "a channel is constant");
    }
}

#[test]
fn sets_have_species_as_classes_and_labels_as_attributes() {
    let parts = critters(Preset::Noisy).tiny(device()).unwrap();
    assert_eq!((parts.train.n(), parts.validation.n(), parts.test.n()), (600, 200, 400));
    let latents = critters(Preset::Noisy).latents(Part::Validation, 200).unwrap();
    assert_eq!(parts.validation.labels().unwrap(), latents.species.to_vec());
    let labels: Vec<f32> = parts.validation.attribute("big_lips").unwrap().to_vec1().unwrap();
    assert_eq!(labels, latents.labels.column(11).mapv(f32::from).to_vec());
    let cheeks = parts.test.target("cheeks").unwrap();
    assert_eq!((cheeks.k(), cheeks.names.attributes.len()), (2, 15));
    assert_eq!(cheeks.a.unwrap().dims(), [400, 15]);
}

#[test]
fn weights_make_species_rare() {
    let mut recipe = critters(Preset::Plain);
    recipe.species_weights = [0.0; SPECIES];
    (recipe.species_weights[3], recipe.species_weights[7]) = (3.0, 1.0);
    let species = recipe.latents(Part::Train, 4000).unwrap().species;
    assert!(species.iter().all(|s| *s == 3 || *s == 7));
    near_named("share", mean(species.iter().map(|s| f64::from(u8::from(*s == 3)))), 0.75, 0.028);
}

#[test]
fn impossible_recipes_are_refused_with_the_reason() {
    let refuse = |change: &dyn Fn(&mut Critters), field: &str| {
        let mut recipe = critters(Preset::Iid);
        change(&mut recipe);
        for error in [
            recipe.part(Part::Train, 2, device()).unwrap_err(),
            recipe.bayes_limit("smile", Part::Test).unwrap_err(),
            recipe.portrait(&[0.0; 16]).unwrap_err(),
        ] {
            assert!(matches!(error, Error::Config { .. }) && error.to_string().contains(field), "{error}");
        }
    };
    refuse(&|r| r.size = 33, "size");
    refuse(&|r| r.noise = f64::NAN, "noise");
    refuse(&|r| r.jitter = -1.0, "jitter");
    refuse(&|r| r.gaps[3] = f64::INFINITY, "gap of spots");
    refuse(&|r| r.prevalence[8] = 1.0, "prevalence of smile");
    refuse(&|r| r.flips[8] = 0.7, "flips of smile");
    refuse(&|r| r.off_path = 1.5, "off_path");
    refuse(&|r| r.species_weights = [0.0; SPECIES], "species_weights");
    let pair = |attribute, given, phi| Correlation { attribute, given, phi, train_only: false };
    refuse(&|r| r.correlations.push(pair(8, 9, 0.1)), "correlation");
    refuse(&|r| r.correlations.push(pair(0, 8, 0.1)), "correlation");
    refuse(&|r| r.correlations.push(pair(99, 8, 0.1)), "correlation");
    refuse(&|r| r.correlations.push(pair(9, 14, 0.1)), "correlation");
    refuse(&|r| r.correlations.push(pair(12, 14, 1.5)), "phi");
    let recipe = critters(Preset::Iid);
    for n in [0, 100_001, usize::MAX] {
        assert!(matches!(recipe.part(Part::Train, n, device()), Err(Error::Config { .. })));
    }
    assert!(matches!(recipe.bayes_limit("tail", Part::Test), Err(Error::Config { .. })));
    assert!(matches!(recipe.fidelity("tail"), Err(Error::Config { .. })));
    let ceiling = recipe.bayes_limit("smile", Part::Test).unwrap();
    for fpr in [0.0, 1.0, f64::NAN, -0.1] {
        assert!(matches!(ceiling.fnr_at_fpr(fpr), Err(Error::Config { .. })));
    }
    assert!(matches!(recipe.portrait(&[2.0; 16]), Err(Error::Config { .. })));
    assert!(matches!(recipe.portrait(&[0.0; 3]), Err(Error::Shape { .. })));
    let mut chain = critters(Preset::Iid);
    chain.correlations.push(Correlation { attribute: 12, given: 9, phi: 0.1, train_only: false });
    for link in ["smile", "mouth_open", "cheeks"] {
        assert!(matches!(chain.bayes_limit(link, Part::Test), Err(Error::Config { .. })));
    }
}

#[test]
fn a_gap_of_zero_leaves_chance() {
    let mut recipe = critters(Preset::Plain);
    recipe.gaps[8] = 0.0;
    let ceiling = recipe.bayes_limit("smile", Part::Test).unwrap();
    near_named("accuracy", ceiling.accuracy(), 0.5, 1e-12);
    near_named("AUC", ceiling.auc(), 0.5, 1e-12);
}

/// Weights of a ridge regression of ±1 on standardised columns, by conjugate gradients on the normal equations.
fn ridge(x: &Tensor, y: &Tensor, ridge: f64) -> Tensor {
    let apply = |w: &Tensor| {
        ((x.t().unwrap().matmul(&x.matmul(w).unwrap())).unwrap() + (w * ridge).unwrap()).unwrap()
    };
    let dot = |a: &Tensor, b: &Tensor| (a * b).unwrap().sum(0).unwrap();
    let mut w = x.t().unwrap().matmul(y).unwrap().zeros_like().unwrap();
    let mut r = x.t().unwrap().matmul(y).unwrap();
    let mut p = r.clone();
    let mut rr = dot(&r, &r);
    // One system per column of y, all stepped together; the tolerance below needs far fewer digits than 80 steps give.
    for _ in 0..80 {
        let ap = apply(&p);
        let step = (&rr / dot(&p, &ap)).unwrap();
        w = (w + p.broadcast_mul(&step).unwrap()).unwrap();
        r = (r - ap.broadcast_mul(&step).unwrap()).unwrap();
        let next = dot(&r, &r);
        p = (&r + p.broadcast_mul(&(&next / &rr).unwrap()).unwrap()).unwrap();
        rr = next;
    }
    w
}

/// Test accuracy of a linear probe for each attribute, the better of two ridges.
fn probe(train: &Tensor, test: &Tensor, train_labels: &Tensor, test_labels: &Tensor) -> Vec<f64> {
    let (mean, sd) =
        (train.mean_keepdim(0).unwrap(), (train.var_keepdim(0).unwrap() + 1e-6).unwrap().sqrt().unwrap());
    let standard = |x: &Tensor| {
        let z = x.broadcast_sub(&mean).unwrap().broadcast_div(&sd).unwrap();
        let one = Tensor::ones((z.dim(0).unwrap(), 1), z.dtype(), device()).unwrap();
        Tensor::cat(&[z, one], 1).unwrap()
    };
    let sign = |a: &Tensor| ((a * 2.0).unwrap() - 1.0).unwrap();
    let (x, z) = (standard(train), standard(test));
    let accuracies = [30.0, 1000.0].map(|weight| -> Vec<f32> {
        let w = ridge(&x, &sign(train_labels), weight);
        let agree = (z.matmul(&w).unwrap() * sign(test_labels)).unwrap().gt(0.0).unwrap();
        agree.to_dtype(z.dtype()).unwrap().mean(0).unwrap().to_vec1().unwrap()
    });
    let [a, b] = accuracies;
    a.into_iter().zip(b).map(|(a, b)| f64::from(a.max(b))).collect()
}

#[test]
fn a_linear_probe_on_pixels_finds_what_the_reference_found() {
    // Ridge on pixels, 5000 images to train and 3000 to test.
    let printed = [
        0.990, 0.813, 0.979, 0.976, 0.999, 0.997, 0.996, 0.970, 0.880, 0.913, 0.802, 0.817, 0.779, 0.870,
        0.989, 0.987,
    ];
    let recipe = Critters { flips: [0.0; 16], train_flips: [0.0; 16], ..critters(Preset::Iid) };
    let [train, test] =
        [(Part::Train, 5000), (Part::Test, 3000)].map(|(part, n)| recipe.part(part, n, device()).unwrap());
    // Two by two averages hold all that a linear probe finds, at a quarter of the columns.
    let pooled = |data: &Dataset| data.inputs().unwrap().avg_pool2d(2).unwrap().flatten_from(1).unwrap();
    let labels = [&train, &test].map(|data| data.a.clone().unwrap());
    let found = probe(&pooled(&train), &pooled(&test), &labels[0], &labels[1]);
    for (j, name) in ATTRIBUTES.into_iter().enumerate() {
        let majority = recipe.prevalence[j].max(1.0 - recipe.prevalence[j]);
        let ceiling = recipe.bayes_limit(name, Part::Test).unwrap().accuracy();
        let chance = ERRORS * (ceiling * (1.0 - ceiling) / 3000.0).sqrt();
        assert!(found[j] > majority && found[j] < ceiling + chance, "{name}: {} of {ceiling}", found[j]);
        // Pooling and another ridge move a probe by a few points.
        near_named(name, found[j], printed[j], 0.035);
    }

    // Under `Shift` the same probe leans on glasses, and pays for it on the test part.
    let shift = Critters { flips: [0.0; 16], train_flips: [0.0; 16], ..critters(Preset::Shift) };
    let shifted = shift.part(Part::Train, 5000, device()).unwrap();
    let misled = probe(&pooled(&shifted), &pooled(&test), &shifted.a.clone().unwrap(), &labels[1]);
    assert!(misled[12] < found[12] - 0.03, "cheeks {} after shift, {} before", misled[12], found[12]);

    // Neither the draws behind place, background and light nor the four corners of the picture say anything.
    let nuisance = |part: Part, n: usize| {
        let first = if part == Part::Train { 0 } else { 200_000 };
        let draws = (0..n as u64).flat_map(|i| (256..272).map(move |c| (i, c)));
        let values: Vec<f32> = draws.map(|(i, c)| recipe.seed.stream(first + i).uniform(c) as f32).collect();
        Tensor::from_vec(values, (n, 16), device()).unwrap()
    };
    let from_draws = probe(&nuisance(Part::Train, 5000), &nuisance(Part::Test, 3000), &labels[0], &labels[1]);
    let corners = |data: &Dataset| {
        let x = data.inputs().unwrap();
        let pieces = [(0, 0), (0, 30), (30, 0), (30, 30)].map(|(row, column)| {
            x.narrow(2, row, 2).unwrap().narrow(3, column, 2).unwrap().flatten_from(1).unwrap()
        });
        Tensor::cat(&pieces, 1).unwrap()
    };
    let leaked = probe(&corners(&train), &corners(&test), &labels[0], &labels[1]);
    for (j, name) in ATTRIBUTES.into_iter().enumerate() {
        if name == "collar" || name == "pointed_ears" {
            continue;
        }
        let share = labels[1].narrow(1, j, 1).unwrap().mean_all().unwrap().to_scalar::<f32>().unwrap();
        let majority = f64::from(share.max(1.0 - share));
        for leaked in [leaked[j], from_draws[j]] {
            assert!(leaked < majority + ERRORS * (0.25f64 / 3000.0).sqrt(), "{name} leaks: {leaked}");
        }
    }
}
