#!/usr/bin/env python3
"""Compiles the CUDA feature where there is no GPU, with a toolkit from PyPI, by package name.

About ten minutes on two cores, because candle's kernels are compiled with nvcc. Proves that it compiles, not that it
runs: linking a program needs the driver that only a CUDA machine has.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import kernel
import setup
from kernel import ROOT, stop

COMPUTE_CAPABILITY = "80"


def main():
    setup.check_machine()
    requirements = ROOT / "scripts" / "requirements-cuda.txt"
    setup.install_python(requirements, "3 minutes")
    homes = sorted(setup.venv(requirements).glob("lib/python*/site-packages/nvidia/cu13"))
    if not homes:
        stop("the CUDA toolkit is not where its packages used to put it; look for nvcc below the virtual environment")
    home = homes[0]
    setup.say("compiling the cuda feature (about 10 minutes on two cores)")
    env = dict(
        os.environ,
        CUDA_HOME=str(home),
        CUDA_PATH=str(home),
        CUDA_COMPUTE_CAP=COMPUTE_CAPABILITY,
        PATH=f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        RUSTFLAGS=kernel.rustflags(),
    )
    # Its own folder: the feature changes most of the tree, and must not evict the kernel's build.
    command = ["cargo", "build", "--lib", "--features", "cuda"]
    command += ["--target-dir", str(ROOT / "target" / "cuda")]
    if subprocess.run(command, cwd=ROOT, env=env).returncode:
        stop("the cuda feature does not compile; the compiler's message stands above")
    setup.say("the cuda feature compiles")


if __name__ == "__main__":
    main()
