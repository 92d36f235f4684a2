//! Solves behind the solvers: factors, projections, structure.

use lastlayer::error::Error;
use lastlayer::linalg::{Cholesky, shortest_solution};
use lastlayer::lp::{
    Lp, Matrix, NewtonLp, PenaltyNewton, Row, Shift, SmoothNewton, Solver, StepRule, Structured,
};
use lastlayer::ndarray::{Array1, Array2};

use super::families::gaussian;
use super::{SEED, answer, assert_close, bell, bells, scores, uniforms};

/// Solves of systems with a condition of about a thousand keep all but four digits.
const SOLVE: f64 = 1e-11;

#[test]
fn cholesky_solves_and_reports_its_least_pivot() {
    for n in [1, 2, 7, 8, 9, 40] {
        let a = Array2::from_shape_fn((n + 3, n), |(i, j)| bell(SEED.stream(n as u64), i * n + j));
        let h = a.t().dot(&a);
        let x = Array1::from(bells(SEED.stream(99), n));
        let factor = Cholesky::new(&h).unwrap();
        assert_close(&factor.solve(&h.dot(&x).to_vec()).unwrap(), &x.to_vec(), SOLVE);
        assert!(factor.least_pivot() > 0.0 && factor.least_pivot() <= h[[0, 0]]);
    }
    let singular = Array2::from_elem((3, 3), 1.0);
    assert!(matches!(Cholesky::new(&singular).unwrap_err(), Error::Solve { .. }));
    assert!(matches!(Cholesky::new(&Array2::zeros((2, 3))).unwrap_err(), Error::Shape { .. }));
    let nan = Array2::from_elem((2, 2), f64::NAN);
    assert!(matches!(Cholesky::new(&nan).unwrap_err(), Error::Solve { .. }));
    let factor = Cholesky::new(&Array2::eye(2)).unwrap();
    assert!(matches!(factor.solve(&[1.0]).unwrap_err(), Error::Shape { .. }));
}

#[test]
fn the_shortest_solution_solves_lies_in_the_rows_and_knows_the_rank() {
    for (rank, rows, columns) in [(2, 5, 4), (3, 3, 7), (4, 9, 4), (1, 4, 1)] {
        // A product of two thin factors has the rank of the thinner.
        let left = Array2::from_shape_fn((rows, rank), |(i, j)| bell(SEED.stream(1), i * rank + j));
        let right = Array2::from_shape_fn((rank, columns), |(i, j)| bell(SEED.stream(2), i * columns + j));
        let a = left.dot(&right);
        let target = a.dot(&Array1::from(bells(SEED.stream(3), columns)));
        let (x, found) = shortest_solution(&a, &target.to_vec()).unwrap();
        assert_eq!(found, rank.min(columns));
        let x = Array1::from(x);
        assert_close(&a.dot(&x).to_vec(), &target.to_vec(), SOLVE);
        // In the span of the rows: solving for A x again from there changes nothing.
        let inside = a.t().dot(&Array1::from(bells(SEED.stream(4), rows)));
        let (again, _) = shortest_solution(&a, &a.dot(&inside).to_vec()).unwrap();
        assert_close(&again, &inside.to_vec(), SOLVE);
    }
    let (x, rank) = shortest_solution(&Array2::zeros((2, 3)), &[1.0, 1.0]).unwrap();
    assert_eq!((x, rank), (vec![0.0; 3], 0));
    assert!(matches!(shortest_solution(&Array2::zeros((2, 3)), &[1.0]).unwrap_err(), Error::Shape { .. }));
}

/// The programs of the metrics, in their structured form.
fn metric_programs() -> Vec<(&'static str, Lp)> {
    let (s, y) = scores(14, SEED.named("structure"));
    let r: Vec<f64> = s.iter().map(|s| 1.0 / (1.0 + (-s).exp())).collect();
    vec![
        ("auc", Lp::auc(&s, &y, 0.3).unwrap()),
        ("f_train", Lp::f_train(&r, &y, 1.0).unwrap()),
        ("f_infer", Lp::f_infer(&r, 1.0).unwrap()),
        ("precision_at_recall", Lp::precision_at_recall(&s, &y, 0.8, 0.5).unwrap()),
        ("recall_at_precision", Lp::recall_at_precision(&s, &y, 0.3, 0.5).unwrap()),
    ]
}

fn as_dense(lp: &Lp) -> Lp {
    Lp { A: Matrix::Dense(lp.A.to_dense()), A_eq: Matrix::Dense(lp.A_eq.to_dense()), ..lp.clone() }
}

#[test]
fn structured_and_dense_agree() {
    for (name, lp) in metric_programs() {
        let dense = as_dense(&lp);
        let z = bells(SEED.named(name), lp.n());
        assert_close(&lp.excess(&z).unwrap(), &dense.excess(&z).unwrap(), SOLVE);
        // The same Newton steps, whatever is added to the Hessian.
        for shift in [Shift::Always(1e-2), Shift::Always(1.0), Shift::IfSingular] {
            let newton = PenaltyNewton { shift, rule: StepRule::LineSearch, ..PenaltyNewton::default() };
            let (mut a, mut b) = (newton.init_at(&lp, &z).unwrap(), newton.init_at(&dense, &z).unwrap());
            for _ in 0..4 {
                newton.step(&mut a).unwrap();
                newton.step(&mut b).unwrap();
                // A shift of 1e-6 leaves six digits less.
                assert_close(&a.y, &b.y, if shift == Shift::IfSingular { 1e-7 } else { SOLVE });
            }
        }
        // Weights between 0 and 1.
        let smooth = SmoothNewton { sharpness: 2.0, max_steps: 5, ..SmoothNewton::default() };
        let [a, b] = [&lp, &dense].map(|lp| answer(&smooth, smooth.init_at(lp, &z).unwrap()));
        assert_close(&a.y, &b.y, 1e-8);
        let solver = NewtonLp { detect: false, ..NewtonLp::default() };
        let (a, b) = (solver.solve(&lp).unwrap(), solver.solve(&dense).unwrap());
        assert_eq!(
            (a.status, b.status),
            (lastlayer::lp::Status::Optimal, lastlayer::lp::Status::Optimal),
            "{name}"
        );
        assert!((a.value - b.value).abs() < 1e-9, "{name}: {} {}", a.value, b.value);
    }
}

#[test]
fn structure_is_found_in_dense_matrices_and_only_where_there_is_some() {
    for (name, lp) in metric_programs() {
        let Matrix::Structured(given) = &lp.A else { panic!("{name} is dense") };
        let Matrix::Structured(found) = Matrix::Dense(lp.A.to_dense()).detect() else {
            panic!("nothing found in {name}")
        };
        assert_eq!(found.border(), given.border(), "{name}");
        assert_eq!(Matrix::Structured(found).to_dense(), lp.A.to_dense(), "{name}");
    }
    let random = gaussian(SEED, 30, 60, 0).A;
    assert_eq!(random.detect(), random);
}

#[test]
fn a_structured_matrix_refuses_rows_that_do_not_fit() {
    let thin = |own, shared| Row::Thin { own, shared };
    let bad = [
        (vec![5], vec![]),
        (vec![1], vec![thin(Some((1, 1.0)), vec![0.0])]),
        (vec![1], vec![thin(Some((9, 1.0)), vec![0.0])]),
    ];
    for (shared, rows) in bad {
        assert!(matches!(Structured::new(3, shared, rows).unwrap_err(), Error::Config { .. }));
    }
    for rows in [vec![thin(None, vec![])], vec![Row::Full(vec![1.0; 2])]] {
        assert!(matches!(Structured::new(3, vec![1], rows).unwrap_err(), Error::Shape { .. }));
    }
}

#[test]
fn rows_of_a_structured_matrix_may_be_empty_or_shared_only() {
    let rows = vec![
        Row::Thin { own: None, shared: vec![2.0] },
        Row::Thin { own: None, shared: vec![0.0] },
        Row::Thin { own: Some((0, -1.0)), shared: vec![0.5] },
        Row::Full(vec![1.0, 2.0, 3.0]),
    ];
    let a = Matrix::Structured(Structured::new(3, vec![2], rows).unwrap());
    let expected = [[0.0, 0.0, 2.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 0.5], [1.0, 2.0, 3.0]];
    assert_eq!(a.to_dense(), Array2::from(expected.to_vec()));
    assert_eq!((a.get(4, 0), a.get(0, 3), a.row(3)), (0.0, 0.0, vec![1.0, 2.0, 3.0]));
    let u = uniforms(SEED, 3);
    let lp = Lp::new(a, &[0.0; 4], &[1.0; 3]).unwrap();
    assert_close(&lp.excess(&u).unwrap(), &as_dense(&lp).excess(&u).unwrap(), SOLVE);
}
