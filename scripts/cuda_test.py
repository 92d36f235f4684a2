#!/usr/bin/env python3
"""The library on a CUDA device made of the CPU: tools/cuda-on-cpu stands in for the toolkit and its libraries.

`cuda_test.py`            tests of the library, then notebooks as programs, then one run of a study for each method
`cuda_test.py library`    the tests alone, which `make test` runs; those of operations again in other orders and layouts
`cuda_test.py notebooks`  every notebook as a program, judged by its check lines
`cuda_test.py studies`    one run of a study for each method, beside the same on the CPU
`cuda_test.py exec PROGRAM …` runs a program in the environment in which cargo finds the stand-in, for example
`cuda_test.py exec cargo test --features cuda`.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # nothing is written into the source tree
sys.path.insert(0, str(Path(__file__).resolve().parent))
from kernel import ROOT, stop

sys.path.insert(0, str(ROOT / "tools" / "cuda-on-cpu"))
import build

HOME = ROOT / "target" / "cuda-on-cpu"
TARGET = ROOT / "target" / "cuda-test"
REPORT = TARGET / "report.jsonl"
FEATURES = ("cuda",)
CARGO = ["cargo", "test", "--quiet", "--no-fail-fast", "--features", ",".join(FEATURES)]
# What a GPU may do otherwise than the stand-in does by itself, and where reads before an allocation are found: each is a
# pass over candle's kernels, the operations and the trainer, whose threads have orders of their own.
PASSES = {
    "operations, in a drawn order": {"CUDA_ON_CPU_SEED": "1"},
    "operations, memory aligned as on a GPU": {"CUDA_ON_CPU_ALIGNED": "1"},
    "operations, memory behind a guard page": {"CUDA_ON_CPU_FRONT": "1"},
}
OPERATIONS = ["--test", "cuda", "--test", "ops", "--test", "train"]
# cuDNN is not emulated, but what candle does with it must compile.
CUDNN = ["cargo", "check", "--quiet", "--lib", "--features", "cudnn"]


def stand_in():
    """Makes the stand-in if its sources changed; what a program needs to find it, and cargo to build for it."""
    home = build.build(HOME, ROOT / "Cargo.toml")
    build.refresh_kernels(home, TARGET)
    return {**build.environment(home), "CARGO_TARGET_DIR": str(TARGET)}


def counted(env):
    """The same, on the device, with a line of counts from every process that ends."""
    REPORT.unlink(missing_ok=True)
    return {**env, "LASTLAYER_TEST_DEVICE": "cuda", "CUDA_ON_CPU_REPORT": str(REPORT)}


def line_of(text):
    """One process' counts, or none: a test that ends processes inside a write also ends this one."""
    try:
        return [json.loads(text)]
    except ValueError:
        return []


def lines_of(report):
    """The counts of every process that ended."""
    return [line for text in report.read_text().splitlines() for line in line_of(text)] if report.exists() else []


def totals(lines):
    """What ran on the device, in all programs that used it."""
    what = ("launches", "products", "device_to_host", "faults", "held")
    return {"programs": sum(line["launches"] > 0 for line in lines)} | {name: sum(line[name] for line in lines) for name in what}


def told(report, may_hold):
    """Prints what ran on the device. Wrong, though the program may have ended well, is a fault that it met, that nothing
    ran there at all, and what it held at its end, unless it may: a notebook's variables live as long as its program,
    those of a test end with it."""
    lines = lines_of(report)
    total = totals(lines)
    print(
        f"cuda: {total['programs']} programs on the device: {total['launches']} launches, {total['products']} products, "
        f"{total['device_to_host']} copies to the host, {total['faults']} faults, {total['held']} allocations left at the end",
        flush=True,
    )
    leaking = [] if may_hold else [line for line in lines if line["held"]]
    for line in leaking:
        print(f"cuda: process {line['pid']} left {line['held']} allocations, of {line['held_sizes']} bytes …", flush=True)
    return bool(total["faults"] or not total["programs"] or leaking)


def timed(what, command, env):
    """Whether the command failed; prints how long it took."""
    began = time.time()
    failed = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}).returncode
    print(f"cuda: {what}: {time.time() - began:.0f} s", flush=True)
    return bool(failed)


def library(env):
    env = {**counted(env), "LASTLAYER_EXPORT": ""}
    if timed("build of the tests", [*CARGO, "--tests", "--no-run"], env):
        return True
    failed = [timed("check of the feature cudnn", CUDNN, env), timed("the tests", [*CARGO, "--tests"], env)]
    failed += [timed(what, [*CARGO, *OPERATIONS], {**env, **settings}) for what, settings in PASSES.items()]
    return any([*failed, told(REPORT, may_hold=False)])


def notebooks(env):
    import programs

    done = programs.run(features=FEATURES, env=counted(env))
    failed = sum(bool(outcome.problems) for outcome in done.values())
    wrong = told(REPORT, may_hold=True)
    print(f"{len(done) - failed} passed, {failed} failed", flush=True)
    return bool(failed or wrong)


def studies(env):
    import cuda_studies

    done = cuda_studies.run(FEATURES, counted(env))
    return any([told(REPORT, may_hold=True), *(outcome["wrong"] for outcome in done.values())])


PARTS = {"library": library, "notebooks": notebooks, "studies": studies}


def main():
    command = sys.argv[1:]
    if not shutil.which("g++"):
        print("cuda: SKIPPED, there is no C++ compiler to make a device with; install g++")
        return
    if command[:1] == ["exec"] and len(command) > 1:
        os.execvpe(command[1], command[1:], {**os.environ, **stand_in()})
    if unknown := [part for part in command if part not in PARTS]:
        stop(f"cuda_test.py knows {', '.join(PARTS)} and exec PROGRAM, not {' '.join(unknown)}")
    began = time.time()
    env = stand_in()
    print(f"cuda: build of the stand-in: {time.time() - began:.0f} s", flush=True)
    sys.exit(any([PARTS[part](env) for part in command or PARTS]))


if __name__ == "__main__":
    main()
