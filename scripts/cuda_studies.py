"""One run of a study per method, on the CPU and on a CUDA device: the same numbers?

Studies train for thousands of steps, so the last digit of a product has become a difference that one can see.
"""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import kernel
from kernel import ROOT

# Which run of each study: a rate by ICO, an F score, strangers, flipped labels, codes that a tree must read.
STUDIES = {"rate-gaussians": 20, "lp-f": 5, "foca-toy": 10, "adversary-pair": 14, "intersection-grid": 3}
# How far two devices may disagree on a trained number. It is more than between two processors: a single code that rounds the
# other way leads to another network of the same worth, and with codes of two bits that happens within some epochs.
SPREAD = 0.03
MANY = 1_000_000  # parts of a study, so that each has one run


def program(features, env):
    """Builds the studies, as the tests are built on that device."""
    command = ["cargo", "build", "--quiet", "--example", "study"]
    if features:
        command += ["--features", ",".join(features)]
        folder = Path(env["CARGO_TARGET_DIR"]) / "debug"
    else:
        triple = kernel.host_triple(kernel.real_tool("rustc"))
        command, env = [*command, f"--target={triple}"], {**env, "RUSTFLAGS": kernel.rustflags()}
        folder = ROOT / "target" / triple / "debug"
    subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, check=True)
    return folder / "examples" / "study"


def run_of(study, row, env):
    """The results of one run, and its minutes; a study keeps its runs below the folder where it is started."""
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [study, row, folder, "--shard", f"{STUDIES[row]}/{MANY}"],
            cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, errors="replace",
        )
        found = list(Path(folder).glob("target/*/*.json"))
        if done.returncode or len(found) != 1:
            return {}, done.stderr.strip() or f"{len(found)} records", 0.0
        record = json.loads(found[0].read_text(encoding="utf-8"))
    results = {key: value for key, value in record["results"].items() if key != "seconds"}
    return results, record["provenance"]["device"], round((time.time() - began) / 60, 1)


def disagreements(here, there):
    """What two devices tell of the same run, where it is not the same number."""
    wrong = sorted(here.keys() ^ there.keys()) or ([] if here else ["no number to compare"])
    for key in sorted(here.keys() & there.keys()):
        a, b = here[key], there[key]
        if not abs(a - b) <= SPREAD * max(1.0, abs(a)):
            wrong.append(f"{key} {b} (CPU {a})")
    return wrong


def run(features, env):
    """Prints a line for each study; what each did, by name."""
    on_cpu, on_device = program((), {}), program(features, env)
    told = {}
    for row in STUDIES:
        here, cpu, quick = run_of(on_cpu, row, {})
        there, device, slow = run_of(on_device, row, env)
        wrong = [f"on {where}" for where in (cpu, device) if where not in ("cpu", "cuda")]
        wrong = wrong or ([] if device == "cuda" else ["it ran on the CPU"]) + disagreements(here, there)
        told[row] = {"minutes": slow, "minutes_cpu": quick, "numbers": len(there), "wrong": wrong}
        print(f"{row}: {len(there)} numbers, {slow} minutes (CPU {quick}): {'; '.join(wrong) or 'ok'}", flush=True)
    return told
