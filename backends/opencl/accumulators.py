"""Several accumulators, one for each position of an axis, as one accumulator for each work-item of a GPU.

before:  acc[4]; for v: acc[v] = 0; for k: for v: acc[v] += x[k, v]; for v: y[v] = acc[v]
after:   for v: acc[1]; acc[0] = 0; for k: acc[0] += x[k, v]; y[v] = acc[0]
"""

from __future__ import annotations

from dataclasses import replace

from eqsat.backends.opencl.image import PixelStore
from eqsat.ir.statements.rewrite import with_axis
from eqsat.ir.statements.stmt import Alloc, BufferDecl, For, Seq, Stmt, Store, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, load
from eqsat.ir.terms.walk import nodes_of, transform

LANE = 1 << 20
"""The number of the axis over accumulators: one that no other axis has."""


def split_accumulators(alloc: Alloc) -> For | None:
    """The same as one loop around a single accumulator; None where one accumulator depends on another."""
    name, width = alloc.buffer.name, alloc.buffer.size
    lane = t.ax(LANE, width)
    body = _of_lane(alloc.body, name, lane, inside=False) if width > 1 else None
    return None if body is None else For(lane, Alloc(BufferDecl(name, (1,), alloc.buffer.dtype), body))


def _places(stmt: Stmt, name: str) -> list[Term]:
    """Where a statement and those inside of it touch the accumulators."""
    found = [s.index[0] for s in statements(stmt) if isinstance(s, Store) and s.buffer == name]
    terms = [x for s in statements(stmt) for x in stmt_terms(s)]
    return found + [n.args[0] for n in nodes_of("load", *terms) if n.payload == name]


def _of_lane(stmt: Stmt, name: str, lane: Term, inside: bool) -> Stmt | None:
    """What the statement does for one lane."""
    if isinstance(stmt, Seq):
        parts = [_of_lane(p, name, lane, inside) for p in stmt.parts]
        return None if any(p is None for p in parts) else Seq(tuple(p for p in parts if p is not None))
    if isinstance(stmt, For):
        over_lanes = not inside and any(place is stmt.axis for place in _places(stmt.body, name))
        if over_lanes and stmt.axis.args[0] is lane.args[0]:
            return _of_lane(with_axis(stmt.body, stmt.axis, lane), name, lane, inside=True)
        body = _of_lane(stmt.body, name, lane, inside)
        return None if body is None else replace(stmt, body=body)
    if not isinstance(stmt, Store) or not inside or any(place is not lane for place in _places(stmt, name)):
        return None
    if isinstance(stmt, PixelStore) and stmt.more:
        return None  # of several accumulators

    def change(node: Term) -> Term | None:
        return load(name, [t.index_const(0)], node.dtype) if node.op == "load" and node.payload == name else None

    index = (t.index_const(0),) if stmt.buffer == name else stmt.index
    return replace(stmt, index=index, value=transform(stmt.value, change))
