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
    """Loops, the one store below them, and what they combine into its cell, where a condition holds."""

    axes: tuple[Term, ...]
    store: Store
    combiner: str
    value: Term
    guard: Term


def accumulated(stmt: For) -> Accumulated | None:
    """What a nest of loops combines into one cell, if it does that and no more: loops that are marked `reduce`, and any
    over whole numbers, of which the order makes no difference.

    >>> import eqsat as eq
    >>> f = eq.PrimFunc.parse('''func f(x: int8[4], y: int8[1])
    ...   reduce for k in 4:
    ...     y[0] = max(y[0], x[k])''')
    >>> accumulated(f.body).combiner
    'max'
    """
    axes, guard = list[Term](), t.TRUE
    marked, below = True, cast(Stmt, stmt)
    while not isinstance(below, Store):
        if isinstance(below, For):
            axes.append(below.axis)
            marked, below = marked and below.reduce, below.body
        elif isinstance(below, If) and below.orelse is None:
            guard, below = t.logical_and(guard, below.condition), below.then
        else:
            return None
    value, serials = below.value, {a.serial for a in axes}
    combiner = COMBINERS.get(value.op)
    if combiner is None or len(value.args) != 2 or (is_float(value.dtype) and not marked):
        return None
    mine = [_is_cell(a, below) for a in value.args]
    if mine.count(True) != 1 or any(a.serial in serials for i in below.index for a in nodes_of("axis", i)):
        return None
    rest = value.args[mine.index(False)]
    if any(load.payload == below.buffer for load in loads(rest, guard)):
        return None
    return Accumulated(tuple(axes), below, combiner, rest, guard)


def _is_cell(x: Term, store: Store) -> bool:
    """Whether a term is the cell that a store writes."""
    return (
        x.op == "load" and x.payload == store.buffer and [i.serial for i in x.args] == [i.serial for i in store.index]
    )
