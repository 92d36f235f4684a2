"""Builds the teacher's notebooks: every exercise followed by why it is so and the cell with the right answer.

`solutions.py [NAME…]` runs notebooks with the solutions of notebooks/solutions in the real kernel, at full length, and
writes target/solutions/<notebook>.ipynb. Fails if an exercise has no solution, if a solution belongs to no exercise, or
if a solved check line is neither exact nor close. A notebook that is there already, made of the same files, stays.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parent))
import exercises
import notebook
from exercises import NOTEBOOKS, ROOT, Solution
from figures import contents, digest, inputs, library

OUTPUT = ROOT / "target" / "solutions"
DATA = ROOT / "target" / "data"  # notebooks read ../data, wherever they are


def made_of(path: Path) -> str:
    """Changes with all that a teacher's notebook is made of; outputs of the given notebook are not in it."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    written = json.dumps([[cell.get("id"), cell["source"], cell["metadata"]] for cell in cells])
    solved = contents([exercises.SOLUTIONS / f"{path.stem}.rs"])
    return digest([inputs(path, library(ROOT), ROOT).encode(), written.encode(), *solved])


def is_made_of(path: Path, digest: str) -> bool:
    """Whether a teacher's notebook is there and was made of what the digest says."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))["metadata"]["lastlayer"]["made_of"] == digest
    except (OSError, ValueError, KeyError, TypeError):
        return False


def with_solutions(book, solutions: dict[str, Solution], outputs: dict[str, list]):
    """The notebook with explanation and solved cell after each exercise that has a solution."""
    cells, count = [], 0
    for cell in book.cells:
        cells.append(cell)
        if solution := solutions.get(cell.get("id")):
            text = nbformat.v4.new_markdown_cell("**Solution.** " + solution.text, id=f"{cell.id}-why")
            solved = nbformat.v4.new_code_cell(solution.code, id=f"{cell.id}-solved", metadata={"tags": ["solution"]})
            solved.outputs = outputs.get(cell.id, [])
            cells += [text, solved]
    for cell in cells:
        if cell.cell_type == "code" and cell.source.strip():
            count += 1
            cell.execution_count = count
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count = count
    book.cells = cells
    return book


def process(path: Path, output: Path = OUTPUT) -> list[str]:
    """Makes the teacher's notebook of one notebook; returns what is wrong with it."""
    digest = made_of(path)
    if is_made_of(output / path.name, digest):
        print(f"{path.name}: nothing has changed", flush=True)
        return []
    book = nbformat.read(path, as_version=4)
    solutions, problems = exercises.solutions(book, path.stem)
    if not problems:
        # What the cells save goes beside the notebooks; figures/ is left alone.
        cells, _ = notebook.run(book, env={"LASTLAYER_OUT": str(output)}, solutions=solutions)
        names = [book.cells[cell.index].get("id") for cell in cells]
        problems = notebook.run_problems(cells)
        problems += [p for cell, name in zip(cells, names) for p in notebook.solution_problems(cell, name)]
        outputs = {name: cell.solved.outputs for cell, name in zip(cells, names) if cell.solved}
        book = with_solutions(book, solutions, outputs)
        if not problems:
            book.metadata["lastlayer"] = {"made_of": digest}
        output.mkdir(parents=True, exist_ok=True)
        nbformat.write(book, output / path.name)
    print(f"{path.name}: {len(solutions)} solutions: " + ("FAILED" if problems else "ok"), flush=True)
    for problem in problems:
        print(f"  {path.name}, {problem}", flush=True)
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    paths = sorted(p for p in NOTEBOOKS.glob("*.ipynb") if not args.names or p.stem in args.names)
    if not paths:
        sys.exit(f"lastlayer: no notebook named {' '.join(args.names)} in notebooks/")
    print(f"lastlayer: running {len(paths)} notebooks with their solutions, each at most 3 minutes", flush=True)
    failed = [path.name for path in paths if process(path)]
    if not DATA.exists():
        DATA.symlink_to(ROOT / "data")
    for file in exercises.SOLUTIONS.glob("*.rs"):
        if not (NOTEBOOKS / f"{file.stem}.ipynb").exists():
            failed.append(file.name)
            print(f"  notebooks/solutions/{file.name} belongs to no notebook", flush=True)
    if failed:
        sys.exit(f"lastlayer: failed: {', '.join(failed)}")
    print(f"lastlayer: the teacher's notebooks are in {OUTPUT.relative_to(ROOT)}/")


if __name__ == "__main__":
    main()
