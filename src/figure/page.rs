//! A whole page: one panel, a grid of them or frames that take turns, with its notes.

use super::canvas::{self, Anchor, Canvas, INK};
use super::font;
use super::geometry::Rect;
use super::lines;
use super::panel::{self, Theme};
use super::turns;
use super::{Chart, Figure, Points, Size};

/// Pixels per inch of an SVG.
const INCH: f64 = 96.0;
/// White space around a figure, in pixels.
const MARGIN: f64 = 2.0;
/// Between the panels of a grid, in pixels.
const GUTTER: f64 = 12.0;
/// Narrower panels cannot be read; a grid then uses fewer columns.
const NARROWEST: f64 = 110.0;

/// Which of its parts a figure draws itself; the others are drawn, or decided, for several together.
#[derive(Clone, Copy)]
struct Parts {
    caption: bool,
    /// The legend of points.
    legend: bool,
    /// Names at the ends of curves, where they fit.
    ends: bool,
}

impl Figure {
    /// The picture.
    ///
    /// Cost: proportional to what is drawn, at most a few thousand marks per series.
    /// Checked by `tests/figure.rs::same_figure_same_bytes`.
    pub fn svg(&self) -> String {
        let theme = self.size.theme();
        let width = self.size.inches().0 * INCH;
        let height = self.page_height(width - 2.0 * MARGIN, &theme);
        let outer = Rect { left: MARGIN, top: MARGIN, right: width - MARGIN, bottom: height - MARGIN };
        canvas::render((width, height), &self.describe(), |canvas| {
            let parts = Parts { caption: self.size == Size::Screen, legend: true, ends: true };
            self.draw(canvas, outer, &theme, parts);
        })
    }

    /// Height of a page with room for `width` pixels between its margins.
    fn page_height(&self, width: f64, theme: &Theme) -> f64 {
        let captioned = self.size == Size::Screen;
        match &self.chart {
            Chart::Frames { list, .. } => {
                let around =
                    frame_title_height(list, width, theme) + self.notes_height(width, theme, captioned);
                let needed = list.iter().map(|frame| match frame.grows() {
                    true => around + frame.height(width, theme, false) + 2.0 * MARGIN,
                    false => frame.page_height(width, theme),
                });
                needed.fold(0.0, f64::max)
            }
            _ if self.grows() => self.height(width, theme, captioned) + 2.0 * MARGIN,
            _ => self.size.inches().1 * INCH,
        }
    }

    /// Whether the height follows from what is shown.
    fn grows(&self) -> bool {
        matches!(self.chart, Chart::Images(_) | Chart::Tree(_) | Chart::Grid { .. })
    }

    /// Lines under the panel: the caption where there is no other place for it, and what was left out.
    fn notes(&self, width: f64, theme: &Theme, captioned: bool) -> Vec<String> {
        let mut texts = if captioned { vec![self.caption.clone()] } else { Vec::new() };
        let thinned = self.thinned();
        if thinned.len() > 2 {
            texts.push(format!("{} series are thinned for drawing; the CSV has every point", thinned.len()));
        } else {
            texts.extend(thinned);
        }
        texts.iter().flat_map(|text| font::wrap(text, 0.85 * theme.text, width)).take(5).collect()
    }

    /// What was left out of the drawing, if anything.
    pub(super) fn thinned(&self) -> Vec<String> {
        match &self.chart {
            Chart::Curves(list) => lines::thinned_curves(list),
            Chart::Scatter(list) => lines::thinned_points(list),
            Chart::Field(surface) => lines::thinned_points(&surface.points),
            _ => Vec::new(),
        }
    }

    /// Height to keep free for the notes.
    fn notes_height(&self, width: f64, theme: &Theme, captioned: bool) -> f64 {
        let lines = self.notes(width, theme, captioned).len();
        if lines > 0 { lines as f64 * 1.2 * theme.text + 2.0 } else { 0.0 }
    }

    /// Height the figure takes at a width, as a panel or on its own.
    fn height(&self, width: f64, theme: &Theme, captioned: bool) -> f64 {
        let notes = self.notes_height(width, theme, captioned);
        match &self.chart {
            Chart::Images(sheet) => sheet.height(width, theme) + notes,
            Chart::Tree(root) => root.height(theme) + notes,
            Chart::Grid { panels, .. } => {
                let (columns, panel) = self.columns(width);
                let rows = panels.chunks(columns).map(|row| row_height(row, panel, theme));
                let shared = shared_points(panels);
                let legend = shared.map_or(0.0, |points| lines::points_legend_height(width, theme, points));
                legend + rows.map(|h| h + 0.6 * GUTTER).sum::<f64>() - 0.6 * GUTTER + notes
            }
            _ => (0.68 * width).clamp(120.0, 300.0) + notes,
        }
    }

    /// Columns of a grid that fit, and the width of each.
    fn columns(&self, width: f64) -> (usize, f64) {
        let Chart::Grid { columns, .. } = self.chart else { return (1, width) };
        let fitting = ((width + GUTTER) / (NARROWEST + GUTTER)).max(1.0) as usize;
        let columns = columns.min(fitting);
        (columns, (width - GUTTER * (columns - 1) as f64) / columns as f64)
    }

    /// Letter or number, and caption, over a panel or a frame, in at most three lines.
    fn title(&self, letter: &str, width: f64, theme: &Theme) -> Vec<String> {
        font::wrap(&format!("({letter}) {}", self.caption), theme.text, width).into_iter().take(3).collect()
    }

    /// Draws the title along the top of an area.
    fn draw_title(&self, canvas: &mut Canvas, area: Rect, theme: &Theme, letter: &str) {
        for (j, line) in self.title(letter, area.width(), theme).iter().enumerate() {
            let baseline = area.top + (1.0 + 1.2 * j as f64) * theme.text;
            canvas.text(line, (area.left, baseline), Anchor::Start, theme.text, INK);
        }
    }

    /// Whether all curves end where their names can stand.
    fn ends(&self) -> bool {
        match &self.chart {
            Chart::Curves(list) => lines::reach(&self.x, list),
            Chart::Grid { panels: list, .. } | Chart::Frames { list, .. } => list.iter().all(Figure::ends),
            _ => true,
        }
    }

    fn draw(&self, canvas: &mut Canvas, outer: Rect, theme: &Theme, parts: Parts) {
        let notes = self.notes(outer.width(), theme, parts.caption);
        let outer = panel::notes(canvas, outer, theme, &notes);
        let axes = [&self.x, &self.y];
        match &self.chart {
            Chart::Curves(list) => lines::draw_curves(canvas, outer, theme, axes, list, parts.ends),
            Chart::Scatter(list) => lines::draw_scatter(canvas, outer, theme, axes, list, parts.legend),
            Chart::Bars(groups) => groups.draw(canvas, outer, theme, axes),
            Chart::Hist(hist) => lines::draw_hist(canvas, outer, theme, axes, hist),
            Chart::Heat(heat) => heat.draw(canvas, outer, theme, axes),
            Chart::Field(surface) => surface.draw(canvas, outer, theme, axes, parts.legend),
            Chart::Images(sheet) => sheet.draw(canvas, outer, theme),
            Chart::Tree(root) => root.draw(canvas, outer, theme),
            Chart::Grid { panels, .. } => {
                let (columns, width) = self.columns(outer.width());
                let shared = shared_points(panels);
                let mut top = match shared {
                    Some(points) => lines::points_legend(canvas, outer, theme, points).top,
                    None => outer.top,
                };
                for (r, row) in panels.chunks(columns).enumerate() {
                    let bottom = top + row_height(row, width, theme);
                    for (c, panel) in row.iter().enumerate() {
                        let left = outer.left + c as f64 * (width + GUTTER);
                        let area = Rect { left, top, right: left + width, bottom };
                        panel.draw_title(canvas, area, theme, &letter(r * columns + c).to_string());
                        let area = Rect { top: top + title_height(row, "m", width, theme), ..area };
                        let parts = Parts { caption: false, legend: shared.is_none(), ..parts };
                        panel.draw(canvas, area, theme, parts);
                    }
                    top = bottom + 0.6 * GUTTER;
                }
            }
            Chart::Frames { list, seconds } => {
                let top = outer.top + frame_title_height(list, outer.width(), theme);
                // A name that is at the end of a curve in one frame and in a legend in the next would move the plot.
                let parts = Parts { caption: false, legend: true, ends: self.ends() };
                let drawn = list.iter().enumerate().map(|(i, frame)| {
                    let bottom = match frame.grows() {
                        true => (top + frame.height(outer.width(), theme, false)).min(outer.bottom),
                        false => outer.bottom,
                    };
                    let number = format!("{} of {}", i + 1, list.len());
                    turns::Frame {
                        caption: frame.caption.clone(),
                        title: canvas.aside(|canvas| frame.draw_title(canvas, outer, theme, &number)),
                        body: canvas
                            .aside(|canvas| frame.draw(canvas, Rect { top, bottom, ..outer }, theme, parts)),
                    }
                });
                let drawn: Vec<turns::Frame> = drawn.collect();
                canvas.turns(&drawn, top, *seconds);
            }
        }
    }
}

/// The points of a grid's first panel, if all panels show series of the same names and looks: one legend then serves them
/// all.
fn shared_points(panels: &[Figure]) -> Option<&[Points]> {
    fn of(panel: &Figure) -> Option<&[Points]> {
        match &panel.chart {
            Chart::Scatter(list) => Some(list),
            Chart::Field(surface) => Some(&surface.points),
            _ => None,
        }
    }
    let [first, rest @ ..] = panels else { return None };
    let shown = of(first).filter(|points| points.len() > 1 && !rest.is_empty())?;
    let alike = |a: &Points, b: &Points| (&a.name, a.role, a.joined) == (&b.name, b.role, b.joined);
    let same = |own: &[Points]| own.len() == shown.len() && own.iter().zip(shown).all(|(a, b)| alike(a, b));
    rest.iter().all(|panel| of(panel).is_some_and(same)).then_some(shown)
}

/// Height of a row of panels, with its letters.
fn row_height(row: &[Figure], width: f64, theme: &Theme) -> f64 {
    let heights = row.iter().map(|panel| panel.height(width, theme, panel.size == Size::Screen));
    // Any letter will do: "m" is the widest.
    title_height(row, "m", width, theme) + heights.fold(0.0, f64::max)
}

/// Height of the letters of a row, none wider than `widest`, and the captions that follow them.
fn title_height(row: &[Figure], widest: &str, width: f64, theme: &Theme) -> f64 {
    let lines = row.iter().map(|panel| panel.title(widest, width, theme).len()).max().unwrap_or(1);
    (0.5 + 1.2 * lines as f64) * theme.text
}

/// Height of the numbers of frames and the captions that follow them.
fn frame_title_height(list: &[Figure], width: f64, theme: &Theme) -> f64 {
    // All digits are equally wide, so the last number is the widest.
    title_height(list, &format!("{0} of {0}", list.len()), width, theme)
}

/// Letter of a panel.
pub(super) fn letter(i: usize) -> char {
    char::from(b'a' + (i % 26) as u8)
}
