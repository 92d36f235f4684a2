//! Matrices and fields in colour.

use ndarray::Array2;

use super::axis::{Axis, Scale, Span, number, short};
use super::canvas::{Anchor, Canvas, INK, Rgb, WHITE, cividis};
use super::font::{CAP, fit, text_width};
use super::geometry::{Point, Rect, clip_line, contour};
use super::lines::{draw_points, points_legend};
use super::panel::{
    COLOR_BAR, Theme, below, color_bar, color_bar_room, contrast, frame, name_across, name_up,
};
use super::png::Pixels;
use super::save::Entry;
use super::series::{Points, check_numbers, extent};
use super::{Chart, Figure, checked_range};
use crate::error::{Error, Result, ensure_shape};

/// Most cells drawn as vector rectangles; a larger matrix is one image, or the SVG would be huge.
const MOST_CELLS: usize = 4096;
/// Beyond this a matrix has more cells than any page has dots.
const MOST_VALUES: usize = 1_000_000;
/// Samples of a field across and upwards: a third of a pixel column of print each.
const SAMPLES: (usize, usize) = (121, 81);

/// Matrix in colour, first row on top, with named rows and columns and a colour bar.
///
/// `figure.annotate(decimals)` writes the values into the cells.
/// Fails: `Shape` if the matrix is empty or the names do not match it, `Config` if a value is not finite or there are
/// more than a million.
///
/// ```
/// use lastlayer::prelude::*;
/// let counts = ndarray::array![[48.0, 2.0], [5.0, 45.0]];
/// let figure = heat(&counts, &["cat", "dog"], &["cat", "dog"])?.annotate(0)?.labels("predicted", "true");
/// assert!(figure.describe().contains("from 2 at row cat, column dog to 48 at row cat, column cat"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn heat<R: AsRef<str>, C: AsRef<str>>(values: &Array2<f64>, rows: &[R], columns: &[C]) -> Result<Figure> {
    if values.len() > MOST_VALUES {
        let got = format!("{} by {} cells", values.nrows(), values.ncols());
        return Err(Error::config("matrix", got, "at most a million cells; average blocks of it first"));
    }
    let cells: Vec<f64> = values.iter().copied().collect();
    check_numbers("matrix", &cells)?;
    ensure_shape("names of the rows", values.nrows(), rows.len())?;
    ensure_shape("names of the columns", values.ncols(), columns.len())?;
    let rows = rows.iter().map(|name| name.as_ref().to_string()).collect();
    let columns = columns.iter().map(|name| name.as_ref().to_string()).collect();
    let marks = Vec::new();
    Ok(Figure::new(Chart::Heat(Heat { cells, rows, columns, decimals: None, marks })))
}

/// Function of the plane in colour, sampled at 121 by 81 places.
///
/// `figure.levels(..)` adds contour lines, `figure.points(..)` points on top: together a decision boundary.
/// Fails: `Config` if a range is empty or the function is not finite somewhere.
///
/// ```
/// use lastlayer::prelude::*;
/// let start = Points::new("start", &[0.9], &[-0.9]);
/// let bowl = field(|x, y| x * x + y * y, (-1.0, 1.0), (-1.0, 1.0))?.levels(&[0.5, 1.0])?.points(&[start])?;
/// assert!(bowl.describe().starts_with("Field: from 0 to 2, contour lines at 0.5, 1; points: start"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn field(f: impl Fn(f64, f64) -> f64, x: (f64, f64), y: (f64, f64)) -> Result<Figure> {
    let place = |(low, high): (f64, f64), i: usize, n: usize| low + (high - low) * i as f64 / (n - 1) as f64;
    let (columns, rows) = SAMPLES;
    field_grid(
        &Array2::from_shape_fn((rows, columns), |(r, c)| f(place(x, c, columns), place(y, r, rows))),
        x,
        y,
    )
}

/// Field from its values on a regular grid: row `i`, column `j` is the value at the i-th y and the j-th x, both
/// rising and with the ends of the ranges included.
///
/// Fails: as [`field`], and `Shape` if the grid has fewer than two rows or columns.
///
/// ```
/// use lastlayer::prelude::*;
/// // Two rows from y = 0 to y = 1, three columns from x = 0 to x = 2.
/// let values = ndarray::array![[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]];
/// let figure = field_grid(&values, (0.0, 2.0), (0.0, 1.0))?.labels("x", "y");
/// assert!(figure.csv().ends_with("2.0,1.0,3.0\n"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn field_grid(values: &Array2<f64>, x: (f64, f64), y: (f64, f64)) -> Result<Figure> {
    for (name, (low, high)) in [("x", x), ("y", y)] {
        checked_range(&format!("{name} of the field"), low, high, Scale::Linear)?;
    }
    if values.nrows() < 2 || values.ncols() < 2 {
        return Err(Error::shape(
            "values of the field",
            "at least 2 rows and 2 columns",
            format!("{:?}", values.dim()),
        ));
    }
    let cells: Vec<f64> = values.iter().copied().collect();
    check_numbers("values of the field", &cells)?;
    let columns = values.ncols();
    let surface = Surface { cells, columns, x, y, levels: Vec::new(), points: Vec::new() };
    Ok(Figure::new(Chart::Field(surface)))
}

/// Matrix with names.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Heat {
    cells: Vec<f64>,
    rows: Vec<String>,
    columns: Vec<String>,
    pub decimals: Option<usize>,
    /// Cells with a dot, row by row.
    marks: Vec<usize>,
}

/// Samples of a function of the plane, lowest row first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Surface {
    cells: Vec<f64>,
    columns: usize,
    x: (f64, f64),
    y: (f64, f64),
    pub levels: Vec<f64>,
    pub points: Vec<Points>,
}

impl Heat {
    pub fn mark(&mut self, marks: &Array2<bool>) -> Result<()> {
        ensure_shape("marks of a heat map", &[self.rows.len(), self.columns.len()][..], marks.shape())?;
        self.marks = marks.iter().enumerate().filter(|(_, mark)| **mark).map(|(i, _)| i).collect();
        Ok(())
    }

    pub fn draw(&self, canvas: &mut Canvas, outer: Rect, theme: &Theme, [x, y]: [&Axis; 2]) {
        let size = theme.text;
        let span = Span::over(&Axis::default(), extent(self.cells.iter()), 0.0);
        let (bar, above) = color_bar_room(&span, outer.height() - below(size, true), theme);
        let widest = |names: &[String]| names.iter().map(|n| text_width(n, size)).fold(0.0, f64::max);
        let row_width = widest(&self.rows).min(0.3 * outer.width());
        let named = |axis: &Axis| if axis.label.is_empty() { 0.0 } else { 1.4 * size };
        let mut area = Rect {
            left: outer.left + named(y) + row_width + 5.0,
            top: outer.top + above.max(0.5 * size),
            right: outer.right - bar - 8.0,
            bottom: outer.bottom - named(x) - 5.0,
        };
        let (rows, columns) = (self.rows.len() as f64, self.columns.len() as f64);
        let column = area.width() / columns;
        // Names of the columns stand up when they do not fit side by side.
        let upright = widest(&self.columns) + 0.5 * size > column;
        let column_height = widest(&self.columns).min(0.4 * outer.height());
        area.bottom -= if upright { column_height + 2.0 } else { 1.1 * size };
        let row = area.height() / rows;
        self.draw_cells(canvas, area, &span);
        if let Some(decimals) = self.decimals {
            self.annotate(canvas, area, theme, &span, decimals);
        }
        for i in &self.marks {
            let (r, c) = (i / self.columns.len(), i % self.columns.len());
            let at = (area.left + (c as f64 + 0.5) * column, area.top + (r as f64 + 0.5) * row);
            canvas.marker(0, at, theme.marker.min(0.3 * row), contrast(span.part(self.cells[*i])), false);
        }
        let sparse = |room: f64| (size / room).ceil().max(1.0) as usize;
        for (i, name) in self.rows.iter().enumerate().step_by(sparse(row)) {
            let at = (area.left - 4.0, area.top + (i as f64 + 0.5) * row);
            canvas.text_middle(&fit(name, size, row_width), at, Anchor::End, size, INK);
        }
        for (i, name) in self.columns.iter().enumerate().step_by(if upright { sparse(column) } else { 1 }) {
            let middle = area.left + (i as f64 + 0.5) * column;
            if upright {
                let at = (middle + CAP * size / 2.0, area.bottom + 4.0);
                canvas.text_up(&fit(name, size, column_height), at, Anchor::End, size, INK);
            } else {
                canvas.text(name, (middle, area.bottom + 4.0 + CAP * size), Anchor::Middle, size, INK);
            }
        }
        name_up(canvas, outer, area, theme, &y.label);
        name_across(canvas, outer, area, theme, &x.label);
        let left = area.right + 8.0;
        color_bar(canvas, Rect { left, right: left + COLOR_BAR, ..area }, theme, &span, &[]);
    }

    fn draw_cells(&self, canvas: &mut Canvas, area: Rect, span: &Span) {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        if self.cells.len() > MOST_CELLS {
            let rgb = self.cells.iter().flat_map(|v| bytes(cividis(span.part(*v)))).collect();
            return canvas.image(&Pixels { width: columns, height: rows, rgb }, area, false);
        }
        let (column, row) = (area.width() / columns as f64, area.height() / rows as f64);
        for (i, value) in self.cells.iter().enumerate() {
            let (r, c) = (i / columns, i % columns);
            let (left, top) = (area.left + c as f64 * column, area.top + r as f64 * row);
            // Overlap hides the seams that antialiasing leaves between neighbours.
            let (right, bottom) = ((left + column + 0.4).min(area.right), (top + row + 0.4).min(area.bottom));
            canvas.rect(Rect { left, top, right, bottom }, cividis(span.part(*value)), 1.0);
        }
    }

    /// Writes the values into the cells, if all of them fit; numbers that touch would be worse than none.
    fn annotate(&self, canvas: &mut Canvas, area: Rect, theme: &Theme, span: &Span, decimals: usize) {
        let columns = self.columns.len();
        let (column, row) = (area.width() / columns as f64, area.height() / self.rows.len() as f64);
        let texts: Vec<String> = self.cells.iter().map(|v| number(*v, decimals)).collect();
        let widest = |size: f64| texts.iter().map(|t| text_width(t, size)).fold(0.0, f64::max);
        let fits = |size: &&f64| widest(**size) + 3.0 <= column && 1.1 * **size <= row;
        let Some(size) = [theme.text, 0.85 * theme.text, 0.7 * theme.text].iter().find(fits).copied() else {
            return;
        };
        for (i, text) in texts.iter().enumerate() {
            let at = (
                area.left + ((i % columns) as f64 + 0.5) * column,
                area.top + ((i / columns) as f64 + 0.5) * row,
            );
            canvas.text_middle(text, at, Anchor::Middle, size, contrast(span.part(self.cells[i])));
        }
    }

    pub fn describe(&self) -> String {
        let (low, high) = extent(self.cells.iter());
        let place = |value: f64| {
            let i = self.cells.iter().position(|v| *v == value).unwrap_or_default();
            format!(
                "row {}, column {}",
                self.rows[i / self.columns.len()],
                self.columns[i % self.columns.len()]
            )
        };
        let (rows, columns) = (self.rows.len(), self.columns.len());
        let (least, most) =
            (format!("{} at {}", short(low), place(low)), format!("{} at {}", short(high), place(high)));
        format!("{rows} rows and {columns} columns, from {least} to {most}")
    }

    pub fn names(&self) -> Vec<(String, usize)> {
        self.rows.iter().map(|name| (name.clone(), self.columns.len())).collect()
    }

    pub fn rows(&self, emit: &mut dyn FnMut(&[Entry])) {
        for (i, value) in self.cells.iter().enumerate() {
            let (row, column) = (&self.rows[i / self.columns.len()], &self.columns[i % self.columns.len()]);
            emit(&[Entry::Text(row), Entry::Text(column), Entry::Number(*value)]);
        }
    }
}

impl Surface {
    pub fn draw(&self, canvas: &mut Canvas, outer: Rect, theme: &Theme, [x, y]: [&Axis; 2], keyed: bool) {
        let keyed = keyed && self.points.len() > 1;
        let outer = if keyed { points_legend(canvas, outer, theme, &self.points) } else { outer };
        let span = Span::over(&Axis::default(), extent(self.cells.iter()), 0.0);
        let (bar, above) = color_bar_room(&span, outer.height() - below(theme.text, true), theme);
        let panel = Rect { top: outer.top + above, ..outer };
        let over = |(low, high): (f64, f64)| Span { scale: Scale::Linear, low, high };
        let frame = frame(canvas, panel, theme, (x, over(self.x)), (y, over(self.y)), bar + 8.0, false);
        let area = frame.area;
        canvas.image(&self.pixels(area, &span), area, true);
        let rows = self.cells.len() / self.columns;
        let (column, row) = (area.width() / (self.columns - 1) as f64, area.height() / (rows - 1) as f64);
        for level in &self.levels {
            for line in contour(&self.cells, self.columns, *level) {
                let line: Vec<Point> =
                    line.iter().map(|(c, r)| (area.left + c * column, area.bottom - r * row)).collect();
                for part in clip_line(&line, area) {
                    canvas.line(&part, WHITE, 2.2 * theme.line);
                    canvas.line(&part, INK, theme.line);
                }
            }
        }
        draw_points(canvas, &frame, theme, &self.points, true);
        let left = area.right + 8.0;
        color_bar(canvas, Rect { left, right: left + COLOR_BAR, ..area }, theme, &span, &self.levels);
    }

    /// The field at every second pixel of the area, between the samples by bilinear interpolation; the viewer
    /// smooths the rest, and the file stays small.
    fn pixels(&self, area: Rect, span: &Span) -> Pixels {
        let (width, height) =
            ((area.width() / 2.0).max(2.0) as usize, (area.height() / 2.0).max(2.0) as usize);
        let rows = self.cells.len() / self.columns;
        let mut rgb = Vec::with_capacity(3 * width * height);
        let place = |i: usize, pixels: usize, samples: usize| {
            let at = ((i as f64 + 0.5) / pixels as f64 * (samples - 1) as f64).min((samples - 1) as f64);
            let below = (at as usize).min(samples - 2);
            (below, at - below as f64)
        };
        for py in (0..height).rev() {
            let (r, v) = place(py, height, rows);
            for px in 0..width {
                let (c, u) = place(px, width, self.columns);
                let at = |c: usize, r: usize| self.cells[r * self.columns + c];
                let low = at(c, r) * (1.0 - u) + at(c + 1, r) * u;
                let high = at(c, r + 1) * (1.0 - u) + at(c + 1, r + 1) * u;
                // 128 shades look continuous and leave runs that compress.
                let part = span.part(low * (1.0 - v) + high * v);
                rgb.extend(bytes(cividis((part * 127.0).round() / 127.0)));
            }
        }
        Pixels { width, height, rgb }
    }

    pub fn describe(&self) -> String {
        let (low, high) = extent(self.cells.iter());
        let mut text = format!("from {} to {}", short(low), short(high));
        if !self.levels.is_empty() {
            let levels: Vec<String> = self.levels.iter().map(|l| short(*l)).collect();
            text.push_str(&format!(", contour lines at {}", levels.join(", ")));
        }
        if !self.points.is_empty() {
            text.push_str(&format!("; points: {}", super::lines::describe_points(&self.points)));
        }
        text
    }

    pub fn rows(&self, emit: &mut dyn FnMut(&[Entry])) {
        let rows = self.cells.len() / self.columns;
        let place =
            |(low, high): (f64, f64), i: usize, n: usize| low + (high - low) * i as f64 / (n - 1) as f64;
        for (i, value) in self.cells.iter().enumerate() {
            let (x, y) =
                (place(self.x, i % self.columns, self.columns), place(self.y, i / self.columns, rows));
            emit(&[Entry::Text("field"), Entry::Number(x), Entry::Number(y), Entry::Number(*value)]);
        }
        for points in &self.points {
            for (x, y) in points.x.iter().zip(&points.y) {
                emit(&[Entry::Text(&points.name), Entry::Number(*x), Entry::Number(*y), Entry::Empty]);
            }
        }
    }
}

fn bytes((r, g, b): Rgb) -> [u8; 3] {
    [r, g, b]
}
