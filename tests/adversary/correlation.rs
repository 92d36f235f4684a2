//! Correlation of labels against change of accuracy.

use lastlayer::adversary::{Transfer, scatter};
use lastlayer::metrics::phi;
use lastlayer::ndarray::{Array2, array};
use lastlayer::seed::Seed;

use super::message;

/// Sums over 1560 numbers of size one.
const ROUNDING: f64 = 1e-11;

/// Pearson's correlation from raw moments: another formula than the library's.
fn pearson(x: &[f64], y: &[f64]) -> f64 {
    let n = x.len() as f64;
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 { x.iter().zip(y).map(|(x, y)| of(*x, *y)).sum() };
    let (sx, sy, sxy) = (sum(&|x, _| x), sum(&|_, y| y), sum(&|x, y| x * y));
    let (sxx, syy) = (sum(&|x, _| x * x), sum(&|_, y| y * y));
    (n * sxy - sx * sy) / ((n * sxx - sx * sx).sqrt() * (n * syy - sy * sy).sqrt())
}

/// Forty attributes with correlated labels and one run of everything.
fn forty() -> (Array2<f64>, Transfer) {
    let seed = Seed::new(40);
    let score =
        |i: usize, j: usize| seed.stream(i as u64).normal(j as u64) + seed.stream(i as u64).normal(900);
    let labels = Array2::from_shape_fn((300, 40), |(i, j)| f64::from(u8::from(score(i, j) > 0.3)));
    let names: Vec<String> = (0..40).map(|a| a.to_string()).collect();
    let mut transfer = Transfer::new(&names).unwrap();
    let accuracy = |k: usize| 0.8 + 0.1 * seed.named("runs").uniform(k as u64);
    for a in 0..40 {
        transfer.single(a, 0, accuracy(a)).unwrap();
        (a + 1..40).for_each(|b| {
            transfer.pair(a, b, 0, accuracy(100 + 40 * a + b), accuracy(100 + 40 * b + a)).unwrap();
        });
    }
    (labels, transfer)
}

#[test]
fn a_cloud_of_1560_points_has_the_correlation_of_another_formula() {
    let (labels, transfer) = forty();
    let scatter = scatter(&labels, &transfer).unwrap();
    assert_eq!(scatter.points.len(), 1560);
    let x: Vec<f64> = scatter.points.iter().map(|p| p.phi).collect();
    let y: Vec<f64> = scatter.points.iter().map(|p| p.change).collect();
    assert!((scatter.r.value - pearson(&x, &y)).abs() < ROUNDING);
    let point = scatter.points[57];
    let column = |a: usize| labels.column(a).to_vec();
    assert!((point.phi - pearson(&column(point.a), &column(point.b))).abs() < ROUNDING);
    assert_eq!(point.phi, phi(column(point.a), column(point.b)).unwrap());
}

#[test]
fn the_interval_of_a_correlation_is_fishers() {
    let (labels, transfer) = forty();
    let r = scatter(&labels, &transfer).unwrap().r;
    let half = 1.959_963_984_540_054 / f64::sqrt(1557.0);
    assert!((r.low.atanh() - (r.value.atanh() - half)).abs() < ROUNDING);
    assert!((r.high.atanh() - (r.value.atanh() + half)).abs() < ROUNDING);
    // The paper's 0.004 from as many points.
    let ends = [-half, half].map(|h| (0.004f64.atanh() + h).tanh());
    assert!((ends[0] + 0.0456).abs() < 5e-5 && (ends[1] - 0.0536).abs() < 5e-5, "{ends:?}");
}

#[test]
fn the_papers_example_is_a_change_of_minus_one_and_a_quarter_per_cent() {
    let mut transfer = Transfer::new(&["a", "b", "c"]).unwrap();
    (0..3).for_each(|a| transfer.single(a, 0, 0.8).unwrap());
    transfer.pair(0, 1, 0, 0.79, 0.81).unwrap();
    transfer.pair(0, 2, 0, 0.80, 0.78).unwrap();
    transfer.pair(1, 2, 0, 0.82, 0.80).unwrap();
    let labels = array![[0u8, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0]];
    let points = scatter(&labels, &transfer).unwrap().points;
    assert!((points[0].change + 1.25).abs() < ROUNDING);
    assert_eq!((points[0].a, points[0].b), (0, 1));
    // phi of the first two columns: (2·1 − 1·1) / √(3·2·3·2).
    assert!((points[0].phi - 1.0 / 6.0).abs() < ROUNDING);
}

#[test]
fn labels_and_runs_that_allow_no_correlation_are_refused() {
    let (labels, transfer) = forty();
    let mut constant = labels.clone();
    constant.column_mut(3).fill(1.0);
    assert!(message(scatter(&constant, &transfer)).contains("never changes"));
    assert!(message(scatter(labels.slice(lastlayer::ndarray::s![.., ..39]), &transfer)).contains("40"));
    assert!(message(scatter(labels.column(0), &transfer)).contains("dimensions"));
    assert!(message(scatter(&labels * 2.0, &transfer)).contains("0 and 1"));
    let empty = Transfer::new(transfer.names()).unwrap();
    assert!(message(scatter(&labels, &empty)).contains("at least 4"));
    let mut flat = Transfer::new(transfer.names()).unwrap();
    (0..3).for_each(|a| flat.single(a, 0, 0.5).unwrap());
    [(0, 1), (0, 2), (1, 2)].into_iter().for_each(|(a, b)| flat.pair(a, b, 0, 0.5, 0.5).unwrap());
    assert!(message(scatter(&labels, &flat)).contains("both coordinates"));
    let mut none = Transfer::new(transfer.names()).unwrap();
    none.single(0, 0, 0.0).unwrap();
    none.pair(0, 1, 0, 0.5, 0.5).unwrap();
    assert!(message(scatter(&labels, &none)).contains("above 0"));
}
