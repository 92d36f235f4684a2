//! A race among partners: run all pairs a few times, then only those that may still be the worst of somebody.

use ndarray::Array2;

use crate::error::{Error, Result};
use crate::table::{Cell, Table};

/// Which pairs to run next in the search for the worst partner of each attribute.
///
/// ```text
/// round r:  run every active pair once, with seed r; one run serves both directions
///           for each directed pair  L, U = mean ∓ 2 SE  of its changes so far
///           drop b from active[a] when L[a][b] > min U[a][·]   (cannot be the worst)
///                                  or  L[a][b] > 0             (does no harm)
/// stop      when every attribute has at most one partner left, or the next round exceeds the budget
/// ```
/// Nothing is dropped before `min_rounds`. SE comes from the changes of all partners of a, whose spread is pooled; with
/// [`Race::own_spread`] each partner is judged by its own few numbers, which now and then are close together by chance
/// and then drop a partner too early. A pure state machine: it trains nothing. What it leaves must still pass
/// [`Transfer::worst`](super::Transfer::worst). Checked by `tests/adversary/racing.rs`.
/// Book: `adversary/noise.md#eq-adv-noise-race`.
///
/// ```
/// use lastlayer::prelude::*;
/// let mut race = Race::new(3, 2, 100)?;
/// while !race.is_over() {
///     for (a, b) in race.next_round() {
///         // Here the pair (0, 1) would be trained with the seed race.rounds(); it harms both.
///         let change = if (a, b) == (0, 1) { -0.1 } else { 0.1 };
///         race.record(a, b, change, change)?;
///     }
/// }
/// assert_eq!(race.leader(0), Some((1, -0.1)));
/// assert!(race.active(2).is_empty()); // nobody harms attribute 2
/// assert_eq!((race.rounds(), race.runs()), (2, 6));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Race {
    min_rounds: usize,
    budget: usize,
    own_spread: bool,
    /// (M, M) Whether b may still be the worst partner of a.
    active: Array2<bool>,
    /// (M, M) The changes of a with b so far.
    changes: Array2<Tally>,
    /// Pairs of the current round that are still to be run.
    pending: Vec<(usize, usize)>,
    rounds: usize,
    runs: usize,
    single_runs: usize,
}

/// Number, mean and sum of squares around the mean of a growing list (Welford).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    n: f64,
    mean: f64,
    squares: f64,
}

impl Tally {
    fn add(&mut self, value: f64) {
        self.n += 1.0;
        let before = value - self.mean;
        self.mean += before / self.n;
        self.squares += before * (value - self.mean);
    }
}

impl Race {
    /// A race of `attributes` attributes in which nothing is dropped before `min_rounds` rounds and no more than `budget`
    /// pairs are run.
    ///
    /// 3 rounds are a good start: see the chapter on noise. Fails: `Config` for fewer than two attributes, fewer than two
    /// rounds (no spread), or a budget below `min_rounds` rounds of all pairs.
    pub fn new(attributes: usize, min_rounds: usize, budget: usize) -> Result<Race> {
        if attributes < 2 {
            return Err(Error::config("attributes of a race", attributes, "at least 2"));
        }
        if min_rounds < 2 {
            return Err(Error::config("rounds before the first drop", min_rounds, "at least 2; 3 is safer"));
        }
        let least = (attributes * (attributes - 1) / 2).saturating_mul(min_rounds);
        if budget < least {
            let allowed = format!("at least {least}: {min_rounds} rounds of all pairs");
            return Err(Error::config("budget of a race", budget, allowed));
        }
        let shape = (attributes, attributes);
        let race = Race {
            min_rounds,
            budget,
            own_spread: false,
            active: Array2::from_shape_fn(shape, |(a, b)| a != b),
            changes: Array2::default(shape),
            pending: Vec::new(),
            rounds: 0,
            runs: 0,
            single_runs: 0,
        };
        Ok(race.start_round())
    }

    /// Judges each partner by the spread of its own changes alone.
    pub fn own_spread(mut self) -> Race {
        self.own_spread = true;
        self
    }

    /// Pairs (a, b), a < b, of the current round that are still to be run; empty when the race is over.
    ///
    /// Run them, and each attribute in them alone, with the seed [`Race::rounds`].
    pub fn next_round(&self) -> Vec<(usize, usize)> {
        self.pending.clone()
    }

    /// Notes how the accuracies of `a` and `b` changed in one run of the pair, compared with the single tasks of its seed.
    ///
    /// The last pair of a round closes it: partners are dropped and the next round begins. Fails: `Config` if a change is
    /// not finite, or the pair is not one that [`Race::next_round`] asks for; nothing is then changed.
    pub fn record(&mut self, a: usize, b: usize, change_a: f64, change_b: f64) -> Result<()> {
        if !(change_a.is_finite() && change_b.is_finite()) {
            let got = format!("{change_a} and {change_b}");
            return Err(Error::config("changes of a pair", got, "finite numbers"));
        }
        let pair = (a.min(b), a.max(b));
        let Some(at) = self.pending.iter().position(|p| *p == pair) else {
            let allowed = "a pair that next_round asks for, once";
            return Err(Error::config("pair", format!("({a}, {b})"), allowed));
        };
        self.pending.swap_remove(at);
        self.runs += 1;
        self.changes[(a, b)].add(change_a);
        self.changes[(b, a)].add(change_b);
        if self.pending.is_empty() {
            self.close_round();
        }
        Ok(())
    }

    /// Partners that may still be the worst of `a`; of none for an attribute that does not exist.
    pub fn active(&self, a: usize) -> Vec<usize> {
        let row = self.active.rows().into_iter().nth(a);
        row.map_or(Vec::new(), |row| row.iter().enumerate().filter(|(_, on)| **on).map(|(b, _)| b).collect())
    }

    /// The active partner of `a` with the lowest mean change so far, and that mean.
    pub fn leader(&self, a: usize) -> Option<(usize, f64)> {
        let means = self.active(a).into_iter().map(|b| (b, self.changes[(a, b)]));
        let means = means.filter(|(_, tally)| tally.n > 0.0).map(|(b, tally)| (b, tally.mean));
        means.min_by(|x, y| x.1.total_cmp(&y.1))
    }

    /// Rounds completed: also the seed of the current one.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Pairs run so far.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Single tasks that the rounds so far needed beside the pairs: one per attribute that took part in a round.
    pub fn single_runs(&self) -> usize {
        self.single_runs
    }

    /// Whether there is nothing left to run.
    pub fn is_over(&self) -> bool {
        self.pending.is_empty()
    }

    /// Shows the state attribute by attribute.
    pub fn evcxr_display(&self) {
        let row = |a: usize| {
            let leader = self.leader(a);
            vec![
                Cell::from(a),
                Cell::from(self.active(a).len()),
                leader.map_or(Cell::Empty, |(b, _)| Cell::from(b)),
                leader.map_or(Cell::Empty, |(_, mean)| Cell::from(mean)),
            ]
        };
        let table = Table::new(&["attribute", "active", "leader", "its mean change"]);
        let caption = format!("After {} rounds and {} pairs.", self.rounds, self.runs);
        match (0..self.active.nrows()).try_fold(table, |table, a| table.row(row(a))) {
            Ok(table) => table.caption(&caption).evcxr_display(),
            Err(error) => error.evcxr_display(),
        }
    }

    fn close_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= self.min_rounds {
            (0..self.active.nrows()).for_each(|a| self.drop_partners(a));
        }
        *self = self.clone().start_round();
    }

    /// The two rules of the race, for one attribute.
    fn drop_partners(&mut self, a: usize) {
        let active = self.active(a);
        let bound = |b: usize, side: f64| self.changes[(a, b)].mean + side * 2.0 * self.standard_error(a, b);
        let least_upper = active.iter().map(|b| bound(*b, 1.0)).fold(f64::INFINITY, f64::min);
        let out = active.into_iter().filter(|b| bound(*b, -1.0) > least_upper.min(0.0));
        let out: Vec<usize> = out.collect();
        out.into_iter().for_each(|b| self.active[(a, b)] = false);
    }

    fn standard_error(&self, a: usize, b: usize) -> f64 {
        let own = self.changes[(a, b)];
        let row = self.changes.row(a);
        let pooled = row.iter().filter(|tally| tally.n > 0.0);
        let (squares, dof) = if self.own_spread {
            (own.squares, own.n - 1.0)
        } else {
            pooled.fold((0.0, 0.0), |(s, d), tally| (s + tally.squares, d + tally.n - 1.0))
        };
        (squares / dof / own.n).sqrt()
    }

    /// Asks for every pair that is active in either direction, if some attribute is undecided and the budget allows it.
    fn start_round(mut self) -> Race {
        let m = self.active.nrows();
        let wanted = |a: usize, b: usize| self.active[(a, b)] || self.active[(b, a)];
        let pairs = (0..m).flat_map(|a| (a + 1..m).map(move |b| (a, b))).filter(|(a, b)| wanted(*a, *b));
        let pairs: Vec<(usize, usize)> = pairs.collect();
        // Before the first drop a race of two attributes has one partner each, and is still to be run.
        let undecided = self.rounds < self.min_rounds || (0..m).any(|a| self.active(a).len() > 1);
        if undecided && self.runs.saturating_add(pairs.len()) <= self.budget {
            self.single_runs += (0..m).filter(|a| pairs.iter().any(|(x, y)| x == a || y == a)).count();
            self.pending = pairs;
        }
        self
    }
}
