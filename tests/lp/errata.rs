//! Numbers of the errata that belong to no chapter.

use lastlayer::lp::Lp;

use super::definitions::{Program, program};
use super::{SEED, assert_close, differences, scores};

#[test]
fn programs_of_metrics_have_two_or_three_times_as_many_rows_as_variables() {
    let (s, y) = scores(40, SEED.named("rows"));
    let ranking = Lp::auc(&s, &y[..], 0.1).unwrap();
    assert_eq!(ranking.m(), 2 * ranking.n());
    let links: Vec<f64> = s.iter().map(|s| 1.0 / (1.0 + (-s).exp())).collect();
    let fractional = Lp::f_train(&links, &y[..], 1.0).unwrap();
    assert_eq!((fractional.n(), fractional.m()), (41, 121));
    let recall = Lp::precision_at_recall(&s, &y[..], 0.8, 0.1).unwrap();
    assert_eq!((recall.n(), recall.m()), (41, 81));
}

/// A' 1[A y > b], which the paper prints for the gradient of |(A y − b)₊|² if the sketch is the identity.
fn printed(program: &Program, y: &[f64]) -> Vec<f64> {
    let signs: Vec<f64> = program.residual(y).iter().map(|r| f64::from(u8::from(*r > 0.0))).collect();
    program.pull(&signs)
}

#[test]
fn the_printed_sketched_gradient_does_not_see_how_far_rows_are_violated() {
    let program = program(&[[1.0, 2.0], [-1.0, 1.0], [0.0, -1.0]], &[1.0, 1.0, 1.0], &[0.0, 0.0]);
    let squares = |y: &[f64]| program.excess(y).iter().map(|r| r * r).sum();
    let mut before = None;
    for y in [[1.0, 3.0], [2.0, 5.0]] {
        let violated: Vec<bool> = program.residual(&y).iter().map(|r| *r > 0.0).collect();
        assert_eq!(violated, [true, true, false]);
        let right: Vec<f64> = program.pull(&program.excess(&y)).iter().map(|g| 2.0 * g).collect();
        assert_close(&right, &differences(&y, 1e-4, squares), 1e-6);
        assert_eq!(printed(&program, &y), [0.0, 3.0]);
        assert_ne!(before.replace(right.clone()), Some(right));
    }
}

#[test]
fn at_the_origin_sign_conditions_leave_no_quadratic_neighbourhood() {
    // The row −y ≤ 0 has a residual of zero at y = 0. A quadratic takes the same second difference on both sides.
    let program = program(&[[-1.0]], &[0.0], &[0.0]);
    for h in [1.0, 1e-3, 1e-6] {
        let g = |y: f64| program.penalty(0.1, &[y]);
        assert_eq!(g(h) - 2.0 * g(0.5 * h) + g(0.0), 0.0);
        assert!((g(-h) - 2.0 * g(-0.5 * h) + g(0.0) - 0.25 * h * h).abs() < 1e-12 * h * h);
    }
}
