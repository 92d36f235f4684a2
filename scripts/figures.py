"""Runs the notebooks at full length and makes a folder that a paper can include; `figures.py NAME` exports one figure.

Figures are where notebooks save them: figures/*.svg with .csv, .json and .tex, and .pdf and .png beside them; tables in
figures/tables; pack.py adds what joins them. Nothing is done twice: a notebook runs only if its code, the library or a
record that it reads has changed, or if something that it wrote is gone or was changed. What it wrote before and does not
write any more is removed; other files in figures/ are left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parent))
import kernel
import notebook
import pack
from exercises import code_cells, joined
from kernel import ROOT

FIGURES = ROOT / "figures"
STAMPS = ROOT / "target" / "figures"  # for each notebook, what its figures were made from, and which they are
EXPORTS = (".pdf", ".png")  # made from the SVG of a figure, not always with the same bytes
RECORD = re.compile(r"records/([\w-]+\.json)")


# --------------------------------------------------------------------------------------------------------------------
# What a notebook's figures are made from


def digest(parts: Iterable[bytes]) -> str:
    """One name for all parts, in their order."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.hexdigest()


def contents(paths: Iterable[Path], root: Path = ROOT) -> Iterator[bytes]:
    """Names and contents of files, wherever the project lies; one that is not there counts too."""
    for path in paths:
        yield os.path.relpath(path, root).encode()
        yield path.read_bytes() if path.is_file() else b""


def library(root: Path) -> str:
    """Changes with everything that all notebooks share: the crate, its tables, the kernel and the exporter."""
    others = (root / name for name in ("rust-toolchain.toml", "scripts/kernel.py", "scripts/notebook.py"))
    folders = (root / name for name in ("data/tables", "tools/export"))
    inside = (path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file())
    features = " ".join(kernel.features()).encode()
    return digest([features, *contents([*kernel.sources(root), *others, *inside], root)])


def inputs(path: Path, library: str, root: Path) -> str:
    """Changes with what the figures of one notebook are made from: its code, the records it reads, and the library."""
    cells = code_cells(json.loads(path.read_text(encoding="utf-8")))
    code = [joined(cell["source"]) for cell in cells.values()]
    records = sorted({name for text in code for name in RECORD.findall(text)})
    files = contents((root / "data" / "records" / name for name in records), root)
    return digest([library.encode(), *(text.encode() for text in code), *files])


# --------------------------------------------------------------------------------------------------------------------
# What a notebook wrote


def fingerprint(path: Path) -> str:
    """Changes with what a file says. How long a run took, and at which revision, is no part of it: a notebook that
    `make notebooks` has run meanwhile has the same figures."""
    content = path.read_bytes()
    if path.suffix == ".json":
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            record = json.loads(content)
            record.pop("seconds", None)
            record.get("provenance", {}).pop("revision", None)
            content = json.dumps(record, sort_keys=True).encode()
    return digest([content])


def files_in(folder: Path) -> dict[str, str]:
    """Name below the folder -> fingerprint of every file there."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): fingerprint(path) for path in found}


class Stamps:
    """Which files of the folder of figures belong to which notebook, and what they were made from."""

    def __init__(self, folder: Path, figures: Path):
        self.folder, self.figures = folder, figures
        folder.mkdir(parents=True, exist_ok=True)
        self.known = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}

    def write(self, name: str, inputs: str, files: dict[str, str]) -> None:
        self.known[name] = {"inputs": inputs, "files": files}
        pack.write_if_changed(self.folder / f"{name}.json", json.dumps(self.known[name], indent=1) + "\n")

    def changed(self, name: str) -> list[Path]:
        """What a notebook wrote and is gone, or not as it was."""
        files = ((self.figures / file, was) for file, was in self.known[name]["files"].items())
        return [path for path, was in files if not path.is_file() or fingerprint(path) != was]

    def fresh(self, name: str, inputs: str) -> bool:
        """Whether a notebook has run with these inputs, and all that it wrote is still there as it was, but for what can
        be exported again."""
        stamp = self.known.get(name)
        return bool(stamp) and stamp["inputs"] == inputs and all(path.suffix in EXPORTS for path in self.changed(name))

    def export_again(self, name: str) -> None:
        """Makes PDF and PNG anew where they are gone or not as they were."""
        changed = self.changed(name)
        export(sorted({path.with_suffix(".svg") for path in changed}))
        again = {str(path.relative_to(self.figures)): fingerprint(path) for path in changed}
        self.write(name, self.known[name]["inputs"], {**self.known[name]["files"], **again})

    def publish(self, name: str, inputs: str, staged: Path) -> list[str]:
        """Moves what a notebook wrote to its place and removes what it wrote before and does not write any more.
        Returns the problem if another notebook saves under the same name."""
        new = files_in(staged)
        for other, stamp in self.known.items():
            both = sorted(new.keys() & stamp["files"].keys()) if other != name else []
            if both:
                return [f"{name} and {other} both save {both[0]}; give one of them another name"]
        old = self.known.get(name, {"files": {}})["files"]
        # Interrupted from here on, the notebook runs again, and still owns old and new files.
        self.write(name, "", {**old, **new})
        for file in new:
            (self.figures / file).parent.mkdir(parents=True, exist_ok=True)
            os.replace(staged / file, self.figures / file)
        self.remove(old.keys() - new.keys())
        self.write(name, inputs, new)
        return []

    def remove(self, files: Iterable[str]) -> None:
        for file in files:
            (self.figures / file).unlink(missing_ok=True)

    def forget(self, notebooks: set[str]) -> list[str]:
        """Removes the figures of notebooks that are no more; returns their names."""
        gone = sorted(self.known.keys() - notebooks)
        for name in gone:
            self.remove(self.known.pop(name)["files"])
            (self.folder / f"{name}.json").unlink()
        return gone


# --------------------------------------------------------------------------------------------------------------------


def export(files: list[Path]) -> None:
    """PDF and PNG beside each SVG."""
    if files and subprocess.run([os.environ["LASTLAYER_EXPORT"], *map(str, files)]).returncode:
        sys.exit("lastlayer: a figure could not be exported; the exporter's message stands above")


def unexported(folder: Path) -> list[Path]:
    """Figures whose PDF or PNG is missing or older than they are."""

    def behind(svg: Path) -> bool:
        made = [svg.with_suffix(ending) for ending in EXPORTS]
        return any(not file.is_file() or file.stat().st_mtime < svg.stat().st_mtime for file in made)

    return [svg for svg in sorted(folder.glob("*.svg")) if behind(svg)]


def refresh_prose(path: Path, executed: Path) -> None:
    """Gives the executed copy the prose of the notebook: words may have changed where the code has not."""
    new, old = nbformat.read(path, as_version=4), nbformat.read(executed, as_version=4)
    ran, runs = ([cell for cell in book.cells if cell.cell_type == "code" and cell.source.strip()] for book in (old, new))
    for cell, before in zip(runs, ran, strict=True):
        cell.outputs, cell.execution_count = before.outputs, before.execution_count
    if new != old:
        nbformat.write(new, executed)


def run_changed(paths: list[Path]) -> list[str]:
    """Runs the notebooks whose figures are not those that they would make now; returns all problems."""
    stamps = Stamps(STAMPS, FIGURES)
    for name in stamps.forget({path.stem for path in paths}):
        print(f"{name}: no longer there, its figures are removed", flush=True)
    common = library(ROOT)
    wanted = {path: inputs(path, common, ROOT) for path in paths}
    executed = {path: notebook.EXECUTED / path.name for path in paths}
    to_run = [path for path in paths if not stamps.fresh(path.stem, wanted[path]) or not executed[path].is_file()]
    print(f"lastlayer: {len(to_run)} of {len(paths)} notebooks to run, each at most 2.5 minutes", flush=True)
    problems = []
    for path in paths:
        if path not in to_run:
            stamps.export_again(path.stem)
            refresh_prose(path, executed[path])
            print(f"{path.stem}: unchanged", flush=True)
            continue
        staged = STAMPS / path.stem
        shutil.rmtree(staged, ignore_errors=True)
        if notebook.process(path, "figures", staged):
            problems.append(f"{path.name} failed, what is wrong stands above; its figures are those of an earlier run")
        else:
            export(unexported(staged / "figures"))
            problems += stamps.publish(path.stem, wanted[path], staged / "figures")
        shutil.rmtree(staged, ignore_errors=True)
    return problems


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Two runs at once would move each other's files: the second waits."""
    STAMPS.mkdir(parents=True, exist_ok=True)
    with open(STAMPS / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    if len(sys.argv) > 1:
        files = [FIGURES / f"{name}.svg" for name in sys.argv[1:]]
        missing = [file.stem for file in files if not file.exists()]
        if missing:
            sys.exit(f"lastlayer: no figure named {', '.join(missing)} in figures/; run `make figures` first")
        export(files)
        print(f"lastlayer: exported {', '.join(file.stem for file in files)} as pdf and png in figures/")
        return
    with alone():
        FIGURES.mkdir(exist_ok=True)
        export(unexported(FIGURES))  # such as were saved where there was no exporter yet
        problems = run_changed(sorted(notebook.NOTEBOOKS.glob("*.ipynb")))
        problems += pack.write(FIGURES)
    if problems:
        sys.exit("\n".join(f"lastlayer: {problem}" for problem in problems))
    figures, tables = (len(list(FIGURES.glob(pattern))) for pattern in ("*.svg", "tables/*.tex"))
    print(f"lastlayer: figures/ is ready for a paper: {figures} figures, {tables} tables; {pack.MAIN} has them all")


if __name__ == "__main__":
    main()
