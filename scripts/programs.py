"""Notebooks as programs: the code cells of each in a Rust program of its own, judged by their check lines.

`programs.py [NAME…]` builds and runs them at short settings, as `notebook.py test` does in the kernel
`programs.py --runner "qemu-x86_64 -cpu Westmere"` puts a command before each: another processor
`programs.py --features cuda` builds the library with features

A program runs where the kernel, which compiles every cell, is too slow or cannot run: on an emulated processor, on a
device. Dependencies are those of the tests, in target; with CARGO_TARGET_DIR they are there, built as that environment
says.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parent))
import exercises
import kernel
import notebook
from exercises import NOTEBOOKS, ROOT, checks
from notebook import Cell

HOME = ROOT / "target" / "programs"
HOURS = 6  # after which a program is given up: an emulated processor is slow

MANIFEST = """[package]
name = "lastlayer-programs"
edition = "2024"

[workspace]

[dependencies]
lastlayer = {{ path = {path}, features = {features} }}

{profile}"""

# A mark on both streams tells which cell speaks from there on. The last expression of a cell is shown by its own
# display, which goes before that of a trait, or else as Debug prints it: so does the kernel.
MARK = "\x1e"
PROGRAM = """#![allow(warnings)]
trait Debugged { fn evcxr_display(&self); }
impl<T: std::fmt::Debug + ?Sized> Debugged for T { fn evcxr_display(&self) { println!("{self:?}"); } }
fn cell_begins(cell: &str) { println!("\\u{1e}%s"); eprintln!("\\u{1e}%s"); }
type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
""".replace("%s", "{cell}")
# A cell that must fail leaves nothing behind; a panic writes to stderr by itself.
MUST_FAIL = """let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| -> Outcome {{
{code}
Ok(()) }}));
if let Ok(Err(error)) = outcome {{ eprintln!("{{error}}"); }}"""

# Statements that end at their brace whatever follows, and those that do if more follows.
ITEMS = ("fn", "struct", "enum", "trait", "impl", "mod", "pub", "#", "macro_rules")
BLOCKS = ("for", "while", "loop", "if", "match", "unsafe", "{")
GOES_ON = ("else", ".", "?")
# What `evcxr_display` prints.
CONTENT = re.compile(r"EVCXR_BEGIN_CONTENT (\S+)\n(.*?)\n?EVCXR_END_CONTENT\n", re.S)


def last_expression(source):
    """A cell without its last expression, and that expression, empty if the cell ends in a statement."""
    found = exercises.tokens(source)
    start = 0
    for i, (word, depth, _) in enumerate(found):
        after = found[i + 1][0] if i + 1 < len(found) else None
        first = found[start][0]
        block = word == "}" and (first in ITEMS or (first in BLOCKS and after is not None and after not in GOES_ON))
        if depth == 0 and (word == ";" or block):
            start = i + 1
    end = found[start - 1][2] if start else 0
    return (source[:end], source[end:]) if start < len(found) else (source, "")


def code_of(source):
    """A cell as statements."""
    statements, shown = last_expression(re.sub(r"^:.*$", "", source, flags=re.M))
    return f"{statements}\n(&({shown}\n)).evcxr_display();" if shown else f"{statements}\n;"


def stays_out(cell):
    """Whether a cell must fail and does so in the compiler, which the kernel reports as an error and not as text."""
    failed = any(output.output_type == "error" for output in cell.outputs)
    return "expect-error" in cell.metadata.get("tags", []) and failed


def translated(book, solutions=None):
    """The program of a notebook. Each cell opens a block within that of the one before, so that it may give another
    meaning to a name; the solution of an exercise has a block that ends."""
    cells, depth = [], 0
    for index, cell in enumerate(book.cells):
        if cell.cell_type != "code" or not cell.source.strip() or stays_out(cell):
            continue
        code = code_of(cell.source)
        if "expect-error" in cell.metadata.get("tags", []):
            code = MUST_FAIL.format(code=code)
        cells.append(f'{{ cell_begins("{index}");\n{code}\n')
        depth += 1
        if solution := (solutions or {}).get(cell.get("id")):
            cells.append(f'{{ cell_begins("{index} solved");\n{code_of(solution.code)}\n}}\n')
    return PROGRAM + "".join(cells) + "}" * depth + "\nOk(())\n}\n"


def place(features):
    """The folder of the generated package; its programs save and print below `output`."""
    return HOME / ("-".join(features) or "cpu")


def write(path, text):
    """Writes only what changed, since cargo goes by the time of a file."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def build(names, features=(), env=None):
    """Builds the programs of these notebooks; the executable of each that compiles, by name."""
    package = place(features)
    (package / "src" / "bin").mkdir(parents=True, exist_ok=True)
    for name in names:
        book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
        write(package / "src" / "bin" / f"notebook_{name}.rs", translated(book, exercises.solutions(book, name)[0]))
    profile = re.search(r"^\[profile\.dev\]\n.*?(?=^\[\[)", (ROOT / "Cargo.toml").read_text(), re.M | re.S)[0]
    listed = {"path": json.dumps(str(ROOT)), "features": json.dumps(list(features))}
    write(package / "Cargo.toml", MANIFEST.format(**listed, profile=profile))
    shutil.copy2(ROOT / "Cargo.lock", package / "Cargo.lock")  # pinned versions; cargo drops what it does not need
    env, shared = {**os.environ, **(env or {})}, []
    if "CARGO_TARGET_DIR" not in env:
        env.update(CARGO_TARGET_DIR=str(ROOT / "target"), RUSTFLAGS=kernel.rustflags())
        shared = [f"--target={kernel.host_triple(kernel.real_tool('rustc'))}"]
    command = ["cargo", "build", "--keep-going", f"--manifest-path={package / 'Cargo.toml'}", *shared]
    command += ["--message-format=json-render-diagnostics", *(f"--bin=notebook_{name}" for name in names)]
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    made = {message["target"]["name"]: message["executable"] for message in told if message.get("executable")}
    return {name: made[f"notebook_{name}"] for name in names if f"notebook_{name}" in made}


def outputs(stdout, stderr):
    """What each cell printed, as the notebook format has it, by its mark."""
    found = {}
    for name, text in (("stdout", stdout), ("stderr", stderr)):
        for part in text.split(MARK)[1:]:
            mark, _, said = part.partition("\n")
            rich = dict(CONTENT.findall(said))
            said = CONTENT.sub("", said)
            cell = found.setdefault(mark, [])
            cell += [nbformat.v4.new_output("stream", name=name, text=said)] if said else []
            cell += [nbformat.v4.new_output("display_data", data=rich)] if rich else []
    return found


@dataclass
class Outcome:
    """What one program did, and what is wrong with it."""

    cells: list = field(default_factory=list)
    seconds: float = 0.0
    problems: list = field(default_factory=list)


def judged(book, found):
    """The cells that ran beside the committed ones, and what is wrong with them, as scripts/notebook.py judges it."""
    committed = [cell for cell in notebook.committed_cells(book) if not stays_out(book.cells[cell.index])]
    cells = [Cell(old.index, found[str(old.index)], 0.0, 0.0, old.tags) for old in committed if str(old.index) in found]
    for cell in cells:
        if (solved := found.get(f"{cell.index} solved")) is not None:
            cell.solved = Cell(cell.index, solved, 0.0, 0.0)
    problems = notebook.run_problems(cells) + notebook.compare(committed, cells)
    problems += [p for cell in cells for p in notebook.solution_problems(cell, book.cells[cell.index].get("id"))]
    missing = [old.index for old in committed[len(cells) :]]
    return cells, problems + ([f"cell {missing[0]}: it was not reached"] if missing else [])


def execute(book, program, out, runner=(), env=None):
    """Runs a program, which saves into a folder, and judges what it printed."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    # Neither PDF nor PNG, and as in the kernel no traces in messages.
    ours = {"LASTLAYER_QUICK": "1", "LASTLAYER_OUT": str(out), "LASTLAYER_EXPORT": "", "RUST_LIB_BACKTRACE": "0"}
    env = {**os.environ, **ours, **(env or {})}
    streams = out / "stdout", out / "stderr"
    began, end = time.time(), []
    with open(streams[0], "wb") as stdout, open(streams[1], "wb") as stderr:
        told = {"cwd": NOTEBOOKS, "env": env, "stdout": stdout, "stderr": stderr}
        try:
            code = subprocess.run([*runner, program], **told, timeout=3600 * HOURS).returncode
            end = [f"it ended with exit code {code}"] if code else []
        except subprocess.TimeoutExpired:
            end = [f"it was given up after {HOURS} hours"]
    seconds = time.time() - began
    cells, problems = judged(book, outputs(*(stream.read_text(errors="replace") for stream in streams)))
    return Outcome(cells, seconds, problems + end)


def run(names=(), runner=(), features=(), env=None):
    """Builds and runs the programs of these notebooks, or of all; prints a line for each. What each did, by name."""
    names = list(names) or sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
    made = build(names, features, env)

    def one(name):
        book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
        if name in made:
            outcome = execute(book, made[name], place(features) / "output" / name, runner, env)
        else:
            outcome = Outcome(problems=["it does not compile as a program; the compiler's message stands above"])
        lines = sum(len(checks(cell.text())) for cell in outcome.cells)
        left = sum(cell.cell_type == "code" and stays_out(cell) for cell in book.cells)
        cells = f"{len(outcome.cells)} cells" + (f" ({left} more must not compile)" if left else "")
        verdict = "FAILED" if outcome.problems else "ok"
        told = [f"{name}: {cells}, {lines} check lines, {outcome.seconds:.1f} s: {verdict}"]
        print("\n".join(told + [f"  {name}, {problem}" for problem in outcome.problems]), flush=True)
        return outcome

    with concurrent.futures.ThreadPoolExecutor(notebook.side_by_side()) as pool:
        return dict(zip(names, pool.map(one, names)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--runner", default="", help="a command that runs a program, with its options")
    parser.add_argument("--features", default="", help="features of the library, separated by commas")
    args = parser.parse_args()
    if unknown := [name for name in args.names if not (NOTEBOOKS / f"{name}.ipynb").exists()]:
        sys.exit(f"no notebook named {' '.join(unknown)} in notebooks/")
    done = run(args.names, shlex.split(args.runner), [name for name in args.features.split(",") if name])
    failed = sum(bool(outcome.problems) for outcome in done.values())
    print(f"{len(done) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
