"""Which part of a result each thread writes: one that lies together, where it can be found in a cache afterwards."""

from __future__ import annotations

from dataclasses import replace

from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import LINE
from eqsat.backends.schedules.schedule import (
    TILE_I,
    TILE_J,
    ContiguousCopy,
    Interleave,
    LineTiles,
    PointwiseRows,
    PointwiseTiles,
    RegisterShuffle,
    Schedule,
    TransposeTiles,
)

EVEN = 4
"""Steps for each thread, at least, of a loop whose steps are not as many for each."""


def with_own_part(schedule: Schedule, move: Move) -> Schedule:
    """The schedule in which each thread writes one part of the result, from its beginning to its end.

    Threads that share the loops of the source write a piece of each row, say, and whoever reads the result in threads
    fetches half of what he reads out of the cache of another. What is written past the caches has none.
    """
    if schedule.threads < 2 or schedule.nontemporal:
        return schedule
    loops = [k for k, extent in enumerate(move.extents) if extent > 1]
    outermost = max(loops, key=lambda k: move.out.strides[k], default=None)
    if outermost is None:
        return schedule
    counts = steps(schedule, move)
    n = carrier(schedule, outermost)
    order = [m for m, _ in schedule.loops] if isinstance(schedule, Interleave) else schedule.order
    running = [m for m in order if counts.get(m, 1) > 1]
    if n not in running or n == running[0]:
        return schedule
    even = counts[n] % schedule.threads == 0 or counts[n] >= EVEN * schedule.threads
    return replace(schedule, own=n) if even else schedule


def carrier(schedule: Schedule, k: int) -> int:
    """The loop of the schedule that walks a loop of the move, or its tiles."""
    match schedule:
        case ContiguousCopy(tiled=tiled) if tiled == k:
            return TILE_I
        case TransposeTiles(i=i, j=j) | LineTiles(i=i, j=j):
            return TILE_I if k == i.loops[-1] else TILE_J if k == j.loops[-1] else k
        case PointwiseTiles(i=i, j=j):
            return TILE_I if k == i else TILE_J if k == j else k
        case PointwiseRows(i=i) if i == k:
            return TILE_I
        case _:
            return k


def steps(schedule: Schedule, move: Move) -> dict[int, int]:
    """How often each loop of the schedule runs that threads could share, by its number in the order."""
    found = {n: move.extents[n] for n in schedule.order if n >= 0}
    match schedule:
        case ContiguousCopy(tiled=tiled, tile=tile, inner=inner):
            if tiled is not None:
                found |= {TILE_I: -(-move.extents[tiled] // tile), tiled: tile}
            return {n: found[n] for n in schedule.order[: len(schedule.order) - inner]}
        case TransposeTiles(i=i, j=j, ti=ti, tj=tj, contiguous=False):
            return found | {TILE_I: -(-i.size // ti), TILE_J: -(-j.size // tj)}
        case LineTiles(i=i, j=j, high=high, wide=wide):
            line = LINE // move.out.size
            return found | {TILE_I: -(-i.size // (high * line)), TILE_J: -(-j.size // (wide * line))}
        case Interleave(tiles=tiles):
            return found | {n: move.extents[n] // count for n, count in tiles}
        case RegisterShuffle(inside=inside):
            return found | {n: found[n] // count for n, count in inside if n in found}
        case PointwiseTiles(i=i, j=j, ti=ti, tj=tj):
            return found | {TILE_I: -(-move.extents[i] // ti), TILE_J: -(-move.extents[j] // tj)}
        case PointwiseRows(i=i, ti=ti):
            return found | {TILE_I: -(-move.extents[i] // ti)}
        case _:
            return {}
