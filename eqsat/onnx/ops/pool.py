"""Pooling of ONNX: reductions over windows of any number of axes; a padded cell is the neutral element.

A maximum with a NaN is NaN, as everywhere here; runtimes give one or the other, depending on the order of the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.run import neutral
from eqsat.ir.tensors.tensor import Tensor, from_body
from eqsat.ir.tensors.windows import Window, window
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, output_axes, reduce_axes
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined, ints
from eqsat.onnx.ops.conv import numbers, paddings
from eqsat.onnx.ops.declare import POOLING
from eqsat.onnx.ops.nodes import node
from eqsat.onnx.ops.slots import Slot, least, zero
from eqsat.onnx.ops.turns import Windows


def windows_of(c: Call, x: Tensor) -> list[Window]:
    """The windows along every axis behind batch and channel."""
    taps, count = ints(c.get("kernel_shape", ()), c.op), x.rank - 2
    if len(taps) != count or not count:
        raise Declined(c.op, f"kernel {taps} for rank {x.rank}")
    strides, apart = numbers(c, "strides", count, 1), numbers(c, "dilations", count, 1)
    befores, afters = paddings(c, x.shape[2:], taps, strides, apart)
    ceil, padded = bool(c.get("ceil_mode", 0)), c.get("auto_pad", "NOTSET") not in ("NOTSET", "")
    skips = any(k < s for k, s in zip(taps, strides, strict=True))
    if padded and (ceil or skips or max(apart) > 1):
        raise Declined(c.op, "runtimes disagree about automatic padding of such windows")
    rows = zip(x.shape[2:], taps, strides, apart, befores, afters, strict=True)
    return [window(d, k, s, a, p, q, ceil, c.op) for d, k, s, a, p, q in rows]


def pooled(x: Tensor, windows: Sequence[Window], combiner: str, element: Callable[[Term], Term]) -> Tensor:
    """Combine element(cell) over the cells of every window."""
    shape: Shape = (*x.shape[:2], *(w.outputs for w in windows))
    reduced: Shape = tuple(w.kernel for w in windows)
    n, c, *outer = output_axes(shape)
    cells = [w.position(i, k) for w, i, k in zip(windows, outer, reduce_axes(reduced), strict=True)]
    checks = [check for w, cell in zip(windows, cells, strict=True) for check in w.inside(cell)]
    value = element(x[(n, c, *cells)])
    body = t.where(t.logical_and(*checks), value, neutral(combiner, x.dtype)) if checks else value
    return Tensor(from_body(body, shape, reduced, combiner))


@node(
    "MaxPool",
    "x",
    f"{POOLING} storage_order=0|1",
    wide=False,
    leading=2,
    slot=Slot(least, short=True),
    turning=Windows(),
)
def max_pool(c: Call) -> Tensor:
    x = c.one()
    return pooled(x, windows_of(c, x), "max", lambda a: a)


@node(
    "AveragePool",
    "x",
    f"{POOLING} count_include_pad=0|1",
    leading=2,
    slot=Slot(zero, "count_include_pad", short=True),
    turning=Windows(),
)
def average_pool(c: Call) -> Tensor:
    x = c.one()
    windows = windows_of(c, x)
    total = pooled(x, windows, "sum", lambda a: a)
    axes = output_axes(total.shape)
    padded = bool(c.get("count_include_pad", 0))
    whole = all(not w.before and not w.reaches_beyond() for w in windows)
    if whole or (padded and not c.get("ceil_mode", 0)):
        count = t.product([t.as_index(w.kernel) for w in windows])
    else:
        count = t.product([w.taps(i, padded) for w, i in zip(windows, axes[2:], strict=True)])
    return Tensor(from_body(total[axes] / t.cast_to(count, x.dtype), total.shape))


def _power(p: int) -> Callable[[Term], Term]:
    if p == 1:
        return t.absolute
    return (lambda a: a * a) if p == 2 else (lambda a: t.binary("pow", t.absolute(a), float(p)))


def _root(x: Tensor, p: int) -> Tensor:
    if p == 1:
        return x
    if p == 2:
        return pointwise("Sqrt", lambda a: t.unary("sqrt", a), x)
    return pointwise("Pow", lambda a: t.binary("pow", a, 1.0 / p), x)


@node("LpPool", "x", f"{POOLING} p", leading=2, slot=Slot(zero, short=True), turning=Windows())
def lp_pool(c: Call) -> Tensor:
    x, p = c.one(), ints(c.get("p", 2), c.op)[0]
    return _root(pooled(x, windows_of(c, x), "sum", _power(p)), p)


@node("GlobalLpPool", "x", "p")
def global_lp_pool(c: Call) -> Tensor:
    x, p = c.one(), ints(c.get("p", 2), c.op)[0]
    if x.rank < 2:
        raise Declined(c.op, f"an operand of rank {x.rank}")
    return _root(pooled(x, [window(d, d) for d in x.shape[2:]], "sum", _power(p)), p)
