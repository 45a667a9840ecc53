"""Optimised models are checked against the models they were made of: each miscompile that was found is found again."""

# feature: I11
from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from seeds import some_of

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper  # noqa: E402
from random_models import models_with_a_fault, random_model  # noqa: E402

import eqsat as eq  # noqa: E402
from eqsat import nets  # noqa: E402
from eqsat.checking import drive  # noqa: E402
from eqsat.checking.fold import folded  # noqa: E402
from eqsat.checking.models import check_models  # noqa: E402
from eqsat.checking.plan import Planner  # noqa: E402
from eqsat.checking.verdict import CheckFailure  # noqa: E402
from eqsat.cli import main, optimize_job  # noqa: E402
from eqsat.models.package import run_session, session  # noqa: E402
from eqsat.onnx.check import compare_models  # noqa: E402

pytestmark = pytest.mark.onnx
F, N = TensorProto.FLOAT, helper.make_node


def model(
    nodes: Sequence[NodeProto], ins: Any, outs: Any, constants: dict[str, Any] | None = None, opset: int = 17
) -> ModelProto:
    graph = helper.make_graph(
        list(nodes), "g", [helper.make_tensor_value_info(*i) for i in ins],
        [helper.make_tensor_value_info(*o) for o in outs],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def squeeze(dropped: bool) -> ModelProto:
    """Finding 3: Squeeze without axes over dynamic axes."""
    nodes = [N("Relu", ["x"], ["y"])] if dropped else [N("Squeeze", ["x"], ["s"]), N("Relu", ["s"], ["y"])]
    return model(nodes, [("x", F, ["N", 4])], [("y", F, ["K"])])


def unit_axis(lost: bool) -> ModelProto:
    """Finding 3b: the leading axis of extent 1 of an operand that broadcasts."""
    perm, axes = ([3, 0, 1, 2], [1]) if lost else ([0, 4, 1, 2, 3], [0, 2])
    nodes = [
        N("Unsqueeze", ["x", "ax"], ["u"]), N("Add", ["u", "x"], ["e"]), N("Transpose", ["e"], ["y"], perm=perm),
    ]  # fmt: skip
    return model(nodes, [("x", F, [4, 6, 3])], [("y", F, [1, 3, 4, 4, 6])], {"ax": np.array(axes)}, 13)


def space_to_depth(ignored: bool) -> ModelProto:
    """Finding C.1: an attribute of a later opset."""
    shape = {"to": np.array([1, 2, 2, 2, 2, 2]), "back": np.array([1, 8, 2, 2])}
    crd = [
        N("Reshape", ["x", "to"], ["r"]), N("Transpose", ["r"], ["t"], perm=[0, 3, 5, 1, 2, 4]),
        N("Reshape", ["t", "back"], ["y"]),
    ]  # fmt: skip
    nodes = crd if ignored else [N("SpaceToDepth", ["x"], ["y"], blocksize=2, mode="CRD")]
    return model(nodes, [("x", F, [1, 2, 4, 4])], [("y", F, [1, 8, 2, 2])], shape, 28)


def unordered(wrong: bool) -> ModelProto:
    """Finding 8, C.3: a value is read before it is made."""
    nodes = [N("Relu", ["x"], ["r"]), N("Neg", ["r"], ["y"])]
    return model(nodes[::-1] if wrong else nodes, [("x", F, [4])], [("y", F, [4])])


def strings(wrong: bool) -> ModelProto:
    """Finding 10: the type of an output becomes that of a stand-in."""
    kind: int = TensorProto.UINT8 if wrong else TensorProto.STRING
    shape: list[int] | None = [] if wrong else None
    return model([N("Concat", ["x", "x"], ["y"], axis=0)], [("x", TensorProto.STRING, [2, 2])], [("y", kind, shape)])


def row(wrong: bool) -> ModelProto:
    """Finding 1, as it is spelled in ONNX: a row of a transposed square for its diagonal or a column."""
    if wrong:
        nodes = [N("Slice", ["x", "zero", "one", "zero"], ["y"])]
    else:
        nodes = [N("Transpose", ["x"], ["t"], perm=[1, 0]), N("Slice", ["t", "zero", "one", "zero"], ["y"])]
    constants = {"zero": np.array([0]), "one": np.array([1])}
    return model(nodes, [("x", F, [5, 5])], [("y", F, [1, 5])], constants)


def reshaped(wrong: bool) -> ModelProto:
    """A Transpose of a square that became a Reshape."""
    nodes = [N("Relu", ["x"], ["r"]), N("Transpose", ["r"], ["t"], perm=[0, 2, 1]), N("Neg", ["t"], ["y"])]
    if wrong:
        nodes[1] = N("Reshape", ["r", "s"], ["t"])
    return model(nodes, [("x", F, [2, 3, 3])], [("y", F, [2, 3, 3])], {"s": np.array([2, 3, 3])})


def weights(wrong: bool) -> ModelProto:
    """A weight in another order than its product needs."""
    w = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    nodes = [N("Transpose", ["x"], ["t"], perm=[0, 2, 1]), N("MatMul", ["t", "w"], ["y"])]
    if wrong:
        nodes = [N("MatMul", ["w", "x"], ["m"]), N("Transpose", ["m"], ["y"], perm=[0, 2, 1])]
    return model(nodes, [("x", F, [2, 4, 3])], [("y", F, [2, 3, 4])], {"w": w})


def pad_value(wrong: bool) -> ModelProto:
    """A pad that crosses Exp without its value."""
    nodes = [N("Pad", ["x", "p"], ["q"]), N("Exp", ["q"], ["y"])]
    if wrong:
        nodes = [N("Exp", ["x"], ["q"]), N("Pad", ["q", "p"], ["y"])]
    return model(nodes, [("x", F, [4])], [("y", F, [6])], {"p": np.array([1, 1])})


WRONG: dict[str, Callable[[bool], ModelProto]] = {
    f.__name__: f for f in (squeeze, unit_axis, space_to_depth, unordered, strings, row, reshaped, weights, pad_value)
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_model_is_found(name: str) -> None:
    make = WRONG[name]
    assert check_models(make(False), make(True), 10.0).difference is not None
    assert check_models(make(False), make(False), 10.0).difference is None


@pytest.mark.parametrize("name", [n for n in WRONG if n not in ("space_to_depth", "strings", "squeeze")])
def test_a_wrong_model_is_not_returned(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The fault injected where models are written: the input comes back, with a note."""
    before, after = WRONG[name](False), WRONG[name](True)

    def written(*_: Any) -> tuple[ModelProto, dict[str, int]]:
        return after, {}

    def price(m: ModelProto, values: Any) -> int:
        return 2 if m is before else 1

    monkeypatch.setattr("eqsat.onnx.spelling.write_with_owners", written)
    monkeypatch.setattr("eqsat.onnx.bytes.price", price)
    monkeypatch.setenv("EQSAT_DEBUG", "1")
    with pytest.raises(CheckFailure):
        eq.onnx.optimize(before, objective="bytes")
    monkeypatch.delenv("EQSAT_DEBUG")
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    found = eq.onnx.optimize(before, objective="bytes")
    assert found.model is before and found.cost_after == found.cost_before
    assert any("defect" in n and str(tmp_path) in n for n in found.notes)
    assert found.checked.difference is not None


def test_a_failure_while_writing_gives_the_model_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: Any) -> ModelProto:
        raise ValueError("invalid literal for int() with base 10: 'D'")

    before = nets.conv_chain()
    monkeypatch.setattr("eqsat.onnx.spelling.write_with_owners", broken)
    with pytest.raises(ValueError, match="literal"):
        eq.onnx.optimize(before, objective="bytes")
    monkeypatch.delenv("EQSAT_DEBUG")
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    found = eq.onnx.optimize(before, objective="bytes")
    assert found.model is before and "ValueError" in " ".join(found.notes)


def test_the_command_line_tells(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("EQSAT_DEBUG", raising=False)
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "chain.onnx"
    eq.onnx.save_model(nets.conv_chain(), path)
    assert main(["optimize", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["checked"]
    assert told["proved"] == 1 and told["neither"] == 0 and told["difference"] is None
    assert main(["optimize", str(path)]) == 0
    assert "checked: 1 of 1 changed regions proved" in capsys.readouterr().out

    def broken(*_: Any) -> tuple[ModelProto, dict[str, int]]:
        return nets.conv_chain(seed=1), {}

    def here(job: str, argument: optimize_job.Job, *, report: Callable[[str], None], **_: float) -> optimize_job.Answer:
        return optimize_job.run(argument, report)

    prices = iter([2, 1, 1])

    def price(m: ModelProto, values: Any) -> int:
        return next(prices)

    monkeypatch.setattr("eqsat.cli.optimize.call", here)
    monkeypatch.setattr("eqsat.onnx.bytes.price", price)
    monkeypatch.setattr("eqsat.onnx.spelling.write_with_owners", broken)
    out = tmp_path / "out.onnx"
    assert main(["optimize", str(path), "-o", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "a defect of eqsat" in shown and str(tmp_path / "cache") in shown.replace("\n", "")
    written = onnx.load(out)
    assert [n.op_type for n in written.graph.node] == [n.op_type for n in nets.conv_chain().graph.node]


NETS = {
    "converter": nets.nhwc_converter_net, "chain": nets.conv_chain, "windows": nets.window_partition,
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_right_models_pass(name: str) -> None:
    best = eq.onnx.optimize(NETS[name]())
    assert best.checked.difference is None and best.checked.count("neither") == 0
    assert len(best.checked) > 0 and best.checked.count("proved") == len(best.checked)


def test_a_dropout_that_does_not_train_may_go() -> None:
    def dropped(training: bool) -> ModelProto:
        mode = {"r": np.float32(0.5), "t": np.array(training)}
        return model([N("Dropout", ["x", "r", "t"], ["y"])], [("x", F, [4])], [("y", F, [4])], mode)

    kept = model([N("Identity", ["x"], ["y"])], [("x", F, [4])], [("y", F, [4])])
    assert check_models(dropped(training=False), kept).difference is None
    assert check_models(dropped(training=True), kept).difference is not None


@pytest.mark.parametrize("training", [False, True])
def test_only_a_dropout_that_trains_differs_from_itself(training: bool) -> None:
    def net(second: NodeProto) -> ModelProto:
        outs = [("y", F, [4]), ("z", F, [4])]
        first = N("Dropout", ["x", "r", "t"], ["y"])
        return model([first, second], [("x", F, [4])], outs, {"r": np.float32(0.5), "t": np.array(training)})

    done = check_models(net(N("Dropout", ["x", "r", "t"], ["z"])), net(N("Identity", ["y"], ["z"])))
    assert (done.difference is not None) == training


@pytest.mark.parametrize("place", [0, 5000, 20_000, 39_999])
def test_large_constants_are_compared_whole(place: int) -> None:
    """Wherever one number differs, under the same name or another one; equal ones are equal under any name."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((200, 200)).astype("f4") for _ in range(2)]
    other = weights[0].copy()
    other.reshape(-1)[place] += 1

    def net(names: Sequence[str], arrays: Sequence[Any], more: int) -> ModelProto:
        nodes = [N("MatMul", ["x", names[0]], ["m"]), N("MatMul", ["m", names[1]], ["v0"])]
        nodes += [N("Identity", [f"v{k}"], [f"v{k + 1}"]) for k in range(more)]
        nodes.append(N("Relu", [f"v{more}"], ["y"]))
        return model(nodes, [("x", F, [2, 200])], [("y", F, [2, 200])], dict(zip(names, arrays, strict=True)))

    before = net(("a", "b"), weights, 0)
    for names in (("a", "b"), ("c", "d"), ("b", "a")):
        assert check_models(before, net(names, weights, 1)).difference is None
        assert check_models(before, net(names, [other, weights[1]], 1)).difference is not None
        assert check_models(before, net(names, [weights[0], weights[0]], 1)).difference is not None


def test_a_declared_rank_is_relied_on() -> None:
    """The result fails where N is 1: the model has no third axis there. A model that declares one has no such size."""

    def side(declared: list[Any] | None, *nodes: NodeProto) -> ModelProto:
        outs = [("y", F, [None]), *([] if declared is None else [("v", F, declared)])]
        constants = {"flat": [-1], "last": [2]}
        return model([N("Squeeze", ["x"], ["v"]), *nodes], [("x", F, [4, "N", 2])], outs, constants, 13)

    def wrong(declared: list[Any] | None, last: str) -> bool:
        before = side(declared, N("Reshape", ["v", "flat"], ["y"]))
        sized = [N("Shape", ["v"], ["s"]), N("Gather", ["s", "last"], ["g"]), N("Concat", ["flat", "g"], ["k"], axis=0)]
        after = side(declared, *sized, N("Reshape", ["v", "k"], ["r"]), N(last, ["r"], ["t"]),
                     N("Reshape", ["t", "flat"], ["y"]))  # fmt: skip
        return check_models(before, after).difference is not None

    assert not wrong([4, None, 2], "Identity")
    assert wrong(None, "Identity") and wrong([4, None], "Identity") and wrong([4, None, 2], "Neg")


@pytest.mark.parametrize("taps", [3, 9, 21])
def test_sizes_are_chosen_that_windows_fit(taps: int) -> None:
    """At the smallest sizes of an image the original fails: larger ones tell whether the result is right."""
    numbers = np.random.default_rng(0).standard_normal((3, 3, taps, taps)).astype("float32")

    def side(wrong: bool) -> ModelProto:
        nodes = [N("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), N("Conv", ["t", "w"], ["y"])]
        weights = numbers[:, :, ::-1] if wrong else numbers
        return model(nodes, [("x", F, ["N", "H", "W", 3])], [("y", F, [None] * 4)], {"w": weights})

    found = check_models(side(False), side(True))
    assert found.difference is not None and found.count("run") == 1


def test_sizes_are_chosen_that_can_be_halved() -> None:
    """What networks halve five times: only where sizes are multiples of 32 does the original run."""

    def side(last: list[int]) -> ModelProto:
        nodes = [N("Reshape", ["x", "blocks"], ["b"]), N("Transpose", ["b"], ["y"], perm=last)]
        ends = [("x", F, ["N", 3, "H", "W"])], [("y", F, [None] * 5)]
        return model(nodes, *ends, {"blocks": np.array([0, 3, -1, 32, 32])})

    assert check_models(side([0, 2, 1, 3, 4]), side([0, 2, 1, 3, 4])).difference is None
    found = check_models(side([0, 2, 1, 3, 4]), side([0, 2, 1, 4, 3]))
    assert found.difference is not None and found.count("neither") == 0


def test_sizes_are_chosen_that_are_equal() -> None:
    """Inputs with names of their own: only where these are equal, and multiples of 12, does the original run."""

    def side(last: list[int]) -> ModelProto:
        nodes = [N("Add", ["x", "z"], ["s"]), N("Reshape", ["s", "heads"], ["b"])]
        ends = [("x", F, ["N", "W"]), ("z", F, ["M", "V"])], [("y", F, [None] * 3)]
        made = [*nodes, N("Transpose", ["b"], ["y"], perm=last)]
        return model(made, *ends, {"heads": np.array([0, 12, -1])})

    assert check_models(side([1, 0, 2]), side([1, 0, 2])).difference is None
    found = check_models(side([1, 0, 2]), side([1, 2, 0]))
    assert found.difference is not None and found.count("neither") == 0


def test_sizes_at_which_the_original_breaks_its_own_shapes_say_nothing() -> None:
    """Of 0 rows, a Reshape to (b, t, 8) copies other extents where b and t are 0, and the output is not (b, t, 8)."""

    def side(result: bool, scale: float = 1.0, said: tuple[str, str] = ("b", "t")) -> ModelProto:
        def size(k: str) -> list[NodeProto]:
            return [N("Gather", ["all", k], [f"s{k}"])]

        flat = [N("Reshape", ["x", "rows"], ["r"]), N("Mul", ["r", "c"], ["m"])]
        sizes = [N("Shape", ["x"], ["all"]), *size("0"), *size("1"), N("Concat", ["s0", "s1", "w"], ["s"], axis=0)]
        last = N("Reshape", ["m", "s"], ["y"], allowzero=int(result))
        numbers = {"0": np.array([0]), "1": np.array([1]), "w": np.array([8]), "rows": np.array([-1, 8])}
        ends = [("x", F, ["b", "t", 8])], [("y", F, [*said, 8])]
        return model([*flat, *sizes, last], *ends, {**numbers, "c": np.array(scale, "float32")})

    found = check_models(side(False), side(True))
    assert found.difference is None and found.count("run") == 1, found
    assert check_models(side(False), side(True, scale=2.0)).difference is not None
    unsaid = check_models(side(False, said=("p", "q")), side(True, said=("p", "q"))).difference
    assert unsaid is not None and unsaid.problem == "float32(0, 0, 8) where float32(0, 8, 8) is expected"


def test_interfaces_are_compared() -> None:
    base = model([N("Relu", ["x"], ["y"])], [("x", F, ["N", 4])], [("y", F, ["N", 4])])

    def changed(**parts: Any) -> ModelProto:
        ins, outs = parts.get("ins", [("x", F, ["N", 4])]), parts.get("outs", [("y", F, ["N", 4])])
        return model([N("Relu", ["x"], ["y"])], ins, outs)

    for wrong in (
        changed(ins=[("x", F, ["M", 4])], outs=[("y", F, ["M", 4])]),
        changed(ins=[("x", F, ["N", 4]), ("z", F, [1])]),
        changed(outs=[("y", F, ["N", 4, 1])]),
        changed(outs=[("y", F, ["N", 5])]),
        changed(outs=[("y", TensorProto.FLOAT16, ["N", 4])]),
    ):
        assert check_models(base, wrong).difference is not None
    assert check_models(base, changed()).difference is None


def test_large_regions_are_shrunk_alike() -> None:
    """A region of 50 million cells on both sides costs next to nothing, and a swapped axis is seen."""
    nodes = [N("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]), N("Relu", ["t"], ["r"])]
    big = [("x", F, [4, 64, 448, 448])]
    back = model([*nodes, N("Transpose", ["r"], ["y"], perm=[0, 3, 1, 2])], big, [("y", F, [4, 64, 448, 448])])
    right = model([N("Relu", ["x"], ["y"])], big, [("y", F, [4, 64, 448, 448])])
    wrong = model(
        [N("Relu", ["x"], ["r"]), N("Transpose", ["r"], ["y"], perm=[0, 1, 3, 2])], big, [("y", F, [4, 64, 448, 448])]
    )
    found = check_models(back, right, 10.0)
    assert [r.verdict for r in found] == ["proved"] and found.seconds < 0.5
    assert check_models(back, wrong, 10.0).difference is not None


def test_folding_agrees_with_onnxruntime() -> None:
    """Integer chains of sizes are folded as the runtime computes them."""
    five = np.array([7, -3, 0, 2, 9], np.int64)
    cases: list[tuple[NodeProto, dict[str, Any], int]] = [
        (N("Gather", ["a", "i"], ["y"], axis=0), {"a": five, "i": np.array([1, -1])}, 17),
        (N("Concat", ["a", "a"], ["y"], axis=0), {"a": five}, 17),
        (N("Unsqueeze", ["a", "x"], ["y"]), {"a": five, "x": np.array([0, 2])}, 17),
        (N("Squeeze", ["a"], ["y"]), {"a": five.reshape(1, 5, 1)}, 17),
        (N("Squeeze", ["a"], ["y"], axes=[0]), {"a": five.reshape(1, 5, 1)}, 11),
        (N("Div", ["a", "b"], ["y"]), {"a": five, "b": np.array([2, 2, 2, -2, -2])}, 17),
        (N("Mul", ["a", "b"], ["y"]), {"a": five, "b": np.array(3)}, 17),
        (N("Sub", ["a", "b"], ["y"]), {"a": five, "b": np.array([3])}, 17),
        (N("Equal", ["a", "b"], ["y"]), {"a": five, "b": np.array([2])}, 17),
        (N("Cast", ["a"], ["y"], to=TensorProto.INT32), {"a": five}, 17),
        (N("Shape", ["a"], ["y"], start=1), {"a": np.zeros((2, 3, 4), np.int64)}, 17),
        (N("Size", ["a"], ["y"]), {"a": np.zeros((2, 3, 4), np.int64)}, 17),
        (N("Reshape", ["a", "s"], ["y"]), {"a": five[:4], "s": np.array([2, -1])}, 17),
        (N("Transpose", ["a"], ["y"]), {"a": np.arange(6).reshape(2, 3)}, 17),
        (N("ConstantOfShape", ["a"], ["y"], value=numpy_helper.from_array(np.array([4]))), {"a": np.array([2, 3])}, 17),
    ]  # fmt: skip
    far = (2**31, -(2**31), 2**63 - 1)
    for s, e, step in [
        (0, 3, 1),
        (1, far[2], 2),
        (-2, far[0], 1),
        (-1, far[1], -1),
        (3, 0, -1),
        (9, -4, -2),
        (-9, 2, 1),
    ]:
        operands = {"a": five, "s": np.array([s]), "e": np.array([e]), "x": np.array([0]), "t": np.array([step])}
        cases.append((N("Slice", ["a", "s", "e", "x", "t"], ["y"]), operands, 17))
    for node, operands, opset in cases:
        ins = [(n, int(helper.np_dtype_to_tensor_dtype(a.dtype)), list(a.shape)) for n, a in operands.items()]
        made = model([node], ins, [])
        made.opset_import[0].version = opset
        made.graph.output.append(helper.make_empty_tensor_value_info("y"))
        (expected,) = run_session(session(made), operands)
        shapes = {n: a.shape for n, a in operands.items()}
        found = folded(node, opset, operands, shapes.get)
        assert found is not None and found.shape == expected.shape and found.dtype == expected.dtype, node.op_type
        assert np.array_equal(found, expected), node.op_type


def test_a_unit_in_the_last_place_of_a_half_is_no_difference() -> None:
    """Finding C.8: the tolerance follows the type."""
    half = TensorProto.FLOAT16
    w = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float16)
    x = [("x", half, [4, 8])]
    before = model([N("MatMul", ["x", "w"], ["y"])], x, [("y", half, [4, 8])], {"w": w})
    nudged = model([N("MatMul", ["x", "w"], ["m"]), N("Mul", ["m", "k"], ["y"])], x, [("y", half, [4, 8])],
                   {"w": w, "k": np.float16(1.001)})  # fmt: skip
    close, other = compare_models(before, nudged), compare_models(before, model(
        [N("MatMul", ["x", "w"], ["m"]), N("Mul", ["m", "k"], ["y"])], x, [("y", half, [4, 8])],
        {"w": w, "k": np.float16(1.1)}))  # fmt: skip
    assert close.equal and 0 < close.worst < 0.01
    assert not other.equal


# -- campaigns --------------------------------------------------------------------------------------------------------


def differs(expected: list[Any], m: ModelProto, feeds: dict[str, Any]) -> bool:
    try:
        found = run_session(session(m), feeds)
    except eq.EqsatError:  # what does not run differs
        return True
    close = [
        a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(expected, found, strict=True)
    ]
    return not all(close)


def campaign(seed: int, faults: int) -> None:
    random = Random(seed)
    before = random_model(random)
    shape = [d.dim_value for d in before.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}
    expected = run_session(session(before), feeds)
    after = eq.onnx.optimize(before, checked=False).model
    right = check_models(before, after, 10.0)
    if differs(expected, after, feeds):
        assert right.difference is not None
        return
    assert right.difference is None and right.count("neither") == 0, right.summary()
    for fault, wrong in models_with_a_fault(after, random, faults):
        if differs(expected, wrong, feeds):
            found = check_models(before, wrong, 10.0)
            assert found.difference is not None, f"model {seed}: {fault} is not found: {found.summary()}"


@pytest.mark.parametrize("seed", some_of(range(0, 40, 5), 2))
def test_every_fault_that_changes_a_value_is_found(seed: int) -> None:
    for k in range(seed, seed + 5):
        campaign(k, 4)


@pytest.mark.parametrize("seed", [1185, 1278, 1321])
def test_what_a_maximum_or_a_mean_hides_is_found(seed: int) -> None:
    """A Relu before the largest of some numbers is seen where all are negative; padding, where all are smaller."""
    campaign(seed, 6)


@pytest.mark.parametrize("seed", [1061, 1761])
def test_a_nan_that_a_maximum_loses_is_no_difference(seed: int) -> None:
    """onnxruntime loses a NaN in a maximum or keeps it by its place, which a layout changes; faults are found."""
    campaign(seed, 4)


def _attention(absolute: bool, cut: float = 1.0) -> ModelProto:
    """Values that are known not to be negative only from the input on, and products of many batches."""
    nodes = [N("Relu", ["x"], ["r"]), *([N("Abs", ["r"], ["a"])] if absolute else [N("Mul", ["r", "c"], ["a"])])]
    nodes += [N("MatMul", [f"m{k}" if k else "a", "a"], [f"m{k + 1}"]) for k in range(3)]
    nodes.append(N("ReduceMean", ["m3"], ["y"], axes=[0, 1, 2, 3], keepdims=0))
    return model(nodes, [("x", F, [1, 32, 64, 64])], [("y", F, [])], {"c": np.array(cut, np.float32)})


def test_the_whole_of_a_model_with_many_batches_is_run() -> None:
    """What a product takes is counted by what it multiplies; what differs in a region alone is tried on the inputs."""
    before = _attention(True)
    assert check_models(before, _attention(False), 1.0).difference is None
    wrong = check_models(before, _attention(False, 1.01), 1.0)
    assert wrong.difference is not None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 3000, 100))
def test_many_faults_are_found(seed: int) -> None:
    for k in range(seed, seed + 100):
        campaign(k, 6)


@pytest.mark.parametrize("shape", [(300_000_007, 3), (2**31, 4), (2**40, 2**30)])
def test_axes_of_any_extent_are_shrunk(shape: tuple[int, int]) -> None:
    nodes = [
        N("Transpose", ["x"], ["t"], perm=[1, 0]), N("Relu", ["t"], ["u"]), N("Transpose", ["u"], ["y"], perm=[1, 0])
    ]  # fmt: skip
    found = eq.onnx.optimize(model(nodes, [("x", F, shape)], [("y", F, shape)]), limits=eq.Limits(seconds=20))
    assert found.bytes_moved == 0 and found.checked.count("proved") == len(found.checked) == 1


def test_constants_made_of_others_are_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight is read as it is and, on one side, turned beforehand: no other numbers than its own say anything, and
    all from the inputs on would take too long."""
    monkeypatch.setattr("eqsat.checking.drive.GRACE", 0.0)
    rng = np.random.default_rng(0)
    w: Any = np.asarray(rng.uniform(0.5, 1, (8, 8)) / 8, "float32")  # in any order, products overflow alike
    wide = np.asarray(rng.normal(size=(1024, 1024)), "float32")
    ends: Any = [("x", F, [1024, 1024])], [("y", F, [1024, 8])]
    first = [
        N("MatMul", ["x", "wide"], ["a"]),
        N("MatMul", ["a", "wide"], ["b"]),
        N("Slice", ["b", "at", "to", "axis"], ["c"]),
    ]
    constants: dict[str, Any] = {"w": w, "wide": wide, "at": np.array([0]), "to": np.array([8]), "axis": np.array([1])}
    two = [N("MatMul", ["c", "w"], ["d"]), N("Transpose", ["w"], ["t"], perm=[1, 0]), N("MatMul", ["d", "t"], ["y"])]
    before = model([*first, *two], ends[0], ends[1], constants)
    for wrong in (False, True):
        turned = np.asarray(w.T + 0.1 * wrong, "float32")
        one = [N("MatMul", ["w", "t"], ["d"]), N("MatMul", ["c", "d"], ["y"])]
        after = model([*first, *one], ends[0], ends[1], {**constants, "t": turned})
        assert (check_models(before, after).difference is not None) == wrong


def _blocks(absolute: bool, factor: float = 1.0) -> ModelProto:
    """Many blocks, of each of which a region knows not that what it reads is not negative."""
    nodes, weights = [N("Relu", ["x"], ["y0"])], dict[str, Any]()
    for n in range(12):
        weights[f"w{n}"] = np.linspace(0.5, 1.5 * factor if n == 7 else 1.5, 64, dtype="float32")
        nodes.append(N("Mul", [f"y{n}", f"w{n}"], [f"m{n}"]))
        nodes += [N("Abs", [f"m{n}"], [f"a{n}"]), N("Sqrt", [f"a{n}"], [f"y{n + 1}"])] if absolute else [
            N("Sqrt", [f"m{n}"], [f"y{n + 1}"])
        ]  # fmt: skip
    return model(nodes, [("x", F, [4, 64])], [("y12", F, [4, 64])], weights)


@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_many_regions_that_differ_are_not_looked_at_one_by_one(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while all is run from the inputs on; with the same answer."""
    attempts: list[object] = []
    widened = Planner.widened

    def counted(planner: Planner, failed: Any) -> Any:
        attempts.append(failed)
        return widened(planner, failed)

    monkeypatch.setattr(Planner, "widened", counted)
    counts: list[int] = []
    for patience in (1e9, 0.0):
        monkeypatch.setattr(drive, "PATIENCE", patience)
        attempts.clear()
        found = check_models(_blocks(True), _blocks(False, factor))
        assert (found.difference is not None) == (factor != 1)
        assert factor != 1 or {region.verdict for region in found.regions} <= {"proved", "run"}
        counts.append(len(attempts))
    assert counts[1] < counts[0]


def test_a_runtime_that_warns_of_empty_axes_is_not_heard() -> None:
    """Where a NaN may lie anywhere numpy runs a model, and warns of means of nothing."""
    nodes = [N("TopK", ["x", "k"], ["t", "i"], axis=2), N("ReduceMean", ["t"], ["u"], axes=[0, 2], keepdims=0)]
    before, after = (
        model([*nodes, *last], [("x", F, ["n", 2, "h"])], [("y", F, [2])], {"k": np.array([6])})
        for last in ([N("Identity", ["u"], ["v"]), N("Neg", ["v"], ["y"])], [N("Neg", ["u"], ["y"])])
    )
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert check_models(before, after).regions
    assert not [w for w in heard if w.category is RuntimeWarning]


def test_a_runtime_that_ends_its_process_does_not_end_ours() -> None:
    """Where the batch is empty, onnxruntime divides by the extents of an Einsum over it."""
    ends = [("x", F, ["B", 3, 3]), ("w", F, ["B", 5, 3])], [("y", F, [None] * 3)]

    def side(equation: str, turned: bool) -> ModelProto:
        product = N("Einsum", ["v", "w"], ["y"], equation=equation)
        if not turned:
            return model([N("Relu", ["x"], ["v"]), product], *ends)
        turn, back = (N("Transpose", [a], [b], perm=[0, 2, 1]) for a, b in (("x", "t"), ("u", "v")))
        return model([turn, N("Relu", ["t"], ["u"]), back, product], *ends)

    before = side("bij,bkj->bik", True)
    assert check_models(before, side("bij,bkj->bik", False)).difference is None
    assert check_models(before, side("bji,bkj->bik", False)).difference is not None
    result = eq.onnx.optimize(before)
    assert result.cost_after < result.cost_before


def emptied(turned: bool, equation: str) -> ModelProto:
    """A product over a batch that is cut to no rows inside: none of the ends is empty."""
    steps = [N("Slice", ["x", "z", "z"], ["s"]), N("Slice", ["w", "z", "z"], ["ws"])]
    if turned:
        turn = [N("Transpose", ["x"], ["t"], perm=[0, 2, 1]), N("Slice", ["t", "z", "z"], ["s"])]
        steps = [*turn, N("Slice", ["w", "z", "z"], ["ws"])]
    steps += [N("Einsum", ["s", "ws"], ["p"], equation=equation), N("ReduceSum", ["p", "z"], ["y"], keepdims=0)]
    return model(steps, [("x", F, [4, 3, 3]), ("w", F, [4, 5, 3])], [("y", F, [3, 5])], {"z": np.array([0])})


def test_a_runtime_may_end_its_process_over_what_is_empty_inside(tmp_path: Path, capsys: Any) -> None:
    """Each run is in a process of its own where a value has no cells: in the check, in --verify, and in --confirm."""
    before, after = emptied(True, "bji,bkj->bik"), emptied(False, "bij,bkj->bik")
    found = check_models(before, after)
    assert found.difference is None and {r.verdict for r in found.regions} <= {"proved", "neither"}
    result = eq.onnx.optimize(before, confirm=True)
    assert "cannot be measured" in result.refused and "ends the process" in result.refused
    with pytest.raises(eq.EqsatError, match="ends the process"):
        compare_models(before, after)
    one, two = tmp_path / "one.onnx", tmp_path / "two.onnx"
    onnx.save(before, str(one))
    onnx.save(after, str(two))
    assert main(["optimize", str(one), "--verify"]) == 2 and "ends the process" in capsys.readouterr().err
    assert main(["verify", str(one), str(two)]) == 0 and "not run: onnxruntime: ends" in capsys.readouterr().out


def test_what_is_empty_inside_is_compared() -> None:
    """What survives in a process of its own is compared as all else is: of a sum of no rows, one side is 1 more."""
    ends = [("x", F, [4, 3])], [("y", F, [3])]
    z = {"z": np.array([0]), "one": np.array(1, "float32")}
    cut = [N("Slice", ["x", "z", "z"], ["s"]), N("Exp", ["s"], ["e"]), N("ReduceSum", ["e", "z"], ["r"], keepdims=0)]
    before = model([*cut, N("Identity", ["r"], ["y"])], *ends, z)
    for op, wrong in (("Sub", False), ("Add", True)):
        after = model(
            [*cut[:2], N("ReduceProd", ["e"], ["p"], axes=[0], keepdims=0), N(op, ["p", "one"], ["y"])], *ends, z
        )
        found = check_models(before, after)
        assert (found.difference is not None) == wrong and found.count("neither") == 0


def test_an_output_that_is_an_input_is_checked() -> None:
    """Its type is that of the input, though outputs are inferred anew."""
    ends = [("x", F, [3, 4])], [("y", F, [3, 4]), ("x", F, [3, 4])]
    turn, back = (N("Transpose", [a], [b], perm=[1, 0]) for a, b in (("x", "t"), ("t", "y")))
    found = check_models(model([turn, back], *ends), model([N("Identity", ["x"], ["y"])], *ends))
    assert found.count("proved") == len(found.regions) == 1
    assert check_models(model([turn, back], *ends), model([N("Neg", ["x"], ["y"])], *ends)).difference is not None


def test_a_constant_of_one_number_may_have_no_axes() -> None:
    """ConstantOfShape of no extents, on one side only: it is no array of one number."""
    ends: tuple[Any, Any] = [("x", F, [2])], [("y", F, []), ("z", F, [2])]
    filled = [N("ConstantOfShape", ["none"], ["v"]), N("Mean", ["v"], ["y"]), N("Neg", ["x"], ["z"])]
    before = model(filled, *ends, {"none": np.zeros(0, "int64")})
    after = model([N("Identity", ["c"], ["y"]), N("Neg", ["x"], ["z"])], *ends, {"c": np.array(0, "float32")})
    assert check_models(before, after).difference is None
    wrong = model([N("Identity", ["c"], ["y"]), N("Neg", ["x"], ["z"])], *ends, {"c": np.array(1, "float32")})
    assert check_models(before, wrong).difference is not None
