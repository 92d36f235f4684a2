use super::*;
use lastlayer::ops::composed::{adam_step_by_tensors, sgd_step_by_tensors};
use lastlayer::ops::{AdamStep, SgdStep, adam_step, sgd_step};

fn zeros(like: &Tensor) -> Var {
    Var::from_tensor(&like.zeros_like().unwrap()).unwrap()
}

const ADAMS: &[AdamStep] = &[
    AdamStep { lr: 0.1, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.0, decoupled: false, step: 1 },
    AdamStep { lr: 0.1, beta1: 0.8, beta2: 0.9, eps: 1e-3, weight_decay: 0.3, decoupled: false, step: 1 },
    AdamStep { lr: 0.1, beta1: 0.0, beta2: 0.9, eps: 1e-3, weight_decay: 0.3, decoupled: true, step: 1 },
];

const SGDS: &[SgdStep] = &[
    SgdStep { lr: 0.1, momentum: 0.0, nesterov: false, weight_decay: 0.0 },
    SgdStep { lr: 0.1, momentum: 0.9, nesterov: false, weight_decay: 0.2 },
    SgdStep { lr: 0.1, momentum: 0.9, nesterov: true, weight_decay: 0.2 },
];

#[test]
fn adam_first_step_by_hand() {
    // After one step m̂ = g and v̂ = g², so the parameter moves by lr g / (|g| + eps).
    let (theta, grad) =
        (Var::new(&[1f64, 2.0, 3.0], device()).unwrap(), Tensor::new(&[4f64, -0.5, 0.0], device()).unwrap());
    let (m, v) = (zeros(&theta), zeros(&theta));
    adam_step(&theta, &grad, &m, &v, &AdamStep { lr: 0.1, eps: 0.5, ..AdamStep::default() }).unwrap();
    let expected = [1.0 - 0.1 * 4.0 / 4.5, 2.0 + 0.1 * 0.5 / 1.0, 3.0];
    close(&theta, &Tensor::new(&expected, device()).unwrap(), ROUNDING);
    close(&m, &Tensor::new(&[0.4f64, -0.05, 0.0], device()).unwrap(), ROUNDING);
    close(&v, &Tensor::new(&[0.016, 0.00025, 0.0], device()).unwrap(), ROUNDING);

    // AdamW shrinks the parameter first: 1 − 0.1 · 0.5 = 0.95.
    let theta = Var::new(&[1f64, 2.0, 3.0], device()).unwrap();
    let with = AdamStep { lr: 0.1, eps: 0.5, weight_decay: 0.5, decoupled: true, ..AdamStep::default() };
    adam_step(&theta, &grad, &zeros(&theta), &zeros(&theta), &with).unwrap();
    let expected = [0.95 - 0.1 * 4.0 / 4.5, 1.9 + 0.1 * 0.5 / 1.0, 2.85];
    close(&theta, &Tensor::new(&expected, device()).unwrap(), ROUNDING);

    // Adam adds 0.5 θ to the gradient: 4.5, 0.5 and 1.5.
    let theta = Var::new(&[1f64, 2.0, 3.0], device()).unwrap();
    adam_step(&theta, &grad, &zeros(&theta), &zeros(&theta), &AdamStep { decoupled: false, ..with }).unwrap();
    let expected = [1.0 - 0.1 * 4.5 / 5.0, 2.0 - 0.1 * 0.5 / 1.0, 3.0 - 0.1 * 1.5 / 2.0];
    close(&theta, &Tensor::new(&expected, device()).unwrap(), ROUNDING);
}

#[test]
fn adam_is_its_formula_over_five_steps() {
    for with in ADAMS {
        let theta = var(&[40_000], 1); // more than one piece
        let (m, v) = (zeros(&theta), zeros(&theta));
        let mut expected = numbers(&theta);
        let (mut em, mut ev) = (vec![0.0; expected.len()], vec![0.0; expected.len()]);
        for step in 1..=5 {
            let grad = draw(&[40_000], 10 + step as u64);
            adam_step(&theta, &grad, &m, &v, &AdamStep { step, ..*with }).unwrap();
            for (i, mut g) in numbers(&grad).into_iter().enumerate() {
                if with.decoupled {
                    expected[i] -= with.lr * with.weight_decay * expected[i];
                } else {
                    g += with.weight_decay * expected[i];
                }
                em[i] = with.beta1 * em[i] + (1.0 - with.beta1) * g;
                ev[i] = with.beta2 * ev[i] + (1.0 - with.beta2) * g * g;
                let m_hat = em[i] / (1.0 - with.beta1.powi(step as i32));
                let v_hat = ev[i] / (1.0 - with.beta2.powi(step as i32));
                expected[i] -= with.lr * m_hat / (v_hat.sqrt() + with.eps);
            }
            close(&theta, &Tensor::new(&expected[..], device()).unwrap(), ROUNDING);
        }
    }
}

#[test]
fn sgd_first_steps_by_hand() {
    let grad = Tensor::new(&[2f64], device()).unwrap();
    let run = |with: SgdStep| {
        let theta = Var::new(&[1f64], device()).unwrap();
        let velocity = zeros(&theta);
        let mut seen = Vec::new();
        for _ in 0..2 {
            sgd_step(&theta, &grad, &velocity, &with).unwrap();
            seen.extend(numbers(&theta));
        }
        Tensor::new(&seen[..], device()).unwrap()
    };
    let plain = SgdStep { lr: 0.1, ..SgdStep::default() };
    close(&run(plain), &Tensor::new(&[0.8f64, 0.6], device()).unwrap(), ROUNDING);
    // Velocities 2 and 3.
    let heavy = SgdStep { momentum: 0.5, ..plain };
    close(&run(heavy), &Tensor::new(&[0.8f64, 0.5], device()).unwrap(), ROUNDING);
    // Steps g + 0.5 u: 3 and 3.5.
    close(
        &run(SgdStep { nesterov: true, ..heavy }),
        &Tensor::new(&[0.7f64, 0.35], device()).unwrap(),
        ROUNDING,
    );
}

#[test]
fn sgd_is_its_formula_over_five_steps() {
    for with in SGDS {
        let theta = var(&[40_000], 1);
        let velocity = zeros(&theta);
        let mut expected = numbers(&theta);
        let mut u = vec![0.0; expected.len()];
        for step in 1..=5 {
            let grad = draw(&[40_000], 10 + step);
            sgd_step(&theta, &grad, &velocity, with).unwrap();
            for (i, g) in numbers(&grad).into_iter().enumerate() {
                let g = g + with.weight_decay * expected[i];
                u[i] = with.momentum * u[i] + g;
                expected[i] -= with.lr * if with.nesterov { g + with.momentum * u[i] } else { u[i] };
            }
            close(&theta, &Tensor::new(&expected[..], device()).unwrap(), ROUNDING);
        }
    }
}

#[test]
fn optimisers_by_tensors_agree_with_the_kernels() {
    let pair = || [var(&[3, 4], 1), var(&[3, 4], 1)];
    for with in ADAMS {
        let ([a, b], [m, n]) = (pair(), [zeros(&draw(&[3, 4], 1)), zeros(&draw(&[3, 4], 1))]);
        let (v, w) = (zeros(&m), zeros(&m));
        for step in 1..=3 {
            let (grad, with) = (draw(&[3, 4], step as u64), AdamStep { step, ..*with });
            adam_step(&a, &grad, &m, &v, &with).unwrap();
            adam_step_by_tensors(&b, &grad, &n, &w, &with).unwrap();
            [(&a, &b), (&m, &n), (&v, &w)].iter().for_each(|(mine, theirs)| close(mine, theirs, ROUNDING));
        }
    }
    for with in SGDS {
        let [a, b] = pair();
        let (u, w) = (zeros(&a), zeros(&a));
        for step in 1..=3 {
            let grad = draw(&[3, 4], step);
            sgd_step(&a, &grad, &u, with).unwrap();
            sgd_step_by_tensors(&b, &grad, &w, with).unwrap();
            [(&a, &b), (&u, &w)].iter().for_each(|(mine, theirs)| close(mine, theirs, ROUNDING));
        }
    }
}

#[test]
fn optimisers_take_any_order_of_memory_and_single_precision() {
    let grad = draw(&[3, 4], 2);
    for single in [false, true] {
        let cast = |t: &Tensor| if single { f32s(t) } else { t.clone() };
        let results = [cast(&grad), shuffled(&cast(&grad))].map(|grad| {
            let theta = Var::from_tensor(&cast(&draw(&[3, 4], 1))).unwrap();
            adam_step(&theta, &grad, &zeros(&theta), &zeros(&theta), &ADAMS[1]).unwrap();
            sgd_step(&theta, &grad, &zeros(&theta), &SGDS[2]).unwrap();
            bits(&theta)
        });
        assert_eq!(results[0], results[1]);
    }
}

#[test]
fn optimisers_give_the_same_bits_with_any_threads() {
    same_with_any_threads(|| {
        let theta = Var::from_tensor(&f32s(&draw(&[100_000], 1))).unwrap();
        let (grad, m, v) = (f32s(&draw(&[100_000], 2)), zeros(&theta), zeros(&theta));
        adam_step(&theta, &grad, &m, &v, &ADAMS[1]).unwrap();
        sgd_step(&theta, &grad, &m, &SGDS[2]).unwrap();
        vec![theta.as_tensor().clone(), m.as_tensor().clone(), v.as_tensor().clone()]
    });
}

#[test]
fn optimisers_pass_nan_on() {
    let grad = Tensor::new(&[f64::NAN, 1.0], device()).unwrap();
    let theta = var(&[2], 1);
    adam_step(&theta, &grad, &zeros(&theta), &zeros(&theta), &ADAMS[0]).unwrap();
    assert!(numbers(&theta)[0].is_nan() && !numbers(&theta)[1].is_nan());
}

#[test]
fn optimisers_refuse_what_they_cannot_do() {
    let (theta, grad) = (var(&[3, 4], 1), draw(&[3, 4], 2));
    let (m, v, with) = (zeros(&theta), zeros(&theta), ADAMS[0]);
    let before = bits(&theta);
    let nothing = zeros(&empty(&[0]));
    for adam in [adam_step, adam_step_by_tensors] {
        refused_shape(adam(&theta, &draw(&[4, 3], 1), &m, &v, &with), "[4, 3]");
        refused_shape(adam(&theta, &grad, &zeros(&draw(&[12], 1)), &v, &with), "[12]");
        refused_shape(adam(&theta, &grad, &m, &zeros(&draw(&[3, 1], 1)), &with), "[3, 1]");
        refused_shape(adam(&nothing, &empty(&[0]), &zeros(&nothing), &zeros(&nothing), &with), "[0]");
        refused_setting(adam(&theta, &f32s(&grad), &m, &v, &with), "type");
        refused_setting(adam(&theta, &grad, &m, &v, &AdamStep { step: 0, ..with }), "step");
        refused_setting(adam(&theta, &grad, &m, &v, &AdamStep { beta1: 1.0, ..with }), "beta1");
        refused_setting(adam(&theta, &grad, &m, &v, &AdamStep { beta2: f64::NAN, ..with }), "beta2");
        refused_setting(adam(&theta, &grad, &m, &v, &AdamStep { lr: f64::INFINITY, ..with }), "lr");
        refused_setting(adam(&theta, &grad, &m, &v, &AdamStep { eps: -1.0, ..with }), "eps");
        // These would wait for their own lock for ever.
        refused_setting(adam(&theta, &grad, &m, &m, &with), "second moment");
        refused_setting(adam(&theta, &theta, &m, &v, &with), "gradient");
        refused_setting(adam(&theta, &m.t().unwrap().t().unwrap(), &m, &v, &with), "first moment");
    }
    assert_eq!(before, bits(&theta), "a refused step changes nothing");

    let sgd = SGDS[1];
    for step in [sgd_step, sgd_step_by_tensors] {
        refused_shape(step(&theta, &draw(&[4, 3], 1), &m, &sgd), "[4, 3]");
        refused_shape(step(&theta, &grad, &zeros(&draw(&[12], 1)), &sgd), "[12]");
        refused_shape(step(&nothing, &empty(&[0]), &zeros(&nothing), &sgd), "[0]");
        refused_setting(step(&theta, &grad, &theta, &sgd), "velocity");
        refused_setting(step(&theta, &grad, &m, &SgdStep { momentum: -0.1, ..sgd }), "momentum");
        refused_setting(
            step(&theta, &grad, &m, &SgdStep { momentum: 0.0, nesterov: true, ..sgd }),
            "nesterov",
        );
    }
    assert_eq!(before, bits(&theta));
}
