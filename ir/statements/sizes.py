"""The symbols of statements, and sizes as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, For, Stmt, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute, symbols

Sizes = Mapping[Term, int]
"""A number for each symbol."""


def function_symbols(decls: Iterable[BufferDecl], body: Stmt) -> tuple[Term, ...]:
    """The symbols of the parameters' declarations and of a body, in order of appearance."""
    found: dict[Term, None] = dict.fromkeys(s for decl in decls for s in decl.symbols())
    for stmt in statements(body):
        terms: Sequence[Term] = stmt_terms(stmt)
        if isinstance(stmt, For):
            terms = (stmt.extent_term,)
        elif isinstance(stmt, (Alloc, Alias)):
            terms = stmt.buffer.symbols()
        found.update(dict.fromkeys(symbols(*terms)))
    return tuple(found)


def number(dim: Dim, sizes: Sizes) -> int:
    """A size as a number."""
    if isinstance(dim, int):
        return dim
    value = t.int_value(substitute(dim, {s: t.index_const(n) for s, n in sizes.items()}))
    if value is None:
        raise EvaluationError(f"size {dim}", "has no value", "give its symbols one, and no divisor that is 0")
    return value


def numbers(dims: Shape, sizes: Sizes) -> tuple[int, ...]:
    """Sizes as numbers."""
    return tuple(number(d, sizes) for d in dims)
