"""Schedules of transposes: the source is contiguous along one loop and the result along another.

Six cases, by size and shape:

1. The result exceeds a part of the last cache, its rows have some lines, and registers hold half a line or one:
   `line_transpose` where they are whole lines apart, else `joined_lines` (`choose_lines`).
2. The result exceeds most of the last cache (`streamed_from`), and a plane of both loops is small and contiguous in it:
   `contiguous_transpose`.
3. The result exceeds half of the last cache or more (`streamed_from`), and its rows are long: `streaming_transpose`.
4. The result exceeds the last cache otherwise: tiles that are collected, and written by non-temporal stores.
5. A cache holds it, but rows meet in few sets of the first one: `line_tiles`.
6. The caches hold much of it: `cached_transpose` (`choose_cached`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from eqsat.backends.cache_sets import WAYS, aliases, nearly_aliases, rows_per_set, sets_reached
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.schedules.choose_cached import cached_transpose, strip_rows
from eqsat.backends.schedules.choose_lines import (
    by_few_lines,
    by_joined_lines,
    by_lines,
    joined_lines,
    line_tiles,
    line_transpose,
    meets_in_sets,
)
from eqsat.backends.schedules.contiguity import PREFETCH_STREAMS, exceeds_cache
from eqsat.backends.schedules.schedule import (
    TILE_J,
    ContiguousLoops,
    LineTiles,
    LineTranspose,
    StreamingTranspose,
    TransposeTiles,
)
from eqsat.backends.schedules.transpose import (
    BLOCKS_PER_THREAD,
    LONG_ROW,
    PLANES,
    TILE_LINES,
    Transpose,
    runs_of,
    source_order,
    written_as_planes,
    written_by_rows,
)

HELD_BYTES = 128 << 10
"""Bytes, of a second cache, in which a streaming transpose holds the unfinished lines of rows of the result."""
STREAMED, STREAMED_PLANES, STREAMED_STRIPS, STREAMED_BLOCKS = 2, 3, 3, 4
"""Quarters of the last cache from which on results are written past it: those in long rows as a rule; planes that are
one stretch of memory; where strips of rows are the alternative; where the source is read line by line, from its
beginning to its end. Measured."""
COLLECTED = 1 << 10
"""Bytes of such a stretch that are collected at a time. Measured, as the next three."""
WRITTEN_LINES = 2
"""Lines of a row of the result that a streaming transpose writes at a time, each by one store: two are written at the
speed of a stream, one at half of that; more make its stages larger. Measured."""
PREFETCHED_TILES = 2
"""Tiles between the one that a streaming transpose reads and the one that is prefetched. Measured."""
MOST_LINES = 8
"""Lines that are written at a time at most where each takes several stores, and rows alias. Measured, as the rest."""
PAGE_LINES = 2
"""So many where several rows share a page, or lie in WAYS sets or fewer; else one."""
PREFETCHED, PREFETCHED_FAR = 8 << 10, 24 << 10
"""Bytes of the source between the tile that is transposed and the one that is prefetched then: where one line is
written at a time, where several are."""
PREFETCHED_BLOCKS = 8
"""The same where a tile is all of a part of the source that is read from its beginning to its end. Measured."""
ALONG_ROW = 512
"""Rows of the source of so many bytes are prefetched along the row; shorter ones, where the next loop goes."""


def contiguous_tile(extent: int, row: int, e: int) -> int:
    """Rows of a tile, of `row` bytes each, whose result is one stretch: about COLLECTED bytes, a multiple of e rows.

    No tile must be less than a line: only whole lines are written by non-temporal stores.
    """
    best = max(e, COLLECTED // row // e * e)
    if extent <= best + best // 2:
        return extent
    fitting = [w for w in range(best, e - 1, -e) if all(n * row >= LINE for n in (w, extent % w or w))]
    return fitting[0] if fitting else extent


def prefetch_distance(move: Move, j: ContiguousLoops, order: Sequence[int]) -> int:
    """Bytes between what is read and what is prefetched: along a long row, else one step of the innermost loop."""
    source = move.operands[0]
    inner = [k for k in order if k >= 0]
    if j.size * source.size >= ALONG_ROW or not inner:
        return 2 * LINE
    return abs(source.strides[inner[-1]]) * source.size


def choose_transpose(
    move: Move, machine: Machine, threads: int, i: int, j: int
) -> TransposeTiles | StreamingTranspose | LineTranspose | LineTiles | None:
    """Register transposes, where both runs are long enough for them."""
    far = runs_of(move, threads, i, j, True)
    if far is not None and by_lines(far, machine):
        return line_transpose(far, machine)
    if far is not None and by_joined_lines(far, machine):
        return joined_lines(far)
    other = tiled_transpose(move, machine, threads, i, j, far)
    if far is not None and other is not None and by_few_lines(far, machine):
        return replace(line_transpose(far, machine), unaligned=other)
    return other


def tiled_transpose(
    move: Move, machine: Machine, threads: int, i: int, j: int, far: Transpose | None
) -> TransposeTiles | StreamingTranspose | LineTiles | None:
    """Transposes in tiles, past the caches or into them."""
    near = runs_of(move, threads, i, j, False)
    if exceeds_cache(move, machine, STREAMED if near is None else streamed_from(near, machine)):
        chosen = None if far is None else streamed_transpose(far, machine)
        if chosen is not None:
            return chosen
    if near is None:
        return None
    return line_tiles(near, machine) if meets_in_sets(near, machine) else cached_transpose(near, machine)


def streamed_from(it: Transpose, machine: Machine) -> int:
    """Quarters of the last cache from which on a result in long rows is written past it."""
    if written_as_planes(it, machine):
        return STREAMED_PLANES
    if it.plain.j.size <= it.line:
        return STREAMED_BLOCKS
    return STREAMED_STRIPS if strip_rows(it, machine) else STREAMED


def streamed_transpose(it: Transpose, machine: Machine) -> TransposeTiles | StreamingTranspose | None:
    """Transposes whose result is written past the caches; None where it had better not be.

    Long rows are, from `streamed_from` on: in parts that no cache holds together, ordinary stores wait. Short
    ones are as quick either way, and are found in a cache that holds them all.
    """
    move, plain = it.move, it.plain
    whole = exceeds_cache(move, machine)
    if written_as_planes(it, machine):
        return contiguous_transpose(it, machine) if exceeds_cache(move, machine, STREAMED_PLANES) else None
    if not whole and it.rows_fit(machine) and not written_by_rows(it, machine):
        return None
    order = source_order(move, plain)
    if not move.boxed and plain.i.size >= 2 * it.line:
        return streaming_transpose(it, machine, order, plain.threads)
    if not whole or it.plane < LINE:
        return None
    prefetch = prefetch_distance(move, plain.j, order)
    return replace(plain, order=order, pack=it.source_in_one_set, stage=True, nontemporal=True, prefetch=prefetch)


def contiguous_transpose(it: Transpose, machine: Machine) -> TransposeTiles:
    """Planes that are one stretch of the result, which is written in whole lines whatever the length of its rows."""
    move, i, j, e = it.move, it.i, it.j, it.e
    source, height, width = move.operands[0], move.extents[i], move.extents[j]
    others = [k for k in range(len(move.extents)) if k not in (i, j)]
    others.sort(key=lambda k: -abs(source.strides[k]))
    # Where a small plane has more rows than the hardware follows, all of the next plane is prefetched meanwhile.
    many = height > PREFETCH_STREAMS and PLANES * it.plane <= machine.second
    following = others[-1] if others and many else None
    # Lines that would not stay in the first cache until the next tile are read in wider pieces.
    lost = following is not None and rows_per_set(abs(it.row_strides[0]), height) > WAYS
    tj = contiguous_tile(width, it.row, 2 * e if lost and width >= 4 * e else e)
    return replace(
        it.plain, i=ContiguousLoops((i,), height), j=ContiguousLoops((j,), width), ti=height, tj=tj,
        order=(*others, TILE_J), pack=it.source_in_one_set, stage=True, nontemporal=True, contiguous=True,
        prefetch=LINE, prefetch_loop=following,
    )  # fmt: skip


def streaming_transpose(it: Transpose, machine: Machine, order: Sequence[int], threads: int) -> StreamingTranspose:
    """Large transposes whose rows of the result are written in whole lines, by non-temporal stores."""
    move, line, e, (run_i, run_j) = it.move, it.line, it.e, (it.plain.i, it.plain.j)
    outer = tuple(k for k in order if k >= 0)
    turns = prod(move.extents[k] for k in outer)
    # Rows of no more than a line are read whole. Other short ones make two tiles, which overlap.
    short = run_j.size <= line
    most = max(e, -(-run_j.size // (e if short else 2 * e)) * e)
    pack = it.source_in_one_set or (
        run_i.single and e > WAYS // 2 and rows_per_set(abs(it.row_strides[0]), line) >= WAYS
    )
    interleaved = machine.vector >= LINE
    if interleaved:
        # Rows that alias are read two lines at a time: fewer visits to each.
        tj, lines = min(2 * line if pack else line, most), WRITTEN_LINES
        ahead = 1 if pack else PREFETCHED_BLOCKS if short else PREFETCHED_TILES
    else:
        tj, lines = min(line, most), lines_per_step(it)
        far = 0 if lines > PAGE_LINES else PREFETCHED if lines == 1 else PREFETCHED_FAR
        ahead = max(1, far // (lines * LINE * line))
    held = HELD_BYTES // (LINE if interleaved else 2 * LINE)
    blocks = max(-(-run_j.size // held), -(-BLOCKS_PER_THREAD * threads // turns) if threads > 1 else 1)
    blocks = min(blocks, max(run_j.size // (TILE_LINES * line), 1))
    return StreamingTranspose(
        run_i, run_j, tj, blocks, lines, pack, ahead, interleaved,
        order=(*outer, TILE_J), threads=threads, nontemporal=True,
    )  # fmt: skip


def lines_per_step(it: Transpose) -> int:
    """How many lines of a row of the result are written at a time, where each takes several stores.

    One, unless rows alias: then 2 to 8, as divides the row best; more lines at a time mean fewer visits to each of
    those rows, and what is left of a row is written apart.
    """
    row = it.plain.i.size * it.size
    paged = it.plane_is_contiguous and it.row <= LONG_ROW
    drifting = it.plain.j.single and nearly_aliases(it.row_strides[1]) and not paged
    if drifting or any(aliases(step) for step in it.row_strides):
        counts = (k for k in range(MOST_LINES, 1, -1) if k * LINE <= row)
        return min(counts, key=lambda k: row % (k * LINE) // LINE, default=1)
    return PAGE_LINES if paged or any(sets_reached(step) <= WAYS for step in it.row_strides) else 1
