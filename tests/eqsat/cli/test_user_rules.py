"""A user's module of laws and rules acts in `simplify`, in `optimize` and on the command line, from scripts too."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import eqsat as eq
from eqsat.cli import main

MODULE = '''
"""Laws and rules of our own."""

import eqsat as eq
from eqsat.ir.law import both, implies, inside, negation, pointwise, same_box, same_value, select, takes, tensor
from eqsat.ir.rule import Data, Idx

X, Y = tensor("x"), tensor("y")


@eq.rule("and-zero", tags=["normal"], dtypes=["int32"])
def and_zero(x: Data):
    """No bit is left of a number under no mask."""
    return x & 0, 0


@eq.rule("mod-one", tags=["normal"], dtypes=["int32"])
def mod_one(x: Data):
    """Dividing by one leaves nothing."""
    return x % 1, 0


@eq.rule("parity-of-abs", tags=["normal"])
def parity_of_abs(x: Idx):
    """A number and its distance from zero are even together."""
    return abs(x) % 2, x % 2


@eq.law("neutral-operand")
def neutral_operand():
    """An element-wise function that another operand does not change is its operand."""
    whole = pointwise("f", X, Y)
    return whole, X, same_box(X, Y), implies(inside(X), same_value(whole, X))


@eq.law("redundant-mask")
def redundant_mask():
    """Selecting another tensor where the first has its values already is the first."""
    held = implies(both(inside(X), negation(takes("c"))), same_value(X, Y))
    return select("c", X, Y), X, same_box(X, Y), held
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "our_rules.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "our_rules", raising=False)
    return tmp_path


def model(path: Path) -> Path:
    """x plus the padding of nothing: what is left of z after division by one."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Mod", ["z", "one"], ["nothing"]),
        helper.make_node("Pad", ["nothing", "pads"], ["wide"]),
        helper.make_node("Add", ["x", "wide"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(np.array(1, np.int32), "one"),
        numpy_helper.from_array(np.array([0, 0, 4, 0], np.int64), "pads"),
    ]
    x, z, y = (info(n, TensorProto.INT32, s) for n, s in (("x", (8, 8)), ("z", (4, 8)), ("y", (8, 8))))
    graph = helper.make_graph(nodes, "g", [x, z], [y], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return path


def test_rules_and_laws_of_a_module_act_together(folder: Path) -> None:
    ours = importlib.import_module("our_rules")
    x, z = eq.input("x", (8, 8), "int32"), eq.input("z", (4, 8), "int32")
    program = x + eq.compute((4, 8), lambda i, j: z[i, j] & 0).pad(((0, 4), (0, 0)))
    law, rule = ours.neutral_operand, ours.and_zero
    saved: dict[str, eq.Result] = {}
    for name, given in {"none": None, "law": [law], "rule": [rule], "both": [law, rule]}.items():
        saved[name] = eq.optimize(program, rules=given)
    assert {name: r.cost_after for name, r in saved.items()} == {"none": 384, "law": 384, "rule": 384, "both": 0}
    assert "and-zero" in saved["both"].explain() and "neutral-operand" in saved["both"].explain()
    assert str(eq.simplify("abs(x) % 2 + 3", {"x": (-9, 9)}, rules=[ours.parity_of_abs])) == "x % 2 + 3"
    assert str(eq.simplify("abs(x) % 2 + 3", {"x": (-9, 9)})) == "abs(x) % 2 + 3"


def test_a_module_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = model(folder / "model.onnx")
    assert main(["optimize", str(path), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    out = folder / "out.onnx"
    assert main(["optimize", str(path), "--json", "--rules", "our_rules", "-o", str(out), "--verify"]) == 0
    ours = json.loads(capsys.readouterr().out)
    assert ours["rules"]["neutral-operand"] and "neutral-operand" not in plain["rules"]
    assert not any(n.op_type == "Pad" for n in eq.onnx.load_model(out).graph.node)


def test_declared_in_a_script(folder: Path) -> None:
    """What a script or a notebook declares has no module that a worker could import."""
    script = folder / "script.py"
    script.write_text(
        MODULE
        + """
if __name__ == "__main__":
    x, z = eq.input("x", (8, 8), "int32"), eq.input("z", (4, 8), "int32")
    y = x + eq.compute((4, 8), lambda i, j: z[i, j] & 0).pad(((0, 4), (0, 0)))
    print(eq.optimize(y, rules=[neutral_operand, and_zero]).cost_after)
"""
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.strip() == "0", done.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "is not found"),
        ("x = 1", "declares no law, rule, operator or pad value"),
        ("1 / 0", "ZeroDivisionError"),
        ("import nothing_of_this_name", "ModuleNotFoundError"),
    ],
)
def test_bad_modules_are_one_line(
    text: str | None, problem: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (folder / "bad_rules.py").write_text(text)
    sys.modules.pop("bad_rules", None)
    assert main(["optimize", str(model(folder / "model.onnx")), "--rules", "bad_rules"]) == 2
    assert problem in capsys.readouterr().err


def test_a_wrong_rule_of_a_module_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "wrong_rules.py").write_text(
        'import eqsat as eq\nfrom eqsat.ir.rule import Idx, Pos\n\n\n@eq.rule("wrong")\ndef wrong(x: Idx, c: Pos):\n'
        "    return x // c * c, x\n"
    )
    assert main(["optimize", str(model(folder / "model.onnx")), "--rules", "wrong_rules"]) == 2
    assert "refuted at" in capsys.readouterr().err
