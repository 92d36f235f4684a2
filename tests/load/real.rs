//! The real sets, where `LASTLAYER_DATA` names a folder that holds them.

use crate::device::device;
use std::io::Write;
use std::path::PathBuf;

use lastlayer::data::load::*;
use lastlayer::data::{Dataset, Part};
use lastlayer::prelude::*;

use super::{folder, values};

/// The folder of a set, or nothing and a loud line.
fn real(set: &str) -> Option<PathBuf> {
    let Ok(folder) = data_dir() else {
        // Not `println!`, which the test harness would swallow.
        let _ = writeln!(std::io::stderr(), "skipped: {set}, because LASTLAYER_DATA is not set");
        return None;
    };
    let folder = folder.join(set);
    assert!(folder.exists(), "LASTLAYER_DATA is set, but {} is missing", folder.display());
    Some(folder)
}

/// Rows, columns, and the share of class 1.
fn facts(data: &Dataset) -> (usize, usize, f64) {
    let (n, d) = data.x.dims2().unwrap();
    (n, d, values(&data.y).iter().filter(|y| **y == 1.0).count() as f64 / n as f64)
}

#[test]
fn adult_has_its_official_counts() {
    let Some(folder) = real("adult") else { return };
    for (columns, d) in [(Adult::Raw, 107), (Adult::Indicators, 122)] {
        let train = adult(&folder, Part::Train, &columns, device()).unwrap();
        let test = adult(&folder, Part::Test, &columns, device()).unwrap();
        let (n, found, share) = facts(&train);
        assert_eq!((n, found, (share * 1e4).round()), (32_561, d, 2408.0));
        let (n, found, share) = facts(&test);
        assert_eq!((n, found, (share * 1e4).round()), (16_281, d, 2362.0));
        assert_eq!(train.names.features, test.names.features);
        let groups = train.a.as_ref().unwrap().sum(0).unwrap();
        assert_eq!(values(&groups), [10_771., 21_790., 27_816., 3_124.]);
        if columns == Adult::Raw {
            let numbers = train.x.narrow(1, 0, 5).unwrap().to_dtype(DType::F64).unwrap();
            let means = values(&numbers.mean(0).unwrap());
            let squares = values(&numbers.sqr().unwrap().mean(0).unwrap());
            assert!(means.iter().all(|m| m.abs() < 1e-6) && squares.iter().all(|s| (s - 1.0).abs() < 1e-5));
        } else {
            assert_eq!(train.names.features[..2], ["age in (17, 28]", "age in (28, 37]"]);
        }
    }
}

#[test]
fn adbench_tables_have_their_shapes_and_anomalies() {
    let Some(folder) = real("adbench") else { return };
    // Rows, columns and anomalies, as numpy counts them in the same files.
    let tables = [
        ("23_mammography", 11_183, 6, 260),
        ("24_mnist", 7_603, 100, 700),
        ("28_pendigits", 6_870, 16, 156),
        ("38_thyroid", 3_772, 6, 93),
        ("6_cardio", 1_831, 21, 176),
        ("resnet18_CIFAR10_0", 5_263, 512, 263),
    ];
    for (name, n, d, anomalies) in tables {
        let data = adbench(folder.join(format!("{name}.npz")), device()).unwrap();
        let (rows, columns, share) = facts(&data);
        assert_eq!((rows, columns, (share * rows as f64).round() as usize), (n, d, anomalies), "{name}");
    }
}

#[test]
fn awa2_has_fifty_animals_and_eighty_five_attributes() {
    let Some(folder) = real("awa2") else { return };
    let animals = awa2(folder).unwrap();
    assert_eq!((animals.binary.dim(), animals.continuous.dim()), ((50, 85), (50, 85)));
    assert_eq!((animals.classes[1].as_str(), animals.attributes[0].as_str()), ("grizzly+bear", "black"));
}

#[test]
fn cub_has_its_official_halves_and_attributes() {
    let Some(lists) = real("cub") else { return };
    let birds = cub_class_attributes(&lists).unwrap();
    assert_eq!(birds.binary.dim(), (200, 312));
    assert_eq!((birds.binary.sum() / 200.0 * 10.0).round(), 229.0);

    let crops = folder();
    let images = unpack(lists.join("cub_bbox64.tar.gz"), crops.path().join("crops")).unwrap();
    let options = Cub { size: 16, images: Some(images), ..Cub::default() };
    for (part, n) in [(Part::Train, 5_994), (Part::Test, 5_794)] {
        let data = cub(&lists, part, &options, device()).unwrap();
        assert_eq!(data.x.dims(), [n, 3, 16, 16]);
        assert_eq!(data.a.as_ref().unwrap().dims(), [n, 312]);
        assert_eq!(data.names.classes.len(), 200);
    }
}

#[test]
fn cifar_as_jpeg_has_all_its_images() {
    let Some(folder_of_archive) = real("cifar10_jpeg") else { return };
    let target = folder();
    let root = unpack(folder_of_archive.join("cifar10_jpeg.tar.gz"), target.path().join("cifar10")).unwrap();
    for (part, per_class) in [("train", 5_000), ("test", 1_000)] {
        let classes: Vec<_> =
            std::fs::read_dir(root.join(part)).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(classes.len(), 10);
        for class in classes {
            assert_eq!(std::fs::read_dir(class).unwrap().count(), per_class);
        }
        let options = ImageFolder { limit_per_class: Some(20), ..ImageFolder::default() };
        let data = image_folder(root.join(part), &options, device()).unwrap();
        assert_eq!(data.x.dims(), [200, 3, 32, 32]);
        assert_eq!(data.names.classes[3], "cat");
    }
}
