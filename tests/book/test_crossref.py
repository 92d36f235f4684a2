"""What scripts/crossref.py promises: what a piece of Rust uses is found, links go both ways, and nothing leads nowhere."""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import book
import crossref
import evidence
import manuscript
import sources

# Equations whose tests compute with the chapter's own definitions and call nothing of the crate that is about them:
# theorems and examples on paper, and tables of the papers. One that gains a function leaves the list.
ON_PAPER = """
adv-game-alternating adv-game-blind adv-game-floor adv-game-frozen adv-game-hide adv-game-mean adv-game-printed
adv-game-response
adv-noise-allocation adv-noise-count
adv-price-balance adv-price-chain adv-price-exact adv-price-information adv-price-jump adv-price-never adv-price-optimal
adv-price-parity adv-price-partial adv-price-reweighted adv-price-table adv-price-tanh adv-price-weighted
adv-share-adam adv-share-angle adv-share-cosine adv-share-help adv-share-lean adv-share-orders adv-share-score
adv-share-second adv-share-shift adv-share-special adv-share-speed adv-share-step adv-share-sum adv-share-transfer
adv-share-trunk
adv-table-celeba adv-table-duke adv-table-several rate-table-counts
autograd-frozen autograd-interior autograd-merged autograd-toy-gradient
foca-anon-bias foca-anon-force foca-co-balance foca-co-forever foca-co-moment foca-ridge-cure foca-ridge-woodbury
int-classes-almost int-classes-any int-classes-corrected int-classes-cycle int-classes-descent int-classes-greedy
int-classes-leaf int-classes-rate int-classes-rises int-classes-saddle int-classes-soft int-classes-start int-classes-tie
int-classes-untied int-fid-gains int-tree-refit
lp-diff-blackbox lp-diff-noise lp-diff-quadratic lp-diff-ridge lp-diff-unrolled lp-qsc-quadratic lp-qsc-travel
lp-sc-jump
rate-average rate-implicit-fold
together-apart
""".split()


# ---- Rust, read without a compiler


LIB = """
//! A crate.
pub mod rate;
pub mod other;
pub mod seed;
pub mod lp { pub fn solve(a: f64) -> f64 { a } }

/// All of it.
pub mod prelude {
    pub use crate::rate::{self, Problem, root, Kind};
    pub use crate::seed::Seed;
}
"""
RATE = """
//! Rates. And more.
mod problem;
mod root;
pub use problem::{Problem, Answer, Kind};
pub use root::root;
pub fn hidden_in_a_comment() -> f64 { 0.0 }
"""
PROBLEM = """
use crate::other::Helper;

/// A problem with [`solve`](Problem::solve) and *more*. Not this.
///
/// Book: `part/1.md#eq-half`, `#eq-third`. Checked by `tests/sums/main.rs`.
pub struct Problem { pub target: f64, inner: Vec<Answer> }
/// What is found.
pub struct Answer { pub value: f64, pub parts: (Answer2, f64) }
pub struct Answer2;
pub enum Kind { One, Two { x: f64 } }

impl Problem {
    /// A problem.
    pub fn new(target: f64) -> Result<Self> { check(target)?; Ok(Problem { target, inner: Vec::new() }) }
    /// Solves it.
    pub fn solve(&self, s: &[f64]) -> Result<Answer> { let all = many(s, self.target)?; sum(all, s, 1.0, 2.0, 3.0) }
    /// The target.
    pub fn target(&self) -> f64 { self.target }
    /// Each.
    pub fn each(&self, f: impl Fn(&Answer) -> f64) -> Vec<Answer> { self.inner.iter().map(|a| f(a)).collect() }
    fn private(&self) {}
}
impl Answer {
    /// Twice.
    pub fn twice(&self) -> f64 { let v = self.value; let w = v + v; w.max(v).min(w + w) }
}
impl Clone for Answer { fn clone(&self) -> Answer { todo!() } }
"""
ROOT_FN = "/// The root.\npub fn root(x: f64) -> Option<super::Answer> { None }\n"
OTHER = "pub struct Helper;\nimpl Helper { pub fn twice(&self) {} pub fn unique(&self) {} }\npub fn helper() -> Helper { Helper }\n"
SEED = "pub struct Seed;\nimpl Seed { pub const fn new(x: u64) -> Seed { Seed } pub fn normal(&self) -> f64 { 0.0 } }\n"
TRAIT = """
pub trait Steps {
    type State;
    fn begin(&self) -> Option<Self::State>;
    fn step(&self, state: Self::State) {}
    fn run(&self) {}
}
impl Steps for Helper { type State = crate::rate::Problem; fn begin(&self) -> Option<Self::State> { None } }
impl Steps for f64 { type State = (); fn begin(&self) -> Option<()> { None } }
"""
MAIN = """
mod inner;
use lastlayer::prelude::*;

fn made() -> Problem { Problem::new(0.5).unwrap() }
fn again() -> Problem { made() }

struct Own { problem: Problem }
impl Own { fn run(&self) -> f64 { self.problem.solve(&[]).unwrap().value } }

#[test]
fn by_path_and_method() {
    // rate::hidden_in_a_comment()
    let text = "rate::hidden_in_a_comment()";
    let problem = Problem::new(0.5)?;
    let (answer, _) = (problem.solve(&[1.0])?, 2.0);
    assert_eq!(answer.twice(), 1.0, "{text}");
}

#[test]
fn through_helpers() { let p = again(); p.solve(&[]).unwrap(); }

#[test]
fn through_a_type_of_its_own() { let own = Own { problem: made() }; own.run(); }

#[test]
fn shadowed() { let root = |x: f64| x; root(1.0); let solve = 3.0; }

#[test]
fn in_a_closure() {
    let answer = 1.0;
    made().each(|answer| answer.twice());
    answer.sqrt();
    let all: Vec<f64> = (0..3).map(|i| root(i as f64).unwrap().twice()).collect();
}

#[test]
fn lost() { let x = unknown(); x.unique(); x.twice(); let a: Option<rate::Answer> = None; }

#[test]
fn of_an_enum() { let k = Kind::Two { x: root(1.0).unwrap().parts.1 }; match k { Kind::One => {} _ => {} } }
"""
INNER = """
use super::*;
use lastlayer::{lp, other::helper};

#[test]
fn of_a_module() { let s = lp::solve(1.0); again().target(); helper().unique(); }
"""


def cell(name, source, **metadata):
    return {"cell_type": "code", "id": name, "metadata": metadata, "source": source, "outputs": []}


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "id": "n-0", "metadata": {}, "source": ["# N\n", "## 1. Costs $5\n"]},
        cell("n-1", ["use lastlayer::prelude::*;\n", "let seed = Seed::new(1);"]),
        cell("n-2", "let problem = Problem::new(seed.normal())?;\nlet answer = problem.solve(&[1.0])?;"),
        cell("n-3", "answer.twice()"),
        cell("n-4", "problem.solve(&[2.0])?.twice()", tags=["exercise"]),
        cell("n-5", "fn f(answer: f64) -> f64 { root(answer).unwrap().twice() }"),
        cell("n-6", "let y = f(1.0); answer.twice(); other.len()"),
        cell("n-7", "let f = |x: f64| x; f(2.0)"),
    ]
}


@pytest.fixture
def project(tmp_path):
    files = {
        "src/lib.rs": LIB,
        "src/rate/mod.rs": RATE,
        "src/rate/problem.rs": PROBLEM,
        "src/rate/root.rs": ROOT_FN,
        "src/other.rs": OTHER,
        "src/seed.rs": SEED,
        "tests/sums/main.rs": MAIN,
        "tests/sums/inner.rs": INNER,
        "notebooks/n.ipynb": json.dumps(NOTEBOOK),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def used(project, test):
    return {item.path: depth for item, depth in crossref.Code.read(project, {}).tests[test].items()}


def test_public_items_have_the_path_by_which_they_are_reached(project):
    crate = crossref.Code.read(project, {})
    assert {"rate::Problem", "rate::Problem::solve", "rate::root", "other::helper", "lp::solve"} <= set(crate.items)
    assert not any("private" in path or "Answer2" in path or "clone" in path for path in crate.items)
    assert crate.items["rate::Problem::solve"].file == "src/rate/problem.rs" and crate.items["rate::root"].line == 2
    assert crossref.first_sentence(crate.items["rate::root"].doc) == "The root."


def test_paths_and_methods_are_found_and_comments_and_strings_are_not(project):
    found = used(project, "tests/sums/main.rs::by_path_and_method")
    assert found == {"rate::Problem::new": 0, "rate::Problem::solve": 0, "rate::Answer::twice": 0}


def test_helpers_of_the_program_count_less_than_the_test_itself(project):
    assert used(project, "tests/sums/main.rs::through_helpers") == {"rate::Problem::solve": 0, "rate::Problem::new": 2}
    assert used(project, "tests/sums/main.rs::through_a_type_of_its_own") == {
        "rate::Problem::new": 1,
        "rate::Problem::solve": 1,
    }


def test_a_name_of_the_body_hides_a_function(project):
    assert used(project, "tests/sums/main.rs::shadowed") == {}


def test_types_are_followed_into_closures_and_back(project):
    found = used(project, "tests/sums/main.rs::in_a_closure")
    assert {path for path, depth in found.items() if depth == 0} == {
        "rate::Problem::each",
        "rate::Answer::twice",
        "rate::root",
    }


def test_an_unknown_type_counts_only_if_one_that_occurs_has_such_a_method(project):
    # `unique` is a method of Helper, which does not occur; `twice` is one of Answer, which does.
    assert used(project, "tests/sums/main.rs::lost") == {"rate::Answer::twice": 0}


def test_what_the_sources_do_not_tell_is_told(project):
    several = "#[test]\nfn several() { let x = unknown(); let h = helper(); let a = root(1.0); x.twice(); h.twice(); }\n"
    (project / "tests" / "more.rs").write_text(f"use lastlayer::{{other::helper, rate::root}};\n{several}")
    found = crossref.Code.read(project, {"n": {"cells": [cell("n-0", "let = 1;")]}})
    several, unread = found.unclear
    assert several == "tests/more.rs:3: rate::Answer::twice or other::Helper::twice" and unread.startswith("n, cell 0:1: ")
    assert {item.path for item in found.tests["tests/more.rs::several"]} == {
        "other::helper",
        "other::Helper::twice",
        "rate::root",
    }


def test_a_trait_gives_methods_to_types_of_ours_and_of_others(project):
    (project / "src" / "other.rs").write_text(OTHER + TRAIT)
    test = "#[test]\nfn steps() { let s = Helper.begin().unwrap(); s.target(); Helper.step(s); 2.0f64.run(); }\n"
    generic = "fn inside<S: Steps>(s: &S) { s.run(); }\n#[test]\nfn generic() { inside(&Helper) }\n"
    (project / "tests" / "more.rs").write_text(f"use lastlayer::other::{{Helper, Steps}};\n{test}{generic}")
    found = used(project, "tests/more.rs::steps")
    assert set(found) == {"other::Helper", "rate::Problem::target"} | {f"other::Steps::{m}" for m in ("begin", "step", "run")}
    assert used(project, "tests/more.rs::generic") == {"other::Helper": 0, "other::Steps::run": 1}


def test_variants_count_for_their_enum(project):
    assert used(project, "tests/sums/main.rs::of_an_enum") == {"rate::Kind": 0, "rate::root": 0}


def test_modules_of_a_program_see_its_helpers(project):
    found = used(project, "tests/sums/inner.rs::of_a_module")
    assert found["lp::solve"] == found["rate::Problem::target"] == found["other::Helper::unique"] == 0
    assert found["rate::Problem::new"] == 2


def test_variables_live_on_from_cell_to_cell_and_functions_too(project):
    uses = crossref.Code.read(project, {"n": NOTEBOOK}).cells
    found = {at.id: {item.path: depth for item, depth in near.items()} for at, near in uses.items()}
    assert found["n-1"] == {"seed::Seed": 0}
    assert found["n-2"] == {"rate::Problem": 0, "rate::Problem::solve": 0, "seed::Seed::normal": 0}
    assert found["n-3"] == {"rate::Answer::twice": 0}
    assert "n-4" not in found  # an exercise
    assert found["n-6"] == {"rate::Answer::twice": 0, "rate::root": 1}  # the argument `answer` of f is another one
    assert found["n-7"] == {}  # a closure of the same name


# ---- links


def numbered(*labels):
    chapter = SimpleNamespace(path="part/1.md", title="A chapter")
    return {
        label: SimpleNamespace(chapter=chapter, anchor=f"eq-{label}", name=f"(1.{k})") for k, label in enumerate(labels, 1)
    }


EQUATIONS = [
    ("part/1.md", "half", ["tests/sums/main.rs::by_path_and_method"]),
    ("part/1.md", "third", ["tests/sums/main.rs::shadowed"]),
    ("part/1.md", "fourth", ["tests/sums/main.rs::in_a_closure"]),
    ("part/1.md", "fifth", ["tests/sums/main.rs::shadowed"]),
]


@pytest.fixture
def found(project):
    return crossref.survey(project, EQUATIONS, {"n": NOTEBOOK}, "functions.md")


def names(items):
    return [item.path for item in items]


def test_a_function_that_names_an_equation_comes_first_also_where_the_test_does_not_use_it(found):
    assert names(found.equations["half"].functions)[0] == "rate::Problem"
    assert names(found.equations["third"].functions) == ["rate::Problem"]
    assert names(found.equations["fifth"].functions) == []


def test_what_a_test_names_is_there_and_what_is_everywhere_is_not(found):
    shown = names(found.equations["fourth"].functions)
    assert "rate::root" in shown and "rate::Problem::each" in shown and not any("Seed" in path for path in shown)
    assert all(len(equation.functions) <= crossref.SHOWN_FUNCTIONS for equation in found.equations.values())


def test_equations_and_cells_are_linked_both_ways(found):
    there = {(label, at.id) for label, equation in found.equations.items() for at in equation.cells}
    back = {(label, at.id) for at, labels in found.cells.items() for label in labels}
    assert there == back and ("half", "n-2") in there
    assert not any(at == "n-4" for _, at in there), "an exercise would give itself away"


def test_the_line_under_an_equation_names_functions_tests_and_cells(found):
    line = crossref.under_equation(found, "half", "part/1.md")
    assert line.startswith('<details class="lives"><summary>where it lives</summary>')
    assert '<a href="../functions.md#fn-rate-Problem"><code>Problem</code></a>' in line
    assert "<dt>test</dt><dd><code>tests/<wbr>sums/<wbr>main.rs::<wbr>by_<wbr>path_<wbr>and_<wbr>method</code></dd>" in line
    assert '<a href="../notebooks/n.md#cell-n-2" title="n, 1. Costs &#36;5"><code>n-2</code></a> of n' in line
    assert "function" not in crossref.under_equation(found, "fifth", "part/1.md")
    found.page = None
    assert "functions.md" not in crossref.under_equation(found, "half", "part/1.md")


def test_the_line_under_a_cell_links_to_its_equations(found):
    lines = crossref.under_cells(found, "n", numbered("half", "third", "fourth", "fifth"))
    assert '<a href="../part/1.md#eq-half" title="A chapter">(1.1)</a>' in lines["n-2"]
    assert "n-1" not in lines and "n-4" not in lines
    page, _ = book.notebook_page({"nbformat": 4, **NOTEBOOK}, "n", lines)
    assert page.index("n-2") < page.index('<div class="cell-see">see ') < page.index("n-3")


def test_the_page_of_functions_has_every_item_of_a_method_module_and_every_item_in_use(found):
    page = crossref.all_functions(found, numbered("half", "third", "fourth", "fifth"))
    for item in ("rate-Kind", "rate-hidden_in_a_comment", "rate-Problem", "rate-Problem-solve", "seed-Seed"):
        assert f'id="fn-{item}"' in page
    assert 'id="fn-other-helper"' not in page
    problem = page[page.index('id="fn-rate-Problem"') : page.index('id="fn-rate-root"')]
    assert "A problem with <code>solve</code> and <em>more</em>.</div>" in problem and "src/<wbr>rate/<wbr>problem.rs" in problem
    assert '<a href="part/1.md#eq-half" title="A chapter">(1.1)</a>' in problem
    assert '<a href="notebooks/n.md#cell-n-2"' in problem and "by_<wbr>path_<wbr>and_<wbr>method" in problem
    blocks = page.split('<div class="functions">')[1:]
    assert all("\n\n" not in block.split("\n\n<h2")[0].strip() for block in blocks), "a blank line would end the HTML"


def test_a_project_without_a_crate_has_no_links(tmp_path):
    found = crossref.survey(tmp_path, [("a.md", "half", ["tests/x.rs::y"])], {})
    assert found.equations["half"].functions == [] and crossref.all_functions(found, {}) == "\n"


def test_references_to_the_book_are_read_in_all_their_forms():
    doc = "Text. Book:\n`a/b.md#eq-x`, `#eq-y`, `c.md#eq-z`. [book: d/e.md] and (book: f.md)."
    assert crossref.book_references(doc) == [
        ("a/b.md", "eq-x"),
        ("a/b.md", "eq-y"),
        ("c.md", "eq-z"),
        ("d/e.md", ""),
        ("f.md", ""),
    ]


# ---- the real tree


@pytest.fixture(scope="module")
def real():
    equations: dict[tuple[str, str], list[str]] = {}
    for chapter, label, test in evidence.named_by_equations(ROOT):
        equations.setdefault((chapter.removeprefix("book/src/"), label), []).append(test)
    named = [(*key, tests) for key, tests in equations.items()]
    runs, run = [], subprocess.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", lambda command, **how: runs.append(command[0]) or run(command, **how))
        found = crossref.survey(ROOT, named, sources.notebooks(ROOT), "functions.md")
    return found, runs


def test_every_equation_has_a_function_or_is_on_paper(real):
    without = {label for label, equation in real[0].equations.items() if not equation.functions}
    assert sorted(without - set(ON_PAPER)) == [], "name the equation in the doc comment of its function, or list it here"
    assert sorted(set(ON_PAPER) - without) == [], "no longer without a function: take it off the list"


def test_every_link_has_its_way_back_and_its_target(real):
    found, _ = real
    page = crossref.all_functions(found, numbered(*found.equations))
    ids = re.findall(r'\bid="(fn-[\w-]+)"', page)
    assert len(ids) == len(set(ids))
    cells = {(name, at.get("id")) for name, notebook in sources.notebooks(ROOT).items() for at in notebook["cells"]}
    for label, equation in found.equations.items():
        for item in equation.functions:
            assert crossref.anchor(item) in ids, f"{label}: {item.path} is not on the page"
            assert label in found.equations_of[item]
        for at in equation.cells:
            assert (at.notebook, at.id) in cells and label in found.cells[at]
    for at, labels in found.cells.items():
        assert len(labels) <= crossref.SHOWN_EQUATIONS and all(at in found.equations[label].cells for label in labels)
    for module in crossref.METHODS:
        assert {crossref.anchor(item) for item in found.code.exports[module]} <= set(ids)
    assert set(re.findall(r'href="#(fn-[\w-]+)"', page)) <= set(ids)


def test_most_equations_of_a_method_lead_to_its_module(real):
    """A guard against a scanner that finds something, but nonsense."""
    for part in crossref.METHODS:
        own = [e for e in real[0].equations.values() if e.chapter.startswith(f"{part}/") and e.functions]
        shown = [e.functions[0].path.split("::")[0] for e in own]
        at_home = sum(module in crossref.SUBJECTS[part] for module in shown)
        assert shown and at_home >= 0.9 * len(shown), part


def test_every_test_is_read_and_little_is_unclear(real):
    found, runs = real
    assert runs.count("cargo") == 1
    files = [*(ROOT / "tests").glob("*.rs")]
    files += [path for main in (ROOT / "tests").glob("*/main.rs") for path in main.parent.rglob("*.rs")]
    named = {
        f"{file.relative_to(ROOT)}::{name}"
        for file in files
        for name in re.findall(r"^ *#\[test\]\n(?: *(?:#\[|//).*\n)* *fn (\w+)", file.read_text(encoding="utf-8"), re.M)
    }
    assert len(named) > 1000 and set(found.code.tests) == named
    assert len(found.code.unclear) < 20, "say the type of the variable where it is made"


# ---- what doc comments say of book and tests

TEST_REFERENCE = re.compile(r"`(?P<file>tests/[\w/]+\.(?:rs|py))(?:::(?P<name>\w+))?`")
MORE_TESTS = re.compile(r"(?:,| and|, and) `(?P<name>[a-z]\w*)`")


def test_references(doc):
    """(file, name or "") of every test that a doc comment names; one without a file is of the file before."""
    found, text = [], " ".join(doc.split())
    for first in TEST_REFERENCE.finditer(text):
        found.append((first["file"], first["name"] or ""))
        at = first.end()
        while first["name"] and (more := MORE_TESTS.match(text, at)):
            found.append((first["file"], more["name"]))
            at = more.end()
    return found


test_references.__test__ = False


def doc_comments(root):
    """(place, text) of every doc comment in src."""
    for file in sorted((root / "src").rglob("*.rs")):
        lines = file.read_text(encoding="utf-8").splitlines()
        comments = [re.match(r"\s*//[/!](?!/)(.*)", line) for line in lines]
        for is_doc, block in itertools.groupby(range(len(lines)), lambda k: comments[k] is not None):
            if is_doc:
                *_, last = block = list(block)
                yield f"{file.relative_to(root)}:{last + 1}", "\n".join(comments[k][1] for k in block)


def heading_id(text):
    return re.sub(r"[^\w -]", "", text.lower()).strip().replace(" ", "-")


def doc_problems(root):
    """What doc comments refer to and is not there, one sentence each."""
    anchors = {}
    for file in (root / "book" / "src").rglob("*.md"):
        text = file.read_text(encoding="utf-8")
        labels = {f"eq-{label}" for label in re.findall(r"\{\{\s*#eq\s+([\w-]+)", text)}
        anchors[file.relative_to(root / "book" / "src").as_posix()] = labels | {
            heading_id(heading) for heading in re.findall(r"^#+\s+(.*)", text, re.M)
        }
    problems = []
    for place, doc in doc_comments(root):
        for chapter, anchor in crossref.book_references(doc):
            if chapter not in anchors:
                problems.append(f"{place}: there is no chapter {chapter}")
            elif anchor and anchor not in anchors[chapter]:
                problems.append(f"{place}: {chapter} has no anchor {anchor}")
        for file, name in test_references(doc):
            if not (root / file).is_file():
                problems.append(f"{place}: there is no {file}")
            elif name and (wrong := manuscript.problem_with_test(root, f"{file}::{name}")):
                problems.append(f"{place}: {wrong}")
    return problems


def test_doc_comments_lead_to_chapters_equations_and_tests_that_exist():
    assert doc_problems(ROOT) == []
    docs = [doc for _, doc in doc_comments(ROOT)]
    assert sum(bool(crossref.book_references(doc)) for doc in docs) > 100
    assert sum(bool(test_references(doc)) for doc in docs) > 100


@pytest.mark.parametrize(
    ("doc", "sentence"),
    [
        ("Book: `gone.md`.", "no chapter gone.md"),
        ("Book: `part/1.md#eq-half`, `#eq-gone`.", "part/1.md has no anchor eq-gone"),
        ("Book: `part/1.md#what-fails`, `part/1.md#eq-half`.", "part/1.md has no anchor what-fails"),
        ("Checked by `tests/gone.rs`.", "there is no tests/gone.rs"),
        ("Checked by `tests/sums/main.rs::gone`.", "no test function `gone`"),
        ("Checked by `tests/sums/main.rs::shadowed`, `gone_too`.", "no test function `gone_too`"),
    ],
)
def test_a_doc_comment_that_leads_nowhere_is_told(project, doc, sentence):
    (project / "book" / "src" / "part").mkdir(parents=True)
    chapter = "# What holds\n{{#eq half test=a}}x{{#endeq}}\n{{#eq third test=a}}x{{#endeq}}"
    (project / "book" / "src" / "part" / "1.md").write_text(chapter)
    (project / "src" / "other.rs").write_text(f"/// {doc}\npub struct Helper;\n")
    (problem,) = doc_problems(project)
    assert sentence in problem and problem.startswith("src/other.rs:1")
