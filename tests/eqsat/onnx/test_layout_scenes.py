"""Pieces of real networks as exporters write them, each with the same piece written so that it moves the fewest bytes:
what is found moves no more.

A scene is written twice by one function: `best` says which of both. Sizes come from the seed.
Long: EQSAT_SEEDS=20 pytest -m slow tests/eqsat/onnx/test_layout_scenes.py
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference

import eqsat as eq
from eqsat.onnx.bytes import bytes_moved
from eqsat.onnx.check import compare_models

pytestmark = pytest.mark.onnx
SEEDS = int(os.environ.get("EQSAT_SEEDS", "3"))


@dataclass
class Net:
    """A model in the making; `best`: with as few moves as there can be."""

    seed: int
    best: bool
    nodes: list[Any] = field(default_factory=list[Any])
    weights: list[TensorProto] = field(default_factory=list[TensorProto])
    inputs: list[Any] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        self.numbers = np.random.default_rng(self.seed)
        self.sizes = random.Random(self.seed)

    def size(self, *choices: int) -> int:
        return self.sizes.choice(choices)

    def input(self, *shape: int) -> str:
        self.inputs.append(helper.make_tensor_value_info(f"x{len(self.inputs)}", TensorProto.FLOAT, shape))
        return self.inputs[-1].name

    def drawn(self, *shape: int) -> NDArray[np.float32]:
        return (self.numbers.standard_normal(shape) / 4).astype(np.float32)

    def constant(self, array: Any) -> str:
        self.weights.append(numpy_helper.from_array(np.array(array, order="C"), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def all(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        return self.all(op, *inputs, **attributes)[0]

    def transposed(self, x: str, *perm: int) -> str:
        return self("Transpose", x, perm=list(perm))

    def reshaped(self, x: str, *shape: int) -> str:
        return self("Reshape", x, self.ints(*shape))

    def cut(self, x: str, axis: int, start: int, stop: int, step: int = 1) -> str:
        return self("Slice", x, *(self.ints(v) for v in (start, stop, axis, step)))

    def model(self, *outputs: str) -> ModelProto:
        names = [f"y{k}" for k in range(len(outputs))]
        self.nodes += [helper.make_node("Identity", [x], [y]) for x, y in zip(outputs, names, strict=True)]
        ends = [helper.make_tensor_value_info(y, TensorProto.FLOAT, None) for y in names]
        graph = helper.make_graph(self.nodes, "scene", self.inputs, ends, self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return shape_inference.infer_shapes(made, strict_mode=True)


def qkv_split(n: Net) -> list[str]:
    """One product for query, key and value, cut into heads: the cuts and the heads vanish into the weights."""
    b, t, h, d = n.size(2, 3), n.size(16, 24), n.size(2, 4), 8
    x, w, out = n.input(b, t, h * d), n.drawn(h * d, 3 * h * d), n.drawn(h * d, h * d)
    if n.best:
        heads = w.reshape(h * d, 3, h, d)
        wide = n.reshaped(x, b, 1, t, h * d)
        q, k, v = (n("MatMul", wide, n.constant(heads[:, j].transpose(1, 0, 2))) for j in range(3))
        k = n.transposed(k, 0, 1, 3, 2)
    else:
        cut = n.reshaped(n("MatMul", x, n.constant(w)), b, t, 3, h, d)
        turned = n.transposed(cut, 2, 0, 3, 1, 4)
        q, k, v = (n("Gather", turned, n.constant(np.int64(j)), axis=0) for j in range(3))
        k = n.transposed(k, 0, 1, 3, 2)
    mixed = n("MatMul", n("Softmax", n("MatMul", q, k), axis=-1), v)
    return [n("MatMul", n.reshaped(n.transposed(mixed, 0, 2, 1, 3), b, t, h * d), n.constant(out))]


def rotary(n: Net) -> list[str]:
    """Rotated halves of heads that were brought before the positions: they are rotated where they are."""
    b, t, h, d = n.size(1, 2), n.size(16, 24), n.size(2, 4), n.size(8, 16)
    x = n.input(b, t, h, d)
    angles = n.drawn(t, d)
    x = x if n.best else n.transposed(x, 0, 2, 1, 3)
    shape = (t, 1, d) if n.best else (t, d)
    turned = n("Concat", n("Neg", n.cut(x, 3, d // 2, d)), n.cut(x, 3, 0, d // 2), axis=3)
    parts = [n("Mul", x, n.constant(f(angles).reshape(shape))) for f, x in ((np.cos, x), (np.sin, turned))]
    y = n("Add", *parts)
    return [y if n.best else n.transposed(y, 0, 2, 1, 3)]


def shared_keys(n: Net) -> list[str]:
    """Keys that several heads share, copied for each: a product broadcasts them."""
    b, t, g, r, d = n.size(1, 2), n.size(16, 24), n.size(2, 3), n.size(2, 4), 8
    q, k = n.input(b, g * r, t, d), n.input(b, g, d, t)
    if n.best:
        return [n.reshaped(n("MatMul", n.reshaped(q, b, g, r, t, d), n.reshaped(k, b, g, 1, d, t)), b, g * r, t, t)]
    copied = n("Expand", n.reshaped(k, b, g, 1, d, t), n.ints(b, g, r, d, t))
    return [n("MatMul", q, n.reshaped(copied, b, g * r, d, t))]


def resized(n: Net) -> list[str]:
    """An axis is moved before an image grows, not behind."""
    b, c, s = n.size(1, 2), n.size(8, 16), n.size(6, 8)
    x = n.input(b, c, s, s)
    x = n.transposed(x, 0, 2, 3, 1) if n.best else x
    scales = np.array([1, 2, 2, 1] if n.best else [1, 1, 2, 2], np.float32)
    y = n(
        "Resize",
        x,
        "",
        n.constant(scales),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    return [n("Relu", y if n.best else n.transposed(y, 0, 2, 3, 1))]


def padded_conv(n: Net) -> list[str]:
    """A pad before a convolution is the convolution's own."""
    c, s = n.size(4, 8), n.size(8, 10)
    x, w = n.input(2, c, s, s), n.constant(n.drawn(c, c, 3, 3))
    if n.best:
        return [n("Conv", n("Relu", x), w, pads=[1, 2, 1, 2])]
    y = n("Pad", n.transposed(n("Relu", x), 0, 2, 3, 1), n.ints(0, 1, 2, 0, 0, 1, 2, 0))
    return [n("Conv", n.transposed(y, 0, 3, 1, 2), w)]


def focus(n: Net) -> list[str]:
    """Every second row and column as channels, by slices that are put together."""
    c, s, o = n.size(3, 4), n.size(8, 12), n.size(4, 8)
    x, w = n.input(2, c, s, s), n.drawn(o, 4 * c, 3, 3)
    order = [(0, 0), (1, 0), (0, 1), (1, 1)]
    if n.best:
        y = n("SpaceToDepth", x, blocksize=2)
        place = [order.index((row, column)) for row in (0, 1) for column in (0, 1)]
        w = w.reshape(o, 4, c, 3, 3)[:, place].reshape(o, 4 * c, 3, 3)
    else:
        parts = [n.cut(n.cut(x, 2, row, s, 2), 3, column, s, 2) for row, column in order]
        y = n("Concat", *parts, axis=1)
    return [n("Conv", y, n.constant(w), pads=[1] * 4)]


def flattened(n: Net) -> list[str]:
    """A product behind a flattening takes the order of what is flattened into its weight."""
    c, s, o = n.size(4, 8), n.size(4, 6), n.size(8, 16)
    x, w = n.input(3, s, s, c), n.drawn(c * s * s, o)
    y = n("Relu", x)
    if n.best:
        return [
            n(
                "MatMul",
                n.reshaped(y, 3, s * s * c),
                n.constant(w.reshape(c, s, s, o).transpose(1, 2, 0, 3).reshape(-1, o)),
            )
        ]
    return [n("MatMul", n("Flatten", n.transposed(y, 0, 3, 1, 2)), n.constant(w))]


def quantised(n: Net) -> list[str]:
    """Layout changes between a quantisation and its inverse, and around them."""
    c, s = n.size(4, 8), n.size(8, 10)
    x, w = n.input(2, c, s, s), n.constant(n.drawn(c, c, 1, 1))
    pair = n.constant(np.float32(0.05)), n.constant(np.uint8(128))
    if n.best:
        y = n("DequantizeLinear", n("QuantizeLinear", x, *pair), *pair)
        return [n("Conv", n("Relu", y), w)]
    y = n("QuantizeLinear", n.transposed(x, 0, 2, 3, 1), *pair)
    y = n("DequantizeLinear", n.transposed(y, 0, 3, 1, 2), *pair)
    y = n("Relu", n.transposed(y, 0, 2, 3, 1))
    return [n("Conv", n.transposed(y, 0, 3, 1, 2), w)]


def shuffled_conv(n: Net) -> list[str]:
    """Channels in another order before a convolution: the weight is in that order."""
    g, c, s = n.size(2, 3), n.size(2, 4), n.size(6, 8)
    x, w = n.input(2, g * c, s, s), n.drawn(8, g * c, 3, 3)
    y = n("Relu", x)
    if n.best:
        return [n("Conv", y, n.constant(w.reshape(8, c, g, 3, 3).transpose(0, 2, 1, 3, 4).reshape(8, g * c, 3, 3)))]
    cut = n.transposed(n.reshaped(y, 2, g, c, s, s), 0, 2, 1, 3, 4)
    return [n("Conv", n.reshaped(cut, 2, g * c, s, s), n.constant(w))]


def window_norm(n: Net) -> list[str]:
    """Windows of an image normalised position by position, and put back."""
    s, k, c = n.size(8, 16), n.size(2, 4), n.size(8, 12)
    x = n.input(2, s, s, c)
    scale, bias = n.constant(n.drawn(c)), n.constant(n.drawn(c))
    if n.best:
        return [n("Add", n("LayerNormalization", x, scale, bias, axis=-1), x)]
    cut = n.transposed(n.reshaped(x, 2, s // k, k, s // k, k, c), 0, 1, 3, 2, 4, 5)
    y = n("LayerNormalization", n.reshaped(cut, -1, k * k, c), scale, bias, axis=-1)
    back = n.transposed(n.reshaped(y, 2, s // k, s // k, k, k, c), 0, 1, 3, 2, 4, 5)
    return [n("Add", n.reshaped(back, 2, s, s, c), x)]


def rolled(n: Net) -> list[str]:
    """An image that is rolled, changed position by position, and rolled back, beside itself."""
    s, c = n.size(8, 16), n.size(4, 8)
    x = n.input(2, s, s, c)

    def roll(y: str, shift: int) -> str:
        for axis in (1, 2):
            y = n("Concat", n.cut(y, axis, shift % s, s), n.cut(y, axis, 0, shift % s), axis=axis)
        return y

    if n.best:
        return [n("Add", n("Sigmoid", x), x)]
    return [n("Add", roll(n("Sigmoid", roll(x, 3)), -3), x)]


def swizzled(n: Net) -> list[str]:
    """Channels by an exclusive or, and back, with a normalisation of other axes between."""
    s, c = n.size(8, 16), n.size(8, 16)
    x = n.input(2, c, s, s)
    table = n.ints(*(i ^ 3 for i in range(c)))
    y = x if n.best else n("Gather", x, table, axis=1)
    y = n("Softmax", y, axis=3)
    return [n("Add", y if n.best else n("Gather", y, table, axis=1), x)]


SCENES: dict[str, Callable[[Net], Sequence[str]]] = {
    f.__name__: f for f in (
        qkv_split, rotary, shared_keys, resized, padded_conv, focus, flattened, quantised, shuffled_conv, window_norm,
        rolled, swizzled,
    )
}  # fmt: skip


def built(name: str, seed: int, best: bool) -> ModelProto:
    """A scene as exporters write it, or with the fewest moves."""
    net = Net(seed, best)
    return net.model(*SCENES[name](net))


def is_at_its_optimum(name: str, seed: int) -> None:
    model, best = built(name, seed, best=False), built(name, seed, best=True)
    compared = compare_models(model, best)
    assert compared.equal and compared.can_fail  # the generator is right
    result = eq.onnx.optimize(model, objective="bytes")
    assert result.checked.difference is None
    before, after, least = (bytes_moved(m).total for m in (model, result.model, best))
    assert before > least == after, (name, seed, before, after, least)


# feature: I4 I5 I7
@pytest.mark.parametrize("name", SCENES)
def test_scenes_are_at_their_optimum(name: str) -> None:
    is_at_its_optimum(name, 0)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", SCENES)
def test_many_scenes(name: str) -> None:
    for seed in range(SEEDS):
        is_at_its_optimum(name, seed)
