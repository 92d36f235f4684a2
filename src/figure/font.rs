//! Widths of text in Liberation Sans (the same as in Arial, Helvetica and Arimo), so that layout needs no font.

/// Units per em of the widths below.
const EM: f64 = 2048.0;

/// Height of capitals and digits, as a part of the text size.
pub(super) const CAP: f64 = 0.69;

/// Size of a raised exponent, as a part of the text size.
const RAISED: f64 = 0.75;

/// Advance widths of U+0020 to U+007E.
const ASCII: [u16; 95] = [
    569, 569, 727, 1139, 1139, 1821, 1366, 391, 682, 682, 797, 1196, 569, 682, 569, 569, 1139, 1139, 1139,
    1139, 1139, 1139, 1139, 1139, 1139, 1139, 569, 569, 1196, 1196, 1196, 1139, 2079, 1366, 1366, 1479, 1479,
    1366, 1251, 1593, 1479, 569, 1024, 1366, 1139, 1706, 1479, 1593, 1366, 1593, 1479, 1366, 1251, 1479,
    1366, 1933, 1366, 1366, 1251, 569, 569, 569, 961, 1139, 682, 1139, 1139, 1024, 1139, 1139, 569, 1139,
    1139, 455, 455, 1024, 455, 1706, 1139, 1139, 1139, 1139, 682, 1024, 569, 1139, 1024, 1479, 1024, 1024,
    1024, 684, 532, 684, 1196,
];

/// Advance widths of U+00A0 to U+00FF.
const LATIN: [u16; 96] = [
    569, 682, 1139, 1139, 1139, 1139, 532, 1139, 682, 1509, 758, 1139, 1196, 682, 1509, 1131, 819, 1124, 682,
    682, 682, 1180, 1100, 682, 682, 682, 748, 1139, 1708, 1708, 1708, 1251, 1366, 1366, 1366, 1366, 1366,
    1366, 2048, 1479, 1366, 1366, 1366, 1366, 569, 569, 569, 569, 1479, 1479, 1593, 1593, 1593, 1593, 1593,
    1196, 1593, 1479, 1479, 1479, 1479, 1366, 1366, 1251, 1139, 1139, 1139, 1139, 1139, 1139, 1821, 1024,
    1139, 1139, 1139, 1139, 569, 569, 569, 569, 1139, 1139, 1139, 1139, 1139, 1139, 1139, 1124, 1251, 1139,
    1139, 1139, 1139, 1024, 1139, 1024,
];

/// Advance widths of U+0391 to U+03C9 (U+03A2 does not exist).
const GREEK: [u16; 57] = [
    1366, 1366, 1128, 1368, 1366, 1251, 1479, 1593, 569, 1366, 1368, 1706, 1479, 1331, 1593, 1479, 1366,
    1366, 1266, 1251, 1366, 1634, 1366, 1711, 1531, 569, 1366, 1184, 913, 1139, 455, 1120, 1184, 1178, 1024,
    1140, 913, 903, 1139, 1139, 455, 1024, 1024, 1180, 1024, 917, 1139, 1413, 1165, 987, 1264, 809, 1120,
    1328, 1075, 1460, 1599,
];

fn advance(c: char) -> u16 {
    match c {
        ' '..='~' => ASCII[c as usize - 0x20],
        'Α'..='ω' => GREEK[c as usize - 0x391],
        '\u{a0}'..='ÿ' => LATIN[c as usize - 0xa0],
        '−' => 1196,
        '≤' | '≥' | '≈' | '≠' | '√' => 1124,
        '–' => 1139,
        '‖' => 846,
        '‘' | '’' => 455,
        '“' | '”' => 682,
        '′' => 384,
        'ℓ' => 662,
        'ϵ' => 905,
        '∂' => 1012,
        '∞' | '∑' => 1460,
        // The widest of the raised and lowered digits.
        '₀'..='₉' | '⁰'..='⁹' => 880,
        // At least as wide as any letter with an accent that is not a pair; the rest (CJK, emoji) fills an em.
        '\u{100}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => 1600,
        _ => 2048,
    }
}

/// Width of a text in the figure's font, in the unit of `size`.
///
/// Checked by `tests/figure.rs::text_is_as_wide_as_in_the_bundled_font`.
///
/// ```
/// use lastlayer::prelude::*;
/// assert_eq!(text_width("0", 2048.0), 1139.0); // as the font itself says
/// assert!(text_width("iii", 11.0) < text_width("mmm", 11.0));
/// ```
pub fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(|c| f64::from(advance(c))).sum::<f64>() * size / EM
}

/// Cuts a text to a width, with an ellipsis if anything was lost; where not even that fits, nothing is left.
pub(super) fn fit(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_string();
    }
    if text_width("…", size) > width {
        return String::new();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if text_width(&kept, size) + text_width("…", size) > width {
            kept.pop();
            break;
        }
    }
    format!("{}…", kept.trim_end())
}

/// Breaks a text into lines of at most a width, at spaces; a single word that is too long is cut.
pub(super) fn wrap(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), size) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(fit(word, size, width)),
        }
    }
    lines
}

/// A number as a figure prints it: perhaps with a raised exponent, perhaps with something after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Label {
    pub base: String,
    pub power: String,
    pub tail: String,
}

impl Label {
    pub fn plain(text: impl Into<String>) -> Label {
        Label { base: text.into(), ..Label::default() }
    }

    pub fn width(&self, size: f64) -> f64 {
        let last = self.pieces(size).pop();
        last.map_or(0.0, |(text, right, _, size)| right + text_width(text, size))
    }

    /// The pieces to draw: text, offset from the left, height above the baseline, size.
    pub fn pieces(&self, size: f64) -> Vec<(&str, f64, f64, f64)> {
        let base = text_width(&self.base, size);
        let power = base + 0.5 + text_width(&self.power, size * RAISED);
        // Placed, not written: SVG drops a space at the start of a text.
        let tail = if self.base.is_empty() { 0.0 } else { power + text_width(" ", size) };
        [
            (self.base.as_str(), 0.0, 0.0, size),
            (self.power.as_str(), base + 0.5, 0.36 * size, size * RAISED),
            (self.tail.as_str(), tail, 0.0, size),
        ]
        .into_iter()
        .filter(|(text, ..)| !text.is_empty())
        .collect()
    }
}
