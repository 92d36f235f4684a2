//! The data set type: what it refuses, and what splits, batches and choices keep.

mod device;

use device::device;
use std::collections::BTreeSet;

use lastlayer::data::Dataset;
use lastlayer::error::{Error, Result};
use lastlayer::prelude::{DType, Tensor};
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(3);

/// Sample i is the number i, of class i mod k except that class 0 takes the first half.
fn numbers(n: usize, k: usize) -> Dataset {
    let x = Tensor::arange(0f32, n as f32, device()).unwrap().reshape((n, 1)).unwrap();
    let y: Vec<u32> = (0..n).map(|i| if i < n / 2 { 0 } else { (i % k) as u32 }).collect();
    let a: Vec<f32> = (0..n).flat_map(|i| [(i % 2) as f32, (i % 3) as f32 / 2.0]).collect();
    let classes = (0..k).map(|c| format!("class {c}"));
    Dataset::new("numbers", x, Tensor::new(y, device()).unwrap(), classes)
        .unwrap()
        .with_attributes(Tensor::from_vec(a, (n, 2), device()).unwrap(), ["odd", "third"])
        .unwrap()
}

fn ids(data: &Dataset) -> Vec<usize> {
    data.x.flatten_all().unwrap().to_vec1::<f32>().unwrap().iter().map(|v| *v as usize).collect()
}

/// Every sample still carries its own label and attributes.
fn assert_whole(data: &Dataset, k: usize, n: usize) {
    let a: Vec<Vec<f32>> = data.a.as_ref().unwrap().to_vec2().unwrap();
    for ((i, y), a) in ids(data).into_iter().zip(data.labels().unwrap()).zip(a) {
        assert_eq!(y as usize, if i < n / 2 { 0 } else { i % k });
        assert_eq!(a, [(i % 2) as f32, (i % 3) as f32 / 2.0]);
    }
}

fn data_error<T>(result: Result<T>, words: &str) {
    match result.err() {
        Some(error @ Error::Data { .. }) => assert!(error.to_string().contains(words), "{error}"),
        other => panic!("expected a data error with {words:?}, got {other:?}"),
    }
}

fn config_error<T>(result: Result<T>, words: &str) {
    match result.err() {
        Some(error @ Error::Config { .. }) => assert!(error.to_string().contains(words), "{error}"),
        other => panic!("expected a config error with {words:?}, got {other:?}"),
    }
}

fn shape_error<T>(result: Result<T>, words: &str) {
    match result.err() {
        Some(error @ Error::Shape { .. }) => assert!(error.to_string().contains(words), "{error}"),
        other => panic!("expected a shape error with {words:?}, got {other:?}"),
    }
}

#[test]
fn a_set_that_cannot_be_is_refused() {
    let x = |values: Vec<f32>| Tensor::from_vec(values, (2, 2), device()).unwrap();
    let fine = || x(vec![1.0; 4]);
    let y = |labels: &[u32]| Tensor::new(labels, device()).unwrap();
    data_error(Dataset::new("s", x(vec![0.0, 1.0, f32::NAN, 0.0]), y(&[0, 1]), ["a", "b"]), "sample 1");
    data_error(Dataset::new("s", x(vec![f32::INFINITY, 1.0, 0.0, 0.0]), y(&[0, 1]), ["a", "b"]), "sample 0");
    data_error(Dataset::new("s", fine(), y(&[0, 2]), ["a", "b"]), "label 2 of sample 1");
    let negative = Tensor::new(&[0i64, -1], device()).unwrap();
    data_error(Dataset::new("s", fine(), negative, ["a", "b"]), "label -1");
    data_error(Dataset::new("s", fine(), y(&[0, 1]), ["a", "a"]), "\"a\"");
    shape_error(Dataset::new("s", fine(), y(&[0, 1, 1]), ["a", "b"]), "[2]");
    shape_error(Dataset::new("s", fine().flatten_all().unwrap(), y(&[0, 1]), ["a", "b"]), "[n, …]");
    let empty = Tensor::zeros((0, 3), DType::F32, device()).unwrap();
    shape_error(Dataset::new("s", empty, y(&[]), ["a"]), "at least one sample");
    config_error(Dataset::new("s", fine().to_dtype(DType::I64).unwrap(), y(&[0, 1]), ["a", "b"]), "I64");
    config_error(
        Dataset::new("s", fine(), Tensor::new(&[0f32, 1.0], device()).unwrap(), ["a", "b"]),
        "integers",
    );
    config_error(Dataset::new("s", fine(), y(&[0, 0]), Vec::<String>::new()), "one name per class");
    let whole = || Dataset::new("s", fine(), y(&[0, 1]), ["a", "b"]).unwrap();
    let nothing = Tensor::zeros((2, 0), DType::F32, device()).unwrap();
    shape_error(whole().with_attributes(nothing, Vec::<String>::new()), "leave them out");
    shape_error(whole().with_attributes(fine(), ["one"]), "[2, 1]");
    data_error(whole().with_attributes(x(vec![f32::NAN; 4]), ["p", "q"]), "a holds NaN");
    data_error(whole().with_attributes(fine(), ["p", "p"]), "\"p\"");
    shape_error(whole().with_features(["only one"]), "[2, 1]");
    config_error(whole().attribute("p"), "has no attributes");
    config_error(numbers(6, 2).attribute("even"), "odd, third");
    data_error(whole().attribute_table(), "no attributes");
}

#[test]
fn labels_of_any_integer_type_become_u32() {
    let x = Tensor::zeros((3, 2), DType::F64, device()).unwrap();
    for dtype in [DType::U8, DType::U32, DType::I64] {
        let y = Tensor::new(&[0u32, 2, 1], device()).unwrap().to_dtype(dtype).unwrap();
        let data = Dataset::new("s", &x, y, ["a", "b", "c"]).unwrap();
        assert_eq!(data.labels().unwrap(), [0, 2, 1]);
        assert_eq!((data.n(), data.d(), data.k()), (3, 2, 3));
        assert_eq!(data.inputs().unwrap().dtype(), DType::F64);
    }
}

#[test]
fn a_split_is_stratified_whole_and_seeded() {
    let (n, k) = (600, 3);
    let data = numbers(n, k);
    let counts = data.class_counts().unwrap();
    let (train, test) = data.split(0.75, SEED).unwrap();
    for (class, count) in train.class_counts().unwrap().into_iter().enumerate() {
        assert_eq!(count, (0.75 * counts[class] as f64).round() as usize);
    }
    let together: BTreeSet<usize> = ids(&train).into_iter().chain(ids(&test)).collect();
    assert_eq!((together.len(), train.n() + test.n()), (n, n));
    [&train, &test].into_iter().for_each(|part| assert_whole(part, k, n));
    assert!(ids(&train).is_sorted() && ids(&test).is_sorted());
    assert_eq!(ids(&train), ids(&data.split(0.75, SEED).unwrap().0));
    assert_ne!(ids(&train), ids(&data.split(0.75, Seed::new(4)).unwrap().0));
    // However small a share is, both sides see every class.
    let (few, _) = data.split(1e-6, SEED).unwrap();
    assert_eq!(few.class_counts().unwrap(), [1, 1, 1]);
    for share in [0.0, 1.0, f64::NAN, -0.5, 2.0] {
        config_error(data.split(share, SEED), "0.8");
    }
    let lonely = data.subset(&[0, 1, 400]).unwrap();
    data_error(lonely.split(0.5, SEED), "has 1 samples");
    data_error(data.subset(&[0, 1]).unwrap().split(0.5, SEED), "has 0 samples");
}

#[test]
fn batches_cover_every_sample_once() {
    let (n, k) = (100, 2);
    let data = numbers(n, k);
    for batches in [data.batches(32, SEED).unwrap(), data.stratified_batches(32, SEED).unwrap()] {
        assert_eq!(batches.len(), 4);
        let sizes: Vec<usize> = batches.clone().map(|b| b.unwrap().n()).collect();
        assert_eq!(sizes, [32, 32, 32, 4]);
        let mut seen: Vec<usize> = batches
            .flat_map(|batch| {
                let batch = batch.unwrap();
                assert_whole(&batch, k, n);
                ids(&batch)
            })
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..n).collect::<Vec<_>>());
    }
    let order = |seed: Seed| -> Vec<usize> {
        data.batches(10, seed).unwrap().flat_map(|b| ids(&b.unwrap())).collect()
    };
    assert_eq!(order(SEED), order(SEED));
    assert_ne!(order(SEED.stream(0)), order(SEED.stream(1)));
    for size in [0, 101, usize::MAX] {
        config_error(data.batches(size, SEED), "1 to 100");
        config_error(data.stratified_batches(size, SEED), "1 to 100");
    }
}

#[test]
fn stratified_batches_hold_every_class_in_its_share() {
    // One sample in ten is of class 1.
    let y: Vec<u32> = (0..1000).map(|i| u32::from(i < 100)).collect();
    let x = Tensor::zeros((1000, 1), DType::F32, device()).unwrap();
    let data = Dataset::new("rare", x, Tensor::new(y, device()).unwrap(), ["no", "yes"]).unwrap();
    for epoch in 0..20 {
        for batch in data.stratified_batches(50, SEED.stream(epoch)).unwrap() {
            let rare = batch.unwrap().class_counts().unwrap()[1];
            assert!((4..=6).contains(&rare), "{rare} of 5");
        }
    }
}

#[test]
fn batches_of_images_are_numbers_from_zero_to_one() {
    let bytes: Vec<u8> = (0..48).map(|i| (i * 5) as u8).collect();
    let x = Tensor::from_vec(bytes, (4, 3, 2, 2), device()).unwrap();
    let data =
        Dataset::new("images", x, Tensor::new(&[0u32, 1, 0, 1], device()).unwrap(), ["a", "b"]).unwrap();
    let batch = data.batches(4, SEED).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.x.dtype(), DType::F32);
    let all: Vec<f32> = data.inputs().unwrap().flatten_all().unwrap().to_vec1().unwrap();
    assert!(all.iter().enumerate().all(|(i, v)| (v - (i * 5) as f32 / 255.0).abs() < 1e-6));
    let sheet = data.sheet(2).unwrap();
    assert!(sheet.svg().contains("<image") && sheet.describe().contains("4 images"));
    // Numbers from 0 to 1 show the same picture as the bytes they came from.
    let same = Dataset { x: data.inputs().unwrap(), ..data.clone() };
    assert_eq!(same.image(3).unwrap(), data.image(3).unwrap());
    config_error(data.image(4), "0 to 3");
    config_error(data.sheet(0), "at least 1");
    shape_error(numbers(4, 2).image(0), "height");
    shape_error(numbers(4, 2).sheet(2), "height");
}

#[test]
fn subsets_keep_order_and_refuse_strangers() {
    let data = numbers(10, 2);
    assert_eq!(ids(&data.subset(&[7, 1, 7]).unwrap()), [7, 1, 7]);
    assert_whole(&data.subset(&[9, 0]).unwrap(), 2, 10);
    config_error(data.subset(&[10]), "0 to 9");
    config_error(data.subset(&[usize::MAX]), "0 to 9");
    shape_error(data.subset(&[]), "at least one");
}

#[test]
fn per_class_takes_as_many_of_each() {
    let data = numbers(60, 3);
    let few = data.per_class(4, SEED).unwrap();
    assert_eq!(few.class_counts().unwrap(), [4, 4, 4]);
    assert_whole(&few, 3, 60);
    assert_ne!(ids(&few), ids(&data.per_class(4, Seed::new(9)).unwrap()));
    data_error(data.per_class(11, SEED), "where 11 are needed");
    data_error(data.subset(&[0, 1]).unwrap().per_class(1, SEED), "has 0 samples");
    config_error(data.per_class(0, SEED), "at least 1");
}

#[test]
fn imbalance_drops_one_side_to_the_share() {
    let y: Vec<u32> = (0..2000).map(|i| u32::from(i % 2 == 0)).collect();
    let x = Tensor::arange(0f32, 2000.0, device()).unwrap().reshape((2000, 1)).unwrap();
    let data = Dataset::new("even", x, Tensor::new(y, device()).unwrap(), ["no", "yes"]).unwrap();
    // Keeping .1, .2, .4 and all of the negatives.
    for (kept, share) in [(100, 10.0 / 11.0), (200, 5.0 / 6.0), (400, 5.0 / 7.0), (1000, 0.5)] {
        assert_eq!(data.imbalance(share, SEED).unwrap().class_counts().unwrap(), [kept, 1000]);
    }
    assert_eq!(data.imbalance(0.2, SEED).unwrap().class_counts().unwrap(), [1000, 250]);
    assert_eq!(data.thin(&[0.5, 0.01], SEED).unwrap().class_counts().unwrap(), [500, 10]);
    for share in [0.0, 1.0, f64::NAN] {
        config_error(data.imbalance(share, SEED), "between 0 and 1");
    }
    config_error(numbers(30, 3).imbalance(0.5, SEED), "thin");
    data_error(data.imbalance(1e-9, SEED), "of the 1000 samples");
    data_error(data.subset(&[0, 2]).unwrap().imbalance(0.5, SEED), "has 0 samples");
    shape_error(data.thin(&[0.5], SEED), "2");
    for share in [0.0, 1.1, f64::NAN] {
        config_error(data.thin(&[share, 1.0], SEED), "at most 1");
    }
}

#[test]
fn classes_groups_and_targets_relabel() {
    let data = numbers(60, 3);
    let two = data.classes(&["class 2", "class 0"]).unwrap();
    assert_eq!(two.names.classes, ["class 2", "class 0"]);
    assert!(ids(&two).iter().zip(two.labels().unwrap()).all(|(i, y)| (*i < 30 || i % 3 == 0) == (y == 1)));
    let groups = data.group(&[("rest", vec![1, 2]), ("first", vec![0])]).unwrap();
    assert_eq!((groups.n(), groups.class_counts().unwrap()), (60, vec![20, 40]));
    let odd = data.target("odd").unwrap();
    assert_eq!(odd.names.classes, ["not odd", "odd"]);
    assert!(ids(&odd).iter().zip(odd.labels().unwrap()).all(|(i, y)| i % 2 == y as usize));
    assert_eq!(odd.names.attributes, ["third"]);
    let alone = odd.target("third").unwrap();
    assert!(alone.a.is_none() && alone.names.attributes.is_empty());
    config_error(data.target("even"), "odd, third");
    config_error(data.classes(&["class 9"]), "class 0, class 1, class 2");
    config_error(data.group(&[("a", vec![3])]), "0 to 2");
    config_error(data.group(&[("a", vec![0]), ("b", vec![0])]), "at most one group");
    shape_error(data.group(&[]), "at least one");
}

#[test]
fn tables_count_every_class() {
    let data = numbers(60, 3);
    let table = data.class_table().unwrap();
    assert_eq!(table.rows().len(), 3);
    assert!(table.csv().contains("0,class 0,40,"), "{}", table.csv());
    assert!(data.attribute_table().unwrap().csv().contains("0,odd,0.5"));
    assert_eq!(data.describe(), "numbers: 60 samples of 1 F32, 3 classes, 2 attributes");
    let moved = data.to_device(device()).unwrap();
    assert_eq!(ids(&moved), ids(&data));
}

#[test]
fn a_class_becomes_an_attribute_and_back() {
    let data = numbers(12, 3);
    let with = data.class_as_attribute("class 2").unwrap();
    assert_eq!(with.names.attributes, ["odd", "third", "class 2"]);
    let expected: Vec<f32> = data.labels().unwrap().iter().map(|y| f32::from(u8::from(*y == 2))).collect();
    assert_eq!(with.attribute("class 2").unwrap().to_vec1::<f32>().unwrap(), expected);
    assert_eq!(with.target("class 2").unwrap().names.attributes, ["odd", "third"]);
    assert!(matches!(data.class_as_attribute("class 3"), Err(Error::Config { .. })));
    data_error(with.class_as_attribute("class 2"), "two attribute names");
    let bare = Dataset {
        a: None,
        names: lastlayer::data::Names { attributes: Vec::new(), ..data.names.clone() },
        ..data
    };
    assert_eq!(bare.class_as_attribute("class 0").unwrap().names.attributes, ["class 0"]);
}

/// A set of these rows, of one class.
fn rows<const D: usize, T: lastlayer::candle::WithDType>(rows: &[[T; D]]) -> Dataset {
    let y = Tensor::zeros(rows.len(), DType::U32, device()).unwrap();
    let x = Tensor::from_slice(rows.as_flattened(), (rows.len(), D), device()).unwrap();
    Dataset::new("rows", x, y, ["one"]).unwrap()
}

/// Entries by sample and column, as f64.
fn entries(data: &Dataset) -> Vec<Vec<f64>> {
    data.inputs().unwrap().flatten_from(1).unwrap().to_dtype(DType::F64).unwrap().to_vec2().unwrap()
}

/// What standardising means, counted in f64 one number after the other.
fn by_hand(data: &Dataset, on: &Dataset) -> Vec<Vec<f64>> {
    let (theirs, n) = (entries(on), on.n() as f64);
    let mean = |j: usize| theirs.iter().map(|row| row[j]).sum::<f64>() / n;
    let square = |j: usize| theirs.iter().map(|row| (row[j] - mean(j)).powi(2)).sum::<f64>() / n;
    let laws: Vec<(f64, f64)> = (0..on.d()).map(|j| (mean(j), square(j).sqrt())).collect();
    entries(data)
        .into_iter()
        .map(|row| row.into_iter().zip(&laws).map(|(v, (mean, deviation))| (v - mean) / deviation).collect())
        .collect()
}

#[track_caller]
fn assert_near(got: &Dataset, want: &[Vec<f64>], within: f64) {
    for (i, (got, want)) in entries(got).into_iter().zip(want).enumerate() {
        for (j, (got, want)) in got.into_iter().zip(want).enumerate() {
            assert!(
                (got - want).abs() <= within * (1.0 + want.abs()),
                "row {i}, column {j}: {got}, not {want}"
            );
        }
    }
}

#[test]
fn standardised_columns_are_those_counted_by_hand() {
    // Columns of very different size.
    let draw = |name: &str, n: usize, dtype| {
        let x = SEED.named(name).normal_tensor((n, 2, 2), (0.0, 1.0), dtype, device()).unwrap();
        let scale = Tensor::new(&[[1e-3f64, 1.0], [30.0, 1e5]], device()).unwrap().to_dtype(dtype).unwrap();
        let x = (x.broadcast_mul(&scale).unwrap() + 2.0).unwrap();
        Dataset::new(name, x, Tensor::zeros(n, DType::U32, device()).unwrap(), ["one"]).unwrap()
    };
    for (dtype, within) in [(DType::F32, 1e-6), (DType::F64, 1e-11)] {
        let (train, test) = (draw("train", 2500, dtype), draw("test", 1100, dtype));
        for data in [&train, &test] {
            let got = data.standardised(&train).unwrap();
            assert_eq!((got.x.dims(), got.x.dtype()), (data.x.dims(), dtype));
            assert_near(&got, &by_hand(data, &train), within);
        }
    }
    // Labels, attributes and names stay; images become numbers.
    let data = numbers(1500, 3);
    let got = data.standardised(&data).unwrap();
    assert_eq!((got.labels().unwrap(), &got.names), (data.labels().unwrap(), &data.names));
    assert_eq!(got.a.unwrap().to_vec2::<f32>().unwrap(), data.a.unwrap().to_vec2::<f32>().unwrap());
    let images = rows(&[[0u8, 255], [51, 0], [255, 255]]);
    let got = images.standardised(&images).unwrap();
    assert_eq!(got.x.dtype(), DType::F32);
    assert_near(&got, &by_hand(&images, &images), 1e-6);
}

#[test]
fn a_large_offset_costs_no_digits_in_f32() {
    // Whole numbers from 16 000 000, which f32 holds; their sum and their squares it does not.
    let values: Vec<[f32; 2]> = (0..3000).map(|i| [16_000_000.0 + (i % 7) as f32, (i % 7) as f32]).collect();
    let data = rows(&values);
    let got = data.standardised(&data).unwrap();
    assert_near(&got, &by_hand(&data, &data), 1e-6);
    for row in entries(&got) {
        assert!((row[0] - row[1]).abs() < 1e-6, "{row:?}");
    }
}

#[test]
fn a_constant_column_becomes_zero() {
    let one_third = 1.0 / 3.0;
    let train = rows(&[[one_third, 1.0], [one_third, 2.0], [one_third, 6.0]]);
    let test = rows(&[[7.0, 3.0]]); // the mean of the second column
    assert!(entries(&train.standardised(&train).unwrap()).iter().all(|row| row[0] == 0.0 && row[1] != 0.0));
    let got = entries(&test.standardised(&train).unwrap());
    assert!(got[0][0] == 0.0 && got[0][1].abs() < 1e-15, "{got:?}");
    // What differs in the last digit is rounding, not spread: 0.1 + 0.2 is not 0.3 in f64.
    let noise = rows(&[[0.1 + 0.2, 0.0], [0.3, 1.0]]);
    assert_eq!(entries(&noise.standardised(&noise).unwrap()), [[0.0, -1.0], [0.0, 1.0]]);
    let next = f32::from_bits(1e6f32.to_bits() + 1);
    let noise = rows(&[[1e6f32, 1e6], [next, 1e6 + 1.0]]);
    assert_eq!(entries(&noise.standardised(&noise).unwrap()), [[0.0, -1.0], [0.0, 1.0]]);
    // One sample that differs is spread, however many there are.
    let rare = rows(&(0..5000).map(|i| [if i == 4000 { 1e6f32 + 1.0 } else { 1e6 }]).collect::<Vec<_>>());
    assert_near(&rare.standardised(&rare).unwrap(), &by_hand(&rare, &rare), 1e-6);
    // All of it constant, as with a single sample, is no error.
    assert_eq!(entries(&test.standardised(&test).unwrap()), [[0.0, 0.0]]);
}

#[test]
fn what_cannot_be_standardised_is_refused() {
    let data = rows(&[[1f32, 2.0], [3.0, 5.0]]);
    shape_error(rows(&[[1f32]]).standardised(&data), "[2]");
    shape_error(data.standardised(&rows(&[[1f32]])), "[1]");
    let empty =
        Dataset { x: data.x.narrow(0, 0, 0).unwrap(), y: data.y.narrow(0, 0, 0).unwrap(), ..data.clone() };
    shape_error(data.standardised(&empty), "at least one sample");
    shape_error(empty.standardised(&data), "at least one sample");
    // Fields can be set without a check.
    let nan = Dataset { x: Tensor::new(&[[1f32, 2.0], [3.0, f32::NAN]], device()).unwrap(), ..data.clone() };
    data_error(data.standardised(&nan), "x holds NaN in sample 1");
    data_error(nan.standardised(&data), "x holds NaN in sample 1");
    data_error(
        rows(&[[1e38f32, 0.0]]).standardised(&rows(&[[0f32, 0.0], [1e-3, 1.0]])),
        "x holds inf in sample 0",
    );
}
