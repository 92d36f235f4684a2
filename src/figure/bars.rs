//! Bars in groups, upright or, where the names of the categories are long, lying.

use super::axis::{Axis, Scale, Span, Way, short, ticks};
use super::canvas::{Anchor, Canvas, INK, WHITE};
use super::font::{CAP, fit, text_width, wrap};
use super::geometry::{Point, Rect};
use super::panel::{Frame, Key, Theme, below, beside, draw_across, draw_up, hatched, label_room, legend};
use super::panel::{name_across, name_up};
use super::save::Entry;
use super::series::{Bars, Look, check_some, extent, looks};
use super::{Chart, Figure};
use crate::error::Result;

/// Bars, grouped by category, one per series in each group.
///
/// Bars start at zero (on a logarithmic axis at its lower end). They lie down when the names of the categories do not
/// fit under upright ones.
/// Fails: `Shape` if there is no category, no series or a length differs, `Config` if a value is not finite.
///
/// ```
/// use lastlayer::prelude::*;
/// let ours = Bars::new("ours", &[0.9, 0.8]).method();
/// let theirs = Bars::new("theirs", &[0.85, 0.7]).baseline();
/// let figure = bars(&["easy", "hard"], &[ours, theirs])?.labels("", "accuracy");
/// assert_eq!(figure.describe(), "Bars of accuracy: ours: easy 0.9, hard 0.8; theirs: easy 0.85, hard 0.7.");
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn bars<S: AsRef<str>>(categories: &[S], series: &[Bars]) -> Result<Figure> {
    check_some("categories", categories)?;
    check_some("bars", series)?;
    series.iter().try_for_each(|b| b.check(categories.len()))?;
    let categories = categories.iter().map(|c| c.as_ref().to_string()).collect();
    Ok(Figure::new(Chart::Bars(Groups { categories, series: series.to_vec() })))
}

/// Series of bars over the same categories.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Groups {
    pub categories: Vec<String>,
    pub series: Vec<Bars>,
}

/// Part of a category's slot that its bars fill.
const FILLED: f64 = 0.76;

impl Groups {
    /// Smallest and largest value, whiskers included.
    pub fn bounds(&self) -> (f64, f64) {
        let sides = self
            .series
            .iter()
            .filter_map(|b| b.interval.as_ref())
            .flat_map(|(low, high)| low.iter().chain(high));
        extent(self.series.iter().flat_map(|b| &b.values).chain(sides))
    }

    /// The caller's y is the axis of values, whichever way the bars lie.
    pub fn draw(&self, canvas: &mut Canvas, outer: Rect, theme: &Theme, [names, values]: [&Axis; 2]) {
        let looks = looks(self.series.iter().map(|b| b.role));
        let entries: Vec<(&str, Look)> =
            self.series.iter().map(|b| b.name.as_str()).zip(looks.iter().copied()).collect();
        let outer =
            if entries.len() > 1 { legend(canvas, outer, theme, &entries, Key::Swatch) } else { outer };
        let (low, high) = self.bounds();
        let reach = if values.scale == Scale::Log { (low, high) } else { (low.min(0.0), high.max(0.0)) };
        let span = Span::over(values, reach, 0.05);
        match self.upright(canvas, outer, theme, names, values, span) {
            Some(frame) => self.draw_bars(canvas, theme, &frame, &looks, true),
            None => {
                let frame = self.lying(canvas, outer, theme, names, values, span);
                self.draw_bars(canvas, theme, &frame, &looks, false);
            }
        }
    }

    /// Axes of upright bars, if the names fit under them in at most two lines.
    fn upright(
        &self,
        canvas: &mut Canvas,
        outer: Rect,
        theme: &Theme,
        names: &Axis,
        values: &Axis,
        span: Span,
    ) -> Option<Frame> {
        let size = theme.text;
        let top = outer.top + 0.5 * size;
        let named = !names.label.is_empty();
        let (widest, shared) = label_room(&span, outer.bottom - below(size, named) - top, theme);
        let left = outer.left + beside(size, &values.label, widest);
        let slot = (outer.right - 2.0 - left) / self.categories.len() as f64;
        let room = slot - 0.6 * size;
        let words_fit = |c: &String| c.split_whitespace().all(|word| text_width(word, size) <= room);
        let lines: Vec<Vec<String>> = self.categories.iter().map(|c| wrap(c, size, room)).collect();
        let tallest = lines.iter().map(Vec::len).max().unwrap_or(1).max(1);
        if tallest > 2 || !self.categories.iter().all(words_fit) {
            return None;
        }
        let bottom = outer.bottom - below(size, named) - (tallest - 1) as f64 * 1.15 * size;
        let top = if shared > 0.0 { outer.top + 1.45 * size } else { top };
        let area = Rect { left, top, right: outer.right - 2.0, bottom };
        let x = Span { low: 0.0, high: self.categories.len() as f64, scale: Scale::Linear };
        let frame = Frame { area, x, y: span };
        draw_up(canvas, outer, theme, &frame, &values.label, true);
        for (i, lines) in lines.iter().enumerate() {
            for (j, line) in lines.iter().enumerate() {
                let baseline = bottom + 6.0 + CAP * size + j as f64 * 1.15 * size;
                canvas.text(line, (left + (i as f64 + 0.5) * slot, baseline), Anchor::Middle, size, INK);
            }
        }
        name_across(canvas, outer, area, theme, &names.label);
        Some(frame)
    }

    /// Axes of lying bars, with the names at the left.
    fn lying(
        &self,
        canvas: &mut Canvas,
        outer: Rect,
        theme: &Theme,
        names: &Axis,
        values: &Axis,
        span: Span,
    ) -> Frame {
        let size = theme.text;
        let widest =
            self.categories.iter().map(|c| text_width(c, size)).fold(0.0, f64::max).min(0.4 * outer.width());
        let mut area = Rect { left: outer.left + beside(size, &names.label, widest), ..outer };
        area.top += 2.0;
        area.right -= 2.0;
        for _ in 0..2 {
            let marks = ticks(&span, area.width(), size, Way::Across);
            area.bottom = outer.bottom - below(size, !values.label.is_empty() || marks.shared.is_some());
            if let Some((value, label)) = marks.marks.last() {
                let end = area.left + span.part(*value) * area.width() + label.width(size) / 2.0;
                area.right -= (end - outer.right + 1.0).max(0.0);
            }
        }
        let y = Span { low: 0.0, high: self.categories.len() as f64, scale: Scale::Linear };
        let frame = Frame { area, x: span, y };
        draw_across(canvas, outer, theme, &frame, &values.label, true);
        let slot = area.height() / self.categories.len() as f64;
        // When even lying names would touch, every k-th is written.
        let step = (size / slot).ceil().max(1.0) as usize;
        for (i, name) in self.categories.iter().enumerate().step_by(step) {
            let at = (area.left - 6.0, area.top + (i as f64 + 0.5) * slot);
            canvas.text_middle(&fit(name, size, widest), at, Anchor::End, size, INK);
        }
        name_up(canvas, outer, area, theme, &names.label);
        frame
    }

    fn draw_bars(&self, canvas: &mut Canvas, theme: &Theme, frame: &Frame, looks: &[Look], upright: bool) {
        let span = if upright { frame.y } else { frame.x };
        let area = frame.area;
        let (long, high) =
            if upright { (area.width(), area.height()) } else { (area.height(), area.width()) };
        let slot = long / self.categories.len() as f64;
        let width = FILLED * slot / self.series.len() as f64;
        // From a place along the names and a value to the picture.
        let at = |along: f64, value: f64| -> Point {
            let up = span.part(value).clamp(0.0, 1.0) * high;
            if upright { (area.left + along, area.bottom - up) } else { (area.left + up, area.top + along) }
        };
        let base = 0.0f64.clamp(span.low, span.high);
        for (k, (series, look)) in self.series.iter().zip(looks).enumerate() {
            for (i, value) in series.values.iter().enumerate() {
                let start = (i as f64 + (1.0 - FILLED) / 2.0) * slot + k as f64 * width;
                let inset = (0.06 * width).min(1.0);
                let (a, b) = (at(start + inset, base), at(start + width - inset, *value));
                let (left, right) = (a.0.min(b.0), a.0.max(b.0));
                hatched(canvas, Rect { left, right, top: a.1.min(b.1), bottom: a.1.max(b.1) }, look);
                if let Some((low, top)) = &series.interval {
                    let (middle, cap) = (start + width / 2.0, (0.2 * width).min(3.0));
                    for (pen, color) in [(2.4, WHITE), (0.9, INK)] {
                        canvas.line(&[at(middle, low[i]), at(middle, top[i])], color, pen * theme.line / 1.2);
                    }
                    for end in [low[i], top[i]] {
                        canvas.line(&[at(middle - cap, end), at(middle + cap, end)], INK, 0.9);
                    }
                }
            }
        }
        canvas.line(&[at(0.0, base), at(long, base)], INK, 0.8);
    }

    pub fn describe(&self) -> String {
        let each = self.series.iter().map(|b| {
            let values = self.categories.iter().zip(&b.values).map(|(c, v)| format!("{c} {}", short(*v)));
            let shown: Vec<String> = values.take(12).collect();
            let more = if b.values.len() > 12 {
                format!(", and {} more", b.values.len() - 12)
            } else {
                String::new()
            };
            format!("{}: {}{more}", b.name, shown.join(", "))
        });
        each.collect::<Vec<_>>().join("; ")
    }

    pub fn rows(&self, emit: &mut dyn FnMut(&[Entry])) {
        for b in &self.series {
            for (i, (category, value)) in self.categories.iter().zip(&b.values).enumerate() {
                let pair =
                    b.interval.as_ref().map(|(low, high)| (Entry::Number(low[i]), Entry::Number(high[i])));
                let (low, high) = pair.unwrap_or((Entry::Empty, Entry::Empty));
                emit(&[Entry::Text(category), Entry::Text(&b.name), Entry::Number(*value), low, high]);
            }
        }
    }
}
