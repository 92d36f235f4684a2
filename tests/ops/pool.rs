use super::*;
use lastlayer::ops::composed::{avg_pool2d_by_tensors, max_pool2d_by_tensors};
use lastlayer::ops::{avg_pool2d, global_avg_pool, max_pool2d};

/// Images, window, stride: with a rest, with overlap, with gaps.
const CASES: &[([usize; 4], usize, usize)] = &[
    ([2, 3, 4, 6], 2, 2),
    ([2, 3, 5, 7], 2, 2),
    ([1, 2, 7, 6], 3, 2),
    ([2, 1, 5, 5], 3, 1),
    ([1, 2, 7, 8], 2, 3),
    ([2, 2, 3, 3], 3, 3),
    ([1, 1, 3, 2], 1, 1),
    ([1, 1, 5, 4], 1, 2),
];

fn naive(x: &Tensor, size: usize, stride: usize, f: impl Fn(&[f64]) -> f64) -> Tensor {
    let (n, c, h, w) = x.dims4().unwrap();
    let (oh, ow) = ((h - size) / stride + 1, (w - size) / stride + 1);
    let x = numbers(x);
    let mut y = Vec::new();
    for k in 0..n * c * oh * ow {
        let (plane, p, q) = (k / (oh * ow), k / ow % oh, k % ow);
        let window: Vec<f64> = (0..size * size)
            .map(|i| x[(plane * h + p * stride + i / size) * w + q * stride + i % size])
            .collect();
        y.push(f(&window));
    }
    Tensor::from_vec(y, (n, c, oh, ow), device()).unwrap()
}

type Pool = fn(&Tensor, usize, usize) -> Result<Tensor>;

const MAX: [Pool; 2] = [max_pool2d, max_pool2d_by_tensors];
const MEAN: [Pool; 2] = [avg_pool2d, avg_pool2d_by_tensors];

#[test]
fn max_pool_is_the_maximum_of_each_window() {
    for (shape, size, stride) in CASES {
        let x = draw(shape, 1);
        let expected = naive(&x, *size, *stride, |w| w.iter().copied().fold(f64::MIN, f64::max));
        for pool in MAX {
            close(&pool(&x, *size, *stride).unwrap(), &expected, 0.0);
            close(&pool(&shuffled(&x), *size, *stride).unwrap(), &expected, 0.0);
            close(&pool(&f32s(&x), *size, *stride).unwrap(), &f32s(&expected), 0.0);
        }
    }
}

#[test]
fn max_pool_gradient_matches_finite_differences() {
    for (shape, size, stride) in CASES {
        for pool in MAX {
            check_gradients(&[var(shape, 1)], &|t| pool(&t[0], *size, *stride).unwrap());
        }
    }
}

#[test]
fn max_pool_gradient_goes_to_the_first_of_equals() {
    let x = Var::new(&[[[[1f64, 5., 5.], [5., 2., 5.], [0., 0., 0.]]]], device()).unwrap();
    for pool in MAX {
        let y = pool(&x, 2, 1).unwrap();
        assert_eq!(numbers(&y), [5.0, 5.0, 5.0, 5.0]);
        let g = Tensor::new(&[[[[1f64, 10.], [100., 1000.]]]], device()).unwrap();
        let grads = (y * g).unwrap().sum_all().unwrap().backward().unwrap();
        // Windows from the left: the first two have their first 5 in place 1, the third in place 3, the fourth in place 5.
        assert_eq!(numbers(grads.get(&x).unwrap()), [0.0, 11.0, 0.0, 100.0, 0.0, 1000.0, 0.0, 0.0, 0.0]);
    }
    let zeros = Var::zeros((1, 1, 4, 4), DType::F32, device()).unwrap();
    for pool in MAX {
        let grads = pool(&zeros, 2, 2).unwrap().sum_all().unwrap().backward().unwrap();
        let found = numbers(grads.get(&zeros).unwrap());
        assert_eq!(found, [1., 0., 1., 0., 0., 0., 0., 0., 1., 0., 1., 0., 0., 0., 0., 0.]);
    }
}

#[test]
fn max_pool_passes_nan_on_and_infinities_through() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let x = Var::new(&[[[[1., nan, -inf, -inf], [nan, 2., -inf, -inf]]]], device()).unwrap();
    for pool in MAX {
        let y = pool(&x, 2, 2).unwrap();
        assert!(numbers(&y)[0].is_nan());
        assert_eq!(numbers(&y)[1], -inf);
        let grads = y.sum_all().unwrap().backward().unwrap();
        assert_eq!(numbers(grads.get(&x).unwrap()), [0., 1., 1., 0., 0., 0., 0., 0.]);
    }
}

#[test]
fn avg_pool_is_the_mean_of_each_window() {
    for (shape, size, stride) in CASES {
        let x = draw(shape, 1);
        let expected = naive(&x, *size, *stride, |w| w.iter().sum::<f64>() / w.len() as f64);
        for pool in MEAN {
            close(&pool(&shuffled(&x), *size, *stride).unwrap(), &expected, ROUNDING);
        }
    }
}

#[test]
fn avg_pool_gradient_matches_finite_differences() {
    for (shape, size, stride) in CASES {
        for pool in MEAN {
            check_gradients(&[var(shape, 1)], &|t| pool(&t[0], *size, *stride).unwrap());
        }
    }
}

/// Why there is a `max_pool2d` here.
#[test]
fn candles_max_pooling_gives_a_lone_winner_a_quarter() {
    let x = Var::new(&[[[[1f64, 2.], [3., 4.]]]], device()).unwrap();
    let theirs = x.max_pool2d(2).unwrap().sum_all().unwrap().backward().unwrap();
    assert_eq!(numbers(theirs.get(&x).unwrap()), [0.0, 0.0, 0.0, 0.25]);
    let mine = max_pool2d(&x, 2, 2).unwrap().sum_all().unwrap().backward().unwrap();
    assert_eq!(numbers(mine.get(&x).unwrap()), [0.0, 0.0, 0.0, 1.0]);
}

/// Why there is an `avg_pool2d` here: 5 pixels in windows of 2 leave one out, which candle's gradient does not.
#[test]
fn candles_average_pooling_has_a_gradient_where_it_has_no_influence() {
    let x = Var::ones((1, 1, 5, 5), DType::F64, device()).unwrap();
    let theirs = x.avg_pool2d(2).unwrap().sum_all().unwrap().backward().unwrap();
    let mine = avg_pool2d(&x, 2, 2).unwrap().sum_all().unwrap().backward().unwrap();
    assert_ne!(numbers(theirs.get(&x).unwrap())[24], 0.0);
    assert_eq!(numbers(mine.get(&x).unwrap())[24], 0.0);
}

#[test]
fn pooling_by_tensors_agrees_with_the_kernels() {
    for (shape, size, stride) in CASES {
        // Rounded, so that windows hold ties.
        let x = Var::from_tensor(&draw(shape, 3).round().unwrap()).unwrap();
        for [kernel, tensors] in [MAX, MEAN] {
            let [a, b] = [kernel, tensors].map(|pool| {
                gradients(std::slice::from_ref(&x), &|t| pool(&t[0], *size, *stride).unwrap()).remove(0)
            });
            close(&a, &b, ROUNDING);
        }
    }
}

#[test]
fn global_avg_pool_is_the_mean_of_each_plane() {
    let x = var(&[2, 3, 4, 5], 1);
    let expected: Vec<f64> = numbers(&x).chunks(20).map(|p| p.iter().sum::<f64>() / 20.0).collect();
    close(&global_avg_pool(&x).unwrap(), &Tensor::from_vec(expected, (2, 3), device()).unwrap(), ROUNDING);
    check_gradients(&[x], &|t| global_avg_pool(&t[0]).unwrap());
}

#[test]
fn pooling_gives_the_same_bits_with_any_threads() {
    let x = Var::from_tensor(&f32s(&draw(&[9, 16, 33, 32], 1))).unwrap();
    for pool in [max_pool2d, avg_pool2d] {
        let f = |t: &[Tensor]| pool(&t[0], 3, 2).unwrap();
        same_with_any_threads(|| gradients(std::slice::from_ref(&x), &f));
    }
}

#[test]
fn pooling_refuses_what_it_cannot_do() {
    for pool in [MAX, MEAN].concat() {
        let x = draw(&[2, 3, 4, 5], 1);
        refused_shape(pool(&x, 5, 1), "4 x 5");
        refused_shape(pool(&draw(&[3, 4, 5], 1), 2, 2), "[3, 4, 5]");
        refused_shape(pool(&empty(&[2, 0, 4, 5]), 2, 2), "[2, 0, 4, 5]");
        refused_setting(pool(&x, 0, 1), "size");
        refused_setting(pool(&x, 2, 0), "stride");
        refused_setting(pool(&half(&[2, 3, 4, 5]), 2, 2), "type");
    }
    refused_shape(global_avg_pool(&draw(&[2, 3], 1)), "[2, 3]");
    refused_shape(global_avg_pool(&empty(&[2, 3, 0, 4])), "[2, 3, 0, 4]");
    refused_setting(global_avg_pool(&half(&[2, 3, 4, 4])), "type");
}
