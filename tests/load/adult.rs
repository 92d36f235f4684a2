use crate::device::device;
use lastlayer::data::Part;
use lastlayer::data::load::{Adult, adult};
use lastlayer::prelude::*;

use super::{fails, folder, gzip, refuses, values, write};

pub const TRAIN: &str = "\
17, Private, 1, HS-grad, 9, Divorced, Sales, Wife, White, Female, 0, 0, 40, Cuba, <=50K
20, Private, 2, HS-grad, 9, Divorced, Sales, Wife, White, Female, 5000, 0, 39, Cuba, <=50K
30, ?, 3, Masters, 14, Divorced, Sales, Wife, Black, Male, 0, 1850, 41, Peru, >50K
40, Private, 4, HS-grad, 9, Divorced, Sales, Wife, Other, Male, 0, 0, 51, Cuba, <=50K
50, Private, 5, HS-grad, 8, Divorced, Sales, Wife, White, Male, 99999, 0, 40, Cuba, >50K

";
pub const TEST: &str = "\
|1x3 Cross validator
90, Private, 6, Doctorate, 16, Divorced, Sales, Wife, Black, Female, 0, 0, 40, Peru, >50K.
";

fn sample() -> tempfile::TempDir {
    let folder = folder();
    write(&folder, "adult.data.gz", gzip(TRAIN.as_bytes()));
    write(&folder, "adult.test", TEST);
    folder
}

/// The value of a named column in a row.
fn cell(data: &lastlayer::data::Dataset, row: usize, name: &str) -> f64 {
    let column = data.names.features.iter().position(|n| n == name).unwrap_or_else(|| panic!("{name}"));
    values(&data.x)[row * data.names.features.len() + column]
}

#[test]
fn adult_labels_groups_and_values_come_from_the_rows() {
    let folder = sample();
    let train = adult(&folder, Part::Train, &Adult::Raw, device()).unwrap();
    // 5 numbers; 2 workclasses with "?", 2 educations, 1, 1, 1, 3 races, 2 sexes, 2 countries.
    assert_eq!(train.x.dims(), [5, 5 + 14]);
    assert_eq!(values(&train.y), [0., 0., 1., 0., 1.]);
    assert_eq!(train.names.attributes, ["female", "male", "white", "black"]);
    let groups = [[1., 0., 1., 0.], [1., 0., 1., 0.], [0., 1., 0., 1.], [0., 1., 0., 0.], [0., 1., 1., 0.]];
    assert_eq!(values(train.a.as_ref().unwrap()), groups.concat());
    assert_eq!(cell(&train, 2, "workclass=?"), 1.0);
    assert_eq!(cell(&train, 2, "workclass=Private"), 0.0);
    assert!(!train.names.features.iter().any(|name| name.contains("fnlwgt")));
    // Ages 17, 20, 30, 40, 50: mean 31.4, variance 151.84.
    let want = (17.0 - 31.4) / 151.84f64.sqrt();
    assert!((cell(&train, 0, "age") - want).abs() < 1e-6, "f32 keeps seven digits");
    let wide = adult(&folder, Part::Train, &Adult::Raw, (DType::F64, device())).unwrap();
    assert!((cell(&wide, 0, "age") - want).abs() < 1e-14, "f64 keeps them all");
    assert_eq!(values(&wide.x.to_dtype(DType::F32).unwrap()), values(&train.x));
}

#[test]
fn adult_test_rows_use_the_columns_and_statistics_of_training() {
    let folder = sample();
    let test = adult(&folder, Part::Test, &Adult::Raw, device()).unwrap();
    assert_eq!(test.x.dims(), [1, 19]);
    assert_eq!(values(&test.y), [1.]);
    assert!((cell(&test, 0, "age") - (90.0 - 31.4) / 151.84f64.sqrt()).abs() < 1e-6);
    // A value that training has not seen sets no column.
    assert_eq!(cell(&test, 0, "education=HS-grad") + cell(&test, 0, "education=Masters"), 0.0);
    refuses(adult(&folder, Part::Validation, &Adult::Raw, device()), &["Adult"]);
}

#[test]
fn adult_indicators_are_left_open_buckets() {
    let folder = sample();
    let train = adult(&folder, Part::Train, &Adult::Indicators, device()).unwrap();
    assert_eq!(train.x.dims(), [5, 20 + 14]);
    assert!(values(&train.x).iter().all(|v| *v == 0.0 || *v == 1.0));
    let row = |name: &str| (0..5).map(|row| cell(&train, row, name)).collect::<Vec<_>>();
    // Quartiles of the ages are 17, 20, 30, 40, 50: the youngest is in no bucket.
    assert_eq!(row("age in (17, 20]"), [0., 1., 0., 0., 0.]);
    assert_eq!(row("age in (40, 50]"), [0., 0., 0., 0., 1.]);
    assert_eq!(row("capital-gain in (-1, 1]"), [1., 0., 1., 1., 0.]);
    assert_eq!(row("capital-gain in (4000, 10000]"), [0., 1., 0., 0., 0.]);
    assert_eq!(row("capital-loss in (1800, 1950]"), [0., 0., 1., 0., 0.]);
    assert_eq!(row("hours-per-week in (0, 39]"), [0., 1., 0., 0., 0.]);
    assert_eq!(row("hours-per-week in (39, 41]"), [1., 0., 1., 0., 1.]);
    assert_eq!(row("education-num in (8, 9]"), [1., 1., 0., 1., 0.]);
    assert_eq!(row("education-num in (0, 8]"), [0., 0., 0., 0., 1.]);
}

#[test]
fn adult_failures_name_the_line() {
    let folder = sample();
    let load = |part| adult(&folder, part, &Adult::Raw, device());
    let good = TEST.to_string();
    for (text, words) in [
        (good.replace(", 40, Peru", ", Peru"), ["line 2", "14 fields instead of 15"]),
        (good.replace(">50K.", "50000"), ["line 2", "income is \"50000\""]),
        (good.replace("90,", "old,"), ["line 2", "age is \"old\""]),
        (good.replace("90,", "NaN,"), ["line 2", "age is \"NaN\""]),
        (String::new(), ["adult.test", "is empty"]),
    ] {
        write(&folder, "adult.test", text);
        fails(load(Part::Test), &words);
    }
    let packed = gzip(TRAIN.as_bytes());
    write(&folder, "adult.data.gz", &packed[..packed.len() - 9]);
    fails(load(Part::Train), &["adult.data.gz", "is truncated; download it again"]);
    std::fs::remove_file(folder.path().join("adult.data.gz")).unwrap();
    fails(load(Part::Test), &["adult.data", "archive.ics.uci.edu"]);
}
