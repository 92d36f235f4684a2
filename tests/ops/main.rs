//! Operations against naive loops and candle's own; every gradient against central differences; the same bits with any
//! number of threads; NaN passed on; hostile input refused.

mod activation;
mod backward;
mod block;
mod conv;
#[path = "../device/mod.rs"]
mod device;
mod devices;
mod linear;
mod norm;
mod optimiser;
mod pool;
mod quantise;
mod stacked;

use device::device;
use lastlayer::prelude::*;

/// Step of the central differences: error h² from the curvature, 1e-16/h from rounding.
const H: f64 = 1e-5;

/// Central differences of a smooth function with derivatives of order one, in f64: h² = 1e-10, times a few.
const DIFFERENCES: f64 = 1e-8;

/// Rounding of a few hundred f64 operations on numbers of order one, in two different orders.
const ROUNDING: f64 = 1e-12;

/// The same in f32.
const ROUNDING_F32: f64 = 2e-5;

/// Normal numbers, f64.
fn draw(shape: &[usize], seed: u64) -> Tensor {
    Seed::new(seed).normal_tensor(shape, (0.0, 1.0), DType::F64, device()).unwrap()
}

fn var(shape: &[usize], seed: u64) -> Var {
    Var::from_tensor(&draw(shape, seed)).unwrap()
}

/// All numbers, as f64.
fn numbers(t: &Tensor) -> Vec<f64> {
    t.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

fn bits(t: &Tensor) -> Vec<u64> {
    numbers(t).into_iter().map(f64::to_bits).collect()
}

#[track_caller]
fn close(a: &Tensor, b: &Tensor, tolerance: f64) {
    assert_eq!(a.dims(), b.dims());
    for (i, (a, b)) in numbers(a).into_iter().zip(numbers(b)).enumerate() {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "entry {i}: {a} against {b}");
    }
}

/// Σ y r with fixed random r, so that every entry of the gradient is asked for with a weight of its own.
fn weighted(y: &Tensor) -> Tensor {
    let r = draw(y.dims(), 77).to_dtype(y.dtype()).unwrap();
    (y * r).unwrap().sum_all().unwrap()
}

/// Gradients of `weighted(f)` at all inputs.
fn gradients(inputs: &[Var], f: &dyn Fn(&[Tensor]) -> Tensor) -> Vec<Tensor> {
    let tensors: Vec<Tensor> = inputs.iter().map(|v| v.as_tensor().clone()).collect();
    let grads = weighted(&f(&tensors)).backward().unwrap();
    inputs.iter().map(|v| grads.get(v).expect("every input has a gradient").clone()).collect()
}

/// Every entry of every gradient against its central difference.
#[track_caller]
fn check_gradients(inputs: &[Var], f: &dyn Fn(&[Tensor]) -> Tensor) {
    let found = gradients(inputs, f);
    let detached: Vec<Tensor> = inputs.iter().map(|v| v.as_detached_tensor()).collect();
    for (k, input) in inputs.iter().enumerate() {
        let (values, found) = (numbers(input), numbers(&found[k]));
        for i in 0..values.len() {
            let at = |h: f64| {
                let mut moved = values.clone();
                moved[i] += h;
                let mut all = detached.clone();
                all[k] = Tensor::from_vec(moved, input.shape(), device()).unwrap();
                weighted(&f(&all)).to_scalar::<f64>().unwrap()
            };
            let expected = (at(H) - at(-H)) / (2.0 * H);
            let error = (found[i] - expected).abs();
            assert!(
                error <= DIFFERENCES * (1.0 + expected.abs()),
                "input {k}, entry {i}: {} against {expected}",
                found[i]
            );
        }
    }
}

/// Waits until the device has done what this thread asked of it. Other threads ask it by themselves, in no order: what they
/// are given must be there, and must not be freed before they are done with it.
fn settle() {
    device().synchronize().unwrap();
}

/// `f` with one, two and five threads: the same bits.
#[track_caller]
fn same_with_any_threads(f: impl Fn() -> Vec<Tensor> + Sync) {
    settle();
    let run = |threads: usize| -> Vec<Vec<u64>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let all = f().iter().map(bits).collect();
            settle();
            all
        })
    };
    let one = run(1);
    for threads in [2, 5] {
        assert!(one == run(threads), "{threads} threads give other bits than one");
    }
}

/// The result is an `Error::Shape` whose text names what was given.
#[track_caller]
fn refused_shape<T>(result: Result<T>, given: &str) {
    match result {
        Err(Error::Shape { what, expected, got }) => {
            let text = format!("{what} {expected} {got}");
            assert!(text.contains(given), "{text:?} does not name {given:?}");
        }
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("not refused"),
    }
}

#[track_caller]
fn refused_setting<T>(result: Result<T>, field: &str) {
    match result {
        Err(Error::Config { field: named, .. }) => {
            assert!(named.contains(field), "{named:?} does not name {field:?}")
        }
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("not refused"),
    }
}

fn empty(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, DType::F64, device()).unwrap()
}

fn half(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, DType::F16, device()).unwrap()
}

fn f32s(t: &Tensor) -> Tensor {
    t.to_dtype(DType::F32).unwrap()
}

/// The same numbers in another order of memory.
fn shuffled(t: &Tensor) -> Tensor {
    let last = t.rank() - 1;
    let moved = t.transpose(0, last).unwrap().contiguous().unwrap().transpose(0, last).unwrap();
    assert!(!moved.is_contiguous() || t.dims()[0] == 1 || t.dims()[last] == 1);
    moved
}
