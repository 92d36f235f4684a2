//! Layers: what each does to a batch, and which parameters it has.

use candle_core::{D, Device, Tensor};
use serde::{Deserialize, Serialize};

use super::net::{Builder, Pass, Weights};
use crate::error::{Error, Result};
use crate::ops;

/// One step of a network, without its numbers.
///
/// ```
/// use lastlayer::prelude::*;
/// let layers = vec![("ball".to_string(), Layer::Ball { radius: 1.0 })];
/// let plan = Plan { input: vec![2], layers, init: Init::Uniform };
/// let net = Net::new(plan, Seed::new(1), DType::F64, &Device::Cpu)?;
/// let x = Tensor::new(&[[3.0f64, 4.0], [0.3, 0.4]], &Device::Cpu)?;
/// let y = net.forward(&x, Pass::Eval)?.to_vec2::<f64>()?;
/// assert!((y[0][0] - 0.6).abs() < 1e-12 && (y[1][0] - 0.3).abs() < 1e-12); // only the long one shrinks
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Layer {
    /// x Wᵀ + b on vectors.
    Linear {
        width: usize,
        bias: bool,
    },
    /// Square convolution on images.
    Conv {
        width: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
        bias: bool,
    },
    /// Each channel to mean 0 and variance 1 over the batch, then scaled and shifted.
    BatchNorm,
    Relu,
    Mish,
    /// Largest value of each square window; padding counts as zero, as after a ReLU.
    MaxPool {
        size: usize,
        stride: usize,
        padding: usize,
    },
    /// Mean over each image, leaving one number per channel.
    GlobalAveragePool,
    /// An image as a vector.
    Flatten,
    /// In training, zeroes this share of the numbers and scales up the others.
    Dropout {
        rate: f64,
    },
    /// In training, adds normal noise of this standard deviation.
    Noise {
        sd: f64,
    },
    /// Vectors scaled to length 1.
    UnitNorm,
    /// Vectors scaled to a root mean square of 1, which is length √d.
    RmsNorm,
    /// Vectors longer than the radius scaled down to it.
    Ball {
        radius: f64,
    },
    /// Numbers times a constant.
    Scale {
        by: f64,
    },
    /// Vectors of whole numbers, whose gradient passes straight through the rounding; put a ReLU before it, so that code 0
    /// says "absent".
    Quantise(ops::Quantiser),
    /// Layers one after the other.
    Chain(Vec<Named>),
    /// relu(main(x) + shortcut(x)); an empty shortcut is x itself.
    Residual {
        main: Vec<Named>,
        shortcut: Vec<Named>,
    },
}

/// A layer and its name, which begins the names of its parameters.
///
/// ```
/// use lastlayer::model::Named;
/// use lastlayer::prelude::*;
/// let top: Named = ("top".to_string(), Layer::Linear { width: 2, bias: true });
/// let plan = Plan { input: vec![3], layers: vec![top], init: Init::Uniform };
/// let net = Net::new(plan, Seed::new(1), DType::F32, &Device::Cpu)?;
/// assert_eq!(net.parameters().keys().collect::<Vec<_>>(), ["top.bias", "top.weight"]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub type Named = (String, Layer);

/// Momentum of the running statistics, and what keeps a variance from zero: PyTorch's.
const MOMENTUM: f64 = 0.1;
const EPSILON: f64 = 1e-5;
/// Shorter vectors have no direction.
const SHORTEST: f64 = 1e-12;

/// Applies layers in order.
pub(super) fn forward(layers: &[Named], path: &str, x: &Tensor, weights: &Weights) -> Result<Tensor> {
    let mut x = x.clone();
    let mut rest = layers;
    while let [(name, layer), after @ ..] = rest {
        (x, rest) = match fused(rest, path, &x, weights)? {
            Some((y, after)) => (y, after),
            None => (layer.forward(&join(path, name), &x, weights)?, after),
        };
    }
    Ok(x)
}

/// Convolution, batch norm, ReLU and perhaps max pooling at once, if the layers begin with these: the same numbers in
/// fewer passes over memory. Returns what is left of the layers.
fn fused<'a>(
    layers: &'a [Named],
    path: &str,
    x: &Tensor,
    weights: &Weights,
) -> Result<Option<(Tensor, &'a [Named])>> {
    let [
        (conv, Layer::Conv { stride: 1, padding, bias: false, .. }),
        (norm, Layer::BatchNorm),
        (_, Layer::Relu),
        rest @ ..,
    ] = layers
    else {
        return Ok(None);
    };
    let (pool, rest) = match rest {
        [(_, Layer::MaxPool { size, stride, padding: 0 }), rest @ ..] if size == stride => (*size, rest),
        _ => (1, rest),
    };
    let norm = join(path, norm);
    let y = ops::conv_block(
        x,
        &weights.parameter(&join(&join(path, conv), "weight"))?,
        &weights.parameter(&join(&norm, "weight"))?,
        &weights.parameter(&join(&norm, "bias"))?,
        &running(&norm, weights)?,
        *padding,
        pool,
        matches!(weights.pass, Pass::Train(_)),
    )?;
    Ok(Some((y, rest)))
}

/// Running statistics of a batch norm.
fn running(path: &str, weights: &Weights) -> Result<ops::Running> {
    Ok(ops::Running {
        mean: weights.statistic(&join(path, "running_mean"))?.clone(),
        var: weights.statistic(&join(path, "running_var"))?.clone(),
        momentum: MOMENTUM,
        eps: EPSILON,
    })
}

/// Makes the parameters of layers in order; returns the shape of one sample after the last.
pub(super) fn build(
    layers: &[Named],
    path: &str,
    shape: &[usize],
    builder: &mut Builder,
) -> Result<Vec<usize>> {
    let mut shape = shape.to_vec();
    for (i, (name, layer)) in layers.iter().enumerate() {
        // Names tell parameters and random numbers apart.
        if layers[..i].iter().any(|(other, _)| other == name) {
            let name = join(path, name);
            return Err(Error::config("name of a layer", name, "different names for layers side by side"));
        }
        shape = layer.build(&join(path, name), &shape, builder)?;
    }
    Ok(shape)
}

fn join(path: &str, name: &str) -> String {
    match (path, name) {
        ("", name) => name.to_string(),
        (path, "") => path.to_string(),
        (path, name) => format!("{path}.{name}"),
    }
}

impl Layer {
    /// Host: dropout and noise are drawn there, and move as one byte and as one number for each they meet.
    fn forward(&self, path: &str, x: &Tensor, weights: &Weights) -> Result<Tensor> {
        let parameter = |name: &str| weights.parameter(&join(path, name));
        match self {
            Layer::Linear { bias, .. } => {
                let bias = if *bias { Some(parameter("bias")?) } else { None };
                ops::linear(x, &parameter("weight")?, bias.as_ref())
            }
            Layer::Conv { stride, padding, bias, width, .. } => {
                let y = ops::conv2d(x, &parameter("weight")?, *stride, *padding)?;
                if !bias {
                    return Ok(y);
                }
                Ok(y.broadcast_add(&parameter("bias")?.reshape((1, *width, 1, 1))?)?)
            }
            Layer::BatchNorm => {
                let train = matches!(weights.pass, Pass::Train(_));
                ops::batch_norm(
                    x,
                    &parameter("weight")?,
                    &parameter("bias")?,
                    &running(path, weights)?,
                    train,
                )
            }
            Layer::Relu => ops::relu(x),
            Layer::Mish => ops::mish(x),
            Layer::MaxPool { size, stride, padding } => {
                let mut x = x.clone();
                for dim in [2, 3].into_iter().filter(|_| *padding > 0) {
                    x = x.pad_with_zeros(dim, *padding, *padding)?;
                }
                ops::max_pool2d(&x, *size, *stride)
            }
            Layer::GlobalAveragePool => ops::global_avg_pool(x),
            Layer::Flatten => Ok(x.flatten_from(1)?),
            Layer::Dropout { rate } => match weights.pass {
                Pass::Eval => Ok(x.clone()),
                Pass::Train(seed) => {
                    let u =
                        seed.named(path).uniform_tensor(x.shape(), (0.0, 1.0), x.dtype(), &Device::Cpu)?;
                    let kept = u.ge(*rate)?.to_device(x.device())?.to_dtype(x.dtype())?;
                    Ok(x.mul(&(kept * (1.0 / (1.0 - rate)))?)?)
                }
            },
            Layer::Noise { sd } => match weights.pass {
                Pass::Eval => Ok(x.clone()),
                Pass::Train(seed) => {
                    let noise =
                        seed.named(path).normal_tensor(x.shape(), (0.0, *sd), x.dtype(), x.device())?;
                    Ok((x + noise)?)
                }
            },
            Layer::UnitNorm => Ok(x.broadcast_div(&lengths(x)?)?),
            Layer::RmsNorm => {
                let d = *x.dims().last().unwrap_or(&1) as f64;
                Ok((x.broadcast_div(&lengths(x)?)? * d.sqrt())?)
            }
            Layer::Ball { radius } => {
                // The larger of length and radius.
                let bound = (ops::relu(&(lengths(x)? - *radius)?)? + *radius)?;
                Ok((x.broadcast_div(&bound)? * *radius)?)
            }
            Layer::Scale { by } => Ok((x * *by)?),
            Layer::Quantise(quantiser) => {
                let train = matches!(weights.pass, Pass::Train(_));
                let running = match quantiser.range {
                    ops::Range::Printed | ops::Range::Batch => None,
                    _ => Some([
                        weights.statistic(&join(path, "running_low"))?,
                        weights.statistic(&join(path, "running_high"))?,
                    ]),
                };
                quantiser.forward(x, running, train)
            }
            Layer::Chain(layers) => forward(layers, path, x, weights),
            Layer::Residual { main, shortcut } => {
                let through = forward(main, path, x, weights)?;
                ops::relu(&(through + forward(shortcut, path, x, weights)?)?)
            }
        }
    }

    fn build(&self, path: &str, shape: &[usize], builder: &mut Builder) -> Result<Vec<usize>> {
        let misfit =
            |expected: &str| Error::shape(format!("input of layer {path}"), expected, format!("{shape:?}"));
        let name = |part: &str| join(path, part);
        let refuse = |field: &str, got: f64, allowed: &str| {
            Err(Error::config(format!("{field} of layer {path}"), got, allowed))
        };
        match self {
            Layer::Linear { width, bias } => {
                let &[inputs] = shape else { return Err(misfit("a vector; add Flatten before it")) };
                if *width == 0 {
                    return refuse("width", 0.0, "at least 1");
                }
                builder.weight(name("weight"), &[*width, inputs], inputs, *width)?;
                if *bias {
                    builder.bias(name("bias"), *width, inputs)?;
                }
                Ok(vec![*width])
            }
            Layer::Conv { width, kernel, stride, padding, bias } => {
                let &[channels, height, columns] = shape else {
                    return Err(misfit("an image [channels, height, width]"));
                };
                if *width == 0 || *kernel == 0 || *stride == 0 {
                    return refuse("width, kernel or stride", 0.0, "at least 1");
                }
                if padding >= kernel {
                    return refuse("padding", *padding as f64, "less than the kernel");
                }
                let (fan_in, fan_out) = (channels * kernel * kernel, width * kernel * kernel);
                builder.weight(name("weight"), &[*width, channels, *kernel, *kernel], fan_in, fan_out)?;
                if *bias {
                    builder.bias(name("bias"), *width, fan_in)?;
                }
                let side =
                    |side| windows(side, *kernel, *stride, *padding).ok_or_else(|| misfit("a larger image"));
                Ok(vec![*width, side(height)?, side(columns)?])
            }
            Layer::BatchNorm => {
                let Some(&channels) = shape.first() else { return Err(misfit("a vector or an image")) };
                builder.constant(name("weight"), channels, 1.0)?;
                builder.constant(name("bias"), channels, 0.0)?;
                builder.statistic(name("running_mean"), channels, 0.0)?;
                builder.statistic(name("running_var"), channels, 1.0)?;
                Ok(shape.to_vec())
            }
            Layer::MaxPool { size, stride, padding } => {
                let &[channels, height, columns] = shape else {
                    return Err(misfit("an image [channels, height, width]"));
                };
                if *size == 0 || *stride == 0 {
                    return refuse("size or stride", 0.0, "at least 1");
                }
                if padding >= size {
                    return refuse("padding", *padding as f64, "less than the window");
                }
                let side =
                    |side| windows(side, *size, *stride, *padding).ok_or_else(|| misfit("a larger image"));
                Ok(vec![channels, side(height)?, side(columns)?])
            }
            Layer::GlobalAveragePool => match shape {
                [channels, _, _] => Ok(vec![*channels]),
                _ => Err(misfit("an image [channels, height, width]")),
            },
            Layer::Flatten => Ok(vec![shape.iter().product()]),
            Layer::Dropout { rate } if !(0.0..1.0).contains(rate) => refuse("rate", *rate, "from 0, below 1"),
            Layer::Noise { sd } if !(*sd >= 0.0 && sd.is_finite()) => refuse("sd", *sd, "0 or more"),
            Layer::UnitNorm | Layer::RmsNorm | Layer::Ball { .. } if shape.len() != 1 => {
                Err(misfit("a vector; add Flatten before it"))
            }
            Layer::Ball { radius } if !(*radius > 0.0 && radius.is_finite()) => {
                refuse("radius", *radius, "above 0")
            }
            Layer::Scale { by } if !by.is_finite() => refuse("by", *by, "a finite number"),
            Layer::Quantise(quantiser) => {
                let &[d] = shape else { return Err(misfit("a vector; add Flatten before it")) };
                quantiser.check()?;
                if let Some(width) = quantiser.ends(d) {
                    builder.statistic(name("running_low"), width, 0.0)?;
                    builder.statistic(name("running_high"), width, 0.0)?;
                }
                Ok(shape.to_vec())
            }
            Layer::Relu
            | Layer::Mish
            | Layer::Scale { .. }
            | Layer::Dropout { .. }
            | Layer::Noise { .. }
            | Layer::UnitNorm
            | Layer::RmsNorm
            | Layer::Ball { .. } => Ok(shape.to_vec()),
            Layer::Chain(layers) => build(layers, path, shape, builder),
            Layer::Residual { main, shortcut } => {
                let (through, past) =
                    (build(main, path, shape, builder)?, build(shortcut, path, shape, builder)?);
                match through == past {
                    true => Ok(through),
                    false => Err(Error::shape(
                        format!("shortcut of layer {path}"),
                        format!("{through:?}, as the main way"),
                        format!("{past:?}"),
                    )),
                }
            }
        }
    }
}

/// (n, 1) Lengths of vectors, none of them zero.
fn lengths(x: &Tensor) -> Result<Tensor> {
    Ok((x.sqr()?.sum_keepdim(D::Minus1)? + SHORTEST * SHORTEST)?.sqrt()?)
}

/// Positions of a window along one side, if it fits at all.
fn windows(side: usize, window: usize, stride: usize, padding: usize) -> Option<usize> {
    Some((side + 2 * padding).checked_sub(window)? / stride + 1)
}
