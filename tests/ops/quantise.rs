use super::*;
use lastlayer::model::{Init, Layer, Net, Pass, Plan, SplitNet};
use lastlayer::ops::{Grid, Quantiser, Range, RangeGradient};

const RANGES: [Range; 4] = [Range::Printed, Range::Batch, Range::Running, Range::RunningEach];

/// Positions are two rounded operations on numbers up to 255: this far from a half they round the same way.
const TIE: f64 = 1e-9;

fn quantiser(bits: u32, range: Range, gradient: RangeGradient) -> Quantiser {
    Quantiser { bits, range, gradient }
}

fn detached(bits: u32, range: Range) -> Quantiser {
    quantiser(bits, range, RangeGradient::Detached)
}

fn full(bits: u32, range: Range) -> Quantiser {
    quantiser(bits, range, RangeGradient::Full)
}

/// One row.
fn row(x: &[f64]) -> Tensor {
    Tensor::from_slice(x, (1, x.len()), device()).unwrap()
}

/// Codes of one row by itself.
fn codes(q: Quantiser, x: &[f64]) -> Vec<f64> {
    numbers(&q.forward(&row(x), None, true).unwrap())
}

fn levels_used(q: Quantiser, x: &[f64]) -> usize {
    let mut codes: Vec<u64> = codes(q, x).into_iter().map(|v| v as u64).collect();
    codes.sort_unstable();
    codes.dedup();
    codes.len()
}

fn uniform(n: usize, (low, high): (f64, f64), seed: u64) -> Vec<f64> {
    (0..n as u64).map(|i| low + (high - low) * Seed::new(seed).uniform(i)).collect()
}

fn lowest(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::INFINITY, f64::min)
}

fn highest(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The ends that a range of the batch has.
fn ends(range: Range, x: &[f64]) -> [f64; 2] {
    match range {
        Range::Printed => [lowest(x), highest(x)],
        _ => [lowest(x).min(0.0), highest(x).max(0.0)],
    }
}

/// The grid that a range of the batch has.
fn grid(range: Range, x: &[f64], bits: u32) -> Grid {
    let [low, high] = ends(range, x).map(|end| Tensor::new(&[[end]], device()).unwrap());
    Grid::new(&low, &high, bits).unwrap()
}

/// Positions without any rounding, the zero point's included: what a full gradient is the gradient of.
fn unrounded(range: Range, x: &[f64], top: f64) -> Vec<f64> {
    let [low, high] = ends(range, x);
    let step = (high - low) / top;
    let zero = (-low / step).clamp(0.0, top);
    x.iter().map(|x| zero + x / step).collect()
}

/// Row i: gradient of code i in all numbers.
fn jacobian(q: Quantiser, x: &[f64]) -> Vec<Vec<f64>> {
    let at = Var::from_tensor(&row(x)).unwrap();
    let v = q.forward(&at, None, true).unwrap().flatten_all().unwrap();
    let one = |i| numbers(v.get(i).unwrap().backward().unwrap().get(&at).unwrap());
    (0..x.len()).map(one).collect()
}

/// Whether each number lies strictly inside the grid.
fn inside(range: Range, x: &[f64], bits: u32) -> Vec<bool> {
    let top = f64::from((1u32 << bits) - 1);
    numbers(&grid(range, x, bits).position(&row(x)).unwrap()).iter().map(|q| *q > 0.0 && *q < top).collect()
}

fn first(x: &[f64], end: f64) -> usize {
    x.iter().position(|x| *x == end).unwrap()
}

// --------------------------------------------------------------------------------------------------------------------
// Codes

#[test]
fn codes_are_whole_numbers_up_to_the_top_code() {
    for bits in [1, 2, 4, 8] {
        let top = f64::from((1u32 << bits) - 1);
        for range in RANGES {
            for shape in [[1, 1], [1, 40], [40, 1], [25, 8]] {
                for dtype in [DType::F64, DType::F32] {
                    let x = draw(&shape, 3).to_dtype(dtype).unwrap();
                    let v = detached(bits, range).forward(&x, None, true).unwrap();
                    assert_eq!((v.dims(), v.dtype()), (x.dims(), dtype));
                    let whole = |v: &f64| v.fract() == 0.0 && (0.0..=top).contains(v);
                    assert!(numbers(&v).iter().all(whole), "{bits} bits, {range:?}: {v}");
                }
            }
        }
        assert_eq!(detached(bits, Range::Batch).levels() as f64, top + 1.0);
        // Two hundred numbers on both sides of zero reach both ends.
        let v = codes(detached(bits, Range::Batch), &numbers(&draw(&[200], 3)));
        assert_eq!((lowest(&v), highest(&v)), (0.0, top));
    }
}

#[test]
fn larger_numbers_have_no_smaller_codes() {
    for shift in [-3.0, 0.0, 0.4, 3.0] {
        let mut x: Vec<f64> = numbers(&draw(&[300], 5)).iter().map(|x| x + shift).collect();
        x.sort_unstable_by(f64::total_cmp);
        for bits in [1, 2, 4, 8] {
            for range in [Range::Printed, Range::Batch, Range::Running] {
                let v = codes(detached(bits, range), &x);
                assert!(v.windows(2).all(|pair| pair[0] <= pair[1]), "{bits} bits, {range:?}, {shift}");
            }
        }
    }
}

#[test]
fn a_code_is_within_half_a_step_of_its_number_if_the_range_has_zero() {
    for bits in [1, 2, 4, 8] {
        let mut largest = 0.0f64;
        for seed in 0..20 {
            let x = uniform(500, (-1.0 - seed as f64 / 7.0, 2.0), seed);
            let grid = grid(Range::Printed, &x, bits);
            let step = numbers(&grid.step)[0];
            let back = numbers(&grid.dequantise(&grid.codes(&row(&x)).unwrap()).unwrap());
            let error = x.iter().zip(back).map(|(x, back)| (x - back).abs() / step).fold(0.0, f64::max);
            assert!(error <= 0.5 + ROUNDING, "{bits} bits, seed {seed}: {error}");
            largest = largest.max(error);
        }
        assert!(largest > 0.49, "{bits} bits: the bound is reached, {largest}");
    }
}

#[test]
fn without_zero_in_the_range_the_error_has_no_such_bound() {
    let x = uniform(500, (10.0, 11.0), 1);
    let grid = grid(Range::Printed, &x, 4);
    let step = numbers(&grid.step)[0];
    let back = numbers(&grid.dequantise(&grid.codes(&row(&x)).unwrap()).unwrap());
    assert!(x.iter().zip(back).all(|(x, back)| (x - back).abs() > 100.0 * step));
}

#[test]
fn zero_is_coded_without_error() {
    for seed in 0..20 {
        let x = uniform(50, (-0.3 - seed as f64, 2.0), seed);
        let grid = grid(Range::Printed, &x, 4);
        assert_eq!(numbers(&grid.dequantise(&grid.codes(&row(&[0.0])).unwrap()).unwrap()), [0.0]);
    }
}

#[test]
fn codes_of_what_codes_stand_for_are_the_same_codes() {
    for bits in [1, 2, 4, 8] {
        for range in [Range::Printed, Range::Batch] {
            for shift in [-5.0, -1.0, 0.0, 0.7, 5.0] {
                let x: Vec<f64> = numbers(&draw(&[200], 6)).iter().map(|x| x + shift).collect();
                let grid = grid(range, &x, bits);
                let v = grid.codes(&row(&x)).unwrap();
                let again = grid.codes(&grid.dequantise(&v).unwrap()).unwrap();
                assert_eq!(numbers(&v), numbers(&again), "{bits} bits, {range:?}, {shift}");
            }
        }
    }
}

#[test]
fn codes_do_not_change_when_all_numbers_are_scaled() {
    let x = numbers(&draw(&[200], 7));
    for q in [detached(4, Range::Printed), detached(4, Range::Batch)] {
        let v = codes(q, &x);
        // Powers of two are exact.
        for a in [0.25, 2.0, 1024.0] {
            assert_eq!(v, codes(q, &x.iter().map(|x| a * x).collect::<Vec<_>>()));
        }
        for a in [0.1, 0.7, 3.0, 1e3] {
            let scaled: Vec<f64> = x.iter().map(|x| a * x).collect();
            let position = numbers(&grid(q.range, &x, 4).position(&row(&x)).unwrap());
            close(
                &grid(q.range, &scaled, 4).position(&row(&scaled)).unwrap(),
                &grid(q.range, &x, 4).position(&row(&x)).unwrap(),
                ROUNDING,
            );
            for ((p, v), w) in position.iter().zip(&v).zip(codes(q, &scaled)) {
                assert!(*v == w || (p.fract().abs() - 0.5).abs() < TIE, "{p} at scale {a}: {v} and {w}");
            }
        }
    }
}

#[test]
fn codes_do_not_change_when_all_numbers_move_by_whole_steps() {
    // Range 15/4, so the step is 1/4 and every number below is exact.
    let x = [-2.0, -1.625, -0.5, 0.0, 0.3125, 1.1875, 1.75];
    let q = detached(4, Range::Printed);
    let moved = |by: f64| codes(q, &x.iter().map(|x| x + by).collect::<Vec<_>>());
    for steps in -7..=7 {
        assert_eq!(moved(0.0), moved(f64::from(steps) / 4.0), "{steps} steps");
    }
    // Nine steps to the right zero leaves the range, and the zero point is held at 0.
    assert_ne!(moved(0.0), moved(9.0 / 4.0));
    // Part of a step: the zero point rounds to another distance from where it was.
    assert_eq!(codes(q, &[-2.0, 0.1, 1.75])[1], 8.0);
    assert_eq!(codes(q, &[-2.0 + 0.1, 0.1 + 0.1, 1.75 + 0.1])[1], 9.0);
    // By one code at most: positions move by the rounding of the zero point.
    let x = numbers(&draw(&[200], 8));
    let v = codes(q, &x);
    let mut changed = 0;
    for by in uniform(40, (-1.0, 1.0), 2) {
        let w = codes(q, &x.iter().map(|x| x + by).collect::<Vec<_>>());
        assert!(v.iter().zip(&w).all(|(v, w)| (v - w).abs() <= 1.0));
        changed += usize::from(v != w);
    }
    assert!(changed > 20, "{changed} of 40");
}

#[test]
fn codes_follow_a_permutation_of_the_numbers() {
    let x = draw(&[12, 5], 9);
    let rows: Vec<u32> = Seed::new(1).permutation(12).into_iter().map(|i| i as u32).collect();
    let columns: Vec<u32> = Seed::new(2).permutation(5).into_iter().map(|i| i as u32).collect();
    let (rows, columns) =
        (Tensor::new(&rows[..], device()).unwrap(), Tensor::new(&columns[..], device()).unwrap());
    let permuted = |x: &Tensor| x.index_select(&rows, 0).unwrap().index_select(&columns, 1).unwrap();
    for range in RANGES {
        let q = detached(4, range);
        let v = q.forward(&x, None, true).unwrap();
        let w = q.forward(&permuted(&x), None, true).unwrap();
        assert_eq!(numbers(&permuted(&v)), numbers(&w), "{range:?}");
    }
    // And the order of memory is no matter.
    let q = full(4, Range::Batch);
    let v = q.forward(&x, None, true).unwrap();
    assert_eq!(numbers(&v), numbers(&q.forward(&shuffled(&x), None, true).unwrap()));
}

#[test]
fn equal_numbers_have_equal_codes() {
    for bits in [1, 2, 4, 8] {
        let top = f64::from((1u32 << bits) - 1);
        for range in RANGES {
            // A step is never below 1e-6, so 1e-9 is the same as zero.
            for (c, code) in [(-3.0, 0.0), (0.0, 0.0), (1e-9, 0.0), (3.0, top), (1e9, top)] {
                for dtype in [DType::F64, DType::F32] {
                    let x = Tensor::full(c, (4, 3), device()).unwrap().to_dtype(dtype).unwrap();
                    let v = numbers(&detached(bits, range).forward(&x, None, true).unwrap());
                    assert_eq!(v, [code; 12], "{bits} bits, {range:?}, {c}");
                }
            }
        }
        for range in [Range::Printed, Range::Batch] {
            for c in [-3.0, 0.0, 3.0] {
                let g = jacobian(full(bits, range), &[c; 3]);
                assert!(g.concat().iter().all(|g| g.is_finite()), "{bits} bits, {range:?}, {c}: {g:?}");
            }
        }
    }
}

#[test]
fn numbers_far_from_zero_share_one_code_unless_the_range_has_zero() {
    for x in [uniform(1000, (10.0, 11.0), 1), uniform(1000, (-11.0, -10.0), 2)] {
        for bits in [2, 4, 8] {
            assert_eq!(levels_used(detached(bits, Range::Printed), &x), 1);
        }
        // Batch and Running use the last eleventh of the range: 2 of 16 codes, and 24 of 256.
        for range in [Range::Batch, Range::Running, Range::RunningEach] {
            let x = Tensor::from_slice(&x, (1000, 1), device()).unwrap();
            let used = |bits| {
                let v = detached(bits, range).forward(&x, None, true).unwrap();
                let mut v: Vec<u64> = numbers(&v).into_iter().map(|v| v as u64).collect();
                v.sort_unstable();
                v.dedup();
                v.len()
            };
            assert_eq!((used(4), used(8)), (2, 24), "{range:?}");
        }
    }
    // All of it is lost in training too: nothing lies inside the grid.
    let g = jacobian(detached(4, Range::Printed), &uniform(20, (10.0, 11.0), 1));
    assert!(g.concat().iter().all(|g| *g == 0.0));
}

#[test]
fn numbers_around_five_lose_the_codes_below_the_lowest() {
    let mut used = Vec::new();
    for n in [100, 500, 1000, 10_000] {
        let x: Vec<f64> = (0..n).map(|i| 5.0 + Seed::new(4).normal(i)).collect();
        let (low, high) = (lowest(&x), highest(&x));
        let lost = (15.0 * low / (high - low)).round() as usize;
        let found = levels_used(detached(4, Range::Printed), &x);
        // Codes from the lowest number's to the top, but for one that a gap in the tail may skip.
        assert!((16 - lost - 1..=16 - lost).contains(&found), "{n}: {found}, {lost} lost");
        used.push(found);
    }
    assert!(used.contains(&11), "{used:?}");
    assert!(used.iter().all(|used| (6..15).contains(used)), "{used:?}");
}

#[test]
fn halves_are_rounded_away_from_zero() {
    // Range 0 to 15: positions are the numbers themselves.
    let x = [0.0, 0.5, 1.5, 2.5, 0.49, 14.5, 15.0];
    for range in [Range::Printed, Range::Batch, Range::Running] {
        assert_eq!(codes(detached(4, range), &x), [0.0, 1.0, 2.0, 3.0, 0.0, 15.0, 15.0]);
    }
    // So is the zero point: −low/step = 2.5.
    let grid = grid(Range::Printed, &[-2.5, 12.5], 4);
    assert_eq!((numbers(&grid.step), numbers(&grid.zero)), (vec![1.0], vec![3.0]));
}

// --------------------------------------------------------------------------------------------------------------------
// Gradients

#[test]
fn a_straight_through_value_is_exactly_the_code() {
    for bits in [1, 2, 4, 8] {
        for range in [Range::Printed, Range::Batch] {
            for x in [draw(&[40, 6], 10), f32s(&draw(&[40, 6], 10)), (draw(&[9, 2], 1) * 1e6).unwrap()] {
                let flat = numbers(&x);
                let [low, high] = ends(range, &flat)
                    .map(|e| Tensor::new(&[[e]], device()).unwrap().to_dtype(x.dtype()).unwrap());
                let v = super::bits(&Grid::new(&low, &high, bits).unwrap().codes(&x).unwrap());
                for gradient in [RangeGradient::Detached, RangeGradient::Full] {
                    let x = Var::from_tensor(&x).unwrap();
                    assert_eq!(
                        v,
                        super::bits(&quantiser(bits, range, gradient).forward(&x, None, true).unwrap())
                    );
                }
            }
        }
    }
}

#[test]
fn a_detached_gradient_is_one_over_the_step_strictly_inside_and_zero_at_the_ends() {
    for range in RANGES {
        // Range −4 to 11, so the step is 1 and positions are whole at the ends.
        let x = [-4.0, -3.75, 0.0, 6.3, 10.999, 11.0];
        let at = Var::from_tensor(&Tensor::from_slice(&x, (6, 1), device()).unwrap()).unwrap();
        let v = detached(4, range).forward(&at, None, true).unwrap();
        let grads = v.sum_all().unwrap().backward().unwrap();
        assert_eq!(numbers(grads.get(&at).unwrap()), [0.0, 1.0, 1.0, 1.0, 1.0, 0.0], "{range:?}");
    }
    for bits in [1, 2, 4, 8] {
        for range in [Range::Printed, Range::Batch] {
            let x = numbers(&draw(&[30], 11));
            let step = numbers(&grid(range, &x, bits).step)[0];
            let inside = inside(range, &x, bits);
            for (i, gradient) in jacobian(detached(bits, range), &x).iter().enumerate() {
                for (j, g) in gradient.iter().enumerate() {
                    assert_eq!(*g, if i == j && inside[i] { 1.0 / step } else { 0.0 }, "{i}, {j}");
                }
            }
        }
    }
}

#[test]
fn numbers_beyond_a_kept_range_take_no_gradient() {
    let kept = [[-1.0], [2.0]].map(|end| Var::new(&end, device()).unwrap());
    let x = Var::new(&[[-5.0, -1.0, 0.3, 2.0, 7.0]], device()).unwrap();
    let v = detached(4, Range::Running).forward(&x, Some([&kept[0], &kept[1]]), false).unwrap();
    assert_eq!(numbers(&v), [0.0, 0.0, 7.0, 15.0, 15.0]);
    let grads = v.sum_all().unwrap().backward().unwrap();
    let g = numbers(grads.get(&x).unwrap());
    assert!((g[2] - 5.0).abs() < ROUNDING);
    assert_eq!([g[0], g[4]], [0.0; 2]);
}

/// A full gradient against central differences of the positions without rounding, with the mask of those with.
#[track_caller]
fn full_is_the_gradient_of_positions(range: Range, bits: u32, x: &[f64]) {
    let (top, inside) = (f64::from((1u32 << bits) - 1), inside(range, x, bits));
    assert!(inside.iter().any(|inside| *inside));
    let found = jacobian(full(bits, range), x);
    for j in 0..x.len() {
        let at = |h: f64| {
            let mut moved = x.to_vec();
            moved[j] += h;
            unrounded(range, &moved, top)
        };
        let (up, down) = (at(H), at(-H));
        for i in 0..x.len() {
            let expected = if inside[i] { (up[i] - down[i]) / (2.0 * H) } else { 0.0 };
            let error = (found[i][j] - expected).abs();
            let (scale, found) = (1.0 + expected.abs(), found[i][j]);
            assert!(error <= 10.0 * DIFFERENCES * scale, "{range:?}, {i}, {j}: {found} against {expected}");
        }
    }
}

#[test]
fn full_gradients_match_differences_of_the_unrounded_map() {
    let x = numbers(&draw(&[14], 12));
    let up: Vec<f64> = x.iter().map(|x| x.abs() + 0.1).collect();
    let down: Vec<f64> = up.iter().map(|x| -x).collect();
    for bits in [1, 2, 4, 8] {
        // Zero inside the range, its point not held.
        full_is_the_gradient_of_positions(Range::Printed, bits, &x);
        full_is_the_gradient_of_positions(Range::Batch, bits, &x);
        // Zero an end of the range and no number of the batch.
        full_is_the_gradient_of_positions(Range::Batch, bits, &up);
        full_is_the_gradient_of_positions(Range::Batch, bits, &down);
        // Zero outside the range, its point held, some numbers still inside the grid.
        full_is_the_gradient_of_positions(Range::Printed, bits, &up);
        full_is_the_gradient_of_positions(Range::Printed, bits, &down);
    }
}

/// The formula of a full gradient for the codes' gradient g.
fn formula(range: Range, bits: u32, x: &[f64], g: &[f64]) -> Vec<f64> {
    let ([low, high], inside) = (ends(range, x), inside(range, x, bits));
    let step = (high - low) / f64::from((1u32 << bits) - 1);
    let a: Vec<f64> = g.iter().zip(inside).map(|(g, inside)| if inside { *g } else { 0.0 }).collect();
    let mut result: Vec<f64> = a.iter().map(|a| a / step).collect();
    let sum = |f: &dyn Fn(f64) -> f64| a.iter().zip(x).map(|(a, x)| a * f(*x)).sum::<f64>() / step;
    let (w, u) = (|x: f64| x / (high - low), |x: f64| (x - low) / (high - low));
    let held = low >= 0.0 || high <= 0.0;
    if lowest(x) == low {
        result[first(x, low)] += if held { sum(&w) } else { -sum(&|x| 1.0 - u(x)) };
    }
    if highest(x) == high {
        result[first(x, high)] -= if held { sum(&w) } else { sum(&u) };
    }
    result
}

#[test]
fn full_gradients_are_their_formula_in_every_case() {
    let x = numbers(&draw(&[30], 13));
    let up: Vec<f64> = x.iter().map(|x| x.abs() + 0.1).collect();
    let down: Vec<f64> = up.iter().map(|x| -x).collect();
    let relu: Vec<f64> = x.iter().map(|x| x.max(0.0)).collect();
    assert!(relu.iter().filter(|x| **x == 0.0).count() > 5);
    let g = numbers(&draw(&[30], 14));
    for bits in [1, 2, 4, 8] {
        for range in [Range::Printed, Range::Batch] {
            for x in [&x, &up, &down, &relu] {
                let at = Var::from_tensor(&row(x)).unwrap();
                let v = full(bits, range).forward(&at, None, true).unwrap();
                let grads = (v * row(&g)).unwrap().sum_all().unwrap().backward().unwrap();
                close(grads.get(&at).unwrap(), &row(&formula(range, bits, x, &g)), ROUNDING);
            }
        }
    }
}

#[test]
fn at_a_lowest_number_of_zero_the_full_gradient_is_that_of_the_printed_range_from_above() {
    // One zero and a printed range: as it rises the zero point is held at 0 and the range shrinks.
    let x = [0.0, 0.4, 1.3, 2.2, 3.1];
    let found = jacobian(full(4, Range::Printed), &x);
    let mut moved = x;
    moved[0] += H;
    let (now, then) = (unrounded(Range::Printed, &x, 15.0), unrounded(Range::Printed, &moved, 15.0));
    for i in 1..4 {
        // A difference to one side errs by the curvature times the step.
        assert!((found[i][0] - (then[i] - now[i]) / H).abs() < 1e-4);
        assert!((found[i][0] - 15.0 * x[i] / 3.1f64.powi(2)).abs() < ROUNDING);
    }
}

#[test]
fn full_gradients_cannot_scale_the_batch_and_cannot_move_it_where_the_zero_point_is_free() {
    let x = numbers(&draw(&[20], 15));
    let up: Vec<f64> = x.iter().map(|x| x.abs() + 0.1).collect();
    let relu: Vec<f64> = x.iter().map(|x| x.max(0.0)).collect();
    let down: Vec<f64> = up.iter().map(|x| -x).collect();
    for bits in [1, 2, 4, 8] {
        for (range, x, free) in [
            (Range::Printed, &x, true),
            (Range::Batch, &x, true),
            (Range::Printed, &up, false),
            (Range::Batch, &up, false),
            (Range::Batch, &down, false),
            (Range::Printed, &relu, false),
            (Range::Batch, &relu, false),
        ] {
            let j = jacobian(full(bits, range), x);
            let size = |row: &[f64]| row.iter().map(|g| g.abs()).sum::<f64>() + 1.0;
            let mut moves = 0.0f64;
            for row in &j {
                let scaled: f64 = row.iter().zip(x).map(|(g, x)| g * x).sum();
                assert!(scaled.abs() < ROUNDING * size(row), "{range:?}: J x = {scaled}");
                moves = moves.max((row.iter().sum::<f64>() / size(row)).abs());
            }
            assert_eq!(moves < ROUNDING, free, "{range:?}, {bits} bits: row sums {moves}");
        }
    }
    // The rows of both ends vanish with a free zero point, whether they lie inside the grid or not.
    for seed in 0..10 {
        let x = numbers(&draw(&[20], 100 + seed));
        let j = jacobian(full(4, Range::Printed), &x);
        for end in [lowest(&x), highest(&x)] {
            assert!(j[first(&x, end)].iter().all(|g| g.abs() < ROUNDING * 100.0));
        }
    }
    // A detached gradient can do both.
    let row = &jacobian(detached(4, Range::Printed), &x)[3];
    assert!(row.iter().sum::<f64>() > 1.0 && row.iter().zip(&x).map(|(g, x)| g * x).sum::<f64>().abs() > 0.1);
}

#[test]
fn of_several_smallest_or_largest_numbers_one_is_the_end() {
    // ReLU zeros: step 1/3, inside are 1 and 2.5; w = 0.2 and 0.5, and (0.2 + 0.5)·3 = 2.1.
    let x = [0.0, 1.0, 0.0, 0.0, 2.5, 5.0, 0.0];
    let at = Var::from_tensor(&row(&x)).unwrap();
    for range in [Range::Printed, Range::Batch] {
        let v = full(4, range).forward(&at, None, true).unwrap();
        let grads = v.sum_all().unwrap().backward().unwrap();
        close(grads.get(&at).unwrap(), &row(&[2.1, 3.0, 0.0, 0.0, 3.0, -2.1, 0.0]), ROUNDING);
    }
    // Several of each, with a free zero point: step 1, u = 1/3 of the one number between.
    let x = [10.0, -5.0, 0.0, 10.0, -5.0, 10.0];
    let at = Var::from_tensor(&row(&x)).unwrap();
    let v = full(4, Range::Printed).forward(&at, None, true).unwrap();
    let grads = v.sum_all().unwrap().backward().unwrap();
    let (low, high) = (-2.0 / 3.0, -1.0 / 3.0);
    close(grads.get(&at).unwrap(), &row(&[high, low, 1.0, 0.0, 0.0, 0.0]), ROUNDING);
}

// --------------------------------------------------------------------------------------------------------------------
// Running ranges

fn kept(n: usize) -> [Var; 2] {
    [(); 2].map(|_| Var::zeros(n, DType::F64, device()).unwrap())
}

#[track_caller]
fn kept_is(kept: &[Var; 2], low: &[f64], high: &[f64]) {
    close(&kept[0], &Tensor::new(low, device()).unwrap(), ROUNDING);
    close(&kept[1], &Tensor::new(high, device()).unwrap(), ROUNDING);
}

#[test]
fn the_first_batch_sets_a_running_range_and_later_ones_move_it_by_a_tenth() {
    let (q, ends) = (detached(4, Range::Running), kept(1));
    let train = |x: &[f64], train| q.forward(&row(x), Some([&ends[0], &ends[1]]), train).unwrap();
    // Step 1.
    assert_eq!(numbers(&train(&[-4.0, 2.0, 11.0], true)), [0.0, 6.0, 15.0]);
    kept_is(&ends, &[-4.0], &[11.0]);
    train(&[-14.0, 1.0], true);
    kept_is(&ends, &[-0.9 * 4.0 - 0.1 * 14.0], &[0.9 * 11.0 + 0.1]);
    // The ends of a batch enclose zero.
    train(&[3.0, 5.0], true);
    kept_is(&ends, &[-0.9 * 5.0], &[0.9 * 10.0 + 0.1 * 5.0]);
    // Evaluation leaves it.
    let v = train(&[-1e3, 0.0, 1e3], false);
    kept_is(&ends, &[-4.5], &[9.5]);
    assert_eq!(numbers(&v), [0.0, 5.0, 15.0]);
}

#[test]
fn the_range_of_a_training_batch_is_the_one_after_it() {
    let (q, ends) = (detached(4, Range::Running), kept(1));
    let train = |x: &[f64]| numbers(&q.forward(&row(x), Some([&ends[0], &ends[1]]), true).unwrap());
    train(&[0.0, 10.0]);
    // Now 0 to 15: the code of a number is its rounding.
    assert_eq!(train(&[3.2, 60.0]), [3.0, 15.0]);
    kept_is(&ends, &[0.0], &[15.0]);
}

#[test]
fn evaluation_before_any_training_takes_the_range_of_its_batch() {
    for (range, n) in [(Range::Running, 1), (Range::RunningEach, 3)] {
        let (q, ends, x) = (detached(4, range), kept(n), draw(&[9, 3], 16));
        let v = q.forward(&x, Some([&ends[0], &ends[1]]), false).unwrap();
        assert_eq!(numbers(&v), numbers(&q.forward(&x, None, true).unwrap()));
        kept_is(&ends, &vec![0.0; n], &vec![0.0; n]);
    }
    let x = draw(&[9, 3], 16);
    let by = |range| numbers(&detached(4, range).forward(&x, None, true).unwrap());
    assert_eq!(by(Range::Running), by(Range::Batch));
}

#[test]
fn a_batch_of_zeros_is_no_first_batch() {
    let (q, ends) = (detached(4, Range::Running), kept(1));
    let train = |x: &[f64]| numbers(&q.forward(&row(x), Some([&ends[0], &ends[1]]), true).unwrap());
    assert_eq!(train(&[0.0, 0.0]), [0.0, 0.0]);
    assert_eq!(train(&[3.0, 15.0]), [3.0, 15.0]);
    kept_is(&ends, &[0.0], &[15.0]);
}

#[test]
fn every_feature_can_have_a_running_range_of_its_own() {
    let (q, ends) = (detached(4, Range::RunningEach), kept(3));
    let batch = |x: &[[f64; 3]]| Tensor::from_slice(&x.concat(), (x.len(), 3), device()).unwrap();
    let run = |x: &[[f64; 3]], train| q.forward(&batch(x), Some([&ends[0], &ends[1]]), train).unwrap();
    let v = run(&[[-4.0, 0.0, 0.0], [11.0, 150.0, 0.0]], true);
    assert_eq!(numbers(&v), [0.0, 0.0, 0.0, 15.0, 15.0, 0.0]);
    kept_is(&ends, &[-4.0, 0.0, 0.0], &[11.0, 150.0, 0.0]);
    run(&[[-4.0, 50.0, 0.0], [1.0, 50.0, -30.0]], true);
    // The third feature was silent, so this batch was its first.
    kept_is(&ends, &[-4.0, 0.0, -30.0], &[10.0, 140.0, 0.0]);
    // As three features by themselves.
    let x = draw(&[20, 3], 17);
    let v = q.forward(&x, Some([&ends[0], &ends[1]]), false).unwrap();
    for j in 0..3 {
        let own = [0, 1].map(|end| Var::new(&numbers(&ends[end])[j..=j], device()).unwrap());
        let column = x.narrow(1, j, 1).unwrap();
        let alone = detached(4, Range::Running).forward(&column, Some([&own[0], &own[1]]), false).unwrap();
        assert_eq!(numbers(&v.narrow(1, j, 1).unwrap()), numbers(&alone));
    }
}

#[test]
fn one_number_has_one_code_in_evaluation_only_with_a_running_range() {
    let (x, others) = (0.9, [[1.0, 0.2], [30.0, -4.0], [0.1, 0.3]]);
    let seen = kept(1);
    detached(4, Range::Running).forward(&row(&[-1.0, 2.0]), Some([&seen[0], &seen[1]]), true).unwrap();
    let code = |range, other: &[f64; 2]| {
        let kept = Some([&seen[0], &seen[1]]);
        numbers(&detached(4, range).forward(&row(&[x, other[0], other[1]]), kept, false).unwrap())[0]
    };
    let by = |range| others.iter().map(|other| code(range, other)).collect::<Vec<_>>();
    assert_eq!(by(Range::Running), [10.0; 3]);
    for range in [Range::Printed, Range::Batch] {
        let v = by(range);
        assert!(v[0] != v[1] && v[1] != v[2], "{range:?}: {v:?}");
    }
}

// --------------------------------------------------------------------------------------------------------------------
// As a layer

fn plan(input: &[usize], layers: &[(&str, Layer)]) -> Plan {
    let layers = layers.iter().map(|(name, layer)| (name.to_string(), layer.clone())).collect();
    Plan { input: input.to_vec(), layers, init: Init::Uniform }
}

#[test]
fn a_quantising_layer_has_no_parameters_and_names_its_statistics() {
    for (range, width) in
        [(Range::Printed, 0), (Range::Batch, 0), (Range::Running, 1), (Range::RunningEach, 3)]
    {
        let q = detached(4, range);
        let layers = [("codes", Layer::Quantise(q)), ("scale", Layer::Scale { by: 0.5 })];
        let net = Net::new(plan(&[3], &layers), Seed::new(1), DType::F64, device()).unwrap();
        assert_eq!((net.size(), net.parameters().len(), net.output()), (0, 0, &[3][..]));
        let found: Vec<(&str, &[usize])> =
            net.statistics().iter().map(|(name, var)| (name.as_str(), var.dims())).collect();
        let shape = &[width][..];
        match width {
            0 => assert_eq!(found, []),
            _ => assert_eq!(found, [("codes.running_high", shape), ("codes.running_low", shape)]),
        }
        // In training as the operation, and in evaluation with what training kept.
        let (x, ends) = (draw(&[7, 3], 18), kept(width.max(1)));
        let passes =
            [(Pass::Train(Seed::new(2)), true), (Pass::Train(Seed::new(3)), true), (Pass::Eval, false)];
        for (i, (pass, train)) in passes.into_iter().enumerate() {
            let x = (&x * (1.0 + i as f64)).unwrap();
            let expected = (q.forward(&x, Some([&ends[0], &ends[1]]), train).unwrap() * 0.5).unwrap();
            assert_eq!(numbers(&net.forward(&x, pass).unwrap()), numbers(&expected), "{range:?}");
        }
    }
}

#[test]
fn gradients_pass_through_a_quantising_layer_to_the_weights_below() {
    let layers = [
        ("linear", Layer::Linear { width: 4, bias: true }),
        ("relu", Layer::Relu),
        ("codes", Layer::Quantise(Quantiser::default())),
        ("scale", Layer::Scale { by: 1.0 / 15.0 }),
    ];
    let net = Net::new(plan(&[3], &layers), Seed::new(1), DType::F64, device()).unwrap();
    let v = net.forward(&draw(&[9, 3], 19), Pass::Train(Seed::new(2))).unwrap();
    let grads = v.sum_all().unwrap().backward().unwrap();
    for (name, var) in net.parameters() {
        let size: f64 = numbers(grads.get(var).unwrap()).iter().map(|g| g.abs()).sum();
        assert!(size > 0.1 && size.is_finite(), "{name}: {size}");
    }
}

#[test]
fn a_saved_network_keeps_its_running_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    for range in RANGES {
        let phi = [
            ("linear", Layer::Linear { width: 4, bias: true }),
            ("codes", Layer::Quantise(detached(2, range))),
        ];
        let head =
            [("scale", Layer::Scale { by: 1.0 / 3.0 }), ("scores", Layer::Linear { width: 2, bias: true })];
        let head = plan(&[], &head).layers;
        let net = SplitNet::with_head(plan(&[3], &phi), head, Seed::new(1), DType::F64, device()).unwrap();
        for seed in 0..3 {
            net.forward(&draw(&[9, 3], seed), Pass::Train(Seed::new(seed))).unwrap();
        }
        net.save(&path).unwrap();
        let back = SplitNet::load(&path, device()).unwrap();
        assert_eq!(back.phi.plan(), net.phi.plan());
        assert_eq!(back.head.plan(), net.head.plan());
        let kept = |net: &SplitNet| -> Vec<(String, Vec<f64>)> {
            net.phi.statistics().iter().map(|(name, var)| (name.clone(), numbers(var))).collect()
        };
        assert_eq!(kept(&net), kept(&back));
        assert_eq!(kept(&net).len(), if matches!(range, Range::Printed | Range::Batch) { 0 } else { 2 });
        assert!(kept(&net).iter().all(|(_, ends)| ends.iter().any(|end| *end != 0.0)));
        let x = draw(&[5, 3], 20);
        let scores = |net: &SplitNet| numbers(&net.forward(&x, Pass::Eval).unwrap());
        assert_eq!(scores(&net), scores(&back));
    }
}

// --------------------------------------------------------------------------------------------------------------------
// Hostile input

#[test]
fn numbers_that_are_not_finite_are_refused() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for range in RANGES {
            for dtype in [DType::F64, DType::F32] {
                let x = row(&[0.5, bad, 2.5]).to_dtype(dtype).unwrap();
                let (error, ends) = (detached(4, range).forward(&x, None, true), kept(1));
                let text = match error {
                    Err(error @ Error::Data { .. }) => error.to_string(),
                    other => panic!("{bad}: {other:?}"),
                };
                assert!(text.contains("features to quantise") && text.contains("not finite"), "{text}");
                // And nothing of it is kept.
                let q = detached(4, Range::Running);
                assert!(q.forward(&row(&[0.5, bad]), Some([&ends[0], &ends[1]]), true).is_err());
                kept_is(&ends, &[0.0], &[0.0]);
            }
        }
    }
}

#[test]
fn a_range_too_wide_for_its_type_gives_no_nan() {
    let x = Tensor::new(&[[-3e38f32, 0.0, 3e38]], device()).unwrap();
    for range in RANGES {
        let v = numbers(&detached(4, range).forward(&x, None, true).unwrap());
        assert!(v.iter().all(|v| (0.0..=15.0).contains(v)), "{range:?}: {v:?}");
    }
}

#[test]
fn a_quantiser_refuses_what_it_cannot_do() {
    let q = Quantiser::default();
    assert_eq!((q.bits, q.range, q.gradient), (4, Range::Running, RangeGradient::Detached));
    refused_shape(q.forward(&draw(&[6], 1), None, true), "[6]");
    refused_shape(q.forward(&draw(&[2, 3, 4], 1), None, true), "[2, 3, 4]");
    refused_shape(q.forward(&empty(&[0, 3]), None, true), "[0, 3]");
    refused_shape(q.forward(&empty(&[3, 0]), None, true), "[3, 0]");
    refused_setting(q.forward(&half(&[2, 2]), None, true), "type");
    refused_setting(q.forward(&Tensor::new(&[[1u32]], device()).unwrap(), None, true), "type");
    for bits in [0, 9, 32, 64, u32::MAX] {
        let q = Quantiser { bits, ..q };
        refused_setting(q.check(), "bits");
        refused_setting(q.forward(&draw(&[2, 2], 1), None, true), "bits");
    }
    for range in [Range::Running, Range::RunningEach] {
        refused_setting(full(4, range).check(), "range");
        refused_setting(full(4, range).forward(&draw(&[2, 2], 1), None, true), "range");
    }
    // A kept range of other features.
    let ends = kept(2);
    assert!(
        detached(4, Range::RunningEach).forward(&draw(&[5, 3], 1), Some([&ends[0], &ends[1]]), true).is_err()
    );
}

#[test]
fn a_network_refuses_a_quantiser_that_cannot_be() {
    let net = |input: &[usize], layer: Layer| {
        Net::new(plan(input, &[("codes", layer)]), Seed::new(1), DType::F64, device())
    };
    let q = Quantiser::default();
    refused_shape(net(&[2, 4, 4], Layer::Quantise(q)), "[2, 4, 4]");
    refused_setting(net(&[3], Layer::Quantise(Quantiser { bits: 0, ..q })), "bits");
    refused_setting(net(&[3], Layer::Quantise(Quantiser { bits: 9, ..q })), "bits");
    refused_setting(net(&[3], Layer::Quantise(full(4, Range::Running))), "range");
    for by in [f64::NAN, f64::INFINITY] {
        refused_setting(net(&[3], Layer::Scale { by }), "by of layer codes");
    }
    // Scaling takes any shape.
    let scale = net(&[2, 4, 4], Layer::Scale { by: -2.0 }).unwrap();
    let x = draw(&[3, 2, 4, 4], 1);
    assert_eq!(scale.output(), [2, 4, 4]);
    assert_eq!(numbers(&scale.forward(&x, Pass::Eval).unwrap()), numbers(&(&x * -2.0).unwrap()));
    check_gradients(&[var(&[2, 2, 4, 4], 4)], &|t| scale.forward(&t[0], Pass::Eval).unwrap());
}

#[test]
fn the_largest_number_of_a_batch_is_at_the_end_whatever_rounding_says() {
    for i in 0..500 {
        // The position of the largest number is a quotient that is often just below 15 in single precision.
        let top = 1.0 + 9.0 * Seed::new(3).uniform(i) as f32;
        let x = Var::new(&[[0.0, 0.5 * top, top]], device()).unwrap();
        let codes = detached(4, Range::Batch).forward(&x, None, true).unwrap();
        let slope = numbers(codes.sum_all().unwrap().backward().unwrap().get(&x).unwrap());
        assert_eq!((slope[0], slope[2]), (0.0, 0.0), "{top}");
        assert!(slope[1] > 0.0);
    }
}

#[test]
fn grids_and_ranges_that_cannot_be_are_told() {
    let (low, high) = (row(&[0.0]), row(&[1.0]));
    for bits in [0, 9, 40] {
        assert!(Grid::new(&low, &high, bits).unwrap_err().to_string().contains("1 to 8"));
    }
    let far = Tensor::new(&[[-3e38f32, 0.0, 3e38]], device()).unwrap();
    let error = full(4, Range::Batch).forward(&far, None, true).unwrap_err().to_string();
    assert!(error.contains("scale them down"), "{error}");
}
