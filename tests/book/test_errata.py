"""Errata whose demonstration is a recorded study."""

import json
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
