"""The chapters as they are written, and what becomes of the directives in them.

The chapters in book/src hold a few directives of our own, which are expanded before mdBook sees them:

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
    {{#devices}}                                              what ran on which device, by data/records/cuda-*.json
    {{#functions}}                                            every function that a test of an equation or a cell uses,
                                                              with its equations, cells and tests
    {{#notebooks}}                                            (SUMMARY.md only) the part listing all notebooks

Directives inside fenced code or `code spans` are left alone. Anything wrong in them fails the build with file and line.

Needs only the standard library, and cargo for crossref.py.
"""

from __future__ import annotations

import functools
import html
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import bibliography
import crossref
import devices
import errata
import gallery
import slider
import sources
from exercises import joined


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
    r"|\{\{\s*#(?P<name>ref|value|check|given|cells|figure|slider|notebook|notebooks|gallery|devices|functions|cite|bibliography|eq|endeq)\b(?P<args>(?:\"[^\"]*\"|[^}\"])*)\}\}",
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


def fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}\n"


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
    try:
        links = result.links = crossref.survey(layout.root, equations, sources.notebooks(layout.root), page_of_functions)
    except ValueError as error:
        raise BookError(str(error)) from None

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
                case "devices":
                    return devices.sections(layout.records) or fail("there is no record cuda-*.json; make cuda-report makes one.")
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
