"""A stranger adds an ONNX operator: one entry, and layouts cross it, it is checked, written and compiled."""

# feature: K3
from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, helper

import eqsat as eq
import eqsat.onnx as front
from eqsat.ir.tensors.tensor import Opaque, Tensor
from eqsat.models.package import run_session, session
from eqsat.onnx.bytes import bytes_moved
from eqsat.onnx.call import Call
from eqsat.onnx.ops import table
from eqsat.onnx.ops.nodes import node

pytestmark = pytest.mark.onnx


def lp_normalization(c: Call) -> Tensor:
    x = c.one()
    return x / eq.sqrt((x * x).sum(c.attrs["axis"], keepdims=True))


def between_transposes() -> ModelProto:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("LpNormalization", ["t"], ["n"], axis=3, p=2),
        helper.make_node("Transpose", ["n"], ["y"], perm=[0, 3, 1, 2]),
    ]
    ends = [helper.make_tensor_value_info(n, 1, [1, 4, 5, 6]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_one_entry_is_all_that_an_operator_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = between_transposes()
    table.lookup("Add")
    monkeypatch.delitem(table._operators, "LpNormalization")  # pyright: ignore[reportPrivateUsage]
    kept = front.optimize(model, objective="bytes").model
    assert bytes_moved(kept).total == bytes_moved(model).total > 0, "a barrier"
    node("LpNormalization", "input", "axis p=2", along=1)(lp_normalization)
    after = front.optimize(model, objective="bytes").model
    assert [n.op_type for n in after.graph.node] == ["LpNormalization"]
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 4, 5, 6)).astype(np.float32)}
    wanted = run_session(session(model), feeds)[0]
    np.testing.assert_allclose(run_session(session(after), feeds)[0], wanted, rtol=1e-5)
    program = front.load(model)
    assert any(isinstance(n, Opaque) and n.definition is not None for n in program.nodes())
    np.testing.assert_allclose(eq.compile(program)(feeds), wanted, rtol=1e-5)


def test_tables_are_imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators are looked up for each node that is made: only the first time are their tables imported."""
    assert table.lookup("Conv") is not None
    again: list[str] = []
    monkeypatch.setattr(table, "import_module", again.append)
    assert table.lookup("Conv") is not None and table.lookup("NonZero") is None
    assert not again


def test_what_an_opset_has_as_attributes_is_not_written_as_inputs() -> None:
    """Before opset 10 the bounds of a Slice are numbers: the model stays as it is, with that reason."""
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("Pad", ["e"], ["y"], pads=[2, 1, 0, 2, -1, 0, -1, 0], value=-1.0),
    ]
    shapes = {"x": [5, "M", 2, 1], "y": [6, None, 1, 3]}
    ends = [helper.make_tensor_value_info(n, 1, s) for n, s in shapes.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=8)
    found = front.optimize(model)
    assert found.checked.difference is None and found.model is model
    assert not [note for note in found.notes if "defect" in note], found.notes
