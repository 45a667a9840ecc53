"""Reductions and products of ONNX that are a reduction and something after it."""

from __future__ import annotations

from eqsat.ir.dtypes import is_float
from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.reductions import contract, reduce
from eqsat.ir.tensors.tensor import Tag, Tensor
from eqsat.ir.tensors.views import reshape
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined, reduced_axes
from eqsat.onnx.declare import PRODUCT, REDUCTION
from eqsat.onnx.defined.definitions import formula


def _float_operand(c: Call) -> Tensor:
    x = c.one()
    if not is_float(x.dtype):
        raise Declined(c.op, "integers round")
    return x


@formula("ReduceL2 ReduceLogSum", "data axes?", f"{REDUCTION} axes")
def reduce_then(c: Call) -> Tensor:
    x = _float_operand(c)
    axes, keep = reduced_axes(c, x), bool(c.get("keepdims", 1))
    if c.op == "ReduceLogSum":
        return pointwise("Log", lambda a: t.unary("log", a), reduce(x, "sum", axes, keep))
    squares = pointwise("Mul", lambda a: a * a, x)
    return pointwise("Sqrt", lambda a: t.unary("sqrt", a), reduce(squares, "sum", axes, keep))


@formula("ReduceLogSumExp", "data axes?", f"{REDUCTION} axes")
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


@formula("Gemm", "a b c?", PRODUCT)
def gemm(c: Call) -> Tensor:
    a, b, *rest = c.tensors
    if not is_float(a.dtype):
        raise Declined(c.op, "integers are scaled")
    rows, columns = "km" if c.get("transA", 0) else "mk", "nk" if c.get("transB", 0) else "kn"
    product = contract(f"{rows},{columns}->mn", a, b, Tag("Gemm"))
    alpha, beta = float(c.parameter("alpha")), float(c.parameter("beta"))
    if not rest:
        return pointwise("Mul", lambda p: p * alpha, product)
    return pointwise("Add", lambda p, q: p * alpha + q * beta, product, rest[0])
