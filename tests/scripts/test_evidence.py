"""The evidence check: what ran is read right; an equation whose test is gone, a figure that no cell makes, a check that
changed and a number that disagrees are found, in copies of this repository too."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import evidence  # noqa: E402
import experiments  # noqa: E402
import prose  # noqa: E402
import provenance  # noqa: E402

SAID = """\
   Compiling lastlayer v0.1.0
     Running unittests src/lib.rs (target/debug/deps/lastlayer-1)
running 0 tests
     Running tests/measures.rs (target/debug/deps/measures-1)
test the_area_under_the_roc_is_the_share_of_pairs_in_order ... ok
test slow_one ... ignored
test wrong_one ... FAILED
     Running tests/rate/main.rs (target/debug/deps/rate-1)
test smooth::four_scores_have_the_smooth_rates_worked_out_by_hand ... ok
   Doc-tests lastlayer
test src/seed.rs - seed (line 3) ... ok
"""


def test_reads_what_passed_and_where():
    assert evidence.passed_in(SAID.splitlines()) == {
        "tests/measures.rs::the_area_under_the_roc_is_the_share_of_pairs_in_order",
        "tests/rate/smooth.rs::four_scores_have_the_smooth_rates_worked_out_by_hand",
    }


def test_reads_a_report_of_pytest():
    report = (
        '<testsuites><testsuite><testcase classname="tests.kernel.test_a" name="test_b[x]"/>'
        '<testcase classname="tests.kernel.test_a" name="test_c"><failure/></testcase>'
        '<testcase classname="tests.kernel.test_a" name="test_d"><skipped/></testcase></testsuite></testsuites>'
    )
    assert evidence.passed_in_pytest(report) == {"tests/kernel/test_a.py::test_b"}


def book_with(folder, text):
    chapter = folder / "book" / "src" / "part" / "chapter.md"
    chapter.parent.mkdir(parents=True)
    chapter.write_text(text)
    return folder


def test_an_equation_whose_test_was_renamed_is_found(tmp_path):
    root = book_with(tmp_path, "{{#eq sum test=tests/a.rs::adds test=tests/b/c.rs::twice}}\nx\n{{#endeq}}\n")
    passed = {"tests/a.rs::adds", "tests/b/c.rs::twice"}
    assert evidence.problems(root, passed) == []
    renamed = {"tests/a.rs::adds_up", "tests/b/c.rs::twice"}
    (problem,) = evidence.problems(root, renamed)
    assert "book/src/part/chapter.md" in problem and "equation sum" in problem and "tests/a.rs::adds" in problem


def test_a_book_without_equations_is_suspicious(tmp_path):
    assert evidence.problems(book_with(tmp_path, "words"), set())


def test_renaming_a_test_of_this_book_is_found():
    named, of_errata = evidence.named_by_equations(ROOT), evidence.named_by_errata(ROOT)
    assert len(named) > 50 and len(of_errata) > 50
    passed = {test for _, _, test in named + of_errata}
    assert evidence.problems(ROOT, passed) == []
    chapter, label, test = named[0]
    assert evidence.problems(ROOT, passed - {test})[0].startswith(f"{chapter}: equation {label} ")
    chapter, label, test = next(erratum for erratum in of_errata if erratum[2] not in {test for _, _, test in named})
    assert evidence.problems(ROOT, passed - {test})[0] == f"{chapter}: erratum {label} rests on {test}, which did not run and pass"


# ---- one thing changed in a copy of this repository


@pytest.fixture
def copy(tmp_path):
    for folder in ("book/src", "notebooks", "data/records", "tests", "examples/study", "src"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "README.md", tmp_path / "README.md")
    return tmp_path


def change(file, old, new):
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def change_cell(root, notebook, cell, old, new, part="source"):
    """Changes the source of a cell, or what it printed."""
    file = root / "notebooks" / f"{notebook}.ipynb"
    content = json.loads(file.read_text(encoding="utf-8"))
    (found,) = [c for c in content["cells"] if c["id"] == cell]
    holder, key = (found, "source") if part == "source" else (found["outputs"][0], "text")
    text = "".join(holder[key])
    assert old in text
    holder[key] = text.replace(old, new)
    file.write_text(json.dumps(content), encoding="utf-8")


def test_renaming_a_test_function_of_this_repository_is_found(copy):
    chapter, label, test = next(named for named in evidence.named_by_equations(ROOT) if ".rs::" in named[2])
    path, _, name = test.partition("::")

    def passed():
        """What a run of the test programs of the copy would report."""
        both = evidence.named_by_equations(copy) + evidence.named_by_errata(copy)
        names = {named for _, _, named in both if ".py::" in named}
        for file in (copy / "tests").rglob("*.rs"):
            functions = re.findall(r"\bfn (\w+)\(", file.read_text(encoding="utf-8"))
            names |= {f"{file.relative_to(copy).as_posix()}::{function}" for function in functions}
        return names

    assert evidence.problems(copy, passed()) == []
    change(copy / path, f"fn {name}(", f"fn {name}_and_more(")
    sentence = f"{chapter}: equation {label} rests on {test}, which did not run and pass"
    assert sentence in evidence.problems(copy, passed())
    assert evidence.manuscript.problem_with_test(copy, test) == f"{path} has no test function `{name}`"


def test_a_figure_whose_cell_no_longer_saves_it_is_found(copy):
    count, wrong = evidence.figure_problems(copy, copy / "figures")
    assert count > 15 and wrong == []
    place, args = evidence.directives(copy, "figure")[-1]
    figure = args.split()[0]
    source = evidence.sources.figure_sources(copy)[figure]
    change_cell(copy, source.notebook, source.cell, f'.save("{figure}")', f'.save("{figure}-2")')
    wrong = evidence.figure_problems(copy, copy / "figures")[1]
    assert f"{place}: no cell of a notebook saves the figure {figure}, so nothing says how it is made" in wrong
    assert any(f"saves the figure {figure}-2; give it that id" in problem for problem in wrong)


def test_an_image_of_the_readme_that_no_cell_makes_any_more_is_found(copy):
    (image,) = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (copy / "README.md").read_text(encoding="utf-8"))[:1]
    name = Path(image).stem
    figures = copy / "figures"
    figures.mkdir()
    shutil.copyfile(copy / image, figures / f"{name}.svg")
    assert evidence.sources.image_problems(copy, figures) == []
    (figures / f"{name}.svg").write_text("<svg/>")
    (problem,) = evidence.sources.image_problems(copy, figures)
    assert problem == f"README.md: {name}.svg differs from the last run; copy figures/{name}.svg again"
    change(copy / image, "<svg", "<svg class='old'")
    assert "is not what" in evidence.sources.image_problems(copy, figures)[0]
    change(copy / "README.md", image, "book/src/images/gone.svg")
    assert "README.md: there is no image gone.svg" in evidence.sources.image_problems(copy, figures)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("check slope of the law = ", "check slope of a law = ", "prints no check `slope of the law`"),
        (": close", ": WRONG", "the check `slope of the law` of notebooks/04_foca.ipynb is WRONG"),
    ],
)
def test_a_quoted_check_that_is_gone_or_wrong_is_found(copy, old, new, sentence):
    count, wrong = evidence.check_problems(copy)
    assert count and wrong == []
    change_cell(copy, "04_foca", "foca-collapse", old, new, part="output")
    assert any(problem.startswith("book/src/") and sentence in problem for problem in evidence.check_problems(copy)[1])


def test_a_number_in_the_prose_of_a_notebook_that_disagrees_is_found(copy):
    assert prose.notebook_problems(copy)[1] == []
    change_cell(copy, "03_lp", "lp-44", "83.6 against 81.6", "83.5 against 81.6")
    (problem,) = prose.notebook_problems(copy)[1]
    assert problem.startswith("notebooks/03_lp.ipynb: cell lp-44 says 83.5, which no cell of its section shows")


def test_a_result_in_a_notebook_that_changed_under_its_prose_is_found(copy):
    file = copy / "notebooks" / "03_lp.ipynb"
    file.write_text(file.read_text(encoding="utf-8").replace("83.6 ± 0.3", "84.6 ± 0.3"), encoding="utf-8")
    assert any("cell lp-44 says 83.6" in problem for problem in prose.notebook_problems(copy)[1])


def test_a_number_of_a_chapter_that_disagrees_is_found(copy):
    assert prose.chapter_problems(copy)[1] == []
    change(copy / "book" / "src" / "adversary" / "game.md", "| 0.6338 |", "| 0.6438 |")
    (problem,) = prose.chapter_problems(copy)[1]
    assert re.match(r"book/src/adversary/game\.md:\d+: says 0\.6438, which no test named there holds", problem)


def test_the_check_of_this_repository_says_what_it_counted(tmp_path, monkeypatch, capsys):
    passed = tmp_path / "passed.json"
    passed.write_text(json.dumps([test for _, _, test in evidence.named_by_equations(ROOT) + evidence.named_by_errata(ROOT)]))
    monkeypatch.setattr(evidence, "PASSED", passed)
    monkeypatch.setattr(evidence, "REPORTS", {})
    assert evidence.check() == 0
    said = capsys.readouterr().out
    assert re.fullmatch(
        r"\d+ tests named by \d+ equations and \d+ named by errata ran and passed; "
        r"\d+ figures of the book are made by named cells; "
        r"\d+ numbers in the prose of notebooks, \d+ in that of chapters and \d+ quoted checks are what code shows\n",
        said,
    )


def record_of(folder, name, revision):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"provenance": {"revision": revision}}))


def test_a_record_from_a_changed_tree_is_found(tmp_path):
    records = tmp_path / "data" / "records"
    record_of(records, "clean", "0123456789ab")
    assert evidence.record_problems(tmp_path, frozenset()) == []
    record_of(records, "changed", "0123456789ab-dirty")
    record_of(records, "unknown", None)
    assert len(evidence.record_problems(tmp_path, frozenset())) == 2
    assert evidence.record_problems(tmp_path, frozenset({"changed", "unknown"})) == []
    (problem,) = evidence.record_problems(tmp_path, frozenset({"changed", "unknown", "clean"}))
    assert "take it off" in problem


def test_a_record_of_sources_that_nobody_has_is_found(tmp_path):
    def git(*words):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "begun")
    record_of(tmp_path / "data" / "records", "here", git("rev-parse", "--short=12", "HEAD"))
    assert evidence.record_problems(tmp_path, frozenset()) == []
    record_of(tmp_path / "data" / "records", "lost", "0123456789ab")
    (problem,) = evidence.record_problems(tmp_path, frozenset())
    assert "lost.json was made from 0123456789ab, which is not in the history" in problem


# Whoever was on the list when it was begun.
FIRST_LIST = frozenset(
    """
    adversary-search bench-auc-loss bench-auc bench-conv-step bench-critters bench-fidelity bench-foca-step
    bench-grl-step bench-ico-step bench-lp-auc bench-lp-dense bench-mlp-step bench-pair-search bench-ridge-head-large
    bench-ridge-head-small bench-threshold bench-tree-epoch bench-tree-fit critters foca-toy
    intersection-animals intersection-grid intersection-share intersection-variants lp-classes lp-f
    measures networks-torch rate-features rate-gaussians together-reader
    """.split()
)


def test_the_list_of_excused_records_only_shrinks():
    assert evidence.RECORDED_DIRTY <= FIRST_LIST
    assert evidence.record_problems(ROOT) == []


def test_nothing_is_recorded_from_a_tree_with_changes(tmp_path, monkeypatch):
    def git(*words):
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t", *words], check=True)

    monkeypatch.delenv("LASTLAYER_DIRTY", raising=False)
    assert provenance.revision(tmp_path) is None
    git("init", "-q")
    (tmp_path / "a").write_text("1")
    record_of(tmp_path / "data" / "records", "old", None)
    git("add", ".")
    git("commit", "-q", "-m", "begun")
    assert len(provenance.revision(tmp_path)) == 12 and provenance.unrecordable(tmp_path) is None
    # A record that the study before wrote is no change of the sources.
    record_of(tmp_path / "data" / "records", "old", "new")
    assert provenance.unrecordable(tmp_path) is None
    # A source that nobody committed is one that nobody else has.
    (tmp_path / "new.rs").write_text("1")
    assert provenance.unrecordable(tmp_path) is not None
    (tmp_path / "new.rs").unlink()
    assert provenance.unrecordable(tmp_path) is None
    (tmp_path / "a").write_text("2")
    assert provenance.revision(tmp_path).endswith("-dirty") and "commit them" in provenance.unrecordable(tmp_path)
    monkeypatch.setattr(experiments.provenance, "unrecordable", lambda: "the tree has changes")
    monkeypatch.setattr(sys, "argv", ["experiments.py", "critters"])
    monkeypatch.setitem(experiments.ROWS, "critters", lambda: pytest.fail("a study began"))
    with pytest.raises(SystemExit, match="the tree has changes"):
        experiments.main()
    monkeypatch.undo()
    monkeypatch.setenv("LASTLAYER_DIRTY", "1")
    assert provenance.unrecordable(tmp_path) is None
