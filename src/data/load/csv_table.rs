//! Tables as CSV: numbers as features, one column as the label.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::str::FromStr;

use candle_core::{DType, Tensor, WithDType};

use super::read::{MOST_BYTES, MOST_CLASSES, Source, product};
use super::{Place, TOO_LARGE};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::numbers::Number;

const CSV: Source = Source {
    name: "A CSV table",
    layout: "text in UTF-8 with a header row and one row per example, plain or gzip",
    origin: "Columns that are no numbers go into `categorical` or `drop`, rows with gaps need `missing: Missing::DropRow`",
};

/// What [`csv_table`] does with a cell that is empty, "?", "NA" or "NaN".
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("gaps.csv");
/// std::fs::write(&path, "size,label\n1.5,a\n?,b\n2.5,b\n").unwrap();
/// let read = |missing| {
///     load::csv_table(&path, &load::CsvTable { missing, ..load::CsvTable::default() }, &Device::Cpu)
/// };
/// assert_eq!(read(load::Missing::DropRow)?.n(), 2);
/// assert!(read(load::Missing::Refuse).is_err()); // names line and column
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// Fails and names the cell.
    #[default]
    Refuse,
    /// Leaves the whole row out.
    DropRow,
}

/// How [`csv_table`] reads.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("people.csv");
/// std::fs::write(&path, "age;city;female;rich\n30;Bern;1;no\n40;Oslo;0;yes\n").unwrap();
/// let options = load::CsvTable {
///     label: "rich".into(),
///     attributes: vec!["female".into()],
///     categorical: vec!["city".into()],
///     delimiter: ';',
///     ..load::CsvTable::default()
/// };
/// let people = load::csv_table(&path, &options, &Device::Cpu)?;
/// assert_eq!((people.d(), people.names.attributes.len()), (3, 1)); // age, Bern, Oslo; female
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvTable {
    /// Column of the label, of words or numbers.
    pub label: String,
    /// Columns of numbers that become attributes instead of features.
    pub attributes: Vec<String>,
    /// Columns of words that become one indicator per value.
    pub categorical: Vec<String>,
    /// Columns to leave out.
    pub drop: Vec<String>,
    /// What separates the fields.
    pub delimiter: char,
    /// What to do with gaps.
    pub missing: Missing,
}

impl Default for CsvTable {
    fn default() -> CsvTable {
        CsvTable {
            label: "label".to_string(),
            attributes: Vec::new(),
            categorical: Vec::new(),
            drop: Vec::new(),
            delimiter: ',',
            missing: Missing::Refuse,
        }
    }
}

/// A table from a CSV file with a header row.
///
/// Shapes: `x` (n, d) f32, or f64 if you ask ([`Place`]): every column that is not named otherwise, as numbers, in the order
/// of the file, a categorical column as one indicator per value, by name; `y` (n): the values of the label in order,
/// numbers by size and words by name; `a` (n, m) f32. A byte-order mark and gzip are understood.
/// Fails: `Config` for a delimiter that is no ASCII character, `Io` if the file is missing, `Data` with line and column
/// for a missing column (the message lists those there are), a cell that is no finite number, or a row of another length.
/// Checked by `tests/load/csv.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("points.csv");
/// std::fs::write(&path, "x,y,label\n1,2,cat\n3,4,ant\n").unwrap();
/// let data = load::csv_table(&path, &load::CsvTable::default(), &Device::Cpu)?; // its label is "label"
/// assert_eq!(data.x.to_vec2::<f32>()?, [[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!((&data.names.classes[..], data.labels()?), (&["ant".to_string(), "cat".into()][..], vec![1, 0]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn csv_table(path: impl AsRef<Path>, options: &CsvTable, device: impl Into<Place>) -> Result<Dataset> {
    let (path, place) = (path.as_ref(), Place::of(device)?);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let set = name.split('.').next().unwrap_or_default().to_string();
    parse(&CSV, path, &set, &CSV.text(path)?, options, &place)
}

/// What a column is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Feature,
    Categorical,
    Attribute,
    Label,
    Dropped,
}

/// The table in a text; `path` and `source` only serve the messages.
pub(crate) fn parse(
    source: &Source,
    path: &Path,
    set: &str,
    text: &str,
    options: &CsvTable,
    place: &Place,
) -> Result<Dataset> {
    let sheet = Sheet::read(source, path, text, options)?;
    let (n, device) = (sheet.rows.len(), &place.device);
    let (features, x) = match place.dtype {
        DType::F64 => sheet.features::<f64>(place)?,
        _ => sheet.features::<f32>(place)?,
    };
    let (classes, y) = sheet.classes()?;
    let y = Tensor::from_vec(y, n, device)?;
    let data = Dataset::new(set, x, y, classes)?.with_features(features)?;
    let attributes = sheet.with(|role| role == Role::Attribute);
    if attributes.is_empty() {
        return Ok(data);
    }
    let mut a = Vec::with_capacity(n * attributes.len());
    for row in &sheet.rows {
        for column in &attributes {
            a.push(sheet.number::<f32>(row, *column)?);
        }
    }
    let a = Tensor::from_vec(a, (n, attributes.len()), device)?;
    data.with_attributes(a, attributes.iter().map(|column| &sheet.columns[*column]))
}

/// A row and the line it stands on.
type Row = (usize, csv::StringRecord);

/// The cells of a table, all rows of the same length and without gaps.
struct Sheet<'a> {
    source: &'a Source,
    path: &'a Path,
    columns: Vec<String>,
    roles: Vec<Role>,
    rows: Vec<Row>,
}

impl Sheet<'_> {
    fn read<'a>(source: &'a Source, path: &'a Path, text: &str, options: &CsvTable) -> Result<Sheet<'a>> {
        if !options.delimiter.is_ascii() || options.delimiter == '"' {
            let allowed = "one ASCII character that is no quote, such as ',', ';' or '\\t'";
            return Err(Error::config("delimiter", format!("{:?}", options.delimiter), allowed));
        }
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(options.delimiter as u8)
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let damaged = |e: csv::Error| {
            let line = e.position().map_or(1, |position| position.line() as usize);
            source.line(path, line, format!("cannot be read as CSV ({e})"))
        };
        let columns: Vec<String> = reader.headers().map_err(damaged)?.iter().map(str::to_string).collect();
        if columns.iter().all(String::is_empty) {
            return Err(source.data(path, "is empty"));
        }
        let roles = roles(source, path, &columns, options)?;
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(damaged)?;
            let line = record.position().map_or(0, |position| position.line() as usize);
            if record.len() != columns.len() {
                let why = format!("{} fields, but the header has {}", record.len(), columns.len());
                return Err(source.line(path, line, why));
            }
            let gap = (0..columns.len()).find(|j| roles[*j] != Role::Dropped && is_missing(&record[*j]));
            match (gap, options.missing) {
                (None, _) => rows.push((line, record)),
                (Some(_), Missing::DropRow) => {}
                (Some(j), Missing::Refuse) => {
                    let why = format!("column {:?} is {:?}, which is a gap", columns[j], &record[j]);
                    return Err(source.line(path, line, why));
                }
            }
        }
        if rows.is_empty() {
            return Err(source.data(path, "has a header but no usable row"));
        }
        Ok(Sheet { source, path, columns, roles, rows })
    }

    /// Columns whose role passes, in the order of the file.
    fn with(&self, pass: impl Fn(Role) -> bool) -> Vec<usize> {
        (0..self.columns.len()).filter(|column| pass(self.roles[*column])).collect()
    }

    fn number<T: FromStr + Number>(&self, (line, record): &Row, column: usize) -> Result<T> {
        let (name, cell) = (&self.columns[column], &record[column]);
        let why = match (cell.parse::<T>(), cell.parse::<f64>()) {
            (Ok(value), _) if value.number().is_finite() => return Ok(value),
            (_, Ok(value)) if value.is_finite() => TOO_LARGE,
            _ => "no finite number",
        };
        Err(self.source.line(self.path, *line, format!("column {name:?} is {cell:?}, which is {why}")))
    }

    /// Values of a column, numbers by size, so that 10 follows 9, and words by name.
    fn values(&self, column: usize) -> Vec<&str> {
        let values: BTreeSet<&str> = self.rows.iter().map(|(_, record)| &record[column]).collect();
        let numbers: Option<Vec<(f64, &str)>> = values.iter().map(|v| Some((v.parse().ok()?, *v))).collect();
        match numbers {
            Some(mut numbers) => {
                numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
                numbers.into_iter().map(|(_, value)| value).collect()
            }
            None => values.into_iter().collect(),
        }
    }

    /// Names of the features and their values (n, d); a categorical column keeps its place.
    fn features<T>(&self, place: &Place) -> Result<(Vec<String>, Tensor)>
    where
        T: FromStr + Number + From<u8> + WithDType,
    {
        let used = self.with(|role| matches!(role, Role::Feature | Role::Categorical));
        let levels: Vec<Option<Vec<&str>>> =
            used.iter().map(|j| (self.roles[*j] == Role::Categorical).then(|| self.values(*j))).collect();
        let mut names = Vec::new();
        for (column, levels) in used.iter().zip(&levels) {
            let column = &self.columns[*column];
            match levels {
                None => names.push(column.clone()),
                Some(levels) => names.extend(levels.iter().map(|value| format!("{column}={value}"))),
            }
        }
        let n = self.rows.len();
        if names.is_empty() {
            return Err(self.source.data(self.path, "has no column left for features"));
        }
        if product(&[n, names.len(), size_of::<T>()]).is_none_or(|bytes| bytes as u64 > MOST_BYTES) {
            let why = format!("would have {} features for {n} rows; drop a column", names.len());
            return Err(self.source.data(self.path, why));
        }
        let mut x: Vec<T> = Vec::with_capacity(n * names.len());
        for row in &self.rows {
            for (column, levels) in used.iter().zip(&levels) {
                match levels {
                    None => x.push(self.number(row, *column)?),
                    Some(levels) => {
                        x.extend(levels.iter().map(|value| T::from(u8::from(*value == &row.1[*column]))));
                    }
                }
            }
        }
        let x = Tensor::from_vec(x, (n, names.len()), &place.device)?;
        Ok((names, x))
    }

    /// Names of the classes and the class of each row.
    fn classes(&self) -> Result<(Vec<String>, Vec<u32>)> {
        let label = self.with(|role| role == Role::Label)[0];
        let values = self.values(label);
        let measured = values.iter().find(|value| value.parse::<f64>().is_ok_and(|v| v.fract() != 0.0));
        if let Some(value) = measured {
            let why =
                format!("label {:?} is {value}, a measurement; a label names classes", self.columns[label]);
            return Err(self.source.data(self.path, why));
        }
        if values.len() > MOST_CLASSES {
            let why =
                format!("label {:?} has {} values, too many for classes", self.columns[label], values.len());
            return Err(self.source.data(self.path, why));
        }
        let index: HashMap<&str, u32> = values.iter().copied().zip(0..).collect();
        let y = self.rows.iter().map(|(_, record)| index[&record[label]]).collect();
        Ok((values.into_iter().map(str::to_string).collect(), y))
    }
}

/// The role of each column; every name in the options must be a column.
fn roles(source: &Source, path: &Path, columns: &[String], options: &CsvTable) -> Result<Vec<Role>> {
    let mut roles = vec![Role::Feature; columns.len()];
    let named = [
        (Role::Dropped, options.drop.as_slice()),
        (Role::Categorical, options.categorical.as_slice()),
        (Role::Attribute, options.attributes.as_slice()),
        (Role::Label, std::slice::from_ref(&options.label)),
    ];
    for (role, names) in named {
        for name in names {
            let mut found = (0..columns.len()).filter(|j| columns[*j] == *name);
            let (Some(j), None) = (found.next(), found.next()) else {
                let why =
                    format!("the columns are {}; {name:?} must be exactly one of them", columns.join(", "));
                return Err(source.line(path, 1, why));
            };
            if roles[j] != Role::Feature {
                return Err(Error::config("use of column", format!("{name:?} twice"), "one use per column"));
            }
            roles[j] = role;
        }
    }
    Ok(roles)
}

fn is_missing(cell: &str) -> bool {
    matches!(cell, "" | "?" | "NA" | "N/A" | "NaN" | "nan" | "null")
}
