"""Scaled products (Gemm with alpha or beta, FusedMatMul with alpha): Transposes around one turn into its flags, and it
stays one node with the numbers that it has."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from seeds import each_value, some_of

import eqsat.onnx
from eqsat.ir.dtypes import NDArray
from eqsat.models.guarded import check_model
from eqsat.models.package import run_session, session
from eqsat.pricing.table import shipped

pytestmark = pytest.mark.onnx

SEEDS = int(os.environ.get("EQSAT_SCALED", "2"))
START = int(os.environ.get("EQSAT_SCALED_SEED", "0"))
M, K, N = 6, 5, 7
ADDED: dict[str, tuple[int, ...] | None] = {
    "nothing": None, "a number": (), "one cell": (1,), "a row": (N,), "a row in two axes": (1, N), "a column": (M, 1),
    "a matrix": (M, N), "one cell in two axes": (1, 1),
}  # fmt: skip
KINDS = {"float16": TensorProto.FLOAT16, "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}


def whole(shape: Sequence[int], dtype: str, seed: int) -> NDArray:
    """Whole numbers, whose products and sums no order rounds."""
    return np.asarray(np.random.default_rng([seed, *shape]).integers(-3, 4, shape), dtype)


class Builder:
    """A model in the making."""

    def __init__(self, dtype: str = "float32", opset: int = 17) -> None:
        self.dtype, self.opset = dtype, opset
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self.inputs: list[Any] = []

    def node(self, op: str, inputs: Sequence[str], domain: str = "", **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], domain=domain, **attrs))
        return name

    def transposed(self, x: str, perm: Sequence[int] = (1, 0)) -> str:
        return self.node("Transpose", [x], perm=perm)

    def given(self, shape: Sequence[int | str], constant: bool = False) -> str:
        if constant:
            name = f"w{len(self.weights)}"
            array = whole([d for d in shape if isinstance(d, int)], self.dtype, len(self.weights))
            self.weights.append(numpy_helper.from_array(array, name))
            return name
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, self.kind, shape))
        return self.node("Abs", [name]) if shape else name

    @property
    def kind(self) -> int:
        return helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))

    def model(self, *outputs: str, rank: int = 2) -> ModelProto:
        ends = [helper.make_tensor_value_info(o, self.kind, [f"{o}_{n}" for n in range(rank)]) for o in outputs]
        graph = helper.make_graph(self.nodes, "scaled", self.inputs, ends, self.weights)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def scales(model: ModelProto) -> list[dict[str, float]]:
    """Alpha and beta of each product."""
    named = [n for n in model.graph.node if n.op_type in ("Gemm", "FusedMatMul")]
    return [{a.name: a.f for a in n.attribute if a.name in ("alpha", "beta")} for n in named]


def operators(model: ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node]


def same_numbers(before: ModelProto, after: ModelProto, sizes: Mapping[str, int] | None = None) -> None:
    """Both models make the same bits of whole numbers, in onnxruntime."""
    check_model(after)
    feeds: dict[str, NDArray] = {}
    for n, x in enumerate(before.graph.input):
        kind = x.type.tensor_type
        shape = [(sizes or {})[d.dim_param] if d.dim_param else d.dim_value for d in kind.shape.dim]
        feeds[x.name] = whole(shape, helper.tensor_dtype_to_np_dtype(kind.elem_type).name, n + 7)
    one, two = (run_session(session(m), feeds) for m in (before, after))
    for a, b in zip(one, two, strict=True):
        assert np.abs(a).max(initial=0) > 1 or a.size == 0
        assert a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)


def around(added: tuple[int, ...] | None, where: str, dtype: str, constant: bool) -> ModelProto:
    """A product whose operands and result, as far as they are named, stand between Transposes."""
    b = Builder(dtype)
    left = b.transposed(b.given((K, M))) if "a" in where else b.given((M, K))
    right = b.transposed(b.given((N, K), constant)) if "b" in where else b.given((K, N), constant)
    turned = added == (M, N) and "y" in where and not constant
    rest = [] if added is None else [b.transposed(b.given((N, M))) if turned else b.given(added, constant)]
    made = b.node("Gemm", [left, right, *rest], alpha=0.5, beta=-2.0)
    return b.model(b.node("Abs", [b.transposed(made) if "y" in where else made]))


@each_value(added=ADDED, where=["a", "b", "y", "aby"], constant=[False, True])
def test_transposes_turn_into_flags(added: str, where: str, constant: bool) -> None:
    given = around(ADDED[added], where, "float32", constant)
    found = eqsat.onnx.optimize(given, objective="bytes", growth=1.0)
    assert not {"Transpose", "Mul", "Add"} & set(operators(found.model)), found.notes
    assert scales(found.model) == scales(given)
    same_numbers(given, found.model)


@each_value(added=ADDED, dtype=["float16", "float64"])
def test_other_floats(added: str, dtype: str) -> None:
    given = around(ADDED[added], "aby", dtype, False)
    found = eqsat.onnx.optimize(given, objective="bytes")
    assert not {"Transpose", "Mul", "Add", "Cast"} & set(operators(found.model)), found.notes
    same_numbers(given, found.model)


@each_value(added=ADDED, dtype=["int32", "int64", "uint32"])
def test_integers_are_scaled_as_a_runtime_does_it(added: str, dtype: str) -> None:
    """No formula says how they are rounded; the node is the same, over the operands as they lie."""
    b = Builder(dtype)
    left, right = b.transposed(b.given((K, M))), b.transposed(b.given((N, K)))
    shape = ADDED[added]
    made = b.node("Gemm", [left, right, *([] if shape is None else [b.given(shape)])], alpha=0.5, beta=1.5)
    given = b.model(b.node("Abs", [b.transposed(made)]))
    found = eqsat.onnx.optimize(given, objective="bytes")
    assert operators(found.model).count("Transpose") == (shape == (M, N)), found.notes
    assert scales(found.model) == scales(given)
    check_model(found.model)


def test_before_opset_7_what_is_added_keeps_its_place() -> None:
    b = Builder(opset=6)
    made = b.node("Gemm", [b.given((M, K)), b.given((K, N)), b.given((N,))], alpha=0.5, beta=2.0, broadcast=1)
    given = b.model(b.node("Abs", [b.transposed(made)]))
    found = eqsat.onnx.optimize(given, objective="bytes")
    assert operators(found.model).count("Transpose") == 1
    check_model(found.model)


@pytest.mark.parametrize("sizes", [{"m": 4, "k": 3, "n": 2}, {"m": 1, "k": 1, "n": 5}])
def test_open_sizes(sizes: Mapping[str, int]) -> None:
    b = Builder()
    left, right = b.transposed(b.given(("k", "m"))), b.transposed(b.given(("n", "k")))
    made = b.node("Gemm", [left, right, b.given(("n",))], alpha=0.5, beta=2.0)
    given = b.model(b.node("Abs", [b.transposed(made)]))
    found = eqsat.onnx.optimize(given, objective="bytes")
    assert "Transpose" not in operators(found.model), found.notes
    same_numbers(given, found.model, sizes)


@pytest.mark.parametrize("bits", some_of((0, 1, 2, 4, 8, 15, 3, 5, 6, 7, *range(9, 15)), 6))
def test_scaled_batches_for_onnxruntime(bits: int) -> None:
    """FusedMatMul: rows and columns, and what stands before the batch, by flags."""
    flags = [name for n, name in enumerate(("transA", "transB", "transBatchA", "transBatchB")) if bits >> n & 1]
    b = Builder()

    def matrices(rows: int, columns: int, exchanged: bool, first: bool) -> str:
        ends = (columns, rows) if exchanged else (rows, columns)
        shape = (ends[0], 3, ends[1]) if first else (3, *ends)
        perm = (2, 1, 0) if first else (0, 2, 1)
        return b.transposed(b.given([shape[n] for n in perm]), perm)

    left = matrices(M, K, "transA" in flags, "transBatchA" in flags)
    right = matrices(K, N, "transB" in flags, "transBatchB" in flags)
    made = b.node("FusedMatMul", [left, right], "com.microsoft", alpha=0.5, **dict.fromkeys(flags, 1))
    given = b.model(b.node("Abs", [b.transposed(made, (0, 2, 1))]), rank=3)
    given.graph.value_info.append(helper.make_tensor_value_info(made, b.kind, (3, M, N)))
    found = eqsat.onnx.optimize(given, objective="bytes", target="onnxruntime")
    assert "Transpose" not in operators(found.model), found.notes
    assert scales(found.model) == scales(given)
    same_numbers(given, found.model)


def random_model(seed: int) -> tuple[ModelProto, dict[str, int]]:
    """Scaled products one after another, among Transposes, Reshapes and other readers."""
    r = Random(f"scaled {seed}")
    b = Builder(r.choice(list(KINDS)), r.choice([9, 11, 13, 17, 19]))
    open_ = r.random() < 0.3
    rows, columns = r.choice([1, 3, 4, 6]), r.choice([1, 2, 4])
    size: int | str = "m" if open_ else rows
    x, shape = b.given((size, columns)), [size, columns]
    outputs: list[str] = []
    for _ in range(r.randint(1, 3)):
        if r.random() < 0.6:
            x, shape = b.transposed(x), shape[::-1]
        exchanged, left = r.random() < 0.5, r.random() < 0.7
        inner = shape[0] if exchanged == left else shape[1]
        kept = shape[1] if exchanged == left else shape[0]
        if inner == "m" and r.random() < 0.8:
            exchanged, inner, kept = not exchanged, kept, inner
        width = r.choice([1, 2, 5])
        other_exchanged, constant = r.random() < 0.5, r.random() < 0.6 and inner != "m"
        natural = (inner, width) if left else (width, inner)
        wanted = natural[::-1] if other_exchanged else natural
        moved = r.random() < 0.4
        other = b.given(wanted[::-1] if moved else wanted, constant)
        other = b.transposed(other) if moved else other
        shape = [kept, width] if left else [width, kept]
        shapes: list[Any] = [None, (), (1,), (shape[1],), (1, shape[1]), (shape[0], 1), tuple(shape), (1, 1)]
        added = r.choice(shapes if b.opset >= 11 else shapes[1:])
        rest = [] if added is None else [b.given(added, r.random() < 0.5 and "m" not in added)]
        flags = {
            "transA": int(exchanged if left else other_exchanged),
            "transB": int(other_exchanged if left else exchanged),
        }
        attrs: dict[str, Any] = {k: v for k, v in flags.items() if v or r.random() < 0.3}
        attrs |= {"alpha": r.choice([0.5, 2.0, -1.0, 1.0, 0.25])} if r.random() < 0.8 else {}
        attrs |= {"beta": r.choice([0.5, 2.0, -1.0, 0.0])} if r.random() < 0.6 else {}
        x = b.node("Gemm", [*((x, other) if left else (other, x)), *rest], **attrs)
        if r.random() < 0.3:
            outputs.append(b.node("Abs", [x]))
        if r.random() < 0.4:
            x = b.node("Abs", [x])
    if r.random() < 0.6:
        x = b.transposed(x)
    return b.model(*outputs, b.node("Neg", [x])), {"m": rows}


@pytest.mark.parametrize("seed", range(START, START + SEEDS))
def test_random_ones(seed: int) -> None:
    given, sizes = random_model(seed)
    for target in ("onnx", "onnxruntime"):
        for objective in ("bytes", "time"):
            for checked in (False, True):
                found = eqsat.onnx.optimize(given, target=target, objective=objective, checked=checked, growth=1.0)
                check_model(found.model)
                same_numbers(given, found.model, sizes)
                assert found.cost_after <= found.cost_before


@pytest.mark.parametrize("rows", [60, 600])
def test_a_turned_operand_costs_what_it_costs_any_product(rows: int) -> None:
    """A large left operand is read more slowly where it lies turned than it is turned."""
    found: list[list[str]] = []
    for alpha in (1.0, 0.5):
        b = Builder()
        left, right = b.transposed(b.given((50, rows))), b.given((50, rows + 10))
        given = b.model(b.node("Abs", [b.node("Gemm", [left, right], alpha=alpha)]))
        found.append(operators(eqsat.onnx.optimize(given, objective="time", prices=shipped()).model))
    assert found[0] == found[1] and found[0].count("Transpose") == (rows == 600)
