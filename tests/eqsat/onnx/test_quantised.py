"""Operators between DequantizeLinear and QuantizeLinear stay there: runtimes compute them on quantised numbers."""

import importlib
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from seeds import each_value, some_of

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.models.guarded import check_model
from eqsat.models.package import run_session, session
from eqsat.nets import conv_chain
from eqsat.onnx import quantised
from eqsat.onnx.quantised import between_floats, lost, values_on_numbers

pytestmark = pytest.mark.onnx

HEAD = """
    <ir_version: 8, opset_import: ["": 17]>
    g (uint8[4, 6] x) => (uint8[24] y)
    <float s = {0.5}, uint8 z = {3}> {
        d = DequantizeLinear(x, s, z)
"""


def model(body: str) -> ModelProto:
    return parser.parse_model(f"{HEAD}{body}}}")


GROUP = model("r = Relu(d) q = QuantizeLinear(r, s, z) f = Constant<value_ints = [24]>() y = Reshape(q, f)")
BROKEN = model("r = Relu(d) f = Constant<value_ints = [24]>() t = Reshape(r, f) y = QuantizeLinear(t, s, z)")
TWICE = model("""
    r = Relu(d) q = QuantizeLinear(r, s, z) r2 = Relu(d) q2 = QuantizeLinear(r2, s, z)
    m = Max(q, q2) f = Constant<value_ints = [24]>() y = Reshape(m, f)
""")
ONCE = model(
    "r = Relu(d) q = QuantizeLinear(r, s, z) m = Max(q, q) f = Constant<value_ints = [24]>() y = Reshape(m, f)"
)

OTHER = model("""
    r = Abs(d) q = QuantizeLinear(r, s, z) f = Constant<value_ints = [24]>() t = Reshape(q, f)
    e = DequantizeLinear(t, s, z) n = Neg(e) m = Neg(n) y = QuantizeLinear(m, s, z)
""")
"""Another operator in the group, and others outside."""


def test_what_is_between_counts() -> None:
    assert lost(GROUP, BROKEN) == "1 Relu"
    assert lost(GROUP, OTHER) == ""
    assert lost(BROKEN, GROUP) == lost(GROUP, GROUP) == lost(TWICE, ONCE) == ""


def test_moves_out_of_a_group_are_better_inside_of_none() -> None:
    """Moves around a quantised operator leave its group whole."""
    turned = model("""
        t = Transpose<perm = [1, 0]>(d) r = Relu(t) u = Transpose<perm = [1, 0]>(r) q = QuantizeLinear(u, s, z)
        f = Constant<value_ints = [24]>() y = Reshape(q, f)
    """)
    found = eq.onnx.optimize(turned)
    assert found.bytes_moved == 0 and lost(turned, found.model) == lost(GROUP, found.model) == ""


def test_moves_between_floats_and_back_are_moves_of_quantised_numbers() -> None:
    """Quantised again by the same numbers, they were never floats; by others, they were."""
    same = model("""
        f = Constant<value_ints = [24]>() t = Reshape(d, f) q = QuantizeLinear(t, s, z)
        e = DequantizeLinear(q, s, z) r = Relu(e) y = QuantizeLinear(r, s, z)
    """)
    found = eq.onnx.optimize(same)
    assert [n.op_type for n in found.model.graph.node].count("QuantizeLinear") == 1 and not found.notes
    other = ModelProto()
    other.CopyFrom(same)
    other.graph.initializer.append(numpy_helper.from_array(np.array(0.25, np.float32), "s2"))
    next(n for n in other.graph.node if n.op_type == "QuantizeLinear").input[1] = "s2"
    kept = eq.onnx.optimize(other).model
    assert [n.op_type for n in kept.graph.node].count("QuantizeLinear") == 2


def test_frozen_operators_are_not_seen_through() -> None:
    source = model("f = Constant<value_ints = [24]>() t = Reshape(d, f) y = QuantizeLinear(t, s, z)")
    kinds = [n.op_type for n in eq.onnx.optimize(source).model.graph.node]
    assert kinds == ["Reshape"]
    for frozen in ("DequantizeLinear", "QuantizeLinear"):
        kept = eq.onnx.optimize(source, freeze=[frozen]).model.graph.node
        assert {"DequantizeLinear", "QuantizeLinear"} <= {n.op_type for n in kept}


def test_a_bias_that_is_dequantised_is_one_that_a_product_adds() -> None:
    """No layout is chosen in which the product would have to leave its bias to another operator."""
    sizes = {"w": (6, 8), "b": (8,)}
    text = """
        <ir_version: 8, opset_import: ["": 17]>
        g (uint8[40, 6] x) => (uint8[2, 4, 40] y)
        <float s = {0.5}, uint8 z = {3}, int8 zw = {0}, int32 zb = {0}> {
            d = DequantizeLinear(x, s, z) v = DequantizeLinear(w, s, zw) c = DequantizeLinear(b, s, zb)
            m = Gemm(d, v, c) q = QuantizeLinear(m, s, z) e = DequantizeLinear(q, s, z)
            f = Constant<value_ints = [40, 2, 4]>() r = Reshape(e, f) t = Transpose<perm = [1, 2, 0]>(r)
            y = QuantizeLinear(t, s, z)
        }
    """
    built = parser.parse_model(text)
    for name, kind in (("w", "int8"), ("b", "int32")):
        values = np.arange(np.prod(sizes[name])).reshape(sizes[name]).astype(kind)
        built.graph.initializer.append(numpy_helper.from_array(values, name))
    found = eq.onnx.optimize(built)
    assert lost(built, found.model) == "" and not found.notes
    (gemm,) = (n for n in found.model.graph.node if n.op_type == "Gemm")
    assert len(gemm.input) == 3


def test_a_result_that_breaks_groups_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model comes back, and a note says why."""

    def relu(before: ModelProto, after: ModelProto) -> str:
        return "1 Relu"

    monkeypatch.setattr(quantised, "lost", relu)
    source = conv_chain()
    found = eq.onnx.optimize(source)
    assert found.model is source and any("1 Relu in floats" in note for note in found.notes)
    assert "1 Relu in floats" in found.summary().splitlines()[0]


def test_where_a_result_breaks_groups_all_else_gets_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is done again, with what is computed on quantised numbers as it is."""
    asked: list[ModelProto] = []

    def first(before: ModelProto, after: ModelProto) -> str:
        asked.append(after)
        return "1 Relu" if len(asked) == 1 else lost(before, after)

    monkeypatch.setattr(quantised, "lost", first)
    moved = model("""
        t = Transpose<perm = [1, 0]>(d) r = Relu(d) q = QuantizeLinear(r, s, z) e = Exp(t)
        k = Transpose<perm = [1, 0]>(e) m = QuantizeLinear(k, s, z) b = Max(q, m)
        f = Constant<value_ints = [24]>() y = Reshape(b, f)
    """)
    assert values_on_numbers(moved) == ["d", "r", "q"] and values_on_numbers(BROKEN) == []
    found = eq.onnx.optimize(moved)
    assert len(asked) == 2 and found.bytes_moved == 0 < found.initial.bytes_moved
    assert len(values_on_numbers(found.model)) >= 3 and any("keep their layouts" in note for note in found.notes)
    x = {"x": np.random.default_rng(0).integers(0, 9, (4, 6)).astype("uint8")}
    assert np.array_equal(run_session(session(moved), x)[0], run_session(session(found.model), x)[0])


# -- by blocks --------------------------------------------------------------------------------------------------------


def in_blocks(seed: int) -> tuple[ModelProto, dict[str, NDArray]]:
    """A model that quantises or dequantises by blocks between moves, and what is fed to it: scales are powers of 2, so
    that nothing is rounded twice."""
    r = Random(f"blocks {seed}")
    rank = r.randint(2, 4)
    shape = [r.choice([1, 2, 3, 4, 6, 8]) for _ in range(rank)]
    axis, block = r.randrange(rank), r.choice([1, 2, 3, 4, 8])
    cells = [-(-d // block) if n == axis else d for n, d in enumerate(shape)]
    rows = np.random.default_rng(seed)
    narrow, dtype = r.choice([(TensorProto.UINT8, "uint8"), (TensorProto.INT8, "int8")])
    given = {"s": (2.0 ** rows.integers(-3, 2, cells)).astype("float32"), "z": rows.integers(0, 9, cells).astype(dtype)}
    if r.random() < 0.3:
        del given["z"]
        narrow, dtype = TensorProto.UINT8, "uint8"
    op = r.choice(["QuantizeLinear", "DequantizeLinear"])
    kind, made = (TensorProto.FLOAT, narrow) if op == "QuantizeLinear" else (narrow, TensorProto.FLOAT)
    perm, back = r.sample(range(rank), rank), r.sample(range(rank), rank)
    source = [shape[perm.index(n)] for n in range(rank)]
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=perm)]
    attrs: dict[str, Any] = {"axis": axis - rank if r.random() < 0.3 else axis, "block_size": block}
    nodes.append(helper.make_node(op, ["t", *given], ["q"], **attrs))
    nodes.append(helper.make_node("Transpose", ["q"], ["r"], perm=back))
    flat = numpy_helper.from_array(np.array([-1, *(shape[n] for n in back[1:])]), "flat")
    nodes.append(helper.make_node("Reshape", ["r", "flat"], ["f"]) if r.random() < 0.3 else nodes.pop())
    nodes[-1].output[0] = "y"
    feeds = {"x": rows.integers(0, 60, source).astype("float32" if op == "QuantizeLinear" else dtype)}
    open_ = [f"d{n}" if r.random() < 0.2 else d for n, d in enumerate(source)]
    inputs = [helper.make_tensor_value_info("x", kind, open_)]
    weights = [flat]
    for name, array in given.items():
        if r.random() < 0.3:
            feeds[name] = array
            inputs.append(helper.make_tensor_value_info(name, 1 if name == "s" else narrow, cells))
        else:
            weights.append(numpy_helper.from_array(array, name))
    end = helper.make_tensor_value_info("y", made, [f"y{n}" for n in range(rank)])
    graph = helper.make_graph(nodes, "blocks", inputs, [end], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), feeds


@pytest.mark.parametrize("seed", some_of(range(20), 3))
def test_random_blocks(seed: int) -> None:
    model, feeds = in_blocks(seed)
    (wanted,) = run_session(session(model), feeds)
    assert np.array_equal(eq.evaluate(eq.onnx.load(model), feeds), wanted)
    for target in ("onnx", "onnxruntime"):
        for objective in ("bytes", "time"):
            for checked in (False, True):
                found = eq.onnx.optimize(model, target=target, objective=objective, checked=checked)
                (made,) = run_session(session(found.model), feeds)
                assert made.dtype == wanted.dtype and np.array_equal(made, wanted)
                assert found.cost_after <= found.cost_before


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@each_value(extent=[8, 6, 4], open_=[False, True])
def test_transposes_go_through_blocks(op: str, extent: int, open_: bool, block: int = 4) -> None:
    """The axis follows, and scales and zero points, which are constants, are laid out anew."""
    kinds = [TensorProto.FLOAT, TensorProto.UINT8][:: 1 if op == "QuantizeLinear" else -1]
    rows = np.random.default_rng(block)
    cells = (3, 5, -(-extent // block))
    weights = [numpy_helper.from_array((2.0 ** rows.integers(-3, 2, cells)).astype("float32"), "s")]
    weights.append(numpy_helper.from_array(rows.integers(0, 9, cells).astype("uint8"), "z"))
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 2, 0])]
    nodes.append(helper.make_node(op, ["t", "s", "z"], ["q"], axis=2, block_size=block))
    nodes.append(helper.make_node("Transpose", ["q"], ["y"], perm=[2, 0, 1]))
    shape = ["n" if open_ else extent, 3, 5]
    ends = [helper.make_tensor_value_info(name, kind, shape) for name, kind in zip("xy", kinds, strict=True)]
    graph = helper.make_graph(nodes, "blocks", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    found = eq.onnx.optimize(model, objective="bytes")
    assert [n.op_type for n in found.model.graph.node] == [op], found.notes
    assert {a.name: a.i for a in found.model.graph.node[0].attribute} == {"axis": 0, "block_size": block}
    feeds = {"x": rows.integers(0, 60, (extent, 3, 5)).astype("float32" if op == "QuantizeLinear" else "uint8")}
    one, two = (run_session(session(m), feeds)[0] for m in (model, found.model))
    assert np.array_equal(one, two)


BETWEEN = """
    <ir_version: 8, opset_import: ["": 17]>
    g (float[2, 6, 5, 8] x) => (float[2, 4, 6, 5] y)
    <float s = {0.05}, int8 z = {3}, float s2 = {0.02}, int8 zero = {0}> {
        q0 = QuantizeLinear(x, s, z)
        d0 = DequantizeLinear(q0, s, z)
        a = Softmax<axis = -1>(d0)
        q = QuantizeLinear(a, s, z)
        t = Transpose<perm = [0, 3, 1, 2]>(q)
        %s
        v = DequantizeLinear(w, s2, zero)
        c = Conv(d, v)
        q3 = QuantizeLinear(c, s, z)
        y = DequantizeLinear(q3, s, z)
    }
"""


def between(rest: str, scale: str = "0.05") -> ModelProto:
    """A Transpose of int8 numbers between a Softmax and a Conv."""
    made = parser.parse_model((BETWEEN % rest).replace("0.05", scale))
    weights = np.random.default_rng(0).integers(-99, 99, (4, 8, 1, 1)).astype(np.int8)
    made.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return made


TURNED = {
    "a transpose": "d = DequantizeLinear(t, s, z)",
    "read twice": "d1 = DequantizeLinear(t, s, z) d2 = DequantizeLinear(t, s, z) d = Max(d1, d2)",
    "two moves": """u = Transpose<perm = [0, 1, 3, 2]>(t) u2 = Transpose<perm = [0, 1, 3, 2]>(u)
                    d = DequantizeLinear(u2, s, z)""",
}
STAY = {
    "another scale": "d = DequantizeLinear(t, s2, z)",
    "numbers are read": """e = DequantizeLinear(t, s, z) k = Cast<to = 1>(t) d = Add(e, k)""",
}


def as_run(made: ModelProto, path: Path) -> list[str]:
    """The operators that onnxruntime makes of a model."""
    ort: Any = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(path), 4
    ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [n.op_type for n in ModelProto.FromString(path.read_bytes()).graph.node]


@pytest.mark.parametrize("case", TURNED)
def test_moves_of_int8_are_between_floats(case: str, tmp_path: Path) -> None:
    """onnxruntime computes nothing on numbers around a move that it sees between the two nodes."""
    before = between(TURNED[case])
    after = between_floats(before)
    check_model(after)
    assert [n.op_type for n in after.graph.node].count("QuantizeLinear") == 4
    assert case == "read twice" or "QLinearConv" in as_run(after, tmp_path / "run.onnx")
    x = np.random.default_rng(1).standard_normal((2, 6, 5, 8)).astype(np.float32)
    assert np.array_equal(*(run_session(session(m), {"x": x})[0] for m in (before, after)))
    assert between_floats(after) is after


def test_results_of_int8_are_computed_on_numbers(tmp_path: Path) -> None:
    """The search moves numbers, not floats: what is written is run on numbers all the same."""
    found = eq.onnx.optimize(between(TURNED["two moves"]), objective="bytes")
    assert found.model is not found.source and {"QLinearConv", "QLinearSoftmax"} <= {
        *as_run(found.model, tmp_path / "m")
    }


@pytest.mark.parametrize("case", STAY)
def test_moves_of_int8_that_others_read_stay(case: str) -> None:
    before = between(STAY[case])
    assert between_floats(before) is before


@pytest.mark.parametrize(("scale", "turned"), (("0.05", True), ("2e36", False), ("0.0", False), ("1e-42", True)))
def test_numbers_come_back_from_floats(scale: str, turned: bool) -> None:
    """Not from an infinity, as that of 200 steps of 2e36."""
    before = between(TURNED["a transpose"], scale)
    assert (between_floats(before) is not before) is turned
    numbers, s, z = np.arange(-128, 128).astype(np.int8), np.float32(scale), np.int8(3)
    with np.errstate(all="ignore"):
        floats = (numbers.astype(np.int32) - z).astype(np.float32) * s
        back = np.clip(np.rint(floats / s) + z, -128, 127)
    assert not turned or np.array_equal(back, numbers)
