"""Schedules of elements that change places among few: interleaved, separated, or permuted within 16 bytes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from eqsat.backends.cache_sets import WAYS, rows_per_set
from eqsat.backends.lowering.moves import Access, Move
from eqsat.backends.machine import BLOCK, LINE, Machine
from eqsat.backends.schedules.contiguity import PREFETCH_STREAMS, exceeds_cache
from eqsat.backends.schedules.schedule import Interleave, RegisterShuffle

MOST_ROWS = 16
"""More rows than this are no interleave: it has a statement for each of them."""
MOST_ODD_ROWS = 7
"""An odd number of rows up to this is interleaved in registers: each result takes a blend for each row."""
POWERS = (2, 4, 8)
"""Even numbers of rows that are interleaved in registers, by rounds that interleave two vectors."""
WIDE_ROWS = 5
"""So many rows of bytes, or more, an odd number, are interleaved by permutations of whole lines. Three go at the speed
of the first caches either way, and are interleaved so where the second one does not hold them. Measured."""
TILE_LINES = 8
"""Lines of the result that are written one after the other, in tiles of short rows. Measured."""
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
    short = row * source.size < LINE or (row * source.size <= SHORT_LINES * LINE and rows > PREFETCH_STREAMS)
    if short or (small == j and reads_on(move, machine, long, small, others)):
        others.sort(key=lambda k: -abs(source.strides[k]))
    block = min(move.extents[long], STEPS)
    # What is collected before it is written is contiguous: rows along the long loop, or all of a block.
    contiguous = move.out.strides[long] in (1, move.extents[small])
    size, count = move.out.size, move.extents[small]
    interleaves = move.out.strides[long] == count and source.strides[long] == 1 and interleavable(count, size)
    separates = source.strides[long] == count and move.out.strides[long] == 1 and separable(count)
    in_registers = block * size >= BLOCK and (interleaves if small == i else separates)
    nontemporal = contiguous and exceeds_cache(move, machine)
    # Stretches that the next one does not follow at once share no line with it, or are written plainly.
    apart = nontemporal and small == j and move.extents[long] <= STEPS
    if apart and not whole_lines(move.out.strides, size, long):
        nontemporal = apart = False
    many = size == 1 and count % 2 == 1 and (count >= WIDE_ROWS or 2 * move.points > machine.second)
    wide = in_registers and many and block >= LINE and machine.vector >= LINE
    tiles = tiles_of(move, machine, long, small, others) if in_registers and small == i else ()
    return Interleave(
        long, small, block, in_registers, wide, tiles, apart,
        order=tuple(others), nontemporal=nontemporal, threads=threads,
    )  # fmt: skip


def reads_on(move: Move, machine: Machine, long: int, small: int, others: Sequence[int]) -> bool:
    """Whether rows that are separated are better read one behind the other than written so. Measured.

    They are where the last cache does not hold source and result; and where lines of the source are parts of two rows,
    each of which would fetch them, if what is then written by turns is not too many rows.
    """
    source, count = move.operands[0], move.extents[small]
    if 2 * move.points * source.size > machine.last:
        return True
    if not others or whole_lines(source.strides, source.size, long, small):
        return False
    between = (k for k in others if abs(source.strides[k]) < abs(source.strides[others[-1]]))
    return count * prod(move.extents[k] for k in between) <= PREFETCH_STREAMS


def whole_lines(strides: Sequence[int], size: int, *inside: int) -> bool:
    """Whether steps of all loops but those `inside` are whole lines of elements of `size` bytes."""
    return all(step * size % LINE == 0 for k, step in enumerate(strides) if k not in inside)


def tiles_of(move: Move, machine: Machine, long: int, small: int, others: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Where rows of the source are parts of a line: tiles of a line of the source and of some lines of the result.

    The loop over what follows a row in the source is another than that over what follows in the result. None where the
    first cache holds the lines of the one until it is at the next step of the other.
    """
    size, row = move.out.size, move.extents[long]
    beside = next((k for k in others if move.operands[0].strides[k] == row), None)
    below = next((k for k in others if move.out.strides[k] == row * move.extents[small]), None)
    if beside is None or below is None or beside == below or row * size >= LINE:
        return ()
    outer = min(beside, below, key=others.index)
    between = [*others[others.index(outer) + 1 :], *([small] if outer == beside else [])]
    if lines_stay(move.operands[0] if outer == beside else move.out, between, move, machine):
        return ()
    wide = divisor(move.extents[beside], LINE // (row * size))
    high = divisor(move.extents[below], TILE_LINES * LINE // (row * move.extents[small] * size))
    tiles = tuple((k, steps) for k, steps in ((below, high), (beside, wide)) if steps < move.extents[k])
    return tiles if min(wide, high) > 1 else ()


def lines_stay(access: Access, loops: Sequence[int], move: Move, machine: Machine) -> bool:
    """Whether half of the first cache holds a line for each step of some loops over memory."""
    lines = prod(move.extents[k] for k in loops)
    meeting = prod(rows_per_set(abs(access.strides[k]) * access.size, move.extents[k]) for k in loops)
    return 2 * lines * LINE <= machine.first and meeting <= WAYS


def divisor(extent: int, most: int) -> int:
    """The largest divisor up to a number.

    >>> divisor(64, 8), divisor(30, 8), divisor(31, 8), divisor(5, 0)
    (8, 6, 1, 1)
    """
    return next((n for n in range(min(most, extent), 1, -1) if extent % n == 0), 1)


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
