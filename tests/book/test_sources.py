"""Where figures and numbers of the book come from: cells with names, checks, and the gallery of it all."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import book
import gallery
import manuscript
import sources


def svg(width, sentence):
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="9" aria-label="{sentence}"/>'


def cell(id, source, *outputs):
    return {"cell_type": "code", "id": id, "metadata": {}, "execution_count": 1, "source": source, "outputs": list(outputs)}


def said(text):
    return {"output_type": "stream", "name": "stdout", "text": text}


def shown(**data):
    kinds = {"svg": "image/svg+xml", "html": "text/html", "plain": "text/plain"}
    return {"output_type": "execute_result", "metadata": {}, "execution_count": 1, "data": {kinds[k]: v for k, v in data.items()}}


CURVE = svg("325.44", "Curves of y over x.")
CELLS = [
    {"cell_type": "markdown", "id": "draws-00", "metadata": {}, "source": "# How to draw"},
    cell("curve", 'c.save("curve")?;\nc', shown(svg=CURVE, plain="Curves of y over x.")),
    cell("sheet", 'sheet.save("sheet")?', shown(plain="saved figures/sheet.svg, figures/sheet.csv")),
    cell("curve-table", 'table.save("curve")?', shown(plain="saved tables/curve.md, tables/curve.tex")),
    cell("ablation", 'table.save("ablation")?;\ntable', shown(html="<table/>", plain="| a |")),
    cell("draws-05", 'net.save(&path)?;\nnet.save("net.safetensors")?;'),
    cell(
        "draws-06",
        "check(…)",
        said(
            "check half = 0.501 (tolerance 1e-2): close, largest difference 1e-3\n"
            "check list = [1, -2.25] (tolerance 1e-6): exact\n"
            "check guess = 0 (tolerance 1e-6): WRONG, largest difference 1e0\n"
            "check long = [1, 2, … 9 in all] (tolerance 1e-6): exact\n"
        ),
    ),
]


@pytest.fixture
def layout(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "curve.svg").write_text(CURVE)
    (tmp_path / "figures" / "sheet.svg").write_text(svg("720.00", "Contact sheet: $5 &amp; more."))
    write(tmp_path, CELLS)
    return manuscript.Layout.of(tmp_path, {"HOME": str(tmp_path)})


def write(root, cells, name="00_draws"):
    (root / "notebooks" / f"{name}.ipynb").write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))


def expanded(layout, *texts):
    chapters = [manuscript.Chapter(f"part/{i}.md", f"Chapter {i}", str(i), text, f"book/src/part/{i}.md") for i, text in enumerate(texts, 1)]
    return manuscript.expand(chapters, layout, {"00_draws": "How to draw"})


def expand(layout, text):
    return expanded(layout, text).texts["part/1.md"]


def problems(layout, *texts):
    with pytest.raises(manuscript.BookError) as caught:
        expanded(layout, *texts)
    return "\n".join(caught.value.problems)


# ---- cells that make figures


def test_a_figure_is_known_by_the_cell_that_saves_it_and_a_table_is_none(layout):
    assert sources.figure_sources(layout.root) == {
        "curve": sources.Source("00_draws", "curve"),
        "sheet": sources.Source("00_draws", "sheet"),
    }
    assert sources.cell_problems(layout.root) == []


def test_a_cell_that_has_not_run_yet_tells_by_its_variable_what_it_saves(layout):
    write(layout.root, [cell("new-one", 'new.save("new-one")?;'), cell("sums", 'table.save("sums")?;')])
    assert list(sources.figure_sources(layout.root)) == ["new-one"]


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        ([cell("draws-07", 'c.save("round")?')], "cell draws-07 saves the figure round; give it that id"),
        ([cell("curve-2", 'c.save("curve")?')], "saves the figure curve, which cell curve of 00_draws saves too"),
        ([cell("fb8639d7", "x")], "cell fb8639d7 needs a readable id"),
        ([cell("draws-05", "x")], "has the id of another cell"),
        ([cell("draws-08", 't.save("sums")?', shown(plain="saved tables/sums.md"))], "saves the table sums; give it that id, or sums-table"),
    ],
)
def test_a_cell_with_a_misleading_name_is_found(layout, cells, sentence):
    write(layout.root, CELLS + cells)
    assert any(sentence in problem for problem in sources.cell_problems(layout.root))


def test_names_are_unique_in_all_notebooks(layout):
    write(layout.root, [cell("draws-05", "x")], "01_more")
    assert any("in notebooks/00_draws.ipynb" in problem for problem in sources.cell_problems(layout.root))


def test_the_caption_of_a_figure_ends_with_the_cell_that_made_it(layout):
    text = expand(layout, '{{#figure curve "A curve."}}')
    assert "**Figure 1.1.** A curve." in text
    assert "Made by cell [`curve`](../notebooks/00_draws.md#cell-curve) of 00_draws." in text


def test_a_figure_that_no_cell_saves_fails_with_file_and_line(layout):
    (layout.figures / "orphan.svg").write_text(CURVE)
    said = problems(layout, 'x\n\n{{#figure orphan "caption"}}')
    assert "book/src/part/1.md:3: no cell of a notebook saves a figure orphan" in said


def test_every_code_cell_of_a_notebook_page_has_an_anchor(layout):
    page, _ = book.notebook_page(json.loads((layout.root / "notebooks" / "00_draws.ipynb").read_text()), "00_draws")
    assert '<div class="cell-name" id="cell-curve"><a href="#cell-curve">curve</a></div>\n\n```rust' in page
    assert page.count('class="cell-name"') == 6


def test_an_executed_copy_of_other_cells_is_not_shown(layout):
    ran = layout.root / "target" / "notebooks" / "00_draws.ipynb"
    ran.parent.mkdir(parents=True)
    ran.write_text((layout.root / "notebooks" / "00_draws.ipynb").read_text())
    assert book.find_notebooks(layout.root)["00_draws"] == ran
    write(layout.root, [{**CELLS[0], "source": "# How to draw well"}, *CELLS[1:]])
    assert book.find_notebooks(layout.root)["00_draws"] == layout.root / "notebooks" / "00_draws.ipynb"


# ---- checks and numbers that are given


def test_a_check_is_quoted_with_a_format(layout):
    assert expand(layout, '{{#check 00_draws "half"}}, {{#check 00_draws "half" .2f}}') == "0.501, 0.50"
    assert expand(layout, '{{#check 00_draws "list" .1f}}') == "[1.0, -2.2]"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ('00_draws "third"', "prints no check `third`; there is: half, list, guess, long"),
        ('00_draws "guess"', "the check `guess` of notebooks/00_draws.ipynb is WRONG"),
        ('00_draws "long"', "has too many values to quote"),
        ('07_gone "half"', "there is no notebook notebooks/07_gone.ipynb"),
        ("00_draws half", 'write {{#check NOTEBOOK "NAME"}}'),
        ('00_draws "half" .2q', "`.2q` is not a number format"),
    ],
)
def test_a_check_that_cannot_be_quoted_fails(layout, args, sentence):
    assert sentence in problems(layout, f"{{{{#check {args}}}}}")


def test_a_given_number_stands_as_it_is_and_needs_a_source(layout):
    assert expand(layout, 'It is {{#given 0.76 "38 of 50"}} %.') == "It is 0.76 %."
    assert 'write {{#given NUMBER "SOURCE"}}' in problems(layout, "{{#given 0.76}}")


# ---- the gallery


def gallery_of(layout, *more):
    chapters = [manuscript.Chapter(f"part/{i}.md", f"Chapter {i}", str(i), text, "") for i, text in enumerate(more, 1)]
    chapters.append(manuscript.Chapter("gallery.md", "Gallery", "G", "{{#gallery}}", "book/src/gallery.md"))
    found = manuscript.expand(chapters, layout, {"00_draws": "How to draw", "01_other": "Other"})
    return found.texts["gallery.md"], found


def test_the_gallery_has_every_figure_with_its_cell_and_its_chapter(layout):
    text, found = gallery_of(layout, '{{#figure curve "A curve of $x$."}}')
    assert "## How to draw" in text and "Other" not in text
    assert text.index('id="gallery-curve"') < text.index('id="gallery-sheet"')
    assert '<a class="card" href="figures/curve.svg"><img src="figures/curve.svg" alt="Curves of y over x."></a>' in text
    assert '<a href="notebooks/00_draws.html#cell-curve"><code>curve</code></a>' in text
    assert '<a href="part/1.html#fig-curve">Figure 1.1, Chapter 1</a>' in text and "\n\nA curve of $x$.\n\n" in text
    assert 'class="gallery-entry" id="gallery-curve"' in text and 'class="gallery-entry wide" id="gallery-sheet"' in text
    assert found.downloads == {"curve", "sheet"}


def test_the_gallery_says_what_a_figure_says_of_itself_where_no_chapter_shows_it(layout):
    text, _ = gallery_of(layout)
    assert "\n\nContact sheet: &#36;5 &amp; more.\n\n" in text and 'alt="Contact sheet: &#36;5 &amp; more."' in text
    (layout.figures / "sheet.json").write_text(json.dumps({"config": {"figure": {"caption": "A sheet_of * signs"}}}))
    assert "\n\nA sheet\\_of \\* signs.\n\n" in gallery_of(layout)[0]
    long = gallery.shortened("many words " * 60)
    assert len(long) <= gallery.LONGEST + 2 and long.endswith("many …")


def test_the_gallery_offers_the_files_that_are_there(layout):
    assert "svg</a></p>" in gallery_of(layout)[0] and ">pdf<" not in gallery_of(layout)[0]
    for ending in ("pdf", "png", "csv"):
        (layout.figures / f"curve.{ending}").write_text("x")
    text, _ = gallery_of(layout)
    assert all(f'<a href="figures/curve.{ending}" download>{ending}</a>' in text for ending in gallery.ENDINGS)


def test_a_figure_that_was_not_made_fails_in_the_gallery(layout):
    (layout.figures / "sheet.svg").unlink()
    with pytest.raises(manuscript.BookError, match=r"gallery\.md:1: there is no figure sheet\.svg in .*: run `make figures` first"):
        gallery_of(layout)


def test_the_files_of_the_gallery_are_staged(layout):
    source = layout.source / "src"
    source.mkdir(parents=True)
    (source / "SUMMARY.md").write_text("# Summary\n\n- [Gallery](gallery.md)\n")
    (source / "gallery.md").write_text("# Gallery\n\n{{#gallery}}\n")
    (layout.figures / "curve.csv").write_text("x,y\n")
    book.stage(layout)
    staged = sorted(file.name for file in (layout.stage / "book" / "src" / "figures").iterdir())
    assert staged == ["curve.csv", "curve.svg", "sheet.svg"]


def test_every_figure_of_the_notebooks_is_named():
    assert len(sources.figure_sources(ROOT)) >= 30
    assert sources.cell_problems(ROOT) == []
