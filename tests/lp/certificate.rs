//! What a solver claims: small programs with known answers, and the two that fool other rules.

use lastlayer::error::Error;
use lastlayer::lp::{
    Lp, Matrix, NewtonLp, Outer, PenaltyNewton, Published, Ray, SmoothNewton, Solver, Status,
};

use lastlayer::ndarray::{Array2, Axis, concatenate};

use super::{SEED, answer, assert_close, bells, lp, rows, states};

/// What two-digit programs are solved to.
const EXACT: f64 = 1e-9;

fn both() -> [NewtonLp; 2] {
    [NewtonLp::default(), NewtonLp { outer: Outer::Epsilon, ..NewtonLp::default() }]
}

#[test]
fn a_multiplier_that_stays_the_same_over_epsilon_may_still_be_wrong() {
    let e11 = lp(&[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], &[1.0, 1.0, 2.01], &[-1.0, -4.0]);
    // The paper's rule, two successive ε with the same v, holds here; the vertex of that v is infeasible by 0.01.
    for epsilon in [1.0, 0.1, 0.01, 0.006, 0.005] {
        let newton = PenaltyNewton { epsilon, ..PenaltyNewton::default() };
        let point = newton.solve(&e11).unwrap();
        assert!(point.converged);
        assert_close(&point.v, &[0.0, 3.0, 1.0], EXACT);
        let vertex = [1.01, 1.0];
        let gap = e11.objective(&vertex).unwrap() + 1.0 * 3.0 + 2.01 * 1.0;
        assert!(gap.abs() < EXACT, "the gap does not warn either: {gap}");
    }
    let small = PenaltyNewton { epsilon: 1e-3, ..PenaltyNewton::default() }.solve(&e11).unwrap();
    assert_close(&small.v, &[1.0, 4.0, 0.0], EXACT);
    for newton in both() {
        for epsilon in [1.0, 0.1, 0.01] {
            let found = NewtonLp { epsilon, ..newton.clone() }.solve(&e11).unwrap();
            assert_eq!(found.status, Status::Optimal);
            assert_close(&found.z, &[1.0, 1.0], EXACT);
            assert_close(&found.v, &[1.0, 4.0, 0.0], EXACT);
            // A fixed ε of 1 would take hundreds of rounds.
            assert!(found.rounds <= 10, "{found:?}");
        }
    }
}

#[test]
fn projection_takes_one_round_and_extrapolation_two() {
    let newton = NewtonLp { outer: Outer::Epsilon, ..NewtonLp::default() };
    let box_ = lp(&[[1.0, 0.0], [0.0, 1.0]], &[1.0, 2.0], &[-1.0, -1.0]);
    assert_eq!(newton.solve(&box_).unwrap().rounds, 1);
    // z₂ ≤ z₁ − 5 has no multiplier but touches the path (ε, ε − 5), whose projection (0, ε − 5) breaks it.
    let slanted = lp(&[[1.0, 0.0], [-1.0, 1.0]], &[0.0, -5.0], &[-1.0, 0.0]);
    let found = newton.solve(&slanted).unwrap();
    assert_eq!((found.status, found.rounds), (Status::Optimal, 2), "{found:?}");
    assert_close(&found.z, &[0.0, -5.0], EXACT);
}

#[test]
fn rows_without_a_multiplier_may_be_what_pins_the_solution() {
    // z₁ = 5 as two rows, and as an equality: min −z₂, z₂ ≤ 1.
    let twice = lp(&[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], &[5.0, -5.0, 1.0], &[0.0, -1.0]);
    let once = lp(&[[0.0, 1.0]], &[1.0], &[0.0, -1.0]).with_equalities(rows(&[[1.0, 0.0]]), &[5.0]).unwrap();
    for newton in both() {
        for (lp, degenerate) in [(&twice, true), (&once, false)] {
            let found = newton.solve(lp).unwrap();
            assert_eq!((found.status, found.degenerate), (Status::Optimal, degenerate));
            assert_close(&found.z, &[5.0, 1.0], EXACT);
        }
    }
}

#[test]
fn multipliers_that_are_not_unique_are_the_shortest() {
    // Dual optima (1 − s, 1 − s, s) for s in [0, 1]; the shortest minimises 2(1 − s)² + s², so s = 2/3.
    let three = lp(&[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], &[1.0, 1.0, 2.0], &[-1.0, -1.0]);
    let newton = PenaltyNewton { epsilon: 1e-3, ..PenaltyNewton::default() };
    let point = newton.solve(&three).unwrap();
    assert_close(&point.v, &[1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0], EXACT);
    let found = NewtonLp::default().solve(&three).unwrap();
    assert!(found.degenerate && found.status == Status::Optimal);
    // The same row twice shares its multiplier.
    let point = newton.solve(&lp(&[[1.0], [1.0]], &[1.0, 1.0], &[-1.0])).unwrap();
    assert_close(&point.v, &[0.5, 0.5], EXACT);
}

#[test]
fn solutions_that_are_not_unique_are_flagged() {
    // The whole edge z₁ + z₂ = 1 of the triangle is optimal.
    let edge = lp(&[[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], &[1.0, 0.0, 0.0], &[-1.0, -1.0]);
    let found = NewtonLp::default().solve(&edge).unwrap();
    assert!(found.status == Status::Optimal && found.degenerate);
    assert!((found.value + 1.0).abs() < EXACT);
}

#[test]
fn a_vertex_that_one_more_row_touches_is_flagged() {
    // Two rows carry multipliers, as many as variables, but the first row touches too and would take over.
    let touched = lp(&[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], &[1.0, 1.0, 2.0], &[-1.0, -10.0]);
    let found = NewtonLp::default().solve(&touched).unwrap();
    assert_eq!(found.active, vec![1, 2]);
    assert!(found.degenerate && found.status == Status::Optimal);
}

#[test]
fn small_and_odd_programs_have_their_answers() {
    let optimal: Vec<(&str, Lp, f64)> = vec![
        ("one variable", lp(&[[1.0], [-1.0]], &[3.0, 2.0], &[2.0]), -4.0),
        ("as many rows as variables", lp(&[[1.0, 0.0], [0.0, 1.0]], &[2.0, 3.0], &[-1.0, -1.0]), -5.0),
        ("fewer rows than variables", lp(&[[1.0, 1.0, 1.0]], &[1.0], &[-2.0, -2.0, -2.0]), -2.0),
        ("no objective", lp(&[[1.0, 1.0], [-1.0, 0.0]], &[-3.0, -7.0], &[0.0, 0.0]), 0.0),
        ("bounds of zero", lp(&[[-1.0, 0.0], [0.0, -1.0]], &[0.0, 0.0], &[1.0, 2.0]), 0.0),
        ("rows of zeros", lp(&[[0.0], [-1.0], [0.0]], &[0.0, -2.0, 5.0], &[1.0]), 2.0),
        ("the same row thrice", lp(&[[-1.0], [-1.0], [-1.0]], &[1.0, 1.0, 1.0], &[1.0]), -1.0),
        ("huge numbers", lp(&[[1e150]], &[1e160], &[-1e100]), -1e110),
        ("tiny numbers", lp(&[[1e-150]], &[1e-160], &[-1e-100]), -1e-110),
    ];
    for (name, lp, value) in optimal {
        let found = NewtonLp::default().solve(&lp).unwrap();
        assert_eq!(found.status, Status::Optimal, "{name}: {found:?}");
        let off = (found.value - value).abs() / value.abs().max(f64::MIN_POSITIVE);
        assert!(
            off < EXACT || found.value == value || value == 0.0 && found.value.abs() < EXACT,
            "{name}: {found:?}"
        );
        assert!(found.optimal().is_ok());
    }
    let equal = Lp::new(Matrix::empty(2), &[], &[1.0, 1.0]).unwrap();
    let equal = equal.with_equalities(rows(&[[1.0, 0.0], [0.0, 2.0]]), &[3.0, -8.0]).unwrap();
    let found = NewtonLp::default().solve(&equal).unwrap();
    assert_close(&found.z, &[3.0, -4.0], EXACT);
    assert_close(&found.v_eq, &[-1.0, -0.5], EXACT);
}

#[test]
fn programs_without_an_optimum_say_why() {
    let infeasible: Vec<(&str, Lp)> = vec![
        ("an empty row", lp(&[[0.0, 0.0], [1.0, 1.0]], &[-1.0, 1.0], &[1.0, 0.0])),
        ("an interval turned around", lp(&[[1.0], [-1.0]], &[-1.0, -1.0], &[0.5])),
        ("and no bound either", lp(&[[1.0, 0.0], [-1.0, 0.0]], &[-1.0, -1.0], &[0.0, 1.0])),
        ("rows that nearly fit", lp(&[[1.0], [-1.0]], &[1.0, -1.001], &[1.0])),
    ];
    let off = lp(&[[1.0, 0.0]], &[1.0], &[0.0, 0.0]);
    let clash = off.clone().with_equalities(rows(&[[1.0, 1.0], [2.0, 2.0]]), &[1.0, 3.0]).unwrap();
    let empty = off.with_equalities(rows(&[[0.0, 0.0]]), &[1.0]).unwrap();
    for (name, lp) in
        infeasible.into_iter().chain([("equalities that clash", clash), ("an empty equality", empty)])
    {
        for newton in both() {
            let found = newton.solve(&lp).unwrap();
            assert_eq!(found.status, Status::Infeasible, "{name}: {found:?}");
            let Some(Ray::Farkas { v, v_eq }) = &found.ray else { panic!("{name}: {found:?}") };
            let gain: f64 = lp.b.iter().zip(v).chain(lp.b_eq.iter().zip(v_eq)).map(|(b, v)| b * v).sum();
            assert!(gain < 0.0 && v.iter().all(|v| *v >= 0.0), "{name}: {found:?}");
            let error = found.optimal().unwrap_err();
            assert!(matches!(error, Error::Solve { .. }) && error.to_string().contains("Farkas"), "{error}");
        }
    }
    let unbounded: Vec<(&str, Lp)> = vec![
        ("a half line", lp(&[[-1.0]], &[0.0], &[-1.0])),
        ("fewer rows than variables", lp(&[[1.0, 1.0]], &[1.0], &[-1.0, 0.0])),
        ("no row at all", Lp::new(Matrix::empty(2), &[], &[1.0, 0.0]).unwrap()),
        ("a cone", lp(&[[-1.0, 0.0], [0.0, -1.0], [1.0, -1.0]], &[0.0, 0.0, 1.0], &[-1.0, 0.5])),
    ];
    for (name, lp) in unbounded {
        for newton in both() {
            let found = newton.solve(&lp).unwrap();
            assert_eq!(found.status, Status::Unbounded, "{name}: {found:?}");
            let Some(Ray::Descent { d }) = &found.ray else { panic!("{name}: {found:?}") };
            assert!(lp.objective(d).unwrap() < 0.0);
            assert!(lp.excess(&found.z).unwrap().iter().all(|r| *r <= EXACT), "{name}: {found:?}");
            assert!(found.optimal().unwrap_err().to_string().contains("ray"));
        }
    }
}

#[test]
fn what_decides_between_infeasible_and_unbounded_is_solved_once() {
    let mut decided = 0;
    for case in 90..130u64 {
        let seed = SEED.named("stuck").stream(case);
        let (n, m) = (2 + case as usize % 4, 4 + case as usize % 5);
        // Rows of length one and a cost of size one: nothing is scaled.
        let mut a = Array2::from_shape_vec((m, n), bells(seed, m * n)).unwrap();
        a.rows_mut().into_iter().for_each(|mut row| {
            let size = row.dot(&row).sqrt();
            row /= size;
        });
        let mut c = bells(seed.named("cost"), n);
        c[0] = 1.0;
        c.iter_mut().for_each(|c| *c = c.clamp(-1.0, 1.0));
        let b: Vec<f64> = bells(seed.named("bounds"), m).iter().map(|b| b - 0.5).collect();
        let lp = Lp::new(Matrix::Dense(a.clone()), &b, &c).unwrap();
        let newton = NewtonLp { max_steps: 1 + case as usize % 7, detect: false, ..NewtonLp::default() };
        let mut state = newton.init(&lp).unwrap();
        newton.run(&mut state).unwrap();
        let found = newton.finish(&state).unwrap();
        if found.status != Status::Unbounded {
            continue;
        }
        let mut start = found.clone();
        (start.z, start.v) = (state.z(), vec![0.0; m]);
        let any = Lp { c: vec![0.0; n], ..lp.clone() };
        let feasible = answer(&newton, newton.init_at(&any, &start).unwrap());
        let sides = Array2::from_shape_fn((2 * n, n), |(i, k)| {
            f64::from(u8::from(i % n == k)) * if i < n { 1.0 } else { -1.0 }
        });
        let cone = concatenate(Axis(0), &[a.view(), sides.view()]).unwrap();
        let bounds: Vec<f64> = (0..m + 2 * n).map(|j| if j < m { 0.0 } else { 1.0 }).collect();
        let ray = newton.solve(&Lp::new(Matrix::Dense(cone), &bounds, &c).unwrap()).unwrap();
        // A ray that Newton's method met needs a feasible point, and where it was stuck a ray is looked for as well.
        let (met, stuck) = (state.steps() + feasible.steps, state.steps() + feasible.steps + ray.steps);
        assert!(found.steps == met || found.steps == stuck, "{case}: {found:?}");
        decided += usize::from(found.steps == stuck);
    }
    assert!(decided > 0);
}

#[test]
fn a_solver_stopped_early_claims_nothing() {
    let c1a = lp(&[[-1.0, 3.0], [3.0, -3.0], [-1.0, 2.0]], &[1.0; 3], &[-2.0, 1.0]);
    let newton = NewtonLp::default();
    let start = newton.init(&c1a).unwrap();
    let found = newton.finish(&start).unwrap();
    assert_eq!(found.status, Status::Inexact);
    assert!(found.certificate.worst() > 1e-3 && found.optimal().is_err());
    let impatient = NewtonLp { max_steps: 1, max_rounds: 1, ..NewtonLp::default() };
    let found = impatient.solve(&c1a).unwrap();
    assert_ne!(found.status, Status::Infeasible);
    assert_ne!(found.status, Status::Unbounded);
    assert_eq!(found.status == Status::Optimal, found.certificate.worst() <= 1e-9);
}

#[test]
fn broken_rows_and_equalities_show_in_the_certificate() {
    let newton = NewtonLp::default();
    // At zero, a row is broken by 2 of 2 and an equality by 3 of 3: half of |b| / (1 + |b|) in units of b.
    let row = lp(&[[-1.0]], &[-2.0], &[1.0]);
    let equal =
        Lp::new(Matrix::empty(1), &[], &[1.0]).unwrap().with_equalities(rows(&[[1.0]]), &[-3.0]).unwrap();
    for lp in [row, equal] {
        let start = newton.init(&lp).unwrap().certificate();
        assert!(start.primal > 0.4 && start.dual > 0.9 && !start.holds(0.1), "{start:?}");
        assert!(newton.solve(&lp).unwrap().certificate.holds(1e-9));
    }
}

/// Whoever steps by hand ends where solving ends, and nothing is left to do there.
fn stepped<S: Solver<Problem = Lp, State: Clone, Answer: PartialEq + std::fmt::Debug>>(solver: &S, lp: &Lp) {
    let mut last = states(solver, solver.init(lp).unwrap()).pop().unwrap();
    for _ in 0..2 {
        assert_eq!(solver.finish(&last).unwrap(), solver.solve(lp).unwrap());
        assert!(solver.done(&last));
        solver.step(&mut last).unwrap();
    }
}

#[test]
fn driving_by_hand_is_the_same_as_solving() {
    let c1a = lp(&[[-1.0, 3.0], [3.0, -3.0], [-1.0, 2.0]], &[1.0; 3], &[-2.0, 1.0]);
    let newton = NewtonLp::default();
    let mut state = newton.init(&c1a).unwrap();
    let mut path = vec![state.z()];
    while !newton.done(&state) {
        let before = state.steps();
        newton.step(&mut state).unwrap();
        assert!(state.steps() <= before + 1);
        path.push(state.z());
    }
    let (by_hand, at_once) = (newton.finish(&state).unwrap(), newton.solve(&c1a).unwrap());
    assert_eq!(by_hand, at_once);
    assert_eq!(path.last().unwrap(), &by_hand.z);
    newton.step(&mut state).unwrap();
    assert_eq!(state.z(), by_hand.z);
    assert_close(&state.v(), &by_hand.v, 1e-15);
    assert_eq!(state.certificate(), by_hand.certificate);
    stepped(&newton, &c1a);
    stepped(&PenaltyNewton::default(), &c1a);
    stepped(&SmoothNewton::default(), &c1a);
    stepped(&Published::default(), &c1a);
}

#[test]
fn a_warm_start_takes_fewer_steps_to_the_same_optimum() {
    let lp = super::families::gaussian(super::SEED, 10, 40, 1);
    let cold = NewtonLp::default().solve(&lp).unwrap();
    let mut moved = lp.clone();
    moved.b.iter_mut().for_each(|b| *b += 1e-3);
    let newton = NewtonLp::default();
    let fresh = newton.solve(&moved).unwrap();
    let warm = answer(&newton, newton.init_at(&moved, &cold).unwrap());
    assert_eq!(warm.status, Status::Optimal);
    assert_close(&warm.z, &fresh.z, EXACT);
    assert!(2 * warm.steps <= fresh.steps, "{} and {}", warm.steps, fresh.steps);
    let other = super::families::gaussian(super::SEED, 9, 40, 1);
    assert!(matches!(newton.init_at(&other, &cold).unwrap_err(), Error::Shape { .. }));
}
