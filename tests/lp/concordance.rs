//! Self-concordance: what the penalty lacks, what its smoothing has, and the steps, bounds and rates that follow.

use std::f64::consts::{E, LN_2, PI};

use lastlayer::lp::{PenaltyState, SmoothNewton, Solver, softened, softened_slope, softened_value};

use super::definitions::{
    Program, along, dot, first, largest, minus, norm, point, random, second, solve, times,
};
use super::{SEED, assert_close, states};

/// Penalty parameter of all runs.
const EPSILON: f64 = 1e-3;

/// Ridge of the runs in the chapter.
const DELTA: f64 = 1e-6;

/// G is known to this: values near one, and a dilogarithm good to the last digits.
const ROUNDING: f64 = 1e-15;

/// Closed forms, and inequalities that are equalities somewhere, to the rounding of a few operations.
const CLOSED: f64 = 1e-12;

/// What elimination leaves of a solution where the ridge is small.
const SOLVED: f64 = 1e-9;

/// The smoothed penalty of a program.
#[derive(Clone)]
struct Smooth {
    program: Program,
    epsilon: f64,
    tau: f64,
    delta: f64,
}

/// What Newton's method knows at a point.
struct Newton {
    d: Vec<f64>,
    /// The decrement ν.
    nu: f64,
    /// τ max_j |a_j'd|.
    x: f64,
    /// τν max_j (a_j'H⁻¹a_j)^½.
    omega: f64,
}

fn smooth(program: Program, tau: f64, delta: f64) -> Smooth {
    Smooth { program, epsilon: EPSILON, tau, delta }
}

/// ln(1 + x)/x.
fn step(x: f64) -> f64 {
    if x < 1e-6 { 1.0 - 0.5 * x } else { x.ln_1p() / x }
}

/// ((1 + x) ln(1 + x) − x)/x².
fn gain(x: f64) -> f64 {
    if x < 1e-4 { 0.5 - x / 6.0 + x * x / 12.0 } else { ((1.0 + x) * x.ln_1p() - x) / (x * x) }
}

impl Smooth {
    fn value(&self, y: &[f64]) -> f64 {
        let soft: f64 = self.program.residual(y).iter().map(|r| softened_value(*r, self.tau)).sum();
        soft + self.epsilon * dot(&self.program.c, y) + 0.5 * self.delta * dot(y, y)
    }

    /// ln(1 + e^{τr})/τ for each row.
    fn forces(&self, y: &[f64]) -> Vec<f64> {
        let soft = |r: &f64| r.max(0.0) + (-(self.tau * r).abs()).exp().ln_1p() / self.tau;
        self.program.residual(y).iter().map(soft).collect()
    }

    fn slope(&self, y: &[f64]) -> Vec<f64> {
        let rows = along(&self.program.pull(&self.forces(y)), self.epsilon, &self.program.c);
        along(&rows, self.delta, y)
    }

    fn hessian(&self, y: &[f64]) -> Vec<Vec<f64>> {
        let weights: Vec<f64> =
            self.program.residual(y).iter().map(|r| 1.0 / (1.0 + (-self.tau * r).exp())).collect();
        self.program.normal(&weights, self.delta)
    }

    fn newton(&self, y: &[f64]) -> Newton {
        let (slope, h) = (self.slope(y), self.hessian(y));
        let d: Vec<f64> = solve(&h, &slope).unwrap().iter().map(|d| -d).collect();
        let nu = (-dot(&slope, &d)).max(0.0).sqrt();
        let x = self.tau * largest(&times(&self.program.a, &d));
        let sizes = self.program.a.iter().map(|row| dot(row, &solve(&h, row).unwrap()).sqrt());
        let omega = self.tau * nu * sizes.fold(0.0, f64::max);
        Newton { d, nu, x, omega }
    }

    /// τR/√δ.
    fn kappa(&self) -> f64 {
        let longest = self.program.a.iter().map(|row| norm(row)).fold(0.0, f64::max);
        self.tau * longest / self.delta.sqrt()
    }

    /// All iterates until |∇G| ≤ 1e-10 ε|c| or the cap, for a rule that gives the step length.
    fn run(&self, start: &[f64], cap: usize, rule: impl Fn(&Newton) -> f64) -> Vec<Vec<f64>> {
        let mut path = vec![start.to_vec()];
        for _ in 0..cap {
            let y = &path[path.len() - 1];
            if norm(&self.slope(y)) <= 1e-10 * self.epsilon * norm(&self.program.c) {
                break;
            }
            let here = self.newton(y);
            let next = along(y, rule(&here), &here.d);
            path.push(next);
        }
        path
    }

    fn descent(&self, start: &[f64]) -> Vec<Vec<f64>> {
        self.run(start, 10_000, |here| step(here.x))
    }

    /// The same iteration, by the library.
    fn library(&self) -> Vec<PenaltyState> {
        let (epsilon, sharpness, delta) = (self.epsilon, self.tau, self.delta);
        let newton = SmoothNewton { epsilon, sharpness, delta, tolerance: 1e-10, max_steps: 10_000 };
        let states = states(&newton, newton.init(&self.program.lp()).unwrap());
        assert!(states[states.len() - 1].converged);
        states
    }

    /// The number of steps that the chapter allows before ν ≤ 1/(2κ), for a gap at the start.
    fn bound(&self, gap: f64) -> f64 {
        let q = self.kappa() * gap.sqrt();
        let k = (2f64.sqrt() * q).max(1.0);
        (8.0 / 3.0 * q * (E * k).sqrt() + 2.0 * E / 3.0 * k * (28.0 * q * q / 3.0).ln().max(0.0)).ceil()
    }

    /// The largest τ‖A(y − y*)‖ over all y of the plane with G(y) ≤ level, or 1: by rays from y*.
    fn farthest(&self, end: &[f64], level: f64) -> f64 {
        let reach = |angle: f64| {
            let ray = [angle.cos(), angle.sin()];
            let inside = |t: f64| self.value(&along(end, t, &ray)) <= level;
            let (mut low, mut high) = (0.0, 1e-3);
            while inside(high) {
                (low, high) = (high, 2.0 * high);
            }
            for _ in 0..40 {
                let middle = 0.5 * (low + high);
                (low, high) = if inside(middle) { (middle, high) } else { (low, middle) };
            }
            low * self.tau * norm(&times(&self.program.a, &ray))
        };
        let (mut best, mut wide) = (0.0, PI);
        for _ in 0..3 {
            let around = best;
            for k in -300..=300 {
                let angle = around + wide * f64::from(k) / 300.0;
                if reach(angle) > reach(best) {
                    best = angle;
                }
            }
            wide /= 100.0;
        }
        reach(best).max(1.0)
    }
}

/// The two programs of the chapter and some random ones.
fn some(tau: f64, delta: f64) -> Vec<Smooth> {
    let more = (0..6).map(|trial| random(3, 8, SEED.named("smooth").stream(trial)).0);
    [first(), second()].into_iter().chain(more).map(|program| smooth(program, tau, delta)).collect()
}

#[test]
fn curvature_of_a_self_concordant_function_is_bounded_both_ways() {
    // −ln u has M = 2, and one of the two bounds is attained on each side.
    for u in [0.1f64, 1.0, 7.0] {
        for t in [-0.09, -0.01, 0.05, 3.0] {
            let curvature = 1.0 / (u + t).powi(2);
            let attained = (u + t).powi(-2);
            let (low, high) = ((u + f64::abs(t)).powi(-2), (u - f64::abs(t)).powi(-2));
            assert!(
                low <= curvature * (1.0 + CLOSED) && (u <= f64::abs(t) || curvature <= high * (1.0 + CLOSED))
            );
            assert_close(&[attained], &[if t > 0.0 { low } else { high }], CLOSED);
        }
    }
    // One rounded row with a shift, with its own constant.
    let (tau, delta) = (10.0, 1e-2);
    let curvature = |t: f64| softened(t, tau) + delta;
    let constant = 2.0 * tau / (3.0 * (3.0f64 * delta).sqrt());
    for from in -40..40 {
        for to in -40..40 {
            let (from, to) = (0.025 * f64::from(from), 0.025 * f64::from(to));
            let (root, way) = (curvature(from).powf(-0.5), 0.5 * constant * (to - from).abs());
            assert!(curvature(to) >= (root + way).powi(-2) * (1.0 - CLOSED), "{from} {to}");
            assert!(root <= way || curvature(to) <= (root - way).powi(-2) * (1.0 + CLOSED), "{from} {to}");
        }
    }
}

#[test]
fn the_textbook_step_gains_what_it_promises() {
    for problem in some(10.0, 1e-3) {
        let constant = problem.kappa();
        let path =
            problem.run(&vec![0.0; problem.program.n()], 500, |here| 1.0 / (1.0 + 0.5 * constant * here.nu));
        assert!(path.len() > 5);
        for pair in path.windows(2) {
            let a = 0.5 * constant * problem.newton(&pair[0]).nu;
            let promised = 4.0 / (constant * constant) * (a - a.ln_1p());
            let gained = problem.value(&pair[0]) - problem.value(&pair[1]);
            assert!(gained >= promised - ROUNDING, "{gained} {promised}");
        }
    }
}

#[test]
fn the_penalty_would_need_an_infinite_constant() {
    let row = super::definitions::program(&[[1.0]], &[0.0], &[0.0]);
    let delta = 1e-4;
    let mut before = 0.0;
    for s in [1.0, 0.1, 0.01, 1e-3, 1e-4] {
        // Curvature from differences of the gradient, on either side of the corner.
        let curvature = |t: f64| {
            let h = 1e-3 * s;
            (row.slope(1.0, &[t + h])[0] - row.slope(1.0, &[t - h])[0]) / (2.0 * h) + delta
        };
        let needed = (curvature(-s).powf(-0.5) - curvature(s).powf(-0.5)) / s;
        let formula = (delta.powf(-0.5) - (1.0 + delta).powf(-0.5)) / s;
        assert_close(&[needed], &[formula], SOLVED);
        assert!((formula * s - 99.0).abs() < 1e-3 && needed > 9.0 * before, "{needed}");
        before = needed;
    }
}

#[test]
fn rounding_the_corner_makes_the_constant_grow_like_the_sharpness() {
    let delta = 1e-4;
    for (tau, expected) in [(1.0, 38.482), (10.0, 384.82), (100.0, 3848.2), (1000.0, 38482.0)] {
        // Over r from far below to far above the corner; third derivatives by differences of the library's second.
        let ratio = |r: f64| {
            let h = 1e-5 / tau;
            let third = (softened(r + h, tau) - softened(r - h, tau)) / (2.0 * h);
            third / (softened(r, tau) + delta).powf(1.5)
        };
        let most = (-40_000..40_000).map(|k| ratio(f64::from(k) * 5e-4 / tau)).fold(0.0, f64::max);
        assert!((most / expected - 1.0).abs() < 1e-4, "{tau}: {most}");
        assert!(most <= 2.0 * tau / (3.0 * (3.0 * delta).sqrt()));
    }
}

#[test]
fn the_rounded_hinge_stays_within_its_bounds() {
    for tau in [0.5, 1.0, 10.0, 1000.0] {
        let (mut last, most) = (0.0, PI * PI / (6.0 * tau * tau));
        for k in -500..500 {
            let u = 0.02 * f64::from(k) / tau;
            let above = softened_value(u, tau) - 0.5 * u.max(0.0).powi(2);
            let slope = softened_slope(u, tau) - u.max(0.0);
            assert!((last - CLOSED * most..=most * (1.0 + CLOSED)).contains(&above), "{tau} {u}: {above}");
            assert!((0.0..=LN_2 / tau * (1.0 + CLOSED)).contains(&slope), "{tau} {u}: {slope}");
            last = above;
        }
        // Both bounds are reached: far out, and at the corner.
        assert!((last / most - 1.0).abs() < 1e-3, "{last} {most}");
        assert_close(&[softened_slope(0.0, tau), softened_value(0.0, tau)], &[LN_2 / tau, 0.5 * most], 1e-14);
    }
}

#[test]
fn the_rounded_hinge_has_these_derivatives() {
    for tau in [1.0, 30.0] {
        for k in -60..60 {
            let (u, h) = (0.1 * f64::from(k) / tau, 1e-4 / tau);
            let slope = (softened_value(u + h, tau) - softened_value(u - h, tau)) / (2.0 * h);
            assert!((slope - (tau * u).exp().ln_1p() / tau).abs() < 1e-7 / tau, "{tau} {u}");
            let second = (softened_slope(u + h, tau) - softened_slope(u - h, tau)) / (2.0 * h);
            assert!((second - 1.0 / (1.0 + (-tau * u).exp())).abs() < 1e-7, "{tau} {u}");
        }
    }
    // −Li₂(−w) = Σ (−1)^{k+1} w^k / k², at w = ½ and, by its inversion, at w = 2.
    let series = |w: f64| (1..60).map(|k| -(-w).powi(k) / f64::from(k * k)).sum::<f64>();
    let (half, two) = (softened_value(0.5f64.ln(), 1.0), softened_value(LN_2, 1.0));
    assert_close(&[half, two], &[series(0.5), PI * PI / 6.0 + 0.5 * LN_2 * LN_2 - series(0.5)], 1e-14);
}

#[test]
fn hessians_compare_within_a_factor_of_the_moved_rows() {
    let mut tight: f64 = 0.0;
    for (c, problem) in (0u64..).zip(some(10.0, 1e-3)) {
        let n = problem.program.n();
        for trial in 0..200 {
            let seed = SEED.named("compare").stream(1000 * c + trial);
            let (y, u) = (point(n, 1.0, seed.named("y")), point(n, 0.1, seed.named("u")));
            let s = problem.tau * largest(&times(&problem.program.a, &u));
            let (here, there) = (problem.hessian(&y), problem.hessian(&along(&y, 1.0, &u)));
            let h = point(n, 1.0, seed.named("h"));
            let ratio = dot(&h, &times(&there, &h)) / dot(&h, &times(&here, &h));
            assert!((-s..=s).contains(&ratio.ln()), "{ratio} {s}");
            tight = tight.max(ratio.ln().abs() / s);
        }
    }
    assert!(tight > 0.8, "{tight}");
    for tau in [1.0, 50.0] {
        for k in -100..100 {
            let (r, h) = (0.1 * f64::from(k) / tau, 1e-5 / tau);
            let third = (softened(r + h, tau) - softened(r - h, tau)) / (2.0 * h);
            assert!(third.abs() <= tau * softened(r, tau) * (1.0 + 1e-6), "{tau} {r}");
        }
    }
}

#[test]
fn every_smooth_step_gains_what_it_promises() {
    let mut steps = 0;
    for (tau, delta) in [(10.0, 1e-4), (100.0, 1e-6), (1000.0, 1e-4)] {
        for problem in some(tau, delta) {
            for pair in problem.library().windows(2) {
                let here = problem.newton(&pair[0].y);
                let promised = here.nu * here.nu * gain(here.x);
                let gained = problem.value(&pair[0].y) - problem.value(&pair[1].y);
                let size = ROUNDING * (1.0 + pair[0].penalty.abs() + dot(&pair[0].y, &pair[0].y));
                assert!(gained >= promised - size, "{gained} {promised}");
                assert_close(&[pair[1].t, pair[1].promised], &[step(here.x), promised], 1e-6);
                // It never passes the minimum on its line.
                let after = dot(&problem.slope(&pair[1].y), &here.d);
                assert!(after <= SOLVED * here.nu * here.nu + 1e-16, "{after}");
                steps += 1;
            }
        }
    }
    assert!(steps > 500, "{steps}");
}

#[test]
fn the_gain_has_a_simple_lower_bound() {
    for k in -80..80 {
        let x = 10f64.powf(0.1 * f64::from(k));
        assert!(gain(x) >= 1.0 / (2.0 + 2.0 * x / 3.0) * (1.0 - SOLVED), "{x}");
    }
    // To second order they agree: both are ½ − x/6 near zero.
    let x = 1e-3;
    assert!((gain(x) - 1.0 / (2.0 + 2.0 * x / 3.0)).abs() < x * x);
}

#[test]
fn the_example_in_one_variable_has_these_iterates() {
    let program = super::definitions::program(&[[1.0]], &[0.0], &[-1.0]);
    let problem = Smooth { program, epsilon: LN_2, tau: 1.0, delta: 0.0 };
    let path = problem.descent(&[-3f64.ln()]);
    let expected = [-1.0986, -0.1347, -4.07e-3, -4.12e-6, -4.24e-12];
    for (y, expected) in path.iter().zip(expected) {
        assert!((y[0] / expected - 1.0).abs() < 3e-3, "{path:?}");
    }
    let here = problem.newton(&path[0]);
    let d = 4.0 * 1.5f64.ln();
    assert_close(&[here.d[0], here.x, step(here.x)], &[d, d, 0.5943], 1e-4);
    assert!((path[0][0] + d - 0.523).abs() < 1e-3);
    let gained = problem.value(&path[0]) - problem.value(&path[1]);
    assert_close(&[here.nu * here.nu * gain(here.x), gained], &[0.2263, 0.2436], 5e-5);
}

#[test]
fn the_decrement_bounds_the_gap() {
    let mut checked = 0;
    for (tau, delta) in [(1.0, 1e-2), (10.0, 1e-4), (100.0, 1e-4)] {
        for problem in some(tau, delta) {
            let path = problem.descent(&vec![0.0; problem.program.n()]);
            let end = path[path.len() - 1].clone();
            let best = problem.value(&end);
            let away = (0..20).map(|c| point(end.len(), 3.0, SEED.named("gap").stream(c)));
            for y in path.into_iter().chain(away) {
                let gap = problem.value(&y) - best;
                let k = (tau * largest(&times(&problem.program.a, &minus(&y, &end)))).max(1.0);
                let nu = problem.newton(&y).nu;
                assert!(nu * nu >= 4.0 / E * gap / k - 10.0 * ROUNDING, "{nu} {gap} {k}");
                checked += usize::from(gap > 1e-9);
            }
        }
    }
    assert!(checked > 400, "{checked}");
}

#[test]
fn the_bound_of_a_start_near_the_end_is_a_number_of_steps() {
    let problem = smooth(first(), 100.0, DELTA);
    let path = problem.descent(&[0.0; 2]);
    let end = &path[path.len() - 1];
    let limit = 0.5 / problem.kappa();
    // Without the zero in it the logarithm would make it −3.86 for Q = 0.1.
    let gap = (0.1 / problem.kappa()).powi(2);
    assert_eq!(problem.bound(gap), 1.0);
    let formula = 8.0 / 3.0 * 0.1 * E.sqrt() + 2.0 * E / 3.0 * (28.0 * 0.01 / 3.0f64).ln();
    assert!((formula + 3.86).abs() < 0.01, "{formula}");
    for part in [1e-8, 1e-6, 1e-4, 1e-2] {
        let start = along(end, part, &minus(&path[0], end));
        let run = problem.descent(&start);
        let needed = run.iter().position(|y| problem.newton(y).nu <= limit).unwrap();
        let bound = problem.bound((problem.value(&start) - problem.value(end)).max(0.0));
        assert!(bound >= needed as f64 && bound.fract() == 0.0, "{needed} {bound}");
    }
}

#[test]
fn the_number_of_steps_stays_below_the_bound() {
    for (tau, delta) in [(1.0, 1e-2), (10.0, 1e-4), (100.0, 1e-4), (100.0, 1e-6)] {
        for problem in some(tau, delta) {
            let path = problem.descent(&vec![0.0; problem.program.n()]);
            let gap = problem.value(&path[0]) - problem.value(&path[path.len() - 1]);
            let limit = 0.5 / problem.kappa();
            let needed = path.iter().position(|y| problem.newton(y).nu <= limit).unwrap();
            assert!((needed as f64) <= problem.bound(gap), "{needed} {}", problem.bound(gap));
            assert!(path.len() - 1 - needed <= 7, "{needed} of {}", path.len());
            // The pieces of the proof: distance from the ridge, length from the decrement.
            let end = &path[path.len() - 1];
            let k = (2.0 * gap).sqrt() * problem.kappa();
            for y in &path {
                let way = tau * largest(&times(&problem.program.a, &minus(y, end)));
                let here = problem.newton(y);
                assert!(
                    way <= k * (1.0 + SOLVED) + SOLVED
                        && here.x <= problem.kappa() * here.nu * (1.0 + SOLVED)
                );
            }
        }
    }
}

#[test]
fn the_decrement_falls_quadratically() {
    let mut late = 0;
    for (tau, delta) in [(10.0, 1e-4), (100.0, 1e-4), (1000.0, 1e-6)] {
        for problem in some(tau, delta) {
            let path = problem.descent(&vec![0.0; problem.program.n()]);
            for pair in path.windows(2) {
                let (here, there) = (problem.newton(&pair[0]), problem.newton(&pair[1]));
                let bound = 2.0 * (1.0 + here.x).sqrt() * (1.0 - step(here.x)) * here.nu;
                // Gradients are known to about 1e-17, decrements to that over the root of the ridge.
                let rounding = 1e-16 / delta.sqrt();
                assert!(there.nu <= bound + rounding, "{} {bound}", there.nu);
                // 1 − t is known to 1e-16.
                assert!(bound <= (here.x * (1.0 + here.x).sqrt() + 1e-14) * here.nu);
                late += usize::from(here.x < 0.5 && there.nu > 100.0 * rounding);
            }
        }
    }
    assert!(late > 20, "{late}");
}

#[test]
fn the_scaled_decrement_squares_itself() {
    let mut late = 0;
    for (tau, delta) in [(10.0, 1e-4), (100.0, 1e-4), (1000.0, 1e-6)] {
        for problem in some(tau, delta) {
            let path = problem.descent(&vec![0.0; problem.program.n()]);
            for pair in path.windows(2) {
                let (here, there) = (problem.newton(&pair[0]), problem.newton(&pair[1]));
                let bound = (1.0 + here.omega) * here.omega * here.omega;
                assert!(here.x <= here.omega * (1.0 + SOLVED));
                assert!(there.omega <= bound + SOLVED, "{} {bound}", there.omega);
                late += usize::from(here.omega < 0.618 && there.omega > 1e-7);
            }
        }
    }
    assert!(late > 15, "{late}");
    let mut omega: f64 = 0.5;
    for expected in [0.375, 0.193, 0.045, 2.1e-3, 4.3e-6, 1.9e-11, 3.5e-22] {
        omega = (1.0 + omega) * omega * omega;
        assert!((omega / expected - 1.0).abs() < 0.02, "{omega} {expected}");
    }
}

#[test]
fn measured_step_counts_are_those_of_the_chapter() {
    let counts = [
        (first(), [4, 24, 180], [459, 1794, 7950], [12, 11, 9]),
        (second(), [5, 17, 115], [1538, 5313, 21424], [12, 0, 0]),
    ];
    let bounds = [[2.0e5, 1.1e7, 3.3e8], [1.3e6, 6.1e7, 1.9e9]];
    for ((program, ours, textbook, full), bounds) in counts.into_iter().zip(bounds) {
        for (k, tau) in [10.0, 100.0, 1000.0].into_iter().enumerate() {
            let problem = smooth(program.clone(), tau, DELTA);
            let states = problem.library();
            assert_eq!(states.len() - 1, ours[k], "tau {tau}");
            let gap = states[0].penalty - states[states.len() - 1].penalty;
            assert!((problem.bound(gap) / bounds[k] - 1.0).abs() < 0.04, "{}", problem.bound(gap));
            let constant = problem.kappa();
            let slow =
                problem.run(&[0.0; 2], 100_000, |here| 1.0 / (1.0 + 0.5 * constant * here.nu)).len() - 1;
            // The last step of thousands may hang on rounding.
            assert!(slow.abs_diff(textbook[k]) <= 1, "tau {tau}: {slow}");
            let whole = problem.run(&[0.0; 2], 1000, |_| 1.0);
            if full[k] > 0 {
                assert_eq!(whole.len() - 1, full[k], "tau {tau}");
            } else {
                assert_eq!(whole.len(), 1001);
                assert_close(&whole[1000], &whole[996], SOLVED);
                assert!(norm(&minus(&whole[1000], &whole[998])) > 0.1);
            }
        }
    }
    for (delta, count) in [(1e-4, 262), (1e-6, 180), (1e-8, 138)] {
        assert_eq!(smooth(first(), 1000.0, delta).library().len() - 1, count, "delta {delta}");
    }
    let problem = smooth(first(), 100.0, DELTA);
    let long = problem.descent(&[0.0; 2]).iter().filter(|y| problem.newton(y).x > 1.0).count();
    assert_eq!(long, 21);
}

#[test]
fn a_run_cannot_be_shorter_than_its_way() {
    for (tau, least) in [(100.0, 7.0), (1000.0, 62.0)] {
        let problem = smooth(first(), tau, DELTA);
        let path = problem.descent(&[0.0; 2]);
        let mut most: f64 = 0.0;
        for pair in path.windows(2) {
            let x = problem.newton(&pair[0]).x;
            let moved = largest(&times(&problem.program.a, &minus(&pair[1], &pair[0])));
            assert_close(&[tau * moved], &[x.ln_1p()], SOLVED);
            most = most.max(x);
        }
        let way = largest(&times(&problem.program.a, &minus(&path[path.len() - 1], &path[0])));
        let bound = tau * way / most.ln_1p();
        assert!((path.len() - 1) as f64 >= bound && (least..least + 1.0).contains(&bound), "{bound}");
    }
}

/// The best step with τ|Au| ≤ 1 for the upper model ∇G'u + (e − 2) u'Hu.
fn trusted(problem: &Smooth, y: &[f64]) -> Vec<f64> {
    let (slope, h) = (problem.slope(y), problem.hessian(y));
    let whole = problem.program.normal(&vec![1.0; problem.program.m()], 0.0);
    let at = |rho: f64| -> Vec<f64> {
        let rows = h
            .iter()
            .zip(&whole)
            .map(|(h, w)| h.iter().zip(w).map(|(h, w)| 2.0 * (E - 2.0) * h + rho * w).collect());
        solve(&rows.collect::<Vec<Vec<f64>>>(), &slope).unwrap().iter().map(|u| -u).collect()
    };
    let long = |u: &[f64]| problem.tau * norm(&times(&problem.program.a, u)) > 1.0;
    if !long(&at(0.0)) {
        return at(0.0);
    }
    let (mut low, mut high) = (0.0, CLOSED);
    while long(&at(high)) {
        high *= 4.0;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if long(&at(middle)) { low = middle } else { high = middle }
    }
    at(high)
}

#[test]
fn a_trusted_step_shrinks_the_gap_by_a_factor_without_the_ridge() {
    for (program, delta, count) in
        [(first(), DELTA, Some(164)), (first(), 1e-8, None), (second(), 1e-4, None)]
    {
        let problem = smooth(program, 100.0, delta);
        let exact = problem.descent(&[0.0; 2]);
        let end = &exact[exact.len() - 1];
        let best = problem.value(end);
        let gap = |y: &[f64]| problem.value(y) - best;
        // What the theorem needs does not depend on the path: no iterate leaves the level set of the start.
        let farthest = problem.farthest(end, problem.value(&[0.0; 2]));
        let (mut y, mut steps) = (vec![0.0; 2], 0);
        while norm(&problem.slope(&y)) > 1e-10 * EPSILON * norm(&problem.program.c) {
            let here = problem.newton(&y);
            let k = (problem.tau * norm(&times(&problem.program.a, &minus(&y, end)))).max(1.0);
            assert!(k <= farthest * (1.0 + SOLVED), "{k} {farthest}");
            let best_step = along(&y, 1.0, &trusted(&problem, &y));
            let factor = 1.0 - 1.0 / (E * (E - 2.0) * k);
            assert!(gap(&best_step) <= factor * gap(&y) + 2.0 * ROUNDING, "step {steps}");
            y = if here.x > 1.0 { best_step } else { along(&y, step(here.x), &here.d) };
            steps += 1;
        }
        let q = problem.kappa() * gap(&[0.0; 2]).sqrt();
        let bound = (2.0 * farthest * (28.0 * q * q / 3.0).ln().max(0.0)).ceil();
        assert!(f64::from(steps) < bound + 7.0);
        if let Some(count) = count {
            assert!(steps == count && (bound - 12393.0).abs() < 2.0, "{steps} {bound}");
        }
    }
}

#[test]
fn the_smoothed_dual_is_off_by_the_ridge_and_its_rows_by_the_rounding() {
    for (tau, delta) in [(10.0, 1e-4), (100.0, 1e-6), (1000.0, 1e-4)] {
        for problem in some(tau, delta) {
            let states = problem.library();
            let last = &states[states.len() - 1];
            let (epsilon, sharpness) = (EPSILON, tau);
            let newton = SmoothNewton { epsilon, sharpness, delta, tolerance: 1e-10, max_steps: 10_000 };
            let point = newton.finish(last).unwrap();
            let balance = along(&problem.program.pull(&point.v), 1.0, &problem.program.c);
            let expected: Vec<f64> = last.y.iter().map(|y| -delta / EPSILON * y).collect();
            assert!(norm(&minus(&balance, &expected)) < SOLVED * norm(&problem.program.c));
            for (r, v) in problem.program.residual(&last.y).iter().zip(&point.v) {
                if *v > 1e-6 {
                    let formula = (tau * EPSILON * v).exp_m1().ln() / tau;
                    assert!((r - formula).abs() < 1e-8, "{r} {formula}");
                    assert_eq!(*r < 0.0, tau * EPSILON * v < LN_2);
                }
            }
        }
    }
    let problem = smooth(first(), 100.0, DELTA);
    let end = problem.descent(&[0.0; 2]).pop().unwrap();
    assert!(norm(&minus(&end, &[0.973, 0.648])) < 1e-3);
    let r = problem.program.residual(&end);
    assert!((r[0] + 0.030).abs() < 5e-4 && (r[1] + 0.024).abs() < 1e-3, "{r:?}");
}
