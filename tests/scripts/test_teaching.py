"""The lesson plans: one for each notebook, of one form, with numbers that the notebook prints."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from exercises import NOTEBOOKS, exercises, joined, printed  # noqa: E402

PLANS = ROOT / "book" / "src" / "teaching"
STEMS = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
DECIMAL = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e-?\d+)?")


def plan(stem):
    return (PLANS / f"{stem}.md").read_text(encoding="utf-8")


def cells(stem):
    return json.loads((NOTEBOOKS / f"{stem}.ipynb").read_text(encoding="utf-8"))


@pytest.mark.parametrize("stem", STEMS)
def test_every_notebook_has_a_plan_that_is_linked(stem):
    assert f"{{{{#notebook {stem}}}}}" in plan(stem)
    assert f"({stem}.md)" in plan("index")
    assert f"(teaching/{stem}.md)" in (ROOT / "book" / "src" / "SUMMARY.md").read_text(encoding="utf-8")


def test_every_plan_has_its_notebook():
    assert sorted(path.stem for path in PLANS.glob("*.md")) == sorted([*STEMS, "index"])


@pytest.mark.parametrize("stem", STEMS)
def test_a_plan_has_its_parts_and_fits_a_page(stem):
    text = plan(stem)
    for part in ("**For whom.**", "**Afterwards they can**", "## Ask", "## Hand in", "## If time is short"):
        assert part in text, part
    assert len(re.findall(r"[^\s|*#-][^\s|]*", text)) <= 470, "about a page"
    asked = re.findall(r"^- \*.+\?\* .+", text, re.M)
    assert 3 <= len(asked) <= 5, "questions with answers"


@pytest.mark.parametrize("stem", STEMS)
def test_the_timetable_fills_ninety_minutes(stem):
    spans = re.findall(r"^\| (\d+)–(\d+) \|", plan(stem), re.M)
    assert [a for a, _ in spans] == ["0", *(b for _, b in spans[:-1])] and spans[-1][1] == "90"


@pytest.mark.parametrize("stem", STEMS)
def test_a_plan_asks_for_the_exercises_there_are_and_names_sections_that_exist(stem):
    source = "\n".join(joined(cell["source"]) for cell in cells(stem)["cells"])
    sections = {int(n) for n in re.findall(r"^## (\d+)\.", source, re.M)}
    rows = re.findall(r"^\| \d+–\d+ \|[^|]*\| ([\d, ]+) \|", plan(stem), re.M)
    named = {int(n) for row in rows for n in row.split(",")}
    named |= {int(n) for n in re.findall(r"section (\d+)", plan(stem))}
    assert rows and named <= sections, named - sections
    count = len(exercises(cells(stem)))
    assert re.search(rf"Exercises 1 (to|and) {count}\b", plan(stem))


@pytest.mark.parametrize("stem", STEMS)
def test_decimals_of_a_plan_are_in_the_notebook(stem):
    text = "\n".join(joined(cell["source"]) + "\n" + printed(cell) for cell in cells(stem)["cells"])
    there = [float(n) for n in DECIMAL.findall(text)]
    for number in DECIMAL.findall(plan(stem)):
        digits = len(number.split(".")[1].split("e")[0])
        size = 10.0 ** -int(number.partition("e-")[2] or 0)
        near = [n for n in there if abs(n - float(number)) <= 0.5000001 * size * 10.0**-digits]
        assert near, f"{number} is not in notebooks/{stem}.ipynb"
