"""Schedules of elements that change places among few: interleaved, separated, or permuted within 16 bytes."""

from __future__ import annotations

from itertools import product
from math import prod

from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import BLOCK, LINE, Machine
from eqsat.backends.schedules.contiguity import PREFETCH_STREAMS, exceeds_cache
from eqsat.backends.schedules.schedule import Interleave, RegisterShuffle

MOST_ROWS = 16
"""More rows than this are no interleave: it has a statement for each of them."""
MOST_ODD_ROWS = 7
"""An odd number of rows up to this is interleaved in registers: each result takes a blend for each row."""
POWERS = (2, 4, 8)
"""Even numbers of rows that are interleaved in registers, by rounds that interleave two vectors."""
LEAST_STEPS = 4
"""A long loop of fewer steps than this is no interleave."""
STEPS = 512
"""Steps of the long loop that are interleaved, and perhaps collected, at a time. Measured."""
SHORT_LINES = 4
"""Rows of the source of at most so many lines are read in the order of the source, where they are many."""


def separable(count: int) -> bool:
    """Whether interleaved rows, so many, are separated in registers."""
    return count % 2 == 1 and 1 < count <= MOST_ODD_ROWS


def interleavable(count: int, size: int) -> bool:
    """Whether so many rows, of elements of `size` bytes, are interleaved in registers."""
    return separable(count) or (count in POWERS and count <= BLOCK // size)


def choose_interleave(move: Move, machine: Machine, threads: int, i: int, j: int) -> Interleave | None:
    """Few rows interleaved or separated, where i is contiguous in the result and j in the source."""
    source = move.operands[0]
    if move.boxed:
        return None
    small, long = (i, j) if move.extents[i] < move.extents[j] else (j, i)
    if move.extents[small] > MOST_ROWS or move.extents[long] < LEAST_STEPS:
        return None
    others = [k for k in range(len(move.extents)) if k not in (i, j)]
    # Short rows of the source are read one after the other where they share lines, or where the rows that are read by
    # turns would be more than the processor prefetches.
    row = move.extents[long]
    after = next((n for n, k in enumerate(others) if source.strides[k] == row), None)
    rows = 1 if after is None else prod(move.extents[k] for k in others[after + 1 :]) * move.extents[small]
    if row * source.size < LINE or (row * source.size <= SHORT_LINES * LINE and rows > PREFETCH_STREAMS):
        others.sort(key=lambda k: -abs(source.strides[k]))
    block = min(move.extents[long], STEPS)
    # What is collected before it is written is contiguous: rows along the long loop, or all of a block.
    contiguous = move.out.strides[long] in (1, move.extents[small])
    size, count = move.out.size, move.extents[small]
    interleaves = move.out.strides[long] == count and source.strides[long] == 1 and interleavable(count, size)
    separates = source.strides[long] == count and move.out.strides[long] == 1 and separable(count)
    in_registers = block * size >= BLOCK and (interleaves if small == i else separates)
    nontemporal = contiguous and exceeds_cache(move, machine)
    return Interleave(long, small, block, in_registers, order=tuple(others), nontemporal=nontemporal, threads=threads)


def choose_shuffle(move: Move, threads: int) -> RegisterShuffle | None:
    """Blocks of 16 bytes that hold the same elements before and after, in another order."""
    whole, taken_steps = BLOCK // move.out.size, 1
    inside: list[tuple[int, int]] = []
    source = move.operands[0]
    if move.boxed or whole < 2:
        return None
    while taken_steps < whole:
        k = next((k for k, s in enumerate(move.out.strides) if s == taken_steps), None)
        if k is None:
            return None
        take = min(move.extents[k], whole // taken_steps)
        if move.extents[k] % take or whole % (taken_steps * take):
            return None
        inside.append((k, take))
        taken_steps *= take
    steps = product(*(range(take) for _, take in reversed(inside)))
    strides = [source.strides[k] for k, _ in reversed(inside)]
    offsets = [sum(p * s for p, s in zip(at, strides, strict=True)) for at in steps]
    first = min(offsets)
    places = tuple(at - first for at in offsets)
    if sorted(places) != list(range(whole)) or places == tuple(range(whole)):
        return None
    taken = dict(inside)
    order = tuple(k for k in range(len(move.extents)) if move.extents[k] > taken.get(k, 1))
    return RegisterShuffle(tuple(inside), places, first, order=order, threads=threads)
