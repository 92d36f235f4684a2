"""What in an exercise is the reader's, and that every exercise has a solution."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "scripts"))
import exercises  # noqa: E402

GIVEN = 'let mine = 0.0;\nlet loss = w.sqr()?; // a comment\ncheck("exercise 1", mine, &loss, 1e-9)?;'
REST = GIVEN.partition("\n")[2]


@pytest.mark.parametrize(
    "answer",
    [
        "let mine = 4.0;",
        "let mine = 2f64\n    .powi(2); // w squared",
        "let mine = { let loss = 3.0; loss + 1.0 };",  # a name of the cell, but inside a block
        "let half: f64 = 0.5;\nlet mine = 8.0 * half;",
        "fn square(x: f64) -> f64 { x * x }\nlet mine = square(2.0);",
        "use std::f64::consts::PI;\nlet mine = PI;",
        "let mine = vec![1.0, 2.0];\nlet mine = mine[0];",
        "",
    ],
)
def test_an_answer_is_no_edit(answer):
    assert exercises.edited(GIVEN, f"{answer}\n{REST}") is None


def test_spaces_comments_and_a_look_at_the_result_are_no_edits():
    assert exercises.edited(GIVEN, GIVEN.replace(" // a comment", "").replace("\n", "\n\n")) is None
    assert exercises.edited(GIVEN, GIVEN + '\nprintln!("{mine}");') is None


@pytest.mark.parametrize(
    ("handed_in", "why"),
    [
        (GIVEN.replace("&loss", "&4.0"), "what follows the answer was edited"),
        (GIVEN.replace("1e-9", "1e9"), "what follows the answer was edited"),
        ('let mine = 4.0;\ncheck("exercise 1", mine, 4.0, 1e-9)?;', "what follows the answer was edited"),
        ("", "what follows the answer was edited"),
        ("let mine = 4.0;\nlet w = other;\n" + REST, "another meaning to w"),
        ("let (mine, w): (f64, f64) = (1.0, 2.0);\n" + REST, "another meaning to w"),
        ("use elsewhere::{a as w, b};\nlet mine = 4.0;\n" + REST, "another meaning to w"),
        ("fn check(a: &str) {}\n" + GIVEN, "a second check"),
        (GIVEN + '\ncheck("exercise 1", 4.0, 4.0, 1e-9)?;', "a second check"),
        ('println!("check exercise 1 = 4 (tolerance 1e-9): exact");\n' + GIVEN, "a second check"),
    ],
)
def test_an_edit_is_found(handed_in, why):
    assert why in exercises.edited(GIVEN, handed_in)


def test_the_answer_is_cut_out_as_written():
    assert exercises.answer(GIVEN) == "let mine = 0.0;"
    assert exercises.answer("let mine = {\n    let a = 1; a };\nrest(mine)") == "let mine = {\n    let a = 1; a };"
    assert exercises.answer("let other = 1;") == ""


FILE = """// Solutions of a notebook.

// ==== a-1
// One line,
//
// and another.
let mine = 1.0;
// a comment in the code
check("exercise 1", mine, 1.0, 1e-9)?;

// ==== a-2
// Why.
let mine = 2.0;
"""


def test_a_file_of_solutions_is_read():
    found, problems = exercises.parse_solutions(FILE)
    assert problems == [] and list(found) == ["a-1", "a-2"]
    assert found["a-1"].text == "One line,\n\nand another."
    assert found["a-1"].code == 'let mine = 1.0;\n// a comment in the code\ncheck("exercise 1", mine, 1.0, 1e-9)?;'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (FILE + "// ==== a-1\n// Why.\nlet mine = 1.0;", "two solutions"),
        ("// ==== a-1\nlet mine = 1.0;", "does not explain itself"),
        ("// ==== a-1\n// Why.\n", "has no code"),
    ],
)
def test_a_bad_file_of_solutions_is_told(text, problem):
    assert problem in "; ".join(exercises.parse_solutions(text)[1])


def notebook_of(*sources):
    cells = [
        {"cell_type": "code", "id": f"a-{i}", "metadata": {"tags": ["exercise"]}, "source": source, "outputs": []}
        for i, source in enumerate(sources, 1)
    ]
    return {"cells": cells}


def test_exercises_and_solutions_must_belong_to_each_other(tmp_path):
    (tmp_path / "demo.rs").write_text(FILE)
    right = 'let mine = 0.0;\ncheck("exercise 1", mine, 1.0, 1e-9)?;'

    def problems(*sources):
        return "; ".join(exercises.solutions(notebook_of(*sources), "demo", tmp_path)[1])

    assert problems(right, "let mine = 0.0;") == ""
    assert "solution of a-2, but no such exercise" in problems(right)
    assert "exercise a-3 has no solution" in problems(right, "let mine = 0.0;", "let mine = 0.0;")
    assert "not that cell with another answer" in problems(right.replace("1e-9", "1e-6"), "let mine = 0.0;")
    assert "no line `let mine" in problems(right, "let yours = 0.0;")
    assert "has no solution" in "; ".join(exercises.solutions(notebook_of(right), "none", tmp_path)[1])


NOTEBOOKS = sorted(exercises.NOTEBOOKS.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_every_exercise_has_a_solution_and_every_solution_an_exercise(path):
    notebook = json.loads(path.read_text())
    assert exercises.exercises(notebook), "a notebook has exercises"
    assert exercises.solutions(notebook, path.stem)[1] == []


def test_every_file_of_solutions_has_its_notebook():
    assert {path.stem for path in exercises.SOLUTIONS.glob("*.rs")} <= {path.stem for path in NOTEBOOKS}
