use super::*;
use lastlayer::ops::composed::batch_norm_by_tensors;
use lastlayer::ops::{Running, batch_norm, batch_norm_relu, relu};

const SHAPES: &[&[usize]] = &[&[6, 3], &[2, 1], &[3, 2, 4, 5], &[2, 3, 1, 1], &[1, 2, 3, 3]];

/// Statistics that are neither 0 nor 1.
fn running(c: usize) -> Running {
    let running = Running::new(&draw(&[c], 1)).unwrap();
    running.mean.set(&draw(&[c], 20)).unwrap();
    running.var.set(&(draw(&[c], 21).sqr().unwrap() + 0.5).unwrap()).unwrap();
    running
}

/// Numbers of each channel.
fn by_channel(x: &Tensor) -> Vec<Vec<f64>> {
    let c = x.dims()[1];
    let plane = x.elem_count() / x.dims()[0] / c;
    let values = numbers(x);
    (0..c).map(|k| values.chunks(plane).skip(k).step_by(c).flatten().copied().collect()).collect()
}

#[test]
fn batch_norm_is_its_formula() {
    for shape in SHAPES {
        let c = shape[1];
        // Far from 0, where a careless variance loses its digits.
        let x = (draw(shape, 1) + 1000.0).unwrap();
        let (gamma, beta) = (draw(&[c], 2), draw(&[c], 3));
        let running = running(c);
        let before = [numbers(&running.mean), numbers(&running.var)];
        let y = by_channel(&batch_norm(&x, &gamma, &beta, &running, true).unwrap());
        for (k, x) in by_channel(&x).iter().enumerate() {
            let n = x.len() as f64;
            let mean = x.iter().sum::<f64>() / n;
            let squares = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            let scale = numbers(&gamma)[k] / (squares / n + running.eps).sqrt();
            for (x, y) in x.iter().zip(&y[k]) {
                // The mean is of order 1000, so three more digits are lost than ROUNDING counts on.
                assert!(((x - mean) * scale + numbers(&beta)[k] - y).abs() < 1000.0 * ROUNDING);
            }
            let expected = [0.9 * before[0][k] + 0.1 * mean, 0.9 * before[1][k] + 0.1 * squares / (n - 1.0)];
            assert!((numbers(&running.mean)[k] - expected[0]).abs() < 1000.0 * ROUNDING);
            assert!((numbers(&running.var)[k] - expected[1]).abs() < 1000.0 * ROUNDING);
        }
    }
}

#[test]
fn batch_norm_in_use_reads_the_running_statistics_and_leaves_them() {
    let (x, gamma, beta, running) = (draw(&[3, 2, 2, 2], 1), draw(&[2], 2), draw(&[2], 3), running(2));
    let before = [bits(&running.mean), bits(&running.var)];
    let y = by_channel(&batch_norm(&x, &gamma, &beta, &running, false).unwrap());
    for (k, x) in by_channel(&x).iter().enumerate() {
        let [m, v, g, b] =
            [running.mean.as_tensor(), running.var.as_tensor(), &gamma, &beta].map(|t| numbers(t)[k]);
        for (x, y) in x.iter().zip(&y[k]) {
            assert!(((x - m) / (v + 1e-5).sqrt() * g + b - y).abs() < ROUNDING);
        }
    }
    assert_eq!(before, [bits(&running.mean), bits(&running.var)]);
    // One number per channel is enough here.
    batch_norm(&draw(&[1, 2], 1), &gamma, &beta, &running, false).unwrap();
}

#[test]
fn batch_norm_gradients_match_finite_differences() {
    for shape in SHAPES {
        let c = shape[1];
        let inputs = [var(shape, 1), var(&[c], 2), var(&[c], 3)];
        let running = running(c);
        for train in [true, false] {
            for norm in [batch_norm, batch_norm_relu, batch_norm_by_tensors] {
                // Two numbers per channel become ±1 whatever they are: slopes are of order eps, curvatures are not.
                if !(train && shape.iter().product::<usize>() / c == 2) {
                    check_gradients(&inputs, &|t| norm(&t[0], &t[1], &t[2], &running, train).unwrap());
                }
            }
        }
    }
    let inputs = [var(&[3, 2, 4, 5], 1), var(&[2], 2), var(&[2], 3)];
    let running = running(2);
    check_gradients(&inputs, &|t| batch_norm(&shuffled(&t[0]), &t[1], &t[2], &running, true).unwrap());
}

#[test]
fn batch_norm_relu_is_relu_of_batch_norm() {
    for train in [true, false] {
        let inputs = [var(&[3, 2, 4, 5], 1), var(&[2], 2), var(&[2], 3)];
        let (a, b) = (running(2), running(2));
        let fused = |t: &[Tensor]| batch_norm_relu(&t[0], &t[1], &t[2], &a, train).unwrap();
        let parts = |t: &[Tensor]| relu(&batch_norm(&t[0], &t[1], &t[2], &b, train).unwrap()).unwrap();
        let tensors = inputs.each_ref().map(|v| v.as_tensor().clone());
        assert_eq!(bits(&fused(&tensors)), bits(&parts(&tensors)));
        assert_eq!(bits(&a.mean), bits(&b.mean));
        for (mine, theirs) in gradients(&inputs, &fused).iter().zip(gradients(&inputs, &parts)) {
            close(mine, &theirs, ROUNDING);
        }
    }
}

#[test]
fn batch_norm_by_tensors_agrees_with_the_kernel() {
    for shape in SHAPES {
        for train in [true, false] {
            let c = shape[1];
            let inputs = [var(shape, 1), var(&[c], 2), var(&[c], 3)];
            let (a, b) = (running(c), running(c));
            let mine = gradients(&inputs, &|t| batch_norm(&t[0], &t[1], &t[2], &a, train).unwrap());
            let theirs =
                gradients(&inputs, &|t| batch_norm_by_tensors(&t[0], &t[1], &t[2], &b, train).unwrap());
            // Two nearly equal numbers per channel are divided by their small distance.
            mine.iter().zip(&theirs).for_each(|(mine, theirs)| close(mine, theirs, 100.0 * ROUNDING));
            close(&a.mean, &b.mean, ROUNDING);
            close(&a.var, &b.var, ROUNDING);
        }
    }
}

#[test]
fn batch_norm_in_f32_is_that_in_f64() {
    let (x, gamma, beta) = (draw(&[4, 3, 5, 5], 1), draw(&[3], 2), draw(&[3], 3));
    let exact = batch_norm(&x, &gamma, &beta, &running(3), true).unwrap();
    let (gamma, beta) = (f32s(&gamma), f32s(&beta));
    let single = batch_norm(&f32s(&x), &gamma, &beta, &Running::new(&gamma).unwrap(), true).unwrap();
    close(&single, &exact, ROUNDING_F32);
}

#[test]
fn batch_norm_gives_the_same_bits_with_any_threads() {
    let inputs = [var(&[37, 19, 16, 15], 1), var(&[19], 2), var(&[19], 3)]
        .map(|v| Var::from_tensor(&f32s(&v)).unwrap());
    same_with_any_threads(|| {
        let running = Running::new(&inputs[1]).unwrap();
        let mut all = gradients(&inputs, &|t| batch_norm_relu(&t[0], &t[1], &t[2], &running, true).unwrap());
        all.extend([running.mean.as_tensor().clone(), running.var.as_tensor().clone()]);
        all
    });
}

#[test]
fn running_statistics_lose_no_update_of_another_thread() {
    let x = draw(&[4, 2], 1);
    let one = draw(&[2], 2);
    let running = Running { momentum: 0.01, ..running(2) };
    // One batch, 200 times: whatever the order, its weight is 1 − 0.99^200; a lost update would make it less.
    let mean = x.mean(0).unwrap();
    let kept = 0.99f64.powi(200);
    let expected = ((running.mean.as_tensor() * kept).unwrap() + (mean * (1.0 - kept)).unwrap()).unwrap();
    settle();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                (0..50).for_each(|_| drop(batch_norm(&x, &one, &one, &running, true).unwrap()));
                settle();
            });
        }
    });
    close(&running.mean, &expected, ROUNDING);
}

#[test]
fn batch_norm_passes_nan_to_its_channel_only() {
    let x = Tensor::new(&[[f64::NAN, 1.0], [1.0, 2.0]], device()).unwrap();
    let one = draw(&[2], 2);
    for norm in [batch_norm, batch_norm_relu, batch_norm_by_tensors] {
        let y = numbers(&norm(&x, &one, &one, &running(2), true).unwrap());
        assert_eq!(y.iter().map(|y| y.is_nan()).collect::<Vec<_>>(), [true, false, true, false]);
    }
}

#[test]
fn batch_norm_refuses_what_it_cannot_do() {
    let (x, one) = (draw(&[3, 2, 4, 4], 1), draw(&[2], 2));
    for norm in [batch_norm, batch_norm_relu, batch_norm_by_tensors] {
        refused_shape(norm(&draw(&[1, 2], 1), &one, &one, &running(2), true), "[1, 2]");
        refused_shape(norm(&draw(&[1, 2, 1, 1], 1), &one, &one, &running(2), true), "at least two numbers");
        refused_shape(norm(&draw(&[3, 2, 4], 1), &one, &one, &running(2), true), "[3, 2, 4]");
        refused_shape(norm(&x, &draw(&[3], 1), &one, &running(2), true), "[3]");
        refused_shape(norm(&x, &one, &draw(&[1, 2], 1), &running(2), true), "[1, 2]");
        refused_shape(norm(&x, &one, &one, &running(3), true), "[3, 2, 4, 4]");
        refused_shape(norm(&empty(&[0, 2]), &one, &one, &running(2), true), "[0, 2]");
        refused_setting(norm(&f32s(&x), &one, &one, &running(2), true), "type");
        refused_setting(norm(&half(&[3, 2]), &half(&[2]), &half(&[2]), &running(2), true), "type");
        refused_setting(norm(&x, &one, &one, &Running { momentum: 1.5, ..running(2) }, true), "momentum");
        refused_setting(norm(&x, &one, &one, &Running { eps: -1.0, ..running(2) }, true), "eps");
        refused_setting(norm(&x, &one, &one, &Running { eps: f64::NAN, ..running(2) }, true), "eps");
    }
}
