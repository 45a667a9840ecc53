"""The contiguous runs of a move: which loops they take, how large tiles of them are, whether they pass the caches."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from eqsat.backends.lowering.moves import Access, Move
from eqsat.backends.machine import Machine
from eqsat.backends.schedules.schedule import Chain

PLACES = 16
"""So many places of the source are followed by the processor at a time."""


def unit(access: Access) -> int | None:
    """The loop along which an access is contiguous."""
    return next((k for k, s in enumerate(access.strides) if s == 1), None)


def along(access: Access, i: int | None) -> bool:
    """Whether an access walks one element at a time along a loop, forwards or backwards."""
    return i is not None and access.strides[i] in (1, -1)


def chain(move: Move, access: Access, first: int, taken: Sequence[int], enough: int, most: int) -> Chain:
    """The contiguous run of an access that starts with a loop: `enough` elements or more, but at most `most`."""
    loops, size = [first], move.extents[first]
    boxed = move.boxed
    while size < enough and first not in boxed:
        more = [k for k, s in enumerate(access.strides) if s == size and k not in taken and k not in loops]
        more = [k for k in more if k not in boxed]
        if not more or size * move.extents[more[0]] > most:
            break
        loops.append(more[0])
        size *= move.extents[more[0]]
    return Chain(tuple(loops), size)


def dense(move: Move, k: int) -> bool:
    """Whether one step of a loop writes one contiguous piece."""
    return move.out.strides[k] == prod(move.extents[k + 1 :])


def streams(move: Move, machine: Machine) -> bool:
    """Whether source and result are far larger than the last cache, so that a reader will not find the result there."""
    return 4 * move.points * move.out.size >= 3 * machine.last


def tile_extent(size: int, whole: int, e: int) -> int:
    """A tile of about `whole` elements (a multiple of lines) along a run of `size`, with little overlap at its end."""
    if size <= whole + whole // 2:
        return size

    def work(tile: int) -> float:
        # Tiles of whole lines are worth a little overlap.
        return -(-size // tile) * tile / size + (0.05 if tile != whole else 0) + (0.05 if tile % (4 * e) else 0)

    return min(range(whole // 2 // e * e, whole + whole // 2 + 1, e), key=lambda t: (work(t), -t))
