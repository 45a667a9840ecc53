"""The small integers that a model computes from shapes and constants: the sizes of reshapes, slices and pads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from eqsat.ir.dtypes import NDArray

MOST = 64
Shapes = Callable[[str], tuple[int, ...] | None]


def folded(node: NodeProto, opset: int, known: Mapping[str, NDArray], shape: Shapes) -> NDArray | None:
    """The value of a node's only output, where it follows from numbers that are known; else None."""
    rule = _RULES.get(node.op_type)
    if rule is None or node.domain not in ("", "ai.onnx") or len(node.output) != 1:
        return None
    attributes: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    try:
        if node.op_type in ("Shape", "Size"):
            dims = shape(node.input[0])
            return None if dims is None else rule([np.array(dims, np.int64)], attributes, opset)
        operands = [known[n] if n else None for n in node.input]
        found = rule(operands, attributes, opset)
    except (KeyError, ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError):
        return None
    return found if found is not None and found.size <= MOST and found.dtype.kind in "iub" else None


Rule = Callable[[Sequence[Any], Mapping[str, Any], int], "NDArray | None"]


def _only(attributes: Mapping[str, Any], *names: str) -> None:
    """An attribute of a later opset means something that is not known here."""
    if set(attributes) - set(names):
        raise ValueError


def _shape(x: Sequence[Any], a: Mapping[str, Any], opset: int) -> NDArray:
    _only(a, "start", "end")
    return x[0][slice(a.get("start", 0), a.get("end"))]


def _size(x: Sequence[Any], a: Mapping[str, Any], opset: int) -> NDArray:
    return np.asarray(prod(int(d) for d in x[0]), np.int64)


def _gather(x: Sequence[Any], a: Mapping[str, Any], opset: int) -> NDArray:
    _only(a, "axis")
    return np.asarray(np.take(x[0], x[1], axis=a.get("axis", 0)))


def _axes(x: Sequence[Any], a: Mapping[str, Any]) -> list[int] | None:
    _only(a, "axes")
    if "axes" in a:
        return [int(v) for v in a["axes"]]
    return None if len(x) < 2 or x[1] is None else [int(v) for v in x[1]]


def _unsqueeze(x: Sequence[Any], a: Mapping[str, Any], opset: int) -> NDArray:
    axes = _axes(x, a)
    if axes is None:
        raise ValueError
    return np.expand_dims(x[0], tuple(axes))


def _squeeze(x: Sequence[Any], a: Mapping[str, Any], opset: int) -> NDArray:
    axes = _axes(x, a)
    return np.squeeze(x[0], None if axes is None else tuple(axes))


def _concat(x: Sequence[Any], a: Mapping[str, Any], opset: int) -> NDArray:
    _only(a, "axis")
    return np.concatenate(list(x), a.get("axis", 1))


def _slice(x: Sequence[Any], a: Mapping[str, Any], opset: int) -> NDArray:
    _only(a)
    starts, ends = x[1], x[2]
    axes = x[3] if len(x) > 3 and x[3] is not None else np.arange(len(starts))
    steps = x[4] if len(x) > 4 and x[4] is not None else np.ones(len(starts), np.int64)
    index = [slice(None)] * x[0].ndim
    for s, e, n, step in zip(starts, ends, axes, steps, strict=True):
        index[int(n)] = _range(int(s), int(e), int(step), x[0].shape[int(n)])
    return x[0][tuple(index)]


def _range(start: int, end: int, step: int, extent: int) -> slice:
    if step > 0:
        return slice(start, end, step)
    start, end = start + extent if start < 0 else start, end + extent if end < 0 else end
    if not step or end >= extent:  # runtimes differ on a backward slice that ends beyond the end
        raise ValueError
    return slice(min(max(start, 0), extent - 1), end if end >= 0 else None, step)


def _reshape(x: Sequence[Any], a: Mapping[str, Any], opset: int) -> NDArray:
    _only(a, "allowzero")
    if opset < 5 or bool((x[1] == 0).any()):
        raise ValueError
    return x[0].reshape([int(d) for d in x[1]])


def _transpose(x: Sequence[Any], a: Mapping[str, Any], opset: int) -> NDArray:
    _only(a, "perm")
    return np.transpose(x[0], a.get("perm"))


def _cast(x: Sequence[Any], a: Mapping[str, Any], opset: int) -> NDArray:
    _only(a, "to")
    target = helper.tensor_dtype_to_np_dtype(a["to"])
    if target.kind not in "iub" or x[0].dtype.kind not in "iub":
        raise ValueError
    return x[0].astype(target)


def _constant_of_shape(x: Sequence[Any], a: Mapping[str, Any], opset: int) -> NDArray:
    if prod(int(d) for d in x[0]) > MOST:
        raise ValueError
    value = numpy_helper.to_array(a["value"]).reshape(()) if "value" in a else np.zeros((), np.float32)
    return np.full([int(d) for d in x[0]], value)


def _div(a: NDArray, b: NDArray) -> NDArray:
    if a.dtype.kind not in "iu" or bool((np.asarray(b) == 0).any()):
        raise ValueError
    quotient = np.abs(a) // np.abs(b)
    return np.asarray(np.where((a < 0) != (b < 0), -quotient, quotient), a.dtype)


def _two(function: Callable[[Any, Any], Any]) -> Rule:
    def rule(x: Sequence[Any], a: Mapping[str, Any], opset: int) -> NDArray:
        _only(a)
        if opset < 7:
            raise ValueError
        return np.asarray(function(*x))

    return rule


def _identity(x: Sequence[Any], a: Mapping[str, Any], opset: int) -> NDArray:
    return x[0]


_RULES: Mapping[str, Rule] = {
    "Shape": _shape, "Size": _size, "Gather": _gather, "Unsqueeze": _unsqueeze, "Squeeze": _squeeze, "Concat": _concat,
    "Slice": _slice, "Cast": _cast, "ConstantOfShape": _constant_of_shape, "Identity": _identity, "Add": _two(np.add),
    "Sub": _two(np.subtract), "Mul": _two(np.multiply), "Div": _two(_div), "Equal": _two(np.equal),
    "Reshape": _reshape, "Transpose": _transpose,
}  # fmt: skip
