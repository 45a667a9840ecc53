"""Convolutions of ONNX: the padding that `auto_pad` and `output_shape` stand for, then the formulas of `ir`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.ir.tensors.contraction import conv, conv_transpose
from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.tensors.views import pad, reshape
from eqsat.ir.terms.shape import Dim, Shape
from eqsat.onnx.call import Call, Declined, ints
from eqsat.onnx.ops.declare import WINDOW
from eqsat.onnx.ops.nodes import node
from eqsat.onnx.ops.slots import Slot, zero
from eqsat.onnx.ops.turns import Windows

Pads = tuple[tuple[int, ...], tuple[int, ...]]


def numbers(c: Call, name: str, count: int, default: int) -> tuple[int, ...]:
    """A parameter with one number per window axis."""
    found = tuple(ints(c.get(name, ()), c.op)) or (default,) * count
    if len(found) != count:
        raise Declined(c.op, f"{name} has {len(found)} numbers")
    return found


def static(extents: Sequence[Dim], what: str) -> tuple[int, ...]:
    """Extents that must be numbers here."""
    result = tuple(d for d in extents if isinstance(d, int))
    if len(result) != len(extents):
        raise Declined(what, "needs known extents")
    return result


def paddings(
    c: Call, extents: Sequence[Dim], taps: Sequence[Dim], strides: Sequence[int], apart: Sequence[int]
) -> Pads:
    """The padding before and after each window axis.

    SAME pads so that there are ceil(extent / stride) windows, the odd cell at the end (UPPER) or start (LOWER).
    """
    count, mode = len(extents), c.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        pads = numbers(c, "pads", 2 * count, 0)
        return pads[:count], pads[count:]
    if mode == "VALID":
        return (0,) * count, (0,) * count
    rows = zip(static(extents, c.op), static(taps, c.op), strides, apart, strict=True)
    totals = [max(0, (-(-d // s) - 1) * s + (k - 1) * a + 1 - d) for d, k, s, a in rows]
    return _halves(totals, mode == "SAME_UPPER")


def padded(x: Tensor, pads: Pads, value: Any = 0) -> Tensor:
    """The tensor with cells around its window axes: a View, so that windows need not ask whether a cell exists."""
    if not any((*pads[0], *pads[1])):
        return x
    return pad(x, [(0, 0), (0, 0), *zip(*pads, strict=True)], value)


def _halves(totals: Sequence[int], upper: bool) -> Pads:
    smaller, larger = tuple(p // 2 for p in totals), tuple(-(-p // 2) for p in totals)
    return (smaller, larger) if upper else (larger, smaller)


def along_channels(x: Tensor, shape: Shape) -> Tensor:
    """A vector over the channels, to be broadcast with (n, c, ...) of some shape: it has a number for each of them."""
    if x.rank != 1 or len(shape) < 2:
        raise Declined("channels", f"a factor of rank {x.rank} for rank {len(shape)}")
    known = [d for d in (x.shape[0], shape[1]) if isinstance(d, int)]
    if known == [1] or len(set(known)) > 1:
        raise Declined("channels", f"factors of extent {x.shape[0]} for {shape[1]} channels")
    return reshape(x, (x.shape[0], *(1,) * (len(shape) - 2)))


def _with_bias(y: Tensor, bias: Sequence[Tensor]) -> Tensor:
    return pointwise("Add", lambda a, b: a + b, y, along_channels(bias[0], y.shape)) if bias else y


def window_axes(c: Call, x: Tensor, w: Tensor) -> int:
    """How many axes the windows have."""
    if x.rank < 3 or w.rank != x.rank:
        raise Declined(c.op, f"weights of rank {w.rank} for rank {x.rank}")
    return x.rank - 2


@node("Conv", "x w b?", f"{WINDOW} group", leading=1, slot=Slot(zero), turning=Windows((0, 1)))
def convolution(c: Call) -> Tensor:
    x, w, *bias = c.tensors
    count = window_axes(c, x, w)
    strides, apart = numbers(c, "strides", count, 1), numbers(c, "dilations", count, 1)
    x = padded(x, paddings(c, x.shape[2:], w.shape[2:], strides, apart))
    return _with_bias(conv(x, w, strides, 0, apart, int(c.get("group", 1))), bias)


@node("ConvTranspose", "x w b?", f"{WINDOW} group output_padding output_shape", leading=1, turning=Windows((0, 1)))
def transposed(c: Call) -> Tensor:
    x, w, *bias = c.tensors
    count, mode = window_axes(c, x, w), c.get("auto_pad", "NOTSET")
    strides, apart = numbers(c, "strides", count, 1), numbers(c, "dilations", count, 1)
    more, wanted = numbers(c, "output_padding", count, 0), ints(c.get("output_shape", ()), c.op)
    if wanted or mode in ("SAME_UPPER", "SAME_LOWER"):
        extents, taps = static(x.shape[2:], c.op), static(w.shape[2:], c.op)
        sizes = wanted[-count:] or [d * s for d, s in zip(extents, strides, strict=True)]
        rows = zip(extents, taps, strides, apart, more, sizes, strict=True)
        totals = [(d - 1) * s + m + (k - 1) * a + 1 - size for d, k, s, a, m, size in rows]
        if wanted and min(totals) < 0:
            raise Declined(c.op, "runtimes disagree about outputs that no cell reaches")
        before, after = _halves([max(0, p) for p in totals], mode == "SAME_UPPER")
    else:
        before, after = paddings(c, x.shape[2:], w.shape[2:], strides, apart)
    y = conv_transpose(x, w, strides, (*before, *after), apart, int(c.get("group", 1)), more)
    return _with_bias(y, bias)
