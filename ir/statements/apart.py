"""Whether the elements of a buffer have memory of their own, each: what is written must not change other elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import gcd, prod

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.ranges.map_bounds import at_least
from eqsat.ir.statements.decl import BufferDecl
from eqsat.ir.terms.shape import Dim
from eqsat.ir.terms.term import as_index

MOST_CELLS = 1 << 20

Cell = tuple[int, ...]


def is_apart(decl: BufferDecl) -> bool | None:
    """Whether different indices are different elements; None where sizes of strides do not show it.

    >>> rows = BufferDecl("x", (4, 4), "int8", strides=(8, 1))
    >>> is_apart(rows), is_apart(BufferDecl("x", (4, 4), "int8", strides=(1, 1)))
    (True, False)
    """
    decl = decl.in_one_axis
    sizes = [n for n in decl.shape if isinstance(n, int)]
    if decl.strides is None or 0 in sizes:
        return True
    pairs = [(s, n) for s, n in zip(decl.strides, decl.shape, strict=True) if not isinstance(n, int) or n > 1]
    numbers = [(s, n) for s, n in pairs if isinstance(s, int) and isinstance(n, int)]
    if len(numbers) < len(pairs):
        known = [(abs(s), n) for s, n in pairs if isinstance(s, int)]
        inner_first = sorted(known, key=lambda pair: pair[0]) if len(known) == len(pairs) else pairs[::-1]
        return True if _beyond(inner_first) else None
    if _beyond(sorted((abs(s), n) for s, n in numbers)):
        return True
    if shared_cells([s for s, _ in numbers], [n for _, n in numbers]) is not None:
        return False
    return True if prod(n for _, n in numbers) <= MOST_CELLS else None


def _beyond(pairs: Sequence[tuple[Dim, Dim]]) -> bool:
    """Whether each stride leads beyond all that the axes before it reach."""
    reach = as_index(0)
    for stride, extent in pairs:
        if not at_least(as_index(stride) - reach - 1):
            return False
        reach = reach + as_index(stride) * (as_index(extent) - 1)
    return True


def shared_cells(strides: Sequence[int], shape: Sequence[int]) -> tuple[Cell, Cell] | None:
    """Two indices of one element; None where there are none, or too many cells to find them.

    >>> shared_cells((2, 3), (4, 4)), shared_cells((2, 3), (3, 2))
    (((3, 0), (0, 2)), None)
    """
    if not shape or min(shape) <= 0:
        return None
    for k, m in combinations(range(len(shape)), 2):
        found = _of_two((strides[k], shape[k]), (strides[m], shape[m]))
        if found is not None:
            first, second = [0] * len(shape), [0] * len(shape)
            (first[k], first[m]), (second[k], second[m]) = found
            return tuple(first), tuple(second)
    still = next((k for k, (s, n) in enumerate(zip(strides, shape, strict=True)) if s == 0 and n > 1), None)
    if still is not None:
        return (0,) * len(shape), tuple(int(k == still) for k in range(len(shape)))
    if prod(shape) > MOST_CELLS:
        return None
    index: NDArray = np.indices(tuple(shape)).reshape(len(shape), -1)
    address: NDArray = np.asarray(strides, np.int64) @ index
    order = np.argsort(address, kind="stable")
    twice = np.flatnonzero(np.diff(address[order]) == 0)
    if not twice.size:
        return None
    a, b = (index[:, order[twice[0] + n]] for n in (0, 1))
    return tuple(map(int, a)), tuple(map(int, b))


def _of_two(one: tuple[int, int], other: tuple[int, int]) -> tuple[Cell, Cell] | None:
    """The indices along two axes, each a stride and an extent, where steps along one are steps along the other."""
    (s, n), (r, m) = one, other
    if not s or not r:
        return None
    step = gcd(s, r)
    along, across = abs(r) // step, abs(s) // step
    if along >= n or across >= m:
        return None
    return ((along, 0), (0, across)) if s * r > 0 else ((0, 0), (along, across))
