//! Studies: one run per configuration and seed, each with a record of its own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::record::Record;
use crate::seed::Seed;
use crate::table::Table;

/// A study: every configuration with every seed.
///
/// Runs whose record is already in the folder are not run again, so a study that was interrupted continues, and parts of
/// it may run on several machines (`shard`) and be merged by copying their records into one folder.
/// Checked by `tests/sweep.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let study = Sweep::new("width", "records").vary("hidden", &[8, 32]).seeds(1..=3);
/// assert_eq!(study.runs()?.len(), 6);
/// // One of two machines; copy the records of both into one folder.
/// assert_eq!(study.clone().shard(1, 2).runs()?.len(), 3);
/// assert_eq!(study.runs()?[0].name, "width_hidden-8_seed-1");
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sweep {
    name: String,
    folder: PathBuf,
    configs: Vec<Map<String, Value>>,
    seeds: Vec<Seed>,
    shard: (usize, usize),
    threads: usize,
}

/// One run of a study.
///
/// ```
/// use lastlayer::prelude::*;
/// let study = Sweep::new("net", "records").vary("hidden", &[8]).vary("method", &["plain"]);
/// let run = &study.runs()?[0];
/// assert_eq!((run.number("hidden")?, run.text("method")?, run.seed), (8.0, "plain", Seed::new(0)));
/// assert!(run.number("depth").is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SweepRun {
    /// Name of the record: the study's, the configuration and the seed.
    pub name: String,
    pub config: Map<String, Value>,
    pub seed: Seed,
}

impl SweepRun {
    /// A setting of this run as a number. Fails: `Config` if there is none of that name.
    pub fn number(&self, key: &str) -> Result<f64> {
        self.config.get(key).and_then(Value::as_f64).ok_or_else(|| self.no(key, "a number"))
    }

    /// A setting of this run as a word. Fails: `Config` if there is none of that name.
    pub fn text(&self, key: &str) -> Result<&str> {
        self.config.get(key).and_then(Value::as_str).ok_or_else(|| self.no(key, "a word"))
    }

    fn no(&self, key: &str, kind: &str) -> Error {
        let known: Vec<&str> = self.config.keys().map(String::as_str).collect();
        Error::config(format!("setting {key} as {kind}"), "not there", known.join(", "))
    }
}

impl Sweep {
    /// A study that keeps its records in a folder.
    pub fn new(name: &str, folder: impl AsRef<Path>) -> Sweep {
        Sweep {
            name: name.to_string(),
            folder: folder.as_ref().to_path_buf(),
            configs: vec![Map::new()],
            seeds: vec![Seed::new(0)],
            shard: (0, 1),
            threads: 1,
        }
    }

    /// The seeds of every configuration.
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = u64>) -> Sweep {
        self.seeds = seeds.into_iter().map(Seed::new).collect();
        self
    }

    /// A setting with its values: every configuration so far with each of them.
    pub fn vary<V: Into<Value> + Clone>(mut self, key: &str, values: &[V]) -> Sweep {
        let with = |config: &Map<String, Value>, value: &V| {
            let mut config = config.clone();
            config.insert(key.to_string(), value.clone().into());
            config
        };
        self.configs = self.configs.iter().flat_map(|c| values.iter().map(move |v| with(c, v))).collect();
        self
    }

    /// Only every `n`-th run, beginning with number `i` from 0: one part of `n`.
    pub fn shard(mut self, i: usize, n: usize) -> Sweep {
        self.shard = (i, n);
        self
    }

    /// Settings from a command line: `--shard i/n` and `--threads k`.
    ///
    /// Fails: `Config` for any other word, or a value that is no number.
    pub fn arguments(mut self, words: impl IntoIterator<Item = String>) -> Result<Sweep> {
        let mut words = words.into_iter();
        while let Some(flag) = words.next() {
            let value = words.next().unwrap_or_default();
            let wrong = || {
                Error::config("argument", format!("{flag} {value}"), "--shard i/n with i from 0, --threads k")
            };
            let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
            match (flag.as_str(), value.split_once('/')) {
                ("--shard", Some((i, n))) => self.shard = (number(i)?, number(n)?),
                ("--threads", None) => self.threads = number(&value)?,
                _ => return Err(wrong()),
            }
        }
        Ok(self)
    }

    /// Runs at the same time.
    pub fn threads(mut self, threads: usize) -> Sweep {
        self.threads = threads;
        self
    }

    /// All runs of this part, in order.
    ///
    /// Fails: `Config` for a study without a run, or a part that is not one of `n`.
    pub fn runs(&self) -> Result<Vec<SweepRun>> {
        let (i, n) = self.shard;
        if i >= n {
            return Err(Error::config("shard", format!("{i}/{n}"), "i below n, from 0"));
        }
        let all = self.configs.iter().flat_map(|config| self.seeds.iter().map(move |seed| (config, *seed)));
        let runs: Vec<SweepRun> = all
            .map(|(config, seed)| {
                let words = config.iter().map(|(key, value)| match value {
                    Value::String(text) => format!("{key}-{text}"),
                    other => format!("{key}-{other}"),
                });
                let parts: Vec<String> = [self.name.clone()]
                    .into_iter()
                    .chain(words)
                    .chain([format!("seed-{}", seed.value())])
                    .collect();
                SweepRun { name: parts.join("_"), config: config.clone(), seed }
            })
            .collect();
        if runs.is_empty() {
            return Err(Error::config("study", &self.name, "at least one seed and one value per setting"));
        }
        Ok(runs.into_iter().skip(i).step_by(n).collect())
    }

    /// Runs what has no record yet; `run` gives the results of one, which are kept with its settings and seed.
    ///
    /// A run that fails does not end the others; the first failure is returned when all have ended. Results:
    /// all records of this study in the folder as a table, those of other parts too.
    pub fn run(
        &self,
        device: &str,
        run: impl Fn(&SweepRun, Record) -> Result<Record> + Sync,
    ) -> Result<Table> {
        let runs = self.runs()?;
        let file = |run: &SweepRun| self.folder.join(format!("{}.json", run.name));
        let waiting: Vec<&SweepRun> = runs.iter().filter(|run| !file(run).exists()).collect();
        if !waiting.is_empty() {
            let progress = Mutex::new(Progress::new(&self.name, waiting.len())?);
            let one = |waiting: &&SweepRun| -> Result<()> {
                let mut record = Record::start(&waiting.name, device).seed(waiting.seed);
                for (key, value) in &waiting.config {
                    record = record.config(key, value.clone());
                }
                run(waiting, record)?.save(&self.folder)?;
                if let Ok(mut progress) = progress.lock() {
                    progress.step(&waiting.name);
                }
                Ok(())
            };
            let next = AtomicUsize::new(0);
            let results: Mutex<Vec<(usize, Result<()>)>> = Mutex::default();
            // Threads of their own, not the pool that operations share: a thread of the pool that waits in one run's
            // operation would begin another run inside it.
            std::thread::scope(|scope| {
                for _ in 0..self.threads.clamp(1, waiting.len()) {
                    scope.spawn(|| {
                        loop {
                            let i = next.fetch_add(1, Ordering::Relaxed);
                            let Some(run) = waiting.get(i) else { break };
                            let result = one(run);
                            results.lock().unwrap_or_else(PoisonError::into_inner).push((i, result));
                        }
                    });
                }
            });
            let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
            results.sort_by_key(|(i, _)| *i);
            results.into_iter().try_for_each(|(_, result)| result)?;
        }
        Record::table_of(&self.records()?)
    }

    /// The records of this study that are in the folder, also those of other parts. Fails: `Io` if there is no folder.
    pub fn records(&self) -> Result<Vec<Record>> {
        let own = format!("{}_", self.name);
        let mut records = Record::load_all(&self.folder)?;
        records.retain(|record| record.name.starts_with(&own));
        Ok(records)
    }

    /// Shows how many runs there are, and how many are done.
    pub fn evcxr_display(&self) {
        let text = match self.runs() {
            Ok(runs) => {
                let done =
                    runs.iter().filter(|run| self.folder.join(format!("{}.json", run.name)).exists()).count();
                format!("{}: {done} of {} runs done", self.name, runs.len())
            }
            Err(error) => error.to_string(),
        };
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}
