//! The drawing surface: plotters' SVG backend, in tenths of a pixel because its coordinates are integers.

use std::fmt::Write;

use plotters::backend::SVGBackend;
use plotters::prelude::{DrawingBackend, FontTransform, IntoFont, RGBAColor, ShapeStyle, TextStyle};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::font::{CAP, Label};
use super::geometry::{Point, Rect, dashes};
use super::png;
use super::turns;

/// Red, green, blue.
pub(super) type Rgb = (u8, u8, u8);

pub(super) const BLACK: Rgb = (0, 0, 0);
pub(super) const WHITE: Rgb = (255, 255, 255);
/// Axes, ticks and their text.
pub(super) const INK: Rgb = (38, 38, 38);
pub(super) const GRID: Rgb = (224, 224, 224);
pub(super) const GREY: Rgb = (96, 96, 96);

const FAMILY: &str = "Liberation Sans, Arimo, Arial, Helvetica, sans-serif";

/// Drawing units per pixel.
const UNITS: f64 = 10.0;

/// Pixels of line up to which dashes are cut: several times across a full page.
const LONGEST_DASHED: f64 = 6000.0;

/// Where a text stands relative to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Number of shapes of data points; series take them in order, the most different first.
pub(super) const MARKERS: usize = 8;

pub(super) struct Canvas<'a> {
    svg: SVGBackend<'a>,
    /// Raster images, which lie under everything else.
    images: String,
    /// Groups that take turns and what they share, above the images.
    frames: String,
}

/// Draws a picture of a size in pixels, on white, and returns it as SVG.
pub(super) fn render(
    (width, height): (f64, f64),
    description: &str,
    draw: impl FnOnce(&mut Canvas),
) -> String {
    let size = (unit(width) as u32, unit(height) as u32);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.2}\" height=\"{height:.2}\" viewBox=\"0 0 {} {}\" \
         role=\"img\" aria-label=\"{}\" font-family=\"{FAMILY}\" stroke-linejoin=\"round\">\n\
         <rect width=\"{}\" height=\"{}\" fill=\"#FFFFFF\"/>\n{}</svg>\n",
        size.0,
        size.1,
        escape(description),
        size.0,
        size.1,
        elements(size, draw),
    )
}

/// What is drawn on a page of a size in drawing units, without the root element.
fn elements(size: (u32, u32), draw: impl FnOnce(&mut Canvas)) -> String {
    let mut text = String::new();
    let below = {
        let svg = SVGBackend::with_string(&mut text, size);
        let mut canvas = Canvas { svg, images: String::new(), frames: String::new() };
        draw(&mut canvas);
        canvas.images + &canvas.frames // the rest is dropped here, which closes the root element
    };
    // The root is ours (physical size, font, description). What every element repeats is set there once or is the
    // default; `dy` would move text off the baseline we computed. Labels cannot be hit: quotes in them are escaped.
    let body = text.split_once('\n').map_or("", |(_, body)| body);
    let body = body.strip_suffix("</svg>\n").unwrap_or(body);
    let body = [" dy=\"-0.5ex\"", " opacity=\"1\"", " font-family=\"sans-serif\"", " text-anchor=\"start\""]
        .iter()
        .fold(body.to_string(), |body, repeated| body.replace(repeated, ""));
    below + &body
}

/// Text as an XML attribute may hold it; control characters, which XML forbids, become spaces.
pub(super) fn escape(text: &str) -> String {
    let clean = text.replace(|c: char| c.is_control(), " ");
    clean.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn unit(px: f64) -> i32 {
    (px * UNITS).round() as i32
}

fn units((x, y): Point) -> (i32, i32) {
    (unit(x), unit(y))
}

/// Pen or brush. Colours and opacity are the backend's; widths are in pixels.
fn paint(color: Rgb, alpha: f64, width: f64) -> ShapeStyle {
    let color = RGBAColor(color.0, color.1, color.2, alpha);
    ShapeStyle { color, filled: true, stroke_width: unit(width).max(1) as u32 }
}

// The backend writes into a string, which cannot fail, so its results are dropped.
impl Canvas<'_> {
    pub fn line(&mut self, points: &[Point], color: Rgb, width: f64) {
        if points.len() > 1 {
            let _ = self.svg.draw_path(points.iter().copied().map(units), &paint(color, 1.0, width));
        }
    }

    /// Line with a dash pattern, pieces of line and gap in pixels; the backend has none, so we cut the line. A line
    /// that fills an area (noise) stays whole: no pattern would show, and the pieces would be many.
    pub fn dashed(&mut self, points: &[Point], color: Rgb, width: f64, pattern: &[f64]) {
        let length: f64 = points.windows(2).map(|p| (p[1].0 - p[0].0).hypot(p[1].1 - p[0].1)).sum();
        if pattern.is_empty() || length > LONGEST_DASHED {
            return self.line(points, color, width);
        }
        for piece in dashes(points, pattern) {
            self.line(&piece, color, width);
        }
    }

    pub fn fill(&mut self, points: &[Point], color: Rgb, alpha: f64) {
        if points.len() > 2 {
            let _ = self.svg.fill_polygon(points.iter().copied().map(units), &paint(color, alpha, 0.1));
        }
    }

    pub fn rect(&mut self, area: Rect, color: Rgb, alpha: f64) {
        let (from, to) = (units((area.left, area.top)), units((area.right, area.bottom)));
        let _ = self.svg.draw_rect(from, to, &paint(color, alpha, 0.1), true);
    }

    pub fn outline(&mut self, area: Rect, color: Rgb, width: f64) {
        let Rect { left, top, right, bottom } = area;
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top), (right, top)];
        self.line(&corners, color, width);
    }

    /// Text whose baseline passes through a point.
    pub fn text(&mut self, text: &str, at: Point, anchor: Anchor, size: f64, color: Rgb) {
        self.write(text, at, anchor, size, color, false);
    }

    /// Text centred on a height.
    pub fn text_middle(&mut self, text: &str, (x, y): Point, anchor: Anchor, size: f64, color: Rgb) {
        self.text(text, (x, y + CAP * size / 2.0), anchor, size, color);
    }

    /// Text that reads upwards; the point is on its baseline.
    pub fn text_up(&mut self, text: &str, at: Point, anchor: Anchor, size: f64, color: Rgb) {
        self.write(text, at, anchor, size, color, true);
    }

    fn write(&mut self, text: &str, at: Point, anchor: Anchor, size: f64, color: Rgb, up: bool) {
        let text = text.replace(|c: char| c.is_control(), " ");
        if text.trim().is_empty() {
            return;
        }
        let across = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        // The backend divides sizes by 1.24 to turn a line height into a font size.
        let color = RGBAColor(color.0, color.1, color.2, 1.0);
        let turn = if up { FontTransform::Rotate270 } else { FontTransform::None };
        let style = TextStyle::from(("sans-serif", f64::from(unit(size)) * 1.24).into_font().transform(turn))
            .color(&color)
            .pos(Pos::new(across, VPos::Bottom));
        let _ = self.svg.draw_text(&text, &style, units(at));
    }

    /// Number with its raised exponent; the point is on the baseline.
    pub fn label(&mut self, label: &Label, (x, y): Point, anchor: Anchor, size: f64, color: Rgb) {
        let start = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - label.width(size) / 2.0,
            Anchor::End => x - label.width(size),
        };
        for (text, right, up, size) in label.pieces(size) {
            self.text(text, (start + right, y - up), Anchor::Start, size, color);
        }
    }

    /// Data point; `halo` sets it off from whatever lies below.
    pub fn marker(&mut self, kind: usize, (x, y): Point, r: f64, color: Rgb, halo: bool) {
        let ring = |points: &[Point]| points.iter().map(|(u, v)| (x + r * u, y + r * v)).collect::<Vec<_>>();
        let closed = match kind % MARKERS {
            0 => return self.disc((x, y), r, color, if halo { Some(WHITE) } else { None }),
            1 => ring(&[(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)]),
            2 => ring(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
            3 => ring(&[(0.0, -1.3), (1.15, 0.0), (0.0, 1.3), (-1.15, 0.0)]),
            4 => {
                self.disc((x, y), r, WHITE, None);
                let _ = self.svg.draw_circle(units((x, y)), unit(r) as u32, &paint(color, 1.0, 1.1), false);
                return;
            }
            5 | 6 => {
                let arms =
                    if kind % MARKERS == 5 { [(1.2, 0.0), (0.0, 1.2)] } else { [(0.9, 0.9), (0.9, -0.9)] };
                for (width, color) in [(2.6, WHITE), (1.2, color)].into_iter().skip(usize::from(!halo)) {
                    for (u, v) in arms {
                        self.line(&ring(&[(-u, -v), (u, v)]), color, width);
                    }
                }
                return;
            }
            _ => ring(&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)]),
        };
        self.fill(&closed, color, 1.0);
        if halo {
            let mut edge = closed.clone();
            edge.extend([closed[0], closed[1]]);
            self.line(&edge, WHITE, 0.7);
        }
    }

    fn disc(&mut self, at: Point, r: f64, color: Rgb, edge: Option<Rgb>) {
        let _ = self.svg.draw_circle(units(at), unit(r) as u32, &paint(color, 1.0, 0.1), true);
        if let Some(edge) = edge {
            let _ = self.svg.draw_circle(units(at), unit(r) as u32, &paint(edge, 1.0, 0.7), false);
        }
    }

    /// What would be drawn, on a page of the same size.
    pub fn aside(&self, draw: impl FnOnce(&mut Canvas)) -> String {
        elements(self.svg.get_size(), draw)
    }

    /// Adds frames that take turns, their titles within the upper `titles` pixels of the page.
    pub fn turns(&mut self, frames: &[turns::Frame], titles: f64, seconds: f64) {
        self.frames.push_str(&turns::write(frames, unit(titles), seconds));
    }

    /// Raster image stretched over an area, its pixels kept square and sharp unless `smooth`.
    pub fn image(&mut self, pixels: &png::Pixels, area: Rect, smooth: bool) {
        // Whoever makes pixels makes as many as the size says, which is all that can fail in memory.
        let Ok(file) = pixels.encode() else { return };
        let ((x, y), (right, bottom)) = (units((area.left, area.top)), units((area.right, area.bottom)));
        let sharp = if smooth { "" } else { " style=\"image-rendering:pixelated\"" };
        let _ = writeln!(
            self.images,
            "<image x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\"{sharp} \
             href=\"data:image/png;base64,{}\"/>",
            right - x,
            bottom - y,
            png::base64(&file),
        );
    }
}

/// A colour dark enough to be read as text on white: at least 4.5 to 1, as WCAG asks.
pub(super) fn readable(color: Rgb) -> Rgb {
    let mut part = 1.0;
    loop {
        let shade = |c: u8| (f64::from(c) * part).round() as u8;
        let dark = (shade(color.0), shade(color.1), shade(color.2));
        if 1.05 / (luminance(dark) + 0.05) >= 4.5 || part <= 0.1 {
            return dark;
        }
        part -= 0.05;
    }
}

/// Relative luminance of a colour, 0 for black and 1 for white.
pub(super) fn luminance(color: Rgb) -> f64 {
    let linear = |c: u8| {
        let c = f64::from(c) / 255.0;
        if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(color.0) + 0.7152 * linear(color.1) + 0.0722 * linear(color.2)
}

/// The colour map cividis, which reads the same with and without colour vision, and in grey (Nuñez et al. 2018).
pub(super) fn cividis(part: f64) -> Rgb {
    const STOPS: [Rgb; 10] = [
        (0x00, 0x22, 0x4e),
        (0x12, 0x35, 0x70),
        (0x3b, 0x49, 0x6c),
        (0x57, 0x5d, 0x6d),
        (0x70, 0x71, 0x73),
        (0x8a, 0x86, 0x78),
        (0xa5, 0x9c, 0x74),
        (0xc3, 0xb3, 0x69),
        (0xe1, 0xcc, 0x55),
        (0xfe, 0xe8, 0x38),
    ];
    let place = part.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let below = (place as usize).min(STOPS.len() - 2);
    let (a, b, t) = (STOPS[below], STOPS[below + 1], place - below as f64);
    let mix = |a: u8, b: u8| (f64::from(a) + t * (f64::from(b) - f64::from(a))).round() as u8;
    (mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}
