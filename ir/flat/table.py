"""Flat maps with tables: digit maps in which some digits, alone or together, add what a table says.

A roll, a gather along an axis, an xor swizzle or a window of a rolled axis touches a few digits of the output index,
and each of them alone:

    source = offset + sum(stride_j * d_j) + sum(unit_k * table_k[the digits of k])    where all are valid.

So tables are as long as an axis, however many of them are rolled and however their digits are spread, and sizes beside
them may be symbols. The finest digits and the smallest groups of them are the form of a map; one that has a form
without tables never has one. Maps of at most `SMALL` cells have exactly one form, larger ones one for each way to reach
them that is not found to be another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.map import Digit, FlatMap, IntArray, canonical
from eqsat.ir.flat.recognise import Rows
from eqsat.ir.flat.sizes import Size, common, div, mul, number, product
from eqsat.ir.flat.term_map import TermMap


class IntTable:
    """A read-only row of int64 that compares and hashes by content.

    >>> IntTable([1, 2]) == IntTable([1, 2]), IntTable([1, 2]) == IntTable([2, 1])
    (True, False)
    """

    __slots__ = ("_array", "_digest", "_made", "_size")

    def __init__(self, values: npt.ArrayLike) -> None:
        self._array: IntArray | None = np.array(values, dtype=np.int64).reshape(-1)
        self._array.flags.writeable = False
        self._size = len(self._array)
        self._made: Callable[[], npt.ArrayLike] | None = None
        self._digest: int | None = None

    @classmethod
    def later(cls, size: int, made: Callable[[], npt.ArrayLike]) -> IntTable:
        """A row of so many numbers that are made when they are first looked at: many are only counted."""
        row = cls(())
        row._array, row._size, row._made = None, size, made
        return row

    @property
    def array(self) -> IntArray:
        if self._array is None:
            assert self._made is not None
            self._array, self._made = IntTable(self._made()).array, None
        return self._array

    @property
    def digest(self) -> int:
        """A hash of the content."""
        if self._digest is None:
            found = hashlib.blake2b(self.array.tobytes(), digest_size=8).digest()
            self._digest = int.from_bytes(found, "little")
        return self._digest

    def __len__(self) -> int:
        return self._size

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, IntTable):
            return NotImplemented
        return len(self) == len(other) and self.digest == other.digest and np.array_equal(self.array, other.array)

    def __repr__(self) -> str:
        head = ", ".join(str(v) for v in self.array[:8].tolist())
        return f"IntTable([{head}{', ...' if len(self.array) > 8 else ''}])"

    def __reduce__(self) -> tuple[object, ...]:
        return IntTable, (self.array,)


class Lookup(NamedTuple):
    """What the digits at `places`, in mixed radix the row of a table, add: unit * table[row] (-1: padding)."""

    places: tuple[int, ...]
    unit: Size
    table: IntTable

    @property
    def rows(self) -> Rows:
        """The values and which of them are valid."""
        array = self.table.array
        return Rows(self.places, np.maximum(array, 0), array >= 0, self.unit)

    def __str__(self) -> str:
        return f"table of {'x'.join(map(str, self.places))} in steps of {self.unit}"


@dataclass(frozen=True)
class TableMap:
    """A digit map with tables, in canonical form; made by :mod:`eqsat.ir.flat.tabled`.

    The digits that a table looks up have stride 0 and are valid everywhere; its least valid entry is 0.
    """

    n_in: Size
    digits: tuple[Digit, ...]
    lookups: tuple[Lookup, ...]
    offset: Size

    @cached_property
    def _hash(self) -> int:
        return hash((self.n_in, self.digits, self.lookups, self.offset))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return TableMap, (self.n_in, self.digits, self.lookups, self.offset)

    @cached_property
    def n_out(self) -> Size:
        """The number of output cells."""
        return product([d.extent for d in self.digits])

    @cached_property
    def valid_count(self) -> Size:
        """The number of output cells that read a source cell."""
        places = self.looked_up
        widths = [d.width for n, d in enumerate(self.digits) if n not in places]
        return product([*widths, *(int(np.count_nonzero(x.table.array >= 0)) for x in self.lookups)])

    @cached_property
    def looked_up(self) -> frozenset[int]:
        """The places of the digits that a table looks up."""
        return frozenset(p for x in self.lookups for p in x.places)

    @cached_property
    def is_numeric(self) -> bool:
        """Whether no symbol occurs."""
        sizes = [self.n_in, self.offset, *(x.unit for x in self.lookups), *(s for d in self.digits for s in d)]
        return all(isinstance(s, int) for s in sizes)

    @cached_property
    def is_total(self) -> bool:
        """Whether no cell is padding."""
        return all(d.is_full for d in self.digits) and all(bool(np.all(x.table.array >= 0)) for x in self.lookups)

    @property
    def is_identity(self) -> bool:
        """False: the identity has a digit form."""
        return False

    @property
    def is_all_padding(self) -> bool:
        """False: the map that reads nothing has a digit form."""
        return False

    def at(self, index: IntArray) -> IntArray:
        """The source indices (-1: padding) of many output indices."""
        rest, weight = index, 1
        result = np.full(index.shape, number(self.offset), dtype=np.int64)
        valid = np.ones(index.shape, dtype=np.bool_)
        positions: dict[int, IntArray] = {}
        for n, d in reversed(list(enumerate(self.digits))):
            extent, stride, lo, hi = (number(part) for part in d)
            positions[n] = rest // weight % max(extent, 1)
            weight *= extent
            result += stride * positions[n]
            if not d.is_full:
                valid &= (positions[n] >= lo) & (positions[n] < hi)
        for x in self.lookups:
            row: IntArray = np.zeros(index.shape, dtype=np.int64)
            for p in x.places:
                row = row * number(self.digits[p].extent) + positions[p]
            read = x.table.array[row]
            valid &= read >= 0
            result += number(x.unit) * read
        return np.where(valid, result, -1)

    def to_array(self) -> IntArray:
        """The whole map as an array of n_out source indices, -1 for padding."""
        source, valid = cells_of(self.digits, [x.rows for x in self.lookups])
        return np.where(valid, source + number(self.offset), -1).reshape(-1)

    def gather(self, source: NDArray, fill: object = 0) -> NDArray:
        """What the map reads of a flat array, `fill` in padded cells."""
        outer, inner = (number(part) for part in surroundings(self))
        core = narrowed(self, outer, inner)
        assert core is not None
        at = core.to_array()
        rows = source.reshape(outer, -1, inner)
        result: NDArray = np.full((outer, len(at), inner), fill, source.dtype)
        result[:, at >= 0] = rows[:, at[at >= 0]]
        return result.reshape(-1)

    def __str__(self) -> str:
        parts = [f"{d.extent}:table" if n in self.looked_up else str(d) for n, d in enumerate(self.digits)]
        shift = f" + {self.offset}" if self.offset != 0 else ""
        return f"({', '.join(parts)}){shift} by {', '.join(map(str, self.lookups))} of {self.n_in}"


Listed = FlatMap | TableMap
Map = FlatMap | TableMap | TermMap


def rows_in(m: Listed) -> list[Rows]:
    """What the tables of a map add."""
    return [x.rows for x in m.lookups] if isinstance(m, TableMap) else []


def cells_of(digits: Sequence[Digit], rows: Sequence[Rows]) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """What digits and rows add at every cell, and where that is valid; over the extents of the digits."""
    shape = tuple(number(d.extent) for d in digits)
    source = np.zeros(shape, dtype=np.int64)
    valid = np.ones(shape, dtype=np.bool_)
    for axis, d in enumerate(digits):
        position = np.arange(shape[axis], dtype=np.int64).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        if d.stride != 0:
            source += number(d.stride) * position
        if not d.is_full:
            valid &= (position >= number(d.lo)) & (position < number(d.hi))
    for r in rows:
        own = [shape[n] if n in r.places else 1 for n in range(len(shape))]
        source += number(r.unit) * r.values.reshape(own)
        valid &= r.valid.reshape(own)
    return source, valid


# -- blocks and runs ---------------------------------------------------------------------------------------------------


def surroundings(m: Listed) -> tuple[Size, Size]:
    """How many outer blocks, and inner cells in a run, the map leaves where they are."""
    if not m.digits:
        return 1, 1
    rows = rows_in(m)
    places = {p for r in rows for p in r.places}
    head, tail = m.digits[0], m.digits[-1]
    # Every other digit stays inside of a block, or the last block would read outside of the source.
    outer = head.extent if 0 not in places and head.is_full and mul(head.extent, head.stride) == m.n_in else 1
    inner: Size = 1
    if len(m.digits) - 1 not in places and tail.stride == 1:
        inner = m.n_in
        strides = (*(d.stride for d in m.digits[:-1]), *(r.unit for r in rows))
        for part in (tail.extent, tail.lo, tail.hi, m.offset, *strides):
            inner = common(inner, part)
    return outer, inner


def narrowed(m: Listed, outer: Size, inner: Size) -> Listed | None:
    """The map of one block and of whole runs, not in canonical form; both divide what the map leaves where it is."""
    n_in = div(m.n_in, mul(outer, inner))
    if n_in is None:
        return None
    columns = [list(d) for d in m.digits]
    for column in columns[:-1]:
        column[1] = _exact(column[1], inner)
    if inner != 1:
        extent, stride, lo, hi = columns[-1]
        columns[-1] = [_exact(extent, inner), stride, _exact(lo, inner), _exact(hi, inner)]
    if outer != 1:
        extent = _exact(columns[0][0], outer)
        columns[0] = [extent, columns[0][1], 0, extent]
    digits, offset = [Digit(*column) for column in columns], _exact(m.offset, inner)
    if isinstance(m, FlatMap):
        return canonical(n_in, digits, offset)
    return TableMap(n_in, tuple(digits), tuple(x._replace(unit=_exact(x.unit, inner)) for x in m.lookups), offset)


def _exact(a: Size, b: Size) -> Size:
    quotient = div(a, b)
    if quotient is None:
        raise LayoutError(f"{a} / {b}", "is not exact")
    return quotient
