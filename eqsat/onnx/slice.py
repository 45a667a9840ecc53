"""What an ONNX Slice takes of an axis, as onnxruntime reads its numbers.

onnx.shape_inference and onnx.reference read two cases in another way: there the largest int32 and int64 are positions
even when the step is negative, so that a reversal up to them is empty, and a start before the first cell is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from eqsat.ir.dtypes import NDArray
from eqsat.ir.terms.shape import Dim
from eqsat.onnx.call import items_of

BEHIND = (2**31 - 1, 2**63 - 1)
"""Ends that mean "as far as the axis goes", in either direction."""
BEFORE = -(2**63)
"""The same for a negative step, as everything reads it."""


def taken(extent: int, start: int, end: int, step: int) -> tuple[int, int]:
    """The first position and the number of positions; the first is 0 where there are none.

    >>> taken(5, 1, 100, 2), taken(5, -1, 2**63 - 1, -1), taken(5, -1, 100, -1)
    ((1, 2), (4, 5), (0, 0))
    """
    end = backward_end(end, step)
    start, end = (v + extent if v < 0 else v for v in (start, end))
    if step > 0:
        start, end = min(max(start, 0), extent), min(max(end, 0), extent)
        count = max(0, -((start - end) // step))
    else:
        start, end = min(max(start, 0), extent - 1), min(max(end, -1), extent - 1)
        count = max(0, -((end - start) // -step))
    return (start if count else 0), count


def open_slice(start: Dim, end: Dim, step: int) -> slice:
    """A Slice whose bounds or axis are of unknown size, and reach no further than int32 does, as Python's.

    >>> open_slice(1, 2**63 - 1, 2), open_slice(-1, -(2**63), -1), open_slice(-(2**63), -1, 1)
    (slice(1, None, 2), slice(None, None, -1), slice(0, -1, 1))
    """
    far = 2**31 - 1
    behind, before = (isinstance(end, int) and end >= far), (isinstance(end, int) and end <= -far)
    if step > 0:
        if before or (isinstance(start, int) and start >= far):
            return slice(0, 0, step)
        return slice(0 if isinstance(start, int) and start <= -far else start, None if behind else end, step)
    from_last = isinstance(start, int) and (start == -1 or start >= far)
    return slice(None if from_last else start, None if behind or before else end, step)


def backward_end(end: int, step: int) -> int:
    """An end that every reader of the model takes alike."""
    return BEFORE if step < 0 and end in BEHIND else end


def settle(graph: GraphProto) -> None:
    """Give backward Slices of a graph ends that shape inference reads as onnxruntime does."""
    constants: dict[str, NDArray] = {}
    for node in graph.node:
        if node.op_type == "Slice" and len(node.input) > 4:
            constants = constants or _constants(graph)
            found = settled(node, constants)
            if found is not None:
                name = f"{node.input[2]}/{node.output[0]}/end"
                graph.initializer.append(numpy_helper.from_array(found, name))
                if any(x.name == node.input[2] for x in graph.input):  # before IR version 4 all constants are inputs
                    graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, list(found.shape)))
                node.input[2] = name


def settled(node: NodeProto, constants: dict[str, NDArray]) -> NDArray | None:
    """The ends of a Slice with those replaced that are read in two ways; None where all are clear or not known."""
    if node.op_type != "Slice" or len(node.input) < 5:
        return None
    ends, by = constants.get(node.input[2]), constants.get(node.input[4])
    if ends is None or by is None or ends.shape != by.shape:
        return None
    clear = [backward_end(int(e), int(s)) for e, s in zip(ends.reshape(-1), by.reshape(-1), strict=True)]
    return None if clear == ends.reshape(-1).tolist() else np.array(clear, np.int64).reshape(ends.shape)


def cleared(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The ends of a Slice as everything reads them: onnxruntime itself reads constants in either way.

    >>> cleared({"starts": (-1,), "ends": (2**63 - 1,), "steps": (-1,)})
    {'ends': (-9223372036854775808,)}
    """
    ends, steps = (items_of(attrs.get(k, ())) for k in ("ends", "steps"))
    if len(ends) != len(steps) or not all(isinstance(v, int) for v in (*ends, *steps)):
        return {}
    return {"ends": tuple(backward_end(e, s) for e, s in zip(ends, steps, strict=True))}


def _constants(graph: GraphProto) -> dict[str, NDArray]:
    found = {x.name: numpy_helper.to_array(x) for x in graph.initializer if x.data_type in (6, 7)}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            found[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        elif node.op_type == "Constant" and node.attribute[0].name == "value_ints":
            found[node.output[0]] = np.array(node.attribute[0].ints, np.int64)
    return found
