"""What scripts/book.py promises: directives expand, and every planted mistake is caught with a sentence."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import book
import crossref
import errata
import manuscript
import proofread

RUST_TEST = "#[test]\nfn halves_add_up() {}\n\n// #[test]\n// fn commented_out() {}\n\n#[test]\n#[ignore]\nfn switched_off() {}\n\nfn helper() {}\n"


@pytest.fixture
def layout(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "sums.rs").write_text(RUST_TEST)
    (tmp_path / "tests" / "test_sums.py").write_text("def test_sums():\n    pass\n\n\ndef helper():\n    pass\n")
    (tmp_path / "data" / "records").mkdir(parents=True)
    record = {"results": {"loss": 0.123456, "list": [10.0, 24.0], "word": "a_b"}}
    (tmp_path / "data" / "records" / "run.json").write_text(json.dumps(record))
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "curve.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    draws = {"cell_type": "code", "id": "curve", "metadata": {}, "source": 'figure.save("curve")?', "outputs": []}
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "draws.ipynb").write_text(json.dumps({"nbformat": 4, "cells": [draws]}))
    return manuscript.Layout.of(tmp_path, {"HOME": str(tmp_path)})


def chapters(*texts):
    return [manuscript.Chapter(f"part/{i}.md", f"Chapter {i}", str(i), text, f"book/src/part/{i}.md") for i, text in enumerate(texts, 1)]


def expand(layout, *texts, notebooks=None):
    found = manuscript.expand(chapters(*texts), layout, notebooks)
    return [found.texts[f"part/{i}.md"] for i in range(1, len(texts) + 1)]


def problems(layout, *texts):
    with pytest.raises(manuscript.BookError) as caught:
        expand(layout, *texts)
    return "\n".join(caught.value.problems)


EQ = "{{#eq half test=tests/sums.rs::halves_add_up}}\n\\frac12\n{{#endeq}}\n"


# ---- directives


def test_an_equation_is_numbered_anchored_and_names_its_test(layout):
    (text,) = expand(layout, "Text.\n\n" + EQ)
    assert 'id="eq-half"' in text and "(1.1)" in text and "$$\n\\frac12\n$$" in text
    assert "<dt>test</dt><dd><code>tests/<wbr>sums.rs::<wbr>halves_<wbr>add_<wbr>up</code></dd>" in text


def test_references_link_within_and_across_chapters(layout):
    one, two = expand(layout, EQ + "\nSee {{#ref half}}.", "See {{#ref half}}.")
    assert "See [(1.1)](#eq-half)." in one
    assert "See [(1.1), Chapter 1](1.md#eq-half)." in two


def test_a_reference_below_a_heading_with_the_title_of_its_chapter_has_the_number_alone(layout):
    _, hints = expand(layout, EQ, "### Chapter 1\n\nSee {{#ref half}}.\n\n### Notebook\n\nAnd {{#ref half}}.")
    assert "See [(1.1)](1.md#eq-half)." in hints
    assert "And [(1.1), Chapter 1](1.md#eq-half)." in hints


def test_values_come_from_records_and_take_a_format(layout):
    (text,) = expand(layout, "{{#value run results.loss .2f}} {{#value run results.list}} {{#value run results.list.1}} {{#value run results.word}}")
    assert text == "0.12 [10, 24] 24 a\\_b"


def test_tagged_cells_of_a_notebook_are_quoted(layout):
    cells = [code("let x = 1;"), code("hidden"), code("x")]
    cells[0]["metadata"] = cells[2]["metadata"] = {"tags": ["shown"]}
    (layout.root / "notebooks" / "tour.ipynb").write_text(json.dumps(notebook(*cells)))
    (text,) = expand(layout, "{{#cells tour shown}}")
    assert text.count("```rust") == 2 and "let x = 1;" in text and "hidden" not in text
    assert "no code cell with the tag gone" in problems(layout, "{{#cells tour gone}}")
    assert "no notebook notebooks/gone.ipynb" in problems(layout, "{{#cells gone shown}}")


def test_a_cell_can_be_quoted_by_its_id(layout):
    (layout.root / "notebooks").mkdir(exist_ok=True)
    (layout.root / "notebooks" / "tour.ipynb").write_text(json.dumps(notebook({**code("let x = 1;"), "id": "first"}, code("hidden"))))
    (text,) = expand(layout, "{{#cells tour first}}")
    assert text == "```rust,noplayground\nlet x = 1;\n```\n"


def test_a_figure_is_numbered_and_can_be_referred_to(layout):
    (text,) = expand(layout, '{{#figure curve "A curve of $x$."}}\n\nSee {{#ref fig:curve}}.')
    assert 'id="fig-curve"' in text and "../figures/curve.svg" in text and "**Figure 1.1.** A curve of $x$." in text
    assert "[Figure 1.1](#fig-curve)" in text


def test_directives_in_code_are_left_alone(layout):
    source = "`{{#ref nothing}}`\n\n```text\n{{#eq x}}\n```\n"
    assert expand(layout, source) == [source]


def test_a_notebook_is_linked_by_its_title(layout):
    assert expand(layout, "{{#notebook 00_tour}}", notebooks={"00_tour": "A tour"}) == ["[A tour](../notebooks/00_tour.md)"]


def test_drafts_count_so_that_numbers_stay(layout):
    summary = "# Summary\n\n[Preface](preface.md)\n\n# I\n\n- [Draft]()\n- [Real](a/real.md)\n    - [Nested](a/nested.md)\n\n# II\n\n- [Next](b.md)\n"
    assert [(c.title, c.number) for c in manuscript.read_summary(summary)] == [
        ("Preface", "P"),
        ("Real", "2"),
        ("Nested", "2.1"),
        ("Next", "3"),
    ]


# ---- errata

ERRATUM = '### Errors\n\n{{#erratum rate-tie error "Ties" test=tests/sums.rs::halves_add_up}}\n\n**Printed:** a.\n\n**Right:** b, {{#ref half}}.\n\n**Why:** c.\n\n{{#enderratum}}\n'


def as_kind(kind: str, title: str, parts: tuple[str, str]) -> str:
    text = ERRATUM.replace("### Errors", f"### {title} in a paper").replace("tie error", f"tie {kind}")
    return text.replace("Printed:", f"{parts[0]}:").replace("Right:", f"{parts[1]}:")


def test_an_erratum_is_numbered_in_its_section_and_names_its_test(layout):
    text = "# E\n\n" + EQ + "\n## The rate paper\n\n" + ERRATUM + "\n" + ERRATUM.replace("rate-tie", "rate-sign").replace("Ties", "Sign")
    text += "\n## The LP paper\n\n" + ERRATUM.replace("rate-tie", "lp-sign") + "\nSee {{#ref erratum:rate-sign}}.\n"
    found = manuscript.expand(chapters(text), layout)
    page = found.texts["part/1.md"]
    assert '<section class="erratum" id="erratum-rate-tie">' in page and ">1.</a> Ties" in page and ">2.</a> Sign" in page
    assert f"<strong>Test:</strong> <code>{crossref.breakable('tests/sums.rs::halves_add_up')}</code>" in page
    assert "[entry 2 on the rate paper](#erratum-rate-sign)" in page and "**Right:** b, [(1.1)](#eq-half)." in page
    assert found.errata == {label: ["tests/sums.rs::halves_add_up"] for label in ("rate-tie", "rate-sign", "lp-sign")}
    assert page.count('class="erratum-title"><a href="#erratum-lp-sign">1.</a>') == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (ERRATUM.replace("halves_add_up", "gone"), "part/1.md:9: erratum `rate-tie`: tests/sums.rs has no test function `gone`"),
        (ERRATUM.replace(" test=tests/sums.rs::halves_add_up", ""), "names no test"),
        (ERRATUM.replace("**Why:** c.", "c."), "needs the parts"),
        (ERRATUM.replace("Printed", "Why2").replace("Why:", "Printed:"), "needs the parts"),
        (ERRATUM.replace("{{#enderratum}}", ""), "never closed"),
        (ERRATUM + ERRATUM, "`erratum:rate-tie` is already defined"),
        ("{{#enderratum}}\n", "stands alone"),
        (ERRATUM.replace('"Ties"', "Ties"), "write {{#erratum"),
        (ERRATUM.replace("c.\n\n", "c.\n"), "a blank line is missing"),
        ("{{#ref erratum:none}}", "`erratum:none` to refer to"),
        (ERRATUM.replace("tie error", "tie"), "where KIND is error, unsaid, statistics, unreproduced"),
        (ERRATUM.replace("tie error", "tie mistake"), "is of the kind `mistake`; a kind is one of error, unsaid"),
        (ERRATUM.replace("tie error", "tie unsaid"), "stands below `Errors`; its kind belongs below `### Not said …`"),
        (ERRATUM.replace("### Errors\n", ""), "stands below ``"),
        # What may be claimed depends on the kind: nothing is "right" where nothing is wrong.
        (as_kind("unsaid", "Not said", ("Not said", "Right")), "needs the parts **Not said:**, **Needed:**, **Why:**"),
        (as_kind("statistics", "Statistical criticism", ("Printed", "Right")), "needs the parts **Printed:**, **Shown:**, **Why:**"),
    ],
)
def test_an_erratum_that_lacks_something_fails(layout, text, sentence):
    assert sentence in problems(layout, "# E\n\n" + EQ + "\n" + text)


def test_errata_are_counted_by_section_and_kind(layout):
    unsaid = as_kind("unsaid", "Not said", ("Not said", "Needed")).replace("rate-tie", "lp-sign")
    text = "# E\n\n{{#errata}}\n\n" + EQ + "\n## The rate paper\n\n" + ERRATUM + "\n## The LP paper\n\n" + unsaid
    (page,) = expand(layout, text)
    assert "<th>Errors</th><th>Not said</th><th>Statistical criticism</th><th>Not reproduced here</th><th>all</th>" in page
    one, other = '<a href="#erratum-rate-tie">1</a>', '<a href="#erratum-lp-sign">1</a>'
    for cells in (("The rate paper", one, 0, 0, 0, 1), ("The LP paper", 0, other, 0, 0, 1), ("all", one, other, 0, 0, 2)):
        assert "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>" in page


def test_every_erratum_of_the_book_has_its_parts_and_a_test_that_runs():
    text = (ROOT / "book" / "src" / "errata.md").read_text(encoding="utf-8")
    _, found, wrong = errata.expand(text, str)
    assert wrong == [] and len({erratum.section for erratum in found}) == 5
    assert {erratum.kind for erratum in found} == set(errata.KINDS) and "{{#errata}}" in text
    assert [manuscript.problem_with_test(ROOT, test) for erratum in found for test in erratum.tests if manuscript.problem_with_test(ROOT, test)] == []


# ---- planted mistakes in chapters


def test_an_unknown_reference_fails_with_file_and_line(layout):
    assert "book/src/part/1.md:3: there is no equation or figure `nothing`" in problems(layout, "a\n\n{{#ref nothing}}")


def test_a_duplicate_label_fails_and_names_both_places(layout):
    said = problems(layout, EQ, "\n" + EQ)
    assert "book/src/part/2.md:2" in said and "already defined in book/src/part/1.md:1" in said


def test_an_equation_without_a_test_fails(layout):
    assert "names no test" in problems(layout, "{{#eq half}}\nx\n{{#endeq}}")


@pytest.mark.parametrize(
    ("test", "sentence"),
    [
        ("tests/sums.rs::renamed", "no test function `renamed`"),
        ("tests/sums.rs::commented_out", "no test function `commented_out`"),
        ("tests/sums.rs::helper", "no test function `helper`"),
        ("tests/sums.rs::switched_off", "is ignored"),
        ("tests/none.rs::halves_add_up", "tests/none.rs does not exist"),
        ("tests/test_sums.py::test_renamed", "no test function `test_renamed`"),
        ("tests/test_sums.py::helper", "not collected by pytest"),
        ("tests/sums.rs", "not of the form"),
    ],
)
def test_an_equation_whose_test_does_not_run_fails(layout, test, sentence):
    assert sentence in problems(layout, f"{{{{#eq half test={test}}}}}\nx\n{{{{#endeq}}}}")


def test_a_python_test_is_accepted(layout):
    assert "<dt>test</dt><dd><code>tests/" in expand(layout, "{{#eq half test=tests/test_sums.py::test_sums}}\nx\n{{#endeq}}")[0]


def test_a_missing_record_or_key_fails(layout):
    assert "no key results.gain" in problems(layout, "{{#value run results.gain}}")
    assert "there is no record other.json" in problems(layout, "{{#value other results.gain}}")


def test_a_missing_figure_fails_and_says_what_to_run(layout):
    said = problems(layout, 'x\n{{#figure absent "caption"}}')
    assert "book/src/part/1.md:2" in said and "make figures" in said


def test_an_equation_left_open_and_a_misspelt_directive_fail(layout):
    assert "come in pairs" in problems(layout, "{{#eq half test=tests/sums.rs::halves_add_up}}\nx\n")
    assert "not a directive" in problems(layout, "{{#valeu run results.loss}}")


def test_all_problems_are_reported_at_once(layout):
    assert len(problems(layout, "{{#ref a}}\n{{#ref b}}").splitlines()) == 2


def test_a_page_that_no_reader_would_find_fails(layout):
    source = layout.source / "src"
    source.mkdir(parents=True)
    (source / "SUMMARY.md").write_text("# Summary\n\n[A](a.md)\n")
    (source / "a.md").write_text("# A\n")
    (source / "stray.md").write_text("# Stray\n")
    with pytest.raises(manuscript.BookError, match="not in SUMMARY.md"):
        book.stage(layout)


def test_signs_of_markdown_inside_a_formula_are_shielded():
    source = 'a*b <span class="katex"><span title="x_y">*<span>~</span>|</span></span> and ~c~'
    assert book.shielded(source) == (
        'a*b <span class="katex"><span title="x_y">&#42;<span>&#126;</span>&#124;</span></span> and ~c~'
    )


# ---- notebooks


def notebook(*cells):
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells)}


def markdown(text):
    return {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}


def code(text, *outputs):
    return {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": text, "outputs": list(outputs)}


def data(**kinds):
    return {"output_type": "execute_result", "metadata": {}, "execution_count": 1, "data": {k.replace("__", "/").replace("_xml", "+xml"): v for k, v in kinds.items()}}


def test_a_notebook_becomes_a_page_with_code_and_outputs():
    svg = "<svg xmlns='http://www.w3.org/2000/svg'/>"
    page, files = book.notebook_page(
        notebook(
            markdown("# A tour\n\nSee [rate](02_rate.ipynb) and [why](../book/src/ground/autograd.md#cure)."),
            code('println!("hi")', {"output_type": "stream", "name": "stdout", "text": ["hi\n"]}),
            code("fig", data(image__svg_xml=svg, text__plain="a $5 curve")),
        ),
        "00_tour",
    )
    assert page.startswith("# A tour") and "[rate](02_rate.md)" in page and "[why](../ground/autograd.md#cure)" in page
    assert '```rust,noplayground\nprintln!("hi")\n```' in page and "```text,output,stdout\nhi\n```" in page
    assert files == {"00_tour_files/01.svg": svg.encode()}
    assert '<img src="00_tour_files/01.svg" alt="a &#36;5 curve">' in page


def test_html_outputs_keep_tables_and_lose_styles_and_scripts():
    source = "<style>td{color:red}</style><table style='x' onclick='y'>\n\n<tr><td>a &lt; $b$</td></tr></table><script>alert(1)</script>"
    page, _ = book.notebook_page(notebook(markdown("# T"), code("t", data(text__html=source))), "t")
    assert "<table>\n<tr><td>a &lt; &#36;b&#36;</td></tr></table>" in page
    aligned, _ = book.notebook_page(notebook(code("t", data(text__html="<td style='text-align:right'>1</td>"))), "t")
    assert '<td style="text-align:right">1</td>' in aligned
    assert "style" not in page and "script" not in page and "onclick" not in page


def test_notebooks_are_listed_as_a_part_of_their_own():
    summary = "# Summary\n\n- [A](a.md)\n\n{{#notebooks}}\n\n[End]()\n"
    assert "# Notebooks\n\n- [A tour](notebooks/00_tour.md)" in book.summary_with_notebooks(summary, {"00_tour": "A tour"})
    assert "Notebooks" not in book.summary_with_notebooks(summary, {})


def test_the_executed_copy_of_a_notebook_is_preferred(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "a.ipynb").write_text("{}")
    assert book.find_notebooks(tmp_path)["a"] == tmp_path / "notebooks" / "a.ipynb"
    (tmp_path / "target" / "notebooks").mkdir(parents=True)
    (tmp_path / "target" / "notebooks" / "a.ipynb").write_text("{}")
    assert book.find_notebooks(tmp_path)["a"] == tmp_path / "target" / "notebooks" / "a.ipynb"


# ---- planted mistakes in the built pages


def built(tmp_path, body, head=""):
    (tmp_path / "index.html").write_text(f"<!doctype html><html class='light'><head>{head}</head><body>{body}</body></html>")
    (tmp_path / "other.html").write_text("<h1 id='here'>Other</h1>")
    return proofread.check_static(tmp_path)


def test_a_clean_page_passes_and_external_links_are_only_collected(tmp_path):
    found, external = built(tmp_path, "<a href='other.html#here'>x</a> <a href='https://example.org/a'>y</a> costs 5 <code>$x$</code>")
    assert found == [] and external == {"https://example.org/a"}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("<a href='gone.html'>x</a>", "gone.html leads to no file"),
        ("<a href='other.html#gone'>x</a>", "an anchor its page does not have"),
        ("<a href='#gone'>x</a>", "an anchor its page does not have"),
        ("<img src='gone.svg'>", "gone.svg leads to no file"),
        ("<img src='https://example.org/a.png'>", "from elsewhere"),
        ("<script src='//example.org/a.js'></script>", "from elsewhere"),
        ("<p>so $$x$$ holds</p>", "a display formula"),
        ("<p>so $x$ holds</p>", "an inline formula"),
        ("<p>so \\frac12 holds</p>", "a TeX command"),
        ("<p>so x_{i} holds</p>", "a TeX script"),
        ("<p>see {{#ref half}}</p>", "a directive"),
        ("<p>see [here](there.md)</p>", "a Markdown link"),
        ("<span class='katex-error' title='ParseError'>x</span>", "KaTeX failed: ParseError"),
    ],
)
def test_a_planted_mistake_in_a_page_is_found(tmp_path, body, sentence):
    found, _ = built(tmp_path, body)
    assert any(sentence in problem for problem in found), found


def test_a_remote_stylesheet_is_found_in_head_and_in_css(tmp_path):
    found, _ = built(tmp_path, "", "<link rel='stylesheet' href='https://example.org/katex.css'>")
    assert any("from elsewhere" in problem for problem in found)
    (tmp_path / "a.css").write_text("@import 'https://example.org/font.css'; .a { background: url(gone.png) }")
    found, _ = built(tmp_path, "")
    assert any("a.css: loads https://example.org/font.css from elsewhere" in problem for problem in found)
    assert any("gone.png leads to no file" in problem for problem in found)


def test_a_missing_browser_is_a_sentence(tmp_path):
    with pytest.raises(manuscript.BookError, match="install Debian's package `chromium`"):
        proofread.find_chromium({"PATH": str(tmp_path)})


def browser():
    pytest.importorskip("playwright")
    try:
        return proofread.find_chromium()
    except manuscript.BookError as error:
        pytest.skip(str(error))


def test_console_errors_failed_requests_and_wide_pages_are_found_in_the_browser(tmp_path):
    chromium = browser()
    site = tmp_path / "site"
    site.mkdir()
    theme = "<script>document.documentElement.className = localStorage.getItem('mdbook-theme')</script>"
    (site / "index.html").write_text(f"<!doctype html><html><head><link rel=icon href=data:,>{theme}</head><body><main>fine</main></body></html>")
    assert proofread.check_browser(site, chromium, tmp_path / "shots") == ([], 4)
    assert sorted(f.parent.name for f in (tmp_path / "shots").rglob("*.png")) == ["dark-1280", "dark-400", "light-1280", "light-400"]

    bad = "<script>console.error('planted')</script><script>throw Error('thrown')</script><img src='gone.png'><img src='torn.svg'>"
    (site / "torn.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><g>")
    bad += "<main><div id='wide' style='width:2000px'>wide</div></main>"
    (site / "index.html").write_text(f"<!doctype html><html><head><link rel=icon href=data:,></head><body>{bad}</body></html>")
    found = "\n".join(proofread.check_browser(site, chromium)[0])
    for planted in (
        "planted",
        "thrown",
        "gone.png",
        "torn.svg",
        "wider than the window: div#wide",
        "theme navy is not applied",
    ):
        assert planted in found


def test_the_browser_loads_a_page_once_for_each_look_and_what_pages_share_once(tmp_path, monkeypatch):
    """The length of the check, counted in work: no time is measured, and no screenshot is taken unless asked for. Though
    pages follow each other in one tab, a mistake is told of its own page only."""
    chromium, served = browser(), []
    monkeypatch.setattr(proofread.QuietHandler, "log_request", lambda self, *_: served.append(self.path))
    theme = "<script>document.documentElement.className = localStorage.getItem('mdbook-theme')</script>"
    (tmp_path / "shared.css").write_text("p { margin: 0 }")
    pages = {"a.html": "", "b.html": "<script>console.error('planted')</script>", "c.html": ""}
    for page, more in pages.items():
        head = f"<link rel=icon href=data:,><link rel=stylesheet href=shared.css>{theme}{more}"
        (tmp_path / page).write_text(f"<!doctype html><html><head>{head}</head><body><main>x</main></body></html>")
    found, shots = proofread.check_browser(tmp_path, chromium)
    looks = [(theme, width) for theme in proofread.THEMES for width in (proofread.WIDE, proofread.NARROW)]
    assert found == [f"b.html ({theme}, {width} px): console error: planted." for theme, width in looks] and shots == 0
    assert {path: served.count(path) for path in served} == {f"/{file}": len(looks) for file in (*pages, "shared.css")}
