//! Tensors and notes in one file: the safetensors format, read with suspicion and written whole or not at all.
//!
//! ```
//! use lastlayer::prelude::*;
//! use lastlayer::tensor_file::TensorFile;
//! # let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("mine.safetensors");
//! let mut file = TensorFile::default();
//! file.tensors.insert("w".into(), Tensor::new(&[1.5f32, -2.0], &Device::Cpu)?);
//! file.write(&path)?;
//! let back = TensorFile::read(&path, &Device::Cpu)?;
//! assert_eq!(back.tensors["w"].to_vec1::<f32>()?, [1.5, -2.0]);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use candle_core::{Device, Tensor};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::files::write_atomic;

/// Key of our notes among the format's own.
const NOTES: &str = "lastlayer";
/// Larger files and headers are no networks that this library makes.
const MOST_BYTES: u64 = 8 << 30;
const MOST_HEADER: u64 = 100 << 20;

/// Named tensors, and notes about them.
///
/// ```
/// use lastlayer::prelude::*;
/// use lastlayer::tensor_file::TensorFile;
/// let w = Tensor::ones(2, DType::F32, &Device::Cpu)?;
/// let named = ["head.w", "head.b", "phi.w"].map(|name| (name.to_string(), w.clone()));
/// let file = TensorFile { tensors: named.into(), notes: "after epoch 3".into() };
/// assert!(file.below("head.").keys().eq(["b", "w"]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TensorFile {
    /// Tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// What a reader needs besides the numbers; `Null` in files of other programs.
    pub notes: Value,
}

impl TensorFile {
    /// Writes the file; the same content gives the same bytes. Host: all tensors.
    ///
    /// Fails: `Io` if it cannot be written; an older file of that name is then still whole.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let notes = HashMap::from([(NOTES.to_string(), self.notes.to_string())]);
        let bytes = safetensors::serialize(&self.tensors, Some(notes))
            .map_err(|e| Error::data(path, format!("the tensors cannot be written: {e}")))?;
        write_atomic(path, &bytes)
    }

    /// Reads a file onto a device.
    ///
    /// Fails: `Io` if it is missing, `Data` if it is damaged or larger than 8 GiB. What is read is bounded by the length of
    /// the file, whatever its header says. Host: the bytes of the file.
    pub fn read(path: impl AsRef<Path>, device: &Device) -> Result<TensorFile> {
        let path = path.as_ref();
        let hint = "check the path; `save` writes such files";
        let length = std::fs::metadata(path).map_err(|e| Error::io(path, hint, e))?.len();
        if length > MOST_BYTES {
            return Err(Error::data(path, format!("has {length} bytes, more than any file we read")));
        }
        let damaged = |e: &dyn std::fmt::Display| {
            Error::data(
                path,
                format!("is no safetensors file, or is damaged ({e}); save or download it again"),
            )
        };
        let mut file = File::open(path).map_err(|e| Error::io(path, hint, e))?;
        let mut size = [0; 8];
        file.read_exact(&mut size).map_err(|e| damaged(&e))?;
        let header = u64::from_le_bytes(size);
        if header > MOST_HEADER || header > length.saturating_sub(8) {
            return Err(damaged(&format!("a header of {header} bytes in a file of {length}")));
        }
        let mut bytes = size.to_vec();
        file.read_to_end(&mut bytes).map_err(|e| Error::io(path, hint, e))?;
        // Checks that the header accounts for every byte of the file, before a tensor is made.
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|e| damaged(&e))?;
        let notes = header.metadata().as_ref().and_then(|notes| notes.get(NOTES));
        let notes = notes.map(|text| serde_json::from_str(text)).transpose().map_err(|e| damaged(&e))?;
        let tensors = candle_core::safetensors::load_buffer(&bytes, device).map_err(|e| damaged(&e))?;
        Ok(TensorFile { tensors: tensors.into_iter().collect(), notes: notes.unwrap_or(Value::Null) })
    }

    /// The tensors below a prefix, without it.
    pub fn below(&self, prefix: &str) -> BTreeMap<String, Tensor> {
        let under = |(name, tensor): (&String, &Tensor)| {
            Some((name.strip_prefix(prefix)?.to_string(), tensor.clone()))
        };
        self.tensors.iter().filter_map(under).collect()
    }
}
