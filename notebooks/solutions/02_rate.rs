// Solutions of 02_rate. `make solutions` puts each section behind its exercise.

// ==== rate-46
// All negatives are alike, so the smooth FPR is one sigmoid, $\sigma(2 - t)$. And $1/(1+e) = \sigma(-1)$. So $2 -
// t = -1$: the threshold lies one unit above the scores.
let mine = 2.0 + 1.0;
let share = 1.0 / (1.0 + 1f64.exp());
check("exercise 1", mine, smooth_threshold([2.0; 5], share, 1.0, None)?.threshold, 1e-9)?;

// ==== rate-48
// Not at all. Every smooth rate sees only differences $s_i - t$. Add 10 to all scores, and the threshold that
// meets the target rises by 10 too, so all differences are as before, and with them the weights, $\mu$ and $c$.
// The same fact makes the cotangent sum to zero.
let mine = 0.0;
let (_, _, shifted) = four_scores([11.0, 13.0, 10.0, 12.0], 0.3)?;
check("exercise 2", mine, shifted.cotangent[0] - found.cotangent[0], 1e-9)?;

// ==== rate-50
// At the optimum the derivative of the objective in the target is the multiplier: one unit of FPR buys $\mu$ units
// of TPR, the slope of the ROC. So the FNR falls by $\mu \cdot 0.001$ to first order. The check is close and not
// exact, because the ROC is bent.
let mine = 75.0 / 68.0 * 0.001;
let (_, _, wider) = four_scores([1.0, 3.0, 0.0, 2.0], 0.301)?;
check("exercise 3", mine, found.objective - wider.objective, 1e-5)?;

// ==== rate-52
// Put the threshold at the largest of $n$ negatives. Its true FPR exceeds 5 % exactly if none of them fell into
// the upper 5 % of the law, and the chance of that is $0.95^n$. Take logarithms, and mind that both are negative:
// $n \ge \ln 0.05 / \ln 0.95$, rounded up.
let mine = (0.05f64.ln() / 0.95f64.ln()).ceil();
let least = (1..1000usize).find(|n| rate::confident_target(0.05, *n, 0.05).is_ok()).unwrap_or(0);
check("exercise 4", mine, least as f64, 1e-9)?;
