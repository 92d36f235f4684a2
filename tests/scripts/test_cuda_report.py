"""The report about a device, and the page that is made from it."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import cuda_report  # noqa: E402
import cuda_studies  # noqa: E402
import devices  # noqa: E402

CARGO = """import sys
print("running 4 tests\\n.F.F\\nfailures:\\n\\n---- unary stdout ----\\n    noise\\n\\nfailures:\\n    training::a_step\\n    unary\\n")
print("test result: FAILED. 2 passed; 2 failed; 4 ignored; 0 measured; 0 filtered out; finished in 0.1s")
print("test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s", file=sys.stderr)
sys.exit(101)
"""


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def record(device, **results):
    made = {"versions": {"candle-core": "0.11.1"}, "revision": "0123456789ab"}
    return {"name": "cuda-x", "config": {"device": device, "processor": "P", "cores": 2}, "results": results, "provenance": made}


def test_tests_are_counted_over_all_programs(capfd):
    ran = cuda_report.tested([sys.executable, "-c", CARGO], {})
    assert (ran["passed"], ran["failed"], ran["ignored"]) == (7, 2, 4)
    assert ran["names"] == ["training::a_step", "unary"] and "running 4 tests" in capfd.readouterr().out


def test_tests_that_do_not_compile_are_no_success(capfd):
    ran = cuda_report.tested([sys.executable, "-c", "import sys; print('error[E0432]'); sys.exit(101)"], {})
    assert (ran["passed"], ran["failed"]) == (0, 1)


def test_a_gpu_is_known_by_its_driver_and_toolkit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cuda_report.gpu() is None
    program(tmp_path, "nvcc", 'echo "Cuda compilation tools, release 13.0, V13.0.48"')
    assert cuda_report.gpu() is None
    program(tmp_path, "nvidia-smi", 'echo "NVIDIA L4, 8.9, 580.65.06, 23034 MiB"')
    card = cuda_report.gpu()
    assert card["name"] == "NVIDIA L4" and card["compute_cap"] == "8.9" and card["toolkit"] == "13.0"
    program(tmp_path, "nvidia-smi", 'echo "No devices were found"; exit 6')
    assert cuda_report.gpu() is None


def test_the_page_has_a_section_for_each_device(tmp_path):
    library = {"passed": 1234, "failed": 1, "ignored": 0, "minutes": 2.5, "names": ["training::a_step"]}
    books = {"passed": 8, "failed": 1, "check_lines": 90, "minutes": 3.0, "each": {"00_tour": "ok", "01_split": "cell 3: WRONG"}}
    steps = {"rate ico": {"copies_down": 13.0, "down": 336.0, "down_per_sample": 0.0, "up_per_sample": 4.0, "cpu_ms": 1.25}}
    studies = {"lp-f": {"numbers": 2, "wrong": []}, "foca-toy": {"numbers": 2, "wrong": ["ratio 2 (CPU 1)"]}}
    card = {"name": "NVIDIA L4", "compute_cap": "8.9", "driver_version": "580", "memory.total": "1 MiB", "toolkit": "13.0"}
    (tmp_path / "cuda-a.json").write_text(json.dumps(record("made of the CPU", library=library, steps=steps)))
    (tmp_path / "cuda-b.json").write_text(json.dumps(record(card, library=library, notebooks=books, steps=steps, differences={"relu": {"f32": 0}}, studies=studies)))
    page = devices.sections(tmp_path)
    assert page.index("## A device made of the CPU") < page.index("## NVIDIA L4, compute capability 8.9")
    for said in (
        "| tests of the library | 1&nbsp;234 | 1 | 2.5 |",
        "`training::a_step` fails",
        "`01_split`: cell 3: WRONG",
        "| step of | copies | bytes | a sample | sent |\n",
        "| `rate ico` | 13 | 336 | 0 | 4 |\n",
        "| `rate ico` | 13 | 336 | 0 | 4 | 1.25 |\n",
        "driver 580, toolkit 13.0",
        "| `lp-f` | 2 | yes |",
        "| `foca-toy` | 2 | ratio 2 (CPU 1) |",
        "| `relu` | 0 |",
    ):
        assert said in page, said
    assert page.count("### Steps") == 2 and page.count("`00_tour`") == 0


def test_no_device_no_section(tmp_path):
    assert devices.sections(tmp_path) == ""


def test_a_report_from_a_changed_tree_is_not_recorded(monkeypatch):
    monkeypatch.setattr(cuda_report.provenance, "unrecordable", lambda: "the tree has changes")
    monkeypatch.setattr(cuda_report, "report", lambda _: pytest.fail("it began"))
    monkeypatch.setattr(sys, "argv", ["cuda_report.py", "--record"])
    with pytest.raises(SystemExit, match="the tree has changes"):
        cuda_report.main()


def test_runs_of_a_study_are_compared_number_by_number():
    here = {"fnr": 12.0, "share": 0.5}
    assert cuda_studies.disagreements(here, {"fnr": 12.3, "share": 0.52}) == []
    assert cuda_studies.disagreements(here, {"fnr": 13.0, "share": 0.5}) == ["fnr 13.0 (CPU 12.0)"]
    assert cuda_studies.disagreements(here, {"fnr": float("nan"), "share": 0.5}) == ["fnr nan (CPU 12.0)"]
    assert cuda_studies.disagreements(here, {"fnr": 12.0}) == ["share"]
    assert cuda_studies.disagreements({}, {}) == ["no number to compare"]
