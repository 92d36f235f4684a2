//! Contact sheets of small images.

use super::canvas::{Anchor, Canvas, GRID, INK};
use super::font::wrap;
use super::geometry::Rect;
use super::panel::Theme;
use super::png::Pixels;
use super::save::Entry;
use super::series::check_some;
use super::{Chart, Figure};
use crate::error::{Error, Result, ensure_shape};

/// An image with eight bits per channel, and a line under it.
///
/// ```
/// use lastlayer::prelude::*;
/// let dot = Image::grey(3, 3, &[0, 0, 0, 0, 255, 0, 0, 0, 0])?.caption("a dot");
/// assert!(images(&[dot], 1)?.describe().contains("a dot"));
/// assert!(Image::rgb(1, 1, &[255, 0]).is_err()); // a pixel has three bytes
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
    caption: String,
}

impl Image {
    /// Grey image from `width * height` bytes, row by row from the top.
    pub fn grey(width: usize, height: usize, bytes: &[u8]) -> Result<Image> {
        check_sides(width, height)?;
        ensure_shape("bytes of a grey image", width * height, bytes.len())?;
        Image::rgb(width, height, &bytes.iter().flat_map(|b| [*b; 3]).collect::<Vec<u8>>())
    }

    /// Colour image from `3 * width * height` bytes (red, green, blue), row by row from the top.
    ///
    /// Fails: `Shape` if the bytes do not match the size, `Config` if a side is not in 1 to 1024.
    pub fn rgb(width: usize, height: usize, bytes: &[u8]) -> Result<Image> {
        check_sides(width, height)?;
        ensure_shape("bytes of a colour image", 3 * width * height, bytes.len())?;
        Ok(Image { width, height, rgb: bytes.to_vec(), caption: String::new() })
    }

    /// Sets the line under the image.
    pub fn caption(mut self, text: &str) -> Image {
        self.caption = text.to_string();
        self
    }

    pub(super) fn pixels(&self) -> Pixels {
        Pixels { width: self.width, height: self.height, rgb: self.rgb.clone() }
    }
}

fn check_sides(width: usize, height: usize) -> Result<()> {
    if (1..=1024).contains(&width) && (1..=1024).contains(&height) {
        return Ok(());
    }
    Err(Error::config("size of an image", format!("{width} by {height}"), "sides of 1 to 1024 pixels"))
}

/// Contact sheet: images side by side, pixels kept sharp, captions under them.
///
/// The width is the figure's; the height follows from the images. On a page too narrow for that many columns there
/// are fewer.
/// Fails: `Shape` if there is no image, `Config` if `columns` is zero or there are more than 1000 images.
///
/// ```
/// use lastlayer::prelude::*;
/// let shade = |level: u8| Image::grey(2, 2, &[level; 4]).map(|image| image.caption(&level.to_string()));
/// let sheet = images(&[shade(0)?, shade(128)?, shade(255)?], 3)?;
/// assert_eq!(sheet.describe(), "Contact sheet: 3 images in 3 columns: 0, 128, 255.");
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn images(list: &[Image], columns: usize) -> Result<Figure> {
    check_some("images", list)?;
    if columns == 0 || list.len() > 1000 {
        let got = format!("{} images in {columns} columns", list.len());
        return Err(Error::config("contact sheet", got, "at least one column and at most 1000 images"));
    }
    Ok(Figure::new(Chart::Images(Sheet { images: list.to_vec(), columns: columns.min(list.len()) })))
}

/// Images in rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sheet {
    pub images: Vec<Image>,
    columns: usize,
}

/// Between tiles.
const GAP: f64 = 4.0;
/// Narrower tiles show nothing; a sheet then has fewer columns.
const SMALLEST: f64 = 12.0;
/// One large image does not fill the page.
const TALLEST: f64 = 380.0;

/// A caption under its tile, in at most three lines.
fn caption_lines(caption: &str, width: f64, theme: &Theme) -> Vec<String> {
    wrap(caption, theme.text, width).into_iter().take(3).collect()
}

impl Sheet {
    /// Columns that fit with tiles one can see.
    fn fitting(&self, width: f64) -> usize {
        self.columns.min(((width + GAP) / (SMALLEST + GAP)) as usize).max(1)
    }

    /// Width and height of a tile, and the height of a row with its captions.
    fn tile(&self, width: f64, theme: &Theme) -> (f64, f64, f64) {
        let aspect = self.images.iter().map(|i| i.height as f64 / i.width as f64).fold(0.0, f64::max);
        let columns = self.fitting(width) as f64;
        let tile = ((width - GAP * (columns - 1.0)) / columns).min(TALLEST / aspect);
        let lines =
            self.images.iter().map(|i| caption_lines(&i.caption, tile, theme).len()).max().unwrap_or(0);
        (
            tile,
            tile * aspect,
            tile * aspect + if lines > 0 { 0.2 + lines as f64 * 1.15 } else { 0.0 } * theme.text,
        )
    }

    /// Height that a sheet of this width needs.
    pub fn height(&self, width: f64, theme: &Theme) -> f64 {
        let rows = self.images.len().div_ceil(self.fitting(width)) as f64;
        rows * (self.tile(width, theme).2 + GAP) - GAP
    }

    pub fn draw(&self, canvas: &mut Canvas, outer: Rect, theme: &Theme) {
        let (width, height, row) = self.tile(outer.width(), theme);
        let columns = self.fitting(outer.width());
        let used = columns as f64 * (width + GAP) - GAP;
        let start = outer.left + (outer.width() - used).max(0.0) / 2.0;
        for (i, image) in self.images.iter().enumerate() {
            let left = start + (i % columns) as f64 * (width + GAP);
            let top = outer.top + (i / columns) as f64 * (row + GAP);
            // An image of another shape keeps its own, centred in the tile.
            let aspect = image.height as f64 / image.width as f64;
            let (w, h) =
                if aspect * width > height { (height / aspect, height) } else { (width, width * aspect) };
            let (left, right) = (left + (width - w) / 2.0, left + (width + w) / 2.0);
            let area = Rect { left, right, top: top + (height - h) / 2.0, bottom: top + (height + h) / 2.0 };
            canvas.image(&image.pixels(), area, false);
            canvas.outline(area, GRID, 0.5);
            for (j, text) in caption_lines(&image.caption, width, theme).iter().enumerate() {
                let at = ((left + right) / 2.0, top + height + (1.0 + 1.15 * j as f64) * theme.text);
                canvas.text(text, at, Anchor::Middle, theme.text, INK);
            }
        }
    }

    pub fn describe(&self) -> String {
        let captions: Vec<&str> =
            self.images.iter().map(|i| i.caption.as_str()).filter(|c| !c.is_empty()).collect();
        let named = if captions.is_empty() { String::new() } else { format!(": {}", captions.join(", ")) };
        format!("{} images in {} columns{named}", self.images.len(), self.columns)
    }

    pub fn names(&self) -> Vec<(String, usize)> {
        self.images.iter().map(|i| (i.caption.clone(), i.width * i.height)).collect()
    }

    pub fn rows(&self, emit: &mut dyn FnMut(&[Entry])) {
        for (n, image) in self.images.iter().enumerate() {
            for (i, p) in image.rgb.chunks_exact(3).enumerate() {
                let place = [n, i / image.width, i % image.width].map(Entry::Count);
                let color = [p[0], p[1], p[2]].map(|c| Entry::Count(usize::from(c)));
                let caption = Entry::Text(&image.caption);
                emit(&[place[0], caption, place[1], place[2], color[0], color[1], color[2]]);
            }
        }
    }
}
