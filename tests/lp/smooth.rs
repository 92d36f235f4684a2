//! The softened penalty and steps without a search.

use lastlayer::lp::{SmoothNewton, Solver, softened, softened_slope, softened_value};

use super::families::gaussian;
use super::{SEED, lp, median, states};

#[test]
fn the_softened_penalty_is_above_the_hard_one_by_at_most_its_bound() {
    for sharpness in [1.0, 10.0, 100.0] {
        let most = std::f64::consts::PI.powi(2) / (6.0 * sharpness * sharpness);
        for k in -400..=400 {
            let r = f64::from(k) / 100.0;
            let over = softened_value(r, sharpness) - 0.5 * r.max(0.0).powi(2);
            // Rounding of r², which is at most 16.
            assert!(over >= -1e-14 && over <= most + 1e-14, "{r} {sharpness}: {over}");
        }
        // At zero, p = π² / (12 κ²).
        assert!((softened_value(0.0, sharpness) - 0.5 * most).abs() < 1e-15);
    }
}

#[test]
fn value_slope_and_step_are_derivatives_of_each_other() {
    let step = 1e-4;
    for sharpness in [0.7, 3.0] {
        for k in -30..=30 {
            let r = f64::from(k) / 5.0;
            let by_value =
                (softened_value(r + step, sharpness) - softened_value(r - step, sharpness)) / (2.0 * step);
            let by_slope =
                (softened_slope(r + step, sharpness) - softened_slope(r - step, sharpness)) / (2.0 * step);
            // Third derivatives are at most κ, so central differences are off by κ step² / 6.
            assert!((by_value - softened_slope(r, sharpness)).abs() < 1e-7, "{r} {sharpness}");
            assert!((by_slope - softened(r, sharpness)).abs() < 1e-7, "{r} {sharpness}");
        }
    }
    for r in [-1e300, -1e5, 1e5, 1e150] {
        assert!(softened_value(r, 10.0).is_finite() && softened_slope(r, 10.0).is_finite());
        assert!((0.0..=1.0).contains(&softened(r, 10.0)));
    }
}

#[test]
fn the_third_derivative_is_bounded_by_the_second_but_not_by_its_power() {
    let mut worst = Vec::new();
    for sharpness in [1.0, 10.0, 100.0, 1000.0] {
        let mut most: f64 = 0.0;
        for k in -30_000..=30_000 {
            let r = f64::from(k) / (1000.0 * sharpness);
            let second = softened(r, sharpness);
            let third = sharpness * second * (1.0 - second);
            assert!(third <= sharpness * second);
            most = most.max(third / (second + 1e-4).powf(1.5));
        }
        worst.push(most);
    }
    // Self-concordance would need at most 2 for every κ.
    for (found, expected) in worst.iter().zip([38.48, 384.8, 3848.0, 38480.0]) {
        assert!((found / expected - 1.0).abs() < 1e-2, "{worst:?}");
    }
}

#[test]
fn every_step_falls_by_what_the_theorem_promises_on_three_hundred_programs() {
    let mut steps = Vec::new();
    for case in 0..300u64 {
        let (n, m) = [(2, 4), (2, 6), (3, 8)][case as usize % 3];
        let lp = gaussian(SEED.named("smooth").stream(case), n, m, usize::from(case % 7 == 0));
        let newton = SmoothNewton::default();
        let path = states(&newton, newton.init(&lp).unwrap());
        for (state, next) in path.iter().zip(&path[1..]) {
            // Rounding of g itself.
            let slack = 1e-13 * (1.0 + state.penalty.abs());
            assert!(next.promised >= 0.0 && next.t > 0.0 && next.t <= 1.0);
            assert!(
                next.penalty <= state.penalty - next.promised + slack,
                "{case}, step {}: {next:?}",
                next.steps
            );
        }
        let state = &path[path.len() - 1];
        assert!(state.converged, "{case}: {state:?}");
        // Near the minimum steps are full.
        assert!(state.t > 0.9, "{case}: {}", state.t);
        steps.push(state.steps);
    }
    assert!(median(steps) < 150);
}

#[test]
fn sharper_means_more_steps_and_the_end_is_quadratic() {
    let c1a = lp(&[[-1.0, 3.0], [3.0, -3.0], [-1.0, 2.0]], &[1.0; 3], &[-2.0, 1.0]);
    let run = |sharpness: f64| {
        let newton = SmoothNewton { sharpness, epsilon: 1e-3, ..SmoothNewton::default() };
        let path = states(&newton, newton.init(&c1a).unwrap());
        let gradients: Vec<f64> = path.iter().map(|state| state.gradient).collect();
        assert!(path[path.len() - 1].converged, "{sharpness}: {gradients:?}");
        gradients
    };
    let (mild, middle, sharp) = (run(10.0), run(100.0), run(1000.0));
    assert!(mild.len() < middle.len() && middle.len() < sharp.len());
    assert!(sharp.len() < 400, "{}", sharp.len());
    // The last step but one more than doubles the number of correct digits, up to rounding.
    let [.., before, last] = &sharp[..] else { panic!("{sharp:?}") };
    assert!(*last < before.powf(1.3), "{before} {last}");
}
