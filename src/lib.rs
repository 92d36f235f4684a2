//! Five methods that act where a network's features meet its decision, on candle tensors, for the notebook.
//!
//! ```text
//! data ──▶ model (phi, head) ──▶ method: rate | lp | foca | adversary | intersection ──▶ train ──▶ metrics ──▶ figure
//! ```
//! A classifier is a backbone and a last layer, `z = phi(x)` and `s = head(z)`; each method is a statement about what
//! may cross that line. A notebook needs one line, `use lastlayer::prelude::*;`, and takes candle from there too: a
//! second copy of candle would give wrong gradients without an error (see [`kernel::kernel_check`]).
//!
//! | file | what lives there |
//! |---|---|
//! | [`error`] | the one [`Error`](error::Error), every message with a remedy |
//! | [`seed`] | [`Seed`](seed::Seed), the counter-based generator behind everything random |
//! | [`numbers`] | tensors, arrays, vectors and slices, all read as f64 |
//! | [`linalg`] | small dense solves in f64 |
//! | [`distribution`] | distribution functions and their inverses |
//! | [`data`] | [`Dataset`](data::Dataset), Critters with known Bayes limits, toy sets, loaders |
//! | [`ops`] | CPU operations where candle's are slow or wrong |
//! | [`model`] | [`Split`](model::Split): backbone, line, head, of your own or by a plan; the usual networks |
//! | [`loss`] | losses that are finite at any score |
//! | [`probe`] | linear heads on fixed features, in closed form or by Newton, differentiated |
//! | [`rate`] | rates as constraints: thresholds as implicit functions, games, decoupled training |
//! | [`lp`] | metrics as linear programs: Newton with certificates, layers, the same optima by sorting |
//! | [`foca`] | features trained against random weak heads, and what is measured on them |
//! | [`adversary`] | attributes with and against each other: gradient reversal, and negative transfer told from noise |
//! | [`intersection`] | codes that a network and a tree both read, and how much of the truth is in them |
//! | [`tree`] | decision trees on whole numbers: exact histograms, rules, drawings |
//! | [`train`] | [`Trainer`](train::Trainer): one loop for every method; checkpoints, jobs, studies |
//! | [`metrics`] | exact rates, AUC, calibration and confusion, with intervals and tests |
//! | [`check`](mod@check) | lines that compare your number with the true one |
//! | [`kernel`] | proof that all cells of a notebook share one copy of the library |
//! | [`progress`] | lines in a notebook, a bar on a terminal |
//! | [`figure`] | charts for papers, in one style, with the data behind them |
//! | [`files`], [`tensor_file`] | files written whole or not at all; tensors in files |
//! | [`table`] | tables in HTML, Markdown, LaTeX and CSV |
//! | [`record`] | one JSON file per run |
//!
//! ```
//! use lastlayer::prelude::*;
//! let (seed, device) = (Seed::new(1), Device::Cpu);
//! let (train, test) = arcs(400, 0.1, seed, &device)?.split(0.5, seed)?;
//! let net = SplitNet::new(zoo::mlp(&[2, 16])?, 1, seed, &device)?;
//! let trainer = Trainer::adam(0.05).epochs(20).batch(50).seed(seed).silent();
//! trainer.fit(&mut Minimise::new(&net, |b| bce_logits(&net.forward(&b.x, b.pass())?, &b.y)), &train)?;
//! let auc = Scores::new(net.scores_of(&test)?, &test.y)?.auc_interval(0.95)?;
//! assert!(auc.value > 0.9, "{auc}");
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

pub mod adversary;
pub mod check;
pub mod data;
pub mod distribution;
pub mod error;
pub mod figure;
pub mod files;
pub mod foca;
pub mod intersection;
pub mod kernel;
mod latex;
pub mod linalg;
pub mod loss;
pub mod lp;
pub mod metrics;
pub mod model;
pub mod numbers;
pub mod ops;
mod order;
pub mod probe;
pub mod progress;
pub mod rate;
pub mod record;
pub mod seed;
pub mod table;
pub mod tensor_file;
pub mod train;
pub mod tree;

pub use candle_core as candle;
pub use candle_nn;
pub use ndarray;
pub use serde_json;

/// All that a notebook needs, candle included.
///
/// ```
/// use lastlayer::prelude::*;
/// let x = Tensor::new(&[3f64], &Device::Cpu)?; // candle's, the only copy of it
/// assert_eq!(x.sqr()?.to_vec1::<f64>()?, [9.0]);
/// assert_eq!(ndarray::array![1.0, 2.0].sum(), 3.0); // and ndarray's arrays
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub mod prelude {
    pub use crate::adversary::{
        self, AdvLoss, Adversary, Contest, Leak, PairSearch, PairStack, Race, Task, Transfer, leakage,
        price_of_invariance, reverse,
    };
    pub use crate::candle::{self, D, DType, Device, IndexOp, Module, Tensor, Var};
    pub use crate::candle_nn::{self, Optimizer, VarBuilder, VarMap};
    pub use crate::check::check;
    pub use crate::data::critters::{Critters, Preset};
    pub use crate::data::toy::{Gaussians, arcs, rings};
    pub use crate::data::{Dataset, Part, Parts, load};
    pub use crate::distribution;
    pub use crate::error::{Error, Result};
    pub use crate::figure::*;
    pub use crate::foca::{
        self, Baseline, ClassRows, Features, Fisher, Fitted, Foca, FocaTraining, Lda, LinearHead,
        PartialHeads, Spread, ThetaGrad, TwoClass, WeakFit, closest_pair, extractor, fisher_length,
        partial_heads, prediction_distance, printed_length,
    };
    pub use crate::intersection::{
        self, Agreement, AttributeMatches, Binarise, Grid, Intersection, Null, Quantiser, Range,
        RangeGradient, Score, TreeReading, class_oracle, code_net, codes_of, read_tree,
    };
    pub use crate::kernel::{kernel_check, quick};
    pub use crate::loss::{bce_logits, bce_logits_each, cross_entropy, one_hot, soft_cross_entropy, squared};
    pub use crate::lp::{
        self, AucLoss, FLink, Lp, LpInputs, LpLayer, LpOutput, Matrix, NewtonLp, PenaltyNewton, Ppd,
        PpdParams, Published, SmoothNewton, Solver, auc_loss, auc_mu_loss, auc_one_vs_all_loss, f_loss,
        pairwise_logistic,
    };
    pub use crate::metrics::{
        self, Bins, Calibration, ClassScores, Comparison, Confusion, Estimate, Factorial, Scores, delong,
        factorial, mcnemar, mean_interval, paired, rate_interval, wilson_interval,
    };
    pub use crate::model::{
        Decision, Init, Layer, Net, Network, Pass, Plan, Predictor, Split, SplitNet, split, zoo,
    };
    pub use crate::ndarray::{self, Array1, Array2};
    pub use crate::numbers::AsF64;
    pub use crate::ops;
    pub use crate::progress::Progress;
    pub use crate::rate::{
        self, Labels, Penalty, Rate, RateProblem, RateTraining, Regret, Rule, Surrogate, ThresholdPolicy,
        hard_threshold, smooth_threshold,
    };
    pub use crate::record::Record;
    pub use crate::seed::Seed;
    pub use crate::table::{Cell, Table};
    pub use crate::train::{
        Batch, Decay, Group, History, Job, Method, Minimise, Optimiser, Run, Schedule, State, Step, Stopped,
        Sweep, SweepRun, Trainer,
    };
    pub use crate::tree::{Cart, Codes, Criterion, Examples, SoftReading, SoftTree, Tree, TreeNames};
}
