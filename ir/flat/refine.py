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
from eqsat.ir.flat.sizes import (
    NO_LOWS,
    Lows,
    Size,
    add,
    at_most,
    div,
    divided,
    leaves_room,
    mul,
    numbers,
    total,
    where_filled,
)


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
    # A map without valid cells has none after this either: widths stay.
    lows = where_filled([*(d.width for d in digits), *shape])
    corner = offset
    for _, stride, lo, hi in digits:
        if stride != 0:
            lowest = lo if at_most(0, stride) else total(hi, -1)
            if lowest != 0:
                corner = total(corner, mul(stride, lowest))
    start = _positions(corner, shape, lows)
    if start is None:
        return None
    parts: list[Part] = []
    for d in reversed(digits):
        pieces = _split(d, start, shape, lows)
        if pieces is None:
            return None
        parts += pieces
    moved = [axis for p in parts for axis, _ in p.steps]
    if len(set(moved)) < len(moved):
        for axis, extent in enumerate(shape):
            together = [p for p in parts for a, _ in p.steps if a == axis]
            moves = [(step_on(p, axis), p.width) for p in together]
            if len(together) > 1 and not stays(start[axis], moves, extent, lows):
                return None
    parts.reverse()
    return parts, start


def _positions(index: Size, shape: Sequence[Size], lows: Lows = NO_LOWS) -> list[Size] | None:
    """The mixed radix digits of one index that lies inside of the shape; None if not decided.

    >>> from eqsat.ir.flat.sizes import monomial
    >>> from eqsat.ir.terms.term import sym
    >>> n = monomial(1, sym("N"))
    >>> _positions(1, [2, mul(2, n)]), _positions(1, [2, n])
    ([0, 1], None)
    """
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
            more = add(index, 1)
            below = more is not None and at_most(more, extent)
            parts = (0, index) if below or not axis else divided(index, extent, lows)
            if parts is None:
                return None
            above, result[axis] = parts
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


def _fits(start: Size, step: Size, count: Size, extent: Size, lows: Lows) -> bool:
    """Whether start + step * (count - 1) < extent is certain."""
    return stays(start, [(step, count)], extent, lows)


def _split(d: Digit, start: list[Size], shape: Sequence[Size], lows: Lows) -> list[Part] | None:
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
            if not _fits(start[axis], step, width, shape[axis], lows):
                break
        else:
            pieces.append(Part(extent, lo, hi, width, reverse, tuple(steps)))
            return pieces
        axis, step = steps[0]  # split where the innermost axis is full
        turn = div(shape[axis], step)
        if turn is None or turn == 1 or not all(_fits(start[a], s, turn, shape[a], lows) for a, s in steps):
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


def stays(start: Size, moves: Sequence[tuple[Size, Size]], extent: Size, lows: Lows = NO_LOWS) -> bool:
    """Whether several moves, each of a step and a number of positions, together stay inside of one axis; `lows`: what
    symbols are known to be at least.

    >>> from eqsat.ir.flat.sizes import monomial
    >>> from eqsat.ir.terms.term import sym
    >>> n = monomial(1, sym("N"))
    >>> stays(1, [(1, 2), (3, n)], mul(3, n)), stays(2, [(1, 2), (3, n)], mul(3, n))
    (True, False)
    """
    return _nest(start, moves, extent) or _reach(start, moves, extent, lows)


def _reach(start: Size, moves: Sequence[tuple[Size, Size]], extent: Size, lows: Lows) -> bool:
    """Whether the last position of all, in symbols, is certain to be inside."""
    if all(isinstance(x, int) for x in (start, extent, *(x for move in moves for x in move))):
        return False
    last = start
    for step, count in moves:
        last = total(last, mul(step, total(count, -1)))
    return leaves_room(total(last, 1), extent, lows)


def _nest(start: Size, moves: Sequence[tuple[Size, Size]], extent: Size) -> bool:
    """Whether each move is a step over all that smaller ones reach, and the last ends inside."""
    below = add(start, 1)  # all positions so far are below this
    for step, count in sorted(moves, key=lambda move: order_key(move[0])):
        if isinstance(below, int) and isinstance(step, int) and isinstance(count, int):
            below += step * (count - 1)
        elif below is not None and at_most(below, step):
            below = mul(step, count)
        else:
            return False
    return below is not None and at_most(below, extent)


def order_key(a: Size) -> tuple[int, int]:
    """A sort key that puts sizes in ascending order where symbols are large."""
    return (0, a) if isinstance(a, int) else (len(a.factors), a.coef)


# -- windows -----------------------------------------------------------------------------------------------------------

Reach = tuple[int, Size, Size]
"""A piece, its step on an axis, and how many positions it has there."""
Cut = tuple[int, Size, Size]
"""A piece (-1: none of them), and the steps [first, stop) of it that stay; none where first == stop."""


def pulled(
    d: Digit, start: Size, reach: Sequence[Reach], bounds: list[tuple[Size, Size]], lows: Lows = NO_LOWS
) -> bool | None:
    """Narrow the steps [first, stop) of pieces to those that stay in the window of a digit, counted from `start`.

    Returns whether none do; None where that is not a box. `lows`: what symbols are at least where the pieces have
    cells, valid or not: a window that has none at other sizes must not get some.
    """
    cuts = _pull_window(d.lo, d.hi, start, list(reach))
    if cuts is None:
        return None
    for index, low, high in cuts:
        joint = (low, high) if index < 0 else _intersect(bounds[index], (low, high), lows)
        if joint is None:
            return None
        if joint[0] == joint[1]:
            return True
        if index >= 0:
            bounds[index] = joint
    return False


def _intersect(a: tuple[Size, Size], b: tuple[Size, Size], lows: Lows) -> tuple[Size, Size] | None:
    low = a[0] if leaves_room(b[0], a[0], lows) else b[0] if leaves_room(a[0], b[0], lows) else None
    high = a[1] if leaves_room(a[1], b[1], lows) else b[1] if leaves_room(b[1], a[1], lows) else None
    if low is None or high is None:
        return None
    if (low, high) in (a, b):
        return low, high
    return (0, 0) if leaves_room(high, low, lows) else (low, high) if leaves_room(low, high) else None


def _pull_window(lo: Size, hi: Size, start: Size, reach: list[Reach]) -> list[Cut] | None:
    """Which steps keep start + sum(step * t) in [lo, hi), if that is a box; reach lists (piece, step, width)."""
    if not reach:
        if start == 0:
            return [(-1, 0, 1 if lo == 0 else 0)]
        known = numbers([lo, start, hi])
        return None if known is None else [(-1, 0, 1 if known[0] <= known[1] < known[2] else 0)]
    reach = sorted(reach, key=lambda move: order_key(move[1]), reverse=True)
    known = numbers([lo, hi, start, *(part for move in reach for part in move)])
    if known is not None:
        return _pull_numbers(known[0], known[1], known[2], known[3:])
    # With symbols the steps are nested: the smaller ones together never reach the next multiple of the largest.
    index, step, _ = reach[0]
    if start != 0:
        if len(reach) > 1:
            return None
        lo, hi = (total(x, mul(-1, start)) for x in (lo, hi))
    low, high = div(lo, step), div(hi, step)
    return [(index, low, high)] if low is not None and high is not None else None


def _pull_numbers(lo: int, hi: int, start: int, reach: list[int]) -> list[Cut] | None:
    """The same in numbers; reach is piece, step, width, piece, step, width, ..., the largest step first."""
    index, step, width = reach[:3]
    spread = sum(s * (w - 1) for s, w in zip(reach[4::3], reach[5::3], strict=True))

    def reaching(distance: int) -> int:
        return min(width, max(0, -(-distance // step)))

    first, first_some = reaching(lo - start), reaching(lo - start - spread)
    stop, stop_some = reaching(hi - start - spread), reaching(hi - start)
    if first_some >= stop_some:
        return [(-1, 0, 0)]
    if first == first_some and stop == stop_some:
        return [(index, first, stop)]
    if stop_some - first_some > 1:
        return None
    # The window lies inside of one step of this piece: the others decide.
    inner = _pull_numbers(lo, hi, start + step * first_some, reach[3:])
    return None if inner is None else [(index, first_some, stop_some), *inner]
