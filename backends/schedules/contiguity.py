"""The contiguous runs of a move: which loops make them, how they are tiled, whether a cache can hold them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from eqsat.backends.lowering.moves import Access, Move
from eqsat.backends.machine import Machine
from eqsat.backends.schedules.schedule import ContiguousLoops

PREFETCH_STREAMS = 16
"""Rows that the hardware prefetcher is relied on to follow at a time; Intel documents 32 streams for the second level,
one for each page, which the result shares."""
MISALIGNED = 0.05
"""What a tile extent that is not the wished one, or not a multiple of lines, costs: as much as 5 % more work."""


def unit_loop(access: Access) -> int | None:
    """The loop along which an access is contiguous."""
    return next((k for k, s in enumerate(access.strides) if s == 1), None)


def lies_along(access: Access, i: int | None) -> bool:
    """Whether an access is contiguous along a loop, forwards or backwards."""
    return i is not None and access.strides[i] in (1, -1)


def contiguous_loops(
    move: Move, access: Access, first: int, taken: Sequence[int], enough: int, most: int
) -> ContiguousLoops:
    """The contiguous run of an access that starts with the loop `first`: `enough` elements or more, but at most `most`.

    Loops that are `taken`, and loops of which the body covers only a part, do not become parts of it.
    """
    loops, size = [first], move.extents[first]
    boxed = move.boxed
    while size < enough and first not in boxed:
        more = [k for k, s in enumerate(access.strides) if s == size and k not in taken and k not in loops]
        more = [k for k in more if k not in boxed]
        if not more or size * move.extents[more[0]] > most:
            break
        loops.append(more[0])
        size *= move.extents[more[0]]
    return ContiguousLoops(tuple(loops), size)


def writes_contiguously(move: Move, k: int) -> bool:
    """Whether each step of a loop writes one contiguous piece, and its steps are adjacent."""
    return move.out.strides[k] == prod(move.extents[k + 1 :])


def exceeds_cache(move: Move, machine: Machine, quarters: int = 4) -> bool:
    """Whether the result is so large that a reader will not find it in the last cache, or in so many quarters of it.

    Then non-temporal stores are better: they do not read the lines that they overwrite.
    """
    return 4 * move.points * move.out.size >= min(quarters * machine.last, 4 * machine.past)


def tile_extent(size: int, whole: int, e: int) -> int:
    """The extent of tiles along a run of `size` elements: about `whole`, a multiple of e, with little overlap.

    >>> tile_extent(20, 16, 4), tile_extent(64, 16, 4), tile_extent(100, 16, 4), tile_extent(33, 16, 4)
    (20, 16, 20, 12)
    """
    if size <= whole + whole // 2:
        return size

    def work(tile: int) -> float:
        # Tiles of the wished extent, and of four blocks of 16 bytes (a line), are worth a little overlap.
        return (
            -(-size // tile) * tile / size
            + (MISALIGNED if tile != whole else 0)
            + (MISALIGNED if tile % (4 * e) else 0)
        )

    return min(range(max(e, whole // 2 // e * e), whole + whole // 2 + 1, e), key=lambda t: (work(t), -t))
