"""What a written model need not have twice."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import GraphProto, TensorProto, helper, numpy_helper
from onnx_fuzz import differences
from onnx_wrapped import wrapped
from random_models import random_model
from seeds import each_value, some_of

import eqsat as eq
from eqsat.onnx.check import compare_models
from eqsat.onnx.tidy import tidy
from eqsat.onnx.write import write

pytestmark = pytest.mark.onnx


def graph_of(nodes: list[onnx.NodeProto], outputs: dict[str, list[int]], **constants: object) -> GraphProto:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 6])
    arrays = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    return helper.make_graph(nodes, "g", [x], ends, arrays)


def test_equal_constants_and_equal_reshapes_are_one() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["a"]),
        helper.make_node("Reshape", ["x", "t"], ["b"]),
        helper.make_node("Add", ["a", "w"], ["c"]),
        helper.make_node("Mul", ["b", "v"], ["d"]),
        helper.make_node("Sub", ["c", "d"], ["y"]),
    ]
    w = np.arange(4, dtype=np.float32)
    graph = graph_of(nodes, {"y": [3, 4]}, s=[3, 4], t=[3, 4], w=w, v=w.copy(), other=w.astype(np.float64))
    tidy(graph)
    assert [n.op_type for n in graph.node] == ["Reshape", "Add", "Mul", "Sub"]
    assert list(graph.node[2].input) == ["a", "w"]
    assert {x.name for x in graph.initializer} == {"s", "w", "other"}, "what nobody read before stays"


def test_reshapes_of_old_opsets_have_their_shape_as_an_attribute() -> None:
    """They are left as they are, beside what gets less."""
    nodes = [
        helper.make_node("Reshape", ["x"], ["a"], shape=[3, 4]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Transpose", ["c"], ["y"], perm=[1, 0]),
    ]
    graph = graph_of(nodes, {"y": [3, 4]})
    tidy(graph)
    assert [n.op_type for n in graph.node] == ["Reshape", "Transpose", "Relu", "Transpose"]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 4)], ir_version=3)
    best = eq.onnx.optimize(model)
    assert best.bytes_moved == 0 < best.initial.bytes_moved, best.notes


def test_constants_of_other_shapes_types_or_bits_are_two() -> None:
    nodes = [
        helper.make_node("Add", ["x", "p"], ["a"]),
        helper.make_node("Add", ["a", "q"], ["b"]),
        helper.make_node("Add", ["b", "r"], ["y"]),
    ]
    zero = np.zeros(6, np.float32)
    graph = graph_of(nodes, {"y": [2, 6]}, p=zero, q=-zero, r=zero.reshape(1, 6))
    tidy(graph)
    assert {x.name for x in graph.initializer} == {"p", "q", "r"}


def test_outputs_and_what_inner_graphs_read_keep_their_names() -> None:
    inner = helper.make_graph(
        [helper.make_node("Add", ["b", "v"], ["i"])], "then", [], [helper.make_tensor_value_info("i", 1, [3, 4])]
    )
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["a"]),
        helper.make_node("Reshape", ["x", "s"], ["b"]),
        helper.make_node("Reshape", ["x", "s"], ["z"]),
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
        helper.make_node("Add", ["a", "w"], ["k"]),
    ]
    w = np.arange(4, dtype=np.float32)
    graph = graph_of(nodes, {"y": [3, 4], "z": [3, 4], "k": [3, 4]}, s=[3, 4], c=True, w=w, v=w.copy())
    tidy(graph)
    assert [o for n in graph.node for o in n.output] == ["a", "b", "z", "y", "k"]
    assert {x.name for x in graph.initializer} == {"s", "c", "w", "v"}


def test_a_reshape_of_a_reshaped_constant_is_a_constant() -> None:
    nodes = [
        helper.make_node("Reshape", ["w", "s"], ["a"]),
        helper.make_node("Reshape", ["a", "t"], ["b"]),
        helper.make_node("Mul", ["x", "b"], ["y"]),
    ]
    scalar = np.zeros(0, np.int64)
    graph = graph_of(nodes, {"y": [2, 6]}, s=[1], t=scalar, w=np.ones((1, 1), np.float32))
    tidy(graph)
    assert [n.op_type for n in graph.node] == ["Mul"]
    assert [list(x.dims) for x in graph.initializer] == [[]]


MATRIX, LINE, BACK = ("m", [1, 2, 6]), ("l", [12]), ("b", [2, 6])
SANDWICHES: dict[str, tuple[list[tuple[str, list[str]]], list[str]]] = {
    "one": ([("Reshape", ["x", "m"]), ("Relu", [""]), ("Reshape", ["", "b"])], ["Relu"]),
    "several": (
        [("Reshape", ["x", "l"]), ("Relu", [""]), ("Sigmoid", [""]), ("Reshape", ["", "b"])],
        ["Relu", "Sigmoid"],
    ),
    "with a constant": ([("Reshape", ["x", "m"]), ("Add", ["", "row"]), ("Reshape", ["", "b"])], ["Add"]),
    "before a product": (
        [("Reshape", ["x", "m"]), ("Relu", [""]), ("Reshape", ["", "b"]), ("MatMul", ["", "w"])],
        ["Relu", "MatMul"],
    ),
}


# feature: I4
@pytest.mark.parametrize("objective", ["time", "bytes"])
@pytest.mark.parametrize("kind", SANDWICHES)
def test_formulas_between_reshapes_need_none(kind: str, objective: str) -> None:
    """Reshapes move no bytes, and are nodes all the same."""
    steps, left = SANDWICHES[kind]
    nodes: list[onnx.NodeProto] = []
    for k, (op, inputs) in enumerate(steps):
        made = "y" if k == len(steps) - 1 else f"t{k}"
        nodes.append(helper.make_node(op, [name or f"t{k - 1}" for name in inputs], [made], name=f"n{k}"))
    weights: dict[str, object] = {"row": np.arange(6, dtype=np.float32), "w": np.ones((6, 6), np.float32)}
    graph = graph_of(nodes, {"y": [2, 6]}, **{n: np.array(s) for n, s in (MATRIX, LINE, BACK)}, **weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = eq.onnx.optimize(model, objective=objective)
    assert [n.op_type for n in found.model.graph.node] == left
    assert {n.name for n in found.model.graph.node} <= {n.name for n in nodes}, "kept nodes keep their names"
    assert compare_models(model, found.model).equal


def test_a_frozen_formula_keeps_its_reshapes() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "l"], ["a"]),
        helper.make_node("Relu", ["a"], ["c"]),
        helper.make_node("Reshape", ["c", "b"], ["y"]),
    ]
    graph = graph_of(nodes, {"y": [2, 6]}, l=np.array([12]), b=np.array([2, 6]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert eq.onnx.optimize(model, freeze=["Relu"]).model is model


AXIS = numpy_helper.from_array(np.array([1]), "one")
OPAQUE: dict[str, tuple[dict[str, Any], list[str], int, tuple[int, ...]]] = {
    "Softmax": ({"axis": -1}, [], 1, (2, 6)),
    "LogSoftmax": ({"axis": 2}, [], 1, (2, 6)),
    "Hardmax": ({"axis": 0}, [], 1, (2, 6)),
    "TopK": ({"axis": 2}, ["four"], 2, (2, 4)),
    "CumSum": ({}, ["two"], 1, (2, 6)),
    "ArgMax": ({"axis": 2, "keepdims": 1}, [], 1, (2, 1)),
    "QuantizeLinear": ({"axis": 2}, ["scales", "zeros"], 1, (2, 6)),
}
CONSTANTS = {
    "two": np.array(2),
    "four": np.array([4]),
    "scales": np.arange(1, 7, dtype=np.float32),
    "zeros": np.arange(6, dtype=np.uint8),
}


# feature: I4
@pytest.mark.parametrize("op", OPAQUE)
def test_operators_between_axes_of_one_cell_need_none(op: str) -> None:
    """Unsqueeze, an operator along an axis, Squeeze: the operator along the axis that it is without."""
    attrs, given, count, shape = OPAQUE[op]
    outputs = [f"o{k}" for k in range(count)]
    nodes = [
        helper.make_node("Unsqueeze", ["x", "one"], ["u"]),
        helper.make_node(op, ["u", *given], outputs, name="kept", **attrs),
        *(helper.make_node("Squeeze", [o, "one"], [f"y{k}"]) for k, o in enumerate(outputs)),
    ]
    types = {"ArgMax": [TensorProto.INT64], "QuantizeLinear": [TensorProto.UINT8], "TopK": [1, TensorProto.INT64]}
    ends = [helper.make_tensor_value_info(f"y{k}", d, shape) for k, d in enumerate(types.get(op, [1]))]
    constants = [AXIS, *(numpy_helper.from_array(CONSTANTS[n], n) for n in given)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [2, 6])], ends, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = eq.onnx.optimize(model).model
    assert [n.op_type for n in found.graph.node] == [op] and found.graph.node[0].name == "kept"
    assert compare_models(model, found).equal
    assert eq.onnx.optimize(model, freeze=[op]).model is model


@pytest.mark.parametrize("op", ["LRN", "BatchNormalization", "InstanceNormalization"])
def test_operators_whose_axes_have_places_keep_their_reshapes(op: str) -> None:
    """A channel of one cell has no label, and has to be the second axis all the same."""
    given = {"LRN": 0, "BatchNormalization": 4, "InstanceNormalization": 2}[op]
    names = [f"p{k}" for k in range(given)]
    attrs: dict[str, Any] = {"size": 3} if op == "LRN" else {}
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["u"]),
        helper.make_node(op, ["u", *names], ["o"], **attrs),
        helper.make_node("Reshape", ["o", "t"], ["y"]),
    ]
    one = np.ones(1, np.float32)
    graph = graph_of(nodes, {"y": [2, 6]}, s=np.array([2, 1, 6, 1]), t=np.array([2, 6]), **dict.fromkeys(names, one))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert eq.onnx.optimize(model).model is model


def test_scales_for_each_axis_are_for_as_many_axes() -> None:
    """Found by random models: an Upsample whose scales are an attribute, behind a reshape."""
    nodes = [
        helper.make_node("Reshape", ["x", "s"], ["u"]),
        helper.make_node("Upsample", ["u"], ["o"], mode="nearest", scales=[1.0, 1.0, 1.0, 2.0]),
        helper.make_node("Reshape", ["o", "t"], ["y"]),
    ]
    graph = graph_of(nodes, {"y": [1, 2, 12]}, s=np.array([2, 1, 1, 6]), t=np.array([1, 2, 12]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=8)
    assert compare_models(model, eq.onnx.optimize(model).model).equal


# feature: I4
@pytest.mark.parametrize("count", [18, pytest.param(40, marks=pytest.mark.slow)])
def test_random_models_between_reshapes(count: int) -> None:
    """Whatever runs with axes of one cell runs without them, or keeps them."""
    fewer = 0
    for seed in range(count):
        drawn = wrapped(seed)
        if drawn is not None:
            found = eq.onnx.optimize(drawn.model, checked=False).model
            assert differences(drawn, found) == [], f"seed {seed}"
            counts = [sum(n.op_type == "Reshape" for n in m.graph.node) for m in (drawn.model, found)]
            fewer += counts[1] < counts[0]
    assert fewer > count // 7


def needless(model: onnx.ModelProto) -> list[str]:
    """The outputs that are another name of what a node makes, which is no output itself."""
    made, ends = {o for n in model.graph.node for o in n.output}, {o.name for o in model.graph.output}
    copies = [n for n in model.graph.node if n.op_type == "Identity" and n.output[0] in ends]
    return [n.output[0] for n in copies if n.input[0] in made - ends]


KEPT = ([0, 1, 2], [1, 0, 2])


@each_value(made=["Relu", "Softmax", "Split", "If"], perm=KEPT, opset=[13, 17])
def test_an_output_that_a_transpose_leaves_as_it_is_has_no_node(made: str, perm: list[int], opset: int) -> None:
    """The value has the name of the output, whoever else reads it; a second output and an input are copied."""
    then = helper.make_graph([helper.make_node("Abs", ["x"], ["u"])], "then", [], [_end("u")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["v"])], "other", [], [_end("v")])
    first = {
        "Split": [helper.make_node("Split", ["x"], ["r", "rest"], axis=2)],
        "If": [helper.make_node("If", ["c"], ["r"], then_branch=then, else_branch=other)],
    }.get(made, [helper.make_node(made, ["x"], ["r"])])
    more = [helper.make_node("Transpose", [i], [o], perm=perm) for i, o in (("r", "y"), ("r", "again"), ("x", "z"))]
    nodes = [*first, *more, helper.make_node("Neg", ["r"], ["n"])]
    ends = [_end(n, None, None, None) for n in ("n", "y", "again", "z")]
    graph = helper.make_graph(nodes, "g", [_end("x")], ends, [numpy_helper.from_array(np.array(True), "c")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    for found in (write(eq.onnx.load(model)), eq.onnx.optimize(model).model):
        copies = {n.output[0]: n.input[0] for n in found.graph.node if n.op_type == "Identity"}
        assert copies == {"again": "y", "z": "x"} and "Transpose" not in [n.op_type for n in found.graph.node]
        assert compare_models(model, found).equal


def _end(name: str, *shape: int | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape or (1, 1, 6))


@pytest.mark.parametrize("seed", some_of(range(12), 5))
def test_no_output_is_a_needless_copy(seed: int) -> None:
    model = random_model(Random(f"copies {seed}"))
    (end,) = model.graph.output
    rank = len(end.type.tensor_type.shape.dim)
    model.graph.node.append(helper.make_node("Transpose", [end.name], ["kept"], perm=list(range(rank))))
    end.name = "kept"
    for found in (write(eq.onnx.load(model)), eq.onnx.optimize(model).model):
        assert not needless(found) and compare_models(model, found).equal
