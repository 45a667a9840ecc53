"""Bytes moved by layout operators, against numbers computed by hand."""

# feature: I2
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

from eqsat.ir.flat.size_samples import SAMPLE  # noqa: E402
from eqsat.nets import nhwc_converter_net  # noqa: E402
from eqsat.onnx.bytes import bytes_moved  # noqa: E402

pytestmark = pytest.mark.onnx


def moved(
    nodes: list[tuple[str, str, str, dict[str, Any]]],
    shape: list[Any],
    constants: dict[str, Any] | None = None,
    **sizes: int,
) -> Any:
    tensors = [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()]
    made = [helper.make_node(op, a.split(), b.split(), **attrs) for op, a, b, attrs in nodes]
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes_moved(model, sizes)


CASES: list[tuple[str, dict[str, Any], dict[str, Any], list[Any], int, int]] = [
    ("Transpose", {"perm": [0, 2, 1]}, {}, [1, 4, 8], 2 * 128, 0),
    ("Transpose", {"perm": [1, 0, 2]}, {}, [1, 4, 8], 0, 0),
    ("Transpose", {"perm": [2, 1, 0]}, {}, [1, 4, 1], 0, 0),
    ("Reshape", {}, {"c": np.array([8, 4])}, [1, 4, 8], 0, 0),
    ("Slice", {}, {"a": np.array([1]), "b": np.array([3])}, [4, 8], 2 * 64, 0),
    ("Gather", {"axis": 0}, {"a": np.array([1, 1, 0])}, [4, 8], 2 * 96, 0),
    ("GatherElements", {"axis": 0}, {"a": np.zeros([3, 8], np.int64)}, [4, 8], 2 * 96, 0),
    ("GatherND", {}, {"a": np.array([[1], [0]])}, [4, 8], 2 * 64, 0),
    ("Compress", {"axis": 0}, {"a": np.array([True, False, True])}, [4, 8], 2 * 64, 0),
    ("ReverseSequence", {}, {"a": np.array([1] * 8)}, [4, 8], 2 * 128, 0),
    ("Pad", {}, {"a": np.array([0, 1, 0, 1])}, [4, 8], 128 + 160, 0),
    ("DepthToSpace", {"blocksize": 2}, {}, [1, 4, 2, 2], 2 * 64, 0),
    ("Expand", {}, {"a": np.array([3, 4, 8])}, [4, 8], 128 + 384, 0),
    ("Relu", {}, {}, [4, 8], 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attrs", "constants", "shape", "layout", "joins"), CASES)
def test_one_operator(
    op: str, attrs: dict[str, Any], constants: dict[str, Any], shape: list[Any], layout: int, joins: int
) -> None:
    result = moved([(op, " ".join(["x", *constants]), "y", attrs)], shape, constants)
    assert (result.layout, result.joins, result.unknown) == (layout, joins, 0)


def test_joins_are_a_column_of_their_own() -> None:
    nodes: list[tuple[str, str, str, dict[str, Any]]] = [
        ("Split", "x", "a b", {"axis": 0}),
        ("Concat", "b a", "y", {"axis": 0}),
    ]
    result = moved(nodes, [4, 8])
    assert (result.layout, result.joins, result.total) == (0, 4 * 128, 512)


def test_constants_and_shape_arithmetic_are_left_out() -> None:
    nodes: list[tuple[str, str, str, dict[str, Any]]] = [
        ("Transpose", "w", "t", {"perm": [1, 0]}),
        ("Shape", "x", "s", {}),
        ("Slice", "s zero one", "n", {}),
        ("Concat", "n minus", "to", {"axis": 0}),
        ("MatMul", "x t", "h", {}),
        ("Reshape", "h to", "y", {}),
    ]
    constants = {"w": np.ones((5, 8), np.float32), "zero": np.array([0]), "one": np.array([1]), "minus": np.array([-1])}
    assert moved(nodes, ["n", 8], constants).total == 0


def test_named_sizes() -> None:
    nodes: list[tuple[str, str, str, dict[str, Any]]] = [("Transpose", "x", "y", {"perm": [0, 2, 1]})]
    assert moved(nodes, ["a size", 4, 8]).total == SAMPLE * 2 * 128
    made = helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 1])
    graph = helper.make_graph(
        [made],
        "g",
        [helper.make_tensor_value_info("x", 1, ["a size", 4, 8])],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert bytes_moved(model, {"a size": 3}).total == 3 * 2 * 128


@pytest.mark.parametrize(
    ("equation", "elements"), [("ij,jk->ik", 0), ("ji,jk->ik", 2 * 12), ("ij,kj->ik", 2 * 12), ("ij,jk->ki", 2 * 9)]
)
def test_einsum_transposes_inside_are_counted(equation: str, elements: int) -> None:
    left, right = equation.split("->")[0].split(",")
    table = {"i": 3, "j": 4, "k": 3}
    weight = np.ones([table[c] for c in right], np.float32)
    result = moved([("Einsum", "x w", "y", {"equation": equation})], [table[c] for c in left], {"w": weight})
    assert result.total == 4 * elements


def test_the_converter_net_moves_two_transposes_per_convolution() -> None:
    result = bytes_moved(nhwc_converter_net(blocks=5))
    cells = 256 * 8
    pairs = [256 * 3 + cells, *[2 * cells] * 3, 3 * cells]
    assert result.by_op == {"Transpose": sum(2 * 4 * p for p in pairs), "Concat": 2 * 4 * 2 * cells}
