"""`pad` with numpy's keywords: a view for each mode that repeats cells, a view with a fill for constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import NDArray, is_int
from eqsat.ir.errors import ShapeError, TypeMismatch
from eqsat.ir.given import told, whole
from eqsat.ir.tensors import views
from eqsat.ir.tensors.arrays.types import as_tensor, is_weak
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import UNDEF
from eqsat.ir.terms.shape import format_shape, normalize_axis

ELSEWHERE = {
    "linear_ramp": "eq.concatenate with end + (edge - end) * eq.arange(n) / n",
    "maximum": "eq.concatenate with eq.broadcast_to(x.max(axis, keepdims=True), ...)",
    "mean": "eq.concatenate with eq.broadcast_to(x.mean(axis, keepdims=True), ...)",
    "median": "eq.concatenate with a constant",
    "minimum": "eq.concatenate with eq.broadcast_to(x.min(axis, keepdims=True), ...)",
}


def pad(
    array: Any,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = 0,
    reflect_type: str = "even",
) -> Tensor:
    """Cells added before and after each axis, as numpy.pad: an int, a pair, one pair per axis, or {axis: pair}.

    mode: "constant", "edge", "reflect", "symmetric", "wrap", or "empty", whose cells are eq.UNDEF.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.pad([1, 2, 3], (2, 1), constant_values=(7, 8)))
    array([7, 7, 1, 2, 3, 8])
    >>> eq.evaluate(eq.pad([1, 2, 3], 2, mode="symmetric"))
    array([2, 1, 1, 2, 3, 3, 2])
    """
    x = as_tensor(array, "pad")
    if mode in ELSEWHERE:
        raise ShapeError(f"pad in mode {mode!r}", "computes what it adds", ELSEWHERE[mode])
    if reflect_type != "even":
        raise ShapeError(f"pad with reflect_type={reflect_type!r}", "only 'even'", "2 * edge - x.pad(mode='reflect')")
    width = _by_axis(pad_width, x) if isinstance(pad_width, Mapping) else pad_width
    if mode == "empty":
        return views.pad(x, width, UNDEF)
    if mode != "constant":
        return views.pad(x, width, mode=mode)
    if isinstance(constant_values, np.generic) or is_weak(constant_values):
        return views.pad(x, width, _value(constant_values, x))
    return _sided(x, width, constant_values)


def _by_axis(pad_width: Any, x: Tensor) -> list[tuple[int, int]]:
    what = f"pad of {format_shape(x.shape)} by {pad_width}"
    widths = [(0, 0)] * x.rank
    for axis, width in cast("Mapping[int, Any]", pad_width).items():
        pair: tuple[Any, ...] = (width, width) if np.ndim(width) == 0 else tuple(cast("Sequence[Any]", width))
        if len(pair) != 2:
            raise ShapeError(what, f"{width!r} is not one number or two")
        widths[normalize_axis(axis, x.rank, what)] = (whole(pair[0], what, "width"), whole(pair[1], what, "width"))
    return widths


def _value(value: Any, x: Tensor) -> t.Term:
    """A constant in the type of the tensor, converted as numpy assigns it: unsigned types wrap, what a signed one lacks
    is refused, and so is a float that has no whole number of the type."""
    cell: NDArray = np.empty((), x.dtype)
    number: Any = np.asarray(value).ravel()[0]
    try:
        if is_int(x.dtype) and np.asarray(number).dtype.kind == "f":
            number = t.const_value(t.const(int(number), x.dtype))
        with np.errstate(all="ignore"):
            cell[()] = number
    except (OverflowError, TypeError, ValueError) as error:
        raise TypeMismatch(f"pad of {x.dtype} with {told(value)}", str(error)) from error
    return t.const(cell[()], x.dtype)


def _sided(x: Tensor, pad_width: Any, values: Any) -> Tensor:
    """Other values for each side of each axis: one axis after the other, so that later ones own the corners."""
    try:
        widths = np.broadcast_to(np.asarray(pad_width), (x.rank, 2))
        sides = np.broadcast_to(np.asarray(values), (x.rank, 2))
    except ValueError as error:
        fix = "one value, a pair, or one pair per axis"
        raise ShapeError(f"pad of {format_shape(x.shape)}", f"constant_values {values!r} do not fit", fix) from error
    for n in range(x.rank):
        for side in (0, 1):
            width = [[0, 0] for _ in range(x.rank)]
            width[n][side] = whole(widths[n][side], "pad", "width")
            if width[n][side]:
                x = views.pad(x, width, _value(sides[n][side], x))
    return x
