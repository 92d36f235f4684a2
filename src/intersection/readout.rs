//! Which attribute each question of a tree asks for.

use ndarray::Array2;

use super::fidelity::Count;
use crate::data::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::Numbers;
use crate::seed::Seed;
use crate::table::{Cell, Table};
use crate::tree::{Codes, Tree, TreeNames};

/// What a question of a tree asks for, judged on the rows that reach it.
///
/// ```
/// use lastlayer::intersection::NodeReading;
/// let reading = NodeReading {
///     node: 0,
///     depth: 0,
///     rows: 100,
///     attribute: "tail".to_string(),
///     column: 3,
///     mcc: -0.8,
///     null: 0.2,
/// };
/// assert!(reading.counts(0.5)); // strong, of whatever sign, and above chance
/// assert!(!NodeReading { null: 0.9, ..reading }.counts(0.5));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReading {
    pub node: usize,
    pub depth: usize,
    /// Rows that reach the question.
    pub rows: usize,
    /// The attribute that goes with the answer best, and its column.
    pub attribute: String,
    pub column: usize,
    /// Their correlation inside the node; negative if a high code says that the attribute is absent.
    pub mcc: f64,
    /// What 95 % of shuffles stay below, each with its own best attribute.
    pub null: f64,
}

/// The questions of a tree as attributes. Checked by `tests/intersection/readout.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let codes = Codes::from_bytes((0..40).map(|i| i % 2 * 3).collect(), 1, 4)?;
/// let a: Vec<f64> = (0..40).map(|i| f64::from(i % 2)).collect();
/// let x = Tensor::zeros((40, 1), DType::F32, &Device::Cpu)?;
/// let data = Dataset::new("forty", x, Tensor::zeros(40, DType::U32, &Device::Cpu)?, ["any"])?;
/// let data = data.with_attributes(Tensor::new(a, &Device::Cpu)?.unsqueeze(1)?, ["has_tail"])?;
/// let p = Array2::from_shape_fn((40, 2), |(i, class)| f64::from(u8::from(i % 2 == class)));
/// let tree = Cart::default().fit(&codes, &p)?;
/// let readout = read_tree(&tree, &codes, &data, Seed::new(1))?;
/// let rules = tree.rules(&readout.names(&tree, &["plain", "tailed"])?)?;
/// assert!(rules.starts_with("has tail?\n  yes: tailed 1.00"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Readout {
    pub readings: Vec<NodeReading>,
    /// Smallest correlation that counts.
    pub least: f64,
}

/// Shuffles behind a null.
const SHUFFLES: usize = 200;
/// Correlation below which a question is not named after an attribute.
const LEAST: f64 = 0.5;

/// Names each question of a tree after the attribute that goes with its answer best, on rows the tree was not fitted to.
///
/// ```text
/// inside a node:  max over attributes f of |MCC(1[v > τ], f)|,   against the same after shuffling the answers
/// ```
/// Host: codes and attributes. Cost: 200 shuffles of the rows of each node. Fails: `Data` if the set has no attributes,
/// `Shape` for codes of another set or tree.
///
/// ```
/// use lastlayer::prelude::*;
/// // One feature, which is 3 where the attribute holds and 0 elsewhere.
/// let codes = Codes::from_bytes((0..40).map(|i| i % 2 * 3).collect(), 1, 4)?;
/// let a: Vec<f64> = (0..40).map(|i| f64::from(i % 2)).collect();
/// let x = Tensor::zeros((40, 1), DType::F32, &Device::Cpu)?;
/// let data = Dataset::new("forty", x, Tensor::zeros(40, DType::U32, &Device::Cpu)?, ["any"])?;
/// let data = data.with_attributes(Tensor::new(a, &Device::Cpu)?.unsqueeze(1)?, ["has_tail"])?;
/// let p = Array2::from_shape_fn((40, 2), |(i, class)| f64::from(u8::from(i % 2 == class)));
/// let readout = read_tree(&Cart::default().fit(&codes, &p)?, &codes, &data, Seed::new(1))?;
/// assert_eq!((readout.readings[0].mcc, readout.attributes()), (1.0, vec!["has_tail".to_string()]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn read_tree(tree: &Tree, codes: &Codes, data: &Dataset, seed: Seed) -> Result<Readout> {
    let a = data
        .a
        .as_ref()
        .ok_or_else(|| Error::data(&data.names.set, "it has no attributes to name questions after"))?;
    let columns = data.names.attributes.len();
    ensure_shape("attributes of codes", vec![codes.n(), columns], a.sizes())?;
    let table = Array2::from_shape_vec((codes.n(), columns), a.numbers()?.into_owned())
        .map_err(|e| Error::shape("attributes", "[n, attributes]", e))?;
    let depths = tree.depths();
    let mut readings = Vec::new();
    for (node, rows) in tree.rows_at(codes)?.into_iter().enumerate() {
        let Some(split) = tree.nodes()[node].split.filter(|_| !rows.is_empty()) else { continue };
        let answers: Vec<bool> =
            rows.iter().map(|row| codes.row(*row)[split.feature] > split.threshold).collect();
        let columns: Vec<Vec<bool>> =
            (0..columns).map(|j| rows.iter().map(|row| table[[*row, j]] >= 0.5).collect()).collect();
        let (column, mcc) = best(&answers, &columns);
        let mut shuffled: Vec<f64> = (0..SHUFFLES)
            .map(|time| {
                let order = seed.stream(node as u64).stream(time as u64).permutation(rows.len());
                let answers: Vec<bool> = order.iter().map(|i| answers[*i]).collect();
                best(&answers, &columns).1.abs()
            })
            .collect();
        shuffled.sort_by(f64::total_cmp);
        readings.push(NodeReading {
            node,
            depth: depths[node],
            rows: rows.len(),
            attribute: data.names.attributes[column].clone(),
            column,
            mcc,
            null: shuffled[SHUFFLES * 95 / 100],
        });
    }
    Ok(Readout { readings, least: LEAST })
}

/// The attribute with the largest correlation, the first of equals.
fn best(answers: &[bool], columns: &[Vec<bool>]) -> (usize, f64) {
    let size = answers.iter().filter(|answer| **answer).count() as u64;
    let mut found = (0, 0.0f64);
    for (column, attribute) in columns.iter().enumerate() {
        let (mut positives, mut both) = (0, 0);
        for (answer, present) in answers.iter().zip(attribute) {
            positives += u64::from(*present);
            both += u64::from(*answer && *present);
        }
        let mcc = Count { n: answers.len() as u64, size, positives, both }.mcc();
        if mcc.abs() > found.1.abs() {
            found = (column, mcc);
        }
    }
    found
}

impl NodeReading {
    /// Whether the correlation is at least this large, and above what chance reaches.
    pub fn counts(&self, least: f64) -> bool {
        self.mcc.abs() >= least && self.mcc.abs() > self.null
    }
}

impl Readout {
    /// Attributes that can be read in the tree, each once, in the order of their columns.
    pub fn attributes(&self) -> Vec<String> {
        let mut found: Vec<(usize, &str)> = self.named().map(|r| (r.column, r.attribute.as_str())).collect();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|(_, name)| name.to_string()).collect()
    }

    fn named(&self) -> impl Iterator<Item = &NodeReading> {
        self.readings.iter().filter(|reading| reading.counts(self.least))
    }

    /// Words for the tree: names of attributes where they count, codes elsewhere.
    ///
    /// Fails: `Config` for a tree that asks nothing where a reading is.
    pub fn names<S: AsRef<str>>(&self, tree: &Tree, classes: &[S]) -> Result<TreeNames> {
        let asks = |node: usize| tree.nodes().get(node).is_some_and(|node| node.split.is_some());
        if let Some(reading) = self.readings.iter().find(|reading| !asks(reading.node)) {
            return Err(Error::config("node", reading.node, "a question of the tree that was read"));
        }
        self.named().try_fold(tree.names(classes), |names, reading| {
            names.ask(reading.node, &reading.attribute.replace('_', " "), reading.mcc > 0.0)
        })
    }

    /// One row per question.
    pub fn table(&self) -> Result<Table> {
        let mut table =
            Table::new(&["node", "depth", "rows", "attribute", "MCC", "95 % of shuffles below", "counts"])
                .decimals(2);
        for r in &self.readings {
            table = table.row(vec![
                Cell::from(r.node),
                r.depth.into(),
                r.rows.into(),
                r.attribute.as_str().into(),
                r.mcc.into(),
                r.null.into(),
                if r.counts(self.least) { "yes" } else { "no" }.into(),
            ])?;
        }
        Ok(table)
    }

    /// Shows the table.
    pub fn evcxr_display(&self) {
        if let Ok(table) = self.table() {
            table.evcxr_display();
        }
    }
}
