"""Maxima and means over windows as pools, of the windows that an index formula has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.ir.dtypes import NDArray, is_float, lowest
from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.tensor import Compute, Constant, Tensor
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.shape import Shape, output_axes, reduce_axes, same_dim, same_shape, static_shape
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of
from eqsat.onnx.call import Call
from eqsat.onnx.formulas.contract import MAX_WINDOWS, factors, operand, placed, relaid, total
from eqsat.onnx.formulas.data_terms import reads_data
from eqsat.onnx.formulas.windows import Read, Sliding, never_empty, read_windows
from eqsat.onnx.ops.table import apply


def _pool_operand(node: Compute, load: Term, guard: Sequence[Term]) -> tuple[Tensor, Read, list[list[Term]]] | None:
    """The operand of a pool as (rows, channels, *positions), its windows, and the axes of the result."""
    source = operand(node, load)
    read = read_windows(load.args, source.shape, guard)
    if (
        read is None
        or len(read.windows) > MAX_WINDOWS
        or not never_empty(node.shape)
        or {w.tap for w in read.windows} != set(reduce_axes(node.reduce))
    ):
        return None
    for w in read.windows:
        taps = t.int_value(w.tap.args[0])
        if taps is None or w.pads is None or max(w.pads) >= taps:
            return None  # a window of padding alone, which runtimes refuse
    outers = [w.outer for w in read.windows]
    rest = [a for a in output_axes(node.shape) if a not in set(outers)]
    groups = [rest[:1], rest[1:], *([a] for a in outers)]
    x = relaid(source, read.index, [*groups[:2], *([y] for y in read.places)])
    return x, read, groups


def _pooled(op: str, x: Tensor, windows: Sequence[Sliding], shape: Shape, opset: int, **more: int) -> Tensor:
    pads = [p for w in windows if (p := w.pads) is not None]
    attrs: dict[str, Any] = {
        "kernel_shape": tuple(t.int_value(w.tap.args[0]) for w in windows),
        "strides": tuple(w.stride for w in windows),
        "pads": (*(p for p, _ in pads), *(p for _, p in pads)),
        **more,
    }
    if any(w.dilation != 1 for w in windows):
        attrs["dilations"] = tuple(w.dilation for w in windows)
    return apply(Call(op, (x,), attrs, opset, types=((shape, x.dtype),)))[0]


def as_max_pool(node: Compute, opset: int) -> Tensor | None:
    """A maximum over windows as a MaxPool; where a window holds a NaN, which runtimes lose, the result is NaN."""
    dtype = node.outputs[0][1]
    if node.combiner != "max" or dtype not in ("float16", "float32", "float64", "int8", "uint8"):
        return None
    found = factors(node.body, lowest(dtype))
    if found is None or len(found.loads) != 1:
        return None
    made = _pool_operand(node, found.loads[0], found.guard)
    if made is None:
        return None
    x, read, groups = made
    shape: Shape = tuple(total(g) for g in groups)
    y = _pooled("MaxPool", x, read.windows, shape, opset)
    if is_float(dtype):
        unknown = pointwise("isnan", lambda a: t.cast_to(t.unary("isnan", a), "float32"), x)
        lost = _pooled("MaxPool", unknown, read.windows, shape, opset)
        y = pointwise("nan", lambda a, b: t.where(t.compare("lt", 0.0, b), t.const(math.nan, dtype), a), y, lost)
    return placed(y, groups, output_axes(node.shape))


def as_average_pool(node: Compute, opset: int) -> Tensor | None:
    """A sum over windows, divided by the number of cells of a window, as an AveragePool."""
    found = _mean(node) if node.outputs[0][1] in ("float16", "float32") else None
    made = None if found is None else _pool_operand(found.node, found.load, found.guard)
    if found is None or made is None:
        return None
    x, read, groups = made
    padded = _counts_padding(node, found.count, read.windows)
    if padded is None or (opset < 19 and any(w.dilation != 1 for w in read.windows)):
        return None
    shape: Shape = tuple(total(g) for g in groups)
    y = _pooled("AveragePool", x, read.windows, shape, opset, **({"count_include_pad": 1} if padded else {}))
    return placed(y, groups, output_axes(found.node.shape))


@dataclass(frozen=True, eq=False)
class Mean(Record):
    """A sum of one load in a node, divided by a number: of the sum, or of every cell."""

    node: Compute
    load: Term
    guard: tuple[Term, ...]
    count: Term


def _mean(node: Compute) -> Mean | None:
    if node.combiner is None:
        inner = quotient_of_sum(node)
        found = None if inner is None or inner.ordered else factors(inner.body, 0.0)
        if inner is None or found is None or len(found.loads) != 1:
            return None
        return Mean(inner, found.loads[0], found.guard, _number(node, node.body.args[1]))
    body, guard = node.body, tuple[Term, ...]()
    if body.op == "where" and t.is_const(body.args[2], 0.0):
        guard = body.args[0].args if body.args[0].op == "and" else (body.args[0],)
        body = body.args[1]
    if node.combiner != "sum" or node.ordered or body.op != "div" or body.args[1].op != "const":
        return None
    found = factors(body.args[0], 0.0)
    if found is None or len(found.loads) != 1:
        return None
    return Mean(node, found.loads[0], (*guard, *found.guard), body.args[1])


def _number(node: Compute, x: Term) -> Term:
    """A load of a constant of one cell as that number."""
    source = operand(node, x).node if x.op == "load" and isinstance(x.payload, int) else None
    if not isinstance(source, Constant) or source.array.size != 1:
        return x
    return t.const(source.array.reshape(())[()], x.dtype)


def quotient_of_sum(node: Compute) -> Compute | None:
    """The sum that a formula divides element by element."""
    body = node.body
    divided = body.args[0] if body.op == "div" and node.combiner is None else None
    if divided is None or divided.op != "load" or not isinstance(divided.payload, int):
        return None
    inner = node.operands[divided.payload].node
    if not isinstance(inner, Compute) or inner.combiner != "sum" or not same_shape(inner.shape, node.shape):
        return None
    plain = zip(divided.args, output_axes(node.shape), inner.shape, strict=True)
    return inner if all(i is a or (t.is_const(i, 0) and same_dim(d, 1)) for i, a, d in plain) else None


def _counts_padding(node: Compute, count: Term, windows: Sequence[Sliding]) -> bool | None:
    """Whether a divisor is the number of all taps (True) or of those that read a cell (False); None where neither."""
    taps = math.prod(t.int_value(w.tap.args[0]) or 0 for w in windows)
    if count.op == "const":
        return any(max(w.pads or (0, 0)) for w in windows) if float(t.const_value(count)) == taps else None
    shape = static_shape(node.shape)
    axes = output_axes(node.shape)
    if shape is None or reads_data(count) or nodes_of("sym", count):
        return None
    cells: NDArray = np.ones((1,) * len(shape), np.int64)
    for w in windows:
        n = int(w.outer.payload[1])
        first = np.arange(shape[n])[:, None] * w.stride + np.arange(t.int_value(w.tap.args[0]) or 0) * w.dilation
        low, high = t.int_value(w.low), t.int_value(w.high)
        if low is None or high is None:
            return None
        own = ((first >= low) & (first <= high)).sum(axis=1)
        cells = cells * own.reshape([-1 if k == n else 1 for k in range(len(shape))])
    grid = dict(zip(axes, np.indices(shape, dtype=np.int64, sparse=True), strict=True))
    value, bad = evaluate_masked([count], grid, load_table)[0]
    return False if bad is None and bool((np.broadcast_to(value, shape) == cells).all()) else None
