"""The chapter "Autograd in a notebook kernel" against the record of the run without the cure."""

import json
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORDS = Path(os.environ.get("LASTLAYER_RECORDS") or ROOT / "data" / "records")


def test_the_recorded_corruption_is_the_one_the_chapter_derives():
    file = RECORDS / "kernel-uncured.json"
    if not file.is_file():
        pytest.skip(f"{file} is missing: tests/kernel/test_gradients.py writes it")
    seen = json.loads(file.read_text(encoding="utf-8"))["results"]
    w, w2 = [1.0, 2.0, 3.0], [3.0, 3.0, 3.0]
    derived = [2 * a * (1 + a + b) for a, b in zip(w, w2)]
    assert seen["dw"] == derived
    assert seen["dw2"] == derived
