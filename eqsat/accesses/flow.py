"""Where values come from, by enumeration: what each cell holds in the end, as what it was computed of.

Two accesses of one memory may change places where nothing sees the difference: a value that is overwritten before it is
read, say. Conflicts alone refuse that. For few iterations, whose conditions and indices read no data, the flow of
values is compared itself: two values are equal where one store makes them of equal values, at the same numbers of the
axes that it computes with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.accesses.access import Access
from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.stmt import Store
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import free_variables, nodes_of, substitute, symbols

MOST_INSTANCES = 1 << 16


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
    told, values = _numbers_that_count(before), dict[Value, int]()
    first, second = (_flow(found, around, extents, (told, values)) for found in (before, after))
    return first is not None and first == second


def _numbers_that_count(found: Sequence[Named]) -> list[list[int]]:
    """For each access, those of its numbers that tell its value, beside what its statement reads of written memory: of
    a store, the axes that its value computes with; of any other, all."""
    result: list[list[int]] = []
    written = {n.access.memory.root for n in found if n.access.write}
    for named in found:
        everything, stmt = list(range(len(named.numbers))), named.access.stmt
        if not named.access.write or not isinstance(stmt, Store) or nodes_of("hole", stmt.value):
            result.append(everything)
            continue
        own = [n.access for n in found if n.access.stmt is stmt and not n.access.write]
        seen = {a.buffer for a in own if a.memory.root in written}
        cells = {x: t.load(str(x.payload), [], x.dtype) for x in nodes_of("load", stmt.value) if x.payload in seen}
        used = set(nodes_of("axis", value := substitute(stmt.value, cells))) | set(nodes_of("var", value))
        result.append([n for n in everything if used & {*free_variables(named.numbers[n])}])
    return result


Value = tuple[object, ...]
"""What makes a value: the store, the numbers that count, and the values of what it reads."""


def _flow(
    found: Sequence[Named], around: int, extents: list[int], told: tuple[list[list[int]], dict[Value, int]]
) -> Mapping[Value, int] | None:
    """The values that cells have at the end, and that conditions read, by number; equal ones have one number."""
    roots = dict.fromkeys(n.access.memory.root for n in found if n.access.write)
    members = [(k, n) for k, n in enumerate(found) if n.access.memory.root in roots]
    if any(n.access.memory.private > around for _, n in members):
        return None
    if len({(n.access.memory.root, n.access.buffer) for _, n in members}) > len(roots):
        return None
    depth = max((len(n.access.path) for _, n in members), default=0)
    parts: list[tuple[int, NDArray, NDArray, NDArray]] = []
    for k, named in members:
        rows = _rows((list(roots).index(named.access.memory.root), depth, around), named, extents)
        if rows is None:
            return None
        times, cells, names = rows
        parts.append((k, times, cells, names[told[0][k]]))
    return _ended(found, parts, told[1])


def _ended(
    found: Sequence[Named], parts: Sequence[tuple[int, NDArray, NDArray, NDArray]], values: dict[Value, int]
) -> Mapping[Value, int]:
    """All happenings in their order. What a statement reads comes right before what it writes."""
    times = np.concatenate([p[1] for p in parts], axis=1)
    happened: list[tuple[int, Value, Value]] = [
        (k, tuple(cell), tuple(name))
        for k, _, cells, names in parts
        for cell, name in zip(cells.T.tolist(), names.T.tolist(), strict=True)
    ]
    held: dict[Value, int] = {}
    result: dict[Value, int] = {}
    here: object = None
    read: list[tuple[int, int]] = []
    order: list[int] = np.lexsort(times[::-1]).tolist()
    for n in order:
        k, cell, name = happened[n]
        access = found[k].access
        place = id(access.stmt), *times[: 2 * len(access.path) - 1, n].tolist()
        if place != here:
            here, read = place, []
        if access.write:
            copied = _copied(found, access, read)
            held[cell] = values.setdefault((k, name, tuple(read)), len(values)) if copied is None else copied
            continue
        value = held[cell] if cell in held else values.setdefault(("before", cell), len(values))
        read.append((k, value))
        if not isinstance(access.stmt, Store):
            result[("read", k, name)] = value
    return {**result, **{("cell", cell): value for cell, value in held.items()}}


def _copied(found: Sequence[Named], write: Access, read: Sequence[tuple[int, int]]) -> int | None:
    """The value that a write only copies: that of the one cell that its statement reads, and stores as it is."""
    value = write.stmt.value if isinstance(write.stmt, Store) else None
    if value is None or value.op != "load" or len(read) != 1:
        return None
    return read[0][1] if found[read[0][0]].access.buffer == value.payload else None


def _rows(place: tuple[int, int, int], named: Named, extents: list[int]) -> tuple[NDArray, NDArray, NDArray] | None:
    """The times, the cells and the names of all happenings of an access, a column for each."""
    (number, depth, around), access = place, named.access
    sizes = [t.int_value(axis.args[0]) for axis in access.axes]
    known = [n for n in sizes if n is not None]
    if len(known) < len(sizes) or not access.exact:
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
    names = columns[len(index) :]
    cells = [np.full(steps, number, np.int64), *(grid[n][alive] for n in range(around)), *columns[: len(index)]]
    return np.stack(times), np.stack(cells), np.stack(names) if names else np.zeros((0, steps), np.int64)
