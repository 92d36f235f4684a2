//! Images in folders, one folder per class.

use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use super::pixels::{Crop, Region, Rgb, check_size};
use super::read::{MOST_BYTES, Source, product};
use crate::data::Dataset;
use crate::error::{Error, Result};

const IMAGE_FOLDER: Source = Source {
    name: "An image folder",
    layout: "a folder with one sub-folder per class, each with .jpg, .jpeg or .png files, as in train/cat/0001.jpg",
    origin: "If it is an archive, `unpack` it first; if it has train and test folders, name one of them",
};

/// How [`image_folder`] reads.
///
/// ```
/// use lastlayer::prelude::*;
/// let options = load::ImageFolder { size: 16, ..load::ImageFolder::default() };
/// assert_eq!((options.crop, options.limit_per_class), (load::Crop::Center, None));
/// let error = load::image_folder("no/such/folder", &options, &Device::Cpu).unwrap_err().to_string();
/// assert!(error.contains("one sub-folder per class"), "{error}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFolder {
    /// Side of the images after resizing, in pixels.
    pub size: usize,
    /// Which part of an image is kept.
    pub crop: Crop,
    /// Most images of each class, the first by name; all if `None`.
    pub limit_per_class: Option<usize>,
}

impl Default for ImageFolder {
    fn default() -> ImageFolder {
        ImageFolder { size: 32, crop: Crop::Center, limit_per_class: None }
    }
}

/// Images of a folder with one sub-folder per class.
///
/// Layout: `<folder>/<class>/<any name>.jpg|.jpeg|.png`; classes and files in the order of their names, hidden files
/// and other endings left out, deeper folders not searched.
/// Shapes: `x` (n, 3, size, size) u8, `y` (n). Grey images become RGB, transparency is laid over white; an image is
/// cropped, then shrunk by averaging over areas or enlarged by linear interpolation. Decoded on all cores.
/// Fails: `Config` for a size of 0 or above 1024, `Io` if the folder is missing, `Data` if there is no class, a class
/// without images, or an image that cannot be decoded, which is named. Checked by `tests/load/images.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # for (class, grey) in [("night", 10), ("noon", 250)] {
/// #     std::fs::create_dir(folder.path().join(class)).unwrap();
/// #     let file = std::fs::File::create(folder.path().join(class).join("1.png")).unwrap();
/// #     png::Encoder::new(file, 1, 1).write_header().unwrap().write_image_data(&[grey]).unwrap();
/// # }
/// // `folder` holds night/1.png and noon/1.png, each of one grey pixel.
/// let options = load::ImageFolder { size: 1, ..load::ImageFolder::default() };
/// let data = load::image_folder(&folder, &options, &Device::Cpu)?;
/// assert_eq!(data.names.classes, ["night", "noon"]);
/// assert_eq!(data.x.flatten_all()?.to_vec1::<u8>()?, [10, 10, 10, 250, 250, 250]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn image_folder(folder: impl AsRef<Path>, options: &ImageFolder, device: &Device) -> Result<Dataset> {
    let folder = folder.as_ref();
    let (mut classes, mut files, mut y) = (Vec::new(), Vec::new(), Vec::new());
    for class in sorted(folder)?.into_iter().filter(|path| path.is_dir()) {
        let mut images = sorted(&class)?;
        images.retain(|path| is_image(path));
        if images.is_empty() {
            return Err(IMAGE_FOLDER.data(&class, "holds no .jpg, .jpeg or .png file"));
        }
        images.truncate(options.limit_per_class.unwrap_or(usize::MAX));
        y.extend(std::iter::repeat_n(classes.len() as u32, images.len()));
        files.append(&mut images);
        classes.push(file_name(&class));
    }
    if classes.is_empty() {
        return Err(IMAGE_FOLDER.data(folder, "holds no sub-folder, hence no class"));
    }
    if files.is_empty() {
        return Err(Error::config("limit_per_class", 0, "at least 1, or None for all"));
    }
    let region = |_, image: &Rgb| options.crop.region(image.width, image.height);
    let x = decode(&IMAGE_FOLDER, &files, options.size, region, device)?;
    let y = Tensor::from_vec(y, files.len(), device)?;
    Dataset::new(&file_name(folder), x, y, classes)
}

/// Tensor (n, 3, size, size) of image files, each cut to its region; the first file that fails is named.
pub(crate) fn decode(
    source: &Source,
    files: &[PathBuf],
    size: usize,
    region: impl Fn(usize, &Rgb) -> Region + Sync,
    device: &Device,
) -> Result<Tensor> {
    check_size(size)?;
    let too_many = || {
        let allowed = format!("what fits into {} GiB; set a limit or a smaller size", MOST_BYTES >> 30);
        Error::config("images", format!("{} of {size} × {size} pixels", files.len()), allowed)
    };
    let bytes = product(&[files.len(), 3, size, size]).filter(|bytes| *bytes as u64 <= MOST_BYTES);
    let mut x = vec![0u8; bytes.ok_or_else(too_many)?];
    let failed =
        x.par_chunks_exact_mut(3 * size * size).zip(files).enumerate().find_map_first(|(i, (out, file))| {
            match Rgb::read(source, file) {
                Ok(image) => {
                    image.resize_into(region(i, &image), size, out);
                    None
                }
                Err(error) => Some(error),
            }
        });
    match failed {
        Some(error) => Err(error),
        None => Ok(Tensor::from_vec(x, (files.len(), 3, size, size), device)?),
    }
}

/// What a folder holds, by name, without hidden files.
fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = |e| IMAGE_FOLDER.io(folder, e);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if !file_name(&path).starts_with('.') {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_else(|| "images".to_string())
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    path.is_file() && ending.is_some_and(|e| matches!(e.as_str(), "jpg" | "jpeg" | "png"))
}
