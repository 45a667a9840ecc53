"""Operators of custom domains whose signature was told: layouts cross them; what nobody can run is not claimed."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

onnx = pytest.importorskip("onnx")

import eqsat as eq  # noqa: E402
from eqsat.checking.verdict import Checked  # noqa: E402
from eqsat.cli import main  # noqa: E402
from eqsat.onnx.ops.custom import telling  # noqa: E402
from eqsat.onnx.stand_ins import compared_with_stand_ins  # noqa: E402

ANY = eq.operator("com.acme::FusedGelu", "... -> ...", map="...")
CHANNELS = eq.operator("com.acme::FusedGelu", "n h w c -> n h w c", map="n h w")
NHWC, NCHW = [0, 2, 3, 1], [0, 3, 1, 2]


def model(first: list[int] = NHWC, second: list[int] = NCHW, typed: bool = True, **attrs: Any) -> Any:
    """A custom operator between two Transposes, and a Relu; typed: with value_info of what it makes."""
    h, kind = onnx.helper, onnx.TensorProto.FLOAT
    given = [1, 16, 8, 4]
    inner = [given[k] for k in first]
    nodes = [
        h.make_node("Transpose", ["x"], ["a"], perm=first),
        h.make_node("FusedGelu", ["a"], ["b"], domain="com.acme", name="gelu", **attrs),
        h.make_node("Transpose", ["b"], ["c"], perm=second),
        h.make_node("Relu", ["c"], ["y"]),
    ]
    ends = [h.make_tensor_value_info(n, kind, s) for n, s in (("x", given), ("y", [inner[k] for k in second]))]
    info = [h.make_tensor_value_info("b", kind, inner)] if typed else []
    graph = h.make_graph(nodes, "g", ends[:1], ends[1:], value_info=info)
    made = h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.acme", 3)])
    made.ir_version = 8
    return made


def kinds(found: Any) -> list[str]:
    return [n.op_type for n in found.model.graph.node]


@pytest.mark.parametrize("typed", [True, False])
def test_layouts_cross_an_operator_that_was_told_of(typed: bool) -> None:  # feature: G21
    """Its attributes, opset and name stay; types come from the model, else from the labels."""
    given = model(typed=typed, alpha=0.5, mode="tanh", k=[1, 2])
    assert kinds(eq.onnx.optimize(given)) == ["Transpose", "FusedGelu", "Transpose", "Relu"]
    found = eq.onnx.optimize(given, rules=[ANY])
    assert kinds(found) == ["FusedGelu", "Relu"]
    onnx.checker.check_model(found.model)
    node, old = found.model.graph.node[0], given.graph.node[1]
    assert (node.domain, node.name) == (old.domain, old.name)
    assert {a.name: a for a in node.attribute} == {a.name: a for a in old.attribute}
    assert found.assumptions == (ANY.assumption,)
    # Nothing here can run the operator: no region is claimed to be checked, and it is said what was compared instead.
    assert [r.verdict for r in found.checked.regions] == ["neither"]
    assert any("cannot be run here" in note for note in found.notes)


def test_fixed_axes_stay_in_place() -> None:  # feature: G21
    assert kinds(eq.onnx.optimize(model(), rules=[CHANNELS])) == ["Transpose", "FusedGelu", "Transpose", "Relu"]
    turned = model([0, 2, 1, 3], [0, 2, 1, 3])
    assert kinds(eq.onnx.optimize(turned, rules=[CHANNELS])) == ["FusedGelu", "Relu"]


def test_a_signature_that_does_not_fit_is_not_used() -> None:
    wrong = eq.operator("com.acme::FusedGelu", "a b -> a b", map="a b")
    found = eq.onnx.optimize(model(), rules=[wrong])
    assert kinds(found) == ["Transpose", "FusedGelu", "Transpose", "Relu"] and found.assumptions == ()
    assert any("no node of this name fits" in note for note in found.notes)
    with pytest.raises(eq.EqsatError, match="another signature"):
        eq.onnx.optimize(model(), rules=[ANY, CHANNELS])


def test_the_comparison_with_stand_ins_can_fail() -> None:
    """Under the signature, an operator before another Transpose is not the one after it."""
    with telling({ANY.name: ANY}):
        before, other = (eq.onnx.load(model(p, NCHW)) for p in (NHWC, [0, 2, 3, 1]))
        same, notes = compared_with_stand_ins(Checked(), before, other, 5.0)
        wrong = eq.onnx.load(model(NHWC, NCHW, alpha=2.0))
        found, _ = compared_with_stand_ins(Checked(), before, wrong, 5.0)
    assert same.difference is None and notes and found.difference is not None


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # feature: G21, J9
    (tmp_path / "acme_signatures.py").write_text(
        textwrap.dedent("""
        import eqsat as eq
        GELU = eq.operator("com.acme::FusedGelu", "... -> ...", map="...")
        """)
    )
    monkeypatch.chdir(tmp_path)
    onnx.save(model(), "m.onnx")
    assert main(["optimize", "m.onnx", "-o", "best.onnx", "--rules", "acme_signatures"]) == 0
    assert [n.op_type for n in onnx.load("best.onnx").graph.node] == ["FusedGelu", "Relu"]
