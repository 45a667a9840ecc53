"""Products in other layouts: what is written means the same, and moves no more than was claimed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from random_products import random_product
from seeds import each_value, some_of

import eqsat as eq
from eqsat.backends.targets import TARGETS
from eqsat.engine import optimize
from eqsat.extraction.cost import layout_nodes
from eqsat.ir.tensors.tensor import Compute, Program
from eqsat.models.guarded import check_model
from eqsat.models.package import run_session, session
from eqsat.onnx.bytes import bytes_moved
from eqsat.onnx.check import compare_models
from eqsat.onnx.write import write

pytestmark = pytest.mark.onnx
FLOAT = TensorProto.FLOAT


def info(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, shape)


def weight(name: str, *shape: int) -> TensorProto:
    values = np.random.default_rng(sum(name.encode())).standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(values, name)


def ints(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model_of(graph: onnx.GraphProto) -> ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def operators(model: ModelProto) -> Counter[str]:
    return Counter(n.op_type for n in model.graph.node)


def tolerance(model: ModelProto) -> float:
    return 2e-3 if model.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT16 else 1e-4


@pytest.mark.parametrize("target", ["onnx", "onnxruntime"])
@pytest.mark.parametrize("seed", some_of(range(25), 4))
def test_random_products(seed: int, target: str) -> None:
    model, sizes = random_product(seed)
    found = eq.onnx.optimize(model, objective="bytes", target=target)
    assert not [note for note in found.notes if "defect" in note]
    check_model(found.model)
    assert {n.domain for n in found.model.graph.node} <= {"", *TARGETS[target].domains}
    assert compare_models(model, found.model, sizes=sizes, tolerance=tolerance(model)).equal
    if found.model is not model:
        assert bytes_moved(found.model).total <= found.bytes_moved


def tokens_of_an_image() -> ModelProto:
    """A product over the channels of an image, as a network of tokens spells it."""
    nodes = [
        helper.make_node("Reshape", ["x", "tokens"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["rows"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["rows", "w"], ["p"]),
        helper.make_node("Transpose", ["p"], ["columns"], perm=[0, 2, 1]),
        helper.make_node("Reshape", ["columns", "image"], ["y"]),
    ]
    constants = [weight("w", 8, 32), ints("tokens", 1, 8, 14 * 28), ints("image", 1, 32, 14, 28)]
    return model_of(helper.make_graph(nodes, "g", [info("x", 1, 8, 14, 28)], [info("y", 1, 32, 14, 28)], constants))


def test_the_columns_of_a_product_are_one_dimension() -> None:
    """The reader wants two dimensions; cut in two, the columns are no product's any more, and two moves come back."""
    model = tokens_of_an_image()
    found = eq.onnx.optimize(model, objective="bytes")
    assert found.bytes_moved == bytes_moved(found.model).total == 0
    assert operators(found.model)["MatMul"] + operators(found.model)["Gemm"] == 1
    assert compare_models(model, found.model).equal


def mixer_block(tokens: int = 14, channels: int = 8) -> ModelProto:
    """Two products over tokens between transposes."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["t", "w1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["o"]),
        helper.make_node("Transpose", ["o"], ["back"], perm=[0, 2, 1]),
        helper.make_node("Add", ["x", "back"], ["y"]),
    ]
    ends = [info("x", 1, tokens, channels)], [info("y", 1, tokens, channels)]
    return model_of(helper.make_graph(nodes, "g", *ends, [weight("w1", tokens, 32), weight("w2", 32, tokens)]))


def test_leading_dimensions_of_extent_1_stay_where_they_are() -> None:
    model = mixer_block()
    found = eq.onnx.optimize(model, objective="bytes")
    assert operators(found.model) == {"MatMul": 2, "Relu": 1, "Add": 1}
    assert compare_models(model, found.model).equal


def test_what_moves_more_than_claimed_is_chosen_no_more() -> None:
    """A product whose spelling is said to move more than all transposes around it is left as it was."""
    program = eq.onnx.load(mixer_block())
    free = optimize(program, "onnx", "bytes")
    assert free.bytes_moved == 0
    asked: list[Program] = []

    def beyond(candidate: Program) -> Mapping[int, int]:
        asked.append(candidate)
        own = {n.serial for n in program.nodes()}
        # As in the program, a product stands after a transpose.
        return {} if layout_nodes(candidate) else {n.serial: 10**6 for n in candidate.nodes() if n.serial not in own}

    found = optimize(program, "onnx", "bytes", beyond=beyond)
    # The second choice is no better than what was there, and is not asked about.
    assert len(asked) == 1 and found.bytes_moved == found.initial.bytes_moved > 0
    dear = optimize(program, "onnx", "bytes", beyond=lambda p: {n.serial: 10 for n in p.nodes() if p is not program})
    assert dear.bytes_moved > 0, "what is moved beyond the claim is in the figure"


def stored_turned(dtype: int, *batch: int) -> ModelProto:
    """x^T y of matrices that are both computed."""
    perm = [*range(len(batch)), len(batch) + 1, len(batch)]
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Transpose", ["a"], ["t"], perm=perm),
        helper.make_node("MatMul", ["t", "w"], ["y"]),
    ]
    shapes = {"x": (*batch, 6, 3), "w": (*batch, 6, 4), "y": (*batch, 3, 4)}
    x, w, y = (helper.make_tensor_value_info(n, dtype, s) for n, s in shapes.items())
    return model_of(helper.make_graph(nodes, "g", [x, w], [y]))


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_matrices_are_read_turned(dtype: int) -> None:
    model = stored_turned(dtype)
    found = eq.onnx.optimize(model, objective="bytes")
    assert operators(found.model) == {"Abs": 1, "Gemm": 1} and bytes_moved(found.model).total == 0
    assert compare_models(model, found.model, tolerance=tolerance(model)).equal


@pytest.mark.parametrize(("dtype", "batch"), [(TensorProto.INT32, ()), (TensorProto.FLOAT, (2,))])
def test_products_that_no_operator_reads_turned_stay(dtype: int, batch: tuple[int, ...]) -> None:
    """onnxruntime has no Gemm of integers, and Gemm has no batch."""
    model = stored_turned(dtype, *batch)
    assert operators(eq.onnx.optimize(model, objective="bytes").model) == {"Abs": 1, "Transpose": 1, "MatMul": 1}


def test_before_opset_11_a_turned_product_would_need_a_transpose() -> None:
    """Gemm asks for a third operand there; the transpose that it would take is in the price of the turned form."""
    model = stored_turned(TensorProto.FLOAT)
    model.opset_import[0].version = 10
    found = eq.onnx.optimize(model, objective="bytes")
    assert operators(found.model) == {"Abs": 1, "Transpose": 1, "MatMul": 1}
    assert bytes_moved(found.model).total == found.bytes_moved


# -- onnxruntime's own product ---------------------------------------------------------------------------------------

MICROSOFT = helper.make_opsetid("com.microsoft", 1)


def fused(a: tuple[int, ...], b: tuple[int, ...], **flags: Any) -> ModelProto:
    node = helper.make_node("FusedMatMul", ["a", "b"], ["y"], domain="com.microsoft", **flags)
    ends = [info("a", *a), info("b", *b)]
    graph = helper.make_graph([node, helper.make_node("Abs", ["y"], ["z"])], "g", ends, [])
    graph.output.append(info("z", 2, 4, 3, 5))
    graph.value_info.append(info("y", 2, 4, 3, 5))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), MICROSOFT], ir_version=8)


def placed(matrices: tuple[int, ...], exchanged: int, first: int) -> tuple[int, ...]:
    """The shape in which a product of batches reads an operand."""
    *batch, p, q = matrices
    if exchanged:
        p, q = q, p
    return (p, *batch, q) if first else (*batch, p, q)


@pytest.mark.parametrize("bits", range(16))
def test_the_formula_of_a_fused_product_is_what_onnxruntime_computes(bits: int) -> None:
    names = ("transA", "transB", "transBatchA", "transBatchB")
    flags = {name: bits >> n & 1 for n, name in enumerate(names)}
    a = placed((2, 4, 3, 6), flags["transA"], flags["transBatchA"])
    b = placed((2, 4, 6, 5), flags["transB"], flags["transBatchB"])
    model = fused(a, b, **flags)
    program = eq.onnx.load(model)
    assert all(isinstance(n, Compute) for n in program.nodes() if n.operands)
    random = np.random.default_rng(bits)
    feeds = {"a": random.standard_normal(a).astype(np.float32), "b": random.standard_normal(b).astype(np.float32)}
    expected = run_session(session(model), feeds)[0]
    assert np.allclose(eq.evaluate(program, feeds), expected, atol=1e-4)
    again = write(program)
    assert next((n.domain, n.op_type) for n in again.graph.node) == ("com.microsoft", "FusedMatMul")
    assert np.array_equal(run_session(session(again), feeds)[0], expected)


def test_a_scaled_fused_product() -> None:
    model = fused((2, 4, 3, 6), (2, 4, 5, 6), transB=1, alpha=0.25)
    program = eq.onnx.load(model)
    random = np.random.default_rng(0)
    feeds = {n: random.standard_normal(s).astype(np.float32) for n, s in (("a", (2, 4, 3, 6)), ("b", (2, 4, 5, 6)))}
    expected = run_session(session(model), feeds)[0]
    assert np.allclose(eq.evaluate(program, feeds), expected, atol=1e-4)
    assert np.allclose(run_session(session(write(program)), feeds)[0], expected, atol=1e-4)


def test_a_product_of_the_input_is_kept_and_none_is_added() -> None:
    """The portable target has no operators of other domains than the input has them."""
    model = fused((2, 4, 3, 6), (2, 4, 5, 6), transB=1)
    assert operators(eq.onnx.optimize(model, objective="bytes").model) == {"FusedMatMul": 1, "Abs": 1}
    model = attention()
    assert not [n for n in eq.onnx.optimize(model, objective="bytes").model.graph.node if n.domain]


def attention(batch: int = 1, tokens: int = 6, heads: int = 2, width: int = 4) -> ModelProto:
    """Attention of several heads, each cut out of the columns of a product."""
    nodes: list[onnx.NodeProto] = []
    for n, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            helper.make_node("MatMul", ["x", f"w{n}"], [f"{n}1"]),
            helper.make_node("Reshape", [f"{n}1", "cut"], [f"{n}2"]),
            helper.make_node("Transpose", [f"{n}2"], [n], perm=perm),
        ]
    nodes += [
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Mul", ["s", "scale"], ["s1"]),
        helper.make_node("Softmax", ["s1"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["o"]),
        helper.make_node("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["o1", "join"], ["y"]),
    ]
    size = heads * width
    constants = [weight(f"w{n}", size, size) for n in "qkv"]
    constants += [ints("cut", batch, tokens, heads, width), ints("join", batch, tokens, size)]
    constants.append(numpy_helper.from_array(np.array(0.5, np.float32), "scale"))
    ends = [info("x", batch, tokens, size)], [info("y", batch, tokens, size)]
    return model_of(helper.make_graph(nodes, "attention", *ends, constants))


def test_heads_are_read_where_they_lie() -> None:
    """Of one sequence, the product reads heads with the tokens before them; only the result is moved."""
    model = attention()
    found = eq.onnx.optimize(model, objective="bytes", target="onnxruntime")
    ours = operators(found.model)
    assert (ours["Transpose"], ours["FusedMatMul"]) == (1, 2) and ours["Transpose"] < operators(model)["Transpose"]
    assert compare_models(model, found.model).equal
    assert bytes_moved(found.model).total == found.bytes_moved
    assert [(o.domain, o.version) for o in found.model.opset_import] == [("", 17), ("com.microsoft", 1)]


def test_heads_of_several_sequences_are_batches_of_the_weights() -> None:
    """The scores stay one product of matrices for each head, not one of a vector for each token."""
    model = attention(batch=3)
    found = eq.onnx.optimize(model, target="onnxruntime", objective="bytes")
    ours = operators(found.model)
    assert (ours["Transpose"], ours["FusedMatMul"], ours["MatMul"]) == (1, 1, 4)
    assert compare_models(model, found.model).equal


# -- constants in further layouts ------------------------------------------------------------------------------------


def weight_in_two_orders() -> ModelProto:
    """A weight that one product reads as it is and another one turned, behind a transpose that goes."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], perm=[1, 0]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[1, 0]),
        helper.make_node("Transpose", ["w"], ["v"], perm=[2, 1, 0]),
        helper.make_node("Unsqueeze", ["c", "first"], ["d"]),
        helper.make_node("MatMul", ["d", "w"], ["e"]),
        helper.make_node("Mul", ["e", "v"], ["y"]),
    ]
    shape = (64, 64, 64)
    constants = [weight("w", *shape), ints("first", 0)]
    return model_of(helper.make_graph(nodes, "g", [info("x", 64, 64)], [info("y", *shape)], constants))


@pytest.mark.parametrize(("growth", "transposes"), [(None, 1), (1.0, 0)])
def test_a_model_grows_by_permission(growth: float | None, transposes: int) -> None:
    model = weight_in_two_orders()
    given: dict[str, Any] = {"objective": "bytes"} if growth is None else {"objective": "bytes", "growth": growth}
    found = eq.onnx.optimize(model, **given)
    assert operators(found.model)["Transpose"] == transposes
    assert compare_models(model, found.model).equal
    share = found.model.ByteSize() / model.ByteSize()
    assert share < 1.05 if growth is None else 1.9 < share < 2.1


def test_a_weight_in_one_other_order_makes_no_model_larger() -> None:
    """It replaces the one that was there."""
    model = mixer_block(tokens=64, channels=64)
    found = eq.onnx.optimize(model, objective="bytes", growth=0.0)
    assert operators(found.model)["Transpose"] == 0 and found.model.ByteSize() < 1.01 * model.ByteSize()


def test_weights_are_matrices() -> None:
    """Runtimes prepare a constant on the right, and add a bias as they multiply, where it is one."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Split", ["a", "parts"], ["q", "k", "v"], axis=2),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["s"]),
        helper.make_node("MatMul", ["s", "v"], ["y"]),
    ]
    constants = [weight("w", 128, 384), weight("b", 384), ints("parts", 128, 128, 128)]
    model = model_of(helper.make_graph(nodes, "g", [info("x", 1, 64, 128)], [info("y", 1, 64, 128)], constants))
    found = eq.onnx.optimize(model)
    written = found.model.graph
    assert operators(found.model)["Split"] == 0
    ranks = {x.name: len(x.dims) for x in written.initializer}
    weights = [ranks[n.input[1]] for n in written.node if n.op_type == "MatMul" and n.input[1] in ranks]
    assert len(weights) > 1 and set(weights) == {2}


# -- diagonals --------------------------------------------------------------------------------------------------------


def diagonal(
    equation: str, extents: Mapping[str, int | str], perm: Sequence[int] = (), back: Sequence[int] = ()
) -> ModelProto:
    """An Einsum of one operand between Transposes: `perm` is the order of its axes there, `back` that of the result."""
    left, _, right = equation.partition("->")
    shape = [extents[x] for x in left]
    given = [shape[list(perm).index(n)] for n in range(len(shape))] if perm else shape
    nodes = [helper.make_node("Abs", ["x"], ["a"])]
    nodes += [helper.make_node("Transpose", ["a"], ["t"], perm=perm)] if perm else []
    nodes.append(helper.make_node("Einsum", ["t" if perm else "a"], ["e"], equation=equation))
    nodes += [helper.make_node("Transpose", ["e"], ["r"], perm=back)] if back else []
    nodes.append(helper.make_node("Neg", ["r" if back else "e"], ["y"]))
    graph = helper.make_graph(
        nodes, "diagonal", [info("x", *given)], [info("y", *[f"y{n}" for n in range(len(right))])]
    )
    return model_of(graph)


DIAGONALS: dict[str, tuple[list[int], list[int]]] = {
    "ii->i": ([1, 0], []), "bii->b": ([0, 2, 1], []), "bii->bi": ([2, 0, 1], [1, 0]), "iji->ij": ([2, 1, 0], [1, 0]),
    "iji->j": ([2, 1, 0], []), "ii->": ([1, 0], []), "bijij->ij": ([0, 2, 1, 4, 3], [1, 0]), "iii->i": ([2, 0, 1], []),
}  # fmt: skip


@each_value(equation=DIAGONALS, target=["onnx", "onnxruntime"])
def test_transposes_go_through_diagonals(equation: str, target: str) -> None:
    perm, back = DIAGONALS[equation]
    model = diagonal(equation, {"b": 3, "i": 5, "j": 4}, perm, back)
    for checked in (False, True):
        found = eq.onnx.optimize(model, objective="bytes", target=target, checked=checked)
        assert operators(found.model) == {"Abs": 1, "Einsum": 1, "Neg": 1}, found.notes
        assert compare_models(model, found.model).equal


@pytest.mark.parametrize("seed", some_of(range(16), 2))
def test_random_diagonals(seed: int) -> None:
    """Whole numbers, whose sums are exact: bit for bit as before."""
    r = Random(f"diagonal {seed}")
    labels = "ijkb"[: r.randint(1, 4)]
    left = [*labels, *(r.choice(labels) for _ in range(r.randint(1, 3)))][:6]
    r.shuffle(left)
    right = r.sample(sorted(set(left)), r.randint(0, len(set(left))))
    sizes = {x: r.choice([1, 2, 3, 4]) for x in labels}
    perm, back = r.sample(range(len(left)), len(left)), r.sample(range(len(right)), len(right))
    open_ = {x: x if r.random() < 0.3 else d for x, d in sizes.items()}
    model = diagonal(f"{''.join(left)}->{''.join(right)}", open_, perm, back if r.random() < 0.7 else ())
    shape = [sizes[left[perm.index(n)]] for n in range(len(left))]
    feeds = {"x": np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)}
    (wanted,) = run_session(session(model), feeds)
    for target in ("onnx", "onnxruntime"):
        for objective in ("bytes", "time"):
            for checked in (False, True):
                found = eq.onnx.optimize(model, target=target, objective=objective, checked=checked)
                assert np.array_equal(run_session(session(found.model), feeds)[0], wanted)
                assert found.cost_after <= found.cost_before
