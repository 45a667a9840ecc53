"""Random networks of convolutions, pools and paddings whose batch, height and width are unknown, beside onnxruntime."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from seeds import some_of

pytest.importorskip("onnx")
ort: Any = pytest.importorskip("onnxruntime")

from onnx import ModelProto, helper, numpy_helper  # noqa: E402

from eqsat import onnx as front  # noqa: E402
from eqsat.ir.terms import term as t  # noqa: E402
from eqsat.onnx.ops.nodes import _better as better  # noqa: E402 # pyright: ignore[reportPrivateUsage]

SIZES = ({"n": 1, "h": 5, "w": 8}, {"n": 3, "h": 2, "w": 3}, {"n": 2, "h": 9, "w": 9}, {"n": 1, "h": 1, "w": 1})


class Network:
    """Nodes one after another, over NCHW, perhaps behind a transpose of a padded NHWC input."""

    def __init__(self, seed: int) -> None:
        self.random, self.numbers = Random(seed), np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        pick = self.random.choice
        self.channels = channels = pick([1, 3, 4])
        self.last = "x"
        batch, height, width = pick(["n", 2]), pick(["h", "h", 7]), pick(["w", "w", "h", 6])
        if self.random.random() < 0.4:
            self.shape: list[int | str] = [batch, height, width, channels]
            self.pad([0, pick([0, 1]), pick([0, 2]), 0, 0, pick([0, 1]), pick([0, 1]), 0])
            self.node("Transpose", perm=[0, 3, 1, 2])
        else:
            self.shape = [batch, channels, height, width]
        for _ in range(self.random.randint(1, 5)):
            pick([self.conv, self.conv, self.more_channels, self.border, self.function, self.pool, self.part])()

    def node(self, op: str, *operands: Any, **attrs: Any) -> None:
        names = [f"c{len(self.constants) + n}" for n in range(len(operands))]
        self.constants += [numpy_helper.from_array(x, name) for x, name in zip(operands, names, strict=True)]
        made = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.last, *names], [made], **attrs))
        self.last = made

    def pad(self, cells: list[int]) -> None:
        self.node("Pad", np.array(cells))

    def conv(self) -> None:
        pick, taps, count = self.random.choice, self.random.choice([1, 2, 3]), self.random.choice([2, 4])
        weights = self.numbers.normal(size=(count, self.channels, taps, taps)).astype(np.float32)
        pads, strides = pick([[0] * 4, [taps // 2] * 4, [1, 0, 0, 1]]), pick([[1, 1], [1, 1], [2, 2], [2, 1]])
        self.node("Conv", weights, pads=pads, strides=strides, dilations=pick([[1, 1], [1, 1], [2, 1]]))
        self.channels = count

    def more_channels(self) -> None:
        count = self.random.randint(1, 3)
        self.pad([0, 0, 0, 0, 0, count, 0, 0])
        self.channels += count

    def border(self) -> None:
        n = self.random.randint(1, 2)
        self.pad([0, 0, n, n, 0, 0, n, n])

    def part(self) -> None:
        """Rows and columns from some on, up to some, or backwards."""
        pick = self.random.choice
        if pick([0, 1, 1]):
            cuts = [(pick([0, 1, -4]), pick([-1, 6, 2**63 - 1]), pick([1, 1, 2])) for _ in range(2)]
        else:
            cuts = [(-1, -(2**63), -1)] * 2
        starts, ends, steps = zip(*cuts, strict=True)
        self.node("Slice", np.array(starts), np.array(ends), np.array([2, 3]), np.array(steps))

    def function(self) -> None:
        self.node(self.random.choice(["Relu", "Sigmoid"]))

    def pool(self) -> None:
        pick = self.random.choice
        attrs = {"strides": pick([[1, 1], [2, 2]]), "pads": pick([[0] * 4, [1] * 4]), "ceil_mode": pick([0, 0, 1])}
        self.node(pick(["MaxPool", "AveragePool"]), kernel_shape=[2, 2], **attrs)

    @property
    def model(self) -> ModelProto:
        ends = [helper.make_tensor_value_info("x", 1, self.shape)], [helper.make_tensor_value_info(self.last, 1, None)]
        graph = helper.make_graph(self.nodes, "g", *ends, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(model: ModelProto, x: np.ndarray[Any, Any]) -> Any:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})[0]


Step = tuple[str, list[Any], dict[str, Any]]


def listed(shape: list[int | str], *steps: Step) -> Network:
    """A network of given nodes."""
    made = Network(0)
    made.shape, made.nodes, made.constants, made.last = shape, [], [], "x"
    for op, operands, attrs in steps:
        made.node(op, *operands, **attrs)
    return made


def weights(count: int, channels: int, taps: int) -> list[Any]:
    return [np.random.default_rng(taps).normal(size=(count, channels, taps, taps)).astype(np.float32)]


def cells(channels: int, around: int) -> list[Any]:
    return [np.array([0, 0, around, around, 0, channels, around, around])]


HALVED: Step = ("MaxPool", [], {"kernel_shape": [2, 2], "strides": [2, 2]})
FOUND = {
    "windows that do not fit": listed(
        ["n", 4, 7, "w"],
        HALVED,
        ("MaxPool", [], {**HALVED[2], "ceil_mode": 1}),
        ("MaxPool", [], {**HALVED[2], "ceil_mode": 1}),
        ("Conv", weights(2, 4, 3), {"pads": [1, 0, 0, 1], "dilations": [2, 1]}),
    ),
    "sums of sizes as positions": listed(
        [2, "h", "w", 4],
        ("Transpose", [], {"perm": [0, 3, 1, 2]}),
        ("AveragePool", [], {"kernel_shape": [2, 2], "pads": [1] * 4}),
        ("Pad", cells(2, 0), {}),
        ("Relu", [], {}),
        ("Conv", weights(4, 6, 1), {}),
    ),
    "rows from the end on": listed(
        [2, 1, "h", "w"],
        ("Pad", [np.array([0, 0, 2, 2, 0, 0, 2, 2])], {}),
        ("Slice", [np.array(x) for x in ([-4, 0], [-1, 2**63 - 1], [2, 3])], {}),
        ("Conv", weights(2, 1, 2), {"pads": [1, 0, 0, 1], "dilations": [2, 1]}),
        ("Conv", weights(2, 2, 2), {"pads": [1] * 4}),
    ),
    "extents that get smaller": listed(
        ["n", 3, "h", "w"],
        ("Conv", weights(8, 3, 3), {}),
        ("Pad", cells(8, 0), {}),
        ("Relu", [], {}),
        ("Conv", weights(4, 16, 3), {"pads": [1] * 4}),
        ("Pad", cells(0, 1), {}),
        ("Conv", weights(4, 4, 3), {}),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_networks_that_were_given_back(name: str) -> None:
    assert wrong_with(FOUND[name]) == []


def test_what_a_formula_says_of_an_open_extent() -> None:
    """Plain extents are taken; of one that may be negative, or that divides, at most that it is 1 or more."""
    n, unknown = t.sym("h"), t.sym("u", lower=0)
    for plain in (7, n, 2 * n + 3):
        assert better(unknown, plain) is plain
    for smaller in (-2, n - 2, n // 2):
        assert better(unknown, smaller) is unknown
    found = better(unknown, (n - 1) // 2 + 1)
    assert isinstance(found, t.Term) and (found.payload.name, found.payload.lower) == ("u", 1)
    assert better(unknown, (n + 5) // 2) is found, "equal extents stay equal"


def differences(seed: int) -> list[str]:
    return wrong_with(Network(seed))


def wrong_with(drawn: Network) -> list[str]:
    """What is wrong with the optimised network: a defect, another shape, other numbers."""
    before = drawn.model
    found = front.optimize(before, checked=False)
    wrong = ["a defect"] if "a defect" in found.summary() else list[str]()
    for sizes in SIZES:
        shape = [d if isinstance(d, int) else sizes[d] for d in drawn.shape]
        x = drawn.numbers.normal(size=shape).astype(np.float32)
        try:
            wanted = run(before, x)
        except Exception:  # windows do not fit
            continue
        got = run(found.model, x)
        if got.shape != wanted.shape or not np.allclose(got, wanted, 1e-4, 1e-5, equal_nan=True):
            wrong.append(f"{sizes}: {got.shape}, {wanted.shape}")
    return wrong


# feature: I11
@pytest.mark.parametrize("seed", some_of(range(16), 4))
def test_networks_of_unknown_sizes_compute_the_same(seed: int) -> None:
    assert differences(seed) == []


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_networks_of_unknown_sizes_compute_the_same() -> None:
    assert {seed: wrong for seed in range(1000, 2500) if (wrong := differences(seed))} == {}
