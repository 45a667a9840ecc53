"""Accumulation: stores `b[i] = b[i] op e` that may run in any order, exactly or as a float reduction."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.accesses.access import Access
from eqsat.ir.dtypes import is_float
from eqsat.ir.statements.stmt import Store
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of

_GROUP = {
    "add": "add", "sub": "add", "mul": "mul", "min": "min", "max": "max",
    "bitand": "bitand", "bitor": "bitor", "bitxor": "bitxor",
}  # fmt: skip


@dataclass(frozen=True)
class Accumulation:
    """What is combined with a cell: the operation, and whether any order gives the same bits."""

    op: str
    exact: bool


def accumulation(store: Store) -> Accumulation | None:
    """How a store accumulates into the cell that it writes; None where it does not.

    >>> i, k = t.ax(0, 4), t.red(0, 8)
    >>> b, x = t.load("b", [i], "float32"), t.load("x", [i, k], "float32")
    >>> accumulation(Store("b", (i,), b + x)), accumulation(Store("b", (i,), x - b))
    (Accumulation(op='add', exact=False), None)
    """
    own = t.load(store.buffer, store.index, store.value.dtype)
    value, group = store.value, _GROUP.get(store.value.op)
    if group is None or any(n.payload == store.buffer for i in store.index for n in nodes_of("load", i)):
        return None
    rest: list[Term] = []
    while value is not own:
        if _GROUP.get(value.op) != group:
            return None
        sides = value.args[:1] if value.op == "sub" else value.args
        inside = [a for a in sides if _reads(a, store.buffer)]
        if len(inside) != 1:
            return None
        rest.extend(a for a in value.args if a is not inside[0])
        value = inside[0]
    if any(_reads(r, store.buffer) for r in rest):
        return None
    return Accumulation(group, not is_float(own.dtype))


def _reads(term: Term, buffer: str) -> bool:
    return any(n.payload == buffer for n in nodes_of("load", term))


def combine(a: Access, b: Access) -> Accumulation | None:
    """Whether two accesses are parts of accumulations into one buffer that may change places."""
    if a.buffer != b.buffer or not (isinstance(a.stmt, Store) and isinstance(b.stmt, Store)):
        return None
    if a.stmt.buffer != a.buffer or b.stmt.buffer != b.buffer:
        return None
    first, second = accumulation(a.stmt), accumulation(b.stmt)
    return first if first == second else None
