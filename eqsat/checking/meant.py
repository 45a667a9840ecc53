"""What maxima over windows mean: a kernel that compares cells in turn keeps a NaN or loses it by where it stands."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

SINCE = 9
"""The opset from which on there is all that says this."""


def explicit(model: ModelProto) -> ModelProto | None:
    """The model in which the maximum of each window of float32 is NaN where one of its cells is; None where nothing is
    to be said.

    max_pool(x) = where(max_pool(is_nan(x)) > 0, NaN, max_pool(where(is_nan(x), -inf, x)))
    """
    version = next((x.version for x in model.opset_import if x.domain in ("", "ai.onnx")), 0)
    nodes = list(model.graph.node)
    if version < SINCE or not any(map(_is_maximum, nodes)):
        return None
    made = ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:]
    made.graph.node.extend(y for n, x in enumerate(nodes) for y in (_said(x, n) if _is_maximum(x) else [x]))
    numbers = {"zero": 0.0, "least": -np.inf, "nan": np.nan}
    made.graph.initializer.extend(
        numpy_helper.from_array(np.array(v, np.float32), f"meant__{k}") for k, v in numbers.items()
    )
    return made


def _is_maximum(node: NodeProto) -> bool:
    return node.op_type == "MaxPool" and node.domain in ("", "ai.onnx") and len(node.output) == 1


def _said(node: NodeProto, number: int) -> Iterator[NodeProto]:
    def name(what: str) -> str:
        return f"meant__{number}_{what}"

    def over(source: str, result: str) -> NodeProto:
        made = NodeProto()
        made.CopyFrom(node)
        made.input[0], made.output[0], made.name = source, result, ""
        return made

    x = node.input[0]
    yield helper.make_node("IsNaN", [x], [name("is")])
    yield helper.make_node("Cast", [name("is")], [name("counted")], to=TensorProto.FLOAT)
    yield over(name("counted"), name("any"))
    yield helper.make_node("Greater", [name("any"), "meant__zero"], [name("some")])
    yield helper.make_node("Where", [name("is"), "meant__least", x], [name("numbers")])
    yield over(name("numbers"), name("maximum"))
    yield helper.make_node("Where", [name("some"), "meant__nan", name("maximum")], [node.output[0]])
