//! Randomness without state: a counter-based generator, so that any draw of any stream is available in O(1), on any
//! thread and any platform, and a seed printed in a notebook reproduces every number below it.
//!
//! ```
//! use lastlayer::prelude::*;
//! let seed = Seed::new(7);
//! // Draw 3 is there without draws 0 to 2, and one purpose never shifts the draws of another.
//! assert_eq!(seed.uniform(3), Seed::new(7).uniform(3));
//! assert_ne!(seed.named("noise").draw(0), seed.named("weights").draw(0));
//! let x = seed.normal_tensor((2, 3), (0.0, 1.0), DType::F64, &Device::Cpu)?;
//! assert_eq!(x.to_vec2::<f64>()?[1][0], seed.normal(3));
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

use candle_core::{DType, Device, Shape, Tensor};

use crate::distribution::normal_quantile_inside;
use crate::error::{Error, Result};
use crate::numbers::to_tensor;

/// Step of the counter: the odd integer nearest to 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The SplitMix64 finaliser (Steele, Lea and Flood, 2014).
const fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A stream of random numbers, addressed by position instead of advanced by use.
///
/// ```text
/// stream(i) = mix(seed + γ(i + 1))        draw(c) = mix(stream + γ(c + 1))
/// ```
/// `Copy`, without state: the same seed and the same counter give the same number everywhere.
/// Checked by `tests/seed.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let seed = Seed::new(0);
/// assert_eq!(seed.draw(0), 0xE220_A839_7B1D_CDAF); // as SplitMix64 begins
/// assert!(seed.below(5, 6)? < 6 && (0.0..1.0).contains(&seed.uniform(5)));
/// assert_ne!(seed.stream(1), seed.stream(2));
/// let mut order = seed.permutation(4);
/// order.sort();
/// assert_eq!(order, [0, 1, 2, 3]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Seed(u64);

impl Seed {
    /// Seed from a number of your choice.
    pub const fn new(value: u64) -> Seed {
        Seed(value)
    }

    /// The number behind the seed.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// Independent stream number `i`: one per image, per epoch, per worker.
    pub const fn stream(self, i: u64) -> Seed {
        Seed(mix(self.0.wrapping_add(GAMMA.wrapping_mul(i.wrapping_add(1)))))
    }

    /// Independent stream for a purpose, so that adding one use never shifts the draws of another.
    pub fn named(self, purpose: &str) -> Seed {
        // The constant keeps names apart from numbered streams.
        const NAMED: u64 = u64::from_le_bytes(*b"purpose:");
        let start = Seed(mix(self.0 ^ NAMED)).stream(purpose.len() as u64);
        purpose.bytes().fold(start, |s, byte| s.stream(u64::from(byte)))
    }

    /// Draw `c` of this stream: 64 uniform bits.
    pub const fn draw(self, c: u64) -> u64 {
        self.stream(c).0
    }

    /// Draw `c` as a number in [0, 1), with 53 random bits.
    pub fn uniform(self, c: u64) -> f64 {
        (self.draw(c) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Draw `c` as an integer in `0..n`.
    ///
    /// The bias of the multiply-shift is below n / 2^64. Fails: `Config` if `n` is zero.
    pub fn below(self, c: u64, n: usize) -> Result<usize> {
        if n == 0 {
            return Err(Error::config("n of below", n, "at least 1"));
        }
        Ok(((u128::from(self.draw(c)) * n as u128) >> 64) as usize)
    }

    /// Draws `c..c+12`, summed and centred: mean 0, variance 1, bounded by 6, and free of transcendental functions,
    /// hence equal to the last bit on every platform.
    pub fn irwin_hall(self, c: u64) -> f64 {
        (0..12).map(|k| self.uniform(c + k)).sum::<f64>() - 6.0
    }

    /// Draw `c` as a standard normal number, by the inverse of the distribution function.
    pub fn normal(self, c: u64) -> f64 {
        // The half step keeps the argument inside (0, 1).
        normal_quantile_inside(((self.draw(c) >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64))
    }

    /// A permutation of `0..n` (Fisher and Yates), reading draws `0..n`.
    pub fn permutation(self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            // i + 1 is at least 2, so `below` cannot fail; the fallback keeps the entry in place.
            let j = self.below(i as u64, i + 1).unwrap_or(i);
            order.swap(i, j);
        }
        order
    }

    /// Tensor of uniform numbers in [low, high), reading draws `0..elements`.
    ///
    /// Fails: `Config` if the bounds are not finite and in order, or if the shape does not fit into memory.
    pub fn uniform_tensor<S: Into<Shape>>(
        self,
        shape: S,
        (low, high): (f64, f64),
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        if !(low.is_finite() && high.is_finite() && low <= high) {
            return Err(Error::config(
                "range of uniform numbers",
                format!("{low}..{high}"),
                "two finite numbers in order",
            ));
        }
        self.tensor(shape.into(), dtype, device, |c| low + (high - low) * self.uniform(c))
    }

    /// Tensor of normal numbers, reading draws `0..elements`.
    ///
    /// Fails: `Config` unless the mean is finite and the standard deviation finite and not negative, or if the shape
    /// does not fit into memory.
    pub fn normal_tensor<S: Into<Shape>>(
        self,
        shape: S,
        (mean, sd): (f64, f64),
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        if !(mean.is_finite() && sd.is_finite() && sd >= 0.0) {
            let got = format!("{mean} and {sd}");
            return Err(Error::config(
                "mean and standard deviation",
                got,
                "finite numbers, the second not negative",
            ));
        }
        self.tensor(shape.into(), dtype, device, |c| mean + sd * self.normal(c))
    }

    /// The numbers are made in f64 on the host and then moved, so a seed means the same on every device.
    fn tensor(self, shape: Shape, dtype: DType, device: &Device, f: impl Fn(u64) -> f64) -> Result<Tensor> {
        let too_large = || Error::config("shape", format!("{shape:?}"), "what fits into memory");
        let n = shape.dims().iter().try_fold(1usize, |n, d| n.checked_mul(*d)).ok_or_else(too_large)?;
        let mut values: Vec<f64> = Vec::new();
        values.try_reserve_exact(n).map_err(|_| too_large())?;
        values.extend((0..n as u64).map(f));
        to_tensor(values, shape, dtype, device)
    }

    /// Shows the seed as a table would print it.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(self.to_string());
    }
}

impl std::fmt::Display for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seed({})", self.0)
    }
}

impl From<u64> for Seed {
    fn from(value: u64) -> Seed {
        Seed(value)
    }
}
