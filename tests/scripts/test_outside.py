"""lastlayer as a dependency of a program outside the workspace, built with `panic = "abort"` and link-time optimisation."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "examples" / "outside"
METHODS = ("rate", "lp", "foca", "adversary", "intersection")


@pytest.fixture(scope="module")
def program():
    # Built in target, where cargo may write a lock file; the path to the library is the same from there.
    package = ROOT / "target" / "outside"
    shutil.copytree(SOURCES, package, dirs_exist_ok=True)
    shutil.copy2(ROOT / "Cargo.lock", package / "Cargo.lock")  # pinned versions; cargo drops what it does not need
    env = {name: value for name, value in os.environ.items() if name not in ("RUSTFLAGS", "CARGO_TARGET_DIR")}
    subprocess.run(["cargo", "build", "--quiet"], cwd=package, env=env, check=True)
    return package / "target" / "debug" / "outside"


def test_a_program_that_aborts_on_panic_and_is_optimised_as_a_whole_trains_for_a_rate(program):
    done = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True)
    before, after = map(float, done.stdout.split())
    assert before < 0.8 < 0.9 < after <= 1, (before, after)


def test_a_network_of_its_own_is_trained_by_all_methods_killed_and_continued_to_the_same_bytes(program, tmp_path):
    def run(folder, killed_in):
        return subprocess.run([program, folder, str(killed_in)], capture_output=True, text=True)

    whole = run(tmp_path / "whole", 0)
    assert whole.returncode == 0, whole.stderr
    passes, same = whole.stdout.split()
    assert same == "true", "the saved predictor gives other answers"
    for killed_in in range(5, int(passes)):  # later each time, so that it comes to an end
        parts = run(tmp_path / "parts", killed_in)
        if parts.returncode == 0:
            break
        assert parts.returncode == -signal.SIGABRT, parts.stderr
    assert killed_in >= 10, "it was hardly ever killed: once in each method is the least"
    for name in METHODS:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes(), name
