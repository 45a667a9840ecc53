"""The comparison of models can fail, and knows when it cannot."""

# feature: I11
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from graph_suite.reseed import reseed_weights  # noqa: E402
from onnx import ModelProto, numpy_helper  # noqa: E402

from eqsat.nets import Net, channel_shuffle, conv_chain, nhwc_converter_net, window_partition  # noqa: E402
from eqsat.onnx.bytes import bytes_moved  # noqa: E402
from eqsat.onnx.check import compare_models, distance, transpose_mutants  # noqa: E402
from eqsat.onnx.read import read  # noqa: E402
from eqsat.onnx.write import write  # noqa: E402

pytestmark = pytest.mark.onnx

NETS: dict[str, Callable[[], ModelProto]] = {
    "converter": nhwc_converter_net, "chain": conv_chain, "windows": window_partition, "shuffle": channel_shuffle,
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_round_trip_of_the_nets(name: str) -> None:
    before = NETS[name]()
    after = write(read(before))
    onnx.checker.check_model(after, full_check=True)
    result = compare_models(before, after)
    assert result.ok and result.worst == 0.0
    assert len(after.graph.node) <= len(before.graph.node)
    assert bytes_moved(after).total <= bytes_moved(before).total


def flat(model: ModelProto, value: float) -> ModelProto:
    """The model with one constant for every weight."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(np.full_like(array, value), tensor.name))
    return copy


def test_models_with_one_constant_prove_nothing_until_reseeded() -> None:
    before = flat(nhwc_converter_net(), 0.0)
    assert not compare_models(before, before).can_fail
    seeded = reseed_weights(before, seed=1)
    assert compare_models(seeded, seeded).ok
    assert [t.name for t in seeded.graph.initializer] == [t.name for t in before.graph.initializer]
    again = reseed_weights(before, seed=1)
    assert seeded.SerializeToString() == again.SerializeToString()


def test_insensitive_outputs_are_noticed() -> None:
    net = Net()
    x = net.add("MatMul", "x", net.constant(np.zeros((4, 4), np.float32)))
    before = net.model([("x", (2, 4))], [(net.add("Exp", x), (2, 4))])
    result = compare_models(before, before)
    assert result.equal and result.mutants == (0, 0) and not result.can_fail and result.notes


def test_a_wrong_weight_and_a_wrong_name_are_noticed() -> None:
    before = conv_chain()
    wrong = ModelProto()
    wrong.CopyFrom(before)
    array = numpy_helper.to_array(wrong.graph.initializer[0]).copy()
    array[0, 0, 0, 0] += 0.01
    wrong.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, wrong.graph.initializer[0].name))
    result = compare_models(before, wrong)
    assert not result.equal and not result.ok and result.differences
    wrong.CopyFrom(before)
    wrong.graph.node[-1].output[0] = wrong.graph.output[0].name = "other"
    assert not compare_models(before, wrong).equal


def test_differences_before_a_softmax_are_noticed() -> None:
    def net(shift: float) -> ModelProto:
        made = Net()
        x = made.add("MatMul", "x", made.weight(4, 4))
        x = made.add("Add", x, made.constant(np.full(4, shift, np.float32)))
        return made.model([("x", (2, 4))], [(made.add("Softmax", x, axis=-1), (2, 4))])

    # Softmax does not change when all its operands do by the same amount.
    result = compare_models(net(0.0), net(1.0))
    assert not result.equal and all("v" in d for d in result.differences)


def test_every_transpose_of_the_converter_net_is_noticed() -> None:
    before = conv_chain()
    mutants = list(transpose_mutants(before))
    assert len(mutants) == 4
    for mutant in mutants:
        assert not compare_models(before, mutant).equal


def test_distance() -> None:
    nan, inf = np.nan, np.inf
    assert distance(np.array([1.0, nan, inf]), np.array([1.0, nan, inf])) == 0
    for bad in ([1.0, 0.0, inf], [1.0, nan, -inf], [nan, nan, inf]):
        assert distance(np.array([1.0, nan, inf]), np.array(bad)) == inf
    assert distance(np.zeros(2), np.ones(2)) == inf and distance(np.zeros(2), np.zeros(2)) == 0
    assert distance(np.zeros(2, np.int64), np.zeros(2, np.int32)) == inf
    assert distance(np.zeros(2), np.zeros(3)) == inf
    assert distance(np.array([1, 2]), np.array([1, 3])) == inf
