"""Reading arrays of numbers: as digits, or as a sum of tables over a few digits each.

A function of an index in mixed radix is a sum of tables over groups of digits exactly where no digit of one group
changes what a digit of another one adds, so the finest such groups are found by mixed differences. A number that two
digits make up between others (a window of a rolled axis) is found by trying the orders of the prime factors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eqsat.ir.flat.map import Digit, FlatMap, IntArray, all_padding, canonical
from eqsat.ir.flat.sizes import Size

BoolArray = npt.NDArray[np.bool_]
SMALL = 1 << 12
"""The largest array, in cells, whose digits are tried in every order of their prime factors."""
MOST_ORDERS = 512
"""How many orders of prime factors are tried."""


class Rows(NamedTuple):
    """What some digits add together: unit * values[row], where valid; the row is these digits in mixed radix."""

    places: tuple[int, ...]
    values: IntArray
    valid: BoolArray
    unit: Size = 1


@dataclass(frozen=True)
class Factors:
    """An array as offset + sum of rows over the digits of its index."""

    extents: tuple[int, ...]
    rows: tuple[Rows, ...]
    offset: int


# -- digits ------------------------------------------------------------------------------------------------------------


def digits_of_array(array: IntArray, n_in: int) -> FlatMap | None:
    """The digit form: read it off the gaps between valid cells, innermost digit first, then compare everything.

    >>> print(digits_of_array(np.array([0, 2, 4, 1, 3, 5]), 6))
    (2:1, 3:2) of 6
    """
    n_out = len(array)
    total = n_out > 0 and int(array.min()) >= 0
    cells = np.arange(n_out) if total else np.flatnonzero(array >= 0)
    if len(cells) == 0:
        return all_padding(n_in, n_out)
    first, start = int(cells[0]), int(array[cells[0]])
    active: list[tuple[int, int, int]] = []  # (weight, stride, count), innermost first
    step = 1
    while step < len(cells):
        weight, stride = int(cells[step]) - first, int(array[cells[step]]) - start
        count = _run_length(cells, array, step, weight, stride)
        if (len(cells) // step) % count or len(cells) % step:
            return None
        active.append((weight, stride, count))
        step *= count
    candidate = _candidate(n_in, n_out, first, start, active)
    if candidate is None:
        return None
    sample = np.unique(np.linspace(0, n_out - 1, 64).astype(np.int64))
    if not np.array_equal(candidate.at(sample), np.maximum(array[sample], -1)):
        return None
    return candidate if np.array_equal(candidate.to_array(), np.maximum(array, -1)) else None


def _run_length(cells: IntArray, array: IntArray, step: int, weight: int, stride: int) -> int:
    """How many of cells[0], cells[step], cells[2 step], ... keep the first gap in both indices."""
    known, look = 2, 16
    total = -(-len(cells) // step)
    while known < total:
        until = min(total, known + look)
        chosen = cells[(known - 1) * step : (until - 1) * step + 1 : step]
        same = (np.diff(chosen) == weight) & (np.diff(array[chosen]) == stride)
        if not bool(same.all()):
            return known + int(np.argmin(same))
        known, look = until, look * 4
    return total


def _candidate(n_in: int, n_out: int, first: int, start: int, active: list[tuple[int, int, int]]) -> FlatMap | None:
    digits: list[Digit] = []
    offset, above, rest = start, n_out, first
    for weight, stride, count in reversed(active):
        extent, odd = divmod(above, weight)
        lo, rest = divmod(rest, weight)
        if odd or lo + count > extent:
            return None
        digits.append(Digit(extent, stride, lo, lo + count))
        offset -= stride * lo
        above = weight
    if above > 1:
        digits.append(Digit(above, 0, rest, rest + 1))
    return canonical(n_in, digits, offset)


# -- sums of tables ----------------------------------------------------------------------------------------------------


def factored(values: IntArray, valid: BoolArray, spread: bool = True) -> Factors:
    """An array that is valid somewhere, as a sum over the finest digits of its index that are found.

    `spread`: also over groups of digits some of which stand between those of other groups.

    >>> found = factored(np.array([3, 2, 4, 5, 1, 0]), np.ones(6, dtype=np.bool_))
    >>> found.extents
    (6,)
    >>> [f.places for f in factored(np.array([1, 0, 5, 4, 3, 2]), np.ones(6, dtype=np.bool_)).rows]
    [(0,), (1,)]
    """
    if len(values) > SMALL:
        return _factored(values, valid, spread)
    return _known_factors(values.tobytes(), valid.tobytes(), spread)


@lru_cache(maxsize=1 << 9)
def _known_factors(values: bytes, valid: bytes, spread: bool) -> Factors:
    """As `factored`: views of views meet the same arrays again and again."""
    found = _factored(np.frombuffer(values, np.int64), np.frombuffer(valid, np.bool_), spread)
    for rows in found.rows:
        rows.values.flags.writeable = rows.valid.flags.writeable = False
    return found


def _factored(values: IntArray, valid: BoolArray, spread: bool) -> Factors:
    blocks: list[tuple[IntArray, BoolArray]] = []
    while True:
        cut = _innermost(values, valid)
        if cut is None:
            blocks.append((values, valid))
            break
        (values, valid), inner = cut
        blocks.append(inner)
    extents: list[int] = []
    rows: list[Rows] = []
    offset = 0
    for block in reversed(blocks):
        found = (_interleaved(*block) if spread else None) or Factors((len(block[0]),), (Rows((0,), *block),), 0)
        rows += [r._replace(places=tuple(p + len(extents) for p in r.places)) for r in found.rows]
        extents += found.extents
        offset += found.offset
    return Factors(tuple(extents), tuple(rows), offset)


def _divisors(n: int) -> list[int]:
    low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return sorted({*low, *(n // d for d in low)})


def _innermost(
    values: IntArray, valid: BoolArray
) -> tuple[tuple[IntArray, BoolArray], tuple[IntArray, BoolArray]] | None:
    """The array as (outer digit, innermost digit), if what they add is independent."""
    n = len(values)
    total = bool(valid.all())
    for inner in _divisors(n)[1:-1]:
        v, m = values.reshape(-1, inner), valid.reshape(-1, inner)
        if total:  # most arrays are told apart by a few rows
            if bool(np.any(v[1] - v[0] != v[1, 0] - v[0, 0])) or bool(np.any(v[-1] - v[0] != v[-1, 0] - v[0, 0])):
                continue
            first = 0, 0
            row: BoolArray = np.ones(len(v), dtype=np.bool_)
            column: BoolArray = np.ones(inner, dtype=np.bool_)
        else:
            row, column = np.any(m, axis=1), np.any(m, axis=0)
            if int(m.sum()) != int(row.sum()) * int(column.sum()):
                continue
            first = int(row.argmax()), int(column.argmax())
        above = np.where(row, v[:, first[1]], 0)
        below = np.where(column, v[first[0]] - v[first], 0)
        if bool(np.all((v == above[:, None] + below) | ~m)):
            return (above, row), (below, column)
    return None


def _interleaved(values: IntArray, valid: BoolArray) -> Factors | None:
    """Two or more groups of digits that add independently, some of them between the digits of another one."""
    primes = _primes(len(values))
    if len(primes) < 3 or len(values) > SMALL:
        return None
    orders = [(_most_groups(values, valid, order), order) for order in itertools.islice(_orders(primes), MOST_ORDERS)]
    groups, order = [tuple(range(len(primes)))], orders[0][1]
    for most, tried in sorted(orders, key=lambda pair: -pair[0]):
        if most <= len(groups):
            break
        found = components(values.reshape(tried), valid.reshape(tried))
        if len(found) > len(groups):
            groups, order = found, tried
    if len(groups) == 1:
        return None
    rows, offset = rows_of(values.reshape(order), valid.reshape(order), groups)
    return Factors(order, tuple(rows), offset)


def _primes(n: int) -> list[int]:
    found: list[int] = []
    d = 2
    while n > 1:
        while n % d == 0:
            found.append(d)
            n //= d
        d = d + 1 if d * d <= n else max(n, d + 1)
    return found


def _orders(items: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The distinct orders of some numbers."""
    if not items:
        yield ()
    for item in dict.fromkeys(items):
        rest = list(items)
        rest.remove(item)
        for order in _orders(rest):
            yield (item, *order)


def _most_groups(values: IntArray, valid: BoolArray, order: tuple[int, ...]) -> int:
    """How many groups of digits there are at most, by the first steps of the digits alone."""
    if not valid[0]:
        return len(order)
    weights = np.cumprod([1, *order[:0:-1]])[::-1]
    pairs = weights[:, None] + weights
    pairs[pairs >= len(values)] = 0  # twice a digit of two positions
    known = valid[weights][:, None] & valid[weights] & valid[pairs]
    change = values[pairs] - values[weights][:, None] - values[weights] + values[0]
    joined = Sets(len(order))
    for p, q in np.argwhere(np.triu(known & (change != 0), 1)).tolist():
        joined.join(p, q)
    return len(joined.groups())


class Sets:
    """Disjoint sets of the numbers below n."""

    def __init__(self, n: int) -> None:
        self.head = list(range(n))

    def find(self, k: int) -> int:
        while self.head[k] != k:
            k = self.head[k]
        return k

    def join(self, a: int, b: int) -> None:
        a, b = sorted((self.find(a), self.find(b)))
        self.head[b] = a

    def groups(self) -> list[tuple[int, ...]]:
        found: dict[int, list[int]] = {}
        for k in range(len(self.head)):
            found.setdefault(self.find(k), []).append(k)
        return [tuple(group) for group in found.values()]


def components(values: IntArray, valid: BoolArray) -> list[tuple[int, ...]]:
    """The finest groups of axes of an array, which is valid somewhere, such that it is a sum over them, valid where
    each of them is.

    >>> a, b = np.indices((2, 3))
    >>> components(a * 7 + b % 2, a >= 0), components(a * b, a >= 0)
    ([(0,), (1,)], [(0, 1)])
    """
    axes = range(values.ndim)
    masks = Sets(values.ndim)
    if not bool(valid.all()):
        alone = [valid.any(tuple(a for a in axes if a != p)) for p in axes]
        for p in axes:
            for q in range(p):
                both = valid.any(tuple(a for a in axes if a not in (p, q)))
                if int(both.sum()) != int(alone[p].sum()) * int(alone[q].sum()):
                    masks.join(p, q)
        parts = [valid.any(tuple(a for a in axes if a not in group)) for group in masks.groups()]
        if math.prod(int(part.sum()) for part in parts) != int(valid.sum()):
            return [tuple(axes)]
    groups = masks.groups()
    flat = values.transpose([a for g in groups for a in g]).reshape([_cells(values, g) for g in groups])
    for n, group in enumerate(groups):
        some = valid.any(tuple(a for a in axes if a not in group)).reshape(-1)
        if not bool(some.all()):
            flat = np.compress(some, flat, n)
    sums = Sets(len(groups))
    for p in range(len(groups)):
        change = np.diff(flat, axis=p)
        for q in range(len(groups)):
            if q != p and bool(np.any(change != np.take(change, [0], q))):
                sums.join(p, q)
    joined = (tuple(sorted(a for n in some for a in groups[n])) for some in sums.groups())
    return sorted(joined)


def _cells(values: IntArray, group: Sequence[int]) -> int:
    return math.prod(values.shape[a] for a in group)


def rows_of(values: IntArray, valid: BoolArray, groups: Sequence[tuple[int, ...]]) -> tuple[list[Rows], int]:
    """An array that is a sum over groups of its axes, as these; and the number to add to them."""
    first = np.unravel_index(int(valid.argmax()), valid.shape)
    base = int(values[first])
    rows: list[Rows] = []
    for group in groups:
        here = tuple(slice(None) if a in group else int(first[a]) for a in range(values.ndim))
        some = valid.any(tuple(a for a in range(values.ndim) if a not in group)).reshape(-1)
        rows.append(Rows(tuple(group), np.where(some, values[here].reshape(-1) - base, 0), some))
    return rows, base
