//! One panel: axes around a plotting area, and the names of its series.

use super::axis::{Axis, Span, Ticks, Way, ticks};
use super::canvas::{Anchor, Canvas, GREY, GRID, INK, Rgb, WHITE, readable};
use super::font::{CAP, fit, text_width};
use super::geometry::{Point, Rect, clip_segment};
use super::series::Look;

/// Sizes in pixels that depend on where the figure will be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub text: f64,
    pub line: f64,
    pub marker: f64,
}

const TICK: f64 = 3.5;
const GAP: f64 = 3.0;
/// Between a line's end and its name.
const LEADER: f64 = 9.0;
/// Between two lines of hatching.
const HATCH: f64 = 3.6;

/// A plotting area with its axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub area: Rect,
    pub x: Span,
    pub y: Span,
}

impl Frame {
    /// Place of a pair of values.
    pub fn at(&self, x: f64, y: f64) -> Point {
        (
            self.area.left + self.x.part(x) * self.area.width(),
            self.area.bottom - self.y.part(y) * self.area.height(),
        )
    }
}

/// Draws both axes inside `outer`, leaving `right` pixels free, and returns the plotting area.
pub(super) fn frame(
    canvas: &mut Canvas,
    outer: Rect,
    theme: &Theme,
    (x_axis, x): (&Axis, Span),
    (y_axis, y): (&Axis, Span),
    right: f64,
    grid: bool,
) -> Frame {
    let size = theme.text;
    let mut area = Rect { top: outer.top + 0.5 * size, right: outer.right - right.max(1.0), ..outer };
    // The width decides the ticks, and the last label may overhang the area, which changes the width: twice is
    // enough, because a second overhang would need a label that grew.
    let mut across = Ticks::default();
    for _ in 0..2 {
        let named = !x_axis.label.is_empty() || across.shared.is_some();
        area.bottom = outer.bottom - below(size, named);
        let up = ticks(&y, area.height(), size, Way::Up);
        if up.shared.is_some() {
            area.top = outer.top + 1.45 * size;
        }
        area.left = outer.left + beside(size, &y_axis.label, up.widest(size));
        across = ticks(&x, area.width(), size, Way::Across);
        if let Some((value, label)) = across.marks.last() {
            let end = area.left + x.part(*value) * area.width() + label.width(size) / 2.0;
            area.right -= (end - outer.right + 1.0).max(0.0);
        }
    }
    let frame = Frame { area, x, y };
    draw_up(canvas, outer, theme, &frame, &y_axis.label, grid);
    draw_across(canvas, outer, theme, &frame, &x_axis.label, false);
    frame
}

/// Height of the ticks, their labels and the axis label under an area.
pub(super) fn below(size: f64, named: bool) -> f64 {
    TICK + GAP + CAP * size + if named { 1.4 * size } else { 0.0 } + 0.3 * size
}

/// Width of the axis label, tick labels and ticks beside an area.
pub(super) fn beside(size: f64, label: &str, widest: f64) -> f64 {
    TICK + GAP + widest + if label.is_empty() { 1.0 } else { 1.4 * size }
}

/// Vertical axis: spine, ticks, labels and, if asked, the light grid.
pub(super) fn draw_up(
    canvas: &mut Canvas,
    outer: Rect,
    theme: &Theme,
    frame: &Frame,
    label: &str,
    grid: bool,
) {
    let (area, size) = (frame.area, theme.text);
    let marks = ticks(&frame.y, area.height(), size, Way::Up);
    for (value, text) in &marks.marks {
        let y = area.bottom - frame.y.part(*value) * area.height();
        if grid && (area.bottom - y) > 0.5 {
            canvas.line(&[(area.left, y), (area.right, y)], GRID, 0.6);
        }
        canvas.line(&[(area.left - TICK, y), (area.left, y)], INK, 0.8);
        canvas.label(text, (area.left - TICK - GAP, y + CAP * size / 2.0), Anchor::End, size, INK);
    }
    for value in &marks.small {
        let y = area.bottom - frame.y.part(*value) * area.height();
        canvas.line(&[(area.left - 0.55 * TICK, y), (area.left, y)], INK, 0.6);
    }
    canvas.line(&[(area.left, area.top), (area.left, area.bottom)], INK, 0.8);
    let mut limit = outer.top;
    if let Some(shared) = &marks.shared {
        canvas.label(shared, (outer.left + 1.0, outer.top + size), Anchor::Start, size, INK);
        limit += 1.45 * size;
    }
    name_up(canvas, Rect { top: limit, ..outer }, area, theme, label);
}

/// Name of the vertical axis, reading upwards, centred on the area as far as the panel allows.
pub(super) fn name_up(canvas: &mut Canvas, outer: Rect, area: Rect, theme: &Theme, label: &str) {
    let text = fit(label, theme.text, outer.height() - 2.0);
    let half = text_width(&text, theme.text) / 2.0;
    let middle =
        ((area.top + area.bottom) / 2.0).clamp(outer.top + half, (outer.bottom - half).max(outer.top + half));
    canvas.text_up(&text, (outer.left + theme.text, middle), Anchor::Middle, theme.text, INK);
}

/// Horizontal axis: spine, ticks, labels and, if asked, a light vertical grid (horizontal bars).
pub(super) fn draw_across(
    canvas: &mut Canvas,
    outer: Rect,
    theme: &Theme,
    frame: &Frame,
    label: &str,
    grid: bool,
) {
    let (area, size) = (frame.area, theme.text);
    let marks = ticks(&frame.x, area.width(), size, Way::Across);
    for (value, text) in &marks.marks {
        let x = area.left + frame.x.part(*value) * area.width();
        if grid {
            canvas.line(&[(x, area.top), (x, area.bottom)], GRID, 0.6);
        }
        canvas.line(&[(x, area.bottom), (x, area.bottom + TICK)], INK, 0.8);
        let baseline = area.bottom + TICK + GAP + CAP * size;
        canvas.label(text, (x, baseline), Anchor::Middle, size, INK);
    }
    for value in &marks.small {
        let x = area.left + frame.x.part(*value) * area.width();
        canvas.line(&[(x, area.bottom), (x, area.bottom + 0.55 * TICK)], INK, 0.6);
    }
    canvas.line(&[(area.left, area.bottom), (area.right, area.bottom)], INK, 0.8);
    let mut limit = outer.right;
    if let Some(shared) = &marks.shared {
        canvas.label(shared, (outer.right - 1.0, outer.bottom - 0.3 * size), Anchor::End, size, INK);
        limit -= shared.width(size) + size;
    }
    name_across(canvas, Rect { right: limit, ..outer }, area, theme, label);
}

/// Name of the horizontal axis, centred under the area as far as the panel allows.
pub(super) fn name_across(canvas: &mut Canvas, outer: Rect, area: Rect, theme: &Theme, label: &str) {
    // The corner below the vertical name stays free.
    let left = (outer.left + 1.6 * theme.text).min(area.left);
    let text = fit(label, theme.text, outer.right - left - 2.0);
    let half = text_width(&text, theme.text) / 2.0;
    let middle = ((area.left + area.right) / 2.0).min(outer.right - half).max(left + half);
    canvas.text(&text, (middle, outer.bottom - 0.3 * theme.text), Anchor::Middle, theme.text, INK);
}

/// Width to keep free for names at the line ends, or nothing if a legend serves better: more than four series, or
/// names that would take over a third of the width.
pub(super) fn direct_width(names: &[&str], theme: &Theme, width: f64) -> Option<f64> {
    let widest = names.iter().map(|n| text_width(n, theme.text)).fold(0.0, f64::max);
    let need = LEADER + widest + 1.0;
    ((2..=4).contains(&names.len()) && need <= 0.36 * width).then_some(need)
}

/// Names at the line ends, spread so that they do not touch; one that had to move is tied to its line.
pub(super) fn direct_labels(canvas: &mut Canvas, frame: &Frame, theme: &Theme, ends: &[(&str, Point, Rgb)]) {
    let (size, area) = (theme.text, frame.area);
    let gap = 1.2 * size;
    // The lowest name stays clear of the last number under the axis.
    let bottom = (area.bottom - 0.25 * size).max(area.top);
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by(|a, b| ends[*a].1.1.total_cmp(&ends[*b].1.1));
    // Least movement that keeps order and distance: isotonic regression (pool adjacent violators) of y − rank · gap.
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (rank, i) in order.iter().enumerate() {
        let y = ends[*i].1.1.clamp(area.top, bottom);
        pools.push((y - rank as f64 * gap, 1));
        while let [.., (a, n), (b, m)] = pools[..]
            && a > b
        {
            pools.truncate(pools.len() - 2);
            pools.push(((a * n as f64 + b * m as f64) / (n + m) as f64, n + m));
        }
    }
    let lowest = (bottom - ends.len().saturating_sub(1) as f64 * gap).max(area.top);
    let places = pools.iter().flat_map(|(y, n)| vec![y.clamp(area.top, lowest); *n]);
    for (rank, (i, place)) in order.iter().zip(places).enumerate() {
        let (name, end, color) = ends[*i];
        let y = place + rank as f64 * gap;
        if (y - end.1).abs() > 2.0 || area.right - end.0 > 3.0 {
            canvas.line(&[(end.0 + 1.5, end.1), (area.right + LEADER - 2.0, y)], readable(color), 0.5);
        }
        canvas.text_middle(name, (area.right + LEADER, y), Anchor::Start, size, readable(color));
    }
}

/// What stands before a name in the legend.
#[derive(Clone, Copy)]
pub(super) enum Key {
    Line,
    LineAndMarker,
    Marker,
    Swatch,
}

/// Legend along the top of `outer`; returns what is left of it.
pub(super) fn legend(
    canvas: &mut Canvas,
    outer: Rect,
    theme: &Theme,
    entries: &[(&str, Look)],
    key: Key,
) -> Rect {
    let (size, sample) = (theme.text, sample(theme, key));
    let names: Vec<&str> = entries.iter().map(|(name, _)| *name).collect();
    let (places, left_out, bottom) = legend_places(outer, theme, &names, key);
    if let Some((at, rest)) = left_out {
        canvas.text_middle(&rest, at, Anchor::Start, size, INK);
    }
    for (((x, y), name), (_, look)) in places.into_iter().zip(entries) {
        match key {
            Key::Line | Key::LineAndMarker => {
                canvas.dashed(&[(x, y), (x + sample, y)], look.color, theme.line, look.dash);
            }
            Key::Swatch => {
                let half = 0.38 * size;
                hatched(canvas, Rect { left: x, top: y - half, right: x + sample, bottom: y + half }, look);
            }
            Key::Marker => {}
        }
        if matches!(key, Key::Marker | Key::LineAndMarker) {
            canvas.marker(look.marker, (x + sample / 2.0, y), theme.marker, look.color, false);
        }
        canvas.text_middle(&name, (x + sample + 4.0, y), Anchor::Start, size, INK);
    }
    Rect { top: bottom, ..outer }
}

/// Width of what stands before a name.
fn sample(theme: &Theme, key: Key) -> f64 {
    theme.text
        * match key {
            Key::Line | Key::LineAndMarker => 2.4,
            Key::Marker => 0.8,
            Key::Swatch => 1.3,
        }
}

/// Where each name goes, what stands for those that are left out, and how far down the legend reaches.
type LegendPlaces = (Vec<(Point, String)>, Option<(Point, String)>, f64);

pub(super) fn legend_places(outer: Rect, theme: &Theme, names: &[&str], key: Key) -> LegendPlaces {
    let (size, sample) = (theme.text, sample(theme, key));
    let (mut x, mut y) = (outer.left, outer.top + 0.6 * size);
    let lowest = outer.top + 0.4 * outer.height();
    let mut places = Vec::new();
    let mut left_out = None;
    for (i, name) in names.iter().enumerate() {
        let name = fit(name, size, outer.width() - sample - 6.0);
        let width = sample + 4.0 + text_width(&name, size);
        if x > outer.left && x + width > outer.right {
            (x, y) = (outer.left, y + 1.35 * size);
            // A legend that would crowd out the plot ends with what it leaves out.
            if y + 1.35 * size > lowest {
                let rest = format!("… and {} more, named in the CSV", names.len() - i);
                left_out = Some(((x, y), fit(&rest, size, outer.width())));
                break;
            }
        }
        places.push(((x, y), name));
        x += width + 1.2 * size;
    }
    (places, left_out, y + 0.9 * size)
}

/// Filled bar; all but the first look carry white hatching, so that a grey print tells them apart.
pub(super) fn hatched(canvas: &mut Canvas, area: Rect, look: &Look) {
    canvas.rect(area, look.color, 1.0);
    if area.width().min(area.height()) < 0.7 * HATCH {
        return; // too thin to show a pattern, and many of them
    }
    let diagonal = std::f64::consts::FRAC_1_SQRT_2;
    let directions: &[Point] = match look.marker {
        1 => &[(diagonal, -diagonal)],
        2 => &[(diagonal, diagonal)],
        3 => &[(1.0, 0.0)],
        4 => &[(0.0, 1.0)],
        5 => &[(diagonal, -diagonal), (diagonal, diagonal)],
        6 => &[(1.0, 0.0), (0.0, 1.0)],
        _ => &[],
    };
    let (x, y) = ((area.left + area.right) / 2.0, (area.top + area.bottom) / 2.0);
    let reach = area.width() + area.height();
    for (u, v) in directions {
        let count = (reach / HATCH / 2.0).ceil();
        for i in 0..=(2.0 * count) as usize {
            let off = (i as f64 - count) * HATCH;
            let (px, py) = (x - v * off, y + u * off);
            let ends = ((px - u * reach, py - v * reach), (px + u * reach, py + v * reach));
            if let Some((a, b)) = clip_segment(ends.0, ends.1, area) {
                canvas.line(&[a, b], WHITE, 0.9);
            }
        }
    }
}

/// Vertical bar of colours for values from `span.low` to `span.high`, right of a plotting area.
pub(super) fn color_bar(canvas: &mut Canvas, area: Rect, theme: &Theme, span: &Span, levels: &[f64]) {
    let steps = 64;
    let height = area.height() / f64::from(steps);
    for i in 0..steps {
        let bottom = area.bottom - f64::from(i) * height;
        // Overlap hides the seams that antialiasing leaves between neighbours.
        let top = (bottom - height - 0.6).max(area.top);
        let color = super::canvas::cividis((f64::from(i) + 0.5) / f64::from(steps));
        canvas.rect(Rect { top, bottom, ..area }, color, 1.0);
    }
    for level in levels.iter().filter(|l| (0.0..=1.0).contains(&span.part(**l))) {
        let y = area.bottom - span.part(*level) * area.height();
        canvas.line(&[(area.left, y), (area.right, y)], contrast(span.part(*level)), theme.line);
    }
    let size = theme.text;
    let marks = ticks(span, area.height(), size, Way::Up);
    for (value, text) in &marks.marks {
        let y = area.bottom - span.part(*value) * area.height();
        canvas.line(&[(area.right, y), (area.right + TICK, y)], INK, 0.8);
        canvas.label(text, (area.right + TICK + GAP, y + CAP * size / 2.0), Anchor::Start, size, INK);
    }
    if let Some(shared) = &marks.shared {
        canvas.label(shared, (area.left, area.top - 0.6 * size), Anchor::Start, size, INK);
    }
}

/// Width of a colour bar with its labels, and the height its shared power of ten needs above it.
pub(super) fn color_bar_room(span: &Span, height: f64, theme: &Theme) -> (f64, f64) {
    let (widest, shared) = label_room(span, height, theme);
    let wide = COLOR_BAR + TICK + GAP + widest + 1.0;
    (wide.max(shared + 1.0), if shared > 0.0 { 1.5 * theme.text } else { 0.0 })
}

/// Widths of the labels of a vertical axis and of what they share, when its height, at most `height`, depends on
/// these very widths: the widest at any of several heights.
pub(super) fn label_room(span: &Span, height: f64, theme: &Theme) -> (f64, f64) {
    let sets = (3..=10).map(|tenths| ticks(span, height * f64::from(tenths) / 10.0, theme.text, Way::Up));
    sets.fold((0.0, 0.0), |(widest, shared), set| {
        let own = set.shared.as_ref().map_or(0.0, |label| label.width(theme.text));
        (set.widest(theme.text).max(widest), own.max(shared))
    })
}

/// Width of the bar alone.
pub(super) const COLOR_BAR: f64 = 10.0;

/// Black or white, whichever shows on cividis at this height.
pub(super) fn contrast(part: f64) -> Rgb {
    if part > 0.45 { (0, 0, 0) } else { WHITE }
}

/// Small grey lines under a panel.
pub(super) fn notes(canvas: &mut Canvas, outer: Rect, theme: &Theme, lines: &[String]) -> Rect {
    let size = 0.85 * theme.text;
    let mut bottom = outer.bottom;
    for line in lines.iter().rev() {
        canvas.text(line, (outer.left, bottom - 0.25 * size), Anchor::Start, size, GREY);
        bottom -= 1.3 * size;
    }
    Rect { bottom: if lines.is_empty() { bottom } else { bottom - 2.0 }, ..outer }
}
