//! Your own features and scores, exported from another framework.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::safetensors::BufferedSafetensors;
use candle_core::{DType, Device, Tensor};

use super::labels::{class_indices, finite, numbered};
use super::read::Source;
use super::{Place, TOO_LARGE};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::numbers::all_finite;
use crate::table::{Cell, Table};

const EXPORTED: Source = Source {
    name: "An export",
    layout: "a .safetensors or .npz file with the arrays features [n, d] (or z, x) and labels [n] (or y), optionally \
             scores [n] or [n, k] (or s), attributes [n, m] (or a), weight [k, d] and bias [k]",
    origin: "Write it with safetensors.torch.save_file({\"features\": z, \"labels\": y}, \"mine.safetensors\") or \
             np.savez(\"mine.npz\", features=z, labels=y), or name your arrays in `ExportKeys`",
};

/// The usual names of each array, the one that messages use first.
const FEATURES: &[&str] = &["features", "z", "x"];
const LABELS: &[&str] = &["labels", "y"];
const SCORES: &[&str] = &["scores", "s"];
const ATTRIBUTES: &[&str] = &["attributes", "a"];
const WEIGHT: &[&str] = &["weight"];
const BIAS: &[&str] = &["bias"];

/// Names of the arrays in an export, where they are not the usual ones.
///
/// Usual names: features, z or x; labels or y; scores or s; attributes or a; weight; bias.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("mine.npz");
/// let (z, y) = (Tensor::ones((2, 3), DType::F32, &Device::Cpu)?, Tensor::new(&[0i64, 1], &Device::Cpu)?);
/// Tensor::write_npz(&[("penultimate", &z), ("labels", &y)], &path)?;
/// let keys = load::ExportKeys { features: Some("penultimate".into()), ..load::ExportKeys::default() };
/// assert_eq!(load::exported(&path, &keys, &Device::Cpu)?.data.d(), 3);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportKeys {
    /// (n, d) What the last layer reads.
    pub features: Option<String>,
    /// (n) Classes.
    pub labels: Option<String>,
    /// (n) or (n, k) What the last layer says.
    pub scores: Option<String>,
    /// (n, m) Attributes.
    pub attributes: Option<String>,
    /// (k, d) or (d) Weight of the last layer.
    pub weight: Option<String>,
    /// (k) Bias of the last layer.
    pub bias: Option<String>,
}

/// What another framework exported.
///
/// `data` has the features as `x`, or the scores if there are no features. Shapes: `scores` (n, k) (k = 1 for one score
/// per row), `weight` (k, d), `bias` (k); all f32, or f64 if that is asked for (see [`Place`]).
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("mine.npz");
/// let (s, y) = (Tensor::new(&[0.2f32, 0.9], &Device::Cpu)?, Tensor::new(&[0i64, 1], &Device::Cpu)?);
/// Tensor::write_npz(&[("scores", &s), ("labels", &y)], &path)?;
/// let found = load::exported(&path, &load::ExportKeys::default(), &Device::Cpu)?;
/// let scores = found.scores.expect("the file has them");
/// assert_eq!(Scores::new(&scores, &found.data.y)?.auc(), 1.0);
/// assert!(found.weight.is_none());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Exported {
    /// Features, labels and attributes.
    pub data: Dataset,
    /// What the other framework's last layer said.
    pub scores: Option<Tensor>,
    /// Weight of that layer.
    pub weight: Option<Tensor>,
    /// Bias of that layer.
    pub bias: Option<Tensor>,
}

impl Exported {
    /// What the file had, and in which shape.
    pub fn table(&self) -> Table {
        let describe = |t: &Tensor| Cell::Text(format!("{:?} {}", t.dims(), t.dtype().as_str()));
        let arrays = [
            ("data.x", Some(&self.data.x)),
            ("data.y", Some(&self.data.y)),
            ("data.a", self.data.a.as_ref()),
            ("scores", self.scores.as_ref()),
            ("weight", self.weight.as_ref()),
            ("bias", self.bias.as_ref()),
        ];
        let rows = arrays.iter().filter_map(|(name, t)| Some((name.to_string(), describe((*t)?)))).collect();
        Table::pairs("array", "shape and type", rows)
    }

    /// Shows the table.
    pub fn evcxr_display(&self) {
        self.table().evcxr_display();
    }
}

/// Features, labels and scores that you exported from another framework, as .safetensors or .npz.
///
/// ```text
/// from safetensors.torch import save_file                                     # Python, PyTorch
/// save_file({"features": z.cpu().contiguous(), "labels": y.long().cpu(), "scores": s.cpu().contiguous(),
///            "weight": head.weight.data.cpu(), "bias": head.bias.data.cpu()}, "mine.safetensors")
///
/// np.savez("mine.npz", features=z, labels=y, scores=s)                         # or with numpy alone
/// ```
/// Shapes: `features` (n, d), `labels` (n), `scores` (n) or (n, k), `attributes` (n, m), `weight` (k, d) or (d), `bias` (k).
/// Classes are named "0", "1", … up to the highest label or, if there are several scores per row, one per score.
/// Fails: `Io` if the file is missing; `Data` if it is damaged, if labels are not whole numbers from 0, if a value is not
/// finite, if neither features nor scores are there, or if shapes do not fit together. Checked by `tests/load/exported.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// use lastlayer::tensor_file::TensorFile;
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("mine.safetensors"); // as save_file of safetensors.torch writes it
/// let z = Tensor::new(&[[1f32, 2.0], [3.0, 4.0]], &Device::Cpu)?;
/// let y = Tensor::new(&[1i64, 0], &Device::Cpu)?;
/// let tensors = [("features".to_string(), z), ("labels".to_string(), y)].into();
/// TensorFile { tensors, ..TensorFile::default() }.write(&path)?;
/// let data = load::exported(&path, &load::ExportKeys::default(), &Device::Cpu)?.data;
/// assert_eq!((data.n(), data.d(), data.labels()?), (2, 2, vec![1, 0]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn exported(path: impl AsRef<Path>, keys: &ExportKeys, place: impl Into<Place>) -> Result<Exported> {
    let (path, place) = (path.as_ref(), Place::of(place)?);
    let arrays = Arrays::read(path, keys)?;
    let Some(labels) = arrays.find(&keys.labels, LABELS)? else {
        return Err(EXPORTED.data(path, format!("has no labels, only {}", arrays.list())));
    };
    let y = class_indices(&EXPORTED, path, labels)?;
    let n = y.len();
    let features = arrays.numbers(&keys.features, FEATURES, &place)?;
    let scores = arrays.numbers(&keys.scores, SCORES, &place)?;
    let attributes = arrays.numbers(&keys.attributes, ATTRIBUTES, &place)?;
    let weight = arrays.numbers(&keys.weight, WEIGHT, &place)?;
    let bias = arrays.numbers(&keys.bias, BIAS, &place)?;

    let features = features.map(|t| arrays.shaped("features", t, Some(n), None)).transpose()?;
    let scores = scores.map(|t| arrays.shaped("scores", column(t)?, Some(n), None)).transpose()?;
    let attributes =
        attributes.map(|t| arrays.shaped("attributes", column(t)?, Some(n), None)).transpose()?;
    let d = features.as_ref().map(|t| t.dims()[1]);
    let k = scores.as_ref().map(|t| t.dims()[1]);
    let weight = weight.map(|t| arrays.shaped("weight", row(t)?, k, d)).transpose()?;
    let outputs = weight.as_ref().map(|t| t.dims()[0]).or(k);
    let bias = bias.map(|t| arrays.shaped("bias", row(t.flatten_all()?)?, Some(1), outputs)).transpose()?;
    let bias = bias.map(|t| t.squeeze(0)).transpose()?;

    let Some(x) = features.as_ref().or(scores.as_ref()) else {
        return Err(EXPORTED.data(path, format!("has neither features nor scores, only {}", arrays.list())));
    };
    let mut classes = numbered(&y);
    // One output decides between two classes; several are one per class.
    if let Some(k) = outputs.filter(|k| *k > 1) {
        if classes.len() > k {
            let why = format!("label {} has no score: there are {k} per row", classes.len() - 1);
            return Err(EXPORTED.data(path, why));
        }
        classes = (0..k).map(|class| class.to_string()).collect();
    }
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut data = Dataset::new(&name, x.clone(), Tensor::from_vec(y, n, &place.device)?, classes)?;
    if let Some(a) = attributes {
        let names = (0..a.dims()[1]).map(|j| format!("attribute {j}"));
        data = data.with_attributes(a.to_dtype(DType::F32)?, names)?;
    }
    Ok(Exported { data, scores, weight, bias })
}

/// A vector as one column; anything else as it is.
fn column(t: Tensor) -> Result<Tensor> {
    Ok(if t.rank() == 1 { t.unsqueeze(1)? } else { t })
}

/// A vector as one row; anything else as it is.
fn row(t: Tensor) -> Result<Tensor> {
    Ok(if t.rank() == 1 { t.unsqueeze(0)? } else { t })
}

/// The first line of an error of candle, which may carry a backtrace.
fn one_line(error: &candle_core::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_string()
}

/// The arrays of a file that may be of use, and the names of all.
struct Arrays<'a> {
    path: &'a Path,
    names: Vec<String>,
    arrays: BTreeMap<String, Tensor>,
}

impl Arrays<'_> {
    /// Reads either format, told apart by content: a zip starts with "PK". What no key asks for is left unread, so a
    /// file may hold other things too. Host: arrays are moved to a device when they are used.
    fn read<'a>(path: &'a Path, keys: &ExportKeys) -> Result<Arrays<'a>> {
        let usual = [FEATURES, LABELS, SCORES, ATTRIBUTES, WEIGHT, BIAS].concat();
        let own = [&keys.features, &keys.labels, &keys.scores, &keys.attributes, &keys.weight, &keys.bias];
        let wanted = |name: &str| usual.contains(&name) || own.iter().any(|key| key.as_deref() == Some(name));
        let bytes = EXPORTED.bytes(path)?;
        if bytes.starts_with(b"PK") {
            let (names, arrays) = super::npy::read(path, bytes, wanted)?;
            return Ok(Arrays { path, names, arrays });
        }
        // Checks that header, shapes and types account for every byte of the file, before anything is allocated.
        let file = BufferedSafetensors::new(bytes).map_err(|e| {
            let why = format!("is truncated or neither .safetensors nor .npz ({})", one_line(&e));
            EXPORTED.data(path, why)
        })?;
        let mut names: Vec<String> = file.tensors().into_iter().map(|(name, _)| name).collect();
        names.sort();
        let mut arrays = BTreeMap::new();
        for name in names.iter().filter(|name| wanted(name)) {
            let array = file.load(name, &Device::Cpu).map_err(|e| {
                let why = format!("array {name:?} has a type that is not read ({})", one_line(&e));
                EXPORTED.data(path, format!("{why}; save it as float32 or int64"))
            })?;
            arrays.insert(name.clone(), array);
        }
        Ok(Arrays { path, names, arrays })
    }

    fn list(&self) -> String {
        if self.names.is_empty() { "nothing at all".to_string() } else { self.names.join(", ") }
    }

    /// The array under the key you gave, which must be there, or else under one of the usual names.
    fn find(&self, key: &Option<String>, usual: &[&str]) -> Result<Option<&Tensor>> {
        let Some(key) = key else {
            return Ok(usual.iter().find_map(|name| self.arrays.get(*name)));
        };
        let missing =
            || Error::config(format!("key of {}", usual[0]), key, format!("one of {}", self.list()));
        self.arrays.get(key).ok_or_else(missing).map(Some)
    }

    /// The array as finite numbers of the type that was asked for.
    fn numbers(&self, key: &Option<String>, usual: &[&str], place: &Place) -> Result<Option<Tensor>> {
        let Some(array) = self.find(key, usual)? else {
            return Ok(None);
        };
        let array = finite(&EXPORTED, self.path, usual[0], array)?.to_dtype(place.dtype)?;
        if !all_finite(&array)? {
            return Err(EXPORTED.data(self.path, format!("{} holds a number that is {TOO_LARGE}", usual[0])));
        }
        Ok(Some(array.to_device(&place.device)?))
    }

    /// The array, if it is a matrix with as many rows and columns as others demand, and not empty.
    fn shaped(&self, what: &str, t: Tensor, rows: Option<usize>, columns: Option<usize>) -> Result<Tensor> {
        let fits =
            |size: usize, wanted: Option<usize>| size > 0 && wanted.is_none_or(|wanted| wanted == size);
        if matches!(*t.dims(), [r, c] if fits(r, rows) && fits(c, columns)) {
            return Ok(t);
        }
        let show = |size: Option<usize>| size.map_or("any".to_string(), |size| size.to_string());
        let why = format!(
            "{what}: the shape is {:?}, but [{}, {}] is expected",
            t.dims(),
            show(rows),
            show(columns)
        );
        Err(EXPORTED.data(self.path, why))
    }
}
