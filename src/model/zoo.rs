//! The usual backbones, written down.
//!
//! ```
//! use lastlayer::prelude::*;
//! // A plan is a list of layers: change it as you like before a network is made of it.
//! let mut plan = zoo::mlp(&[2, 16])?;
//! plan.layers.push(("half".to_string(), Layer::Dropout { rate: 0.5 }));
//! let net = SplitNet::new(plan, 1, Seed::new(1), &Device::Cpu)?;
//! assert_eq!(net.phi.output(), [16]);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

use super::layer::{Layer, Named};
use super::net::{Init, Plan};
use crate::error::{Error, Result};

fn named(name: impl ToString, layer: Layer) -> Named {
    (name.to_string(), layer)
}

fn conv(width: usize, kernel: usize, stride: usize) -> Layer {
    Layer::Conv { width, kernel, stride, padding: kernel / 2, bias: false }
}

/// No layers: the input is the features, for a head on what another network has computed.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(10, Seed::new(1), &Device::Cpu)?;
/// let head = SplitNet::new(zoo::identity(&[6]), 1, Seed::new(1), &Device::Cpu)?;
/// assert_eq!(head.features_of(&data)?.to_vec2::<f32>()?, data.x.to_vec2::<f32>()?);
/// assert_eq!((head.bottom().len(), head.scores_of(&data)?.dims()), (0, &[10][..]));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn identity(input: &[usize]) -> Plan {
    Plan { input: input.to_vec(), layers: Vec::new(), init: Init::Uniform }
}

/// A single linear layer, as the layers of a plan or a head.
///
/// ```
/// use lastlayer::prelude::*;
/// let head = zoo::linear(3, false);
/// let net = SplitNet::with_head(zoo::identity(&[6]), head, Seed::new(1), DType::F32, &Device::Cpu)?;
/// assert_eq!(net.last()[0].1.dims(), [3, 6]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn linear(width: usize, bias: bool) -> Vec<Named> {
    vec![named("", Layer::Linear { width, bias })]
}

/// Multi-layer perceptron: linear layers of these widths with a ReLU after each.
///
/// `mlp(&[784, 256, 256])` reads vectors of 784 numbers and gives 256 features; put `Flatten` first for images.
/// Fails: `Config` unless there are at least two widths, all at least 1.
///
/// ```
/// use lastlayer::prelude::*;
/// let net = Net::new(zoo::mlp(&[784, 256, 10])?, Seed::new(1), DType::F32, &Device::Cpu)?;
/// assert_eq!(net.size(), 785 * 256 + 257 * 10);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn mlp(widths: &[usize]) -> Result<Plan> {
    let [input, hidden @ ..] = widths else { return Err(too_few("widths of an MLP", widths)) };
    if hidden.is_empty() || widths.contains(&0) {
        return Err(too_few("widths of an MLP", widths));
    }
    let layers = hidden.iter().enumerate().flat_map(|(i, width)| {
        [named(2 * i, Layer::Linear { width: *width, bias: true }), named(2 * i + 1, Layer::Relu)]
    });
    Ok(Plan { input: vec![*input], layers: layers.collect(), init: Init::Uniform })
}

/// Multi-layer perceptron on images, which it reads as vectors.
///
/// `mlp_on(&[3, 16, 16], &[256])` gives 256 features. Fails: as [`mlp`].
///
/// ```
/// use lastlayer::prelude::*;
/// let net = SplitNet::new(zoo::mlp_on(&[3, 4, 4], &[8])?, 1, Seed::new(1), &Device::Cpu)?;
/// let images = Tensor::zeros((2, 3, 4, 4), DType::F32, &Device::Cpu)?;
/// assert_eq!(net.features(&images, Pass::Eval)?.dims(), [2, 8]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn mlp_on(input: &[usize], hidden: &[usize]) -> Result<Plan> {
    let widths: Vec<usize> = [input.iter().product()].into_iter().chain(hidden.iter().copied()).collect();
    let plan = mlp(&widths)?;
    let layers = [named("flat", Layer::Flatten)].into_iter().chain(plan.layers).collect();
    Ok(Plan { input: input.to_vec(), layers, ..plan })
}

/// Small convolutional net: per entry a 3×3 convolution, batch norm, ReLU and 2×2 max pooling; then the mean over the
/// image.
///
/// `conv_net(&[3, 32, 32], &[32, 64, 128])` gives 128 features. Fails: `Config` without a channel.
///
/// ```
/// use lastlayer::prelude::*;
/// let net = SplitNet::new(zoo::conv_net(&[3, 8, 8], &[4, 6])?, 1, Seed::new(1), &Device::Cpu)?;
/// let images = Tensor::zeros((2, 3, 8, 8), DType::F32, &Device::Cpu)?;
/// assert_eq!(net.features(&images, Pass::Eval)?.dims(), [2, 6]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn conv_net(input: &[usize], channels: &[usize]) -> Result<Plan> {
    if channels.is_empty() || channels.contains(&0) {
        return Err(too_few("channels of a convolutional net", channels));
    }
    let mut layers: Vec<Named> = Vec::new();
    for (i, width) in channels.iter().enumerate() {
        layers.push(named(format!("conv{i}"), conv(*width, 3, 1)));
        layers.push(named(format!("bn{i}"), Layer::BatchNorm));
        layers.push(named(format!("relu{i}"), Layer::Relu));
        layers.push(named(format!("pool{i}"), Layer::MaxPool { size: 2, stride: 2, padding: 0 }));
    }
    layers.push(named("mean", Layer::GlobalAveragePool));
    Ok(Plan { input: input.to_vec(), layers, init: Init::Uniform })
}

/// The rate paper's net: convolutions of 128, 128, 256, 256 channels, the last three with stride 2, and 512 channels
/// of 1×1, each with batch norm and ReLU; then the mean over the image.
///
/// `width` scales all channels; 1.0 is the paper's. Differs: the paper lists four widths for five layers; these are
/// those of the code it builds on. Fails: `Config` for a width that leaves no channel.
///
/// ```
/// use lastlayer::prelude::*;
/// let small = zoo::rate_net(&[3, 8, 8], 1.0 / 64.0)?; // 2, 2, 4, 4 and 8 channels
/// let net = SplitNet::new(small, 1, Seed::new(1), &Device::Cpu)?;
/// assert_eq!(net.phi.output(), [8]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn rate_net(input: &[usize], width: f64) -> Result<Plan> {
    let mut layers: Vec<Named> = Vec::new();
    for (i, (channels, kernel, stride)) in
        [(128, 3, 1), (128, 3, 2), (256, 3, 2), (256, 3, 2), (512, 1, 1)].into_iter().enumerate()
    {
        layers.push(named(format!("conv{i}"), conv(scaled(channels, width)?, kernel, stride)));
        layers.push(named(format!("bn{i}"), Layer::BatchNorm));
        layers.push(named(format!("relu{i}"), Layer::Relu));
    }
    layers.push(named("mean", Layer::GlobalAveragePool));
    Ok(Plan { input: input.to_vec(), layers, init: Init::Uniform })
}

/// First layers of a residual network.
///
/// ```
/// use lastlayer::prelude::*;
/// let first = |stem| Ok::<_, Error>(zoo::resnet18(&[3, 32, 32], stem, 0.125)?.layers[0].1.clone());
/// assert!(matches!(first(zoo::Stem::Large)?, Layer::Conv { kernel: 7, stride: 2, .. }));
/// assert!(matches!(first(zoo::Stem::Small)?, Layer::Conv { kernel: 3, stride: 1, .. }));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stem {
    /// 7×7 convolution with stride 2 and 3×3 pooling with stride 2: for 224 pixels, torchvision's.
    #[default]
    Large,
    /// 3×3 convolution with stride 1: for 32 pixels.
    Small,
}

/// ResNet-18: 512 features. Parameters have torchvision's names.
///
/// `width` scales all channels; 1.0 is He et al.'s. Fails: `Config` for a width that leaves no channel.
///
/// ```
/// use lastlayer::prelude::*;
/// let plan = zoo::resnet18(&[3, 32, 32], zoo::Stem::Small, 0.125)?;
/// let net = Net::new(plan, Seed::new(1), DType::F32, &Device::Cpu)?;
/// assert_eq!(net.output(), [64]); // an eighth of 512
/// assert!(net.parameters().contains_key("layer2.0.downsample.0.weight"));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn resnet18(input: &[usize], stem: Stem, width: f64) -> Result<Plan> {
    resnet(input, stem, width, [2, 2, 2, 2], false)
}

/// ResNet-50: 2048 features. Parameters have torchvision's names.
///
/// `width` scales all channels; 1.0 is He et al.'s. Fails: `Config` for a width that leaves no channel.
///
/// ```
/// use lastlayer::prelude::*;
/// let plan = zoo::resnet50(&[3, 32, 32], zoo::Stem::Small, 0.0625)?;
/// let net = Net::new(plan, Seed::new(1), DType::F32, &Device::Cpu)?;
/// assert_eq!(net.output(), [128]); // a sixteenth of 2048
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn resnet50(input: &[usize], stem: Stem, width: f64) -> Result<Plan> {
    resnet(input, stem, width, [3, 4, 6, 3], true)
}

fn resnet(input: &[usize], stem: Stem, width: f64, blocks: [usize; 4], bottleneck: bool) -> Result<Plan> {
    let first = scaled(64, width)?;
    let mut layers = vec![
        named("conv1", if stem == Stem::Large { conv(first, 7, 2) } else { conv(first, 3, 1) }),
        named("bn1", Layer::BatchNorm),
        named("relu", Layer::Relu),
    ];
    if stem == Stem::Large {
        layers.push(named("maxpool", Layer::MaxPool { size: 3, stride: 2, padding: 1 }));
    }
    let mut channels = first;
    for (stage, count) in blocks.into_iter().enumerate() {
        let inner = scaled(64 << stage, width)?;
        let outer = if bottleneck { 4 * inner } else { inner };
        let chain = (0..count).map(|block| {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let main = if bottleneck {
                // Torchvision puts the stride on the 3×3 convolution.
                vec![(inner, 1, 1), (inner, 3, stride), (outer, 1, 1)]
            } else {
                vec![(inner, 3, stride), (outer, 3, 1)]
            };
            let shortcut = stride != 1 || channels != outer;
            channels = outer;
            named(block, residual(&main, shortcut.then_some((outer, stride))))
        });
        let chain = Layer::Chain(chain.collect());
        layers.push(named(format!("layer{}", stage + 1), chain));
    }
    layers.push(named("avgpool", Layer::GlobalAveragePool));
    Ok(Plan { input: input.to_vec(), layers, init: Init::HeNormal })
}

/// Block of convolutions (width, kernel, stride) with batch norm, a ReLU between them, and a shortcut around them.
fn residual(convolutions: &[(usize, usize, usize)], projection: Option<(usize, usize)>) -> Layer {
    let mut main = Vec::new();
    for (i, (width, kernel, stride)) in convolutions.iter().enumerate() {
        main.push(named(format!("conv{}", i + 1), conv(*width, *kernel, *stride)));
        main.push(named(format!("bn{}", i + 1), Layer::BatchNorm));
        if i + 1 < convolutions.len() {
            main.push(named(format!("relu{}", i + 1), Layer::Relu));
        }
    }
    let shortcut = projection.map(|(width, stride)| {
        let layers = vec![named(0, conv(width, 1, stride)), named(1, Layer::BatchNorm)];
        named("downsample", Layer::Chain(layers))
    });
    Layer::Residual { main, shortcut: shortcut.into_iter().collect() }
}

fn scaled(channels: usize, width: f64) -> Result<usize> {
    let scaled = (channels as f64 * width).round();
    if (1.0..=65536.0).contains(&scaled) {
        return Ok(scaled as usize);
    }
    Err(Error::config(
        "width",
        width,
        "a factor that leaves 1 to 65536 channels in every layer, such as 1.0 or 0.25",
    ))
}

fn too_few(what: &str, got: &[usize]) -> Error {
    Error::config(what, format!("{got:?}"), "at least one hidden layer, every width at least 1")
}
