"""One node with operands, types and parameters that hardly fit: most are refused, and none may be a crash."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, helper, numpy_helper

from eqsat.onnx.ops.table import operator_names

SHAPES = [(), (0,), (1,), (3,), (2, 3), (2, 3, 4), (1, 4, 4, 4), (2, 4, 5, 6), (2, 4, 3, 3)]
FIXED = {"tensor(int64)": 7, "tensor(float)": 1, "tensor(bool)": 9}
VALUES: dict[int, list[Any]] = {
    AttributeProto.INT: [-(2**63), -7, -1, 0, 1, 2, 3, 97, 2**62],
    AttributeProto.INTS: [[], [0], [-1, 2], [1, 1], [2, 3, 1], [0, 1, 1, 0], [3, -(2**62)], [1] * 6],
    AttributeProto.FLOAT: [0.0, -1.0, float("nan"), float("inf"), 0.5],
    AttributeProto.FLOATS: [[], [0.0], [1.0, float("nan"), 2.0, 1.0]],
    AttributeProto.STRING: ["", "NOTSET", "SAME_UPPER", "linear", "x", "mean", "ij,jk", "...i->i", "ii->i"],
}


@lru_cache(maxsize=1)
def schemas() -> list[Any]:
    known = set(operator_names())
    found: list[Any] = list(onnx.defs.get_all_schemas_with_history())
    return sorted((s for s in found if s.domain == "" and s.name in known), key=lambda s: (s.name, s.since_version))


def odd_model(seed: int) -> ModelProto | None:
    """A model of one node; None where onnx has no way to write it."""
    r, numbers = random.Random(seed), np.random.default_rng(seed)
    schema = r.choice(schemas())
    count = r.randint(schema.min_input, min(schema.max_input, 9))
    shape, kind = r.choice(SHAPES), r.choice([1, 1, 1, 7, 10, 2])
    names: list[str] = []
    inputs: list[Any] = []
    constants: list[Any] = []
    for k in range(count):
        names.append(f"x{k}" if k < schema.min_input or r.random() < 0.8 else "")
        own = shape if r.random() < 0.6 else r.choice(SHAPES)
        place = schema.inputs[min(k, len(schema.inputs) - 1)].type_str
        element = FIXED.get(place, kind if k == 0 or r.random() < 0.7 else r.choice([7, 6, 1, 2]))
        if names[-1] and r.random() < 0.4:
            values: Any = numbers.integers(-3, 4, own).astype(helper.tensor_dtype_to_np_dtype(element))
            constants.append(numpy_helper.from_array(values, names[-1]))
        elif names[-1]:
            inputs.append(helper.make_tensor_value_info(names[-1], element, [r.choice([d, d, d, "N"]) for d in own]))
    attrs = {
        n: r.choice(VALUES[int(a.type)])
        for n, a in schema.attributes.items()
        if int(a.type) in VALUES and r.random() < (0.9 if a.required else 0.5)
    }
    outputs = [f"y{k}" for k in range(r.randint(max(1, schema.min_output), min(4, max(1, schema.max_output))))]
    try:
        node = helper.make_node(schema.name, names, outputs, **attrs)
    except ValueError:
        return None
    ends = [helper.make_empty_tensor_value_info(o) for o in outputs]
    graph = helper.make_graph([node], "odd", inputs, ends, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", max(1, schema.since_version))], ir_version=8)
