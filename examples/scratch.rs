use lastlayer::foca::*;
use lastlayer::prelude::*;
fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let device = Device::Cpu;
    let critters = Critters::new(Preset::Iid, Seed::new(2026));
    let train = critters.part(Part::Train, 6000, &device)?.pooled(2)?;
    let test = critters.part(Part::Validation, 1500, &device)?.pooled(2)?;
    let mean = train.x.mean_keepdim(0)?;
    let sc: f64 = std::env::var("SCALE").unwrap().parse().unwrap();
    let train = Dataset { x: (train.x.broadcast_sub(&mean)? * sc)?, ..train };
    let test = Dataset { x: (test.x.broadcast_sub(&mean)? * sc)?, ..test };
    let batch: usize = std::env::var("BATCH").unwrap().parse().unwrap();
    let epochs: usize = args[0].parse().unwrap();
    let rate: f64 = args[1].parse().unwrap();
    let hidden: usize = args[2].parse().unwrap();
    for spec in &args[3..] {
        for seed in 1..=2u64 {
            let seed = Seed::new(seed);
            let baseline = match spec.as_str() {
                "noisy" => Baseline::Noisy { sd: 0.5 },
                "dropout" => Baseline::Dropout { rate: 0.5 },
                "bn" => Baseline::BatchNorm,
                _ => Baseline::Plain,
            };
            let plan = zoo::mlp_on(&[3, 16, 16], &[hidden])?;
            let plan = extractor(plan, 32, Layer::RmsNorm, baseline)?;
            let net = SplitNet::new(plan, 12, seed, &device)?;
            let trainer =
                (if std::env::var("SGD").is_ok() { Trainer::sgd(rate, 0.9) } else { Trainer::adam(rate) })
                    .epochs(epochs)
                    .batch(batch)
                    .seed(seed)
                    .schedule(Schedule::Cosine { floor: 0.0 })
                    .silent();
            let t = std::time::Instant::now();
            if let Some(rest) = spec.strip_prefix("foca") {
                let parts: Vec<&str> = rest.split(',').collect();
                let k: usize = parts[1].parse().unwrap();
                let l: f64 = parts[2].parse().unwrap();
                let theta = if parts.len() > 4 { ThetaGrad::Through } else { ThetaGrad::Fixed };
                let s = Foca {
                    k,
                    fit: WeakFit::RidgeSum(l),
                    theta,
                    heads: parts.get(3).map_or(1, |h| h.parse().unwrap()),
                    ..Foca::default()
                }
                .strangers(&train)?;
                trainer.fit(&net, &train, |b| s.step(&net, b))?;
            } else if spec == "mse" {
                trainer.fit(&net, &train, |b| {
                    let s = net.forward(&b.x, b.pass())?;
                    let t = lastlayer::candle_nn::encoding::one_hot(b.y.clone(), 12, 1f32, 0f32)?;
                    Ok(Step::new((squared(&s, &t)? * 12.0)?))
                })?;
            } else {
                trainer.fit(&net, &train, |b| {
                    Ok(Step::new(cross_entropy(&net.forward(&b.x, b.pass())?, &b.y)?))
                })?;
            }
            let secs = t.elapsed().as_secs_f64();
            let (ftr, fte) = (Features::of(&net, &train)?, Features::of(&net, &test)?);
            let rows = ftr.rows()?;
            print!("{spec} {seed}: {secs:.1}s");
            for lambda in [1.0] {
                let fit = WeakFit::RidgeSum(lambda);
                let full = fit.fit(&ftr)?.head.accuracy(&fte)?;
                print!("\n    l{lambda} full {full:.3} train {:.3} ", fit.fit(&ftr)?.head.accuracy(&ftr)?);
                for k in [1usize, 2, 5, 20] {
                    let mut a = 0.0;
                    for i in 0..20 {
                        let r = rows.draw(k, false, Seed::new(i))?;
                        a += fit.fit(&ftr.take(&r)?)?.head.accuracy(&fte)? / 20.0;
                    }
                    print!(" k{k} {a:.3}");
                }
            }
            println!();
        }
    }
    Ok(())
}
