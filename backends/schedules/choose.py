"""The choice of a schedule for a move: rules over strides and sizes."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.backends.lowering.moves import Move, in_words, normalise, without_border
from eqsat.backends.machine import BLOCK, LINE, Machine
from eqsat.backends.schedules.choose_copy import STRETCH, choose_copy
from eqsat.backends.schedules.choose_interleave import choose_interleave, choose_shuffle, separable
from eqsat.backends.schedules.choose_pointwise import (
    choose_pointwise_rows,
    choose_pointwise_tiles,
    choose_transposed_pointwise,
    transposed_loop,
)
from eqsat.backends.schedules.choose_transpose import choose_transpose
from eqsat.backends.schedules.contiguity import lies_along, unit_loop, writes_contiguously
from eqsat.backends.schedules.own_part import with_own_part
from eqsat.backends.schedules.schedule import Schedule

INLINE = 1024
"""Padding is written together with what it surrounds, where a step of its loop writes fewer bytes. Measured."""
PADDED_ROW = 4 * LINE
"""Bytes of rows of a transpose up to which their padding is written with them: all rows of a tile, four lines each."""
PARALLEL = 1 << 17
"""Fewer bytes than this are moved by one thread: waking others takes about as long as moving them."""


def choose(move: Move, machine: Machine, threads: int = 1) -> Schedule | None:
    """The schedule of a move; None leaves it to the general loop nest."""
    if move.points * move.out.size < PARALLEL:
        threads = 1
    chosen = _chosen(move, machine, threads)
    return chosen and with_own_part(chosen, move)


def _chosen(move: Move, machine: Machine, threads: int) -> Schedule | None:
    """The schedule, without the question which part of the result each thread writes."""
    i = unit_loop(move.out)
    if i is None:
        return None
    if move.is_fill:
        return choose_copy(move, machine, threads)
    if not move.is_copy:
        return (
            choose_pointwise_rows(move, threads, i)
            or choose_pointwise_tiles(move, threads, i)
            or choose_transposed_pointwise(move, threads, i)
        )
    j = unit_loop(move.operands[0])
    row = move.extents[i] * move.out.size
    if row < BLOCK or (row < 2 * BLOCK and move.operands[0].strides[i] != 1):
        shuffle = choose_shuffle(move, threads)
        if shuffle is not None:
            return shuffle
    if lies_along(move.operands[0], i):
        return choose_copy(move, machine, threads)
    if j is None or move.boxed not in ((), (i,)) or (move.boxed and row > PADDED_ROW):
        return None
    if separable(move.extents[i]) and row > BLOCK:
        # Fewer rows than two register blocks have: these would overlap, and do much of the work twice.
        interleave = choose_interleave(move, machine, threads, i, j)
        if interleave is not None and interleave.in_registers:
            return interleave
    return choose_transpose(move, machine, threads, i, j) or choose_interleave(move, machine, threads, i, j)


def prepared(move: Move) -> tuple[Move, ...]:
    """The move without the parts of its border that its schedule does not write in passing, and those parts."""
    if not move.boxed or not move.operands:
        return (move,)
    i = unit_loop(move.out)
    size = move.out.size
    if not move.is_copy:
        keep = [k for k in move.boxed if k == i and transposed_loop(move) is not None]
    elif lies_along(move.operands[0], i):
        step = {k: move.out.strides[k] * size for k in move.boxed}
        short = [k for k in move.boxed if step[k] < INLINE and step[k] * move.extents[k] <= STRETCH]
        keep = [k for k in short if writes_contiguously(move, k)]
    else:
        keep = [k for k in move.boxed if k == i and move.extents[k] * size <= PADDED_ROW]
    inside, borders = without_border(move, [k for k in move.boxed if k not in keep])
    return (normalise(inside), *borders)


def schedule_moves(moves: Sequence[Move], machine: Machine, threads: int) -> list[tuple[Move, Schedule]] | None:
    """Every move of a kernel with its schedule; None where the general loop nest has to do it."""
    chosen: list[tuple[Move, Schedule]] = []
    for move in map(in_words, moves):
        if move is None:
            return None
        for part in prepared(move):
            schedule = choose(part, machine, threads)
            if schedule is None:
                return None
            chosen.append((part, schedule))
    return chosen
