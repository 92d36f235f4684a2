"""Errata whose demonstration is a recorded study, and what is asked of those on one paper."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_length_between_heads_is_smaller_for_foca_by_an_order_of_magnitude():
    results = json.loads((ROOT / "data" / "records" / "foca-critters.json").read_text(encoding="utf-8"))["results"]
    for kind in ("model", "prediction", "observed"):
        ours = results[f"foca_10_length_{kind}"]
        for method in ("plain", "squared", "noisy", "dropout", "batch_norm"):
            assert ours > results[f"{method}_length_{kind}"] / 10, (kind, method)
    # Against cross entropy it is larger, and against its own squared loss a little smaller.
    assert results["plain_length_model"] < results["foca_10_length_model"] < results["squared_length_model"]


def test_every_error_of_the_foca_paper_says_that_it_may_be_one_of_our_copy():
    text = (ROOT / "book" / "src" / "errata.md").read_text(encoding="utf-8")
    errors = re.findall(r"\{\{#erratum (foca-\S+) error (.*?)\{\{#enderratum", text, re.S)
    assert errors and [label for label, entry in errors if "transcription" not in entry] == []
