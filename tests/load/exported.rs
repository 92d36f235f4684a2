use crate::device::device;
use std::collections::HashMap;

use lastlayer::candle::safetensors;
use lastlayer::data::load::{ExportKeys, Exported, exported};
use lastlayer::prelude::*;

use super::npz::npy;
use super::{fails, folder, refuses, values, write, zip_of};

/// A .safetensors file of named tensors, as candle writes it.
pub fn packed(tensors: &[(&str, Tensor)]) -> Vec<u8> {
    let folder = folder();
    let path = folder.path().join("a.safetensors");
    let tensors: HashMap<&str, Tensor> = tensors.iter().map(|(name, t)| (*name, t.clone())).collect();
    safetensors::save(&tensors, &path).unwrap();
    std::fs::read(path).unwrap()
}

fn tensor<D: candle::WithDType, S: Into<candle::Shape>>(values: &[D], shape: S) -> Tensor {
    Tensor::from_slice(values, shape, device()).unwrap()
}

fn load(bytes: impl AsRef<[u8]>, keys: &ExportKeys) -> Result<Exported> {
    let folder = folder();
    exported(write(&folder, "mine.safetensors", bytes), keys, device())
}

/// Three rows of two features, two classes, and the layer between them.
pub fn whole() -> Vec<u8> {
    packed(&[
        ("features", tensor(&[1f32, 2., 3., 4., 5., 6.], (3, 2))),
        ("labels", tensor(&[0i64, 1, 1], 3)),
        ("scores", tensor(&[0.5f32, 1., 2., 3., 4., 5.], (3, 2))),
        ("attributes", tensor(&[1f32, 0., 1.], (3, 1))),
        ("weight", tensor(&[1f32, 0., 0., 1.], (2, 2))),
        ("bias", tensor(&[0.1f32, 0.2], 2)),
    ])
}

#[test]
fn an_export_brings_features_scores_and_the_last_layer() {
    let all = load(whole(), &ExportKeys::default()).unwrap();
    assert_eq!(all.data.x.to_vec2::<f32>().unwrap(), [[1., 2.], [3., 4.], [5., 6.]]);
    assert_eq!(values(&all.data.y), [0., 1., 1.]);
    assert_eq!(values(all.data.a.as_ref().unwrap()), [1., 0., 1.]);
    assert_eq!(all.scores.as_ref().unwrap().dims(), [3, 2]);
    assert_eq!(all.weight.as_ref().unwrap().dims(), [2, 2]);
    assert_eq!(all.bias.as_ref().unwrap().dims(), [2]);
    assert_eq!(all.data.names.set, "mine");
    assert!(all.table().markdown().contains("| weight | [2, 2] f32 |"));
}

#[test]
fn short_names_your_own_keys_and_npz_work_too() {
    let short = packed(&[
        ("z", tensor(&[1f64, 2.], (2, 1))),
        ("y", tensor(&[1f32, 0.], (2, 1))),
        ("s", tensor(&[3f32, 4.], 2)),
        ("weight", tensor(&[2f32], 1)),
    ]);
    let short = load(short, &ExportKeys::default()).unwrap();
    assert_eq!(short.data.x.dtype(), DType::F32);
    assert_eq!(values(&short.data.y), [1., 0.]);
    assert_eq!(short.scores.unwrap().dims(), [2, 1]);
    let long = || packed(&[("z", tensor(&[16777217f64, 2.], (2, 1))), ("y", tensor(&[1u8, 0], 2))]);
    let folder = folder();
    let place = (DType::F64, device());
    let long = exported(write(&folder, "long.safetensors", long()), &ExportKeys::default(), place).unwrap();
    assert_eq!(long.data.x.to_vec2::<f64>().unwrap(), [[16777217.0], [2.0]]); // no f32 is
    let vast = packed(&[("z", tensor(&[1e300f64, 2.], (2, 1))), ("y", tensor(&[1u8, 0], 2))]);
    fails(load(vast, &ExportKeys::default()), &["too large for f32", "DType::F64"]);
    assert_eq!(short.weight.unwrap().dims(), [1, 1]);

    let own = packed(&[("emb", tensor(&[1u8, 2], (2, 1))), ("t", tensor(&[2u32, 0], 2))]);
    let keys = ExportKeys { features: Some("emb".into()), labels: Some("t".into()), ..ExportKeys::default() };
    let own = load(own, &keys).unwrap();
    assert_eq!((own.data.x.dtype(), own.data.names.classes.len()), (DType::F32, 3));

    // Scores alone are the inputs; five scores a row are five classes, whatever labels occur.
    let labels = npy(1, "'<i4'", "False", "(2,)", &[1, 0, 0, 0, 0, 0, 0, 0]);
    let scores = npy(1, "'|u1'", "False", "(2, 5)", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let npz = zip_of(&[("labels.npy", &labels), ("scores.npy", &scores)], true);
    let npz = load(npz, &ExportKeys::default()).unwrap();
    assert_eq!(npz.data.x.dims(), [2, 5]);
    assert_eq!(npz.data.names.classes.len(), 5);
}

#[test]
fn what_no_key_asks_for_may_be_of_any_type() {
    let numbers = npy(1, "'|u1'", "False", "(2, 1)", &[0, 1]);
    let words = npy(1, "'<U1'", "False", "(1,)", &[97, 0, 0, 0]);
    let npz = zip_of(&[("x.npy", &numbers), ("y.npy", &numbers), ("words.npy", &words)], true);
    assert!(load(npz, &ExportKeys::default()).is_ok());
}

#[test]
fn export_failures_say_which_array_is_wrong() {
    let x = || ("features", tensor(&[1f32, 2.], (2, 1)));
    let y = || ("labels", tensor(&[0u32, 1], 2));
    let wrong = |arrays: &[(&str, Tensor)], words: &[&str]| {
        fails(load(packed(arrays), &ExportKeys::default()), words);
    };
    wrong(&[x()], &["has no labels, only features", "save_file"]);
    wrong(&[y()], &["neither features nor scores, only labels"]);
    wrong(&[x(), ("labels", tensor(&[0.5f32, 1.], 2))], &["label 0.5 of row 0"]);
    wrong(&[x(), ("labels", tensor(&[0i64, -1], 2))], &["label -1 of row 1"]);
    wrong(&[x(), ("labels", tensor(&[0f32, f32::NAN], 2))], &["label NaN of row 1"]);
    wrong(&[x(), ("labels", tensor(&[0u8, 1, 1, 0], (2, 2)))], &["not one-hot"]);
    wrong(&[x(), ("labels", tensor(&[0u32, 1, 2], 3))], &["features: the shape is [2, 1], but [3, any]"]);
    wrong(&[y(), ("features", tensor(&[1f32, f32::NAN], (2, 1)))], &["features holds NaN at row 1"]);
    wrong(&[x(), y(), ("scores", tensor(&[f64::INFINITY, 0.], 2))], &["scores holds inf at row 0"]);
    wrong(
        &[x(), y(), ("weight", tensor(&[1f32, 2.], (1, 2)))],
        &["weight: the shape is [1, 2], but [any, 1]"],
    );
    wrong(&[x(), y(), ("weight", tensor(&[1f32], 1)), ("bias", tensor(&[1f32, 2.], 2))], &["bias"]);
    let scores = tensor(&[1f32, 2., 3., 4.], (2, 2));
    wrong(&[("scores", scores), ("labels", tensor(&[0u32, 2], 2))], &["label 2 has no score: there are 2"]);
    wrong(&[y(), ("features", tensor(&[1f32, 2.], 2))], &["features: the shape is [2]"]);
    let keys = ExportKeys { features: Some("emb".into()), ..ExportKeys::default() };
    refuses(load(packed(&[x(), y()]), &keys), &["key of features is emb", "features, labels"]);
}

#[test]
fn damaged_safetensors_are_errors_before_memory_is_taken() {
    let good = whole();
    let load = |bytes: &[u8]| load(bytes, &ExportKeys::default());
    fails(load(&good[..good.len() - 1]), &["is truncated or neither"]);
    fails(load(&good[..4]), &["is truncated or neither"]);
    fails(load(b""), &["is truncated or neither"]);
    fails(exported("/none.npz", &ExportKeys::default(), device()), &["/none.npz"]);
    let lie = |header: &str| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend([0; 8]);
        bytes
    };
    let huge = r#"{"features":{"dtype":"F32","shape":[1000000000,1000000000],"data_offsets":[0,8]}}"#;
    fails(load(&lie(huge)), &["is truncated or neither"]);
    let beyond = r#"{"features":{"dtype":"F32","shape":[100,1],"data_offsets":[0,400]}}"#;
    fails(load(&lie(beyond)), &["is truncated or neither"]);
    let long = [u64::MAX.to_le_bytes().as_slice(), &[0; 8]].concat();
    fails(load(&long), &["is truncated or neither"]);
    let bool = r#"{"labels":{"dtype":"BOOL","shape":[8],"data_offsets":[0,8]}}"#;
    fails(load(&lie(bool)), &["\"labels\"", "save it as float32 or int64"]);
}
