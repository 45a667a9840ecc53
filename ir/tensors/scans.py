"""Running sums and products along an axis, and the place of an extreme value: formulas that depend on positions."""

from __future__ import annotations

from collections.abc import Callable

from eqsat.ir.dtypes import is_float
from eqsat.ir.tensors.reductions import reduce
from eqsat.ir.tensors.tensor import Tensor, from_body
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import output_axes, reduce_axes
from eqsat.ir.terms.term import Term


def first_place(x: Tensor, axis: int, combiner: str, last: bool = False) -> Tensor:
    """The position (int64) of the extreme value along an axis, extent 1 there: the first one, or the last.

    As in numpy, a NaN is more extreme than any number.

    >>> import eqsat as eq
    >>> eq.evaluate(first_place(eq.constant([3, 7, 7]), 0, "max"))
    array([1])
    """
    extent = x.shape[axis]
    best = reduce(x, combiner, axis, True)
    axes, k = list(output_axes(best.shape)), reduce_axes((extent,))[0]
    at = tuple([*axes[:axis], k, *axes[axis + 1 :]])
    value, top = x[at], best[tuple([*axes[:axis], t.index_const(0), *axes[axis + 1 :]])]
    equal = t.compare("eq", value, top)
    if is_float(x.dtype):
        equal = t.logical_or(equal, t.unary("isnan", value))
    position = t.cast_to(k, "int64")
    none = t.cast_to(t.index_const(-1) if last else t.as_index(extent) - 1, "int64")
    body = t.where(equal, position, none)
    return Tensor(from_body(body, best.shape, (extent,), "max" if last else "min"))


RUNNING: dict[str, tuple[int, Callable[[Term, Term], Term]]] = {"sum": (0, t.add), "prod": (1, t.mul)}
"""Neutral element and operation of what runs along an axis, by its combiner."""


def running(x: Tensor, combiner: str, axis: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Sums or products over 1, 2, 4, ... neighbours: log2(extent) passes, each of which is element-wise.

    >>> import eqsat as eq
    >>> eq.evaluate(running(eq.constant([1, 2, 3]), "sum", 0))
    array([1, 3, 6])
    """
    extent = x.shape[axis]
    sign = 1 if reverse else -1
    if not isinstance(extent, int):
        return _all_neighbours(x, combiner, axis, sign, exclusive)
    y = _neighbours(x, combiner, axis, sign, keep=False) if exclusive else x
    step = 1
    while step < extent:
        y = _neighbours(y, combiner, axis, sign * step, keep=True)
        step *= 2
    return y


def _all_neighbours(x: Tensor, combiner: str, axis: int, sign: int, exclusive: bool) -> Tensor:
    """The sum of all that come before, for an extent that is no number."""
    axes, k = output_axes(x.shape), reduce_axes((x.shape[axis],))[0]
    at = (*axes[:axis], k, *axes[axis + 1 :])
    near, far = (k, axes[axis]) if sign < 0 else (axes[axis], k)
    neutral = t.const(RUNNING[combiner][0], x.dtype)
    body = t.where(t.compare("lt" if exclusive else "le", near, far), x[at], neutral)
    return Tensor(from_body(body, x.shape, (x.shape[axis],), combiner))


def _neighbours(x: Tensor, combiner: str, axis: int, shift: int, keep: bool) -> Tensor:
    """x[i + shift], combined with x[i] with `keep`; the neutral element where there is no such neighbour."""
    neutral, combine = RUNNING[combiner]
    axes = output_axes(x.shape)
    moved: list[Term] = list(axes)
    moved[axis] = axes[axis] + shift
    near = x[tuple(moved)]
    inside = t.compare("le", 0, moved[axis]) if shift < 0 else t.compare("lt", moved[axis], t.as_index(x.shape[axis]))
    other = x[axes] if keep else t.const(neutral, x.dtype)
    body = t.where(inside, combine(x[axes], near) if keep else near, other)
    return Tensor(from_body(body, x.shape))
