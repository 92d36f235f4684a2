use super::*;
use lastlayer::ops::{Running, batch_norm, conv_block, conv2d, max_pool2d, relu};

/// Images, kernels, padding, pool.
const CASES: &[([usize; 4], [usize; 4], usize, usize)] = &[
    ([3, 2, 6, 6], [3, 2, 3, 3], 1, 2),
    ([2, 3, 5, 7], [2, 3, 3, 2], 1, 2),
    ([3, 2, 4, 5], [4, 2, 1, 1], 0, 1),
    ([9, 1, 7, 7], [2, 1, 3, 3], 0, 3),
];

fn inputs([images, kernels]: [&[usize]; 2]) -> [Var; 4] {
    let o = kernels[0];
    [var(images, 1), var(kernels, 2), var(&[o], 3), var(&[o], 4)]
}

fn running(c: usize) -> Running {
    Running::new(&draw(&[c], 1)).unwrap()
}

fn block(t: &[Tensor], running: &Running, padding: usize, pool: usize, train: bool) -> Tensor {
    conv_block(&t[0], &t[1], &t[2], &t[3], running, padding, pool, train).unwrap()
}

fn parts(t: &[Tensor], running: &Running, padding: usize, pool: usize, train: bool) -> Tensor {
    let y = batch_norm(&conv2d(&t[0], &t[1], 1, padding).unwrap(), &t[2], &t[3], running, train).unwrap();
    max_pool2d(&relu(&y).unwrap(), pool, pool).unwrap()
}

#[test]
fn conv_block_is_its_four_parts() {
    for (images, kernels, padding, pool) in CASES {
        for train in [true, false] {
            let inputs = inputs([images, kernels]);
            let (a, b) = (running(kernels[0]), running(kernels[0]));
            let tensors = inputs.each_ref().map(|v| v.as_tensor().clone());
            let mine = block(&tensors, &a, *padding, *pool, train);
            assert_eq!(bits(&mine), bits(&parts(&tensors, &b, *padding, *pool, train)));
            assert_eq!(bits(&a.mean), bits(&b.mean));
            assert_eq!(bits(&a.var), bits(&b.var));
            let mine = gradients(&inputs, &|t| block(t, &a, *padding, *pool, train));
            let theirs = gradients(&inputs, &|t| parts(t, &b, *padding, *pool, train));
            mine.iter().zip(&theirs).for_each(|(mine, theirs)| close(mine, theirs, ROUNDING));
        }
    }
}

#[test]
fn conv_block_gradients_match_finite_differences() {
    for (images, kernels, padding, pool) in CASES {
        for train in [true, false] {
            let running = running(kernels[0]);
            check_gradients(&inputs([images, kernels]), &|t| block(t, &running, *padding, *pool, train));
        }
    }
}

#[test]
fn conv_block_of_data_asks_for_no_gradient_of_the_data() {
    let [x, w, gamma, beta] = inputs([&[3, 2, 6, 6], &[3, 2, 3, 3]]);
    let data = x.as_detached_tensor();
    let y = conv_block(&data, &w, &gamma, &beta, &running(3), 1, 2, true).unwrap();
    let grads = weighted(&y).backward().unwrap();
    assert!(grads.get(&data).is_none());
    let all = gradients(&[x, w.clone(), gamma, beta], &|t| block(t, &running(3), 1, 2, true));
    assert_eq!(bits(grads.get(&w).unwrap()), bits(&all[1]));
}

#[test]
fn conv_block_gives_the_same_bits_with_any_threads() {
    let inputs = inputs([&[19, 3, 16, 16], &[8, 3, 3, 3]]).map(|v| Var::from_tensor(&f32s(&v)).unwrap());
    same_with_any_threads(|| {
        let running = Running::new(&inputs[2]).unwrap();
        let mut all = gradients(&inputs, &|t| block(t, &running, 1, 2, true));
        all.extend([running.mean.as_tensor().clone(), running.var.as_tensor().clone()]);
        all
    });
}

#[test]
fn conv_block_can_go_backward_twice() {
    let [x, w, gamma, beta] = inputs([&[3, 2, 6, 6], &[3, 2, 3, 3]]);
    let loss = weighted(&conv_block(&x, &w, &gamma, &beta, &running(3), 1, 2, true).unwrap());
    let (a, b) = (loss.backward().unwrap(), loss.backward().unwrap());
    assert_eq!(bits(a.get(&w).unwrap()), bits(b.get(&w).unwrap()));
}

#[test]
fn conv_block_passes_nan_on() {
    let [x, w, gamma, beta] = inputs([&[3, 2, 6, 6], &[3, 2, 3, 3]]).map(|v| v.as_detached_tensor());
    let x = (x * f64::NAN).unwrap();
    let y = conv_block(&x, &w, &gamma, &beta, &running(3), 1, 2, true).unwrap();
    assert!(numbers(&y).iter().all(|y| y.is_nan()));
}

#[test]
fn conv_block_refuses_what_it_cannot_do() {
    let [x, w, gamma, beta] = inputs([&[3, 2, 6, 6], &[3, 2, 3, 3]]).map(|v| v.as_detached_tensor());
    let run = |x: &Tensor, w: &Tensor, gamma: &Tensor, padding: usize, pool: usize| {
        conv_block(x, w, gamma, &beta, &running(3), padding, pool, true)
    };
    refused_shape(run(&x, &draw(&[3, 4, 3, 3], 1), &gamma, 1, 2), "[3, 4, 3, 3]");
    refused_shape(run(&x, &w, &draw(&[2], 1), 1, 2), "[2]");
    refused_shape(run(&x, &w, &gamma, 1, 7), "6 x 6");
    refused_shape(run(&draw(&[1, 2, 3, 3], 1), &w, &gamma, 0, 1), "[1, 2, 3, 3]");
    refused_shape(run(&empty(&[0, 2, 6, 6]), &w, &gamma, 1, 2), "[0, 2, 6, 6]");
    refused_setting(run(&x, &w, &gamma, 1, 0), "size");
    refused_setting(run(&f32s(&x), &w, &gamma, 1, 2), "type");
    refused_setting(run(&half(&[3, 2, 6, 6]), &half(&[3, 2, 3, 3]), &gamma, 1, 2), "type");
}
