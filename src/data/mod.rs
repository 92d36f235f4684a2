//! Data: one type for every method, a procedural image set with known Bayes limits, toy sets with closed forms, and
//! loaders of real sets.
//!
//! | where | what |
//! |---|---|
//! | [`Dataset`] | inputs, labels, attributes and names, on a device |
//! | [`critters`] | faces with sixteen attributes and twelve species, drawn from a seed; what any classifier can reach |
//! | [`toy`] | arcs, rings and Gaussians, the latter with closed-form ROC, AUC and FNR |
//! | [`load`] | files of the usual formats, and features exported from another framework |
//!
//! ```
//! use lastlayer::prelude::*;
//! let data = load::bundled("iris", &Device::Cpu)?;
//! let (train, test) = data.split(0.8, Seed::new(1))?; // stratified
//! assert_eq!((data.d(), data.k(), train.n(), test.n()), (4, 3, 120, 30));
//! assert_eq!(test.class_counts()?, [10, 10, 10]);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod choose;
pub mod critters;
pub mod load;
mod show;
pub mod toy;

use std::collections::HashSet;

use candle_core::{DType, Device, Tensor};

use crate::error::{Error, Result, ensure_shape};
use crate::numbers::all_finite;
use crate::ops;

pub use choose::Batches;

/// Which part of a set a loader or generator gives.
///
/// ```
/// use lastlayer::prelude::*;
/// let critters = Critters::new(Preset::Plain, Seed::new(1));
/// let train = critters.part(Part::Train, 5, &Device::Cpu)?;
/// assert_eq!(train.names.set, format!("critters plain {}", Part::Train.name()));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What a network is fitted to.
    Train,
    /// What settings and the moment to stop are chosen on; many loaders have none.
    Validation,
    /// What is looked at once, at the end.
    Test,
}

impl Part {
    /// The word for it, as file names and tables use it.
    pub fn name(self) -> &'static str {
        match self {
            Part::Train => "train",
            Part::Validation => "validation",
            Part::Test => "test",
        }
    }
}

/// The three parts of one set.
///
/// ```
/// use lastlayer::prelude::*;
/// let Parts { train, validation, test } = Critters::new(Preset::Plain, Seed::new(1)).tiny(&Device::Cpu)?;
/// assert_eq!([train.n(), validation.n(), test.n()], [600, 200, 400]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Parts {
    /// See [`Part::Train`].
    pub train: Dataset,
    /// See [`Part::Validation`].
    pub validation: Dataset,
    /// See [`Part::Test`].
    pub test: Dataset,
}

/// What the numbers of a set are called.
///
/// ```
/// use lastlayer::prelude::*;
/// let names = load::bundled("iris", &Device::Cpu)?.names;
/// assert_eq!(names.classes, ["setosa", "versicolor", "virginica"]);
/// assert_eq!((names.features.len(), names.attributes.len()), (4, 0));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The set itself.
    pub set: String,
    /// One name per class, in the order of the labels.
    pub classes: Vec<String>,
    /// One name per column of the attributes; empty without attributes.
    pub attributes: Vec<String>,
    /// One name per column of a table; empty for images.
    pub features: Vec<String>,
}

/// Samples with their labels and, where there are any, their attributes, all on one device.
///
/// ```text
/// x [n, …]   u8 images in 0..=255, or f32 / f64 numbers     y [n] u32, the class     a [n, m] f32, mostly 0 and 1
/// ```
/// Images stay u8 until they are used: [`inputs`](Dataset::inputs) and [`batches`](Dataset::batches) give numbers in
/// [0, 1]. Every function that makes a set checks it; fields you change yourself are not checked again.
/// Checked by `tests/data.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Tensor::arange(0f32, 8.0, &Device::Cpu)?.reshape((4, 2))?;
/// let y = Tensor::new(&[0u32, 1, 0, 1], &Device::Cpu)?;
/// let red = Tensor::new(&[[1u8], [1], [0], [0]], &Device::Cpu)?;
/// let data = Dataset::new("mine", &x, &y, ["cat", "dog"])?.with_attributes(&red, ["red"])?;
/// assert_eq!((data.n(), data.d(), data.k()), (4, 2, 2));
/// assert_eq!(data.classes(&["dog"])?.x.to_vec2::<f32>()?, [[2.0, 3.0], [6.0, 7.0]]);
/// assert_eq!(data.target("red")?.labels()?, [1, 1, 0, 0]); // an attribute as the label
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dataset {
    /// (n, …) Inputs, a sample per row.
    pub x: Tensor,
    /// (n) Labels: the numbers of the classes, from 0.
    pub y: Tensor,
    /// (n, m) Attributes, if there are any.
    pub a: Option<Tensor>,
    /// What set, classes, attributes and columns are called.
    pub names: Names,
}

impl Dataset {
    /// Set from inputs, labels and the names of the classes.
    ///
    /// Tensors are given or lent. Labels may be of any integer type. Host: labels are read once, inputs only if one is
    /// not finite.
    /// Fails: `Shape` if the lengths differ or there is no sample, `Config` for another dtype, `Data` for a number that
    /// is not finite, a label without a class, or two classes of one name.
    pub fn new<I>(set: &str, x: impl AsRef<Tensor>, y: impl AsRef<Tensor>, classes: I) -> Result<Dataset>
    where
        I: IntoIterator<Item: ToString>,
    {
        let (x, y) = (x.as_ref(), y.as_ref());
        let names = Names { set: set.to_string(), classes: strings(classes), ..Names::default() };
        if x.rank() < 2 || x.elem_count() == 0 {
            let expected = "[n, …], at least one sample of at least one number";
            return Err(Error::shape(format!("x of {set}"), expected, format!("{:?}", x.dims())));
        }
        if !matches!(x.dtype(), DType::U8 | DType::F32 | DType::F64) {
            let allowed = "U8 for images, F32 or F64 for numbers; convert with to_dtype";
            return Err(Error::config(format!("dtype of x of {set}"), format!("{:?}", x.dtype()), allowed));
        }
        check_finite(set, "x", x)?;
        check_names(set, "class", &names.classes)?;
        if names.classes.is_empty() {
            return Err(Error::config(format!("classes of {set}"), "none", "one name per class"));
        }
        let y = labels_tensor(set, y, x.dim(0)?, names.classes.len())?.to_device(x.device())?;
        Ok(Dataset { x: x.contiguous()?, y, a: None, names })
    }

    /// Gives the samples attributes `a [n, m]`, of any dtype, kept as f32.
    ///
    /// Fails: `Shape` unless there is one row per sample, one name per column and at least one column, `Data` for a
    /// number that is not finite or two attributes of one name.
    pub fn with_attributes<I>(mut self, a: impl AsRef<Tensor>, names: I) -> Result<Dataset>
    where
        I: IntoIterator<Item: ToString>,
    {
        let (a, names) = (a.as_ref(), strings(names));
        let what = format!("attributes of {}", self.names.set);
        if names.is_empty() {
            return Err(Error::shape(what, "at least one column; leave them out if there are none", "none"));
        }
        ensure_shape(&what, &[self.n(), names.len()][..], a.dims())?;
        let a = a.to_dtype(DType::F32)?.to_device(self.x.device())?.contiguous()?;
        check_finite(&self.names.set, "a", &a)?;
        check_names(&self.names.set, "attribute", &names)?;
        (self.a, self.names.attributes) = (Some(a), names);
        Ok(self)
    }

    /// Names the columns of a table. Fails: `Shape` unless `x` is `[n, d]` with one name per column.
    pub fn with_features<I>(mut self, names: I) -> Result<Dataset>
    where
        I: IntoIterator<Item: ToString>,
    {
        let names = strings(names);
        let what = format!("x of {} with named columns", self.names.set);
        ensure_shape(&what, &[self.n(), names.len()][..], self.x.dims())?;
        self.names.features = names;
        Ok(self)
    }

    /// Number of samples.
    pub fn n(&self) -> usize {
        self.y.elem_count()
    }

    /// Numbers per sample.
    pub fn d(&self) -> usize {
        self.x.elem_count() / self.n().max(1)
    }

    /// Number of classes.
    pub fn k(&self) -> usize {
        self.names.classes.len()
    }

    /// Inputs as a network takes them: images as f32 in [0, 1], other numbers as they are.
    pub fn inputs(&self) -> Result<Tensor> {
        numbers(&self.x)
    }

    /// Images in less detail: each square of `size` by `size` pixels becomes its mean, in [0, 1].
    ///
    /// Fails: `Shape` unless `x` holds images whose sides are multiples of `size`.
    pub fn pooled(&self, size: usize) -> Result<Dataset> {
        let what = format!("images of {} to be pooled", self.names.set);
        let fits = match self.x.dims() {
            [_, _, height, width] => size > 0 && height % size == 0 && width % size == 0,
            _ => false,
        };
        if !fits {
            let expected = format!("[n, channels, height, width], sides multiples of {size}");
            return Err(Error::shape(what, expected, format!("{:?}", self.x.dims())));
        }
        // A piece at a time, so that the images are never all in memory as f32.
        let mut pieces = Vec::new();
        for start in (0..self.n()).step_by(PIECE) {
            let piece = numbers(&self.x.narrow(0, start, PIECE.min(self.n() - start))?)?;
            pieces.push(ops::avg_pool2d(&piece, size, size)?);
        }
        Ok(Dataset { x: Tensor::cat(&pieces, 0)?, ..self.clone() })
    }

    /// Inputs less the mean input of `on`, over the standard deviation of what is left there: give the training set.
    ///
    /// Contrasts between coordinates stay as they are, since all are divided by one number. Host: that number. Fails: `Shape`
    /// unless samples have one shape, `Data` if all samples of `on` are equal.
    pub fn centred(&self, on: &Dataset) -> Result<Dataset> {
        ensure_shape("samples to be centred", &on.x.dims()[1..], &self.x.dims()[1..])?;
        let theirs = on.inputs()?;
        let mean = theirs.mean_keepdim(0)?;
        let square = theirs.broadcast_sub(&mean)?.sqr()?.mean_all()?;
        let scale = square.to_dtype(DType::F64)?.to_scalar::<f64>()?.sqrt();
        if scale == 0.0 {
            return Err(Error::data(&on.names.set, "all samples are equal, so nothing is left when centred"));
        }
        let x = (self.inputs()?.broadcast_sub(&mean)? / scale)?;
        Ok(Dataset { x, ..self.clone() })
    }

    /// Inputs less their means on `on`, over their standard deviations there, column by column: give the training set.
    ///
    /// A column is one coordinate of the inputs; deviations divide by n, and everything is computed in f64. A column that
    /// is the same in all samples of `on`, up to the last digit of its type, becomes zero: its deviation would be rounding
    /// alone. [`centred`](Dataset::centred) divides by one number instead, as suits images. Fails: `Shape` unless samples
    /// have one shape and both sets have some, `Data` for a number that is not finite.
    ///
    /// ```
    /// use lastlayer::prelude::*;
    /// let (train, test) = load::bundled("iris", &Device::Cpu)?.split(0.8, Seed::new(1))?;
    /// let (train, test) = (train.standardised(&train)?, test.standardised(&train)?);
    /// assert!(train.x.mean(0)?.abs()?.max(0)?.to_scalar::<f32>()? < 1e-6);
    /// assert!((train.x.sqr()?.mean_all()?.to_scalar::<f32>()? - 1.0).abs() < 1e-5);
    /// assert_eq!(test.x.dtype(), DType::F32);
    /// # Ok::<(), lastlayer::error::Error>(())
    /// ```
    pub fn standardised(&self, on: &Dataset) -> Result<Dataset> {
        ensure_shape("samples to be standardised", &on.x.dims()[1..], &self.x.dims()[1..])?;
        if let Some(set) = [self, on].into_iter().find(|set| set.x.elem_count() == 0) {
            return Err(Error::shape(format!("x of {}", set.names.set), "at least one sample", "none"));
        }
        check_finite(&on.names.set, "x", &on.x)?;
        let (theirs, ours) = (on.inputs()?, self.inputs()?);
        let digit = if theirs.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let theirs = theirs.to_dtype(DType::F64)?;
        let (least, most) = (theirs.min_keepdim(0)?, theirs.max_keepdim(0)?);
        let varies = (&most - &least)?.gt(&(least.abs()?.maximum(&most.abs()?)? * digit)?)?;
        let mean = theirs.mean_keepdim(0)?;
        let deviation = theirs.broadcast_sub(&mean)?.sqr()?.mean_keepdim(0)?.sqrt()?;
        let deviation = varies.where_cond(&deviation, &deviation.ones_like()?)?;
        let kept = varies.to_dtype(DType::F64)?;
        let x = ours.to_dtype(DType::F64)?.broadcast_sub(&mean)?.broadcast_div(&deviation)?;
        let x = x.broadcast_mul(&kept)?.to_dtype(ours.dtype())?;
        check_finite(&self.names.set, "x", &x)?;
        Ok(Dataset { x, ..self.clone() })
    }

    /// Labels as numbers. Host: n integers.
    pub fn labels(&self) -> Result<Vec<u32>> {
        Ok(self.y.to_vec1()?)
    }

    /// Samples of each class, zeros included.
    pub fn class_counts(&self) -> Result<Vec<usize>> {
        let mut counts = vec![0; self.k()];
        for label in self.labels()? {
            counts[label as usize] += 1;
        }
        Ok(counts)
    }

    /// All attributes, (n, m). Fails: `Data` if the set has none.
    ///
    /// ```
    /// use lastlayer::prelude::*;
    /// let parts = Critters::new(Preset::Plain, Seed::new(1)).tiny(&Device::Cpu)?;
    /// assert_eq!(parts.test.attributes()?.dims(), [400, parts.test.names.attributes.len()]);
    /// let bare = arcs(4, 0.0, Seed::new(1), &Device::Cpu)?;
    /// assert!(bare.attributes().is_err_and(|e| e.to_string().contains("add some with with_attributes")));
    /// # Ok::<(), lastlayer::error::Error>(())
    /// ```
    pub fn attributes(&self) -> Result<&Tensor> {
        let why = "there are no attributes; add some with with_attributes";
        self.a.as_ref().ok_or_else(|| Error::data(&self.names.set, why))
    }

    /// Column `[n]` of the attribute of this name. Fails: `Config` if there is none.
    pub fn attribute(&self, name: &str) -> Result<Tensor> {
        let (a, j) = self.attribute_column(name)?;
        Ok(a.narrow(1, j, 1)?.squeeze(1)?)
    }

    pub(crate) fn attribute_column(&self, name: &str) -> Result<(&Tensor, usize)> {
        let column = self.names.attributes.iter().position(|n| n == name);
        self.a.as_ref().zip(column).ok_or_else(|| {
            let allowed = match self.names.attributes.len() {
                0 => format!("{} has no attributes", self.names.set),
                _ => self.names.attributes.join(", "),
            };
            Error::config("attribute", name, allowed)
        })
    }

    /// Copies the set to a device.
    pub fn to_device(&self, device: &Device) -> Result<Dataset> {
        let a = self.a.as_ref().map(|a| a.to_device(device)).transpose()?;
        Ok(Dataset {
            x: self.x.to_device(device)?,
            y: self.y.to_device(device)?,
            a,
            names: self.names.clone(),
        })
    }
}

/// Images that are pooled at once.
const PIECE: usize = 1024;

/// Bytes of images as f32 in [0, 1], other numbers as they are.
pub(crate) fn numbers(x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        DType::U8 => Ok((x.to_dtype(DType::F32)? / 255.0)?),
        _ => Ok(x.clone()),
    }
}

fn strings<I: IntoIterator<Item: ToString>>(names: I) -> Vec<String> {
    names.into_iter().map(|n| n.to_string()).collect()
}

fn check_names(set: &str, what: &str, names: &[String]) -> Result<()> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(twice) => Err(Error::data(set, format!("there are two {what} names {twice:?}; rename one"))),
    }
}

/// Fails with the first row that holds a number that is not finite. Host: one number, and rows only if one is bad.
fn check_finite(set: &str, what: &str, x: &Tensor) -> Result<()> {
    if x.dtype() == DType::U8 || all_finite(x)? {
        return Ok(());
    }
    for row in 0..x.dim(0)? {
        let values: Vec<f64> = x.get(row)?.flatten_all()?.to_dtype(DType::F64)?.to_vec1()?;
        if let Some(bad) = values.iter().find(|v| !v.is_finite()) {
            let why = format!("{what} holds {bad} in sample {row}; drop such samples or fill the gaps first");
            return Err(Error::data(set, why));
        }
    }
    Ok(())
}

/// Labels as u32, each with a class. Host: n integers.
fn labels_tensor(set: &str, y: &Tensor, n: usize, classes: usize) -> Result<Tensor> {
    ensure_shape(&format!("y of {set}"), &[n][..], y.dims())?;
    if y.dtype().is_float() {
        let allowed = "integers, the number of each sample's class; convert with to_dtype(DType::U32)";
        return Err(Error::config(format!("dtype of y of {set}"), format!("{:?}", y.dtype()), allowed));
    }
    let labels: Vec<i64> = y.to_dtype(DType::I64)?.to_vec1()?;
    match labels.iter().position(|l| !(0..classes as i64).contains(l)) {
        None => Ok(y.to_dtype(DType::U32)?),
        Some(row) => {
            let why =
                format!("label {} of sample {row} has no class; {classes} are named, from 0", labels[row]);
            Err(Error::data(set, why))
        }
    }
}
