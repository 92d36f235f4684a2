//! The default solver against HiGHS.

use lastlayer::lp::{NewtonLp, Outer, Ray, Solution, Status};

use super::families::{Case, family};
use super::{assert_close, dot, lp, median};

/// Optima agree with HiGHS to its own tolerance.
const VALUE: f64 = 1e-8;

/// HiGHS stops at residuals of 1e-10; a vertex amplifies them by its condition.
const VERTEX: f64 = 1e-6;

fn solved(case: &Case) -> Solution {
    NewtonLp::default().solve(&case.lp).unwrap()
}

/// Fails unless status and value are those of the oracle; how far the value is off.
#[track_caller]
fn compare(name: &str, number: usize, case: &Case, found: &Solution) -> f64 {
    assert_eq!(found.status, case.status, "{name} {number}: {:?}, oracle {}", found, case.value);
    if case.status != Status::Optimal {
        return 0.0;
    }
    let off = (found.value - case.value).abs() / (1.0 + case.value.abs());
    assert!(off <= VALUE, "{name} {number}: {} and {}, {:?}", found.value, case.value, found.certificate);
    off
}

#[track_caller]
fn compare_all(name: &str) -> (f64, usize) {
    let cases = family(name);
    let found: Vec<Solution> = cases.iter().map(solved).collect();
    let off = (0..cases.len()).map(|i| compare(name, i, &cases[i], &found[i])).fold(0.0, f64::max);
    (off, median(found.iter().map(|s| s.steps).collect()))
}

#[test]
fn two_hundred_programs_have_the_optimum_solution_and_multipliers_of_the_oracle() {
    let mut unique = 0;
    for (i, case) in family("mixed").iter().enumerate() {
        let found = solved(case);
        compare("mixed", i, case, &found);
        if !found.degenerate {
            unique += 1;
            assert_close(&found.z, &case.z, VERTEX);
            assert_close(&found.v, &case.v, VERTEX);
        }
    }
    assert!(unique > 190, "{unique} of 200 were not degenerate");
}

#[test]
fn all_875_programs_from_2_by_6_to_60_by_240_are_solved() {
    compare_all("sized");
}

#[test]
fn badly_scaled_rows_change_nothing() {
    compare_all("scaled");
}

#[test]
fn degenerate_integer_programs_have_the_right_optimum() {
    compare_all("integer");
}

#[test]
fn assignments_have_the_right_optimum_and_are_called_degenerate() {
    for (i, case) in family("assignment").iter().enumerate() {
        let found = solved(case);
        compare("assignment", i, case, &found);
        // 2k equalities of rank 2k − 1.
        assert!(found.degenerate, "assignment {i}");
    }
}

#[test]
fn infeasible_and_unbounded_programs_are_told_apart_with_proofs() {
    for (i, case) in family("whatever").iter().enumerate() {
        let found = solved(case);
        compare("whatever", i, case, &found);
        // A proof may be off by rounding, relative to its own length.
        let proof = 1e-8;
        match &found.ray {
            None => assert_eq!(found.status, Status::Optimal),
            Some(Ray::Farkas { v, v_eq }) => {
                assert_eq!(found.status, Status::Infeasible);
                let size = (dot(v, v) + dot(v_eq, v_eq)).sqrt();
                assert!(v.iter().all(|v| *v >= 0.0));
                let (A, A_eq) = (case.lp.A.to_dense(), case.lp.A_eq.to_dense());
                for j in 0..case.lp.n() {
                    let pull = dot(v, &A.column(j).to_vec()) + dot(v_eq, &A_eq.column(j).to_vec());
                    assert!(pull.abs() <= proof * size, "whatever {i}, column {j}: {pull}");
                }
                let gain = dot(v, &case.lp.b) + dot(v_eq, &case.lp.b_eq);
                assert!(gain < -10.0 * proof * size, "whatever {i}: {gain}");
            }
            Some(Ray::Descent { d }) => {
                assert_eq!(found.status, Status::Unbounded);
                let none = vec![0.0; d.len()];
                let at_zero = case.lp.excess(&none).unwrap();
                let rising =
                    case.lp.excess(d).unwrap().iter().zip(at_zero).map(|(a, b)| a - b).fold(0.0, f64::max);
                assert!(rising <= proof && dot(&case.lp.c, d) < -10.0 * proof, "whatever {i}: {rising}");
                let worst = case.lp.excess(&found.z).unwrap().into_iter().fold(0.0, f64::max);
                assert!(worst <= proof, "whatever {i}: the point is infeasible by {worst}");
            }
        }
    }
}

#[test]
fn the_loop_over_epsilon_solves_what_is_well_scaled() {
    let newton = NewtonLp { outer: Outer::Epsilon, ..NewtonLp::default() };
    for (i, case) in family("mixed").iter().enumerate() {
        let found = newton.solve(&case.lp).unwrap();
        compare("mixed", i, case, &found);
    }
}

#[test]
fn counterexamples_to_the_published_method_take_at_most_fifteen_steps() {
    let c1a = lp(&[[-1.0, 3.0], [3.0, -3.0], [-1.0, 2.0]], &[1.0; 3], &[-2.0, 1.0]);
    let c1b = lp(&[[0.0, 3.0], [5.0, -5.0], [-4.0, 4.0], [5.0, -3.0]], &[1.0, 3.0, 1.0, 1.0], &[-11.0, -2.0]);
    for (lp, z, v) in [
        (c1a, [1.0, 2.0 / 3.0], vec![0.5, 5.0 / 6.0, 0.0]),
        (c1b, [0.4, 1.0 / 3.0], vec![43.0 / 15.0, 0.0, 0.0, 2.2]),
    ] {
        let found = NewtonLp::default().solve(&lp).unwrap();
        assert_eq!(found.status, Status::Optimal);
        assert!(found.steps <= 15, "{found:?}");
        assert_close(&found.z, &z, 1e-9);
        assert_close(&found.v, &v, 1e-9);
    }
}
