"""Values at the border of an If lie as is best for both sides, and the model stays what it was.

`EQSAT_ONNX_MODELS=2000 pytest -m slow tests/eqsat/onnx/parts/test_borders.py` is the long run.
"""

# feature: I1
from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import permutations
from random import Random
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper  # noqa: E402
from seeds import each_value, some_of  # noqa: E402

import eqsat.onnx as front  # noqa: E402
from eqsat.engine import Limits  # noqa: E402
from eqsat.ir.errors import EqsatError  # noqa: E402
from eqsat.models.guarded import check_model  # noqa: E402
from eqsat.models.package import run_session, session  # noqa: E402
from eqsat.onnx.graphs import nested_nodes  # noqa: E402
from eqsat.onnx.infer import captured  # noqa: E402
from eqsat.onnx.parts import borders  # noqa: E402

pytestmark = pytest.mark.onnx
COUNT = int(os.environ.get("EQSAT_ONNX_MODELS", 300))
SHAPE = (2, 3, 4, 5)
TURN, BACK = (0, 2, 3, 1), (0, 3, 1, 2)
UNARY = ("Relu", "Sigmoid", "Neg", "Abs", "Tanh")


def info(name: str, shape: Any, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def graph_of(nodes: list[NodeProto], result: str, constants: Any = ()) -> GraphProto:
    weights = [numpy_helper.from_array(a, n) for n, a in constants]
    return helper.make_graph(nodes, f"branch_{result}", [], [info(result, None)], weights)


def turned(source: str, result: str, perm: tuple[int, ...] = TURN) -> NodeProto:
    return helper.make_node("Transpose", [source], [result], perm=perm)


def branching(then: list[NodeProto], other: list[NodeProto], result: str = "o") -> NodeProto:
    ends = [graph_of(nodes, nodes[-1].output[0]) for nodes in (then, other)]
    return helper.make_node("If", ["c"], [result], then_branch=ends[0], else_branch=ends[1])


def model_of(nodes: list[NodeProto], shape: Any = SHAPE, conditions: tuple[str, ...] = ("c",)) -> ModelProto:
    inputs = [info("x", shape), *(info(c, [], TensorProto.BOOL) for c in conditions)]
    graph = helper.make_graph(nodes, "g", inputs, [info("y", [None] * 4)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def adjacent() -> ModelProto:
    """Moves on both sides of the border, that undo each other."""
    then = [turned("h", "a", BACK), helper.make_node("Exp", ["a"], ["b"]), turned("b", "y1")]
    other = [turned("h", "a2", BACK), helper.make_node("Relu", ["a2"], ["b2"]), turned("b2", "y2")]
    return model_of([turned("x", "h"), branching(then, other), turned("o", "y", BACK)])


def through() -> ModelProto:
    """A move before branches that is undone behind them."""
    then, other = ([helper.make_node(op, ["h"], [f"r{op}"])] for op in ("Exp", "Relu"))
    return model_of([turned("x", "h"), branching(then, other), turned("o", "y", BACK)])


def far() -> ModelProto:
    """Moves that are undone on the other side, none of which is at the border."""
    then = [helper.make_node("Exp", ["h"], ["a"]), turned("a", "b", BACK), helper.make_node("Relu", ["b"], ["d"])]
    then += [turned("d", "e"), helper.make_node("Tanh", ["e"], ["y1"])]
    other = [helper.make_node("Relu", ["h"], ["y2"])]
    before = [turned("x", "h0"), helper.make_node("Sin", ["h0"], ["h"])]
    return model_of([*before, branching(then, other), helper.make_node("Cos", ["o"], ["o1"]), turned("o1", "y", BACK)])


def inner() -> ModelProto:
    """A move before a branching that is undone in a branching inside of that."""
    deep = branching([turned("h", "i1", BACK)], [turned("h", "i2", BACK)], "i")
    then = [deep, helper.make_node("Relu", ["i"], ["y1"])]
    other = [turned("h", "a", BACK), helper.make_node("Exp", ["a"], ["y2"])]
    return model_of([turned("x", "h"), branching(then, other, "y")])


def several() -> ModelProto:
    """What is read elsewhere, too, may lie in two orders."""
    then = [turned("h", "a", BACK), helper.make_node("Exp", ["a"], ["b"]), turned("b", "y1")]
    other = [turned("h", "a2", BACK), helper.make_node("Relu", ["a2"], ["b2"]), turned("b2", "y2")]
    nodes = [turned("x", "h"), branching(then, other), turned("o", "q", BACK), helper.make_node("Neg", ["h"], ["n"])]
    return model_of([*nodes, turned("n", "n2", BACK), helper.make_node("Add", ["n2", "q"], ["y"])])


def symbolic() -> ModelProto:
    model = through()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    return model


def then_first() -> ModelProto:
    """The branches in the other order in the file."""
    model = several()
    node = next(n for n in model.graph.node if n.op_type == "If")
    both = [a.SerializeToString() for a in node.attribute]
    del node.attribute[:]
    node.attribute.extend(AttributeProto.FromString(data) for data in reversed(both))
    return model


MODELS = {f.__name__: f for f in (adjacent, through, far, inner, several, then_first, symbolic)}


def runs(model: ModelProto, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Inputs for both values of every condition."""
    random = np.random.default_rng(seed)
    names = [x.name for x in model.graph.input if x.type.tensor_type.elem_type == TensorProto.BOOL]
    for number in range(2 ** len(names)):
        feeds: dict[str, Any] = {n: np.array(bool(number >> k & 1)) for k, n in enumerate(names)}
        shape = [d.dim_value or 2 for d in model.graph.input[0].type.tensor_type.shape.dim]
        yield {"x": random.standard_normal(shape).astype(np.float32), **feeds}


def assert_same(model: ModelProto, after: ModelProto) -> None:
    check_model(after)
    before, behind = session(model), session(after)
    for feeds in runs(model):
        for a, b in zip(run_session(before, feeds), run_session(behind, feeds), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def transposes(model: ModelProto) -> int:
    return sum(n.op_type == "Transpose" for n in nested_nodes(model.graph.node))


@each_value(name=MODELS, objective=["bytes", "time"])
def test_moves_cross_borders(name: str, objective: str) -> None:
    model = MODELS[name]()
    result = front.optimize(model, objective=objective, limits=Limits(seconds=300))
    assert transposes(result.model) == 0, result.notes
    assert result.final.cost < result.initial.cost and result.final.bytes_moved == 0
    assert_same(model, result.model)


def test_a_run_never_costs_more() -> None:
    """One branch would gain from another layout, and the other would lose as much as is gained."""
    then = [turned("x", "a"), helper.make_node("Exp", ["a"], ["y1"])]
    other = [
        helper.make_node("Softmax", ["x"], ["b"], axis=1),
        turned("b", "b2"),
        helper.make_node("Relu", ["b2"], ["y2"]),
    ]
    result = front.optimize(model_of([branching(then, other, "y")]), objective="bytes")
    assert result.final.cost <= result.initial.cost
    assert_same(result.source, result.model)


def test_frozen_operators_keep_their_borders() -> None:
    result = front.optimize(through(), freeze=["Exp"])
    assert transposes(result.model) == 2


def test_a_wrong_model_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each branch of the result is compared with what it was."""

    def spoiled(model: ModelProto, which: int, orders: Any) -> ModelProto:
        made = laid(model, which, orders)
        for node in nested_nodes(made.graph.node):
            node.op_type = "Sin" if orders and node.op_type == "Relu" else node.op_type
        return made

    laid = borders.laid
    monkeypatch.setattr(borders, "laid", spoiled)
    monkeypatch.delenv("EQSAT_DEBUG", raising=False)
    model = through()
    result = front.optimize(model)
    assert any("border" in n and "stays as it is" in n for n in result.notes), result.notes
    assert_same(model, result.model)


# -- random models ----------------------------------------------------------------------------------------------------


class Drawn:
    """A random graph of moves (unless it is plain), pointwise operators, softmax, joins and branchings to a depth of
    two."""

    def __init__(self, seed: int, plain: bool = False) -> None:
        self.random, self.count, self.conditions, self.plain = Random(seed), 0, ["c"], plain

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def step(self, there: dict[str, tuple[int, ...]], depth: int) -> list[NodeProto]:
        """One more operator over what is there."""
        r = self.random
        source = r.choice(list(there))
        shape, result = there[source], self.name()
        kind = r.choice(["unary", "unary", "softmax", "add", "if", *(() if self.plain else ("move", "move", "halves"))])
        if kind == "if" and depth < 2:
            return self.branch(there, depth)
        if kind == "move":
            perm = tuple(r.choice([TURN, BACK, (0, 2, 1, 3), (0, 1, 3, 2), (3, 0, 1, 2)]))
            there[result] = tuple(shape[a] for a in perm)
            return [turned(source, result, perm)]
        alike = [x for x, s in there.items() if s == shape]
        there[result] = shape
        if kind == "add":
            return [helper.make_node("Add", [source, r.choice(alike)], [result])]
        if kind == "softmax":
            return [helper.make_node("Softmax", [source], [result], axis=r.randrange(4))]
        if kind == "halves":
            axis, part = r.randrange(4), self.name()
            there[result] = tuple(2 * d if k == axis else d for k, d in enumerate(shape))
            there[part] = shape
            pair = helper.make_node("Concat", [source, r.choice(alike)], [result], axis=axis)
            return [pair, helper.make_node("Split", [result], [part, self.name()], axis=axis)]
        return [helper.make_node(r.choice(UNARY), [source], [result])]

    def branch(self, there: dict[str, tuple[int, ...]], depth: int) -> list[NodeProto]:
        """A branching with one or two results, whose branches read what is there."""
        r = self.random
        results = [self.name() for _ in range(r.choice([1, 1, 2]))]
        graphs: list[GraphProto] = []
        wanted: list[tuple[int, ...]] = []
        for number in range(2):
            own = dict(there)
            nodes = [n for _ in range(r.randrange(1, 3)) for n in self.step(own, depth + 1)]
            ends: list[str] = []
            for k in range(len(results)):
                made = [x for x in own if x not in there] or list(own)
                end, last = r.choice(made), self.name()
                if number == 0:
                    wanted.append(own[end])
                else:
                    fits = [x for x in own if sorted(own[x]) == sorted(wanted[k])]
                    end = r.choice(fits) if fits else ""
                if not end:
                    return []
                perm = next(p for p in permutations(range(4)) if tuple(own[end][a] for a in p) == wanted[k])
                nodes.append(
                    turned(end, last, perm) if perm != (0, 1, 2, 3) else helper.make_node("Neg", [end], [last])
                )
                ends.append(last)
            graphs.append(helper.make_graph(nodes, self.name(), [], [info(e, None) for e in ends]))
        condition = r.choice([*self.conditions, f"c{len(self.conditions)}"][:3])
        self.conditions += [condition] if condition not in self.conditions else []
        there.update(zip(results, wanted, strict=True))
        return [helper.make_node("If", [condition], results, then_branch=graphs[0], else_branch=graphs[1])]

    def model(self) -> ModelProto:
        there: dict[str, tuple[int, ...]] = {"x": SHAPE}
        nodes: list[NodeProto] = []
        for _ in range(self.random.randrange(1, 4)):
            nodes += self.step(there, 0)
        nodes += self.branch(there, 0)
        for _ in range(self.random.randrange(2)):
            nodes += self.step(there, 0)
        read = {x for n in nodes for x in n.input}
        ends = [x for n in nodes for x in n.output if x in there and x not in read]
        nodes += [helper.make_node("Identity", [x], [f"y{k}"]) for k, x in enumerate(ends)]
        made = model_of(nodes, SHAPE, tuple(self.conditions))
        del made.graph.output[:]
        made.graph.output.extend(info(f"y{k}", there[x]) for k, x in enumerate(ends))
        return made


def differences(seeds: range, changed: list[int]) -> Iterator[str]:
    """What goes wrong with the models of some seeds."""
    for seed in seeds:
        model = Drawn(seed).model()
        try:
            result = front.optimize(model, objective="bytes" if seed % 2 else "time")
            assert result.final.cost <= result.initial.cost
            changed += [seed] if any(n[0] != "0" and "borders of If have" in n for n in result.notes) else []
            assert_same(model, result.model)
        except (AssertionError, EqsatError) as error:
            yield f"seed {seed}: {error}\n{onnx.printer.to_text(model)}"


@pytest.mark.parametrize("seed", some_of(range(4), 1))
def test_random_branchings(seed: int) -> None:
    assert list(differences(range(seed, seed + 1), [])) == []


@pytest.mark.parametrize("seed", some_of(range(4), 1))
def test_orders_at_borders_are_undone(seed: int) -> None:
    """Values at borders in orders that are good for nothing."""
    detour(seed)


def detour(seed: int) -> None:
    """A model without moves, with values at the border of each branching in random orders: as cheap as without."""
    plain, random = Drawn(seed, plain=True).model(), Random(seed)
    model = plain
    count = sum(n.op_type == "If" for n in plain.graph.node)
    for which in range(count):
        node = [n for n in model.graph.node if n.op_type == "If"][which]
        met = [x for x in dict.fromkeys((*captured(node), *node.output)) if x[0] != "c"]
        model = borders.laid(model, which, {x: random.choice([TURN, BACK]) for x in met if random.random() < 0.7})
    assert_same(plain, model)
    found = front.optimize(model, objective="bytes", limits=Limits(seconds=300))
    assert_same(plain, found.model)
    assert transposes(found.model) == 0, onnx.printer.to_text(model)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_random_branchings() -> None:
    changed: list[int] = []
    assert list(differences(range(100, 100 + COUNT), changed)) == []
    assert changed
    for seed in range(100, 100 + COUNT // 4):
        detour(seed)
