"""Rust read without a compiler: tokens, modules with their items and signatures, and what a name means where it stands.

Comments go, strings are emptied, brackets are matched. A module knows what it defines and what its `use` lines bring
in; a crate knows which of its items are public, and under which path.

Needs only the standard library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

# A type as (name, arguments); references are dropped, None is an unknown one. Tuples are named "(", slices and arrays
# "[", closures "Fn" and named functions "fn", with the result as their first argument.
Type = tuple

TOKEN = re.compile(
    r"""(?P<blank>\s+|//(?!/(?!/)|!)[^\n]*|////[^\n]*)
      | (?P<doc>//[/!][^\n]*)
      | (?P<block>/\*)
      | (?P<string>[bc]?r(?P<hash>\#*)".*?"(?P=hash)|[bc]?"(?:\\.|[^"\\])*")
      | (?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\])')
      | (?P<lifetime>'[A-Za-z_]\w*)
      | (?P<number>0[xob][\w]+|\d[\d_]*(?:\.(?![.A-Za-z_])[\d_]*)?(?:[eE][+-]?\d[\d_]*)?(?:[A-Za-z_]\w*)?)
      | (?P<word>(?:r\#)?[A-Za-z_]\w*)
      | (?P<sign>::|->|=>|\.\.=?|.)""",
    re.X | re.S,
)
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
KEYWORDS = frozenset(
    "as async await break const continue dyn else enum extern false fn for if impl in let loop match mod move mut pub "
    "ref return static struct trait true type unsafe use where while".split()
)
WORD = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(repr=False)
class Tokens:
    """The tokens of a source, the line of each, and for each opening bracket where it closes."""

    text: list[str]
    line: list[int]
    close: dict[int, int]

    def after(self, i: int) -> int:
        """Position after the token at i, or after the bracket that opens there."""
        return self.close.get(i, i) + 1

    def until(self, i: int, end: int, *stops: str) -> int:
        """Position of the first of these tokens from i on, outside of inner brackets; `end` if there is none."""
        while i < end and self.text[i] not in stops:
            i = self.after(i)
        return i


def tokens(source: str) -> Tokens:
    """Cuts Rust into tokens. Doc comments stay, as tokens that begin with `//`; a string is `""`, a character `''`."""
    text, lines, at, line = [], [], 0, 1
    while at < len(source):
        found = TOKEN.match(source, at)
        kind, piece, began = found.lastgroup, found[0], line
        if kind == "block":  # comments nest
            depth, end = 1, found.end()
            while depth and end < len(source):
                mark = re.compile(r"/\*|\*/").search(source, end)
                depth += 0 if mark is None else 1 if mark[0] == "/*" else -1
                end = len(source) if mark is None else mark.end()
            piece = source[at:end]
        at += len(piece)
        line += piece.count("\n")
        if kind in ("blank", "block", "lifetime"):
            continue
        text.append({"string": '""', "hash": '""', "char": "''"}.get(kind, piece))
        lines.append(began)
    close, stack = {}, []
    for i, piece in enumerate(text):
        if piece in OPEN:
            stack.append(i)
        elif piece in CLOSE and stack:
            close[stack.pop()] = i
    for i in stack:
        close[i] = len(text)
    return Tokens(text, lines, close)


# ---------------------------------------------------------------- types


def after_angles(text: list[str], i: int) -> int:
    """Position after the `<…>` that opens at i."""
    depth = 0
    while i < len(text):
        depth += (text[i] == "<") - (text[i] == ">")
        i += 1
        if depth == 0:
            break
    return i


def parse_type(code: Tokens, i: int, end: int) -> tuple[Type | None, int]:
    """The type that begins at i, and where it ends."""
    text = code.text
    while i < end and text[i] in ("&", "mut", "dyn", "impl", "*", "const", "?"):
        i += 1
    if i >= end:
        return None, i
    if text[i] in ("(", "["):
        stop, parts, at = code.close[i], [], i + 1
        while at < stop:
            part, at = parse_type(code, at, stop)
            parts.append(part)
            at = code.until(at, stop, ",")
            at += 1
        if text[i] == "[":
            return ("[", tuple(parts[:1])), stop + 1
        return (parts[0] if len(parts) == 1 and text[stop - 1] != "," else ("(", tuple(parts))), stop + 1
    if text[i] == "<" or not WORD.match(text[i]):
        return None, after_angles(text, i) if text[i] == "<" else i + 1
    name, i = text[i], i + 1
    while i + 1 < end and text[i] == "::" and WORD.match(text[i + 1]):
        name, i = text[i + 1], i + 2
    if name in ("Fn", "FnMut", "FnOnce", "fn") and i < end and text[i] == "(":
        takes, i = parse_type(code, i, end)
        takes = takes[1] if takes and takes[0] == "(" else (takes,)
        returns = None
        if i < end and text[i] == "->":
            returns, i = parse_type(code, i + 1, end)
        return ("Fn", (returns, *takes)), i
    if i < end and text[i] == "::":
        i += 1
    parts = []
    if i < end and text[i] == "<":
        stop, i = after_angles(text, i) - 1, i + 1
        while i < stop:
            part, at = parse_type(code, i, stop)
            parts.append(part)
            i = max(at, i + 1)
            depth = 0
            while i < stop and (depth or text[i] != ","):
                depth += (text[i] == "<") - (text[i] == ">")
                i = code.after(i)
            i += 1
        i = stop + 1
    if name in ("Box", "Arc", "Rc", "Cow") and parts:
        return parts[-1], i
    return (name, tuple(parts)), i


# ---------------------------------------------------------------- modules and their items


@dataclass(eq=False, repr=False)
class Item:
    """Something with a name: a function, a method, a type, a constant."""

    name: str
    kind: str  # fn, method, struct, enum, trait, type, const
    public: bool
    file: str
    line: int
    doc: str = ""
    attributes: str = ""
    owner: "Item | None" = None  # of a method
    code: Tokens | None = None
    body: tuple[int, int] | None = None
    takes: list[tuple[tuple[int, int], Type | None]] = field(default_factory=list)  # pattern, type
    returns: Type | None = None
    fields: dict[str, Type | None] = field(default_factory=dict)
    variants: set[str] = field(default_factory=set)
    methods: dict[str, "Item"] = field(default_factory=dict)
    module: "Module | None" = None
    path: str = ""  # public path without the crate's name; set for public items of the crate

    def __repr__(self) -> str:
        return self.path or self.name

    @property
    def is_type(self) -> bool:
        return self.kind in ("struct", "enum", "trait", "type")


@dataclass(eq=False, repr=False)
class Module:
    """One module: what it defines, and what its `use` lines bring into scope."""

    name: str
    parent: "Module | None" = None
    items: dict[str, Item] = field(default_factory=dict)
    modules: dict[str, "Module"] = field(default_factory=dict)
    public_modules: set[str] = field(default_factory=set)
    uses: list[tuple[bool, tuple[str, ...], str]] = field(default_factory=list)  # public, path, name or "*"
    impls: list[tuple[str, dict[str, Item]]] = field(default_factory=list)  # type and functions, if of no trait
    doc: str = ""

    @property
    def root(self) -> "Module":
        return self if self.parent is None else self.parent.root


def parse_use(code: Tokens, i: int) -> tuple[list[tuple[tuple[str, ...], str]], int]:
    """The names of a `use` tree that begins at i (after the keyword), and the position after it."""
    text, found = code.text, []

    def tree(i: int, before: tuple[str, ...]) -> int:
        path = before
        while True:
            if text[i] == "{":
                stop, at = code.close[i], i + 1
                while at < stop:
                    at = tree(at, path)
                    at += at < stop and text[at] == ","
                return stop + 1
            if text[i] == "*":
                found.append((path, "*"))
                return i + 1
            path, i = (path if text[i] == "self" and path else (*path, text[i])), i + 1
            if i < len(text) and text[i] == "::":
                i += 1
                continue
            name = path[-1]
            if i + 1 < len(text) and text[i] == "as":
                name, i = text[i + 1], i + 2
            found.append((path, name))
            return i

    i = tree(i + 1 if text[i] == "::" else i, ())
    return found, i + 1


def parse_function(code: Tokens, i: int, end: int, **about) -> tuple[Item, int]:
    """The function whose name stands at i, and the position after it."""
    text = code.text
    item = Item(text[i], about.pop("kind", "fn"), line=code.line[i], code=code, **about)
    i += 1
    if text[i] == "<":
        i = after_angles(text, i)
    stop, at = code.close[i], i + 1
    while at < stop:
        began = at
        at = code.until(at, stop, ":", ",")
        pattern, kind = (began, at), None
        if at < stop and text[at] == ":":
            kind, at = parse_type(code, at + 1, stop)
            at = code.until(at, stop, ",")
        item.takes.append((pattern, kind))
        at += 1
    i = stop + 1
    if i < end and text[i] == "->":
        item.returns, i = parse_type(code, i + 1, end)
    i = code.until(i, end, "{", ";")
    if i < end and text[i] == "{":
        item.body = (i + 1, code.close[i])
        return item, code.after(i)
    return item, i + 1


def parse_items(code: Tokens, i: int, end: int, module: Module, file: str, load) -> None:
    """Reads the items between i and end into the module; `load(module, name)` reads the file of a `mod name;`."""
    text = code.text
    doc: list[str] = []
    attributes: list[str] = []

    def fields(start: int, stop: int) -> dict[str, Type | None]:
        found, at = {}, start
        while at < stop:
            if text[at] == "#" and at + 1 in code.close:
                at = code.after(at + 1)
            elif text[at].startswith("//"):
                at += 1
            elif at + 1 < stop and WORD.match(text[at]) and text[at + 1] == ":":
                name = text[at]
                found[name], at = parse_type(code, at + 2, stop)
                at = code.until(at, stop, ",")
            else:
                at = code.after(at)
        return found

    while i < end:
        token = text[i]
        if token.startswith("///"):
            doc.append(token[3:].removeprefix(" "))
            i += 1
            continue
        if token == "#" and i + 1 < end and text[i + 1] in ("[", "!"):
            opens = i + 1 if text[i + 1] == "[" else i + 2
            attributes.append(" ".join(text[opens : code.after(opens)]))
            i = code.after(opens)
            continue
        public = token == "pub"
        if public:
            i += 1
            if text[i] == "(":
                public, i = False, code.after(i)
        while i < end and (
            text[i] in ("unsafe", "async", "extern", "default", '""') or (text[i] == "const" and text[i + 1] == "fn")
        ):
            i += 1
        if i >= end:
            break
        about = {"public": public, "file": file, "module": module}
        about |= {"doc": "\n".join(doc), "attributes": " ".join(attributes)}
        token = text[i]
        if token == "mod":
            name = text[i + 1]
            tested = "cfg ( test )" in about["attributes"]
            if text[i + 2] == "{":
                child = Module(name, module)
                parse_items(code, i + 3, code.close[i + 2], child, file, load)
                i = code.after(i + 2)
            else:
                child, i = None if tested else load(module, name), i + 3
            if child is not None and not tested:
                module.modules[name] = child
                if public:
                    module.public_modules.add(name)
        elif token == "use":
            found, i = parse_use(code, i + 1)
            module.uses += [(public, path, name) for path, name in found]
        elif token == "fn":
            item, i = parse_function(code, i + 1, end, **about)
            module.items[item.name] = item
        elif token in ("struct", "enum", "trait", "type", "union"):
            item = Item(text[i + 1], token, line=code.line[i], **about)
            i += 2
            while i < end and text[i] not in ("{", ";", "("):
                i = after_angles(text, i) if text[i] == "<" else i + 1
            if token == "struct" and text[i] == "{":
                item.fields = fields(i + 1, code.close[i])
            elif token == "struct" and text[i] == "(":
                kind, _ = parse_type(code, i, code.after(i))
                inside = kind[1] if kind and kind[0] == "(" else (kind,)
                item.fields = {str(k): part for k, part in enumerate(inside)}
            elif token == "enum":
                at, stop = i + 1, code.close[i]
                while at < stop:
                    if WORD.match(text[at]):
                        item.variants.add(text[at])
                        at = code.until(at, stop, ",")
                        at += 1
                    else:
                        at = code.after(at + 1) if text[at] == "#" else at + 1
            elif token == "trait":
                inner = Module("", module)
                parse_items(code, i + 1, code.close[i], inner, file, load)
                for method in inner.items.values():
                    method.owner, method.kind, method.public = item, "method", public
                item.methods = inner.items
            if token == "type":
                while text[i] != ";":
                    i += 1
            i = code.after(i) if text[i] in OPEN else i + 1
            if i < end and text[i] == ";":
                i += 1
            module.items[item.name] = item
        elif token == "impl":
            i = after_angles(text, i + 1) if text[i + 1] == "<" else i + 1
            kind, i = parse_type(code, i, end)
            of_trait = i < end and text[i] == "for"
            if of_trait:
                kind, i = parse_type(code, i + 1, end)
            while i < end and text[i] != "{":
                i = after_angles(text, i) if text[i] == "<" else i + 1
            inner = Module("", module)
            parse_items(code, i + 1, code.close[i], inner, file, load)
            if kind is not None and not of_trait:
                module.impls.append((kind[0], inner.items))
            i = code.after(i)
        elif token in ("const", "static"):
            item = Item(text[i + 1] if text[i + 1] != "mut" else text[i + 2], "const", line=code.line[i], **about)
            item.returns, i = parse_type(code, i + 3, end)
            i = code.until(i, end, ";")
            module.items[item.name] = item
            i += 1
        elif i + 1 < end and text[i + 1] == "!":  # a macro and its body
            while i < end and text[i] not in OPEN:
                i += 1
            i = code.after(i)
        else:
            i = code.after(i)
        doc, attributes = [], []


def read_module(file: Path, root: Path, name: str = "", parent: Module | None = None) -> Module:
    """The module in a file, with the files of its `mod` lines."""
    code = tokens(file.read_text(encoding="utf-8"))
    folder = file.parent if file.name in ("lib.rs", "main.rs", "mod.rs") or parent is None else file.with_suffix("")

    def load(parent: Module, name: str) -> Module | None:
        for candidate in (folder / f"{name}.rs", folder / name / "mod.rs"):
            if candidate.is_file():
                return read_module(candidate, root, name, parent)
        return None

    module = Module(name, parent)
    module.doc = "\n".join(token[3:].removeprefix(" ") for token in code.text if token.startswith("//!"))
    parse_items(code, 0, len(code.text), module, file.relative_to(root).as_posix(), load)
    if parent is None:
        bind_impls(module)
    return module


def bind_impls(module: Module) -> None:
    """Gives the functions of `impl` blocks to their types, which may be of another module of the crate."""
    for name, functions in module.impls:
        item, _ = lookup(module, name)
        if item is not None and item.is_type:
            for method in functions.values():
                method.owner, method.kind, method.module = item, "method", module
                item.methods.setdefault(method.name, method)
    for child in module.modules.values():
        bind_impls(child)


# ---------------------------------------------------------------- names

Found = tuple  # (item or None, module or None): the two namespaces of a path


def lookup(module: Module, name: str, crate: Module | None = None, seen: set | None = None) -> Found:
    """What a name means in a module; `crate` is what `lastlayer` means there."""
    seen = set() if seen is None else seen
    item, child = module.items.get(name), module.modules.get(name)
    if (id(module), name) in seen:
        return item, child
    seen.add((id(module), name))
    for _, path, alias in module.uses:
        if (item is not None and child is not None) or alias not in (name, "*"):
            continue
        if alias == "*":
            target = resolve(module, path, crate, seen)[1]
            more = lookup(target, name, crate, seen) if target is not None else (None, None)
        else:
            more = resolve(module, path, crate, seen)
        item, child = item or more[0], child or more[1]
    return item, child


def resolve(module: Module, path: tuple[str, ...], crate: Module | None = None, seen: set | None = None) -> Found:
    """What a path means in a module. The last part of a path to a method or a variant gives that method or the enum."""
    first, rest = path[0], path[1:]
    if first == "crate":
        item, at = None, module.root
    elif first == "lastlayer" and crate is not None:
        item, at = None, crate
    elif first in ("self", "super"):
        item, at = None, module if first == "self" else module.parent
    else:
        item, at = lookup(module, first, crate, seen)
    for part in rest:
        if item is not None and item.is_type and at is None:
            item = item.methods.get(part) or (item if part in item.variants else None)
        elif at is not None:
            item, at = (None, at.parent) if part == "super" else lookup(at, part, crate, seen)
        else:
            return None, None
    return item, at


@dataclass(repr=False)
class Crate:
    """The public face of a crate."""

    root: Module
    items: dict[str, Item]  # by public path: "rate::RateProblem::solve"
    types: dict[str, Item]  # by bare name
    methods: dict[str, list[Item]]  # by bare name
    exports: dict[str, list[Item]]  # by public module, what it exports
    docs: dict[str, str]  # by public module

    @classmethod
    def read(cls, root: Path) -> "Crate":
        """The crate in root/src; without one, an empty crate."""
        if not (root / "src" / "lib.rs").is_file():
            return cls(Module(""), {}, {}, {}, {}, {})
        top = read_module(root / "src" / "lib.rs", root)
        docs: dict[str, str] = {}
        exports: dict[str, dict[str, Item]] = {}

        def visit(module: Module, path: str, seen: set[int]) -> None:
            if id(module) in seen or path == "prelude":
                return
            seen.add(id(module))
            here, docs[path] = exports.setdefault(path, {}), module.doc
            below = f"{path}::" if path else ""
            for name, item in module.items.items():
                if item.public:
                    here[name] = item
            for public, target, name in module.uses:
                if not public:
                    continue
                item, child = resolve(module, target)
                if name == "*" and child is not None:
                    for inner, item in child.items.items():
                        if item.public:
                            here.setdefault(inner, item)
                elif item is not None:
                    here.setdefault(name, item)
                elif child is not None:
                    visit(child, below + name, seen)
            for name in module.public_modules:
                visit(module.modules[name], below + name, seen)

        visit(top, "", set())
        # An item that several modules export is at home where its file is.
        paths: dict[Item, list[str]] = {}
        for path, names in exports.items():
            for item in names.values() if path else ():
                paths.setdefault(item, []).append(path)

        def home(item: Item) -> str:
            folder = Path(item.file).with_suffix("").as_posix().removeprefix("src/").replace("/", "::") + "::"
            return min(paths[item], key=lambda path: (not folder.startswith(f"{path}::"), path.count("::"), len(path)))

        items: dict[str, Item] = {}
        types: dict[str, Item | None] = {}
        methods: dict[str, list[Item]] = {}
        for item in paths:
            item.path = f"{home(item)}::{item.name}"
            items[item.path] = item
            if item.is_type:
                types[item.name] = None if item.name in types else item
                for method in item.methods.values():
                    if method.public and method.name != "evcxr_display":
                        method.path = f"{item.path}::{method.name}"
                        items[method.path] = method
                        methods.setdefault(method.name, []).append(method)
        return cls(
            top,
            items,
            {name: item for name, item in types.items() if item is not None},
            methods,
            {path: sorted(set(names.values()), key=lambda i: i.path) for path, names in exports.items() if path},
            docs,
        )
