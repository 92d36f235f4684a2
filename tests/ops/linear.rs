use super::*;
use lastlayer::ops::linear;

#[test]
fn linear_is_candles() {
    for (n, d, k) in [(5, 3, 4), (1, 1, 1), (130, 90, 70), (200, 100, 65)] {
        let (x, w, b) = (draw(&[n, d], 1), draw(&[k, d], 2), draw(&[k], 3));
        let product = x.matmul(&w.t().unwrap()).unwrap();
        close(&linear(&x, &w, None).unwrap(), &product, ROUNDING);
        let expected = product.broadcast_add(&b).unwrap();
        close(&linear(&x, &w, Some(&b)).unwrap(), &expected, ROUNDING);
        close(&linear(&shuffled(&x), &shuffled(&w), Some(&b)).unwrap(), &expected, ROUNDING);
        close(&linear(&f32s(&x), &f32s(&w), Some(&f32s(&b))).unwrap(), &expected, 10.0 * ROUNDING_F32);
    }
}

#[test]
fn linear_gradients_match_finite_differences() {
    for (n, d, k) in [(5, 3, 4), (1, 1, 1), (2, 7, 1)] {
        let inputs = [var(&[n, d], 1), var(&[k, d], 2), var(&[k], 3)];
        check_gradients(&inputs, &|t| linear(&t[0], &t[1], Some(&t[2])).unwrap());
        check_gradients(&inputs, &|t| linear(&shuffled(&t[0]), &shuffled(&t[1]), Some(&t[2])).unwrap());
        check_gradients(&inputs[..2], &|t| linear(&t[0], &t[1], None).unwrap());
    }
}

#[test]
fn gradients_of_large_layers_are_candles() {
    let inputs = [var(&[130, 90], 1), var(&[170, 90], 2), var(&[170], 3)];
    let mine = gradients(&inputs, &|t| linear(&t[0], &t[1], Some(&t[2])).unwrap());
    let theirs =
        gradients(&inputs, &|t| t[0].matmul(&t[1].t().unwrap()).unwrap().broadcast_add(&t[2]).unwrap());
    for (mine, theirs) in mine.iter().zip(&theirs) {
        close(mine, theirs, ROUNDING);
    }
}

#[test]
fn linear_keeps_leading_sizes() {
    let inputs = [var(&[2, 3, 4], 1), var(&[5, 4], 2), var(&[5], 3)];
    let f = |t: &[Tensor]| linear(&t[0], &t[1], Some(&t[2])).unwrap();
    assert_eq!(f(&inputs.each_ref().map(|v| v.as_tensor().clone())).dims(), [2, 3, 5]);
    check_gradients(&inputs, &f);
}

#[test]
fn linear_gives_the_same_bits_with_any_threads() {
    let inputs = [var(&[150, 300], 1), var(&[200, 300], 2), var(&[200], 3)];
    let inputs = inputs.map(|v| Var::from_tensor(&f32s(&v)).unwrap());
    same_with_any_threads(|| gradients(&inputs, &|t| linear(&t[0], &t[1], Some(&t[2])).unwrap()));
}

#[test]
fn linear_passes_nan_on() {
    let x = Tensor::new(&[[f64::NAN, 1.0], [1.0, 1.0]], device()).unwrap();
    let y = numbers(&linear(&x, &draw(&[1, 2], 1), None).unwrap());
    assert!(y[0].is_nan() && !y[1].is_nan());
}

#[test]
fn linear_refuses_what_it_cannot_do() {
    let (x, w, b) = (draw(&[5, 3], 1), draw(&[4, 3], 2), draw(&[4], 3));
    refused_shape(linear(&x, &draw(&[4, 2], 1), None), "[5, 3]");
    refused_shape(linear(&x, &draw(&[4, 2], 1), None), "[4, 2]");
    refused_shape(linear(&x, &w, Some(&draw(&[3], 1))), "[3]");
    refused_shape(linear(&x, &w, Some(&draw(&[1, 4], 1))), "[1, 4]");
    refused_shape(linear(&draw(&[3], 1), &w, Some(&b)), "[3]");
    refused_shape(linear(&x, &draw(&[4, 3, 1], 1), Some(&b)), "[4, 3, 1]");
    refused_shape(linear(&empty(&[0, 3]), &w, Some(&b)), "[0, 3]");
    refused_shape(linear(&empty(&[5, 0]), &empty(&[4, 0]), None), "[5, 0]");
    refused_setting(linear(&x, &f32s(&w), None), "type");
    refused_setting(linear(&half(&[5, 3]), &half(&[4, 3]), None), "type");
}
