use super::*;
use lastlayer::ops::composed::{mish_by_tensors, relu_by_tensors};
use lastlayer::ops::{mish, relu};

type Map = fn(&Tensor) -> Result<Tensor>;

const RELU: [Map; 2] = [relu, relu_by_tensors];
const MISH: [Map; 2] = [mish, mish_by_tensors];

#[test]
fn relu_has_gradient_zero_at_zero() {
    for relu in RELU {
        let x = Var::new(&[-1f64, -0.0, 0.0, 1e-300, 2.0], device()).unwrap();
        let y = relu(&x).unwrap();
        assert_eq!(numbers(&y), [0.0, 0.0, 0.0, 1e-300, 2.0]);
        let grads = y.sum_all().unwrap().backward().unwrap();
        assert_eq!(numbers(grads.get(&x).unwrap()), [0.0, 0.0, 0.0, 1.0, 1.0]);
    }
    let x = Var::new(&[0f64], device()).unwrap();
    let candle = x.relu().unwrap().sum_all().unwrap().backward().unwrap();
    assert_eq!(numbers(candle.get(&x).unwrap()), [1.0], "candle has changed: is our own still needed?");
}

#[test]
fn activation_gradients_match_finite_differences() {
    for f in [RELU, MISH].concat() {
        for shape in [&[7][..], &[3, 4], &[2, 3, 2, 2]] {
            check_gradients(&[var(shape, 4)], &|t| f(&t[0]).unwrap());
        }
        check_gradients(&[var(&[3, 4], 4)], &|t| f(&shuffled(&t[0])).unwrap());
    }
}

#[test]
fn mish_is_its_formula() {
    let x: Vec<f64> = (-400..=400).map(|i| f64::from(i) / 20.0).collect();
    let expected: Vec<f64> = x.iter().map(|x| x * x.exp().ln_1p().tanh()).collect();
    let expected = Tensor::new(&expected[..], device()).unwrap();
    for mish in MISH {
        close(&mish(&Tensor::new(&x[..], device()).unwrap()).unwrap(), &expected, ROUNDING);
        close(&mish(&f32s(&Tensor::new(&x[..], device()).unwrap())).unwrap(), &expected, ROUNDING_F32);
    }
}

#[test]
fn mish_has_these_values() {
    // Half of the last digit of the numbers below.
    const DIGITS: f64 = 5e-8;
    for mish in MISH {
        let lowest = -1.1924312;
        let x = Var::new(&[1.0, 0.0, lowest, 100.0, -100.0], device()).unwrap();
        let y = mish(&x).unwrap();
        let slopes = numbers(y.sum_all().unwrap().backward().unwrap().get(&x).unwrap());
        let y = numbers(&y);
        assert!((y[0] - 0.8650984).abs() < DIGITS && (y[2] + 0.3088434).abs() < DIGITS, "{y:?}");
        assert!((slopes[1] - 0.6).abs() < ROUNDING && slopes[2].abs() < DIGITS, "{slopes:?}");
        assert_eq!((y[3], slopes[3]), (100.0, 1.0));
        assert!(y[4].abs() < 1e-40 && slopes[4].abs() < 1e-40);
        let around = Tensor::new(&[lowest - 1e-3, lowest + 1e-3], device()).unwrap();
        assert!(numbers(&mish(&around).unwrap()).iter().all(|beside| *beside > y[2]));
    }
}

#[test]
fn mish_does_not_overflow() {
    for mish in MISH {
        let x = Var::new(&[-1e30f32, -1000.0, -100.0, 89.0, 1000.0, 1e30], device()).unwrap();
        let y = mish(&x).unwrap();
        assert_eq!(numbers(&y)[3..], [89.0, 1000.0, f64::from(1e30f32)]);
        assert!(numbers(&y)[..3].iter().all(|y| y.abs() < 1e-40), "{y}");
        let grads = y.sum_all().unwrap().backward().unwrap();
        let slopes = numbers(grads.get(&x).unwrap());
        assert!(slopes[..3].iter().all(|s| s.abs() < 1e-40), "{slopes:?}");
        assert_eq!(slopes[3..], [1.0; 3]);
    }
    let x = Var::new(&[f64::NEG_INFINITY, f64::INFINITY], device()).unwrap();
    let y = mish(&x).unwrap();
    assert_eq!(numbers(&y), [0.0, f64::INFINITY]);
    assert_eq!(numbers(y.sum_all().unwrap().backward().unwrap().get(&x).unwrap()), [0.0, 1.0]);
}

#[test]
fn activations_pass_nan_on() {
    for f in [RELU, MISH].concat() {
        let y = numbers(&f(&Tensor::new(&[f32::NAN, 1.0], device()).unwrap()).unwrap());
        assert!(y[0].is_nan() && !y[1].is_nan());
    }
}

#[test]
fn activations_give_the_same_bits_with_any_threads() {
    let x = Var::from_tensor(&f32s(&draw(&[300_000], 1))).unwrap();
    for f in [relu, mish] {
        same_with_any_threads(|| gradients(std::slice::from_ref(&x), &|t| f(&t[0]).unwrap()));
    }
}

#[test]
fn activations_refuse_what_they_cannot_do() {
    for f in [RELU, MISH].concat() {
        refused_shape(f(&empty(&[0])), "[0]");
        refused_setting(f(&half(&[2])), "type");
        refused_setting(f(&Tensor::new(&[1u32], device()).unwrap()), "type");
    }
}
