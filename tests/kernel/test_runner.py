"""The runner finds what the kernel reports as success."""

import nbformat
import notebook
import pytest
from exercises import Solution

PLANTED = {
    "a panic": ('panic!("planted")', "stderr"),
    "a failed question mark": ('lastlayer::error::ensure_shape("x", 1, 2)?;', "shape of x"),
    "a line on stderr": ('eprintln!("planted");', "stderr: planted"),
    "a wrong check": ('check("one", 2.0, 1.0, 1e-6)?;', "WRONG"),
    "a cell that does not compile": ("let x: u8 = \"text\";", "error"),
}

# Solutions of exercises, and what is to be said of them.
SOLVED = {
    "right": ('let mine = 1.0;\ncheck("right", mine, 1.0, 1e-9)?;', None),
    "wrong": ('let mine = 2.0;\ncheck("wrong", mine, 1.0, 1e-9)?;', "WRONG"),
    "silent": ("let mine = 1.0;", "no check line"),
    "broken": ("let mine = ;", "error"),
}


@pytest.fixture(scope="module")
def problems():
    book = nbformat.v4.new_notebook()
    sources = ["use lastlayer::prelude::*;", *(code for code, _ in PLANTED.values())]
    book.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    book.cells.append(nbformat.v4.new_code_cell("let fine = 1;", metadata={"tags": ["expect-error"]}))
    book.cells.append(nbformat.v4.new_code_cell('panic!("expected")', metadata={"tags": ["expect-error"]}))
    for name in SOLVED:
        source = f'let mine = 0.0;\ncheck("{name}", mine, 1.0, 1e-9)?;'
        book.cells.append(nbformat.v4.new_code_cell(source, id=name, metadata={"tags": ["exercise"]}))
    book.cells.append(nbformat.v4.new_code_cell("std::thread::sleep(std::time::Duration::from_millis(600));"))
    book.cells.append(nbformat.v4.new_code_cell("quick()"))
    solutions = {name: Solution("why", code) for name, (code, _) in SOLVED.items()}
    cells, _ = notebook.run(book, env={"LASTLAYER_QUICK": "1"}, solutions=solutions)
    return cells, notebook.run_problems(cells)


@pytest.mark.parametrize("index", range(len(PLANTED)), ids=list(PLANTED))
def test_finds(problems, index):
    found = [p for p in problems[1] if p.startswith(f"cell {index + 1}:")]
    assert found and list(PLANTED.values())[index][1] in found[0], problems[1]


def test_expected_errors_must_happen_and_may_happen(problems):
    n = len(PLANTED) + 1
    assert f"cell {n}: it should fail, and did not" in problems[1]
    assert not [p for p in problems[1] if p.startswith(f"cell {n + 1}:")]


@pytest.mark.parametrize("name", SOLVED)
def test_a_solution_runs_after_its_exercise_and_is_judged(problems, name):
    cell = problems[0][len(PLANTED) + 3 + list(SOLVED).index(name)]
    expected = SOLVED[name][1]
    assert f"check {name} = 0 " in cell.text(), "the exercise keeps its own output"
    found = notebook.solution_problems(cell, name)
    assert found == [] if expected is None else any(expected in p for p in found), found
    assert not [p for p in problems[1] if p.startswith(f"cell {cell.index}:")], "an exercise may be wrong"


def test_run_time_is_told_from_compile_time(problems):
    sleeper = problems[0][-2]
    assert sleeper.run_seconds >= 0.6 and sleeper.compile_seconds > 0


def test_the_short_setting_reaches_the_cells(problems):
    assert problems[0][-1].text().strip() == "true"
