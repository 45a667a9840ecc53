"""Values between operators are written in the fewest dimensions where that is cheaper, and mean the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import eqsat as eq
import eqsat.onnx
from eqsat.extraction.flattened import Flattened, is_loose
from eqsat.graph.nodes import ClassId
from eqsat.ir.tensors.reductions import matmul
from eqsat.ir.tensors.tensor import Opaque, View
from eqsat.ir.terms.shape import Shape
from eqsat.onnx.check import compare_models
from eqsat.pricing.programs import program_price
from eqsat.pricing.table import shipped

pytestmark = pytest.mark.onnx
TABLE = shipped()
BLOCKS = 3
WIDE = 32


def random(name: str, *shape: int) -> TensorProto:
    values = np.random.default_rng(sum(name.encode())).standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(values, name)


def stream(
    shape: Sequence[int | str], first: Sequence[NodeProto] = (), x: str = "x", split: bool = False
) -> ModelProto:
    """Blocks that add to what goes on, and normalise the sum; after `split`, heads are made of some axes."""
    nodes, weights = list(first), [random("bias", WIDE), random("row", 1, 8, WIDE)]
    here = x
    for n in range(BLOCKS):
        weights += [random(f"w{n}", WIDE, WIDE), random(f"s{n}", WIDE), random(f"b{n}", WIDE)]
        inner = f"sum{n}"
        nodes += [
            helper.make_node("MatMul", [here, f"w{n}"], [f"product{n}"]),
            helper.make_node("Add", [f"product{n}", "bias"], [inner]),
        ]
        if split:
            heads = numpy_helper.from_array(np.array([0, 8, 4, WIDE // 4], np.int64), "heads")
            whole = numpy_helper.from_array(np.array([0, 8, WIDE], np.int64), "whole")
            weights += [] if n else [heads, whole]
            nodes += [
                helper.make_node("Reshape", [inner, "heads"], [f"r{n}"]),
                helper.make_node("Transpose", [f"r{n}"], [f"t{n}"], perm=[0, 2, 1, 3]),
                helper.make_node("Softmax", [f"t{n}"], [f"soft{n}"], axis=-1),
                helper.make_node("Transpose", [f"soft{n}"], [f"u{n}"], perm=[0, 2, 1, 3]),
                helper.make_node("Reshape", [f"u{n}", "whole"], [f"own{n}"]),
            ]
            inner = f"own{n}"
        out = "y" if n == BLOCKS - 1 else f"out{n}"
        nodes += [
            helper.make_node("Add", [here, inner], [f"both{n}"]),
            helper.make_node("LayerNormalization", [f"both{n}", f"s{n}", f"b{n}"], [out]),
        ]
        here = out
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "stream", [given], [made], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


ONE = numpy_helper.from_array(np.ones(1, np.float32), "v")
AXIS = numpy_helper.from_array(np.array(-1, np.int64), "axis")
PLACES = [helper.make_node("Add", ["x", "row"], ["here"])]
STREAMS = {
    "numbers": stream((4, 8, WIDE)),
    "a batch of one": stream((1, 8, WIDE)),
    "heads": stream((4, 8, WIDE), split=True),
    "an unknown batch": stream(("N", 8, WIDE)),
    "a sum that tells rows apart": stream(("N", 8, WIDE), PLACES, "here"),
    "the same with heads": stream((4, 8, WIDE), PLACES, "here", split=True),
}


def ranks(model: ModelProto, op: str) -> Counter[int]:
    """Of how many dimensions the results of an operator are."""
    inferred = onnx.shape_inference.infer_shapes(model)
    shapes = {v.name: v.type.tensor_type.shape.dim for v in (*inferred.graph.value_info, *inferred.graph.output)}
    return Counter(len(shapes[n.output[0]]) for n in model.graph.node if n.op_type == op)


@pytest.mark.parametrize("name", STREAMS)
def test_sums_and_normalisations_are_of_two_dimensions(name: str) -> None:
    model = STREAMS[name]
    found = eqsat.onnx.optimize(model)
    assert ranks(model, "LayerNormalization") == {3: BLOCKS}
    assert ranks(found.model, "LayerNormalization") == {2: BLOCKS}
    assert sum(n.op_type == "Reshape" for n in found.model.graph.node) <= 2 + 2 * BLOCKS * ("heads" in name)
    assert found.final.cost < found.initial.cost
    assert compare_models(model, found.model).equal


@pytest.mark.parametrize("name", STREAMS)
def test_by_bytes_nothing_is_reshaped_for_it(name: str) -> None:
    found = eqsat.onnx.optimize(STREAMS[name], objective="bytes")
    assert ranks(found.model, "LayerNormalization") == {3: BLOCKS}


def test_what_keeps_its_dimensions_is_left_as_it_is() -> None:
    """A convolution has images: between two of them nothing is flattened."""
    weights = [random("w", 8, 8, 3, 3), random("v", 8, 8, 3, 3)]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    shape = (1, 8, 6, 6)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xy"]
    graph = helper.make_graph(nodes, "images", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert [n.op_type for n in eqsat.onnx.optimize(model).model.graph.node] == ["Conv", "Relu", "Conv", "Add"]


HIDDEN: dict[str, tuple[tuple[int, ...], list[TensorProto], dict[str, Any]]] = {
    "BatchNormalization": ((8, 1, 16), [random(n, 1) for n in ("s", "b", "m")] + [ONE], {}),
    "InstanceNormalization": ((2, 1, 8, 16), [random(n, 1) for n in ("s", "b")], {}),
    "LRN": ((2, 1, 8, 16), [], {"size": 3}),
    "LpNormalization": ((4, 1, 8, 16), [], {"axis": 1}),
    "Softmax": ((4, 8, 16, 1), [], {"axis": -1}),
    "LayerNormalization": ((4, 8, 1, 16), [random(n, 1, 16) for n in ("s", "b")], {"axis": 2}),
    "CumSum": ((4, 8, 1, 16), [AXIS], {}),
}
"""Operators along an axis that has one position: their signatures do not show what they do there."""


def hidden(op: str) -> ModelProto:
    shape, weights, attrs = HIDDEN[op]
    nodes = [
        helper.make_node("Add", ["x", "z"], ["sum"]),
        helper.make_node(op, ["sum", *(w.name for w in weights)], ["made"], **attrs),
        helper.make_node("Add", ["made", "sum"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xzy"]
    graph = helper.make_graph(nodes, "hidden", ends[:2], ends[2:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("op", HIDDEN)
def test_what_an_axis_of_one_position_hides(op: str) -> None:
    model = hidden(op)
    assert compare_models(model, eqsat.onnx.optimize(model, checked=False).model).equal


def opaque(model: ModelProto) -> Opaque:
    return next(node for node in eqsat.onnx.load(model).nodes() if isinstance(node, Opaque))


@pytest.mark.parametrize("op", ["BatchNormalization", "InstanceNormalization", "LRN"])
def test_an_operator_that_hides_something_keeps_its_dimensions(op: str) -> None:
    """Of one channel, the rest looks like one axis; of two it does not."""
    assert not is_loose(opaque(hidden(op)), 1)


def test_an_operator_along_its_last_axis_has_two_dimensions() -> None:
    node = opaque(stream((1, 8, WIDE)))
    assert is_loose(node, 2) and not is_loose(node, 1) and not is_loose(node, 3)


def test_frozen_operators_keep_their_dimensions() -> None:
    found = eqsat.onnx.optimize(STREAMS["numbers"], freeze=["LayerNormalization"])
    assert ranks(found.model, "LayerNormalization") == {3: BLOCKS}


def priced(shape: tuple[int, ...], twice: bool = False, row: bool = False) -> int:
    """What a sum and its normalisation cost, without what they cost in one dimension more in front."""
    nodes = [
        helper.make_node("Add", ["x", "row" if row else "z"], ["s"]),
        helper.make_node("LayerNormalization", ["s", "scale", "bias"], ["y"]),
    ]
    outputs = ["y"]
    if twice:
        nodes.append(helper.make_node("Relu", ["s"], ["r"]))
        outputs.append("r")
    infos = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", "z", *outputs)}
    weights = [random(n, WIDE) for n in ("scale", "bias", "row")]
    graph = helper.make_graph(nodes, "g", [infos["x"], infos["z"]], [infos[n] for n in outputs], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return program_price(eqsat.onnx.load(model), TABLE)


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("row", [False, True])
def test_a_normalised_sum_of_three_dimensions_is_dearer(twice: bool, row: bool) -> None:
    """As onnxruntime joins the two only there, where both sides are whole and nothing else reads the sum."""
    plain, three, four = (priced(shape, twice, row) for shape in ((64, WIDE), (2, 32, WIDE), (2, 4, 8, WIDE)))
    assert plain == four
    joined = 0 if twice or row else TABLE.moved("norm_of_sum", 64 * WIDE, 1, 4)
    assert three - plain == joined


def test_a_product_and_a_row_are_reshaped_in_more_than_two_dimensions() -> None:
    w, b = eq.constant(np.ones((WIDE, 8), np.float32)), eq.constant(np.ones(8, np.float32))

    def price(*shape: int) -> int:
        x = eq.input("x", shape, "float32")
        return program_price(eq.Program([x], {"y": matmul(x, w) + b}), TABLE)

    assert price(2, 32, WIDE) - price(64, WIDE) == 2 * round(TABLE.operators["reshape"])


def windowed(op: str, channels: int) -> int:
    """The price of an operator over windows of an image, for each channel that it makes."""
    weights = [random("w", channels, 16, 3, 3)] if op == "Conv" else []
    attrs: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    node = helper.make_node(op, ["x", *(w.name for w in weights)], ["y"], **attrs)
    shape = (1, 16 if weights else channels, 32, 32)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, channels, 32, 32))
    graph = helper.make_graph([node], "g", [given], [made], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return program_price(eqsat.onnx.load(model), TABLE) // channels


@pytest.mark.parametrize("op", ["Conv", "MaxPool"])
def test_channels_count_in_blocks(op: str) -> None:
    """A runtime keeps 16 side by side: 24 take the room of 32."""
    assert windowed(op, 24) > 1.2 * windowed(op, 48)
    assert windowed(op, 32) < 1.05 * windowed(op, 16)


def test_parts_of_one_dimension_that_stand_together_are_one_axis() -> None:
    """A normalisation of 2 x 2 x 48 cells over 28 x 28 rows, as behind a patch merge, has two axes; where its scale has
    the parts in another order, they stay apart, and parts of two dimensions are no axis."""
    from eqsat.extraction.flattened import _axes  # pyright: ignore[reportPrivateUsage]
    from eqsat.operators.interned import Form
    from eqsat.operators.labels import Label

    def extents(scale: tuple[int, ...], name: str = "b1") -> list[tuple[object, bool]]:
        rows = [Label("map", 28, "b0"), Label("map", 28, "b0")]
        parts = [Label("equivariant", 2, "b1"), Label("equivariant", 2, "b1"), Label("equivariant", 48, name)]
        form = Form(0, (*rows, *parts), ((0, 1, 2, 3, 4), scale), ((0, 1, 2, 3, 4),), (), ())
        return [(x.extent, x.loose) for x in _axes(form, {0, 1})]

    assert extents((2, 3, 4)) == [(784, True), (192, False)]
    assert extents((2, 3, 4), "b2") == [(784, True), (4, False), (48, False)]
    assert len(extents((3, 2, 4))) == 4


def gelu(x: str, out: str, name: str) -> list[NodeProto]:
    parts = [f"{name}.{k}" for k in range(4)]
    return [
        helper.make_node("Div", [x, "root"], [parts[0]]),
        helper.make_node("Erf", [parts[0]], [parts[1]]),
        helper.make_node("Add", [parts[1], "one"], [parts[2]]),
        helper.make_node("Mul", [x, parts[2]], [parts[3]]),
        helper.make_node("Mul", [parts[3], "half"], [out]),
    ]


CONSTANTS = [
    numpy_helper.from_array(np.array(v, np.float32), n) for n, v in {"root": 2**0.5, "one": 1, "half": 0.5}.items()
]


def images() -> ModelProto:
    """Convolutions with functions between them, and then a stream of rows that is written in fewer dimensions."""
    weights = [*CONSTANTS, random("v", 64, 16, 3, 3), random("w", WIDE, 64, 1, 1), random("u", WIDE, WIDE, 1, 1)]
    weights.append(random("bias", WIDE))
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], pads=[1, 1, 1, 1]),
        *gelu("a", "b", "first"),
        helper.make_node("Conv", ["b", "w"], ["c"]),
        *gelu("c", "d", "second"),
        helper.make_node("Conv", ["d", "u"], ["e"]),
        helper.make_node("Transpose", ["e"], ["pixels"], perm=[0, 2, 3, 1]),
        helper.make_node("Reshape", ["pixels", "rows"], ["r0"]),
    ]
    for n in range(BLOCKS):
        weights += [random(f"w{n}", WIDE, WIDE), random(f"s{n}", WIDE), random(f"b{n}", WIDE)]
        nodes += [
            helper.make_node("MatMul", [f"r{n}", f"w{n}"], [f"product{n}"]),
            helper.make_node("Add", [f"product{n}", "bias"], [f"sum{n}"]),
            helper.make_node("Add", [f"r{n}", f"sum{n}"], [f"both{n}"]),
            helper.make_node("LayerNormalization", [f"both{n}", f"s{n}", f"b{n}"], [f"r{n + 1}"]),
        ]
    nodes.append(helper.make_node("Reshape", [f"r{BLOCKS}", "image"], ["last"]))
    nodes.append(helper.make_node("Transpose", ["last"], ["y"], perm=[0, 3, 1, 2]))
    shapes = {"rows": (1, 14 * 14, WIDE), "image": (1, 14, 14, WIDE)}
    weights += [numpy_helper.from_array(np.array(shape, np.int64), n) for n, shape in shapes.items()]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, c, 14, 14)) for n, c in {"x": 16, "y": WIDE}.items()
    ]
    graph = helper.make_graph(nodes, "images", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_is_made_of_images_element_by_element_keeps_their_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    model, proposed = images(), list[Shape]()

    def shapes(flattened: Flattened) -> list[dict[ClassId, Shape]]:
        ways = original(flattened)
        proposed.extend(shape for way in ways for shape in way.values())
        return ways

    original = Flattened.shapes
    monkeypatch.setattr(Flattened, "shapes", shapes)
    found = eqsat.onnx.optimize(model)
    assert (14 * 14, WIDE) in proposed and all(len(shape) > 1 for shape in proposed)
    assert ranks(found.model, "Erf") == {4: 2}
    assert ranks(found.model, "LayerNormalization") == {2: BLOCKS}
    assert compare_models(model, found.model).equal


def test_channels_are_moved_among_the_axes_of_an_image() -> None:
    """A runtime takes in a transpose with the dimensions of an image as it fills its blocks, and no other."""
    found = eqsat.onnx.optimize(images())
    moves = [n for n in found.model.graph.node if n.op_type == "Transpose"]
    assert [list(n.attribute[0].ints) for n in moves] == [[0, 2, 3, 1], [0, 3, 1, 2]]


def test_a_function_that_a_reshape_tears_apart_costs_what_that_adds() -> None:
    x = eq.input("x", (64, WIDE), "float32")
    flat, apart = (64 * WIDE,), TABLE.moved("apart", 64 * WIDE, 1, 4)
    whole = x * eq.sigmoid(x) + 1.0
    gate = eq.sigmoid(x).reshape(flat)

    def more(y: eq.Tensor) -> int:
        """What it costs beside its reshapes, and beyond the function written as a whole."""
        prices = [program_price(eq.Program([x], {"y": out}), TABLE) for out in (y, whole)]
        reshapes = sum(isinstance(node, View) for node in eq.Program([x], {"y": y}).nodes())
        return prices[0] - prices[1] - reshapes * round(TABLE.operators["reshape"])

    assert more(x.reshape(flat) * eq.sigmoid(x.reshape(flat)) + 1.0) == 0  # before it
    assert more(x.reshape(flat) * gate + 1.0) == apart
    assert more((x * eq.sigmoid(x)).reshape(flat) + 1.0) == apart
    assert more(((x * eq.sigmoid(x)).reshape(flat) + 1.0).reshape((WIDE, 64)) * 1.0) > apart  # once
    assert more((x * eq.sigmoid(x) + 1.0).reshape(flat)) == 0  # behind it


def test_a_function_that_reads_what_it_is_of_once_is_none_that_runtimes_join() -> None:
    x = eq.input("x", (64, WIDE), "float32")
    prices = [
        program_price(eq.Program([x], {"y": y}), TABLE)
        for y in (eq.exp(x).reshape((WIDE, 64)) + 1.0, (eq.exp(x) + 1.0).reshape((WIDE, 64)))
    ]
    assert prices[0] == prices[1]
