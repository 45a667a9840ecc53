"""Layouts cross the operators of the table: moves around one of them cancel, whether it is a formula or a signature."""

# feature: I1
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, helper, numpy_helper  # noqa: E402

import eqsat.onnx as front  # noqa: E402
from eqsat.ir.tensors.tensor import Opaque  # noqa: E402
from eqsat.models.package import run_model  # noqa: E402
from eqsat.onnx.check import distance  # noqa: E402

pytestmark = pytest.mark.onnx
SHAPE = [2, 3, 4, 5]
Step = tuple[str, dict[str, Any], dict[str, Any]]
TURN: Step = ("Transpose", {"perm": [0, 2, 3, 1]}, {})
BACK: Step = ("Transpose", {"perm": [0, 3, 1, 2]}, {})
FLIP: Step = ("GatherElements", {"axis": 1}, {"index": np.broadcast_to([[[2]], [[1]], [[0]]], SHAPE)})


def model_of(steps: list[Step], opset: int) -> ModelProto:
    """A chain of operators, each with its constants behind the value."""
    nodes: list[Any] = []
    constants: list[Any] = []
    for k, (op, attrs, more) in enumerate(steps):
        names = [f"{n}{k}" if a is not None else "" for n, a in more.items()]
        constants += [numpy_helper.from_array(np.asarray(a), n) for n, a in zip(names, more.values(), strict=True) if n]
        nodes.append(helper.make_node(op, [f"v{k}", *names], [f"v{k + 1}"], **attrs))
    outputs = [helper.make_empty_tensor_value_info(f"v{len(steps)}")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("v0", 1, SHAPE)], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


CASES: dict[str, tuple[list[Step], int, list[str]]] = {
    "CumProd": ([TURN, ("CumProd", {}, {"axis": np.array(3)}), BACK], 26, ["CumProd"]),
    "BitCast": ([TURN, ("BitCast", {"to": 6}, {}), BACK], 26, ["BitCast"]),
    "GatherElements": ([FLIP, ("Relu", {}, {}), FLIP], 17, ["Relu"]),
    "ReverseSequence": (
        [("ReverseSequence", {}, {"n": np.array([2, 2, 2])}), ("Relu", {}, {})] * 2, 17, ["Relu", "Relu"]),
    "CenterCropPad": (
        [("CenterCropPad", {}, {"s": np.array(s)}) for s in ([4, 3, 6, 9], SHAPE)] + [("Relu", {}, {})], 18, ["Relu"]),
    "Compress": (
        [("Concat", {"axis": 1}, {"c": np.ones([2, 1, 4, 5], np.float32)}), ("Relu", {}, {}),
         ("Compress", {"axis": 1}, {"k": np.array([True, True, True, False])})], 17, ["Relu"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_moves_around_an_operator_cancel(name: str) -> None:
    steps, opset, left = CASES[name]
    model = model_of(steps, opset)
    result = front.optimize(model)
    assert [n.op_type for n in result.model.graph.node] == left, result.notes
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    assert distance(run_model(model, {"v0": x})[0], run_model(result.model, {"v0": x})[0]) <= 1e-6


ALONE: dict[str, tuple[Step, int]] = {
    "GatherElements": (("GatherElements", {"axis": 1}, {"index": np.array([[[[2]], [[0]], [[2]]]])}), 17),
    "ReverseSequence": (("ReverseSequence", {}, {"n": np.array([2, 1, 2])}), 17),
    "CenterCropPad": (("CenterCropPad", {}, {"s": np.array([4, 3, 3, 9])}), 18),
    "Compress": (("Compress", {"axis": 1}, {"k": np.array([True, False, True])}), 17),
    "GatherND": (("GatherND", {}, {"index": np.array([[1, 0], [0, 2], [1, 1]])}), 17),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_lone_operator_stays_as_it_was(name: str) -> None:
    """It is not spelled in another way, although it is read as a formula."""
    step, opset = ALONE[name]
    model = model_of([step], opset)
    assert [n.op_type for n in front.optimize(model).model.graph.node] == [name]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_triangle_by_a_size(rank: int) -> None:
    """The diagonal is computed from an extent that the model leaves open."""
    numbers = {"first": np.zeros([1] * rank, np.int64), "three": np.array(3)}
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "first"], ["n"]),
        helper.make_node("Sub", ["n", "three"], ["k"]),
        helper.make_node("Trilu", ["x", "k"], ["t"]),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, 1, ["N", 3, 5, 5]) for n in "xy"]
    constants = [numpy_helper.from_array(a, n) for n, a in numbers.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (made,) = [n for n in front.load(model).nodes() if isinstance(n, Opaque) and n.op == "onnx:Trilu"]
    assert made.signature is not None and sorted(made.signature.roles.values()) == ["map", "map"]
    after = front.optimize(model).model
    for n in (1, 4):
        x = np.random.default_rng(n).standard_normal((n, 3, 5, 5)).astype(np.float32)
        np.testing.assert_array_equal(run_model(model, {"x": x})[0], run_model(after, {"x": x})[0])
