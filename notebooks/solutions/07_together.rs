// Solutions of 07_together. `make solutions` puts each section behind its exercise.

// ==== together-exercise-1
// The first change saves 5 points and the second 6, so their sum would be 11. Both together save 8. The
// interaction is what both add beyond the sum, $(b - f) - (s - n)$: it is positive, and for a rate of misses that
// says that the two fight, or that they mend the same fault.
let mine = (42.0 - 45.0) - (44.0 - 50.0);
let cells = factorial([49.5, 50.5], [44.8, 45.2], [43.9, 44.1], [41.7, 42.3], 0.95)?; // means 50, 45, 44, 42
check("exercise 1", mine, cells.interaction.value, 1e-9)?;

// ==== together-exercise-2
// The corners of the ROC: with the first leaf alone the tree is at an FPR of 5 % and misses 60, with the first two
// at 20 % and misses 20. The target of 10 % lies a third of the way between them. A coin that takes the second
// corner in one of three cases misses a third of the way down from 60 to 20. Without the coin the tree stops at
// the first corner.
let mine = {
    let coin = (10.0 - 5.0) / (20.0 - 5.0);
    (1.0 - coin) * 60.0 + coin * 20.0
};
let (mut s, mut y) = (Vec::new(), Vec::new());
for (score, negatives, positives) in [(0.9, 5, 40), (0.5, 15, 40), (0.1, 80, 20)] {
    s.extend(vec![score; negatives + positives]);
    y.extend([vec![0u8; negatives], vec![1; positives]].concat());
}
check("exercise 2", mine, 100.0 * Scores::new(&s, &y)?.mixed_fnr_at_fpr(0.1)?, 1e-6)?;

// ==== together-exercise-3
// The weights move against $g - \gamma h$, with $g$ your own gradient and $h$ the rival's. To first order your
// loss falls by $g \cdot (g - \gamma h)$ for a unit of step size, $\lVert g \rVert^2 - \gamma\, g \cdot h$.
// Without the rival it would be 9. The two gradients point the same way, so the rival takes a third of it: what
// helps to read the rival's attribute helps you too.
let mine = 3.0 * (3.0 - 0.5 * 2.0) + 0.0 * (0.0 - 0.5 * 1.0);
let (own, rival, strength) = ([3.0f64, 0.0], [2.0f64, 1.0], 0.5);
let squares = own.iter().map(|g| g * g).sum::<f64>();
let product = own.iter().zip(&rival).map(|(g, h)| g * h).sum::<f64>();
check("exercise 3", mine, squares - strength * product, 1e-9)?;

// ==== together-exercise-4
// On doubled features half the weights give the same scores. They have a quarter of the square, so the penalty
// must be four times as large to cost the same. A penalty is a number in units of the features: who changes their
// scale and keeps it has changed the head.
let mine = 2f64.powi(2) * 0.5;
let z = SEED.named("rows").normal_tensor((200, 4), (0.0, 1.0), DType::F64, &device)?;
let rows = Features::new(&z, &(0..200u32).map(|i| i % 2).collect::<Vec<_>>(), 2)?;
let twice = Features { z: &rows.z * 2.0, ..rows.clone() };
let before = WeakFit::RidgeSum(0.5).fit(&rows)?.head.scores(&rows.z)?;
let after = WeakFit::RidgeSum(mine).fit(&twice)?.head.scores(&twice.z)?;
let apart = (&before - &after).iter().fold(0.0, |most: f64, d| most.max(d.abs()));
check("exercise 4, largest difference of a score", apart, 0.0, 1e-9)?;
