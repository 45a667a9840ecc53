"""Padding that an operator does itself: a padded first operand becomes the operand, the padding the operator's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

import numpy as np

from eqsat.graph.encode import Encoded
from eqsat.ir.errors import EqsatError
from eqsat.ir.flat.formula import address_at, valid_at
from eqsat.ir.flat.map import Digit, FlatMap, from_digits
from eqsat.ir.flat.size_samples import sampled, symbol_sample
from eqsat.ir.flat.size_terms import as_extent, as_size, shape_size
from eqsat.ir.flat.sizes import Size, add, mul, number, product
from eqsat.ir.flat.split import maps_of_view
from eqsat.ir.flat.table import Map
from eqsat.ir.flat.term_map import cell
from eqsat.ir.tensors.tensor import Opaque, OperatorImpl, Tensor, View, input
from eqsat.ir.tensors.views import pad, slice_
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.shape import Shape
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import symbols
from eqsat.operators.algebra import compose
from eqsat.operators.interned import Reindex

Pads = tuple[tuple[int, int], ...]
SAMPLE = 4
"""What unknown sizes count as where a padding is looked for."""
MOST_CELLS = 1 << 16
"""Where sizes are at least that large, none is looked for."""


def pads_of(m: Map, shape: Shape) -> tuple[Shape, Pads] | None:
    """The shape of the source, and the cells before and after along each axis, of a view that pads to a shape; None
    for any other, and perhaps where an axis of the source has extent 1.

    >>> from eqsat.ir.flat.map import digit
    >>> pads_of(from_digits(6, [digit(4, 2, 1, 4), digit(2, 1)], -2), (4, 2))
    ((3, 2), ((1, 0), (0, 0)))
    """
    found = _pads_in_numbers(m, shape) if isinstance(m, FlatMap) else None
    if found is not None:
        return found
    found = _pads_at_a_sample(m, shape)
    return found if found is not None and _map_of(pad(input("source", found[0], "float32"), found[1])) == m else None


def split_padding(view: Reindex, shape: Shape) -> tuple[Reindex, Reindex] | None:
    """A view that pads cells of another view to a shape, as these two; None for any other.

    >>> from eqsat.ir.flat.map import digit
    >>> m = from_digits(6, [digit(4, 1, 1, 3), digit(3, 2)], -1)
    >>> inner, outer = split_padding(Reindex(m, t.const(0, "int8"), "int8"), (4, 3))
    >>> print(inner.map, "|", outer.map)
    (2:1, 3:2) of 6 | (12:1[3,9)) + -3 of 6
    """
    m = view.map
    found = _pads_by_windows(m, shape) if isinstance(m, FlatMap) else _pads_at_a_sample(m, shape)
    if found is None or view.fill is None:
        return None
    source, pads = found
    around = _map_of(pad(input("source", source, view.dtype), pads))
    inside = _map_of(slice_(input("whole", shape, view.dtype), [before for before, _ in pads], source))
    if around is None or inside is None:
        return None
    inner, outer = compose(view, Reindex(inside, None, view.dtype)), Reindex(around, view.fill, view.dtype)
    if inner is None or inner.fill is not None:
        return None
    return (inner, outer) if compose(inner, outer) == view else None


def split_behind(view: Reindex, then: Reindex, shape: Shape) -> tuple[Reindex, Reindex] | None:
    """The same of a view that pads and another view behind it, to a shape, that puts whole axes in another order.

    >>> padded = Reindex(from_digits(6, [Digit(12, 1, 3, 9)], -3), t.const(0, "int8"), "int8")
    >>> turned = Reindex(_map_of(input("y", (4, 3), "int8").permute_dims((1, 0))), None, "int8")
    >>> inner, outer = split_behind(padded, turned, (3, 4))
    >>> print(inner.map, "|", outer.map)
    (3:1, 2:3) of 6 | (3:2, 4:1[1,3)) + -1 of 6
    """
    order = _order_of(then.map, shape)
    if order is None or view.fill is None or then.fill is not None:
        return None
    found = pads_of(view.map, tuple(shape[order.index(n)] for n in range(len(order))))
    if found is None:
        return None
    moved = input("source", found[0], view.dtype).permute_dims(order)
    inside, around = _map_of(moved), _map_of(pad(moved, [found[1][n] for n in order]))
    if inside is None or around is None:
        return None
    return Reindex(inside, None, view.dtype), Reindex(around, view.fill, then.dtype)


def _order_of(m: Map, shape: Shape) -> tuple[int, ...] | None:
    """The axes that a view to a shape puts in this order, where it does nothing else."""
    sizes = {s: symbol_sample(s, SAMPLE) for s in symbols(*(d for d in shape if isinstance(d, Term)))}
    extents = [sampled(as_size(d), sizes) for d in shape]
    if m.n_out != shape_size(shape) or prod(extents) > MOST_CELLS:
        return None
    at = [prod(extents[n + 1 :]) if d > 1 else 0 for n, d in enumerate(extents)]
    places = {cell(m.n_out): np.array(at), **{s: np.asarray(n) for s, n in sizes.items()}}
    address = address_at(m, cell(m.n_out))
    if any(s not in sizes for s in symbols(address)):
        return None  # it also depends on a size that the shape does not have
    read, undefined = evaluate_masked([address], places, load_table)[0]
    if undefined is not None:
        return None
    strides = [int(n) for n in np.broadcast_to(read, len(at))]
    outside_in = sorted(range(len(shape)), key=lambda n: (-strides[n], n))
    order = tuple(outside_in.index(n) for n in range(len(shape)))
    whole = input("whole", tuple(shape[n] for n in outside_in), "int8")
    return order if order != tuple(range(len(order))) and _map_of(whole.permute_dims(order)) == m else None


def _map_of(x: Tensor) -> Map | None:
    maps = maps_of_view(x.node) if isinstance(x.node, View) else None
    return maps[0] if maps is not None and len(maps) == 1 else None


def _pads_at_a_sample(m: Map, shape: Shape) -> tuple[Shape, Pads] | None:
    """What a view of unknown sizes pads at a few of them, if what it reads is a box."""
    unknown = symbols(*(d for d in shape if isinstance(d, Term)))
    sizes = {s: symbol_sample(s, SAMPLE) for s in unknown}
    extents = [sampled(as_size(d), sizes) for d in shape]
    if not unknown or m.n_out != shape_size(shape) or prod(extents) > MOST_CELLS:
        return None
    cells = t.ax(0, prod(extents))
    places = {cells: np.arange(prod(extents)), **{s: np.asarray(n) for s, n in sizes.items()}}
    windows = valid_at(m, cells)
    if any(s not in sizes for s in symbols(windows)):
        return None
    valid, undefined = evaluate_masked([windows], places, load_table)[0]
    inside = np.broadcast_to(valid, prod(extents)).reshape(extents)
    if undefined is not None or not inside.any():
        return None
    read = [np.flatnonzero(inside.any(axis=tuple(j for j in range(len(shape)) if j != k))) for k in range(len(shape))]
    pads = tuple((int(at[0]), n - 1 - int(at[-1])) for at, n in zip(read, extents, strict=True))
    return (tuple(d - sum(p) for d, p in zip(shape, pads, strict=True)), pads) if any(map(any, pads)) else None


def _pads_by_windows(m: FlatMap, shape: Shape) -> tuple[Shape, Pads] | None:
    """What a view pads along axes whose extents are numbers, as its windows say it, whatever it reads inside."""
    sizes = [as_size(d) for d in shape]
    if m.n_out != product(sizes):
        return None
    windows: dict[Size, tuple[Size, Size]] = {}
    below: Size = 1
    for d in reversed(m.digits):
        windows[mul(below, d.extent)] = mul(below, d.lo), mul(below, d.hi)
        below = mul(below, d.extent)
    pads: list[tuple[int, int]] = []
    inner: Size = 1
    for size in reversed(sizes):
        inside, inner = inner, mul(inner, size)
        lo, hi = windows.get(inner, (0, inner)) if size != 1 else (0, inner)
        numbers = lo, hi, inside, size
        if (lo, hi) == (0, inner):
            pads.insert(0, (0, 0))
        elif not all(isinstance(n, int) for n in numbers) or number(lo) % number(inside) or number(hi) % number(inside):
            return None
        else:
            pads.insert(0, (number(lo) // number(inside), number(size) - number(hi) // number(inside)))
    source = [s if p == (0, 0) else number(s) - sum(p) for s, p in zip(sizes, pads, strict=True)]
    return (tuple(as_extent(s) for s in source), tuple(pads)) if any(map(any, pads)) else None


def _pads_in_numbers(m: FlatMap, shape: Shape) -> tuple[Shape, Pads] | None:
    """What a view pads along axes whose extents are numbers, where that is all that it does."""
    found = _pads_by_windows(m, shape)
    if found is None or shape_size(found[0]) != m.n_in:
        return None
    digits: list[Digit] = []
    offset: Size | None = 0
    stride: Size = 1
    for s, rest, (before, after) in reversed(
        list(zip(map(as_size, shape), map(as_size, found[0]), found[1], strict=True))
    ):
        hi = s if not after else number(s) - after
        digits.insert(0, Digit(s, stride, before, hi))
        offset = None if offset is None else add(offset, mul(-before, stride))
        stride = mul(stride, rest)
    return None if offset is None or from_digits(m.n_in, digits, offset) != m else found


class Slots:
    """Which operators of a program take up a padding, and what they then are."""

    def __init__(self, encoded: Encoded) -> None:
        self.encoded, self.interned = encoded, encoded.interned
        self.source = cache(self._source)

    def padded(self, form: int, view: int, operands: Sequence[Tensor]) -> Opaque | None:
        """The operator of a form over the source of a view that pads its first operand; `operands` in the shapes that
        it takes."""
        origin, read = self.encoded.spelled(self.interned.forms[form].operator).node, self.interned.reindexes[view]
        assert isinstance(origin, Opaque)
        found = pads_of(read.map, origin.operands[0].shape)
        if found is None or not isinstance(origin.impl, OperatorImpl):
            return None
        try:
            return origin.impl.padded(origin, operands, found[1], read.fill)
        except EqsatError:
            return None

    def takes(self, form: int, view: Reindex) -> bool:
        """Whether the operator of a form does the padding of a view of its first operand itself."""
        return self.source(form, self.interned.reindexes.number(view)) is not None

    def apart(self, form: int, view: Reindex, then: Reindex | None) -> tuple[Reindex, Reindex] | None:
        """A view that pads (and one behind it), as a view and a padding of that which the operator of a form does."""
        spelled = self.interned.forms[form]
        if view.fill is None or not self.encoded.in_place(spelled):
            return None
        origin = self.encoded.spelled(spelled.operator).node
        assert isinstance(origin, Opaque)
        shape = origin.operands[0].shape
        found = split_padding(view, shape) if then is None else split_behind(view, then, shape)
        if found is None and then is not None:
            whole = compose(view, then)
            found = None if whole is None else split_padding(whole, shape)
        return found if found is not None and self.takes(form, found[1]) else None

    def _source(self, form: int, view: int) -> Shape | None:
        """The shape of what the operator then reads."""
        read, spelled = self.interned.reindexes[view], self.interned.forms[form]
        if read.fill is None or not self.encoded.in_place(spelled):
            return None
        if self.encoded.is_cut(spelled.operator):
            return None
        origin = self.encoded.spelled(spelled.operator).node
        assert isinstance(origin, Opaque)
        if origin.serial in self.encoded.frozen:
            return None
        found = pads_of(read.map, origin.operands[0].shape)
        if found is None:
            return None
        first, *rest = origin.operands
        made = self.padded(form, view, [input("padded", found[0], first.dtype), *rest])
        return None if made is None else found[0]
