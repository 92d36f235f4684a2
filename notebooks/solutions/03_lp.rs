// Solutions of 03_lp. `make solutions` puts each section behind its exercise.

// ==== lp-47
// The negative with score 2.8 is in three pairs. Against 4 it is behind by 1.2, more than the margin, and by 1.1
// after the rise: that pair pays nothing before and after. Against 2.5 and 1.6 it lacks margin, and each of these
// two pairs pays 0.1 more. The optimum is a mean over nine pairs.
let mine = 2.0 * 0.1 / 9.0;
let raised = NewtonLp::default().solve(&Lp::auc([4.0, 2.5, 1.6, 2.9, 2.0, 0.0], y, 1.0)?)?.value;
check("exercise 1", mine, raised - solution.value, 1e-9)?;

// ==== lp-49
// The penalty is $\frac12 (3 - y)_+^2 + \varepsilon y$. Below 3 its slope is $-(3 - y) + \varepsilon$, which is
// zero at $y = 3 - \varepsilon$. The minimum lies outside the feasible set, by exactly $\varepsilon$: that is what
// an exterior penalty costs.
let mine = 3.0 - 0.5;
let one = Lp::new(Matrix::dense(ndarray::array![[-1.0]])?, &[-3.0], &[1.0])?;
let found = PenaltyNewton { epsilon: 0.5, ..Default::default() }.solve(&one)?;
check("exercise 2", mine, found.y[0], 1e-9)?;

// ==== lp-51
// Two ways. By definition $v = (Ay - b)_+ / \varepsilon = (3 - y)/\varepsilon$, and $y = 3 - \varepsilon$, so
// $\varepsilon$ cancels. Or from the dual program: $A^\top v = -c$ reads $-v = -1$, and has no other solution. So
// the dual is right at every $\varepsilon$, although the point is not.
let mine = {
    let (a, c) = (-1.0, 1.0);
    -c / a
};
check("exercise 3", mine, found.v[0], 1e-9)?;

// ==== lp-53
// Go through the nine pairs and look how far each is from the corner of its hinge, $|\epsilon - d_{ij}|$. The
// nearest is the pair of 4 and 2.8: it is ahead by 1.2, and 0.2 above the margin. Nine pairs times 0.2 is the
// bound.
let mine = {
    let (positives, negatives) = ([4.0f64, 2.5, 1.6], [2.8f64, 2.0, 0.0]);
    let from_corner = positives.iter().flat_map(|p| negatives.iter().map(move |n| (1.0 - (p - n)).abs()));
    9.0 * from_corner.fold(f64::MAX, f64::min)
};
let least = nine.b[..9].iter().fold(f64::MAX, |least: f64, b| least.min(b.abs())); // b holds d − margin
check("exercise 4", mine, 9.0 * least, 1e-9)?;
