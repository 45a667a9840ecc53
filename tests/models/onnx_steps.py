"""Small models of operators one after another, and what onnxruntime makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

ort: Any = import_module("onnxruntime")
Step = tuple[str, list[Any], dict[str, Any]]


def model(shape: Sequence[int | str], *steps: Step) -> ModelProto:
    """Operators one after another, each over the last result and constants."""
    nodes = list[NodeProto]()
    constants = list[TensorProto]()
    last = "x"
    for n, (op, operands, attrs) in enumerate(steps):
        names = [f"c{n}_{k}" for k in range(len(operands))]
        arrays = [_array(a) for a in operands]
        constants += [numpy_helper.from_array(a, name) for a, name in zip(arrays, names, strict=True)]
        nodes.append(helper.make_node(op, [last, *names], [f"t{n}"], **attrs))
        last = f"t{n}"
    ends = [helper.make_tensor_value_info("x", 1, shape)], [helper.make_tensor_value_info(last, 0, None)]
    graph = helper.make_graph(nodes, "g", *ends, constants)
    graph.output[0].type.tensor_type.elem_type = 7 if steps[-1][0] == "ArgMax" else 1
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def _array(operand: Any) -> np.ndarray[Any, Any]:
    return np.asarray(operand, None if isinstance(operand, np.ndarray) else np.float32)


def pad(rank: int, axis: int, cells: tuple[int, int], value: float) -> Step:
    pads = [0] * (2 * rank)
    pads[axis], pads[rank + axis] = cells
    return "Pad", [np.array(pads), value], {}


def operators(found: ModelProto) -> list[str]:
    return [n.op_type for n in found.graph.node]


def values(wanted: ModelProto, x: np.ndarray[Any, Any]) -> Any:
    """What a model computes as it is: onnxruntime itself would make a Pad of zeros a convolution's own, which then does
    not multiply them by infinite weights."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(wanted.SerializeToString(), options).run(None, {"x": x})[0]


def input_shape(found: ModelProto) -> list[int]:
    return [
        d.dim_value or {"H": 7, "W": 11}.get(d.dim_param, 2) for d in found.graph.input[0].type.tensor_type.shape.dim
    ]
