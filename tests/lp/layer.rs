//! A linear program inside a network: gradients by finite differences, and what it refuses.

use crate::device::device;
use lastlayer::lp::{
    AucLoss, Backward, FLink, Lp, LpInputs, LpLayer, Matrix, NewtonLp, PenaltyNewton, Solver, auc_loss,
    f_loss, precision_at_recall,
};
use lastlayer::prelude::*;

/// Central differences of step 1e-6 of a smooth function of size 1, in f64.
const DIFFERENCES: f64 = 1e-7;

/// Two ways to the same number, each with a solve of condition up to 1e4.
const SAME: f64 = 1e-10;

fn draws(n: usize, seed: u64) -> Vec<f64> {
    (0..n).map(|i| Seed::new(seed).normal(i as u64)).collect()
}

/// A random program with an optimum: feasible by a slack, bounded by multipliers.
fn program(n: usize, m: usize, seed: u64) -> Lp {
    let a = Array2::from_shape_vec((m, n), draws(m * n, seed)).unwrap();
    let slack = draws(m, seed + 1).into_iter().map(f64::abs);
    let b: Vec<f64> =
        a.dot(&Array1::from(draws(n, seed + 2))).iter().zip(slack).map(|(a, s)| a + s).collect();
    let weights = Array1::from_iter(draws(m, seed + 3).into_iter().map(f64::abs));
    let c: Vec<f64> = a.t().dot(&weights).iter().map(|c| -c).collect();
    Lp::new(Matrix::Dense(a), &b, &c).unwrap()
}

fn vars(lp: &Lp) -> [Var; 3] {
    let a = lp.A.to_dense();
    let flat: Vec<f64> = a.iter().copied().collect();
    let a = Tensor::from_vec(flat, (lp.m(), lp.n()), device()).unwrap();
    [
        Var::from_tensor(&a).unwrap(),
        Var::new(&lp.b[..], device()).unwrap(),
        Var::new(&lp.c[..], device()).unwrap(),
    ]
}

fn inputs([a, b, c]: &[Var; 3]) -> LpInputs {
    let of = |var: &Var| Some(var.as_tensor().clone());
    LpInputs { A: of(a), b: of(b), c: of(c), ..Default::default() }
}

/// The derivative of a loss in every entry of a variable, by central differences.
fn differences(var: &Var, loss: impl Fn() -> f64) -> Vec<f64> {
    let start = var.as_tensor().copy().unwrap();
    let flat: Vec<f64> = start.flatten_all().unwrap().to_vec1().unwrap();
    let at = |i: usize, h: f64| {
        let mut moved = flat.clone();
        moved[i] += h;
        var.set(&Tensor::from_vec(moved, start.dims(), device()).unwrap()).unwrap();
        let value = loss();
        var.set(&start).unwrap();
        value
    };
    (0..flat.len()).map(|i| (at(i, 1e-6) - at(i, -1e-6)) / 2e-6).collect()
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let size = expected.iter().fold(1.0, |most: f64, v| most.max(v.abs()));
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance * size, "{what}, entry {i}: {a} and {b}");
    }
}

fn gradient(loss: &Tensor, var: &Var) -> Vec<f64> {
    let store = loss.backward().unwrap();
    store.get(var).map_or(vec![0.0; var.elem_count()], |g| g.flatten_all().unwrap().to_vec1().unwrap())
}

/// A loss of z that weighs its entries differently.
fn weighed(z: &Tensor) -> Tensor {
    let weights = Tensor::new(draws(z.elem_count(), 77), device()).unwrap();
    ((z * &weights).unwrap().sum_all().unwrap() + z.sqr().unwrap().sum_all().unwrap()).unwrap()
}

#[test]
fn the_optimum_has_the_gradient_of_the_envelope_theorem() {
    let (lp, layer) = (program(4, 12, 1), LpLayer::default());
    let parts = vars(&lp);
    let value = || layer.forward(&lp, &inputs(&parts)).unwrap().value;
    for (part, name) in parts.iter().zip(["A", "b", "c"]) {
        let by_differences = differences(part, || value().to_scalar::<f64>().unwrap());
        assert_close(&gradient(&value(), part), &by_differences, DIFFERENCES, name);
    }
}

#[test]
fn the_solution_moves_with_a_and_b_and_not_with_c() {
    let (lp, layer) = (program(4, 12, 5), LpLayer::default());
    let parts = vars(&lp);
    let loss = || weighed(&layer.forward(&lp, &inputs(&parts)).unwrap().z);
    for (part, name) in parts.iter().zip(["A", "b", "c"]) {
        let by_differences = differences(part, || loss().to_scalar::<f64>().unwrap());
        assert_close(&gradient(&loss(), part), &by_differences, DIFFERENCES, name);
    }
    assert!(gradient(&loss(), &parts[2]).iter().all(|g| *g == 0.0));
    assert!(gradient(&loss(), &parts[1]).iter().any(|g| *g != 0.0));
}

#[test]
fn the_penalty_has_a_gradient_in_c_too_and_one_step_is_the_same() {
    let lp = program(4, 12, 9);
    let epsilon = 1e-2;
    let parts = vars(&lp);
    let of = |backward| {
        let layer = LpLayer { backward, ..Default::default() };
        weighed(&layer.forward(&lp, &inputs(&parts)).unwrap().z)
    };
    let loss = || of(Backward::Penalty { epsilon });
    for (part, name) in parts.iter().zip(["A", "b", "c"]) {
        let by_differences = differences(part, || loss().to_scalar::<f64>().unwrap());
        let found = gradient(&loss(), part);
        // The minimum itself is found to about 1e-9, which a difference of step 1e-6 magnifies.
        assert_close(&found, &by_differences, 1e-5, name);
        assert_close(&gradient(&of(Backward::OneStep { epsilon }), part), &found, SAME, name);
        assert!(found.iter().any(|g| *g != 0.0), "{name}");
    }
    let layer = LpLayer { backward: Backward::Penalty { epsilon }, ..Default::default() };
    let z: Vec<f64> = layer.forward(&lp, &inputs(&parts)).unwrap().z.to_vec1().unwrap();
    let newton = PenaltyNewton { epsilon, ..Default::default() };
    assert_close(&z, &newton.solve(&lp).unwrap().y, 1e-8, "the penalty's minimum");
}

#[test]
fn gradients_reach_the_weights_of_a_network() {
    let lp = program(3, 9, 13);
    let layer = LpLayer::default();
    let w = Var::from_vec(draws(9 * 5, 20), (9, 5), device()).unwrap();
    let x = Tensor::new(draws(5, 21), device()).unwrap().unsqueeze(1).unwrap();
    let base = Tensor::new(&lp.b[..], device()).unwrap();
    let loss = || {
        let push = (w.as_tensor().matmul(&x).unwrap().squeeze(1).unwrap().tanh().unwrap() * 0.1).unwrap();
        let b = (&base + push).unwrap();
        let out = layer.forward(&lp, &LpInputs::b(&b)).unwrap();
        (weighed(&out.z) + out.value).unwrap()
    };
    let by_differences = differences(&w, || loss().to_scalar::<f64>().unwrap());
    assert_close(&gradient(&loss(), &w), &by_differences, DIFFERENCES, "weights");
}

#[test]
fn equalities_are_inputs_as_well() {
    let lp = program(4, 12, 31)
        .with_equalities(
            Matrix::dense(Array2::from_shape_vec((1, 4), draws(4, 40)).unwrap()).unwrap(),
            &[0.2],
        )
        .unwrap();
    let row: Vec<f64> = lp.A_eq.row(0);
    let a = Var::from_vec(row, (1, 4), device()).unwrap();
    let b = Var::new(&[0.2f64], device()).unwrap();
    let out = || {
        let of = |var: &Var| Some(var.as_tensor().clone());
        let inputs = LpInputs { A_eq: of(&a), b_eq: of(&b), ..Default::default() };
        LpLayer::default().forward(&lp, &inputs).unwrap()
    };
    for part in [&a, &b] {
        let value = differences(part, || out().value.to_scalar::<f64>().unwrap());
        assert_close(&gradient(&out().value, part), &value, DIFFERENCES, "optimum");
        let solution = differences(part, || weighed(&out().z).to_scalar::<f64>().unwrap());
        assert_close(&gradient(&weighed(&out().z), part), &solution, DIFFERENCES, "solution");
    }
}

#[test]
fn single_precision_comes_back_as_such() {
    let lp = program(3, 8, 50);
    let b = Tensor::new(&lp.b[..], device()).unwrap().to_dtype(DType::F32).unwrap();
    let out = LpLayer::default().forward(&lp, &LpInputs::b(&b)).unwrap();
    assert_eq!((out.z.dtype(), out.value.dtype(), out.z.dims()), (DType::F32, DType::F32, &[3][..]));
    let exact = NewtonLp::default().solve(&lp).unwrap();
    let z: Vec<f64> = out.z.to_dtype(DType::F64).unwrap().to_vec1().unwrap();
    assert_close(&z, &exact.z, 1e-5, "z to single precision");
}

#[test]
fn losses_as_tensors_have_their_value_and_gradient() {
    let s = Var::new(draws(40, 60), device()).unwrap();
    let y: Vec<u8> = (0..40).map(|i| u8::from(i % 3 == 0)).collect();
    let labels = Tensor::new(y.iter().map(|y| u32::from(*y)).collect::<Vec<_>>(), device()).unwrap();
    let auc = auc_loss(s.as_tensor(), &labels, 0.3, AucLoss::Value).unwrap();
    let f = f_loss(s.as_tensor(), &labels, 1.0, FLink::Sigmoid).unwrap();
    for loss in [auc, f] {
        let tensor = loss.on(s.as_tensor()).unwrap();
        assert_eq!(tensor.to_scalar::<f64>().unwrap(), loss.value);
        assert_eq!(gradient(&tensor, &s), loss.gradient);
    }
}

#[test]
fn the_f_program_as_a_layer_has_the_gradient_of_the_closed_form() {
    let s = draws(12, 70);
    let y: Vec<u8> = (0..12).map(|i| u8::from(i % 3 != 0)).collect();
    let r: Vec<f64> = s.iter().map(|s| FLink::Sigmoid.decide(*s).0).collect();
    let lp = Lp::f_train(&r, &y, 1.0).unwrap();
    let a = Tensor::from_vec(lp.A.to_dense().iter().copied().collect(), (lp.m(), lp.n()), device()).unwrap();
    let a = Var::from_tensor(&a).unwrap();
    let inputs = LpInputs::A(&a);
    let out = LpLayer::default().forward(&lp, &inputs).unwrap();
    let by_entry = gradient(&out.value, &a);
    // Row i holds −r or r in the last column; the optimum is −F, and the loss is 1 − F.
    let t = lp.n() - 1;
    let found: Vec<f64> = (0..12)
        .map(|i| {
            by_entry[i * lp.n() + t] * if y[i] == 1 { -1.0 } else { 1.0 } * FLink::Sigmoid.decide(s[i]).1
        })
        .collect();
    let closed = f_loss(&s, &y, 1.0, FLink::Sigmoid).unwrap();
    assert!((out.solution.value + 1.0 - closed.value).abs() <= 1e-9);
    assert_close(&found, &closed.gradient, 1e-7, "through A");
}

#[test]
fn the_neyman_pearson_program_has_the_implicit_gradient_of_a_rate_problem() {
    // Two methods, one gradient: a hinge surrogate has the margin 1.
    for seed in 0..20 {
        let s = draws(60, 80 + seed);
        let y: Vec<u8> = (0..60).map(|i| u8::from(i % 4 == 0)).collect();
        let found = precision_at_recall(&s, &y, 0.6, 1.0).unwrap();
        let labels = Labels::new(&y).unwrap();
        let (alarms, missed) = (Rate::FalsePositive.minus(0.0), Rate::FalseNegative.minus(0.4));
        let problem = RateProblem::new(alarms, vec![missed], Surrogate::Hinge).unwrap();
        let adjoint = problem.adjoint(&s, &labels, &[found.threshold]).unwrap();
        assert_close(&adjoint.cotangent, &found.gradient, SAME, "cotangent");
        assert!((adjoint.objective - found.value).abs() <= SAME);
        assert!((adjoint.multiplier[0].abs() - found.multiplier).abs() <= SAME);
        assert!(adjoint.constraints[0].abs() <= SAME, "the threshold spends the budget");
    }
}

#[test]
fn what_is_no_layer_is_told_before_any_work() {
    let (lp, layer) = (program(3, 8, 90), LpLayer::default());
    let tensor = |values: Vec<f64>| Tensor::new(values, device()).unwrap();
    let none = layer.forward(&lp, &LpInputs::default()).unwrap_err();
    assert!(matches!(none, Error::Config { .. }), "{none}");
    let short = layer.forward(&lp, &LpInputs::b(&tensor(vec![0.0; 7]))).unwrap_err();
    assert!(matches!(short, Error::Shape { .. }), "{short}");
    let bad = layer.forward(&lp, &LpInputs::c(&tensor(vec![1.0, f64::NAN, 0.0])));
    assert!(matches!(bad.unwrap_err(), Error::Data { .. }));
    let mut b = lp.b.clone();
    b.iter_mut().for_each(|b| *b = -1.0);
    let matrix = Matrix::dense(Array2::from_shape_fn((8, 3), |(i, j)| {
        if i % 2 == 0 { (j == 0) as u8 as f64 } else { -((j == 0) as u8 as f64) }
    }))
    .unwrap();
    let never = Lp::new(matrix, &b, &lp.c).unwrap();
    let infeasible = layer.forward(&never, &LpInputs::b(&tensor(b))).unwrap_err();
    assert!(matches!(infeasible, Error::Solve { .. }), "{infeasible}");
}
