//! Which attribute each question of a tree asks for.

use ndarray::Array2;

use super::fidelity::{Count, Null, rank_p_value};
use crate::data::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::AsF64;
use crate::seed::Seed;
use crate::table::Table;
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
///     p_rows: 0.005,
///     p_classes: 0.005,
/// };
/// assert!(reading.counts(0.5)); // strong, of whatever sign, and above chance of both kinds
/// assert!(!NodeReading { p_classes: 0.3, ..reading }.counts(0.5)); // any attribute of these classes would do
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
    /// What 95 % of shuffles of the rows stay below, each with its own best attribute.
    pub null: f64,
    /// How often shuffled rows reach the correlation, as a p-value.
    pub p_rows: f64,
    /// How often they reach it if classes swap their attributes, [`Null::Classes`].
    pub p_classes: f64,
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
pub struct TreeReading {
    pub readings: Vec<NodeReading>,
    /// Smallest correlation that counts.
    pub least: f64,
}

/// Largest p-value that counts.
const LEVEL: f64 = 0.05;
/// Draws behind each null.
const DRAWS: usize = 200;
/// Correlation below which a question is not named after an attribute.
const LEAST: f64 = 0.5;

/// Names each question of a tree after the attribute that goes with its answer best, on rows the tree was not fitted to.
///
/// ```text
/// inside a node:  max over attributes f of |MCC(1[v > τ], f)|,   against the same after shuffling the answers
/// ```
/// A question that parts classes goes with whatever attribute parts them, far above shuffled answers. So the same is measured
/// after the classes of the whole set have swapped their attributes, [`Null::Classes`]; where few classes are left that can
/// seldom be told from chance. Host: codes, labels and attributes. Cost: 200 draws of either kind for each node. Fails: `Data`
/// if the set has no attributes, `Shape` for codes of another set or tree.
/// Book: `intersection/fidelity.md#eq-int-fid-class-null`.
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
pub fn read_tree(tree: &Tree, codes: &Codes, data: &Dataset, seed: Seed) -> Result<TreeReading> {
    let a = data.attributes()?;
    let columns = data.names.attributes.len();
    ensure_shape("attributes of codes", vec![codes.n(), columns], a.sizes())?;
    let table = Array2::from_shape_vec((codes.n(), columns), a.numbers()?.into_owned())
        .map_err(|e| Error::shape("attributes", "[n, attributes]", e))?;
    let (depths, labels) = (tree.depths(), data.labels()?);
    let drawn = |time: usize| Null::Classes.order(&labels, seed.named("classes").stream(time as u64));
    let orders: Vec<Vec<usize>> = (0..DRAWS).map(drawn).collect();
    let mut readings = Vec::new();
    for (node, rows) in tree.rows_at(codes)?.into_iter().enumerate() {
        let Some(split) = tree.nodes()[node].split.filter(|_| !rows.is_empty()) else { continue };
        let answers: Vec<bool> =
            rows.iter().map(|row| codes.row(*row)[split.feature] > split.threshold).collect();
        let taken = |from: &dyn Fn(usize) -> usize| -> Vec<Vec<bool>> {
            let column = |j| rows.iter().map(|row| table[[from(*row), j]] >= 0.5).collect();
            (0..columns).map(column).collect()
        };
        let columns = taken(&|row| row);
        let (column, mcc) = best(&answers, &columns);
        let mut shuffled: Vec<f64> = (0..DRAWS)
            .map(|time| {
                let order = seed.stream(node as u64).stream(time as u64).permutation(rows.len());
                let answers: Vec<bool> = order.iter().map(|i| answers[*i]).collect();
                best(&answers, &columns).1.abs()
            })
            .collect();
        shuffled.sort_by(f64::total_cmp);
        let swapped = orders.iter().map(|order| best(&answers, &taken(&|row| order[row])).1.abs());
        readings.push(NodeReading {
            node,
            depth: depths[node],
            rows: rows.len(),
            attribute: data.names.attributes[column].clone(),
            column,
            mcc,
            null: shuffled[DRAWS * 95 / 100],
            p_rows: rank_p_value(mcc.abs(), shuffled),
            p_classes: rank_p_value(mcc.abs(), swapped),
        });
    }
    Ok(TreeReading { readings, least: LEAST })
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
    /// Whether the correlation is at least this large, and neither shuffled rows nor swapped classes often reach it: p-values
    /// of at most .05.
    pub fn counts(&self, least: f64) -> bool {
        self.mcc.abs() >= least && self.p_rows <= LEVEL && self.p_classes <= LEVEL
    }
}

impl TreeReading {
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
            Table::new(&["node", "depth", "rows", "attribute", "MCC", "p, rows", "p, classes", "counts"])
                .decimals(3);
        for r in &self.readings {
            let counts = if r.counts(self.least) { "yes" } else { "no" };
            let attribute = r.attribute.as_str();
            table = table.row((r.node, r.depth, r.rows, attribute, r.mcc, r.p_rows, r.p_classes, counts))?;
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
