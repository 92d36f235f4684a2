//! Saving a figure: the picture, the numbers behind it, and the record of how they were made.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::axis::Scale;
use super::page::letter;
use super::{Chart, Figure, Size};
use crate::error::{Error, Result};
use crate::files::{Saved, csv_field, output_stem, with_ending, write_set};
use crate::latex;
use crate::record::Record;

/// Environment variable: the program that turns an SVG into PDF and PNG, if there is one.
const EXPORT: &str = "LASTLAYER_EXPORT";

/// One entry of the CSV.
#[derive(Clone, Copy)]
pub(super) enum Entry<'a> {
    Text(&'a str),
    Number(f64),
    Count(usize),
    Empty,
}

impl Figure {
    /// Writes `<stem>.svg`, `<stem>.csv` (every number, exactly), `<stem>.json` (settings, seed, versions, revision,
    /// device, wall time) and `<stem>.tex` ([`Figure::latex`]), creating the folder.
    ///
    /// A bare name goes to `figures/` under the folder that the environment variable `LASTLAYER_OUT` names (or the
    /// current one); a stem with a folder is used as given. If `LASTLAYER_EXPORT` names the export program, it adds
    /// PDF and PNG. The wall time is that of the attached run ([`Figure::record`]), else of drawing and saving.
    /// Fails: `Config` if the stem has no file name, `Io` if a file cannot be written (files saved earlier are then
    /// still whole and still belong together) or the export program fails (the four files are then in place).
    pub fn save(&self, stem: &str) -> Result<Saved> {
        let started = Instant::now();
        let stem = output_stem("figures", stem.strip_suffix(".svg").unwrap_or(stem))?;
        let name = stem.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let files = [
            ("svg", self.svg()),
            ("csv", self.csv()),
            ("json", self.json(&name, started)?),
            ("tex", self.latex(&name)),
        ];
        let saved = write_set(&stem, &files.each_ref().map(|(ending, text)| (*ending, text.as_bytes())))?;
        let Some(program) = std::env::var_os(EXPORT).filter(|p| !p.is_empty()) else { return Ok(saved) };
        export(Path::new(&program), &with_ending(&stem, "svg"))?;
        Ok(saved.and(["pdf", "png"].map(|ending| with_ending(&stem, ending))))
    }

    /// LaTeX `figure` with the PDF of that name at its true size, the caption, and the label `fig:<name>`; needs
    /// `\usepackage{graphicx}`.
    ///
    /// A seed that the caption does not speak of is added to it. What is wider than a column of a paper is a `figure*`,
    /// which spans both; a figure made for a screen is scaled to the width of the page.
    pub fn latex(&self, name: &str) -> String {
        let mut caption = self.caption.trim().to_string();
        if !caption.is_empty() && !caption.ends_with(['.', '!', '?']) {
            caption.push('.');
        }
        if let Some(seed) = self.origin.seed.filter(|_| !caption.to_lowercase().contains("seed")) {
            caption += &format!("{}Seed {}.", if caption.is_empty() { "" } else { " " }, seed.value());
        }
        let (star, width) = match self.size {
            Size::Column => ("", ""),
            Size::TwoColumn => ("*", ""),
            Size::Screen => ("*", "[width=\\textwidth]"),
        };
        latex::figure(&format!("{name}.pdf"), star, width, &caption, &latex::label("fig", name))
    }

    /// The numbers behind the picture, one row each; numbers read back exactly.
    pub fn csv(&self) -> String {
        let columns = self.chart.columns();
        let mut text = columns.join(",") + "\n";
        self.chart.rows(&columns, &mut |row| {
            for (i, entry) in row.iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                match entry {
                    Entry::Text(words) => text.push_str(&csv_field(words)),
                    Entry::Number(value) => text.push_str(&format!("{value:?}")),
                    Entry::Count(count) => text.push_str(&count.to_string()),
                    Entry::Empty => {}
                }
            }
            text.push('\n');
        });
        text
    }

    /// The record beside the figure, in the form of [`Record`].
    fn json(&self, name: &str, started: Instant) -> Result<String> {
        let mut record = Record::start(name, self.origin.device.as_deref().unwrap_or("not stated"));
        record.config = self.origin.config.clone();
        record.config.insert("figure".into(), self.settings());
        record.results = self.origin.results.clone();
        record.seed = self.origin.seed;
        record.seconds = self.origin.seconds.unwrap_or_else(|| started.elapsed().as_secs_f64());
        let text = serde_json::to_string_pretty(&record)
            .map_err(|e| Error::data(name, format!("the record cannot be written as JSON: {e}")))?;
        Ok(text + "\n")
    }

    fn settings(&self) -> Value {
        let scale = |scale| if scale == Scale::Log { "log" } else { "linear" };
        let names: Vec<Value> = self
            .chart
            .names()
            .into_iter()
            .map(|(name, count)| json!({ "name": name, "count": count }))
            .collect();
        let mut settings = Map::new();
        settings.insert("kind".into(), self.kind().into());
        settings.insert("size".into(), format!("{:?}", self.size).into());
        settings.insert("labels".into(), json!([self.x.label, self.y.label]));
        settings.insert("scales".into(), json!([scale(self.x.scale), scale(self.y.scale)]));
        settings.insert("caption".into(), self.caption.clone().into());
        settings.insert("series".into(), names.into());
        let each = |list: &[Figure]| list.iter().map(Figure::settings).collect();
        match &self.chart {
            Chart::Grid { panels, .. } => {
                settings.insert("panels".into(), each(panels));
            }
            Chart::Frames { list, seconds } => {
                settings.insert("seconds".into(), (*seconds).into());
                settings.insert("frames".into(), each(list));
            }
            _ => {}
        }
        Value::Object(settings)
    }
}

impl Chart {
    /// Names of the series and how many numbers each has.
    fn names(&self) -> Vec<(String, usize)> {
        match self {
            Chart::Curves(list) => list.iter().map(|c| (c.name.clone(), c.x.len())).collect(),
            Chart::Scatter(list) => list.iter().map(|p| (p.name.clone(), p.x.len())).collect(),
            Chart::Bars(groups) => groups.series.iter().map(|b| (b.name.clone(), b.values.len())).collect(),
            Chart::Hist(hist) => hist.names(),
            Chart::Heat(heat) => heat.names(),
            Chart::Field(surface) => surface.points.iter().map(|p| (p.name.clone(), p.x.len())).collect(),
            Chart::Images(sheet) => sheet.names(),
            Chart::Tree(root) => root.names(),
            Chart::Grid { .. } | Chart::Frames { .. } => Vec::new(),
        }
    }

    fn columns(&self) -> Vec<&'static str> {
        match self {
            Chart::Curves(_) => vec!["series", "x", "y", "low", "high"],
            Chart::Scatter(_) => vec!["series", "x", "y"],
            Chart::Bars(_) => vec!["category", "series", "value", "low", "high"],
            Chart::Hist(_) => vec!["series", "from", "to", "count"],
            Chart::Heat(_) => vec!["row", "column", "value"],
            Chart::Field(_) => vec!["part", "x", "y", "value"],
            Chart::Images(_) => vec!["image", "caption", "row", "column", "red", "green", "blue"],
            Chart::Tree(_) => vec!["node", "parent", "answer", "label"],
            Chart::Grid { panels, .. } => joint("panel", panels),
            Chart::Frames { list, .. } => joint("frame", list),
        }
    }

    fn rows(&self, columns: &[&str], emit: &mut dyn FnMut(&[Entry])) {
        match self {
            Chart::Curves(list) => {
                for c in list {
                    for i in 0..c.x.len() {
                        let band = c
                            .band
                            .as_ref()
                            .map(|(low, high)| (Entry::Number(low[i]), Entry::Number(high[i])));
                        let (low, high) = band.unwrap_or((Entry::Empty, Entry::Empty));
                        emit(&[
                            Entry::Text(&c.name),
                            Entry::Number(c.x[i]),
                            Entry::Number(c.y[i]),
                            low,
                            high,
                        ]);
                    }
                }
            }
            Chart::Scatter(list) => {
                for p in list {
                    for (x, y) in p.x.iter().zip(&p.y) {
                        emit(&[Entry::Text(&p.name), Entry::Number(*x), Entry::Number(*y)]);
                    }
                }
            }
            Chart::Bars(groups) => groups.rows(emit),
            Chart::Hist(hist) => hist.rows(emit),
            Chart::Heat(heat) => heat.rows(emit),
            Chart::Field(surface) => surface.rows(emit),
            Chart::Images(sheet) => sheet.rows(emit),
            Chart::Tree(root) => root.rows(emit),
            Chart::Grid { panels, .. } => {
                for (i, panel) in panels.iter().enumerate() {
                    panel.chart.rows_of_part(Entry::Text(&letter(i).to_string()), columns, emit);
                }
            }
            Chart::Frames { list, .. } => {
                for (i, frame) in list.iter().enumerate() {
                    frame.chart.rows_of_part(Entry::Count(i + 1), columns, emit);
                }
            }
        }
    }

    /// The rows of a panel or a frame, spread over the columns of the whole, of which the first says which it is.
    fn rows_of_part(&self, which: Entry, columns: &[&str], emit: &mut dyn FnMut(&[Entry])) {
        let own = self.columns();
        let source: Vec<Option<usize>> =
            columns.iter().skip(1).map(|c| own.iter().position(|o| o == c)).collect();
        self.rows(&own, &mut |row| {
            let entry = |at: &Option<usize>| at.and_then(|at| row.get(at).copied()).unwrap_or(Entry::Empty);
            let wide: Vec<Entry> = [which].into_iter().chain(source.iter().map(entry)).collect();
            emit(&wide);
        });
    }
}

/// A first column that says which part a row belongs to, and the columns of all parts.
fn joint(first: &'static str, parts: &[Figure]) -> Vec<&'static str> {
    let mut all = vec![first];
    for column in parts.iter().flat_map(|p| p.chart.columns()) {
        if !all.contains(&column) {
            all.push(column);
        }
    }
    all
}

/// Runs the export program; what it says about a failure becomes the error.
fn export(program: &Path, svg: &Path) -> Result<()> {
    let hint =
        format!("unset {EXPORT} to save without PDF and PNG, or build the program again with `make figures`");
    let output = Command::new(program).arg(svg).output().map_err(|e| Error::io(program, &hint, e))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
    let said =
        if said.is_empty() { format!("the export program ended with {}", output.status) } else { said };
    Err(Error::io(svg, hint, std::io::Error::other(said)))
}
