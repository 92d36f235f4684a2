//! Axes: from data to pixels, and where the ticks go.

use super::font::{Label, text_width};

/// What a linear axis takes for zero: below it, powers of ten and their quotients leave the range of f64.
pub(super) const SMALLEST: f64 = 1e-100;

/// How numbers become lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Log,
}

/// What the caller asked of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub label: String,
    pub scale: Scale,
    pub range: Option<(f64, f64)>,
}

impl Default for Axis {
    fn default() -> Axis {
        Axis { label: String::new(), scale: Scale::Linear, range: None }
    }
}

/// A resolved axis: from `low` to `high`, never empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub scale: Scale,
    pub low: f64,
    pub high: f64,
}

impl Span {
    /// Axis for data from `low` to `high`, widened by the part `pad` on both sides unless the caller set a range.
    pub fn over(axis: &Axis, (low, high): (f64, f64), pad: f64) -> Span {
        let scale = axis.scale;
        if let Some((low, high)) = axis.range {
            return Span { scale, low, high };
        }
        if scale == Scale::Log {
            let (a, b) = (low.log10(), high.log10());
            let pad = if b - a < 1e-9 { 0.3 } else { pad * (b - a) };
            return Span { scale, low: 10f64.powf(a - pad), high: 10f64.powf(b + pad) };
        }
        let size = low.abs().max(high.abs());
        if size < SMALLEST {
            return Span { scale, low: -1.0, high: 1.0 };
        }
        // A constant, up to rounding, gets a range around it in which it can be read.
        let pad = if high - low <= 1e-12 * size { 0.1 * size } else { pad * (high - low) };
        // Padding must not suggest values of the other sign.
        let low = if low >= 0.0 { (low - pad).max(0.0) } else { low - pad };
        let high = if high <= 0.0 { (high + pad).min(0.0) } else { high + pad };
        Span { scale, low, high }
    }

    /// Place of a value along the axis, 0 at its start and 1 at its end.
    pub fn part(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.log10() - self.low.log10()) / (self.high.log10() - self.low.log10()),
        }
    }
}

/// Which way the labels of an axis may collide.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Way {
    Across,
    Up,
}

/// Ticks of an axis: labelled ones, small ones between, and what all labels share (a power of ten, an offset).
#[derive(Clone, Debug, Default)]
pub(super) struct Ticks {
    pub marks: Vec<(f64, Label)>,
    pub small: Vec<f64>,
    pub shared: Option<Label>,
}

impl Ticks {
    pub fn widest(&self, size: f64) -> f64 {
        self.marks.iter().map(|(_, label)| label.width(size)).fold(0.0, f64::max)
    }
}

/// Ticks for an axis of a length in pixels: as many as read well, and never two labels that touch.
///
/// Checked by `tests/figure.rs::random_ranges_have_legible_ticks`.
pub(super) fn ticks(span: &Span, length: f64, size: f64, way: Way) -> Ticks {
    let fits = |ticks: &Ticks| {
        ticks.marks.windows(2).all(|pair| {
            let apart = (span.part(pair[1].0) - span.part(pair[0].0)) * length;
            let need = match way {
                Way::Across => (pair[0].1.width(size) + pair[1].1.width(size)) / 2.0 + text_width("0", size),
                Way::Up => 1.5 * size,
            };
            apart >= need
        })
    };
    // About one label per two text heights upwards, per four across.
    let most = (length / (size * if way == Way::Up { 2.2 } else { 4.2 })).clamp(2.0, 8.0) as usize;
    let sets = match span.scale {
        Scale::Log => log_candidates(span, most),
        Scale::Linear => Vec::new(),
    };
    if let Some(ticks) = sets.into_iter().find(|t| fits(t)) {
        return ticks;
    }
    // The most labels within the limit; two that pass it are better than one that does not.
    let sets: Vec<Ticks> = (1..=most + 6).map(|n| linear_ticks(span, n)).filter(|t| fits(t)).collect();
    let count = |t: &&Ticks| t.marks.len();
    let within = sets.iter().filter(|t| t.marks.len() <= most.max(3)).max_by_key(count);
    let best = within.filter(|t| t.marks.len() > 1).or_else(|| sets.iter().max_by_key(count));
    best.cloned().unwrap_or_default()
}

/// Multiples of 1, 2, 2.5 or 5 times a power of ten, at most `most` + 1 of them.
fn linear_ticks(span: &Span, most: usize) -> Ticks {
    let rough = (span.high - span.low) / most as f64;
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * decade).find(|s| *s >= rough * 0.999);
    let step = step.unwrap_or(10.0 * decade);
    let slack = 1e-6;
    let (first, last) = ((span.low / step - slack).ceil(), (span.high / step + slack).floor());
    if !(step > 0.0 && last >= first && last - first <= 1000.0) {
        return Ticks::default();
    }
    let counts: Vec<f64> = (0..=(last - first) as usize).map(|i| first + i as f64).collect();
    let size = first.abs().max(last.abs()) * step;
    // The place of the step's last digit, which 2.5 has one further down.
    let step_power = power(step) - i32::from((step / 10f64.powi(power(step)) - 2.5).abs() < 1e-6);
    let size_power = power(size);
    // More than six digits are read as an offset and a rest, and far from one as a shared power of ten.
    let offset = if size_power - step_power > 5 { roundest(first, last, step) } else { 0.0 };
    let rest_power = power((first - offset).abs().max((last - offset).abs()) * step);
    let shift = if !(-3..5).contains(&rest_power) { rest_power } else { 0 };
    let decimals = (shift - step_power).max(0) as usize;
    let scaled = |count: f64| (count - offset) * (step / 10f64.powi(shift));
    let marks = counts.iter().map(|c| (c * step, Label::plain(number(scaled(*c), decimals)))).collect();
    let tail = if offset == 0.0 {
        String::new()
    } else {
        let sign = if offset < 0.0 { "−" } else { "+" };
        let text = number((offset * step).abs(), (-step_power).max(0) as usize);
        let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        format!("{sign} {short}")
    };
    let mut shared = Label { tail, ..Label::default() };
    if shift != 0 {
        shared.base = "×10".into();
        shared.power = number(f64::from(shift), 0);
    }
    Ticks { marks, small: Vec::new(), shared: (shared != Label::default()).then_some(shared) }
}

/// The tick with the fewest digits, as a count of steps: what the others are best told from.
fn roundest(first: f64, last: f64, step: f64) -> f64 {
    let top = power(last.abs().max(first.abs()) * step) + 1;
    let rounded = (0..17).map(|k| {
        let unit = 10f64.powi(top - k) / step;
        (((first + last) / 2.0 / unit).round() * unit).round()
    });
    rounded.into_iter().find(|count| (first..=last).contains(count)).unwrap_or(first)
}

/// Tick sets of a logarithmic axis, the densest first.
fn log_candidates(span: &Span, most: usize) -> Vec<Ticks> {
    let (low, high) = (span.low.log10(), span.high.log10());
    let (first, last) = ((low - 1e-9).floor() as i32, (high + 1e-9).ceil() as i32);
    let inside = |v: &f64| span.part(*v) > -1e-9 && span.part(*v) < 1.0 + 1e-9;
    let at = |digits: &[f64], stride: usize| -> Vec<f64> {
        let powers = (first..=last).filter(|k| k.rem_euclid(stride as i32) == 0);
        powers.flat_map(|k| digits.iter().map(move |d| d * 10f64.powi(k))).filter(inside).collect()
    };
    let nine: Vec<f64> = (1..10).map(f64::from).collect();
    let decades = at(&[1.0], 1).len();
    let mut sets: Vec<Vec<f64>> = Vec::new();
    if high - low < 0.7 {
        sets.push(at(&nine, 1));
    }
    if decades < 3 {
        sets.extend([at(&[1.0, 2.0, 5.0], 1), at(&[1.0, 3.0], 1)]);
    }
    sets.extend([1, 2, 3, 5, 10, 20, 50, 100].map(|stride| at(&[1.0], stride)));
    sets.retain(|set| (2..=most + 1).contains(&set.len()));
    let small = if decades <= 8 { at(&nine, 1) } else { at(&[1.0], 1) };
    sets.into_iter()
        .map(|set| {
            let plain = set.iter().all(|v| (0.000_99..10_001.0).contains(v));
            let label = |v: f64| if plain { plain_label(v) } else { power_label(v) };
            let small = small.iter().copied().filter(|s| !set.contains(s)).collect();
            Ticks { marks: set.iter().map(|v| (*v, label(*v))).collect(), small, shared: None }
        })
        .collect()
}

fn plain_label(value: f64) -> Label {
    Label::plain(number(value, (-power(value)).max(0) as usize))
}

fn power_label(value: f64) -> Label {
    let k = power(value);
    let digit = (value / 10f64.powi(k)).round();
    let base = if digit == 1.0 { "10".to_string() } else { format!("{digit}×10") };
    Label { base, power: number(f64::from(k), 0), tail: String::new() }
}

/// Exponent of the leading digit.
fn power(value: f64) -> i32 {
    if value == 0.0 { 0 } else { (value.abs().log10() + 1e-9).floor() as i32 }
}

/// A number with a true minus sign, and without the sign if it prints as zero.
pub(super) fn number(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let zero = text.chars().all(|c| c == '0' || c == '.');
    if value < 0.0 && !zero { format!("−{text}") } else { text }
}

/// A number with about four significant digits, for sentences and annotations.
pub(super) fn short(value: f64) -> String {
    let k = power(value);
    if value != 0.0 && !(-4..6).contains(&k) {
        return format!("{value:.3e}");
    }
    let text = format!("{value:.*}", (3 - k).clamp(0, 7) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}
