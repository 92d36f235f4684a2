//! Studies: every run once, in any order, on any number of threads and machines.

mod device;

use device::device;
use std::sync::atomic::{AtomicUsize, Ordering};

use lastlayer::error::Error;
use lastlayer::record::Record;
use lastlayer::train::{Sweep, SweepRun};

fn sweep(folder: &std::path::Path) -> Sweep {
    Sweep::new("study", folder).vary("rate", &[0.1, 0.01]).vary("loss", &["ce", "auc"]).seeds(0..3)
}

fn result(run: &SweepRun) -> f64 {
    run.number("rate").unwrap() * 100.0 + run.seed.value() as f64
}

#[test]
fn every_configuration_meets_every_seed_once() {
    let folder = tempfile::tempdir().unwrap();
    let count = AtomicUsize::new(0);
    let run = |run: &SweepRun, record: Record| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(record.result("value", result(run)))
    };
    let table = sweep(folder.path()).run("cpu", run).unwrap();
    assert_eq!((table.rows().len(), count.load(Ordering::Relaxed)), (12, 12));
    // What has a record is not run again.
    sweep(folder.path()).run("cpu", run).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 12);
    std::fs::remove_file(folder.path().join("study_loss-ce_rate-0.1_seed-2.json")).unwrap();
    sweep(folder.path()).threads(4).run("cpu", run).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 13);
    let record = Record::load(folder.path().join("study_loss-ce_rate-0.1_seed-2.json")).unwrap();
    assert_eq!(record.seed.unwrap().value(), 2);
    assert_eq!(record.config["loss"], "ce");
}

#[test]
fn shards_make_up_the_whole_and_merge_by_folder() {
    let [whole, parts] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let run = |run: &SweepRun, record: Record| Ok(record.result("value", result(run)));
    for i in 0..5 {
        sweep(parts.path()).shard(i, 5).run("cpu", run).unwrap();
    }
    sweep(whole.path()).threads(2).run("cpu", run).unwrap();
    let names = |folder: &std::path::Path| {
        let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(whole.path()), names(parts.path()));
    let sizes: Vec<usize> = (0..5).map(|i| sweep(whole.path()).shard(i, 5).runs().unwrap().len()).collect();
    assert_eq!(sizes, [3, 3, 2, 2, 2]);
}

#[test]
fn a_run_that_fails_does_not_end_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let run = |run: &SweepRun, record: Record| match run.seed.value() {
        1 => Err(Error::config("mine", "bad", "good")),
        _ => Ok(record.result("value", 1.0)),
    };
    for threads in [1, 3] {
        let failed = sweep(folder.path()).threads(threads).run("cpu", run);
        assert!(failed.unwrap_err().to_string().contains("mine"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 8);
    }
}

#[test]
fn runs_on_several_threads_train_as_on_one() {
    use lastlayer::data::toy::arcs;
    use lastlayer::loss::cross_entropy;
    use lastlayer::model::{Split, SplitNet, zoo};
    use lastlayer::train::{Minimise, Trainer};
    let results = [1, 4].map(|threads| {
        let folder = tempfile::tempdir().unwrap();
        let train = |run: &SweepRun, record: Record| {
            let data = arcs(200, 0.1, run.seed, device())?;
            let net = SplitNet::new(zoo::mlp(&[2, 64, 32])?, 2, run.seed, device())?;
            let trainer = Trainer::adam(run.number("rate")?).epochs(3).seed(run.seed).silent();
            let done = trainer.fit(
                &mut Minimise::new(&net, |b| {
                    let loss = cross_entropy(&net.forward(&b.x, b.pass())?, &b.y)?;
                    // Candle's own backward inside a step sees its own gradients.
                    assert!(loss.backward()?.get(&net.last()[0].1).is_some());
                    Ok(loss)
                }),
                &data,
            )?;
            Ok(record.result("loss", done.history.values("loss")?))
        };
        let sweep =
            Sweep::new("threads", folder.path()).vary("rate", &[0.01, 0.02]).seeds(0..4).threads(threads);
        sweep.run("cpu", train).unwrap();
        let losses = sweep.runs().unwrap().into_iter().map(|run| {
            let record = Record::load(folder.path().join(format!("{}.json", run.name))).unwrap();
            record.results["loss"].to_string()
        });
        losses.collect::<Vec<String>>()
    });
    assert_eq!(results[0], results[1]);
}

#[test]
fn studies_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let none: &[f64] = &[];
    for sweep in [
        sweep(folder.path()).seeds([]),
        sweep(folder.path()).vary("empty", none),
        sweep(folder.path()).shard(2, 2),
        sweep(folder.path()).shard(0, 0),
    ] {
        assert!(matches!(sweep.runs(), Err(Error::Config { .. })));
        assert!(sweep.run("cpu", |_, record| Ok(record)).is_err());
    }
    let run = &sweep(folder.path()).runs().unwrap()[0];
    assert!(run.number("loss").is_err() && run.text("rate").is_err() && run.number("other").is_err());
    assert_eq!(run.text("loss").unwrap(), "ce");
}

#[test]
fn a_command_line_chooses_part_and_threads() {
    let folder = tempfile::tempdir().unwrap();
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    let part = sweep(folder.path()).arguments(words("--shard 1/4 --threads 2")).unwrap();
    assert_eq!(part.runs().unwrap(), sweep(folder.path()).shard(1, 4).runs().unwrap());
    for wrong in ["--shard", "--shard 1", "--shard a/b", "--threads x", "--thread 2", "1/4", "--threads 1/2"]
    {
        let error = sweep(folder.path()).arguments(words(wrong)).unwrap_err();
        assert!(
            matches!(error, Error::Config { .. }) && error.to_string().contains("--shard i/n"),
            "{error}"
        );
    }
    let beyond = sweep(folder.path()).arguments(words("--shard 4/4")).unwrap();
    assert!(matches!(beyond.runs().unwrap_err(), Error::Config { .. }));
}

#[test]
fn records_of_other_studies_in_the_folder_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    Record::start("another", "cpu").result("value", 1.0).save(folder.path()).unwrap();
    let table =
        sweep(folder.path()).run("cpu", |run, record| Ok(record.result("value", result(run)))).unwrap();
    assert_eq!(table.rows().len(), 12);
    assert_eq!(sweep(folder.path()).records().unwrap().len(), 12);
}
