//! Records of runs: one JSON file each, written whole or not at all, so that a table in the book can always be traced
//! to the run that printed it.
//!
//! ```
//! use lastlayer::prelude::*;
//! # let folder = tempfile::tempdir().unwrap();
//! let run = Record::start("first", "cpu").config("epochs", 30).seed(Seed::new(1)).result("AUC", 0.93);
//! let path = run.save(folder.path())?;
//! let found = Record::load(path)?;
//! assert_eq!((found.seed, found.number("AUC")?), (Some(Seed::new(1)), 0.93));
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::files::write_atomic;
use crate::seed::Seed;
use crate::table::{Cell, Table};

/// Where and with what a result was made.
///
/// ```
/// use lastlayer::record::Provenance;
/// let here = Provenance::here("cpu");
/// assert!(here.versions.contains_key("lastlayer") && here.versions.contains_key("candle-core"));
/// assert!(here.device == "cpu" && here.threads > 0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of each crate that can change a number, ours first.
    pub versions: Map<String, Value>,
    /// Revision of the checkout, with `-dirty` if anything but its records was changed or added; absent outside a checkout.
    pub revision: Option<String>,
    /// Device the run used, as the caller names it.
    pub device: String,
    /// Threads available to the run.
    pub threads: usize,
    /// Operating system and processor family.
    pub platform: String,
}

impl Provenance {
    /// Describes this process.
    pub fn here(device: &str) -> Provenance {
        Provenance {
            versions: versions().map(|(name, version)| (name.to_string(), Value::from(version))).collect(),
            revision: revision(),
            device: device.to_string(),
            threads: rayon::current_num_threads(),
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

/// Names and versions of this crate, of its direct dependencies as locked, and of the compiler (from `build.rs`).
pub(crate) fn versions() -> impl Iterator<Item = (&'static str, &'static str)> {
    env!("LASTLAYER_VERSIONS").split(';').filter_map(|entry| entry.split_once(' '))
}

fn revision() -> Option<String> {
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-C", env!("CARGO_MANIFEST_DIR")]).args(words).stderr(std::process::Stdio::null());
        let out = command.output().ok().filter(|out| out.status.success())?;
        String::from_utf8(out.stdout).ok().map(|text| text.trim().to_string())
    };
    let head = git(&["rev-parse", "--short=12", "HEAD"]).filter(|text| !text.is_empty())?;
    // A record that one study wrote does not make the next one's sources other than they were.
    let changed = git(&["status", "--porcelain", "--", ".", ":(exclude)data/records"])?;
    Some(if changed.is_empty() { head } else { head + "-dirty" })
}

/// One run: what was asked (config, seed), what came out (results), and where it was made.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// for (name, lr) in [("fast", 0.1), ("slow", 0.01)] {
///     Record::start(name, "cpu").config("lr", lr).result("loss", lr / 2.0).save(folder.path())?;
/// }
/// let runs = Record::load_all(folder.path())?;
/// assert_eq!(runs[1].value("lr")?, Cell::Number(0.01));
/// assert_eq!(Record::table_of(&runs)?.columns(), ["name", "seed", "lr", "loss", "seconds"]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the study; also the file's name.
    pub name: String,
    /// Settings that were chosen.
    pub config: Map<String, Value>,
    /// Seed of everything random in the run.
    pub seed: Option<Seed>,
    /// Numbers and texts that came out.
    pub results: Map<String, Value>,
    /// Seconds from [`Record::start`] to [`Record::save`], and those of the runs that it was [made of](Record::made_of).
    pub seconds: f64,
    /// Versions, revision, device, machine.
    pub provenance: Provenance,
    #[serde(skip)]
    started: Option<Instant>,
}

impl Record {
    /// Begins a record; the wall clock runs until it is saved.
    pub fn start(name: &str, device: &str) -> Record {
        Record {
            name: name.to_string(),
            config: Map::new(),
            seed: None,
            results: Map::new(),
            seconds: 0.0,
            provenance: Provenance::here(device),
            started: Some(Instant::now()),
        }
    }

    /// Notes a setting.
    pub fn config(mut self, key: &str, value: impl Into<Value>) -> Record {
        self.config.insert(key.to_string(), value.into());
        self
    }

    /// Notes the seed.
    pub fn seed(mut self, seed: Seed) -> Record {
        self.seed = Some(seed);
        self
    }

    /// Notes a result. A number that JSON cannot hold (NaN, infinite) is kept as its name, never as null.
    pub fn result(mut self, key: &str, value: impl Into<Cell>) -> Record {
        self.results.insert(key.to_string(), value.into().json());
        self
    }

    /// Notes that this record sums up these runs: their time is its time, their revision its revision.
    ///
    /// Fails: `Data` if they are of more than one revision.
    ///
    /// ```
    /// use lastlayer::prelude::*;
    /// let mut run = Record::start("seed-1", "cpu");
    /// run.seconds = 40.0;
    /// let study = Record::start("study", "cpu").made_of(&[run.clone(), run.clone()])?;
    /// assert!(study.elapsed() >= 80.0);
    /// let mut other = run.clone();
    /// other.provenance.revision = Some("of another day".to_string());
    /// assert!(Record::start("study", "cpu").made_of(&[run, other]).is_err());
    /// # Ok::<(), lastlayer::error::Error>(())
    /// ```
    pub fn made_of(mut self, runs: &[Record]) -> Result<Record> {
        for run in runs {
            if run.provenance.revision != runs[0].provenance.revision {
                let [a, b] = [&runs[0], run]
                    .map(|run| run.provenance.revision.clone().unwrap_or("no revision".to_string()));
                let why = format!(
                    "is of {b} and {} of {a}; remove the older runs and run them again",
                    runs[0].name
                );
                return Err(Error::data(&run.name, why));
            }
            self.seconds += run.seconds;
            self.provenance.revision.clone_from(&run.provenance.revision);
        }
        Ok(self)
    }

    /// A result, or a setting, by name.
    ///
    /// Fails: `Config` if the record has neither; the message lists what it has.
    pub fn value(&self, key: &str) -> Result<Cell> {
        self.results.get(key).or_else(|| self.config.get(key)).map(Cell::from_json).ok_or_else(|| {
            let known: Vec<&str> =
                self.results.keys().chain(self.config.keys()).map(String::as_str).collect();
            Error::config(format!("name in the record {:?}", self.name), format!("{key:?}"), known.join(", "))
        })
    }

    /// A result, or a setting, that is a number. Fails: `Config` if the record has no such number.
    pub fn number(&self, key: &str) -> Result<f64> {
        match self.value(key)? {
            Cell::Number(value) => Ok(value),
            Cell::Integer(value) => Ok(value as f64),
            other => Err(Error::config(key, other.text(), "the name of a single number")),
        }
    }

    /// Seconds since [`Record::start`] and of the runs it was made of, or as long as a loaded record says.
    pub fn elapsed(&self) -> f64 {
        self.seconds + self.started.map_or(0.0, |started| started.elapsed().as_secs_f64())
    }

    /// Writes `<folder>/<name>.json`, creating the folder, and returns the path.
    ///
    /// Fails: `Config` if the name is not a plain file name, `Io` if the file cannot be written; an earlier file of
    /// that name is then still whole.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<PathBuf> {
        let plain = Path::new(&self.name).file_name().is_some_and(|name| name == self.name.as_str());
        if !plain || self.name.starts_with('.') {
            let allowed = "a plain file name without folders, not starting with a dot";
            return Err(Error::config("name of the record", format!("{:?}", self.name), allowed));
        }
        let finished = Record { seconds: self.elapsed(), ..self.clone() };
        let path = folder.as_ref().join(format!("{}.json", self.name));
        let mut text = serde_json::to_string_pretty(&finished)
            .map_err(|e| Error::data(&path, format!("this record cannot be written as JSON: {e}")))?;
        text.push('\n');
        write_atomic(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Reads one record. Fails: `Io` if it is missing, `Data` with the line if it is no record.
    pub fn load(path: impl AsRef<Path>) -> Result<Record> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::io(path, "check the path, or run the study that writes this record", e))?;
        serde_json::from_str(&text).map_err(|e| Error::Data {
            path: path.to_path_buf(),
            line: Some(e.line()),
            why: format!("not a record ({e}); delete it and run the study again"),
        })
    }

    /// Reads every `*.json` of a folder, in the order of their names. Fails: as [`Record::load`].
    pub fn load_all(folder: impl AsRef<Path>) -> Result<Vec<Record>> {
        let folder = folder.as_ref();
        let missing = |e| Error::io(folder, "the folder of records cannot be read; check the path", e);
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(missing)? {
            let path = entry.map_err(missing)?.path();
            if path.extension().is_some_and(|e| e == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(Record::load).collect()
    }

    /// Gathers runs, as [`Record::load_all`] reads them, into one table: a row per run, a column per setting and result
    /// that any run has.
    pub fn table_of(records: &[Record]) -> Result<Table> {
        let mut columns = vec!["name".to_string(), "seed".to_string()];
        for key in records.iter().flat_map(|r| r.config.keys().chain(r.results.keys())) {
            if !columns.contains(key) {
                columns.push(key.clone());
            }
        }
        columns.push("seconds".to_string());
        let mut table = Table::new(&columns);
        for r in records {
            let seed = r.seed.map_or(Cell::Empty, |s| Cell::Text(s.value().to_string()));
            let mut row = vec![Cell::Text(r.name.clone()), seed];
            row.extend(columns[2..columns.len() - 1].iter().map(|key| r.value(key).unwrap_or(Cell::Empty)));
            row.push(Cell::from(r.seconds));
            table = table.row(row)?;
        }
        Ok(table)
    }

    /// Shows the record as a two-column table.
    pub fn evcxr_display(&self) {
        self.table().evcxr_display();
    }

    fn table(&self) -> Table {
        let mut rows = vec![("name".to_string(), Cell::Text(self.name.clone()))];
        rows.extend(self.seed.map(|s| ("seed".to_string(), Cell::Text(s.value().to_string()))));
        let pairs = self.config.iter().chain(&self.results).chain(&self.provenance.versions);
        rows.extend(pairs.map(|(key, value)| (key.clone(), Cell::from_json(value))));
        rows.push(("device".into(), Cell::Text(self.provenance.device.clone())));
        rows.extend(self.provenance.revision.iter().map(|r| ("revision".to_string(), Cell::Text(r.clone()))));
        Table::pairs("record", "value", rows)
    }
}
