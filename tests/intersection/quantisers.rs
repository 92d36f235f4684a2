//! The equations of the chapter "Quantisers and straight-through gradients".

use crate::device::device;
use lastlayer::intersection::Agreement;
use lastlayer::model::{Init, Layer, Net, Pass, Plan};
use lastlayer::ops::{Grid, Quantiser, Range, RangeGradient};
use lastlayer::prelude::{DType, Tensor, Var};
use lastlayer::seed::Seed;

use super::{all_near, differences, message, near};

const SEED: Seed = Seed::new(6);

/// A few dozen f64 operations on numbers of size ten.
const ROUNDING: f64 = 1e-12;
/// Central differences with a step of 1e-5 of numbers of size ten: rounding over the step, and the square of the step.
const DIFFERENCES: f64 = 1e-8;
const STEP: f64 = 1e-5;
/// Half of the last digit that the chapter prints.
const PRINTED: f64 = 5e-3;

fn numbers(t: &Tensor) -> Vec<f64> {
    t.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

/// One row.
fn row(x: &[f64]) -> Tensor {
    Tensor::from_slice(x, (1, x.len()), device()).unwrap()
}

fn grid(low: f64, high: f64, bits: u32) -> Grid {
    let [low, high] = [low, high].map(|end| Tensor::new(&[[end]], device()).unwrap());
    Grid::new(&low, &high, bits).unwrap()
}

fn quantiser(bits: u32, range: Range, gradient: RangeGradient) -> Quantiser {
    Quantiser { bits, range, gradient }
}

/// Codes of one batch by itself.
fn codes(q: Quantiser, x: &[f64]) -> Vec<f64> {
    numbers(&q.forward(&row(x), None, true).unwrap())
}

const PRINTED_RANGE: Quantiser =
    Quantiser { bits: 4, range: Range::Printed, gradient: RangeGradient::Detached };

/// Gradient in x of Σ g_i v_i.
fn gradient(q: Quantiser, x: &[f64], g: &[f64]) -> Vec<f64> {
    let at = Var::from_tensor(&row(x)).unwrap();
    let v = q.forward(&at, None, true).unwrap();
    let grads = (v * row(g)).unwrap().sum_all().unwrap().backward().unwrap();
    numbers(grads.get(&at).unwrap())
}

/// Gradient in x of code i.
fn gradient_of(q: Quantiser, x: &[f64], i: usize) -> Vec<f64> {
    let g: Vec<f64> = (0..x.len()).map(|j| f64::from(u8::from(i == j))).collect();
    gradient(q, x, &g)
}

/// A code and its straight-through slope at one number, on a fixed grid.
fn through(grid: &Grid, x: f64) -> (f64, f64) {
    let x = Var::new(&[[x]], device()).unwrap();
    let v = grid.quantise(&x).unwrap();
    let grads = v.sum_all().unwrap().backward().unwrap();
    (numbers(&v)[0], numbers(grads.get(&x).unwrap())[0])
}

fn lowest(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::INFINITY, f64::min)
}

fn highest(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn sum(x: &[f64]) -> f64 {
    x.iter().sum()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn normal(n: u64, seed: Seed) -> Vec<f64> {
    (0..n).map(|i| seed.normal(i)).collect()
}

fn used(v: &[f64]) -> usize {
    let mut v: Vec<i64> = v.iter().map(|v| *v as i64).collect();
    v.sort_unstable();
    v.dedup();
    v.len()
}

// --------------------------------------------------------------------------------------------------------------------
// The grid

#[test]
fn sixteen_codes_from_minus_one_to_two() {
    let grid = grid(-1.0, 2.0, 4);
    near(numbers(&grid.step)[0], 0.2, ROUNDING);
    assert_eq!(numbers(&grid.zero), [5.0]);
    let x = row(&[-1.0, -0.37, 0.0, 0.33, 2.0]);
    all_near(&numbers(&grid.position(&x).unwrap()), &[0.0, 3.15, 5.0, 6.65, 15.0], ROUNDING);
    let v = grid.codes(&x).unwrap();
    assert_eq!(numbers(&v), [0.0, 3.0, 5.0, 7.0, 15.0]);
    all_near(&numbers(&grid.dequantise(&v).unwrap()), &[-1.0, -0.4, 0.0, 0.4, 2.0], ROUNDING);
}

#[test]
fn a_code_is_within_half_a_step_and_zero_is_exact() {
    let mut largest = 0.0f64;
    for (i, low) in [-2.0, -1.03, -0.4, -0.01, 0.0].into_iter().enumerate() {
        for bits in [1, 2, 4, 8] {
            let grid = grid(low, 1.7, bits);
            let step = numbers(&grid.step)[0];
            let seed = SEED.named(&format!("{i} {bits}"));
            let mut x: Vec<f64> = (0..500).map(|i| low + (1.7 - low) * seed.uniform(i)).collect();
            x.extend([low, 1.7]);
            let back = numbers(&grid.dequantise(&grid.codes(&row(&x)).unwrap()).unwrap());
            let error = x.iter().zip(back).map(|(x, back)| (x - back).abs() / step).fold(0.0, f64::max);
            assert!(error <= 0.5 + ROUNDING, "{error}");
            largest = largest.max(error);
            assert_eq!(numbers(&grid.dequantise(&grid.codes(&row(&[0.0])).unwrap()).unwrap()), [0.0]);
        }
    }
    assert!(largest > 0.499, "{largest}");
}

#[test]
fn without_zero_in_the_range_the_lower_codes_are_lost() {
    // Ends and how many of sixteen codes are left.
    for (low, high, left) in [(1.0, 16.0, 15), (2.0, 10.0, 12), (6.0, 13.0, 3), (10.0, 11.0, 1)] {
        let x: Vec<f64> = (0..=3000).map(|i| low + (high - low) * f64::from(i) / 3000.0).collect();
        let v = codes(PRINTED_RANGE, &x);
        let first = (15.0 * low / (high - low)).round().min(15.0);
        assert_eq!((lowest(&v), highest(&v)), (first, 15.0));
        assert_eq!(used(&v), left);
        // The mirror image loses the upper codes.
        let mirrored: Vec<f64> = x.iter().map(|x| -x).collect();
        let v = codes(PRINTED_RANGE, &mirrored);
        assert_eq!((lowest(&v), highest(&v)), (0.0, 15.0 - first));
        // With zero in the range.
        let v = codes(Quantiser { range: Range::Batch, ..PRINTED_RANGE }, &x);
        assert_eq!((lowest(&v), highest(&v)), ((15.0 * low / high).round(), 15.0));
    }
    // One code is left exactly if the width is at most the lowest number times 2Q/(2Q − 1) = 30/29.
    for (high, left) in [(2.9 + 2.999, 1), (2.9 + 3.001, 2)] {
        assert_eq!(used(&codes(PRINTED_RANGE, &[2.9, 0.5 * (2.9 + high), high])), left);
    }
    // And where one code is left there is no gradient.
    let x = [10.0, 10.2, 10.7, 11.0];
    assert_eq!(gradient(PRINTED_RANGE, &x, &[1.0; 4]), [0.0; 4]);
}

#[test]
fn equal_numbers_divide_by_zero_as_printed_and_not_in_the_crate() {
    let width = 3.0 - 3.0;
    assert!((3.0f64 / (width / 15.0)).is_infinite() && (-0.0f64 / (width / 15.0)).is_nan());
    assert_eq!(codes(PRINTED_RANGE, &[3.0; 4]), [15.0; 4]);
    assert_eq!(codes(PRINTED_RANGE, &[0.0; 4]), [0.0; 4]);
    assert_eq!(codes(PRINTED_RANGE, &[-3.0; 4]), [0.0; 4]);
}

// --------------------------------------------------------------------------------------------------------------------
// Straight through

#[test]
fn straight_through_is_the_gradient_of_the_clamp() {
    let grid = grid(-1.0, 2.0, 4);
    // No number sits at an edge between two codes, nor within a step of the differences of one.
    for x in [-1.7, -0.93, -0.37, 0.04, 0.33, 1.04, 1.88, 2.6] {
        let position = |x: f64| numbers(&grid.position(&row(&[x])).unwrap())[0];
        let clamp = |x: &[f64]| position(x[0]).clamp(0.0, 15.0);
        let code = |x: &[f64]| numbers(&grid.codes(&row(x)).unwrap())[0];
        let (v, slope) = through(&grid, x);
        assert_eq!(v, code(&[x]));
        all_near(&[slope], &differences(&[x], STEP, clamp), DIFFERENCES);
        assert_eq!(differences(&[x], STEP, code), [0.0]);
    }
}

/// Mean of f over u in a step around x: sixty-four midpoints of equal cells, exact where positions are multiples of 1/64.
fn dithered(grid: &Grid, x: f64, f: impl Fn(f64, f64) -> f64) -> f64 {
    let step = numbers(&grid.step)[0];
    let shifted = (0..64).map(|k| x + step * ((f64::from(k) + 0.5) / 64.0 - 0.5));
    shifted.map(|x| through(grid, x)).map(|(v, slope)| f(v, slope)).sum::<f64>() / 64.0
}

#[test]
fn with_noise_of_one_step_the_mean_code_is_the_position() {
    // Step 1/2, zero point 2, top code 7.
    let grid = grid(-1.0, 2.5, 3);
    let x = |t: f64| (t - 2.0) / 2.0;
    for t in -80..=512 {
        let t = f64::from(t) / 64.0;
        let mean = dithered(&grid, x(t), |v, _| v);
        near(mean, t.clamp(0.0, 7.0), ROUNDING);
        // Of the straight-through slopes: less within half a step of the ends, by the chance to be beyond.
        let slope = dithered(&grid, x(t), |_, slope| slope);
        let chance = ((t + 0.5).min(7.0) - (t - 0.5).max(0.0)).max(0.0);
        near(slope, 2.0 * chance, ROUNDING);
    }
    near(dithered(&grid, x(0.0), |_, slope| slope), 1.0, ROUNDING);
    // The derivative of the mean is the slope without noise.
    for t in [0.3, 1.0, 3.7, 6.9] {
        let t = (t * 64.0f64).round() / 64.0;
        let rise =
            dithered(&grid, x(t + 1.0 / 64.0), |v, _| v) - dithered(&grid, x(t - 1.0 / 64.0), |v, _| v);
        near(rise / (x(2.0 / 64.0) - x(0.0)), through(&grid, x(t)).1, ROUNDING);
    }
}

#[test]
fn for_a_curved_loss_the_mean_gradient_is_biased() {
    // Step 1, so positions are numbers.
    let grid = grid(0.0, 15.0, 4);
    let a = 2.3;
    type Loss = (fn(f64, f64) -> f64, fn(f64, f64) -> f64);
    let square: Loss = (|v, a| (v - a).powi(2), |v, a| 2.0 * (v - a));
    let cube: Loss = (|v, a| (v - a).powi(3), |v, a| 3.0 * (v - a).powi(2));
    for (quadratic, (loss, slope)) in [(true, square), (false, cube)] {
        for k in [1.0, 4.0, 9.0] {
            for share in [0.25, 0.5, 0.75] {
                let mean = |x: f64| dithered(&grid, x, |v, _| loss(v, a));
                near(mean(k + share), (1.0 - share) * loss(k, a) + share * loss(k + 1.0, a), 1e3 * ROUNDING);
                let true_slope = (mean(k + share + 1.0 / 64.0) - mean(k + share - 1.0 / 64.0)) * 32.0;
                near(true_slope, loss(k + 1.0, a) - loss(k, a), 1e4 * ROUNDING);
                let estimate = dithered(&grid, k + share, |v, through| slope(v, a) * through);
                near(estimate, (1.0 - share) * slope(k, a) + share * slope(k + 1.0, a), 1e3 * ROUNDING);
                if quadratic {
                    near(estimate - true_slope, 2.0 * share - 1.0, 1e4 * ROUNDING);
                }
            }
        }
    }
}

#[test]
fn straight_through_goes_the_wrong_way_where_the_slope_at_a_code_does_not_say_which_code_is_better() {
    let (loss, slope) = (|v: f64| v * (3.0 - 2.0 * v), |v: f64| 3.0 - 4.0 * v);
    assert_eq!((loss(0.0), loss(1.0), slope(0.0), slope(1.0)), (0.0, 1.0, 3.0, -1.0));
    let grid = grid(0.0, 1.0, 1);
    let descend = |mut x: f64| {
        for _ in 0..100 {
            let (v, through) = through(&grid, x);
            x -= 0.1 * slope(v) * through;
        }
        (x, loss(through(&grid, x).0))
    };
    for start in [0.55, 0.6, 0.9] {
        let (x, end) = descend(start);
        // At the end of the grid, up to the share that counts as the end.
        assert!(x >= 1.0 - 1e-6 && end == 1.0, "from {start} to {x}");
    }
    let (x, end) = descend(0.45);
    assert!(x <= 0.0 && end == 0.0);
}

#[test]
fn the_mean_of_chattering_codes_is_the_target() {
    let (grid, target, rate) = (grid(0.0, 15.0, 4), 2.3, 0.05);
    let start = 0.7;
    let (mut x, mut v) = (start, Vec::new());
    for step in 1..=1000 {
        let (code, slope) = through(&grid, x);
        x -= rate * 2.0 * (code - target) * slope;
        v.push(code);
        let mean = sum(&v) / f64::from(step);
        near(mean - target, (start - x) / (2.0 * rate * f64::from(step)), 1e3 * ROUNDING);
    }
    // It has arrived at the edge of codes 2 and 3, and is at 3 three times in ten.
    assert!(v[100..].iter().all(|v| *v == 2.0 || *v == 3.0));
    let threes = v[100..].iter().filter(|v| **v == 3.0).count() as f64 / 900.0;
    near(threes, 0.3, PRINTED);
}

// --------------------------------------------------------------------------------------------------------------------
// The range

#[test]
fn the_full_gradient_has_these_rows() {
    let printed = Quantiser { gradient: RangeGradient::Full, ..PRINTED_RANGE };
    let batch = Quantiser { range: Range::Batch, ..printed };
    // All four have the step 1, and the middle number 0.4 of the width away from zero or from the low end.
    for (q, x, expected) in [
        (printed, [-4.0, 2.0, 11.0], [-0.6, 1.0, -0.4]),
        (batch, [-4.0, 2.0, 11.0], [-0.6, 1.0, -0.4]),
        (printed, [0.0, 6.0, 15.0], [0.4, 1.0, -0.4]),
        (batch, [0.0, 6.0, 15.0], [0.4, 1.0, -0.4]),
        (batch, [3.0, 6.0, 15.0], [0.0, 1.0, -0.4]),
        (batch, [-15.0, -6.0, -3.0], [-0.4, 1.0, 0.0]),
    ] {
        all_near(&gradient_of(q, &x, 1), &expected, ROUNDING);
        let detached = Quantiser { gradient: RangeGradient::Detached, ..q };
        assert_eq!(gradient_of(detached, &x, 1), [0.0, 1.0, 0.0]);
    }
    // Rows of numbers at the ends of the grid are zero.
    assert_eq!(gradient_of(printed, &[-4.0, 2.0, 11.0], 0), [0.0; 3]);
    assert_eq!(gradient_of(printed, &[-4.0, 2.0, 11.0], 2), [0.0; 3]);
    // The formula of the free zero point, used where zero was added to the range, takes the wrong number for the end.
    let free = |x: [f64; 3]| -(1.0 - (x[1] - x[0]) / (x[2] - x[0]));
    near(free([3.0, 6.0, 15.0]), -0.75, ROUNDING);
}

/// Positions of numbers without any rounding.
fn unrounded(range: Range, x: &[f64]) -> Vec<f64> {
    let (mut low, mut high) = (lowest(x), highest(x));
    if range == Range::Batch {
        (low, high) = (low.min(0.0), high.max(0.0));
    }
    let step = (high - low) / 15.0;
    x.iter().map(|x| (-low / step).clamp(0.0, 15.0) + x / step).collect()
}

#[test]
fn the_full_gradient_is_that_of_the_positions_without_rounding() {
    for seed in 0..5 {
        let x = normal(10, Seed::new(seed));
        let up: Vec<f64> = x.iter().map(|x| x.abs() + 0.2).collect();
        let down: Vec<f64> = up.iter().map(|x| -x).collect();
        for (range, x) in
            [(Range::Printed, &x), (Range::Printed, &up), (Range::Batch, &up), (Range::Batch, &down)]
        {
            let q = quantiser(4, range, RangeGradient::Full);
            let (low, high) = match range {
                Range::Printed => (lowest(x), highest(x)),
                _ => (lowest(x).min(0.0), highest(x).max(0.0)),
            };
            let position = numbers(&grid(low, high, 4).position(&row(x)).unwrap());
            let mut checked = 0;
            for (i, position) in position.into_iter().enumerate() {
                if position > 0.0 && position < 15.0 {
                    let expected = differences(x, STEP, |x| unrounded(range, x)[i]);
                    // Second derivatives are up to Q/width² times the square of the step, and widths are about 2.
                    all_near(&gradient_of(q, x, i), &expected, 100.0 * DIFFERENCES);
                    checked += 1;
                }
            }
            assert!(checked >= 2, "{range:?}: {checked} inside");
        }
    }
}

#[test]
fn the_full_gradient_neither_moves_nor_scales_the_batch() {
    let x = normal(20, SEED);
    let g = normal(20, Seed::new(9));
    let relu: Vec<f64> = x.iter().map(|x| x.max(0.0)).collect();
    let full = Quantiser { gradient: RangeGradient::Full, ..PRINTED_RANGE };
    let batch = Quantiser { range: Range::Batch, ..full };
    let square = |x: &[f64]| dot(x, x);
    for (q, x, free) in [(full, &x, true), (full, &relu, false), (batch, &relu, false)] {
        let d = gradient(q, x, &g);
        near(dot(x, &d), 0.0, 1e2 * ROUNDING);
        assert_eq!(sum(&d).abs() < 1e2 * ROUNDING, free, "{}", sum(&d));
        // So a step against it makes the batch longer, never shorter.
        let after: Vec<f64> = x.iter().zip(&d).map(|(x, d)| x - 0.01 * d).collect();
        near(square(&after) - square(x), 1e-4 * square(&d), 1e2 * ROUNDING);
        let detached = gradient(Quantiser { gradient: RangeGradient::Detached, ..q }, x, &g);
        assert!(dot(x, &detached).abs() > 0.1 && sum(&detached).abs() > 0.1);
    }
}

/// The penalty on all codes of a batch, λ = 1, and its gradient in the numbers.
fn penalty(q: Quantiser, x: &[f64]) -> (f64, Vec<f64>) {
    let all = Agreement { sparse: 1.0, share: 1.0, ..Agreement::default() };
    let at = Var::from_tensor(&row(x)).unwrap();
    let loss = all.penalty(&q.forward(&at, None, true).unwrap(), 1, SEED).unwrap();
    let grads = loss.backward().unwrap();
    (numbers(&loss)[0], numbers(grads.get(&at).unwrap()))
}

#[test]
fn a_detached_penalty_sees_progress_where_there_is_none() {
    // Step 1/4 and zero point 8: all numbers are exact.
    let x = [-2.0, -1.6875, -0.5, 0.0, 0.3125, 1.1875, 1.75];
    let full = Quantiser { gradient: RangeGradient::Full, ..PRINTED_RANGE };
    let (before, slopes) = penalty(PRINTED_RANGE, &x);
    // Five of seven are inside and have a code above zero, and all are pushed alike.
    assert_eq!(slopes, [0.0, 4.0, 4.0, 4.0, 4.0, 4.0, 0.0]);
    assert_eq!(sum(&slopes), 5.0 * 4.0);
    near(sum(&penalty(full, &x).1), 0.0, ROUNDING);
    // A common bias that follows: the codes are what they were, one step lower or seven.
    for steps in [1.0, 7.0] {
        let moved: Vec<f64> = x.iter().map(|x| x - steps / 4.0).collect();
        assert_eq!(penalty(PRINTED_RANGE, &moved).0, before);
    }
    // After a ReLU the same holds for the scale.
    let x = [0.0, 0.0, 1.0, 2.25, 3.5, 3.75];
    let batch = Quantiser { range: Range::Batch, ..PRINTED_RANGE };
    let (before, slopes) = penalty(batch, &x);
    near(dot(&slopes, &x), (1.0 + 2.25 + 3.5) / 0.25, ROUNDING);
    near(dot(&penalty(Quantiser { gradient: RangeGradient::Full, ..batch }, &x).1, &x), 0.0, ROUNDING);
    assert_eq!(penalty(batch, &x.map(|x| x / 8.0)).0, before);
}

#[test]
fn a_common_bias_sinks_until_zero_leaves_the_range_and_every_code_is_zero() {
    let spread = normal(200, SEED);
    let (low, high) = (lowest(&spread), highest(&spread));
    let at = |bias: f64| spread.iter().map(|x| x + bias).collect::<Vec<_>>();
    let mut bias = 0.0;
    let start = codes(PRINTED_RANGE, &at(0.0));
    let (mut up, mut down) = (0, 0);
    for _ in 0..2000 {
        let (loss, slopes) = penalty(PRINTED_RANGE, &at(bias));
        if low + bias < 0.0 && high + bias > 0.0 {
            // By one code at most, the rounding of the zero point, and in either direction.
            let v = codes(PRINTED_RANGE, &at(bias));
            assert!(v.iter().zip(&start).all(|(v, start)| (v - start).abs() <= 1.0), "at {bias}");
            up += usize::from(loss > sum(&start));
            down += usize::from(loss < sum(&start));
        }
        // Steps of one length, so that the end is reached.
        bias -= if sum(&slopes) > 0.0 { 0.01 } else { 0.0 };
    }
    assert!(up > 5 && down > 5, "{up} and {down}");
    // At the end all codes are zero, and nothing leads back.
    let (loss, slopes) = penalty(PRINTED_RANGE, &at(bias));
    assert_eq!((loss, sum(&slopes)), (0.0, 0.0));
    assert_eq!(used(&codes(PRINTED_RANGE, &at(bias))), 1);
    // The largest number at −(K − 1/2) steps is the edge.
    let step = (high - low) / 15.0;
    assert_eq!(used(&codes(PRINTED_RANGE, &at(-high - 14.51 * step))), 1);
    assert_eq!(used(&codes(PRINTED_RANGE, &at(-high - 14.49 * step))), 2);
    let (_, outside) = penalty(PRINTED_RANGE, &at(-high - 0.1));
    assert!(sum(&outside) > 0.0, "on the way out it is still pushed");
}

#[test]
fn free_numbers_sink_onto_the_lowest() {
    // Step 1. The lowest has code 0 and the highest is at the end of the grid: neither moves, all others do.
    let mut x: Vec<f64> = (0..60).map(|i| -4.0 + 15.0 * SEED.uniform(i)).collect();
    x.extend([-4.0, 11.0]);
    for _ in 0..2000 {
        let (_, slopes) = penalty(PRINTED_RANGE, &x);
        x.iter_mut().zip(slopes).for_each(|(x, slope)| *x -= 0.01 * slope);
    }
    assert_eq!((lowest(&x), highest(&x)), (-4.0, 11.0));
    let v = codes(PRINTED_RANGE, &x);
    assert_eq!((v.iter().filter(|v| **v == 0.0).count(), v[61]), (61, 15.0));
    assert!(x[..60].iter().all(|x| *x < -3.5));
}

#[test]
fn after_a_relu_code_zero_is_what_lies_below_half_a_step() {
    let x: Vec<f64> = (0..=1000).map(|i| f64::from(i) / 1000.0 * 3.0).collect();
    let edge = 3.0 / 30.0;
    for range in [Range::Printed, Range::Batch, Range::Running] {
        let v = codes(Quantiser { range, ..PRINTED_RANGE }, &x);
        for (x, v) in x.iter().zip(&v) {
            // At the edges, multiples of half a step, either side is right.
            if (x / edge - (x / edge).round()).abs() > ROUNDING {
                assert_eq!(*v, (15.0 * x / 3.0).round());
                assert_eq!(*v == 0.0, *x < edge, "{x}");
            }
        }
    }
    // Without it code 0 is the lowest number of the batch, and zero has another code.
    assert_eq!(codes(PRINTED_RANGE, &[-4.0, 0.0, 11.0]), [0.0, 4.0, 15.0]);
}

// --------------------------------------------------------------------------------------------------------------------
// Batches

fn kept() -> [Var; 2] {
    [(); 2].map(|_| Var::zeros(1, DType::F64, device()).unwrap())
}

fn run(kept: &[Var; 2], x: &[f64], train: bool) -> Vec<f64> {
    let q = Quantiser { range: Range::Running, ..PRINTED_RANGE };
    numbers(&q.forward(&row(x), Some([&kept[0], &kept[1]]), train).unwrap())
}

#[test]
fn the_code_of_one_depends_on_its_batch() {
    let with = |other: f64| codes(PRINTED_RANGE, &[0.0, 1.0, other])[1];
    assert_eq!([1.0, 3.0, 40.0].map(with), [15.0, 5.0, 0.0]);
    let kept = kept();
    run(&kept, &[0.0, 3.0], true);
    assert_eq!([1.0, 3.0, 40.0].map(|other| run(&kept, &[0.0, 1.0, other], false)[1]), [5.0; 3]);
}

#[test]
fn a_running_range_forgets_by_a_tenth_a_batch() {
    let kept = kept();
    run(&kept, &[-3.0, 7.0], true);
    let ends = |kept: &[Var; 2]| [numbers(&kept[0])[0], numbers(&kept[1])[0]];
    assert_eq!(ends(&kept), [-3.0, 7.0]);
    for t in 1..=22 {
        run(&kept, &[-1.0, 0.5, 2.0], true);
        let share = 0.9f64.powi(t);
        all_near(&ends(&kept), &[-1.0 - 2.0 * share, 2.0 + 5.0 * share], ROUNDING);
    }
    assert!(0.9f64.powi(21) > 0.1 && 0.9f64.powi(22) < 0.1);
    // A batch without a number below zero pulls the low end to zero, not to its own lowest.
    run(&kept, &[1.0, 2.0], true);
    near(ends(&kept)[0], 0.9 * (-1.0 - 2.0 * 0.9f64.powi(22)), ROUNDING);
}

#[test]
fn one_outlier_silences_a_dozen_batches() {
    let batch = [0.0, 0.4, 1.0];
    // In a range of the batch: 30 times the rest is the limit at four bits.
    assert_eq!(codes(PRINTED_RANGE, &[0.0, 0.4, 1.0, 29.9])[..3], [0.0, 0.0, 1.0]);
    assert_eq!(codes(PRINTED_RANGE, &[0.0, 0.4, 1.0, 30.1])[..3], [0.0; 3]);
    let kept = kept();
    assert_eq!(run(&kept, &batch, true), [0.0, 6.0, 15.0]);
    assert_eq!(run(&kept, &[0.0, 0.4, 1.0, 1000.0], true)[..3], [0.0; 3]);
    near(numbers(&kept[1])[0], 100.9, ROUNDING);
    let mut silent = 0;
    loop {
        let v = run(&kept, &batch, true);
        let share = 0.9f64.powi(silent + 1);
        near(numbers(&kept[1])[0], 1.0 + 99.9 * share, ROUNDING);
        if v[2] > 0.0 {
            break;
        }
        assert_eq!(v, [0.0; 3]);
        silent += 1;
    }
    assert_eq!(silent, 11);
}

#[test]
fn a_feature_that_was_silent_in_training_is_ranged_by_its_test_batch() {
    let q = Quantiser { range: Range::RunningEach, ..PRINTED_RANGE };
    let kept = [(); 2].map(|_| Var::zeros(2, DType::F64, device()).unwrap());
    let run = |x: [[f64; 2]; 2], train| {
        let x = Tensor::new(&x, device()).unwrap();
        numbers(&q.forward(&x, Some([&kept[0], &kept[1]]), train).unwrap())
    };
    run([[1.0, 0.0], [3.0, 0.0]], true);
    assert_eq!(run([[1.0, 1.0], [2.0, 1.0]], false), [5.0, 15.0, 10.0, 15.0]);
    assert_eq!(run([[1.0, 1.0], [2.0, 3.0]], false), [5.0, 5.0, 10.0, 15.0]);
}

// --------------------------------------------------------------------------------------------------------------------
// Into the head

#[test]
fn codes_over_their_largest_have_a_slope_that_does_not_know_the_bits() {
    for bits in [1, 2, 4, 8] {
        let top = f64::from((1u32 << bits) - 1);
        let grid = grid(-1.0, 2.0, bits);
        // A number well inside even with one bit, whose zero point is 0 and whose grid ends at a step of 3.
        let (_, slope) = through(&grid, 0.4);
        near(slope / top, 1.0 / 3.0, ROUNDING);
        let squares = (0..=top as u32).map(|v| f64::from(v).powi(2)).sum::<f64>() / (top + 1.0);
        near(squares, top * (2.0 * top + 1.0) / 6.0, 1e4 * ROUNDING);
    }
    let deviation = |top: f64| (top * (2.0 * top + 1.0) / 18.0).sqrt();
    near(deviation(15.0), 5.08, PRINTED);
    near(deviation(255.0), 85.08, PRINTED);
    near(deviation(15.0) / 15.0, 0.34, PRINTED);
    near(deviation(255.0) / 255.0, 0.33, PRINTED);
    // A layer of the crate: 2 000 units on 256 codes.
    let layers = vec![("hidden".to_string(), Layer::Linear { width: 2000, bias: false })];
    let plan = Plan { input: vec![256], layers, init: Init::Uniform };
    let net = Net::new(plan, SEED, DType::F64, device()).unwrap();
    let v: Vec<f64> = (0..256).map(|i| f64::from(i % 16)).collect();
    let s = numbers(&net.forward(&row(&v), Pass::Eval).unwrap());
    // The deviation of 2 000 draws is good to 1/√4000 = 1.6 %; three times that.
    near((dot(&s, &s) / 2000.0).sqrt(), 5.08, 0.25);
}

// --------------------------------------------------------------------------------------------------------------------
// candle

fn candle_gradient(x: &[f64], f: impl Fn(&Tensor) -> Tensor) -> Option<Vec<f64>> {
    let x = Var::new(x, device()).unwrap();
    let grads = f(&x).sum_all().unwrap().backward().unwrap();
    grads.get(&x).map(numbers)
}

#[test]
fn candle_rounds_clamps_and_ties_like_this() {
    // No gradient at all, not a zero: an optimiser skips the parameter without a word.
    assert_eq!(candle_gradient(&[0.3, 1.7], |x| x.round().unwrap()), None);
    // Halves away from zero.
    let halves = Tensor::new(&[0.5, 1.5, 2.5, -0.5], device()).unwrap();
    assert_eq!(numbers(&halves.round().unwrap()), [1.0, 2.0, 3.0, -1.0]);
    let clamp = candle_gradient(&[-1.0, 0.0, 7.0, 15.0, 16.0], |x| x.clamp(0.0, 15.0).unwrap());
    assert_eq!(clamp.unwrap(), [0.0, 0.5, 1.0, 0.5, 0.0]);
    let least = candle_gradient(&[0.0, 0.0, 0.0, 5.0], |x| x.min(0).unwrap());
    assert_eq!(least.unwrap(), [1.0, 1.0, 1.0, 0.0]);
    let most = candle_gradient(&[5.0, 0.0, 5.0], |x| x.max(0).unwrap());
    assert_eq!(most.unwrap(), [1.0, 0.0, 1.0]);
    let size = candle_gradient(&[-2.0, 0.0, 2.0], |x| x.abs().unwrap());
    assert_eq!(size.unwrap(), [-1.0, 1.0, 1.0]);
    let most = Tensor::new(&[0.5, f64::NAN, 2.5], device()).unwrap().max(0).unwrap();
    assert_eq!(numbers(&most), [2.5]);
    // The crate: ends take nothing, of several lowest one is the end, and a NaN is an error.
    let full = Quantiser { gradient: RangeGradient::Full, ..PRINTED_RANGE };
    all_near(&gradient(full, &[0.0, 0.0, 0.0, 6.0, 15.0], &[1.0; 5]), &[0.4, 0.0, 0.0, 1.0, -0.4], ROUNDING);
    let error = message(PRINTED_RANGE.forward(&row(&[0.5, f64::NAN, 2.5]), None, true));
    assert!(error.contains("not finite"), "{error}");
}
