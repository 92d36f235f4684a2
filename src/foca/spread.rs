//! How wide classes are, and how far apart.

use ndarray::{Array1, Axis};

use crate::error::{Error, Result};
use crate::probe::Features;

/// Width of classes and distance between them, both as root mean squares.
///
/// ```text
/// spread²     = mean over classes of mean over their rows of ‖z − m_y‖²
/// separation² = mean over pairs of classes of ‖m_c − m_c'‖²
/// ```
/// Every class counts alike, whatever its size. With two classes the separation is the distance of their means. Checked
/// by `tests/foca/spread.rs`.
/// Book: `foca/coadaptation.md#eq-foca-co-traces`.
///
/// ```
/// use lastlayer::prelude::*;
/// let features = Features::new(&ndarray::array![[-1.5], [-0.5], [0.5], [1.5]], &[0, 0, 1, 1], 2)?;
/// let found = Spread::of(&features)?;
/// assert_eq!((found.spread, found.separation, found.ratio()), (0.5, 2.0, 0.25));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub spread: f64,
    pub separation: f64,
}

impl Spread {
    /// Spread and separation of features with two classes or more.
    ///
    /// Cost: O(n d + classes² d). Fails: `Config` for a single class, `Data` if a class has no sample.
    pub fn of(features: &Features) -> Result<Spread> {
        if features.classes < 2 {
            return Err(Error::config("classes of a spread", features.classes, "at least 2"));
        }
        let classes = features.classes as f64;
        let counts = features.rows()?.counts();
        let mut means = vec![Array1::<f64>::zeros(features.d()); features.classes];
        for (class, z) in features.y.iter().zip(features.z.axis_iter(Axis(0))) {
            means[*class as usize] += &z;
        }
        means.iter_mut().zip(&counts).for_each(|(mean, count)| *mean /= *count as f64);
        let squared = |v: Array1<f64>| v.dot(&v);
        let within: f64 = (features.y.iter().zip(features.z.axis_iter(Axis(0))))
            .map(|(class, z)| squared(&z - &means[*class as usize]) / counts[*class as usize] as f64)
            .sum();
        let between: f64 = (means.iter().enumerate())
            .flat_map(|(i, mean)| means.iter().take(i).map(move |other| squared(mean - other)))
            .sum();
        let pairs = classes * (classes - 1.0) / 2.0;
        Ok(Spread { spread: (within / classes).sqrt(), separation: (between / pairs).sqrt() })
    }

    /// Spread over separation; infinite if all class means agree, also where nothing spreads.
    pub fn ratio(&self) -> f64 {
        if self.separation == 0.0 { f64::INFINITY } else { self.spread / self.separation }
    }

    /// Shows both and their ratio.
    pub fn evcxr_display(&self) {
        let Spread { spread, separation } = self;
        let text = format!("spread {spread:.4}, separation {separation:.4}, ratio {:.4}", self.ratio());
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}
