"""Loops whose iterations run at once, `parallel` or `vectorized`: what changes inside of one may not make two of them
conflict."""

from __future__ import annotations

from collections.abc import Iterator

from eqsat.accesses.access import Context, accesses
from eqsat.accesses.conflict import Conflict
from eqsat.accesses.dependences import all_carried
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import For, If, Stmt, children
from eqsat.ir.terms.term import Term
from eqsat.passes.paths import Path

AT_ONCE = ("parallel", "vectorized")


def new_conflict(before: PrimFunc, after: PrimFunc, path: Path) -> Conflict | None:
    """Two iterations of a loop that runs at once, around a path or below it, that conflict after a change there; None
    for loops of which two did so before."""
    found = list(_conflicts(after, path))
    known = {axis for axis, _ in _conflicts(before, path)} if found else set[Term]()
    return next((met for axis, met in found if axis not in known), None)


def _conflicts(func: PrimFunc, path: Path) -> Iterator[tuple[Term, Conflict]]:
    for stmt, context in _loops(func.body, Context.of(func), path):
        met = next((c for c in all_carried(accesses(stmt, context), len(context.loops)) if c.exact), None)
        if met is not None:
            yield stmt.axis, met


def _loops(stmt: Stmt, context: Context, path: Path) -> Iterator[tuple[For, Context]]:
    """The loops that run at once around a path, and all below it."""
    if isinstance(stmt, For) and stmt.kind in AT_ONCE:
        yield stmt, context
    for number in path[:1] or range(len(children(stmt))):
        inner = context.child(stmt, number + isinstance(stmt, If))  # 0 is the condition there
        yield from _loops(*inner, path[1:])
