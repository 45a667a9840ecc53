"""A View as a chain of digit maps, where one is not enough: a pad of the source, then digits, then a crop.

A window on a number that several output digits make up together (`16*i1 + i4 < 30`) is no window of a digit, but it is
one of the source, before the number is split: the View is a pad of the source, under one digit per such number, and a
map that takes the numbers apart and pads nothing more. The dual is an axis that its cuts do not divide (`c // 16` and
`c % 16` of an axis of 30): the View is what the formula reads on the next multiple, and a crop of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from eqsat.ir.flat.facts import is_bijective
from eqsat.ir.flat.formula import formula_of_view, map_of_view
from eqsat.ir.flat.map import Digit, FlatMap, digit, from_digits
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.read import Reading, read_formulas, windows
from eqsat.ir.flat.reader import NoDigits, Piece
from eqsat.ir.flat.recognise import SMALL
from eqsat.ir.flat.refine import order_key
from eqsat.ir.flat.size_terms import as_size, shape_size
from eqsat.ir.flat.sizes import Size, at_most, div, leaves_room, mul, numbers, product, total
from eqsat.ir.flat.table import Map
from eqsat.ir.tensors.tensor import View
from eqsat.ir.tensors.views import flatten


@dataclass
class _Number:
    """A number that some pieces make up: sum(factor * piece), from `low` on; the cells where it is in [lo, hi) read."""

    factors: dict[Piece, int]
    low: int
    extent: int
    lo: int
    hi: int

    def narrow(self, unit: int, constant: int) -> None:
        """Keep the cells where constant + unit * number >= 0."""
        if unit > 0:
            self.lo = max(self.lo, -(constant // unit) - self.low)
        else:
            self.hi = min(self.hi, constant // -unit - self.low + 1)


def maps_of_view(view: View, read_only: bool = False) -> tuple[Map, ...] | None:
    """The maps that a View applies one after another to its flat source, padding with its fill: digits if possible,
    then a table, then formulas in their shortest form. `read_only`: no further than the formulas as they are written.

    >>> import eqsat.ir.tensors.tensor as T
    >>> x = T.input("x", (1, 30, 7, 7), "float32")
    >>> y = x.layout_transform("NCHW", "NCHW16c", pad_value=0)
    >>> print(*maps_of_view(y.node), sep=" then ")
    (1568:1[0,1470)) of 1470 then (2:784, 49:1, 16:49) of 1568
    """
    known = _known[read_only]
    if view not in known:
        alike = view.gather, view.valid, view.source.shape, view.outputs[0][0], read_only
        found = _alike.get(alike, ())
        if found == ():
            found = _maps(view, read_only)
            if len(_alike) >= MOST_ALIKE:
                _alike.clear()  # other threads may look there meanwhile
            _alike[alike] = found
        known[view] = found
    return known[view]


_known: tuple[WeakKeyDictionary[View, tuple[Map, ...] | None], ...] = (WeakKeyDictionary(), WeakKeyDictionary())
"""The maps of views that are in use: the cost of a program is asked for, and what it does, again and again."""
_alike: dict[object, tuple[Map, ...] | None] = {}
"""The maps of views by their formulas and shapes: blocks that are alike have views that are."""
MOST_ALIKE = 1 << 12


def _maps(view: View, read_only: bool) -> tuple[Map, ...] | None:
    whole: Map | None = map_of_view(view, SMALL)
    if isinstance(whole, FlatMap):
        return (whole,)
    try:
        return _chain(view)
    except NoDigits:
        if whole is None and not read_only:
            whole = map_of_view(view) or formula_of_view(view)
        return None if whole is None else (whole,)


def chain_of_view(view: View) -> tuple[FlatMap, ...] | None:
    """The digit maps that a View applies one after another; None where digits do not say it. Tables are not tried, for
    which each cell must be looked at."""
    try:
        return _chain(view)
    except NoDigits:
        return None


def _chain(view: View) -> tuple[FlatMap, ...]:
    """The pad, the digits and the crop that a View is, without those that it does not need."""
    address = flatten(view.gather, view.source.shape)
    n_in = shape_size(view.source.shape)
    reading = read_formulas(view.outputs[0][0], n_in, address, view.valid, grown=True)
    if reading is None or any(extent == 0 for extent, _ in reading.reader.pieces.values()):
        raise NoDigits
    shape, grown = [as_size(d) for d in view.outputs[0][0]], reading.reader.shape
    numbers = _numbers(reading)
    chain = _padded(reading, numbers, n_in) if numbers else [_read(reading, n_in)]
    if grown != shape:
        if not all(m.is_numeric or is_bijective(m) for m in chain):
            raise NoDigits  # the cells that the crop drops may be read from outside of a source with symbols
        weights = [product(grown[axis + 1 :]) for axis in range(len(grown))]
        chain.append(from_digits(product(grown), [digit(e, w) for e, w in zip(shape, weights, strict=True)]))
    return tuple(_joined(chain))


def _joined(chain: Sequence[FlatMap]) -> Iterator[FlatMap]:
    """The chain with neighbours that are one digit map as that map."""
    last = chain[0]
    for m in chain[1:]:
        both = compose(last, m, 0)
        if isinstance(both, FlatMap):
            last = both
        else:
            yield last
            last = m
    yield last


def _numbers(reading: Reading) -> list[_Number]:
    """The numbers that are bounded: no piece is in two, and each is mixed radix."""
    found: dict[tuple[tuple[Piece, int], ...], _Number] = {}
    for claim in reading.claims:
        room = claim.room
        if not room.parts and not leaves_room(int(claim.strict), room.constant):
            raise NoDigits
        if len(room.parts) > 1:
            parts = {p: _int(k) for p, k in room.parts.items()}
            smallest = min(map(abs, parts.values()))
            unit = smallest if max(parts.values(), key=abs) > 0 else -smallest
            if any(k % unit for k in parts.values()):
                raise NoDigits
            factors = {p: k // unit for p, k in sorted(parts.items())}
            key = tuple(factors.items())
            if key not in found:
                found[key] = _number(factors, {p: _int(reading.reader.pieces[p][0]) for p in factors})
            found[key].narrow(unit, _int(room.constant) - claim.strict)
    used = [p for key in found for p, _ in key]
    if len(set(used)) < len(used) or any(n.lo >= n.hi for n in found.values()):
        raise NoDigits
    return list(found.values())


def _int(size: Size) -> int:
    if not isinstance(size, int):
        raise NoDigits
    return size


def _number(factors: dict[Piece, int], extents: Mapping[Piece, int]) -> _Number:
    """The number that pieces make up, which count through each of its values once."""
    extent = 1
    for p in sorted(factors, key=lambda p: abs(factors[p])):
        if abs(factors[p]) != extent:
            raise NoDigits
        extent *= extents[p]
    return _Number(factors, sum(min(0, k * (extents[p] - 1)) for p, k in factors.items()), extent, 0, extent)


def _single(reading: Reading) -> dict[Piece, tuple[Size, Size]]:
    return windows(reading.reader, [c for c in reading.claims if len(c.room.parts) == 1])


def _read(reading: Reading, n_in: Size) -> FlatMap:
    """The map of a formula whose claims are on single pieces."""
    bounds = _single(reading)
    digits = [
        digit(extent, reading.address.parts.get(p, 0), *bounds.get(p, (0, extent)))
        for p, (extent, _) in sorted(reading.reader.pieces.items())
    ]
    return _inside(n_in, digits, reading.address.constant)


def _padded(reading: Reading, numbers: Sequence[_Number], n_in: Size) -> list[FlatMap]:
    """The source under one digit per number, padded; and the map that takes the numbers apart."""
    address, pieces = reading.address, reading.reader.pieces
    apart = {p for number in numbers for p in number.factors}
    entries: list[tuple[Digit, Mapping[Piece, int], int]] = []
    offset = address.constant
    for number in numbers:
        strides = {div(address.parts.get(p, 0), k) for p, k in number.factors.items()}
        stride = strides.pop()
        if strides or stride is None:
            raise NoDigits
        offset = total(offset, mul(stride, number.low))
        entries.append((Digit(number.extent, stride, number.lo, number.hi), number.factors, number.low))
    bounds = _single(reading)
    outer: dict[Piece, tuple[Size, Size]] = {}
    for p, (extent, _) in sorted(pieces.items()):
        stride = address.parts.get(p, 0)
        if p not in apart and stride != 0:
            entries.append((digit(extent, stride, *bounds.get(p, (0, extent))), {p: 1}, 0))
        elif p in bounds:
            outer[p] = bounds[p]
    entries.sort(key=lambda e: _length(e[0].stride), reverse=True)
    weights: dict[Piece, Size] = {}
    start: Size = 0
    size: Size = 1
    for d, factors, low in reversed(entries):
        weights |= {p: mul(k, size) for p, k in factors.items()}
        start = total(start, mul(-low, size))
        size = mul(size, d.extent)
    pad = _inside(n_in, [d for d, _, _ in entries], offset)
    if outer and not pad.is_numeric:
        raise NoDigits  # the pad reads more than the View: it may be outside of a source with symbols
    taken = [digit(e, weights.get(p, 0), *outer.get(p, (0, e))) for p, (e, _) in sorted(pieces.items())]
    return [pad, from_digits(size, taken, start)]


def _length(stride: Size) -> tuple[int, int]:
    return order_key(stride if at_most(0, stride) else mul(-1, stride))


def _inside(n_in: Size, digits: Sequence[Digit], offset: Size) -> FlatMap:
    """The map of some digits, after checking, where there are numbers, that it stays inside of its source."""
    known = numbers([n_in, offset, *(part for d in digits for part in d)])
    if known is not None and all(d.lo != d.hi for d in digits):
        ends = [(known[i + 1] * known[i + 2], known[i + 1] * (known[i + 3] - 1)) for i in range(2, len(known), 4)]
        if known[1] + sum(map(min, ends)) < 0 or known[1] + sum(map(max, ends)) >= known[0]:
            raise NoDigits
    return from_digits(n_in, digits, offset)
