//! Small dense solves.

use lastlayer::error::Error;
use lastlayer::linalg::solve;
use lastlayer::prelude::*;

const SEED: Seed = Seed::new(5);

#[test]
fn solutions_satisfy_their_system() {
    for m in [1usize, 2, 5, 30] {
        let a = Array2::from_shape_fn((m, m), |(i, j)| SEED.stream(m as u64).normal((i * m + j) as u64));
        let x = Array1::from_iter((0..m).map(|i| SEED.named("x").normal(i as u64)));
        let found = solve(&a, &a.dot(&x)).unwrap();
        for (found, x) in found.iter().zip(&x) {
            assert!((found - x).abs() < 1e-10, "{m}: {found} {x}");
        }
    }
}

#[test]
fn rows_are_exchanged_where_a_pivot_is_zero() {
    let a = ndarray::array![[0.0, 2.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 4.0]];
    let x = solve(&a, &ndarray::array![5.0, 7.0, 4.0]).unwrap();
    assert_eq!(x.to_vec(), [7.0, 2.0, 1.0]);
}

#[test]
fn bad_input_is_told() {
    let singular = ndarray::array![[1.0, 2.0], [2.0, 4.0]];
    let right = ndarray::array![1.0, 2.0];
    assert!(matches!(solve(&singular, &right).unwrap_err(), Error::Solve { .. }));
    let nan = ndarray::array![[f64::NAN, 1.0], [1.0, 1.0]];
    assert!(matches!(solve(&nan, &right).unwrap_err(), Error::Solve { .. }));
    let wide = Array2::<f64>::zeros((2, 3));
    assert!(matches!(solve(&wide, &right).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(solve(&Array2::zeros((2, 2)), &right).unwrap_err(), Error::Solve { .. }));
}
