//! Archives unpacked whole or not at all, and never outside their folder.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::read::{Source, inside};
use crate::error::{Error, Result};

/// Most bytes and entries that an archive may unpack to: CelebA, the largest set we load, has 1.4 GB in 202 599 files.
const MOST_BYTES: u64 = 8 << 30;
const MOST_ENTRIES: usize = 1_000_000;

/// Most bytes of a long name or an extended header in a tar archive; the tar crate holds them in memory.
const MOST_HEADER: u64 = 64 << 10;

/// File in an unpacked folder that says which archive it came from, written last.
const MARKER: &str = ".unpacked";

const ARCHIVE: Source = Source {
    name: "An archive for `unpack`",
    layout: "a .zip, .tar or .tar.gz that holds only files and folders, with names that stay below the target",
    origin: "Download it again, or unpack it with a tool that you trust",
};

/// Unpacks an archive into a folder of its own and returns that folder.
///
/// Reads .zip, .tar and .tar.gz (.tgz), told apart by content, not by name. If `into` already holds this archive,
/// nothing is done, so a notebook may call it every time.
/// Refuses absolute names, `..`, links, devices, duplicate names, more than 8 GiB and more than a million entries.
/// Fails: `Io` if a file cannot be read or written, `Config` if `into` holds something else, `Data` for a refused or
/// damaged archive; `into` is then as it was, because the files are written beside it and renamed at the end.
/// Checked by `tests/load/archive.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let (archive, into) = (folder.path().join("set.tar"), folder.path().join("set"));
/// # let mut builder = tar::Builder::new(std::fs::File::create(&archive).unwrap());
/// # let mut header = tar::Header::new_gnu();
/// # (header.set_size(3), header.set_mode(0o644), header.set_cksum());
/// # builder.append_data(&mut header, "a/labels.txt", &b"0 1"[..]).unwrap();
/// # builder.finish().unwrap();
/// // `archive` is a .tar with the file a/labels.txt.
/// let found = load::unpack(&archive, &into)?;
/// assert_eq!(std::fs::read_to_string(found.join("a/labels.txt")).unwrap(), "0 1");
/// assert_eq!(load::unpack(&archive, &into)?, found); // is there already
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn unpack(archive: impl AsRef<Path>, into: impl AsRef<Path>) -> Result<PathBuf> {
    let (archive, into) = (archive.as_ref(), into.as_ref());
    let mut file = File::open(archive).map_err(|e| ARCHIVE.io(archive, e))?;
    let length = file.metadata().map_err(|e| ARCHIVE.io(archive, e))?.len();
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let marker = format!("{name}, {length} bytes\n");
    if is_done(into, &marker)? {
        return Ok(into.to_path_buf());
    }
    let staged = Staged::beside(into)?;
    let mut unpacking = Unpacking { archive, folder: &staged.0, bytes: 0, entries: 0 };
    match Kind::of(&mut file).map_err(|e| ARCHIVE.io(archive, e))? {
        Some(Kind::Zip) => unpacking.zip(file)?,
        Some(Kind::Tar) => unpacking.tar(|| Ok(BufReader::new(reopened(archive)?)))?,
        Some(Kind::TarGz) => {
            unpacking.tar(|| Ok(flate2::bufread::MultiGzDecoder::new(BufReader::new(reopened(archive)?))))?
        }
        None => return Err(ARCHIVE.data(archive, "is neither zip nor tar nor gzip")),
    }
    if unpacking.entries == 0 {
        return Err(ARCHIVE.data(archive, "is empty"));
    }
    let path = staged.0.join(MARKER);
    fs::write(&path, &marker).map_err(unwritable(&path))?;
    if let Err(error) = fs::rename(&staged.0, into) {
        // Another process may have finished the same work first.
        return if is_done(into, &marker)? { Ok(into.to_path_buf()) } else { Err(unwritable(into)(error)) };
    }
    Ok(into.to_path_buf())
}

fn reopened(archive: &Path) -> Result<File> {
    File::open(archive).map_err(|e| ARCHIVE.io(archive, e))
}

fn unwritable(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    move |e| Error::io(path, "check that the folder can be written and the disk is not full", e)
}

/// Whether the folder holds this archive already. Fails if it holds anything else, which is never overwritten.
fn is_done(into: &Path, marker: &str) -> Result<bool> {
    if fs::read_to_string(into.join(MARKER)).is_ok_and(|found| found == marker) {
        return Ok(true);
    }
    let free = match fs::read_dir(into) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if free {
        return Ok(false);
    }
    let allowed = "a folder that does not exist yet, because this one was not made by `unpack` from this archive; \
                   load from it as it is, remove it, or name another";
    Err(Error::config("folder to unpack into", into.display(), allowed))
}

/// A folder beside the target that vanishes unless it is renamed.
struct Staged(PathBuf);

impl Staged {
    fn beside(into: &Path) -> Result<Staged> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let Some(name) = into.file_name() else {
            return Err(Error::config("folder to unpack into", into.display(), "a path that ends in a name"));
        };
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{}.{}-{count}.part", name.to_string_lossy(), std::process::id());
        let path = into.with_file_name(name);
        fs::create_dir_all(&path).map_err(unwritable(&path))?;
        Ok(Staged(path))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After the rename there is nothing to remove; before it, the error that matters is another one.
        let _ = fs::remove_dir_all(&self.0);
    }
}

enum Kind {
    Zip,
    Tar,
    TarGz,
}

impl Kind {
    fn of(file: &mut File) -> io::Result<Option<Kind>> {
        let mut start = Vec::new();
        file.take(512).read_to_end(&mut start)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(match start.as_slice() {
            [b'P', b'K', ..] => Some(Kind::Zip),
            [0x1f, 0x8b, ..] => Some(Kind::TarGz),
            s if s.get(257..262) == Some(b"ustar") => Some(Kind::Tar),
            _ => None,
        })
    }
}

/// One archive on its way to a folder, and how much of the bounds it has used.
struct Unpacking<'a> {
    archive: &'a Path,
    folder: &'a Path,
    bytes: u64,
    entries: usize,
}

impl Unpacking<'_> {
    fn zip(&mut self, file: File) -> Result<()> {
        let damaged = |e| match e {
            zip::result::ZipError::Io(e) => ARCHIVE.unreadable(self.archive, e),
            e => ARCHIVE.data(self.archive, format!("is truncated or damaged ({e}); download it again")),
        };
        let mut zip = zip::ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
        for i in 0..zip.len() {
            let mut entry = zip.by_index(i).map_err(damaged)?;
            let name = entry.name().map_err(damaged)?.into_owned();
            // A zip made on Unix keeps the type of a file in the high bits of its mode: 4 a folder, 8 a file.
            let kind = entry.unix_mode().unwrap_or(0) >> 12;
            if !matches!(kind, 0 | 4 | 8) {
                return Err(self.refused(&name, "is a link or a device"));
            }
            let (folder, size) = (entry.is_dir(), entry.size());
            self.entry(&name, folder, size, &mut entry)?;
        }
        Ok(())
    }

    /// Two passes: the first reads only headers, so that nothing large or special reaches the crate or the disk.
    fn tar<R: Read>(&mut self, open: impl Fn() -> Result<R>) -> Result<()> {
        let damaged = |e| ARCHIVE.unreadable(self.archive, e);
        let mut tar = tar::Archive::new(open()?);
        let mut declared = 0u64;
        for (i, entry) in tar.entries().map_err(damaged)?.raw(true).enumerate() {
            let entry = entry.map_err(damaged)?;
            declared = declared.saturating_add(entry.size());
            // Twice, because a long name is an entry of its own.
            if i >= 2 * MOST_ENTRIES || declared > MOST_BYTES {
                return Err(self.too_large());
            }
            let kind = entry.header().entry_type();
            let is_header =
                kind.is_gnu_longname() || kind.is_pax_local_extensions() || kind.is_pax_global_extensions();
            if is_header && entry.size() > MOST_HEADER {
                return Err(ARCHIVE.data(self.archive, "has a header too long for any file name"));
            }
            if !(is_header || kind.is_file() || kind.is_dir()) {
                let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                return Err(self.refused(&name, "is a link or a device"));
            }
        }
        let mut tar = tar::Archive::new(open()?);
        for entry in tar.entries().map_err(damaged)? {
            let mut entry = entry.map_err(damaged)?;
            let kind = entry.header().entry_type();
            if kind.is_pax_global_extensions() {
                continue;
            }
            let Ok(name) = String::from_utf8(entry.path_bytes().into_owned()) else {
                return Err(ARCHIVE.data(self.archive, "has a name that is not UTF-8"));
            };
            let size = entry.size();
            self.entry(&name, kind.is_dir(), size, &mut entry)?;
        }
        // To the end, so that gzip compares its checksum.
        let rest = tar.into_inner().take(MOST_BYTES);
        io::copy(&mut { rest }, &mut io::sink()).map_err(|e| ARCHIVE.unreadable(self.archive, e))?;
        Ok(())
    }

    fn entry(&mut self, name: &str, is_folder: bool, size: u64, content: &mut impl Read) -> Result<()> {
        let Some(path) = inside(name) else {
            // A tar of a folder often starts with the folder itself, "./".
            return if is_folder && matches!(name, "." | "./") {
                Ok(())
            } else {
                Err(self.refused(name, "has a name that could lead out of the folder"))
            };
        };
        self.entries += 1;
        let left = MOST_BYTES - self.bytes;
        if self.entries > MOST_ENTRIES || size > left {
            return Err(self.too_large());
        }
        let path = self.folder.join(path);
        if is_folder {
            return fs::create_dir_all(&path).map_err(unwritable(&path));
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(unwritable(parent))?;
        }
        let mut file = match File::create_new(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(self.refused(name, "is there twice"));
            }
            other => other.map_err(unwritable(&path))?,
        };
        let copied = io::copy(&mut content.take(size.saturating_add(1)), &mut file)
            .map_err(|e| ARCHIVE.unreadable(self.archive, e))?;
        if copied != size {
            let why =
                format!("is truncated ({name:?} has {copied} bytes instead of {size}); download it again");
            return Err(ARCHIVE.data(self.archive, why));
        }
        self.bytes += copied;
        Ok(())
    }

    fn too_large(&self) -> Error {
        let why = format!("unpacks to more than {} GiB or {MOST_ENTRIES} entries", MOST_BYTES >> 30);
        ARCHIVE.data(self.archive, why)
    }

    fn refused(&self, name: &str, why: &str) -> Error {
        ARCHIVE.data(self.archive, format!("entry {name:?} {why}, so nothing was unpacked"))
    }
}
