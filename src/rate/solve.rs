//! Which problems can be solved for their thresholds, and how.

use rayon::prelude::*;

use super::labels::{Flags, Within};
use super::problem::{RateProblem, Thresholds};
use super::rates::{At, Rate, RateSum, Term};
use super::scored::{Scored, WORTH_SPLITTING};
use super::surrogate::{Surrogate, sigmoids};
use super::threshold::{Members, Root, hard_threshold, smooth_thresholds};
use crate::error::{Error, Result};

/// The shape of a problem's constraints.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// Constraint k is one monotone rate at threshold k.
    Separable(Vec<Share>),
    /// One constraint: precision equals the target.
    Precision(f64),
    /// Two thresholds, by attribute: a rate equal in both groups, and an overall rate.
    Parity { shared: Share, attribute: usize, overall: Share },
    /// Inequalities at a threshold of zero; nothing to solve.
    Fixed,
}

/// A monotone rate as a share of scores above the threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    /// Among positives, negatives, or both.
    positives: bool,
    negatives: bool,
    within: Within,
    /// Share above.
    target: f64,
}

impl Share {
    /// From weight · rate + constant = 0.
    fn of(term: &Term, constant: f64) -> Result<Share> {
        let target = -constant / term.weight;
        let (positives, negatives, target) = match term.rate {
            Rate::FalsePositive => (false, true, target),
            Rate::TrueNegative => (false, true, 1.0 - target),
            Rate::TruePositive => (true, false, target),
            Rate::FalseNegative => (true, false, 1.0 - target),
            Rate::Coverage => (true, true, target),
            Rate::Precision | Rate::Error => {
                let allowed =
                    "a rate that only falls (or rises) with the threshold; precision may stand alone";
                return Err(Error::config("rate of a constraint", format!("{:?}", term.rate), allowed));
            }
        };
        Ok(Share { positives, negatives, within: term.within, target })
    }

    fn check(&self) -> Result<()> {
        if self.target > 0.0 && self.target < 1.0 {
            return Ok(());
        }
        let allowed = "between 0 and 1, both excluded: no smooth rate reaches the ends";
        Err(Error::config("target rate", self.target, allowed))
    }

    /// The attributes that say who counts, and which of their cells do.
    fn cells(&self) -> (Vec<usize>, Vec<bool>) {
        let attributes: Vec<usize> = self.within.attribute().into_iter().collect();
        let of_class = |cell: usize| if cell & 1 == 1 { self.positives } else { self.negatives };
        let counts = |cell: usize| of_class(cell) && self.within.holds(&attributes, cell);
        let counts = (0..2usize << attributes.len()).map(counts).collect();
        (attributes, counts)
    }

    fn members<'a>(&self, scored: &'a Scored) -> Result<Members<'a>> {
        let (attributes, counts) = self.cells();
        scored.members(&attributes, &counts)
    }

    fn scores(&self, s: &[f64], flags: &Flags) -> Vec<f64> {
        let (attributes, counts) = self.cells();
        (0..s.len()).filter(|i| counts[flags.cell(&attributes, *i)]).map(|i| s[i]).collect()
    }

    fn same_members(&self, other: &Share) -> bool {
        (self.positives, self.negatives, self.within) == (other.positives, other.negatives, other.within)
    }

    /// Hard threshold: at most the target above it, or at least for a share that is wanted.
    fn hard(&self, s: &[f64], flags: &Flags, target: f64) -> Result<f64> {
        let mut own = self.scores(s, flags);
        if self.negatives {
            return hard_threshold(own, target);
        }
        let needed = (target * own.len() as f64 - 1e-9).ceil().max(0.0) as usize;
        if own.is_empty() || needed == 0 {
            return hard_threshold(own, 0.0);
        }
        let last = *own.select_nth_unstable_by(needed - 1, |a, b| b.total_cmp(a)).1;
        Ok(s.iter().filter(|s| **s < last).fold(f64::NEG_INFINITY, |most, s| most.max(*s)))
    }
}

impl Kind {
    /// Fails: `Config` for constraints of no shape that can be solved.
    pub fn of(constraints: &[RateSum]) -> Result<Kind> {
        let unknown = || {
            let allowed = "one monotone rate each, number k at threshold k; one precision; or the pair of RateProblem::parity. \
                           Others go to RateProblem::inequalities";
            Error::config("constraints", format!("{} of another shape", constraints.len()), allowed)
        };
        if let [RateSum { terms, constant }] = constraints
            && let [Term { rate: Rate::Precision, within: Within::All, at: At::Threshold(0), weight }] =
                &terms[..]
        {
            return Ok(Kind::Precision(-constant / weight));
        }
        if let [equal, total] = constraints
            && let ([with, without], [overall]) = (&equal.terms[..], &total.terms[..])
            && let At::ByAttribute { attribute, with: 0, without: 1 } = overall.at
        {
            let expected = Term {
                within: Within::Without(attribute),
                at: At::Threshold(1),
                weight: -with.weight,
                ..*with
            };
            let first = with.within == Within::With(attribute) && with.at == At::Threshold(0);
            if !first || *without != expected || equal.constant != 0.0 || overall.within != Within::All {
                return Err(unknown());
            }
            // The share in one group is not known beforehand; one half stands for it.
            let shared = Share { target: 0.5, ..Share::of(with, 0.0)? };
            return Ok(Kind::Parity { shared, attribute, overall: Share::of(overall, total.constant)? });
        }
        let own = |(k, g): (usize, &RateSum)| match &g.terms[..] {
            [term] if term.at == At::Threshold(k) => Share::of(term, g.constant),
            _ => Err(unknown()),
        };
        if constraints.is_empty() {
            return Err(unknown());
        }
        Ok(Kind::Separable(constraints.iter().enumerate().map(own).collect::<Result<_>>()?))
    }

    pub fn check(&self, surrogate: Surrogate) -> Result<()> {
        if !surrogate.is_bounded() && !self.is_separable() {
            let allowed = "a sigmoid for this problem, because its thresholds are no quantiles";
            return Err(Error::config("surrogate", format!("{surrogate:?}"), allowed));
        }
        match self {
            Kind::Separable(shares) => shares.iter().try_for_each(Share::check),
            Kind::Parity { overall, .. } => overall.check(),
            Kind::Precision(target) if !(*target > 0.0 && *target < 1.0) => {
                Err(Error::config("target precision", target, "between 0 and 1, both excluded"))
            }
            Kind::Precision(_) | Kind::Fixed => Ok(()),
        }
    }

    pub fn is_separable(&self) -> bool {
        matches!(self, Kind::Separable(_))
    }

    /// Whether each constraint depends on its own threshold only.
    pub fn is_diagonal(&self) -> bool {
        matches!(self, Kind::Separable(_) | Kind::Precision(_))
    }
}

pub(super) fn thresholds(problem: &RateProblem, scored: &Scored, warm: &[f64]) -> Result<Thresholds> {
    problem.countable(scored.labels)?;
    let Surrogate::Sigmoid { sharpness } = problem.surrogate() else {
        return Ok(Thresholds { t: hard_thresholds(problem, scored)?, passes: 1, residual: f64::NAN });
    };
    let (t, passes) = match problem.kind() {
        Kind::Separable(shares) => return at_shares(shares, scored, warm, sharpness),
        Kind::Precision(target) => at_precision(problem, scored, *target)?,
        Kind::Parity { shared, attribute, overall } => {
            at_parity(shared, *attribute, overall, scored, sharpness)?
        }
        Kind::Fixed => return Err(fixed()),
    };
    let sums: Vec<&RateSum> = problem.constraints().iter().collect();
    let rows = scored.slopes(&sums, &t, problem.surrogate())?;
    let residual = rows.iter().fold(0.0f64, |most, g| most.max(g.value.abs()));
    Ok(Thresholds { t, passes, residual })
}

/// One smooth quantile per threshold.
fn at_shares(shares: &[Share], scored: &Scored, warm: &[f64], sharpness: f64) -> Result<Thresholds> {
    // Thresholds of one grid share their scores.
    let mut lists: Vec<(&Share, Members, Vec<usize>)> = Vec::new();
    for (k, share) in shares.iter().enumerate() {
        match lists.iter_mut().find(|(of, ..)| of.same_members(share)) {
            Some((.., own)) => own.push(k),
            None => lists.push((share, share.members(scored)?, vec![k])),
        }
    }
    let few = shares.len() * scored.labels.n() < WORTH_SPLITTING;
    let mut roots = vec![Root { threshold: 0.0, passes: 0, residual: 0.0 }; shares.len()];
    for (_, members, own) in &lists {
        let solve = |own: &[usize]| {
            let asked: Vec<_> = own.iter().map(|k| (shares[*k].target, warm.get(*k).copied())).collect();
            smooth_thresholds(members, &asked, sharpness)
        };
        // Each core takes thresholds of its own; a device takes all in one pass.
        let found = match members {
            Members::Host(_) if !few => own.par_chunks(1).map(solve).collect::<Result<Vec<_>>>()?.concat(),
            _ => solve(own)?,
        };
        own.iter().zip(found).for_each(|(k, root)| roots[*k] = root);
    }
    Ok(Thresholds {
        t: roots.iter().map(|root| root.threshold).collect(),
        passes: roots.iter().map(|root| root.passes).sum(),
        residual: roots.iter().fold(0.0, |most, root| root.residual.abs().max(most)),
    })
}

/// Host: all scores and labels.
pub(super) fn hard_thresholds(problem: &RateProblem, scored: &Scored) -> Result<Vec<f64>> {
    problem.countable(scored.labels)?;
    let (s, flags) = (&scored.on_host()?[..], scored.labels.flags()?);
    match problem.kind() {
        Kind::Separable(shares) => shares.iter().map(|share| share.hard(s, flags, share.target)).collect(),
        Kind::Precision(target) => Ok(vec![hard_at_precision(s, flags, *target)?]),
        Kind::Parity { shared, attribute, overall } => {
            let groups = [Within::With(*attribute), Within::Without(*attribute)];
            let own = groups.map(|within| Share { within, ..*shared });
            let at =
                |q: f64| -> Result<[f64; 2]> { Ok([own[0].hard(s, flags, q)?, own[1].hard(s, flags, q)?]) };
            // The overall rate grows with the common share: bisection to less than one sample.
            let counted = groups.map(|within| Share { within, ..*overall }.scores(s, flags));
            let above = |t: [f64; 2]| {
                let hits = |g: usize| counted[g].iter().filter(|s| **s > t[g]).count();
                (hits(0) + hits(1)) as f64 / (counted[0].len() + counted[1].len()) as f64
            };
            let (mut low, mut high) = (0.0, 1.0);
            while (high - low) * s.len() as f64 > 0.01 {
                let q = 0.5 * (low + high);
                *if above(at(q)?) <= overall.target + 1e-9 { &mut low } else { &mut high } = q;
            }
            Ok(at(low)?.to_vec())
        }
        Kind::Fixed => Err(fixed()),
    }
}

fn fixed() -> Error {
    Error::config(
        "thresholds",
        "fixed at zero",
        "a problem of equations; inequalities are for RateTraining::tfco",
    )
}

/// Lowest threshold with at least the target precision, by counting.
fn hard_at_precision(s: &[f64], flags: &Flags, target: f64) -> Result<f64> {
    let mut order: Vec<usize> = (0..s.len()).collect();
    order.sort_by(|i, j| s[*j].total_cmp(&s[*i]));
    let (mut tp, mut best, mut found) = (0usize, 0.0f64, None);
    for (rank, i) in order.iter().enumerate() {
        tp += usize::from(flags.is_positive(*i));
        let next = order.get(rank + 1).map_or(f64::NEG_INFINITY, |j| s[*j]);
        if next == s[*i] {
            continue;
        }
        let precision = tp as f64 / (rank + 1) as f64;
        best = best.max(precision);
        if precision >= target - 1e-12 {
            found = Some(next);
        }
    }
    found.ok_or_else(|| {
        let hint = format!("no threshold has a precision of {target}, the best is {best:.4}; lower the target or train longer");
        Error::Solve { solver: "recall at precision".into(), iters: s.len(), residual: target - best, hint }
    })
}

/// The smooth solution nearest to the lowest hard threshold that reaches the precision. Host: all scores and labels.
fn at_precision(problem: &RateProblem, scored: &Scored, target: f64) -> Result<(Vec<f64>, usize)> {
    let (s, labels) = (&scored.on_host()?[..], scored.labels);
    let hard = hard_at_precision(s, labels.flags()?, target)?;
    let passes = std::cell::Cell::new(1);
    // Precision, or 0 where nothing is above.
    let gap = |t: f64| {
        passes.set(passes.get() + 1);
        problem.constraints()[0].slopes(s, labels, &[t], problem.surrogate()).map_or(-target, |g| g.value)
    };
    // Between two scores precision has at most a few turns; scores, midpoints and both ends see them.
    let mut grid = s.to_vec();
    grid.sort_by(f64::total_cmp);
    grid.dedup();
    let spread = (grid[grid.len() - 1] - grid[0]).max(1.0);
    let middles: Vec<f64> = grid.windows(2).map(|pair| 0.5 * (pair[0] + pair[1])).collect();
    grid.extend(middles);
    grid.extend([0.1, 1.0].map(|share| grid[0] - share * spread));
    let start = if hard.is_finite() { hard } else { grid[0] };
    grid.push(start);
    grid.sort_by(f64::total_cmp);
    grid.dedup();
    let place = grid.partition_point(|t| *t < start).min(grid.len() - 1);
    let mut values: Vec<Option<f64>> = vec![None; grid.len()];
    let mut value = |k: usize| *values[k].get_or_insert_with(|| gap(grid[k]));
    // Outwards from the hard threshold, one piece down and one up at a time.
    for distance in 0..grid.len() {
        let down = place.checked_sub(distance + 1).map(|k| (k, k + 1));
        let up = Some((place + distance, place + distance + 1)).filter(|(_, k)| *k < grid.len());
        for (a, b) in [down, up].into_iter().flatten() {
            if (value(a) > 0.0) == (value(b) > 0.0) {
                continue;
            }
            let rising = value(b) > 0.0;
            let (mut low, mut high) = (grid[a], grid[b]);
            while high - low > 4.0 * f64::EPSILON * high.abs().max(1.0) {
                let middle = 0.5 * (low + high);
                *if (gap(middle) > 0.0) == rising { &mut high } else { &mut low } = middle;
            }
            return Ok((vec![0.5 * (low + high)], passes.get()));
        }
    }
    let hint = format!(
        "no smooth threshold has a precision of {target}, although counting has one; sharpen the surrogate"
    );
    Err(Error::Solve { solver: "recall at precision".into(), iters: passes.get(), residual: target, hint })
}

/// Both thresholds as functions of the common share q, and Newton's method for the q of the overall rate.
fn at_parity(
    shared: &Share,
    attribute: usize,
    overall: &Share,
    scored: &Scored,
    sharpness: f64,
) -> Result<(Vec<f64>, usize)> {
    let groups = [Within::With(attribute), Within::Without(attribute)];
    let members = |share: &Share, g: usize| Share { within: groups[g], ..*share }.members(scored);
    let own = [members(shared, 0)?, members(shared, 1)?];
    let counted = [members(overall, 0)?, members(overall, 1)?];
    let n = (counted[0].len() + counted[1].len()) as f64;
    let mut t: [Option<f64>; 2] = [None; 2];
    let mut passes = 0;
    // In the logarithm of the odds of q, where both rates are nearly linear.
    let (mut low, mut high, mut v) = (-40.0f64, 40.0f64, (overall.target / (1.0 - overall.target)).ln());
    for _ in 0..200 {
        let (big, small) = sigmoids(v);
        let q = if v >= 0.0 { big } else { small };
        let (mut rate, mut slope) = (0.0, 0.0);
        for g in 0..2 {
            let asked = [(q.clamp(1e-300, 1.0 - 1e-16), t[g])];
            let root = smooth_thresholds(&own[g], &asked, sharpness)?.swap_remove(0);
            passes += root.passes + 1;
            t[g] = Some(root.threshold);
            let sums = |members: &Members| {
                Ok::<_, Error>(members.sums(&[root.threshold], sharpness)?.swap_remove(0))
            };
            let ([above, _, width], [_, _, spread]) = (sums(&counted[g])?, sums(&own[g])?);
            rate += above / n;
            // dt/dq = −1 / (τ mean of σσ') over the group's own scores.
            slope += width / n * (own[g].len() as f64 / spread) * big * small;
        }
        let residual = rate - overall.target;
        if residual.abs() <= 1e-13 || high - low <= 1e-14 * v.abs().max(1.0) {
            break;
        }
        *if residual > 0.0 { &mut high } else { &mut low } = v;
        let next = v - residual / slope;
        v = if low < next && next < high { next } else { 0.5 * (low + high) };
    }
    Ok((t.into_iter().flatten().collect(), passes))
}
