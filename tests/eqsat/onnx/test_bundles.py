"""Layouts inside the dimensions of operators with several operands: every chain ends where no byte has to move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, shape_inference  # noqa: E402

import eqsat as eq  # noqa: E402
from eqsat.ir.dtypes import NDArray  # noqa: E402
from eqsat.onnx.bytes import bytes_moved  # noqa: E402
from eqsat.onnx.check import compare_models  # noqa: E402

pytestmark = pytest.mark.onnx


class Chain:
    """A model with one value that is changed node by node."""

    def __init__(self, *shape: int, seed: int = 0) -> None:
        self.shape, self.value = shape, "x"
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self.rng = np.random.default_rng(seed)

    def constant(self, array: NDArray) -> str:
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def floats(self, *shape: int) -> str:
        return self.constant(self.rng.uniform(0.5, 1.5, shape).astype(np.float32))

    def add(self, op: str, *inputs: str, **attrs: Any) -> Chain:
        made = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.value, *inputs], [made], **attrs))
        self.value = made
        return self

    def reshape(self, *shape: int) -> Chain:
        return self.add("Reshape", self.constant(np.array(shape, np.int64)))

    def permute(self, *perm: int) -> Chain:
        return self.add("Transpose", perm=perm)

    def shuffle(self, groups: int, *shape: int) -> Chain:
        n, c, h, w = shape
        return self.reshape(n, groups, c // groups, h, w).permute(0, 2, 1, 3, 4).reshape(*shape)

    def quantised(self, scale: float = 0.02, zero: int = 128) -> Chain:
        return self.linear("QuantizeLinear", scale, zero)

    def dequantised(self, scale: float = 0.02, zero: int = 128) -> Chain:
        return self.linear("DequantizeLinear", scale, zero)

    def linear(self, op: str, scale: float, zero: int) -> Chain:
        return self.add(op, self.constant(np.array(scale, np.float32)), self.constant(np.array(zero, np.uint8)))

    def padded(self, *pads: int, value: float = 0.0, dtype: str = "float32") -> Chain:
        return self.add("Pad", self.constant(np.array(pads, np.int64)), self.constant(np.array(value, dtype)))

    def model(self, kind: int = TensorProto.FLOAT) -> ModelProto:
        x = helper.make_tensor_value_info("x", kind, self.shape)
        y = helper.make_tensor_value_info(self.value, kind, None)
        graph = helper.make_graph(self.nodes, "chain", [x], [y], self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return shape_inference.infer_shapes(made)


def shuffle_into_conv() -> Chain:
    x = Chain(1, 24, 14, 14).shuffle(4, 1, 24, 14, 14)
    return x.add("Conv", x.floats(8, 24, 3, 3), x.floats(8), pads=[1] * 4)


def conv_then_shuffle() -> Chain:
    x = Chain(1, 8, 14, 14)
    return x.add("Conv", x.floats(24, 8, 1, 1), x.floats(24)).shuffle(4, 1, 24, 14, 14)


def shuffles_around_conv() -> Chain:
    x = Chain(1, 8, 14, 14).shuffle(2, 1, 8, 14, 14)
    return x.add("Conv", x.floats(24, 8, 3, 3), x.floats(24)).shuffle(4, 1, 24, 12, 12)


def shuffle_between_convs() -> Chain:
    x = Chain(1, 8, 14, 14)
    x.add("Conv", x.floats(12, 8, 1, 1)).add("Relu").shuffle(3, 1, 12, 14, 14)
    return x.add("Conv", x.floats(8, 12, 3, 3), x.floats(8))


def shuffle_depthwise_unshuffle() -> Chain:
    x = Chain(1, 12, 14, 14).shuffle(3, 1, 12, 14, 14)
    x.add("Conv", x.floats(12, 1, 3, 3), x.floats(12), group=12, pads=[1] * 4)
    return x.shuffle(4, 1, 12, 14, 14)


def groups_turned() -> Chain:
    """The order of the groups is free, and that of the channels inside of each."""
    x = Chain(1, 24, 6, 6).reshape(1, 2, 3, 2, 2, 6, 6).permute(0, 2, 1, 4, 3, 5, 6).reshape(1, 24, 6, 6)
    x.add("Conv", x.floats(12, 4, 3, 3), x.floats(12), group=6)
    return x.reshape(1, 3, 2, 2, 4, 4).permute(0, 2, 1, 3, 4, 5).reshape(1, 12, 4, 4)


def shuffle_norm_unshuffle() -> Chain:
    x = Chain(2, 12, 5, 5).shuffle(3, 2, 12, 5, 5)
    x.add("BatchNormalization", *(x.floats(12) for _ in range(4)))
    x.add("InstanceNormalization", x.floats(12), x.floats(12))
    return x.add("MaxPool", kernel_shape=[2, 2]).shuffle(4, 2, 12, 4, 4)


def windows_around_norm() -> Chain:
    x = Chain(1, 8, 8, 16).reshape(1, 2, 4, 2, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(4, 16, 16)
    x.add("LayerNormalization", x.floats(16), x.floats(16), axis=-1)
    return x.reshape(1, 2, 2, 4, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(1, 8, 8, 16)


def sandwich() -> Chain:
    x = Chain(1, 6, 8, 8).permute(0, 2, 3, 1).quantised().dequantised().permute(0, 3, 1, 2)
    return x.add("Relu")


def sandwiches() -> Chain:
    x = Chain(1, 6, 8, 8).quantised().dequantised().permute(0, 2, 3, 1).quantised().dequantised()
    return x.add("Relu").quantised().dequantised().permute(0, 3, 1, 2).quantised().dequantised()


def sandwich_by_channel() -> Chain:
    """Scales follow the axis."""
    x = Chain(2, 5, 6, 3).permute(0, 3, 1, 2)
    for op in ("QuantizeLinear", "DequantizeLinear"):
        x.add(op, x.floats(3), x.constant(np.array([120, 128, 140], np.uint8)), axis=1)
    return x.permute(0, 2, 3, 1)


def top_values(axis: int) -> Chain:
    x = Chain(4, 6, 10).permute(1, 2, 0)
    inputs = [x.value, x.constant(np.array([3], np.int64))]
    x.nodes.append(helper.make_node("TopK", inputs, ["v", "i"], axis=axis))
    x.nodes.append(helper.make_node("Transpose", ["i"], ["it"], perm=[2, 0, 1]))
    x.nodes.append(helper.make_node("Cast", ["it"], ["f"], to=TensorProto.FLOAT))
    x.value = "v"
    return x.permute(2, 0, 1).add("Add", "f")


def top_values_of_last() -> Chain:
    return top_values(-1)


def top_values_of_second() -> Chain:
    return top_values(1)


def place_of_greatest() -> Chain:
    x = Chain(4, 6, 10).permute(0, 2, 1).add("ArgMax", axis=1, keepdims=1)
    return x.permute(0, 2, 1).add("Cast", to=TensorProto.FLOAT)


def place_of_greatest_alone() -> Chain:
    x = Chain(4, 6, 5, 10).permute(0, 3, 2, 1).add("ArgMax", axis=1, keepdims=0)
    return x.permute(0, 2, 1).add("Cast", to=TensorProto.FLOAT)


def shuffled_softmax() -> Chain:
    """The axis stays one, its positions come in another order."""
    x = Chain(2, 12, 5).reshape(2, 3, 4, 5).permute(0, 2, 1, 3).reshape(2, 12, 5).add("Softmax", axis=1)
    return x.reshape(2, 4, 3, 5).permute(0, 2, 1, 3).reshape(2, 12, 5)


def shuffled_and_turned_softmax() -> Chain:
    x = Chain(2, 12, 5).reshape(2, 3, 4, 5).permute(0, 3, 2, 1).reshape(2, 5, 12).add("Softmax", axis=-1)
    return x.reshape(2, 5, 4, 3).permute(0, 3, 2, 1).reshape(2, 12, 5)


def shuffle_before_norm() -> Chain:
    x = Chain(7, 12).reshape(7, 3, 4).permute(0, 2, 1).reshape(7, 12)
    x.add("LayerNormalization", x.floats(12), x.floats(12), axis=-1)
    return x.reshape(7, 4, 3).permute(0, 2, 1).reshape(7, 12)


def pad_into_conv() -> Chain:
    x = Chain(1, 8, 14, 14).padded(0, 0, 1, 2, 0, 0, 0, 3)
    return x.add("Conv", x.floats(6, 8, 3, 3), x.floats(6), strides=[2, 2])


def pad_into_padded_conv() -> Chain:
    x = Chain(1, 8, 14, 14).padded(0, 0, 0, 2, 0, 0, 0, 0)
    return x.add("Conv", x.floats(8, 4, 3, 3), pads=[1, 0, 1, 0], dilations=[2, 1], group=2)


def pad_through_relu_into_conv() -> Chain:
    x = Chain(1, 8, 14, 14).padded(0, 0, 1, 1, 0, 0, 1, 1).add("Relu")
    return x.add("Conv", x.floats(6, 8, 3, 3))


def pad_and_shuffle_into_conv() -> Chain:
    x = Chain(1, 8, 14, 14).padded(0, 0, 1, 1, 0, 0, 1, 1).shuffle(2, 1, 8, 16, 16)
    return x.add("Conv", x.floats(6, 8, 3, 3))


def pad_into_average() -> Chain:
    return Chain(1, 8, 14, 14).padded(0, 0, 1, 1, 0, 0, 0, 1).add("AveragePool", kernel_shape=[3, 3], strides=[2, 1])


def pad_into_norm_of_windows() -> Chain:
    return Chain(1, 8, 14, 14).padded(0, 0, 1, 1, 0, 0, 0, 1).add("LpPool", kernel_shape=[3, 3], p=2)


def padded_channels() -> Chain:
    x = Chain(1, 7, 9, 9).padded(0, 1, 0, 0, 0, 0, 0, 0)
    return x.add("Conv", x.floats(2, 8, 3, 3))


CHAINS: list[Callable[[], Chain]] = [
    shuffle_into_conv,
    conv_then_shuffle,
    shuffles_around_conv,
    shuffle_between_convs,
    shuffle_depthwise_unshuffle,
    groups_turned,
    shuffle_norm_unshuffle,
    windows_around_norm,
    sandwich,
    sandwiches,
    sandwich_by_channel,
    top_values_of_last,
    top_values_of_second,
    place_of_greatest,
    place_of_greatest_alone,
    shuffled_softmax,
    shuffled_and_turned_softmax,
    shuffle_before_norm,
    pad_into_conv,
    pad_into_padded_conv,
    pad_through_relu_into_conv,
    pad_and_shuffle_into_conv,
    pad_into_average,
    pad_into_norm_of_windows,
    padded_channels,
]


NEAR = (
    sandwiches,
    conv_then_shuffle,
    shuffle_between_convs,
    top_values_of_second,
    place_of_greatest_alone,
    pad_into_conv,
)
"""To others, which are in every run."""


@pytest.mark.parametrize(
    "chain",
    [pytest.param(c, marks=pytest.mark.slow) if c in NEAR else c for c in CHAINS],
    ids=lambda chain: chain.__name__,
)
def test_no_byte_moves(chain: Callable[[], Chain]) -> None:
    model = chain().model()
    assert bytes_moved(model).total > 0
    result = eq.onnx.optimize(model, objective="bytes")
    assert result.checked.difference is None
    assert compare_models(model, result.model).equal
    assert bytes_moved(result.model).total == 0, [n.op_type for n in result.model.graph.node]


def test_windows_of_a_norm_are_dimensions() -> None:
    """The norm is written over the shape that is there, without a reshape on either side."""
    found = eq.onnx.optimize(windows_around_norm().model(), objective="bytes")
    assert [n.op_type for n in found.model.graph.node] == ["LayerNormalization"]


def test_a_move_beside_quantisation_is_one_of_bytes() -> None:
    x = Chain(1, 6, 8, 8).quantised().dequantised().permute(0, 2, 3, 1)
    for model in (x.model(), x.add("Softmax", axis=-1).model()):
        found = eq.onnx.optimize(model, objective="bytes")
        assert compare_models(model, found.model).equal
        assert bytes_moved(found.model).total == 2 * 6 * 8 * 8
        assert [n.op_type for n in found.model.graph.node][:3] == ["QuantizeLinear", "Transpose", "DequantizeLinear"]


def test_an_operator_whose_axis_follows_its_rank_is_left() -> None:
    """What a norm divides by depends on how many axes follow `axis`."""
    x = Chain(2, 3, 4, 5).permute(0, 3, 1, 2)
    model = x.add("LayerNormalization", x.floats(3, 4), axis=2).permute(0, 2, 3, 1).model()
    found = eq.onnx.optimize(model, objective="bytes")
    assert found.checked.difference is None and compare_models(model, found.model).equal


def average_of_own_padding() -> Chain:
    """Its own padding is not counted, what is padded before is."""
    x = Chain(1, 2, 9, 9).padded(0, 0, 1, 1, 0, 0, 1, 1)
    return x.add("AveragePool", kernel_shape=[3, 3], pads=[1] * 4)


def padded_by_ones() -> Chain:
    x = Chain(1, 8, 9, 9).padded(0, 0, 1, 1, 0, 0, 1, 1, value=1.0)
    return x.add("Conv", x.floats(2, 8, 3, 3))


def padded_by_a_window() -> Chain:
    return Chain(1, 2, 9, 9).padded(0, 0, 3, 0, 0, 0, 0, 0).add("AveragePool", kernel_shape=[3, 3])


def padded_before_a_last_window() -> Chain:
    x = Chain(1, 2, 9, 9).padded(0, 0, 1, 1, 0, 0, 1, 1)
    return x.add("AveragePool", kernel_shape=[3, 3], strides=[3, 3], ceil_mode=1)


def greatest_of_padded() -> Chain:
    return Chain(1, 2, 9, 9).padded(0, 0, 1, 1, 0, 0, 1, 1, value=-np.inf).add("MaxPool", kernel_shape=[3, 3])


@pytest.mark.parametrize(
    "chain",
    [
        average_of_own_padding,
        padded_by_ones,
        padded_by_a_window,
        padded_before_a_last_window,
        greatest_of_padded,
    ],
    ids=lambda chain: chain.__name__,
)
def test_padding_that_an_operator_does_not_do_stays(chain: Callable[[], Chain]) -> None:
    model = chain().model()
    found = eq.onnx.optimize(model, objective="bytes")
    assert found.checked.difference is None and compare_models(model, found.model).equal
    assert "Pad" in [n.op_type for n in found.model.graph.node]


def test_a_maximum_of_integers_pads() -> None:
    x = Chain(1, 2, 9, 9).padded(0, 0, 1, 1, 0, 0, 1, 1, value=-128, dtype="int8").add("MaxPool", kernel_shape=[3, 3])
    model = x.model(TensorProto.INT8)
    found = eq.onnx.optimize(model, objective="bytes")
    assert [n.op_type for n in found.model.graph.node] == ["MaxPool"]
    assert compare_models(model, found.model).equal


@pytest.mark.parametrize("chain", [shuffle_depthwise_unshuffle, sandwich, pad_into_conv], ids=lambda c: c.__name__)
def test_a_batch_of_any_size(chain: Callable[[], Chain]) -> None:
    model = chain().model()
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    del model.graph.value_info[:]
    for tensor in model.graph.initializer:
        target = numpy_helper.to_array(tensor)
        if tensor.data_type == TensorProto.INT64 and target[0] == 1:  # the target of a Reshape
            tensor.CopyFrom(numpy_helper.from_array(np.array([-1, *target[1:]], np.int64), tensor.name))
    found = eq.onnx.optimize(model, objective="bytes")
    assert found.checked.difference is None and compare_models(model, found.model).equal
    assert bytes_moved(found.model).total == 0 < bytes_moved(model).total


def test_a_frozen_operator_takes_up_no_padding() -> None:
    model = pad_into_conv().model()
    found = eq.onnx.optimize(model, objective="bytes", freeze=["onnx:Conv"])
    assert "Pad" in [n.op_type for n in found.model.graph.node]


def test_places_are_counted_in_the_padded_operand() -> None:
    """A maximum that also says where it stands says so in cells of its operand, padding included."""
    x = Chain(1, 2, 9, 9).padded(0, 0, 1, 1, 0, 0, 1, 1, value=-128, dtype="int8")
    x.nodes.append(helper.make_node("MaxPool", [x.value], ["m", "i"], kernel_shape=[3, 3]))
    x.value = "i"
    x.add("Cast", to=TensorProto.INT8)
    x.value, maxima = "m", x.value
    model = x.add("Add", maxima).model(TensorProto.INT8)
    found = eq.onnx.optimize(model)
    assert found.checked.difference is None and compare_models(model, found.model).equal
    assert "Pad" in [n.op_type for n in found.model.graph.node]


ALONG = [
    ("GatherElements", ["x", "i"], {"axis": 1}),
    ("ScatterElements", ["x", "i", "x"], {"axis": 1, "reduction": "add"}),
    ("Mod", ["x", "z"], {"fmod": 1}),
    ("Mod", ["x", "row"], {"fmod": 1}),
]
"""Operators without a formula over operands of one shape, or of extents 1, and what they are told."""


# feature: I5
@pytest.mark.parametrize("perm", [(1, 0, 2), (2, 0, 1), (0, 2, 1)])
@pytest.mark.parametrize(("op", "operands", "attrs"), ALONG, ids=["gather", "scatter", "mod", "mod-row"])
def test_operands_move_together(op: str, operands: list[str], attrs: dict[str, int], perm: tuple[int, ...]) -> None:
    """What all operands have alike may lie in any order; an axis along which the operator works follows."""
    shapes = {"x": (3, 4, 5), "i": (3, 4, 5), "z": (3, 4, 5), "row": (1, 4, 5)}
    names, order = list(dict.fromkeys(operands)), [perm.index(k) for k in range(3)]
    nodes = [helper.make_node("Transpose", [name], [f"{name}t"], perm=perm) for name in names]
    told: dict[str, Any] = attrs | ({"axis": perm.index(attrs["axis"])} if "axis" in attrs else {})
    nodes.append(helper.make_node(op, [f"{name}t" for name in operands], ["r"], **told))
    nodes.append(helper.make_node("Transpose", ["r"], ["y"], perm=order))
    kinds = {"i": TensorProto.INT64}
    ins = [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shapes[name]) for name in names]
    outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes["x"])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", ins, outs), opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    )
    found = eq.onnx.optimize(model)
    assert [n.op_type for n in found.model.graph.node] == [op]
    assert found.checked.difference is None and compare_models(model, found.model).equal


def test_updates_of_whole_rows_move_together() -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["xt"], perm=[0, 2, 1]),
        helper.make_node("Transpose", ["u"], ["ut"], perm=[0, 2, 1]),
        helper.make_node("ScatterND", ["xt", "i", "ut"], ["r"]),
        helper.make_node("Transpose", ["r"], ["y"], perm=[0, 2, 1]),
    ]
    kinds = {"x": (6, 4, 5), "u": (2, 4, 5), "i": (2, 1)}
    ins = [helper.make_tensor_value_info(k, 7 if k == "i" else 1, s) for k, s in kinds.items()]
    graph = helper.make_graph(nodes, "g", ins, [helper.make_tensor_value_info("y", 1, (6, 4, 5))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    found = eq.onnx.optimize(model)
    assert [n.op_type for n in found.model.graph.node] == ["ScatterND"]
    assert compare_models(model, found.model).equal


def test_an_axis_that_only_a_result_has() -> None:
    """OneHot counts its axis in the result, which has one more than the operand."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["xt"], perm=[1, 0]),
        helper.make_node("OneHot", ["xt", "d", "v"], ["r"], axis=-1),
        helper.make_node("Transpose", ["r"], ["y"], perm=[1, 0, 2]),
    ]
    values = np.array([0, 1], np.float32)
    constants = [numpy_helper.from_array(np.array([7]), "d"), numpy_helper.from_array(values, "v")]
    ins, outs = helper.make_tensor_value_info("x", 7, (5, 2)), helper.make_tensor_value_info("y", 1, (5, 2, 7))
    graph = helper.make_graph(nodes, "g", [ins], [outs], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    found = eq.onnx.optimize(model)
    assert [n.op_type for n in found.model.graph.node] == ["OneHot"]
    assert compare_models(model, found.model).equal
