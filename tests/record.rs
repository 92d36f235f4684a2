//! Records: whole or not at all, round trip, gathered into a table.

use lastlayer::prelude::*;
use std::fs;

fn sample(name: &str, error: f64) -> Record {
    Record::start(name, "cpu").config("epochs", 3).seed(Seed::new(u64::MAX)).result("error", error)
}

#[test]
fn a_record_round_trips() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = sample("run 1", 0.1 + 0.2).result("steps", 7usize).save(folder.path())?;
    assert_eq!(path.file_name().unwrap(), "run 1.json");
    let back = Record::load(&path)?;
    assert_eq!(back.seed, Some(Seed::new(u64::MAX)));
    assert_eq!(back.results["error"].as_f64(), Some(0.1 + 0.2));
    assert_eq!(back.results["steps"].as_i64(), Some(7));
    assert_eq!(back.provenance.versions["candle-core"].as_str(), Some("0.11.1"));
    assert_eq!(back.provenance.versions["lastlayer"].as_str(), Some(env!("CARGO_PKG_VERSION")));
    Ok(())
}

#[test]
fn not_a_number_is_kept_by_name() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let back = Record::load(sample("nan", f64::NAN).result("top", f64::INFINITY).save(folder.path())?)?;
    assert_eq!(back.results["error"], "NaN");
    assert_eq!(back.results["top"], "inf");
    Ok(())
}

#[test]
fn lists_round_trip_and_values_are_found_by_name() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let back = Record::load(sample("list", 0.5).result("dw", vec![1.5, -2.0]).save(folder.path())?)?;
    assert_eq!(back.value("dw")?, Cell::from(vec![1.5, -2.0]));
    assert_eq!(back.value("dw")?.text(), "[1.5, -2]");
    assert_eq!(back.value("epochs")?, Cell::from(3usize));
    let error = back.value("missing").unwrap_err();
    assert!(error.to_string().ends_with("allowed: dw, error, epochs"), "{error}");
    Ok(())
}

#[test]
fn table_of_gathers_runs_in_order_with_all_columns() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    sample("b", 0.2).result("extra", "x").save(folder.path())?;
    sample("a", 0.1).save(folder.path())?;
    fs::write(folder.path().join("notes.txt"), "ignored").unwrap();
    let table = Record::table_of(&Record::load_all(folder.path())?)?;
    assert_eq!(table.columns(), ["name", "seed", "epochs", "error", "extra", "seconds"]);
    assert_eq!(table.rows()[0][0], Cell::from("a"));
    assert_eq!(table.rows()[0][4], Cell::Empty);
    assert_eq!(table.rows()[1][3], Cell::from(0.2));
    Ok(())
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["", "..", "../up", "a/b", ".hidden", "/abs"] {
        assert!(matches!(sample(name, 0.0).save(folder.path()), Err(Error::Config { .. })), "{name:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn damaged_and_missing_records_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half.json");
    fs::write(&path, "{\n \"name\": \"half\",").unwrap();
    let error = Record::load(&path).unwrap_err();
    assert!(matches!(error, Error::Data { line: Some(2), .. }), "{error:?}");
    assert!(error.to_string().contains("delete it and run the study again"));
    assert!(matches!(Record::load(folder.path().join("none.json")), Err(Error::Io { .. })));
    assert!(matches!(Record::load_all(folder.path().join("none")), Err(Error::Io { .. })));
}

#[test]
fn saving_again_replaces_the_file_and_leaves_no_other() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    sample("run", 1.0).save(folder.path())?;
    let path = sample("run", 2.0).save(folder.path())?;
    assert_eq!(Record::load(path)?.results["error"].as_f64(), Some(2.0));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    Ok(())
}

/// Writes under a limit on file size, which fails in the middle of the file as a full disk does.
#[test]
fn a_full_disk_leaves_the_earlier_record_whole() {
    const CHILD: &str = "LASTLAYER_TEST_FULL_DISK";
    if let Ok(folder) = std::env::var(CHILD) {
        // Safety: plain libc calls in a process of its own, before anything else runs.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &libc::rlimit { rlim_cur: 1000, rlim_max: 1000 });
        }
        let big = sample("run", 2.0).result("text", "x".repeat(100_000));
        let error = big.save(&folder).unwrap_err();
        assert!(
            matches!(&error, Error::Io { .. }) && error.to_string().contains("disk is not full"),
            "{error}"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = sample("run", 1.0).save(folder.path()).unwrap();
    let before = fs::read(&path).unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_full_disk_leaves_the_earlier_record_whole"])
        .env(CHILD, folder.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file was left behind");
}

#[test]
fn numbers_are_read_as_such() {
    let record = Record::start("r", "cpu").result("x", 1.5).result("word", "w").config("n", 3);
    assert_eq!((record.number("x").unwrap(), record.number("n").unwrap()), (1.5, 3.0));
    for name in ["word", "missing"] {
        assert!(matches!(record.number(name).unwrap_err(), Error::Config { .. }));
    }
}

#[test]
fn a_study_takes_as_long_as_its_runs_and_is_of_their_revision() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, seconds: f64, revision: &str| {
        let mut run = sample(name, 0.1);
        run.seconds = seconds;
        run.provenance.revision = Some(revision.to_string());
        run
    };
    let study = sample("study", 0.1).made_of(&[run("a", 40.0, "0123"), run("b", 2.5, "0123")])?;
    let back = Record::load(study.save(folder.path())?)?;
    assert!(back.seconds >= 42.5, "{}", back.seconds);
    assert_eq!(back.provenance.revision.as_deref(), Some("0123"));
    let error = sample("study", 0.1).made_of(&[run("a", 1.0, "0123"), run("b", 1.0, "4567")]).unwrap_err();
    assert!(error.to_string().contains("run them again"), "{error}");
    Ok(())
}
