//! A training run of each method on a small set, for what a step copies between host and device and for how long it takes.

use lastlayer::candle::{DType, Device};
use lastlayer::intersection::{Agreement, Intersection, code_net};
use lastlayer::prelude::*;

const SEED: Seed = Seed::new(11);

/// Two classes in six coordinates, with the signs of the first two as attributes.
pub fn samples(n: usize, device: &Device) -> Result<Dataset> {
    let data = Gaussians::a().sample(n, SEED, &Device::Cpu)?;
    let signs = data.x.narrow(1, 0, 2)?.gt(0.0)?.to_dtype(DType::F32)?;
    data.with_attributes(signs, ["a", "b"])?.to_device(device)
}

/// Runs a method for so many steps, each on the whole set.
pub type Fit = Box<dyn Fn(&Dataset, usize) -> Result<()>>;

fn trainer(data: &Dataset, steps: usize) -> Trainer {
    Trainer::adam(0.003).batch(data.n()).epochs(steps).silent()
}

fn net(outputs: usize, data: &Dataset) -> Result<SplitNet> {
    SplitNet::new(zoo::mlp(&[6, 8])?, outputs, SEED, data.x.device())
}

fn scored(loss: impl Fn(&Tensor, &Tensor) -> Result<Tensor> + 'static) -> Fit {
    with_outputs(1, loss)
}

fn several(loss: impl Fn(&Tensor, &Tensor) -> Result<Tensor> + 'static) -> Fit {
    with_outputs(2, loss)
}

fn with_outputs(outputs: usize, loss: impl Fn(&Tensor, &Tensor) -> Result<Tensor> + 'static) -> Fit {
    Box::new(move |data, steps| {
        let net = net(outputs, data)?;
        let mut method = Minimise::new(&net, |b| loss(&net.forward(&b.x, b.pass())?, &b.y));
        trainer(data, steps).fit(&mut method, data).map(drop)
    })
}

/// Rules of bottom and last layer.
type Rules = (Rule, Rule);

fn rate(rules: Rules, policy: Option<ThresholdPolicy>) -> Fit {
    for_problem(|soft| RateProblem::fnr_at_fpr(0.1, soft), rules, policy)
}

fn for_problem(
    problem: fn(Surrogate) -> Result<RateProblem>,
    (bottom, last): Rules,
    policy: Option<ThresholdPolicy>,
) -> Fit {
    Box::new(move |data, steps| {
        let net = net(1, data)?;
        let problem = problem(Surrogate::sigmoid(2.0))?;
        let training = RateTraining::new(&net, &problem, bottom, last)?.corrected_on(data);
        let mut training = policy.iter().try_fold(training, |training, policy| training.policy(*policy))?;
        trainer(data, steps).fit(&mut training, data).map(drop)
    })
}

fn anonymous(fit: WeakFit, theta: ThetaGrad) -> Fit {
    Box::new(move |data, steps| {
        let mut training =
            FocaTraining::new(&net(2, data)?, data, Foca { fit, theta, heads: 2, ..Foca::default() })?;
        trainer(data, steps).fit(&mut training, data).map(drop)
    })
}

fn contest(loss: AdvLoss, decorrelated: bool) -> Fit {
    Box::new(move |data, steps| {
        let contest = Contest { loss, decorrelated, ..Contest::default() };
        let mut adversary =
            Adversary::new(zoo::mlp(&[6, 8])?, data, &["a"], &["b"], contest, SEED, data.x.device())?;
        trainer(data, steps).fit(&mut adversary, data).map(drop)
    })
}

fn codes() -> Fit {
    Box::new(move |data, steps| {
        let net = code_net(zoo::mlp(&[6, 8])?, Quantiser::default(), 8, 2, SEED, data.x.device())?;
        let mut intersection = Intersection::new(&net, data, Agreement::default())?;
        trainer(data, steps).fit(&mut intersection, data).map(drop)
    })
}

/// The value of a program of ten variables between bounds that are the first scores.
fn solved(s: &Tensor, _: &Tensor) -> Result<Tensor> {
    let (one, c) = (ndarray::Array2::<f64>::eye(10), vec![-1.0; 10]);
    let a = ndarray::concatenate![ndarray::Axis(0), one, -&one];
    let program = Lp::new(Matrix::dense(a)?, &[1.0; 20], &c)?;
    let b = s.narrow(0, 0, 20)?.sqr()?.affine(1.0, 1.0)?;
    Ok(LpLayer::default().forward(&program, &LpInputs::b(&b))?.value)
}

fn saddle() -> Fit {
    Box::new(move |data, steps| {
        let mut ppd = Ppd::new(&net(1, data)?, data, PpdParams::default())?;
        trainer(data, steps).fit(&mut ppd, data).map(drop)
    })
}

fn pairs() -> Fit {
    Box::new(move |data, steps| {
        let tasks = [Task::Single(0), Task::Pair(0, 1)];
        let mut stack = PairStack::new(data, [8, 8], &tasks, SEED, data.x.device())?;
        trainer(data, steps).fit(&mut stack, data).map(drop)
    })
}

fn soft_tree() -> Fit {
    Box::new(move |data, steps| {
        let mut tree = SoftTree::new(6, 2, 3, SEED, data.x.device())?;
        trainer(data, steps).fit(&mut tree, data).map(drop)
    })
}

/// Every method by name, a plain loss first.
pub fn methods() -> Vec<(String, Fit)> {
    let mut all: Vec<(String, Fit)> = vec![("logistic".into(), scored(bce_logits))];
    let game = |regret| (Rule::Game { regret, dual_lr: 0.5 }, Rule::Game { regret, dual_lr: 0.5 });
    let ico = (Rule::Implicit, Rule::Implicit);
    let adaptive = Rule::Penalty(Penalty::Adaptive { factor: 2.0 });
    for (name, rules) in [
        ("cross_entropy", (Rule::Logistic, Rule::Logistic)),
        ("tfco", game(Regret::Swap)),
        ("tfco external", game(Regret::External)),
        ("tfco Lagrangian", game(Regret::Lagrangian { radius: 10.0 })),
        ("ico", ico),
        ("method1", (Rule::Logistic, Rule::Implicit)),
        ("method1 above", (Rule::LogisticAbove, Rule::Implicit)),
        ("method2", (Rule::Penalty(Penalty::Absolute(20.0)), Rule::Implicit)),
        ("method2 adaptive", (adaptive, Rule::Implicit)),
        ("ablation adaptive", (adaptive, adaptive)),
        ("last_layer", (Rule::Nothing, Rule::Implicit)),
    ] {
        all.push((format!("rate {name}"), rate(rules, None)));
    }
    for policy in [
        ThresholdPolicy::TrackAndCorrect { every: 4, batches: 3 },
        ThresholdPolicy::Ema { decay: 0.9 },
        ThresholdPolicy::Buffer { samples: 500 },
    ] {
        all.push((format!("rate ico, {policy:?}"), rate(ico, Some(policy))));
    }
    type Problem = fn(Surrogate) -> Result<RateProblem>;
    let problems: [(&str, Problem); 4] = [
        ("partial_auc", |soft| RateProblem::partial_auc(0.0, 0.5, 3, soft)),
        ("precision_at_recall", |soft| RateProblem::precision_at_recall(0.9, soft)),
        ("recall_at_precision", |_| RateProblem::recall_at_precision(0.52, Surrogate::sigmoid(50.0))),
        ("equal_opportunity", |soft| RateProblem::equal_opportunity(0, 0.1, soft)),
    ];
    for (name, problem) in problems {
        all.push((format!("rate ico for {name}"), for_problem(problem, ico, None)));
    }
    for kind in [AucLoss::Value, AucLoss::Ramp] {
        all.push((format!("lp auc_loss {kind:?}"), scored(move |s, y| auc_loss(s, y, 0.5, kind)?.on(s))));
        all.push((
            format!("lp auc_mu_loss {kind:?}"),
            several(move |s, y| auc_mu_loss(s, y, None, 0.5, kind)?.on(s)),
        ));
        all.push((
            format!("lp auc_one_vs_all_loss {kind:?}"),
            several(move |s, y| auc_one_vs_all_loss(s, y, 0.5, kind)?.on(s)),
        ));
    }
    for link in [FLink::Sigmoid, FLink::Ramp { margin: 1.0 }] {
        all.push((format!("lp f_loss {link:?}"), scored(move |s, y| f_loss(s, y, 1.0, link)?.on(s))));
    }
    all.push((
        "lp precision_at_recall".into(),
        scored(|s, y| lp::precision_at_recall(s, y, 0.9, 0.5)?.on(s)),
    ));
    all.push((
        "lp recall_at_precision".into(),
        scored(|s, y| lp::recall_at_precision(s, y, 0.2, 0.1)?.on(s)),
    ));
    all.push(("lp LpLayer of 20 rows".into(), scored(solved)));
    all.push(("lp Ppd".into(), saddle()));
    for (name, fit) in [("ridge", WeakFit::RidgeSum(1.0)), ("softmax", WeakFit::SoftmaxSum(1.0))] {
        for theta in [ThetaGrad::Fixed, ThetaGrad::Through] {
            all.push((format!("foca {name} {theta:?}"), anonymous(fit, theta)));
        }
    }
    for loss in [
        AdvLoss::MultiTask,
        AdvLoss::Reverse,
        AdvLoss::FlippedLabel,
        AdvLoss::WassersteinLinear,
        AdvLoss::WassersteinClipped { clip: 0.1 },
    ] {
        all.push((format!("adversary {loss:?}"), contest(loss, false)));
    }
    all.push(("adversary Reverse, decorrelated".into(), contest(AdvLoss::Reverse, true)));
    all.push(("adversary PairStack".into(), pairs()));
    all.push(("intersection".into(), codes()));
    all.push(("tree SoftTree".into(), soft_tree()));
    all
}
