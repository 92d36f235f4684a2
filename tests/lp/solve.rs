//! The default solver against HiGHS.

use lastlayer::lp::{Lp, Matrix, NewtonLp, Outer, Ray, Solution, Solver, Status};
use lastlayer::ndarray::Array2;
use lastlayer::seed::Seed;

use super::families::{Case, family};
use super::{SEED, assert_close, bells, dot, lp, median};

/// Optima agree with HiGHS to its own tolerance.
const VALUE: f64 = 1e-8;

/// HiGHS stops at residuals of 1e-10; a vertex amplifies them by its condition.
const VERTEX: f64 = 1e-6;

fn solved(case: &Case) -> Solution {
    NewtonLp::default().solve(&case.lp).unwrap()
}

/// Fails unless status and value are those of the oracle.
#[track_caller]
fn compare(name: &str, number: usize, case: &Case, found: &Solution) {
    assert_eq!(found.status, case.status, "{name} {number}: {:?}, oracle {}", found, case.value);
    if case.status == Status::Optimal {
        let off = (found.value - case.value).abs() / (1.0 + case.value.abs());
        assert!(off <= VALUE, "{name} {number}: {} and {}, {:?}", found.value, case.value, found.certificate);
    }
}

/// Compares a family, and gives the number of Newton steps of each program.
#[track_caller]
fn compare_all(name: &str) -> Vec<usize> {
    let cases = family(name);
    let found: Vec<Solution> = cases.iter().map(solved).collect();
    (0..cases.len()).for_each(|i| compare(name, i, &cases[i], &found[i]));
    found.iter().map(|s| s.steps).collect()
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
    let steps = compare_all("sized");
    // Median Newton steps of each size; half as many again as the reference implementation took.
    for (range, most) in [(0..300, 5), (300..550, 12), (550..750, 24), (750..850, 60), (850..875, 90)] {
        let found = median(steps[range.clone()].to_vec());
        assert!(found <= most, "{range:?}: {found}");
    }
}

#[test]
fn badly_scaled_rows_change_nothing() {
    compare_all("scaled");
}

#[test]
fn badly_scaled_columns_change_nothing() {
    for (i, case) in family("mixed").into_iter().enumerate() {
        let units: Vec<f64> = (0..case.lp.n())
            .map(|j| 10f64.powf(8.0 * SEED.stream(i as u64).uniform(j as u64) - 4.0))
            .collect();
        let multiplied = |a: &Matrix| {
            let mut a = a.to_dense();
            a.columns_mut().into_iter().zip(&units).for_each(|(mut column, unit)| column *= *unit);
            Matrix::Dense(a)
        };
        let c = case.lp.c.iter().zip(&units).map(|(c, unit)| c * unit).collect();
        let lp = Lp { A: multiplied(&case.lp.A), A_eq: multiplied(&case.lp.A_eq), c, ..case.lp.clone() };
        let case = Case { lp, ..case };
        let found = solved(&case);
        compare("mixed with scaled columns", i, &case, &found);
        if !found.degenerate {
            let z: Vec<f64> = found.z.iter().zip(&units).map(|(z, unit)| z * unit).collect();
            assert_close(&z, &case.z, VERTEX);
        }
    }
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
fn optimal_is_never_claimed_without_a_proof() {
    // Ten times the tolerance, since units here are those of the program and not of the solver.
    let proof = 1e-8;
    for name in ["mixed", "sized", "scaled", "integer", "assignment", "whatever"] {
        for (i, case) in family(name).iter().enumerate() {
            let (lp, found) = (&case.lp, solved(case));
            if found.status != Status::Optimal {
                continue;
            }
            let (A, A_eq) = (lp.A.to_dense(), lp.A_eq.to_dense());
            let sizes: Vec<f64> = A.rows().into_iter().map(|row| row.dot(&row).sqrt().max(1e-300)).collect();
            let far = lp.b.iter().zip(&sizes).map(|(b, size)| b.abs() / size).fold(1.0, f64::max);
            for (j, over) in lp.excess(&found.z).unwrap().into_iter().enumerate() {
                assert!(over / sizes[j] <= proof * far, "{name} {i}, row {j}: {over}");
                assert!(found.v[j] >= 0.0);
                // A row with slack has no multiplier.
                let priced = found.v[j] * over.abs();
                assert!(priced <= proof * (1.0 + found.value.abs()) * far, "{name} {i}, row {j}: {priced}");
            }
            assert!(lp.excess_eq(&found.z).unwrap().iter().all(|r| r.abs() <= proof * far), "{name} {i}");
            let size = dot(&lp.c, &lp.c).sqrt();
            for k in 0..lp.n() {
                let pull = dot(&found.v, &A.column(k).to_vec()) + dot(&found.v_eq, &A_eq.column(k).to_vec());
                assert!((pull + lp.c[k]).abs() <= proof * size, "{name} {i}, column {k}");
            }
        }
    }
}

#[test]
fn infeasible_and_unbounded_programs_are_told_apart_with_proofs() {
    for (i, case) in family("whatever").iter().enumerate() {
        let found = solved(case);
        compare("whatever", i, case, &found);
        // Rays are found on the way, not after all steps are used up.
        assert!(found.steps <= 50, "whatever {i}: {} steps", found.steps);
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
fn something_is_proved_of_every_program() {
    // Integers every other time, and a column a thousand times too long every fifth: nothing is known beforehand.
    let mut counts = [0; 3];
    for case in (0..600u64).chain(4800..5400) {
        let seed = Seed::new(5).stream(case);
        let (n, m) = (1 + (case % 12) as usize, 1 + (case * 7 % 25) as usize);
        let m_eq = ((case / 3 % 3) as usize).min(n);
        let draw = |stream: u64, count: usize| -> Vec<f64> {
            let values = bells(seed.stream(stream), count);
            if case % 2 == 0 { values.into_iter().map(|v| (2.0 * v).round()).collect() } else { values }
        };
        let mut A = Array2::from_shape_vec((m, n), draw(0, m * n)).unwrap();
        if case % 5 == 0 {
            A.column_mut(0).mapv_inplace(|v| 1e3 * v);
        }
        let slack = if case % 4 == 0 { -0.5 } else { 0.5 };
        let b: Vec<f64> = draw(1, m).iter().map(|v| v.abs() + slack).collect();
        let A_eq = Array2::from_shape_vec((m_eq, n), draw(3, m_eq * n)).unwrap();
        let lp = Lp::new(Matrix::Dense(A), &b, &draw(2, n)).unwrap();
        let lp = lp.with_equalities(Matrix::Dense(A_eq), &vec![0.0; m_eq]).unwrap();
        let found = NewtonLp::default().solve(&lp).unwrap();
        match found.status {
            Status::Optimal => counts[0] += 1,
            Status::Infeasible => counts[1] += 1,
            Status::Unbounded => counts[2] += 1,
            Status::Inexact => panic!("{case}: {found:?}"),
        }
        // Zero is feasible where there is slack.
        assert!(slack < 0.0 || found.status != Status::Infeasible, "{case}: {found:?}");
    }
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
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
