"""The folder that a paper can include: beside the figures and tables, `figures.tex` with all of them, and the references.

`pack.py FOLDER` writes the pack into a folder of saved figures and compiles it, where there is a LaTeX.

Every figure and table has a .tex file of its own from `save`, with caption and label. This file only joins them, in the
order in which the notebooks save them, so that an author sees all of them at once and copies the line to input one.
"""

from __future__ import annotations

import csv
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import setup
import sources
from exercises import code_cells

ROOT = Path(__file__).resolve().parent.parent
MAIN = "figures.tex"
REFERENCES = "references.bib"
OVERFULL = 5.0  # points that a line may stick out; a figure or a table that is too wide sticks out by more

HEAD = r"""% Every figure and table of the notebooks. Written by `make figures`; changes here are lost at the next run.
%
% As it is:       pdflatex figures, bibtex figures, pdflatex figures, pdflatex figures (in this folder)
% In your paper:  copy this folder beside it, and put into the preamble
%                   \usepackage{graphicx,booktabs}
%                   \graphicspath{{figures/}}
%                 then \input{figures/NAME} is a figure, \input{figures/tables/NAME} a table, each with its caption;
%                 refer to them by \ref{fig:NAME} and \ref{tab:NAME}, and cite from \bibliography{figures/references}.
% Figures keep their true size, with text of 8 pt: 3.39 in for a column, 6.90 in (figure*) for both columns of a page.
\pdfminorversion=7
\documentclass[10pt]{article}
\usepackage[letterpaper,textwidth=7.16in,textheight=9.5in]{geometry}
\usepackage{graphicx,booktabs}
\setlength{\belowcaptionskip}{5pt}
% Here nothing floats: what is as wide as a column of a paper stands side by side, in the order of the notebooks.
\makeatletter
\newenvironment{piece}[2]{\begin{minipage}[t]{#2}\vspace{0pt}\centering\def\@captype{#1}}{\end{minipage}\hspace{0.1in}}
\renewenvironment{figure}[1][]{\begin{piece}{figure}{3.48in}}{\end{piece}}
\renewenvironment{figure*}[1][]{\begin{piece}{figure}{\textwidth}}{\end{piece}}
\renewenvironment{table}[1][]{\begin{piece}{table}{3.48in}}{\end{piece}}
\renewenvironment{table*}[1][]{\begin{piece}{table}{\textwidth}}{\end{piece}}
\makeatother
\raggedbottom
\begin{document}
\raggedright
\setlength{\parindent}{0pt}
\setlength{\lineskip}{18pt}
\setlength{\lineskiplimit}{2pt}
"""


@dataclass
class Section:
    """What one notebook saves, in its order."""

    notebook: str
    figures: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)


def sections(root: Path, folder: Path) -> tuple[list[Section], list[str]]:
    """(the notebooks with what they saved into the folder, names of which nothing is there)."""
    found, missing = [], []
    for name, content in sources.notebooks(root).items():
        section = Section(name)
        for cell in code_cells(content).values():
            for saved in itertools.chain(*sources.saved(cell)):
                kinds = [
                    names
                    for names, file in ((section.figures, f"{saved}.svg"), (section.tables, f"tables/{saved}.tex"))
                    if (folder / file).is_file()
                ]
                if not kinds:
                    missing.append(f"{name} saves {saved}, which is not in {folder}")
                for names in kinds:
                    if saved not in names:
                        names.append(saved)
        if section.figures or section.tables:
            found.append(section)
    return found, missing


def document(found: list[Section], references: bool) -> str:
    """The LaTeX document that holds everything."""
    text = HEAD
    for section in found:
        text += f"\\section*{{\\texttt{{{plain(section.notebook)}}}}}\n"
        for word, kind, names in (("Figure", "fig", section.figures), ("Table", "tab", section.tables)):
            if names:
                listed = ", ".join(f"\\ref{{{kind}:{name}}}~\\texttt{{{plain(name)}}}" for name in names)
                text += f"{word}{'s' if len(names) > 1 else ''} {listed}.\\par\\nopagebreak\n"
        text += "\\medskip\n"
        text += "".join(f"\\input{{{name}}}\n" for name in section.figures)
        text += "".join(f"\\input{{tables/{name}}}\n" for name in section.tables)
        text += "\\par\n"
    if references:
        text += f"\\nocite{{*}}\n\\bibliographystyle{{plain}}\n\\bibliography{{{Path(REFERENCES).stem}}}\n"
    return text + "\\end{document}\n"


def plain(name: str) -> str:
    """A name of letters, digits, hyphens and underscores, for LaTeX; it may break after a hyphen."""
    return name.replace("_", "\\_")


def caption_problems(found: list[Section], folder: Path) -> list[str]:
    """Figures and tables whose captions leave the reader without what is shown, or what an interval is."""
    problems = []
    for section in found:
        for name, kind, file in [
            *((name, "figure", folder / f"{name}.tex") for name in section.figures),
            *((name, "table", folder / "tables" / f"{name}.tex") for name in section.tables),
        ]:
            place = f"the {kind} {name} of {section.notebook}"
            if not file.is_file():
                problems.append(f"{place} has no {file.name}; save it with this version of the library")
                continue
            text = file.read_text(encoding="utf-8")
            caption = re.search(r"\\caption\{(.*)\}", text)
            if not caption or len(caption[1].split()) < 3:  # a seed alone says nothing
                problems.append(f"{place} has no caption; give it one in the notebook")
            elif has_intervals(file, text) and not re.search(r"interval|standard|shaded", caption[1] + panel_captions(file)):
                problems.append(f"{place} shows intervals, and its caption does not say what they are: {caption[1]}")
    return problems


def panel_captions(file: Path) -> str:
    """What stands over the panels of a figure."""
    record = file.with_suffix(".json")
    return " ".join(re.findall(r'"caption": "(.*)"', record.read_text(encoding="utf-8"))) if record.is_file() else ""


def has_intervals(file: Path, text: str) -> bool:
    """Whether a table prints intervals, or the numbers behind a figure have a band."""
    if file.parent.name == "tables":
        return bool(re.search(r"\\pm|\d \[(\$-\$)?\d", text.split("\\midrule", 1)[-1]))
    with open(file.with_suffix(".csv"), newline="", encoding="utf-8") as lines:
        return any(row.get("low") for row in csv.DictReader(lines))


def write_if_changed(path: Path, text: str) -> None:
    """Leaves a file alone that is right already; else replaces it whole."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def write(folder: Path, root: Path = ROOT) -> list[str]:
    """Writes the pack beside the saved figures; returns what is wrong with them."""
    found, problems = sections(root, folder)
    bibliography = root / "book" / "bibliography.bib"
    if bibliography.is_file():
        write_if_changed(folder / REFERENCES, bibliography.read_text(encoding="utf-8"))
    else:
        (folder / REFERENCES).unlink(missing_ok=True)
    write_if_changed(folder / MAIN, document(found, bibliography.is_file()))
    return problems + caption_problems(found, folder)


# --------------------------------------------------------------------------------------------------------------------
# Does it compile?

# The file that LaTeX reads when it complains is the last that it opened and has not closed; the names are enough here.
LOG = re.compile(
    r"\((?:\./)?(?P<file>[\w./-]+\.tex)"
    r"|Overfull \\[hv]box \((?P<overfull>[\d.]+)pt too (?:wide|high)\)"
    r"|(?P<said>^! .*"
    r"|LaTeX Warning: (?:Reference|Citation|Label|Float too large|There were undefined|There were multiply)[^\n]*"
    r"|Missing character: [^\n]*|File `[^\n]* not found[^\n]*)",
    re.M,
)


def log_problems(log: str) -> list[str]:
    """What the log of the last run of LaTeX complains about, with the file it read last."""
    problems, file = [], MAIN
    for seen in LOG.finditer(log):
        if seen["file"]:
            file = seen["file"]
        elif seen["said"]:
            problems.append(f"{file}: {seen['said'].strip()}")
        elif float(seen["overfull"]) > OVERFULL:
            problems.append(f"{file}: sticks out by {seen['overfull']} pt")
    return problems


def compile_problems(folder: Path, keep: Path | None = None) -> list[str]:
    """Compiles the pack away from its folder; `keep` is where the PDF goes."""
    with tempfile.TemporaryDirectory() as scratch:
        env = dict(os.environ, max_print_line="10000", BIBINPUTS=f"{folder}:", openout_any="a")
        latex = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"-output-directory={scratch}", MAIN]
        log = Path(scratch) / Path(MAIN).with_suffix(".log")
        for step in range(3):
            done = subprocess.run(latex, cwd=folder, env=env, capture_output=True)
            text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else done.stdout.decode(errors="replace")
            if done.returncode:
                return log_problems(text) or [text[-2000:]]
            if step == 0 and (folder / REFERENCES).is_file():
                bibtex = subprocess.run(["bibtex", Path(MAIN).stem], cwd=scratch, env=env, capture_output=True, text=True)
                if bibtex.returncode:
                    return [f"{REFERENCES}: {line}" for line in bibtex.stdout.splitlines()]
        if keep:
            shutil.copyfile(log.with_suffix(".pdf"), keep)
        return log_problems(text)


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    problems = write(folder)
    if setup.has_latex():
        problems += compile_problems(folder, folder.parent / "figures.pdf")
    else:
        print(f"lastlayer: SKIPPED: {MAIN} WAS NOT COMPILED, there is no LaTeX; install {' and '.join(setup.LATEX)}")
    for problem in problems:
        print(f"lastlayer: {problem}")
    found, _ = sections(ROOT, folder)
    print(f"pack: {sum(len(s.figures) for s in found)} figures and {sum(len(s.tables) for s in found)} tables in {MAIN}")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
