// Solutions of 05_adversary. `make solutions` puts each section behind its exercise.

// ==== adversary-33
// At the rival's own score the gradient is $p - y$, which is $-1/3$: to lower its loss the score should rise. The
// reversal multiplies by $-\gamma$. What arrives is positive, so descent lowers the score: features are pushed to
// where the rival is less sure of what is true.
let mine = -0.6 * (2.0 / 3.0 - 1.0);
let score = Var::new(&[2.0f64.ln()], &device)?;                              // p = 2/3
let loss = bce_logits(&reverse(&score, 0.6)?, &Tensor::new(&[1.0f64], &device)?)?;
check("exercise 1", mine, loss.backward()?.get(&score).expect("a gradient"), 1e-6)?;

// ==== adversary-35
// The bound of section 5: the smaller of the two groups, times the distance of the two rates. A rule that may not
// know $b$ says "yes" equally often in both groups. It has to err where the rates differ, and cheapest is to err
// in the smaller group.
let mine = f64::min(0.25, 0.75) * f64::abs(0.8 - 0.4);
check("exercise 2", mine, price_of_invariance(0.25, 0.8, 0.4)?, 1e-6)?;

// ==== adversary-37
// The lowest of $m$ exceeds $x$ if all do, which has the chance $\Phi(-x)^m$. The mean of any number is the area
// of that chance to the right of zero, less the area of its complement to the left. Add both up in small steps.
// The answer says how low the worst of fifteen partners looks when none of them does harm, in standard deviations
// of a difference.
let mine = {
    let exceeds = |x: f64| distribution::normal_cdf(-x).powi(15);
    let area = |x: f64| exceeds(x) - (1.0 - exceeds(-x));
    (0..8000).map(|i| 0.001 * area(0.001 * (f64::from(i) + 0.5))).sum::<f64>()
};
check("exercise 3", mine, adversary::expected_minimum(15)?, 0.01)?;

// ==== adversary-39
// Sort the p-values and compare the $i$-th with $i \cdot 0.05/5$: 0.01, 0.02, 0.03, 0.04, 0.05. The largest $i$
// that passes is the number kept, and all smaller ones go with it. A correction for the worst case, Bonferroni's,
// would compare all with 0.01 and keep one.
let mine = {
    let sorted = [0.001, 0.012, 0.03, 0.04, 0.2];
    (1..=5).rev().find(|i| sorted[*i - 1] <= 0.05 * *i as f64 / 5.0).unwrap_or(0)
};
let kept = adversary::benjamini_hochberg(&[0.001, 0.012, 0.03, 0.04, 0.2], 0.05)?;
check("exercise 4", mine as f64, kept.iter().filter(|kept| **kept).count() as f64, 1e-6)?;
