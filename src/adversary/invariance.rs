//! What it costs to be independent of an attribute, and the weights under which it costs nothing. Host: counts, in f64.

use crate::error::{Error, Result, ensure_shape};
use crate::numbers::{AsF64, zeros_and_ones};

/// Smallest error with which `a` can be predicted from anything that is independent of `b`.
///
/// ```text
/// min(P(b = 1), P(b = 0)) · |P(a = 1 | b = 1) − P(a = 1 | b = 0)|
/// ```
/// A bound for every feature and every head, attained by someone who sees `a` and `b`. `p_b` is P(b = 1). Fails: `Config`
/// unless `p_b` lies strictly between 0 and 1 and the other two from 0 to 1. Checked by `tests/adversary/invariance.rs`.
/// Book: `adversary/price.md#eq-adv-price-bound`, `#eq-adv-price-attained`, `#eq-adv-price-phi`.
///
/// ```
/// use lastlayer::prelude::*;
/// // b is balanced, and a follows it in four cases of five.
/// assert!((price_of_invariance(0.5, 0.8, 0.2)? - 0.3).abs() < 1e-12);
/// assert_eq!(price_of_invariance(0.5, 0.4, 0.4)?, 0.0); // independent already
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn price_of_invariance(p_b: f64, p_a_given_b1: f64, p_a_given_b0: f64) -> Result<f64> {
    if !(p_b > 0.0 && p_b < 1.0) {
        let allowed = "strictly between 0 and 1; with a constant b there is nothing to be independent of";
        return Err(Error::config("P(b = 1) of a price of invariance", p_b, allowed));
    }
    for (given, p) in [("b = 1", p_a_given_b1), ("b = 0", p_a_given_b0)] {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::config(format!("P(a = 1 | {given})"), p, "a probability, from 0 to 1"));
        }
    }
    Ok(p_b.min(1.0 - p_b) * (p_a_given_b1 - p_a_given_b0).abs())
}

/// [`price_of_invariance`] with shares in place of probabilities.
///
/// Shapes: `a` and `b` (n). Cost: O(n). Fails: `Shape` if the lengths differ, `Data` if a label is neither 0 nor 1, `Config`
/// if `b` is constant. Checked by `tests/adversary/invariance.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let (a, b) = ([1, 1, 1, 0, 0, 0, 0, 1], [1, 1, 1, 1, 0, 0, 0, 0]);
/// assert_eq!(adversary::price_from_labels(a, b)?, 0.25); // ½ · |¾ − ¼|
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn price_from_labels(a: impl AsF64, b: impl AsF64) -> Result<f64> {
    let counts = Counts::of(&a.numbers()?, &b.numbers()?)?;
    for value in 0..2 {
        if counts.b(value) == 0.0 {
            let allowed = "at least 1; with a constant b there is nothing to be independent of";
            return Err(Error::config(format!("number of samples with b = {value}"), 0, allowed));
        }
    }
    let given = |b: usize| counts.cell(1, b) / counts.b(b);
    price_of_invariance(counts.b(1) / counts.n(), given(1), given(0))
}

/// One weight for each sample, under which the labels `a` and `b` are independent and as frequent as before.
///
/// ```text
/// w_i = P(a_i) P(b_i) / P(a_i, b_i)
/// ```
/// The weights have mean 1. Shapes: `a` and `b` (n), result (n). Cost: O(n). Fails: `Shape` if the lengths differ, `Data` if
/// a label is neither 0 nor 1, `Config` if one of the four combinations has no sample. Checked by
/// `tests/adversary/invariance.rs`. Book: `adversary/game.md#eq-adv-game-weights`, `#eq-adv-game-effective`.
///
/// ```
/// use lastlayer::prelude::*;
/// // (0, 0) and (1, 1) come three times each, the mixed cases once.
/// let (a, b) = ([1, 1, 1, 0, 0, 0, 0, 1], [1, 1, 1, 1, 0, 0, 0, 0]);
/// let w = adversary::decorrelating_weights(a, b)?;
/// assert!((w[0] - 2.0 / 3.0).abs() < 1e-12 && (w[3] - 2.0).abs() < 1e-12);
/// assert!((w.iter().sum::<f64>() - 8.0).abs() < 1e-12);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn decorrelating_weights(a: impl AsF64, b: impl AsF64) -> Result<Vec<f64>> {
    let (a, b) = (a.numbers()?, b.numbers()?);
    let counts = Counts::of(&a, &b)?;
    let mut weight = [[0.0; 2]; 2];
    for (value_a, row) in weight.iter_mut().enumerate() {
        for (value_b, weight) in row.iter_mut().enumerate() {
            let cell = counts.cell(value_a, value_b);
            if cell == 0.0 {
                let field = format!("number of samples with a = {value_a} and b = {value_b}");
                let allowed = "at least 1; no weight brings back a combination that is missing, so gather such \
                               samples or train without these weights";
                return Err(Error::config(field, 0, allowed));
            }
            *weight = counts.a(value_a) * counts.b(value_b) / (counts.n() * cell);
        }
    }
    Ok(a.iter().zip(b.iter()).map(|(a, b)| weight[usize::from(*a == 1.0)][usize::from(*b == 1.0)]).collect())
}

/// How many samples have each combination of two labels.
struct Counts([[f64; 2]; 2]);

impl Counts {
    fn of(a: &[f64], b: &[f64]) -> Result<Counts> {
        ensure_shape("labels of b, against those of a", a.len(), b.len())?;
        let mut cells = [[0.0; 2]; 2];
        let (a, b) = (zeros_and_ones("labels of a", &a)?, zeros_and_ones("labels of b", &b)?);
        for (a, b) in a.iter().zip(&b[..]) {
            cells[usize::from(*a == 1.0)][usize::from(*b == 1.0)] += 1.0;
        }
        Ok(Counts(cells))
    }

    fn cell(&self, a: usize, b: usize) -> f64 {
        self.0[a][b]
    }

    fn a(&self, a: usize) -> f64 {
        self.0[a].iter().sum()
    }

    fn b(&self, b: usize) -> f64 {
        self.0.iter().map(|row| row[b]).sum()
    }

    fn n(&self) -> f64 {
        self.0.iter().flatten().sum()
    }
}
