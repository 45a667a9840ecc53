"""Reductions of ONNX that are a reduction and something after it."""

from __future__ import annotations

from eqsat.ir.dtypes import is_float
from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.reductions import reduce
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.tensors.views import reshape
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined, reduced_axes
from eqsat.onnx.ops.declare import REDUCTION
from eqsat.onnx.ops.nodes import node


def _float_operand(c: Call) -> Tensor:
    x = c.one()
    if not is_float(x.dtype) or not reduced_axes(c, x):
        raise Declined(c.op, "integers round, or nothing is reduced")
    return x


@node("ReduceL2 ReduceLogSum", "data axes?", REDUCTION, "axes[]")
def reduce_then(c: Call) -> Tensor:
    x = _float_operand(c)
    axes, keep = reduced_axes(c, x), bool(c.get("keepdims", 1))
    if c.op == "ReduceLogSum":
        return pointwise("Log", lambda a: t.unary("log", a), reduce(x, "sum", axes, keep))
    squares = pointwise("Mul", lambda a: a * a, x)
    return pointwise("Sqrt", lambda a: t.unary("sqrt", a), reduce(squares, "sum", axes, keep))


@node("ReduceLogSumExp", "data axes?", REDUCTION, "axes[]")
def reduce_log_sum_exp(c: Call) -> Tensor:
    """log(sum(exp(x - m))) + m with m the maximum, or 0 where that is not finite."""
    x = _float_operand(c)
    axes, keep = reduced_axes(c, x), bool(c.get("keepdims", 1))

    def finite(a: Term) -> Term:
        return t.where(t.logical_or(t.unary("isinf", a), t.unary("isnan", a)), t.const(0, a.dtype), a)

    top = pointwise("Where", finite, reduce(x, "max", axes, True))
    total = reduce(pointwise("Exp", lambda a, b: t.unary("exp", a - b), x, top), "sum", axes, keep)
    level = top if keep else reshape(top, total.shape)
    return pointwise("Add", lambda a, b: t.unary("log", a) + b, total, level)
