"""lastlayer as a dependency of a program outside the workspace, built with `panic = "abort"` and link-time optimisation."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "examples" / "outside"


def test_a_program_that_aborts_on_panic_and_is_optimised_as_a_whole_trains_for_a_rate():
    # Built in target, where cargo may write a lock file; the path to the library is the same from there.
    package = ROOT / "target" / "outside"
    shutil.copytree(PROGRAM, package, dirs_exist_ok=True)
    shutil.copy2(ROOT / "Cargo.lock", package / "Cargo.lock")  # pinned versions; cargo drops what it does not need
    env = {name: value for name, value in os.environ.items() if name not in ("RUSTFLAGS", "CARGO_TARGET_DIR")}
    command = ["cargo", "run", "--quiet"]
    done = subprocess.run(command, cwd=package, env=env, stdout=subprocess.PIPE, text=True, check=True)
    before, after = map(float, done.stdout.split())
    assert before < 0.8 < 0.9 < after <= 1, (before, after)
