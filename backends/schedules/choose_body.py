"""The schedules of pointwise bodies, tile by tile."""

from __future__ import annotations

from eqsat.backends.lowering.moves import Move
from eqsat.backends.schedules.runs import tile_extent, unit
from eqsat.backends.schedules.schedule import TILE_I, TILE_J, Blend, Cross, Strip
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

HALF = "float16"
BLEND = 64
"""Elements of a row of the tiles in which a body is computed."""
STRIP = 64
"""So are so many of a row along which all operands lie: few enough for loops over them to be unrolled."""
NEAR = 4
"""Elements of operands at most so far apart are read along a row of a body."""


def has_halves(body: Term) -> bool:
    """Whether a body computes with binary16 numbers, more than passing their bits on."""
    return body.op != "load" and any(node.dtype == HALF for node in postorder(body))


def plan_blend(move: Move, threads: int, i: int) -> Blend | None:
    """Tiles of a body of which some operands are contiguous along one other loop, all else along the result's."""
    across = [a for a in move.operands if a.strides[i] not in (0, 1)]
    loops = {unit(a) for a in across}
    j = loops.pop() if len(loops) == 1 else None
    if j is None or move.boxed or any(min(move.extents[i], move.extents[j]) * a.size < 16 for a in across):
        return None
    wide = 2 * BLEND if move.out.size <= 2 else BLEND
    ti, tj = tile_extent(move.extents[i], wide, 1), tile_extent(move.extents[j], wide // 2, 1)
    others = [k for k in range(len(move.extents)) if k not in (i, j)]
    return Blend(i, j, ti, tj, (*others, TILE_J, TILE_I), threads)


def cross_loop(move: Move) -> int | None:
    """The loop along which a body with binary16 numbers is computed, before its rows are turned into the result."""
    i = unit(move.out)
    if i is None or move.is_copy or not has_halves(move.body) or move.out.size > 2:
        return None
    j = next((k for k, s in enumerate(move.out.strides) if s == move.extents[i]), None)
    e = 16 // move.out.size
    if j is None or move.box[j][1] - move.box[j][0] < BLEND // 2 or NEAR < move.extents[i] < e:
        return None
    near = all(0 <= a.strides[j] <= NEAR for a in move.operands)
    turned = any(a.strides[j] == 1 for a in move.operands) or i in move.boxed
    return j if near and turned and (i not in move.boxed or e <= move.extents[i] <= BLEND) else None


def plan_cross(move: Move, threads: int, i: int) -> Cross | None:
    """Tiles of such a body."""
    j = cross_loop(move)
    if j is None or move.boxed not in ((), (i,)):
        return None
    ti = move.extents[i] if move.boxed else tile_extent(move.extents[i], BLEND, 1)
    tj = tile_extent(move.extents[j], BLEND, 1)
    others = [k for k in range(len(move.extents)) if k not in (i, j)]
    return Cross(i, j, ti, tj, (*others, TILE_J, TILE_I), threads)


def plan_strip(move: Move, threads: int, i: int) -> Strip | None:
    """Pieces of rows of a body with binary16 numbers, all of whose operands lie along the result."""
    if move.boxed or move.extents[i] < BLEND // 2 or not has_halves(move.body):
        return None
    if not all(0 <= a.strides[i] <= NEAR for a in move.operands):
        return None
    ti = tile_extent(move.extents[i], STRIP, 1)
    others = [k for k in range(len(move.extents)) if k != i]
    # What lies between the elements of a row is taken before the next piece.
    among = [k for k in others if any(0 < a.strides[k] < a.strides[i] for a in move.operands)]
    return Strip(i, ti, (*(k for k in others if k not in among), TILE_I, *among), threads)
