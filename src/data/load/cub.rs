//! CUB-200-2011: birds with boxes and attributes.

use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};

use super::class_attributes::cub_class_attributes;
use super::images::decode;
use super::pixels::{Crop, Region, Rgb};
use super::read::{Source, fields, first_of, inside, root};
use crate::data::{Dataset, Part};
use crate::error::Result;

pub(crate) const CUB: Source = Source {
    name: "CUB-200-2011",
    layout: "a folder with images.txt, image_class_labels.txt, train_test_split.txt, bounding_boxes.txt and classes.txt \
             (\"<image or class number> <value>\"), images as images/<class>/<name>.jpg, and optionally attributes.txt \
             with class_attribute_labels_continuous.txt or attributes/image_attribute_labels.txt",
    origin: "People get CUB_200_2011.tgz from data.caltech.edu/records/65de6-vp158; `unpack` opens it",
};

/// Folder in the official archive.
pub(crate) const CUB_FOLDER: &str = "CUB_200_2011";

/// Side of the square around a box, relative to the longer side of the box.
const MARGIN: f64 = 1.1;

/// How [`cub`] reads.
///
/// ```
/// use lastlayer::prelude::*;
/// let options = load::Cub { images: Some("crops".into()), limit_per_class: Some(10), ..load::Cub::default() };
/// assert_eq!((options.size, options.boxes), (64, true));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cub {
    /// Side of the images after resizing, in pixels.
    pub size: usize,
    /// Folder of the images, if it is not `images` below the lists: the official tree, or crops `<image number>.jpg`.
    pub images: Option<PathBuf>,
    /// Whether official images are cut to the square around their box, 1.1 times its longer side, as far as the image
    /// goes; the largest square in the middle if not. Crops are used whole.
    pub boxes: bool,
    /// Most images of each class, the first in the list; all if `None`.
    pub limit_per_class: Option<usize>,
}

impl Default for Cub {
    fn default() -> Cub {
        Cub { size: 64, images: None, boxes: true, limit_per_class: None }
    }
}

/// Birds of two hundred species, 5 994 images to train and 5 794 to test, with attributes where the files have them.
///
/// Layout: the official lists in `folder` or in `CUB_200_2011` below it, and images as in the official tree or as crops `<image number>.jpg`.
/// Shapes: `x` (n, 3, size, size) u8, `y` (n), `a` (n, 312) f32: the label of the image itself, 0 or 1, if
/// `attributes/image_attribute_labels.txt` is there; else the share of labels that say yes for its class, 0 to 1, if
/// `class_attribute_labels_continuous.txt` is; else none.
/// Fails: `Config` for `Part::Validation`, `Io` if a file is missing, `Data` with the line of a list that does not fit,
/// or with the image that cannot be decoded. People get CUB_200_2011.tgz from data.caltech.edu/records/65de6-vp158.
/// Checked by `tests/load/cub.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
/// # write("classes.txt", b"1 001.Albatross\n2 002.Wren\n");
/// # write("images.txt", b"1 001.Albatross/a.jpg\n2 002.Wren/b.jpg\n");
/// # write("image_class_labels.txt", b"1 1\n2 2\n");
/// # write("train_test_split.txt", b"1 1\n2 0\n");
/// # let mut image = Vec::new();
/// # png::Encoder::new(&mut image, 1, 1).write_header().unwrap().write_image_data(&[200]).unwrap();
/// # write("00001.jpg", &image);
/// // `folder` holds the lists of two birds, and a crop of the one in the training part.
/// let options = load::Cub { size: 8, images: Some(folder.path().into()), ..load::Cub::default() };
/// let data = load::cub(&folder, Part::Train, &options, &Device::Cpu)?;
/// assert_eq!((data.x.dims(), data.labels()?), (&[1, 3, 8, 8][..], vec![0]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn cub(folder: impl AsRef<Path>, part: Part, options: &Cub, device: &Device) -> Result<Dataset> {
    let folder = &root(folder.as_ref(), CUB_FOLDER);
    let train = CUB.train_or_test(part)?;
    let classes = CUB.numbered_names(&folder.join("classes.txt"))?;
    let names = CUB.numbered_names(&folder.join("images.txt"))?;
    let class_of = numbers(&folder.join("image_class_labels.txt"), names.len(), 1..=classes.len())?;
    let in_train = numbers(&folder.join("train_test_split.txt"), names.len(), 0..=1)?;
    let mut taken = vec![0; classes.len()];
    let mut rows = Vec::new();
    for image in (0..names.len()).filter(|image| (in_train[*image] == 1) == train) {
        let count = &mut taken[class_of[image] - 1];
        if *count < options.limit_per_class.unwrap_or(usize::MAX) {
            *count += 1;
            rows.push(image);
        }
    }
    if rows.is_empty() {
        return Err(CUB.data(&folder.join("train_test_split.txt"), format!("no image is in {part:?}")));
    }
    let x = images(folder, &names, &rows, options, device)?;
    let y: Vec<u32> = rows.iter().map(|image| class_of[*image] as u32 - 1).collect();
    let data = Dataset::new(CUB.name, x, Tensor::from_vec(y, rows.len(), device)?, classes)?;
    let Some((a, attributes)) = attributes(folder, &class_of, &rows)? else {
        return Ok(data);
    };
    data.with_attributes(Tensor::from_vec(a, (rows.len(), attributes.len()), device)?, attributes)
}

/// Where the names of the attributes are; the official archive has them beside its folder.
pub(crate) fn attributes_file(folder: &Path) -> PathBuf {
    first_of(folder, &["attributes.txt", "attributes/attributes.txt", "../attributes.txt"])
}

pub(crate) fn class_attributes_file(folder: &Path) -> PathBuf {
    const FILE: &str = "class_attribute_labels_continuous.txt";
    first_of(folder, &[FILE, &format!("attributes/{FILE}")])
}

/// Lines `<image number> <value>`, one per image and in order, with values in a range.
fn numbers(path: &Path, images: usize, allowed: std::ops::RangeInclusive<usize>) -> Result<Vec<usize>> {
    let text = CUB.text(path)?;
    let mut values = Vec::new();
    for (line, fields) in fields(&text) {
        let value = fields.get(1).and_then(|field| field.parse().ok());
        match value {
            Some(value) if fields[0].parse() == Ok(values.len() + 1) && allowed.contains(&value) => {
                values.push(value);
            }
            _ => {
                let expected = format!("\"{} <{} to {}>\"", values.len() + 1, allowed.start(), allowed.end());
                let why = format!("expected {expected}, got {:?}", fields.join(" "));
                return Err(CUB.line(path, line, why));
            }
        }
    }
    if values.len() != images {
        return Err(CUB.data(path, format!("{} lines for {images} images", values.len())));
    }
    Ok(values)
}

/// The images of some rows, from whichever of the two layouts is there.
fn images(folder: &Path, names: &[String], rows: &[usize], options: &Cub, device: &Device) -> Result<Tensor> {
    let root = options.images.clone().unwrap_or_else(|| folder.join("images"));
    let mut official = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let unsafe_name = || CUB.line(&folder.join("images.txt"), i + 1, format!("{name:?} is no file name"));
        official.push(root.join(inside(name).ok_or_else(unsafe_name)?));
    }
    let crop = |image: usize| root.join(format!("{:05}.jpg", image + 1));
    if rows.first().is_some_and(|image| crop(*image).is_file()) {
        let files: Vec<PathBuf> = rows.iter().map(|image| crop(*image)).collect();
        let whole = |_, image: &Rgb| Crop::Whole.region(image.width, image.height);
        return decode(&CUB, &files, options.size, whole, device);
    }
    let files: Vec<PathBuf> = rows.iter().map(|image| official[*image].clone()).collect();
    if !options.boxes {
        let square = |_, image: &Rgb| Crop::Center.region(image.width, image.height);
        return decode(&CUB, &files, options.size, square, device);
    }
    let boxes = boxes(&folder.join("bounding_boxes.txt"), names.len())?;
    let around = |i: usize, image: &Rgb| square_around(boxes[rows[i]], image.width, image.height);
    decode(&CUB, &files, options.size, around, device)
}

/// Lines `<image number> <left> <top> <width> <height>`, in pixels.
fn boxes(path: &Path, images: usize) -> Result<Vec<[f64; 4]>> {
    let text = CUB.text(path)?;
    let mut boxes = Vec::new();
    for (line, fields) in fields(&text) {
        let values: Vec<f64> = fields.iter().skip(1).filter_map(|field| field.parse().ok()).collect();
        match values[..] {
            [left, top, width, height]
                if fields[0].parse() == Ok(boxes.len() + 1)
                    && values.iter().all(|value| value.is_finite() && *value >= 0.0)
                    && width > 0.0
                    && height > 0.0 =>
            {
                boxes.push([left, top, width, height]);
            }
            _ => {
                let expected = format!("\"{} <left> <top> <width> <height>\"", boxes.len() + 1);
                return Err(CUB.line(path, line, format!("expected {expected}, got {:?}", fields.join(" "))));
            }
        }
    }
    if boxes.len() != images {
        return Err(CUB.data(path, format!("{} boxes for {images} images", boxes.len())));
    }
    Ok(boxes)
}

/// The square around a box, moved and then cut so that it lies in the image.
fn square_around([left, top, width, height]: [f64; 4], image_width: usize, image_height: usize) -> Region {
    let side = MARGIN * width.max(height);
    let along = |start: f64, length: f64, whole: usize| {
        let side = (side.round() as usize).clamp(1, whole);
        let first = (start + length / 2.0 - side as f64 / 2.0).round().max(0.0) as usize;
        (first.min(whole - side), side)
    };
    let (left, width) = along(left, width, image_width);
    let (top, height) = along(top, height, image_height);
    Region { left, top, width, height }
}

/// Attributes (rows, attributes) with their names, from the images if they are labelled, else from the classes.
fn attributes(folder: &Path, class_of: &[usize], rows: &[usize]) -> Result<Option<(Vec<f32>, Vec<String>)>> {
    let labels = folder.join("attributes/image_attribute_labels.txt");
    if labels.is_file() {
        let names = CUB.numbered_names(&attributes_file(folder))?;
        return Ok(Some((image_attributes(&labels, class_of.len(), rows, names.len())?, names)));
    }
    if !class_attributes_file(folder).is_file() {
        return Ok(None);
    }
    let of_classes = cub_class_attributes(folder)?;
    let share =
        |image: &usize| of_classes.continuous.row(class_of[*image] - 1).mapv(|p| (p / 100.0) as f32).to_vec();
    Ok(Some((rows.iter().flat_map(share).collect(), of_classes.attributes)))
}

/// Lines `<image> <attribute> <0 or 1> <certainty> <seconds>`; the official file has stray fields after the third.
fn image_attributes(path: &Path, images: usize, rows: &[usize], attributes: usize) -> Result<Vec<f32>> {
    let mut row_of = vec![None; images];
    for (row, image) in rows.iter().enumerate() {
        row_of[*image] = Some(row);
    }
    let mut a = vec![0.0; rows.len() * attributes];
    let text = CUB.text(path)?;
    for (i, line) in text.lines().enumerate() {
        let mut fields = line.split_whitespace().map(|field| field.parse::<usize>().ok());
        match (fields.next().flatten(), fields.next().flatten(), fields.next().flatten()) {
            (Some(image), Some(attribute), Some(holds @ 0..=1))
                if (1..=images).contains(&image) && (1..=attributes).contains(&attribute) =>
            {
                if let Some(row) = row_of[image - 1] {
                    a[row * attributes + attribute - 1] = holds as f32;
                }
            }
            _ => {
                let why =
                    format!("expected \"<1 to {images}> <1 to {attributes}> <0 or 1> …\", got {line:?}");
                return Err(CUB.line(path, i + 1, why));
            }
        }
    }
    Ok(a)
}
