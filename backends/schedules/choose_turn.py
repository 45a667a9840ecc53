"""The schedules of transposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.schedules.crowd import WAYS, beside, crowds, sharing
from eqsat.backends.schedules.runs import PLACES, chain, streams, tile_extent
from eqsat.backends.schedules.schedule import TILE_I, TILE_J, Chain, Shear, Turn

HELD_ROWS = 1024
"""Rows of the result of which a shear keeps the unfinished line."""
DENSE = 512
"""Rows of the result of at most so many bytes, one behind the other, are streamed as one stretch of memory."""
LONGEST = 4 << 10
"""So are rows of at most so many bytes, where the plane that they are turned from fits into the second cache."""
COLLECT = 1 << 10
"""Bytes of such a stretch that are collected at a time."""
PAGE_LINES = 2
"""Lines that leave at a time of rows that meet in few places, or of which several share a page."""
AHEAD = 8 << 10
"""Bytes of the source between the tile that is turned and the one that is asked for."""
FAR_AHEAD = 24 << 10
"""So many where several lines leave at a time."""
LINES = 16
"""Lines of a row of the result that are written one after the other, where the source is near."""
LONG = 512
"""Rows of the source of so many bytes are fetched along the row."""


def passes(move: Move, machine: Machine, i: int, j: int) -> bool:
    """Whether source and result together fill the last cache, and rows of a transpose would leave much of it unused."""
    size = move.out.size
    crowded = crowds(move.operands[0].strides[i] * size) or crowds(move.out.strides[j] * size)
    return crowded and 2 * move.points * size >= machine.last


def dense_tile(extent: int, row: int, e: int) -> int:
    """The rows of the result of a dense tile: about a kilobyte, and never less than a line for the last tile."""
    best = max(e, COLLECT // row // e * e)
    if extent <= best + best // 2:
        return extent
    fitting = [w for w in range(best, e - 1, -e) if extent % w * row >= LINE or extent % w == 0]
    return fitting[0] if fitting else extent


def shear_lines(row: int) -> int:
    """Lines that leave at a time of a row of so many bytes in a crowd: several, such that little is left at its end."""
    return min((k for k in range(8, 1, -1) if k * LINE <= row), key=lambda k: row % (k * LINE) // LINE, default=1)


def ahead(move: Move, j: Chain, order: Sequence[int]) -> int:
    """How many bytes ahead a source is asked for: along a long row, else where the innermost loop goes next."""
    source = move.operands[0]
    inner = [k for k in order if k >= 0]
    if j.size * source.size >= LONG or not inner:
        return 2 * LINE
    return abs(source.strides[inner[-1]]) * source.size


def by_source(move: Move, plan: Turn) -> tuple[int, ...]:
    """The loop order that reads the source from its beginning to its end."""
    strides = move.operands[0].strides
    keys = {TILE_I: abs(strides[plan.i.loops[0]]) * plan.ti, TILE_J: plan.tj}
    return tuple(sorted(plan.order, key=lambda k: -(keys[k] if k < 0 else abs(strides[k]))))


def by_result(move: Move, plan: Turn) -> tuple[int, ...]:
    """The loop order that writes the result from its beginning to its end."""
    strides = move.out.strides
    keys = {TILE_I: plan.ti, TILE_J: strides[plan.j.loops[0]] * plan.tj}
    return tuple(sorted(plan.order, key=lambda k: -(keys[k] if k < 0 else strides[k])))


@dataclass(frozen=True)
class Pair:
    """The two unit-stride loops of a transpose, and the plain schedule that others start from."""

    move: Move
    i: int
    j: int
    plain: Turn

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.move.out.size

    @property
    def line(self) -> int:
        """Elements of a cache line."""
        return LINE // self.size

    @property
    def e(self) -> int:
        """Elements of 16 bytes: the sides of a register tile are multiples of it."""
        return 16 // self.size

    @property
    def apart(self) -> tuple[int, int]:
        """Bytes between rows of the source, and between rows of the result."""
        return self.move.operands[0].strides[self.i] * self.size, self.move.out.strides[self.j] * self.size

    @property
    def row(self) -> int:
        """Bytes of the result along its contiguous loop."""
        return self.move.extents[self.i] * self.size

    @property
    def plane(self) -> int:
        """Bytes of both loops."""
        return self.row * self.move.extents[self.j]

    @property
    def alone(self) -> bool:
        """Whether the plane is one stretch of the result."""
        extents = self.move.extents
        return min(extents[self.i], extents[self.j]) >= self.e and self.move.out.strides[self.j] == extents[self.i]

    @property
    def thrash(self) -> bool:
        """Whether all rows of the source meet in one set of the first cache."""
        return self.plain.i.plain and self.apart[0] % 4096 == 0


def plan_turn(move: Move, machine: Machine, threads: int, i: int, j: int) -> Turn | Shear | None:
    """Register transposes, where both runs are long enough for them."""
    size = move.out.size
    e, line = 16 // size, LINE // size
    stream = streams(move, machine) or passes(move, machine, i, j)
    enough = (10 if stream else 4) * line
    # Lines that rows share are written once if a row goes on: far, where the result is streamed.
    most = (80 if stream else 4) * enough
    # One loop of whole lines has its rows of the source at one stride: no table of them is needed.
    lines_only = all(n == 1 or n % line == 0 for n in (move.extents[i], *move.out.strides))
    run_i = chain(move, move.out, i, [j], line if lines_only and not stream else enough, most)
    run_j = chain(move, move.operands[0], j, run_i.loops, enough, most)
    if run_i.size < e or run_j.size < e:
        return None
    ti = run_i.size if move.boxed else tile_extent(run_i.size, line, e)
    tj = tile_extent(run_j.size, line if stream else 4 * line, e)
    used = {*run_i.loops, *run_j.loops}
    loops = tuple(k for k in range(len(move.extents)) if k not in used)
    pair = Pair(move, i, j, Turn(run_i, run_j, ti, tj, (*loops, TILE_I, TILE_J), threads=threads))
    if not stream:
        return plan_near(pair, machine)
    near = pair.row <= LONGEST and pair.plane <= machine.second
    if pair.alone and (pair.row <= DENSE or near):
        return plan_dense(pair, machine)
    order = by_source(move, pair.plain)
    if not move.boxed and run_i.size >= 2 * line:
        return plan_shear(pair, order, threads)
    fetch = ahead(move, run_j, order)
    return replace(pair.plain, order=order, pack=pair.thrash, stage=True, stream=True, fetch=fetch)


def plan_dense(pair: Pair, machine: Machine) -> Turn:
    """Planes that are streamed as one stretch of the result."""
    move, i, j, e, size = pair.move, pair.i, pair.j, pair.e, pair.size
    source, height, width = move.operands[0], move.extents[pair.i], move.extents[pair.j]
    others = [k for k in range(len(move.extents)) if k not in (i, j)]
    others.sort(key=lambda k: -abs(source.strides[k]))
    # Where a small block has more rows than the processor follows, all of the next one is asked for.
    many = height > PLACES and 8 * pair.plane <= machine.second
    following = others[-1] if others and many else None
    # Lines that would not stay in the first cache until the next tile are read in wider pieces.
    lost = following is not None and sharing(abs(pair.apart[0]), height) > WAYS
    tj = dense_tile(width, height * size, 2 * e if lost and width >= 4 * e else e)
    return replace(
        pair.plain, i=Chain((i,), height), j=Chain((j,), width), ti=height, tj=tj, order=(*others, TILE_J),
        pack=pair.thrash, stage=True, stream=True, dense=True, fetch=LINE, next=following,
    )  # fmt: skip


def plan_shear(pair: Pair, order: Sequence[int], threads: int) -> Shear:
    """Large transposes whose rows of the result are streamed line by line."""
    move, line, e, (run_i, run_j) = pair.move, pair.line, pair.e, (pair.plain.i, pair.plain.j)
    outer = tuple(k for k in order if k >= 0)
    turns = prod(move.extents[k] for k in outer)
    blocks = max(-(-run_j.size // HELD_ROWS), -(-4 * threads // turns) if threads > 1 else 1)
    blocks = min(blocks, max(run_j.size // (4 * line), 1))
    # Where rows crowd together, fewer of them at a time, and more of each.
    paged = pair.alone and pair.row <= LONGEST
    lines, far = 1, AHEAD
    if any(crowds(step) for step in pair.apart) or (run_j.plain and beside(pair.apart[1]) and not paged):
        lines, far = shear_lines(run_i.size * pair.size), 0
    elif paged or any(step % 512 == 0 for step in pair.apart):
        lines, far = PAGE_LINES, FAR_AHEAD
    fetch = max(1, far // (lines * LINE * line))
    pack = pair.thrash or (run_i.plain and e > WAYS // 2 and sharing(abs(pair.apart[0]), line) >= WAYS)
    return Shear(run_i, run_j, line, blocks, (*outer, TILE_J), lines, pack=pack, fetch=fetch, threads=threads)


def plan_near(pair: Pair, machine: Machine) -> Turn:
    """Transposes of which a cache holds much, so that the result does not have to be streamed."""
    move, plain, line, e, size = pair.move, pair.plain, pair.line, pair.e, pair.size
    run_i, run_j = plain.i, plain.j
    # Far more than the caches hold comes from memory either way: there the detour pays where all rows meet exactly.
    inside = any(crowds(step) for step in pair.apart) or 6 * move.points * size <= machine.last
    if inside and run_i.size >= 4 * line and run_j.size >= 4 * line and not move.boxed:
        crowd = plan_crowd(move, plain)
        if crowd is not None:
            return replace(crowd, order=by_source(move, crowd))
    # What fits into the second caches of all threads is better written in parts: each finds its own when it reads on.
    parted = plain.threads > 1 and move.points * size <= plain.threads * machine.second
    if not parted and sweeps(move, machine, plain):
        return replace(plain, order=by_source(move, plain))
    plane = run_i.size * run_j.size * size
    resident = 2 * plane <= machine.second < 2 * move.points * size and pair.apart[0] % 1024
    if not move.boxed and resident and run_j.size > 2 * line:
        # What is read stays in the second cache: the result is written from its beginning to its end.
        wide = tile_extent(run_j.size, line, e) if run_j.size > 4 * line else run_j.size
        rows = tile_extent(run_i.size, LINES * line // wide * line, e)
        tile = replace(plain, ti=rows, tj=wide)
        if rows > line and move.out.strides[pair.j] == run_i.size:
            return replace(tile, order=by_result(move, tile))
    if pair.thrash and not move.boxed and e <= WAYS:
        return replace(plain, order=by_result(move, plain), band=WAYS)
    return replace(plain, order=by_result(move, plain), pack=pair.thrash and not move.boxed)


def plan_crowd(move: Move, plain: Turn) -> Turn | None:
    """Tiles for rows of which too many meet in a set of the first cache: few of those at a time, each for long."""
    size, line = move.out.size, LINE // move.out.size
    e, i, j, source, result = 16 // size, plain.i, plain.j, move.operands[0].strides, move.out.strides
    crossed = i.plain and sharing(abs(source[i.loops[0]]) * size, line) >= WAYS
    crowded = j.plain and sharing(result[j.loops[0]] * size, 4 * line) >= line
    # Such rows of the source are read few at a time or, where a register tile has many of them, copied side by side.
    many = crossed and e > WAYS // 2
    plain = replace(plain, band=0 if many or not crossed else WAYS, pack=many)
    if crossed and (not crowded or e > WAYS):
        return replace(plain, ti=line, tj=4 * line)
    if crowded and not crossed and e <= WAYS:
        return replace(plain, ti=min(8 * line, i.size), tj=WAYS)
    return replace(plain, ti=4 * line, tj=2 * line if many else 4 * line, stage=True) if crowded else None


def sweeps(move: Move, machine: Machine, plan: Turn) -> bool:
    """Whether a few rows of a source beyond the second cache are read along, past all of what the result has of them.

    The processor follows few rows; but lines that rows of the result share have to stay in the cache until they are
    whole.
    """
    order, size = by_source(move, plan), move.out.size
    rows = [k for k in range(len(move.extents)) if k not in plan.i.loops]
    at = order.index(TILE_I)
    if TILE_J not in order[at:] or plan.i.size <= plan.ti or move.boxed:
        return False
    places = plan.j.size * prod(move.extents[k] for k in order[at:] if k >= 0)
    whole = plan.ti * size % LINE == 0 and all(move.out.strides[k] * size % LINE == 0 for k in rows)
    far = places * plan.i.size * size > machine.second
    return far and (whole or 2 * LINE * places <= machine.second // 4)
