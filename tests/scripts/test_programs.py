"""Notebooks as programs: a small notebook that needs no crate, translated, compiled and judged."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "scripts"))
import kernel  # noqa: E402
import notebook  # noqa: E402
import programs  # noqa: E402
from exercises import NOTEBOOKS, Solution  # noqa: E402

CHECK = "check {} = {} (tolerance 1e-9): {}"
COMPILER = nbformat.v4.new_output("error", ename="Error", evalue="mismatched types", traceback=[])
# The source of each cell, what it printed when it was committed, and its tags.
CELLS = [
    (":dep nothing\nuse std::collections::BTreeMap;\nconst TEN: i64 = 10;\nfn twice(x: i64) -> i64 { 2 * x }", "", []),
    ("let n: i64 = \"4\".parse()?;\nlet list = vec![twice(n)];\nlist", "[8]\n", []),
    ("if list.is_empty() { println!(\"none\") } else { println!(\"some\") }\n"
     "for i in list.clone() { println!(\"{i}\") }\nlet s = if n > 3 { \"}{;\" } else { \"\" }; // }", "some\n8\n", []),
    ("fn twice(x: i64) -> i64 { 2 * x + TEN }\nprintln!(\"check twice = {} (tolerance 1e-9): exact\", twice(n));",
     CHECK.format("twice", "18", "exact") + "\n", []),
    ("#[derive(Debug)]\nstruct Picture;\nimpl Picture {\n    fn evcxr_display(&self) {\n"
     "        println!(\"EVCXR_BEGIN_CONTENT text/plain\\na picture\\nEVCXR_END_CONTENT\");\n    }\n}\n"
     "let picture = Picture;\npicture", "a picture\n", []),
    ("let wrong: i64 = \"four\".parse()?;", "invalid digit\n", ["expect-error"]),
    ("panic!(\"{n}\")", "panicked\n", ["expect-error"]),
    ("let wrong: i64 = \"four\";", [COMPILER], ["expect-error"]),
    ("let mine = 0;\nlet verdict = if mine == n { \"exact\" } else { \"WRONG, 4\" };\n"
     "println!(\"check exercise 1 = {mine} (tolerance 1e-9): {verdict}\");",
     CHECK.format("exercise 1", "0", "WRONG, 4") + "\n", ["exercise"]),
    ("drop((picture, s));\nprintln!(\"{mine} {:?}\", BTreeMap::from([(1, 2)]));", "0 {1: 2}\n", []),
]
SOLUTION = {"cell-8": Solution("", CELLS[8][0].replace("mine = 0", "mine = 4"))}


def book(cells=CELLS):
    made = nbformat.v4.new_notebook()
    for i, (source, printed, tags) in enumerate(cells):
        if isinstance(printed, str):
            printed = [nbformat.v4.new_output("stream", name="stdout", text=printed)] if printed else []
        made.cells.append(nbformat.v4.new_code_cell(source, id=f"cell-{i}", outputs=printed, metadata={"tags": tags}))
    return made


def ran(made, folder, solutions=None):
    (folder / "main.rs").write_text(programs.translated(made, solutions))
    command = [kernel.real_tool("rustc"), "--edition=2024", "-o", folder / "main", folder / "main.rs"]
    subprocess.run(command, check=True)
    return programs.execute(made, folder / "main", folder / "out")


def test_a_notebook_runs_and_passes(tmp_path):
    made = book()
    outcome = ran(made, tmp_path, SOLUTION)
    assert outcome.problems == []
    assert [cell.index for cell in outcome.cells] == [0, 1, 2, 3, 4, 5, 6, 8, 9]  # 7 fails in the compiler
    for cell in outcome.cells:
        _, printed, tags = CELLS[cell.index]
        assert cell.text("stdout") == ("" if "expect-error" in tags else printed)
    assert notebook.shown(outcome.cells[4]) == ["a picture"]
    assert "invalid digit" in outcome.cells[5].text("stderr") and "panicked" in outcome.cells[6].text("stderr")
    [line] = notebook.checks(outcome.cells[7].solved.text()).values()
    assert line["verdict"] == "exact"  # and the cell after it still has the reader's answer


@pytest.mark.parametrize(
    "cell, source, problem",
    [
        (1, CELLS[1][0].replace('"4"', '"5"'), "cell 3: changed: was"),
        (3, CELLS[3][0].replace("exact", "WRONG"), "cell 3: check twice = 18 (tolerance 1e-9): WRONG"),
        (3, CELLS[3][0] + "\neprintln!(\"careful\");", "cell 3: it wrote to stderr: careful"),
        (3, CELLS[3][0] + "\n\"ten\".parse::<u8>()?;", "cell 4: it was not reached"),
        (3, CELLS[3][0] + "\n\"ten\".parse::<u8>()?;", "it ended with exit code 1"),
        (5, "let wrong: i64 = \"4\".parse()?;", "cell 5: it should fail, and did not"),
        (9, "let silent = 1;", "cell 9: committed outputs are missing or stale"),
    ],
)
def test_what_is_wrong_is_found_in_its_cell(tmp_path, cell, source, problem):
    made = book()
    made.cells[cell].source = source
    problems = ran(made, tmp_path, SOLUTION).problems
    assert any(found.startswith(problem) for found in problems), problems


def test_a_wrong_solution_is_found(tmp_path):
    wrong = {"cell-8": Solution("", CELLS[8][0].replace("mine = 0", "mine = 5"))}
    [problem] = ran(book(), tmp_path, wrong).problems
    assert problem.startswith("solution of cell-8, cell 8: check exercise 1 = 5")


@pytest.mark.parametrize(
    "source, shown",
    [
        ("let a = 1;", ""),
        ("a", "a"),
        ("let a = 1;\na", "a"),
        ("fn f() {}", ""),
        ("fn f() -> u8 { 1 }\nf()?", "f()?"),
        ("for a in b {}\nc.d(&[1; 2])?", "c.d(&[1; 2])?"),
        ("if a { b } else { c }", "if a { b } else { c }"),
        ("let a = { 1 };\nmatch a { _ => b }.c()", "match a { _ => b }.c()"),
        ("let A { b } = c else { return };", ""),
        ("a; // b", ""),
    ],
)
def test_the_last_expression_is_told_from_statements(source, shown):
    assert programs.last_expression(source)[1].strip() == shown


def test_every_notebook_is_translated_whole():
    for path in NOTEBOOKS.glob("*.ipynb"):
        made = nbformat.read(path, as_version=4)
        program = programs.translated(made)
        for cell in notebook.committed_cells(made):
            assert f'cell_begins("{cell.index}");' in program
