"""The runner's judgement on outputs, without a kernel."""

import sys
from pathlib import Path

import nbformat
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "scripts"))
import notebook  # noqa: E402


def cell(*lines, compile_seconds=0.1):
    outputs = [nbformat.v4.new_output("stream", name="stdout", text="\n".join(lines) + "\n")] if lines else []
    return notebook.Cell(0, outputs, compile_seconds, 0.1)


LINE = "check dw = [2, 4] (tolerance 1e-6): exact"


def test_equal_check_lines_pass():
    assert notebook.compare([cell(LINE)], [cell(LINE)]) == []


@pytest.mark.parametrize("value", ["[2, 4.0000001]", "[2.0, 4]", "[2, 4e0]"])
def test_differences_within_the_tolerance_pass(value):
    assert notebook.compare([cell(LINE)], [cell(LINE.replace("[2, 4]", value))]) == []


@pytest.mark.parametrize("value", ["[2, 4.1]", "[2]", "[2, NaN]", "[2, inf]", "[]"])
def test_changed_values_fail(value):
    [problem] = notebook.compare([cell(LINE)], [cell(LINE.replace("[2, 4]", value))])
    assert "changed" in problem


def test_a_changed_tolerance_fails():
    assert notebook.compare([cell(LINE)], [cell(LINE.replace("1e-6", "1e-3"))])


def test_missing_and_new_lines_fail():
    assert "is gone" in notebook.compare([cell(LINE, "x")], [cell("x")])[0]
    assert "not in the committed" in notebook.compare([cell("x")], [cell(LINE, "x")])[0]


def test_missing_outputs_fail():
    assert "missing or stale" in notebook.compare([cell()], [cell("text")])[0]


def test_checks_are_read_from_rich_outputs_too():
    rich = nbformat.v4.new_output("execute_result", data={"text/plain": LINE}, execution_count=1)
    assert list(notebook.checks(notebook.Cell(0, [rich], 0, 0).text())) == ["dw"]


TRAINED = "check a tenth of the features = 1.1735746285955009 (tolerance 1e-9): exact"


def test_a_trained_number_may_be_another_processors():
    other = TRAINED.replace("1.1735746285955009", "1.1757097827259615").replace("exact", "close, largest difference 2.2e-16")
    assert notebook.compare([cell(TRAINED)], [cell(other)]) == []
    assert notebook.compare([cell(other)], [cell(TRAINED)]) == []


@pytest.mark.parametrize("changed", [TRAINED.replace("1.17", "1.27"), TRAINED.replace("exact", "WRONG, largest difference 1.0")])
def test_another_number_and_another_verdict_are_no_matter_of_processors(changed):
    [problem] = notebook.compare([cell(TRAINED)], [cell(changed)])
    assert "changed" in problem
    assert notebook.compare([cell(changed)], [cell(TRAINED)]), "both ways"


def test_a_wrong_answer_stays_wrong_whatever_its_number():
    wrong = "check exercise 2 = [0.1, 2] (tolerance 1e-9): WRONG, largest difference 3.3e-1"
    assert notebook.compare([cell(wrong)], [cell(wrong.replace("0.1", "0.3"))]) == []
    assert notebook.compare([cell(wrong)], [cell(wrong.replace("WRONG", "close"))])
    assert notebook.compare([cell(wrong)], [cell(wrong.replace(", 2]", "]"))])


def test_time_is_told_and_not_judged():
    assert notebook.cell_problems(cell("x", compile_seconds=1000.0)) == []


def test_kernels_side_by_side_need_cores_and_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(notebook, "MEMORY", tmp_path / "meminfo")
    assert notebook.side_by_side() == 1, "a system that does not tell"
    for gib, most in ((1, 1), (5, 1), (64, 2)):
        notebook.MEMORY.write_text(f"MemTotal: 1 kB\nMemAvailable:   {gib * 2**20} kB\n")
        monkeypatch.setattr(notebook.os, "sched_getaffinity", lambda _: range(4), raising=False)
        assert notebook.side_by_side() == most
    monkeypatch.setattr(notebook.os, "sched_getaffinity", lambda _: [0], raising=False)
    assert notebook.side_by_side() == 1


@pytest.mark.parametrize("text", ["()", "Figure { chart: Curves([]) }", "Table { columns: [] }"])
def test_a_value_as_the_compiler_prints_it_is_a_problem(text):
    raw = nbformat.v4.new_output("execute_result", data={"text/plain": text})
    (problem,) = notebook.cell_problems(notebook.Cell(3, [raw], 0.0, 0.0))
    assert "end the cell with the name of a variable" in problem
    fine = nbformat.v4.new_output("execute_result", data={"text/plain": "Curves of y over x: one (2 points)."})
    assert notebook.cell_problems(notebook.Cell(3, [fine], 0.0, 0.0)) == []
