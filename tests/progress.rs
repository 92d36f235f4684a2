//! Progress: what its lines say and when it is silent.

use lastlayer::prelude::*;
use lastlayer::progress::Show;
use std::time::Duration;

#[test]
fn a_line_tells_count_note_time_and_rest() -> Result<()> {
    let mut p = Progress::with("train", 20, Show::Silent)?;
    (0..5).for_each(|_| p.step(""));
    assert_eq!(
        p.line("loss 0.31", Duration::from_secs(12)),
        "train  5/20  loss 0.31  12 s elapsed, about 36 s left"
    );
    (0..15).for_each(|_| p.step(""));
    assert_eq!(p.line("", Duration::from_secs(75)), "train 20/20  1:15 min elapsed");
    Ok(())
}

#[test]
fn steps_beyond_the_end_do_not_count() -> Result<()> {
    let mut p = Progress::with("train", 2, Show::Silent)?;
    (0..9).for_each(|_| p.step(""));
    assert_eq!(p.done(), 2);
    Ok(())
}

#[test]
fn no_steps_at_all_is_an_error() {
    assert!(matches!(Progress::new("train", 0), Err(Error::Config { .. })));
}

#[test]
fn tests_are_silent() {
    assert_eq!(Show::detect(), Show::Silent);
}

/// Runs this very test binary as a child that prints, and reads what it printed.
fn printed(show: &str, steps: usize) -> String {
    let out = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_prints", "--nocapture", "--include-ignored", "--test-threads=1"])
        .env("LASTLAYER_TEST_SHOW", format!("{show} {steps}"))
        .output()
        .unwrap();
    assert!(out.stderr.is_empty(), "progress must never write to stderr");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn child_prints() -> Result<()> {
    let Ok(order) = std::env::var("LASTLAYER_TEST_SHOW") else { return Ok(()) };
    let (show, steps) = order.split_once(' ').unwrap();
    let show = if show == "lines" { Show::Lines } else { Show::Bar };
    let mut p = Progress::with("train", steps.parse().unwrap(), show)?;
    (0..steps.parse().unwrap()).for_each(|_| p.step("ok"));
    Ok(())
}

#[test]
fn a_notebook_gets_about_ten_whole_lines_however_long_the_run() {
    for steps in [3, 10, 1234] {
        let text = printed("lines", steps);
        let lines = text.lines().filter(|l| l.starts_with("train") || l.contains("train ")).count();
        assert_eq!(lines, steps.min(10), "{text}");
        assert!(!text.contains('\r') && !text.contains('\x1b'));
    }
}

#[test]
fn a_terminal_gets_one_line_that_redraws_itself() {
    let began = std::time::Instant::now();
    let text = printed("bar", 1000);
    assert!(text.contains("\r\x1b[2K") && text.contains("train 1000/1000"));
    // The first and the last are always drawn, the others a tenth of a second apart, however long that takes.
    let most = 2.0 + 10.0 * began.elapsed().as_secs_f64();
    assert!(text.matches("train").count() as f64 <= most, "the bar is drawn at most ten times a second");
}
