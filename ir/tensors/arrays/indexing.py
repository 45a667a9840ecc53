"""`x[...]` as numpy reads it: integers, slices, ellipsis, None, and integer arrays.

As many integers or index terms as axes make a load, which is a term; anything else makes one View, or, where an index
is itself a tensor, one Compute. No kernel can raise, so positions in a tensor that leave their axis mean the nearest
cell, as in JAX; those in an array are known, and refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import BOOL, INDEX, NDArray, is_int
from eqsat.ir.errors import BoundsError, ShapeError, TypeMismatch
from eqsat.ir.given import told
from eqsat.ir.ranges.bounds import bounds
from eqsat.ir.tensors.pointwise import broadcast_shapes
from eqsat.ir.tensors.tensor import Constant, Tag, Tensor, View, from_body
from eqsat.ir.tensors.views import flatten
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, as_dim, format_shape, output_axes, static_shape
from eqsat.ir.terms.sums import unclipped
from eqsat.ir.terms.tables import table_load
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

Items = Sequence[Any]


def index(x: Tensor, key: Any) -> Any:
    """x[key]: a load for rank-many integers and index terms, else a tensor.

    >>> import eqsat as eq, numpy as np
    >>> a = eq.constant(np.arange(12).reshape(3, 4))
    >>> eq.evaluate(index(a, (slice(None, None, -2), None, [0, -1])))
    array([[[ 8, 11]],
    <BLANKLINE>
           [[ 0,  3]]])
    """
    items: Items = cast("Items", key) if isinstance(key, tuple) else (key,)
    if len(items) == x.rank and all(_is_place(i) for i in items):
        return t.load(x, [_place(i, d) for i, d in zip(items, x.shape, strict=True)], x.dtype)
    return _Reader(x, items).tensor()


def _is_place(item: Any) -> bool:
    if isinstance(item, Term):
        return item.dtype != BOOL
    return isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.bool_))


def _place(item: Any, extent: Dim) -> Term:
    """One position of an axis; a negative number counts from the end."""
    if isinstance(item, Term):
        return t.as_index(item)
    number = int(item)
    if number < 0 and (not isinstance(extent, int) or number >= -extent):
        return t.as_index(extent) + number
    return t.index_const(number)


@dataclass(frozen=True, eq=False)
class _Along:
    """A slice of an axis: where it starts, how it goes on, and how many cells it takes."""

    start: Term
    step: int
    extent: Dim


def _bound(value: Any, n: Term, what: str) -> tuple[Term, bool]:
    """A bound of a slice of n cells, and whether it is counted from the end."""
    if isinstance(value, Term):
        return t.as_index(value), False
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)):
        number = int(cast(Any, value))
        return (n + number, True) if number < 0 else (t.index_const(number), False)
    raise ShapeError(what, f"the bound {value!r} is not an integer")


def _taken(part: slice, n: Term, what: str) -> tuple[Term, Term]:
    """Where an upward slice of n cells starts, and how many cells it spans, of which fewer than none are none. A start
    beyond the end needs no clipping, nor does an end before the start."""
    zero = t.index_const(0)
    first, first_from_end = (zero, False) if part.start is None else _bound(part.start, n, what)
    last, last_from_end = (n, True) if part.stop is None else _bound(part.stop, n, what)
    start = _greatest(first, zero)
    if first_from_end and last_from_end:
        return start, _least(last - first, last)
    if not last_from_end:
        last = _least(_greatest(last, zero), n)
    return start, last - start


def _greatest(a: Term, b: Term) -> Term:
    """The greater of two sizes, without a max where bounds decide."""
    low, high = bounds(a - b)
    if low is not None and low >= 0:
        return a
    return b if high is not None and high <= 0 else t.binary("max", a, b)


def _clipped(x: Term) -> Term:
    """A number of cells, or 0 where it is less: one maximum, also of a maximum."""
    constant, parts = t.linear_parts(x)
    inner = unclipped(parts[0][1]) if len(parts) == 1 and parts[0][0] == 1 and constant <= 0 else None
    return _greatest(x if inner is None else inner + constant, t.index_const(0))


def _least(a: Term, b: Term) -> Term:
    low, high = bounds(a - b)
    if high is not None and high <= 0:
        return a
    return b if low is not None and low >= 0 else t.binary("min", a, b)


def sliced(part: slice, extent: Dim, what: str) -> _Along:
    """A slice of an axis; of a symbolic extent it is clipped by terms, unless bounds decide."""
    step: Any = 1 if part.step is None else part.step
    if not isinstance(step, (int, np.integer)) or isinstance(step, (bool, np.bool_)) or step == 0:
        raise ShapeError(what, f"the step {step!r} is not a whole number other than 0")
    step = int(cast(Any, step))
    if isinstance(extent, int) and not any(isinstance(v, Term) for v in (part.start, part.stop)):
        try:
            numbers = range(*part.indices(extent))
        except TypeError as error:
            raise ShapeError(what, str(error)) from error
        return _Along(t.index_const(numbers.start if len(numbers) else 0), step, len(numbers))
    n = t.as_index(extent)
    if step > 0:
        start, count = _taken(part, n, what)
        count = count if step == 1 else (count + (step - 1)) // step
    elif part.start is None and part.stop is None:
        start, count = n - 1, n if step == -1 else (n + (-step - 1)) // -step
    else:
        raise ShapeError(what, "bounds with a negative step on a symbolic extent", "x[a:b][::-1]")
    return _Along(start, step, as_dim(_clipped(count)))


class _Reader:
    """An index in the making: output extents, and what each axis of the source reads."""

    def __init__(self, x: Tensor, items: Items) -> None:
        self.x = x
        self.what = f"{x.name}[...] of shape {format_shape(x.shape)}"
        self.items = self._expanded(items)

    def _expanded(self, items: Items) -> list[Any]:
        """The items with an ellipsis spelled out and masks as positions: one for each axis, and None for new ones."""
        flat: list[Any] = []
        for item in items:
            array: Any = self._listed(item) if isinstance(item, (list, tuple, range, np.ndarray)) else item
            if isinstance(array, Tensor) and isinstance(array.node, Constant):
                array = array.node.array
            if isinstance(array, (bool, np.bool_)) or (isinstance(array, Tensor) and array.dtype == BOOL):
                raise TypeMismatch(self.what, "a mask gives a shape that depends on data", "eq.where(mask, x, fill)")
            if isinstance(array, np.ndarray) and cast(NDArray, array).dtype == BOOL:
                flat.extend(self._mask(cast(NDArray, array), len(flat)))
            else:
                flat.append(array)
        used = sum(i is not None and i is not Ellipsis for i in flat)
        dots = sum(i is Ellipsis for i in flat)
        if dots > 1:
            raise ShapeError(self.what, "more than one ellipsis")
        if used > self.x.rank:
            raise ShapeError(self.what, f"{used} indices for rank {self.x.rank}")
        rest = [slice(None)] * (self.x.rank - used)
        if not dots:
            return [*flat, *rest]
        at = next(n for n, i in enumerate(flat) if i is Ellipsis)
        return [*flat[:at], *rest, *flat[at + 1 :]]

    def _listed(self, item: Any) -> NDArray:
        try:
            return np.asarray(item)
        except ValueError as error:
            raise ShapeError(self.what, f"the index {told(item)} has rows of several lengths") from error

    def _mask(self, mask: NDArray, place: int) -> list[NDArray]:
        own = static_shape(self.x.shape)
        if own is not None and mask.shape != own[place : place + mask.ndim]:
            raise ShapeError(self.what, f"a mask of shape {mask.shape}")
        return list(np.nonzero(mask))

    def tensor(self) -> Tensor:
        """The View or Compute."""
        arrays = [self._array(i) for i in self.items if isinstance(i, (np.ndarray, Tensor))]
        many = broadcast_shapes(*(a.shape for a in arrays)) if arrays else ()
        shape, places = self._shape(bool(arrays), many)
        axes = output_axes(shape)
        own = axes[places[-1] : places[-1] + len(many)]
        terms: list[Term] = []
        for item, place in zip(self.items, places, strict=False):
            if item is None:
                continue
            n = len(terms)
            if isinstance(item, slice):
                along = sliced(cast(Any, item), self.x.shape[n], self.what)
                terms.append(along.start + along.step * axes[place])
            elif isinstance(item, (np.ndarray, Tensor)):
                terms.append(self._picked(self._array(item), own, self.x.shape[n]))
            else:
                terms.append(self._single(item, self.x.shape[n]))
        if any(isinstance(i, Tensor) for i in self.items):
            return Tensor(from_body(t.load(self.x, terms, self.x.dtype), shape))
        plain = all(isinstance(i, slice) for i in self.items)
        return Tensor(View(self.x, shape, terms, t.TRUE, None, Tag("slice") if plain else None))

    def _single(self, item: Any, extent: Dim) -> Term:
        if not _is_place(item):
            raise ShapeError(self.what, f"the index {item!r} is no integer, slice, None, ellipsis or integer array")
        if isinstance(item, Term):
            if item.dtype != INDEX or any(node.op in ("axis", "var") for node in postorder(item)):
                problem = f"{item} and {len(self.items)} axes: a load takes an index for each axis"
                raise ShapeError(self.what, problem, "x[i, j] inside eq.compute")
        elif isinstance(extent, int) and not -extent <= item < extent:
            raise BoundsError(self.what, f"index {item} is not in {-extent}..{extent - 1}")
        return _place(item, extent)

    def _shape(self, advanced: bool, many: Shape) -> tuple[Shape, list[int]]:
        """The output shape, where each item stands in it, and last where the axes of the index arrays stand."""
        kinds = [not (i is None or isinstance(i, slice)) for i in self.items]
        at = [n for n, kind in enumerate(kinds) if kind]
        together = bool(at) and at == list(range(at[0], at[-1] + 1))
        first = at[0] if advanced and together else 0
        shape: list[Dim] = []
        places: list[int] = []
        start, n = 0, 0
        for k in range(len(self.items) + 1):
            if advanced and k == first:
                start = len(shape)
                shape.extend(many)
            if k == len(self.items):
                break
            places.append(len(shape))
            item = self.items[k]
            if item is None:
                shape.append(1)
                continue
            if isinstance(item, slice):
                shape.append(sliced(cast(Any, item), self.x.shape[n], self.what).extent)
            n += 1
        return tuple(shape), [*places, start]

    def _array(self, item: Any) -> Any:
        if isinstance(item, Tensor):
            if not is_int(item.dtype):
                raise TypeMismatch(self.what, f"an index of type {item.dtype}", "x.astype('int64')")
            return item
        array: NDArray = item
        if array.size and array.dtype.kind not in "iu":
            raise TypeMismatch(self.what, f"an index array of type {array.dtype}", "use integers")
        return array

    def _picked(self, array: Any, own: Sequence[Term], extent: Dim) -> Term:
        """The position that an index array gives for the axes that the index arrays share."""
        offset = len(own) - len(array.shape)
        read = [t.index_const(0) if d == 1 else own[offset + n] for n, d in enumerate(array.shape)]
        n = t.as_index(extent)
        if isinstance(array, Tensor):
            at = t.cast_to(t.load(array, read, array.dtype), INDEX)
            if array.dtype.startswith("i"):
                at = t.binary("max", t.where(t.compare("lt", at, 0), at + n, at), 0)
            return t.binary("min", at, n - 1)
        values: NDArray = array.astype(np.int64)
        if not isinstance(extent, int):
            if values.size and values.min() < 0:
                raise ShapeError(self.what, f"position {values.min()} of the symbolic extent {extent}", "x[::-1]")
        elif values.size and not (-extent <= values.min() and values.max() < extent):
            wrong = values[(values < -extent) | (values >= extent)].flat[0]
            raise BoundsError(self.what, f"position {wrong} is not in {-extent}..{extent - 1}")
        else:
            values = np.where(values < 0, values + extent, values)
        return table_load(values, flatten(read, array.shape))
