"""The page of hints: one for each exercise of a chapter or notebook, under the same number, and linked both ways."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from manuscript import read_summary  # noqa: E402

SOURCE = ROOT / "book" / "src"
NUMBERED = re.compile(r"^(\d+)\. ", re.M)


def read(path):
    return path.read_text(encoding="utf-8")


def section(text, title, level):
    """What stands under a heading, up to the next one of its level or above."""
    found = re.search(rf"^{'#' * level} {re.escape(title)}\n(.*?)(?=^#{{1,{level}}} |\Z)", text, re.M | re.S)
    return found[1] if found else None


def numbers(text):
    return [int(number) for number in NUMBERED.findall(text)]


def heading_id(text):
    """The id that mdBook gives a heading."""
    kept = (char.lower() if char.isalnum() or char in "_-" else "-" if char.isspace() else "" for char in text)
    return "".join(kept)


CHAPTERS = {
    chapter.path: chapter.title
    for chapter in read_summary(read(SOURCE / "SUMMARY.md"))
    if (SOURCE / chapter.path).is_file() and "\n## Exercises\n" in read(SOURCE / chapter.path)
}
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_there_are_hints_for_nothing_else():
    titles = re.findall(r"^### (.*)$", read(SOURCE / "hints.md"), re.M)
    assert sorted(titles) == sorted([*CHAPTERS.values(), *(f"Notebook {stem}" for stem in NOTEBOOKS)])


@pytest.mark.parametrize("path", CHAPTERS)
def test_a_chapter_has_a_hint_for_each_exercise_and_a_link_to_them(path):
    title, chapter = CHAPTERS[path], read(SOURCE / path)
    exercises, hints = section(chapter, "Exercises", 2), section(read(SOURCE / "hints.md"), title, 3)
    assert numbers(exercises) == list(range(1, len(numbers(exercises)) + 1)) == numbers(hints)
    assert f"Hints: [Hints for the exercises](../hints.md#{heading_id(title)})." in exercises
    assert f"({path}#exercises)" in hints


@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_a_notebook_has_a_hint_for_each_exercise_and_says_where(stem):
    cells = json.loads(read(ROOT / "notebooks" / f"{stem}.ipynb"))["cells"]
    exercises = [cell for cell in cells if "exercise" in cell["metadata"].get("tags", [])]
    hints = section(read(SOURCE / "hints.md"), f"Notebook {stem}", 3)
    assert numbers(hints) == list(range(1, len(exercises) + 1))
    assert f"{{{{#notebook {stem}}}}}" in hints
    assert any("Hints are in the book." in "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
