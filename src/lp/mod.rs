//! Metrics as linear programs, solved by Newton's method on an exterior penalty, and differentiated.
//!
//! ```text
//! scores ──▶ Lp: min c'z, A z ≤ b ──▶ NewtonLp: z, v, certificate ──▶ backward: gradients in A, b, c ──▶ scores
//!        └─▶ closed form of the same optimum, where there is one (loss files), in O(n log n)
//! ```
//! | file | what lives there |
//! |---|---|
//! | `program.rs` | [`Lp`], the canonical form, and [`UserForm`], the form people write |
//! | `matrix.rs`, `structured.rs` | [`Matrix`]: dense, or thin rows with few full rows and columns |
//! | `build.rs` | AUC, several classes, F scores and Neyman–Pearson as linear programs |
//! | `solver.rs` | [`Solver`]: `init`, `step`, `done`, `finish`, and the one loop of all that follow |
//! | `newton.rs` | [`PenaltyNewton`]: one penalty, minimised |
//! | `smooth.rs` | [`SmoothNewton`]: steps without a search that provably converge |
//! | `published.rs` | [`Published`]: the paper's constants, for reproduction |
//! | `newton_lp.rs` | [`NewtonLp`]: the solver to use |
//! | `penalty.rs`, `line_search.rs`, `normal.rs`, `scale.rs`, `vertex.rs` | what they share: the penalty at a point, along a line, its Hessian; units; rows that hold a point |
//! | `certificate.rs` | [`Solution`], [`Status`], [`Certificate`], [`Ray`]: what is claimed and why |
//! | `backward.rs` | [`Gradients`]: envelope, active set, penalty, one step |
//! | `layer.rs` | [`LpLayer`]: a program inside a network |
//! | `losses/` | the same optima by sorting |
//! | `rivals.rs` | [`pairwise_logistic`], [`Ppd`]: what they are compared with |
//!
//! Paper: Meng, Mukherjee, Wu, Singh and Ravi, *Differentiable optimization of generalized nondecomposable functions
//! using linear programs* (2021). Names: A, b, c, z, v as in the paper; its ϵ of ranking is `margin`, its ε of the
//! penalty `epsilon`, its ρ `delta`. Host: the programs, in f64, whose layer comes back to the device of
//! its tensors; `losses/` stay where the scores are.
//!
//! ```
//! use lastlayer::prelude::*;
//! // max u + v with u + 2v ≤ 4, 3u + v ≤ 6 and both not negative: the rows meet at (1.6, 1.2).
//! let rows = ndarray::array![[1.0, 2.0], [3.0, 1.0]];
//! let program = lp::UserForm::maximise(&[1.0, 1.0], rows, &[4.0, 6.0]).canonical()?;
//! let found = NewtonLp::default().solve(&program)?;
//! assert!((found.optimal()?.value + 2.8).abs() < 1e-8); // a minimum, so the sign is turned
//! assert!((found.z[0] - 1.6).abs() < 1e-8 && found.certificate.holds(1e-9));
//! # Ok::<(), lastlayer::error::Error>(())
//! ```
#![allow(non_snake_case)]

mod backward;
mod build;
mod certificate;
mod layer;
mod line_search;
mod losses;
mod matrix;
mod newton;
mod newton_lp;
mod normal;
mod penalty;
mod program;
mod published;
mod rivals;
mod scale;
mod smooth;
mod solver;
mod structured;
mod vertex;

pub use backward::{Gradients, OuterSum, active_set, envelope, one_step, penalty_implicit};
pub use certificate::{Certificate, Ray, Solution, Status};
pub use layer::{Backward, LpInputs, LpLayer, LpOutput};
pub use line_search::{Fixed, Reach, exact_line_search};
pub use losses::{
    AucLoss, ExpectedF, FLink, Loss, NeymanPearson, ScoreGradient, auc_loss, auc_mu_loss,
    auc_one_vs_all_loss, expected_f, f_decide, f_loss, independent_joint, precision_at_recall,
    recall_at_precision,
};
pub use matrix::Matrix;
pub use newton::{PenaltyNewton, StepRule};
pub use newton_lp::{LpState, NewtonLp, Outer};
pub use normal::Shift;
pub use penalty::{PenaltyPoint, PenaltyState};
pub use program::{Lp, UserForm};
pub use published::Published;
pub use rivals::{Ppd, PpdParams, pairwise_logistic};
pub use smooth::{SmoothNewton, softened, softened_slope, softened_value};
pub use solver::Solver;
pub use structured::{Row, Structured};

/// The positive part of each entry.
pub(crate) fn plus(r: &[f64]) -> Vec<f64> {
    r.iter().map(|r| r.max(0.0)).collect()
}

/// One where an entry is positive, zero elsewhere.
pub(crate) fn indicator(r: &[f64]) -> Vec<f64> {
    r.iter().map(|r| f64::from(u8::from(*r > 0.0))).collect()
}
