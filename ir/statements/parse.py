"""Reading functions from text: lines and indentation here, terms by the reader of terms; nothing is executed."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

from eqsat.ir.errors import EqsatError, ParseError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.map_text import split_indices
from eqsat.ir.statements.decl import BufferDecl, Transform
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, For, If, LoopKind, Stmt, Store, seq
from eqsat.ir.statements.text import LEAF
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import reserve_holes
from eqsat.ir.terms.parse import parse_expr
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import map_loads, nodes_of

_NAME = r"[^\W\d]\w*"
_HEAD = re.compile(rf"func ({_NAME})\((.*)\)")
_SYMBOL = re.compile(rf"symbol ({_NAME})(?: lower (None|-?\d+))?(?: upper (-?\d+))?(?: multiple (\d+))?")
_STRING = r'"(?:[^"\\]|\\.)*"'
_LAYOUT = re.compile(
    rf"layout ({_NAME}) (\[.*?\]) by ({_STRING})(?: padding ({_STRING}))?(?: value ({_STRING}))?", re.ASCII
)
_DECL = re.compile(rf"({_NAME}): (\w+)(\[.*?\])((?: \w+ (?:\[.*?\]|{_STRING}))*)")
_PART = re.compile(rf" (strides|offset|separators|note) (\[.*?\]|{_STRING})")
_FOR = re.compile(rf"((?:\w+ )*)for ({_NAME})(?: as (var )?({_NAME}))? in (.*):")
_LOCAL = re.compile(rf"(alloc|alias) (.*?)(?: = ({_NAME})(?: \+ (\d+))?)?(:?)")
_LET = re.compile(rf"let ({_NAME}) = (.*)")
_KINDS = ("parallel", "vectorized", "unrolled")


@dataclass
class _Line:
    number: int
    depth: int
    text: str


@dataclass
class _Scope:
    """The names that terms may use: axes, symbols and shared subterms, and buffers."""

    names: dict[str, Term]
    buffers: dict[str, BufferDecl] = field(default_factory=dict[str, BufferDecl])

    def inner(self) -> _Scope:
        return _Scope(dict(self.names), dict(self.buffers))


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines: list[_Line] = []
        for number, raw in enumerate(text.splitlines(), 1):
            if raw.strip() and not raw.lstrip().startswith("#"):
                self.lines.append(_Line(number, len(raw) - len(raw.lstrip(" ")), raw.strip()))
        self.at = 0

    def fail(self, line: _Line | None, why: str) -> NoReturn:
        where = "the end" if line is None else f"line {line.number} ({line.text[:100]!r})"
        raise ParseError("text of a function", f"{where}: {why}")

    def peek(self) -> _Line | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    # -- terms

    def term(self, line: _Line, text: str, scope: _Scope) -> Term:
        sources: dict[str, tuple[str, str]] = {n: (n, b.scalar) for n, b in scope.buffers.items()}
        try:
            found = parse_expr(text, scope.names, sources)
        except EqsatError as error:
            self.fail(line, f"{error}")

        def whole(load: Term) -> Term:
            decl = scope.buffers.get(load.payload) if isinstance(load.payload, str) else None
            wide = decl is not None and decl.lanes > 1
            return t.make("load", load.args, load.payload, load.dtype, decl.lanes) if decl and wide else load

        for node in nodes_of("hole", found):
            reserve_holes(node.payload)
        return map_loads(found, whole)

    def terms(self, line: _Line, text: str, scope: _Scope) -> tuple[Term, ...]:
        """Terms between top-level commas; `()` is none of them."""
        try:
            parts = split_indices(f"[{text}]" if text != "()" else text, text)
        except EqsatError as error:
            self.fail(line, str(error))
        return tuple(self.term(line, p, scope) for p in parts)

    def dims(self, line: _Line, text: str, scope: _Scope) -> tuple[Any, ...]:
        """The sizes of `[4, N]`, numbers as they are."""
        inner = text[1:-1].strip()
        terms = self.terms(line, inner, scope) if inner else ()
        return tuple(term if (n := t.int_value(term)) is None else n for term in terms)

    # -- declarations

    def decl(self, line: _Line, text: str, scope: _Scope) -> BufferDecl:
        found = _DECL.fullmatch(text.strip())
        if found is None:
            self.fail(line, f"{text.strip()[:80]!r} declares no buffer; write name: float32[4, N]")
        name, dtype, shape, rest = found.groups()
        made = BufferDecl(name, self.dims(line, shape, scope), dtype)
        for key, value in _PART.findall(rest):
            if key == "note":
                made = replace(made, note=self.string(line, value))
            elif key == "offset":
                made = replace(made, elem_offset=self.dims(line, value, scope)[0])
            elif key == "strides":
                made = replace(made, strides=self.dims(line, value, scope))
            else:
                made = replace(made, axis_separators=self.dims(line, value, scope))
        return made

    def string(self, line: _Line, text: str) -> str:
        try:
            return cast(str, literal_eval(text))
        except (SyntaxError, ValueError):
            self.fail(line, f"{text} is not a string")

    def layouts(self, decl: BufferDecl, depth: int, scope: _Scope) -> BufferDecl:
        """The declaration with the layout lines that follow."""
        while (line := self.peek()) is not None and line.depth == depth and line.text.startswith("layout "):
            found = _LAYOUT.fullmatch(line.text)
            if found is not None and found.group(1) != decl.name:
                break
            if found is None:
                self.fail(line, f'expected: layout {decl.name} [14] by "i -> i//4, i%4" padding "..." value "..."')
            self.at += 1
            _, shape, text, where, value = found.groups()
            symbols = {n: s for n, s in scope.names.items() if s.op == "sym"}
            inner = _Scope(symbols | {leaf_name(a): a for a in output_axes(decl.shape)}, {decl.name: decl})
            try:
                index_map = IndexMap.parse(self.string(line, text), symbols)
            except EqsatError as error:
                self.fail(line, str(error))
            step = Transform(
                index_map,
                self.dims(line, shape, scope),
                t.FALSE if where is None else self.term(line, self.string(line, where), inner),
                None if value is None else self.term(line, self.string(line, value), inner),
            )
            decl = replace(decl, transforms=(*decl.transforms, step))
        return decl

    # -- statements

    def block(self, depth: int, scope: _Scope) -> Stmt:
        """The statements at this indentation; a local buffer lives to their end."""
        parts: list[Stmt] = []
        while (line := self.peek()) is not None and line.depth >= depth:
            if line.depth > depth:
                self.fail(line, "is indented further than its block")
            self.at += 1
            local = _LOCAL.fullmatch(line.text)
            if local is not None and not local.group(5):
                parts.append(self.local(line, local, scope, depth))
                break
            parts.append(self.statement(line, scope, local))
        return seq(parts)

    def inside(self, line: _Line, scope: _Scope) -> Stmt:
        """The block below a line that ends with a colon."""
        below = self.peek()
        if below is None or below.depth <= line.depth:
            self.fail(below, f"expected an indented block below line {line.number}")
        return self.block(below.depth, scope.inner())

    def local(self, line: _Line, found: re.Match[str], scope: _Scope, depth: int) -> Stmt:
        kind, text, data, offset, _ = found.groups()
        if (kind == "alias") != (data is not None):
            self.fail(line, "write alloc a: float32[4], or alias a: float32[4] = b + 2")
        inner = scope.inner()
        decl = self.layouts(self.decl(line, text, scope), depth, scope)
        inner.buffers[decl.name] = decl
        body = self.block(depth, inner)
        return Alloc(decl, body) if data is None else Alias(decl, data, body, int(offset or 0))

    def statement(self, line: _Line, scope: _Scope, local: re.Match[str] | None) -> Stmt:
        text = line.text
        if local is not None:
            below = self.peek()
            if below is None or below.depth <= line.depth:
                self.fail(below, f"expected an indented block below line {line.number}")
            return self.local(line, local, scope, below.depth)
        if text == "pass":
            return seq([])
        if (found := _LET.fullmatch(text)) is not None:
            return self.shared(line, found, scope)
        if (found := _FOR.fullmatch(text)) is not None:
            return self.loop(line, found, scope)
        if text.startswith("assume "):
            return Assume(self.condition(line, text.removeprefix("assume "), scope))
        if text.startswith("if ") and text.endswith(":"):
            condition = self.condition(line, text[3:-1], scope)
            then, orelse = self.inside(line, scope), None
            below = self.peek()
            if below is not None and below.depth == line.depth and below.text == "else:":
                self.at += 1
                orelse = self.inside(below, scope)
            return If(condition, then, orelse)
        return self.store(line, scope)

    def shared(self, line: _Line, found: re.Match[str], scope: _Scope) -> Stmt:
        """`let t0 = ...` stands for its term in the one statement that follows."""
        inner = scope.inner()
        inner.names[found.group(1)] = self.term(line, found.group(2), scope)
        below = self.peek()
        if below is None or below.depth != line.depth:
            self.fail(below, f"expected the statement that line {line.number} is for")
        self.at += 1
        return self.statement(below, inner, None)

    def condition(self, line: _Line, text: str, scope: _Scope) -> Term:
        try:
            return t.as_bool(self.term(line, text, scope))
        except EqsatError as error:
            self.fail(line, str(error))

    def loop(self, line: _Line, found: re.Match[str], scope: _Scope) -> Stmt:
        words, name, variable, other, extent = found.groups()
        kinds = [w for w in words.split() if w != "reduce"]
        if len(kinds) > 1 or any(k not in _KINDS for k in kinds):
            self.fail(line, f"a loop is {', '.join(_KINDS)} or nothing, and perhaps reduce, before 'for'")
        said = other or name
        numbered = None if variable or (other is None and name != said) else LEAF.fullmatch(said)
        size = self.term(line, extent, scope)
        try:
            if numbered is not None:
                axis = (t.ax if numbered.group(1) == "i" else t.red)(int(numbered.group(2)), size)
            else:
                axis = t.var(said, size)
        except EqsatError as error:
            self.fail(line, str(error))
        inner = scope.inner()
        inner.names[name] = axis
        kind: LoopKind = cast(LoopKind, kinds[0]) if kinds else "serial"
        return For(axis, self.inside(line, inner), kind, "reduce" in words.split())

    def store(self, line: _Line, scope: _Scope) -> Stmt:
        name, _, rest = line.text.partition("[")
        place = _closing(rest)
        if place is None or not rest[place + 1 :].startswith(" = ") or name not in scope.buffers:
            self.fail(line, "is no statement: for, if, assume, let, alloc, alias, pass, or a store to a known buffer")
        index = self.terms(line, rest[:place], scope)
        value = self.term(line, rest[place + 4 :], scope)
        return Store(name, index, value)

    # -- the function

    def function(self, given: Mapping[str, Term]) -> tuple[str, tuple[str, ...], dict[str, BufferDecl], Stmt]:
        line = self.peek()
        head = None if line is None else _HEAD.fullmatch(line.text)
        if line is None or head is None:
            self.fail(line, "expected func name(x: float32[4], ...)")
        self.at += 1
        body_depth = self.lines[self.at].depth if self.at < len(self.lines) else line.depth + 1
        scope = _Scope(self.symbols(given))
        decls: dict[str, BufferDecl] = {}
        for text in _split(head.group(2)):
            decl = self.layouts(self.decl(line, text, scope), body_depth, scope)
            decls[decl.name] = decl
        scope.buffers = dict(decls)
        body = self.block(body_depth, scope) if body_depth > line.depth else seq([])
        if (left := self.peek()) is not None:
            self.fail(left, "stands behind the function")
        return head.group(1), tuple(decls), decls, body

    def symbols(self, given: Mapping[str, Term]) -> dict[str, Term]:
        """The symbols declared below the head."""
        found: dict[str, Term] = {}
        while (line := self.peek()) is not None and line.text.startswith("symbol "):
            match = _SYMBOL.fullmatch(line.text)
            if match is None:
                self.fail(line, "expected: symbol N lower 1 upper 64 multiple 4")
            self.at += 1
            name, lower, upper, multiple = match.groups()
            low = 1 if lower is None else None if lower == "None" else int(lower)
            try:
                made = t.sym(name, low, None if upper is None else int(upper), int(multiple or 1))
            except EqsatError as error:
                self.fail(line, str(error))
            found[name] = given.get(name, made)
        return found


def _closing(text: str) -> int | None:
    """Where the bracket ends that was opened before the text."""
    depth = 1
    for place, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if not depth:
            return place
    return None


def _split(text: str) -> Sequence[str]:
    """Declarations between top-level commas; strings may hold commas and brackets."""
    parts: list[str] = []
    depth, start, quoted = 0, 0, False
    for place, c in enumerate(text):
        if c == '"' and text[place - 1 : place] != "\\":
            quoted = not quoted
        if not quoted:
            depth += (c in "([") - (c in ")]")
            if c == "," and not depth:
                parts.append(text[start:place])
                start = place + 1
    parts.append(text[start:])
    return [p for p in parts if p.strip()]


def parse_function(
    text: str, symbols: Mapping[str, Term] | None = None
) -> tuple[str, tuple[str, ...], dict[str, BufferDecl], Stmt]:
    """The name, parameters, declarations and body of a text; see `PrimFunc.parse`."""
    return _Reader(text).function(symbols or {})
