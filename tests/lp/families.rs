//! Random linear programs, drawn here and in tests/oracle/lp.py from the same seed, and what HiGHS says of them.

use lastlayer::lp::{Lp, Matrix, Status};
use lastlayer::ndarray::{Array1, Array2};
use lastlayer::seed::Seed;

use super::{SEED, bells, uniforms};

/// One program with the oracle's answer.
pub struct Case {
    pub lp: Lp,
    pub status: Status,
    /// Optimum, NaN without one.
    pub value: f64,
    /// Solution and multipliers, for the family `mixed` only.
    pub z: Vec<f64>,
    pub v: Vec<f64>,
}

/// The sums of a program drawn here and there differ by rounding only.
const SAME_PROGRAM: f64 = 1e-12;

/// All programs of a family: mixed, sized, scaled, integer, assignment or whatever.
pub fn family(name: &str) -> Vec<Case> {
    let text = std::fs::read_to_string("tests/oracle/lp.json").unwrap();
    let fixture: serde_json::Value = serde_json::from_str(&text).unwrap();
    let names = ["mixed", "sized", "scaled", "integer", "assignment", "whatever"];
    let number = names.iter().position(|known| *known == name).unwrap();
    let answers = fixture["families"][name].as_array().unwrap();
    let case = |(case, answer): (usize, &serde_json::Value)| {
        let lp = draw(name, SEED.stream(number as u64).stream(case as u64), case);
        let parts =
            [lp.A.to_dense().into_raw_vec_and_offset().0, lp.A_eq.to_dense().into_raw_vec_and_offset().0];
        let sum: f64 =
            parts.iter().flatten().chain(&lp.b).chain(&lp.c).chain(&lp.b_eq).map(|v| v.abs()).sum();
        let expected = answer["sum"].as_f64().unwrap();
        assert!((sum - expected).abs() <= SAME_PROGRAM * expected, "{name} {case}: {sum}, {expected}");
        let list =
            |key: &str| answer[key].as_array().into_iter().flatten().map(|v| v.as_f64().unwrap()).collect();
        let status = match answer["status"].as_str().unwrap() {
            "Optimal" => Status::Optimal,
            "Infeasible" => Status::Infeasible,
            _ => Status::Unbounded,
        };
        Case { lp, status, value: answer["value"].as_f64().unwrap_or(f64::NAN), z: list("z"), v: list("v") }
    };
    answers.iter().enumerate().map(case).collect()
}

fn draw(name: &str, seed: Seed, case: usize) -> Lp {
    match name {
        "mixed" => {
            let n = 2 + case % 11;
            gaussian(seed, n, n + 1 + case * 7 % (2 * n), case % 3)
        }
        "sized" => {
            let sizes = [(300, (2, 6)), (550, (5, 20)), (750, (10, 40)), (850, (30, 100)), (875, (60, 240))];
            let (n, m) = sizes.iter().find(|(last, _)| case < *last).unwrap().1;
            gaussian(seed, n, m, 0)
        }
        "scaled" => scaled(seed),
        "integer" => integer(seed, 2 + case % 6),
        "assignment" => assignment(seed, 2 + case % 5),
        _ => whatever(seed, case),
    }
}

fn matrix(values: Vec<f64>, rows: usize, columns: usize) -> Array2<f64> {
    Array2::from_shape_vec((rows, columns), values).unwrap()
}

fn build(a: Array2<f64>, b: Array1<f64>, c: Array1<f64>, a_eq: Array2<f64>, b_eq: Array1<f64>) -> Lp {
    let lp = Lp::new(Matrix::Dense(a), &b.to_vec(), &c.to_vec()).unwrap();
    lp.with_equalities(Matrix::Dense(a_eq), &b_eq.to_vec()).unwrap()
}

/// Feasible and bounded: a point with slack in every row, and an objective that some multipliers balance.
pub fn gaussian(seed: Seed, n: usize, m: usize, m_eq: usize) -> Lp {
    let a = matrix(bells(seed.stream(0), m * n), m, n);
    let a_eq = matrix(bells(seed.stream(4), m_eq * n), m_eq, n);
    let z = Array1::from(bells(seed.stream(1), n));
    let b = a.dot(&z) + Array1::from(uniforms(seed.stream(2), m));
    let w = Array1::from(uniforms(seed.stream(3), m));
    let c = -a.t().dot(&w) - a_eq.t().dot(&Array1::from(bells(seed.stream(5), m_eq)));
    let b_eq = a_eq.dot(&z);
    build(a, b, c, a_eq, b_eq)
}

/// Rows multiplied by 1e-4 to 1e4.
fn scaled(seed: Seed) -> Lp {
    let mut lp = gaussian(seed, 5, 15, 0);
    let by: Vec<f64> = uniforms(seed.stream(6), 15).iter().map(|u| 10f64.powf(8.0 * u - 4.0)).collect();
    let mut a = lp.A.to_dense();
    a.rows_mut().into_iter().zip(&by).for_each(|(mut row, by)| row *= *by);
    lp.b.iter_mut().zip(&by).for_each(|(b, by)| *b *= by);
    lp.A = Matrix::Dense(a);
    lp
}

fn integers(seed: Seed, low: i64, high: i64, n: usize) -> Vec<f64> {
    let span = (high - low + 1) as usize;
    (0..n).map(|c| (low + seed.below(c as u64, span).unwrap() as i64) as f64).collect()
}

/// Small integers: ties, parallel rows and rows of zeros abound.
fn integer(seed: Seed, n: usize) -> Lp {
    let m = 3 * n;
    let a = matrix(integers(seed.stream(0), -2, 2, m * n), m, n);
    let z = Array1::from(integers(seed.stream(1), -2, 2, n));
    let slack = Array1::from(integers(seed.stream(2), -2, 1, m)).mapv(|v| v.max(0.0));
    let w = Array1::from(integers(seed.stream(3), 0, 2, m));
    let (b, c) = (a.dot(&z) + slack, -a.t().dot(&w));
    build(a, b, c, Array2::zeros((0, n)), Array1::zeros(0))
}

/// k persons, k tasks: 2k equalities, one of which repeats the others.
fn assignment(seed: Seed, k: usize) -> Lp {
    let cost = Array1::from(integers(seed, 0, 9, k * k));
    let equal = Array2::from_shape_fn((2 * k, k * k), |(r, i)| {
        f64::from(u8::from(if r < k { i / k == r } else { i % k == r - k }))
    });
    build(-Array2::<f64>::eye(k * k), Array1::zeros(k * k), cost, equal, Array1::ones(2 * k))
}

/// Nothing is known: most are infeasible or unbounded.
fn whatever(seed: Seed, case: usize) -> Lp {
    let (n, m, m_eq) = (1 + case % 4, 1 + case * 5 % 8, case / 4 % 2);
    let a = matrix(bells(seed.stream(0), m * n), m, n);
    let b = Array1::from(bells(seed.stream(1), m)) + 0.5;
    let c = Array1::from(bells(seed.stream(2), n));
    let eq = seed.stream(4);
    let a_eq = matrix(bells(eq.stream(0), m_eq * n), m_eq, n);
    build(a, b, c, a_eq, Array1::from(bells(eq.stream(1), m_eq)))
}
