//! One step of an optimiser, in place: each parameter is read and written once.

use candle_core::{DType, Tensor, Var};
use rayon::prelude::*;

use super::host::{Candle, Real, check, in_place};
use crate::error::{Error, Result};

/// Elements per piece of a parallel update, and below which there is only one.
const PIECE: usize = 1 << 14;

/// Settings of one step of Adam or AdamW.
///
/// ```
/// use lastlayer::prelude::*;
/// // AdamW decays the weight itself, also where there is no gradient.
/// let with = ops::AdamStep { lr: 0.1, weight_decay: 0.5, decoupled: true, ..Default::default() };
/// let theta = Var::new(&[1f64], &Device::Cpu)?;
/// let [m, v] = [Var::new(&[0f64], &Device::Cpu)?, Var::new(&[0f64], &Device::Cpu)?];
/// ops::adam_step(&theta, &theta.zeros_like()?, &m, &v, &with)?;
/// assert!((theta.to_vec1::<f64>()?[0] - 0.95).abs() < 1e-15);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamStep {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the mean of the gradients.
    pub beta1: f64,
    /// Decay of the mean of their squares.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Weight decay; 0 for none.
    pub weight_decay: f64,
    /// Decay the weights themselves (AdamW) instead of adding it to the gradient (Adam).
    pub decoupled: bool,
    /// Which step this is, from 1 on.
    pub step: usize,
}

impl Default for AdamStep {
    fn default() -> Self {
        AdamStep {
            lr: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
            decoupled: false,
            step: 1,
        }
    }
}

/// Settings of one step of gradient descent.
///
/// ```
/// use lastlayer::prelude::*;
/// let with = ops::SgdStep { lr: 0.1, momentum: 0.9, nesterov: true, ..Default::default() };
/// let (theta, velocity) = (Var::new(&[1f64], &Device::Cpu)?, Var::new(&[0f64], &Device::Cpu)?);
/// ops::sgd_step(&theta, &Tensor::new(&[1f64], &Device::Cpu)?, &velocity, &with)?;
/// assert!((theta.to_vec1::<f64>()?[0] - 0.81).abs() < 1e-15); // 1 − 0.1 (1 + 0.9)
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdStep {
    /// Learning rate.
    pub lr: f64,
    /// How much of the velocity is kept; 0 for none.
    pub momentum: f64,
    /// Look ahead by one step of the momentum.
    pub nesterov: bool,
    /// Weight decay; 0 for none.
    pub weight_decay: f64,
}

impl Default for SgdStep {
    fn default() -> Self {
        SgdStep { lr: 1e-2, momentum: 0.0, nesterov: false, weight_decay: 0.0 }
    }
}

/// One step of Adam, or of AdamW if the decay is decoupled, on one parameter and its two moments, all in place.
///
/// ```text
/// Adam:  g ← g + weight_decay θ        AdamW:  θ ← (1 − lr weight_decay) θ
/// m ← β₁ m + (1 − β₁) g        v ← β₂ v + (1 − β₂) g²
/// θ ← θ − lr m̂ / (√v̂ + eps)        m̂ = m / (1 − β₁ᵗ)        v̂ = v / (1 − β₂ᵗ)        [Kingma and Ba, Algorithm 1]
/// ```
/// Shapes: all four alike; the moments begin as zeros. Cost: one pass; large parameters share the threads. Host: on the
/// CPU. Fails: `Shape` if shapes differ; `Config` for a step of 0, a decay outside [0, 1), negative or infinite
/// settings, types other than f32 and f64, or two arguments that share memory.
/// Checked by `tests/ops/optimiser.rs::adam_first_step_by_hand`, `adam_is_its_formula_over_five_steps`.
/// Book: `measures/features.md#eq-features-adam`.
///
/// ```
/// use lastlayer::prelude::*;
/// let (theta, grad) = (Var::new(&[1f64], &Device::Cpu)?, Tensor::new(&[0.003f64], &Device::Cpu)?);
/// let [m, v] = [Var::new(&[0f64], &Device::Cpu)?, Var::new(&[0f64], &Device::Cpu)?];
/// let with = ops::AdamStep { lr: 0.1, step: 1, ..Default::default() };
/// ops::adam_step(&theta, &grad, &m, &v, &with)?;
/// // The first step is the learning rate, however small the gradient.
/// assert!((theta.to_vec1::<f64>()?[0] - 0.9).abs() < 1e-5);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn adam_step(
    var: &Var,
    grad: &Tensor,
    first_moment: &Var,
    second_moment: &Var,
    with: &AdamStep,
) -> Result<()> {
    check_adam(var, grad, first_moment, second_moment, with)?;
    let grad = &grad.contiguous()?;
    if !var.device().is_cpu() {
        return adam_step_by_tensors(var, grad, first_moment, second_moment, with);
    }
    match var.dtype() {
        DType::F32 => adam::<f32>(var, grad, first_moment, second_moment, with)?,
        _ => adam::<f64>(var, grad, first_moment, second_moment, with)?,
    }
    Ok(())
}

/// [`adam_step`] for every device, as tensor operations.
///
/// Checked by `tests/ops/optimiser.rs::optimisers_by_tensors_agree_with_the_kernels`.
pub fn adam_step_by_tensors(
    var: &Var,
    grad: &Tensor,
    first: &Var,
    second: &Var,
    with: &AdamStep,
) -> Result<()> {
    let (size, root) = corrections(with);
    composed(var, grad, first, second, with, |m| m * size, |v| v * root)
}

/// [`adam_step`] whose number is a tensor of one f64 on a device, and that of the settings on the CPU.
pub(crate) fn adam_step_numbered(
    var: &Var,
    grad: &Tensor,
    first: &Var,
    second: &Var,
    with: &AdamStep,
    number: &Tensor,
) -> Result<()> {
    if var.device().is_cpu() {
        return adam_step(var, grad, first, second, with);
    }
    // βᵗ = e^{t ln β}
    let rest = |beta: f64| (number * beta.ln())?.exp()?.affine(-1.0, 1.0);
    let size = (rest(with.beta1)?.recip()? * with.lr)?.to_dtype(var.dtype())?;
    let root = rest(with.beta2)?.sqrt()?.recip()?.to_dtype(var.dtype())?;
    composed(var, grad, first, second, with, |m| m.broadcast_mul(&size), |v| v.broadcast_mul(&root))
}

/// A step of Adam whose corrections are scalars or tensors: `size` of the first moment, `root` of the second's.
fn composed(
    var: &Var,
    grad: &Tensor,
    first: &Var,
    second: &Var,
    with: &AdamStep,
    size: impl Fn(&Tensor) -> Candle<Tensor>,
    root: impl Fn(&Tensor) -> Candle<Tensor>,
) -> Result<()> {
    check_adam(var, grad, first, second, with)?;
    let (theta, grad) = (var.as_detached_tensor(), grad.detach());
    let (m, v) = (first.as_detached_tensor(), second.as_detached_tensor());
    let (theta, grad) = if with.weight_decay == 0.0 {
        (theta, grad)
    } else if with.decoupled {
        ((theta * (1.0 - with.lr * with.weight_decay))?, grad)
    } else {
        let decay = (&theta * with.weight_decay)?;
        (theta, (grad + decay)?)
    };
    let m = ((m * with.beta1)? + (&grad * (1.0 - with.beta1))?)?;
    let v = ((v * with.beta2)? + (grad.sqr()? * (1.0 - with.beta2))?)?;
    let update = (size(&m)? / (root(&v.sqrt()?)? + with.eps)?)?;
    var.set(&(theta - update)?)?;
    first.set(&m)?;
    Ok(second.set(&v)?)
}

/// lr / (1 − β₁ᵗ), and 1 / √(1 − β₂ᵗ).
fn corrections(with: &AdamStep) -> (f64, f64) {
    let t = with.step.min(i32::MAX as usize) as i32;
    (with.lr / (1.0 - with.beta1.powi(t)), 1.0 / (1.0 - with.beta2.powi(t)).sqrt())
}

fn adam<T: Real>(var: &Var, grad: &Tensor, first: &Var, second: &Var, with: &AdamStep) -> Candle<()> {
    let t = T::from_f64;
    let (size, root) = corrections(with);
    let (size, root, eps) = (t(size), t(root), t(with.eps));
    let (beta1, rest1, beta2, rest2) =
        (t(with.beta1), t(1.0 - with.beta1), t(with.beta2), t(1.0 - with.beta2));
    let keep = t(if with.decoupled { 1.0 - with.lr * with.weight_decay } else { 1.0 });
    let decay = t(if with.decoupled { 0.0 } else { with.weight_decay });
    let piece = |theta: &mut [T], m: &mut [T], v: &mut [T], g: &[T]| {
        for (((theta, m), v), g) in theta.iter_mut().zip(m).zip(v).zip(g) {
            let g = *g + decay * *theta;
            *m = beta1 * *m + rest1 * g;
            *v = beta2 * *v + rest2 * (g * g);
            *theta = keep * *theta - size * *m / (v.sqrt() * root + eps);
        }
    };
    // Each lock is held until the step is done; `check_step` made sure that no two are the same.
    in_place::<T>(first, grad, |m, g| {
        in_place::<T>(second, grad, |v, _| {
            in_place::<T>(var, grad, |theta, _| {
                if theta.len() <= PIECE {
                    piece(theta, m, v, g);
                } else {
                    let written =
                        theta.par_chunks_mut(PIECE).zip(m.par_chunks_mut(PIECE)).zip(v.par_chunks_mut(PIECE));
                    let all = written.zip(g.par_chunks(PIECE));
                    all.for_each(|(((theta, m), v), g)| piece(theta, m, v, g));
                }
                Ok(())
            })
        })
    })
}

/// One step of gradient descent with momentum on one parameter and its velocity, both in place.
///
/// ```text
/// g ← g + weight_decay θ        u ← momentum u + g        θ ← θ − lr u
/// Nesterov: θ ← θ − lr (g + momentum u)
/// ```
/// As PyTorch writes it: the learning rate is not part of the velocity. Shapes: all three alike; the velocity begins as
/// zeros. Cost, failures as [`adam_step`]. Host: on the CPU.
/// Checked by `tests/ops/optimiser.rs::sgd_first_steps_by_hand`, `sgd_is_its_formula_over_five_steps`.
///
/// ```
/// use lastlayer::prelude::*;
/// let (theta, velocity) = (Var::new(&[1f64], &Device::Cpu)?, Var::new(&[0f64], &Device::Cpu)?);
/// let (grad, with) = (theta.ones_like()?, ops::SgdStep { lr: 0.1, momentum: 0.9, ..Default::default() });
/// for _ in 0..2 {
///     ops::sgd_step(&theta, &grad, &velocity, &with)?;
/// }
/// assert_eq!(velocity.to_vec1::<f64>()?, [1.9]);
/// assert!((theta.to_vec1::<f64>()?[0] - (1.0 - 0.1 - 0.19)).abs() < 1e-15);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn sgd_step(var: &Var, grad: &Tensor, velocity: &Var, with: &SgdStep) -> Result<()> {
    check_sgd(var, grad, velocity, with)?;
    let grad = &grad.contiguous()?;
    if !var.device().is_cpu() {
        return sgd_step_by_tensors(var, grad, velocity, with);
    }
    match var.dtype() {
        DType::F32 => sgd::<f32>(var, grad, velocity, with)?,
        _ => sgd::<f64>(var, grad, velocity, with)?,
    }
    Ok(())
}

/// [`sgd_step`] for every device, as tensor operations.
///
/// Checked by `tests/ops/optimiser.rs::optimisers_by_tensors_agree_with_the_kernels`.
pub fn sgd_step_by_tensors(var: &Var, grad: &Tensor, velocity: &Var, with: &SgdStep) -> Result<()> {
    check_sgd(var, grad, velocity, with)?;
    let theta = var.as_detached_tensor();
    let grad = (grad.detach() + (&theta * with.weight_decay)?)?;
    let u = ((velocity.as_detached_tensor() * with.momentum)? + &grad)?;
    let along = if with.nesterov { (grad + (&u * with.momentum)?)? } else { u.clone() };
    var.set(&(theta - (along * with.lr)?)?)?;
    Ok(velocity.set(&u)?)
}

fn sgd<T: Real>(var: &Var, grad: &Tensor, velocity: &Var, with: &SgdStep) -> Candle<()> {
    let t = T::from_f64;
    let (lr, momentum, decay) = (t(with.lr), t(with.momentum), t(with.weight_decay));
    let piece = |theta: &mut [T], u: &mut [T], g: &[T]| {
        for ((theta, u), g) in theta.iter_mut().zip(u).zip(g) {
            let g = *g + decay * *theta;
            *u = momentum * *u + g;
            *theta -= lr * if with.nesterov { g + momentum * *u } else { *u };
        }
    };
    in_place::<T>(velocity, grad, |u, g| {
        in_place::<T>(var, grad, |theta, _| {
            if theta.len() <= PIECE {
                piece(theta, u, g);
            } else {
                let all = theta.par_chunks_mut(PIECE).zip(u.par_chunks_mut(PIECE)).zip(g.par_chunks(PIECE));
                all.for_each(|((theta, u), g)| piece(theta, u, g));
            }
            Ok(())
        })
    })
}

fn check_adam(var: &Var, grad: &Tensor, first: &Var, second: &Var, with: &AdamStep) -> Result<()> {
    let moments = [("first moment", first.as_tensor()), ("second moment", second.as_tensor())];
    check_step(var, grad, &moments)?;
    for (field, value) in [("beta1", with.beta1), ("beta2", with.beta2)] {
        if !(0.0..1.0).contains(&value) {
            return Err(Error::config(field, value, "at least 0 and below 1"));
        }
    }
    check_settings(&[("lr", with.lr), ("eps", with.eps), ("weight_decay", with.weight_decay)])?;
    if with.step == 0 {
        return Err(Error::config("step", with.step, "counted from 1"));
    }
    Ok(())
}

fn check_sgd(var: &Var, grad: &Tensor, velocity: &Var, with: &SgdStep) -> Result<()> {
    check_step(var, grad, &[("velocity", velocity.as_tensor())])?;
    check_settings(&[("lr", with.lr), ("momentum", with.momentum), ("weight_decay", with.weight_decay)])?;
    if with.nesterov && with.momentum == 0.0 {
        return Err(Error::config("nesterov", with.nesterov, "false when momentum is 0"));
    }
    Ok(())
}

/// Fails unless gradient and state have the shape and type of the parameter, and memory of their own.
fn check_step(var: &Var, grad: &Tensor, state: &[(&str, &Tensor)]) -> Result<()> {
    let others = [&[("gradient", grad)][..], state].concat();
    check(&[&[("parameter", var.as_tensor())][..], &others].concat())?;
    for (name, t) in &others {
        if t.dims() != var.dims() {
            let expected = format!("{:?}, as the parameter", var.dims());
            return Err(Error::shape(name, expected, format!("{:?}", t.dims())));
        }
    }
    // The lock around its storage tells a tensor's memory from that of others.
    let memory = |t: &Tensor| std::ptr::from_ref(&*t.storage_and_layout().0).addr();
    let mut seen = vec![memory(var)];
    for (name, t) in others {
        let address = memory(t);
        if seen.contains(&address) {
            let allowed = "memory of its own; copy it with `copy` or make a new variable";
            return Err(Error::config(name, "shared with another argument", allowed));
        }
        seen.push(address);
    }
    Ok(())
}

fn check_settings(settings: &[(&str, f64)]) -> Result<()> {
    for (field, value) in settings {
        if !(value.is_finite() && *value >= 0.0) {
            return Err(Error::config(field, value, "a number of at least 0"));
        }
    }
    Ok(())
}
