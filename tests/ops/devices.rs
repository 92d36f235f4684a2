//! Every public operation on the device of the tests against the CPU: values and all gradients, in both types, at odd
//! sizes, of one element and of none, not contiguous and with NaN. On the CPU, where both are one, and there too
//! elsewhere, an operation is compared with its composition of tensor operations, if it has one.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lastlayer::candle::{CpuStorage, CustomOp1, Layout, Shape};
use lastlayer::loss::log_softmax;
use lastlayer::lp::{
    AucLoss, FLink, auc_loss, auc_mu_loss, auc_one_vs_all_loss, f_loss, precision_at_recall,
    recall_at_precision,
};
use lastlayer::ops::composed::*;
use lastlayer::ops::*;
use lastlayer::serde_json::json;

use super::*;

/// Rounding of sums of a few hundred products, and of what is made of them, relative to numbers above one.
fn tolerance(dtype: DType) -> f64 {
    if dtype == DType::F64 { 10.0 * ROUNDING } else { 5.0 * ROUNDING_F32 }
}

type Run = Box<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>>;
type Shapes = &'static [&'static [&'static [usize]]];

struct Case {
    name: &'static str,
    /// Shapes of the inputs, for several calls.
    shapes: Shapes,
    run: Run,
    /// The same as tensor operations, under its own name.
    composed: Option<(&'static str, Run)>,
    /// How many inputs are data: where these are no variables, they get no gradient.
    data: usize,
}

/// An operation with one result.
fn op(
    name: &'static str,
    shapes: Shapes,
    run: impl Fn(&[Tensor]) -> Result<Tensor> + Copy + 'static,
) -> Case {
    several(name, shapes, move |t| Ok(vec![run(t)?]))
}

fn several(
    name: &'static str,
    shapes: Shapes,
    run: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + 'static,
) -> Case {
    Case { name, shapes, run: Box::new(run), composed: None, data: 0 }
}

impl Case {
    fn composed(
        self,
        name: &'static str,
        run: impl Fn(&[Tensor]) -> Result<Tensor> + Copy + 'static,
    ) -> Case {
        self.composed_of_several(name, move |t| Ok(vec![run(t)?]))
    }

    fn composed_of_several(
        mut self,
        name: &'static str,
        run: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + 'static,
    ) -> Case {
        self.composed = Some((name, Box::new(run)));
        self
    }

    fn of_data(mut self) -> Case {
        self.data = 1;
        self
    }
}

// --------------------------------------------------------------------------------------------------------------------
// The comparison

type Order = fn(&Tensor) -> Result<Tensor>;

/// Orders of memory, of which only the first is contiguous.
const LAYOUTS: [(&str, Order); 3] = [
    ("as it comes", |x| Ok(x.clone())),
    ("transposed", |x| match x.rank() {
        0 | 1 => Ok(x.clone()),
        rank => Ok(x.transpose(0, rank - 1)?.contiguous()?.transpose(0, rank - 1)?),
    }),
    ("within more", |x| {
        let last = x.rank() - 1;
        Ok(Tensor::cat(&[x, x, x], last)?.narrow(last, x.dim(last)?, x.dim(last)?)?)
    }),
];

/// What is computed: results, then gradients by candle and by this crate, each with its name; or why it is refused.
type Outcome = std::result::Result<Vec<(String, Option<(Vec<usize>, Vec<f64>)>)>, String>;

fn outcome(run: &Run, inputs: &[Tensor], dtype: DType, layout: Order, at: &Device) -> Outcome {
    let work = || -> Result<_> {
        let var = |x: &Tensor| Ok(Var::from_tensor(&x.to_dtype(dtype)?.to_device(at)?)?);
        let vars = inputs.iter().map(var).collect::<Result<Vec<Var>>>()?;
        let given = vars.iter().map(|v| layout(v)).collect::<Result<Vec<Tensor>>>()?;
        let results = run(&given)?;
        let mut all = Vec::new();
        let read = |t: &Tensor| (t.dims().to_vec(), t.numbers().unwrap().into_owned());
        let mut loss = Tensor::zeros((), dtype, at)?;
        for (i, result) in results.iter().enumerate() {
            all.push((format!("result {i}"), Some(read(result))));
            if result.elem_count() == 0 {
                return Ok(all); // which has no gradient
            }
            let r = Seed::new(i as u64).normal_tensor(result.dims(), (0.0, 1.0), DType::F64, &Device::Cpu)?;
            loss = (loss + (result * r.to_dtype(dtype)?.to_device(at)?)?.sum_all()?)?;
        }
        for (whose, grads) in [("candle's", loss.backward()?), ("our", backward(&loss)?)] {
            for (i, var) in vars.iter().enumerate() {
                all.push((format!("{whose} gradient {i}"), grads.get(var).map(read)));
            }
        }
        Ok(all)
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|e| e.to_string().lines().next().unwrap_or_default().to_string()),
        Err(_) => Err("a panic".to_string()),
    }
}

/// The first difference, if any.
fn difference(expected: &Outcome, got: &Outcome, tolerance: f64) -> Option<String> {
    let (expected, got) = match (expected, got) {
        (Ok(expected), Ok(got)) => (expected, got),
        (Err(expected), Err(got)) => return (expected != got).then(|| format!("refused with {got:?}")),
        (Ok(_), Err(got)) => return Some(format!("refused with {got:?}")),
        (Err(_), Ok(_)) => return Some("not refused".to_string()),
    };
    let has_nan = expected.iter().any(|(_, e)| e.iter().any(|(_, e)| e.iter().any(|e| e.is_nan())));
    expected.iter().zip(got).find_map(|((name, e), (_, g))| match (e, g) {
        (None, None) => None,
        (Some((e_dims, e)), Some((g_dims, g))) if e_dims == g_dims => {
            // Where results are NaN, and agree in that, a gradient that is NaN says no less than another.
            let either = has_nan && name.contains("gradient");
            let same = |e: f64, g: f64| {
                let nan = if either { e.is_nan() || g.is_nan() } else { e.is_nan() && g.is_nan() };
                e == g || nan || (e - g).abs() <= tolerance * (1.0 + e.abs())
            };
            let i = (0..e.len()).find(|i| !same(e[*i], g[*i]))?;
            Some(format!("{name}, entry {i}: {} for {}", g[i], e[i]))
        }
        (e, g) => {
            let dims = |x: &Option<(Vec<usize>, Vec<f64>)>| x.as_ref().map(|x| x.0.clone());
            Some(format!("{name}: {:?} for {:?}", dims(g), dims(e)))
        }
    })
}

/// The largest difference, relative to numbers above one, of what both have.
fn distance(expected: &Outcome, got: &Outcome) -> f64 {
    let (Ok(expected), Ok(got)) = (expected, got) else { return 0.0 };
    let apart = |(e, g): (&f64, &f64)| (e - g).abs() / (1.0 + e.abs());
    let pairs =
        expected.iter().zip(got).filter_map(|((_, e), (_, g))| Some((&e.as_ref()?.1, &g.as_ref()?.1)));
    pairs.flat_map(|(e, g)| e.iter().zip(g).map(apart)).filter(|apart| apart.is_finite()).fold(0.0, f64::max)
}

/// Where a case is not on the device what it is on the CPU, nor composed of tensors what it is by itself: a line each;
/// and how far the device was from the CPU at most, in f32 and f64.
fn differences(case: &Case, there: &Device) -> (Vec<String>, [f64; 2]) {
    let (mut said, mut farthest) = (Vec::new(), [0.0f64; 2]);
    for shapes in case.shapes {
        let draw = |(i, shape): (usize, &&[usize])| {
            Seed::new(i as u64 + 40).normal_tensor(*shape, (0.0, 1.0), DType::F64, &Device::Cpu).unwrap()
        };
        let inputs: Vec<Tensor> = shapes.iter().enumerate().map(draw).collect();
        let mut with_nan = inputs.clone();
        let mut values = numbers(&inputs[0]);
        if let Some(middle) = values.len().checked_sub(1).map(|last| last / 2) {
            values[middle] = f64::NAN;
        }
        with_nan[0] = Tensor::from_vec(values, shapes[0], &Device::Cpu).unwrap();
        for dtype in [DType::F32, DType::F64] {
            let of_numbers = LAYOUTS.map(|(kind, layout)| (kind, layout, &inputs));
            for (kind, layout, inputs) in
                of_numbers.into_iter().chain([("with NaN", LAYOUTS[0].1, &with_nan)])
            {
                let expected = outcome(&case.run, inputs, dtype, layout, &Device::Cpu);
                let mut compare = |name: &str, run: &Run, at: &Device| {
                    let got = outcome(run, inputs, dtype, layout, at);
                    if name == case.name {
                        let farthest = &mut farthest[usize::from(dtype == DType::F64)];
                        *farthest = farthest.max(distance(&expected, &got));
                    }
                    if let Some(what) = difference(&expected, &got, tolerance(dtype)) {
                        let place = at.location();
                        said.push(format!("{name} on {place:?}, {dtype:?} {shapes:?} {kind}: {what}"));
                    }
                };
                if !there.is_cpu() {
                    compare(case.name, &case.run, there);
                }
                if let Some((name, run)) = case.composed.as_ref().filter(|_| expected.is_ok()) {
                    compare(name, run, &Device::Cpu);
                    if !there.is_cpu() {
                        compare(name, run, there);
                    }
                }
            }
        }
    }
    (said, farthest)
}

// --------------------------------------------------------------------------------------------------------------------
// The operations

/// Labels of n rows, among them every class.
fn labels(like: &Tensor, classes: usize) -> Result<Tensor> {
    let n = like.dims().first().copied().unwrap_or(1);
    let y: Vec<u32> = (0..n).map(|i| (i * 7 % classes) as u32).collect();
    Ok(Tensor::from_vec(y, n, like.device())?)
}

/// Statistics of some batches before.
fn seen(gamma: &Tensor) -> Result<Running> {
    let running = Running { momentum: 0.3, ..Running::new(&gamma.detach())? };
    running.mean.set(&(running.mean.ones_like()? * 0.25)?)?;
    running.var.set(&(running.var.ones_like()? * 1.75)?)?;
    Ok(running)
}

/// A result, and the statistics after it.
fn with_statistics(y: Tensor, running: &Running) -> Vec<Tensor> {
    vec![y, running.mean.as_detached_tensor(), running.var.as_detached_tensor()]
}

type Norm = fn(&Tensor, &Tensor, &Tensor, &Running, bool) -> Result<Tensor>;

fn norm(norm: Norm, train: bool) -> impl Fn(&[Tensor]) -> Result<Vec<Tensor>> {
    move |t| {
        let running = seen(&t[1])?;
        Ok(with_statistics(norm(&t[0], &t[1], &t[2], &running, train)?, &running))
    }
}

const NORM: Shapes = &[
    &[&[5, 3], &[3], &[3]],
    &[&[4, 3, 5, 7], &[3], &[3]],
    &[&[2, 1, 1, 1], &[1], &[1]],
    &[&[1, 1], &[1], &[1]],
    &[&[0, 3], &[3], &[3]],
    &[&[2, 3, 0, 4], &[3], &[3]],
];

fn norms() -> Vec<Case> {
    let relu_of: Norm = |x, g, b, r, train| relu_by_tensors(&batch_norm_by_tensors(x, g, b, r, train)?);
    let composed = "batch_norm_by_tensors";
    let all = [(batch_norm as Norm, batch_norm_by_tensors as Norm), (batch_norm_relu, relu_of)];
    let both = [true, false].into_iter().flat_map(|train| all.map(|(own, parts)| (own, parts, train)));
    let names = ["batch_norm", "batch_norm_relu", "batch_norm in use", "batch_norm_relu in use"];
    let one = |(name, (own, parts, train)): (_, (Norm, Norm, bool))| {
        several(name, NORM, norm(own, train)).composed_of_several(composed, norm(parts, train)).of_data()
    };
    names.into_iter().zip(both).map(one).collect()
}

const BLOCK: Shapes = &[
    &[&[3, 2, 7, 6], &[4, 2, 3, 3], &[4], &[4]],
    &[&[2, 1, 3, 3], &[1, 1, 2, 2], &[1], &[1]],
    &[&[0, 2, 7, 6], &[4, 2, 3, 3], &[4], &[4]],
];

fn block(name: &'static str, padding: usize, pool: usize, train: bool) -> Case {
    let parts = move |t: &[Tensor]| {
        let running = seen(&t[2])?;
        let y = conv2d_by_tensors(&t[0], &t[1], 1, padding)?;
        let y = relu_by_tensors(&batch_norm_by_tensors(&y, &t[2], &t[3], &running, train)?)?;
        Ok(with_statistics(max_pool2d_by_tensors(&y, pool, pool)?, &running))
    };
    let whole = move |t: &[Tensor]| {
        let running = seen(&t[2])?;
        let y = conv_block(&t[0], &t[1], &t[2], &t[3], &running, padding, pool, train)?;
        Ok(with_statistics(y, &running))
    };
    several(name, BLOCK, whole).composed_of_several("the parts of conv_block", parts).of_data()
}

const POOL: Shapes =
    &[&[&[2, 3, 7, 5]], &[&[1, 2, 3, 9]], &[&[1, 1, 1, 1]], &[&[0, 3, 7, 5]], &[&[2, 3, 0, 5]]];

type Pool = fn(&Tensor, usize, usize) -> Result<Tensor>;

fn pools() -> Vec<Case> {
    let kinds = [
        ("max_pool2d", max_pool2d as Pool, "max_pool2d_by_tensors", max_pool2d_by_tensors as Pool),
        ("avg_pool2d", avg_pool2d, "avg_pool2d_by_tensors", avg_pool2d_by_tensors),
    ];
    let sizes = [(1, 1), (2, 2), (3, 1), (3, 2), (1, 2)];
    let one = move |(name, own, composed, parts): (_, Pool, _, Pool)| {
        sizes.map(|(size, stride)| {
            op(name, POOL, move |t| own(&t[0], size, stride))
                .composed(composed, move |t| parts(&t[0], size, stride))
        })
    };
    kinds.into_iter().flat_map(one).collect()
}

const NET: TwoLayer = TwoLayer { inputs: 3, hidden: [4, 2] };

fn linears() -> Vec<Case> {
    let plain = |t: &[Tensor]| Ok(t[0].contiguous()?.broadcast_matmul(&t[1].contiguous()?.t()?)?);
    let shapes: Shapes = &[
        &[&[5, 3], &[4, 3], &[4]],
        &[&[2, 3, 7], &[5, 7], &[5]],
        &[&[1, 1], &[1, 1], &[1]],
        &[&[0, 3], &[4, 3], &[4]],
        &[&[5, 0], &[4, 0], &[4]],
    ];
    let stacks: Shapes = &[
        &[&[7, 3], &[2, 4, 3], &[2, 4]],
        &[&[2, 7, 3], &[2, 4, 3], &[2, 4]],
        &[&[1, 1], &[1, 1, 1], &[1, 1]],
        &[&[0, 3], &[2, 4, 3], &[2, 4]],
    ];
    let nets: Shapes = &[&[&[3, 32], &[5, 3]], &[&[1, 32], &[1, 3]], &[&[3, 32], &[0, 3]]];
    let weights = |theta: &Tensor| (0..2 * theta.dims()[0]).map(|i| 0.5 + i as f64).collect::<Vec<_>>();
    let targets = |t: &[Tensor]| -> Result<Tensor> {
        let (n, models) = (t[1].dims()[0], t[0].dims()[0]);
        let y: Vec<u32> = (0..n * 2 * models).map(|i| (i % 3 % 2) as u32).collect();
        let y = Tensor::from_vec(y, (n, 2 * models), &Device::Cpu)?.to_dtype(t[0].dtype())?;
        Ok(y.to_device(t[0].device())?)
    };
    vec![
        op("linear", shapes, |t| linear(&t[0], &t[1], Some(&t[2])))
            .composed("product and sum", move |t| Ok(plain(t)?.broadcast_add(&t[2])?))
            .of_data(),
        op("linear without bias", shapes, |t| linear(&t[0], &t[1], None))
            .composed("product", plain)
            .of_data(),
        op("stacked_linear", stacks, |t| stacked_linear(&t[0], &t[1], &t[2])).of_data(),
        op("TwoLayer::scores", nets, |t| NET.scores(&t[0], &t[1])),
        op("TwoLayer::logistic_loss", nets, move |t| {
            NET.logistic_loss(&t[0], &t[1], &targets(t)?, &weights(&t[0]))
        })
        .composed("losses of TwoLayer::scores", move |t| {
            let (n, models) = (t[1].dim(0)?, t[0].dim(0)?);
            let y = targets(t)?.reshape((n, models, 2))?.transpose(0, 1)?.contiguous()?;
            let weights = Tensor::new(weights(&t[0]), t[0].device())?.to_dtype(t[0].dtype())?;
            let each = bce_logits_each(&NET.scores(&t[0], &t[1])?, &y)?;
            Ok((each.broadcast_mul(&weights.reshape((models, 1, 2))?)?.sum((1, 2))? / n as f64)?)
        }),
    ]
}

fn quantisers() -> Vec<Case> {
    let shapes: Shapes = &[&[&[7, 5]], &[&[1, 1]], &[&[33, 1]], &[&[0, 5]], &[&[4, 0]]];
    let mut all = vec![several("Grid", shapes, |t| {
        let end = |at: f64| Tensor::full(at, (1, 1), t[0].device())?.to_dtype(t[0].dtype());
        let grid = Grid::new(&end(-1.0)?, &end(1.5)?, 3)?;
        let codes = grid.codes(&t[0])?;
        Ok(vec![grid.quantise(&t[0])?, grid.position(&t[0])?, grid.dequantise(&codes)?, codes])
    })];
    for range in [Range::Printed, Range::Batch, Range::Running, Range::RunningEach] {
        for gradient in [RangeGradient::Detached, RangeGradient::Full] {
            let quantiser = Quantiser { bits: 3, range, gradient };
            for train in [true, false] {
                all.push(several("Quantiser", shapes, move |t| {
                    let d = t[0].dims()[1];
                    let end = |at: f64| -> Result<Var> {
                        let ends = vec![at; quantiser.ends(d).unwrap_or(1)];
                        let ends = Tensor::new(ends, &Device::Cpu)?.to_dtype(t[0].dtype())?;
                        Ok(Var::from_tensor(&ends.to_device(t[0].device())?)?)
                    };
                    let kept = [end(-0.5)?, end(0.75)?];
                    let codes = quantiser.forward(&t[0], Some(kept.each_ref()), train)?;
                    Ok([vec![codes], kept.map(|end| end.as_detached_tensor()).to_vec()].concat())
                }));
            }
        }
    }
    all
}

type Adam = fn(&Var, &Tensor, &Var, &Var, &AdamStep) -> Result<()>;
type Sgd = fn(&Var, &Tensor, &Var, &SgdStep) -> Result<()>;

fn optimisers() -> Vec<Case> {
    let four: Shapes = &[
        &[&[5, 7], &[5, 7], &[5, 7], &[5, 7]],
        &[&[1], &[1], &[1], &[1]],
        &[&[0, 3], &[0, 3], &[0, 3], &[0, 3]],
    ];
    let var = |t: &Tensor| Ok::<_, Error>(Var::from_tensor(&t.detach().copy()?)?);
    let mut all = Vec::new();
    for (weight_decay, decoupled) in [(0.0, false), (0.1, false), (0.1, true)] {
        let with = AdamStep { lr: 0.1, weight_decay, decoupled, step: 3, ..Default::default() };
        let after = move |step: Adam| {
            move |t: &[Tensor]| {
                let [theta, m, v] = [var(&t[1])?, var(&t[2])?, var(&t[3].sqr()?)?];
                step(&theta, &t[0].detach(), &m, &v, &with)?;
                Ok([theta, m, v].map(|var| var.as_detached_tensor()).to_vec())
            }
        };
        all.push(
            several("adam_step", four, after(adam_step))
                .composed_of_several("adam_step_by_tensors", after(adam_step_by_tensors)),
        );
    }
    let three: Shapes = &[&[&[5, 7], &[5, 7], &[5, 7]], &[&[1], &[1], &[1]], &[&[0, 3], &[0, 3], &[0, 3]]];
    for (momentum, nesterov) in [(0.0, false), (0.9, false), (0.9, true)] {
        let with = SgdStep { lr: 0.1, momentum, nesterov, weight_decay: 0.1 };
        let after = move |step: Sgd| {
            move |t: &[Tensor]| {
                let [theta, velocity] = [var(&t[1])?, var(&t[2])?];
                step(&theta, &t[0].detach(), &velocity, &with)?;
                Ok([theta, velocity].map(|var| var.as_detached_tensor()).to_vec())
            }
        };
        all.push(
            several("sgd_step", three, after(sgd_step))
                .composed_of_several("sgd_step_by_tensors", after(sgd_step_by_tensors)),
        );
    }
    all
}

fn losses() -> Vec<Case> {
    let scores: Shapes = &[&[&[6, 5]], &[&[1, 1]], &[&[33, 1]], &[&[0, 5]], &[&[4, 0]]];
    let two: Shapes = &[&[&[6, 5], &[6, 5]], &[&[1, 1], &[1, 1]], &[&[0, 5], &[0, 5]]];
    let row: Shapes = &[&[&[35]], &[&[2]], &[&[1]], &[&[0]]];
    let several_classes: Shapes = &[&[&[7, 3]], &[&[1, 3]], &[&[0, 3]]];
    vec![
        op("bce_logits_each", row, |t| bce_logits_each(&t[0], &labels(&t[0], 2)?)),
        op("bce_logits_each of shares", two, |t| bce_logits_each(&t[0], &t[1])),
        op("bce_logits", row, |t| bce_logits(&t[0], &labels(&t[0], 2)?)),
        op("cross_entropy", scores, |t| cross_entropy(&t[0], &labels(&t[0], t[0].dims()[1].max(1))?)),
        op("soft_cross_entropy", two, |t| soft_cross_entropy(&t[0], &t[1].abs()?)),
        op("one_hot", row, |t| one_hot(&labels(&t[0], 3)?, 3, t[0].dtype())),
        op("squared", two, |t| squared(&t[0], &t[1])),
        op("log_softmax", scores, |t| log_softmax(&t[0])),
        op("reverse", scores, |t| reverse(&t[0], 0.75)),
        op("Surrogate::Sigmoid", scores, |t| Surrogate::sigmoid(3.0).of(&t[0])),
        op("Surrogate::Softplus", scores, |t| Surrogate::Softplus { sharpness: 3.0 }.of(&t[0])),
        op("Surrogate::Hinge", scores, |t| Surrogate::Hinge.of(&t[0])),
        op("auc_loss", row, |t| auc_loss(&t[0], labels(&t[0], 2)?, 0.5, AucLoss::Value)?.on(&t[0])),
        op("auc_loss, ramp", row, |t| auc_loss(&t[0], labels(&t[0], 2)?, 0.5, AucLoss::Ramp)?.on(&t[0])),
        op("precision_at_recall", row, |t| {
            precision_at_recall(&t[0], labels(&t[0], 2)?, 0.8, 1.0)?.on(&t[0])
        }),
        op("recall_at_precision", row, |t| {
            recall_at_precision(&t[0], labels(&t[0], 2)?, 0.8, 1.0)?.on(&t[0])
        }),
        op("f_loss", row, |t| f_loss(&t[0], labels(&t[0], 2)?, 1.0, FLink::Sigmoid)?.on(&t[0])),
        op("auc_mu_loss", several_classes, |t| {
            auc_mu_loss(&t[0], labels(&t[0], 3)?, None, 0.5, AucLoss::Value)?.on(&t[0])
        }),
        op("auc_one_vs_all_loss", several_classes, |t| {
            auc_one_vs_all_loss(&t[0], labels(&t[0], 3)?, 0.5, AucLoss::Ramp)?.on(&t[0])
        }),
    ]
}

fn table() -> Vec<Case> {
    let any: Shapes = &[&[&[5, 7]], &[&[1]], &[&[3, 1, 65]], &[&[0, 3]]];
    let conv: Shapes = &[
        &[&[2, 3, 7, 5], &[4, 3, 3, 2]],
        &[&[3, 2, 8, 9], &[5, 2, 3, 3]],
        &[&[2, 3, 4, 5], &[2, 3, 1, 1]],
        &[&[1, 1, 1, 1], &[1, 1, 1, 1]],
        &[&[0, 3, 7, 5], &[4, 3, 3, 2]],
        &[&[2, 0, 7, 5], &[4, 0, 3, 2]],
    ];
    let mut all = vec![
        op("relu", any, |t| relu(&t[0])).composed("relu_by_tensors", |t| relu_by_tensors(&t[0])),
        op("mish", any, |t| mish(&t[0])).composed("mish_by_tensors", |t| mish_by_tensors(&t[0])),
        op("global_avg_pool", POOL, |t| global_avg_pool(&t[0])),
        block("conv_block", 1, 2, true),
        block("conv_block alone", 0, 1, true),
        block("conv_block in use", 1, 2, false),
    ];
    for (stride, padding) in [(1, 0), (2, 1), (3, 0), (1, 2)] {
        let case = op("conv2d", conv, move |t| conv2d(&t[0], &t[1], stride, padding));
        let parts = move |t: &[Tensor]| conv2d_by_tensors(&t[0], &t[1], stride, padding);
        all.push(case.composed("conv2d_by_tensors", parts).of_data());
    }
    for more in [norms(), pools(), linears(), quantisers(), optimisers(), losses()] {
        all.extend(more);
    }
    all
}

// --------------------------------------------------------------------------------------------------------------------
// The tests

#[test]
fn every_operation_is_the_same_on_every_device() {
    let (mut found, told) = (Vec::new(), std::env::var_os("LASTLAYER_CUDA_TOLD"));
    for case in table() {
        let (said, [single, double]) = differences(&case, device());
        found.extend(said);
        // For `make cuda-report`.
        if let Some(path) = told.as_ref().filter(|_| !device().is_cpu()) {
            let line = json!({"operation": case.name, "f32": single, "f64": double});
            let file = std::fs::File::options().append(true).create(true).open(path);
            file.and_then(|mut file| writeln!(file, "{line}")).expect("a line of the report");
        }
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn no_public_operation_is_missing_from_the_table() {
    let of_ops = include_str!("../../src/ops/mod.rs").split("pub use ").skip(1).flat_map(|text| {
        let list = text.split_once(';').unwrap().0.rsplit_once("::").unwrap().1;
        list.trim_matches(|c| "{} \n".contains(c)).split(',').map(|name| name.trim().to_string())
    });
    let of_losses = include_str!("../../src/loss.rs").split("\npub fn ").skip(1);
    let of_losses = of_losses.map(|text| text.split_once('(').unwrap().0.to_string());
    // Settings, what every case goes through, and statistics, which cases of norms compare.
    let apart = ["AdamStep", "SgdStep", "Range", "RangeGradient", "backward", "Running", ""];
    let table = table();
    let named = |name: &str| {
        let known = |own: &str| own.split([' ', ':', ',']).next() == Some(name);
        table.iter().any(|case| known(case.name) || case.composed.as_ref().is_some_and(|c| known(c.0)))
    };
    let names: Vec<String> = of_ops.chain(of_losses).filter(|name| !apart.contains(&&name[..])).collect();
    assert!(names.len() > 30, "only {names:?}");
    let missing: Vec<&String> = names.iter().filter(|name| !named(name)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

/// Doubles, but only on the CPU.
struct Doubled;

impl CustomOp1 for Doubled {
    fn name(&self) -> &'static str {
        "doubled"
    }

    fn cpu_fwd(&self, s: &CpuStorage, l: &Layout) -> lastlayer::candle::Result<(CpuStorage, Shape)> {
        let (from, to) = l.contiguous_offsets().expect("contiguous");
        let twice = match s {
            CpuStorage::F32(x) => CpuStorage::F32(x[from..to].iter().map(|x| 2.0 * x).collect()),
            CpuStorage::F64(x) => CpuStorage::F64(x[from..to].iter().map(|x| 2.0 * x).collect()),
            _ => unreachable!(),
        };
        Ok((twice, l.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, grad: &Tensor) -> lastlayer::candle::Result<Option<Tensor>> {
        Ok(Some((grad * 2.0)?))
    }
}

/// x², whose gradient is a constant where it is not meant to be.
fn square(x: &Tensor, wrong: bool) -> Result<Tensor> {
    let constant = x.detach();
    let slope = if wrong { constant.ones_like()? } else { (&constant * 2.0)? };
    Ok((constant.sqr()? + ((x - &constant)? * slope)?)?)
}

#[test]
fn planted_faults_of_a_device_are_named() {
    let shapes: Shapes = &[&[&[5, 7]]];
    let only_on_the_cpu = op("without a path", shapes, |t| Ok(t[0].contiguous()?.apply_op1(Doubled)?));
    let wrong_there = op("wrong there", shapes, |t| square(&t[0], !t[0].device().is_cpu()));
    let wrong_parts =
        op("right", shapes, |t| square(&t[0], false)).composed("wrong parts", |t| square(&t[0], true));
    let right =
        op("right", shapes, |t| square(&t[0], false)).composed("right parts", |t| square(&t[0], false));
    let said = |case: &Case| differences(case, device()).0;
    assert_eq!(said(&right), [""; 0]);
    let found = said(&wrong_parts);
    assert!(!found.is_empty());
    assert!(
        found
            .iter()
            .all(|line| line.starts_with("wrong parts on") && line.contains("candle's gradient 0, entry"))
    );
    if device().is_cpu() {
        return;
    }
    // Every layout in both types, and NaN, whose gradient is a number only if it is wrong.
    let (found, wrong) = (said(&only_on_the_cpu), said(&wrong_there));
    assert_eq!((found.len(), wrong.len()), (8, 8), "{found:?} {wrong:?}");
    assert!(
        found.iter().all(|line| line.contains("without a path on Cuda") && line.contains("doubled")),
        "{found:?}"
    );
    assert!(
        wrong.iter().all(|line| line.contains("wrong there on Cuda") && line.contains("gradient 0")),
        "{wrong:?}"
    );
}

/// Data are no variables, so their gradient, as large as they are, must not be made.
#[test]
fn data_get_no_gradient() {
    let mut seen = 0;
    for case in table().iter().filter(|case| case.data > 0) {
        for shapes in case.shapes {
            let given: Vec<Tensor> =
                shapes.iter().enumerate().map(|(i, shape)| draw(shape, i as u64 + 40)).collect();
            let x = &given[0];
            let vars: Vec<Var> = given[1..].iter().map(|t| Var::from_tensor(t).unwrap()).collect();
            let all: Vec<Tensor> =
                std::iter::once(x.clone()).chain(vars.iter().map(|v| v.as_tensor().clone())).collect();
            let Ok(results) = (case.run)(&all) else { continue };
            let wanted = |grads: lastlayer::candle::backprop::GradStore| {
                assert!(grads.get(&vars[0]).is_some(), "{}", case.name);
                let of_data = |grad: &Tensor| x.elem_count() > 1 && grad.elem_count() == x.elem_count();
                let others = grads.get_ids().filter(|id| vars.iter().all(|var| var.id() != **id));
                let extra = others.filter(|id| of_data(grads.get_id(**id).unwrap())).count();
                assert_eq!(extra, 0, "{} of {shapes:?} makes a gradient of data", case.name);
            };
            let loss = results[0].sum_all().unwrap();
            wanted(loss.backward().unwrap());
            wanted(backward(&loss).unwrap());
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}

/// Passes on threads, each with its own order: the sorted bits of what they give.
fn sorted_passes(threads: usize, each: usize, pass: impl Fn() -> Vec<Tensor> + Sync) -> Vec<Vec<u64>> {
    settle();
    let run = || {
        let all: Vec<Vec<u64>> = (0..each).map(|_| pass().iter().flat_map(bits).collect()).collect();
        settle();
        all
    };
    let mut all: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        started.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort();
    all
}

#[test]
fn gradients_and_followed_ends_of_a_quantiser_are_safe_under_threads() {
    let (x, quantiser) =
        (draw(&[9, 3], 1), Quantiser { bits: 3, range: Range::RunningEach, ..Default::default() });
    let after = |threads: usize| {
        let kept = [-9.0, 8.0]
            .map(|end| Var::from_tensor(&Tensor::from_vec(vec![end; 3], 3, device()).unwrap()).unwrap());
        let passes = sorted_passes(threads, 24 / threads, || {
            let x = Var::from_tensor(&x).unwrap();
            let codes = quantiser.forward(&x, Some(kept.each_ref()), true).unwrap();
            vec![codes.clone(), weighted(&codes).backward().unwrap().get(&x).unwrap().clone()]
        });
        (passes, kept.map(|end| bits(&end)))
    };
    // Every pass moves the ends, so that one that is lost, or that another thread's comes between, changes them all.
    let expected = after(1);
    assert!(expected.0.first() != expected.0.last());
    for threads in [2, 4] {
        assert!(after(threads) == expected, "{threads} threads");
    }
}

#[test]
fn gradients_and_statistics_of_a_norm_are_safe_under_threads() {
    let inputs = [draw(&[6, 3], 1), draw(&[3], 2), draw(&[3], 3)];
    let after = |threads: usize| {
        let running = running_before(&inputs[1]);
        let passes = sorted_passes(threads, 24 / threads, || {
            let vars = inputs.each_ref().map(|t| Var::from_tensor(t).unwrap());
            gradients(&vars, &|t| batch_norm(&t[0], &t[1], &t[2], &running, true).unwrap())
        });
        (passes, bits(&running.mean), bits(&running.var))
    };
    let expected = after(1);
    for threads in [2, 4] {
        assert!(after(threads) == expected, "{threads} threads");
    }
}

fn running_before(gamma: &Tensor) -> Running {
    let running = seen(gamma).unwrap();
    settle();
    running
}
