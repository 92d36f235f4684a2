//! Codes that a tree and a network both read: every equation of Part VI.

mod classes;
mod errata;
mod fidelity;
mod quantisers;
mod readout;
mod training;

/// Central differences of a function in each entry of its argument.
fn differences(at: &[f64], step: f64, f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let moved = |i: usize, by: f64| {
        let mut at = at.to_vec();
        at[i] += by;
        f(&at)
    };
    (0..at.len()).map(|i| (moved(i, step) - moved(i, -step)) / (2.0 * step)).collect()
}

/// Fails unless two numbers differ by at most the tolerance.
#[track_caller]
fn near(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance, "{a} and {b} differ by {:e}", (a - b).abs());
}

/// Fails unless two lists agree entry by entry.
#[track_caller]
fn all_near(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).for_each(|(a, b)| near(*a, *b, tolerance));
}

/// The message of an error.
#[track_caller]
fn message<T>(result: lastlayer::error::Result<T>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}
