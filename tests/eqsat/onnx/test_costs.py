"""What results say they cost: what the objective counts, of models as they are written, and never more than before."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from seeds import each_value, some_of

pytestmark = pytest.mark.onnx
onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402
from random_models import random_model  # noqa: E402

import eqsat as eq  # noqa: E402
from eqsat.ir import clock  # noqa: E402
from eqsat.ir.dtypes import NDArray  # noqa: E402
from eqsat.ir.tensors.tensor import View  # noqa: E402
from eqsat.nets import conv_chain, nhwc_converter_net, transformer  # noqa: E402
from eqsat.onnx.bytes import bytes_moved, time_of  # noqa: E402
from eqsat.onnx.check import compare_models  # noqa: E402
from eqsat.onnx.engine import _Run  # noqa: E402  # pyright: ignore[reportPrivateUsage]
from eqsat.onnx.read import read_with_types  # noqa: E402
from eqsat.onnx.write import write_with_owners  # noqa: E402
from eqsat.pricing.table import shipped  # noqa: E402
from eqsat.pricing.views import gather_price, steps_of  # noqa: E402


@pytest.mark.parametrize("seed", some_of(range(6), 4))
def test_a_cost_is_what_the_objective_counts(seed: int) -> None:
    # feature: G8
    model = [nhwc_converter_net(2), transformer(1)][seed] if seed < 2 else random_model(Random(seed))
    fast = eq.onnx.optimize(model, prices=shipped())
    small = eq.onnx.optimize(model, objective="bytes")
    assert (fast.objective, small.objective) == ("time", "bytes")
    for found in (fast, small):
        assert found.cost_after <= found.cost_before
        assert found.initial.bytes_moved == bytes_moved(model).total
        assert found.bytes_moved == bytes_moved(found.model).total
    assert (small.cost_before, small.cost_after) == (small.initial.bytes_moved, small.bytes_moved)
    for m, cost in ((model, fast.cost_before), (fast.model, fast.cost_after)):
        assert cost == time_of(m, *read_with_types(m), shipped())
    assert fast.source is model and (fast.model is model or fast.cost_after < fast.cost_before)


def test_programs_cost_bytes() -> None:
    x = eq.input("x", (1, 8, 4, 4), "float32").layout_transform("NCHW", "NHWC").relu()
    found = eq.optimize(x.layout_transform("NHWC", "NCHW"))
    assert found.objective == "bytes" and found.original.outputs["out"].shape == (1, 8, 4, 4)
    assert (found.cost_before, found.cost_after) == (found.initial.bytes_moved, found.bytes_moved) == (2048, 0)
    assert repr(found) == "<Result: 2048 -> 0 bytes, saturated>"


def test_what_reading_alone_shortens_is_written() -> None:  # feature: I1
    """The search finds nothing in a program that says less than its model: a Slice of all, an Expand to the same."""
    nodes = [
        helper.make_node("Slice", ["x", "zero", "all", "axis"], ["whole"]),
        helper.make_node("Transpose", ["whole"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Expand", ["t", "same"], ["e"]),
        helper.make_node("Softmax", ["e"], ["y"], axis=-1),
    ]
    numbers = {"zero": [0], "all": [99], "axis": [1], "same": [2, 6, 8]}
    constants = [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in numbers.items()]
    ends = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [2, 8, 6]), ("y", [2, 6, 8]))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = eq.onnx.optimize(model)
    assert [n.op_type for n in found.model.graph.node] == ["Transpose", "Softmax"]
    assert found.bytes_moved < found.initial.bytes_moved and found.cost_after < found.cost_before
    assert compare_models(model, found.model).equal
    again = eq.onnx.optimize(found.model)
    assert again.model is found.model or [n.op_type for n in again.model.graph.node] == ["Transpose", "Softmax"]


def _model(nodes: list[Any], constants: dict[str, NDArray], x: tuple[int | str, ...], *outputs: str) -> Any:
    ends = [helper.make_tensor_value_info("x", 1, x)], [helper.make_tensor_value_info(n, 1, None) for n in outputs]
    given = [numpy_helper.from_array(v, n) for n, v in constants.items()]
    graph = helper.make_graph(nodes, "g", *ends, given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("axis", "again"), [(0, False), (-1, False), (1, True)])
def test_a_tensor_joined_to_itself_stays_one_node(axis: int, again: bool) -> None:
    """It is copies of the tensor, which as steps are a Reshape, an Expand and a Reshape."""
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Tanh", ["x"], ["t"])]
    nodes.append(helper.make_node("Concat", ["x", "a" if again else "x", "x"], ["y"], axis=axis))
    nodes.append(helper.make_node("Transpose", ["t"], ["z"], perm=[0, 1]))
    model = _model(nodes, {}, (2, 300), "y", "z")
    found = eq.onnx.optimize(model)
    assert sorted(n.op_type for n in found.model.graph.node) == ["Concat", "Tanh"]
    assert compare_models(model, found.model).equal


@each_value(shape=[("n", 3, "m"), (2, 3, 8), (4, 64, 128)], axis=[1, 2], times=[2, 3])
def test_a_tensor_joined_to_itself_between_transposes_is_a_tile(shape: tuple[Any, ...], axis: int, times: int) -> None:
    """As rotary embeddings have it; a Reshape and an Expand would have to compute open sizes."""
    nodes = [helper.make_node("Transpose", ["x"], ["a"], perm=[0, 2, 1])]
    nodes.append(helper.make_node("Concat", ["a"] * times, ["b"], axis=axis))
    nodes.append(helper.make_node("Transpose", ["b"], ["y"], perm=[0, 2, 1]))
    model = _model(nodes, {}, shape, "y")
    found = eq.onnx.optimize(model, prices=shipped())
    assert [n.op_type for n in found.model.graph.node] == ["Tile"] and found.cost_after < found.cost_before
    assert compare_models(model, found.model).equal


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_a_border_between_reshapes_stays_a_pad(mode: str) -> None:
    """A Gather would read the cells of the border anew, and run one cell at a time."""
    sizes = {"p": np.array([0, 0, 3, 0, 0, 3]), "s": np.array([2, 1, 5, 4, 9]), "t": np.array([2, 20, 9])}
    nodes = [helper.make_node("Reshape", ["x", "s"], ["a"]), helper.make_node("Reshape", ["a", "t"], ["b"])]
    nodes.append(helper.make_node("Pad", ["b", "p"], ["c"], mode=mode))
    nodes.append(helper.make_node("Unsqueeze", ["c", "axis"], ["y"]))
    model = _model(nodes, sizes | {"axis": np.array([1])}, (10, 4, 9), "y")
    found = eq.onnx.optimize(model, objective="bytes")
    assert sorted(n.op_type for n in found.model.graph.node) == ["Pad", "Reshape", "Reshape"]
    assert bytes_moved(found.model).total == 4 * 40 * (9 + 15) and compare_models(model, found.model).equal


def test_a_border_of_a_type_that_runtimes_do_not_pad_is_gathered() -> None:
    rows = np.pad(np.arange(5), (2, 3), "reflect")
    nodes = [helper.make_node("Transpose", ["x"], ["a"], perm=[0, 2, 1]), helper.make_node("Neg", ["a"], ["m"])]
    nodes.append(helper.make_node("Gather", ["m", "i"], ["g"], axis=2))
    nodes.append(helper.make_node("Transpose", ["g"], ["y"], perm=[0, 2, 1]))
    for dtype, wanted in ((5, "Gather"), (6, "Pad")):  # int16, int32
        model = _model(nodes, {"i": rows}, (4, 5, 30), "y")
        for end in (*model.graph.input, *model.graph.output):
            end.type.tensor_type.elem_type = dtype
        found = eq.onnx.optimize(model, prices=shipped())
        assert sorted(n.op_type for n in found.model.graph.node) == sorted(["Neg", wanted])
        assert compare_models(model, found.model).equal


PICKED = {
    "neighbours": [2, 3, 4, 5], "every second one": [0, 2, 4, 6], "from the last on": [9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
    "a border": [1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 8], "anything": [3, 1, 4, 0, 5, 9, 2, 6], "one twice": [4, 4, 5, 6],
}  # fmt: skip


@each_value(
    picked=PICKED,
    place=[((40, 10), 1), (("n", 10), 1), ((10, 2, 3), 0), ((2, 10, 3), -2)],
    objective=["time", "bytes"],
)
def test_what_is_picked_is_written_in_the_cheaper_way(
    picked: str, place: tuple[tuple[int | str, ...], int], objective: str
) -> None:
    """Neighbours that are picked one by one are a Slice, in less time and with as many bytes."""
    shape, axis = place
    turned = [*range(1, len(shape)), 0]
    nodes = [helper.make_node("Transpose", ["x"], ["a"], perm=turned), helper.make_node("Tanh", ["a"], ["b"])]
    nodes.append(helper.make_node("Transpose", ["b"], ["c"], perm=np.argsort(turned).tolist()))
    nodes += [helper.make_node("Gather", ["c", "i"], ["d"], axis=axis), helper.make_node("Neg", ["d"], ["y"])]
    model = _model(nodes, {"i": np.array(PICKED[picked])}, shape, "y")
    program, table = eq.onnx.load(model), shipped() if objective == "time" else None
    (view,) = (n for n in program.nodes() if isinstance(n, View) and n.tag is not None and n.tag.name == "onnx:Gather")
    written = [n.op_type for n in write_with_owners(program, program, table=table)[0].graph.node]
    (kind,) = {"Gather", "Slice", "Pad"} & set(written)
    if table is not None:
        steps = steps_of(view, table)
        assert steps is not None and (kind == "Gather") == (gather_price(view, axis, table) <= steps)
    assert (kind == "Pad") == (picked == "a border")
    assert (kind == "Gather") == (picked in ("anything", "one twice") or (objective == "bytes" and kind != "Pad"))
    found = eq.onnx.optimize(model, objective=objective, prices=table)
    assert kind in [n.op_type for n in found.model.graph.node] and compare_models(model, found.model).equal


@pytest.mark.parametrize(("pad", "kind"), [(1.0, "Pad"), (1e6, "Gather")])
def test_prices_say_how_a_border_is_written(pad: float, kind: str) -> None:
    x = eq.input("x", (40, 10), "float32")
    program = eq.Program([x], {"y": x[:, PICKED["a border"]].relu()})
    table = replace(shipped(), moves={**shipped().moves, "pad": [(4, pad)]})
    written = write_with_owners(program, table=table)[0]
    assert [n.op_type for n in written.graph.node] == [kind, "Relu"]


def test_what_constants_make_costs_nothing() -> None:
    """A runtime computes it ahead: a folded constant that is an output is not dearer than what it replaces, and another
    name of what is computed costs a node."""
    numbers = {"c": np.arange(12, dtype=np.float32).reshape(3, 4)}
    ends = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("Split", ["t"], ["y", "z"], axis=0)]
    mean = helper.make_node("ReduceMean", ["c"], ["m"], axes=[1])
    costs: list[int] = []
    for nodes in (
        [],
        [mean],
        [helper.make_node("Identity", ["c"], ["m"])],
        [helper.make_node("Identity", ["t"], ["m"])],
    ):
        model = _model([*ends, *nodes], numbers, (8, 6), "y", "z", *(["m"] if nodes else []))
        costs.append(time_of(model, *read_with_types(model), shipped()))
    assert costs[0] == costs[1] == costs[2] < costs[3]


def test_a_model_costs_what_its_own_nodes_cost() -> None:
    """Neighbours are picked as a Slice, and a Transpose is done in two, where that is all there is to gain."""
    picked = {"rows": np.arange(3, 13)}
    gather = _model([helper.make_node("Gather", ["x", "rows"], ["y"], axis=1)], picked, (20_000, 16), "y")
    turned = _model(
        [helper.make_node("Transpose", ["x"], ["y"], perm=[0, 1, 4, 2, 5, 3])], {}, (1, 64, 2, 2, 90, 90), "y"
    )
    for model, least, written in ((gather, 0.5, ["Slice"]), (turned, 0.05, ["Transpose", "Transpose"])):
        found = eq.onnx.optimize(model, prices=shipped())
        assert [n.op_type for n in found.model.graph.node if n.op_type != "Reshape"] == written
        assert found.initial.picoseconds is not None and found.final.picoseconds is not None
        assert found.final.picoseconds < (1 - least) * found.initial.picoseconds
        again = eq.onnx.optimize(found.model, prices=shipped())
        assert again.initial.picoseconds == found.final.picoseconds == again.final.picoseconds


def test_a_normalisation_in_parts_stays_whole() -> None:
    """Before opset 17 it is several operators, which a runtime makes one along the last axis alone: to normalise along
    another one would save both Transposes here, and take longer."""

    def normalised(axis: int) -> list[Any]:
        return [
            helper.make_node("ReduceMean", ["a"], ["mean"], axes=[axis]),
            helper.make_node("Sub", ["a", "mean"], ["d"]),
            helper.make_node("Pow", ["d", "two"], ["square"]),
            helper.make_node("ReduceMean", ["square"], ["variance"], axes=[axis]),
            helper.make_node("Add", ["variance", "least"], ["sum"]),
            helper.make_node("Sqrt", ["sum"], ["root"]),
            helper.make_node("Div", ["d", "root"], ["n"]),
        ]

    given: dict[str, NDArray] = {"two": np.array(2, np.float32), "least": np.array(1e-5, np.float32)}
    ends = [
        helper.make_node("Transpose", [x], [y], perm=p) for x, y, p in (("x", "a", [0, 2, 1]), ("n", "y", [0, 2, 1]))
    ]
    last = _model([ends[0], *normalised(-1), ends[1]], given, (2, 32, 50), "y")
    middle = _model([helper.make_node("Relu", ["x"], ["a"]), *normalised(1), helper.make_node("Neg", ["n"], ["y"])],
                    given, (2, 32, 50), "y")  # fmt: skip
    for model in (last, middle):
        model.opset_import[0].version = 13
    whole = _model([helper.make_node("Relu", ["x"], ["a"]), *normalised(-1), helper.make_node("Neg", ["n"], ["y"])],
                   given, (2, 50, 32), "y")  # fmt: skip
    whole.opset_import[0].version = 13
    costs = [time_of(m, *read_with_types(m), shipped()) for m in (whole, middle)]
    assert costs[0] < costs[1]
    found = eq.onnx.optimize(last, prices=shipped()).model
    axes = [list(n.attribute[0].ints) for n in found.graph.node if n.op_type == "ReduceMean"]
    assert axes == [[-1], [-1]] or axes == [[2], [2]]


def test_a_result_that_is_dearer_as_nodes_is_not_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """As nodes the mask needs the sizes of x: where those are dear, that takes longer than what was there."""

    def with_dear_sizes(model: Any, *known: Any) -> int:
        return time_of(model, *known) + 10**9 * sum(n.op_type == "Shape" for n in model.graph.node)

    perm = [1, 0]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=perm),
        helper.make_node("Dropout", ["t", "r", "training"], ["d", "mask"], seed=3),
        helper.make_node("Transpose", ["d"], ["y"], perm=perm),
        helper.make_node("Transpose", ["mask"], ["m"], perm=perm),
    ]
    info = helper.make_tensor_value_info
    ends = [info("x", 1, ["n", 8])], [info("y", 1, ["n", 8]), info("m", onnx.TensorProto.BOOL, ["n", 8])]
    numbers = [numpy_helper.from_array(np.array(v, d), n) for n, v, d in (("r", 0.5, "f4"), ("training", False, "?"))]
    graph = helper.make_graph(nodes, "g", *ends, numbers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert eq.onnx.optimize(model, prices=shipped()).model is not model
    monkeypatch.setattr("eqsat.onnx.bytes.time_of", with_dear_sizes)
    found = eq.onnx.optimize(model, prices=shipped())
    assert found.model is model and found.initial == found.final
    assert list(found.notes) == ["bytes are counted at n = 64"]
    assert found.reported().verdict.startswith("unchanged: the best that was found takes no less time")


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_tensor_joined_to_itself_costs_as_two_tensors_do(axis: int) -> None:
    """Whether it is read as copies of one tensor or as a choice among several, the runtime has one operator for it."""
    relu = [helper.make_node("Relu", ["x"], [name]) for name in "ab"]
    joined = [[*relu[:k], helper.make_node("Concat", ["a", "ab"[k - 1]], ["y"], axis=axis)] for k in (1, 2)]
    models = [_model(nodes, {}, (6, 4, 8), "y") for nodes in joined]
    models += [_model(relu[:k], {}, (6, 4, 8), *"ab"[:k]) for k in (1, 2)]
    costs = [time_of(model, *read_with_types(model), shipped()) for model in models]
    assert costs[1] - costs[0] == pytest.approx(costs[3] - costs[2], abs=2) and costs[3] > costs[2]


def test_a_convolution_of_one_cell_is_no_product_of_matrices() -> None:
    """It costs what it computes, whatever the windows are: what operands of a product in the wrong order cost, no."""

    def price(kernel: int) -> int:
        shape, weights = [1, 64, 28, 28], np.ones((64, 64, kernel, kernel), np.float32)
        node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[kernel // 2] * 4)
        ends = [helper.make_tensor_value_info(name, 1, shape) for name in "xy"]
        graph = helper.make_graph([node], "one", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        return time_of(model, *read_with_types(model), shipped())

    assert 8.5 < price(3) / price(1) < 9.5


def test_what_was_found_is_kept_where_a_further_search_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of the whole run was over, and the model came back as it was."""
    searches: list[Any] = []
    engine_of = _Run.engine

    def engine(run: _Run, *program: Any) -> Any:
        search = engine_of(run, *program)

        def searched(current: Any) -> Any:
            searches.append(current)
            while len(searches) > 1:
                clock.check()
            return search(current)

        return searched

    monkeypatch.setattr(_Run, "engine", engine)
    monkeypatch.setattr("eqsat.onnx.engine.FURTHER", 0.05)
    found = eq.onnx.optimize(conv_chain(), limits=eq.Limits(seconds=20))
    assert len(searches) == 2
    assert (found.initial.bytes_moved, found.bytes_moved, found.checked.difference) == (10240, 4096, None)
