"""The names that a function uses, and new ones beside them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, For, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import fresh_name, leaf_name
from eqsat.ir.terms.walk import symbols


def names_of(func: PrimFunc) -> set[str]:
    """The names of loops, buffers and symbols of a function."""
    found = {*func.params, *map(leaf_name, func.symbols)}
    for stmt in statements(func.body):
        if isinstance(stmt, For):
            found |= {leaf_name(stmt.axis), *map(leaf_name, symbols(stmt.axis.args[0]))}
        elif isinstance(stmt, (Alloc, Alias)):
            found.add(stmt.buffer.name)
        found |= {leaf_name(s) for s in symbols(*stmt_terms(stmt))}
    return found


def cells_of(name: str, shape: Sequence[Dim], taken: Collection[str]) -> tuple[Term, ...]:
    """A variable for each axis of a buffer, called name_0, name_1, ...; none has a name that is taken.

    >>> print(*cells_of("x", (4, 8), {"x_1"}))
    x_0 x_1_1
    """
    found: list[Term] = []
    for n, extent in enumerate(shape):
        found.append(t.var(fresh_name(f"{name}_{n}", {*taken, *map(leaf_name, found)}), extent))
    return tuple(found)
