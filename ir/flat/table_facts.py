"""Inverse, injective, surjective: what is known about maps with tables. Answers are exact; None: too large to say.

The cells that a digit or a table of a bijective map reads, counted from the first, are those of a box of digits of the
source, for no other sets of numbers add up to each number of an interval once. So a table of such a map is a
permutation between digits of the output and digits of the source.
"""

from __future__ import annotations

import math

import numpy as np

from eqsat.ir.flat.map import Digit, FlatMap, IntArray, digit
from eqsat.ir.flat.recognise import Rows, digits_of_array
from eqsat.ir.flat.sizes import Size, add, at_most, div, mul, number, numbers
from eqsat.ir.flat.table import Listed, TableMap, rows_in
from eqsat.ir.flat.tabled import tabled

MOST_SUMS = 1 << 18
"""The most sums that are listed to tell whether two are the same."""


def table_inverse(m: TableMap) -> Listed | None:
    """The map that undoes a bijective one; None where it is none, or is not known to be."""
    if not m.is_total or m.n_in != m.n_out:
        return None
    weights: dict[int, Size] = {}
    weight: Size = 1
    for n in range(len(m.digits) - 1, -1, -1):
        weights[n] = weight
        weight = mul(weight, m.digits[n].extent)
    # (stride in the source, extent) of each digit of the source, and where it comes from.
    pool: list[tuple[Size, Size, int | tuple[int, int]]] = []
    boxes: list[tuple[Rows, FlatMap]] = []
    for n, d in enumerate(m.digits):
        if n not in m.looked_up:
            pool.append((d.stride if at_most(0, d.stride) else mul(-1, d.stride), d.extent, n))
    for r in rows_in(m):
        box = _box(r)
        if box is None:
            return None
        pool += [(mul(r.unit, d.stride), d.extent, (len(boxes), k)) for k, d in enumerate(box.digits)]
        boxes.append((r, box))
    chain = _chained(pool, m.n_in)
    if chain is None:
        return None
    digits: list[Digit] = []
    offset: Size | None = 0
    place: dict[tuple[int, int], int] = {}
    for _, extent, origin in reversed(chain):
        if isinstance(origin, tuple):
            place[origin] = len(digits)
            digits.append(digit(extent, 0))
            continue
        back = weights[origin]
        if not at_most(0, m.digits[origin].stride):
            last, back = add(extent, -1), mul(-1, back)
            offset = None if offset is None or last is None else add(offset, mul(weights[origin], last))
        digits.append(digit(extent, back))
    rows: list[Rows] = []
    for b, (r, box) in enumerate(boxes):
        back = _back(m, r, weights)
        if back is None:
            return None
        shape = [number(d.extent) for d in box.digits]
        places = [place[b, k] for k in range(len(shape))]
        turn = sorted(range(len(shape)), key=lambda k: places[k])
        values = back[0].reshape(shape).transpose(turn).reshape(-1)
        rows.append(Rows(tuple(places[k] for k in turn), values, np.ones(len(values), dtype=np.bool_), back[1]))
    return None if offset is None else tabled(m.n_out, digits, rows, offset)


def _box(r: Rows) -> FlatMap | None:
    """The values of rows, all different, in ascending order as a map of digits."""
    values = np.sort(r.values)
    if bool(np.any(values[1:] == values[:-1])):
        return None
    return digits_of_array(values, int(values[-1]) + 1)


def _chained(
    pool: list[tuple[Size, Size, int | tuple[int, int]]], n_in: Size
) -> list[tuple[Size, Size, int | tuple[int, int]]] | None:
    """The digits of the source by ascending stride, if they count through it."""
    pool = list(pool)
    want: Size = 1
    chain: list[tuple[Size, Size, int | tuple[int, int]]] = []
    while pool:
        found = next((entry for entry in pool if entry[0] == want), None)
        if found is None:
            return None
        pool.remove(found)
        chain.append(found)
        want = mul(want, found[1])
    return chain if want == n_in else None


def _back(m: TableMap, r: Rows, weights: dict[int, Size]) -> tuple[IntArray, Size] | None:
    """For the values of rows in ascending order, the part of the output index at which they stand; in a unit."""
    unit = weights[r.places[-1]]
    steps = numbers([s for p in r.places if (s := div(weights[p], unit)) is not None])
    if steps is None or len(steps) < len(r.places):
        return None
    at: IntArray = np.zeros(1, dtype=np.int64)
    for p, step in zip(r.places, steps, strict=True):
        at = (at[:, None] + step * np.arange(number(m.digits[p].extent), dtype=np.int64)).reshape(-1)
    return at[np.argsort(r.values)], unit


def table_injective(m: TableMap) -> bool | None:
    """Whether no source cell is read twice."""
    if table_inverse(m) is not None:
        return True
    for r in rows_in(m):
        values = np.sort(r.values[r.valid])
        if bool(np.any(values[1:] == values[:-1])):
            return False
    free = [d for n, d in enumerate(m.digits) if n not in m.looked_up and d.width != 1]
    if any(d.stride == 0 and at_most(2, d.width) for d in free):
        return False
    if not m.is_numeric:
        return None
    sets: list[IntArray] = []
    moves: list[tuple[int, int]] = [(abs(number(d.stride)), number(d.width)) for d in free]
    for r in rows_in(m):
        values = np.sort(r.values[r.valid]) * number(r.unit)
        box = digits_of_array(values - values[0], int(values[-1] - values[0]) + 1)
        if box is None:
            sets.append(values - values[0])
        else:
            moves += [(abs(number(d.stride)), number(d.extent)) for d in box.digits]
    return apart(sorted(moves)) if not sets else _sums_differ(sorted(moves), sets)


def _sums_differ(moves: list[tuple[int, int]], sets: list[IntArray]) -> bool | None:
    """Whether all sums of steps and of one number of each set differ, after the longest moves that reach over all."""
    reach = sum(s * (n - 1) for s, n in moves) + sum(int(s.max()) for s in sets)
    while moves and moves[-1][0] > reach - moves[-1][0] * (moves[-1][1] - 1):
        reach -= moves[-1][0] * (moves[-1][1] - 1)
        moves = moves[:-1]
    if math.prod(n for _, n in moves) * math.prod(len(s) for s in sets) > MOST_SUMS:
        return None
    sums: IntArray = np.zeros(1, dtype=np.int64)
    for some in (*(s * np.arange(n, dtype=np.int64) for s, n in moves), *sets):
        sums = (sums[:, None] + some).reshape(-1)
    return len(np.unique(sums)) == len(sums)


def apart(moves: list[tuple[int, int]]) -> bool | None:
    """Whether all sums of steps differ; moves are (stride, positions), ascending.

    >>> apart([(1, 2), (2, 3)]), apart([(1, 3), (2, 3)])
    (True, False)
    """
    reach = sum(stride * (positions - 1) for stride, positions in moves)
    while moves and moves[-1][0] > reach - moves[-1][0] * (moves[-1][1] - 1):
        reach -= moves[-1][0] * (moves[-1][1] - 1)
        moves = moves[:-1]
    below = 0
    for cut in range(1, len(moves)):
        below += moves[cut - 1][0] * (moves[cut - 1][1] - 1)
        if math.gcd(*(stride for stride, _ in moves[cut:])) > below:
            halves = apart(moves[:cut]), apart(moves[cut:])
            return False if False in halves else None if None in halves else True
    return _sums_differ(moves, [])
