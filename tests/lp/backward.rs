//! Gradients, each against finite differences.

use lastlayer::error::Error;
use lastlayer::lp::{
    Gradients, Lp, Matrix, NewtonLp, PenaltyNewton, PenaltyPoint, Solution, Solver, Status, active_set,
    envelope, one_step, penalty_implicit,
};
use lastlayer::ndarray::Array2;
use lastlayer::seed::Seed;

use super::families::gaussian;
use super::{SEED, answer, assert_close, bells, differences, dot, lp, scores, uniforms};

/// Step of central differences; vertices move linearly in b and nearly so in A, so rounding of the solver decides.
const STEP: f64 = 1e-5;

/// 1e-12 of the solver over the step, and the step squared.
const DIFFERENCE: f64 = 1e-6;

/// The same for the penalty, whose condition is squared.
const PENALTY_DIFFERENCE: f64 = 2e-5;

/// Programs of several shapes, none degenerate.
fn programs() -> Vec<Lp> {
    let sizes = [(2, 6, 0), (3, 8, 0), (4, 9, 1), (5, 14, 2), (1, 3, 0)];
    let draw = |(i, (n, m, m_eq)): (usize, &(usize, usize, usize))| {
        gaussian(SEED.named("backward").stream(i as u64), *n, *m, *m_eq)
    };
    sizes.iter().enumerate().map(draw).collect()
}

/// Tighter than usual, so that differences are of the solution and not of the solver.
fn solved(lp: &Lp) -> Solution {
    let found = NewtonLp { tolerance: 1e-12, ..NewtonLp::default() }.solve(lp).unwrap();
    assert!(found.status == Status::Optimal && !found.degenerate, "{found:?}");
    found
}

fn minimised(lp: &Lp, epsilon: f64) -> PenaltyPoint {
    let newton = PenaltyNewton { epsilon, tolerance: 1e-13, ..PenaltyNewton::default() };
    newton.solve(lp).unwrap()
}

/// Which numbers of a program are moved.
#[derive(Clone, Copy, Debug)]
enum Part {
    A,
    B,
    C,
    AEq,
    BEq,
}

const PARTS: [Part; 5] = [Part::A, Part::B, Part::C, Part::AEq, Part::BEq];

fn numbers(lp: &Lp, part: Part) -> Vec<f64> {
    match part {
        Part::A => lp.A.to_dense().iter().copied().collect(),
        Part::B => lp.b.clone(),
        Part::C => lp.c.clone(),
        Part::AEq => lp.A_eq.to_dense().iter().copied().collect(),
        Part::BEq => lp.b_eq.clone(),
    }
}

fn replaced(lp: &Lp, part: Part, values: &[f64]) -> Lp {
    let shaped =
        |rows: usize| Matrix::Dense(Array2::from_shape_vec((rows, lp.n()), values.to_vec()).unwrap());
    let mut lp = lp.clone();
    match part {
        Part::A => lp.A = shaped(lp.m()),
        Part::B => lp.b = values.to_vec(),
        Part::C => lp.c = values.to_vec(),
        Part::AEq => lp.A_eq = shaped(lp.b_eq.len()),
        Part::BEq => lp.b_eq = values.to_vec(),
    }
    lp
}

fn gradient(gradients: &Gradients, part: Part) -> Vec<f64> {
    match part {
        Part::A => gradients.A.to_dense().iter().copied().collect(),
        Part::B => gradients.b.clone(),
        Part::C => gradients.c.clone(),
        Part::AEq => gradients.A_eq.to_dense().iter().copied().collect(),
        Part::BEq => gradients.b_eq.clone(),
    }
}

#[track_caller]
fn compare(lp: &Lp, gradients: &Gradients, tolerance: f64, loss: impl Fn(&Lp) -> f64) {
    for part in PARTS {
        let numeric = differences(&numbers(lp, part), STEP, |values| loss(&replaced(lp, part, values)));
        assert_close(&gradient(gradients, part), &numeric, tolerance);
    }
}

#[test]
fn envelope_is_the_gradient_of_the_value() {
    for lp in programs() {
        compare(&lp, &envelope(&solved(&lp)), DIFFERENCE, |lp| solved(lp).value);
    }
}

#[test]
fn envelope_of_the_penalty_is_the_gradient_of_its_value() {
    for lp in programs() {
        let point = minimised(&lp, 0.1);
        compare(&lp, &point.envelope(), DIFFERENCE, |lp| minimised(lp, 0.1).value);
    }
}

#[test]
fn active_set_is_the_derivative_of_the_solution() {
    for lp in programs() {
        let z_bar = bells(SEED.named("cotangent"), lp.n());
        let gradients = active_set(&lp, &solved(&lp), &z_bar).unwrap();
        compare(&lp, &gradients, DIFFERENCE, |lp| dot(&z_bar, &solved(lp).z));
        // The vertex does not move with c, so the numeric derivative is rounding, and ours is zero.
        assert!(gradients.c.iter().all(|c| *c == 0.0));
    }
}

#[test]
fn penalty_gradients_match_finite_differences() {
    for lp in programs() {
        for epsilon in [0.1, 1.0] {
            let point = minimised(&lp, epsilon);
            let (y_bar, v_bar) = (bells(SEED.named("y"), lp.n()), bells(SEED.named("v"), lp.m()));
            let of_y = penalty_implicit(&lp, &point, &y_bar, None).unwrap();
            compare(&lp, &of_y, PENALTY_DIFFERENCE, |lp| dot(&y_bar, &minimised(lp, epsilon).y));
            let of_both = penalty_implicit(&lp, &point, &y_bar, Some(&v_bar)).unwrap();
            compare(&lp, &of_both, PENALTY_DIFFERENCE, |lp| {
                let point = minimised(lp, epsilon);
                dot(&y_bar, &point.y) + dot(&v_bar, &point.v)
            });
        }
    }
}

#[test]
fn one_step_at_the_minimum_is_the_implicit_gradient() {
    for lp in programs() {
        let point = minimised(&lp, 0.1);
        let y_bar = bells(SEED.named("y"), lp.n());
        let implicit = penalty_implicit(&lp, &point, &y_bar, None).unwrap();
        let unrolled = one_step(&lp, &point, &y_bar).unwrap();
        for part in PARTS {
            assert_close(&gradient(&implicit, part), &gradient(&unrolled, part), 1e-9);
        }
    }
}

#[test]
fn one_step_is_the_derivative_of_a_newton_step_from_any_point() {
    for lp in programs() {
        let y = bells(SEED.named("anywhere"), lp.n()).iter().map(|y| 3.0 * y).collect::<Vec<_>>();
        let newton = PenaltyNewton {
            epsilon: 0.1,
            rule: lastlayer::lp::StepRule::Fixed(1.0),
            max_steps: 1,
            ..PenaltyNewton::default()
        };
        let start = newton.finish(&newton.init_at(&lp, &y).unwrap()).unwrap();
        let active = start.v.iter().filter(|v| **v > 0.0).count() + lp.b_eq.len();
        if active < lp.n() {
            // A singular Hessian would be shifted, and the step with it.
            continue;
        }
        let y_bar = bells(SEED.named("y"), lp.n());
        let gradients = one_step(&lp, &start, &y_bar).unwrap();
        let next = |lp: &Lp| answer(&newton, newton.init_at(lp, &y).unwrap()).y;
        compare(&lp, &gradients, PENALTY_DIFFERENCE, |lp| dot(&y_bar, &next(lp)));
    }
}

#[test]
fn the_penalty_tends_to_the_active_set_in_a_and_b_and_to_zero_in_c() {
    for lp in programs() {
        let z_bar = bells(SEED.named("cotangent"), lp.n());
        let exact = active_set(&lp, &solved(&lp), &z_bar).unwrap();
        let off = |epsilon: f64, part: Part| {
            let soft = penalty_implicit(&lp, &minimised(&lp, epsilon), &z_bar, None).unwrap();
            let pairs = gradient(&exact, part).into_iter().zip(gradient(&soft, part));
            pairs.map(|(e, s)| (e - s).abs()).fold(0.0, f64::max)
        };
        for part in [Part::A, Part::B, Part::C] {
            let (far, near) = (off(1e-4, part), off(1e-5, part));
            // Linear in ε, or nothing at all: b does not depend on ε once the active set is right.
            assert!(near < 1e-8 || (near / far - 0.1).abs() < 1e-2, "{part:?}: {far} {near}");
        }
        assert!(off(1e-4, Part::C) > 0.0);
    }
}

#[test]
fn scaling_a_row_changes_nothing_so_its_gradients_balance() {
    for lp in programs() {
        let found = solved(&lp);
        let gradients = active_set(&lp, &found, &bells(SEED.named("cotangent"), lp.n())).unwrap();
        let along = &gradients.A.to_dense() * &lp.A.to_dense();
        for (j, row) in along.rows().into_iter().enumerate() {
            assert!((row.sum() + gradients.b[j] * lp.b[j]).abs() < 1e-9);
        }
        let mut scaled = lp.clone();
        let mut a = lp.A.to_dense();
        a.row_mut(0).mapv_inplace(|v| 1000.0 * v);
        (scaled.A, scaled.b[0]) = (Matrix::Dense(a), 1000.0 * lp.b[0]);
        assert_close(&solved(&scaled).z, &found.z, 1e-10);
    }
}

#[test]
fn scaling_columns_scales_the_solution_and_leaves_the_gradient_in_b() {
    for lp in programs() {
        let units: Vec<f64> = (0..lp.n()).map(|k| [1e-3, 1.0, 1e4][k % 3]).collect();
        let multiplied = |a: &Matrix| {
            let mut a = a.to_dense();
            a.columns_mut().into_iter().zip(&units).for_each(|(mut column, unit)| column *= *unit);
            Matrix::Dense(a)
        };
        let c = lp.c.iter().zip(&units).map(|(c, unit)| c * unit).collect();
        let scaled = Lp { A: multiplied(&lp.A), A_eq: multiplied(&lp.A_eq), c, ..lp.clone() };
        let z_bar = bells(SEED.named("cotangent"), lp.n());
        // The new z is the old one over the units, so its gradient is the old one times them.
        let scaled_bar: Vec<f64> = z_bar.iter().zip(&units).map(|(z, unit)| z * unit).collect();
        let plain = active_set(&lp, &solved(&lp), &z_bar).unwrap();
        let other = active_set(&scaled, &solved(&scaled), &scaled_bar).unwrap();
        assert_close(&plain.b, &other.b, 1e-9);
        assert_close(&plain.b_eq, &other.b_eq, 1e-9);
    }
}

#[test]
fn structured_gradients_are_the_dense_ones() {
    let (s, y) = scores(12, SEED.named("backward"));
    let lp = Lp::precision_at_recall(&s, &y, 0.7, 0.5).unwrap();
    let dense = Lp { A: Matrix::Dense(lp.A.to_dense()), ..lp.clone() };
    let (a, b) = (solved(&lp), NewtonLp { detect: false, ..NewtonLp::default() }.solve(&dense).unwrap());
    let z_bar = bells(SEED, lp.n());
    let (a, b) = (active_set(&lp, &a, &z_bar).unwrap(), active_set(&dense, &b, &z_bar).unwrap());
    for part in PARTS {
        assert_close(&gradient(&a, part), &gradient(&b, part), 1e-7);
    }
}

#[test]
fn a_degenerate_solution_has_a_gradient_that_its_equations_allow() {
    // Three rows through one vertex of the plane.
    let three = lp(&[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], &[1.0, 1.0, 2.0], &[-1.0, -1.5]);
    let found = NewtonLp::default().solve(&three).unwrap();
    assert!(found.degenerate);
    let gradients = active_set(&three, &found, &[1.0, 2.0]).unwrap();
    // A'w = z̄ still holds, for one of many w.
    let w = &gradients.b;
    assert_close(&[w[0] + w[2], w[1] + w[2]], &[1.0, 2.0], 1e-6);
}

/// ∂z/∂b, a row for each entry of z.
fn jacobian(lp: &Lp, found: &Solution) -> Vec<Vec<f64>> {
    let unit = |k: usize| (0..lp.n()).map(|i| f64::from(u8::from(i == k))).collect::<Vec<f64>>();
    (0..lp.n()).map(|k| active_set(lp, found, &unit(k)).unwrap().b).collect()
}

/// The solution, which may be degenerate.
fn optimum(lp: &Lp) -> Solution {
    let found = NewtonLp::default().solve(lp).unwrap();
    assert_eq!(found.status, Status::Optimal, "{found:?}");
    found
}

/// Fails unless ∂z/∂b is the one of a proper vertex after a small change of b.
#[track_caller]
fn assert_derivative_of_a_program_beside(lp: &Lp, seed: Seed) {
    let found = optimum(lp);
    assert!(found.degenerate, "{found:?}");
    let here = jacobian(lp, &found);
    let apart = |other: &[Vec<f64>]| {
        let pairs = here.iter().flatten().zip(other.iter().flatten());
        pairs.fold(0.0f64, |most, (a, b)| most.max((a - b).abs()))
    };
    let mut nearest = f64::INFINITY;
    for draw in 0..60 {
        let mut beside = lp.clone();
        let noise = uniforms(seed.stream(draw), lp.m());
        // At random, and so that rows which z does not follow come off.
        for (j, u) in noise.into_iter().enumerate() {
            let followed = here.iter().any(|row| row[j] != 0.0);
            beside.b[j] += if draw < 30 { 0.05 * u } else { 1e-3 * u + f64::from(u8::from(!followed)) };
        }
        let near = NewtonLp::default().solve(&beside).unwrap();
        if near.status == Status::Optimal && !near.degenerate {
            nearest = nearest.min(apart(&jacobian(&beside, &near)));
        }
    }
    assert!(nearest < 1e-6, "{nearest}: {here:?}");
}

#[test]
fn a_degenerate_vertex_has_the_derivative_of_a_program_beside_it() {
    // The example of the chapter: least squares gives z₂ a derivative in the first and the third row, and it has none.
    let three = lp(&[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], &[1.0, 1.0, 2.0], &[-1.0, -1.5]);
    assert_derivative_of_a_program_beside(&three, SEED.named("three"));
    assert_close(&jacobian(&three, &optimum(&three))[1], &[0.0, 1.0, 0.0], 1e-9);
    // One of the two bases has n positive multipliers, the other a single one: only the first is a proper vertex beside.
    let even = lp(&[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], &[1.0, 1.0, 2.0], &[-1.0, -1.0]);
    assert_derivative_of_a_program_beside(&even, SEED.named("even"));
    // Six random rows through one point of space, and two that are not.
    for case in 0..20 {
        let seed = SEED.named("degenerate").stream(case);
        let a = Array2::from_shape_vec((8, 3), bells(seed, 24)).unwrap();
        let point = bells(seed.named("point"), 3);
        let b: Vec<f64> =
            (0..8).map(|j| dot(&a.row(j).to_vec(), &point) + f64::from(u8::from(j > 5))).collect();
        let weights = uniforms(seed.named("weights"), 6);
        let c: Vec<f64> = (0..3).map(|k| -(0..6).map(|j| weights[j] * a[[j, k]]).sum::<f64>()).collect();
        let many = Lp::new(Matrix::Dense(a), &b, &c).unwrap();
        assert_derivative_of_a_program_beside(&many, seed.named("beside"));
    }
    // A pair exactly at its margin: both rows hold it, and either may.
    let tie = Lp::auc([0.5, 0.0, 2.0], [1, 0, 0], 0.5).unwrap();
    assert_derivative_of_a_program_beside(&tie, SEED.named("tie"));
}

#[test]
fn what_the_solver_factored_is_not_factored_again() {
    let mut kept = 0;
    for program in programs() {
        let z_bar = bells(SEED.named("cotangent"), program.n());
        for detect in [true, false] {
            let found = NewtonLp { detect, ..NewtonLp::default() }.solve(&program).unwrap();
            assert!(!found.degenerate);
            assert_eq!(active_set(&program, &found, &z_bar).unwrap().factors, 0);
        }
        let found = solved(&program);
        let point = minimised(&program, 1e-3);
        let factors = penalty_implicit(&program, &point, &z_bar, None).unwrap().factors;
        assert_eq!(one_step(&program, &point, &z_bar).unwrap().factors, factors);
        kept += usize::from(factors == 0);
        assert_eq!(envelope(&found).factors, 0);
        // Another matrix has another factor: with every entry doubled, half of the gradient in b.
        let double = |a: &Matrix| Matrix::Dense(&a.to_dense() * 2.0);
        let other = Lp { A: double(&program.A), A_eq: double(&program.A_eq), ..program.clone() };
        let (plain, doubled) =
            (active_set(&program, &found, &z_bar).unwrap(), active_set(&other, &found, &z_bar).unwrap());
        assert_close(&doubled.b.iter().map(|b| 2.0 * b).collect::<Vec<_>>(), &plain.b, 1e-9);
    }
    // The last step may cross a border, as it does in one variable; mostly it does not.
    assert!(kept >= 3, "{kept}");
    // What cannot be kept is made: where no step was needed, or where rows have to be chosen.
    let one = lp(&[[-1.0]], &[-1.0], &[1.0]);
    let newton = PenaltyNewton::default();
    let at = newton.solve(&one).unwrap();
    let again = answer(&newton, newton.init_at(&one, &at.y).unwrap());
    assert_eq!(again.steps, 0);
    assert_eq!(penalty_implicit(&one, &again, &[1.0], None).unwrap().factors, 1);
    let three = lp(&[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], &[1.0, 1.0, 2.0], &[-1.0, -1.5]);
    assert_eq!(active_set(&three, &optimum(&three), &[1.0, 0.0]).unwrap().factors, 2);
}

#[test]
fn gradients_of_what_is_not_optimal_or_does_not_fit_are_refused() {
    let half = lp(&[[-1.0]], &[0.0], &[-1.0]);
    let found = NewtonLp::default().solve(&half).unwrap();
    assert!(matches!(active_set(&half, &found, &[1.0]).unwrap_err(), Error::Solve { .. }));
    let good = lp(&[[1.0]], &[1.0], &[-1.0]);
    let found = NewtonLp::default().solve(&good).unwrap();
    assert!(matches!(active_set(&good, &found, &[1.0, 2.0]).unwrap_err(), Error::Shape { .. }));
    let more = lp(&[[-1.0], [1.0]], &[0.0, 1.0], &[-1.0]);
    let of_more = NewtonLp::default().solve(&more).unwrap();
    assert!(matches!(active_set(&good, &of_more, &[1.0]).unwrap_err(), Error::Shape { .. }));
    let mut changed = found.clone();
    changed.active = vec![1];
    assert!(matches!(active_set(&good, &changed, &[1.0]).unwrap_err(), Error::Shape { .. }));
    let point = PenaltyNewton::default().solve(&good).unwrap();
    assert!(matches!(penalty_implicit(&good, &point, &[], None).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(penalty_implicit(&good, &point, &[1.0], Some(&[])).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(one_step(&good, &point, &[]).unwrap_err(), Error::Shape { .. }));
}
