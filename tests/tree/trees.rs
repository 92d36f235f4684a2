//! Every equation of the chapter on trees; those on soft trees are in `soft.rs` too.

use lastlayer::ndarray::Array2;
use lastlayer::tree::{Cart, Codes, Criterion};

use super::{
    BOTH, SEED, all_near, divided, dyadic, gain, near, noise, one_hot, planted, soft, square, total,
};

/// Sums of a few hundred f64 numbers of size one, and their logarithms.
const ROUNDING: f64 = 1e-11;
/// Half a unit of the last digit that the chapter prints.
const PRINTED: f64 = 5e-5;

/// Kullback and Leibler's divergence.
fn divergence(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).filter(|(p, _)| **p > 0.0).map(|(p, q)| p * (p / q).ln()).sum()
}

fn scaled(v: &[f64], by: f64) -> Vec<f64> {
    v.iter().map(|v| v * by).collect()
}

#[test]
fn a_leaf_is_the_mean_and_the_mean_is_best_for_both_losses() {
    let (n, k) = (12, 4);
    let p = soft(n, k, SEED);
    let rows: Vec<usize> = (0..n).collect();
    let mean = scaled(&total(&p, &rows), 1.0 / n as f64);
    let codes = Codes::from_bytes(vec![0; n], 1, 2).unwrap();
    let leaf = Cart::default().fit(&codes, &p).unwrap().nodes()[0].value.clone();
    all_near(&leaf, &mean, ROUNDING);
    near(leaf.iter().sum(), 1.0, ROUNDING);
    let loss = |t: &[f64], criterion| {
        let each = |i: &usize| match criterion {
            Criterion::Information => (0..k).map(|c| -p[[*i, c]] * t[c].ln()).sum::<f64>(),
            Criterion::Variance => (0..k).map(|c| (p[[*i, c]] - t[c]).powi(2)).sum(),
        };
        rows.iter().map(each).sum::<f64>()
    };
    // All points of a grid on the simplex are worse, by n KL and by n times the squared distance.
    let grid = 12;
    let mut points = 0;
    for a in 1..grid {
        for b in 1..grid - a {
            for c in 1..grid - a - b {
                let t = scaled(&[a, b, c, grid - a - b - c].map(f64::from), 1.0 / f64::from(grid));
                let apart: Vec<f64> = t.iter().zip(&mean).map(|(t, m)| t - m).collect();
                let more = |criterion| loss(&t, criterion) - loss(&mean, criterion);
                near(more(Criterion::Information), n as f64 * divergence(&mean, &t), ROUNDING);
                near(more(Criterion::Variance), n as f64 * square(&apart), ROUNDING);
                points += 1;
            }
        }
    }
    assert!(points > 100);
}

#[test]
fn the_mean_of_scores_is_another_vector_and_depends_on_their_zero() {
    let softmax = |s: [f64; 2]| {
        let e = s.map(f64::exp);
        e.map(|v| v / (e[0] + e[1]))
    };
    let p = [[0.9, 0.1], [0.2, 0.8]];
    let mean = [0, 1].map(|c| (p[0][c] + p[1][c]) / 2.0);
    all_near(&mean, &[0.55, 0.45], ROUNDING);
    let scores = p.map(|row| row.map(f64::ln));
    all_near(&softmax([0, 1].map(|c| (scores[0][c] + scores[1][c]) / 2.0)), &[0.6, 0.4], ROUNDING);
    // Four rows that say the same, with scores that begin at different zeros: squared distances to the mean of the scores.
    let zeros = [0.0, 0.0, 2.0, 2.0];
    let rows = zeros.map(|z| [1.0 + z, z]);
    rows.iter().for_each(|row| all_near(&softmax(*row), &softmax(rows[0]), ROUNDING));
    let spread = |rows: &[[f64; 2]]| {
        let n = rows.len() as f64;
        let mean = [0, 1].map(|c| rows.iter().map(|row| row[c]).sum::<f64>() / n);
        rows.iter().map(|row| (row[0] - mean[0]).powi(2) + (row[1] - mean[1]).powi(2)).sum::<f64>()
    };
    near(spread(&rows) - spread(&rows[..2]) - spread(&rows[2..]), 8.0, ROUNDING);
    // On probabilities there is nothing to ask.
    let [a, b] = softmax(rows[0]);
    let p = Array2::from_shape_fn((4, 2), |(_, c)| [a, b][c]);
    let codes = Codes::from_bytes(vec![0, 0, 1, 1], 1, 2).unwrap();
    for criterion in BOTH {
        assert_eq!(Cart { criterion, ..Cart::default() }.fit(&codes, &p).unwrap().leaves(), 1);
    }
}

/// Rows of a random node with a split, thirty times.
fn splits(mut check: impl FnMut(&Array2<f64>, &[usize], &[usize], f64)) {
    for trial in 0..30 {
        let seed = SEED.named("splits").stream(trial);
        let (codes, p) = (noise(40, 1, 8, seed), dyadic(40, 5, seed.named("p")));
        let all: Vec<usize> = (0..40).collect();
        let [low, high] = divided(&codes, &all, 0, 3);
        check(&p, &low, &high, 40.0);
    }
}

#[test]
fn information_is_a_sum_of_divergences_from_the_mean_of_the_node() {
    splits(|p, low, high, n| {
        let [l, h] = [low, high].map(|rows| scaled(&total(p, rows), 1.0 / rows.len() as f64));
        let s: Vec<f64> = total(p, &[low, high].concat()).iter().map(|s| s / n).collect();
        let sum = low.len() as f64 * divergence(&l, &s) + high.len() as f64 * divergence(&h, &s);
        near(gain(p, low, high, Criterion::Information), sum, ROUNDING);
        assert!(sum > 0.0);
    });
}

#[test]
fn variance_has_four_forms_and_squares_of_the_rows_cancel() {
    splits(|p, low, high, n| {
        let both = [low, high].concat();
        let [s, l] = [&both[..], low].map(|rows| total(p, rows));
        let (n_l, n_h) = (low.len() as f64, high.len() as f64);
        // Squared distances to the means, from the rows themselves.
        let spread = |rows: &[usize]| -> f64 {
            let mean = scaled(&total(p, rows), 1.0 / rows.len() as f64);
            rows.iter().map(|i| (0..5).map(|c| (p[[*i, c]] - mean[c]).powi(2)).sum::<f64>()).sum()
        };
        let gini = |rows: &[usize]| {
            let m = rows.len() as f64;
            m * (1.0 - square(&scaled(&total(p, rows), 1.0 / m)))
        };
        let squares: f64 = both.iter().map(|i| p.row(*i).iter().map(|v| v * v).sum::<f64>()).sum();
        near(spread(&both), squares - square(&s) / n, ROUNDING);
        let expected = gain(p, low, high, Criterion::Variance);
        near(spread(&both) - spread(low) - spread(high), expected, ROUNDING);
        near(gini(&both) - gini(low) - gini(high), expected, ROUNDING);
        let apart: Vec<f64> = l.iter().zip(&s).map(|(l, s)| l - n_l * s / n).collect();
        near(n / (n_l * n_h) * square(&apart), expected, ROUNDING);
        // The first exercise.
        assert!(expected <= gain(p, low, high, Criterion::Information));
    });
}

#[test]
fn the_textbook_form_of_equal_sides_is_negative_and_the_other_is_as_good_as_zero() {
    // Seven rows that say (0.1, 0.9), three of them low.
    let p = Array2::from_shape_fn((7, 2), |(_, c)| [0.1, 0.9][c]);
    let (low, high): (Vec<usize>, Vec<usize>) = ((0..3).collect(), (3..7).collect());
    let textbook = gain(&p, &low, &high, Criterion::Variance);
    near(textbook, -1.8e-15, 0.1e-15);
    let (s, l) = (total(&p, &[0, 1, 2, 3, 4, 5, 6]), total(&p, &low));
    let apart: Vec<f64> = l.iter().zip(&s).map(|(l, s)| l - 3.0 * s / 7.0).collect();
    let other = 7.0 / 12.0 * square(&apart);
    assert!((0.0..1e-31).contains(&other), "{other:e}");
}

/// Ten rows of two classes under three codes: 3 and 0, 2 and 1, 1 and 3.
fn ten() -> (Codes, Array2<f64>) {
    let rows = [(0, 0, 3), (1, 0, 2), (1, 1, 1), (2, 0, 1), (2, 1, 3)];
    let each = |(code, class, times): (u8, usize, usize)| vec![(code, class); times];
    let (codes, labels): (Vec<u8>, Vec<usize>) = rows.into_iter().flat_map(each).unzip();
    (Codes::from_bytes(codes, 1, 3).unwrap(), one_hot(&labels, 2))
}

#[test]
fn the_two_criteria_ask_different_questions_of_ten_rows() {
    let (codes, p) = ten();
    let all: Vec<usize> = (0..10).collect();
    let table = [(Criterion::Information, [1.9498, 1.7774]), (Criterion::Variance, [1.3714, 1.6333])];
    for (criterion, gains) in table {
        for (threshold, expected) in gains.into_iter().enumerate() {
            let [low, high] = divided(&codes, &all, 0, threshold as u8);
            near(gain(&p, &low, &high, criterion), expected, PRINTED);
        }
        let tree = Cart { depth: 1, criterion, ..Cart::default() }.fit(&codes, &p).unwrap();
        let split = tree.nodes()[0].split.unwrap();
        assert_eq!(split.threshold, u8::from(gains[1] > gains[0]));
        near(split.gain, gains[usize::from(split.threshold)], PRINTED);
    }
}

#[test]
fn prefix_sums_over_codes_are_sums_over_rows() {
    let (n, d, levels, k) = (200, 3, 16, 4);
    let (codes, p) = (noise(n, d, levels, SEED), dyadic(n, k, SEED));
    let all: Vec<usize> = (0..n).collect();
    for j in 0..d {
        let mut histogram = vec![vec![0.0; k]; levels];
        for (i, code) in codes.column(j).enumerate() {
            (0..k).for_each(|c| histogram[usize::from(code)][c] += p[[i, c]]);
        }
        let mut low = vec![0.0; k];
        for (tau, sums) in histogram.iter().take(levels - 1).enumerate() {
            low.iter_mut().zip(sums).for_each(|(low, sum)| *low += sum);
            // Numbers of 2⁻²⁰ add up exactly in any order.
            assert_eq!(low, total(&p, &divided(&codes, &all, j, tau as u8)[0]));
        }
    }
}

#[test]
fn the_smaller_sides_of_a_level_have_at_most_half_of_the_rows() {
    let codes = noise(3000, 8, 16, SEED);
    let p = planted(&codes, 5, SEED);
    let tree = Cart { depth: 6, ..Cart::default() }.fit(&codes, &p).unwrap();
    let depths = tree.depths();
    for level in 0..6 {
        let questions = tree.nodes().iter().zip(&depths).filter(|(_, depth)| **depth == level);
        let smaller: u64 = questions
            .filter_map(|(node, _)| node.split)
            .map(|split| [split.low, split.high].map(|next| tree.nodes()[next].weight))
            .map(|[low, high]| low.min(high))
            .sum();
        assert!((1..=1500).contains(&smaller), "{level}: {smaller}");
    }
    assert_eq!(Cart { depth: 6, subtract: false, ..Cart::default() }.fit(&codes, &p).unwrap(), tree);
}

#[test]
fn a_sum_of_three_floating_numbers_depends_on_its_order_and_one_in_fixed_point_does_not() {
    let p = [0.1f64, 0.2, 0.3];
    let (one_way, other_way) = ((p[0] + p[1]) + p[2], p[0] + (p[1] + p[2]));
    assert_eq!((one_way, other_way), (0.6000000000000001, 0.6));
    let fixed = p.map(|p| (p * (1u64 << 40) as f64).round() as u64);
    assert_eq!(fixed, [109_951_162_778, 219_902_325_555, 329_853_488_333]);
    assert_eq!((fixed[0] + fixed[1]) + fixed[2], 659_706_976_666);
    assert_eq!(fixed[0] + (fixed[1] + fixed[2]), 659_706_976_666);
}

#[test]
fn a_leaf_in_fixed_point_is_off_by_so_much() {
    let unit = 1.0 / (1u64 << 41) as f64;
    // What f64 itself does to a mean of a few dozen numbers below one.
    let float = 1e-15;
    let mut worst = 0.0f64;
    for (trial, k) in [2, 3, 10, 100].into_iter().enumerate() {
        for n in [1, 7, 40] {
            let p = soft(n, k, SEED.stream(trial as u64));
            let codes = Codes::from_bytes(vec![0; n], 1, 2).unwrap();
            let value = Cart::default().fit(&codes, &p).unwrap().nodes()[0].value.clone();
            let mean = scaled(&total(&p, &(0..n).collect::<Vec<_>>()), 1.0 / n as f64);
            for (value, mean) in value.iter().zip(&mean) {
                let bound = (1.0 + (k as f64 - 2.0) * mean) * unit / (1.0 - k as f64 * unit);
                near(*value, *mean, bound + float);
                worst = worst.max((value - mean).abs() / bound);
            }
        }
    }
    // The bound is of the right size.
    assert!(worst > 0.5, "{worst}");
    // 64 bits have room for 2²⁴ rows that say one, less a carry; the crate stops at 2²².
    assert!((1u64 << 40).checked_mul((1 << 24) - 1).is_some() && (1u64 << 40).checked_mul(1 << 24).is_none());
}

#[test]
fn exclusive_or_has_no_first_question() {
    let codes = Codes::from_bytes(vec![0, 0, 0, 1, 1, 0, 1, 1], 2, 2).unwrap();
    let p = one_hot(&[0, 1, 1, 0], 2);
    for criterion in BOTH {
        for feature in 0..2 {
            let [low, high] = divided(&codes, &[0, 1, 2, 3], feature, 0);
            near(gain(&p, &low, &high, criterion), 0.0, ROUNDING);
        }
        let cart = Cart { depth: 2, criterion, ..Cart::default() };
        assert_eq!(cart.fit(&codes, &p).unwrap().leaves(), 1);
        let solved = Cart { allow_zero_gain: true, ..cart }.fit(&codes, &p).unwrap();
        assert_eq!(solved.accuracy(&codes, &[0, 1, 1, 0]).unwrap(), 1.0);
    }
}

/// Exclusive or of the first two features, and a third that agrees with it in three rows of four.
fn tempting() -> (Codes, Vec<u32>) {
    let (mut bytes, mut labels) = (Vec::new(), Vec::new());
    for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let y = a ^ b;
        for copy in 0..4 {
            bytes.extend([a, b, if copy == 0 { 1 - y } else { y }]);
            labels.push(u32::from(y));
        }
    }
    (Codes::from_bytes(bytes, 3, 2).unwrap(), labels)
}

#[test]
fn a_greedy_tree_takes_the_tempting_question_and_cannot_go_on() {
    let (codes, labels) = tempting();
    let p = one_hot(&labels.iter().map(|y| *y as usize).collect::<Vec<_>>(), 2);
    let first_two: Vec<u8> = codes.rows().flat_map(|row| [row[0], row[1]]).collect();
    let first_two = Codes::from_bytes(first_two, 2, 2).unwrap();
    for criterion in BOTH {
        let cart = Cart { depth: 2, criterion, ..Cart::default() };
        for allow_zero_gain in [false, true] {
            let greedy = Cart { allow_zero_gain, ..cart }.fit(&codes, &p).unwrap();
            assert_eq!(greedy.nodes()[0].split.unwrap().feature, 2);
            assert_eq!(greedy.accuracy(&codes, &labels).unwrap(), 0.75);
        }
        // The best tree of depth two does not see the third feature.
        let best = Cart { allow_zero_gain: true, ..cart }.fit(&first_two, &p).unwrap();
        assert_eq!((best.depth(), best.accuracy(&first_two, &labels).unwrap()), (2, 1.0));
        let deeper = Cart { allow_zero_gain: true, depth: 3, ..cart }.fit(&codes, &p).unwrap();
        assert_eq!(deeper.accuracy(&codes, &labels).unwrap(), 1.0);
    }
}

#[test]
fn a_tree_names_at_most_as_many_classes_as_it_has_leaves() {
    // Equally frequent classes, and features that are the digits of the class: the best that codes can be.
    for (classes, digits) in [(12u32, 4), (200, 8)] {
        let labels: Vec<u32> = (0..2 * classes).map(|i| i % classes).collect();
        let bytes =
            labels.iter().flat_map(|y| (0..digits).map(move |digit| ((y >> digit) & 1) as u8)).collect();
        let codes = Codes::from_bytes(bytes, digits, 2).unwrap();
        let p = one_hot(&labels.iter().map(|y| *y as usize).collect::<Vec<_>>(), classes as usize);
        let reached = |depth| {
            let tree = Cart { depth, ..Cart::default() }.fit(&codes, &p).unwrap();
            let accuracy = tree.accuracy(&codes, &labels).unwrap();
            near(accuracy, tree.leaves() as f64 / f64::from(classes), ROUNDING);
            accuracy
        };
        for depth in 0..digits {
            assert!(reached(depth) <= f64::from(1u32 << depth) / f64::from(classes));
        }
        assert_eq!(reached(digits), 1.0);
        match classes {
            12 => near(reached(3), 8.0 / 12.0, ROUNDING),
            _ => near(reached(5), 0.16, ROUNDING),
        }
    }
}

/// Fewest leaves, or fewest questions in a row, of any tree that says whether the first of two codes is larger.
fn least(levels: usize, join: fn(usize, usize) -> usize, leaf: usize) -> usize {
    type Area = (usize, usize, usize, usize);
    fn of(
        at: Area,
        join: fn(usize, usize) -> usize,
        leaf: usize,
        known: &mut std::collections::HashMap<Area, usize>,
    ) -> usize {
        let (a, b, c, d) = at;
        // The first code is from a to b, the second from c to d: all larger, or none.
        if a > d || b <= c {
            return leaf;
        }
        if let Some(found) = known.get(&at) {
            return *found;
        }
        let first = (a..b).map(|t| [(a, t, c, d), (t + 1, b, c, d)]);
        let second = (c..d).map(|t| [(a, b, c, t), (a, b, t + 1, d)]);
        let ways: Vec<[Area; 2]> = first.chain(second).collect();
        let cost = |[low, high]: [Area; 2]| join(of(low, join, leaf, known), of(high, join, leaf, known));
        let least = ways.into_iter().map(cost).min().unwrap();
        known.insert(at, least);
        least
    }
    of((0, levels - 1, 0, levels - 1), join, leaf, &mut std::collections::HashMap::new())
}

#[test]
fn comparing_two_codes_takes_a_staircase() {
    for bits in 1..=4 {
        let levels = 1 << bits;
        assert_eq!(least(levels, |low, high| low + high, 1), 2 * levels - 1);
        assert_eq!(least(levels, |low, high| 1 + low.max(high), 0), bits + 1);
    }
    // The greedy tree needs at least as many, and gets there.
    let bytes: Vec<u8> = (0..16).flat_map(|a| (0..16).flat_map(move |b| [a, b])).collect();
    let codes = Codes::from_bytes(bytes, 2, 16).unwrap();
    let labels: Vec<u32> = codes.rows().map(|row| u32::from(row[0] > row[1])).collect();
    let p = one_hot(&labels.iter().map(|y| *y as usize).collect::<Vec<_>>(), 2);
    for criterion in BOTH {
        let tree = Cart { depth: 24, criterion, ..Cart::default() }.fit(&codes, &p).unwrap();
        assert_eq!(tree.accuracy(&codes, &labels).unwrap(), 1.0);
        assert!(tree.leaves() >= 31 && tree.depth() >= 5, "{} {}", tree.leaves(), tree.depth());
        let shallow = Cart { depth: 4, criterion, ..Cart::default() }.fit(&codes, &p).unwrap();
        assert!(shallow.accuracy(&codes, &labels).unwrap() < 1.0);
    }
}

/// Rows that are read in an epoch if the tree is refitted after every `every` batches.
fn read(m: usize, batch: usize, every: usize) -> usize {
    let batches = m.div_ceil(batch);
    (1..=batches).filter(|b| b % every == 0).map(|b| m.min(b * batch)).sum()
}

#[test]
fn refitting_in_every_batch_reads_a_quadratic_number_of_rows() {
    let (m, batch) = (6000, 200);
    assert_eq!(read(m, batch, 1), 93_000);
    assert_eq!(read(m, batch, 1), m * (m / batch + 1) / 2);
    assert_eq!([read(m, batch, 5), read(m, batch, 30)], [21_000, 6000]);
    // Twice the data in batches of the same size: four times the rows, nearly.
    assert_eq!(read(2 * m, batch, 1), 366_000);
    // Birds: 5 994 images in batches of 16.
    assert_eq!(read(5994, 16, 1), 1_127_994);
}

#[test]
fn the_printed_loss_of_a_soft_tree_is_the_logarithm_of_a_negative_number() {
    // Two leaves, each with probability ½, that give the right class 0.9 and 0.2.
    let inner: f64 = 0.5 * 0.9f64.ln() + 0.5 * 0.2f64.ln();
    near(inner, -0.8574, PRINTED);
    assert!(inner.ln().is_nan());
    // The loss of the mean is smaller, by Jensen.
    let of_mean = -(0.5f64 * 0.9 + 0.5 * 0.2).ln();
    near(of_mean, 0.5978, PRINTED);
    assert!(of_mean < -inner);
    // With the sign mended inside, −ln of the cross entropy would be least where the right class has least.
    let read = |q: [f64; 2]| -(-(0.5 * q[0].ln() + 0.5 * q[1].ln())).ln();
    assert!(read([0.1, 0.1]) < read([0.9, 0.9]));
}

#[test]
fn with_two_questions_both_criteria_say_the_same_of_the_ten_rows() {
    let (codes, p) = ten();
    let each = Codes::from_bytes(vec![0, 1, 2], 1, 3).unwrap();
    let expected = [1.0, 0.0, 2.0 / 3.0, 1.0 / 3.0, 0.25, 0.75];
    let trees =
        BOTH.map(|criterion| Cart { depth: 2, criterion, ..Cart::default() }.fit(&codes, &p).unwrap());
    for tree in &trees {
        let said: Vec<f64> = tree.predict(&each).unwrap().iter().copied().collect();
        all_near(&said, &expected, ROUNDING);
    }
    assert!(!trees[0].same_questions(&trees[1]));
    let rules = trees[0].rules(&trees[0].names(&["a", "b"])).unwrap();
    assert_eq!(
        rules,
        "z0 > 0?\n  yes: z0 > 1?\n    yes: b 0.75 (4 rows)\n    no: a 0.67 (3 rows)\n  no: a 1.00 (3 rows)\n"
    );
}
