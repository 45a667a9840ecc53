"""Are two arrays equal, as their type allows: bit by bit, or within the rounding of reordered sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.ir.dtypes import NDArray, has_floats, is_float
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Of the largest value: where sums were reordered, or different kernels computed them."""
INEXACT = {*t.FLOAT_UNARY, "pow"} - {"sqrt", "floor", "ceil", "round", "trunc"}
"""Functions of floats whose last digits C and numpy may have differently: no standard says how they are rounded."""
OWN, LARGEST = 10.0, 0.1
"""Cells far below the largest one may differ by less: by so many tolerances of their own value and of the largest."""


def tolerance_of(dtype: str, default: float = 1e-4) -> float:
    """The tolerance of an element type, relative to the largest value: `default`, or more for types of few bits.

    >>> tolerance_of("float16"), tolerance_of("float32")
    (0.01, 0.0001)
    """
    return max(default, TOLERANCE[dtype]) if dtype in ("float16", "bfloat16") else default


def inexact(*terms: Term) -> list[str]:
    """The functions in terms whose last digits C and numpy may have differently.

    >>> x = t.load("x", [t.var("i")], "float32")
    >>> inexact(t.unary("exp", x) + t.unary("sqrt", x))
    ['exp']
    """
    return sorted({x.op for x in postorder(*terms) if x.op in INEXACT and is_float(x.dtype)})


def difference(
    a: NDArray, b: NDArray, exact: bool, free: NDArray | None = None, signs: bool = True, tolerance: float | None = None
) -> str:
    """What differs between an expected and a found array, or ''; cells in `free` may differ.

    exact: bit by bit (any NaN for any NaN; with `signs`, 0.0 is not -0.0), else within a tolerance of the largest
    value, with NaN and inf in the same places.

    >>> difference(np.array([1.0, 2.0]), np.array([1.0, 2.5]), True)
    '1 of 2 cells, the first at (1,)'
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{b.dtype}{b.shape} where {a.dtype}{a.shape} is expected"
    return told(differing(a, b, exact, free, signs, tolerance))


def told(wrong: NDArray) -> str:
    """Which cells are wrong, in words; '' where none is.

    >>> told(np.array([False, True]))
    '1 of 2 cells, the first at (1,)'
    """
    count = int(np.count_nonzero(wrong))
    if not count:
        return ""
    first = tuple(int(k) for k in np.argwhere(wrong)[0])
    return f"{count} of {wrong.size} cells, the first at {first}"


def differing(
    a: NDArray, b: NDArray, exact: bool, free: NDArray | None = None, signs: bool = True, tolerance: float | None = None
) -> NDArray:
    """The cells in which two arrays of one shape and type differ, as `difference` counts them.

    >>> differing(np.array([0.0, np.nan]), np.array([-0.0, np.nan]), True)
    array([ True, False])
    """
    name = a.dtype.name
    if a.dtype.kind == "c":
        wrong = _other_bits(a, b)
    elif not has_floats(a):
        wrong = np.asarray(a != b, bool)
    elif exact:
        wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        if signs:
            wrong |= (np.signbit(a) != np.signbit(b)) & (a == b)
    else:
        with np.errstate(all="ignore"):
            x, y = a.astype(np.float64), b.astype(np.float64)
            finite = np.isfinite(x) & np.isfinite(y)
            scale = float(np.max(np.abs(x), initial=0.0, where=finite & ~_mask(free, finite)))
            gap = np.abs(x - y)
            share = TOLERANCE.get(name, 1e-4) if tolerance is None else tolerance
            allowed = share * np.minimum(scale, OWN * np.abs(x) + LARGEST * scale)
            wrong = np.where(finite, ~(gap <= allowed), ~((x == y) | (np.isnan(x) & np.isnan(y))))
    return wrong if free is None else wrong & ~free


def _mask(free: NDArray | None, like: NDArray) -> NDArray:
    return np.zeros(like.shape, bool) if free is None else free


def _other_bits(a: NDArray, b: NDArray) -> NDArray:
    """The cells of other bits: of complex numbers, which are only moved."""
    x, y = (
        np.ascontiguousarray(part).reshape(-1).view(np.uint8).reshape(*part.shape, part.itemsize) for part in (a, b)
    )
    return np.asarray((x != y).any(axis=-1))


def unlike(a: NDArray, b: NDArray) -> NDArray:
    """The cells in which two arrays of one type differ; any NaN is like any other."""
    if a.dtype.kind == "c":
        return _other_bits(a, b)
    same: Any = a == b
    if has_floats(a):
        same = same | (np.isnan(a) & np.isnan(b))
    return ~np.asarray(same, bool)
