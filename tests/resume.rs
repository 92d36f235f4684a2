//! Runs that are killed, not stopped: whatever the moment, the same call continues to the same bytes.

mod device;

use device::device;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use lastlayer::data::toy::arcs;
use lastlayer::loss::cross_entropy;
use lastlayer::model::zoo::mlp;
use lastlayer::model::{Layer, Split, SplitNet};
use lastlayer::seed::Seed;
use lastlayer::train::{Minimise, Trainer};

const FOLDER: &str = "LASTLAYER_TEST_RESUME";
/// The step, counted from 0, in which a process is to kill itself.
const KILL_AT: &str = "LASTLAYER_TEST_KILL_AT";
const SIGKILL: i32 = 9;
/// Exit code of a process that was ended in a write.
const ENDED: i32 = 77;
const EPOCHS: usize = 4;
const STEPS: usize = EPOCHS * 12;
/// Steps between two checkpoints.
const EVERY: usize = 3;

/// A run with batch norm, dropout and validation; at the end, network and history are saved in the folder.
fn run(folder: &Path) {
    let data = arcs(300, 0.1, Seed::new(1), device()).unwrap();
    let mut plan = mlp(&[2, 32, 16]).unwrap();
    plan.layers
        .extend([("bn".to_string(), Layer::BatchNorm), ("drop".to_string(), Layer::Dropout { rate: 0.1 })]);
    let net = SplitNet::new(plan, 2, Seed::new(2), device()).unwrap();
    let score = || {
        let right = net.scores_of(&data)?.argmax(1)?.eq(&data.y)?;
        Ok(right.to_dtype(lastlayer::prelude::DType::F64)?.mean_all()?.to_scalar::<f64>()?)
    };
    let kill_at: Option<usize> = std::env::var(KILL_AT).ok().and_then(|step| step.parse().ok());
    let run = Trainer::adam(0.01)
        .epochs(EPOCHS)
        .batch(25)
        .seed(Seed::new(3))
        .silent()
        .checkpoints(folder, EVERY)
        .fit_validated(
            &mut Minimise::new(&net, |b| {
                if kill_at == Some(b.step) {
                    // SAFETY: a process may send a signal to itself.
                    unsafe { libc::raise(SIGKILL) };
                }
                cross_entropy(&net.forward(&b.x, b.pass())?, &b.y)
            }),
            &data,
            |_| score(),
        )
        .unwrap();
    net.save(folder.join("net.safetensors")).unwrap();
    std::fs::write(folder.join("history.json"), serde_json::to_vec(&run.history).unwrap()).unwrap();
}

/// Not a test of its own: what the tests below start in processes of their own, and end.
#[test]
fn a_run_in_a_process_of_its_own() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        run(Path::new(&folder));
    }
}

/// A run in a process of its own; whether it came to its end.
fn process(folder: &Path, settings: &[(&str, &str)]) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_run_in_a_process_of_its_own"])
        .env(FOLDER, folder)
        .env("END_FOLDER", folder)
        .envs(settings.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let ended = status.code() == Some(ENDED) || status.signal() == Some(SIGKILL);
    assert!(status.success() || ended, "it failed, and was not ended: {status}");
    status.success()
}

fn result(folder: &Path) -> [Vec<u8>; 2] {
    ["net.safetensors", "history.json"].map(|name| std::fs::read(folder.join(name)).unwrap())
}

/// What an undisturbed run leaves.
fn undisturbed() -> [Vec<u8>; 2] {
    let whole = tempfile::tempdir().unwrap();
    assert!(process(whole.path(), &[]));
    result(whole.path())
}

#[test]
fn runs_killed_in_any_step_end_in_the_same_bytes() {
    let whole = undisturbed();
    for step in 0..STEPS {
        let folder = tempfile::tempdir().unwrap();
        assert!(!process(folder.path(), &[(KILL_AT, &step.to_string())]), "step {step}");
        assert!(process(folder.path(), &[]), "after step {step}");
        assert_eq!(result(folder.path()), whole, "killed in step {step}");
    }
}

/// A library is loaded into the process that ends it inside the system calls with which files are written.
#[test]
#[cfg(target_os = "linux")]
fn runs_that_end_in_any_write_end_in_the_same_bytes() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, library) = (scratch.path().join("end_at.c"), scratch.path().join("end_at.so"));
    std::fs::write(&source, include_str!("resume/end_at.c")).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(compiled.unwrap().success());
    let library = library.to_str().unwrap();

    let (whole, counted) = (tempfile::tempdir().unwrap(), scratch.path().join("count"));
    assert!(process(whole.path(), &[("LD_PRELOAD", library), ("END_COUNT", counted.to_str().unwrap())]));
    let events = std::fs::read(&counted).unwrap().len();
    // Each checkpoint is opened, written, synced and renamed.
    assert!(events >= 4 * STEPS / EVERY, "{events}");
    for event in 1..=events {
        let folder = tempfile::tempdir().unwrap();
        let ending =
            |at: usize| process(folder.path(), &[("LD_PRELOAD", library), ("END_AT", &at.to_string())]);
        assert!(!ending(event), "event {event}");
        ending(1 + event % 7); // and once more in what follows, or to its end
        assert!(process(folder.path(), &[]), "after event {event}");
        assert_eq!(result(folder.path()), result(whole.path()), "event {event} of {events}");
    }
}
