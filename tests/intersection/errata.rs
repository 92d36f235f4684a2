//! Numbers of the errata that belong to no chapter.

use super::near;

/// Q = (θ² + ω²)/2 − 2θω + (θ⁴ + ω⁴)/4, which has a saddle at 0 and minima at ±(1, 1).
fn q([theta, omega]: [f64; 2]) -> f64 {
    (theta * theta + omega * omega) / 2.0 - 2.0 * theta * omega + (theta.powi(4) + omega.powi(4)) / 4.0
}

#[test]
fn the_printed_saddle_is_any_critical_point_a_minimum_too() {
    for (point, saddle) in [([0.0, 0.0], true), ([1.0, 1.0], false), ([-1.0, -1.0], false)] {
        for radius in [0.5, 1e-1, 1e-2, 1e-3] {
            // Points of the neighbourhood: a star of 16 rays, and the point itself.
            let around: Vec<f64> = (0..16)
                .map(|i| f64::from(i) * std::f64::consts::PI / 8.0)
                .map(|angle| q([point[0] + radius * angle.cos(), point[1] + radius * angle.sin()]))
                .chain([q(point)])
                .collect();
            let (low, high) =
                around.iter().fold((f64::MAX, f64::MIN), |(low, high), q| (low.min(*q), high.max(*q)));
            // Printed: f(a) ≤ f(x) ≤ f(b), which a = b = x grants everywhere. Right: both strict.
            assert!(low <= q(point) && q(point) <= high);
            assert_eq!(low < q(point) && q(point) < high, saddle, "{point:?} at distance {radius}");
        }
    }
}

#[test]
fn without_an_indicator_of_code_zero_the_best_test_is_lost() {
    // Eight rows, one feature of two bits, and an attribute of the first three rows.
    let codes = [0, 0, 1, 1, 2, 2, 3, 3];
    let best = |levels: std::ops::RangeInclusive<usize>| {
        let f1 = |holds: &dyn Fn(usize) -> bool| {
            let both = (0..3).filter(|i| holds(codes[*i])).count() as f64;
            2.0 * both / (3.0 + codes.iter().filter(|code| holds(**code)).count() as f64)
        };
        levels.flat_map(|c| [f1(&|code| code == c), f1(&|code| code != c)]).fold(0.0, f64::max)
    };
    near(best(0..=3), 0.8, 1e-15);
    // Printed: codes 1 to 4, of which 4 never occurs.
    near(best(1..=4), 2.0 / 3.0, 1e-15);
    assert!(!codes.contains(&4));
}
