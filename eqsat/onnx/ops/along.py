"""ONNX operators along axes: the softmax family, running sums and products, the place of an extreme value."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.reductions import reduce, softmax_formula
from eqsat.ir.tensors.scans import first_place, running
from eqsat.ir.tensors.tensor import Tensor, from_body
from eqsat.ir.tensors.views import reshape
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import as_dim, output_axes, size_term
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


@node("CumSum CumProd", "x axis", "exclusive=0|1 reverse=0|1", "axis", wide=False, along=1)
def cumulative(c: Call) -> Tensor:
    x = c.one()
    combiner = "sum" if c.op == "CumSum" else "prod"
    y = running(x, combiner, int(c.attrs["axis"]), bool(c.get("exclusive", 0)), bool(c.get("reverse", 0)))
    return y if y is not x else pointwise("Identity", lambda a: a, x)
