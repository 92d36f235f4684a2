use crate::device::device;
use lastlayer::data::load::{adbench, npz, npz_table};
use lastlayer::prelude::*;

use super::{fails, folder, gzip, refuses, values, write, zip_of};

/// An .npy file of any header version.
pub fn npy(version: u8, descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}");
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// The one array of a file made of it.
fn read(npy: &[u8]) -> Result<Tensor> {
    let folder = folder();
    let path = write(&folder, "one.npz", zip_of(&[("a.npy", npy)], true));
    Ok(npz(&path)?.arrays["a"].clone())
}

#[test]
fn every_type_order_and_version_is_read() {
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
    let matrix = bytes(&[1., 2., 3., 4., 5., 6.]);
    for version in [1, 2, 3] {
        let c = read(&npy(version, "'<f4'", "False", "(2, 3)", &matrix)).unwrap();
        assert_eq!(c.to_vec2::<f32>().unwrap(), [[1., 2., 3.], [4., 5., 6.]]);
    }
    let fortran = read(&npy(1, "'<f4'", "True", "(2, 3)", &matrix)).unwrap();
    assert_eq!(fortran.to_vec2::<f32>().unwrap(), [[1., 3., 5.], [2., 4., 6.]]);
    let cube = read(&npy(1, "'|u1'", "True", "(2, 1, 3)", &[1, 2, 3, 4, 5, 6])).unwrap();
    assert_eq!(cube.to_vec3::<u8>().unwrap(), [[[1, 3, 5]], [[2, 4, 6]]]);

    let one = |descr: &str, data: &[u8]| read(&npy(1, descr, "False", "(2,)", data)).unwrap();
    let cases: [(&str, &[u8], DType, [f64; 2]); 15] = [
        ("'<f2'", &[0x00, 0x3c, 0x00, 0xc1], DType::F32, [1.0, -2.5]),
        ("'>f2'", &[0x3c, 0x00, 0xc1, 0x00], DType::F32, [1.0, -2.5]),
        ("'>f4'", &[0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0], DType::F32, [1.0, -2.5]),
        ("'>f8'", &[0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 0x04, 0, 0, 0, 0, 0, 0], DType::F64, [1.0, -2.5]),
        ("'|b1'", &[0, 1], DType::U8, [0., 1.]),
        ("'|i1'", &[1, 0xff], DType::I64, [1., -1.]),
        ("'|u1'", &[1, 0xff], DType::U8, [1., 255.]),
        ("'<i2'", &[1, 0, 0xfe, 0xff], DType::I64, [1., -2.]),
        ("'>i2'", &[0, 1, 0xff, 0xfe], DType::I64, [1., -2.]),
        ("'<u2'", &[1, 0, 0xff, 0xff], DType::U32, [1., 65535.]),
        ("'<i4'", &[1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff], DType::I64, [1., -2.]),
        ("'<u4'", &[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], DType::U32, [1., 4294967295.]),
        ("'>u4'", &[0, 0, 0, 1, 0, 0, 1, 0], DType::U32, [1., 256.]),
        (
            "'<i8'",
            &[1, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            DType::I64,
            [1., -2.],
        ),
        ("'>u8'", &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0], DType::I64, [1., 256.]),
    ];
    for (descr, data, dtype, want) in cases {
        let tensor = one(descr, data);
        assert_eq!((tensor.dtype(), values(&tensor)), (dtype, want.to_vec()), "{descr}");
    }
    let scalar = read(&npy(1, "'<f4'", "False", "()", &bytes(&[7.]))).unwrap();
    assert_eq!((scalar.rank(), values(&scalar)), (0, vec![7.]));
    assert_eq!(read(&npy(1, "'<f8'", "False", "(0, 3)", &[])).unwrap().dims(), [0, 3]);
}

#[test]
fn arrays_that_lie_or_need_python_are_refused() {
    let wrong = |npy: &[u8], words: &[&str]| fails(read(npy), words);
    let declared = |shape: &str| npy(1, "'<f8'", "False", shape, &[0; 16]);
    wrong(&declared("(3,)"), &["one.npz", "array \"a\" declares [3] of f8", "16 bytes"]);
    wrong(&declared("(1000000000000, 1000000000000)"), &["declares"]);
    wrong(&declared("(18446744073709551615,)"), &["declares"]);
    wrong(&declared("(-1,)"), &["has a shape that cannot be read"]);
    wrong(&declared("2"), &["has no shape"]);
    wrong(&npy(1, "'|O'", "False", "(2,)", b"pickle"), &["holds Python objects", "np.savez"]);
    wrong(&npy(1, "'<U3'", "False", "(2,)", &[0; 24]), &["holds text"]);
    wrong(&npy(1, "'<c8'", "False", "(2,)", &[0; 16]), &["type c8"]);
    wrong(&npy(1, "'<f16'", "False", "(1,)", &[0; 16]), &["type f16"]);
    wrong(&npy(1, "[('x', '<f8')]", "False", "(2,)", &[0; 16]), &["columns of different types"]);
    wrong(&npy(1, "'<f8'", "Maybe", "(2,)", &[0; 16]), &["fortran_order"]);
    wrong(&npy(4, "'<f8'", "False", "(2,)", &[0; 16]), &["header version 4"]);
    wrong(&npy(1, "'<u8'", "False", "(1,)", &[0xff; 8]), &["too large"]);
    wrong(&npy(1, "'<f8'", "False", "(2,)", &[0; 16])[..60], &["is truncated"]);
    wrong(b"\x93NUMPY", &["is truncated"]);
    wrong(b"hello", &["magic"]);
}

#[test]
fn archives_with_other_names_or_damage_are_refused() {
    let folder = folder();
    let good = npy(1, "'|u1'", "False", "(1,)", &[1]);
    let load = |bytes: Vec<u8>| npz(write(&folder, "a.npz", bytes));
    let two = load(zip_of(&[("a.npy", &good), ("b.npy", &good)], false)).unwrap();
    assert_eq!((two.arrays.len(), two.get("b").unwrap().dims()), (2, [1].as_slice()));
    refuses(two.get("c").map(drop), &["name of an array is \"c\"", "a, b"]);
    for name in ["../a.npy", "/a.npy", "a/../../b.npy", "..\\a.npy", "notes.txt"] {
        fails(load(zip_of(&[(name, &good)], true)), &["a.npz", "not named like an array"]);
    }
    let whole = zip_of(&[("a.npy", &good)], true);
    fails(load(whole[..whole.len() / 2].to_vec()), &["is truncated or no zip"]);
    fails(load(gzip(b"hello")), &["no zip"]);
    fails(npz(folder.path().join("none.npz")), &["none.npz"]);
    // A checksum guards each entry.
    let mut flipped = zip_of(&[("a.npy", &good)], false);
    let at = flipped.windows(5).position(|w| w == b"NUMPY").unwrap() + 130;
    flipped[at.min(40 + good.len() - 1)] ^= 1;
    assert!(load(flipped).is_err());
}

/// A table of three rows.
pub fn table(descr: &str, labels: &[u8]) -> Vec<u8> {
    let x: Vec<u8> = [0.5f64, 1., 2., 3., 4., 5.].iter().flat_map(|v| v.to_le_bytes()).collect();
    let x = npy(1, "'<f8'", "False", "(3, 2)", &x);
    zip_of(&[("X.npy", &x), ("y.npy", &npy(1, descr, "False", "(3,)", labels))], true)
}

#[test]
fn tables_have_features_and_labels() {
    let folder = folder();
    let path = write(&folder, "6_cardio.npz", table("'|i1'", &[0, 1, 0]));
    let data = npz_table(&path, device()).unwrap();
    assert_eq!((data.x.dtype(), data.x.dims()), (DType::F32, [3, 2].as_slice()));
    assert_eq!(values(&data.x), [0.5, 1., 2., 3., 4., 5.]);
    assert_eq!(values(&data.y), [0., 1., 0.]);
    assert_eq!(data.names.classes, ["0", "1"]);
    assert_eq!(data.names.set, "6_cardio");
    assert_eq!(adbench(&path, device()).unwrap().names.classes, ["normal", "anomaly"]);

    let load = |bytes: Vec<u8>| npz_table(write(&folder, "a.npz", bytes), device());
    assert_eq!(load(table("'|i1'", &[0, 2, 0])).unwrap().names.classes, ["0", "1", "2"]);
    let two = write(&folder, "two.npz", table("'|i1'", &[0, 2, 0]));
    fails(adbench(&two, device()), &["label 2 is neither 0"]);
    fails(load(table("'|i1'", &[0, 0xff, 0])), &["label -1 of row 1"]);
    fails(load(table("'<f2'", &[0, 0, 0, 0x38, 0, 0])), &["label 0.5 of row 1"]);
    fails(load(table("'<u4'", &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])), &["label 4294967295"]);
    let y = npy(1, "'|u1'", "False", "(2,)", &[0, 1]);
    let nan: Vec<u8> = [0f32, 1., f32::NAN, 2.].iter().flat_map(|v| v.to_le_bytes()).collect();
    let nan = npy(1, "'<f4'", "False", "(2, 2)", &nan);
    fails(load(zip_of(&[("X.npy", &nan), ("y.npy", &y)], true)), &["X holds NaN at row 1, column 0"]);
    fails(load(zip_of(&[("X.npy", &y), ("y.npy", &y)], true)), &["X has the shape [2]"]);
    fails(load(zip_of(&[("images.npy", &y), ("y.npy", &y)], true)), &["no array \"X\", only images, y"]);
    fails(load(zip_of(&[], true)), &["no array \"X\""]);
}

#[test]
fn f64_on_request_keeps_all_digits() {
    let folder = folder();
    let y = npy(1, "'|u1'", "False", "(2,)", &[0, 1]);
    let table = |name: &str, numbers: [f64; 2]| {
        let x: Vec<u8> = numbers.iter().flat_map(|v| v.to_le_bytes()).collect();
        let x = npy(1, "'<f8'", "False", "(2, 1)", &x);
        write(&folder, name, zip_of(&[("X.npy", &x), ("y.npy", &y)], true))
    };
    let path = table("digits.npz", [1. / 3., 16777217.]);
    let wide = (DType::F64, device());
    for data in [npz_table(&path, wide).unwrap(), adbench(&path, wide).unwrap()] {
        assert_eq!((data.x.dtype(), values(&data.x)), (DType::F64, vec![1. / 3., 16777217.]));
    }
    for data in [npz_table(&path, device()).unwrap(), adbench(&path, device()).unwrap()] {
        assert_eq!(data.x.to_vec2::<f32>().unwrap(), [[1. / 3.], [16777216.]]);
    }
    refuses(npz_table(&path, (DType::I64, device())), &["dtype of a table", "F32 or F64"]);
    let large = table("large.npz", [1., 1e39]);
    fails(npz_table(&large, device()), &["large.npz", "too large for f32", "DType::F64"]);
    assert_eq!(values(&npz_table(&large, wide).unwrap().x), [1., 1e39]);
}
