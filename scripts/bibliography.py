"""The bibliography of the book: a small strict reader of BibTeX, and citations as Markdown.

`book/bibliography.bib` is plain BibTeX that the style `plain` understands, so that a paper can take it as it is. That is
why the reader is strict: only kinds and fields of that style, values in braces, ASCII with accents written as in TeX.
`book.py` uses three things of it:

    read(text)            the entries by key, or one BibError with everything that is wrong
    Library.citation()    "Kumar, Narasimhan and Cotter (2021)", or "(Kumar, Narasimhan and Cotter, 2021)"
    Library.page()        the entries in order, with anchors and with the chapters that cite each
"""

from __future__ import annotations

import html
import os
import re
import unicodedata
from dataclasses import dataclass, field

# Fields that an entry must have; "a|b" asks for one of the two. `key` sorts what has no author.
REQUIRED = {
    "article": ("author", "title", "journal", "year"),
    "book": ("author", "title", "publisher", "year"),
    "incollection": ("author", "title", "booktitle", "publisher", "year"),
    "inproceedings": ("author", "title", "booktitle", "year"),
    "misc": ("author|key", "title"),
    "techreport": ("author", "title", "institution", "year"),
    "unpublished": ("author", "title", "note"),
}
OPTIONAL = {"address", "edition", "howpublished", "key", "note", "number", "pages", "publisher", "series", "volume", "year"}

KEY = re.compile(r"[a-z][a-z0-9-]*")


class BibError(Exception):
    """Everything that is wrong with a bibliography; each problem is a line number and a sentence."""

    def __init__(self, problems: list[tuple[int, str]]):
        self.problems = problems
        super().__init__("\n".join(f"{line}: {sentence}" for line, sentence in problems))


@dataclass(frozen=True)
class Name:
    """A person, or a body that writes as one."""

    last: str
    first: str = ""

    @property
    def whole(self) -> str:
        return f"{self.first} {self.last}".strip()


@dataclass
class Entry:
    """One work, with its fields as they stand in the file."""

    key: str
    kind: str
    fields: dict[str, str]
    line: int

    def text(self, name: str) -> str:
        """A field as a reader sees it, or nothing."""
        return unicode(self.fields.get(name, ""))

    @property
    def names(self) -> list[Name]:
        return names(self.fields.get("author", ""))

    @property
    def others(self) -> bool:
        """Whether the list of authors goes on."""
        return bool(re.search(r"\sand\s+others\s*$", self.fields.get("author", "")))

    @property
    def authors(self) -> str:
        """Surnames as a text cites them: up to three, otherwise the first."""
        last = [name.last for name in self.names]
        if not last:
            return self.text("key")
        if self.others or len(last) > 3:
            return f"{last[0]} et al."
        return listed(last)

    @property
    def order(self) -> tuple:
        last = [folded(name.last) for name in self.names] or [folded(self.text("key"))]
        return (last, self.fields.get("year", ""), folded(self.text("title")))


def listed(words: list[str]) -> str:
    """"a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def folded(text: str) -> str:
    """Letters without accents and case, for sorting."""
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))
    return plain.replace("ı", "i").replace("ł", "l").replace("ø", "o").casefold()


# ---------------------------------------------------------------- TeX to Unicode

ACCENTS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", "=": "\u0304", "u": "\u0306", ".": "\u0307",
    '"': "\u0308", "r": "\u030a", "H": "\u030b", "v": "\u030c", "c": "\u0327", "k": "\u0328",
}  # fmt: skip
LETTERS = {"i": "ı", "j": "ȷ", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "ss": "ß", "ae": "æ", "AE": "Æ", "aa": "å", "AA": "Å"}
SIGNS = [("---", "—"), ("--", "–"), ("``", "“"), ("''", "”"), ("~", "\u00a0")]


def unicode(tex: str) -> str:
    """A value of BibTeX as Unicode. Raises ValueError for TeX that is more than accents and braces."""
    text = re.sub(r"\s+", " ", tex).strip()

    def accent(found):
        base = found["base"] or found["braced"] or found["command"] or ""
        # An accent replaces the dot of an i.
        base = {"ı": "i", "ȷ": "j"}.get(LETTERS.get(base.lstrip("\\"), base), LETTERS.get(base.lstrip("\\"), base))
        return unicodedata.normalize("NFC", base + ACCENTS[found["mark"]])

    # \"o, \"{o}, \'{\i}, \v{c}; a mark that is a letter needs a brace or a space after it.
    text = re.sub(
        r"\\(?P<mark>[`'^~=.\"]|[urHvck](?![A-Za-z]))\s*(?:\{(?P<braced>\\?[A-Za-z]+)\}|(?P<command>\\[ij])(?![A-Za-z])|(?P<base>[A-Za-z]))",
        accent,
        text,
    )
    text = re.sub(
        r"\\(" + "|".join(sorted(LETTERS, key=len, reverse=True)) + r")(?![A-Za-z])\s*(?:\{\})?", lambda m: LETTERS[m[1]], text
    )
    for tex_sign, sign in SIGNS:
        text = text.replace(tex_sign, sign)
    text = re.sub(r"\\([&%_#$])", lambda m: f"\x00{ord(m[1])}\x00", text)
    if left := re.search(r"\\[A-Za-z]*.?|\$", text):
        raise ValueError(f"`{left[0]}` is TeX that the page cannot show; only accents are understood")
    text = text.replace("{", "").replace("}", "")
    return re.sub("\x00(\\d+)\x00", lambda m: chr(int(m[1])), text)


def names(author: str) -> list[Name]:
    """The persons of an author field, each written `Last, First`, and bodies in braces of their own."""
    found = []
    for one in re.split(r"\s+and\s+", author.strip()) if author.strip() else []:
        if one == "others":
            continue
        if re.fullmatch(r"\{.*\}", one):
            found.append(Name(unicode(one)))
            continue
        last, comma, first = one.partition(",")
        if not comma or not first.strip() or "," in first:
            raise ValueError(f"the author `{one}` is not written `Last, First`; a body stands in braces of its own")
        found.append(Name(unicode(last), unicode(first)))
    return found


# ---------------------------------------------------------------- the reader


def read(text: str) -> dict[str, Entry]:
    """The entries of a file by key. Raises one BibError with all problems."""
    entries: dict[str, Entry] = {}
    problems: list[tuple[int, str]] = []
    at = 0

    def line(position: int) -> int:
        return text.count("\n", 0, position) + 1

    for sign in re.finditer(r"[^\x00-\x7f]", text):
        problems.append((line(sign.start()), f"`{sign[0]}` is not ASCII; write accents as TeX does, such as {{\\\"o}}"))
    while True:
        gap = re.compile(r"(?:\s|%[^\n]*(?:\n|$))*").match(text, at)
        at = gap.end()
        if at == len(text):
            break
        head = re.compile(r"@([A-Za-z]+)\s*\{\s*([^\s,{}]*)\s*,").match(text, at)
        if not head:
            raise BibError([*problems, (line(at), "this is no entry; one begins with @kind{key, and comments with %")])
        kind, key, began = head[1].lower(), head[2], line(at)
        try:
            values, at = fields(text, head.end())
        except ValueError as error:
            raise BibError([*problems, (line(error.args[1]), error.args[0])]) from None
        entry = Entry(key, kind, values, began)
        problems += [(began, f"`{key}`: {sentence}") for sentence in faults(entry)]
        if key in entries:
            problems.append((began, f"`{key}` is already an entry, at line {entries[key].line}"))
        entries[key] = entry
    if problems:
        raise BibError(problems)
    return entries


def fields(text: str, at: int) -> tuple[dict[str, str], int]:
    """The fields of an entry whose key has been read, and where the entry ends."""
    values: dict[str, str] = {}
    while True:
        space = re.compile(r"\s*").match(text, at)
        at = space.end()
        if text.startswith("}", at):
            return values, at + 1
        name = re.compile(r"([A-Za-z]+)\s*=\s*").match(text, at)
        if not name:
            raise ValueError("a field is written name = {value}, with a comma after it", at)
        if name[1].lower() in values:
            raise ValueError(f"the field {name[1]} is there twice", at)
        at = name.end()
        if number := re.compile(r"\d+").match(text, at):
            value, at = number[0], number.end()
        elif text.startswith("{", at):
            depth, end = 0, at
            while end < len(text):
                # A backslash protects the sign after it.
                if text[end] == "\\":
                    end += 1
                elif text[end] in "{}":
                    depth += 1 if text[end] == "{" else -1
                    if depth == 0:
                        break
                end += 1
            if depth or end >= len(text):
                raise ValueError(f"the value of {name[1]} is never closed", at)
            value, at = text[at + 1 : end], end + 1
        else:
            raise ValueError(f"the value of {name[1]} stands neither in braces nor is a number", at)
        values[name[1].lower()] = value
        after = re.compile(r"\s*(,)?\s*").match(text, at)
        if not after[1] and not text.startswith("}", after.end()):
            raise ValueError(f"a comma is missing after the field {name[1]}", at)
        at = after.end()


def faults(entry: Entry) -> list[str]:
    """What is wrong with one entry, as sentences without a full stop."""
    if entry.kind not in REQUIRED:
        return [f"@{entry.kind} is no kind we use; there are {', '.join(REQUIRED)}"]
    found = []
    if not KEY.fullmatch(entry.key):
        found.append("a key is small letters, digits and hyphens and begins with a letter")
    for wanted in REQUIRED[entry.kind]:
        if not any(entry.fields.get(name, "").strip() for name in wanted.split("|")):
            found.append(f"the field {wanted.replace('|', ' or ')} is missing")
    known = OPTIONAL | {name for wanted in REQUIRED[entry.kind] for name in wanted.split("|")}
    found += [f"the field {name} is unknown to @{entry.kind}" for name in entry.fields if name not in known]
    found += [f"the field {name} is empty" for name, value in entry.fields.items() if not value.strip()]
    if not re.fullmatch(r"(?:1[5-9]|20)\d\d", entry.fields.get("year", "2000")):
        found.append(f"`{entry.fields['year']}` is no year")
    if not re.fullmatch(r"[\w.:]+(?:--[\w.:]+)?", entry.fields.get("pages", "1")):
        found.append(f"`{entry.fields['pages']}` are no pages; write them as 12--34")
    for name, value in entry.fields.items():
        try:
            unicode(value)
            if name == "author":
                names(value)
        except ValueError as error:
            found.append(f"in the field {name}, {error}")
    return found


# ---------------------------------------------------------------- citations and the page


def escaped(text: str) -> str:
    """Text that neither HTML nor Markdown nor KaTeX reads as markup."""
    return re.sub(r"([\\`*_\[\]|$])", r"\\\1", html.escape(text, quote=False)).replace("\\$", "&#36;")


@dataclass
class Library:
    """The entries of a book and where they are cited."""

    entries: dict[str, Entry] = field(default_factory=dict)
    home: str = ""  # path of the page that lists them, relative to book/src
    cited: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # key -> (path, title) of pages, in order

    def note(self, key: str, path: str, title: str) -> None:
        """Remembers that a page cites an entry."""
        pages = self.cited.setdefault(key, [])
        if (path, title) not in pages:
            pages.append((path, title))

    def year(self, entry: Entry) -> str:
        """The year, with a letter where two entries would be cited alike."""
        year = entry.fields.get("year", "")
        alike = [e for e in self.entries.values() if e.authors == entry.authors and e.fields.get("year", "") == year]
        if len(alike) == 1 or not year:
            return year
        return year + "abcdefgh"[sorted(alike, key=lambda e: e.order).index(entry)]

    def citation(self, args: str, path: str, seen: set[str]) -> str:
        """What `{{#cite ARGS}}` means on a page: one or more keys, in parentheses or not.

        The first citation of an entry on a page gets an anchor, to which the list of entries leads back; `seen` holds the
        keys that had theirs. Raises ValueError for a key that is no entry.
        """
        bracketed = re.fullmatch(r"\(([^()]*)\)", args.strip())
        keys = (bracketed[1] if bracketed else args).split()
        if not keys:
            raise ValueError("write {{#cite KEY}}, or {{#cite (KEY)}} for a citation in parentheses")
        if not self.home:
            raise ValueError("no page has {{#bibliography}}, so a citation leads nowhere")
        shown = []
        for key in keys:
            if key not in self.entries:
                raise ValueError(f"there is no entry `{key}` in book/bibliography.bib")
            entry = self.entries[key]
            year = self.year(entry)
            label = entry.authors + (f", {year}" if bracketed else f" ({year})") if year else entry.authors
            there = os.path.relpath(self.home, os.path.dirname(path) or ".") if path != self.home else ""
            anchor = "" if key in seen else f'<a id="{self.anchor(key, path)}"></a>'
            seen.add(key)
            shown.append(f"{anchor}[{escaped(label)}]({there}#ref-{key})")
        return f"({'; '.join(shown)})" if bracketed else listed(shown)

    def anchor(self, key: str, path: str) -> str:
        """Where a page cites an entry first. Ids are unique in the whole book, since one page prints all of it."""
        return f"cite-{key}-" + re.sub(r"\W+", "-", path.removesuffix(".md"))

    def page(self, path: str) -> str:
        """What `{{#bibliography}}` means: all entries in order, each with the pages that cite it."""
        rows = []
        for entry in sorted(self.entries.values(), key=lambda e: e.order):
            back = []
            for page, title in self.cited.get(entry.key, []):
                there = "" if page == path else os.path.relpath(page, os.path.dirname(path) or ".")
                # A notebook links to an entry and has no anchor of ours.
                place = there if page.startswith("notebooks/") else f"{there}#{self.anchor(entry.key, page)}"
                back.append(f"[{escaped(title)}]({place})")
            cited = f' <span class="cited">Cited in {listed(back)}.</span>' if back else ""
            rows.append(f'<li id="ref-{entry.key}">\n\n{self.reference(entry)}{cited}\n\n</li>')
        return '<ul class="references">\n' + "\n".join(rows) + "\n</ul>\n"

    def reference(self, entry: Entry) -> str:
        """One entry as a reader of the list sees it."""
        people = [name.whole for name in entry.names]
        if entry.others:
            people.append("others")
        parts = [f"{escaped(listed(people))}."] if people else []
        parts.append(f"*{escaped(entry.text('title'))}.*")
        where = ", ".join(linked(part) for part in [*self.where(entry), entry.text("howpublished"), self.year(entry)] if part)
        parts += [f"{part}." for part in (where, linked(entry.text("note"))) if part]
        return " ".join(parts)

    @staticmethod
    def where(entry: Entry) -> list[str]:
        """Journal, proceedings, publisher and what narrows them down."""
        text = entry.text
        number = f"({text('number')})" if text("number") else ""
        pages = text("pages")
        match entry.kind:
            case "article":
                place = f"{text('volume')}{number}" + (f":{pages}" if pages and text("volume") else "")
                return [" ".join(filter(None, [text("journal"), place]))]
            case "inproceedings" | "incollection":
                volume = f"volume {text('volume')}" if text("volume") else ""
                span = f"pages {pages}" if pages else ""
                return ["In " + text("booktitle"), volume, text("series"), span, text("publisher")]
            case "techreport":
                return [" ".join(filter(None, ["Technical report", text("number")])), text("institution")]
            case "book":
                edition = f"{text('edition')} edition" if text("edition") else ""
                return [edition, text("series"), text("publisher")]
            case _:
                return []


def linked(text: str) -> str:
    """Text in which an address is a link."""
    parts = re.split(r"(https://[^\s,]+)", text)
    return "".join(f"[{part.removeprefix('https://')}]({part})" if i % 2 else escaped(part) for i, part in enumerate(parts))
