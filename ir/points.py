"""The points of boxes, and the values of index terms there: all of a small box, a sample of a large one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import prod

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.exact import integers
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term

ENUMERATION_LIMIT = 1 << 21
"""The points of the largest box of which all are tried."""
SAMPLES, CORNERS, NEAR = 4096, 64, 4
LARGEST_RANDOM = 1 << 62
LARGEST_KEY = 1 << 62


def grid(box: Mapping[Term, tuple[int, int]]) -> dict[Term, NDArray]:
    """Every axis as a broadcastable array over its range."""
    rank = len(box)
    result: dict[Term, NDArray] = {}
    for n, (axis, (start, stop)) in enumerate(box.items()):
        shape = [1] * rank
        shape[n] = max(0, stop - start)
        result[axis] = integers(start, stop).reshape(shape)
    return result


def points(box: Mapping[Term, tuple[int, int]]) -> int:
    """The number of points of a box."""
    count = 1
    for start, stop in box.values():
        count *= max(0, stop - start)
    return count


def values_on(terms: Sequence[Term], variables: Sequence[Term], extents: Sequence[int]) -> list[NDArray] | None:
    """The values of terms at every point of a box, flat; None where one is undefined."""
    env = grid({v: (0, e) for v, e in zip(variables, extents, strict=True)})
    result: list[NDArray] = []
    for value, bad in evaluate_masked(list(terms), env, load_table):
        if bad is not None and bool(np.any(bad)):
            return None
        result.append(np.broadcast_to(value, tuple(extents)).ravel())
    return result


def values_at(terms: Sequence[Term], env: Mapping[Term, NDArray], size: int) -> list[NDArray] | None:
    """The values of terms at `size` points given by flat arrays; None where one is undefined."""
    result: list[NDArray] = []
    for value, bad in evaluate_masked(list(terms), env, load_table):
        if bad is not None and bool(np.any(bad)):
            return None
        result.append(np.broadcast_to(value, (size,)))
    return result


def some_points(extents: Sequence[int], count: int = SAMPLES, whole: int | None = None) -> list[NDArray]:
    """Flat coordinates of points of a box, always the same: all where they are at most `whole` (default: `count`), else
    so many: corners first, then coordinates near the ends and others."""
    if prod(extents) <= (count if whole is None else whole):
        return [a.ravel() for a in np.indices(tuple(extents))] if extents else []
    result: list[NDArray] = []
    for axis, extent in enumerate(min(e, LARGEST_RANDOM) for e in extents):
        dice, low, high, below, above = _dice(count, axis)
        array = dice % extent
        array[low] = below if extent >= NEAR else below % extent
        array[high] = extent - 1 - (above if extent >= NEAR else above % extent)
        result.append(array)
    return result


@cache
def _dice(count: int, axis: int) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
    """Random numbers for the points of an axis, which of them are near 0 and near the end, and how near."""
    random = np.random.default_rng(axis)
    dice, kind, near = (random.integers(0, n, count) for n in (LARGEST_RANDOM, 4, NEAR))
    kind[:CORNERS] &= 1
    near[:CORNERS] = 0
    low, high = np.flatnonzero(kind == 0), np.flatnonzero(kind == 1)
    return dice, low, high, near[low], near[high]


def row_keys(columns: Iterable[NDArray], rows: int) -> NDArray:
    """One number for each row of some columns: equal where the rows are.

    >>> row_keys([np.array([1, 1, 7]), np.array([5, 5, 5])], 3).tolist()
    [0, 0, 6]
    >>> row_keys([np.array([-(1 << 62), 1 << 62])], 2).tolist()
    [0, 1]
    """
    key: NDArray = np.zeros(rows, np.int64)
    for column in columns if rows else ():
        low, high = int(column.min()), int(column.max())
        if column.dtype == object or (int(key.max()) + 1) * (high - low + 1) >= LARGEST_KEY:
            key, column = (np.unique(x, return_inverse=True)[1].astype(np.int64) for x in (key, column))
            low, high = 0, int(column.max())
        key = key * (high - low + 1) + (column - low)
    return key


def first_repeated(key: NDArray) -> tuple[int, int] | None:
    """Two places with the same number, the first such pair in order, or None.

    >>> first_repeated(np.array([4, 2, 9, 2])), first_repeated(np.array([4, 2, 9]))
    ((1, 3), None)
    """
    span = int(key.max(initial=0)) + 1
    if span <= 8 * key.size + 1024:
        counts = np.zeros(span, bool)
        counts[key] = True
        if int(np.count_nonzero(counts)) == key.size:
            return None
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    same = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not same.size:
        return None
    best = int(same[np.argmin(order[same + 1])])
    return int(order[best]), int(order[best + 1])
