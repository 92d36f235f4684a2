//! The race among partners: what it runs, what it drops, and how often it loses the right one.

use lastlayer::adversary::Race;
use lastlayer::seed::Seed;

use super::message;

/// Change of attribute a with b in one round: two runs of unit variance, the one alone shared by all partners. Partner
/// a + 1 is worse than all others by `gap` standard deviations of a difference.
fn change(seed: Seed, m: usize, a: usize, b: usize, round: usize, gap: f64) -> f64 {
    let run = |partner: usize| seed.stream((a * m + partner) as u64).normal(round as u64);
    let harm = if b == (a + 1) % m { gap * f64::sqrt(2.0) } else { 0.0 };
    run(b) - run(a) - harm
}

/// Runs a race to its end, or for some rounds.
fn run(mut race: Race, m: usize, seed: Seed, gap: f64, rounds: usize) -> Race {
    while !race.is_over() && race.rounds() < rounds {
        let round = race.rounds();
        for (a, b) in race.next_round() {
            let (x, y) = (change(seed, m, a, b, round, gap), change(seed, m, b, a, round, gap));
            race.record(a, b, x, y).unwrap();
        }
    }
    race
}

/// Share of attributes that have lost their worst partner after the first drop.
fn lost(m: usize, rounds: usize, gap: f64, own: bool, races: u64) -> f64 {
    let count = |k: u64| {
        let race = Race::new(m, rounds, usize::MAX).unwrap();
        let race = if own { race.own_spread() } else { race };
        let race = run(race, m, Seed::new(k), gap, rounds);
        (0..m).filter(|a| !race.active(*a).contains(&((a + 1) % m))).count()
    };
    (0..races).map(count).sum::<usize>() as f64 / (races as usize * m) as f64
}

#[test]
fn own_spread_loses_the_worst_of_fifteen_at_these_rates() {
    // 16 attributes, the worst one standard deviation of a difference away. Standard errors: 0.12 and 0.04 points.
    let (two, three) = (lost(16, 2, 1.0, true, 1500), lost(16, 3, 1.0, true, 1500));
    assert!((two - 0.034).abs() < 0.004, "{two}");
    assert!((three - 0.004).abs() < 0.0015, "{three}");
}

#[test]
fn a_pooled_spread_loses_it_ten_times_less_often() {
    let (two, three) = (lost(16, 2, 1.0, false, 1500), lost(16, 3, 1.0, false, 1500));
    assert!((two - 0.0021).abs() < 0.001, "{two}");
    assert!(three < 0.001, "{three}");
}

#[test]
fn a_worst_partner_three_deviations_away_is_never_lost() {
    for k in 0..100 {
        let race = run(Race::new(8, 3, usize::MAX).unwrap(), 8, Seed::new(k), 3.0, 12);
        for a in 0..8 {
            assert_eq!(race.leader(a).map(|(b, _)| b), Some((a + 1) % 8));
        }
    }
}

#[test]
fn a_pair_is_run_once_for_both_directions() {
    let mut race = Race::new(4, 2, 100).unwrap();
    assert_eq!(race.next_round(), [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]);
    race.record(2, 1, -0.3, 0.1).unwrap();
    assert_eq!((race.leader(2), race.leader(1)), (Some((1, -0.3)), Some((2, 0.1))));
    assert!(!race.next_round().contains(&(1, 2)));
    assert!(message(race.record(1, 2, 0.1, -0.3)).contains("once"));
    assert_eq!((race.runs(), race.rounds()), (1, 0));
}

#[test]
fn both_rules_drop_and_nothing_is_dropped_before_the_rounds_asked_for() {
    // Attribute 0: partner 1 harms much, partner 2 a little, partner 3 helps; a spread of about 0.01.
    let means = [[0.0, -0.5, -0.1, 0.2], [0.3; 4], [0.3; 4], [0.3; 4]];
    let mut race = Race::new(4, 3, 1000).unwrap();
    for round in 0..3 {
        assert_eq!(race.active(0), [1, 2, 3], "round {round}");
        let noise = 0.01 * (round as f64 - 1.0);
        for (a, b) in race.next_round() {
            race.record(a, b, means[a][b] + noise, means[b][a] - noise).unwrap();
        }
    }
    // 2 by the first rule, 3 by both; the others have no harmful partner at all.
    assert_eq!(race.active(0), [1]);
    assert!((1..4).all(|a| race.active(a).is_empty()));
    assert!(race.is_over() && race.next_round().is_empty());
    assert_eq!((race.rounds(), race.runs(), race.single_runs()), (3, 18, 12));
    assert_eq!(race.leader(3), None);
}

#[test]
fn a_round_that_does_not_fit_the_budget_is_not_begun() {
    let race = run(Race::new(6, 2, 44).unwrap(), 6, Seed::new(1), 0.0, 100);
    assert!(race.runs() <= 44 && race.is_over());
    let more = run(Race::new(6, 2, 1000).unwrap(), 6, Seed::new(1), 0.0, 100);
    assert!(more.runs() > 44);
}

#[test]
fn a_race_costs_less_than_all_pairs_in_every_round() {
    // Worst partners two deviations of a difference away; ten rounds of everything would be 1200 runs.
    let runs = (0..20).map(|k| run(Race::new(16, 3, 1200).unwrap(), 16, Seed::new(k), 2.0, 10).runs());
    let mean = runs.sum::<usize>() as f64 / 20.0;
    assert!((500.0..800.0).contains(&mean), "{mean}");
}

#[test]
fn settings_and_records_that_make_no_sense_are_refused() {
    assert!(message(Race::new(1, 3, 10)).contains("at least 2"));
    assert!(message(Race::new(4, 1, 100)).contains("3 is safer"));
    assert!(message(Race::new(4, 3, 17)).contains("18"));
    let mut race = Race::new(3, 2, 6).unwrap();
    let before = race.clone();
    assert!(message(race.record(0, 0, 0.1, 0.1)).contains("next_round"));
    assert!(message(race.record(0, 9, 0.1, 0.1)).contains("next_round"));
    assert!(message(race.record(0, 1, f64::NAN, 0.1)).contains("finite"));
    assert_eq!(race, before);
    assert!(race.active(9).is_empty() && race.leader(9).is_none());
}
