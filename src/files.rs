//! Files written whole or not at all, alone or as a set that belongs together.
//!
//! ```
//! use lastlayer::prelude::*;
//! # let folder = tempfile::tempdir().unwrap();
//! // A table is three files, replaced together or not at all.
//! let stem = folder.path().join("auc");
//! let saved = Table::new(&["AUC"]).row(vec![0.93])?.save(&stem.to_string_lossy())?;
//! assert_eq!(saved.paths().len(), 3);
//! assert_eq!(std::fs::read_to_string(&saved.paths()[2]).unwrap(), "AUC\n0.93\n");
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The files that a `save` wrote.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// let stem = folder.path().join("tables").join("sizes");
/// let saved = Table::new(&["n"]).row(vec![600])?.save(&stem.to_string_lossy())?;
/// assert!(saved.paths().iter().all(|path| path.is_file()));
/// assert_eq!(saved.to_string(), "saved tables/sizes.md, tables/sizes.tex, tables/sizes.csv");
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    paths: Vec<PathBuf>,
}

impl Saved {
    /// The files, in the order they were written.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Adds files that another program made of these.
    pub(crate) fn and(mut self, more: impl IntoIterator<Item = PathBuf>) -> Saved {
        self.paths.extend(more);
        self
    }

    /// Lists the files.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(self.to_string());
    }
}

impl std::fmt::Display for Saved {
    /// Names with their last folder only: where the project lies on a machine is nobody's business in a notebook.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.paths.iter().map(|path| {
            let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
            parts[parts.len().saturating_sub(2)..].join("/")
        });
        write!(f, "saved {}", names.collect::<Vec<_>>().join(", "))
    }
}

/// Where `save` puts a result: a bare name goes to `folder` (under `LASTLAYER_OUT` where the kernel sets it, else under
/// the current folder); a path is used as given.
pub(crate) fn output_stem(folder: &str, stem: &str) -> Result<PathBuf> {
    let path = Path::new(stem);
    let name = path.file_name().map(|n| n.to_string_lossy());
    if name.is_none_or(|n| n.starts_with('.') || n.chars().any(char::is_control)) || stem.ends_with('/') {
        let allowed = "a file name such as \"rate-1\", with or without a folder before it";
        return Err(Error::config("name to save under", format!("{stem:?}"), allowed));
    }
    if path.components().count() > 1 {
        return Ok(path.to_path_buf());
    }
    Ok(std::env::var_os("LASTLAYER_OUT").map(PathBuf::from).unwrap_or_default().join(folder).join(stem))
}

/// A stem with an ending; not `with_extension`, because a stem may contain a dot.
pub(crate) fn with_ending(stem: &Path, ending: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_os_string();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Writes `<stem>.<ending>` for each ending: all of them or none.
///
/// Fails: `Config` if a folder has the name of a file, `Io` if a file cannot be written; the files that stood there
/// before are then still whole and still belong together.
pub(crate) fn write_set(stem: &Path, files: &[(&str, &[u8])]) -> Result<Saved> {
    let paths: Vec<PathBuf> = files.iter().map(|(ending, _)| with_ending(stem, ending)).collect();
    if let Some(taken) = paths.iter().find(|p| p.is_dir()) {
        return Err(Error::config("name to save under", taken.display(), "a name that no folder has"));
    }
    // Everything is on disk under other names first: a full disk stops us there, before anything is replaced. The
    // renames that follow need no space.
    let mut staged = Vec::new();
    let mut moved = Ok(());
    for (path, (_, bytes)) in paths.iter().zip(files) {
        match stage(path, bytes) {
            Ok(temporary) => staged.push(temporary),
            Err(error) => moved = moved.and(Err(error)),
        }
    }
    if moved.is_ok() {
        moved = staged
            .iter()
            .zip(&paths)
            .try_for_each(|(from, to)| std::fs::rename(from, to).map_err(unwritable(to)));
    }
    if let Err(error) = moved {
        for temporary in &staged {
            // Best effort: the error that matters is the first one.
            let _ = std::fs::remove_file(temporary);
        }
        return Err(error);
    }
    Ok(Saved { paths })
}

/// Writes one file whole or not at all.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = stage(path, bytes)?;
    std::fs::rename(&temporary, path).map_err(|e| {
        let _ = std::fs::remove_file(&temporary);
        unwritable(path)(e)
    })
}

/// Removes what [`write_atomic`] left beside `path` when it was killed half way.
pub(crate) fn remove_leftovers(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
    let start = format!(".{}.", name.to_string_lossy());
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let found = found.to_string_lossy();
        if found.starts_with(&start) && found.ends_with(".tmp") {
            // Best effort: a leftover costs space, nothing else.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Puts the bytes on disk beside `path`, under a name of their own.
fn stage(path: &Path, bytes: &[u8]) -> Result<PathBuf> {
    static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(unwritable(path))?;
    let Some(name) = path.file_name() else {
        return Err(Error::config("path", path.display(), "a path that ends in a file name"));
    };
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let temporary = folder.join(format!(".{}.{}-{count}.tmp", name.to_string_lossy(), std::process::id()));
    std::fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .map_err(|e| {
            let _ = std::fs::remove_file(&temporary);
            unwritable(path)(e)
        })?;
    Ok(temporary)
}

fn unwritable(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |e| {
        Error::io(
            path,
            "check that the folder can be written and the disk is not full; nothing was changed",
            e,
        )
    }
}

/// Text as a field of CSV (RFC 4180).
pub(crate) fn csv_field(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\"")).into();
    }
    text.into()
}
