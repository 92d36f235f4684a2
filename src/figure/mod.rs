//! Figures for notebooks and papers: one style, vector output, and the numbers behind every picture.
//!
//! ```text
//! series ──▶ curves | scatter | bars | heat | hist | images | field | tree ──▶ Figure ──▶ svg | display | save
//!                                   grid of figures, frames of figures ─────▲
//! ```
//! Everything that can fail fails when a figure is built or saved; showing one cannot.
//!
//! ```
//! use lastlayer::prelude::*;
//! let x: Vec<f64> = (0..50).map(|i| i as f64 / 10.0).collect();
//! let falling: Vec<f64> = x.iter().map(|x| (-x).exp()).collect();
//! let figure = curves(&[Curve::new("ours", &x, &falling).method()])?.labels("epoch", "loss").log_y()?;
//! assert!(figure.svg().starts_with("<svg"));
//! assert!(figure.describe().starts_with("Curves of loss (logarithmic) over epoch: ours (50 points"));
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

mod axis;
mod bars;
mod canvas;
mod font;
mod geometry;
mod heat;
mod images;
mod lines;
mod page;
mod panel;
mod png;
mod save;
mod series;
mod tree;
mod turns;

use ndarray::Array2;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::record::Record;
use crate::seed::Seed;
use axis::{Axis, Scale};
use page::letter;
use panel::Theme;
use series::check_numbers;

pub use bars::bars;
pub use font::text_width;
pub use heat::{field, field_grid, heat};
pub use images::{Image, images};
pub use lines::{curves, hist, scatter};
pub use series::{Bars, Curve, Points};
pub use tree::{Branch, tree};

/// Where a figure will be read.
///
/// ```
/// use lastlayer::prelude::*;
/// assert_eq!(Size::Column.inches(), (3.39, 2.10));
/// let line = curves(&[Curve::new("a", &[0.0, 1.0], &[1.0, 2.0])])?;
/// // A figure for a column of a paper, and one that spans both.
/// assert!(line.clone().size(Size::Column).latex("line").starts_with("\\begin{figure}"));
/// assert!(line.size(Size::TwoColumn).latex("line").starts_with("\\begin{figure*}"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// One column of a paper: 3.39 by 2.10 inches, 8 pt text.
    Column,
    /// The full width of a paper: 6.90 by 2.60 inches, 8 pt text.
    TwoColumn,
    /// A notebook or a page of the book: 7.50 by 4.20 inches, larger text, the caption below.
    #[default]
    Screen,
}

impl Size {
    /// Width and height in inches.
    pub fn inches(self) -> (f64, f64) {
        match self {
            Size::Column => (3.39, 2.10),
            Size::TwoColumn => (6.90, 2.60),
            Size::Screen => (7.50, 4.20),
        }
    }

    fn theme(self) -> Theme {
        match self {
            Size::Column | Size::TwoColumn => Theme { text: 11.0, line: 1.2, marker: 2.5 },
            Size::Screen => Theme { text: 13.0, line: 1.6, marker: 3.2 },
        }
    }
}

/// What is drawn. Frames have the size of the whole.
#[derive(Clone, Debug, PartialEq)]
enum Chart {
    Curves(Vec<Curve>),
    Scatter(Vec<Points>),
    Bars(bars::Groups),
    Hist(lines::Hist),
    Heat(heat::Heat),
    Field(heat::Surface),
    Images(images::Sheet),
    Tree(Branch),
    Grid { panels: Vec<Figure>, columns: usize },
    Frames { list: Vec<Figure>, seconds: f64 },
}

/// Where the numbers came from, for the record beside the figure.
#[derive(Clone, Debug, Default, PartialEq)]
struct Origin {
    config: Map<String, Value>,
    results: Map<String, Value>,
    seed: Option<Seed>,
    device: Option<String>,
    seconds: Option<f64>,
}

/// A checked figure: owned data, drawn on demand, equal figures giving equal bytes.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// let figure = scatter(&[Points::new("runs", &[1.0, 10.0, 100.0], &[3.0, 2.0, 1.5])])?
///     .labels("samples", "error")
///     .log_x()?
///     .y_range(0.0, 4.0)?
///     .caption("Error against samples.")
///     .seed(Seed::new(1));
/// let saved = figure.save(&folder.path().join("error").to_string_lossy())?; // svg, csv, json, tex
/// assert!(saved.to_string().contains("error.svg"));
/// assert!(figure.annotate(2).is_err()); // only a heat map has cells to write into
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    chart: Chart,
    x: Axis,
    y: Axis,
    size: Size,
    caption: String,
    origin: Origin,
}

/// Panels (a), (b), ... in rows of `columns`; the caption of each panel follows its letter.
///
/// On a page too narrow for that many columns there are fewer. The size of the panels follows from that of the grid.
/// Fails: `Shape` without a panel, `Config` for more than 26, no column, or a grid or an animation inside a grid.
///
/// ```
/// use lastlayer::prelude::*;
/// let panel = |name: &str, slope: f64| curves(&[Curve::new(name, &[0.0, 1.0], &[0.0, slope])]);
/// let figure = grid(&[panel("flat", 0.1)?.caption("Before"), panel("steep", 3.0)?.caption("After")], 2)?;
/// assert!(figure.describe().starts_with("Panels: (a) Curves: flat"));
/// assert!(figure.csv().starts_with("panel,series,x,y")); // one table for all panels
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn grid(panels: &[Figure], columns: usize) -> Result<Figure> {
    series::check_some("panels", panels)?;
    let nested = panels.iter().find(|p| matches!(p.chart, Chart::Grid { .. } | Chart::Frames { .. }));
    if panels.len() > 26 || columns == 0 || nested.is_some() {
        let nested = nested.map_or(String::new(), |panel| format!(", one of them {}", panel.kind()));
        let got = format!("{} panels in {columns} columns{nested}", panels.len());
        let allowed = "1 to 26 panels in at least one column, none of them a grid or frames; \
                       for panels that move, make a grid per step and then frames of the grids";
        return Err(Error::config("grid", got, allowed));
    }
    let columns = columns.min(panels.len());
    Ok(Figure::new(Chart::Grid { panels: panels.to_vec(), columns }).size(Size::TwoColumn))
}

/// Figures one after the other in the same place, each for `seconds`, for ever.
///
/// The picture is one SVG that moves by itself, without a script, also inside an `<img>`. Where nothing moves (PDF, PNG,
/// viewers that do not animate) the last frame stands, so let the last one be the one to keep; a browser prints the
/// frame that it shows at that moment. Over every frame stand its number and its caption; the caption of the whole
/// stands below. The page is as large as the largest frame needs, and [`Figure::size`] of the whole sets that of all.
///
/// Labels, scales and ranges are those of each frame. Give all frames the same [`Figure::x_range`] and
/// [`Figure::y_range`]: otherwise each fits its own data, and the axes move instead of the points. Heat maps and
/// fields have the colours of their own values, as each frame's colour bar says.
/// Cost: that of all frames together in time; in bytes of the SVG what all frames show alike, a field under a path
/// that grows, counts once.
/// Fails: `Config` for fewer than 2 or more than 60 frames, for `seconds` outside 0.05 to 60, or frames inside frames.
/// Checked by `tests/figure.rs::frames_take_turns_and_only_the_last_is_seen_where_nothing_moves`.
///
/// ```
/// use lastlayer::prelude::*;
/// let step = |n: usize| {
///     let path: Vec<f64> = (0..=n).map(|i| 0.5f64.powi(i as i32)).collect();
///     let points = Points::new("path", &path, &path).joined();
///     scatter(&[points])?.caption(&format!("After {n} steps")).x_range(0.0, 1.0)?.y_range(0.0, 1.0)
/// };
/// let film = frames(&[step(1)?, step(2)?, step(3)?], 0.5)?;
/// assert!(film.describe().starts_with("Animation of 3 frames, 0.5 s each"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn frames(list: &[Figure], seconds: f64) -> Result<Figure> {
    if !(2..=60).contains(&list.len()) {
        return Err(Error::config("frames", list.len(), "2 to 60; leave some out if there are more"));
    }
    if !(0.05..=60.0).contains(&seconds) {
        return Err(Error::config("seconds per frame", seconds, "0.05 to 60"));
    }
    if let Some(i) = list.iter().position(|f| matches!(f.chart, Chart::Frames { .. })) {
        let allowed = "any other figure, a grid too; join the two lists of frames";
        return Err(Error::config(format!("frame {}", i + 1), "frames again", allowed));
    }
    let wider = |a: Size, b: Size| if b.inches().0 > a.inches().0 { b } else { a };
    let size = list.iter().map(|frame| frame.size).fold(Size::Column, wider);
    Ok(Figure::new(Chart::Frames { list: list.to_vec(), seconds }).size(size))
}

impl Figure {
    fn new(chart: Chart) -> Figure {
        let (size, caption, origin) = (Size::default(), String::new(), Origin::default());
        Figure { chart, x: Axis::default(), y: Axis::default(), size, caption, origin }
    }

    /// Names the axes, with symbol and unit. Of bars, `y` is the axis of values, whichever way they lie.
    pub fn labels(mut self, x: &str, y: &str) -> Figure {
        (self.x.label, self.y.label) = (x.to_string(), y.to_string());
        self
    }

    /// Chooses where the figure will be read.
    pub fn size(mut self, size: Size) -> Figure {
        self.size = size;
        if let Chart::Frames { list, .. } = &mut self.chart {
            list.iter_mut().for_each(|frame| frame.size = size);
        }
        self
    }

    /// Says what is shown, and what a band is. Drawn on a screen, and over a panel or a frame; in print the paper has
    /// it.
    pub fn caption(mut self, text: &str) -> Figure {
        self.caption = text.to_string();
        self
    }

    /// Makes the x axis logarithmic. Fails: `Config` if a value is not positive, or for charts without such an axis.
    pub fn log_x(mut self) -> Result<Figure> {
        let bounds = match &self.chart {
            Chart::Curves(list) => lines::curve_bounds(list)[0],
            Chart::Scatter(list) => lines::point_bounds(list)[0],
            _ => return Err(self.unsuited("logarithmic x axis", "curves and scatter plots")),
        };
        check_positive("x", bounds, self.x.range)?;
        self.x.scale = Scale::Log;
        Ok(self)
    }

    /// Makes the y axis logarithmic. Fails: `Config` if a value is not positive, or for charts without such an axis.
    pub fn log_y(mut self) -> Result<Figure> {
        let bounds = match &self.chart {
            Chart::Curves(list) => lines::curve_bounds(list)[1],
            Chart::Scatter(list) => lines::point_bounds(list)[1],
            Chart::Bars(groups) => groups.bounds(),
            _ => return Err(self.unsuited("logarithmic y axis", "curves, scatter plots and bars")),
        };
        check_positive("y", bounds, self.y.range)?;
        self.y.scale = Scale::Log;
        Ok(self)
    }

    /// Shows x from `low` to `high`; what lies outside is cut off.
    pub fn x_range(mut self, low: f64, high: f64) -> Result<Figure> {
        if !matches!(self.chart, Chart::Curves(_) | Chart::Scatter(_) | Chart::Hist(_)) {
            return Err(self.unsuited("x range", "curves, scatter plots and histograms"));
        }
        self.x.range = Some(checked_range("x", low, high, self.x.scale)?);
        Ok(self)
    }

    /// Shows y from `low` to `high`; what lies outside is cut off. Of bars this is the axis of values.
    pub fn y_range(mut self, low: f64, high: f64) -> Result<Figure> {
        if !matches!(self.chart, Chart::Curves(_) | Chart::Scatter(_) | Chart::Hist(_) | Chart::Bars(_)) {
            return Err(self.unsuited("y range", "curves, scatter plots, histograms and bars"));
        }
        self.y.range = Some(checked_range("y", low, high, self.y.scale)?);
        Ok(self)
    }

    /// Writes the values into the cells of a heat map, where they fit.
    pub fn annotate(mut self, decimals: usize) -> Result<Figure> {
        match &mut self.chart {
            Chart::Heat(heat) => heat.decimals = Some(decimals.min(9)),
            _ => return Err(self.unsuited("annotation", "heat maps")),
        }
        Ok(self)
    }

    /// Puts a dot into the cells of a heat map where `marks` holds: significant ones, say.
    ///
    /// Fails: `Config` for another kind of figure, `Shape` unless there is a mark per cell.
    pub fn marks(mut self, marks: &Array2<bool>) -> Result<Figure> {
        match &mut self.chart {
            Chart::Heat(heat) => heat.mark(marks)?,
            _ => return Err(self.unsuited("marks", "heat maps")),
        }
        Ok(self)
    }

    /// Adds contour lines to a field, marked in its colour bar.
    pub fn levels(mut self, levels: &[f64]) -> Result<Figure> {
        check_numbers("levels of the contour lines", levels)?;
        match &mut self.chart {
            Chart::Field(surface) => surface.levels = levels.to_vec(),
            _ => return Err(self.unsuited("contour lines", "fields")),
        }
        Ok(self)
    }

    /// Draws points on a field; those outside its ranges are not seen.
    pub fn points(mut self, points: &[Points]) -> Result<Figure> {
        points.iter().try_for_each(Points::check)?;
        match &mut self.chart {
            Chart::Field(surface) => surface.points = points.to_vec(),
            _ => return Err(self.unsuited("points on top", "fields; use scatter for points alone")),
        }
        Ok(self)
    }

    /// Notes the seed behind the numbers.
    pub fn seed(mut self, seed: Seed) -> Figure {
        self.origin.seed = Some(seed);
        self
    }

    /// Notes a setting behind the numbers.
    pub fn config(mut self, key: &str, value: impl Into<Value>) -> Figure {
        self.origin.config.insert(key.to_string(), value.into());
        self
    }

    /// Notes the device on which the numbers were made.
    pub fn device(mut self, name: &str) -> Figure {
        self.origin.device = Some(name.to_string());
        self
    }

    /// Takes settings, results, seed, device and wall time from the record of the run that made the numbers.
    pub fn record(mut self, run: &Record) -> Figure {
        self.origin.config.extend(run.config.clone());
        self.origin.results.extend(run.results.clone());
        self.origin.seed = run.seed.or(self.origin.seed);
        self.origin.device = Some(run.provenance.device.clone());
        self.origin.seconds = Some(run.elapsed());
        self
    }

    fn unsuited(&self, what: &str, allowed: &str) -> Error {
        Error::config(what, format!("asked of {}", self.kind()), allowed)
    }

    fn kind(&self) -> &'static str {
        match self.chart {
            Chart::Curves(_) => "curves",
            Chart::Scatter(_) => "scatter",
            Chart::Bars(_) => "bars",
            Chart::Hist(_) => "hist",
            Chart::Heat(_) => "heat",
            Chart::Field(_) => "field",
            Chart::Images(_) => "images",
            Chart::Tree(_) => "tree",
            Chart::Grid { .. } => "grid",
            Chart::Frames { .. } => "frames",
        }
    }

    /// One sentence that says what the picture shows, for screen readers and diffs.
    pub fn describe(&self) -> String {
        let content = match &self.chart {
            Chart::Curves(list) => lines::describe_curves(list),
            Chart::Scatter(list) => lines::describe_points(list),
            Chart::Bars(groups) => groups.describe(),
            Chart::Hist(hist) => hist.describe(),
            Chart::Heat(heat) => heat.describe(),
            Chart::Field(surface) => surface.describe(),
            Chart::Images(sheet) => sheet.describe(),
            Chart::Tree(root) => root.describe(),
            Chart::Grid { panels, .. } => {
                let each =
                    panels.iter().enumerate().map(|(i, p)| format!("({}) {}", letter(i), p.describe()));
                // Each panel is a sentence of its own; the full stop of the last is added below.
                each.collect::<Vec<_>>().join(" ").trim_end_matches('.').to_string()
            }
            Chart::Frames { list, .. } => {
                let ends = [("first", list.first()), ("last", list.last())].into_iter();
                let each = ends.filter_map(|(which, frame)| Some((which, frame?.describe())));
                let each = each.map(|(which, text)| format!("{which}: {}", text.trim_end_matches('.')));
                each.collect::<Vec<_>>().join("; ")
            }
        };
        let axis = |axis: &Axis| match axis.scale {
            Scale::Linear => axis.label.clone(),
            Scale::Log => format!("{} (logarithmic)", axis.label).trim_start().to_string(),
        };
        let (x, y) = (axis(&self.x), axis(&self.y));
        let axes = match (x.is_empty(), y.is_empty()) {
            (true, true) => String::new(),
            (false, true) => format!(" over {x}"),
            (true, false) => format!(" of {y}"),
            (false, false) => format!(" of {y} over {x}"),
        };
        let kind = match self.chart {
            Chart::Curves(_) => "Curves",
            Chart::Scatter(_) => "Scatter plot",
            Chart::Bars(_) => "Bars",
            Chart::Hist(_) => "Histogram",
            Chart::Heat(_) => "Heat map",
            Chart::Field(_) => "Field",
            Chart::Images(_) => "Contact sheet",
            Chart::Tree(_) => "Tree",
            Chart::Grid { .. } => "Panels",
            Chart::Frames { .. } => "Animation",
        };
        let timing = match &self.chart {
            Chart::Frames { list, seconds } => format!(" of {} frames, {seconds} s each", list.len()),
            _ => String::new(),
        };
        let mut text = format!("{kind}{timing}{axes}: {content}.");
        for note in self.thinned().iter().chain([&self.caption]).filter(|n| !n.is_empty()) {
            text.push_str(&format!(" {}.", note.trim_end_matches('.')));
        }
        text
    }

    /// Shows the figure in a notebook: the picture, and the sentence for screen readers and diffs.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("image/svg+xml").text(self.svg());
        evcxr_runtime::mime_type("text/plain").text(self.describe());
    }
}

fn check_positive(name: &str, (low, _): (f64, f64), range: Option<(f64, f64)>) -> Result<()> {
    let low = range.map_or(low, |(from, _)| low.min(from));
    // Padding goes below the smallest value, and must not reach zero.
    if low > 1e-250 {
        return Ok(());
    }
    let allowed = "positive numbers on a logarithmic axis; drop or shift the others, or keep the axis linear";
    Err(Error::config(format!("smallest {name}"), low, allowed))
}

/// A range that an axis can show.
fn checked_range(name: &str, low: f64, high: f64, scale: Scale) -> Result<(f64, f64)> {
    check_numbers(&format!("{name} range"), &[low, high])?;
    let positive = scale == Scale::Linear || low > 1e-250;
    // A range of rounding errors has no ticks to tell its ends apart.
    if high - low > (1e-12 * low.abs().max(high.abs())).max(axis::SMALLEST) && positive {
        return Ok((low, high));
    }
    let allowed = "a low end below the high end, and above zero on a logarithmic axis";
    Err(Error::config(format!("{name} range"), format!("{low} to {high}"), allowed))
}
