//! The one error type of the crate. Every message says what is wrong and what to try next, because it is all a
//! notebook cell prints.
//!
//! ```
//! use lastlayer::prelude::*;
//! let error = Seed::new(1).below(0, 0).unwrap_err();
//! assert_eq!(error.to_string(), "n of below is 0; allowed: at least 1");
//! ```

use std::path::PathBuf;

/// Result with the crate's [`Error`], unless you name another.
///
/// ```
/// use lastlayer::prelude::*;
/// fn half(n: usize) -> Result<usize> {
///     if n % 2 == 0 { Ok(n / 2) } else { Err(Error::config("n", n, "an even number")) }
/// }
/// assert_eq!(half(6)?, 3);
/// assert!(half(3).is_err());
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong, in four families (shape, configuration, data, solve), plus the kernel, files and candle.
///
/// ```
/// use lastlayer::prelude::*;
/// let error = Error::shape("x of my set", "[n, 2]", "[5, 3]");
/// assert_eq!(error.to_string(), "shape of x of my set: expected [n, 2], got [5, 3]");
/// // The family tells what kind of mistake it was.
/// assert!(matches!(load::bundled("irises", &Device::Cpu), Err(Error::Config { .. })));
/// assert!(matches!(Record::load("no/such/file.json"), Err(Error::Io { .. })));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Two lengths or shapes that must agree do not.
    Shape {
        /// Whose shape it is.
        what: String,
        /// What it should be.
        expected: String,
        /// What it is.
        got: String,
    },

    /// A setting lies outside what is allowed.
    Config {
        /// Which setting.
        field: String,
        /// Its value.
        got: String,
        /// Values that would do.
        allowed: String,
    },

    /// A file or a table holds something that cannot be used.
    Data {
        /// The file, or the name of the table.
        path: PathBuf,
        /// Line of a text file, from 1.
        line: Option<usize>,
        /// What is wrong, and what to do.
        why: String,
    },

    /// A solver stopped before it had an answer.
    Solve {
        /// Which one.
        solver: String,
        /// Steps it took.
        iters: usize,
        /// How far it was from an answer; NaN if that has no meaning.
        residual: f64,
        /// What to try.
        hint: String,
    },

    /// The notebook kernel is not one in which gradients can be trusted.
    Kernel {
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: String,
    },

    /// A file could not be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// What to try.
        hint: String,
        /// What the system said.
        source: std::io::Error,
    },

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
///
/// ```
/// use lastlayer::error::ensure_shape;
/// ensure_shape("labels", 3, [0, 1, 1].len())?;
/// let error = ensure_shape("labels", 3, 2).unwrap_err();
/// assert_eq!(error.to_string(), "shape of labels: expected 3, got 2");
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn ensure_shape<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, got: T) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(Error::shape(what, format!("{expected:?}"), format!("{got:?}")))
}
