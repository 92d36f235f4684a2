"""Which public items of the crate a piece of Rust uses.

The body of a test, a helper or a notebook cell is walked once, left to right. Names are looked up in the scope where
they stand. Types are followed as far as signatures tell them, so that `problem.solve(…)` is the method of the type that
`problem` has. Where a type is lost, a method counts only if a single type that occurs in the same body has one of that
name. What is missed this way is missed silently; what is reported is there.

Needs only the standard library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rust_source import (
    KEYWORDS,
    OPEN,
    WORD,
    Crate,
    Item,
    Module,
    Tokens,
    Type,
    after_angles,
    lookup,
    parse_function,
    parse_type,
    parse_use,
    resolve,
)

# What methods of the standard library return: the same, what is inside, an entry, what a closure makes of each entry.
KEEPS = frozenset(
    "as_mut as_ref as_slice by_ref chain chunks clone cloned copied filter inspect into_iter into_owned iter iter_mut "
    "map_err or or_else peekable rev skip skip_while step_by take take_while to_owned to_vec windows".split()
)
UNWRAPS = frozenset("expect ok ok_or ok_or_else unwrap unwrap_or unwrap_or_default unwrap_or_else".split())
ENTRIES = frozenset(
    "find first get get_mut last max_by max_by_key min_by min_by_key next nth pop remove swap_remove".split()
)
MAPS = frozenset("and_then filter_map flat_map map map_while".split())
LISTS, PROMISES, FUNCTIONS = ("Vec", "["), ("Option", "Result"), ("Fn", "fn")
# Names that many types outside the crate have as well: without a known type they say nothing.
COMMON = frozenset(
    "abs add all any apply as_str at back ceil clamp clear cmp column columns contains cos count dim dims div dot "
    "drain eq exp fill find fit floor fold forward from get index insert into is_empty iter join key kind len less "
    "ln load map max mean min mul name named names ndim neg new next none norm numbers one open parse path pop pow "
    "push range rank read remove reset reshape resize round row rows save scale seed select shape show sin size "
    "solve sort split sqr sqrt stack std step sub sum swap take tan then to_string transpose update value values "
    "var weight width write x y zero zeros".split()
)


def inside(kind: Type | None, of: tuple[str, ...] = (*LISTS, *PROMISES)) -> Type | None:
    """What a list, an option or a result holds, or what a function returns."""
    return kind[1][0] if kind is not None and kind[0] in of and kind[1] else None


def called_with(item: Item) -> tuple:
    """The types with which a function calls the closure that it takes."""
    return next((kind[1][1:] for _, kind in item.takes if kind is not None and kind[0] == "Fn"), ())


@dataclass
class Uses:
    """What a body uses: items of the crate, and functions of its own program."""

    items: set[Item] = field(default_factory=set)
    helpers: set[Item] = field(default_factory=set)
    seen_types: set[Item] = field(default_factory=set)


class Walk:
    """One pass over a body. `names` are its variables with their types; a notebook hands them from cell to cell."""

    def __init__(self, crate: Crate, module: Module, code: Tokens, names: dict[str, Type | None] | None = None):
        self.crate, self.module, self.code = crate, module, code
        self.text = code.text
        self.names = {} if names is None else names
        self.uses = Uses()
        self.lost: list[str] = []  # method calls on something unknown
        self.called: set[str] = set()  # functions among the names that are called

    # -- what things are

    def item_of(self, kind: Type | None) -> Item | None:
        """The item of a type, of the program itself or of the crate."""
        if kind is None or not kind[0][0].isupper():
            return None
        item = lookup(self.module, kind[0], self.crate.root)[0] or self.crate.types.get(kind[0])
        if item is None or not item.is_type:
            return None
        self.uses.seen_types.add(item)
        return item

    def see(self, kind: Type | None) -> None:
        """Notes a type that is written out, with all that is in it."""
        if kind is not None:
            self.item_of(kind)
            for part in kind[1]:
                self.see(part)

    def result_of(self, item: Item) -> Type | None:
        """The type a function returns, `Self` written out."""
        owner = item.owner.name if item.owner is not None else None

        def written(kind):
            if kind is None:
                return None
            return (owner if kind[0] == "Self" and owner else kind[0], tuple(written(part) for part in kind[1]))

        return written(item.returns)

    def use(self, item: Item) -> None:
        if item.path:
            self.uses.items.add(item)
            if item.owner is not None or item.is_type:
                self.uses.seen_types.add(item.owner or item)
        elif item.kind in ("fn", "method"):
            self.uses.helpers.add(item)

    # -- patterns

    def bind(self, start: int, stop: int, kind: Type | None) -> None:
        """Gives the names of a pattern their types."""
        text = self.text
        while start < stop and text[start] in ("&", "mut", "ref"):
            start += 1
        if start >= stop:
            return
        if stop - start == 1 and WORD.match(text[start]):
            self.names[text[start]] = kind
        elif text[start] in ("(", "[") and self.code.close[start] == stop - 1:
            parts = self.split(start + 1, stop - 1)
            if kind is not None and kind[0] == "(" and text[start] == "(":
                kinds = [*kind[1], *[None] * len(parts)]
            else:
                kinds = [inside(kind, LISTS)] * len(parts)
            for (a, b), part in zip(parts, kinds):
                self.bind(a, b, part)
        elif text[start] in ("Some", "Ok") and start + 1 < stop and text[start + 1] == "(":
            self.bind(start + 2, self.code.close[start + 1], inside(kind, PROMISES))
        else:
            item = None
            if WORD.match(text[start]):
                path, _ = self.path(start, stop)
                item, _ = resolve(self.module, path, self.crate.root)
                if item is not None and item.is_type:
                    self.use(item)
            for i in range(start, stop):
                after = text[i + 1] if i + 1 < stop else ""
                if re.match(r"[a-z]", text[i]) and text[i] not in KEYWORDS and after not in (":", "::", "("):
                    name = text[i - 2] if text[i - 1] == ":" and i - 2 > start else text[i]
                    self.names[text[i]] = item.fields.get(name) if item is not None else None

    def split(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The parts between commas."""
        parts, began, i = [], start, start
        while i < stop:
            if self.text[i] == ",":
                parts.append((began, i))
                began = i + 1
            i = self.code.after(i)
        return parts + ([(began, stop)] if began < stop else [])

    # -- expressions

    def path(self, i: int, end: int) -> tuple[tuple[str, ...], int]:
        """The path at i and the position after it; arguments of types are left out."""
        text, parts = self.text, [self.text[i]]
        i += 1
        while i + 1 < end and text[i] == "::":
            if text[i + 1] == "<":
                i = after_angles(text, i + 1)
            elif WORD.match(text[i + 1]):
                parts.append(text[i + 1])
                i += 2
            else:
                break
        return tuple(parts), i

    def operand(self, i: int) -> bool:
        """Whether an expression may begin at i, judged by the token before it."""
        before = self.text[i - 1] if i else ";"
        ends = before in (")", "]", "}", "?", '""', "''") or before[0].isdigit()
        return not (ends or (WORD.match(before) is not None and before not in KEYWORDS))

    def closure(self, i: int, end: int, hint: tuple = ()) -> tuple[Type, int]:
        """The closure whose first bar is at i, walked with its own names; `hint` are the types it is called with."""
        text, outer, stop = self.text, self.names, self.code.until(i + 1, end, "|")
        self.names = dict(outer)
        for k, (a, b) in enumerate(self.split(i + 1, stop)):
            colon = next((j for j in range(a, b) if text[j] == ":"), b)
            given = parse_type(self.code, colon + 1, b)[0] if colon < b else None
            self.bind(a, colon, given or (hint[k] if k < len(hint) else None))
        i, returns = stop + 1, None
        if i < end and text[i] == "->":
            returns, i = parse_type(self.code, i + 1, end)
            self.item_of(returns)
        stop = self.code.after(i) if i < end and text[i] == "{" else self.code.until(i, end, ",", ";")
        found, after = self.expression(i, stop)
        self.walk(after, stop)
        self.names = outer
        return ("Fn", (returns or (found if after >= stop else None),)), stop

    def expression(self, i: int, end: int, hint: tuple = ()) -> tuple[Type | None, int]:
        """The type of the expression at i, as far as it is one chain of calls, and how far it was read."""
        text = self.text
        while i < end and text[i] in ("&", "*", "mut", "move"):
            i += 1
        if i >= end:
            return None, i
        if text[i] == "|" and self.operand(i):
            return self.closure(i, end, hint)
        if text[i] == "(" and self.operand(i):
            parts = self.split(i + 1, self.code.close[i])
            kinds = []
            for a, b in parts:
                kind, at = self.expression(a, b)
                self.walk(at, b)
                kinds.append(kind if at >= b else None)
            stop = self.code.after(i)
            return self.postfix(("(", tuple(kinds)) if len(parts) > 1 else kinds[0] if kinds else None, stop, end)
        if text[i] == "[" and self.operand(i):
            kind = None
            for k, (a, b) in enumerate(self.split(i + 1, self.code.close[i])):
                part, at = self.expression(a, b)
                self.walk(at, b)
                kind = part if k == 0 else kind
            return self.postfix(("[", (kind,)), self.code.after(i), end)
        if WORD.match(text[i]) and text[i] not in KEYWORDS:
            kind, i = self.chain(i, end)
            if i < end and text[i] in "+-*/%<>=|^" and not (text[i] == "|" and self.operand(i)):
                return None, i  # an operator: what comes out is not followed
            return kind, i
        return None, i

    def arguments(self, i: int, hint: tuple = ()) -> list[Type | None]:
        """Walks the bracket at i; the types of what is in it."""
        kinds = []
        for a, b in self.split(i + 1, self.code.close[i]):
            kind, at = self.expression(a, b, hint)
            self.walk(at, b)
            kinds.append(kind)
        return kinds

    def chain(self, i: int, end: int) -> tuple[Type | None, int]:
        """A path at i and all that is called on it."""
        text, began = self.text, i
        path, i = self.path(i, end)
        after = text[i] if i < end else ""
        if after == "!" and i + 1 < end and text[i + 1] in OPEN:  # a macro: its arguments are expressions
            kinds = self.arguments(i + 1)
            kind = ("Vec", tuple(kinds[:1])) if path == ("vec",) else None
            return self.postfix(kind, self.code.after(i + 1), end)
        if len(path) == 1 and path[0] in self.names:
            kind = self.names[path[0]]
            if kind is not None and kind[0] == "fn":
                self.called.add(path[0])
            if after == "(":
                self.arguments(i)
                kind, i = inside(kind, FUNCTIONS), self.code.after(i)
            return self.postfix(kind, i, end)
        item, _ = resolve(self.module, path, self.crate.root)
        if item is None and len(path) > 1 and after == "(":  # `Type::default()` and its like are of a trait
            maker, _ = resolve(self.module, path[:-1], self.crate.root)
            if maker is not None and maker.is_type:
                self.use(maker)
                self.arguments(i)
                return self.postfix((maker.name, ()) if path[-1] == "default" else None, self.code.after(i), end)
        if item is None:
            if path[0] in ("Ok", "Some") and after == "(":
                kind = ("Result" if path[0] == "Ok" else "Option", tuple(self.arguments(i)[:1]))
                return self.postfix(kind, self.code.after(i), end)
            if after == "(":
                self.arguments(i)
                i = self.code.after(i)
            return self.postfix(None, i, end)
        if item.kind in ("fn", "method"):
            # A function's name that is not called is often a variable of the same name; a path is not.
            if after == "(" or len(path) > 1 or (began and text[began - 1] in ("(", ",") and after in (")", ",")):
                self.use(item)
            if after == "(":
                self.arguments(i, called_with(item))
                return self.postfix(self.result_of(item), self.code.after(i), end)
            return self.postfix(None, i, end)
        self.use(item)
        if item.kind == "const":
            return self.postfix(item.returns, i, end)
        kind = (item.name, ())
        if after == "{" and (len(path) > 1 or item.fields or item.variants):
            self.walk(i + 1, self.code.close[i])
            i = self.code.after(i)
        elif after == "(":
            self.arguments(i)
            i = self.code.after(i)
        return self.postfix(kind, i, end)

    def postfix(self, kind: Type | None, i: int, end: int) -> tuple[Type | None, int]:
        """Calls, fields, indices and question marks after an expression of a type."""
        text = self.text
        while i < end:
            if text[i] == "?":
                kind = inside(kind, PROMISES)
                i += 1
            elif text[i] == "[":
                self.arguments(i)
                kind = inside(kind, LISTS)
                i = self.code.after(i)
            elif text[i] == "." and i + 1 < end and text[i + 1][0].isdigit():
                for part in text[i + 1].split("."):
                    item = self.item_of(kind)
                    if kind is not None and kind[0] == "(" and part.isdigit() and int(part) < len(kind[1]):
                        kind = kind[1][int(part)]
                    else:
                        kind = item.fields.get(part) if item is not None else None
                i += 2
            elif text[i] == "." and i + 1 < end and WORD.match(text[i + 1]):
                name, at = text[i + 1], i + 2
                turbofish = None
                if at + 1 < end and text[at] == "::" and text[at + 1] == "<":
                    turbofish, _ = parse_type(self.code, at + 2, end)
                    at = after_angles(text, at + 1)
                if at < end and text[at] == "(":
                    kind = self.method(kind, name, at, turbofish)
                    i = self.code.after(at)
                else:
                    item = self.item_of(kind)
                    kind, i = (item.fields.get(name) if item is not None else None), at
            else:
                break
        self.item_of(kind)
        return kind, i

    def method(self, kind: Type | None, name: str, at: int, turbofish: Type | None) -> Type | None:
        """Records a method call whose arguments open at `at`; the type of what it returns."""
        item = self.item_of(kind)
        if item is not None:
            method = item.methods.get(name)
            if method is None:
                self.arguments(at)
                return kind if name in KEEPS else None
            self.use(method)
            self.arguments(at, called_with(method))
            return self.result_of(method)
        if kind is None:
            self.arguments(at)
            self.lost.append(name)
            return None
        inner = inside(kind)
        kinds = self.arguments(at, (inner,))
        if name in UNWRAPS:
            return inner if kind[0] in PROMISES else None
        if name in KEEPS:
            return kind
        if name in ENTRIES:
            return ("Option", (inner,)) if name not in ("remove", "swap_remove") else inner
        if name in MAPS:
            made = inside(kinds[0], FUNCTIONS) if kinds else None
            if name != "map" and made is not None and made[0] in (*LISTS, *PROMISES):
                made = inside(made)
            return (kind[0], (made,))
        if name == "collect":
            if turbofish is not None and turbofish[0] == "Result":
                return ("Result", (("Vec", (inside(inner, PROMISES),)),))
            return ("Vec", (inner,))
        if name == "zip":
            return ("[", (("(", (inner, inside(kinds[0]) if kinds else None)),))
        if name == "enumerate":
            return ("[", (("(", (("usize", ()), inner)),))
        return None

    # -- statements

    def walk(self, i: int, end: int) -> None:
        """Walks all that stands between i and end."""
        text = self.text
        while i < end:
            token = text[i]
            if token == "let":
                i = self.let(i + 1, end)
            elif token == "for" and i + 1 < end and text[i + 1] != "<":
                stop = self.code.until(i + 1, end, "in")
                kind, after = self.expression(stop + 1, end)
                self.bind(i + 1, stop, inside(kind))
                i = max(after, stop + 1)
            elif token == "use":
                found, i = parse_use(self.code, i + 1)
                inner = Module(self.module.name, self.module.parent, dict(self.module.items), dict(self.module.modules))
                inner.uses = [(False, path, name) for path, name in found] + self.module.uses
                self.module = inner
            elif token == "fn" and i + 1 < end and WORD.match(text[i + 1]):
                item, i = parse_function(self.code, i + 1, end, public=False, file="")
                self.names[item.name] = ("fn", (item.returns,))
                outer, self.names = self.names, dict(self.names)
                self.function(item)
                self.names = outer
            elif token == "|" and self.operand(i):
                _, i = self.closure(i, end)
            elif WORD.match(token) and token not in KEYWORDS:
                # The name of a field in a literal is not a variable.
                if i + 1 < end and text[i + 1] == ":" and i and text[i - 1] in ("{", ","):
                    i += 2
                else:
                    _, i = self.chain(i, end)
            elif token == "." and i + 2 < end and WORD.match(text[i + 1]):
                i = max(self.postfix(None, i, end)[1], i + 1)
            elif token in ("(", "[") and self.operand(i):
                _, i = self.expression(i, end)
            else:
                i += 1

    def function(self, item: Item) -> None:
        """Walks the body of a function with its arguments as names."""
        for (a, b), kind in item.takes:
            self.bind(a, b, kind)
            self.see(kind)
        if item.owner is not None:
            self.names["self"] = (item.owner.name, ())
        if item.body is not None:
            self.walk(*item.body)

    def let(self, i: int, end: int) -> int:
        """A `let` after its keyword, also that of `if let`; the position after its value."""
        text, at = self.text, self.code.until(i, end, "=", ":", ";")
        pattern, kind = (i, at), None
        if at < end and text[at] == ":":
            kind, at = parse_type(self.code, at + 1, end)
            self.see(kind)
            while at < end and text[at] not in ("=", ";"):
                at += 1
        if at < end and text[at] == "=":
            found, after = self.expression(at + 1, end)
            at = max(after, at + 1)
            kind = kind if kind is not None else found
        self.bind(*pattern, kind)
        return at

    def finish(self) -> Uses:
        """All uses. A call on an unknown type counts if one type that occurs here has a method of that name."""
        for name in self.lost:
            if name not in COMMON:
                able = [method for method in self.crate.methods.get(name, []) if method.owner in self.uses.seen_types]
                if len(able) == 1:
                    self.use(able[0])
        return self.uses


def uses_of(crate: Crate, function: Item) -> Uses:
    """What the body of a function of a test program uses."""
    walk = Walk(crate, function.module, function.code)
    walk.function(function)
    return walk.finish()
