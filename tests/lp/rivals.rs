//! The losses that LP losses are compared with.

use crate::device::device;
use crate::watched;
use lastlayer::candle_nn::ops::sigmoid;
use lastlayer::lp::{Ppd, PpdParams, pairwise_logistic};
use lastlayer::prelude::*;

/// Sums of some hundred terms in f64, in two orders.
const ROUNDING: f64 = 1e-12;

fn net(seed: u64, dtype: DType) -> SplitNet {
    let layer = |width| zoo::linear(width, true);
    let phi = Plan { input: vec![6], layers: layer(3), init: Default::default() };
    SplitNet::with_head(phi, layer(1), Seed::new(seed), dtype, device()).unwrap()
}

fn data(n: usize) -> Dataset {
    let data = Gaussians::a().sample(n, Seed::new(3), device()).unwrap();
    Dataset { x: data.x.to_dtype(DType::F64).unwrap(), ..data }
}

#[test]
fn pairwise_logistic_is_the_sum_over_pairs() {
    let s: Vec<f64> = (0..30).map(|i| Seed::new(1).normal(i)).collect();
    let y: Vec<u32> = (0..30).map(|i| u32::from(i % 4 == 0)).collect();
    let (mut total, mut pairs) = (0.0, 0.0);
    for i in (0..30).filter(|i| y[*i] == 1) {
        for j in (0..30).filter(|j| y[*j] == 0) {
            total += (s[j] - s[i]).exp().ln_1p();
            pairs += 1.0;
        }
    }
    let (s, y) = (Tensor::new(s, device()).unwrap(), Tensor::new(y, device()).unwrap());
    let found = pairwise_logistic(&s, &y).unwrap().to_scalar::<f64>().unwrap();
    assert!((found - total / pairs).abs() <= ROUNDING, "{found}");
    let far = (&s * 1e6).unwrap();
    assert!(pairwise_logistic(&far, &y).unwrap().to_scalar::<f64>().unwrap().is_finite());
    let one_class = pairwise_logistic(&s, &y.zeros_like().unwrap()).unwrap_err();
    assert!(matches!(one_class, Error::Data { .. }), "{one_class}");
}

/// Sets a, b and α of a saddle to given numbers.
fn place(ppd: &Ppd, values: [f64; 3]) {
    let groups = ppd.groups();
    let last = groups[0].vars.len();
    let three = [&groups[0].vars[last - 2].1, &groups[0].vars[last - 1].1, &groups[1].vars[0].1];
    for (var, value) in three.into_iter().zip(values) {
        var.set(&Tensor::new(value, device()).unwrap()).unwrap();
    }
}

#[test]
fn the_saddle_at_its_best_is_the_squared_loss_on_pairs() {
    let (net, data) = (net(2, DType::F64), data(300));
    let ppd = Ppd::new(&net, &data, PpdParams::default()).unwrap();
    let s = net.scores_of(&data).unwrap();
    let h: Vec<f64> = sigmoid(&s).unwrap().to_vec1().unwrap();
    let y = data.labels().unwrap();
    let of = |class: u32| h.iter().zip(&y).filter(|(_, y)| **y == class).map(|(h, _)| *h).collect::<Vec<_>>();
    let (negative, positive) = (of(0), of(1));
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let pairs: f64 = positive.iter().flat_map(|f| negative.iter().map(move |g| (1.0 - f + g).powi(2))).sum();
    let p = positive.len() as f64 / h.len() as f64;
    let squared = p * (1.0 - p) * (pairs / (positive.len() * negative.len()) as f64 - 1.0);
    let (a, b) = (mean(&positive), mean(&negative));
    let at = |values: [f64; 3]| {
        place(&ppd, values);
        ppd.value(&s, &data.y).unwrap().to_scalar::<f64>().unwrap()
    };
    let best = at([a, b, b - a]);
    assert!((best - squared).abs() <= ROUNDING, "{best} and {squared}");
    // Least in a and b, largest in α.
    for step in [-0.1, 0.1] {
        assert!(at([a + step, b, b - a]) > best && at([a, b + step, b - a]) > best);
        assert!(at([a, b, b - a + step]) < best);
    }
}

/// The entry that is farthest from where it should be.
fn off(expected: &Tensor, found: &Tensor) -> f64 {
    (expected - found).unwrap().abs().unwrap().max_all().unwrap().to_scalar().unwrap()
}

#[test]
fn steps_follow_the_proximal_formula_and_a_stage_starts_at_the_mean_of_the_one_before() {
    let (net, data) = (net(4, DType::F64), data(64));
    let params = PpdParams { lr: 0.1, first_stage: 2, proximity: 0.5 };
    let mut ppd = Ppd::new(&net, &data, params).unwrap();
    let primal: Vec<Var> = ppd.groups()[0].vars.iter().map(|(_, var)| var.clone()).collect();
    let copy = |vars: &[Var]| vars.iter().map(|v| v.as_tensor().copy().unwrap()).collect::<Vec<_>>();
    let (mut seen, mut gradients) = (Vec::new(), Vec::new());
    // Two steps of the first stage and one of the second.
    Trainer::sgd(0.1, 0.0)
        .batch(64)
        .epochs(3)
        .silent()
        .fit(
            &mut watched::before(&mut ppd, |ppd: &Ppd, b| {
                seen.push(copy(&primal));
                let value = ppd.value(&net.forward(&b.x, b.pass())?, &b.y)?;
                let store = value.backward()?;
                gradients.push(primal.iter().map(|v| store.get(v).cloned()).collect::<Vec<_>>());
                Ok(())
            }),
            &data,
        )
        .unwrap();
    seen.push(copy(&primal));
    for k in 0..primal.len() {
        // u ← (γu + ηū − ηγ∇F)/(γ + η)
        let next = |step: usize, from: &Tensor, anchor: &Tensor, rate: f64| {
            let gradient = gradients[step][k].as_ref().unwrap();
            let top = ((from * 0.5).unwrap() + (anchor * rate).unwrap()).unwrap();
            ((top - (gradient * (rate * 0.5)).unwrap()).unwrap() / (0.5 + rate)).unwrap()
        };
        let start = &seen[0][k];
        let first = next(0, start, start, 0.1);
        assert!(off(&first, &seen[1][k]) <= ROUNDING, "first step, parameter {k}");
        let second = next(1, &first, start, 0.1);
        let mean = ((&first + &second).unwrap() / 2.0).unwrap();
        assert!(off(&mean, &seen[2][k]) <= ROUNDING, "start of the second stage, parameter {k}");
        let third = next(2, &mean, &mean, 0.1 / 3.0);
        assert!(off(&third, &seen[3][k]) <= ROUNDING, "third step, parameter {k}");
    }
}

#[test]
fn alpha_is_solved_for_at_the_mean() {
    let (net, data) = (net(7, DType::F64), data(64));
    let mut ppd = Ppd::new(&net, &data, PpdParams { first_stage: 5, ..Default::default() }).unwrap();
    // One stage and no more: the network is left at its mean.
    Trainer::sgd(0.1, 0.0).batch(64).epochs(5).silent().fit(&mut ppd, &data).unwrap();
    let h: Vec<f64> = sigmoid(&net.scores_of(&data).unwrap()).unwrap().to_vec1().unwrap();
    let y = data.labels().unwrap();
    let mean = |class: u32| {
        let of: Vec<f64> = h.iter().zip(&y).filter(|(_, y)| **y == class).map(|(h, _)| *h).collect();
        of.iter().sum::<f64>() / of.len() as f64
    };
    let alpha: f64 = ppd.groups()[1].vars[0].1.to_scalar().unwrap();
    assert!((alpha - (mean(0) - mean(1))).abs() <= ROUNDING, "{alpha}");
}

#[test]
fn the_saddle_learns_to_rank() {
    let task = Gaussians::a();
    let data = task.sample(2000, Seed::new(5), device()).unwrap();
    let net = net(6, DType::F32);
    let auc = |net: &dyn Split| Scores::new(net.scores_of(&data).unwrap(), &data.y).unwrap().auc();
    let before = auc(&net);
    let params = PpdParams { first_stage: 200, ..Default::default() };
    let mut ppd = Ppd::new(&net, &data, params).unwrap();
    Trainer::sgd(0.1, 0.0).batch(64).epochs(20).silent().fit(&mut ppd, &data).unwrap();
    assert!(auc(ppd.net()) > 0.85_f64.max(before), "{before} before, {} after", auc(&net));
}

#[test]
fn what_cannot_be_ranked_is_refused() {
    let data = data(50);
    let wrong = PpdParams { lr: 0.0, ..Default::default() };
    assert!(matches!(Ppd::new(&net(1, DType::F64), &data, wrong), Err(Error::Config { .. })));
    let one = data.subset(&(0..50).filter(|i| data.labels().unwrap()[*i] == 0).collect::<Vec<_>>()).unwrap();
    assert!(matches!(Ppd::new(&net(1, DType::F64), &one, PpdParams::default()), Err(Error::Data { .. })));
    let three = Gaussians::three().sample(30, Seed::new(1), device()).unwrap();
    assert!(Ppd::new(&net(1, DType::F64), &three, PpdParams::default()).is_err());
}

#[test]
fn a_second_run_sums_its_own_steps_only() {
    let (net, data) = (net(7, DType::F64), data(64));
    let mut ppd = Ppd::new(&net, &data, PpdParams { first_stage: 5, ..Default::default() }).unwrap();
    let trainer = Trainer::sgd(0.1, 0.0).batch(64).silent();
    // Three steps of a stage of five, then a stage of another run.
    trainer.clone().epochs(3).fit(&mut ppd, &data).unwrap();
    let vars: Vec<Var> = ppd.groups()[0].vars.iter().map(|(_, var)| var.clone()).collect();
    let mut sums: Vec<Tensor> = vars.iter().map(|var| var.zeros_like().unwrap()).collect();
    let mut seen = 0;
    let add = |_: &Ppd, _: &Batch| {
        // After the fifth step the parameters are their mean already.
        if seen < 4 {
            sums.iter_mut().zip(&vars).for_each(|(sum, var)| *sum = (&*sum + var.as_tensor()).unwrap());
        }
        seen += 1;
    };
    trainer.epochs(5).fit(&mut watched::after(&mut ppd, add), &data).unwrap();
    for (sum, var) in sums.iter().zip(&vars) {
        // The mean of five of which four are known: the fifth is near them, as no sum of eight is.
        let (four, mean) = ((sum / 4.0).unwrap(), var.as_tensor());
        assert!(off(&four, mean) < 0.1, "{four} and {mean}");
    }
}
