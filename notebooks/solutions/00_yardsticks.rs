// Solutions of 00_yardsticks. `make solutions` puts each section behind its exercise.

// ==== yard-40
// The AUC is a mean over pairs, one positive and one negative. All hundred pairs are ties, and a tie counts one
// half. A score that says the same for everybody is as good as a coin.
let mine = {
    let (pairs, ties) = (10.0 * 10.0, 10.0 * 10.0);
    0.5 * ties / pairs
};
let all_equal = Scores::new(vec![1.0; 20], (0..20).map(|i| (i % 2) as u8).collect::<Vec<u8>>())?;
check("exercise 1", mine, all_equal.auc(), 1e-9)?;

// ==== yard-42
// One per cent of $n = 200$ is $k = 2$, so the threshold is the third largest negative. Together with a new
// negative there are 201 numbers in random order, and the new one passes if it is among the first three: the mean
// is $(k+1)/(n+1) = 3/201$. That is half again as much as the one per cent that was tuned for. In the language of
// the chapter, it is the mean of the law $\mathrm{Beta}(k+1, n-k)$.
let mine = {
    let n = 200.0;
    let k = f64::floor(0.01 * n);
    (k + 1.0) / (n + 1.0)
};
let (negatives, passed) = (200.0, 2.0);
check("exercise 2", mine, (passed + 1.0) / (negatives + 1.0), 1e-9)?;

// ==== yard-44
// Let $a$ be the share of critters whose cheeks and glasses agree. With half of all critters having each, the four
// cells of the table are $a/2$, $a/2$ on the diagonal and $(1-a)/2$ beside it, and the correlation is $\phi =
// \frac{(a/2)^2 - ((1-a)/2)^2}{1/4} = 2a - 1$. Hence $a = (1 + \phi)/2$. The check counts in 50 000 drawn
// critters, so it is close and not exact.
let mine = (1.0 + 0.6) / 2.0;
let shift = Critters::new(Preset::Shift, SEED).latents(Part::Train, 50_000)?;
let glasses = Critters::attribute("glasses")?;
let agree = (0..50_000).filter(|i| shift.clean[[*i, cheeks]] == shift.clean[[*i, glasses]]).count();
check("exercise 3", mine, agree as f64 / 50_000.0, 1e-2)?;
