//! Exterior penalties and least-norm duals: the chapter's equations, against definitions, brute force and closed forms.

use lastlayer::lp::{NewtonLp, PenaltyNewton, PenaltyPoint, Solver, Status};

use super::definitions::{
    Program, along, dot, largest, minus, norm, point, program, random, solve, three_rows, times, transposed,
};
use super::{SEED, assert_close};

/// Newton ends at |∇g| ≤ 1e-11 ε|c|, so that what follows from the minimum is right to about this.
const EXACT: f64 = 1e-9;

/// Closed forms of a few operations on numbers of size one.
const CLOSED: f64 = 1e-11;

/// A change that is no rounding.
const VISIBLE: f64 = 1e-6;

/// Central differences of a piecewise quadratic with a step of 1e-5 are wrong by rounding, and by a kink now and then.
const DIFFERENCE: f64 = 1e-4;

/// The minimum of the penalty, by the library.
fn minimum(program: &Program, epsilon: f64) -> PenaltyPoint {
    let newton = PenaltyNewton { epsilon, tolerance: 1e-11, ..Default::default() };
    let found = newton.solve(&program.lp()).unwrap();
    assert!(found.converged, "epsilon {epsilon}: {found:?}");
    found
}

/// −b'v − (ε/2)|v|².
fn regularised(program: &Program, epsilon: f64, v: &[f64]) -> f64 {
    -dot(&program.b, v) - 0.5 * epsilon * dot(v, v)
}

#[test]
fn the_gradient_of_the_penalty_matches_finite_differences() {
    for trial in 0..20 {
        let seed = SEED.named("penalty").stream(trial);
        let (program, _) = random(3, 8, seed);
        let (epsilon, y) = (0.1, point(3, 2.0, seed.named("y")));
        let numeric = super::differences(&y, 1e-5, |y| program.penalty(epsilon, y));
        let slope = program.slope(epsilon, &y);
        assert_close(&slope, &numeric, DIFFERENCE);
        let state = PenaltyNewton { epsilon, ..Default::default() }.init_at(&program.lp(), &y).unwrap();
        assert_close(&[state.penalty, state.gradient], &[program.penalty(epsilon, &y), norm(&slope)], CLOSED);
    }
}

#[test]
fn the_gradient_is_lipschitz_with_the_squared_norm() {
    let mut most: f64 = 0.0;
    for trial in 0..200 {
        let seed = SEED.named("lipschitz").stream(trial);
        let (program, _) = random(3, 8, seed);
        let bound = program.lipschitz();
        let (y, other) = (point(3, 3.0, seed.named("y")), point(3, 3.0, seed.named("other")));
        let moved = norm(&minus(&program.slope(0.1, &y), &program.slope(0.1, &other)));
        let share = moved / (bound * norm(&minus(&y, &other)));
        assert!(share <= 1.0 + CLOSED, "trial {trial}: {share}");
        most = most.max(share);
    }
    // Not a bound of the wrong size either.
    assert!(most > 0.5, "{most}");
}

#[test]
fn every_dual_point_bounds_the_penalty_from_below() {
    for trial in 0..50 {
        let seed = SEED.named("weak").stream(trial);
        let (program, u) = random(3, 7, seed);
        let (epsilon, y) = (0.3, point(3, 2.0, seed.named("y")));
        let (r, over) = (program.residual(&y), program.excess(&y));
        let left = program.penalty(epsilon, &y) / epsilon + dot(&program.b, &u) + 0.5 * epsilon * dot(&u, &u);
        let apart = along(&over, -epsilon, &u);
        let right = dot(&apart, &apart) / (2.0 * epsilon) + dot(&u, &minus(&over, &r));
        assert_close(&[left], &[right], CLOSED);
        assert!(left >= 0.0, "trial {trial}: {left}");
    }
}

#[test]
fn the_scaled_residual_solves_the_regularised_dual() {
    for trial in 0..20 {
        let (program, u) = random(3, 7, SEED.named("tikhonov").stream(trial));
        for epsilon in [1e-3, 0.1, 1.0, 30.0] {
            let found = minimum(&program, epsilon);
            assert_close(
                &found.v,
                &program.excess(&found.y).iter().map(|r| r / epsilon).collect::<Vec<_>>(),
                1e-12,
            );
            let balance = along(&program.pull(&found.v), 1.0, &program.c);
            assert!(norm(&balance) < EXACT * norm(&program.c), "trial {trial}: {balance:?}");
            let best = regularised(&program, epsilon, &found.v);
            assert_close(&[best], &[program.penalty(epsilon, &found.y) / epsilon], EXACT);
            // Every other dual point, and the way there, is worse.
            let rivals = program.dual_bases().into_iter().map(|basis| basis.v).chain([u.clone()]);
            for rival in rivals {
                for share in [1.0, 0.1] {
                    let between = along(&found.v, share, &minus(&rival, &found.v));
                    let value = regularised(&program, epsilon, &between);
                    assert!(value <= best + EXACT * (1.0 + best.abs()), "trial {trial}: {value} {best}");
                }
            }
        }
    }
}

#[test]
fn three_rows_have_the_dual_worked_out_by_hand() {
    let program = three_rows();
    for epsilon in [1.0, 0.1, 0.01, 0.005, 0.004, 0.003, 0.0025, 0.002, 0.001, 1e-4] {
        let s: f64 = (5.0 - 0.01 / epsilon) / 3.0;
        let s = s.clamp(0.0, 1.0);
        assert_close(&minimum(&program, epsilon).v, &[1.0 - s, 4.0 - s, s], EXACT);
    }
}

#[test]
fn the_penalty_value_falls_at_half_the_squared_norm_of_the_dual() {
    for trial in 0..10 {
        let (program, _) = random(3, 7, SEED.named("slope").stream(trial));
        let vertex = program.vertex();
        let best = dot(&program.c, &vertex.z);
        for epsilon in [0.01, 0.2, 3.0] {
            let value = |epsilon: f64| minimum(&program, epsilon).value;
            let step = 1e-4 * epsilon;
            let slope = (value(epsilon + step) - value(epsilon - step)) / (2.0 * step);
            let v = minimum(&program, epsilon).v;
            assert_close(&[slope], &[-0.5 * dot(&v, &v)], DIFFERENCE);
            let low = best - 0.5 * epsilon * dot(&vertex.v, &vertex.v);
            let slack = EXACT * (1.0 + best.abs());
            assert!(low - slack <= value(epsilon) && value(epsilon) <= best + slack, "trial {trial}");
        }
    }
}

#[test]
fn below_the_threshold_the_dual_is_the_least_norm_one() {
    let mut ends = 0;
    for trial in 0..40 {
        let (program, _) = random(3, 7, SEED.named("exact").stream(trial));
        let vertex = program.vertex();
        let (_, end) = program.path(&vertex);
        if end > 1e3 {
            continue;
        }
        ends += 1;
        // Far above the threshold the shift between the two is plain; just below it there is none.
        for share in [1e-3, 0.5, 0.999] {
            assert_close(&minimum(&program, share * end).v, &vertex.v, EXACT);
        }
        let above = minimum(&program, 1.01 * end).v;
        assert!(largest(&minus(&above, &vertex.v)) > VISIBLE, "trial {trial}: {above:?}");
    }
    assert!(ends > 20, "{ends}");
}

#[test]
fn among_many_duals_the_penalty_picks_the_shortest() {
    // v = (1 − s, s, s) is optimal for all s in [0, 1]; its squared length is least at s = 1/3.
    let corner = program(&[[0.0, 1.0], [1.0, 1.0], [-1.0, 0.0]], &[1.0, 1.0, 0.0], &[0.0, -1.0]);
    for epsilon in [1e-3, 0.1, 5.0] {
        assert_close(&minimum(&corner, epsilon).v, &[2.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0], EXACT);
    }
}

#[test]
fn the_threshold_is_the_first_row_the_path_meets() {
    let three = three_rows();
    let (w, end) = three.path(&three.vertex());
    assert_close(&[w[0], w[1], end], &[1.0, 4.0, 0.002], CLOSED);
    let mut ends = 0;
    for trial in 0..40 {
        let (program, _) = random(3, 7, SEED.named("ratio").stream(trial));
        let vertex = program.vertex();
        let (w, end) = program.path(&vertex);
        if end > 1e3 {
            continue;
        }
        ends += 1;
        let epsilon = 0.9 * end;
        assert_close(&minimum(&program, epsilon).y, &along(&vertex.z, epsilon, &w), EXACT);
        // Beyond the end a row outside the active ones is violated.
        let r = program.residual(&minimum(&program, 1.01 * end).y);
        let outside =
            (0..program.m()).filter(|k| !vertex.active.contains(k)).map(|k| r[k]).fold(f64::MIN, f64::max);
        assert!(outside > 0.0, "trial {trial}: {outside}");
    }
    assert!(ends > 20, "{ends}");
}

#[test]
fn the_exact_value_needs_no_primal_point() {
    for trial in 0..30 {
        let (program, _) = random(4, 9, SEED.named("value").stream(trial));
        let vertex = program.vertex();
        let (_, end) = program.path(&vertex);
        let (best, epsilon) = (dot(&program.c, &vertex.z), 0.9 * end.min(1.0));
        let found = minimum(&program, epsilon);
        let sum = found.value + 0.5 * epsilon * dot(&found.v, &found.v);
        assert_close(&[-dot(&program.b, &found.v), sum], &[best, best], EXACT);
    }
    // Above the threshold it is not: three rows at ε = 1.
    let wrong = minimum(&three_rows(), 1.0);
    assert_close(&[-dot(&three_rows().b, &wrong.v)], &[-5.01], EXACT);
}

#[test]
fn two_penalty_solutions_extrapolate_to_the_vertex() {
    for trial in 0..30 {
        let (program, _) = random(4, 9, SEED.named("richardson").stream(trial));
        let vertex = program.vertex();
        let epsilon = 0.9 * program.path(&vertex).1.min(1.0);
        let (half, whole) = (minimum(&program, 0.5 * epsilon).y, minimum(&program, epsilon).y);
        let z: Vec<f64> = half.iter().zip(&whole).map(|(half, whole)| 2.0 * half - whole).collect();
        assert_close(&z, &vertex.z, EXACT);
    }
}

/// One variable and two rows, z ≥ a and z ≥ 0, for each pair.
fn pairs(a: &[f64], cost: f64) -> Program {
    let n = a.len();
    let row = |i: usize| (0..n).map(|j| if i % n == j { -1.0 } else { 0.0 }).collect();
    let b = a.iter().map(|a| -a).chain(a.iter().map(|_| 0.0)).collect();
    Program { a: (0..2 * n).map(row).collect(), b, c: vec![cost; n] }
}

#[test]
fn ranking_pairs_have_a_threshold_in_closed_form() {
    let a = [0.5, -0.2, 0.08, -0.9, 0.0, 1.3];
    for cost in [1.0, 1.0 / 6.0] {
        let program = pairs(&a, cost);
        let exact: Vec<f64> =
            a.iter().map(|a| cost * (0.5 + 0.5 * if *a == 0.0 { 0.0 } else { a.signum() })).collect();
        let end = 0.08 / cost;
        for (share, miss) in [(0.5, 0.0), (0.99, 0.0), (1.01, 0.5 * (1.0 - 1.0 / 1.01)), (10.0, 0.45)] {
            let epsilon = share * end;
            let found = minimum(&program, epsilon);
            let error = (found.v[2] - exact[2]).abs();
            assert_close(&[error], &[cost * miss], EXACT);
            for (i, a) in a.iter().enumerate() {
                let (first, second) = (found.v[i], found.v[6 + i]);
                if a.abs() < epsilon * cost {
                    assert_close(&[found.y[i]], &[0.5 * (a - epsilon * cost)], EXACT);
                    let half = a / (2.0 * epsilon);
                    assert_close(&[first, second], &[0.5 * cost + half, 0.5 * cost - half], EXACT);
                } else {
                    assert_close(&[first, second], &[exact[i], cost - exact[i]], EXACT);
                }
            }
        }
    }
}

#[test]
fn the_dual_residual_is_the_gradient_over_epsilon() {
    for trial in 0..50 {
        let seed = SEED.named("residual").stream(trial);
        let (program, _) = random(3, 7, seed);
        let (epsilon, vertex) = (0.02, program.vertex());
        let y = along(&minimum(&program, epsilon).y, 1.0, &point(3, 0.1, seed.named("y")));
        let v: Vec<f64> = program.excess(&y).iter().map(|r| r / epsilon).collect();
        let balance = along(&program.pull(&v), 1.0, &program.c);
        assert_close(&[norm(&balance)], &[norm(&program.slope(epsilon, &y)) / epsilon], CLOSED);
        let (best, bound) = (dot(&program.c, &vertex.z), dot(&balance, &vertex.z) - dot(&program.b, &v));
        assert!(best >= bound - EXACT * (1.0 + bound.abs()), "trial {trial}: {best} {bound}");
    }
}

#[test]
fn the_published_stopping_rule_accepts_a_dual_thirty_times_too_large() {
    let one = program(&[[-1.0]], &[0.0], &[1.0]);
    let (epsilon, delta) = (1e-3, 1e-4);
    let decrement = |y: f64| {
        let slope = one.slope(epsilon, &[y]);
        dot(&slope, &solve(&one.hessian(delta, &[y]), &slope).unwrap())
    };
    let edge = -epsilon - ((1.0 + delta) * epsilon).sqrt();
    assert!(decrement(edge + 1e-9) <= epsilon && decrement(edge - 1e-9) > epsilon);
    let v = one.excess(&[edge])[0] / epsilon;
    assert!((v - (1.0 + ((1.0 + delta) / epsilon).sqrt())).abs() < 1e-10 && (v - 32.6).abs() < 0.05, "{v}");
    assert_close(&minimum(&one, epsilon).v, &[1.0], EXACT);
}

#[test]
fn a_feasible_point_on_the_active_rows_proves_both_optimal() {
    let (mut right, mut wrong) = (0, 0);
    for trial in 0..30 {
        let (program, u) = random(3, 7, SEED.named("certificate").stream(trial));
        let found = NewtonLp::default().solve(&program.lp()).unwrap();
        assert_eq!(found.status, Status::Optimal);
        for basis in program.dual_bases() {
            let gap = dot(&program.c, &basis.z) + dot(&program.b, &basis.v);
            let size = 1.0 + dot(&program.c, &basis.z).abs();
            assert!(gap.abs() < EXACT * size, "trial {trial}: {gap}");
            let feasible = program.residual(&basis.z).iter().all(|r| *r <= EXACT);
            let best = (dot(&program.c, &basis.z) - found.value).abs() < 1e-7 * size;
            assert_eq!(feasible, best, "trial {trial}");
            (right, wrong) = (right + usize::from(feasible), wrong + usize::from(!feasible));
        }
        // Weak duality, on which the proof rests.
        assert!(found.value >= -dot(&program.b, &u) - EXACT);
    }
    // Bases with a dual, without a gap and with a wrong point are common.
    assert!(right >= 30 && wrong >= 30, "{right} {wrong}");
}

#[test]
fn a_dual_that_stays_the_same_can_be_wrong() {
    let program = three_rows();
    for epsilon in [1.0, 0.1, 0.01, 0.006, 0.005] {
        let v = minimum(&program, epsilon).v;
        assert_close(&v, &[0.0, 3.0, 1.0], EXACT);
        let z = solve(&program.rows(&[1, 2]), &program.b[1..]).unwrap();
        assert_close(&z, &[1.01, 1.0], CLOSED);
        assert_close(&[dot(&program.c, &z), -dot(&program.b, &v)], &[-5.01, -5.01], EXACT);
        assert_close(&[program.residual(&z)[0]], &[0.01], CLOSED);
    }
    assert_close(&minimum(&program, 0.001).v, &[1.0, 4.0, 0.0], EXACT);
    let found = NewtonLp::default().solve(&program.lp()).unwrap();
    assert_eq!(found.status, Status::Optimal);
    assert_close(&found.z, &[1.0, 1.0], EXACT);
}

/// The shortest z with A_J z = b_J.
fn shortest(program: &Program, active: &[usize]) -> Vec<f64> {
    let rows = program.rows(active);
    let gram: Vec<Vec<f64>> = rows.iter().map(|row| times(&rows, row)).collect();
    let b: Vec<f64> = active.iter().map(|j| program.b[*j]).collect();
    times(&transposed(&rows), &solve(&gram, &b).unwrap())
}

/// y moved to A_J z = b_J on the shortest way.
fn projected(program: &Program, active: &[usize], y: &[f64]) -> Vec<f64> {
    let moved = Program { b: program.residual(y), ..program.clone() };
    minus(y, &shortest(&moved, active))
}

#[test]
fn a_doubled_equality_loses_its_rows() {
    let doubled = program(&[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], &[5.0, -5.0, 1.0], &[0.0, -1.0]);
    for epsilon in [1.0, 0.01] {
        let found = minimum(&doubled, epsilon);
        assert_close(&found.v, &[0.0, 0.0, 1.0], EXACT);
        assert_close(&found.y, &[5.0, 1.0 + epsilon], EXACT);
        assert_close(&shortest(&doubled, &[2]), &[0.0, 1.0], CLOSED);
        assert_close(&projected(&doubled, &[2], &found.y), &[5.0, 1.0], EXACT);
        let half = minimum(&doubled, 0.5 * epsilon).y;
        assert_close(&minus(&along(&half, 1.0, &half), &found.y), &[5.0, 1.0], EXACT);
    }
}

#[test]
fn projecting_on_the_active_rows_can_miss_for_every_epsilon() {
    let sloped = program(&[[0.0, 1.0], [1.0, -1.0], [-1.0, 1.0]], &[1.0, -1.0, 1.0], &[0.0, -1.0]);
    let found = NewtonLp::default().solve(&sloped.lp()).unwrap();
    assert_eq!(found.status, Status::Optimal);
    assert_close(&found.z, &[0.0, 1.0], EXACT);
    for epsilon in [1.0, 0.1, 1e-3] {
        let found = minimum(&sloped, epsilon);
        assert_close(&found.v, &[1.0, 0.0, 0.0], EXACT);
        assert_close(&found.y, &[epsilon, 1.0 + epsilon], EXACT);
        let z = projected(&sloped, &[0], &found.y);
        assert_close(&z, &[epsilon, 1.0], EXACT);
        assert_close(&[sloped.residual(&z)[1] / epsilon], &[1.0], EXACT / epsilon);
        let half = minimum(&sloped, 0.5 * epsilon).y;
        assert_close(&minus(&along(&half, 1.0, &half), &found.y), &[0.0, 1.0], EXACT);
        // With a gap between the two rows there is a whole segment of minima, and one solution.
        let open = program(&[[0.0, 1.0], [1.0, -1.5], [-1.0, 1.0]], &[1.0, -1.5, 1.0], &[0.0, -1.0]);
        for (share, least) in [(1.0, true), (1.2, true), (1.5, true), (0.9, false), (1.6, false)] {
            let size = norm(&open.slope(epsilon, &[share * epsilon, 1.0 + epsilon]));
            assert_eq!(size < 1e-14, least, "{share}: {size}");
        }
        let solved = NewtonLp::default().solve(&open.lp()).unwrap();
        assert_close(&solved.z, &[0.0, 1.0], EXACT);
    }
}

/// One round of the multiplier loop: the point and the new multipliers.
fn round(program: &Program, epsilon: f64, v: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let moved = Program { b: along(&program.b, -epsilon, v), ..program.clone() };
    let found = minimum(&moved, epsilon);
    (found.y, found.v)
}

#[test]
fn the_multiplier_loop_is_a_proximal_step_on_the_dual() {
    for trial in 0..20 {
        let seed = SEED.named("outer").stream(trial);
        let (program, u) = random(3, 7, seed);
        let (epsilon, vertex) = (0.5, program.vertex());
        let v: Vec<f64> = point(7, 1.0, seed.named("v")).iter().map(|v| v.abs()).collect();
        let (_, next) = round(&program, epsilon, &v);
        // The maximum of a concave function on a polyhedron: no feasible direction gains.
        let slope = along(&program.b, epsilon, &minus(&next, &v));
        for rival in program.dual_bases().into_iter().map(|basis| basis.v).chain([u]) {
            let gain = dot(&slope, &minus(&rival, &next));
            assert!(gain >= -EXACT * (1.0 + norm(&rival)), "trial {trial}: {gain}");
        }
        let (y, still) = round(&program, epsilon, &vertex.v);
        assert_close(&still, &vertex.v, EXACT);
        assert_close(&y, &vertex.z, EXACT);
    }
}

#[test]
fn three_rows_need_as_many_outer_steps_as_the_bound_says() {
    let program = three_rows();
    for (epsilon, rounds) in [(1.0, 302), (0.1, 32), (0.01, 5), (0.002, 2)] {
        let (mut v, mut count) = (vec![0.0; 3], 0);
        loop {
            let (y, next) = round(&program, epsilon, &v);
            count += 1;
            let away = |v: &[f64]| norm(&minus(v, &[1.0, 4.0, 0.0]));
            if count > 1 && away(&next) > EXACT {
                // The bound of the chapter is attained, and the point stands still.
                assert_close(&[away(&v) - away(&next)], &[0.01 / (3f64.sqrt() * epsilon)], EXACT);
                assert_close(&y, &[1.0 + 0.01 / 3.0, 1.0 + 0.01 / 3.0], EXACT);
            }
            v = next;
            if largest(&program.excess(&y)) < EXACT {
                assert_close(&y, &[1.0, 1.0], EXACT);
                break;
            }
        }
        assert_eq!(count, rounds, "epsilon {epsilon}");
    }
}

#[test]
fn every_outer_step_brings_the_dual_closer_by_a_fixed_amount() {
    let mut long = 0;
    for trial in 0..30 {
        let (program, _) = random(3, 7, SEED.named("hoffman").stream(trial));
        let vertex = program.vertex();
        // The edges of the dual polyhedron at the solution: row k comes in at the price of its slack.
        let basis = transposed(&program.rows(&vertex.active));
        let slack = program.residual(&vertex.z);
        let alpha = (0..program.m())
            .filter(|k| !vertex.active.contains(k))
            .map(|k| {
                let edge = solve(&basis, &program.a[k]).unwrap();
                -slack[k] / (1.0 + dot(&edge, &edge)).sqrt()
            })
            .fold(f64::INFINITY, f64::min);
        let epsilon = 20.0;
        let mut v = vec![0.0; program.m()];
        for _ in 0..200 {
            let (_, next) = round(&program, epsilon, &v);
            let (before, after) = (norm(&minus(&v, &vertex.v)), norm(&minus(&next, &vertex.v)));
            let bound = (before - alpha / epsilon).max(0.0);
            assert!(after <= bound + EXACT * (1.0 + before), "trial {trial}: {before} {after} {bound}");
            if after < EXACT {
                break;
            }
            long += 1;
            v = next;
        }
    }
    assert!(long > 100, "{long}");
}

#[test]
fn an_infeasible_program_leaves_a_farkas_vector() {
    let contradiction = program(&[[1.0], [-1.0]], &[-1.0, -1.0], &[1.0]);
    for (epsilon, size) in [(0.1, 0.0707), (0.01, 0.00707), (0.001, 0.000_707)] {
        let found = minimum(&contradiction, epsilon);
        assert_close(&found.y, &[-0.5 * epsilon], EXACT);
        let over = contradiction.excess(&found.y);
        let length = norm(&over);
        let u: Vec<f64> = over.iter().map(|r| r / length).collect();
        let pulled = norm(&contradiction.pull(&u));
        assert_close(&[pulled], &[epsilon / length], EXACT);
        assert!((pulled / size - 1.0).abs() < 2e-3, "{pulled} {size}");
        let price = dot(&contradiction.b, &u);
        assert_close(&[price], &[-length - epsilon * found.y[0] / length], EXACT);
        assert!((price + 2f64.sqrt()).abs() < epsilon, "{price}");
    }
    let found = NewtonLp::default().solve(&contradiction.lp()).unwrap();
    assert_eq!(found.status, Status::Infeasible);
}
