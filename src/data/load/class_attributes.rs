//! Attributes of classes, as in zero-shot learning: one row per class.

use std::path::Path;

use ndarray::Array2;

use super::cub;
use super::read::{Source, fields, root};
use crate::error::Result;
use crate::table::{Cell, Table};

const AWA2: Source = Source {
    name: "AwA2",
    layout: "a folder with classes.txt and predicates.txt (\"<number> <name>\"), predicate-matrix-binary.txt and \
             predicate-matrix-continuous.txt (one class a line, one number per predicate)",
    origin: "People get AwA2-base.zip from cvml.ista.ac.at/AwA2",
};

/// Attribute holds for a class of CUB if more than this percentage of its labels say so.
const MAJORITY: f64 = 50.0;

/// Which attributes hold for which classes.
///
/// Both matrices are (classes, attributes): `binary` of 0 and 1, `continuous` in percent.
///
/// ```
/// use lastlayer::prelude::*;
/// let animals = load::ClassAttributes {
///     classes: vec!["bear".into(), "zebra".into()],
///     attributes: vec!["black".into(), "stripes".into()],
///     binary: ndarray::array![[1.0, 0.0], [1.0, 1.0]],
///     continuous: ndarray::array![[80.0, 0.0], [60.0, 95.0]],
/// };
/// assert_eq!(animals.table().rows()[1][1], Cell::from("2: stripes, black")); // the strongest first
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClassAttributes {
    /// Names of the rows.
    pub classes: Vec<String>,
    /// Names of the columns.
    pub attributes: Vec<String>,
    /// 1 where the attribute holds for the class.
    pub binary: Array2<f64>,
    /// How strongly it holds, in percent.
    pub continuous: Array2<f64>,
}

impl ClassAttributes {
    /// One line per class: how many attributes hold, and the strongest of them.
    pub fn table(&self) -> Table {
        let rows = self.classes.iter().enumerate().map(|(class, name)| {
            let mut holding: Vec<usize> =
                (0..self.attributes.len()).filter(|j| self.binary[[class, *j]] > 0.5).collect();
            holding.sort_by(|i, j| self.continuous[[class, *j]].total_cmp(&self.continuous[[class, *i]]));
            let strongest: Vec<&str> = holding.iter().take(3).map(|j| self.attributes[*j].as_str()).collect();
            (name.clone(), Cell::Text(format!("{}: {}", holding.len(), strongest.join(", "))))
        });
        let caption = format!(
            "{} classes, {} attributes; how many hold and the three strongest",
            self.classes.len(),
            self.attributes.len()
        );
        Table::pairs("class", "attributes that hold", rows.collect()).caption(&caption)
    }

    /// Shows the table.
    pub fn evcxr_display(&self) {
        self.table().evcxr_display();
    }
}

/// Fifty animals and eighty-five attributes of each, from Animals with Attributes 2.
///
/// Layout: `classes.txt`, `predicates.txt`, `predicate-matrix-binary.txt`, `predicate-matrix-continuous.txt` in `folder`.
/// Shapes: both matrices (50, 85); `continuous` is in percent, with −1 where nobody was asked, as in the files.
/// Fails: `Io` if a file is missing, `Data` with the line that has another number of values.
/// People get AwA2-base.zip from cvml.ista.ac.at/AwA2. Checked by `tests/load/attributes.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
/// # write("classes.txt", "1\tantelope\n2\tgrizzly+bear\n");
/// # write("predicates.txt", "1\tblack\n2\thooves\n");
/// # write("predicate-matrix-binary.txt", "0 1\n1 0\n");
/// # write("predicate-matrix-continuous.txt", "0.00 60.50\n39.25 1.39\n");
/// // `folder` holds two animals and two attributes.
/// let animals = load::awa2(&folder)?;
/// assert_eq!(animals.classes, ["antelope", "grizzly+bear"]);
/// assert_eq!(animals.binary, ndarray::array![[0.0, 1.0], [1.0, 0.0]]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn awa2(folder: impl AsRef<Path>) -> Result<ClassAttributes> {
    let folder = root(folder.as_ref(), "Animals_with_Attributes2");
    let classes = AWA2.numbered_names(&folder.join("classes.txt"))?;
    let attributes = AWA2.numbered_names(&folder.join("predicates.txt"))?;
    let shape = (classes.len(), attributes.len());
    let path = folder.join("predicate-matrix-binary.txt");
    let binary = matrix(&AWA2, &path, shape)?;
    if binary.iter().any(|value| *value != 0.0 && *value != 1.0) {
        return Err(AWA2.data(&path, "holds values other than 0 and 1"));
    }
    let continuous = matrix(&AWA2, &folder.join("predicate-matrix-continuous.txt"), shape)?;
    Ok(ClassAttributes { classes, attributes, binary, continuous })
}

/// The two hundred birds of CUB and the three hundred and twelve attributes of each.
///
/// Layout: `classes.txt`, `attributes.txt` (or `attributes/attributes.txt`, or one folder up, as in the official
/// archive) and `class_attribute_labels_continuous.txt` (or the same in `attributes/`) in `folder`.
/// Shapes: both matrices (200, 312); `continuous` is the percentage of labels that say yes, `binary` is 1 above 50 %.
/// Fails: `Io` if a file is missing, `Data` with the line that has another number of values.
/// People get CUB_200_2011.tgz from data.caltech.edu/records/65de6-vp158. Checked by `tests/load/attributes.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
/// # write("classes.txt", "1 001.Albatross\n2 002.Wren\n");
/// # write("attributes.txt", "1 red wing\n2 long tail\n");
/// # write("class_attribute_labels_continuous.txt", "50.0 50.1\n0 100\n");
/// // `folder` holds two birds and two attributes in percent; an attribute holds above one half.
/// let birds = load::cub_class_attributes(&folder)?;
/// assert_eq!(birds.continuous[[0, 1]], 50.1);
/// assert_eq!(birds.binary, ndarray::array![[0.0, 1.0], [0.0, 1.0]]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn cub_class_attributes(folder: impl AsRef<Path>) -> Result<ClassAttributes> {
    let folder = &root(folder.as_ref(), cub::CUB_FOLDER);
    let source = &cub::CUB;
    let classes = source.numbered_names(&folder.join("classes.txt"))?;
    let attributes = source.numbered_names(&cub::attributes_file(folder))?;
    let path = cub::class_attributes_file(folder);
    let continuous = matrix(source, &path, (classes.len(), attributes.len()))?;
    if continuous.iter().any(|value| !(0.0..=100.0).contains(value)) {
        return Err(source.data(&path, "holds values that are no percentages"));
    }
    let binary = continuous.mapv(|percentage| if percentage > MAJORITY { 1.0 } else { 0.0 });
    Ok(ClassAttributes { classes, attributes, binary, continuous })
}

/// Numbers separated by white space, one row a line.
fn matrix(source: &Source, path: &Path, (rows, columns): (usize, usize)) -> Result<Array2<f64>> {
    let text = source.text(path)?;
    let mut values = Vec::new();
    for (line, fields) in fields(&text) {
        if fields.len() != columns {
            return Err(source.line(path, line, format!("{} values instead of {columns}", fields.len())));
        }
        for field in fields {
            match field.parse::<f64>() {
                Ok(value) if value.is_finite() => values.push(value),
                _ => return Err(source.line(path, line, format!("{field:?} is no finite number"))),
            }
        }
    }
    let found = values.len() / columns;
    Array2::from_shape_vec((rows, columns), values)
        .map_err(|_| source.data(path, format!("{found} rows for {rows} classes")))
}
