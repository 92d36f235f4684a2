//! What is plotted: named series, checked before anything is drawn, and the look each of them gets.

use super::canvas::{BLACK, Rgb};
use crate::error::{Error, Result, ensure_shape};

/// Okabe and Ito's colours, in the fixed order of the project.
const PALETTE: [Rgb; 8] = [
    (0x00, 0x72, 0xB2),
    (0xD5, 0x5E, 0x00),
    (0x00, 0x9E, 0x73),
    (0xCC, 0x79, 0xA7),
    (0xE6, 0x9F, 0x00),
    (0x56, 0xB4, 0xE9),
    (0xF0, 0xE4, 0x42),
    BLACK,
];

/// Lengths of line and gap in pixels, one pattern per colour, so that a grey print still tells series apart.
const DASHES: [&[f64]; 8] = [
    &[],
    &[6.0, 2.5],
    &[1.6, 1.8],
    &[7.0, 2.0, 1.6, 2.0],
    &[11.0, 3.0],
    &[3.5, 1.5],
    &[7.0, 2.0, 1.6, 2.0, 1.6, 2.0],
    &[3.0, 2.2],
];

/// Values beyond this make differences overflow; data of that size is not yet in its unit.
const LARGEST: f64 = 1e100;

/// What a series stands for: the same thing looks the same in every figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    #[default]
    Other,
    Method,
    Baseline,
    Target,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub color: Rgb,
    pub dash: &'static [f64],
    pub marker: usize,
}

/// A look for each series: fixed for the roles, the next free colour for the rest.
pub(super) fn looks(roles: impl Iterator<Item = Role> + Clone) -> Vec<Look> {
    let taken = |slot: usize| {
        let role =
            [(0, Role::Method), (1, Role::Baseline), (7, Role::Target)].into_iter().find(|r| r.0 == slot);
        role.is_some_and(|(_, role)| roles.clone().any(|r| r == role))
    };
    let free: Vec<usize> = (0..8).filter(|slot| !taken(*slot)).collect();
    let mut others = 0;
    let mut seen = [0; 8];
    roles
        .clone()
        .map(|role| {
            let slot = match role {
                Role::Method => 0,
                Role::Baseline => 1,
                Role::Target => 7,
                Role::Other => {
                    others += 1;
                    free[(others - 1) % free.len()]
                }
            };
            // A colour that comes again comes with another dash and marker.
            seen[slot] += 1;
            let cue = (slot + 3 * (seen[slot] - 1)) % 8;
            Look { color: PALETTE[slot], dash: DASHES[cue], marker: cue }
        })
        .collect()
}

/// A line through points, perhaps with a band around it.
///
/// ```
/// use lastlayer::prelude::*;
/// let loss = Curve::new("loss", &[1.0, 2.0], &[0.5, 0.4]).band(&[0.4, 0.3], &[0.6, 0.5]).method();
/// let bound = Curve::new("bound", &[1.0, 2.0], &[0.7, 0.6]).target();
/// let figure = curves(&[loss, bound])?.caption("Mean over five seeds; band: 95 % interval.");
/// assert!(figure.csv().contains("loss,1.0,0.5,0.4,0.6\n"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub(super) name: String,
    pub(super) x: Vec<f64>,
    pub(super) y: Vec<f64>,
    pub(super) band: Option<(Vec<f64>, Vec<f64>)>,
    pub(super) role: Role,
}

impl Curve {
    /// Line through `(x[i], y[i])`; `x` must not decrease.
    pub fn new(name: &str, x: &[f64], y: &[f64]) -> Curve {
        Curve { name: name.into(), x: x.to_vec(), y: y.to_vec(), band: None, role: Role::Other }
    }

    /// Adds a band from `low` to `high`; say in the caption what it is (95 % interval over seeds).
    pub fn band(mut self, low: &[f64], high: &[f64]) -> Curve {
        self.band = Some((low.to_vec(), high.to_vec()));
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        let what = format!("curve \"{}\"", self.name);
        check_pair(&what, &self.x, &self.y)?;
        if let Some(i) = self.x.windows(2).position(|w| w[1] < w[0]) {
            let got = format!("{} after {} at index {}", self.x[i + 1], self.x[i], i + 1);
            let allowed =
                "x that never decreases; sort the points, or draw a path with scatter and Points::joined";
            return Err(Error::config(format!("x of {what}"), got, allowed));
        }
        if let Some((low, high)) = &self.band {
            check_interval(&format!("band of {what}"), self.y.len(), low, high)?;
        }
        Ok(())
    }
}

/// Points, perhaps joined by a line in their order.
///
/// ```
/// use lastlayer::prelude::*;
/// let path = Points::new("path", &[0.0, 1.0, 1.5], &[0.0, 1.0, 1.2]).joined();
/// let slope = Points::arrows("slope", [&[1.0], &[1.0]], [&[0.5], &[-0.5]]);
/// let figure = scatter(&[path, slope])?;
/// assert!(figure.csv().ends_with("slope,1.0,1.0\nslope,1.5,0.5\n")); // both ends of the arrow
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    pub(super) name: String,
    pub(super) x: Vec<f64>,
    pub(super) y: Vec<f64>,
    pub(super) joined: bool,
    /// Beginning and end of arrows, in turns.
    pub(super) arrows: bool,
    pub(super) role: Role,
}

impl Points {
    /// Points `(x[i], y[i])` in any order.
    pub fn new(name: &str, x: &[f64], y: &[f64]) -> Points {
        let (x, y) = (x.to_vec(), y.to_vec());
        Points { name: name.into(), x, y, joined: false, arrows: false, role: Role::Other }
    }

    /// Arrows from `(x[i], y[i])` to `(x[i] + dx[i], y[i] + dy[i])`: gradients, say. The data hold both ends, in turns.
    pub fn arrows(name: &str, [x, y]: [&[f64]; 2], [dx, dy]: [&[f64]; 2]) -> Points {
        let ends = |at: &[f64], by: &[f64]| -> Vec<f64> {
            // A list that is too short ends in a number that no figure takes.
            let most = at.len().max(by.len());
            let get = |list: &[f64], i: usize| list.get(i).copied().unwrap_or(f64::NAN);
            (0..most).flat_map(|i| [get(at, i), get(at, i) + get(by, i)]).collect()
        };
        Points { arrows: true, ..Points::new(name, &ends(x, dx), &ends(y, dy)) }
    }

    /// Joins the points in their order: the path of an optimiser, say.
    pub fn joined(mut self) -> Points {
        self.joined = true;
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        check_pair(&format!("points \"{}\"", self.name), &self.x, &self.y)
    }
}

/// One series of bars: a value per category, perhaps with intervals.
///
/// ```
/// use lastlayer::prelude::*;
/// let ours = Bars::new("ours", &[0.9, 0.8]).interval(&[0.88, 0.75], &[0.92, 0.85]).method();
/// let figure = bars(&["easy", "hard"], &[ours])?.caption("Whiskers: 95 % interval over seeds.");
/// assert!(figure.csv().contains("hard,ours,0.8,0.75,0.85"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    pub(super) name: String,
    pub(super) values: Vec<f64>,
    pub(super) interval: Option<(Vec<f64>, Vec<f64>)>,
    pub(super) role: Role,
}

impl Bars {
    /// One bar per category.
    pub fn new(name: &str, values: &[f64]) -> Bars {
        Bars { name: name.into(), values: values.to_vec(), interval: None, role: Role::Other }
    }

    /// Adds whiskers from `low` to `high`; say in the caption what they are.
    pub fn interval(mut self, low: &[f64], high: &[f64]) -> Bars {
        self.interval = Some((low.to_vec(), high.to_vec()));
        self
    }

    pub(super) fn check(&self, categories: usize) -> Result<()> {
        let what = format!("bars \"{}\"", self.name);
        check_numbers(&what, &self.values)?;
        ensure_shape(&format!("{what} (one value per category)"), categories, self.values.len())?;
        if let Some((low, high)) = &self.interval {
            check_interval(&format!("interval of {what}"), categories, low, high)?;
        }
        Ok(())
    }
}

macro_rules! roles {
    ($($series:ident),*) => {$(
        impl $series {
            /// Marks the series as the method: blue, solid, in every figure.
            pub fn method(mut self) -> $series {
                self.role = Role::Method;
                self
            }

            /// Marks the series as the baseline: vermillion, dashed, in every figure.
            pub fn baseline(mut self) -> $series {
                self.role = Role::Baseline;
                self
            }

            /// Marks the series as a constraint or target: black, dashed, in every figure.
            pub fn target(mut self) -> $series {
                self.role = Role::Target;
                self
            }
        }
    )*};
}
roles!(Curve, Points, Bars);

/// At least one number, all of them finite.
pub(super) fn check_numbers(what: &str, values: &[f64]) -> Result<()> {
    if values.is_empty() {
        return Err(Error::shape(what, "at least one number", "none"));
    }
    match values.iter().position(|v| !v.is_finite() || v.abs() > LARGEST) {
        None => Ok(()),
        Some(i) => {
            let allowed = "finite numbers up to 1e100; drop, replace or rescale the others before plotting";
            Err(Error::config(what, format!("{:?} at index {i}", values[i]), allowed))
        }
    }
}

fn check_pair(what: &str, x: &[f64], y: &[f64]) -> Result<()> {
    check_numbers(&format!("x of {what}"), x)?;
    check_numbers(&format!("y of {what}"), y)?;
    ensure_shape(&format!("{what} (as many y as x)"), x.len(), y.len())
}

fn check_interval(what: &str, n: usize, low: &[f64], high: &[f64]) -> Result<()> {
    for (side, values) in [("low", low), ("high", high)] {
        check_numbers(&format!("{side} side of the {what}"), values)?;
        ensure_shape(&format!("{side} side of the {what}"), n, values.len())?;
    }
    match low.iter().zip(high).position(|(l, h)| l > h) {
        None => Ok(()),
        Some(i) => {
            let got = format!("{} to {} at index {i}", low[i], high[i]);
            Err(Error::config(what, got, "low not above high; give the lower values first"))
        }
    }
}

/// At least one series.
pub(super) fn check_some<T>(what: &str, series: &[T]) -> Result<()> {
    if series.is_empty() {
        return Err(Error::shape(what, "at least one", "none"));
    }
    Ok(())
}

/// Smallest and largest of some numbers.
pub(super) fn extent<'a>(values: impl Iterator<Item = &'a f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
}
