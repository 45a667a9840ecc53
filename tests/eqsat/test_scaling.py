"""Networks of equal blocks: e-nodes grow with their number and the gain does not depend on it; and what is searched can
be built as it was written."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from program_checks import equal_arrays
from seeds import some_of

import eqsat as eq
from eqsat.backends.targets import ONNX
from eqsat.engine import extract_program, measure
from eqsat.graph.encode import encode
from eqsat.graph.search import Limits, Snapshot, task_of
from eqsat.graph.search_worker import search
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Compute
from eqsat.operators.forms import is_selection_node
from eqsat.testing import arrays_for, programs


def chain(blocks: int) -> eq.Tensor:
    y = eq.input("x", (1, 8, 6, 4), "float32")
    for k in range(blocks):
        y = y.permute_dims((0, 2, 3, 1) if k % 2 == 0 else (0, 3, 1, 2)).relu()
    return y


def residual(blocks: int) -> eq.Tensor:
    y = eq.input("x", (8, 8), "float32")
    for _ in range(blocks):
        y = y + y.permute_dims((1, 0)).exp()
    return y


def convolutions(blocks: int) -> eq.Tensor:
    rng = np.random.default_rng(0)
    y = eq.input("x", (1, 6, 6, 4), "float32")
    for k in range(blocks):
        w = eq.constant(rng.standard_normal((4, 4, 1, 1)).astype("float32"))
        z = eq.conv2d(y.permute_dims((0, 3, 1, 2)), w).permute_dims((0, 2, 3, 1))
        y = (y + z).relu() if k % 2 else z
    return y


def same(blocks: int) -> eq.Tensor:
    y = eq.input("x", (4, 4), "float32")
    for _ in range(blocks):
        y = y + y
    return y


@pytest.mark.parametrize("most", some_of([40, 80], 1))
@pytest.mark.parametrize("family", [chain, residual, convolutions, same])
def test_e_nodes_grow_with_the_program(family: Callable[[int], eq.Tensor], most: int) -> None:  # feature: G12 I10
    counts, moved = list[float](), list[int]()
    for blocks in (10, 20, 40, 80)[: 3 if most == 40 else 4]:
        result = eq.optimize(family(blocks), limits=Limits(seconds=120))
        assert result.status == "saturated" and result.gap == 0.0
        counts.append(result.progress.nodes / blocks)
        moved.append(result.bytes_moved)
    assert max(counts) < 1.3 * min(counts)
    assert len(set(moved)) == 1


@pytest.mark.onnx
@pytest.mark.parametrize(
    ("converted", "layers"), [((10, 40), (1, 4)), pytest.param((20, 80), (2, 8), marks=pytest.mark.slow)]
)
def test_models_of_equal_blocks(converted: tuple[int, int], layers: tuple[int, int]) -> None:
    from eqsat.nets import nhwc_converter_net, transformer

    for net, sizes in ((nhwc_converter_net, converted), (transformer, layers)):
        few, many = (eq.onnx.optimize(net(n), limits=Limits(seconds=120)) for n in sizes)
        per_node = [r.progress.nodes / len(net(n).graph.node) for r, n in zip((few, many), sizes, strict=True)]
        assert max(per_node) < 1.3 * min(per_node) and many.status == "saturated"
        again = eq.onnx.optimize(many.model, limits=Limits(seconds=120))
        assert again.model is many.model, "what was optimised is not changed again"


def cost(program: eq.Program) -> int:
    """Bytes, and what a move costs as a node."""
    measured = measure(program)
    return measured.bytes_moved + ONNX.node_bytes * measured.layout_ops


@settings(max_examples=25)
@given(programs(max_ops=6))
def test_programs_can_be_built_before_the_first_iteration(program: eq.Program) -> None:
    encoded = encode(program)
    seen: list[Snapshot] = []
    search(task_of(encoded, "onnx", Limits(seconds=20)), seen.append)
    found = extract_program(encoded, seen[0], "onnx").program
    assert found is not None and seen[0].progress.iterations == 0
    # A selection that is one view of its source may move some bytes more as that.
    merged = any(isinstance(n, Compute) and is_selection_node(n) for n in program.nodes())
    assert merged or cost(found) <= cost(program), f"{program}\n{found}"
    feeds = arrays_for(program)
    with np.errstate(all="ignore"):
        expected, values = evaluate_outputs(program, feeds), evaluate_outputs(found, feeds)
    assert all(equal_arrays(array, values[name], False) for name, array in expected.items())


@pytest.mark.onnx
def test_views_are_kept_as_they_were_written() -> None:
    """An operator of the target that is one node stays one, whatever steps would spell its map."""
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("DepthToSpace", ["x"], ["d"], blocksize=2),
        helper.make_node("Relu", ["d"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("Transpose", ["t"], ["y"], perm=[0, 3, 1, 2]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (1, 16, 64, 64)), ("y", None))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert sorted(n.op_type for n in eq.onnx.optimize(model, objective="bytes").model.graph.node) == [
        "DepthToSpace",
        "Relu",
    ]
