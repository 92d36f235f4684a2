"""Our times beside the peers', in one run, interleaved, medians: `run.py [ROW…]`.

Each row prints `bench: <name> ours=<seconds> peer=<seconds> ratio=<peer/ours>`; machine and versions are printed first
and kept with the results in data/records/bench-<row>.json. Seconds depend on the machine; compare the ratios.
"""

import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import kernel  # noqa: E402
import notebook  # noqa: E402
import setup  # noqa: E402

PEERS = ROOT / "benches" / "requirements.txt"


# --------------------------------------------------------------------------------------------------------------------
# Rows: each returns {name: ([our seconds], [peer seconds])} and the settings worth keeping


# The cells that both kernels run; only the first line differs.
KERNEL_CELLS = [
    "let w = Var::new(&[1f64, 2., 3.], &Device::Cpu)?;",
    "let w2 = Var::new(&[3f64, 3., 3.], &Device::Cpu)?;",
    "let x = Tensor::ones((3, 3), candle::DType::F64, &Device::Cpu)?;",
    "let s = x.matmul(&w.reshape((3, 1))?)?;",
    "let loss = (s.sqr()?.sum_all()? + (w.as_tensor() * w2.as_tensor())?.sum_all()?)?;",
    "let grads = loss.backward()?;",
    'grads.get(&w).expect("a gradient").to_vec1::<f64>()?',
    "s.flatten_all()?.to_vec1::<f64>()?",
]
FIRST_LINE = {
    "lastlayer": "use lastlayer::prelude::*;",
    "candle": "use candle_core as candle; use candle_core::{Device, Tensor, Var};",
}


def kernel_session(flavour):
    """Seconds from start to the first result, and of every later cell."""
    with notebook.Kernel(flavour) as running:
        running.execute(f"{FIRST_LINE[flavour]}\n{KERNEL_CELLS[0]}")
        first = time.time() - running.started
        later = []
        for cell in KERNEL_CELLS[1:]:
            _, compile_seconds, run_seconds = running.execute(cell)
            later.append(compile_seconds + run_seconds)
    return first, later


def row_kernel():
    """A warm kernel against the same cells with plain candle, warm too; and the cells of the tour (6 minutes)."""
    flavours = ("lastlayer", "candle")
    for flavour in flavours:
        kernel.warm(flavour, quiet=True)
    kernel.write_spec(kernel.KERNELS / "jupyter", flavours)
    start, cells = {f: [] for f in flavours}, {f: [] for f in flavours}
    for _ in range(3):
        for flavour in flavours:
            first, later = kernel_session(flavour)
            start[flavour].append(first)
            cells[flavour].extend(later)
    tour = nbformat.read(notebook.NOTEBOOKS / "00_tour.ipynb", as_version=4)
    tour_cells, _ = notebook.run(tour)
    seconds = [cell.compile_seconds + cell.run_seconds for cell in tour_cells[1:]]
    return {
        "kernel-start-to-first-result": (start["lastlayer"], start["candle"]),
        "kernel-cell": (cells["lastlayer"], cells["candle"]),
        "kernel-tour-cell": (seconds, cells["candle"]),
    }, {"cells": KERNEL_CELLS, "peer": "candle-core 0.11.1 in the same kernel, without lastlayer"}


def row_figure():
    """A chart of two curves with 10 000 points each, as SVG text, against matplotlib (1 minute)."""
    env = {**os.environ, "RUSTFLAGS": kernel.rustflags()}
    triple = kernel.host_triple(kernel.real_tool("rustc"))
    build = ["cargo", "bench", "-q", "--profile", "dev", "--target", triple, "--bench", "figure"]
    subprocess.run([*build, "--no-run"], cwd=ROOT, env=env, check=True)
    ours, peer = [], []
    for _ in range(5):
        ours.append(timed(build, env))
        peer.append(timed([str(setup.python(PEERS)), str(ROOT / "benches" / "figure.py")], os.environ))
    return {"figure-svg": (ours, peer)}, {"peer": "matplotlib, SVG backend", "points": 20_000}


ROWS = {"kernel": row_kernel, "figure": row_figure}


def timed(command, env):
    """The seconds that a program prints of its own inner loop."""
    text = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout
    return float(re.search(r"seconds=(\S+)", text)[1])


# --------------------------------------------------------------------------------------------------------------------


def machine():
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), model)
    return {"processor": model, "cores": os.cpu_count(), "platform": f"{sys.platform} {platform.machine()}"}


def versions():
    lock = (ROOT / "Cargo.lock").read_text()
    found = {}
    for name in ("lastlayer", "candle-core", "plotters"):
        found[name] = re.search(rf'name = "{name}"\nversion = "([^"]+)"', lock)[1]
    found["evcxr_jupyter"] = kernel.EVCXR_VERSION
    found["python"] = platform.python_version()
    for line in PEERS.read_text().splitlines():
        if "==" in line:
            name, version = line.split("==")
            found[name] = version
    return found


def revision():
    out = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True)
    return out.stdout.strip() or None


def save(row, results, config, seconds):
    """The shape of the library's own records."""
    record = {
        "name": f"bench-{row}",
        "config": config,
        "seed": None,
        "results": results,
        "seconds": seconds,
        "provenance": {
            "versions": versions(),
            "revision": revision(),
            "device": "cpu",
            "threads": os.cpu_count(),
            "platform": machine()["platform"],
        },
    }
    path = ROOT / "data" / "records" / f"bench-{row}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(record, indent=2) + "\n")
    temporary.replace(path)


def main():
    rows = sys.argv[1:] or list(ROWS)
    unknown = [row for row in rows if row not in ROWS]
    if unknown:
        sys.exit(f"no benchmark row named {', '.join(unknown)}; there are {', '.join(ROWS)}")
    print("machine: " + ", ".join(f"{key} {value}" for key, value in machine().items()))
    print("versions: " + ", ".join(f"{key} {value}" for key, value in versions().items()), flush=True)
    for row in rows:
        print(f"{row}: {ROWS[row].__doc__}", flush=True)
        began = time.time()
        timings, config = ROWS[row]()
        results = {}
        for name, (ours, peer) in timings.items():
            a, b = statistics.median(ours), statistics.median(peer)
            results[name] = {"ours": a, "peer": b, "ratio": b / a, "runs": [len(ours), len(peer)]}
            print(f"bench: {name} ours={a:.4g} peer={b:.4g} ratio={b / a:.2f}", flush=True)
        save(row, results, {**config, **machine()}, time.time() - began)


if __name__ == "__main__":
    main()
