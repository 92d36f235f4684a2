//! Checks that a notebook prints: your number beside the true one. Exercises mark themselves with them, and the test
//! runner compares every printed line with the committed one.
//!
//! ```
//! use lastlayer::prelude::*;
//! let slope = 2.0 * 3.0;
//! check("slope of x² at 3", slope, 6, 1e-12)?; // prints one line
//! let line = lastlayer::check::check_line("slope of x² at 3", &[slope], &[6.0], 1e-12)?;
//! assert_eq!(line, "check slope of x² at 3 = 6 (tolerance 1e-12): exact");
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

use crate::error::{Error, Result, ensure_shape};
use crate::numbers::AsF64;

/// At most this many entries are printed; the comparison always covers all.
const SHOWN: usize = 8;

/// Prints one line that compares your numbers with the true ones.
///
/// ```text
/// check dL/dw = [2, 4, 6] (tolerance 1e-12): exact
/// check dL/dw = [2, 4, 6.5] (tolerance 1e-12): WRONG, largest difference 5.0e-1
/// ```
/// A number, a list, an array, a tensor of any shape, or a claim. `close` means that every entry differs by at most
/// `tolerance · max(1, |true|)`. A wrong answer is a line, not an error, so the cell keeps its variables. Fails: `Shape`
/// if the two have different lengths, `Config` for a tolerance that is not a positive number.
///
/// ```
/// use lastlayer::prelude::*;
/// let w = Tensor::new(&[2f64, 4.0, 6.5], &Device::Cpu)?;
/// check("w", &w, [2, 4, 6], 1e-6)?; // prints WRONG, and the cell goes on
/// assert!(check("w", &w, [2, 4], 1e-6).is_err()); // two numbers cannot be compared with three
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn check(name: &str, mine: impl AsF64, truth: impl AsF64, tolerance: f64) -> Result<()> {
    println!("{}", check_line(name, &mine.numbers()?, &truth.numbers()?, tolerance)?);
    Ok(())
}

/// The line that [`check`] prints.
///
/// ```
/// use lastlayer::check::check_line;
/// let line = check_line("pi", &[3.1416], &[std::f64::consts::PI], 1e-4)?;
/// assert_eq!(line, "check pi = 3.1416 (tolerance 1e-4): close, largest difference 7.3e-6");
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn check_line(name: &str, mine: &[f64], truth: &[f64], tolerance: f64) -> Result<String> {
    ensure_shape(name, truth.len(), mine.len())?;
    if !(tolerance > 0.0 && tolerance.is_finite()) {
        return Err(Error::config("tolerance", tolerance, "a positive number, such as 1e-6"));
    }
    if name.is_empty() || name.contains(['\n', '=']) {
        return Err(Error::config("name of a check", format!("{name:?}"), "one line of text without '='"));
    }
    let differences: Vec<f64> =
        mine.iter().zip(truth).map(|(m, t)| if m == t { 0.0 } else { (m - t).abs() }).collect();
    let largest = differences.iter().copied().fold(0.0, |a: f64, d| if d.is_nan() { d } else { a.max(d) });
    let close = differences.iter().zip(truth).all(|(d, t)| *d <= tolerance * t.abs().max(1.0));
    let verdict = match close {
        true if largest == 0.0 => "exact".to_string(),
        true => format!("close, largest difference {largest:.1e}"),
        false => format!("WRONG, largest difference {largest:.1e}"),
    };
    let mut shown: Vec<String> = mine.iter().take(SHOWN).map(f64::to_string).collect();
    if mine.len() > SHOWN {
        shown.push(format!("… {} in all", mine.len()));
    }
    let value = if mine.len() == 1 { shown.concat() } else { format!("[{}]", shown.join(", ")) };
    Ok(format!("check {name} = {value} (tolerance {tolerance:e}): {verdict}"))
}
