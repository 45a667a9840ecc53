"""The schedules of elements that change places among few: interleaved, separated, or within 16 bytes."""

from __future__ import annotations

from itertools import product
from math import prod

from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.schedules.runs import PLACES, streams
from eqsat.backends.schedules.schedule import Shuffle, Zip

SMALL = 16
"""A zip has at most so many statements."""
MOST = 7
"""Rows of an odd number that are woven at most: each result takes a blend for each row."""


def separable(count: int) -> bool:
    """Whether rows of so many elements by turns are separated in registers."""
    return count % 2 == 1 and 1 < count <= MOST


def interleavable(count: int, size: int) -> bool:
    """Whether so many rows are interleaved in registers."""
    return separable(count) or (count in (2, 4, 8) and count <= 16 // size)


def plan_zip(move: Move, machine: Machine, threads: int, i: int, j: int) -> Zip | None:
    """A few elements interleaved or separated."""
    source = move.operands[0]
    if move.boxed:
        return None
    small, long = (i, j) if move.extents[i] < move.extents[j] else (j, i)
    if move.extents[small] > SMALL or move.extents[long] < 4:
        return None
    others = [k for k in range(len(move.extents)) if k not in (i, j)]
    # Short rows of the source are read one after the other where they share lines, or where they would be read in too
    # many places by turns.
    row = move.extents[long]
    after = next((n for n, k in enumerate(others) if source.strides[k] == row), None)
    places = 1 if after is None else prod(move.extents[k] for k in others[after + 1 :]) * move.extents[small]
    if row * source.size < LINE or (row * source.size <= 4 * LINE and places > PLACES):
        others.sort(key=lambda k: -abs(source.strides[k]))
    order = tuple(others)
    block = min(move.extents[long], 512)
    # What is collected before it leaves is contiguous: rows along the long loop, or all of a block.
    dense = move.out.strides[long] in (1, move.extents[small])
    size, count = move.out.size, move.extents[small]
    together = move.out.strides[long] == count and source.strides[long] == 1 and interleavable(count, size)
    apart = source.strides[long] == count and move.out.strides[long] == 1 and separable(count)
    braid = block * size >= 16 and (together if small == i else apart)
    return Zip(long, (small,), block, order, braid, dense and streams(move, machine), threads)


def plan_shuffle(move: Move, threads: int) -> Shuffle | None:
    """Blocks of 16 bytes that hold the same elements before and after, in another order."""
    whole, acc = 16 // move.out.size, 1
    inside: list[tuple[int, int]] = []
    source = move.operands[0]
    if move.boxed or whole < 2:
        return None
    while acc < whole:
        k = next((k for k, s in enumerate(move.out.strides) if s == acc), None)
        if k is None:
            return None
        take = min(move.extents[k], whole // acc)
        if move.extents[k] % take or whole % (acc * take):
            return None
        inside.append((k, take))
        acc *= take
    steps = product(*(range(take) for _, take in reversed(inside)))
    strides = [source.strides[k] for k, _ in reversed(inside)]
    offsets = [sum(p * s for p, s in zip(at, strides, strict=True)) for at in steps]
    first = min(offsets)
    places = tuple(at - first for at in offsets)
    if sorted(places) != list(range(whole)) or places == tuple(range(whole)):
        return None
    taken = dict(inside)
    order = tuple(k for k in range(len(move.extents)) if move.extents[k] > taken.get(k, 1))
    return Shuffle(tuple(inside), places, first, order, threads)
