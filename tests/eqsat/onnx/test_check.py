"""The comparison of models can fail, and knows when it cannot."""

# feature: I11
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from graph_suite.reseed import reseed_weights  # noqa: E402
from onnx import ModelProto, TensorProto, helper, numpy_helper  # noqa: E402

from eqsat.cli import main  # noqa: E402
from eqsat.nets import Net, channel_shuffle, conv_chain, nhwc_converter_net, window_partition  # noqa: E402
from eqsat.onnx.bytes import bytes_moved  # noqa: E402
from eqsat.onnx.check import compare_models, distance, transpose_mutants  # noqa: E402
from eqsat.onnx.confirm import confirm  # noqa: E402
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


def narrow(kind: int, perm: list[int], name: str = "x_float") -> ModelProto:
    """A model over elements of a type that numpy has not; a value of its has the name that a feed might get."""
    ends = [helper.make_tensor_value_info(n, kind, [4, 6]) for n in ("x", "y")]
    ends[1].type.tensor_type.shape.dim[0].dim_value, ends[1].type.tensor_type.shape.dim[1].dim_value = 6, 4
    nodes = [helper.make_node("Identity", ["x"], [name]), helper.make_node("Transpose", [name], ["y"], perm=perm)]
    if perm == [0, 1]:
        nodes[1] = helper.make_node("Reshape", [name, "s"], ["y"])
    sizes = numpy_helper.from_array(np.array([6, 4]), "s")
    graph = helper.make_graph(nodes, "narrow", ends[:1], ends[1:], [sizes])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("kind", [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2])
def test_types_that_numpy_has_not_are_fed_and_read_by_casts(kind: int) -> None:
    before = narrow(kind, [1, 0])
    same = compare_models(before, narrow(kind, [1, 0], "other"))
    assert same.ok and same.worst == 0.0 and same.mutants == (1, 1) and same.tolerance == 5e-2
    assert [x.name for x in before.graph.input] == ["x"] and before.graph.input[0].type.tensor_type.elem_type == kind
    assert not compare_models(before, narrow(kind, [0, 1])).equal


def test_a_result_over_bfloat16_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [helper.make_node("Transpose", [a], [b], perm=p) for a, b, p in (("x", "t", [1, 0]), ("t", "u", [1, 0]))]
    nodes += [helper.make_node("Transpose", ["u"], ["y"], perm=[1, 0]), helper.make_node("Cast", ["u"], ["z"], to=1)]
    kinds = {"x": (TensorProto.BFLOAT16, [4, "n"]), "y": (TensorProto.BFLOAT16, ["n", 4]), "z": (1, [4, "n"])}
    ends = [helper.make_tensor_value_info(n, k, s) for n, (k, s) in kinds.items()]
    graph = helper.make_graph(nodes, "verified", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    assert main(["optimize", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "o.onnx"), "--verify"]) == 0
    assert "outputs equal" in capsys.readouterr().out
    assert sorted(n.op_type for n in onnx.load(tmp_path / "o.onnx").graph.node) == ["Cast", "Transpose"]
    confirmed = confirm(model, onnx.load(tmp_path / "o.onnx"), seconds=0.05)
    assert confirmed.before > 0 and confirmed.after > 0
