"""Our times beside the peers', in one run, interleaved, medians: `run.py [ROW…]`; `run.py table` prints what is recorded.

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
import provenance  # noqa: E402
import setup  # noqa: E402

PEERS = ROOT / "benches" / "requirements.txt"
TORCH = ROOT / "benches" / "requirements-torch.txt"


# --------------------------------------------------------------------------------------------------------------------
# Rows: each returns {name: ([our seconds], [peer seconds])} and the settings worth keeping


# The cells that all kernels run; only the first line differs.
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
USE_CANDLE = "use candle_core as candle; use candle_core::{Device, Tensor, Var};"
FIRST_LINE = {
    "lastlayer": "use lastlayer::prelude::*;",
    "candle": USE_CANDLE,
    "stock": f':dep candle-core = "=0.11.1"\n{USE_CANDLE}',
}


def stock_kernel():
    """evcxr as it comes, with one build folder that outlives it; run once so that it is warm."""
    folder = kernel.KERNELS / "stock"
    (folder / "config").mkdir(parents=True, exist_ok=True)
    spec = kernel.KERNELS / "jupyter" / "kernels" / "stock"
    spec.mkdir(parents=True, exist_ok=True)
    env = {"EVCXR_TMPDIR": str(folder), "EVCXR_CONFIG_DIR": str(folder / "config")}
    argv = [str(kernel.evcxr_binary()), "--control_file", "{connection_file}"]
    content = {"argv": argv, "display_name": "Rust (stock)", "language": "rust", "interrupt_mode": "message", "env": env}
    (spec / "kernel.json").write_text(json.dumps(content))
    kernel_session("stock")


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
    """A warm kernel, and the cells of the tour, against the same cells with plain candle in a warm stock kernel; and
    against plain candle in our own kernel, which shows what the launcher gives and what the library costs (10 minutes)."""
    flavours = ("lastlayer", "stock", "candle")
    for flavour in ("lastlayer", "candle"):
        kernel.warm(flavour, quiet=True)
    kernel.write_spec(kernel.KERNELS / "jupyter", ("lastlayer", "candle"))
    stock_kernel()
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
        "kernel-start-to-first-result": (start["lastlayer"], start["stock"]),
        "kernel-cell": (cells["lastlayer"], cells["stock"]),
        "kernel-tour-cell": (seconds, cells["stock"]),
        "kernel-start-against-candle-in-our-kernel": (start["lastlayer"], start["candle"]),
        "kernel-cell-against-candle-in-our-kernel": (cells["lastlayer"], cells["candle"]),
    }, {"cells": KERNEL_CELLS, "peer": "candle-core 0.11.1 alone: in a stock kernel with a warm build folder; in our kernel"}


def row_figure():
    """A chart of two curves with 10 000 points each, as SVG text, against matplotlib (1 minute)."""
    ours, peer, _ = race("figure")
    return {"figure-svg": (ours, peer)}, {"peer": "matplotlib, SVG backend", "points": 20_000}


def row_auc():
    """The exact AUC of a million scores, ties among them, against scikit-learn (1 minute)."""
    ours, peer, said = race("auc")
    mine, theirs = (float(program["auc"]) for program in said)
    # Both count the same pairs; only the last divisions and sums may round differently.
    if not abs(mine - theirs) <= 1e-12:
        sys.exit(f"the two answers differ: {mine!r} here and {theirs!r} in scikit-learn")
    return {"auc": (ours, peer)}, {"peer": "sklearn.metrics.roc_auc_score", "scores": 1_000_000, "auc": mine}


def row_critters():
    """Seconds per critter of 32 pixels, against the same recipe in numpy, which must draw the same pixels (1 minute)."""
    ours, peer, said = race("critters")
    mine, theirs = (int(program["sum"]) for program in said)
    if mine != theirs:
        sys.exit(f"the two renderers differ: pixels of 200 images sum to {mine} here and to {theirs} in numpy")
    config = {"peer": "numpy, one image at a time", "images": 6000, "images_per_second": round(1 / statistics.median(ours))}
    return {"critters": (ours, peer)}, config


def row_conv_step():
    """A training step of a net of three convolutions, batch 64 at 32 pixels, against PyTorch, two threads each (1 minute)."""
    return step("conv")


def row_mlp_step():
    """A training step of an MLP 784-256-256-10, batch 128, against PyTorch, two threads each (1 minute)."""
    return step("mlp")


def step(net):
    setup.install_python(TORCH, "5 minutes and 5.6 GB of disk")
    ours, peer, _ = race("step", arguments=[net], peers=TORCH, env={"RAYON_NUM_THREADS": "2"})
    torch = re.search(r"^torch==(.+)$", TORCH.read_text(), re.MULTILINE)[1]
    return {f"{net}-step": (ours, peer)}, {"peer": f"PyTorch {torch}", "threads": 2, "type": "f32"}


def row_threshold():
    """The smooth threshold of a million scores to twelve digits, against scipy's brentq on the same function (1 minute)."""
    ours, peer, said = race("threshold")
    mine, theirs = (float(program["threshold"]) for program in said)
    if not abs(mine - theirs) <= 1e-10:
        sys.exit(f"the two answers differ: {mine!r} here and {theirs!r} in scipy")
    config = {"peer": "scipy.optimize.brentq", "scores": 1_000_000, "threshold": mine}
    return {"threshold": (ours, peer)}, config | {"passes": int(said[0]["passes"]), "peer_passes": int(said[1]["passes"])}


def row_ico_step():
    """Training steps with implicit thresholds, against the cross-entropy step of the same net (3 minutes)."""
    env = {**os.environ, "RUSTFLAGS": kernel.rustflags(), "RAYON_NUM_THREADS": "2"}
    rounds = [printed(cargo_bench("ico"), env) for _ in range(3)]
    names = ("adjoint", "adjoint_50", "two_backward", "two_backward_50", "method2")
    timings, config = {}, {"peer": "cross entropy on the same net", "threads": 2, "type": "f32"}
    for net in ("mlp", "conv"):
        ce = [float(said[f"{net}_ce"]) for said in rounds]
        config[f"{net}_ce_ms"] = 1e3 * statistics.median(ce)
        for name in names:
            ours = [float(said[f"{net}_{name}"]) for said in rounds]
            timings[f"ico-step-{net}-{name.replace('_', '-')}"] = (ours, ce)
            # Of the same program, so that a slow minute counts for both.
            config[f"{net}_{name}_ratio"] = statistics.median(a / b for a, b in zip(ours, ce))
    return timings, config


def same_value(said, within):
    mine, theirs = (float(program["value"]) for program in said)
    if not abs(mine - theirs) <= within * max(1.0, abs(mine)):
        sys.exit(f"the two answers differ: {mine!r} here and {theirs!r} there")
    return mine


def row_lp_auc():
    """The AUC program of 24 × 24 scores as a layer, forward and backward: its structure declared, against cvxpylayers; dense,
    against the paper's dense algorithm in PyTorch (3 minutes)."""
    setup.install_python(TORCH, "5 minutes and 5.6 GB of disk")
    timings, config = {}, {"pairs": 576, "threads": 2}
    for mode, within in (("auc", 1e-4), ("auc-dense", 2e-2)):
        ours, peer, said = race("lp", rounds=3, arguments=[mode], peers=TORCH, env={"RAYON_NUM_THREADS": "2"})
        # A first-order solver is right to four digits; the published recovery shrinks the solution by one per cent.
        config[f"{mode}_value"] = same_value(said, within)
        timings[f"lp-{mode}"] = (ours, peer)
    return timings, {**config, "peer": "cvxpylayers; the published algorithm in PyTorch"}


def row_auc_loss():
    """The AUC loss of 100 000 + 100 000 scores with its gradient, against sort and cumsum in PyTorch; all pairs beside it
    (2 minutes)."""
    setup.install_python(TORCH, "5 minutes and 5.6 GB of disk")
    ours, peer, said = race("lp", arguments=["auc-loss"], peers=TORCH, env={"RAYON_NUM_THREADS": "2"})
    value = same_value(said, 1e-9)
    pairs = printed([str(setup.python(TORCH)), str(ROOT / "benches" / "lp.py"), "auc-pairs"], os.environ)
    same_value((said[0], pairs), 1e-9)
    timings = {"auc-loss": (ours, peer), "auc-loss-all-pairs": (ours, [float(pairs["seconds"])])}
    return timings, {"peer": "PyTorch, sort and cumsum; all pairs", "scores": 200_000, "value": value, "threads": 2}


def row_lp_dense():
    """A linear program of 60 variables and 240 rows with its gradients, against scipy's HiGHS (1 minute)."""
    ours, peer, said = race("lp", arguments=["dense"])
    return {"lp-dense": (ours, peer)}, {"peer": "scipy.optimize.linprog, HiGHS", "value": same_value(said, 1e-8)}


def row_foca_step():
    """A step against strangers, against the end-to-end step of the same net with as many samples (1 minute)."""
    env = {**os.environ, "RUSTFLAGS": kernel.rustflags(), "RAYON_NUM_THREADS": "2"}
    rounds = [printed([*cargo_bench("foca"), "--", "step"], env) for _ in range(3)]
    joint = [float(said["joint"]) for said in rounds]
    names = {"fixed": "foca-step", "through": "foca-step-through"}
    timings = {row: ([float(said[name]) for said in rounds], joint) for name, row in names.items()}
    config = {"peer": "cross entropy on the same net, batch n + m", "n": 120, "m": 128, "threads": 2, "type": "f32"}
    return timings, config


def row_ridge_head_small():
    """A thousand ridge heads on 24 rows of 256 features, against scipy's Cholesky factors of the same dual form (1 minute)."""
    return ridge_head("small")


def row_ridge_head_large():
    """A ridge head on 2 000 rows of 64 features, against scipy's Cholesky factor of the same primal form (1 minute)."""
    return ridge_head("large")


def ridge_head(size):
    ours, peer, said = race("foca", arguments=[f"ridge-{size}"])
    return {f"ridge-head-{size}": (ours, peer)}, {"peer": "numpy and scipy.linalg.cho_factor", "value": same_value(said, 1e-9)}


def row_pair_search():
    """All 120 pairs of 16 attributes on cached features, against the same with torch.bmm; one by one beside it (2 minutes)."""
    setup.install_python(TORCH, "5 minutes and 5.6 GB of disk")
    ours, peer, said = race("adversary", arguments=["pair-search"], peers=TORCH, env={"RAYON_NUM_THREADS": "2"})
    # The same decisions but for rounding: 983 040 of them.
    value = same_value(said, 1e-3)
    one_by_one = float(said[0]["one_by_one"])
    timings = {"pair-search": (ours, peer), "pair-search-one-by-one": ([one_by_one], peer)}
    return timings, {"peer": "PyTorch, torch.bmm", "pairs": 120, "threads": 2, "value": value}


def row_grl_step():
    """A step of gradient reversal, against the step of the same pair without it (1 minute)."""
    env = {**os.environ, "RUSTFLAGS": kernel.rustflags(), "RAYON_NUM_THREADS": "2"}
    rounds = [printed([*cargo_bench("adversary"), "--", "step"], env) for _ in range(3)]
    ours, peer = ([float(said[name]) for said in rounds] for name in ("reverse", "pair"))
    return {"grl-step": (ours, peer)}, {"peer": "the pair, trained together", "threads": 2, "type": "f32"}


def row_tree_fit():
    """A tree of depth 8 on 5 994 rows of 1 024 codes with 200 outputs, against scikit-learn's, variance criterion (1 minute)."""
    ours, peer, said = race("tree", rounds=3, arguments=["tree-fit"], env={"RAYON_NUM_THREADS": "2"})
    value = relative(said, 1e-6)
    information = float(said[0]["information"])
    config = {"peer": "sklearn.tree.DecisionTreeRegressor", "threads": 2, "value": value, "information_seconds": information}
    return {"tree-fit": (ours, peer)}, config


def relative(said, within):
    mine, theirs = (float(program["value"]) for program in said)
    if not abs(mine - theirs) <= within * abs(theirs):
        sys.exit(f"the two answers differ: {mine!r} here and {theirs!r} there")
    return mine


def row_tree_epoch():
    """An epoch of Algorithm 1 with a tree in every batch, against the same epoch without a tree (1 minute)."""
    env = {**os.environ, "RUSTFLAGS": kernel.rustflags(), "RAYON_NUM_THREADS": "2"}
    rounds = [printed([*cargo_bench("tree"), "--", "tree-epoch"], env) for _ in range(5)]
    plain = [float(said["plain"]) for said in rounds]
    timings = {f"tree-epoch-{every}": ([float(said[f"every_{every}"]) for said in rounds], plain) for every in (1, 5, 25)}
    timings = {"tree-epoch" if name == "tree-epoch-1" else name: times for name, times in timings.items()}
    return timings, {"peer": "the same network without a tree", "rows": 6000, "batch": 200, "threads": 2, "type": "f32"}


def row_fidelity():
    """312 attributes against 1 024 features of 16 codes, 5 794 samples, against numpy's product of ready one-hot codes (1 minute)."""
    ours, peer, said = race("tree", arguments=["fidelity"], env={"RAYON_NUM_THREADS": "2"})
    # The peer counts in f32.
    return {"fidelity": (ours, peer)}, {"peer": "numpy, f32 matrix product", "threads": 2, "value": same_value(said, 1e-6)}


ROWS = {
    "kernel": row_kernel,
    "figure": row_figure,
    "auc": row_auc,
    "critters": row_critters,
    "conv-step": row_conv_step,
    "mlp-step": row_mlp_step,
    "threshold": row_threshold,
    "ico-step": row_ico_step,
    "lp-auc": row_lp_auc,
    "auc-loss": row_auc_loss,
    "lp-dense": row_lp_dense,
    "pair-search": row_pair_search,
    "grl-step": row_grl_step,
    "foca-step": row_foca_step,
    "ridge-head-small": row_ridge_head_small,
    "ridge-head-large": row_ridge_head_large,
    "tree-fit": row_tree_fit,
    "tree-epoch": row_tree_epoch,
    "fidelity": row_fidelity,
}


# The least ratio, peer's time over ours, that each timing has to reach; "at most r times" is a ratio of 1/r.
TARGETS = {
    "kernel-start-to-first-result": 1.0,
    "kernel-cell": 1.0,
    "figure-svg": 1.0,
    "auc": 5.0,
    "critters": 1.0,
    "conv-step": 0.67,
    "mlp-step": 0.8,
    "threshold": 1.0,
    "ico-step-mlp-adjoint": 1 / 1.1,
    "ico-step-mlp-adjoint-50": 1 / 1.1,
    "ico-step-conv-adjoint": 1 / 1.1,
    "ico-step-conv-adjoint-50": 1 / 1.1,
    "lp-auc": 20.0,
    "lp-auc-dense": 2.0,
    "auc-loss": 3.0,
    "lp-dense": 1.0,
    "pair-search": 1.0,
    "grl-step": 1 / 1.1,
    "foca-step": 1 / 1.25,
    "ridge-head-small": 3.0,
    "ridge-head-large": 0.8,
    "tree-fit": 6.0,
    "tree-epoch": 0.5,
    "fidelity": 4.0,
}


def table():
    """All timings of the records, one line each, with the target where there is one."""
    lines = [("timing", "ours", "peer", "ratio", "target", "")]
    for row in ROWS:
        path = ROOT / "data" / "records" / f"bench-{row}.json"
        if not path.is_file():
            lines.append((row, "", "", "", "", f"never run; make bench ROW={row}"))
            continue
        for name, found in json.loads(path.read_text())["results"].items():
            target = TARGETS.get(name)
            verdict = "" if target is None else "met" if found["ratio"] >= target else "MISSED"
            numbers = (f"{found['ours']:.4g} s", f"{found['peer']:.4g} s", f"{found['ratio']:.2f}")
            lines.append((name, *numbers, "" if target is None else f"{target:.2f}", verdict))
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    return "\n".join(
        f"{line[0]:<{widths[0]}}  " + "  ".join(f"{word:>{width}}" for word, width in zip(line[1:5], widths[1:5])) + f"  {line[5]}"
        for line in lines
    )


def race(name, rounds=5, arguments=(), peers=PEERS, env=None):
    """Runs benches/NAME.rs and benches/NAME.py in turn: seconds of both, and all that the last runs said."""
    env = {**os.environ, "RUSTFLAGS": kernel.rustflags(), **(env or {})}
    ours = cargo_bench(name)
    peer = [str(setup.python(peers)), str(ROOT / "benches" / f"{name}.py"), *arguments]
    subprocess.run([*ours, "--no-run"], cwd=ROOT, env=env, check=True)
    ours += ["--", *arguments]
    rounds = [(printed(ours, env), printed(peer, os.environ)) for _ in range(rounds)]
    seconds = [[float(said[side]["seconds"]) for said in rounds] for side in (0, 1)]
    return *seconds, rounds[-1]


def cargo_bench(name):
    triple = kernel.host_triple(kernel.real_tool("rustc"))
    return ["cargo", "bench", "-q", "--profile", "dev", "--target", triple, "--bench", name]


def printed(command, env):
    """What a program prints of itself, as `name=value` words."""
    text = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r"(\w+)=(\S+)", text))


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


def save(row, results, config, seconds):
    """The shape of the library's own records. Nothing is recorded from a tree with changes that are not committed."""
    if problem := provenance.unrecordable():
        print(f"bench-{row} is not recorded: {problem}")
        return
    record = {
        "name": f"bench-{row}",
        "config": config,
        "seed": None,
        "results": results,
        "seconds": seconds,
        "provenance": {
            "versions": versions(),
            "revision": provenance.revision(),
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
    if rows == ["table"]:
        print(table())
        return
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
    if rows == list(ROWS):
        print(f"\n{table()}")


if __name__ == "__main__":
    main()
