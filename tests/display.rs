//! What the notebook kernel asks of every public type: owned, nameable, `Clone`, with an inherent `evcxr_display`.

use lastlayer::data::{self, critters, load, toy};
use lastlayer::{
    adversary, figure, files, foca, intersection, kernel, linalg, lp, metrics, model, ops, progress, rate,
    record, seed, table, train, tree,
};

/// Fails to compile unless the type is `'static + Clone` and has `evcxr_display` without any trait in scope.
macro_rules! displayed {
    ($($module:ident::$name:ident),* $(,)?) => {
        fn _enforced() {
            fn owned<T: Clone + 'static>() {}
            $(owned::<$module::$name>(); let _: fn(&$module::$name) = $module::$name::evcxr_display;)*
        }
        const DISPLAYED: &[&str] = &[$(stringify!($name)),*];
    };
}

displayed!(
    adversary::Adversary,
    adversary::Effect,
    adversary::Leak,
    adversary::PairSearch,
    adversary::PairStack,
    adversary::Partner,
    adversary::Point,
    adversary::Race,
    adversary::Scatter,
    adversary::Transfer,
    critters::BayesLimit,
    critters::Critters,
    critters::Fidelity,
    data::Batches,
    data::Dataset,
    data::Parts,
    figure::Figure,
    foca::ClassRows,
    foca::Features,
    foca::Fitted,
    foca::FocaTraining,
    foca::Lda,
    foca::LinearHead,
    foca::PartialHead,
    foca::PartialHeads,
    foca::Spread,
    foca::TwoClass,
    files::Saved,
    intersection::Grid,
    intersection::Intersection,
    intersection::TreeReading,
    intersection::AttributeMatches,
    kernel::Setup,
    linalg::Cholesky,
    load::ClassAttributes,
    load::Exported,
    load::Npz,
    lp::Certificate,
    lp::ExpectedF,
    lp::Gradients,
    lp::Loss,
    lp::Lp,
    lp::LpInputs,
    lp::LpLayer,
    lp::LpOutput,
    lp::LpState,
    lp::Matrix,
    lp::NeymanPearson,
    lp::OuterSum,
    lp::PenaltyPoint,
    lp::PenaltyState,
    lp::Ppd,
    lp::PpdParams,
    lp::Ray,
    lp::ScoreGradient,
    lp::Solution,
    lp::Structured,
    lp::UserForm,
    metrics::Calibration,
    metrics::ClassScores,
    metrics::Comparison,
    metrics::Confusion,
    metrics::Estimate,
    metrics::Factorial,
    metrics::McNemar,
    metrics::PrecisionRecall,
    metrics::Roc,
    metrics::Scores,
    model::Net,
    model::Network,
    model::Predictor,
    model::SplitNet,
    ops::Running,
    progress::Progress,
    rate::Adjoint,
    rate::Game,
    rate::Labels,
    rate::RateProblem,
    rate::RateSum,
    rate::RateTraining,
    rate::Root,
    rate::Thresholds,
    record::Record,
    seed::Seed,
    table::Table,
    toy::Gaussians,
    train::History,
    train::Job,
    train::Run,
    train::Sweep,
    train::Trainer,
    tree::Codes,
    tree::Examples,
    tree::SoftTree,
    tree::Tree,
    tree::TreeNames,
);

/// Inputs, parts of results and the error, which no cell ends in. Each is `Clone` but for the error, which wraps others'.
const PARTS: &[&str] = &[
    "AdamStep",
    "Adult",
    "AdvLoss",
    "Agreement",
    "At",
    "AucLoss",
    "Backward",
    "Baseline",
    "Bars",
    "Batch",
    "Bin",
    "Binarise",
    "Bins",
    "Branch",
    "Cart",
    "CelebA",
    "Cell",
    "Cifar100",
    "Contest",
    "Correlation",
    "Criterion",
    "Crop",
    "CsvTable",
    "Cub",
    "Curve",
    "Decay",
    "Decision",
    "Epoch",
    "Error",
    "Evidence",
    "ExportKeys",
    "FLink",
    "Fisher",
    "Fixed",
    "Foca",
    "Group",
    "Image",
    "ImageFolder",
    "Init",
    "Latents",
    "Layer",
    "AttributeMatch",
    "Minimise",
    "Missing",
    "Names",
    "NewtonLp",
    "Node",
    "NodeReading",
    "Null",
    "Optimiser",
    "Outer",
    "Divisor",
    "Part",
    "Pass",
    "Penalty",
    "PenaltyNewton",
    "Place",
    "Plan",
    "Points",
    "Preset",
    "Provenance",
    "Published",
    "Quantiser",
    "Range",
    "RangeGradient",
    "Rate",
    "Reach",
    "Regret",
    "Row",
    "Rule",
    "Schedule",
    "Score",
    "Sense",
    "SgdStep",
    "Shift",
    "Show",
    "Size",
    "Slopes",
    "SmoothNewton",
    "SoftReading",
    "Sparsity",
    "Split",
    "Status",
    "Stem",
    "Step",
    "StepRule",
    "Stopped",
    "Surrogate",
    "SweepRun",
    "Task",
    "TensorFile",
    "Term",
    "ThetaGrad",
    "ThresholdPolicy",
    "TwoLayer",
    "Updates",
    "WeakFit",
    "Within",
];

#[test]
fn every_public_type_is_displayed_or_known_to_be_a_part() {
    let mut missing = Vec::new();
    let mut found = 0;
    for path in sources(std::path::Path::new("src")) {
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("pub struct ").or(line.strip_prefix("pub enum ")) else {
                continue;
            };
            let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            found += 1;
            if !DISPLAYED.contains(&name) && !PARTS.contains(&name) {
                missing.push(format!("{} in {}", name, path.display()));
            }
        }
    }
    assert!(found > DISPLAYED.len(), "the walk over src/ found only {found} types");
    assert!(missing.is_empty(), "give these an inherent evcxr_display, or list them as parts: {missing:?}");
}

fn sources(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    entries.flat_map(|p| if p.is_dir() { sources(&p) } else { vec![p] }).collect()
}
