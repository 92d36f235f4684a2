//! What a paper takes from us: text and numbers that compile under pdflatex, figures and tables with captions.

/// Text with pieces of mathematics in it; neighbours share one pair of dollar signs.
#[derive(Default)]
struct Line {
    out: String,
    in_mathematics: bool,
    /// What the last piece begins with, if it is raised or lowered: two in a row would be an error.
    script: Option<char>,
}

impl Line {
    fn switch(&mut self, mathematics: bool) {
        if self.in_mathematics != mathematics {
            self.out.push('$');
            self.in_mathematics = mathematics;
        }
    }

    fn text(&mut self, piece: &str) {
        self.switch(false);
        self.out += piece;
        self.script = None;
    }

    fn mathematics(&mut self, piece: &str) {
        self.switch(true);
        let script = piece.chars().next().filter(|c| "^_".contains(*c));
        if script.is_some() && script == self.script && self.out.pop().is_some() {
            self.out += &piece[2..];
        } else {
            self.out += piece;
        }
        self.script = script;
    }

    fn character(&mut self, c: char) {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => self.text(&format!("\\{c}")),
            '\\' => self.text("\\textbackslash{}"),
            '~' => self.text("\\textasciitilde{}"),
            '^' => self.text("\\textasciicircum{}"),
            '\u{a0}' => self.text("~"),
            '\u{2009}' | '\u{202f}' => self.text("\\,"),
            '–' => self.text("--"),
            '—' => self.text("---"),
            '…' => self.text("\\ldots{}"),
            '‘' => self.text("`"),
            '’' => self.text("'"),
            '“' => self.text("``"),
            '”' => self.text("''"),
            c if c.is_control() => self.text(" "),
            c => match symbol(c) {
                Some(command) => self.mathematics(&command),
                None => self.text(c.encode_utf8(&mut [0; 4])),
            },
        }
    }

    fn finish(mut self) -> String {
        self.switch(false);
        self.out
    }
}

/// Symbols that text of pdflatex lacks or sets as something else, and what sets them in mathematics. What is raised or
/// lowered stands in braces.
const SYMBOLS: &[(char, &str)] = &[
    ('<', "<"),
    ('>', ">"),
    ('|', "|"),
    ('±', "\\pm"),
    ('×', "\\times"),
    ('·', "\\cdot"),
    ('°', "^{\\circ}"),
    ('½', "\\frac12"),
    ('−', "-"),
    ('≤', "\\le"),
    ('≥', "\\ge"),
    ('≠', "\\ne"),
    ('≈', "\\approx"),
    ('≡', "\\equiv"),
    ('∼', "\\sim"),
    ('∝', "\\propto"),
    ('∞', "\\infty"),
    ('∂', "\\partial"),
    ('∇', "\\nabla"),
    ('∑', "\\sum"),
    ('∏', "\\prod"),
    ('∫', "\\int"),
    ('√', "\\surd"),
    ('∈', "\\in"),
    ('‖', "\\|"),
    ('∥', "\\|"),
    ('′', "'"),
    ('⊤', "\\top"),
    ('ᵀ', "^{\\top}"),
    ('→', "\\to"),
    ('←', "\\leftarrow"),
    ('↔', "\\leftrightarrow"),
    ('⁻', "^{-}"),
    ('⁺', "^{+}"),
    ('₋', "_{-}"),
    ('₊', "_{+}"),
    ('ϵ', "\\epsilon"),
    ('ϑ', "\\vartheta"),
    ('ϕ', "\\phi"),
    ('ϱ', "\\varrho"),
    ('ς', "\\varsigma"),
    ('ℓ', "\\ell"),
    ('ℝ', "\\mathbf{R}"),
];

/// Commands of the Greek letters from alpha on; the one without looks like a Latin o.
const GREEK: [&str; 24] = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "varepsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "",
    "pi",
    "rho",
    "sigma",
    "tau",
    "upsilon",
    "varphi",
    "chi",
    "psi",
    "omega",
];

/// Capitals that LaTeX has no command for look like these Latin letters; in the order of the alphabet.
const CAPITALS: [&str; 24] = [
    "A", "B", "", "", "E", "Z", "H", "", "I", "K", "", "M", "N", "", "O", "", "P", "", "T", "", "", "X", "",
    "",
];

/// What sets a character in mathematics, if it needs that.
fn symbol(c: char) -> Option<String> {
    if let Some((_, command)) = SYMBOLS.iter().find(|(known, _)| *known == c) {
        return Some(command.to_string());
    }
    let raised = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    if let Some(digit) = raised.iter().position(|known| *known == c) {
        return Some(format!("^{{{digit}}}"));
    }
    if ('₀'..='₉').contains(&c) {
        return Some(format!("_{{{}}}", u32::from(c) - u32::from('₀')));
    }
    // µ, the sign of a millionth, is not the letter μ.
    let c = if c == 'µ' { 'μ' } else { c };
    // Between rho and sigma the code points have a place for the final sigma.
    let letter = |first: char| {
        let place = u32::from(c).checked_sub(u32::from(first))? as usize;
        Some(if place > 16 { place - 1 } else { place })
    };
    if let Some(name) = letter('α').and_then(|at| GREEK.get(at)) {
        return Some(if name.is_empty() { "\\mathrm{o}".to_string() } else { format!("\\{name}") });
    }
    let at = letter('Α')?;
    let latin = CAPITALS.get(at)?;
    if !latin.is_empty() {
        return Some(format!("\\mathrm{{{latin}}}"));
    }
    let name = GREEK[at].trim_start_matches("var");
    Some(format!("\\{}{}", name[..1].to_uppercase(), &name[1..]))
}

/// Escapes what LaTeX would read as a command, and sets symbols, Greek letters, raised and lowered digits in
/// mathematics. Other letters stay as they are: LaTeX takes them as UTF-8.
pub(crate) fn escape(text: &str) -> String {
    let mut line = Line::default();
    tied(text).chars().for_each(|c| line.character(c));
    line.finish()
}

/// The text with spaces that do not break where no line may end: before `%`, and inside a number such as `4 000`.
fn tied(text: &str) -> String {
    let after = text.chars().skip(1).map(Some).chain([None]);
    let before = [None].into_iter().chain(text.chars().map(Some));
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let each = text.chars().zip(before.zip(after)).map(|(c, (before, after))| {
        let kept = c == ' ' && (after == Some('%') || (digit(before) && digit(after)));
        if kept { '\u{a0}' } else { c }
    });
    each.collect()
}

/// A printed number, or several with words between: true minus signs, and powers of ten for exponents.
pub(crate) fn number(text: &str) -> String {
    let mut line = Line::default();
    let mut rest = text;
    let mut after_digit = false;
    while let Some(c) = rest.chars().next() {
        let exponent = rest.strip_prefix('e').filter(|_| after_digit).map(|tail| {
            let digits = tail.trim_start_matches(['-', '+']);
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            (&tail[..tail.len() - digits.len() + end], &digits[end..])
        });
        match exponent {
            Some((power, tail)) if power.ends_with(|c: char| c.is_ascii_digit()) => {
                line.mathematics(&format!("\\times10^{{{power}}}"));
                rest = tail;
            }
            _ => {
                if c == '-' {
                    line.mathematics("-")
                } else {
                    line.character(c)
                }
                rest = &rest[c.len_utf8()..];
            }
        }
        after_digit = c.is_ascii_digit();
    }
    line.finish()
}

/// A label to refer to, such as `fig:rate-slope`; characters that a label cannot have become hyphens.
pub(crate) fn label(kind: &str, name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.:".contains(c) { c } else { '-' };
    format!("{kind}:{}", name.chars().map(plain).collect::<String>())
}

/// A figure of its own size, or as wide as the page. `*` lets it span both columns of a paper.
pub(crate) fn figure(file: &str, star: &str, width: &str, caption: &str, label: &str) -> String {
    let caption = titled(caption, label, "  ");
    format!(
        "\\begin{{figure{star}}}\n  \\centering\n  \\includegraphics{width}{{{file}}}\n{caption}\\end{{figure{star}}}\n"
    )
}

/// Caption and label; a label without a caption would refer to nothing.
fn titled(caption: &str, label: &str, indent: &str) -> String {
    match (caption.is_empty(), label.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("{indent}\\caption{{{}}}\n", escape(caption)),
        (false, false) => format!("{indent}\\caption{{{}}}\n{indent}\\label{{{label}}}\n", escape(caption)),
    }
}

/// A column and the page of a two-column paper, in points: IEEE's.
const COLUMN: f64 = 252.0;
const PAGE: f64 = 516.0;
/// How a table is set: size of the type and space beside a column, in points, and the commands for them. The first
/// that fits is taken.
const SETTINGS: [(f64, f64, &str); 3] = [
    (9.0, 6.0, "\\small"),
    (9.0, 3.5, "\\small\\setlength{\\tabcolsep}{3.5pt}"),
    (8.0, 3.0, "\\footnotesize\\setlength{\\tabcolsep}{3pt}"),
];

/// What stands in a cell of a table.
pub(crate) struct Entry {
    pub text: String,
    pub number: bool,
}

/// A table with booktabs rules, over both columns of a paper if it is too wide for one; `right` says which columns are
/// aligned to the right.
pub(crate) fn table(
    names: &[String],
    right: &[bool],
    rows: &[Vec<Entry>],
    caption: &str,
    label: &str,
) -> String {
    let body =
        |j: usize| rows.iter().filter_map(|row| row.get(j)).map(|e| width(&e.text)).fold(0.0, f64::max);
    let heads: Vec<Vec<String>> = names.iter().enumerate().map(|(j, name)| in_lines(name, body(j))).collect();
    let head = |lines: &Vec<String>| lines.iter().map(|line| width(line)).fold(0.0, f64::max);
    let wide: f64 = heads.iter().enumerate().map(|(j, lines)| head(lines).max(body(j))).sum();
    let points =
        |(size, beside, _): &(f64, f64, &str)| size * wide + 2.0 * beside * (names.len() as f64 - 1.0);
    let narrow = SETTINGS[..2].iter().find(|setting| points(setting) <= COLUMN);
    let star = if narrow.is_some() { "" } else { "*" };
    let fitting = narrow.or_else(|| SETTINGS.iter().find(|setting| points(setting) <= PAGE));
    let (_, _, setting) = fitting.unwrap_or(&SETTINGS[2]);
    let align = |j: usize| if right.get(j) == Some(&true) { 'r' } else { 'l' };
    let columns: String = (0..names.len()).map(align).collect();
    let titled = titled(caption, label, "");
    let heads = heads.iter().enumerate().map(|(j, lines)| stacked(lines, align(j)));
    let heads = table_row(heads.collect());
    let cell = |entry: &Entry| if entry.number { number(&entry.text) } else { escape(&entry.text) };
    let rows: String = rows.iter().map(|row| table_row(row.iter().map(cell).collect())).collect();
    format!(
        "\\begin{{table{star}}}\n\\centering\n{titled}{setting}\n\\begin{{tabular}}{{@{{}}{columns}@{{}}}}\n  \\toprule\n\
         {heads}  \\midrule\n{rows}  \\bottomrule\n\\end{{tabular}}\n\\end{{table{star}}}\n"
    )
}

/// One row. If it began with a bracket, it would be read as an option of the line break before it.
fn table_row(cells: Vec<String>) -> String {
    let row = cells.join(" & ");
    let guard = if row.starts_with(['[', '*']) { "{}" } else { "" };
    format!("  {guard}{row} \\\\\n")
}

/// Room that the name of a column may take beyond that of narrow cells, in units of the size of the type.
const NAME: f64 = 5.0;

/// The name of a column in lines as wide as the cells below it, or as its longest word.
fn in_lines(name: &str, room: f64) -> Vec<String> {
    let name = tied(name);
    let room = name.split(' ').map(width).fold(room.max(NAME), f64::max);
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(line) if width(line) + width(" ") + width(word) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

/// Lines above each other, the last of them beside the names of one line.
fn stacked(lines: &[String], align: char) -> String {
    let lines: Vec<String> = lines.iter().map(|line| escape(line)).collect();
    match lines.as_slice() {
        [line] => line.clone(),
        _ => format!("\\begin{{tabular}}[b]{{@{{}}{align}@{{}}}}{}\\end{{tabular}}", lines.join("\\\\")),
    }
}

/// About how wide a text is set, in units of the size of the type: that of Computer Modern, whose digits are half as
/// wide as the type is high.
fn width(text: &str) -> f64 {
    let of = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '!' | '|' | '[' | ']' | '(' | ')' => 0.3,
        ' ' | '\u{a0}' | 'f' | 't' | 'r' | 's' | '-' => 0.38,
        'm' | 'w' | 'M' | 'W' | '±' | '×' | '−' | '<' | '>' | '%' => 0.8,
        c if c.is_uppercase() => 0.7,
        _ => 0.51,
    };
    text.chars().map(of).sum()
}
