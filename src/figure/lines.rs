//! Curves, scatter plots and histograms: everything on two numeric axes.

use super::axis::{Axis, Span, short};
use super::canvas::{Canvas, Rgb, WHITE};
use super::geometry::{Point, Rect, clip_line, clip_polygon, envelope};
use super::panel::{Frame, Key, Theme, direct_labels, direct_width, frame, legend, legend_places};
use super::save::Entry;
use super::series::{Curve, Look, Points, Role, check_numbers, check_some, extent, looks};
use super::{Chart, Figure};
use crate::error::{Error, Result};

/// Curves of more points than this are drawn by the extremes of each pixel column.
const MOST_IN_LINE: usize = 2000;
/// Of more points than this every k-th is drawn.
const MOST_POINTS: usize = 3000;
/// Curves of at most this many points show them.
const MARKED: usize = 25;

/// Lines with bands.
///
/// At most four are named at their ends, if these lie near the right side; more get a legend. Curves of more than 2000 points are drawn by the extremes
/// of each pixel column, and the picture says so; the CSV keeps every point.
/// Fails: `Shape` if a series is empty or its lengths differ, `Config` if a value is not finite, x decreases or a
/// band is upside down.
///
/// ```
/// use lastlayer::prelude::*;
/// let epochs = [1.0, 2.0, 3.0];
/// let ours = Curve::new("ours", &epochs, &[0.9, 0.5, 0.3]).method();
/// let theirs = Curve::new("theirs", &epochs, &[0.9, 0.7, 0.6]).baseline();
/// let figure = curves(&[ours, theirs])?.labels("epoch", "loss");
/// assert!(figure.csv().starts_with("series,x,y,low,high\nours,1.0,0.9,,\n"));
/// assert!(curves(&[Curve::new("back", &[1.0, 0.0], &[0.0, 0.0])]).is_err()); // x decreases
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn curves(series: &[Curve]) -> Result<Figure> {
    check_some("curves", series)?;
    series.iter().try_for_each(Curve::check)?;
    Ok(Figure::new(Chart::Curves(series.to_vec())))
}

/// Points, each series with its own marker.
///
/// Of a series with more than 3000 points every k-th is drawn, and the picture says so; the CSV keeps every point.
/// Fails: as [`curves`], but x may come in any order.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = arcs(40, 0.1, Seed::new(1), &Device::Cpu)?;
/// let points = |class: &str| {
///     let x = data.classes(&[class])?.x.t()?.to_dtype(DType::F64)?.to_vec2::<f64>()?;
///     Ok::<_, Error>(Points::new(class, &x[0], &x[1]))
/// };
/// let figure = scatter(&[points(&data.names.classes[0])?, points(&data.names.classes[1])?])?;
/// assert_eq!(figure.csv().lines().count(), 1 + 40);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn scatter(series: &[Points]) -> Result<Figure> {
    check_some("points", series)?;
    series.iter().try_for_each(Points::check)?;
    Ok(Figure::new(Chart::Scatter(series.to_vec())))
}

/// Histograms of several samples over the same bins of equal width.
///
/// Bins are closed on the left; the last one on both sides.
/// Fails: `Shape` if a sample is empty, `Config` if a value is not finite or `bins` is not in 1 to 1000.
///
/// ```
/// use lastlayer::prelude::*;
/// let figure = hist(&[("negatives", [0.1, 0.2, 0.3, 0.9]), ("positives", [0.6, 0.7, 0.9, 0.9])], 2)?;
/// assert!(figure.csv().starts_with("series,from,to,count\nnegatives,0.1,0.5,3\nnegatives,0.5,0.9,1\n"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn hist<S: AsRef<str>, V: AsRef<[f64]>>(samples: &[(S, V)], bins: usize) -> Result<Figure> {
    check_some("samples", samples)?;
    for (name, values) in samples {
        check_numbers(&format!("sample \"{}\"", name.as_ref()), values.as_ref())?;
    }
    if !(1..=1000).contains(&bins) {
        return Err(Error::config("bins", bins, "1 to 1000"));
    }
    let data = extent(samples.iter().flat_map(|(_, values)| values.as_ref()));
    let Span { low, high, .. } = Span::over(&Axis::default(), data, 0.0);
    let edges: Vec<f64> = (0..=bins).map(|i| low + (high - low) * i as f64 / bins as f64).collect();
    let counts = samples.iter().map(|(name, values)| {
        let mut counts = vec![0usize; bins];
        for v in values.as_ref() {
            // The edges themselves decide, so that a value on an edge falls where the CSV says it does.
            counts[edges[1..bins].partition_point(|edge| edge <= v)] += 1;
        }
        (name.as_ref().to_string(), counts)
    });
    let chart = Chart::Hist(Hist { series: counts.collect(), edges });
    Ok(Figure::new(chart).labels("value", "count"))
}

/// Counts of several samples over common bins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hist {
    series: Vec<(String, Vec<usize>)>,
    edges: Vec<f64>,
}

pub(super) fn curve_bounds(series: &[Curve]) -> [(f64, f64); 2] {
    let bands = series.iter().filter_map(|c| c.band.as_ref()).flat_map(|(low, high)| low.iter().chain(high));
    [extent(series.iter().flat_map(|c| &c.x)), extent(series.iter().flat_map(|c| &c.y).chain(bands))]
}

pub(super) fn point_bounds(series: &[Points]) -> [(f64, f64); 2] {
    [extent(series.iter().flat_map(|p| &p.x)), extent(series.iter().flat_map(|p| &p.y))]
}

/// Whether all curves end near the right side; a name far from the end of its line is harder to read than a legend.
pub(super) fn reach(x: &Axis, series: &[Curve]) -> bool {
    let span = Span::over(x, curve_bounds(series)[0], 0.0);
    series.iter().all(|c| c.x.last().is_some_and(|x| span.part(*x) > 0.7))
}

/// What the picture must say about series that were thinned.
pub(super) fn thinned_curves(series: &[Curve]) -> Vec<String> {
    let long = series.iter().filter(|c| c.x.len() > MOST_IN_LINE);
    long.map(|c| format!("{}: {} points, drawn as extremes per pixel column", c.name, c.x.len())).collect()
}

pub(super) fn thinned_points(series: &[Points]) -> Vec<String> {
    let long = series.iter().filter(|p| stride(p) > 1);
    long.map(|p| format!("{}: {} points, one in {} drawn", p.name, p.x.len(), stride(p))).collect()
}

fn stride(points: &Points) -> usize {
    points.x.len().div_ceil(MOST_POINTS)
}

pub(super) fn draw_curves(
    canvas: &mut Canvas,
    outer: Rect,
    theme: &Theme,
    axes: [&Axis; 2],
    series: &[Curve],
    at_ends: bool,
) {
    let looks = looks(series.iter().map(|c| c.role));
    let names: Vec<&str> = series.iter().map(|c| c.name.as_str()).collect();
    let marked = |c: &Curve| c.x.len() <= MARKED && c.role != Role::Target;
    let [x, y] = curve_bounds(series);
    let spans = (Span::over(axes[0], x, 0.0), Span::over(axes[1], y, 0.05));
    let direct = direct_width(&names, theme, outer.width()).filter(|_| at_ends && reach(axes[0], series));
    let outer = if direct.is_none() && series.len() > 1 {
        let key = if series.iter().all(marked) { Key::LineAndMarker } else { Key::Line };
        let entries: Vec<(&str, Look)> = names.iter().copied().zip(looks.iter().copied()).collect();
        legend(canvas, outer, theme, &entries, key)
    } else {
        outer
    };
    let frame =
        frame(canvas, outer, theme, (axes[0], spans.0), (axes[1], spans.1), direct.unwrap_or(2.0), true);
    for (curve, look) in series.iter().zip(&looks) {
        if let Some((low, high)) = &curve.band {
            let mut edge = path(&frame, &curve.x, low);
            edge.extend(path(&frame, &curve.x, high).into_iter().rev());
            canvas.fill(&clip_polygon(&edge, frame.area), look.color, 0.2);
        }
    }
    let mut ends: Vec<(&str, Point, Rgb)> = Vec::new();
    for (curve, look) in series.iter().zip(&looks) {
        let width = if curve.role == Role::Target { 0.85 * theme.line } else { theme.line };
        let line = path(&frame, &curve.x, &curve.y);
        let parts = clip_line(&line, frame.area);
        for part in &parts {
            canvas.dashed(part, look.color, width, look.dash);
        }
        if marked(curve) || curve.x.len() == 1 {
            for at in line.iter().filter(|at| frame.area.contains(**at)) {
                canvas.marker(look.marker, *at, theme.marker, look.color, false);
            }
        }
        // The last place that can be seen; a curve outside the range has none, and no name.
        let visible = line.iter().rfind(|at| frame.area.contains(**at));
        let end = parts.last().and_then(|part| part.last()).or(visible);
        ends.extend(end.map(|end| (curve.name.as_str(), *end, look.color)));
    }
    if direct.is_some() {
        direct_labels(canvas, &frame, theme, &ends);
    }
}

/// Places of a series, thinned if it is long.
fn path(frame: &Frame, x: &[f64], y: &[f64]) -> Vec<Point> {
    if x.len() <= MOST_IN_LINE {
        return x.iter().zip(y).map(|(x, y)| frame.at(*x, *y)).collect();
    }
    let columns: Vec<i64> = x.iter().map(|x| frame.at(*x, frame.y.low).0 as i64).collect();
    envelope(&columns, y).into_iter().map(|i| frame.at(x[i], y[i])).collect()
}

pub(super) fn draw_scatter(
    canvas: &mut Canvas,
    outer: Rect,
    theme: &Theme,
    axes: [&Axis; 2],
    series: &[Points],
    keyed: bool,
) {
    let outer = if keyed && series.len() > 1 { points_legend(canvas, outer, theme, series) } else { outer };
    let [x, y] = point_bounds(series);
    let spans = (Span::over(axes[0], x, 0.05), Span::over(axes[1], y, 0.05));
    let frame = frame(canvas, outer, theme, (axes[0], spans.0), (axes[1], spans.1), theme.marker + 2.0, true);
    draw_points(canvas, &frame, theme, series, false);
}

pub(super) fn points_legend(canvas: &mut Canvas, outer: Rect, theme: &Theme, series: &[Points]) -> Rect {
    let looks = looks(series.iter().map(|p| p.role));
    let entries: Vec<(&str, Look)> = series.iter().map(|p| p.name.as_str()).zip(looks).collect();
    legend(canvas, outer, theme, &entries, points_key(series))
}

fn points_key(series: &[Points]) -> Key {
    if series.iter().all(|p| p.joined) { Key::LineAndMarker } else { Key::Marker }
}

/// Height of the legend of some points at a width, however many lines it needs.
pub(super) fn points_legend_height(width: f64, theme: &Theme, series: &[Points]) -> f64 {
    let names: Vec<&str> = series.iter().map(|p| p.name.as_str()).collect();
    let room = Rect { left: 0.0, top: 0.0, right: width, bottom: f64::INFINITY };
    legend_places(room, theme, &names, points_key(series)).2
}

/// A line with a head, as far as it lies in the frame.
fn arrow(canvas: &mut Canvas, frame: &Frame, theme: &Theme, [from, to]: [Point; 2], color: Rgb) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy);
    if length < 0.5 {
        return;
    }
    let size = (2.2 * theme.marker).min(0.5 * length) / length;
    let wing = |side: f64| (to.0 - size * (dx + 0.5 * side * dy), to.1 - size * (dy - 0.5 * side * dx));
    for part in clip_line(&[from, to], frame.area) {
        canvas.line(&part, color, theme.line);
    }
    for part in clip_line(&[wing(1.0), to, wing(-1.0)], frame.area) {
        canvas.line(&part, color, theme.line);
    }
}

/// Points and their lines; `on_colour` sets the lines off from what lies below.
pub(super) fn draw_points(
    canvas: &mut Canvas,
    frame: &Frame,
    theme: &Theme,
    series: &[Points],
    on_colour: bool,
) {
    for (points, look) in series.iter().zip(looks(series.iter().map(|p| p.role))) {
        let places = points.x.iter().zip(&points.y).step_by(stride(points)).map(|(x, y)| frame.at(*x, *y));
        let places: Vec<Point> = places.collect();
        if points.arrows {
            for ends in places.chunks_exact(2) {
                arrow(canvas, frame, theme, [ends[0], ends[1]], look.color);
            }
            continue;
        }
        if points.joined {
            for part in clip_line(&places, frame.area) {
                if on_colour {
                    canvas.line(&part, WHITE, 2.6 * theme.line);
                }
                canvas.dashed(&part, look.color, theme.line, look.dash);
            }
        }
        // Many points are drawn smaller, so that they stay points.
        let r = theme.marker * if places.len() > 400 { 0.6 } else { 1.0 };
        for at in places.iter().filter(|at| frame.area.contains(**at)) {
            canvas.marker(look.marker, *at, r, look.color, places.len() <= 400);
        }
    }
}

pub(super) fn draw_hist(canvas: &mut Canvas, outer: Rect, theme: &Theme, axes: [&Axis; 2], hist: &Hist) {
    let looks = looks(hist.series.iter().map(|_| Role::Other));
    let entries: Vec<(&str, Look)> =
        hist.series.iter().map(|(n, _)| n.as_str()).zip(looks.iter().copied()).collect();
    let outer = if entries.len() > 1 { legend(canvas, outer, theme, &entries, Key::Line) } else { outer };
    let most = hist.series.iter().flat_map(|(_, c)| c).copied().max().unwrap_or(1).max(1);
    let bounds = (hist.edges[0], hist.edges[hist.edges.len() - 1]);
    let spans = (Span::over(axes[0], bounds, 0.0), Span::over(axes[1], (0.0, most as f64), 0.05));
    let frame = frame(canvas, outer, theme, (axes[0], spans.0), (axes[1], spans.1), 2.0, true);
    let outlines = hist.series.iter().map(|(_, counts)| {
        let mut steps = vec![frame.at(hist.edges[0], 0.0)];
        for (count, edge) in counts.iter().zip(hist.edges.windows(2)) {
            steps.extend([frame.at(edge[0], *count as f64), frame.at(edge[1], *count as f64)]);
        }
        steps.push(frame.at(bounds.1, 0.0));
        steps
    });
    let outlines: Vec<Vec<Point>> = outlines.collect();
    for (steps, look) in outlines.iter().zip(&looks) {
        canvas.fill(&clip_polygon(steps, frame.area), look.color, 0.22);
    }
    for (steps, look) in outlines.iter().zip(&looks) {
        for part in clip_line(steps, frame.area) {
            canvas.dashed(&part, look.color, theme.line, look.dash);
        }
    }
}

fn counted(points: usize) -> String {
    if points == 1 { "1 point".into() } else { format!("{points} points") }
}

pub(super) fn describe_curves(series: &[Curve]) -> String {
    let each = series.iter().map(|c| {
        let (low, high) = extent(c.y.iter());
        let band = if c.band.is_some() { ", with a band" } else { "" };
        let last = c.y.last().copied().unwrap_or_default();
        let (n, low, high, last) = (counted(c.x.len()), short(low), short(high), short(last));
        format!("{} ({n}, from {low} to {high}, last {last}{band})", c.name)
    });
    each.collect::<Vec<_>>().join("; ")
}

pub(super) fn describe_points(series: &[Points]) -> String {
    let each = series.iter().map(|p| {
        let ((a, b), (c, d)) = (extent(p.x.iter()), extent(p.y.iter()));
        let (n, a, b, c, d) = (counted(p.x.len()), short(a), short(b), short(c), short(d));
        format!("{} ({n}, x from {a} to {b}, y from {c} to {d})", p.name)
    });
    each.collect::<Vec<_>>().join("; ")
}

impl Hist {
    pub fn describe(&self) -> String {
        let each = self.series.iter().map(|(name, counts)| {
            let (peak, count) =
                counts.iter().enumerate().fold((0, 0), |b, (i, c)| if *c > b.1 { (i, *c) } else { b });
            let (low, high) = (short(self.edges[peak]), short(self.edges[peak + 1]));
            format!("{name} ({} values, most, {count}, from {low} to {high})", counts.iter().sum::<usize>())
        });
        each.collect::<Vec<_>>().join("; ")
    }

    pub fn names(&self) -> Vec<(String, usize)> {
        self.series.iter().map(|(name, counts)| (name.clone(), counts.iter().sum())).collect()
    }

    pub fn rows(&self, emit: &mut dyn FnMut(&[Entry])) {
        for (name, counts) in &self.series {
            for (count, edge) in counts.iter().zip(self.edges.windows(2)) {
                emit(&[
                    Entry::Text(name),
                    Entry::Number(edge[0]),
                    Entry::Number(edge[1]),
                    Entry::Count(*count),
                ]);
            }
        }
    }
}
