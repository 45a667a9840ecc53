"""Reductions in vector registers: blocks of the reduced axes, and chunks of the output, that stay in the first cache.

    before:  for i: for j: y[i, j] = sum over k of a[i, k] * b[k, j]
    after:   for each chunk of i and j: acc[chunk] = 0
                 for k0 by block: for each tile of the chunk:         # b[k0:+block, tile] stays in the first cache
                     sums = acc[tile]; sums += a[tile, k] * b[k, tile] for k of the block; acc[tile] = sums
                 y[chunk] = acc                                       # `sums` are vector registers

The lanes' operand of a tile, its panel, is read for every tile of rows. Where it is larger than the first cache holds
beside the rest, the outermost reduced axis is cut into blocks; the sums of a chunk of the output wait in local memory
while a block of the panel is used for all of its tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from eqsat.backends.cache_sets import rows_that_stay
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.order import Order, stride
from eqsat.backends.lowering.registers import REGISTERS, File, in_registers, lane_step, over_tile, register_tile
from eqsat.backends.lowering.split import Axes, Nest, Roots, ceil_div, extent_of
from eqsat.backends.machine import LINE, Machine
from eqsat.ir.statements.stmt import Alloc, BufferDecl, Stmt, Store, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term, load
from eqsat.ir.terms.walk import free_variables, postorder, transform


class Work(Protocol):
    """What the builder of a reduction gives: its nest, its accumulators, and what stores a result."""

    nest: Nest
    simplifier: IndexSimplifier
    order: Order
    combiner: str
    dtype: str
    clear: Term
    keep: int
    settle: Callable[[Sequence[Term]], None]
    store: Callable[[Roots, Term], Store]

    def at(self, place: Term) -> Term: ...
    def over(self, axes: Axes, store: Store) -> Stmt: ...


def combine(combiner: str, a: Term, b: Term) -> Term:
    """One step of a reduction."""
    if combiner in ("sum", "prod"):
        return t.add(a, b) if combiner == "sum" else t.mul(a, b)
    return t.binary(combiner, a, b)


USES = 4
"""Tiles of rows that make it worth to keep a block of the panel in the cache."""
FAR = 2
"""A panel that reaches over so many times its size is copied together: its lines are far from each other."""
STEPS = 96
"""Steps of a block that are worth to bring its sums into registers and back."""
MOST = 4
"""Tiles of lanes in a chunk, of which each line of the output is a line of the cache or two."""


@dataclass(frozen=True, eq=False)
class Blocks(Record):
    """The axes of lanes and rows, the register tile, the extents of what one chunk holds, and the steps of a block."""

    lanes: Term
    rows: Term | None
    width: int
    height: int
    sizes: dict[Term, int]
    block: int
    file: File
    packed: bool = False
    """Whether a block of the panel is copied to lie as it is read."""


@dataclass(frozen=True, eq=False)
class Walk(Record):
    """The axes of a reduction, and how its loads move along them.

    along: how many lanes lie in a row. free: the other output axes that the panel does not depend on. strides: for each
    axis the stride of each load, None where it has none.
    """

    lanes: Term
    along: int
    rows: Term | None
    free: Sequence[Term]
    reduced: Axes
    strides: Mapping[Term, Sequence[int | None]]


def choose_blocks(walk: Walk, file: File, size: int, machine: Machine) -> Blocks:
    """The tile and its blocks for elements of `size` bytes."""
    lanes, rows, free, reduced, strides = walk.lanes, walk.rows, walk.free, walk.reduced, walk.strides
    across = 1 if rows is None else extent_of(rows)
    width, height = register_tile(walk.along, across, file, _rows_that_stay(walk, file, size))
    sizes = {lanes: width}
    if rows is None:
        return Blocks(lanes, rows, width, height, sizes, 0, file)
    sizes[rows] = height
    panel = prod(map(extent_of, reduced)) * width * size
    half = machine.first // 2
    uses = prod(map(extent_of, free)) * across // height
    held = [n for n, s in enumerate(strides[lanes]) if s and strides[rows][n] == 0]
    far = any(_span(n, {a: extent_of(a) for a in reduced}, strides) * size > FAR * panel for n in held)
    if uses < USES or not (far or panel > half):
        return Blocks(lanes, rows, width, height, sizes, 0, file)
    cells = half // (width * size)
    if far:
        # Several lines of the panel and of the output at a time; the sums pass through the second cache in order.
        tiles = max(1, min(MOST, walk.along // width))
        sizes[lanes], panel = width * tiles, panel * tiles
        cells = machine.second // (8 * sizes[lanes] * size)
    sizes[rows] = _rows_of_chunk(across, height, cells)
    steps = extent_of(reduced[0])
    block = _part(steps, half * steps // panel)
    room = (half + half // 2 - block * panel // steps) // (block * size)
    near = [n for n, s in enumerate(strides[rows]) if s and abs(s) * size < LINE]
    within = {a: extent_of(a) for a in reduced[1:]}

    def beside(more: Mapping[Term, int]) -> int:
        """Elements that the rows of a chunk share lines of, for one step of the block."""
        return max((_span(n, {rows: sizes[rows], **within, **more}, strides) for n in near), default=0)

    if sizes[rows] == across:
        axis = next((a for a in free if extent_of(a) > 1), None)
        if axis is not None:
            most = cells // across
            while most > 1 and beside({axis: most}) > room:
                most -= 1
            sizes[axis] = _part(extent_of(axis), most)
    inner = prod(within.values())
    block = min(block, max(block * room // max(1, beside({})), ceil_div(STEPS, inner)))
    block = _part(steps, block)
    return Blocks(lanes, rows, width, height, sizes, block if block < steps else 0, file, far)


def _rows_that_stay(walk: Walk, file: File, size: int) -> int:
    """How many rows may be read side by side, so that the line of each is there for its next elements."""
    if walk.rows is None or not walk.reduced:
        return file.count
    steps = zip(walk.strides[walk.rows], walk.strides[walk.reduced[-1]], strict=True)
    apart = [abs(row) * size for row, step in steps if row and step and abs(step) * size < LINE]
    return min((rows_that_stay(stride, file.count) for stride in apart), default=file.count)


def _span(load: int, extents: Mapping[Term, int], strides: Mapping[Term, Sequence[int | None]]) -> int:
    """How many elements of memory a load reaches over while axes run through so many positions."""
    return 1 + sum(abs(strides[a][load] or 0) * (n - 1) for a, n in extents.items())


def _part(extent: int, most: int) -> int:
    """A part of an extent, at most so long: one that leaves no rest, unless that is less than half as long."""
    most = max(1, min(most, extent))
    whole = next(n for n in range(most, 0, -1) if extent % n == 0)
    return whole if 2 * whole > most else ceil_div(extent, ceil_div(extent, most))


def _rows_of_chunk(across: int, height: int, cells: int) -> int:
    """The rows of a chunk: all of them, or whole tiles."""
    if across <= cells:
        return across
    return height * _part(across // height, max(1, cells // height))


def register_leaf(work: Work, blocks: Blocks, roots: Roots, deferred: Axes) -> list[Stmt] | None:
    """One chunk of sums: for each block of the reduced axes every tile of it, then what is stored; None if unfit."""
    nest, simplifier, keep = work.nest, work.simplifier, work.keep
    lane = next((a for a in deferred if nest.origin.get(a) is blocks.lanes), None)
    if lane is None or not in_registers(roots[0], lane, work.dtype, blocks.file, work.combiner):
        return None
    rows = tuple(a for a in deferred if a is not lane)
    place = t.index_const(0)
    for axis in (*rows, lane):
        place = extent_of(axis) * place + axis
    place = simplifier.simplify(place)
    cells = prod(map(extent_of, deferred))
    reduced = work.order.reduced
    inner = (*roots[: keep + 1], place, *roots[keep + 2 :])
    blocked = 0 < blocks.block < extent_of(reduced[0])
    if blocked:
        nest.tiles[reduced[0]] = blocks.block
    straight: str | None = None

    def block(roots: Roots, low: Axes) -> list[Stmt]:
        """Every tile of the chunk."""
        nest.leaves -= 1
        for axis in rows:
            nest.tiles.pop(axis, None)
            if nest.origin.get(axis) is blocks.rows:
                nest.tiles[axis] = blocks.height
        nest.tiles[lane], nest.least[lane] = blocks.width, blocks.file.lanes
        if blocked:
            # The sums of a lane wait in memory between blocks: two tiles would add to them twice.
            nest.apart.add(lane)

        steps = (*low, *(reduced[1:] if blocked else reduced))

        def tile(roots: Roots, tile: Axes) -> list[Stmt]:
            nest.leaves -= 1
            return _sums(work, tile, steps, roots, blocked, straight)

        if not blocks.packed:
            return nest.build((*rows, lane), roots, tile)
        body, copy = _panel(work, roots[0], (*steps, lane), rows)
        return copy(nest.build((*rows, lane), (body, *roots[1:]), tile))

    target = work.store(roots, work.at(place))
    if not blocked and target.value is work.at(place) and lane_step(target.index[0], lane) == 1:
        # A tile leaves for where its results are to be.
        straight = target.buffer
        return block(inner, ())
    loops = nest.build(reduced[:1], inner, block) if blocked else block(inner, ())
    start: list[Stmt] = []
    if blocked:
        cell = t.ax(2000, cells)
        start = [work.over((cell,), Store("acc", (cell,), work.clear))]
    order = sorted(deferred, key=lambda a: -abs(stride(roots[1], a) or 0))
    result = work.over(tuple(order), target)
    return [Alloc(BufferDecl("acc", (cells,), work.dtype), seq([*start, *loops, result]))]


def _panel(work: Work, body: Term, axes: Axes, rows: Axes) -> tuple[Term, Callable[[list[Stmt]], list[Stmt]]]:
    """A body that reads what all rows share, along the lanes, from a local copy; and what puts the copy around it."""
    place = t.index_const(0)
    for axis in axes:
        place = extent_of(axis) * place + axis
    place, cells = work.simplifier.simplify(place), prod(map(extent_of, axes))
    shared: dict[Term, Term] = {}
    for node in postorder(body):
        if node.op == "load" and lane_step(node.args[0], axes[-1]) == 1 and not set(rows) & set(free_variables(node)):
            shared[node] = load(f"panel{len(shared)}", [place], work.dtype)

    def copy(inside: list[Stmt]) -> list[Stmt]:
        for source, there in shared.items():
            decl = BufferDecl(str(there.payload), (cells,), work.dtype)
            inside = [Alloc(decl, seq([work.over(axes, Store(decl.name, (place,), source)), *inside]))]
        return inside

    return transform(body, shared.get), copy


def _sums(work: Work, tile: Axes, steps: Axes, roots: Roots, blocked: bool, straight: str | None = None) -> list[Stmt]:
    """The sums of one tile in vector registers, from and to their places; `straight` is the buffer of results, where
    they go there as they are."""
    nest = work.nest
    place = t.index_const(0)
    for axis in tile:
        place = extent_of(axis) * place + axis
    place = work.simplifier.simplify(place)
    held, there = load("sums", [place], work.dtype), roots[work.keep + 1]

    def step(roots: Roots, _: Axes) -> list[Stmt]:
        work.settle(roots[work.keep + 2 :])
        return [over_tile(tile, Store("sums", (place,), combine(work.combiner, held, roots[0])))]

    loops = nest.build(steps, roots, step)
    start = over_tile(tile, Store("sums", (place,), work.at(there) if blocked else work.clear))
    finish = over_tile(tile, Store("acc", (there,), held) if straight is None else Store(straight, (roots[1],), held))
    decl = BufferDecl("sums", (prod(map(extent_of, tile)),), work.dtype, REGISTERS)
    return [Alloc(decl, seq([start, *loops, finish]))]
