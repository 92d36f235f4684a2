//! CelebA: faces with forty attributes, one of which is the label.

use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};

use super::images::decode;
use super::pixels::{Crop, Rgb};
use super::read::{Source, fields, inside};
use crate::data::{Dataset, Part};
use crate::error::{Error, Result};

const CELEBA: Source = Source {
    name: "CelebA",
    layout: "a folder with list_attr_celeba.txt (a count, the names, then \"000001.jpg -1 1 …\"), \
             list_eval_partition.txt (\"000001.jpg 0\", where 0 is train, 1 validation, 2 test) and \
             img_align_celeba/000001.jpg …",
    origin: "People get \"Align&Cropped Images\", \"Anno\" and \"Eval\" from mmlab.ie.cuhk.edu.hk/projects/CelebA.html; \
             `unpack` opens the images",
};

/// How [`celeba`] reads.
///
/// ```
/// use lastlayer::prelude::*;
/// let options = load::CelebA { target: "Young".into(), limit: Some(5000), ..load::CelebA::default() };
/// assert_eq!((options.size, options.crop), (64, load::Crop::Center));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CelebA {
    /// Attribute that becomes the label.
    pub target: String,
    /// Side of the images after resizing, in pixels.
    pub size: usize,
    /// Which part of the 178 × 218 pixels is kept.
    pub crop: Crop,
    /// Most images, the first in the list; all if `None`.
    pub limit: Option<usize>,
}

impl Default for CelebA {
    fn default() -> CelebA {
        CelebA { target: "Smiling".to_string(), size: 64, crop: Crop::Center, limit: None }
    }
}

/// Faces with one attribute as the label and the others as attributes.
///
/// Layout: `list_attr_celeba.txt`, `list_eval_partition.txt` and `img_align_celeba/*.jpg` in `folder`.
/// Shapes: `x` (n, 3, size, size) u8, `y` (n) with 1 where the target holds, `a` (n, 39) f32 of 0 and 1 for the other
/// attributes; classes are named "not Smiling" and "Smiling".
/// Fails: `Config` for a target that is no attribute, `Io` if a file is missing, `Data` for lists of another layout or an
/// image that cannot be decoded, which is named. People get it from mmlab.ie.cuhk.edu.hk/projects/CelebA.html.
/// Checked by `tests/load/celeba.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
/// # std::fs::create_dir(folder.path().join("img_align_celeba")).unwrap();
/// # write("list_attr_celeba.txt", b"2\nMale Smiling\n000001.jpg -1 1\n000002.jpg 1 -1\n");
/// # write("list_eval_partition.txt", b"000001.jpg 0\n000002.jpg 0\n");
/// # let mut image = Vec::new();
/// # png::Encoder::new(&mut image, 1, 1).write_header().unwrap().write_image_data(&[200]).unwrap();
/// # ["000001", "000002"].map(|name| write(&format!("img_align_celeba/{name}.jpg"), &image));
/// // `folder` holds the two lists and two faces: the first smiles, the second is male.
/// let data = load::celeba(&folder, Part::Train, &load::CelebA::default(), &Device::Cpu)?;
/// assert_eq!(data.names.classes, ["not Smiling", "Smiling"]);
/// assert_eq!((data.labels()?, data.attribute("Male")?.to_vec1::<f32>()?), (vec![1, 0], vec![0.0, 1.0]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn celeba(folder: impl AsRef<Path>, part: Part, options: &CelebA, device: &Device) -> Result<Dataset> {
    let folder = folder.as_ref();
    let (mut names, faces) = faces(folder, part, options.limit.unwrap_or(usize::MAX))?;
    let Some(target) = names.iter().position(|name| *name == options.target) else {
        let allowed = format!("one of {}", names.join(", "));
        return Err(Error::config("target of CelebA", &options.target, allowed));
    };
    names.remove(target);
    let (mut files, mut y, mut a) = (Vec::new(), Vec::new(), Vec::new());
    for mut face in faces {
        y.push(u32::from(face.attributes.remove(target)));
        a.extend(face.attributes.into_iter().map(|holds| f32::from(u8::from(holds))));
        files.push(face.file);
    }
    let region = |_, image: &Rgb| options.crop.region(image.width, image.height);
    let x = decode(&CELEBA, &files, options.size, region, device)?;
    let n = files.len();
    let classes = vec![format!("not {}", options.target), options.target.clone()];
    let data = Dataset::new(CELEBA.name, x, Tensor::from_vec(y, n, device)?, classes)?;
    if names.is_empty() {
        return Ok(data);
    }
    data.with_attributes(Tensor::from_vec(a, (n, names.len()), device)?, names)
}

/// One line of the list of attributes.
struct Face {
    file: PathBuf,
    attributes: Vec<bool>,
}

/// Names of the attributes, and the faces of a part; the two lists must go through the same files in the same order.
fn faces(folder: &Path, part: Part, limit: usize) -> Result<(Vec<String>, Vec<Face>)> {
    let path = folder.join("list_attr_celeba.txt");
    let text = CELEBA.text(&path)?;
    let mut lines = fields(&text);
    let count = lines.next().and_then(|(_, line)| line[0].parse::<usize>().ok());
    let (Some(count), Some((_, names))) = (count, lines.next()) else {
        return Err(CELEBA.line(&path, 1, "expected the number of images, then a line of names"));
    };
    let partition_path = folder.join("list_eval_partition.txt");
    let partition = CELEBA.text(&partition_path)?;
    let mut partition = fields(&partition);
    let mut faces = Vec::new();
    let mut rows = 0;
    for (line, row) in lines {
        rows += 1;
        if row.len() != 1 + names.len() {
            let why = format!("{} fields instead of a file name and {} values", row.len(), names.len());
            return Err(CELEBA.line(&path, line, why));
        }
        if part_of(&partition_path, row[0], partition.next())? != part || faces.len() >= limit {
            continue;
        }
        let Some(name) = inside(row[0]) else {
            return Err(CELEBA.line(&path, line, format!("{:?} is no file name", row[0])));
        };
        let holds = |(value, name): (&&str, &&str)| match *value {
            "1" => Ok(true),
            "-1" => Ok(false),
            other => {
                let why = format!("{name} is {other:?}, and only 1 and -1 are known");
                Err(CELEBA.line(&path, line, why))
            }
        };
        let attributes = row[1..].iter().zip(&names).map(holds).collect::<Result<_>>()?;
        faces.push(Face { file: folder.join("img_align_celeba").join(name), attributes });
    }
    if rows != count {
        let why = format!("lists {rows} images but declares {count}; is truncated");
        return Err(CELEBA.data(&path, why));
    }
    if faces.is_empty() {
        return Err(CELEBA.data(&partition_path, format!("no image is in {part:?}, or the limit is 0")));
    }
    Ok((names.into_iter().map(str::to_string).collect(), faces))
}

/// The part that a line of the partition names, if the line is about this file.
fn part_of(path: &Path, file: &str, line: Option<(usize, Vec<&str>)>) -> Result<Part> {
    let Some((line, row)) = line else {
        return Err(CELEBA.data(path, format!("ends before {file}; is truncated")));
    };
    match row[..] {
        [name, "0"] if name == file => Ok(Part::Train),
        [name, "1"] if name == file => Ok(Part::Validation),
        [name, "2"] if name == file => Ok(Part::Test),
        _ => {
            let why = format!("expected \"{file} <0, 1 or 2>\", got {:?}", row.join(" "));
            Err(CELEBA.line(path, line, why))
        }
    }
}
