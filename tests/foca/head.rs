//! Linear heads.

use lastlayer::error::Error;
use lastlayer::foca::{Features, LinearHead, WeakFit};
use lastlayer::ndarray::{Array1, Array2, array};

use super::{SEED, bells, close, clouds, fit};

#[test]
fn scores_are_products_plus_biases() {
    let head = LinearHead { w: array![[1.0, 2.0, 0.0], [0.0, -1.0, 3.0]], b: array![0.5, 0.0, -1.0] };
    let z = array![[1.0, 1.0], [2.0, -1.0]];
    assert_eq!(head.scores(&z).unwrap(), array![[1.5, 1.0, 2.0], [2.5, 5.0, -4.0]]);
    assert_eq!(head.decide(&z).unwrap(), [2, 1]);
    assert_eq!(head.accuracy(&Features::new(&z, &[2, 0], 3).unwrap()).unwrap(), 0.5);
}

#[test]
fn of_equal_scores_the_first_decides() {
    let tied = LinearHead { w: Array2::zeros((2, 3)), b: array![1.0, 2.0, 2.0] };
    assert_eq!(tied.decide(&bells(SEED, 4, 2)).unwrap(), [1; 4]);
    let level = LinearHead { w: Array2::zeros((2, 3)), b: Array1::zeros(3) };
    assert_eq!(level.decide(&bells(SEED, 4, 2)).unwrap(), [0; 4]);
}

#[test]
fn scores_that_are_no_numbers_decide_nothing() {
    let head = LinearHead { w: Array2::zeros((1, 2)), b: array![f64::NAN, -5.0] };
    assert_eq!(head.decide(&array![[1.0]]).unwrap(), [1]);
    let lost = LinearHead { w: Array2::zeros((1, 2)), b: array![f64::NAN, f64::NAN] };
    assert_eq!(lost.decide(&array![[1.0]]).unwrap(), [0]);
}

#[test]
fn features_of_another_width_are_errors() {
    let head = LinearHead { w: Array2::zeros((3, 2)), b: Array1::zeros(2) };
    let z = Array2::zeros((4, 2));
    assert!(matches!(head.scores(&z), Err(Error::Shape { .. })));
    assert!(matches!(head.decide(&z), Err(Error::Shape { .. })));
    assert!(matches!(head.accuracy(&clouds(4, 2, 2, SEED)), Err(Error::Shape { .. })));
    assert!(head.decide(&Array2::zeros((0, 3))).unwrap().is_empty());
}

#[test]
fn the_columns_of_a_ridge_head_add_up_to_zero_and_one() {
    for (n, d) in [(20, 3), (4, 9)] {
        let head = fit(WeakFit::RidgeSum(0.3), &clouds(n, d, 2, SEED));
        close(&(&head.w.column(0) + &head.w.column(1)), &Array1::zeros(d), 1e-13);
        close(&[head.b.sum()], &[1.0], 1e-13);
        // So the scalar head of class 1 against one half decides alike.
        let z = bells(SEED.named("others"), 50, d) * 2.0;
        let scores = head.scores(&z).unwrap();
        let scalar: Vec<u32> = scores.column(1).iter().map(|s| u32::from(*s > 0.5)).collect();
        assert_eq!(head.decide(&z).unwrap(), scalar);
    }
}

#[test]
fn a_single_head_decides_as_its_two_columns() {
    let two = fit(WeakFit::RidgeSum(1.0), &clouds(40, 3, 2, SEED));
    let one = two.single().unwrap();
    let z = bells(SEED.named("new"), 30, 3);
    let (scores, decided) = (one.scores(&z).unwrap(), two.decide(&z).unwrap());
    for (s, class) in scores.column(0).iter().zip(decided) {
        assert_eq!(u32::from(*s > 0.0), class);
    }
    let three = LinearHead { w: Array2::zeros((2, 3)), b: Array1::zeros(3) };
    assert!(matches!(three.single(), Err(Error::Shape { .. })));
    assert!(matches!(one.single(), Err(Error::Shape { .. })), "one column is not two");
}
