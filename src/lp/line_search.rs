//! The exact minimum of the penalty along a line: one sort.

/// Where along a direction the penalty is least.
///
/// ```
/// use lastlayer::lp::{Fixed, Reach, exact_line_search};
/// // Nothing but a linear term that falls.
/// let falling = Fixed { curvature: 0.0, slope: -1.0 };
/// assert_eq!(exact_line_search(&[], &[], falling, 1.0), Reach::Forever);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reach {
    /// At this multiple of the direction.
    At(f64),
    /// Nowhere: it falls for ever.
    Forever,
}

/// The terms of a line search that no row can switch off: equalities and the linear term.
///
/// ```
/// use lastlayer::lp::{Fixed, Reach, exact_line_search};
/// // An equality alone: t² − t is least at one half.
/// let fixed = Fixed { curvature: 2.0, slope: -1.0 };
/// assert_eq!(exact_line_search(&[], &[], fixed, 1.0), Reach::At(0.5));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fixed {
    /// Σ q² over equalities.
    pub curvature: f64,
    /// Σ q r over equalities, plus ε cᵀd.
    pub slope: f64,
}

/// Curvature below this share of |d|² is none: rounding of A d alone makes as much.
const FLAT: f64 = 1e-24;

/// Minimum of φ(t) = ½ Σ (r + t q)₊² + fixed terms over t > 0, exactly.
///
/// ```text
/// φ'(t) = Σ_j q_j (r_j + t q_j)₊ + fixed.slope + t · fixed.curvature       rises, with a kink at each t = −r_j / q_j
/// ```
/// Walks over the kinks in order until φ' is no longer negative; at kink j the pair (q², q r) comes in if q > 0 and
/// goes if q < 0. `size` is |d|², against which flatness is judged. Cost: O(m log m). `At(0)` if φ'(0) is not negative.
/// Checked by `tests/lp/newton.rs::line_search_finds_the_minimum_of_a_piecewise_quadratic`.
/// Book: `lp/newton.md#eq-lp-line-search`.
///
/// ```
/// use lastlayer::lp::{Fixed, Reach, exact_line_search};
/// // ½ (1 − t)₊² is zero from t = 1 on; a slope of one half moves the minimum to t = 1/2.
/// assert_eq!(exact_line_search(&[1.0], &[-1.0], Fixed::default(), 1.0), Reach::At(1.0));
/// let uphill = Fixed { slope: 0.5, ..Fixed::default() };
/// assert_eq!(exact_line_search(&[1.0], &[-1.0], uphill, 1.0), Reach::At(0.5));
/// ```
pub fn exact_line_search(r: &[f64], q: &[f64], fixed: Fixed, size: f64) -> Reach {
    let (mut curvature, mut slope) = (fixed.curvature, fixed.slope);
    let mut kinks: Vec<(f64, usize)> = Vec::with_capacity(r.len());
    for (j, (r, q)) in r.iter().zip(q).enumerate() {
        if *r > 0.0 || (*r == 0.0 && *q > 0.0) {
            curvature += q * q;
            slope += q * r;
        }
        // Rows at their bound that enter are counted already.
        if *q != 0.0 && r * q < 0.0 {
            kinks.push((-r / q, j));
        }
    }
    if slope >= 0.0 {
        return Reach::At(0.0);
    }
    kinks.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let last = kinks.last().map_or(0.0, |(t, _)| *t);
    for (t, j) in kinks {
        if slope + t * curvature >= 0.0 {
            return Reach::At((-slope / curvature).min(t));
        }
        let sign = if q[j] > 0.0 { 1.0 } else { -1.0 };
        curvature += sign * q[j] * q[j];
        slope += sign * q[j] * r[j];
    }
    // Behind the last kink, counted afresh: the running sums carry the rounding of all that came and went.
    let rising = || r.iter().zip(q).filter(|(_, q)| **q > 0.0);
    let curvature = fixed.curvature + rising().map(|(_, q)| q * q).sum::<f64>();
    let slope = fixed.slope + rising().map(|(r, q)| q * r).sum::<f64>();
    if slope >= 0.0 {
        return Reach::At(last);
    }
    if curvature <= FLAT * size { Reach::Forever } else { Reach::At((-slope / curvature).max(last)) }
}
