//! The normal distribution.

use super::probability;
use crate::error::Result;

/// Chance that a standard normal number is at most the argument.
///
/// ```text
/// Φ(x) = ½ erfc(−x/√2)
/// ```
/// Relative error below 1e-13 down to Φ(−37). Checked by `tests/distribution.rs`.
///
/// ```
/// use lastlayer::distribution::normal_cdf;
/// assert_eq!(normal_cdf(0.0), 0.5);
/// assert!((normal_cdf(-1.0) - 0.158655253931457).abs() < 1e-14);
/// ```
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// Density of the standard normal distribution.
///
/// ```text
/// exp(−x²/2) / √(2π)
/// ```
/// Checked by `tests/distribution.rs`.
///
/// ```
/// use lastlayer::distribution::normal_density;
/// assert!((normal_density(0.0) - 0.3989422804014327).abs() < 1e-15);
/// assert_eq!(normal_density(2.0), normal_density(-2.0));
/// ```
pub fn normal_density(x: f64) -> f64 {
    libm::exp(-0.5 * x * x) / (2.0 * std::f64::consts::PI).sqrt()
}

/// Number that a standard normal draw stays below with the given chance: the inverse of [`normal_cdf`].
///
/// Relative error about 1e-16 (Wichura 1988, algorithm AS 241). Fails: `Config` unless `p` lies strictly between 0
/// and 1. Checked by `tests/distribution.rs`.
///
/// ```
/// use lastlayer::distribution::{normal_cdf, normal_quantile};
/// assert_eq!(normal_quantile(0.5)?, 0.0);
/// assert!((normal_cdf(normal_quantile(0.9)?) - 0.9).abs() < 1e-14);
/// assert!(normal_quantile(0.0).is_err()); // minus infinity
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn normal_quantile(p: f64) -> Result<f64> {
    Ok(normal_quantile_inside(probability("p of normal_quantile", p)?))
}

/// [`normal_quantile`] of a number known to lie strictly between 0 and 1.
pub(crate) fn normal_quantile_inside(p: f64) -> f64 {
    fn ratio(r: f64, num: [f64; 8], den: [f64; 7]) -> f64 {
        let top = num.iter().rev().fold(0.0, |acc, c| acc * r + c);
        let bottom = den.iter().rev().fold(0.0, |acc, c| acc * r + c) * r + 1.0;
        top / bottom
    }
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        return q * ratio(0.180625 - q * q, CENTRE_NUM, CENTRE_DEN);
    }
    // `libm` is written in Rust, so the tails too are the same on every platform.
    let r = libm::sqrt(-libm::log(if q < 0.0 { p } else { 1.0 - p }));
    let z =
        if r <= 5.0 { ratio(r - 1.6, MIDDLE_NUM, MIDDLE_DEN) } else { ratio(r - 5.0, TAIL_NUM, TAIL_DEN) };
    if q < 0.0 { -z } else { z }
}

const CENTRE_NUM: [f64; 8] = [
    3.387_132_872_796_366_5,
    1.331_416_678_917_843_8e2,
    1.971_590_950_306_551_3e3,
    1.373_169_376_550_946e4,
    4.592_195_393_154_987e4,
    6.726_577_092_700_87e4,
    3.343_057_558_358_813e4,
    2.509_080_928_730_122_7e3,
];
const CENTRE_DEN: [f64; 7] = [
    4.231_333_070_160_091e1,
    6.871_870_074_920_579e2,
    5.394_196_021_424_751e3,
    2.121_379_430_158_659_7e4,
    3.930_789_580_009_271e4,
    2.872_908_573_572_194_3e4,
    5.226_495_278_852_854e3,
];
const MIDDLE_NUM: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    2.417_807_251_774_506e-1,
    2.272_384_498_926_918_4e-2,
    7.745_450_142_783_414e-4,
];
const MIDDLE_DEN: [f64; 7] = [
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    6.897_673_349_851e-1,
    1.481_039_764_274_800_8e-1,
    1.519_866_656_361_645_7e-2,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
const TAIL_NUM: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    2.965_605_718_285_048_7e-1,
    2.653_218_952_657_612_4e-2,
    1.242_660_947_388_078_4e-3,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const TAIL_DEN: [f64; 7] = [
    5.998_322_065_558_88e-1,
    1.369_298_809_227_358e-1,
    1.487_536_129_085_061_5e-2,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_7e-15,
];
