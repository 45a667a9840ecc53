"""Schedules of contiguous copies and of fills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from eqsat.backends.cache_sets import PERIOD, WAYS, rows_per_set
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import LINE, RUNS, Machine
from eqsat.backends.schedules.contiguity import PREFETCH_STREAMS, exceeds_cache, writes_contiguously
from eqsat.backends.schedules.schedule import TILE_I, ContiguousCopy

COLLECTED = 1 << 10
"""Bytes from which on a stretch of the result is long enough to be written by non-temporal stores: 16 lines, of which
the two at its ends may be shared with its neighbours. Measured."""
SHORT = 512
"""Runs of half as many bytes, at most, are tiled."""
READ_ON = 4 << 10
"""Bytes of the source that are read one after the other then, at most, where half of the last cache holds the source
and the result and a line takes one store; elsewhere as many as the machine says. Measured."""
WHOLE = 64
"""Rows of the result, at most, that are all written in turn then where short runs are better than longer ones. Measured
on an Ice Lake: 40 to 62 rows 1.05 to 1.2 times as fast, 125 rows .85."""
OVERLAP = 8
"""The last tile does again at most one in so many of all steps."""
GROUPED = 4 << 10
"""Bytes of adjacent runs that are prefetched together: a page, beyond which hardware prefetchers do not follow."""
FEW_ROWS = 8
"""Rows of the source that are read in turn such that the result is written from its beginning to its end, at most. Of
eight rows a copy is up to 1.3 times as fast so, from 16 on it is the slower one where the first two caches do not hold
it: the hardware fetches ahead of few rows only. Measured."""
STRETCH = 32 << 10
"""Bytes of a stretch that is built with its padding before it is written: the size of the first cache."""


def choose_copy(move: Move, machine: Machine, threads: int) -> ContiguousCopy:
    """Contiguous copies: the source is read from its beginning to its end, the result written stretch by stretch.

    Longer runs of few rows that are written by ordinary stores go the other way, in the order of the result.
    """
    order = list(range(len(move.extents)))
    nontemporal, size, boxed = bool(move.operands) and exceeds_cache(move, machine), move.out.size, move.boxed
    count = len(order) - boxed[0] if boxed else 1
    if nontemporal:
        while count < len(order) and writes_contiguously(move, order[-count - 1]):
            if prod(move.extents[-count:]) * size >= COLLECTED:
                break
            count += 1
    outer, inner = order[: len(order) - count], order[len(order) - count :]
    prefetch = 0
    if move.operands:
        strides = move.operands[0].strides
        if nontemporal or not reads_few_rows(move, outer, count):
            outer.sort(key=lambda k: -abs(strides[k]))
        prefetch = abs(strides[outer[-1]]) * size if outer and nontemporal else 0
    if move.operands and move.operands[0].strides[-1] == -1:
        # Rows that are read backwards are reversed in a local buffer before they are written.
        nontemporal = nontemporal and (len(move.extents) == 1 or prod(move.extents[-count:]) * size <= STRETCH)
    plain = ContiguousCopy(
        order=(*outer, *inner), nontemporal=nontemporal, inner=count, prefetch=prefetch, threads=threads
    )
    if nontemporal and count == 2 and outer and not boxed:
        plain = replace(plain, prefetch_group=steps_together(move, machine, outer[-1], inner[0]))
    return tiled_copy(move, plain, machine) if move.operands and count == 1 and not (nontemporal or boxed) else plain


def reads_few_rows(move: Move, outer: Sequence[int], count: int) -> bool:
    """Whether runs that are not tiled are read from few rows in turn in the order of the result, and written to many in
    the order of the source.

    `outer` are the loops outside of the last `count` ones, in the order of the result.
    """
    if len(outer) < 2 or count != 1 or move.boxed or 2 * move.extents[-1] * move.out.size <= SHORT:
        return False
    strides, last = move.operands[0].strides, outer[-1]
    near = min(outer, key=lambda k: abs(strides[k]))
    return near != last and move.extents[last] <= FEW_ROWS < move.extents[near]


def steps_together(move: Move, machine: Machine, outer: int, row: int) -> int:
    """How many steps of the loop `outer` are prefetched together, where the runs that they read are adjacent.

    0 where that does not pay: where the rows are few enough for the hardware, or a run is less than a line or more than
    GROUPED. What is prefetched takes at most half of the second cache.
    """
    run = move.extents[-1]
    adjacent = move.operands[0].strides[outer] == run
    if not adjacent or move.extents[row] <= PREFETCH_STREAMS or not LINE < run * move.out.size < GROUPED:
        return 0
    most = min(GROUPED // (run * move.out.size), machine.second // (2 * move.extents[row] * run * move.out.size))
    return max((n for n in range(1, most + 1) if move.extents[outer] % n == 0), default=0)


def tiled_copy(move: Move, schedule: ContiguousCopy, machine: Machine) -> ContiguousCopy:
    """Short runs in tiles of a source loop and a result loop, both of which are then walked in longer stretches."""
    *outer, inner = schedule.order
    run = move.extents[inner]
    n, k = (next((k for k in outer if a.strides[k] == run), None) for a in (move.operands[0], move.out))
    if n is None or k is None or n == k or 2 * run * move.out.size > SHORT:
        return schedule
    near = 4 * move.points * move.out.size <= machine.last and not machine.narrow
    rows, step, nbytes = move.extents[n], move.out.strides[n] * move.out.size, run * move.out.size
    tile = rows_together(rows, READ_ON // nbytes, step)
    if not near and not (machine.run < max(RUNS) and tile == rows <= WHOLE):
        tile = rows_together(rows, machine.run // nbytes, step)
    if tile < 2 or rows <= tile:
        return schedule
    others = [m for m in outer if m not in (n, k)]
    return replace(schedule, order=(*others, TILE_I, k, n, inner), tiled=n, tile=tile)


def rows_together(rows: int, most: int, stride: int) -> int:
    """How many of some rows of the result, so many bytes apart, are written a run of each in turn.

    As many as leave half of a cache set to others, and such that the last ones are not many that were written before.

    >>> rows_together(64, 64, 65536), rows_together(63, 32, 64000), rows_together(12, 8, 50432)
    (4, 32, 6)
    """
    for count in range(min(most, rows, WAYS // 2 * (PERIOD // LINE)), 2, -1):
        if rows_per_set(stride, count) <= WAYS // 2 and OVERLAP * (-rows % count) <= rows:
            return count
    return min(2, rows)
