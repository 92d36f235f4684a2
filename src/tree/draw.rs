//! A tree for people: as a figure, as rules, and as TikZ.

use super::tree::{Node, Split, Tree};
use crate::error::{Error, Result, ensure_shape};
use crate::figure::{Branch, Figure, tree};
use crate::latex;

/// What is written at the nodes of a tree.
///
/// [`Tree::names`] writes the code itself at every question; [`ask`](TreeNames::ask) puts a name in its place.
/// Checked by `tests/tree/draw.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let codes = Codes::from_bytes(vec![0, 1], 1, 2)?;
/// let tree = Cart::default().fit(&codes, &ndarray::array![[1.0, 0.0], [0.0, 1.0]])?;
/// // A high code says that the tail is absent.
/// let names = tree.names(&["fish", "frog"]).ask(0, "has a tail", false)?;
/// let rules = tree.rules(&names)?;
/// assert_eq!(rules, "has a tail?\n  yes: fish 1.00 (1 rows)\n  no: frog 1.00 (1 rows)\n");
/// assert!(tree.tikz(&names)?.starts_with("\\begin{tikzpicture}"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNames {
    /// Question or end of each node.
    labels: Vec<String>,
    /// Whether yes leads to the high side; of each node.
    yes_is_high: Vec<bool>,
}

impl TreeNames {
    /// Names the question of a node; `yes_is_high` says which side has what is asked for.
    ///
    /// Fails: `Config` for a node that is not there.
    pub fn ask(mut self, node: usize, name: &str, yes_is_high: bool) -> Result<TreeNames> {
        if node >= self.labels.len() {
            return Err(Error::config("node", node, format!("below {}", self.labels.len())));
        }
        self.labels[node] = name.to_string();
        self.yes_is_high[node] = yes_is_high;
        Ok(self)
    }

    /// Shows the words at the nodes.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(self.labels.join("\n"));
    }
}

/// Room of a node in TikZ: across and along the tree, in millimetres.
const ACROSS: f64 = 7.0;
const ALONG: f64 = 38.0;

impl Tree {
    /// Plain names: `z12 > 3` at questions, the most probable class with its probability at ends.
    ///
    /// Classes without a name are numbered.
    pub fn names<S: AsRef<str>>(&self, classes: &[S]) -> TreeNames {
        let label = |node: &Node| match node.split {
            Some(Split { feature, threshold, .. }) => format!("z{feature} > {threshold}"),
            None => {
                let class = node.class();
                let name =
                    classes.get(class).map_or_else(|| class.to_string(), |name| name.as_ref().to_string());
                format!("{name} {:.2}", node.value[class])
            }
        };
        TreeNames {
            labels: self.nodes().iter().map(label).collect(),
            yes_is_high: vec![true; self.nodes().len()],
        }
    }

    /// The nodes that follow from yes and from no.
    fn ways(&self, node: usize, names: &TreeNames) -> Option<[usize; 2]> {
        let Split { low, high, .. } = self.nodes()[node].split?;
        Some(if names.yes_is_high[node] { [high, low] } else { [low, high] })
    }

    /// The tree as a figure, from the left.
    ///
    /// Fails: `Shape` for names of another tree, `Config` for more than 12 questions in a row or 100 ends.
    pub fn figure(&self, names: &TreeNames) -> Result<Figure> {
        ensure_shape("names of a tree", self.nodes().len(), names.labels.len())?;
        tree(&self.branch(0, names))
    }

    fn branch(&self, node: usize, names: &TreeNames) -> Branch {
        match self.ways(node, names) {
            None => Branch::leaf(&names.labels[node]),
            Some([yes, no]) => {
                Branch::question(&names.labels[node], self.branch(yes, names), self.branch(no, names))
            }
        }
    }

    /// The tree as rules, one line per node; what follows from an answer is indented below it.
    ///
    /// Fails: `Shape` for names of another tree.
    pub fn rules(&self, names: &TreeNames) -> Result<String> {
        ensure_shape("names of a tree", self.nodes().len(), names.labels.len())?;
        let mut text = String::new();
        let mut waiting = vec![(0, 0, "")];
        while let Some((node, depth, answer)) = waiting.pop() {
            let (indent, label) = ("  ".repeat(depth), &names.labels[node]);
            let rows = self.nodes()[node].weight;
            match self.ways(node, names) {
                None => text += &format!("{indent}{answer}{label} ({rows} rows)\n"),
                Some([yes, no]) => {
                    text += &format!("{indent}{answer}{label}?\n");
                    waiting.extend([(no, depth + 1, "no: "), (yes, depth + 1, "yes: ")]);
                }
            }
        }
        Ok(text)
    }

    /// The tree as a TikZ picture; needs `\usepackage{tikz}` and nothing else.
    ///
    /// Fails: `Shape` for names of another tree.
    pub fn tikz(&self, names: &TreeNames) -> Result<String> {
        ensure_shape("names of a tree", self.nodes().len(), names.labels.len())?;
        let mut text = String::from(
            "\\begin{tikzpicture}[x=1mm, y=1mm, every node/.style={font=\\small, anchor=west}]\n",
        );
        let mut row = 0.0;
        self.tikz_node(0, 0, &mut row, names, &mut text);
        Ok(text + "\\end{tikzpicture}\n")
    }

    /// Draws a node and all below it; returns its height.
    fn tikz_node(
        &self,
        node: usize,
        depth: usize,
        row: &mut f64,
        names: &TreeNames,
        text: &mut String,
    ) -> f64 {
        let label = latex::escape(&names.labels[node]);
        let x = depth as f64 * ALONG;
        let Some([yes, no]) = self.ways(node, names) else {
            let y = -*row * ACROSS;
            *row += 1.0;
            *text += &format!("  \\node (n{node}) at ({x:.1},{y:.1}) {{{label}}};\n");
            return y;
        };
        let heights = [yes, no].map(|next| self.tikz_node(next, depth + 1, row, names, text));
        let y = (heights[0] + heights[1]) / 2.0;
        *text += &format!("  \\node (n{node}) at ({x:.1},{y:.1}) {{{label}}};\n");
        for ((next, style), answer) in [(yes, ""), (no, "[dashed]")].into_iter().zip(["yes", "no"]) {
            *text += &format!(
                "  \\draw{style} (n{node}.east) -- (n{next}.west) node[midway, anchor=south, font=\\scriptsize] {{{answer}}};\n"
            );
        }
        y
    }

    /// Shows the tree as a figure, or as rules if it is too large for one.
    pub fn evcxr_display(&self) {
        let names = self.names::<&str>(&[]);
        match self.figure(&names) {
            Ok(figure) => figure.evcxr_display(),
            Err(_) => {
                let rules = self.rules(&names).unwrap_or_default();
                evcxr_runtime::mime_type("text/plain").text(rules);
            }
        }
    }
}
