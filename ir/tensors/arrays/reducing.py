"""Reductions along axes under their numpy names, in the types in which numpy computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.ir.dtypes import BOOL, highest, lowest
from eqsat.ir.errors import ShapeError, TypeMismatch
from eqsat.ir.tensors import pointwise, reductions, scans, views
from eqsat.ir.tensors.arrays.shapes import ravel
from eqsat.ir.tensors.arrays.types import as_tensor, refuse, sum_type, truth
from eqsat.ir.tensors.tensor import Tensor, data_dtype
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import format_shape, normalize_axis

Axis = int | Sequence[int] | None
OUT = "use what it returns; a kernel writes to out="


def masked(x: Tensor, where: Any, neutral: Any) -> Tensor:
    """The neutral element where a mask does not hold."""
    if where is None or where is True:
        return x
    mask = as_tensor(where, "where=")
    if mask.dtype != BOOL:
        raise TypeMismatch("where=", f"has type {mask.dtype}, not bool", "compare with != 0")
    mask = views.broadcast_to(mask, x.shape)
    return pointwise.pointwise("where", lambda c, a: t.where(c, a, t.const(neutral, a.dtype)), mask, x)


def _initial(value: Any, what: str) -> Any:
    """The one number that a reduction starts from."""
    shape = value.shape if isinstance(value, Tensor) else np.shape(value)
    if shape != ():
        raise ShapeError(what, f"initial= has shape {format_shape(shape)}", "x.sum(axis) + initial")
    return value


def _total(x: Any, combiner: str, axis: Axis, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Tensor:
    """A sum or a product in its own type, from an initial value."""
    given = as_tensor(x, combiner)
    kind = sum_type(given.dtype) if dtype is None else data_dtype(dtype)
    if kind == BOOL:
        raise TypeMismatch(f"{combiner} in bool", "has no order of and and or", "x.any() or x.all()")
    y = pointwise.cast(given, kind)
    made = reductions.reduce(masked(y, where, 0 if combiner == "sum" else 1), combiner, axis, keepdims)
    if initial is None:
        return made
    first = _initial(initial, combiner)
    return pointwise.binary("add" if combiner == "sum" else "mul", t.add if combiner == "sum" else t.mul, made, first)


def sum(
    x: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """The sum along axes (None: all), of whole numbers and bools in int64 or uint64, as numpy.sum.

    >>> import eqsat as eq
    >>> y = eq.sum(eq.input("x", (2, 3), "int8"), axis=1, keepdims=True)
    >>> y.shape, y.dtype
    ((2, 1), 'int64')
    """
    refuse("sum", "out", out, OUT)
    return _total(x, "sum", axis, dtype, keepdims, initial, where)


def prod(
    x: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """The product along axes (None: all), of whole numbers and bools in int64 or uint64, as numpy.prod.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.prod([2, 3, 4]))
    array(24)
    """
    refuse("prod", "out", out, OUT)
    return _total(x, "prod", axis, dtype, keepdims, initial, where)


def _extreme(x: Any, combiner: str, axis: Axis, keepdims: bool, initial: Any, where: Any) -> Tensor:
    y = as_tensor(x, combiner)
    if initial is None:
        if where is not None and where is not True:
            raise TypeMismatch(f"{combiner} with where=", "needs initial=", "there may be no element")
        return reductions.reduce(y, combiner, axis, keepdims)
    y = masked(y, where, (lowest if combiner == "max" else highest)(y.dtype))
    made = reductions.reduce(y, combiner, axis, keepdims, empty=True)
    return pointwise.binary(combiner, lambda a, b: t.binary(combiner, a, b), made, _initial(initial, combiner))


def max(
    x: Any, axis: Axis = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """The greatest element along axes (None: all), NaN where there is one, as numpy.max.

    >>> import eqsat as eq
    >>> eq.max(eq.input("x", (2, 3), "int8"), axis=-1).shape
    (2,)
    """
    refuse("max", "out", out, OUT)
    return _extreme(x, "max", axis, keepdims, initial, where)


def min(
    x: Any, axis: Axis = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """The smallest element along axes (None: all), NaN where there is one, as numpy.min.

    >>> import eqsat as eq
    >>> eq.min(eq.input("x", (2, 3), "int8"), axis=-1).shape
    (2,)
    """
    refuse("min", "out", out, OUT)
    return _extreme(x, "min", axis, keepdims, initial, where)


def ptp(x: Any, axis: Axis = None, out: None = None, keepdims: bool = False) -> Tensor:
    """The distance from the smallest to the greatest element, as numpy.ptp.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.ptp([4, 9, 2]))
    array(7)
    """
    refuse("ptp", "out", out, OUT)
    return pointwise.operator("sub", max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


def any(x: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None) -> Tensor:
    """Whether an element along axes is not 0, as numpy.any.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.any([[0, 1], [0, 0]], axis=1))
    array([ True, False])
    """
    refuse("any", "out", out, OUT)
    return reductions.reduce(masked(truth(x, "any"), where, False), "max", axis, keepdims, empty=True)


def all(x: Any, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None) -> Tensor:
    """Whether no element along axes is 0, as numpy.all.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.all([[1, 2], [0, 3]], axis=1))
    array([ True, False])
    """
    refuse("all", "out", out, OUT)
    return reductions.reduce(masked(truth(x, "all"), where, True), "min", axis, keepdims, empty=True)


def count_nonzero(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The number of elements that are not 0, as numpy.count_nonzero.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.count_nonzero([0, 5, 7]))
    array(2)
    """
    return sum(truth(x, "count_nonzero"), axis, keepdims=keepdims)


def _place(x: Any, combiner: str, axis: int | None, keepdims: bool) -> Tensor:
    y = as_tensor(x, f"arg{combiner}")
    if axis is None:
        place = scans.first_place(ravel(y), 0, combiner)
        return views.reshape(place, (1,) * y.rank if keepdims else ())
    n = normalize_axis(axis, y.rank, f"arg{combiner} of {format_shape(y.shape)}")
    place = scans.first_place(y, n, combiner)
    return place if keepdims else views.squeeze(place, n)


def argmax(x: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Tensor:
    """The first position of the greatest element (or NaN), in a row of all without an axis, as numpy.argmax.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.argmax([[1, 9], [7, 2]], axis=1))
    array([1, 0])
    """
    refuse("argmax", "out", out, OUT)
    return _place(x, "max", axis, keepdims)


def argmin(x: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Tensor:
    """The first position of the smallest element (or NaN), in a row of all without an axis, as numpy.argmin.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.argmin([[1, 9], [7, 2]], axis=1))
    array([0, 1])
    """
    refuse("argmin", "out", out, OUT)
    return _place(x, "min", axis, keepdims)


def _running(x: Any, combiner: str, axis: int | None, dtype: Any) -> Tensor:
    y = as_tensor(x, f"cum{combiner}")
    if axis is None:
        y, axis = ravel(y), 0
    kind = sum_type(y.dtype) if dtype is None else data_dtype(dtype)
    if kind == BOOL:
        raise TypeMismatch(f"cum{combiner} in bool", "bools have no sum", "dtype='int64'")
    n = normalize_axis(axis, y.rank, f"cum{combiner} of {format_shape(y.shape)}")
    return scans.running(pointwise.cast(y, kind), combiner, n)


def cumsum(x: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Tensor:
    """The sums of all elements up to each one along an axis, as numpy.cumsum; floats may be added in another order.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.cumsum([1, 2, 3]))
    array([1, 3, 6])
    """
    refuse("cumsum", "out", out, OUT)
    return _running(x, "sum", axis, dtype)


def cumprod(x: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Tensor:
    """The products of all elements up to each one along an axis, as numpy.cumprod.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.cumprod([2, 3, 4]))
    array([ 2,  6, 24])
    """
    refuse("cumprod", "out", out, OUT)
    return _running(x, "prod", axis, dtype)


def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The n-th differences of neighbours along an axis, as numpy.diff.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.diff([1, 4, 9]))
    array([3, 5])
    """
    from eqsat.ir.tensors.arrays.joining import concatenate

    y = as_tensor(x, "diff")
    k = normalize_axis(axis, y.rank, f"diff of {format_shape(y.shape)}")
    if n < 0:
        raise ShapeError("diff", f"order {n} is negative")
    edge = tuple(1 if m == k else d for m, d in enumerate(y.shape))
    ends = [None if e is None else as_tensor(e, "diff") for e in (prepend, append)]
    ends = [views.broadcast_to(e, edge) if e is not None and e.rank == 0 else e for e in ends]
    if n and (ends[0] is not None or ends[1] is not None):
        y = concatenate([e for e in (ends[0], y, ends[1]) if e is not None], k)
    lead = (slice(None),) * k
    for _ in range(n):
        late, early = y[(*lead, slice(1, None))], y[(*lead, slice(None, -1))]
        y = pointwise.operator("bitxor" if y.dtype == BOOL else "sub", late, early)
    return y
