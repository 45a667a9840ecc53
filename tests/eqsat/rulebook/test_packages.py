"""Rules of installed packages: read only when they are named, and then only those."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eqsat as eq
from eqsat.cli import main
from eqsat.rulebook import packages
from eqsat.rulebook.packages import origins, rules_of_package

MODULE = '''
import eqsat as eq
from eqsat.ir.law import pointwise, both, implies, inside, same_box, same_value, tensor
from eqsat.ir.rule import Family, Idx

FAMILY = Family("parity")


@FAMILY.rule("parity-of-abs", tags=["normal"])
def parity_of_abs(x: Idx):
    """A number and its distance from zero are even together."""
    return abs(x) % 2, x % 2


@eq.law("neutral-operand")
def neutral_operand():
    """An element-wise function that another operand does not change is its operand."""
    x, y = tensor("x"), tensor("y")
    whole = pointwise("f", x, y)
    return whole, x, same_box(x, y), implies(inside(x), same_value(whole, x))
'''


def install(folder: Path, patch: pytest.MonkeyPatch, name: str, module: str, points: str) -> None:
    """A distribution of one module in a folder on the path, with entry points."""
    (folder / f"{name}.py").write_text(module)
    info = folder / f"{name}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(points)
    patch.setattr(sys, "path", [str(folder), *sys.path])
    patch.delitem(sys.modules, name, raising=False)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    points = "[eqsat.rules]\nparity = parity_package\nfamily = parity_package:FAMILY\nbroken = broken_package\n"
    install(tmp_path, monkeypatch, "parity_package", MODULE, points)
    (tmp_path / "broken_package.py").write_text("1 / 0\n")
    monkeypatch.setenv("EQSAT_DEBUG", "0")
    return tmp_path


TERM = "abs(x) % 2 + 3", {"x": (-9, 9)}


def test_rules_act_only_where_they_are_named(package: Path) -> None:  # feature: J9
    assert str(eq.simplify(*TERM)) == "abs(x) % 2 + 3"
    assert "parity_package" not in sys.modules
    assert str(eq.simplify(*TERM, rules=["parity"])) == "x % 2 + 3"
    assert str(eq.simplify(*TERM, rules=["family"])) == "x % 2 + 3"
    assert str(eq.simplify(*TERM)) == "abs(x) % 2 + 3"


def test_laws_of_a_package(package: Path) -> None:
    x, y = eq.input("x", (8, 8), "int32"), eq.input("y", (4, 8), "int32")
    program = x + eq.compute((4, 8), lambda i, j: y[i, j] * 0).pad(((0, 4), (0, 0)))
    plain, ours = eq.optimize(program), eq.optimize(program, rules=["parity"])
    assert "neutral-operand" in ours.progress.matches and "neutral-operand" not in plain.progress.matches
    assert ours.cost_after <= plain.cost_after
    assert "by " in ours.explain(steps=True)


def test_origins_are_shown_without_an_import(package: Path) -> None:
    found = {o.name: str(o) for o in origins()}
    assert found["parity"] == "parity (package parity-package 1.2, parity_package)"
    assert "parity_package" not in sys.modules
    assert [r.name for r in rules_of_package("family")] == ["parity-of-abs"]


def test_what_is_wrong_with_a_package_is_said(package: Path) -> None:
    with pytest.raises(eq.EqsatError, match="ZeroDivisionError"):
        eq.simplify("x + 0", rules=["broken"])
    with pytest.raises(eq.EqsatError, match="no installed package"):
        rules_of_package("nothing")


def test_on_the_command_line(package: Path, capsys: pytest.CaptureFixture[str]) -> None:  # feature: J9
    assert main(["rules", "check", "parity", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"proved": 2}
    assert main(["rules", "list", "--json"]) == 0
    listed = {r["name"]: r["origin"] for r in json.loads(capsys.readouterr().out)["rules"]}
    assert "parity-package 1.2" in listed["parity-of-abs"] and listed["split-merge"] == "eqsat"
    assert main(["rules", "list"]) == 0
    assert "broken (package parity-package 1.2, broken_package): cannot be read" in capsys.readouterr().out


def test_importing_eqsat_reads_no_package(package: Path) -> None:
    code = "import sys, eqsat; eqsat.simplify('x + 0'); print('parity_package' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(package)!r})\n{code}"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "False"
    assert packages.GROUP == "eqsat.rules"


TARGET = """
from eqsat.backends.targets import TARGETS, Target

MINE = Target("mine", "formulas", TARGETS["numpy"].compile, commands=("optimize",))
OTHER = Target("another", "formulas", None)
"""


def test_targets_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # feature: J9
    points = "[eqsat.targets]\nmine = target_package:MINE\nwrong = target_package:OTHER\n"
    install(tmp_path, monkeypatch, "target_package", TARGET, points)
    x = eq.input("x", (2, 3), "float32")
    y = x.permute_dims((1, 0)).relu().permute_dims((1, 0))
    assert eq.optimize(y).layout_ops == 0 and "target_package" not in sys.modules
    with pytest.raises(eq.EqsatError, match="one of c, mine, numpy, onnx, onnxruntime, opencl, wrong"):
        eq.optimize(y, target="their")
    with pytest.raises(eq.EqsatError, match=r"wrong \(package target-package 1.2.*is no Target named 'wrong'"):
        eq.optimize(y, target="wrong")
    result = eq.optimize(y, target="mine")
    assert result.layout_ops == 0
    found = eq.compile(result.program, target="mine")(x=-np.ones((2, 3), np.float32))
    assert np.array_equal(found, np.zeros((2, 3), np.float32))


TOLD = """
import eqsat as eq

GELU = eq.operator("acme:gelu", "... -> ...", map="...", doc="The usual approximation.")
HALF = eq.pad_value("half", 2.5)
"""


def test_operators_and_pad_values_of_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # feature: J9
    """A signature and a number to try as padding act only where the name of their package's entry is given."""
    points = "[eqsat.operators]\nacme = told_package:GELU\n[eqsat.pad_values]\nacme-pads = told_package\n"
    install(tmp_path, monkeypatch, "told_package", TOLD, points)
    x = eq.input("x", (4, 5, 6), "float32")
    [y] = eq.opaque("acme:gelu", [x.permute_dims((2, 0, 1))], [((6, 4, 5), "float32")])
    y = y.permute_dims((1, 2, 0))
    assert eq.optimize(y).layout_ops == 2 and "told_package" not in sys.modules
    found = eq.optimize(y, rules=["acme"])
    assert found.layout_ops == 0 and found.assumptions and "acme:gelu" in found.assumptions[0]
    kept = eq.optimize(y, rules=["acme"], freeze=[y.node.operands[0]])
    assert kept.layout_ops == 2 and not kept.assumptions
    assert eq.optimize(y).layout_ops == 2

    w, pads = eq.input("w", (32, 64), "float32"), ((0, 0), (8, 8))
    shifted = eq.compute((32, 64), lambda i, j: w[i, j] * 2 - 5)
    pair = eq.opaque("pair", [w.pad(pads, 2.5), shifted.pad(pads, 0)], [((32, 80), "float32")])[0]
    assert [eq.optimize(pair, rules=r).layout_ops for r in (None, ["acme-pads"], [eq.pad_value("no", 3)])] == [2, 1, 2]

    assert main(["rules", "list"]) == 0
    listed = capsys.readouterr().out
    assert "acme (package told-package 1.2, told_package:GELU): acts only where it is named (1)" in listed
    assert "acme:gelu: ... -> ..., map ..." in listed and "half: 2.5" in listed


def test_signatures_of_operators_that_are_wrong() -> None:
    for arguments in (("a:b", "a b"), ("", "a -> a"), ("a:b", "... ... -> ...")):
        with pytest.raises(eq.EqsatError):
            eq.operator(*arguments)
    with pytest.raises(eq.EqsatError, match="both map and reduce"):
        eq.operator("a:b", "n k -> n", map="n", reduce="n")
    [y] = eq.opaque("a:b", [eq.input("x", (2, 3), "float32")], [((2, 3), "float32")])
    with pytest.raises(eq.EqsatError, match="axes for rank 2"):
        eq.optimize(y, rules=[eq.operator("a:b", "n -> n", map="n")])
    with pytest.raises(eq.EqsatError, match="no number"):
        eq.pad_value("none")
