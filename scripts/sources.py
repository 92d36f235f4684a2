"""Where pictures and numbers of the book come from: the cell of a notebook that saves a figure, the line of a check.

Needs only the standard library. Reads the committed notebooks, never the executed copies.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from exercises import checks, code_cells, joined, printed

SAVE = re.compile(r'(?P<what>\w*)\s*\.save\(\s*"(?P<name>[\w-]+)"\s*\)')
# Eight hexadecimal digits are what JupyterLab writes by itself.
CELL_ID = re.compile(r"(?![0-9a-f]{8}$)[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)[^)]*\)")


@dataclass(frozen=True)
class Source:
    """The cell that makes a figure."""

    notebook: str  # without folder and extension
    cell: str  # its id


def notebooks(root: Path) -> dict[str, dict]:
    """name -> content of every committed notebook."""
    files = sorted((root / "notebooks").glob("*.ipynb"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def pictures(cell: dict) -> list[str]:
    """The SVG images that a cell shows."""
    shown = (joined(output.get("data", {}).get("image/svg+xml", "")) for output in cell.get("outputs", []))
    return [svg for svg in shown if svg]


def saved(cell: dict) -> tuple[list[str], list[str]]:
    """(figures, tables) that a cell saves under a bare name. Its outputs tell which is which; as long as it has not run,
    the name of the variable or of the cell does."""
    said, shows_table = printed(cell), any("text/html" in o.get("data", {}) for o in cell.get("outputs", []))
    figures: list[str] = []
    tables: list[str] = []
    for what, name in SAVE.findall(joined(cell["source"])):
        if cell.get("outputs"):
            is_table = f"tables/{name}." in said or (shows_table and not pictures(cell))
        else:
            is_table = what == "table" or cell.get("id") == f"{name}-table"
        (tables if is_table else figures).append(name)
    return figures, tables


def figure_sources(root: Path) -> dict[str, Source]:
    """Figure -> the cell that saves it, in the order of the notebooks."""
    found: dict[str, Source] = {}
    for name, notebook in notebooks(root).items():
        for cell in code_cells(notebook).values():
            for figure in saved(cell)[0]:
                found.setdefault(figure, Source(name, cell.get("id", "")))
    return found


def cell_problems(root: Path) -> list[str]:
    """Cells whose names would mislead: ids that repeat or say nothing, and figures that two cells save."""
    problems: list[str] = []
    ids: dict[str, str] = {}
    figures: dict[str, str] = {}
    for name, notebook in notebooks(root).items():
        for cell in notebook["cells"]:
            place = f"notebooks/{name}.ipynb: cell {cell.get('id')}"
            if not CELL_ID.fullmatch(cell.get("id") or ""):
                problems.append(f"{place} needs a readable id, small letters and digits with hyphens, such as rate-07")
            elif cell["id"] in ids:
                problems.append(f"{place} has the id of another cell, in notebooks/{ids[cell['id']]}.ipynb")
            ids.setdefault(cell.get("id"), name)
            made, tables = saved(cell) if cell["cell_type"] == "code" else ([], [])
            for figure in made:
                if figure in figures:
                    problems.append(f"{place} saves the figure {figure}, which {figures[figure]} saves too")
                figures.setdefault(figure, f"cell {cell.get('id')} of {name}")
            if made and cell.get("id") != made[0]:
                problems.append(f"{place} saves the figure {made[0]}; give it that id, which the book shows")
            elif tables and not made and cell.get("id") not in (tables[0], f"{tables[0]}-table"):
                problems.append(f"{place} saves the table {tables[0]}; give it that id, or {tables[0]}-table")
    return problems


def image_problems(root: Path, figures: Path) -> list[str]:
    """Images that README or book/src keep as files: each is a figure that a named cell makes, as the notebook shows it
    and, where there has been a full run, as that run saved it."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    files = {(root / path).resolve(): "README.md" for path in IMAGE.findall(readme)}
    for file in sorted((root / "book" / "src" / "images").glob("*")):
        files.setdefault(file.resolve(), "book/src/images")
    made, problems = figure_sources(root), []
    shown = {
        name: [svg.strip() for cell in code_cells(notebook).values() for svg in pictures(cell)]
        for name, notebook in notebooks(root).items()
    }
    for file, place in files.items():
        if not file.is_file():
            problems.append(f"{place}: there is no image {file.name}")
        elif file.stem not in made or file.suffix != ".svg":
            problems.append(f"{place}: no cell of a notebook saves a figure {file.stem}, so nothing makes {file.name}")
        elif file.read_text(encoding="utf-8").strip() not in shown[made[file.stem].notebook]:
            notebook = made[file.stem].notebook
            problems.append(f"{place}: {file.name} is not what {notebook} shows; copy figures/{file.name} again")
        elif (ran := figures / file.name).is_file() and ran.read_bytes().strip() != file.read_bytes().strip():
            problems.append(f"{place}: {file.name} differs from the last run; copy figures/{file.name} again")
    return problems


def check_value(root: Path, notebook: str, name: str) -> float | list[float]:
    """What a check line of a committed notebook printed. Raises ValueError with a sentence if it cannot be quoted."""
    file = root / "notebooks" / f"{notebook}.ipynb"
    if not file.is_file():
        raise ValueError(f"there is no notebook notebooks/{notebook}.ipynb to take a check from")
    cells = code_cells(json.loads(file.read_text(encoding="utf-8"))).values()
    lines = {check: line for cell in cells for check, line in checks(printed(cell)).items()}
    if name not in lines:
        raise ValueError(f"notebooks/{notebook}.ipynb prints no check `{name}`; there is: {', '.join(lines) or 'none'}")
    line = lines[name]
    if line["verdict"].startswith("WRONG"):
        raise ValueError(f"the check `{name}` of notebooks/{notebook}.ipynb is WRONG, so its value is not quoted")
    if "…" in line["value"]:
        raise ValueError(f"the check `{name}` of notebooks/{notebook}.ipynb has too many values to quote")
    values = [float(value) for value in line["value"].strip("[]").split(",") if value.strip()]
    return values if line["value"].startswith("[") else values[0]
