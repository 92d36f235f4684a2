//! Tables: HTML in the notebook; Markdown, LaTeX (booktabs) and CSV on save. One content, four faces.
//!
//! ```
//! use lastlayer::prelude::*;
//! let table = Table::new(&["method", "AUC"])
//!     .row(("ours", (0.9312, 0.0041)))?
//!     .caption("Mean over ten seeds and its 95 % interval.");
//! assert!(table.markdown().contains("| ours | 0.9312 ± 0.0041 |"));
//! assert!(table.csv().starts_with("method,AUC,AUC half-width\n"));
//! assert!(table.latex().contains("\\toprule"));
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

use serde_json::Value;

use crate::error::{Error, Result};
use crate::files::{Saved, csv_field, output_stem, write_set};
use crate::latex;

/// One entry of a table.
///
/// ```
/// use lastlayer::prelude::*;
/// assert_eq!(Cell::from(1234.5678).text(), "1235");
/// assert_eq!(Cell::from(7).text(), "7");
/// assert_eq!(Cell::from((0.5041, 0.0123)).text(), "0.504 ± 0.012");
/// let range = Cell::Range { value: 0.5, low: 0.4, high: 0.62 };
/// assert_eq!(range.text(), "0.50 [0.40, 0.62]");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing was measured.
    Empty,
    /// Words.
    Text(String),
    /// A whole number, printed in full.
    Integer(i64),
    /// A number, printed with four significant digits and exported to CSV in full.
    Number(f64),
    /// Several numbers, all printed in full.
    List(Vec<f64>),
    /// A mean and the half-width of its interval, printed to the precision the interval supports.
    Interval {
        /// The mean.
        mean: f64,
        /// Half the length of the interval.
        half: f64,
    },
    /// A value and the two ends of its interval, printed to the precision the interval supports.
    Range {
        /// The value.
        value: f64,
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_string())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        Cell::Number(value)
    }
}

impl From<f32> for Cell {
    fn from(value: f32) -> Cell {
        Cell::Number(f64::from(value))
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Cell {
        Cell::Integer(value)
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Cell {
        Cell::Integer(i64::from(value))
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Cell {
        Cell::Integer(i64::from(value))
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Cell {
        i64::try_from(value).map_or_else(|_| Cell::Text(value.to_string()), Cell::Integer)
    }
}

impl From<(f64, f64)> for Cell {
    fn from((mean, half): (f64, f64)) -> Cell {
        Cell::Interval { mean, half }
    }
}

impl From<Vec<f64>> for Cell {
    fn from(values: Vec<f64>) -> Cell {
        Cell::List(values)
    }
}

impl Cell {
    /// The entry as a person reads it.
    pub fn text(&self) -> String {
        match self {
            Cell::Empty => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Integer(value) => value.to_string(),
            Cell::Number(value) => significant(*value),
            Cell::List(values) => {
                format!("[{}]", values.iter().map(f64::to_string).collect::<Vec<_>>().join(", "))
            }
            Cell::Interval { mean, half } => interval(*mean, *half),
            Cell::Range { value, low, high } => range(*value, *low, *high),
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Cell::Integer(_) | Cell::Number(_) | Cell::Interval { .. } | Cell::Range { .. })
    }

    /// What a column that holds this cell is made of in a file for programs: the suffixes of its names.
    fn csv_parts(&self) -> &'static [&'static str] {
        match self {
            Cell::Range { .. } => &["", " low", " high"],
            Cell::Interval { .. } => &["", " half-width"],
            _ => &[""],
        }
    }

    /// The entry for a program, with every digit, in the given number of fields.
    fn csv(&self, fields: usize) -> Vec<String> {
        let mut parts = match self {
            Cell::Number(value) => vec![value.to_string()],
            Cell::Interval { mean, half } if fields == 3 => {
                vec![mean.to_string(), (mean - half).to_string(), (mean + half).to_string()]
            }
            Cell::Interval { mean, half } => vec![mean.to_string(), half.to_string()],
            Cell::Range { value, low, high } => vec![value.to_string(), low.to_string(), high.to_string()],
            _ => vec![csv_field(&self.text()).into_owned()],
        };
        parts.resize(fields, String::new());
        parts
    }

    /// JSON value; what JSON cannot hold (NaN, infinite) is kept as its name.
    pub(crate) fn json(&self) -> Value {
        let number =
            |v: f64| serde_json::Number::from_f64(v).map_or_else(|| Value::from(v.to_string()), Value::from);
        match self {
            Cell::Empty => Value::Null,
            Cell::Text(text) => Value::from(text.as_str()),
            Cell::Integer(value) => Value::from(*value),
            Cell::Number(value) => number(*value),
            Cell::List(values) => values.iter().map(|v| number(*v)).collect(),
            Cell::Interval { mean, half } => {
                serde_json::json!({ "mean": number(*mean), "half": number(*half) })
            }
            Cell::Range { value, low, high } => {
                serde_json::json!({ "value": number(*value), "low": number(*low), "high": number(*high) })
            }
        }
    }

    pub(crate) fn from_json(value: &Value) -> Cell {
        match value {
            Value::Null => Cell::Empty,
            Value::String(text) => Cell::Text(text.clone()),
            Value::Number(n) => {
                n.as_i64().map_or_else(|| Cell::Number(n.as_f64().unwrap_or(f64::NAN)), Cell::Integer)
            }
            Value::Array(a) => match a.iter().map(Value::as_f64).collect() {
                Some(values) => Cell::List(values),
                None => Cell::Text(value.to_string()),
            },
            Value::Object(o) => {
                let field = |name: &str| o.get(name).and_then(Value::as_f64);
                match (o.len(), [field("mean"), field("half")], [field("value"), field("low"), field("high")])
                {
                    (2, [Some(mean), Some(half)], _) => Cell::Interval { mean, half },
                    (3, _, [Some(value), Some(low), Some(high)]) => Cell::Range { value, low, high },
                    _ => Cell::Text(value.to_string()),
                }
            }
            other => Cell::Text(other.to_string()),
        }
    }
}

/// Four significant digits, without an exponent where a reader does not need one.
fn significant(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || value == 0.0 {
        return value.to_string();
    }
    if !(1e-3..1e6).contains(&size) {
        return format!("{value:.3e}");
    }
    let decimals = (3 - size.log10().floor() as i32).max(0) as usize;
    format!("{value:.decimals$}")
}

/// Mean and half-width, cut at the second significant digit of the half-width.
fn interval(mean: f64, half: f64) -> String {
    match decimals_for(half) {
        Some(decimals) => interval_with(mean, half, decimals),
        None => format!("{} ± {}", significant(mean), significant(half)),
    }
}

fn interval_with(mean: f64, half: f64, decimals: usize) -> String {
    format!("{mean:.decimals$} ± {half:.decimals$}")
}

/// Value and ends, cut at the second significant digit of half the length.
fn range(value: f64, low: f64, high: f64) -> String {
    match decimals_for((high - low) / 2.0) {
        Some(decimals) => range_with(value, low, high, decimals),
        None => format!("{} [{}, {}]", significant(value), significant(low), significant(high)),
    }
}

fn range_with(value: f64, low: f64, high: f64, decimals: usize) -> String {
    format!("{value:.decimals$} [{low:.decimals$}, {high:.decimals$}]")
}

/// Decimals that show two significant digits of a half-width; none if it is so large or small that a plain number
/// would mislead.
fn decimals_for(half: f64) -> Option<usize> {
    let decimals = 1.0 - half.log10().floor();
    (0.0..=9.0).contains(&decimals).then_some(decimals as usize)
}

/// Escapes text for HTML and SVG.
pub(crate) fn html_escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// What makes a row of a table: a tuple of whatever each becomes a [`Cell`], or a list of one type.
///
/// ```
/// use lastlayer::prelude::*;
/// let table = Table::new(&["name", "share", "samples"]).row(("all", 1.0, 3))?.row(["one", "two", "three"])?;
/// assert_eq!(table.rows()[0], [Cell::from("all"), Cell::Number(1.0), Cell::Integer(3)]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub trait Row {
    /// The cells, from left to right.
    fn cells(self) -> Vec<Cell>;
}

impl<C: Into<Cell>> Row for Vec<C> {
    fn cells(self) -> Vec<Cell> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<C: Into<Cell>, const N: usize> Row for [C; N] {
    fn cells(self) -> Vec<Cell> {
        self.map(Into::into).into()
    }
}

/// Makes tuples of these lengths a [`Row`].
macro_rules! tuples {
    ($(($($entry:ident)+))+) => {
        $(impl<$($entry: Into<Cell>),+> Row for ($($entry,)+) {
            #[allow(non_snake_case)] // each entry has the name of its type
            fn cells(self) -> Vec<Cell> {
                let ($($entry,)+) = self;
                vec![$($entry.into()),+]
            }
        })+
    };
}

tuples!((A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) (A B C D E F G H I)
    (A B C D E F G H I J));

/// Columns with names and rows of [`Cell`]s.
///
/// Numbers are set right-aligned, words left; the caption travels with every export.
/// Checked by `tests/table.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let rows = vec![("samples", 600.into()), ("share", 0.25.into())];
/// let table = Table::pairs("what", "value", rows).decimals(3);
/// assert_eq!(table.columns(), ["what", "value"]);
/// assert_eq!(table.rows()[1][1], Cell::Number(0.25));
/// assert!(table.html().contains(">0.250<"));
/// assert!(Table::new(&["a", "b"]).row(vec![1]).is_err()); // a cell is missing
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
    caption: String,
    decimals: Option<usize>,
}

impl Table {
    /// Table without rows.
    pub fn new<S: AsRef<str>>(columns: &[S]) -> Table {
        Table {
            columns: columns.iter().map(|c| c.as_ref().to_string()).collect(),
            rows: Vec::new(),
            caption: String::new(),
            decimals: None,
        }
    }

    /// Table of names and values.
    pub fn pairs<S: Into<Cell>>(name: &str, value: &str, rows: Vec<(S, Cell)>) -> Table {
        let mut table = Table::new(&[name, value]);
        table.rows = rows.into_iter().map(Row::cells).collect();
        table
    }

    /// Adds a row: a tuple such as `("ours", 0.93, 10)`, or a list of one type.
    ///
    /// Fails: `Shape` if it has not one cell per column.
    pub fn row(mut self, cells: impl Row) -> Result<Table> {
        let cells = cells.cells();
        if cells.len() != self.columns.len() {
            let expected =
                format!("{} cells, one per column ({})", self.columns.len(), self.columns.join(", "));
            return Err(Error::shape("row of a table", expected, cells.len()));
        }
        self.rows.push(cells);
        Ok(self)
    }

    /// Sets the caption: what was measured, over how many seeds, with which interval.
    pub fn caption(mut self, caption: &str) -> Table {
        self.caption = caption.to_string();
        self
    }

    /// Prints every number and interval with so many decimals instead of as many digits as it supports, so that a column
    /// can be compared at a glance. CSV keeps every digit.
    pub fn decimals(mut self, decimals: usize) -> Table {
        self.decimals = Some(decimals);
        self
    }

    /// A cell as this table prints it.
    fn text(&self, cell: &Cell) -> String {
        match (cell, self.decimals) {
            (Cell::Number(value), Some(decimals)) if value.is_finite() => format!("{value:.decimals$}"),
            (Cell::Interval { mean, half }, Some(decimals)) => interval_with(*mean, *half, decimals),
            (Cell::Range { value, low, high }, Some(decimals)) => range_with(*value, *low, *high, decimals),
            _ => cell.text(),
        }
    }

    /// Names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// Writes `.md`, `.tex` and `.csv`. A bare name goes to the folder `figures/tables`, a path is used as given.
    ///
    /// In a paper, `\input` takes the `.tex`, and `\ref{tab:<name>}` refers to it.
    /// Fails: `Config` for a name that is no file name, `Io` if a file cannot be written; nothing is then changed.
    pub fn save(&self, stem: &str) -> Result<Saved> {
        let stem = output_stem("figures/tables", stem)?;
        let name = stem.file_name().unwrap_or_default().to_string_lossy();
        let [md, tex, csv] = [self.markdown(), self.latex_labelled(&latex::label("tab", &name)), self.csv()];
        write_set(&stem, &[("md", md.as_bytes()), ("tex", tex.as_bytes()), ("csv", csv.as_bytes())])
    }

    /// Whether every filled cell of a column is a number.
    fn numeric(&self, column: usize) -> bool {
        let mut filled =
            self.rows.iter().filter_map(|r| r.get(column)).filter(|c| **c != Cell::Empty).peekable();
        filled.peek().is_some() && filled.all(Cell::is_number)
    }

    /// GitHub-flavoured Markdown.
    pub fn markdown(&self) -> String {
        let escape = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace('\n', " ");
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut out = line(self.columns.iter().map(|c| escape(c)).collect());
        let rules = (0..self.columns.len()).map(|j| if self.numeric(j) { "---:" } else { "---" }.to_string());
        out += &line(rules.collect());
        for row in &self.rows {
            out += &line(row.iter().map(|c| escape(&self.text(c))).collect());
        }
        if !self.caption.is_empty() {
            out += &format!("\n{}\n", self.caption);
        }
        out
    }

    /// LaTeX `table` with booktabs rules; needs `\usepackage{booktabs}`.
    ///
    /// A table too wide for one column of a paper is a `table*`, which spans both. Long names of columns have several
    /// lines.
    pub fn latex(&self) -> String {
        self.latex_labelled("")
    }

    /// LaTeX of the table, to be referred to by a label.
    fn latex_labelled(&self, label: &str) -> String {
        let right: Vec<bool> = (0..self.columns.len()).map(|j| self.numeric(j)).collect();
        let entry = |cell: &Cell| latex::Entry { text: self.text(cell), number: cell.is_number() };
        let rows: Vec<Vec<latex::Entry>> =
            self.rows.iter().map(|row| row.iter().map(entry).collect()).collect();
        latex::table(&self.columns, &right, &rows, &self.caption, label)
    }

    /// Comma-separated values with every digit. A column of intervals becomes two, `<column> half-width` the second; a
    /// column of ranges three, with `<column> low` and `<column> high`.
    pub fn csv(&self) -> String {
        let most_parts = |j: usize| {
            let parts = self.rows.iter().filter_map(|row| row.get(j)).map(Cell::csv_parts);
            parts.max_by_key(|parts| parts.len()).unwrap_or(&[""])
        };
        let parts: Vec<&[&str]> = (0..self.columns.len()).map(most_parts).collect();
        let named = self.columns.iter().zip(&parts);
        let header = named.flat_map(|(name, parts)| parts.iter().map(move |part| format!("{name}{part}")));
        let mut out = header.map(|name| csv_field(&name).into_owned()).collect::<Vec<_>>().join(",") + "\n";
        for row in &self.rows {
            let fields = row.iter().zip(&parts).flat_map(|(cell, parts)| cell.csv(parts.len()));
            out += &(fields.collect::<Vec<_>>().join(",") + "\n");
        }
        out
    }

    /// HTML, as the notebook shows it; colours are inherited, so light and dark themes both work.
    pub fn html(&self) -> String {
        let align = |j: usize| if self.numeric(j) { "right" } else { "left" };
        // A number and its interval stay on one line.
        let keep = |j: usize| if self.numeric(j) { ";white-space:nowrap" } else { "" };
        let mut out = String::from("<table>");
        if !self.caption.is_empty() {
            out += &format!("<caption>{}</caption>", html_escape(&self.caption));
        }
        out += "<thead><tr>";
        for (j, column) in self.columns.iter().enumerate() {
            out += &format!("<th style=\"text-align:{}\">{}</th>", align(j), html_escape(column));
        }
        out += "</tr></thead><tbody>";
        for row in &self.rows {
            out += "<tr>";
            for (j, cell) in row.iter().enumerate() {
                let text = html_escape(&self.text(cell));
                out += &format!("<td style=\"text-align:{}{}\">{text}</td>", align(j), keep(j));
            }
            out += "</tr>";
        }
        out + "</tbody></table>"
    }

    /// Shows the table in the notebook, with Markdown as its plain text.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(self.markdown().trim_end());
        evcxr_runtime::mime_type("text/html").text(self.html());
    }
}
