"""Entries of the errata: numbered, with an anchor, each of one kind and with the test that demonstrates it.

    {{#erratum LABEL KIND "Title" test=PATH::NAME [test=...]}}

    **Printed:** what the paper says

    **Right:** what it should say

    **Why:** a proof, a number or a link to either

    {{#enderratum}}

The kind says what may be claimed, and so which parts there are, in this order:

    error         **Printed:**   **Right:**   **Why:**    wrong as printed
    unsaid        **Not said:**  **Needed:**  **Why:**    an assumption, a constant or a definition is missing
    statistics    **Printed:**   **Shown:**   **Why:**    the evidence does not carry the claim
    unreproduced  **Printed:**   **Here:**    **Why:**    perhaps so there, but not in what we can run or read

An entry stands below a heading of third level that begins with the title of its kind, and the build fails otherwise. Numbers
begin anew in each section of second level, so that they are those of one paper; `{{#ref erratum:LABEL}}` links to one.
`{{#errata}}` is a table of how many there are. Misprints that change nothing are listed beside them, as an ordinary list, and
need no test.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

OPENING = re.compile(r"\{\{\s*#erratum\b(?P<args>[^}]*)\}\}\s*$")
CLOSING = re.compile(r"\{\{\s*#enderratum\s*\}\}\s*$")
COUNTS = re.compile(r"\{\{\s*#errata\s*\}\}\s*$")
ARGUMENTS = re.compile(
    r"\s*(?P<label>[a-z0-9]+(?:-[a-z0-9]+)*)\s+(?P<kind>[a-z]+)\s+\"(?P<title>[^\"]+)\"(?P<tests>(?:\s+test=\S+)*)\s*"
)
# Kind: the title of its sections, and the first two parts of its entries.
KINDS = {
    "error": ("Errors", "Printed", "Right"),
    "unsaid": ("Not said", "Not said", "Needed"),
    "statistics": ("Statistical criticism", "Printed", "Shown"),
    "unreproduced": ("Not reproduced here", "Printed", "Here"),
}


@dataclass(frozen=True)
class Erratum:
    """One entry: what links, counts and the evidence need of it."""

    label: str
    kind: str
    number: int  # within its section
    section: str
    tests: list[str]
    line: int

    @property
    def name(self) -> str:
        """As a reference calls it: "entry 3 on the rate paper"; not every entry is an error."""
        return f"entry {self.number} on {self.section[:1].lower()}{self.section[1:]}"


def expand(text: str, shown) -> tuple[str, list[Erratum], list[tuple[int, str]]]:
    """(text, errata, problems) of a chapter: the directives become HTML, and what is between them stays Markdown.

    `shown` writes the name of a test for a narrow page. No line is added or taken away, so that later messages name the
    right ones.
    """
    lines, found, problems = text.split("\n"), [], []
    section, part, number, fence, open_at = "", "", 0, False, None
    for at, line in enumerate(lines):
        if re.match(r"\s{0,3}(?:```|~~~)", line):
            fence = not fence
        if fence:
            continue
        if heading := re.match(r"##\s+(.*\S)\s*$", line):
            section, part, number = heading[1], "", 0
        if heading := re.match(r"###\s+(.*\S)\s*$", line):
            part = heading[1]
        if opening := OPENING.match(line):
            if open_at is not None:
                problems.append((at + 1, "an erratum begins inside another one; {{#enderratum}} is missing"))
            arguments = ARGUMENTS.fullmatch(opening["args"])
            if not arguments:
                problems.append((at + 1, f'write {{{{#erratum LABEL KIND "Title" test=tests/file.rs::name}}}}, where KIND is {", ".join(KINDS)}'))
                continue
            label, kind = arguments["label"], arguments["kind"]
            if kind not in KINDS:
                problems.append((at + 1, f"erratum `{label}` is of the kind `{kind}`; a kind is one of {', '.join(KINDS)}"))
                continue
            if not part.startswith(KINDS[kind][0]):
                problems.append((at + 1, f"erratum `{label}` stands below `{part}`; its kind belongs below `### {KINDS[kind][0]} …`"))
            number += 1
            tests = [word.removeprefix("test=") for word in arguments["tests"].split()]
            if not tests:
                problems.append((at + 1, f"erratum `{label}` names no test; a misprint belongs in the list of misprints"))
            found.append(Erratum(label, kind, number, section, tests, at + 1))
            open_at = at
            anchor = f"erratum-{label}"
            lines[at] = (
                f'<section class="erratum" id="{anchor}"><p class="erratum-title">'
                f'<a href="#{anchor}">{number}.</a> {html.escape(arguments["title"], quote=False)}</p>'
            )
        elif CLOSING.match(line):
            if open_at is None:
                problems.append((at + 1, "{{#enderratum}} stands alone"))
                continue
            erratum = found[-1]
            if wrong := missing("\n".join(lines[open_at + 1 : at]), erratum.kind):
                problems.append((erratum.line, f"erratum `{erratum.label}`: {wrong}"))
            names = "<br>and ".join(f"<code>{shown(test)}</code>" for test in erratum.tests)
            lines[at] = f'<p class="erratum-check"><strong>Test:</strong> {names}</p></section>'
            open_at = None
    if open_at is not None:
        problems.append((open_at + 1, "{{#erratum}} is never closed by {{#enderratum}}"))
    return "\n".join(table(found) if COUNTS.match(line) else line for line in lines), found, problems


def table(found: list[Erratum]) -> str:
    """How many entries of each kind each section has, in one line of HTML; a number links to the first of them."""

    def row(title: str, these: list[Erratum]) -> str:
        few = [[one for one in these if one.kind == kind] for kind in KINDS]
        cells = [title, *(f'<a href="#erratum-{some[0].label}">{len(some)}</a>' if some else "0" for some in few), len(these)]
        return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"

    head = "".join(f"<th>{title}</th>" for title in ["", *(title for title, _, _ in KINDS.values()), "all"])
    sections = dict.fromkeys(one.section for one in found)
    rows = [row(html.escape(here), [one for one in found if one.section == here]) for here in sections]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join([*rows, row('all', found)])}</tbody></table>"


def missing(body: str, kind: str) -> str | None:
    """What the text of an entry of this kind lacks, or nothing."""
    at, parts = 0, (*KINDS[kind][1:], "Why")
    for part in parts:
        here = re.compile(rf"^\*\*{part}:\*\*\s+\S", re.M).search(body, at)
        if not here:
            wanted = ", ".join(f"**{part}:**" for part in parts)
            return f"as one of the kind `{kind}` it needs the parts {wanted}, each at the beginning of a line, in this order"
        at = here.end()
    # Markdown between tags of HTML needs room.
    return None if body.startswith("\n") and body.endswith("\n") else "a blank line is missing after its first or before its last line"
