"""The choice of a schedule for a move: rules over strides and sizes."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.backends.lowering.moves import Move, normalise, without_border
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.schedules.choose_body import cross_loop, plan_blend, plan_cross, plan_strip
from eqsat.backends.schedules.choose_run import STRETCH, plan_run
from eqsat.backends.schedules.choose_small import plan_shuffle, plan_zip, separable
from eqsat.backends.schedules.choose_turn import plan_turn
from eqsat.backends.schedules.runs import along, dense, unit
from eqsat.backends.schedules.schedule import Plan

INLINE = 1024
"""Padding is written together with what it surrounds, where the steps of its loop are shorter than so many bytes."""
PARALLEL = 1 << 17
"""Fewer bytes than this are not worth waking threads for."""


def choose(move: Move, machine: Machine, threads: int = 1) -> Plan | None:
    """The schedule of a move; None leaves it to the general loop nest."""
    i = unit(move.out)
    if move.points * move.out.size < PARALLEL:
        threads = 1
    if i is None:
        return None
    if move.is_fill:
        return plan_run(move, machine, threads)
    if not move.is_copy:
        return plan_strip(move, threads, i) or plan_blend(move, threads, i) or plan_cross(move, threads, i)
    j = unit(move.operands[0])
    short = move.extents[i] * move.out.size
    shuffled = plan_shuffle(move, threads) if short < 16 or (short < 32 and move.operands[0].strides[i] != 1) else None
    if shuffled is not None:
        return shuffled
    if along(move.operands[0], i):
        return plan_run(move, machine, threads)
    if j is None or move.boxed not in ((), (i,)):
        return None
    if move.boxed and move.extents[i] * move.out.size > 256:
        return None
    if separable(move.extents[i]) and move.extents[i] * move.out.size > 16:
        # Fewer rows than two register tiles have: they would do much of the work twice.
        woven = plan_zip(move, machine, threads, i, j)
        if woven is not None and woven.braid:
            return woven
    return plan_turn(move, machine, threads, i, j) or plan_zip(move, machine, threads, i, j)


def prepared(move: Move) -> tuple[Move, ...]:
    """The move without the parts of its border that its schedule would not write on its way."""
    if not move.boxed or not move.operands:
        return (move,)
    i = unit(move.out)
    size = move.out.size
    if not move.is_copy:
        keep = [k for k in move.boxed if k == i and cross_loop(move) is not None]
    elif along(move.operands[0], i):
        step = {k: move.out.strides[k] * size for k in move.boxed}
        keep = [k for k in move.boxed if dense(move, k) and step[k] < INLINE and step[k] * move.extents[k] <= STRETCH]
    else:
        keep = [k for k in move.boxed if k == i and move.extents[k] * size <= 4 * LINE]
    inside, borders = without_border(move, [k for k in move.boxed if k not in keep])
    return (normalise(inside), *borders)


def schedule(moves: Sequence[Move], machine: Machine, threads: int) -> list[tuple[Move, Plan]] | None:
    """Every move of a kernel with its schedule; None where the general loop nest has to do it."""
    chosen: list[tuple[Move, Plan]] = []
    for move in moves:
        for part in prepared(move):
            plan = choose(part, machine, threads)
            if plan is None:
                return None
            chosen.append((part, plan))
    return chosen
