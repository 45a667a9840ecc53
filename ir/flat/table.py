"""Flat maps that have no digit form: a table of source indices, as small as its regular surroundings allow.

A roll, a gather along an axis or an xor swizzle leaves the axes outside and the runs of cells inside of its own axis
alone. So a table map is (outer identity) x (table) x (inner identity), with ``inner`` and then ``outer`` as large as
possible: one form per function, and tables of an axis instead of a tensor. :func:`from_array` recognises digit forms
first, so that a function that has one never becomes a table.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.map import Digit, FlatMap, IntArray, all_padding, canonical
from eqsat.ir.flat.sizes import Size, mul, product


class IntTable:
    """A read-only row of int64 that compares and hashes by content.

    >>> IntTable([1, 2]) == IntTable([1, 2]), IntTable([1, 2]) == IntTable([2, 1])
    (True, False)
    """

    __slots__ = ("_digest", "array")

    def __init__(self, values: npt.ArrayLike) -> None:
        self.array: IntArray = np.array(values, dtype=np.int64).reshape(-1)
        self.array.flags.writeable = False
        self._digest = int.from_bytes(hashlib.blake2b(self.array.tobytes(), digest_size=8).digest(), "little")

    def __len__(self) -> int:
        return len(self.array)

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, IntTable):
            return NotImplemented
        return self._digest == other._digest and np.array_equal(self.array, other.array)

    def __repr__(self) -> str:
        head = ", ".join(str(v) for v in self.array[:8].tolist())
        return f"IntTable([{head}{', ...' if len(self.array) > 8 else ''}])"

    def __reduce__(self) -> tuple[object, ...]:
        return IntTable, (self.array,)


@dataclass(frozen=True)
class TableMap:
    """A map given by a table (-1: padding); made by :func:`from_array`.

    Output index ``(b, i, r)`` reads source index ``(b, table[i], r)``, with b below ``outer`` and r below ``inner``.
    """

    n_in: Size
    outer: Size
    table: IntTable
    inner: Size

    @property
    def n_out(self) -> Size:
        """The number of output cells."""
        return product([self.outer, len(self.table), self.inner])

    @property
    def valid_count(self) -> Size:
        """The number of output cells that read a source cell."""
        return product([self.outer, self._valid, self.inner])

    @cached_property
    def _valid(self) -> int:
        return int(np.count_nonzero(self.table.array >= 0))

    @property
    def is_numeric(self) -> bool:
        """Whether no symbol occurs."""
        return isinstance(self.outer, int) and isinstance(self.inner, int)

    @property
    def is_total(self) -> bool:
        """Whether no cell is padding."""
        return self._valid == len(self.table)

    @property
    def is_identity(self) -> bool:
        """False: the identity has a digit form."""
        return False

    @property
    def is_all_padding(self) -> bool:
        """False: the map that reads nothing has a digit form."""
        return False

    @property
    def table_in(self) -> int:
        """The number of source rows that one copy of the table may read."""
        if isinstance(self.n_in, int) and isinstance(self.outer, int) and isinstance(self.inner, int):
            return self.n_in // (self.outer * self.inner)
        # A symbol in n_in comes from outer and inner alone, so any value gives the same quotient.
        return _coefficient(self.n_in) // (_coefficient(self.outer) * _coefficient(self.inner))

    def at(self, index: IntArray) -> IntArray:
        """The source indices (-1: padding) of many output indices."""
        outer, inner = self._numbers()
        block, rest = np.divmod(index, len(self.table) * inner)
        row, run = np.divmod(rest, inner)
        read = self.table.array[row]
        return np.where((read >= 0) & (block < outer), (block * self.table_in + read) * inner + run, -1)

    def to_array(self) -> IntArray:
        """The whole map as an array of n_out source indices, -1 for padding."""
        outer, inner = self._numbers()
        table = self.table.array.reshape(1, -1, 1)
        blocks = np.arange(outer, dtype=np.int64).reshape(-1, 1, 1) * self.table_in
        source = (table + blocks) * inner + np.arange(inner, dtype=np.int64)
        return np.where(table >= 0, source, -1).reshape(-1)

    def gather(self, source: NDArray, fill: object = 0) -> NDArray:
        """What the map reads of a flat array, `fill` in padded cells; without an index per cell."""
        outer, inner = self._numbers()
        rows = source.reshape(outer, self.table_in, inner)
        if not self.table_in:
            return np.full(outer * len(self.table) * inner, fill, source.dtype)
        result = rows[:, np.maximum(self.table.array, 0), :]
        result[:, self.table.array < 0, :] = fill
        return result.reshape(-1)

    def _numbers(self) -> tuple[int, int]:
        if isinstance(self.outer, int) and isinstance(self.inner, int):
            return self.outer, self.inner
        raise LayoutError(f"size {self.outer}, {self.inner}", "this needs numbers")

    def __str__(self) -> str:
        return f"({self.outer} x table of {len(self.table)} x {self.inner}) of {self.n_in}"


Map = FlatMap | TableMap


def _coefficient(a: Size) -> int:
    return a if isinstance(a, int) else a.coef


def from_array(table: npt.ArrayLike, n_in: int) -> Map:
    """The canonical map of an array of source indices (negative: padding): digits where any digit form exists.

    >>> print(from_array([0, 2, 4, 1, 3, 5], 6))
    (2:1, 3:2) of 6
    >>> print(from_array([2, 3, 0, 1, 4, 5, 8, 9, 6, 7, 10, 11], 12))
    (2 x table of 3 x 2) of 12
    """
    array = np.asarray(table, dtype=np.int64).reshape(-1)
    if array.size and int(array.max()) >= n_in:
        raise LayoutError("flat map", f"reads source index {int(array.max())}, outside of [0, {n_in})")
    digits = _recognise(array, n_in)
    return _shrink(array, n_in) if digits is None else digits


def _recognise(array: IntArray, n_in: int) -> FlatMap | None:
    """The digit form: read it off the gaps between valid cells, innermost digit first, then compare everything."""
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
    candidate = _digits_of(n_in, n_out, first, start, active)
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


def _digits_of(n_in: int, n_out: int, first: int, start: int, active: list[tuple[int, int, int]]) -> FlatMap | None:
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


def _shrink(array: IntArray, n_in: int) -> TableMap:
    """The table form with the largest inner run, then the most outer copies."""
    valid = array >= 0
    breaks = np.flatnonzero((valid[1:] != valid[:-1]) | (valid[1:] & (np.diff(array) != 1))) + 1
    starts = array[np.concatenate([np.zeros(1, dtype=np.int64), breaks])]
    inner = math.gcd(len(array), n_in, int(np.gcd.reduce(breaks)), int(np.gcd.reduce(starts[starts >= 0])))
    table = np.where(valid[::inner], array[::inner] // inner, -1)
    rows_in = n_in // inner
    outer = next(b for b in _divisors(math.gcd(len(table), rows_in)) if _repeats(table, rows_in, b))
    return TableMap(n_in, outer, IntTable(table[: len(table) // outer]), inner)


def _divisors(n: int) -> list[int]:
    low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return sorted({*low, *(n // d for d in low)}, reverse=True)


def _repeats(table: IntArray, rows_in: int, copies: int) -> bool:
    """Whether the table is that many shifted copies of its first part (so each reads its own part of the source)."""
    length, stride = len(table) // copies, rows_in // copies
    head = table[:length]
    if copies == 1:
        return True
    if not _shifted(int(table[length]), int(head[0]), stride):
        return False
    rows = table.reshape(copies, length)
    moved = head + np.arange(copies, dtype=np.int64).reshape(-1, 1) * stride
    return bool(np.array_equal(rows, np.where(head >= 0, moved, -1)))


def _shifted(value: int, head: int, stride: int) -> bool:
    return value == head + stride if head >= 0 else value < 0


def widened(outer: Size, m: Map, inner: Size) -> Map:
    """The map m on every one of ``outer`` blocks of the buffer, and on runs of ``inner`` cells instead of cells.

    >>> from eqsat.ir.flat.map import from_digits
    >>> print(widened(2, from_digits(6, [Digit(3, 1, 0, 3), Digit(2, 3, 0, 2)]), 4))
    (2:24, 3:4, 2:12, 4:1) of 48
    """
    n_in = product([outer, m.n_in, inner])
    if isinstance(m, TableMap):
        return TableMap(n_in, mul(outer, m.outer), m.table, mul(m.inner, inner))
    run = mul(m.n_in, inner)
    digits = [Digit(d.extent, mul(d.stride, inner), d.lo, d.hi) for d in m.digits]
    whole = [Digit(outer, run, 0, outer), *digits, Digit(inner, 1, 0, inner)]
    return canonical(n_in, whole, mul(m.offset, inner))
