//! A linear program as a layer of a network.

use candle_core::Tensor;

use super::backward::{Gradients, active_set, envelope, one_step, penalty_implicit};
use super::certificate::Solution;
use super::matrix::Matrix;
use super::newton::PenaltyNewton;
use super::newton_lp::NewtonLp;
use super::penalty::PenaltyPoint;
use super::program::Lp;
use super::solver::Solver;
use crate::error::{Error, Result, ensure_shape};
use crate::loss::with_gradient;
use crate::numbers::{AsF64, to_tensor};
use crate::ops::known;

/// The numbers of a program that come from a network; all others are those of the program itself.
///
/// ```text
/// LpInputs::b(&b)                                      LpInputs { c: Some(c), ..LpInputs::b(&b) }
/// ```
/// Shapes: `A` (m, n), `b` (m), `c` (n), `A_eq` (m_eq, n), `b_eq` (m_eq), of one dtype and on one device.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[1.0]])?, &[0.0], &[-1.0])?; // min −z, z ≤ b
/// let b = Tensor::new(&[3.0f64], &Device::Cpu)?;
/// let out = LpLayer::default().forward(&program, &LpInputs::b(&b))?;
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
/// let inputs = LpInputs::c(&c);
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
    /// The minimum of the penalty, differentiated as the last of Newton's steps.
    OneStep { epsilon: f64 },
}

/// A linear program inside a network: solved exactly on the way forward, differentiated on the way back.
///
/// ```text
/// let out = LpLayer::default().forward(&lp, &LpInputs::b(&b))?;
/// out.value.backward()?            // ∂(cᵀz)/∂b = −v, by the envelope theorem
/// ```
/// Checked by `tests/lp/layer.rs`.
/// Book: `lp/differentiating.md#eq-lp-diff-envelope`, `#eq-lp-diff-active`.
///
/// ```
/// use lastlayer::prelude::*;
/// let program = Lp::new(Matrix::dense(ndarray::array![[1.0]])?, &[3.0], &[-2.0])?; // min −2z, z ≤ b
/// let b = Var::new(&[3.0f64], &Device::Cpu)?;
/// let inputs = LpInputs::b(&b);
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
/// let inputs = LpInputs::b(&b);
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

impl LpInputs {
    /// A alone.
    pub fn A(A: &Tensor) -> LpInputs {
        LpInputs { A: Some(A.clone()), ..LpInputs::default() }
    }

    /// b alone.
    pub fn b(b: &Tensor) -> LpInputs {
        LpInputs { b: Some(b.clone()), ..LpInputs::default() }
    }

    /// c alone.
    pub fn c(c: &Tensor) -> LpInputs {
        LpInputs { c: Some(c.clone()), ..LpInputs::default() }
    }

    /// A, b, c, A_eq and b_eq: in this order their entries follow each other.
    fn all(&self) -> [Option<&Tensor>; 5] {
        [&self.A, &self.b, &self.c, &self.A_eq, &self.b_eq].map(Option::as_ref)
    }

    /// The program with these numbers in it.
    fn fill(&self, lp: &Lp) -> Result<Lp> {
        let lp = Lp {
            A: matrix("A", &self.A, &lp.A)?,
            b: list("b", &self.b, &lp.b)?,
            c: list("c", &self.c, &lp.c)?,
            A_eq: matrix("A_eq", &self.A_eq, &lp.A_eq)?,
            b_eq: list("b_eq", &self.b_eq, &lp.b_eq)?,
        };
        lp.check()?;
        Ok(lp)
    }

    /// Shows which numbers are inputs.
    pub fn evcxr_display(&self) {
        let named = ["A", "b", "c", "A_eq", "b_eq"].into_iter().zip(self.all());
        let shown = named.filter_map(|(name, tensor)| Some(format!("{name} {:?}", tensor?.dims())));
        let text = format!("inputs of a linear program: {}", shown.collect::<Vec<_>>().join(", "));
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

/// Host: the entries.
fn matrix(name: &str, input: &Option<Tensor>, template: &Matrix) -> Result<Matrix> {
    let Some(tensor) = input else { return Ok(template.clone()) };
    ensure_shape(name, &[template.rows(), template.columns()][..], tensor.dims())?;
    Matrix::dense(tensor)
}

/// Host: the entries.
fn list(name: &str, input: &Option<Tensor>, template: &[f64]) -> Result<Vec<f64>> {
    let Some(tensor) = input else { return Ok(template.to_vec()) };
    ensure_shape(name, &[template.len()][..], tensor.dims())?;
    Ok(tensor.numbers()?.into_owned())
}

impl Backward {
    /// The minimum that takes the place of the solution, if one does.
    fn minimum(self, lp: &Lp, solution: &Solution) -> Result<Option<PenaltyPoint>> {
        let (Backward::Penalty { epsilon } | Backward::OneStep { epsilon }) = self else { return Ok(None) };
        let newton = PenaltyNewton { epsilon, ..Default::default() };
        let mut state = newton.init_at(lp, &solution.z)?;
        newton.run(&mut state)?;
        if state.converged {
            return newton.finish(&state).map(Some);
        }
        let hint = format!("the penalty with epsilon {epsilon} was not minimised; take a larger one");
        let (solver, residual) = ("penalty of a linear program".to_string(), state.gradient);
        Err(Error::Solve { solver, iters: state.steps, residual, hint })
    }
}

impl LpLayer {
    /// Solves a program whose inputs come from a network.
    ///
    /// The gradient of `value` is that of the optimum, that of `z` as `backward` says. Host: the program, in f64; the
    /// results are on the inputs' device and in their dtype. Fails: `Config` without an input, `Shape` or `Data` for a
    /// program that is not one, `Solve` unless the solver proves an optimum.
    pub fn forward(&self, lp: &Lp, inputs: &LpInputs) -> Result<LpOutput> {
        let given = inputs.all().map(|input| input.is_some());
        if !given.contains(&true) {
            let allowed = "at least one of A, b, c, A_eq, b_eq";
            return Err(Error::config("inputs of a linear program", "none", allowed));
        }
        let lp = inputs.fill(lp)?;
        let solution = self.solver.solve(&lp)?.optimal()?.clone();
        let point = self.backward.minimum(&lp, &solution)?;
        let entries: candle_core::Result<Vec<Tensor>> =
            inputs.all().into_iter().flatten().map(Tensor::flatten_all).collect();
        let x = Tensor::cat(&entries?, 0)?;
        let value = with_gradient(&x, &flat(&envelope(&solution), given), solution.value)?;
        let (n, z) = (lp.n(), point.as_ref().map_or(&solution.z, |point| &point.y).clone());
        let (found, backward, like) = (solution.clone(), self.backward, x.detach());
        // One linear system on the way back, and only if somebody asks.
        let z = known(&x, to_tensor(z, n, x.dtype(), x.device())?, move |z_bar| {
            let z_bar = z_bar.numbers()?;
            let gradients = match (backward, &point) {
                (Backward::Penalty { .. }, Some(point)) => penalty_implicit(&lp, point, &z_bar, None)?,
                (Backward::OneStep { .. }, Some(point)) => one_step(&lp, point, &z_bar)?,
                _ => active_set(&lp, &found, &z_bar)?,
            };
            to_tensor(flat(&gradients, given), like.shape(), like.dtype(), like.device())
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

/// Gradients in what is given, in the order of the inputs.
fn flat(gradients: &Gradients, given: [bool; 5]) -> Vec<f64> {
    let Gradients { A, b, c, A_eq, b_eq, .. } = gradients;
    let parts: [&dyn Fn() -> Vec<f64>; 5] = [
        &|| A.to_dense().into_iter().collect(),
        &|| b.clone(),
        &|| c.clone(),
        &|| A_eq.to_dense().into_iter().collect(),
        &|| b_eq.clone(),
    ];
    parts.into_iter().zip(given).filter(|(_, given)| *given).flat_map(|(part, _)| part()).collect()
}
