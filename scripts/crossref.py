"""Cross references of the book, found in the sources each time it is built: equation, function, test, notebook cell.

An equation names its tests. A test calls functions of the crate, itself or through helpers of its test program; a cell
of a notebook calls some of the same; and the doc comment of a function may name its equation, as in

    Book: `rate/implicit.md#eq-rate-implicit-root`.

From these come the line under an equation, the line under a cell, and the page "Index of functions". A link between
equation and cell is made for both ends at once, so each has its way back. `tools/rustmap` reads the Rust.

Needs the standard library and cargo.
"""

from __future__ import annotations

import html
import json
import math
import os
import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import kernel

SHOWN_FUNCTIONS, SHOWN_CELLS, SHOWN_EQUATIONS = 4, 2, 3
# The page of all functions: the modules of which it lists every public item, and how much of each item it shows.
METHODS = ("rate", "lp", "foca", "adversary", "intersection")
LISTED_EQUATIONS, LISTED_CELLS, LISTED_TESTS = 12, 6, 12

# Modules and types that are everywhere and explain no equation; tools do only where they are the subject.
BACKGROUND_MODULES = frozenset("check error figure files kernel numbers progress record seed table tensor_file".split())
BACKGROUND_TYPES = frozenset(
    "Batch ClassRows Codes Dataset Features Labels Layer Matrix Net Part Parts Pass Plan Run Step Trainer".split()
)
TOOLS = frozenset(("distribution", "linalg"))
# What a part of the book is about, where the name of its folder does not say it.
SUBJECTS = {
    "rate": ("rate",),
    "lp": ("lp",),
    "foca": ("foca", "probe"),
    "adversary": ("adversary", "probe", "metrics"),
    "intersection": ("intersection", "tree", "ops"),
    "measures": ("metrics", "data", "model", "loss", "distribution"),
    "together": (*METHODS, "probe", "tree", "metrics"),
}
# A method of at most so many tokens hands out a field or sets one.
ACCESSOR = 9
# Below these an item is a passer-by, and a cell has little to do with an equation.
LEAST_SHARE, LEAST_LIKENESS = 0.4, 0.25
# A cell with a single call is not more to the point than one with two. An equation that a function names is closer to
# the cells that use it, and so is one of the notebook's own part. A function of many equations links a cell to none of
# them, unless it names it.
SHORT_CELL, NAMED, OWN_PART, MANY = 5.0, 1.5, 1.25, 8


@dataclass(eq=False, repr=False)
class Item:
    """A public item of the crate."""

    path: str  # by which users reach it, without the crate's name
    kind: str  # fn, method, struct, enum, trait, type, const
    is_type: bool
    file: str
    line: int
    doc: str
    size: int  # of a function: tokens in its body
    owner: Item | None  # of a method

    def __repr__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        return self.path.rpartition("::")[2]


@dataclass(frozen=True)
class Cell:
    """A code cell of a notebook."""

    notebook: str
    id: str
    section: str  # the heading above it

    @property
    def name(self) -> str:
        return f"{self.notebook}, {self.section}" if self.section else self.notebook


@dataclass
class Equation:
    """An equation of the book, with the functions that its tests use."""

    label: str
    chapter: str  # path in book/src
    tests: list[str]
    weights: dict[Item, float] = field(default_factory=dict)  # how much each function has to do with it
    named_by: set[Item] = field(default_factory=set)  # functions whose doc comment names it
    cells: list[Cell] = field(default_factory=list)

    @property
    def relevant(self) -> list[Item]:
        """Its functions, the most specific first; a type only if none of its methods stands before it."""
        ranked = sorted(self.weights, key=lambda item: (-self.weights[item], item.path))
        least = LEAST_SHARE * self.weights[ranked[0]] if ranked else 0.0
        chosen: list[Item] = []
        for item in ranked:
            if self.weights[item] >= least and not (item.is_type and any(other.owner is item for other in chosen)):
                chosen.append(item)
        return chosen

    @property
    def functions(self) -> list[Item]:
        """Those that are shown under the equation."""
        return self.relevant[:SHOWN_FUNCTIONS]


@dataclass(repr=False)
class Survey:
    """All that refers to each other."""

    code: Code
    equations: dict[str, Equation]
    cells: dict[Cell, list[str]]  # labels of the equations that a cell shows at work
    tests: dict[Item, list[str]]  # function -> all tests that use it
    cells_of: dict[Item, list[Cell]]
    equations_of: dict[Item, list[str]]
    page: str | None = None  # the chapter that lists all functions


# ---------------------------------------------------------------- references in doc comments

BOOK_REFERENCE = re.compile(r"\b[Bb]ook:\s+`?(?P<chapter>[\w-]+(?:/[\w-]+)*\.md)(?:#(?P<anchor>[\w-]+))?")
# What follows a comma, as in "Book: `a.md#eq-x`, `#eq-y`, `b.md#eq-z`"; without a chapter it is of the one before.
MORE = re.compile(r"`?,\s+`(?P<chapter>[\w-]+(?:/[\w-]+)*\.md)?(?:#(?P<anchor>[\w-]+))`")


def book_references(doc: str) -> list[tuple[str, str]]:
    """(chapter, anchor or "") of every reference to the book in a doc comment."""
    found, text = [], " ".join(doc.split())
    for first in BOOK_REFERENCE.finditer(text):
        chapter, at = first["chapter"], first.end()
        found.append((chapter, first["anchor"] or ""))
        while more := MORE.match(text, at):
            chapter, at = more["chapter"] or chapter, more.end() - 1
            found.append((chapter, more["anchor"]))
    return found


# ---------------------------------------------------------------- what uses what


def specific(item: Item) -> bool:
    """Whether an item can explain an equation at all."""
    kind = item.owner or item
    return item.path.split("::")[0] not in BACKGROUND_MODULES and kind.name not in BACKGROUND_TYPES


def meant(item: Item) -> Item:
    """What a use says about: making a value with `new` or `of` is a use of its type."""
    return item.owner if item.owner is not None and item.name in ("new", "of", "default") else item


def matter(item: Item) -> float:
    """How much a use of an item tells: less if it names a type or a method with little in it, as those that hand out a
    field."""
    if item.kind != "method":
        return 1.0 if item.kind == "fn" else 0.5
    return 0.2 if item.size <= ACCESSOR else min(1.0, 0.4 + item.size / 200)


@dataclass(repr=False)
class Code:
    """The public face of a crate, and what its tests and the cells of its notebooks use: 0 by themselves, 1 through a
    function of their program or an earlier cell, and so on."""

    items: dict[str, Item] = field(default_factory=dict)
    exports: dict[str, list[Item]] = field(default_factory=dict)  # by public module, what it exports
    docs: dict[str, str] = field(default_factory=dict)  # by public module
    tests: dict[str, dict[Item, int]] = field(default_factory=dict)
    cells: dict[Cell, dict[Item, int]] = field(default_factory=dict)
    unclear: list[str] = field(default_factory=list)  # calls of which the sources do not tell the type

    @classmethod
    def read(cls, root: Path, notebooks: dict[str, dict]) -> Code:
        """The crate in root/src; without one, nothing."""
        if not (root / "src" / "lib.rs").is_file():
            return cls()
        cells = {name: code_cells(name, notebook) for name, notebook in notebooks.items()}
        triple = kernel.host_triple(kernel.real_tool("rustc"))
        done = subprocess.run(
            ["cargo", "run", "--quiet", f"--target={triple}", "--package=lastlayer-rustmap", "--", str(root)],
            cwd=kernel.ROOT,
            env={**os.environ, "RUSTFLAGS": kernel.rustflags()},  # as the tests, so that both share one build
            input=json.dumps({name: [source for _, source, _ in listed] for name, listed in cells.items()}),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise ValueError(f"the sources cannot be read: {done.stderr.strip()}")
        said, found = json.loads(done.stdout), cls()
        for about in sorted(said["items"], key=lambda about: about["kind"] == "method"):
            found.items[about["path"]] = Item(**{**about, "owner": found.items.get(about["owner"])})
        for path, module in said["modules"].items():
            if path and path.split("::")[0] != "prelude":
                found.docs[path] = module["doc"]
                found.exports[path] = [found.items[name] for name in sorted(module["exports"])]
        for k, function in enumerate(said["functions"]):
            if function["test"]:
                found.tests[function["test"]] = found.depths(said["functions"], k)
        for name, listed in cells.items():
            for k, (cell, _, is_exercise) in enumerate(listed):
                if not is_exercise:  # it would give itself away
                    found.cells[cell] = {}
                    for item, depth in found.depths(said["cells"][name], k).items():
                        found.cells[cell].setdefault(meant(item), depth)
        bodies = [*said["functions"], *(body for listed in said["cells"].values() for body in listed)]
        found.unclear = [sentence for body in bodies for sentence in body["unclear"]]
        return found

    def depths(self, bodies: list[dict], start: int) -> dict[Item, int]:
        """What one of several bodies that call each other uses."""
        found: dict[Item, int] = {}
        seen, layer, depth = {start}, [start], 0
        while layer:
            for at in layer:
                for path in bodies[at]["uses"]:
                    found.setdefault(self.items[path], depth)
            layer = list(dict.fromkeys(call for at in layer for call in bodies[at]["calls"] if call not in seen))
            depth += 1
            seen.update(layer)
        return found


def code_cells(name: str, notebook: dict) -> list[tuple[Cell, str, bool]]:
    """The code cells of a notebook: with their section, their source, and whether they are exercises."""
    found, section = [], ""
    for cell in notebook.get("cells", []):
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            is_exercise = "exercise" in cell.get("metadata", {}).get("tags", [])
            found.append((Cell(name, cell.get("id", ""), section), source, is_exercise))
        else:
            section = (re.findall(r"^##+\s+(.*\S)", source, re.M) or [section])[-1]
    return found


def survey(
    root: Path, equations: list[tuple[str, str, list[str]]], notebooks: dict[str, dict], page: str | None = None
) -> Survey:
    """Reads crate, tests and notebooks; `equations` are (chapter, label, tests), `page` lists all functions."""
    code = Code.read(root, notebooks)
    named: dict[str, list[Item]] = {}  # label -> items whose doc comment names the equation
    for item in code.items.values():
        for _, anchor in book_references(item.doc):
            if anchor.startswith("eq-"):
                named.setdefault(anchor.removeprefix("eq-"), []).append(item)

    depths: dict[str, dict[Item, int]] = {}
    for _, label, tests in equations:
        near: dict[Item, int] = {}
        for test in tests:
            for used, depth in code.tests.get(test, {}).items():
                item = meant(used)
                near[item] = min(depth, near.get(item, depth))
        depths[label] = {item: depth for item, depth in near.items() if specific(item)}

    # A type is as common as all of its methods together.
    users = Counter(item for near in depths.values() for item in {*near, *(item.owner for item in near if item.owner)})
    rarity = {item: math.log((1 + len(equations)) / count) for item, count in users.items()}
    found: dict[str, Equation] = {}
    for chapter, label, tests in equations:
        equation = found[label] = Equation(label, chapter, tests)
        part = chapter.split("/")[0]
        for item, depth in depths[label].items():
            module = item.path.split("::")[0]
            at_home = module in SUBJECTS.get(part, (part,))
            if at_home or module not in TOOLS:
                equation.weights[item] = rarity[item] * matter(item) * 0.5**depth * (1.0 if at_home else 0.4)
        most = max(equation.weights.values(), default=1.0)
        for item in named.get(label, []):
            equation.named_by.add(item)
            equation.weights[item] = most + 1.0 + equation.weights.get(item, 0.0)

    cells_of: dict[Item, list[Cell]] = {}
    for cell, near in code.cells.items():
        for item, depth in near.items():
            if depth == 0:
                cells_of.setdefault(item, []).append(cell)
    tests_of: dict[Item, list[str]] = {}
    for test, near in code.tests.items():
        for item in dict.fromkeys(meant(item) for item, depth in near.items() if depth <= 1):
            tests_of.setdefault(item, []).append(test)
    equations_of: dict[Item, list[str]] = {}
    for label, equation in found.items():
        for item in dict.fromkeys([*equation.relevant, *equation.named_by]):
            equations_of.setdefault(item, []).append(label)

    links: dict[Cell, list[str]] = {cell: [] for cell in code.cells}
    for _, label, cell in likeness(found, code.cells):
        if len(found[label].cells) < SHOWN_CELLS and len(links[cell]) < SHOWN_EQUATIONS:
            found[label].cells.append(cell)
            links[cell].append(label)
    return Survey(code, found, links, tests_of, cells_of, equations_of, page)


def likeness(equations: dict[str, Equation], cells: dict[Cell, dict[Item, int]]) -> list[tuple[float, str, Cell]]:
    """Equation and cell, closest first: the cosine between what they use, rare items counting more."""
    count = Counter(item for near in cells.values() for item, depth in near.items() if depth == 0)
    weigh = {item: math.log((1 + len(cells)) / n) for item, n in count.items() if specific(item)}
    of_cell = {
        cell: {item: weigh[item] * matter(item) * 0.5**depth for item, depth in near.items() if item in weigh}
        for cell, near in cells.items()
    }
    by_item: dict[Item, list[Cell]] = {}
    for cell, weights in of_cell.items():
        for item in weights:
            by_item.setdefault(item, []).append(cell)

    def length(weights: dict[Item, float]) -> float:
        return math.sqrt(sum(weight * weight for weight in weights.values()))

    uses = Counter(item for equation in equations.values() for item in equation.functions)
    pairs = []
    for label, equation in equations.items():
        shown = {item: equation.weights[item] for item in equation.functions}
        telling = [item for item in shown if item in equation.named_by or uses[item] <= MANY]
        for cell in dict.fromkeys(cell for item in telling for cell in by_item.get(item, [])):
            mine = of_cell[cell]
            shared = sum(weight * mine[item] for item, weight in shown.items() if item in mine)
            alike = shared / (length(equation.weights) * max(length(mine), SHORT_CELL))
            alike *= NAMED if equation.named_by & mine.keys() else 1.0
            alike *= OWN_PART if cell.notebook.partition("_")[2] == equation.chapter.partition("/")[0] else 1.0
            if alike >= LEAST_LIKENESS:
                pairs.append((alike, label, cell))
    return sorted(pairs, key=lambda pair: (-round(pair[0], 9), pair[1], pair[2].notebook, pair[2].id))


# ---------------------------------------------------------------- pages


def anchor(item: Item) -> str:
    """The address of an item on the page of all functions."""
    return "fn-" + item.path.replace("::", "-")


def short(item: Item) -> str:
    """An item's name as a reader writes it: with its type, without its module."""
    return f"{item.owner.name}::{item.name}" if item.owner is not None else item.name


def breakable(name: str) -> str:
    """A long name that a narrow page may break where a reader would."""
    return re.sub(r"(::|_|/)", r"\1<wbr>", html.escape(name))


def as_code(name: str) -> str:
    return f"<code>{breakable(name)}</code>"


def relative(path: str, from_path: str) -> str:
    return os.path.relpath(path, os.path.dirname(from_path) or ".")


def inline(markdown: str) -> str:
    """A sentence of a doc comment as HTML: code, emphasis, powers, and the words of links."""
    text = re.sub(r"\[([^\]]+)\](?:\([^)]*\))?", r"\1", markdown)
    parts = re.split(r"`([^`]*)`", text)
    parts[::2] = [re.sub(r"\*([^*\s][^*]*)\*", r"<em>\1</em>", html.escape(part)) for part in parts[::2]]
    parts[::2] = [re.sub(r"\^\{([^}]*)\}", r"<sup>\1</sup>", part) for part in parts[::2]]
    parts[1::2] = [f"<code>{html.escape(part)}</code>" for part in parts[1::2]]
    return "".join(parts).replace("$", "&#36;").replace("{{", "&#123;{")


def first_sentence(doc: str) -> str:
    paragraph = " ".join(doc.strip().split("\n\n")[0].split())
    found = re.match(r".+?[.!?](?=\s+[A-Z`\[(]|$)", paragraph)
    return found[0] if found else paragraph


def equation_link(label: str, targets: dict, from_path: str) -> str:
    """`targets` are the book's: label -> something with chapter, anchor and name."""
    to = targets[label]
    there = "" if to.chapter.path == from_path else relative(to.chapter.path, from_path)
    title = html.escape(to.chapter.title, quote=True)
    return f'<a href="{there}#{to.anchor}" title="{title}">{to.name}</a>'


def cell_link(cell: Cell, from_path: str, text: str) -> str:
    title = html.escape(cell.name, quote=True).replace("$", "&#36;")
    return f'<a href="{relative(f"notebooks/{cell.notebook}.md", from_path)}#cell-{cell.id}" title="{title}">{text}</a>'


def under_equation(found: Survey, label: str, from_path: str) -> str:
    """The foldable line under an equation: functions, tests, cells."""
    equation = found.equations[label]

    def function(item: Item) -> str:
        name = as_code(short(item))
        return f'<a href="{relative(found.page, from_path)}#{anchor(item)}">{name}</a>' if found.page else name

    rows = [
        ("function", ", ", [function(item) for item in equation.functions]),
        ("test", "<br>", [as_code(test) for test in equation.tests]),
        ("cell", ", ", [f"{cell_link(at, from_path, as_code(at.id))} of {at.notebook}" for at in equation.cells]),
    ]
    listed = "\n".join(
        f"<dt>{name if len(entries) == 1 else name + 's'}</dt><dd>{between.join(entries)}</dd>"
        for name, between, entries in rows
        if entries
    )
    return f'<details class="lives"><summary>where it lives</summary>\n<dl>\n{listed}\n</dl>\n</details>'


def under_cells(found: Survey, notebook: str, targets: dict) -> dict[str, str]:
    """The lines under cells of a notebook that an equation is close to, by the cell's id."""
    order, lines, here = {label: k for k, label in enumerate(targets)}, {}, f"notebooks/{notebook}.md"
    for cell, labels in found.cells.items():
        if cell.notebook == notebook and labels:
            links = [equation_link(label, targets, here) for label in sorted(labels, key=order.get)]
            lines[cell.id] = f'<div class="cell-see">see {", ".join(links)}</div>'
    return lines


def all_functions(found: Survey, targets: dict) -> str:
    """The page of all functions: by module, each with its equations, cells and tests."""
    order, from_path = {label: k for k, label in enumerate(targets)}, found.page or ""
    shown = {*found.equations_of, *found.cells_of}
    shown |= {item for module in METHODS for item in found.code.exports.get(module, [])}
    shown |= {item.owner for item in shown if item.owner is not None}
    modules: dict[str, list[Item]] = {}
    for item in shown:
        modules.setdefault((item.owner or item).path.rpartition("::")[0], []).append(item)

    def some(links: list[str], most: int) -> str:
        more = f" and {len(links) - most} more" if len(links) > most else ""
        return ", ".join(links[:most]) + more

    def references(item: Item) -> str:
        labels = sorted(found.equations_of.get(item, []), key=order.get)
        cells, tests = found.cells_of.get(item, []), found.tests.get(item, [])
        parts = []
        if labels:
            links = [equation_link(label, targets, from_path) for label in labels]
            parts.append(f"{'equations' if len(links) > 1 else 'equation'} {some(links, LISTED_EQUATIONS)}")
        if cells:
            links = [cell_link(cell, from_path, html.escape(cell.id)) for cell in cells]
            parts.append(f"{'cells' if len(links) > 1 else 'cell'} {some(links, LISTED_CELLS)}")
        line = f'<div class="function-uses">{" · ".join(parts)}</div>\n' if parts else ""
        if tests:
            files: dict[str, list[str]] = {}
            for test in tests[:LISTED_TESTS]:
                files.setdefault(test.partition("::")[0], []).append(test.partition("::")[2])
            names = "<br>".join(f"{as_code(file)}: {', '.join(map(as_code, inside))}" for file, inside in files.items())
            more = f" and {len(tests) - LISTED_TESTS} more" if len(tests) > LISTED_TESTS else ""
            count = f"{len(tests)} tests" if len(tests) > 1 else "1 test"
            line += f'<details class="lives"><summary>{count}</summary><div>{names}{more}</div></details>\n'
        return line

    def entry(item: Item) -> str:
        kind, file = "method", ""
        if item.owner is None:
            kind, file = "function", f' <span class="function-file">{breakable(item.file)}</span>'
        return (
            f'<div class="{kind}" id="{anchor(item)}">\n'
            f'<div class="function-name">{as_code(short(item))}{file}</div>\n'
            f"<div>{inline(first_sentence(item.doc))}</div>\n{references(item)}"
        )

    page = [" · ".join(f"[{module}](#module-{module.replace('::', '-')})" for module in sorted(modules))]
    for module in sorted(modules):
        page.append(f'<h2 id="module-{module.replace("::", "-")}">{module}</h2>')
        about = inline(first_sentence(found.code.docs.get(module, "")))
        own = sorted(modules[module], key=lambda item: (item.name.lower(), item.name))
        blocks = []
        for item in own:
            if item.owner is None:
                methods = [entry(other) + "</div>\n" for other in own if other.owner is item]
                blocks.append(entry(item) + "".join(methods) + "</div>")
        elsewhere = [item for item in found.code.exports.get(module, []) if item not in own]
        also = ", ".join(f'<a href="#{anchor(item)}">{as_code(short(item))}</a>' for item in elsewhere if item in shown)
        if also:
            blocks.append(f'<div class="function-uses">also exported here: {also}</div>')
        page.append(f'<div class="functions">\n<p>{about}</p>\n' + "\n".join(blocks) + "\n</div>")
    return "\n\n".join(page) + "\n"
