"""Deep programs: what overflows says nothing, what rounding explains is no difference, and faults are found."""

# feature: I11
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.checking import part
from eqsat.checking.programs import check_programs
from eqsat.ir.tensors.tensor import Program, Tensor

ROWS, WIDE, HEADS = 8, 16, 2


X = eq.input("x", (ROWS, WIDE), "float32")


def attention(blocks: int, scale: float, wrong: bool = False, by_formula: bool = False) -> Tensor:
    """Equal blocks over `scale` times normal weights; the last one takes its queries for values where it is `wrong`."""
    rng = np.random.default_rng(0)
    x = X

    def weight(*shape: int) -> Tensor:
        return eq.constant(rng.normal(0, scale, shape).astype("float32"))

    for block in range(blocks):
        made = eq.matmul(x, weight(WIDE, 3 * WIDE))
        pieces = [p.reshape((ROWS, HEADS, WIDE // HEADS)).permute_dims((1, 0, 2)) for p in eq.split(made, 3, axis=1)]
        q, k, v = pieces if not wrong or block < blocks - 1 else (pieces[0], pieces[1], pieces[0])
        scores = eq.matmul(q, k.permute_dims((0, 2, 1)))
        weights = _softmax(scores) if by_formula else scores.softmax(-1)
        mixed = eq.matmul(weights, v)
        x = x + eq.matmul(mixed.permute_dims((1, 0, 2)).reshape((ROWS, WIDE)), weight(WIDE, WIDE))
    return x


def _softmax(x: Tensor) -> Tensor:
    e = (x - x.max(axis=-1, keepdims=True)).exp()
    return e / e.sum(axis=-1, keepdims=True)


def of(y: Tensor) -> Program:
    return Program([X], {"y": y})


@pytest.mark.parametrize("blocks", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_many_blocks_are_optimised(blocks: int) -> None:
    """An operator of a long region has its definition on both sides: on one alone it would be another function."""
    r = eq.optimize(attention(blocks, 0.1), target="onnx", objective="time")
    assert not r.notes and r.cost_after < r.cost_before


@pytest.mark.parametrize("scale", [0.1, 2.5])
@pytest.mark.parametrize("blocks", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_a_fault_in_many_blocks_is_found(scale: float, blocks: int) -> None:
    """Also where no block but the first has finite values for numbers of usual size."""
    before = of(attention(blocks, scale))
    assert check_programs(before, of(attention(blocks, scale, by_formula=True)), 20.0).difference is None
    assert check_programs(before, of(attention(blocks, scale, wrong=True)), 20.0).difference is not None


def test_definitions_that_are_too_long_are_opened_on_no_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then operators stand for themselves, in any layout."""
    y = X
    for _ in range(9):
        y = y.softmax(-1) * 2.0
    z = X.permute_dims((1, 0))
    for k in range(9):
        z = (z.softmax(0) * 2.0).permute_dims((1, 0)).permute_dims((1, 0)) if k else z.softmax(0) * 2.0
    z, wrong = z.permute_dims((1, 0)), y.flip((0,))
    for limit in (20, part.OPENED):
        monkeypatch.setattr(part, "OPENED", limit)
        assert check_programs(of(y), of(z)).difference is None
        assert check_programs(of(y), of(wrong)).difference is not None


def test_what_is_not_finite_is_compared_in_moves() -> None:
    logs = X.log()
    assert check_programs(of(logs.flip((0,))), of(logs)).difference is not None
    assert check_programs(of(logs.sum(axis=0)), of(logs.flip((1,)).sum(axis=0))).difference is not None
    infinite = eq.where(X > 1.0, float("inf"), X)
    assert check_programs(of(infinite.flip((0,))), of(infinite)).difference is not None
    assert check_programs(of((X * 0.0).sum(axis=0)), of((X.flip((0,)) * 0.0).sum(axis=0))).difference is None
    assert (
        check_programs(of((X * 0.0).sum(axis=0)), of(eq.where(X > 0.0, 0.0, X * 0.0 + 0.0).sum(axis=0))).difference
        is not None
    )


def test_rounding_that_grows_is_no_difference() -> None:
    """Two orders of a sum have other last digits, which 20 steps take to the first ones, but not where numbers are
    small."""

    def steps(y: Tensor, factor: float = 7.0) -> Program:
        for k in range(20):
            y = (y * (factor if k else 7.0)).sin()
        return of(y)

    before, halves = steps(X.sum(axis=0)), X[:4].sum(axis=0) + X[4:].sum(axis=0)
    assert check_programs(before, steps(halves)).difference is None
    assert check_programs(before, steps(halves, 7.01)).difference is not None
    assert check_programs(before, steps(halves.flip((0,)))).difference is not None
    assert check_programs(before, steps(halves + 1e-2)).difference is not None


def products(count: int, first: float, reorder: bool = False) -> Any:
    """A model of products in a row, that overflow for inputs of usual size."""
    helper: Any = pytest.importorskip("onnx.helper")
    numpy_helper: Any = pytest.importorskip("onnx.numpy_helper")
    rng = np.random.default_rng(0)
    weights = [rng.normal(0, 10.0, (16, 16)).astype("float32") for _ in range(count)]
    weights[0][0, 0] += first
    made = [numpy_helper.from_array(w.T if reorder else w, f"w{k}") for k, w in enumerate(weights)]
    nodes: list[Any] = []
    for k in range(count):
        reads = [f"w{k}", f"x{k}"] if reorder else [f"x{k}", f"w{k}"]
        nodes.append(helper.make_node("MatMul", reads, [f"x{k + 1}"]))
    if reorder:
        nodes.insert(0, helper.make_node("Transpose", ["x"], ["x0"], perm=[1, 0]))
        nodes.append(helper.make_node("Transpose", [f"x{count}"], ["y"], perm=[1, 0]))
    else:
        nodes.insert(0, helper.make_node("Identity", ["x"], ["x0"]))
        nodes.append(helper.make_node("Identity", [f"x{count}"], ["y"]))
    ends = [helper.make_tensor_value_info(name, 1, [8, 16]) for name in "xy"]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.onnx
def test_a_fault_in_a_model_that_overflows_is_found() -> None:
    pytest.importorskip("onnxruntime")
    check: Any = pytest.importorskip("eqsat.checking.models").check_models
    assert check(products(40, 0.0), products(40, 0.0, reorder=True)).difference is None
    assert check(products(40, 0.0), products(40, 5.0, reorder=True)).difference is not None
