//! UCI Adult: who earns more than 50 000 dollars, with the groups that fairness constraints speak of.

use std::path::Path;

use candle_core::Tensor;

use super::Place;
use super::read::{Source, first_of};
use crate::data::{Dataset, Part};
use crate::error::Result;
use crate::numbers::to_tensor;

const ADULT: Source = Source {
    name: "Adult",
    layout: "a folder with adult.data and adult.test, each plain or with .gz: fifteen fields separated by commas, \
             \"39, State-gov, 77516, …, <=50K\"; adult.data is needed for either part, because the columns come from it",
    origin: "People get it from archive.ics.uci.edu/dataset/2/adult (CC BY 4.0)",
};

/// The fields of a row; `fnlwgt`, a sampling weight, is not used.
const FIELDS: [&str; 15] = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
];
const AGE: usize = 0;
const WORDS: [usize; 8] = [1, 3, 5, 6, 7, 8, 9, 13];
const NUMBERS: [usize; 5] = [AGE, 4, 10, 11, 12];
const RACE: usize = 8;
const SEX: usize = 9;
const INCOME: usize = 14;

/// Groups of the four constraints: name, field and value.
const GROUPS: [(&str, usize, &str); 4] =
    [("female", SEX, "Female"), ("male", SEX, "Male"), ("white", RACE, "White"), ("black", RACE, "Black")];

/// Edges of the left-open buckets of `Adult::Indicators`; those of age are its quartiles.
const BUCKETS: [(usize, [f64; 5]); 4] = [
    (10, [-1.0, 1.0, 4000.0, 10000.0, 100000.0]),
    (11, [-1.0, 1.0, 1800.0, 1950.0, 4500.0]),
    (12, [0.0, 39.0, 41.0, 50.0, 100.0]),
    (4, [0.0, 8.0, 9.0, 11.0, 16.0]),
];

/// How [`adult`] turns a row into numbers.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let rest = "Private, 1, HS-grad, 9, Divorced, Sales, Wife, White, Female, 0, 0, 40, Cuba";
/// # let rows = format!("20, {rest}, <=50K\n60, {rest}, >50K\n");
/// # std::fs::write(folder.path().join("adult.data"), rows).unwrap();
/// // `folder` holds adult.data, here with one value in each of its eight fields of words.
/// let width = |columns| load::adult(&folder, Part::Train, &columns, &Device::Cpu).map(|data| data.d());
/// assert_eq!(width(load::Adult::Raw)?, 5 + 8); // numbers as they are
/// assert_eq!(width(load::Adult::Indicators)?, 20 + 8); // numbers in four buckets each
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adult {
    /// Five numbers, standardised by the training rows, and one indicator per value of the eight other fields.
    #[default]
    Raw,
    /// Indicators only, as in the notebook `Fairness_adult` of TFCO: numbers fall into four buckets each.
    Indicators,
}

/// Census rows with income above 50 000 dollars as the label and four groups as attributes.
///
/// Layout: `adult.data` and `adult.test` in `folder`, plain or `.gz`; `adult.data` is read for either part, because
/// columns, means and quartiles come from the training rows. A test value that no training row has sets no column.
/// Shapes: `x` (n, 107) f32 for `Raw` (5 numbers, 102 values), (n, 122) for `Indicators` (20 buckets, 102 values), or f64 if
/// you ask ([`Place`]); `y` (n); `a` (n, 4) f32 of 0 and 1 for female, male, white, black. `fnlwgt` is dropped, "?" is a value like any other.
/// In `Indicators` age falls into the quartiles of the training rows, left-open, so the youngest are in none.
/// Fails: `Config` for `Part::Validation`, `Io` if a file is missing, `Data` with the line that does not fit.
/// People get it from archive.ics.uci.edu/dataset/2/adult. Checked by `tests/load/adult.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let rest = "Private, 1, HS-grad, 9, Divorced, Sales, Wife, White, Female, 0, 0, 40, Cuba";
/// # let rows = format!("20, {rest}, <=50K\n60, {rest}, >50K\n");
/// # std::fs::write(folder.path().join("adult.data"), rows).unwrap();
/// // `folder` holds adult.data, here with two rows.
/// let data = load::adult(&folder, Part::Train, &load::Adult::Raw, &Device::Cpu)?;
/// assert_eq!(data.labels()?, [0, 1]);
/// assert_eq!(data.attribute("female")?.to_vec1::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn adult(
    folder: impl AsRef<Path>,
    part: Part,
    columns: &Adult,
    device: impl Into<Place>,
) -> Result<Dataset> {
    let (folder, Place { dtype, device }) = (folder.as_ref(), Place::of(device)?);
    let is_train = ADULT.train_or_test(part)?;
    let train = rows(&first_of(folder, &["adult.data", "adult.data.gz"]))?;
    let columns = fit(&train, *columns);
    let rows = if is_train { train } else { rows(&first_of(folder, &["adult.test", "adult.test.gz"]))? };

    let (mut x, mut y, mut a) = (Vec::new(), Vec::new(), Vec::new());
    for row in &rows {
        columns.iter().for_each(|column| column.encode(row, &mut x));
        y.push(u32::from(row.words[INCOME] == ">50K"));
        a.extend(GROUPS.map(|(_, field, value)| f32::from(u8::from(row.words[field] == value))));
    }
    let names: Vec<String> = columns.iter().flat_map(Column::names).collect();
    let n = rows.len();
    let x = to_tensor(x, (n, names.len()), dtype, &device)?;
    let a = Tensor::from_vec(a, (n, GROUPS.len()), &device)?;
    let classes = vec!["<=50K".to_string(), ">50K".to_string()];
    Dataset::new(ADULT.name, x, Tensor::from_vec(y, n, &device)?, classes)?
        .with_features(names)?
        .with_attributes(a, GROUPS.map(|(name, ..)| name.to_string()).to_vec())
}

/// One row: every field as text, and the numeric ones as numbers too.
struct Row {
    words: Vec<String>,
    numbers: [f64; 15],
}

fn rows(path: &Path) -> Result<Vec<Row>> {
    let text = ADULT.text(path)?;
    let mut rows = Vec::new();
    for (i, line) in text.lines().enumerate() {
        // The test file starts with "|1x3 Cross validator", and both end in a blank line.
        if line.trim().is_empty() || line.starts_with('|') {
            continue;
        }
        let mut words: Vec<String> = line.split(',').map(|word| word.trim().to_string()).collect();
        if words.len() != FIELDS.len() {
            let why = format!(
                "{} fields instead of {}; is truncated or of another layout",
                words.len(),
                FIELDS.len()
            );
            return Err(ADULT.line(path, i + 1, why));
        }
        // The test file has a dot after each label.
        if let Some(label) = words[INCOME].strip_suffix('.') {
            words[INCOME] = label.to_string();
        }
        if !matches!(words[INCOME].as_str(), "<=50K" | ">50K") {
            let why = format!("income is {:?}, and only <=50K and >50K are known", words[INCOME]);
            return Err(ADULT.line(path, i + 1, why));
        }
        let mut numbers = [0.0; 15];
        for field in NUMBERS {
            match words[field].parse::<f64>() {
                Ok(value) if value.is_finite() => numbers[field] = value,
                _ => {
                    let why = format!("{} is {:?}, which is no number", FIELDS[field], words[field]);
                    return Err(ADULT.line(path, i + 1, why));
                }
            }
        }
        rows.push(Row { words, numbers });
    }
    if rows.is_empty() {
        return Err(ADULT.data(path, "is empty"));
    }
    Ok(rows)
}

/// One or more columns made of a field.
enum Column {
    /// The number, minus the mean, over the standard deviation.
    Standardised { field: usize, mean: f64, deviation: f64 },
    /// One indicator per value.
    Values { field: usize, values: Vec<String> },
    /// One indicator per left-open bucket.
    Buckets { field: usize, edges: [f64; 5] },
}

/// The columns that the training rows define.
fn fit(train: &[Row], columns: Adult) -> Vec<Column> {
    let numbers = |field: usize| train.iter().map(move |row| row.numbers[field]);
    let mut fitted: Vec<Column> = match columns {
        Adult::Raw => NUMBERS
            .iter()
            .map(|&field| {
                let n = train.len() as f64;
                let mean = numbers(field).sum::<f64>() / n;
                let variance = numbers(field).map(|v| (v - mean).powi(2)).sum::<f64>() / n;
                // A constant column becomes zero instead of NaN.
                let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
                Column::Standardised { field, mean, deviation }
            })
            .collect(),
        Adult::Indicators => {
            let mut ages: Vec<f64> = numbers(AGE).collect();
            ages.sort_by(f64::total_cmp);
            let edges = [0.0, 0.25, 0.5, 0.75, 1.0].map(|q| quantile(&ages, q));
            std::iter::once((AGE, edges))
                .chain(BUCKETS)
                .map(|(field, edges)| Column::Buckets { field, edges })
                .collect()
        }
    };
    fitted.extend(WORDS.iter().map(|&field| {
        let mut values: Vec<String> = train.iter().map(|row| row.words[field].clone()).collect();
        values.sort();
        values.dedup();
        Column::Values { field, values }
    }));
    fitted
}

/// Quantile of sorted values by linear interpolation, as numpy and pandas define it.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    below + (above - below) * position.fract()
}

impl Column {
    fn names(&self) -> Vec<String> {
        match self {
            Column::Standardised { field, .. } => vec![FIELDS[*field].to_string()],
            Column::Values { field, values } => {
                values.iter().map(|value| format!("{}={value}", FIELDS[*field])).collect()
            }
            Column::Buckets { field, edges } => {
                edges.windows(2).map(|e| format!("{} in ({}, {}]", FIELDS[*field], e[0], e[1])).collect()
            }
        }
    }

    fn encode(&self, row: &Row, out: &mut Vec<f64>) {
        let indicator = |holds: bool| f64::from(u8::from(holds));
        match self {
            Column::Standardised { field, mean, deviation } => {
                out.push((row.numbers[*field] - mean) / deviation);
            }
            Column::Values { field, values } => {
                out.extend(values.iter().map(|value| indicator(*value == row.words[*field])));
            }
            Column::Buckets { field, edges } => {
                let value = row.numbers[*field];
                out.extend(edges.windows(2).map(|e| indicator(e[0] < value && value <= e[1])));
            }
        }
    }
}
