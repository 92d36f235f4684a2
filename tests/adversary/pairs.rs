//! All pairs at once: each network moves as it would alone, and a search loses nothing.

use crate::device::device;
use lastlayer::adversary::{AdvLoss, Adversary, Contest, PairSearch, PairStack, Task};
use lastlayer::data::Dataset;
use lastlayer::model::{Network, Split, zoo};
use lastlayer::numbers::AsF64;
use lastlayer::prelude::{DType, Tensor, Trainer};
use lastlayer::seed::Seed;

use super::message;

const SEED: Seed = Seed::new(11);

fn data(n: usize, seed: Seed) -> Dataset {
    let normal = |i: usize, j: usize| seed.stream(i as u64).normal(j as u64);
    let x: Vec<f32> = (0..n).flat_map(|i| (0..5).map(move |j| normal(i, j) as f32)).collect();
    let attribute = |i: usize, j: usize| normal(i, j) + 0.7 * normal(i, (j + 1) % 5) > 0.0;
    let a: Vec<f32> =
        (0..n).flat_map(|i| (0..4).map(move |j| f32::from(u8::from(attribute(i, j))))).collect();
    let y = Tensor::zeros(n, DType::U32, device()).unwrap();
    let x = Tensor::from_vec(x, (n, 5), device()).unwrap();
    let a = Tensor::from_vec(a, (n, 4), device()).unwrap();
    Dataset::new("four", x, y, ["all"]).unwrap().with_attributes(a, ["a", "b", "c", "d"]).unwrap()
}

fn trainer() -> Trainer {
    Trainer::adam(0.02).batch(32).epochs(8).silent()
}

fn search(folder: &std::path::Path) -> PairSearch {
    PairSearch { hidden: [16, 12], at_once: 3, ..PairSearch::new(trainer(), folder) }
}

/// Accuracy of one network of the ordinary kind, trained by itself.
fn alone(train: &Dataset, test: &Dataset, a: &str, b: Option<&str>) -> (f64, Option<f64>) {
    let loss = if b.is_some() { AdvLoss::MultiTask } else { AdvLoss::None };
    let contest = Contest { loss, ..Contest::default() };
    let rivals: Vec<&str> = b.into_iter().collect();
    let plan = zoo::mlp(&[5, 16, 12]).unwrap();
    let mut adversary = Adversary::new(plan, train, &[a], &rivals, contest, SEED, device()).unwrap();
    let trainer = Trainer { seed: SEED, ..trainer() };
    trainer.fit(&mut adversary, train).unwrap();
    let accuracy = |net: &Network, name: &str| {
        let s = net.scores_of(test).unwrap().numbers().unwrap().into_owned();
        let y = test.attribute(name).unwrap().numbers().unwrap().into_owned();
        s.iter().zip(&y).filter(|(s, y)| (**s > 0.0) == (**y > 0.5)).count() as f64 / y.len() as f64
    };
    (accuracy(adversary.net(), a), b.map(|b| accuracy(&adversary.rival_net().unwrap(), b)))
}

#[test]
fn a_stack_trains_every_pair_as_it_would_be_trained_alone() {
    let (train, test) = (data(160, SEED), data(500, Seed::new(12)));
    let tasks = [Task::Pair(0, 1), Task::Single(2), Task::Pair(1, 3), Task::Single(0)];
    let folder = tempfile::tempdir().unwrap();
    let found = search(folder.path()).measure(&train, &test, &tasks, SEED).unwrap();
    let names = ["a", "b", "c", "d"];
    for (task, [first, second]) in tasks.iter().zip(found) {
        let (own, other) = match *task {
            Task::Single(a) => alone(&train, &test, names[a], None),
            Task::Pair(a, b) => alone(&train, &test, names[a], Some(names[b])),
        };
        assert_eq!(first, own, "{task:?}");
        assert_eq!(second, other.unwrap_or(own), "{task:?}");
        assert!(own > 0.6, "{own}: it has learnt something");
    }
}

#[test]
fn a_search_runs_every_task_once_and_goes_on_where_it_stopped() {
    let (train, test) = (data(96, SEED), data(200, Seed::new(12)));
    let folder = tempfile::tempdir().unwrap();
    let files = |folder: &std::path::Path| {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let whole = search(folder.path()).run(&train, &test, &[1, 2], &[1, 2, 3]).unwrap();
    // Four attributes with three seeds, six pairs with two.
    assert_eq!(files(folder.path()).len(), 4 * 3 + 6 * 2);
    let modified = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().modified().unwrap();
    let kept = modified("pair_0_1_seed-1.json");
    std::fs::remove_file(folder.path().join("pair_2_3_seed-2.json")).unwrap();
    let again = search(folder.path()).run(&train, &test, &[1, 2], &[1, 2, 3]).unwrap();
    assert_eq!(whole, again);
    assert_eq!(modified("pair_0_1_seed-1.json"), kept, "not run twice");
}

#[test]
fn shards_that_write_at_once_make_up_the_whole() {
    let (train, test) = (data(96, SEED), data(200, Seed::new(12)));
    let (folder, apart) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = search(folder.path()).run(&train, &test, &[1, 2], &[1, 2]).unwrap();
    std::thread::scope(|scope| {
        for i in 0..2 {
            let search = PairSearch { shard: (i, 2), ..search(apart.path()) };
            let (train, test) = (&train, &test);
            scope.spawn(move || search.run(train, test, &[1, 2], &[1, 2]).unwrap());
        }
    });
    let names = &train.names.attributes;
    assert_eq!(search(apart.path()).collect(names, &[1, 2], &[1, 2]).unwrap(), whole);
}

#[test]
fn bad_searches_say_what_is_allowed() {
    let train = data(40, SEED);
    let folder = tempfile::tempdir().unwrap();
    let run = |search: PairSearch| message(search.run(&train, &train, &[1], &[1]));
    assert!(run(PairSearch { shard: (2, 2), ..search(folder.path()) }).contains("i below n"));
    assert!(run(PairSearch { at_once: 0, ..search(folder.path()) }).contains("at least one at once"));
    let stack = |tasks: &[Task]| PairStack::new(&train, [4, 4], tasks, SEED, device());
    assert!(message(stack(&[])).contains("at least one"));
    assert!(message(stack(&[Task::Pair(0, 4)])).contains("attributes 0 to 3"));
    let images = Dataset { x: train.x.reshape((40, 1, 5, 1)).unwrap(), ..train.clone() };
    assert!(
        message(PairStack::new(&images, [4, 4], &[Task::Single(0)], SEED, device()))
            .contains("cached features")
    );
    let bare = Dataset { a: None, ..train.clone() };
    assert!(message(stack(&[Task::Single(0)]).unwrap().accuracies(&bare)).contains("no attributes"));
    // One attribute has no pairs; its search is that of the single task.
    let one = Dataset { a: None, ..train.clone() };
    let one = one.with_attributes(train.a.as_ref().unwrap().narrow(1, 0, 1).unwrap(), ["a"]).unwrap();
    let found = search(&folder.path().join("one")).run(&one, &one, &[1], &[1]).unwrap();
    assert!(found.naive_negative().is_empty());
}
