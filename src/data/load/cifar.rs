//! CIFAR in its official binary layout.

use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};

use super::read::{Source, root};
use crate::data::{Dataset, Part};
use crate::error::Result;

/// Bytes of one image: three planes of 32 × 32, red first.
const PIXELS: usize = 3 * 32 * 32;

const CIFAR10: Source = Source {
    name: "CIFAR-10",
    layout: "a folder cifar-10-batches-bin with data_batch_1.bin to data_batch_5.bin, test_batch.bin and \
             batches.meta.txt; each record is one byte of label and 3072 of pixels",
    origin: "People get cifar-10-binary.tar.gz from www.cs.toronto.edu/~kriz/cifar.html; `unpack` opens it",
};

const CIFAR100: Source = Source {
    name: "CIFAR-100",
    layout: "a folder cifar-100-binary with train.bin, test.bin, fine_label_names.txt and coarse_label_names.txt; \
             each record is two bytes of label (coarse, fine) and 3072 of pixels",
    origin: "People get cifar-100-binary.tar.gz from www.cs.toronto.edu/~kriz/cifar.html; `unpack` opens it",
};

/// Which of the two labels of CIFAR-100 becomes the class.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let write = |name: &str, bytes: Vec<u8>| std::fs::write(folder.path().join(name), bytes).unwrap();
/// # let names = |what: &str, n: usize| (0..n).map(|i| format!("{what} {i}\n")).collect::<String>().into_bytes();
/// # write("test.bin", [vec![19, 99], vec![0; 3072]].concat());
/// # write("coarse_label_names.txt", names("group", 20));
/// # write("fine_label_names.txt", names("class", 100));
/// // `folder` holds one image, of group 19 and class 99.
/// let label = |which| load::cifar100(&folder, Part::Test, &which, &Device::Cpu)?.labels();
/// assert_eq!((label(load::Cifar100::Coarse)?, label(load::Cifar100::Fine)?), (vec![19], vec![99]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cifar100 {
    /// One of 100 classes, such as "maple_tree".
    #[default]
    Fine,
    /// One of 20 groups of five classes, such as "trees".
    Coarse,
}

/// Small photographs of ten classes, 50 000 to train and 10 000 to test.
///
/// Layout: the official binary release, in `folder` or in `cifar-10-batches-bin` below it.
/// Shapes: `x` (n, 3, 32, 32) u8, `y` (n); classes named as in batches.meta.txt.
/// Fails: `Config` for `Part::Validation`, `Io` if a file is missing, `Data` if one is truncated or has a label above 9.
/// People get cifar-10-binary.tar.gz from www.cs.toronto.edu/~kriz/cifar.html; the JPEG tree that others distribute
/// loads with [`image_folder`](super::image_folder). Checked by `tests/load/cifar.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let classes: String = (0..10).map(|i| format!("class {i}\n")).collect();
/// # std::fs::write(folder.path().join("batches.meta.txt"), classes).unwrap();
/// # std::fs::write(folder.path().join("test_batch.bin"), [vec![7], vec![255; 3072]].concat()).unwrap();
/// // `folder` holds the names and a test batch of one white image of class 7.
/// let data = load::cifar10(&folder, Part::Test, &Device::Cpu)?;
/// assert_eq!((data.x.dims(), data.labels()?), (&[1, 3, 32, 32][..], vec![7]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn cifar10(folder: impl AsRef<Path>, part: Part, device: &Device) -> Result<Dataset> {
    let folder = root(folder.as_ref(), "cifar-10-batches-bin");
    let files: Vec<PathBuf> = if CIFAR10.train_or_test(part)? {
        (1..=5).map(|i| folder.join(format!("data_batch_{i}.bin"))).collect()
    } else {
        vec![folder.join("test_batch.bin")]
    };
    let classes = names(&CIFAR10, &folder.join("batches.meta.txt"), 10)?;
    records(&CIFAR10, &files, 1, 0, classes, device)
}

/// Small photographs of a hundred classes in twenty groups, 50 000 to train and 10 000 to test.
///
/// Layout: the official binary release, in `folder` or in `cifar-100-binary` below it.
/// Shapes: `x` (n, 3, 32, 32) u8, `y` (n) by fine or coarse label; classes named as in the release.
/// Fails: as [`cifar10`]. People get cifar-100-binary.tar.gz from www.cs.toronto.edu/~kriz/cifar.html.
/// Checked by `tests/load/cifar.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let error = load::cifar100("no/such/folder", Part::Test, &load::Cifar100::Fine, &Device::Cpu).unwrap_err();
/// // It says what it looks for, and where people get it.
/// assert!(error.to_string().contains("fine_label_names.txt"), "{error}");
/// ```
pub fn cifar100(folder: impl AsRef<Path>, part: Part, labels: &Cifar100, device: &Device) -> Result<Dataset> {
    let folder = root(folder.as_ref(), "cifar-100-binary");
    let file = folder.join(if CIFAR100.train_or_test(part)? { "train.bin" } else { "test.bin" });
    let (byte, list, count) = match labels {
        Cifar100::Coarse => (0, "coarse_label_names.txt", 20),
        Cifar100::Fine => (1, "fine_label_names.txt", 100),
    };
    let classes = names(&CIFAR100, &folder.join(list), count)?;
    records(&CIFAR100, &[file], 2, byte, classes, device)
}

/// Names of the classes, one a line.
fn names(source: &Source, path: &Path, count: usize) -> Result<Vec<String>> {
    let text = source.text(path)?;
    let names: Vec<String> =
        text.lines().map(|line| line.trim().to_string()).filter(|name| !name.is_empty()).collect();
    if names.len() != count {
        return Err(source.data(path, format!("names {} classes instead of {count}", names.len())));
    }
    Ok(names)
}

/// Records of `labels` bytes and an image, of which label byte `chosen` is the class.
fn records(
    source: &Source,
    files: &[PathBuf],
    labels: usize,
    chosen: usize,
    classes: Vec<String>,
    device: &Device,
) -> Result<Dataset> {
    let length = labels + PIXELS;
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for path in files {
        let bytes = source.bytes(path)?;
        if bytes.is_empty() || bytes.len() % length != 0 {
            let why = format!(
                "holds {} bytes, which is no multiple of a record of {length}: it is truncated or not the binary \
                 version; download it again",
                bytes.len()
            );
            return Err(source.data(path, why));
        }
        for (row, record) in bytes.chunks_exact(length).enumerate() {
            let class = record[chosen];
            if usize::from(class) >= classes.len() {
                let why = format!("label {class} of record {row} is none of the {} classes", classes.len());
                return Err(source.data(path, why));
            }
            y.push(u32::from(class));
            x.extend_from_slice(&record[labels..]);
        }
    }
    let n = y.len();
    let x = Tensor::from_vec(x, (n, 3, 32, 32), device)?;
    Dataset::new(source.name, x, Tensor::from_vec(y, n, device)?, classes)
}
