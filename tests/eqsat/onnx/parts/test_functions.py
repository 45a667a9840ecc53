"""Functions of a model: what they hold is read as if it stood in the place of their calls."""

# feature: I1 I4
from __future__ import annotations

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime")

from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, helper
from onnx_fuzz import differences
from onnx_outlined import outlined
from onnx_random import run

import eqsat as eq
from eqsat.onnx.parts.functions import written_out

pytestmark = pytest.mark.onnx
node = helper.make_node
FLOAT = onnx.TensorProto.FLOAT


def model_of(nodes: list[NodeProto], *functions: FunctionProto, more: str = "") -> ModelProto:
    x, y = (helper.make_tensor_value_info(n, FLOAT, s) for n, s in (("x", [1, 4, 6, 8]), ("y", [None] * 4)))
    opsets = [helper.make_opsetid(*o) for o in (("", 17), ("own", 1), *(((more, 1),) if more else ()))]
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9)


def function(name: str, nodes: list[NodeProto], domain: str = "own", more: str = "") -> FunctionProto:
    opsets = [helper.make_opsetid(*o) for o in (("", 17), (domain, 1), *(((more, 1),) if more else ()))]
    return helper.make_function(domain, name, ["x"], ["y"], nodes, opsets)


NHWC, NCHW = [0, 2, 3, 1], [0, 3, 1, 2]
AROUND = function(
    "around",
    [
        node("Transpose", ["x"], ["t"], perm=NHWC),
        node("Relu", ["t"], ["u"]),
        node("Transpose", ["u"], ["y"], perm=NCHW),
    ],
)
CALL = node("around", ["a"], ["b"], domain="own", name="call")
BETWEEN = [node("Transpose", ["x"], ["a"], perm=NCHW), CALL, node("Transpose", ["b"], ["y"], perm=NHWC)]


def same(before: ModelProto, after: ModelProto) -> bool:
    x = np.random.default_rng(1).standard_normal((1, 4, 6, 8), np.float32)
    return all(np.array_equal(a, b) for a, b in zip(run(before, {"x": x}), run(after, {"x": x}), strict=True))


def test_layouts_cross_the_border_of_a_function() -> None:
    model = model_of(BETWEEN, AROUND)
    best = eq.onnx.optimize(model)
    assert [n.op_type for n in best.model.graph.node] == ["Relu"]
    assert not best.model.functions and best.source is model
    assert best.initial.bytes_moved > best.bytes_moved == 0
    assert same(model, best.model)


@pytest.mark.parametrize("name", ["around", "onnx:around", "call", "b"])
def test_a_frozen_call_stays(name: str) -> None:
    model = model_of(BETWEEN, AROUND)
    assert eq.onnx.optimize(model, freeze=[name]).model is model


def test_functions_that_gain_nothing_stay() -> None:
    inner = function("plain", [node("Relu", ["x"], ["t"]), node("Exp", ["t"], ["y"])])
    model = model_of([node("plain", ["x"], ["y"], domain="own")], inner)
    assert eq.onnx.optimize(model).model is model


def test_functions_that_a_runtime_may_have_stay() -> None:
    gelu = function("Gelu", [node("Relu", ["x"], ["y"])], "com.microsoft")
    nodes = [node("Gelu", ["x"], ["y"], domain="com.microsoft")]
    model = model_of(nodes, gelu, more="com.microsoft")
    assert written_out(model, ()) is model


def test_domains_that_only_a_function_has_are_declared() -> None:
    fast = [node("FastGelu", ["x"], ["t"], domain="com.microsoft"), *AROUND.node]
    fast[1] = node("Transpose", ["t"], ["t1"], perm=NHWC)
    fast[2] = node("Relu", ["t1"], ["u"])
    model = model_of(BETWEEN, function("around", fast, more="com.microsoft"))
    after = written_out(model, ())
    assert not after.functions and same(model, after) and same(model, eq.onnx.optimize(model).model)


@pytest.mark.parametrize("given", [False, True])
def test_attributes_may_have_defaults(given: bool) -> None:
    """onnx.inliner drops what a function has by default."""
    turned = node("Transpose", ["x"], ["t"])
    turned.attribute.add(name="perm", type=AttributeProto.INTS, ref_attr_name="order")
    inner = function("turned", [turned, node("Transpose", ["t"], ["y"], perm=NHWC)])
    inner.attribute_proto.append(helper.make_attribute("order", NCHW))
    call = node("turned", ["x"], ["y"], domain="own")
    if given:
        call.attribute.append(helper.make_attribute("order", [1, 0, 2, 3]))
    model = model_of([call], inner)
    assert same(model, written_out(model, ()))
    best = eq.onnx.optimize(model)
    assert len(best.model.graph.node) == 1 and same(model, best.model)


def test_functions_of_other_opsets_stay() -> None:
    other = helper.make_function(
        "own", "old", ["x"], ["y"], [node("Relu", ["x"], ["y"])], [helper.make_opsetid("", 16)]
    )
    model = model_of([node("old", ["x"], ["y"], domain="own")], other)
    assert written_out(model, ()) is model


@pytest.mark.parametrize("count", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_random_models_with_functions(count: int) -> None:
    found = gone = 0
    for seed in range(count):
        drawn = outlined(seed)
        if drawn is not None and drawn.model.functions:
            after = written_out(drawn.model, ())
            assert differences(drawn, after) == [], f"seed {seed}"
            assert differences(drawn, eq.onnx.optimize(drawn.model, checked=False).model) == [], f"seed {seed}"
            found, gone = found + 1, gone + (not after.functions)
    assert gone == found > count // 4
