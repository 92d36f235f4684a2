//! A linear program as a layer of a network.

use candle_core::Tensor;
use ndarray::Array2;

use super::augmented::NewtonLp;
use super::backward::{Gradients, active_set, envelope, one_step, penalty_implicit};
use super::certificate::Solution;
use super::matrix::Matrix;
use super::newton::PenaltyNewton;
use super::program::Lp;
use crate::error::{Error, Result, ensure_shape};
use crate::loss::with_gradient;
use crate::numbers::Numbers;
use crate::ops::known;

/// The numbers of a program that come from a network; all others are those of the program itself.
///
/// ```text
/// LpInputs { b: Some(b), ..Default::default() }
/// ```
/// Shapes: `A` (m, n), `b` (m), `c` (n), `A_eq` (m_eq, n), `b_eq` (m_eq), of one dtype and on one device.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[1.0]])?, &[0.0], &[-1.0])?; // min −z, z ≤ b
/// let b = Tensor::new(&[3.0f64], &Device::Cpu)?;
/// let out = LpLayer::default().forward(&program, &LpInputs { b: Some(b), ..Default::default() })?;
/// assert!((out.solution.z[0] - 3.0).abs() < 1e-9); // the 0 of the program was replaced
/// assert!(LpLayer::default().forward(&program, &LpInputs::default()).is_err()); // nothing to feed
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct LpInputs {
    pub A: Option<Tensor>,
    pub b: Option<Tensor>,
    pub c: Option<Tensor>,
    pub A_eq: Option<Tensor>,
    pub b_eq: Option<Tensor>,
}

/// How the solution of a program is differentiated.
///
/// Book: `lp/differentiating.md#eq-lp-diff-agree`, `#eq-lp-diff-cost`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[1.0]])?, &[3.0], &[-1.0])?; // min c z, z ≤ 3
/// let c = Var::new(&[-1.0f64], &Device::Cpu)?;
/// let inputs = LpInputs { c: Some(c.as_tensor().clone()), ..Default::default() };
/// let layer = LpLayer { backward: lp::Backward::Penalty { epsilon: 0.01 }, ..Default::default() };
/// let gradients = layer.forward(&program, &inputs)?.z.sum_all()?.backward()?;
/// // The penalty's minimum is 3 − ε c.
/// let by_c = gradients.get(&c).expect("a gradient").to_vec1::<f64>()?;
/// assert!((by_c[0] + 0.01).abs() < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Backward {
    /// Through the rows that pin the exact solution down. Nothing flows to c: a vertex does not move while c turns.
    #[default]
    ActiveSet,
    /// The minimum of the penalty takes the place of the solution, and is differentiated as an implicit function: a little
    /// beside the vertex, and with a gradient in c.
    Penalty { epsilon: f64 },
    /// The same minimum, differentiated as the last of Newton's steps.
    OneStep { epsilon: f64 },
}

/// A linear program inside a network: solved exactly on the way forward, differentiated on the way back.
///
/// ```text
/// let out = LpLayer::default().forward(&lp, &LpInputs { b: Some(b), ..Default::default() })?;
/// out.value.backward()?            // ∂(cᵀz)/∂b = −v, by the envelope theorem
/// ```
/// Checked by `tests/lp/layer.rs`.
/// Book: `lp/differentiating.md#eq-lp-diff-envelope`, `#eq-lp-diff-active`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[1.0]])?, &[3.0], &[-2.0])?; // min −2z, z ≤ b
/// let b = Var::new(&[3.0f64], &Device::Cpu)?;
/// let inputs = LpInputs { b: Some(b.as_tensor().clone()), ..Default::default() };
/// let out = LpLayer::default().forward(&program, &inputs)?;
/// let gradients = out.value.backward()?;
/// assert!((gradients.get(&b).expect("a gradient").to_vec1::<f64>()?[0] + 2.0).abs() < 1e-8);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LpLayer {
    pub solver: NewtonLp,
    pub backward: Backward,
}

/// What a layer gives.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[2.0]])?, &[3.0], &[-1.0])?; // z = b/2
/// let b = Var::new(&[3.0f64], &Device::Cpu)?;
/// let inputs = LpInputs { b: Some(b.as_tensor().clone()), ..Default::default() };
/// let out = LpLayer::default().forward(&program, &inputs)?;
/// assert!((out.z.to_vec1::<f64>()?[0] - 1.5).abs() < 1e-9);
/// assert!((out.value.to_scalar::<f64>()? + 1.5).abs() < 1e-9);
/// let gradients = out.z.sum_all()?.backward()?;
/// assert!((gradients.get(&b).expect("a gradient").to_vec1::<f64>()?[0] - 0.5).abs() < 1e-9);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LpOutput {
    /// (n) The solution, or the penalty's minimum near it, as [`Backward`] says.
    pub z: Tensor,
    /// The optimum cᵀz, a scalar.
    pub value: Tensor,
    /// What was solved, on the host.
    pub solution: Solution,
}

/// The parts of a program that are inputs, in the order in which they are strung together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    A,
    B,
    C,
    AEq,
    BEq,
}

impl LpInputs {
    fn parts(&self) -> Vec<(Part, &Tensor)> {
        let all = [
            (Part::A, &self.A),
            (Part::B, &self.b),
            (Part::C, &self.c),
            (Part::AEq, &self.A_eq),
            (Part::BEq, &self.b_eq),
        ];
        all.into_iter().filter_map(|(part, tensor)| tensor.as_ref().map(|tensor| (part, tensor))).collect()
    }

    /// The program with these numbers in it.
    fn fill(&self, lp: &Lp) -> Result<Lp> {
        let mut lp = lp.clone();
        for (part, tensor) in self.parts() {
            match part {
                Part::A => lp.A = matrix("A", tensor, &lp.A)?,
                Part::AEq => lp.A_eq = matrix("A_eq", tensor, &lp.A_eq)?,
                Part::B => lp.b = list("b", tensor, &lp.b)?,
                Part::C => lp.c = list("c", tensor, &lp.c)?,
                Part::BEq => lp.b_eq = list("b_eq", tensor, &lp.b_eq)?,
            }
        }
        lp.check()?;
        Ok(lp)
    }

    /// Shows which numbers are inputs.
    pub fn evcxr_display(&self) {
        let names: Vec<String> =
            self.parts().iter().map(|(part, t)| format!("{part:?} {:?}", t.dims())).collect();
        evcxr_runtime::mime_type("text/plain")
            .text(format!("inputs of a linear program: {}", names.join(", ")));
    }
}

/// Host: the entries.
fn matrix(name: &str, tensor: &Tensor, template: &Matrix) -> Result<Matrix> {
    ensure_shape(name, &[template.rows(), template.columns()][..], tensor.dims())?;
    let entries = tensor.numbers()?.into_owned();
    let array = Array2::from_shape_vec((template.rows(), template.columns()), entries);
    Ok(Matrix::Dense(array.map_err(|e| Error::shape(name, "one entry per row and column", e))?))
}

/// Host: the entries.
fn list(name: &str, tensor: &Tensor, template: &[f64]) -> Result<Vec<f64>> {
    ensure_shape(name, &[template.len()][..], tensor.dims())?;
    Ok(tensor.numbers()?.into_owned())
}

impl LpLayer {
    /// Solves a program whose inputs come from a network.
    ///
    /// The gradient of `value` is that of the optimum, that of `z` as `backward` says. Host: the program, in f64; the
    /// results are on the inputs' device and in their dtype. Fails: `Config` without an input, `Shape` or `Data` for a
    /// program that is not one, `Solve` unless the solver proves an optimum.
    pub fn forward(&self, lp: &Lp, inputs: &LpInputs) -> Result<LpOutput> {
        let parts = inputs.parts();
        if parts.is_empty() {
            return Err(Error::config(
                "inputs of a linear program",
                "none",
                "at least one of A, b, c, A_eq, b_eq",
            ));
        }
        let lp = inputs.fill(lp)?;
        let solution = self.solver.solve(&lp)?.optimal()?.clone();
        let flat =
            parts.iter().map(|(_, tensor)| tensor.flatten_all()).collect::<candle_core::Result<Vec<_>>>()?;
        let x = Tensor::cat(&flat, 0)?;
        let order: Vec<Part> = parts.iter().map(|(part, _)| *part).collect();
        let value = with_gradient(&x, &strung(&envelope(&solution), &order), solution.value)?;
        let point = match self.backward {
            Backward::ActiveSet => None,
            Backward::Penalty { epsilon } | Backward::OneStep { epsilon } => {
                let newton = PenaltyNewton { epsilon, ..Default::default() };
                let point = newton.minimise(&lp, &solution.z)?;
                if !point.converged {
                    let hint =
                        format!("the penalty with epsilon {epsilon} was not minimised; take a larger one");
                    let (solver, residual) = ("penalty of a linear program".to_string(), point.gradient);
                    return Err(Error::Solve { solver, iters: point.steps, residual, hint });
                }
                Some(point)
            }
        };
        let (n, z) = (lp.n(), point.as_ref().map_or(&solution.z, |point| &point.y).clone());
        let (found, backward, like) = (solution.clone(), self.backward, x.detach());
        // One linear system on the way back, and only if somebody asks.
        let z = known(&x, z, n, move |z_bar| {
            let z_bar = z_bar.numbers()?;
            let gradients = match (backward, &point) {
                (Backward::Penalty { .. }, Some(point)) => penalty_implicit(&lp, point, &z_bar, None)?,
                (Backward::OneStep { .. }, Some(point)) => one_step(&lp, point, &z_bar)?,
                _ => active_set(&lp, &found, &z_bar)?,
            };
            Ok(Tensor::new(strung(&gradients, &order), like.device())?.to_dtype(like.dtype())?)
        })?;
        Ok(LpOutput { z, value, solution })
    }

    /// Shows solver and derivative.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(format!("{self:?}"));
    }
}

impl LpOutput {
    /// Shows the solution.
    pub fn evcxr_display(&self) {
        self.solution.evcxr_display();
    }
}

/// Gradients in the order of the inputs.
fn strung(gradients: &Gradients, order: &[Part]) -> Vec<f64> {
    let mut list = Vec::new();
    for part in order {
        match part {
            Part::A => list.extend(gradients.A.to_dense()),
            Part::B => list.extend(&gradients.b),
            Part::C => list.extend(&gradients.c),
            Part::AEq => list.extend(gradients.A_eq.to_dense()),
            Part::BEq => list.extend(&gradients.b_eq),
        }
    }
    list
}
