//! Runs that are killed, not stopped: whatever the moment, the same call continues to the same bytes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lastlayer::data::toy::arcs;
use lastlayer::loss::cross_entropy;
use lastlayer::model::zoo::mlp;
use lastlayer::model::{Layer, SplitNet};
use lastlayer::prelude::Device;
use lastlayer::seed::Seed;
use lastlayer::train::{Step, Trainer};

const FOLDER: &str = "LASTLAYER_TEST_RESUME";
const KILLS: u64 = 50;

/// A run with batch norm, dropout and validation; at the end, network and history are saved in the folder.
fn run(folder: &Path) {
    let data = arcs(300, 0.1, Seed::new(1), &Device::Cpu).unwrap();
    let mut plan = mlp(&[2, 32, 16]).unwrap();
    plan.layers
        .extend([("bn".to_string(), Layer::BatchNorm), ("drop".to_string(), Layer::Dropout { rate: 0.1 })]);
    let net = SplitNet::new(plan, 2, Seed::new(2), &Device::Cpu).unwrap();
    let score = || {
        let right = net.scores_of(&data)?.argmax(1)?.eq(&data.y)?;
        Ok(right.to_dtype(lastlayer::prelude::DType::F64)?.mean_all()?.to_scalar::<f64>()?)
    };
    let run = Trainer::adam(0.01)
        .epochs(12)
        .batch(25)
        .seed(Seed::new(3))
        .silent()
        .checkpoints(folder, 3)
        .fit_validated(
            &net,
            &data,
            |b| Ok(Step::new(cross_entropy(&net.forward(&b.x, b.pass())?, &b.y)?)),
            score,
        )
        .unwrap();
    net.save(folder.join("net.safetensors")).unwrap();
    std::fs::write(folder.join("history.json"), serde_json::to_vec(&run.history).unwrap()).unwrap();
}

/// Not a test of its own: what the test below starts in processes of their own, and kills.
#[test]
fn a_run_in_a_process_of_its_own() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        run(Path::new(&folder));
    }
}

#[test]
fn killed_runs_end_in_the_same_bytes() {
    let process = |folder: &Path| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_run_in_a_process_of_its_own"])
            .env(FOLDER, folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let result = |folder: &Path| {
        ["net.safetensors", "history.json"].map(|name| std::fs::read(folder.join(name)).unwrap())
    };
    let whole = tempfile::tempdir().unwrap();
    let started = Instant::now();
    assert!(process(whole.path()).wait().unwrap().success());
    let duration = started.elapsed();
    let mut killed = 0;
    for trial in 0..KILLS {
        let folder = tempfile::tempdir().unwrap();
        for kill in 0.. {
            let mut child = process(folder.path());
            // The first tries are killed somewhere within the time of a whole run; then it may end.
            if kill < 2 {
                std::thread::sleep(
                    duration.mul_f64(Seed::new(trial).uniform(kill)) + Duration::from_micros(1),
                );
                killed += usize::from(child.try_wait().unwrap().is_none());
                child.kill().ok();
            }
            if child.wait().unwrap().success() {
                break;
            }
        }
        assert_eq!(result(folder.path()), result(whole.path()), "trial {trial}");
    }
    assert!(killed > KILLS as usize, "only {killed} processes were still alive to be killed");
}
