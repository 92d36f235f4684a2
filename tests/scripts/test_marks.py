"""What is read from notebooks that were handed in, without a kernel."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import marks  # noqa: E402

GIVEN = marks.committed()
EXERCISE = 'let mine = 0.0;\ncheck("exercise 1", mine, 1.0, 1e-9)?;\n'
WRONG = "WRONG, largest difference 1.0e0"


def code(id, source, text="", tags=()):
    outputs = [{"output_type": "stream", "name": "stdout", "text": [text]}] if text else []
    source = source.splitlines(keepends=True)
    return {"cell_type": "code", "id": id, "metadata": {"tags": list(tags)}, "source": source, "outputs": outputs}


def line(name, value, verdict):
    return f"check {name} = {value} (tolerance 1e-9): {verdict}\n"


def demo():
    """A notebook as it is given out: one check of its own, two exercises."""
    return {
        "cells": [
            {"cell_type": "markdown", "id": "a-0", "metadata": {}, "source": ["# Demo"]},
            code("a-1", 'check("own", 1.0, 1.0, 1e-9)?;', line("own", 1, "exact")),
            code("a-2", EXERCISE, line("exercise 1", 0, WRONG), ["exercise"]),
            code("a-3", EXERCISE.replace("1\"", "2\""), line("exercise 2", 0, WRONG), ["exercise"]),
        ]
    }


def handed_in(tmp_path, change):
    notebook = demo()
    change(notebook["cells"])
    file = tmp_path / "anna.ipynb"
    file.write_text(json.dumps(notebook))
    return marks.mark(file, {"demo": demo()})


def solve(cells, value="1.0", verdict="exact"):
    cells[2]["source"][0] = f"let mine = {value};\n"
    cells[2]["outputs"][0]["text"] = [line("exercise 1", value, verdict)]


@pytest.mark.parametrize("verdict", ["exact", "close, largest difference 1.0e-12"])
def test_a_solved_exercise_counts(tmp_path, verdict):
    report = handed_in(tmp_path, lambda cells: solve(cells, "0.5 + 0.5", verdict))
    assert (report["notebook"], report["solved"], report["of"]) == ("demo", 1, 2)
    first, second = report["exercises"]
    assert first["verdict"] == verdict.split(",")[0] and first["answer"] == "let mine = 0.5 + 0.5;"
    shown = {key: second[key] for key in ("name", "value", "tolerance", "verdict")}
    assert shown == {"name": "exercise 2", "value": "0", "tolerance": "1e-9", "verdict": "WRONG"}
    assert [(one["name"], one["verdict"]) for one in report["others"]] == [("own", "exact")]
    assert report["edited"] == []


def test_a_changed_exercise_does_not_count(tmp_path):
    def cheat(cells):
        solve(cells)
        cells[2]["source"] = ['let mine = 0.0;\n', 'check("exercise 1", mine, 0.0, 1e-9)?;']

    report = handed_in(tmp_path, cheat)
    assert report["solved"] == 0 and report["exercises"][0]["verdict"] == "changed"
    assert "edited" in report["exercises"][0]["why"]


def test_deleted_not_run_and_failed_are_told_apart(tmp_path):
    assert handed_in(tmp_path, lambda cells: cells.pop(2))["exercises"][0]["verdict"] == "deleted"
    report = handed_in(tmp_path, lambda cells: cells[2].update(outputs=[]))
    assert report["exercises"][0]["verdict"] == "not run" and report["ran"]
    error = [{"output_type": "error", "ename": "Error", "evalue": "x", "traceback": []}]
    report = handed_in(tmp_path, lambda cells: cells[2].update(outputs=error))
    assert report["exercises"][0]["verdict"] == "failed"


def test_a_notebook_that_was_never_run_says_so(tmp_path):
    report = handed_in(tmp_path, lambda cells: [cell.update(outputs=[]) for cell in cells])
    assert not report["ran"] and report["solved"] == 0
    assert marks.row(report)[-1] == "never run"


def test_exercises_are_known_though_the_given_notebook_has_no_outputs(tmp_path):
    given = demo()
    for cell in given["cells"]:
        cell["outputs"] = []
    file = tmp_path / "anna.ipynb"
    notebook = demo()
    solve(notebook["cells"])
    file.write_text(json.dumps(notebook))
    report = marks.mark(file, {"demo": given})
    assert (report["solved"], report["of"], len(report["others"])) == (1, 2, 1)


def test_other_cells_that_were_edited_are_named(tmp_path):
    def change(cells):
        solve(cells)
        cells[1]["source"] = ['check("own", 2.0, 2.0, 1e-9)?;']
        cells[1]["outputs"][0]["text"] = [line("own", 3, "WRONG, largest difference 2.0e0"), line("own", 2, "exact")]

    report = handed_in(tmp_path, change)
    assert report["edited"] == ["a-1"] and report["solved"] == 1
    assert report["others"][0]["verdict"] == "WRONG", "of two lines with one name the wrong one counts"
    assert marks.row(report)[-1] == "exercise 2 WRONG, other checks 0 of 1, other cells edited: 1"


def test_comments_and_spaces_are_no_edits(tmp_path):
    report = handed_in(tmp_path, lambda cells: cells[1]["source"].append("\n\n// seen\n"))
    assert report["edited"] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("[]", "no list of cells"),
        ('{"cells": [1]}', "no list of cells"),
        ('{"cells": []}', "none of our notebooks"),
        ('{"cells": [{"cell_type": "code", "id": "a-2", "source": "", "outputs": 1}]}', "deleted"),
        ('{"cells": [{"cell_type": "code", "id": "a-2", "source": "1", "outputs": [1]}]}', "not written as a notebook"),
        (None, "cannot be opened"),
    ],
)
def test_a_bad_file_is_a_sentence(tmp_path, text, problem):
    file = tmp_path / "x.ipynb"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert problem in str(marks.mark(file, {"demo": demo()}))


def test_every_committed_notebook_is_recognised_and_unsolved():
    for name, notebook in GIVEN.items():
        assert marks.original(notebook, GIVEN) == name
        report = marks.judge(copy.deepcopy(notebook), notebook)
        assert report["solved"] == 0 and report["of"] >= 2, name
        assert {one["verdict"] for one in report["exercises"]} <= {"WRONG", "not run"}
        assert {one["verdict"] for one in report["others"]} <= {*marks.SOLVED, "not run"} and report["edited"] == []


def test_the_command_reads_the_other_files_and_writes_one_json(tmp_path):
    good, bad, out = tmp_path / "with space.ipynb", tmp_path / "bad.ipynb", tmp_path / "out" / "marks.json"
    good.write_text((ROOT / "notebooks" / "00_tour.ipynb").read_text())
    bad.write_text("{")
    command = [sys.executable, str(ROOT / "scripts" / "marks.py"), "--out", str(out), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == ""
    assert "00_tour   0 of 2  exercise 1 WRONG, exercise 2 WRONG" in done.stdout and "not JSON" in done.stdout
    files = json.loads(out.read_text())["files"]
    assert [("problem" in one, one.get("of")) for one in files] == [(True, None), (False, 2)]


def test_without_files_the_command_says_what_to_write():
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "marks.py")], capture_output=True, text=True)
    assert done.returncode == 1 and "make marks FILES=" in done.stderr and "Traceback" not in done.stderr


def test_a_run_that_does_not_end_or_start_is_a_sentence(tmp_path, monkeypatch):
    import queue

    import notebook

    file = tmp_path / "anna.ipynb"
    file.write_text(json.dumps({**demo(), "nbformat": 4, "nbformat_minor": 5, "metadata": {}}))
    no_start = RuntimeError("the kernel did not start: x\nlog")
    for error, sentence in ((queue.Empty(), "ran longer"), (no_start, "not start: x")):

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr(notebook, "run", fail)
        problem = marks.mark(file, {"demo": demo()}, anew=True)["problem"]
        assert sentence in problem and "log" not in problem


def test_a_new_run_counts_and_not_the_saved_outputs(tmp_path, monkeypatch):
    import notebook

    file = tmp_path / "anna.ipynb"
    saved = demo()
    solve(saved["cells"], "0.9")
    file.write_text(json.dumps({**saved, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}))

    def run(book, env):
        assert env["LASTLAYER_QUICK"] == "1"
        book.cells[2].outputs[0].text = line("exercise 1", "0.9", "WRONG, largest difference 1.0e-1")

    monkeypatch.setattr(notebook, "run", run)
    assert marks.mark(file, {"demo": demo()})["solved"] == 1
    assert marks.mark(file, {"demo": demo()}, anew=True)["solved"] == 0
