//! Two changes at once: what each is worth alone, what both are worth, and whether they add up.

use super::compare::paired;
use super::{Estimate, finite};
use crate::error::{Result, ensure_shape};
use crate::numbers::AsF64;
use crate::table::{Cell, Table};

/// A measure under neither, one, the other and both of two changes, over the same seeds.
///
/// ```text
/// first = mean(f − n)   second = mean(s − n)   both = mean(b − n)   interaction = mean((b − f) − (s − n))
/// ```
/// The interaction is what both are worth beyond the sum of each: zero if they add up. Each has the interval of Student's
/// t over the seeds. Checked by `tests/together.rs::interaction_is_the_paired_difference_of_differences`.
///
/// ```
/// use lastlayer::prelude::*;
/// // Each change adds about 1, both together about 3: one more than the sum.
/// let (neither, first, second) = ([0.1, 0.2, 0.3], [1.1, 1.3, 1.2], [1.2, 1.1, 1.4]);
/// let found: Factorial = factorial(neither, first, second, [3.1, 3.4, 3.2], 0.95)?;
/// assert!((found.interaction.value - 1.0).abs() < 1e-12 && found.interaction.low > 0.0);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factorial {
    /// The measure without either change.
    pub neither: f64,
    /// What the first change alone adds.
    pub first: Estimate,
    /// What the second change alone adds.
    pub second: Estimate,
    /// What both add.
    pub both: Estimate,
    /// What both add beyond the sum of the two.
    pub interaction: Estimate,
}

/// Two changes and both together, from one number per seed for each of the four.
///
/// Shapes: all (n), seeds in the same order. Fails: `Shape` if the lengths differ or are below two, `Config` as
/// [`paired`].
/// Book: `together/line.md#eq-together-interaction`, `#eq-together-width`.
///
/// ```
/// use lastlayer::prelude::*;
/// let found = factorial([0.0, 1.0], [2.0, 4.0], [1.0, 3.0], [4.0, 6.0], 0.95)?;
/// assert_eq!((found.first.value, found.second.value, found.both.value), (2.5, 1.5, 4.5));
/// assert_eq!(found.interaction.value, 0.5);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn factorial(
    neither: impl AsF64,
    first: impl AsF64,
    second: impl AsF64,
    both: impl AsF64,
    level: f64,
) -> Result<Factorial> {
    let (n, f) = (finite("numbers without a change", &neither)?, finite("numbers of the first", &first)?);
    let (s, b) = (finite("numbers of the second", &second)?, finite("numbers of both", &both)?);
    for (what, numbers) in [("first", &f), ("second", &s), ("both", &b)] {
        ensure_shape(&format!("numbers of {what} (one per seed)"), n.len(), numbers.len())?;
    }
    let less = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<f64>>();
    let gain = |with: &[f64]| paired(with, &n[..], level).map(|found| found.difference);
    Ok(Factorial {
        neither: n.iter().sum::<f64>() / n.len() as f64,
        first: gain(&f)?,
        second: gain(&s)?,
        both: gain(&b)?,
        interaction: paired(less(&b, &f), less(&s, &n), level)?.difference,
    })
}

impl Factorial {
    /// Shows the measure and what the changes add.
    pub fn evcxr_display(&self) {
        let rows = vec![
            ("neither", Cell::from(self.neither)),
            ("first alone adds", Cell::from(self.first)),
            ("second alone adds", Cell::from(self.second)),
            ("both add", Cell::from(self.both)),
            ("beyond their sum", Cell::from(self.interaction)),
        ];
        Table::pairs("two changes", "value", rows).evcxr_display();
    }
}
