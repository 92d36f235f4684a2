//! Spread and separation against numbers worked out by hand.

use lastlayer::error::Error;
use lastlayer::foca::{Features, Spread};
use lastlayer::ndarray::array;

use crate::{SEED, close, groups, normals};

/// Sums of a few squares.
const ROUNDING: f64 = 1e-12;

#[test]
fn five_points_have_the_spread_worked_out_by_hand() {
    // Class 0: 0 and 2 around 1, mean square 1. Class 1: 6, 6 and 9 around 7, mean square 2. Spread² = 3/2.
    let z = array![[0.0, 3.0], [2.0, 3.0], [6.0, 3.0], [6.0, 3.0], [9.0, 3.0]];
    let spread = Spread::of(&Features::new(&z, &[0u32, 0, 1, 1, 1], 2).unwrap()).unwrap();
    close(
        &[spread.spread, spread.separation, spread.ratio()],
        &[1.5f64.sqrt(), 6.0, 1.5f64.sqrt() / 6.0],
        ROUNDING,
    );
}

#[test]
fn separation_is_the_root_mean_square_over_pairs() {
    // Means at the corners of a triangle with sides 3, 4 and 5.
    let z = array![[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]];
    let spread = Spread::of(&Features::new(&z, &[0u32, 1, 2], 3).unwrap()).unwrap();
    assert_eq!(spread.spread, 0.0);
    close(&[spread.separation], &[(50.0f64 / 3.0).sqrt()], ROUNDING);
    assert_eq!(spread.ratio(), 0.0);
}

#[test]
fn two_normal_classes_start_at_root_two_over_four() {
    // N(±2 e₁, I) in the plane: spread √2, separation 4.
    let n = 20_000;
    let y: Vec<u32> = (0..2 * n).map(|i| (i % 2) as u32).collect();
    let mut z = normals(SEED.named("two"), 2 * n, 2);
    z.rows_mut().into_iter().zip(&y).for_each(|(mut z, y)| z[0] += if *y == 1 { 2.0 } else { -2.0 });
    let spread = Spread::of(&Features::new(&z, &y, 2).unwrap()).unwrap();
    // Four standard errors: spread² is a mean of 2n numbers of variance 4, the separation a difference of two means.
    close(&[spread.spread], &[2f64.sqrt()], 4.0 * 0.5 / (2.0 * n as f64).sqrt());
    close(&[spread.separation], &[4.0], 4.0 * (2.0 / n as f64).sqrt() / 4.0);
    assert!((spread.ratio() - 2f64.sqrt() / 4.0).abs() < 0.005);
}

#[test]
fn turning_moving_and_scaling_leave_the_ratio() {
    let f = groups(SEED.named("turn"), 4, 25, 2, 2.0);
    let before = Spread::of(&f).unwrap();
    let turn = array![[0.6, -0.8], [0.8, 0.6]];
    let after = Spread::of(&Features { z: 3.0 * f.z.dot(&turn) + 5.0, ..f.clone() }).unwrap();
    close(&[after.spread, after.separation], &[3.0 * before.spread, 3.0 * before.separation], ROUNDING);
    close(&[after.ratio()], &[before.ratio()], ROUNDING);
}

#[test]
fn a_class_counts_once_however_many_rows_it_has() {
    let f = groups(SEED.named("weights"), 3, 10, 4, 1.0);
    let twice: Vec<usize> = (0..30).chain((0..30).filter(|i| i % 3 == 1)).collect();
    let (once, more) = (Spread::of(&f).unwrap(), Spread::of(&f.take(&twice).unwrap()).unwrap());
    close(&[more.spread, more.separation], &[once.spread, once.separation], ROUNDING);
}

#[test]
fn classes_that_coincide_have_an_infinite_ratio() {
    let z = array![[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]];
    let spread = Spread::of(&Features::new(&z, &[0u32, 0, 1, 1], 2).unwrap()).unwrap();
    assert_eq!((spread.spread, spread.separation, spread.ratio()), (1.0, 0.0, f64::INFINITY));
    let point = Features::new(&array![[2.0], [2.0]], &[0u32, 1], 2).unwrap();
    assert_eq!(Spread::of(&point).unwrap().ratio(), f64::INFINITY);
}

#[test]
fn one_class_or_a_missing_one_is_an_error() {
    let z = normals(SEED, 4, 2);
    assert!(matches!(Spread::of(&Features::new(&z, &[0u32; 4], 1).unwrap()), Err(Error::Config { .. })));
    assert!(matches!(Spread::of(&Features::new(&z, &[0u32, 1, 1, 0], 3).unwrap()), Err(Error::Data { .. })));
}
