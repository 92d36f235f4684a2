//! The equations of the chapter "Differentiating a linear program".

use super::common::close;
use lastlayer::linalg::solve;
use lastlayer::lp::{
    Gradients, Lp, Matrix, NewtonLp, PenaltyNewton, PenaltyPoint, Solution, Solver, active_set, envelope,
    one_step, penalty_implicit,
};
use lastlayer::ndarray::{Array1, Array2, Axis, array, s};
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(2021);

/// Solves of well-conditioned systems of at most four unknowns, and sums of their results.
const ROUNDING: f64 = 1e-10;
/// Central differences of values of size one with a step of 1e-5: rounding over the step, and the square of the step,
/// times what ill-conditioned vertices add.
const DIFFERENCES: f64 = 1e-6;
const STEP: f64 = 1e-5;
/// What the solver's certificate of 1e-9 leaves of z and v, times the condition of a vertex.
const SOLVER: f64 = 1e-7;
/// How far from a kink random programs are kept, so that a difference quotient does not cross one.
const CLEAR: f64 = 0.02;

/// min cᵀz subject to A z ≤ b, in which any number may be changed.
#[derive(Clone)]
struct Program {
    a: Array2<f64>,
    b: Array1<f64>,
    c: Array1<f64>,
}

/// A vertex with its multipliers and active rows.
#[derive(Clone)]
struct Vertex {
    z: Array1<f64>,
    v: Array1<f64>,
    rows: Vec<usize>,
}

/// Derivatives of a loss in the three parts of a program.
struct Bars {
    a: Array2<f64>,
    b: Array1<f64>,
    c: Array1<f64>,
}

impl Program {
    fn new(a: Array2<f64>, b: &[f64], c: &[f64]) -> Program {
        Program { a, b: Array1::from(b.to_vec()), c: Array1::from(c.to_vec()) }
    }

    fn lp(&self) -> Lp {
        Lp::new(Matrix::Dense(self.a.clone()), &self.b.to_vec(), &self.c.to_vec()).unwrap()
    }

    fn n(&self) -> usize {
        self.c.len()
    }

    /// What the library's solver finds.
    fn solution(&self) -> Solution {
        let found = NewtonLp::default().solve(&self.lp()).unwrap();
        found.optimal().unwrap();
        found
    }

    fn rows(&self, j: &[usize]) -> (Array2<f64>, Array1<f64>) {
        (self.a.select(Axis(0), j), self.b.select(Axis(0), j))
    }

    /// Feasible to rounding.
    fn allows(&self, z: &Array1<f64>) -> bool {
        (self.a.dot(z) - &self.b).iter().all(|r| *r <= 1e-9)
    }

    /// The optimal vertex by trying every set of n rows: the certificate, and nothing else, decides.
    fn vertex(&self) -> Option<Vertex> {
        subsets(self.b.len(), self.n()).into_iter().find_map(|rows| {
            let (a, b) = self.rows(&rows);
            let z = solve(&a, &b).ok()?;
            let v_j = solve(&a.t().to_owned(), &-&self.c).ok()?;
            if !self.allows(&z) || v_j.iter().any(|v| *v < 0.0) {
                return None;
            }
            let mut v = Array1::zeros(self.b.len());
            rows.iter().zip(&v_j).for_each(|(r, x)| v[*r] = *x);
            Some(Vertex { z, v, rows })
        })
    }

    fn value(&self) -> f64 {
        self.c.dot(&self.vertex().expect("an optimal vertex").z)
    }

    fn penalty(&self, epsilon: f64) -> PenaltyPoint {
        let newton = PenaltyNewton { epsilon, tolerance: 1e-12, ..PenaltyNewton::default() };
        let point = newton.solve(&self.lp()).unwrap();
        assert!(point.converged, "penalty with epsilon {epsilon}: gradient {}", point.gradient);
        point
    }

    fn y(&self, epsilon: f64) -> Array1<f64> {
        Array1::from(self.penalty(epsilon).y)
    }

    /// A y − b, the rows where it is positive, and AᵀDA.
    fn piece(&self, y: &Array1<f64>) -> (Array1<f64>, Array1<f64>, Array2<f64>) {
        let r = self.a.dot(y) - &self.b;
        let d = r.mapv(|r| f64::from(u8::from(r > 0.0)));
        let h = self.a.t().dot(&(&self.a * &d.clone().insert_axis(Axis(1))));
        (r, d, h)
    }
}

/// All sets of k of the numbers below m, in order.
fn subsets(m: usize, k: usize) -> Vec<Vec<usize>> {
    (0u32..1 << m)
        .filter(|set| set.count_ones() as usize == k)
        .map(|set| (0..m).filter(|i| set >> i & 1 == 1).collect())
        .collect()
}

fn outer(u: &Array1<f64>, w: &Array1<f64>) -> Array2<f64> {
    u.clone().insert_axis(Axis(1)).dot(&w.clone().insert_axis(Axis(0)))
}

fn plus(r: &Array1<f64>) -> Array1<f64> {
    r.mapv(|r| r.max(0.0))
}

/// A number of about standard normal size.
fn noise(seed: Seed, i: u64) -> f64 {
    seed.irwin_hall(12 * i)
}

fn noises(seed: Seed, n: usize) -> Array1<f64> {
    (0..n as u64).map(|i| noise(seed, i)).collect()
}

/// A feasible and bounded program, whatever the draw: b leaves room around a point and −c is a mix of rows.
fn random(m: usize, n: usize, seed: Seed) -> Program {
    let a = Array2::from_shape_fn((m, n), |(i, j)| noise(seed.named("A"), (i * n + j) as u64));
    let (inside, room) = (noises(seed.named("z"), n), seed.named("room"));
    let b = a.dot(&inside) + (0..m as u64).map(|i| 0.1 + room.uniform(i)).collect::<Array1<f64>>();
    let mix: Array1<f64> = (0..m as u64).map(|i| seed.named("mix").uniform(i)).collect();
    let c = -a.t().dot(&mix);
    Program { a, b, c }
}

/// Random programs with a proper vertex that small changes do not lose.
fn proper(count: usize, about: &str) -> Vec<(Program, Vertex)> {
    let programs = (0..).map(|i| random(7, 3, SEED.named(about).stream(i)));
    let clear = programs.filter_map(|p| {
        let x = p.vertex()?;
        let slack = &p.b - &p.a.dot(&x.z);
        let inactive = (0..p.b.len()).filter(|r| !x.rows.contains(r)).all(|r| slack[r] > CLEAR);
        (inactive && x.rows.iter().all(|r| x.v[*r] > CLEAR) && x.z.iter().all(|z| z.abs() < 10.0))
            .then_some((p, x))
    });
    clear.take(count).collect()
}

/// Whether a penalty minimiser stays on its piece when the data move a little.
fn clear_of_kinks(p: &Program, y: &Array1<f64>) -> bool {
    let (r, d, _) = p.piece(y);
    r.iter().all(|r| r.abs() > 1e-3) && d.sum() >= p.n() as f64
}

/// Central differences of a loss in every number of a program.
fn numeric(p: &Program, loss: impl Fn(&Program) -> f64) -> Bars {
    let quotient = |change: &dyn Fn(&mut Program, f64)| {
        let at = |by: f64| {
            let mut moved = p.clone();
            change(&mut moved, by);
            loss(&moved)
        };
        (at(STEP) - at(-STEP)) / (2.0 * STEP)
    };
    Bars {
        a: Array2::from_shape_fn(p.a.dim(), |at| quotient(&|p, by| p.a[at] += by)),
        b: (0..p.b.len()).map(|i| quotient(&|p, by| p.b[i] += by)).collect(),
        c: (0..p.n()).map(|i| quotient(&|p, by| p.c[i] += by)).collect(),
    }
}

/// What the library says, written out.
fn bars(of: &Gradients) -> Bars {
    Bars { a: of.A.to_dense(), b: Array1::from(of.b.clone()), c: Array1::from(of.c.clone()) }
}

#[track_caller]
fn same(found: &Bars, wanted: &Bars, tolerance: f64) {
    close(&found.a, &wanted.a, tolerance);
    close(&found.b, &wanted.b, tolerance);
    close(&found.c, &wanted.c, tolerance);
}

/// The rules of the chapter, written as in its equations.
mod rules {
    use super::*;

    fn spread(p: &Program, j: &[usize], a_j: &Array2<f64>, b_j: &Array1<f64>, c: Array1<f64>) -> Bars {
        let (mut a, mut b) = (Array2::zeros(p.a.dim()), Array1::zeros(p.b.len()));
        for (k, r) in j.iter().enumerate() {
            a.row_mut(*r).assign(&a_j.row(k));
            b[*r] = b_j[k];
        }
        Bars { a, b, c }
    }

    pub fn envelope(z: &Array1<f64>, v: &Array1<f64>) -> Bars {
        Bars { a: outer(v, z), b: -v, c: z.clone() }
    }

    pub fn active(p: &Program, j: &[usize], z: &Array1<f64>, z_bar: &Array1<f64>) -> Bars {
        let w = solve(&p.rows(j).0.t().to_owned(), z_bar).unwrap();
        spread(p, j, &-outer(&w, z), &w, Array1::zeros(p.n()))
    }

    pub fn ridge(p: &Program, j: &[usize], delta: f64, z_bar: &Array1<f64>) -> (Array1<f64>, Bars) {
        let (a, b) = p.rows(j);
        let m = a.t().dot(&a) + delta * Array2::<f64>::eye(p.n());
        let z = solve(&m, &a.t().dot(&b)).unwrap();
        let (w, r) = (solve(&m, z_bar).unwrap(), &b - &a.dot(&z));
        let aw = a.dot(&w);
        let bars = spread(p, j, &(outer(&r, &w) - outer(&aw, &z)), &aw, Array1::zeros(p.n()));
        (z, bars)
    }

    pub fn penalty(p: &Program, epsilon: f64, y: &Array1<f64>, y_bar: &Array1<f64>) -> Bars {
        let (r, d, h) = p.piece(y);
        let w = solve(&h, y_bar).unwrap();
        let daw = d * p.a.dot(&w);
        Bars { a: -(outer(&plus(&r), &w) + outer(&daw, y)), b: daw, c: -epsilon * w }
    }

    /// Newton steps from a constant start, and their derivative.
    pub struct Unrolled {
        pub epsilon: f64,
        pub delta: f64,
        pub step: f64,
        pub steps: usize,
    }

    impl Unrolled {
        fn matrix(
            &self,
            p: &Program,
            y: &Array1<f64>,
        ) -> (Array1<f64>, Array1<f64>, Array2<f64>, Array1<f64>) {
            let (r, d, h) = p.piece(y);
            let q = h + self.delta * Array2::<f64>::eye(p.n());
            let g = p.a.t().dot(&plus(&r)) + self.epsilon * &p.c;
            let direction = -solve(&q, &g).unwrap();
            (r, d, q, direction)
        }

        pub fn run(&self, p: &Program, start: &Array1<f64>) -> Vec<Array1<f64>> {
            let mut y = vec![start.clone()];
            for k in 0..self.steps {
                y.push(&y[k] + self.step * self.matrix(p, &y[k]).3);
            }
            y
        }

        pub fn backward(&self, p: &Program, start: &Array1<f64>, y_bar: &Array1<f64>) -> Bars {
            let path = self.run(p, start);
            let (mut a, mut b, mut c) =
                (Array2::zeros(p.a.dim()), Array1::zeros(p.b.len()), Array1::zeros(p.n()));
            let mut y_bar = y_bar.clone();
            for y in path[..self.steps].iter().rev() {
                let (r, d, q_matrix, direction) = self.matrix(p, y);
                let pull = self.step * solve(&q_matrix, &y_bar).unwrap();
                let q = -&d * p.a.dot(&pull);
                let da = &p.a * &d.insert_axis(Axis(1));
                let both = outer(&pull, &direction) + outer(&direction, &pull);
                a = a + outer(&q, y) - outer(&plus(&r), &pull) - da.dot(&both);
                c = c - self.epsilon * &pull;
                b -= &q;
                y_bar = y_bar + p.a.t().dot(&q);
            }
            Bars { a, b, c }
        }
    }
}

/// The chapter's example: maximise z₁ + 2 z₂ where z₁ + z₂ ≤ 4, z₁ + 3 z₂ ≤ 6, z ≥ 0.
fn example() -> Program {
    Program::new(
        array![[1.0, 1.0], [1.0, 3.0], [-1.0, 0.0], [0.0, -1.0]],
        &[4.0, 6.0, 0.0, 0.0],
        &[-1.0, -2.0],
    )
}

#[test]
fn a_proper_vertex_keeps_its_active_rows() {
    for (i, (p, x)) in proper(20, "vertex").into_iter().enumerate() {
        let seed = SEED.named("moves").stream(i as u64);
        for k in 0..20 {
            let seed = seed.stream(k);
            let small = 1e-4;
            let mut q = p.clone();
            q.a.iter_mut().enumerate().for_each(|(i, v)| *v += small * noise(seed.named("A"), i as u64));
            q.b = q.b + small * noises(seed.named("b"), p.b.len());
            q.c = q.c + small * noises(seed.named("c"), p.n());
            let moved = q.vertex().unwrap();
            assert_eq!(moved.rows, x.rows, "program {i}, change {k}");
            // Another solver, which does not know the rows, finds the same point.
            let found = q.solution();
            close(&found.z, &moved.z, SOLVER);
            close(&found.v, &moved.v, SOLVER);
        }
    }
}

#[test]
fn the_value_changes_by_the_dual_and_the_solution() {
    for (p, x) in proper(20, "envelope") {
        let rule = rules::envelope(&x.z, &x.v);
        same(&rule, &numeric(&p, Program::value), DIFFERENCES);
        same(&bars(&envelope(&p.solution())), &rule, SOLVER);
    }
}

#[test]
fn the_two_row_example_has_the_gradients_worked_out_by_hand() {
    let p = example();
    let x = p.vertex().unwrap();
    close(&x.z, &[3.0, 1.0], ROUNDING);
    close(&x.v, &[0.5, 0.5, 0.0, 0.0], ROUNDING);
    close(&[p.value()], &[-5.0], ROUNDING);
    let value = rules::envelope(&x.z, &x.v);
    close(&value.b, &[-0.5, -0.5, 0.0, 0.0], ROUNDING);
    close(&value.a, &[1.5, 0.5, 1.5, 0.5, 0.0, 0.0, 0.0, 0.0], ROUNDING);
    same(&value, &numeric(&p, Program::value), DIFFERENCES);

    let z_bar = array![1.0, 0.0];
    let solution = rules::active(&p, &x.rows, &x.z, &z_bar);
    close(&solution.b, &[1.5, -0.5, 0.0, 0.0], ROUNDING);
    close(&solution.a, &[-4.5, -1.5, 1.5, 0.5, 0.0, 0.0, 0.0, 0.0], ROUNDING);
    same(&solution, &numeric(&p, |p| p.vertex().unwrap().z[0]), DIFFERENCES);

    for epsilon in [0.1, 1.0, 3.0] {
        let y = p.y(epsilon);
        close(&y, &[3.0 + 0.5 * epsilon, 1.0], ROUNDING);
        let bars = rules::penalty(&p, epsilon, &y, &z_bar);
        close(&bars.b, &[1.5, -0.5, 0.0, 0.0], ROUNDING);
        close(&bars.c, &[-2.5 * epsilon, epsilon], ROUNDING);
    }
}

#[test]
fn every_dual_supports_the_value_from_below_and_every_solution_from_above() {
    // Three rows meet at (1, 1); (1 − s, 3/2 − s, s) is a dual for every s in [0, 1]. The sign rows close the set.
    let a = array![[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]];
    let p = Program::new(a.clone(), &[1.0, 1.0, 2.0, 0.0, 0.0], &[-1.0, -1.5]);
    let value = p.value();
    let mut tight = 0;
    for i in 0..500 {
        let seed = SEED.named("supports").stream(i);
        let mut moved = p.clone();
        // Bounds that stay above zero leave the feasible set non-empty.
        moved
            .b
            .iter_mut()
            .take(3)
            .enumerate()
            .for_each(|(i, b)| *b += 0.9 * (2.0 * seed.uniform(i as u64) - 1.0));
        for s in [0.0, 0.3, 5.0 / 6.0, 1.0] {
            let v = array![1.0 - s, 1.5 - s, s, 0.0, 0.0];
            close(&(p.a.t().dot(&v) + &p.c), &[0.0, 0.0], ROUNDING);
            let bound = value - v.dot(&(&moved.b - &p.b));
            assert!(
                moved.value() >= bound - ROUNDING,
                "draw {i}, split {s}: {} below {bound}",
                moved.value()
            );
            tight += usize::from(moved.value() < bound + ROUNDING);
        }
    }
    assert!(tight > 50, "the bounds should be attained often, not {tight} times");

    // Both rows of the cost −(1, 1) are solved by the whole edge between (1, 1/2) and (1/2, 1).
    let edge = Program::new(a, &[1.0, 1.0, 1.5, 0.0, 0.0], &[-1.0, -1.0]);
    for i in 0..500 {
        let seed = SEED.named("costs").stream(i);
        let moved = Program { c: noises(seed, 2), ..edge.clone() };
        for share in [0.0, 0.4, 1.0] {
            let z = array![1.0 - 0.5 * share, 0.5 + 0.5 * share];
            let bound = edge.value() + z.dot(&(&moved.c - &edge.c));
            assert!(moved.value() <= bound + ROUNDING, "draw {i}, share {share}");
        }
    }
}

#[test]
fn the_penalised_value_obeys_the_envelope_for_every_epsilon() {
    for (p, x) in proper(4, "penalised value") {
        for epsilon in [0.01, 0.3, 3.0] {
            let point = p.penalty(epsilon);
            let found = rules::envelope(&Array1::from(point.y.clone()), &Array1::from(point.v.clone()));
            same(&found, &numeric(&p, |p| p.penalty(epsilon).value), DIFFERENCES);
            same(&bars(&point.envelope()), &found, ROUNDING);
            // It is another function than the value: its dual moves with ε.
            assert!(point.value <= p.c.dot(&x.z) + ROUNDING);
        }
    }
}

#[test]
fn the_active_set_rule_matches_finite_differences() {
    for (i, (p, x)) in proper(20, "active set").into_iter().enumerate() {
        let z_bar = noises(SEED.named("cotangents").stream(i as u64), p.n());
        let found = rules::active(&p, &x.rows, &x.z, &z_bar);
        same(&found, &numeric(&p, |p| z_bar.dot(&p.vertex().unwrap().z)), DIFFERENCES);
        same(&bars(&active_set(&p.lp(), &p.solution(), &z_bar.to_vec()).unwrap()), &found, SOLVER);
    }
}

#[test]
fn the_ridge_rule_matches_finite_differences_and_shrinks() {
    for (i, (p, x)) in proper(10, "ridge").into_iter().enumerate() {
        let z_bar = noises(SEED.named("cotangents").stream(i as u64), p.n());
        for delta in [1e-2, 1.0] {
            let (_, found) = rules::ridge(&p, &x.rows, delta, &z_bar);
            let loss = |p: &Program| z_bar.dot(&rules::ridge(p, &x.rows, delta, &z_bar).0);
            same(&found, &numeric(&p, loss), DIFFERENCES);
        }
    }
    // Two orthonormal rows: the published shift of 10⁻² gives 0.990099 times the solution.
    let turn = array![[0.6, 0.8], [-0.8, 0.6]];
    let p = Program::new(turn, &[1.0, 2.0], &[-1.0, -1.0]);
    let (z, _) = rules::ridge(&p, &[0, 1], 1e-2, &array![1.0, 0.0]);
    let exact = solve(&p.a, &p.b).unwrap();
    close(&z, &(exact * 0.990_099_009_900_990_1), ROUNDING);
}

#[test]
fn the_penalty_rule_matches_finite_differences() {
    let mut tested = 0;
    for (i, (p, _)) in proper(10, "penalty").into_iter().enumerate() {
        let y_bar = noises(SEED.named("cotangents").stream(i as u64), p.n());
        for epsilon in [0.05, 0.5] {
            let point = p.penalty(epsilon);
            let y = Array1::from(point.y.clone());
            if clear_of_kinks(&p, &y) {
                let found = rules::penalty(&p, epsilon, &y, &y_bar);
                same(&found, &numeric(&p, |p| y_bar.dot(&p.y(epsilon))), DIFFERENCES);
                same(
                    &bars(&penalty_implicit(&p.lp(), &point, &y_bar.to_vec(), None).unwrap()),
                    &found,
                    ROUNDING,
                );
                tested += 1;
            }
        }
    }
    assert!(tested >= 10, "only {tested} programs stayed clear of kinks");
}

#[test]
fn the_dual_output_adds_its_own_cotangent() {
    let mut tested = 0;
    for (i, (p, _)) in proper(10, "dual output").into_iter().enumerate() {
        let seed = SEED.named("cotangents").stream(i as u64);
        let (y_bar, v_bar) = (noises(seed, p.n()), noises(seed.named("v"), p.b.len()));
        let epsilon = 0.5;
        let point = p.penalty(epsilon);
        let y = Array1::from(point.y.clone());
        if !clear_of_kinks(&p, &y) {
            continue;
        }
        let (_, d, _) = p.piece(&y);
        let r_bar = d * &v_bar / epsilon;
        let mut found = rules::penalty(&p, epsilon, &y, &(&y_bar + &p.a.t().dot(&r_bar)));
        found.b -= &r_bar;
        found.a = found.a + outer(&r_bar, &y);
        let loss = |p: &Program| {
            let point = p.penalty(epsilon);
            y_bar.dot(&Array1::from(point.y)) + v_bar.dot(&Array1::from(point.v))
        };
        same(&found, &numeric(&p, loss), DIFFERENCES);
        let library = penalty_implicit(&p.lp(), &point, &y_bar.to_vec(), Some(&v_bar.to_vec())).unwrap();
        same(&bars(&library), &found, ROUNDING);
        tested += 1;
    }
    assert!(tested >= 5, "only {tested} programs stayed clear of kinks");
}

/// An ε at which exactly the active rows of the vertex are violated, and y(ε).
fn on_the_path(p: &Program, x: &Vertex) -> (f64, Array1<f64>) {
    let mut epsilon = 0.1;
    loop {
        let y = p.y(epsilon);
        let (_, d, _) = p.piece(&y);
        let violated: Vec<usize> = (0..p.b.len()).filter(|r| d[*r] > 0.0).collect();
        if violated == x.rows {
            return (epsilon, y);
        }
        epsilon /= 4.0;
        assert!(epsilon > 1e-6, "no epsilon found");
    }
}

#[test]
fn penalty_and_active_set_agree_in_b_exactly_and_in_a_to_first_order() {
    for (i, (p, x)) in proper(20, "agree").into_iter().enumerate() {
        let bar = noises(SEED.named("cotangents").stream(i as u64), p.n());
        let (epsilon, y) = on_the_path(&p, &x);
        let (found, exact) = (rules::penalty(&p, epsilon, &y, &bar), rules::active(&p, &x.rows, &x.z, &bar));
        close(&found.b, &exact.b, ROUNDING);

        let (a_j, _) = p.rows(&x.rows);
        let v_j = x.v.select(Axis(0), &x.rows);
        let w = solve(&a_j.t().dot(&a_j), &bar).unwrap();
        let b_j = exact.b.select(Axis(0), &x.rows);
        let error = -epsilon * (outer(&v_j, &w) + outer(&b_j, &solve(&a_j, &v_j).unwrap()));
        close(&(&found.a - &exact.a).select(Axis(0), &x.rows), &error, ROUNDING);
        close(&found.c, &(-epsilon * &w), ROUNDING);
        // The error in A is not zero: the claim "to first order" cannot be improved.
        assert!(error.iter().any(|e| e.abs() > 1e-3 * epsilon), "program {i}");
    }
}

#[test]
fn richardson_removes_the_penalty_from_every_gradient() {
    for (i, (p, x)) in proper(20, "richardson").into_iter().enumerate() {
        let bar = noises(SEED.named("cotangents").stream(i as u64), p.n());
        let (epsilon, y) = on_the_path(&p, &x);
        let half = p.y(0.5 * epsilon);
        close(&(2.0 * &half - &y), &x.z, ROUNDING);
        let (fine, coarse) = (
            rules::penalty(&p, 0.5 * epsilon, &half, &(2.0 * &bar)),
            rules::penalty(&p, epsilon, &y, &-&bar),
        );
        let sum = Bars { a: fine.a + coarse.a, b: fine.b + coarse.b, c: fine.c + coarse.c };
        same(&sum, &rules::active(&p, &x.rows, &x.z, &bar), ROUNDING);
    }
}

#[test]
fn unrolled_steps_match_finite_differences() {
    let mut tested = 0;
    for (i, (p, _)) in proper(12, "unrolled").into_iter().enumerate() {
        let seed = SEED.named("cotangents").stream(i as u64);
        let (y_bar, start) = (noises(seed, p.n()), noises(seed.named("start"), p.n()));
        let newton = rules::Unrolled { epsilon: 0.3, delta: 0.2, step: 0.8, steps: 4 };
        if !newton.run(&p, &start).iter().all(|y| p.piece(y).0.iter().all(|r| r.abs() > 1e-3)) {
            continue;
        }
        let found = newton.backward(&p, &start, &y_bar);
        same(&found, &numeric(&p, |p| y_bar.dot(&newton.run(p, &start)[newton.steps])), DIFFERENCES);
        tested += 1;
    }
    assert!(tested >= 6, "only {tested} programs stayed clear of kinks");
}

#[test]
fn one_full_step_gives_the_implicit_gradient_and_damped_ones_a_part_of_it() {
    let epsilon = 0.2;
    let mut tested = 0;
    for (i, (p, _)) in proper(12, "one step").into_iter().enumerate() {
        let y_bar = noises(SEED.named("cotangents").stream(i as u64), p.n());
        let point = p.penalty(epsilon);
        let y = Array1::from(point.y.clone());
        if !clear_of_kinks(&p, &y) {
            continue;
        }
        tested += 1;
        let library = one_step(&p.lp(), &point, &y_bar.to_vec()).unwrap();
        same(&bars(&library), &rules::penalty(&p, epsilon, &y, &y_bar), ROUNDING);
        for (delta, step, steps) in [(0.0, 1.0, 1), (0.5, 1.0, 1), (0.0, 0.3, 3), (2.0, 0.7, 4)] {
            let newton = rules::Unrolled { epsilon, delta, step, steps };
            let found = newton.backward(&p, &y, &y_bar);
            let h = p.piece(&y).2;
            let eye = Array2::<f64>::eye(p.n());
            let shifted = &h + &(delta * &eye);
            let columns: Vec<_> =
                (0..p.n()).map(|j| solve(&shifted, &h.column(j).to_owned()).unwrap()).collect();
            let k = &eye - &(step * Array2::from_shape_fn(h.dim(), |(i, j)| columns[j][i]));
            let missing = (0..steps).fold(y_bar.clone(), |u, _| k.t().dot(&u));
            same(&found, &rules::penalty(&p, epsilon, &y, &(&y_bar - &missing)), ROUNDING);
            if delta == 0.0 && step == 1.0 {
                same(&found, &rules::penalty(&p, epsilon, &y, &y_bar), ROUNDING);
            }
        }
    }
    assert!(tested >= 6, "only {tested} programs stayed clear of kinks");
}

#[test]
fn the_solution_does_not_move_while_the_cost_stays_in_its_cone() {
    let (mut inside, mut outside) = (0, 0);
    for (i, (p, x)) in proper(20, "cone").into_iter().enumerate() {
        let (a_j, _) = p.rows(&x.rows);
        for k in 0..50 {
            let seed = SEED.named("costs").stream(i as u64).stream(k);
            let moved = Program { c: &p.c + &(2.0 * noises(seed, p.n())), ..p.clone() };
            let v_j = solve(&a_j.t().to_owned(), &-&moved.c).unwrap();
            let Some(other) = moved.vertex() else { continue };
            if v_j.iter().all(|v| *v > 0.0) {
                close(&other.z, &x.z, ROUNDING);
                inside += 1;
            } else {
                assert!((&other.z - &x.z).iter().any(|d| d.abs() > 1e-6), "program {i}, cost {k}");
                outside += 1;
            }
        }
    }
    assert!(inside > 50 && outside > 50, "{inside} inside, {outside} outside");

    let at = |q: f64| Program { c: array![-1.0, -q], ..example() }.vertex().unwrap().z;
    for q in [1.01, 2.0, 2.99] {
        close(&at(q), &[3.0, 1.0], ROUNDING);
    }
    close(&at(3.01), &[0.0, 2.0], ROUNDING);
}

/// The point of a polyhedron closest to −c/δ with its active rows and multipliers, by trying sets of rows.
fn quadratic(p: &Program, delta: f64) -> Vertex {
    let n = p.n();
    (0..=n)
        .flat_map(|k| subsets(p.b.len(), k))
        .find_map(|rows| {
            let (a, b) = p.rows(&rows);
            let k = rows.len();
            let mut kkt = Array2::zeros((n + k, n + k));
            kkt.slice_mut(s![..n, ..n]).assign(&(delta * Array2::<f64>::eye(n)));
            kkt.slice_mut(s![..n, n..]).assign(&a.t());
            kkt.slice_mut(s![n.., ..n]).assign(&a);
            let rhs: Array1<f64> = p.c.iter().map(|c| -c).chain(b.iter().copied()).collect();
            let x = solve(&kkt, &rhs).ok()?;
            let (z, v_j) = (x.slice(s![..n]).to_owned(), x.slice(s![n..]).to_owned());
            if !p.allows(&z) || v_j.iter().any(|v| *v < 0.0) {
                return None;
            }
            let mut v = Array1::zeros(p.b.len());
            rows.iter().zip(&v_j).for_each(|(r, x)| v[*r] = *x);
            Some(Vertex { z, v, rows })
        })
        .expect("a polyhedron with a closest point")
}

/// The backward rule of the quadratic program, from its linear system.
fn quadratic_bars(p: &Program, delta: f64, x: &Vertex, z_bar: &Array1<f64>) -> Bars {
    let (n, k) = (p.n(), x.rows.len());
    let (a_j, _) = p.rows(&x.rows);
    let mut kkt = Array2::zeros((n + k, n + k));
    kkt.slice_mut(s![..n, ..n]).assign(&(delta * Array2::<f64>::eye(n)));
    kkt.slice_mut(s![..n, n..]).assign(&a_j.t());
    kkt.slice_mut(s![n.., ..n]).assign(&a_j);
    let rhs: Array1<f64> = z_bar.iter().map(|z| -z).chain(std::iter::repeat_n(0.0, k)).collect();
    let x_bar = solve(&kkt, &rhs).unwrap();
    let (d, w) = (x_bar.slice(s![..n]).to_owned(), x_bar.slice(s![n..]).to_owned());
    let v_j = x.v.select(Axis(0), &x.rows);
    let a = outer(&w, &x.z) + outer(&v_j, &d);
    let mut bars = Bars { a: Array2::zeros(p.a.dim()), b: Array1::zeros(p.b.len()), c: d };
    for (i, r) in x.rows.iter().enumerate() {
        bars.a.row_mut(*r).assign(&a.row(i));
        bars.b[*r] = -w[i];
    }
    bars
}

#[test]
fn the_quadratic_rule_matches_finite_differences() {
    let mut faces = [0; 4];
    for i in 0..60 {
        let p = random(7, 3, SEED.named("quadratic").stream(i));
        let z_bar = noises(SEED.named("cotangents").stream(i), p.n());
        let delta = [0.1, 1.0, 5.0][i as usize % 3];
        let x = quadratic(&p, delta);
        let slack = &p.b - &p.a.dot(&x.z);
        let clear =
            (0..p.b.len()).all(|r| if x.rows.contains(&r) { x.v[r] > CLEAR } else { slack[r] > CLEAR });
        if !clear {
            continue;
        }
        faces[x.rows.len()] += 1;
        let found = quadratic_bars(&p, delta, &x, &z_bar);
        same(&found, &numeric(&p, |p| z_bar.dot(&quadratic(p, delta).z)), DIFFERENCES);
        // The second line: the part of −z̄/δ along the face.
        let (a_j, _) = p.rows(&x.rows);
        let along = if x.rows.is_empty() {
            z_bar.clone()
        } else {
            let shadow = solve(&a_j.dot(&a_j.t()), &a_j.dot(&z_bar)).unwrap();
            &z_bar - &a_j.t().dot(&shadow)
        };
        close(&found.c, &(-along / delta), ROUNDING);
    }
    assert!(faces[1] > 0 && faces[2] > 0 && faces[3] > 0, "edges, faces and vertices: {faces:?}");
}

#[test]
fn a_small_quadratic_term_leaves_the_vertex_and_its_zero_gradient() {
    let p = example();
    let z_bar = array![1.0, 0.0];
    for delta in [1e-3, 0.05, 0.124] {
        let x = quadratic(&p, delta);
        close(&x.z, &[3.0, 1.0], ROUNDING);
        let found = quadratic_bars(&p, delta, &x, &z_bar);
        close(&found.c, &[0.0, 0.0], ROUNDING);
        // At a vertex nothing is left of the quadratic term.
        same(&found, &rules::active(&p, &x.rows, &x.z, &z_bar), ROUNDING);
    }
    assert_eq!(quadratic(&p, 0.126).rows, [1]);
    let x = quadratic(&p, 0.25);
    close(&x.z, &[1.8, 1.4], ROUNDING);
    close(&quadratic_bars(&p, 0.25, &x, &z_bar).c, &[-3.6, 1.2], ROUNDING);
}

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Integral by Simpson's rule.
fn simpson(low: f64, high: f64, f: impl Fn(f64) -> f64) -> f64 {
    let steps = 2000;
    let step = (high - low) / steps as f64;
    let weight = |i: usize| if i == 0 || i == steps { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
    (0..=steps).map(|i| weight(i) * f(low + i as f64 * step)).sum::<f64>() * step / 3.0
}

#[test]
fn noise_makes_the_solution_differentiable_in_the_cost() {
    // Beyond ten standard deviations the normal density is below 1e-22.
    const FAR: f64 = 10.0;
    // Simpson's rule with steps of 1/100 on a smooth integrand.
    const INTEGRAL: f64 = 1e-9;
    // On [−1, 1], z(c) = −sgn c jumps where c + ςZ = 0; integrate on both sides of it.
    for (c, width) in [(0.0, 1.0), (0.3, 0.5), (-1.2, 2.0)] {
        let mean = |c: f64| simpson(-FAR, -c / width, density) - simpson(-c / width, FAR, density);
        let normal = |x: f64| simpson(-FAR, x, density);
        close(&[mean(c)], &[1.0 - 2.0 * normal(c / width)], INTEGRAL);
        let moment = |z: f64| z * density(z);
        let slope = (simpson(-FAR, -c / width, moment) - simpson(-c / width, FAR, moment)) / width;
        close(&[slope], &[-2.0 * density(c / width) / width], INTEGRAL);
        close(&[slope], &[(mean(c + STEP) - mean(c - STEP)) / (2.0 * STEP)], DIFFERENCES);
    }

    // In the plane: the mean over costs on a fixed grid, weighted by the density around c, which alone depends on c.
    let (p, width, z_bar) = (example(), 1.0, array![1.0, 0.0]);
    let corners = [array![0.0, 0.0], array![4.0, 0.0], array![3.0, 1.0], array![0.0, 2.0]];
    let z = |c: &Array1<f64>| {
        let best = corners.iter().min_by(|a, b| a.dot(c).total_cmp(&b.dot(c))).unwrap();
        best.clone()
    };
    close(&z(&p.c), &p.vertex().unwrap().z, ROUNDING);
    let (grid, cell) = (-90..90, 0.1);
    let costs: Vec<Array1<f64>> = grid
        .clone()
        .flat_map(|i| grid.clone().map(move |j| array![f64::from(i) + 0.5, f64::from(j) + 0.5] * cell))
        .collect();
    let solved: Vec<f64> = costs.iter().map(|x| z_bar.dot(&z(x))).collect();
    let weight = |x: &Array1<f64>, c: &Array1<f64>| {
        let u = (x - c) / width;
        density(u[0]) * density(u[1]) * cell * cell / (width * width)
    };
    let mean = |c: &Array1<f64>| costs.iter().zip(&solved).map(|(x, z)| z * weight(x, c)).sum::<f64>();
    let baseline = z_bar.dot(&z(&p.c));
    for k in 0..2 {
        let rule: f64 = costs
            .iter()
            .zip(&solved)
            .map(|(x, z)| (z - baseline) * (x[k] - p.c[k]) / width * weight(x, &p.c))
            .sum::<f64>()
            / width;
        let by = |h: f64| {
            let mut c = p.c.clone();
            c[k] += h;
            mean(&c)
        };
        close(&[rule], &[(by(STEP) - by(-STEP)) / (2.0 * STEP)], DIFFERENCES);
        assert!(rule.abs() > 0.01, "a derivative that is not zero: {rule}");
    }
}

#[test]
fn the_blackbox_gradient_is_the_envelope_of_a_difference_of_values() {
    let mut moved = 0;
    for (i, (p, x)) in proper(20, "blackbox").into_iter().enumerate() {
        let z_bar = noises(SEED.named("cotangents").stream(i as u64), p.n());
        for delta in [0.3, 2.0] {
            let shifted = |p: &Program| Program { c: &p.c + &(delta * &z_bar), ..p.clone() };
            let Some(other) = shifted(&p).vertex() else { continue };
            if other.rows.iter().any(|r| other.v[*r] < CLEAR) {
                continue;
            }
            let rule = (&other.z - &x.z) / delta;
            let quotient = |p: &Program| (shifted(p).value() - p.value()) / delta;
            close(&rule, &numeric(&p, quotient).c, DIFFERENCES);
            let (low, high) = (z_bar.dot(&other.z), z_bar.dot(&x.z));
            let middle = quotient(&p);
            assert!(low <= middle + ROUNDING && middle <= high + ROUNDING, "{low} {middle} {high}");
            moved += usize::from(low < high - ROUNDING);
        }
    }
    assert!(moved > 5, "only {moved} second solves found another vertex");

    let p = example();
    let second = |delta: f64| Program { c: &p.c + &array![delta, 0.0], ..p.clone() }.vertex().unwrap().z;
    close(&second(0.33), &[3.0, 1.0], ROUNDING);
    close(&((second(0.5) - p.vertex().unwrap().z) / 0.5), &[-6.0, 2.0], ROUNDING);
}

#[test]
fn rows_with_positive_dual_lose_the_gradient_of_an_equation() {
    // min −z₂ where z₂ ≤ 1 and z₁ = q, the equation as two rows.
    let with =
        |q: f64| Program::new(array![[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]], &[1.0, q, -q], &[0.0, -1.0]);
    let p = with(5.0);
    let z_1 = |q: f64| with(q).vertex().unwrap().z[0];
    close(&[(z_1(5.0 + STEP) - z_1(5.0 - STEP)) / (2.0 * STEP)], &[1.0], DIFFERENCES);

    // The least-norm dual is positive in the first row only, whose pseudo-inverse is its transpose.
    let point = p.penalty(0.1);
    close(&point.v, &[1.0, 0.0, 0.0], ROUNDING);
    close(&point.y, &[5.0, 1.1], ROUNDING);
    let row = p.a.row(0).to_owned();
    assert_eq!(row.dot(&array![1.0, 0.0]), 0.0, "the gradient that the remaining row sees");
    let (_, _, h) = p.piece(&Array1::from(point.y));
    assert_eq!(h, array![[0.0, 0.0], [0.0, 1.0]]);

    // As an equation it is always active, and its derivative is there.
    let lp = Lp::new(Matrix::Dense(array![[0.0, 1.0]]), &[1.0], &[0.0, -1.0]).unwrap();
    let lp = lp.with_equalities(Matrix::Dense(array![[1.0, 0.0]]), &[5.0]).unwrap();
    let found = NewtonLp::default().solve(&lp).unwrap();
    close(&found.z, &[5.0, 1.0], SOLVER);
    close(&active_set(&lp, &found, &[1.0, 0.0]).unwrap().b_eq, &[1.0], SOLVER);
    // In the penalty it is a square, and the Hessian has full rank.
    let newton = PenaltyNewton { epsilon: 0.1, tolerance: 1e-12, ..PenaltyNewton::default() };
    let point = newton.solve(&lp).unwrap();
    close(&penalty_implicit(&lp, &point, &[1.0, 0.0], None).unwrap().b_eq, &[1.0], ROUNDING);
}

#[test]
fn least_squares_over_too_many_rows_is_no_generalised_derivative() {
    let a = array![[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]];
    let p = Program::new(a.clone(), &[1.0, 1.0, 2.0], &[-1.0, -1.5]);
    for i in 0..200 {
        let moved = Program { b: &p.b + &(0.1 * noises(SEED.named("bounds").stream(i), 3)), ..p.clone() };
        let b = &moved.b;
        close(&moved.vertex().unwrap().z, &[b[0].min(b[2] - b[1]), b[1]], ROUNDING);
    }
    // The least-norm dual is positive everywhere.
    let v = array![1.0 / 6.0, 2.0 / 3.0, 5.0 / 6.0];
    close(&(a.t().dot(&v) + &p.c), &[0.0, 0.0], ROUNDING);
    close(&p.penalty(1e-3).v, &v, ROUNDING);
    assert!(p.solution().degenerate, "more rows than variables");

    let normal = a.t().dot(&a);
    let inverse = |row: Array1<f64>| solve(&normal, &row).unwrap();
    let least: Vec<Array1<f64>> = (0..3).map(|j| inverse(a.row(j).to_owned())).collect();
    let third = 1.0 / 3.0;
    close(&[least[0][0], least[1][0], least[2][0]], &[2.0 * third, -third, third], ROUNDING);
    close(&[least[0][1], least[1][1], least[2][1]], &[-third, 2.0 * third, third], ROUNDING);

    // With all rows divided by their lengths the answer is another one: it depends on the scale of a row.
    let unit = array![[1.0, 0.0], [0.0, 1.0], [0.5f64.sqrt(), 0.5f64.sqrt()]];
    let w = unit.dot(&solve(&unit.t().dot(&unit), &array![0.0, 1.0]).unwrap());
    close(&[w[0], w[1], w[2] * 0.5f64.sqrt()], &[-0.25, 0.75, 0.25], ROUNDING);

    // It is the mean of all three bases, weighted by squared determinants, and the one that is never optimal counts too.
    let mut mean = Array2::<f64>::zeros((2, 3));
    let mut total = 0.0;
    let mut optimal = Vec::new();
    for rows in subsets(3, 2) {
        let (a_b, _) = p.rows(&rows);
        let determinant = a_b[[0, 0]] * a_b[[1, 1]] - a_b[[0, 1]] * a_b[[1, 0]];
        for (k, r) in rows.iter().enumerate() {
            let unit: Array1<f64> = (0..2).map(|i| f64::from(u8::from(i == k))).collect();
            let column = solve(&a_b, &unit).unwrap() * determinant * determinant;
            mean.column_mut(*r).scaled_add(1.0, &column);
        }
        total += determinant * determinant;
        if solve(&a_b.t().to_owned(), &-&p.c).unwrap().iter().all(|v| *v > 0.0) {
            optimal.push(rows);
        }
    }
    mean /= total;
    for (column, least) in mean.columns().into_iter().zip(&least) {
        close(column, least, ROUNDING);
    }
    assert_eq!(optimal, [vec![0, 1], vec![1, 2]]);

    // A basis with a positive dual is a derivative of a program next to this one.
    for rows in optimal {
        let mut beside = p.clone();
        (0..3).filter(|r| !rows.contains(r)).for_each(|r| beside.b[r] += 0.01);
        let x = beside.vertex().unwrap();
        close(&x.z, &[1.0, 1.0], ROUNDING);
        for z_bar in [array![1.0, 0.0], array![0.0, 1.0]] {
            let rule = rules::active(&p, &rows, &x.z, &z_bar);
            close(&rule.b, &numeric(&beside, |p| z_bar.dot(&p.vertex().unwrap().z)).b, DIFFERENCES);
        }
        close(&rules::active(&p, &rows, &x.z, &array![0.0, 1.0]).b, &[0.0, 1.0, 0.0], ROUNDING);
    }
}

/// For each row, Σ_j Ā_rj A_rj + b̄_r b_r.
fn scaling(p: &Program, bars: &Bars) -> Array1<f64> {
    (&bars.a * &p.a).sum_axis(Axis(1)) + &bars.b * &p.b
}

#[test]
fn scaling_a_row_is_invisible_to_the_exact_rules() {
    for (i, (p, x)) in proper(20, "scaling").into_iter().enumerate() {
        let seed = SEED.named("cotangents").stream(i as u64);
        let z_bar = noises(seed, p.n());
        let zero = Array1::<f64>::zeros(p.b.len());
        let solution = rules::active(&p, &x.rows, &x.z, &z_bar);
        close(&scaling(&p, &solution), &zero, ROUNDING);
        assert_eq!(solution.c.dot(&p.c), 0.0);
        let value = rules::envelope(&x.z, &x.v);
        close(&scaling(&p, &value), &zero, ROUNDING);
        close(&[value.c.dot(&p.c)], &[p.value()], ROUNDING);

        // Rows of other lengths: the same solution, multipliers and gradients divided by the factor.
        let factor: Array1<f64> =
            (0..p.b.len() as u64).map(|r| 10f64.powf(4.0 * seed.uniform(r) - 2.0)).collect();
        let scaled =
            Program { a: &p.a * &factor.clone().insert_axis(Axis(1)), b: &p.b * &factor, c: p.c.clone() };
        let y = scaled.vertex().unwrap();
        close(&y.z, &x.z, ROUNDING);
        close(&(&y.v * &factor), &x.v, ROUNDING);
        let other = rules::active(&scaled, &y.rows, &y.z, &z_bar);
        close(&(&other.b * &factor), &solution.b, ROUNDING);
        close(&(&other.a * &factor.insert_axis(Axis(1))), &solution.a, ROUNDING);
    }
}

#[test]
fn the_penalty_sees_the_scale_of_a_row() {
    for (i, (p, x)) in proper(10, "penalty scaling").into_iter().enumerate() {
        let bar = noises(SEED.named("cotangents").stream(i as u64), p.n());
        let (epsilon, y) = on_the_path(&p, &x);
        let (_, _, h) = p.piece(&y);
        let aw = p.a.dot(&solve(&h, &bar).unwrap());
        let left = scaling(&p, &rules::penalty(&p, epsilon, &y, &bar));
        close(&left, &(-2.0 * epsilon * &x.v * &aw), ROUNDING);
        assert!(left.iter().any(|l| l.abs() > 1e-3 * epsilon), "program {i}: {left}");

        let (z, bars) = rules::ridge(&p, &x.rows, 0.5, &bar);
        let (a_j, b_j) = p.rows(&x.rows);
        let m = a_j.t().dot(&a_j) + 0.5 * Array2::<f64>::eye(p.n());
        let right = 2.0 * (&b_j - &a_j.dot(&z)) * a_j.dot(&solve(&m, &bar).unwrap());
        close(&scaling(&p, &bars).select(Axis(0), &x.rows), &right, ROUNDING);
        assert!(right.iter().any(|r| r.abs() > 1e-3));
    }
}
