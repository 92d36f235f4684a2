//! Calibration: do things that are called 80 % likely happen eight times in ten?

use super::finite;
use crate::error::{Error, Result, ensure_shape};
use crate::figure::Curve;
use crate::numbers::{AsF64, zeros_and_ones};
use crate::table::{Cell, Table};

/// How probabilities are put into bins.
///
/// ```
/// use lastlayer::prelude::*;
/// let (p, y) = ([0.1, 0.2, 0.25, 0.9], [0, 0, 1, 1]);
/// let sizes = |bins| Ok::<_, Error>(Calibration::new(p, y, bins)?.bins.iter().map(|b| b.n).collect::<Vec<_>>());
/// assert_eq!(sizes(Bins::EqualWidth(2))?, [3, 1]);
/// assert_eq!(sizes(Bins::EqualMass(2))?, [2, 2]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bins {
    /// This many intervals of equal length over [0, 1], each closed on the right.
    EqualWidth(usize),
    /// This many groups of equal size, up to ties: equal probabilities share a group.
    EqualMass(usize),
}

/// One bin that holds at least one sample.
///
/// ```
/// use lastlayer::prelude::*;
/// let found = Calibration::new([0.75, 0.75, 0.75, 0.75], [1, 1, 0, 0], Bins::EqualWidth(10))?;
/// let bin = found.bins[0]; // empty ones are left out
/// assert_eq!((bin.n, bin.predicted, bin.observed, bin.gap()), (4, 0.75, 0.5, 0.25));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Number of samples.
    pub n: usize,
    /// Mean of their probabilities.
    pub predicted: f64,
    /// Share of them that were positive.
    pub observed: f64,
}

/// Probabilities and outcomes, and their comparison bin by bin.
///
/// Checked by `tests/metrics/calibration.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let found = Calibration::new([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1], Bins::EqualWidth(2))?;
/// assert_eq!((found.ece(), found.mce()), (0.25, 0.25));
/// assert_eq!(found.brier(), (0.0625 + 0.5625 + 0.0625 + 0.0625) / 4.0);
/// assert!(found.log_loss()? > 0.0);
/// let figure = curves(&[found.curve("ours")])?.labels("predicted", "observed");
/// assert!(figure.csv().contains("ours,0.75,1.0"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Probabilities and outcomes, in ascending order of the probabilities.
    pairs: Vec<(f64, f64)>,
    /// The bins that are not empty, ascending.
    pub bins: Vec<Bin>,
}

impl Calibration {
    /// Probabilities of the positive class against labels 0 or 1.
    ///
    /// Shapes: `p` (n), `y` (n). Cost: O(n log n). Fails: `Shape` if the lengths differ or are zero, `Data` if a
    /// label is not 0 or 1, `Config` if a probability lies outside [0, 1] or the number of bins is not in 1 to 1000.
    pub fn new(p: impl AsF64, y: impl AsF64, bins: Bins) -> Result<Calibration> {
        let p = finite("probabilities", &p)?;
        if let Some(at) = p.iter().position(|p| !(0.0..=1.0).contains(p)) {
            let got = format!("{} at index {at}", p[at]);
            return Err(Error::config("probabilities", got, "0 to 1; put scores through a sigmoid first"));
        }
        let y = zeros_and_ones("labels", &y)?;
        ensure_shape("labels (one per probability)", p.len(), y.len())?;
        let mut pairs: Vec<(f64, f64)> = p.iter().copied().zip(y.iter().copied()).collect();
        // By label too, so that sums do not depend on the order of the input.
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let (Bins::EqualWidth(count) | Bins::EqualMass(count)) = bins;
        if !(1..=1000).contains(&count) {
            return Err(Error::config("number of bins", count, "1 to 1000; 10 to 20 is usual"));
        }
        let ends = match bins {
            Bins::EqualWidth(count) => equal_width_ends(&pairs, count),
            Bins::EqualMass(count) => equal_mass_ends(&pairs, count),
        };
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let filled = starts.zip(&ends).filter(|(start, end)| start < end);
        let bins = filled.map(|(start, end)| bin(&pairs[start..*end])).collect();
        Ok(Calibration { pairs, bins })
    }

    /// Expected calibration error: the mean gap between probability and frequency, bins weighted by their size.
    ///
    /// ```text
    /// ECE = Σ_b (n_b/n) |predicted_b − observed_b|
    /// ```
    pub fn ece(&self) -> f64 {
        self.bins.iter().map(|b| b.n as f64 * b.gap()).sum::<f64>() / self.pairs.len() as f64
    }

    /// Maximum calibration error: the largest gap of any bin.
    pub fn mce(&self) -> f64 {
        self.bins.iter().map(Bin::gap).fold(0.0, f64::max)
    }

    /// Brier score: the mean squared difference of probability and outcome.
    pub fn brier(&self) -> f64 {
        self.pairs.iter().map(|(p, y)| (p - y) * (p - y)).sum::<f64>() / self.pairs.len() as f64
    }

    /// Log loss: the mean surprise at the outcomes, in nats.
    ///
    /// ```text
    /// −(1/n) Σ [y log p + (1 − y) log(1 − p)]
    /// ```
    /// Fails: `Config` if something happened that was given no chance, because the loss is then infinite. scikit-learn
    /// moves such a probability to the nearest f64 inside (0, 1) instead.
    pub fn log_loss(&self) -> Result<f64> {
        let mut sum = 0.0;
        for (p, y) in &self.pairs {
            if (p - y).abs() == 1.0 {
                let got = format!("{p} where the label is {y}, an infinite loss");
                return Err(Error::config(
                    "probability",
                    got,
                    "strictly inside (0, 1); clip them, and say so",
                ));
            }
            sum -= if *y == 1.0 { libm::log(*p) } else { libm::log1p(-p) };
        }
        Ok(sum / self.pairs.len() as f64)
    }

    /// Observed frequency against mean probability, one point per bin; the diagonal is perfect.
    pub fn curve(&self, name: &str) -> Curve {
        let [x, y] = [|b: &Bin| b.predicted, |b: &Bin| b.observed]
            .map(|f| self.bins.iter().map(f).collect::<Vec<_>>());
        Curve::new(name, &x, &y)
    }

    /// Shows the errors and the scores.
    pub fn evcxr_display(&self) {
        let log_loss = self.log_loss().map_or_else(|_| Cell::from("infinite"), Cell::from);
        let rows = vec![
            ("samples", Cell::from(self.pairs.len())),
            ("bins that are not empty", Cell::from(self.bins.len())),
            ("expected calibration error", Cell::from(self.ece())),
            ("maximum calibration error", Cell::from(self.mce())),
            ("Brier score", Cell::from(self.brier())),
            ("log loss", log_loss),
        ];
        Table::pairs("calibration", "value", rows).evcxr_display();
    }
}

impl Bin {
    /// Distance of mean probability and frequency.
    pub fn gap(&self) -> f64 {
        (self.predicted - self.observed).abs()
    }
}

fn bin(pairs: &[(f64, f64)]) -> Bin {
    let n = pairs.len();
    let mean = |part: fn(&(f64, f64)) -> f64| pairs.iter().map(part).sum::<f64>() / n as f64;
    Bin { n, predicted: mean(|pair| pair.0), observed: mean(|pair| pair.1) }
}

/// Where each interval of equal width ends in the sorted list.
fn equal_width_ends(pairs: &[(f64, f64)], bins: usize) -> Vec<usize> {
    (1..=bins).map(|i| pairs.partition_point(|(p, _)| *p <= i as f64 / bins as f64)).collect()
}

/// Where each group of equal size ends, moved past ties.
fn equal_mass_ends(pairs: &[(f64, f64)], bins: usize) -> Vec<usize> {
    let end = |i: usize| {
        let last = (pairs.len() * i).div_ceil(bins).max(1) - 1;
        pairs.partition_point(|(p, _)| *p <= pairs[last].0)
    };
    (1..=bins).map(end).collect()
}
