use super::*;
use crate::device::device;
use lastlayer::ndarray::arr2;

/// Scores of three classes with many ties.
fn sample(case: u64) -> (Array2<f64>, Vec<usize>) {
    let seed = SEED.named("classes").stream(case);
    let n = 30;
    let y: Vec<usize> = (0..n).map(|i| if i < 3 { i } else { seed.below(i as u64, 3).unwrap() }).collect();
    let s = Array2::from_shape_fn((n, 3), |(i, c)| {
        seed.stream(1).below((3 * i + c) as u64, 4).unwrap() as f64 + f64::from(u8::from(y[i] == c))
    });
    (s, y)
}

/// AUC_mu over all pairs of samples, as its definition says.
fn auc_mu_by_pairs(s: &Array2<f64>, y: &[usize], p: &Array2<f64>) -> f64 {
    let classes = s.ncols();
    let mut total = 0.0;
    for k in 0..classes {
        for l in k + 1..classes {
            let v = &p.row(k) - &p.row(l);
            let (mut wins, mut pairs) = (0.0, 0.0);
            for i in (0..y.len()).filter(|i| y[*i] == k) {
                for j in (0..y.len()).filter(|j| y[*j] == l) {
                    let o = (v[k] - v[l]) * v.dot(&(&s.row(i) - &s.row(j)));
                    wins += if o > 0.0 { 1.0 } else { 0.5 * f64::from(u8::from(o == 0.0)) };
                    pairs += 1.0;
                }
            }
            total += wins / pairs;
        }
    }
    total * 2.0 / (classes * (classes - 1)) as f64
}

#[test]
fn auc_mu_counts_pairs_of_every_pair_of_classes() -> Result<()> {
    let equal_costs = arr2(&[[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]);
    // Small integers, so that projections are exact and ties stay ties.
    let other = arr2(&[[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 4.0, 0.0]]);
    for case in 0..30 {
        let (s, y) = sample(case);
        let scores = ClassScores::new(&s, &y)?;
        assert_near(scores.auc_mu()?, auc_mu_by_pairs(&s, &y, &equal_costs), ROUNDING);
        assert_near(scores.auc_mu_with(&other)?, auc_mu_by_pairs(&s, &y, &other), ROUNDING);
    }
    Ok(())
}

#[test]
fn auc_ova_is_the_mean_of_binary_areas_and_equals_scikit_learn() -> Result<()> {
    let (s, y) = sample(5);
    let binary = |c: usize| {
        let labels: Vec<bool> = y.iter().map(|y| *y == c).collect();
        Scores::new(s.column(c), labels).unwrap().auc()
    };
    let want = (0..3).map(binary).sum::<f64>() / 3.0;
    assert_near(ClassScores::new(&s, &y)?.auc_ova()?, want, ROUNDING);
    let o = oracle("several_classes");
    let tensor = Tensor::new(list(&o["s"]), device())?.reshape((150, 4))?;
    let scores = ClassScores::new(&tensor, list(&o["y"]))?;
    assert_near(scores.auc_ova()?, number(&o["auc_ova"]), ROUNDING);
    assert_near(scores.accuracy(), number(&o["accuracy"]), ROUNDING);
    let counts: Vec<f64> = scores.confusion()?.counts().iter().map(|c| *c as f64).collect();
    assert_eq!(counts, list(&o["confusion"]));
    Ok(())
}

#[test]
fn two_classes_reduce_to_the_binary_auc() -> Result<()> {
    let (s, y) = tied(8, 50);
    let both = Array2::from_shape_fn((50, 2), |(i, c)| if c == 1 { s[i] } else { 0.0 });
    let want = Scores::new(&s, &y)?.auc();
    assert_near(ClassScores::new(&both, &y)?.auc_mu()?, want, ROUNDING);
    Ok(())
}

#[test]
fn ties_are_predicted_as_the_lowest_class() -> Result<()> {
    let scores = ClassScores::new(arr2(&[[1.0, 1.0, 0.0], [0.0, 2.0, 2.0]]), [0, 2])?;
    assert_eq!(scores.predicted(), [0, 1]);
    assert_eq!((scores.accuracy(), scores.n(), scores.k()), (0.5, 2, 3));
    Ok(())
}

#[test]
fn bad_class_scores_and_partitions_are_refused() -> Result<()> {
    let s = arr2(&[[1.0, 0.0], [0.0, 1.0]]);
    assert_shape(vec![
        ClassScores::new([1.0, 0.0], [0, 1]),
        ClassScores::new(&s, [0, 1, 1]),
        ClassScores::new(&s, Vec::<u8>::new()),
    ]);
    assert_config(vec![
        ClassScores::new(&s, [0, 2]),
        ClassScores::new(&s, [0.5, 1.0]),
        ClassScores::new(arr2(&[[1.0, f64::NAN], [0.0, 1.0]]), [0, 1]),
        ClassScores::new(arr2(&[[1.0], [0.0]]), [0, 0]),
    ]);
    let scores = ClassScores::new(&s, [0, 1])?;
    assert_config(vec![
        scores.auc_mu_with(&arr2(&[[1.0, 1.0], [1.0, 1.0]])),
        scores.auc_mu_with(&arr2(&[[0.0, f64::NAN], [1.0, 0.0]])),
        ClassScores::new(&s, [1, 1])?.auc_ova(),
        ClassScores::new(&s, [1, 1])?.auc_mu(),
        ClassScores::new(arr2(&[[1e308, 0.0], [-1e308, 1.0]]), [0, 1])?
            .auc_mu_with(&arr2(&[[0.0, 9.0], [9.0, 0.0]])),
    ]);
    assert_shape(vec![scores.auc_mu_with(&Array2::eye(3))]);
    Ok(())
}
