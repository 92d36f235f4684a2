use crate::device::device;
use std::path::Path;

use lastlayer::data::Part;
use lastlayer::data::load::{CelebA, Crop, celeba};
use lastlayer::prelude::*;

use super::images::{jpeg_grey, jpeg_red};
use super::{fails, folder, refuses, values, write};

const ATTRIBUTES: &str = "4\nMale Smiling Young\n000001.jpg -1  1 -1\n000002.jpg  1 -1  1\n000003.jpg 1 1 1\n000004.jpg -1 -1 -1\n";
const PARTITION: &str = "000001.jpg 0\n000002.jpg 1\n000003.jpg 2\n000004.jpg 0\n";

pub fn write_lists(folder: &Path) {
    write(folder, "list_attr_celeba.txt", ATTRIBUTES);
    write(folder, "list_eval_partition.txt", PARTITION);
}

fn sample() -> tempfile::TempDir {
    let folder = folder();
    write_lists(folder.path());
    for i in 1..=4 {
        let image = if i == 3 { jpeg_red() } else { jpeg_grey() };
        write(&folder, &format!("img_align_celeba/00000{i}.jpg"), image);
    }
    folder
}

fn options() -> CelebA {
    CelebA { size: 2, crop: Crop::Whole, ..CelebA::default() }
}

#[test]
fn celeba_splits_by_its_list_and_turns_signs_into_attributes() {
    let folder = sample();
    let train = celeba(&folder, Part::Train, &options(), device()).unwrap();
    assert_eq!(train.x.dims(), [2, 3, 2, 2]);
    assert_eq!(values(&train.x.i(0).unwrap()), [0., 255., 0., 255.].repeat(3));
    assert_eq!(values(&train.y), [1., 0.]);
    assert_eq!(values(train.a.as_ref().unwrap()), [0., 0., 0., 0.]);
    assert_eq!(train.names.attributes, ["Male", "Young"]);
    assert_eq!(train.names.classes, ["not Smiling", "Smiling"]);
    let test = celeba(&folder, Part::Test, &options(), device()).unwrap();
    assert_eq!((values(&test.y), values(test.a.as_ref().unwrap())), (vec![1.], vec![1., 1.]));
    let young = CelebA { target: "Young".into(), limit: Some(1), ..options() };
    let validation = celeba(&folder, Part::Validation, &young, device()).unwrap();
    assert_eq!((values(&validation.y), values(validation.a.as_ref().unwrap())), (vec![1.], vec![1., 0.]));
    assert_eq!(celeba(&folder, Part::Train, &young, device()).unwrap().y.dims(), [1]);
}

#[test]
fn celeba_failures_name_file_and_line() {
    let folder = sample();
    let load = || celeba(&folder, Part::Train, &options(), device());
    let laughing = CelebA { target: "Laughing".into(), ..options() };
    refuses(celeba(&folder, Part::Train, &laughing, device()), &["Laughing", "Male, Smiling, Young"]);

    let attributes = |text: &str, words: &[&str]| {
        write(&folder, "list_attr_celeba.txt", text);
        fails(load(), words);
        write(&folder, "list_attr_celeba.txt", ATTRIBUTES);
    };
    attributes("", &["line 1", "number of images"]);
    attributes("image_id,Male,Smiling\n000001.jpg,1,-1\n", &["line 1", "mmlab.ie.cuhk.edu.hk"]);
    attributes(&ATTRIBUTES.replace("-1  1 -1", "-1 1"), &["line 3", "3 fields"]);
    attributes(&ATTRIBUTES.replace("-1  1 -1", "-1 1 0"), &["line 3", "Young is \"0\""]);
    attributes(&ATTRIBUTES.replace("4\n", "5\n"), &["lists 4 images but declares 5"]);
    attributes(&ATTRIBUTES.replace("000001", "000009"), &["list_eval_partition.txt, line 1", "000009.jpg"]);

    let escaping = "../000001.jpg";
    write(&folder, "list_attr_celeba.txt", ATTRIBUTES.replace("000001.jpg", escaping));
    write(&folder, "list_eval_partition.txt", PARTITION.replace("000001.jpg", escaping));
    fails(load(), &["is no file name"]);
    write_lists(folder.path());
    write(&folder, "list_eval_partition.txt", "000001.jpg 0\n");
    fails(load(), &["ends before 000002.jpg"]);
    write(&folder, "list_eval_partition.txt", PARTITION.replace(" 0", " 1"));
    fails(load(), &["no image is in Train"]);
    write_lists(folder.path());
    std::fs::remove_file(folder.path().join("img_align_celeba/000004.jpg")).unwrap();
    fails(load(), &["img_align_celeba/000004.jpg"]);
}
