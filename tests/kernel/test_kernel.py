"""The kernel as users get it: warm, pinned, ours, several at once, and honest about what is wrong."""

import tomllib
from pathlib import Path

import kernel as launcher
import notebook
from conftest import ROOT, text_of

CHECK_KERNEL = "kernel_check(&Device::Cpu, Seed::new(7))?"


def test_a_warm_start_compiles_nothing(lab):
    assert "Compiling" not in lab.log_text(), lab.log_text()


def test_kernel_check_shows_one_table(lab):
    outputs, _, _ = lab.execute(CHECK_KERNEL)
    [table] = [o for o in outputs if o.output_type == "execute_result"]
    assert "<table>" in table.data["text/html"]
    for row in ("| device | cpu |", "| kernel | evcxr_jupyter 0.22.0 |", "| candle-core | 0.11.1 |", "| seed | 7 |"):
        assert row in table.data["text/plain"]


def test_the_build_profile_is_ours(lab):
    assert text_of(lab, "cfg!(debug_assertions)").strip() == "false"
    # opt-level 3 and no overflow checks: an overflow that the compiler cannot foresee wraps instead of panicking.
    assert text_of(lab, 'let top: u8 = std::hint::black_box("255").parse()?; top + std::hint::black_box(1)').strip() == "0"


def test_versions_are_the_pinned_ones(lab):
    def locked(path):
        return {(p["name"], p["version"]) for p in tomllib.loads(path.read_text())["package"]}

    run = Path(lab.run_file.read_text())
    assert locked(run / "Cargo.lock") - {("ctx", "1.0.0")} <= locked(ROOT / "Cargo.lock")


def test_types_of_the_standard_library_are_inferred(lab):
    for name, value in (
        ("list", "vec![1.0, 2.0]"),
        ("total", "list.iter().sum::<f64>()"),
        ("map", 'std::collections::HashMap::from([("a", 1)])'),
        ("text", 'format!("{total}")'),
        ("pair", "(map.len(), text.clone())"),
        ("maybe", "list.iter().copied().reduce(f64::max)"),
    ):
        assert text_of(lab, f"let {name} = {value};") == ""
    assert text_of(lab, "(pair, maybe)").strip() == '((1, "3"), Some(2.0))'


def test_a_failed_question_mark_keeps_earlier_variables(lab):
    text_of(lab, "let kept = 42;")
    assert "shape of x: expected 1, got 2" in text_of(lab, 'lastlayer::error::ensure_shape("x", 1, 2)?;')
    assert text_of(lab, "kept").strip() == "42"


def test_candle_errors_are_one_line(lab):
    text = text_of(lab, "Tensor::zeros(2, DType::F32, &Device::Cpu)?.reshape(3)?")
    assert len(text.strip().splitlines()) == 1, text


def test_two_more_kernels_run_beside_the_first(lab):
    with notebook.Kernel() as second, notebook.Kernel() as third:
        for number, kernel in enumerate((lab, second, third)):
            kernel.execute("use lastlayer::prelude::*;")
            kernel.execute(f"let x = Var::new({number}f64, &Device::Cpu)?;")
        for number, kernel in enumerate((lab, second, third)):
            kernel.execute("let y = x.sqr()?;")
            slope = f'check("slope", y.backward()?.get(&x).expect("a gradient"), {2 * number}.0, 1e-12)?;'
            assert f"check slope = {2 * number} (tolerance 1e-12): exact" in text_of(kernel, slope)
        assert "Compiling" not in second.log_text() + third.log_text()
        folders = {kernel.run_file.read_text() for kernel in (lab, second, third)}
        assert len(folders) == 3


def test_folders_of_ended_kernels_are_swept(lab):
    with notebook.Kernel() as other:
        ended = Path(other.run_file.read_text())
    launcher.sweep()
    assert not ended.exists() and Path(lab.run_file.read_text()).exists()


def test_kernel_check_refuses_a_copy_in_every_cell():
    launcher.warm("uncured", quiet=True)
    with notebook.Kernel("uncured") as kernel:
        kernel.execute("use lastlayer::prelude::*;")
        text = text_of(kernel, CHECK_KERNEL)
    assert "every cell has its own copy of lastlayer" in text and "tools/facade" in text, text
