"""Schedules of element-wise bodies, which are computed tile by tile."""

from __future__ import annotations

from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import BLOCK
from eqsat.backends.schedules.contiguity import tile_extent, unit_loop
from eqsat.backends.schedules.schedule import TILE_I, TILE_J, PointwiseRows, PointwiseTiles
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

FLOAT16 = "float16"
TILE = 64
"""Elements of a row of a tile. With half as many rows, a tile of float32 takes 8 KiB: a quarter of the first cache."""
NARROW = 2
"""Elements of at most so many bytes make tiles of twice as many in each row."""
NEAR = 4
"""Operands with strides up to this are read in a loop of its own before a row is computed: few lines are wasted."""


def computes_float16(body: Term) -> bool:
    """Whether a body computes with binary16 numbers, more than passing their bits on."""
    return body.op != "load" and any(node.dtype == FLOAT16 for node in postorder(body))


def choose_pointwise_tiles(move: Move, threads: int, i: int) -> PointwiseTiles | None:
    """Tiles along the result's loop i, where some operands lie along one other loop, all others along i."""
    across = [a for a in move.operands if a.strides[i] not in (0, 1)]
    loops = {unit_loop(a) for a in across}
    j = loops.pop() if len(loops) == 1 else None
    if j is None or move.boxed or any(min(move.extents[i], move.extents[j]) * a.size < BLOCK for a in across):
        return None
    wide = 2 * TILE if move.out.size <= NARROW else TILE
    ti, tj = tile_extent(move.extents[i], wide, 1), tile_extent(move.extents[j], wide // 2, 1)
    return PointwiseTiles(i, j, ti, tj, along=i, order=_tile_order(move, i, j), threads=threads)


def _tile_order(move: Move, i: int, j: int) -> tuple[int, ...]:
    return (*(k for k in range(len(move.extents)) if k not in (i, j)), TILE_J, TILE_I)


def transposed_loop(move: Move) -> int | None:
    """The loop j along which a body with binary16 numbers is computed, before what it gives is transposed.

    That pays where rows along j are long, and all operands lie along j: one of them contiguous, or the result with a
    border along its loop i, which the transpose writes in passing.
    """
    i = unit_loop(move.out)
    if i is None or move.is_copy or not computes_float16(move.body) or move.out.size > NARROW:
        return None
    j = next((k for k, s in enumerate(move.out.strides) if s == move.extents[i]), None)
    e = BLOCK // move.out.size
    if j is None or move.box[j][1] - move.box[j][0] < TILE // 2 or NEAR < move.extents[i] < e:
        return None
    near = all(0 <= a.strides[j] <= NEAR for a in move.operands)
    across = any(a.strides[j] == 1 for a in move.operands) or i in move.boxed
    return j if near and across and (i not in move.boxed or e <= move.extents[i] <= TILE) else None


def choose_transposed_pointwise(move: Move, threads: int, i: int) -> PointwiseTiles | None:
    """Tiles along such a loop j."""
    j = transposed_loop(move)
    if j is None or move.boxed not in ((), (i,)):
        return None
    ti = move.extents[i] if move.boxed else tile_extent(move.extents[i], TILE, 1)
    tj = tile_extent(move.extents[j], TILE, 1)
    return PointwiseTiles(i, j, ti, tj, along=j, order=_tile_order(move, i, j), threads=threads)


def choose_pointwise_rows(move: Move, threads: int, i: int) -> PointwiseRows | None:
    """Pieces of rows of a body with binary16 numbers, all of whose operands lie along the result."""
    if move.boxed or move.extents[i] < TILE // 2 or not computes_float16(move.body):
        return None
    if not all(0 <= a.strides[i] <= NEAR for a in move.operands):
        return None
    ti = tile_extent(move.extents[i], TILE, 1)
    others = [k for k in range(len(move.extents)) if k != i]
    # Loops whose steps lie between the elements of a row run inside: they use the same cache lines.
    within = [k for k in others if any(0 < a.strides[k] < a.strides[i] for a in move.operands)]
    order = (*(k for k in others if k not in within), TILE_I, *within)
    return PointwiseRows(i, ti, order=order, threads=threads)
