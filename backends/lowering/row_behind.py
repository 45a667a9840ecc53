"""The last step of a group of rows, one row behind: its divisions run beside other arithmetic, not after it.

    before:  for r: m = max over k of x[r, k]
                    for k: e[k] = exp(x[r, k] - m); s += e[k]
                    for k: y[r, k] = e[k] / s                         # waits for the divider, which nothing else uses
    after:   for r: m = max over k of x[r, k]
                    for k: y[r - 1, k] = e[k] / s; e[k] = exp(x[r, k] - m); t += e[k]
                    s = t

A step may stay behind where it finds what it reads of the row before. What is not local to a row is there anyway. A
local row that is filled after the loop still holds the row before; one that the loop itself fills holds it from the
element that is computed on, so that the element read must be the one that is replaced next. Rows that are filled
before the loop are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqsat.backends.lowering.access import flat_index
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.rows import Group, loads_of
from eqsat.backends.lowering.split import extent_of
from eqsat.backends.lowering.values import Value
from eqsat.ir.dtypes import is_float
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder, substitute

CHUNK = 32
"""Rows of a chunk at most: threads share chunks, and only in a chunk is a row behind another one."""
FEWEST = 8
"""Rows of a chunk at least, and chunks: a first and a last row of each are done by themselves."""


MEANWHILE = ("exp", "log", "tanh", "erf")
"""Functions that take many multiplications and no division: next to less than one there is nothing to gain."""


@dataclass(frozen=True)
class Behind:
    """A step that is one row behind, the reduction in whose loop it is computed, and its axes there."""

    value: Value
    reader: Value
    axes: Mapping[Term, Term]


def find_behind(group: Group, simplifier: IndexSimplifier) -> Behind | None:
    """The last step of a group, if it divides, and a reduction whose loop computes something meanwhile."""
    value = group.values[-1]
    if value.name in group.rows.local or value.combiner is not None or value.after is not None or value.body is None:
        return None
    if not any(is_float(n.dtype) for n in nodes_of("div", value.body)):
        return None
    by_name = {v.name: v for v in group.values}
    for reader in reversed(group.values[:-1]):
        stored = by_name.get(group.beside.get(reader.name, ""))
        if stored is None or stored.body is None or not any(n.op in MEANWHILE for n in postorder(stored.body)):
            continue
        axes = _same_loop(value, reader, group.rows.axes)
        if axes is not None and _there(value, reader, axes, group, simplifier):
            return Behind(value, reader, axes)
    return None


def _same_loop(value: Value, reader: Value, k: int) -> dict[Term, Term] | None:
    """The axes of a row of a value as those of a reduction of as many steps, if they are alike."""
    mine = [t.ax(n, d) for n, d in enumerate(value.shape) if n >= k]
    loops = [a for a in (t.red(n, d) for n, d in enumerate(reader.reduce)) if extent_of(a) > 1]
    long = [a for a in mine if extent_of(a) > 1]
    if [extent_of(a) for a in long] != [extent_of(a) for a in loops]:
        return None
    return {a: t.index_const(0) for a in mine} | dict(zip(long, loops, strict=True))


def _there(value: Value, reader: Value, axes: Mapping[Term, Term], group: Group, simplifier: IndexSimplifier) -> bool:
    """Whether what a value reads of the row before is still there in the loop of a reduction."""
    k = group.rows.axes
    names = [v.name for v in group.values]
    shapes = {v.name: v.shape for v in group.values}
    for node in loads_of(value):
        name = node.payload
        if name not in group.rows.local:
            continue
        if name == group.beside[reader.name]:
            (store,) = (n for n in loads_of(reader) if n.payload == name)
            here, there = (flat_index(n.args[k:], shapes[name][k:]) for n in (node, store))
            if simplifier.simplify(substitute(here, axes) - there) is not t.index_const(0):
                return False
        elif _filled_at(name, names, group.beside) < names.index(reader.name):
            return False
    return True


def _filled_at(name: str, names: Sequence[str], beside: Mapping[str, str]) -> int:
    """The step in whose loop a local row is filled."""
    return names.index(next((r for r, stored in beside.items() if stored == name), name))


def chunk_of(count: int) -> int:
    """Rows of a chunk, of which there are several and nothing is left; 0 where there is no such number.

    >>> chunk_of(1024), chunk_of(12 * 197), chunk_of(97), chunk_of(64)
    (32, 12, 0, 8)
    """
    sizes = range(CHUNK, FEWEST - 1, -1)
    return next((size for size in sizes if count % size == 0 and count // size >= FEWEST), 0)
