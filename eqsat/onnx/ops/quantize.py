"""Linear quantisation of ONNX, per tensor or per position of one axis."""

from __future__ import annotations

from eqsat.ir.dtypes import is_float
from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.tensors.views import reshape
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import normalize_axis
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined
from eqsat.onnx.ops.nodes import node


def _parameters(c: Call) -> tuple[Tensor, list[Tensor]]:
    """The operand, and scale and zero point to be broadcast with it."""
    x, *given = c.tensors
    if any(p.rank > 1 for p in given):
        raise Declined(c.op, "by blocks")
    axis = normalize_axis(int(c.get("axis", 1)), x.rank, c.op) if any(p.rank for p in given) else 0
    behind = (1,) * (x.rank - axis - 1)
    return x, [reshape(p, (p.shape[0], *behind)) if p.rank else p for p in given]


@node(
    "QuantizeLinear",
    "x y_scale y_zero_point?",
    "axis saturate=0|1 output_dtype precision block_size=0",
    wide=False,
    along=13,
    leading=0,
    scaled=1,
)
def quantize(c: Call) -> Tensor:
    """The nearest (ties to even) multiple of the scale, counted from the zero point, limited to the type."""
    x, (scale, *zero) = _parameters(c)
    dtype = zero[0].dtype if zero else "uint8"
    if x.dtype != "float32" or scale.dtype != "float32" or is_float(dtype) or c.get("precision", 0):
        raise Declined(c.op, f"from {x.dtype} to {dtype}")

    def body(a: Term, s: Term, *z: Term) -> Term:
        nearest = t.unary("round", a / s)
        return t.cast_to(nearest + t.cast_to(z[0], "float32") if z else nearest, dtype)

    return pointwise("Quantize", body, x, scale, *zero)


@node(
    "DequantizeLinear",
    "x x_scale x_zero_point?",
    "axis output_dtype block_size=0",
    wide=False,
    along=13,
    leading=0,
    scaled=1,
)
def dequantize(c: Call) -> Tensor:
    x, (scale, *zero) = _parameters(c)
    if x.dtype not in ("int8", "uint8", "int16", "uint16", "int32") or scale.dtype != "float32":
        raise Declined(c.op, f"from {x.dtype} to {scale.dtype}")

    def body(a: Term, s: Term, *z: Term) -> Term:
        steps = t.cast_to(a, "int32") - t.cast_to(z[0], "int32") if z else a
        return t.cast_to(steps, "float32") * s

    return pointwise("Dequantize", body, x, scale, *zero)
