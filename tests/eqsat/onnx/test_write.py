"""Programs as models: re-laid operators are spelled again, formulas that are no operator are spelled in several."""

# feature: I1
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from onnx import ModelProto, TensorProto, helper, numpy_helper  # noqa: E402

from eqsat.ir.errors import EqsatError  # noqa: E402
from eqsat.ir.tensors import pointwise, reductions, views  # noqa: E402
from eqsat.ir.tensors.library import operator  # noqa: E402
from eqsat.ir.tensors.run import evaluate, evaluate_outputs  # noqa: E402
from eqsat.ir.tensors.signature import Signature  # noqa: E402
from eqsat.ir.tensors.tensor import Compute, Opaque, Program, Tag, Tensor, View, compute, constant, input, output_axes  # noqa: E402
from eqsat.ir.terms import term as t  # noqa: E402
from eqsat.ir.terms.term import Term  # noqa: E402
from eqsat.models.package import run_session, session  # noqa: E402
from eqsat.onnx import recognise  # noqa: E402
from eqsat.onnx.call import Call  # noqa: E402
from eqsat.onnx.check import distance  # noqa: E402
from eqsat.onnx.engine import optimize  # noqa: E402
from eqsat.onnx.ops.pointwise import FORMULAS  # noqa: E402
from eqsat.onnx.ops.table import apply, with_attrs  # noqa: E402
from eqsat.onnx.read import read  # noqa: E402
from eqsat.onnx.write import write  # noqa: E402

pytestmark = pytest.mark.onnx

F = "float32"


def written(y: Tensor | Program, seed: int = 0, names: dict[str, int] | None = None) -> ModelProto:
    """The model of a program, after checking that it computes what the program means."""
    program = y if isinstance(y, Program) else Program(_inputs(y), {"y": y})
    model = write(program)
    onnx.checker.check_model(model)
    random = np.random.default_rng(seed)
    feeds: dict[str, Any] = {}
    for x in program.inputs:
        shape = tuple(d if isinstance(d, int) else (names or {})[str(d)] for d in x.shape)
        values = (
            random.standard_normal(shape)
            if x.dtype[0] == "f"
            else random.integers(0, 2 if x.dtype == "bool" else 9, shape)
        )
        feeds[x.name] = np.asarray(values).astype(x.dtype)
    wanted = evaluate_outputs(program, feeds)
    for name, value in zip(program.outputs, run_session(session(model), feeds), strict=True):
        assert distance(wanted[name], value) <= 1e-5
    return model


def _inputs(y: Tensor) -> list[Tensor]:
    from eqsat.ir.tensors.tensor import as_program

    return list(as_program(y).inputs)


def ops(model: ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node]


def line(shape: tuple[int, ...], fn: Callable[[Term], Term]) -> Tensor:
    return compute(shape, fn)


def plane(shape: tuple[int, ...], fn: Callable[[Term, Term], Term], reduce: tuple[int, ...] = ()) -> Tensor:
    return compute(shape, fn, reduce)


def space(
    shape: tuple[int, ...], fn: Callable[[Term, Term, Term], Term], reduce: tuple[int, ...], combiner: str
) -> Tensor:
    return compute(shape, fn, reduce, combiner)


x234, y34, b3 = input("x", (2, 3, 4), F), input("z", (3, 4), F), input("b", (3,), F)
m, n = input("m", (3, 4), F), input("n", (5, 4), F)

SPELLINGS: list[tuple[str, Callable[[], Tensor], list[str]]] = [
    ("relu", lambda: x234.relu(), ["Relu"]),
    ("add", lambda: x234 + y34, ["Add"]),
    ("sigmoid", lambda: x234.sigmoid(), ["Sigmoid"]),
    ("cast", lambda: x234.cast("float64"), ["Cast"]),
    ("sum", lambda: x234.sum((0, 2)), ["ReduceSum"]),
    ("max", lambda: k4.max(0, keepdims=True), ["ReduceMax"]),
    ("matmul", lambda: reductions.matmul(m, n.permute_dims((1, 0))), ["Transpose", "MatMul"]),
    ("matmul-absorbed", lambda: reductions.contract("ik,jk->ij", m, n, Tag("matmul")), ["Gemm"]),
    ("matmul-swapped", lambda: reductions.contract("ik,jk->ji", m, n, Tag("matmul")), ["Gemm"]),
    ("softmax", lambda: x234.softmax(1), ["Softmax"]),
    ("concat", lambda: reductions.concat([y34, y34.relu(), y34], 1), ["Relu", "Concat"]),
    ("roll", lambda: x234.roll(1, 2), ["Gather"]),
    ("flip", lambda: x234.flip(1), ["Slice"]),
    ("take", lambda: x234.take([2, 0, 0], 1), ["Gather"]),
    ("pad", lambda: x234.pad(((0, 0), (1, 2), (0, 0)), 1.5), ["Pad"]),
    ("transpose-reshape", lambda: x234.permute_dims((2, 0, 1)).reshape((4, 6)), ["Transpose", "Reshape"]),
    ("expand", lambda: b3.reshape((3, 1)).broadcast_to((3, 4)), ["Reshape", "Expand"]),
    ("clip", lambda: x234.clip(-1, 1), ["Max", "Min"]),
]


@pytest.mark.parametrize(("make", "expected"), [s[1:] for s in SPELLINGS], ids=[s[0] for s in SPELLINGS])
def test_library_programs(make: Callable[[], Tensor], expected: list[str]) -> None:
    assert ops(written(make())) == expected


GENERAL: list[tuple[str, Callable[[], Tensor]]] = [
    ("transposed operand", lambda: plane((4, 3), lambda i, j: m[j, i] + b3[j])),
    ("late broadcast", lambda: plane((3, 4), lambda i, j: m[i, j] * b3[i])),
    ("fused", lambda: plane((3, 4), lambda i, j: t.binary("max", m[i, j] * 2.0 + b3[i], 0) - m[2 - i, j])),
    ("position", lambda: plane((3, 4), lambda i, j: t.where(i < j, m[i, j], t.cast_to(i * 10 + j, F)))),
    ("constant", lambda: plane((3, 4), lambda i, j: t.const(2.5, F))),
    ("only one axis", lambda: plane((3, 4), lambda i, j: t.unary("exp", b3[i]))),
    ("pieces", lambda: plane((3, 6), lambda i, j: t.where(j < 4, m[i, j], m[2 - i, j - 3]))),
    ("integers", lambda: line((4,), lambda i: t.binary("truncdiv", k4[i] - 5, k4[i] + 1))),
    ("compare", lambda: plane((3, 4), lambda i, j: t.logical_and(m[i, j] > 0, m[i, j] != b3[i]))),
    ("contraction", lambda: reductions.contract("abc,dc->bda", x234, n, Tag("other"))),
    ("matrix times vector", lambda: reductions.contract("ij,i->j", m, b3, Tag("other"))),
    ("outer batch", lambda: reductions.contract("abc,bc->cb", x234, m, Tag("other"))),
    ("sum of squares", lambda: plane((3,), lambda i, j: m[i, j] * m[i, j] + 1.0, reduce=(4,))),
    ("diagonal", lambda: plane((2,), lambda i, j: x234[i, j, j + 1], reduce=(3,))),
    ("max of shifted", lambda: space((3, 3), lambda i, j, k: m[i, j + k], reduce=(2,), combiner="max")),
]
k4 = input("k", (4,), "int32")


@pytest.mark.parametrize("make", [g[1] for g in GENERAL], ids=[g[0] for g in GENERAL])
def test_general_formulas(make: Callable[[], Tensor]) -> None:
    written(make())


def test_a_wrong_tag_is_not_believed() -> None:
    i, j = output_axes((3, 4))
    body = t.load(0, (i, j), F) - t.load(1, (i,), F)
    lie = Compute((m, b3), (3, 4), body, tag=Tag("onnx:Add", (("onnx.slots", (0, 1)),)))
    assert ops(written(Tensor(lie))) == ["Reshape", "Sub"]
    view = View(
        m,
        (4, 3),
        (output_axes((4, 3))[1], output_axes((4, 3))[0]),
        t.TRUE,
        None,
        Tag("onnx:Reshape", (("onnx.slots", (0,)), ("shape", (4, 3)))),
    )
    assert ops(written(Tensor(view))) == ["Transpose"]


def test_swapped_operands_of_a_tagged_node() -> None:
    y = pointwise.pointwise("Where", lambda a, b: t.where(b < a, b, a), y34, m)
    node = y.node
    assert isinstance(node, Compute)
    node.tag = Tag("onnx:Sub", (("onnx.slots", (0, 1)),))
    assert ops(written(y)) == ["Less", "Where"]


@pytest.mark.parametrize("fill", ["source", "position", "hole"])
def test_views_with_a_computed_fill(fill: str) -> None:
    from eqsat.ir.terms.holes import UNDEF

    if fill == "source":
        y = views.pad(b3, 2, t.load(0, (output_axes((7,))[0] % 3,), F) * 2.0)
    elif fill == "position":
        y = views.pad(b3, 2, t.cast_to(output_axes((7,))[0], F))
    else:
        y = views.crop(views.pad(b3, 2, UNDEF), (2,), (3,))
    written(y)


def relaid_softmax(axis: int) -> Opaque:
    (x,) = [input("x", (2, 3, 4), F)]
    node = apply(Call("Softmax", (x,), {"axis": axis}, 17))[0].node
    assert isinstance(node, Opaque)
    return node


def test_an_operator_moves_with_its_axis() -> None:
    node = relaid_softmax(1)
    other = input("t", (4, 2, 3), F)
    made = with_attrs(node, [other], [((4, 2, 3), F)], {"axis": 2})
    wanted = Signature.parse("a b c -> a b c", map="a b", equivariant="c")
    assert made.signature is not None and made.signature.matches(wanted, [(4, 2, 3)] * 2)
    (call,) = written(Tensor(made)).graph.node
    assert (call.op_type, helper.get_attribute_value(call.attribute[0])) == ("Softmax", 2)


def test_an_operator_cannot_move_where_onnx_has_no_form() -> None:
    x, scale = input("x", (2, 3, 4, 5), F), input("s", (3,), F)
    node = apply(Call("BatchNormalization", (x, scale, scale, scale, scale), {}, 17))[0].node
    assert isinstance(node, Opaque)
    nhwc = input("x", (2, 4, 5, 3), F)
    wanted = Signature.parse("n h w c, c, c, c, c -> n h w c", map="n h w c")
    wrong = Opaque(node.op, [nhwc, *node.operands[1:]], [((2, 4, 5, 3), F)], node.attrs, wanted)
    with pytest.raises(EqsatError, match="BatchNormalization"):
        write(Program(_inputs(Tensor(wrong)), {"y": Tensor(wrong)}))


def test_softmax_before_opset_13_is_not_taken_for_the_new_one() -> None:
    node = apply(Call("Softmax", (input("x", (2, 3, 4), F),), {"axis": 1}, 11))[0].node
    assert isinstance(node, Opaque) and node.signature is not None
    assert [node.signature.role(f"a{k}") for k in range(3)] == ["map", "equivariant", "equivariant"]
    assert ops(written(Tensor(node))) == ["Softmax"]


@pytest.mark.parametrize("opset", [9, 11, 13, 17, 18, 21])
def test_spellings_fit_the_opset(opset: int) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    shape = [4, 6]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, shape)], [helper.make_tensor_value_info("y", 1, shape)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    program = read(model)
    (x,) = program.inputs
    for y in (
        x.slice((1, 0), (2, 3)),
        x.pad(((1, 0), (0, 2)), 3.0),
        x.sum(1),
        x.max(0),
        x.expand_dims(1),
        x.take([1, 1, 0], 0),
        x.clip(0, 1),
    ):
        made = write(Program([x], {"y": y}), program)
        made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, [int(str(d)) for d in y.shape]))
        onnx.checker.check_model(made, full_check=True)
        value = np.random.default_rng(0).standard_normal((4, 6)).astype(F)
        assert distance(evaluate(y, {"x": value}), run_session(session(made), {"x": value})[0]) <= 1e-6
        assert made.opset_import[0].version == opset


def test_operators_are_only_used_for_types_that_the_opset_has() -> None:
    x = input("x", (4,), "int32")
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 6, (4,))],
        [helper.make_tensor_value_info("y", 6, (4,))],
    )
    made: dict[int, list[str]] = {}
    for opset in (13, 14):
        like = read(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8))
        made[opset] = ops(write(Program([x], {"y": x.relu()}), like))
    assert made == {13: ["Max"], 14: ["Relu"]}


def test_symbolic_shapes_are_read_while_running() -> None:
    batch, width = t.sym("N"), t.sym("M")
    x = input("x", (batch, 3, width), F)
    y = x.permute_dims((0, 2, 1)).reshape((batch * width, 3))
    model = written(y, names={"N": 2, "M": 5})
    assert ops(model) == ["Transpose", "Reshape"]
    z = x.reshape((width, 3, batch))
    assert "Shape" in ops(written(z, names={"N": 2, "M": 5}))
    w = input("w", (3, 1), F)
    both = Program([x, w], {"y": w.broadcast_to((batch, 3, width)) + x})
    written(both, names={"N": 2, "M": 5})


@pytest.mark.parametrize("batch", [2, t.sym("N")], ids=["2", "N"])
def test_a_padded_layout_is_a_pad_and_a_transpose(batch: Any) -> None:
    x = input("x", (batch, 30, 5, 5), F)
    packed = x.layout_transform("NCHW", "NCHW16c", pad_value=0.5)
    steps = [node.op_type for node in written(packed, names={"N": 3}).graph.node]
    assert [s for s in steps if s not in ("Reshape", "Shape", "Slice", "Concat")] == ["Pad", "Transpose"]


def test_what_onnx_cannot_say_is_an_error() -> None:
    x = input("x", (4,), F)
    strange = Tensor(Opaque("strange", (x,), [((4,), F)]))
    with pytest.raises(EqsatError, match="strange"):
        write(Program([x], {"y": strange}))


def test_library_operators_are_spelled_by_their_definition_where_needed() -> None:
    x = input("x", (2, 3), F)
    old = helper.make_model(
        helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", 1, (2, 3))],
            [helper.make_tensor_value_info("y", 1, (2, 3))],
        ),
        opset_imports=[helper.make_opsetid("", 11)],
        ir_version=8,
    )
    value = np.random.default_rng(0).standard_normal((2, 3)).astype(F)
    for axis in (0, 1):  # the old Softmax takes all axes from `axis` on together
        y = operator("softmax", [x], {"axis": axis})[0]
        model = write(Program([x], {"y": y}), read(old))
        assert ("Softmax" in ops(model)) == (axis == 1)
        assert distance(evaluate(y, {"x": value}), run_session(session(model), {"x": value})[0]) <= 1e-6


def test_a_split_of_which_one_part_is_used_is_a_slice() -> None:
    parts = apply(Call("Split", (input("x", (6, 2), F),), {}, 17, count=3, listed=3))
    assert ops(written(parts[1].relu())) == ["Slice", "Relu"]
    assert ops(written(parts[1] + parts[2])) == ["Split", "Add"]


def test_shared_products_are_not_computed_twice() -> None:
    a, b, c = input("a", (2, 3), F), input("b", (3, 4), F), input("c", (4,), F)
    total = apply(Call("Gemm", (a, b, c), {}, 17))[0]
    assert ops(written(total)) == ["Gemm"]
    product = next(x for x in total.node.operands if x.shape == (2, 4))
    model = written(Program([a, b, c], {"y": total, "p": product.relu()}))
    assert sorted(ops(model)) == ["Add", "Gemm", "Relu"]


@st.composite
def view_chains(draw: st.DrawFn) -> Tensor:
    x = input("x", draw(st.sampled_from([(2, 3, 4), (4, 6), (1, 2, 3, 2), (8,)])), F)
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(
            st.sampled_from(["permute", "reshape", "pad", "crop", "flip", "roll", "tile", "take", "relu", "add"])
        )
        rank, shape = x.rank, tuple(int(str(d)) for d in x.shape)
        if kind == "permute":
            x = x.permute_dims(draw(st.permutations(range(rank))))
        elif kind == "reshape":
            total = int(np.prod(shape))
            inner = draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
            x = x.reshape((total // inner, inner))
        elif kind == "pad":
            widths = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(rank)]
            x = x.pad(widths, draw(st.sampled_from([0.0, 1.5, -np.inf])))
        elif kind == "crop":
            starts = [draw(st.integers(0, d - 1)) for d in shape]
            x = x.crop(starts, [draw(st.integers(1, d - s)) for d, s in zip(shape, starts, strict=True)])
        elif kind in ("flip", "roll"):
            axis = draw(st.integers(0, rank - 1))
            x = x.flip(axis) if kind == "flip" else x.roll(draw(st.integers(-2, 2)), axis)
        elif kind == "tile" and int(np.prod(shape)) < 200:
            x = x.tile([draw(st.integers(1, 2)) for _ in shape])
        elif kind == "take":
            axis = draw(st.integers(0, rank - 1))
            x = x.take(draw(st.lists(st.integers(0, shape[axis] - 1), min_size=1, max_size=4)), axis)
        else:
            x = x.relu() if kind == "relu" else x + constant(np.float32(2))
    return x


@settings(max_examples=60)
@given(view_chains())
def test_random_chains(y: Tensor) -> None:
    written(y)


def test_large_constants_keep_their_bits() -> None:
    array = np.random.default_rng(0).standard_normal((30, 40)).astype(F)
    array[0, 0], array[0, 1] = np.nan, -0.0
    model = write(Program([m], {"y": m.sum() + constant(array, name="weight")}))
    (weight,) = [w for w in model.graph.initializer if w.name == "weight"]
    assert numpy_helper.to_array(weight).tobytes() == array.tobytes()


@pytest.mark.parametrize("opset", [9, 13, 18])
def test_parts_that_are_all_of_a_tensor_are_one_split(opset: int) -> None:
    """Slices of one tensor that have each cell once are one node; one more, which overlaps them, stays."""
    ends = [helper.make_tensor_value_info(name, 1, [4, 12]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    program = read(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8))
    (x,) = program.inputs
    value = np.random.default_rng(0).standard_normal((4, 12)).astype(F)
    cuts = ((0, 3), (8, 4), (3, 5), (2, 4))
    for axis in (0, 1):
        source = x if axis else x.permute_dims((1, 0)).relu()
        parts = [source.crop((0, at) if axis else (at, 0), (4, n) if axis else (n, 4)) for at, n in cuts]
        for count, expected in ((2, ["Slice"] * 2), (3, ["Split"]), (4, ["Slice", "Split"])):
            outputs = {f"y{n}": part.exp() for n, part in enumerate(parts[:count])}
            made = write(Program([x], outputs), program)
            del made.graph.output[:]
            made.graph.output.extend(
                helper.make_tensor_value_info(n, 1, [int(str(d)) for d in y.shape]) for n, y in outputs.items()
            )
            onnx.checker.check_model(made, full_check=True)
            assert sorted(o for o in ops(made) if o in ("Slice", "Split")) == expected
            assert {x.name for x in made.graph.initializer} <= {name for n in made.graph.node for name in n.input}
            wanted = evaluate_outputs(Program([x], outputs), {"x": value})
            for y, found in zip(wanted.values(), run_session(session(made), {"x": value}), strict=True):
                assert distance(y, found) <= 1e-6


def every_call(dtype: str) -> list[Call]:
    """Each formula over one operand, over two, over the same one twice, and over extents of 1."""
    x, y, row, cell = (input(n, s, dtype) for n, s in (("x", (2, 3)), ("y", (2, 3)), ("r", (1, 3)), ("c", (1, 1))))
    operands = ((x,), (cell,), (x, y), (x, x), (x, row), (row, x), (cell, cell), (x, y, row), (x, x, y))
    return [Call(name, chosen, {}, 17) for name in FORMULAS for chosen in operands]


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "float32"])
def test_what_is_not_compared_is_another_formula(dtype: str) -> None:
    """Proposals that are passed over by their last operation would not have matched."""
    compared = 0
    for call in every_call(dtype):
        try:
            node = apply(call)[0].node
        except (EqsatError, TypeError, ValueError):
            continue
        if isinstance(node, Compute):
            compared += 1
            assert recognise.last_operation(call) == recognise.canonical_body(node)[0].op, call
    assert compared > 30


def test_a_formula_is_one_whether_it_names_an_operand_once_or_twice() -> None:
    x, y = input("x", (3,), "float32"), input("y", (3,), "float32")
    first, second = (t.load(n, [t.ax(0, 3)], "float32") for n in (0, 1))
    once, twice, apart = (
        Compute(operands, (3,), first * other) for operands, other in (([x], first), ([x, x], second), ([x, y], second))
    )
    assert recognise.same_node(once, twice) and recognise.same_node(twice, once)
    assert not recognise.same_node(twice, apart) and not recognise.same_node(apart, twice)


def test_operands_may_have_become_constants() -> None:
    """Positions of two axes that are folded for the written model only: the operator is the same for all positions."""
    r = np.arange(16)
    nodes = [
        helper.make_node("Expand", ["rows", "wide"], ["e"]),
        helper.make_node("Expand", ["columns", "wide"], ["f"]),
        helper.make_node("Concat", ["e", "f"], ["i"], axis=2),
        helper.make_node("Reshape", ["u", "square"], ["w"]),
        helper.make_node("ScatterND", ["x", "i", "w"], ["s"]),
        helper.make_node("Transpose", ["s"], ["t"], perm=[1, 0]),
        helper.make_node("Relu", ["t"], ["v"]),
        helper.make_node("Transpose", ["v"], ["y"], perm=[1, 0]),
    ]
    constants = {"rows": r.reshape(16, 1, 1), "columns": r.reshape(1, 16, 1), "wide": np.array([16, 16, 1])}
    constants["square"] = np.array([16, 16])
    ends = {"x": [17, 17], "u": [256], "y": [17, 17]}
    x, u, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in ends.items())
    arrays = [numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", [x, u], [y], arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    best = optimize(model)
    assert best.bytes_moved == 0 < best.initial.bytes_moved, best.notes
    rng = np.random.default_rng(0)
    feeds = {n: rng.standard_normal(ends[n]).astype("float32") for n in "xu"}
    one, other = (run_session(session(m), feeds) for m in (model, best.model))
    assert np.array_equal(one[0], other[0])
