//! The judgement on a kernel, on evidence of every kind; the real kernel is tested in tests/kernel/.

mod device;

use device::device;
use lastlayer::kernel::{Evidence, SUPPORTED_KERNELS};
use lastlayer::prelude::*;

fn good() -> Evidence {
    Evidence {
        in_kernel: true,
        kernel_version: Some(SUPPORTED_KERNELS[0].to_string()),
        own_image: "/run/target/debug/deps/liblastlayer-1.so".into(),
        images: vec!["/lib/libc.so.6".into(), "/run/target/debug/deps/liblastlayer-1.so".into()],
        candle: vec!["0.11.1".into()],
    }
}

fn problem(evidence: Evidence) -> String {
    match evidence.judge() {
        Err(Error::Kernel { problem, remedy }) => {
            assert!(!remedy.is_empty());
            problem
        }
        other => panic!("expected a kernel error, got {other:?}"),
    }
}

#[test]
fn our_kernel_passes() {
    assert!(good().judge().is_ok());
}

#[test]
fn a_copy_inside_the_cell_is_found() {
    let text = problem(Evidence { own_image: "/run/target/debug/deps/libcode_3.so".into(), ..good() });
    assert!(text.contains("libcode_3.so") && text.contains("wrong"), "{text}");
}

#[test]
fn a_second_copy_is_found() {
    let mut evidence = good();
    evidence.images.push("/other/liblastlayer-2.so".into());
    assert!(problem(evidence).starts_with("2 copies"));
}

#[test]
fn candle_of_another_version_is_found_in_lock_file_and_memory() {
    let mut evidence = good();
    evidence.candle.push("0.9.2".into());
    assert!(problem(evidence).contains("version 0.9.2, lastlayer has 0.11.1"));
    let mut evidence = good();
    evidence.images.push("/run/libcandle_core-3.so".into());
    assert!(problem(evidence).contains("libcandle_core-3.so"));
}

#[test]
fn unknown_and_unstarted_kernels_are_told_apart() {
    assert!(
        problem(Evidence { kernel_version: Some("0.1.0".into()), ..good() })
            .contains("0.1.0 is not supported")
    );
    assert!(
        problem(Evidence { kernel_version: None, ..good() }).contains("not started with lastlayer's kernel")
    );
}

#[test]
fn an_ordinary_program_passes_and_shows_its_set_up() -> Result<()> {
    let setup = kernel_check(device(), Seed::new(7))?;
    assert_eq!(setup.kernel, None);
    let text = setup.table().markdown();
    let on = format!("| device | {} |", lastlayer::kernel::device_name(device()));
    for part in [&on, "| kernel | none (ordinary program) |", "| candle-core | 0.11.1 |", "| seed | 7 |"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    Ok(())
}

#[test]
fn the_evidence_of_this_process_names_its_library() {
    let evidence = Evidence::gather();
    assert!(!evidence.in_kernel && !evidence.own_image.is_empty());
}
