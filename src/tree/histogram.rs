//! Sums by feature and code, and from them the gain of every threshold.
//!
//! The work is cut into groups of features and tiles of outputs. Within a group and a tile a row's probabilities stay in
//! registers while they are added to the histograms of eight features, which stay in the first-level cache. Where the
//! processor has wide registers the same code is compiled for them; sums are whole numbers and all other arithmetic is
//! lane by lane, so every version gives the same bits.

use super::cart::Criterion;
use super::examples::{EXTRA, Examples, GROUP, ONE};

/// The best threshold of a node: low is `code ≤ threshold`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub feature: usize,
    pub threshold: u8,
    pub gain: f64,
}

impl Candidate {
    /// The better of two; the first of equals.
    pub fn or(first: Option<Candidate>, second: Option<Candidate>) -> Option<Candidate> {
        match (first, second) {
            (Some(a), Some(b)) if b.gain > a.gain => Some(b),
            (None, b) => b,
            (a, _) => a,
        }
    }
}

/// What the thresholds of a node are judged by.
pub(super) struct Judge<'a> {
    pub examples: &'a Examples,
    pub criterion: Criterion,
    pub min_leaf: u64,
    /// Sums over the node, lane by lane.
    pub sums: &'a [u64],
    /// For every lane: its mean for the variance, the node's total over its sum for the information.
    pub lanes: Vec<f64>,
}

impl<'a> Judge<'a> {
    pub fn new(examples: &'a Examples, criterion: Criterion, min_leaf: u64, sums: &'a [u64]) -> Judge<'a> {
        let (weight, total) = (sums[0] as f64, sums[1] as f64);
        let lane = |sum: &u64| match (criterion, *sum) {
            (_, 0) => 0.0,
            (Criterion::Variance, sum) => sum as f64 / weight,
            (Criterion::Information, sum) => total / sum as f64,
        };
        let lanes = sums.iter().map(lane).collect();
        Judge { examples, criterion, min_leaf, sums, lanes }
    }

    /// Numbers in the histograms of one group of features: [tile][feature][code][lane].
    pub fn group_size(examples: &Examples) -> usize {
        examples.tiles.len() * GROUP * examples.levels() * examples.width
    }

    /// Number of groups of features.
    pub fn groups(examples: &Examples) -> usize {
        examples.d().div_ceil(GROUP)
    }

    /// Fills the histograms of a group from all rows.
    pub fn fill(examples: &Examples, group: usize, histograms: &mut [u64]) {
        match examples.width {
            4 => widest::<4>(Task::Fill(examples, group, histograms)),
            8 => widest::<8>(Task::Fill(examples, group, histograms)),
            _ => widest::<16>(Task::Fill(examples, group, histograms)),
        }
    }

    /// The best threshold of a group, from its histograms, which are made tile by tile if they are not known.
    pub fn best(&self, group: usize, known: Option<&[u64]>) -> Option<Candidate> {
        let mut found = None;
        match self.examples.width {
            4 => widest::<4>(Task::Judge(self, group, known, &mut found)),
            8 => widest::<8>(Task::Judge(self, group, known, &mut found)),
            _ => widest::<16>(Task::Judge(self, group, known, &mut found)),
        }
        found
    }
}

/// One of the two inner loops, with all that it reads and writes.
enum Task<'a> {
    Fill(&'a Examples, usize, &'a mut [u64]),
    Judge(&'a Judge<'a>, usize, Option<&'a [u64]>, &'a mut Option<Candidate>),
}

#[inline(always)]
fn run<const W: usize>(task: Task) {
    match task {
        Task::Fill(examples, group, histograms) => {
            let span = GROUP * examples.levels() * W;
            for (tile, own) in examples.tiles.iter().zip(histograms.chunks_exact_mut(span)) {
                fill::<W>(examples, group, tile, own);
            }
        }
        Task::Judge(judge, group, known, found) => *found = best::<W>(judge, group, known),
    }
}

/// Runs a task with the widest registers that the processor has.
fn widest<const W: usize>(task: Task) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
        fn wide<const W: usize>(task: Task) {
            run::<W>(task);
        }
        #[target_feature(enable = "avx2")]
        fn half<const W: usize>(task: Task) {
            run::<W>(task);
        }
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the processor has just been found to have these instructions.
            return unsafe { wide::<W>(task) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has just been found to have these instructions.
            return unsafe { half::<W>(task) };
        }
    }
    run::<W>(task);
}

/// Fills the histograms of a group of features and a tile of lanes: [feature][code][lane].
#[inline(always)]
fn fill<const W: usize>(examples: &Examples, group: usize, tile: &[u64], histograms: &mut [u64]) {
    let levels = examples.levels();
    histograms.fill(0);
    let (tile, _) = tile.as_chunks::<W>();
    let (histograms, _) = histograms.as_chunks_mut::<W>();
    for (codes, lanes) in examples.groups[group].iter().zip(tile) {
        // A copy, so that it stays in registers.
        let lanes = *lanes;
        for (f, code) in codes.iter().enumerate() {
            let sums = &mut histograms[f * levels + usize::from(*code)];
            for k in 0..W {
                sums[k] += lanes[k];
            }
        }
    }
}

/// The two sides of a threshold: weight of the low one, and one over either's sum; no weight if nobody or too few move.
#[derive(Clone, Copy, Default)]
struct Sides {
    weight: f64,
    low: f64,
    high: f64,
}

#[inline(always)]
fn best<const W: usize>(judge: &Judge, group: usize, known: Option<&[u64]>) -> Option<Candidate> {
    let examples = judge.examples;
    let levels = examples.levels();
    let features = GROUP.min(examples.d() - group * GROUP);
    let span = GROUP * levels * W;
    let mut memory = vec![0u64; if known.is_none() { span } else { 0 }];
    let mut sides = vec![Sides::default(); features * levels];
    let mut gains = vec![[0.0f64; W]; features * levels];
    for (t, tile) in examples.tiles.iter().enumerate() {
        let own = match known {
            Some(all) => &all[t * span..][..span],
            None => {
                fill::<W>(examples, group, tile, &mut memory);
                &memory[..]
            }
        };
        let (codes, _) = own.as_chunks::<W>();
        if t == 0 {
            for (codes, sides) in codes.chunks_exact(levels).zip(sides.chunks_exact_mut(levels)) {
                judge.sides(codes, sides);
            }
            if sides.iter().all(|side| side.weight == 0.0) {
                return None;
            }
        }
        for ((codes, sides), gains) in
            codes.chunks_exact(levels).zip(sides.chunks_exact(levels)).zip(gains.chunks_exact_mut(levels))
        {
            judge.gains::<W>(t, codes, sides, gains);
        }
        if t == 0 {
            // Weight and sum are no probabilities.
            gains.iter_mut().for_each(|gain| gain[..EXTRA].fill(0.0));
        }
    }
    let weight = judge.sums[0] as f64;
    let mut found: Option<Candidate> = None;
    for (i, side) in sides.iter().enumerate().filter(|(_, side)| side.weight > 0.0) {
        let (sum, n) = (folded(gains[i]), side.weight);
        let gain = match judge.criterion {
            Criterion::Variance => sum / (ONE * ONE) * weight / (n * (weight - n)),
            Criterion::Information => sum / ONE,
        };
        if found.is_none_or(|best| gain > best.gain) {
            found =
                Some(Candidate { feature: group * GROUP + i / levels, threshold: (i % levels) as u8, gain });
        }
    }
    found
}

impl Judge<'_> {
    /// The sides of every threshold of a feature, from the weights and sums by code in the first tile.
    #[inline(always)]
    fn sides<const W: usize>(&self, codes: &[[u64; W]], sides: &mut [Sides]) {
        let (weight, total) = (self.sums[0], self.sums[1]);
        let (mut low, mut sum) = (0, 0);
        for (side, lanes) in sides.iter_mut().zip(codes) {
            // A code that nobody has moves nobody: the threshold below it is the same.
            let moved = lanes[0] > 0;
            (low, sum) = (low + lanes[0], sum + lanes[1]);
            if moved && low >= self.min_leaf && weight - low >= self.min_leaf {
                *side = Sides { weight: low as f64, low: 1.0 / sum as f64, high: 1.0 / (total - sum) as f64 };
            }
        }
    }

    /// Adds what the lanes of a tile gain at every threshold of a feature.
    #[inline(always)]
    fn gains<const W: usize>(&self, t: usize, codes: &[[u64; W]], sides: &[Sides], gains: &mut [[f64; W]]) {
        let (mut all, mut lanes, mut left) = ([0u64; W], [0.0; W], [0u64; W]);
        all.copy_from_slice(&self.sums[t * W..][..W]);
        lanes.copy_from_slice(&self.lanes[t * W..][..W]);
        for ((code, side), gain) in codes.iter().zip(sides).zip(gains) {
            for k in 0..W {
                left[k] += code[k];
            }
            if side.weight == 0.0 {
                continue;
            }
            match self.criterion {
                Criterion::Variance => {
                    for k in 0..W {
                        let apart = left[k] as f64 - lanes[k] * side.weight;
                        gain[k] += apart * apart;
                    }
                }
                Criterion::Information => {
                    for k in 0..W {
                        let (l, h) = (left[k] as f64, (all[k] - left[k]) as f64);
                        gain[k] += l * ln(l * (lanes[k] * side.low)) + h * ln(h * (lanes[k] * side.high));
                    }
                }
            }
        }
    }
}

/// The sum of a few numbers, in an order that does not depend on the processor.
#[inline(always)]
fn folded<const W: usize>(mut terms: [f64; W]) -> f64 {
    let mut half = W / 2;
    while half > 0 {
        for k in 0..half {
            terms[k] += terms[k + half];
        }
        half /= 2;
    }
    terms[0]
}

/// Natural logarithm of a positive number, to two units in the last place; −709 for zero.
///
/// Without branches and the same on every machine, so that a loop over lanes becomes wide and a tree has the same bits
/// everywhere.
#[inline(always)]
fn ln(x: f64) -> f64 {
    // x = 2^e m with m from √½ to √2; then ln m = 2 artanh((m − 1)/(m + 1)).
    const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    const SPREAD: u64 = 0x3ff0_0000_0000_0000 - ROOT_HALF;
    // artanh s = s (1 + s²/3 + s⁴/5 + …), and s² is at most 0.0295.
    const ODD: [f64; 11] = [
        1.0 / 21.0,
        1.0 / 19.0,
        1.0 / 17.0,
        1.0 / 15.0,
        1.0 / 13.0,
        1.0 / 11.0,
        1.0 / 9.0,
        1.0 / 7.0,
        0.2,
        1.0 / 3.0,
        1.0,
    ];
    let shifted = x.to_bits().wrapping_add(SPREAD);
    let m = f64::from_bits((shifted & 0x000f_ffff_ffff_ffff) + ROOT_HALF);
    let e = f64::from_bits(0x4330_0000_0000_0000 | (shifted >> 52)) - (4_503_599_627_370_496.0 + 1023.0);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let series = ODD.iter().fold(0.0, |series, odd| series * z + odd);
    2.0 * s * series + e * std::f64::consts::LN_2
}
