"""Gradients over several cells: right with the cure, and visibly wrong without it."""

import json
import re

import experiments
from conftest import ROOT, text_of

# Parameters of a small model, one cell each; the loss in yet another; closed form of every gradient in the comment.
MODEL = [
    "let a = Var::new(2f64, &Device::Cpu)?;",
    "let b = Var::new(3f64, &Device::Cpu)?;",
    "let c = Var::new(5f64, &Device::Cpu)?;",
    "let d = Var::new(7f64, &Device::Cpu)?;",
    "let ab = (a.as_tensor() * b.as_tensor())?;",
    "let loss = ((ab * c.as_tensor())? + d.sqr()?)?;  // da = bc = 15, db = ac = 10, dc = ab = 6, dd = 2d = 14",
    "let grads = loss.backward()?;",
]


def test_gradients_across_cells_are_the_closed_form():
    text = experiments.across_cells("lastlayer")
    assert "check dw = [5, 7, 9] (tolerance 1e-12): exact" in text, text
    assert "check dw2 = [1, 2, 3] (tolerance 1e-12): exact" in text, text


def test_four_parameters_of_four_cells_get_their_own_gradients(lab):
    for cell in MODEL:
        assert text_of(lab, cell) == "", cell
    for name, truth in (("a", 15), ("b", 10), ("c", 6), ("d", 14)):
        line = f'check("d{name}", grads.get(&{name}).expect("a gradient"), {truth}.0, 1e-12)?;'
        assert f"check d{name} = {truth} (tolerance 1e-12): exact" in text_of(lab, line)


def test_without_the_cure_the_same_cells_corrupt_the_gradient(tmp_path):
    text = experiments.kernel_uncured(tmp_path)
    assert "check dw = [5, 7, 9]" not in text or "check dw2 = [1, 2, 3]" not in text, (
        "without the cure the gradients were right: evcxr or candle has changed; read the chapter on the kernel again"
    )
    assert not re.search(r"error|panicked", text), "the corruption used to be silent:\n" + text
    seen = json.loads((tmp_path / "kernel-uncured.json").read_text())["results"]
    kept = json.loads((ROOT / "data" / "records" / "kernel-uncured.json").read_text())["results"]
    assert seen == kept, "the corruption has changed; run `make experiments ROW=kernel-uncured` and read the chapter again"
