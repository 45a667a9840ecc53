"""What a written model need not have twice."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import GraphProto, TensorProto, helper, numpy_helper

from eqsat.onnx.tidy import tidy

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
