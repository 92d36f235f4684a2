"""README, Makefile and notebooks agree with each other."""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import sources  # noqa: E402

README = (ROOT / "README.md").read_text()


def test_every_image_of_the_readme_is_a_figure_that_a_named_cell_makes():
    assert sources.IMAGE.findall(README)
    assert sources.image_problems(ROOT, ROOT / "figures") == []


def test_every_command_of_the_readme_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for command in re.findall(r"make ([a-z][a-z-]+)", README):
        assert command in targets, f"README names `make {command}`"


def test_every_file_the_readme_and_the_map_name_exists():
    text = README + (ROOT / "CONTRIBUTING.md").read_text()
    for name in re.findall(r"`((?:src|scripts|tests|data|tools|benches|book)/[\w./-]*)`", text):
        assert (ROOT / name).exists(), f"{name} is named but missing"


def test_the_numbers_of_the_kernel_table_are_the_records():
    record = json.loads((ROOT / "data" / "records" / "bench-kernel.json").read_text())["results"]
    rows = (("start to first result", "kernel-start", "-to-first-result", 1), ("a later cell", "kernel-cell", "", 2))
    for row, key, stock, digits in rows:
        line = next(line for line in README.splitlines() if line.startswith(f"| {row}"))
        seen = [float(n) for n in re.findall(r"([\d.]+) s", line)]
        against_stock, against_ours = record[key + stock], record[f"{key}-against-candle-in-our-kernel"]
        true = against_stock["ours"], against_stock["peer"], against_ours["peer"]
        assert seen == [round(value, digits) for value in true]


def test_the_record_of_the_corruption_is_quoted_right():
    results = json.loads((ROOT / "data" / "records" / "kernel-uncured.json").read_text())["results"]
    seen, true = (f"[{', '.join(f'{v:g}' for v in results[key])}]" for key in ("dw", "dw_true"))
    assert f"`{seen}` where `{true}` is true" in README


def test_the_ratios_of_the_speed_table_are_the_records():
    keys = {
        "training step, three": ("conv-step", "conv-step"),
        "training step, MLP": ("mlp-step", "mlp-step"),
        "AUC of": ("auc", "auc"),
        "smooth threshold": ("threshold", "threshold"),
        "training step with an implicit": ("ico-step", "ico-step-mlp-adjoint"),
        "the same with 50": ("ico-step", "ico-step-mlp-adjoint-50"),
        "AUC program": ("lp-auc", "lp-auc"),
        "linear program, 60": ("lp-dense", "lp-dense"),
        "AUC loss": ("auc-loss", "auc-loss"),
        "training step against": ("foca-step", "foca-step"),
        "a thousand ridge": ("ridge-head-small", "ridge-head-small"),
        "a ridge head,": ("ridge-head-large", "ridge-head-large"),
        "all 120 pairs": ("pair-search", "pair-search"),
        "training step with gradient": ("grl-step", "grl-step"),
        "a chart": ("figure", "figure-svg"),
        "drawing": ("critters", "critters"),
    }
    for start, (record, key) in keys.items():
        (line,) = [line for line in README.splitlines() if line.startswith(f"| {start}")]
        results = json.loads((ROOT / "data" / "records" / f"bench-{record}.json").read_text())["results"]
        assert float(line.split("|")[-2]) == round(results[key]["ratio"], 2), line
