//! Trains a network for a rate, and prints how well it ranks before and after. With a folder and a number it trains a
//! network of its own by all five methods there, and ends in that forward pass, or not at all for 0.

mod own;

use lastlayer::prelude::*;

fn main() -> Result<()> {
    if let [folder, killed_in] = &std::env::args().skip(1).collect::<Vec<_>>()[..] {
        return own::train(folder.as_ref(), killed_in.parse().unwrap_or(0));
    }
    let (seed, device) = (Seed::new(1), Device::Cpu);
    kernel_check(&device, seed)?;
    let data = Gaussians::a().sample(400, seed, &device)?;
    let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, seed, &device)?;
    let auc = || Ok::<f64, Error>(Scores::new(net.scores_of(&data)?, &data.y)?.auc());
    let before = auc()?;
    let goal = RateProblem::fnr_at_fpr(0.2, Surrogate::sigmoid(2.0))?;
    let trainer = Trainer::adam(0.05).epochs(5).batch(100).seed(seed).silent();
    trainer.fit(&mut RateTraining::ico(&net, &goal)?, &data)?;
    println!("{before} {}", auc()?);
    Ok(())
}
