"""Reading the parts of functions from text: terms in the scope of a line, and declarations of buffers."""

from __future__ import annotations

import re
from ast import literal_eval
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

from eqsat.ir.errors import EqsatError, ParseError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.map_text import split_indices
from eqsat.ir.statements.decl import BufferDecl, Transform, with_lanes
from eqsat.ir.statements.text import NAME
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import reserve_holes
from eqsat.ir.terms.parse import parse_expr
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import free_variables, nodes_of

STRING = r'"(?:[^"\\]|\\.)*"'
_LAYOUT = re.compile(
    rf"layout ({NAME}) (\[.*?\]) by ({STRING})(?: padding ({STRING}))?(?: value ({STRING}))?", re.ASCII
)
_DECL = re.compile(rf"({NAME}): (\w+)(\[.*?\])((?: \w+ (?:\[.*?\]|{STRING}))*)")
_PART = re.compile(rf" (strides|offset|separators|note) (\[.*?\]|{STRING})")


_REMARK = re.compile(r'((?:[^"#]|"(?:[^"\\]|\\.)*+(?:"|$))*+)#')


def _without_remark(line: str) -> str:
    """A line up to the `#` that stands in no string."""
    found = _REMARK.match(line)
    return line if found is None else found.group(1)


@dataclass
class Line:
    number: int
    depth: int
    text: str


@dataclass
class Scope:
    """The names that terms may use: axes, symbols and shared subterms, and buffers."""

    names: dict[str, Term]
    buffers: dict[str, BufferDecl] = field(default_factory=dict[str, BufferDecl])

    def inner(self) -> Scope:
        return Scope(dict(self.names), dict(self.buffers))


class DeclarationReader:
    """The lines of a text, its terms, and declarations of buffers with the layouts below them."""

    def __init__(self, text: str) -> None:
        self.lines: list[Line] = []
        for number, whole in enumerate(text.splitlines(), 1):
            raw = whole if "#" not in whole else _without_remark(whole)
            if raw.strip():
                depth = len(raw) - len(raw.lstrip(" "))
                self.lines.append(Line(number, depth, raw.strip()))
                if raw[depth] == "\t":
                    self.fail(self.lines[-1], "is indented by a tab: indent by spaces")
        self.at = 0
        self.around = 0
        """The loops and branches around the line."""

    def fail(self, line: Line | None, why: str) -> NoReturn:
        where = "the end" if line is None else f"line {line.number} ({line.text[:100]!r})"
        raise ParseError("text of a function", f"{where}: {why}")

    def peek(self) -> Line | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    # -- terms

    def term(self, line: Line, text: str, scope: Scope) -> Term:
        sources: dict[str, tuple[str, str]] = {n: (n, b.scalar) for n, b in scope.buffers.items()}
        try:
            found = parse_expr(text, scope.names, sources)
        except EqsatError as error:
            self.fail(line, f"{error}")

        for node in nodes_of("hole", found):
            reserve_holes(node.payload)
        return with_lanes(found, scope.buffers)

    def terms(self, line: Line, text: str, scope: Scope) -> tuple[Term, ...]:
        """Terms between top-level commas; `()` is none of them."""
        try:
            parts = split_indices(f"[{text}]" if text != "()" else text, text)
        except EqsatError as error:
            self.fail(line, str(error))
        return tuple(self.term(line, p, scope) for p in parts)

    def dims(self, line: Line, text: str, scope: Scope) -> tuple[Any, ...]:
        """The sizes of `[4, N]`, numbers as they are."""
        inner = text[1:-1].strip()
        terms = self.terms(line, inner, scope) if inner else ()
        for stray in free_variables(*terms):
            self.fail(line, f"{stray} is no size; below the head, `symbol {stray}` declares it")
        return tuple(term if (n := t.int_value(term)) is None else n for term in terms)

    # -- declarations

    def decl(self, line: Line, text: str, scope: Scope) -> BufferDecl:
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

    def string(self, line: Line, text: str) -> str:
        try:
            return cast(str, literal_eval(text))
        except (SyntaxError, ValueError):
            self.fail(line, f"{text} is not a string")

    def layouts(self, decl: BufferDecl, depth: int, scope: Scope) -> BufferDecl:
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
            inner = Scope(symbols | {leaf_name(a): a for a in output_axes(decl.shape)}, {decl.name: decl})
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
