"""ONNX operators along axes: the softmax family, running sums, and the place of an extreme value."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ir.dtypes import is_float
from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.reductions import reduce
from eqsat.ir.tensors.tensor import Tensor, from_body
from eqsat.ir.tensors.views import reshape
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import as_dim, normalize_axis, output_axes, reduce_axes, size_term
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined, ints
from eqsat.onnx.defined.definitions import formula


def softmax_axes(c: Call, x: Tensor) -> tuple[int, ...]:
    """The axes that are normalised together: before opset 13 all from `axis` on."""
    axis = normalize_axis(int(c.get("axis", -1 if c.opset >= 13 else 1)), x.rank, c.op)
    return (axis,) if c.opset >= 13 else tuple(range(axis, x.rank))


def _shifted(x: Tensor, axes: Sequence[int]) -> Tensor:
    return pointwise("Sub", lambda a, b: a - b, x, reduce(x, "max", axes, True))


@formula("Softmax", "input", "axis")
def softmax(c: Call) -> Tensor:
    x = c.one()
    axes = softmax_axes(c, x)
    e = pointwise("Exp", lambda a: t.unary("exp", a), _shifted(x, axes))
    return pointwise("Div", lambda a, b: a / b, e, reduce(e, "sum", axes, True))


@formula("LogSoftmax", "input", "axis")
def log_softmax(c: Call) -> Tensor:
    x = c.one()
    axes = softmax_axes(c, x)
    top = reduce(x, "max", axes, True)
    e = pointwise("Exp", lambda a, b: t.unary("exp", a - b), x, top)
    log = pointwise("Log", lambda a: t.unary("log", a), reduce(e, "sum", axes, True))

    def rest(a: Term, m: Term, b: Term) -> Term:
        return a - m - b

    return pointwise("Sub", rest, x, top, log)


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


@formula("ArgMax ArgMin", "data", "axis keepdims=0|1 select_last_index=0|1", wide=False)
def arg_extreme(c: Call) -> Tensor:
    x = c.one()
    axis = normalize_axis(int(c.get("axis", 0)), x.rank, c.op)
    combiner = "max" if c.op == "ArgMax" else "min"
    place = first_place(x, axis, combiner, bool(c.get("select_last_index", 0)))
    if c.get("keepdims", 1):
        return place
    shape = tuple(d for n, d in enumerate(place.shape) if n != axis)
    axes = output_axes(shape)
    return Tensor(from_body(place[(*axes[:axis], t.index_const(0), *axes[axis:])], shape))


@formula("Hardmax", "input", "axis", wide=False)
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


@formula("CumSum", "x axis", "axis exclusive=0|1 reverse=0|1", wide=False)
def cum_sum(c: Call) -> Tensor:
    """Sums over 1, 2, 4, ... neighbours: log2(extent) passes, each of which is element-wise."""
    x = c.one()
    axis = normalize_axis(ints(c.get("axis", 0), c.op)[0], x.rank, c.op)
    extent = x.shape[axis]
    if not isinstance(extent, int):
        raise Declined(c.op, "the number of passes depends on the extent")
    sign = 1 if c.get("reverse", 0) else -1
    y = _neighbours(x, axis, sign, keep=False) if c.get("exclusive", 0) else x
    step = 1
    while step < extent:
        y = _neighbours(y, axis, sign * step, keep=True)
        step *= 2
    return y if y is not x else pointwise("Identity", lambda a: a, x)


def _neighbours(x: Tensor, axis: int, shift: int, keep: bool) -> Tensor:
    """x[i + shift], added to x[i] with `keep`; 0 where there is no such neighbour."""
    axes = output_axes(x.shape)
    moved: list[Term] = list(axes)
    moved[axis] = axes[axis] + shift
    near = x[tuple(moved)]
    inside = t.compare("le", 0, moved[axis]) if shift < 0 else t.compare("lt", moved[axis], t.as_index(x.shape[axis]))
    body = t.where(inside, x[axes] + near, x[axes]) if keep else t.where(inside, near, t.const(0, x.dtype))
    return Tensor(from_body(body, x.shape))
