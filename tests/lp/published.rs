//! The published solver: what it does on AUC, and the programs on which it never ends.

use lastlayer::lp::{Lp, PenaltyNewton, Published, Solver, Status};

use super::families::gaussian;
use super::{SEED, assert_close, lp, scores, states};

fn c1a() -> Lp {
    lp(&[[-1.0, 3.0], [3.0, -3.0], [-1.0, 2.0]], &[1.0; 3], &[-2.0, 1.0])
}

fn c1b() -> Lp {
    let a = [[0.0, 3.0], [5.0, -5.0], [-4.0, 4.0], [5.0, -3.0]];
    lp(&a, &[1.0, 3.0, 1.0, 1.0], &[-11.0, -2.0])
}

/// The iterates from zero, and the gradient at each.
fn path(lp: &Lp, method: &Published) -> Vec<(Vec<f64>, f64)> {
    let path = states(method, method.init_at(lp, &vec![0.0; lp.n()]).unwrap());
    path.into_iter().map(|state| (state.y, state.gradient)).collect()
}

#[test]
fn full_steps_cycle_for_ever_between_three_points() {
    let cycle = Published { steps: 300, ..Published::default() };
    let points = path(&c1a(), &cycle);
    assert_eq!(points.len(), 301);
    let last = &points[298..];
    let expected = [[16.0768, 15.7432], [1.0888, 0.7838], [16.1151, 5.7049]];
    for point in expected {
        // Printed to four digits.
        let near =
            |(y, _): &&(Vec<f64>, f64)| (y[0] - point[0]).abs() < 1e-3 && (y[1] - point[1]).abs() < 1e-3;
        assert_eq!(last.iter().filter(near).count(), 1, "{point:?} in {last:?}");
    }
    assert_close(&points[300].0, &points[297].0, 1e-9);
    // A larger shift or a shorter step happens to converge here.
    for method in [Published { delta: 1e-3, ..cycle.clone() }, Published { step: 0.9, ..cycle }] {
        assert!(path(&c1a(), &method).len() < 301);
    }
}

#[test]
fn shorter_steps_cycle_too() {
    for step in [1.0, 0.5, 0.2, 0.1] {
        let method = Published { step, steps: 3000, ..Published::default() };
        let points = path(&c1b(), &method);
        assert_eq!(points.len(), 3001, "step {step} converged");
        let least = points[1000..].iter().fold(f64::INFINITY, |least, (_, g)| least.min(*g));
        assert!(step == 1.0 || least > 0.02, "step {step}: {least}");
    }
    let exact = PenaltyNewton { epsilon: 1e-3, ..PenaltyNewton::default() };
    for lp in [c1a(), c1b()] {
        let point = exact.solve(&lp).unwrap();
        assert!(point.converged && point.steps <= 6, "{point:?}");
    }
}

#[test]
fn full_steps_fail_on_random_programs_on_which_exact_steps_do_not() {
    let (mut published, mut exact) = (0, 0);
    for case in 0..300u64 {
        let lp = gaussian(SEED.named("published").stream(case), 3, 8, 0);
        let method = Published { steps: 200, ..Published::default() };
        published += usize::from(path(&lp, &method).len() <= 200);
        let newton = PenaltyNewton { epsilon: 1e-3, max_steps: 200, ..PenaltyNewton::default() };
        exact += usize::from(newton.solve(&lp).unwrap().converged);
    }
    assert_eq!(exact, 300);
    // About half of them end; far from all and from none.
    assert!(published > 60 && published < 240, "{published}");
}

#[test]
fn on_auc_it_converges_in_a_few_steps_by_the_factor_of_its_shift_and_shrinks_z_by_a_hundredth() {
    let (s, y) = scores(20, SEED.named("published auc"));
    let (lp, method) = (Lp::auc(&s, &y, 0.5).unwrap(), Published::default());
    let path = states(&method, method.init(&lp).unwrap());
    let (first, state) = (&path[0], &path[path.len() - 1]);
    // The first n rows are −I, so the start is −b / 1.001.
    let start: Vec<f64> = lp.b[..lp.n()].iter().map(|b| -b / 1.001).collect();
    assert_close(&first.y, &start, 1e-12);
    let gradients: Vec<f64> = path.iter().map(|state| state.gradient).collect();
    assert!(state.converged && state.steps <= 5, "{gradients:?}");
    // δ / (1 + δ) once the active rows are right.
    let ratio = gradients[2] / gradients[1];
    assert!((ratio - 1e-4 / (1.0 + 1e-4)).abs() < 1e-6, "{gradients:?}");
    let found = method.finish(state).unwrap();
    assert_eq!(found.status, Status::Inexact);
    let n = lp.n();
    // z = b_J / 1.01 where one row is active; where both are, half of that.
    let alone: Vec<usize> = (0..n).filter(|j| found.v[*j] > 0.0 && found.v[n + j] == 0.0).collect();
    assert!(alone.len() > 10);
    for j in alone {
        assert!((found.z[j] + lp.b[j] / 1.01).abs() < 1e-12);
    }
    assert_eq!(method.solve(&lp).unwrap(), found);
}

#[test]
fn a_pair_within_epsilon_of_its_margin_comes_out_at_half_however_many_pairs_there_are() {
    // One positive, and 256 negatives whose pairs miss the margin by a, evenly from −0.0064 to 0.00635.
    let gaps: Vec<f64> = (0..256).map(|k| 5e-5 * (f64::from(k) - 128.0)).collect();
    let s: Vec<f64> = std::iter::once(0.0).chain(gaps.iter().map(|a| a - 0.5)).collect();
    let y: Vec<u8> = (0..257).map(|i| u8::from(i == 0)).collect();
    let lp = Lp::auc(&s, &y, 0.5).unwrap();
    let found = Published::default().solve(&lp).unwrap();
    let mut halved = 0;
    for (j, a) in gaps.iter().enumerate() {
        // The corner itself is a matter of rounding.
        if (a.abs() - 1e-3).abs() < 1e-5 {
            continue;
        }
        let both = a.abs() < 1e-3;
        halved += usize::from(both);
        // Two rows, or one, under the ridge of a hundredth.
        let expected = if both { a / 2.01 } else { a.max(0.0) / 1.01 };
        assert!((found.z[j] - expected).abs() < 1e-9, "{a}: {} and {expected}", found.z[j]);
    }
    assert_eq!(halved, 39);
    // The sum over pairs instead of their mean is the same program to it.
    let sum = Lp { c: vec![1.0; lp.n()], ..lp.clone() };
    assert_eq!(Published::default().solve(&sum).unwrap().z, found.z);
}
