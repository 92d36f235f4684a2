// Solutions of 06_intersection. `make solutions` puts each section behind its exercise.

// ==== intersection-42
// Four bits are 16 codes and 15 steps between them, so a step is $3/15 = 0.2$. The range begins at zero, which has
// the code 0. $1.7/0.2$ is $8.5$, and a half is rounded away from zero. (Who divides by 16 gets the same answer
// for the wrong reason: $9.07$.)
let mine = (1.7f64 / (3.0 / 15.0)).round();
let x = Tensor::new(&[[0.0f64, 1.7, 3.0]], &device)?;
let codes_of_three = Quantiser { range: Range::Batch, ..Quantiser::default() }.forward(&x, None, false)?;
check("exercise 1", mine, codes_of_three.get(0)?.get(1)?, 1e-6)?;

// ==== intersection-44
// The test finds every critter that has the attribute, so recall is 1. Of its answers a share $\pi$ is right, so
// precision is $\pi$. F1 is their harmonic mean, $2\pi/(1 + \pi)$. No knowledge is in it, and it is a third.
let mine = {
    let share = 0.2;
    2.0 * share / (1.0 + share)
};
check("exercise 2", mine, intersection::floor(0.2), 1e-6)?;

// ==== intersection-46
// The entropy of counts, summed over their rows, is $n \ln n - \sum_c n_c \ln n_c$. Before: three and one of four
// rows, $4 \ln 4 - 3 \ln 3$. Code 0 has two rows of class a, with nothing left to know. Code 1 has one of each: $2
// \ln 2$. The gain is the difference.
let mine = {
    let entropy = |counts: [f64; 2]| {
        let part = |n: f64| if n > 0.0 { n * n.ln() } else { 0.0 };
        part(counts[0] + counts[1]) - part(counts[0]) - part(counts[1])
    };
    entropy([3.0, 1.0]) - entropy([2.0, 0.0]) - entropy([1.0, 1.0])
};
let four = Codes::from_bytes(vec![0, 0, 1, 1], 1, 2)?;
let classes = Tensor::new(&[[1.0f64, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], &device)?;
let stump = Cart { depth: 1, ..Cart::default() }.fit(&four, &classes)?;
check("exercise 3", mine, stump.nodes()[0].split.map_or(0.0, |split| split.gain), 1e-4)?;

// ==== intersection-48
// Batch $b$ reads $100\,b$ rows, and $1 + 2 + \dots + 50 = 50 \cdot 51 / 2$. The sum grows with the square of the
// number of batches. That is why one may want to fit the tree less often.
let mine = 100.0 * 50.0 * 51.0 / 2.0;
let truth: f64 = (1..=50).map(|batch| 100.0 * f64::from(batch)).sum();
check("exercise 4", mine, truth, 1e-6)?;
