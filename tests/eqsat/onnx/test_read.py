"""Models that programs do not model in full: everything is carried through, and means what it meant."""

# feature: I1
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, TensorProto, helper, numpy_helper  # noqa: E402

import eqsat.onnx as front  # noqa: E402
from eqsat.ir.tensors.run import evaluate_outputs  # noqa: E402
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Opaque, Program, Tensor, View  # noqa: E402
from eqsat.models.package import run_session, session  # noqa: E402
from eqsat.onnx.check import distance  # noqa: E402
from eqsat.onnx.read import OnnxProgram, read  # noqa: E402
from eqsat.onnx.write import write  # noqa: E402

pytestmark = pytest.mark.onnx

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def info(name: str, shape: Sequence[int | str | None] | None, element: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, element, shape)


def build(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: dict[str, Any] | None = None,
    opset: int = 17,
    ir_version: int = 8,
    domains: Sequence[tuple[str, int]] = (),
    **more: Any,
) -> ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), tensors)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, v) for d, v in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, **more)


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


def floats(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same_after_round_trip(model: ModelProto, feeds: dict[str, Any]) -> OnnxProgram:
    """Read, write, run both; returns the program."""
    program = read(model)
    again = write(program)
    onnx.checker.check_model(again)
    for a, b in zip(run_session(session(model), feeds), run_session(session(again), feeds), strict=True):
        if isinstance(a, list):
            assert [x.tolist() for x in cast("list[Any]", a)] == [y.tolist() for y in b]
        elif a.dtype == object:
            assert np.array_equal(a, b)
        else:
            assert distance(a, b) <= 1e-6
    assert len(again.graph.node) <= len(model.graph.node)
    assert [(i.name, i.type) for i in again.graph.input] == [(i.name, i.type) for i in model.graph.input]
    assert [o.name for o in again.graph.output] == [o.name for o in model.graph.output]
    return program


def ops(program: Program) -> list[str]:
    return [n.op for n in program.nodes() if isinstance(n, Opaque)]


def test_branches_keep_their_captured_values() -> None:
    then = helper.make_graph([node("Add", "h k", "t")], "then", [], [info("t", [2, 3])])
    other = helper.make_graph([node("Transpose", "h", "u", perm=[0, 1])], "else", [], [info("u", [2, 3])])
    model = build(
        [node("Relu", "x", "h"), node("If", "c", "y", then_branch=then, else_branch=other), node("Neg", "y", "z")],
        [info("x", [2, 3]), info("c", [], TensorProto.BOOL)],
        [info("z", [2, 3])],
        {"k": np.float32(3)},
    )
    for flag in (True, False):
        feeds = {"x": floats(2, 3), "c": np.array(flag)}
        program = same_after_round_trip(model, feeds)
        assert distance(run_session(session(model), feeds)[0], evaluate_outputs(program, feeds)["z"]) <= 1e-6
    barrier = next(n for n in program.nodes() if isinstance(n, Opaque))
    assert barrier.op == "onnx:If" and barrier.pure and len(barrier.operands) == 3


def test_loop_and_its_inner_names() -> None:
    body = helper.make_graph(
        [node("Add", "acc x", "next"), node("Identity", "go", "again")],
        "body",
        [info("i", [], INT64), info("go", [], TensorProto.BOOL), info("acc", [2])],
        [info("again", [], TensorProto.BOOL), info("next", [2])],
    )
    # The outer value is called `next` too, which the loop body shadows.
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    model = build([loop, node("Neg", "y", "z")], [info("x", [2])], [info("z", [2])], {"n": np.array(3)})
    same_after_round_trip(model, {"x": floats(2)})


def test_captured_values_follow_their_new_names() -> None:
    inner = helper.make_graph([node("Neg", "h", "deep")], "inner", [], [info("deep", [2])])
    then = helper.make_graph([node("If", "c", "t", then_branch=inner, else_branch=inner)], "then", [], [info("t", [2])])
    model = build(
        [node("Exp", "x", "h"), node("If", "c", "y", then_branch=then, else_branch=inner)],
        [info("x", [2]), info("c", [], TensorProto.BOOL)],
        [info("y", [2])],
    )
    program = read(model)
    barrier = next(n for n in program.nodes() if isinstance(n, Opaque))
    other = Opaque(
        barrier.op,
        [x if x.dtype == "bool" else x * x for x in barrier.operands],
        barrier.outputs,
        barrier.attrs,
        None,
        barrier.impl,
    )
    changed = write(Program(program.inputs, {"y": Tensor(other)}), program)
    for flag in (True, False):
        feeds = {"x": floats(2), "c": np.array(flag)}
        expected = -(np.exp(feeds["x"]) ** 2)
        assert distance(expected, run_session(session(changed), feeds)[0]) <= 1e-6


def test_random_operators_keep_their_identity() -> None:
    nodes = [
        node("RandomUniform", "", "a", shape=[4]),
        node("RandomUniform", "", "b", shape=[4]),
        node("Sub", "a b", "y"),
    ]
    program = read(build(nodes, [], [info("y", [4])]))
    random = [n for n in program.nodes() if isinstance(n, Opaque)]
    assert len(random) == 2 and not any(n.pure for n in random)
    again = write(program)
    assert [n.op_type for n in again.graph.node] == ["RandomUniform", "RandomUniform", "Sub"]
    assert float(np.abs(run_session(session(again), {})[0]).max()) > 0


@pytest.mark.parametrize("op", ["Bernoulli", "RandomNormalLike", "Multinomial"])
def test_every_random_operator_is_impure(op: str) -> None:
    element = TensorProto.INT32 if op == "Multinomial" else FLOAT
    attrs = {"sample_size": 3} if op == "Multinomial" else {}
    model = build([node(op, "x", "y", **attrs)], [info("x", [2, 3])], [info("y", [2, 3], element)])
    (made,) = [n for n in read(model).nodes() if isinstance(n, Opaque)]
    assert not made.pure


def test_dropout_in_training_is_impure() -> None:
    dropout = node("Dropout", "x r t", "y")
    constants = {"r": np.float32(0.5), "t": np.array(True)}
    (made,) = [
        n
        for n in read(build([dropout], [info("x", [4])], [info("y", [4])], constants)).nodes()
        if isinstance(n, Opaque)
    ]
    assert not made.pure
    constants["t"] = np.array(False)
    assert not ops(read(build([dropout], [info("x", [4])], [info("y", [4])], constants)))


def test_random_inside_a_branch_is_impure() -> None:
    then = helper.make_graph([node("RandomNormal", "", "t", shape=[2])], "then", [], [info("t", [2])])
    other = helper.make_graph([node("Identity", "x", "u")], "else", [], [info("u", [2])])
    model = build(
        [node("If", "c", "y", then_branch=then, else_branch=other)],
        [info("x", [2]), info("c", [], TensorProto.BOOL)],
        [info("y", [2])],
    )
    (made,) = [n for n in read(model).nodes() if isinstance(n, Opaque)]
    assert not made.pure


def test_functions_are_kept() -> None:
    function = helper.make_function(
        "my", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], [helper.make_opsetid("", 17)]
    )
    twice = helper.make_node("Twice", ["h"], ["g"], domain="my")
    model = build(
        [node("Relu", "x", "h"), twice, node("Neg", "g", "y")],
        [info("x", [2])],
        [info("y", [2])],
        domains=[("my", 1)],
        functions=[function],
    )
    program = same_after_round_trip(model, {"x": floats(2)})
    assert ops(program) == ["onnx:Twice"]
    values = evaluate_outputs(program, {"x": np.array([1, -1], np.float32)})
    assert values["y"].tolist() == [-2.0, 0.0]
    plain = write(Program(program.inputs, program.outputs))  # without the envelope
    assert [f.name for f in plain.functions] == ["Twice"]
    assert (
        distance(run_session(session(model), {"x": floats(2)})[0], run_session(session(plain), {"x": floats(2)})[0])
        == 0
    )


def test_sequences_strings_and_optionals_are_islands() -> None:
    nodes = [
        node("SequenceConstruct", "x h", "s"),
        node("Relu", "x", "h"),
        node("SequenceAt", "s one", "a"),
        node("Transpose", "a", "b"),
        node("ConcatFromSequence", "s", "c", axis=0),
    ]
    nodes[0], nodes[1] = nodes[1], nodes[0]
    model = build(nodes, [info("x", [2, 3])], [info("b", [3, 2]), info("c", [4, 3])], {"one": np.array(1)})
    program = same_after_round_trip(model, {"x": floats(2, 3)})
    assert ops(program) == ["onnx:island"]
    assert any(isinstance(n, View) for n in program.nodes())  # the transpose outside is understood
    feeds = {"x": floats(2, 3)}
    for name, want in zip(program.outputs, run_session(session(model), feeds), strict=True):
        assert distance(want, evaluate_outputs(program, feeds)[name]) == 0


def test_islands_take_in_what_would_make_a_cycle() -> None:
    nodes = [
        node("SequenceConstruct", "x", "s"),
        node("SequenceAt", "s zero", "a"),
        node("Neg", "a", "b"),
        node("SequenceInsert", "s b", "t"),
        node("ConcatFromSequence", "t", "y", axis=0),
    ]
    model = build(nodes, [info("x", [2])], [info("y", [4])], {"zero": np.array(0)})
    program = same_after_round_trip(model, {"x": floats(2)})
    assert ops(program) == ["onnx:island"] and not any(isinstance(n, Compute) for n in program.nodes())


def test_outputs_and_inputs_of_other_types() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    strings = info("w", [2], TensorProto.STRING)
    nodes = [
        node("SequenceConstruct", "x h", "s"),
        node("Relu", "x", "h"),
        node("Identity", "w", "v"),
        node("Neg", "h", "y"),
    ]
    nodes[0], nodes[1] = nodes[1], nodes[0]
    model = build(nodes, [info("x", [2]), strings], [sequence, info("v", [2], TensorProto.STRING), info("y", [2])])
    feeds = {"x": floats(2), "w": np.array(["a", "b c"], object)}
    program = same_after_round_trip(model, feeds)
    assert [x.name for x in program.inputs] == ["x"]


def test_bfloat16_is_carried() -> None:
    nodes = [
        node("Cast", "x", "h", to=TensorProto.BFLOAT16),
        node("Cast", "h", "f", to=FLOAT),
        node("Relu", "f", "y"),
    ]
    program = same_after_round_trip(build(nodes, [info("x", [3])], [info("y", [3])]), {"x": floats(3)})
    assert ops(program) == ["onnx:island"]


def test_unknown_domains_and_optional_outputs() -> None:
    fast = helper.make_node("FusedGemm", ["x", "w"], ["h"], domain="com.microsoft", transB=1, activation="Relu")
    pool = helper.make_node("MaxPool", ["h4"], ["p", "i"], kernel_shape=[2, 2])
    nodes = [fast, node("Unsqueeze", "h axes", "h4"), pool, node("Cast", "i", "j", to=FLOAT), node("Add", "p j", "y")]
    constants = {"w": floats(4, 3), "axes": np.array([0, 1])}
    model = build(nodes, [info("x", [4, 3])], [info("y", None)], constants, domains=[("com.microsoft", 1)])
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].CopyFrom(info("y", [1, 1, 3, 3]))
    model.graph.value_info.append(info("h", [4, 4]))
    program = same_after_round_trip(model, {"x": floats(4, 3)})
    assert ops(program) == ["onnx:FusedGemm", "onnx:MaxPool"]
    assert next(n for n in program.nodes() if isinstance(n, Opaque)).signature is None


def test_overridable_initialisers() -> None:
    nodes = [node("Add", "x w", "y")]
    model = build(nodes, [info("x", [2]), info("w", [2])], [info("y", [2])], {"w": np.array([1, 2], np.float32)})
    kept = read(model)
    assert [x.name for x in kept.inputs] == ["x", "w"]
    again = write(kept)
    x = np.zeros(2, np.float32)
    assert run_session(session(again), {"x": x})[0].tolist() == [1.0, 2.0]
    assert run_session(session(again), {"x": x, "w": x})[0].tolist() == [0.0, 0.0]
    folded = read(model, fold_inputs=True)
    assert [x.name for x in folded.inputs] == ["x"]
    assert [i.name for i in write(folded).graph.input] == ["x"]
    model.ir_version = 3
    old = read(model)
    assert [x.name for x in old.inputs] == ["x"]
    onnx.checker.check_model(write(old))


# feature: I1
def test_inputs_with_a_value_are_folded_in() -> None:
    """A model whose default is folded in has one input less; where nothing is gained, it is as it was given."""
    w = np.arange(4, dtype=np.float32).reshape(2, 2)
    nodes = [node("Transpose", "w", "t", perm=[1, 0]), node("Add", "x t", "y")]
    model = build(nodes, [info("x", [2, 2]), info("w", [2, 2])], [info("y", [2, 2])], {"w": w})
    found = front.optimize(model, fold_inputs=True)
    assert [n.op_type for n in found.model.graph.node] == ["Add"] and not found.notes
    assert [x.name for x in found.model.graph.input] == ["x"] and [x.name for x in model.graph.input] == ["x", "w"]
    assert run_session(session(found.model), {"x": w})[0].tolist() == (w + w.T).tolist()
    assert [x.name for x in front.optimize(model).model.graph.input] == ["x", "w"]
    plain = build([node("Add", "x w", "y")], [info("x", [2, 2]), info("w", [2, 2])], [info("y", [2, 2])], {"w": w})
    assert front.optimize(plain, fold_inputs=True).model is plain


def test_named_and_unknown_sizes() -> None:
    nodes = [
        node("Transpose", "x", "t", perm=[0, 2, 1]),
        node("Shape", "t", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n ax", "n1"),
        node("Concat", "n1 rest", "to", axis=0),
        node("Reshape", "t to", "r"),
        node("NonZero", "r", "z"),
        node("Transpose", "z", "y", perm=[1, 0]),
    ]
    constants = {"zero": np.array(0), "ax": np.array([0]), "rest": np.array([-1])}
    outputs = [info("r", ["batch", 12]), info("y", [None, 2], INT64)]
    model = build(nodes, [info("x", ["batch", 3, 4])], outputs, constants)
    program = same_after_round_trip(model, {"x": floats(5, 3, 4)})
    assert str(program.outputs["r"].shape) == "(batch, 12)"
    assert ops(program) == ["onnx:NonZero"]  # the shape arithmetic is gone
    assert str(program.outputs["y"].shape[0]) != "batch"


def test_shape_arithmetic_becomes_constants() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Slice", "s a b", "d"),
        node("ReduceProd", "d", "p", keepdims=1),
        node("Div", "p two", "q"),
        node("Concat", "q minus", "to", axis=0),
        node("Reshape", "x to", "y"),
    ]
    constants = {"a": np.array([1]), "b": np.array([3]), "two": np.array([2]), "minus": np.array([-1])}
    model = build(nodes, [info("x", [2, 3, 4])], [info("y", [6, 4])], constants)
    program = same_after_round_trip(model, {"x": floats(2, 3, 4)})
    kinds = {type(n) for n in program.nodes()}
    assert kinds == {Input, View}


def test_integer_division_truncates() -> None:
    model = build(
        [node("Div", "x c", "y")],
        [info("x", [2], TensorProto.INT32)],
        [info("y", [2], TensorProto.INT32)],
        {"c": np.array(2, np.int32)},
    )
    program = read(model)
    assert evaluate_outputs(program, {"x": np.array([-7, 7], np.int32)})["y"].tolist() == [-3, 3]


def test_quantised_operators_are_carried() -> None:
    names = "a as_ az b bs bz ys yz"
    constants = {
        "as_": np.float32(0.1), "az": np.uint8(3), "b": np.array([[1, 2], [3, 4]], np.uint8), "bs": np.float32(0.2),
        "bz": np.uint8(1), "ys": np.float32(0.5), "yz": np.uint8(2),
    }  # fmt: skip
    nodes = [node("QuantizeLinear", "x as_ az", "a"), node("QLinearMatMul", names, "y")]
    model = build(nodes, [info("x", [2, 2])], [info("y", [2, 2], TensorProto.UINT8)], constants)
    assert "onnx:QLinearMatMul" in ops(same_after_round_trip(model, {"x": floats(2, 2)}))


def test_names_metadata_and_identity_outputs() -> None:
    nasty = 'a"b\nc/../d e'
    nodes = [
        helper.make_node("Relu", ["x"], [nasty]),
        helper.make_node("Identity", [nasty], ["o1"]),
        helper.make_node("Identity", ["x"], ["o2"]),
    ]
    model = build(nodes, [info("x", [2])], [info(nasty, [2]), info("o1", [2]), info("o2", [2])])
    model.doc_string, model.producer_name = "docs", "maker"
    helper.set_model_props(model, {"key": "value"})
    same_after_round_trip(model, {"x": floats(2)})
    again = write(read(model))
    assert (again.doc_string, again.producer_name, again.metadata_props[0].value) == ("docs", "maker", "value")


def test_constants_are_kept_by_name(tmp_path: Path) -> None:
    model = build([node("MatMul", "x w", "y")], [info("x", [2, 3])], [info("y", [2, 4])], {"w": floats(3, 4)})
    front.save(read(model), tmp_path / "m.onnx")
    again = front.load(tmp_path / "m.onnx")
    (weight,) = [n for n in again.nodes() if isinstance(n, Constant)]
    assert weight.name == "w" and weight.array.tobytes() == floats(3, 4).tobytes()
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
