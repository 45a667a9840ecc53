"""Loop nests as NDRanges: which loops may run in any order, and how many work-items share them.

The outer loops of a *parallel nest* are proved independent: different positions write different cells, and nothing
that is written is read. A *grid* divides its positions over work-items. The work-items of all nests of a function
follow each other in one NDRange: one launch, whatever borders a pad or an odd size leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from eqsat.backends.c.function import points
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.opencl.accumulators import split_accumulators
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alloc, For, Seq, Stmt, Store, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, linear_parts
from eqsat.ir.terms.walk import free_variables, nodes_of

GRAIN = 1 << 12
"""Innermost statements of a work-item of a CPU, about: fewer take less time than starting it."""
ITEMS_PER_UNIT = 8
"""Work-items for each CPU core: cores that end early find more to do, and starting them costs little."""
GROUP = 64
"""Work-items in a group of a GPU, neighbours along the last loop: one or two of the sets that run in step."""
WIDE_GROUP = 256
"""The same where there is much to do: fewer groups are started."""
EACH = 4
"""Positions of a work-item there: loads that wait for memory at the same time."""
BUSY = 1 << 14
"""Positions for each compute unit from which that pays: several times as many as a unit holds work-items."""


@dataclass(frozen=True)
class ParallelNest:
    """Independent loops, outermost first, around a statement that each of their positions runs once."""

    loops: tuple[For, ...]
    body: Stmt

    @property
    def positions(self) -> int:
        """How often the body runs."""
        return prod(loop.extent for loop in self.loops)


@dataclass(frozen=True)
class Grid:
    """Such a nest as work-items: each takes one position of the loops, `chunk` neighbouring ones of the last loop."""

    loops: tuple[For, ...]
    chunk: int
    body: Stmt

    @property
    def parts(self) -> int:
        """Into how many chunks the last loop is cut."""
        return -(-self.loops[-1].extent // self.chunk) if self.loops else 1

    @property
    def items(self) -> int:
        """The number of work-items."""
        return prod(loop.extent for loop in self.loops[:-1]) * self.parts


def _stores(stmt: Stmt) -> list[Store]:
    local = {s.buffer.name for s in statements(stmt) if isinstance(s, Alloc)}
    return [s for s in statements(stmt) if isinstance(s, Store) and s.buffer not in local]


def independent(axes: tuple[Term, ...], stmt: Stmt, simplifier: IndexSimplifier) -> bool:
    """Whether different positions of the axes are shown to write different cells, and no cell that is read.

    >>> from eqsat.ir.terms.term import ax, load
    >>> i, j = ax(0, 4), ax(1, 3)
    >>> independent((i,), For(j, Store("y", (3 * i + j,), load("x", [i], "int8"))), IndexSimplifier())
    True
    >>> independent((i,), For(j, Store("y", (2 * i + j,), load("x", [i], "int8"))), IndexSimplifier())
    False
    """
    stores = _stores(stmt)
    written = {s.buffer for s in stores}
    if any(n.payload in written for s in statements(stmt) for n in nodes_of("load", *stmt_terms(s))):
        return False
    return all(_distinct(axes, [s.index[0] for s in stores if s.buffer == buffer], simplifier) for buffer in written)


def _distinct(axes: tuple[Term, ...], cells: list[Term], simplifier: IndexSimplifier) -> bool:
    """Whether cells at different positions of the axes are different: the strides are those of digits, each larger
    than everything below it. Of one cell the inner loops count as digits too; of several, how far apart they are."""
    outer, among = set(axes), set(axes)
    steps: set[tuple[int, ...]] = set()
    spans: list[tuple[int, int]] = []
    inner: list[tuple[int, Term]] = []
    for cell in cells:
        constant, parts = linear_parts(cell)
        if len(cells) == 1:
            inner = [(abs(k), u) for k, u in parts if u.op == "axis" and u not in among]
            among.update(u for _, u in inner)
        rest = t.linear(constant, [(k, u) for k, u in parts if u not in among])
        known = simplifier.range(rest)
        if known is None or any(a in outer for a in free_variables(rest)):
            return False
        table = {u: k for k, u in parts}
        steps.add(tuple(table.get(a, 0) for a in axes))
        spans.append(known)
    if len(steps) > 1:
        return False
    reach = max(high for _, high in spans) - min(low for low, _ in spans)
    digits = [(abs(step), a) for step, a in zip(steps.pop(), axes, strict=True)]
    for step, axis in sorted([*digits, *inner], key=lambda item: item[0]):
        if step <= reach:
            return False
        reach += step * (_extent(axis) - 1)
    return True


def _extent(axis: Term) -> int:
    number = t.int_value(axis.args[0])
    assert number is not None
    return number


def parallel_nests(func: PrimFunc, simplifier: IndexSimplifier, wanted: int | None) -> list[ParallelNest]:
    """The parallel nests of a function, in order. A loop around several nests is distributed over them where fewer than
    `wanted` positions are independent above; None: every position is wanted, and accumulators are taken apart."""

    def split(stmt: Stmt, outer: tuple[For, ...]) -> list[ParallelNest]:
        if isinstance(stmt, Seq):
            return [nest for part in stmt.parts for nest in split(part, outer)]
        if isinstance(stmt, For):
            inside = (*outer, stmt)
            if independent(tuple(loop.axis for loop in inside), stmt.body, simplifier):
                enough = wanted is not None and prod(loop.extent for loop in inside) >= wanted
                whole = enough and isinstance(stmt.body, Seq)
                return [ParallelNest(inside, stmt.body)] if whole else split(stmt.body, inside)
        lanes = split_accumulators(stmt) if isinstance(stmt, Alloc) and wanted is None else None
        return [ParallelNest(outer, stmt)] if lanes is None else split(lanes, outer)

    return [p for p in split(func.body, ()) if p.positions]


def grid_for_cpu(nest: ParallelNest, share: float) -> Grid:
    """A few heavy work-items, about `share` of them, over the outer loops; the inner ones stay loops: compilers
    vectorise those."""
    items = max(1, min(int(share), nest.positions * points(nest.body) // GRAIN, nest.positions))
    outer: list[For] = []
    inner = list(nest.loops)
    while inner and prod(loop.extent for loop in outer) < items:
        outer.append(inner.pop(0))
    body = nest.body
    for loop in reversed(inner):
        body = For(loop.axis, body, loop.kind)
    parts = -(-items // prod(loop.extent for loop in outer[:-1]))
    return Grid(tuple(outer), -(-outer[-1].extent // parts) if outer else 1, body)


def grid_for_gpu(nest: ParallelNest) -> Grid:
    """One work-item for each position."""
    return Grid(nest.loops, 1, nest.body)


def positions_each(found: Sequence[Grid], units: int, group: int) -> int:
    """How many positions a work-item of a GPU takes, a group's width apart: one where there are few, or much to do in
    each.

    >>> from eqsat.ir.terms.term import ax
    >>> loop = For(ax(0, 1 << 20), Store("y", (ax(0, 1 << 20),), t.load("x", [ax(0, 1 << 20)], "int8")))
    >>> [positions_each([Grid((loop,), 1, loop.body)], units, 1024) for units in (8, 132)]
    [4, 1]
    """
    much = sum(g.items for g in found) >= units * BUSY
    return EACH if much and group >= WIDE_GROUP and all(points(g.body) == 1 for g in found) else 1


def grids(func: PrimFunc, simplifier: IndexSimplifier, kind: str, units: int) -> list[Grid]:
    """The work-items of a function, nest by nest, on a device of a kind ("cpu", else "gpu") with so many cores."""
    wanted = units * ITEMS_PER_UNIT
    found = parallel_nests(func, simplifier, wanted if kind == "cpu" else None)
    if kind != "cpu":
        return [grid_for_gpu(p) for p in found]
    work = [p.positions * points(p.body) for p in found]
    return [grid_for_cpu(p, wanted * w / max(sum(work), 1)) for p, w in zip(found, work, strict=True)]
