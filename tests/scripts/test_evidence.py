"""The evidence check: what ran is read right, and an equation whose test is gone is found."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import evidence  # noqa: E402

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
    named = evidence.named_by_equations(ROOT)
    assert len(named) > 50
    passed = {test for _, _, test in named}
    assert evidence.problems(ROOT, passed) == []
    chapter, label, test = named[0]
    assert evidence.problems(ROOT, passed - {test})[0].startswith(f"{chapter}: equation {label} ")
