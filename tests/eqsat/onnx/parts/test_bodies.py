"""Bodies of If, Loop and Scan are optimised as programs of their own, and the model stays what it was."""

# feature: I1
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper  # noqa: E402

import eqsat.onnx as front  # noqa: E402
from eqsat.models.guarded import check_model  # noqa: E402
from eqsat.models.package import run_session, session  # noqa: E402
from eqsat.onnx.infer import subgraphs  # noqa: E402

pytestmark = pytest.mark.onnx
FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
TURN, BACK = [0, 2, 3, 1], [0, 3, 1, 2]


def info(name: str, kind: int, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def chain(source: str, result: str, prefix: str, op: str = "Relu") -> list[NodeProto]:
    """An operator between transposes that cancel."""
    return [
        helper.make_node("Transpose", [source], [f"{prefix}_t"], perm=TURN),
        helper.make_node(op, [f"{prefix}_t"], [f"{prefix}_r"]),
        helper.make_node("Transpose", [f"{prefix}_r"], [result], perm=BACK),
    ]


def model_of(nodes: list[NodeProto], inputs: list[Any], outputs: list[Any], constants: Any = ()) -> ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def operators(graph: GraphProto) -> list[str]:
    """All operators, those of bodies included."""
    return [op for n in graph.node for op in (n.op_type, *(o for g in subgraphs(n) for o in operators(g)))]


def branches(shape: Any = (2, 3, 4, 5)) -> ModelProto:
    """Both branches read an outer value, and one of them an outer weight; names occur in both."""
    then = helper.make_graph(chain("h", "y1", "a"), "then", [], [info("y1", FLOAT, shape)])
    nodes = [*chain("h", "a_y", "a", "Exp"), helper.make_node("Mul", ["a_y", "w"], ["y2"])]
    other = helper.make_graph(nodes, "else", [], [info("y2", FLOAT, shape)])
    whole = [
        helper.make_node("Neg", ["x"], ["h"]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    w = np.linspace(0.5, 2, 5, dtype=np.float32)
    return model_of(whole, [info("x", FLOAT, shape), info("c", BOOL, [])], [info("y", FLOAT, shape)], [("w", w)])


def loop(growing: bool = False) -> ModelProto:
    """A state that an iteration leaves as large as it was, or makes larger, and what every iteration adds to a pile."""
    nodes = [
        helper.make_node("Identity", ["cond"], ["cond_out"]),
        *chain("s", "r", "a"),
        helper.make_node("Concat", ["r", "r"], ["s_out"], axis=0)
        if growing
        else helper.make_node("Add", ["r", "x"], ["s_out"]),
        *chain("s_out", "pile", "b", "Tanh"),
    ]
    dims = [2, 3, 4, 5]
    ins = [info("i", INT, []), info("cond", BOOL, []), info("s", FLOAT, dims)]
    outs = [info("cond_out", BOOL, []), info("s_out", FLOAT, None if growing else dims)]
    outs += [] if growing else [info("pile", FLOAT, dims)]
    body = helper.make_graph(nodes if not growing else nodes[:5], "body", ins, outs)
    results = ["final"] if growing else ["final", "all"]
    whole = [helper.make_node("Loop", ["n", "", "x"], results, body=body)]
    ends = [info("final", FLOAT, [None, 3, 4, 5])] + ([] if growing else [info("all", FLOAT, [None, *dims])])
    return model_of(whole, [info("x", FLOAT, dims)], ends, [("n", np.array(3, np.int64))])


def scan() -> ModelProto:
    nodes = [
        *chain("slice", "r", "a"),
        helper.make_node("Add", ["state", "r"], ["state_out"]),
        helper.make_node("Neg", ["r"], ["made"]),
    ]
    dims = [2, 3, 4, 5]
    body = helper.make_graph(
        nodes, "body", [info("state", FLOAT, dims), info("slice", FLOAT, dims)],
        [info("state_out", FLOAT, dims), info("made", FLOAT, dims)])  # fmt: skip
    node = helper.make_node("Scan", ["x", "xs"], ["y", "ys"], body=body, num_scan_inputs=1)
    ends = [info("y", FLOAT, dims), info("ys", FLOAT, [6, *dims])]
    return model_of([node], [info("x", FLOAT, dims), info("xs", FLOAT, [6, *dims])], ends)


def nested() -> ModelProto:
    """A branch in a branch, which reads a value of the outer one."""
    inner = helper.make_graph(chain("t", "i1", "a"), "inner", [], [info("i1", FLOAT, [2, 3, 4, 5])])
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["t"]),
        helper.make_node("If", ["c"], ["o1"], then_branch=inner, else_branch=inner),
    ]
    outer = helper.make_graph(nodes, "outer", [], [info("o1", FLOAT, [2, 3, 4, 5])])
    plain = helper.make_graph([helper.make_node("Neg", ["x"], ["n1"])], "plain", [], [info("n1", FLOAT, [2, 3, 4, 5])])
    node = helper.make_node("If", ["c"], ["y"], then_branch=outer, else_branch=plain)
    ends = [info("x", FLOAT, [2, 3, 4, 5]), info("c", BOOL, [])]
    return model_of([node], ends, [info("y", FLOAT, [2, 3, 4, 5])])


MODELS: dict[str, Any] = {
    "branches": branches,
    "symbolic branches": lambda: branches(("N", 3, 4, "M")),
    "loop": loop,
    "growing loop": lambda: loop(True),
    "scan": scan,
    "nested": nested,
}


@pytest.mark.parametrize("name", MODELS)
def test_bodies_lose_their_transposes(name: str) -> None:
    model = MODELS[name]()
    result = front.optimize(model)
    after = result.model
    check_model(after)
    assert "Transpose" in operators(model.graph) and "Transpose" not in operators(after.graph), result.notes
    random = np.random.default_rng(0)
    for flag in (True, False):
        feeds: dict[str, Any] = {}
        for x in model.graph.input:
            shape = [d.dim_value or 5 for d in x.type.tensor_type.shape.dim]
            feeds[x.name] = np.array(flag) if x.name == "c" else random.standard_normal(shape).astype(np.float32)
        wanted = run_session(session(model), feeds)
        for a, b in zip(wanted, run_session(session(after), feeds), strict=True):
            np.testing.assert_array_equal(a, b)
    assert any("programs of their own" in n for n in result.notes)


def test_values_in_bodies_keep_their_names() -> None:
    model = branches()
    result = front.optimize(model)
    inner = [
        {o for n in m.graph.node for a in n.attribute for c in a.g.node for o in c.output}
        for m in (model, result.model)
    ]
    assert result.model is not model and inner[1] and inner[1] <= inner[0]


def test_bodies_may_read_strings_from_outside() -> None:
    """Programs have no type for them, and what else a body does gets shorter."""
    text = TensorProto.STRING

    def branch(name: str, op: str) -> GraphProto:
        nodes = [*chain("h", f"y{name}", name, op), helper.make_node("Transpose", ["t"], [f"s{name}"], perm=[1, 0])]
        ends = [info(f"y{name}", FLOAT, (2, 3, 4, 5)), info(f"s{name}", text, (2, 3))]
        return helper.make_graph(nodes, name, [], ends)

    nodes = [
        helper.make_node("Neg", ["x"], ["h"]),
        helper.make_node("Transpose", ["s"], ["t"], perm=[1, 0]),
        helper.make_node("If", ["c"], ["y", "z"], then_branch=branch("a", "Relu"), else_branch=branch("b", "Exp")),
    ]
    ins = [info("x", FLOAT, (2, 3, 4, 5)), info("s", text, (2, 3)), info("c", BOOL, [])]
    model = model_of(nodes, ins, [info("y", FLOAT, (2, 3, 4, 5)), info("z", text, (2, 3))])
    best = front.optimize(model)
    check_model(best.model)
    assert operators(best.model.graph).count("Transpose") == 3, best.notes
    x, words = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype("f4"), np.array([list("abc"), list("def")])
    for c in (False, True):
        feeds: dict[str, Any] = {"x": x, "s": words.astype(object), "c": np.array(c)}
        for one, other in zip(session(model).run(None, feeds), session(best.model).run(None, feeds), strict=True):
            assert np.array_equal(one, other)


def test_a_body_that_is_no_program_stays() -> None:
    """The branches read a sequence, whose type programs do not model; nothing else is lost."""
    then = helper.make_graph(
        [helper.make_node("SequenceAt", ["q", "zero"], ["e"]), *chain("e", "y1", "a")], "then", [],
        [info("y1", FLOAT, [2, 3, 4, 5])])  # fmt: skip
    nodes = [
        *chain("x", "h", "o"),
        helper.make_node("SequenceConstruct", ["h", "h"], ["q"]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=then),
    ]
    ends = [info("x", FLOAT, [2, 3, 4, 5]), info("c", BOOL, [])]
    model = model_of(nodes, ends, [info("y", FLOAT, [2, 3, 4, 5])], [("zero", np.array(0, np.int64))])
    result = front.optimize(model)
    assert [op for op in operators(result.model.graph) if op == "Transpose"] == ["Transpose"] * 4
    assert any("stays as it is" in n and "'q'" in n for n in result.notes)


def test_a_body_that_fails_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from eqsat.onnx.parts import bodies

    def broken(*args: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(bodies, "put_back", broken)
    monkeypatch.setenv("EQSAT_DEBUG", "0")
    model = branches()
    result = front.optimize(model)
    assert operators(result.model.graph) == operators(model.graph)
    assert any("a defect of eqsat" in n for n in result.notes)


# feature: I9
def test_what_is_done_in_bodies_is_said() -> None:
    """The verdict counts moves in bodies, each that stays there has its reason, and each body its check."""
    model = branches()
    other = next(a.g for a in model.graph.node[1].attribute if a.name == "else_branch")
    del other.node[:]
    other.node.extend(
        [
            helper.make_node("Transpose", ["h"], ["a"], perm=TURN),
            helper.make_node("Mul", ["a", "a"], ["b"]),
            helper.make_node("Transpose", ["b"], ["c1"], perm=TURN),
            helper.make_node("Reshape", ["c1", "shape"], ["y2"]),
        ]
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array([2, 3, 4, 5]), "shape"))
    found = front.optimize(model, objective="bytes")
    report = found.report
    assert report.verdict == "better parts: 3 of 4 moves gone in 2 of 2"
    (left,) = found.left
    assert (left.inside, left.moved) == ("else_branch of If 'y'", 2 * 4 * 120)
    assert "is given in its order" in left.reason
    assert [part for part, _ in found.parts] == ["else_branch of If 'y'", "then_branch of If 'y'"]
    assert all(x.checked.difference is None and len(list(x.checked)) == 1 for _, x in found.parts)
    text = found.summary()
    assert f"left: {left.name} in else_branch of If 'y'" in text and "left: no move" not in text
    assert "then_branch of If 'y': no bytes are moved any more: 2 of 2 moves gone; checked: 1 of 1" in text
    assert [x["moves"] for x in report.data()["inside"]] == [[2, 1], [2, 0]]


def test_a_model_that_gains_in_bodies_alone_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    from eqsat.onnx import confirm

    seen: list[tuple[ModelProto, ModelProto]] = []

    def never(before: ModelProto, after: ModelProto) -> confirm.Confirmation:
        seen.append((before, after))
        return confirm.Confirmation(1.0, 1.0, 10, False)

    monkeypatch.setattr(confirm, "confirm", never)
    model = branches()
    found = front.optimize(model, confirm=True)
    assert len(seen) == 1 and seen[0][0] is model and operators(seen[0][1].graph) != operators(model.graph)
    assert found.model is model and not found.parts and found.report.verdict.startswith("unchanged: it was not faster")
