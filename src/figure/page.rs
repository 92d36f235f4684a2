//! A whole page: one panel or a grid of them, with its notes.

use super::canvas::{self, Anchor, Canvas, INK};
use super::font;
use super::geometry::Rect;
use super::lines;
use super::panel::{self, Theme};
use super::{Chart, Figure, Points, Size};

/// Pixels per inch of an SVG.
const INCH: f64 = 96.0;
/// White space around a figure, in pixels.
const MARGIN: f64 = 2.0;
/// Between the panels of a grid, in pixels.
const GUTTER: f64 = 12.0;
/// Narrower panels cannot be read; a grid then uses fewer columns.
const NARROWEST: f64 = 110.0;

impl Figure {
    /// The picture.
    ///
    /// Cost: proportional to what is drawn, at most a few thousand marks per series.
    /// Checked by `tests/figure.rs::same_figure_same_bytes`.
    pub fn svg(&self) -> String {
        let theme = self.size.theme();
        let width = self.size.inches().0 * INCH;
        let height = match &self.chart {
            Chart::Images(_) | Chart::Tree(_) | Chart::Grid { .. } => {
                self.height(width - 2.0 * MARGIN, &theme) + 2.0 * MARGIN
            }
            _ => self.size.inches().1 * INCH,
        };
        let outer = Rect { left: MARGIN, top: MARGIN, right: width - MARGIN, bottom: height - MARGIN };
        canvas::render((width, height), &self.describe(), |canvas| {
            self.draw(canvas, outer, &theme, self.size == Size::Screen, true);
        })
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

    /// Height the figure takes at a width, as a panel or on its own.
    fn height(&self, width: f64, theme: &Theme) -> f64 {
        let lines = self.notes(width, theme, self.size == Size::Screen).len();
        let notes = if lines > 0 { lines as f64 * 1.2 * theme.text + 2.0 } else { 0.0 };
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

    /// Letter and caption over a panel, in at most three lines.
    fn title(&self, letter: &str, width: f64, theme: &Theme) -> Vec<String> {
        font::wrap(&format!("({letter}) {}", self.caption), theme.text, width).into_iter().take(3).collect()
    }

    fn draw(&self, canvas: &mut Canvas, outer: Rect, theme: &Theme, captioned: bool, keyed: bool) {
        let notes = self.notes(outer.width(), theme, captioned);
        let outer = panel::notes(canvas, outer, theme, &notes);
        let axes = [&self.x, &self.y];
        match &self.chart {
            Chart::Curves(list) => lines::draw_curves(canvas, outer, theme, axes, list),
            Chart::Scatter(list) => lines::draw_scatter(canvas, outer, theme, axes, list, keyed),
            Chart::Bars(groups) => groups.draw(canvas, outer, theme, axes),
            Chart::Hist(hist) => lines::draw_hist(canvas, outer, theme, axes, hist),
            Chart::Heat(heat) => heat.draw(canvas, outer, theme, axes),
            Chart::Field(surface) => surface.draw(canvas, outer, theme, axes, keyed),
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
                        let title = panel.title(&letter(r * columns + c).to_string(), width, theme);
                        for (j, line) in title.iter().enumerate() {
                            let baseline = top + (1.0 + 1.2 * j as f64) * theme.text;
                            canvas.text(line, (left, baseline), Anchor::Start, theme.text, INK);
                        }
                        let area = Rect {
                            left,
                            top: top + title_height(row, width, theme),
                            right: left + width,
                            bottom,
                        };
                        panel.draw(canvas, area, theme, false, shared.is_none());
                    }
                    top = bottom + 0.6 * GUTTER;
                }
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
    title_height(row, width, theme) + row.iter().map(|panel| panel.height(width, theme)).fold(0.0, f64::max)
}

/// Height of the letters of a row and the captions that follow them.
fn title_height(row: &[Figure], width: f64, theme: &Theme) -> f64 {
    // Any letter will do: "m" is the widest.
    let lines = row.iter().map(|panel| panel.title("m", width, theme).len()).max().unwrap_or(1);
    (0.5 + 1.2 * lines as f64) * theme.text
}

/// Letter of a panel.
pub(super) fn letter(i: usize) -> char {
    char::from(b'a' + (i % 26) as u8)
}
