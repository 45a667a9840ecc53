"""Splitting the digits of a map at the radices of the buffer it reads, so that nothing carries.

This one routine carries composition (the radices are the digits of the inner map), spelling (the radices are a tensor
shape) and whatever else needs to know on which axes a view moves. A step of a digit is written in the radices; the
digit is split where the lowest axis it moves on is full; and the sum of all moves must stay inside of every axis. What
is returned is an exact identity of index arithmetic; what is not found is not claimed to not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eqsat.ir.flat.map import Digit
from eqsat.ir.flat.sizes import Size, add, at_most, div, mul


class Part(NamedTuple):
    """A piece of an output digit, and what each of its steps adds to the source's digits.

    ``steps`` holds (source axis, how far one step of this piece moves on that axis), never zero; where ``reverse`` is
    set, the piece counts down from hi - 1 while the source counts up.
    """

    extent: Size
    lo: Size
    hi: Size
    width: Size
    reverse: bool
    steps: tuple[tuple[int, Size], ...]


def refine(digits: Sequence[Digit], offset: Size, shape: Sequence[Size]) -> tuple[list[Part], list[Size]] | None:
    """Split output digits until each step of each moves on the axes of a source shape without carrying.

    Returns the pieces, most significant first, and the position on every axis from which all pieces count up; None if
    there is no such splitting.

    >>> parts, start = refine([Digit(12, 1, 0, 12)], 0, (3, 4))
    >>> [(p.extent, p.steps) for p in parts], start
    ([(3, ((0, 1),)), (4, ((1, 1),))], [0, 0])
    """
    corner: Size | None = offset
    for _, stride, lo, hi in digits:
        if stride != 0:
            lowest = lo if at_most(0, stride) else add(hi, -1)
            if lowest != 0:
                corner = None if lowest is None or corner is None else add(corner, mul(stride, lowest))
    start = None if corner is None else _positions(corner, shape)
    if start is None:
        return None
    parts: list[Part] = []
    for d in reversed(digits):
        pieces = _split(d, start, shape)
        if pieces is None:
            return None
        parts += pieces
    moved = [axis for p in parts for axis, _ in p.steps]
    if len(set(moved)) < len(moved):
        for axis, extent in enumerate(shape):
            together = [p for p in parts for a, _ in p.steps if a == axis]
            if len(together) > 1 and not _no_carry(axis, start[axis], together, extent):
                return None
    parts.reverse()
    return parts, start


def _positions(index: Size, shape: Sequence[Size]) -> list[Size] | None:
    """The mixed radix digits of one index that lies inside of the shape; None if not decided."""
    result: list[Size] = [0] * len(shape)
    for axis in range(len(shape) - 1, -1, -1):
        if index == 0:
            break
        extent = shape[axis]
        if isinstance(index, int) and isinstance(extent, int):
            index, result[axis] = divmod(index, extent)
            continue
        above = div(index, extent)
        if above is None:
            if axis:
                return None
            result[axis], above = index, 0
        index = above
    return result


def _steps(stride: Size, shape: Sequence[Size]) -> list[tuple[int, Size]]:
    """A positive stride as a sum of axis weights, innermost axis first; exact, though it may exceed the last axis."""
    result: list[tuple[int, Size]] = []
    for axis in range(len(shape) - 1, -1, -1):
        extent = shape[axis]
        if axis == 0:
            result.append((0, stride))
            break
        if isinstance(stride, int) and isinstance(extent, int):
            stride, move = divmod(stride, extent)
            if move:
                result.append((axis, move))
        else:
            above = div(stride, extent)
            if above is None:
                result.append((axis, stride))
                break
            stride = above
        if stride == 0:
            break
    return result


def _fits(start: Size, step: Size, count: Size, extent: Size) -> bool:
    """Whether start + step * (count - 1) < extent is certain."""
    if isinstance(step, int) and isinstance(count, int) and isinstance(extent, int) and isinstance(start, int):
        return start + step * (count - 1) < extent
    return start == 0 and at_most(mul(step, count), extent)


def _split(d: Digit, start: list[Size], shape: Sequence[Size]) -> list[Part] | None:
    """The pieces of one digit, innermost first."""
    extent, stride, lo, hi = d
    width = d.width
    if stride == 0 or not shape:
        return [Part(extent, lo, hi, width, False, ())]
    reverse = not at_most(0, stride)
    if reverse:
        stride = mul(-1, stride)
    pieces: list[Part] = []
    while True:
        steps = _steps(stride, shape)
        for axis, step in steps:
            if not _fits(start[axis], step, width, shape[axis]):
                break
        else:
            pieces.append(Part(extent, lo, hi, width, reverse, tuple(steps)))
            return pieces
        axis, step = steps[0]  # split where the innermost axis is full
        turn = div(shape[axis], step)
        if turn is None or turn == 1 or not all(_fits(start[a], s, turn, shape[a]) for a, s in steps):
            return None
        pieces.append(Part(turn, 0, turn, turn, reverse, tuple(steps)))
        outer = [quotient for part in (extent, lo, hi, width) if (quotient := div(part, turn)) is not None]
        if len(outer) < 4:
            return None
        extent, lo, hi, width = outer
        stride = mul(stride, turn)


def step_on(part: Part, axis: int) -> Size:
    """How far one step of a piece moves on an axis."""
    return next(step for a, step in part.steps if a == axis)


def _no_carry(axis: int, start: Size, parts: list[Part], extent: Size) -> bool:
    """Whether several pieces together stay inside of one axis."""
    moves = [(step_on(p, axis), p.width) for p in parts]
    total: Size | None = start
    for step, count in moves:
        room = add(count, -1)
        total = None if total is None or room is None else add(total, mul(step, room))
    if isinstance(total, int) and isinstance(extent, int):
        return total < extent
    # With symbols: nested steps, each at least as long as all that the smaller ones cover.
    moves.sort(key=lambda move: order_key(move[0]))
    limits = [step for step, _ in moves[1:]] + [extent]
    return start == 0 and all(
        at_most(mul(step, count), limit) for (step, count), limit in zip(moves, limits, strict=True)
    )


def order_key(a: Size) -> tuple[int, int]:
    """A sort key that puts sizes in ascending order where symbols are large."""
    return (0, a) if isinstance(a, int) else (len(a.factors), a.coef)
