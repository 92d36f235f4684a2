//! The one error type of the crate. Every message says what is wrong and what to try next, because it is all a
//! notebook cell prints.

use std::path::PathBuf;

/// Result with the crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong, in four families (shape, configuration, data, solve), plus the kernel, files and candle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two lengths or shapes that must agree do not.
    #[error("shape of {what}: expected {expected}, got {got}")]
    Shape { what: String, expected: String, got: String },

    /// A setting lies outside what is allowed.
    #[error("{field} is {got}; allowed: {allowed}")]
    Config { field: String, got: String, allowed: String },

    /// A file or a table holds something that cannot be used.
    #[error("{}: {why}", place(.path, *.line))]
    Data { path: PathBuf, line: Option<usize>, why: String },

    /// A solver stopped before it had an answer.
    #[error("{solver} stopped after {iters} iterations with residual {residual:.3e}; {hint}")]
    Solve { solver: String, iters: usize, residual: f64, hint: String },

    /// The notebook kernel is not one in which gradients can be trusted.
    #[error("{problem}\n{remedy}")]
    Kernel { problem: String, remedy: String },

    /// A file could not be read or written.
    #[error("{}: {source}; {hint}", .path.display())]
    Io { path: PathBuf, hint: String, source: std::io::Error },

    /// An error of candle, unchanged.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

impl Error {
    /// Shape error with anything printable.
    pub fn shape(what: impl ToString, expected: impl ToString, got: impl ToString) -> Error {
        Error::Shape { what: what.to_string(), expected: expected.to_string(), got: got.to_string() }
    }

    /// Configuration error with anything printable.
    pub fn config(field: impl ToString, got: impl ToString, allowed: impl ToString) -> Error {
        Error::Config { field: field.to_string(), got: got.to_string(), allowed: allowed.to_string() }
    }

    /// Data error about a whole file.
    pub fn data(path: impl Into<PathBuf>, why: impl ToString) -> Error {
        Error::Data { path: path.into(), line: None, why: why.to_string() }
    }

    /// Shows the message as a cell would print it.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(format!("error: {self}"));
    }

    /// File error that names the path and what to try.
    pub fn io(path: impl Into<PathBuf>, hint: impl ToString, source: std::io::Error) -> Error {
        Error::Io { path: path.into(), hint: hint.to_string(), source }
    }
}

fn place(path: &std::path::Path, line: Option<usize>) -> String {
    match line {
        Some(line) => format!("{}, line {line}", path.display()),
        None => path.display().to_string(),
    }
}

/// Fails with [`Error::Shape`] unless the two agree.
pub fn ensure_shape<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, got: T) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(Error::shape(what, format!("{expected:?}"), format!("{got:?}")))
}
