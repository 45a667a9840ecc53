"""Axes of images change places through operators over windows, whose parameters and weights follow them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from random import Random
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from seeds import each_value

import eqsat.onnx
from eqsat.ir.errors import EqsatError
from eqsat.models.package import run_session, session
from eqsat.onnx.check import compare_models, random_inputs

pytestmark = pytest.mark.onnx

SEEDS = int(os.environ.get("EQSAT_TURNED", "10"))
START = int(os.environ.get("EQSAT_TURNED_SEED", "0"))
Weights = list[TensorProto]


def weight(name: str, *shape: int, seed: int = 0) -> TensorProto:
    values = np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(values, name)


def model(nodes: Sequence[NodeProto], shape: Sequence[int | str], weights: Weights, opset: int = 19) -> ModelProto:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None))]
    graph = helper.make_graph(list(nodes), "turned", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def between(op: str, attrs: dict[str, Any], perm: Sequence[int], back: Sequence[int], more: Sequence[str] = ()) -> Any:
    return [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Transpose", ["a"], ["t"], perm=perm),
        helper.make_node(op, ["t", *more], ["p"], **attrs),
        helper.make_node("Transpose", ["p"], ["q"], perm=back),
        helper.make_node("Abs", ["q"], ["y"]),
    ]


SPAN = {"strides": [2, 1], "pads": [0, 1, 1, 2], "dilations": [1, 2]}
SWAP, TURN = (0, 1, 3, 2), (0, 1, 3, 4, 2)
CASES: dict[str, tuple[str, dict[str, Any], tuple[int, ...], Weights]] = {
    "max pool": ("MaxPool", {"kernel_shape": [2, 3], **SPAN}, (2, 16, 9, 12), []),
    "max pool, whole windows": ("MaxPool", {"kernel_shape": [2, 4], "strides": [2, 4]}, (2, 16, 8, 12), []),
    "mean": ("AveragePool", {"kernel_shape": [2, 3], **SPAN, "count_include_pad": 1}, (2, 16, 9, 12), []),
    "mean, rounded up": ("AveragePool", {"kernel_shape": [2, 3], **SPAN, "ceil_mode": 1}, (2, 16, 9, 12), []),
    "mean, padded by itself": ("AveragePool", {"kernel_shape": [2, 3], "auto_pad": "SAME_LOWER"}, (2, 16, 9, 12), []),
    "norm": ("LpPool", {"kernel_shape": [2, 3], **SPAN, "p": 2}, (2, 16, 9, 12), []),
    "convolution": ("Conv", SPAN, (2, 16, 9, 12), [weight("w", 32, 16, 2, 3), weight("b", 32)]),
    "in groups": ("Conv", {**SPAN, "group": 4}, (2, 16, 9, 12), [weight("w", 32, 4, 2, 3)]),
    "by channel": ("Conv", {**SPAN, "group": 16}, (2, 16, 9, 12), [weight("w", 16, 1, 2, 3)]),
    "padded by itself": (
        "Conv",
        {"auto_pad": "SAME_UPPER", "strides": [2, 3]},
        (2, 16, 9, 12),
        [weight("w", 32, 16, 2, 3)],
    ),
    "transposed": ("ConvTranspose", {**SPAN, "output_padding": [1, 0]}, (2, 16, 9, 12), [weight("w", 16, 32, 2, 3)]),
}


FACTORS = numpy_helper.from_array(np.array([2, 3], np.float32), "factors")


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_rows_and_columns_change_places_through_a_resize(mode: str) -> None:
    nodes = between("Resize", {"mode": mode, "axes": [2, 3]}, SWAP, SWAP, ["", "factors"])
    given = model(nodes, (2, 16, 9, 12), [FACTORS])
    found = eqsat.onnx.optimize(given)
    assert not [n for n in found.model.graph.node if n.op_type == "Transpose"], found.notes
    assert compare_models(given, found.model).equal


@pytest.mark.parametrize("name", CASES)
def test_rows_and_columns_change_places_through(name: str) -> None:
    op, attrs, shape, weights = CASES[name]
    given = model(between(op, attrs, SWAP, SWAP, [w.name for w in weights]), shape, weights)
    found = eqsat.onnx.optimize(given)
    assert not [n for n in found.model.graph.node if n.op_type == "Transpose"], found.notes
    assert compare_models(given, found.model).equal


def test_three_axes_change_places() -> None:
    attrs = {"kernel_shape": [2, 3, 1], "strides": [2, 1, 3], "pads": [0, 1, 0, 1, 2, 0]}
    given = model(between("MaxPool", attrs, TURN, (0, 1, 4, 2, 3)), (2, 16, 6, 7, 8), [])
    found = eqsat.onnx.optimize(given)
    (pool,) = (n for n in found.model.graph.node if n.op_type == "MaxPool")
    made = {a.name: list(a.ints) for a in pool.attribute if a.ints}
    assert not [n for n in found.model.graph.node if n.op_type == "Transpose"]
    assert made["kernel_shape"] == [1, 2, 3] and made["pads"] == [0, 0, 1, 0, 1, 2]
    assert compare_models(given, found.model).equal


def test_places_in_images_are_numbers_of_their_own() -> None:
    """The second result of a maximum is where it was, counted in the image: it says in which order its axes lie."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=SWAP),
        helper.make_node("MaxPool", ["t"], ["p", "places"], kernel_shape=[2, 3]),
        helper.make_node("Cast", ["places"], ["q"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["p", "q"], ["s"]),
        helper.make_node("Transpose", ["s"], ["y"], perm=SWAP),
    ]
    given = model(nodes, (2, 16, 9, 12), [])
    assert compare_models(given, eqsat.onnx.optimize(given).model).equal


# -- random ones ------------------------------------------------------------------------------------------------------


def numbers(r: Random, count: int, low: int, high: int) -> list[int]:
    return [r.randint(low, high) for _ in range(count)]


def window(r: Random, count: int, kernel: Sequence[int]) -> dict[str, Any]:
    attrs: dict[str, Any] = {}
    if r.random() < 0.7:
        attrs["strides"] = list(kernel) if r.random() < 0.3 else numbers(r, count, 1, 3)
    if r.random() < 0.3:
        attrs["dilations"] = numbers(r, count, 1, 2)
    if r.random() < 0.6:
        attrs["pads"] = [r.randint(0, k - 1) for k in (*kernel, *kernel)]
    elif r.random() < 0.4:
        attrs["auto_pad"] = r.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return attrs


def operator(r: Random, channels: int, count: int, name: str, open_: bool) -> tuple[str, dict[str, Any], Weights, int]:
    """An operator over images of so many channels, and how many it makes; where an extent is open, with windows that
    have room in one position."""
    kernel = numbers(r, count, 1, 3)
    attrs: dict[str, Any] = {"pads": [k // 2 for k in kernel] * 2} if open_ else window(r, count, kernel)
    op = r.choice(["MaxPool", "AveragePool", "LpPool", "Conv", "Conv", "Conv", "ConvTranspose"])
    if op in ("Conv", "ConvTranspose"):
        group = r.choice([1, 1, 2, channels])
        made = group * r.randint(1, 3)
        shape = (made, channels // group) if op == "Conv" else (channels, made // group)
        weights = [weight(f"w{name}", *shape, *kernel, seed=r.randrange(99))]
        weights += [weight(f"b{name}", made)] if r.random() < 0.5 else []
        if op == "ConvTranspose" and open_:
            attrs = {"strides": numbers(r, count, 1, 3)}
        if op == "ConvTranspose" and "auto_pad" not in attrs and r.random() < 0.5:
            room = zip(attrs.get("strides", [1] * count), attrs.get("dilations", [1] * count), strict=True)
            attrs["output_padding"] = [r.randint(0, max(s, d) - 1) for s, d in room]
        return op, {**attrs, "group": group}, weights, made
    attrs["kernel_shape"] = kernel
    if op == "LpPool":
        attrs["p"] = r.randint(1, 3)
    if r.random() < 0.4 and not open_:
        attrs["ceil_mode"] = 1
    if op == "AveragePool":
        attrs["count_include_pad"] = r.randint(0, 1)
    return op, attrs, [], channels


def permutation(r: Random, rank: int) -> list[int]:
    """Mostly one of the axes of images alone."""
    inside = list(range(2, rank))
    r.shuffle(inside)
    order = [0, 1, *inside]
    if r.random() < 0.2:
        r.shuffle(order)
    return order


def chain(seed: int) -> ModelProto:
    """Operators over images between views of these."""
    r = Random(seed)
    count = r.choice([2, 2, 2, 3])
    extents = numbers(r, count, 4, 9)
    shape: list[int | str] = [r.choice([1, 2, "N"]), 4, *extents]
    if r.random() < 0.2:
        shape[2] = "H"
    if r.random() < 0.1:
        shape[3] = 1
    nodes, weights, here, channels = [helper.make_node("Abs", ["x"], ["v0"])], Weights(), "v0", 4

    def add(op: str, attrs: dict[str, Any], more: Sequence[str] = ()) -> None:
        nonlocal here
        nodes.append(helper.make_node(op, [here, *more], [f"v{len(nodes)}"], **attrs))
        here = nodes[-1].output[0]

    for n in range(r.randint(1, 3)):
        order = permutation(r, count + 2)
        images = [*order[:2]] == [0, 1]
        add("Transpose", {"perm": order})
        if not images:
            add("Sigmoid", {})
            add("Transpose", {"perm": [order.index(k) for k in range(count + 2)]})
        op, attrs, own, channels = operator(r, channels, count, str(n), "H" in shape)
        weights += own
        add(op, attrs, [w.name for w in own])
        if images and r.random() < 0.8:
            add("Transpose", {"perm": [order.index(k) for k in range(count + 2)]})
        if channels > 1 and r.random() < 0.25:
            low = r.randint(0, channels - 2)
            high = r.randint(low + 1, channels)
            ends = [
                numpy_helper.from_array(np.array([v], np.int64), f"{k}{n}")
                for k, v in zip("abc", (low, high, 1), strict=True)
            ]
            weights += ends
            add("Slice", {}, [e.name for e in ends])
            channels = high - low
        if r.random() < 0.3:
            add(r.choice(["Relu", "Sigmoid", "Neg"]), {})
    add("Abs", {})
    nodes[-1].output[0] = "y"
    return model(nodes, shape, weights)


def runs(given: ModelProto) -> bool:
    """Whether onnxruntime has the model: some windows are refused."""
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        live = ort.InferenceSession(given.SerializeToString(), options, providers=["CPUExecutionProvider"])
        live.run(None, random_inputs(given, 0))
    except Exception:
        return False
    return True


def turns(given: ModelProto) -> Counter[str]:
    return Counter(n.op_type for n in given.graph.node)


def test_random_chains_are_the_same_models() -> None:
    moved = valid = 0
    for seed in range(START, START + SEEDS):
        given = chain(seed)
        if not runs(given):
            continue
        valid += 1
        found = eqsat.onnx.optimize(given)
        assert not any("defect" in note for note in found.notes), (seed, found.notes)
        assert compare_models(given, found.model, seeds=(seed, seed + 1)).equal, seed
        moved += turns(found.model)["Transpose"] < turns(given)["Transpose"]
    assert valid >= SEEDS * 0.5 and moved >= valid * 0.4


@each_value(
    perm=[(0, 3, 1, 2), (0, 3, 2, 1), (2, 1, 0, 3), (0, 2, 1, 3)],
    sizes=[(1, 3, 4, 5), (1, 3, 4, 10), (1, 6, 4, 5)],
    mode=["nearest", "linear", "cubic"],
)
def test_sizes_of_a_resize_are_in_the_order_of_its_axes(
    perm: tuple[int, ...], sizes: tuple[int, ...], mode: str
) -> None:
    """Axes that keep their extent are named there, too: they change places only with what is said of them."""
    back = [perm.index(n) for n in range(4)]
    inside, outside = ([shape[n] for n in back] for shape in ((1, 3, 4, 5), sizes))
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=perm),
        helper.make_node("Resize", ["t", "", "", "sizes"], ["r"], mode=mode),
        helper.make_node("Transpose", ["r"], ["y"], perm=back),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", inside), ("y", outside))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(np.array(sizes), "sizes")])
    original = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"x": np.random.default_rng(0).standard_normal(inside).astype("float32")}
    try:
        [wanted] = run_session(session(original), feeds)
    except EqsatError:
        pytest.skip("onnxruntime has no such Resize")
    [found] = run_session(session(eqsat.onnx.optimize(original).model), feeds)
    assert found.shape == wanted.shape and np.allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("op, factors", [("BatchNormalization", 4), ("InstanceNormalization", 2)])
def test_one_channel_stays_the_channel(op: str, factors: int) -> None:
    """Along an axis of extent 1 any other one could be the channels, but runtimes want a factor for each of them."""
    names = [f"c{k}" for k in range(factors)]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Exp", ["t"], ["y"]),
        helper.make_node(op, ["x", *names], ["b"]),
        helper.make_node("Transpose", ["b"], ["z"], perm=[0, 3, 1, 2]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 2, 4])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4, 1, 2]) for name in "yz"]
    constants = [numpy_helper.from_array(np.array([0.5 + k], np.float32), name) for k, name in enumerate(names)]
    graph = helper.make_graph(nodes, "g", [x], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    assert compare_models(model, eqsat.onnx.optimize(model, checked=False).model).equal
