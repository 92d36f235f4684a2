use crate::device::device;
use lastlayer::data::load::{CsvTable, Missing, csv_table};
use lastlayer::prelude::*;

use super::{fails, folder, gzip, refuses, values, write};

fn species() -> CsvTable {
    CsvTable { label: "species".into(), ..CsvTable::default() }
}

fn load(text: impl AsRef<[u8]>, options: &CsvTable) -> Result<lastlayer::data::Dataset> {
    let folder = folder();
    csv_table(write(&folder, "flowers.csv", text), options, device())
}

#[test]
fn numbers_become_features_and_words_classes() {
    let text = "length,width,species\n1.5,2,setosa\n3,4e-1,\"virginica\"\n-5,6,setosa\n";
    for bytes in [text.as_bytes().to_vec(), gzip(text.as_bytes()), ["\u{feff}", text].concat().into_bytes()] {
        let data = load(bytes, &species()).unwrap();
        assert_eq!((data.x.dims(), data.x.dtype()), ([3, 2].as_slice(), DType::F32));
        assert_eq!(data.x.to_vec2::<f32>().unwrap(), [[1.5, 2.], [3., 0.4], [-5., 6.]]);
        assert_eq!(values(&data.y), [0., 1., 0.]);
        assert_eq!(data.names.classes, ["setosa", "virginica"]);
        assert_eq!(data.names.features, ["length", "width"]);
        assert_eq!(data.names.set, "flowers");
    }
    let semicolons = CsvTable { delimiter: ';', ..species() };
    let windows = load("length; species\r\n1; a\r\n2; b\r\n", &semicolons).unwrap();
    assert_eq!(values(&windows.x), [1., 2.]);
    // Classes that are numbers come by size.
    assert_eq!(load("x,species\n1,10\n1,9\n", &species()).unwrap().names.classes, ["9", "10"]);
}

#[test]
fn categorical_columns_keep_their_place_and_attributes_leave() {
    let options = CsvTable {
        attributes: vec!["male".into()],
        categorical: vec!["color".into()],
        drop: vec!["name".into()],
        ..species()
    };
    let text = "name,color,male,size,species\nrex,red,1,3,dog\n,blue,0,4,cat\n";
    let data = load(text, &options).unwrap();
    assert_eq!(data.names.features, ["color=blue", "color=red", "size"]);
    assert_eq!(values(&data.x), [0., 1., 3., 1., 0., 4.]);
    assert_eq!(data.names.attributes, ["male"]);
    assert_eq!(values(data.a.as_ref().unwrap()), [1., 0.]);
    assert_eq!(values(&data.y), [1., 0.]);
}

#[test]
fn gaps_are_refused_or_dropped() {
    let text = "x,species\n1,a\n?,b\n,b\nNA,a\n2,b\n";
    fails(load(text, &species()), &["line 3", "column \"x\" is \"?\"", "Missing::DropRow"]);
    let dropping = CsvTable { missing: Missing::DropRow, ..species() };
    assert_eq!(values(&load(text, &dropping).unwrap().x), [1., 2.]);
    fails(load("x,species\n?,a\n", &dropping), &["no usable row"]);
}

#[test]
fn csv_failures_name_line_and_column() {
    let wrong = |text: &str, words: &[&str]| fails(load(text, &species()), words);
    wrong("", &["flowers.csv", "is empty"]);
    wrong("\n\n", &["is empty"]);
    wrong("x,species\n", &["no usable row"]);
    wrong("x,y\n1,2\n", &["the columns are x, y", "\"species\""]);
    wrong("species,species\n1,2\n", &["exactly one"]);
    wrong("x,species\n1,a\n2\n", &["line 3", "1 fields, but the header has 2"]);
    wrong("x,species\n1,a,3\n", &["line 2", "3 fields"]);
    wrong("x,species\n1,a\nred,b\n", &["line 3", "column \"x\" is \"red\"", "categorical"]);
    wrong("x,species\ninf,a\n", &["line 2", "no finite number"]);
    wrong("x,species\n1e999,a\n", &["line 2", "no finite number"]);
    wrong("species\na\n", &["no column left for features"]);
    wrong("x,species\n1,2.5\n", &["label \"species\" is 2.5, a measurement"]);
    fails(load([b"x,species\n1,".as_slice(), &[0xff, b'\n']].concat(), &species()), &["line 2", "UTF-8"]);
    let packed = gzip(b"x,species\n1,a\n");
    fails(load(&packed[..packed.len() - 4], &species()), &["is truncated"]);
    fails(csv_table("/none.csv", &species(), device()), &["/none.csv"]);
    let twice = CsvTable { drop: vec!["species".into()], ..species() };
    refuses(load("x,species\n1,a\n", &twice), &["\"species\" twice"]);
    for delimiter in ['ä', '"'] {
        refuses(load("x,species\n1,a\n", &CsvTable { delimiter, ..species() }), &["delimiter"]);
    }
}

#[test]
fn f64_on_request_keeps_all_digits() {
    // 2^24 + 1, the root of five in twelve digits, and one third as f64 prints it.
    let text =
        "big,root,third,color,species\n16777217,2.23606797750,0.3333333333333333,red,a\n1,2,3,blue,b\n";
    let options = CsvTable { categorical: vec!["color".into()], ..species() };
    let folder = folder();
    let path = write(&folder, "flowers.csv", text);
    let wide = csv_table(&path, &options, (DType::F64, device())).unwrap();
    let rows = wide.x.to_vec2::<f64>().unwrap();
    assert_eq!(rows, [[16777217., 2.23606797750, 1. / 3., 0., 1.], [1., 2., 3., 1., 0.]]);
    // f32 is the number next to the text.
    let narrow = csv_table(&path, &options, device()).unwrap();
    assert_eq!(narrow.x.to_vec2::<f32>().unwrap()[0], [16777216., 2.236_068_f32, 1. / 3., 0., 1.]);
    assert_eq!(narrow.names, wide.names);
    refuses(csv_table(&path, &options, (DType::F16, device())), &["dtype of a table", "F32 or F64"]);

    let large = write(&folder, "large.csv", "x,species\n1,a\n-1e39,b\n");
    fails(csv_table(&large, &species(), device()), &["line 3", "too large for f32", "DType::F64"]);
    let large = csv_table(&large, &species(), (DType::F64, device())).unwrap();
    assert_eq!(values(&large.x), [1., -1e39]);
}
