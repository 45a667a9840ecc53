"""Parts of the results of operators with signatures: taken of their operands, along what their table has, too."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from seeds import some_of

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference

import eqsat as eq
from eqsat.ir.tensors.tensor import Opaque
from eqsat.onnx.bytes import bytes_moved
from eqsat.onnx.check import compare_models
from eqsat.operators.bundles import signature_bundles
from eqsat.operators.cuts import cut_bundles

pytestmark = pytest.mark.onnx


class Model:
    """A chain of operators over one input."""

    def __init__(self, shape: tuple[int, ...], seed: int = 0) -> None:
        self.shape, self.value, self.count = shape, "x", 0
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[TensorProto] = []

    def weight(self, array: Any) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def random(self, *shape: int) -> str:
        return self.weight(self.rng.random(shape).astype(np.float32))

    def add(self, op: str, *rest: str, outputs: int = 1, first: str = "", **attrs: Any) -> list[str]:
        self.count += 1
        names = [f"v{self.count}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, [first or self.value, *rest], names, **attrs))
        self.value = names[0]
        return names

    def conv(self, made: int, read: int, groups: int = 1) -> None:
        self.add("Conv", self.random(made, read // groups, 3, 3), self.random(made), pads=[1] * 4, group=groups)

    def halves(self, axis: int = 1) -> None:
        """Split, and both halves used in their own ways."""
        a, b = self.add("Split", outputs=2, axis=axis)
        (c,), (d,) = self.add("Relu", first=a), self.add("Sigmoid", first=b)
        self.add("Mul", d, first=c)

    def part(self, axis: int, low: int, high: int, step: int = 1) -> None:
        self.add("Slice", *(self.weight(np.array([n], np.int64)) for n in (low, high, axis, step)))

    def model(self) -> ModelProto:
        self.nodes[-1].output[0] = "y"
        types = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", self.shape), ("y", None))]
        graph = helper.make_graph(self.nodes, "parts", types[:1], types[1:], self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return shape_inference.infer_shapes(made, strict_mode=True)


def _optimized(m: Model) -> tuple[int, int, eq.onnx.OnnxResult]:
    model = m.model()
    found = eq.onnx.optimize(model, objective="bytes")
    assert not found.notes and found.checked.difference is None
    compared = compare_models(model, found.model)
    assert compared.equal and compared.can_fail
    return bytes_moved(model).total, bytes_moved(found.model).total, found


def _node(model: ModelProto, op: str) -> Opaque:
    nodes = [n for n in eq.onnx.load(model).nodes() if isinstance(n, Opaque)]
    return next(n for n in nodes if n.op == f"onnx:{op}")


def test_a_split_convolution_is_two() -> None:
    m = Model((2, 16, 15, 13))
    m.conv(32, 16)
    m.halves()
    before, after, found = _optimized(m)
    assert before > 0 == after
    shapes = sorted(w.dims[0] for w in found.model.graph.initializer if len(w.dims) == 4)
    assert shapes == [16, 16]


def test_a_part_passes_pools_and_normalisations_to_the_weights() -> None:
    m = Model((3, 8, 20, 20))
    m.conv(40, 8)
    m.add("BatchNormalization", *(m.random(40) for _ in range(4)))
    m.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    m.part(1, 3, 30, 2)
    before, after, _ = _optimized(m)
    assert before > 0 == after


def test_rows_are_normalised_alone() -> None:
    """The rows that nothing reads are not normalised; the part itself is as large before as after."""
    m = Model((4, 17, 256))
    m.add("LayerNormalization", m.random(256), m.random(256), axis=-1)
    m.part(1, 0, 1)
    _, _, found = _optimized(m)
    assert found.progress.matches["restrict"]


def test_along_what_operators_may_be_cut() -> None:
    m = Model((2, 16, 8, 8))
    m.conv(32, 16)
    plain = _node(m.model(), "Conv")
    names = signature_bundles(plain)[2]
    assert plain.signature is not None and len(cut_bundles(plain)) == 2  # the batch and the channels that it makes
    assert all(plain.signature.role(x) == "map" for x, b in names.items() if b in cut_bundles(plain))
    m = Model((2, 16, 8, 8))
    m.conv(32, 16, groups=4)
    grouped = _node(m.model(), "Conv")
    signature, _, names = signature_bundles(grouped)
    group, made = signature.outputs[0][1]
    assert names[made] in cut_bundles(grouped) and signature.role(group) == "map"
    assert names[group] in cut_bundles(grouped)  # the attribute that counts them is cut with them


def test_groups_stay_whole_where_all_of_them_are_used() -> None:
    m = Model((2, 16, 9, 9))
    m.conv(32, 16, groups=4)
    m.halves()
    before, after, found = _optimized(m)
    assert before == after and found.progress.matches.get("restrict")


def test_a_form_without_a_spelling_is_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a table turns out not to have an operator over a part, the rest of the choices is still there."""
    from eqsat.extraction import respell

    m = Model((2, 16, 14, 14))
    m.conv(32, 16)
    m.halves()

    def none(*_: object) -> None:
        return None

    monkeypatch.setattr(respell, "made_anew", none)
    before, after, found = _optimized(m)
    assert before == after > 0 and found.status == "saturated"


@pytest.mark.parametrize("seed", some_of(range(12), 4))
def test_random_models_keep_their_values(seed: int) -> None:
    """Chains of operators with signatures and of parts along any axis, odd and unit extents among them."""
    r = Random(seed)
    n, c, h, w = r.choice([1, 2, 3]), r.choice([4, 6, 8]), r.choice([1, 5, 8]), r.choice([7, 8])
    m = Model((n, c, h, w), seed)
    for _ in range(r.randint(3, 6)):
        pick = r.randrange(7)
        if pick == 0:
            made = r.choice([2, 6, 12])
            m.conv(made, c)
            c = made
        elif pick == 1:
            m.add("BatchNormalization", *(m.random(c) for _ in range(4)))
        elif pick == 2:
            m.add("LayerNormalization", m.random(w), axis=-1)
        elif pick == 3:
            m.add("Softmax", axis=r.choice([1, 2, -1]))
        elif pick == 4:
            m.add("AveragePool", kernel_shape=[3, 3], pads=[1] * 4)
        elif pick == 5:
            scale = m.weight(np.full(c, 0.05, np.float32)), m.weight(np.full(c, 3, np.uint8))
            m.add("QuantizeLinear", *scale, axis=1)
            m.add("DequantizeLinear", *scale, axis=1)
        else:
            m.add("InstanceNormalization", m.random(c), m.random(c))
        axis = r.randrange(4)
        extent = (n, c, h, w)[axis]
        if axis < 2 and extent > 1:
            step = r.choice([1, 1, 2])
            low = r.randrange(extent - 1)
            high = r.randint(low + 1, extent)
            m.part(axis, low, high, step)
            kept = len(range(low, high, step))
            n, c = (kept, c) if axis == 0 else (n, kept)
    m.add("Abs")
    model = m.model()
    found = eq.onnx.optimize(model, objective="bytes")
    assert found.checked.difference is None
    assert compare_models(model, found.model).equal
