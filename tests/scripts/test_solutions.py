"""How the teacher's notebooks are put together, without a kernel."""

import sys
from pathlib import Path

import nbformat
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "scripts"))
import exercises  # noqa: E402
import notebook  # noqa: E402
import solutions  # noqa: E402

CHECK = 'check("exercise 1", mine, 1.0, 1e-9)?;'
FILE = f"// ==== a-1\n// Why.\nlet mine = 1.0;\n{CHECK}\n"
WRONG, RIGHT = (f"check exercise 1 = {v} (tolerance 1e-9): {verdict}\n" for v, verdict in ((0, "WRONG"), (1, "exact")))


def stream(text):
    return [nbformat.v4.new_output("stream", name="stdout", text=text)]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with one notebook of two cells; what the solution prints is up to the test."""
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "demo.rs").write_text(FILE)
    book = nbformat.v4.new_notebook()
    book.cells = [
        nbformat.v4.new_markdown_cell("one", id="a-0"),
        nbformat.v4.new_code_cell(f"let mine = 0.0;\n{CHECK}", id="a-1", metadata={"tags": ["exercise"]}),
        nbformat.v4.new_code_cell("1", id="a-2"),
    ]
    nbformat.write(book, tmp_path / "demo.ipynb")
    monkeypatch.setattr(exercises, "SOLUTIONS", tmp_path / "solutions")
    runs = []

    def process(printed):
        def run(book, env, solutions):
            runs.append(env)
            book.cells[1].outputs = stream(WRONG)
            one = nbformat.v4.new_output("execute_result", data={"text/plain": "1"}, execution_count=2)
            book.cells[2].outputs = [one]
            cells = [notebook.Cell(1, stream(WRONG), 0.1, 0.1, ["exercise"]), notebook.Cell(2, [one], 0.1, 0.1)]
            cells[0].solved = notebook.Cell(1, stream(printed), 0.1, 0.1)
            return cells, 1.0

        monkeypatch.setattr(notebook, "run", run)
        return solutions.process(tmp_path / "demo.ipynb", tmp_path / "out")

    return tmp_path, process, runs


def test_explanation_and_solved_cell_follow_the_exercise(project):
    folder, process, _ = project
    assert process(RIGHT) == []
    book = nbformat.read(folder / "out" / "demo.ipynb", as_version=4)
    nbformat.validate(book)
    assert [cell.id for cell in book.cells] == ["a-0", "a-1", "a-1-why", "a-1-solved", "a-2"]
    assert book.cells[2].source == "**Solution.** Why."
    assert book.cells[3].outputs[0].text == RIGHT and book.cells[1].outputs[0].text == WRONG
    counts = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    assert counts == [1, 2, 3] and book.cells[4].outputs[0].execution_count == 3


@pytest.mark.parametrize(("printed", "problem"), [(WRONG, "WRONG"), ("nothing", "no check line of 'exercise 1'")])
def test_a_solution_that_does_not_solve_fails(project, printed, problem):
    _, process, _ = project
    assert any(problem in one for one in process(printed))


def test_an_exercise_without_a_solution_fails_before_anything_runs(project):
    folder, process, runs = project
    (folder / "solutions" / "demo.rs").write_text("")
    assert any("has no solution" in one for one in process(RIGHT))
    assert not runs and not (folder / "out" / "demo.ipynb").exists()


def test_nothing_is_done_twice_but_a_failure_and_a_change_are(project):
    folder, process, runs = project
    process(WRONG)
    process(RIGHT)
    assert process(RIGHT) == [] and len(runs) == 2
    (folder / "solutions" / "demo.rs").write_text(FILE.replace("Why", "Because"))
    process(RIGHT)
    assert len(runs) == 3


def test_other_outputs_are_no_change_and_other_words_are(project):
    folder, process, runs = project
    process(RIGHT)
    book = nbformat.read(folder / "demo.ipynb", as_version=4)
    book.cells[1].outputs = stream(WRONG)
    nbformat.write(book, folder / "demo.ipynb")
    process(RIGHT)
    assert len(runs) == 1
    book.cells[0].source = "another"
    nbformat.write(book, folder / "demo.ipynb")
    process(RIGHT)
    assert len(runs) == 2


def test_what_cells_save_stays_out_of_the_figures(project):
    folder, process, runs = project
    process(RIGHT)
    assert runs == [{"LASTLAYER_OUT": str(folder / "out")}]
