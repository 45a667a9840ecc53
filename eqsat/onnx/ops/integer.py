"""Products of quantised numbers: exact ones as formulas over int32, rounded ones as signatures.

The kernels of runtimes multiply scales and round in one step or in several, so that a rounded result is not one number.
"""

from __future__ import annotations

from eqsat.ir.tensors.contraction import conv
from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.reductions import matmul, reduce
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.tensors.views import reshape
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined
from eqsat.onnx.ops.conv import numbers, padded, paddings, window_axes
from eqsat.onnx.ops.declare import WINDOW
from eqsat.onnx.ops.nodes import node
from eqsat.onnx.ops.signatures import spelled
from eqsat.onnx.ops.table import by_signature
from eqsat.onnx.ops.turns import Windows

ROWS = 4
"""Inputs of the integer products: two operands and their zero points."""


def _wide(x: Tensor, zero: Tensor | None) -> Tensor:
    """The steps from the zero point, in int32."""
    if zero is None:
        return pointwise("Cast", lambda a: t.cast_to(a, "int32"), x)
    return pointwise("Sub", lambda a, z: t.cast_to(a, "int32") - t.cast_to(z, "int32"), x, zero)


def _operands(c: Call) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    a, b, first, second = [*c.operands, None, None][:ROWS]
    if a is None or b is None:
        raise Declined(c.op, "an operand is missing")
    return a, b, first, second


@node("MatMulInteger", "a b a_zero_point? b_zero_point?", wide=False)
def matmul_integer(c: Call) -> Tensor:
    a, b, first, second = _operands(c)
    if first is not None and first.rank == 1 and first.shape != (1,):
        first = reshape(first, (first.shape[0], 1))
    return matmul(_wide(a, first), _wide(b, second))


@node(
    "ConvInteger",
    "x w x_zero_point? w_zero_point?",
    f"{WINDOW} group",
    wide=False,
    leading=1,
    turning=Windows((0, 1)),
)
def conv_integer(c: Call) -> Tensor:
    """What is around the operand is its zero point."""
    x, w, first, second = _operands(c)
    count = window_axes(c, x, w)
    strides, apart = numbers(c, "strides", count, 1), numbers(c, "dilations", count, 1)
    if second is not None and second.rank == 1:
        second = reshape(second, (second.shape[0], *((1,) * (w.rank - 1))))
    wide = padded(_wide(x, first), paddings(c, x.shape[2:], w.shape[2:], strides, apart))
    return conv(wide, _wide(w, second), strides, 0, apart, int(c.get("group", 1)))


def _scales(c: Call, slot: int, whole: str) -> str:
    """The axes of the scale or zero point in a slot: none, or those given."""
    x = c.operands[slot] if slot < len(c.operands) else None
    return "()" if x is None or not x.rank else whole


@by_signature(
    "QLinearConv",
    "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point b?",
    f"{WINDOW} group",
    turning=Windows((0, 3)),
)
def qlinear_conv(c: Call) -> Signature:
    """Rows of a batch, and without groups the output channels, are independent; the sum over channels is exact."""
    x = c.tensors[0]
    inner, outer, taps = (" ".join(f"{p}{n}" for n in range(x.rank - 2)) for p in "iok")
    plain = int(c.get("group", 1)) == 1
    one = [_scales(c, n, name) for n, name in ((1, "p"), (2, "q"), (4, "m"), (5, "m"), (6, "u"), (7, "v"))]
    rows = ", ".join([f"n c {inner}", *one[:2], f"m {'c' if plain else 'g'} {taps}", *one[2:], "m"])
    return spelled(c, f"{rows} -> n m {outer}", map="n m" if plain else "n", reduce="c" if plain else "")


@by_signature("QLinearMatMul", "a a_scale a_zero_point b b_scale b_zero_point y_scale y_zero_point")
def qlinear_matmul(c: Call) -> Signature:
    """A product with one scale for each operand; the sum is exact."""
    a, b = c.tensors[0], c.tensors[3]
    if min(a.rank, b.rank) < 2 or any(x.rank for n, x in enumerate(c.tensors) if n not in (0, 3)):
        raise Declined(c.op, "vectors, or scales by row")
    rank = max(a.rank, b.rank) - 2
    batch = [f"b{n}" for n in range(rank)]
    left, right = (" ".join(batch[rank + 2 - x.rank :]) for x in (a, b))
    whole = " ".join(batch)
    text = f"{left} m k, (), (), {right} k n, (), (), (), () -> {whole} m n"
    return spelled(c, text, map=f"{whole} m n", reduce="k")


@node("DynamicQuantizeLinear", "x", wide=False)
def dynamic_quantize(c: Call) -> list[Tensor]:
    """Steps of 1/255 of the range, which includes 0, counted from where that lies."""
    x = c.one()
    if not x.rank or x.dtype != "float32":
        raise Declined(c.op, "a scalar")
    axes = tuple(range(x.rank))
    low = pointwise("Min", lambda a: t.binary("min", a, 0), reduce(x, "min", axes, False))
    high = pointwise("Max", lambda a: t.binary("max", a, 0), reduce(x, "max", axes, False))
    scale = pointwise("Div", lambda a, b: (a - b) / 255, high, low)

    def limited(m: Term, s: Term) -> Term:
        return t.binary("min", t.binary("max", t.unary("round", -m / s), 0), 255)

    level = pointwise("Clip", limited, low, scale)
    zero = pointwise("Cast", lambda z: t.cast_to(z, "uint8"), level)

    def steps(a: Term, s: Term, z: Term) -> Term:
        return t.cast_to(t.unary("round", a / s) + z, "uint8")

    y = pointwise("Quantize", steps, x, scale, level)
    return [y, scale, zero]
