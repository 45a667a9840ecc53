"""Layout strings: NCHW, NCHW16c (blocks), OIHW16i64o2i (several blocks of one axis), OIHW[4o4i] (a packed group).

A capital letter is an axis, or its outermost part where it is split; a number with a small letter is a block of that
axis, the first one written being the outermost; brackets pack blocks into one physical axis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from eqsat.ir.errors import LayoutError, ParseError, ShapeError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.ranges.map_bounds import at_least, ceil_div, floor_div, modulo
from eqsat.ir.shown import card, grid
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, as_dim, as_shape, format_shape
from eqsat.ir.terms.term import Term

_TOKEN = re.compile(r"([A-Z])|([1-9][0-9]*)([a-z])|(\[)|(\])")
_MAX_BLOCK = 2**63 - 1
"""The blocks of one axis together: an index beyond it is no address."""


@dataclass(frozen=True)
class AxisPart:
    """A digit of a logical axis: `factor` positions of weight `weight`; no factor means all the rest."""

    letter: str
    factor: int | None
    weight: int

    def __str__(self) -> str:
        return self.letter if self.factor is None else f"{self.factor}{self.letter.lower()}"


@dataclass(frozen=True)
class LayoutAxis:
    """One physical axis: an axis letter, a block, or a packed group of blocks, outermost first."""

    parts: tuple[AxisPart, ...]

    @property
    def extent(self) -> int | None:
        """The fixed extent of blocks; None for an axis letter."""
        return None if self.parts[0].factor is None else prod(p.factor or 1 for p in self.parts)

    def __str__(self) -> str:
        text = "".join(map(str, self.parts))
        return f"[{text}]" if len(self.parts) > 1 else text


class Layout:
    """A layout, given by its string; equal strings are the same object.

    >>> Layout("NCHW16c") is Layout("NCHW16c")
    True
    >>> [str(a) for a in Layout("OIHW[4o4i]").axes]
    ['O', 'I', 'H', 'W', '[4o4i]']

    Raises ParseError for anything malformed: repeated or missing axes, factors of 0, blocks without their axis, blocks
    that are larger than any memory.
    """

    __slots__ = ("__weakref__", "axes", "name")

    name: str
    axes: tuple[LayoutAxis, ...]

    def __new__(cls, name: object) -> Layout:
        if isinstance(name, Layout):
            return name
        if not isinstance(name, str):
            raise ParseError(f"layout {name!r}", "not a string", "for example 'NCHW16c'")
        axes = _parse(name)
        canonical = "".join(map(str, axes))
        found = _layouts.get(canonical)
        if found is None:
            found = object.__new__(cls)
            object.__setattr__(found, "name", canonical)
            object.__setattr__(found, "axes", axes)
            found = _layouts.setdefault(canonical, found)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        raise LayoutError(f"layout {self.name}", f"{name} cannot be changed", "make another layout")

    def __reduce__(self) -> tuple[Any, ...]:
        return Layout, (self.name,)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Layout({self.name!r})"

    def _repr_html_(self) -> str:
        parts = [[str(axis), "any" if axis.extent is None else str(axis.extent)] for axis in self.axes]
        return card(f"layout {self.name}", more=grid([["axis", "extent"], *parts]))

    def __len__(self) -> int:
        return len(self.axes)

    @property
    def letters(self) -> str:
        """The logical axes, in the order of their capital letters.

        >>> Layout("NCHW16c").letters
        'NCHW'
        """
        return "".join(a.parts[0].letter for a in self.axes if a.extent is None)

    @property
    def primal(self) -> Layout:
        """The layout of the logical axes alone.

        >>> print(Layout("NCHW16c").primal)
        NCHW
        """
        return Layout(self.letters)

    @property
    def index_map(self) -> IndexMap:
        """The map from the logical axes to this layout.

        >>> print(Layout("NCHW4c").index_map)
        n, c, h, w -> n, c // 4, h, w, c % 4
        """
        return self.primal.to(self).index_map

    @staticmethod
    def from_index_map(m: IndexMap, letters: str | None = None) -> Layout:
        """The layout string of a map of splits, permutations and packed blocks; `letters` name the inputs.

        >>> Layout.from_index_map(IndexMap.parse("n, c, h, w -> n, c//4, h, w, c%4"))
        Layout('NCHW4c')

        Raises LayoutError where the map is not such a layout.
        """
        from eqsat.ir.layouts.layout_of_map import layout_of_map

        return layout_of_map(m, letters)

    def parts_of(self, letter: str) -> list[AxisPart]:
        """The digits of a logical axis, outermost first.

        >>> [part.weight for part in Layout("NCHW16c").parts_of("C")]
        [16, 1]
        """
        found = [p for a in self.axes for p in a.parts if p.letter == letter]
        return sorted(found, key=lambda p: (p.factor is not None, -p.weight))

    def convertible_to(self, other: str | Layout) -> bool:
        """Whether both layouts have the same logical axes.

        >>> Layout("NCHW16c").convertible_to("NHWC"), Layout("NCHW").convertible_to("NC")
        (True, False)
        """
        return sorted(self.letters) == sorted(Layout(other).letters)

    def to(self, other: str | Layout) -> LayoutPair:
        """The conversion to another layout of the same logical axes.

        >>> Layout("NCHW").to("NCHW16c").forward_shape((1, 30, 7, 7))
        (1, 2, 7, 7, 16)

        Raises LayoutError where the logical axes differ.
        """
        target = Layout(other)
        if not self.convertible_to(target):
            only = sorted(set(self.letters) ^ set(target.letters))
            problem = f"axes {', '.join(only)} are in one of them only"
            raise LayoutError(f"layout {self} to {target}", problem, "layouts convert between the same axes")
        found = _pairs.get((self.name, target.name))
        return _pairs.setdefault((self.name, target.name), LayoutPair(self, target)) if found is None else found


_layouts: dict[str, Layout] = {}
_pairs: dict[tuple[str, str], LayoutPair] = {}


Fail = Callable[..., ParseError]


def _parse(name: str) -> tuple[LayoutAxis, ...]:
    shown = name if len(name) <= 80 else name[:77] + "..."

    def fail(why: str, fix: str = "") -> ParseError:
        return ParseError(f"layout {shown!r}", why, fix)

    if not name:
        raise fail("is empty", "one capital letter per axis")
    groups = _groups(name, fail)
    weights = _weights([p for g in groups for p in g], fail)
    remaining = dict(weights)
    result: list[LayoutAxis] = []
    for group in groups:
        parts: list[AxisPart] = []
        for letter, factor in group:
            if factor is None:
                parts.append(AxisPart(letter, None, weights[letter]))
            else:
                remaining[letter] //= factor
                parts.append(AxisPart(letter, factor, remaining[letter]))
        result.append(LayoutAxis(_merged(parts)))
    return tuple(result)


def _groups(name: str, fail: Fail) -> list[list[tuple[str, int | None]]]:
    """The axes (letter, None) and blocks (letter, size) of a name, those that are packed together."""
    groups: list[list[tuple[str, int | None]]] = []
    place, packed = 0, False
    while place < len(name):
        found = _TOKEN.match(name, place)
        if found is None:
            raise fail(f"{name[place : place + 20]!r} is neither an axis (N), a block (16c) nor a group ([4o4i])")
        place = found.end()
        axis, factor, letter, opening, _ = found.groups()
        if axis:
            if packed:
                raise fail(f"{axis} stands in brackets", "a group packs blocks only")
            groups.append([(axis, None)])
        elif letter:
            if len(factor) > len(str(_MAX_BLOCK)):
                raise fail(f"a block of {len(factor)} digits", "the blocks of an axis hold at most 2**63 - 1 positions")
            part = (letter.upper(), int(factor))
            if packed:
                groups[-1].append(part)
            else:
                groups.append([part])
        elif opening:
            if packed:
                raise fail("brackets are nested", "a group packs blocks only")
            groups.append([])
            packed = True
        else:
            if not packed or not groups[-1]:
                raise fail("empty or unopened brackets", "pack blocks as in [4o4i]")
            packed = False
    if packed:
        raise fail("brackets are not closed", "add ]")
    return groups


def _weights(parts: Sequence[tuple[str, int | None]], fail: Fail) -> dict[str, int]:
    """How many positions the blocks of each axis hold together."""
    axes = [p[0] for p in parts if p[1] is None]
    for letter in axes:
        if axes.count(letter) > 1:
            raise fail(f"axis {letter} occurs twice", f"write its blocks as 4{letter.lower()}")
    weights: dict[str, int] = {}
    for letter, factor in parts:
        if letter not in axes:
            raise fail(f"block {factor}{letter.lower()} has no axis {letter}", f"add {letter}, the rest of that axis")
        weights[letter] = weights.get(letter, 1) * (factor or 1)
        if weights[letter] > _MAX_BLOCK:
            raise fail(f"the blocks of {letter} hold more than 2**63 - 1 positions", "use smaller blocks")
    return weights


def _merged(parts: Sequence[AxisPart]) -> tuple[AxisPart, ...]:
    """The parts of an axis with neighbouring blocks as one: [4n2n] is 8n, [1c4c] is 4c."""
    result: list[AxisPart] = []
    for part in [p for p in parts if p.factor != 1] or parts[:1]:
        last = result[-1] if result else None
        if last and part.factor and last.letter == part.letter:  # written one after the other, they are next in weight
            result[-1] = AxisPart(part.letter, (last.factor or 1) * part.factor, part.weight)
        else:
            result.append(part)
    return tuple(result)


@dataclass(frozen=True, eq=False)
class LayoutPair:
    """A conversion between two layouts of the same logical axes, in both directions.

    >>> b = Layout("NCHW16c").to("NCHW8c")
    >>> b.forward_index((0, 1, 6, 6, 13)), b.backward_index((0, 3, 6, 6, 5))
    ((0, 3, 6, 6, 5), (0, 1, 6, 6, 13))
    """

    source: Layout
    target: Layout

    def _repr_html_(self) -> str:
        from eqsat.ir.layouts.map_grid import map_card

        return map_card(self.index_map, f"{self.source} to {self.target}")

    @property
    def index_map(self) -> IndexMap:
        """The map from source to target indices."""
        found = _maps.get((self.source.name, self.target.name))
        return _maps.setdefault((self.source.name, self.target.name), _convert(self)) if found is None else found

    @property
    def inverse(self) -> LayoutPair:
        """The conversion back."""
        return self.target.to(self.source)

    def forward_shape(self, shape: Any) -> Shape:
        """The target shape of a source shape; blocks are rounded up.

        >>> str(Layout("NCHW").to("NCHW16c").forward_shape((1, t.sym("c"), 7, 7))[1])
        '(c + 15) // 16'
        """
        extents = self.logical_shape(shape)
        result: list[Dim] = []
        for axis in self.target.axes:
            head = axis.parts[0]
            if axis.extent is None:
                result.append(as_dim(ceil_div(extents[head.letter], t.index_const(head.weight))))
            else:
                result.append(axis.extent)
        return tuple(result)

    def backward_shape(self, shape: Any) -> Shape:
        """The source shape of a target shape: whole blocks, since the target cannot tell padding from data."""
        return self.inverse.forward_shape(shape)

    def forward_index(self, index: Any) -> tuple[Any, ...]:
        """The target index of a source index; numbers, arrays or terms."""
        return self.index_map.map_indices(index)

    def backward_index(self, index: Any) -> tuple[Any, ...]:
        """The source index of a target index; numbers, arrays or terms."""
        return self.inverse.index_map.map_indices(index)

    def pads(self, shape: Any) -> dict[str, Dim]:
        """How many positions the conversion of a source shape adds to each logical axis that is padded.

        >>> Layout("NCHW").to("NCHW16c").pads((1, 30, 7, 7)), Layout("NCHW").to("NCHW16c").pads((1, 32, 7, 7))
        ({'C': 2}, {})
        """
        before, after = self.logical_shape(shape), self.inverse.logical_shape(self.forward_shape(shape))
        result: dict[str, Dim] = {}
        for letter, extent in before.items():
            added = after[letter] - extent
            if added is not t.index_const(0) and not at_least(added * -1):
                result[letter] = as_dim(added)
        return result

    def logical_shape(self, shape: Any) -> dict[str, Term]:
        """The extent of each logical axis that a source shape stands for; ShapeError where it does not fit."""
        extents = as_shape(shape)
        what = f"shape {format_shape(extents)} in layout {self.source}"
        if len(extents) != len(self.source.axes):
            raise ShapeError(what, f"{len(extents)} extents for {len(self.source.axes)} axes", "one per axis")
        result: dict[str, Term] = {}
        for extent, axis in zip(extents, self.source.axes, strict=True):
            if axis.extent is None:
                result[axis.parts[0].letter] = t.as_index(extent) * axis.parts[0].weight
            elif extent != axis.extent if isinstance(extent, int) else True:
                raise ShapeError(
                    what, f"the extent of {axis} is {extent}, not {axis.extent}", "the number in the string"
                )
        return result

    def checked_map(self, shape: Any) -> IndexMap:
        """The map, after the source shape was checked."""
        self.logical_shape(shape)
        return self.index_map


_maps: dict[tuple[str, str], IndexMap] = {}


def _axis_names(layout: Layout) -> list[str]:
    names: list[str] = []
    for axis in layout.axes:
        name = "".join(p.letter.lower() + (str(p.factor) if p.factor else "") for p in axis.parts)
        while name in names:
            name += "_"
        names.append(name)
    return names


def _convert(pair: LayoutPair) -> IndexMap:
    """The target digits as terms over the source digits of the same logical axis."""
    names = _axis_names(pair.source)
    digits: dict[str, list[tuple[int, int | None, Term]]] = {}  # letter -> (weight, factor, value)
    for name, axis in zip(names, pair.source.axes, strict=True):
        inner = 1
        for part in reversed(axis.parts):
            value = floor_div(t.var(name), t.index_const(inner))
            if part.factor is not None and part is not axis.parts[0]:
                value = modulo(value, t.index_const(part.factor))
            digits.setdefault(part.letter, []).append((part.weight, part.factor, value))
            inner *= part.factor or 1
    outputs: list[Term] = []
    for axis in pair.target.axes:
        total = t.index_const(0)
        for part in axis.parts:
            total = total * (part.factor or 1) + _digit(digits[part.letter], part)
        outputs.append(total)
    return IndexMap(tuple(names), tuple(outputs))


def _digit(digits: Sequence[tuple[int, int | None, Term]], part: AxisPart) -> Term:
    """The digit of an axis whose digits are (weight, factor, value): only those that matter enter the formula."""
    low = part.weight
    high = None if part.factor is None else low * part.factor
    kept = [d for d in digits if high is None or d[0] % high]
    below = [d for d in kept if d[0] < low]
    above = [d for d in kept if d[0] >= low]
    reach = max((w * f for w, f, _ in below if f is not None), default=1)
    closed = all(f is not None for _, f, _ in below)
    if closed and low % reach == 0 and all(w % low == 0 for w, _, _ in above):
        below = []
    value = t.linear(0, [(w, v) for w, _, v in (*above, *below)])
    value = floor_div(value, t.index_const(low))
    open_top = any(f is None for _, f, _ in above + below)
    top = None if open_top else max((w * f for w, f, _ in above + below if f is not None), default=1)
    if high is None or (top is not None and top <= high):
        return value
    return modulo(value, t.index_const(high // low))
