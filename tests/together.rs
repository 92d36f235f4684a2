//! The equations of part VII: two methods at once. What is checked here needs more than one method, so it has no file of its
//! own in `src`.

mod common;
mod device;

use common::assert_near;
use device::device;
use lastlayer::prelude::*;

const SEED: Seed = Seed::new(7);
/// Sums of some hundred products in f64.
const ROUNDING: f64 = 1e-12;
/// Numbers of a network in f32.
const SINGLE: f64 = 1e-5;

fn normals(name: &str, n: usize) -> Vec<f64> {
    (0..n as u64).map(|i| SEED.named(name).normal(i)).collect()
}

fn coins(name: &str, n: usize) -> Vec<u8> {
    (0..n as u64).map(|i| u8::from(SEED.named(name).uniform(i) < 0.4)).collect()
}

// ---- two changes

#[test]
fn interaction_is_the_paired_difference_of_differences() {
    let [n, f, s, b] = ["n", "f", "s", "b"].map(|name| normals(name, 9));
    let found = factorial(&n, &f, &s, &b, 0.95).unwrap();
    let each: Vec<f64> = (0..9).map(|i| (b[i] - f[i]) - (s[i] - n[i])).collect();
    let expected = mean_interval(&each, 0.95).unwrap();
    assert_near(found.interaction.value, expected.value, ROUNDING);
    assert_near(found.interaction.low, expected.low, ROUNDING);
    assert_near(found.interaction.high, expected.high, ROUNDING);
    let mean = |list: &[f64]| list.iter().sum::<f64>() / 9.0;
    assert_near(found.both.value - found.first.value - found.second.value, found.interaction.value, ROUNDING);
    assert_near(found.neither, mean(&n), ROUNDING);
    assert_near(found.first.value, mean(&f) - mean(&n), ROUNDING);
}

#[test]
fn changes_that_add_up_do_not_interact() {
    let (n, a, b) = (normals("n", 6), normals("a", 6), normals("b", 6));
    let plus = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x + y).collect::<Vec<f64>>();
    let (first, second) = (plus(&n, &a), plus(&n, &b));
    let found = factorial(&n, &first, &second, plus(&first, &b), 0.95).unwrap();
    assert_near(found.interaction.value, 0.0, ROUNDING);
    // Each difference of differences is rounding, and so is the interval.
    assert!(found.interaction.high - found.interaction.low < ROUNDING);
    assert!(found.first.high - found.first.low > 0.1, "the gains themselves vary");
}

#[test]
fn two_changes_refuse_what_cannot_be_compared() {
    let four = normals("n", 4);
    let bad = [f64::NAN, 1.0, 2.0, 3.0];
    assert!(matches!(factorial(&four, &four, &four[..3], &four, 0.95), Err(Error::Shape { .. })));
    assert!(matches!(factorial(bad, &four, &four, &four, 0.95), Err(Error::Config { .. })));
    assert!(matches!(factorial(&four, &four, &four, &four, 95.0), Err(Error::Config { .. })));
    assert!(
        factorial(&four[..1], &four[..1], &four[..1], &four[..1], 0.95).is_err(),
        "one seed has no interval"
    );
}

// ---- losses that see only the order

#[test]
fn losses_with_a_free_threshold_pull_with_sum_zero() {
    let (s, y) = (normals("s", 60), coins("y", 60));
    for kind in [AucLoss::Value, AucLoss::Ramp] {
        let pull = auc_loss(&s, &y, 0.7, kind).unwrap().gradient;
        assert_near(pull.iter().sum(), 0.0, ROUNDING);
        assert!(pull.iter().any(|p| p.abs() > 1e-3));
    }
    let labels = Labels::new(&y).unwrap();
    for target in [0.05, 0.3] {
        let goal = RateProblem::fnr_at_fpr(target, Surrogate::sigmoid(3.0)).unwrap();
        let t = goal.solve(&s, &labels).unwrap().t;
        let pull = goal.adjoint(&s, &labels, &t).unwrap().cotangent;
        assert_near(pull.iter().sum(), 0.0, ROUNDING);
        assert!(pull.iter().any(|p| p.abs() > 1e-3));
    }
    // The logistic loss has its threshold at zero, and pulls all scores towards the odds.
    let s = Var::new(&s[..], device()).unwrap();
    let y = Tensor::new(y.iter().map(|y| f64::from(*y)).collect::<Vec<f64>>(), device()).unwrap();
    let store = bce_logits(&s, &y).unwrap().backward().unwrap();
    assert!(store.get(&s).unwrap().numbers().unwrap().iter().sum::<f64>().abs() > 1e-2);
}

// ---- a linear map between features and head

/// Features in three classes and the same ones mapped by an invertible matrix.
fn mapped() -> [Features; 2] {
    let y: Vec<u32> = (0..90).map(|i| i % 3).collect();
    let noise = Array2::from_shape_vec((90, 3), normals("z", 270)).unwrap();
    let z =
        Array2::from_shape_fn((90, 3), |(i, j)| noise[[i, j]] + if y[i] as usize == j { 1.5 } else { 0.0 });
    let map = ndarray::array![[2.0, 0.3, 0.0], [0.0, 0.1, 0.5], [1.0, 0.0, -0.4]];
    [z.clone(), z.dot(&map)].map(|z| Features::new(&z, &y, 3).unwrap())
}

#[test]
fn a_map_between_features_and_head_changes_only_penalised_heads() {
    let [plain, other] = mapped();
    let apart = |fit: WeakFit| {
        let scores = |features: &Features| fit.fit(features).unwrap().head.scores(&features.z).unwrap();
        (scores(&plain) - scores(&other)).iter().fold(0.0f64, |most, d| most.max(d.abs()))
    };
    assert!(apart(WeakFit::RidgeSum(0.0)) < 1e-9, "least squares sees the span alone");
    assert!(apart(WeakFit::RidgeSum(10.0)) > 1e-2, "a penalty sees the lengths");
    // Twice as long features with four times the penalty are the same problem.
    let twice = Features::new(&(&plain.z * 2.0), &plain.y, 3).unwrap();
    let scores = |weight: f64, features: &Features| {
        WeakFit::RidgeSum(weight).fit(features).unwrap().head.scores(&features.z).unwrap()
    };
    let gap = scores(0.5, &plain) - scores(2.0, &twice);
    assert!(gap.iter().all(|d| d.abs() < 1e-9));
}

// ---- two gradients in one backbone

/// Losses of two fixed heads on features z = x W, and their gradients in W.
fn two_losses(w: &Var, x: &Tensor, y: [&Tensor; 2], heads: [&Tensor; 2]) -> [(f64, Vec<f64>); 2] {
    [0, 1].map(|k| {
        let s = x.matmul(w).unwrap().matmul(heads[k]).unwrap().squeeze(1).unwrap();
        let loss = bce_logits(&s, y[k]).unwrap();
        let store = loss.backward().unwrap();
        (loss.numbers().unwrap()[0], store.get(w).unwrap().numbers().unwrap().into_owned())
    })
}

#[test]
fn a_reversed_rival_slows_the_own_loss_by_the_inner_product() {
    let tensor = |name: &str, shape: (usize, usize)| {
        SEED.named(name).normal_tensor(shape, (0.0, 1.0), DType::F64, device()).unwrap()
    };
    let (x, w) = (tensor("x", (40, 5)), Var::from_tensor(&tensor("w", (5, 3))).unwrap());
    let heads = [tensor("own", (3, 1)), tensor("rival", (3, 1))];
    let label = |name: &str| {
        Tensor::new(coins(name, 40).iter().map(|y| f64::from(*y)).collect::<Vec<f64>>(), device()).unwrap()
    };
    let y = [label("own"), label("rival")];
    let [(before, own), (_, rival)] = two_losses(&w, &x, [&y[0], &y[1]], [&heads[0], &heads[1]]);
    let inner = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    const STEP: f64 = 1e-6;
    for strength in [0.0, 0.3, 2.0] {
        // The direction that reversal gives to the backbone.
        let z = x.matmul(&w).unwrap();
        let own_loss = bce_logits(&z.matmul(&heads[0]).unwrap().squeeze(1).unwrap(), &y[0]).unwrap();
        let reversed = reverse(&z, strength).unwrap().matmul(&heads[1]).unwrap().squeeze(1).unwrap();
        let store = (own_loss + bce_logits(&reversed, &y[1]).unwrap()).unwrap().backward().unwrap();
        let direction = store.get(&w).unwrap();
        for (d, (a, b)) in direction.numbers().unwrap().iter().zip(own.iter().zip(&rival)) {
            assert_near(*d, a - strength * b, ROUNDING);
        }
        let next = Var::from_tensor(&(w.as_tensor() - (direction * STEP).unwrap()).unwrap()).unwrap();
        let [(after, _), _] = two_losses(&next, &x, [&y[0], &y[1]], [&heads[0], &heads[1]]);
        let speed = inner(&own, &own) - strength * inner(&own, &rival);
        assert_near((before - after) / STEP, speed, 1e-4);
    }
}

// ---- an adversary with a loss of one's own

fn contested() -> Dataset {
    let n = 64;
    let x = SEED.named("x").normal_tensor((n, 6), (0.0, 1.0), DType::F32, device()).unwrap();
    let a: Vec<f32> =
        coins("a", n).iter().zip(coins("b", n)).flat_map(|(a, b)| [f32::from(*a), f32::from(b)]).collect();
    let y = Tensor::zeros(n, DType::U32, device()).unwrap();
    let data = Dataset::new("contest", x, y, ["all"]).unwrap();
    data.with_attributes(Tensor::from_vec(a, (n, 2), device()).unwrap(), ["a", "b"]).unwrap()
}

fn adversary(data: &Dataset) -> Adversary {
    let contest = Contest { loss: AdvLoss::Reverse, strength: 0.5, rival_steps: 1, ..Contest::default() };
    Adversary::new(zoo::mlp(&[6, 4]).unwrap(), data, &["a"], &["b"], contest, SEED, device()).unwrap()
}

/// Parameters of the backbone of a method after a step of plain descent on the whole set.
fn after(data: &Dataset, net: &Network, method: &mut impl Method) -> Vec<f64> {
    Trainer::sgd(1.0, 0.0).batch(data.n()).seed(SEED).silent().fit(method, data).unwrap();
    net.bottom().iter().flat_map(|(_, var)| var.numbers().unwrap().into_owned()).collect()
}

#[test]
fn an_own_loss_replaces_the_logistic_one_and_nothing_else() {
    let data = contested();
    let moved = |mut adversary: Adversary| after(&data, &adversary.net().clone(), &mut adversary);
    let usual = moved(adversary(&data));
    let same = moved(adversary(&data).own_loss(|s, y| Ok(bce_logits_each(s, y)?.mean_all()?)));
    assert_eq!(usual, same);
    let by_auc = |s: &Tensor, y: &Tensor| auc_loss(s, y, 1.0, AucLoss::Value)?.on(s);
    let found = moved(adversary(&data).own_loss(by_auc));
    // By hand: the gradient of the own AUC loss less half of that of the rival's logistic loss.
    let adversary = adversary(&data);
    let (net, rivals) = (adversary.net(), adversary.rival_net().unwrap());
    let mut by_hand = Minimise::over(adversary.groups(), |b| {
        let z = net.features(&b.x, b.pass())?;
        let own = by_auc(&net.scores(&z, b.pass())?.unsqueeze(1)?, &b.data.attribute("a")?.unsqueeze(1)?)?;
        let rival = rivals.scores(&reverse(&z, 0.5)?, b.pass())?;
        Ok((own + bce_logits(&rival, &b.data.attribute("b")?.to_dtype(rival.dtype())?)?)?)
    });
    let by_hand = after(&data, net, &mut by_hand);
    found.iter().zip(&by_hand).for_each(|(a, b)| assert_near(*a, *b, SINGLE));
    assert!(found.iter().zip(&usual).any(|(a, b)| (a - b).abs() > 1e-3));
    let mut failing = self::adversary(&data).own_loss(|_, _| Err(Error::config("loss", "none", "one")));
    let trainer = Trainer::sgd(1.0, 0.0).batch(data.n()).seed(SEED).silent();
    let nothing = trainer.fit(&mut failing, &data);
    assert!(matches!(nothing, Err(Error::Config { .. })), "what the loss says comes through");
}

// ---- a head read by a tree

/// Scores with few values, as a tree gives them, and labels.
fn steps(n: usize, values: u64) -> (Vec<f64>, Vec<u8>) {
    let y = coins("steps", n);
    let s = (0..n).map(|i| {
        let noise = SEED.named("value").normal(i as u64) + 0.8 * f64::from(y[i]);
        (noise * values as f64 / 4.0).round()
    });
    (s.collect(), y)
}

/// Share of a class that is decided yes by s > t, or from t on.
fn share(s: &[f64], y: &[u8], class: u8, yes: impl Fn(f64) -> bool) -> f64 {
    let members: Vec<f64> = s.iter().zip(y).filter(|(_, y)| **y == class).map(|(s, _)| *s).collect();
    members.iter().filter(|s| yes(**s)).count() as f64 / members.len() as f64
}

#[test]
fn a_tree_has_one_operating_point_per_leaf_and_loses_less_than_a_leaf() {
    let codes =
        Codes::new(&Array2::from_shape_fn((300, 4), |(i, j)| ((i * (3 + j) + j) % 16) as f64), 16).unwrap();
    let y = coins("y", 300);
    let p = Array2::from_shape_fn((300, 2), |(i, c)| f64::from(u8::from(y[i] as usize == c)));
    let tree = Cart { depth: 3, ..Cart::default() }.fit(&codes, &p).unwrap();
    let s = tree.predict(&codes).unwrap().column(1).to_vec();
    let scores = Scores::new(&s, &y).unwrap();
    let mut thresholds = s.clone();
    thresholds.push(f64::NEG_INFINITY);
    thresholds.sort_by(f64::total_cmp);
    thresholds.dedup();
    let reached: Vec<f64> = thresholds.iter().map(|t| share(&s, &y, 0, |s| s > *t)).collect();
    assert!(reached.len() <= tree.leaves() + 1, "{} points, {} leaves", reached.len(), tree.leaves());
    for target in [0.02, 0.05, 0.2, 0.5, 0.9] {
        let t = scores.threshold_at_fpr(target).unwrap();
        let kept = share(&s, &y, 0, |s| s > t);
        let best = reached.iter().copied().filter(|r| *r <= target + ROUNDING).fold(0.0, f64::max);
        assert_near(kept, best, ROUNDING);
        // What is lost of the target is less than the negatives of the leaf that no longer fits.
        assert!(target - kept < share(&s, &y, 0, |s| s == t) + ROUNDING);
    }
}

#[test]
fn a_coin_between_two_thresholds_reaches_the_target() {
    for values in [3, 8, 1000] {
        let (s, y) = steps(400, values);
        let scores = Scores::new(&s, &y).unwrap();
        for target in [0.0, 0.013, 0.05, 0.3, 0.77, 1.0] {
            let found = scores.mixed_fnr_at_fpr(target).unwrap();
            // By brute force: the lowest FNR of any coin between any two thresholds that keeps the target.
            let mut points = vec![(0.0, 1.0), (1.0, 0.0)];
            points
                .extend(s.iter().map(|t| (share(&s, &y, 0, |s| s > *t), 1.0 - share(&s, &y, 1, |s| s > *t))));
            points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            points.dedup();
            // Neighbours on the staircase: the last point that keeps the target and the next one.
            let next = points.iter().position(|p| p.0 > target + ROUNDING);
            let expected = match next {
                None => 0.0,
                Some(i) => {
                    let low = points[..i]
                        .iter()
                        .filter(|p| p.0 == points[i - 1].0)
                        .map(|p| p.1)
                        .fold(1.0, f64::min);
                    let high = points.iter().filter(|p| p.0 == points[i].0).map(|p| p.1).fold(0.0, f64::max);
                    let w = (target - points[i - 1].0) / (points[i].0 - points[i - 1].0);
                    low + w * (high - low)
                }
            };
            assert_near(found, expected, 1e-9);
            assert!(found <= scores.fnr_at_fpr(target).unwrap() + ROUNDING, "a coin never hurts");
        }
    }
    let (s, y) = steps(50, 5);
    let scores = Scores::new(&s, &y).unwrap();
    for target in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(scores.mixed_fnr_at_fpr(target), Err(Error::Config { .. })));
    }
}

#[test]
fn readers_that_rarely_disagree_have_rates_that_are_close() {
    let y = coins("y", 500);
    let head = coins("head", 500);
    for flips in [0.0, 0.02, 0.3] {
        let flip = SEED.named("flip");
        let tree: Vec<u8> =
            (0..500).map(|i| if flip.uniform(i as u64) < flips { 1 - head[i] } else { head[i] }).collect();
        for class in [0u8, 1] {
            let members: Vec<usize> = (0..500).filter(|i| y[*i] == class).collect();
            let n = members.len() as f64;
            let rate = |said: &[u8]| members.iter().filter(|i| said[**i] == 1).count() as f64 / n;
            let apart = members.iter().filter(|i| tree[**i] != head[**i]).count() as f64 / n;
            assert!((rate(&tree) - rate(&head)).abs() <= apart + ROUNDING);
            // The bound is reached where all disagreements go one way.
            let never: Vec<u8> = head.iter().zip(&tree).map(|(h, t)| h & t).collect();
            let one_way = members.iter().filter(|i| never[**i] != head[**i]).count() as f64 / n;
            assert_near(rate(&head) - rate(&never), one_way, ROUNDING);
        }
    }
}

#[test]
fn an_interaction_is_root_two_wider_than_a_gain() {
    // Rows of a Hadamard matrix: four errors of equal size, no two of them correlated over eight seeds.
    let sign = |row: u32, seed: u32| if (row & seed).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
    let error = |row: u32| (0..8).map(|seed| sign(row, seed)).collect::<Vec<f64>>();
    let found = factorial(error(1), error(2), error(4), error(7), 0.95).unwrap();
    let width = |estimate: Estimate| estimate.high - estimate.low;
    assert_near(width(found.interaction), 2f64.sqrt() * width(found.first), ROUNDING);
    assert_near(width(found.first), width(found.both), ROUNDING);
    // What all four cells share, a hard seed for instance, is in none of the widths.
    let hard = |row: u32| (0..8).map(|seed| sign(row, seed) + 10.0 * f64::from(seed)).collect::<Vec<f64>>();
    let shared = factorial(hard(1), hard(2), hard(4), hard(7), 0.95).unwrap();
    assert_near(width(shared.interaction), width(found.interaction), ROUNDING);
}
