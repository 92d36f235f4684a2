//! Features and strangers: every fit against another solver or a closed form, every gradient against central differences,
//! every equation of Part IV.

mod anonymous;
mod coadaptation;
#[path = "../common/mod.rs"]
mod common;
#[path = "../device/mod.rs"]
mod device;
mod distances;
mod eigen;
mod errata;
mod features;
mod fits;
mod head;
mod lda;
mod partial;
mod ridge;
mod softmax;
mod spread;
mod training;

use common::{close, message};
use lastlayer::foca::{Features, LinearHead, WeakFit};
use lastlayer::ndarray::{Array1, Array2};
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(2019);

/// (rows, columns) of about standard normal size, the same in every language.
fn bells(seed: Seed, rows: usize, columns: usize) -> Array2<f64> {
    Array2::from_shape_fn((rows, columns), |(i, j)| seed.irwin_hall(12 * (i * columns + j) as u64))
}

/// Features around one centre per class; the classes take turns.
fn clouds(n: usize, d: usize, classes: usize, seed: Seed) -> Features {
    let centres = bells(seed.named("centres"), classes, d);
    let mut z = bells(seed.named("rows"), n, d);
    z.rows_mut().into_iter().enumerate().for_each(|(i, mut row)| row += &centres.row(i % classes));
    Features { z, y: (0..n).map(|i| (i % classes) as u32).collect(), classes }
}

fn fit(how: WeakFit, features: &Features) -> LinearHead {
    how.fit(features).unwrap().head
}

/// Central differences of a function of a matrix in each of its entries.
fn differences(at: &Array2<f64>, step: f64, f: impl Fn(&Array2<f64>) -> f64) -> Array2<f64> {
    Array2::from_shape_fn(at.dim(), |entry| {
        let moved = |by: f64| {
            let mut at = at.clone();
            at[entry] += by;
            f(&at)
        };
        (moved(step) - moved(-step)) / (2.0 * step)
    })
}

/// Central differences of ⟨W̄, W⟩ + ⟨b̄, b⟩ in the features that a head is fitted to.
fn fit_differences(how: WeakFit, at: &Features, w_bar: &Array2<f64>, b_bar: &Array1<f64>) -> Array2<f64> {
    differences(&at.z, 1e-5, |z| {
        let head = fit(how, &Features { z: z.clone(), ..at.clone() });
        (&head.w * w_bar).sum() + head.b.dot(b_bar)
    })
}

/// Fails unless a gradient is that of differences, relative to its largest entry: rounding of the loss over the step, and the
/// square of the step, leave less than this.
#[track_caller]
fn same_gradient(found: &Array2<f64>, differences: &Array2<f64>) {
    const DIFFERENCES: f64 = 1e-7;
    let scale = differences.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    assert!(scale > 1e-6, "a gradient that is not zero");
    let error = (found - differences).iter().fold(0.0f64, |most, v| most.max(v.abs())) / scale;
    assert!(error < DIFFERENCES, "relative error {error}, scale {scale}");
}

#[track_caller]
fn same(a: &LinearHead, b: &LinearHead, tolerance: f64) {
    close(&a.w, &b.w, tolerance);
    close(&a.b, &b.b, tolerance);
}

/// Standard normal numbers in a matrix.
fn normals(seed: Seed, n: usize, d: usize) -> Array2<f64> {
    Array2::from_shape_fn((n, d), |(i, j)| seed.normal((i * d + j) as u64))
}

/// Normal features around random class means of the given size, n of every class, the classes in turn.
fn groups(seed: Seed, classes: usize, n: usize, d: usize, distance: f64) -> Features {
    let means = distance * normals(seed.named("means"), classes, d);
    let y: Vec<u32> = (0..n * classes).map(|i| (i % classes) as u32).collect();
    let mut z = normals(seed.named("noise"), n * classes, d);
    z.rows_mut().into_iter().zip(&y).for_each(|(mut z, y)| z += &means.row(*y as usize));
    Features::new(&z, &y, classes).unwrap()
}
