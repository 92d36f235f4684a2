"""All that CI runs, stage by stage; every stage runs even if an earlier one failed. Prints the time of each.

`test.py [STAGE…]` runs only those.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import kernel
from kernel import ROOT
from evidence import REPORTS
from notebook import TEST_OUTPUT

TRIPLE = kernel.host_triple(kernel.real_tool("rustc"))
# The kernel's own flags, so that every dependency is built once for both.
SHARED = {"RUSTFLAGS": kernel.rustflags()}
HERE = f"--target={TRIPLE}"
EVIDENCE = [sys.executable, "scripts/evidence.py"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]

STAGES = {
    "format": (["cargo", "fmt", "--all", "--check"], {}),
    "clippy": (["cargo", "clippy", "-q", HERE, "--all-targets", "--", "-D", "warnings"], SHARED),
    "docs": (["cargo", "doc", "-q", HERE, "--no-deps"], {**SHARED, "RUSTDOCFLAGS": "-D warnings"}),
    "library": ([*EVIDENCE, "library", "cargo", "test", "--no-fail-fast", HERE], {**SHARED, "LASTLAYER_EXPORT": ""}),
    "cuda-on-cpu": ([*PYTEST, "tests/cuda"], {}),
    "cuda": ([sys.executable, "scripts/cuda_test.py", "library"], {}),
    "export": (["cargo", "test", "-q", "--release", "-p", "lastlayer-export"], {}),
    "export-clippy": (["cargo", "clippy", "-q", "--release", "-p", "lastlayer-export", "--", "-D", "warnings"], {}),
    "scripts": ([*PYTEST, f"--junitxml={REPORTS['scripts']}", "tests/scripts", "tests/book"], {}),
    "kernel": ([*PYTEST, f"--junitxml={REPORTS['kernel']}", "tests/kernel"], {}),
    "evidence": ([*EVIDENCE, "check"], {}),
    "notebooks": ([sys.executable, "scripts/notebook.py", "test"], {}),
    "pack": ([sys.executable, "scripts/pack.py", str(TEST_OUTPUT / "figures")], {}),
    "book": ([sys.executable, "scripts/book.py", "build"], {"LASTLAYER_FIGURES": str(TEST_OUTPUT / "figures")}),
    "pages": ([sys.executable, "scripts/book.py", "check"], {}),
}


def main():
    wanted = sys.argv[1:] or list(STAGES)
    unknown = [name for name in wanted if name not in STAGES]
    if unknown:
        sys.exit(f"no stage named {', '.join(unknown)}; there are {', '.join(STAGES)}")
    results = []
    for name in wanted:
        command, extra = STAGES[name]
        print(f"\n== {name}", flush=True)
        began = time.time()
        code = subprocess.run(command, cwd=ROOT, env={**os.environ, **extra}).returncode
        results.append((name, code, time.time() - began))
    print("\nstage            minutes")
    for name, code, seconds in results:
        print(f"{name:<16} {seconds / 60:7.1f}  {'ok' if code == 0 else 'FAILED'}")
    print(f"{'all':<16} {sum(r[2] for r in results) / 60:7.1f}")
    failed = sum(code != 0 for _, code, _ in results)
    print(f"stages: {len(results) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
