use crate::device::device;
use std::path::Path;

use lastlayer::data::Part;
use lastlayer::data::load::{Cub, cub};

use super::images::{jpeg_grey, png_of};
use super::{fails, folder, refuses, values, write};

pub fn write_lists(folder: &Path) {
    write(folder, "classes.txt", "1 001.Albatross\n2 002.Wren\n");
    write(folder, "images.txt", "1 001.Albatross/a.jpg\n2 001.Albatross/b.jpg\n3 002.Wren/c.jpg\n");
    write(folder, "image_class_labels.txt", "1 1\n2 1\n3 2\n");
    write(folder, "train_test_split.txt", "1 1\n2 0\n3 1\n");
    write(folder, "bounding_boxes.txt", "1 10.0 0.0 4.0 4.0\n2 0 0 16 8\n3 0.0 0.0 4.0 4.0\n");
}

fn sample() -> tempfile::TempDir {
    let folder = folder();
    write_lists(folder.path());
    for name in ["001.Albatross/a.jpg", "001.Albatross/b.jpg", "002.Wren/c.jpg"] {
        write(&folder, &format!("images/{name}"), jpeg_grey());
    }
    folder
}

fn options() -> Cub {
    Cub { size: 2, ..Cub::default() }
}

#[test]
fn cub_cuts_official_images_to_their_boxes() {
    let folder = sample();
    let train = cub(&folder, Part::Train, &options(), device()).unwrap();
    assert_eq!(train.x.dims(), [2, 3, 2, 2]);
    // One box lies in the white half, the other in the black one.
    assert_eq!(values(&train.x), [vec![255.; 12], vec![0.; 12]].concat());
    assert_eq!(values(&train.y), [0., 1.]);
    assert_eq!(train.names.classes, ["001.Albatross", "002.Wren"]);
    assert!(train.a.is_none());
    let test = cub(&folder, Part::Test, &options(), device()).unwrap();
    // A box as large as the image leaves all of it.
    assert_eq!(values(&test.x), [0., 255., 0., 255.].repeat(3));
    // Without boxes, the middle square: half black, half white.
    let middle = cub(&folder, Part::Train, &Cub { boxes: false, ..options() }, device()).unwrap();
    assert_eq!(values(&middle.x), [0., 255., 0., 255.].repeat(6));
    refuses(cub(&folder, Part::Validation, &options(), device()), &["split a validation part off Train"]);
}

#[test]
fn cub_takes_crops_whole_and_limits_each_class() {
    let (folder, crops) = (folder(), folder());
    write_lists(folder.path());
    for i in [1u8, 3] {
        let crop = png_of(1, 1, png::ColorType::Grayscale, png::BitDepth::Eight, &[i]);
        write(&crops, &format!("0000{i}.jpg"), crop);
    }
    let options = Cub { size: 1, images: Some(crops.path().into()), ..Cub::default() };
    let train = cub(&folder, Part::Train, &options, device()).unwrap();
    assert_eq!(values(&train.x), [1., 1., 1., 3., 3., 3.]);
    write(&folder, "train_test_split.txt", "1 1\n2 1\n3 1\n");
    let one = Cub { limit_per_class: Some(1), ..options.clone() };
    assert_eq!(values(&cub(&folder, Part::Train, &one, device()).unwrap().y), [0., 1.]);
    fails(cub(&folder, Part::Train, &options, device()), &["00002.jpg"]);
}

#[test]
fn cub_attributes_of_images_go_before_those_of_classes() {
    let folder = sample();
    write(&folder, "attributes.txt", "1 has_wing::red\n2 has_tail::long\n");
    write(&folder, "class_attribute_labels_continuous.txt", "0.0 25\n100 50.0\n");
    let by_class = cub(&folder, Part::Train, &options(), device()).unwrap();
    assert_eq!(values(by_class.a.as_ref().unwrap()), [0., 0.25, 1., 0.5]);
    assert_eq!(by_class.names.attributes, ["has_wing::red", "has_tail::long"]);
    // The official file has lines with stray fields.
    let labels = "1 1 1 3 0.5\n1 2 0 3 0.5\n2 1 1 3 0.5\n2 2 1 3 0.5\n3 1 0 3 1 0.5\n3 2 1 4 0.5\n";
    write(&folder, "attributes/image_attribute_labels.txt", labels);
    let by_image = cub(&folder, Part::Train, &options(), device()).unwrap();
    assert_eq!(values(by_image.a.as_ref().unwrap()), [1., 0., 0., 1.]);
    write(&folder, "attributes/image_attribute_labels.txt", "1 3 1 3 0.5\n");
    fails(cub(&folder, Part::Train, &options(), device()), &["line 1", "<1 to 2>"]);
}

#[test]
fn cub_failures_name_file_and_line() {
    let folder = sample();
    let check = |file: &str, text: &str, words: &[&str]| {
        let good = std::fs::read(folder.path().join(file)).unwrap();
        write(&folder, file, text);
        fails(cub(&folder, Part::Train, &options(), device()), &[&[file], words].concat());
        write(&folder, file, good);
    };
    check("classes.txt", "", &["is empty"]);
    check("classes.txt", "2 Wren\n", &["line 1", "expected \"1 <name>\""]);
    check("images.txt", "1 ../../etc/passwd\n2 b\n3 c\n", &["line 1", "is no file name"]);
    check("images.txt", "1 /etc/passwd\n2 b\n3 c\n", &["line 1", "is no file name"]);
    check("image_class_labels.txt", "1 1\n2 3\n3 2\n", &["line 2", "<1 to 2>", "2 3"]);
    check("image_class_labels.txt", "1 1\n", &["1 lines for 3 images"]);
    check("train_test_split.txt", "1 0\n2 2\n3 0\n", &["line 2"]);
    check("train_test_split.txt", "1 0\n2 0\n3 0\n", &["no image is in Train"]);
    check("bounding_boxes.txt", "1 1 1 0 4\n", &["line 1", "<width>"]);
    check("bounding_boxes.txt", "1 1 1 NaN 4\n", &["line 1"]);
    check("bounding_boxes.txt", "1 1 1 4 4\n", &["1 boxes for 3 images"]);
    std::fs::remove_file(folder.path().join("images.txt")).unwrap();
    fails(cub(&folder, Part::Train, &options(), device()), &["images.txt", "data.caltech.edu"]);
}
