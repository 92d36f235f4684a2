//! Newton on piecewise quadratics: what is local, what runs in circles, what converges.

use lastlayer::lp::{Fixed, PenaltyNewton, PenaltyState, Reach, Shift, Solver, StepRule, exact_line_search};

use super::definitions::{
    Program, along, dot, first, minus, norm, point, program, random, second, solve, times,
};
use super::{SEED, assert_close, states};

/// ε and δ of the public code.
const EPSILON: f64 = 1e-3;
const DELTA: f64 = 1e-4;

/// Rounding of a few products of numbers of size one to a hundred.
const ROUNDING: f64 = 1e-10;

/// Closed forms of a few operations on numbers of size one.
const CLOSED: f64 = 1e-12;

/// Newton stops at 1e-10 or 1e-11 of the cost, which moves a point by about this.
const STOPPED: f64 = 1e-9;

/// A change that is no rounding.
const VISIBLE: f64 = 1e-6;

/// −(H + δI)⁻¹∇g, from the definition.
fn direction(program: &Program, epsilon: f64, delta: f64, y: &[f64]) -> Vec<f64> {
    let slope = program.slope(epsilon, y);
    solve(&program.hessian(delta, y), &slope).unwrap().iter().map(|d| -d).collect()
}

/// The iteration with a constant step, by the library.
fn fixed(t: f64, delta: f64, max_steps: usize) -> PenaltyNewton {
    let (shift, rule) = (Shift::Always(delta), StepRule::Fixed(t));
    PenaltyNewton { epsilon: EPSILON, shift, rule, tolerance: 1e-10, max_steps }
}

/// The iteration with the exact search, by the library.
fn exact(max_steps: usize) -> PenaltyNewton {
    PenaltyNewton { epsilon: EPSILON, tolerance: 1e-10, max_steps, ..Default::default() }
}

/// All iterates from a starting point, the last one included.
fn run(newton: &PenaltyNewton, program: &Program, start: &[f64]) -> Vec<PenaltyState> {
    states(newton, newton.init_at(&program.lp(), start).unwrap())
}

/// The minimum of the penalty, to rounding.
fn minimum(program: &Program) -> Vec<f64> {
    let newton = PenaltyNewton { tolerance: 1e-11, ..exact(300) };
    let found = newton.solve(&program.lp()).unwrap();
    assert!(found.converged, "{found:?}");
    found.y
}

#[test]
fn the_shifted_direction_descends_and_the_printed_one_climbs() {
    for trial in 0..50 {
        let seed = SEED.named("direction").stream(trial);
        let (program, _) = random(3, 8, seed);
        let y = point(3, 2.0, seed.named("y"));
        let d = direction(&program, EPSILON, DELTA, &y);
        let gain = dot(&program.slope(EPSILON, &y), &d);
        let size = dot(&d, &times(&program.hessian(DELTA, &y), &d));
        assert_close(&[gain / size], &[-1.0], ROUNDING);
        let here = program.penalty(EPSILON, &y);
        let small = 1e-6 / (1.0 + norm(&d));
        assert!(program.penalty(EPSILON, &along(&y, small, &d)) < here, "trial {trial}");
        assert!(program.penalty(EPSILON, &along(&y, -small, &d)) > here, "trial {trial}");
        // The library steps the same way.
        let states = run(&fixed(0.5, DELTA, 1), &program, &y);
        assert_close(&states[1].y, &along(&y, 0.5, &d), ROUNDING);
    }
}

/// A random program, a minimum of its penalty, and one more row that passes through it exactly.
fn with_a_kink(trial: u64) -> (Program, Vec<f64>) {
    let seed = SEED.named("kink").stream(trial);
    let (mut program, _) = random(3, 8, seed);
    let y = minimum(&program);
    let row = point(3, 1.0, seed.named("row"));
    program.b.push(dot(&row, &y));
    program.a.push(row);
    (program, y)
}

/// Distance to the nearest row that is not met exactly.
fn radius(program: &Program, y: &[f64]) -> f64 {
    let r = program.residual(y);
    let rows = program.a.iter().zip(&r).filter(|(_, r)| r.abs() > 1e-12);
    rows.map(|(row, r)| r.abs() / norm(row)).fold(f64::INFINITY, f64::min)
}

#[test]
fn near_a_minimiser_the_gradient_is_linear_on_every_piece() {
    let (mut sides, mut beyond) = ([0, 0], 0);
    for trial in 0..20 {
        let (program, best) = with_a_kink(trial);
        let ball = radius(&program, &best);
        for c in 0..40 {
            let u = point(3, 1.0, SEED.named("way").stream(40 * trial + c));
            let model = |y: &[f64]| times(&program.hessian(0.0, y), &minus(y, &best));
            let y = along(&best, 0.999 * ball / norm(&u), &u);
            let slope = program.slope(EPSILON, &y);
            assert!(norm(&minus(&slope, &model(&y))) < CLOSED + ROUNDING * norm(&slope), "trial {trial}");
            sides[usize::from(program.residual(&y)[8] > 0.0)] += 1;
            // Outside the ball the formula is wrong somewhere.
            let y = along(&best, 1000.0 * ball / norm(&u), &u);
            let slope = program.slope(EPSILON, &y);
            beyond += usize::from(norm(&minus(&slope, &model(&y))) > VISIBLE);
        }
    }
    assert!(sides[0] > 100 && sides[1] > 100 && beyond > 100, "{sides:?} {beyond}");
}

#[test]
fn shifts_and_short_steps_make_newton_linear() {
    for trial in 0..20 {
        let (program, best) = with_a_kink(trial);
        let u = point(3, 1.0, SEED.named("rate").stream(trial));
        let y = along(&best, 0.5 * radius(&program, &best) / norm(&u), &u);
        let error = minus(&y, &best);
        for (t, delta) in [(1.0, 0.0), (0.5, 0.0), (0.1, 0.0), (1.0, 0.01), (0.3, 0.5)] {
            let found = minus(&along(&y, t, &direction(&program, EPSILON, delta, &y)), &best);
            let product = times(&program.hessian(0.0, &y), &error);
            let expected = along(&error, -t, &solve(&program.hessian(delta, &y), &product).unwrap());
            assert!(norm(&minus(&found, &expected)) < VISIBLE * norm(&error), "trial {trial}");
            if delta == 0.0 {
                assert!((norm(&found) / norm(&error) - (1.0 - t)).abs() < VISIBLE, "trial {trial}, t {t}");
            }
        }
    }
    // One row of length one, σ = 1: the factors of the text.
    let one = program(&[[1.0]], &[0.0], &[-1.0]);
    let factor = |t: f64, delta: f64| {
        let y = [0.3];
        (along(&y, t, &direction(&one, EPSILON, delta, &y))[0] - EPSILON) / (0.3 - EPSILON)
    };
    assert_close(&[factor(1.0, 0.01), factor(1.0, 0.5)], &[0.01 / 1.01, 1.0 / 3.0], CLOSED);
    assert_close(&[factor(0.5, 0.0), factor(0.1, 0.0)], &[0.5, 0.9], CLOSED);
}

#[test]
fn full_shifted_steps_run_in_a_circle_of_three() {
    let program = first();
    // What the theorem assumes: one solution, with bounded level sets, since no direction keeps rows and cost from rising.
    let vertex = program.vertex();
    assert_close(&vertex.z, &[1.0, 2.0 / 3.0], CLOSED);
    assert_close(&vertex.v, &[0.5, 5.0 / 6.0, 0.0], CLOSED);
    let rises = |angle: f64| {
        let d = [angle.cos(), angle.sin()];
        times(&program.a, &d).into_iter().chain([dot(&program.c, &d)]).fold(f64::MIN, f64::max)
    };
    assert!((0..3600).all(|k| rises(f64::from(k) * 1e-1f64.to_radians()) > 0.01));
    let (w, end) = program.path(&vertex);
    assert_close(&[w[0], w[1], end], &[2.0 / 3.0, 7.0 / 18.0, 6.0], CLOSED);
    // After three steps it is near the circle, after three hundred it goes through the same three points.
    let states = run(&fixed(1.0, DELTA, 3000), &program, &[0.0; 2]);
    assert_eq!(states.len(), 3001);
    let circle = [[1.0888, 0.7838], [16.1151, 5.7049], [16.0768, 15.7432]];
    let sizes = [0.832, 128.26, 127.33];
    assert!(norm(&minus(&states[3].y, &circle[0])) < 1e-3);
    for k in 300..3000 {
        assert!(norm(&minus(&states[k].y, &circle[k % 3])) < 1e-4, "step {k}: {:?}", states[k].y);
        assert!((states[k].gradient - sizes[k % 3]).abs() < 0.01, "step {k}: {}", states[k].gradient);
        assert_close(&states[k].y, &states[k - 3].y, STOPPED);
    }
    let violated: Vec<Vec<bool>> =
        circle.iter().map(|y| program.residual(y).iter().map(|r| *r > 0.0).collect()).collect();
    assert_eq!(violated, [[true, false, false], [false, true, false], [true, true, true]]);
}

#[test]
fn short_steps_end_in_limit_cycles() {
    let program = second();
    let vertex = program.vertex();
    assert_close(&vertex.z, &[0.4, 1.0 / 3.0], CLOSED);
    assert_close(&vertex.v, &[43.0 / 15.0, 0.0, 0.0, 2.2], CLOSED);
    for (t, period) in [(1.0, 4), (0.5, 33), (0.2, 88), (0.1, 165), (0.05, 295), (0.02, 636)] {
        let newton = fixed(t, DELTA, 20_000 + 2 * period);
        let mut state = newton.init(&program.lp()).unwrap();
        let mut late = Vec::new();
        while !newton.done(&state) {
            newton.step(&mut state).unwrap();
            if state.steps > 20_000 {
                late.push((state.y.clone(), state.gradient));
            }
        }
        assert_eq!(late.len(), 2 * period, "t {t}");
        let back = (1..=period).find(|p| norm(&minus(&late[0].0, &late[*p].0)) < VISIBLE);
        assert_eq!(back, Some(period).filter(|p| *p < late.len()), "t {t}");
        let least = late.iter().map(|(_, gradient)| *gradient).fold(f64::INFINITY, f64::min);
        assert!(least > 0.02, "t {t}: {least}");
    }
    assert!((EPSILON * norm(&program.c) - 0.0112).abs() < 1e-4);
}

#[test]
fn steps_below_twice_the_shift_over_l_descend() {
    let program = second();
    let bound = program.lipschitz();
    assert!((bound - 118.6).abs() < 0.05 && (2.0 * DELTA / bound - 1.69e-6).abs() < 1e-8, "{bound}");
    for trial in 0..200 {
        let y = point(2, 2.0, SEED.named("short").stream(trial));
        let d = direction(&program, EPSILON, DELTA, &y);
        let slope = program.slope(EPSILON, &y);
        let n = -dot(&slope, &d);
        assert!(n >= dot(&slope, &slope) / (bound + DELTA) * (1.0 - ROUNDING), "trial {trial}");
        for share in [0.1, 0.5, 0.99, 1.5] {
            let t = share * 2.0 * DELTA / bound;
            let (here, there) = (program.penalty(EPSILON, &y), program.penalty(EPSILON, &along(&y, t, &d)));
            let limit = here - t * (1.0 - t * bound / (2.0 * DELTA)) * n;
            assert!(there <= limit + 1e-14 * (1.0 + here.abs()), "trial {trial}: {there} {limit}");
        }
    }
    // With another shift the bound is no longer tiny, and the whole run descends to the minimum.
    let shift = 30.0;
    let states = run(&fixed(0.99 * 2.0 * shift / bound, shift, 100_000), &program, &[0.0; 2]);
    assert!(states[states.len() - 1].converged);
    assert!(states.windows(2).all(|pair| pair[1].penalty <= pair[0].penalty + 1e-17));
}

#[test]
fn the_majorant_descends_with_full_steps() {
    for (program, expected) in [(first(), 2349), (second(), 768)] {
        let whole = program.normal(&vec![1.0; program.m()], 0.0);
        let (mut y, mut steps) = (vec![0.0; 2], 0);
        loop {
            let slope = program.slope(EPSILON, &y);
            if norm(&slope) <= 1e-10 * EPSILON * norm(&program.c) {
                break;
            }
            let d: Vec<f64> = solve(&whole, &slope).unwrap().iter().map(|d| -d).collect();
            let limit = program.penalty(EPSILON, &y) - 0.5 * dot(&d, &times(&whole, &d));
            y = along(&y, 1.0, &d);
            assert!(program.penalty(EPSILON, &y) <= limit + 1e-17, "step {steps}");
            steps += 1;
        }
        assert_close(&y, &minimum(&program), STOPPED);
        // The last digits of the stopping test are rounding.
        assert!((steps as i64 - expected).abs() <= 2, "{steps}");
    }
}

#[test]
fn the_line_search_finds_the_zero_of_the_broken_line() {
    let mut forever = 0;
    for trial in 0..300 {
        let seed = SEED.named("line").stream(trial);
        let (mut program, _) = random(3, 6, seed);
        if trial % 3 == 0 {
            // With three rows and any cost, half of the programs or more are unbounded.
            program.a.truncate(3);
            program.b.truncate(3);
            program.c = point(3, 1.0, seed.named("c"));
        }
        let y = point(3, 1.0, seed.named("y"));
        if trial % 2 == 0 {
            program.b[0] = dot(&program.a[0], &y);
        }
        let d = direction(&program, EPSILON, DELTA, &y);
        let (r, q) = (program.residual(&y), times(&program.a, &d));
        let broken = |t: f64| {
            let rows: f64 = r.iter().zip(&q).map(|(r, q)| q * (r + t * q).max(0.0)).sum();
            rows + EPSILON * dot(&program.c, &d)
        };
        // It is the derivative along the line.
        let t = 0.37;
        let step = 1e-6;
        let numeric = program.penalty(EPSILON, &along(&y, t + step, &d))
            - program.penalty(EPSILON, &along(&y, t - step, &d));
        let size = 1.0 + dot(&q, &q) + dot(&r, &r);
        assert!((broken(t) - numeric / (2.0 * step)).abs() < 1e-5 * size, "trial {trial}");
        let fixed = Fixed { curvature: 0.0, slope: EPSILON * dot(&program.c, &d) };
        match exact_line_search(&r, &q, fixed, dot(&d, &d)) {
            Reach::Forever => {
                forever += 1;
                assert!(
                    q.iter().all(|q| *q <= 1e-9 * norm(&d)) && dot(&program.c, &d) < 0.0,
                    "trial {trial}"
                );
                assert!(broken(1e9) < 0.0, "trial {trial}");
            }
            Reach::At(found) => {
                let (mut low, mut high) = (0.0, 1.0);
                while broken(high) < 0.0 {
                    high *= 2.0;
                }
                for _ in 0..200 {
                    let middle = 0.5 * (low + high);
                    if broken(middle) < 0.0 { low = middle } else { high = middle }
                }
                assert!((found - low).abs() < STOPPED * (1.0 + low), "trial {trial}: {found} {low}");
            }
        }
    }
    assert!(forever > 10, "{forever}");
}

#[test]
fn an_exact_step_takes_at_least_the_guaranteed_decrease() {
    for trial in 0..100 {
        let seed = SEED.named("decrease").stream(trial);
        let (program, _) = random(3, 8, seed);
        let (bound, y) = (program.lipschitz(), point(3, 2.0, seed.named("y")));
        for delta in [1e-4, 1e-2, 1.0] {
            let newton = PenaltyNewton { shift: Shift::Always(delta), ..exact(1) };
            let states = run(&newton, &program, &y);
            let gained = states[0].penalty - states[1].penalty;
            let slope = program.slope(EPSILON, &y);
            let n = -dot(&slope, &direction(&program, EPSILON, delta, &y));
            let rounding = 1e-14 * (1.0 + states[0].penalty.abs());
            assert!(gained >= delta / (2.0 * bound) * n - rounding, "trial {trial}: {gained} {n}");
            let weaker = delta / (2.0 * bound * (bound + delta)) * dot(&slope, &slope);
            assert!(gained >= weaker - rounding, "trial {trial}: {gained} {weaker}");
        }
    }
}

#[test]
fn exact_steps_end_after_finitely_many() {
    for (program, ways) in [
        (first(), [[0.222_345_68, -0.111_172_84], [1.000_527, 0.667_009]]),
        (second(), [[0.225_062, 0.040_920], [0.401_083, 0.334_289]]),
    ] {
        let states = run(&exact(300), &program, &[0.0; 2]);
        assert_eq!(states.len(), 4);
        assert!(states[3].converged);
        assert!(norm(&minus(&states[1].y, &ways[0])) < 2e-6 && norm(&minus(&states[2].y, &ways[1])) < 2e-6);
        let vertex = program.vertex();
        let end = along(&vertex.z, EPSILON, &program.path(&vertex).0);
        assert_close(&states[3].y, &end, CLOSED);
        assert!((states[3].t - 1.0).abs() < STOPPED);
    }
    // The first step of the first program by hand, and with the published shift.
    let s = (1.0 + 5.0 * EPSILON / 9.0) / 9.0;
    let states = run(&exact(1), &first(), &[0.0; 2]);
    assert_close(&states[1].y, &[2.0 * s, -s], CLOSED);
    let shifted = run(&PenaltyNewton { shift: Shift::Always(DELTA), ..exact(1) }, &first(), &[0.0; 2]);
    assert!((shifted[1].t - 0.0111).abs() < 1e-4, "{}", shifted[1].t);
    // In general the last step goes from a visible error to none.
    let mut jumps = 0;
    for trial in 0..50 {
        let (program, _) = random(4, 10, SEED.named("finite").stream(trial));
        let states = run(&exact(300), &program, &[0.0; 4]);
        let last = &states[states.len() - 1];
        assert!(last.converged, "trial {trial}");
        assert!(states.windows(2).all(|pair| pair[1].penalty <= pair[0].penalty + 1e-15), "trial {trial}");
        let vertex = program.vertex();
        let end = along(&vertex.z, EPSILON, &program.path(&vertex).0);
        if program.path(&vertex).1 > EPSILON {
            assert!(norm(&minus(&last.y, &end)) < STOPPED, "trial {trial}");
            jumps += usize::from(norm(&minus(&states[states.len() - 2].y, &end)) > 1e-5);
        }
    }
    assert!(jumps > 40, "{jumps}");
}

#[test]
fn random_programs_fail_without_a_search_and_not_with_it() {
    let (mut failed, mut steps) = (0, Vec::new());
    for trial in 0..100 {
        let (program, _) = random(3, 8, SEED.named("fail").stream(trial));
        let full = run(&fixed(1.0, DELTA, 300), &program, &[0.0; 3]);
        // Not a matter of the last digits: the gradient is of the size of the cost.
        let size = full[full.len() - 1].gradient / (EPSILON * norm(&program.c));
        assert!(full[full.len() - 1].converged || size > 1e-2, "trial {trial}: {size}");
        failed += usize::from(size > 1e-2);
        let searched = run(&exact(300), &program, &[0.0; 3]);
        assert!(searched[searched.len() - 1].converged, "trial {trial}");
        steps.push(searched.len() - 1);
    }
    steps.sort_unstable();
    assert_eq!((failed, steps[50], steps[99]), (55, 5, 9));
}

#[test]
fn on_ranking_pairs_the_published_iteration_gains_four_digits_a_step() {
    let a = [0.5, -0.2, 0.08, -0.9, 1.3];
    let row = |i: usize| (0..5).map(|j| if i % 5 == j { -1.0 } else { 0.0 }).collect();
    let b = a.iter().map(|a| -a).chain([0.0; 5]).collect();
    let pairs = Program { a: (0..10).map(row).collect(), b, c: vec![1.0; 5] };
    let end: Vec<f64> = a.iter().map(|a| f64::max(*a, 0.0) - EPSILON).collect();
    let start: Vec<f64> = a.iter().map(|a| f64::max(*a, 0.0) - 0.05).collect();
    let states = run(&fixed(1.0, DELTA, 20), &pairs, &start);
    assert!(states[states.len() - 1].converged && states.len() <= 5, "{}", states.len());
    for pair in states.windows(2).take(2) {
        let ratio = norm(&minus(&pair[1].y, &end)) / norm(&minus(&pair[0].y, &end));
        assert!((ratio / (DELTA / (1.0 + DELTA)) - 1.0).abs() < 1e-3, "{ratio}");
    }
}
