"""The studies behind the committed records: `experiments.py [ROW]` runs one or all and writes data/records/.

Each row says how long it takes. A record is replaced only by a finished run.
"""

import os
import subprocess
import sys
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parent))
import kernel
import notebook
import provenance
import setup
from kernel import ROOT

RECORDS = ROOT / "data" / "records"


def tour_cells(tag):
    """The code cells of the tour that carry a tag."""
    tour = nbformat.read(ROOT / "notebooks" / "00_tour.ipynb", as_version=4)
    return [cell.source for cell in tour.cells if tag in cell.metadata.get("tags", [])]


def across_cells(flavour, *more):
    """Runs the tour's cells on gradients across cells in a kernel of a flavour; returns all that was printed."""
    kernel.warm(flavour, quiet=True)
    kernel.write_spec(kernel.KERNELS / "jupyter", ("lastlayer", "uncured", "candle"))
    text = ""
    with notebook.Kernel(flavour) as running:
        for code in ("use lastlayer::prelude::*;", "let device = Device::Cpu;", *tour_cells("across-cells"), *more):
            outputs, _, _ = running.execute(code)
            text += notebook.Cell(0, outputs, 0.0, 0.0).text()
    return text


def kernel_uncured(folder=RECORDS):
    """Gradients of the tour's cells in a kernel without the cure (1 minute)."""
    save = """{
    let seen = |v: &Var| match grads.get(v) {
        Some(g) => Ok::<Cell, Error>(Cell::from(g.to_vec1::<f64>()?)),
        None => Ok(Cell::from("none")),
    };
    Record::start("kernel-uncured", "cpu")
        .config("kernel", format!("evcxr_jupyter {}", std::env::var("LASTLAYER_KERNEL").unwrap_or_default()))
        .config("library", "linked into every cell")
        .result("dw", seen(&w)?).result("dw_true", vec![5.0, 7.0, 9.0])
        .result("dw2", seen(&w2)?).result("dw2_true", vec![1.0, 2.0, 3.0])
        .save("%s")?;
}""" % str(folder).replace("\\", "\\\\")
    return across_cells("uncured", save)


def study(row, *words):
    """Runs a row of examples/study, which writes the record itself."""
    env = {**os.environ, "RUSTFLAGS": kernel.rustflags()}
    triple = kernel.host_triple(kernel.real_tool("rustc"))
    command = ["cargo", "run", "-q", "--target", triple, "--example", "study", "--", row, str(RECORDS), *words]
    subprocess.run(command, cwd=ROOT, env=env, check=True)


def measures():
    """How noisy rates are, and which intervals cover (2 minutes)."""
    study("measures")


def critters():
    """Ceilings of Critters (seconds)."""
    study("critters")


def networks():
    """The small convolutional net on Critters, three tasks and seeds, here and in PyTorch (25 minutes, 5.6 GB of disk)."""
    study("networks")
    torch = ROOT / "benches" / "requirements-torch.txt"
    setup.install_python(torch, "5 minutes and 5.6 GB of disk")
    subprocess.run([setup.python(torch), ROOT / "examples" / "networks.py", RECORDS], cwd=ROOT, check=True)


def parts():
    """SHARD=i/n runs one part of a study of many runs; copy the records below target/<row> together to merge them."""
    shard = os.environ.get("SHARD")
    return ["--shard", shard] if shard else []


def rate_gaussians():
    """Every rate method on three Gaussian tasks with a known optimum, five seeds (3 minutes)."""
    study("rate-gaussians", "--threads", "2", *parts())


def rate_critters():
    """Rate methods on three attributes of Critters, against their ceilings (45 minutes)."""
    study("rate-critters", *parts())


def rate_features():
    """A head and its threshold on features of a residual network, which LASTLAYER_DATA must hold (1 minute)."""
    study("rate-features")


def rate_adult():
    """Fairness constraints on UCI Adult, which LASTLAYER_DATA must hold (8 minutes)."""
    study("rate-adult", "--threads", "2", *parts())


def lp_imbalance():
    """AUC by loss and imbalance on two Gaussian tasks with a known optimum, five seeds (5 minutes)."""
    study("lp-imbalance", "--threads", "2", *parts())


def lp_classes():
    """AUC of several classes by loss, five seeds (2 minutes)."""
    study("lp-classes", "--threads", "2", *parts())


def lp_f():
    """F scores and where training for them gets stuck, five seeds (2 minutes)."""
    study("lp-f", "--threads", "2", *parts())


def foca_toy():
    """Spread of two arcs in two features, end to end and against strangers, ten seeds (1 minute)."""
    study("foca-toy", "--threads", "2", *parts())


def foca_rates():
    """Which learning rate suits plain training and FOCA, on validation images (4 minutes)."""
    study("foca-rates", "--threads", "2", *parts())


def foca_critters():
    """Heads from a few samples, lengths and discriminants of features by method, five seeds (15 minutes)."""
    study("foca-critters", "--threads", "2", *parts())


def adversary_pair():
    """Cheeks against glasses, with and without a shift: every loss and strength, ten seeds (15 minutes)."""
    study("adversary-pair", "--threads", "2", *parts())


def adversary_search():
    """Negative transfer between all pairs of sixteen attributes, five seeds (5 minutes)."""
    study("adversary-search", *parts())


def intersection_critters():
    """Hidden attributes in codes by method: penalty, tree, both; a soft tree beside them, ten seeds (8 minutes)."""
    study("intersection-critters", "--threads", "2", *parts())


def intersection_grid():
    """The same by width and bits, three seeds (4 minutes)."""
    study("intersection-grid", "--threads", "2", *parts())


def intersection_share():
    """The same by weight, norm and share of the penalty, two seeds (5 minutes)."""
    study("intersection-share", "--threads", "2", *parts())


def intersection_variants():
    """The same by range, gradient, batches between fits, criterion and learning rate, five seeds (5 minutes)."""
    study("intersection-variants", "--threads", "2", *parts())


def intersection_animals():
    """Fifty animals told apart by the attributes of AwA2, which LASTLAYER_DATA must hold (seconds)."""
    study("intersection-animals")


def lp_growth():
    """How the time of an AUC loss grows with the number of pairs (1 minute)."""
    study("lp-growth")


def together_head():
    """Features trained against strangers under a head trained for its rate, ten seeds; Adult in LASTLAYER_DATA (5 minutes)."""
    study("together-head", "--threads", "2", *parts())


def together_ranking():
    """An AUC loss against a rival, ten seeds; LASTLAYER_DATA must hold Adult (5 minutes)."""
    study("together-ranking", "--threads", "2", *parts())


def together_reader():
    """A head trained for its rate, read by a tree, ten seeds; LASTLAYER_DATA must hold Adult (5 minutes)."""
    study("together-reader", "--threads", "2", *parts())


ROWS = {
    "kernel-uncured": kernel_uncured,
    "measures": measures,
    "critters": critters,
    "networks": networks,
    "rate-gaussians": rate_gaussians,
    "rate-critters": rate_critters,
    "rate-adult": rate_adult,
    "rate-features": rate_features,
    "lp-imbalance": lp_imbalance,
    "lp-classes": lp_classes,
    "lp-f": lp_f,
    "lp-growth": lp_growth,
    "adversary-pair": adversary_pair,
    "adversary-search": adversary_search,
    "foca-toy": foca_toy,
    "foca-rates": foca_rates,
    "foca-critters": foca_critters,
    "intersection-critters": intersection_critters,
    "intersection-grid": intersection_grid,
    "intersection-share": intersection_share,
    "intersection-variants": intersection_variants,
    "intersection-animals": intersection_animals,
    "together-head": together_head,
    "together-ranking": together_ranking,
    "together-reader": together_reader,
}


def main():
    rows = sys.argv[1:] or list(ROWS)
    if problem := provenance.unrecordable():
        sys.exit(problem)
    for row in rows:
        if row not in ROWS:
            sys.exit(f"no experiment named {row!r}; there are {', '.join(ROWS)}")
        print(f"{row}: {ROWS[row].__doc__}", flush=True)
        ROWS[row]()
        print(f"{row}: wrote data/records/{row}.json")


if __name__ == "__main__":
    os.environ.setdefault("JUPYTER_PATH", str(kernel.KERNELS / "jupyter"))
    main()
