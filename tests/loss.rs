//! Losses against their formulas and finite differences, also where exponentials overflow.

mod device;

use device::device;
use lastlayer::error::Error;
use lastlayer::loss::{
    bce_logits, bce_logits_each, cross_entropy, log_softmax, one_hot, soft_cross_entropy, squared,
};
use lastlayer::prelude::{DType, Result, Tensor, Var};
use lastlayer::seed::Seed;

/// Central differences with step 1e-5 in f64: truncation 1e-10, rounding 1e-11.
const DIFFERENCE: f64 = 1e-8;

fn normal(shape: &[usize], seed: u64) -> Tensor {
    Seed::new(seed).normal_tensor(shape, (0.0, 2.0), DType::F64, device()).unwrap()
}

fn numbers(t: &Tensor) -> Vec<f64> {
    t.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

fn assert_gradient(x: &Tensor, loss: impl Fn(&Tensor) -> Result<Tensor>) {
    let var = Var::from_tensor(x).unwrap();
    let grads = loss(var.as_tensor()).unwrap().backward().unwrap();
    let found = numbers(grads.get(&var).unwrap());
    let values = numbers(x);
    for i in 0..values.len() {
        let at = |h: f64| {
            let mut moved = values.clone();
            moved[i] += h;
            numbers(&loss(&Tensor::from_vec(moved, x.shape(), device()).unwrap()).unwrap())[0]
        };
        let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!((found[i] - numeric).abs() < DIFFERENCE, "entry {i}: {} and {numeric}", found[i]);
    }
}

#[test]
fn gradients_match_finite_differences() {
    let s = normal(&[7, 3], 1);
    let y = Tensor::new(&[0u32, 2, 1, 1, 0, 2, 2], device()).unwrap();
    let p = normal(&[7, 3], 2).exp().unwrap();
    let p = p.broadcast_div(&p.sum_keepdim(1).unwrap()).unwrap();
    assert_gradient(&s, |s| cross_entropy(s, &y));
    assert_gradient(&s, |s| soft_cross_entropy(s, &p));
    assert_gradient(&s, |s| squared(s, &p));
    assert_gradient(&s, |s| bce_logits(s, &p));
    assert_gradient(&s, |s| Ok(log_softmax(s)?.mul(&p)?.sum_all()?));
}

#[test]
fn the_logistic_loss_is_its_formula_and_its_gradient_at_zero_is_half_minus_y() {
    let s = normal(&[50], 3);
    let y: Vec<u8> = (0..50).map(|i| (i % 3 == 0) as u8).collect();
    let found = numbers(&bce_logits_each(&s, &Tensor::new(y.clone(), device()).unwrap()).unwrap());
    for ((s, y), found) in numbers(&s).iter().zip(&y).zip(found) {
        let p = 1.0 / (1.0 + (-s).exp());
        let formula = if *y == 1 { -p.ln() } else { -(1.0 - p).ln() };
        assert!((found - formula).abs() < 1e-12);
    }
    let zero = Var::zeros(2, DType::F64, device()).unwrap();
    let labels = Tensor::new(&[0f64, 1.0], device()).unwrap();
    let loss = bce_logits_each(&zero, &labels).unwrap().sum_all().unwrap();
    assert_eq!(numbers(loss.backward().unwrap().get(&zero).unwrap()), [0.5, -0.5]);
}

#[test]
fn losses_are_finite_at_any_score() {
    for dtype in [DType::F32, DType::F64] {
        let s =
            Tensor::new(&[1e4f64, -1e4, 89.0, -89.0, 0.0, 20.0], device()).unwrap().to_dtype(dtype).unwrap();
        for label in [0u32, 1] {
            let y = Tensor::full(label, 6, device()).unwrap();
            let var = Var::from_tensor(&s).unwrap();
            let loss = bce_logits(&var, &y).unwrap();
            let grads = loss.backward().unwrap();
            assert!(numbers(&loss).iter().chain(&numbers(grads.get(&var).unwrap())).all(|v| v.is_finite()));
        }
        let s = Tensor::new(&[[1e4f64, -1e4], [-1e4, 1e4]], device()).unwrap().to_dtype(dtype).unwrap();
        let var = Var::from_tensor(&s).unwrap();
        let loss = cross_entropy(&var, &Tensor::new(&[1u32, 1], device()).unwrap()).unwrap();
        assert_eq!(numbers(&loss), [1e4]);
        let grads = loss.backward().unwrap();
        assert_eq!(numbers(grads.get(&var).unwrap()), [0.5, -0.5, 0.0, 0.0]);
    }
}

#[test]
fn cross_entropy_is_that_of_one_hot_probabilities() {
    let s = normal(&[5, 4], 4);
    let y = Tensor::new(&[3u32, 0, 1, 2, 3], device()).unwrap();
    let mut hot = vec![0f64; 20];
    [3, 0, 1, 2, 3].iter().enumerate().for_each(|(i, c)| hot[4 * i + c] = 1.0);
    let hot = Tensor::from_vec(hot, (5, 4), device()).unwrap();
    let (a, b) = (cross_entropy(&s, &y).unwrap(), soft_cross_entropy(&s, &hot).unwrap());
    assert!((numbers(&a)[0] - numbers(&b)[0]).abs() < 1e-14);
    let bytes = cross_entropy(&s, &y.to_dtype(DType::U8).unwrap()).unwrap();
    assert_eq!(numbers(&a), numbers(&bytes));
}

#[test]
fn labels_that_do_not_fit_are_refused() {
    let s = normal(&[4, 3], 5);
    let shape = |result: Result<Tensor>| assert!(matches!(result, Err(Error::Shape { .. })), "{result:?}");
    shape(cross_entropy(&s, &Tensor::new(&[0u32, 1], device()).unwrap()));
    shape(cross_entropy(&normal(&[4], 1), &Tensor::new(&[0u32, 1, 0, 1], device()).unwrap()));
    shape(soft_cross_entropy(&s, &normal(&[4, 2], 1)));
    shape(squared(&s, &normal(&[3, 4], 1)));
    shape(bce_logits(&normal(&[4], 1), &normal(&[4, 1], 1)));
    let floats = Tensor::new(&[0f64, 1.0, 2.0, 0.0], device()).unwrap();
    assert!(matches!(cross_entropy(&s, &floats), Err(Error::Config { .. })));
    refused(|| cross_entropy(&s, &Tensor::new(&[0u32, 1, 2, 3], device()).unwrap()));
}

/// A label that is no class: an error on the CPU, and on a device, where nothing is asked, a result that is no number.
fn refused(loss: impl Fn() -> Result<Tensor>) {
    match device().is_cpu() {
        true => assert!(matches!(loss(), Err(Error::Config { .. }))),
        false => assert!(numbers(&loss().unwrap()).iter().any(|v| v.is_nan())),
    }
}

#[test]
fn a_wrong_label_spoils_its_own_row_alone() {
    if device().is_cpu() {
        return;
    }
    let hot = one_hot(&Tensor::new(&[1u32, 7, 0], device()).unwrap(), 2, DType::F64).unwrap();
    let found = numbers(&hot);
    assert_eq!((&found[..2], &found[4..]), (&[0.0, 1.0][..], &[1.0, 0.0][..]));
    assert!(found[2..4].iter().all(|v| v.is_nan()));
}

#[test]
fn one_hot_has_a_one_per_row_and_refuses_what_is_no_class() {
    let hot = |y: &Tensor| one_hot(y, 3, DType::F64);
    for dtype in [DType::U8, DType::U32, DType::I64] {
        let y = Tensor::new(&[2u32, 0, 1], device()).unwrap().to_dtype(dtype).unwrap();
        assert_eq!(numbers(&hot(&y).unwrap()), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    }
    for wrong in [&[0i64, 3][..], &[0, -1], &[3]] {
        refused(|| hot(&Tensor::new(wrong, device()).unwrap()));
    }
    assert!(matches!(hot(&Tensor::new(&[0f64, 1.0], device()).unwrap()), Err(Error::Config { .. })));
    assert!(matches!(hot(&Tensor::new(&[[0u32, 1]], device()).unwrap()), Err(Error::Shape { .. })));
}
