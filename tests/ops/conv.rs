use super::*;
use lastlayer::ops::composed::conv2d_by_tensors;
use lastlayer::ops::conv2d;

/// Images, kernels, stride, padding: odd and even sizes, kernels that are not square, strides that leave a rest.
const CASES: &[([usize; 4], [usize; 4], usize, usize)] = &[
    ([2, 3, 5, 6], [4, 3, 3, 3], 1, 1),
    ([1, 1, 1, 1], [1, 1, 1, 1], 1, 0),
    ([3, 2, 7, 5], [3, 2, 3, 2], 2, 0),
    ([2, 2, 6, 9], [2, 2, 1, 4], 3, 2),
    ([2, 4, 4, 4], [3, 4, 1, 1], 1, 0),
    ([2, 4, 5, 4], [3, 4, 1, 1], 2, 0),
    ([9, 1, 3, 3], [2, 1, 5, 5], 1, 2),
    ([1, 2, 4, 12], [2, 2, 3, 3], 1, 0),
    ([17, 1, 2, 2], [1, 1, 2, 2], 1, 1),
];

/// The definition: seven loops, the seventh over images.
fn naive(x: &Tensor, weight: &Tensor, stride: usize, padding: usize) -> Tensor {
    let (n, c, h, w) = x.dims4().unwrap();
    let (o, _, kh, kw) = weight.dims4().unwrap();
    let (oh, ow) = ((h + 2 * padding - kh) / stride + 1, (w + 2 * padding - kw) / stride + 1);
    let (x, k) = (numbers(x), numbers(weight));
    let mut y = vec![0.0; n * o * oh * ow];
    for i in 0..n {
        for a in 0..o {
            for p in 0..oh {
                for q in 0..ow {
                    for b in 0..c {
                        for s in 0..kh {
                            for t in 0..kw {
                                let (row, col) = (p * stride + s, q * stride + t);
                                if (padding..h + padding).contains(&row)
                                    && (padding..w + padding).contains(&col)
                                {
                                    y[((i * o + a) * oh + p) * ow + q] += x
                                        [((i * c + b) * h + row - padding) * w + col - padding]
                                        * k[((a * c + b) * kh + s) * kw + t];
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    Tensor::from_vec(y, (n, o, oh, ow), device()).unwrap()
}

#[test]
fn conv2d_is_seven_loops() {
    for (i, (images, kernels, stride, padding)) in CASES.iter().enumerate() {
        let (x, w) = (draw(images, i as u64), draw(kernels, 100 + i as u64));
        let expected = naive(&x, &w, *stride, *padding);
        close(&conv2d(&x, &w, *stride, *padding).unwrap(), &expected, ROUNDING);
        close(&conv2d(&f32s(&x), &f32s(&w), *stride, *padding).unwrap(), &expected, ROUNDING_F32);
    }
}

#[test]
fn conv2d_gradients_match_finite_differences() {
    for (i, (images, kernels, stride, padding)) in CASES.iter().enumerate() {
        let inputs = [var(images, i as u64), var(kernels, 100 + i as u64)];
        check_gradients(&inputs, &|t| conv2d(&t[0], &t[1], *stride, *padding).unwrap());
    }
}

#[test]
fn conv2d_and_its_gradients_are_candles() {
    for (images, kernels, stride, padding) in CASES {
        let inputs = [var(images, 1), var(kernels, 2)];
        let f = |t: &[Tensor]| conv2d(&t[0], &t[1], *stride, *padding).unwrap();
        let candle = |t: &[Tensor]| conv2d_by_tensors(&t[0], &t[1], *stride, *padding).unwrap();
        let tensors = [inputs[0].as_tensor().clone(), inputs[1].as_tensor().clone()];
        close(&f(&tensors), &candle(&tensors), ROUNDING);
        for (mine, theirs) in gradients(&inputs, &f).iter().zip(gradients(&inputs, &candle)) {
            close(mine, &theirs, ROUNDING);
        }
    }
}

#[test]
fn conv2d_in_several_tiles_is_seven_loops_too() {
    // 200 weights per kernel times 60 x 60 results: the columns of one image are larger than a tile.
    let inputs = [var(&[2, 8, 60, 60], 1), var(&[3, 8, 5, 5], 2)];
    let f = |t: &[Tensor]| conv2d(&t[0], &t[1], 1, 2).unwrap();
    let (x, w) = (inputs[0].as_tensor(), inputs[1].as_tensor());
    close(&f(&[x.clone(), w.clone()]), &naive(x, w, 1, 2), ROUNDING);
    let candle = |t: &[Tensor]| t[0].conv2d(&t[1], 2, 1, 1, 1).unwrap();
    for (mine, theirs) in gradients(&inputs, &f).iter().zip(gradients(&inputs, &candle)) {
        close(mine, &theirs, 100.0 * ROUNDING); // sums of 7200 products
    }
}

#[test]
fn conv2d_takes_any_order_of_memory() {
    let (x, w) = (draw(&[2, 3, 5, 4], 1), draw(&[4, 3, 3, 2], 2));
    let expected = conv2d(&x, &w, 1, 1).unwrap();
    assert_eq!(bits(&conv2d(&shuffled(&x), &shuffled(&w), 1, 1).unwrap()), bits(&expected));
    let part = draw(&[4, 3, 5, 4], 1).narrow(0, 1, 2).unwrap();
    close(&conv2d(&part, &w, 1, 1).unwrap(), &naive(&part, &w, 1, 1), ROUNDING);
    check_gradients(&[var(&[2, 3, 5, 4], 1), var(&[4, 3, 3, 2], 2)], &|t| {
        conv2d(&shuffled(&t[0]), &shuffled(&t[1]), 1, 1).unwrap()
    });
}

#[test]
fn conv2d_gives_the_same_bits_with_any_threads() {
    let inputs =
        [var(&[19, 5, 12, 11], 1), var(&[7, 5, 3, 3], 2)].map(|v| Var::from_tensor(&f32s(&v)).unwrap());
    let f = |t: &[Tensor]| conv2d(&t[0], &t[1], 1, 1).unwrap();
    same_with_any_threads(|| {
        let mut all = gradients(&inputs, &f);
        all.push(f(&[inputs[0].as_tensor().clone(), inputs[1].as_tensor().clone()]));
        all
    });
}

#[test]
fn conv2d_of_data_asks_for_no_gradient_of_the_data() {
    let (x, w) = (draw(&[2, 3, 5, 5], 1), var(&[4, 3, 3, 3], 2));
    let grads = weighted(&conv2d(&x, &w, 1, 1).unwrap()).backward().unwrap();
    assert!(grads.get(&x).is_none());
    assert!(grads.get(&w).is_some());
    let (x, w) = (var(&[2, 3, 5, 5], 1), draw(&[4, 3, 3, 3], 2));
    let grads = weighted(&conv2d(&x, &w, 1, 1).unwrap()).backward().unwrap();
    assert!(grads.get(&w).is_none());
    assert!(grads.get(&x).is_some());
}

#[test]
fn conv2d_passes_nan_to_the_windows_that_hold_it_only() {
    let mut values = numbers(&draw(&[1, 1, 5, 5], 1));
    values[0] = f64::NAN;
    let x = Tensor::from_vec(values, (1, 1, 5, 5), device()).unwrap();
    let y = numbers(&conv2d(&x, &draw(&[1, 1, 3, 3], 2), 1, 1).unwrap());
    let nan: Vec<usize> = (0..25).filter(|i| y[*i].is_nan()).collect();
    assert_eq!(nan, [0, 1, 5, 6]);
}

#[test]
fn conv2d_refuses_what_it_cannot_do() {
    let (x, w) = (draw(&[2, 3, 5, 5], 1), draw(&[4, 3, 3, 3], 2));
    for conv in [conv2d, conv2d_by_tensors] {
        refused_shape(conv(&x, &draw(&[4, 2, 3, 3], 1), 1, 1), "[4, 2, 3, 3]");
        refused_shape(conv(&x, &draw(&[4, 2, 3, 3], 1), 1, 1), "[2, 3, 5, 5]");
        refused_shape(conv(&x, &draw(&[4, 3, 6, 1], 1), 1, 0), "[4, 3, 6, 1]");
        refused_shape(conv(&x, &draw(&[4, 3, 1, 8], 1), 1, 1), "7 x 7");
        refused_shape(conv(&draw(&[3, 5, 5], 1), &w, 1, 1), "[3, 5, 5]");
        refused_shape(conv(&x, &draw(&[4, 27], 1), 1, 1), "[4, 27]");
        refused_shape(conv(&empty(&[0, 3, 5, 5]), &w, 1, 1), "[0, 3, 5, 5]");
        refused_shape(conv(&x, &empty(&[4, 3, 0, 3]), 1, 1), "[4, 3, 0, 3]");
        refused_shape(conv(&x, &w, 1, usize::MAX), "[2, 3, 5, 5]");
        refused_shape(conv(&x, &w, 1, usize::MAX / 4), "[2, 3, 5, 5]");
        refused_shape(conv(&x, &w, 1, 1 << 31), "[2, 3, 5, 5]");
        refused_setting(conv(&x, &w, 0, 1), "stride");
        refused_setting(conv(&half(&[2, 3, 5, 5]), &half(&[4, 3, 3, 3]), 1, 1), "type");
        refused_setting(conv(&x, &f32s(&w), 1, 1), "type");
    }
}
