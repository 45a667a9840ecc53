"""Means and variances under their numpy names: sums divided by the number of elements."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import is_float
from eqsat.ir.errors import TypeMismatch
from eqsat.ir.given import told
from eqsat.ir.tensors import pointwise, reductions, views
from eqsat.ir.tensors.arrays.reducing import OUT, Axis, masked, sum
from eqsat.ir.tensors.arrays.types import as_tensor, float_type, refuse
from eqsat.ir.tensors.tensor import Tensor, data_dtype
from eqsat.ir.terms import term as t


def _count(x: Tensor, axis: Axis, keepdims: bool, where: Any, dtype: str) -> Tensor:
    """How many elements are averaged, as numbers of a float type."""
    if where is None or where is True:
        return as_tensor(reductions.count(x, axis, dtype), "mean")
    mask = views.broadcast_to(as_tensor(where, "where="), x.shape)
    return pointwise.cast(sum(mask, axis, keepdims=keepdims), dtype)


def mean(
    x: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Tensor:
    """The average along axes (None: all), of whole numbers in float64, as numpy.mean.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.mean([1, 2, 6]))
    array(3.)
    """
    refuse("mean", "out", out, OUT)
    given = as_tensor(x, "mean")
    kind = float_type(given.dtype) if dtype is None else data_dtype(dtype)
    if not is_float(kind):
        raise TypeMismatch(f"mean in {kind}", "needs a float type", "mean(x).astype(dtype)")
    if where is None or where is True:
        return reductions.mean(pointwise.cast(given, kind), axis, keepdims)
    inner = "float32" if kind == "float16" and dtype is None else kind
    y = pointwise.cast(given, inner)
    total = reductions.reduce(masked(y, where, 0), "sum", axis, keepdims)
    count = _count(y, axis, keepdims, where, inner)
    return pointwise.cast(pointwise.operator("div", total, count), kind)


def _correction(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeMismatch("var", f"ddof={told(value)} is no number")
    return float(cast(Any, value))


def var(
    x: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> Tensor:
    """The variance along axes: the mean square of what is left of the mean, divided by n - ddof, as numpy.var.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.var([1.0, 2.0, 3.0], ddof=1))
    array(1.)
    """
    refuse("var", "out", out, OUT)
    if correction is not None and ddof != 0:
        raise TypeMismatch("var", "ddof and correction are one thing", "give one of them")
    given = as_tensor(x, "var")
    kind = float_type(given.dtype) if dtype is None else data_dtype(dtype)
    if not is_float(kind):
        raise TypeMismatch(f"var in {kind}", "needs a float type", "var(x).astype(dtype)")
    inner = "float32" if kind == "float16" and dtype is None else kind
    y = pointwise.cast(given, inner)
    center = _mean_of(y, axis, where, mean)
    square = pointwise.pointwise("square", lambda a: a * a, pointwise.operator("sub", y, center))
    total = reductions.reduce(masked(square, where, 0), "sum", axis, keepdims)
    less = _correction(ddof if correction is None else correction)
    count = _count(y, axis, keepdims, where, inner)

    def rest(a: t.Term, n: t.Term) -> t.Term:
        return a / t.binary("max", n - t.const(less, inner), 0.0)

    return pointwise.cast(pointwise.pointwise("div", rest, total, count), kind)


def _mean_of(y: Tensor, axis: Axis, where: Any, given: Any) -> Tensor:
    """The mean that deviations are taken from: the one given, else the one over the same elements."""
    if given is not None:
        return pointwise.cast(as_tensor(given, "var"), y.dtype)
    return mean(y, axis, keepdims=True, where=where)


def std(
    x: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: float | None = None,
) -> Tensor:
    """The square root of the variance, as numpy.std.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.std([2.0, 4.0]))
    array(1.)
    """
    found = var(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    return pointwise.unary("sqrt", found)
