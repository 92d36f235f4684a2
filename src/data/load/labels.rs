//! Labels and values of arrays that others wrote: whole numbers from zero, and nothing that is not finite.

use std::path::Path;

use candle_core::{DType, Tensor};

use super::read::{MOST_CLASSES, Source};
use crate::error::Result;

/// Class indices of a tensor (n) or (n, 1) of any number type.
pub(crate) fn class_indices(source: &Source, path: &Path, labels: &Tensor) -> Result<Vec<u32>> {
    if !matches!(labels.dims(), [_] | [_, 1]) {
        let why = format!(
            "labels have the shape {:?} instead of [n]; save class numbers, not one-hot",
            labels.dims()
        );
        return Err(source.data(path, why));
    }
    let mut classes = Vec::with_capacity(labels.elem_count());
    for (row, label) in host(source, path, "labels", labels)?.into_iter().enumerate() {
        if label.fract() != 0.0 || !(0.0..MOST_CLASSES as f64).contains(&label) {
            let why = format!(
                "label {label} of row {row} is no class number; labels are whole numbers from 0 to the number of classes \
                 minus 1 (at most {MOST_CLASSES} classes)"
            );
            return Err(source.data(path, why));
        }
        classes.push(label as u32);
    }
    if classes.is_empty() {
        return Err(source.data(path, "holds no labels"));
    }
    Ok(classes)
}

/// Names "0", "1", … up to the highest class.
pub(crate) fn numbered(classes: &[u32]) -> Vec<String> {
    (0..=classes.iter().copied().max().unwrap_or(0)).map(|class| class.to_string()).collect()
}

/// The tensor itself, if every value is finite.
pub(crate) fn finite<'a>(source: &Source, path: &Path, name: &str, tensor: &'a Tensor) -> Result<&'a Tensor> {
    let values = host(source, path, name, tensor)?;
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        let columns = tensor.dims().get(1..).map_or(1, |sizes| sizes.iter().product::<usize>().max(1));
        let why = format!(
            "{name} holds {} at row {}, column {}; replace it or drop the row before you save",
            values[at],
            at / columns,
            at % columns
        );
        return Err(source.data(path, why));
    }
    Ok(tensor)
}

/// Values as f64, row by row. Host: what a file held.
fn host(source: &Source, path: &Path, name: &str, tensor: &Tensor) -> Result<Vec<f64>> {
    use DType::*;
    if !matches!(tensor.dtype(), U8 | U32 | I16 | I32 | I64 | BF16 | F16 | F32 | F64) {
        let why = format!("{name} has the type {}; save it as float32 or int64", tensor.dtype().as_str());
        return Err(source.data(path, why));
    }
    Ok(tensor.to_dtype(F64)?.flatten_all()?.to_vec1()?)
}
