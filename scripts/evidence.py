"""That the book rests on what ran: the tests of every numbered equation exist, ran and passed; every figure is made by
a cell of a notebook that has its name; every number in prose is one that code shows, every check that is quoted holds.

`evidence.py library COMMAND…` runs the Rust tests and keeps the names of those that passed.
`evidence.py check`            compares them, and those of pytest, with what the equations name, and checks the rest.
"""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import manuscript
import prose
import sources
from kernel import ROOT

PASSED = ROOT / "target" / "evidence-library.json"
# Reports of pytest, by stage.
REPORTS = {stage: ROOT / "target" / f"evidence-{stage}.xml" for stage in ("scripts", "kernel")}

RUNNING = re.compile(r"^\s*Running (?:unittests )?(?P<file>\S+) \(")
DOC = re.compile(r"^\s*Doc-tests ")
# What follows the name says that a test should panic, or where the example of a document stands.
TEST = re.compile(r"^test (?P<name>\S+)(?: - .+)? \.\.\. (?P<verdict>\w+)")


def reference(file: str, name: str) -> str:
    """A test as the book names it: a module of tests/x/main.rs is the file tests/x/module.rs."""
    *modules, test = name.split("::")
    path = Path(file)
    if path.name == "main.rs" and modules:
        path = path.parent.joinpath(*modules).with_suffix(".rs")
    return f"{path.as_posix()}::{test}"


def passed_in(lines) -> set[str]:
    """The tests that passed, from what `cargo test` says."""
    passed, file = set(), None
    for line in lines:
        if running := RUNNING.match(line):
            file = running["file"]
        elif DOC.match(line):
            file = None
        elif file and (test := TEST.match(line)) and test["verdict"] == "ok":
            passed.add(reference(file, test["name"]))
    return passed


def passed_in_pytest(text: str) -> set[str]:
    """The tests that passed, from a report of pytest."""
    passed = set()
    for case in ElementTree.fromstring(text).iter("testcase"):
        if not any(child.tag in ("failure", "error", "skipped") for child in case):
            # A parametrised test is named with its case in brackets.
            name = case.get("name", "").split("[")[0]
            passed.add(f"{case.get('classname', '').replace('.', '/')}.py::{name}")
    return passed


def named_by(directive: str, root: Path) -> list[tuple[str, str, str]]:
    """Chapter, label and test of every directive of the book that names tests."""
    found = []
    for chapter in sorted((root / "book" / "src").rglob("*.md")):
        for is_prose, text in manuscript.outside_code(chapter.read_text(encoding="utf-8")):
            for args in re.findall(rf"\{{\{{\s*#{directive}\b([^}}]*)\}}\}}", text) if is_prose else []:
                label, tests, _ = manuscript.parse_eq(args)
                found += [(chapter.relative_to(root).as_posix(), label, test) for test in tests]
    return found


def named_by_equations(root: Path) -> list[tuple[str, str, str]]:
    """Chapter, label and test of every numbered equation."""
    return named_by("eq", root)


def named_by_errata(root: Path) -> list[tuple[str, str, str]]:
    """Chapter, label and test of every erratum."""
    return named_by("erratum", root)


def problems(root: Path, passed: set[str]) -> list[str]:
    """What is wrong with the evidence for equations and errata, one sentence each."""
    equations = named_by_equations(root)
    missing = [
        f"{chapter}: {kind} {label} rests on {test}, which did not run and pass"
        for kind, named in (("equation", equations), ("erratum", named_by_errata(root)))
        for chapter, label, test in named
        if test not in passed
    ]
    return missing if equations else ["the book has no numbered equation; is this the right folder?"]


def directives(root: Path, *names: str) -> list[tuple[str, str]]:
    """(place, arguments) of every directive of these names in the book."""
    found = []
    for chapter in sorted((root / "book" / "src").rglob("*.md")):

        def note(match, line, text, chapter=chapter):
            if match["name"] in names:
                found.append((f"{chapter.relative_to(root).as_posix()}:{line}", manuscript.part(match, "args", text).strip()))
            return ""

        manuscript.directives(chapter.read_text(encoding="utf-8"), note)
    return found


def figure_problems(root: Path, figures: Path) -> tuple[int, list[str]]:
    """(figures checked, what is wrong with where they come from)."""
    made, used = sources.figure_sources(root), directives(root, "figure", "slider")
    missing = [
        f"{place}: no cell of a notebook saves the figure {args.split()[0]}, so nothing says how it is made"
        for place, args in used
        if args.split()[0] not in made
    ]
    return len(used), missing + sources.cell_problems(root) + sources.image_problems(root, figures)


def check_problems(root: Path) -> tuple[int, list[str]]:
    """(check lines that the book quotes, what is wrong with them)."""
    quoted, wrong = directives(root, "check"), []
    for place, args in quoted:
        notebook, _, rest = args.partition(" ")
        try:
            sources.check_value(root, notebook, rest.partition('"')[2].partition('"')[0])
        except ValueError as error:
            wrong.append(f"{place}: {error}")
    return len(quoted), wrong


# Records from before studies refused to record from a tree with changes. A name leaves when its study is run again; none
# comes in (tests/scripts/test_evidence.py).
RECORDED_DIRTY = frozenset(
    """
    adversary-search bench-auc-loss bench-auc bench-conv-step bench-critters bench-fidelity bench-foca-step
    bench-grl-step bench-ico-step bench-lp-auc bench-lp-dense bench-mlp-step bench-pair-search bench-ridge-head-large
    bench-ridge-head-small bench-threshold bench-tree-epoch bench-tree-fit intersection-grid intersection-share
    intersection-variants networks-torch together-reader
    """.split()
)


def known(root: Path, revision: str) -> bool:
    """Whether the sources of a revision are in this history, as far as one can tell: a copy without its history, or with
    only the end of it, knows nothing."""
    def git(*words):
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)

    whole = git("rev-parse", "--is-shallow-repository").stdout.strip() == "false"
    return not whole or git("merge-base", "--is-ancestor", revision, "HEAD").returncode == 0


def record_problems(root: Path, excused: frozenset[str] = RECORDED_DIRTY) -> list[str]:
    """Records that nobody could make again, because they do not say from which sources they were made, or these are not
    in the history."""
    wrong = []
    for path in sorted((root / "data" / "records").glob("*.json")):
        revision = json.loads(path.read_text(encoding="utf-8"))["provenance"]["revision"]
        traced = revision is not None and not revision.endswith("-dirty")
        if not traced and path.stem not in excused:
            wrong.append(f"data/records/{path.name} was made from {revision or 'no revision'}; run its study from a clean tree")
        if revision and not known(root, revision.removesuffix("-dirty")):
            wrong.append(f"data/records/{path.name} was made from {revision}, which is not in the history; run its study again")
        if traced and path.stem in excused:
            wrong.append(f"data/records/{path.name} is of {revision}; take it off RECORDED_DIRTY in scripts/evidence.py")
    return wrong


def library(command: list[str]) -> int:
    """Runs the tests, shows all but the lines of those that passed, and keeps their names."""
    PASSED.unlink(missing_ok=True)
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if not (TEST.match(line) or RUNNING.match(line) or not line.strip()):
            print(line, end="", flush=True)
    PASSED.parent.mkdir(parents=True, exist_ok=True)
    PASSED.write_text(json.dumps(sorted(passed_in(lines)), indent=1) + "\n")
    return process.wait()


def check() -> int:
    passed = set()
    reports = [(report, passed_in_pytest) for report in REPORTS.values()]
    for file, read in [(PASSED, lambda text: set(json.loads(text))), *reports]:
        if not file.is_file():
            print(f"{file.relative_to(ROOT)} is missing; run the stages library, scripts and kernel first")
            return 1
        passed |= read(file.read_text(encoding="utf-8"))
    equations = named_by_equations(ROOT)
    figures, wrong_figures = figure_problems(ROOT, ROOT / "figures")
    quoted, wrong_checks = check_problems(ROOT)
    in_notebooks, wrong_in_notebooks = prose.notebook_problems(ROOT)
    in_chapters, wrong_in_chapters = prose.chapter_problems(ROOT)
    wrong = problems(ROOT, passed) + wrong_figures + wrong_checks + wrong_in_notebooks + wrong_in_chapters
    wrong += record_problems(ROOT)
    print(
        "\n".join(wrong)
        or f"{len(equations)} tests named by {len({label for _, label, _ in equations})} equations and "
        f"{len(named_by_errata(ROOT))} named by errata ran and passed; "
        f"{figures} figures of the book are made by named cells; {in_notebooks} numbers in the prose of notebooks, "
        f"{in_chapters} in that of chapters and {quoted} quoted checks are what code shows"
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(library(sys.argv[2:]) if sys.argv[1] == "library" else check())
