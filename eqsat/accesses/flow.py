"""Where values come from, by enumeration: for each read the write that it sees, for each cell the write that lasts.

Two accesses of one memory may change places where nothing sees the difference: a value that is overwritten before it is
read, say. Conflicts alone refuse that. For few iterations, whose conditions and indices read no data, the flow of
values is compared itself: where each read sees the same write, and each cell keeps the same one, all values are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.accesses.access import Access
from eqsat.ir.dtypes import NDArray
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import symbols

MOST_INSTANCES = 1 << 16
WIDTH = 16
"""More numbers than the name of a happening, or a cell, has."""


@dataclass(frozen=True, eq=False)
class Named:
    """An access, and the numbers by which its happenings are known: terms over its axes."""

    access: Access
    numbers: tuple[Term, ...]


def same_flow(before: Sequence[Named], after: Sequence[Named], around: int = 0) -> bool:
    """Whether the accesses of two orders, one for one, see and leave the same values; False where that is not shown.

    around: how many loops stand around both; each iteration of these is compared by itself.

    >>> from eqsat.accesses.access import Context, Memory, accesses
    >>> from eqsat.ir.statements.stmt import BufferDecl, For, Store
    >>> i, j = t.ax(0, 3), t.ax(1, 2)
    >>> here = Context({"x": Memory(BufferDecl("x", (2,), "int8"), "x")})
    >>> store = Store("x", (i % 2,), t.cast_to(i + j, "int8"))
    >>> one = [Named(a, (i, j)) for a in accesses(For(i, For(j, store)), here)]
    >>> two = [Named(a, (i, j)) for a in accesses(For(j, For(i, store)), here)]
    >>> same_flow(one, two)
    True
    """
    if len(before) != len(after):
        return False
    pairs = zip(before, after, strict=True)
    if any(a.access.memory.root != b.access.memory.root or a.access.write != b.access.write for a, b in pairs):
        return False
    extents: list[int] = []
    first, second = _flow(before, around, extents), _flow(after, around, extents)
    if first is None or second is None or first.keys() != second.keys():
        return False
    return all(np.array_equal(first[k], second[k]) for k in first)


def _flow(found: Sequence[Named], around: int, extents: list[int]) -> Mapping[str, NDArray] | None:
    """For each memory the reads, each with the write that it sees, and the last write of each cell, sorted by name."""
    result: dict[str, NDArray] = {}
    roots = dict.fromkeys(n.access.memory.root for n in found if n.access.write)
    for root in roots:
        parts: list[tuple[NDArray, NDArray, NDArray, bool]] = []
        members = [(k, n) for k, n in enumerate(found) if n.access.memory.root == root]
        if len({n.access.buffer for _, n in members}) > 1 or any(n.access.memory.private > around for _, n in members):
            return None
        depth = max(len(n.access.path) for _, n in members)
        for k, named in members:
            rows = _rows((k, depth, around), named, extents)
            if rows is None:
                return None
            parts.append((*rows, named.access.write))
        result[root] = _seen(parts)
    return result


def _rows(place: tuple[int, int, int], named: Named, extents: list[int]) -> tuple[NDArray, NDArray, NDArray] | None:
    """The times, the cells and the names of all happenings of an access, a column for each."""
    (number, depth, around), access = place, named.access
    sizes = [t.int_value(axis.args[0]) for axis in access.axes]
    known = [n for n in sizes if n is not None]
    if len(known) < len(sizes) or not access.exact or len(access.index) + len(sizes) + around + 2 > WIDTH:
        return None
    count = int(np.prod(known, dtype=np.int64)) if known else 1
    extents.append(count)
    if sum(extents) > 2 * MOST_INSTANCES:
        return None
    grid = np.indices(known).reshape(len(known), count) if known else np.zeros((0, 1), np.int64)
    env: dict[Term, NDArray] = {axis: grid[n] for n, axis in enumerate(access.axes)}
    index = [i for i in access.index if i is not None]
    guard = t.logical_and(*access.guards)
    if symbols(guard, *index):
        return None
    (keep, bad), *rest = evaluate_masked([guard, *index, *named.numbers], env, load_table)
    alive = np.broadcast_to(keep if bad is None else np.logical_and(keep, np.logical_not(bad)), (count,))
    columns = [np.broadcast_to(value, (count,))[alive] for value, _ in rest]
    at = {len(loop.path): grid[n][alive] for n, loop in enumerate(access.loops)}
    steps = int(alive.sum())
    times: list[NDArray] = []
    for position in range(depth):
        part = access.path[position] if position < len(access.path) else 0
        times += [at.get(position, np.zeros(steps, np.int64)), np.full(steps, part, np.int64)]
    names = [np.full(steps, number, np.int64), *columns[len(index) :]]
    cells = [np.zeros(steps, np.int64), *(grid[n][alive] for n in range(around)), *columns[: len(index)]]
    return np.stack(times), np.stack(cells), _padded(names)


def _padded(names: Sequence[NDArray]) -> NDArray:
    """Names of one width."""
    return np.stack([*names, *(np.zeros_like(names[0]) for _ in range(WIDTH - len(names)))])


def _seen(parts: Sequence[tuple[NDArray, NDArray, NDArray, bool]]) -> NDArray:
    """Rows (name of a read, name of the write that it sees) and (cell, name of its last write), sorted."""
    times = np.concatenate([p[0] for p in parts], axis=1)
    cells = np.concatenate([p[1] for p in parts], axis=1)
    names = np.concatenate([p[2] for p in parts], axis=1)
    writes = np.concatenate([np.full(p[0].shape[1], p[3]) for p in parts])
    order = np.lexsort(times[::-1])
    none = np.full(names.shape[0], -1, np.int64)
    last: dict[tuple[int, ...], NDArray] = {}
    rows: list[NDArray] = []
    for n in order:
        cell = tuple(int(c) for c in cells[:, n])
        if writes[n]:
            last[cell] = names[:, n]
        else:
            rows.append(np.concatenate([names[:, n], last.get(cell, none)]))
    width = names.shape[0]
    for cell, name in last.items():
        mark = np.full(width, -2, np.int64)
        mark[1 : 1 + len(cell)] = cell[: width - 1]
        rows.append(np.concatenate([mark, name]))
    found = np.stack(rows) if rows else np.zeros((0, 2 * width), np.int64)
    return found[np.lexsort(found.T[::-1])]
