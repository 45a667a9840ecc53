"""Reading functions from text: lines and indentation here, terms by the reader of terms; nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

from eqsat.ir.errors import EqsatError, ParseError
from eqsat.ir.statements.decl import BufferDecl
from eqsat.ir.statements.parse_declarations import STRING, DeclarationReader, Line, Scope
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, For, If, LoopKind, Stmt, Store, seq
from eqsat.ir.statements.text import LEAF, NAME
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

_HEAD = re.compile(rf"func ({NAME}|{STRING})\((.*)\)")
_SYMBOL = re.compile(rf"symbol ({NAME})(?: lower (None|-?\d+))?(?: upper (-?\d+))?(?: multiple (\d+))?")
_FOR = re.compile(rf"((?:\w+ )*)for ({NAME})(?: as (var )?({NAME}))? in (.*):")
_LOCAL = re.compile(rf"(alloc|alias) (.*?)(?: = ({NAME})(?: \+ (\d+))?)?(:?)")
_LET = re.compile(rf"let ({NAME}) = (.*)")
_KINDS = ("parallel", "vectorized", "unrolled")
_MOST_AROUND = 128
"""Loops and branches around a statement: what works on statements calls itself for each."""


class _Reader(DeclarationReader):
    # -- statements

    def block(self, depth: int, scope: Scope) -> Stmt:
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

    def inside(self, line: Line, scope: Scope) -> Stmt:
        """The block below a line that ends with a colon."""
        below = self.peek()
        if below is None or below.depth <= line.depth:
            self.fail(below, f"expected an indented block below line {line.number}")
        self.around += 1
        if self.around > _MOST_AROUND:
            self.fail(line, f"is loop or branch number {self.around}, each inside of the other; {_MOST_AROUND} can be")
        found = self.block(below.depth, scope.inner())
        self.around -= 1
        return found

    def local(self, line: Line, found: re.Match[str], scope: Scope, depth: int) -> Stmt:
        kind, text, data, offset, _ = found.groups()
        if (kind == "alias") != (data is not None):
            self.fail(line, "write alloc a: float32[4], or alias a: float32[4] = b + 2")
        inner = scope.inner()
        decl = self.layouts(self.decl(line, text, scope), depth, scope)
        inner.buffers[decl.name] = decl
        body = self.block(depth, inner)
        return Alloc(decl, body) if data is None else Alias(decl, data, body, int(offset or 0))

    def statement(self, line: Line, scope: Scope, local: re.Match[str] | None) -> Stmt:
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

    def shared(self, line: Line, found: re.Match[str], scope: Scope) -> Stmt:
        """`let t0 = ...` stands for its term in the one statement that follows."""
        inner = scope.inner()
        inner.names[found.group(1)] = self.term(line, found.group(2), scope)
        below = self.peek()
        if below is None or below.depth != line.depth:
            self.fail(below, f"expected the statement that line {line.number} is for")
        self.at += 1
        return self.statement(below, inner, None)

    def condition(self, line: Line, text: str, scope: Scope) -> Term:
        found = self.term(line, text, scope)
        try:
            return t.as_bool(found)
        except EqsatError as error:
            self.fail(line, str(error))

    def loop(self, line: Line, found: re.Match[str], scope: Scope) -> Stmt:
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

    def store(self, line: Line, scope: Scope) -> Stmt:
        name, _, rest = line.text.partition("[")
        place = _closing(rest)
        stored = "" if place is None else rest[place + 1 :].lstrip()
        if not stored.startswith("=") or stored.startswith("==") or name not in scope.buffers:
            self.fail(line, "is no statement: for, if, assume, let, alloc, alias, pass, or a store to a known buffer")
        index = self.terms(line, rest[:place], scope)
        value = self.term(line, stored[1:].strip(), scope)
        return Store(name, index, value)

    # -- the function

    def function(self, given: Mapping[str, Term]) -> tuple[str, tuple[str, ...], dict[str, BufferDecl], Stmt]:
        line = self.peek()
        head = None if line is None else _HEAD.fullmatch(line.text)
        if line is None or head is None:
            self.fail(line, "expected func name(x: float32[4], ...)")
        self.at += 1
        body_depth = self.lines[self.at].depth if self.at < len(self.lines) else line.depth + 1
        scope = Scope(self.symbols(given))
        decls: dict[str, BufferDecl] = {}
        for text in _split(head.group(2)):
            decl = self.layouts(self.decl(line, text, scope), body_depth, scope)
            if decl.name in decls:
                self.fail(line, f"parameter {decl.name} is declared twice")
            decls[decl.name] = decl
        scope.buffers = dict(decls)
        body = self.block(body_depth, scope) if body_depth > line.depth else seq([])
        if (left := self.peek()) is not None:
            self.fail(left, "stands behind the function")
        name = head.group(1)
        return self.string(line, name) if name.startswith('"') else name, tuple(decls), decls, body

    def symbols(self, given: Mapping[str, Term]) -> dict[str, Term]:
        """The symbols declared below the head."""
        found: dict[str, Term] = {}
        while (line := self.peek()) is not None and line.text.startswith("symbol "):
            match = _SYMBOL.fullmatch(line.text)
            if match is None:
                self.fail(line, "expected: symbol N lower 1 upper 64 multiple 4")
            self.at += 1
            name, lower, upper, multiple = match.groups()
            if name in found:
                self.fail(line, f"symbol {name} is declared twice")
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
    reader = _Reader(text)
    try:
        return reader.function(symbols or {})
    except RecursionError as error:
        raise ParseError("text of a function", "is nested too deeply") from error
