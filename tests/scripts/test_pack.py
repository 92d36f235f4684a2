"""The folder for a paper: what is joined in which order, what captions must say, and that LaTeX takes it."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import pack  # noqa: E402
import setup  # noqa: E402

BIB = "@misc{a1,\n  author = {Author, A.},\n  title = {Title},\n  year = 2020\n}\n"
FIGURE = """\\begin{figure}
  \\centering
  \\includegraphics{NAME.pdf}
  \\caption{CAPTION}
  \\label{fig:NAME}
\\end{figure}
"""
TABLE = """\\begin{table}
\\centering
\\caption{CAPTION}
\\label{tab:NAME}
\\begin{tabular}{@{}lr@{}}
  \\toprule
  a & b \\\\
  \\midrule
  CELL & 1 \\\\
  \\bottomrule
\\end{tabular}
\\end{table}
"""


def pdf(width=244, height=151):
    """The smallest page that is a PDF, in points."""
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {width} {height}]/Resources<<>>>>",
    ]
    text, places = "%PDF-1.7\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(text))
        text += f"{number} 0 obj{content}endobj\n"
    rows = "".join(f"{place:010} 00000 n \n" for place in places)
    return f"{text}xref\n0 4\n0000000000 65535 f \n{rows}trailer<</Size 4/Root 1 0 R>>\nstartxref\n{len(text)}\n%%EOF\n"


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def project(tmp_path):
    """A root with two notebooks, and the folder of what they saved."""
    folder = tmp_path / "figures"
    put(tmp_path / "book" / "bibliography.bib", BIB)

    def notebook(name, *code):
        cells = [{"cell_type": "code", "id": f"c-{i}", "metadata": {}, "source": text} for i, text in enumerate(code)]
        put(tmp_path / "notebooks" / f"{name}.ipynb", json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))

    def figure(name, caption="What is shown. Seed 7.", rows="c,1,2,,", width=244):
        put(folder / f"{name}.svg", "<svg/>")
        put(folder / f"{name}.csv", f"series,x,y,low,high\n{rows}\n")
        put(folder / f"{name}.pdf", pdf(width))
        put(folder / f"{name}.tex", FIGURE.replace("NAME", name).replace("CAPTION", caption))

    def table(name, caption="What is measured, five seeds", cell="x"):
        put(folder / "tables" / f"{name}.tex", TABLE.replace("NAME", name).replace("CAPTION", caption).replace("CELL", cell))

    notebook("00_tour", 'figure.save("tour-b")?;\nfigure.save("tour-a")?', 'table.save("tour-b")?; net.save(&file)?')
    notebook("02_rate", 'x.save("rate-1")?')
    for name in ("tour-a", "tour-b", "rate-1"):
        figure(name)
    table("tour-b")
    return tmp_path, folder, notebook, figure, table


def test_everything_is_input_in_the_order_of_the_notebooks(project):
    root, folder, *_ = project
    assert pack.write(folder, root) == []
    text = (folder / "figures.tex").read_text()
    body = [line for line in text.splitlines() if line.startswith(("\\input", "\\section"))]
    assert body == [
        "\\section*{\\texttt{00\\_tour}}", "\\input{tour-b}", "\\input{tour-a}", "\\input{tables/tour-b}",
        "\\section*{\\texttt{02\\_rate}}", "\\input{rate-1}",
    ]  # fmt: skip
    assert "\\ref{fig:tour-b}~\\texttt{tour-b}" in text and "\\ref{tab:tour-b}" in text and "\\bibliography{references}" in text
    assert (folder / "references.bib").read_text() == BIB


def test_a_second_writing_touches_nothing(project):
    root, folder, *_ = project
    pack.write(folder, root)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert pack.write(folder, root) == []
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_without_a_bibliography_there_is_none(project):
    root, folder, *_ = project
    pack.write(folder, root)
    (root / "book" / "bibliography.bib").unlink()
    pack.write(folder, root)
    assert "bibliography" not in (folder / "figures.tex").read_text().split("\\begin{document}")[1]
    assert not (folder / "references.bib").exists()


def test_what_a_notebook_saves_must_be_there(project):
    root, folder, notebook, *_ = project
    notebook("03_lp", 'x.save("lp-1")?')
    (problem,) = pack.write(folder, root)
    assert "03_lp saves lp-1" in problem


def test_captions_must_be_there_and_say_what_intervals_are(project):
    root, folder, _, figure, table = project
    put(folder / "tour-a.tex", "\\begin{figure}\n\\includegraphics{tour-a.pdf}\n\\end{figure}\n")
    figure("tour-b", rows="c,1,2,1.5,2.5")
    figure("rate-1", caption="Bands: 95 \\% intervals over five seeds", rows="c,1,2,1.5,2.5")
    table("tour-b", cell="0.1 $\\pm$ 0.2")
    problems = pack.write(folder, root)
    assert len(problems) == 3, problems
    assert "tour-b" in problems[0] and "intervals" in problems[0]
    assert "figure tour-a" in problems[1] and "no caption" in problems[1]
    assert "table tour-b" in problems[2] and "intervals" in problems[2]
    figure("tour-a", caption="Seed 7.")
    assert "no caption" in pack.write(folder, root)[1]
    table("tour-b", cell="0.1 [$-$0.1, 0.3]")
    assert "table tour-b" in pack.write(folder, root)[2]
    table("tour-b", cell="[1, 2, 3]", caption="Lists are no intervals")
    assert not any("table tour-b" in problem for problem in pack.write(folder, root))


def test_the_log_is_read():
    log = (
        "(./figures.tex (./rate-1.tex\nOverfull \\hbox (4.9pt too wide) in paragraph\n)"
        "(./tables/rate-2.tex\nOverfull \\hbox (31.2pt too wide) in paragraph\n"
        "LaTeX Warning: Reference `fig:x' on page 1 undefined on input line 3.\n)"
    )
    assert pack.log_problems(log) == [
        "tables/rate-2.tex: sticks out by 31.2 pt",
        "tables/rate-2.tex: LaTeX Warning: Reference `fig:x' on page 1 undefined on input line 3.",
    ]


needs_latex = pytest.mark.skipif(
    not setup.has_latex(),
    reason="NO LATEX HERE: figures.tex was not compiled; install texlive-latex-base and texlive-latex-recommended",
)


@needs_latex
def test_the_pack_compiles_as_it_is(project, tmp_path):
    root, folder, *_ = project
    pack.write(folder, root)
    before = sorted(folder.rglob("*"))
    assert pack.compile_problems(folder, tmp_path / "out.pdf") == []
    assert (tmp_path / "out.pdf").read_bytes().startswith(b"%PDF")
    assert sorted(folder.rglob("*")) == before, "nothing is left in the folder"


@needs_latex
def test_what_is_too_wide_missing_or_undefined_is_found(project):
    root, folder, _, figure, table = project
    figure("rate-1", width=400)
    table("tour-b", cell="wide " * 30)
    pack.write(folder, root)
    problems = pack.compile_problems(folder)
    assert any(p.startswith("rate-1.tex: sticks out") for p in problems), problems
    assert any(p.startswith("tables/tour-b.tex: sticks out") for p in problems), problems
    (folder / "rate-1.pdf").unlink()
    assert any("rate-1.pdf" in problem for problem in pack.compile_problems(folder))
    figure("rate-1", caption="See \\ref{fig:nowhere}")
    assert any("fig:nowhere" in problem for problem in pack.compile_problems(folder))
