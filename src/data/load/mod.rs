//! Loaders of real data sets. Each reads the layout in which people get the set, and says what it expected otherwise.
//!
//! | loader | reads | gives |
//! |---|---|---|
//! | [`bundled`] | three tables inside the library | table or images |
//! | [`idx`], [`mnist`], [`fashion_mnist`] | IDX files, plain or gzip | grey images |
//! | [`cifar10`], [`cifar100`] | official binary batches | images |
//! | [`image_folder`] | JPEG and PNG, one folder per class | images |
//! | [`celeba`] | lists and aligned JPEG | images, 39 attributes |
//! | [`cub`] | lists, and official images or crops | images, 312 attributes |
//! | [`awa2`], [`cub_class_attributes`] | text matrices | attributes of classes |
//! | [`adult`] | `adult.data`, `adult.test` | table, 4 groups |
//! | [`csv_table`] | CSV with a header, plain or gzip | table |
//! | [`npz`], [`npz_table`], [`adbench`] | numpy arrays | arrays, table |
//! | [`exported`] | .safetensors or .npz of another framework | features, scores, last layer |
//! | [`unpack`] | .zip, .tar, .tar.gz | a folder |
//!
//! Files are not trusted: sizes are checked before memory is taken, names never lead out of a folder, and a damaged
//! file is an [`Error`], not a panic. Images are u8 from 0 to 255, (n, channels, height, width). Tables are f32, as
//! networks are; `(DType::F64, &device)` in place of the device asks for f64, see [`Place`].
//!
//! ```
//! use lastlayer::prelude::*;
//! let digits = load::bundled("digits", &Device::Cpu)?;
//! assert_eq!((digits.x.dims(), digits.k()), (&[1797, 1, 8, 8][..], 10));
//! // What is not there is named, with where people get it.
//! let error = load::mnist("no/such/folder", Part::Train, &Device::Cpu).unwrap_err().to_string();
//! assert!(error.contains("train-images-idx3-ubyte"), "{error}");
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod adult;
mod archive;
mod bundled;
mod celeba;
mod cifar;
mod class_attributes;
mod csv_table;
mod cub;
mod exported;
mod idx;
mod images;
mod labels;
mod npy;
mod pixels;
mod read;

pub use adult::{Adult, adult};
pub use archive::unpack;
pub use bundled::bundled;
pub use celeba::{CelebA, celeba};
pub use cifar::{Cifar100, cifar10, cifar100};
pub use class_attributes::{ClassAttributes, awa2, cub_class_attributes};
pub use csv_table::{CsvTable, Missing, csv_table};
pub use cub::{Cub, cub};
pub use exported::{ExportKeys, Exported, exported};
pub use idx::{fashion_mnist, idx, mnist};
pub use images::{ImageFolder, image_folder};
pub use npy::{Npz, adbench, npz, npz_table};
pub use pixels::Crop;

use std::path::PathBuf;

use candle_core::{DType, Device};

use crate::error::{Error, Result};

/// Where a table goes and as what: a device means f32, a pair such as `(DType::F64, &device)` says the type.
///
/// Numbers are read in that type, so f64 has every digit of the file. Labels, attributes and images stay what they are.
/// Loaders that take it fail with `Config` for any type but F32 and F64. Checked by `tests/load/csv.rs`, `tests/load/npz.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("long.csv");
/// std::fs::write(&path, "x,label\n16777217,a\n3,b\n").unwrap(); // 2^24 + 1, which no f32 is
/// let read = |place: load::Place| load::csv_table(&path, &load::CsvTable::default(), place);
/// assert_eq!(read((&Device::Cpu).into())?.x.to_vec2::<f32>()?, [[16777216.0], [3.0]]);
/// assert_eq!(read((DType::F64, &Device::Cpu).into())?.x.to_vec2::<f64>()?, [[16777217.0], [3.0]]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Place {
    /// F32 or F64.
    pub dtype: DType,
    /// Where all tensors of the set are.
    pub device: Device,
}

impl From<&Device> for Place {
    fn from(device: &Device) -> Place {
        Place { dtype: DType::F32, device: device.clone() }
    }
}

impl From<(DType, &Device)> for Place {
    fn from((dtype, device): (DType, &Device)) -> Place {
        Place { dtype, device: device.clone() }
    }
}

impl Place {
    /// The place that was asked for, if a table can be there.
    fn of(asked: impl Into<Place>) -> Result<Place> {
        let place = asked.into();
        match place.dtype {
            DType::F32 | DType::F64 => Ok(place),
            other => Err(Error::config("dtype of a table", format!("{other:?}"), "F32 or F64")),
        }
    }
}

/// What is wrong with a number that only f64 holds.
const TOO_LARGE: &str = "too large for f32; ask for f64, with (DType::F64, &device) in place of the device";

/// The folder where your data sets are, from the environment variable `LASTLAYER_DATA`.
///
/// Fails: `Config` if the variable is not set or names no folder. Checked by `tests/load/folder.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// match load::data_dir() {
///     Ok(folder) => assert!(folder.is_dir()),
///     Err(error) => assert!(error.to_string().contains("LASTLAYER_DATA")), // says what to set
/// }
/// ```
pub fn data_dir() -> Result<PathBuf> {
    let allowed = "the folder that holds your data sets; set it before the kernel starts, as in \
                   `export LASTLAYER_DATA=$HOME/data`, or pass a path to the loader";
    match std::env::var_os("LASTLAYER_DATA").map(PathBuf::from) {
        Some(folder) if folder.is_dir() => Ok(folder),
        Some(other) => Err(Error::config("LASTLAYER_DATA", other.display(), allowed)),
        None => Err(Error::config("LASTLAYER_DATA", "not set", allowed)),
    }
}
