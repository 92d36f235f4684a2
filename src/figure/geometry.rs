//! Plane geometry of pictures: clipping, dashes, contour lines, and thinning of long series.

/// Place in the picture, in pixels from the upper left corner.
pub(super) type Point = (f64, f64);

/// Upright rectangle in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Rect {
    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }

    pub fn contains(&self, (x, y): Point) -> bool {
        // Half of what the canvas can draw, because the ends of an axis are computed in floating point.
        let grace = 0.05;
        let across = (self.left - grace..=self.right + grace).contains(&x);
        across && (self.top - grace..=self.bottom + grace).contains(&y)
    }
}

/// The parts of a line that lie inside a rectangle (Liang and Barsky, segment by segment).
pub(super) fn clip_line(points: &[Point], area: Rect) -> Vec<Vec<Point>> {
    let mut parts: Vec<Vec<Point>> = Vec::new();
    let mut open = false;
    for pair in points.windows(2) {
        let Some((a, b)) = clip_segment(pair[0], pair[1], area) else {
            open = false;
            continue;
        };
        match parts.last_mut() {
            Some(part) if open => part.push(b),
            _ => parts.push(vec![a, b]),
        }
        open = b == pair[1];
    }
    parts
}

pub(super) fn clip_segment(a: Point, b: Point, area: Rect) -> Option<(Point, Point)> {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let (mut from, mut to) = (0.0f64, 1.0f64);
    let sides =
        [(-dx, a.0 - area.left), (dx, area.right - a.0), (-dy, a.1 - area.top), (dy, area.bottom - a.1)];
    for (speed, room) in sides {
        if speed == 0.0 {
            if room < 0.0 {
                return None;
            }
        } else if speed < 0.0 {
            from = from.max(room / speed);
        } else {
            to = to.min(room / speed);
        }
    }
    if from > to {
        return None;
    }
    // The untouched end is returned as it was, so that pieces of one line still join.
    let at = |t: f64| (a.0 + t * dx, a.1 + t * dy);
    Some((if from == 0.0 { a } else { at(from) }, if to == 1.0 { b } else { at(to) }))
}

/// The part of a polygon inside a rectangle (Sutherland and Hodgman).
pub(super) fn clip_polygon(points: &[Point], area: Rect) -> Vec<Point> {
    let sides: [(f64, f64, f64); 4] =
        [(1.0, 0.0, area.left), (-1.0, 0.0, -area.right), (0.0, 1.0, area.top), (0.0, -1.0, -area.bottom)];
    let mut kept = points.to_vec();
    for (u, v, limit) in sides {
        let depth = |p: Point| u * p.0 + v * p.1 - limit;
        let before = std::mem::take(&mut kept);
        for (i, &b) in before.iter().enumerate() {
            let a = before[(i + before.len() - 1) % before.len()];
            let (da, db) = (depth(a), depth(b));
            if (da >= 0.0) != (db >= 0.0) {
                let t = da / (da - db);
                kept.push((a.0 + t * (b.0 - a.0), a.1 + t * (b.1 - a.1)));
            }
            if db >= 0.0 {
                kept.push(b);
            }
        }
    }
    kept
}

/// Cuts a line into dashes: `pattern` alternates lengths of line and gap.
pub(super) fn dashes(points: &[Point], pattern: &[f64]) -> Vec<Vec<Point>> {
    let mut pieces = Vec::new();
    let mut piece = points.first().map_or(Vec::new(), |p| vec![*p]);
    let (mut turn, mut left) = (0, pattern[0]);
    for pair in points.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let length = (b.0 - a.0).hypot(b.1 - a.1);
        let mut walked = 0.0;
        while length - walked > left {
            walked += left;
            let here = (a.0 + (b.0 - a.0) * walked / length, a.1 + (b.1 - a.1) * walked / length);
            if turn % 2 == 0 {
                piece.push(here);
                pieces.push(std::mem::take(&mut piece));
            } else {
                piece = vec![here];
            }
            turn += 1;
            left = pattern[turn % pattern.len()];
        }
        left -= length - walked;
        if turn % 2 == 0 {
            piece.push(b);
        }
    }
    if piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}

/// Indices to draw of a series whose x never decreases: per pixel column the first, lowest, highest and last value,
/// so that no peak is lost.
pub(super) fn envelope(columns: &[i64], y: &[f64]) -> Vec<usize> {
    let mut kept = Vec::new();
    let mut start = 0;
    while start < y.len() {
        let end = start + columns[start..].iter().take_while(|c| **c == columns[start]).count();
        let (mut low, mut high) = (start, start);
        for i in start..end {
            if y[i] < y[low] {
                low = i;
            }
            if y[i] > y[high] {
                high = i;
            }
        }
        let mut four = [start, low.min(high), low.max(high), end - 1].to_vec();
        four.dedup();
        kept.extend(four);
        start = end;
    }
    kept
}

/// Contour line of a sampled field at one level, as open or closed lines in sample coordinates (column, row).
///
/// ```text
/// marching squares: every cell edge whose ends lie on both sides of the level is crossed once; the crossing is
/// found by linear interpolation, so it is off by at most O(h²) inside a cell of side h
/// ```
/// A saddle is joined by the mean of its corners. Cost: one pass over the cells.
/// Checked by `tests/figure.rs::contour_of_a_circle_has_its_radius`.
pub(super) fn contour(values: &[f64], columns: usize, level: f64) -> Vec<Vec<Point>> {
    let rows = values.len() / columns.max(1);
    let at = |c: usize, r: usize| values[r * columns + c] - level;
    let mut segments: Vec<[(usize, Point); 2]> = Vec::new();
    for r in 0..rows.saturating_sub(1) {
        for c in 0..columns.saturating_sub(1) {
            let corners = [(c, r), (c + 1, r), (c + 1, r + 1), (c, r + 1)];
            // An edge has one number, whichever cell looks at it: twice its first sample, plus one if it is vertical.
            let edges = [(0, 1, 2 * (r * columns + c)), (1, 2, 2 * (r * columns + c + 1) + 1)];
            let edges = edges
                .into_iter()
                .chain([(3, 2, 2 * ((r + 1) * columns + c)), (0, 3, 2 * (r * columns + c) + 1)]);
            let crossed: Vec<(usize, Point)> = edges
                .filter_map(|(i, j, name)| {
                    let ((ci, ri), (cj, rj)) = (corners[i], corners[j]);
                    let (a, b) = (at(ci, ri), at(cj, rj));
                    let t = a / (a - b);
                    let place =
                        (ci as f64 + t * (cj as f64 - ci as f64), ri as f64 + t * (rj as f64 - ri as f64));
                    ((a < 0.0) != (b < 0.0)).then_some((name, place))
                })
                .collect();
            match crossed[..] {
                [a, b] => segments.push([a, b]),
                [top, right, bottom, left] => {
                    let mean = corners.iter().map(|(c, r)| at(*c, *r)).sum::<f64>();
                    if (mean < 0.0) == (at(c, r) < 0.0) {
                        segments.extend([[top, right], [bottom, left]]);
                    } else {
                        segments.extend([[left, top], [right, bottom]]);
                    }
                }
                _ => {}
            }
        }
    }
    join(&segments)
}

/// Joins segments that share an edge into lines.
fn join(segments: &[[(usize, Point); 2]]) -> Vec<Vec<Point>> {
    // A map ordered by edge, so that equal fields give equal bytes.
    let mut ends: std::collections::BTreeMap<usize, Vec<usize>> = Default::default();
    for (i, segment) in segments.iter().enumerate() {
        for (edge, _) in segment {
            ends.entry(*edge).or_default().push(i);
        }
    }
    let mut used = vec![false; segments.len()];
    let mut lines = Vec::new();
    // Open lines first, from an edge only one segment touches; what is left are closed ones.
    let open = ends.iter().filter(|(_, list)| list.len() == 1).map(|(edge, list)| (*edge, list[0]));
    let closed = segments.iter().enumerate().map(|(i, s)| (s[0].0, i));
    for (edge, first) in open.chain(closed) {
        let (mut edge, mut next) = (edge, Some(first));
        let mut line = Vec::new();
        while let Some(i) = next.filter(|i| !used[*i]) {
            used[i] = true;
            let [a, b] = segments[i];
            let (from, to) = if a.0 == edge { (a, b) } else { (b, a) };
            if line.is_empty() {
                line.push(from.1);
            }
            line.push(to.1);
            edge = to.0;
            next = ends.get(&edge).and_then(|list| list.iter().copied().find(|j| !used[*j]));
        }
        if line.len() > 1 {
            lines.push(line);
        }
    }
    lines
}
