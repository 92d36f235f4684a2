//! Loaders on tiny files that the tests write themselves, byte by byte; on real copies where `LASTLAYER_DATA` is set.

mod adult;
mod archive;
mod attributes;
mod bundled;
mod celeba;
mod cifar;
mod csv;
mod cub;
#[path = "../device/mod.rs"]
mod device;
mod exported;
mod folder;
mod fuzz;
mod idx;
mod images;
mod npz;
mod real;
mod tables;

use std::io::Write;
use std::path::{Path, PathBuf};

use lastlayer::candle::{DType, Tensor};
use lastlayer::error::{Error, Result};

/// A folder that vanishes with the test.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Writes a file, with the folders above it.
fn write(folder: impl AsRef<Path>, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.as_ref().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A zip of entries, deflated or stored.
fn zip_of(entries: &[(&str, &[u8])], deflated: bool) -> Vec<u8> {
    let method = if deflated { zip::CompressionMethod::Deflated } else { zip::CompressionMethod::Stored };
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// The values of a tensor as numbers, row by row.
fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// Asserts that a loader failed with a data or file error whose message has all these words, and returns the message.
#[track_caller]
fn fails<T: std::fmt::Debug>(result: Result<T>, words: &[&str]) -> String {
    let error = result.expect_err("this must fail");
    assert!(matches!(error, Error::Data { .. } | Error::Io { .. }), "{error:?}");
    has(&error, words)
}

/// Asserts that a loader refused an option, with these words in the message.
#[track_caller]
fn refuses<T: std::fmt::Debug>(result: Result<T>, words: &[&str]) -> String {
    let error = result.expect_err("this must be refused");
    assert!(matches!(error, Error::Config { .. }), "{error:?}");
    has(&error, words)
}

#[track_caller]
fn has(error: &Error, words: &[&str]) -> String {
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "no {word:?} in: {message}");
    }
    message
}
