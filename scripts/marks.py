"""Collects the check lines of notebooks that were handed in: who solved which exercise.

`marks.py FILES…`        believes the saved outputs; a folder stands for all notebooks in it
`marks.py --run FILES…`  runs the notebooks anew in the kernel, with short settings, and reads what they print then
`marks.py --out FILE …`  where the JSON goes, target/marks.json if not said

A file is recognised by the ids of its cells, whatever its name. An exercise is compared with the committed one: whoever
edits more than the answer gets `changed`, see `exercises.edited`. Verdicts of an exercise are

    exact, close, WRONG   what its check line says
    not run               it has no output
    failed                it ran and printed no check line
    changed, deleted      it is not the exercise that was given

Standard library only, except for `--run`, which executes what others wrote: do it on a machine that you can spare.
"""

from __future__ import annotations

import argparse
import json
import queue
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from exercises import CHECK, NOTEBOOKS, ROOT, answer, checks, code_cells, edited, is_exercise, joined, printed, tokens

OUTPUT = ROOT / "target" / "marks.json"
SOLVED = ("exact", "close")
NAMED = re.compile(r'\bcheck\(\s*"([^"]+)"')


class Unreadable(Exception):
    """Why a file cannot be marked, as a sentence."""


def read(path: Path) -> dict:
    """A notebook as JSON, if it is one."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Unreadable(f"it cannot be opened: {error.strerror}") from None
    except ValueError:
        raise Unreadable("it is not a notebook: it is not JSON, perhaps it was cut off; ask for it again") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(c, dict) and "cell_type" in c and "source" in c for c in cells):
        raise Unreadable("it is not a notebook of format 4: it has no list of cells")
    return notebook


def committed(folder: Path = NOTEBOOKS) -> dict[str, dict]:
    """The notebooks as they are given out, by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.ipynb"))}


def original(notebook: dict, given: dict[str, dict]) -> str:
    """Which of the notebooks this one was: the one with which it shares most ids of cells."""
    ids = {cell.get("id") for cell in notebook["cells"]}
    shared = {name: len(ids & {cell["id"] for cell in one["cells"]}) for name, one in given.items()}
    best = max(shared, key=shared.get, default=None)
    if not best or not shared[best]:
        raise Unreadable("it is none of our notebooks: no cell has an id that we know")
    return best


def entry(id: str, name: str, verdict: str, line=None, **more) -> dict:
    """One check in the report; without a line it has no value."""
    values = {"value": line["value"], "tolerance": line["tolerance"]} if line else {"value": None, "tolerance": None}
    return {"cell": id, "name": name, **values, "verdict": verdict, **more}


def verdict_of(cell: dict | None, name: str, why: str | None = None) -> tuple[str, object]:
    """What became of one check of a cell, and its line if there is one."""
    if cell is None:
        return "deleted", None
    lines = [m for m in map(CHECK.match, printed(cell).splitlines()) if m and m["name"] == name]
    line = min(lines, key=lambda m: m["verdict"].startswith(SOLVED), default=None)  # one that is wrong, if any is
    if why:
        return "changed", line
    if line:
        return line["verdict"].split(",")[0], line
    return ("failed" if cell.get("outputs") or cell.get("execution_count") else "not run"), None


def judge(notebook: dict, given: dict) -> dict:
    """Exercises, other checks and edited cells of a notebook, compared with the one that was given out."""
    theirs = code_cells(notebook)
    found, others, changed = [], [], []
    for id, cell in code_cells(given).items():
        source, mine = joined(cell["source"]), theirs.get(id)
        handed_in = joined(mine["source"]) if mine else ""
        why = None
        if is_exercise(cell):
            why = edited(source, handed_in) if mine else None
        elif [t[0] for t in tokens(source)] != [t[0] for t in tokens(handed_in)]:
            changed.append(id)
        for name in checks(printed(cell)) or NAMED.findall(source):  # a notebook may be given out without outputs
            verdict, line = verdict_of(mine, name, why)
            if is_exercise(cell):
                found.append(entry(id, name, verdict, line, answer=answer(handed_in), why=why))
            else:
                others.append(entry(id, name, verdict, line))
    ran = any(cell.get("outputs") or cell.get("execution_count") for cell in theirs.values())
    return {
        "ran": ran,
        "solved": sum(one["verdict"] in SOLVED for one in found),
        "of": len(found),
        "exercises": found,
        "others": others,
        "edited": changed,
    }


def run(path: Path) -> dict:
    """A notebook, executed anew."""
    import nbformat
    import notebook

    try:
        book = nbformat.read(path, as_version=4)
        notebook.run(book, env={"LASTLAYER_QUICK": "1", "LASTLAYER_OUT": str(ROOT / "target" / "marks")})
    except queue.Empty:
        minutes = f"{notebook.CELL_TIMEOUT / 60:.0f}"
        raise Unreadable(f"a cell ran longer than {minutes} minutes; it was stopped there") from None
    except (RuntimeError, ValueError, AttributeError, nbformat.ValidationError) as error:
        raise Unreadable(f"it could not be run: {str(error).splitlines()[0]}") from None
    return book


def mark(path: Path, given: dict[str, dict], anew: bool = False) -> dict:
    """The report on one file; one that cannot be marked says why."""
    try:
        notebook = read(path)
        name = original(notebook, given)
        return {"file": str(path), "notebook": name, **judge(run(path) if anew else notebook, given[name])}
    except Unreadable as error:
        return {"file": str(path), "problem": str(error)}
    except (AttributeError, KeyError, TypeError):
        return {"file": str(path), "problem": "its cells are not written as a notebook has them; ask for it again"}


# --------------------------------------------------------------------------------------------------------------------


def found_files(names: list[str]) -> list[Path]:
    """The files that were named; a folder stands for all notebooks in it."""
    files = []
    for path in map(Path, names):
        inside = (p for p in sorted(path.rglob("*.ipynb")) if ".ipynb_checkpoints" not in p.parts)
        files += inside if path.is_dir() else [path]
    return files


def row(report: dict) -> list[str]:
    """One line of the table."""
    if "problem" in report:
        return [report["file"], "-", "-", report["problem"]]
    remarks = [f"{one['name']} {one['verdict']}" for one in report["exercises"] if one["verdict"] not in SOLVED]
    passed = sum(one["verdict"] in SOLVED for one in report["others"])
    if not report["ran"]:
        remarks = ["never run"]
    elif passed < len(report["others"]):
        remarks.append(f"other checks {passed} of {len(report['others'])}")
    if report["edited"]:
        remarks.append(f"other cells edited: {len(report['edited'])}")
    return [report["file"], report["notebook"], f"{report['solved']} of {report['of']}", ", ".join(remarks)]


def table(rows: list[list[str]]) -> str:
    """Columns of equal width, but for the last."""
    widths = [max(len(one[i]) for one in rows) for i in range(len(rows[0]) - 1)]
    return "\n".join("  ".join([*(c.ljust(w) for c, w in zip(one, widths)), one[-1]]).rstrip() for one in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--run", action="store_true", help="run the notebooks anew")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="where the JSON goes")
    args = parser.parse_args()
    files = found_files(args.files)
    if not files:
        sys.exit('lastlayer: name the notebooks that were handed in, e.g. `make marks FILES="handed-in/*.ipynb"`')
    given = committed()
    reports = []
    for file in files:
        if args.run:
            print(f"lastlayer: running {file}", flush=True)
        reports.append(mark(file, given, args.run))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"run": args.run, "files": reports}, indent=1, ensure_ascii=False)
    args.out.write_text(text + "\n", encoding="utf-8")
    print(table([["file", "notebook", "solved", "remarks"], *map(row, reports)]))
    unread = sum("problem" in report for report in reports)
    print(f"lastlayer: {len(reports) - unread} of {len(reports)} files marked; all of it is in {args.out}", flush=True)
    sys.exit(bool(unread))


if __name__ == "__main__":
    main()
