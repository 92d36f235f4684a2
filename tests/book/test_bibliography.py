"""The reader of BibTeX, citations, and that the book's own bibliography is sound."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import bibliography
import manuscript

ENTRY = "@article{kumar2021,\n  author = {Kumar, Abhishek and Narasimhan, Harikrishna and Cotter, Andrew},\n  title = {Rates},\n  journal = {A Journal},\n  year = 2021\n}\n"
FOUR = "@book{four2019,\n  author = {A, B and C, D and E, F and G, H},\n  title = {Four},\n  publisher = {P},\n  year = 2019\n}\n"
TOOL = "@misc{tool,\n  key = {tool},\n  title = {tool: a program},\n  howpublished = {https://example.org/a\\_b}\n}\n"


def problems(text: str) -> str:
    with pytest.raises(bibliography.BibError) as caught:
        bibliography.read(text)
    return str(caught.value)


@pytest.fixture
def layout(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "bibliography.bib").write_text(ENTRY + FOUR + TOOL)
    return manuscript.Layout.of(tmp_path, {"HOME": str(tmp_path)})


def chapters(*texts):
    listed = [manuscript.Chapter(f"part/{i}.md", f"Chapter {i}", str(i), text, f"book/src/part/{i}.md") for i, text in enumerate(texts, 1)]
    return [*listed, manuscript.Chapter("works.md", "Works", "W", "{{#bibliography}}", "book/src/works.md")]


ALL = "{{#cite kumar2021}} {{#cite four2019}} {{#cite tool}}"


# ---- the reader


def test_entries_are_read_with_their_fields():
    entry = bibliography.read(ENTRY)["kumar2021"]
    assert entry.kind == "article" and entry.fields["year"] == "2021" and entry.line == 1
    assert [name.whole for name in entry.names] == ["Abhishek Kumar", "Harikrishna Narasimhan", "Andrew Cotter"]


@pytest.mark.parametrize(
    ("tex", "shown"),
    [
        (r"Vlastelica Pogan{\v{c}}i{\'c}", "Vlastelica Pogančić"),
        (r"Rol{\'\i}nek", "Rolínek"),
        (r'G{\"u}nther and G\"unther', "Günther and Günther"),
        (r"Nu{\~n}ez", "Nuñez"),
        (r"{\O}rsted, {\l}ukasz, stra{\ss}e", "Ørsted, łukasz, straße"),
        (r"Fran\c{c}ois", "François"),
        (r"Science \& Engineering, pages 1--9", "Science & Engineering, pages 1–9"),
        (r"the ``probable error''", "the “probable error”"),
        (r"{NP}-complete  {AUC}", "NP-complete AUC"),
        (r"O'Donoghue", "O'Donoghue"),
    ],
)
def test_accents_of_tex_become_unicode(tex, shown):
    assert bibliography.unicode(tex) == shown


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (ENTRY.replace("  journal = {A Journal},\n", ""), "the field journal is missing"),
        (ENTRY.replace("journal = {A Journal}", "journal = {}"), "the field journal is empty"),
        (ENTRY.replace("journal", "jornal"), "the field jornal is unknown"),
        (ENTRY.replace("2021\n", "21\n"), "`21` is no year"),
        (ENTRY.replace("2021\n", "2021,\n  pages = {3-4}\n"), "`3-4` are no pages"),
        (ENTRY.replace("Kumar, Abhishek", "Abhishek Kumar"), "is not written `Last, First`"),
        (ENTRY.replace("Kumar, Abhishek", "Kumar, Jr, Abhishek"), "is not written `Last, First`"),
        (ENTRY.replace("Rates", r"$x$ \emph{rates}"), "TeX that the page cannot show"),
        (ENTRY.replace("Rates", "Ratés"), "`é` is not ASCII"),
        (ENTRY.replace("@article", "@paper"), "@paper is no kind we use"),
        (ENTRY.replace("kumar2021", "Kumar"), "a key is small letters"),
        (ENTRY + ENTRY, "is already an entry, at line 1"),
        (ENTRY.replace("Rates},", "Rates}"), "a comma is missing after the field title"),
        (ENTRY.replace("{Rates}", "Rates"), "stands neither in braces nor is a number"),
        (ENTRY.replace("2021\n", "2021,\n  year = 2022\n"), "the field year is there twice"),
        (ENTRY.replace("Journal},\n  year = 2021\n}", "Journal"), "never closed"),
        ("stray\n" + ENTRY, "this is no entry"),
    ],
)
def test_what_plain_bibtex_or_the_page_would_not_take_is_refused(text, sentence):
    assert sentence in problems(text)


def test_all_problems_are_told_with_their_lines():
    said = problems(ENTRY.replace("2021\n", "21\n") + FOUR.replace("@book", "@volume"))
    assert said.startswith("1: ") and "\n7: " in said


# ---- citations


def test_a_citation_is_author_and_year_and_leads_to_the_entry(layout):
    text = manuscript.expand(chapters(ALL), layout).texts["part/1.md"]
    assert "[Kumar, Narasimhan and Cotter (2021)](../works.md#ref-kumar2021)" in text
    assert "[A et al. (2019)](../works.md#ref-four2019)" in text and "[tool](../works.md#ref-tool)" in text


def test_a_citation_in_parentheses_may_hold_several_works(layout):
    text = manuscript.expand(chapters("{{#cite (kumar2021 four2019)}} {{#cite tool}}"), layout).texts["part/1.md"]
    assert text.startswith("(<a id=") and "[Kumar, Narasimhan and Cotter, 2021]" in text and "; " in text and "[A et al., 2019]" in text


def test_entries_are_sorted_and_lead_back_to_the_first_citation_in_each_chapter(layout):
    found = manuscript.expand(chapters(ALL + " {{#cite tool}}", "{{#cite tool}}"), layout).texts
    page = found["works.md"]
    assert page.index("ref-four2019") < page.index("ref-kumar2021") < page.index("ref-tool")
    assert "Cited in [Chapter 1](part/1.md#cite-tool-part-1) and [Chapter 2](part/2.md#cite-tool-part-2)." in page
    assert found["part/1.md"].count('<a id="cite-tool-part-1"></a>') == 1
    assert "*tool: a program.* [example.org/a_b](https://example.org/a_b)." in page


def test_two_works_that_would_be_cited_alike_get_letters(layout):
    (layout.root / "book" / "bibliography.bib").write_text(ENTRY + ENTRY.replace("{kumar2021", "{kumar2021b").replace("Rates", "More"))
    text = manuscript.expand(chapters("{{#cite kumar2021}} {{#cite kumar2021b}}"), layout).texts["part/1.md"]
    assert "Cotter (2021b)](../works.md#ref-kumar2021)" in text and "Cotter (2021a)](../works.md#ref-kumar2021b)" in text


def test_a_notebook_that_links_to_an_entry_is_listed_too(layout):
    (layout.root / "notebooks").mkdir()
    (layout.root / "notebooks" / "n.ipynb").write_text('{"nbformat": 4, "cells": [], "x": "(../book/src/works.md) bibliography.md#ref-tool"}')
    page = manuscript.expand(chapters(ALL), layout, {"n": "A notebook"}).texts["works.md"]
    assert "[A notebook](notebooks/n.md)" in page


def test_an_unknown_key_fails_with_file_and_line(layout):
    with pytest.raises(manuscript.BookError) as caught:
        manuscript.expand(chapters("a\n\n{{#cite nobody1900}} " + ALL), layout)
    assert "book/src/part/1.md:3: there is no entry `nobody1900` in book/bibliography.bib" in str(caught.value)


def test_an_entry_that_nothing_cites_fails(layout):
    with pytest.raises(manuscript.BookError, match="nothing cites four2019, tool"):
        manuscript.expand(chapters("{{#cite kumar2021}}"), layout)


def test_a_file_that_is_not_sound_fails_with_its_line(layout):
    (layout.root / "book" / "bibliography.bib").write_text("\n" + ENTRY.replace("2021\n", "21\n"))
    with pytest.raises(manuscript.BookError, match=r"book/bibliography\.bib:2: `kumar2021`: `21` is no year\."):
        manuscript.expand(chapters(ALL), layout)


# ---- the book's own


def test_the_bibliography_of_the_book_is_sound():
    entries = bibliography.read((ROOT / "book" / "bibliography.bib").read_text(encoding="utf-8"))
    assert {"chen2022", "meng2021", "sato2019", "anonymous", "ali2021"} <= set(entries)
    page = bibliography.Library(entries, "bibliography.md").page("bibliography.md")
    assert "\\" not in page.replace("\\_", "").replace("\\*", "") and "{" not in page


@pytest.mark.skipif(not (shutil.which("bibtex") and shutil.which("pdflatex")), reason="needs a TeX")
def test_bibtex_takes_it_without_a_warning(tmp_path):
    shutil.copyfile(ROOT / "book" / "bibliography.bib", tmp_path / "references.bib")
    document = "\\documentclass{article}\\begin{document}\\nocite{*}\\bibliographystyle{plain}\\bibliography{references}\\end{document}"
    (tmp_path / "paper.tex").write_text(document)
    for command in (["pdflatex", "-interaction=nonstopmode", "paper"], ["bibtex", "paper"], ["pdflatex", "-interaction=nonstopmode", "paper"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        assert "Warning--" not in done.stdout and "\n!" not in done.stdout
