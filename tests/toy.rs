//! Toy sets: shapes to look at, and Gaussians whose closed forms agree with counts and with the published optima.

mod common;
mod device;

use common::near_named;
use device::device;
use lastlayer::data::toy::{Gaussians, arcs, rings};
use lastlayer::distribution::{normal_cdf, normal_quantile};
use lastlayer::error::Error;
use lastlayer::seed::Seed;

const SEED: Seed = Seed::new(5);

#[test]
fn arcs_and_rings_lie_on_their_curves() {
    let data = arcs(300, 0.0, SEED, device()).unwrap();
    let x: Vec<Vec<f32>> = data.x.to_vec2().unwrap();
    for (point, label) in x.iter().zip(data.labels().unwrap()) {
        let (cx, cy) = if label == 0 { (0.0, 0.0) } else { (1.0, 0.5) };
        near_named("radius", f64::from((point[0] - cx).hypot(point[1] - cy)), 1.0, 1e-6);
        assert!(if label == 0 { point[1] >= 0.0 } else { point[1] <= 0.5 });
    }
    let data = rings(3, 300, 0.0, SEED, device()).unwrap();
    assert_eq!(data.class_counts().unwrap(), [100, 100, 100]);
    let x: Vec<Vec<f32>> = data.x.to_vec2().unwrap();
    for (point, label) in x.iter().zip(data.labels().unwrap()) {
        near_named("radius", f64::from(point[0].hypot(point[1])), f64::from(label + 1), 1e-6);
    }
    assert_eq!(
        rings(3, 300, 0.1, SEED, device()).unwrap().x.to_vec2::<f32>().unwrap(),
        rings(3, 300, 0.1, SEED, device()).unwrap().x.to_vec2::<f32>().unwrap()
    );
}

/// Lowest FNR in per cent at FPR 1, 2, 5 and 10 %, as the specification of the three tasks of the rate chapter has it.
const OPTIMA: [(&str, [f64; 4]); 3] =
    [("A", [39.1, 34.5, 27.4, 20.5]), ("B", [32.4, 27.8, 21.3, 16.0]), ("C", [19.8, 15.5, 9.8, 5.6])];

#[test]
fn best_rates_and_aucs_match_the_reference_optima() {
    for (task, (name, rates)) in [Gaussians::a(), Gaussians::b(), Gaussians::c()].iter().zip(OPTIMA) {
        for (fpr, rate) in [0.01, 0.02, 0.05, 0.10].into_iter().zip(rates) {
            let (w, fnr) = task.best_fnr_at_fpr(fpr).unwrap();
            near_named(name, 100.0 * fnr, rate, 0.06);
            near_named(name, task.fnr_at_fpr(&w, fpr).unwrap(), fnr, 1e-12);
        }
    }
    near_named("A", 100.0 * Gaussians::a().best_auc().unwrap().1, 92.93, 0.006);
    near_named("D", 100.0 * Gaussians::d().best_auc().unwrap().1, 80.39, 0.006);
}

#[test]
fn no_direction_beats_the_best() {
    for task in [Gaussians::a(), Gaussians::b(), Gaussians::c(), Gaussians::d()] {
        let (best_w, best_auc) = task.best_auc().unwrap();
        for fpr in [0.01, 0.1, 0.5, 0.9] {
            let (w, fnr) = task.best_fnr_at_fpr(fpr).unwrap();
            for trial in 0..500 {
                let stream = SEED.stream(trial);
                let random: Vec<f64> = (0..6).map(|c| stream.normal(c)).collect();
                let near = |centre: &[f64]| -> Vec<f64> {
                    centre.iter().zip(&random).map(|(c, r)| c * (1.0 + 0.05 * r)).collect()
                };
                // The scan over the angle is refined to about 1e-9.
                for candidate in [&random, &near(&w)] {
                    assert!(task.fnr_at_fpr(candidate, fpr).unwrap() >= fnr - 1e-9, "{} at {fpr}", task.name);
                }
                for candidate in [&random, &near(&best_w)] {
                    assert!(task.auc(candidate).unwrap() <= best_auc + 1e-12, "{}", task.name);
                }
            }
        }
    }
}

#[test]
fn closed_forms_agree_with_counts() {
    let task = Gaussians::a();
    let data = task.sample(40_000, SEED, device()).unwrap();
    let w = [0.7, 0.4, -0.2, 0.1, 0.3, 0.0];
    let x: Vec<Vec<f32>> = data.x.to_vec2().unwrap();
    let scores = x.iter().map(|row| row.iter().zip(w).map(|(x, w)| f64::from(*x) * w).sum::<f64>());
    let (mut sides, labels) = ([Vec::new(), Vec::new()], data.labels().unwrap());
    scores.zip(&labels).for_each(|(s, y)| sides[*y as usize].push(s));
    let [mut negatives, positives] = sides;
    // Four standard errors of a share of 12 000.
    near_named("prevalence", positives.len() as f64 / 40_000.0, 0.3, 0.0092);
    negatives.sort_by(f64::total_cmp);
    let wins: usize = positives.iter().map(|s| negatives.partition_point(|n| n < s)).sum();
    let auc = wins as f64 / (negatives.len() * positives.len()) as f64;
    near_named("AUC", auc, task.auc(&w).unwrap(), 0.01);
    for fpr in [0.05, 0.2, 0.5] {
        let threshold = negatives[negatives.len() - 1 - (fpr * negatives.len() as f64) as usize];
        let missed = positives.iter().filter(|s| **s <= threshold).count() as f64 / positives.len() as f64;
        near_named("FNR", missed, task.fnr_at_fpr(&w, fpr).unwrap(), 0.025);
        near_named("TPR", 1.0 - task.fnr_at_fpr(&w, fpr).unwrap(), task.tpr_at_fpr(&w, fpr).unwrap(), 1e-15);
    }
    // The area under the closed-form ROC is the closed-form AUC (midpoint rule).
    let area: f64 = (0..20_000).map(|i| task.tpr_at_fpr(&w, (f64::from(i) + 0.5) / 2e4).unwrap() / 2e4).sum();
    near_named("area", area, task.auc(&w).unwrap(), 1e-5);
}

#[test]
fn unit_gaussians_have_the_textbook_forms() {
    let task = Gaussians {
        name: "unit".into(),
        means: vec![vec![0.0], vec![1.5]],
        sds: vec![vec![1.0], vec![1.0]],
        prevalence: vec![1.0, 1.0],
    };
    near_named("AUC", task.auc(&[2.0]).unwrap(), normal_cdf(1.5 / 2f64.sqrt()), 1e-15);
    let fnr = normal_cdf(normal_quantile(0.9).unwrap() - 1.5);
    near_named("FNR", task.fnr_at_fpr(&[3.0], 0.1).unwrap(), fnr, 1e-15);
    near_named("best", task.best_fnr_at_fpr(0.1).unwrap().1, fnr, 1e-12);
}

#[test]
fn three_gaussians_have_their_moments() {
    let task = Gaussians::three();
    let data = task.sample(30_000, SEED, device()).unwrap();
    for (class, name) in data.names.classes.clone().iter().enumerate() {
        let part = data.classes(&[name]).unwrap();
        let means: Vec<f32> = part.x.mean(0).unwrap().to_vec1().unwrap();
        let variances: Vec<f32> = part.x.var(0).unwrap().to_vec1().unwrap();
        for c in 0..4 {
            // Four standard errors of a mean of 10 000; a variance is that of 10 000 squares.
            near_named("mean", f64::from(means[c]), task.means[class][c], 0.04 * task.sds[class][c]);
            near_named("sd", f64::from(variances[c]).sqrt(), task.sds[class][c], 0.03 * task.sds[class][c]);
        }
    }
}

#[test]
fn bad_toys_are_refused() {
    for result in
        [arcs(1, 0.1, SEED, device()), rings(0, 5, 0.1, SEED, device()), rings(3, 2, 0.1, SEED, device())]
    {
        assert!(matches!(result, Err(Error::Config { .. })));
    }
    for noise in [f64::NAN, -1.0, f64::INFINITY] {
        assert!(matches!(arcs(10, noise, SEED, device()), Err(Error::Config { .. })));
    }
    let task = Gaussians::a();
    assert!(matches!(task.auc(&[1.0]), Err(Error::Shape { .. })));
    assert!(matches!(task.auc(&[0.0; 6]), Err(Error::Config { .. })));
    assert!(matches!(task.auc(&[f64::NAN; 6]), Err(Error::Config { .. })));
    for fpr in [0.0, 1.0, f64::NAN] {
        assert!(matches!(task.fnr_at_fpr(&[1.0; 6], fpr), Err(Error::Config { .. })));
        assert!(matches!(task.best_fnr_at_fpr(fpr), Err(Error::Config { .. })));
    }
    assert!(matches!(Gaussians::three().best_auc(), Err(Error::Shape { .. })));
    assert!(matches!(task.sample(0, SEED, device()), Err(Error::Shape { .. })));
    let broken = |change: &dyn Fn(&mut Gaussians)| {
        let mut task = Gaussians::a();
        change(&mut task);
        task.sample(3, SEED, device()).is_err() && task.auc(&[1.0; 6]).is_err()
    };
    assert!(broken(&|t| t.sds[0][1] = 0.0));
    assert!(broken(&|t| t.means[1][1] = f64::NAN));
    assert!(broken(&|t| t.prevalence = vec![1.0]));
    assert!(broken(&|t| t.prevalence = vec![1.0, -1.0]));
    assert!(broken(&|t| {
        t.means[0].pop();
    }));
    assert!(broken(&|t| t.means.clear()));
}
