"""Whether one function may stand for another: on the same arguments, the same cells, where the first promises them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from eqsat.ir.dtypes import NDArray, has_floats
from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.bind import by_declared_axes
from eqsat.ir.statements.memory import owner
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.terms.bindings import Bindings


@dataclass(frozen=True)
class Comparison:
    """The answer of `same_meaning`: true, or the first difference as text."""

    difference: str = ""

    def __bool__(self) -> bool:
        return not self.difference


def same_meaning(
    before: PrimFunc,
    after: PrimFunc,
    inputs: Mapping[str, NDArray],
    symbols: Bindings | None = None,
    *,
    close: float = 0.0,
) -> Comparison:
    """Whether `after` refines `before` on these arguments, which stay as they are.

    Both are run with their unknown cells tracked. Every element of every parameter, written or not, must be bitwise the
    same (one NaN is one NaN), except where `before` stored a hole: there `after` may leave anything. `close` is a
    tolerance relative to the largest element, for functions whose reductions were reordered. Raises EvaluationError
    where `before` has no meaning on these arguments.

    >>> from eqsat.ir.statements.stmt import BufferDecl, Store, seq
    >>> from eqsat.ir.terms import term as t
    >>> decls, one = {"x": BufferDecl("x", (2,), "int8")}, t.index_const(1)
    >>> frees = PrimFunc("f", ("x",), decls, Store("x", (one,), t.hole(1, "int8", ())))
    >>> nothing = PrimFunc("f", ("x",), decls, seq([]))
    >>> x = {"x": np.zeros(2, "int8")}
    >>> same_meaning(frees, nothing, x), same_meaning(nothing, frees, x).difference
    (Comparison(difference=''), 'x[1] is 0 before, and may be anything after')
    """
    if before.params != after.params:
        return Comparison(f"parameters {before.params} became {after.params}")
    inputs = by_declared_axes(before, inputs, symbols)
    new = {name: copied(array) for name, array in inputs.items()}
    return compared((before, inputs, symbols), (after, new, symbols), lambda name, array: array, close)


Call = tuple[PrimFunc, Mapping[str, NDArray], Bindings | None]
"""A function, its arguments, and the sizes of its symbols."""


def compared(before: Call, after: Call, back: Callable[[str, NDArray], NDArray], close: float = 0.0) -> Comparison:
    """Whether the second call refines the first, whose arguments stay as they are; `back` puts a parameter of the
    second, by its name, and which of its elements are free, into the layout that the first has."""
    old = {name: copied(array) for name, array in before[1].items()}
    free_before = run_primfunc(before[0], old, before[2], track=True)
    try:
        free_after = run_primfunc(after[0], after[1], after[2], track=True)
    except EvaluationError as error:
        return Comparison(f"after has no meaning: {error}")
    for name in before[0].params:
        got = back(name, after[1][name]), back(name, free_after[name])
        found = difference(name, (old[name], free_before[name]), got, close)
        if found:
            return Comparison(found)
    return Comparison()


def copied(array: NDArray) -> NDArray:
    """A copy that lies in memory as the array does: a view of a copy of its memory."""
    root = owner(array)
    if root is array or not root.flags.c_contiguous:
        return array.copy()
    start = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return np.ndarray(array.shape, array.dtype, root.copy().reshape(-1).view(np.uint8), start, array.strides)


def difference(name: str, old: tuple[NDArray, NDArray], new: tuple[NDArray, NDArray], close: float) -> str:
    """The first difference between elements, each with which of them are free, as text; empty where there is none."""
    (a, free), (b, later) = old, new
    same = _bits(a) == _bits(b)
    if has_floats(a):
        same |= np.isnan(a) & np.isnan(b)
        if close and a.size:
            with np.errstate(all="ignore"):
                finite = np.isfinite(a) & np.isfinite(b)
                scale = np.abs(np.where(finite, a, 0).astype(np.float64)).max(initial=0.0)
                apart = np.abs(np.where(finite, a, 0).astype(np.float64) - np.where(finite, b, 0).astype(np.float64))
            same |= finite & (apart <= close * max(scale, 1.0))
    for wrong, text in ((later & ~free, "may be anything"), (~same & ~free, "is {}")):
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            there = text.format(b[at])
            return f"{name}[{', '.join(map(str, at))}] is {a[at]} before, and {there} after"
    return ""


def _bits(array: NDArray) -> NDArray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
