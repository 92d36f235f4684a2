//! Ridge heads.

use lastlayer::error::Error;
use lastlayer::foca::{Features, LinearHead, WeakFit};
use lastlayer::linalg::Cholesky;
use lastlayer::linalg::solve;
use lastlayer::ndarray::{Array1, Array2, Axis, array, concatenate, s};

use super::{SEED, bells, close, clouds, fit, fit_differences, message, same, same_gradient};

/// Solves of well-conditioned systems of at most 40 unknowns.
const ROUNDING: f64 = 1e-10;
/// Closed forms of a few operations.
const EXACT: f64 = 1e-12;

/// (n, d) with more rows than features, as many, and fewer; the last is larger than one block of any product.
const SIZES: [(usize, usize); 5] = [(30, 4), (12, 12), (6, 20), (2, 3), (80, 70)];

/// Solution of A X = B by elimination.
fn eliminated(a: &Array2<f64>, b: &Array2<f64>) -> Array2<f64> {
    let mut x = Array2::zeros((a.ncols(), b.ncols()));
    for (mut x, b) in x.columns_mut().into_iter().zip(b.columns()) {
        x.assign(&solve(a, &b.to_owned()).unwrap());
    }
    x
}

/// The (W, b) where the gradient of Σ ‖Wᵀz + b − t‖² + λ‖W‖² in both is zero.
fn normal_equations(features: &Features, weight: f64) -> LinearHead {
    let (n, d) = features.z.dim();
    let rows = concatenate![Axis(1), features.z, Array2::ones((n, 1))];
    let mut h = rows.t().dot(&rows);
    (0..d).for_each(|j| h[[j, j]] += weight);
    let theta = eliminated(&h, &rows.t().dot(&features.one_hot()));
    LinearHead { w: theta.slice(s![..d, ..]).to_owned(), b: theta.row(d).to_owned() }
}

fn centred(m: &Array2<f64>) -> Array2<f64> {
    m - &m.mean_axis(Axis(0)).unwrap()
}

#[test]
fn a_ridge_head_solves_the_normal_equations() {
    for (i, (n, d)) in SIZES.into_iter().enumerate() {
        for weight in [0.1, 1.0, 30.0] {
            let features = clouds(n, d, 2 + i % 2, SEED.stream(i as u64));
            same(&fit(WeakFit::RidgeSum(weight), &features), &normal_equations(&features, weight), ROUNDING);
        }
    }
}

#[test]
fn primal_and_dual_find_the_same_head() {
    for (i, (n, d)) in SIZES.into_iter().enumerate() {
        let (weight, features) = (0.7, clouds(n, d, 3, SEED.named("dual").stream(i as u64)));
        let (zc, tc) = (centred(&features.z), centred(&features.one_hot()));
        let primal = eliminated(&(zc.t().dot(&zc) + weight * Array2::<f64>::eye(d)), &zc.t().dot(&tc));
        let dual = zc.t().dot(&eliminated(&(zc.dot(&zc.t()) + weight * Array2::<f64>::eye(n)), &tc));
        close(&primal, &dual, ROUNDING);
        close(&fit(WeakFit::RidgeSum(weight), &features).w, &primal, ROUNDING);
    }
}

#[test]
fn the_order_of_rows_does_not_matter() {
    for (i, (n, d)) in SIZES.into_iter().enumerate() {
        let features = clouds(n, d, 2, SEED.stream(i as u64));
        let mixed = features.take(&SEED.stream(9).permutation(n)).unwrap();
        assert_ne!(features, mixed);
        for how in [WeakFit::RidgeSum(0.3), WeakFit::SoftmaxSum(0.3)] {
            same(&fit(how, &features), &fit(how, &mixed), ROUNDING);
        }
    }
}

#[test]
fn a_translation_moves_the_bias_alone() {
    // Centring a shift of 1000 loses three digits.
    const SHIFTED: f64 = 1e-10;
    for (i, (n, d)) in SIZES.into_iter().enumerate() {
        let features = clouds(n, d, 2, SEED.stream(i as u64));
        let shift = 1000.0 * &bells(SEED.named("shift"), 1, d).row(0);
        let moved = Features { z: &features.z + &shift, ..features.clone() };
        for how in [WeakFit::RidgeSum(0.5), WeakFit::SoftmaxSum(0.5)] {
            let (here, there) = (fit(how, &features), fit(how, &moved));
            close(&there.w, &here.w, SHIFTED);
            close(&there.scores(&moved.z).unwrap(), &here.scores(&features.z).unwrap(), SHIFTED);
        }
    }
}

#[test]
fn one_sample_per_class_has_this_head() {
    for (d, weight) in [(1, 0.3), (2, 0.01), (7, 2.0)] {
        let features = clouds(2, d, 2, SEED.stream(d as u64));
        let delta = &features.z.row(1) - &features.z.row(0);
        let size = delta.dot(&delta);
        let head = fit(WeakFit::RidgeSum(weight), &features);
        close(head.w.column(1), &(&delta / (size + 2.0 * weight)), EXACT);
        close(head.w.column(0), &(-&delta / (size + 2.0 * weight)), EXACT);
        let fitted = 0.5 + 0.5 * size / (size + 2.0 * weight);
        close(
            &head.scores(&features.z).unwrap(),
            &array![[fitted, 1.0 - fitted], [1.0 - fitted, fitted]],
            EXACT,
        );
    }
}

#[test]
fn a_heavy_penalty_leaves_the_class_frequencies() {
    const HEAVY: f64 = 1e12;
    let mut features = clouds(10, 3, 3, SEED);
    features.y[0] = 2;
    let head = fit(WeakFit::RidgeSum(HEAVY), &features);
    // W is of the order Zcᵀ Tc / λ.
    assert!(head.w.iter().all(|w| w.abs() < 100.0 / HEAVY), "{}", head.w);
    close(&head.b, &[0.3, 0.3, 0.4], 1e-9);
}

#[test]
fn a_light_penalty_or_none_gives_ordinary_least_squares() {
    let features = clouds(40, 5, 3, SEED);
    let least_squares = normal_equations(&features, 0.0);
    same(&fit(WeakFit::RidgeSum(0.0), &features), &least_squares, ROUNDING);
    same(&fit(WeakFit::RidgeMean(0.0), &features), &least_squares, ROUNDING);
    // The difference is of the order λ / n.
    same(&fit(WeakFit::RidgeSum(1e-9), &features), &least_squares, 1e-9);
    // No head has smaller squares.
    let squares =
        |head: &LinearHead| (head.scores(&features.z).unwrap() - features.one_hot()).mapv(|r| r * r).sum();
    let least = squares(&least_squares);
    for i in 0..100 {
        let move_by = bells(SEED.named("others").stream(i), 6, 3) * 0.01;
        let w = &least_squares.w + &move_by.slice(s![..5, ..]);
        assert!(squares(&LinearHead { w, b: &least_squares.b + &move_by.row(5) }) > least);
    }
}

#[test]
fn a_vanishing_penalty_with_fewer_rows_than_features_interpolates() {
    let features = clouds(6, 20, 3, SEED);
    let head = fit(WeakFit::RidgeSum(1e-9), &features);
    // The residual is of the order λ over the least squared singular value.
    close(&head.scores(&features.z).unwrap(), &features.one_hot(), 1e-8);
}

#[test]
fn the_sum_takes_n_times_the_weight_of_the_mean() {
    for (n, d) in [(20, 3), (5, 9)] {
        let features = clouds(n, d, 2, SEED);
        let heavy = 0.25 * n as f64;
        assert_eq!(fit(WeakFit::RidgeMean(0.25), &features), fit(WeakFit::RidgeSum(heavy), &features));
        assert_eq!(fit(WeakFit::SoftmaxMean(0.25), &features), fit(WeakFit::SoftmaxSum(heavy), &features));
        assert_ne!(fit(WeakFit::RidgeMean(0.25), &features), fit(WeakFit::RidgeSum(0.25), &features));
    }
}

#[test]
fn many_fits_are_the_single_ones() {
    let sets: Vec<Features> = (0..20).map(|i| clouds(6 + i, 10, 3, SEED.stream(i as u64))).collect();
    for how in [WeakFit::RidgeSum(0.4), WeakFit::RidgeMean(0.1), WeakFit::SoftmaxSum(0.4)] {
        let together = how.fit_all(&sets).unwrap();
        assert_eq!(together.len(), sets.len());
        for (fitted, features) in together.iter().zip(&sets) {
            assert_eq!(fitted.head, fit(how, features));
        }
    }
    let mut sets = sets;
    sets[7].z[[0, 0]] = f64::NAN;
    assert!(WeakFit::RidgeSum(0.4).fit_all(&sets).is_err());
    assert!(WeakFit::RidgeSum(0.4).fit_all(&[]).unwrap().is_empty());
}

#[test]
fn one_thread_and_two_give_the_same_bits() {
    // Large enough that all products are split.
    let sets = [clouds(2000, 64, 12, SEED), clouds(150, 300, 5, SEED), clouds(400, 20, 6, SEED)];
    let in_pool = |threads: usize, f: &(dyn Fn() -> Vec<LinearHead> + Sync)| {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
    };
    let ridge = || sets.iter().map(|set| fit(WeakFit::RidgeSum(1.0), set)).collect();
    assert_eq!(in_pool(1, &ridge), in_pool(2, &ridge));
    let softmax = || vec![fit(WeakFit::SoftmaxSum(1.0), &sets[2])];
    assert_eq!(in_pool(1, &softmax), in_pool(2, &softmax));
}

#[test]
fn collapsed_classes_leave_this_residual() {
    // Every class at one point, two classes at distance delta.
    for (k, delta, weight) in [(1, 1.0, 0.5), (3, 2.0, 0.1), (10, 0.3, 4.0)] {
        let z = Array2::from_shape_fn((2 * k, 2), |(i, j)| if j == 0 && i >= k { delta } else { 0.0 });
        let features =
            Features::new(&z, &(0..2 * k).map(|i| usize::from(i >= k)).collect::<Vec<_>>(), 2).unwrap();
        let residual = features.one_hot() - fit(WeakFit::RidgeSum(weight), &features).scores(&z).unwrap();
        let expected = 0.5 * weight / (k as f64 * delta * delta / 2.0 + weight);
        for (row, class) in residual.rows().into_iter().zip(&features.y) {
            let own = *class as usize;
            close(&[row[own], row[1 - own]], &[expected, -expected], EXACT);
        }
    }
}

#[test]
fn features_that_never_change_get_no_weight() {
    let mut features = clouds(20, 4, 3, SEED);
    features.z.column_mut(2).fill(7.0);
    let others = Features { z: features.z.select(Axis(1), &[0, 1, 3]), ..features.clone() };
    let mut equal = clouds(10, 3, 3, SEED);
    equal.z.rows_mut().into_iter().for_each(|mut row| row.assign(&array![1.0, -2.0, 3.0]));
    for how in [WeakFit::RidgeSum(0.5), WeakFit::SoftmaxSum(0.5)] {
        let (head, without) = (fit(how, &features), fit(how, &others));
        assert!(head.w.row(2).iter().all(|w| w.abs() < EXACT));
        close(&head.w.select(Axis(0), &[0, 1, 3]), &without.w, ROUNDING);
        assert!(fit(how, &equal).w.iter().all(|w| w.abs() < EXACT));
    }
    close(&fit(WeakFit::RidgeSum(0.5), &equal).b, &[0.4, 0.3, 0.3], EXACT);
    // Likewise with fewer rows than features.
    let few = equal.take(&[0, 1]).unwrap();
    let head = fit(WeakFit::RidgeSum(0.5), &few);
    assert!(head.w.iter().all(|w| w.abs() < EXACT));
    close(&head.b, &[0.5, 0.5, 0.0], EXACT);
}

#[test]
fn one_feature_and_one_row_are_enough() {
    let features = Features::new(&array![[-1.0], [1.0], [3.0]], &[0, 1, 1], 2).unwrap();
    // Slope Σ (z − z̄)(t − t̄) / (Σ (z − z̄)² + λ) = 2 / (8 + λ), mean 1.
    let head = fit(WeakFit::RidgeSum(2.0), &features);
    close(&head.w, &[-0.2, 0.2], EXACT);
    close(&head.b, &[1.0 / 3.0 + 0.2, 2.0 / 3.0 - 0.2], EXACT);
    let single = fit(WeakFit::RidgeSum(2.0), &features.take(&[2]).unwrap());
    close(&single.w, &[0.0, 0.0], EXACT);
    close(&single.b, &[0.0, 1.0], EXACT);
}

#[test]
fn a_class_without_rows_scores_zero_under_ridge() {
    let features = Features { classes: 4, ..clouds(12, 5, 3, SEED) };
    for rows in [12, 4] {
        let head = fit(WeakFit::RidgeSum(0.5), &features.take(&(0..rows).collect::<Vec<_>>()).unwrap());
        assert!(head.w.column(3).iter().all(|w| w.abs() < EXACT));
        assert!(head.b[3].abs() < EXACT);
    }
}

#[test]
fn without_a_penalty_too_few_rows_give_the_shortest_head_that_fits() {
    // Centred, n rows span n − 1 dimensions.
    for features in [clouds(5, 9, 2, SEED), clouds(6, 6, 2, SEED)] {
        let head = fit(WeakFit::RidgeSum(0.0), &features);
        close(&head.scores(&features.z).unwrap(), &features.one_hot(), 1e-9);
        // The limit of small penalties is the shortest of all that fit.
        same(&head, &fit(WeakFit::RidgeSum(1e-9), &features), 1e-6);
    }
}

#[test]
fn rows_or_features_that_repeat_each_other_need_a_penalty() {
    let constant = |mut features: Features| {
        features.z.column_mut(1).fill(0.5);
        features
    };
    let twice = |features: Features| features.take(&[0, 1, 2, 3, 0]).unwrap();
    for features in [constant(clouds(30, 4, 2, SEED)), twice(clouds(5, 9, 2, SEED))] {
        let result = WeakFit::RidgeSum(0.0).fit(&features);
        assert!(matches!(&result, Err(Error::Solve { .. })), "{:?}", features.z.dim());
        assert!(message(result).contains("larger weight"));
        assert!(WeakFit::RidgeSum(0.01).fit(&features).is_ok());
    }
}

#[test]
fn weights_out_of_range_are_errors() {
    let features = clouds(10, 3, 2, SEED);
    for weight in [-1.0, -1e-300, f64::NAN, f64::INFINITY] {
        for how in [
            WeakFit::RidgeSum(weight),
            WeakFit::RidgeMean(weight),
            WeakFit::SoftmaxSum(weight),
            WeakFit::SoftmaxMean(weight),
        ] {
            assert!(matches!(how.fit(&features), Err(Error::Config { .. })), "{how:?}");
        }
    }
    for how in [WeakFit::SoftmaxSum(0.0), WeakFit::SoftmaxMean(0.0)] {
        assert!(matches!(how.fit(&features), Err(Error::Config { .. })), "{how:?}");
    }
}

#[test]
fn features_that_no_fit_can_use_are_errors() {
    let (ridge, softmax) = (WeakFit::RidgeSum(1.0), WeakFit::SoftmaxSum(1.0));
    for (n, d) in [(10, 3), (4, 9)] {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut features = clouds(n, d, 2, SEED);
            features.z[[n - 1, 1]] = bad;
            for how in [ridge, softmax] {
                assert!(matches!(how.fit(&features), Err(Error::Data { .. })), "{how:?} {bad} {n}");
            }
        }
        // Squares that overflow.
        let mut features = clouds(n, d, 2, SEED);
        features.z[[0, 0]] = 1e200;
        assert!(message(ridge.fit(&features)).contains("divide the features"));
        assert!(message(softmax.fit(&features)).contains("divide the features"));
    }
    let whole = clouds(4, 2, 2, SEED);
    let without_rows = Features { z: Array2::zeros((0, 2)), y: vec![], classes: 2 };
    let without_columns = Features { z: Array2::zeros((4, 0)), ..whole.clone() };
    let short = Features { y: vec![0, 1], ..whole.clone() };
    let unknown = Features { y: vec![0, 1, 2, 0], ..whole };
    for how in [ridge, softmax] {
        assert!(matches!(how.fit(&without_rows), Err(Error::Shape { .. })));
        assert!(matches!(how.fit(&without_columns), Err(Error::Shape { .. })));
        assert!(matches!(how.fit(&short), Err(Error::Shape { .. })));
        assert!(matches!(how.fit(&unknown), Err(Error::Data { .. })));
    }
}

#[test]
fn the_gradient_of_a_ridge_head_is_that_of_the_whole_fit() {
    for (i, (n, d)) in SIZES[..4].iter().enumerate() {
        for weight in [0.3, 5.0] {
            let features = clouds(*n, *d, 2 + i, SEED.named("adjoint").stream(i as u64));
            let classes = features.classes;
            let w_bar = bells(SEED.named("W").stream(i as u64), *d, classes);
            let b_bar = bells(SEED.named("b").stream(i as u64), 1, classes).row(0).to_owned();
            let none = (Array2::zeros((*d, classes)), Array1::zeros(classes));
            let how = WeakFit::RidgeSum(weight);
            let fitted = how.fit(&features).unwrap();
            for (w_bar, b_bar) in [(&w_bar, &none.1), (&none.0, &b_bar)] {
                let found = fitted.adjoint(w_bar, b_bar).unwrap();
                same_gradient(&found, &fit_differences(how, &features, w_bar, b_bar));
            }
        }
    }
}

#[test]
fn gradients_of_other_shapes_are_errors() {
    for how in [WeakFit::RidgeSum(1.0), WeakFit::SoftmaxSum(1.0)] {
        let fitted = how.fit(&clouds(8, 3, 2, SEED)).unwrap();
        let (w, b) = (Array2::zeros((3, 2)), Array1::zeros(2));
        assert!(fitted.adjoint(&w, &b).is_ok());
        for (w, b) in [(Array2::zeros((2, 3)), b.clone()), (w, Array1::zeros(3))] {
            assert!(matches!(fitted.adjoint(&w, &b), Err(Error::Shape { .. })));
        }
    }
}

#[test]
fn a_factor_solves_for_all_columns_at_once() {
    // Below, at and above the size of a block, and of several.
    for n in [1, 2, 31, 32, 33, 64, 100] {
        let a = bells(SEED.named("matrix").stream(n as u64), n, n);
        let h = a.dot(&a.t()) + n as f64 * Array2::<f64>::eye(n);
        let right = bells(SEED.named("right").stream(n as u64), n, 5);
        let factor = Cholesky::new(&h).unwrap();
        let together = factor.solve_matrix(&right).unwrap();
        close(&h.dot(&together), &right, EXACT);
        for (column, right) in together.columns().into_iter().zip(right.columns()) {
            close(column, &factor.solve(&right.to_vec()).unwrap(), EXACT);
        }
        // Whatever the layout of the right side.
        let turned = right.t().as_standard_layout().into_owned().reversed_axes();
        assert_eq!(factor.solve_matrix(&turned).unwrap(), together);
        assert!(factor.solve_matrix(&Array2::zeros((n + 1, 5))).is_err());
        assert_eq!(factor.solve_matrix(&Array2::zeros((n, 0))).unwrap().dim(), (n, 0));
    }
}
