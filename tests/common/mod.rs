//! What several test programs compare with: central differences, and numbers that agree up to a tolerance.

#![allow(dead_code)] // each program needs a part

/// Central differences of a function of a list in each of its entries.
pub fn differences(at: &[f64], step: f64, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let moved = |i: usize, by: f64| {
        let mut at = at.to_vec();
        at[i] += by;
        f(&at)
    };
    (0..at.len()).map(|i| (moved(i, step) - moved(i, -step)) / (2.0 * step)).collect()
}

/// Fails unless two numbers differ by at most the tolerance.
#[track_caller]
pub fn near(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance, "{a} and {b} differ by {:e}", (a - b).abs());
}

/// Fails unless two lists agree entry by entry.
#[track_caller]
pub fn all_near(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).for_each(|(a, b)| near(*a, *b, tolerance));
}

/// Fails unless a named number is what it should be.
#[track_caller]
pub fn near_named(name: &str, value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{name}: {value}, expected {expected} ± {tolerance}");
}

/// Fails unless two numbers agree, relative to the second or 1.
#[track_caller]
pub fn assert_near(got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "{got} against {want}");
}

/// Fails unless two lists agree entry by entry, relative to the largest of the second or 1.
#[track_caller]
pub fn assert_close(a: &[f64], b: &[f64], tolerance: f64) {
    scaled(a, b, tolerance, 1.0);
}

/// Fails unless two lists agree entry by entry, relative to the largest of the second, however small.
#[track_caller]
pub fn assert_relative(a: &[f64], b: &[f64], tolerance: f64) {
    scaled(a, b, tolerance, f64::MIN_POSITIVE);
}

/// [`assert_close`] of whatever lends numbers, such as matrices.
#[track_caller]
pub fn close<'a>(a: impl IntoIterator<Item = &'a f64>, b: impl IntoIterator<Item = &'a f64>, tolerance: f64) {
    scaled(a, b, tolerance, 1.0);
}

#[track_caller]
fn scaled<'a>(
    a: impl IntoIterator<Item = &'a f64>,
    b: impl IntoIterator<Item = &'a f64>,
    tolerance: f64,
    least: f64,
) {
    let (a, b): (Vec<&f64>, Vec<&f64>) = (a.into_iter().collect(), b.into_iter().collect());
    assert_eq!(a.len(), b.len());
    let scale = b.iter().fold(least, |most, v| most.max(v.abs()));
    for (i, (a, b)) in a.iter().zip(&b).enumerate() {
        assert!((*a - *b).abs() <= tolerance * scale, "entry {i}: {a} and {b}, scale {scale}");
    }
}

/// The message of an error.
#[track_caller]
pub fn message<T>(result: lastlayer::error::Result<T>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}
