//! Three small tables inside the library, for examples that need no download.

use std::io::Read;
use std::path::Path;

use candle_core::DType;

use super::Place;
use super::csv_table::{CsvTable, parse};
use super::read::Source;
use crate::data::Dataset;
use crate::error::{Error, Result};

const BUNDLED: Source = Source {
    name: "A bundled table",
    layout: "a gzip CSV under data/tables that is compiled into the library",
    origin: "Run scripts/tables.py to make it again",
};

/// Name, column of the label, and the file itself.
const TABLES: [(&str, &str, &[u8]); 3] = [
    ("iris", "species", include_bytes!("../../../data/tables/iris.csv.gz")),
    ("breast_cancer", "diagnosis", include_bytes!("../../../data/tables/breast_cancer.csv.gz")),
    ("digits", "digit", include_bytes!("../../../data/tables/digits.csv.gz")),
];

/// One of the small tables that come with the library.
///
/// ```text
/// "iris"            x (150, 4) f32, cm                  y setosa, versicolor, virginica
/// "breast_cancer"   x (569, 30) f32                     y benign, malignant (malignant is 1)
/// "digits"          x (1797, 1, 8, 8) u8 images         y 0 … 9; ink 0 … 16 is scaled to 0 … 255
/// ```
/// f64 if you ask ([`Place`]), images aside. Origin and licence (CC BY 4.0) in data/tables/README.md. Fails: `Config` for another name.
/// Checked by `tests/load/bundled.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let cells = load::bundled("breast_cancer", &Device::Cpu)?;
/// assert_eq!((cells.n(), cells.d()), (569, 30));
/// assert_eq!(cells.names.classes, ["benign", "malignant"]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn bundled(name: &str, device: impl Into<Place>) -> Result<Dataset> {
    let place = Place::of(device)?;
    let Some((_, label, bytes)) = TABLES.iter().find(|(known, ..)| *known == name) else {
        let known = TABLES.map(|(known, ..)| format!("{known:?}")).join(", ");
        return Err(Error::config("bundled table", format!("{name:?}"), known));
    };
    let path = Path::new(name);
    let mut text = String::new();
    flate2::read::GzDecoder::new(*bytes)
        .read_to_string(&mut text)
        .map_err(|e| BUNDLED.unreadable(path, e))?;
    let options = CsvTable { label: label.to_string(), ..CsvTable::default() };
    let table = parse(&BUNDLED, path, name, &text, &options, &place)?;
    if name != "digits" {
        return Ok(table);
    }
    let n = table.y.dims1()?;
    let x = table.x.affine(255.0 / 16.0, 0.0)?.round()?.to_dtype(DType::U8)?.reshape((n, 1, 8, 8))?;
    Dataset::new(name, x, table.y, table.names.classes)
}
