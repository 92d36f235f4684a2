//! The equations of the chapter "Co-adaptation".

use super::close;
use lastlayer::distribution::{normal_cdf, normal_density};
use lastlayer::foca::{Features, WeakFit};
use lastlayer::linalg::shortest_solution;
use lastlayer::linalg::solve;
use lastlayer::ndarray::{Array1, Array2, Axis, array};
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(1906);

/// Sums of some hundred products of numbers of size one, and solves of well-conditioned systems.
const ROUNDING: f64 = 1e-11;
/// Central differences of values of size one with a step of 1e-5: rounding over the step, and the square of the step.
const DIFFERENCES: f64 = 1e-8;
const STEP: f64 = 1e-5;
/// A time of 20 in steps of 1/200 of a method of fourth order, where rates are of the order of 10.
const FLOW: f64 = 1e-8;

fn normals(seed: Seed, rows: usize, columns: usize) -> Array2<f64> {
    Array2::from_shape_fn((rows, columns), |(i, j)| seed.normal((i * columns + j) as u64))
}

fn bias(seed: Seed, classes: usize) -> Array1<f64> {
    normals(seed.named("bias"), 1, classes).row(0).to_owned()
}

/// One class after the other, then from the start.
fn labels(n: usize, classes: usize) -> Vec<u32> {
    (0..n).map(|i| (i % classes) as u32).collect()
}

fn outer(a: &Array1<f64>, b: &Array1<f64>) -> Array2<f64> {
    a.clone().insert_axis(Axis(1)).dot(&b.clone().insert_axis(Axis(0)))
}

#[derive(Clone, Copy, Debug)]
enum Loss {
    Squared,
    CrossEntropy,
}

impl Loss {
    /// Of the scores of one sample.
    fn value(self, s: &Array1<f64>, y: u32) -> f64 {
        match self {
            Loss::Squared => {
                s.iter().enumerate().map(|(c, s)| (s - f64::from(u8::from(c == y as usize))).powi(2)).sum()
            }
            Loss::CrossEntropy => s.mapv(f64::exp).sum().ln() - s[y as usize],
        }
    }

    /// Its gradient in the scores.
    fn cotangent(self, s: &Array1<f64>, y: u32) -> Array1<f64> {
        let mut c = match self {
            Loss::Squared => s.clone(),
            Loss::CrossEntropy => s.mapv(f64::exp) / s.mapv(f64::exp).sum(),
        };
        c[y as usize] -= 1.0;
        match self {
            Loss::Squared => 2.0 * c,
            Loss::CrossEntropy => c,
        }
    }
}

const LOSSES: [Loss; 2] = [Loss::Squared, Loss::CrossEntropy];

/// Free features with a head: all that end-to-end training moves when every feature is a parameter of its own.
#[derive(Clone)]
struct Joint {
    z: Array2<f64>,
    w: Array2<f64>,
    b: Array1<f64>,
}

impl Joint {
    fn random(seed: Seed, n: usize, d: usize, classes: usize) -> Joint {
        let (z, w) = (normals(seed.named("features"), n, d), normals(seed.named("head"), d, classes));
        Joint { z, w, b: bias(seed, classes) }
    }

    fn scores(&self, i: usize) -> Array1<f64> {
        self.w.t().dot(&self.z.row(i)) + &self.b
    }

    /// (n, classes) Cotangents of the mean loss.
    fn cotangents(&self, loss: Loss, y: &[u32]) -> Array2<f64> {
        let mut all = Array2::zeros((y.len(), self.b.len()));
        for (i, y_i) in y.iter().enumerate() {
            all.row_mut(i).assign(&(loss.cotangent(&self.scores(i), *y_i) / y.len() as f64));
        }
        all
    }

    fn mean_loss(&self, loss: Loss, y: &[u32]) -> f64 {
        y.iter().enumerate().map(|(i, y)| loss.value(&self.scores(i), *y)).sum::<f64>() / y.len() as f64
    }

    /// The negative gradient of the mean loss in everything.
    fn velocity(&self, loss: Loss, y: &[u32]) -> Joint {
        let c = self.cotangents(loss, y);
        Joint { z: -c.dot(&self.w.t()), w: -self.z.t().dot(&c), b: -c.sum_axis(Axis(0)) }
    }

    fn moved(&self, by: f64, v: &Joint) -> Joint {
        Joint { z: &self.z + &(by * &v.z), w: &self.w + &(by * &v.w), b: &self.b + &(by * &v.b) }
    }

    /// One step of gradient flow, by the classical rule of Runge and Kutta.
    fn flow(&self, loss: Loss, y: &[u32], h: f64) -> Joint {
        let k1 = self.velocity(loss, y);
        let k2 = self.moved(0.5 * h, &k1).velocity(loss, y);
        let k3 = self.moved(0.5 * h, &k2).velocity(loss, y);
        let k4 = self.moved(h, &k3).velocity(loss, y);
        self.moved(h / 6.0, &k1).moved(h / 3.0, &k2).moved(h / 3.0, &k3).moved(h / 6.0, &k4)
    }

    /// ZᵀZ − WWᵀ.
    fn balance(&self) -> Array2<f64> {
        self.z.t().dot(&self.z) - self.w.dot(&self.w.t())
    }
}

/// What is left of a vector when the span of the columns is taken out.
fn off_span(w: &Array2<f64>, v: &Array1<f64>) -> Array1<f64> {
    let along = solve(&w.t().dot(w), &w.t().dot(v)).unwrap();
    v - &w.dot(&along)
}

#[test]
fn the_gradient_in_the_features_lies_in_the_span_of_the_head() {
    let (n, d, classes) = (5, 7, 3);
    let (joint, y) = (Joint::random(SEED.named("span"), n, d, classes), labels(n, classes));
    for loss in LOSSES {
        let mut size = 0.0;
        for (i, class) in y.iter().enumerate() {
            let at = |z: &Array1<f64>| {
                let mut moved = joint.clone();
                moved.z.row_mut(i).assign(z);
                loss.value(&moved.scores(i), *class)
            };
            let z = joint.z.row(i).to_owned();
            let numeric: Array1<f64> = (0..d)
                .map(|j| {
                    let mut step = Array1::zeros(d);
                    step[j] = STEP;
                    (at(&(&z + &step)) - at(&(&z - &step))) / (2.0 * STEP)
                })
                .collect();
            let rule = joint.w.dot(&loss.cotangent(&joint.scores(i), y[i]));
            close(&numeric, &rule, DIFFERENCES);
            size += rule.dot(&rule);
            // Across the columns nothing pushes, however far the feature is moved.
            let across = off_span(&joint.w, &normals(SEED.named("across"), 1, d).row(0).to_owned());
            close(&off_span(&joint.w, &numeric), &Array1::zeros(d), DIFFERENCES);
            assert!(across.dot(&across) > 1.0);
            close(&[at(&(&z + &(100.0 * &across)))], &[at(&z)], ROUNDING);
        }
        assert!(size > 0.1, "{loss:?}: gradients that are not zero");
    }
}

#[test]
fn cotangents_that_add_to_zero_leave_one_direction_fewer() {
    let (n, d, classes) = (40, 9, 4);
    let y = labels(n, classes);
    let rank = |g: &Array2<f64>| shortest_solution(g, &vec![0.0; g.nrows()]).unwrap().1;
    let mut joint = Joint::random(SEED.named("rank"), n, d, classes);

    // Cross entropy under any head.
    let c = joint.cotangents(Loss::CrossEntropy, &y);
    close(&c.sum_axis(Axis(1)), &Array1::zeros(n), ROUNDING);
    assert_eq!(rank(&c.dot(&joint.w.t())), classes - 1);
    // Squared loss under a head without the property.
    assert_eq!(rank(&joint.cotangents(Loss::Squared, &y).dot(&joint.w.t())), classes);

    // Squared loss under a ridge head.
    let features = Features::new(&joint.z, &y, classes).unwrap();
    let head = WeakFit::RidgeSum(0.3).fit(&features).unwrap().head;
    close(&head.w.sum_axis(Axis(1)), &Array1::zeros(d), ROUNDING);
    close(&[head.b.sum()], &[1.0], ROUNDING);
    (joint.w, joint.b) = (head.w, head.b);
    let c = joint.cotangents(Loss::Squared, &y);
    close(&c.sum_axis(Axis(1)), &Array1::zeros(n), ROUNDING);
    let g = c.dot(&joint.w.t());
    assert_eq!(rank(&g), classes - 1);
    // The directions are the differences of columns.
    let differences =
        Array2::from_shape_fn((d, classes - 1), |(j, k)| joint.w[[j, k]] - joint.w[[j, classes - 1]]);
    for row in g.rows() {
        close(&off_span(&differences, &row.to_owned()), &Array1::zeros(d), ROUNDING);
    }
    // The property outlives every step, so it holds for ever.
    for _ in 0..50 {
        joint = joint.moved(0.3, &joint.velocity(Loss::Squared, &y));
    }
    close(&joint.w.sum_axis(Axis(1)), &Array1::zeros(d), ROUNDING);
    close(&[joint.b.sum()], &[1.0], ROUNDING);
}

#[test]
fn gradient_flow_conserves_the_scatter_less_that_of_the_head() {
    let (n, d, classes) = (8, 4, 3);
    let y = labels(n, classes);
    for loss in LOSSES {
        let start = Joint::random(SEED.named("balance"), n, d, classes);
        let mut end = start.clone();
        for _ in 0..4000 {
            end = end.flow(loss, &y, 0.005);
        }
        assert!(end.mean_loss(loss, &y) < 0.5 * start.mean_loss(loss, &y), "{loss:?}: it must have moved");
        close(&end.balance(), &start.balance(), FLOW);
        let squares = |m: &Array2<f64>| m.mapv(|v| v * v).sum();
        let trace = |at: &Joint| squares(&at.z) - squares(&at.w);
        close(&[trace(&end)], &[trace(&start)], FLOW);

        // Of gradient descent it is the limit: half the step, half the error.
        let drift = |h: f64| {
            let mut at = start.clone();
            for _ in 0..(2.0 / h) as usize {
                at = at.moved(h, &at.velocity(loss, &y));
            }
            (at.balance() - start.balance()).mapv(|v| v * v).sum().sqrt()
        };
        let (whole, half) = (drift(0.01), drift(0.005));
        assert!((whole / half - 2.0).abs() < 0.1, "{loss:?}: {whole} and {half}");
    }
}

#[test]
fn a_direction_that_the_first_head_ignores_keeps_its_second_moment() {
    let (n, d, classes) = (8, 5, 2);
    let y = labels(n, classes);
    for loss in LOSSES {
        let start = Joint::random(SEED.named("ignored"), n, d, classes);
        let u = off_span(&start.w, &normals(SEED.named("direction"), 1, d).row(0).to_owned());
        let moment = |at: &Joint| at.z.dot(&u).mapv(|v| v * v).sum();
        let mut at = start.clone();
        for _ in 0..10 {
            for _ in 0..400 {
                at = at.flow(loss, &y, 0.005);
            }
            let turned = at.w.t().dot(&u);
            close(&[moment(&at)], &[moment(&start) + turned.dot(&turned)], FLOW);
        }
        assert!(moment(&at) > moment(&start) + 1e-4, "{loss:?}: the head has turned");
    }
}

/// ± a e₁ + ξ e₂ with ξ = ±s in each class, the scalar head (ω, 0) with bias ½, targets 0 and 1.
fn balanced(a: f64, s: f64) -> (Array2<f64>, [f64; 4]) {
    (array![[-a, s], [-a, -s], [a, s], [a, -s]], [0.0, 0.0, 1.0, 1.0])
}

/// Negative gradients of the mean squared loss in features, weights and bias.
fn scalar_velocity(z: &Array2<f64>, w: &Array1<f64>, b: f64, y: &[f64]) -> (Array2<f64>, Array1<f64>, f64) {
    let r = (z.dot(w) + b - &Array1::from(y.to_vec())) * (2.0 / y.len() as f64);
    (-outer(&r, w), -z.t().dot(&r), -r.sum())
}

#[test]
fn a_balanced_nuisance_stays_for_ever() {
    // Descent with a large step: the nuisance does not move by one bit.
    let (mut z, y) = balanced(0.2, 1.5);
    let (mut w, mut b) = (array![0.4, 0.0], 0.5);
    for _ in 0..2000 {
        let (dz, dw, db) = scalar_velocity(&z, &w, b, &y);
        (z, w, b) = (z + 0.5 * dz, w + 0.5 * dw, b + 0.5 * db);
    }
    assert_eq!(z.column(1).to_vec(), [1.5, -1.5, 1.5, -1.5]);
    assert_eq!(w[1], 0.0);
    close(&[w[0] * z[[2, 0]], b], &[0.5, 0.5], ROUNDING);

    // The flow, solved: with 4a² = ω² at the start the product p = ωa is logistic.
    let (a, h) = (0.2, 0.01);
    let (mut z, y) = balanced(a, 1.5);
    let (mut w, mut b) = (array![2.0 * a, 0.0], 0.5);
    let p_0 = 2.0 * a * a;
    for i in 1..=1000 {
        let step = |k: &(Array2<f64>, Array1<f64>, f64), by: f64| {
            (&z + &(by * &k.0), &w + &(by * &k.1), b + by * k.2)
        };
        let at = |p: (Array2<f64>, Array1<f64>, f64)| scalar_velocity(&p.0, &p.1, p.2, &y);
        let k1 = scalar_velocity(&z, &w, b, &y);
        let k2 = at(step(&k1, 0.5 * h));
        let k3 = at(step(&k2, 0.5 * h));
        let k4 = at(step(&k3, h));
        let mean = (
            (&k1.0 + &(2.0 * &k2.0) + 2.0 * &k3.0 + &k4.0) / 6.0,
            (&k1.1 + &(2.0 * &k2.1) + 2.0 * &k3.1 + &k4.1) / 6.0,
            (k1.2 + 2.0 * k2.2 + 2.0 * k3.2 + k4.2) / 6.0,
        );
        (z, w, b) = step(&mean, h);
        let t = h * f64::from(i);
        let p = 0.5 / (1.0 + (1.0 / (2.0 * p_0) - 1.0) * (-t).exp());
        close(&[w[0] * z[[2, 0]]], &[p], FLOW);
        close(&[z[[2, 0]].powi(2)], &[p / 2.0], FLOW);
    }
    assert_eq!(z.column(1).to_vec(), [1.5, -1.5, 1.5, -1.5]);
    // What is left: the spread of the start over a separation of 1.
    close(&[2.0 * z[[2, 0]]], &[1.0], 1e-3);
}

/// Class sizes, class means, and covariances within and between classes, divided by the number of rows.
struct Scatter {
    means: Vec<Array1<f64>>,
    within: Array2<f64>,
    between: Array2<f64>,
}

fn scatter(z: &Array2<f64>, y: &[u32], classes: usize) -> Scatter {
    let (n, d) = z.dim();
    let of = |class: usize| -> Vec<usize> { (0..n).filter(|i| y[*i] as usize == class).collect() };
    let mean = |rows: &[usize]| z.select(Axis(0), rows).sum_axis(Axis(0)) / rows.len() as f64;
    let all = mean(&(0..n).collect::<Vec<_>>());
    let means: Vec<_> = (0..classes).map(|c| mean(&of(c))).collect();
    let (mut within, mut between) = (Array2::zeros((d, d)), Array2::zeros((d, d)));
    for (row, class) in z.rows().into_iter().zip(y) {
        let (off, far) = (&row - &means[*class as usize], &means[*class as usize] - &all);
        within += &(outer(&off, &off) / n as f64);
        between += &(outer(&far, &far) / n as f64);
    }
    Scatter { means, within, between }
}

#[test]
fn spread_and_separation_are_traces() {
    for classes in [2, 3, 7] {
        let n = 6 * classes;
        let y = labels(n, classes);
        let mut z = normals(SEED.named("traces"), n, 4);
        // Classes apart, so that the two traces are of different size.
        for (mut row, class) in z.rows_mut().into_iter().zip(&y) {
            row[0] += 3.0 * f64::from(*class);
        }
        let found = scatter(&z, &y, classes);
        let spread: f64 = z
            .rows()
            .into_iter()
            .zip(&y)
            .map(|(row, class)| (&row - &found.means[*class as usize]).mapv(|v| v * v).sum())
            .sum::<f64>()
            / n as f64;
        let mut pairs = Vec::new();
        for c in 0..classes {
            for other in 0..c {
                pairs.push((&found.means[c] - &found.means[other]).mapv(|v| v * v).sum());
            }
        }
        let separation = pairs.iter().sum::<f64>() / pairs.len() as f64;
        let (within, between) = (found.within.diag().sum(), found.between.diag().sum());
        let c = classes as f64;
        close(&[spread], &[within], ROUNDING);
        close(&[separation], &[2.0 * c / (c - 1.0) * between], ROUNDING);
        close(
            &[(spread / separation).sqrt()],
            &[((c - 1.0) / (2.0 * c) * within / between).sqrt()],
            ROUNDING,
        );
    }
}

#[test]
fn two_classes_have_one_eigenvalue() {
    // 12 of one class, 30 of the other: shares that differ.
    let y: Vec<u32> = (0..42).map(|i| u32::from(i >= 12)).collect();
    let mut z = normals(SEED.named("eigen"), 42, 3).dot(&normals(SEED.named("skew"), 3, 3));
    (12..42).for_each(|i| z[[i, 1]] += 1.5);
    let found = scatter(&z, &y, 2);
    let gap = &found.means[1] - &found.means[0];
    let v = solve(&found.within, &gap).unwrap();
    let share = 12.0 / 42.0 * 30.0 / 42.0;
    close(&found.between, &(share * outer(&gap, &gap)), ROUNDING);
    let mu = share * gap.dot(&v);
    assert!(mu > 0.1);
    close(&found.between.dot(&v), &(mu * found.within.dot(&v)), ROUNDING);
    // It is the largest ratio of the two variances, and any invertible map leaves it alone.
    for i in 0..100 {
        let u = normals(SEED.named("ratio").stream(i), 1, 3).row(0).to_owned();
        assert!(u.dot(&found.between.dot(&u)) <= (mu + ROUNDING) * u.dot(&found.within.dot(&u)));
    }
    let other = scatter(&z.dot(&normals(SEED.named("map"), 3, 3)), &y, 2);
    let gap = &other.means[1] - &other.means[0];
    close(&[share * gap.dot(&solve(&other.within, &gap).unwrap())], &[mu], ROUNDING);
}

/// Integral over the real line of a function times the normal density, by Simpson's rule; beyond ten standard
/// deviations the density is below 1e-22.
fn normal_mean(f: impl Fn(f64) -> f64) -> f64 {
    let (steps, step) = (4000, 20.0 / 4000.0);
    let weight = |i: usize| if i == 0 || i == steps { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
    (0..=steps)
        .map(|i| {
            let x = -10.0 + i as f64 * step;
            weight(i) * normal_density(x) * f(x)
        })
        .sum::<f64>()
        * step
        / 3.0
}

#[test]
fn balanced_gaussians_are_confused_as_often_as_the_eigenvalue_says() {
    // Two dimensions, z = m + L ε; the integral runs over ε₁, the normal distribution function does ε₂.
    let l = array![[1.3, 0.0], [-0.7, 0.6]];
    let within = l.dot(&l.t());
    for gap in [array![1.0, 0.5], array![2.0, -3.0], array![0.1, 0.2]] {
        let v = solve(&within, &gap).unwrap();
        let mu = 0.25 * gap.dot(&v);
        let a = l.t().dot(&v);
        // Class 0 lies at 0, the threshold at half the way; wrong where v·Lε > v·gap/2.
        let half = 0.5 * v.dot(&gap);
        let error = normal_mean(|e| normal_cdf((a[0] * e - half) / a[1].abs()));
        close(&[error], &[normal_cdf(-mu.sqrt())], ROUNDING);
    }
}

#[test]
fn the_printed_eigenvalues_imply_errors_far_below_the_measured_ones() {
    // Eigenvalue and test error in per cent as printed, implied error in per cent.
    let rows = [
        (247.28, 2.01, 5.1e-54),
        (5.74, 2.71, 0.83),
        (7.49, 2.96, 0.31),
        (5.81, 2.78, 0.80),
        (7.28, 2.43, 0.35),
    ];
    for (mu, measured, implied) in rows {
        let error = 100.0 * normal_cdf(-f64::sqrt(mu));
        // Two digits are written in the table.
        assert!((error / implied - 1.0).abs() < 0.02, "{mu}: {error}");
        assert!(error < 0.4 * measured);
    }
}

#[test]
fn whatever_the_distribution_the_midpoint_errs_at_most_this_often() {
    // Balanced classes, skewed and with different variances; a tie counts as an error.
    let half = 30;
    let y: Vec<u32> = (0..2 * half).map(|i| u32::from(i >= half)).collect();
    let mut errors = 0;
    for i in 0..50 {
        let noise = normals(SEED.named("skewed").stream(i), 2 * half, 2);
        let z = Array2::from_shape_fn((2 * half, 2), |(row, j)| {
            let class = f64::from(y[row]);
            (1.0 + class) * noise[[row, j]].powi(3) + 2.0 * class
        });
        let found = scatter(&z, &y, 2);
        let gap = &found.means[1] - &found.means[0];
        let v = solve(&found.within, &gap).unwrap();
        let mu = 0.25 * gap.dot(&v);
        let middle = 0.5 * v.dot(&(&found.means[0] + &found.means[1]));
        let side = z.dot(&v) - middle;
        let wrong =
            side.iter().zip(&y).filter(|(s, y)| if **y == 1 { **s <= 0.0 } else { **s >= 0.0 }).count();
        assert!(wrong as f64 / (2 * half) as f64 <= 1.0 / (1.0 + mu), "set {i}: {wrong} wrong, {mu}");
        errors += wrong;
    }
    assert!(errors > 100, "{errors}");
    // Sharp: a share q of each class on the midpoint, the rest of it on one point.
    let (q, far): (f64, f64) = (0.2, 3.0);
    let variance = q * far * far + (1.0 - q) * (q * far / (1.0 - q)).powi(2);
    close(&[1.0 / (1.0 + far * far / variance)], &[q], ROUNDING);
    // What the printed eigenvalue allows, and the largest eigenvalue that the printed error allows.
    let [eigenvalue, error] = PRINTED_FOCA;
    close(&[1.0 / (1.0 + eigenvalue), 1.0 / error - 1.0], &[0.0040, 48.8], 1e-3);
}

/// The first row of the paper's third experiment.
const PRINTED_FOCA: [f64; 2] = [247.28, 0.0201];

/// All lists of `d` numbers, each one of two.
fn corners(d: usize, low: f64, high: f64) -> Vec<Array1<f64>> {
    (0u32..1 << d).map(|set| (0..d).map(|j| if set >> j & 1 == 1 { high } else { low }).collect()).collect()
}

#[test]
fn noise_on_the_features_is_a_ridge_on_the_head() {
    let (d, classes, sigma) = (6, 3, 0.7);
    let joint = Joint::random(SEED.named("noise"), 1, d, classes);
    let squares = joint.w.mapv(|v| v * v).sum();
    // A quadratic sees the mean and the covariance of the noise only, and random signs have those of a normal draw.
    let signs = corners(d, -1.0, 1.0);
    let mean = |f: &dyn Fn(&Joint) -> f64| {
        let shaken = |e: &Array1<f64>| Joint { z: &joint.z + &(sigma * e), ..joint.clone() };
        signs.iter().map(|e| f(&shaken(e))).sum::<f64>() / signs.len() as f64
    };
    let loss = |at: &Joint| at.mean_loss(Loss::Squared, &[1]);
    close(&[mean(&loss)], &[loss(&joint) + sigma * sigma * squares], ROUNDING);
    // The mean force on the features is the old one.
    let force = joint.velocity(Loss::Squared, &[1]).z;
    for j in 0..d {
        close(&[mean(&|at| at.velocity(Loss::Squared, &[1]).z[[0, j]])], &[force[[0, j]]], ROUNDING);
    }

    // So the best head under noise is the ridge head with λ = n σ².
    let n = 30;
    let y = labels(n, classes);
    let z = normals(SEED.named("rows"), n, d);
    let features = Features::new(&z, &y, classes).unwrap();
    let head = WeakFit::RidgeSum(n as f64 * sigma * sigma).fit(&features).unwrap().head;
    let noisy = |w: &Array2<f64>, b: &Array1<f64>| {
        let at = Joint { z: z.clone(), w: w.clone(), b: b.clone() };
        at.mean_loss(Loss::Squared, &y) + sigma * sigma * w.mapv(|v| v * v).sum()
    };
    let best = noisy(&head.w, &head.b);
    for i in 0..100 {
        let seed = SEED.named("beside").stream(i);
        let (w, b) = (&head.w + &(0.01 * normals(seed, d, classes)), &head.b + &(0.01 * bias(seed, classes)));
        assert!(noisy(&w, &b) > best);
    }
}

#[test]
fn dropout_is_a_ridge_weighted_by_the_features() {
    let (d, classes) = (6, 3);
    let joint = Joint::random(SEED.named("dropout"), 1, d, classes);
    let z = joint.z.row(0).to_owned();
    for rate in [0.1, 0.5, 0.8] {
        let mean = |f: &dyn Fn(&Array1<f64>) -> f64| {
            let chance =
                |m: &Array1<f64>| m.iter().map(|m| if *m > 0.0 { 1.0 - rate } else { rate }).product::<f64>();
            corners(d, 0.0, 1.0 / (1.0 - rate)).iter().map(|m| chance(m) * f(m)).sum::<f64>()
        };
        let dropped = |m: &Array1<f64>, z: &Array1<f64>| {
            Joint { z: (z * m).insert_axis(Axis(0)), ..joint.clone() }.mean_loss(Loss::Squared, &[2])
        };
        let rows = joint.w.mapv(|v| v * v).sum_axis(Axis(1));
        let ratio = rate / (1.0 - rate);
        let plain = joint.mean_loss(Loss::Squared, &[2]);
        close(&[mean(&|m| dropped(m, &z))], &[plain + ratio * (&z * &z * &rows).sum()], ROUNDING);
        // The force: towards zero, in each coordinate that the head reads.
        let old = -joint.velocity(Loss::Squared, &[2]).z;
        for j in 0..d {
            let by = |h: f64| {
                let mut moved = z.clone();
                moved[j] += h;
                mean(&|m| dropped(m, &moved))
            };
            let numeric = (by(STEP) - by(-STEP)) / (2.0 * STEP);
            close(&[numeric], &[old[[0, j]] + 2.0 * ratio * rows[j] * z[j]], DIFFERENCES);
        }
    }
}

#[test]
fn batch_norm_on_the_features_fixes_the_total_and_no_share_of_it() {
    let (n, d, classes) = (12, 4, 3);
    let y = labels(n, classes);
    let joint = Joint::random(SEED.named("norm"), n, d, classes);
    let norm = |z: &Array2<f64>| {
        let centred = z - &(z.sum_axis(Axis(0)) / n as f64);
        let size = (centred.mapv(|v| v * v).sum_axis(Axis(0)) / n as f64).mapv(f64::sqrt);
        centred / size
    };
    let found = scatter(&norm(&joint.z), &y, classes);
    close(&[found.within.diag().sum() + found.between.diag().sum()], &[d as f64], ROUNDING);

    for loss in LOSSES {
        let at = |z: &Array2<f64>| Joint { z: norm(z), ..joint.clone() }.mean_loss(loss, &y);
        let scale = array![0.2, 3.0, 10.0, 1.0];
        close(&[at(&(&joint.z * &scale + &array![5.0, -1.0, 0.0, 2.0]))], &[at(&joint.z)], ROUNDING);
        let g = Array2::from_shape_fn((n, d), |(i, j)| {
            let by = |h: f64| {
                let mut z = joint.z.clone();
                z[[i, j]] += h;
                at(&z)
            };
            (by(STEP) - by(-STEP)) / (2.0 * STEP)
        });
        assert!(g.mapv(|v| v * v).sum() > 1e-3);
        close(&g.sum_axis(Axis(0)), &Array1::zeros(d), DIFFERENCES);
        close(&(&g * &joint.z).sum_axis(Axis(0)), &Array1::zeros(d), DIFFERENCES);
    }
}
