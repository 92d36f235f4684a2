//! The one error type of the crate. Every message says what is wrong and what to try next, because it is all a
//! notebook cell prints.

use std::path::PathBuf;

/// Result with the crate's [`Error`], unless you name another.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong, in four families (shape, configuration, data, solve), plus the kernel, files and candle.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Two lengths or shapes that must agree do not.
    Shape { what: String, expected: String, got: String },

    /// A setting lies outside what is allowed.
    Config { field: String, got: String, allowed: String },

    /// A file or a table holds something that cannot be used.
    Data { path: PathBuf, line: Option<usize>, why: String },

    /// A solver stopped before it had an answer.
    Solve { solver: String, iters: usize, residual: f64, hint: String },

    /// The notebook kernel is not one in which gradients can be trusted.
    Kernel { problem: String, remedy: String },

    /// A file could not be read or written.
    Io { path: PathBuf, hint: String, source: std::io::Error },

    /// An error of candle, unchanged.
    Candle(candle_core::Error),
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

// By hand, not derived: the kernel infers the types of a cell without running derive macros, and would not find
// `to_string` on an error otherwise.
impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Shape { what, expected, got } => {
                write!(f, "shape of {what}: expected {expected}, got {got}")
            }
            Error::Config { field, got, allowed } => write!(f, "{field} is {got}; allowed: {allowed}"),
            Error::Data { path, line: Some(line), why } => {
                write!(f, "{}, line {line}: {why}", path.display())
            }
            Error::Data { path, line: None, why } => write!(f, "{}: {why}", path.display()),
            Error::Solve { solver, iters, residual, hint } => {
                write!(f, "{solver} stopped after {iters} iterations")?;
                if residual.is_finite() {
                    write!(f, " with residual {residual:.3e}")?;
                }
                write!(f, "; {hint}")
            }
            Error::Kernel { problem, remedy } => write!(f, "{problem}\n{remedy}"),
            Error::Io { path, hint, source } => write!(f, "{}: {source}; {hint}", path.display()),
            Error::Candle(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Candle(error) => error.source(),
            _ => None,
        }
    }
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Error {
        Error::Candle(error)
    }
}

/// Fails with [`Error::Shape`] unless the two agree.
pub fn ensure_shape<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, got: T) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(Error::shape(what, format!("{expected:?}"), format!("{got:?}")))
}
