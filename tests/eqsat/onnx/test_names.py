"""Names that a user gave: nodes and values that are kept have them, new nodes are called after what they replace."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from onnx import ModelProto, ValueInfoProto, helper  # noqa: E402
from random_models import random_model  # noqa: E402

import eqsat as eq  # noqa: E402
from eqsat.checking.model_graph import MOVES  # noqa: E402
from eqsat.nets import Net, conv_chain, nhwc_converter_net, window_partition  # noqa: E402

QUICK = eq.Limits(nodes=4000, seconds=20)


def square() -> ModelProto:
    """Moves that types do not show: all tensors have one shape, and what is kept lies behind them."""
    net = Net(3)
    moved = net.add("Transpose", "x", perm=[0, 2, 3, 1])
    hot = net.add("Relu", moved)
    back = net.add("Transpose", hot, perm=[0, 3, 1, 2])
    weight = net.constant(net.random.standard_normal((4, 4, 1, 1)).astype(np.float32))
    y = net.add("Conv", back, weight)
    turned = net.add("Transpose", y, perm=[0, 1, 3, 2])
    z = net.add("Sigmoid", net.add("Add", turned, net.add("Transpose", back, perm=[0, 1, 3, 2])))
    end = net.add("Transpose", z, perm=[0, 1, 3, 2])
    return net.model([("x", (1, 4, 4, 4))], [(end, (1, 4, 4, 4))])


def all_values(model: ModelProto, feeds: dict[str, Any]) -> dict[str, np.ndarray]:
    """Every value of a model, by name."""
    whole = ModelProto()
    whole.CopyFrom(model)
    ends = {o.name for o in model.graph.output}
    names = [o for n in model.graph.node for o in n.output if o]
    whole.graph.output.extend(ValueInfoProto(name=name) for name in names if name not in ends)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(whole.SerializeToString(), options)
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


def feeds_of(model: ModelProto) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    constants = {x.name for x in model.graph.initializer}
    shapes = {x.name: [d.dim_value for d in x.type.tensor_type.shape.dim] for x in model.graph.input}
    kinds = {x.name: helper.tensor_dtype_to_np_dtype(x.type.tensor_type.elem_type) for x in model.graph.input}
    return {
        name: rng.integers(0, 2, shape).astype(kinds[name])
        if kinds[name].kind in "bi"
        else rng.standard_normal(shape).astype(kinds[name])
        for name, shape in shapes.items()
        if name not in constants
    }


def named(model: ModelProto, name: Callable[[int, Any], str]) -> ModelProto:
    """A copy whose nodes are called otherwise."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for place, node in enumerate(copy.graph.node):
        node.name = name(place, node)
    return copy


@pytest.mark.parametrize("drawn", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_kept_values_are_the_same_tensors_and_kept_nodes_the_same_operators(drawn: int) -> None:
    # feature: M3
    models = [
        conv_chain(),
        square(),
        nhwc_converter_net(2),
        window_partition(),
        *(random_model(Random(seed), 10) for seed in range(5, 5 + drawn)),
    ]
    kept, changed = 0, 0
    for number, given in enumerate(models):
        model = named(given, lambda place, node: f"net/{node.op_type.lower()}{place}")
        result = eq.onnx.optimize(model, limits=QUICK)
        nodes = {n.name: n for n in model.graph.node}
        made = list(result.model.graph.node)
        names = [n.name for n in made]
        assert len(set(names)) == len(names) and all(names), number
        assert all(nodes[n.name].op_type == n.op_type for n in made if n.name in nodes), number
        assert all(n.name.split(".")[0] in nodes for n in made), f"{number}: {names}"
        changed += result.model is not model
        feeds = feeds_of(model)
        old, new = all_values(model, feeds), all_values(result.model, feeds)
        for name in old.keys() & new.keys():
            assert old[name].shape == new[name].shape and old[name].dtype == new[name].dtype, (number, name)
            assert np.allclose(old[name], new[name], 1e-3, 1e-4, equal_nan=True), (number, name)
        kept += len(old.keys() & new.keys())
        assert all(n.name in nodes for n in made if n.op_type not in MOVES), names
        ends = {x.name for x in (*model.graph.input, *model.graph.output)}
        for move in result.report.data()["left"]:
            said = [move["node"], move["source"], *move["readers"], move["reason"]]
            quoted = {part for text in said for part in text.split("'")[1::2]}
            assert quoted <= {*names, *ends}, move
    assert changed >= 2 + drawn and kept > 10 + 5 * drawn, (changed, kept)


@pytest.mark.parametrize("kind", ["empty", "one name", "some"])
def test_names_that_are_missing_or_doubled(kind: str) -> None:
    def name(place: int, node: Any) -> str:
        return {"empty": "", "one name": "same", "some": "" if place % 2 else f"n{place}"}[kind]

    model = named(conv_chain(), name)
    result = eq.onnx.optimize(model, limits=QUICK)
    found = [n.name for n in result.model.graph.node]
    assert result.model is not model and all(found) and len(set(found)) == len(found)
    given = {n.name for n in model.graph.node} - {""}
    assert kind == "empty" or given & set(found)
    assert {r for region in result.checked for r in region.after} <= {v.key for v in result.report.after.vertices}


def test_a_second_run_changes_no_name() -> None:
    once = eq.onnx.optimize(square(), limits=QUICK).model
    twice = eq.onnx.optimize(once, limits=QUICK).model
    assert [n.name for n in twice.graph.node] == [n.name for n in once.graph.node]


def test_without_a_check_nodes_have_names_and_new_values_none_of_the_old_ones() -> None:
    model = square()
    result = eq.onnx.optimize(model, limits=QUICK, checked=False)
    feeds = feeds_of(model)
    old, new = all_values(model, feeds), all_values(result.model, feeds)
    assert all(np.allclose(old[n], new[n], 1e-3, 1e-4) for n in old.keys() & new.keys())
    convs = [[n.name for n in m.graph.node if n.op_type == "Conv"] for m in (model, result.model)]
    assert convs[0] == convs[1]


def test_removed_moves_of_models_have_their_laws() -> None:
    # feature: J4
    result = eq.onnx.optimize(square(), limits=QUICK)
    removed = result.reported(seconds=20.0).data()["removed"]
    nodes = {n.name: n.op_type for n in result.source.graph.node}
    assert len(removed) == 5 and all(nodes[r["node"]] == r["operator"] == "Transpose" for r in removed)
    assert all(r["laws"] and r["least"] and r["checked"] in ("proved", "run") for r in removed), removed
    assert "by the laws" in result.explain(steps=True)


# feature: I1
def test_what_is_written_beside_names_goes_with_them() -> None:
    """A node that is kept has its documentation and metadata, and a value that is kept what the model says of it."""
    model = square()
    for place, node in enumerate(model.graph.node):
        node.name, node.doc_string = f"n{place}", f"what n{place} does"
        node.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=f"line {place}")
    shape = {"Relu": (1, 4, 4, 4), "Conv": (1, 4, 4, 4)}
    for node in model.graph.node:
        if node.op_type in shape:
            info = helper.make_tensor_value_info(node.output[0], 1, shape[node.op_type], f"value of {node.name}")
            model.graph.value_info.append(info)
    result = eq.onnx.optimize(model, limits=QUICK).model
    kept = {n.name: n for n in result.graph.node if n.name in {m.name for m in model.graph.node}}
    assert {n.op_type for n in kept.values()} >= {"Relu", "Conv", "Sigmoid"}
    for name, node in kept.items():
        assert node.doc_string == f"what {name} does"
        assert [(x.key, x.value) for x in node.metadata_props] == [("pkg.torch.onnx.stack_trace", f"line {name[1:]}")]
    said = {x.name: x.doc_string for x in result.graph.value_info}
    made = {o: n.name for n in result.graph.node for o in n.output}
    assert "value of" in " ".join(said.values())
    assert all(text == f"value of {made[name]}" for name, text in said.items())
