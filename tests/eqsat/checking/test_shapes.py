"""A stream that is written in another shape from end to end is compared piece by piece, its faults found."""

# feature: I11
from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from random import Random

import numpy as np
import pytest
from seeds import some_of

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, TensorProto, helper, numpy_helper  # noqa: E402

from eqsat.checking import models  # noqa: E402
from eqsat.checking.model_graph import Unit  # noqa: E402
from eqsat.checking.model_names import Names  # noqa: E402
from eqsat.checking.models import check_and_names, check_models  # noqa: E402
from eqsat.checking.verdict import Checked, Difference, RegionCheck, Verdict  # noqa: E402
from eqsat.models.package import run_session, session  # noqa: E402

pytestmark = pytest.mark.onnx
F, N = TensorProto.FLOAT, helper.make_node


def stream(
    shape: tuple[int, ...], inner: tuple[int, ...], kinds: Sequence[str], faults: Container[int] = (), late: int = 0
) -> ModelProto:
    """Residual layers over a stream of some shape, computed as one of an inner shape from some layer on; some of the
    layers may be wrong."""
    random, width = np.random.default_rng(0), inner[-1]
    square = random.standard_normal((width, width)).astype(np.float32) / width
    weights = {
        "w": square, "turned": square.T.copy(), "other": random.standard_normal(width).astype(np.float32),
        "row": random.standard_normal(width).astype(np.float32), "one": np.ones(width, np.float32),
        "zero": np.zeros(width, np.float32), "inner": np.array(inner), "shape": np.array(shape),
        "flat": np.array([-1, width]),
    }  # fmt: skip
    nodes = [N("Relu", ["x"], ["s0"])]
    for k, kind in enumerate(kinds):
        wrong, s, n, m = k in faults, f"s{k}", f"n{k}", f"m{k}"
        if k == late:
            nodes.append(N("Reshape", [s, "inner"], ["in"]))
            s = "in"
        if kind == "product":
            nodes += [
                N("LayerNormalization", [s, "one", "zero"], [n], axis=-1),
                N("MatMul", [n, "turned" if wrong else "w"], [m]),
            ]  # fmt: skip
        elif kind == "row":
            nodes += [N("Add", [s, "other" if wrong else "row"], [n]), N("Tanh", [n], [m])]
        elif kind == "softmax":
            nodes += [N("Mul", [s, "other" if wrong else "row"], [n]), N("Softmax", [n], [m], axis=-1)]
        else:
            nodes += [
                N("Reshape", [s, "flat"], [f"f{k}"]), N("Softmax", [f"f{k}"], [n], axis=0 if wrong else 1),
                N("Reshape", [n, "inner" if k >= late else "shape"], [m]),
            ]  # fmt: skip
        nodes.append(N("Add", [m, s], [f"s{k + 1}"]))
    nodes.append(N("Reshape", [f"s{len(kinds)}", "shape"], ["y"]))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", F, list(shape))],
        [helper.make_tensor_value_info("y", F, list(shape))],
        [numpy_helper.from_array(v, name) for name, v in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def cut_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare models in pieces that were cut, without trying the whole."""
    compared = models._compared  # pyright: ignore[reportPrivateUsage]

    def best(left: Unit, right: Unit, cut: Callable[[], Unit | None], seconds: float) -> tuple[Checked, Names]:
        return compared(left, cut() or right, seconds)

    monkeypatch.setattr(models, "_best", best)


def test_a_long_stream_in_another_shape_is_compared_in_pieces() -> None:
    """Too much at once, and each layer looks like all others."""
    kinds = ["product", "product", "flat"] * 8
    before, after = (stream((1, 64, 512), inner, kinds) for inner in ((1, 64, 512), (64, 512)))
    checked, names = check_and_names(before, after, 0.2)
    assert checked.difference is None and not checked.count("neither") and len(checked.regions) > 20
    assert all("made" not in name and "reshaped" not in name for name in (*names.values, *names.values.values()))
    assert len(names.nodes) >= 2 * len(kinds)  # all operators are known again
    assert all(0 <= k < len(after.graph.node) and 0 <= b < len(before.graph.node) for k, b in names.nodes.items())


@pytest.mark.parametrize("fault", [0, 12, 23])
def test_a_fault_in_a_long_stream_is_found(fault: int) -> None:
    """From there on all values differ."""
    kinds = ["product"] * 24
    before = stream((1, 64, 128), (1, 64, 128), kinds)
    assert check_models(before, stream((1, 64, 128), (64, 128), kinds, {fault}), 0.2).difference is not None


def test_what_is_as_it_was_is_not_taken_for_another() -> None:
    """The first layers are the same ones, and look like all others."""
    kinds = ["product"] * 24
    before, after = stream((1, 64, 512), (1, 64, 512), kinds), stream((1, 64, 512), (64, 512), kinds, late=10)
    checked = check_models(before, after, 0.2)
    assert checked.difference is None and not checked.count("neither") and checked.seconds < 20


@pytest.mark.parametrize("sure", [True, False])
def test_a_difference_in_pieces_counts_where_the_whole_shows_it(sure: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What differs in a piece alone may be two values that only look alike."""
    model = stream((1, 6, 8), (6, 8), ["row"])

    def answer(verdict: Verdict, difference: Difference | None = None) -> tuple[Checked, Names]:
        return Checked((RegionCheck(verdict, "", 0.0, (), ()),), 0.0, difference), Names()

    answers = [answer("neither"), answer("run" if sure else "neither", Difference("y", "other"))]

    def compared(*_: object) -> tuple[Checked, Names]:
        return answers.pop(0)

    monkeypatch.setattr(models, "_compared", compared)
    checked = check_models(stream((1, 6, 8), (1, 6, 8), ["row"]), model, 1.0)
    assert (checked.difference is not None) == sure and not answers and (sure or checked.count("neither") == 1)


@pytest.mark.parametrize("seed", some_of(range(12), 6))
def test_streams_of_many_shapes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time to run regions as they are: right ones pass, and what onnxruntime tells apart is told apart."""
    cut_at_once(monkeypatch)
    random = Random(seed)
    shapes = [(1, 6, 8), (6, 8), (2, 3, 8), (6, 1, 8), (1, 1, 6, 8), (3, 2, 1, 8)]
    kinds = [random.choice(["product", "row", "softmax", "flat"]) for _ in range(random.randrange(1, 8))]
    shape, other = random.sample(shapes, 2)
    before = stream(shape, shape, kinds)
    assert check_models(before, stream(shape, other, kinds), 5.0).difference is None
    wrong = stream(shape, other, kinds, {random.randrange(len(kinds))})
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    expected, got = (run_session(session(m), {"x": x})[0] for m in (before, wrong))
    checked = check_models(before, wrong, 5.0)
    assert (checked.difference is not None) == (not np.allclose(expected, got, 1e-3, 1e-4)), checked.summary()


def test_values_that_only_look_alike_are_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A square that is moved as a whole: in other shapes its values look like those of the original, and are not."""
    cut_at_once(monkeypatch)

    def square(moved: bool) -> ModelProto:
        first = [N("Transpose", ["x"], ["t"], perm=[1, 0]), N("Reshape", ["t", "flat"], ["a"])]
        last = [N("Reshape", ["c", "square"], ["d"]), N("Transpose", ["d"], ["y"], perm=[1, 0])]
        ends = (first, last) if moved else ([N("Identity", ["x"], ["a"])], [N("Identity", ["c"], ["y"])])
        graph = helper.make_graph(
            [*ends[0], N("Tanh", ["a"], ["b"]), N("Exp", ["b"], ["c"]), *ends[1]], "g",
            [helper.make_tensor_value_info("x", F, [8, 8])], [helper.make_tensor_value_info("y", F, [8, 8])],
            [numpy_helper.from_array(np.array([64]), "flat"), numpy_helper.from_array(np.array([8, 8]), "square")],
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    checked = check_models(square(False), square(True), 5.0)
    assert checked.difference is None and not checked.count("neither")


def test_names_that_the_model_has_are_not_given_again() -> None:
    """What is put in around a value has a name of its own."""
    kinds = ["product"] * 24
    before, after = (stream((1, 64, 512), inner, kinds) for inner in ((1, 64, 512), (64, 512)))
    for node in after.graph.node:
        node.output[:] = [{"s3": "s4 made", "m5": "s5 reshaped"}.get(o, o) for o in node.output]
        node.input[:] = [{"s3": "s4 made", "m5": "s5 reshaped"}.get(o, o) for o in node.input]
    checked = check_models(before, after, 0.2)
    assert checked.difference is None and not checked.count("neither")
