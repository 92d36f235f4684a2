//! The multiplier player of a Lagrangian game.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, ensure_shape};

/// What the player that sets the multipliers must not regret.
///
/// Book: `rate/games.md#eq-rate-columns`, `#eq-rate-external`.
///
/// ```
/// use lastlayer::prelude::*;
/// // A distribution over objective and constraint, or multipliers within a radius.
/// let shares = rate::Game::new(Regret::External, 1, 0.5)?.weights();
/// assert!((shares[0] + shares[1] - 1.0).abs() < 1e-12);
/// let mut game = rate::Game::new(Regret::Lagrangian { radius: 0.25 }, 1, 1.0)?;
/// game.update(&[0.75])?;
/// assert_eq!(game.weights(), [1.0, 0.25]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Regret {
    /// Any rule that replaces one of its choices by another: a stochastic matrix, played by its stationary law.
    Swap,
    /// Any one fixed choice: a distribution over objective and constraints.
    External,
    /// The plain Lagrangian: multipliers λ ≥ 0, projected to Σ λ ≤ radius.
    Lagrangian { radius: f64 },
}

/// Weights on objective and constraints, moved by the constraints' true violations.
///
/// ```text
/// swap:        p = M p,   ln M += lr · [0, v] pᵀ,   columns normalised, entries at least r/(m+1)
/// external:    ln p += lr · [0, v], normalised, entries at least r/(m+1)
/// Lagrangian:  λ = max(0, λ + lr · v)
/// ```
/// The network minimises p₀ · objective + Σ p_k · proxy_k, whose proxies bound the true constraints from above. Book:
/// `rate/games.md#eq-rate-equilibrium`, `#eq-rate-weight`. Checked by `tests/rate/games.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let mut game = rate::Game::new(Regret::Lagrangian { radius: f64::INFINITY }, 1, 0.5)?;
/// game.update(&[0.5])?; // the constraint is broken by one half
/// assert_eq!(game.weights(), [1.0, 0.25]);
/// game.update(&[-1.0])?; // and then kept with room to spare
/// assert_eq!(game.weights(), [1.0, 0.0]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Game {
    regret: Regret,
    lr: f64,
    m: usize,
    /// Logarithms of M by columns or of p, or the multipliers themselves.
    state: Vec<f64>,
}

/// Share that the constraints have at first, and of which every entry keeps its part, so that none dies out.
const SHARE: f64 = 1e-3;

impl Game {
    /// A game with `m` constraints and a learning rate of the multipliers.
    ///
    /// Fails: `Config` unless learning rate and radius are positive.
    pub fn new(regret: Regret, m: usize, lr: f64) -> Result<Game> {
        if !(lr > 0.0 && lr.is_finite()) {
            return Err(Error::config("lr of the multipliers", lr, "a positive number"));
        }
        let first: Vec<f64> = std::iter::once(1.0 - SHARE * m as f64 / (m + 1) as f64)
            .chain(std::iter::repeat_n(SHARE / (m + 1) as f64, m))
            .map(f64::ln)
            .collect();
        let state = match regret {
            Regret::Swap => first.repeat(m + 1),
            Regret::External => first,
            Regret::Lagrangian { radius } if radius > 0.0 => vec![0.0; m],
            Regret::Lagrangian { radius } => {
                return Err(Error::config(
                    "radius of the multipliers",
                    radius,
                    "positive; infinite for none",
                ));
            }
        };
        Ok(Game { regret, lr, m, state })
    }

    /// Weights of the objective and of each constraint (m + 1).
    pub fn weights(&self) -> Vec<f64> {
        match self.regret {
            Regret::Swap => stationary(&self.matrix()),
            Regret::External => {
                let total: f64 = self.state.iter().map(|log| log.exp()).sum();
                self.state.iter().map(|log| log.exp() / total).collect()
            }
            Regret::Lagrangian { .. } => std::iter::once(1.0).chain(self.state.iter().copied()).collect(),
        }
    }

    /// The stochastic matrix of the swap player, by columns; a single column for the others.
    ///
    /// Book: `rate/games.md#eq-rate-stationary`, `#eq-rate-power`, `#eq-rate-floor`.
    pub fn matrix(&self) -> Vec<Vec<f64>> {
        self.state.chunks(self.m + 1).map(|column| column.iter().map(|log| log.exp()).collect()).collect()
    }

    /// Moves the weights by the true violations (m): positive where a constraint is broken.
    ///
    /// Fails: `Shape` unless there is one per constraint, `Data` if one is not finite; nothing then moves.
    /// Book: `rate/games.md#eq-rate-swap-bound`, `#eq-rate-oscillation`.
    pub fn update(&mut self, violations: &[f64]) -> Result<()> {
        ensure_shape("violations of a game", self.m, violations.len())?;
        if violations.iter().any(|v| !v.is_finite()) {
            return Err(Error::data("violations", "one is not finite"));
        }
        let gains: Vec<f64> = std::iter::once(0.0).chain(violations.iter().map(|v| self.lr * v)).collect();
        match self.regret {
            Regret::Swap => {
                let p = self.weights();
                for (column, p) in self.state.chunks_mut(self.m + 1).zip(p) {
                    column.iter_mut().zip(&gains).for_each(|(log, gain)| *log += p * gain);
                    normalise(column);
                }
            }
            Regret::External => {
                self.state.iter_mut().zip(&gains).for_each(|(log, gain)| *log += gain);
                normalise(&mut self.state);
            }
            Regret::Lagrangian { radius } => {
                let moved: Vec<f64> =
                    self.state.iter().zip(&gains[1..]).map(|(l, gain)| (l + gain).max(0.0)).collect();
                self.state = into_simplex(moved, radius);
            }
        }
        Ok(())
    }

    pub(super) fn state(&self) -> &[f64] {
        &self.state
    }

    pub(super) fn set_state(&mut self, state: Vec<f64>) {
        self.state = state;
    }

    /// Shows the weights.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(format!(
            "{:?}, weights {:?}",
            self.regret,
            self.weights()
        ));
    }
}

/// Logarithms of a distribution whose entries keep at least their part of the share.
fn normalise(logs: &mut [f64]) {
    let most = logs.iter().fold(f64::NEG_INFINITY, |most, log| most.max(*log));
    let total = most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln();
    let floor = (SHARE / logs.len() as f64).ln();
    logs.iter_mut().for_each(|log| *log = (*log - total).max(floor));
}

/// The law that a matrix of columns leaves as it is: any column of a high power.
///
/// Squaring reaches power 2²⁰ in twenty products. The floor alone guarantees that columns overlap by a thousandth, so
/// that a thousand plain iterations would not be enough.
fn stationary(columns: &[Vec<f64>]) -> Vec<f64> {
    let k = columns.len();
    let mut power = columns.to_vec();
    for _ in 0..20 {
        let times = |column: &Vec<f64>| -> Vec<f64> {
            (0..k).map(|i| power.iter().zip(column).map(|(c, p)| c[i] * p).sum()).collect()
        };
        power = power.iter().map(times).collect();
        // The floor lets columns sum to a little more than one; one factor for all keeps it a power.
        let most = power.iter().flatten().fold(0.0f64, |most, p| most.max(*p));
        power.iter_mut().flatten().for_each(|p| *p /= most);
    }
    let p = power.swap_remove(0);
    let total: f64 = p.iter().sum();
    p.into_iter().map(|p| p / total).collect()
}

/// The nearest point with non-negative entries whose sum is at most the radius; the entries are non-negative already.
fn into_simplex(values: Vec<f64>, radius: f64) -> Vec<f64> {
    if values.iter().sum::<f64>() <= radius {
        return values;
    }
    let mut sorted = values.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut shift) = (0.0, 0.0);
    for (k, value) in sorted.iter().enumerate() {
        sum += value;
        let candidate = (sum - radius) / (k + 1) as f64;
        if candidate < *value {
            shift = candidate;
        }
    }
    values.into_iter().map(|value| (value - shift).max(0.0)).collect()
}
