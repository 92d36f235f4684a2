"""That every numbered equation of the book was checked: its tests exist, ran and passed.

`evidence.py library COMMAND…` runs the Rust tests and keeps the names of those that passed.
`evidence.py check`            compares them, and those of pytest, with what the book's equations name.
"""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import book
from kernel import ROOT

PASSED = ROOT / "target" / "evidence-library.json"
# Reports of pytest, by stage.
REPORTS = {stage: ROOT / "target" / f"evidence-{stage}.xml" for stage in ("scripts", "kernel")}

RUNNING = re.compile(r"^\s*Running (?:unittests )?(?P<file>\S+) \(")
DOC = re.compile(r"^\s*Doc-tests ")
TEST = re.compile(r"^test (?P<name>\S+)(?: - should panic)? \.\.\. (?P<verdict>\w+)")


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


def named_by_equations(root: Path) -> list[tuple[str, str, str]]:
    """Chapter, label and test of every numbered equation."""
    found = []
    for chapter in sorted((root / "book" / "src").rglob("*.md")):
        for is_prose, text in book.outside_code(chapter.read_text(encoding="utf-8")):
            for args in re.findall(r"\{\{\s*#eq\b([^}]*)\}\}", text) if is_prose else []:
                label, tests, _ = book.parse_eq(args)
                found += [(chapter.relative_to(root).as_posix(), label, test) for test in tests]
    return found


def problems(root: Path, passed: set[str]) -> list[str]:
    """What is wrong with the evidence, one sentence each."""
    equations = named_by_equations(root)
    missing = [
        f"{chapter}: equation {label} rests on {test}, which did not run and pass"
        for chapter, label, test in equations
        if test not in passed
    ]
    return missing if equations else ["the book has no numbered equation; is this the right folder?"]


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
    wrong = problems(ROOT, passed)
    print("\n".join(wrong) or f"{len(named_by_equations(ROOT))} tests named by equations ran and passed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(library(sys.argv[2:]) if sys.argv[1] == "library" else check())
