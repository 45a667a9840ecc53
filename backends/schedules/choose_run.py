"""The schedules of contiguous copies."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.schedules.runs import PLACES, dense, streams
from eqsat.backends.schedules.schedule import TILE_I, Run

CHUNK = 1 << 10
"""Bytes collected before they leave by streaming stores."""
SHORT = 512
"""Runs of fewer bytes are copied in pieces that read so many bytes of the source one after the other."""
GROUPED = 4 << 10
"""Runs that lie side by side are asked for together, at most so many bytes of them."""
STRETCH = 32 << 10
"""Bytes of the result with padding in it that are written, and perhaps collected, as one stretch."""


def plan_run(move: Move, machine: Machine, threads: int) -> Run:
    """Contiguous copies: the source is read from its beginning to its end, stretches of the result are collected."""
    order = list(range(len(move.extents)))
    stream, size, boxed = bool(move.operands) and streams(move, machine), move.out.size, move.boxed
    chunk = len(order) - boxed[0] if boxed else 1
    if stream:
        while chunk < len(order) and dense(move, order[-chunk - 1]):
            if prod(move.extents[-chunk:]) * size >= CHUNK:
                break
            chunk += 1
    outer, inner = order[: len(order) - chunk], order[len(order) - chunk :]
    fetch = 0
    if move.operands:
        strides = move.operands[0].strides
        outer.sort(key=lambda k: -abs(strides[k]))
        fetch = abs(strides[outer[-1]]) * size if outer and stream else 0
    if move.operands and move.operands[0].strides[-1] == -1:
        # Such rows are turned round in a local buffer before they leave.
        stream = stream and (len(move.extents) == 1 or prod(move.extents[-chunk:]) * size <= STRETCH)
    plain = Run((*outer, *inner), stream, chunk, fetch, threads)
    if stream and chunk == 2 and outer and not boxed:
        plain = replace(plain, group=group_of(move, machine, outer[-1], inner[0]))
    return tiled_run(move, plain) if move.operands and chunk == 1 and not (stream or boxed) else plain


def group_of(move: Move, machine: Machine, step: int, row: int) -> int:
    """How many runs of each row are asked for at once, where those that follow each other lie side by side."""
    run = move.extents[-1]
    beside = move.operands[0].strides[step] == run
    if not beside or move.extents[row] <= PLACES or not LINE < run * move.out.size < GROUPED:
        return 0
    most = min(GROUPED // (run * move.out.size), machine.second // (2 * move.extents[row] * run * move.out.size))
    return max((n for n in range(1, most + 1) if move.extents[step] % n == 0), default=0)


def tiled_run(move: Move, plan: Run) -> Run:
    """Short runs in pieces: the source is read and the result written in longer stretches, few of them at a time."""
    *outer, inner = plan.order
    run = move.extents[inner]
    tile = SHORT // (run * move.out.size)
    n, k = (next((k for k in outer if a.strides[k] == run), None) for a in (move.operands[0], move.out))
    if n is None or k is None or n == k or tile < 2 or move.extents[n] < 2 * tile:
        return plan
    others = [m for m in outer if m not in (n, k)]
    return replace(plan, order=(*others, TILE_I, k, n, inner), tiled=n, tile=tile)
