use lastlayer::prelude::*;
fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let device = Device::Cpu;
    let rate: f64 = args[0].parse().unwrap();
    let lambda: f64 = args[1].parse().unwrap();
    let k: usize = args[2].parse().unwrap();
    let radius: f64 = args[3].parse().unwrap();
    let theta = if args.len() > 4 { ThetaGrad::Through } else { ThetaGrad::Fixed };
    for seed in 1..=3u64 {
        let seed = Seed::new(seed);
        let data = arcs(200, std::env::var("NOISE").unwrap().parse().unwrap(), seed.named("arcs"), &device)?;
        for which in ["e2e", "foca"] {
            let plan = extractor(
                zoo::mlp(&[2, 64, 64])?,
                2,
                if radius > 0.0 { Layer::Ball { radius } } else { Layer::RmsNorm },
                Baseline::Plain,
            )?;
            let net = SplitNet::new(plan, 2, seed, &device)?;
            let s = Foca { k, fit: WeakFit::RidgeSum(lambda), theta, ..Foca::default() }.strangers(&data)?;
            let t = std::time::Instant::now();
            print!("{which} ");
            for it in [100usize, 900, 4000] {
                let tr = (if std::env::var("SGD").is_ok() {
                    Trainer::sgd(rate, 0.9)
                } else {
                    Trainer::adam(rate)
                })
                .batch(50)
                .epochs(it / 4)
                .seed(seed.stream(it as u64))
                .silent();
                if which == "foca" {
                    tr.fit(&net, &data, |b| s.step(&net, b))?;
                } else {
                    tr.fit(&net, &data, |b| {
                        let s = net.forward(&b.x, b.pass())?;
                        let t = lastlayer::candle_nn::encoding::one_hot(b.y.clone(), 2, 1f32, 0f32)?;
                        Ok(Step::new((squared(&s, &t)? * 2.0)?))
                    })?;
                }
                let f = Features::of(&net, &data)?;
                let sp = Spread::of(&f)?;
                let acc = WeakFit::RidgeSum(lambda.max(1e-6)).fit(&f)?.head.accuracy(&f)?;
                print!(" {it}: {:.3}/{:.3}={:.4} acc {acc:.3};", sp.spread, sp.separation, sp.ratio());
            }
            println!(" {:.1}s", t.elapsed().as_secs_f64());
        }
    }
    Ok(())
}
