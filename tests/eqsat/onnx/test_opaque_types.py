"""Moves of elements that programs have no type for: chains of them are as short as those of any other type."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import eqsat as eq  # noqa: E402
from eqsat.onnx.parts.opaque_types import takes  # noqa: E402

pytestmark = pytest.mark.onnx
TYPES = {
    "string": TensorProto.STRING, "complex64": TensorProto.COMPLEX64, "bfloat16": TensorProto.BFLOAT16,
    "float8": TensorProto.FLOAT8E4M3FN, "int4": TensorProto.INT4,
}  # fmt: skip


class Chain:
    """A model in the making."""

    def __init__(self, kind: int, shape: Sequence[int]) -> None:
        self.kind, self.given, self.shape = kind, list(shape), list(shape)
        self.nodes: list[Any] = []
        self.weights: list[TensorProto] = []
        self.value = "x"

    def add(self, op: str, *inputs: Sequence[int], more: Sequence[str] = (), **attributes: Any) -> None:
        names: list[str] = []
        for numbers in inputs:
            names.append(f"n{len(self.weights)}")
            self.weights.append(numpy_helper.from_array(np.array(numbers, np.int64), names[-1]))
        self.nodes.append(helper.make_node(op, [self.value, *more, *names], [f"v{len(self.nodes)}"], **attributes))
        self.value = self.nodes[-1].output[0]

    def transposed(self, perm: Sequence[int]) -> None:
        self.shape = [self.shape[n] for n in perm]
        self.add("Transpose", perm=list(perm))

    def reshaped(self, shape: Sequence[int]) -> None:
        self.shape = list(shape)
        self.add("Reshape", shape)

    def model(self, opset: int = 21) -> ModelProto:
        self.add("Identity")
        self.nodes[-1].output[0] = "y"
        ends = [helper.make_tensor_value_info(n, self.kind, s) for n, s in (("x", self.given), ("y", self.shape))]
        graph = helper.make_graph(self.nodes, "chain", ends[:1], ends[1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def operators(model: ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node if n.op_type != "Identity"]


def outputs(model: ModelProto, kind: int, shape: Sequence[int]) -> Any:
    """What the reference makes of numbered cells."""
    cells = np.arange(int(np.prod(shape))).reshape(shape)
    x = cells.astype(np.complex64) if kind == TensorProto.COMPLEX64 else cells.astype(str).astype(object)
    evaluator: Any = ReferenceEvaluator(model)
    return np.asarray(evaluator.run(None, {"x": x})[0])


# feature: I1 I4
@pytest.mark.parametrize("name", TYPES)
def test_moves_that_undo_each_other_vanish(name: str) -> None:
    chain = Chain(TYPES[name], [4, 6, 2])
    chain.transposed([1, 0, 2])
    chain.reshaped([12, 4])
    chain.reshaped([6, 4, 2])
    chain.transposed([1, 0, 2])
    found = eq.onnx.optimize(chain.model(), objective="bytes")
    assert operators(found.model) == []
    assert any("1 of 1 chains of moves" in note for note in found.notes)
    onnx.checker.check_model(found.model, full_check=True)


# feature: I1 I4
@pytest.mark.parametrize("seed", range(8))
def test_random_moves_mean_the_same(seed: int) -> None:
    r = random.Random(seed)
    chain = Chain(TYPES["string" if seed % 2 else "complex64"], [4, 6, 2])
    for _ in range(r.randint(2, 5)):
        way = r.randrange(3)
        if way == 0 and len(chain.shape) > 1:
            chain.transposed(r.sample(range(len(chain.shape)), len(chain.shape)))
        elif way == 1:
            cells = int(np.prod(chain.shape))
            chain.reshaped(r.choice([[8, 6], [48], [4, 3, 4], [2, 2, 2, 6]]) if cells == 48 else [cells])
        elif chain.shape[0] > 1:
            chain.shape[0] -= 1
            chain.add("Slice", [1], [chain.shape[0] + 1], [0])
    model = chain.model()
    found = eq.onnx.optimize(model, objective="bytes").model
    assert len(operators(found)) <= len(operators(model))
    assert np.array_equal(outputs(model, chain.kind, chain.given), outputs(found, chain.kind, chain.given))


# feature: I1
def test_what_computes_with_such_elements_is_not_moved_through() -> None:
    """An operator of the type stands between two chains; a value that it reads as well stays."""
    chain = Chain(TensorProto.BFLOAT16, [4, 6])
    chain.transposed([1, 0])
    chain.transposed([1, 0])
    kept = chain.value
    chain.transposed([1, 0])
    chain.add("Relu")
    chain.transposed([1, 0])
    chain.add("Add", more=[kept])
    found = eq.onnx.optimize(chain.model(), objective="bytes").model
    assert sorted(operators(found)) == ["Add", "Relu", "Transpose", "Transpose"]
    onnx.checker.check_model(found, full_check=True)


# feature: I1
def test_only_operators_that_take_the_type_may_move_it() -> None:
    """Slices of this opset take no elements of eight bits; transposes and strings are taken."""
    model = Chain(TensorProto.STRING, [2]).model()
    taken = {
        (op, name): takes(helper.make_node(op, ["x"], ["y"]), TYPES[name], model)
        for op in ("Transpose", "Slice", "Relu")
        for name in ("float8", "string")
    }
    assert [pair for pair, known in taken.items() if known] == [
        ("Transpose", "float8"), ("Transpose", "string"), ("Slice", "string"),
    ]  # fmt: skip


def test_what_became_of_moves_is_reported() -> None:
    """The verdict counts them, and those that stay are listed with the reason."""
    chain = Chain(TensorProto.BFLOAT16, (5, 6, 7))
    chain.transposed((1, 2, 0))
    chain.transposed((2, 0, 1))
    found = eq.onnx.optimize(chain.model())
    report = found.reported()
    assert report.verdict == "better parts: 2 of 2 moves gone in 1 of 1" and "moves from" in report.text()
    assert not found.left
    twice = Chain(TensorProto.BFLOAT16, (5, 6, 7))
    twice.transposed((1, 2, 0))
    twice.transposed((1, 2, 0))
    kept = eq.onnx.optimize(twice.model())
    assert [m.reason for m in kept.left] and all("moves from" in m.inside for m in kept.left)
