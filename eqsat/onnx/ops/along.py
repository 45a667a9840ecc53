"""ONNX operators along axes: the softmax family, running sums and products, the place of an extreme value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eqsat.ir.dtypes import is_float
from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.reductions import reduce, softmax_formula
from eqsat.ir.tensors.tensor import Tensor, from_body
from eqsat.ir.tensors.views import reshape
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import as_dim, output_axes, reduce_axes, size_term
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call
from eqsat.onnx.ops.nodes import node


def softmax_axes(c: Call, x: Tensor) -> tuple[int, ...]:
    """The axes that are normalised together: before opset 13 all from `axis` on."""
    axis = int(c.attrs["axis"])
    return (axis,) if c.opset >= 13 else tuple(range(axis, x.rank))


@node("Softmax", "input", "axis", along=13)
def softmax(c: Call) -> Tensor:
    x = c.one()
    return softmax_formula(x, softmax_axes(c, x))


def log_softmax_formula(x: Tensor, axes: Sequence[int]) -> Tensor:
    """x - max - log(sum(exp(x - max))) along some axes."""
    top = reduce(x, "max", tuple(axes), True)
    e = pointwise("Exp", lambda a, b: t.unary("exp", a - b), x, top)
    log = pointwise("Log", lambda a: t.unary("log", a), reduce(e, "sum", tuple(axes), True))

    def rest(a: Term, m: Term, b: Term) -> Term:
        return a - m - b

    return pointwise("Sub", rest, x, top, log)


@node("LogSoftmax", "input", "axis", along=13)
def log_softmax(c: Call) -> Tensor:
    x = c.one()
    return log_softmax_formula(x, softmax_axes(c, x))


def first_place(x: Tensor, axis: int, combiner: str, last: bool = False) -> Tensor:
    """The position (int64) of the extreme value along an axis, extent 1 there: the first one, or the last.

    As in numpy, a NaN is more extreme than any number.
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


@node("ArgMax ArgMin", "data", "axis keepdims=0|1 select_last_index=0|1", wide=False, along=1)
def arg_extreme(c: Call) -> Tensor:
    x = c.one()
    axis = int(c.attrs["axis"])
    combiner = "max" if c.op == "ArgMax" else "min"
    place = first_place(x, axis, combiner, bool(c.get("select_last_index", 0)))
    if c.get("keepdims", 1):
        return place
    shape = tuple(d for n, d in enumerate(place.shape) if n != axis)
    axes = output_axes(shape)
    return Tensor(from_body(place[(*axes[:axis], t.index_const(0), *axes[axis:])], shape))


@node("Hardmax", "input", "axis", wide=False, along=13)
def hardmax(c: Call) -> Tensor:
    """1 at the first maximum of each row, where the axes that are taken together are one row."""
    x = c.one()
    axes = softmax_axes(c, x)
    axis = axes[0]
    rows = reshape(x, (*x.shape[:axis], as_dim(size_term(x.shape[axis:])))) if len(axes) > 1 else x
    place, index = first_place(rows, axis, "max"), output_axes(rows.shape)
    first = place[(*index[:axis], t.index_const(0), *index[axis + 1 :])]
    hit = t.compare("eq", first, t.cast_to(index[axis], "int64"))
    made = Tensor(from_body(t.where(hit, t.const(1, x.dtype), t.const(0, x.dtype)), rows.shape))
    return reshape(made, x.shape) if len(axes) > 1 else made


RUNNING: dict[str, tuple[str, int, Callable[[Term, Term], Term]]] = {
    "CumSum": ("sum", 0, t.add),
    "CumProd": ("prod", 1, t.mul),
}
"""Combiner, neutral element and operation of what runs along an axis."""


@node("CumSum CumProd", "x axis", "exclusive=0|1 reverse=0|1", "axis", wide=False, along=1)
def running(c: Call) -> Tensor:
    """Sums over 1, 2, 4, ... neighbours: log2(extent) passes, each of which is element-wise."""
    x = c.one()
    axis = int(c.attrs["axis"])
    extent = x.shape[axis]
    sign, exclusive = 1 if c.get("reverse", 0) else -1, bool(c.get("exclusive", 0))
    if not isinstance(extent, int):
        return _all_neighbours(c.op, x, axis, sign, exclusive)
    y = _neighbours(c.op, x, axis, sign, keep=False) if exclusive else x
    step = 1
    while step < extent:
        y = _neighbours(c.op, y, axis, sign * step, keep=True)
        step *= 2
    return y if y is not x else pointwise("Identity", lambda a: a, x)


def _all_neighbours(op: str, x: Tensor, axis: int, sign: int, exclusive: bool) -> Tensor:
    """The sum of all that come before, for an extent that is no number."""
    combiner, neutral, _ = RUNNING[op]
    axes, k = output_axes(x.shape), reduce_axes((x.shape[axis],))[0]
    at = (*axes[:axis], k, *axes[axis + 1 :])
    near, far = (k, axes[axis]) if sign < 0 else (axes[axis], k)
    body = t.where(t.compare("lt" if exclusive else "le", near, far), x[at], t.const(neutral, x.dtype))
    return Tensor(from_body(body, x.shape, (x.shape[axis],), combiner))


def _neighbours(op: str, x: Tensor, axis: int, shift: int, keep: bool) -> Tensor:
    """x[i + shift], combined with x[i] with `keep`; the neutral element where there is no such neighbour."""
    _, neutral, combine = RUNNING[op]
    axes = output_axes(x.shape)
    moved: list[Term] = list(axes)
    moved[axis] = axes[axis] + shift
    near = x[tuple(moved)]
    inside = t.compare("le", 0, moved[axis]) if shift < 0 else t.compare("lt", moved[axis], t.as_index(x.shape[axis]))
    other = x[axes] if keep else t.const(neutral, x.dtype)
    body = t.where(inside, combine(x[axes], near) if keep else near, other)
    return Tensor(from_body(body, x.shape))
