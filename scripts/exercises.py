"""Exercises of the notebooks: what in them is the reader's, what they print, and their solutions.

An exercise is a code cell tagged `exercise`. It begins with the answer, `let mine = …;`, a wrong one that the reader
replaces. The rest computes the truth and compares, with `check`. Solutions are in notebooks/solutions/<notebook>.rs,
one section for each exercise: a line with the id of its cell, comments that explain, and the cell with the right answer.

    // ==== tour-39
    // Why it is so, in a few sentences of Markdown.
    let mine = 4.0;
    check("exercise 1", mine, &gradient, 1e-9)?;

Standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
SOLUTIONS = NOTEBOOKS / "solutions"

CHECK = re.compile(r"^check (?P<name>[^=]+) = (?P<value>.*) \(tolerance (?P<tolerance>\S+)\): (?P<verdict>.*)$")


def checks(text: str) -> dict[str, re.Match]:
    """The check lines of a text, by name, in order."""
    return {m["name"]: m for m in filter(None, map(CHECK.match, text.splitlines()))}


# --------------------------------------------------------------------------------------------------------------------
# Notebooks, as JSON has them


def joined(text: str | list[str]) -> str:
    """A text that the notebook format may have split into lines."""
    return text if isinstance(text, str) else "".join(text)


def code_cells(notebook: dict) -> dict[str, dict]:
    """The code cells with something in them, by id."""
    cells = (cell for cell in notebook["cells"] if cell["cell_type"] == "code" and joined(cell["source"]).strip())
    return {cell.get("id", f"cell {i}"): cell for i, cell in enumerate(cells)}


def is_exercise(cell: dict) -> bool:
    return "exercise" in cell.get("metadata", {}).get("tags", [])


def exercises(notebook: dict) -> dict[str, str]:
    """The sources of the exercises, by the ids of their cells."""
    return {id: joined(cell["source"]) for id, cell in code_cells(notebook).items() if is_exercise(cell)}


def printed(cell: dict) -> str:
    """What a cell printed, as saved: standard output and plain text."""
    parts = []
    for output in cell.get("outputs", []):
        if output.get("output_type") == "stream" and output.get("name") == "stdout":
            parts.append(joined(output.get("text", "")))
        elif "data" in output:
            parts.append(joined(output["data"].get("text/plain", "")) + "\n")
    return "".join(parts)


# --------------------------------------------------------------------------------------------------------------------
# What in an exercise is the reader's

TOKEN = re.compile(r'(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\])*"|\w+|.', re.S)
# Words that begin a statement which binds names, and the signs at which those names end.
ITEMS = ("fn", "const", "static", "struct", "enum", "trait", "type", "mod", "macro_rules")
BINDS = {"let": "=:;", "use": ";", **dict.fromkeys(ITEMS, "=:;({<")}


def tokens(source: str) -> list[tuple[str, int, int]]:
    """Words and signs of Rust with the depth of brackets they stand at and where they end; no spaces, no comments."""
    found, depth = [], 0
    for match in TOKEN.finditer(source):
        if match["skip"] is not None:
            continue
        depth -= match[0] in (")", "]", "}")
        found.append((match[0], depth, match.end()))
        depth += match[0] in ("(", "[", "{")
    return found


def answer_end(found: list[tuple[str, int, int]]) -> int:
    """How many tokens belong to the answer: up to the end of the last statement `let mine… = …;`, 0 without one."""
    end = 0
    for i, (word, depth, _) in enumerate(found):
        if (word, depth) == ("let", 0) and i + 1 < len(found) and found[i + 1][0].startswith("mine"):
            end = next((j + 1 for j in range(i, len(found)) if found[j][:2] == (";", 0)), len(found))
    return end


def answer(source: str) -> str:
    """The answer of a cell as it is written, with what stands before it."""
    found = tokens(source)
    end = answer_end(found)
    return source[: found[end - 1][2]].strip() if end else ""


def bound(found: list[tuple[str, int, int]]) -> set[str]:
    """Names that statements outside of all brackets give a meaning; what stands in a block stays there."""
    names = set()
    for i, (word, depth, _) in enumerate(found):
        if depth or word not in BINDS:
            continue
        ends = BINDS[word]
        statement = found[i + 1 :]
        stop = next((j for j, token in enumerate(statement) if token[0] in ends and token[1] == 0), len(statement))
        words = [token[0] for token in statement[:stop]]
        if word == "use":  # the last name of each path: `use std::f64::consts::PI` binds PI
            words = [w for w, after in zip(words, [*words[1:], ";"]) if after in (",", "}", ";")]
        names |= {w for w in words if re.fullmatch(r"[A-Za-z_]\w*", w)} - {"mut"}
    return names


def edited(given: str, handed_in: str) -> str | None:
    """Why a cell is no longer the exercise it was, or None if only the answer differs.

    What follows the answer in the given cell must be there, word for word; spaces and comments do not count. Before and
    after it the reader may write what helps, but may not give another meaning to a name that it reads, and not call or
    imitate `check`."""
    whole = tokens(given)
    rest = [token[0] for token in whole[answer_end(whole) :]]
    found = tokens(handed_in)
    words = [token[0] for token in found]
    starts = [i for i in range(len(words) - len(rest) + 1) if words[i : i + len(rest)] == rest]
    if not starts:
        return "what follows the answer was edited"
    before, after = found[: starts[0]], words[starts[0] + len(rest) :]
    if any("check" in word for word in [token[0] for token in before] + after):
        return "a second check was added"
    if names := {name for name in bound(before) & set(rest) if not name.startswith("mine")}:
        return f"it gives another meaning to {', '.join(sorted(names))}"
    return None


# --------------------------------------------------------------------------------------------------------------------
# Solutions

SECTION = re.compile(r"^// ==== (?P<id>\S+)[ \t]*$", re.M)


@dataclass(frozen=True)
class Solution:
    """The solution of one exercise: Markdown that explains, and the cell with the right answer."""

    text: str
    code: str


def parse_solutions(text: str) -> tuple[dict[str, Solution], list[str]]:
    """The solutions of a file by the ids of their cells, and what is wrong with the file."""
    found, problems = {}, []
    sections = list(SECTION.finditer(text))
    for section, after in zip(sections, [*(s.start() for s in sections[1:]), len(text)]):
        lines = text[section.end() : after].strip("\n").split("\n")
        comments = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
        prose = "\n".join(line[2:].removeprefix(" ") for line in lines[:comments]).strip()
        code = "\n".join(lines[comments:]).strip()
        if section["id"] in found:
            problems.append(f"the exercise {section['id']} has two solutions")
        if not prose:
            problems.append(f"the solution of {section['id']} does not explain itself: begin it with comments")
        if not code:
            problems.append(f"the solution of {section['id']} has no code")
        found[section["id"]] = Solution(prose, code)
    return found, problems


def solutions(notebook: dict, stem: str, folder: Path | None = None) -> tuple[dict[str, Solution], list[str]]:
    """The solutions of a notebook, and what is wrong: exercises and solutions must belong to each other."""
    file = (folder or SOLUTIONS) / f"{stem}.rs"
    found, problems = parse_solutions(file.read_text(encoding="utf-8")) if file.exists() else ({}, [])
    asked = exercises(notebook)
    for id, source in asked.items():
        if not answer(source):
            problems.append(f"the exercise {id} has no line `let mine = …;` for the answer")
        if id not in found:
            problems.append(f"the exercise {id} has no solution; it belongs in notebooks/solutions/{file.name}")
        elif why := edited(source, found[id].code):
            problems.append(f"the solution of {id} is not that cell with another answer: {why}")
    problems += [f"there is a solution of {id}, but no such exercise" for id in found.keys() - asked.keys()]
    return found, problems

