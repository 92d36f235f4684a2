//! Many linear layers at once: against one layer at a time, and every gradient against finite differences.

use crate::device::device;
use lastlayer::ops::{TwoLayer, stacked_linear};
use lastlayer::prelude::{DType, Tensor, Var};
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(5);

fn normal(name: &str, shape: &[usize], dtype: DType) -> Tensor {
    SEED.named(name).normal_tensor(shape, (0.0, 1.0), dtype, device()).unwrap()
}

fn flat(t: &Tensor) -> Vec<f64> {
    t.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

#[track_caller]
fn close(a: &Tensor, b: &Tensor, tolerance: f64) {
    assert_eq!(a.dims(), b.dims());
    for (a, b) in flat(a).iter().zip(flat(b)) {
        assert!((a - b).abs() <= tolerance, "{a} and {b}");
    }
}

/// Shared and own inputs of three models.
fn cases(dtype: DType) -> [(Tensor, Tensor, Tensor); 2] {
    let (weight, bias) = (normal("w", &[3, 4, 5], dtype), normal("b", &[3, 4], dtype));
    [[7usize, 5].as_slice(), &[3, 7, 5]]
        .map(|shape| (normal("x", shape, dtype), weight.clone(), bias.clone()))
}

#[test]
fn every_layer_is_the_one_it_would_be_alone() {
    for (x, weight, bias) in cases(DType::F32) {
        let y = stacked_linear(&x, &weight, &bias).unwrap();
        for p in 0..3 {
            let own = if x.rank() == 2 { x.clone() } else { x.get(p).unwrap() };
            let alone =
                lastlayer::ops::linear(&own, &weight.get(p).unwrap(), Some(&bias.get(p).unwrap())).unwrap();
            close(&y.get(p).unwrap(), &alone, 1e-6);
        }
    }
}

#[test]
fn stacked_gradients_match_finite_differences() {
    const STEP: f64 = 1e-6;
    for (x, weight, bias) in cases(DType::F64) {
        let upstream = normal("up", &[3, 7, 4], DType::F64);
        let value = |parts: &[Tensor; 3]| {
            let y = stacked_linear(&parts[0], &parts[1], &parts[2]).unwrap();
            (y * &upstream).unwrap().sum_all().unwrap().to_scalar::<f64>().unwrap()
        };
        let parts = [x, weight, bias];
        let vars = parts.clone().map(|t| Var::from_tensor(&t).unwrap());
        let y = stacked_linear(&vars[0], &vars[1], &vars[2]).unwrap();
        let store = (y * &upstream).unwrap().sum_all().unwrap().backward().unwrap();
        for which in 0..3 {
            let numbers = flat(&parts[which]);
            let found = flat(store.get(&vars[which]).unwrap());
            for i in 0..numbers.len() {
                let moved = |by: f64| {
                    let mut numbers = numbers.clone();
                    numbers[i] += by;
                    let mut parts = parts.clone();
                    parts[which] = Tensor::from_vec(numbers, parts[which].shape(), device()).unwrap();
                    value(&parts)
                };
                let expected = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                assert!((found[i] - expected).abs() < 1e-7, "{} and {expected}", found[i]);
            }
        }
    }
}

#[test]
fn sizes_that_disagree_are_named() {
    let (x, weight, bias) = cases(DType::F32)[0].clone();
    let say = |x: &Tensor, w: &Tensor, b: &Tensor| stacked_linear(x, w, b).unwrap_err().to_string();
    assert!(say(&x.narrow(1, 0, 4).unwrap(), &weight, &bias).contains("x of stacked_linear"));
    assert!(say(&x, &weight.get(0).unwrap(), &bias).contains("weight of stacked_linear"));
    assert!(say(&x, &weight, &bias.narrow(0, 0, 2).unwrap()).contains("bias of stacked_linear"));
    assert!(say(&x.to_dtype(DType::F64).unwrap(), &weight, &bias).contains("F32"));
    assert!(say(&x.unsqueeze(0).unwrap(), &weight, &bias).contains("x of stacked_linear"));
}

const SIZES: TwoLayer = TwoLayer { inputs: 5, hidden: [4, 3] };

/// Parameters of three networks, inputs and labels of seven rows.
fn networks() -> [Tensor; 3] {
    let labels = normal("y", &[7, 6], DType::F64).gt(0.0).unwrap().to_dtype(DType::F64).unwrap();
    [normal("theta", &[3, SIZES.size()], DType::F64), normal("x", &[7, 5], DType::F64), labels]
}

const WEIGHTS: [f64; 6] = [1.0, 0.0, 1.0, 1.0, 0.5, 2.0];

/// The same losses, composed of tensor operations.
fn composed(theta: &Tensor, x: &Tensor, y: &Tensor) -> Tensor {
    let y = y.reshape((7, 3, 2)).unwrap().transpose(0, 1).unwrap().contiguous().unwrap();
    let each = lastlayer::loss::bce_logits_each(&SIZES.scores(theta, x).unwrap(), &y).unwrap();
    let weights = Tensor::new(&WEIGHTS, device()).unwrap().reshape((3, 1, 2)).unwrap();
    (each.broadcast_mul(&weights).unwrap().sum((1, 2)).unwrap() / 7.0).unwrap()
}

#[test]
fn the_loss_of_many_networks_is_that_of_each() {
    let [theta, x, y] = networks();
    let (ours, plain) = (Var::from_tensor(&theta).unwrap(), Var::from_tensor(&theta).unwrap());
    let loss = SIZES.logistic_loss(&ours, &x, &y, &WEIGHTS).unwrap();
    let expected = composed(&plain, &x, &y);
    close(&loss, &expected, 1e-12);
    // Weights of their own for the three losses, so that the gradient of each is seen.
    let shares = Tensor::new(&[1.0, -0.5, 2.0], device()).unwrap();
    for shares in [shares.ones_like().unwrap(), shares] {
        let of = |loss: &Tensor, var: &Var| {
            let store = (loss * &shares).unwrap().sum_all().unwrap().backward().unwrap();
            store.get(var).unwrap().clone()
        };
        let loss = SIZES.logistic_loss(&ours, &x, &y, &WEIGHTS).unwrap();
        close(&of(&loss, &ours), &of(&expected, &plain), 1e-12);
    }
}

#[test]
fn the_gradient_of_many_networks_matches_finite_differences() {
    const STEP: f64 = 1e-6;
    let [theta, x, y] = networks();
    let var = Var::from_tensor(&theta).unwrap();
    let store = SIZES.logistic_loss(&var, &x, &y, &WEIGHTS).unwrap().sum_all().unwrap().backward().unwrap();
    let (found, numbers) = (flat(store.get(&var).unwrap()), flat(&theta));
    for i in 0..numbers.len() {
        let value = |by: f64| {
            let mut numbers = numbers.clone();
            numbers[i] += by;
            let theta = Tensor::from_vec(numbers, theta.shape(), device()).unwrap();
            flat(&SIZES.logistic_loss(&theta, &x, &y, &WEIGHTS).unwrap()).iter().sum::<f64>()
        };
        let expected = (value(STEP) - value(-STEP)) / (2.0 * STEP);
        assert!((found[i] - expected).abs() < 1e-8, "{}: {} and {expected}", i, found[i]);
    }
}

#[test]
fn inputs_of_many_networks_get_their_gradient() {
    const STEP: f64 = 1e-6;
    let [theta, x, y] = networks();
    let var = Var::from_tensor(&x).unwrap();
    // Losses that count differently, and inputs that are the result of an operation.
    let shares = Tensor::new(&[1.0, -0.5, 2.0], device()).unwrap();
    let value = |x: &Tensor| {
        let loss = SIZES.logistic_loss(&theta, &(x * 2.0).unwrap(), &y, &WEIGHTS).unwrap();
        (loss * &shares).unwrap().sum_all().unwrap()
    };
    let store = value(&var).backward().unwrap();
    let (found, numbers) = (flat(store.get(&var).unwrap()), flat(&x));
    for i in 0..numbers.len() {
        let moved = |by: f64| {
            let mut numbers = numbers.clone();
            numbers[i] += by;
            let x = Tensor::from_vec(numbers, x.shape(), device()).unwrap();
            value(&x).to_scalar::<f64>().unwrap()
        };
        let expected = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
        assert!((found[i] - expected).abs() < 1e-8, "{}: {} and {expected}", i, found[i]);
    }
    // The pass that hands gradients over says the same.
    let handed = lastlayer::ops::backward(&value(&var)).unwrap();
    assert_eq!(flat(handed.get(&var).unwrap()), found);
}

#[test]
fn a_second_backward_pass_repeats_the_first() {
    let [theta, x, y] = networks();
    let (theta, x) = (Var::from_tensor(&theta).unwrap(), Var::from_tensor(&x).unwrap());
    let loss = SIZES.logistic_loss(&theta, &x, &y, &WEIGHTS).unwrap().sum_all().unwrap();
    let [first, second] = [0, 1].map(|_| {
        let store = lastlayer::ops::backward(&loss).unwrap();
        [&theta, &x].map(|var| flat(store.get(var).unwrap()))
    });
    assert_eq!(first, second);
}

#[test]
fn networks_that_do_not_fit_are_named() {
    let [theta, x, y] = networks();
    let say = |theta: &Tensor, x: &Tensor, y: &Tensor, weights: &[f64]| {
        SIZES.logistic_loss(theta, x, y, weights).unwrap_err().to_string()
    };
    assert!(
        say(&theta.narrow(1, 0, 9).unwrap(), &x, &y, &WEIGHTS).contains("parameters of stacked networks")
    );
    assert!(say(&theta, &x.narrow(1, 0, 4).unwrap(), &y, &WEIGHTS).contains("inputs of stacked networks"));
    assert!(say(&theta, &x, &y.narrow(1, 0, 4).unwrap(), &WEIGHTS).contains("labels of stacked networks"));
    assert!(say(&theta, &x, &y, &WEIGHTS[..2]).contains("weights of stacked networks"));
    assert!(say(&theta, &x.to_dtype(DType::F32).unwrap(), &y, &WEIGHTS).contains("F32"));
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let [theta, x, y] = networks().map(|t| t.to_dtype(DType::F32).unwrap());
    super::settle();
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let var = Var::from_tensor(&theta).unwrap();
            let loss = SIZES.logistic_loss(&var, &x, &y, &WEIGHTS).unwrap();
            let store = loss.sum_all().unwrap().backward().unwrap();
            let both = [flat(&loss), flat(store.get(&var).unwrap())];
            super::settle();
            both
        })
    };
    assert_eq!(with(1), with(2));
}
