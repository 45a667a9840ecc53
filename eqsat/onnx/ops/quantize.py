"""Linear quantisation of ONNX, per tensor or per position of one axis."""

from __future__ import annotations

from eqsat.ir.dtypes import is_float
from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Tensor, View
from eqsat.ir.tensors.views import reshape
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, as_dim, format_shape, normalize_axis, output_axes, same_dim, same_shape
from eqsat.ir.terms.term import Term, as_index
from eqsat.onnx.call import Call, Declined
from eqsat.onnx.ops.nodes import node
from eqsat.onnx.ops.signatures import spelled


def _parameters(c: Call) -> tuple[Tensor, list[Tensor]]:
    """The operand, and scale and zero point to be broadcast with it."""
    x, *given = c.tensors
    axis = normalize_axis(int(c.get("axis", 1)), x.rank, c.op) if any(p.rank for p in given) else 0
    block = int(c.get("block_size", 0))
    if block:
        if any(same_dim(p.shape[axis], 1) for p in given if p.rank == x.rank):
            raise Declined(c.op, "one block: its axis is like no other, and has no label that says so")
        return x, [_in_blocks(c.op, p, x.shape, axis, block) for p in given]
    if any(p.rank > 1 for p in given):
        raise Declined(c.op, "parameters of more than one axis")
    behind = (1,) * (x.rank - axis - 1)
    return x, [reshape(p, (p.shape[0], *behind)) if p.rank else p for p in given]


def _in_blocks(op: str, p: Tensor, shape: Shape, axis: int, block: int) -> Tensor:
    """A parameter with a cell for each block of positions along an axis, for each position."""
    blocks = as_dim(-(-as_index(shape[axis]) // block))
    if block < 0 or not same_shape(p.shape, (*shape[:axis], blocks, *shape[axis + 1 :])):
        raise Declined(
            op, f"blocks of {block} cells of {format_shape(shape)} have no parameters {format_shape(p.shape)}"
        )
    axes = output_axes(shape)
    index = [a // block if n == axis else a for n, a in enumerate(axes)]
    return Tensor(View(p, shape, index, t.TRUE, None))


def each_by_itself(c: Call) -> Signature:
    """Every cell is computed by itself, whatever the types are; of blocks of an axis nothing is said."""
    x, *given = c.tensors
    axis = normalize_axis(int(c.get("axis", 1)), x.rank, c.op) if any(p.rank for p in given) else 0
    names = [f"a{n}" for n in range(x.rank)]
    blocks = bool(c.get("block_size", 0))
    texts = [" ".join(names)]
    for p in given:
        alone = p.rank == 1 and same_dim(p.shape[0], 1)  # of one axis: runtimes take it for a number
        if blocks and p.rank == x.rank and not alone:
            texts.append(" ".join("block" if n == axis else a for n, a in enumerate(names)))
        elif p.rank < 2 and not blocks:
            texts.append(names[axis] if p.rank else "()")
        else:
            raise Declined(c.op, f"a parameter of rank {p.rank}")
    return spelled(c, f"{', '.join(texts)} -> {texts[0]}", " ".join(a for a in names if not blocks or a != names[axis]))


@node(
    "QuantizeLinear",
    "x y_scale y_zero_point?",
    "axis saturate=0|1 output_dtype precision block_size",
    wide=False,
    along=13,
    otherwise=each_by_itself,
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
    "axis output_dtype block_size",
    wide=False,
    along=13,
    otherwise=each_by_itself,
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
