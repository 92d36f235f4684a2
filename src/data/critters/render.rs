//! One face, painted back to front in the order of the recipe. Only + − × ÷ and √ are used, so that platforms agree.

use super::Critters;
use crate::seed::Seed;

type Rgb = [f64; 3];

// The nuisance draws of an image.
const DRAW_PLACE: u64 = 256;
const DRAW_BACKGROUND: u64 = 260;
const DRAW_COAT: u64 = 266;
const DRAW_LIGHT: u64 = 270;
const DRAW_PIXEL: u64 = 1024;

const SIDES: [f64; 2] = [-1.0, 1.0];
const IVORY: Rgb = [0.95, 0.92, 0.75];
const EYE: Rgb = [0.97; 3];
const PUPIL: Rgb = [0.05, 0.05, 0.08];
const BROW: Rgb = [0.12, 0.08, 0.06];
const FRAME: Rgb = [0.08, 0.08, 0.30];
const CHEEK: Rgb = [0.95, 0.45, 0.50];
const NOSE: Rgb = [0.25, 0.15, 0.15];
const CAVITY: Rgb = [0.12, 0.02, 0.04];
const WHISKER: Rgb = [0.98; 3];
const COLLAR: Rgb = [0.15, 0.55, 0.25];

/// Paints the face with these strengths into `pixels`, channel by channel, row by row.
pub(super) fn draw(critters: &Critters, stream: Seed, strength: &[f64; 16], pixels: &mut [u8]) {
    let size = critters.size;
    let face = Face::new(critters, stream, strength);
    let plane = size * size;
    for row in 0..size {
        for column in 0..size {
            let place = row * size + column;
            let colour = face.pixel(column, row);
            for (channel, value) in colour.iter().enumerate() {
                let p = channel * plane + place;
                let noise = critters.noise * 3f64.sqrt() * pixel_noise(stream.draw(DRAW_PIXEL + p as u64));
                pixels[p] = (255.0 * (value + noise).clamp(0.0, 1.0) + 0.5).floor() as u8;
            }
        }
    }
}

/// Sum of the four quarters of a draw, centred: variance 1/3, for a quarter of the draws.
fn pixel_noise(draw: u64) -> f64 {
    let quarters = (draw & 0xffff) + (draw >> 16 & 0xffff) + (draw >> 32 & 0xffff) + (draw >> 48);
    quarters as f64 / 65536.0 - 2.0
}

/// All that one picture has in common between its pixels.
struct Face<'a> {
    strength: &'a [f64; 16],
    size: f64,
    shift: (f64, f64),
    turn: (f64, f64),
    scale: f64,
    background: [Rgb; 2],
    coat: Rgb,
    light: (f64, f64),
}

impl<'a> Face<'a> {
    fn new(critters: &Critters, stream: Seed, strength: &'a [f64; 16]) -> Face<'a> {
        let jitter = |c: u64, half: f64| {
            let half = half * critters.jitter;
            -half + 2.0 * half * stream.uniform(c)
        };
        let t = jitter(DRAW_PLACE + 3, 0.06);
        let sky = |c: u64| 0.55 + jitter(c, 0.20);
        let background = [0, 3].map(|first| [0, 1, 2].map(|c| sky(DRAW_BACKGROUND + first + c)));
        let (dark, warm) = (strength[4], strength[5]);
        let (level, warmth) = (0.80 - 0.48 * dark, warm - 0.5);
        let tint = |c: u64| jitter(DRAW_COAT + c, 0.04);
        Face {
            strength,
            size: critters.size as f64,
            shift: (jitter(DRAW_PLACE, 0.08), jitter(DRAW_PLACE + 1, 0.08)),
            turn: ((1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t)),
            scale: 1.0 + jitter(DRAW_PLACE + 2, 0.06),
            background,
            coat: [level + 0.22 * warmth + tint(0), level - 0.02 + tint(1), level - 0.22 * warmth + tint(2)],
            light: (jitter(DRAW_LIGHT, 0.12), jitter(DRAW_LIGHT + 1, 0.12)),
        }
    }

    fn pixel(&self, column: usize, row: usize) -> Rgb {
        let centre = |i: usize| (i as f64 + 0.5) / self.size * 2.0 - 1.0;
        let (x, y) = (centre(column) - self.shift.0, centre(row) - self.shift.1);
        let (cos, sin) = self.turn;
        let u = (cos * x + sin * y) / self.scale;
        let v = (-sin * x + cos * y) / self.scale;
        let mut brush = Brush { u, v, size: self.size, colour: self.backdrop(v) };
        self.head(&mut brush);
        self.eyes(&mut brush);
        self.mouth(&mut brush);
        let light = 1.0 + self.light.0 * u + self.light.1 * v;
        brush.colour.map(|c| c * light)
    }

    fn backdrop(&self, v: f64) -> Rgb {
        let weight = ((v + 1.0) / 2.0).clamp(0.0, 1.0);
        let [top, bottom] = self.background;
        [0, 1, 2].map(|c| top[c] * (1.0 - weight) + weight * bottom[c])
    }

    /// Ears, horns, head, stripes and spots.
    fn head(&self, brush: &mut Brush) {
        let [horns, pointed, stripes, spots, ..] = *self.strength;
        let shade = |factor: f64, lift: f64| self.coat.map(|c| factor * c + lift);
        for side in SIDES {
            let round = brush.cover(brush.ellipse((side * 0.56, -0.60), (0.24, 0.24)));
            let sharp = brush.cover(brush.triangle([
                (side * 0.34, -0.58),
                (side * 0.80, -0.38),
                (side * 0.74, -0.98),
            ]));
            brush.put((1.0 - pointed) * round + pointed * sharp, shade(0.85, 0.0));
        }
        for side in SIDES {
            let horn = brush.triangle([(side * 0.12, -0.62), (side * 0.34, -0.58), (side * 0.26, -1.02)]);
            brush.put(horns * brush.cover(horn), IVORY);
        }
        let head = brush.cover(brush.ellipse((0.0, 0.06), (0.72, 0.76)));
        brush.put(head, self.coat);
        for u in [-0.36, -0.12, 0.12, 0.36] {
            let bar = brush.cover(brush.rectangle((u, -0.47), (0.045, 0.16)));
            brush.put(0.8 * stripes * bar * head, shade(0.35, 0.0));
        }
        for at in [(-0.50, 0.02), (0.52, 0.06), (-0.34, 0.50), (0.36, 0.52), (0.0, -0.28), (0.0, 0.62)] {
            let disc = brush.cover(brush.ellipse(at, (0.085, 0.085)));
            brush.put(0.8 * spots * disc * head, shade(0.45, 0.05));
        }
    }

    /// Eyes, brows, glasses, cheeks and nose.
    fn eyes(&self, brush: &mut Brush) {
        let (big_eyes, cheeks, brows, glasses) =
            (self.strength[7], self.strength[12], self.strength[13], self.strength[14]);
        for side in SIDES {
            let radius = 0.11 + 0.09 * big_eyes;
            brush.put(brush.cover(brush.ellipse((side * 0.28, -0.10), (radius, radius))), EYE);
            brush.put(brush.cover(brush.ellipse((side * 0.28 + 0.02, -0.09), (0.055, 0.055))), PUPIL);
            let brow = brush.segment((side * 0.42, -0.33), (side * 0.15, -0.37)) - (0.012 + 0.055 * brows);
            brush.put(brush.cover(brow), BROW);
            let ring = brush.ellipse((side * 0.28, -0.10), (0.24, 0.22)).abs() - 0.028;
            brush.put(glasses * brush.cover(ring), FRAME);
            let cheek = brush.cover(brush.ellipse((side * 0.46, 0.26), (0.13, 0.10)));
            brush.put(0.75 * cheeks * cheek, CHEEK);
        }
        let bridge = brush.segment((-0.05, -0.12), (0.05, -0.12)) - 0.028;
        brush.put(glasses * brush.cover(bridge), FRAME);
        brush.put(brush.cover(brush.ellipse((0.0, 0.14), (0.07, 0.055))), NOSE);
    }

    /// Mouth, whiskers and collar.
    fn mouth(&self, brush: &mut Brush) {
        let [smile, open, red, big] = [8, 9, 10, 11].map(|j| self.strength[j]);
        let (whiskers, collar) = (self.strength[6], self.strength[15]);
        let (opening, thickness) = (0.10 * open, 0.022 + 0.055 * big);
        let line = 0.42 - 6.0 * (smile - 0.5) * (brush.u * brush.u - 0.04);
        let from_line = (brush.v - line).abs();
        let lips = (from_line - (opening + thickness)).max(brush.u.abs() - 0.30);
        brush.put(brush.cover(lips), [0.30 + 0.55 * red, 0.16 - 0.04 * red, 0.18 - 0.02 * red]);
        if open > 0.15 {
            brush.put(brush.cover((from_line - opening).max(brush.u.abs() - 0.26)), CAVITY);
        }
        for side in SIDES {
            for end in [0.14, 0.24, 0.34] {
                let hair = brush.segment((side * 0.30, 0.24), (side * 0.86, end)) - 0.014;
                brush.put(0.9 * whiskers * brush.cover(hair), WHISKER);
            }
        }
        brush.put(collar * brush.cover(brush.rectangle((0.0, 0.86), (0.5, 0.09))), COLLAR);
    }
}

/// One pixel in the frame of the face (u to the right, v down), with signed distances to shapes, negative inside.
struct Brush {
    u: f64,
    v: f64,
    size: f64,
    colour: Rgb,
}

impl Brush {
    /// Share of the pixel inside a shape at this distance.
    fn cover(&self, distance: f64) -> f64 {
        (0.5 - distance * self.size / 2.0).clamp(0.0, 1.0)
    }

    fn put(&mut self, mask: f64, colour: Rgb) {
        if mask > 0.0 {
            self.colour = [0, 1, 2].map(|c| self.colour[c] * (1.0 - mask) + mask * colour[c]);
        }
    }

    fn ellipse(&self, (cx, cy): (f64, f64), (rx, ry): (f64, f64)) -> f64 {
        let (x, y) = ((self.u - cx) / rx, (self.v - cy) / ry);
        ((x * x + y * y).sqrt() - 1.0) * rx.min(ry)
    }

    fn rectangle(&self, (cx, cy): (f64, f64), (half_width, half_height): (f64, f64)) -> f64 {
        ((self.u - cx).abs() - half_width).max((self.v - cy).abs() - half_height)
    }

    /// Distance to a segment; take off half its width.
    fn segment(&self, (ax, ay): (f64, f64), (bx, by): (f64, f64)) -> f64 {
        let (dx, dy) = (bx - ax, by - ay);
        let (px, py) = (self.u - ax, self.v - ay);
        let along = ((px * dx + py * dy) / (dx * dx + dy * dy)).clamp(0.0, 1.0);
        let (x, y) = (px - along * dx, py - along * dy);
        (x * x + y * y).sqrt()
    }

    fn triangle(&self, corners: [(f64, f64); 3]) -> f64 {
        let [(ax, ay), (bx, by), (cx, cy)] = corners;
        // Corners may run either way round; the sign of the area turns the normals outward.
        let turn = if (bx - ax) * (cy - ay) - (by - ay) * (cx - ax) > 0.0 { 1.0 } else { -1.0 };
        let side = |i: usize| {
            let ((x0, y0), (x1, y1)) = (corners[i], corners[(i + 1) % 3]);
            let (dx, dy) = (x1 - x0, y1 - y0);
            turn * ((self.u - x0) * dy - (self.v - y0) * dx) / (dx * dx + dy * dy).sqrt()
        };
        side(0).max(side(1)).max(side(2))
    }
}
