"""Functions as text that `eqsat.ir.statements.parse` reads again: one line for each statement, blocks by indentation.

A loop is named as its axis is where that is clear, else `for j as i0 in 4:` says which axis j is. Shared subterms of a
large term are written before its statement (`let t0 = ...`). Symbols stand below the head of the function, layouts
below the declaration of their buffer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from eqsat.ir.statements.decl import BufferDecl
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, For, If, Seq, Stmt, Store
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import format_term, fresh_name, leaf_name, symbol_names

LEAF = re.compile(r"([ir])(\d+)", re.ASCII)
"""Names that are read as numbered axes: i0, r1."""
NAME = r"[^\W\d]\w*"
"""Names that stand in texts as they are."""


def quoted(text: str) -> str:
    """A text in double quotes on one line, as literal_eval reads it.

    >>> print(quoted('a "b"\\u2028c'))
    "a \\"b\\"\\u2028c"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in escaped) + '"'


def axis_text(axis: Term) -> str:
    """What an axis is, behind `as`: `i0`, `r1`, or `var i0` for a variable that is called so.

    >>> axis_text(t.red(1, 4)), axis_text(t.var("k", 4)), axis_text(t.var("i7", 4))
    ('r1', 'k', 'var i7')
    """
    name = leaf_name(axis)
    return f"var {name}" if axis.op == "var" and LEAF.fullmatch(name) else name


class FunctionText:
    """Prints statements; `names` are those of the symbols and of the axes around."""

    def __init__(self, names: Mapping[Term, str], taken: Sequence[str] = ()) -> None:
        self.names = dict(names)
        self.taken = {*names.values(), *taken}

    # -- parts

    def term(self, term: Term, lets: list[str]) -> str:
        """One term; what stands before its statement is added to `lets`."""
        used = {*self.taken, *(line.split(" ", 1)[0] for line in lets)}
        *before, text = format_term(term, None, self.names, used).split("; ")
        lets += before
        return text

    def dim(self, dim: Dim) -> str:
        return str(dim) if isinstance(dim, int) else format_term(dim, None, self.names)

    def dims(self, dims: Sequence[Dim]) -> str:
        return f"[{', '.join(map(self.dim, dims))}]"

    def decl(self, decl: BufferDecl) -> str:
        """A declaration without its layouts."""
        text = f"{decl.name}: {decl.dtype}{self.dims(decl.shape)}"
        if decl.strides is not None:
            text += f" strides {self.dims(decl.strides)}"
        if not isinstance(decl.elem_offset, int) or decl.elem_offset:
            text += f" offset {self.dims([decl.elem_offset])}"
        if decl.axis_separators:
            text += f" separators {self.dims(decl.axis_separators)}"
        return text + (f" note {quoted(decl.note)}" if decl.note else "")

    def layouts(self, decl: BufferDecl, indent: str) -> list[str]:
        """The lines below a declaration that say how its layout came to be."""
        lines: list[str] = []
        for step in decl.transforms:
            by = step.index_map.text_among(self.names)
            line = f"{indent}layout {decl.name} {self.dims(step.logical_shape)} by {quoted(by)}"
            if step.predicate is not t.FALSE:
                line += f" padding {quoted(format_term(step.predicate, None, self.names))}"
            if step.pad_value is not None:
                line += f" value {quoted(format_term(step.pad_value, None, self.names))}"
            lines.append(line)
        return lines

    # -- statements

    def lines(self, stmt: Stmt, depth: int) -> list[str]:
        """The lines of a statement."""
        indent = "  " * depth
        if isinstance(stmt, For):
            return self.loop(stmt, depth)
        if isinstance(stmt, Seq):
            lines: list[str] = []
            for n, part in enumerate(stmt.parts):
                if isinstance(part, (Alloc, Alias)) and n < len(stmt.parts) - 1:
                    lines += self.block(part, depth)
                else:
                    lines += self.lines(part, depth)
            return lines or [f"{indent}pass"]
        if isinstance(stmt, (Alloc, Alias)):
            return [indent + self.local(stmt), *self.layouts(stmt.buffer, indent), *self.lines(stmt.body, depth)]
        lets: list[str] = []
        if isinstance(stmt, Store):
            at = ", ".join([self.term(i, lets) for i in stmt.index]) or "()"
            lines = [f"{stmt.buffer}[{at}] = {self.term(stmt.value, lets)}"]
        elif isinstance(stmt, Assume):
            lines = [f"assume {self.term(stmt.condition, lets)}"]
        else:
            lines = [f"if {self.term(stmt.condition, lets)}:"]
        lines = [indent + line for line in (*(f"let {line}" for line in lets), *lines)]
        if isinstance(stmt, If):
            lines += self.lines(stmt.then, depth + 1)
            if stmt.orelse is not None:
                lines += [f"{indent}else:", *self.lines(stmt.orelse, depth + 1)]
        return lines

    def local(self, stmt: Alloc | Alias) -> str:
        """The declaration of a buffer that lives for the rest of its block."""
        if isinstance(stmt, Alloc):
            return f"alloc {self.decl(stmt.buffer)}"
        return f"alias {self.decl(stmt.buffer)} = {stmt.data}" + (f" + {stmt.offset}" if stmt.offset else "")

    def block(self, stmt: Alloc | Alias, depth: int) -> list[str]:
        """A local buffer behind whose life others stand: a block of its own."""
        layouts = self.layouts(stmt.buffer, "  " * (depth + 1))
        return [f"{'  ' * depth}{self.local(stmt)}:", *layouts, *self.lines(stmt.body, depth + 1)]

    def loop(self, stmt: For, depth: int) -> list[str]:
        name = fresh_name(leaf_name(stmt.axis), self.taken)
        said = "" if name == axis_text(stmt.axis) else f" as {axis_text(stmt.axis)}"
        words = "".join(f"{w} " for w in (stmt.kind if stmt.kind != "serial" else "", "reduce" * stmt.reduce) if w)
        extent = self.dim(stmt.extent_term)
        self.names[stmt.axis] = name
        self.taken.add(name)
        lines = [f"{'  ' * depth}{words}for {name}{said} in {extent}:", *self.lines(stmt.body, depth + 1)]
        self.taken.remove(name)
        del self.names[stmt.axis]
        return lines


def format_stmt(stmt: Stmt, depth: int = 0) -> list[str]:
    """The lines of a statement by itself: axes and symbols under the names that they have."""
    return FunctionText({}).lines(stmt, depth)


def symbol_line(symbol: Term, name: str) -> str:
    """The declaration of a symbol.

    >>> symbol_line(t.sym("N", lower=0, multiple_of=4), "N")
    'symbol N lower 0 multiple 4'
    """
    _, lower, upper, multiple, _ = t.symbol_facts(symbol)
    text = f"symbol {name}" + ("" if lower == 1 else f" lower {lower}") + ("" if upper is None else f" upper {upper}")
    return text + ("" if multiple == 1 else f" multiple {multiple}")


def format_function(name: str, decls: Sequence[BufferDecl], symbols: Sequence[Term], body: Stmt) -> str:
    """The text of a function. Notes of parameters, which only tell what they hold, are left out. A name that is no
    word, such as that of a program, stands in quotes."""
    names = symbol_names(symbols)
    text = FunctionText(names)
    params = ", ".join(text.decl(replace(d, note="")) for d in decls)
    head = f"func {name if re.fullmatch(NAME, name) else quoted(name)}({params})"
    above = [f"  {symbol_line(s, names[s])}" for s in symbols]
    above += [line for d in decls for line in text.layouts(d, "  ")]
    return "\n".join([head, *above, *text.lines(body, 1)])
