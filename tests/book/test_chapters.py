"""What every chapter of the book has, whoever wrote it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "book" / "src"
# Chapters of the parts: what SUMMARY.md lists before the notebooks.
CHAPTERS = re.findall(r"^- \[[^\]]+\]\(([^)]+\.md)\)", (SOURCE / "SUMMARY.md").read_text(encoding="utf-8").split("{{#notebooks}}")[0], re.M)


def test_there_are_seven_parts_and_the_ground():
    assert {path.split("/")[0] for path in CHAPTERS} == {
        "ground", "measures", "rate", "lp", "foca", "adversary", "intersection", "together",
    }  # fmt: skip


@pytest.mark.parametrize("path", CHAPTERS)
def test_a_chapter_has_its_parts(path):
    text = (SOURCE / path).read_text(encoding="utf-8")
    assert "{{#eq " in text, "a derivation with numbered equations"
    assert re.search(r"^## .*(?:[Ww]here it can fail|what it cannot)", text, re.M), "a section on where it can fail"
    assert re.search(r"\{\{#(?:cells|include|rustdoc_include) ", text), "code by inclusion"
    assert "{{#cite " in text, "references"
    assert re.search(r"^## Exercises$", text, re.M), "exercises"
    assert re.search(r"^## What to remember$", text, re.M), "what to remember"


@pytest.mark.parametrize("path", CHAPTERS)
def test_rust_is_never_typed_into_a_chapter(path):
    text = (SOURCE / path).read_text(encoding="utf-8")
    for block in re.findall(r"^```rust[^\n]*\n(.*?)^```", text, re.M | re.S):
        assert re.fullmatch(r"\s*(?:\{\{#(?:include|rustdoc_include) [^}]+\}\}\s*)+", block), block


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.md")), ids=lambda file: file.relative_to(SOURCE).as_posix())
def test_nothing_is_promised_for_later(file):
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"\b(?:TODO|FIXME|XXX|to be written|not written yet|coming soon)\b", text)
    assert not (file.name == "SUMMARY.md" and "]()" in text), "a draft is left in the summary"
