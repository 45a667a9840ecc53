"""Flat maps in digit form: which cell of one flat buffer each cell of another one reads.

A map sends an output index o in [0, n_out) to a source index in [0, n_in), or to nothing (padding; what fills the cell
is kept outside). In digit form o is written in mixed radix, most significant digit first, and

    source = offset + sum(stride_j * d_j)    where lo_j <= d_j < hi_j for every digit j, nothing elsewhere.

The canonical form of a function is unique. Unit digits are dropped; a digit with one valid position has stride 0; and a
digit is merged with the next inner one whenever the two together are one digit, which is so in exactly two cases: the
outer one has a single valid position, or the inner one is always valid and the strides chain. Why this is unique: list
the valid cells in order; the gaps (in output and in source index) between neighbours stay the same exactly as long as
the innermost digit counts, so they tell its weight, stride and number of valid positions, then those of the next digit,
and so on; the extents are the quotients of the weights, and the first valid cell, in mixed radix, gives the windows.
With symbols the same steps are taken where they can be decided; the form is then right, but need not be unique.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.sizes import Size, add, at_most, leaves_room, mul, number, product, total, value
from eqsat.ir.terms.term import Term

IntArray = npt.NDArray[np.int64]


class Digit(NamedTuple):
    """One digit d in [0, extent) of an output index; it adds stride * d; valid where lo <= d < hi."""

    extent: Size
    stride: Size
    lo: Size
    hi: Size

    @property
    def is_full(self) -> bool:
        """Whether every position is valid."""
        return self.hi == self.extent and self.lo == 0

    @property
    def width(self) -> Size:
        """How many positions are valid."""
        if isinstance(self.hi, int) and isinstance(self.lo, int):
            return self.hi - self.lo
        return total(self.hi, mul(-1, self.lo))

    def __str__(self) -> str:
        window = "" if self.is_full else f"[{self.lo},{self.hi})"
        return f"{self.extent}:{self.stride}{window}"


def digit(extent: Size, stride: Size, lo: Size = 0, hi: Size | None = None) -> Digit:
    """A digit, valid everywhere unless a window [lo, hi) is given.

    >>> digit(4, 1)
    Digit(extent=4, stride=1, lo=0, hi=4)
    """
    return Digit(extent, stride, lo, extent if hi is None else hi)


@dataclass(frozen=True, eq=False)
class FlatMap:
    """A map in canonical digit form; make one with :func:`from_digits`, never directly.

    >>> print(from_digits(6, [digit(3, 1), digit(2, 3)]))
    (3:1, 2:3) of 6
    """

    n_in: Size
    digits: tuple[Digit, ...]
    offset: Size

    @cached_property
    def _hash(self) -> int:
        return hash((self.n_in, self.digits, self.offset))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, FlatMap):
            return NotImplemented
        return self.digits == other.digits and self.offset == other.offset and self.n_in == other.n_in

    def __reduce__(self) -> tuple[object, ...]:
        # Cached hashes of symbols differ between processes, so they must not travel.
        return FlatMap, (self.n_in, self.digits, self.offset)

    def __str__(self) -> str:
        shift = f" + {self.offset}" if self.offset != 0 else ""
        return f"({', '.join(map(str, self.digits))}){shift} of {self.n_in}"

    @cached_property
    def n_out(self) -> Size:
        """The number of output cells."""
        return product([d.extent for d in self.digits])

    @cached_property
    def valid_count(self) -> Size:
        """The number of output cells that read a source cell."""
        return product([d.width for d in self.digits])

    @cached_property
    def is_numeric(self) -> bool:
        """Whether no symbol occurs."""
        return (
            isinstance(self.n_in, int)
            and isinstance(self.offset, int)
            and all(isinstance(part, int) for d in self.digits for part in d)
        )

    @cached_property
    def is_total(self) -> bool:
        """Whether no cell is padding."""
        return all(d.is_full for d in self.digits)

    @cached_property
    def is_identity(self) -> bool:
        """Whether output and source are the same buffer."""
        n = self.n_in
        if len(self.digits) != 1:
            return n == 1 and not self.digits
        return self.digits[0] == (n, 0 if n == 0 else 1, 0, n) and self.offset == 0

    @cached_property
    def is_all_padding(self) -> bool:
        """Whether no cell reads the source (true of an output without cells)."""
        return self.valid_count == 0

    def at(self, index: IntArray) -> IntArray:
        """The source indices (-1: padding) of many output indices."""
        rest, weight = index, 1
        result = np.full(index.shape, number(self.offset), dtype=np.int64)
        valid = np.ones(index.shape, dtype=np.bool_)
        for d in reversed(self.digits):
            extent, stride, lo, hi = (number(part) for part in d)
            position = rest // weight % max(extent, 1)
            weight *= extent
            result += stride * position
            if not d.is_full:
                valid &= (position >= lo) & (position < hi)
        return np.where(valid, result, -1)

    def to_array(self) -> IntArray:
        """The whole map as an array of n_out source indices, -1 for padding."""
        shape = tuple(number(d.extent) for d in self.digits)
        result = np.full(shape, -1, dtype=np.int64)
        windows = tuple(slice(number(d.lo), number(d.hi)) for d in self.digits)
        source = np.array(number(self.offset), dtype=np.int64)
        for axis, (d, window) in enumerate(zip(self.digits, windows, strict=True)):
            position = np.arange(window.start, window.stop, dtype=np.int64)
            source = source + (number(d.stride) * position).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        result[windows] = source
        return result.reshape(-1)

    def gather(self, source: NDArray, fill: object = 0) -> NDArray:
        """What the map reads of a flat array, `fill` in padded cells; without an index per cell.

        >>> from_digits(6, [digit(3, 1), digit(2, 3)]).gather(np.arange(6)).tolist()
        [0, 3, 1, 4, 2, 5]
        """
        extents, strides, low, high = ([number(d[n]) for d in self.digits] for n in range(4))
        result: NDArray = np.full(extents, fill, source.dtype)
        first = number(self.offset) + sum(s * lo for s, lo in zip(strides, low, strict=True))
        widths = [hi - lo for lo, hi in zip(low, high, strict=True)]
        if 0 not in widths:
            flat = np.ascontiguousarray(source)
            steps = [s * flat.itemsize for s in strides]
            windows = tuple(slice(lo, hi) for lo, hi in zip(low, high, strict=True))
            result[windows] = np.lib.stride_tricks.as_strided(flat[first:], widths, steps, writeable=False)
        return result.reshape(-1)


def identity(n: Size) -> FlatMap:
    """The map that reads every cell of n where it is.

    >>> identity(6) == from_digits(6, [digit(2, 3), digit(3, 1)])
    True
    """
    return FlatMap(n, () if n == 1 else (Digit(n, 0 if n == 0 else 1, 0, n),), 0)


def all_padding(n_in: Size, n_out: Size) -> FlatMap:
    """The map that reads nothing.

    >>> all_padding(6, 3).to_array().tolist()
    [-1, -1, -1]
    """
    return FlatMap(n_in, (Digit(n_out, 0, 0, 0),), 0)


def from_digits(n_in: Size, digits: Iterable[Digit], offset: Size = 0) -> FlatMap:
    """The canonical map of any list of digits, most significant first.

    >>> print(from_digits(24, [digit(2, 12), digit(1, 5), digit(3, 4), digit(4, 1)]))
    (24:1) of 24
    >>> print(from_digits(4, [digit(6, 1, 1, 5)], -1))
    (6:1[1,5)) + -1 of 4

    Errors: a window outside of its digit, or a valid cell outside of the source.
    """
    given = list(digits)
    for d in given:
        ends = ((0, d.lo), (d.lo, d.hi), (d.hi, d.extent))
        if not all(at_most(a, b) or leaves_room(a, b) for a, b in ends):
            raise LayoutError(f"digit {d}", f"the window is not inside of [0, {d.extent})")
    result = canonical(n_in, given, offset)
    if n_in == 0 and result.valid_count != 0:
        raise LayoutError("flat map", "a cell reads from a source without cells")
    if isinstance(offset, int) and not result.is_all_padding:
        _check_range(n_in, given, offset)
    return result


def canonical(n_in: Size, digits: Sequence[Digit], offset: Size) -> FlatMap:
    """As :func:`from_digits`, for digits that are known to keep their windows and reads inside.

    >>> print(canonical(24, [digit(2, 12), digit(12, 1)], 0))
    (24:1) of 24
    """
    stack: list[Digit] = []
    for d in digits:
        extent, stride, lo, hi = d
        if lo == hi:
            return all_padding(n_in, product([d.extent for d in digits]))
        if lo != 0 or hi != extent:
            if stride != 0 and d.width == 1:
                shifted = add(offset, mul(stride, lo))
                if shifted is not None:
                    d, offset = Digit(extent, 0, lo, hi), shifted
        elif extent == 1:
            continue
        merged = _merge(stack[-1], d, offset) if stack else None
        if merged is None:
            stack.append(d)
        else:
            stack[-1], offset = merged
    return FlatMap(n_in, tuple(stack), offset)


def _merge(outer: Digit, inner: Digit, offset: Size) -> tuple[Digit, Size] | None:
    extent, stride, lo, hi = inner
    if lo == 0 and hi == extent and outer.stride == mul(extent, stride):
        if outer.lo == 0 and outer.hi == outer.extent:
            whole = mul(outer.extent, extent)
            return Digit(whole, stride, 0, whole), offset
        return Digit(mul(outer.extent, extent), stride, mul(outer.lo, extent), mul(outer.hi, extent)), offset
    if outer.stride == 0 and outer.width == 1:
        # The block that is read starts at outer.lo * extent: shift the window there, and the offset back.
        start = mul(outer.lo, extent)
        low, high, shifted = add(start, lo), add(start, hi), add(offset, mul(-1, mul(stride, start)))
        if low is not None and high is not None and shifted is not None:
            return Digit(mul(outer.extent, extent), stride, low, high), shifted
    return None


def _check_range(n_in: Size, digits: Sequence[Digit], offset: int) -> None:
    low = high = offset
    for _, stride, lo, hi in digits:
        if not (isinstance(stride, int) and isinstance(lo, int) and isinstance(hi, int)):
            return
        first, last = stride * lo, stride * (hi - 1)
        low, high = low + min(first, last), high + max(first, last)
    if low < 0 or (isinstance(n_in, int) and high >= n_in):
        raise LayoutError("flat map", f"reads source index {low if low < 0 else high}, outside of [0, {n_in})")


def substitute(m: FlatMap, symbols: Mapping[Term, int]) -> FlatMap:
    """The map with numbers for its symbols.

    >>> from eqsat.ir.flat.sizes import monomial
    >>> from eqsat.ir.terms.term import sym
    >>> n = sym("N")
    >>> substitute(identity(monomial(2, n)), {n: 3}) == identity(6)
    True
    """
    digits = [Digit(*(value(part, symbols) for part in d)) for d in m.digits]
    return from_digits(value(m.n_in, symbols), digits, value(m.offset, symbols))
