// Solutions of 01_split_networks. `make solutions` puts each section behind its exercise.

// ==== split-30
// The backbone ends with 100 features. A linear head has a weight for every feature and a bias, for each of the
// ten scores. The widths 784 and 256 belong to the backbone and do not matter.
let mine = (100.0 + 1.0) * 10.0;
let counted = SplitNet::new(zoo::mlp(&[784, 256, 100])?, 10, SEED, &device)?.head.size();
check("exercise 1", mine, counted as f64, 1e-9)?;

// ==== split-32
// For the logistic loss the derivative in the score is $\sigma(s) - y$, as in section 4 with $n = 1$. At $s = 0$
// the network says one half where it should say one.
let mine = {
    let (s, y) = (0f64, 1.0);
    1.0 / (1.0 + (-s).exp()) - y
};
let s = Var::zeros(1, DType::F64, &device)?;
let loss = bce_logits(&s, &Tensor::ones(1, DType::F64, &device)?)?;
let gradient = loss.backward()?.get(&s).expect("s takes part in the loss").clone();
check("exercise 2", vec![mine], &gradient, 1e-9)?;

// ==== split-34
// The schedule is half a period of a cosine, lifted and halved: $\frac12(1 + \cos \pi p)$ after the share $p$ of
// the run. A third of the run is $60°$, where the cosine is one half. So a third of the time costs only a quarter
// of the rate.
let mine = (1.0 + (std::f64::consts::PI / 3.0).cos()) / 2.0;
check("exercise 3", mine, Schedule::Cosine { floor: 0.0 }.factor(1.0 / 3.0, 0), 1e-9)?;
