//! Two labels that agree with probability q, each with evidence of its own: e = (y − ½) g + noise, noise standard normal.

use lastlayer::distribution::{normal_cdf, normal_density};

use super::log_odds;

/// Trapezoidal rule on a grid that reaches at least eight standard deviations beyond every mean: exact to rounding for smooth
/// functions times normal densities.
pub fn integral(f: impl Fn(f64) -> f64) -> f64 {
    const REACH: f64 = 14.0;
    const STEPS: i32 = 1120;
    let step = 2.0 * REACH / f64::from(STEPS);
    (0..=STEPS).map(|i| step * f(-REACH + f64::from(i) * step)).sum()
}

/// Gaps of a and b, and how often the labels agree in training. Both labels are balanced.
#[derive(Clone, Copy)]
pub struct Pair {
    pub gap_a: f64,
    pub gap_b: f64,
    pub agree: f64,
}

/// Cheeks and glasses under the preset with a shift.
pub const CHEEKS: Pair = Pair { gap_a: 2.15, gap_b: 6.0, agree: 0.8 };

impl Pair {
    /// What e_b adds to the log-odds of a.
    pub fn lean(self, e_b: f64) -> f64 {
        let (q, l) = (self.agree, (self.gap_b * e_b).exp());
        ((q * l + 1.0 - q) / ((1.0 - q) * l + q)).ln()
    }

    /// Accuracy of the rule "a if e_a > −c(e_b)" where the labels agree with probability q.
    pub fn accuracy(self, q: f64, c: impl Fn(f64) -> f64) -> f64 {
        integral(|e| {
            let [with, without] = [1.0, -1.0].map(|side| 0.5 * normal_density(e - side * self.gap_b / 2.0));
            let (yes, no) = (normal_cdf(self.gap_a / 2.0 + c(e)), normal_cdf(self.gap_a / 2.0 - c(e)));
            with * (q * yes + (1.0 - q) * no) + without * ((1.0 - q) * yes + q * no)
        })
    }

    /// The same where b is known for sure and the rule is "a if e_a > −c" with b, "a if e_a > c" without.
    pub fn accuracy_knowing_b(self, q: f64, c: f64) -> f64 {
        q * normal_cdf(self.gap_a / 2.0 + c) + (1.0 - q) * normal_cdf(self.gap_a / 2.0 - c)
    }

    /// By how much a sure b moves the threshold of the best rule in training.
    pub fn best_shift(self) -> f64 {
        log_odds(self.agree) / self.gap_a
    }

    /// Joint density of the feature z = e_a + k (2b − 1) with both labels, in training: `[a][b]`.
    pub fn joint(self, k: f64, z: f64) -> [[f64; 2]; 2] {
        let cell = |a: f64, b: f64| {
            let share = 0.5 * if a == b { self.agree } else { 1.0 - self.agree };
            share * normal_density(z - (a - 0.5) * self.gap_a - k * (2.0 * b - 1.0))
        };
        [[cell(0.0, 0.0), cell(0.0, 1.0)], [cell(1.0, 0.0), cell(1.0, 1.0)]]
    }
}
