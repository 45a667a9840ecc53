"""Models whose weights are all one constant, as exporters leave them, with weights that tell layouts apart."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from eqsat.ir.dtypes import NDArray
from eqsat.models.package import dtype_name


def reseed_weights(model: ModelProto, seed: int = 0) -> ModelProto:
    """A copy of a model whose constant-valued float weights are random, of a scale that keeps activations in size.

    Weights are initialisers, Constant and ConstantOfShape nodes of more than one element. Variances and factors are
    positive; weights of convolutions and products have the scale 1 / sqrt(fan in).
    """
    random = np.random.default_rng(seed)
    copy = ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    users = _users(copy)
    listed = {x.name for x in graph.input}
    kept: list[NodeProto] = []
    constants = {x.name: x for x in graph.initializer}
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor) if dtype_name(tensor.data_type) in ("float32", "float64") else None
        if array is not None and array.size > 1 and bool(np.all(array == array.flat[0])):
            tensor.CopyFrom(
                numpy_helper.from_array(_fresh(random, array.shape, array.dtype.name, users, tensor.name), tensor.name)
            )
    for node in graph.node:
        shape = None
        if node.op_type == "ConstantOfShape" and node.input[0] in constants:
            value = next(
                (numpy_helper.to_array(a.t) for a in node.attribute if a.name == "value"), np.zeros(1, np.float32)
            )
            if value.dtype == np.float32:
                shape = tuple(int(d) for d in numpy_helper.to_array(constants[node.input[0]]))
        if shape is None or int(np.prod(shape)) < 2:
            kept.append(node)
            continue
        name = node.output[0]
        array = _fresh(random, shape, "float32", users, name)
        graph.initializer.append(numpy_helper.from_array(array, name))
        if copy.ir_version < 4 and name not in listed:
            graph.input.append(helper.make_tensor_value_info(name, 1, shape))
    nodes = [NodeProto.FromString(n.SerializeToString()) for n in kept]
    del graph.node[:]
    graph.node.extend(nodes)
    return copy


def _users(model: ModelProto) -> dict[str, tuple[str, int]]:
    """The operator and slot that first uses a value, through operators that only give it another shape."""
    found: dict[str, tuple[str, int]] = {}
    for node in reversed(model.graph.node):
        for slot, name in enumerate(node.input):
            through = node.op_type in ("Unsqueeze", "Reshape", "Squeeze", "Identity", "Transpose") and slot == 0
            found[name] = found.get(node.output[0], (node.op_type, slot)) if through else (node.op_type, slot)
    return found


def _fresh(
    random: np.random.Generator, shape: tuple[int, ...], dtype: str, users: Mapping[str, tuple[str, int]], name: str
) -> NDArray:
    op, slot = users.get(name, ("", 0))
    if (
        op in ("Mul", "Div", "Pow")
        or (op == "BatchNormalization" and slot in (1, 4))
        or (op in ("PRelu", "LayerNormalization") and slot == 1)
    ):
        return random.uniform(0.5, 1.5, shape).astype(dtype)
    if len(shape) < 2 or op in ("Add", "Sub", "Sum", "BatchNormalization"):
        return (0.1 * random.standard_normal(shape)).astype(dtype)
    fan_in = int(np.prod(shape[1:])) if op != "MatMul" else shape[-2]
    return (random.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(dtype)
