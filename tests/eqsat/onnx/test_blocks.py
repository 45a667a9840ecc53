"""Moves between depth and space are written as the operators that do them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import eqsat as eq
from eqsat.onnx.check import compare_models

pytestmark = pytest.mark.onnx


def shuffled(shape: list[int], first: list[int], perm: list[int], last: list[int], opset: int = 17) -> ModelProto:
    """A Reshape, a Transpose and a Reshape, with an axis moved to and fro in front of them."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["n"], perm=[0, 2, 3, 1]),
        helper.make_node("Abs", ["n"], ["a"]),
        helper.make_node("Transpose", ["a"], ["c"], perm=[0, 3, 1, 2]),
        helper.make_node("Reshape", ["c", "first"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=perm),
        helper.make_node("Reshape", ["t", "last"], ["y"]),
    ]
    constants = [numpy_helper.from_array(np.array(s, np.int64), n) for n, s in (("first", first), ("last", last))]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", last))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


CASES: dict[str, tuple[Any, ...]] = {
    "DCR": ([1, 20, 3, 4], [1, 2, 2, 5, 3, 4], [0, 3, 4, 1, 5, 2], [1, 5, 6, 8], "DepthToSpace"),
    "CRD": ([1, 20, 3, 4], [1, 5, 2, 2, 3, 4], [0, 1, 4, 2, 5, 3], [1, 5, 6, 8], "DepthToSpace"),
    "to depth": ([1, 5, 6, 8], [1, 5, 3, 2, 4, 2], [0, 3, 5, 1, 2, 4], [1, 20, 3, 4], "SpaceToDepth"),
}


@pytest.mark.parametrize("name", CASES)
def test_blocks_are_one_operator(name: str) -> None:
    *shapes, op = CASES[name]
    model = shuffled(*shapes)
    found = eq.onnx.optimize(model, objective="bytes")
    assert sorted(n.op_type for n in found.model.graph.node) == sorted(["Abs", op])
    assert compare_models(model, found.model).equal


def test_an_opset_without_the_mode_spells_the_steps() -> None:
    model = shuffled(*CASES["CRD"][:4], opset=10)
    found = eq.onnx.optimize(model, objective="bytes")
    assert sorted(n.op_type for n in found.model.graph.node) == ["Abs", "Reshape", "Reshape", "Transpose"]
    assert compare_models(model, found.model).equal


def test_another_order_of_the_blocks_is_another_view() -> None:
    """Columns before rows in the depth: no mode of the operator."""
    model = shuffled([1, 20, 3, 4], [1, 2, 2, 5, 3, 4], [0, 3, 4, 2, 5, 1], [1, 5, 6, 8])
    found = eq.onnx.optimize(model, objective="bytes")
    assert "DepthToSpace" not in {n.op_type for n in found.model.graph.node}
    assert compare_models(model, found.model).equal
