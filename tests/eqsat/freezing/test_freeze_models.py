"""Frozen operators of ONNX models, by the names that the model has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, TensorProto, helper  # noqa: E402

import eqsat as eq  # noqa: E402
from eqsat.cli import main  # noqa: E402
from eqsat.ir.errors import EqsatError  # noqa: E402
from eqsat.onnx.check import compare_models  # noqa: E402

pytestmark = pytest.mark.onnx
SHAPE = [2, 8, 12, 12]


def chain(*nodes: Any, shape: list[int] = SHAPE) -> ModelProto:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None))]
    graph = helper.make_graph(list(nodes), "chain", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def transposed(value: str, result: str, perm: list[int]) -> Any:
    return helper.make_node("Transpose", [value], [result], perm=perm)


MODEL = chain(
    transposed("x", "a", [0, 2, 3, 1]),
    helper.make_node("Softmax", ["a"], ["b"], name="first", axis=-1),
    transposed("b", "c", [0, 3, 1, 2]),
    helper.make_node("Sigmoid", ["c"], ["d"], name="gate"),
    transposed("d", "e", [0, 2, 3, 1]),
    helper.make_node("Softmax", ["e"], ["f"], name="second", axis=-1),
    transposed("f", "y", [0, 3, 1, 2]),
)


def axes(model: ModelProto) -> list[int]:
    """The axis of each Softmax, counted from the front."""
    return [n.attribute[0].i % 4 for n in model.graph.node if n.op_type == "Softmax"]


def moves(model: ModelProto) -> int:
    return sum(n.op_type == "Transpose" for n in model.graph.node)


# feature: G13 G14
@pytest.mark.parametrize("freeze, first, second, left", [
    ((), 1, 1, 0),
    (["first"], 3, None, 2),
    (["f"], None, 3, 2),
    (["Softmax"], 3, 3, 2),
    (["onnx:Softmax"], 3, 3, 2),
    ({"first": "NHWC -> NCHW", "second": None}, 1, 3, 2),
    ({"Softmax": "NHWC -> NCHW"}, 1, 1, 0),
    ({"gate": "NCHW -> HWCN"}, None, None, 2),
])  # fmt: skip
def test_nodes_of_models_are_frozen_by_their_names(
    freeze: Any, first: int | None, second: int | None, left: int
) -> None:
    """The axis of each softmax (None: any), and the moves that are left."""
    result = eq.onnx.optimize(MODEL, objective="bytes", freeze=freeze)
    assert result.checked.difference is None and compare_models(MODEL, result.model).equal
    assert all(n in (None, found) for n, found in zip((first, second), axes(result.model), strict=True))
    assert moves(result.model) == left
    assert {n.name for n in result.model.graph.node} >= {"first", "gate", "second"}
    assert result.laid is None or result.cost_after <= result.laid.cost
    assert result.cost_before == eq.onnx.optimize(MODEL, objective="bytes").cost_before, "the model as it was given"
    reasons = [move.reason for move in result.left]
    assert not reasons or any("is frozen in its order" in reason for reason in reasons), reasons


# feature: G14
@pytest.mark.parametrize("freeze, words", [
    (["frist"], "no operator has that name (one of first"),
    ({"first": "NHWC -> NCHW4c"}, "no such form for target onnx"),
    ({"a": None}, "only moves cells"),
    ({"first": "NHWC -> NCHW", "Softmax": None}, "contradicts freeze 'first'"),
])  # fmt: skip
def test_what_cannot_be_frozen_in_a_model_is_an_error(freeze: Any, words: str) -> None:
    with pytest.raises(EqsatError) as error:
        eq.onnx.optimize(MODEL, freeze=freeze)
    assert words in str(error.value)


# feature: G13
def test_a_convolution_has_its_dimensions_in_onnx() -> None:
    """Its channels may lie in any order, its dimensions not."""
    w = helper.make_node("Constant", [], ["w"], value=onnx.numpy_helper.from_array(np.ones((8, 8, 3, 3), np.float32)))
    model = chain(w, helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4))
    with pytest.raises(EqsatError, match="no such form for target onnx"):
        eq.onnx.optimize(model, freeze={"Conv": "NCHW -> NHWC"})
    shuffled = eq.onnx.optimize(model, freeze={"Conv": "n, c, h, w -> n, c % 2, c // 2, h, w"}, objective="bytes")
    assert compare_models(model, shuffled.model).equal and moves(shuffled.model) == 1


# feature: G13
def test_names_of_bodies_are_no_mistake() -> None:
    """What is frozen in a body stays there; a name that only a body has is known."""
    inner = [transposed("x", "p", [0, 2, 3, 1]), helper.make_node("Relu", ["p"], ["q"], name="inner"),
             transposed("q", "r", [0, 3, 1, 2])]  # fmt: skip
    body = helper.make_graph(inner, "body", [], [helper.make_tensor_value_info("r", TensorProto.FLOAT, SHAPE)])
    kinds: tuple[tuple[str, int, list[int]], ...] = (
        ("x", TensorProto.FLOAT, SHAPE),
        ("flag", TensorProto.BOOL, []),
        ("y", TensorProto.FLOAT, SHAPE),
    )
    ends = [helper.make_tensor_value_info(n, t, s) for n, t, s in kinds]
    node = helper.make_node("If", ["flag"], ["y"], then_branch=body, else_branch=body)
    graph = helper.make_graph([node], "branches", ends[:2], ends[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def inside(freeze: Any) -> int:
        found = eq.onnx.optimize(model, objective="bytes", freeze=freeze).model
        return sum(n.op_type == "Transpose" for a in found.graph.node[0].attribute for n in a.g.node)

    assert (inside(()), inside(["inner"]), inside(["Relu"]), inside({"inner": "NHWC -> NCHW"})) == (0, 4, 4, 0)


# feature: G14
def test_the_command_line_freezes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(MODEL, path)
    options = ["--objective", "bytes", "--freeze", "first=NHWC -> NCHW", "--freeze", "second"]
    assert main(["optimize", str(path), "-o", str(out), *options]) == 0
    assert axes(onnx.load(out)) == [1, 3]
    assert main(["optimize", str(path), "--freeze", "frist"]) == 2
    assert "no operator has that name (one of first" in capsys.readouterr().err
