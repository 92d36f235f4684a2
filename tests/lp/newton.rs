//! The penalty and Newton's method on it: identities, rates, the line search.

use lastlayer::lp::{
    Fixed, Lp, NewtonLp, PenaltyNewton, PenaltyPoint, Reach, Shift, Solver, StepRule, exact_line_search,
};

use super::families::gaussian;
use super::{SEED, assert_close, bells, dot, lp, median, scores, states};

/// Identities hold to the rounding of a well-conditioned solve.
const IDENTITY: f64 = 1e-10;

fn minimum(lp: &Lp, epsilon: f64) -> PenaltyPoint {
    let newton = PenaltyNewton { epsilon, ..PenaltyNewton::default() };
    let point = newton.solve(lp).unwrap();
    assert!(point.converged, "{point:?}");
    point
}

#[test]
fn line_search_finds_the_minimum_of_a_piecewise_quadratic() {
    for case in 0..200u64 {
        let seed = SEED.named("line").stream(case);
        let m = 1 + case as usize % 9;
        let (r, q) = (bells(seed.stream(0), m), bells(seed.stream(1), m));
        let fixed = Fixed { curvature: 0.0, slope: -seed.uniform(7) };
        let phi = |t: f64| {
            r.iter().zip(&q).map(|(r, q)| 0.5 * (r + t * q).max(0.0).powi(2)).sum::<f64>() + t * fixed.slope
        };
        let slope_at_zero = r.iter().zip(&q).map(|(r, q)| q * r.max(0.0)).sum::<f64>() + fixed.slope;
        match exact_line_search(&r, &q, fixed, dot(&q, &q)) {
            Reach::At(t) if slope_at_zero >= 0.0 => assert_eq!(t, 0.0),
            Reach::At(t) => {
                assert!(t > 0.0);
                // No point within a tenth is lower, on either side.
                for by in [1e-6, 1e-3, 0.1] {
                    assert!(
                        phi(t) <= phi(t * (1.0 + by)) + 1e-14 && phi(t) <= phi(t * (1.0 - by)) + 1e-14,
                        "{case}"
                    );
                }
            }
            Reach::Forever => assert!(q.iter().all(|q| *q <= 0.0), "{case}"),
        }
    }
}

#[test]
fn a_line_without_an_end_is_told() {
    let falling = Fixed { curvature: 0.0, slope: -1.0 };
    assert_eq!(exact_line_search(&[1.0, -1.0], &[-1.0, -2.0], falling, 5.0), Reach::Forever);
    // An equality ends every line.
    let bound = Fixed { curvature: 4.0, slope: -1.0 };
    assert_eq!(exact_line_search(&[], &[], bound, 1.0), Reach::At(0.25));
    // A row exactly at its bound counts from the start if it enters.
    assert_eq!(exact_line_search(&[0.0], &[2.0], falling, 4.0), Reach::At(0.25));
    // Without a linear term the penalty is level once every row is satisfied.
    assert_eq!(exact_line_search(&[1.0], &[-1.0], Fixed::default(), 1.0), Reach::At(1.0));
}

#[test]
fn exact_steps_fall_and_end_on_every_random_program() {
    for (n, m) in [(2, 4), (2, 6), (3, 8)] {
        let mut steps = Vec::new();
        for case in 0..300u64 {
            let lp = gaussian(SEED.named("fall").stream(case), n, m, 0);
            let newton = PenaltyNewton { epsilon: 1e-3, ..PenaltyNewton::default() };
            let path = states(&newton, newton.init(&lp).unwrap());
            for (state, next) in path.iter().zip(&path[1..]) {
                // Rounding of a sum of squares.
                assert!(
                    next.penalty <= state.penalty + 1e-14 * (1.0 + state.penalty.abs()),
                    "{n} {m} {case}"
                );
            }
            let state = &path[path.len() - 1];
            assert!(state.converged, "{n} {m} {case}: {state:?}");
            steps.push(state.steps);
        }
        assert!(median(steps) <= 6);
    }
}

#[test]
fn the_dual_is_feasible_for_every_epsilon() {
    for case in 0..20u64 {
        let lp = gaussian(SEED.named("dual").stream(case), 4, 12, (case % 2) as usize);
        for epsilon in [10.0, 1.0, 1e-2, 1e-4] {
            let point = minimum(&lp, epsilon);
            assert!(point.v.iter().all(|v| *v >= 0.0));
            let (A, A_eq) = (lp.A.to_dense(), lp.A_eq.to_dense());
            for j in 0..lp.n() {
                let pull = dot(&point.v, &A.column(j).to_vec()) + dot(&point.v_eq, &A_eq.column(j).to_vec());
                assert!((pull + lp.c[j]).abs() < 1e-8, "{case} {epsilon}: {pull}, {}", lp.c[j]);
            }
            // Weak duality: the penalty's value is a lower bound.
            let optimum = NewtonLp::default().solve(&lp).unwrap().value;
            assert!(point.value <= optimum + 1e-9);
        }
    }
}

#[test]
fn the_optimum_is_the_penalty_plus_half_epsilon_times_the_squared_dual() {
    for case in 0..20u64 {
        let lp = gaussian(SEED.named("value").stream(case), 3, 8, 0);
        let found = NewtonLp::default().solve(&lp).unwrap();
        let point = minimum(&lp, 1e-6);
        let exact = point.value + 0.5 * point.epsilon * dot(&point.v, &point.v);
        // The value is g/ε, so the rounding of g is magnified by 1/ε.
        assert!(
            (exact - found.value).abs() < 1e-8 * (1.0 + found.value.abs()),
            "{case}: {exact}, {}",
            found.value
        );
        assert_close(&[-dot(&lp.b, &point.v)], &[found.value], 1e-8);
    }
}

#[test]
fn the_path_is_a_line_whose_end_is_the_solution() {
    for case in 0..20u64 {
        let lp = gaussian(SEED.named("path").stream(case), 3, 8, 0);
        let found = NewtonLp::default().solve(&lp).unwrap();
        let (whole, half) = (minimum(&lp, 1e-5), minimum(&lp, 5e-6));
        let end: Vec<f64> = half.y.iter().zip(&whole.y).map(|(h, w)| 2.0 * h - w).collect();
        assert_close(&end, &found.z, 1e-9);
    }
}

#[test]
fn the_largest_exact_epsilon_of_auc_is_the_least_gap() {
    let (s, y) = scores(13, SEED.named("gap"));
    let (margin, lp) = (0.4, Lp::auc(&s, &y, 0.4).unwrap());
    let n = lp.n();
    let least = lp.b[..n].iter().fold(f64::INFINITY, |least, b| least.min(b.abs()));
    let exact: Vec<f64> = {
        let on = |b: &f64| f64::from(u8::from(*b < 0.0)) / n as f64;
        lp.b[..n].iter().map(on).chain(lp.b[..n].iter().map(|b| 1.0 / n as f64 - on(b))).collect()
    };
    let limit = least * n as f64;
    assert!(margin > 0.0 && limit > 0.0);
    assert_close(&minimum(&lp, 0.99 * limit).v, &exact, IDENTITY);
    let off = |epsilon: f64| {
        let v = minimum(&lp, epsilon).v;
        v.iter().zip(&exact).map(|(v, e)| (v - e).abs() * n as f64).fold(0.0, f64::max)
    };
    assert!(off(1.01 * limit) > 1e-3 && off(10.0 * limit) > 0.1);
}

/// How much closer one step comes to the minimum, started within the piece that holds it.
fn rate(shift: Shift, rule: StepRule) -> f64 {
    let (s, y) = scores(11, SEED.named("rate"));
    let lp = Lp::auc(&s, &y, 0.4).unwrap();
    let epsilon =
        0.5 * lp.n() as f64 * lp.b[..lp.n()].iter().fold(f64::INFINITY, |least, b| least.min(b.abs()));
    let minimum = minimum(&lp, epsilon).y;
    // Closer than any kink.
    let start: Vec<f64> = minimum.iter().enumerate().map(|(i, y)| y + 1e-6 * (i as f64 - 3.0)).collect();
    let newton = PenaltyNewton { epsilon, shift, rule, ..PenaltyNewton::default() };
    let mut state = newton.init_at(&lp, &start).unwrap();
    newton.step(&mut state).unwrap();
    let distance = |y: &[f64]| y.iter().zip(&minimum).map(|(y, m)| (y - m).powi(2)).sum::<f64>().sqrt();
    distance(&state.y) / distance(&start)
}

#[test]
fn near_the_minimum_a_full_step_lands_and_shifts_or_short_steps_make_it_linear() {
    assert!(rate(Shift::IfSingular, StepRule::Fixed(1.0)) < 1e-8);
    // H = I here, so a shift δ leaves δ / (1 + δ), and a step λ leaves 1 − λ. The start is 1e-6 away: eight digits.
    for delta in [0.01, 0.5] {
        let left = rate(Shift::Always(delta), StepRule::Fixed(1.0));
        assert!((left - delta / (1.0 + delta)).abs() < 1e-8, "{delta}: {left}");
    }
    for step in [0.5, 0.1] {
        let left = rate(Shift::IfSingular, StepRule::Fixed(step));
        assert!((left - (1.0 - step)).abs() < 1e-8, "{step}: {left}");
    }
}

#[test]
fn an_unbounded_penalty_shows_a_ray() {
    let newton = PenaltyNewton::default();
    let mut state = newton.init(&lp(&[[-1.0, 0.0]], &[0.0], &[-1.0, 0.0])).unwrap();
    newton.run(&mut state).unwrap();
    assert!(state.ray.is_some_and(|d| d[0] > 0.0) && !state.converged);
}
