"""Errata in a chapter: numbered, with an anchor, and each with the test that demonstrates it.

    {{#erratum LABEL "Title" test=PATH::NAME [test=...]}}

    **Printed:** what the paper says            (or **Not said:** what it leaves open)

    **Right:** what it should say

    **Why:** a proof, a number or a link to either

    {{#enderratum}}

Every erratum has these parts in this order, and the build fails without one of them. Numbers begin anew in each section, so
that they are those of one paper; `{{#ref erratum:LABEL}}` links to one. Misprints that change nothing are listed beside them,
as an ordinary list, and need no test.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

OPENING = re.compile(r"\{\{\s*#erratum\b(?P<args>[^}]*)\}\}\s*$")
CLOSING = re.compile(r"\{\{\s*#enderratum\s*\}\}\s*$")
ARGUMENTS = re.compile(r"\s*(?P<label>[a-z0-9]+(?:-[a-z0-9]+)*)\s+\"(?P<title>[^\"]+)\"(?P<tests>(?:\s+test=\S+)*)\s*")
PARTS = (r"\*\*(?:Printed|Not said):\*\*", r"\*\*Right:\*\*", r"\*\*Why:\*\*")


@dataclass(frozen=True)
class Erratum:
    """One erratum: what links and the evidence need of it."""

    label: str
    number: int  # within its section
    section: str
    tests: list[str]
    line: int

    @property
    def name(self) -> str:
        """As a reference calls it: "erratum 3 of the rate paper"."""
        return f"erratum {self.number} of {self.section[:1].lower()}{self.section[1:]}"


def expand(text: str, shown) -> tuple[str, list[Erratum], list[tuple[int, str]]]:
    """(text, errata, problems) of a chapter: the directives become HTML, and what is between them stays Markdown.

    `shown` writes the name of a test for a narrow page. No line is added or taken away, so that later messages name the
    right ones.
    """
    lines, found, problems = text.split("\n"), [], []
    section, number, fence, open_at = "", 0, False, None
    for at, line in enumerate(lines):
        if re.match(r"\s{0,3}(?:```|~~~)", line):
            fence = not fence
        if fence:
            continue
        if heading := re.match(r"##\s+(.*\S)\s*$", line):
            section, number = heading[1], 0
        if opening := OPENING.match(line):
            if open_at is not None:
                problems.append((at + 1, "an erratum begins inside another one; {{#enderratum}} is missing"))
            arguments = ARGUMENTS.fullmatch(opening["args"])
            if not arguments:
                problems.append((at + 1, 'write {{#erratum LABEL "Title" test=tests/file.rs::name}}'))
                continue
            number += 1
            tests = [word.removeprefix("test=") for word in arguments["tests"].split()]
            if not tests:
                problems.append((at + 1, f"erratum `{arguments['label']}` names no test; a misprint belongs in the list of misprints"))
            found.append(Erratum(arguments["label"], number, section, tests, at + 1))
            open_at = at
            anchor = f"erratum-{arguments['label']}"
            lines[at] = (
                f'<section class="erratum" id="{anchor}"><p class="erratum-title">'
                f'<a href="#{anchor}">{number}.</a> {html.escape(arguments["title"], quote=False)}</p>'
            )
        elif CLOSING.match(line):
            if open_at is None:
                problems.append((at + 1, "{{#enderratum}} stands alone"))
                continue
            erratum = found[-1]
            if wrong := missing("\n".join(lines[open_at + 1 : at])):
                problems.append((erratum.line, f"erratum `{erratum.label}`: {wrong}"))
            names = "<br>and ".join(f"<code>{shown(test)}</code>" for test in erratum.tests)
            lines[at] = f'<p class="erratum-check"><strong>Test:</strong> {names}</p></section>'
            open_at = None
    if open_at is not None:
        problems.append((open_at + 1, "{{#erratum}} is never closed by {{#enderratum}}"))
    return "\n".join(lines), found, problems


def missing(body: str) -> str | None:
    """What the text of an erratum lacks, or nothing."""
    at = 0
    for part in PARTS:
        here = re.compile(rf"^{part}\s+\S", re.M).search(body, at)
        if not here:
            return "it needs the parts **Printed:** (or **Not said:**), **Right:** and **Why:**, each at the beginning of a line, in this order"
        at = here.end()
    # Markdown between tags of HTML needs room.
    return None if body.startswith("\n") and body.endswith("\n") else "a blank line is missing after its first or before its last line"
