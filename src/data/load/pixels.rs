//! One image: decoded within bounds, cropped, and resized by area.

use std::path::Path;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::read::Source;
use crate::error::{Error, Result};

/// Most pixels of one image: above any camera's, below what a forged header would like us to allocate.
const MOST_PIXELS: usize = 1 << 26;
const MOST_SIDE: usize = 1 << 15;

/// Largest side that images are resized to.
pub(crate) const MOST_SIZE: usize = 1024;

/// Which part of an image is kept before it is resized to a square.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(folder.path().join("wide")).unwrap();
/// # let file = std::fs::File::create(folder.path().join("wide/1.png")).unwrap();
/// # png::Encoder::new(file, 3, 1).write_header().unwrap().write_image_data(&[0, 90, 240]).unwrap();
/// // `folder` holds one image of three pixels in a row: 0, 90, 240.
/// let shade = |crop| {
///     let options = load::ImageFolder { size: 1, crop, ..load::ImageFolder::default() };
///     Ok::<_, Error>(load::image_folder(&folder, &options, &Device::Cpu)?.x.flatten_all()?.to_vec1::<u8>()?[0])
/// };
/// assert_eq!((shade(load::Crop::Center)?, shade(load::Crop::Whole)?), (90, 110));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crop {
    /// The largest square in the middle.
    #[default]
    Center,
    /// A square of this side in the middle, in pixels of the file; the largest one if the image is smaller.
    CenterOf(usize),
    /// All of it, stretched to a square.
    Whole,
}

/// Part of an image, in pixels; always inside and never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub left: usize,
    pub top: usize,
    pub width: usize,
    pub height: usize,
}

impl Crop {
    pub(crate) fn region(self, width: usize, height: usize) -> Region {
        let largest = width.min(height);
        let side = match self {
            Crop::Center => largest,
            Crop::CenterOf(side) => side.clamp(1, largest),
            Crop::Whole => return Region { left: 0, top: 0, width, height },
        };
        Region { left: (width - side) / 2, top: (height - side) / 2, width: side, height: side }
    }
}

/// An image of three channels, row by row, the channels of a pixel together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rgb {
    pub width: usize,
    pub height: usize,
    pub values: Vec<u8>,
}

impl Rgb {
    /// Image of a JPEG or PNG file, told apart by content. Grey becomes RGB, transparency is laid over white.
    pub(crate) fn read(source: &Source, path: &Path) -> Result<Rgb> {
        let bytes = source.bytes(path)?;
        let image = match bytes.as_slice() {
            [0xff, 0xd8, ..] => jpeg(&bytes),
            [0x89, b'P', b'N', b'G', ..] => png(&bytes),
            _ => Err("is neither JPEG nor PNG".to_string()),
        };
        image
            .map_err(|why| source.data(path, format!("cannot be decoded: {why}; replace or remove the file")))
    }

    /// The region, resized to `size` × `size`, as three planes written to `out`.
    ///
    /// Each axis is shrunk by averaging over the area that an output pixel covers, or enlarged by linear interpolation
    /// between pixel centres.
    pub(crate) fn resize_into(&self, region: Region, size: usize, out: &mut [u8]) {
        let columns = taps(region.width, size);
        let rows = taps(region.height, size);
        // Rows first narrowed, then averaged: `narrow` is [region.height, size, 3].
        let mut narrow = Vec::with_capacity(region.height * size * 3);
        for y in region.top..region.top + region.height {
            let row = &self.values[(y * self.width + region.left) * 3..];
            for (first, weights) in &columns {
                for channel in 0..3 {
                    let value = |i: usize| f32::from(row[(first + i) * 3 + channel]);
                    narrow.push(weights.iter().enumerate().map(|(i, w)| w * value(i)).sum::<f32>());
                }
            }
        }
        for (y, (first, weights)) in rows.iter().enumerate() {
            for x in 0..size {
                for channel in 0..3 {
                    let value = |i: usize| narrow[((first + i) * size + x) * 3 + channel];
                    let sum = weights.iter().enumerate().map(|(i, w)| w * value(i)).sum::<f32>();
                    // The cast saturates, so rounding cannot wrap.
                    out[(channel * size + y) * size + x] = sum.round() as u8;
                }
            }
        }
    }
}

/// For each output position along an axis, the first input position and the weights from there on; they sum to one.
fn taps(from: usize, to: usize) -> Vec<(usize, Vec<f32>)> {
    let scale = from as f64 / to as f64;
    let tap = |i: usize| {
        if to <= from {
            let (start, end) = (i as f64 * scale, (i + 1) as f64 * scale);
            let first = start.floor() as usize;
            let last = (end.ceil() as usize).clamp(first + 1, from);
            let cover = |j: usize| (end.min((j + 1) as f64) - start.max(j as f64)).max(0.0) / scale;
            return (first, (first..last).map(|j| cover(j) as f32).collect());
        }
        let centre = ((i as f64 + 0.5) * scale - 0.5).clamp(0.0, (from - 1) as f64);
        let first = (centre.floor() as usize).min(from.saturating_sub(2));
        let second = (centre - first as f64) as f32;
        (first, if from == 1 { vec![1.0] } else { vec![1.0 - second, second] })
    };
    (0..to).map(tap).collect()
}

/// Fails unless the size of a decoded image can be had.
pub(crate) fn check_size(size: usize) -> Result<()> {
    if (1..=MOST_SIZE).contains(&size) {
        return Ok(());
    }
    Err(Error::config("size of images", size, format!("1 to {MOST_SIZE} pixels")))
}

fn bounded(width: usize, height: usize) -> Result<(), String> {
    if width == 0 || height == 0 {
        return Err(format!("it declares {width} × {height} pixels"));
    }
    if width > MOST_SIDE || height > MOST_SIDE || width * height > MOST_PIXELS {
        return Err(format!("it declares {width} × {height} pixels, and at most {MOST_PIXELS} are read"));
    }
    Ok(())
}

fn jpeg(bytes: &[u8]) -> Result<Rgb, String> {
    // Strict, because a lenient decoder fills the lost part of a truncated file with grey and says nothing.
    let options = DecoderOptions::new_safe()
        .set_strict_mode(true)
        .set_max_width(MOST_SIDE)
        .set_max_height(MOST_SIDE)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|e| e.to_string())?;
    let (width, height) = decoder.dimensions().ok_or("it declares no size")?;
    bounded(width, height)?;
    let values = decoder.decode().map_err(|e| e.to_string())?;
    if values.len() != width * height * 3 {
        return Err(format!("{} values for {width} × {height} pixels of three channels", values.len()));
    }
    Ok(Rgb { width, height, values })
}

fn png(bytes: &[u8]) -> Result<Rgb, String> {
    let limits = png::Limits { bytes: MOST_PIXELS * 8 };
    let mut decoder = png::Decoder::new_with_limits(std::io::Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let header = decoder.read_header_info().map_err(|e| e.to_string())?;
    let (width, height) = (header.width as usize, header.height as usize);
    bounded(width, height)?;
    let mut reader = decoder.read_info().map_err(|e| e.to_string())?;
    let mut values = vec![0; reader.output_buffer_size().ok_or("it is too large")?];
    let info = reader.next_frame(&mut values).map_err(|e| e.to_string())?;
    values.truncate(info.buffer_size());
    let over_white = |value: u8, alpha: u8| {
        let alpha = u32::from(alpha);
        ((u32::from(value) * alpha + 255 * (255 - alpha) + 127) / 255) as u8
    };
    let values: Vec<u8> = match info.color_type {
        png::ColorType::Rgb => values,
        png::ColorType::Grayscale => values.iter().flat_map(|v| [*v; 3]).collect(),
        png::ColorType::GrayscaleAlpha => {
            values.chunks_exact(2).flat_map(|p| [over_white(p[0], p[1]); 3]).collect()
        }
        png::ColorType::Rgba => {
            values.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]].map(|v| over_white(v, p[3]))).collect()
        }
        png::ColorType::Indexed => return Err("its palette is missing".to_string()),
    };
    if values.len() != width * height * 3 {
        return Err(format!("{} values for {width} × {height} pixels of three channels", values.len()));
    }
    Ok(Rgb { width, height, values })
}
