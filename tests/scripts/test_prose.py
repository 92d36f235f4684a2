"""Which numbers in prose need a source, and which sources count."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import prose  # noqa: E402


def found(text):
    return [number.text for number in prose.typed(text)]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It is 0.74, or .742, of all.", ["0.74", ".742"]),
        ("It falls by $-0.3$ points.", ["-0.3"]),
        ("In 86 % of 200 cases, and in 7&nbsp;% of others.", ["86", "7"]),
        ("| 0.5 | 12 |", ["0.5"]),
        ("Version 0.16.4 of 12.3.2024, `0.5`, $x = 0.5$, [a](b-0.5.md) and <i class='0.5'>.", []),
        ("$$\n0.5\n$$\n\n```rust\nlet x = 0.5;\n```\n", []),
        ("See Section 3.2, Table 4.1, Sections 1.2 and 6.2, eq. (3.1), arXiv 1906.01150.", []),
        ("A 95 % interval, and a level of 99 %.", []),
        ("Only 95 % of them.", ["95"]),
        ("{{#value run results.loss .2f}} {{#given 0.5 \"src/a.rs\"}} {{#eq a test=tests/a.rs::b}}\n0.5\n{{#endeq}}", []),
        ('{{#figure curve "A curve at 0.25."}}', ["0.25"]),
    ],
)
def test_numbers_in_prose_are_found_and_others_are_not(text, numbers):
    assert found(text) == numbers


@pytest.mark.parametrize(
    ("text", "value", "agrees"),
    [
        ("It is 0.74.", 0.7449, True),
        ("It is 0.74.", 0.7451, False),
        ("It is .742.", 0.742, True),
        ("It is 74.2 %.", 0.742, True),
        ("It is 74.2.", 0.742, False),
        ("It falls by 0.3.", -0.3, True),
        ("It is $-0.3$.", 0.3, False),
        ("It is $-0.3$.", -0.3, True),
    ],
)
def test_a_number_agrees_if_it_is_the_value_rounded(text, value, agrees):
    (number,) = prose.typed(text)
    assert number.among([value], signed=True) is agrees


def test_a_minus_counts_only_where_programs_print_it():
    (number,) = prose.typed("It is $-0.3$.")
    assert number.among([0.3])


def code(id, source, printed=""):
    outputs = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
    return {"cell_type": "code", "id": id, "metadata": {}, "source": source, "outputs": outputs}


def words(id, source, **numbers):
    return {"cell_type": "markdown", "id": id, "metadata": {"numbers": numbers} if numbers else {}, "source": source}


def notebook_problems(root, *cells):
    (root / "notebooks").mkdir(exist_ok=True)
    (root / "notebooks" / "a.ipynb").write_text(json.dumps({"nbformat": 4, "cells": list(cells)}))
    return prose.notebook_problems(root)


CHECK = "check slope = {} (tolerance 1e-1): close, largest difference 1e-2\n"


def test_a_number_that_disagrees_with_its_check_line_is_found(tmp_path):
    cells = [words("a-0", "## 1. One"), code("a-1", "x", CHECK.format(0.3349)), words("a-2", "The slope is 0.33.\n\n## 2. Two")]
    assert notebook_problems(tmp_path, *cells, words("a-3", "## 3. Three")) == (1, [])
    cells[1] = code("a-1", "x", CHECK.format(0.3351))
    count, (problem,) = notebook_problems(tmp_path, *cells, words("a-3", "## 3. Three"))
    assert problem == "notebooks/a.ipynb: cell a-2 says 0.33, which no cell of its section shows: 'The slope is 0.33.'"


def test_a_number_is_shown_in_its_section_the_one_before_or_one_that_is_named(tmp_path):
    cells = [words(f"a-{i}", f"## {i}. Section") for i in range(1, 6)]
    cells.insert(1, code("x-1", "let x = 0.25;"))

    def wrong(section, text):
        changed = [words(c["id"], c["source"] + text) if c["id"] == f"a-{section}" else c for c in cells]
        return notebook_problems(tmp_path, *changed)[1]

    assert wrong(1, "\n\nIt is 0.25.") == [] and wrong(2, "\n\nIt is 0.25.") == []
    assert "cell a-3 says 0.25" in wrong(3, "\n\nIt is 0.25.")[0]
    assert wrong(3, "\n\nIt is the 0.25 of section 1.") == []
    assert wrong(5, "\n\nIt is 0.25.") == [], "the recap speaks of all"


def test_a_quotation_is_marked_by_a_word_that_the_reader_sees(tmp_path):
    many = [words(f"b-{i}", "## More") for i in range(3)]
    assert notebook_problems(tmp_path, *many, words("a-1", "The paper has 0.91."), *many)[1] == []
    assert notebook_problems(tmp_path, *many, words("a-1", "They have 0.91."), *many)[1]


def test_a_listed_source_must_hold_the_number(tmp_path):
    (tmp_path / "data" / "records").mkdir(parents=True)
    (tmp_path / "data" / "records" / "run.json").write_text('{"results": {"gain": 0.5349, "other": 0.9}}')
    record = "data/records/run.json"
    many = [words(f"b-{i}", "## More") for i in range(3)]

    def wrong(text="It is 0.53.", **numbers):
        return notebook_problems(tmp_path, *many, words("a-1", text, **numbers), *many)[1]

    assert wrong(**{"0.53": f"{record}#results.gain"}) == wrong(**{"0.53": record}) == []
    assert "does not hold it" in wrong(**{"0.53": f"{record}#results.other"})[0]
    assert "no key results.gone" in wrong(**{"0.53": f"{record}#results.gone"})[0]
    assert "there is no file" in wrong(**{"0.53": "data/records/gone.json"})[0]
    assert wrong(**{"0.53": "quoted from elsewhere"}) == []
    assert "neither a file of the repository nor a reason" in wrong(**{"0.53": "elsewhere"})[0]
    assert "which its text does not say" in wrong("Nothing.", **{"0.53": record})[0]


TEST = "const HALF: f64 = 0.4321;\n\nfn helper() -> f64 {\n    0.8765\n}\n\n#[test]\nfn named() {\n    helper(HALF, 0.1234);\n}\n\n#[test]\nfn other() {\n    0.5555\n}\n"


@pytest.fixture
def book(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.rs").write_text(TEST)
    (tmp_path / "book" / "src" / "part").mkdir(parents=True)

    def problems(text, name="part/a.md"):
        file = tmp_path / "book" / "src" / name
        file.write_text(text)
        found = prose.chapter_problems(tmp_path)[1]
        file.unlink()
        return found

    problems.root = tmp_path
    return problems


EQ = "{{#eq half test=tests/a.rs::named}}\n\\tfrac12 = 0.51\n{{#endeq}}\n\n"


@pytest.mark.parametrize("number", ["0.1234", "0.432", "0.88", "0.51"])
def test_a_chapter_may_say_what_its_equations_and_their_tests_hold(book, number):
    assert book(EQ + f"It is {number}.") == []
    (problem,) = book(f"It is {number}.")
    assert problem.startswith(f"book/src/part/a.md:1: says {number}, which no test named there holds")


def test_a_chapter_may_not_say_what_another_test_holds_unless_it_names_it(book):
    assert book(EQ + "It is 0.5555.")
    assert book(EQ + "It is 0.5555 (`tests/a.rs::other`).") == []
    assert book(EQ + 'It is {{#given 0.5555 "tests/a.rs::other"}}.') == []
    assert "and tests/a.rs::other does not hold it" in book(EQ + 'It is {{#given 0.5556 "tests/a.rs::other"}}.')[0]


def test_a_page_outside_the_parts_is_judged_section_by_section(book):
    assert book(EQ + "## Next\n\nIt is 0.1234.") == []
    assert book(EQ + "## Next\n\nIt is 0.1234.", "a.md")
    assert book(EQ + "## Next\n\nIt is 0.1234, {{#ref half}}.", "a.md") == []


def test_the_table_of_a_paper_is_marked_by_its_title(book):
    assert book("## Table 1\n\n### As printed\n\n| 0.7 |\n") == []
    assert book("## Table 1\n\n### As printed\n\n| 0.7 |\n\n### Ours\n\n| 0.7 |\n")


def test_exercises_of_a_chapter_set_their_own_numbers(book):
    assert book("## Exercises\n\n1. Take 0.7 of it.\n") == [] and book("## Example\n\n1. Take 0.7 of it.\n")


def test_settings_are_in_the_study_whose_record_the_chapter_reads(book):
    assert book("Adam with 0.003.")
    (book.root / "examples" / "study").mkdir(parents=True)
    (book.root / "examples" / "study" / "rate.rs").write_text("Trainer::adam(3e-3)")
    assert book("Adam with 0.003.") and book("Adam with 0.003: {{#value rate-adult results.x .1f}}.") == []


def test_a_page_named_after_a_notebook_may_say_what_it_shows(book):
    (book.root / "notebooks").mkdir()
    (book.root / "notebooks" / "02_rate.ipynb").write_text(json.dumps({"cells": [code("a", "x", "0.777\n")]}))
    assert book("It is 0.777.", "part/02_rate.md") == [] and book("It is 0.777.")
