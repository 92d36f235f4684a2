"""Runs notebooks in the real kernel, cell by cell, and says what is wrong with them.

`notebook.py test [NAME…]`    short settings; fails on errors, stderr, changed check lines, wrong solutions
`notebook.py figures [NAME…]` full length; executed copies go to target/notebooks
`notebook.py update [NAME…]`  full length; writes the outputs back into notebooks/
`notebook.py nudged [NAME…]`  full length, three times, every drawn parameter moved by a relative 1e-7: what a notebook
                              says must hold on a processor that sums in another order; copies go to target/nudged
"""

import argparse
import concurrent.futures
import os
import queue
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from jupyter_client import KernelManager

import exercises
import prose
from exercises import NOTEBOOKS, ROOT, checks

TEST_OUTPUT = ROOT / "target" / "test-output"  # what notebooks save under test; figures/ is left alone
EXECUTED = ROOT / "target" / "notebooks"  # copies with the outputs of the last run at full length
NUDGED = ROOT / "target" / "nudged"  # and of those with first parameters moved
NUDGES = (1, 2, 3)

CELL_TIMEOUT = 1800.0  # a kernel that hangs is given up; how quick a cell is, `make bench` tells
# How far two processors may disagree on a number that was trained: they sum in different orders, and training carries
# that into every digit.
SPREAD = 0.01
MEMORY = Path("/proc/meminfo")
GIB_PER_KERNEL = 3
LATE = 0.2  # seconds of silence after which a cell has said all; what comes still later is filed under it too

# A value as the compiler prints it, which is what the kernel falls back to when a cell ends in an expression that moves.
RAW = re.compile(r"\(\)|[A-Z]\w* \{ ")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|inf|NaN)")


@dataclass
class Cell:
    """What one code cell did."""

    index: int
    outputs: list
    compile_seconds: float
    run_seconds: float
    tags: list = field(default_factory=list)
    solved: "Cell | None" = None  # what the solution of this exercise did

    def text(self, name=None):
        """All that a reader can read: streams and plain text."""
        parts = []
        for output in self.outputs:
            if output.output_type == "stream" and name in (None, output.name):
                parts.append(output.text)
            elif output.output_type in ("execute_result", "display_data") and name in (None, "stdout"):
                parts.append(output.data.get("text/plain", "") + "\n")
        return "".join(parts)


class Kernel:
    """One kernel of a flavour, from start to shutdown."""

    def __init__(self, flavour="lastlayer", cwd=NOTEBOOKS, env=None):
        self.scratch = tempfile.TemporaryDirectory()
        self.run_file = Path(self.scratch.name) / "run"
        self.log = open(Path(self.scratch.name) / "log", "w+")
        self.manager = KernelManager(kernel_name=flavour)
        self.started = time.time()
        self.manager.start_kernel(
            cwd=str(cwd),
            env={**os.environ, **(env or {}), "LASTLAYER_RUN_FILE": str(self.run_file)},
            stdout=self.log,
            stderr=self.log,
        )
        self.outputs = {}
        self.client = self.manager.client()
        self.client.start_channels()
        try:
            self.client.wait_for_ready(timeout=CELL_TIMEOUT)
        except RuntimeError as error:
            log = self.log_text()
            self.stop()
            raise RuntimeError(f"the kernel did not start: {error}\n{log}") from None
        self.start_seconds = time.time() - self.started

    def log_text(self):
        self.log.flush()
        return Path(self.log.name).read_text()

    def compiled_at(self, since):
        """When the newest cell library was linked, or None if none was since then, or this is not our launcher's."""
        if not self.run_file.exists():
            return None
        folder = Path(self.run_file.read_text()) / "target"
        times = [path.stat().st_mtime for path in folder.glob("*/debug/libcode_*")]
        newest = max(times, default=0)
        return newest if newest >= since else None

    def execute(self, code):
        """Runs one cell; returns outputs, seconds to compile, seconds to run."""
        began = time.time()
        request = self.client.execute(code, allow_stdin=False)
        outputs = self.outputs[request] = []
        while not self.receive(CELL_TIMEOUT, request):
            pass
        self.client.get_shell_msg(timeout=CELL_TIMEOUT)
        ended = time.time()
        compiled = self.compiled_at(began - 0.01) or ended
        self.drain()
        return outputs, compiled - began, ended - compiled

    def receive(self, timeout, request=None):
        """Takes one message and files it under the cell it belongs to; whether it says that the request is done."""
        message = self.client.get_iopub_msg(timeout=timeout)
        parent, kind, content = message["parent_header"].get("msg_id"), message["msg_type"], message["content"]
        outputs = self.outputs.get(parent)
        if outputs is not None and kind in ("stream", "execute_result", "display_data", "error"):
            output = nbformat.v4.output_from_msg(message)
            last = outputs[-1] if outputs else None
            if kind == "stream" and last and last.output_type == "stream" and last.name == output.name:
                last.text += output.text
            else:
                outputs.append(output)
        return parent == request and kind == "status" and content["execution_state"] == "idle"

    def drain(self):
        """The kernel sends stderr on its own time, often after it has said that the cell is done."""
        try:
            while True:
                self.receive(LATE)
        except queue.Empty:
            pass

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.log.close()
        self.scratch.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def run(notebook, flavour="lastlayer", cwd=NOTEBOOKS, env=None, solutions=None):
    """Executes the code cells of a notebook in a clean kernel; its outputs are replaced.

    With solutions, by id, each runs right after its exercise, and leaves no trace in the notebook."""
    cells = []
    with Kernel(flavour, cwd, env) as kernel:
        count = 0
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code" or not cell.source.strip():
                continue
            count += 1
            cell.outputs, compile_seconds, run_seconds = kernel.execute(cell.source)
            cell.execution_count = count
            cells.append(Cell(index, cell.outputs, compile_seconds, run_seconds, cell.metadata.get("tags", [])))
            if solution := (solutions or {}).get(cell.get("id")):
                cells[-1].solved = Cell(index, *kernel.execute(solution.code))
        kernel.drain()
        start = kernel.start_seconds
    for cell in filter(lambda c: c.cell_type == "code", notebook.cells):
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = cell.execution_count
    return cells, start


# --------------------------------------------------------------------------------------------------------------------
# What can be wrong


def differs(old, new):
    """Whether two check lines disagree: in their verdicts, where close is as good as exact, or in numbers beyond the
    tolerance they state and beyond what another processor may do to a trained one. A wrong answer, as exercises begin
    with one, has no number to agree on."""
    before, after = NUMBER.findall(old["value"]), NUMBER.findall(new["value"])
    wrong = [line["verdict"].startswith("WRONG") for line in (old, new)]
    if old["tolerance"] != new["tolerance"] or len(before) != len(after) or wrong[0] != wrong[1]:
        return True
    if all(wrong):
        return False
    reach = max(float(old["tolerance"]), SPREAD)
    return any(not abs(float(a) - float(b)) <= reach * max(1.0, abs(float(b))) for a, b in zip(after, before))


def shown(cell):
    """The plain text of every rich output of a cell."""
    rich = (output for output in cell.outputs if output.output_type in ("execute_result", "display_data"))
    return [output.data.get("text/plain", "") for output in rich]


def cell_problems(cell):
    """Errors that one run shows by itself. The kernel reports a panic and a failed `?` as success: their text tells.

    A cell tagged `expect-error` must fail; one tagged `exercise` may hold a wrong answer, the reader's to mend."""
    place = f"cell {cell.index}"
    failed = [o for o in cell.outputs if o.output_type == "error"]
    stderr = cell.text("stderr").strip()
    if "expect-error" in cell.tags:
        return [] if failed or stderr else [f"{place}: it should fail, and did not"]
    problems = [f"{place}: error: {o.evalue}" for o in failed]
    if stderr:
        problems.append(f"{place}: it wrote to stderr: {stderr.splitlines()[0]}")
    if raw := next((text for text in shown(cell) if RAW.match(text)), None):
        problems.append(f"{place}: it shows {raw[:40]!r}, not a picture or a table; end the cell with the name of a variable")
    for name, line in checks(cell.text()).items():
        if line["verdict"].startswith("WRONG") and "exercise" not in cell.tags:
            problems.append(f"{place}: {line[0]}")
    return problems


def solution_problems(cell, name):
    """What is wrong with the solution that ran after an exercise: it must solve every check of it."""
    if cell.solved is None:
        return []
    missing = checks(cell.text()).keys() - checks(cell.solved.text()).keys()
    problems = cell_problems(cell.solved) + [f"it printed no check line of {check!r}" for check in sorted(missing)]
    return [f"solution of {name}, {problem}" for problem in problems]


def compare(old_cells, new_cells):
    """Committed outputs against those of this run: they must be there, and agree in every check line."""
    problems = []
    for old, new in zip(old_cells, new_cells):
        place = f"cell {new.index}"
        if bool(old.outputs) != bool(new.outputs):
            problems.append(f"{place}: committed outputs are missing or stale; run `make notebooks`")
        before, after = checks(old.text()), checks(new.text())
        for name in before.keys() - after.keys():
            problems.append(f"{place}: the check line of {name!r} is gone")
        for name in after.keys() - before.keys():
            problems.append(f"{place}: the check line of {name!r} is not in the committed outputs; run `make notebooks`")
        for name in before.keys() & after.keys():
            if differs(before[name], after[name]):
                problems.append(f"{place}: changed: was `{before[name][0]}`, is `{after[name][0]}`")
    return problems


def committed_cells(notebook):
    """The code cells as committed, before they are run again."""
    return [
        Cell(i, [nbformat.from_dict(dict(o)) for o in c.outputs], 0.0, 0.0, c.metadata.get("tags", []))
        for i, c in enumerate(notebook.cells)
        if c.cell_type == "code" and c.source.strip()
    ]


def run_problems(cells):
    return [problem for cell in cells for problem in cell_problems(cell)]


# --------------------------------------------------------------------------------------------------------------------


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else 0.0


def process(path, mode, out=None, nudge=None):
    """Runs one notebook in a mode; returns its problems. It saves below `out`, if that is given."""
    notebook = nbformat.read(path, as_version=4)
    committed = committed_cells(notebook)
    out = {"test": TEST_OUTPUT, "nudged": NUDGED}.get(mode, out)
    env = {"LASTLAYER_OUT": str(out)} if out else {}
    if mode == "test":
        env["LASTLAYER_QUICK"] = "1"
    if mode == "nudged":
        env["LASTLAYER_NUDGE"] = str(nudge)
    solutions, unmatched = exercises.solutions(notebook, path.stem) if mode == "test" else ({}, [])
    cells, start = run(notebook, env=env, solutions=solutions)
    problems = run_problems(cells)
    if mode in ("test", "nudged"):
        problems += compare(committed, cells) + unmatched
    if mode == "test":
        problems += [p for cell in cells for p in solution_problems(cell, notebook.cells[cell.index].get("id"))]
    else:
        copies = NUDGED / str(nudge) if mode == "nudged" else EXECUTED
        copies.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, copies / path.name)
    if mode == "nudged":
        problems += prose.problems_in(ROOT, path.stem, notebook)[1]
    if mode == "update" and not problems:
        nbformat.write(notebook, path)
    compile_times = [c.compile_seconds for c in cells]
    told = [
        f"{path.name}{f' (nudge {nudge})' if nudge else ''}: kernel {start:.1f} s, {len(cells)} cells, compile median "
        f"{median(compile_times):.2f} s and largest {max(compile_times, default=0):.1f} s, "
        f"run {sum(c.run_seconds for c in cells):.1f} s: " + ("ok" if not problems else "FAILED")
    ]
    print("\n".join(told + [f"  {path.name}, {problem}" for problem in problems]), flush=True)
    return problems


def side_by_side():
    """How many kernels may run at a time: one for each core, as far as memory allows."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = re.search(r"MemAvailable:\s+(\d+) kB", MEMORY.read_text()) if MEMORY.exists() else None
    free = int(told[1]) / 2**20 if told else GIB_PER_KERNEL
    return max(1, min(cores, 2, int(free // GIB_PER_KERNEL)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=("test", "figures", "update", "nudged"))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    paths = sorted(p for p in NOTEBOOKS.glob("*.ipynb") if not args.names or p.stem in args.names)
    if not paths:
        sys.exit(f"no notebook named {' '.join(args.names)} in notebooks/")
    runs = [(path, nudge) for nudge in (NUDGES if args.mode == "nudged" else (None,)) for path in paths]
    with concurrent.futures.ThreadPoolExecutor(side_by_side()) as pool:
        wrong = list(pool.map(lambda run: process(run[0], args.mode, nudge=run[1]), runs))
    failed = sum(map(bool, wrong))
    print(f"{len(runs) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
