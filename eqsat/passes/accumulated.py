"""Loops that combine terms into one cell: what a reduction of tensors does, where no order is fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from eqsat.ir.dtypes import is_float
from eqsat.ir.statements.stmt import For, If, Stmt, Store
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of
from eqsat.passes.cells import loads

COMBINERS: Mapping[str, str] = {"add": "sum", "mul": "prod", "max": "max", "min": "min", "or": "max", "and": "min"}


@dataclass(frozen=True, eq=False)
class Accumulated(Record):
    """Loops over which values are combined, loops over cells among them, the one store below all of these, and what is
    combined into its cell, where a condition holds."""

    axes: tuple[Term, ...]
    cells: tuple[For, ...]
    store: Store
    combiner: str
    value: Term
    guard: Term


def accumulated(stmt: For) -> Accumulated | None:
    """What a nest of loops combines into cells, if it does that and no more: loops that are marked `reduce`, and any
    over whole numbers, of which the order makes no difference. Loops over cells stand anywhere among them.

    >>> import eqsat as eq
    >>> f = eq.PrimFunc.parse('''func f(x: int8[4], y: int8[1])
    ...   reduce for k in 4:
    ...     y[0] = max(y[0], x[k])''')
    >>> accumulated(f.body).combiner
    'max'
    """
    loops, guards, below = list[For](), list[Term](), cast(Stmt, stmt)
    while not isinstance(below, Store):
        if isinstance(below, For):
            loops.append(below)
            below = below.body
        elif isinstance(below, If) and below.orelse is None:
            guards.append(below.condition)
            below = below.then
        else:
            return None
    found = combined_with_cell(below)
    if found is None:
        return None
    _, op, rest, _ = found
    guard, shown = t.logical_and(t.TRUE, *guards), {i.serial for i in below.index}
    over = [loop for loop in loops if loop.axis.serial not in shown]
    if not over or any(is_float(rest.dtype) and not loop.reduce for loop in over):
        return None
    serials = {loop.axis.serial for loop in over}
    if any(a.serial in serials for i in below.index for a in nodes_of("axis", i)):
        return None
    if any(load.payload == below.buffer for load in loads(guard)):
        return None
    cells = tuple(loop for loop in loops if loop.axis.serial in shown)
    return Accumulated(tuple(loop.axis for loop in over), cells, below, COMBINERS[op], rest, guard)


def combined_with_cell(stmt: Stmt) -> tuple[Store, str, Term, Term] | None:
    """The store to a cell of what it held and another value, below branches without another arm: the operation, that
    value, and the condition of the branches. Neither reads the buffer.

    >>> import eqsat as eq
    >>> f = eq.PrimFunc.parse("func f(x: int8[4])\\n  if x[1] < int8(3):\\n    x[0] = x[0]*int8(2)")
    >>> combined_with_cell(f.body) is None, combined_with_cell(f.body.then)[1]
    (True, 'mul')
    """
    guard = t.TRUE
    while isinstance(stmt, If) and stmt.orelse is None:
        guard, stmt = t.logical_and(guard, stmt.condition), stmt.then
    if not isinstance(stmt, Store) or stmt.value.op not in COMBINERS or len(stmt.value.args) != 2:
        return None
    mine = [_is_cell(a, stmt) for a in stmt.value.args]
    if mine.count(True) != 1:
        return None
    rest = stmt.value.args[mine.index(False)]
    if any(load.payload == stmt.buffer for load in loads(rest, guard)):
        return None
    return stmt, stmt.value.op, rest, guard


def _is_cell(x: Term, store: Store) -> bool:
    """Whether a term is the cell that a store writes."""
    return (
        x.op == "load" and x.payload == store.buffer and [i.serial for i in x.args] == [i.serial for i in store.index]
    )
