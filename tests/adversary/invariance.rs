//! Prices and weights from labels, against every predictor of every small table.

use lastlayer::adversary::{decorrelating_weights, price_from_labels, price_of_invariance};

use super::{all_near, near};

/// Sums and quotients of a few counts.
const ROUNDING: f64 = 1e-14;

/// Labels with these counts: `counts[a][b]`.
fn labels(counts: [[usize; 2]; 2]) -> (Vec<u8>, Vec<u8>) {
    let cells = [(0, 0), (0, 1), (1, 0), (1, 1)];
    let repeat = |pick: fn((usize, usize)) -> usize| -> Vec<u8> {
        cells.iter().flat_map(|&(a, b)| vec![pick((a, b)) as u8; counts[a][b]]).collect()
    };
    (repeat(|(a, _)| a), repeat(|(_, b)| b))
}

/// All tables whose four counts lie between 1 and `most`.
fn tables(most: usize) -> impl Iterator<Item = [[usize; 2]; 2]> {
    (0..most.pow(4)).map(move |i| {
        let count = |k: u32| 1 + i / most.pow(k) % most;
        [[count(0), count(1)], [count(2), count(3)]]
    })
}

/// Fewest errors among all predictors that say 1 equally often for both values of b.
fn fewest_errors(n: [[usize; 2]; 2]) -> usize {
    let mut fewest = usize::MAX;
    // What a predictor says matters only through how many of each cell it says 1 to.
    for (k00, k01) in (0..=n[0][0]).flat_map(|k00| (0..=n[0][1]).map(move |k01| (k00, k01))) {
        for (k10, k11) in (0..=n[1][0]).flat_map(|k10| (0..=n[1][1]).map(move |k11| (k10, k11))) {
            let (of_0, of_1) = (n[0][0] + n[1][0], n[0][1] + n[1][1]);
            if (k00 + k10) * of_1 == (k01 + k11) * of_0 {
                fewest = fewest.min(k00 + k01 + n[1][0] - k10 + n[1][1] - k11);
            }
        }
    }
    fewest
}

/// The message of an error.
#[track_caller]
fn message<T>(result: lastlayer::error::Result<T>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn no_predictor_of_any_small_table_beats_the_price_and_some_attain_it() {
    let mut attained = 0;
    for n in tables(4) {
        let (a, b) = labels(n);
        let price = a.len() as f64 * price_from_labels(&a, &b).unwrap();
        let fewest = fewest_errors(n) as f64;
        assert!(fewest > price - 1e-12, "{n:?}: {fewest} errors, price {price}");
        // Whole samples cannot be split: the rate of the larger group must be a whole number of the smaller one.
        let of = [n[0][0] + n[1][0], n[0][1] + n[1][1]];
        let larger = usize::from(of[1] >= of[0]);
        if (of[1 - larger] * n[1][larger]).is_multiple_of(of[larger]) {
            near(fewest, price, 1e-12);
            attained += usize::from(price > 0.5);
        }
    }
    assert!(attained > 40, "the bound was met in {attained} tables");
}

#[test]
fn the_price_of_labels_is_that_of_their_shares() {
    let (a, b) = labels([[40, 10], [10, 40]]);
    near(price_from_labels(&a, &b).unwrap(), 0.3, ROUNDING);
    near(price_of_invariance(0.5, 0.8, 0.2).unwrap(), 0.3, ROUNDING);
    // P(b = 1) = 0.2, P(a | b) = 0.75, P(a | not b) = 0.25.
    let (a, b) = labels([[12, 1], [4, 3]]);
    near(price_from_labels(&a, &b).unwrap(), 0.2 * 0.5, ROUNDING);
    near(price_of_invariance(0.2, 0.75, 0.25).unwrap(), 0.1, ROUNDING);
    near(price_of_invariance(0.8, 0.25, 0.75).unwrap(), 0.1, ROUNDING);
}

#[test]
fn independent_labels_have_no_price_and_a_copy_costs_the_rarer_value() {
    let (a, b) = labels([[6, 3], [4, 2]]);
    near(price_from_labels(&a, &b).unwrap(), 0.0, ROUNDING);
    let b = [1u8, 1, 1, 0, 1];
    near(price_from_labels(b, b).unwrap(), 0.2, ROUNDING);
    assert_eq!(price_from_labels([1, 1, 1], [0, 1, 1]).unwrap(), 0.0);
}

#[test]
fn decorrelating_weights_give_every_cell_the_product_of_its_margins() {
    for n in tables(4) {
        let (a, b) = labels(n);
        let w = decorrelating_weights(&a, &b).unwrap();
        let share = |keep: &dyn Fn(u8, u8) -> bool, weighted: bool| {
            let kept = (0..a.len()).filter(|&i| keep(a[i], b[i]));
            kept.map(|i| if weighted { w[i] } else { 1.0 }).sum::<f64>() / a.len() as f64
        };
        near(share(&|_, _| true, true), 1.0, ROUNDING);
        for value in 0..2 {
            near(share(&|a, _| a == value, true), share(&|a, _| a == value, false), ROUNDING);
            near(share(&|_, b| b == value, true), share(&|_, b| b == value, false), ROUNDING);
        }
        let both = share(&|a, b| a == 1 && b == 1, true);
        near(both, share(&|a, _| a == 1, true) * share(&|_, b| b == 1, true), ROUNDING);
    }
}

#[test]
fn weights_follow_the_order_of_the_samples() {
    let w = decorrelating_weights([1, 0, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0]).unwrap();
    // Three of each label; cells of two have 9 / (6 · 2), cells of one 9 / 6.
    all_near(&w, &[0.75, 1.5, 0.75, 1.5, 0.75, 0.75], ROUNDING);
}

#[test]
fn bad_input_is_named() {
    for (p_b, q1, q0, named) in [
        (0.0, 0.5, 0.5, "P(b = 1)"),
        (1.0, 0.5, 0.5, "P(b = 1)"),
        (f64::NAN, 0.5, 0.5, "P(b = 1)"),
        (0.5, 1.2, 0.5, "P(a = 1 | b = 1)"),
        (0.5, 0.5, -0.1, "P(a = 1 | b = 0)"),
        (0.5, 0.5, f64::NAN, "P(a = 1 | b = 0)"),
    ] {
        let said = message(price_of_invariance(p_b, q1, q0));
        assert!(said.starts_with(named), "{said}");
    }
    assert!(message(price_from_labels([0, 1], [0])).contains("expected 2, got 1"));
    assert!(message(decorrelating_weights([0], [0, 1])).contains("expected 1, got 2"));
    assert!(message(price_from_labels([0, 2], [0, 1])).starts_with("labels of a: entry 1 is 2"));
    assert!(message(decorrelating_weights([0, 1, 1], [0, 1, 7])).starts_with("labels of b: entry 2 is 7"));
    assert!(message(price_from_labels([0, 1], [1, 1])).starts_with("number of samples with b = 0"));
    assert!(message(price_from_labels([0.0, 0.5], [0.0, 1.0])).starts_with("labels of a: entry 1 is 0.5"));
    assert!(message(price_from_labels([0u8; 0], [0u8; 0])).starts_with("number of samples with b = 0"));
    let said = message(decorrelating_weights([0, 1, 1], [0, 1, 1]));
    assert!(said.starts_with("number of samples with a = 0 and b = 1"), "{said}");
}
