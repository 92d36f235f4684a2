//! Many linear layers at once: against one layer at a time, and every gradient against finite differences.

use lastlayer::ops::stacked::{stacked_linear, stacked_linear_by_tensors};
use lastlayer::prelude::{DType, Device, Tensor, Var};
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(5);

fn normal(name: &str, shape: &[usize], dtype: DType) -> Tensor {
    SEED.named(name).normal_tensor(shape, (0.0, 1.0), dtype, &Device::Cpu).unwrap()
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
fn layers_by_tensors_agree_with_the_kernels() {
    for (x, weight, bias) in cases(DType::F64) {
        let vars = [&x, &weight, &bias].map(|t| Var::from_tensor(t).unwrap());
        let upstream = normal("up", &[3, 7, 4], DType::F64);
        let gradients = |y: Tensor| {
            let store = (y * &upstream).unwrap().sum_all().unwrap().backward().unwrap();
            vars.clone().map(|var| store.get(&var).unwrap().clone())
        };
        let [a, b, c] = &vars;
        let ours = gradients(stacked_linear(a, b, c).unwrap());
        let plain = gradients(stacked_linear_by_tensors(a, b, c).unwrap());
        close(&stacked_linear(a, b, c).unwrap(), &stacked_linear_by_tensors(a, b, c).unwrap(), 1e-12);
        ours.iter().zip(&plain).for_each(|(a, b)| close(a, b, 1e-12));
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
                    parts[which] = Tensor::from_vec(numbers, parts[which].shape(), &Device::Cpu).unwrap();
                    value(&parts)
                };
                let expected = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                assert!((found[i] - expected).abs() < 1e-7, "{} and {expected}", found[i]);
            }
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let (x, weight, bias) = (
        normal("x", &[64, 40], DType::F32),
        normal("w", &[9, 30, 40], DType::F32),
        normal("b", &[9, 30], DType::F32),
    );
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| flat(&stacked_linear(&x, &weight, &bias).unwrap()))
    };
    assert_eq!(with(1), with(2));
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
