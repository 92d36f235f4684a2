//! Programs: forms, and what is refused before any work.

use lastlayer::error::Error;
use lastlayer::lp::{Lp, Matrix, NewtonLp, PenaltyNewton, Published, SmoothNewton, Solver, Status, UserForm};
use lastlayer::ndarray::{Array2, array};

use super::{assert_close, lp, rows};

const BAD: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// max 3u₁ + 2u₂ + v subject to u₁ + u₂ ≤ 4, u₁ + v ≤ 3, u₂ − v = 1.
fn user_form() -> UserForm {
    UserForm {
        g: vec![3.0, 2.0],
        h: vec![1.0],
        E: array![[1.0, 1.0], [1.0, 0.0]],
        F: array![[0.0], [1.0]],
        p: vec![4.0, 3.0],
        B: array![[0.0, 1.0]],
        G: array![[-1.0]],
        q: vec![1.0],
    }
}

#[test]
fn the_user_form_becomes_canonical() {
    let lp = user_form().canonical().unwrap();
    assert_eq!((lp.n(), lp.m(), lp.b_eq.len()), (3, 5, 1));
    assert_eq!(lp.c, vec![-3.0, -2.0, -1.0]);
    assert_eq!(lp.A.row(1), vec![1.0, 0.0, 1.0]);
    assert_eq!(lp.A.row(4), vec![0.0, 0.0, -1.0]);
    let found = NewtonLp::default().solve(&lp).unwrap();
    // By hand: v = u₂ − 1 makes it max 3(u₁ + u₂) − 1 with u₁ + u₂ ≤ 4 twice, so 11 along a whole edge.
    assert_eq!(found.status, Status::Optimal);
    assert!((found.value + 11.0).abs() < 1e-9, "{found:?}");
    assert!(found.degenerate);
}

#[test]
fn the_short_user_form_has_only_inequalities_and_signs() {
    // The textbook's: max 3x + 5y, x ≤ 4, 2y ≤ 12, 3x + 2y ≤ 18: 36 at (2, 6).
    let form =
        UserForm::maximise(&[3.0, 5.0], array![[1.0, 0.0], [0.0, 2.0], [3.0, 2.0]], &[4.0, 12.0, 18.0]);
    let found = NewtonLp::default().solve(&form.canonical().unwrap()).unwrap();
    assert_close(&found.z, &[2.0, 6.0], 1e-9);
    assert_close(&found.v, &[0.0, 1.5, 1.0, 0.0, 0.0], 1e-9);
    assert!((found.value + 36.0).abs() < 1e-8 && !found.degenerate);
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    for block in 0..4 {
        let mut form = user_form();
        let wrong = Array2::zeros((7, 7));
        match block {
            0 => form.E = wrong,
            1 => form.F = wrong,
            2 => form.B = wrong,
            _ => form.G = wrong,
        }
        assert!(matches!(form.canonical().unwrap_err(), Error::Shape { .. }));
    }
}

#[test]
fn shapes_that_do_not_agree_are_refused() {
    let a = || rows(&[[1.0, 0.0], [0.0, 1.0]]);
    for (b, c) in [(vec![1.0], vec![1.0; 2]), (vec![1.0; 2], vec![1.0; 3]), (vec![1.0; 2], vec![])] {
        assert!(matches!(Lp::new(a(), &b, &c).unwrap_err(), Error::Shape { .. }));
    }
    let good = Lp::new(a(), &[1.0; 2], &[1.0; 2]).unwrap();
    assert!(matches!(good.clone().with_equalities(a(), &[1.0]).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(good.with_equalities(rows(&[[1.0]]), &[1.0]).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(Matrix::dense(vec![1.0, 2.0]).unwrap_err(), Error::Shape { .. }));
    assert_eq!(Matrix::dense(array![[1.0f32, 2.0]]).unwrap().row(0), vec![1.0, 2.0]);
}

#[test]
fn numbers_that_are_not_finite_are_refused_everywhere() {
    let good = lp(&[[1.0, 0.5], [0.0, 1.0]], &[1.0, 1.0], &[-1.0, -1.0]);
    let good = good.with_equalities(rows(&[[1.0, -1.0]]), &[0.0]).unwrap();
    for bad in BAD {
        for place in 0..5 {
            let mut lp = good.clone();
            match place {
                0 => lp.A = rows(&[[1.0, bad], [0.0, 1.0]]),
                1 => lp.b[1] = bad,
                2 => lp.c[0] = bad,
                3 => lp.A_eq = rows(&[[bad, -1.0]]),
                _ => lp.b_eq[0] = bad,
            }
            // Also if the fields were changed after the checks of the constructor.
            let errors = [
                NewtonLp::default().solve(&lp).unwrap_err(),
                Published::default().solve(&lp).unwrap_err(),
                PenaltyNewton::default().solve(&lp).unwrap_err(),
                SmoothNewton::default().solve(&lp).unwrap_err(),
            ];
            assert!(errors.iter().all(|e| matches!(e, Error::Data { .. })), "{place} {bad}: {errors:?}");
        }
        assert!(matches!(
            PenaltyNewton::default().init_at(&good, &[bad, 0.0]).unwrap_err(),
            Error::Data { .. }
        ));
        assert!(matches!(
            SmoothNewton::default().init_at(&good, &[bad, 0.0]).unwrap_err(),
            Error::Data { .. }
        ));
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let good = lp(&[[1.0]], &[1.0], &[-1.0]);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let newton = NewtonLp { epsilon: bad, ..NewtonLp::default() };
        assert!(matches!(newton.solve(&good).unwrap_err(), Error::Config { .. }));
        let newton = NewtonLp { tolerance: bad, ..NewtonLp::default() };
        assert!(matches!(newton.solve(&good).unwrap_err(), Error::Config { .. }));
        let published = Published { delta: bad, ..Published::default() };
        assert!(matches!(published.solve(&good).unwrap_err(), Error::Config { .. }));
        let smooth = SmoothNewton { sharpness: bad, ..SmoothNewton::default() };
        assert!(matches!(smooth.solve(&good).unwrap_err(), Error::Config { .. }));
    }
    assert!(matches!(PenaltyNewton::default().init_at(&good, &[0.0; 2]).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(good.excess(&[0.0; 2]).unwrap_err(), Error::Shape { .. }));
}
