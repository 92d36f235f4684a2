//! Arrays as numpy writes them: one .npy per array, several in an .npz.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::path::Path;

use candle_core::{DType, Device, Tensor};

use super::labels::{class_indices, finite, numbered};
use super::read::{MOST_BYTES, Source, inside, product};
use super::{Place, TOO_LARGE};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::numbers::all_finite;
use crate::table::{Cell, Table};

pub(crate) const NPZ: Source = Source {
    name: "An .npz file",
    layout: "a zip of .npy arrays of numbers or booleans, stored or deflated",
    origin: "Write it with np.savez_compressed(\"table.npz\", X=x.astype(\"float32\"), y=y.astype(\"int64\"))",
};

/// Numpy's own bound on the number of dimensions.
const MOST_DIMENSIONS: usize = 64;

/// Arrays of an .npz file by name.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("arrays.npz");
/// Tensor::write_npz(&[("w", &Tensor::new(&[1f64, 2.0], &Device::Cpu)?)], &path)?;
/// let arrays = load::npz(&path)?;
/// assert_eq!(arrays.get("w")?.to_vec1::<f64>()?, [1.0, 2.0]);
/// assert!(arrays.get("b").unwrap_err().to_string().contains("w")); // lists what is there
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Npz {
    /// All of them; [`get`](Npz::get) gives one, with an error that lists the names.
    pub arrays: BTreeMap<String, Tensor>,
}

impl Npz {
    /// One array. Fails: `Config` if there is none of that name.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        let names = || self.arrays.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        self.arrays.get(name).ok_or_else(|| Error::config("name of an array", format!("{name:?}"), names()))
    }

    /// Names, shapes and types.
    pub fn table(&self) -> Table {
        let describe = |t: &Tensor| Cell::Text(format!("{:?} {}", t.dims(), t.dtype().as_str()));
        let rows = self.arrays.iter().map(|(name, tensor)| (name.clone(), describe(tensor))).collect();
        Table::pairs("array", "shape and type", rows)
    }

    /// Shows the table.
    pub fn evcxr_display(&self) {
        self.table().evcxr_display();
    }
}

/// All arrays of an .npz file, on the CPU.
///
/// Reads f16, f32, f64, i8 to i64, u8 to u64 and bool, little and big endian, in C and Fortran order, header versions 1
/// to 3, stored and deflated. Types that candle lacks are widened: f16 to f32, bool to u8, u16 to u32, i8, i16, i32 and
/// u64 to i64; nothing is rounded.
/// Fails: `Io` if the file is missing, `Data` if it is no zip, damaged, has names that lead out of a folder, holds Python
/// objects or text, or declares a shape that its bytes do not fill. Checked by `tests/load/npz.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("arrays.npz");
/// let (a, b) = (Tensor::zeros((2, 3), DType::F32, &Device::Cpu)?, Tensor::new(&[7i64], &Device::Cpu)?);
/// Tensor::write_npz(&[("a", &a), ("b", &b)], &path)?;
/// let arrays = load::npz(&path)?.arrays;
/// assert_eq!((arrays["a"].dims(), arrays["b"].dtype()), (&[2, 3][..], DType::I64));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn npz(path: impl AsRef<Path>) -> Result<Npz> {
    let path = path.as_ref();
    let (_, arrays) = read(path, NPZ.bytes(path)?, |_| true)?;
    Ok(Npz { arrays })
}

/// Names of all arrays in the bytes of an .npz file, and those arrays that are wanted.
pub(crate) fn read(
    path: &Path,
    bytes: Vec<u8>,
    wanted: impl Fn(&str) -> bool,
) -> Result<(Vec<String>, BTreeMap<String, Tensor>)> {
    let damaged = |e| match e {
        zip::result::ZipError::Io(e) => NPZ.unreadable(path, e),
        e => NPZ.data(path, format!("is truncated or no zip ({e})")),
    };
    let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
    let (mut names, mut arrays) = (Vec::new(), BTreeMap::new());
    let mut left = MOST_BYTES;
    for i in 0..zip.len() {
        let entry = zip.by_index(i).map_err(damaged)?;
        let file = entry.name().map_err(damaged)?.into_owned();
        let (Some(_), Some(name)) = (inside(&file), file.strip_suffix(".npy")) else {
            return Err(NPZ.data(path, format!("entry {file:?} is not named like an array")));
        };
        names.push(name.to_string());
        if !wanted(name) {
            continue;
        }
        let content = NPZ.at_most(path, entry.take(left + 1))?;
        left = left
            .checked_sub(content.len() as u64)
            .ok_or_else(|| NPZ.data(path, format!("holds more than {} GiB of arrays", MOST_BYTES >> 30)))?;
        let array = npy(&content).map_err(|why| NPZ.data(path, format!("array {name:?} {why}")))?;
        if arrays.insert(name.to_string(), array).is_some() {
            return Err(NPZ.data(path, format!("array {name:?} is there twice")));
        }
    }
    Ok((names, arrays))
}

/// A table from an .npz file with the features as `X` and the labels as `y`.
///
/// Shapes: `X` (n, d) of numbers, `y` (n) or (n, 1) of whole numbers from 0; `x` is f32 whatever the file has, or
/// f64 if you ask ([`Place`]). Classes are named "0", "1", … up to the highest label.
/// Fails: as [`npz`]; `Data` if an array is missing, which lists those that are there, or if a value is not finite.
/// Checked by `tests/load/npz.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("table.npz");
/// let (x, y) = (Tensor::ones((3, 2), DType::F64, &Device::Cpu)?, Tensor::new(&[0i64, 2, 1], &Device::Cpu)?);
/// Tensor::write_npz(&[("X", &x), ("y", &y)], &path)?;
/// let data = load::npz_table(&path, &Device::Cpu)?;
/// assert_eq!((data.d(), data.labels()?), (2, vec![0, 2, 1]));
/// assert_eq!(data.x.dtype(), DType::F32); // ready for a network
/// assert_eq!(load::npz_table(&path, (DType::F64, &Device::Cpu))?.x.dtype(), DType::F64);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn npz_table(path: impl AsRef<Path>, device: impl Into<Place>) -> Result<Dataset> {
    let (x, y) = read_table(path.as_ref(), &Place::of(device)?)?;
    let classes = numbered(&y);
    table(path.as_ref(), x, y, classes)
}

/// A table of anomaly detection from ADBench: an .npz file with `X` and a `y` that is 1 for anomalies.
///
/// As [`npz_table`], with the classes named "normal" and "anomaly".
/// Fails: as [`npz_table`]; `Data` for any label but 0 and 1. People get it from github.com/Minqi824/ADBench, folder
/// adbench/datasets. Checked by `tests/load/npz.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("1_tiny.npz");
/// let (x, y) = (Tensor::ones((3, 2), DType::F32, &Device::Cpu)?, Tensor::new(&[0i64, 0, 1], &Device::Cpu)?);
/// Tensor::write_npz(&[("X", &x), ("y", &y)], &path)?;
/// let data = load::adbench(&path, &Device::Cpu)?;
/// assert_eq!((&data.names.classes[1][..], data.class_counts()?), ("anomaly", vec![2, 1]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn adbench(path: impl AsRef<Path>, device: impl Into<Place>) -> Result<Dataset> {
    let path = path.as_ref();
    let (x, y) = read_table(path, &Place::of(device)?)?;
    if let Some(other) = y.iter().find(|label| **label > 1) {
        return Err(NPZ.data(path, format!("label {other} is neither 0 (normal) nor 1 (anomaly)")));
    }
    table(path, x, y, vec!["normal".to_string(), "anomaly".to_string()])
}

fn read_table(path: &Path, place: &Place) -> Result<(Tensor, Vec<u32>)> {
    let (names, arrays) = read(path, NPZ.bytes(path)?, |name| ["X", "x", "Y", "y"].contains(&name))?;
    let find = |usual: [&str; 2]| {
        usual
            .iter()
            .find_map(|name| arrays.get(*name))
            .ok_or_else(|| NPZ.data(path, format!("has no array {:?}, only {}", usual[0], names.join(", "))))
    };
    let (x, y) = (find(["X", "x"])?, class_indices(&NPZ, path, find(["y", "Y"])?)?);
    if x.rank() != 2 || x.dims()[0] != y.len() || x.elem_count() == 0 {
        let why =
            format!("X has the shape {:?} instead of [{}, columns], one row per label", x.dims(), y.len());
        return Err(NPZ.data(path, why));
    }
    let x = finite(&NPZ, path, "X", x)?.to_dtype(place.dtype)?;
    if !all_finite(&x)? {
        return Err(NPZ.data(path, format!("X holds a number that is {TOO_LARGE}")));
    }
    Ok((x.to_device(&place.device)?, y))
}

fn table(path: &Path, x: Tensor, y: Vec<u32>, classes: Vec<String>) -> Result<Dataset> {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let y = Tensor::new(y, x.device())?;
    Dataset::new(&name, x, y, classes)
}

/// What the header of an .npy array says.
struct Header {
    big_endian: bool,
    /// Kind and size, such as "f8".
    kind: String,
    fortran: bool,
    shape: Vec<usize>,
}

/// The array in the bytes of an .npy file, or what is wrong with it. Host: it is moved to a device later.
fn npy(bytes: &[u8]) -> Result<Tensor, String> {
    let (header, data) = header(bytes)?;
    let Header { big_endian, kind, fortran, shape } = header;
    let width: usize = kind.get(1..).and_then(|width| width.parse().ok()).unwrap_or(0);
    let elements = product(&shape).filter(|elements| elements.checked_mul(width) == Some(data.len()));
    let Some(elements) = elements else {
        return Err(format!("declares {shape:?} of {kind}, which is not what {} bytes can hold", data.len()));
    };
    // Fortran order is C order with the dimensions reversed.
    let mut stored = shape;
    if fortran {
        stored.reverse();
    }
    let shape = stored.as_slice();
    let cpu = &Device::Cpu;
    macro_rules! values {
        ($type:ty => $wider:ty) => {{
            let mut values: Vec<$wider> = Vec::with_capacity(elements);
            for chunk in data.chunks_exact(size_of::<$type>()) {
                let mut bytes = [0; size_of::<$type>()];
                bytes.copy_from_slice(chunk);
                let value =
                    if big_endian { <$type>::from_be_bytes(bytes) } else { <$type>::from_le_bytes(bytes) };
                values.push(
                    <$wider>::try_from(value).map_err(|_| format!("holds {value}, which is too large"))?,
                );
            }
            Tensor::from_vec(values, shape, cpu)
        }};
    }
    let tensor = match kind.as_str() {
        "f4" => values!(f32 => f32),
        "f8" => values!(f64 => f64),
        "f2" => {
            let native = |pair: &[u8]| {
                let pair = [pair[0], pair[1]];
                if big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }.to_ne_bytes()
            };
            let native: Vec<u8> = data.chunks_exact(2).flat_map(native).collect();
            Tensor::from_raw_buffer(&native, DType::F16, shape, cpu)
                .and_then(|half| half.to_dtype(DType::F32))
        }
        "u1" => Tensor::from_slice(data, shape, cpu),
        "b1" => Tensor::from_vec(data.iter().map(|byte| u8::from(*byte != 0)).collect(), shape, cpu),
        "u2" => values!(u16 => u32),
        "u4" => values!(u32 => u32),
        "u8" => values!(u64 => i64),
        "i1" => values!(i8 => i64),
        "i2" => values!(i16 => i64),
        "i4" => values!(i32 => i64),
        "i8" => values!(i64 => i64),
        other => return Err(format!("has the type {other}, and only numbers and booleans are read")),
    };
    let reversed: Vec<usize> = (0..shape.len()).rev().collect();
    tensor
        .and_then(|t| if fortran && reversed.len() > 1 { t.permute(reversed)?.contiguous() } else { Ok(t) })
        .map_err(|e| e.to_string())
}

/// Header and data: magic, version, length, then a Python dict of three entries in ASCII.
fn header(bytes: &[u8]) -> Result<(Header, &[u8]), String> {
    let truncated = || "is truncated".to_string();
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or("does not start with the magic of .npy")?;
    let (&[major, _], rest) = rest.split_first_chunk().ok_or_else(truncated)?;
    let (length, rest) = match major {
        1 => rest.split_first_chunk().map(|(b, rest)| (usize::from(u16::from_le_bytes(*b)), rest)),
        2 | 3 => rest.split_first_chunk().map(|(b, rest)| (u32::from_le_bytes(*b) as usize, rest)),
        _ => return Err(format!("has header version {major}, and only 1 to 3 are known")),
    }
    .ok_or_else(truncated)?;
    let (text, data) = rest.split_at_checked(length).ok_or_else(truncated)?;
    let text = std::str::from_utf8(text).map_err(|_| "has a header that is no text")?;
    let after = |key: &str| {
        let value = text.split_once(&format!("'{key}':")).map(|(_, value)| value.trim_start());
        value.ok_or_else(|| format!("has no {key} in its header"))
    };

    let descr = after("descr")?;
    let descr = descr.strip_prefix('\'').and_then(|quoted| quoted.split_once('\'')).map(|(descr, _)| descr);
    let descr = descr.ok_or("has columns of different types; save one plain array per column")?;
    let (order, kind) = match descr.split_at_checked(1) {
        Some((order @ ("<" | ">" | "|" | "="), kind)) => (order, kind),
        _ => return Err(format!("has the unknown type {descr:?}")),
    };
    match kind.get(..1) {
        Some("O") => {
            return Err(
                "holds Python objects, which only pickle reads; save it with .astype(\"float32\")".into()
            );
        }
        Some("U" | "S") => return Err("holds text; save whole numbers instead".into()),
        _ => {}
    }
    let fortran = match after("fortran_order")? {
        value if value.starts_with("True") => true,
        value if value.starts_with("False") => false,
        _ => return Err("has a fortran_order that is neither True nor False".into()),
    };
    let shape = after("shape")?;
    let shape = shape.strip_prefix('(').and_then(|tuple| tuple.split_once(')')).map(|(sizes, _)| sizes);
    let sizes =
        shape.ok_or("has no shape in its header")?.split(',').map(str::trim).filter(|s| !s.is_empty());
    let shape: Option<Vec<usize>> = sizes.map(|size| size.parse().ok()).collect();
    match shape {
        Some(shape) if shape.len() <= MOST_DIMENSIONS => {
            let big_endian = order == ">" || (order == "=" && cfg!(target_endian = "big"));
            Ok((Header { big_endian, kind: kind.to_string(), fortran, shape }, data))
        }
        _ => Err("has a shape that cannot be read".into()),
    }
}
