"""That no number in prose is made up: every decimal and every percentage that a notebook or a chapter types is one that
code shows, rounded to the digits typed.

In a notebook it stands in code, in printed text, in a table or in the sentence of a figure: in the same section, the
one before, or one that the sentence names ("section 4"). The opening and the recap speak of all sections.

In a chapter it stands in a numbered equation or in a test that the chapter names (with the constants and functions that
the test uses), or it is a setting in the study whose record the chapter reads. Pages that are not in a part treat
several papers; there it is the section that counts, not the page. Results of runs are never typed: they come through
{{#value}} and {{#check}}. Only a page with the name of a notebook, its lesson plan, may type what that notebook shows.

What is not ours is said to be: the words "paper" or "printed" in the sentence, or the title "As printed" above it, mark
a quotation. "Exercises" of chapters set their own numbers. Anything else has a source beside it, as
{{#given 7.6 "SOURCE"}} in a chapter and as an entry "numbers": {"7.6": "SOURCE"} in the metadata of a notebook's cell.
A source is a file of the repository that holds the number (tests/file.rs::name, data/records/name.json#dotted.key,
src/file.rs), or a reason in words.

Formulas are left to the equations around them, except one that is nothing but a number: so prose writes a minus.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import manuscript
import sources

NUMBER = re.compile(
    r"(?<![\w.])(?<!\d[,  ])(?P<number>[-−+]?(?:\d*\.\d+|\d+(?=\s{0,8}(?:%|per cent\b))))(?!\w|\.\d|[,  ]\d{3}\b)"
)
ANY_NUMBER = re.compile(r"[-−]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
LABELLED = re.compile(
    r"\b(?:Sections?|Sec\.|Definitions?|Propositions?|Theorems?|Lemmas?|Corollary|Tables?|Figures?|Algorithms?|"
    r"Appendix|Experiments?|chapters?|eqs?\.|arXiv:?|version)\s*\(?(?:[\d.]+\s*(?:,|and|to|or)\s*)*$",
    re.I,
)
# Not in a table: there a row such as "eq. 3 as printed" has our numbers.
QUOTED = re.compile(r"(?!\|).*\b(?:papers?|printed)\b", re.I)
PERCENT = re.compile(r"%|\bpoints?\b|\bper cent\b", re.I)
# The level of an interval is a convention of the whole project.
LEVELS = ("95", "99")
LEVEL = re.compile(r"\b(?:intervals?|levels?|confidence|promise)\b", re.I)
BARE = re.compile(r"\s*[-+]?\d*\.?\d+\s*(?:\\,)?(?:\\%)?\s*")
SENTENCE_END = re.compile(r"\n\s*\n|\n\s*(?=[-*|#]|\d+\.\s)|(?<=[.!?])[\"”)*]*\s+(?=[\"“(*]*[A-Z`$\[ ])")
HEADING = re.compile(r"^##\s+(?:(?P<number>\d+)\.)?.*$", re.M)
TITLE = re.compile(r"^#{1,4}\s+(.*)$", re.M)
EQUATION = re.compile(r"\{\{\s*#eq\b(?P<args>[^}]*)\}\}(?P<tex>.*?)\{\{\s*#endeq\s*\}\}", re.S)
REFERENCE = re.compile(r"\{\{\s*#ref\s+([\w-]+)\s*\}\}")
VALUE = re.compile(r"\{\{\s*#value\s+([a-z]+)[\w-]*\s")
GIVEN = re.compile(r"\{\{\s*#given\s+(?P<number>\S+)\s+\"(?P<source>[^\"]+)\"\s*\}\}")
TEST_NAME = re.compile(r"\btests/[\w/]+\.(?:rs|py)::\w+")
ITEM = re.compile(
    r"^(?:pub(?:\([^)]*\))?\s+)?(?:async\s+)?(?:fn|const|static|struct|impl|def|class)\s+(?P<name>\w+)"
    r"|^(?P<python>\w+)\s*=",
    re.M,
)
FILE = re.compile(r"(?:src|tests|data|examples|benches|scripts)/\S+")


@dataclass(frozen=True)
class Typed:
    """A number as typed in prose."""

    text: str
    place: int  # in the text
    line: int
    sentence: str

    @property
    def digits(self) -> int:
        return len(self.text.partition(".")[2])

    def is_rounded(self, value: float, signed: bool) -> bool:
        """Whether `value` reads like this when it is rounded, also as a percentage where the sentence has one. A minus
        counts only if `signed`, and a number typed without one is a size: a loss falls by 0.3."""
        target = float(self.text.replace("−", "-"))
        if not signed or target >= 0.0:
            target, value = abs(target), abs(value)
        reach = 0.5 * 10.0**-self.digits * (1.0 + 1e-9)
        scales = (1.0, 100.0) if PERCENT.search(self.sentence) else (1.0,)
        return any(abs(value * scale - target) <= reach for scale in scales)

    def among(self, values: list[float] | tuple[float, ...], signed: bool = False) -> bool:
        """Whether one of the numbers of a program is this; programs also write x + 0.3 where x is to be -0.3."""
        return any(self.is_rounded(value, signed) for value in values)


def blank(text: str) -> str:
    """As many spaces, so that places in the text stay what they are."""
    return re.sub(r"[^\n]", " ", text)


def words_only(markdown: str) -> str:
    """The prose of a text: code, formulas, targets of links, tags and directives are blanked; captions are prose."""

    def directive(found: re.Match) -> str:
        if found[1] not in ("figure", "slider"):
            return blank(found[0])
        opening, quote, caption = found[0].partition('"')
        if not quote:
            return blank(found[0])
        return blank(opening) + " " + re.sub(r"\"[^\"]*$", lambda end: blank(end[0]), caption)

    def formula(found: re.Match) -> str:
        return f" {found[1]} " if BARE.fullmatch(found[1]) else blank(found[0])

    text = "".join(piece if prose else blank(piece) for prose, piece in manuscript.outside_code(markdown))
    text = EQUATION.sub(lambda found: blank(found[0]), text)
    text = re.sub(r"\{\{\s*#(\w+)((?:\"[^\"]*\"|[^}\"])*)\}\}", directive, text)
    text = re.sub(r"\$\$.*?\$\$", lambda found: blank(found[0]), text, flags=re.S)
    text = re.sub(r"\$([^$\n]*)\$", formula, text)
    text = re.sub(r"(?<=\])\([^)\s]*(?:\s\"[^\"]*\")?\)", lambda found: blank(found[0]), text)
    text = re.sub(r"<!--.*?-->|<[^<>]+>", lambda found: blank(found[0]), text, flags=re.S)
    return re.sub(r"&\w+;", lambda found: blank(found[0]), text)


def typed(markdown: str) -> list[Typed]:
    """The numbers in prose that need a source."""
    text, found = words_only(markdown), []
    ends = [0, *(end.end() for end in SENTENCE_END.finditer(text)), len(text)]
    for hit in NUMBER.finditer(text):
        start = max(end for end in ends if end <= hit.start())
        sentence = text[start : min(end for end in ends if end >= hit.end())]
        is_level = hit["number"] in LEVELS and LEVEL.search(sentence)
        if not is_level and not LABELLED.search(text[start : hit.start()]):
            line = text.count("\n", 0, hit.start()) + 1
            found.append(Typed(hit["number"], hit.start(), line, " ".join(sentence.split())))
    return found


@lru_cache(maxsize=None)
def numbers_in(text: str) -> tuple[float, ...]:
    """Every number of a program, or of what it printed."""
    text = re.sub(r"(?<=\d)_(?=\d)", "", text)
    return tuple(float(number.replace("−", "-")) for number in ANY_NUMBER.findall(text))


# ---------------------------------------------------------------- tests and files as sources


@lru_cache(maxsize=None)
def items_of(file: Path) -> dict[str, str]:
    """Name -> text of the functions and constants of a test file."""
    text = file.read_text(encoding="utf-8")
    starts = list(ITEM.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    items: dict[str, str] = {}
    for start, end in zip(starts, ends):
        name = start["name"] or start["python"]
        items[name] = items.get(name, "") + text[start.start() : end]
    return items


def text_of_test(root: Path, reference: str) -> str:
    """A test with the functions and constants of its file that it uses."""
    path, _, name = reference.partition("::")
    items = items_of(root / path) if (root / path).is_file() else {}
    used: dict[str, str] = {}
    wanted = [name]
    while wanted:
        name = wanted.pop()
        if name in items and name not in used:
            used[name] = items[name]
            wanted += set(re.findall(r"\w+", items[name]))
    return "\n".join(used.values())


def problem_with_source(root: Path, number: Typed, source: str) -> str | None:
    """None if the source holds the number, or is a reason in words; otherwise what is wrong."""
    if not FILE.fullmatch(source):
        return None if len(source.split()) > 2 else f"`{source}` is neither a file of the repository nor a reason"
    path, _, key = source.partition("#")
    file = root / path.partition("::")[0]
    if not file.is_file():
        return f"there is no file {path}"
    try:
        if "::" in path:
            text = text_of_test(root, path)
        elif key:
            text = str(manuscript.record_value(manuscript.Layout(root, file.parent, root, root), file.stem, key))
        else:
            text = file.read_text(encoding="utf-8")
    except manuscript.BookError as error:
        return str(error)
    return None if number.among(numbers_in(text)) else f"{source} does not hold it"


# ---------------------------------------------------------------- notebooks


def section_starts(notebook: dict) -> list[tuple[int, int, str | None]]:
    """(cell, place in its text, printed number) of every section of a notebook."""
    return [
        (index, found.start(), found["number"])
        for index, cell in enumerate(notebook["cells"])
        if cell["cell_type"] == "markdown"
        for found in HEADING.finditer(words_only(sources.joined(cell["source"])))
    ]


def shown_by(cells: list[dict]) -> list[float]:
    """The numbers in code and in what it printed."""
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    texts = [sources.joined(cell["source"]) + "\n" + sources.printed(cell) for cell in code]
    return [number for text in texts for number in numbers_in(text)]


def problems_in(root: Path, name: str, notebook: dict) -> tuple[int, list[str]]:
    """(numbers checked, what is wrong with them) in the prose of a notebook, against the outputs that it holds."""
    count, problems = 0, []
    starts = section_starts(notebook)

    def section(index: int, place: int) -> int:
        return sum((start, at) <= (index, place) for start, at, _ in starts)

    by_number = {number: i for i, (_, _, number) in enumerate(starts, 1) if number}
    shown: list[list[float]] = [[] for _ in range(len(starts) + 1)]
    for index, cell in enumerate(notebook["cells"]):
        shown[section(index, 0)] += shown_by([cell])
    for index, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "markdown":
            continue
        place = f"notebooks/{name}.ipynb: cell {cell.get('id')}"
        listed = dict(cell["metadata"].get("numbers", {}))
        for number in typed(sources.joined(cell["source"])):
            count += 1
            source = cell["metadata"].get("numbers", {}).get(number.text)
            listed.pop(number.text, None)
            if source is not None:
                if wrong := problem_with_source(root, number, source):
                    problems.append(f"{place} says {number.text}, and {wrong}")
                continue
            here = section(index, number.place)
            named = [by_number.get(found, here) for found in re.findall(r"\b[Ss]ections? (\d+)", number.sentence)]
            everywhere = here == 0 or here == len(starts)
            near = range(len(shown)) if everywhere else {here, here - 1, *named}
            if not any(number.among(shown[i], signed=True) for i in near) and not QUOTED.match(number.sentence):
                sentence = f"which no cell of its section shows: {number.sentence!r}"
                problems.append(f"{place} says {number.text}, {sentence}")
        problems += [f"{place} lists {text} in its metadata, which its text does not say" for text in listed]
    return count, problems


def notebook_problems(root: Path) -> tuple[int, list[str]]:
    """(numbers checked, what is wrong with them) in the prose of all notebooks."""
    found = [problems_in(root, name, notebook) for name, notebook in sources.notebooks(root).items()]
    return sum(count for count, _ in found), [problem for _, problems in found for problem in problems]


# ---------------------------------------------------------------- chapters


def equations(root: Path) -> dict[str, list[float]]:
    """Label -> the numbers of every numbered equation and of the tests it names."""
    found = {}
    for file in sorted((root / "book" / "src").rglob("*.md")):
        for equation in EQUATION.finditer(file.read_text(encoding="utf-8")):
            label, tests, _ = manuscript.parse_eq(equation["args"])
            texts = [equation["tex"].replace("{,}", ""), *(text_of_test(root, test) for test in tests)]
            found[label] = [number for text in texts for number in numbers_in(text)]
    return found


def chapter_problems(root: Path) -> tuple[int, list[str]]:
    """(numbers checked, what is wrong with them) in the prose of all chapters."""
    count, problems, known, notebooks = 0, [], equations(root), sources.notebooks(root)
    source = root / "book" / "src"

    def backing(text: str) -> list[float]:
        labels = {manuscript.parse_eq(found["args"])[0] for found in EQUATION.finditer(text)} | set(REFERENCE.findall(text))
        studies = {root / "examples" / "study" / f"{method}.rs" for method in VALUE.findall(text)}
        texts = [text_of_test(root, test) for test in set(TEST_NAME.findall(text))]
        texts += [study.read_text(encoding="utf-8") for study in studies if study.is_file()]
        return [n for label in labels for n in known.get(label, [])] + [n for text in texts for n in numbers_in(text)]

    for file in sorted(source.rglob("*.md")):
        text = file.read_text(encoding="utf-8")
        starts = [0] + ([found.start() for found in HEADING.finditer(text)] if file.parent == source else [])
        parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)])]
        values = [backing(part) for part in parts]
        if file.stem in notebooks:
            values[0] += shown_by(notebooks[file.stem]["cells"])
        titles = [(found.start(), found[1]) for found in TITLE.finditer(text)]
        for number in typed(text):
            count += 1
            title = next((title for start, title in reversed(titles) if start <= number.place), "")
            part = max(i for i, start in enumerate(starts) if start <= number.place)
            if not (QUOTED.match(number.sentence) or title in ("As printed", "Exercises") or number.among(values[part])):
                place = f"{file.relative_to(root).as_posix()}:{number.line}"
                problems.append(
                    f"{place}: says {number.text}, which no test named there holds; a result comes by {{{{#value}}}} "
                    f"or {{{{#check}}}}, another number by {{{{#given}}}} with its source: {number.sentence!r}"
                )
        for given in GIVEN.finditer(text):
            count += 1
            line = text.count("\n", 0, given.start()) + 1
            around = text[text.rfind("\n", 0, given.start()) + 1 : given.end() + 20]
            number = Typed(given["number"], given.start(), line, around)
            if wrong := problem_with_source(root, number, given["source"]):
                problems.append(f"{file.relative_to(root).as_posix()}:{line}: gives {number.text}, and {wrong}")
    return count, problems
