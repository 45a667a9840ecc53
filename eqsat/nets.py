"""Small networks with seeded weights, built by code: for the demo, for tests and for measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from eqsat.ir.dtypes import NDArray

OPSET, IR_VERSION = 17, 8


class Net:
    """A model under construction: every method adds a node and returns the name of its output."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def add(self, op: str, *inputs: str, **attrs: Any) -> str:
        """A node with one output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"n{len(self.nodes)}", **attrs))
        return name

    def constant(self, array: NDArray) -> str:
        """An initialiser."""
        self.constants.append(numpy_helper.from_array(array, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weight(self, *shape: int) -> str:
        """A float32 weight of a scale that keeps activations of one size: 1 / sqrt(fan in)."""
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 100
        return self.constant((self.random.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32))

    def ints(self, *values: int) -> str:
        """A vector of int64."""
        return self.constant(np.array(values, np.int64))

    def transpose(self, x: str, *perm: int) -> str:
        return self.add("Transpose", x, perm=list(perm))

    def nhwc_conv(self, x: str, inputs: int, outputs: int) -> str:
        """A 3x3 convolution of NHWC data, as a converter emits it: between two transposes."""
        y = self.transpose(x, 0, 3, 1, 2)
        y = self.add(
            "Conv", y, self.weight(outputs, inputs, 3, 3), self.weight(outputs), pads=[1, 1, 1, 1], kernel_shape=[3, 3]
        )
        return self.transpose(y, 0, 2, 3, 1)

    def model(
        self, inputs: Sequence[tuple[str, Sequence[int | str]]], outputs: Sequence[tuple[str, Sequence[int | str]]]
    ) -> ModelProto:
        """The finished model, of float32 inputs and outputs."""
        ins = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in inputs]
        outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in outputs]
        graph = helper.make_graph(self.nodes, "net", ins, outs, self.constants)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="eqsat"
        )


def nhwc_converter_net(blocks: int = 20, seed: int = 0) -> ModelProto:
    """A network as NHWC converters emit it: a transpose pair around each convolution, residual adds, a concat, a mean.

    >>> m = nhwc_converter_net(blocks=4)
    >>> sum(n.op_type == "Transpose" for n in m.graph.node)
    8
    """
    net, channels = Net(seed), 8
    x = net.add("Relu", net.nhwc_conv("x", 3, channels))
    middle = x
    for k in range(1, blocks - 1):
        y = net.nhwc_conv(x, channels, channels)
        x = net.add("Relu", net.add("Add", x, y) if k % 2 == 0 else y)
        middle = x if k == blocks // 2 else middle
    x = net.add("Concat", x, middle, axis=3)
    x = net.add("Relu", net.nhwc_conv(x, 2 * channels, channels))
    x = net.add("ReduceMean", x, axes=[1, 2], keepdims=0)
    x = net.add("Softmax", net.add("Add", net.add("MatMul", x, net.weight(channels, 10)), net.weight(10)), axis=-1)
    return net.model([("x", (1, 16, 16, 3))], [(x, (1, 10))])


def conv_chain(seed: int = 0) -> ModelProto:
    """conv - add - relu - conv on NHWC data, each convolution between two transposes.

    >>> [n.op_type for n in conv_chain().graph.node]
    ['Transpose', 'Conv', 'Transpose', 'Add', 'Relu', 'Transpose', 'Conv', 'Transpose']
    """
    net = Net(seed)
    x = net.add("Relu", net.add("Add", net.nhwc_conv("x", 4, 6), net.weight(6)))
    y = net.nhwc_conv(x, 6, 4)
    return net.model([("x", (1, 8, 8, 4))], [(y, (1, 8, 8, 4))])


def window_partition(seed: int = 0, window: int = 4) -> ModelProto:
    """NHWC data cut into windows, an element-wise operator, and put together again.

    >>> [n.op_type for n in window_partition().graph.node]
    ['Reshape', 'Transpose', 'Relu', 'Transpose', 'Reshape']
    """
    net, parts = Net(seed), 16 // window
    x = net.add("Reshape", "x", net.ints(1, parts, window, parts, window, 8))
    x = net.add("Relu", net.transpose(x, 0, 1, 3, 2, 4, 5))
    x = net.add("Reshape", net.transpose(x, 0, 1, 3, 2, 4, 5), net.ints(1, 16, 16, 8))
    return net.model([("x", (1, 16, 16, 8))], [(x, (1, 16, 16, 8))])


def channel_shuffle(groups: int = 4, seed: int = 0) -> ModelProto:
    """A channel shuffle between two 1x1 convolutions.

    >>> [n.op_type for n in channel_shuffle().graph.node]
    ['Conv', 'Reshape', 'Transpose', 'Reshape', 'Conv']
    """
    net = Net(seed)
    x = net.add("Conv", "x", net.weight(16, 8, 1, 1))
    x = net.add("Reshape", x, net.ints(1, groups, 16 // groups, 8, 8))
    x = net.add("Reshape", net.transpose(x, 0, 2, 1, 3, 4), net.ints(1, 16, 8, 8))
    x = net.add("Conv", x, net.weight(8, 16, 1, 1))
    return net.model([("x", (1, 8, 8, 8))], [(x, (1, 8, 8, 8))])


def transformer(layers: int = 2, seed: int = 0, tokens: int = 16, width: int = 32, heads: int = 4) -> ModelProto:
    """An encoder as exporters write it: attention over split and transposed heads, an MLP, residual adds.

    >>> m = transformer(layers=2)
    >>> len(m.graph.node), sum(n.op_type == "Transpose" for n in m.graph.node)
    (59, 8)
    """
    net, each = Net(seed), width // heads
    split, joined = net.ints(1, tokens, heads, each), net.ints(1, tokens, width)
    scale = net.constant(np.array(each**-0.5, np.float32))

    def dense(x: str, inputs: int, outputs: int) -> str:
        return net.add("Add", net.add("MatMul", x, net.weight(inputs, outputs)), net.weight(outputs))

    def normalised(x: str) -> str:
        return net.add("LayerNormalization", x, net.weight(width), net.weight(width), axis=-1)

    def head(x: str, *perm: int) -> str:
        return net.transpose(net.add("Reshape", dense(x, width, width), split), *perm)

    x = "x"
    for _ in range(layers):
        y = normalised(x)
        q, k, v = head(y, 0, 2, 1, 3), head(y, 0, 2, 3, 1), head(y, 0, 2, 1, 3)
        scores = net.add("Softmax", net.add("Mul", net.add("MatMul", q, k), scale), axis=-1)
        y = net.add("Reshape", net.transpose(net.add("MatMul", scores, v), 0, 2, 1, 3), joined)
        x = net.add("Add", x, dense(y, width, width))
        y = net.add("Sigmoid", dense(normalised(x), width, 2 * width))
        x = net.add("Add", x, dense(y, 2 * width, width))
    return net.model([("x", (1, tokens, width))], [(normalised(x), (1, tokens, width))])
