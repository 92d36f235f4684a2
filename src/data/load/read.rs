//! Reading within bounds: every byte of a data set comes through here, with an error that says what was expected, and
//! nothing is allocated on the word of a header alone.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::data::Part;
use crate::error::{Error, Result};

/// Most bytes that one file may hold, after decompression. Above it a notebook would swap, not load.
pub(crate) const MOST_BYTES: u64 = 2 << 30;

/// Most classes that labels may name: a label of four billion is a mistake, not a class.
pub(crate) const MOST_CLASSES: usize = 100_000;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What a loader reads and where people get it: the second half of each of its messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Name of the set or format.
    pub name: &'static str,
    /// Files and their layout, as the end of the sentence "<name> is …".
    pub layout: &'static str,
    /// Where people get the set or how they write the file, as a sentence without its full stop.
    pub origin: &'static str,
}

impl Source {
    /// Error about a file that is there but cannot be used.
    pub(crate) fn data(&self, path: &Path, why: impl std::fmt::Display) -> Error {
        Error::data(path, self.explained(why))
    }

    /// Error about one line of a file, counted from 1.
    pub(crate) fn line(&self, path: &Path, line: usize, why: impl std::fmt::Display) -> Error {
        Error::Data { path: path.to_path_buf(), line: Some(line), why: self.explained(why) }
    }

    fn explained(&self, why: impl std::fmt::Display) -> String {
        format!("{why}. {} is {}. {}", self.name, self.layout, self.origin)
    }

    /// Error about a file or folder that cannot be opened.
    pub(crate) fn io(&self, path: &Path, error: std::io::Error) -> Error {
        Error::io(path, format!("{} is {}. {}", self.name, self.layout, self.origin), error)
    }

    /// The bytes of a file, unpacked if they are gzip, whatever the file is called.
    pub(crate) fn bytes(&self, path: &Path) -> Result<Vec<u8>> {
        let file = std::fs::File::open(path).map_err(|e| self.io(path, e))?;
        let length = file.metadata().map_err(|e| self.io(path, e))?.len();
        if length > MOST_BYTES {
            return Err(self.too_long(path));
        }
        let bytes = self.at_most(path, file)?;
        if !bytes.starts_with(&GZIP) {
            return Ok(bytes);
        }
        self.at_most(path, flate2::bufread::MultiGzDecoder::new(bytes.as_slice()))
    }

    /// All that a stream has, if that is not more than a file may hold.
    pub(crate) fn at_most(&self, path: &Path, stream: impl Read) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        stream.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|e| self.unreadable(path, e))?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(self.too_long(path));
        }
        Ok(bytes)
    }

    fn too_long(&self, path: &Path) -> Error {
        let most = MOST_BYTES >> 30;
        self.data(
            path,
            format!("holds more than {most} GiB, which is more than one file may; take a part of it"),
        )
    }

    /// A failure in the middle of a stream: damage that a new download cures, unless the disk itself failed.
    pub(crate) fn unreadable(&self, path: &Path, error: std::io::Error) -> Error {
        use std::io::ErrorKind::*;
        match error.kind() {
            UnexpectedEof => self.data(path, "is truncated; download it again"),
            InvalidData | InvalidInput | Other => {
                self.data(path, format!("is damaged ({error}); download it again"))
            }
            _ => self.io(path, error),
        }
    }

    /// The text of a file, without a byte-order mark.
    pub(crate) fn text(&self, path: &Path) -> Result<String> {
        let text = String::from_utf8(self.bytes(path)?).map_err(|e| {
            let line =
                1 + e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
            self.line(path, line, "is not UTF-8 text; save it as UTF-8")
        })?;
        Ok(text.strip_prefix('\u{feff}').map(str::to_string).unwrap_or(text))
    }

    /// Lines `<number> <name>`, numbered 1, 2, 3 …: how attributes and classes are listed.
    pub(crate) fn numbered_names(&self, path: &Path) -> Result<Vec<String>> {
        let text = self.text(path)?;
        let mut names = Vec::new();
        for (line, fields) in fields(&text) {
            if fields.len() < 2 || fields[0].parse() != Ok(names.len() + 1) {
                let why = format!("expected \"{} <name>\", got {:?}", names.len() + 1, fields.join(" "));
                return Err(self.line(path, line, why));
            }
            names.push(fields[1..].join(" "));
        }
        if names.is_empty() {
            return Err(self.data(path, "is empty"));
        }
        Ok(names)
    }

    /// Whether the part is the training part, in a set that has only this and a test part.
    pub(crate) fn train_or_test(&self, part: Part) -> Result<bool> {
        match part {
            Part::Train => Ok(true),
            Part::Test => Ok(false),
            Part::Validation => Err(Error::config(
                format!("part of {}", self.name),
                "Validation",
                "Train or Test, because the set has no other; split a validation part off Train",
            )),
        }
    }
}

/// The folder itself, or the one that an archive made in it.
pub(crate) fn root(folder: &Path, inner: &str) -> PathBuf {
    Some(folder.join(inner)).filter(|path| path.is_dir()).unwrap_or_else(|| folder.to_path_buf())
}

/// The first of several names that exists in a folder; the first name if none does, for the error that follows.
pub(crate) fn first_of(folder: &Path, names: &[&str]) -> PathBuf {
    let found = names.iter().find(|name| folder.join(name).exists()).or(names.first());
    found.map_or_else(|| folder.to_path_buf(), |name| folder.join(name))
}

/// The lines of a text that are not blank, split at white space, with their numbers.
pub(crate) fn fields(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.split_whitespace().collect::<Vec<_>>()))
        .filter(|(_, fields)| !fields.is_empty())
}

/// A name from a list or an archive as a path below a folder, unless it would lead out of it.
pub(crate) fn inside(name: &str) -> Option<PathBuf> {
    if name.contains('\\') || name.chars().any(char::is_control) {
        return None;
    }
    let mut path = PathBuf::new();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path).filter(|path| !path.as_os_str().is_empty())
}

/// Product of sizes, if it can be a number of bytes.
pub(crate) fn product(sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(1usize, |product, size| product.checked_mul(*size))
}
