//! Eigenvalues of symmetric matrices.

use lastlayer::error::Error;
use lastlayer::linalg::symmetric_eigen;
use lastlayer::ndarray::{Array2, Axis, array};
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(1846);

/// Rounding of a product of a few hundred orthogonal maps, relative to the largest eigenvalue.
const ROUNDING: f64 = 1e-13;

fn random(n: usize, m: usize, name: &str) -> Array2<f64> {
    let seed = SEED.named(name).stream((n * m) as u64);
    Array2::from_shape_fn((n, m), |(i, j)| seed.normal((i * m + j) as u64))
}

fn symmetric(n: usize, name: &str) -> Array2<f64> {
    let a = random(n, n, name);
    &a + &a.t()
}

fn largest(a: &Array2<f64>) -> f64 {
    a.iter().fold(0.0, |most, v| most.max(v.abs()))
}

/// Largest entries of A V − V diag(values), relative to the largest entry of A, and of VᵀV − I; the values ascend.
fn errors(a: &Array2<f64>) -> (f64, f64) {
    let (values, vectors) = symmetric_eigen(a).unwrap();
    assert!(values.windows(2).all(|pair| pair[0] <= pair[1]), "{values:?}");
    let scaled = Array2::from_shape_fn(vectors.dim(), |(i, j)| vectors[[i, j]] * values[j]);
    let residual = largest(&(a.dot(&vectors) - scaled)) / largest(a).max(f64::MIN_POSITIVE);
    (residual, largest(&(vectors.t().dot(&vectors) - Array2::<f64>::eye(a.nrows()))))
}

fn check(a: &Array2<f64>) {
    let (residual, skew) = errors(a);
    let allowed = ROUNDING * (a.nrows() as f64).max(1.0);
    assert!(residual < allowed && skew < ROUNDING * 10.0, "{residual:e} {skew:e}");
}

#[test]
fn a_random_matrix_is_the_product_of_its_parts() {
    for n in [2, 3, 4, 7, 60] {
        let a = symmetric(n, "product");
        check(&a);
        let (values, vectors) = symmetric_eigen(&a).unwrap();
        let scaled = Array2::from_shape_fn(vectors.dim(), |(i, j)| vectors[[i, j]] * values[j]);
        let error = largest(&(scaled.dot(&vectors.t()) - &a));
        assert!(error < ROUNDING * n as f64 * largest(&a), "{n}: {error:e}");
        // Trace and sum of squares do not depend on the vectors.
        let (trace, squares) = (a.diag().sum(), a.iter().map(|v| v * v).sum::<f64>());
        assert!((values.iter().sum::<f64>() - trace).abs() < ROUNDING * squares.sqrt() * n as f64);
        assert!((values.iter().map(|v| v * v).sum::<f64>() / squares - 1.0).abs() < ROUNDING * n as f64);
    }
}

#[test]
fn two_by_two_has_its_closed_form() {
    // The larger value of [[a, b], [b, c]] is m + r, the smaller m − r, with m the mean of a and c and r = √((a − c)²/4 + b²).
    for (a, b, c) in [(2.0, 1.0, 2.0), (0.0, 1.0, 0.0), (1.0, 1e-9, 1.0), (3.0, -4.0, -3.0), (5.0, 0.0, 1.0)]
    {
        let (values, vectors) = symmetric_eigen(&array![[a, b], [b, c]]).unwrap();
        let (m, r) = ((a + c) / 2.0, f64::hypot((a - c) / 2.0, b));
        assert!((values[0] - (m - r)).abs() < 1e-15 * (m.abs() + r) * 4.0, "{values:?}");
        assert!((values[1] - (m + r)).abs() < 1e-15 * (m.abs() + r) * 4.0, "{values:?}");
        check(&array![[a, b], [b, c]]);
        assert_eq!(vectors.dim(), (2, 2));
    }
}

#[test]
fn the_second_difference_has_its_sines() {
    // 2 on the diagonal, −1 beside it: 4 sin²(kπ / (2(n + 1))).
    let n = 50;
    let a = Array2::from_shape_fn((n, n), |(i, j)| match i.abs_diff(j) {
        0 => 2.0,
        1 => -1.0,
        _ => 0.0,
    });
    let (values, _) = symmetric_eigen(&a).unwrap();
    for (k, value) in values.iter().enumerate() {
        let angle = (k + 1) as f64 * std::f64::consts::PI / (2 * (n + 1)) as f64;
        assert!((value - 4.0 * angle.sin().powi(2)).abs() < ROUNDING, "{k}: {value}");
    }
    check(&a);
}

#[test]
fn a_diagonal_matrix_is_only_sorted() {
    let diagonal = [3.0, -1.0, 0.0, 1e-12, 7.5];
    let a = Array2::from_diag(&lastlayer::ndarray::arr1(&diagonal));
    let (values, vectors) = symmetric_eigen(&a).unwrap();
    assert_eq!(values, [-1.0, 0.0, 1e-12, 3.0, 7.5]);
    for (column, row) in [1, 2, 3, 0, 4].into_iter().enumerate() {
        assert_eq!(vectors[[row, column]].abs(), 1.0);
    }
}

#[test]
fn repeated_values_keep_an_orthonormal_basis() {
    // 1 + 3·(the all-ones matrix) has n − 1 equal values, 1, and the value 1 + 3n.
    let n = 20;
    let a = Array2::<f64>::eye(n) + 3.0;
    check(&a);
    let (values, _) = symmetric_eigen(&a).unwrap();
    assert!(values[..n - 1].iter().all(|v| (v - 1.0).abs() < ROUNDING * 61.0), "{values:?}");
    assert!((values[n - 1] - 61.0).abs() < ROUNDING * 61.0);
    check(&Array2::eye(n));
    // Two blocks that are equal have every value twice.
    let block = symmetric(10, "twice");
    let mut twice = Array2::zeros((20, 20));
    for ((i, j), v) in block.indexed_iter() {
        (twice[[i, j]], twice[[10 + i, 10 + j]]) = (*v, *v);
    }
    check(&twice);
    let (values, _) = symmetric_eigen(&twice).unwrap();
    assert!(values.chunks(2).all(|pair| pair[1] - pair[0] < ROUNDING * 100.0), "{values:?}");
}

#[test]
fn a_gram_matrix_has_as_many_zero_values_as_its_rank_lacks() {
    let rows = random(12, 40, "gram");
    let gram = rows.t().dot(&rows);
    let (values, _) = symmetric_eigen(&gram).unwrap();
    assert!(values[..28].iter().all(|v| v.abs() < ROUNDING * values[39]), "{values:?}");
    assert!(values[28] > 0.01 * values[39], "{values:?}");
    // The others are those of the small product.
    let (small, _) = symmetric_eigen(&rows.dot(&rows.t())).unwrap();
    assert!(small.iter().zip(&values[28..]).all(|(a, b)| (a - b).abs() < ROUNDING * values[39]));
}

#[test]
fn graded_and_nearly_degenerate_matrices_converge() {
    // Wilkinson's matrix: pairs of values that agree to fifteen digits.
    let wilkinson = Array2::from_shape_fn((21, 21), |(i, j)| match i.abs_diff(j) {
        0 => i.abs_diff(10) as f64,
        1 => 1.0,
        _ => 0.0,
    });
    check(&wilkinson);
    check(&Array2::from_shape_fn((12, 12), |(i, j)| 1.0 / (i + j + 1) as f64));
    for seed in 0..20 {
        let noise = symmetric(30, &format!("graded {seed}"));
        // Rows and columns that shrink by a factor of ten each, in either order.
        let falling = |i: usize| 10f64.powi(-(i as i32));
        check(&Array2::from_shape_fn((30, 30), |(i, j)| noise[[i, j]] * falling(i) * falling(j)));
        check(&Array2::from_shape_fn((30, 30), |(i, j)| noise[[i, j]] * falling(29 - i) * falling(29 - j)));
    }
}

#[test]
fn one_by_one_and_zero_matrices_are_answered() {
    let (values, vectors) = symmetric_eigen(&array![[-2.5]]).unwrap();
    assert_eq!((values, vectors[[0, 0]].abs()), (vec![-2.5], 1.0));
    let (values, vectors) = symmetric_eigen(&Array2::zeros((5, 5))).unwrap();
    assert_eq!(values, [0.0; 5]);
    assert_eq!(largest(&(vectors.t().dot(&vectors) - Array2::<f64>::eye(5))), 0.0);
}

#[test]
fn tiny_and_huge_entries_neither_vanish_nor_overflow() {
    let a = symmetric(12, "scale");
    let (values, _) = symmetric_eigen(&a).unwrap();
    // Powers of two, so that scaling is exact.
    for scale in [2f64.powi(-900), 2f64.powi(900)] {
        let (scaled, _) = symmetric_eigen(&(&a * scale)).unwrap();
        assert!(scaled.iter().zip(&values).all(|(s, v)| *s == v * scale), "{scale:e}");
    }
}

#[test]
fn rounding_between_the_halves_is_forgiven() {
    let mut a = symmetric(8, "halves");
    a[[2, 5]] += 1e-14;
    check(&a);
}

#[test]
fn four_hundred_rows_lose_no_precision() {
    let a = symmetric(400, "large");
    let (values, vectors) = symmetric_eigen(&a).unwrap();
    let scaled = Array2::from_shape_fn(vectors.dim(), |(i, j)| vectors[[i, j]] * values[j]);
    let residual = a.dot(&vectors) - scaled;
    let worst = residual.axis_iter(Axis(1)).map(|r| r.dot(&r).sqrt()).fold(0.0, f64::max);
    assert!(worst < ROUNDING * values[399].abs() * 10.0, "{worst:e}");
}

#[test]
fn bad_matrices_are_told() {
    assert!(matches!(symmetric_eigen(&Array2::zeros((2, 3))).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(symmetric_eigen(&Array2::zeros((0, 0))).unwrap_err(), Error::Shape { .. }));
    for bad in [f64::NAN, f64::INFINITY] {
        let told = symmetric_eigen(&array![[1.0, bad], [bad, 1.0]]).unwrap_err();
        assert!(matches!(told, Error::Data { .. }), "{told}");
    }
    let told = symmetric_eigen(&array![[1.0, 2.0], [3.0, 1.0]]).unwrap_err().to_string();
    assert!(told.contains("(0, 1) is 2") && told.contains("(1, 0) is 3"), "{told}");
}
