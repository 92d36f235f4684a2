//! Split networks: shapes, seeds, the two views across the line, and files.

mod device;

use device::device;
use std::collections::BTreeMap;

use lastlayer::data::Dataset;
use lastlayer::data::Part;
use lastlayer::data::critters::{Critters, Preset};
use lastlayer::error::Error;
use lastlayer::loss::cross_entropy;
use lastlayer::model::zoo::{Stem, conv_net, linear, mlp, rate_net, resnet18, resnet50};
use lastlayer::model::{Decision, Init, Layer, Net, Pass, Plan, Predictor, Split, SplitNet};
use lastlayer::prelude::{DType, Result, Tensor, Var};
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(4);

fn numbers(t: &Tensor) -> Vec<f64> {
    t.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

fn input(shape: &[usize], seed: u64) -> Tensor {
    Seed::new(seed).normal_tensor(shape, (0.0, 1.0), DType::F64, device()).unwrap()
}

/// All kinds of layers in one small f64 network.
fn every_layer() -> SplitNet {
    let conv = |width| Layer::Conv { width, kernel: 3, stride: 1, padding: 1, bias: false };
    let name = |name: &str, layer| (name.to_string(), layer);
    let layers = vec![
        name("conv", Layer::Conv { width: 3, kernel: 3, stride: 2, padding: 1, bias: true }),
        name("mish", Layer::Mish),
        name("conv2", conv(4)),
        name("bn2", Layer::BatchNorm),
        name("relu2", Layer::Relu),
        name("pool2", Layer::MaxPool { size: 2, stride: 2, padding: 0 }),
        name(
            "block",
            Layer::Residual {
                main: vec![name("conv1", conv(4)), name("bn1", Layer::BatchNorm)],
                shortcut: vec![],
            },
        ),
        name("pool", Layer::MaxPool { size: 3, stride: 2, padding: 1 }),
        name("flat", Layer::Flatten),
        name("drop", Layer::Dropout { rate: 0.3 }),
        name("noise", Layer::Noise { sd: 0.1 }),
        name("dense", Layer::Linear { width: 5, bias: true }),
        name("unit", Layer::UnitNorm),
    ];
    let plan = Plan { input: vec![2, 9, 9], layers, init: Init::Uniform };
    SplitNet::with_head(plan, linear(3, true), SEED, DType::F64, device()).unwrap()
}

#[test]
fn gradients_of_every_layer_match_finite_differences() {
    let net = every_layer();
    let x = input(&[4, 2, 9, 9], 1);
    let y = Tensor::new(&[0u32, 2, 1, 2], device()).unwrap();
    let pass = Pass::Train(Seed::new(9));
    let loss = || cross_entropy(&net.forward(&x, pass).unwrap(), &y).unwrap();
    let grads = loss().backward().unwrap();
    for (name, var) in net.phi.parameters().iter().chain(net.head.parameters()) {
        let found = numbers(grads.get(var).unwrap());
        let values = numbers(var);
        // A few entries of each parameter are enough: an operation is wrong in all or in none.
        for i in [0, values.len() / 2, values.len() - 1] {
            let at = |h: f64| {
                let mut moved = values.clone();
                moved[i] += h;
                var.set(&Tensor::from_vec(moved, var.shape(), device()).unwrap()).unwrap();
                numbers(&loss())[0]
            };
            let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
            var.set(&Tensor::from_vec(values.clone(), var.shape(), device()).unwrap()).unwrap();
            assert!((found[i] - numeric).abs() < 1e-7, "{name} {i}: {} and {numeric}", found[i]);
        }
    }
}

#[test]
fn the_two_views_add_up_to_the_joint_gradient() {
    let net = every_layer();
    let x = input(&[4, 2, 9, 9], 2);
    let y = Tensor::new(&[0u32, 2, 1, 2], device()).unwrap();
    let pass = Pass::Train(Seed::new(9));
    let z = net.features(&x, pass).unwrap();
    let gradient = |s: Tensor| cross_entropy(&s, &y).unwrap().backward().unwrap();
    let joint = gradient(net.scores(&z, pass).unwrap());
    let last = gradient(net.scores(&z.detach(), pass).unwrap());
    for (_, var) in net.bottom() {
        assert!(last.get(&var).is_none(), "constant features let no gradient pass");
    }
    for (_, var) in net.last() {
        assert_eq!(numbers(joint.get(&var).unwrap()), numbers(last.get(&var).unwrap()));
    }
    // The gradient of the features is that of a constant head: it does not matter who else follows the loss.
    let constant = SplitNet { phi: net.phi.clone(), head: net.head.copy().unwrap() };
    let bottom = gradient(constant.scores(&z, pass).unwrap());
    for (_, var) in net.bottom() {
        assert_eq!(numbers(joint.get(&var).unwrap()), numbers(bottom.get(&var).unwrap()));
    }
    assert!(net.last().iter().all(|(_, var)| bottom.get(var).is_none()));
}

#[test]
fn same_seed_same_weights_and_a_layer_more_changes_no_other() {
    let build =
        |widths: &[usize], seed| SplitNet::new(mlp(widths).unwrap(), 2, Seed::new(seed), device()).unwrap();
    let (a, b, c) = (build(&[6, 5, 4], 1), build(&[6, 5, 4], 1), build(&[6, 5, 4], 2));
    let weight = |net: &SplitNet, name: &str| numbers(net.phi.parameters()[name].as_tensor());
    assert_eq!(weight(&a, "0.weight"), weight(&b, "0.weight"));
    assert_ne!(weight(&a, "0.weight"), weight(&c, "0.weight"));
    assert_eq!(weight(&a, "0.weight"), weight(&build(&[6, 5, 4, 3], 1), "0.weight"));
    let bound = 1.0 / 6f64.sqrt();
    assert!(weight(&a, "0.weight").iter().all(|w| w.abs() <= bound));
}

#[test]
fn networks_have_the_sizes_of_their_papers() {
    let size = |plan: Plan, classes: usize| {
        let net = SplitNet::new(plan, classes, SEED, device()).unwrap();
        (net.phi.output().to_vec(), net.phi.size() + net.head.size())
    };
    // Torchvision prints these numbers of parameters for its own.
    assert_eq!(size(resnet18(&[3, 64, 64], Stem::Large, 1.0).unwrap(), 1000), (vec![512], 11_689_512));
    assert_eq!(size(resnet50(&[3, 64, 64], Stem::Large, 1.0).unwrap(), 1000), (vec![2048], 25_557_032));
    assert_eq!(size(conv_net(&[3, 32, 32], &[32, 64, 128]).unwrap(), 12).0, [128]);
    assert_eq!(size(rate_net(&[3, 32, 32], 1.0).unwrap(), 1).0, [512]);
    assert_eq!(size(resnet18(&[3, 32, 32], Stem::Small, 0.25).unwrap(), 10).0, [128]);
    assert_eq!(
        size(mlp(&[784, 256, 256]).unwrap(), 10),
        (vec![256], 784 * 256 + 256 + 256 * 256 + 256 + 2570)
    );
}

#[test]
fn parameters_of_residual_networks_have_torchvisions_names() {
    let net =
        Net::new(resnet18(&[3, 32, 32], Stem::Large, 0.125).unwrap(), SEED, DType::F32, device()).unwrap();
    for name in [
        "conv1.weight",
        "bn1.weight",
        "layer1.0.conv1.weight",
        "layer2.0.downsample.0.weight",
        "layer4.1.bn2.bias",
    ] {
        assert!(net.parameters().contains_key(name), "{name}");
    }
    assert!(net.statistics().contains_key("layer2.0.downsample.1.running_var"));
    assert!(!net.parameters().contains_key("layer1.0.downsample.0.weight"));
    let fifty =
        Net::new(resnet50(&[3, 32, 32], Stem::Large, 0.125).unwrap(), SEED, DType::F32, device()).unwrap();
    assert!(fifty.parameters().contains_key("layer1.0.downsample.0.weight"));
    assert!(fifty.parameters().contains_key("layer3.5.conv3.weight"));
}

#[test]
fn dropout_and_noise_act_in_training_only_and_by_the_seed() {
    let plan = Plan {
        input: vec![4000],
        layers: vec![
            ("drop".to_string(), Layer::Dropout { rate: 0.25 }),
            ("noise".to_string(), Layer::Noise { sd: 0.5 }),
        ],
        init: Init::Uniform,
    };
    let net = Net::new(plan, SEED, DType::F64, device()).unwrap();
    let x = Tensor::ones((1, 4000), DType::F64, device()).unwrap();
    let run = |seed| numbers(&net.forward(&x, Pass::Train(Seed::new(seed))).unwrap());
    assert_eq!(numbers(&net.forward(&x, Pass::Eval).unwrap()), vec![1.0; 4000]);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    // The same layer on both sides of the line draws different numbers.
    let drop = || vec![("drop".to_string(), Layer::Dropout { rate: 0.5 })];
    let plan = Plan { input: vec![4000], layers: drop(), init: Init::Uniform };
    let both = SplitNet::with_head(plan, drop(), SEED, DType::F64, device()).unwrap();
    let kept = numbers(&both.forward(&x, Pass::Train(Seed::new(1))).unwrap());
    let share = kept.iter().filter(|v| **v > 0.0).count() as f64 / 4000.0;
    assert!((share - 0.25).abs() < 0.03, "{share}");
    let mean = run(1).iter().sum::<f64>() / 4000.0;
    // Kept entries are 4/3: variance 1/3 from dropping and 1/4 from noise; four standard errors.
    assert!((mean - 1.0).abs() < 4.0 * (7.0f64 / 12.0 / 4000.0).sqrt(), "{mean}");
}

#[test]
fn unit_norm_gives_length_one_and_survives_zero() {
    let plan =
        Plan { input: vec![3], layers: vec![("unit".to_string(), Layer::UnitNorm)], init: Init::Uniform };
    let net = Net::new(plan, SEED, DType::F64, device()).unwrap();
    let x = Var::new(&[[3f64, 0.0, 4.0], [0.0, 0.0, 0.0]], device()).unwrap();
    let y = net.forward(&x, Pass::Eval).unwrap();
    let found = numbers(&y);
    assert!((found[0] - 0.6).abs() < 1e-12 && (found[2] - 0.8).abs() < 1e-12 && found[3] == 0.0);
    let grads = y.sum_all().unwrap().backward().unwrap();
    assert!(numbers(grads.get(&x).unwrap()).iter().all(|g| g.is_finite()));
}

#[test]
fn batch_norm_learns_statistics_in_training_and_uses_them_in_evaluation() {
    let plan =
        Plan { input: vec![2], layers: vec![("bn".to_string(), Layer::BatchNorm)], init: Init::Uniform };
    let net = Net::new(plan, SEED, DType::F64, device()).unwrap();
    let x = Tensor::new(&[[1f64, 10.0], [3.0, 30.0]], device()).unwrap();
    let trained = numbers(&net.forward(&x, Pass::Train(SEED)).unwrap());
    assert!(trained.iter().zip([-1.0, -1.0, 1.0, 1.0]).all(|(a, b): (&f64, f64)| (a - b).abs() < 1e-4));
    // A tenth of the way from 0 and 1 to the batch's mean and unbiased variance.
    assert_eq!(numbers(&net.statistics()["bn.running_mean"]), [0.2, 2.0]);
    let variance = numbers(&net.statistics()["bn.running_var"]);
    assert!((variance[0] - 1.1).abs() < 1e-12 && (variance[1] - 20.9).abs() < 1e-12);
    let evaluated = numbers(&net.forward(&x, Pass::Eval).unwrap());
    assert!((evaluated[0] - 0.8 / (1.1f64 + 1e-5).sqrt()).abs() < 1e-12);
    assert_eq!(numbers(&net.statistics()["bn.running_mean"]), [0.2, 2.0], "evaluation changes nothing");
    let one = Tensor::new(&[[1f64, 2.0]], device()).unwrap();
    assert!(matches!(net.forward(&one, Pass::Train(SEED)), Err(Error::Shape { .. })));
    assert!(net.forward(&one, Pass::Eval).is_ok());
}

#[test]
fn scores_of_a_set_are_those_of_its_batches() {
    let data = Critters::new(Preset::Plain, SEED).part(Part::Test, 300, device()).unwrap();
    let net = SplitNet::new(conv_net(&[3, 32, 32], &[4, 4]).unwrap(), 12, SEED, device()).unwrap();
    let s = net.scores_of(&data).unwrap();
    assert_eq!(s.dims(), [300, 12]);
    assert_eq!(net.features_of(&data).unwrap().dims(), [300, 4]);
    let few = data.subset(&[0, 299]).unwrap();
    let direct = numbers(&net.forward(&few.inputs().unwrap(), Pass::Eval).unwrap());
    let (first, last) = (numbers(&s.get(0).unwrap()), numbers(&s.get(299).unwrap()));
    let apart = direct.iter().zip(first.iter().chain(&last)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 1e-5, "{apart}");
    let single = SplitNet::new(mlp(&[5, 4]).unwrap(), 1, SEED, device()).unwrap();
    let x = input(&[3, 5], 1).to_dtype(DType::F32).unwrap();
    assert_eq!(single.forward(&x, Pass::Eval).unwrap().dims(), [3]);
}

#[test]
fn copies_share_parameters_unless_asked_not_to() {
    let net = SplitNet::new(mlp(&[3, 2]).unwrap(), 1, SEED, device()).unwrap();
    let (shared, own) = (net.clone(), net.copy().unwrap());
    let var = &net.last()[0].1;
    var.set(&var.zeros_like().unwrap()).unwrap();
    assert!(numbers(&shared.last()[0].1).iter().all(|v| *v == 0.0));
    assert!(numbers(&own.last()[0].1).iter().any(|v| *v != 0.0));
}

#[test]
fn the_weight_of_a_layer_comes_before_its_bias() {
    let net = SplitNet::new(mlp(&[3, 4, 2]).unwrap(), 5, SEED, device()).unwrap();
    let shapes =
        |vars: Vec<(String, Var)>| vars.iter().map(|(_, var)| var.dims().to_vec()).collect::<Vec<_>>();
    assert_eq!(shapes(net.last()), [vec![5, 2], vec![5]]);
    assert_eq!(shapes(net.bottom()), [vec![4, 3], vec![4], vec![2, 4], vec![2]]);
    let bare = Layer::Linear { width: 5, bias: false };
    let bare =
        SplitNet::with_head(mlp(&[3, 2]).unwrap(), vec![(String::new(), bare)], SEED, DType::F32, device());
    assert_eq!(shapes(bare.unwrap().last()), [vec![5, 2]]);
}

#[test]
fn a_saved_network_comes_back_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    for net in [
        every_layer(),
        SplitNet::new(resnet18(&[3, 16, 16], Stem::Small, 0.0625).unwrap(), 3, SEED, device()).unwrap(),
    ] {
        net.save(&path).unwrap();
        let back = SplitNet::load(&path, device()).unwrap();
        let shape = [vec![2], net.phi.plan().input.clone()].concat();
        let x = input(&shape, 3).to_dtype(net.bottom()[0].1.dtype()).unwrap();
        let scores = |net: &SplitNet| numbers(&net.forward(&x, Pass::Eval).unwrap());
        assert_eq!(scores(&net), scores(&back));
        let bytes = std::fs::read(&path).unwrap();
        back.save(&path).unwrap();
        assert_eq!(bytes, std::fs::read(&path).unwrap(), "the same network has the same bytes");
    }
}

#[test]
fn files_that_hold_something_else_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    let net = SplitNet::new(mlp(&[3, 2]).unwrap(), 1, SEED, device()).unwrap();
    let refused = |words: &str| match SplitNet::load(&path, device()) {
        Err(error @ Error::Data { .. }) => assert!(error.to_string().contains(words), "{error}"),
        other => panic!("expected a data error with {words:?}, got {other:?}"),
    };
    assert!(matches!(SplitNet::load(&path, device()), Err(Error::Io { .. })));
    std::fs::write(&path, b"no such file").unwrap();
    refused("damaged");
    net.save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    refused("damaged");
    // A header that claims a petabyte.
    let mut huge = bytes.clone();
    huge[..8].copy_from_slice(&(1u64 << 50).to_le_bytes());
    std::fs::write(&path, &huge).unwrap();
    refused("damaged");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // A plan that asks for more than the file has.
    let at = text.find("\\\"width\\\":2").unwrap();
    let mut wide = bytes.clone();
    wide[at + 10..at + 11].copy_from_slice(b"9");
    std::fs::write(&path, &wide).unwrap();
    refused("another network");
    // Tensors of another program, without a plan.
    let tensors: BTreeMap<String, Tensor> = BTreeMap::from([("w".to_string(), input(&[2], 1))]);
    lastlayer::candle::safetensors::save(&tensors.into_iter().collect(), &path).unwrap();
    refused("which network");
    // Every byte of the file may be wrong; none may panic.
    for i in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[i] ^= 1 << (i % 8);
        std::fs::write(&path, &damaged).unwrap();
        let _ = SplitNet::load(&path, device());
    }
}

#[test]
fn torchvisions_weights_are_taken_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let plan = || resnet18(&[3, 32, 32], Stem::Large, 0.0625).unwrap();
    let theirs = SplitNet::new(plan(), 7, Seed::new(1), device()).unwrap();
    let vars = theirs.phi.parameters().iter().chain(theirs.phi.statistics());
    let mut tensors: std::collections::HashMap<String, Tensor> =
        vars.map(|(name, var)| (name.clone(), var.as_tensor().clone())).collect();
    for (name, var) in theirs.head.parameters() {
        tensors.insert(format!("fc.{name}"), var.as_tensor().clone());
    }
    // Torchvision counts batches too.
    tensors.insert("bn1.num_batches_tracked".into(), Tensor::new(&[5i64], device()).unwrap());
    lastlayer::candle::safetensors::save(&tensors, &path).unwrap();
    let x = input(&[2, 3, 32, 32], 1).to_dtype(DType::F32).unwrap();
    let ours = SplitNet::new(plan(), 7, Seed::new(2), device()).unwrap();
    assert!(ours.load_torchvision(&path).unwrap());
    let scores = |net: &SplitNet| numbers(&net.forward(&x, Pass::Eval).unwrap());
    assert_eq!(scores(&ours), scores(&theirs));
    let other_classes = SplitNet::new(plan(), 3, Seed::new(2), device()).unwrap();
    assert!(!other_classes.load_torchvision(&path).unwrap(), "a head of another size stays as it was drawn");
    let wider =
        SplitNet::new(resnet18(&[3, 32, 32], Stem::Large, 0.125).unwrap(), 7, SEED, device()).unwrap();
    let before = scores(&wider);
    assert!(matches!(wider.load_torchvision(&path), Err(Error::Data { .. })));
    assert_eq!(scores(&wider), before, "a refused file changes nothing");
}

#[test]
fn a_predictor_decides_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("predictor.safetensors");
    let x = input(&[40, 5], 2).to_dtype(DType::F32).unwrap();
    let data = Dataset::new("x", x.clone(), Tensor::zeros(40, DType::U32, device()).unwrap(), ["a"]).unwrap();
    let single = SplitNet::new(mlp(&[5, 8]).unwrap(), 1, SEED, device()).unwrap();
    let s = numbers(&single.scores_of(&data).unwrap());
    let threshold = s[7];
    let predictor = Predictor::new(&single, Decision::Threshold(threshold), ["no", "yes"]).unwrap();
    predictor.save(&path).unwrap();
    let back = Predictor::load(&path, device()).unwrap();
    for extreme in [f64::INFINITY, f64::NEG_INFINITY, 1e-310, 0.1 + 0.2] {
        let other = folder.path().join("extreme.safetensors");
        Predictor::new(&single, Decision::Threshold(extreme), ["no", "yes"]).unwrap().save(&other).unwrap();
        assert_eq!(Predictor::load(&other, device()).unwrap().decision, Decision::Threshold(extreme));
    }
    let spoiled = (&x * f64::NAN).unwrap();
    assert!(matches!(back.predict(&spoiled), Err(Error::Data { .. })));
    let answers = back.predict(&x).unwrap().to_vec1::<u32>().unwrap();
    assert!(answers.iter().zip(&s).all(|(a, s)| (*a == 1) == (*s > threshold)), "strictly above");
    assert_eq!(answers, back.predict_set(&data).unwrap().to_vec1::<u32>().unwrap());
    assert_eq!(
        (back.decision, back.classes),
        (Decision::Threshold(threshold), vec!["no".to_string(), "yes".to_string()])
    );
    let three = SplitNet::new(mlp(&[5, 8]).unwrap(), 3, SEED, device()).unwrap();
    let rows: Vec<Vec<f32>> = three.scores_of(&data).unwrap().to_vec2().unwrap();
    let largest = Predictor::new(&three, Decision::Largest, ["a", "b", "c"]).unwrap();
    for (answer, row) in largest.predict(&x).unwrap().to_vec1::<u32>().unwrap().into_iter().zip(&rows) {
        assert!(row.iter().all(|s| *s <= row[answer as usize]));
    }
    let each = Predictor::new(&three, Decision::Each(vec![0.0, 0.1, -0.1]), ["a", "b", "c"]).unwrap();
    for (answer, row) in each.predict(&x).unwrap().to_vec2::<u8>().unwrap().into_iter().zip(&rows) {
        assert!(
            answer.iter().zip(row).zip([0.0, 0.1, -0.1]).all(|((a, s), t)| (*a == 1) == (f64::from(*s) > t))
        );
    }
    for wrong in [
        Predictor::new(&three, Decision::Threshold(0.0), ["a", "b"]),
        Predictor::new(&single, Decision::Largest, ["a"]),
        Predictor::new(&three, Decision::Each(vec![0.0]), ["a"]),
        Predictor::new(&three, Decision::Largest, ["a", "b"]),
    ] {
        assert!(matches!(wrong, Err(Error::Shape { .. })));
    }
    assert!(matches!(
        Predictor::new(&single, Decision::Threshold(f64::NAN), ["a", "b"]),
        Err(Error::Config { .. })
    ));
    single.save(&path).unwrap();
    assert!(matches!(Predictor::load(&path, device()), Err(Error::Data { .. })));
}

#[test]
fn plans_that_cannot_be_are_refused() {
    let net = |input: &[usize], layer: Layer| -> Result<Net> {
        let plan =
            Plan { input: input.to_vec(), layers: vec![("l".to_string(), layer)], init: Init::Uniform };
        Net::new(plan, SEED, DType::F32, device())
    };
    let conv = |kernel, stride, padding| Layer::Conv { width: 2, kernel, stride, padding, bias: true };
    for (input, layer) in [
        (&[3usize, 4, 4][..], Layer::Linear { width: 2, bias: true }),
        (&[3], conv(3, 1, 1)),
        (&[3, 4, 4], conv(7, 1, 1)),
        (&[4], Layer::MaxPool { size: 2, stride: 2, padding: 0 }),
        (&[4], Layer::GlobalAveragePool),
        (&[3, 4, 4], Layer::UnitNorm),
        (&[], Layer::Relu),
        (&[0], Layer::Relu),
        (&[3, 4, 4], Layer::Residual { main: vec![("c".into(), conv(3, 2, 1))], shortcut: vec![] }),
    ] {
        assert!(matches!(net(input, layer.clone()), Err(Error::Shape { .. })), "{layer:?}");
    }
    for (input, layer) in [
        (&[3usize][..], Layer::Linear { width: 0, bias: true }),
        (&[3, 4, 4], conv(0, 1, 0)),
        (&[3, 4, 4], conv(3, 0, 0)),
        (&[3, 4, 4], conv(3, 1, 3)),
        (&[3, 4, 4], Layer::MaxPool { size: 0, stride: 1, padding: 0 }),
        (&[3], Layer::Dropout { rate: 1.0 }),
        (&[3], Layer::Noise { sd: f64::NAN }),
    ] {
        assert!(matches!(net(input, layer.clone()), Err(Error::Config { .. })), "{layer:?}");
    }
    for layer in [Layer::Linear { width: 2, bias: true }, Layer::Dropout { rate: 0.5 }] {
        let plan = Plan { input: vec![2], layers: vec![("l".to_string(), layer); 2], init: Init::Uniform };
        assert!(matches!(Net::new(plan, SEED, DType::F32, device()), Err(Error::Config { .. })));
    }
    assert!(
        mlp(&[3]).is_err()
            && mlp(&[]).is_err()
            && mlp(&[3, 0]).is_err()
            && conv_net(&[3, 8, 8], &[]).is_err()
    );
    assert!(resnet18(&[3, 32, 32], Stem::Small, 0.0).is_err() && rate_net(&[3, 32, 32], f64::NAN).is_err());
    let plan = conv_net(&[3, 8, 8], &[2]).unwrap();
    let image = Plan { layers: plan.layers[..3].to_vec(), ..plan };
    assert!(matches!(SplitNet::new(image, 2, SEED, device()), Err(Error::Shape { .. })));
    let net = SplitNet::new(mlp(&[3, 2]).unwrap(), 1, SEED, device()).unwrap();
    assert!(
        net.forward(&input(&[4, 5], 1), Pass::Eval).unwrap_err().to_string().contains("build the network")
    );
}

#[test]
fn a_head_alone_reads_the_feature_set_as_the_network_reads_inputs() {
    let net = SplitNet::new(mlp(&[5, 4]).unwrap(), 2, SEED, device()).unwrap();
    let y = Tensor::new(vec![0u32, 1, 1], device()).unwrap();
    let data =
        Dataset::new("rows", input(&[3, 5], 1).to_dtype(DType::F32).unwrap(), y, ["no", "yes"]).unwrap();
    let (features, alone) = (net.feature_set(&data).unwrap(), net.head_alone().unwrap());
    assert_eq!(features.x.dims(), [3, 4]);
    assert_eq!(features.labels().unwrap(), data.labels().unwrap());
    assert_eq!(numbers(&alone.scores_of(&features).unwrap()), numbers(&net.scores_of(&data).unwrap()));
    // The parameters are shared: what one learns the other knows.
    let weight = &alone.last()[0].1;
    weight.set(&weight.zeros_like().unwrap()).unwrap();
    assert!(numbers(&net.last()[0].1).iter().all(|w| *w == 0.0));
    assert!(alone.bottom().is_empty());
    let bare = SplitNet::with_head(mlp(&[5, 4]).unwrap(), Vec::new(), SEED, DType::F32, device()).unwrap();
    assert!(matches!(bare.head_alone(), Err(Error::Config { .. })));
    assert!(net.feature_set(&features).is_err(), "features are no inputs");
}

/// Not a test of its own: what the test below asks in processes of their own, because the environment is shared.
#[test]
fn a_first_weight_in_a_process_of_its_own() {
    let net = Net::new(mlp(&[3, 4]).unwrap(), SEED, DType::F64, device()).unwrap();
    println!("weights {:?}", numbers(&net.vars()[0].1));
}

#[test]
fn a_nudge_moves_every_drawn_weight_in_the_seventh_digit() {
    let weights = |nudge: &str| -> Vec<f64> {
        let out = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "a_first_weight_in_a_process_of_its_own"])
            .env("LASTLAYER_NUDGE", nudge)
            .output()
            .unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let list = text.split_once("weights [").unwrap().1.split_once(']').unwrap().0;
        list.split(", ").map(|number| number.parse().unwrap()).collect()
    };
    let (plain, one, two) = (weights(""), weights("1"), weights("2"));
    assert_eq!((plain.len(), &one), (12, &weights("1")), "the same number, the same nudge");
    assert_ne!(one, two);
    for moved in [one, two] {
        for (a, b) in plain.iter().zip(moved) {
            assert!(((b / a - 1.0).abs() - 1e-7).abs() < 1e-12, "{a} became {b}");
        }
    }
}

#[test]
fn samples_of_another_type_are_refused_with_the_way_out() {
    let net = SplitNet::new(mlp(&[5, 4]).unwrap(), 1, SEED, device()).unwrap();
    let x = input(&[3, 5], 1); // f64
    for wrong in [x.clone(), x.to_dtype(DType::U8).unwrap()] {
        match net.forward(&wrong, Pass::Eval) {
            Err(error @ Error::Config { .. }) => {
                let message = error.to_string();
                assert!(
                    message.contains("x.to_dtype(DType::F32)") && message.contains("samples"),
                    "{message}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(net.forward(&x.to_dtype(DType::F32).unwrap(), Pass::Eval).is_ok());
}
