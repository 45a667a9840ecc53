"""Reductions: which accumulators lie side by side, and the loops that clear, combine and store them.

    before:  for i: for j: y[i, j] = sum over k of a[i, k] * b[k, j]
    after:   for i0 by rows: for j0 by lanes:
                 acc[:, :] = 0; for k: acc[i, j] += a[i0 + i, k] * b[k, j0 + j] for i of the rows, j of the lanes
                 y[i0:+rows, j0:+lanes] = acc

Accumulators are a small tile of a local array. Its *lanes* run through contiguous memory, along an output axis or along
a reduced one; its *rows* run along an output axis for which an operand of the lanes is the same, so that a vector, once
loaded, is used for every row. Both are read off the strides of the loads, not off an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.order import Order, data_loads, divisions, stride
from eqsat.backends.lowering.reduce_blocks import Blocks, Walk, choose_blocks, combine, register_leaf
from eqsat.backends.lowering.registers import EXTREMES, in_registers, inside, one_block, register_file
from eqsat.backends.lowering.split import Axes, Nest, Policy, Roots, ceil_div, extent_of
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import BFLOAT16, BOOL, itemsize
from eqsat.ir.statements.stmt import Alloc, BufferDecl, For, Stmt, Store, seq, with_kind
from eqsat.ir.tensors.run import neutral
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term, load
from eqsat.ir.terms.walk import substitute

WIDE = 64
"""Accumulators side by side along an output axis, where there are no rows."""
DEEP = 32
"""Accumulators side by side along a reduced axis: enough to hide the latency of an addition."""
SHORT = 16
"""A reduced axis is worth lanes from here on."""
ROW = 64
"""Bytes of a row of a register tile: two vectors of 32 bytes."""
FULL = 0.95
"""Rows that fill less of their vectors than this are narrow: other lanes are worth looking for."""
VECTOR = 4
"""Sums of lanes two by two are vectors from here on."""
FEW = 4
"""Reductions of fewer terms have no rows."""
UNROLLED = 4
"""Nor have those of at most so many terms of one axis lanes that lie apart."""
FEWEST = 3
"""Nor are those of fewer terms held in vector registers."""
FAR = 4
"""Lanes may skip so many elements: loads of such a stride are still whole vectors, shuffled."""


def held_as(dtype: str) -> str:
    """The type of the accumulators of a reduction: float16 and bfloat16 are summed in float32, truths are numbers."""
    if dtype == BOOL:
        return "uint8"
    return "float32" if dtype in ("float16", BFLOAT16) else dtype


@dataclass(frozen=True, eq=False)
class Tile(Record):
    """The spatial loops in order, the extents of the tiled axes, the axis of the lanes, and that of the rows."""

    spatial: Axes
    sizes: dict[Term, int]
    lanes: Term | None = None
    rows: Term | None = None
    rows_last: bool = False
    """Whether the rows come after the lanes in the order of the loops."""
    blocks: Blocks | None = None
    """How sums are held in vector registers; None where compilers are to choose."""


def choose_tile(
    order: Order, dtype: str, combiner: str, ordered: bool, sizes: Mapping[str, int], machine: Machine | None = None
) -> Tile:
    """The tile of a reduction; `sizes` gives the elements of the buffers that it loads.

    With a machine, the tile is one of its vector registers where the body allows that.
    """
    loads = data_loads(order.roots[0])
    spatial, reduced = order.spatial, order.reduced
    strides = {a: [stride(load.args[0], a) for load in loads] for a in (*spatial, *reduced)}
    size = itemsize(held_as(dtype))
    lanes = lanes_of(order, strides)
    if lanes is None and reduced and not ordered and loads and all(s in (0, 1) for s in strides[reduced[-1]]):
        lanes = reduced[-1] if extent_of(reduced[-1]) >= SHORT else None
    if lanes is None:
        lanes = next((a for a in reversed(spatial) if _runs(strides[a], 1 if a is not spatial[-1] else FAR)), None)
    if lanes is None:
        return Tile(spatial, {})
    terms = prod(map(extent_of, reduced))
    if 1 < terms <= UNROLLED and terms in map(extent_of, reduced) and not _runs(strides[lanes], 1):
        # Pixels, points: compilers unroll so few terms and make vectors of them; of a tile in an array they do not.
        return Tile(spatial, {})
    along = extent_of(lanes)
    shared = [n for n, s in enumerate(strides[lanes]) if s]
    across = spatial[::-1] if any(a is lanes for a in spatial[:1]) else spatial
    rows = next((a for a in across if a is not lanes and extent_of(a) > 1 and _reused(strides[a], shared)), None)
    if machine is not None and combiner in ("sum", *EXTREMES) and terms >= FEWEST and lanes in set(spatial):
        # A window of one operand is in registers away from its borders, where they are cut off.
        body = inside(order.roots[0]) if len(loads) == 1 and not divisions(order.roots[:1]) else order.roots[0]
        body, lane = one_block(t.cast_to(body, held_as(dtype)), lanes, IndexSimplifier())
        file = register_file(machine, held_as(dtype), extent_of(lane))
        if in_registers(body, lane, held_as(dtype), file, combiner):
            if rows is None:
                rows = next((a for a in across if a is not lanes and extent_of(a) > 1 and _shared(strides[a])), None)
            free = [a for a in across if a is not rows and all(strides[a][n] == 0 for n in shared)]
            walk = Walk(lanes, extent_of(lane), rows, free, reduced, strides)
            blocks = choose_blocks(walk, file, size, machine)
            chosen = _streamed(Tile(spatial, {}, lanes, rows, blocks=blocks), loads, shared, strides, sizes)
            return replace(chosen, sizes=blocks.sizes)
    if rows is None or terms < FEW:
        # Over a window with steps, compilers keep few sums in registers; extremes become vectors in a long loop only.
        steps = combiner in ("sum", "prod") and any((s or 0) > 1 for s in strides[lanes])
        return Tile(spatial, {lanes: DEEP if lanes in set(reduced) else ROW // size if steps else WIDE}, lanes)
    width, height = _register_tile(along, extent_of(rows), ROW // size)
    tile = Tile(spatial, {lanes: width, rows: height}, lanes, rows)
    return _streamed(tile, loads, shared, strides, sizes)


def _streamed(
    tile: Tile,
    loads: Sequence[Term],
    shared: Sequence[int],
    strides: Mapping[Term, Sequence[int | None]],
    sizes: Mapping[str, int],
) -> Tile:
    """The tile with the loop over its rows around that over its lanes, if fewer elements are read again that way."""
    spatial, lanes, rows = tile.spatial, tile.lanes, tile.rows
    if rows is None or lanes is None:
        return tile
    height = tile.blocks.sizes[rows] if tile.blocks else tile.sizes[rows]
    width = tile.blocks.sizes[lanes] if tile.blocks else tile.sizes[lanes]
    rows_last = next(a for a in (*spatial, lanes) if a is lanes or a is rows) is lanes and lanes in set(spatial)
    if lanes in set(spatial) and not rows_last:
        again = ceil_div(extent_of(rows), height) * _elements(loads, shared, sizes)
        others = [n for n, s in enumerate(strides[rows]) if s]
        tiles = prod(extent_of(a) for a in spatial if a is not rows) // min(width, extent_of(lanes))
        if tiles * _elements(loads, others, sizes) < again:
            spatial, rows_last = (*(a for a in spatial if a is not rows), rows), True
    return replace(tile, spatial=spatial, rows_last=rows_last)


def lanes_of(order: Order, strides: Mapping[Term, Sequence[int | None]]) -> Term | None:
    """The output axis whose neighbours are neighbours in memory: the last one, or one that fills vectors better."""
    last = order.spatial[-1:]
    plain = next((a for a in last if _runs(strides[a], 1)), None)
    dtype = order.roots[0].dtype
    if plain is not None and fullness(extent_of(plain), dtype) >= FULL:
        return plain
    better = (a for a in order.spatial[:-1] if _runs(strides[a], 1) and fullness(extent_of(a), dtype) >= FULL)
    return next(better, plain)


def fullness(extent: int, dtype: str) -> float:
    """The part of vectors that rows of so many elements fill."""
    row = ROW // itemsize(held_as(dtype)) if dtype != BOOL else ROW
    return extent / (ceil_div(extent, row) * row)


def _runs(steps: Sequence[int | None], far: int) -> bool:
    return all(s is not None and 0 <= s <= far for s in steps) and any(steps)


def _reused(steps: Sequence[int | None], shared: Sequence[int]) -> bool:
    """Whether an operand of the lanes is the same in every row, and each access moves by known steps."""
    return all(s is not None for s in steps) and any(steps[n] == 0 for n in shared) and any(steps)


def _shared(steps: Sequence[int | None]) -> bool:
    """Whether each access moves by known steps, and one of them not at all."""
    return all(s is not None for s in steps) and 0 in steps and any(steps)


def _register_tile(along: int, across: int, row: int) -> tuple[int, int]:
    """Lanes and rows: about 12 vectors of accumulators, and no rest of a few lanes where there is such a choice."""
    if along % row == 0:
        return row, next((c for c in (6, 4, 5) if across % c == 0), ceil_div(across, ceil_div(across, 6)))
    if along % (row + row // 2) == 0:
        return row + row // 2, _dividing(across, (4, 3, 5))
    if along < row:
        return along, _dividing(across, (8, 6, 7, 5))
    parts = -(-along // (4 * row))
    width = along // parts if along % parts == 0 else 2 * row
    return width, _dividing(across, (4, 3) if width <= 2 * row else (2, 3))


def _dividing(extent: int, choices: Sequence[int]) -> int:
    """The first choice that leaves no rest, else the first."""
    return next((c for c in choices if extent % c == 0), choices[0])


def _elements(loads: Sequence[Term], chosen: Sequence[int], sizes: Mapping[str, int]) -> int:
    names = {loads[n].payload for n in chosen}
    return sum(sizes.get(n, 1) for n in names)


class Reduction:
    """Builds the nest of one reduction. `store` makes the statement that takes a result to the place of the roots,
    `beside` what each step stores besides, from the roots that are there for it."""

    def __init__(
        self,
        combiner: str,
        dtype: str,
        order: Order,
        tile: Tile,
        simplifier: IndexSimplifier,
        settle: Callable[[Sequence[Term]], None],
        store: Callable[[Roots, Term], Store],
        beside: Callable[[Roots], list[Stmt]] = lambda roots: [],
    ) -> None:
        self.combiner, self.dtype = combiner, held_as(dtype)
        self.order, self.tile, self.simplifier = order, tile, simplifier
        self.settle, self.store, self.beside = settle, store, beside
        self.keep, self.extra = 1, 0
        self.clear = t.const(neutral(combiner, self.dtype), self.dtype)
        self.lanes = tile.lanes if tile.lanes in set(order.reduced) else None
        self.width = 1 if self.lanes is None else min(tile.sizes[self.lanes], extent_of(self.lanes))

    def at(self, place: Term) -> Term:
        return load("acc", [place], self.dtype)

    def statements(self, policy: Policy, keep: int, extra: int = 0) -> list[Stmt]:
        """The loops. Roots: the body, `keep` for the store, the accumulator's place, `extra` for what is stored
        beside, then evidence."""
        order = self.order
        body = t.cast_to(order.roots[0], self.dtype)
        lane = t.index_const(0)
        if self.lanes is not None:
            lane = self.simplifier.simplify(t.binary("mod", self.lanes, self.width))
        sizes = dict(self.tile.sizes)
        self.nest = nest = Nest(self.simplifier, policy, sizes, keep + 2 + extra)
        if self.tile.blocks is not None:
            nest.least[self.tile.blocks.lanes] = self.tile.blocks.file.lanes
        self.keep, self.extra = keep, extra
        roots = (body, *order.roots[1 : keep + 1], lane, *order.roots[keep + 1 :])
        return nest.build(self.tile.spatial, roots, self.leaf)

    def step(self, roots: Roots, _: Axes) -> list[Stmt]:
        """Combine one element into its accumulator."""
        first = self.keep + 2
        self.settle(roots[first + self.extra :])
        stored = self.beside(roots[first : first + self.extra])
        if roots[0] is self.clear:
            return stored
        place = roots[self.keep + 1]
        return [*stored, Store("acc", (place,), combine(self.combiner, self.at(place), roots[0]))]

    def leaf(self, roots: Roots, deferred: Axes) -> list[Stmt]:
        """One tile of accumulators: clear, combine, store."""
        nest, width, keep = self.nest, self.width, self.keep
        nest.leaves -= 1
        if self.tile.blocks is not None:
            with nest.tiled_within():
                found = register_leaf(self, self.tile.blocks, roots, deferred)
            if found is not None:
                return found
        if self.tile.rows_last:
            deferred = deferred[::-1]
        row = t.index_const(0)
        for axis in deferred:
            row = extent_of(axis) * row + axis
        row = self.simplifier.simplify(row)
        cells = prod(map(extent_of, deferred)) * width
        place = self.simplifier.simplify(width * row + roots[keep + 1])
        inner = (*roots[: keep + 1], place, *roots[keep + 2 :])

        def accumulate(roots: Roots, low: Axes) -> list[Stmt]:
            nest.leaves -= 1
            return nest.build((*deferred, *low), roots, self.step)

        cell = t.ax(2000, cells)
        start = self.over((cell,), Store("acc", (cell,), self.clear))
        loops = nest.build(self.order.reduced, inner, accumulate)
        finish: list[Stmt] = []
        half = width
        while half > 1:
            rest, half = half, ceil_div(half, 2)
            other = t.ax(2001, rest - half)
            into = width * row + other
            joined = combine(self.combiner, self.at(into), self.at(into + half))
            loop = self.over((*deferred, other), Store("acc", (into,), joined))
            finish.append(with_kind(loop, "vectorized") if isinstance(loop, For) and loop.extent >= VECTOR else loop)
        result = self.over(deferred, self.store(roots, self.at(self.simplifier.simplify(width * row))))
        return [Alloc(BufferDecl("acc", (cells,), self.dtype), seq([start, *loops, *finish, result]))]

    def over(self, axes: Axes, store: Store) -> Stmt:
        """Loops around one store, without those that run once."""
        single = {a: t.index_const(0) for a in axes if extent_of(a) == 1}
        index, value = self.simplifier.simplify_all(substitute(x, single) for x in (*store.index, store.value))
        stmt: Stmt = Store(store.buffer, (index,), value)
        for axis in reversed(axes):
            if axis not in single:
                stmt = For(axis, stmt)
        return stmt
